//! The results of orders.

use std::fmt;

use trunkline_types::alarm::AlarmJournalPage;
use trunkline_types::history::HistoryPage;
use trunkline_types::{AuditPage, Fault};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum LibraryState {
    #[default]
    Running,
    /// Its variables keep their values with the quality `bad: process-missing`, and refuse writes.
    Stopped,
}

impl LibraryState {
    pub fn name(self) -> &'static str {
        match self {
            LibraryState::Running => "running",
            LibraryState::Stopped => "stopped",
        }
    }
}

/// A page of one of the engine's logs, or of its history.
#[derive(Clone, PartialEq, Debug)]
pub enum LogPage {
    Audit(AuditPage),
    Alarms(AlarmJournalPage),
    History(HistoryPage),
}

/// The result of an order, as numbers of variables.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Report {
    pub state: Option<LibraryState>,
    /// Variables that are new, or whose type, scope or FIFO has changed.
    pub added: usize,
    /// Variables that remain, with changed properties or state.
    pub changed: usize,
    pub kept: usize,
    pub removed: usize,
    /// The answer to a query of a log.
    pub page: Option<Box<LogPage>>,
}

/// Shows the changes as text: `3 added, 1 removed`.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.added, "added"),
            (self.changed, "changed"),
            (self.removed, "removed"),
        ];
        let mut between = "";
        for (count, what) in counts.iter().filter(|(count, _)| *count > 0) {
            write!(f, "{between}{count} {what}")?;
            between = ", ";
        }
        match between {
            "" => f.write_str("nothing changed"),
            _ => Ok(()),
        }
    }
}

pub type OrderResult = Result<Report, Fault>;
