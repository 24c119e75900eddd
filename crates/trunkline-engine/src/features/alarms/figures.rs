//! Counts the alarms by state and priority, and the alarms raised recently.

use std::collections::VecDeque;
use std::time::Duration;

use trunkline_alarm::{Change, Event};
use trunkline_types::Tick;
use trunkline_types::alarm::{AlarmRecord, AlarmState};

/// A third of the range of priorities, for counts that must not have one entry per priority.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PriorityBand {
    /// Priorities 1 to 333.
    Low,
    /// Priorities 334 to 666.
    Medium,
    /// Priorities 667 to 1000.
    High,
}

impl PriorityBand {
    /// All bands, least urgent first.
    pub const ALL: [Self; 3] = [Self::Low, Self::Medium, Self::High];

    /// Returns the band of a priority from 1 to 1000.
    pub fn of(priority: u16) -> Self {
        match priority {
            ..=333 => Self::Low,
            334..=666 => Self::Medium,
            667.. => Self::High,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// The number of alarms by state and priority, and the number raised recently.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AlarmCounts {
    /// Number of alarms of each band in each state, indexed by band and by `AlarmState::number`.
    by_state: [[u64; AlarmState::ALL.len()]; PriorityBand::ALL.len()],
    /// Number of alarms whose condition is met, including hidden ones.
    pub active: u64,
    /// Number of alarms raised within the last ten minutes.
    pub raised_recently: u64,
}

impl AlarmCounts {
    /// Returns the number of alarms in the states that `is_counted` selects.
    pub fn in_states(&self, is_counted: impl Fn(AlarmState) -> bool) -> u64 {
        let counted = self.by_state_and_band();
        let counted = counted.filter(|(state, ..)| is_counted(*state));
        counted.map(|(_, _, count)| count).sum()
    }

    /// Returns the number of alarms for every combination of state and priority.
    pub fn by_state_and_band(&self) -> impl Iterator<Item = (AlarmState, PriorityBand, u64)> {
        let bands = PriorityBand::ALL.into_iter().zip(&self.by_state);
        bands.flat_map(|(band, counts)| {
            let states = AlarmState::ALL.into_iter().zip(counts);
            states.map(move |(state, count)| (state, band, *count))
        })
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
    fn count_of(&mut self, state: AlarmState, priority: u16) -> &mut u64 {
        let band = PriorityBand::of(priority);
        &mut self.figures.by_state[band as usize][usize::from(state.number())]
    }

    pub(super) fn add(&mut self, record: &AlarmRecord, priority: u16) {
        *self.count_of(record.state, priority) += 1;
        self.figures.active += u64::from(record.is_active);
    }

    pub(super) fn remove(&mut self, record: &AlarmRecord, priority: u16) {
        *self.count_of(record.state, priority) -= 1;
        self.figures.active -= u64::from(record.is_active);
    }

    pub(super) fn note(&mut self, change: Change, priority: u16, now: Tick) {
        *self.count_of(change.from, priority) -= 1;
        *self.count_of(change.to, priority) += 1;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_at_the_ends_of_a_band_belong_to_it() {
        let bands = [1, 333, 334, 666, 667, 1000].map(PriorityBand::of);
        let names = bands.map(PriorityBand::name);
        assert_eq!(names, ["low", "low", "medium", "medium", "high", "high"]);
    }

    #[test]
    fn a_change_moves_an_alarm_within_its_band() {
        let mut sut = Counts::default();
        sut.add(&AlarmRecord::default(), 900);
        sut.add(&AlarmRecord::default(), 10);
        let change = Change {
            event: Event::Raise,
            from: AlarmState::Normal,
            to: AlarmState::Unacknowledged,
            is_active: true,
        };
        sut.note(change, 900, Tick::ZERO);
        let figures = sut.figures(Tick::ZERO);
        let counted: Vec<_> = figures
            .by_state_and_band()
            .filter(|(_, _, count)| *count > 0)
            .collect();
        assert_eq!(
            counted,
            [
                (AlarmState::Normal, PriorityBand::Low, 1),
                (AlarmState::Unacknowledged, PriorityBand::High, 1),
            ]
        );
        assert_eq!(figures.in_states(AlarmState::is_unacknowledged), 1);
    }
}
