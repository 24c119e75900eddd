//! An I/O server: this program is the source of the variables with `source = "tank:level"` and
//! `source = "tank:setpoint"`. The device is a tank whose level follows a setpoint.
//!
//! `cargo run -p trunkline --example io_server -- [URL [NAME [ORDERS]]]`
//!
//! With ORDERS, the program ends after this number of orders. An item may have a folder, as in `boiler/level`.

use std::sync::mpsc::{Sender, channel};
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
    orders: Sender<()>,
}

impl Tank {
    fn value(&self, item: ItemId) -> Value {
        Value::F64(if item == LEVEL {
            self.level
        } else {
            self.setpoint
        })
    }

    /// Carries out a client's order. The client sees what the device has now.
    fn order(&mut self, item: ItemId, value: &Value) -> Result<Value, SendRefusal> {
        let Some(given) = value.as_f64().filter(|_| item == SETPOINT) else {
            return Err(SendRefusal::ReadOnly {
                item: "level".to_owned(),
            });
        };
        if !(0.0..=100.0).contains(&given) {
            return Err(SendRefusal::OutOfRange {
                item: "setpoint".to_owned(),
                given,
                low: 0.0,
                high: 100.0,
                units: "%".to_owned(),
            });
        }
        // The device stores whole numbers.
        self.setpoint = given.round();
        Ok(Value::F64(self.setpoint))
    }
}

impl IoServer for Tank {
    fn libraries(&self, _name: &str) -> Vec<LibraryDefinition> {
        Vec::new()
    }

    fn item(&self, item: &str) -> Option<ItemId> {
        match item.rsplit('/').next() {
            Some("level") => Some(LEVEL),
            Some("setpoint") => Some(SETPOINT),
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
        let answer = self.order(item, value);
        // The program may be ending already.
        let _ = self.orders.send(());
        answer
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
    let name = arguments.next().unwrap_or_else(|| "tank".to_owned());
    let orders_max: usize = arguments
        .next()
        .map_or(Ok(usize::MAX), |count| count.parse())?;
    let (orders, given) = channel();
    let tank = Tank {
        level: 20.0,
        setpoint: 50.0,
        orders,
    };
    let engine = ConnectOptions::new(&url)?;
    let provider = Provider::start(&engine, &ProviderOptions::named(&name), Box::new(tank))?;
    println!("{:?}", provider.status());
    for () in given.iter().take(orders_max) {
        println!("order, then {:?}", provider.status());
    }
    Ok(())
}
