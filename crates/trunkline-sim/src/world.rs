//! The simulated world: machines, time, and the order of all events.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use trunkline_engine::{Attempt, Caller, Wakes, Write, WriteOutcome};
use trunkline_types::{Position, Tick, Timestamp};

use crate::checker::{Checker, Fate};
use crate::engine_host::EngineHost;
use crate::fault::Fault;
use crate::hostile::Hostile;
use crate::link::{Direction, Way};
use crate::plan::Plan;
use crate::program::{Program, ProgramHost, value_of};
use crate::rng::Rng;
use crate::run::BEGIN;
use crate::trace::Trace;

/// 2026-01-01T00:00:00Z, the start of simulated time.
const START: i64 = 1_767_225_600_000_000_000;

/// A scheduled event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Event {
    /// A client's driver has a turn.
    Client(usize),
    /// A session's driver has a turn.
    Session(u32),
    /// A dial has completed or failed.
    Dialled(usize, u32),
    /// A packet leaves over the shared line.
    Depart,
    /// The engine's housekeeping.
    House,
    /// The engine's own process writes.
    Produce,
    /// Libraries are deployed or removed.
    Redeploy,
    /// The hostile peer has a turn.
    Hostile,
    /// A program takes waiting updates.
    Take(usize),
    /// A program writes.
    Compose(usize),
    /// A fault strikes.
    Strike(Fault),
    /// The silence of a machine may end.
    Revive(usize),
    /// A machine's connections return to their normal speed.
    Ease(usize),
    /// The engine's process starts again.
    Restart,
    /// A client's process starts.
    StartProgram(usize),
    /// Bounds and deadlines are checked.
    Inspect,
}

/// One connection.
#[derive(Debug)]
pub struct Pipes {
    /// The program at the client's end.
    pub program: usize,
    /// Bytes to the engine.
    pub to_engine: Direction,
    /// Bytes to the client.
    pub to_client: Direction,
    /// The client's end is closed.
    pub client_is_gone: bool,
    /// The engine's end is closed.
    pub engine_is_gone: bool,
}

/// The current properties of a machine's connections.
#[derive(Clone, Copy, Debug)]
pub struct Ways {
    /// Towards the engine.
    pub to_engine: Way,
    /// Towards the client.
    pub to_client: Way,
}

/// One run.
#[derive(Debug)]
pub struct World {
    pub plan: Plan,
    pub now: Tick,
    pub trace: Trace,
    /// The checker of the guarantees.
    pub checker: Checker,
    /// Number of faults, by kind.
    pub faults: BTreeMap<Fault, u64>,
    /// Number of connections made.
    pub connections: u64,
    pub(crate) engine: EngineHost,
    pub(crate) programs: Vec<ProgramHost>,
    pub(crate) links: BTreeMap<u32, Pipes>,
    pub(crate) ways: Vec<Ways>,
    /// Offsets of the wall clocks, in ns: the engine's machine first, then the programs'.
    pub(crate) offsets: Vec<i64>,
    /// True once a wall clock has been stepped.
    pub(crate) stepped: bool,
    /// True while faults may strike.
    pub(crate) faulty: bool,
    /// True while programs and the engine's process write.
    pub(crate) busy: bool,
    pub(crate) chance: Rng,
    /// The connection of the hostile peer.
    pub(crate) hostile: Option<Hostile>,
    /// Number of the next transient variable.
    pub(crate) transient_variables: u32,
    pub(crate) next_link: u32,
    pub(crate) dials: u32,
    /// The connection that sent the last packet over the shared line, and a flag that another
    /// packet is scheduled.
    pub(crate) departed: u32,
    pub(crate) departs: bool,
    writers: u32,
    events: BinaryHeap<Reverse<(Tick, u64, u64, Event)>>,
    serial: u64,
}

