//! Counts the alarms in each state, and the alarms raised recently.

use std::collections::VecDeque;
use std::time::Duration;

use trunkline_alarm::{Change, Event};
use trunkline_types::Tick;
use trunkline_types::alarm::{AlarmRecord, AlarmState};

/// The number of alarms by state, and the number raised recently.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AlarmCounts {
    /// Number of alarms in each state, indexed by `AlarmState::number`.
    by_state: [u64; AlarmState::ALL.len()],
    /// Number of alarms whose condition is met, including hidden ones.
    pub active: u64,
    /// Number of alarms raised within the last ten minutes.
    pub raised_recently: u64,
}

impl AlarmCounts {
    /// Returns the number of alarms in the states that `is_counted` selects.
    pub fn in_states(&self, is_counted: impl Fn(AlarmState) -> bool) -> u64 {
        let states = AlarmState::ALL.iter().zip(self.by_state);
        let counted = states.filter(|(state, _)| is_counted(**state));
        counted.map(|(_, count)| count).sum()
    }
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    figures: AlarmCounts,
    /// The periods of the last ten minutes in which alarms were raised, each with its number of
    /// raised alarms.
    raises: VecDeque<(u64, u64)>,
}

/// The resolution of [`AlarmCounts::raised_recently`].
const RAISES_PERIOD: Duration = Duration::from_secs(10);
/// Number of periods in ten minutes.
const RAISES_PERIODS: u64 = 60;

impl Counts {
    fn count_of(&mut self, state: AlarmState) -> &mut u64 {
        &mut self.figures.by_state[usize::from(state.number())]
    }

    pub(super) fn add(&mut self, record: &AlarmRecord) {
        *self.count_of(record.state) += 1;
        self.figures.active += u64::from(record.is_active);
    }

    pub(super) fn remove(&mut self, record: &AlarmRecord) {
        *self.count_of(record.state) -= 1;
        self.figures.active -= u64::from(record.is_active);
    }

    pub(super) fn note(&mut self, change: Change, now: Tick) {
        *self.count_of(change.from) -= 1;
        *self.count_of(change.to) += 1;
        match change.event {
            Event::Raise => {
                self.figures.active += 1;
                if change.to.is_hidden() {
                    // Operators do not see hidden alarms.
                    return;
                }
                let period = now.as_nanos() / RAISES_PERIOD.as_nanos() as u64;
                match self.raises.back_mut().filter(|last| last.0 == period) {
                    Some(last) => last.1 += 1,
                    None => self.raises.push_back((period, 1)),
                }
                self.forget_old(period);
            }
            Event::Clear => self.figures.active -= 1,
            Event::Acknowledge
            | Event::Reset
            | Event::Shelve
            | Event::Unshelve
            | Event::Suppress
            | Event::Unsuppress
            | Event::TakeOutOfService
            | Event::ReturnToService => {}
        }
    }

    fn forget_old(&mut self, period: u64) {
        let oldest = period.saturating_sub(RAISES_PERIODS - 1);
        while self.raises.front().is_some_and(|first| first.0 < oldest) {
            self.raises.pop_front();
        }
    }

    pub(super) fn figures(&mut self, now: Tick) -> AlarmCounts {
        self.forget_old(now.as_nanos() / RAISES_PERIOD.as_nanos() as u64);
        AlarmCounts {
            raised_recently: self.raises.iter().map(|(_, count)| count).sum(),
            ..self.figures.clone()
        }
    }
}
