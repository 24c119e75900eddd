//! Tests connections that are cut, stall, or end on one side. Written elements are read once and in
//! order.

use std::thread;
use std::time::Duration;

use trunkline_proto::message::stream::seal::seal;
use trunkline_proto::{Disconnect, FaultCode};
use trunkline_stream::{Element, Options, Reader, StreamError, StreamFault, Until, Writer};

use crate::proxy::{Direction, FrameAction, Proxy};
use crate::rig::*;

#[track_caller]
fn fault<T: std::fmt::Debug>(result: Result<T, StreamError>) -> StreamFault {
    match result {
        Err(StreamError::Fault(fault)) => fault,
        other => panic!("a fault expected: {other:?}"),
    }
}

/// Behaviour: NS-52, NS-53, NS-60, NS-66, NS-67, NS-68.
#[test]
fn writes_fill_and_reads_empty_the_buffers_during_an_outage() {
    for dials in EITHER {
        let (proxy, mut writer, mut reader) = proxied::<f64>(dials, [10, 5]);
        let mut next = 0;
        for outage in 1..=3 {
            writer.write_many(&elements(next..next + 3), LONG).unwrap();
            writer.flush(Until::Available, LONG).unwrap();
            proxy.down();
            until_connected(&writer, false);
            until_connected(&reader, false);
            // Ten elements fit without a reader; after that, writes wait and time out.
            writer
                .write_many(&elements(next + 3..next + 9), LONG)
                .unwrap();
            timed_out(writer.write_many(&[-1.0; 5], SHORT));
            run(writer.write_many_async(&elements(next + 9..next + 13), LONG)).unwrap();
            timed_out(writer.write(&-1.0, SHORT));
            timed_out(writer.write_with(1, SHORT, |_| ()));
            timed_out(run(writer.write_many_async(&[-1.0], SHORT)));
            timed_out(writer.flush(Until::Available, SHORT));
            let read = reader.read_many(2, LONG).unwrap();
            assert_eq!(check_run(&read, next), next + 2);
            timed_out(reader.read_many(2, SHORT));
            assert_eq!(
                check_run(&reader.read_available().unwrap(), next + 2),
                next + 3
            );
            timed_out(reader.read(SHORT));
            timed_out(run(reader.read_many_async(1, SHORT)));
            assert!(reader.read_available().unwrap().is_empty());
            for properties in [writer.properties(), reader.properties()] {
                assert!(!properties.is_connected && properties.away_for.is_some());
                assert_eq!(properties.fault, None);
                assert_eq!(properties.disconnections, outage);
            }
            proxy.up();
            next += 3;
            for _ in 0..5 {
                next = check_run(&reader.read_many(2, LONG).unwrap(), next);
            }
            assert!(writer.properties().is_connected && reader.properties().is_connected);
        }
        assert_eq!(writer.close(LONG).elements, 0);
        assert!(matches!(reader.read(LONG), Err(StreamError::Ended)));
    }
}

/// Returns the text with this index.
fn text(index: u64) -> String {
    format!("{index} {}", "x".repeat((index * 31 % 700) as usize))
}

/// Returns a random timeout, which often expires.
fn brief(random: &mut fastrand::Rng) -> Option<Duration> {
    match random.u8(..) {
        0..64 => NONE,
        64..192 => Some(Duration::from_micros(random.u64(..3000))),
        _ => LONG,
    }
}

