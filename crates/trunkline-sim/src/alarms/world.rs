//! Runs the simulation of alarms: keeps the time, and orders writes, operators' actions, faults, and
//! turns of the engine.

use std::collections::BTreeMap;
use std::time::Duration;

use trunkline_engine::store::{LogBound, Store, StoredLibrary};
use trunkline_engine::{Attempt, Caller, LibraryState, Origin, Wakes, Write, WriteOutcome};
use trunkline_types::alarm::{AlarmAction, AlarmJournalQuery, AlarmState};
use trunkline_types::{Level, Moment, Quality, Reason, Tick, Timestamp, Value};

use super::checker::{AlarmChecker, ReferencedValues};
use super::clients::Client;
use super::fault::Fault;
use super::followers::Follower;
use super::host::{Host, Image, JOURNAL, StoreMode};
use super::model::Measured;
use super::plan::{
    CONDITIONS, Kind, LIBRARY, OPERANDS, Plan, VariablePlan, change_alarms, library, pick,
};
use crate::rng::Rng;
use crate::run::BEGIN;
use crate::trace::Trace;

/// Time from the first change to the step that stores it, as in the product.
const GATHER_TIME: Duration = Duration::from_millis(20);
/// Time until a failed step is retried, as in the product.
const RETRY_TIME: Duration = Duration::from_secs(1);
/// Initial difference between the wall clock and the monotonic clock, in ns.
const WALL: i64 = 1_790_000_000_000_000_000;
/// Maximum number of polls at one instant. If more are due, the engine is stuck.
const POLLS_MAX: usize = 10_000;
/// Time after the last fault within which the clients must have received everything. It includes the
/// detection of a dead connection and several attempts to reconnect.
const SETTLE_TIME: Duration = Duration::from_secs(25);
/// Maximum time between two turns of a client's program after the last fault.
const PROMPT_INTERVAL: Duration = Duration::from_millis(100);
/// Numbers of the users who act on alarms.
const OPERATORS: [u32; 2] = [1, 2];

#[derive(Debug)]
pub struct AlarmWorld {
    pub plan: Plan,
    pub now: Tick,
    pub trace: Trace,
    pub checker: AlarmChecker,
    pub faults: BTreeMap<Fault, u64>,
    rng: Rng,
    host: Host,
    /// Difference between the wall clock and the monotonic clock, in ns.
    offset: i64,
    /// The variables of the library. The store has the library, and the engine has deployed it.
    library: Vec<VariablePlan>,
    /// Good values that were written since the last start to variables that alarms refer to.
    referenced: BTreeMap<String, Value>,
    /// True if one of these values has changed or an alarm is new since the engine last read them.
    has_unread_reference: bool,
    mode: StoreMode,
    /// Time at which the store works again.
    heals_at: Tick,
    /// Time of the next poll of the engine's timers.
    poll_at: Tick,
    /// Time of the keeper's next turn; `None` if nothing needs to be stored.
    keep_at: Option<Tick>,
    /// Time of the next write or operator's action.
    act_at: Tick,
    /// Time of the next fault of each kind, in the order of the plan.
    fault_at: Vec<Tick>,
    /// Time of the next start; `None` while the engine runs.
    start_at: Option<Tick>,
    /// The subscribers, each with the time of its next turn.
    followers: Vec<(Follower, Tick)>,
    /// The clients, each with the time of its program's next turn.
    clients: Vec<(Client, Tick)>,
    /// Number of polls. The states are compared at every 64th poll.
    polls: u64,
}

