//! Tests readers that are too slow for a writer that does not wait. Each loss is reported with its
//! exact size and position.

use std::thread;

use trunkline_proto::FrameKind;
use trunkline_stream::{
    Element, FanOutOptions, JournalOptions, Options, Policy, Reader, StreamError, StreamFault,
};

use crate::proxy::Proxy;
use crate::rig::*;
use crate::several::{fan_out, read, spread, status_of};

/// The results of a reader. `next` is the index of the next element, computed from reads and reported
/// losses.
struct ReadResults {
    next: u64,
    read: u64,
    lost: u64,
    losses: u64,
}

/// Reads to the end of the stream, in calls of random size, and checks each element.
fn read_all<T>(
    reader: &mut Reader<T>,
    to_element: fn(u64) -> T,
    pause: bool,
    seed: u64,
) -> ReadResults
where
    T: Element + PartialEq + std::fmt::Debug,
{
    let mut random = fastrand::Rng::with_seed(seed);
    let mut results = ReadResults {
        next: 0,
        read: 0,
        lost: 0,
        losses: 0,
    };
    loop {
        let read = match random.u8(..3) {
            0 => reader.read(LONG).map(|one| vec![one]),
            1 => reader.read_available(),
            _ => reader.read_many(random.usize(1..=20), LONG),
        };
        match read {
            Ok(read) => {
                for element in &read {
                    assert_eq!(
                        *element,
                        to_element(results.next),
                        "element {}",
                        results.next
                    );
                    results.next += 1;
                }
                results.read += read.len() as u64;
            }
            Err(StreamError::Lost { elements }) => {
                results.next += elements;
                results.lost += elements;
                results.losses += 1;
            }
            Err(StreamError::Ended) => return results,
            Err(error) => panic!("{error}"),
        }
        if pause && random.u8(..) < 20 {
            thread::yield_now();
        }
    }
}

/// Behaviour: B-62.
#[test]
fn read_stops_at_a_loss_and_the_next_one_reports_it_once() {
    let url = unique_url("out");
    let readers = [(url.as_str(), options(5)), (url.as_str(), options(100))];
    let quota = Policy::Quota(4);
    let (mut writer, mut readers) = spread::<f64>(&url, fan_out(100, 2, quota), &readers);
    let (mut fast, mut slow) = (readers.remove(1), readers.remove(0));
    writer.write_many(&elements(0..5), LONG).unwrap();
    until_filled(&slow, 5);
    // No more elements fit, and 4 of the next elements are kept.
    writer.write_many(&elements(5..50), LONG).unwrap();
    until_filled(&fast, 50);
    until("the quota", || status_of(&writer, &slow).waiting == 4);
    assert_eq!(status_of(&writer, &slow).lost, 41);
    until("the loss report", || slow.lost_total() == 41);
    assert_eq!(check_run(&slow.read_many(3, LONG).unwrap(), 0), 3);
    assert_eq!(slow.available(), 2);
    let region = slow.acquire(5, LONG).unwrap();
    assert_eq!(check_run(&region, 3), 5, "those before it");
    drop(region);
    assert_eq!(slow.available(), 0);
    match slow.read_many(2, LONG) {
        Err(StreamError::Lost { elements }) => assert_eq!(elements, 41),
        other => panic!("{other:?}"),
    }
    // The loss is reported once; the elements after it follow.
    assert_eq!(check_run(&slow.read_many(2, LONG).unwrap(), 46), 48);
    assert_eq!(slow.read(LONG).unwrap(), element(48));
    let mut one = [0.0];
    assert_eq!(
        (slow.read_into(&mut one, LONG).unwrap(), one),
        (1, [element(49)])
    );
    timed_out(slow.read(SHORT));
    // The other reader has lost nothing.
    assert_eq!(check_run(&fast.read_many(50, LONG).unwrap(), 0), 50);
    assert_eq!((fast.lost_total(), slow.lost_total()), (0, 41));
    let undelivered = writer.close(LONG);
    let mut losses: Vec<u64> = undelivered.iter().map(|l| l.lost).collect();
    losses.sort_unstable();
    assert_eq!(losses, [0, 41]);
}

