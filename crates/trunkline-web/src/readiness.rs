//! The checks behind `/healthz` and `/readyz`.

use serde::Serialize;
use trunkline_engine::SourceConnection;
use trunkline_engine::figures::{HistoryCondition, StoreCondition};

use crate::health::{HOUSEKEEPING_AGE_MAX, HealthSnapshot};

/// The body of `/readyz`.
#[derive(Debug, Serialize)]
pub(crate) struct Readiness {
    /// True if every check is passed.
    pub(crate) ready: bool,
    checks: Vec<Check>,
}

#[derive(Debug, Serialize)]
struct Check {
    /// What was checked; for an I/O server `io:` and its name.
    name: String,
    ok: bool,
    /// The reason if the check is not passed, or a remark.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// Returns why the process is not alive, or `None` if it is.
pub(crate) fn liveness_fault(snapshot: &HealthSnapshot) -> Option<String> {
    snapshot.is_housekeeping_stopped().then(|| {
        format!(
            "the housekeeping of the engine has not run for {:.1} s; it should run at least every \
             {} s; restart the engine, and report a defect",
            snapshot.housekeeping_age.as_secs_f64(),
            HOUSEKEEPING_AGE_MAX.as_secs()
        )
    })
}

/// Checks whether clients can use everything that the engine is configured to provide.
pub(crate) fn readiness(snapshot: &HealthSnapshot) -> Readiness {
    let figures = &snapshot.figures;
    let some = |sentence: &String| (!sentence.is_empty()).then(|| sentence.clone());
    let check = |name: &str, ok: bool, reason: Option<String>| Check {
        name: name.to_owned(),
        ok,
        reason,
    };
    let liveness = liveness_fault(snapshot);
    let stopping = snapshot
        .is_stopping
        .then(|| "the engine is stopping".to_owned());
    let mut checks = vec![
        check("housekeeping", liveness.is_none(), liveness),
        check("running", stopping.is_none(), stopping),
        check(
            "configuration",
            snapshot.configuration_fault.is_none(),
            snapshot.configuration_fault.clone(),
        ),
        check(
            "store",
            match figures.store.condition {
                // Damaged rows are not used, and everything else is.
                StoreCondition::None | StoreCondition::Good | StoreCondition::Damaged => true,
                StoreCondition::Failing => false,
            },
            some(&figures.store.error),
        ),
        check(
            "history",
            match figures.history.condition {
                // Nothing is lost while the spool records the updates.
                HistoryCondition::None | HistoryCondition::Good | HistoryCondition::Spooling => {
                    true
                }
                HistoryCondition::Failing => false,
            },
            some(&figures.history.error).or_else(|| some(&figures.history.spool_error)),
        ),
    ];
    checks.extend(figures.sources.iter().map(|source| {
        let reason = match source.connection {
            SourceConnection::Connected => None,
            SourceConnection::Disconnected => Some("it has no connection to its device yet"),
            SourceConnection::NotRunning => {
                Some("it is not running; start the process that runs it")
            }
        };
        Check {
            name: format!("io:{}", source.name),
            ok: reason.is_none(),
            reason: source.error.clone().or(reason.map(str::to_owned)),
        }
    }));
    Readiness {
        ready: checks.iter().all(|check| check.ok),
        checks,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use trunkline_engine::SourceState;
    use trunkline_engine::figures::{EngineFigures, HistoryState, StoreFigures};

    use super::*;

    fn failed(snapshot: &HealthSnapshot) -> Vec<String> {
        let readiness = readiness(snapshot);
        let failed: Vec<String> = readiness
            .checks
            .iter()
            .filter(|check| !check.ok)
            .map(|check| format!("{}: {}", check.name, check.reason.as_deref().unwrap_or("")))
            .collect();
        assert_eq!(readiness.ready, failed.is_empty());
        failed
    }

    fn with(figures: EngineFigures) -> HealthSnapshot {
        HealthSnapshot {
            figures: Arc::new(figures),
            ..HealthSnapshot::default()
        }
    }

    #[test]
    fn engine_without_store_history_and_io_servers_is_ready() {
        assert!(failed(&HealthSnapshot::default()).is_empty());
    }

    #[test]
    fn housekeeping_fails_after_five_seconds() {
        let aged = |age| HealthSnapshot {
            housekeeping_age: age,
            ..HealthSnapshot::default()
        };
        let sut = aged(HOUSEKEEPING_AGE_MAX);
        assert_eq!(liveness_fault(&sut), None);
        let sut = aged(HOUSEKEEPING_AGE_MAX + Duration::from_nanos(1));
        let fault = liveness_fault(&sut).unwrap();
        assert!(fault.contains("has not run for 5.0 s"), "{fault}");
        assert_eq!(failed(&sut), [format!("housekeeping: {fault}")]);
    }

    #[test]
    fn failures_of_the_disk_are_reasons_and_a_working_spool_is_not() {
        let store = |condition, error: &str| StoreFigures {
            condition,
            error: error.to_owned(),
            disk: None,
        };
        let history = |condition, error: &str| HistoryState {
            condition,
            error: error.to_owned(),
            ..HistoryState::default()
        };
        let sut = with(EngineFigures {
            store: store(StoreCondition::Failing, "the disk is full"),
            history: history(HistoryCondition::Failing, "no such folder"),
            ..EngineFigures::default()
        });
        assert_eq!(
            failed(&sut),
            ["store: the disk is full", "history: no such folder"]
        );
        let sut = with(EngineFigures {
            store: store(StoreCondition::Damaged, "3 rows"),
            history: history(HistoryCondition::Spooling, "the disk is full"),
            ..EngineFigures::default()
        });
        assert!(failed(&sut).is_empty());
    }

    #[test]
    fn io_servers_are_named_with_their_errors() {
        let source = |name: &str, connection, error: Option<&str>| SourceState {
            name: Arc::from(name),
            connection,
            error: error.map(str::to_owned),
        };
        let sut = with(EngineFigures {
            sources: vec![
                source("plc", SourceConnection::Disconnected, Some("timed out")),
                source("daq", SourceConnection::NotRunning, None),
                source("host", SourceConnection::Connected, Some("no sensor")),
            ],
            ..EngineFigures::default()
        });
        assert_eq!(
            failed(&sut),
            [
                "io:plc: timed out",
                "io:daq: it is not running; start the process that runs it",
            ]
        );
    }

    #[test]
    fn configuration_that_was_not_applied_is_a_reason() {
        let mut sut = HealthSnapshot {
            configuration_fault: Some("plant.toml:3:1 unknown key".to_owned()),
            ..HealthSnapshot::default()
        };
        assert_eq!(failed(&sut), ["configuration: plant.toml:3:1 unknown key"]);
        sut = HealthSnapshot {
            is_stopping: true,
            ..HealthSnapshot::default()
        };
        assert_eq!(failed(&sut), ["running: the engine is stopping"]);
    }
}
