//! The arguments of a write, and the destination of its outcome.

use trunkline_types::{Position, Quality, Timestamp, Value, WriteVerb};

use crate::delivery::outbox::{Outbox, Wakes};
use crate::outcome::WriteOutcome;
use crate::sync::Arc;
use crate::variable::{Variable, count_unreached};
use crate::write::accept::WriteValue;

#[derive(Clone, Debug)]
pub struct Write<'a> {
    pub value: WriteValue<'a>,
    /// Time at which the value was measured; `None` means now, by the engine's clock.
    pub source_timestamp: Option<Timestamp>,
    pub quality: Option<Quality>,
    pub origin: Origin,
    /// The operation that a client requests. Ignored for a source, which only publishes values.
    pub verb: WriteVerb,
    /// If set, the write is refused unless the variable is still at this position (B-22). If a
    /// provider has to be asked, the variable may have changed by the time the provider answers.
    pub expected: Option<Position>,
    /// Destination of the outcome if a provider has to be asked first; `None` discards it.
    pub completion: Option<Completion>,
}

/// The producer of a value, which determines scaling, deadband and access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A client or program, in engineering units. A write of a provided variable goes to the
    /// provider first.
    Client,
    /// The variable's source, already in engineering units.
    Source,
    /// The variable's source, in raw units. The variable's scaling is applied.
    SourceRaw,
}

/// Destination of the outcome of a write that a provider answers.
#[derive(Clone, Debug)]
pub struct Completion {
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) id: u64,
    /// The variable that the caller named, if it is not the written one.
    pub(crate) named: Option<Arc<Variable>>,
}

impl Completion {
    /// Reports the outcome of a write whose update was not committed.
    pub(crate) fn end(&self, outcome: WriteOutcome, wakes: &mut Wakes) {
        let outcome = match &self.named {
            Some(named) => count_unreached(named, WriteVerb::Put, outcome),
            None => outcome,
        };
        self.outbox.complete(self.id, outcome);
        wakes.add(&self.outbox);
    }
}

impl<'a> Write<'a> {
    /// Creates a client's write of `value`. Its source timestamp is the time of arrival.
    pub fn value(value: &'a Value) -> Self {
        Self::of(WriteValue::Value(value))
    }

    /// Creates a client's write of a value in wire form. Its source timestamp is the time of
    /// arrival.
    pub fn wire(bytes: &'a [u8]) -> Self {
        Self::of(WriteValue::Wire(bytes))
    }

    pub(crate) fn of(value: WriteValue<'a>) -> Self {
        Self {
            value,
            source_timestamp: None,
            quality: None,
            origin: Origin::Client,
            verb: WriteVerb::Put,
            expected: None,
            completion: None,
        }
    }

    /// Creates a client's write without a value: send, request or unforce.
    pub fn order(verb: WriteVerb) -> Self {
        Self {
            verb,
            ..Self::of(WriteValue::Wire(&[]))
        }
    }
}
