//! Simulates a client's process: a program that uses the production client to subscribe, read and
//! write.

use std::collections::VecDeque;
use std::time::Duration;

use trunkline_client::request::{Open, Read, Snapshot, WriteGroup};
use trunkline_client::{
    ClientCore, ClientOptions, Event, OpenOptions, RequestId, SubscribeOptions, SubscriptionId,
    VariableRef, Write, WriteBatchId, WriteMode,
};
use trunkline_proto::{FaultCode, ThroughputMode};
use trunkline_types::{Contract, Position, Tick, Value};

use crate::checker::{Checker, Fate, ItemState, TakenReading, Writer};
use crate::engine_host::name_of;
use crate::plan::{Plan, ProgramPlan, ValueKind, value_kind};
use crate::rng::Rng;
use crate::transient::Followed;

/// Maximum number of unanswered reads and snapshots of a program.
const PENDING_READS_MAX: usize = 4;

/// A subscription, and the state of the readings received from it.
#[derive(Debug)]
pub struct Subscription {
    pub id: SubscriptionId,
    pub contract: Contract,
    /// Numbers of the variables, by item.
    pub variables: Vec<u32>,
    /// State of the readings, by item.
    pub items: Vec<ItemState>,
    /// Session of the readings that are being received.
    pub session: u64,
    /// Number of updates that the client had received when the session began; `None` if the
    /// subscription was created during the session.
    pub received_before: Option<u64>,
    /// The client's count of changes when the program last took events.
    changes: u64,
}

/// An unanswered read or snapshot.
#[derive(Debug)]
enum PendingRead {
    Read(RequestId<Read>),
    Snapshot(RequestId<Snapshot>),
}

/// The state that is lost with the client's process.
#[derive(Debug)]
pub struct Program {
    /// Number of the process. Each start of each program has another number.
    pub writer: Writer,
    /// The production client.
    pub core: ClientCore,
    pub subscriptions: Vec<Subscription>,
    /// References to the variables, for reading and writing; empty until they are open.
    pub variables: Vec<VariableRef>,
    opening: Option<RequestId<Open>>,
    batches: VecDeque<(WriteBatchId, Vec<u64>)>,
    groups: VecDeque<(RequestId<WriteGroup>, Vec<u64>)>,
    /// Unanswered reads and snapshots, and the numbers of their variables.
    pending_reads: VecDeque<(PendingRead, Vec<u32>)>,
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
    /// Number of the current connection.
    pub link: Option<u32>,
    /// Number of the attempt to connect that is in progress.
    pub current_dial: Option<u32>,
    /// True if the program takes all waiting events, and so is no longer a slow reader.
    pub takes_all: bool,
    /// Time until which the process is paused.
    pub paused_until: Tick,
    /// Time until which the program takes no events.
    pub slow_until: Tick,
    /// Time of the client's next turn.
    pub turn_at: Option<Tick>,
    /// Time at which the program next takes events.
    pub take_at: Option<Tick>,
    /// The client's count of changes at the end of its last turn.
    pub changes: u64,
    /// Time at which bytes last arrived, or the process last resumed.
    pub last_input_at: Tick,
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
            current_dial: None,
            takes_all: false,
            paused_until: Tick::ZERO,
            slow_until: Tick::ZERO,
            turn_at: None,
            take_at: None,
            changes: u64::MAX,
            last_input_at: Tick::ZERO,
        }
    }
}

