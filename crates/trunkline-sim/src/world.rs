//! Implements the simulated world: machines, time, and the order of all events.

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
    DialEnded(usize, u32),
    /// A packet leaves over the shared line.
    SendPacket,
    /// The engine's housekeeping.
    Housekeeping,
    /// The engine's own process writes.
    Produce,
    /// Libraries are deployed or removed.
    Redeploy,
    /// The hostile peer has a turn.
    Hostile,
    /// A program receives waiting updates.
    Take(usize),
    /// A program writes.
    ProgramWrites(usize),
    /// A fault is injected.
    Inject(Fault),
    /// The silence of a machine may end.
    SilenceEnds(usize),
    /// A machine's connections return to their normal speed.
    RestoreSpeed(usize),
    /// The engine's process starts again.
    Restart,
    /// A client's process starts.
    StartProgram(usize),
    /// Bounds and deadlines are checked.
    Inspect,
}

/// The two directions of a connection.
#[derive(Debug)]
pub struct Pipes {
    /// The program at the client's end.
    pub program: usize,
    pub to_engine: Direction,
    pub to_client: Direction,
    /// True after the client has closed its end.
    pub client_is_gone: bool,
    /// True after the engine has closed its end.
    pub engine_is_gone: bool,
}

/// The current network properties between a program's machine and the engine.
#[derive(Clone, Copy, Debug)]
pub struct Ways {
    pub to_engine: Way,
    pub to_client: Way,
}

/// The state of one run.
#[derive(Debug)]
pub struct World {
    pub plan: Plan,
    pub now: Tick,
    pub trace: Trace,
    /// Checks the guarantees of the product.
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
    /// True while faults are injected.
    pub(crate) faults_enabled: bool,
    /// True while programs and the engine's process write.
    pub(crate) writes_enabled: bool,
    pub(crate) rng: Rng,
    /// The connection of the hostile peer.
    pub(crate) hostile: Option<Hostile>,
    /// Number of the next transient variable.
    pub(crate) transient_variables: u32,
    pub(crate) next_link: u32,
    pub(crate) dials: u32,
    /// The connection that sent the last packet over the shared line.
    pub(crate) last_packet_link: u32,
    /// True if the next packet over the shared line is scheduled.
    pub(crate) is_packet_scheduled: bool,
    writers: u32,
    events: BinaryHeap<Reverse<(Tick, u64, u64, Event)>>,
    serial: u64,
}

impl World {
    /// Creates the world of a plan, at its beginning.
    pub fn new(plan: Plan, trace: Trace) -> Self {
        let mut rng = Rng::new(plan.seed);
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
            faults_enabled: true,
            writes_enabled: true,
            next_link: 0,
            dials: 0,
            last_packet_link: 0,
            is_packet_scheduled: false,
            writers: 0,
            events: BinaryHeap::new(),
            serial: 0,
            rng: rng.fork(),
            hostile: None,
            transient_variables: plan.variables.len() as u32,
            plan,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        self.checker.repairs = self.plan.repairs;
        self.checker.is_latest_only = self.plan.is_latest_only;
        let now = self.now;
        self.restart();
        for program in 0..self.programs.len() {
            let at = now.saturating_add(self.rng.millis(0, 200));
            self.schedule(at, Event::StartProgram(program));
            self.plan_program_writes(program);
        }
        self.plan_produce();
        self.plan_redeploy();
        self.plan_hostile();
        for (fault, mean) in self.plan.faults.clone() {
            if self.plan.cycles == 0 {
                let at = now.saturating_add(self.rng.wait(mean));
                self.schedule(at, Event::Inject(fault));
            }
        }
        self.schedule(now, Event::Inspect);
    }

    /// Returns the wall time of a machine: number 0 is the engine's, followed by those of the programs.
    pub fn wall(&self, machine: usize) -> Timestamp {
        let offset = self.offsets.get(machine).copied().unwrap_or(0);
        let elapsed = i64::try_from(self.now.as_nanos()).unwrap_or(i64::MAX);
        Timestamp::from_nanos(START.saturating_add(elapsed).saturating_add(offset))
    }

    /// Schedules an event. Events at the same time happen in random order.
    pub(crate) fn schedule(&mut self, at: Tick, event: Event) {
        self.serial += 1;
        let order = self.rng.bits();
        self.events.push(Reverse((at, order, self.serial, event)));
    }

    /// Returns the time of a turn after a random scheduling delay.
    pub(crate) fn random_turn_time(&mut self) -> Tick {
        let delay_max = self.plan.scheduling.as_nanos() as u64;
        let nanos = self.rng.below(delay_max + 1);
        self.now.saturating_add(Duration::from_nanos(nanos))
    }

    /// Runs until `end`, or until the first violation.
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
            self.handle(event);
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

