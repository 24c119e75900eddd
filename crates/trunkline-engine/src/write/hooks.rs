//! How features take part in a write outside the variable's lock, and learn its outcome. What they do
//! under the lock is an [`Extension`](crate::variable::Extension).

use std::any::Any;
use std::fmt::Debug;

use trunkline_types::Timestamp;

use super::Call;
use crate::delivery::outbox::Wakes;
use crate::engine::Engine;
use crate::outcome::{Attempt, Refusal, WriteOutcome};
use crate::update::{Encoded, Update};
use crate::variable::Variable;

/// Carries a write out in another way, before any check, or returns `None`. Called only for orders,
/// and for variables that [are hooked](Variable::is_hooked).
pub(crate) type BeginWrite = fn(&Engine, &Call<'_>, &mut Wakes) -> Option<Result<Attempt, Refusal>>;

/// Learns the outcome of one client's write.
pub(crate) trait WriteObserver: Any + Debug + Send {
    /// The write has ended. Only the first call counts. The caller holds the variable's lock if the
    /// order of writes matters.
    fn ended(&self, engine: &Engine, end: &WriteEnd<'_>, wakes: &mut Wakes);

    /// Returns an observer for a write that a provider answers later.
    fn detach(&self) -> Box<dyn WriteObserver>;
}

/// The end of a write.
pub(crate) struct WriteEnd<'a> {
    pub(crate) variable: &'a Variable,
    pub(crate) wall: Timestamp,
    /// The update before the write.
    pub(crate) old: &'a Update,
    /// The value after the write; `None` if it is the requested one.
    pub(crate) new: Option<&'a Encoded>,
    pub(crate) outcome: &'a WriteOutcome,
}
