//! Tests the boiler house: steam properties, books, physics, and the interface to the engine.

mod conservation;
mod physics;
mod serving;
mod steam;

use trunkline_types::{Quality, Tick, Timestamp, Value};

use super::{BoilerServer, Options};
use trunkline_io::{IoServer, ItemId, Scan, SendRefusal};

/// A boiler house with its own clock.
struct Rig {
    server: BoilerServer,
    scan: Scan,
    nanos: u64,
}

impl Rig {
    fn new(seed: u64) -> Self {
        let mut server = BoilerServer::new(Options {
            seed,
            ..Options::default()
        });
        server.open(Tick::ZERO, START).unwrap();
        Self {
            server,
            scan: Scan::new(),
            nanos: 0,
        }
    }

    fn now(&self) -> Tick {
        Tick::from_nanos(self.nanos)
    }

    fn wall(&self) -> Timestamp {
        START.saturating_add_nanos(self.nanos as i64)
    }

    fn item(&self, name: &str) -> ItemId {
        self.server
            .item(name)
            .unwrap_or_else(|| panic!("no item {name}"))
    }

    /// Scans every 100 ms for `seconds` seconds.
    fn run(&mut self, seconds: f64) {
        for _ in 0..(seconds * 10.0).round() as u64 {
            self.nanos += 100_000_000;
            self.scan();
        }
    }

    fn scan(&mut self) {
        self.scan.clear();
        let (now, wall) = (self.now(), self.wall());
        self.server.scan(now, wall, &mut self.scan).unwrap();
    }

    fn put(&mut self, name: &str, value: Value) -> Result<Value, SendRefusal> {
        let (item, now, wall) = (self.item(name), self.now(), self.wall());
        self.server.send(item, &value, now, wall)
    }

    fn set(&mut self, name: &str, value: Value) {
        self.put(name, value).unwrap();
    }

    fn read(&mut self, name: &str) -> (Value, Quality) {
        let mut scan = Scan::new();
        let (item, now, wall) = (self.item(name), self.now(), self.wall());
        self.server.request(item, now, wall, &mut scan).unwrap();
        let published = scan.drain().next().unwrap();
        (published.value.unwrap(), published.quality)
    }

    fn number(&mut self, name: &str) -> f64 {
        self.read(name)
            .0
            .as_f64()
            .unwrap_or_else(|| panic!("{name} is not a number"))
    }
}

const START: Timestamp = Timestamp::from_nanos(1_750_000_000_000_000_000);
const OFF: Value = Value::Enum(0);
const MANUAL: Value = Value::Enum(1);
const AUTO: Value = Value::Enum(2);