    fn handle(&mut self, event: Event) {
        match event {
            Event::Client(program) => self.client_turn(program),
            Event::Session(link) => self.session_turn(link),
            Event::DialEnded(program, dial) => self.dial_ended(program, dial),
            Event::SendPacket => self.send_packet(),
            Event::Housekeeping => self.housekeeping(),
            Event::Produce => {
                if self.writes_enabled {
                    self.produce();
                }
                self.plan_produce();
            }
            Event::Redeploy => {
                if self.writes_enabled {
                    self.redeploy();
                }
                self.plan_redeploy();
            }
            Event::Hostile => {
                self.hostile_turn();
                self.plan_hostile();
            }
            Event::Take(program) => self.take(program),
            Event::ProgramWrites(program) => {
                if self.writes_enabled {
                    self.program_writes(program);
                }
                self.plan_program_writes(program);
            }
            Event::Inject(fault) => {
                if self.faults_enabled {
                    self.inject(fault);
                    let mean = self.plan.faults.iter().find(|(kind, _)| *kind == fault);
                    let mean = mean.map_or(Duration::from_secs(3600), |(_, mean)| *mean);
                    let at = self.now.saturating_add(self.rng.wait(mean));
                    self.schedule(at, Event::Inject(fault));
                }
            }
            Event::SilenceEnds(program) => {
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
            Event::RestoreSpeed(program) => self.restore_speed(program),
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
        self.trace.log(now, || {
            format!("engine starts, store {found:?}, epoch {epoch}")
        });
        self.after_engine();
        self.schedule(now, Event::Housekeeping);
        // In most runs, all variables have a value before a client connects.
        self.engine.all_written = self.rng.chance(0.8);
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
        self.trace.log(now, || {
            format!("program {program} starts as writer {writer}")
        });
        self.wake_program(program, now);
    }

    fn plan_produce(&mut self) {
        if let Some(mean) = self.plan.produce_every {
            let at = self.now.saturating_add(self.rng.wait(mean));
            self.schedule(at, Event::Produce);
        }
    }

    fn plan_program_writes(&mut self, program: usize) {
        let mean = self
            .programs
            .get(program)
            .and_then(|host| host.plan.write_every);
        if let Some(mean) = mean {
            let at = self.now.saturating_add(self.rng.wait(mean));
            self.schedule(at, Event::ProgramWrites(program));
        }
    }

    /// Writes random variables from the engine's own process.
    fn produce(&mut self) {
        if !self.engine_runs() {
            return;
        }
        let count = self.rng.range(1, self.plan.burst_max);
        for _ in 0..count {
            let variable = self.rng.index(self.plan.variables.len()) as u32;
            self.produce_one(variable);
            if self.plan.transient.is_some() && self.rng.chance(0.3) {
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
            rng,
            ..
        } = self;
        let Some(running) = &mut engine.running else {
            return false;
        };
        let number = checker.begin_write(variable, 0, None);
        let value = value_of(plan, variable, number, rng);
        let handle = running.handle_of(variable);
        let Some(target) = handle.and_then(|handle| running.engine.variable(handle)) else {
            checker.finish_write(number, Fate::NotApplied, 0, false);
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
        checker.finish_write(number, fate, 0, false);
        done
    }

    fn program_writes(&mut self, program: usize) {
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
        if self.rng.chance(0.1) {
            running.request_reads(&mut self.rng);
        }
        if self.rng.chance(0.03) {
            running.resubscribe(&mut self.rng, &mut self.checker);
        }
        // End waiting calls with a low probability, which is higher while nothing can be sent.
        let end_probability = match running.core.session() {
            Some(_) => 0.02,
            None => 0.3,
        };
        if self.rng.chance(end_probability) {
            running.end_calls(&mut self.rng, &mut self.checker);
        }
        let count = self.rng.range(1, host.plan.burst_max);
        running.write(count, &self.plan, &mut self.rng, &mut self.checker);
        let at = self.random_turn_time();
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
        // The client may now have credit to grant.
        let at = self.random_turn_time();
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

    fn housekeeping(&mut self) {
        let (now, wall) = (self.now, self.wall(0));
        if self.engine.running.is_none() {
            return;
        }
        if self.engine.paused_until > now {
            let until = self.engine.paused_until;
            self.schedule(until, Event::Housekeeping);
            return;
        }
        self.engine.store_retained();
        if let Some(running) = &mut self.engine.running {
            if running.housekeeping_at > now {
                return;
            }
            running.run_housekeeping(now, wall);
            let due = running
                .housekeeping_at
                .max(now.saturating_add(Duration::from_micros(100)));
            running.housekeeping_at = due;
            self.schedule(due, Event::Housekeeping);
        }
        self.after_engine();
    }

    /// Called after every action of the engine. Drains the witness, and schedules a turn of each woken
    /// session.
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
                let at = self.random_turn_time();
                self.wake_session(link, at);
            }
        }
    }
}
