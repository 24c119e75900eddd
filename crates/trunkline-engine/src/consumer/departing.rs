//! Ends a consumer with many items in slices, so that neither its own thread nor the other sessions
//! on that thread have to wait for it.

use super::bound::Bound;
use super::indices::Indices;
use super::subscribe::forget;
use crate::engine::Engine;
use crate::interest::Kind;
use crate::outbox::{Outbox, Wakes};
use crate::sync::Arc;
use crate::variable::Variable;

/// The rest of an ended consumer. Its queued updates count against the budget until they are freed.
#[derive(Debug)]
pub(crate) struct Departing {
    pub(super) outbox: Arc<Outbox>,
    pub(super) bound: Bound,
    /// Items of its subscriptions, except those with the contract `all`.
    pub(super) subscriptions: Vec<Indices>,
    /// Fields that were open.
    pub(super) fields: Vec<Arc<Variable>>,
}

impl Departing {
    /// Releases at most `budget` items. Returns false if some are left.
    pub(super) fn give_up_some(
        &mut self,
        engine: &Engine,
        budget: &mut usize,
        wakes: &mut Wakes,
    ) -> bool {
        while let Some(subscription) = self.subscriptions.last_mut() {
            let Some(index) = subscription.pop() else {
                self.subscriptions.pop();
                continue;
            };
            if *budget == 0 {
                subscription.insert(index);
                return false;
            }
            *budget -= 1;
            let Some(variable) = self.bound.take(index) else {
                continue;
            };
            let interest = forget(&variable, &self.outbox, index);
            if let Some(Kind::First(queue)) = interest.map(|interest| interest.kind) {
                self.outbox.budget.release(queue.charged(), wakes);
            }
            if !self.outbox.is_service {
                engine.subscriptions().remove(&variable);
            }
            engine.release_field(variable);
        }
        while let Some(field) = self.fields.pop() {
            if *budget == 0 {
                self.fields.push(field);
                return false;
            }
            *budget -= 1;
            engine.release_field(field);
        }
        true
    }
}
