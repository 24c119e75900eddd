//! Tests the end of a stream: how both programs learn about it, and which elements are undelivered.

use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use trunkline_stream::{
    Closed, Element, Reader, StreamError, StreamFault, Until, ValueWriter, Writer,
};
use trunkline_types::DataType;

use crate::proxy::FrameAction;
use crate::rig::*;

#[track_caller]
fn destroyed<T: std::fmt::Debug>(result: Result<T, StreamError>) {
    assert!(
        matches!(
            result,
            Err(StreamError::Fault(StreamFault::PeerDestroyed { .. }))
        ),
        "{result:?}"
    );
}

#[track_caller]
fn ended<T: std::fmt::Debug>(result: Result<T, StreamError>) {
    assert!(matches!(result, Err(StreamError::Ended)), "{result:?}");
}

/// Closes without a timeout, in a separate thread, so that the remaining elements are delivered.
fn closes<T: Element>(writer: Writer<T>) -> Receiver<Closed> {
    let (sender, receiver) = channel();
    thread::spawn(move || sender.send(writer.close(None)));
    receiver
}

/// Waits for the close, and checks that everything was delivered.
#[track_caller]
fn closed(closes: &Receiver<Closed>) {
    let left = closes.recv_timeout(TEST_TIMEOUT).unwrap();
    assert_eq!((left.elements, left.in_doubt), (0, 0));
}

/// Behaviour: NS-40, NS-46.
#[test]
fn when_the_reader_is_destroyed_later_writes_are_errors() {
    for dials in EITHER {
        // There is room, so the writes can fail for no other reason.
        let (mut writer, reader) = pair::<f64>(dials, [100, 100]);
        writer.write_many(&elements(0..10), LONG).unwrap();
        writer.flush(Until::Available, LONG).unwrap();
        reader.close().unwrap();
        until_connected(&writer, false);
        destroyed(writer.write(&0.0, NONE));
        destroyed(writer.write_many(&[0.0; 20], None));
        destroyed(writer.write_with(1, None, |space| space.fill(0.0)));
        destroyed(run(writer.write_many_async(&[0.0], None)));
        destroyed(writer.flush(Until::Read, None));
        let properties = writer.properties();
        assert_eq!(properties.total, 10, "what failed was not written");
        assert!(properties.is_peer_destroyed() && !properties.is_connected);
    }
}

/// Behaviour: NS-46.
#[test]
fn write_in_place_fails_after_the_reader_is_destroyed() {
    let [reader_url, url] = [unique_url("reader"), unique_url("writer")];
    let (mut writer, reader) = thread::scope(|scope| {
        let reader = scope.spawn(|| Reader::<u64>::create(&reader_url, options(100)).unwrap());
        let options = naming(&reader_url, options(100));
        let writer = ValueWriter::create(&url, &DataType::U64, options).unwrap();
        (writer, reader.join().unwrap())
    });
    reader.close().unwrap();
    until("the end of the connection", || {
        !writer.properties().is_connected
    });
    let fill = |_: &mut [u8]| -> Result<usize, StreamError> { panic!("nobody reads it") };
    destroyed(writer.write_bytes_with(10, NONE, fill));
}

/// Behaviour: NS-46.
#[test]
fn waiting_write_learns_that_the_reader_is_destroyed() {
    for dials in EITHER {
        let (mut writer, reader) = pair::<f64>(dials, [4, 4]);
        writer.write_many(&elements(0..4), LONG).unwrap();
        writer.flush(Until::Available, LONG).unwrap();
        writer.write_many(&elements(4..8), LONG).unwrap();
        let thread = thread::spawn(move || {
            destroyed(writer.write(&0.0, None));
            writer
        });
        reader.close().unwrap();
        thread.join().unwrap();
    }
}

