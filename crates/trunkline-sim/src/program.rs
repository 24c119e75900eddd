//! A client's process: the production client, and a program that subscribes, takes readings and
//! writes.

use std::collections::VecDeque;
use std::time::Duration;

use trunkline_client::request::{Open, Read, Snapshot, WriteGroup};
use trunkline_client::{
    ClientCore, ClientOptions, Event, OpenOptions, RequestId, SubscribeOptions, SubscriptionId,
    VariableRef, Write, WriteBatchId, WriteMode,
};
use trunkline_proto::{FaultCode, ThroughputMode};
use trunkline_types::{Contract, Position, Tick, Value};

use crate::checker::{Checker, Fate, Had, Took, Writer};
use crate::engine_host::name_of;
use crate::plan::{Content, Plan, ProgramPlan, content_of};
use crate::rng::Rng;
use crate::transient::Followed;

/// Largest number of pending reads and snapshots of a program.
const ASKED_MAX: usize = 4;

/// A subscription, and the readings taken from it.
#[derive(Debug)]
pub struct Follow {
    /// The client's id of the subscription.
    pub id: SubscriptionId,
    /// Contract of the subscription.
    pub contract: Contract,
    /// Numbers of its variables.
    pub variables: Vec<u32>,
    /// The readings taken, by item.
    pub had: Vec<Had>,
    /// Session of the readings that are being taken.
    pub session: u64,
    /// Updates that the client had received when the session began; `None` if the subscription is
    /// younger than the session.
    pub received_before: Option<u64>,
    changes: u64,
}

/// A read or a snapshot without an answer.
#[derive(Debug)]
enum Asked {
    Read(RequestId<Read>),
    Snapshot(RequestId<Snapshot>),
}

/// The state that is lost with the client's process.
#[derive(Debug)]
pub struct Program {
    /// Number of the program, unique over all incarnations of all programs.
    pub writer: Writer,
    /// The production client.
    pub core: ClientCore,
    /// Its subscriptions.
    pub follows: Vec<Follow>,
    /// References for writing, once the variables are open.
    pub variables: Vec<VariableRef>,
    opening: Option<RequestId<Open>>,
    batches: VecDeque<(WriteBatchId, Vec<u64>)>,
    groups: VecDeque<(RequestId<WriteGroup>, Vec<u64>)>,
    /// Reads and snapshots without an answer, and their variables.
    asked: VecDeque<(Asked, Vec<u32>)>,
    /// State of the transient variables.
    pub transient: Option<Followed>,
    /// The session of the last answer.
    session: u64,
}

/// The machine on which a client runs.
#[derive(Debug)]
pub struct ProgramHost {
    pub plan: ProgramPlan,
    /// The process, while it runs.
    pub running: Option<Program>,
    /// Its connection.
    pub link: Option<u32>,
    /// The current dial.
    pub dialling: Option<u32>,
    /// The program takes everything that waits; it is no longer a slow reader.
    pub takes_all: bool,
    /// Time until which the process is paused.
    pub paused_until: Tick,
    /// Time until which the program takes nothing.
    pub slow_until: Tick,
    /// Time of its next turn.
    pub turn_at: Option<Tick>,
    /// Time at which it next takes readings.
    pub take_at: Option<Tick>,
    /// The client's count of changes at its last turn.
    pub changes: u64,
    /// Time at which bytes last arrived, or the process last resumed.
    pub heard: Tick,
}

impl ProgramHost {
    /// Returns the time from the arrival of events until the program takes them.
    pub fn take_after(&self) -> Duration {
        match self.takes_all {
            true => self.plan.take_after.min(Duration::from_millis(5)),
            false => self.plan.take_after,
        }
    }

    /// Creates a machine without a process.
    pub fn new(plan: ProgramPlan) -> Self {
        Self {
            plan,
            running: None,
            link: None,
            dialling: None,
            takes_all: false,
            paused_until: Tick::ZERO,
            slow_until: Tick::ZERO,
            turn_at: None,
            take_at: None,
            changes: u64::MAX,
            heard: Tick::ZERO,
        }
    }
}

