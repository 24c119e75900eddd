//! Explores schedules of writers that try to send, and of connection threads that take their turns
//! and sleep. No marked data stays unsent while the thread sleeps, nothing is sent twice, the
//! thread knows every time-out, and no two threads wait for each other.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test -p trunkline-net shuttle_`

use std::io;
use std::sync::Arc;
use std::time::Duration;

use mio::Token;
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use shuttle::thread;
use trunkline_proto::{Disconnect, Endpoint};

use super::*;
use crate::outgoing::{Flush, Outgoing};
use crate::server::mailbox::tests::Bell;
use crate::transport::SendHalf;

const SCHEDULES: usize = 50_000;
const WALL: Timestamp = Timestamp::UNIX_EPOCH;

/// Returns one of a few times. Two such times may be apart by the quiet time between two sends of
/// writers, by the quiet time after a burst, or by neither.
fn any_time() -> Tick {
    let (short, long) = (thread_rng().gen_range(0..5), thread_rng().gen_range(0..3));
    Tick::from_nanos(1_000_000 + short * 10_000 + long * 20_000_000)
}

/// The state of a connection that writers and the peer see.
#[derive(Default)]
struct ConnectionState {
    /// Number of marks that are not encoded yet.
    marked: AtomicU64,
    arrived: AtomicU64,
    writing: AtomicBool,
}

/// A session that sends one byte for each mark.
struct FakeEndpoint {
    state: Arc<ConnectionState>,
    due: Option<Tick>,
}

impl Endpoint for FakeEndpoint {
    fn handle_connected(&mut self, _: Tick, _: Timestamp) {}

    fn handle_input(&mut self, _: Tick, _: Timestamp, _: &[u8]) {}

    fn poll_output(&mut self, now: Tick, _: Timestamp, room: usize, out: &mut Vec<u8>) -> bool {
        let marked = self.state.marked.swap(0, Ordering::SeqCst);
        assert!(marked as usize <= room);
        out.resize(out.len() + marked as usize, 0);
        // Simulates a session that begins to wait for something.
        if thread_rng().gen_bool(0.2) {
            let due = now.saturating_add(Duration::from_nanos(thread_rng().gen_range(1..9)));
            self.due = Some(self.due.map_or(due, |known| known.min(due)));
        }
        false
    }

    fn lets_writers_send(&self) -> bool {
        thread_rng().gen_bool(0.9)
    }

    fn poll_timeout(&self) -> Option<Tick> {
        self.due
    }

    fn handle_timeout(&mut self, _: Tick, _: Timestamp) {}

    fn handle_disconnected(&mut self, _: Tick, _: Disconnect) {}

    fn wants_close(&self) -> Option<Disconnect> {
        None
    }
}

/// A transport that is full at random times.
struct FakeTransport(Arc<ConnectionState>);

impl SendHalf for FakeTransport {
    fn try_write(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        assert!(!self.0.writing.swap(true, Ordering::SeqCst), "two senders");
        thread::yield_now();
        self.0.writing.store(false, Ordering::SeqCst);
        if thread_rng().gen_bool(0.1) {
            return Ok(None);
        }
        let count = thread_rng().gen_range(1..=bytes.len());
        self.0.arrived.fetch_add(count as u64, Ordering::SeqCst);
        Ok(Some(count))
    }

    fn finish(&mut self) {}
}

/// The result of a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    Done,
    Again,
    /// A writer had the outlet.
    Taken,
}

/// A connection with its own thread.
struct Rig {
    state: Arc<ConnectionState>,
    bell: Arc<Bell>,
    mailbox: Arc<Mailbox<Mail, Arc<Bell>>>,
    sut: Target<Arc<Bell>>,
}

impl Rig {
    fn new() -> Arc<Self> {
        let (state, bell) = (
            Arc::new(ConnectionState::default()),
            Arc::new(Bell::default()),
        );
        let mailbox = Arc::new(Mailbox::new(bell.clone()));
        let sut = Target::new(SessionKey::from_token(Token(1)), mailbox.clone());
        let endpoint = Box::new(FakeEndpoint {
            state: state.clone(),
            due: None,
        });
        let outgoing = Outgoing::new(Box::new(FakeTransport(state.clone())));
        sut.open(Outlet::new(endpoint, outgoing));
        Arc::new(Self {
            state,
            bell,
            mailbox,
            sut,
        })
    }

