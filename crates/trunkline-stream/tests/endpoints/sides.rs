//! Tests the direction of an endpoint, which the call that creates the endpoint fixes and which the
//! peer cannot change.

use std::thread;

use trunkline_proto::FaultCode;
use trunkline_proto::message::stream::{Ask, EndState, ReaderState, Until as Place, WriterState};
use trunkline_stream::{Reader, StreamError, StreamFault, Until, Writer};

use crate::bad_input::{
    ack, data, waiting_reader, waiting_writer, wrong_for_a_reader, wrong_for_a_writer,
};
use crate::raw::RawEndpoint;
use crate::rig::*;

/// A stream keeps no last value: elements that were read are gone, and a read waits for the next
/// one. Even within one process, each end has its own buffer, unlike in a local queue.
///
/// Behaviour: NS-90.
#[test]
fn elements_are_read_once_and_each_end_has_its_buffer() {
    for dials in EITHER {
        let (mut writer, mut reader) = pair::<f64>(dials, [10, 20]);
        for index in 0..30 {
            writer.write(&element(index), LONG).unwrap();
        }
        timed_out(writer.write(&element(30), NONE));
        until_filled(&writer, 10);
        until_filled(&reader, 20);
        for next in (0..30).step_by(10) {
            check_run(&reader.read_many(10, LONG).unwrap(), next);
        }
        assert_eq!(reader.available(), 0);
        timed_out(reader.read(NONE));
        assert!(reader.read_available().unwrap().is_empty());
    }
}

/// No peer and no frame can turn a writer into a reader or a reader into a writer.
///
/// Behaviour: NS-11.
#[test]
fn constructor_determines_the_direction_of_an_endpoint() {
    // If two writers or two readers meet, neither changes its direction.
    for dials in EITHER {
        let address = address();
        let (passive, named) = (
            url(address, "passive"),
            naming(&url(address, "passive"), options(4)),
        );
        let other = thread::spawn(move || match dials {
            Dials::Writer => Writer::<f64>::create(&passive, options(4)).map(|_| ()),
            Dials::Reader => Reader::<f64>::create(&passive, options(4)).map(|_| ()),
        });
        let own = match dials {
            Dials::Writer => Writer::<f64>::create(&unique_url("active"), named).map(|_| ()),
            Dials::Reader => Reader::<f64>::create(&unique_url("active"), named).map(|_| ()),
        };
        for outcome in [own, other.join().unwrap()] {
            let Err(StreamError::Fault(StreamFault::Refused { code, .. })) = outcome else {
                panic!("{outcome:?}")
            };
            assert_eq!(code, FaultCode::StreamDirection);
        }
    }
    // A reader that reconnects as a writer is refused, and continues as a reader.
    let (address, thread) = waiting_writer();
    let mut endpoint = RawEndpoint::reader();
    let (raw, _) = endpoint.connect(address, "passive");
    let mut writer = thread.join().unwrap();
    drop(raw);
    until_connected(&writer, false);
    let reads = endpoint.state;
    endpoint.state = EndState::Writer(WriterState::default());
    let refused = endpoint.dial(address, "passive").until_refused();
    assert_eq!(
        refused.code,
        FaultCode::StreamDirection,
        "{}",
        refused.sentence
    );
    endpoint.state = reads;
    let (mut raw, _) = endpoint.connect(address, "passive");
    writer.write_many(&elements(0..2), LONG).unwrap();
    raw.send(&ack(2, 2, 102));
    writer.flush(Until::Read, LONG).unwrap();
    assert!(writer.properties().is_writer);
    // A writer that reconnects as a reader is refused too, and continues as a writer.
    let (address, thread) = waiting_reader();
    let mut endpoint = RawEndpoint::writer();
    let (raw, _) = endpoint.connect(address, "passive");
    let mut reader = thread.join().unwrap();
    drop(raw);
    until_connected(&reader, false);
    let writes = endpoint.state;
    endpoint.state = EndState::Reader(ReaderState::default());
    let refused = endpoint.dial(address, "passive").until_refused();
    assert_eq!(
        refused.code,
        FaultCode::StreamDirection,
        "{}",
        refused.sentence
    );
    endpoint.state = writes;
    let (mut raw, _) = endpoint.connect(address, "passive");
    raw.send(&data(0..2));
    check_run(&reader.read_many(2, LONG).unwrap(), 0);
    assert!(!reader.properties().is_writer);
}

/// A program cannot act in the wrong direction, because a `Reader` has no call that writes, and a
/// `Writer` has no call that reads. A peer that does is refused, and the endpoint keeps its elements.
///
/// Behaviour: NS-37.
#[test]
fn peers_acting_in_the_wrong_direction_are_refused() {
    wrong_for_a_writer(&data(0..1));
    wrong_for_a_reader(&ack(1, 1, 101));
}

/// Behaviour: NS-41.
#[test]
fn flush_of_a_reader_is_refused() {
    for until in [Place::Available, Place::Read] {
        let (mut ask, position) = (Vec::new(), 8);
        Ask { until, position }.encode(&mut ask);
        wrong_for_a_writer(&ask);
    }
}

/// Writing, sending and reading run at the same time. Each is limited only by the next step.
///
/// Behaviour: NS-80.
#[test]
fn a_writer_is_ahead_of_a_reader_by_both_buffers_and_then_as_fast_as_it() {
    for dials in EITHER {
        let (mut writer, mut reader) = pair::<f64>(dials, [30, 20]);
        // While nothing is read, writing does not wait until both buffers are full.
        for index in (0..50).step_by(10) {
            writer
                .write_many(&elements(index..index + 10), LONG)
                .unwrap();
        }
        timed_out(writer.write(&-1.0, SHORT));
        // From now on, each read makes room for the same number of elements.
        let (mut written, mut read) = (50, 0);
        for some in [1, 7, 20, 3, 19] {
            read = check_run(&reader.read_many(some, LONG).unwrap(), read);
            let end = written + some as u64;
            writer.write_many(&elements(written..end), LONG).unwrap();
            written = end;
            timed_out(writer.write(&-1.0, SHORT));
        }
        let closes = thread::spawn(move || writer.close(LONG));
        while read < written {
            read = check_run(&reader.read_many(1, LONG).unwrap(), read);
        }
        assert_eq!(closes.join().unwrap().elements, 0);
    }
}
