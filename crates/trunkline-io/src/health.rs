//! How an I/O server is doing.

use std::fmt;

/// How an I/O server is doing, for `io info`, checks and its own variables.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Health {
    /// In one word.
    pub state: HealthState,
    /// The last thing that went wrong, as a sentence; kept when it is over.
    pub last_error: Option<String>,
    /// Scans done.
    pub scans: u64,
    /// Scans, requests and openings that failed.
    pub errors: u64,
    /// Values that the device took.
    pub sends: u64,
    /// Values that were refused.
    pub refused: u64,
}

/// The state of an I/O server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum HealthState {
    /// Not opened yet.
    #[default]
    Idle,
    /// Everything it offers is read.
    Good,
    /// Some of what it offers cannot be read at the moment, or came late.
    Degraded,
    /// Nothing can be read.
    Failed,
}

impl Health {
    /// The device was opened.
    pub(crate) fn opened(&mut self) {
        self.state = HealthState::Good;
    }

    /// A scan was done; `trouble` says what was not as it should be in it.
    pub(crate) fn scanned(&mut self, trouble: Option<String>) {
        self.scans = self.scans.saturating_add(1);
        self.state = match trouble {
            None => HealthState::Good,
            Some(sentence) => {
                self.last_error = Some(sentence);
                HealthState::Degraded
            }
        };
    }

    /// The caller did something that cannot be done; the device is as well as before.
    pub(crate) fn mistaken(&mut self, error: &dyn fmt::Display) {
        self.errors = self.errors.saturating_add(1);
        self.last_error = Some(error.to_string());
    }

    /// A value was offered to the device.
    pub(crate) fn sent<T, E: fmt::Display>(&mut self, outcome: &Result<T, E>) {
        match outcome {
            Ok(_) => self.sends = self.sends.saturating_add(1),
            Err(refusal) => {
                self.refused = self.refused.saturating_add(1);
                self.last_error = Some(refusal.to_string());
            }
        }
    }
}

/// `idle`, `good`, `degraded` or `failed`.
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
