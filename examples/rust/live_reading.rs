//! Reads a variable by name: its value, quality and time.
//!
//! `cargo run -p trunkline --example live_reading -- [URL [NAME]]`

use std::time::Duration;

use trunkline::types::text::{FormatOptions, format_value};
use trunkline::{Client, OpenOptions};

const TIMEOUT: Duration = Duration::from_secs(5);

#[allow(clippy::print_stdout, reason = "an example prints")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().unwrap_or_else(|| "tl:///".to_owned());
    let name = arguments
        .next()
        .unwrap_or_else(|| "boiler/level".to_owned());

    let client = Client::connect(&url)?;
    // One round trip opens the variable and reads it.
    let options = OpenOptions {
        include_readings: true,
        ..OpenOptions::default()
    };
    let opened = client.open(&[&name], options, TIMEOUT)?.remove(0)?;
    let reading = opened.reading.ok_or("the variable cannot be read")?;
    println!(
        "{name} = {}, quality {}, at {}, update {}",
        format_value(
            &reading.sample.value,
            &opened.data_type,
            &FormatOptions::default()
        ),
        reading.sample.quality,
        reading.sample.source_timestamp,
        reading.position.sequence
    );
    Ok(())
}
