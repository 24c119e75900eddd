//! Stress tests with real threads that perform a fixed number of writes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "tests may panic"
)]
#![cfg(not(shuttle))]

mod rig;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use rig::{EPOCH, START, define, library_of};
use trunkline_engine::{
    Attempt, Caller, Consumer, Delivery, Engine, EngineOptions, Sink, Subscribe, Variable, Wake,
    Wakes, Write, WriteOutcome, WriteValue, WriteVerb,
};
use trunkline_types::ledger::EndedItem;
use trunkline_types::{Contract, DataType, Properties, Tick, Timestamp, Value};

const NOW: Tick = Tick::from_nanos(1_000);

fn engine(data_type: &DataType, libraries: &[&str]) -> (Engine, Vec<Arc<Variable>>) {
    let engine = Engine::new(EngineOptions::new("sut", EPOCH));
    let caller = Caller::local(1, 0);
    let deployed = libraries.iter().map(|library| {
        let mut properties = Properties::new(data_type.clone());
        properties.stall = std::time::Duration::from_secs(3600);
        let definition = library_of(library, vec![define("x", properties)]);
        engine
            .libraries()
            .deploy(&definition, NOW, START)
            .expect("well formed");
        Arc::clone(
            &engine
                .resolve(&caller, &format!("{library}/x"))
                .expect("deployed"),
        )
    });
    let variables = deployed.collect();
    (engine, variables)
}

/// A wake-up on which a thread can sleep.
#[derive(Clone, Default)]
struct Bell(Arc<(Mutex<bool>, Condvar)>);

impl Bell {
    fn wait(&self) {
        let (rung, changed) = &*self.0;
        let mut rung = rung.lock().expect("no panic");
        while !*rung {
            rung = changed.wait(rung).expect("no panic");
        }
        *rung = false;
    }
}

impl Wake for Bell {
    fn wake(&self) {
        *self.0.0.lock().expect("no panic") = true;
        self.0.1.notify_one();
    }
}

/// Behaviour: LM-03, SP-13.
#[test]
fn value_and_timestamp_read_while_others_write_belong_together() {
    const WRITES: i64 = 30_000;
    let (engine, variables) = engine(&DataType::String, &["a"]);
    let x = Arc::clone(&variables[0]);
    let over = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (x, over) = (Arc::clone(&x), Arc::clone(&over));
            thread::spawn(move || {
                let mut last = 0;
                while !over.load(Ordering::Relaxed) {
                    let update = x.update();
                    assert!(update.sequence >= last, "the sequence went back");
                    last = update.sequence;
                    if last == 0 {
                        continue;
                    }
                    let Value::String(text) = update.value.decode(x.data_type()) else {
                        panic!("the value is not a text")
                    };
                    // The source timestamp identifies the text: n repeated n mod 60 times.
                    let n = update.source_timestamp.nanos_since(START);
                    assert_eq!(update.engine_timestamp.nanos_since(START), n);
                    assert_eq!(text.len() as i64, n % 60);
                    let letter = char::from(b'a' + (n % 26) as u8);
                    assert!(
                        text.chars().all(|c| c == letter),
                        "{text:?} mixes two writes"
                    );
                }
            })
        })
        .collect();
    let writers: Vec<_> = (0..2)
        .map(|writer| {
            let (engine, x) = (engine.clone(), Arc::clone(&x));
            thread::spawn(move || {
                let caller = Caller::local(writer, 0);
                let mut wakes = Wakes::new();
                for round in 0..WRITES {
                    let n = round * 2 + i64::from(writer);
                    let letter = char::from(b'a' + (n % 26) as u8).to_string();
                    let value = Value::String(letter.repeat((n % 60) as usize).into());
                    let stamp = START.saturating_add_nanos(n);
                    let write = Write::value(&value);
                    engine.try_write(&caller, NOW, stamp, &x, &write, &mut wakes);
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().expect("no panic");
    }
    over.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.join().expect("no panic");
    }
    let ledger = x.ledger();
    assert!(ledger.is_balanced());
    assert_eq!(ledger.written, 2 * WRITES as u64);
}

/// Checks order and counts. Stores only the last sequence of each variable.
struct Checker<'a> {
    variables: &'a [Arc<Variable>],
    last: Vec<u64>,
    got: Vec<u64>,
    missed: Vec<u64>,
}

impl Sink for Checker<'_> {
    fn wants(&self) -> bool {
        true
    }
    fn deliver(&mut self, delivery: &Delivery<'_>) {
        let of = |variable: &Arc<Variable>| Arc::ptr_eq(variable, delivery.variable);
        let place = self
            .variables
            .iter()
            .position(of)
            .expect("a subscribed variable");
        let sequence = delivery.update.sequence;
        let lost = delivery.lost;
        assert_eq!(
            sequence,
            self.last[place] + 1 + lost.coalesced + lost.queue,
            "miscounted"
        );
        self.last[place] = sequence;
        self.got[place] += 1;
        self.missed[place] += lost.coalesced + lost.queue;
    }
    fn overrun(&mut self, _subscription: u32, _items: &[EndedItem]) {
        panic!("a subscription ended although every writer waits");
    }
    fn gone(&mut self, _subscription: u32, _handle: u32) {}
}

