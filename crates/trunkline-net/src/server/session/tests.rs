//! Tests when a writer sends, and which work it leaves to the connection thread.

use std::io;
use std::sync::{Arc, Mutex};

use super::*;
use crate::transport::SendHalf;

const WALL: Timestamp = Timestamp::UNIX_EPOCH;

fn at(micros: u64) -> Tick {
    Tick::from_nanos(1_000_000_000 + micros * 1000)
}

/// The state of a fake session.
#[derive(Default)]
struct State {
    pending_bytes: usize,
    has_requests: bool,
    due: Option<Tick>,
    panics: bool,
    wants_no_input: bool,
    closes: bool,
    output_times: Vec<Tick>,
    /// The room in the transport, and below that the bytes it took.
    room: usize,
    taken: usize,
    fails: bool,
}

type Shared = Arc<Mutex<State>>;

struct FakeEndpoint(Shared);

impl Endpoint for FakeEndpoint {
    fn handle_connected(&mut self, _: Tick, _: Timestamp) {}

    fn handle_input(&mut self, _: Tick, _: Timestamp, _: &[u8]) {}

    fn wants_input(&self) -> bool {
        !self.0.lock().unwrap().wants_no_input
    }

    fn poll_output(&mut self, now: Tick, _: Timestamp, room: usize, out: &mut Vec<u8>) -> bool {
        let mut state = self.0.lock().unwrap();
        state.output_times.push(now);
        if state.panics {
            drop(state);
            panic!("a defect");
        }
        let count = state.pending_bytes.min(room);
        state.pending_bytes -= count;
        out.resize(out.len() + count, 0);
        state.pending_bytes > 0
    }

    fn lets_writers_send(&self) -> bool {
        !self.0.lock().unwrap().has_requests
    }

    fn poll_timeout(&self) -> Option<Tick> {
        self.0.lock().unwrap().due
    }

    fn handle_timeout(&mut self, _: Tick, _: Timestamp) {}

    fn handle_disconnected(&mut self, _: Tick, _: Disconnect) {}

    fn wants_close(&self) -> Option<Disconnect> {
        let closes = self.0.lock().unwrap().closes;
        closes.then_some(Disconnect::ClosedLocally)
    }
}

struct FakeTransport(Shared);

impl SendHalf for FakeTransport {
    fn try_write(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        let mut state = self.0.lock().unwrap();
        if state.fails {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let count = bytes.len().min(state.room);
        state.room -= count;
        state.taken += count;
        Ok((count > 0).then_some(count))
    }

    fn finish(&mut self) {}
}

/// Creates a session with three bytes to send, whose connection thread has had a turn.
fn sut() -> (Outlet, Shared) {
    let state = Shared::default();
    let endpoint = Box::new(FakeEndpoint(state.clone()));
    let outgoing = Outgoing::new(Box::new(FakeTransport(state.clone())));
    let mut outlet = Outlet::new(endpoint, outgoing);
    outlet.check();
    *state.lock().unwrap() = State {
        pending_bytes: 3,
        room: 1 << 20,
        ..State::default()
    };
    (outlet, state)
}

fn taken(state: &Shared) -> usize {
    state.lock().unwrap().taken
}

#[test]
fn writer_sends_after_silence_and_leaves_a_burst_to_the_thread() {
    let (mut sut, state) = sut();
    assert!(sut.send(at(100), WALL));
    assert_eq!(taken(&state), 3);
    state.lock().unwrap().pending_bytes = 3;
    assert!(!sut.send(at(119), WALL), "19 us after it");
    assert_eq!(taken(&state), 3);
    assert!(!sut.send(at(10_118), WALL), "the burst may go on");
    assert!(sut.send(at(10_119), WALL));
    assert_eq!(taken(&state), 6);
    state.lock().unwrap().pending_bytes = 3;
    assert!(sut.send(at(10_139), WALL), "20 us after it");
}

#[test]
fn writer_does_not_process_client_requests() {
    let (mut sut, state) = sut();
    state.lock().unwrap().has_requests = true;
    assert!(!sut.send(at(100), WALL));
    assert!(
        state.lock().unwrap().output_times.is_empty(),
        "it was not asked"
    );
}

#[test]
fn a_writer_sends_no_more_than_its_share() {
    let (mut sut, state) = sut();
    state.lock().unwrap().pending_bytes = 10 * WRITER_QUANTUM;
    assert!(!sut.send(at(100), WALL));
    assert_eq!(taken(&state), WRITER_QUANTUM);
}

#[test]
fn full_transport_is_left_to_the_thread_until_it_has_sent() {
    let (mut sut, state) = sut();
    state.lock().unwrap().room = 1;
    assert!(!sut.send(at(100), WALL));
    state.lock().unwrap().room = 100;
    assert!(!sut.send(at(200), WALL), "the thread waits for room");
    assert_eq!(taken(&state), 1);
}

#[test]
fn thread_is_notified_of_time_outs_input_changes_and_the_end() {
    type Change = fn(&mut State);
    let changes: [(&str, Change); 3] = [
        ("a time-out", |state| state.due = Some(at(500))),
        ("no input", |state| state.wants_no_input = true),
        ("the end", |state| state.closes = true),
    ];
    for (what, change) in changes {
        let (mut sut, state) = sut();
        change(&mut state.lock().unwrap());
        assert!(!sut.send(at(100), WALL), "{what}");
        assert_eq!(taken(&state), 3, "{what}: it is sent all the same");
    }
    // A time-out that the connection thread knows needs no turn, nor does a later time-out.
    let (mut sut, state) = self::sut();
    state.lock().unwrap().due = Some(at(500));
    sut.check();
    assert!(sut.send(at(100), WALL));
    state.lock().unwrap().due = Some(at(600));
    assert!(sut.send(at(200), WALL));
}

#[test]
fn failure_or_panic_ends_the_session_and_is_reported_to_the_thread() {
    let (mut sut, state) = sut();
    state.lock().unwrap().fails = true;
    assert!(!sut.send(at(100), WALL));
    assert!(!sut.send(at(200), WALL), "it is of no further use");
    assert_eq!(state.lock().unwrap().output_times.len(), 1);
    assert!(sut.take_failure().is_some() && sut.take_failure().is_none());

    let (mut sut, state) = self::sut();
    state.lock().unwrap().panics = true;
    assert!(!sut.send(at(100), WALL));
    assert!(sut.has_panicked() && sut.take_failure().is_none());
    state.lock().unwrap().panics = false;
    assert!(!sut.send(at(20_000), WALL), "it is not asked again");
    assert_eq!(state.lock().unwrap().output_times.len(), 1);
    assert_eq!(taken(&state), 0);
}

#[test]
fn endpoint_times_never_decrease() {
    let (mut sut, state) = sut();
    assert!(sut.send(at(100), WALL));
    assert_eq!(sut.not_before(at(90)), at(100), "a turn that was late");
    assert_eq!(sut.not_before(at(190)), at(190));
    assert!(sut.send(at(180), WALL));
    assert_eq!(state.lock().unwrap().output_times, [at(100), at(190)]);
}
