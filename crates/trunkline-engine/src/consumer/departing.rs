//! A consumer with very many items ends in slices: whoever ends it, and every other session of that
//! thread, goes on meanwhile.

use super::bound::Bound;
use super::indices::Indices;
use super::subscribe::forget;
use crate::engine::Engine;
use crate::interest::Kind;
use crate::outbox::{Outbox, Wakes};
use crate::sync::Arc;
use crate::variable::Variable;

/// What is left of a consumer that has ended. What waited for it is charged until it has gone.
#[derive(Debug)]
pub(crate) struct Departing {
    pub(super) outbox: Arc<Outbox>,
    pub(super) bound: Bound,
    /// Of subscriptions other than of `all`.
    pub(super) subscriptions: Vec<Indices>,
    /// Fields that it had open.
    pub(super) fields: Vec<Arc<Variable>>,
}

impl Departing {
    /// Gives up at most `budget` items; false when there are more.
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
