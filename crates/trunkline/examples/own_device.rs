//! Runs a custom device as the source of an engine's variables, in a process of its own. The device
//! is a tank whose pump follows a setpoint.
//!
//! `cargo run -p trunkline --example own_device -- tl://127.0.0.1:5850 plant`

use std::time::Duration;

use trunkline::io::{Health, IoError, IoServer, ItemId, Scan, SendRefusal};
use trunkline::types::{LibraryDefinition, Quality, Tick, Timestamp, Value};
use trunkline::{ConnectOptions, Provider, ProviderOptions};

const LEVEL: ItemId = ItemId(0);
const SETPOINT: ItemId = ItemId(1);

/// Simulates a device: each scan moves the level a tenth of the way to the setpoint.
struct Tank {
    level: f64,
    setpoint: f64,
}

impl Tank {
    fn value(&self, item: ItemId) -> Value {
        Value::F64(if item == LEVEL {
            self.level
        } else {
            self.setpoint
        })
    }
}

impl IoServer for Tank {
    fn libraries(&self, _name: &str) -> Vec<LibraryDefinition> {
        Vec::new()
    }

    fn item(&self, item: &str) -> Option<ItemId> {
        match item {
            "boiler/level" => Some(LEVEL),
            "boiler/setpoint" => Some(SETPOINT),
            _ => None,
        }
    }

    fn open(&mut self, _now: Tick, _wall: Timestamp) -> Result<(), IoError> {
        Ok(())
    }

    fn scan(&mut self, _now: Tick, _wall: Timestamp, scan: &mut Scan) -> Result<(), IoError> {
        self.level += (self.setpoint - self.level) / 10.0;
        for item in [LEVEL, SETPOINT] {
            scan.publish(item, self.value(item), Quality::GOOD);
        }
        Ok(())
    }

    fn request(
        &mut self,
        item: ItemId,
        _now: Tick,
        _wall: Timestamp,
        scan: &mut Scan,
    ) -> Result<(), IoError> {
        scan.publish(item, self.value(item), Quality::GOOD);
        Ok(())
    }

    fn send(
        &mut self,
        item: ItemId,
        value: &Value,
        _now: Tick,
        _wall: Timestamp,
    ) -> Result<Value, SendRefusal> {
        let requested = value.as_f64().filter(|_| item == SETPOINT);
        let Some(requested) = requested else {
            return Err(SendRefusal::ReadOnly {
                item: "boiler/level".to_owned(),
            });
        };
        // Returns the value that the device has now. It differs from the sent value, because the
        // device stores whole numbers only.
        self.setpoint = requested.round();
        Ok(Value::F64(self.setpoint))
    }

    fn health(&self) -> Health {
        Health::default()
    }

    fn period(&self) -> Duration {
        Duration::from_millis(500)
    }
}

#[allow(clippy::print_stdout, reason = "an example prints")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().unwrap_or_else(|| "tl:///".to_owned());
    let name = arguments.next().unwrap_or_else(|| "plant".to_owned());
    let tank = Tank {
        level: 20.0,
        setpoint: 50.0,
    };
    let engine = ConnectOptions::new(&url)?;
    let provider = Provider::start(&engine, &ProviderOptions::named(&name), Box::new(tank))?;
    let mut status = provider.status();
    loop {
        println!("{status:?}");
        match provider.wait_status(&status) {
            Some(next) => status = next,
            None => return Ok(()),
        }
    }
}
