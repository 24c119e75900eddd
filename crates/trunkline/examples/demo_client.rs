//! A client of the demo: `trunkline demo`, then `cargo run -p trunkline --example demo_client`.

use std::time::Duration;

use trunkline::types::Contract;
use trunkline::{Client, Event, SubscribeOptions};

const TIMEOUT: Duration = Duration::from_secs(2);

#[allow(clippy::print_stdout, reason = "an example prints")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::connect("tl://localhost")?;
    let setpoint = client.variable::<f64>("boiler/setpoint", TIMEOUT)?;
    println!("{:?}", setpoint.put(75.0, TIMEOUT)?); // returns when the engine has confirmed it

    let names = ["boiler/level", "boiler/drum/pressure"];
    let updates = client.subscribe(&names, Contract::ALL, SubscribeOptions::default())?;
    for _ in 0..10 {
        if let Some(Event::Reading { item, reading }) = updates.next(Some(TIMEOUT)) {
            let (name, sample) = (names[item as usize], &reading.sample);
            println!(
                "{name} = {:?}, lost before it: {:?}",
                sample.value,
                reading.lost.count()
            );
        }
    }
    Ok(())
}
