//! An I/O server that an engine reaches over the network, as if it ran in another process: its
//! values, its requests, and the effects of its end.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

#[path = "../device/mod.rs"]
mod device;
mod queued;
mod rig;

use std::time::Duration;

use device::{Device, Failure, has, is_bad};
use rig::{Cable, Rig, TIMEOUT, Updates, engine_at, follow, library, provide, wait_for};
use trunkline::io::IoServer;
use trunkline::local::WriteError;
use trunkline::types::{Contract, DataType, Properties, Reading, Reason, Scaling, Value};
use trunkline::{Client, Write, WriteOutcome};

/// Behaviour: LM-25.
#[test]
fn values_are_scaled_and_writes_return_the_device_value() {
    let sut = Rig::new();
    let mut level = sut.level();
    let provider = sut.provider();
    level.next_where(has(50.0));
    let status = wait_for(&provider, |status| status.variables == 1);
    assert!(status.is_provided);
    assert_eq!((status.missing, status.engine_error), (0, None));
    // 33 % is 9.28 mA, of which the device makes 9.
    let variable = sut.engine.variable::<f64>("loop/level").unwrap();
    variable.write(33.0).unwrap();
    assert_eq!(variable.read().unwrap().value, 31.25);
    assert_eq!(sut.device.bench().raw, 9.0);
    level.next_where(has(31.25));
}

/// Behaviour: H-01, LM-08.
#[test]
fn scaled_integers_are_equal_from_both_processes() {
    let sut = Rig::new();
    let mut percent = Properties::new(DataType::I32);
    percent.source = "plant:current".to_owned();
    percent.scaling = Some(Scaling::Linear {
        raw: [4.0, 20.0],
        eng: [0.0, 100.0],
    });
    let mut whole = library("whole", "");
    whole.variables[0].properties = percent.into();
    sut.engine.deploy(&whole).unwrap();
    sut.device.bench().raw = 12.7;
    let x = sut.engine.variable::<i32>("whole/x").unwrap();
    let mut updates = Updates(x.subscribe(Contract::Latest).unwrap());
    let is = |value| move |reading: &Reading| reading.sample.value == Value::I32(value);
    {
        let _elsewhere = sut.provider();
        // 12.7 mA is 54.4 %; rounded to 13 mA in transit it would be 56.
        updates.next_where(is(54));
        // 33 % is 9.28 mA, of which the device makes 9, which is 31.25 %.
        x.write(33).unwrap();
        assert_eq!(x.read().unwrap().value, 31);
        updates.next_where(is(31));
    }
    updates.next_where(is_bad(Reason::ProviderGone));
    sut.device.bench().raw = 12.7;
    let device = Box::new(sut.device.clone());
    sut.engine.attach_io("plant", device, None, false).unwrap();
    updates.next_where(is(54));
    x.write(33).unwrap();
    assert_eq!(x.read().unwrap().value, 31);
}

#[test]
fn device_refusal_changes_nothing_and_is_reported_verbatim() {
    let sut = Rig::new();
    let _provider = sut.provider();
    sut.level().next_where(has(50.0));
    let variable = sut.engine.variable::<f64>("loop/level").unwrap();
    let Err(WriteError::Refused(refusal)) = variable.write(99.0) else {
        panic!("a valve opened too far");
    };
    let sentence = refusal.to_string();
    assert!(sentence.contains("does not open that far"), "{sentence}");
    assert_eq!(variable.read().unwrap().value, 50.0);
}

/// Behaviour: LM-05, LM-06, LM-07.
#[test]
fn a_client_elsewhere_sends_a_value_and_asks_for_a_fresh_one() {
    let sut = Rig::new();
    let _provider = sut.provider_with(Some(Duration::from_secs(3600)));
    sut.level().next_where(has(50.0));
    let client = Client::connect(&format!("tl://{}", sut.engine.local_addrs()[0])).unwrap();
    let level = client.variable::<f64>("loop/level", TIMEOUT).unwrap();
    let order = |order: Write| {
        let outcome = client.write([order], TIMEOUT).unwrap().remove(0);
        assert!(matches!(outcome, WriteOutcome::Applied(_)), "{outcome:?}");
    };
    order(Write::set(level.reference(), Value::F64(25.0)));
    assert_eq!(sut.device.bench().raw, 12.0, "a set starts nothing");
    order(Write::send(level.reference()));
    assert_eq!(sut.device.bench().raw, 8.0);
    sut.device.bench().raw = 16.0;
    order(Write::request(level.reference()));
    assert_eq!(level.get(TIMEOUT).unwrap(), 75.0);
}

