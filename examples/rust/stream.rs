//! Moves samples from one program to another without loss. Start the reader and the writer, in any order;
//! an engine runs on this machine.
//!
//! `cargo run -p trunkline --example stream -- read [ENGINE-PORT]`
//! `cargo run -p trunkline --example stream -- write [ENGINE-PORT]`

use std::time::Duration;

use trunkline::stream::{DIRECTORY_PORT, Options, Reader, StreamError, Until, Writer};

const SAMPLES: usize = 100_000;
const BLOCK: usize = 1000;
const TIMEOUT: Option<Duration> = Some(Duration::from_secs(20));

fn options(port: u16, peer: Option<&str>) -> Options {
    Options {
        peer: peer.map(str::to_owned),
        capacity: 2 * BLOCK,
        timeout: TIMEOUT,
        directory_port: port,
        ..Options::default()
    }
}

#[allow(clippy::print_stdout, reason = "an example prints")]
fn write_samples(port: u16) -> Result<(), StreamError> {
    let mut writer = Writer::<f64>::create("daq/out", options(port, Some("daq/raw")))?;
    let samples: Vec<f64> = (0..SAMPLES).map(|number| number as f64).collect();
    for block in samples.chunks(BLOCK) {
        // All of the block or none of it. Waits while the reader's buffer is full.
        writer.write_many(block, TIMEOUT)?;
    }
    writer.flush(Until::Read, TIMEOUT)?;
    println!("{} samples not delivered", writer.close(TIMEOUT).elements);
    Ok(())
}

#[allow(clippy::print_stdout, reason = "an example prints")]
fn read_samples(port: u16) -> Result<(), StreamError> {
    let mut reader = Reader::<f64>::create("daq/raw", options(port, None))?;
    let (mut total, mut sum) = (0, 0.0);
    loop {
        // A block where it is, without a copy; fewer samples at the end of the stream.
        match reader.acquire(BLOCK, TIMEOUT) {
            Ok(samples) => {
                total += samples.len();
                sum += samples.iter().sum::<f64>();
            }
            Err(StreamError::Ended) => break,
            Err(error) => return Err(error),
        }
    }
    println!("{total} samples, sum {sum}");
    reader.close()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let role = arguments.next().unwrap_or_default();
    let port = arguments
        .next()
        .map_or(Ok(DIRECTORY_PORT), |port| port.parse())?;
    match role.as_str() {
        "write" => write_samples(port)?,
        _ => read_samples(port)?,
    }
    Ok(())
}
