//! The world of one stream: two machines, the network between them, and the time.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use trunkline_stream::directory::DirectoryHost;
use trunkline_stream::journal::Bounds;
use trunkline_stream::journal::sim_disk::{Crash, SimDisk};
use trunkline_stream::sim::{self, Bell, Process, SimClock};
use trunkline_types::Tick;

use super::checker::Checker;
use super::ctx::{Ctx, Exit, Phase, Shared};
use super::fault::Fault;
use super::net::{Conn, Holder, Hosted};
use super::plan::Plan;
use super::turn::Slot;
use super::{reading, writing};
use crate::link::{End, Way};
use crate::rng::Rng;
use crate::trace::Trace;

/// How long writing goes on after the heal.
const CALM_WRITES: Duration = Duration::from_secs(4);
/// By then everything has to be there.
const CALM: Duration = Duration::from_secs(10);
/// By then the stream has to be at its end.
const FINISH: Duration = Duration::from_secs(20);
/// Openings of earlier connections that are kept to come once more.
const OPENINGS: usize = 8;
/// Turns at one instant, or somebody turns for ever.
const TURNS_MAX: u64 = 200_000;

/// The process of a side, while there is one.
pub struct Running {
    pub process: Arc<Process>,
    program: Option<Pin<Box<dyn Future<Output = Exit>>>>,
    pub ctx: Ctx,
    seen: u64,
    pub exit: Option<Exit>,
}

/// One machine.
pub struct Machine {
    pub running: Option<Running>,
    pub start_at: Option<Tick>,
    pub frozen_until: Tick,
    /// Since when the process runs without a break.
    pub runs_since: Tick,
    /// The engine's directory, or that of the process.
    host: Option<Arc<DirectoryHost>>,
    pub disk: SimDisk,
    pub slots: Vec<Slot>,
    pub way: Way,
}

/// The world.
pub struct World {
    pub now: Tick,
    pub rng: Rng,
    pub trace: Trace,
    pub shared: Rc<Shared>,
    pub sides: [Machine; 2],
    pub conns: BTreeMap<u64, Conn>,
    pub openings: Vec<(usize, Vec<u8>)>,
    pub refuse_until: Tick,
    pub silent_until: Tick,
    pub faults: BTreeMap<Fault, u64>,
    pub connections: u64,
    pub schedule: Vec<(Tick, Fault)>,
    numbers: u64,
    clock: Arc<SimClock>,
}

const START: Tick = Tick::from_nanos(1_000_000_000);

