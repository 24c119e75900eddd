//! Simulates one client of an engine and its connections, for the simulations of alarms and history.
//!
//! The production client is at one end of each simulated connection ("line"), and a production session
//! is at the other end.
//!
//! ```text
//! ClientCore ~ line ~ Session      in use
//!              line ~ Session      closed by the client; the engine has not noticed
//! ```
//!
//! A session has a turn only if it was woken, bytes have arrived, a timeout is due, or there is room
//! again. If a wake-up is missing, an update therefore arrives too late.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use trunkline_client::{ClientCore, ClientOptions};
use trunkline_engine::{Administrator, Caller, Engine, Order, Principal, Reply, Wake};
use trunkline_proto::Endpoint;
use trunkline_serve::{ServeOptions, Session};
use trunkline_types::{Moment, Tick};

use crate::link::{CAPACITY, Direction, End, Way, ended, last_word, refusal, transmit};
use crate::rng::Rng;

/// Maximum number of bytes that are read at once.
const READ_MAX: usize = 16 << 10;
/// Number of session numbers that are reserved for each client.
const SESSIONS: u32 = 1 << 20;

/// Queue of orders from sessions that the host has not answered.
#[derive(Default)]
struct OrderQueue(Mutex<VecDeque<(Order, Reply)>>);

impl Administrator for OrderQueue {
    fn submit(&self, _caller: &Caller, order: Order, reply: Reply) {
        let mut orders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        orders.push_back((order, reply));
    }
}

/// The parts of the engine that its sessions need.
pub struct Service {
    engine: Engine,
    options: Arc<ServeOptions>,
    orders: Arc<OrderQueue>,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").finish_non_exhaustive()
    }
}

impl Service {
    pub fn new(engine: &Engine) -> Self {
        let orders = Arc::new(OrderQueue::default());
        let options = ServeOptions {
            administrator: Some(Arc::clone(&orders) as Arc<dyn Administrator>),
            ..ServeOptions::default()
        };
        Self {
            engine: engine.clone(),
            options: Arc::new(options),
            orders,
        }
    }

    /// Removes and returns the next order to answer.
    pub fn take_order(&self) -> Option<(Order, Reply)> {
        let mut orders = self.orders.0.lock().unwrap_or_else(PoisonError::into_inner);
        orders.pop_front()
    }
}

/// Records that a session was woken.
#[derive(Clone, Default)]
struct WakeFlag(Arc<Mutex<bool>>);

impl Wake for WakeFlag {
    fn wake(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }
}

