//! Subscriptions to variables of an engine in this process.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use trunkline_client::FromValue;
use trunkline_engine::{
    AccessError, Consumer, Delivery, Engine as Core, Sink, Subscribe, Wake, Wakes,
};
use trunkline_net::Clock;
use trunkline_types::ledger::EndedItem;
use trunkline_types::{Contract, Lost, Position, Reading, Sample};

use super::Variable;

/// A subscription to a variable in this process. Dropping it ends the subscription.
#[derive(Debug)]
pub struct Subscription {
    consumer: Consumer,
    signal: Arc<Signal>,
    clock: Clock,
    contract: Contract,
    /// Number of this caller's session. Its own updates are marked as `own`.
    session: u32,
    readings: VecDeque<Reading>,
    /// Number of updates lost at the end of the subscription, or [`GONE`].
    ended: Option<u64>,
}

/// The reason why no reading is returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NextError {
    /// No update arrived in time.
    #[error("no update arrived in time")]
    TimedOut,
    /// The subscriber was too slow for the queue limit of its `all` contract.
    #[error("the subscription ended because its queue was full; {lost} updates were lost")]
    Overrun {
        /// Number of updates after the last delivered update, until the subscription ended.
        lost: u64,
    },
    /// The variable was removed from the engine.
    #[error("the variable is no longer deployed")]
    Gone,
}

impl<T: FromValue> Variable<T> {
    /// Subscribes to the variable under `contract`.
    ///
    /// # Errors
    /// [`AccessError`] if the variable may not be read or the contract is invalid.
    pub fn subscribe(&self, contract: Contract) -> Result<Subscription, AccessError> {
        let (signal, mut consumer) = Signal::of_consumer(&self.core);
        consumer.subscribe(&self.caller, &self.variable, Subscribe::new(0, contract))?;
        Ok(Subscription {
            consumer,
            signal,
            clock: self.clock,
            contract,
            session: self.caller.session,
            readings: VecDeque::new(),
            ended: None,
        })
    }
}

impl Subscription {
    /// Waits for the next reading, up to `timeout`, or without a limit if `timeout` is `None`.
    ///
    /// # Errors
    /// [`NextError`]: no reading arrived in time, or the subscription has ended.
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<Reading, NextError> {
        let deadline = timeout.map(|timeout| self.clock.now().saturating_add(timeout));
        loop {
            if let Some(reading) = self.try_next()? {
                return Ok(reading);
            }
            let now = self.clock.now();
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Err(NextError::TimedOut);
            }
            let due = match self.contract {
                Contract::Sampled(_) => self.consumer.poll(now),
                _ => None,
            };
            let wake = [deadline, due].into_iter().flatten().min();
            if self.consumer.is_idle() {
                self.signal.wait(wake.map(|tick| tick.since(now)));
            }
        }
    }

    /// Returns the next reading without waiting; `None` if there is none.
    ///
    /// # Errors
    /// [`NextError`] if the subscription has ended.
    pub fn try_next(&mut self) -> Result<Option<Reading>, NextError> {
        if let Some(reading) = self.readings.pop_front() {
            return Ok(Some(reading));
        }
        if let Some(lost) = self.ended {
            return Err(if lost == GONE {
                NextError::Gone
            } else {
                NextError::Overrun { lost }
            });
        }
        let epoch = self.consumer.engine().epoch();
        let mut sink = Readings {
            readings: &mut self.readings,
            ended: &mut self.ended,
            session: self.session,
            epoch,
        };
        self.consumer.drain(&mut sink, &mut Wakes::new());
        match (self.readings.pop_front(), self.ended) {
            (Some(reading), _) => Ok(Some(reading)),
            (None, Some(_)) => self.try_next(),
            (None, None) => Ok(None),
        }
    }
}

/// Value of `ended` for a subscription whose variable was removed.
const GONE: u64 = u64::MAX;
/// Maximum number of readings that are decoded before the program takes them.
const DECODED_MAX: usize = 64;

/// A sink that decodes updates into readings.
struct Readings<'a> {
    readings: &'a mut VecDeque<Reading>,
    ended: &'a mut Option<u64>,
    session: u32,
    epoch: u64,
}

impl Sink for Readings<'_> {
    fn wants(&self) -> bool {
        self.readings.len() < DECODED_MAX
    }

    fn deliver(&mut self, delivery: &Delivery<'_>) {
        let update = delivery.update;
        let sample: Sample = delivery.variable.sample_of(update);
        let lost: Lost = delivery.lost;
        self.readings.push_back(Reading {
            sample,
            position: Position {
                epoch: self.epoch,
                sequence: update.sequence,
            },
            lost,
            stale: None,
            own: update.sequence > 0 && update.writer == self.session,
        });
    }

    fn overrun(&mut self, _subscription: u32, items: &[EndedItem]) {
        *self.ended = Some(items.iter().map(|item| item.lost).sum());
    }

    fn gone(&mut self, _subscription: u32, _handle: u32) {
        *self.ended = Some(GONE);
    }
}

/// A flag that the engine raises when it has updates for a consumer.
#[derive(Debug, Default)]
pub(super) struct Signal {
    raised: Mutex<bool>,
    changed: Condvar,
}

struct SignalWake(Arc<Signal>);

impl Wake for SignalWake {
    fn wake(&self) {
        *self.0.raised.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.changed.notify_all();
    }
}

impl Signal {
    /// Returns a consumer, and the signal that the engine raises when it has updates for the
    /// consumer.
    pub(super) fn of_consumer(core: &Core) -> (Arc<Self>, Consumer) {
        let signal = Arc::new(Self::default());
        let wake = Box::new(SignalWake(Arc::clone(&signal)));
        (signal, Consumer::new(core.clone(), wake))
    }

    /// Waits until the signal is raised or `timeout` has passed, then lowers the signal.
    pub(super) fn wait(&self, timeout: Option<Duration>) {
        let raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
        let is_lowered = |raised: &mut bool| !*raised;
        let mut raised = match timeout {
            None => self
                .changed
                .wait_while(raised, is_lowered)
                .unwrap_or_else(PoisonError::into_inner),
            Some(timeout) => {
                let waited = self.changed.wait_timeout_while(raised, timeout, is_lowered);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        *raised = false;
    }
}
