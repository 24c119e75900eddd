//! The health of an I/O server.

use std::fmt;

/// The health of an I/O server, as shown by `io info`, by checks and in the server's own variables.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Health {
    /// The state of the server.
    pub state: HealthState,
    /// The last error as a sentence. It is kept after the server has recovered.
    pub last_error: Option<String>,
    /// Number of completed scans.
    pub scans: u64,
    /// Number of failed scans, requests and attempts to open the device.
    pub errors: u64,
    /// Number of values that the device accepted.
    pub sends: u64,
    /// Number of values that the device refused.
    pub refused: u64,
}

/// The state of an I/O server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum HealthState {
    #[default]
    /// The device has not been opened.
    Idle,
    /// All items of the server can be read.
    Good,
    /// Some items cannot be read at present, or were read late.
    Degraded,
    /// Nothing can be read.
    Failed,
}

impl Health {
    /// Records that the device was opened.
    pub fn record_open(&mut self) {
        self.state = HealthState::Good;
    }

    /// Records a completed scan. `error` describes items that could not be read.
    pub fn record_scan(&mut self, error: Option<String>) {
        self.scans = self.scans.saturating_add(1);
        self.state = match error {
            None => HealthState::Good,
            Some(sentence) => {
                self.last_error = Some(sentence);
                HealthState::Degraded
            }
        };
    }

    /// Records a call in error, which does not change the state of the device.
    pub fn record_caller_error(&mut self, error: &dyn fmt::Display) {
        self.errors = self.errors.saturating_add(1);
        self.last_error = Some(error.to_string());
    }

    /// Records whether the device accepted a value.
    pub fn record_send<T, E: fmt::Display>(&mut self, outcome: &Result<T, E>) {
        match outcome {
            Ok(_) => self.sends = self.sends.saturating_add(1),
            Err(refusal) => {
                self.refused = self.refused.saturating_add(1);
                self.last_error = Some(refusal.to_string());
            }
        }
    }
}

/// Formats the state as `idle`, `good`, `degraded` or `failed`.
impl fmt::Display for HealthState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HealthState::Idle => "idle",
            HealthState::Good => "good",
            HealthState::Degraded => "degraded",
            HealthState::Failed => "failed",
        })
    }
}
