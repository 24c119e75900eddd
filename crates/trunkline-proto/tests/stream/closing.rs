//! How a stream ends.

use std::time::Duration;

use trunkline_proto::Disconnect;
use trunkline_proto::message::stream::ReaderState;
use trunkline_proto::stream::{ReaderLink, StreamClose, StreamFault, Until};

use crate::rig::{ReaderEnd, SIZE, World, keep_pair, ms, options};

/// Behaviour: NS-47.
#[test]
fn after_the_writer_was_closed_the_reader_reads_to_the_last_element() {
    for writer_dials in [true, false] {
        let mut sut = World::connected(10, 5, writer_dials);
        assert!(sut.write(8));
        sut.writer.link.close();
        sut.run(ms(20));
        assert!(!sut.writer.link.is_closed(), "3 have no room yet");
        assert_eq!(sut.fills(), (3, 5));
        assert!(sut.read(5));
        sut.run(ms(20));
        assert!(sut.writer.link.is_closed() && sut.writer.link.is_over());
        assert_eq!(sut.writer.left().elements, 0);
        assert_eq!(sut.reader.fill(), 3);
        let end = StreamClose {
            position: 8 * SIZE,
            written: 8 * SIZE,
            is_aborted: false,
        };
        assert_eq!(sut.reader.link.end(), Some(end));
        assert!(sut.read(3));
        assert_eq!(sut.reader.link.fault(), None);
        sut.run(ms(60_000));
        assert_eq!(sut.reader.link.connection(), None, "nobody dials any more");
    }
}

#[test]
fn nothing_is_written_after_the_close() {
    let mut sut = World::connected(10, 5, true);
    sut.write(1);
    sut.writer.link.close();
    sut.writer.link.handle_written(5 * SIZE, 5);
    sut.run(ms(20));
    assert!(sut.writer.link.is_closed());
    assert_eq!(sut.reader.link.end().map(|end| end.position), Some(SIZE));
}

/// Behaviour: NS-40, NS-52, NS-53.
#[test]
fn writer_learns_that_the_reader_was_destroyed_and_its_position() {
    for writer_dials in [true, false] {
        let mut sut = World::connected(10, 5, writer_dials);
        assert!(sut.write(8));
        sut.run(ms(20));
        assert!(sut.read(2));
        sut.reader.link.abort();
        sut.run(ms(20));
        let fault = sut.writer.link.fault();
        assert!(
            matches!(fault, Some(StreamFault::PeerDestroyed { .. })),
            "{fault:?}"
        );
        assert!(!sut.writer.link.is_connected() && !sut.reader.link.is_connected());
        assert_eq!(sut.writer.link.disconnections(), 1);
        assert_eq!(sut.writer.link.position(Until::Read), 2 * SIZE);
        let left = sut.writer.left();
        let lacking = sut.writer.written - sut.reader.link.arrived();
        assert_eq!((left.elements, left.in_doubt), (lacking / SIZE, 0));
        assert!(sut.reader.link.is_over(), "it is known");
        sut.run(ms(10_000));
        assert_eq!(sut.writer.link.connection(), None);
    }
}

/// Behaviour: NS-40, NS-45.
#[test]
fn aborted_writer_reports_undelivered_and_reader_keeps_the_rest() {
    for writer_dials in [true, false] {
        let mut sut = World::connected(10, 5, writer_dials);
        assert!(sut.write(8));
        sut.run(ms(20));
        sut.writer.link.abort("a test");
        sut.run(ms(20));
        assert!(sut.writer.link.is_closed());
        let left = sut.writer.left();
        assert_eq!((left.elements, left.in_doubt), (3, 0));
        let end = StreamClose {
            position: 5 * SIZE,
            written: 8 * SIZE,
            is_aborted: true,
        };
        assert_eq!(sut.reader.link.end(), Some(end));
        assert_eq!(sut.reader.link.abort_reason(), Some("a test"));
        assert!(sut.read(5));
    }
}

