//! Which peers an endpoint accepts, and what happens to one that was recreated.

use trunkline_proto::message::closing::Refused;
use trunkline_proto::message::stream::{ReaderState, StreamHello, WriterState};
use trunkline_proto::stream::{Link, LinkOptions, ReaderLink, StreamFault, Until, WriterLink};
use trunkline_proto::{FaultCode, VersionRange};
use trunkline_types::{DataType, Tick};

use crate::rig::{ReaderEnd, SIZE, World, WriterEnd, keep_pair, ms, options};

const NOW: Tick = Tick::from_nanos(1);

/// Returns the hello of an active writer with these options.
fn hello_of(options: LinkOptions) -> StreamHello {
    let mut link = WriterLink::writer(options, NOW);
    link.handle_dialled(NOW, 1, None);
    let mut out = Vec::new();
    link.poll_output(NOW, &(), &mut out);
    let mut rest = out.as_slice();
    let frame = trunkline_proto::Frame::take_from(&mut rest)
        .unwrap()
        .unwrap();
    StreamHello::decode(&frame).unwrap()
}

/// Returns the answer of a passive reader to an active writer with these options.
fn answer(change: impl FnOnce(&mut LinkOptions, &mut LinkOptions)) -> Result<(), Refused> {
    let (mut w, mut r) = options(5, 5, true);
    change(&mut w, &mut r);
    let mut sut = ReaderLink::reader(r, NOW);
    let result = sut.handle_hello(NOW, 1, &hello_of(w)).map(|_| ());
    assert_eq!(sut.is_connected(), result.is_ok());
    assert_eq!(sut.fault(), None, "it waits for the right one");
    result
}

/// Behaviour: NS-13, NS-18.
#[test]
fn endpoints_are_linked_when_they_fit() {
    assert_eq!(answer(|_, _| {}), Ok(()));
    // The lesser of two ends that name each other dials; here that is the reader.
    let refused = answer(|w, r| r.peer_url = w.url.clone()).unwrap_err();
    assert_eq!(refused.code, FaultCode::StreamOutdated);
    assert!(refused.retry_after.is_some());
    let other = "tl://localhost/other".to_owned();
    for (refused, code, words) in [
        (
            answer(|_, r| r.data_type = DataType::String),
            FaultCode::StreamType,
            "reader are of type string, but those of tl://localhost/writer are of type f64",
        ),
        (
            answer(|w, _| w.peer_url = other.clone()),
            FaultCode::StreamPeer,
            "the expected peer is tl://localhost/other, not tl://localhost/reader",
        ),
        (
            answer(|_, r| r.peer_url = other.clone()),
            FaultCode::StreamPeer,
            "the expected peer is tl://localhost/other, not tl://localhost/writer",
        ),
    ] {
        let Refused {
            code: found,
            sentence,
            ..
        } = refused.unwrap_err();
        assert!(found == code && sentence.contains(words), "{sentence}");
    }
}

#[test]
fn two_writers_are_refused() {
    let (w, mut other) = options(5, 5, true);
    other.peer_url = String::new();
    let mut sut = WriterLink::writer(other, NOW);
    let refused = sut.handle_hello(NOW, 1, &hello_of(w)).unwrap_err();
    assert_eq!(refused.code, FaultCode::StreamDirection);
    assert!(
        refused.sentence.contains("both write"),
        "{}",
        refused.sentence
    );
}

/// Behaviour: NS-16.
#[test]
fn the_end_that_dials_learns_of_another_type_at_once() {
    for writer_dials in [true, false] {
        let (mut w, r) = options(5, 5, writer_dials);
        w.data_type = DataType::I64;
        let mut sut = World::with(w, r);
        sut.run(ms(10));
        let fault = if writer_dials {
            sut.writer.link.fault()
        } else {
            sut.reader.link.fault()
        };
        let code = FaultCode::StreamType;
        assert!(
            matches!(fault, Some(StreamFault::Refused { code: c, .. }) if *c == code),
            "{fault:?}"
        );
        sut.run(ms(60_000));
        assert_eq!(
            sut.writer.link.connection(),
            None,
            "it is not dialled again"
        );
    }
}

#[test]
fn versions_without_overlap_are_refused() {
    let (w, r) = options(5, 5, true);
    let mut hello = hello_of(w);
    hello.versions = VersionRange { min: 7, max: 8 };
    let mut sut = ReaderLink::reader(r, NOW);
    let refused = sut.handle_hello(NOW, 1, &hello).unwrap_err();
    assert_eq!(refused.code, FaultCode::VersionMismatch);
}

#[test]
fn a_connected_endpoint_takes_no_second_peer() {
    let mut sut = World::connected(5, 5, true);
    let (mut third, _) = options(5, 5, true);
    third.url = "tl://localhost/third".to_owned();
    third.incarnation.0[0] = 3;
    let refused = sut.reader.link.handle_hello(sut.now, 99, &hello_of(third));
    let refused = refused.unwrap_err();
    assert_eq!(
        (refused.code, refused.retry_after),
        (FaultCode::StreamConnected, None)
    );
    // Another life of its peer may come again: the death of the old one is not known yet.
    let (mut again, _) = options(5, 5, true);
    again.incarnation.0[0] = 3;
    let refused = sut.reader.link.handle_hello(sut.now, 99, &hello_of(again));
    assert!(refused.unwrap_err().retry_after.is_some());
    assert!(sut.write(5) && sut.reader.link.is_connected());
}