impl Program {
    /// Starts a program, which subscribes and opens variables before it is connected.
    pub fn start(writer: Writer, plan: &ProgramPlan, world: &Plan, checker: &mut Checker) -> Self {
        let throughput_mode = plan.gathers.then(ThroughputMode::default);
        let mut core = ClientCore::new(ClientOptions {
            seed: world.seed ^ u64::from(writer),
            backoff_max: plan.backoff_max,
            window_records: plan.window_records,
            throughput_mode,
            ..ClientOptions::default()
        });
        let mut follows = Vec::new();
        for wanted in &plan.subscriptions {
            let names: Vec<_> = wanted.variables.iter().map(|v| name_of(*v)).collect();
            let options = SubscribeOptions::default();
            match core.subscribe(&names, wanted.contract, options) {
                Ok(id) => follows.push(Follow {
                    id,
                    contract: wanted.contract,
                    variables: wanted.variables.clone(),
                    had: vec![Had::default(); wanted.variables.len()],
                    session: 0,
                    received_before: None,
                    changes: 0,
                }),
                Err(error) => checker.fail(|| format!("a subscription is refused: {error}")),
            }
        }
        let names: Vec<_> = (0..world.variables.len() as u32).map(name_of).collect();
        let opening = core.open(&names, OpenOptions::default()).ok();
        let mut started = Self {
            writer,
            core,
            follows,
            variables: Vec::new(),
            opening,
            batches: VecDeque::new(),
            groups: VecDeque::new(),
            asked: VecDeque::new(),
            transient: None,
            session: 0,
        };
        if let Some(transient) = &world.transient {
            started.follow_transient(transient, checker);
        }
        started
    }

    /// Takes the results of completed requests: openings, writes, groups. The answer to a write
    /// arrives before its update.
    pub fn take_answers(&mut self, checker: &mut Checker) {
        if let Some(session) = self.core.session()
            && session.session != self.session
        {
            // Nothing is subscribed in the session before the client's next turn.
            self.session = session.session;
            for follow in &mut self.follows {
                follow.received_before = self.core.ledger(follow.id).map(|l| l.received);
            }
        }
        if let Some(request) = self.opening
            && let Some(answer) = self.core.take(request)
        {
            self.opening = None;
            let opened = answer.unwrap_or_default();
            self.variables = opened.into_iter().flatten().map(|o| o.variable).collect();
        }
        let (core, session) = (&mut self.core, self.session);
        self.batches.retain(|(batch, writes)| {
            let Some(outcomes) = core.take_outcomes(*batch) else {
                return true;
            };
            if outcomes.len() != writes.len() {
                checker.fail(|| "B-20: a batch has another number of outcomes".to_owned());
            }
            for (write, outcome) in writes.iter().zip(&outcomes) {
                checker.ended(*write, outcome, session);
            }
            false
        });
        self.groups.retain(|(request, writes)| {
            let Some(answer) = core.take(*request) else {
                return true;
            };
            match answer {
                Ok(group) => {
                    for (write, outcome) in writes.iter().zip(&group.outcomes) {
                        checker.ended(*write, outcome, session);
                    }
                    checker.group_ended(group.commit.is_some());
                }
                Err(_) => writes
                    .iter()
                    .for_each(|write| checker.finish(*write, Fate::NotApplied, session, false)),
            }
            false
        });
        self.asked.retain(|(request, variables)| {
            let answer = match request {
                Asked::Read(read) => core
                    .take(*read)
                    .map(|a| a.map(|readings| (readings, false))),
                Asked::Snapshot(snapshot) => core
                    .take(*snapshot)
                    .map(|a| a.map(|snapshot| (snapshot.readings, snapshot.is_consistent))),
            };
            if let Some(Ok((readings, is_one_instant))) = &answer {
                checker.answered(variables, readings, *is_one_instant);
            }
            answer.is_none()
        });
    }