impl World {
    pub fn new(plan: Plan) -> Self {
        let mut rng = Rng::new(plan.seed ^ 0x7374_7265_616d_7332);
        let clock = Arc::new(SimClock::default());
        clock.set(START);
        let shared = Rc::new(Shared {
            checker: RefCell::new(Checker::new(&plan)),
            phase: Cell::new(Phase::Faults),
            ends: RefCell::default(),
            idle_until: Default::default(),
            said: RefCell::default(),
            clock: clock.clone(),
            plan,
        });
        let plan = &shared.plan;
        let schedule = plan.faults.iter();
        let schedule = schedule
            .map(|(fault, mean)| (START.saturating_add(rng.wait(*mean)), *fault))
            .collect();
        let sides = [0, 1].map(|_| Machine {
            running: None,
            start_at: Some(START.saturating_add(rng.millis(0, 300))),
            frozen_until: Tick::ZERO,
            runs_since: START,
            host: None,
            disk: SimDisk::default(),
            slots: Vec::new(),
            way: plan.way,
        });
        Self {
            now: START,
            rng,
            trace: Trace::default(),
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

    /// A session at the directory of a side, if somebody listens there.
    pub(super) fn session(&mut self, side: usize) -> Option<Holder> {
        let has_engine = self.plan().sides[side].has_engine;
        let machine = &self.sides[side];
        // A port of its own is open while the process has an end.
        let is_open = has_engine || machine.slots.iter().any(|s| s.end.closes_by().is_none());
        let host = machine.host.as_ref().filter(|_| is_open)?;
        let bell = Bell::default();
        let session = sim::session(host, &bell, self.now);
        Some(Holder::Session(Box::new(Hosted {
            session,
            bell,
            out: Vec::new(),
            due: Some(self.now),
        })))
    }

    fn start(&mut self, side: usize) {
        let now = self.now;
        let process = Process::new(&self.clock, self.rng.bits());
        let has_engine = self.plan().sides[side].has_engine;
        if self.sides[side].host.is_none() || !has_engine {
            let host = sim::directory(&Process::new(&self.clock, self.rng.bits()));
            self.sides[side].host = Some(host);
        }
        let machine = &mut self.sides[side];
        if let Some(host) = &machine.host {
            process.set_host(host.clone());
        }
        let buffer = self.shared.plan.sides[side].bytes_max as u64
            + self.shared.plan.sides[side].capacity as u64 * 64;
        let bounds = Bounds {
            bytes_max: (buffer * 8).max(8192),
            segment_bytes: (buffer / 2).max(700),
        };
        process.set_disk(Arc::new(machine.disk.clone()), bounds);
        let ctx = Ctx::new(&self.shared, side, process.clone(), self.rng.fork());
        let program: Pin<Box<dyn Future<Output = Exit>>> = match side {
            0 => Box::pin(writing::run(ctx.clone())),
            _ => Box::pin(reading::run(ctx.clone())),
        };
        self.trace.say(now, || format!("side {side} starts"));
        machine.start_at = None;
        machine.runs_since = now;
        machine.frozen_until = Tick::ZERO;
        machine.running = Some(Running {
            process,
            program: Some(program),
            ctx,
            seen: 0,
            exit: None,
        });
        self.poll(side);
    }

    /// The process is gone, without a word.
    pub(super) fn kill(&mut self, side: usize, crash: Crash) {
        let now = self.now;
        self.shared.checker.borrow_mut().killed(side);
        if let Some(reader) = &self.shared.ends.borrow()[side]
            && side == 1
        {
            let own = super::ctx::lineage(reader.incarnation());
            let found = reader.properties();
            self.shared.checker.borrow_mut().reader_gone(own, &found);
        }
        for slot in &self.sides[side].slots {
            slot.end.kill();
        }
        let how = if self.rng.chance(0.5) {
            End::Reset
        } else {
            End::Fin
        };
        let has_engine = self.plan().sides[side].has_engine;
        let numbers: Vec<u64> = self.conns.keys().copied().collect();
        for number in numbers {
            let Some(conn) = self.conns.get_mut(&number) else {
                continue;
            };
            for end in 0..2 {
                let of_side = match conn.holders[end] {
                    Holder::Slot(of, _) => of == side,
                    Holder::OnTheWay => conn.to == side,
                    Holder::Session(_) => conn.to == side && !has_engine,
                    Holder::Nobody => false,
                };
                if of_side {
                    conn.finish(end, now, how);
                }
            }
        }
        let machine = &mut self.sides[side];
        machine.slots.clear();
        if let Some(running) = machine.running.take() {
            running.process.forget();
        }
        machine.disk = machine.disk.after(crash);
        self.shared.ends.borrow_mut()[side] = None;
    }

    /// Lets the program of a side go on.
    pub(super) fn poll(&mut self, side: usize) {
        let now = self.now;
        let Some(running) = &mut self.sides[side].running else {
            return;
        };
        if let Some(program) = &mut running.program {
            let mut context = Context::from_waker(Waker::noop());
            if let Poll::Ready(exit) = program.as_mut().poll(&mut context) {
                running.program = None;
                running.exit = Some(exit);
                self.trace.note(0x6578_6974);
                self.trace
                    .say(now, || format!("side {side} is done: {exit:?}"));
            }
        }
        let (end, count) = running.process.seated();
        if let (Some(end), true) = (end, count != running.seen) {
            running.seen = count;
            self.shared.ends.borrow_mut()[side] = Some(end.clone());
            let number = self.number();
            let slot = Slot::new(number, end, now);
            self.sides[side].slots.push(slot);
        }
        let said = std::mem::take(&mut *self.shared.said.borrow_mut());
        for line in said {
            self.trace.note_bytes(line.as_bytes());
            self.trace.say(now, || line);
        }
        let mut at = 0;
        while at < self.sides[side].slots.len() {
            if self.sides[side].slots[at].end.take_touched() {
                self.send(side, at);
                self.plan_next(side, at);
            }
            if !self.bury(side, at) {
                at += 1;
            }
        }
    }

    /// Everything that is due of one side.
    fn turn_side(&mut self, side: usize) {
        let now = self.now;
        if self.sides[side].frozen_until > now {
            return;
        }
        if self.sides[side].start_at.is_some_and(|at| at <= now) {
            self.start(side);
        }
        let mut looks = false;
        let mut at = 0;
        while at < self.sides[side].slots.len() {
            let slot = &self.sides[side].slots[at];
            let conn = slot.conn.and_then(|number| self.conns.get(&number));
            if slot
                .next(conn)
                .is_some_and(|due| due.saturating_add(slot.lag) <= now)
            {
                let waits = slot.end.waits();
                looks |= waits.flatten().is_some_and(|until| until <= now);
                looks |= self.turn(side, at) || self.plan().sides[side].pace.drives;
            }
            if !self.bury(side, at) {
                at += 1;
            }
        }
        let running = self.sides[side].running.as_ref();
        looks |= running.is_some_and(|r| r.ctx.wake_at().is_some_and(|at| at <= now));
        if looks {
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
        let arrives = conn.next_arrival(1);
        let due = [hosted.due, arrives, rings].into_iter().flatten().min()?;
        let is_own = !self.plan().sides[conn.to].has_engine;
        Some(match is_own {
            true => due.max(self.sides[conn.to].frozen_until),
            false => due,
        })
    }

    /// When something happens next.
    fn next(&self) -> Option<Tick> {
        let mut next = Tick::MAX;
        for machine in &self.sides {
            let mut of_side = Tick::MAX;
            for slot in &machine.slots {
                let conn = slot.conn.and_then(|number| self.conns.get(&number));
                if let Some(due) = slot.next(conn) {
                    of_side = of_side.min(due.saturating_add(slot.lag));
                }
            }
            let running = machine.running.as_ref();
            if let Some(at) = running.and_then(|r| r.ctx.wake_at()) {
                of_side = of_side.min(at);
            }
            if let Some(at) = machine.start_at {
                of_side = of_side.min(at);
            }
            next = next.min(of_side.max(machine.frozen_until));
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

    /// What everybody waits for, for people.
    fn state(&self) -> String {
        let mut out = String::new();
        for (side, machine) in self.sides.iter().enumerate() {
            let wake = machine.running.as_ref().map(|r| r.ctx.wake_at());
            out += &format!(" side {side}: {wake:?}, starts {:?}", machine.start_at);
            for slot in &machine.slots {
                let conn = slot.conn.and_then(|number| self.conns.get(&number));
                out += &format!(
                    ", slot {} {:?} {:?}",
                    slot.number,
                    slot.conn,
                    slot.next(conn)
                );
                out += &format!(" due {:?} waits {:?}", slot.due, slot.end.waits());
            }
        }
        for (number, conn) in &self.conns {
            out += &format!(", conn {number} {:?}", self.session_due(conn));
        }
        out
    }

    /// Lets time pass until then, or until something must not have been.
    fn run_until(&mut self, until: Tick) {
        let mut turns = 0;
        while self.shared.checker.borrow().violation.is_none() {
            let Some(next) = self.next().map(|next| next.max(self.now)) else {
                break;
            };
            if next > until {
                break;
            }
            turns = if next > self.now { 0 } else { turns + 1 };
            if turns > TURNS_MAX {
                let state = self.state();
                let what = || format!("I5: somebody turns for ever: {state}");
                self.shared.checker.borrow_mut().violate(what);
            }
            self.now = next;
            self.clock.set(next);
            self.trace.events += 1;
            self.trace.note(next.as_nanos());
            self.strike_due();
            let first = self.rng.index(2);
            self.turn_side(first);
            self.turn_side(1 - first);
            self.turn_sessions();
            self.see_to_wipes();
            self.watch();
        }
        self.now = self.now.max(until);
        self.clock.set(self.now);
    }

    /// Journals that are of no use are removed, and both programs start again.
    fn see_to_wipes(&mut self) {
        let wants = |side: &Machine| {
            side.running
                .as_ref()
                .is_some_and(|r| r.exit == Some(Exit::Wipe))
        };
        if !self.sides.iter().any(wants) {
            return;
        }
        self.shared.checker.borrow_mut().wiped();
        for side in 0..2 {
            self.kill(side, Crash::Killed);
            self.sides[side].disk = SimDisk::default();
            self.sides[side].start_at = Some(self.now.saturating_add(Duration::from_millis(50)));
        }
    }

    /// The whole run: faults, the heal, and what has to hold then.
    pub fn run(&mut self) {
        let healed = START.saturating_add(self.plan().safety);
        self.run_until(healed);
        self.heal();
        self.shared
            .phase
            .set(Phase::Calm(healed.saturating_add(CALM_WRITES)));
        // Whatever they were waiting for.
        (0..2).for_each(|side| self.poll(side));
        let calm = healed.saturating_add(CALM);
        self.run_until(calm);
        if self.shared.checker.borrow().violation.is_none() {
            self.compare();
        }
        self.shared.phase.set(Phase::Finish);
        self.run_until(calm.saturating_add(FINISH));
        for side in 0..2 {
            let exit = self.sides[side].running.as_ref().and_then(|r| r.exit);
            if exit != Some(Exit::Done) {
                self.shared
                    .checker
                    .borrow_mut()
                    .violate(|| format!("I5: side {side} does not come to its end: {exit:?}"));
            }
        }
        // Programs that are left are not to find that their ends go on without a world.
        for side in 0..2 {
            self.kill(side, Crash::Killed);
        }
    }

    /// Both ends are there, and everything was read.
    fn compare(&mut self) {
        let ends = self.shared.ends.borrow();
        let [Some(writer), Some(reader)] = &*ends else {
            let what = || "I5: an end is not there 10 s after the heal".to_owned();
            self.shared.checker.borrow_mut().violate(what);
            return;
        };
        let found = [writer.properties(), reader.properties()];
        for found in &found {
            if !found.is_connected {
                self.shared.checker.borrow_mut().violate(|| {
                    format!(
                        "I5: {} is not connected 10 s after the heal: {found:?}",
                        found.url
                    )
                });
                return;
            }
        }
        let lineage = |end: &Arc<dyn sim::Driven>| super::ctx::lineage(end.incarnation());
        let (writer, own) = (lineage(writer), lineage(reader));
        let mut checker = self.shared.checker.borrow_mut();
        let life = checker.life_of(writer);
        checker.compare(own, life);
    }
}
