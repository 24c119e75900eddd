//! Tests one writer with several readers. Each reader gets all elements, and the writer waits for the
//! slowest reader.

use std::thread;

use trunkline_proto::FaultCode;
use trunkline_stream::directory::list;
use trunkline_stream::{
    FanOutOptions, FanOutValueWriter, FanOutWriter, Options, Policy, Reader, StreamError,
    StreamFault, Undelivered, Until, ValueReader,
};
use trunkline_types::Value;

use crate::proxy::Proxy;
use crate::rig::*;
use crate::several::{fan_out, read, spread, status_of};

const SLOWEST: Policy = Policy::Slowest;

fn nothing_left(undelivered: &[Undelivered], readers: usize) {
    assert_eq!(undelivered.len(), readers, "{undelivered:?}");
    for undelivered in undelivered {
        assert_eq!(
            (undelivered.left.elements, undelivered.lost),
            (0, 0),
            "{undelivered:?}"
        );
    }
}

/// Reads to the end of the stream, in calls of random size, and checks each element.
fn read_all(mut reader: Reader<f64>, seed: u64) -> u64 {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut next = 0;
    loop {
        match reader.read_many(random.usize(1..50), LONG) {
            Ok(read) => next = check_run(&read, next),
            Err(StreamError::Ended) => return next,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Behaviour: B-62.
#[test]
fn each_reader_gets_everything_in_order() {
    let url = unique_url("out");
    let of_readers = [options(50), options(300), options(64), options(1000)];
    let readers: Vec<_> = of_readers.map(|o| (url.as_str(), o)).into();
    let (mut writer, readers) = spread::<f64>(&url, fan_out(500, 4, SLOWEST), &readers);
    let reads = readers.into_iter().zip(1..);
    let reads: Vec<_> = reads
        .map(|(reader, seed)| thread::spawn(move || read_all(reader, seed)))
        .collect();
    let mut random = fastrand::Rng::with_seed(7);
    let (count, mut next) = (100_000, 0);
    while next < count {
        let some = random.u64(1..200).min(count - next);
        if random.bool() {
            writer
                .write_many(&elements(next..next + some), LONG)
                .unwrap();
        } else {
            let fill = |place: &mut [f64]| place.copy_from_slice(&elements(next..next + some));
            writer.write_with(some as usize, LONG, fill).unwrap();
        }
        next += some;
    }
    nothing_left(&writer.close(LONG), 4);
    for read in reads {
        assert_eq!(read.join().unwrap(), count);
    }
}

/// Behaviour: B-62.
#[test]
fn variable_size_elements_reach_each_reader() {
    let text = |index: u64| format!("{index} {}", "x".repeat((index * 31 % 700) as usize));
    let url = unique_url("out");
    let small = Options {
        bytes_max: 2000,
        ..options(100)
    };
    let readers = [(url.as_str(), small), (url.as_str(), options(40))];
    let of_writer = FanOutOptions {
        options: Options {
            bytes_max: 5000,
            ..options(30)
        },
        ..fan_out(30, 2, SLOWEST)
    };
    let (mut writer, readers) = spread::<String>(&url, of_writer, &readers);
    let reads: Vec<_> = readers
        .into_iter()
        .map(|mut reader| {
            thread::spawn(move || {
                for index in 0..3000 {
                    assert_eq!(reader.read(LONG).unwrap(), text(index));
                }
                assert!(matches!(reader.read(LONG), Err(StreamError::Ended)));
            })
        })
        .collect();
    for index in 0..3000 {
        writer.write(&text(index), LONG).unwrap();
    }
    // This element is too long for the smaller buffer, but fits the writer's own buffer.
    let long = "y".repeat(3000);
    match writer.write(&long, LONG) {
        Err(StreamError::TooLong { bytes, max }) => assert!(bytes > 3000 && max == 2000),
        other => panic!("{other:?}"),
    }
    nothing_left(&writer.close(LONG), 2);
    reads.into_iter().for_each(|read| read.join().unwrap());
}

/// Behaviour: B-62.
#[test]
fn slowest_reader_blocks_the_writer() {
    let url = unique_url("out");
    let readers = [(url.as_str(), options(5)), (url.as_str(), options(100))];
    let (mut writer, mut readers) = spread::<f64>(&url, fan_out(10, 2, SLOWEST), &readers);
    let (mut fast, mut slow) = (readers.remove(1), readers.remove(0));
    // 5 in the reader's buffer, 10 in the writer's.
    writer.write_many(&elements(0..10), LONG).unwrap();
    until_filled(&slow, 5);
    writer.write_many(&elements(10..15), LONG).unwrap();
    timed_out(writer.write(&-1.0, SHORT));
    timed_out(run(writer.write_many_async(&[-1.0], SHORT)));
    // The fast reader has everything.
    assert_eq!(check_run(&fast.read_many(15, LONG).unwrap(), 0), 15);
    writer.flush(Until::Sent, NONE).unwrap();
    timed_out(writer.flush(Until::Available, SHORT));
    let waiting = [&slow, &fast].map(|reader| status_of(&writer, reader).waiting);
    assert_eq!(waiting, [10, 0]);
    assert_eq!(
        (writer.properties().in_buffer, writer.properties().total),
        (10, 15)
    );
    // Reading makes room.
    let writes = thread::spawn(move || {
        writer.write_many(&elements(15..18), LONG).unwrap();
        writer
    });
    assert_eq!(check_run(&slow.read_many(5, LONG).unwrap(), 0), 5);
    let mut writer = writes.join().unwrap();
    let reads = thread::spawn(move || {
        for next in 5..18 {
            assert_eq!(slow.read(LONG).unwrap(), element(next));
        }
        slow
    });
    writer.flush(Until::Available, LONG).unwrap();
    assert_eq!(check_run(&fast.read_many(3, LONG).unwrap(), 15), 18);
    writer.flush(Until::Read, LONG).unwrap();
    drop(reads.join().unwrap());
    assert!(matches!(
        writer.flush(Until::Durable, LONG),
        Err(StreamError::NoJournal)
    ));
    nothing_left(&writer.close(LONG), 1);
    assert!(matches!(fast.read(LONG), Err(StreamError::Ended)));
}

/// Behaviour: B-62.
#[test]
fn cut_connection_of_one_reader_does_not_affect_the_others() {
    let address = address();
    let url = url(address, "out");
    let proxy = Proxy::to(address);
    let by_proxy = crate::rig::url(proxy.address(), "out");
    let readers = [
        (by_proxy.as_str(), options(100)),
        (url.as_str(), options(100)),
    ];
    let (mut writer, readers) = spread::<f64>(&url, fan_out(1000, 2, SLOWEST), &readers);
    let (count, cuts) = (60_000, 30);
    let reads: Vec<_> = readers
        .into_iter()
        .zip([1, 2])
        .map(|(reader, seed)| {
            let monitor = reader.monitor();
            let read = thread::spawn(move || read_all(reader, seed));
            (monitor, read)
        })
        .collect();
    let writes = thread::spawn(move || {
        let mut random = fastrand::Rng::with_seed(3);
        let mut next = 0;
        while next < count {
            let some = random.u64(1..100).min(count - next);
            writer
                .write_many(&elements(next..next + some), LONG)
                .unwrap();
            next += some;
        }
        writer.close(LONG)
    });
    let mut random = fastrand::Rng::with_seed(4);
    for _ in 0..cuts {
        let before = proxy.with_state(|state| (state.cuts(), state.connections));
        proxy.cut_after(random.u64(1..30_000));
        until("a cut", || {
            proxy.with_state(|state| state.cuts() > before.0) || writes.is_finished()
        });
    }
    nothing_left(&writes.join().unwrap(), 2);
    let disconnections = reads.into_iter().map(|(monitor, read)| {
        assert_eq!(read.join().unwrap(), count);
        monitor.properties().disconnections
    });
    let disconnections: Vec<u64> = disconnections.collect();
    assert!(disconnections[0] > 3, "{disconnections:?}");
    assert!(disconnections[1] <= 1, "{disconnections:?}");
}

/// Behaviour: B-62.
#[test]
fn later_reader_begins_with_the_next_written_element() {
    for varies in [false, true] {
        let url = unique_url("out");
        let data_type = match varies {
            true => trunkline_types::DataType::String,
            false => trunkline_types::DataType::U64,
        };
        let value = |index: u64| match varies {
            true => Value::String(
                format!("{index:>width$}", width = (index % 40) as usize)
                    .as_str()
                    .into(),
            ),
            false => Value::U64(index),
        };
        let values = |range: std::ops::Range<u64>| range.map(value).collect::<Vec<_>>();
        let create = |peer: &str| {
            let options = naming(peer, options(100));
            let data_type = data_type.clone();
            thread::spawn(move || {
                ValueReader::create(&unique_url("reader"), &data_type, options).unwrap()
            })
        };
        let first = create(&url);
        let mut writer =
            FanOutValueWriter::create(&url, &data_type, fan_out(100, 1, SLOWEST)).unwrap();
        let mut first = first.join().unwrap();
        writer.write_many(&values(0..70), LONG).unwrap();
        let mut second = create(&url).join().unwrap();
        until("the second", || writer.readers().len() == 2);
        assert_eq!(writer.readers()[0].member.number, 1);
        writer.write_many(&values(70..90), LONG).unwrap();
        assert_eq!(first.read_many(90, LONG).unwrap(), values(0..90));
        assert_eq!(second.read_many(20, LONG).unwrap(), values(70..90));
        // Once all readers have left, written elements are kept for the next reader.
        first.close().unwrap();
        second.close().unwrap();
        until("the departure of all readers", || {
            writer.readers().is_empty()
        });
        writer.write_many(&values(90..120), LONG).unwrap();
        writer.write_many(&values(120..190), LONG).unwrap();
        assert!(matches!(
            writer.write_many(&values(190..191), SHORT),
            Err(StreamError::Timeout { .. })
        ));
        let mut third = create(&url).join().unwrap();
        let mut fourth = create(&url).join().unwrap();
        assert_eq!(third.read_many(100, LONG).unwrap(), values(90..190));
        writer.write_many(&values(190..200), LONG).unwrap();
        assert_eq!(third.read_many(10, LONG).unwrap(), values(190..200));
        assert_eq!(fourth.read_many(10, LONG).unwrap(), values(190..200));
        nothing_left(&writer.close(LONG), 2);
    }
}

/// Behaviour: B-62.
#[test]
fn readers_above_the_limit_are_refused_until_one_leaves() {
    let url = unique_url("out");
    let of_writer = FanOutOptions {
        readers_max: 2,
        ..fan_out(100, 2, SLOWEST)
    };
    let readers = [(url.as_str(), options(100)), (url.as_str(), options(100))];
    let (mut writer, mut readers) = spread::<f64>(&url, of_writer, &readers);
    let impatient = Options {
        timeout: Some(std::time::Duration::from_millis(300)),
        ..naming(&url, options(100))
    };
    match Reader::<f64>::create(&unique_url("third"), impatient) {
        Err(StreamError::NoPeer { last, .. }) => {
            let message = last.unwrap().to_string();
            assert!(
                message.contains("already has the maximum number of readers, 2"),
                "{message}"
            );
        }
        other => panic!("{other:?}"),
    }
    // A reader that waits longer replaces the first reader once that has left.
    let third = read::<f64>(&url, options(100));
    readers.remove(0).close().unwrap();
    let mut third = third.join().unwrap();
    until("the third", || {
        writer.readers().iter().any(|r| r.member.number == 3)
    });
    writer.write_many(&elements(0..10), LONG).unwrap();
    assert_eq!(check_run(&third.read_many(10, LONG).unwrap(), 0), 10);
    nothing_left(&writer.close(LONG), 2);
}

/// Behaviour: B-62.
#[test]
fn a_reader_of_another_type_is_refused_and_the_others_are_not() {
    let url = unique_url("out");
    let of_others = naming(&url, options(100));
    let wrong = thread::spawn(move || Reader::<u32>::create(&unique_url("wrong"), of_others));
    let right = {
        let url = url.clone();
        thread::spawn(move || {
            let refused = wrong.join().unwrap();
            (
                refused.err().unwrap(),
                read::<f64>(&url, options(10)).join().unwrap(),
            )
        })
    };
    let mut writer = FanOutWriter::<f64>::create(&url, fan_out(10, 1, SLOWEST)).unwrap();
    let (refused, mut reader) = right.join().unwrap();
    match refused {
        StreamError::Fault(StreamFault::Refused { code, .. }) => {
            assert_eq!(code, FaultCode::StreamType);
        }
        other => panic!("{other:?}"),
    }
    writer.write(&1.5, LONG).unwrap();
    assert_eq!(reader.read(LONG).unwrap(), 1.5);
    // The readers dial, so the writer must not name a peer.
    let dials = FanOutOptions {
        options: naming("tl://localhost/reader", options(10)),
        ..FanOutOptions::default()
    };
    let refused = FanOutWriter::<f64>::create(&unique_url("out"), dials);
    assert!(matches!(refused, Err(StreamError::MultiplePeers)));
}

/// Behaviour: B-62.
#[test]
fn tasks_write_to_several_readers() {
    let url = unique_url("out");
    let readers = [
        read::<f64>(&url, options(50)),
        read::<f64>(&url, options(50)),
    ];
    run(async {
        let create = FanOutWriter::<f64>::create_async(&url, fan_out(20, 2, SLOWEST));
        let mut writer = create.await.unwrap();
        let reads = readers.map(|reader| reader.join().unwrap());
        let reads = reads.map(|reader| thread::spawn(move || read_all(reader, 5)));
        for next in 0..200 {
            let run = elements(next * 10..next * 10 + 10);
            writer.write_many_async(&run, LONG).await.unwrap();
        }
        writer.flush_async(Until::Available, LONG).await.unwrap();
        nothing_left(&writer.close_async(LONG).await, 2);
        for read in reads {
            assert_eq!(read.join().unwrap(), 2000);
        }
    });
}

/// Behaviour: B-62.
#[test]
fn an_endpoint_with_several_peers_is_listed_as_one() {
    let address = address();
    let url = url(address, "out");
    let host = address.ip().to_string();
    let listed = || {
        let found = list(&host, address.port(), None, None, None, TEST_TIMEOUT).unwrap();
        let [one] = found.as_slice() else {
            panic!("{found:?}");
        };
        one.clone()
    };
    let readers = [(url.as_str(), options(5)), (url.as_str(), options(9))];
    let (mut writer, mut readers) = spread::<f64>(&url, fan_out(20, 2, SLOWEST), &readers);
    writer.write_many(&elements(0..12), LONG).unwrap();
    until("the elements in transit", || listed().in_buffer == 7);
    let status = listed();
    assert_eq!((status.is_writer, status.is_connected), (Some(true), true));
    assert_eq!((status.total, status.capacity), (12, 20));
    assert_eq!(
        (status.peer.as_str(), status.transport.as_str()),
        ("2 readers", "TCP")
    );
    readers.remove(1).close().unwrap();
    until("the departure of a reader", || {
        listed().peer == readers[0].properties().url
    });
    drop(readers);
    until("the departure of all readers", || {
        listed().peer == "0 readers"
    });
    assert!(!listed().is_connected);
    assert_eq!(writer.abort(), []);
}
