//! Memory per item of a `latest` subscription: in the engine alone, and with a connection in the
//! engine and in the client.

use std::sync::Arc;

use trunkline::Client;
use trunkline::types::ledger::EndedItem;
use trunkline::types::{Contract, LibraryDefinition, Value};
use trunkline_engine::{
    Caller, Consumer, Delivery, Engine, EngineOptions, Sink, Subscribe, Variable, Wake, Wakes,
    Write,
};
use trunkline_net::Clock;

use super::connect::{FirstSet, subscribe};
use super::{library, name, resident_bytes};
use crate::Outcome;
use crate::record::Row;
use crate::role::Role;
use crate::settings::Settings;
use crate::trunkline_calls::PATIENCE;

/// Two subscribers in the engine's process without a connection: the item and its counters alone.
pub fn in_process(variables: usize, row: &mut Row) -> Outcome<()> {
    // Kept until the end: later allocations would reuse its memory.
    let library = library(variables, "f64", false)?;
    let (engine, all) = written(&library)?;
    let caller = Caller::local(1, 0);
    let mut consumers = vec![follow(&engine, &caller, &all[..1], row)?];
    let mut before = resident_bytes(std::process::id())?;
    for which in ["first", "further"] {
        consumers.push(follow(&engine, &caller, &all, row)?);
        let after = resident_bytes(std::process::id())?;
        let each = (after - before) / variables as f64;
        row.figure(&format!("{which}_bytes_per_item"), each);
        before = after;
    }
    drop(library);
    Ok(())
}

/// Returns an engine in which the value of each variable is its index.
fn written(library: &LibraryDefinition) -> Outcome<(Engine, Vec<Arc<Variable>>)> {
    let variables = library.variables.len();
    let (clock, caller) = (Clock::new(), Caller::local(1, 0));
    let engine = Engine::new(EngineOptions::new("bench", 1));
    engine
        .libraries()
        .deploy(library, clock.now(), clock.wall())?;
    let mut all = Vec::with_capacity(variables);
    let mut wakes = Wakes::new();
    for index in 0..variables {
        let variable = engine.resolve(&caller, &name(index))?;
        let value = Value::F64(index as f64);
        let write = Write::value(&value);
        engine.try_write(
            &caller,
            clock.now(),
            clock.wall(),
            &variable,
            &write,
            &mut wakes,
        );
        all.push(variable);
    }
    Ok((engine, all))
}

/// Returns a subscriber that has taken its first full set.
fn follow(
    engine: &Engine,
    caller: &Caller,
    variables: &[Arc<Variable>],
    row: &mut Row,
) -> Outcome<Consumer> {
    let mut consumer = Consumer::new(engine.clone(), Box::new(NoWake));
    for variable in variables {
        consumer.subscribe(caller, variable, Subscribe::new(1, Contract::Latest))?;
    }
    let mut set = Counted(0);
    while consumer.drain(&mut set, &mut Wakes::new()) {}
    row.require(set.0 == variables.len(), || {
        format!("{} of {} readings came", set.0, variables.len())
    });
    Ok(consumer)
}

/// No thread sleeps here.
struct NoWake;

impl Wake for NoWake {
    fn wake(&self) {}
}

struct Counted(usize);

impl Sink for Counted {
    fn wants(&self) -> bool {
        true
    }

    fn deliver(&mut self, delivery: &Delivery<'_>) {
        self.0 += usize::from(delivery.update.sequence == 1);
    }

    fn overrun(&mut self, _subscription: u32, _items: &[EndedItem]) {}

    fn gone(&mut self, _subscription: u32, _handle: u32) {}
}

/// Two clients subscribe one after the other. The first one to follow a variable also creates what
/// its subscribers share; the second one costs its item alone.
pub fn measure(variables: usize, row: &mut Row) -> Outcome<()> {
    let mut far = Role::start(
        "footprint-engine",
        &Settings::default().with("vars", variables),
    )?;
    let url = far.expect("LISTENING")?;
    let names: Vec<String> = (0..variables).map(name).collect();
    let of_engine = || resident_bytes(far.pid());
    let of_client = || resident_bytes(std::process::id());
    // A connection and a subscription each have a fixed cost.
    let warm = Client::connect(&url)?;
    warm.wait_connected(PATIENCE)?;
    let _warm = subscribe(&warm, &names[..1], &mut FirstSet::new(1))?;
    let mut clients = Vec::new();
    let mut engine_before = of_engine()?;
    for (number, which) in ["first", "further"].into_iter().enumerate() {
        let client_before = of_client()?;
        let client = Client::connect(&url)?;
        client.wait_connected(PATIENCE)?;
        let mut first_set = FirstSet::new(variables);
        let subscription = subscribe(&client, &names, &mut first_set)?;
        row.require(first_set.wrong == 0, || {
            format!(
                "client {}: {} readings were wrong",
                number + 1,
                first_set.wrong
            )
        });
        drop(first_set);
        let engine_after = of_engine()?;
        let each = |bytes: f64| bytes / variables as f64;
        row.figure(
            &format!("{which}_bytes_per_item"),
            each(engine_after - engine_before),
        );
        row.figure(
            &format!("{which}_client_bytes_per_item"),
            each(of_client()? - client_before),
        );
        engine_before = engine_after;
        clients.push((client, subscription));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_subscribers_get_every_first_reading() {
        let mut row = Row::new("footprint", "trunkline", String::new(), "cross");
        in_process(50, &mut row).unwrap();
        assert_eq!(row.invalid, Vec::<String>::new());
        assert!(row.figures.contains_key("further_bytes_per_item"));
    }
}