impl World {
    /// Creates the world of a plan, at its beginning.
    pub fn new(plan: Plan, trace: Trace) -> Self {
        let mut chance = Rng::new(plan.seed);
        let programs = plan
            .programs
            .iter()
            .cloned()
            .map(ProgramHost::new)
            .collect();
        let ways = Ways {
            to_engine: plan.way,
            to_client: plan.way,
        };
        let mut world = Self {
            now: BEGIN,
            trace,
            checker: Checker::default(),
            faults: BTreeMap::new(),
            connections: 0,
            engine: EngineHost::new(plan.seed),
            programs,
            links: BTreeMap::new(),
            // The last entry is for the hostile peer, which is not a program.
            ways: vec![ways; plan.programs.len() + 1],
            offsets: vec![0; plan.programs.len() + 1],
            stepped: false,
            faulty: true,
            busy: true,
            next_link: 0,
            dials: 0,
            departed: 0,
            departs: false,
            writers: 0,
            events: BinaryHeap::new(),
            serial: 0,
            chance: chance.fork(),
            hostile: None,
            transient_variables: plan.variables.len() as u32,
            plan,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        self.checker.repairs = self.plan.repairs;
        self.checker.is_plain = self.plan.is_plain;
        let now = self.now;
        self.restart();
        for program in 0..self.programs.len() {
            let at = now.saturating_add(self.chance.millis(0, 200));
            self.schedule(at, Event::StartProgram(program));
            self.plan_compose(program);
        }
        self.plan_produce();
        self.plan_redeploy();
        self.plan_hostile();
        for (fault, mean) in self.plan.faults.clone() {
            if self.plan.cycles == 0 {
                let at = now.saturating_add(self.chance.wait(mean));
                self.schedule(at, Event::Strike(fault));
            }
        }
        self.schedule(now, Event::Inspect);
    }

    /// Returns the time of day on a machine: 0 is the engine's, then the programs'.
    pub fn wall(&self, machine: usize) -> Timestamp {
        let offset = self.offsets.get(machine).copied().unwrap_or(0);
        let elapsed = i64::try_from(self.now.as_nanos()).unwrap_or(i64::MAX);
        Timestamp::from_nanos(START.saturating_add(elapsed).saturating_add(offset))
    }

    /// Schedules an event. Events at the same time happen in random order.
    pub(crate) fn schedule(&mut self, at: Tick, event: Event) {
        self.serial += 1;
        let order = self.chance.bits();
        self.events.push(Reverse((at, order, self.serial, event)));
    }

    /// Returns the time of a turn after a random scheduling delay.
    pub(crate) fn soon(&mut self) -> Tick {
        let most = self.plan.scheduling.as_nanos() as u64;
        let nanos = self.chance.below(most + 1);
        self.now.saturating_add(Duration::from_nanos(nanos))
    }

    /// Runs until `end`, or until a violation.
    pub fn run_until(&mut self, end: Tick) {
        while self.checker.violation.is_none() {
            match self.events.peek() {
                Some(Reverse((at, ..))) if *at <= end => {}
                _ => break,
            }
            let Some(Reverse((at, _, _, event))) = self.events.pop() else {
                break;
            };
            self.now = self.now.max(at);
            self.trace.events += 1;
            self.happen(event);
        }
        self.now = self.now.max(end);
    }

    /// Returns the number of update records received by each program's client.
    pub fn received(&self) -> Vec<u64> {
        let records = |host: &ProgramHost| {
            let running = host.running.as_ref();
            running.map_or(0, |running| running.core.counters().records)
        };
        self.programs.iter().map(records).collect()
    }

    /// Runs for this duration.
    pub fn run_for(&mut self, time: Duration) {
        self.run_until(self.now.saturating_add(time));
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Client(program) => self.client_turn(program),
            Event::Session(link) => self.session_turn(link),
            Event::Dialled(program, dial) => self.dialled(program, dial),
            Event::Depart => self.depart(),
            Event::House => self.house(),
            Event::Produce => {
                if self.busy {
                    self.produce();
                }
                self.plan_produce();
            }
            Event::Redeploy => {
                if self.busy {
                    self.redeploy();
                }
                self.plan_redeploy();
            }
            Event::Hostile => {
                self.hostile_turn();
                self.plan_hostile();
            }
            Event::Take(program) => self.take(program),
            Event::Compose(program) => {
                if self.busy {
                    self.compose(program);
                }
                self.plan_compose(program);
            }
            Event::Strike(fault) => {
                if self.faulty {
                    self.strike(fault);
                    let mean = self.plan.faults.iter().find(|(kind, _)| *kind == fault);
                    let mean = mean.map_or(Duration::from_secs(3600), |(_, mean)| *mean);
                    let at = self.now.saturating_add(self.chance.wait(mean));
                    self.schedule(at, Event::Strike(fault));
                }
            }
            Event::Revive(program) => {
                if let Some(link) = self.programs.get(program).and_then(|host| host.link) {
                    self.expect_arrivals(link);
                }
                let links = self
                    .links
                    .iter()
                    .filter(|(_, pipes)| pipes.program == program);
                let links: Vec<u32> = links.map(|(link, _)| *link).collect();
                links
                    .into_iter()
                    .for_each(|link| self.expect_arrivals(link));
            }
            Event::Ease(program) => self.ease(program),
            Event::Restart => {
                if self.engine.running.is_none() {
                    self.restart();
                }
            }
            Event::StartProgram(program) => self.start_program(program),
            Event::Inspect => {
                self.inspect();
                let at = self.now.saturating_add(Duration::from_millis(500));
                self.schedule(at, Event::Inspect);
            }
        }
    }

