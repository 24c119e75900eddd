//! Threads and tasks that wait on one link.
#![cfg(not(shuttle))]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod echo;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use echo::{Caller, CallerLink, Over, Rig, cut_off};
use trunkline_net::{Clock, Link, LinkOptions};
use trunkline_proto::{Disconnect, Endpoint};
use trunkline_types::{Tick, Timestamp};

/// A minimal executor.
fn block_on<R>(future: impl Future<Output = R>) -> R {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => thread::park(),
        }
    }
}

async fn call(link: &Link<Caller>, message: &[u8]) -> Vec<u8> {
    link.send(message);
    link.wait(cut_off(), |caller, _| {
        let at = caller
            .received
            .iter()
            .position(|received| received == message)?;
        caller.received.remove(at)
    })
    .await
    .expect("an answer")
}

#[test]
fn a_task_gets_its_answer() {
    let rig = Rig::new(Over::Tcp);
    let sut = rig.link();
    for _ in 0..1000 {
        assert_eq!(block_on(call(&sut, b"hello")), b"hello");
    }
}

#[test]
fn tasks_and_threads_share_a_connection() {
    let rig = Rig::new(Over::Tcp);
    let sut = rig.link();
    thread::scope(|scope| {
        for user in 0..4u32 {
            let sut = &sut;
            scope.spawn(move || {
                for index in 0..1000u32 {
                    let message = [user.to_le_bytes(), index.to_le_bytes()].concat();
                    if user % 2 == 0 {
                        block_on(call(sut, &message));
                        continue;
                    }
                    sut.send(&message);
                    sut.wait_until(cut_off(), |caller, _| {
                        let mut received = caller.received.iter();
                        let at = received.position(|received| *received == message)?;
                        caller.received.remove(at)
                    })
                    .expect("an answer");
                }
            });
        }
    });
}

#[test]
fn a_task_is_woken_at_its_deadline() {
    let rig = Rig::new(Over::Tcp);
    let sut = rig.link();
    sut.wait_connected();
    let deadline = Clock::new().now().saturating_add(Duration::from_millis(20));
    let answer: Option<()> = block_on(sut.wait(Some(deadline), |_, _| None));
    assert_eq!(answer, None);
    assert!(Clock::new().now() >= deadline);
}

#[test]
fn a_task_with_a_deadline_is_woken_while_a_thread_drives() {
    let rig = Rig::new(Over::Tcp);
    let sut = rig.link();
    sut.wait_connected();
    thread::scope(|scope| {
        let driving = scope.spawn(|| {
            sut.wait_until(cut_off(), |caller, _| {
                (caller.connections == 7).then_some(())
            })
        });
        for _ in 0..3 {
            let deadline = Clock::new().now().saturating_add(Duration::from_millis(10));
            let answer: Option<()> = block_on(sut.wait(Some(deadline), |_, _| None));
            assert_eq!(answer, None);
        }
        sut.with(|caller, _, _| caller.connections = 7);
        sut.wake_waiters();
        assert_eq!(driving.join().unwrap(), Some(()));
    });
}

#[test]
fn a_closed_link_ends_the_wait_of_a_task() {
    let rig = Rig::new(Over::Tcp);
    let sut = rig.link();
    sut.wait_connected();
    thread::scope(|scope| {
        let (sender, looked) = std::sync::mpsc::channel();
        let waiting = scope.spawn(|| {
            block_on(sut.wait(None, move |_, _| -> Option<()> {
                sender.send(()).unwrap();
                None
            }))
        });
        looked.recv_timeout(echo::CUT_OFF).unwrap();
        sut.close(Clock::new().now());
        assert_eq!(waiting.join().unwrap(), None);
    });
    assert_eq!(
        block_on(sut.wait(None, |_, _| None::<()>)),
        None,
        "nor does it begin"
    );
}

#[test]
fn a_waiter_that_panics_passes_the_role_on() {
    let rig = Rig::new(Over::Tcp);
    let sut = rig.link();
    sut.wait_connected();
    sut.send(b"first");
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        sut.wait_until(cut_off(), |caller, _| -> Option<()> {
            assert!(caller.received.is_empty(), "on purpose");
            None
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(sut.receive(), b"first");
    assert_eq!(sut.call(b"second"), b"second");
}

#[test]
fn change_by_one_thread_wakes_the_waiting_threads() {
    let rig = Rig::new(Over::Tcp);
    let sut = rig.link();
    sut.wait_connected();
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    sut.wait_until(cut_off(), |caller, _| {
                        (caller.connections == 7).then_some(())
                    })
                })
            })
            .collect();
        sut.with(|caller, _, _| caller.connections = 7);
        sut.wake_waiters();
        for waiter in waiting {
            assert_eq!(waiter.join().unwrap(), Some(()));
        }
    });
}

