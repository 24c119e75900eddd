//! The role of driving a connection. A waiting thread holds the role; a background thread holds it
//! only while no thread is waiting.
//!
//! ```text
//!                a waiter arrives
//!        +---------------------------+     a waiter arrives while the background thread sleeps:
//!        |                           v     takes over at once, and mutes the sleep, or ends it
//!       none <----- leaves ----- a waiter <---------------------------------------------------+
//!        |                           |  |                                                     |
//!        |                           |  +--- leaves while the thread sleeps on: resumes it -->|
//!        |                           +--> passes it to another, parked waiter                |
//!        |                                                                                    |
//!        +--- no waiter for a while, a task waits, or offline ------------------------> background
//! ```
//!
//! Every waiter that does not drive is *parked*. The driver wakes the parked waiters after every
//! change, and a waiter that leaves while the role is free passes it on. *Tasks* are waiters of
//! asynchronous code. They cannot drive, so the background thread drives while there are tasks and
//! no thread is waiting. While the connection is *offline*, the only work is to dial, which the
//! background thread does.
//!
//! A waiter that takes over from the sleeping background thread *mutes* its sleep: arriving data no
//! longer wakes the background thread, which sleeps on until the last waiter gives the role back to
//! it. A program that waits only occasionally therefore never wakes the background thread. A
//! program that makes one call after another would mute and resume the sleep with every call.
//! Therefore a waiter that takes over a second time within an interval wakes the background thread
//! instead. That thread then waits for the role until no thread has waited for a whole interval.

use std::task::Waker;
use std::time::Duration;

use trunkline_types::{Tick, Timestamp};

use crate::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering, lock, wait, wait_timeout};

/// After at least this number of takeovers in one interval, the background thread checks less
/// often: it may take [`CHECK_PERIODS_MAX`] intervals to notice that no waiter is left.
const MANY_TAKEOVERS: u64 = 64;

/// Maximum number of intervals between two checks; see [`MANY_TAKEOVERS`].
const CHECK_PERIODS_MAX: u32 = 4;

/// The lock around a connection's state `T`, with the role of its driver.
pub(crate) struct DriverRole<T> {
    state: Mutex<State<T>>,
    waiters: Condvar,
    background: RoleWait,
    /// Time without a driving waiter after which the background thread takes the role.
    idle: Duration,
}

/// Lets the background thread wait for the role. It has its own lock, because the connection's lock
/// is contended while waiters take and release the role.
#[derive(Default)]
struct RoleWait {
    signalled: Mutex<bool>,
    changed: Condvar,
    /// Number of times a waiter has taken the role.
    takeovers: AtomicU64,
}

pub(crate) type Moment = (Tick, Timestamp);

pub(crate) type Guard<'a, T> = MutexGuard<'a, State<T>>;

pub(crate) struct State<T> {
    pub(crate) data: T,
    read: fn() -> Moment,
    /// The time, read once since the lock was last taken and reused while it is held.
    moment: Option<Moment>,
    holder: Holder,
    offline: bool,
    stopping: bool,
    parked: usize,
    tasks: Vec<Task>,
    /// Threads and tasks to wake once the lock is free, so that they do not wake only to wait for
    /// the lock.
    pending_wakes: PendingWakes,
    /// Time at which a waiter last drove.
    last_driven: Tick,
    /// The background thread waits for the role without a time-out; a waiter that leaves the role
    /// free wakes it.
    background_sleeps: bool,
    /// The background thread was displaced and sleeps on, muted.
    muted: bool,
}

/// The sleep of the background thread, as seen by the waiters that displace it. Called under the
/// lock.
pub(crate) trait Sleep<T> {
    fn end(&self);
    /// Makes the sleep ignore arriving data.
    fn mute(&self);
    /// Makes arriving data, and anything due in `state`, end the sleep again.
    fn resume(&self, state: &mut State<T>);
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Holder {
    Nobody,
    Waiter,
    /// May be displaced while it is asleep.
    Background {
        asleep: bool,
    },
}

impl PendingWakes {
    fn any(&self) -> bool {
        self.all_parked || self.one_parked || self.background || !self.tasks.is_empty()
    }
}

pub(crate) enum Check<R> {
    Done(R),
    GiveUp,
    /// The condition is not met yet. The waiter has this much time left, or no time limit.
    Wait(Option<Duration>),
}

#[derive(Default)]
struct PendingWakes {
    tasks: Vec<Waker>,
    all_parked: bool,
    one_parked: bool,
    background: bool,
}

struct Task {
    waker: Waker,
    deadline: Option<Tick>,
}

impl<T> DriverRole<T> {
    /// Creates the role without a holder, for a connection that is offline.
    pub(crate) fn new(data: T, idle: Duration, read: fn() -> Moment) -> Self {
        let state = State {
            data,
            read,
            moment: None,
            holder: Holder::Nobody,
            offline: true,
            stopping: false,
            parked: 0,
            tasks: Vec::new(),
            pending_wakes: PendingWakes::default(),
            last_driven: Tick::ZERO,
            background_sleeps: false,
            muted: false,
        };
        Self {
            state: Mutex::new(state),
            waiters: Condvar::new(),
            background: RoleWait::default(),
            idle,
        }
    }