/// Behaviour: NS-45, NS-47.
#[test]
fn aborted_writer_does_not_end_the_stream_after_full_delivery() {
    for (closes_before, is_aborted) in [(false, true), (true, false)] {
        let mut sut = World::connected(10, 5, true);
        assert!(sut.write(3));
        sut.run(ms(20));
        // Closed and out of patience at once: nothing of it has gone out yet.
        if closes_before {
            sut.writer.link.close();
        }
        sut.writer.link.abort("a test");
        sut.run(ms(20));
        assert!(sut.writer.link.is_closed());
        assert_eq!(sut.writer.left().elements, 0);
        let end = StreamClose {
            position: 3 * SIZE,
            written: 3 * SIZE,
            is_aborted,
        };
        assert_eq!(sut.reader.link.end(), Some(end));
    }
}

#[test]
fn writer_aborted_during_a_cut_reports_elements_in_doubt() {
    let mut sut = World::connected(10, 5, true);
    assert!(sut.write(2));
    sut.run(ms(20));
    assert!(sut.write(4));
    sut.pump();
    sut.cut();
    sut.writer.link.abort("a test");
    assert!(sut.writer.link.is_over());
    let left = sut.writer.left();
    assert_eq!(
        (left.elements, left.in_doubt),
        (4, 3),
        "credit was for 3 more"
    );
}

#[test]
fn a_close_during_a_cut_is_carried_out_after_it() {
    for writer_dials in [true, false] {
        let mut sut = World::connected(10, 5, writer_dials);
        assert!(sut.write(4));
        sut.pump();
        sut.cut();
        sut.writer.link.close();
        sut.run(ms(5000));
        assert!(!sut.writer.link.is_closed());
        sut.heal();
        sut.run(ms(5000));
        assert!(sut.writer.link.is_closed());
        assert!(sut.read(4));
    }
}

/// Behaviour: NS-42, NS-43, NS-44.
#[test]
fn a_flush_is_answered_when_its_condition_holds_and_not_before() {
    let mut sut = World::connected(10, 5, true);
    assert!(sut.write(3));
    let sent = sut.writer.link.flush(Until::Sent);
    let available = sut.writer.link.flush(Until::Available);
    let read = sut.writer.link.flush(Until::Read);
    assert!(!sut.writer.link.is_reached(Until::Sent, sent));
    sut.pump();
    assert!(sut.writer.link.is_reached(Until::Sent, sent));
    assert!(!sut.writer.link.is_reached(Until::Available, available));
    sut.run(ms(1));
    assert!(sut.writer.link.is_reached(Until::Available, available));
    assert!(!sut.writer.link.is_reached(Until::Read, read));
    assert!(sut.read(2));
    sut.run(ms(20));
    assert!(
        !sut.writer.link.is_reached(Until::Read, read),
        "one is not read"
    );
    assert!(sut.read(1));
    sut.run(ms(1));
    assert!(sut.writer.link.is_reached(Until::Read, read));
    let durable = sut.writer.link.flush(Until::Durable);
    sut.run(ms(20));
    assert!(!sut.writer.link.is_reached(Until::Durable, durable));
    sut.reader.link.handle_durable(durable);
    sut.run(ms(1));
    assert!(sut.writer.link.is_reached(Until::Durable, durable));
}

#[test]
fn lost_end_frame_is_resent() {
    for writer_dials in [true, false] {
        for is_aborted in [true, false] {
            let mut sut = World::connected(10, 5, writer_dials);
            assert!(sut.write(4));
            sut.run(ms(10));
            match is_aborted {
                true => sut.writer.link.abort("a test"),
                false => sut.writer.link.close(),
            }
            sut.pump();
            sut.cut();
            assert_eq!(sut.reader.link.end(), None);
            sut.heal();
            sut.run(ms(5000));
            assert!(sut.writer.link.is_closed());
            assert_eq!(
                sut.reader.link.end().map(|end| end.position),
                Some(4 * SIZE)
            );
        }
    }
}

