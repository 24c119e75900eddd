//! An I/O server whose program publishes values and takes orders from a queue.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use trunkline::io::{ItemId, Published};
use trunkline::local::WriteError;
use trunkline::types::{Quality, Reason, Timestamp, Value};
use trunkline::{
    ConnectOptions, Engine, Order, OrderAnswer, QueuedProvider, QueuedProviderError,
    QueuedProviderOptions,
};

use crate::device::{has, is_bad};
use crate::rig::{Cable, TIMEOUT, engine_at, follow, library};

const LEVEL: ItemId = ItemId(0);

fn options(order_timeout: Duration) -> QueuedProviderOptions {
    QueuedProviderOptions {
        name: "plant".to_owned(),
        items: vec!["level".to_owned(), "flow".to_owned()],
        libraries: vec![
            library("a", "plant:level"),
            library("b", "plant:flow"),
            library("c", "plant:level"),
        ],
        order_timeout,
        takes_requests: false,
    }
}

fn start_at(address: &str, options: QueuedProviderOptions) -> Arc<QueuedProvider> {
    let connect = ConnectOptions::new(&format!("tl://{address}")).unwrap();
    let provider = QueuedProvider::start(&connect, options).unwrap();
    let mut status = provider.status();
    while status.variables < 3 {
        status = provider.wait_status(&status).expect("it is running");
    }
    Arc::new(provider)
}

fn rig(order_timeout: Duration) -> (Engine, Arc<QueuedProvider>) {
    let engine = engine_at("127.0.0.1:0".parse().unwrap());
    let address = engine.local_addrs()[0].to_string();
    let provider = start_at(&address, options(order_timeout));
    (engine, provider)
}

fn value(item: ItemId, value: f64) -> Published {
    Published {
        item,
        value: Some(Value::F64(value)),
        quality: Quality::GOOD,
        source_timestamp: None,
    }
}

fn next(provider: &QueuedProvider) -> Order {
    let order = provider.next_order(Some(TIMEOUT)).unwrap();
    order.expect("an order arrives")
}

/// Writes a variable in another thread, because the write ends with the program's answer.
fn write(
    engine: &Engine,
    name: &'static str,
    value: f64,
) -> thread::JoinHandle<Result<(), WriteError>> {
    let variable = engine.variable::<f64>(name).unwrap();
    thread::spawn(move || variable.write(value).map(drop))
}

/// Behaviour: LM-08.
#[test]
fn published_values_reach_all_variables_of_the_item() {
    let (engine, provider) = rig(TIMEOUT);
    let (mut a, mut c) = (follow(&engine, "a/x"), follow(&engine, "c/x"));
    a.next_where(is_bad(Reason::NotConnected));
    let measured = Timestamp::from_nanos(1_700_000_000_000_000_000);
    let level = Published {
        source_timestamp: Some(measured),
        ..value(LEVEL, 4.5)
    };
    provider.publish(&[level]).unwrap();
    let reading = a.next_where(has(4.5));
    assert_eq!(reading.sample.source_timestamp, measured);
    c.next_where(has(4.5));
    // A variable that is deployed later begins with the last value.
    engine.deploy(&library("d", "plant:level")).unwrap();
    follow(&engine, "d/x").next_where(has(4.5));
    // A failure keeps the value.
    let failed = Published {
        value: None,
        quality: Quality::bad(Reason::SensorFailure),
        ..value(LEVEL, 0.0)
    };
    provider.publish(&[failed]).unwrap();
    let reading = a.next_where(is_bad(Reason::SensorFailure));
    assert_eq!(reading.sample.value, Value::F64(4.5));
    assert_eq!(
        provider.publish(&[value(ItemId(2), 0.0)]),
        Err(QueuedProviderError::UnknownItem { item: 2, count: 2 })
    );
    drop(provider);
    a.next_where(is_bad(Reason::ProviderGone));
}

/// Behaviour: LM-05, LM-25.
#[test]
fn orders_are_answered_in_any_order_while_values_are_published() {
    let (engine, provider) = rig(TIMEOUT);
    let (mut b, mut c) = (follow(&engine, "b/x"), follow(&engine, "c/x"));
    let first = write(&engine, "a/x", 33.0);
    let first_order = next(&provider);
    assert_eq!(
        (first_order.item, &first_order.value),
        (LEVEL, &Some(Value::F64(33.0)))
    );
    let second = write(&engine, "b/x", 7.0);
    let second_order = next(&provider);
    provider.publish(&[value(ItemId(1), 6.0)]).unwrap();
    b.next_where(has(6.0));
    provider
        .answer(second_order.number, OrderAnswer::Done)
        .unwrap();
    second.join().unwrap().unwrap();
    b.next_where(has(7.0));
    // The device has made 32 of 33; another variable of the item shows it too.
    let read_back = OrderAnswer::Has {
        value: Value::F64(32.0),
        quality: Quality::GOOD,
        source_timestamp: None,
    };
    provider.answer(first_order.number, read_back).unwrap();
    first.join().unwrap().unwrap();
    c.next_where(has(32.0));
    let a = engine.variable::<f64>("a/x").unwrap();
    assert_eq!(a.read().unwrap().value, 32.0);
}

