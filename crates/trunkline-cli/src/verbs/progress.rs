//! Measures the progress of a command that moves data.

use std::time::Duration;

use trunkline_types::Tick;

use super::stream::units::per_second;
use crate::terminal::Terminal;

/// Minimum time between two updates of the progress line.
const INTERVAL: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Meter {
    last_shown: Tick,
    /// The count when progress was last shown.
    count: u64,
}

impl Meter {
    pub(crate) fn new(now: Tick) -> Self {
        Self {
            last_shown: now,
            count: 0,
        }
    }

    /// Returns the rate per second since progress was last shown, if it is time to show it again.
    pub(crate) fn rate(&mut self, now: Tick, count: u64, terminal: &Terminal) -> Option<f64> {
        let elapsed = now.since(self.last_shown);
        if !terminal.shows_progress() || elapsed < INTERVAL {
            return None;
        }
        let increase = count.saturating_sub(self.count);
        *self = Self {
            last_shown: now,
            count,
        };
        Some(per_second(increase, elapsed))
    }
}
