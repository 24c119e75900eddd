//! An engine in the process of the Python program.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use trunkline::Engine;
use trunkline::config::{DeploymentPlan, HistoryConfig, StoreChoice};
use trunkline::io::Drivers;
use trunkline::local::{WriteError, Written};
use trunkline::types::history::{HistoryRule, HistorySettings};
use trunkline::types::{Pattern, Quality, Reason, Timestamp, Value};

use crate::connection::Connection;
use crate::definitions;
use crate::errors;
use crate::values;

/// Time for which a stopping engine waits for its clients.
const GRACE: Duration = Duration::from_secs(1);

/// An engine in this process; `None` after its end. Its store and history can then be used by another one.
#[pyclass(frozen)]
pub(crate) struct LocalEngine(Mutex<Option<Arc<Engine>>>);

impl LocalEngine {
    fn engine(&self, py: Python<'_>) -> PyResult<Arc<Engine>> {
        let running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stopped = || errors::new(py, "Closed", "closed", "the engine was stopped", None);
        running.clone().ok_or_else(stopped)
    }
}

#[pymethods]
impl LocalEngine {
    /// Starts an engine that listens at the addresses `listen`, such as "127.0.0.1:0". With a folder `history`, it
    /// records every update of all variables there.
    #[staticmethod]
    fn start(
        py: Python<'_>,
        name: &str,
        store: Option<PathBuf>,
        history: Option<PathBuf>,
        listen: Vec<String>,
    ) -> PyResult<Self> {
        let mut addresses = Vec::with_capacity(listen.len());
        for address in &listen {
            let parsed: SocketAddr = address.parse().map_err(|_| {
                PyValueError::new_err(format!(
                    "{address:?} is not an address and a port, such as 127.0.0.1:0"
                ))
            })?;
            addresses.push(parsed.into());
        }
        let mut plan = DeploymentPlan::default();
        plan.engine.name = Some(name.to_owned());
        plan.engine.store = store.map_or(StoreChoice::Off, StoreChoice::File);
        plan.engine.local_socket = !addresses.is_empty();
        plan.engine.listen = addresses;
        if let Some(folder) = history {
            let everything = Pattern::parse("**");
            let rule = HistoryRule {
                pattern: everything.map_err(|error| PyValueError::new_err(error.to_string()))?,
                settings: Some(HistorySettings::default()),
            };
            plan.history = Some(HistoryConfig {
                folder,
                spool: None,
                rules: vec![rule],
            });
        }
        let engine = py.detach(|| {
            Engine::from_plan_with(&plan, &Drivers::built_in(), Some(trunkline_history::open))
        });
        let engine = engine.map_err(|error| PyOSError::new_err(error.to_string()))?;
        // A service starts without its history. A program that asks for it must learn of it.
        if let Some(error) = engine.history_error() {
            py.detach(|| engine.shutdown(GRACE));
            return Err(PyOSError::new_err(error.to_string()));
        }
        Ok(Self(Mutex::new(Some(Arc::new(engine)))))
    }

    /// Connects to the engine through memory.
    fn connect(&self, py: Python<'_>) -> PyResult<Connection> {
        let client = self.engine(py)?.client();
        client
            .map(Connection::of)
            .map_err(|error| errors::of_connect(py, &error))
    }

    /// Deploys a library, without a connection.
    fn deploy(&self, py: Python<'_>, name: &str, rows: Vec<definitions::Row<'_>>) -> PyResult<()> {
        let library = definitions::library(name, &rows)?;
        let engine = self.engine(py)?;
        let deployed = py.detach(|| engine.deploy(&library));
        deployed.map(drop).map_err(|error| {
            errors::new(py, "Error", "bad-library", &error.to_string(), Some(name))
        })
    }

    /// Publishes a value as the source of a variable, which may be read-only. Returns `(state, epoch, seq)`.
    fn publish(
        &self,
        py: Python<'_>,
        name: &str,
        object: &Bound<'_, PyAny>,
        ts_ns: Option<i64>,
        quality: &str,
    ) -> PyResult<(&'static str, u64, u64)> {
        let engine = self.engine(py)?;
        let variable = engine.variable::<Value>(name).map_err(|error| {
            errors::new(
                py,
                "NotFound",
                "unknown-name",
                &error.to_string(),
                Some(name),
            )
        })?;
        let value = values::from_python(object, variable.data_type())?;
        let quality = quality_of(quality)?;
        let measured = ts_ns.map(Timestamp::from_nanos);
        let published = py.detach(|| variable.publish(value, quality, measured));
        match published {
            Ok(Written { position, changed }) => {
                let state = if changed { "applied" } else { "unchanged" };
                Ok((state, position.epoch, position.sequence))
            }
            Err(error) => {
                let code = match &error {
                    WriteError::Refused(refusal) => refusal.code().name(),
                    _ => "unknown",
                };
                Err(errors::new(
                    py,
                    "Rejected",
                    code,
                    &error.to_string(),
                    Some(name),
                ))
            }
        }
    }

    /// The addresses at which the engine listens.
    fn addresses(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let addresses = self.engine(py)?.local_addrs();
        Ok(addresses.iter().map(ToString::to_string).collect())
    }

    /// Stops the engine.
    fn stop(&self, py: Python<'_>) {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let engine = running.take();
        drop(running);
        py.detach(|| {
            if let Some(engine) = engine {
                engine.shutdown(GRACE);
            }
        });
    }
}

/// Reads a quality as readings show it: "good", or "uncertain" or "bad" with a reason behind a colon.
fn quality_of(text: &str) -> PyResult<Quality> {
    let (level, reason) = text.split_once(':').unwrap_or((text, "none"));
    match (level, Reason::from_name(reason.trim())) {
        ("good", Some(Reason::None)) => Ok(Quality::GOOD),
        ("uncertain", Some(reason)) => Ok(Quality::uncertain(reason)),
        ("bad", Some(reason)) => Ok(Quality::bad(reason)),
        _ => Err(PyValueError::new_err(format!(
            "{text:?} is no quality; it is good, or uncertain or bad with a reason, such as \
             \"bad: sensor-failure\""
        ))),
    }
}
