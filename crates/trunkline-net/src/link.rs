//! The client's side of a connection, driven by the threads that wait on it.
//!
//! ```text
//!   with        any thread: runs the closure under the lock, sends the output that is due
//!   wait_until  the calling thread reads the socket while it waits; other waiters are parked, and
//!               one of them takes over when the reading thread leaves
//!   poll_until  a task: woken after every change; the background thread drives meanwhile
//!   background  dials, and drives while no thread is waiting
//! ```
//!
//! `LinkCore` implements the turns of the driving thread: sleep, read, deliver, send. `Connection`
//! is the data that the lock protects: the endpoint and its current transport.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use trunkline_proto::{DirectBytes, Disconnect, Endpoint};
use trunkline_types::{Tick, Timestamp};

use crate::clock::Clock;
use crate::dial::{Dial, DialLimits, DialStep, Dialler};
use crate::idle_wait::IdleWait;
use crate::outgoing::{Flush, Outgoing};
use crate::role::{self, Check, DriverRole, Sleep};
use crate::sleeper::Sleeper;
use crate::spin::{SPIN_DEFAULT, Spin};
use crate::sync::{Arc, Mutex, lock};
use crate::transport::shm::{LocalTable, TableAnswer};
use crate::transport::{
    ChannelState, Interest, Peer, ReceiveHalf, Source, Transport, TransportUsed,
};

/// Maximum number of bytes per read. It also limits how long other threads wait for the lock.
const READ_BYTES: usize = 64 << 10;

/// Maximum number of bytes per read into this crate's buffer, for endpoints that provide the memory
/// for most bytes. Bytes that are read into the buffer must be copied.
const READ_BYTES_DIRECT: usize = 4 << 10;

/// Maximum number of bytes received in one turn directly into the endpoint's memory. After that,
/// other threads can take the lock.
const DIRECT_MAX: usize = 1 << 20;

/// Number of memory polls between two clock readings.
const POLLS_PER_CLOCK_READING: usize = 16;

/// A connection to one engine that reconnects automatically, shared by any number of threads and
/// tasks.
///
/// The endpoint decides when to dial (`poll_dial`) and how to handle a lost connection. The link
/// dials, sends, receives and runs the endpoint's timers.
pub struct Link<E: Endpoint + 'static> {
    core: Arc<LinkCore<E>>,
    background: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Clone, Copy, Debug)]
pub struct LinkOptions {
    pub dial: DialLimits,
    /// Time without a driving thread after which the background thread drives again. Until then,
    /// arriving data stays in the socket, so that consecutive calls cost one wake-up each. If the
    /// program has waited repeatedly without a pause, this may take up to four times as long.
    pub idle: Duration,
    /// Maximum time that a waiting thread polls for the answer before it sleeps. Zero disables
    /// polling. See [`spin`](crate::spin).
    pub spin: Duration,
}

impl Default for LinkOptions {
    fn default() -> Self {
        Self {
            dial: DialLimits::default(),
            idle: Duration::from_millis(5),
            spin: SPIN_DEFAULT,
        }
    }
}

/// The decision of an endpoint about an attached transport.
#[derive(Debug)]
pub enum Admitted {
    /// The transport is accepted; the frame, if any, is sent first with the descriptor.
    Yes(Option<(Vec<u8>, OwnedFd)>),
    No,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("no file descriptor is left for a connection ({0}); close some, or raise `ulimit -n`")]
    Descriptors(#[source] io::Error),
    #[error(
        "a connection thread cannot be started ({0}); end other programs, or raise `ulimit -u`"
    )]
    Thread(#[source] io::Error),
}