/// Behaviour: LM-08, VS-25.
#[test]
fn cut_connection_is_detected_at_once_and_recovers() {
    let sut = Rig::new();
    let mut level = sut.level();
    let cable = Cable::to(sut.engine.local_addrs()[0]);
    let provider = provide(cable.near, &sut.device, false);
    level.next_where(has(50.0));
    cable.cut();
    let lost = level.next_where(is_bad(Reason::ProviderGone));
    assert_eq!(
        lost.sample.value,
        Value::F64(50.0),
        "the last value is kept"
    );
    level.next_where(has(50.0));
    wait_for(&provider, |status| status.variables == 1);
}

/// Behaviour: LM-08, VS-25.
#[test]
fn variables_are_bad_between_two_io_servers() {
    let sut = Rig::new();
    let mut level = sut.level();
    let first = sut.provider();
    level.next_where(has(50.0));
    drop(first);
    let lost = level.next_where(is_bad(Reason::ProviderGone));
    assert_eq!(
        lost.sample.value,
        Value::F64(50.0),
        "the last value is kept"
    );
    let variable = sut.engine.variable::<f64>("loop/level").unwrap();
    let refused = variable
        .write(25.0)
        .expect_err("there is nobody to take it");
    assert!(refused.to_string().contains("plant"), "{refused}");
    // Another I/O server with the same name takes over, with another device.
    let spare = Device::default();
    spare.bench().raw = 16.0;
    let _second = provide(sut.engine.local_addrs()[0], &spare, false);
    level.next_where(has(75.0));
    variable.write(25.0).unwrap();
    assert_eq!((spare.bench().raw, sut.device.bench().raw), (8.0, 12.0));
}

#[test]
fn restarted_engine_gets_its_variables_delivered_again() {
    let sut = Rig::new();
    let address = sut.engine.local_addrs()[0];
    let provider = sut.provider();
    sut.level().next_where(has(50.0));
    sut.engine.shutdown(Duration::from_secs(1));
    wait_for(&provider, |status| !status.is_provided);
    let Rig { engine, device } = sut;
    drop(engine);
    let engine = engine_at(address);
    for library in device.libraries("plant") {
        engine.deploy(&library).unwrap();
    }
    follow(&engine, "loop/level").next_where(has(50.0));
    let status = wait_for(&provider, |status| status.variables == 1);
    assert!(status.is_provided && status.engine_error.is_none());
}

#[test]
fn a_second_io_server_of_the_name_waits_and_takes_over() {
    let sut = Rig::new();
    let first = sut.provider();
    wait_for(&first, |status| status.variables == 1);
    let spare = Device::default();
    spare.bench().raw = 16.0;
    let second = provide(sut.engine.local_addrs()[0], &spare, false);
    let status = wait_for(&second, |status| status.engine_error.is_some());
    let error = status.engine_error.unwrap();
    assert!(
        error.contains("already running; this one is a standby"),
        "{error}"
    );
    assert!(!status.is_provided);
    let mut level = sut.level();
    level.next_where(has(50.0));
    drop(first);
    level.next_where(is_bad(Reason::ProviderGone));
    level.next_where(has(75.0));
    let status = wait_for(&second, |status| status.variables == 1);
    assert_eq!((status.is_provided, status.engine_error), (true, None));
}

