//! Successors of an end that is gone, or that never learned that it was connected.

use trunkline_proto::FaultCode;
use trunkline_proto::message::stream::{ReaderState, Until, WriterState};
use trunkline_proto::stream::{ReaderLink, StreamClose, StreamFault, WriterLink, lineage};

use crate::rig::{ReaderEnd, SIZE, World, WriterEnd, ms, options, varying};

/// The end that is dialled is connected, and its answer never arrives.
fn lose_the_answer(sut: &mut World) {
    for steps in 0.. {
        if sut.passive_is_connected() {
            break;
        }
        assert!(steps < 10_000, "it is not connected");
        sut.pump();
        sut.now = sut.net.next_at().unwrap_or(sut.now.saturating_add(ms(1)));
        sut.deliver();
    }
    assert!(
        !(sut.writer.link.is_connected() && sut.reader.link.is_connected()),
        "the answer is on the way"
    );
    sut.cut();
    sut.heal();
}

fn assert_no_fault(sut: &World) {
    let faults = (sut.writer.link.fault(), sut.reader.link.fault());
    assert_eq!(faults, (None, None));
}

/// Its time limit passes while it is being connected, and its program tries again. Behaviour:
/// NS-12, NS-14.
#[test]
fn abandoned_dial_leaves_no_peer() {
    for writer_dials in [true, false] {
        let (w, r) = options(5, 5, writer_dials);
        let mut sut = World::with(w.clone(), r.clone());
        lose_the_answer(&mut sut);
        if !writer_dials {
            assert!(sut.write(3), "it was connected, as far as it knows");
        }
        let (mut w, mut r) = (w, r);
        if writer_dials {
            w.incarnation.0[0] = 7;
            sut.writer = WriterEnd::new(w, sut.now);
        } else {
            r.incarnation.0[0] = 7;
            sut.reader = ReaderEnd::new(r, sut.now);
        }
        sut.run(ms(5000));
        assert_no_fault(&sut);
        if writer_dials {
            assert!(sut.write(3));
            sut.run(ms(10));
        }
        assert!(sut.read(3));
    }
}

/// The one that gave up had read of another stream, so that this one begins where it was; the next
/// one begins there too.
#[test]
fn successor_of_an_abandoned_peer_starts_at_the_beginning() {
    let (w, mut r) = options(8, 8, false);
    r.accepts_successor = true;
    let at = ReaderState {
        arrived: 5 * SIZE,
        arrived_elements: 5,
        read: 5 * SIZE,
        ..ReaderState::default()
    };
    let mut sut = World::with(w, r.clone());
    let link = ReaderLink::restored_reader(r.clone(), at, 5, sut.now);
    sut.reader = ReaderEnd::restored(link);
    lose_the_answer(&mut sut);
    r.incarnation.0[0] = 7;
    sut.reader = ReaderEnd::new(r, sut.now);
    sut.run(ms(5000));
    assert_no_fault(&sut);
    assert!(sut.writer.link.is_connected() && sut.reader.link.is_connected());
    assert_eq!(sut.reader.link.ready(), (5 * SIZE, 5));
}

/// Another incarnation of a connected peer dies before its hello arrives: no other endpoint takes
/// its place.
#[test]
fn unheard_incarnation_does_not_admit_another_endpoint() {
    for writer_dials in [true, false] {
        let (mut w, mut r) = options(8, 8, writer_dials);
        (w.has_journal, r.has_journal) = (true, true);
        let mut sut = World::with(w.clone(), r.clone());
        sut.run(ms(10));
        assert!(sut.write(3));
        sut.run(ms(10));
        sut.cut();
        sut.heal();
        let mut live = |sut: &mut World, life: u8, lineage: u8| {
            let dials = if writer_dials { &mut w } else { &mut r };
            (dials.incarnation.0[0], dials.incarnation.0[8]) = (life, lineage);
            if writer_dials {
                let at = WriterState {
                    written: 3 * SIZE * u64::from(lineage == 0),
                    ..WriterState::default()
                };
                let link = WriterLink::restored_writer(w.clone(), at, sut.now);
                sut.writer = WriterEnd::restored(link, at);
            } else {
                let elements = 3 * u64::from(lineage == 0);
                let at = ReaderState {
                    arrived: elements * SIZE,
                    arrived_elements: elements,
                    ..ReaderState::default()
                };
                let link = ReaderLink::restored_reader(r.clone(), at, 0, sut.now);
                sut.reader = ReaderEnd::restored(link);
            }
        };
        live(&mut sut, 7, 0);
        lose_the_answer(&mut sut);
        live(&mut sut, 8, 9);
        sut.run(ms(10_000));
        let (peer, passive) = match writer_dials {
            true => (sut.reader.link.peer(), sut.reader.link.fault()),
            false => (sut.writer.link.peer(), sut.writer.link.fault()),
        };
        assert_ne!(peer.unwrap().incarnation.0[0], 8, "{writer_dials}");
        assert_eq!(passive, None, "{writer_dials}");
        let dialled = match writer_dials {
            true => sut.writer.link.fault(),
            false => sut.reader.link.fault(),
        };
        assert_eq!(dialled, Some(&StreamFault::LocalRestarted));
    }
}