#[test]
fn input_after_a_long_wait_is_processed_without_a_waiter() {
    let rig = Rig::new(Over::Tcp);
    let sut = rig.link();
    sut.wait_connected();
    for _ in 0..3 {
        // Long enough for the background thread to stop looking.
        let deadline = Clock::new().now().saturating_add(Duration::from_millis(30));
        let answer: Option<()> = sut.wait_until(Some(deadline), |_, _| None);
        assert_eq!(answer, None);
        sut.send(b"hello");
        let until = cut_off().unwrap();
        let mut looks =
            std::iter::repeat_with(|| sut.with(|caller, _, _| caller.received.pop_front()));
        let found = looks.find(|found| found.is_some() || Clock::new().now() > until);
        assert_eq!(found, Some(Some(b"hello".to_vec())));
    }
}

/// Panics at the first byte.
#[derive(Default)]
struct Fragile {
    hello: bool,
}

impl Endpoint for Fragile {
    fn handle_connected(&mut self, _: Tick, _: Timestamp) {
        self.hello = true;
    }
    fn handle_input(&mut self, _: Tick, _: Timestamp, _: &[u8]) {
        panic!("on purpose");
    }
    fn poll_output(&mut self, _: Tick, _: Timestamp, _: usize, out: &mut Vec<u8>) -> bool {
        if std::mem::take(&mut self.hello) {
            out.extend(b"hello");
        }
        false
    }
    fn poll_timeout(&self) -> Option<Tick> {
        None
    }
    fn handle_timeout(&mut self, _: Tick, _: Timestamp) {}
    fn handle_disconnected(&mut self, _: Tick, _: Disconnect) {}
    fn wants_close(&self) -> Option<Disconnect> {
        None
    }
    fn poll_dial(&self) -> Option<Tick> {
        Some(Tick::ZERO)
    }
}

#[test]
fn a_defect_on_the_background_thread_ends_the_link_instead_of_hanging_it() {
    let rig = Rig::new(Over::Tcp);
    let options = LinkOptions::default();
    let sut = Link::start(rig.dialler(), Fragile::default(), options).unwrap();
    let until = cut_off().unwrap();
    while !sut.is_closed() {
        assert!(Clock::new().now() < until, "it hangs");
    }
    assert_eq!(sut.wait_until(None, |_, _| None::<()>), None);
    assert_eq!(block_on(sut.wait(None, |_, _| None::<()>)), None);
}

/// Answers a question when it could send it, without the peer.
#[derive(Default)]
struct Refusing {
    is_connected: bool,
    is_asked: bool,
    is_answered: bool,
}

impl Endpoint for Refusing {
    fn handle_connected(&mut self, _: Tick, _: Timestamp) {
        self.is_connected = true;
    }
    fn handle_input(&mut self, _: Tick, _: Timestamp, _: &[u8]) {}
    fn poll_output(&mut self, _: Tick, _: Timestamp, _: usize, _: &mut Vec<u8>) -> bool {
        self.is_answered |= std::mem::take(&mut self.is_asked);
        false
    }
    fn poll_timeout(&self) -> Option<Tick> {
        None
    }
    fn handle_timeout(&mut self, _: Tick, _: Timestamp) {}
    fn handle_disconnected(&mut self, _: Tick, _: Disconnect) {}
    fn wants_close(&self) -> Option<Disconnect> {
        None
    }
    fn poll_dial(&self) -> Option<Tick> {
        Some(Tick::ZERO)
    }
}

#[test]
fn a_call_that_ends_when_it_is_sent_is_answered_at_once() {
    let rig = Rig::new(Over::Tcp);
    let sut = Link::start(rig.dialler(), Refusing::default(), LinkOptions::default()).unwrap();
    let connected = sut.wait_until(cut_off(), |sut, _| sut.is_connected.then_some(()));
    assert_eq!(connected, Some(()));
    let ask = |sut: &mut Refusing, _| {
        sut.is_asked = true;
        Ok::<_, ()>(())
    };
    let taken = |sut: &mut Refusing| std::mem::take(&mut sut.is_answered).then_some(());
    // Neither waits.
    let now = Some(Tick::ZERO);
    let answer = sut.call_until(now, ask, |sut, ()| taken(sut));
    assert_eq!(answer, Ok(((), Some(()))));
    let mut is_first = true;
    let answered = sut.wait(now, |sut, _| {
        sut.is_asked = std::mem::take(&mut is_first);
        taken(sut)
    });
    assert_eq!(block_on(answered), Some(()));
}

#[test]
fn unanswered_link_is_closed_at_once() {
    let rig = Rig::new(Over::Tcp);
    rig.stop();
    let sut = rig.link_of(Caller::redialling());
    sut.wait_disconnected();
    drop(sut);
}

#[test]
fn a_link_dropped_by_its_own_background_thread_ends() {
    struct DropLink(std::sync::Mutex<Option<Arc<Link<Caller>>>>);
    impl Wake for DropLink {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().unwrap().take());
        }
    }
    let rig = Rig::new(Over::Tcp);
    let sut = rig.link();
    sut.wait_connected();
    sut.send(b"hello");
    let dropper = Arc::new(DropLink(std::sync::Mutex::new(None)));
    let waker = Waker::from(dropper.clone());
    let poll = sut.poll_until(&mut Context::from_waker(&waker), None, |_, _| None::<()>);
    assert!(poll.is_pending());
    *dropper.0.lock().unwrap() = Some(sut);
    drop(waker);
    let other = rig.link();
    while rig.server().counters().sessions > 1 {
        other.call(b"round trip");
    }
}
