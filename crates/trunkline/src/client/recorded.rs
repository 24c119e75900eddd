//! A subscription that starts in the past: recorded readings first, then live ones.

use std::time::Duration;

use trunkline_client::{Event, RecordedEvents, RecordedStart, SubscribeOptions};
use trunkline_types::{Contract, Timestamp};

use super::{CallError, Client, Subscription};

/// Delivers readings of variables from a given time or update on: first the recorded readings, then
/// live ones, each exactly once (B-63). Late samples never were the current value of their variable.
/// A subscription that begins at a
/// time includes those that were recorded before it began, but no later ones. After a
/// lost connection, a restart of the engine or an overrun, missing readings are read from the
/// history. Recorded readings arrive in the order of their source timestamps. Timestamps
/// of one source may be out of order by at most one hour.
///
/// If a variable is undeployed and deployed again, an [`Event::Ended`] comes before its next reading.
///
/// If the history records only some updates of a variable, readings from the history skip the
/// others, and the next reading counts these as coalesced. Updates that are neither recorded nor
/// delivered count in `lost`.
pub struct RecordedSubscription {
    client: Client,
    subscription: Subscription,
    recorded: RecordedEvents,
    timeout: Duration,
}

impl RecordedSubscription {
    /// Subscribes to variables under the contract `all`, starting with the readings recorded since
    /// `since`. Each query of the history waits at most `timeout` for its answer.
    ///
    /// # Errors
    /// [`CallError::Subscribe`] if the subscription cannot be created.
    pub fn new<N: AsRef<str>>(
        client: &Client,
        names: &[N],
        since: Timestamp,
        timeout: Duration,
    ) -> Result<Self, CallError> {
        Self::of(client, names, RecordedEvents::new(names, since), timeout)
    }

    /// Subscribes to variables as [`new`](Self::new) does, each from its own time on or after an
    /// update that the program already has. A program that stores the
    /// [`Bookmark`](crate::Bookmark) of the last reading that it has processed continues after this
    /// reading when it starts again.
    ///
    /// If source timestamps are out of order, so are the sequences of recorded readings. To miss
    /// none, such a program stores the bookmark with the highest sequence, and only when
    /// [`next`](Self::next) has returned `None`.
    ///
    /// # Errors
    /// [`CallError::Subscribe`] if the subscription cannot be created.
    pub fn starting_at<N: AsRef<str>>(
        client: &Client,
        items: &[(N, RecordedStart)],
        timeout: Duration,
    ) -> Result<Self, CallError> {
        let names: Vec<&str> = items.iter().map(|(name, _)| name.as_ref()).collect();
        Self::of(client, &names, RecordedEvents::starting_at(items), timeout)
    }

    fn of<N: AsRef<str>>(
        client: &Client,
        names: &[N],
        recorded: RecordedEvents,
        timeout: Duration,
    ) -> Result<Self, CallError> {
        let subscription = client.subscribe(names, Contract::ALL, SubscribeOptions::default())?;
        Ok(Self {
            client: client.clone(),
            subscription,
            recorded,
            timeout,
        })
    }

    /// Returns the next event, or `None` if none arrives within `timeout`. A call that reads a page
    /// of the history may take longer.
    ///
    /// # Errors
    /// [`CallError`] if the engine cannot read the history. The next call returns the reading after
    /// the gap, with an unknown loss.
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<Option<Event>, CallError> {
        loop {
            if let Some(event) = self.recorded.next_event() {
                return Ok(Some(event));
            }
            if let Some(query) = self.recorded.query() {
                match self.client.history(query.clone(), self.timeout) {
                    Ok(page) => {
                        self.recorded.take_page(page);
                        continue;
                    }
                    // The client reads the page as soon as the connection is up again.
                    Err(CallError::NotConnected { .. }) => {}
                    Err(error) => {
                        self.recorded.give_up();
                        return Err(error);
                    }
                }
            }
            let (source, recorded) = (&self.subscription.0, &mut self.recorded);
            let has_event = source.wait(timeout, |core, now| {
                core.next_recorded(now, source.id, recorded).then_some(())
            });
            if has_event.is_none() {
                return Ok(None);
            }
        }
    }
}

impl std::fmt::Debug for RecordedSubscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordedSubscription")
            .field("recorded", &self.recorded)
            .finish_non_exhaustive()
    }
}