/// The end that was dialled last remains the peer until another one arrives.
#[test]
fn unanswered_endpoint_retries() {
    for writer_dials in [true, false] {
        let mut sut = World::new(5, 5, writer_dials);
        lose_the_answer(&mut sut);
        sut.run(ms(5000));
        assert_no_fault(&sut);
        assert!(sut.write(3));
        sut.run(ms(10));
        assert!(sut.read(3));
    }
}

/// A reader that takes another's place is not answered, and does not know yet where it begins.
#[test]
fn unanswered_successor_of_the_reader_retries() {
    let (mut w, r) = options(8, 5, false);
    w.accepts_successor = true;
    w.freed_at = Until::Read;
    let mut sut = World::with(w, r.clone());
    sut.run(ms(10));
    assert!(sut.write(7));
    sut.run(ms(10));
    assert!(sut.read(2));
    sut.run(ms(10));
    sut.cut();
    let mut next = r;
    next.incarnation.0[0] = 7;
    sut.reader = ReaderEnd::new(next, sut.now);
    sut.heal();
    lose_the_answer(&mut sut);
    sut.run(ms(5000));
    assert_no_fault(&sut);
    assert_eq!(sut.fills(), (5, 5), "2 of 7 were read");
    assert!(sut.read(5) && sut.reader.next == 7, "from element 2 on");
}

/// The end that dials finds another one under the name of its peer. Behaviour: B-61.
#[test]
fn an_end_that_dials_takes_a_successor_too() {
    for writer_dials in [true, false] {
        let (mut w, mut r) = options(8, 5, writer_dials);
        (w.accepts_successor, r.accepts_successor) = (true, true);
        w.freed_at = Until::Read;
        let mut sut = World::with(w.clone(), r.clone());
        sut.run(ms(10));
        assert!(sut.write(5));
        sut.run(ms(10));
        assert!(sut.read(2));
        sut.run(ms(10));
        sut.cut();
        if writer_dials {
            r.incarnation.0[0] = 7;
            sut.reader = ReaderEnd::new(r, sut.now);
        } else {
            w.incarnation.0[0] = 7;
            sut.writer = WriterEnd::new(w, sut.now);
        }
        sut.heal();
        sut.run(ms(5000));
        assert_no_fault(&sut);
        if writer_dials {
            assert!(sut.read(3) && sut.reader.next == 5, "from element 2 on");
        } else {
            assert!(sut.read(3), "what has arrived before");
            sut.writer.goes_on_from(5);
            assert!(sut.write(4));
            sut.run(ms(10));
            assert!(sut.read(4), "what comes of the next writer");
        }
    }
}

/// A reader has everything, and its writer does not know yet: the writer of the next stream waits.
#[test]
fn a_reader_at_its_end_takes_no_successor() {
    let (mut w, mut r) = options(5, 5, true);
    r.accepts_successor = true;
    let mut sut = World::with(w.clone(), r);
    sut.run(ms(10));
    assert!(sut.write(2));
    sut.run(ms(10));
    sut.writer.link.close();
    for steps in 0.. {
        if sut.reader.link.end().is_some() {
            break;
        }
        assert!(steps < 10_000, "the end does not come");
        sut.pump();
        sut.now = sut.net.next_at().unwrap_or(sut.now.saturating_add(ms(1)));
        sut.deliver();
    }
    sut.cut();
    w.incarnation.0[0] = 7;
    sut.writer = WriterEnd::new(w, sut.now);
    sut.heal();
    sut.run(ms(5000));
    assert_no_fault(&sut);
    assert!(sut.reader.link.end().is_some() && !sut.reader.link.is_connected());
    assert_eq!(sut.reader.link.peer().unwrap().incarnation.0[0], 1);
}

