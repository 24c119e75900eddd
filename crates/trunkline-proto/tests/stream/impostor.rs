//! An impostor takes the place of an end whose incarnation it knows: with the documentation, the
//! right incarnations, later dials and any positions, but without the secret of the pair.

use std::sync::Arc;

use trunkline_proto::message::stream::{
    EndState, ReaderState, StreamEnd, StreamHello, StreamWelcome, WriterState,
};
use trunkline_proto::stream::{Link, LinkRole, Secret, StreamFault};
use trunkline_proto::{Disconnect, FaultCode, Frame, VersionRange};

use crate::rig::{SIZE, World, ms, options};

/// The hello of a dialler that acts in the name of `end` and knows its peer.
fn hello_as(end: StreamEnd, of: &Link<impl LinkRole>) -> StreamHello {
    StreamHello {
        versions: VersionRange::OURS,
        end,
        peer: Some(of.options().incarnation),
        attempt: 1_000_000,
        ticket: None,
        share: Some(Secret([0x77; 32])),
        proof: None,
    }
}

/// Hellos of an attacker that knows everything but the secret.
fn attempts(hello: &StreamHello) -> Vec<StreamHello> {
    let mut tries = Vec::new();
    let proofs = [None, Some(Secret([0; 32])), Some(Secret([0xff; 32]))];
    let shares = [None, Some(Secret::default()), hello.share];
    for proof in proofs {
        for share in shares {
            tries.push(StreamHello {
                proof,
                share,
                ..hello.clone()
            });
        }
    }
    // With a state that moves the stream, if it counts.
    let mut more = hello.clone();
    more.end.state = match more.end.state {
        EndState::Writer(_) => EndState::Writer(WriterState {
            kept: 0,
            kept_elements: 0,
            written: 100 * SIZE,
        }),
        EndState::Reader(_) => EndState::Reader(ReaderState {
            arrived: 3 * SIZE,
            arrived_elements: 3,
            read: 3 * SIZE,
            credit_bytes: 100 * SIZE,
            credit_elements: 100,
            ..ReaderState::default()
        }),
    };
    tries.push(more);
    tries
}

fn has_digits(sentence: &str) -> bool {
    sentence.contains(|c: char| c.is_ascii_digit())
}

/// A port of another user ends the first dial, so that its program reports it. It does not end a stream that
/// already has a peer, whose program may get its port back. If the user is unknown, the program at the port may
/// have closed it just then, so the end dials again.
///
/// Behaviour: B-80, NS-66.
#[test]
fn only_the_first_dial_to_a_port_of_another_user_is_final() {
    for (uid, has_peer, is_final) in [
        (Some(1001), false, true),
        (Some(1001), true, false),
        (None, false, false),
        (None, true, false),
    ] {
        let mut sut = match has_peer {
            true => World::connected(10, 10, true),
            false => World::new(10, 10, true),
        };
        if has_peer {
            sut.cut();
        }
        let (now, link) = (sut.now, &mut sut.writer.link);
        let cause = Disconnect::OtherUser {
            address: ([127, 0, 0, 1], 5900).into(),
            uid,
            own: 1000,
            is_engine: false,
        };
        link.handle_dial_failed(now, cause);
        let code = match link.fault() {
            Some(StreamFault::Refused { code, .. }) => Some(*code),
            Some(fault) => panic!("{fault:?}"),
            None => None,
        };
        let expected = is_final.then_some(FaultCode::Denied);
        assert_eq!(code, expected, "user {uid:?}, with a peer: {has_peer}");
        if !is_final {
            let dial = link.poll_dial().expect("it dials again");
            // A person must act before a port of another user is of use.
            assert_eq!(uid.is_some(), dial.since(now) >= ms(2500), "{dial:?}");
        }
    }
}

