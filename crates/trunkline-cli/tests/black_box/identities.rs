//! An engine that takes another one's place at its address is never taken for it.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use crate::rig::{Output, Running, command, finish};

const BENCH: &str = "[library]\nname = \"bench\"\n\n\
    [[variable]]\nname = \"volts\"\ntype = \"f64\"\ninitial = 5.0\n";

/// A folder with an address and room for stores.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("bench.toml"), BENCH).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn url(&self) -> String {
        format!("tl+unix://{}", self.path("engine.sock").display())
    }

    /// Starts an engine at the address, with this store and the library.
    fn start(&self, store: &Path) -> Running {
        let listen = format!("unix:{}", self.path("engine.sock").display());
        let (store, bench) = (store.to_str().unwrap(), self.path("bench.toml"));
        let bench = bench.to_str().unwrap();
        let engine = Running::start(&["serve", bench, "--listen", &listen, "--store", store]);
        engine.line_with("Listening on");
        engine
    }

    fn run(&self, arguments: &[&str]) -> Output {
        finish(command(arguments).env("TRUNKLINE_URL", self.url()), "")
    }

    fn put(&self, value: &str) {
        assert_eq!(self.run(&["put", "bench/volts", value]).code, Some(0));
    }

    /// The position of the variable, as `put --expect` takes it.
    fn position(&self) -> String {
        let read = self.run(&["get", "--json", "bench/volts"]);
        let reading: Json = serde_json::from_str(&read.out).unwrap();
        format!("{}:{}", reading["epoch"], reading["seq"])
    }
}

fn kill(engine: &mut Running) {
    engine.child.kill().unwrap();
    engine.child.wait().unwrap();
}

fn json_with(monitor: &Running, part: &str) -> Json {
    serde_json::from_str(&monitor.line_with(part)).unwrap()
}

/// Follows a variable while `replace` puts something else into the store's place, and expects that
/// nothing of the engine before is mixed with the one after.
fn replaced(replace: impl Fn(&Place, &Path)) {
    let place = Place::new();
    let store = place.path("store.db");
    let mut engine = place.start(&store);
    (0..3).for_each(|_| place.put("7"));
    std::fs::copy(&store, place.path("backup.db")).unwrap();
    let mut monitor = command(&["monitor", "--contract", "all", "--json", "bench/volts"]);
    let monitor = Running::spawn(monitor.env("TRUNKLINE_URL", place.url()));
    let first = json_with(&monitor, "\"value\"");
    let position = place.position();
    kill(&mut engine);
    replace(&place, &store);
    let mut engine = place.start(&store);
    let connected = monitor.error_with("\"connected\"");
    let connected: Json = serde_json::from_str(&connected).unwrap();
    assert_eq!(connected["restarted"], true, "{connected}");
    assert_ne!(connected["epoch"], first["epoch"], "{connected}");
    let next = json_with(&monitor, "\"value\"");
    assert_eq!(next["lost"], Json::Null, "an unknown number: {next}");
    assert_eq!(next["epoch"], connected["epoch"]);
    assert!(next["epoch"].as_u64().unwrap() < 1 << 53, "{next}");

    // It has reached that sequence, too; the expected update is that of the other engine.
    while place.position().split_once(':').unwrap().1 != position.split_once(':').unwrap().1 {
        place.put("8");
    }
    let refused = place.run(&["put", "--expect", &position, "bench/volts", "9"]);
    assert_eq!(refused.code, Some(6), "{refused:?}");
    kill(&mut engine);
}

/// Behaviour: B-03, B-22.
#[test]
fn an_engine_with_a_new_store_is_another_one() {
    replaced(|_, store| std::fs::remove_file(store).unwrap());
}

/// Behaviour: B-03, B-22.
#[test]
fn engine_with_a_restored_store_counts_as_a_new_start() {
    replaced(|place, store| {
        // Copied while the engine ran: the log next to it is removed with the original.
        let _ = std::fs::remove_file(store.with_extension("db-wal"));
        std::fs::copy(place.path("backup.db"), store).unwrap();
    });
}

/// Behaviour: B-03, B-22.
#[test]
fn engine_of_another_machine_at_the_same_address_is_distinguished() {
    replaced(|place, store| {
        let elsewhere = place.path("elsewhere.db");
        let listen = format!("unix:{}", place.path("elsewhere.sock").display());
        let path = elsewhere.to_str().unwrap();
        let mut other = Running::start(&["serve", "--listen", &listen, "--store", path]);
        other.line_with("Listening on");
        kill(&mut other);
        let _ = std::fs::remove_file(store.with_extension("db-wal"));
        std::fs::rename(elsewhere, store).unwrap();
        let log = place.path("elsewhere.db-wal");
        if log.exists() {
            std::fs::rename(log, store.with_extension("db-wal")).unwrap();
        }
    });
}
