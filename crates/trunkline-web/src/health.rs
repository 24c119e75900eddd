//! The snapshot that every response describes.

use std::sync::Arc;
use std::time::Duration;

use trunkline_engine::figures::EngineFigures;

/// Age from which the housekeeping of an engine counts as stopped. It normally runs at least four
/// times per second.
pub const HOUSEKEEPING_AGE_MAX: Duration = Duration::from_secs(5);

/// The health of an engine at one moment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct HealthSnapshot {
    /// The newest measurement, at most about a second old while the housekeeping runs.
    pub figures: Arc<EngineFigures>,
    /// Time since the housekeeping of the engine ran last.
    pub housekeeping_age: Duration,
    /// Why the engine does not use the configuration of its files, as a sentence; `None` if it does.
    pub configuration_fault: Option<String>,
    /// True once the engine has begun to stop.
    pub is_stopping: bool,
}

impl HealthSnapshot {
    pub(crate) fn is_housekeeping_stopped(&self) -> bool {
        self.housekeeping_age > HOUSEKEEPING_AGE_MAX
    }
}

/// Supplies snapshots. The server calls it for every request, on its only thread.
pub trait HealthSource: Send + Sync {
    /// Returns the current snapshot. Must return at once: it must neither wait for the engine, nor
    /// delay it.
    fn snapshot(&self) -> HealthSnapshot;
}
