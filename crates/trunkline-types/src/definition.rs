//! The configuration of a library and its variables, in the form shared by files, code and the
//! wire.

use std::sync::Arc;
use std::time::Duration;

use crate::alarm::AlarmDefinition;
use crate::{AuditMode, DataType, Scaling, Value};

/// Maximum number of variables that one engine can have at a time: one for each slot that a handle
/// can refer to.
pub const VARIABLES_MAX: usize = 2 << 20;

/// Maximum length of the description of a library or a variable, in bytes.
pub const DESCRIPTION_BYTES_MAX: usize = 4_096;
/// Maximum length of the source of a variable or the target of an alias, in bytes.
pub const SOURCE_BYTES_MAX: usize = 1_024;
/// Maximum length of a unit, in bytes.
pub const UNITS_BYTES_MAX: usize = 64;

/// The reason why a text cannot be part of a definition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TextFault {
    #[error("is longer than {max} bytes; shorten it")]
    TooLong {
        /// The limit, in bytes.
        max: usize,
    },
    /// The text contains a control character other than a line break or a tab.
    #[error("contains a control character (U+{code:04X}); leave it out")]
    ControlCharacter {
        /// Code point of the character.
        code: u32,
    },
}

/// Checks a text of a definition: at most `max` bytes, and no control characters other than line
/// breaks and tabs.
pub fn check_text(text: &str, max: usize) -> Result<(), TextFault> {
    if text.len() > max {
        return Err(TextFault::TooLong { max });
    }
    let is_refused = |c: &char| c.is_control() && !matches!(c, '\n' | '\t' | '\r');
    match text.chars().find(is_refused) {
        Some(character) => Err(TextFault::ControlCharacter {
            code: u32::from(character),
        }),
        None => Ok(()),
    }
}

/// Number of low bits of a handle that contain the slot; the higher bits contain the generation.
pub const HANDLE_SLOT_BITS: u32 = 21;

/// Returns the slot of a handle, which is the index of its variable in tables. The slot of a
/// removed variable is reused.
#[must_use]
#[inline]
pub const fn slot_of(handle: u32) -> u32 {
    handle & ((1 << HANDLE_SLOT_BITS) - 1)
}

/// Returns the generation of a handle, which is the number of previous variables in its slot.
#[must_use]
#[inline]
pub const fn generation_of(handle: u32) -> u16 {
    // 11 bits remain, so the value fits into a `u16`.
    (handle >> HANDLE_SLOT_BITS) as u16
}

/// A library: the unit of deployment, with all its variables.
#[derive(Clone, PartialEq, Debug)]
pub struct LibraryDefinition {
    /// Name of the library: the first segment of the full name of each of its variables.
    pub name: String,
    /// Description for users; may be empty.
    pub description: String,
    pub variables: Vec<VariableDefinition>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct VariableDefinition {
    /// Name within the library, such as `pump/mode`; escaped as in a full name.
    pub path: String,
    /// All other properties; variables with equal properties may share one allocation.
    pub properties: Arc<Properties>,
}

/// The properties of a variable other than its name. Variables made from the same template share
/// them.
#[derive(Clone, PartialEq, Debug)]
pub struct Properties {
    /// The type of the variable's value.
    pub data_type: DataType,
    /// Description for users; may be empty.
    pub description: String,
    /// Engineering unit, such as `%` or `m3/h`; may be empty.
    pub units: String,
    /// Lowest and highest engineering value. Deadbands are a percentage of this range, and `coerce`
    /// uses its ends.
    pub range: Option<(f64, f64)>,
    /// True to replace values outside `range` with its nearest end instead of refusing them (H-04).
    pub coerce: bool,
    /// Number of decimal places shown to users.
    pub precision: Option<u8>,
    /// Access type, which limits all clients regardless of their rights.
    pub access: Access,
    /// The scope in which the variable can be reached: over the network, or only in its own
    /// process.
    pub scope: Scope,
    /// Conversion between the source's raw value and the engineering value (H-01..H-03).
    pub scaling: Option<Scaling>,
    /// Range within which a change of the value is not an update (H-05).
    pub deadband: Deadband,
    /// The real-time FIFO of the variable (SP-10).
    pub fifo: Fifo,
    /// True if updates carry timestamps; without them, writes within one process are faster
    /// (SP-03).
    pub timestamps: bool,
    /// Maximum time that a writer waits for an `all` subscription that has reached its bound. If the
    /// time is zero, writers never wait, and the slow subscription ends with `overrun`.
    pub stall: Duration,
    /// Age above which a reading is marked `stale`.
    pub max_age: Option<Duration>,
    /// The value after the start of the engine, until the source delivers a value (H-17).
    pub initial: Option<Value>,
    /// True to retain the newest value across a restart of the engine; it takes precedence over
    /// `initial`.
    pub retain: bool,
    /// Register number, unique within the engine, by which the variable can also be addressed: `:/20`
    /// is the variable with the number 20 (LM-01).
    pub number: Option<u32>,
    /// True if only one client may write the variable: the first client that writes it, until it
    /// disconnects (H-19).
    pub single_writer: bool,
    /// Selects whether client writes are recorded in the engine's audit trail, and what happens if the audit
    /// trail has no room (B-24).
    pub audit: AuditMode,
    /// The source of the value, as `io-server:item`; empty if there is none.
    pub source: String,
    /// Full name of the target: the variable of the same engine whose value this variable mirrors
    /// and writes (H-20); empty if this is not an alias. The alias has its own access, scaling,
    /// range, deadband and units. Its scaling uses the target's value as the raw value.
    pub alias: String,
    /// The place where the variable is configured, as `file:line`; empty if a program created it.
    pub origin: String,
    /// The alarms of the variable, each with a different name.
    pub alarms: Vec<AlarmDefinition>,
}

/// The access type of a variable (H-20).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Access {
    /// Reading and writing are allowed.
    #[default]
    ReadWrite,
    /// Only reading is allowed; only the source writes.
    ReadOnly,
    /// Only writing is allowed.
    WriteOnly,
}

