//! Tests one reader with several writers.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use trunkline_proto::stream::StreamFault;
use trunkline_stream::{
    FanInOptions, FanInReader, FanInValueReader, Options, Run, RunEnd, StreamError, Until, Writer,
};
use trunkline_types::{DataType, Value};

use crate::proxy::Proxy;
use crate::rig::*;
use crate::several::{collect, fan_in};

/// The element that a writer writes at an index.
fn element_of(writer: u64, index: u64) -> f64 {
    (writer * 1_000_000 + index) as f64
}

fn run_of(writer: u64, range: std::ops::Range<u64>) -> Vec<f64> {
    range.map(|index| element_of(writer, index)).collect()
}

/// Behaviour: B-62.
#[test]
fn each_run_has_elements_of_one_writer_in_order() {
    let url = unique_url("in");
    let writers = [10, 300, 64, 1].map(options).into();
    let (mut reader, writers) = collect::<f64>(&url, fan_in(100, 4), writers);
    let names: Vec<_> = writers.iter().map(|w| w.properties().url).collect();
    let count = 20_000;
    let writes = writers.into_iter().zip(1..).map(|(mut writer, number)| {
        thread::spawn(move || {
            let mut random = fastrand::Rng::with_seed(number);
            let mut next = 0;
            while next < count {
                let most = writer.properties().capacity.min(50);
                let some = random.u64(1..=most).min(count - next);
                writer
                    .write_many(&run_of(number, next..next + some), LONG)
                    .unwrap();
                next += some;
            }
            writer.close(LONG)
        })
    });
    let writes: Vec<_> = writes.collect();
    let mut next: BTreeMap<u64, u64> = BTreeMap::new();
    let mut ended = Vec::new();
    let mut random = fastrand::Rng::with_seed(11);
    while ended.len() < 4 {
        match reader.read_run(random.usize(1..80), LONG).unwrap() {
            Run::Elements { writer, elements } => {
                assert!(!ended.contains(&writer.number) && !elements.is_empty());
                assert_eq!(writer.url, names[writer.number as usize - 1]);
                assert_eq!(writer.program, "tests");
                let next = next.entry(writer.number).or_default();
                for element in elements {
                    assert_eq!(element, element_of(writer.number, *next));
                    *next += 1;
                }
            }
            Run::Ended { writer, end } => {
                assert_eq!((end, next[&writer.number]), (RunEnd::Closed, count));
                ended.push(writer.number);
            }
        }
    }
    for write in writes {
        assert_eq!(write.join().unwrap().elements, 0);
    }
    timed_out(reader.read_run(10, SHORT));
    assert!(reader.writers().is_empty());
    assert_eq!(reader.properties().total, 4 * count);
}

/// Behaviour: B-62.
#[test]
fn writers_take_turns_and_do_not_block_each_other() {
    let url = unique_url("in");
    let (mut reader, mut writers) = collect::<f64>(
        &url,
        fan_in(50, 3),
        vec![options(50), options(50), options(50)],
    );
    // The first writer fills its buffer at the reader and waits; the others have separate buffers.
    writers[0].write_many(&run_of(1, 0..50), LONG).unwrap();
    writers[0].flush(Until::Available, LONG).unwrap();
    writers[0].write_many(&run_of(1, 50..100), LONG).unwrap();
    timed_out(writers[0].write(&0.0, SHORT));
    for (writer, number) in writers[1..].iter_mut().zip(2..) {
        writer.write_many(&run_of(number, 0..20), LONG).unwrap();
        writer.flush(Until::Available, LONG).unwrap();
    }
    let waiting: Vec<u64> = reader.writers().iter().map(|w| w.waiting).collect();
    assert_eq!(waiting, [50, 20, 20]);
    assert_eq!(reader.properties().in_buffer, 90);
    let mut turns = Vec::new();
    for _ in 0..6 {
        match reader.read_run(10, LONG).unwrap() {
            Run::Elements { writer, elements } => {
                assert_eq!(elements.len(), 10);
                turns.push(writer.number);
            }
            ended => panic!("{ended:?}"),
        }
    }
    assert_eq!(turns, [1, 2, 3, 1, 2, 3]);
    // Reading has made room for the first writer.
    writers[0].write(&0.0, LONG).unwrap();
    for writer in writers {
        writer.abort();
    }
}

