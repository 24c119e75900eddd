//! The turns of the thread that drives a link: sleep, read, deliver, send.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use trunkline_proto::{Disconnect, Endpoint};
use trunkline_types::Tick;

use crate::clock::Clock;
use crate::dial::{Dial, DialLimits, DialStep, Dialler};
use crate::idle_wait::IdleWait;
use crate::role::{self, DriverRole, Sleep};
use crate::sleeper::Sleeper;
use crate::sync::Arc;
use crate::transport::Interest;
use crate::transport::Source;

use super::LinkOptions;
use super::connection::{Connection, Incoming, Sleeping};

pub(super) type State<E> = role::State<Connection<E>>;
type Guard<'a, E> = role::Guard<'a, Connection<E>>;

pub(super) struct Driven<E> {
    pub(super) role: DriverRole<Connection<E>>,
    /// The sleeper of the background thread. It is separate from the waiters', so that a waiter can
    /// take over without waiting for the background thread to wake up.
    pub(super) background: Arc<Sleeper>,
    idle_wait: IdleWait,
    waiter: Sleeper,
    limits: DialLimits,
}

impl<E: Endpoint> Driven<E> {
    pub(super) fn new(endpoint: E, options: LinkOptions) -> io::Result<Self> {
        let background = Arc::new(Sleeper::new()?);
        Ok(Self {
            role: DriverRole::new(
                Connection::new(endpoint, options.spin),
                options.idle,
                || Clock::new().moment(),
            ),
            idle_wait: IdleWait::new(&background)?,
            background,
            waiter: Sleeper::new()?,
            limits: options.dial,
        })
    }

    pub(super) fn kick(&self, state: &State<E>) {
        if state.is_driven_by_waiter() {
            self.waiter.kick();
        } else {
            self.background.kick();
        }
    }

    /// Runs after a closure of the user has used the endpoint. Sends its output, and wakes the
    /// driving thread if it would sleep past something that has become due.
    pub(super) fn after_call(&self, state: &mut State<E>) {
        let (now, wall) = state.time();
        if state.data.send(now, wall) {
            state.set_offline(true);
            self.role.changed(state);
            self.kick(state);
        }
        if state.data.oversleeps(next_due(state, true)) {
            self.kick(state);
        }
    }