/// Writes and reads with calls of any size and any timeout while the connection is cut repeatedly,
/// and checks each element: none is lost, duplicated or out of order.
fn cut_again_and_again<T: Element + PartialEq + std::fmt::Debug>(
    dials: Dials,
    to_element: fn(u64) -> T,
    bytes: u64,
    is_checked: bool,
) {
    let checked = Options {
        is_checked: Some(is_checked),
        ..options(1000)
    };
    let (proxy, mut writer, mut reader) = proxied_with::<T>(dials, checked, options(300));
    let (cuts, count) = (40, 40_000);
    let writes = thread::spawn(move || {
        let mut random = fastrand::Rng::with_seed(1);
        let mut next = 0;
        while next < count {
            let some = random.u64(1..200).min(count - next);
            let run: Vec<T> = (next..next + some).map(to_element).collect();
            match writer.write_many(&run, brief(&mut random)) {
                Ok(()) => next += some,
                Err(StreamError::Timeout { .. }) => continue,
                Err(error) => panic!("{error}"),
            }
            if random.u8(..) < 8 {
                writer.flush(Until::Available, LONG).unwrap();
            }
        }
        assert_eq!(writer.properties().fault, None);
        (writer.properties().disconnections, writer.close(LONG))
    });
    let reads = thread::spawn(move || {
        let mut random = fastrand::Rng::with_seed(2);
        let mut next = 0;
        while next < count {
            let some = random.u64(1..200).min(count - next);
            let read = match reader.read_many(some as usize, brief(&mut random)) {
                Ok(read) => read,
                Err(StreamError::Timeout { .. }) => continue,
                Err(error) => panic!("{error}"),
            };
            assert_eq!(read.len() as u64, some);
            for element in read {
                assert_eq!(
                    element,
                    to_element(next),
                    "lost, doubled or out of order at {next}"
                );
                next += 1;
            }
        }
        let end = reader.read(LONG);
        assert!(matches!(end, Err(StreamError::Ended)), "{end:?}");
        reader.properties().disconnections
    });
    let mut random = fastrand::Rng::with_seed(3);
    for cut in 1..=cuts {
        // At an arbitrary position in a frame; occasionally within a hello.
        proxy.cut_after(match cut % 10 {
            0 => random.u64(..400),
            _ => random.u64(..bytes),
        });
        proxy.wait("a cut", |state| state.cuts() >= cut || writes.is_finished());
    }
    let (disconnections, left) = writes.join().unwrap();
    assert_eq!((left.elements, left.in_doubt), (0, 0));
    // Cuts within a hello do not count, because the ends were not connected then.
    assert!(disconnections > cuts / 2, "{disconnections}");
    assert!(reads.join().unwrap() > cuts / 2);
}

/// Behaviour: NS-30, NS-31, NS-60, NS-61, NS-66, NS-68.
#[test]
fn numbers_arrive_once_in_order_across_cuts_when_the_writer_dials() {
    cut_again_and_again(Dials::Writer, element, 8000, false);
}

/// Behaviour: NS-30, NS-31, NS-60, NS-61, NS-66, NS-68.
#[test]
fn text_arrives_once_in_order_across_cuts_when_the_reader_dials() {
    cut_again_and_again(Dials::Reader, text, 300_000, true);
}

/// Behaviour: NS-60, NS-66, NS-68.
#[test]
fn two_tasks_transfer_everything_through_many_cuts() {
    for dials in EITHER {
        let (proxy, mut writer, mut reader) = proxied::<f64>(dials, [50, 20]);
        let count = 3000;
        let writes = async {
            for index in (0..count).step_by(10) {
                if index % 300 == 0 {
                    proxy.cut_after(index % 700);
                }
                let run = elements(index..index + 10);
                writer.write_many_async(&run, LONG).await.unwrap();
            }
            writer.close_async(LONG).await
        };
        let reads = async {
            let mut next = 0;
            while next < count {
                next = check_run(&reader.read_many_async(15, LONG).await.unwrap(), next);
            }
            reader.read_many_async(1, LONG).await
        };
        let (left, end) = run_both(writes, reads);
        assert_eq!((left.elements, left.in_doubt), (0, 0));
        assert!(matches!(end, Err(StreamError::Ended)), "{end:?}");
        assert!(reader.properties().disconnections > 0);
    }
}

/// Behaviour: NS-60, NS-68.
#[test]
fn elements_larger_than_a_frame_survive_cuts_within_them() {
    for dials in EITHER {
        let roomy = |capacity| Options {
            bytes_max: 4 << 20,
            ..options(capacity)
        };
        let (proxy, mut writer, mut reader) = proxied_with(dials, roomy(4), roomy(4));
        let large = |index: u64| -> Vec<u64> { (0..100_000).map(|i| i * index).collect() };
        for index in 1..6 {
            proxy.cut_after(index * 150_000);
            writer.write(&large(index), LONG).unwrap();
            assert_eq!(reader.read(LONG).unwrap(), large(index));
        }
        assert!(reader.properties().disconnections >= 4);
    }
}

/// A connection that is closed in one direction only counts as closed.
///
/// Behaviour: NS-66, NS-68.
#[test]
fn a_half_open_connection_is_replaced() {
    for dials in EITHER {
        let (proxy, mut writer, mut reader) = proxied::<f64>(dials, [10, 10]);
        for index in 0..5 {
            proxy.half_close();
            writer.write(&element(index), LONG).unwrap();
            assert_eq!(reader.read(LONG).unwrap(), element(index));
        }
    }
}