/// Behaviour: B-62.
#[test]
fn end_of_a_writer_is_reported_after_its_last_element() {
    let address = address();
    let url = url(address, "in");
    let proxy = Proxy::to(address);
    let of_reader = FanInOptions {
        options: Options {
            gone_after: Some(Duration::from_millis(200)),
            ..options(10)
        },
        ..fan_in(10, 3)
    };
    let create = {
        let url = url.clone();
        thread::spawn(move || FanInReader::<f64>::create(&url, of_reader).unwrap())
    };
    let by_proxy = crate::rig::url(proxy.address(), "in");
    let writer =
        |peer: &str| Writer::<f64>::create(&unique_url("writer"), naming(peer, options(20)));
    let mut writers = [writer(&url), writer(&url), writer(&by_proxy)].map(Result::unwrap);
    let mut reader = create.join().unwrap();
    for (writer, number) in writers.iter_mut().zip(1..) {
        writer.write_many(&run_of(number, 0..10), LONG).unwrap();
        writer.flush(Until::Available, LONG).unwrap();
    }
    let [closed, mut aborted, gone] = writers;
    assert_eq!(closed.close(LONG).elements, 0);
    aborted.write_many(&run_of(2, 10..15), LONG).unwrap();
    assert_eq!(aborted.abort().elements, 5);
    proxy.down();
    let mut read = BTreeMap::new();
    let mut ends = BTreeMap::new();
    while ends.len() < 3 {
        match reader.read_run(3, LONG).unwrap() {
            Run::Elements { writer, elements } => {
                assert!(!ends.contains_key(&writer.number));
                *read.entry(writer.number).or_insert(0) += elements.len();
            }
            Run::Ended { writer, end } => {
                assert_eq!(read[&writer.number], 10, "elements before the end");
                ends.insert(writer.number, end);
            }
        }
    }
    assert_eq!(ends[&1], RunEnd::Closed);
    let aborted = RunEnd::Aborted {
        missing: 40,
        reason: "the writer's program aborted the stream".to_owned(),
    };
    assert_eq!(ends[&2], aborted);
    let is_gone = matches!(&ends[&3], RunEnd::Fault(StreamFault::PeerGone { .. }));
    assert!(is_gone, "{ends:?}");
    // The third writer reconnects too late and gets an error.
    proxy.up();
    let mut gone = gone;
    match gone.flush(Until::Read, LONG) {
        Ok(()) => {
            let fault = || gone.properties().fault;
            until("the fault", || fault().is_some());
        }
        Err(error) => assert!(matches!(error, StreamError::Fault(_)), "{error}"),
    }
}

/// Behaviour: B-62, B-61.
#[test]
fn end_of_a_writer_is_reported_while_others_have_elements() {
    let url = unique_url("in");
    let (mut reader, mut writers) = collect::<f64>(
        &url,
        fan_in(50, 3),
        vec![options(50), options(50), options(50)],
    );
    let closes = writers.remove(1);
    for (writer, number) in writers.iter_mut().zip([1, 3]) {
        writer.write_many(&run_of(number, 0..50), LONG).unwrap();
        writer.flush(Until::Available, LONG).unwrap();
    }
    assert_eq!(closes.close(LONG).elements, 0);
    // The end of this writer is reported after at most one read from each other writer.
    let ended = (0..3).any(|_| match reader.read_run(1, LONG).unwrap() {
        Run::Elements { .. } => false,
        Run::Ended { writer, end } => {
            assert_eq!((writer.number, end), (2, RunEnd::Closed));
            true
        }
    });
    assert!(ended);
    assert!(reader.properties().in_buffer >= 98);
    for writer in writers {
        writer.abort();
    }
}

