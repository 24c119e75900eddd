//! Other systems in a run: programs of `bench/peers`, a separate workspace.

use std::fs;
use std::path::PathBuf;

use crate::{
    call_cost, footprint, history, recorder, round_trip_grid, same_host, streams, tdms,
    updates_to_one,
};

/// Environment variable that names the folder of the programs.
const FOLDER: &str = "TRUNKLINE_PEERS";
/// Where `bench/peers/install` puts them if the target folder is the default.
const FOLDER_DEFAULT: &str = "target/peers";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    pub system: &'static str,
    /// The program that measures it.
    program: &'static str,
    /// Groups of scenarios in which it is measured.
    scenarios: &'static [&'static [&'static str]],
}

const PUBLISHING: &[&str] = &[
    round_trip_grid::SCENARIO,
    updates_to_one::SCENARIO,
    updates_to_one::SEVERAL,
];
const CALLED: &[&str] = &[
    round_trip_grid::SCENARIO,
    call_cost::SCENARIO,
    updates_to_one::SCENARIO,
    updates_to_one::SEVERAL,
];
const EVERYWHERE: &[&str] = &[
    round_trip_grid::SCENARIO,
    call_cost::SCENARIO,
    updates_to_one::SCENARIO,
    updates_to_one::SEVERAL,
    footprint::SCENARIO,
];
/// Scenarios in which a system must not delay sending to combine messages.
const AT_ONCE: &[&str] = &[round_trip_grid::SCENARIO, streams::LATENCY];
/// The scenarios of streams.
const STREAMED: &[&str] = &[streams::THROUGHPUT, streams::LATENCY];

const FILES: &[&str] = &[tdms::READING, tdms::WRITING];

const fn peer(
    system: &'static str,
    program: &'static str,
    scenarios: &'static [&'static [&'static str]],
) -> Peer {
    Peer {
        system,
        program,
        scenarios,
    }
}

/// All other systems; `bench/report.toml` has their names for the report.
pub const PEERS: [Peer; 17] = [
    peer("redis", "rust", &[EVERYWHERE, STREAMED]),
    peer("mosquitto", "rust", &[EVERYWHERE, STREAMED]),
    peer("nats", "rust", &[CALLED, STREAMED]),
    peer("zenoh", "rust", &[EVERYWHERE, STREAMED]),
    peer("zenoh-express", "rust", &[AT_ONCE]),
    peer("zeromq", "rust", &[EVERYWHERE, STREAMED, &[streams::PACED]]),
    peer("open62541", "opcua", &[EVERYWHERE]),
    peer("epics-ca", "ca", &[EVERYWHERE]),
    peer("epics-pva", "pva", &[EVERYWHERE]),
    peer("cyclone-dds", "dds", &[PUBLISHING]),
    peer("iceoryx2", "rust", &[&[same_host::SCENARIO], STREAMED]),
    peer("aeron", "aeron", &[&[same_host::SCENARIO], STREAMED]),
    peer("nptdms", "nptdms", &[FILES, &[recorder::SCENARIO]]),
    peer("hdf5", "python", &[&[recorder::SCENARIO]]),
    peer("questdb", "questdb", &[&[history::SCENARIO]]),
    peer("influxdb", "influxdb", &[&[history::SCENARIO]]),
    peer(history::DUCKDB, "python", &[&[history::SCENARIO]]),
];

/// Returns the systems measured in a scenario.
pub fn of(scenario: &str) -> impl Iterator<Item = &'static Peer> {
    PEERS
        .iter()
        .filter(move |peer| peer.scenarios.iter().any(|of| of.contains(&scenario)))
}

/// Returns the other system of this name; `None` for Trunkline and the limits.
pub fn named(system: &str) -> Option<&'static Peer> {
    PEERS.iter().find(|peer| peer.system == system)
}

fn folder() -> PathBuf {
    std::env::var_os(FOLDER).map_or_else(|| PathBuf::from(FOLDER_DEFAULT), PathBuf::from)
}

impl Peer {
    /// Its program.
    pub fn program(&self) -> Result<PathBuf, String> {
        let folder = folder();
        let missing = fs::read_to_string(folder.join("missing")).unwrap_or_default();
        if let Some(reason) = self.reason(&missing) {
            return Err(reason.to_owned());
        }
        let path = folder.join("bin").join(self.program);
        let path = fs::canonicalize(&path).map_err(|_| "bench/peers/install was not run");
        Ok(path?)
    }

    /// Returns true if it connects programs of one machine through memory and both ends poll.
    pub fn is_near(&self) -> bool {
        matches!(self.system, "iceoryx2" | "aeron")
    }

    /// Returns true if it has a server process between the ends.
    pub fn is_served(&self) -> bool {
        matches!(self.system, "redis" | "mosquitto" | "nats")
    }

    /// Returns why it is not installed, from the list that the installation has written.
    fn reason<'a>(&self, missing: &'a str) -> Option<&'a str> {
        let lines = missing.lines().filter_map(|line| line.split_once('\t'));
        let mut reasons = lines.filter(|(system, _)| *system == self.system);
        reasons.next().map(|(_, reason)| reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_system_is_reported_with_the_reason() {
        let missing = "redis\tno package\nzenoh\tno crate\n";
        let reason = |system| named(system).unwrap().reason(missing);
        assert_eq!((reason("zenoh"), reason("nats")), (Some("no crate"), None));
        assert!(named("trunkline").is_none());
        assert!(of(call_cost::SCENARIO).all(|peer| peer.system != "zenoh-express"));
    }
}
