//! The subscriptions' side of the ledger, at this moment.

use trunkline_types::Contract;
use trunkline_types::ledger::SubscriptionLedger;

use super::Consumer;
use super::item::{Rest, VariableItem};
use crate::delivery::subscribers::{Interest, Interests, Kind};

impl Consumer {
    /// Returns the ledger of one variable in one subscription, exact at this moment.
    pub fn ledger(&self, subscription: u32, handle: u32) -> Option<SubscriptionLedger> {
        let index = self.index_of_any(subscription, handle)?;
        let item = self.items.get(index)?;
        let variable = self.bound.get(index)?;
        let state = variable.lock();
        let interests = state.interests();
        let membership = self.subscriptions.get(&subscription)?.feed.as_ref();
        let fed = membership.and_then(|one| interests?.find_feed(&one.feed));
        let interest = match membership {
            Some(_) => None,
            None if state.is_plain(&self.outbox, index) => None,
            None => Some(interests?.find(&self.outbox, index)?),
        };
        // Under the lock, so that no update is numbered between reading the parts of the sum.
        let sequence = variable.sequence();
        let items = &self.items;
        let mut ledger = SubscriptionLedger {
            written: sequence.saturating_sub(item.opened_at()),
            filtered: interest.map_or(0, |one| one.filtered) + fed.map_or(0, |one| one.filtered),
            coalesced: items.coalesced(index),
            sent_unconfirmed: items.unconfirmed(index),
            received: items
                .delivered(index)
                .saturating_sub(items.unconfirmed(index)),
            ..SubscriptionLedger::default()
        };
        if let Some(rest) = items.rest(index) {
            ledger.dropped_queue = rest.queue;
            ledger.dropped_disconnect = rest.disconnect;
            ledger.repaired = rest.repaired;
            let first = rest.initial.as_ref();
            ledger.waiting = u64::from(first.is_some_and(|first| first.sequence > 0));
        }
        if let Some(membership) = membership {
            let waiting = membership.waiting_of(handle);
            ledger.waiting += waiting.count;
            if waiting.ended {
                // Nothing was held back since the end, so everything after it was not delivered.
                let newest = waiting.newest.unwrap_or(item.last());
                ledger.dropped_overrun = match fed {
                    Some(fed) if fed.only_changes => fed.missed,
                    _ => sequence.saturating_sub(newest),
                };
            }
        } else if let (Some(interest), Some(interests)) = (interest, interests) {
            let rest = items.rest(index);
            add_waiting(&mut ledger, item, rest, interest, interests, sequence);
        } else {
            add_pending(&mut ledger, sequence.saturating_sub(item.last()));
        }
        Some(ledger)
    }

    /// Returns the sequence of the last update of a variable delivered in a subscription, or of its
    /// update at the time of the subscription.
    pub fn last_delivered(&self, subscription: u32, handle: u32) -> Option<u64> {
        let index = self.index_of_any(subscription, handle)?;
        Some(self.items.get(index)?.last())
    }

    /// Returns the item of a variable in a subscription, even if the variable is gone and the item
    /// has updates left to deliver.
    fn index_of_any(&self, subscription: u32, handle: u32) -> Option<u32> {
        let known = self.index_of(subscription, handle);
        known.or_else(|| {
            let mut items = self.subscriptions.get(&subscription)?.items.iter();
            items.find(|index| {
                let variable = self.bound.get(*index);
                variable.is_some_and(|variable| variable.handle() == handle)
            })
        })
    }

    /// Returns the subscriptions that include a variable.
    pub fn subscriptions_of(&self, handle: u32) -> Vec<(u32, Contract)> {
        let Some(variable) = self.engine.variable(handle) else {
            return Vec::new();
        };
        let state = variable.lock();
        let own = state.items_of(&self.outbox);
        let fed = self.subscriptions.iter().filter_map(|(id, one)| {
            one.feed.as_ref()?.by_handle.get(&handle)?;
            Some((*id, one.contract))
        });
        let mut subscriptions: Vec<(u32, Contract)> = own
            .filter_map(|index| {
                let id = self.items.get(index)?.subscription;
                Some((id, self.subscriptions.get(&id)?.contract))
            })
            .chain(fed)
            .collect();
        subscriptions.sort_by_key(|(id, _)| *id);
        subscriptions
    }
}

/// Counts pending updates of a contract that delivers only the newest: one waits, the others are
/// coalesced.
fn add_pending(ledger: &mut SubscriptionLedger, pending: u64) {
    ledger.waiting += u64::from(pending > 0);
    ledger.coalesced += pending.saturating_sub(1);
}

/// Adds the updates that the contract's own buffer holds and has dropped.
fn add_waiting(
    ledger: &mut SubscriptionLedger,
    item: &VariableItem,
    rest: Option<&Rest>,
    interest: &Interest,
    interests: &Interests,
    sequence: u64,
) {
    match &interest.kind {
        Kind::Mark | Kind::Sampled => {
            let told = rest.map_or(0, |rest| rest.filtered);
            let held_back = interest.filtered.saturating_sub(told);
            let behind = sequence.saturating_sub(item.last());
            add_pending(ledger, behind.saturating_sub(held_back));
        }
        Kind::Last(n) => {
            let cursor = rest.map_or(0, |rest| rest.cursor);
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
        Kind::Fifo(_) => {}
    }
}
