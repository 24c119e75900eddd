//! Uses registers: opens a variable by number, calls a function for every change, and writes only
//! the newest of many values that are faster than the connection.
//!
//! `cargo run -p trunkline --example registers`

use std::sync::Arc;
use std::time::Duration;

use trunkline::types::{
    Contract, DataType, LibraryDefinition, Properties, Value, VariableDefinition,
};
use trunkline::{
    Client, Engine, EngineOptions, Event, OpenOptions, SubscribeOptions, Write, WriteOutcome,
};

const TIMEOUT: Duration = Duration::from_secs(2);

#[allow(clippy::print_stdout, reason = "an example prints")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::start(EngineOptions {
        listen: vec!["127.0.0.1:0".parse()?],
        ..EngineOptions::default()
    })?;
    let mut count = Properties::new(DataType::I32);
    count.number = Some(20);
    engine.deploy(&LibraryDefinition {
        name: "log".into(),
        description: String::new(),
        variables: vec![VariableDefinition {
            path: "count".into(),
            properties: Arc::new(count),
        }],
    })?;

    let client = Client::connect(&format!("tl://{}", engine.local_addrs()[0]))?;
    let opened = client.open(&[":/20"], OpenOptions::default(), TIMEOUT)?;
    let count = opened
        .into_iter()
        .flatten()
        .next()
        .ok_or("no variable has the number 20")?
        .variable;
    let set = |value| Write::set(count, Value::I32(value));
    client.write([set(0)], TIMEOUT)?;

    // The function is called for equal values as well. `only_changes: true` would skip them.
    let (done, is_done) = std::sync::mpsc::channel();
    let options = SubscribeOptions {
        only_changes: false,
        ..SubscribeOptions::default()
    };
    let callbacks = client.on_change(&[":/20"], Contract::Last(100), options, move |event| {
        let Event::Reading { reading, .. } = event else {
            return;
        };
        let (sample, overrun) = (&reading.sample, reading.lost.count());
        println!(
            "{:?} at {}, overrun {overrun:?}",
            sample.value, sample.source_timestamp
        );
        // Fails if the main thread has stopped waiting.
        let _ = done.send(sample.value.clone());
    })?;
    client.write([set(5), set(5), set(6)], TIMEOUT)?;
    while is_done.recv_timeout(TIMEOUT)? != Value::I32(6) {}
    drop(callbacks);

    // Writes ten values at once. A newer value supersedes the values that still wait to be sent.
    let newest = (10..20).map(|value| Write::newest(count, Value::I32(value)));
    let outcomes = client.write(newest, TIMEOUT)?;
    let is_superseded = |outcome: &&WriteOutcome| **outcome == WriteOutcome::Superseded;
    println!(
        "{} of 10 were superseded",
        outcomes.iter().filter(is_superseded).count()
    );
    let reading = client.read(&[count], TIMEOUT)?.remove(0)?;
    println!("the register holds {:?}", reading.sample.value);
    Ok(())
}
