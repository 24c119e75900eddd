//! Serves the health of an engine over HTTP.
//!
//! ```text
//! GET /metrics   figures of the engine in the OpenMetrics text format      metrics
//! GET /healthz   does the housekeeping of the engine run?                  readiness
//! GET /readyz    can clients use the engine, and if not, why?              readiness
//!
//!   HealthSource <-- one thread: accept, check host and method, answer     server, hosts
//! ```
//!
//! One thread serves all connections. It reads snapshots, which the engine publishes, and never waits
//! for the engine, so it also answers when the engine does not work as it should.
//!
//! Responses are for programs and people on this machine: there is no authentication yet, so the
//! server listens on loopback addresses only. Requests whose `Host` is not in a list are refused, so
//! that a web page in a browser cannot read the figures under a name that its owner resolves to this
//! machine (DNS rebinding).

#![forbid(unsafe_code)]

mod health;
mod hosts;
pub mod metrics;
mod readiness;
mod server;

pub use health::{HOUSEKEEPING_AGE_MAX, HealthSnapshot, HealthSource};
pub use hosts::{AllowedHosts, HostNameError};
pub use server::{
    CONNECTIONS_MAX, HEADER_BYTES_MAX, HttpError, HttpListener, HttpServer, REQUEST_TIME_MAX,
};