/// Behaviour: NS-66, NS-71.
#[test]
fn incarnation_and_later_dial_alone_do_not_take_over_an_endpoint() {
    for writer_dials in [true, false] {
        for is_cut in [false, true] {
            let mut sut = World::connected(10, 10, writer_dials);
            assert!(sut.write(5));
            sut.run(ms(20));
            assert!(sut.read(2));
            sut.run(ms(20));
            if is_cut {
                sut.cut();
                assert!(!sut.passive_is_connected());
            }
            let hello = match writer_dials {
                true => hello_as(sut.reader.link.peer().unwrap().clone(), &sut.reader.link),
                false => hello_as(sut.writer.link.peer().unwrap().clone(), &sut.writer.link),
            };
            for hello in attempts(&hello) {
                let now = sut.now;
                let refused = match writer_dials {
                    true => sut.reader.link.handle_hello(now, 99, &hello),
                    false => sut.writer.link.handle_hello(now, 99, &hello),
                };
                let refused = refused.expect_err("it is not the peer");
                assert_eq!(refused.code, FaultCode::Denied);
                // It learns nothing of how far the stream is.
                assert!(!has_digits(&refused.sentence), "{}", refused.sentence);
            }
            // Neither end has noticed.
            sut.heal();
            sut.run(ms(5000));
            assert_eq!(sut.writer.link.disconnections(), u64::from(is_cut));
            assert_eq!(sut.reader.link.disconnections(), u64::from(is_cut));
            assert!(sut.write(4));
            sut.run(ms(20));
            assert!(sut.read(7), "each element once, and in order");
            assert_eq!(
                (sut.writer.link.fault(), sut.reader.link.fault()),
                (None, None)
            );
        }
    }
}

/// Behaviour: NS-66, NS-71.
#[test]
fn dialling_end_accepts_only_a_peer_with_the_secret() {
    for writer_dials in [true, false] {
        let mut sut = World::connected(10, 10, writer_dials);
        assert!(sut.write(5));
        sut.run(ms(20));
        sut.cut();
        let end = match writer_dials {
            true => sut.writer.link.peer().unwrap().clone(),
            false => sut.reader.link.peer().unwrap().clone(),
        };
        for (share, proof) in [
            (None, None),
            (Some(Secret([1; 32])), None),
            (Some(Secret([1; 32])), Some(Secret([2; 32]))),
        ] {
            let mut welcome = StreamWelcome::new(end.clone());
            (welcome.share, welcome.proof) = (share, proof);
            let mut bytes = Vec::new();
            welcome.encode(&mut bytes);
            let (now, id) = (sut.now, 500);
            let close = match writer_dials {
                true => answered(&mut sut.writer.link, now, id, &bytes),
                false => answered(&mut sut.reader.link, now, id, &bytes),
            };
            let Some(Disconnect::Malformed { sentence }) = close else {
                panic!("{close:?}");
            };
            // The rest of its hello is ignored.
            assert!(sentence.contains("is not the endpoint"), "{sentence}");
        }
        // It dials again, and finds its peer.
        sut.heal();
        sut.run(ms(10_000));
        assert!(sut.read(5));
        assert!(sut.writer.link.is_connected() && sut.reader.link.is_connected());
        assert_eq!(
            (sut.writer.link.fault(), sut.reader.link.fault()),
            (None, None)
        );
    }
}

/// An end dials and gets this answer: why it closes.
fn answered<H: LinkRole>(
    link: &mut Link<H>,
    now: trunkline_types::Tick,
    id: u64,
    bytes: &[u8],
) -> Option<Disconnect> {
    link.handle_dialled(now, id, None);
    link.handle_control(now, id, bytes);
    assert!(!link.is_connected());
    let close = link.wants_close().cloned();
    link.handle_disconnected(now, id, Disconnect::ClosedLocally);
    close
}

