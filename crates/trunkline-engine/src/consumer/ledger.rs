//! What became of every update, at this moment.

use trunkline_types::Contract;
use trunkline_types::ledger::SubscriptionLedger;

use super::Consumer;
use super::item::VariableItem;
use crate::interest::{Interest, Interests, Kind};

impl Consumer {
    /// The ledger of one variable under one subscription, exact at this moment.
    pub fn ledger(&self, subscription: u32, handle: u32) -> Option<SubscriptionLedger> {
        let index = self.index_of(subscription, handle)?;
        let item = self.items.get(index)?;
        let state = item.variable.lock();
        let interests = state.interests()?;
        let interest = interests.find(&self.outbox, index)?;
        // Under the lock: nothing is numbered between the parts of the sum.
        let sequence = item.variable.sequence();
        let mut ledger = SubscriptionLedger {
            written: sequence.saturating_sub(item.opened_at),
            filtered: interest.filtered,
            coalesced: item.coalesced,
            sent_unconfirmed: item.unconfirmed(),
            received: item.delivered.saturating_sub(item.unconfirmed()),
            ..SubscriptionLedger::default()
        };
        if let Some(rest) = item.rest_ref() {
            ledger.dropped_queue = rest.queue;
            ledger.dropped_disconnect = rest.disconnect;
            ledger.repaired = rest.repaired;
            let first = rest.initial.as_ref();
            ledger.waiting = u64::from(first.is_some_and(|first| first.sequence > 0));
        }
        add_waiting(&mut ledger, item, index, interest, interests, sequence);
        Some(ledger)
    }

    /// The subscriptions in which a variable takes part.
    pub fn subscriptions_of(&self, handle: u32) -> Vec<(u32, Contract)> {
        let Some(variable) = self.engine.variable(handle) else {
            return Vec::new();
        };
        let state = variable.lock();
        let Some(interests) = state.interests() else {
            return Vec::new();
        };
        let own = interests
            .iter()
            .filter(|interest| interest.is_of(&self.outbox));
        let mut subscriptions: Vec<(u32, Contract)> = own
            .filter_map(|interest| {
                let id = self.items.get(interest.item)?.subscription;
                Some((id, self.subscriptions.get(&id)?.contract))
            })
            .collect();
        subscriptions.sort_by_key(|(id, _)| *id);
        subscriptions
    }
}

/// What the contract's own buffer holds and has dropped.
fn add_waiting(
    ledger: &mut SubscriptionLedger,
    item: &VariableItem,
    index: u32,
    interest: &Interest,
    interests: &Interests,
    sequence: u64,
) {
    match &interest.kind {
        Kind::Mark | Kind::Sampled => {
            let held_back = interest.filtered.saturating_sub(item.filtered());
            let pending = sequence.saturating_sub(item.last).saturating_sub(held_back);
            ledger.waiting += u64::from(pending > 0);
            ledger.coalesced += pending.saturating_sub(1);
        }
        Kind::Last(n) => {
            let cursor = item.rest_ref().map_or(0, |rest| rest.cursor);
            if let Some(ring) = interests.ring(interest.only_changes) {
                let pending = ring.pending(cursor, *n);
                ledger.waiting += pending.kept;
                ledger.dropped_queue += pending.dropped;
            }
        }
        Kind::First(queue) => {
            ledger.waiting += queue.len() as u64;
            ledger.dropped_queue += queue.untold();
        }
        Kind::Feed(place) => {
            ledger.waiting += place.feed.waiting_of(index);
            ledger.dropped_overrun = place.missed;
        }
        Kind::Fifo(_) => {}
    }
}
