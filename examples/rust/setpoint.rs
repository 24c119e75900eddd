//! Writes a setpoint, and waits until its owner has accepted it.
//!
//! `cargo run -p trunkline --example setpoint -- [URL [NAME [VALUE]]]`

use std::time::Duration;

use trunkline::{Client, WriteOutcome};

const TIMEOUT: Duration = Duration::from_secs(5);

#[allow(clippy::print_stdout, reason = "an example prints")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().unwrap_or_else(|| "tl:///".to_owned());
    let name = arguments
        .next()
        .unwrap_or_else(|| "boiler/setpoint".to_owned());
    let value: f64 = arguments.next().map_or(Ok(75.0), |value| value.parse())?;

    let client = Client::connect(&url)?;
    let setpoint = client.variable::<f64>(&name, TIMEOUT)?;
    match setpoint.put(value, TIMEOUT)? {
        WriteOutcome::Applied(_) | WriteOutcome::Unchanged(_) => {}
        // A refusal says which rule.
        WriteOutcome::Refused(fault) => return Err(format!("{name}: {fault}").into()),
        other => return Err(format!("{name}: {other:?}").into()),
    }
    println!("{name} = {}, confirmed", setpoint.get(TIMEOUT)?);
    Ok(())
}