impl<E: Endpoint + 'static> Link<E> {
    /// Starts the background thread, which dials as soon as `endpoint` requests it. Takes three
    /// file descriptors, and one or two more while connected.
    pub fn start(
        dialler: Dialler,
        endpoint: E,
        options: LinkOptions,
    ) -> Result<Arc<Link<E>>, StartError> {
        let core = LinkCore::new(endpoint, options).map_err(StartError::Descriptors)?;
        let core = Arc::new(core);
        let in_background = core.clone();
        let background = thread::Builder::new()
            .name("trunkline-link".to_owned())
            .spawn(move || in_background.run_background(dialler))
            .map_err(StartError::Thread)?;
        Ok(Arc::new(Self {
            core,
            background: Mutex::new(Some(background)),
        }))
    }

    /// Runs `f` on the endpoint and sends the endpoint's output, on this thread. Never waits for
    /// the network.
    ///
    /// `f` runs under the link's lock: it must be short, and must not use the link. Waiting threads
    /// and tasks do not notice changes that `f` makes to the endpoint; see
    /// [`wake_waiters`](Self::wake_waiters).
    pub fn with<R>(&self, f: impl FnOnce(&mut E, Tick, Timestamp) -> R) -> R {
        let core = &self.core;
        let mut guard = core.role.lock();
        let (now, wall) = guard.time();
        let answer = f(&mut guard.data.endpoint, now, wall);
        core.after_call(&mut guard);
        core.role.unlock(guard);
        answer
    }

    /// Waits until `f` returns an answer. Calls `f` at once, and again whenever data has arrived, a
    /// timer has fired or something has changed. Returns `None` if `deadline` has passed or the
    /// link is closed.
    ///
    /// While it waits, the calling thread drives the connection, unless another thread already
    /// does. `f` runs under the link's lock: it must be short, and must not use the link.
    pub fn wait_until<R>(
        &self,
        deadline: Option<Tick>,
        mut f: impl FnMut(&mut E, Tick) -> Option<R>,
    ) -> Option<R> {
        self.wait_for(deadline, |connection, now| f(&mut connection.endpoint, now))
    }

    /// Starts an operation and waits for its answer. Calls `begin`, then passes its result to
    /// `check` until `check` returns an answer, as [`wait_until`](Self::wait_until) does. The lock
    /// is not released between `begin` and the first `check`. Returns the result of `begin` and the
    /// answer; the answer is `None` if `deadline` has passed or the link is closed.
    ///
    /// # Errors
    /// The error of `begin`.
    pub fn call_until<C, R, X>(
        &self,
        deadline: Option<Tick>,
        begin: impl FnOnce(&mut E, Tick) -> Result<C, X>,
        mut check: impl FnMut(&mut E, &C) -> Option<R>,
    ) -> Result<(C, Option<R>), X> {
        let core = &self.core;
        let mut guard = core.role.lock();
        let (now, _) = guard.time();
        match begin(&mut guard.data.endpoint, now) {
            Ok(call) => {
                let answer = self.wait_with(guard, deadline, |connection, _| {
                    check(&mut connection.endpoint, &call)
                });
                Ok((call, answer))
            }
            Err(error) => {
                core.after_call(&mut guard);
                core.role.unlock(guard);
                Err(error)
            }
        }
    }

    /// Like [`wait_until`](Self::wait_until), but for tasks. `Pending` registers the task, which is
    /// woken after each change and at `deadline`. Returns `Ready(None)` if `deadline` has passed or
    /// the link is closed.
    ///
    /// # Cancel safety
    /// If the task is dropped, its waker remains registered until the next change.
    pub fn poll_until<R>(
        &self,
        context: &mut Context<'_>,
        deadline: Option<Tick>,
        mut f: impl FnMut(&mut E, Tick) -> Option<R>,
    ) -> Poll<Option<R>> {
        let core = &self.core;
        let mut guard = core.role.lock();
        let (now, _) = guard.time();
        let mut answer = f(&mut guard.data.endpoint, now);
        let over = guard.is_stopping() || deadline.is_some_and(|deadline| deadline <= now);
        if answer.is_none() && !over {
            core.role.add_task(&mut guard, context.waker(), deadline);
        }
        core.after_call(&mut guard);
        // Sending may answer the call, such as a write that the client refuses.
        answer = answer.or_else(|| f(&mut guard.data.endpoint, now));
        let poll = if answer.is_some() || over {
            Poll::Ready(answer)
        } else {
            Poll::Pending
        };
        core.role.unlock(guard);
        poll
    }

    /// [`poll_until`](Self::poll_until) as a future.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing except what `f` itself has removed.
    pub async fn wait<R>(
        &self,
        deadline: Option<Tick>,
        mut f: impl FnMut(&mut E, Tick) -> Option<R>,
    ) -> Option<R> {
        poll_fn(|context| self.poll_until(context, deadline, &mut f)).await
    }

    /// Replaces the current transport with one that another part of the program has accepted, if
    /// `admit` accepts it. `admit` runs on the endpoint under the link's lock.
    ///
    /// If bytes were already read from the transport, `admit` must hand them to the endpoint. A
    /// frame that `admit` returns is sent first, with its descriptor.
    ///
    /// # Errors
    /// Returns the transport if it was refused.
    pub fn attach(
        &self,
        transport: Transport,
        admit: impl FnOnce(&mut E, Tick, Timestamp) -> Admitted,
    ) -> Result<(), Transport> {
        let core = &self.core;
        let mut guard = core.role.lock();
        let (now, wall) = guard.time();
        let admitted = match guard.is_stopping() {
            true => Admitted::No,
            false => admit(&mut guard.data.endpoint, now, wall),
        };
        let answer = match admitted {
            Admitted::Yes(first) => {
                guard.data.install(transport);
                if let Some((frame, file)) = first {
                    guard.data.pass_descriptor(frame, file);
                }
                guard.set_offline(false);
                Ok(())
            }
            Admitted::No => Err(transport),
        };
        core.after_call(&mut guard);
        core.role.changed(&mut guard);
        // The driving thread sleeps on another transport, or on none.
        core.kick(&guard);
        core.role.unlock(guard);
        answer
    }

    /// Makes all waiters check the endpoint again. A caller of [`with`](Self::with) uses this after
    /// a change that another thread may wait for.
    pub fn wake_waiters(&self) {
        let core = &self.core;
        let mut guard = core.role.lock();
        core.role.changed(&mut guard);
        core.kick(&guard);
        core.role.unlock(guard);
    }

    pub fn peer(&self) -> Option<Peer> {
        self.core.role.lock().data.peer()
    }

    pub fn transport(&self) -> Option<TransportUsed> {
        self.core.role.lock().data.transport()
    }

    /// Returns the engine's table of last values in memory shared with this process, if the table
    /// has a slot for `index`. Returns `None` if there is no shared memory (yet), the engine
    /// provides no table, or the engine has not answered by `deadline`.
    pub fn last_values(&self, index: u32, deadline: Tick) -> Option<Arc<LocalTable>> {
        let answer = self.wait_for(Some(deadline), |connection, now| {
            match connection.table(index, now) {
                TableAnswer::Here(table) => Some(Some(table)),
                TableAnswer::None => Some(None),
                TableAnswer::Pending => None,
            }
        });
        answer.flatten()
    }

    /// Sends the endpoint's remaining output, until `deadline` at the latest, then closes the
    /// connection and ends the background thread. All waits end.
    ///
    /// If the endpoint must send a final message, request that through [`with`](Self::with) first.
    pub fn close(&self, deadline: Tick) {
        self.wait_for(Some(deadline), |connection, _| {
            connection.is_flushed().then_some(())
        });
        let core = &self.core;
        let mut guard = core.role.lock();
        core.role.stop(&mut guard);
        core.kick(&guard);
        core.role.unlock(guard);
        let background = lock(&self.background).take();
        if let Some(background) = background
            && background.thread().id() != thread::current().id()
        {
            // A background thread that panicked has nothing left to close.
            let _ = background.join();
        }
        let mut guard = core.role.lock();
        let (now, _) = guard.time();
        guard.data.disconnect(now, Disconnect::ClosedLocally);
        guard.set_offline(true);
        core.kick(&guard);
        core.role.unlock(guard);
    }

    /// Returns true after [`close`](Self::close), or after the endpoint panicked on the background
    /// thread, which is visible nowhere else.
    pub fn is_closed(&self) -> bool {
        self.core.role.lock().is_stopping()
    }

    fn wait_for<R>(
        &self,
        deadline: Option<Tick>,
        f: impl FnMut(&mut Connection<E>, Tick) -> Option<R>,
    ) -> Option<R> {
        self.wait_with(self.core.role.lock(), deadline, f)
    }

    fn wait_with<'a, R>(
        &'a self,
        guard: Guard<'a, E>,
        deadline: Option<Tick>,
        mut f: impl FnMut(&mut Connection<E>, Tick) -> Option<R>,
    ) -> Option<R> {
        let core = &*self.core;
        let check = |state: &mut State<E>| {
            let (now, _) = state.time();
            let mut answer = f(&mut state.data, now);
            core.after_call(state);
            // Sending may answer the call, such as a write that the client refuses.
            answer = answer.or_else(|| f(&mut state.data, now));
            match answer {
                Some(answer) => Check::Done(answer),
                None if state.is_stopping() => Check::GiveUp,
                None => match deadline {
                    Some(deadline) if deadline <= now => Check::GiveUp,
                    Some(deadline) => Check::Wait(Some(deadline.since(now))),
                    None => Check::Wait(None),
                },
            }
        };
        let turn = |guard, timeout| core.turn_of_waiter(guard, timeout);
        core.role.wait(guard, check, turn, core)
    }
}