/// Behaviour: NS-67, NS-70.
#[test]
fn outage_within_the_buffer_is_not_an_error() {
    // A writer of 100 kB/s writes 1 MB in 10 s, in calls of 10 kB.
    let (proxy, mut writer, mut reader) = proxied::<u8>(Dials::Writer, [1_000_000, 4096]);
    let byte = |index: u64| (index % 251) as u8;
    proxy.down();
    until_connected(&writer, false);
    for call in 0..100 {
        let some: Vec<u8> = (call * 10_000..(call + 1) * 10_000).map(byte).collect();
        writer.write_many(&some, NONE).unwrap();
    }
    assert_eq!(writer.properties().available_for_writing(), 0);
    proxy.up();
    let thread = thread::spawn(move || writer.close(LONG));
    let mut next = 0;
    while next < 1_000_000 {
        for found in reader.read_many(1000, LONG).unwrap() {
            assert_eq!(found, byte(next));
            next += 1;
        }
    }
    assert_eq!(thread.join().unwrap().elements, 0);
}

/// The connection becomes silent, as if the peer's machine had failed. Both ends detect the silence.
///
/// Behaviour: B-61, NS-52, NS-69.
#[test]
fn silent_peer_is_detected_by_both_ends() {
    for dials in EITHER {
        let (proxy, mut writer, mut reader) = proxied::<f64>(dials, [10, 10]);
        proxy.freeze();
        proxy.down();
        for properties in [writer.properties(), reader.properties()] {
            assert!(properties.is_connected, "nobody knows yet");
        }
        // Neither end sends anything.
        until_connected(&writer, false);
        until_connected(&reader, false);
        for properties in [writer.properties(), reader.properties()] {
            assert_eq!(properties.disconnections, 1);
            assert_eq!(properties.fault, None);
        }
        // The first end detected the silence. The other end may have detected that the first end
        // closed the connection. The dialling end has dialled again since.
        let passive = match dials {
            Dials::Writer => reader.properties(),
            Dials::Reader => writer.properties(),
        };
        let cause = passive.last_disconnect;
        let is_known = matches!(
            cause,
            Some(Disconnect::Dead { .. } | Disconnect::PeerClosed)
        );
        assert!(is_known, "{cause:?}");
        writer.write(&1.5, LONG).unwrap();
        proxy.up();
        assert_eq!(reader.read(LONG).unwrap(), 1.5);
    }
}

/// The active end has failed, and a successor replaces it.
///
/// Behaviour: B-61.
#[test]
fn successor_of_a_dead_active_end_is_accepted_on_request() {
    for dials in EITHER {
        let address = address();
        let proxy = Proxy::to(address);
        let taking = Options {
            accepts_successor: true,
            ..options(10)
        };
        let (of_writer, of_reader) = match dials {
            Dials::Writer => (options(10), taking),
            Dials::Reader => (taking, options(10)),
        };
        let (mut writer, mut reader) =
            meet::<f64>(dials, of_writer, of_reader, address, Some(&proxy));
        writer.write_many(&elements(0..4), LONG).unwrap();
        writer.flush(Until::Available, LONG).unwrap();
        check_run(&reader.read_many(2, LONG).unwrap(), 0);
        // The successor has the name of its predecessor.
        let own = match dials {
            Dials::Writer => writer.properties().url,
            Dials::Reader => reader.properties().url,
        };
        proxy.freeze();
        proxy.down();
        let named = naming(&url(address, "passive"), options(10));
        match dials {
            Dials::Writer => {
                // The program of the failed end has ended without closing the stream.
                let _left = writer.close(NONE);
                let mut next = Writer::<f64>::create(&own, named).unwrap();
                next.write_many(&elements(4..6), LONG).unwrap();
                check_run(&reader.read_many(4, LONG).unwrap(), 2);
                assert_eq!(next.close(LONG).elements, 0);
                assert!(matches!(reader.read(LONG), Err(StreamError::Ended)));
            }
            Dials::Reader => {
                reader.close().unwrap();
                let mut next = Reader::<f64>::create(&own, named).unwrap();
                // Elements that had reached the failed end are lost. New elements go to the
                // successor.
                writer.write_many(&elements(4..6), LONG).unwrap();
                check_run(&next.read_many(2, LONG).unwrap(), 4);
                assert_eq!(writer.close(LONG).elements, 0);
                assert!(matches!(next.read(LONG), Err(StreamError::Ended)));
            }
        }
    }
}