    pub(crate) fn lock(&self) -> Guard<'_, T> {
        forget_time(lock(&self.state))
    }

    /// Unlocks, and then wakes all waiters and tasks affected by a change.
    pub(crate) fn unlock(&self, mut guard: Guard<'_, T>) {
        let pending_wakes = std::mem::take(&mut guard.pending_wakes);
        drop(guard);
        if pending_wakes.all_parked {
            self.waiters.notify_all();
        } else if pending_wakes.one_parked {
            self.waiters.notify_one();
        }
        if pending_wakes.background {
            self.background.signal();
        }
        pending_wakes.tasks.into_iter().for_each(Waker::wake);
    }

    /// Waits until `check` succeeds or gives up. `check` runs under the lock `guard`, at once and
    /// after every change.
    ///
    /// `turn` drives: it unlocks, sleeps until something happens or the given time has passed,
    /// locks again and delivers input. `sleep` is the sleep of the background thread that this call
    /// may displace. A caller that gives up before it has had a turn gets one turn without sleep if
    /// no thread drives.
    pub(crate) fn wait<'a, R>(
        &'a self,
        guard: Guard<'a, T>,
        mut check: impl FnMut(&mut State<T>) -> Check<R>,
        mut turn: impl FnMut(Guard<'a, T>, Option<Duration>) -> Guard<'a, T>,
        sleep: &'a impl Sleep<T>,
    ) -> Option<R> {
        let mut call = WaitCall {
            role: self,
            sleep,
            holds_role: false,
            has_driven: false,
        };
        // Declared after `call`: if `check` panics, the guard is dropped first, and the drop of
        // `call` locks again.
        let mut guard = guard;
        loop {
            let timeout = match check(&mut guard) {
                Check::Done(answer) => {
                    call.end(guard);
                    return Some(answer);
                }
                Check::GiveUp if call.has_driven || !guard.is_free() => {
                    call.end(guard);
                    return None;
                }
                Check::GiveUp => Some(Duration::ZERO),
                Check::Wait(timeout) => timeout,
            };
            if guard.offline {
                call.give_back(&mut guard);
            }
            if !call.holds_role {
                call.holds_role = self.take(&mut guard, sleep);
                if !call.holds_role {
                    guard = self.park(guard, timeout);
                    continue;
                }
            }
            call.has_driven = true;
            guard = turn(guard, timeout);
        }
    }

    /// The main loop of the background thread: drives while no thread is waiting, until
    /// [`stop`](Self::stop).
    ///
    /// `turn` drives once. Around its sleep it calls [`fall_asleep`](State::fall_asleep) and
    /// [`wake_up`](State::wake_up).
    pub(crate) fn background<'a>(&'a self, mut turn: impl FnMut(Guard<'a, T>) -> Guard<'a, T>) {
        let mut guard = self.lock();
        loop {
            guard = self.acquire(guard);
            while matches!(guard.holder, Holder::Background { .. }) {
                if guard.stopping {
                    guard.holder = Holder::Nobody;
                } else if guard.parked > 0 && !guard.offline {
                    guard.holder = Holder::Nobody;
                    guard.pending_wakes.one_parked = true;
                } else {
                    guard = turn(guard);
                }
            }
            if guard.stopping {
                return self.unlock(guard);
            }
        }
    }

    /// Reports a change: parked waiters and tasks check again once the lock is free.
    pub(crate) fn changed(&self, state: &mut State<T>) {
        state.pending_wakes.all_parked |= state.parked > 0;
        let tasks = state.tasks.drain(..).map(|task| task.waker);
        state.pending_wakes.tasks.extend(tasks);
    }