    fn restart(&mut self) {
        let (now, wall) = (self.now, self.wall(0));
        let found = self.engine.start(&self.plan, now, wall, &mut self.checker);
        let epoch = self.engine.epoch;
        self.trace.say(now, || {
            format!("engine starts, store {found:?}, epoch {epoch}")
        });
        self.after_engine();
        self.schedule(now, Event::House);
        // Usually its sources know their values immediately.
        self.engine.all_written = self.chance.chance(0.8);
        if self.engine.all_written {
            for variable in 0..self.plan.variables.len() as u32 {
                self.produce_one(variable);
            }
            self.after_engine();
        }
    }

    fn start_program(&mut self, program: usize) {
        let now = self.now;
        let Some(host) = self.programs.get_mut(program) else {
            return;
        };
        if host.running.is_some() {
            return;
        }
        self.writers += 1;
        let writer = self.writers;
        let started = Program::start(writer, &host.plan, &self.plan, &mut self.checker);
        host.running = Some(started);
        host.changes = u64::MAX;
        self.trace.say(now, || {
            format!("program {program} starts as writer {writer}")
        });
        self.wake_program(program, now);
    }

    fn plan_produce(&mut self) {
        if let Some(mean) = self.plan.produce_every {
            let at = self.now.saturating_add(self.chance.wait(mean));
            self.schedule(at, Event::Produce);
        }
    }

    fn plan_compose(&mut self, program: usize) {
        let mean = self
            .programs
            .get(program)
            .and_then(|host| host.plan.write_every);
        if let Some(mean) = mean {
            let at = self.now.saturating_add(self.chance.wait(mean));
            self.schedule(at, Event::Compose(program));
        }
    }

    /// Writes some variables from the engine's own process.
    fn produce(&mut self) {
        if !self.engine_runs() {
            return;
        }
        let count = self.chance.range(1, self.plan.burst_max);
        for _ in 0..count {
            let variable = self.chance.index(self.plan.variables.len()) as u32;
            self.produce_one(variable);
            if self.plan.transient.is_some() && self.chance.chance(0.3) {
                self.produce_transient();
            }
        }
        self.after_engine();
    }