/// A text that fits the first reader's buffer must not wait forever for a reader whose buffer is
/// too small.
///
/// Behaviour: B-61, NS-71.
#[test]
fn successor_with_a_smaller_buffer_is_refused() {
    let address = address();
    let of_bytes = |bytes_max| Options {
        bytes_max,
        accepts_successor: true,
        ..options(10)
    };
    let proxy = Proxy::to(address);
    let roomy = of_bytes(1 << 16);
    let (mut writer, reader) = meet(
        Dials::Reader,
        roomy.clone(),
        roomy.clone(),
        address,
        Some(&proxy),
    );
    let long = "x".repeat(40_000);
    // The writer has checked that the text fits, before and after the reader is gone.
    writer.write(&long, LONG).unwrap();
    writer.flush(Until::Available, LONG).unwrap();
    let own = reader.properties().url;
    proxy.freeze();
    proxy.down();
    writer.write(&long, LONG).unwrap();
    reader.close().unwrap();
    let named = |bytes_max| naming(&url(address, "passive"), of_bytes(bytes_max));
    let outcome = fault(Reader::<String>::create(&own, named(1 << 12)));
    let StreamFault::Refused { sentence, .. } = outcome else {
        panic!("{outcome}")
    };
    assert!(sentence.contains("65536"), "{sentence}");
    assert_eq!(writer.properties().fault, None);
    let mut next = Reader::<String>::create(&own, named(1 << 16)).unwrap();
    writer.write(&long, LONG).unwrap();
    for _ in 0..2 {
        assert_eq!(next.read(LONG).unwrap(), long);
    }
    assert_eq!(writer.close(LONG).elements, 0);
    assert!(matches!(next.read(LONG), Err(StreamError::Ended)));
}

/// Behaviour: B-61, NS-69, NS-71.
#[test]
fn absent_peer_is_reported_on_request() {
    for dials in EITHER {
        let leaving = |capacity| Options {
            gone_after: Some(Duration::from_millis(100)),
            ..options(capacity)
        };
        let (proxy, mut writer, mut reader) = proxied_with::<f64>(dials, leaving(10), leaving(10));
        writer.write_many(&elements(0..3), LONG).unwrap();
        writer.flush(Until::Available, LONG).unwrap();
        let waits = thread::spawn(move || {
            check_run(&reader.read_many(2, LONG).unwrap(), 0);
            // No more elements arrive; the available elements are returned first, then the error.
            let read = reader.read_many(2, None).unwrap();
            assert_eq!(check_run(&read, 2), 3);
            (fault(reader.read(None)), reader)
        });
        proxy.down();
        let (of_reader, mut reader) = waits.join().unwrap();
        until("the loss of the peer", || {
            writer.properties().fault.is_some()
        });
        let of_writer = fault(writer.write(&0.0, None));
        for fault in [of_reader, of_writer] {
            let StreamFault::PeerGone { away_for, .. } = fault else {
                panic!("{fault}")
            };
            assert!(away_for >= Duration::from_millis(100));
        }
        assert!(matches!(
            fault(writer.flush(Until::Read, None)),
            StreamFault::PeerGone { .. }
        ));
        assert!(matches!(
            fault(reader.read_available()),
            StreamFault::PeerGone { .. }
        ));
    }
}

/// Another incarnation of the active end connects while the passive end keeps elements for the old
/// incarnation.
///
/// Behaviour: NS-71.
#[test]
fn restart_of_the_active_end_is_reported_to_both_ends() {
    for dials in EITHER {
        let address = address();
        let proxy = Proxy::to(address);
        let (mut writer, mut reader) =
            meet::<f64>(dials, options(10), options(10), address, Some(&proxy));
        writer.write_many(&elements(0..4), LONG).unwrap();
        writer.flush(Until::Available, LONG).unwrap();
        proxy.down();
        until_connected(&writer, false);
        until_connected(&reader, false);
        let named = naming(&url(proxy.address(), "passive"), options(10));
        match dials {
            Dials::Writer => {
                let own = writer.properties().url;
                let _left = writer.abort();
                proxy.up();
                let local = fault(Writer::<f64>::create(&own, named));
                assert_eq!(local, StreamFault::LocalRestarted);
                // Elements that have arrived can still be read.
                check_run(&reader.read_many(4, LONG).unwrap(), 0);
                assert_eq!(fault(reader.read(None)), StreamFault::PeerRestarted);
            }
            Dials::Reader => {
                let own = reader.properties().url;
                reader.close().unwrap();
                proxy.up();
                let local = fault(Reader::<f64>::create(&own, named));
                assert_eq!(local, StreamFault::LocalRestarted);
                assert_eq!(fault(writer.write(&0.0, None)), StreamFault::PeerRestarted);
            }
        }
    }
}