impl Program {
    /// Starts a program. It subscribes and opens variables before it is connected.
    pub fn start(writer: Writer, plan: &ProgramPlan, world: &Plan, checker: &mut Checker) -> Self {
        let throughput_mode = plan.uses_throughput.then(ThroughputMode::default);
        let mut core = ClientCore::new(ClientOptions {
            seed: world.seed ^ u64::from(writer),
            backoff_max: plan.backoff_max,
            window_records: plan.window_records,
            throughput_mode,
            ..ClientOptions::default()
        });
        let mut subscriptions = Vec::new();
        for planned in &plan.subscriptions {
            let names: Vec<_> = planned.variables.iter().map(|v| name_of(*v)).collect();
            let options = SubscribeOptions::default();
            match core.subscribe(&names, planned.contract, options) {
                Ok(id) => subscriptions.push(Subscription {
                    id,
                    contract: planned.contract,
                    variables: planned.variables.clone(),
                    items: vec![ItemState::default(); planned.variables.len()],
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
            subscriptions,
            variables: Vec::new(),
            opening,
            batches: VecDeque::new(),
            groups: VecDeque::new(),
            pending_reads: VecDeque::new(),
            transient: None,
            session: 0,
        };
        if let Some(transient) = &world.transient {
            started.follow_transient(transient, checker);
        }
        started
    }

    /// Takes the results of completed requests. This must happen before taking updates, because the
    /// answer to a write arrives before the update that the write caused.
    pub fn take_answers(&mut self, checker: &mut Checker) {
        if let Some(session) = self.core.session()
            && session.session != self.session
        {
            // The client subscribes in its next turn, so the counts are still those before the session.
            self.session = session.session;
            for subscription in &mut self.subscriptions {
                subscription.received_before =
                    self.core.ledger(subscription.id).map(|l| l.received);
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
                checker.write_ended(*write, outcome, session);
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
                        checker.write_ended(*write, outcome, session);
                    }
                    checker.group_ended(group.commit.is_some());
                }
                Err(_) => writes.iter().for_each(|write| {
                    checker.finish_write(*write, Fate::NotApplied, session, false)
                }),
            }
            false
        });
        self.pending_reads.retain(|(request, variables)| {
            let answer = match request {
                PendingRead::Read(read) => core
                    .take(*read)
                    .map(|a| a.map(|readings| (readings, false))),
                PendingRead::Snapshot(snapshot) => core
                    .take(*snapshot)
                    .map(|a| a.map(|snapshot| (snapshot.readings, snapshot.is_consistent))),
            };
            if let Some(Ok((readings, is_one_instant))) = &answer {
                checker.check_answer(variables, readings, *is_one_instant);
            }
            answer.is_none()
        });
    }

    /// Ends some of the calls that wait for the outcomes of writes, as a timeout does. A write that was
    /// not sent must not be applied later.
    pub fn end_calls(&mut self, rng: &mut Rng, checker: &mut Checker) {
        self.take_answers(checker);
        let (core, session) = (&mut self.core, self.session);
        self.batches.retain(|(batch, writes)| {
            if rng.chance(0.5) {
                return true;
            }
            for (write, outcome) in writes.iter().zip(&core.end_writes(*batch)) {
                checker.write_ended(*write, outcome, session);
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
                checker.finish_write(*write, fate, session, false);
            }
            false
        });
    }

    /// Reads all variables, individually or as a snapshot.
    pub fn request_reads(&mut self, rng: &mut Rng) {
        if self.variables.is_empty() || self.pending_reads.len() >= PENDING_READS_MAX {
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
        self.pending_reads
            .extend(request.map(|request| (PendingRead::Snapshot(request), all)));
    }

    /// Reads these variables individually.
    pub(crate) fn read(&mut self, targets: &[VariableRef], variables: Vec<u32>) {
        let request = self.core.read(targets).ok();
        self.pending_reads
            .extend(request.map(|request| (PendingRead::Read(request), variables)));
    }

    /// Ends a random subscription of the program and creates it again.
    pub fn resubscribe(&mut self, rng: &mut Rng, checker: &mut Checker) {
        let index = rng.index(self.subscriptions.len());
        let Some(subscription) = self.subscriptions.get_mut(index) else {
            return;
        };
        self.core.unsubscribe(subscription.id);
        let names: Vec<_> = subscription.variables.iter().map(|v| name_of(*v)).collect();
        let options = SubscribeOptions::default();
        match self.core.subscribe(&names, subscription.contract, options) {
            Ok(id) => {
                subscription.id = id;
                subscription.session = self.session;
                subscription.received_before = None;
                subscription.changes = 0;
                // A new subscription may begin with values of an earlier connection, which the client
                // shares between subscriptions.
                subscription.items.fill(ItemState {
                    interrupted: true,
                    ..ItemState::default()
                });
            }
            Err(error) => checker.fail(|| format!("a subscription is refused: {error}")),
        }
    }

    /// Takes and checks up to `max` events of each subscription. Returns true if more events wait.
    pub fn take(&mut self, now: Tick, max: usize, checker: &mut Checker) -> bool {
        self.take_answers(checker);
        let mut more = false;
        let Self {
            core,
            subscriptions,
            writer,
            ..
        } = self;
        for subscription in subscriptions {
            let changes = core.subscription_changes(subscription.id);
            if changes == subscription.changes && core.waiting(subscription.id) == 0 {
                continue;
            }
            subscription.changes = changes;
            let mut remaining = max;
            while remaining > 0 {
                let Some(event) = core.next_event(now, subscription.id) else {
                    break;
                };
                remaining -= 1;
                subscription.take_event(now, event, *writer, core, checker);
            }
            more |= remaining == 0;
        }
        self.take_transient(now, max, checker) || more
    }

    /// Writes `count` random values: each in its own batch, all in one batch, or as a group.
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
        let one_by_one = rng.chance(0.7);
        let (mut writes, mut numbers) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let variable = rng.index(self.variables.len()) as u32;
            let expected = is_conditional
                .then(|| self.expected_position(variable, rng))
                .flatten();
            let number = checker.begin_write(variable, self.writer, expected);
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
        if !one_by_one {
            return self.send(writes, numbers, checker);
        }
        for (write, number) in writes.into_iter().zip(numbers) {
            self.send(vec![write], vec![number], checker);
        }
    }

