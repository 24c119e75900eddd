//! The trait that every I/O server implements, and what can go wrong in it.

use std::time::Duration;

use trunkline_types::{LibraryDefinition, Reason, Tick, Timestamp, Value};

use crate::{Health, Scan};

/// The number of an item within one I/O server: fixed from its creation, dense from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ItemId(pub u32);

impl ItemId {
    /// The number as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Stands between the engine and one device.
///
/// Values on this side of the engine are raw: the engine scales what is published and un-scales
/// what is sent. An I/O server is driven by one thread at a time and blocks no longer than its
/// device does.
///
/// Order of calls: [`libraries`](Self::libraries) and [`item`](Self::item) at any time, `open`
/// before `scan`, `request` and `send`; `open` again after a failure.
pub trait IoServer: Send {
    /// The variables it offers, as libraries, when the I/O server is configured under `name`; each
    /// variable's `properties.source` is `<name>:<item>`. The same for the whole life of the
    /// server.
    fn libraries(&self, name: &str) -> Vec<LibraryDefinition>;

    /// The item with this name (the part of a variable's `source` after the colon).
    fn item(&self, item: &str) -> Option<ItemId>;

    /// Makes the device ready; the first scan after it publishes every item.
    ///
    /// # Errors
    /// [`IoError`] when the device cannot be used; opening may be tried again later.
    fn open(&mut self, now: Tick, wall: Timestamp) -> Result<(), IoError>;

    /// One acquisition cycle: publishes what was read. Items that did not change may be left out.
    ///
    /// # Errors
    /// [`IoError`] when nothing could be read. What only single items miss is published as their
    /// bad quality instead.
    fn scan(&mut self, now: Tick, wall: Timestamp, scan: &mut Scan) -> Result<(), IoError>;

    /// A client asks for a fresh value of one item; answered by publishing it.
    ///
    /// # Errors
    /// As [`scan`](Self::scan), and for an item that does not exist.
    fn request(
        &mut self,
        item: ItemId,
        now: Tick,
        wall: Timestamp,
        scan: &mut Scan,
    ) -> Result<(), IoError>;

    /// A client's value goes to the device. Returns what the device now holds, which may be another
    /// value than was sent.
    ///
    /// # Errors
    /// [`SendRefusal`] when the device keeps what it had; nothing was changed then.
    fn send(
        &mut self,
        item: ItemId,
        value: &Value,
        now: Tick,
        wall: Timestamp,
    ) -> Result<Value, SendRefusal>;

    /// How it is doing.
    fn health(&self) -> Health;

    /// How often it wants to be scanned unless the configuration says otherwise.
    fn period(&self) -> Duration;
}

/// Why a device could not be opened or read.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IoError {
    /// The device does not answer.
    #[error("{device} cannot be reached: {cause}; check that it is on and connected")]
    Unreachable {
        /// Which device, as people know it.
        device: String,
        /// What was seen.
        cause: String,
    },
    /// The device answers that it is not well.
    #[error("{device} reports a failure: {cause}; the device needs attention")]
    DeviceFailed {
        /// Which device, as people know it.
        device: String,
        /// What it said.
        cause: String,
    },
    /// The operating system does not give what is needed.
    #[error("this system does not provide {what}: {cause}")]
    NotSupported {
        /// What was asked for.
        what: String,
        /// What the system said.
        cause: String,
    },
    /// The caller used the server before it was opened.
    #[error(
        "the I/O server was used before it was opened; the program that drives it must call open first"
    )]
    NotOpen,
    /// The caller named an item that does not exist.
    #[error("there is no item {item} in this I/O server; its {count} items are numbered from 0")]
    UnknownItem {
        /// The number given.
        item: u32,
        /// How many there are.
        count: u32,
    },
}

impl IoError {
    /// The quality reason of the server's variables while this error lasts.
    pub fn reason(&self) -> Reason {
        match self {
            IoError::Unreachable { .. } => Reason::HostUnreachable,
            IoError::DeviceFailed { .. } => Reason::DeviceFailure,
            IoError::NotSupported { .. } => Reason::NotSupported,
            IoError::NotOpen => Reason::Inactive,
            IoError::UnknownItem { .. } => Reason::VariableMissing,
        }
    }
}

/// Why a value was not passed to the device. The device holds what it held before.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendRefusal {
    /// The caller named an item that does not exist.
    #[error("there is no item {item} in this I/O server; its {count} items are numbered from 0")]
    UnknownItem {
        /// The number given.
        item: u32,
        /// How many there are.
        count: u32,
    },
    /// The item is an input of the system.
    #[error("{item} is measured, not set; nothing can be written to it")]
    ReadOnly {
        /// Its name.
        item: String,
    },
    /// The value is of another type.
    #[error("{item} takes a value of type {expected}, not {given}; write one of that type")]
    WrongType {
        /// Its name.
        item: String,
        /// The type it takes.
        expected: String,
        /// The type that was given.
        given: &'static str,
    },
    /// The device takes no such value.
    #[error("{given} is outside {low} to {high} {units}, which {item} takes; write a value inside")]
    OutOfRange {
        /// Its name.
        item: String,
        /// What was given.
        given: f64,
        /// Lowest value taken.
        low: f64,
        /// Highest value taken.
        high: f64,
        /// Unit of all three.
        units: String,
    },
    /// The device's state forbids it now.
    #[error("{item} is refused: {rule}")]
    Interlock {
        /// Its name.
        item: String,
        /// Which rule, on what facts, and what to do about it.
        rule: String,
    },
    /// The device failed to take it.
    #[error("{item} was not taken by the device: {cause}")]
    DeviceFailed {
        /// Its name.
        item: String,
        /// What it said.
        cause: String,
    },
}

/// The name of a value's type, for messages.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "bool",
        Value::I8(_) => "i8",
        Value::I16(_) => "i16",
        Value::I32(_) => "i32",
        Value::I64(_) => "i64",
        Value::U8(_) => "u8",
        Value::U16(_) => "u16",
        Value::U32(_) => "u32",
        Value::U64(_) => "u64",
        Value::F32(_) => "f32",
        Value::F64(_) => "f64",
        Value::String(_) => "string",
        Value::Bytes(_) => "bytes",
        Value::Timestamp(_) => "timestamp",
        Value::Enum(_) => "enum",
        Value::Array(_) => "array",
        Value::Struct(_) => "struct",
        Value::Waveform(_) => "waveform",
        _ => "another type",
    }
}