    /// Writes: marks, and sends if nothing was marked before.
    fn write(&self) {
        if self.state.marked.fetch_add(1, Ordering::SeqCst) == 0 {
            self.sut.send(any_time(), WALL);
        }
    }

    /// Takes a turn, which runs `others` while it has the outlet.
    fn turn(&self, others: &mut dyn FnMut()) -> Turn {
        self.sut.accept();
        let Some(mut guard) = self.sut.turn() else {
            return Turn::Taken;
        };
        let outlet = guard.as_mut().unwrap();
        assert!(outlet.take_failure().is_none());
        others();
        let now = outlet.not_before(any_time());
        let Outlet {
            endpoint, outgoing, ..
        } = outlet;
        let flush = outgoing.flush(&mut **endpoint, now, WALL, 1 << 10, || false);
        let flush = flush.unwrap();
        outlet.check();
        match flush {
            Flush::Done => Turn::Done,
            _ => Turn::Again,
        }
    }

    /// The main loop of the connection thread, until it must end and all earlier work is done.
    fn run(&self, mut others: impl FnMut()) {
        let (mut mail, mut last, mut is_over) = (Vec::new(), Turn::Done, false);
        while !(is_over && last == Turn::Done) {
            // A thread that found no room is woken when there is room. A thread that found the
            // outlet in use by a writer waits only for the writer's notification.
            let idle = last != Turn::Again;
            if idle && self.mailbox.fall_asleep() {
                self.bell.wait();
            }
            self.mailbox.wake_up();
            self.mailbox.take(&mut mail);
            let mut due = !idle;
            for message in mail.drain(..) {
                match message {
                    Mail::Shutdown { .. } => is_over = true,
                    _ => due = true,
                }
            }
            if due {
                last = self.turn(&mut others);
            }
        }
    }

    fn end(&self) {
        self.mailbox.post(Mail::Shutdown {
            deadline: Tick::MAX,
        });
    }

    fn check(&self, written: u64) {
        assert_eq!(self.state.arrived.load(Ordering::SeqCst), written);
        let guard = self.sut.outlet();
        let outlet = guard.as_ref().unwrap();
        assert!(
            outlet.knows_deadline(),
            "a time-out that the thread does not know of"
        );
    }
}

#[test]
fn shuttle_marked_update_is_sent_by_the_first_available_thread() {
    shuttle::check_random(
        || {
            let rig = Rig::new();
            // A session gets its first turn at once.
            rig.sut.notify();
            let own = rig.clone();
            let thread = thread::spawn(move || own.run(|| {}));
            let writers: Vec<_> = (0..2)
                .map(|_| {
                    let own = rig.clone();
                    thread::spawn(move || (0..3).for_each(|_| own.write()))
                })
                .collect();
            writers.into_iter().for_each(|one| one.join().unwrap());
            rig.end();
            thread.join().unwrap();
            rig.check(6);
        },
        SCHEDULES,
    );
}

#[test]
fn shuttle_connection_threads_sending_for_each_other_never_deadlock() {
    const ROUNDS: u64 = 2;
    shuttle::check_random(
        || {
            let rigs = [Rig::new(), Rig::new()];
            let written = Arc::new(AtomicU64::new(0));
            let threads: Vec<_> = (0..2)
                .map(|at| {
                    let (own, other) = (rigs[at].clone(), rigs[1 - at].clone());
                    own.sut.notify();
                    let (mut left, written) = (ROUNDS, written.clone());
                    thread::spawn(move || {
                        own.clone().run(|| {
                            // Simulates the last frame of a run that changed a variable of the
                            // other session.
                            if left > 0 {
                                left -= 1;
                                other.write();
                                own.sut.notify();
                                written.fetch_add(1, Ordering::SeqCst);
                            }
                        });
                    })
                })
                .collect();
            while written.load(Ordering::SeqCst) < 2 * ROUNDS {
                thread::yield_now();
            }
            rigs.iter().for_each(|rig| rig.end());
            threads.into_iter().for_each(|one| one.join().unwrap());
            rigs.iter().for_each(|rig| rig.check(ROUNDS));
        },
        SCHEDULES / 5,
    );
}
