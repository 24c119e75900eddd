//! Follows a variable, and says how many updates were lost.
//!
//! `cargo run -p trunkline --example monitor -- [URL [NAME [CONTRACT [COUNT]]]]`

use std::time::Duration;

use trunkline::{Client, Event, SubscribeOptions};

#[allow(clippy::print_stdout, reason = "an example prints")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().unwrap_or_else(|| "tl:///".to_owned());
    let name = arguments
        .next()
        .unwrap_or_else(|| "boiler/level".to_owned());
    let contract = arguments.next().unwrap_or_else(|| "last:1000".to_owned());
    let mut wanted: u64 = arguments.next().map_or(Ok(10), |count| count.parse())?;

    let client = Client::connect(&url)?;
    let updates = client.subscribe(&[&name], contract.parse()?, SubscribeOptions::default())?;
    while wanted > 0 {
        match updates.next(Some(Duration::from_secs(10))) {
            Some(Event::Reading { reading, .. }) => {
                let value = reading.sample.value.as_f64().unwrap_or(f64::NAN);
                let number = reading.position.sequence;
                match reading.lost.count() {
                    Some(0) => println!("{value}, update {number}"),
                    Some(lost) => println!("{value}, update {number}, {lost} lost before it"),
                    None => {
                        println!("{value}, update {number}, an unknown number lost before it")
                    }
                }
                wanted -= 1;
            }
            Some(Event::ItemError { fault, .. }) => return Err(fault.into()),
            Some(event) => println!("({event:?})"),
            None => return Err("no update arrived within 10 s".into()),
        }
    }
    Ok(())
}
