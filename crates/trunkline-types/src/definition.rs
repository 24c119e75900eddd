//! What configuration says about a variable: the same words in files, in code and on the wire.

use std::sync::Arc;
use std::time::Duration;

use crate::{AuditMode, DataType, Scaling, Value};

/// Most variables one engine has in one epoch, undeployed ones included.
pub const VARIABLES_MAX: usize = 2 << 20;

/// Longest description of a library or a variable, bytes.
pub const DESCRIPTION_BYTES_MAX: usize = 4_096;
/// Longest source of a variable, and longest name of an alias's target, bytes.
pub const SOURCE_BYTES_MAX: usize = 1_024;
/// Longest unit, bytes.
pub const UNITS_BYTES_MAX: usize = 64;

/// Why a text cannot be part of a definition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TextFault {
    /// It is too long.
    #[error("is longer than {max} bytes; shorten it")]
    TooLong {
        /// The limit.
        max: usize,
    },
    /// It holds a control character other than a line break or a tab.
    #[error("contains a control character (U+{code:04X}); leave it out")]
    ControlCharacter {
        /// Its code point.
        code: u32,
    },
}

/// Checks a text of a definition, wherever it comes from: at most `max` bytes, and of control
/// characters only line breaks and tabs.
///
/// # Errors
/// [`TextFault`] says what is wrong with it.
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

/// Bits of a handle that are its slot; above them is its generation.
pub const HANDLE_SLOT_BITS: u32 = 21;

/// The slot of a handle: the place of its variable in tables. The slot of a variable that is gone
/// is used again.
#[must_use]
#[inline]
pub const fn slot_of(handle: u32) -> u32 {
    handle & ((1 << HANDLE_SLOT_BITS) - 1)
}

/// The generation of a handle: how many variables had its slot before.
#[must_use]
#[inline]
pub const fn generation_of(handle: u32) -> u16 {
    // 11 bits are left.
    (handle >> HANDLE_SLOT_BITS) as u16
}

/// A library: the unit that is deployed, with every variable in it.
#[derive(Clone, PartialEq, Debug)]
pub struct LibraryDefinition {
    /// First segment of the full name of every variable in it.
    pub name: String,
    /// For people.
    pub description: String,
    /// Its variables.
    pub variables: Vec<VariableDefinition>,
}

/// One variable of a library.
#[derive(Clone, PartialEq, Debug)]
pub struct VariableDefinition {
    /// Name within the library, such as `pump/mode`; escaped as in a full name.
    pub path: String,
    /// Everything else; variables that agree share it.
    pub properties: Arc<Properties>,
}

/// What variables made from the same template share.
#[derive(Clone, PartialEq, Debug)]
pub struct Properties {
    /// The type of its value.
    pub data_type: DataType,
    /// For people; may be empty.
    pub description: String,
    /// Engineering unit, such as `%` or `m3/h`; may be empty.
    pub units: String,
    /// Lowest and highest engineering value. Deadbands are a percentage of it; `coerce` uses it.
    pub range: Option<(f64, f64)>,
    /// Pull values from outside `range` to its nearest end instead of refusing them (H-04).
    pub coerce: bool,
    /// Digits after the point when shown to people.
    pub precision: Option<u8>,
    /// Who may read and write at all, whatever their rights.
    pub access: Access,
    /// Reachable over the network, or in its own process only.
    pub scope: Scope,
    /// Raw value of the source to engineering value and back (H-01..H-03).
    pub scaling: Option<Scaling>,
    /// Changes too small to be an update (H-05).
    pub deadband: Deadband,
    /// The real-time FIFO (SP-10).
    pub fifo: Fifo,
    /// Whether updates carry timestamps; off is faster within one process (SP-03).
    pub timestamps: bool,
    /// How long a writer waits for an `all` subscription at its bound; zero: never, the slow
    /// subscription ends with `overrun`.
    pub stall: Duration,
    /// A reading older than this says `stale`.
    pub max_age: Option<Duration>,
    /// The value at start when the source has none yet (H-17).
    pub initial: Option<Value>,
    /// Keep the newest value over a restart of the engine; it goes before `initial`.
    pub retain: bool,
    /// A register number, by which it can be named as well: `:/20` is the variable numbered 20
    /// (LM-01). Unique within the engine.
    pub number: Option<u32>,
    /// Only one client may write it: the first that does, until it goes (H-19).
    pub single_writer: bool,
    /// Whether each write of a client gets an entry in the engine's audit, and what happens when
    /// the audit has no room for it (B-24).
    pub audit: AuditMode,
    /// Where the value comes from: `io-server:item`, empty for none.
    pub source: String,
    /// Full name of the variable of the same engine whose value this one shows and writes
    /// (H-20), empty for none. The alias has access, scaling, range, deadband and units of its own;
    /// to its scaling, the other's value is the raw one.
    pub alias: String,
    /// Where it was configured, `file:line`; empty when made by a program.
    pub origin: String,
}

/// Access type (H-20).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Access {
    /// Reading and writing.
    #[default]
    ReadWrite,
    /// Reading only; only its source writes it.
    ReadOnly,
    /// Writing only.
    WriteOnly,
}

/// Where a variable can be reached.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Scope {
    /// Hosted: within the process and through the network.
    #[default]
    Network,
    /// Single-process: never seen by a connection.
    Process,
}

/// Deadbands in percent of the engineering range (100 when no range is set); 0 passes everything.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Deadband {
    /// For values that clients write, 0 to 100.
    pub user_percent: f64,
    /// For values that the source delivers, 0 to 100.
    pub source_percent: f64,
}

/// The real-time FIFO of a variable.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Fifo {
    /// None.
    #[default]
    Off,
    /// One element: always the newest, never empty, never full (SP-14, SP-15).
    Single {
        /// Elements of an array or bytes of text that a value may have; 1 for scalars (SP-22).
        length: u32,
    },
    /// Many elements, each taken once (SP-16..SP-19).
    Multi {
        /// Number of values it holds.
        capacity: u32,
        /// Elements of an array or bytes of text that a value may have; 1 for scalars (SP-22).
        length: u32,
    },
}

impl Properties {
    /// The type of the raw values that the source delivers and takes. Of a scaled number it is f64:
    /// a whole number would be rounded before it is scaled.
    pub fn raw_type(&self) -> &DataType {
        match self.scaling {
            Some(Scaling::Linear { .. } | Scaling::SquareRoot { .. }) => &DataType::F64,
            _ => &self.data_type,
        }
    }

    /// The properties of a plain variable of this type: read-write, hosted, unscaled, everything
    /// passes.
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
        }
    }

    /// Width of the engineering range: 100 when none is set (H-05).
    pub fn span(&self) -> f64 {
        self.range.map_or(100.0, |(low, high)| high - low)
    }
}

impl VariableDefinition {
    /// A plain variable.
    pub fn new(path: impl Into<String>, data_type: DataType) -> Self {
        Self {
            path: path.into(),
            properties: Arc::new(Properties::new(data_type)),
        }
    }
}