/// Behaviour: LM-33.
#[test]
fn later_variables_are_delivered_and_a_wrong_item_is_reported() {
    let sut = Rig::new();
    let provider = sut.provider();
    wait_for(&provider, |status| status.variables == 1);
    sut.engine
        .deploy(&library("later", "plant:current"))
        .unwrap();
    follow(&sut.engine, "later/x").next_where(has(12.0));
    wait_for(&provider, |status| status.variables == 2);
    sut.engine.deploy(&library("typo", "plant:curent")).unwrap();
    follow(&sut.engine, "typo/x").next_where(is_bad(Reason::VariableMissing));
    let status = wait_for(&provider, |status| status.missing == 1);
    assert_eq!(status.missing_item.as_deref(), Some("curent"));
    let typo = sut.engine.variable::<f64>("typo/x").unwrap();
    let refused = typo
        .write(1.0)
        .expect_err("there is no such item")
        .to_string();
    assert!(refused.contains("it has no item curent"), "{refused}");
    // After the correction, the variable is delivered at once.
    sut.engine
        .replace(&library("typo", "plant:current"))
        .unwrap();
    follow(&sut.engine, "typo/x").next_where(has(12.0));
    let status = wait_for(&provider, |status| status.variables == 3);
    assert_eq!((status.missing, status.missing_item), (0, None));
}

#[test]
fn removed_variables_are_no_longer_delivered() {
    let sut = Rig::new();
    let provider = sut.provider();
    sut.engine
        .deploy(&library("later", "plant:current"))
        .unwrap();
    wait_for(&provider, |status| status.variables == 2);
    sut.engine.undeploy("later").unwrap();
    wait_for(&provider, |status| status.variables == 1);
    sut.level().next_where(has(50.0));
}

#[test]
fn libraries_that_it_offers_are_deployed_at_the_engine() {
    let engine = engine_at("127.0.0.1:0".parse().unwrap());
    let device = Device::default();
    device.bench().raw = 12.0;
    let provider = provide(engine.local_addrs()[0], &device, true);
    wait_for(&provider, |status| status.variables == 1);
    follow(&engine, "loop/level").next_where(has(50.0));
    // The next connection does not deploy another library.
    drop(provider);
    let mut level = follow(&engine, "loop/level");
    level.next_where(is_bad(Reason::ProviderGone));
    let _provider = provide(engine.local_addrs()[0], &device, true);
    level.next_where(has(50.0));
    assert_eq!(engine.variable_count(), 1);
}

#[test]
fn unreachable_device_is_bad_and_recovers() {
    let sut = Rig::new();
    sut.device.bench().failure = Failure::Unreachable;
    let mut level = sut.level();
    let provider = sut.provider();
    level.next_where(is_bad(Reason::HostUnreachable));
    let status = wait_for(&provider, |status| status.device_error.is_some());
    assert!(status.is_provided, "the engine is not to blame");
    let variable = sut.engine.variable::<f64>("loop/level").unwrap();
    assert!(matches!(variable.write(25.0), Err(WriteError::Refused(_))));
    sut.device.bench().failure = Failure::None;
    level.next_where(has(50.0));
    wait_for(&provider, |status| status.device_error.is_none());
}

#[test]
fn a_driver_that_panics_is_a_failed_device_and_is_opened_again() {
    let sut = Rig::new();
    let mut level = sut.level();
    let provider = sut.provider();
    level.next_where(has(50.0));
    sut.device.bench().failure = Failure::Panic;
    level.next_where(is_bad(Reason::DeviceFailure));
    let status = wait_for(&provider, |status| status.device_error.is_some());
    assert!(status.device_error.unwrap().contains("panicked"));
    sut.device.bench().failure = Failure::PanicInSend;
    level.next_where(has(50.0));
    let variable = sut.engine.variable::<f64>("loop/level").unwrap();
    let Err(WriteError::Unknown(cause)) = variable.write(25.0) else {
        panic!("nobody can know");
    };
    assert!(cause.to_string().contains("panicked"), "{cause}");
    sut.device.bench().failure = Failure::None;
    level.next_where(has(50.0));
}

#[test]
fn io_server_may_start_and_stop_without_its_engine() {
    let address = engine_at("127.0.0.1:0".parse().unwrap()).local_addrs()[0];
    let device = Device::default();
    device.bench().raw = 12.0;
    let [early, lonely] = [(); 2].map(|()| provide(address, &device, true));
    let status = lonely.status();
    assert_eq!((status.is_provided, status.variables), (false, 0));
    lonely.stop();
    assert_eq!(lonely.wait_status(&status), None);
    let engine = engine_at(address);
    let status = wait_for(&early, |status| status.variables == 1);
    follow(&engine, "loop/level").next_where(has(50.0));
    early.stop();
    assert_eq!(early.wait_status(&status), None);
}