    /// Writes one variable from the engine's own process. Returns false if the write would have had
    /// to wait.
    pub(crate) fn produce_one(&mut self, variable: u32) -> bool {
        let (now, wall) = (self.now, self.wall(0));
        let Self {
            engine,
            plan,
            checker,
            chance,
            ..
        } = self;
        let Some(running) = &mut engine.running else {
            return false;
        };
        let number = checker.begin(variable, 0, None);
        let value = value_of(plan, variable, number, chance);
        let handle = running.handle_of(variable);
        let Some(target) = handle.and_then(|handle| running.engine.variable(handle)) else {
            checker.finish(number, Fate::NotApplied, 0, false);
            return false;
        };
        let (caller, mut wakes) = (Caller::engine(), Wakes::new());
        let write = Write::value(&value);
        let attempt = running
            .engine
            .try_write(&caller, now, wall, &target, &write, &mut wakes);
        drop(wakes);
        running.witness(now, checker);
        let epoch = engine.epoch;
        let (fate, done) = match attempt {
            Attempt::Done(WriteOutcome::Applied(sequence)) => {
                (Fate::Applied(Position { epoch, sequence }), true)
            }
            Attempt::WouldBlock { .. } => (Fate::NotApplied, false),
            other => {
                checker.fail(|| format!("a write of the engine's own process: {other:?}"));
                (Fate::NotApplied, true)
            }
        };
        checker.finish(number, fate, 0, false);
        done
    }

    fn compose(&mut self, program: usize) {
        let now = self.now;
        let Some(host) = self.programs.get_mut(program) else {
            return;
        };
        if host.paused_until > now {
            return;
        }
        let Some(running) = &mut host.running else {
            return;
        };
        if self.chance.chance(0.1) {
            running.ask(&mut self.chance);
        }
        if self.chance.chance(0.03) {
            running.change(&mut self.chance, &mut self.checker);
        }
        // Occasionally end waiting calls, more often while nothing can be sent.
        let impatience = match running.core.session() {
            Some(_) => 0.02,
            None => 0.3,
        };
        if self.chance.chance(impatience) {
            running.end_calls(&mut self.chance, &mut self.checker);
        }
        let count = self.chance.range(1, host.plan.burst_max);
        running.write(count, &self.plan, &mut self.chance, &mut self.checker);
        let at = self.soon();
        self.wake_program(program, at);
    }

    fn take(&mut self, program: usize) {
        let now = self.now;
        let Some(host) = self.programs.get_mut(program) else {
            return;
        };
        host.take_at = None;
        let until = host.paused_until.max(host.slow_until);
        if until > now {
            self.take_later(program, until);
            return;
        }
        let max = match host.takes_all {
            true => usize::MAX,
            false => host.plan.take_max,
        };
        let Some(running) = &mut host.running else {
            return;
        };
        let more = running.take(now, max, &mut self.checker);
        let due = now.saturating_add(host.take_after());
        if more {
            self.take_later(program, due);
        }
        // Taking updates may free credit to grant.
        let at = self.soon();
        self.wake_program(program, at);
    }

    pub(crate) fn take_later(&mut self, program: usize, at: Tick) {
        let Some(host) = self.programs.get_mut(program) else {
            return;
        };
        if host.take_at.is_none_or(|known| at < known) {
            host.take_at = Some(at);
            self.schedule(at, Event::Take(program));
        }
    }

    fn house(&mut self) {
        let (now, wall) = (self.now, self.wall(0));
        if self.engine.running.is_none() {
            return;
        }
        if self.engine.paused_until > now {
            let until = self.later(self.engine.paused_until);
            self.schedule(until, Event::House);
            return;
        }
        self.engine.store_retained();
        if let Some(running) = &mut self.engine.running {
            if running.house_at > now {
                return;
            }
            running.keep_house(now, wall);
            let due = running
                .house_at
                .max(now.saturating_add(Duration::from_micros(100)));
            running.house_at = due;
            self.schedule(due, Event::House);
        }
        self.after_engine();
    }

    /// Called after every action of the engine: updates the witness, and schedules turns of woken
    /// sessions.
    pub(crate) fn after_engine(&mut self) {
        let now = self.now;
        let Some(running) = &mut self.engine.running else {
            return;
        };
        running.witness(now, &mut self.checker);
        for link in running.take_woken() {
            let Some(running) = &mut self.engine.running else {
                return;
            };
            if let Some(slot) = running.sessions.get_mut(&link) {
                slot.is_due = true;
                let at = self.soon();
                self.wake_session(link, at);
            }
        }
    }
}
