//! The HTTP server of `serve`, and the health that it shows.

use std::net::SocketAddr;
use std::sync::Arc;

use trunkline::InheritedSockets;
use trunkline::figures::HealthMonitor;
use trunkline_config::DeploymentPlan;
use trunkline_web::{
    AllowedHosts, HealthSnapshot, HealthSource, HttpError, HttpListener, HttpServer,
};

use crate::{Exit, Problem};

/// Reserves the address of the HTTP server before the engine starts, so that an address that cannot
/// be used is reported first. Returns `None` if no address is configured.
/// A socket of the service manager at the address is used.
pub(super) fn bind(
    plan: &DeploymentPlan,
    sockets: &InheritedSockets,
) -> Result<Option<HttpListener>, Problem> {
    let bind = |address| match sockets.take_tcp(address) {
        Some(listener) => HttpListener::adopt(listener, address),
        None => HttpListener::bind(address),
    };
    let listener = plan.engine.http.map(bind);
    listener.transpose().map_err(|error| problem(&error))
}

/// Answers the connections that arrived since the address was reserved, and all later ones.
pub(super) fn serve(
    listener: HttpListener,
    plan: &DeploymentPlan,
    monitor: HealthMonitor,
) -> Result<HttpServer, Problem> {
    listener
        .serve(allowed_hosts(plan)?, Arc::new(EngineHealth(monitor)))
        .map_err(|error| problem(&error))
}

/// Returns the hosts for which the server answers.
pub(super) fn allowed_hosts(plan: &DeploymentPlan) -> Result<AllowedHosts, Problem> {
    let names = plan.engine.http_hosts.iter().map(String::as_str);
    AllowedHosts::new(names).map_err(|error| {
        let sentence = format!("`http_hosts`: {error}");
        Problem::new(Exit::ProblemsFound, "invalid-host", sentence)
    })
}

pub(super) fn url(address: SocketAddr) -> String {
    format!("http://{address}")
}

struct EngineHealth(HealthMonitor);

impl HealthSource for EngineHealth {
    fn snapshot(&self) -> HealthSnapshot {
        let Self(monitor) = self;
        HealthSnapshot {
            figures: monitor.figures(),
            housekeeping_age: monitor.housekeeping_age(),
            configuration_fault: monitor.configuration_fault(),
            is_stopping: monitor.is_stopping(),
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