impl WakeFlag {
    fn is_set(&self) -> bool {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> bool {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The engine's end of a line.
struct Served {
    session: Session,
    wake_flag: WakeFlag,
    /// True if the session has more to send, or if there is room again.
    is_due: bool,
}

#[derive(Default)]
struct Line {
    to_engine: Direction,
    to_client: Direction,
    /// The engine's end; `None` after it was closed.
    served: Option<Served>,
    /// True after the client has closed its end.
    is_left: bool,
}

/// A client and its lines. The client uses the newest line, unless it has closed its end of it.
pub struct Remote {
    pub core: ClientCore,
    pub connections: u64,
    number: u32,
    way: Way,
    rng: Rng,
    lines: Vec<Line>,
    /// True if the client has more to send, or if there is room again.
    is_due: bool,
    /// The sessions have no turns before this time.
    engine_paused_until: Tick,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote")
            .field("core", &self.core)
            .field("lines", &self.lines.len())
            .finish_non_exhaustive()
    }
}

impl Remote {
    /// Creates a client that is not connected. `number` is different for each client of an engine.
    pub fn new(number: u32, rng: &mut Rng) -> Self {
        let mut rng = rng.fork();
        let delay = Duration::from_secs_f64(rng.magnitude(0.000_05, 0.08));
        let options = ClientOptions {
            seed: rng.bits(),
            ..ClientOptions::default()
        };
        Self {
            core: ClientCore::new(options),
            connections: 0,
            number,
            way: Way {
                delay,
                jitter: delay.mul_f64([0.0, 0.5][rng.index(2)]),
                piece_max: [CAPACITY, 1500, 100][rng.index(3)],
                ..Way::perfect()
            },
            rng,
            lines: Vec::new(),
            is_due: false,
            engine_paused_until: Tick::ZERO,
        }
    }

    /// Schedules an immediate turn of the client, because the program has made a request.
    pub fn wake(&mut self) {
        self.is_due = true;
    }

    /// Returns the time of the next turn of the client or a session. A time in the past means now.
    pub fn next(&self) -> Option<Tick> {
        let dial = match self.lines.last() {
            Some(line) if !line.is_left => None,
            _ => self.core.poll_dial(),
        };
        let own = self.is_due.then_some(Tick::ZERO);
        let lines = self.lines.iter().flat_map(|line| {
            let client = match line.is_left {
                true => [None, None],
                false => [
                    self.core.poll_timeout(),
                    line.to_client.next_arrival(&self.way),
                ],
            };
            let served = line.served.as_ref();
            let served = served.map_or([None; 3], |served| {
                let is_due = served.is_due || served.wake_flag.is_set();
                let takes = served.session.wants_input();
                [
                    served.session.poll_timeout(),
                    line.to_engine.next_arrival(&self.way).filter(|_| takes),
                    is_due.then_some(Tick::ZERO),
                ]
            });
            let paused_until = self.engine_paused_until;
            let served = served.into_iter().flatten();
            let served = served.map(move |due| due.max(paused_until));
            client.into_iter().flatten().chain(served)
        });
        lines.chain(dial).chain(own).min()
    }

    /// Runs the turns that are due at both ends. Without `service`, attempts to connect are refused.
    pub fn turn(&mut self, at: Moment, service: Option<&Service>) {
        self.dial(at, service);
        let is_paused = at.now < self.engine_paused_until;
        for line in self.lines.iter_mut().filter(|_| !is_paused) {
            if line.serve(at, &self.way, &mut self.rng) {
                self.is_due = true;
            }
        }
        self.drive(at);
        let is_open = |line: &Line| line.served.is_some() || !line.is_left;
        self.lines.retain(is_open);
    }

    /// Returns the line that the client uses; `None` if the client is not connected.
    fn current_line(&mut self) -> Option<&mut Line> {
        self.lines.last_mut().filter(|line| !line.is_left)
    }

    fn dial(&mut self, at: Moment, service: Option<&Service>) {
        let is_due = self.core.poll_dial().is_some_and(|due| due <= at.now);
        if !is_due || self.current_line().is_some() {
            return;
        }
        let Some(service) = service else {
            return self.core.handle_disconnected(at.now, refusal());
        };
        self.connections += 1;
        let caller = Caller {
            principal: Principal::Loopback,
            origin: Arc::from("127.0.0.1:50000"),
            remote: true,
            ..Caller::local((self.number + 1) * SESSIONS + self.connections as u32, 0)
        };
        let wake_flag = WakeFlag::default();
        let (engine, options) = (service.engine.clone(), Arc::clone(&service.options));
        let mut session = Session::new(engine, options, caller, Box::new(wake_flag.clone()));
        session.handle_connected(at.now, at.wall);
        self.lines.push(Line {
            served: Some(Served {
                session,
                wake_flag,
                is_due: true,
            }),
            ..Line::default()
        });
        self.core.handle_connected(at.now, at.wall);
    }

    /// Runs a turn of the client.
    fn drive(&mut self, at: Moment) {
        self.is_due = false;
        let Self {
            core,
            lines,
            way,
            rng,
            is_due,
            ..
        } = self;
        let Some(line) = lines.last_mut().filter(|line| !line.is_left) else {
            return;
        };
        let mut input = Vec::new();
        line.to_client.read(at.now, READ_MAX, way, &mut input);
        if !input.is_empty() {
            core.handle_input(at.now, at.wall, &input);
            if let Some(served) = &mut line.served {
                served.is_due |= std::mem::take(&mut line.to_client.was_full);
            }
        }
        if core.poll_timeout().is_some_and(|due| due <= at.now) {
            core.handle_timeout(at.now, at.wall);
        }
        let send = |to: &mut Direction, bytes: &[u8]| to.send(at.now, bytes, way, rng);
        *is_due = transmit(core, &mut line.to_engine, at, send);
        let closes = core.wants_close().filter(|_| !*is_due);
        let gone = line.to_client.ended(at.now, way);
        if let Some(cause) = closes.or(gone.map(ended)) {
            line.is_left = true;
            let end = last_word(gone, &cause);
            line.to_engine.finish(at.now, end, way);
            core.handle_disconnected(at.now, cause);
        }
    }

    /// Cuts the connection at a random byte in flight.
    pub fn cut(&mut self, now: Tick) {
        let end = self.random_end();
        let Self { lines, rng, .. } = self;
        let Some(line) = lines.last_mut().filter(|line| !line.is_left) else {
            return;
        };
        for direction in [&mut line.to_client, &mut line.to_engine] {
            let kept = rng.index(direction.bytes() + 1);
            direction.cut(now, kept, end);
        }
    }

    /// Stops all bytes until this time, without notice to either end.
    pub fn silence(&mut self, until: Tick) {
        self.way.silent_until = self.way.silent_until.max(until);
    }

    /// Pauses the engine's process until this time.
    pub fn pause_engine(&mut self, until: Tick) {
        self.engine_paused_until = self.engine_paused_until.max(until);
    }

    /// Ends every silence and pause.
    pub fn heal(&mut self) {
        (self.way.silent_until, self.engine_paused_until) = (Tick::ZERO, Tick::ZERO);
    }

    /// Closes the engine's end of all lines, because its process has ended.
    pub fn engine_ended(&mut self, now: Tick) {
        self.engine_paused_until = Tick::ZERO;
        let end = self.random_end();
        for line in &mut self.lines {
            if line.served.take().is_some() {
                line.to_client.finish(now, end, &self.way);
            }
        }
    }

    fn random_end(&mut self) -> End {
        match self.rng.chance(0.5) {
            true => End::Fin,
            false => End::Reset,
        }
    }
}

impl Line {
    /// Runs a turn of the session. Returns true if the client has room again.
    fn serve(&mut self, at: Moment, way: &Way, rng: &mut Rng) -> bool {
        let Some(served) = &mut self.served else {
            return false;
        };
        let session = &mut served.session;
        let mut input = Vec::new();
        if session.wants_input() {
            self.to_engine.read(at.now, READ_MAX, way, &mut input);
        }
        let took_input = !input.is_empty();
        if took_input {
            session.handle_input(at.now, at.wall, &input);
        }
        let has_room = took_input && std::mem::take(&mut self.to_engine.was_full);
        let is_timed = session.poll_timeout().is_some_and(|due| due <= at.now);
        if is_timed {
            session.handle_timeout(at.now, at.wall);
        }
        let is_woken = served.wake_flag.take();
        if took_input || is_timed || is_woken || served.is_due {
            let send = |to: &mut Direction, bytes: &[u8]| to.send(at.now, bytes, way, rng);
            served.is_due = transmit(session, &mut self.to_client, at, send);
        }
        let closes = session.wants_close().filter(|_| !served.is_due);
        // Report the end only after the session has accepted all bytes before it.
        let gone = self.to_engine.ended(at.now, way);
        if let Some(cause) = closes.or(gone.map(ended)) {
            let end = last_word(gone, &cause);
            session.handle_disconnected(at.now, cause);
            self.to_client.finish(at.now, end, way);
            self.served = None;
        }
        has_room
    }
}
