//! Subscriptions of programs that poll, and of programs that work between two readings.

use std::time::Duration;

use trunkline::types::{Contract, Value};
use trunkline::{Batch, Event, SubscribeOptions, Subscription};

use crate::rig::{
    CUT_OFF, EVERY_WAY, NO_WAITING, Over, Place, Poller, RHYTHMS, quiet_and_busy, runs, work,
};

/// Number of updates that each polling program receives.
const UPDATES: u32 = 5;

/// Makes one call with a time-out of zero. Returns the newest value that it received.
type Poll = fn(&Subscription) -> Option<f64>;

fn value_of(event: Event) -> Option<f64> {
    match event {
        Event::Reading { reading, .. } => match reading.sample.value {
            Value::F64(value) => Some(value),
            _ => None,
        },
        Event::Disconnected { .. } => panic!("the connection was lost: {event:?}"),
        _ => None,
    }
}

fn next(from: &Subscription) -> Option<f64> {
    from.next(NO_WAITING).and_then(value_of)
}

fn next_many(from: &Subscription) -> Option<f64> {
    let events = from.next_many(10, NO_WAITING);
    events.into_iter().filter_map(value_of).last()
}

fn next_batch(from: &Subscription) -> Option<f64> {
    let mut batch = Batch::new();
    from.next_batch(&mut batch, 10, NO_WAITING);
    let last = batch.readings().last();
    last.and_then(|reading| reading.get())
}

fn own_copy(from: &Subscription) -> Option<f64> {
    let copy = from.value(0)?;
    assert!(copy.stale.is_none(), "the connection was lost");
    value_of(Event::Reading {
        item: 0,
        reading: copy,
    })
}

fn polled(poll: Poll) -> Duration {
    let mut longest = Duration::ZERO;
    let place = Place::new();
    let level = place.engine.variable::<f64>("rig/level").unwrap();
    for over in EVERY_WAY {
        for between in RHYTHMS {
            let client = place.client(over);
            let options = SubscribeOptions::default();
            let updates = client.subscribe(&["rig/level"], Contract::ALL, options);
            let updates = updates.unwrap();
            let mut poller = Poller::new(between);
            for value in 1..=UPDATES {
                level.write(f64::from(value)).unwrap();
                let what = format!("update {value} over {over:?}");
                poller.until(&what, || {
                    poll(&updates).filter(|got| *got == f64::from(value))
                });
            }
            longest = longest.max(poller.longest());
        }
    }
    longest
}

/// Behaviour: API-09.
#[test]
fn next_without_waiting_brings_every_update() {
    quiet_and_busy("next", || polled(next));
}

#[test]
fn next_many_without_waiting_brings_every_update() {
    quiet_and_busy("next_many", || polled(next_many));
}

#[test]
fn next_batch_without_waiting_brings_every_update() {
    quiet_and_busy("next_batch", || polled(next_batch));
}

/// A pending read does not delay the rest of the connection.
#[test]
fn reads_without_waiting_leave_the_copy_of_a_value_up_to_date() {
    quiet_and_busy("read", || {
        let mut longest = Duration::ZERO;
        let place = Place::new();
        let level = place.engine.variable::<f64>("rig/level").unwrap();
        for over in EVERY_WAY {
            for between in RHYTHMS {
                let client = place.client(over);
                let read = client.variable::<f64>("rig/level", CUT_OFF).unwrap();
                let options = SubscribeOptions::default();
                let copy = client.subscribe(&["rig/level"], Contract::Latest, options);
                let copy = copy.unwrap();
                let mut poller = Poller::new(between);
                for value in 1..=UPDATES {
                    level.write(f64::from(value)).unwrap();
                    poller.until("an update", || {
                        // No answer can arrive within a time-out of zero.
                        let _ = read.read(Duration::ZERO);
                        own_copy(&copy).filter(|got| *got == f64::from(value))
                    });
                }
                longest = longest.max(poller.longest());
            }
        }
        longest
    });
}

/// Taking queued readings does not drive the connection. It must be driven nevertheless, because
/// otherwise its copies become old unnoticed and the engine drops the client.
#[test]
fn a_program_that_works_on_a_burst_stays_connected_and_up_to_date() {
    const BURST: u32 = 5000;
    quiet_and_busy("burst", || {
        let place = Place::new();
        let client = place.client(Over::Tcp);
        let options = SubscribeOptions::default();
        let burst = client.subscribe(&["rig/level"], Contract::ALL, options);
        let burst = burst.unwrap();
        let copy = client.subscribe(&["rig/flow"], Contract::Latest, options);
        let copy = copy.unwrap();
        let level = place.engine.variable::<f64>("rig/level").unwrap();
        let flow = place.engine.variable::<f64>("rig/flow").unwrap();
        while burst.next(Some(CUT_OFF)).and_then(value_of).is_none() {}
        for value in 1..=BURST {
            level.write(f64::from(value)).unwrap();
        }
        let (mut seen, mut written) = (0, false);
        let mut last = 0.0;
        while last < f64::from(BURST) {
            let event = burst.next(Some(CUT_OFF)).expect("a reading");
            last = value_of(event).unwrap_or(last);
            work(Duration::from_millis(1));
            if !written && last > 0.0 {
                flow.write(1.0).unwrap();
                written = true;
            }
            seen += u32::from(written && own_copy(&copy) != Some(1.0));
            if runs() == 1 && written && own_copy(&copy) == Some(1.0) {
                // Only a long run uses the whole burst.
                break;
            }
        }
        assert_eq!(own_copy(&copy), Some(1.0), "within the burst");
        Duration::from_millis(1) * seen
    });
}
