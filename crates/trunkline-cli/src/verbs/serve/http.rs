//! The HTTP server of `serve`, and the health that it shows.

use std::net::SocketAddr;
use std::sync::Arc;

use trunkline::figures::HealthMonitor;
use trunkline_config::DeploymentPlan;
use trunkline_web::{
    AllowedHosts, HealthSnapshot, HealthSource, HttpError, HttpListener, HttpServer,
};

use super::applied::AppliedConfiguration;
use crate::{Exit, Problem};

/// Reserves the address of the HTTP server before the engine starts, so that an address that cannot
/// be used is reported first. Returns `None` if no address is configured.
pub(super) fn bind(plan: &DeploymentPlan) -> Result<Option<HttpListener>, Problem> {
    let address = plan.engine.http;
    address
        .map(|address| HttpListener::bind(address).map_err(|error| problem(&error)))
        .transpose()
}

/// Answers the connections that arrived since the address was reserved, and all later ones.
pub(super) fn serve(
    listener: HttpListener,
    plan: &DeploymentPlan,
    monitor: HealthMonitor,
    configuration: AppliedConfiguration,
) -> Result<HttpServer, Problem> {
    let names = plan.engine.http_hosts.iter().map(String::as_str);
    let hosts = AllowedHosts::new(names).map_err(|error| {
        let sentence = format!("`http_hosts`: {error}");
        Problem::new(Exit::ProblemsFound, "invalid-host", sentence)
    })?;
    let source = EngineHealth {
        monitor,
        configuration,
    };
    listener
        .serve(hosts, Arc::new(source))
        .map_err(|error| problem(&error))
}

pub(super) fn url(address: SocketAddr) -> String {
    format!("http://{address}")
}

struct EngineHealth {
    monitor: HealthMonitor,
    configuration: AppliedConfiguration,
}

impl HealthSource for EngineHealth {
    fn snapshot(&self) -> HealthSnapshot {
        HealthSnapshot {
            figures: self.monitor.figures(),
            housekeeping_age: self.monitor.housekeeping_age(),
            configuration_fault: self.configuration.fault(),
            is_stopping: self.monitor.is_stopping(),
        }
    }
}

fn problem(error: &HttpError) -> Problem {
    let (exit, code) = match error {
        HttpError::NotLoopback { .. } => (Exit::NotPermitted, "not-loopback"),
        HttpError::PortDenied { .. } => (Exit::NotPermitted, "denied"),
        HttpError::PortInUse { .. } => (Exit::Failed, "port-taken"),
        HttpError::Io { .. } => (Exit::Failed, "listen"),
        HttpError::Thread(_) => (Exit::Failed, "system"),
    };
    Problem::new(exit, code, error.to_string())
}
