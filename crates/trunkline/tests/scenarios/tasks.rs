//! The same verbs for tasks: wakers on the same connection.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;

use trunkline::types::{Contract, Position, Value};
use trunkline::{
    Event, OpenOptions, ReadingBuffer, SubscribeOptions, WatchEvent, Write, WriteOutcome,
};

use crate::place::{Place, TIMEOUT, block_on};

pub fn a_task_has_the_verbs_of_a_thread(place: &Place) {
    let client = place.client.clone().into_async();
    block_on(async {
        let session = client.wait_connected(TIMEOUT).await.unwrap();
        assert!(client.state().is_connected());
        let names = ["all/f64", "all/nothing"];
        let opened = client.open(&names, OpenOptions::default(), TIMEOUT).await;
        let [Ok(level), Err(_)] = &opened.unwrap()[..] else {
            panic!("one name is known and one is not");
        };
        let level = level.variable;
        let options = SubscribeOptions::default();
        let updates = client.subscribe(&["all/f64"], Contract::ALL, options);
        let updates = updates.unwrap();
        let first = loop {
            if let Event::Reading { reading, .. } = updates.next().await.unwrap() {
                break reading.position;
            }
        };
        let write = Write::new(level, Value::F64(7.0));
        let outcomes = client.write([write], TIMEOUT).await.unwrap();
        let written = Position {
            epoch: session.epoch,
            sequence: first.sequence + 1,
        };
        assert_eq!(outcomes, [WriteOutcome::Applied(written)]);
        let Some(Event::Reading { reading, .. }) = updates.next().await else {
            panic!("its own update was expected");
        };
        assert_eq!((reading.position, reading.own), (written, true));
        let read = client.read(&[level], TIMEOUT).await.unwrap();
        assert_eq!(read[0].as_ref().unwrap().sample.value, Value::F64(7.0));
        let mut buffer = ReadingBuffer::new();
        client
            .read_into(&[level], &mut buffer, TIMEOUT)
            .await
            .unwrap();
        assert_eq!(buffer.values::<f64>().collect::<Vec<_>>(), [Some(7.0)]);
        let found = client.find("all/f*", None, TIMEOUT).await.unwrap();
        assert!(found.iter().any(|found| found.name == "all/f64"));
        let info = client.info(&[level], TIMEOUT).await.unwrap();
        assert_eq!(info[0].as_ref().unwrap().name, "all/f64");
        assert!(!client.why("all/f64", TIMEOUT).await.unwrap().is_empty());
        let engine = client.engine_info(TIMEOUT).await.unwrap();
        assert!(engine.variables > 0);
        let again = Write::new(level, Value::F64(8.0));
        client.write_untracked([again], TIMEOUT).unwrap();
        let counts = client.flush(TIMEOUT).await.unwrap();
        assert_eq!((counts.applied, counts.in_flight), (2, 0));
        assert_eq!(client.throughput_mode(), place.client.throughput_mode());
        let group = [Write::new(level, Value::F64(9.0))];
        let group = client.try_write_group(group, TIMEOUT).await.unwrap();
        assert!(matches!(group.outcomes[..], [WriteOutcome::Applied(_)]));
        while updates.try_next().is_some() {}
        let watch = client.watch("all/f64").unwrap();
        let appeared = watch.next().await;
        assert!(matches!(appeared, Some(WatchEvent::Appeared { .. })));
        client.close_variables(&[level], TIMEOUT).await.unwrap();
    });
    client.close();
    assert!(block_on(client.wait_connected(TIMEOUT)).is_err());
}

/// Tasks of several threads read and write at the same time; each gets its own answers.
pub fn many_tasks_wait_on_one_connection(place: &Place) {
    let client = place.client.clone().into_async();
    let level = place.variable("all/f64");
    let task = async |n: u32| {
        for i in 0..100 {
            let value = Value::F64(f64::from(n * 100 + i));
            let outcomes = client.write([Write::new(level, value)], TIMEOUT).await;
            assert!(matches!(outcomes.unwrap()[..], [WriteOutcome::Applied(_)]));
            let read = client.read(&[level], TIMEOUT).await.unwrap();
            assert!(read[0].is_ok());
        }
    };
    thread::scope(|scope| {
        for n in 0..4 {
            let task = &task;
            scope.spawn(move || block_on(task(n)));
        }
        // A thread drives the connection at the same time.
        for _ in 0..100 {
            place.read(level);
        }
    });
    let counts = client.write_counts();
    assert_eq!((counts.issued, counts.applied), (400, 400), "{counts:?}");
}

/// Its answer is discarded on arrival, and no other call gets it.
pub fn a_call_that_is_dropped_is_forgotten(place: &Place) {
    let client = place.client.clone().into_async();
    let level = [place.variable("all/f64")];
    for _ in 0..1000 {
        let call = client.read(&level, TIMEOUT);
        let mut context = Context::from_waker(Waker::noop());
        // If the answer arrived before the first poll, there is no call to drop.
        let _: Poll<_> = pin!(call).poll(&mut context);
    }
    let read = block_on(client.read(&level, TIMEOUT)).unwrap();
    assert!(read[0].is_ok());
}