/// The scope in which a variable can be reached.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Scope {
    /// The variable can be reached within the process and over the network.
    #[default]
    Network,
    /// The variable can be reached only in its own process, never over a connection.
    Process,
}

/// Deadbands in percent of the engineering range (100 if no range is set). With 0, every change is
/// an update.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Deadband {
    /// Deadband for values that clients write, 0 to 100.
    pub user_percent: f64,
    /// Deadband for values that the source delivers, 0 to 100.
    pub source_percent: f64,
}

/// The real-time FIFO of a variable.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Fifo {
    /// The variable has no FIFO.
    #[default]
    Off,
    /// One element, which always holds the newest value, so the FIFO is never empty or full (SP-14,
    /// SP-15).
    Single {
        /// Number of elements in each array or waveform value; 1 for scalars, never 0 (SP-22).
        length: u32,
    },
    /// A queue of several elements; each element is read once (SP-16..SP-19).
    Multi {
        /// Number of values that the FIFO can hold.
        capacity: u32,
        /// Number of elements in each array or waveform value; 1 for scalars, never 0 (SP-22).
        length: u32,
    },
}

impl Properties {
    /// Returns the full names of the other variables to which the definition refers: the target of an
    /// alias, and those on which its alarms depend.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let target = Some(self.alias.as_str()).filter(|name| !name.is_empty());
        let of_alarms = self.alarms.iter().flat_map(AlarmDefinition::names);
        target.into_iter().chain(of_alarms)
    }

    /// As [`names`](Self::names), to change them.
    pub fn names_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let target = Some(&mut self.alias).filter(|name| !name.is_empty());
        let of_alarms = self.alarms.iter_mut().flat_map(AlarmDefinition::names_mut);
        target.into_iter().chain(of_alarms)
    }

    /// Returns the type of the raw values that the source delivers and accepts. It is `f64` for
    /// scaled numbers, because an integer would be rounded before it is scaled.
    pub fn raw_type(&self) -> &DataType {
        match self.scaling {
            Some(Scaling::Linear { .. } | Scaling::SquareRoot { .. }) => &DataType::F64,
            _ => &self.data_type,
        }
    }

    /// Creates the default properties of a variable of this type: read-write, reachable over the
    /// network, without scaling or a deadband.
    pub fn new(data_type: DataType) -> Self {
        Self {
            data_type,
            description: String::new(),
            units: String::new(),
            range: None,
            coerce: false,
            precision: None,
            access: Access::ReadWrite,
            scope: Scope::Network,
            scaling: None,
            deadband: Deadband::default(),
            fifo: Fifo::Off,
            timestamps: true,
            stall: Duration::ZERO,
            max_age: None,
            initial: None,
            retain: false,
            number: None,
            single_writer: false,
            audit: AuditMode::Off,
            source: String::new(),
            alias: String::new(),
            origin: String::new(),
            alarms: Vec::new(),
        }
    }

    /// Returns the width of the engineering range; 100 if no range is set (H-05).
    pub fn span(&self) -> f64 {
        self.range.map_or(100.0, |(low, high)| high - low)
    }
}

impl VariableDefinition {
    /// Defines a variable with the default properties of its type.
    pub fn new(path: impl Into<String>, data_type: DataType) -> Self {
        Self {
            path: path.into(),
            properties: Arc::new(Properties::new(data_type)),
        }
    }
}