/// An overheard hello is useless to an attacker.
///
/// Behaviour: NS-66.
#[test]
fn overheard_hello_is_not_accepted_again() {
    let mut sut = World::connected(10, 10, true);
    assert!(sut.write(2));
    sut.run(ms(20));
    sut.cut();
    let now = sut.now;
    let mut said = Vec::new();
    sut.writer.link.handle_dialled(now, 700, None);
    let place = sut.writer.link.poll_output(now, &(), &mut said);
    assert_eq!(place, None);
    let hello = {
        let frame = Frame::take_from(&mut said.as_slice()).unwrap().unwrap();
        StreamHello::decode(&frame).unwrap()
    };
    assert!(hello.proof.is_some());
    sut.reader.link.handle_hello(now, 701, &hello).unwrap();
    let again = sut.reader.link.handle_hello(now, 702, &hello).unwrap_err();
    assert_eq!(again.code, FaultCode::StreamOutdated);
    // Nor with another number, which its proof is not of.
    let later = StreamHello {
        attempt: hello.attempt + 1,
        share: None,
        ..hello
    };
    // It was not received since: its next dial may arrive without an answer to the previous one.
    sut.reader
        .link
        .handle_disconnected(now, 701, Disconnect::PeerClosed);
    let refused = sut.reader.link.handle_hello(now, 703, &later);
    assert_eq!(refused.unwrap_err().code, FaultCode::Denied);
}

/// Behaviour: B-60.
#[test]
fn journal_accepts_a_new_run_of_its_peer_only_with_the_secret() {
    let (mut w, mut r) = options(10, 10, true);
    (w.has_journal, r.has_journal) = (true, true);
    let mut sut = World::with(w, r.clone());
    sut.run(ms(20));
    assert!(sut.write(3));
    sut.run(ms(20));
    let pair = *sut.reader.link.pair().unwrap();
    let end = sut.reader.link.peer().unwrap().clone();
    // The reader's program was restarted, and reportedly the writer's too.
    r.incarnation.0[0] = 77;
    r.pair = Some(pair);
    r.peer_lineage = Some(pair.lineage);
    let at = ReaderState {
        arrived: 3 * SIZE,
        arrived_elements: 3,
        ..ReaderState::default()
    };
    let mut restored = Link::restored_reader(r, at, 0, sut.now);
    let mut hello = hello_as(end, &restored);
    hello.end.incarnation.0[0] = 88;
    for hello in attempts(&hello) {
        let refused = restored.handle_hello(sut.now, 1, &hello).unwrap_err();
        assert_eq!(refused.code, FaultCode::Denied);
        assert!(!has_digits(&refused.sentence), "{}", refused.sentence);
    }
    assert_eq!(restored.fault(), None);
}

/// During an outage, another incarnation of the peer's name ends the stream only if the same account or
/// user has created it. Of an endpoint with a journal, even that is only another endpoint.
///
/// Behaviour: NS-66, NS-71, B-60.
#[test]
fn endpoint_of_another_identity_does_not_end_a_stream_during_an_outage() {
    let [daq, other] = ["account:daq", "account:other"].map(|name| Some(Arc::from(name)));
    for has_journal in [false, true] {
        let (w, mut r) = options(10, 10, true);
        r.has_journal = has_journal;
        let mut sut = World::with(w, r);
        sut.reader.caller = daq.clone();
        sut.run(ms(20));
        assert!(sut.write(5));
        sut.run(ms(20));
        assert_eq!(sut.reader.link.peer_identity(), daq.as_deref());
        sut.cut();
        let mut hello = hello_as(sut.reader.link.peer().unwrap().clone(), &sut.reader.link);
        hello.peer = None;
        hello.end.incarnation.0[0] = 88;
        hello.end.incarnation.0[8] = 88;
        for identity in [&None, &other] {
            let refused = sut
                .reader
                .link
                .handle_hello_of(sut.now, 99, &hello, identity);
            let refused = refused.expect_err("it is not the peer");
            assert_eq!(refused.code, FaultCode::Denied, "{}", refused.sentence);
            assert!(!has_digits(&refused.sentence), "{}", refused.sentence);
        }
        // The peer continues, and its connection proves that it is still the same.
        sut.heal();
        sut.run(ms(5000));
        assert!(sut.write(4));
        sut.run(ms(20));
        assert!(sut.read(9), "each element once, and in order");
        sut.cut();
        let refused = sut.reader.link.handle_hello_of(sut.now, 99, &hello, &daq);
        assert_eq!(refused.unwrap_err().code, FaultCode::StreamRestarted);
        let fault = (!has_journal).then_some(&StreamFault::PeerRestarted);
        assert_eq!(sut.reader.link.fault(), fault);
    }
}