/// Behaviour: B-02, B-03, B-05.
#[test]
fn sleeping_consumer_gets_everything_its_contract_promises() {
    const WRITES: u64 = 20_000;
    let contracts = [
        Contract::Latest,
        Contract::Last(16),
        Contract::First(16),
        Contract::All {
            elements: 64,
            bytes: 1 << 20,
        },
    ];
    for contract in contracts {
        let (engine, variables) = engine(&DataType::F64, &["a", "b", "c"]);
        let caller = Caller::local(9, 0);
        // Makes update 1 the first reading.
        for variable in &variables {
            let value = Value::F64(0.0);
            let write = Write::value(&value);
            engine.try_write(&caller, NOW, START, variable, &write, &mut Wakes::new());
        }
        let bell = Bell::default();
        let mut consumer = Consumer::new(engine.clone(), Box::new(bell.clone()));
        for variable in &variables {
            consumer
                .subscribe(&caller, variable, Subscribe::new(1, contract))
                .expect("the variable can be subscribed");
        }
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let (engine, variables) = (engine.clone(), variables.clone());
                thread::spawn(move || write_all(&engine, writer, &variables, WRITES))
            })
            .collect();
        let mut sink = Checker {
            variables: &variables,
            last: vec![0; 3],
            got: vec![0; 3],
            missed: vec![0; 3],
        };
        // `first:n` may drop the last updates, so the consumer ends when the writers have finished.
        let drops_newest = matches!(contract, Contract::First(_));
        while sink.last.iter().sum::<u64>() < 3 * (WRITES + 1) {
            consumer.drain(&mut sink, &mut Wakes::new());
            if drops_newest && writers.iter().all(thread::JoinHandle::is_finished) {
                consumer.drain(&mut sink, &mut Wakes::new());
                break;
            }
            if sink.last.iter().sum::<u64>() < 3 * (WRITES + 1) && !drops_newest {
                bell.wait();
            }
        }
        for writer in writers {
            writer.join().expect("no panic");
        }
        for (place, variable) in variables.iter().enumerate() {
            let ledger = consumer
                .ledger(1, variable.handle())
                .expect("the subscription exists");
            assert!(ledger.is_balanced(), "{contract}: {ledger:?}");
            assert_eq!(
                (ledger.received, ledger.waiting),
                (sink.got[place], 0),
                "{contract}"
            );
            if !drops_newest {
                assert_eq!(ledger.coalesced + ledger.dropped_queue, sink.missed[place]);
            }
            assert!(variable.ledger().is_balanced());
            assert_eq!(variable.ledger().written, WRITES + 1);
        }
    }
}