/// Behaviour: B-62.
#[test]
fn writer_with_a_quota_never_waits_and_losses_are_reported() {
    fn number(index: u64) -> u64 {
        index
    }
    fn text(index: u64) -> String {
        format!("{index} {}", "x".repeat((index * 31 % 300) as usize))
    }
    fn check<T: Element + PartialEq + std::fmt::Debug>(to_element: fn(u64) -> T) {
        let address = address();
        let url = url(address, "out");
        let proxy = Proxy::to(address);
        let by_proxy = crate::rig::url(proxy.address(), "out");
        let of_writer = FanOutOptions {
            options: Options {
                bytes_max: 40_000,
                ..options(300)
            },
            ..fan_out(300, 3, Policy::Quota(100))
        };
        let small = Options {
            bytes_max: 4000,
            ..options(20)
        };
        let readers = [
            (url.as_str(), small.clone()),
            (by_proxy.as_str(), small),
            (url.as_str(), options(10_000)),
        ];
        let (mut writer, readers) = spread::<T>(&url, of_writer, &readers);
        let reads: Vec<_> = readers
            .into_iter()
            .zip(1..)
            .map(|(mut reader, seed)| {
                thread::spawn(move || {
                    let results = read_all(&mut reader, to_element, seed < 3, seed);
                    assert_eq!(results.lost, reader.lost_total());
                    results
                })
            })
            .collect();
        let count = 30_000;
        let mut random = fastrand::Rng::with_seed(9);
        let mut next = 0;
        while next < count {
            let some = random.u64(1..40).min(count - next);
            let run: Vec<T> = (next..next + some).map(to_element).collect();
            // The writer never waits.
            writer.write_many(&run, NONE).unwrap();
            next += some;
            if random.u16(..) < 300 {
                proxy.cut_after(random.u64(1..5000));
            }
        }
        let undelivered = writer.close(LONG);
        assert_eq!(undelivered.len(), 3);
        let results: Vec<ReadResults> =
            reads.into_iter().map(|read| read.join().unwrap()).collect();
        for one in &results {
            assert_eq!((one.next, one.read + one.lost), (count, count));
        }
        let mut at_writer: Vec<u64> = undelivered.iter().map(|l| l.lost).collect();
        let mut at_readers: Vec<u64> = results.iter().map(|s| s.lost).collect();
        at_writer.sort_unstable();
        at_readers.sort_unstable();
        assert_eq!(at_writer, at_readers);
        assert!(results[1].losses > 0, "one that was cut has lost something");
    }
    check(number);
    check(text);
}

/// Behaviour: B-62.
#[test]
fn reader_finds_the_newest_elements_after_an_absence() {
    let address = address();
    let url = url(address, "out");
    let proxy = Proxy::to(address);
    let by_proxy = crate::rig::url(proxy.address(), "out");
    let readers = [(by_proxy.as_str(), options(100))];
    let (mut writer, mut readers) =
        spread::<f64>(&url, fan_out(50, 1, Policy::Quota(20)), &readers);
    let reader = &mut readers[0];
    for outage in 0..3 {
        let begin = outage * 75;
        writer
            .write_many(&elements(begin..begin + 5), LONG)
            .unwrap();
        assert_eq!(
            check_run(&reader.read_many(5, LONG).unwrap(), begin),
            begin + 5
        );
        until("its acknowledgement", || {
            status_of(&writer, reader).waiting == 0
        });
        proxy.down();
        until("the cut", || !writer.readers()[0].is_connected);
        // More elements than the buffer or the quota holds.
        for next in begin + 5..begin + 75 {
            writer.write(&element(next), NONE).unwrap();
        }
        assert_eq!(
            writer.readers()[0].waiting.min(50),
            writer.readers()[0].waiting
        );
        proxy.up();
        match reader.read_many(30, LONG) {
            Err(StreamError::Lost { elements }) => assert_eq!(elements, 50),
            other => panic!("{other:?}"),
        }
        let read = reader.read_many(20, LONG).unwrap();
        assert_eq!(check_run(&read, begin + 55), begin + 75);
        assert_eq!(reader.lost_total(), (outage + 1) * 50);
    }
    // Without readers, the newest elements are kept, and the loss of the others is not reported to
    // any reader.
    readers.remove(0).close().unwrap();
    until("nobody", || writer.readers().is_empty());
    for next in 225..400 {
        writer.write(&element(next), NONE).unwrap();
    }
    let mut next = read::<f64>(&url, options(100)).join().unwrap();
    let some = next.read_many(1, LONG).unwrap()[0];
    assert!((350.0..=380.0).contains(&some), "{some}");
    let rest = 400 - (some as u64 + 1);
    check_run(
        &next.read_many(rest as usize, LONG).unwrap(),
        some as u64 + 1,
    );
    assert_eq!(next.lost_total(), 0);
    assert_eq!(writer.close(LONG)[0].left.elements, 0);
}