/// A reader whose journal knows the end of a stream accepts only the writer of that stream.
#[test]
fn reader_restored_at_the_end_ignores_the_next_writer() {
    for writer_dials in [true, false] {
        let (w, mut r) = options(5, 5, writer_dials);
        (r.has_journal, r.peer_lineage) = (true, Some([9; 8]));
        let mut sut = World::with(w, r.clone());
        let at = ReaderState {
            arrived: 2 * SIZE,
            arrived_elements: 2,
            ..ReaderState::default()
        };
        let mut link = ReaderLink::restored_reader(r, at, 0, sut.now);
        link.restore_end(StreamClose {
            position: 2 * SIZE,
            written: 2 * SIZE,
            is_aborted: false,
        });
        sut.reader = ReaderEnd::restored(link);
        sut.run(ms(3000));
        assert_no_fault(&sut);
        assert_eq!(sut.writer.written, 0, "it begins where its own reader does");
        assert!(sut.writer.link.peer().is_none());
    }
}

/// The writer of a stream that has ended does not know yet, and comes again; the journal of the
/// reader waits for the next one.
#[test]
fn a_journal_whose_stream_has_ended_is_not_harmed_by_its_writer() {
    let (mut w, mut r) = options(5, 5, true);
    (w.has_journal, r.has_journal) = (true, true);
    let mut sut = World::with(w, r.clone());
    sut.run(ms(10));
    assert!(sut.write(3));
    sut.run(ms(10));
    sut.cut();
    (r.incarnation.0[0], r.incarnation.0[8], r.had_stream) = (7, 7, true);
    sut.reader = ReaderEnd::new(r, sut.now);
    sut.heal();
    sut.run(ms(5000));
    assert_eq!(sut.writer.link.fault(), Some(&StreamFault::PeerRestarted));
    assert_eq!(sut.reader.link.fault(), None);
}

/// The journal of the reader it means is gone: the stream is over for both. Behaviour: NS-71.
#[test]
fn journal_of_another_stream_is_refused() {
    let (mut w, mut r) = options(5, 5, true);
    (w.has_journal, r.has_journal) = (true, true);
    let mut sut = World::with(w, r.clone());
    sut.run(ms(10));
    assert!(sut.write(3));
    sut.run(ms(10));
    sut.cut();
    // Values that are the same for all incarnations of an endpoint are in the other half.
    (r.incarnation.0[0], r.incarnation.0[8]) = (7, 7);
    sut.reader = ReaderEnd::new(r, sut.now);
    sut.heal();
    sut.run(ms(5000));
    assert_eq!(sut.writer.link.fault(), Some(&StreamFault::PeerRestarted));
    assert_eq!(sut.reader.link.fault(), Some(&StreamFault::LocalRestarted));
    assert!(sut.reader.link.peer().is_none());
}

/// One end has a journal, and the program of the other starts again without one, while the first
/// one runs or when it is in its next run too. An end with a journal that is dialled waits for its own
/// peer: any program with the same name could otherwise end the stream. Behaviour: NS-71, B-60.
#[test]
fn restart_without_a_journal_is_reported() {
    for case in 0..8 {
        let [writer_dials, writer_has_journal, is_next_life] = [1, 2, 4].map(|bit| case & bit > 0);
        let (mut w, mut r) = options(8, 5, writer_dials);
        (w.has_journal, r.has_journal) = (writer_has_journal, !writer_has_journal);
        let mut sut = World::with(w.clone(), r.clone());
        sut.run(ms(10));
        assert!(sut.write(3));
        sut.run(ms(10));
        assert!(sut.read(3));
        sut.run(ms(10));
        sut.cut();
        let (kept, new) = match writer_has_journal {
            true => (&mut w, &mut r),
            false => (&mut r, &mut w),
        };
        kept.peer_lineage = Some(lineage(new.incarnation));
        kept.incarnation.0[0] = 5;
        // Values that are the same for all incarnations of an endpoint are in the other half.
        (new.incarnation.0[0], new.incarnation.0[8]) = (7, 7);
        match writer_has_journal {
            true => sut.reader = ReaderEnd::new(r.clone(), sut.now),
            false => sut.writer = WriterEnd::new(w.clone(), sut.now),
        }
        if is_next_life && writer_has_journal {
            let at = WriterState {
                kept: sut.writer.link.freed(),
                kept_elements: sut.writer.link.freed_elements(),
                written: sut.writer.written,
            };
            let link = WriterLink::restored_writer(w, at, sut.now);
            sut.writer = WriterEnd::restored(link, at);
            assert!(sut.write(2));
        } else if is_next_life {
            let at = ReaderState {
                arrived: 3 * SIZE,
                arrived_elements: 3,
                read: 3 * SIZE,
                durable: 3 * SIZE,
                ..ReaderState::default()
            };
            let link = ReaderLink::restored_reader(r, at, 3, sut.now);
            sut.reader = ReaderEnd::restored(link);
        }
        sut.heal();
        sut.run(ms(5000));
        let faults = [sut.writer.link.fault(), sut.reader.link.fault()];
        let [kept, new] = match writer_has_journal {
            true => faults,
            false => [faults[1], faults[0]],
        };
        let is_of_journal = |fault: Option<&StreamFault>| {
            let code = FaultCode::StreamRestarted;
            matches!(fault, Some(StreamFault::Refused { code: found, sentence })
                if *found == code && sentence.contains("journal"))
        };
        match is_next_life {
            _ if writer_dials != writer_has_journal => assert_eq!(kept, None, "{case}"),
            true => assert!(is_of_journal(kept), "{case}: {kept:?}"),
            false => assert_eq!(kept, Some(&StreamFault::PeerRestarted), "{case}"),
        }
        match is_next_life && writer_dials == writer_has_journal {
            true => assert!(is_of_journal(new), "{case}: {new:?}"),
            false => assert_eq!(new, Some(&StreamFault::LocalRestarted), "{case}"),
        }
        if is_next_life && writer_has_journal {
            assert_eq!(sut.writer.fill(), 2, "what it has is still there");
        }
    }
}

