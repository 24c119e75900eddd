//! The rules that select the variables of a history and say how they are recorded.

use std::time::Duration;

use crate::Pattern;

/// How a variable is recorded (H-13). By default every update is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HistorySettings {
    /// Records a number only if it differs from the one recorded last by more than this percentage
    /// of the variable's range (100 if it has none). A change of quality is always recorded.
    pub deadband_percent: f64,
    /// Rounds numbers to multiples of this; 0 records them exactly.
    pub resolution: f64,
    /// Records at most one update in this time, the newest. `None` records every update.
    pub every: Option<Duration>,
    /// Removes rows that are older than this. `None` keeps them for ever.
    pub keep: Option<Duration>,
    /// Records the value of an array or a waveform if its wire form has at most this many bytes. The
    /// row of a longer one has no value.
    pub array_bytes_max: usize,
}

impl HistorySettings {
    /// Default of [`array_bytes_max`](Self::array_bytes_max).
    pub const ARRAY_BYTES_MAX: usize = 64 << 10;
}

impl Default for HistorySettings {
    fn default() -> Self {
        Self {
            deadband_percent: 0.0,
            resolution: 0.0,
            every: None,
            keep: None,
            array_bytes_max: Self::ARRAY_BYTES_MAX,
        }
    }
}

/// Whether, and how, the variables that match a pattern are recorded.
#[derive(Clone, PartialEq, Debug)]
pub struct HistoryRule {
    pub pattern: Pattern,
    /// `None` if they are not recorded.
    pub settings: Option<HistorySettings>,
}
