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
        let interests = state.interests();
        let membership = self.subscriptions.get(&subscription)?.feed.as_ref();
        let fed = membership.and_then(|one| interests?.find_feed(&one.feed));
        let interest = match membership {
            Some(_) => None,
            None => Some(interests?.find(&self.outbox, index)?),
        };
        // Under the lock: nothing is numbered between the parts of the sum.
        let sequence = item.variable.sequence();
        let mut ledger = SubscriptionLedger {
            written: sequence.saturating_sub(item.opened_at),
            filtered: interest.map_or(0, |one| one.filtered) + fed.map_or(0, |one| one.filtered),
            coalesced: item.coalesced,
            sent_unconfirmed: item.unconfirmed(),
            received: item.delivered.saturating_sub(item.unconfirmed()),
            ..SubscriptionLedger::default()
        };
        if let Some(rest) = item.rest_ref() {
            ledger.dropped_queue = rest.queue;
            ledger.dropped_disconnect = rest.disconnect;
            let first = rest.initial.as_ref();
            ledger.waiting = u64::from(first.is_some_and(|first| first.sequence > 0));
        }
        if let Some(membership) = membership {
            let waiting = membership.waiting_of(handle);
            ledger.waiting += waiting.count;
            if waiting.ended {
                // Nothing was held back since: what came after its end is what it did not get.
                let newest = waiting.newest.unwrap_or(item.last);
                ledger.dropped_overrun = match fed {
                    Some(fed) if fed.only_changes => fed.missed,
                    _ => sequence.saturating_sub(newest),
                };
            }
        } else if let (Some(interest), Some(interests)) = (interest, interests) {
            add_waiting(&mut ledger, item, interest, interests, sequence);
        }
        Some(ledger)
    }

    /// The number of the update of a variable that was handed over last under a subscription, or
    /// that it had when it was subscribed.
    pub fn last_delivered(&self, subscription: u32, handle: u32) -> Option<u64> {
        let index = self.index_of(subscription, handle)?;
        Some(self.items.get(index)?.last)
    }

    /// The subscriptions in which a variable takes part.
    pub fn subscriptions_of(&self, handle: u32) -> Vec<(u32, Contract)> {
        let Some(variable) = self.engine.variable(handle) else {
            return Vec::new();
        };
        let state = variable.lock();
        let interests = state.interests().map(Interests::iter);
        let own = interests.into_iter().flatten();
        let own = own.filter(|interest| interest.is_of(&self.outbox));
        let fed = self.subscriptions.iter().filter_map(|(id, one)| {
            one.feed.as_ref()?.by_handle.get(&handle)?;
            Some((*id, one.contract))
        });
        let mut subscriptions: Vec<(u32, Contract)> = own
            .filter_map(|interest| {
                let id = self.items.get(interest.item)?.subscription;
                Some((id, self.subscriptions.get(&id)?.contract))
            })
            .chain(fed)
            .collect();
        subscriptions.sort_by_key(|(id, _)| *id);
        subscriptions
    }
}

/// What the contract's own buffer holds and has dropped.
fn add_waiting(
    ledger: &mut SubscriptionLedger,
    item: &VariableItem,
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
        Kind::Fifo(_) => {}
    }
}