/// Behaviour: NS-40, NS-47, NS-48.
#[test]
fn remaining_elements_are_readable_after_the_writer_is_destroyed() {
    for dials in EITHER {
        let (mut writer, mut reader) = pair::<f64>(dials, [10, 10]);
        writer.write_many(&elements(0..10), LONG).unwrap();
        let left = writer.close(LONG);
        assert_eq!((left.elements, left.in_doubt), (0, 0));
        until_connected(&reader, false);
        let next = check_run(&[reader.read(LONG).unwrap()], 0);
        let next = check_run(&reader.read_many(4, LONG).unwrap(), next);
        // Only this read may return fewer elements than requested.
        let read = reader.read_many(10, LONG).unwrap();
        assert_eq!(read.len(), 5);
        assert_eq!(check_run(&read, next), 10);
        ended(reader.read_many(1, None));
        ended(reader.read(None));
        ended(reader.read_available());
        ended(reader.read_into(&mut [0.0; 3], None));
        ended(reader.acquire(1, None).map(|_| ()));
        ended(run(reader.read_many_async(1, None)));
    }
}

/// This holds for each form of reading, and for any number of elements that the read waits for.
///
/// Behaviour: NS-48.
#[test]
fn waiting_read_returns_the_remaining_elements_when_the_writer_ends() {
    type Form = fn(&mut Reader<f64>) -> Result<Vec<f64>, StreamError>;
    let forms: [Form; 4] = [
        |reader| reader.read_many(10, None),
        |reader| {
            let mut space = [0.0; 10];
            let count = reader.read_into(&mut space, None)?;
            Ok(space[..count].to_vec())
        },
        |reader| Ok(reader.acquire(10, None)?.to_vec()),
        |reader| run(reader.read_many_async(10, None)),
    ];
    for form in forms {
        for dials in EITHER {
            let (mut writer, mut reader) = pair::<f64>(dials, [10, 10]);
            let thread = thread::spawn(move || (form(&mut reader), form(&mut reader)));
            writer.write_many(&elements(0..3), LONG).unwrap();
            assert_eq!(writer.close(LONG).elements, 0);
            let (first, second) = thread.join().unwrap();
            let first = first.unwrap();
            assert_eq!(first.len(), 3);
            check_run(&first, 0);
            ended(second);
        }
    }
}

/// Behaviour: NS-47, NS-48.
#[test]
fn remaining_text_is_read_after_the_writer_is_closed() {
    let (mut writer, mut reader) = pair::<String>(Dials::Writer, [10, 10]);
    let texts = ["one", "", "three"].map(str::to_owned);
    writer.write_many(&texts, LONG).unwrap();
    assert_eq!(writer.close(LONG).elements, 0);
    assert_eq!(reader.read_many(10, LONG).unwrap(), texts);
    ended(reader.read_many(10, LONG));
}

/// Behaviour: NS-43.
#[test]
fn closing_sends_the_remaining_elements_to_a_slow_reader() {
    for dials in EITHER {
        let (mut writer, mut reader) = pair::<f64>(dials, [100, 3]);
        writer.write_many(&elements(0..100), LONG).unwrap();
        let closes = closes(writer);
        let mut next = 0;
        while next < 100 {
            next = check_run(&[reader.read(LONG).unwrap()], next);
        }
        closed(&closes);
        ended(reader.read(LONG));
    }
}

/// Dropping a writer closes it: its elements are transferred.
///
/// Behaviour: NS-40.
#[test]
fn dropped_writer_sends_its_remaining_elements() {
    let (mut writer, mut reader) = pair::<f64>(Dials::Reader, [100, 100]);
    writer.write_many(&elements(0..100), LONG).unwrap();
    drop(writer);
    check_run(&reader.read_many(100, LONG).unwrap(), 0);
    ended(reader.read(LONG));
}

/// Behaviour: NS-40, NS-46.
#[test]
fn dropped_reader_is_destroyed() {
    let (mut writer, reader) = pair::<f64>(Dials::Reader, [100, 100]);
    drop(reader);
    until_connected(&writer, false);
    destroyed(writer.write(&0.0, None));
}