impl<E: Endpoint + 'static> Drop for Link<E> {
    fn drop(&mut self) {
        self.close(Tick::ZERO);
    }
}

impl<E: Endpoint + 'static> fmt::Debug for Link<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

type State<E> = role::State<Connection<E>>;
type Guard<'a, E> = role::Guard<'a, Connection<E>>;

struct LinkCore<E> {
    role: DriverRole<Connection<E>>,
    /// The sleeper of the background thread. It is separate from the sleeper of the waiters, so
    /// that a waiter can take over without waiting for the background thread to wake up.
    background: Arc<Sleeper>,
    idle_wait: IdleWait,
    waiter: Sleeper,
    limits: DialLimits,
}

impl<E: Endpoint> LinkCore<E> {
    fn new(endpoint: E, options: LinkOptions) -> io::Result<Self> {
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

    fn kick(&self, state: &State<E>) {
        if state.is_driven_by_waiter() {
            self.waiter.kick();
        } else {
            self.background.kick();
        }
    }

    /// Called after a user's closure has used the endpoint. Sends the endpoint's output, and wakes
    /// the driving thread if it would otherwise sleep too long.
    fn after_call(&self, state: &mut State<E>) {
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
    /// over the role from it.
    fn turn_of_waiter<'a>(
        &'a self,
        mut guard: Guard<'a, E>,
        timeout: Option<Duration>,
    ) -> Guard<'a, E> {
        let Some(plan) = guard.data.sleep_plan() else {
            return self.without_transport(guard);
        };
        let Some(mut incoming) = guard.data.take_incoming() else {
            return guard;
        };
        let until_due = self.record_sleep(&mut guard, Some(plan.interest), true);
        let start = guard.time().0;
        self.role.unlock(guard);
        let timeout = [timeout, until_due].into_iter().flatten().min();
        let sleeps = timeout != Some(Duration::ZERO);
        let found = plan.at_once
            || plan.interest.read
                && match sleeps {
                    true => incoming.spin(timeout, !plan.interest.write),
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
        self.end_turn(&mut guard, Some(incoming));
        guard
    }

    /// The main loop of the background thread.
    fn run_background(&self, mut dialler: Dialler) {
        let mut dial = None;
        let drive = || {
            self.role.background(|guard| match guard.is_offline() {
                true => self.turn_of_dialler(guard, &mut dialler, &mut dial),
                false => self.turn_of_background(guard),
            });
        };
        if catch_unwind(AssertUnwindSafe(drive)).is_err() {
            // The background thread is gone, so the link has ended for all users.
            let mut guard = self.role.lock();
            guard.data.abandon();
            self.role.stop(&mut guard);
            self.kick(&guard);
            self.role.unlock(guard);
        }
        self.idle_wait.watch(None, Interest::default());
    }

    /// The background thread's turn while connected. While it sleeps, it leaves the receive half to
    /// a waiter that takes over.
    fn turn_of_background<'a>(&'a self, mut guard: Guard<'a, E>) -> Guard<'a, E> {
        let Some(plan) = guard.data.sleep_plan() else {
            return self.without_transport(guard);
        };
        let until_due = self.record_sleep(&mut guard, Some(plan.interest), true);
        let mut ready = false;
        if !plan.at_once && !guard.data.arm() {
            self.idle_wait.watch(Some(&plan.source), plan.interest);
            guard.data.background_until = guard.data.sleeping.and_then(|sleeping| sleeping.until);
            guard.fall_asleep();
            self.role.unlock(guard);
            ready = self.idle_wait.sleep(&self.background, until_due);
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
        self.end_turn(&mut guard, Some(incoming));
        guard
    }

    /// The background thread's turn while there is no connection.
    fn turn_of_dialler<'a>(
        &'a self,
        mut guard: Guard<'a, E>,
        dialler: &mut Dialler,
        dial: &mut Option<Dial>,
    ) -> Guard<'a, E> {
        self.end_turn(&mut guard, None);
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
        source: Option<(Source, Interest)>,
        until: Tick,
        may_dial: bool,
    ) -> Guard<'a, E> {
        self.idle_wait.watch(None, Interest::default());
        let until_due = self.record_sleep(&mut guard, None, may_dial);
        let until = (until != Tick::MAX).then(|| until.since(guard.time().0));
        let timeout = [until_due, until].into_iter().flatten().min();
        self.role.unlock(guard);
        let source = source
            .as_ref()
            .map(|(source, interest)| (source, *interest));
        self.background.sleep(source, timeout);
        let mut guard = self.role.lock();
        guard.data.sleeping = None;
        guard
    }

    /// Records the wake-up conditions of the driver and returns the time until something is due.
    fn record_sleep(
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
    fn end_turn(&self, state: &mut State<E>, incoming: Option<Incoming>) {
        let (now, wall) = state.time();
        let connection = &mut state.data;
        let mut changed =
            incoming.is_some_and(|incoming| connection.handle_incoming(incoming, now, wall));
        changed |= connection.run_timeout(now, wall);
        changed |= connection.send(now, wall);
        let offline = !connection.is_connected();
        state.set_offline(offline);
        state.expire_tasks(now);
        if changed {
            self.role.changed(state);
        }
    }

    /// A turn without anything to drive: the connection is gone, or the receive half was lost in a
    /// panic.
    fn without_transport<'a>(&'a self, mut guard: Guard<'a, E>) -> Guard<'a, E> {
        let text = "a thread of this program panicked while it drove the connection".to_owned();
        let cause = Disconnect::Io {
            kind: io::ErrorKind::Other,
            text,
        };
        let (now, _) = guard.time();
        guard.data.disconnect(now, cause);
        self.end_turn(&mut guard, None);
        guard
    }
}

