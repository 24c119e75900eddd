//! An I/O server in the engine's process: its scans, the writes of clients, and its failures.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod device;

use std::time::Duration;

use device::{Bench, Device, Failure, has, is_bad};
use trunkline::local::{Subscription, Variable, WriteError};
use trunkline::types::{Contract, Reading, Reason, Value};
use trunkline::{Engine, EngineOptions};
use trunkline_net::Clock;

/// Limit that only a hanging test reaches.
const TIMEOUT: Duration = Duration::from_secs(60);

struct Rig {
    engine: Engine,
    device: Device,
    level: Variable<f64>,
    updates: Subscription,
}

impl Rig {
    fn new(failure: Failure, period: Option<Duration>) -> Self {
        let device = Device::default();
        *device.bench() = Bench {
            raw: 12.0,
            failure,
            ..Bench::default()
        };
        let engine = Engine::start(EngineOptions::default()).unwrap();
        engine
            .attach_io("dev", Box::new(device.clone()), period, true)
            .unwrap();
        let level = engine.variable("loop/level").unwrap();
        let updates = level.subscribe(Contract::Latest).unwrap();
        Self {
            engine,
            device,
            level,
            updates,
        }
    }

    /// Returns the next reading that satisfies the condition.
    fn next_where(&mut self, is_it: impl Fn(&Reading) -> bool) -> Reading {
        loop {
            let reading = self.updates.next(Some(TIMEOUT)).expect("an update");
            if is_it(&reading) {
                return reading;
            }
        }
    }
}

/// Behaviour: SV-11.
#[test]
fn scans_are_scaled_and_writes_return_the_device_value() {
    let mut sut = Rig::new(Failure::None, None);
    sut.next_where(has(50.0));
    // 25 % is 8 mA; 33 % would be 9.28 mA, of which the device makes 9.
    sut.level.write(25.0).unwrap();
    assert_eq!(sut.level.read().unwrap().value, 25.0);
    sut.level.write(33.0).unwrap();
    assert_eq!(sut.level.read().unwrap().value, 31.25);
    assert_eq!(sut.device.bench().raw, 9.0);
    sut.next_where(has(31.25));
}

#[test]
fn device_refusal_changes_nothing_and_is_reported_verbatim() {
    let mut sut = Rig::new(Failure::None, None);
    sut.next_where(has(50.0));
    let Err(WriteError::Refused(refusal)) = sut.level.write(99.0) else {
        panic!("a valve opened too far");
    };
    let sentence = refusal.to_string();
    assert!(sentence.contains("does not open that far"), "{sentence}");
    assert_eq!(sut.level.read().unwrap().value, 50.0);
}

#[test]
fn unreachable_device_is_bad_and_recovers() {
    let mut sut = Rig::new(Failure::Unreachable, None);
    sut.next_where(is_bad(Reason::HostUnreachable));
    assert!(sut.level.write(25.0).is_err());
    sut.device.bench().failure = Failure::None;
    sut.next_where(has(50.0));
    sut.device.bench().failure = Failure::Unreachable;
    let lost = sut.next_where(is_bad(Reason::HostUnreachable));
    assert_eq!(
        lost.sample.value,
        Value::F64(50.0),
        "the last value is kept"
    );
}

#[test]
fn a_driver_that_panics_is_a_failed_device_and_is_opened_again() {
    let mut sut = Rig::new(Failure::None, None);
    sut.next_where(has(50.0));
    sut.device.bench().failure = Failure::Panic;
    sut.next_where(is_bad(Reason::DeviceFailure));
    let client = sut.engine.client().unwrap();
    let steps = client.why("loop/level", TIMEOUT).unwrap();
    let told = steps.iter().any(|step| step.sentence.contains("panicked"));
    assert!(told, "{steps:?}");
    sut.device.bench().failure = Failure::None;
    sut.next_where(has(50.0));
}

/// The order in progress ends at once. The orders after it end when the device is open again.
#[test]
fn a_driver_that_panics_in_a_write_leaves_its_outcome_unknown() {
    let mut sut = Rig::new(Failure::None, None);
    sut.next_where(has(50.0));
    sut.device.bench().failure = Failure::PanicInSend;
    let Err(WriteError::Unknown(cause)) = sut.level.write(25.0) else {
        panic!("nobody can know");
    };
    assert!(cause.to_string().contains("panicked"), "{cause}");
    sut.next_where(is_bad(Reason::DeviceFailure));
    sut.device.bench().failure = Failure::None;
    sut.next_where(has(50.0));
    sut.level.write(25.0).unwrap();
}

#[test]
fn fresh_value_can_be_requested_between_scans() {
    let hour = Duration::from_secs(3600);
    let mut sut = Rig::new(Failure::None, Some(hour));
    sut.next_where(has(50.0));
    sut.device.bench().raw = 16.0;
    let client = sut.engine.client().unwrap();
    let opened = client.open(&["loop/level"], Default::default(), TIMEOUT);
    let level = opened.unwrap().remove(0).unwrap().variable;
    let results = client.request_value(&[level], TIMEOUT).unwrap();
    assert!(results[0].is_ok());
    sut.next_where(has(75.0));
    assert_eq!(sut.device.bench().requests, 1);
}

/// Scans continue under any number of writes.
#[test]
fn clients_that_write_all_the_time_do_not_keep_the_scans_from_running() {
    let sut = Rig::new(Failure::None, None);
    let client = sut.engine.client().unwrap();
    let opened = client.open(&["loop/level"], Default::default(), TIMEOUT);
    let level = opened.unwrap().remove(0).unwrap().variable;
    let scans = sut.device.bench().scans;
    let (clock, mut done) = (Clock::new(), scans);
    let cut_off = clock.now().saturating_add(TIMEOUT);
    while done < scans + 20 {
        assert!(
            clock.now() < cut_off,
            "{done} scans after {scans}, 20 more are to come"
        );
        let writes = (0..100).map(|n| trunkline::Write::new(level, Value::F64(f64::from(n % 50))));
        client.write(writes, TIMEOUT).unwrap();
        done = sut.device.bench().scans;
    }
}

#[test]
fn variables_of_a_stopped_io_server_are_bad() {
    let mut sut = Rig::new(Failure::None, None);
    sut.next_where(has(50.0));
    assert!(sut.engine.stop_io("dev"));
    sut.next_where(is_bad(Reason::ProviderGone));
    assert!(!sut.engine.stop_io("dev"));
}