    /// Adds a task that checks again at the next change, or at `deadline`.
    pub(crate) fn add_task(&self, state: &mut State<T>, waker: &Waker, deadline: Option<Tick>) {
        match state
            .tasks
            .iter_mut()
            .find(|task| task.waker.will_wake(waker))
        {
            Some(task) => task.deadline = deadline,
            None => state.tasks.push(Task {
                waker: waker.clone(),
                deadline,
            }),
        }
        state.pending_wakes.background |= state.holder == Holder::Nobody;
    }

    /// Ends every wait (whose checks call [`is_stopping`](State::is_stopping)) and the background
    /// thread. The caller ends the sleep of the driving thread.
    pub(crate) fn stop(&self, state: &mut State<T>) {
        state.stopping = true;
        state.pending_wakes.background = true;
        self.changed(state);
    }

    /// Sleeps until something changes, the role is free, or the time has passed.
    fn park<'a>(&'a self, mut guard: Guard<'a, T>, timeout: Option<Duration>) -> Guard<'a, T> {
        if guard.pending_wakes.any() {
            self.unlock(guard);
            return self.lock();
        }
        guard.parked += 1;
        let mut guard = forget_time(match timeout {
            Some(timeout) => wait_timeout(&self.state, &self.waiters, guard, timeout),
            None => wait(&self.waiters, guard),
        });
        guard.parked -= 1;
        guard
    }

    /// Passes the role on if it is free. A waiter calls this when it leaves, because other threads
    /// may have tried to take the role while this waiter held it.
    fn pass_on(&self, state: &mut State<T>, sleep: &impl Sleep<T>) {
        if state.holder != Holder::Nobody {
            return;
        }
        let muted = std::mem::take(&mut state.muted);
        if state.offline || state.stopping {
            state.pending_wakes.background = true;
            if muted {
                sleep.end();
            }
        } else if state.parked > 0 {
            state.pending_wakes.one_parked = true;
            state.muted = muted;
        } else if muted {
            state.holder = Holder::Background { asleep: true };
            sleep.resume(state);
        } else {
            state.pending_wakes.background |= state.background_sleeps || !state.tasks.is_empty();
        }
    }

    /// Waits until the background thread holds the role or must stop.
    fn acquire<'a>(&'a self, mut guard: Guard<'a, T>) -> Guard<'a, T> {
        let mut last_seen = None;
        while !guard.stopping {
            if guard.needs_background_driver(self.idle) {
                guard.holder = Holder::Background { asleep: false };
                return guard;
            }
            let takeovers = self.background.takeovers.load(Ordering::Relaxed);
            // The same waiter has driven for a whole interval, and may continue for hours.
            let long = guard.holder == Holder::Waiter && last_seen == Some(takeovers);
            guard.background_sleeps = long;
            let remaining = match guard.holder {
                Holder::Nobody => self.idle.saturating_sub(guard.since_driven()),
                _ => self.idle,
            };
            self.unlock(guard);
            last_seen = self
                .background
                .wait((!long).then_some(remaining), takeovers);
            guard = self.lock();
            guard.background_sleeps = false;
        }
        guard
    }

    /// Makes a waiter the driver; returns false if there is another driver.
    fn take(&self, state: &mut State<T>, sleep: &impl Sleep<T>) -> bool {
        match state.holder {
            _ if state.offline => return false,
            Holder::Background { asleep: false } | Holder::Waiter => return false,
            Holder::Nobody => {}
            Holder::Background { asleep: true } => {
                state.muted = state.since_driven() >= self.idle;
                match state.muted {
                    true => sleep.mute(),
                    false => sleep.end(),
                }
            }
        }
        state.holder = Holder::Waiter;
        self.background.takeovers.fetch_add(1, Ordering::Relaxed);
        true
    }
}

impl RoleWait {
    /// Sleeps for `interval`, and again as long as waiters take the role in the meantime, or until
    /// another thread calls. Returns the number of takeovers last seen, or `None` after a call.
    ///
    /// If waits follow one another quickly, as in request-response traffic, it checks less often,
    /// because each check takes the processor from a spinning thread.
    fn wait(&self, interval: Option<Duration>, mut takeovers: u64) -> Option<u64> {
        let mut signalled = lock(&self.signalled);
        let mut periods = 1;
        while !std::mem::take(&mut *signalled) {
            let Some(interval) = interval else {
                signalled = wait(&self.changed, signalled);
                continue;
            };
            // A lower bound prevents a busy loop at the end of an interval.
            let interval = interval.max(Duration::from_millis(1));
            signalled = wait_timeout(
                &self.signalled,
                &self.changed,
                signalled,
                interval.saturating_mul(periods),
            );
            let now = self.takeovers.load(Ordering::Relaxed);
            if !*signalled && now == takeovers {
                return Some(takeovers);
            }
            periods = match now.wrapping_sub(takeovers) < MANY_TAKEOVERS {
                true => 1,
                false => (periods * 2).min(CHECK_PERIODS_MAX),
            };
            takeovers = now;
        }
        None
    }

