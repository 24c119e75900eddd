//! A subscription that begins in the past: recorded readings first, then live ones.

use std::time::Duration;

use trunkline_client::{Event, RecordedEvents, SubscribeOptions};
use trunkline_types::{Contract, Timestamp};

use super::{CallError, Client, Subscription};

/// Readings of variables from a given time on: first the recorded ones, then live ones, each
/// exactly once (B-63). Late samples, which never were the current value of their variable, are
/// included in the part recorded before the subscription began, but not later. After a lost
/// connection, a restart of the engine or an overrun, missing readings are read from the history.
/// Recorded readings come in the order of their source timestamps.
///
/// If the history records only some updates of a variable, readings from the history skip the
/// others, and the next reading counts them as coalesced. Updates that are neither recorded nor
/// delivered count in `lost`.
pub struct RecordedSubscription {
    client: Client,
    subscription: Subscription,
    recorded: RecordedEvents,
    timeout: Duration,
}

impl RecordedSubscription {
    /// Subscribes to variables under the contract `all`, beginning with the readings recorded since
    /// a given time. Each query of the history waits at most `timeout` for an answer.
    ///
    /// # Errors
    /// [`CallError::Subscribe`].
    pub fn new<N: AsRef<str>>(
        client: &Client,
        names: &[N],
        since: Timestamp,
        timeout: Duration,
    ) -> Result<Self, CallError> {
        let subscription = client.subscribe(names, Contract::ALL, SubscribeOptions::default())?;
        Ok(Self {
            client: client.clone(),
            subscription,
            recorded: RecordedEvents::new(names, since),
            timeout,
        })
    }

    /// Returns the next event; `None` if none arrives within the timeout. Reading a page of the
    /// history may take longer.
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
                    // The page is read when the connection is up again.
                    Err(CallError::NotConnected { .. }) => {}
                    Err(error) => {
                        self.recorded.give_up();
                        return Err(error);
                    }
                }
            }
            match self.subscription.next(timeout) {
                Some(event) => self.recorded.take_event(event),
                None => return Ok(None),
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