    pub(crate) fn send(&mut self, writes: Vec<Write>, numbers: Vec<u64>, checker: &mut Checker) {
        checker.mark_batch(&numbers);
        match self.core.write(writes) {
            Ok(batch) => self.batches.push_back((batch, numbers)),
            Err(_) => mark_not_applied(&numbers, checker),
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
            let number = checker.begin_write(variable, self.writer, None);
            writes.push(Write::new(*target, value_of(plan, variable, number, rng)));
            numbers.push(number);
        }
        checker.mark_group(&numbers);
        match self.core.write_group(writes, rng.chance(0.3)) {
            Ok(request) => self.groups.push_back((request, numbers)),
            Err(_) => mark_not_applied(&numbers, checker),
        }
    }

    /// Returns the position of the last reading of a variable, and occasionally an earlier position.
    fn expected_position(&self, variable: u32, rng: &mut Rng) -> Option<Position> {
        let mut subscriptions = self.subscriptions.iter();
        let mut position = subscriptions.find_map(|subscription| {
            let item = subscription.variables.iter().position(|v| *v == variable)?;
            subscription.items.get(item)?.position
        })?;
        if rng.chance(0.1) {
            position.sequence = position.sequence.saturating_sub(1);
        }
        (position.sequence > 0).then_some(position)
    }
}

fn mark_not_applied(numbers: &[u64], checker: &mut Checker) {
    for number in numbers {
        checker.finish_write(*number, Fate::NotApplied, 0, false);
    }
}

/// Returns a value that contains the number of its write.
pub fn value_of(plan: &Plan, variable: u32, number: u64, rng: &mut Rng) -> Value {
    match value_kind(plan, variable) {
        ValueKind::Float => Value::F64(number as f64),
        ValueKind::Integer => Value::U64(number),
        ValueKind::Text => {
            let padding = rng.magnitude(1.0, 400.0) as usize;
            Value::String(format!("{number}:{:padding$}", "").into())
        }
    }
}

impl Subscription {
    fn take_event(
        &mut self,
        now: Tick,
        event: Event,
        writer: Writer,
        core: &ClientCore,
        checker: &mut Checker,
    ) {
        match event {
            Event::Connected { session, .. } => self.session = session,
            Event::Disconnected { .. } => {
                self.items
                    .iter_mut()
                    .for_each(|state| state.interrupted = true);
            }
            Event::Reading { item, reading } => {
                let variable = self.variables.get(item as usize).copied();
                let (Some(state), Some(variable)) = (self.items.get_mut(item as usize), variable)
                else {
                    return checker.fail(|| format!("a reading of the unknown item {item}"));
                };
                if core.session().is_none() && reading.stale.is_none() {
                    checker
                        .fail(|| format!("B-12: taken while disconnected, not stale: {reading:?}"));
                }
                let taken = TakenReading {
                    writer,
                    session: self.session,
                    variable,
                    contract: self.contract,
                    reading: &reading,
                    variables: &self.variables,
                    now,
                };
                checker.check_reading(&taken, state);
            }
            Event::ItemError { fault, .. } if fault.code == FaultCode::MemoryFull => {
                checker.fail(|| format!("a subscription is refused: {}", fault.sentence));
            }
            Event::Ended { item, .. } | Event::ItemError { item, .. } => {
                if let Some(state) = self.items.get_mut(item as usize) {
                    (state.interrupted, state.ended) = (true, true);
                }
            }
        }
    }
}
