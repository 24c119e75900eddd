//! Implements the simulated world of a stream: two machines, the network between them, and the time.

mod phases;
mod processes;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use trunkline_proto::Endpoint as _;
use trunkline_stream::directory::DirectoryHost;
use trunkline_stream::journal::sim_disk::SimDisk;
use trunkline_stream::sim::{self, Process, SimClock};
use trunkline_types::Tick;

use super::checker::Checker;
use super::ctx::{Ctx, Exit, Phase, Shared};
use super::fault::Fault;
use super::net::{Conn, Holder};
use super::plan::Plan;
use super::turn::Slot;
use crate::link::Way;
use crate::rng::Rng;
use crate::run::BEGIN;
use crate::trace::Trace;

/// Maximum number of earlier connections whose first bytes are stored for a replay.
const OPENINGS: usize = 8;

/// The process of a side, while it runs.
pub struct Running {
    pub process: Arc<Process>,
    program: Option<Pin<Box<dyn Future<Output = Exit>>>>,
    pub ctx: Ctx,
    /// Number of endpoints of the process that the world knows.
    known_endpoints: u64,
    /// How the program has ended; `None` while it runs.
    pub exit: Option<Exit>,
}

pub struct Machine {
    /// The process, while it runs.
    pub running: Option<Running>,
    /// Time at which the process starts; `None` if no start is planned.
    pub start_at: Option<Tick>,
    /// Time until which the process is paused.
    pub paused_until: Tick,
    /// Time since which the process has run without a pause.
    pub runs_since: Tick,
    /// The directory of the machine's engine, or of the process if there is no engine.
    host: Option<Arc<DirectoryHost>>,
    pub disk: SimDisk,
    pub slots: Vec<Slot>,
    pub way: Way,
}

pub struct World {
    pub now: Tick,
    pub rng: Rng,
    pub trace: Trace,
    pub shared: Rc<Shared>,
    pub sides: [Machine; 2],
    /// The connections, by number.
    pub conns: BTreeMap<u64, Conn>,
    /// The first bytes of earlier connections, each with the side to which it was made.
    pub openings: Vec<(usize, Vec<u8>)>,
    /// Time until which connections are refused.
    pub refuse_until: Tick,
    /// Time until which attempts to connect are not answered.
    pub silent_until: Tick,
    /// Number of faults, by kind.
    pub faults: BTreeMap<Fault, u64>,
    /// Number of connections so far.
    pub connections: u64,
    /// Time of the next fault of each kind.
    pub schedule: Vec<(Tick, Fault)>,
    /// The last number that was assigned to a connection or endpoint.
    numbers: u64,
    clock: Arc<SimClock>,
}