    /// Ends calls that wait for the outcomes of writes, as a timeout does. A write that was not sent must
    /// never be applied afterwards.
    pub fn end_calls(&mut self, rng: &mut Rng, checker: &mut Checker) {
        self.take_answers(checker);
        let (core, session) = (&mut self.core, self.session);
        self.batches.retain(|(batch, writes)| {
            if rng.chance(0.5) {
                return true;
            }
            for (write, outcome) in writes.iter().zip(&core.end_writes(*batch)) {
                checker.ended(*write, outcome, session);
            }
            false
        });
        self.groups.retain(|(request, writes)| {
            if rng.chance(0.5) {
                return true;
            }
            let fate = match core.give_up(*request) {
                Some(Ok(_)) => Fate::Unknown,
                _ => Fate::NotApplied,
            };
            for write in writes {
                checker.finish(*write, fate, session, false);
            }
            false
        });
    }

    /// Reads all variables, individually or at one instant.
    pub fn ask(&mut self, rng: &mut Rng) {
        if self.variables.is_empty() || self.asked.len() >= ASKED_MAX {
            return;
        }
        if rng.chance(0.3) {
            return self.read_transient();
        }
        let all = (0..self.variables.len() as u32).collect();
        if rng.chance(0.5) {
            let targets = self.variables.clone();
            return self.read(&targets, all);
        }
        let request = self.core.snapshot(&self.variables).ok();
        self.asked
            .extend(request.map(|request| (Asked::Snapshot(request), all)));
    }

    /// Reads these variables individually.
    pub(crate) fn read(&mut self, targets: &[VariableRef], variables: Vec<u32>) {
        let request = self.core.read(targets).ok();
        self.asked
            .extend(request.map(|request| (Asked::Read(request), variables)));
    }

    /// Ends one of its subscriptions and creates it again.
    pub fn change(&mut self, rng: &mut Rng, checker: &mut Checker) {
        let at = rng.index(self.follows.len());
        let Some(follow) = self.follows.get_mut(at) else {
            return;
        };
        self.core.unsubscribe(follow.id);
        let names: Vec<_> = follow.variables.iter().map(|v| name_of(*v)).collect();
        let options = SubscribeOptions::default();
        match self.core.subscribe(&names, follow.contract, options) {
            Ok(id) => {
                follow.id = id;
                follow.session = self.session;
                follow.received_before = None;
                follow.changes = 0;
                // A subscription that shares the client's values begins with those of an earlier connection.
                follow.had.fill(Had {
                    interrupted: true,
                    ..Had::default()
                });
            }
            Err(error) => checker.fail(|| format!("a subscription is refused: {error}")),
        }
    }

    /// Takes up to `max` events of each subscription, and has every reading checked. Returns true
    /// if more events wait.
    pub fn take(&mut self, now: Tick, max: usize, checker: &mut Checker) -> bool {
        self.take_answers(checker);
        let mut more = false;
        let Self {
            core,
            follows,
            writer,
            ..
        } = self;
        for follow in follows {
            let changes = core.subscription_changes(follow.id);
            if changes == follow.changes && core.waiting(follow.id) == 0 {
                continue;
            }
            follow.changes = changes;
            let mut left = max;
            while left > 0 {
                let Some(event) = core.next_event(now, follow.id) else {
                    break;
                };
                left -= 1;
                follow.took(now, event, *writer, core, checker);
            }
            more |= left == 0;
        }
        self.take_transient(now, max, checker) || more
    }