/// The network stalls while a frame is partially sent, and the ring releases the frame's bytes. The
/// frame is completed unaltered.
///
/// Behaviour: B-62.
#[test]
fn partially_sent_element_is_completed_after_overwriting() {
    let address = address();
    let url = url(address, "out");
    let proxy = Proxy::to(address);
    let by_proxy = crate::rig::url(proxy.address(), "out");
    // The buffer holds more than the network's buffers.
    let readers = [(by_proxy.as_str(), options(4_000_000))];
    let quota = Policy::Quota(1000);
    let (mut writer, mut readers) = spread::<f64>(&url, fan_out(200_000, 1, quota), &readers);
    let reader = &mut readers[0];
    writer.write(&element(0), LONG).unwrap();
    assert_eq!(reader.read(LONG).unwrap(), element(0));
    proxy.hold(&[FrameKind::StreamData.number()]);
    let mut written = 1;
    while status_of(&writer, reader).lost == 0 {
        let run = elements(written..written + 10_000);
        writer.write_many(&run, NONE).unwrap();
        written += 10_000;
    }
    // All bytes of the frame's elements are overwritten.
    for _ in 0..25 {
        let run = elements(written..written + 10_000);
        writer.write_many(&run, NONE).unwrap();
        written += 10_000;
    }
    proxy.hold(&[]);
    let closes = thread::spawn(move || writer.close(LONG));
    let (mut next, mut lost) = (1, 0);
    loop {
        let count = reader.available().max(1);
        match reader.read_many(count, LONG) {
            Ok(read) => next = check_run(&read, next),
            Err(StreamError::Lost { elements }) => {
                next += elements;
                lost += elements;
            }
            Err(StreamError::Ended) => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!((next, reader.lost_total()), (written, lost));
    assert!(lost > 0);
    assert_eq!(closes.join().unwrap()[0].lost, lost);
}

/// Behaviour: B-62, B-60.
#[test]
fn a_reader_with_a_journal_is_refused_by_a_writer_that_drops() {
    let folder = tempfile::tempdir().unwrap();
    let url = unique_url("out");
    let with_journal = Options {
        journal: Some(JournalOptions::at(folder.path())),
        ..naming(&url, options(10))
    };
    let refused = thread::spawn(move || Reader::<f64>::create(&unique_url("kept"), with_journal));
    let of_writer = fan_out(10, 0, Policy::Quota(5));
    let writer = trunkline_stream::FanOutWriter::<f64>::create(&url, of_writer).unwrap();
    match refused.join().unwrap() {
        Err(StreamError::Fault(StreamFault::Refused { sentence, .. })) => {
            assert!(
                sentence.contains("cannot handle dropped elements"),
                "{sentence}"
            );
        }
        other => panic!("{other:?}"),
    }
    assert!(writer.readers().is_empty());
}
