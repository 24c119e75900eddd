//! The thread that calls a closure when it is due.

use std::fmt;
use std::io;
use std::thread::{self, JoinHandle};

use trunkline_types::{Tick, Timestamp};

use crate::clock::Clock;
use crate::server::never_send_on_this_thread;
use crate::sync::{Arc, Condvar, Mutex, lock, wait, wait_timeout};

/// A thread that calls a closure, such as an engine's `poll`, at the times that the closure
/// requests.
///
/// Dropping it ends the thread, after any call of the closure that is in progress.
pub struct Housekeeper {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    woken: bool,
    stopped: bool,
}

impl Housekeeper {
    /// Calls `work` at once, then at each tick that `work` returns and after each
    /// [`wake`](Self::wake). After `work` returns `None`, only `wake` causes another call.
    pub fn start(
        clock: Clock,
        mut work: impl FnMut(Tick, Timestamp) -> Option<Tick> + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let in_thread = shared.clone();
        let body = move || {
            // This thread must not send for sessions: a slow socket would delay the next due call.
            never_send_on_this_thread();
            while !in_thread.is_stopped() {
                let (now, wall) = clock.moment();
                let due = work(now, wall);
                in_thread.sleep(clock, due);
            }
        };
        let thread = thread::Builder::new()
            .name("trunkline-tick".to_owned())
            .spawn(body)?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Makes the thread call the closure soon. Use this if something may be due earlier than the
    /// tick that the closure last returned. Does not wait for the call.
    pub fn wake(&self) {
        lock(&self.shared.state).woken = true;
        self.shared.changed.notify_one();
    }
}

impl Shared {
    fn is_stopped(&self) -> bool {
        lock(&self.state).stopped
    }

    fn sleep(&self, clock: Clock, due: Option<Tick>) {
        let mut state = lock(&self.state);
        while !state.woken && !state.stopped {
            match due.map(|due| due.since(clock.now())) {
                None => state = wait(&self.changed, state),
                Some(rest) if rest.is_zero() => break,
                Some(rest) => state = wait_timeout(&self.state, &self.changed, state, rest),
            }
        }
        state.woken = false;
    }
}

impl Drop for Housekeeper {
    fn drop(&mut self) {
        lock(&self.shared.state).stopped = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            // If the closure panicked, the thread has ended already.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Housekeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Housekeeper").finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    const CUT_OFF: Duration = Duration::from_secs(60);

    #[test]
    fn work_runs_when_it_is_due() {
        let (sender, calls) = channel();
        let work = move |now: Tick, _: Timestamp| {
            sender.send(now).unwrap();
            Some(now.saturating_add(Duration::from_millis(2)))
        };
        let sut = Housekeeper::start(Clock::new(), work).unwrap();
        let first = calls.recv_timeout(CUT_OFF).unwrap();
        let second = calls.recv_timeout(CUT_OFF).unwrap();
        assert!(second >= first.saturating_add(Duration::from_millis(2)));
        drop(sut);
    }

    #[test]
    fn work_is_called_early_when_woken_and_not_before() {
        let (sender, calls) = channel();
        let work = move |now: Tick, _: Timestamp| {
            sender.send(now).unwrap();
            None
        };
        let sut = Housekeeper::start(Clock::new(), work).unwrap();
        calls.recv_timeout(CUT_OFF).unwrap();
        sut.wake();
        calls.recv_timeout(CUT_OFF).unwrap();
        drop(sut);
        assert!(calls.try_recv().is_err(), "called only when woken");
    }
}
