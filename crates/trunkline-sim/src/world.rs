//! The simulated world: machines, the time, and the order in which everything happens.

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
use crate::trace::Trace;

/// 2026-01-01T00:00:00Z, when simulated time begins.
const START: i64 = 1_767_225_600_000_000_000;

/// What happens next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Event {
    /// A client's driver has a turn.
    Client(usize),
    /// A session's driver has a turn.
    Session(u32),
    /// A dial has come to its end.
    Dialled(usize, u32),
    /// A packet leaves over the line that all share.
    Depart,
    /// The engine's housekeeping.
    House,
    /// The engine's own process writes.
    Produce,
    /// Libraries come and go.
    Redeploy,
    /// A peer that does not end what it begins has a turn.
    Hostile,
    /// A program takes what waits.
    Take(usize),
    /// A program writes.
    Compose(usize),
    /// A fault strikes.
    Strike(Fault),
    /// A machine's silence may be over.
    Revive(usize),
    /// A machine's connections are as they were.
    Ease(usize),
    /// The engine's process starts again.
    Restart,
    /// A client's process starts.
    StartProgram(usize),
    /// Bounds and deadlines are looked at.
    Inspect,
}

/// One connection.
#[derive(Debug)]
pub struct Pipes {
    /// Which program's.
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

/// How a machine's connections are at the moment.
#[derive(Clone, Copy, Debug)]
pub struct Ways {
    /// To the engine.
    pub to_engine: Way,
    /// To the client.
    pub to_client: Way,
}

/// One run.
#[derive(Debug)]
pub struct World {
    /// What was drawn for it.
    pub plan: Plan,
    /// The time.
    pub now: Tick,
    /// What happened.
    pub trace: Trace,
    /// What must hold.
    pub checker: Checker,
    /// Faults that struck, by kind.
    pub faults: BTreeMap<Fault, u64>,
    /// Connections that were made.
    pub connections: u64,
    pub(crate) engine: EngineHost,
    pub(crate) programs: Vec<ProgramHost>,
    pub(crate) links: BTreeMap<u32, Pipes>,
    pub(crate) ways: Vec<Ways>,
    /// Of the wall clocks: the engine's machine first, then the programs'.
    pub(crate) offsets: Vec<i64>,
    /// A wall clock was set.
    pub(crate) stepped: bool,
    /// Faults may strike.
    pub(crate) faulty: bool,
    /// Programs and the engine's process write.
    pub(crate) busy: bool,
    pub(crate) chance: Rng,
    /// A connection of the peer that does not end what it begins.
    pub(crate) hostile: Option<Hostile>,
    /// The number of the next variable that comes and goes.
    pub(crate) transient_variables: u32,
    pub(crate) next_link: u32,
    pub(crate) dials: u32,
    /// The connection whose packet left last, and whether another is to leave.
    pub(crate) departed: u32,
    pub(crate) departs: bool,
    writers: u32,
    events: BinaryHeap<Reverse<(Tick, u64, u64, Event)>>,
    serial: u64,
}

impl World {
    /// The world that a plan describes, at its beginning.
    pub fn new(plan: Plan) -> Self {
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
            now: Tick::from_nanos(1_000_000_000),
            trace: Trace::default(),
            checker: Checker::default(),
            faults: BTreeMap::new(),
            connections: 0,
            engine: EngineHost::new(plan.seed),
            programs,
            links: BTreeMap::new(),
            // The last is that of the peer that is no program.
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

    /// The time of day of a machine: 0 is the engine's, then the programs'.
    pub fn wall(&self, machine: usize) -> Timestamp {
        let offset = self.offsets.get(machine).copied().unwrap_or(0);
        let elapsed = i64::try_from(self.now.as_nanos()).unwrap_or(i64::MAX);
        Timestamp::from_nanos(START.saturating_add(elapsed).saturating_add(offset))
    }

    /// Something is to happen. Of what happens at the same time chance picks the first.
    pub(crate) fn schedule(&mut self, at: Tick, event: Event) {
        self.serial += 1;
        let order = self.chance.bits();
        self.events.push(Reverse((at, order, self.serial, event)));
    }

    /// A turn that is not at once: the scheduler takes its time.
    pub(crate) fn soon(&mut self) -> Tick {
        let most = self.plan.scheduling.as_nanos() as u64;
        let nanos = self.chance.below(most + 1);
        self.now.saturating_add(Duration::from_nanos(nanos))
    }

    /// Runs until `end`, or until something is wrong.
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

    /// Update records that each program's client has received.
    pub fn received(&self) -> Vec<u64> {
        let records = |host: &ProgramHost| {
            let running = host.running.as_ref();
            running.map_or(0, |running| running.core.counters().records)
        };
        self.programs.iter().map(records).collect()
    }

    /// Runs for so long.
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
        // Its sources know their values at once, most of the time.
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

    /// The engine's own process writes some variables.
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

    /// The engine's own process writes one variable. False when it would have had to wait.
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
            Attempt::Done(WriteOutcome::Applied { sequence }) => {
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
        // Calls that wait are ended now and then, and mostly while nothing can be sent.
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
        // What was taken may be room to grant.
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

    /// The engine has done something: the witness looks, and sessions that were woken get turns.
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
