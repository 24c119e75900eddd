//! Hosts a library, uses it as a client, and prints the answers.
//!
//! `cargo run -p trunkline --example first_steps`

use std::time::Duration;

use trunkline::types::{Contract, DataType, LibraryDefinition, Value, VariableDefinition};
use trunkline::{Engine, EngineOptions, Event, OpenOptions, SubscribeOptions, Write};

const TIMEOUT: Duration = Duration::from_secs(2);

#[allow(clippy::print_stdout, reason = "an example prints")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::start(EngineOptions {
        listen: vec!["127.0.0.1:0".parse()?],
        ..EngineOptions::default()
    })?;
    engine.deploy(&LibraryDefinition {
        name: "rig".into(),
        description: "A test rig".into(),
        variables: vec![VariableDefinition::new("pump1/pressure", DataType::F64)],
    })?;
    let pressure = engine.variable::<f64>("rig/pump1/pressure")?;
    pressure.write(2.41)?;

    let address = engine.local_addrs()[0];
    let client = trunkline::Client::connect(&format!("tl://{address}"))?;
    let session = client.wait_connected(TIMEOUT)?;
    println!(
        "connected to {} in epoch {}",
        session.engine_name, session.epoch
    );

    let options = OpenOptions {
        include_readings: true,
        ..OpenOptions::default()
    };
    let names = ["rig/pump1/pressure", "rig/pump1/presure"];
    let opened = client.open(&names, options, TIMEOUT)?;
    for (name, result) in names.iter().zip(&opened) {
        match result {
            Ok(opened) => println!("{name} = {:?}", opened.reading.as_ref().map(|r| &r.sample)),
            Err(fault) => println!("{name}: {fault}"),
        }
    }

    let pressure = client.variable::<f64>("rig/pump1/pressure", TIMEOUT)?;
    println!("as an f64: {}", pressure.get(TIMEOUT)?);

    let updates = client.subscribe(&names[..1], Contract::ALL, SubscribeOptions::default())?;
    let writes = [2.5, 2.6, 2.7].map(|v| Write::new(pressure.reference(), Value::F64(v)));
    for outcome in client.write(writes, TIMEOUT)? {
        println!("{outcome:?}");
    }
    let mut readings = 0;
    while readings < 4 {
        match updates.next(Some(TIMEOUT)) {
            Some(Event::Reading { reading, .. }) => {
                readings += 1;
                println!(
                    "{:?}, number {}, lost {:?}, own {}",
                    reading.sample.value,
                    reading.position.sequence,
                    reading.lost.count(),
                    reading.own
                );
            }
            Some(event) => println!("{event:?}"),
            None => break,
        }
    }
    for info in client
        .info(&[pressure.reference()], TIMEOUT)?
        .into_iter()
        .flatten()
    {
        println!("{}: {:?}", info.name, info.write_ledger);
    }
    Ok(())
}