/// Behaviour: B-62.
#[test]
fn cut_connection_of_one_writer_loses_and_duplicates_nothing() {
    let address = address();
    let url = url(address, "in");
    let proxy = Proxy::to(address);
    let create = {
        let url = url.clone();
        thread::spawn(move || FanInReader::<f64>::create(&url, fan_in(100, 2)).unwrap())
    };
    let by_proxy = crate::rig::url(proxy.address(), "in");
    let writers = [&by_proxy, &url].map(|peer| {
        Writer::<f64>::create(&unique_url("writer"), naming(peer, options(200))).unwrap()
    });
    let mut reader = create.join().unwrap();
    let count = 30_000;
    let writes = writers.into_iter().zip(1..).map(|(mut writer, number)| {
        thread::spawn(move || {
            for next in 0..count / 50 {
                let run = run_of(number, next * 50..next * 50 + 50);
                writer.write_many(&run, LONG).unwrap();
            }
            (writer.properties(), writer.close(LONG))
        })
    });
    let writes: Vec<_> = writes.collect();
    let mut random = fastrand::Rng::with_seed(5);
    let mut next = [0, 0];
    let mut ended = 0;
    // Cuts the connection within a frame, about every 2000 elements.
    let mut cut_at = 2000;
    while ended < 2 {
        match reader.read_run(1000, LONG).unwrap() {
            Run::Elements { writer, elements } => {
                let next = &mut next[writer.number as usize - 1];
                for element in elements {
                    assert_eq!(element, element_of(writer.number, *next));
                    *next += 1;
                }
            }
            Run::Ended { end, .. } => {
                assert_eq!(end, RunEnd::Closed);
                ended += 1;
            }
        }
        if next[0] > cut_at {
            cut_at = next[0] + 2000;
            proxy.cut_after(random.u64(1..3000));
        }
    }
    assert_eq!(next, [count, count]);
    let ends = writes.into_iter().map(|write| {
        let (properties, left) = write.join().unwrap();
        assert_eq!(left.elements, 0);
        properties
    });
    let ends: Vec<_> = ends.collect();
    let cuts = [&ends[0], &ends[1]].map(|end| end.disconnections);
    assert!(cuts[0] > 0 && cuts[1] == 0, "{ends:?}");
}

/// Behaviour: B-62.
#[test]
fn writers_above_the_limit_are_refused() {
    let url = unique_url("in");
    let of_reader = FanInOptions {
        writers_max: 1,
        ..fan_in(10, 1)
    };
    let (mut reader, mut writers) = collect::<f64>(&url, of_reader, vec![options(10)]);
    let impatient = Options {
        timeout: Some(Duration::from_millis(200)),
        ..naming(&url, options(10))
    };
    match Writer::<f64>::create(&unique_url("other"), impatient) {
        Err(StreamError::NoPeer { last, .. }) => {
            let message = last.unwrap().to_string();
            assert!(
                message.contains("already has the maximum number of writers, 1"),
                "{message}"
            );
        }
        other => panic!("{other:?}"),
    }
    // An ended writer keeps its place until its end is reported.
    writers.remove(0).close(LONG);
    let waits = naming(&url, options(10));
    let other = thread::spawn(move || Writer::<f64>::create(&unique_url("other"), waits).unwrap());
    let ended = reader.read_run(1, LONG).unwrap();
    assert!(
        matches!(
            ended,
            Run::Ended {
                end: RunEnd::Closed,
                ..
            }
        ),
        "{ended:?}"
    );
    other.join().unwrap().write(&2.5, LONG).unwrap();
    match reader.read_run(1, LONG).unwrap() {
        Run::Elements { writer, elements } => {
            assert_eq!((writer.number, elements), (2, vec![2.5]));
        }
        ended => panic!("{ended:?}"),
    }
}

/// Behaviour: B-62.
#[test]
fn tasks_read_elements_of_any_type_from_several_writers() {
    let url = unique_url("in");
    let writes: Vec<_> = (0..3)
        .map(|_| {
            let options = naming(&url, options(10));
            thread::spawn(move || {
                let mut writer = Writer::<String>::create(&unique_url("writer"), options).unwrap();
                for next in 0..100 {
                    writer.write(&"z".repeat(next), LONG).unwrap();
                }
                assert_eq!(writer.close(LONG).elements, 0);
            })
        })
        .collect();
    run(async {
        let create = FanInValueReader::create_async(&url, &DataType::String, fan_in(7, 3));
        let mut reader = create.await.unwrap();
        let mut next = [0; 4];
        let mut ended = 0;
        while ended < 3 {
            match reader.read_run_async(20, LONG).await.unwrap() {
                Run::Elements { writer, elements } => {
                    for value in elements {
                        let next = &mut next[writer.number as usize];
                        assert_eq!(value, Value::String("z".repeat(*next).as_str().into()));
                        *next += 1;
                    }
                }
                Run::Ended { .. } => ended += 1,
            }
        }
        assert_eq!(next, [0, 100, 100, 100]);
        reader.close();
    });
    writes.into_iter().for_each(|write| write.join().unwrap());
}

/// Behaviour: B-62.
#[test]
fn closing_reader_notifies_each_writer() {
    let url = unique_url("in");
    let (reader, mut writers) = collect::<f64>(&url, fan_in(10, 2), vec![options(10), options(10)]);
    reader.close();
    for writer in &mut writers {
        until("the reader is destroyed", || {
            writer.properties().is_peer_destroyed()
        });
        assert!(writer.write(&1.0, LONG).is_err());
    }
}