#[test]
fn lost_answer_to_the_end_is_resent() {
    for writer_dials in [true, false] {
        let mut sut = World::connected(10, 5, writer_dials);
        assert!(sut.write(4));
        sut.writer.link.close();
        sut.pump();
        sut.now = sut.now.saturating_add(ms(1));
        sut.deliver();
        sut.pump_reader();
        assert_eq!(
            sut.reader.link.end().map(|end| end.position),
            Some(4 * SIZE)
        );
        sut.cut();
        assert!(!sut.writer.link.is_closed());
        sut.heal();
        sut.run(ms(5000));
        assert!(sut.writer.link.is_closed());
        assert_eq!(sut.writer.left().elements, 0);
    }
}

/// The reader's journal knows the end from the run before, and reports it after its hello, before
/// the writer has sent the end on that connection.
#[test]
fn end_known_from_an_earlier_run_may_precede_the_writers_end() {
    for writer_dials in [true, false] {
        let (w, mut r) = options(10, 5, writer_dials);
        r.has_journal = true;
        let mut sut = World::with(w, r.clone());
        sut.run(ms(10));
        assert!(sut.write(4));
        sut.run(ms(10));
        sut.writer.link.close();
        sut.cut();
        assert!(sut.read(4));
        r.incarnation.0[0] = 7;
        keep_pair(&mut r, &sut.reader.link);
        let at = ReaderState {
            arrived: 4 * SIZE,
            arrived_elements: 4,
            read: 4 * SIZE,
            durable: 4 * SIZE,
            ..ReaderState::default()
        };
        let mut link = ReaderLink::restored_reader(r, at, 4, sut.now);
        link.restore_end(StreamClose {
            position: 4 * SIZE,
            written: 4 * SIZE,
            is_aborted: false,
        });
        sut.reader = ReaderEnd::restored(link);
        sut.heal();
        sut.run(ms(5000));
        assert!(
            sut.writer.link.has_end(),
            "{:?}",
            sut.writer.link.last_disconnect()
        );
        assert_eq!(
            sut.writer.link.last_disconnect(),
            Some(&Disconnect::ClosedLocally)
        );
        assert_eq!(sut.writer.left().elements, 0);
    }
}

/// A reader whose journal is not on disk yet may not report the end. A program that has read
/// everything and closes has the end nevertheless, and has not given up.
#[test]
fn a_reader_that_closes_with_the_whole_stream_has_the_end() {
    for writer_dials in [true, false] {
        for is_read in [true, false] {
            let mut sut = World::connected(10, 5, writer_dials);
            sut.reader.link.set_end_acknowledgeable(false);
            assert!(sut.write(4));
            sut.writer.link.close();
            sut.run(ms(20));
            assert!(!sut.writer.link.is_closed(), "it is not safe yet");
            assert!(sut.read(if is_read { 4 } else { 3 }));
            sut.reader.link.abort();
            sut.run(ms(20));
            assert_eq!(sut.writer.link.has_end(), is_read);
            let fault = sut.writer.link.fault();
            match is_read {
                true => assert_eq!(fault, None),
                false => assert!(matches!(fault, Some(StreamFault::PeerDestroyed { .. }))),
            }
            assert_eq!(sut.writer.left().elements, 0, "it has come");
        }
    }
}

#[test]
fn lost_final_goodbye_is_not_a_fault() {
    for writer_dials in [true, false] {
        let mut sut = World::connected(10, 5, writer_dials);
        assert!(sut.write(4));
        sut.writer.link.close();
        // All but the goodbye, which is in transit when the connection is cut.
        while !sut.writer.link.is_over() {
            sut.now = sut.now.saturating_add(Duration::from_micros(100));
            sut.pump();
            sut.deliver();
        }
        sut.pump();
        sut.cut();
        sut.heal();
        sut.run(ms(10_000));
        assert_eq!(
            (sut.writer.link.fault(), sut.reader.link.fault()),
            (None, None)
        );
        assert!(
            writer_dials || sut.reader.link.is_over(),
            "it has learnt it"
        );
    }
}
