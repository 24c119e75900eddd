//! The common part of subscriptions for threads and for tasks.

use std::fmt;
use std::sync::Arc;

use trunkline_client::{ClientCore, Event, Item, SubscriptionAccount, SubscriptionId};
use trunkline_types::ledger::ClientLedger;
use trunkline_types::{Reading, Tick};

use super::verbs::Shared;

/// A subscription of a connection. Dropping it ends the subscription.
pub(super) struct Followed {
    pub(super) shared: Arc<Shared>,
    pub(super) id: SubscriptionId,
}

impl Followed {
    pub(super) fn value(&self, item: u32) -> Option<Reading> {
        let link = &self.shared.link;
        link.with(|core, now, _| core.value(now, self.id, item))
    }

    pub(super) fn item(&self, item: u32) -> Option<Item> {
        self.shared.link.with(|core, _, _| core.item(self.id, item))
    }

    pub(super) fn account(&self) -> Option<SubscriptionAccount> {
        self.shared.link.with(|core, _, _| core.account(self.id))
    }

    pub(super) fn ledger(&self) -> Option<ClientLedger> {
        self.shared.link.with(|core, _, _| core.ledger(self.id))
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        let link = &self.shared.link;
        link.with(|core, _, _| core.unsubscribe(self.id));
    }
}

impl fmt::Debug for Followed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Subscription").field(&self.id).finish()
    }
}

/// Takes up to `most` events of a subscription. Returns `None` if none is waiting.
pub(super) fn take_events(
    core: &mut ClientCore,
    now: Tick,
    subscription: SubscriptionId,
    most: usize,
) -> Option<Vec<Event>> {
    let mut events = Vec::new();
    core.take_events(now, subscription, most.max(1), &mut events);
    (!events.is_empty()).then_some(events)
}