    /// Writes some values, one by one or all at once.
    pub fn write(&mut self, count: u64, plan: &Plan, rng: &mut Rng, checker: &mut Checker) {
        if self.variables.is_empty() {
            return;
        }
        let kind = rng.below(10);
        if self.transient.is_some() && rng.chance(0.4) {
            self.write_transient(plan, rng, checker);
        }
        if kind == 0 && count > 1 {
            return self.write_group(count, plan, rng, checker);
        }
        let is_newest = kind == 1;
        let is_conditional = (2..5).contains(&kind);
        let apart = rng.chance(0.7);
        let (mut writes, mut numbers) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let variable = rng.index(self.variables.len()) as u32;
            let expected = is_conditional.then(|| self.known(variable, rng)).flatten();
            let number = checker.begin(variable, self.writer, expected);
            let Some(target) = self.variables.get(variable as usize) else {
                continue;
            };
            let mut write = Write::new(*target, value_of(plan, variable, number, rng));
            if is_newest {
                write.mode = WriteMode::Newest;
            }
            if let Some(expected) = expected {
                write = write.expecting(expected);
            }
            writes.push(write);
            numbers.push(number);
        }
        if !apart {
            return self.send(writes, numbers, checker);
        }
        for (write, number) in writes.into_iter().zip(numbers) {
            self.send(vec![write], vec![number], checker);
        }
    }

    pub(crate) fn send(&mut self, writes: Vec<Write>, numbers: Vec<u64>, checker: &mut Checker) {
        checker.bundle(&numbers);
        match self.core.write(writes) {
            Ok(batch) => self.batches.push_back((batch, numbers)),
            Err(_) => refuse(&numbers, checker),
        }
    }

    fn write_group(&mut self, count: u64, plan: &Plan, rng: &mut Rng, checker: &mut Checker) {
        let len = self.variables.len();
        let first = rng.index(len);
        let (mut writes, mut numbers) = (Vec::new(), Vec::new());
        for (variable, target) in self
            .variables
            .iter()
            .enumerate()
            .skip(first)
            .take(count as usize)
        {
            let variable = variable as u32;
            let number = checker.begin(variable, self.writer, None);
            writes.push(Write::new(*target, value_of(plan, variable, number, rng)));
            numbers.push(number);
        }
        checker.join(&numbers);
        match self.core.write_group(writes, rng.chance(0.3)) {
            Ok(request) => self.groups.push_back((request, numbers)),
            Err(_) => refuse(&numbers, checker),
        }
    }

    /// The position that the program expects of a variable; occasionally an earlier one.
    fn known(&self, variable: u32, rng: &mut Rng) -> Option<Position> {
        let mut follows = self.follows.iter();
        let mut position = follows.find_map(|follow| {
            let item = follow.variables.iter().position(|v| *v == variable)?;
            follow.had.get(item)?.position
        })?;
        if rng.chance(0.1) {
            position.sequence = position.sequence.saturating_sub(1);
        }
        (position.sequence > 0).then_some(position)
    }
}

fn refuse(numbers: &[u64], checker: &mut Checker) {
    for number in numbers {
        checker.finish(*number, Fate::NotApplied, 0, false);
    }
}

/// Returns a value that identifies the write that made it.
pub fn value_of(plan: &Plan, variable: u32, number: u64, rng: &mut Rng) -> Value {
    match content_of(plan, variable) {
        Content::Float => Value::F64(number as f64),
        Content::Whole => Value::U64(number),
        Content::Text => {
            let padding = rng.magnitude(1.0, 400.0) as usize;
            Value::String(format!("{number}:{:padding$}", "").into())
        }
    }
}

impl Follow {
    fn took(
        &mut self,
        now: Tick,
        event: Event,
        by: Writer,
        core: &ClientCore,
        checker: &mut Checker,
    ) {
        match event {
            Event::Connected { session, .. } => self.session = session,
            Event::Disconnected { .. } => {
                self.had.iter_mut().for_each(|had| had.interrupted = true);
            }
            Event::Reading { item, reading } => {
                let variable = self.variables.get(item as usize).copied();
                let (Some(had), Some(variable)) = (self.had.get_mut(item as usize), variable)
                else {
                    return checker.fail(|| format!("a reading of item {item}, which is none"));
                };
                if core.session().is_none() && reading.stale.is_none() {
                    checker
                        .fail(|| format!("B-12: taken while disconnected, not stale: {reading:?}"));
                }
                let took = Took {
                    by,
                    session: self.session,
                    variable,
                    contract: self.contract,
                    reading: &reading,
                    variables: &self.variables,
                    now,
                };
                checker.took(&took, had);
            }
            Event::ItemError { fault, .. } if fault.code == FaultCode::MemoryFull => {
                checker.fail(|| format!("a subscription is refused: {}", fault.sentence));
            }
            Event::Ended { item, .. } | Event::ItemError { item, .. } => {
                if let Some(had) = self.had.get_mut(item as usize) {
                    (had.interrupted, had.ended) = (true, true);
                }
            }
        }
    }
}
