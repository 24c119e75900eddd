//! Defines the rules that select the variables of a history and specify how they are recorded.

use std::time::Duration;

use crate::Pattern;

/// Specifies how a variable is recorded (H-13). By default, every update is recorded.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HistorySettings {
    /// Records a number only if it differs from the last recorded number by more than this
    /// percentage of the variable's range (100 if it has none). A change of quality is always
    /// recorded.
    pub deadband_percent: f64,
    /// Rounds numbers to multiples of this number; 0 records them exactly.
    pub resolution: f64,
    /// Records only the newest update in each interval of this length. `None` records every update.
    pub every: Option<Duration>,
    /// Removes rows that are older than this period. `None` keeps rows without a time limit.
    pub keep: Option<Duration>,
    /// Records the value of an array or a waveform only if its wire form has at most this number of
    /// bytes. If the value is longer, its row is recorded without a value.
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

/// Specifies whether and how the variables that match a pattern are recorded.
#[derive(Clone, PartialEq, Debug)]
pub struct HistoryRule {
    pub pattern: Pattern,
    /// Settings for the matching variables; `None` if they are not recorded.
    pub settings: Option<HistorySettings>,
}
