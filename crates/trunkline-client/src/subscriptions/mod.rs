//! Subscriptions: the program's items, the engine's frames about them, and the readings that the
//! program takes.
//!
//! `remote` has the subscriptions as the engine knows them, and `subscription` those of the
//! program. `subscribe` connects the two, `delivery` handles arriving updates, `restore` handles
//! lost connections, and `convergence` compares what has arrived with what the engine has sent.

pub(crate) mod batch;
pub(crate) mod convergence;
mod delivery;
pub(crate) mod remote;
mod restore;
pub(crate) mod subscribe;
pub(crate) mod subscription;

use trunkline_types::{Quality, Reading, Tick};

use self::convergence::Suspects;
use self::remote::{Pause, RemoteSubscriptions};
use self::restore::Retry;
use self::subscription::{Subscription, SubscriptionId, Taking};
use crate::client_state::ClientState;
use crate::event::Event;
use crate::table::Slab;

#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    pub(crate) remote: RemoteSubscriptions,
    pub(crate) list: Slab<Subscription>,
    /// Number of items in all subscriptions.
    items: usize,
    pub(crate) suspects: Suspects,
    pub(crate) retry: Retry,
    /// True if subscriptions resume from their last update on as soon as the variables are open
    /// again.
    resume_when_restored: bool,
}

impl Subscriptions {
    pub(crate) fn get(&self, id: SubscriptionId) -> Option<&Subscription> {
        self.list.get(id.0)
    }

    pub(crate) fn waiting(&self, id: SubscriptionId) -> usize {
        self.get(id).map_or(0, Subscription::waiting)
    }

    /// Queues a change of the connection in every subscription.
    pub(crate) fn connection_changed(&mut self, event: &Event) {
        for subscription in self.list.values_mut() {
            subscription.connection_changed(event.clone());
        }
    }

    /// Takes the next event of a subscription; `None` if there is none.
    pub(crate) fn next_event(
        &mut self,
        base: &mut ClientState,
        now: Tick,
        id: SubscriptionId,
    ) -> Option<Event> {
        self.next_with_sequence(base, now, id)
            .map(|(event, _)| event)
    }

    /// Takes the next event. If it is a reading, also returns the sequence in its record.
    pub(crate) fn next_with_sequence(
        &mut self,
        base: &mut ClientState,
        now: Tick,
        id: SubscriptionId,
    ) -> Option<(Event, u64)> {
        let mut next = None;
        self.take_by(base, now, id, |entry, taking| {
            entry.take(taking, 1, |event, sequence| next = Some((event, sequence)))
        });
        next
    }

    /// Takes events from a subscription. `take` returns the number of events taken, and the number
    /// of credits that they return.
    #[inline]
    pub(crate) fn take_by(
        &mut self,
        base: &mut ClientState,
        now: Tick,
        id: SubscriptionId,
        take: impl FnOnce(&mut Subscription, Taking<'_>) -> (usize, u32),
    ) {
        let connected = base.connection.is_open();
        let Some(entry) = self.list.get_mut(id.0) else {
            return;
        };
        let Some(remote) = self.remote.get(entry.remote) else {
            return;
        };
        let taking = Taking {
            now,
            remote,
            connected,
        };
        let (taken, credits) = take(entry, taking);
        if taken > 0 {
            self.handle_taken(base, id, credits);
        }
    }

    /// Returns the local copy of the item's last update without taking it.
    pub(crate) fn value(
        &self,
        base: &ClientState,
        now: Tick,
        id: SubscriptionId,
        item: u32,
    ) -> Option<Reading> {
        let entry = self.get(id)?;
        let taking = Taking {
            now,
            remote: self.remote.get(entry.remote)?,
            connected: base.connection.is_open(),
        };
        let mut reading = entry.peek(item, taking)?;
        if let Some(cause) = base.connection.down_because() {
            let last_quality = reading.sample.quality;
            reading.sample.quality = Quality::bad(cause.quality_reason())
                .with_clock(last_quality.clock(), last_quality.clock_sync());
        }
        Some(reading)
    }

    /// Grants the engine the credits of taken readings, and ends a pause whose condition is met.
    fn handle_taken(&mut self, base: &mut ClientState, id: SubscriptionId, credits: u32) {
        let Some(entry) = self.list.get(id.0) else {
            return;
        };
        let (remote_id, drained, reopen) = (entry.remote, entry.is_drained(), entry.options.reopen);
        let Some(remote) = self.remote.get_mut(remote_id) else {
            return;
        };
        if remote.count_taken(credits) {
            base.connection.receipt.schedule_grant(remote_id);
        }
        let resumes = match remote.pause {
            Pause::No => false,
            Pause::Overrun => drained && reopen,
            Pause::Backlog => drained,
        };
        if resumes {
            self.end_pause(base, remote_id);
        }
    }
}
