//! F13 and F14: peers that send nonsense, half of something, or too much of it.

use std::io::{Read, Write};
use std::time::Duration;

use trunkline::{OpenOptions, SubscribeOptions};
use trunkline_net::Clock;
use trunkline_proto::{FrameHeader, FrameKind};
use trunkline_types::Contract;

use crate::engine::{Engine, Handles, config, names};
use crate::figures::{is_full, record, size};
use crate::raw::{Raw, hello};
use crate::view::View;
use crate::{CUT_OFF, alone, until};

/// An engine, and a client of it whose life continues all the while.
struct Sut {
    engine: Engine,
    client: trunkline::Client,
    handles: Handles,
    session: u64,
    count: f64,
}

impl Sut {
    fn start() -> Self {
        let engine = Engine::start(&config(4, "f64", ""));
        let client = engine.client();
        let handles = Handles::open(&client, &names(4));
        let session = client.wait_connected(CUT_OFF).unwrap().session;
        Self {
            engine,
            client,
            handles,
            session,
            count: 0.0,
        }
    }

    /// A write and a read of the client.
    fn goes_on(&mut self) {
        self.count += 1.0;
        self.handles.write(&self.client, self.count);
        let readings = self.handles.read(&self.client);
        let expected = trunkline_types::Value::F64(self.count);
        assert!(
            readings
                .iter()
                .all(|reading| reading.sample.value == expected)
        );
    }

    /// The client's own session is unchanged, and no other one remains.
    fn ends_well(&mut self) {
        until("the end of all other sessions", || {
            self.goes_on();
            (self.client.engine_info(CUT_OFF).unwrap().sessions == 1).then_some(())
        });
        let session = self.client.wait_connected(CUT_OFF).unwrap().session;
        assert_eq!(session, self.session, "it was never disconnected");
    }
}

/// Bytes that are nothing, the same in each run.
fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(next).take(600).collect()
}

/// Behaviour: B-83.
#[test]
fn garbage_before_the_hello_costs_no_memory_and_no_session() {
    let _alone = alone();
    let mut sut = Sut::start();
    sut.goes_on();
    let (before, descriptors) = (sut.engine.resident(), sut.engine.descriptors());
    let (clock, start) = (Clock::new(), Clock::new().now());
    let (peers, length) = (
        size(200, 1000),
        size(Duration::ZERO, Duration::from_secs(60)),
    );
    let (mut most, mut sent) = (before, 0u64);
    let mut crowd: Vec<Option<Raw>> = (0..peers).map(|_| None).collect();
    loop {
        for (index, place) in crowd.iter_mut().enumerate() {
            // Some send a little and wait, some send much, some connect repeatedly.
            let peer = place.get_or_insert_with(|| Raw::connect(sut.engine.address));
            let bytes = noise(sent);
            let part = match index % 3 {
                0 => &bytes[..3],
                1 => &bytes,
                _ => &bytes[..100],
            };
            peer.send(part);
            sent += 1;
            if index % 3 == 2 {
                *place = None;
            }
        }
        sut.goes_on();
        most = most.max(sut.engine.resident());
        for place in &mut crowd {
            // Those the engine has closed come again.
            *place = place
                .take()
                .filter(|peer| peer.0.take_error().is_ok_and(|e| e.is_none()));
        }
        if clock.now().since(start) >= length {
            break;
        }
    }
    drop(crowd);
    sut.ends_well();
    let grown = most.saturating_sub(before);
    assert!(grown <= 32 << 10, "{grown} KiB");
    until("the descriptors of before", || {
        (sut.engine.descriptors() <= descriptors).then_some(())
    });
    if is_full() {
        let check = format!("F14, {peers} peers that send garbage");
        record(
            &check,
            "increase in resident memory",
            &format!("{:.1} MiB", grown as f64 / 1024.0),
            "32 MiB",
        );
        record(&check, "other sessions dropped", "0", "0");
    }
}