/// Behaviour: LM-05.
#[test]
fn an_order_can_be_refused_and_its_outcome_can_be_unknown() {
    let (engine, provider) = rig(TIMEOUT);
    let writing = write(&engine, "a/x", 1.0);
    let refused = OrderAnswer::Refused("the door is open; close it".to_owned());
    provider.answer(next(&provider).number, refused).unwrap();
    let Err(WriteError::Refused(cause)) = writing.join().unwrap() else {
        panic!("the program refused it");
    };
    assert!(cause.to_string().contains("close it"), "{cause}");
    let writing = write(&engine, "a/x", 2.0);
    let unknown = OrderAnswer::Unknown("the device was switched off".to_owned());
    provider.answer(next(&provider).number, unknown).unwrap();
    let outcome = writing.join().unwrap();
    assert!(
        matches!(outcome, Err(WriteError::Unknown(_))),
        "{outcome:?}"
    );
}

#[test]
fn an_order_that_is_not_answered_in_time_ends() {
    let (engine, provider) = rig(Duration::from_millis(20));
    let untaken = write(&engine, "a/x", 1.0).join().unwrap();
    let Err(WriteError::Refused(cause)) = untaken else {
        panic!("nobody took it: {untaken:?}");
    };
    assert!(
        cause.to_string().contains("does not take orders"),
        "{cause}"
    );
    assert_eq!(provider.next_order(Some(Duration::ZERO)), Ok(None));
    let writing = write(&engine, "a/x", 2.0);
    // It may be late for the program too.
    if let Some(order) = provider.peek_order(Some(TIMEOUT)).unwrap()
        && provider.take_order(order.number)
    {
        assert!(!provider.take_order(order.number), "it was taken");
        let taken = writing.join().unwrap();
        assert!(matches!(taken, Err(WriteError::Unknown(_))), "{taken:?}");
        let late = provider.answer(order.number, OrderAnswer::Done);
        assert_eq!(late, Err(QueuedProviderError::LateAnswer(order.number)));
    }
}

/// Behaviour: LM-08, VS-25.
#[test]
fn orders_of_a_lost_connection_are_forgotten_and_values_are_delivered_again() {
    let engine = engine_at("127.0.0.1:0".parse().unwrap());
    let cable = Cable::to(engine.local_addrs()[0]);
    let provider = start_at(&cable.near.to_string(), options(TIMEOUT));
    provider.publish(&[value(LEVEL, 4.0)]).unwrap();
    let mut a = follow(&engine, "a/x");
    a.next_where(has(4.0));
    let writing = write(&engine, "b/x", 1.0);
    let order = next(&provider);
    cable.cut();
    let outcome = writing.join().unwrap();
    assert!(
        matches!(outcome, Err(WriteError::Unknown(_))),
        "{outcome:?}"
    );
    a.next_where(is_bad(Reason::ProviderGone));
    provider.publish(&[value(LEVEL, 5.0)]).unwrap();
    a.next_where(has(5.0));
    let late = provider.answer(order.number, OrderAnswer::Done);
    assert_eq!(late, Err(QueuedProviderError::LateAnswer(order.number)));
}

#[test]
fn another_io_server_changes_nothing() {
    let (engine, provider) = rig(TIMEOUT);
    provider.publish(&[value(LEVEL, 4.0)]).unwrap();
    let a = engine.variable::<f64>("a/x").unwrap();
    let mut updates = follow(&engine, "a/x");
    let before = updates.next_where(has(4.0));
    let address = engine.local_addrs()[0].to_string();
    let other = QueuedProviderOptions {
        name: "other".to_owned(),
        libraries: ["o", "p", "q"]
            .map(|name| library(name, "other:flow"))
            .into(),
        ..options(TIMEOUT)
    };
    drop(start_at(&address, other));
    // Its own variables became bad, so all that it causes has happened.
    follow(&engine, "o/x").next_where(is_bad(Reason::ProviderGone));
    assert_eq!(a.read().unwrap().position, before.position);
}

#[test]
fn stopping_ends_waiting_calls() {
    let (engine, provider) = rig(TIMEOUT);
    let waiting = Arc::clone(&provider);
    let waiter = thread::spawn(move || waiting.next_order(None));
    let writing = write(&engine, "a/x", 1.0);
    let order = waiter.join().unwrap().unwrap().expect("an order");
    let waiting = Arc::clone(&provider);
    let waiter = thread::spawn(move || waiting.next_order(None));
    provider.stop();
    assert_eq!(waiter.join().unwrap(), Err(QueuedProviderError::Closed));
    let published = provider.publish(&[value(LEVEL, 1.0)]);
    assert_eq!(published, Err(QueuedProviderError::Closed));
    assert!(writing.join().unwrap().is_err());
    let late = provider.answer(order.number, OrderAnswer::Done);
    assert!(late.is_ok() || late == Err(QueuedProviderError::LateAnswer(order.number)));
}
