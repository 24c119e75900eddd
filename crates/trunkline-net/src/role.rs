//! Who drives a connection: whoever waits for it, and a background thread only while nobody waits.
//!
//! ```text
//!                a waiter comes
//!        +---------------------------+     a waiter comes while the background thread sleeps:
//!        |                           v     takes over at once, and mutes the sleep, or ends it
//!     nobody <----- leaves ----- a waiter <---------------------------------------------------+
//!        |                           |  |                                                     |
//!        |                           |  +--- leaves while the thread sleeps on: resumes it -->|
//!        |                           +--> hands over to another that is parked                |
//!        |                                                                                    |
//!        +--- nobody came for a while, a task waits, or offline ----------------------> background
//! ```
//!
//! Every waiter that does not drive is *parked*; the driver wakes the parked ones after every
//! change, and whoever leaves while the role is free passes it on. *Tasks* are waiters of
//! asynchronous code: they cannot drive, so the background thread does while there are any and no
//! thread waits. While the connection is *offline* there is nothing to wait on but the dial, which
//! is the background thread's.
//!
//! Who takes over from the sleeping background thread *mutes* its sleep: whatever arrives now is
//! the waiter's, and the thread sleeps on, unaware, until the last waiter gives the role back to
//! it. So a program that waits now and then never wakes it. A program that makes one call after
//! the other would mute and resume that sleep with every call: who takes over a second time within
//! an interval wakes the thread instead, which then dozes until nobody has waited for a whole
//! interval.

use std::task::Waker;
use std::time::Duration;

use trunkline_types::{Tick, Timestamp};

use crate::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering, lock, wait, wait_timeout};

/// So many waits in one interval follow one another so fast that the background thread may take
/// [`LONGER_MAX`] intervals to see that nobody waits any more.
const MANY_TENURES: u64 = 64;

/// See [`MANY_TENURES`].
const LONGER_MAX: u32 = 4;

/// The lock of a connection's state `T`, with the role of the one who drives it.
pub(crate) struct DriverRole<T> {
    state: Mutex<State<T>>,
    waiters: Condvar,
    background: Nap,
    /// How long nobody must have driven before the background thread takes the role.
    idle: Duration,
}

/// Where the background thread dozes. Apart from the lock, which is busy while waiters come and go.
#[derive(Default)]
struct Nap {
    called: Mutex<bool>,
    bell: Condvar,
    /// Counts the times a waiter took the role.
    tenures: AtomicU64,
}

/// What the two clocks say.
pub(crate) type Moment = (Tick, Timestamp);

pub(crate) type Guard<'a, T> = MutexGuard<'a, State<T>>;

pub(crate) struct State<T> {
    /// What the lock guards.
    pub(crate) data: T,
    read: fn() -> Moment,
    /// The time since the lock was taken last: one look at the clocks serves for as long as it is
    /// held.
    moment: Option<Moment>,
    holder: Holder,
    offline: bool,
    stopping: bool,
    parked: usize,
    tasks: Vec<Task>,
    /// Whom to wake once the lock is free, so that nobody wakes only to wait for it.
    due: Due,
    /// When a waiter last drove.
    driven: Tick,
    /// The background thread naps without a time-out; whoever leaves the role free calls it.
    background_sleeps: bool,
    /// The background thread was displaced and sleeps on, muted.
    muted: bool,
}

