//! The trait that every I/O server implements, and its errors.

use std::time::Duration;

use trunkline_types::{LibraryDefinition, Reason, Tick, Timestamp, Value};

use crate::{Health, Scan};

/// The number of an item within one I/O server: fixed from its creation, dense from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ItemId(pub u32);

impl ItemId {
    /// Returns the number as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Connects one device to the engine.
///
/// Values at this interface are raw: the engine scales published values, and unscales values before
/// they are sent. An I/O server is driven by one thread at a time and blocks no longer than its
/// device does.
///
/// Order of calls: [`libraries`](Self::libraries) and [`item`](Self::item) at any time, `open`
/// before `scan`, `request` and `send`; `open` again after a failure.
pub trait IoServer: Send {
    /// Returns the variables that the server offers, as libraries, if it is configured under
    /// `name`. Each variable's `properties.source` is `<name>:<item>`. The result is the same for
    /// the whole life of the server.
    fn libraries(&self, name: &str) -> Vec<LibraryDefinition>;

    /// Returns the item with this name (the part of a variable's `source` after the colon).
    fn item(&self, item: &str) -> Option<ItemId>;

    /// Prepares the device; the first scan after opening publishes every item.
    ///
    /// # Errors
    /// [`IoError`] if the device cannot be used. The caller may try again later.
    fn open(&mut self, now: Tick, wall: Timestamp) -> Result<(), IoError>;

    /// Runs one acquisition cycle and publishes the values read. Items that did not change may be
    /// left out.
    ///
    /// # Errors
    /// [`IoError`] if nothing could be read. If only some items fail, they are published with bad
    /// quality instead.
    fn scan(&mut self, now: Tick, wall: Timestamp, scan: &mut Scan) -> Result<(), IoError>;

    /// Reads a fresh value of one item for a client, and publishes it.
    ///
    /// # Errors
    /// Same as [`scan`](Self::scan), and for an item that does not exist.
    fn request(
        &mut self,
        item: ItemId,
        now: Tick,
        wall: Timestamp,
        scan: &mut Scan,
    ) -> Result<(), IoError>;

    /// Passes a client's value to the device. Returns the value that the device now holds, which
    /// may differ from the one sent.
    ///
    /// # Errors
    /// [`SendRefusal`] if the device keeps its value; nothing has changed in that case.
    fn send(
        &mut self,
        item: ItemId,
        value: &Value,
        now: Tick,
        wall: Timestamp,
    ) -> Result<Value, SendRefusal>;

    /// Returns the current health.
    fn health(&self) -> Health;

    /// Returns the scan period to use unless the configuration sets one.
    fn period(&self) -> Duration;
}

/// The reason why a device could not be opened or read.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum IoError {
    #[error("{device} cannot be reached: {cause}; check that it is on and connected")]
    Unreachable {
        /// Name of the device as users know it.
        device: String,
        cause: String,
    },
    #[error("{device} reports a failure: {cause}; the device needs attention")]
    DeviceFailed {
        /// Name of the device as users know it.
        device: String,
        cause: String,
    },
    #[error("this system does not provide {what}: {cause}")]
    NotSupported { what: String, cause: String },
    #[error(
        "the I/O server was used before it was opened; the program that drives it must call open first"
    )]
    NotOpen,
    #[error("there is no item {item} in this I/O server; its {count} items are numbered from 0")]
    UnknownItem { item: u32, count: u32 },
}

impl IoError {
    /// Returns the quality reason of the server's variables while this error lasts.
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

/// The reason why a value was not passed to the device, which keeps its value.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum SendRefusal {
    #[error("there is no item {item} in this I/O server; its {count} items are numbered from 0")]
    UnknownItem { item: u32, count: u32 },
    /// The item is an input of the system and cannot be written.
    #[error("{item} is an input; it cannot be written")]
    ReadOnly {
        /// Name of the item.
        item: String,
    },
    #[error("{item} takes a value of type {expected}, not {given}; write one of that type")]
    WrongType {
        /// Name of the item.
        item: String,
        /// Type that the item takes.
        expected: String,
        /// Type that was given.
        given: &'static str,
    },
    #[error("{given} is outside {low} to {high} {units}, which {item} takes; write a value inside")]
    OutOfRange {
        /// Name of the item.
        item: String,
        given: f64,
        low: f64,
        high: f64,
        /// Unit of all three.
        units: String,
    },
    #[error("{item} is refused: {rule}")]
    Interlock {
        /// Name of the item.
        item: String,
        /// The rule, the facts that triggered it, and the remedy.
        rule: String,
    },
    #[error("{item} was not taken by the device: {cause}")]
    DeviceFailed {
        /// Name of the item.
        item: String,
        cause: String,
    },
}

/// Returns the name of a value's type, for messages.
pub fn type_name(value: &Value) -> &'static str {
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
    }
}