/// A reader that reads 2 of 5 elements and dies, and one that takes its place.
#[test]
fn successor_of_the_reader_continues_at_the_kept_elements() {
    let (mut w, r) = options(8, 5, false);
    w.accepts_successor = true;
    w.freed_at = Until::Read;
    let mut sut = World::with(w, r.clone());
    sut.run(ms(10));
    assert!(sut.write(7));
    sut.run(ms(10));
    assert!(sut.read(2));
    sut.run(ms(10));
    sut.cut();
    let mut next = r;
    next.incarnation.0[0] = 7;
    sut.reader = ReaderEnd::new(next, sut.now);
    sut.heal();
    sut.run(ms(5000));
    assert_eq!(
        (sut.writer.link.fault(), sut.reader.link.fault()),
        (None, None)
    );
    assert_eq!(sut.fills(), (5, 5), "2 of 7 were read");
    assert!(sut.read(5) && sut.reader.next == 7, "from element 2 on");
}

/// A writer that takes another's place does not get its answer, and repeats its hello.
#[test]
fn unanswered_successor_retries() {
    let (w, mut r) = options(8, 5, true);
    r.accepts_successor = true;
    let mut sut = World::with(w.clone(), r);
    sut.run(ms(10));
    assert!(sut.write(3));
    sut.run(ms(10));
    assert!(sut.read(3));
    sut.cut();
    let mut next = w;
    next.incarnation.0[0] = 7;
    sut.writer = WriterEnd::new(next, sut.now);
    sut.heal();
    lose_the_answer(&mut sut);
    sut.run(ms(5000));
    assert_no_fault(&sut);
    assert!(sut.writer.link.is_connected());
    sut.writer.goes_on_from(3);
    assert!(sut.write(2));
    sut.run(ms(10));
    assert!(sut.read(2), "from element 3 on");
}

/// A writer dies within an element; the part that the reader has of it is dropped.
#[test]
fn a_successor_of_the_writer_begins_a_whole_element() {
    for writer_dials in [true, false] {
        let (w, r) = options(1, 1, writer_dials);
        let w = varying(w, 8, 200);
        let mut r = varying(r, 8, 200);
        r.accepts_successor = true;
        let mut sut = World::with(w.clone(), r);
        sut.run(ms(10));
        assert!(sut.writer.write_varying(10));
        sut.run(ms(10));
        assert!(sut.writer.write_varying(100));
        sut.net.piece = 60;
        sut.pump();
        sut.run(ms(0));
        sut.now = sut.now.saturating_add(ms(1));
        sut.net.lose_all_behind(!writer_dials, 1);
        sut.deliver();
        assert!(
            sut.reader.link.arrived() > sut.reader.link.ready().0,
            "within an element"
        );
        sut.cut();
        let mut next = w;
        next.incarnation.0[0] = 7;
        sut.writer = WriterEnd::new(next, sut.now);
        sut.heal();
        sut.run(ms(5000));
        assert_no_fault(&sut);
        // The new writer counts on from the one element that came.
        sut.writer.goes_on_from(1);
        assert!(sut.writer.write_varying(20));
        sut.run(ms(10));
        assert!(sut.reader.read_varying() && sut.reader.read_varying());
        assert_eq!(sut.reader.fill(), 0);
    }
}
