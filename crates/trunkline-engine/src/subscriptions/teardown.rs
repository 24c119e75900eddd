//! Ends a consumer with many items in slices, so that neither its own thread nor other sessions on
//! that thread have to wait.

use super::Subscriptions;
use super::indices::Indices;
use super::items::ItemVariables;
use super::membership::{Membership, leave_feed};
use super::subscribe::forget;
use crate::delivery::feed::Feed;
use crate::delivery::outbox::{Outbox, Wakes};
use crate::delivery::subscribers::Kind;
use crate::sync::Arc;
use crate::variable::Variable;

/// The remaining data of an ended consumer. Its queued updates count against the budget until they
/// are freed.
#[derive(Debug)]
pub(crate) struct Teardown {
    pub(super) outbox: Arc<Outbox>,
    pub(super) variables: ItemVariables,
    pub(super) subscriptions: Vec<Leftover>,
    pub(super) fields: Vec<Arc<Variable>>,
}

#[derive(Debug)]
pub(super) struct Leftover {
    pub(super) items: Indices,
    pub(super) reference: RemainingReference,
}

/// How the variables of these items still refer to the subscription.
#[derive(Debug)]
pub(super) enum RemainingReference {
    /// Each variable lists its item; the contract is not `all`.
    Own,
    /// Each variable lists this feed, which has no members.
    Feed(Arc<Feed>),
    /// They do not: the feed continues for other members, or is removed elsewhere.
    Nothing,
}

impl Leftover {
    /// Makes an `all` subscription leave its feed, so that no writer waits for it any more. Returns
    /// what remains to be removed.
    pub(super) fn of_feed(items: Indices, membership: Membership, wakes: &mut Wakes) -> Self {
        let Membership { feed, member, .. } = membership;
        let mut is_left = feed.depart_from_others(member, wakes);
        if !is_left {
            is_left = feed.shut();
            if is_left {
                // Others have joined in the meantime, and continue.
                feed.set_open();
            }
            feed.depart(member, wakes);
        }
        let reference = match is_left {
            true => RemainingReference::Nothing,
            false => RemainingReference::Feed(feed),
        };
        Self { items, reference }
    }

    pub(super) fn give_up(
        &self,
        index: u32,
        variable: &Variable,
        outbox: &Arc<Outbox>,
        wakes: &mut Wakes,
    ) {
        match &self.reference {
            RemainingReference::Own => {
                let subscriber = forget(variable, outbox, index);
                if let Some(Kind::First(queue)) = subscriber.map(|subscriber| subscriber.kind) {
                    outbox.budget.release(queue.charged(), wakes);
                }
            }
            RemainingReference::Feed(feed) => leave_feed(variable, feed),
            RemainingReference::Nothing => {}
        }
    }
}

impl Teardown {
    pub(super) fn give_up_some(
        &mut self,
        home: &Subscriptions,
        budget: &mut usize,
        wakes: &mut Wakes,
    ) -> bool {
        while let Some(subscription) = self.subscriptions.last_mut() {
            if subscription.items.is_empty() {
                self.subscriptions.pop();
                continue;
            }
            if *budget == 0 {
                return false;
            }
            *budget -= 1;
            let index = subscription.items.pop();
            let Some((index, variable)) = index.and_then(|i| Some((i, self.variables.take(i)?)))
            else {
                continue;
            };
            subscription.give_up(index, &variable, &self.outbox, wakes);
            if !self.outbox.is_service {
                home.uncount(&variable);
            }
            home.core.release(&variable);
        }
        while let Some(field) = self.fields.pop() {
            if *budget == 0 {
                self.fields.push(field);
                return false;
            }
            *budget -= 1;
            home.core.release(&field);
        }
        true
    }
}