/// The passive end is re-created while the active end keeps dialling. The new passive end waits for a
/// peer that does not continue the stream of the old passive end.
///
/// Behaviour: NS-66, NS-71.
#[test]
fn active_end_learns_that_its_peer_was_restarted() {
    for dials in EITHER {
        let address = address();
        let proxy = Proxy::to(address);
        let (mut writer, mut reader) =
            meet::<f64>(dials, options(10), options(10), address, Some(&proxy));
        writer.write_many(&elements(0..3), LONG).unwrap();
        writer.flush(Until::Available, LONG).unwrap();
        proxy.down();
        until_connected(&writer, false);
        until_connected(&reader, false);
        let passive = url(address, "passive");
        let named = naming(&url(proxy.address(), "passive"), options(10));
        match dials {
            Dials::Writer => {
                let own = writer.properties().url;
                reader.close().unwrap();
                let anew = thread::spawn(move || Reader::create(&passive, options(10)).unwrap());
                proxy.up();
                until("a fault", || writer.properties().fault.is_some());
                assert_eq!(fault(writer.write(&0.0, None)), StreamFault::PeerRestarted);
                let _left = writer.close(NONE);
                writer = Writer::create(&own, named).unwrap();
                reader = anew.join().unwrap();
            }
            Dials::Reader => {
                let own = reader.properties().url;
                let _left = writer.abort();
                let anew = thread::spawn(move || Writer::create(&passive, options(10)).unwrap());
                proxy.up();
                until("a fault", || reader.properties().fault.is_some());
                // Elements that have arrived can still be read.
                check_run(&reader.read_many(4, None).unwrap(), 0);
                assert_eq!(fault(reader.read(None)), StreamFault::PeerRestarted);
                reader.close().unwrap();
                reader = Reader::create(&own, named).unwrap();
                writer = anew.join().unwrap();
            }
        }
        writer.write(&0.5, LONG).unwrap();
        assert_eq!(reader.read(LONG).unwrap(), 0.5);
    }
}

/// Behaviour: NS-71.
#[test]
fn versions_without_overlap_are_reported_at_once() {
    for dials in EITHER {
        let address = address();
        let proxy = Proxy::to(address);
        // S_HELLO offers versions 98 to 99.
        proxy.hook(|direction, frame| {
            if direction == Direction::Out && frame[4] == 106 {
                frame[20..22].copy_from_slice(&[98, 99]);
                seal(frame, 0);
            }
            FrameAction::Forward
        });
        let named = naming(&url(proxy.address(), "passive"), options(4));
        let impatient = Options {
            timeout: Some(Duration::from_millis(500)),
            ..options(4)
        };
        let passive = url(address, "passive");
        let thread = thread::spawn(move || match dials {
            Dials::Writer => Reader::<f64>::create(&passive, impatient).map(|_| ()),
            Dials::Reader => Writer::<f64>::create(&passive, impatient).map(|_| ()),
        });
        let outcome = match dials {
            Dials::Writer => fault(Writer::<f64>::create(&unique_url("w"), named).map(|_| ())),
            Dials::Reader => fault(Reader::<f64>::create(&unique_url("r"), named).map(|_| ())),
        };
        let (is_code, text) = match &outcome {
            StreamFault::Refused { code, sentence } => {
                (*code == FaultCode::VersionMismatch, sentence.clone())
            }
            StreamFault::VersionMismatch(mismatch) => (true, mismatch.to_string()),
            _ => (false, outcome.to_string()),
        };
        assert!(
            is_code && text.contains("98") && text.contains("99"),
            "{outcome}"
        );
        assert!(thread.join().unwrap().is_err());
    }
}

/// Acknowledgements that are lost with their connection cause no loss of data.
///
/// Behaviour: NS-61, NS-68.
#[test]
fn data_received_but_unacknowledged_is_not_resent() {
    for dials in EITHER {
        let (proxy, mut writer, mut reader) = proxied::<f64>(dials, [10, 10]);
        for round in 0..5 {
            proxy.hold(&[109]);
            writer
                .write_many(&elements(round * 4..round * 4 + 4), LONG)
                .unwrap();
            until_filled(&reader, 4);
            assert_eq!(writer.properties().in_buffer, 4);
            proxy.cut();
            proxy.hold(&[]);
            check_run(&reader.read_many(4, LONG).unwrap(), round * 4);
            writer.flush(Until::Read, LONG).unwrap();
            assert_eq!(writer.properties().in_buffer, 0);
            assert_eq!(reader.properties().in_buffer, 0);
        }
    }
}