#[test]
fn restart_of_either_end_is_reported_to_both() {
    for writer_dials in [true, false] {
        for writer_restarts in [true, false] {
            let mut sut = World::connected(5, 5, writer_dials);
            assert!(sut.write(3));
            sut.run(ms(10));
            sut.cut();
            let (mut w, mut r) = options(5, 5, writer_dials);
            if writer_restarts {
                w.incarnation.0[0] = 7;
                sut.writer = WriterEnd::new(w, sut.now);
            } else {
                r.incarnation.0[0] = 7;
                sut.reader = ReaderEnd::new(r, sut.now);
            }
            sut.heal();
            sut.run(ms(10_000));
            let faults = [sut.writer.link.fault(), sut.reader.link.fault()];
            let [new, old] = if writer_restarts {
                faults
            } else {
                [faults[1], faults[0]]
            };
            assert_eq!(old, Some(&StreamFault::PeerRestarted));
            if writer_dials == writer_restarts {
                assert_eq!(new, Some(&StreamFault::LocalRestarted));
            } else {
                assert_eq!(new, None, "it waits for the end that names it");
            }
        }
    }
}

/// Options of two ends with journals.
fn with_journals(writer_dials: bool) -> (LinkOptions, LinkOptions) {
    let (mut w, mut r) = options(8, 8, writer_dials);
    (w.has_journal, r.has_journal) = (true, true);
    w.freed_at = Until::Durable;
    (w, r)
}

#[test]
fn reader_continues_from_its_journal() {
    for writer_dials in [true, false] {
        let (w, r) = with_journals(writer_dials);
        let mut sut = World::with(w, r.clone());
        sut.run(ms(10));
        assert!(sut.write(6));
        sut.run(ms(10));
        assert!(sut.read(3));
        sut.reader.link.handle_durable(4 * SIZE);
        sut.run(ms(10));
        assert_eq!(sut.writer.fill(), 2, "only what is durable is free");
        // 6 have arrived; the journal has 4.
        sut.cut();
        let mut again = r;
        again.incarnation.0[0] = 7;
        keep_pair(&mut again, &sut.reader.link);
        let at = ReaderState {
            arrived: 4 * SIZE,
            arrived_elements: 4,
            read: 4 * SIZE,
            durable: 4 * SIZE,
            ..ReaderState::default()
        };
        let link = Link::restored_reader(again, at, 4, sut.now);
        sut.reader = ReaderEnd::restored(link);
        sut.heal();
        sut.run(ms(5000));
        assert_eq!(sut.reader.fill(), 2);
        assert!(sut.write(6));
        sut.run(ms(10));
        assert!(sut.read(8));
        assert_eq!(sut.reader.next, 12);
    }
}

#[test]
fn writer_continues_from_its_journal() {
    for writer_dials in [true, false] {
        let (w, r) = with_journals(writer_dials);
        let mut sut = World::with(w.clone(), r);
        sut.run(ms(10));
        assert!(sut.write(6));
        sut.run(ms(10));
        sut.reader.link.handle_durable(2 * SIZE);
        assert!(sut.read(3));
        sut.run(ms(10));
        sut.cut();
        let mut again = w;
        again.incarnation.0[0] = 7;
        keep_pair(&mut again, &sut.writer.link);
        let at = WriterState {
            kept: 2 * SIZE,
            kept_elements: 2,
            written: 7 * SIZE,
        };
        let link = Link::restored_writer(again, at, sut.now);
        sut.writer = WriterEnd::restored(link, at);
        sut.heal();
        sut.run(ms(5000));
        assert!(sut.read(4));
        assert_eq!(sut.reader.next, 7, "one more than had been sent before");
        assert!(sut.write(1));
        sut.run(ms(10));
        assert!(sut.read(1));
    }
}

#[test]
fn a_journal_that_lost_what_the_other_end_needs_ends_the_stream() {
    for writer_dials in [true, false] {
        let (w, r) = with_journals(writer_dials);
        let mut sut = World::with(w, r.clone());
        sut.run(ms(10));
        assert!(sut.write(6));
        sut.run(ms(10));
        sut.reader.link.handle_durable(6 * SIZE);
        sut.run(ms(10));
        assert_eq!(sut.writer.fill(), 0);
        sut.cut();
        let mut again = r;
        again.incarnation.0[0] = 7;
        keep_pair(&mut again, &sut.reader.link);
        let at = ReaderState {
            arrived: 4 * SIZE,
            arrived_elements: 4,
            read: 4 * SIZE,
            ..ReaderState::default()
        };
        sut.reader = ReaderEnd::restored(Link::restored_reader(again, at, 4, sut.now));
        sut.heal();
        sut.run(ms(5000));
        let bytes = 2 * SIZE;
        let lost = StreamFault::DataLost { bytes };
        let (writer, reader) = (sut.writer.link.fault(), sut.reader.link.fault());
        let (here, there) = if writer_dials {
            (reader, writer)
        } else {
            (writer, reader)
        };
        assert_eq!(here.or(there), Some(&lost));
        assert!(
            writer.is_some() && reader.is_some(),
            "{writer:?} {reader:?}"
        );
    }
}