/// Behaviour: NS-45.
#[test]
fn abort_sends_nothing_more_and_both_ends_know_the_amount() {
    for dials in EITHER {
        let (mut writer, mut reader) = pair::<f64>(dials, [10, 4]);
        writer.write_many(&elements(0..4), LONG).unwrap();
        writer.flush(Until::Available, LONG).unwrap();
        writer.write_many(&elements(4..11), LONG).unwrap();
        let left = writer.abort();
        assert_eq!(left.in_doubt, 0);
        // In one shared ring, everything has already arrived.
        assert_eq!(left.elements, if crate::NEAR { 0 } else { 7 });
        let mut next = 0;
        let end = loop {
            match reader.read(LONG) {
                Ok(element) => next = check_run(&[element], next),
                Err(end) => break end,
            }
        };
        assert_eq!(next, 11 - left.elements);
        let expected = left.elements * 8;
        assert!(
            matches!(&end, StreamError::Aborted { missing, .. } if *missing == expected),
            "{end}"
        );
    }
}

/// A stream that a program aborts must not look complete, even if all written elements arrived.
///
/// Behaviour: NS-45, NS-47.
#[test]
fn aborted_stream_does_not_count_as_ended_after_full_delivery() {
    for dials in EITHER {
        let (mut writer, mut reader) = pair::<f64>(dials, [10, 10]);
        writer.write_many(&elements(0..4), LONG).unwrap();
        writer.flush(Until::Available, LONG).unwrap();
        assert_eq!(writer.abort_because("the sensor was unplugged").elements, 0);
        assert_eq!(check_run(&reader.read_many(4, LONG).unwrap(), 0), 4);
        let end = reader.read(LONG).unwrap_err();
        assert!(
            matches!(&end, StreamError::Aborted { missing: 0, reason }
                if reason == "the sensor was unplugged"),
            "{end}"
        );
    }
}

/// Behaviour: NS-45, NS-47.
#[test]
fn a_writer_whose_thread_panics_is_aborted() {
    let (writer, mut reader) = pair::<f64>(EITHER[0], [10, 10]);
    let panicked = thread::spawn(move || {
        let mut writer = writer;
        writer.write_many(&elements(0..4), LONG).unwrap();
        writer.flush(Until::Available, LONG).unwrap();
        panic!("a test");
    });
    assert!(panicked.join().is_err());
    assert_eq!(check_run(&reader.read_many(4, LONG).unwrap(), 0), 4);
    let end = reader.read(LONG).unwrap_err();
    assert!(matches!(end, StreamError::Aborted { .. }), "{end}");
}

/// The way in which one of the two endpoints ends.
#[derive(Clone, Copy, Debug)]
enum EndMode {
    WriterCloses(Option<Duration>),
    WriterAborts,
    ReaderCloses,
}

