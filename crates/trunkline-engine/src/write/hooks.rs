//! How features take part in a write outside the variable's lock, and learn its outcome. Their part
//! under the lock is an [`Extension`](crate::variable::Extension).

use std::any::Any;
use std::fmt::Debug;

use trunkline_types::Moment;

use super::{Call, EngineCore};
use crate::delivery::outbox::{Outbox, Wakes};
use crate::outcome::{Attempt, Refusal, WriteOutcome};
use crate::sync::Arc;
use crate::update::{Encoded, Update};
use crate::variable::Variable;

/// The part of a feature outside the locks of variables.
pub(crate) trait Hook: Send + Sync {
    /// Carries out a write in another way, before any check, or returns `None`. Called only for
    /// orders, and for variables that [are hooked](Variable::is_hooked).
    fn begin(
        &self,
        _core: &EngineCore,
        _call: &Call<'_>,
        _wakes: &mut Wakes,
    ) -> Option<Result<Attempt, Refusal>> {
        None
    }

    /// Registers `outbox` to be woken when a write that `begin` has delayed can be retried. Returns
    /// false if there is nothing to wait for.
    fn park(&self, _outbox: &Arc<Outbox>) -> bool {
        false
    }

    /// Called when a consumer no longer uses this variable.
    fn released(&self, _core: &EngineCore, _variable: &Arc<Variable>) {}
}

pub(crate) trait WriteObserver: Any + Debug + Send {
    /// Called when the write has ended; only the first call counts. The caller holds the variable's
    /// lock if the order of writes matters.
    fn ended(&self, core: &EngineCore, end: &WriteEnd<'_>, wakes: &mut Wakes);

    /// Returns an observer for a write that a provider will answer later.
    fn detach(&self) -> Box<dyn WriteObserver>;
}

pub(crate) struct WriteEnd<'a> {
    pub(crate) variable: &'a Variable,
    pub(crate) moment: Moment,
    pub(crate) old: &'a Update,
    /// The value after the write; `None` if it is the requested one.
    pub(crate) new: Option<&'a Encoded>,
    pub(crate) outcome: &'a WriteOutcome,
}

impl EngineCore {
    #[cold]
    pub(crate) fn begin(
        &self,
        call: &Call<'_>,
        wakes: &mut Wakes,
    ) -> Option<Result<Attempt, Refusal>> {
        let mut hooks = self.hooks.iter();
        hooks.find_map(|hook| hook.begin(self, call, wakes))
    }

    /// Registers `outbox` to be woken when features no longer delay writes. Returns false if no
    /// feature delays any.
    pub(crate) fn park(&self, outbox: &Arc<Outbox>) -> bool {
        let parked = self.hooks.iter().filter(|hook| hook.park(outbox));
        parked.count() > 0
    }

    /// Informs features that a consumer no longer uses the variable.
    pub(crate) fn release(&self, variable: &Arc<Variable>) {
        // Only fields are closed with their last user.
        if variable.name().contains('#') {
            for hook in &self.hooks {
                hook.released(self, variable);
            }
        }
    }
}
