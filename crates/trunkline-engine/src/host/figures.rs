//! What the engine's host measures: figures of the engine, of its storage and of the process.
//!
//! The host measures in a thread of its own and publishes each measurement as a whole, so that
//! readers never wait for the engine.

use std::time::Duration;

use trunkline_types::Timestamp;

use super::history::HistoryFigures;
use crate::features::alarms::AlarmCounts;
use crate::features::providers::SourceState;

/// One measurement of a hosted engine.
///
/// Totals count from the start of the engine. Libraries whose names begin with `_` are left out of
/// the counts of variables, updates and writes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct EngineFigures {
    pub name: String,
    /// Version of the program that hosts the engine.
    pub version: String,
    pub epoch: u64,
    pub uptime: Duration,
    pub connections: ConnectionFigures,
    pub security: SecurityFigures,
    pub configuration: ConfigurationFigures,
    pub variables: VariableFigures,
    pub delivery: DeliveryFigures,
    pub queue: MemoryFigures,
    pub requests: MemoryFigures,
    pub clock: ClockFigures,
    pub forcing: ForcingFigures,
    pub alarms: AlarmFigures,
    pub audit: AuditFigures,
    pub store: StoreFigures,
    pub history: HistoryState,
    /// The I/O servers that variables name as their source.
    pub sources: Vec<SourceState>,
    pub process: ProcessFigures,
    pub machine: MachineFigures,
    /// Longest delay of the housekeeping thread since the previous measurement: the time from the
    /// moment at which it should have run to the moment at which it ran.
    pub housekeeping_delay: Duration,
    /// The housekeeping thread ran more than a second late, within the last minute.
    pub is_late: bool,
}

/// Connections to the engine's listeners.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ConnectionFigures {
    /// Open sessions whose handshake is complete.
    pub sessions: u64,
    /// Limit of the open sessions; `None` if there is none.
    pub sessions_max: Option<u64>,
    /// Sessions that are being set up, until their client has logged in.
    pub handshakes: u64,
    pub handshakes_max: u64,
    /// Limit of the connections per second from one address of another machine.
    pub per_address_max: u64,
    /// Connections that became a session.
    pub accepted: u64,
    pub refused: u64,
    /// Attempts to accept a connection that failed for lack of descriptors or memory.
    pub accept_failures: u64,
    /// Lost sessions whose subscriptions wait for their clients.
    pub detached: u64,
}

/// The encryption of connections, and the identities of clients.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SecurityFigures {
    /// Clients on other machines need neither encryption nor an identity.
    pub is_insecure: bool,
    /// Why changed accounts are not used, or why the certificate cannot be renewed; empty if there
    /// is no such failure.
    pub error: String,
    /// Time until the certificate of the engine or its authority expires, in days; `None` without
    /// certificates.
    pub valid_days: Option<f64>,
}

/// The configuration files, compared with what the engine uses.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ConfigurationFigures {
    /// Why the last reload was refused; empty if it was not.
    pub error: String,
    /// The changed keys that need a restart, separated by commas.
    pub restart: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VariableFigures {
    pub deployed: u64,
    pub slots: u64,
    pub slots_max: u64,
    pub fields: u64,
    pub fields_max: u64,
    pub subscriptions: u64,
}

#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct DeliveryFigures {
    /// Completed writes, accepted or refused.
    pub offered: u64,
    /// Writes that became updates.
    pub written: u64,
    pub refused: u64,
    /// Updates per second, over the last period.
    pub rate: f64,
    /// Updates that buffered subscriptions lost.
    pub lost: u64,
    /// Subscriptions that ended because their buffer was full.
    pub overruns: u64,
    /// Items with a wrong value at a client, which were sent again.
    pub repaired: u64,
}

/// The use of a bounded memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryFigures {
    pub bytes: u64,
    /// `None` if there is no limit.
    pub bytes_max: Option<u64>,
    /// Number of times that the limit was reached.
    pub refusals: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClockFigures {
    pub steps: u64,
    /// Size of the last step in ns; negative if backward.
    pub last_step_nanos: i64,
    /// The last step was less than a minute ago.
    pub is_stepped: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ForcingFigures {
    /// True if forced values take effect.
    pub is_on: bool,
    pub variables: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AlarmFigures {
    pub counts: AlarmCounts,
    /// Number of the newest entry of the journal.
    pub journal: u64,
    /// Changes of alarms that are missing from the journal.
    pub lost: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AuditFigures {
    /// Number of the newest stored entry.
    pub newest: u64,
    /// Hash of this entry, as text.
    pub head: String,
    /// True if there is no room for entries of actions that do not wait for it.
    pub is_full: bool,
    /// Entries that are not stored yet.
    pub waiting: u64,
    /// Entries that are missing from the audit trail, and that no entry reports yet.
    pub lost: u64,
    /// True if stored entries survive a restart.
    pub is_lasting: bool,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StoreFigures {
    pub condition: StoreCondition,
    /// The current failure, or the damage, as a sentence; empty if there is none.
    pub error: String,
    /// The file system of the store; `None` if it is not known now.
    pub disk: Option<Space>,
}

/// A limited space, and how much of it is free.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Space {
    pub total_bytes: u64,
    pub free_bytes: u64,
}

impl Space {
    /// Returns true if less than this share of the space is free, in percent, and less than `bytes`.
    pub fn is_below(self, percent: u64, bytes: u64) -> bool {
        self.free_bytes < (self.total_bytes / 100).saturating_mul(percent).min(bytes)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum StoreCondition {
    /// The engine has no store.
    #[default]
    None,
    Good,
    /// Part of the contents is damaged and not used; the rest is in use.
    Damaged,
    /// Nothing can be stored now.
    Failing,
}

impl StoreCondition {
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Good => "good",
            Self::Damaged => "damaged",
            Self::Failing => "failing",
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HistoryState {
    pub condition: HistoryCondition,
    /// The current failure as a sentence; empty if there is none.
    pub error: String,
    /// The current failure of the spool as a sentence; empty if there is none.
    pub spool_error: String,
    pub figures: HistoryFigures,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HistoryCondition {
    /// The engine records no history.
    #[default]
    None,
    Good,
    /// The history cannot be written now, and updates are recorded in the spool.
    Spooling,
    /// Updates are not recorded now.
    Failing,
}

impl HistoryCondition {
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Good => "good",
            Self::Spooling => "spooling",
            Self::Failing => "failing",
        }
    }
}

/// The machine, or the container if that has less. A figure is `None` if the system does not provide
/// it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MachineFigures {
    /// Memory; free is what programs can get without swapping.
    pub memory: Option<Space>,
}

/// The process that hosts the engine. A figure is `None` if the system does not provide it.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct ProcessFigures {
    /// Processor time since the start of the process, in user and system mode.
    pub cpu_time: Option<Duration>,
    /// Processor time over the last period, in percent of one processor.
    pub cpu_percent: Option<f64>,
    pub resident_bytes: Option<u64>,
    pub virtual_bytes: Option<u64>,
    pub threads: Option<u64>,
    pub open_descriptors: Option<u64>,
    pub descriptors_max: Option<u64>,
    pub started: Option<Timestamp>,
}