#[test]
fn each_kind_of_garbage_is_answered_with_the_party_at_fault() {
    let _alone = alone();
    let mut sut = Sut::start();
    let address = sut.engine.address;
    let long = |kind: FrameKind, length: u32| {
        FrameHeader {
            length,
            kind: kind.number(),
            ..FrameHeader::default()
        }
        .to_bytes()
        .to_vec()
    };
    let before_hello = [
        (
            b"GET / HTTP/1.1\r\nHost: plant\r\n\r\n".to_vec(),
            "malformed",
            "not Trunkline's protocol",
        ),
        (
            long(FrameKind::Hello, 4097),
            "malformed",
            "4097 bytes, but at most 4096",
        ),
        (
            long(FrameKind::Hello, u32::MAX),
            "malformed",
            "4294967295 bytes, but at most 4096",
        ),
        (vec![0xff; 64], "malformed", "not Trunkline's protocol"),
    ];
    for (bytes, code, part) in before_hello {
        let mut peer = Raw::connect(address);
        peer.send(&bytes);
        let (said, sentence) = peer.last_words().expect("it is told why");
        assert_eq!(said, code);
        assert!(sentence.contains(part), "{sentence}");
    }
    let after_hello = [
        (
            long(FrameKind::Open, u32::MAX),
            "malformed",
            "4294967295 bytes, but at most",
        ),
        (long(FrameKind::Write, 12), "malformed", "bytes follow"),
        (hello(), "malformed", "a second HELLO"),
        (
            long(FrameKind::Welcome, 0),
            "malformed",
            "that engines send",
        ),
    ];
    for (mut bytes, code, part) in after_hello {
        let mut peer = Raw::greet(address);
        bytes.extend([0xff; 12]);
        peer.send(&bytes);
        let (said, sentence) = peer.last_words().expect("it is told why");
        assert_eq!(said, code, "{bytes:?}: {sentence}");
        assert!(sentence.contains(part), "{sentence}");
        sut.goes_on();
    }
    sut.ends_well();
}

#[test]
fn slow_senders_are_closed_and_block_no_other_peer() {
    let _alone = alone();
    let mut sut = Sut::start();
    let address = sut.engine.address;
    // Half of them never end their hello, half of them their first request.
    let mut slow: Vec<(Raw, Vec<u8>)> = (0..size(20, 80))
        .map(|index| match index % 2 {
            0 => (Raw::connect(address), hello()),
            _ => (Raw::greet(address), vec![64, 0, 0, 0, 32, 0]),
        })
        .collect();
    let mut at = 0;
    let clock = Clock::new();
    let start = clock.now();
    until("the end of the slow ones", || {
        sut.goes_on();
        for (peer, bytes) in &mut slow {
            if let Some(byte) = bytes.get(at / 100..at / 100 + 1) {
                // So slowly that it would last for minutes.
                if at % 100 == 0 && at / 100 + 1 < bytes.len() {
                    peer.send(byte);
                }
            }
        }
        at += 1;
        let sessions = sut.client.engine_info(CUT_OFF).unwrap().sessions;
        (sessions == 1).then_some(())
    });
    let took = clock.now().since(start);
    for (peer, _) in &mut slow {
        let (code, _) = peer.last_words().expect("each is told why");
        assert_eq!(code, "peer-silent");
    }
    sut.ends_well();
    if is_full() {
        record(
            "F13, slow-loris",
            "last of 80 closed after",
            &format!("{:.1} s", took.as_secs_f64()),
            "5 s",
        );
    }
}

#[test]
fn a_hundred_silent_peers_do_not_keep_a_client_out_for_long() {
    let _alone = alone();
    let mut sut = Sut::start();
    let silent: Vec<Raw> = (0..100).map(|_| Raw::connect(sut.engine.address)).collect();
    // It is refused while they are connected, gets the time to retry, and retries by itself.
    let newcomer = sut.engine.client();
    newcomer.wait_connected(CUT_OFF).unwrap();
    drop((silent, newcomer));
    sut.ends_well();
}

