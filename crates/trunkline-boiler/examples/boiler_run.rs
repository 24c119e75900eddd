//! Prints ten minutes of the boiler house, with a few setpoint changes during the run.
//!
//! Run it with `cargo run -p trunkline-boiler --example boiler_run`.

#![allow(clippy::print_stdout, reason = "the example prints its results")]

use std::collections::BTreeMap;
use std::error::Error;

use trunkline_boiler::{BoilerServer, Options};
use trunkline_io::{IoServer, Scan};
use trunkline_types::{Tick, Timestamp, Value};

const COLUMNS: [&str; 13] = [
    "level",
    "feed",
    "feedwater/flow",
    "steam/flow",
    "drum/pressure",
    "temp",
    "drum/metal_temperature",
    "burner/firing",
    "flue/temperature",
    "flue/oxygen",
    "tank/level",
    "tank/temperature",
    "efficiency",
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut plant = BoilerServer::new(Options::default());
    let start = Timestamp::from_nanos(1_750_000_000_000_000_000);
    plant.open(Tick::ZERO, start)?;
    let libraries = plant.libraries("plant");
    let count: usize = libraries
        .iter()
        .map(|library| library.variables.len())
        .sum();
    println!("{count} variables");
    println!(
        "   s{}",
        COLUMNS
            .map(|name| format!(" {:>9}", &name[name.len().saturating_sub(9)..]))
            .concat()
    );

    let mut values: BTreeMap<u32, Value> = BTreeMap::new();
    let mut scan = Scan::new();
    for step in 0..=6000u64 {
        let now = Tick::from_nanos(step * 100_000_000);
        let wall = start.saturating_add_nanos((step * 100_000_000) as i64);
        let change = match step {
            1200 => Some(("boiler/feed", Value::F64(80.0))),
            1600 => Some(("boiler/pump/mode", Value::Enum(2))),
            2700 => Some(("boiler/steam/demand", Value::F64(75.0))),
            3900 => Some(("boiler/pump/mode", Value::Enum(0))),
            4900 => Some(("boiler/pump/mode", Value::Enum(2))),
            5500 => Some(("boiler/burner/reset", Value::Bool(true))),
            _ => None,
        };
        if let Some((name, value)) = change {
            let item = plant.item(name).ok_or("no such item")?;
            match plant.send(item, &value, now, wall) {
                Ok(new_value) => {
                    println!("     {name} set to {new_value:?}");
                    values.insert(item.0, new_value);
                }
                Err(refusal) => println!("     refused: {refusal}"),
            }
        }
        scan.clear();
        plant.scan(now, wall, &mut scan)?;
        for published in scan.iter() {
            if let Some(value) = &published.value {
                values.insert(published.item.0, value.clone());
            }
        }
        if step % 100 == 0 {
            let cells = COLUMNS.map(|name| {
                let item = plant.item(&format!("boiler/{name}"));
                let value = item.and_then(|item| values.get(&item.0)?.as_f64());
                format!(" {:9.3}", value.unwrap_or(f64::NAN))
            });
            let message = plant
                .item("boiler/message")
                .and_then(|item| values.get(&item.0));
            let message = match message {
                Some(Value::String(text)) => text.as_ref(),
                _ => "",
            };
            println!("{:4}{}  {message}", step / 10, cells.concat());
        }
    }
    Ok(())
}
