//! Creating the two endpoints: when it succeeds, and which of the two learns what, when.

use std::collections::VecDeque;
use std::time::Duration;

use trunkline_proto::frame::Frame;
use trunkline_proto::message::stream::StreamHello;
use trunkline_proto::message::stream::control::encode_refused;
use trunkline_proto::stream::{Link, LinkOptions, ReaderLink, Role, StreamFault, WriterLink};
use trunkline_proto::{Disconnect, FaultCode};
use trunkline_types::{DataType, Tick};

use crate::rig::ms;

/// The outcome of a creation that waits for at most [`PATIENCE`].
#[derive(Clone, PartialEq, Eq, Debug)]
enum Created {
    /// It returns, because the two are linked.
    Linked,
    /// It returns an error as soon as that is known.
    Refused(FaultCode),
    /// It waits to its end.
    TimedOut,
}

const PATIENCE: Duration = Duration::from_secs(20);

/// Either kind of end.
enum Any {
    Writer(Box<WriterLink>),
    Reader(Box<ReaderLink>),
}

macro_rules! link {
    ($any:expr, $link:ident => $body:expr) => {
        match $any {
            Any::Writer($link) => $body,
            Any::Reader($link) => $body,
        }
    };
}

/// One program's creation of an endpoint.
#[derive(Clone)]
struct Create {
    url: &'static str,
    peer: &'static str,
    writes: bool,
    data_type: DataType,
    /// When it begins, in ms.
    at: u64,
}

fn writer(url: &'static str, peer: &'static str) -> Create {
    Create {
        url,
        peer,
        writes: true,
        data_type: DataType::F64,
        at: 0,
    }
}

fn reader(url: &'static str, peer: &'static str) -> Create {
    Create {
        writes: false,
        ..writer(url, peer)
    }
}

impl Create {
    fn link(&self, life: u8, now: Tick) -> Any {
        let mut options = LinkOptions::fixed(self.url, self.data_type.clone(), 8, 5);
        options.peer_url = self.peer.to_owned();
        options.incarnation.0[0] = life;
        options.seed = u64::from(life);
        if !self.peer.is_empty() {
            options.role = Role::Active;
        }
        match self.writes {
            true => Any::Writer(Box::new(Link::writer(options, now))),
            false => Any::Reader(Box::new(Link::reader(options, now))),
        }
    }
}

/// Bytes in transit: over which connection, to which end, when they come.
type Sent = (Tick, u64, usize, Vec<u8>);

/// Runs two creations. Returns the outcome of each, the end that dialled, and the time at which
/// each was over.
fn create(ends: [Create; 2]) -> ([Created; 2], Option<usize>, [Duration; 2]) {
    let start = Tick::from_nanos(1);
    let mut links: [Option<Any>; 2] = [None, None];
    let mut sent: VecDeque<Sent> = VecDeque::new();
    // The end that dialled, by connection.
    let mut dialled: Vec<usize> = Vec::new();
    let mut results: [Option<(Created, Duration)>; 2] = [None, None];
    let mut opened = None;
    for step in 0..(PATIENCE.as_millis() as u64 + 25_000) {
        let now = start.saturating_add(ms(step));
        for (index, end) in ends.iter().enumerate() {
            if step == end.at {
                links[index] = Some(end.link(index as u8 + 1, now));
            }
            let waited = ms(step.saturating_sub(end.at));
            if results[index].is_none() && links[index].is_some() && waited >= PATIENCE {
                results[index] = Some((Created::TimedOut, waited));
                // Its name is free again.
                links[index] = None;
            }
        }
        while let Some((_, id, to, bytes)) = sent.pop_front_if(|(at, ..)| *at <= now) {
            receive(
                &mut links,
                now,
                (id, to, bytes),
                dialled[id as usize],
                &mut sent,
            );
        }
        for index in [0, 1] {
            // The directory: an endpoint can be dialled while it exists.
            let is_there = links[1 - index].is_some() && ends[index].peer == ends[1 - index].url;
            let Some(any) = &mut links[index] else {
                continue;
            };
            link!(any, link => {
                if link.poll_dial().is_some_and(|at| at <= now) {
                    if is_there {
                        dialled.push(index);
                        link.handle_dialled(now, dialled.len() as u64 - 1, None);
                    } else {
                        link.handle_dial_failed(now, Disconnect::PeerClosed);
                    }
                }
                if link.poll_timeout().is_some_and(|at| at <= now) {
                    link.handle_timeout(now);
                }
                let mut out = Vec::new();
                link.poll_output(now, &(), &mut out);
                if let (Some(id), false) = (link.connection(), out.is_empty()) {
                    sent.push_back((now.saturating_add(ms(2)), id, 1 - index, out));
                }
                if let (Some(id), Some(cause)) = (link.connection(), link.wants_close().cloned()) {
                    link.handle_disconnected(now, id, cause);
                }
                let waited = ms(step - ends[index].at);
                if results[index].is_none() && link.is_connected() {
                    results[index] = Some((Created::Linked, waited));
                    opened = link.connection().map(|id| dialled[id as usize]);
                }
                if let (None, Some(fault)) = (&results[index], link.fault()) {
                    let code = match fault {
                        StreamFault::Refused { code, .. } => *code,
                        other => panic!("{other}"),
                    };
                    results[index] = Some((Created::Refused(code), waited));
                    links[index] = None;
                }
            });
        }
    }
    let [one, other] = results.map(|result| result.expect("each has an outcome"));
    ([one.0, other.0], opened, [one.1, other.1])
}

