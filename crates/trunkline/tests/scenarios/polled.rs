//! The same verbs with answers that are polled, waited for or awaited.

use std::time::Duration;

use trunkline::types::{Contract, Value};
use trunkline::{Event, OpenOptions, ReadingBuffer, SubscribeOptions, Write, WriteOutcome};

use crate::place::{Place, TIMEOUT, block_on};

pub fn a_polled_call_is_asked_for_its_answer_waited_for_or_awaited(place: &Place) {
    let client = place.client.clone().into_polled();
    let up = client.wait_connected().unwrap();
    up.wait(TIMEOUT).expect("in time").unwrap();
    let opening = client.open(&["all/f64"], OpenOptions::default()).unwrap();
    let opened = opening.wait(TIMEOUT).expect("in time").unwrap();
    let level = opened[0].as_ref().unwrap().variable;

    let writing = client.write([Write::new(level, Value::F64(3.0))]).unwrap();
    let outcomes = loop {
        if let Some(outcomes) = writing.poll() {
            break outcomes.unwrap();
        }
        std::thread::yield_now();
    };
    assert!(matches!(outcomes[..], [WriteOutcome::Applied(_)]));
    assert!(writing.poll().is_none(), "an answer is taken once");

    let read = block_on(client.read(&[level]).unwrap()).unwrap();
    assert_eq!(read[0].as_ref().unwrap().sample.value, Value::F64(3.0));
    let buffer = client.read_into(&[level], ReadingBuffer::new()).unwrap();
    let buffer = buffer.wait(TIMEOUT).expect("in time").unwrap();
    assert_eq!(buffer.values::<f64>().collect::<Vec<_>>(), [Some(3.0)]);
    let flushing = client.flush().unwrap();
    let counts = flushing.wait(TIMEOUT).expect("in time").unwrap();
    assert_eq!((counts.applied, counts.in_flight), (1, 0));

    let options = SubscribeOptions::default();
    let updates = client.subscribe(&["all/f64"], Contract::Latest, options);
    let updates = updates.unwrap();
    while !matches!(updates.next(Some(TIMEOUT)), Some(Event::Reading { .. })) {}
    assert!(updates.try_next().is_none());
    let closing = client.close_variables(&[level]).unwrap();
    let closed = closing.wait(TIMEOUT).expect("in time").unwrap();
    assert_eq!(closed, [Ok(())]);

    client.close();
    if let Ok(late) = client.wait_connected() {
        let ended = late.wait(Duration::ZERO).expect("there will be no answer");
        assert!(ended.is_err());
    }
}

/// The end of a wait does not end the call.
pub fn a_polled_call_goes_on_after_a_wait_and_is_abandoned_when_dropped(place: &Place) {
    let client = place.client.clone().into_polled();
    let level = place.variable("all/f64");
    let reading = client.read(&[level]).unwrap();
    let read = loop {
        if let Some(read) = reading.wait(Duration::ZERO) {
            break read.unwrap();
        }
    };
    assert!(read[0].is_ok());
    for _ in 0..2_000 {
        // More calls than a client may have unanswered or untaken. They do not count, because they
        // were abandoned.
        drop(client.read(&[level]).unwrap());
    }
    assert!(client.flush().unwrap().wait(TIMEOUT).is_some());
}
