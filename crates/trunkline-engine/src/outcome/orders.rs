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

/// The keys of the configuration that a reload changed. The names are those of the files.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReloadedKeys {
    /// Those that take effect.
    pub applied: Vec<String>,
    /// Those that take effect when the engine is started again.
    pub restart: Vec<String>,
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
    /// The result of a reload of the configuration.
    pub keys: ReloadedKeys,
    /// The answer to a query of a log.
    pub page: Option<Box<LogPage>>,
}

/// Shows the changes as text: `3 added, 1 removed; audit_age; needs a restart: listen`.
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
        let ReloadedKeys { applied, restart } = &self.keys;
        for (before, keys) in [("", applied), ("needs a restart: ", restart)] {
            if keys.is_empty() {
                continue;
            }
            if !between.is_empty() {
                between = "; ";
            }
            write!(f, "{between}{before}{}", keys.join(", "))?;
            between = "; ";
        }
        match between {
            "" => f.write_str("nothing changed"),
            _ => Ok(()),
        }
    }
}

pub type OrderResult = Result<Report, Fault>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_of_a_reload_names_counts_and_keys() {
        let keys = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let mut sut = Report {
            added: 3,
            kept: 5,
            removed: 1,
            ..Report::default()
        };
        assert_eq!(sut.to_string(), "3 added, 1 removed");
        sut.keys.restart = keys(&["listen", "[[io]] plc1"]);
        let shown = "3 added, 1 removed; needs a restart: listen, [[io]] plc1";
        assert_eq!(sut.to_string(), shown);
        (sut.added, sut.removed) = (0, 0);
        sut.keys.applied = keys(&["audit_age"]);
        let shown = "audit_age; needs a restart: listen, [[io]] plc1";
        assert_eq!(sut.to_string(), shown);
        sut.keys = ReloadedKeys::default();
        assert_eq!(sut.to_string(), "nothing changed");
    }
}