/// The sleep of the background thread, as the waiters that displace it see it. Called under the
/// lock.
pub(crate) trait Sleep<T> {
    /// Ends the sleep.
    fn end(&self);
    /// The sleep goes on, whatever arrives.
    fn mute(&self);
    /// What arrives ends the sleep again, as does what is due in `state`.
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

impl Due {
    fn is_anyone(&self) -> bool {
        self.all_parked || self.one_parked || self.background || !self.tasks.is_empty()
    }
}

/// What a waiter's condition says.
pub(crate) enum Check<R> {
    /// It is met.
    Done(R),
    /// The waiter's time is over.
    GiveUp,
    /// Not yet; the waiter has this long, or for ever.
    Wait(Option<Duration>),
}

#[derive(Default)]
struct Due {
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
    /// A role that nobody holds, of a connection that is offline.
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
            due: Due::default(),
            driven: Tick::ZERO,
            background_sleeps: false,
            muted: false,
        };
        Self {
            state: Mutex::new(state),
            waiters: Condvar::new(),
            background: Nap::default(),
            idle,
        }
    }

    pub(crate) fn lock(&self) -> Guard<'_, T> {
        fresh(lock(&self.state))
    }

    /// Unlocks, and then wakes everyone that something changed for.
    pub(crate) fn unlock(&self, mut guard: Guard<'_, T>) {
        let due = std::mem::take(&mut guard.due);
        drop(guard);
        self.wake(&due);
        due.tasks.into_iter().for_each(Waker::wake);
    }

    /// Waits until `check` is done or gives up. It runs under the lock, after every change.
    ///
    /// `turn` drives: it unlocks, sleeps until something happens or the time it is given is over,
    /// takes in what arrived, and locks again. `sleep` is that of a background thread that is
    /// displaced. A caller that gives up before it had a turn gets one without sleep, if nobody
    /// drives.
    pub(crate) fn wait<'a, R>(
        &'a self,
        mut check: impl FnMut(&mut State<T>) -> Check<R>,
        mut turn: impl FnMut(Guard<'a, T>, Option<Duration>) -> Guard<'a, T>,
        sleep: &'a impl Sleep<T>,
    ) -> Option<R> {
        let mut tenure = Tenure {
            role: self,
            sleep,
            held: false,
            has_driven: false,
        };
        let mut guard = self.lock();
        loop {
            let timeout = match check(&mut guard) {
                Check::Done(answer) => {
                    tenure.end(guard);
                    return Some(answer);
                }
                Check::GiveUp if tenure.has_driven || !guard.is_free() => {
                    tenure.end(guard);
                    return None;
                }
                Check::GiveUp => Some(Duration::ZERO),
                Check::Wait(timeout) => timeout,
            };
            if guard.offline {
                tenure.give_back(&mut guard);
            }
            if !tenure.held {
                tenure.held = self.take(&mut guard, sleep);
                if !tenure.held {
                    guard = self.park(guard, timeout);
                    continue;
                }
            }
            tenure.has_driven = true;
            guard = turn(guard, timeout);
        }
    }

    /// The background thread's life: drives while nobody waits, until [`stop`](Self::stop).
    ///
    /// `turn` drives once; around its sleep it calls [`doze_off`](State::doze_off) and
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
                    guard.due.one_parked = true;
                } else {
                    guard = turn(guard);
                }
            }
            if guard.stopping {
                return self.unlock(guard);
            }
        }
    }

    /// Something changed: parked waiters look again, and so do tasks once the lock is free.
    pub(crate) fn changed(&self, state: &mut State<T>) {
        state.due.all_parked |= state.parked > 0;
        let tasks = state.tasks.drain(..).map(|task| task.waker);
        state.due.tasks.extend(tasks);
    }

    /// Adds a task that looks again at the next change, or at `deadline`.
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
        state.due.background |= state.holder == Holder::Nobody;
    }

    /// Ends every wait (whose checks ask [`is_stopping`](State::is_stopping)) and the background
    /// thread. The caller ends the sleep of whoever drives.
    pub(crate) fn stop(&self, state: &mut State<T>) {
        state.stopping = true;
        state.due.background = true;
        self.changed(state);
    }

    /// Sleeps until a change, the role is free, or the time is over.
    fn park<'a>(&'a self, mut guard: Guard<'a, T>, timeout: Option<Duration>) -> Guard<'a, T> {
        if guard.due.is_anyone() {
            self.unlock(guard);
            return self.lock();
        }
        guard.parked += 1;
        let mut guard = fresh(match timeout {
            Some(timeout) => wait_timeout(&self.state, &self.waiters, guard, timeout),
            None => wait(&self.waiters, guard),
        });
        guard.parked -= 1;
        guard
    }

    fn wake(&self, due: &Due) {
        if due.all_parked {
            self.waiters.notify_all();
        } else if due.one_parked {
            self.waiters.notify_one();
        }
        if due.background {
            self.background.call();
        }
    }

    /// Whoever may have kept the role from others passes it on when it goes.
    fn pass_on(&self, state: &mut State<T>, sleep: &impl Sleep<T>) {
        if state.holder != Holder::Nobody {
            return;
        }
        let muted = std::mem::take(&mut state.muted);
        if state.offline || state.stopping {
            state.due.background = true;
            if muted {
                sleep.end();
            }
        } else if state.parked > 0 {
            state.due.one_parked = true;
            state.muted = muted;
        } else if muted {
            state.holder = Holder::Background { asleep: true };
            sleep.resume(state);
        } else {
            state.due.background |= state.background_sleeps || !state.tasks.is_empty();
        }
    }

    /// Waits until the role is the background thread's, or it is told to stop.
    fn acquire<'a>(&'a self, mut guard: Guard<'a, T>) -> Guard<'a, T> {
        let mut seen = None;
        while !guard.stopping {
            if guard.is_neglected(self.idle) {
                guard.holder = Holder::Background { asleep: false };
                return guard;
            }
            let tenures = self.background.tenures.load(Ordering::Relaxed);
            // The same waiter for a whole interval: it may be hours.
            let long = guard.holder == Holder::Waiter && seen == Some(tenures);
            guard.background_sleeps = long;
            let rest = match guard.holder {
                Holder::Nobody => self.idle.saturating_sub(guard.undriven()),
                _ => self.idle,
            };
            self.unlock(guard);
            seen = self.background.nap((!long).then_some(rest), tenures);
            guard = self.lock();
            guard.background_sleeps = false;
        }
        guard
    }

    /// Makes a waiter the driver; false while another one is.
    fn take(&self, state: &mut State<T>, sleep: &impl Sleep<T>) -> bool {
        match state.holder {
            _ if state.offline => return false,
            Holder::Background { asleep: false } | Holder::Waiter => return false,
            Holder::Nobody => {}
            Holder::Background { asleep: true } => {
                state.muted = state.undriven() >= self.idle;
                match state.muted {
                    true => sleep.mute(),
                    false => sleep.end(),
                }
            }
        }
        state.holder = Holder::Waiter;
        self.background.tenures.fetch_add(1, Ordering::Relaxed);
        true
    }
}

