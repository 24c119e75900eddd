//! Reads and writes many variables in one round trip each, and writes two together or not at all.
//!
//! `cargo run -p trunkline --example batch -- [URL]`

use std::time::Duration;

use trunkline::types::Value;
use trunkline::{Client, OpenOptions, Write};

const TIMEOUT: Duration = Duration::from_secs(5);

#[allow(clippy::print_stdout, reason = "an example prints")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "tl:///".to_owned());
    let names = ["boiler/setpoint", "boiler/mode", "boiler/level"];

    let client = Client::connect(&url)?;
    let opened = client.open(&names, OpenOptions::default(), TIMEOUT)?;
    let variables = opened.into_iter().map(|opened| Ok(opened?.variable));
    let variables = variables.collect::<Result<Vec<_>, Box<dyn std::error::Error>>>()?;
    // Each variable has a result of its own.
    for (name, reading) in names.iter().zip(client.read(&variables, TIMEOUT)?) {
        match reading {
            Ok(reading) => println!("{name} = {:?}", reading.sample.value),
            Err(fault) => println!("{name}: {fault}"),
        }
    }
    // An atomic group: both values or neither, with one timestamp.
    let group = client.write_group(
        [
            Write::new(variables[0], Value::F64(68.0)),
            Write::new(variables[1], Value::Enum(2)),
        ],
        TIMEOUT,
    )?;
    match group.commit {
        Some(commit) => println!("written together, commit {commit}"),
        None => println!("not written: {:?}", group.outcomes),
    }
    Ok(())
}