impl World {
    pub fn new(plan: Plan, trace: Trace) -> Self {
        let mut rng = Rng::new(plan.seed ^ 0x7374_7265_616d_7332);
        let clock = Arc::new(SimClock::default());
        clock.set(BEGIN);
        let shared = Rc::new(Shared {
            checker: RefCell::new(Checker::new(&plan)),
            phase: Cell::new(Phase::Faults),
            ends: RefCell::default(),
            ends_at: Cell::new(None),
            idle_until: Default::default(),
            log_lines: RefCell::default(),
            clock: clock.clone(),
            plan,
        });
        let plan = &shared.plan;
        let schedule = plan.faults.iter();
        let schedule = schedule
            .map(|(fault, mean)| (BEGIN.saturating_add(rng.wait(*mean)), *fault))
            .collect();
        let sides = [0, 1].map(|_| Machine {
            running: None,
            start_at: Some(BEGIN.saturating_add(rng.millis(0, 300))),
            paused_until: Tick::ZERO,
            runs_since: BEGIN,
            host: None,
            disk: SimDisk::default(),
            slots: Vec::new(),
            way: plan.way,
        });
        Self {
            now: BEGIN,
            rng,
            trace,
            sides,
            conns: BTreeMap::new(),
            openings: Vec::new(),
            refuse_until: Tick::ZERO,
            silent_until: Tick::ZERO,
            faults: BTreeMap::new(),
            connections: 0,
            schedule,
            numbers: 0,
            clock,
            shared,
        }
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.shared.plan
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub(super) fn add(&mut self, conn: Conn) -> u64 {
        let number = self.number();
        self.conns.insert(number, conn);
        number
    }

    /// Runs everything that is due on one side.
    fn turn_side(&mut self, side: usize) {
        let now = self.now;
        if self.sides[side].paused_until > now {
            return;
        }
        if self.sides[side].start_at.is_some_and(|at| at <= now) {
            self.start(side);
        }
        let mut polls_program = false;
        let mut at = 0;
        while at < self.sides[side].slots.len() {
            let slot = &self.sides[side].slots[at];
            let conn = slot.conn.and_then(|number| self.conns.get(&number));
            if slot
                .next(conn)
                .is_some_and(|due| due.saturating_add(slot.turn_delay) <= now)
            {
                let waits = slot.end.waits();
                polls_program |= waits.flatten().is_some_and(|until| until <= now);
                polls_program |= self.turn(side, at) || self.plan().sides[side].pace.drives;
            }
            if !self.remove_closed(side, at) {
                at += 1;
            }
        }
        let running = self.sides[side].running.as_ref();
        polls_program |= running.is_some_and(|r| r.ctx.wake_at().is_some_and(|at| at <= now));
        if polls_program {
            self.poll(side);
        }
    }

    fn turn_sessions(&mut self) {
        let now = self.now;
        let numbers: Vec<u64> = self.conns.keys().copied().collect();
        for number in numbers {
            let Some(conn) = self.conns.get(&number) else {
                continue;
            };
            if self.session_due(conn).is_some_and(|due| due <= now) {
                let read_max = self.plan().read_max;
                if let Some(conn) = self.conns.get_mut(&number)
                    && let Some(handed) = conn.turn_session(now, read_max, &mut self.rng)
                {
                    let to = conn.to;
                    if let Some(host) = &self.sides[to].host {
                        sim::hand_over(host, handed, number);
                    }
                    for slot in &mut self.sides[to].slots {
                        slot.due = Some(now);
                    }
                }
            }
            if let Some(conn) = self.conns.get(&number)
                && conn.exceeds_directory_limit()
            {
                let violation = || {
                    format!(
                        "I7: the directory keeps {} bytes for one peer",
                        conn.directory_bytes
                    )
                };
                self.shared.checker.borrow_mut().fail(violation);
            }
            if let Some(conn) = self.conns.get(&number)
                && conn.is_over()
            {
                if !conn.is_replay && self.openings.len() < OPENINGS {
                    self.openings.push((conn.to, conn.opening.clone()));
                }
                self.conns.remove(&number);
            }
        }
    }

    fn session_due(&self, conn: &Conn) -> Option<Tick> {
        let Holder::Session(hosted) = &conn.holders[1] else {
            return None;
        };
        let rings = hosted.bell.is_rung().then_some(self.now);
        let takes = hosted.session.wants_input();
        let arrives = conn.next_arrival(1).filter(|_| takes);
        let has_room = !hosted.out.is_empty() && conn.directions[1].room() > 0;
        let sends = has_room.then_some(self.now);
        let due = [hosted.due, arrives, rings, sends];
        let due = due.into_iter().flatten().min()?;
        let is_own = !self.plan().sides[conn.to].has_engine;
        Some(match is_own {
            true => due.max(self.sides[conn.to].paused_until),
            false => due,
        })
    }

    /// Returns the time of the next event.
    fn next(&self) -> Option<Tick> {
        let mut next = Tick::MAX;
        for machine in &self.sides {
            let mut side_next = Tick::MAX;
            for slot in &machine.slots {
                let conn = slot.conn.and_then(|number| self.conns.get(&number));
                if let Some(due) = slot.next(conn) {
                    side_next = side_next.min(due.saturating_add(slot.turn_delay));
                }
            }
            let running = machine.running.as_ref();
            if let Some(at) = running.and_then(|r| r.ctx.wake_at()) {
                side_next = side_next.min(at);
            }
            if let Some(at) = machine.start_at {
                side_next = side_next.min(at);
            }
            next = next.min(side_next.max(machine.paused_until));
        }
        for conn in self.conns.values() {
            if let Some(due) = self.session_due(conn) {
                next = next.min(due);
            }
        }
        for (at, _) in &self.schedule {
            next = next.min(*at);
        }
        (next < Tick::MAX).then_some(next)
    }
}
