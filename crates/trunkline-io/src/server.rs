//! Defines the trait that every I/O server implements, and its errors.

use std::time::Duration;

use trunkline_types::{LibraryDefinition, Reason, Tick, Timestamp, Value};

use crate::{Health, Scan};

/// The number of an item within one I/O server. Items are numbered from 0 without gaps, and keep
/// their numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ItemId(pub u32);

impl ItemId {
    /// Returns the number of the item as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Connects one device to the engine.
///
/// Values at this interface are raw: the engine scales published values, and converts values back
/// before they are sent. One thread at a time uses an I/O server. A call blocks no longer than the
/// device does.
///
/// Order of calls: [`libraries`](Self::libraries) and [`item`](Self::item) at any time; `open`
/// before `scan`, `request` and `send`; `open` again after a failure.
pub trait IoServer: Send {
    /// Returns the variables that a server with the name `name` offers, as libraries.
    /// `properties.source` of each variable is `<name>:<item>`. The result never changes.
    fn libraries(&self, name: &str) -> Vec<LibraryDefinition>;

    /// Returns the item with this name, which is the part of a variable's `source` after the colon.
    fn item(&self, item: &str) -> Option<ItemId>;

    /// Prepares the device. The first scan after opening publishes every item.
    ///
    /// # Errors
    /// [`IoError`] if the device cannot be used. The caller may try again later.
    fn open(&mut self, now: Tick, wall: Timestamp) -> Result<(), IoError>;

    /// Runs one acquisition cycle, and publishes the values that were read. A scan need not publish
    /// items that have not changed.
    ///
    /// # Errors
    /// [`IoError`] if nothing could be read. If only some items fail, the scan succeeds and
    /// publishes them with bad quality.
    fn scan(&mut self, now: Tick, wall: Timestamp, scan: &mut Scan) -> Result<(), IoError>;

    /// Reads a fresh value of one item for a client, and publishes the value.
    ///
    /// # Errors
    /// As [`scan`](Self::scan), and [`IoError::UnknownItem`] for an item that does not exist.
    fn request(
        &mut self,
        item: ItemId,
        now: Tick,
        wall: Timestamp,
        scan: &mut Scan,
    ) -> Result<(), IoError>;

    /// Passes a client's value to the device. Returns the value that the device has afterwards,
    /// which may differ from the sent value.
    ///
    /// # Errors
    /// [`SendRefusal`] if the device keeps its value.
    fn send(
        &mut self,
        item: ItemId,
        value: &Value,
        now: Tick,
        wall: Timestamp,
    ) -> Result<Value, SendRefusal>;

    /// Returns the current health.
    fn health(&self) -> Health;

    /// Returns the scan period that applies unless the configuration sets one.
    fn period(&self) -> Duration;
}

/// The reason why a device could not be opened or read.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum IoError {
    #[error("{device} cannot be reached: {cause}; check that it is on and connected")]
    Unreachable {
        /// Name of the device, as users know it.
        device: String,
        cause: String,
    },
    #[error("{device} reports a failure: {cause}; the device needs attention")]
    DeviceFailed {
        /// Name of the device, as users know it.
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
    /// Returns the reason for the bad quality of the server's variables while this error lasts.
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

/// The reason why the device did not accept a value. The device keeps its value.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum SendRefusal {
    #[error("there is no item {item} in this I/O server; its {count} items are numbered from 0")]
    UnknownItem { item: u32, count: u32 },
    /// The item is an input, which cannot be written.
    #[error("{item} is an input; it cannot be written")]
    ReadOnly {
        /// Name of the item.
        item: String,
    },
    #[error(
        "{item} requires a value of type {expected}, not {given}; write a value of type {expected}"
    )]
    WrongType {
        /// Name of the item.
        item: String,
        /// Type that the item accepts.
        expected: String,
        /// Type of the value that was sent.
        given: &'static str,
    },
    #[error(
        "{given} is outside the range of {item}, {low} to {high} {units}; write a value within it"
    )]
    OutOfRange {
        /// Name of the item.
        item: String,
        given: f64,
        low: f64,
        high: f64,
        /// Unit of `given`, `low` and `high`.
        units: String,
    },
    #[error("the write to {item} was refused: {rule}")]
    Interlock {
        /// Name of the item.
        item: String,
        /// The rule, the facts that activated it, and the remedy.
        rule: String,
    },
    #[error("the device did not accept the value for {item}: {cause}")]
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