impl AlarmWorld {
    pub fn new(plan: Plan, trace: Trace) -> Self {
        let mut rng = Rng::new(plan.seed);
        let host = Host::new(plan.journal_entries);
        #[expect(
            clippy::panic,
            reason = "a machine without a folder for temporary files"
        )]
        let host = host.unwrap_or_else(|error| panic!("no temporary folder: {error}"));
        let fault_at = plan.faults.iter();
        let fault_at = fault_at
            .map(|(_, mean)| BEGIN.saturating_add(rng.wait(*mean)))
            .collect();
        let followers = plan.followers.iter();
        let followers = followers
            .map(|follow| (Follower::new(*follow), BEGIN))
            .collect();
        let clients = plan.clients.iter().zip(0..);
        let clients = clients
            .map(|(follow, number)| (Client::new(number, *follow, &mut rng), BEGIN))
            .collect();
        Self {
            now: BEGIN,
            trace,
            checker: AlarmChecker::new(),
            faults: BTreeMap::new(),
            rng,
            host,
            offset: WALL,
            library: plan.variables.clone(),
            referenced: BTreeMap::new(),
            has_unread_reference: false,
            mode: StoreMode::Working,
            heals_at: BEGIN,
            poll_at: BEGIN,
            keep_at: None,
            act_at: BEGIN,
            fault_at,
            start_at: Some(BEGIN),
            followers,
            clients,
            polls: 0,
            plan,
        }
    }

    fn moment(&self) -> Moment {
        let wall = (self.now.as_nanos() as i64).saturating_add(self.offset);
        Moment {
            now: self.now,
            wall: Timestamp::from_nanos(wall),
        }
    }

    pub fn run(&mut self) {
        let end = BEGIN.saturating_add(self.plan.length);
        while self.now < end && self.checker.violation.is_none() {
            self.now = self.next();
            self.trace.events += 1;
            self.step();
        }
        if self.checker.violation.is_none() {
            self.settle();
        }
    }

    /// Returns the time of the next event.
    fn next(&self) -> Tick {
        let clients = self.clients_due();
        if let Some(at) = self.start_at {
            return clients.map_or(at, |due| due.min(at)).max(self.now);
        }
        let faults = self.fault_at.iter().copied();
        let turns = self.followers.iter().map(|(_, at)| *at);
        let others = [self.poll_at, self.act_at].into_iter().chain(self.keep_at);
        let next = faults.chain(turns).chain(others).chain(clients).min();
        next.unwrap_or(self.now).max(self.now)
    }

    fn step(&mut self) {
        self.turn_clients();
        if let Some(at) = self.start_at {
            if at <= self.now {
                self.start();
            }
            return;
        }
        if self.mode != StoreMode::Working && self.heals_at <= self.now {
            self.mode = StoreMode::Working;
        }
        if self.poll_at <= self.now {
            self.poll_engine();
        }
        if self.keep_at.is_some_and(|at| at <= self.now) {
            self.keep();
        }
        for index in 0..self.followers.len() {
            if self
                .followers
                .get(index)
                .is_some_and(|(_, at)| *at <= self.now)
            {
                self.follow(index, false);
            }
        }
        if self.act_at <= self.now {
            self.act();
            self.act_at = self.now.saturating_add(self.rng.wait(self.plan.pace));
        }
        for index in 0..self.fault_at.len() {
            let due = self.fault_at.get(index).is_some_and(|at| *at <= self.now);
            let fault = self.plan.faults.get(index).copied();
            if let (true, Some((fault, mean)), None) = (due, fault, self.start_at) {
                let next = self.now.saturating_add(self.rng.wait(mean));
                if let Some(at) = self.fault_at.get_mut(index) {
                    *at = next;
                }
                self.inject(fault);
            }
        }
        let is_woken = self
            .host
            .running
            .as_ref()
            .is_some_and(|running| running.take_woken());
        if is_woken && self.keep_at.is_none() {
            self.keep_at = Some(self.now.saturating_add(GATHER_TIME));
        }
    }

    fn start(&mut self) {
        self.start_at = None;
        let at = self.moment();
        self.trace.log(self.now, || "the engine starts".to_owned());
        self.referenced.clear();
        self.mode = StoreMode::Working;
        if let Err(error) = self.host.start(&self.library, at, &mut self.checker) {
            return self
                .checker
                .fail(|| format!("the engine does not start: {error}"));
        }
        self.has_unread_reference = true;
        self.note_updates();
        self.compare();
        for (follower, _) in &mut self.followers {
            follower.disconnect();
        }
        for (client, _) in &mut self.clients {
            client.started(&self.checker);
        }
        self.poll_at = self.now;
        self.keep_at = Some(self.now.saturating_add(GATHER_TIME));
        self.act_at = self.now.saturating_add(self.rng.wait(self.plan.pace));
    }

    /// Polls the engine's timers until nothing is due.
    fn poll_engine(&mut self) {
        let at = self.moment();
        let Some(running) = &self.host.running else {
            return;
        };
        let mut due = None;
        for poll in 0..=POLLS_MAX {
            due = running.engine.poll(at.now, at.wall, &mut Wakes::new());
            if due.is_none_or(|due| due > at.now) {
                break;
            }
            if poll == POLLS_MAX {
                self.checker
                    .fail(|| "the engine's timers are always due".to_owned());
            }
        }
        let latest = self.now.saturating_add(self.plan.poll_interval_max);
        self.poll_at = due.map_or(latest, |due| due.min(latest));
        self.note_updates();
        let has_unread_reference = std::mem::take(&mut self.has_unread_reference);
        let Some(running) = &self.host.running else {
            return;
        };
        let referenced = &self.referenced;
        let condition = |name: &str| match referenced.get(name)? {
            Value::Bool(set) => Some(*set),
            _ => None,
        };
        let operand = |name: &str| match referenced.get(name)? {
            Value::F64(number) => Some(*number).filter(|number| !number.is_nan()),
            _ => None,
        };
        let read = ReferencedValues {
            conditions: &condition,
            operands: &operand,
        };
        let engine_condition = |name: &str, alarm: &str| running.is_active(name, alarm);
        self.checker
            .time_passed(at, has_unread_reference.then_some(read), &engine_condition);
        self.polls += 1;
        if self.polls.is_multiple_of(64) {
            self.compare();
        }
    }

    /// Passes the updates of variables to the checker. Returns their number.
    fn note_updates(&mut self) -> usize {
        let at = self.moment();
        let Some(running) = &mut self.host.running else {
            return 0;
        };
        let updates = running.updates();
        let engine_condition = |name: &str, alarm: &str| running.is_active(name, alarm);
        for (name, measured) in &updates {
            self.checker.updated(name, *measured, at, &engine_condition);
        }
        updates.len()
    }

    /// Compares the states that the engine reports with the models.
    fn compare(&mut self) {
        let Some(running) = &self.host.running else {
            return;
        };
        let listed = running
            .engine
            .alarms()
            .list(&Caller::engine(), None, 10_000);
        let states = listed.into_iter().map(|status| {
            let record = &status.record;
            let until = record.shelved_until.map(|until| until.as_nanos());
            let key = (status.variable, status.definition.name.clone());
            (key, (record.state, record.is_active, until))
        });
        self.checker.compare_states(&states.collect());
    }

    /// Runs a turn of the keeper, which stores alarm states and journal entries.
    fn keep(&mut self) {
        self.keep_at = None;
        let at = self.moment();
        let (is_kept, image) = self
            .host
            .keep(self.mode, at, &mut self.checker, &mut self.rng);
        self.trace.note(u64::from(is_kept));
        if let (StoreMode::Interrupted { .. }, _) = (self.mode, &image) {
            return self.end(image);
        }
        if !is_kept {
            self.keep_at = Some(self.now.saturating_add(RETRY_TIME));
        }
        if self.mode == StoreMode::Working && self.rng.chance(0.1) {
            let retained = self.host.retain();
            if let Err(error) = retained {
                self.checker
                    .fail(|| format!("values cannot be stored: {error}"));
            }
        }
    }

    /// Ends the engine's process abruptly. `image` contains the files that the next start finds.
    fn end(&mut self, image: Option<Image>) {
        let what = image.as_ref().map_or("between", |_| "within");
        self.trace
            .log(self.now, || format!("the engine ends {what} steps"));
        if let Err(error) = self.host.end(image) {
            self.checker
                .fail(|| format!("cannot create the folder of the store: {error}"));
        }
        self.process_ended();
    }

    fn process_ended(&mut self) {
        for (client, _) in &mut self.clients {
            client.remote.engine_ended(self.now);
        }
        for (follower, _) in &mut self.followers {
            follower.disconnect();
        }
        self.mode = StoreMode::Working;
        let pause = self.rng.wait(self.plan.pace);
        self.start_at = Some(self.now.saturating_add(pause));
    }

    /// Returns the time of the next turn of any client, session or client program.
    fn clients_due(&self) -> Option<Tick> {
        let clients = self.clients.iter();
        let due =
            clients.flat_map(|(client, act_at)| client.remote.next().into_iter().chain([*act_at]));
        due.min()
    }

    /// Runs all turns of clients, sessions and client programs that are due.
    fn turn_clients(&mut self) {
        let at = self.moment();
        let now = at.now;
        let Self {
            clients,
            host,
            checker,
            rng,
            plan,
            trace,
            ..
        } = self;
        for (client, act_at) in clients {
            let mut running = host.running.as_mut();
            if client.remote.next().is_some_and(|at| at <= now) {
                let service = running.as_ref().map(|running| &running.service);
                client.remote.turn(at, service);
                if let Some(running) = &mut running {
                    running.answer();
                }
                trace.note(client.remote.core.changes());
            }
            if *act_at <= now {
                let epoch = running.map(|running| running.engine.epoch());
                client.act(now, epoch.unwrap_or(0), checker, rng);
                *act_at = now.saturating_add(rng.wait(plan.turn_interval));
            }
        }
    }

    /// Runs a turn of a subscriber.
    fn follow(&mut self, index: usize, is_settled: bool) {
        let at = self.moment();
        let next = self
            .now
            .saturating_add(self.rng.wait(self.plan.turn_interval));
        let limit = pick(&mut self.rng, &[0, 1, 3, 50]);
        let Some(running) = &mut self.host.running else {
            return;
        };
        let Some((follower, turn_at)) = self.followers.get_mut(index) else {
            return;
        };
        *turn_at = next;
        follower.connect(&running.engine, &mut self.checker, at);
        follower.take(&mut self.checker, is_settled);
        let newest = running.engine.resolve(&Caller::engine(), JOURNAL);
        let newest = newest.map(|variable| variable.sample().value);
        let newest = match newest {
            Ok(Value::U64(newest)) => newest,
            Ok(_) | Err(_) => 0,
        };
        while follower.next <= newest && self.checker.violation.is_none() {
            let query = AlarmJournalQuery {
                from: Some(follower.next),
                limit,
                ..AlarmJournalQuery::default()
            };
            let page = match running.store.alarm_journal(&query) {
                Ok(page) => page,
                Err(error) => {
                    return self
                        .checker
                        .fail(|| format!("the journal cannot be read: {error}"));
                }
            };
            let before = follower.next;
            follower.next = self.checker.read(before, &page);
            if page.next.is_none() && follower.next <= newest {
                self.checker.fail(|| {
                    format!("H-11: entry {newest} was announced, but the journal ends before it")
                });
            }
        }
    }

    fn act(&mut self) {
        if self.host.running.is_none() {
            return;
        }
        match self.rng.below(20) {
            0..12 => self.write_value(),
            12..14 => self.write_referred(),
            _ => self.operate(),
        }
    }

    fn write_value(&mut self) {
        let index = self.rng.index(self.library.len());
        let Some(variable_plan) = self.library.get(index).cloned() else {
            return;
        };
        let rng = &mut self.rng;
        let value = match variable_plan.kind {
            Kind::Number => Value::F64(number(rng)),
            Kind::Switch => Value::Bool(rng.chance(0.5)),
            Kind::Bits => Value::U32(rng.below(8) as u32),
        };
        let quality = match rng.below(14) {
            0 => Some(Quality::bad(Reason::SensorFailure)),
            1 => Some(Quality::uncertain(Reason::None)),
            _ => None,
        };
        let hour = 3_600_000_000_000_i64;
        let wall = self.moment().wall;
        let source = match self.rng.below(10) {
            0 => Some(wall.saturating_add_nanos(-(self.rng.below(hour as u64) as i64))),
            1 => Some(wall.saturating_add_nanos(self.rng.below(48 * hour as u64) as i64)),
            _ => None,
        };
        self.write(&variable_plan.name, &value, quality, source);
    }

    fn write_referred(&mut self) {
        let rng = &mut self.rng;
        let (name, value) = match rng.chance(0.5) {
            true => (pick(rng, &CONDITIONS), Value::Bool(rng.chance(0.4))),
            false => {
                let number = pick(rng, &[20.0, 50.0, 80.0, f64::NAN]);
                (pick(rng, &OPERANDS), Value::F64(number))
            }
        };
        let quality = rng
            .chance(0.15)
            .then(|| Quality::bad(Reason::SensorFailure));
        self.write(name, &value, quality, None);
        let full = format!("{LIBRARY}/{name}");
        match quality {
            Some(_) => _ = self.referenced.remove(&full),
            None => _ = self.referenced.insert(full, value),
        }
        self.has_unread_reference = true;
        // The engine reads the value at the next poll, because the write does not wake the engine.
    }

    fn write(
        &mut self,
        name: &str,
        value: &Value,
        quality: Option<Quality>,
        source: Option<Timestamp>,
    ) {
        let at = self.moment();
        let Some(running) = &self.host.running else {
            return;
        };
        let full = format!("{LIBRARY}/{name}");
        let caller = Caller::local(3, 3);
        let Ok(variable) = running.engine.resolve(&caller, &full) else {
            return self.checker.fail(|| format!("variable {full} is missing"));
        };
        let mut write = Write::value(value);
        (write.quality, write.source_timestamp) = (quality, source);
        if self.rng.chance(0.5) {
            write.origin = Origin::Source;
        }
        let mut wakes = Wakes::new();
        let engine = &running.engine;
        let attempt = engine.try_write(&caller, at.now, at.wall, &variable, &write, &mut wakes);
        drop(wakes);
        self.trace.detail(self.now, || {
            format!("{name} = {value:?} {quality:?} of {source:?}: {attempt:?}")
        });
        let count = self.note_updates();
        if let (0, Attempt::Done(WriteOutcome::Unchanged(_)), None) = (count, &attempt, source) {
            let measured = Measured::new(value, quality.unwrap_or(Quality::GOOD));
            if measured.quality.level() == Level::Good {
                self.checker.not_updated(name, measured, at);
            }
        }
    }

    /// Lets one or two operators act on an alarm, or one operator on all alarms of an area.
    fn operate(&mut self) {
        let alarms = self.checker.alarms();
        let rng = &mut self.rng;
        if rng.chance(0.15) {
            let area = pick(rng, &["north", "south"]);
            let unacknowledged = alarms
                .iter()
                .filter(|(_, _, of, state)| of == area && state.is_unacknowledged());
            for (name, alarm, ..) in unacknowledged {
                self.operate_on((name, alarm), AlarmAction::Acknowledge, OPERATORS[0]);
            }
            return;
        }
        let Some((name, alarm, _, state)) = alarms.get(rng.index(alarms.len())) else {
            return;
        };
        let seconds = rng.magnitude(1.0, 600.0);
        let shelve = AlarmAction::Shelve(Duration::from_secs_f64(seconds));
        let action = match (state, rng.below(10)) {
            (AlarmState::LatchedAcknowledged, 0..7) => AlarmAction::Reset,
            (state, 0..7) if state.is_unacknowledged() => AlarmAction::Acknowledge,
            (AlarmState::OutOfService, 0..5) => AlarmAction::ReturnToService,
            (AlarmState::Shelved, 0..2) => AlarmAction::Unshelve,
            _ => pick(
                rng,
                &[
                    AlarmAction::Acknowledge,
                    AlarmAction::Reset,
                    shelve,
                    shelve,
                    AlarmAction::Unshelve,
                    AlarmAction::TakeOutOfService,
                    AlarmAction::ReturnToService,
                ],
            ),
        };
        let first = pick(rng, &OPERATORS);
        let is_twice = rng.chance(0.2);
        self.operate_on((name, alarm), action, first);
        if is_twice {
            let second = pick(&mut self.rng, &OPERATORS);
            self.operate_on((name, alarm), action, second);
        }
    }

    fn operate_on(&mut self, (name, alarm): (&str, &str), action: AlarmAction, user: u32) {
        let at = self.moment();
        let Some(running) = &self.host.running else {
            return;
        };
        let caller = Caller::local(10 + user, user);
        let Ok(variable) = running
            .engine
            .resolve(&caller, &format!("{LIBRARY}/{name}"))
        else {
            return self.checker.fail(|| format!("variable {name} is missing"));
        };
        let request = (alarm, action, "seen");
        let alarms = running.engine.alarms();
        let answer = alarms.act(&caller, variable.handle(), request, at, &mut Wakes::new());
        self.trace.log(self.now, || {
            format!("user {user}: {action:?} of {alarm} of {name}: {answer:?}")
        });
        let answer = answer.map_err(|refusal| refusal.to_string());
        let who = caller.principal.to_string();
        self.checker
            .action_ended((name, alarm), (action, &who), at, answer);
    }

    fn inject(&mut self, fault: Fault) {
        if self.host.running.is_none() {
            return;
        }
        *self.faults.entry(fault).or_default() += 1;
        self.trace.log(self.now, || fault.sentence().to_owned());
        self.trace.note(fault as u64);
        let duration = self.plan.pace.mul_f64(self.rng.magnitude(1.0, 20.0));
        match fault {
            Fault::Kill | Fault::PowerLoss => {
                let loses_power = fault == Fault::PowerLoss;
                match loses_power || self.rng.chance(0.5) {
                    true => {
                        self.mode = StoreMode::Interrupted { loses_power };
                        self.keep();
                    }
                    false => self.end(None),
                }
            }
            Fault::Restart => {
                let at = self.moment();
                let _kept = self
                    .host
                    .keep(self.mode, at, &mut self.checker, &mut self.rng);
                if let Some(running) = &mut self.host.running {
                    running.keeper.close();
                }
                self.host.running = None;
                self.process_ended();
            }
            Fault::Full => {
                self.mode = StoreMode::Full;
                self.heals_at = self.now.saturating_add(duration);
            }
            Fault::UnknownOutcome => {
                self.mode = StoreMode::UnknownOutcome;
                self.heals_at = self.now.saturating_add(duration / 4);
            }
            Fault::Pause => {
                let until = self.now.saturating_add(self.rng.millis(20, 8000));
                self.poll_at = self.poll_at.max(until);
                self.act_at = self.act_at.max(until);
                self.keep_at = self.keep_at.map(|at| at.max(until));
                for (_, at) in &mut self.followers {
                    *at = (*at).max(until);
                }
                for (client, _) in &mut self.clients {
                    client.remote.pause_engine(until);
                }
            }
            Fault::Clock => {
                let nanos = (self.rng.magnitude(1e6, 1e14)) as i64;
                let sign = pick(&mut self.rng, &[1, -1]);
                self.offset = self.offset.saturating_add(nanos * sign);
            }
            Fault::Redeploy => self.redeploy(None),
            Fault::RedeployCut => {
                let after_deployment = self.rng.chance(0.5);
                self.redeploy(Some(after_deployment));
            }
            Fault::Cut | Fault::Silence => {
                let index = self.rng.index(self.clients.len());
                let until = self.now.saturating_add(self.rng.millis(20, 8000));
                let now = self.now;
                match self.clients.get_mut(index) {
                    Some((client, _)) if fault == Fault::Cut => client.remote.cut(now),
                    Some((client, _)) => client.remote.silence(until),
                    None => {}
                }
            }
            Fault::Disconnect => {
                let index = self.rng.index(self.followers.len());
                if let Some((follower, at)) = self.followers.get_mut(index) {
                    follower.disconnect();
                    *at = self.now.saturating_add(duration);
                }
            }
        }
    }

    /// Replaces the library with one that has other alarms. `cut` ends the engine's process: after the
    /// library is stored if it is `Some(false)`, and after it is deployed if it is `Some(true)`.
    fn redeploy(&mut self, cut: Option<bool>) {
        if self.mode != StoreMode::Working {
            // The order is refused, because it cannot be stored.
            return;
        }
        let at = self.moment();
        for index in 0..self.library.len() {
            if self.rng.chance(0.6)
                && let Some(variable_plan) = self.library.get_mut(index)
            {
                change_alarms(variable_plan, &mut self.rng);
            }
        }
        let definition = library(&self.library);
        let Some(running) = &mut self.host.running else {
            return;
        };
        let saved = running.store.save_library(&StoredLibrary {
            definition: definition.clone(),
            state: LibraryState::Running,
        });
        if let Err(error) = saved {
            return self
                .checker
                .fail(|| format!("a library cannot be stored: {error}"));
        }
        self.checker.saved(&self.library);
        if cut == Some(false) {
            return self.end(None);
        }
        let mut wakes = Wakes::new();
        let libraries = running.engine.libraries();
        let deployed =
            libraries.deploy_retained(&definition, true, &|_, _| None, at.now, at.wall, &mut wakes);
        drop(wakes);
        if let Err(error) = deployed {
            return self
                .checker
                .fail(|| format!("a library is refused: {error}"));
        }
        let changed = self.checker.redeployed(&self.library, at);
        for (follower, _) in &mut self.followers {
            follower.replaced(&changed);
        }
        for (client, _) in &mut self.clients {
            client.replaced();
        }
        self.has_unread_reference = true;
        self.note_updates();
        self.compare();
        if cut == Some(true) {
            self.end(None);
        }
    }

    /// Runs the clients for [`SETTLE_TIME`], so that all updates arrive.
    fn settle_clients(&mut self) {
        let end = self.now.saturating_add(SETTLE_TIME);
        for (client, _) in &mut self.clients {
            client.remote.heal();
        }
        while self.checker.violation.is_none() {
            match self.clients_due() {
                Some(at) if at <= end => self.now = at.max(self.now),
                _ => break,
            }
            self.turn_clients();
            for (_, act_at) in &mut self.clients {
                *act_at = (*act_at).min(self.now.saturating_add(PROMPT_INTERVAL));
            }
        }
    }

    /// Ends all faults, and compares everything.
    fn settle(&mut self) {
        if self.start_at.is_some() {
            self.start();
        }
        self.mode = StoreMode::Working;
        self.poll_engine();
        for _ in 0..3 {
            let at = self.moment();
            let (is_kept, _) =
                self.host
                    .keep(StoreMode::Working, at, &mut self.checker, &mut self.rng);
            if !is_kept {
                self.checker
                    .fail(|| "a step fails although the store works".to_owned());
            }
        }
        self.compare();
        for index in 0..self.followers.len() {
            // The first turn restarts a subscriber that has not kept up.
            self.follow(index, false);
            self.follow(index, true);
        }
        self.settle_clients();
        let (end, now) = (self.checker.end(), self.moment().wall);
        for (client, _) in &self.clients {
            client.check_settled(end, &mut self.checker);
        }
        let connections = self
            .clients
            .iter()
            .map(|(client, _)| client.remote.connections);
        self.checker.totals.connections = connections.sum();
        let Some(running) = &mut self.host.running else {
            return;
        };
        let (known, lost) = (running.keeper.last_entry(), running.keeper.lost());
        let is_idle = running.keeper.is_idle();
        let bound = LogBound {
            entries: u64::MAX,
            age: None,
            now,
        };
        let stored = running.store.keep_alarms(&[], &[], bound);
        if known != end || stored != Ok(end) || lost > 0 || !is_idle {
            self.checker.fail(|| {
                format!(
                    "H-11: the journal ends at {stored:?}, the keeper reports {known} and {lost} \
                     lost; expected {end}"
                )
            });
        }
        let behind = self.followers.iter().find(|(one, _)| one.next <= end);
        if let Some(next) = behind.map(|(follower, _)| follower.next) {
            self.checker.fail(|| {
                format!("H-11: a reader of the journal lacks the entries from {next} to {end}")
            });
        }
    }
}

/// Returns a number, in most cases near the limit of an alarm.
fn number(rng: &mut Rng) -> f64 {
    let limit = pick(rng, &[10.0, 20.0, 50.0, 80.0, 90.0]);
    match rng.below(12) {
        0 => f64::NAN,
        1 => limit,
        2 => limit + pick(rng, &[-2.0, 2.0]),
        3 => limit + pick(rng, &[-2.0, 2.0]) * (1.0 + f64::EPSILON * 2.0),
        4 => limit * (1.0 + pick(rng, &[-1.0, 1.0]) * f64::EPSILON * 2.0),
        5..8 => limit + pick(rng, &[-1.0, 1.0, -5.0, 5.0]),
        _ => rng.range(0, 100) as f64,
    }
}