/// Writer n writes every third value of each variable, and waits while a feed is full.
fn write_all(engine: &Engine, writer: u32, variables: &[Arc<Variable>], writes: u64) {
    let bell = Bell::default();
    let waiter = Consumer::new(engine.clone(), Box::new(bell.clone()));
    let caller = Caller::local(writer, 0);
    let mut wakes = Wakes::new();
    let count = writes / 3 + u64::from(u64::from(writer) < writes % 3);
    for n in 0..count {
        let bytes = (n as f64).to_le_bytes();
        for variable in variables {
            loop {
                let mut write = Write::wire(&bytes);
                write.value = WriteValue::Wire(&bytes);
                match engine.try_write(&caller, NOW, START, variable, &write, &mut wakes) {
                    Attempt::Done(WriteOutcome::Applied(_)) => break,
                    Attempt::WouldBlock { .. } => {
                        wakes.flush();
                        if waiter.wait_for_room(variable) {
                            bell.wait();
                        }
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        wakes.flush();
    }
}

#[test]
fn libraries_are_deployed_and_removed_under_concurrent_use() {
    let (engine, _variables) = engine(&DataType::F64, &["fixed"]);
    let over = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..2)
        .map(|worker| {
            let (engine, over) = (engine.clone(), Arc::clone(&over));
            thread::spawn(move || {
                let caller = Caller::local(worker, 0);
                let mut consumer = Consumer::new(engine.clone(), Box::new(Bell::default()));
                let value = Value::F64(1.0);
                let mut id = 0;
                while !over.load(Ordering::Relaxed) {
                    let Ok(variable) = engine.resolve(&caller, "passing/x") else {
                        continue;
                    };
                    // The write may be refused or not, depending on the undeployment.
                    let write = Write::value(&value);
                    engine.try_write(&caller, NOW, START, &variable, &write, &mut Wakes::new());
                    let contract = Contract::ALL;
                    id += 1;
                    let _gone =
                        consumer.subscribe(&caller, &variable, Subscribe::new(id, contract));
                    let mut sink = rig::Recorder::default();
                    consumer.drain(&mut sink, &mut Wakes::new());
                    let pattern =
                        trunkline_types::Pattern::parse("**").expect("the pattern is valid");
                    let mut found = 0;
                    let mut budget = trunkline_types::StepBudget::new(1_000_000);
                    engine.find(&caller, &pattern, 0, 10, &mut budget, |_| found += 1);
                    assert!((1..=2).contains(&found));
                }
            })
        })
        .collect();
    let passing = library_of("passing", vec![define("x", Properties::new(DataType::F64))]);
    for _ in 0..500 {
        engine
            .libraries()
            .deploy(&passing, NOW, Timestamp::from_nanos(0))
            .expect("well formed");
        engine
            .libraries()
            .undeploy("passing", NOW, START, &mut Wakes::new())
            .expect("the library is deployed");
    }
    over.store(true, Ordering::Relaxed);
    for worker in workers {
        worker.join().expect("no panic");
    }
    assert_eq!(engine.libraries().variable_count(), 1);
}

/// A target, its alias and an alias of the alias are written, forced, undeployed and redeployed
/// concurrently. No thread waits forever, and finally all three show the same value.
///
/// Behaviour: H-20, H-27.
#[test]
fn aliases_survive_concurrent_changes_of_their_target() {
    let engine = Engine::new(EngineOptions::new("sut", EPOCH));
    let deploy = |library: &str, alias: &str| {
        let mut properties = Properties::new(DataType::F64);
        properties.alias = alias.to_owned();
        let definition = library_of(library, vec![define("x", properties)]);
        engine
            .libraries()
            .deploy(&definition, NOW, START)
            .expect("well formed");
    };
    deploy("c", "b/x");
    deploy("b", "a/x");
    deploy("a", "");
    let over = AtomicBool::new(false);
    let storm = |session: u32, name: &'static str, verb: WriteVerb| {
        let caller = Caller::local(session, 0);
        let mut n = 0.0;
        while !over.load(Ordering::Relaxed) {
            n += 1.0;
            let value = Value::F64(n);
            let mut write = Write::value(&value);
            write.verb = verb;
            if let Ok(variable) = engine.resolve(&caller, name) {
                engine.try_write(&caller, NOW, START, &variable, &write, &mut Wakes::new());
            }
        }
    };
    thread::scope(|scope| {
        for (session, name) in [(1, "a/x"), (2, "b/x"), (3, "c/x")] {
            let storm = &storm;
            scope.spawn(move || storm(session, name, WriteVerb::Put));
        }
        scope.spawn(|| storm(4, "b/x", WriteVerb::Force));
        scope.spawn(|| storm(5, "b/x", WriteVerb::Unforce));
        scope.spawn(|| {
            let mut on = false;
            while !over.load(Ordering::Relaxed) {
                let caller = Caller::local(1, 1000);
                engine
                    .forcing()
                    .set(&caller, on, NOW, START, &mut Wakes::new())
                    .expect("no host stores the audit");
                on = !on;
            }
        });
        for round in 0..500 {
            let (library, alias) = [("a", ""), ("b", "a/x")][round % 2];
            engine
                .libraries()
                .undeploy(library, NOW, START, &mut Wakes::new())
                .expect("the library is deployed");
            deploy(library, alias);
        }
        over.store(true, Ordering::Relaxed);
    });
    let caller = Caller::local(1, 1000);
    engine
        .forcing()
        .clear(&caller, NOW, START, &mut Wakes::new())
        .and_then(|_| {
            engine
                .forcing()
                .set(&caller, true, NOW, START, &mut Wakes::new())
        })
        .expect("no host stores the audit");
    let caller = Caller::local(9, 0);
    let variables = ["a/x", "b/x", "c/x"].map(|name| engine.resolve(&caller, name).unwrap());
    let value = Value::F64(-1.0);
    let write = Write::value(&value);
    engine.try_write(
        &caller,
        NOW,
        START,
        &variables[0],
        &write,
        &mut Wakes::new(),
    );
    for variable in variables {
        assert_eq!(variable.sample().value, value, "{variable:?}");
        assert!(variable.ledger().is_balanced(), "{:?}", variable.ledger());
    }
}