    /// A waiter's turn. It keeps the receive half while it sleeps, because no other thread takes
    /// over from it.
    pub(super) fn turn_of_waiter<'a>(
        &'a self,
        mut guard: Guard<'a, E>,
        timeout: Option<Duration>,
    ) -> Guard<'a, E> {
        let Some(plan) = guard.data.plan() else {
            return self.without_transport(guard);
        };
        let Some(mut incoming) = guard.data.take_incoming() else {
            return guard;
        };
        let rest = self.note_sleep(&mut guard, Some(plan.interest), true);
        let start = guard.time().0;
        self.role.unlock(guard);
        let timeout = [timeout, rest].into_iter().flatten().min();
        let sleeps = timeout != Some(Duration::ZERO);
        let found = plan.at_once
            || plan.interest.read
                && match sleeps {
                    true => incoming.spin(timeout),
                    false => incoming.glance(),
                };
        if !found {
            let source = Some((&plan.source, plan.interest));
            // Without a sleep the other end need not ring its doorbell.
            if sleeps && plan.interest.read && incoming.arm() {
                // Input came at the last moment.
            } else if self.waiter.sleep(source, timeout) {
                incoming.set_ready();
            }
        }
        incoming.fill();
        let mut guard = self.role.lock();
        guard.data.sleeping = None;
        if sleeps && !found {
            incoming.waited(guard.time().0.since(start));
        }
        self.settle(&mut guard, Some(incoming));
        guard
    }

    /// The main loop of the background thread.
    pub(super) fn run_background(&self, mut dialler: Dialler) {
        let mut dial = None;
        let drive = || {
            self.role.background(|guard| match guard.is_offline() {
                true => self.turn_of_dialler(guard, &mut dialler, &mut dial),
                false => self.turn_of_background(guard),
            });
        };
        if catch_unwind(AssertUnwindSafe(drive)).is_err() {
            // With no thread left to drive in the background, the link is over for all users.
            let mut guard = self.role.lock();
            guard.data.abandon();
            self.role.stop(&mut guard);
            self.kick(&guard);
            self.role.unlock(guard);
        }
        self.idle_wait.watch(None, Interest::default());
    }

    /// The background thread's turn while connected. It leaves the receive half behind while it
    /// sleeps, for a waiter that takes over.
    fn turn_of_background<'a>(&'a self, mut guard: Guard<'a, E>) -> Guard<'a, E> {
        let Some(plan) = guard.data.plan() else {
            return self.without_transport(guard);
        };
        let rest = self.note_sleep(&mut guard, Some(plan.interest), true);
        let mut ready = false;
        if !plan.at_once && !guard.data.arm() {
            self.idle_wait.watch(Some(&plan.source), plan.interest);
            guard.data.background_until = guard.data.sleeping.and_then(|sleeping| sleeping.until);
            guard.fall_asleep();
            self.role.unlock(guard);
            ready = self.idle_wait.sleep(&self.background, rest);
            guard = self.role.lock();
        }
        if !guard.wake_up() {
            return guard;
        }
        guard.data.sleeping = None;
        let Some(mut incoming) = guard.data.take_incoming() else {
            return guard;
        };
        self.role.unlock(guard);
        if ready {
            incoming.set_ready();
        }
        incoming.fill();
        let mut guard = self.role.lock();
        self.settle(&mut guard, Some(incoming));
        guard
    }

    /// The background thread's turn while there is no connection.
    fn turn_of_dialler<'a>(
        &'a self,
        mut guard: Guard<'a, E>,
        dialler: &mut Dialler,
        dial: &mut Option<Dial>,
    ) -> Guard<'a, E> {
        self.settle(&mut guard, None);
        let (now, _) = guard.time();
        let due = guard.data.endpoint.poll_dial();
        if due.is_none() {
            *dial = None;
        }
        if dial.is_none() && due.is_none_or(|due| due > now) {
            return self.sleep_offline(guard, None, Tick::MAX, true);
        }
        self.role.unlock(guard);
        let dialling =
            dial.get_or_insert_with(|| Dial::start(dialler, self.limits, now, &self.background));
        let step = dialling.advance(now);
        let mut guard = self.role.lock();
        let (now, wall) = guard.time();
        match step {
            DialStep::Wait(source, until) => {
                return self.sleep_offline(guard, source, until, false);
            }
            // A transport that was attached meanwhile takes precedence.
            DialStep::Connected(_) | DialStep::Failed(_) if guard.data.is_connected() => {}
            DialStep::Connected(transport) => {
                guard.data.connect(transport, now, wall);
                guard.data.send(now, wall);
                let connected = guard.data.is_connected();
                guard.set_offline(!connected);
            }
            DialStep::Failed(cause) => guard.data.endpoint.handle_disconnected(now, cause),
        }
        *dial = None;
        self.role.changed(&mut guard);
        guard
    }

    /// Sleeps until the dial's next step at `until`, or until something else is due.
    fn sleep_offline<'a>(
        &'a self,
        mut guard: Guard<'a, E>,
        source: Option<Source>,
        until: Tick,
        may_dial: bool,
    ) -> Guard<'a, E> {
        self.idle_wait.watch(None, Interest::default());
        let rest = self.note_sleep(&mut guard, None, may_dial);
        let until = (until != Tick::MAX).then(|| until.since(guard.time().0));
        let timeout = [rest, until].into_iter().flatten().min();
        let interest = Interest {
            read: false,
            write: true,
        };
        self.role.unlock(guard);
        self.background
            .sleep(source.as_ref().map(|source| (source, interest)), timeout);
        let mut guard = self.role.lock();
        guard.data.sleeping = None;
        guard
    }

    /// Records the wake-up conditions of the driver and returns the time until something is due.
    fn note_sleep(
        &self,
        state: &mut State<E>,
        interest: Option<Interest>,
        may_dial: bool,
    ) -> Option<Duration> {
        let until = next_due(state, may_dial);
        state.data.sleeping = Some(Sleeping { interest, until });
        until.map(|until| until.since(state.time().0))
    }

    /// Ends a turn: delivers input, runs due timers, sends, and wakes the waiters.
    fn settle(&self, state: &mut State<E>, incoming: Option<Incoming>) {
        let (now, wall) = state.time();
        let connection = &mut state.data;
        let mut changed = incoming.is_some_and(|incoming| connection.take_in(incoming, now, wall));
        changed |= connection.run_timeout(now, wall);
        changed |= connection.send(now, wall);
        let offline = !connection.is_connected();
        state.set_offline(offline);
        state.expire_tasks(now);
        if changed {
            self.role.changed(state);
        }
    }

    /// A turn that found nothing to drive: the connection is gone, or a panic took the receive
    /// half.
    fn without_transport<'a>(&'a self, mut guard: Guard<'a, E>) -> Guard<'a, E> {
        let text = "a thread of this program panicked while it drove the connection".to_owned();
        let cause = Disconnect::Io {
            kind: io::ErrorKind::Other,
            text,
        };
        let (now, _) = guard.time();
        guard.data.disconnect(now, cause);
        self.settle(&mut guard, None);
        guard
    }
}

impl<E: Endpoint> Sleep<Connection<E>> for Driven<E> {
    fn end(&self) {
        self.background.kick();
    }

    fn mute(&self) {
        self.idle_wait.mute();
    }

    fn resume(&self, state: &mut State<E>) {
        let Some(plan) = state.data.plan() else {
            return self.end();
        };
        self.idle_wait.watch(Some(&plan.source), plan.interest);
        state.data.sleeping = Some(Sleeping {
            interest: Some(plan.interest),
            until: state.data.background_until,
        });
        if plan.at_once || state.data.arm() || state.data.oversleeps(next_due(state, true)) {
            self.end();
        }
    }
}

/// The next time at which the endpoint, a task or the dial is due.
fn next_due<E: Endpoint>(state: &State<E>, may_dial: bool) -> Option<Tick> {
    let endpoint = &state.data.endpoint;
    let dial = (may_dial && state.is_offline())
        .then(|| endpoint.poll_dial())
        .flatten();
    Tick::earliest([
        endpoint.poll_timeout(),
        state.task_deadline(),
        state.data.close_by(),
        dial,
    ])
}
