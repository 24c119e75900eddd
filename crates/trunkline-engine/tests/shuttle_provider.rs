//! Interleavings of writes that a provider answers, explored by shuttle.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(shuttle)]

mod rig;
mod schedules;

use std::sync::Arc;
use std::time::Duration;

use rig::{Recorder, START};
use schedules::{Bell, NOW, engine, explore, has, subscribe};
use shuttle::sync::Mutex;
use shuttle::thread;
use trunkline_engine::{
    Answer, Attempt, Caller, Consumer, Provider, Ticket, Wakes, Write, WriteOutcome,
};
use trunkline_types::{Contract, Reason, Value};

/// A provider that records the tickets of its writes.
#[derive(Default)]
struct Plc(Mutex<Vec<Ticket>>);

impl Provider for Plc {
    fn name(&self) -> Arc<str> {
        Arc::from("plc")
    }
    fn send(&self, ticket: Ticket, _handle: u32, _raw: Value) {
        self.0.lock().expect("no panic").push(ticket);
    }
    fn request(&self, _ticket: Option<Ticket>, _handle: u32) {}
    fn error(&self) -> Option<String> {
        None
    }
}

/// Behaviour: B-20.
#[test]
fn racing_answer_timeout_and_disconnect_give_a_write_one_end() {
    explore(|| {
        let (engine, variables) = engine(Duration::ZERO);
        let x = Arc::clone(&variables[0]);
        let plc = Arc::new(Plc::default());
        let id = engine
            .providers()
            .attach(Arc::clone(&plc) as Arc<_>, &[x.handle()]);
        let mut consumer = Consumer::new(engine.clone(), Box::new(Bell::default()));
        let value = Value::F64(1.0);
        let mut order = Write::value(&value);
        order.completion = Some(consumer.completion(5));
        let caller = Caller::local(1, 0);
        let attempt = engine.try_write(&caller, NOW, START, &x, &order, &mut Wakes::new());
        assert_eq!(attempt, Attempt::Pending);
        let later = NOW.saturating_add(Duration::from_secs(3600));
        let threads = [
            thread::spawn({
                let (engine, x, plc) = (engine.clone(), Arc::clone(&x), Arc::clone(&plc));
                move || {
                    let ticket = plc.0.lock().expect("no panic").remove(0);
                    let answer = Answer::Applied(Value::F64(1.0));
                    engine.providers().answer(
                        ticket,
                        x.handle(),
                        answer,
                        NOW,
                        START,
                        &mut Wakes::new(),
                    );
                }
            }),
            thread::spawn({
                let engine = engine.clone();
                move || {
                    engine.poll(later, START, &mut Wakes::new());
                }
            }),
            thread::spawn({
                let engine = engine.clone();
                move || {
                    let reason = Reason::ProviderGone;
                    engine
                        .providers()
                        .detach(id, reason, NOW, START, &mut Wakes::new());
                }
            }),
        ];
        for thread in threads {
            thread.join().expect("no panic");
        }
        assert!(consumer.take_completion().is_some_and(|(id, _)| id == 5));
        assert_eq!(consumer.take_completion(), None);
        assert!(x.ledger().is_balanced());
    });
}

/// A reader that sees the update of a provider's answer also finds the outcome of the write.
fn answer_is_there_when_the_update_is_seen(contract: Contract) {
    explore(move || {
        let (engine, variables) = engine(Duration::ZERO);
        let x = Arc::clone(&variables[0]);
        let plc = Arc::new(Plc::default());
        engine
            .providers()
            .attach(Arc::clone(&plc) as Arc<_>, &[x.handle()]);
        let bell = Bell::default();
        let mut consumer = Consumer::new(engine.clone(), Box::new(bell.clone()));
        // The first reading is pending, and may be taken at any moment.
        subscribe(&mut consumer, 1, contract, &x);
        let value = Value::F64(1.0);
        let mut order = Write::value(&value);
        order.completion = Some(consumer.completion(5));
        let caller = Caller::local(1, 0);
        let attempt = engine.try_write(&caller, NOW, START, &x, &order, &mut Wakes::new());
        assert_eq!(attempt, Attempt::Pending);
        let device = thread::spawn({
            let (engine, x) = (engine.clone(), Arc::clone(&x));
            move || {
                let ticket = plc.0.lock().expect("no panic").remove(0);
                let answer = Answer::Applied(Value::F64(1.0));
                engine.providers().answer(
                    ticket,
                    x.handle(),
                    answer,
                    NOW,
                    START,
                    &mut Wakes::new(),
                );
            }
        });
        loop {
            let mut sink = Recorder::default();
            let more = consumer.drain(&mut sink, &mut Wakes::new());
            if has(&sink.events, &x, 1) {
                break;
            }
            if !more {
                bell.wait();
            }
        }
        let applied = WriteOutcome::Applied(1);
        assert_eq!(consumer.take_completion(), Some((5, applied)));
        device.join().expect("no panic");
        assert_eq!(consumer.take_completion(), None);
    });
}

/// Behaviour: B-20.
#[test]
fn provider_answer_precedes_its_update_under_latest() {
    answer_is_there_when_the_update_is_seen(Contract::Latest);
}

/// Behaviour: B-20.
#[test]
fn provider_answer_precedes_its_update_under_all() {
    answer_is_there_when_the_update_is_seen(Contract::ALL);
}