/// Behaviour: B-83.
#[test]
fn aborted_connections_leak_no_descriptor_and_no_memory() {
    let _alone = alone();
    let mut sut = Sut::start();
    sut.goes_on();
    let cycles = size(2000, 10_000);
    let cycle = |index: usize| {
        let mut peer = Raw::connect(sut.engine.address);
        match index % 5 {
            0 => {}
            1 => peer.send(&hello()),
            2 => peer.send(&hello()[..7]),
            3 => {
                peer.send(&hello());
                let _ = peer.0.read(&mut [0; 16]);
            }
            _ => {
                peer.send(&hello());
                // In order, for once.
                drop(peer);
                return;
            }
        }
        peer.abort();
    };
    (0..cycles / 10).for_each(cycle);
    until("the end of the first ones", || {
        (sut.engine.descriptors() <= 64).then_some(())
    });
    let (descriptors, memory) = (sut.engine.descriptors(), sut.engine.resident());
    (0..cycles).for_each(cycle);
    sut.ends_well();
    until("the descriptors of before", || {
        (sut.engine.descriptors() <= descriptors).then_some(())
    });
    let grown = sut.engine.resident().saturating_sub(memory);
    assert!(grown < 16 << 10, "{grown} KiB after {cycles} connections");
    if is_full() {
        let check = format!("F12, {cycles} connects and aborts");
        let now = sut.engine.descriptors() as i64 - descriptors as i64;
        record(
            &check,
            "increase in open descriptors",
            &now.to_string(),
            "0",
        );
        record(
            &check,
            "increase in resident memory",
            &format!("{grown} KiB"),
            "",
        );
    }
}

/// Behaviour: B-83.
#[test]
fn repeated_subscribing_and_unsubscribing_leaks_nothing() {
    let _alone = alone();
    let mut sut = Sut::start();
    let other = sut.engine.client();
    let churn = |rounds: usize| {
        for round in 0..rounds {
            let contract = [Contract::Latest, Contract::Last(1000), Contract::ALL][round % 3];
            let options = SubscribeOptions::default();
            let subscription = other.subscribe(&names(4), contract, options).unwrap();
            if round % 2 == 0 {
                let mut view = View::default();
                while view.readings < 4 {
                    view.take(subscription.next(Some(CUT_OFF)).expect("a first reading"));
                }
            }
        }
        // Answered after everything that was asked before it.
        let opened = other.open(&names(1), OpenOptions::default(), CUT_OFF);
        let variable = opened.unwrap().remove(0).unwrap().variable;
        assert!(other.read(&[variable], CUT_OFF).unwrap()[0].is_ok());
    };
    sut.goes_on();
    churn(200);
    let memory = sut.engine.resident();
    churn(size(2000, 100_000));
    let grown = sut.engine.resident().saturating_sub(memory);
    assert!(grown < 8 << 10, "{grown} KiB");
    let info = sut.client.info(&sut.handles.0, CUT_OFF).unwrap();
    let subscribers = info.iter().map(|info| info.as_ref().unwrap().subscribers);
    assert_eq!(subscribers.collect::<Vec<_>>(), vec![0; info.len()]);
    drop(other);
    sut.ends_well();
}

/// Half-closed peers: their requests are answered, and then they are closed.
#[test]
fn half_closed_peer_gets_its_answer_and_is_closed() {
    let _alone = alone();
    let mut sut = Sut::start();
    let mut peer = Raw::greet(sut.engine.address);
    let mut bytes = Vec::new();
    trunkline_proto::message::why::Why { name: "rig/v0" }.encode(7, &mut bytes);
    peer.0.write_all(&bytes).unwrap();
    peer.0.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(peer.next_kind(), Some(FrameKind::WhyAnswer));
    assert_eq!(peer.next_kind(), None);
    sut.ends_well();
}
