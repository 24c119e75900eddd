//! The options of endpoints, and their properties.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use trunkline::stream::{
    DIRECTORY_PORT, Durability, JournalOptions, Left, Options, Properties, Until,
};
use trunkline::types::Url;

use crate::call::duration;
use crate::errors;

/// The options of an endpoint that all kinds have.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct EndpointOptions {
    /// URL of the engine that the program uses; `None`: that of this machine.
    engine: Option<String>,
    /// Port of an engine in this process.
    port: Option<u16>,
    peer: Option<String>,
    capacity: usize,
    gone_after: Option<f64>,
    timeout: Option<f64>,
    journal: Option<PathBuf>,
    journal_size: Option<u64>,
    durability: String,
    insecure: bool,
    program: String,
}

impl EndpointOptions {
    pub(crate) fn build(self, py: Python<'_>) -> PyResult<Options> {
        let engine = match &self.engine {
            Some(url) => Some(Url::parse(url).map_err(invalid)?),
            None => None,
        };
        let remote = engine.as_ref().filter(|url| !is_here(url));
        let peer = self.peer.map(|peer| match remote {
            Some(engine) => url_at(&peer, engine),
            None => peer,
        });
        let mut options = match &peer {
            Some(peer) => trunkline::stream_options(peer).map_err(|error| {
                errors::new(py, "Error", "bad-context", &error.to_string(), None)
            })?,
            None => Options::default(),
        };
        options.directory_port = match (self.port, &engine, remote) {
            (Some(port), _, _) => port,
            (None, Some(engine), None) => engine.port_or_default(),
            // The name of this endpoint is registered on this machine.
            _ => DIRECTORY_PORT,
        };
        options.capacity = self.capacity;
        options.gone_after = self.gone_after.map(duration);
        options.insecure = self.insecure;
        options.program = self.program;
        options.timeout = self.timeout.map(duration);
        if let Some(folder) = self.journal {
            let mut journal = JournalOptions::at(folder);
            journal.bytes_max = self.journal_size.unwrap_or(journal.bytes_max);
            journal.durability = match self.durability.as_str() {
                "process" => Durability::Process,
                "disk" => Durability::Disk,
                other => {
                    return Err(PyValueError::new_err(format!(
                        "{other:?} is no durability; it is \"process\" or \"disk\""
                    )));
                }
            };
            options.journal = Some(journal);
        }
        Ok(options)
    }
}

fn invalid(error: impl ToString) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn is_here(url: &Url) -> bool {
    url.host.as_deref().is_none_or(|host| {
        let is_loopback = |address: IpAddr| address.is_loopback();
        host.eq_ignore_ascii_case("localhost")
            || host.trim_matches(['[', ']']).parse().is_ok_and(is_loopback)
    })
}

/// Returns the URL of a peer. A name without a host is one of the engine that the program uses.
fn url_at(peer: &str, engine: &Url) -> String {
    let (Some(host), false) = (&engine.host, peer.contains("//")) else {
        return peer.to_owned();
    };
    let port = engine.port_or_default();
    match host.contains(':') && !host.starts_with('[') {
        true => format!("tl://[{host}]:{port}/{peer}"),
        false => format!("tl://{host}:{port}/{peer}"),
    }
}

/// Converts seconds, with `None` for no limit.
pub(crate) fn limit(seconds: Option<f64>) -> Option<Duration> {
    seconds.filter(|seconds| seconds.is_finite()).map(duration)
}

pub(crate) fn until(name: &str) -> PyResult<Until> {
    Ok(match name {
        "sent" => Until::Sent,
        "received" => Until::Available,
        "read" => Until::Read,
        "durable" => Until::Durable,
        other => {
            return Err(PyValueError::new_err(format!(
                "{other:?} is no stage of elements; it is \"sent\", \"received\", \"read\" or \"durable\""
            )));
        }
    })
}

pub(crate) fn properties<'py>(py: Python<'py>, of: &Properties) -> PyResult<Bound<'py, PyDict>> {
    let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
    let named = PyDict::new(py);
    named.set_item("url", &of.url)?;
    named.set_item("data_type", of.data_type.to_string())?;
    named.set_item("capacity", of.capacity)?;
    named.set_item("in_buffer", of.in_buffer)?;
    named.set_item("total", of.total)?;
    named.set_item("connected", of.is_connected)?;
    named.set_item("disconnections", of.disconnections)?;
    named.set_item("ended", of.is_ended)?;
    named.set_item("away_for", seconds(of.away_for))?;
    let last = of.last_disconnect.as_ref().map(ToString::to_string);
    named.set_item("last_disconnect", last)?;
    named.set_item("peer", of.peer.as_deref())?;
    named.set_item("peer_program", of.peer_program.as_deref())?;
    named.set_item("peer_account", of.peer_account.as_deref())?;
    let members = of.members.iter();
    let members: Vec<_> = members
        .map(|member| (&member.url, &member.account, seconds(member.away_for)))
        .collect();
    named.set_item("members", members)?;
    named.set_item("transport", of.transport)?;
    named.set_item("fault", of.fault.as_ref().map(ToString::to_string))?;
    named.set_item("journal", of.journal.as_ref().map(ToString::to_string))?;
    Ok(named)
}

/// Returns the number of elements that were not delivered, and how many of them are in doubt.
pub(crate) fn left_of(left: Left) -> (u64, u64) {
    (left.elements, left.in_doubt)
}