/// Writes and reads random amounts, closes one end, and checks that the writer's undelivered count
/// matches what the reader lacks.
fn check_left<T: Element>(
    to_element: fn(u64) -> T,
    index: fn(&T) -> u64,
    random: &mut fastrand::Rng,
) {
    let capacities = [random.usize(1..40), random.usize(1..40)];
    let dials = EITHER[random.usize(..2)];
    let (writer, reader) = pair::<T>(dials, capacities);
    let end_mode = match random.usize(..6) {
        0 => EndMode::WriterAborts,
        1 => EndMode::ReaderCloses,
        2 => EndMode::WriterCloses(NONE),
        3 => EndMode::WriterCloses(SHORT),
        _ => EndMode::WriterCloses(LONG),
    };
    let (count, read_before) = (random.u64(..100), random.u64(..60));
    let seed = random.u64(..);
    let writes = thread::spawn(move || {
        let (mut writer, mut random) = (writer, fastrand::Rng::with_seed(seed));
        let mut written = 0;
        while written < count {
            let some = random.u64(1..=capacities[0] as u64).min(count - written);
            let run: Vec<T> = (written..written + some).map(to_element).collect();
            match writer.write_many(&run, SHORT) {
                Ok(()) => written += some,
                Err(StreamError::Timeout { .. }) => break,
                Err(StreamError::Fault(StreamFault::PeerDestroyed { .. })) => break,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(writer.properties().total, written);
        (writer, written)
    });
    let (mut reader, mut read) = (reader, 0);
    while read < read_before {
        match reader.read(Some(Duration::from_millis(50))) {
            Ok(element) => {
                assert_eq!(index(&element), read);
                read += 1;
            }
            Err(StreamError::Timeout { .. }) => break,
            Err(error) => panic!("{error}"),
        }
    }
    let drain = move |mut reader: Reader<T>, mut read: u64| {
        loop {
            match reader.read(LONG) {
                Ok(element) => {
                    assert_eq!(index(&element), read);
                    read += 1;
                }
                Err(StreamError::Ended) => break (read, true),
                Err(StreamError::Aborted { .. }) => break (read, false),
                Err(error) => panic!("{error}"),
            }
        }
    };
    match end_mode {
        EndMode::ReaderCloses => {
            let had = reader.properties().in_buffer + read;
            reader.close().unwrap();
            let (writer, written) = writes.join().unwrap();
            until_connected(&writer, false);
            let left = Writer::close(writer, LONG);
            assert_eq!(left.in_doubt, 0, "{end_mode:?}");
            // The reader may have received more elements than the test has observed, but not fewer.
            assert!(left.elements <= written - had, "{left:?} {written} {had}");
        }
        EndMode::WriterAborts => {
            let (writer, written) = writes.join().unwrap();
            let left = writer.abort();
            let (read, _) = drain(reader, read);
            assert_eq!(
                (left.elements, left.in_doubt),
                (written - read, 0),
                "{end_mode:?}"
            );
        }
        EndMode::WriterCloses(timeout) => {
            let (writer, written) = writes.join().unwrap();
            // The reader reads during the close only if the close waits for long.
            let reads = match timeout == LONG {
                true => Ok(thread::spawn(move || drain(reader, read))),
                false => Err(reader),
            };
            let left = writer.close(timeout);
            let (read, is_whole) = match reads {
                Ok(thread) => thread.join().unwrap(),
                Err(reader) => drain(reader, read),
            };
            assert_eq!(
                (left.elements, left.in_doubt),
                (written - read, 0),
                "{end_mode:?}"
            );
            assert_eq!(is_whole, left.elements == 0, "{end_mode:?} {left:?}");
        }
    }
}

/// Behaviour: NS-45, NS-47.
#[test]
fn undelivered_count_matches_what_the_reader_lacks() {
    for seed in 0..60 {
        let mut random = fastrand::Rng::with_seed(seed);
        match seed % 2 {
            0 => check_left(element, |found| *found as u64, &mut random),
            _ => check_left(
                |index| format!("{index:0width$}", width = (index % 9) as usize),
                |found| found.parse().unwrap(),
                &mut random,
            ),
        }
    }
}

/// Without a connection, it is unknown whether elements in transit have arrived. No other element is in
/// doubt.
///
/// Behaviour: NS-45.
#[test]
fn without_a_connection_only_elements_in_transit_are_in_doubt() {
    for dials in EITHER {
        let (proxy, mut writer, mut reader) = proxied::<f64>(dials, [10, 4]);
        writer.write_many(&elements(0..2), LONG).unwrap();
        writer.flush(Until::Available, LONG).unwrap();
        // Acknowledgements are lost from here on.
        proxy.hold(&[109]);
        writer.write_many(&elements(2..4), LONG).unwrap();
        until_filled(&reader, 4);
        proxy.down();
        until_connected(&writer, false);
        writer.write_many(&elements(4..10), LONG).unwrap();
        let left = writer.close(NONE);
        assert_eq!((left.elements, left.in_doubt), (8, 2));
        check_run(&reader.read_many(4, LONG).unwrap(), 0);
        timed_out(reader.read(SHORT));
    }
}

/// If an end closes while its peer is disconnected, its name and its pending work are released.
///
/// Behaviour: NS-40, NS-66.
#[test]
fn end_can_be_destroyed_while_its_peer_is_disconnected() {
    for dials in EITHER {
        let (proxy, mut writer, reader) = proxied::<f64>(dials, [10, 4]);
        proxy.down();
        until_connected(&writer, false);
        until_connected(&reader, false);
        writer.write_many(&elements(0..3), LONG).unwrap();
        reader.close().unwrap();
        let left = writer.abort();
        assert_eq!((left.elements, left.in_doubt), (3, 0));
    }
}

/// The end of a stream is sent on the next connection after a cut.
///
/// Behaviour: NS-47, NS-66.
#[test]
fn closing_continues_across_an_outage() {
    for dials in EITHER {
        let (proxy, mut writer, mut reader) = proxied::<f64>(dials, [10, 4]);
        proxy.down();
        until_connected(&writer, false);
        writer.write_many(&elements(0..10), LONG).unwrap();
        let closes = closes(writer);
        proxy.up();
        let mut next = 0;
        while next < 10 {
            next = check_run(&[reader.read(LONG).unwrap()], next);
        }
        ended(reader.read(LONG));
        closed(&closes);
    }
}

/// The end of a stream is sent again if S_END or its acknowledgement was lost.
///
/// Behaviour: NS-47, NS-66.
#[test]
fn end_lost_in_transit_is_resent() {
    // S_END, and S_ACK with the flag that answers it.
    for (kind, flags) in [(111, 0), (109, 4)] {
        for dials in EITHER {
            let (proxy, mut writer, mut reader) = proxied::<f64>(dials, [10, 4]);
            writer.write_many(&elements(0..3), LONG).unwrap();
            writer.flush(Until::Available, LONG).unwrap();
            let (sender, lost) = channel();
            proxy.hook(move |_, frame| {
                if frame[4] != kind || frame[5] & flags != flags {
                    return FrameAction::Forward;
                }
                sender.send(()).unwrap();
                FrameAction::Outage
            });
            let closes = closes(writer);
            lost.recv_timeout(TEST_TIMEOUT).unwrap();
            until_connected(&reader, false);
            check_run(&reader.read_many(3, LONG).unwrap(), 0);
            if kind == 111 {
                timed_out(reader.read(SHORT));
            } else {
                ended(reader.read(LONG));
            }
            proxy.unhook();
            proxy.up();
            closed(&closes);
            ended(reader.read(LONG));
        }
    }
}

/// A reader that has received everything closes once the writer has the acknowledgement, even if the
/// first acknowledgement was lost.
///
/// Behaviour: NS-45, NS-47, NS-66.
#[test]
fn writer_learns_the_outcome_if_its_reader_leaves_at_the_end() {
    for dials in EITHER {
        let (proxy, mut writer, mut reader) = proxied::<f64>(dials, [10, 4]);
        writer.write_many(&elements(0..3), LONG).unwrap();
        writer.flush(Until::Available, LONG).unwrap();
        let (sender, lost) = channel();
        proxy.hook(move |_, frame| {
            // S_ACK, with the flag that answers S_END.
            if frame[4] != 109 || frame[5] & 4 == 0 {
                return FrameAction::Forward;
            }
            sender.send(()).unwrap();
            FrameAction::Outage
        });
        let closes = closes(writer);
        check_run(&reader.read_many(3, LONG).unwrap(), 0);
        ended(reader.read(LONG));
        lost.recv_timeout(TEST_TIMEOUT).unwrap();
        until_connected(&reader, false);
        proxy.unhook();
        proxy.up();
        reader.close().unwrap();
        closed(&closes);
    }
}

/// A reader is destroyed while the writer cannot be notified. The writer reports that the peer is gone,
/// and the writing program can still close the writer.
///
/// Behaviour: NS-40.
#[test]
fn writer_learns_later_of_a_reader_destroyed_during_an_outage() {
    let (proxy, mut writer, reader) = proxied_with::<f64>(
        Dials::Writer,
        trunkline_stream::Options {
            gone_after: Some(Duration::from_millis(100)),
            ..options(10)
        },
        options(4),
    );
    proxy.down();
    until_connected(&writer, false);
    drop(reader);
    proxy.up();
    until("the loss of the peer", || {
        writer.properties().fault.is_some()
    });
    assert!(matches!(
        writer.write(&0.0, None),
        Err(StreamError::Fault(_))
    ));
}