fn receive(
    links: &mut [Option<Any>; 2],
    now: Tick,
    (id, to, bytes): (u64, usize, Vec<u8>),
    dialler: usize,
    sent: &mut VecDeque<Sent>,
) {
    let Some(any) = &mut links[to] else { return };
    let mut rest = bytes.as_slice();
    link!(any, link => {
        if dialler != to && link.connection() != Some(id) {
            let Ok(Some(frame)) = Frame::take_from(&mut rest) else { return };
            let Ok(hello) = StreamHello::decode(&frame) else { return };
            if let Err(refused) = link.handle_hello(now, id, &hello) {
                let mut out = Vec::new();
                encode_refused(&refused, &mut out);
                sent.push_back((now.saturating_add(ms(2)), id, 1 - to, out));
                return;
            }
        }
        link.handle_control(now, id, rest);
    });
}

const A: &str = "tl://localhost/a";
const B: &str = "tl://localhost/b";
const C: &str = "tl://localhost/c";

/// Behaviour: NS-12, NS-13, NS-18.
#[test]
fn creation_returns_at_both_ends_when_they_are_linked() {
    for late in [0, 1500] {
        for (one, other, dials) in [
            (writer(A, B), reader(B, ""), 0),
            (writer(A, ""), reader(B, A), 1),
            (reader(A, B), writer(B, ""), 0),
        ] {
            for [first, second] in [[0, late], [late, 0]] {
                let one = Create {
                    at: first,
                    ..one.clone()
                };
                let other = Create {
                    at: second,
                    ..other.clone()
                };
                let (created, opened, _) = create([one, other]);
                assert_eq!(created, [Created::Linked, Created::Linked]);
                assert_eq!(opened, Some(dials), "who names the other dials");
            }
        }
    }
}

/// Behaviour: NS-65.
#[test]
fn same_endpoint_of_a_pair_dials_in_any_order_of_creation() {
    for (one, other, dials) in [
        (writer(A, B), reader(B, A), 0),
        (writer(B, A), reader(A, B), 1),
        (
            // Hosts are not compared: a machine does not know all its own names.
            writer("tl://h/z", "tl://i/a"),
            reader("tl://i/a", "tl://h/z"),
            1,
        ),
        (
            writer("tl://h:x/a", "tl://h/z"),
            reader("tl://h/z", "tl://h:x/a"),
            1,
        ),
    ] {
        for [first, second] in [[0, 0], [0, 1], [1, 0], [0, 3], [3, 0], [0, 2500], [2500, 0]] {
            let one = Create {
                at: first,
                ..one.clone()
            };
            let other = Create {
                at: second,
                ..other.clone()
            };
            let (created, opened, _) = create([one, other]);
            assert_eq!(
                created,
                [Created::Linked, Created::Linked],
                "{first} {second}"
            );
            assert_eq!(opened, Some(dials), "{first} {second}");
        }
    }
}

/// Behaviour: NS-14.
#[test]
fn creation_without_a_peer_waits_to_its_time_out() {
    let late = Create {
        at: 21_000,
        ..reader(B, "")
    };
    let (created, _, waited) = create([writer(A, B), late]);
    assert_eq!(created, [Created::TimedOut, Created::TimedOut]);
    assert_eq!(waited, [PATIENCE, PATIENCE]);
}

/// Behaviour: NS-15.
#[test]
fn one_sided_match_fails_at_once_at_one_end_and_waits_at_the_other() {
    for (one, other) in [(writer(A, B), reader(B, C)), (reader(A, B), writer(B, C))] {
        let (created, _, waited) = create([one, other]);
        assert_eq!(created[0], Created::Refused(FaultCode::StreamPeer));
        assert!(waited[0] < ms(300), "{waited:?}");
        assert_eq!(created[1], Created::TimedOut);
    }
}

/// Behaviour: NS-16.
#[test]
fn another_type_or_the_same_direction_is_an_error_at_once() {
    let other_type = Create {
        data_type: DataType::I64,
        ..reader(B, "")
    };
    for (one, other, code) in [
        (writer(A, B), other_type, FaultCode::StreamType),
        (writer(A, B), writer(B, ""), FaultCode::StreamDirection),
        (reader(A, B), reader(B, ""), FaultCode::StreamDirection),
    ] {
        let (created, _, waited) = create([one, other]);
        assert_eq!(created[0], Created::Refused(code));
        assert!(waited[0] < ms(300), "{waited:?}");
    }
}

/// Behaviour: NS-17.
#[test]
fn endpoints_that_do_not_name_each_other_time_out() {
    let (created, _, waited) = create([writer(A, ""), reader(B, "")]);
    assert_eq!(created, [Created::TimedOut, Created::TimedOut]);
    assert_eq!(waited, [PATIENCE, PATIENCE]);
}