impl<E: Endpoint> Sleep<Connection<E>> for LinkCore<E> {
    fn end(&self) {
        self.background.kick();
    }

    fn mute(&self) {
        self.idle_wait.mute();
    }

    fn resume(&self, state: &mut State<E>) {
        let Some(plan) = state.data.sleep_plan() else {
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

struct Connection<E> {
    endpoint: E,
    /// The wake-up conditions of the driving thread, while it sleeps.
    sleeping: Option<Sleeping>,
    /// The time at which the background thread wakes by itself from a sleep that a waiter has
    /// muted.
    background_until: Option<Tick>,
    spin: Duration,
    active: Option<ActiveTransport>,
    /// Number of transports that the connection has had so far.
    transport_count: u64,
}

struct ActiveTransport {
    /// Sequence number of this transport among all transports of the connection.
    number: u64,
    peer: Peer,
    source: Source,
    outgoing: Outgoing,
    /// The reason why sending failed. Data that arrived before the failure may contain a more
    /// informative reason, so all input is read before the failure is reported to the endpoint.
    broken: Option<Disconnect>,
    /// `None` while the driving thread has taken it for its turn.
    incoming: Option<Incoming>,
}

/// The receive half, and bytes that were read but not yet handed to the endpoint.
struct Incoming {
    /// [`number`](ActiveTransport::number) of the transport that the half belongs to.
    transport_number: u64,
    /// The endpoint provides the memory for received bytes, so reads happen under the lock.
    is_direct: bool,
    half: Box<dyn ReceiveHalf>,
    source: Source,
    buffer: Box<[u8]>,
    filled: usize,
    ready: bool,
    ended: Option<Disconnect>,
    spin: Spin,
}

#[derive(Clone, Copy)]
struct Sleeping {
    /// `None` while offline.
    interest: Option<Interest>,
    until: Option<Tick>,
}

struct SleepPlan {
    source: Source,
    interest: Interest,
    /// There is already work to do, so the thread must not sleep.
    at_once: bool,
}

impl<E: Endpoint> Connection<E> {
    fn new(endpoint: E, spin: Duration) -> Self {
        Self {
            endpoint,
            sleeping: None,
            background_until: None,
            spin,
            active: None,
            transport_count: 0,
        }
    }

    fn is_connected(&self) -> bool {
        self.active.is_some()
    }

    fn peer(&self) -> Option<Peer> {
        self.active.as_ref().map(|active| active.peer)
    }

    fn connect(&mut self, mut transport: Transport, now: Tick, wall: Timestamp) {
        let channel = match transport.receive.channel() {
            ChannelState::Encrypted(channel) => *channel,
            // A dial includes the handshake, so the state is known.
            ChannelState::Plain | ChannelState::Undecided | ChannelState::EncryptionMissing => {
                transport.peer.plain_channel()
            }
        };
        self.endpoint.handle_channel(&channel);
        self.install(transport);
        self.endpoint.handle_connected(now, wall);
    }

    /// Replaces the current transport without informing the endpoint, which already knows. Data
    /// queued on the old transport is still sent.
    fn install(&mut self, transport: Transport) {
        if let Some(mut old) = self.active.take() {
            old.outgoing.finish();
        }
        let Transport {
            source,
            mut receive,
            send,
            peer,
        } = transport;
        self.transport_count += 1;
        let is_direct = self.endpoint.direct().is_some();
        let bytes = match is_direct {
            true => READ_BYTES_DIRECT,
            false => READ_BYTES,
        };
        let incoming = Incoming {
            transport_number: self.transport_count,
            is_direct,
            // The handshake may have read more, which the source does not report again.
            ready: receive.glance() == Some(true),
            half: receive,
            source: source.clone(),
            buffer: vec![0; bytes].into_boxed_slice(),
            filled: 0,
            ended: None,
            spin: Spin::new(self.spin),
        };
        let outgoing = Outgoing::new(send);
        self.active = Some(ActiveTransport {
            number: self.transport_count,
            peer,
            source,
            outgoing,
            broken: None,
            incoming: Some(incoming),
        });
    }

    fn pass_descriptor(&mut self, frame: Vec<u8>, file: OwnedFd) {
        if let Some(active) = &mut self.active {
            active.outgoing.pass_descriptor(frame, file);
        }
    }

    fn disconnect(&mut self, now: Tick, cause: Disconnect) {
        if let Some(mut active) = self.active.take() {
            match cause {
                Disconnect::Dead { .. } => active.outgoing.abort(),
                _ => active.outgoing.finish(),
            }
            self.endpoint.handle_disconnected(now, cause);
        }
    }

    /// Closes the transport without informing the endpoint, which has panicked.
    fn abandon(&mut self) {
        self.active = None;
    }

    /// Returns the wake-up conditions for the next sleep, or `None` while there is nothing to
    /// drive.
    fn sleep_plan(&self) -> Option<SleepPlan> {
        let active = self.active.as_ref()?;
        let incoming = active.incoming.as_ref()?;
        let wanted = self.endpoint.wants_input();
        let found = incoming.ready || incoming.filled > 0;
        let interest = Interest {
            read: wanted,
            write: active.is_blocked(),
        };
        Some(SleepPlan {
            source: active.source.clone(),
            interest,
            at_once: wanted && found,
        })
    }

    fn transport(&self) -> Option<TransportUsed> {
        let active = self.active.as_ref()?;
        let name = active.source.hint().transport_name(active.peer);
        Some(TransportUsed {
            name,
            why_not_shared_memory: active.source.why_not_shared().map(str::to_owned),
        })
    }

    /// Returns the other end's table of last values, if the table has a slot for `index`.
    fn table(&self, index: u32, now: Tick) -> TableAnswer {
        match &self.active {
            Some(active) => active.source.table(index, now),
            None => TableAnswer::None,
        }
    }

    /// Prepares the source for the sleep of the driving thread. Returns true if there is work to do
    /// before the sleep.
    fn arm(&mut self) -> bool {
        let wanted = self.endpoint.wants_input();
        let incoming = self
            .active
            .as_mut()
            .and_then(|active| active.incoming.as_mut());
        wanted && incoming.is_some_and(Incoming::arm)
    }

    fn take_incoming(&mut self) -> Option<Incoming> {
        self.active.as_mut()?.incoming.take()
    }

    /// Handles the input of one turn. Returns true if the endpoint received something.
    fn handle_incoming(&mut self, mut incoming: Incoming, now: Tick, wall: Timestamp) -> bool {
        // Another transport may have replaced the transport that the input was read from.
        let Some(active) = self
            .active
            .as_mut()
            .filter(|active| active.number == incoming.transport_number)
        else {
            return false;
        };
        let mut taken = false;
        let mut read = 0;
        loop {
            let bytes = &incoming.buffer[..incoming.filled];
            if !bytes.is_empty() && self.endpoint.wants_input() {
                self.endpoint.handle_input(now, wall, bytes);
                incoming.filled = 0;
                taken = true;
            }
            if !incoming.may_read() || read >= DIRECT_MAX || !self.endpoint.wants_input() {
                break;
            }
            let Some(direct) = self.endpoint.direct() else {
                break;
            };
            let count = incoming.fill_direct(direct, now);
            read += count;
            taken |= count > 0;
        }
        if incoming.filled > 0 || incoming.ended.is_none() {
            active.incoming = Some(incoming);
            return taken;
        }
        // The endpoint's own reason is the most informative, followed by the first failure.
        let reasons = [
            self.endpoint.wants_close(),
            active.broken.take(),
            incoming.ended.take(),
        ];
        let cause = reasons
            .into_iter()
            .flatten()
            .next()
            .unwrap_or(Disconnect::PeerClosed);
        self.disconnect(now, cause);
        true
    }

    /// Runs the endpoint's time-out if it is due, and returns true in that case.
    fn run_timeout(&mut self, now: Tick, wall: Timestamp) -> bool {
        let due = self.endpoint.poll_timeout().is_some_and(|at| at <= now);
        if due {
            self.endpoint.handle_timeout(now, wall);
        }
        due
    }

    /// Sends the endpoint's output, and closes the transport if the endpoint requests it. Returns
    /// true if the transport was closed.
    fn send(&mut self, now: Tick, wall: Timestamp) -> bool {
        let Some(active) = &mut self.active else {
            return false;
        };
        let mut flush = Flush::Done;
        if active.broken.is_none() {
            let outgoing = &mut active.outgoing;
            let continued = match self.endpoint.take_end_keys() {
                Some(keys) => outgoing.continue_with(&keys),
                None => Ok(()),
            };
            let sent = continued.and_then(|()| match outgoing.is_open() {
                true => outgoing.flush(&mut self.endpoint, now, wall, usize::MAX, || false),
                // Only the messages of the handshake.
                false => outgoing.write().map(|_| Flush::Blocked),
            });
            match sent {
                Ok(reached) => flush = reached,
                Err(error) => active.broken = Some(error.into()),
            }
        }
        match self.endpoint.wants_close() {
            Some(cause) if active.outgoing.may_close(&cause, flush, now) => {
                self.disconnect(now, cause);
                true
            }
            _ => false,
        }
    }

    fn close_by(&self) -> Option<Tick> {
        self.active.as_ref()?.outgoing.close_by()
    }

    /// Returns true if the transport has taken all output of the endpoint so far, or if there is no
    /// transport.
    fn is_flushed(&self) -> bool {
        self.active
            .as_ref()
            .is_none_or(|active| !active.is_blocked())
    }

    /// Returns true if the driving thread would sleep through an event, or beyond the earliest due
    /// time, `due`.
    fn oversleeps(&self, due: Option<Tick>) -> bool {
        let Some(sleeping) = self.sleeping else {
            return false;
        };
        let late = due.is_some_and(|due| sleeping.until.is_none_or(|until| due < until));
        let ignores_event = match (&self.active, sleeping.interest) {
            (Some(active), Some(interest)) => {
                (self.endpoint.wants_input() && !interest.read)
                    || (active.is_blocked() && !interest.write)
            }
            (active, interest) => active.is_some() != interest.is_some(),
        };
        late || ignores_event
    }
}

impl ActiveTransport {
    /// Returns true if nothing can be sent before the transport has room again.
    fn is_blocked(&self) -> bool {
        self.outgoing.is_blocked() && self.broken.is_none()
    }
}

impl Incoming {
    fn set_ready(&mut self) {
        self.source.acknowledge();
        self.half.acknowledge(false);
        self.ready = true;
    }

    /// Prepares for a sleep. Returns true if there is something to read already.
    fn arm(&mut self) -> bool {
        self.ready |= self.half.arm();
        self.ready
    }

    /// Polls for input for a short time before sleeping. Returns true if it found input, or, with
    /// `may_flush`, if what it has read must be answered at once.
    fn spin(&mut self, longest: Option<Duration>, may_flush: bool) -> bool {
        let mut spin = self.spin;
        let found = spin.run(longest, || {
            // Polling memory is cheaper than reading the clock.
            for _ in 0..POLLS_PER_CLOCK_READING {
                match self.half.glance() {
                    Some(true) => break,
                    Some(false) => std::hint::spin_loop(),
                    None => break,
                }
            }
            if self.half.glance() == Some(false) {
                return false;
            }
            self.ready = true;
            self.read();
            self.filled > 0 || self.ended.is_some() || (may_flush && self.half.wants_flush())
        });
        self.spin = spin;
        found
    }

    /// Returns true if input can be seen without a system call.
    fn glance(&mut self) -> bool {
        self.ready |= self.half.glance() == Some(true);
        self.ready
    }

    fn waited(&mut self, waited: Duration) {
        self.spin.waited(waited);
    }

    /// Reads once, unless earlier input is still pending or the endpoint must provide the memory.
    fn fill(&mut self) {
        if !self.is_direct {
            self.read();
        }
    }

    fn may_read(&self) -> bool {
        self.ready && self.filled == 0 && self.ended.is_none()
    }

    /// Reads once into the endpoint's memory; bytes beyond it go into the buffer. Returns the
    /// number of bytes in the endpoint's memory.
    fn fill_direct(&mut self, direct: &mut dyn DirectBytes, now: Tick) -> usize {
        let space = direct.space();
        let (room, direct_room) = (space.len() + self.buffer.len(), space.len());
        match self.half.try_read_two(space, &mut self.buffer) {
            Ok(Some(0)) => self.end(Disconnect::PeerClosed),
            Ok(Some(count)) => {
                let received = count.min(direct_room);
                self.filled = count - received;
                self.ready = !self.half.is_drained(&self.source, count, room);
                if received > 0 {
                    direct.handle_received(now, received);
                }
                return received;
            }
            Ok(None) => self.ready = false,
            Err(error) => self.end(error.into()),
        }
        0
    }

    fn read(&mut self) {
        if !self.may_read() {
            return;
        }
        match self.half.try_read(&mut self.buffer) {
            Ok(Some(0)) => self.end(Disconnect::PeerClosed),
            Ok(Some(count)) => {
                self.filled = count;
                let room = self.buffer.len();
                self.ready = !self.half.is_drained(&self.source, count, room);
            }
            Ok(None) => self.ready = false,
            Err(error) => self.end(error.into()),
        }
    }

    fn end(&mut self, cause: Disconnect) {
        self.ready = false;
        self.ended = Some(cause);
    }
}
