//! What is to be written, and where its outcome is to go.

use trunkline_types::{Position, Quality, Timestamp, Value};

use crate::accept::WriteValue;
use crate::outbox::Outbox;
use crate::sync::Arc;
use crate::variable::Variable;

/// One value to be written.
#[derive(Clone, Debug)]
pub struct Write<'a> {
    /// The value.
    pub value: WriteValue<'a>,
    /// When it was measured; `None`: now, by the engine's clock.
    pub source_timestamp: Option<Timestamp>,
    /// Its quality; `None`: good.
    pub quality: Option<Quality>,
    /// Who produced it.
    pub origin: Origin,
    /// What is to be done, by a client; sources only publish.
    pub verb: Verb,
    /// Only if the variable is still at this update (B-22). Where a provider is asked, it may have
    /// published meanwhile.
    pub expected: Option<Position>,
    /// Where the outcome goes when a provider has to be asked first; `None`: nowhere.
    pub completion: Option<Completion>,
}

/// What a client wants done.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Verb {
    /// The value goes to the variable's provider, and into the cell when it has taken it; without a
    /// provider, into the cell.
    #[default]
    Put,
    /// The value goes into the cell only; no provider is asked (LM-04).
    Set,
    /// What the cell holds goes to the provider (LM-06). The write has no value of its own.
    Send,
    /// The provider is asked for a fresh value (LM-05). The write has no value of its own.
    Request,
    /// The value stays, whatever the source and other writers say, until it is unforced (H-27).
    Force,
    /// The variable shows what its source says again. The write has no value of its own.
    Unforce,
}

/// Who produced a value, which decides scaling, deadband and access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A client or program, in engineering units; a provided variable asks its provider first.
    Client,
    /// The variable's source, already in engineering units.
    Source,
    /// The variable's source, in raw units: scaled by the variable's scaling.
    SourceRaw,
}

/// Where the outcome of a write that a provider answers is delivered.
#[derive(Clone, Debug)]
pub struct Completion {
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) id: u64,
    /// The alias through which the write came.
    pub(crate) alias: Option<Arc<Variable>>,
}

impl<'a> Write<'a> {
    /// A client's write of `value`, stamped on arrival.
    pub fn value(value: &'a Value) -> Self {
        Self::of(WriteValue::Value(value))
    }

    /// A client's write of a value in wire form, stamped on arrival.
    pub fn wire(bytes: &'a [u8]) -> Self {
        Self::of(WriteValue::Wire(bytes))
    }

    pub(crate) fn of(value: WriteValue<'a>) -> Self {
        Self {
            value,
            source_timestamp: None,
            quality: None,
            origin: Origin::Client,
            verb: Verb::Put,
            expected: None,
            completion: None,
        }
    }

    /// A client's order that has no value of its own: send, request, unforce.
    pub fn order(verb: Verb) -> Self {
        Self {
            verb,
            ..Self::of(WriteValue::Wire(&[]))
        }
    }
}