impl Nap {
    /// Sleeps until called, or for `interval` and on for as long as waiters take the role in the
    /// meantime. Returns the tenures last seen, `None` when called.
    ///
    /// Where one wait follows the other, as with answers to questions, it looks less often: each
    /// look takes the processor from a thread that spins.
    fn nap(&self, interval: Option<Duration>, mut tenures: u64) -> Option<u64> {
        let mut called = lock(&self.called);
        let mut longer = 1;
        while !std::mem::take(&mut *called) {
            let Some(interval) = interval else {
                called = wait(&self.bell, called);
                continue;
            };
            // Never so short that it becomes a busy loop at the end of an interval.
            let interval = interval.max(Duration::from_millis(1));
            called = wait_timeout(&self.called, &self.bell, called, interval * longer);
            let now = self.tenures.load(Ordering::Relaxed);
            if !*called && now == tenures {
                return Some(tenures);
            }
            longer = match now.wrapping_sub(tenures) < MANY_TENURES {
                true => 1,
                false => (longer * 2).min(LONGER_MAX),
            };
            tenures = now;
        }
        None
    }

    /// Ends the present nap, or the next one.
    fn call(&self) {
        *lock(&self.called) = true;
        self.bell.notify_one();
    }
}

/// The lock was just taken: the time is to be read anew.
fn fresh<T>(mut guard: Guard<'_, T>) -> Guard<'_, T> {
    guard.moment = None;
    guard
}

impl<T> State<T> {
    /// The time since the lock was taken.
    pub(crate) fn time(&mut self) -> Moment {
        *self.moment.get_or_insert_with(self.read)
    }

    /// Whether the background thread is to take the role: it is free, and no thread waits.
    fn is_neglected(&mut self, idle: Duration) -> bool {
        if self.holder != Holder::Nobody {
            return false;
        }
        let is_wanted = !self.tasks.is_empty() || self.undriven() >= idle;
        self.offline || (self.parked == 0 && is_wanted)
    }

    /// How long ago a waiter last drove.
    fn undriven(&mut self) -> Duration {
        self.time().0.since(self.driven)
    }

    /// There is a connection that nobody drives.
    fn is_free(&self) -> bool {
        self.holder == Holder::Nobody && !self.offline && !self.stopping
    }

    /// There is a connection to wait on, or (true) there is none.
    pub(crate) fn set_offline(&mut self, offline: bool) {
        self.offline = offline;
    }

    pub(crate) fn is_offline(&self) -> bool {
        self.offline
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// True while a waiter drives, false while the background thread or nobody does.
    pub(crate) fn is_driven_by_waiter(&self) -> bool {
        self.holder == Holder::Waiter
    }

    /// The background thread is about to sleep; while a connection is there it may be displaced.
    pub(crate) fn doze_off(&mut self) {
        self.holder = Holder::Background {
            asleep: !self.offline,
        };
    }

    /// The background thread slept; true when the role is still its own.
    pub(crate) fn wake_up(&mut self) -> bool {
        let mine = matches!(self.holder, Holder::Background { .. });
        if mine {
            self.holder = Holder::Background { asleep: false };
        }
        self.muted = false;
        mine
    }

    /// The earliest deadline of a task.
    pub(crate) fn task_deadline(&self) -> Option<Tick> {
        self.tasks.iter().filter_map(|task| task.deadline).min()
    }

    /// Tasks whose deadline has passed look again.
    pub(crate) fn expire_tasks(&mut self, now: Tick) {
        let due = &mut self.due.tasks;
        self.tasks.retain(|task| {
            let expired = task.deadline.is_some_and(|deadline| deadline <= now);
            if expired {
                due.push(task.waker.clone());
            }
            !expired
        });
    }
}

/// One call of [`DriverRole::wait`]; passes the role on even when the caller's condition panics.
struct Tenure<'a, T, S: Sleep<T>> {
    role: &'a DriverRole<T>,
    sleep: &'a S,
    held: bool,
    /// It has had a turn.
    has_driven: bool,
}

impl<'a, T, S: Sleep<T>> Tenure<'a, T, S> {
    fn give_back(&mut self, state: &mut State<T>) {
        if std::mem::take(&mut self.held) {
            state.holder = Holder::Nobody;
            state.driven = state.time().0;
            self.role.pass_on(state, self.sleep);
        }
    }

    fn end(mut self, mut guard: Guard<'a, T>) {
        if self.held {
            self.give_back(&mut guard);
        } else {
            // Perhaps this waiter was woken to take the role that it no longer needs.
            self.role.pass_on(&mut guard, self.sleep);
        }
        self.role.unlock(guard);
    }
}

impl<T, S: Sleep<T>> Drop for Tenure<'_, T, S> {
    fn drop(&mut self) {
        if self.held {
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