    fn signal(&self) {
        *lock(&self.signalled) = true;
        self.changed.notify_one();
    }
}

/// Prepares a guard whose lock was just taken: the time must be read again.
fn forget_time<T>(mut guard: Guard<'_, T>) -> Guard<'_, T> {
    guard.moment = None;
    guard
}

impl<T> State<T> {
    pub(crate) fn time(&mut self) -> Moment {
        *self.moment.get_or_insert_with(self.read)
    }

    /// Returns true if the background thread should take the role: it is free and no thread is
    /// waiting.
    fn needs_background_driver(&mut self, idle: Duration) -> bool {
        if self.holder != Holder::Nobody {
            return false;
        }
        let is_wanted = !self.tasks.is_empty() || self.since_driven() >= idle;
        self.offline || (self.parked == 0 && is_wanted)
    }

    fn since_driven(&mut self) -> Duration {
        self.time().0.since(self.last_driven)
    }

    fn is_free(&self) -> bool {
        self.holder == Holder::Nobody && !self.offline && !self.stopping
    }

    pub(crate) fn set_offline(&mut self, offline: bool) {
        self.offline = offline;
    }

    pub(crate) fn is_offline(&self) -> bool {
        self.offline
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// Returns true while a waiter drives, false while the background thread or no thread does.
    pub(crate) fn is_driven_by_waiter(&self) -> bool {
        self.holder == Holder::Waiter
    }

    /// The background thread calls this before it sleeps. While there is a connection, a waiter may
    /// then displace it.
    pub(crate) fn fall_asleep(&mut self) {
        self.holder = Holder::Background {
            asleep: !self.offline,
        };
    }

    /// The background thread calls this after a sleep. Returns true if it still holds the role.
    pub(crate) fn wake_up(&mut self) -> bool {
        let still_holds = matches!(self.holder, Holder::Background { .. });
        if still_holds {
            self.holder = Holder::Background { asleep: false };
        }
        self.muted = false;
        still_holds
    }

    pub(crate) fn task_deadline(&self) -> Option<Tick> {
        self.tasks.iter().filter_map(|task| task.deadline).min()
    }

    pub(crate) fn expire_tasks(&mut self, now: Tick) {
        let pending_wakes = &mut self.pending_wakes.tasks;
        self.tasks.retain(|task| {
            let expired = task.deadline.is_some_and(|deadline| deadline <= now);
            if expired {
                pending_wakes.push(task.waker.clone());
            }
            !expired
        });
    }
}

/// One call of [`DriverRole::wait`]. Its drop passes the role on even if the caller's condition
/// panics.
struct WaitCall<'a, T, S: Sleep<T>> {
    role: &'a DriverRole<T>,
    sleep: &'a S,
    holds_role: bool,
    /// The call has had a turn.
    has_driven: bool,
}

impl<'a, T, S: Sleep<T>> WaitCall<'a, T, S> {
    fn give_back(&mut self, state: &mut State<T>) {
        if std::mem::take(&mut self.holds_role) {
            state.holder = Holder::Nobody;
            state.last_driven = state.time().0;
            self.role.pass_on(state, self.sleep);
        }
    }

    fn end(mut self, mut guard: Guard<'a, T>) {
        if self.holds_role {
            self.give_back(&mut guard);
        } else {
            // This waiter may have been woken to take the role, which it no longer needs.
            self.role.pass_on(&mut guard, self.sleep);
        }
        self.role.unlock(guard);
    }
}

impl<T, S: Sleep<T>> Drop for WaitCall<'_, T, S> {
    fn drop(&mut self) {
        if self.holds_role {
            let mut guard = self.role.lock();
            self.give_back(&mut guard);
            self.role.unlock(guard);
        }
    }
}

#[cfg(test)]
#[cfg(shuttle)]
mod tests;

#[cfg(test)]
#[cfg(not(shuttle))]
mod muting;
