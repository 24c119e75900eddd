//! The time and the order of all events: writes, the recorder's turns, queries and faults.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use trunkline_engine::history::History;
use trunkline_engine::{
    Attempt, Caller, LateKept, LogPage, Order, Refusal, Report, Wakes, Write, WriteOutcome,
};
use trunkline_proto::FaultCode;
use trunkline_types::history::{HistoryQuery, LATE_SEQUENCES, RowKey};
use trunkline_types::{
    Clock, ClockSync, DataType, Moment, Pattern, Quality, Reason, Tick, Timestamp, Value, wire,
};

use super::checker::{Answer, HistoryChecker, Line, Update};
use super::fault::Fault;
use super::follower::Follower;
use super::host::{Host, Image, log_length, with_file_limit, within_commit, within_maintenance};
use super::plan::{FOLLOWED, LIBRARY, Plan, data_type, pick};
use crate::rng::Rng;
use crate::run::BEGIN;
use crate::trace::Trace;

/// Initial difference between the wall clock and the monotonic clock, in ns. Every run begins at 19:33 UTC,
/// so that many runs span two dates.
const WALL: i64 = 1_790_000_000_000_000_000 + 16_400_000_000_000;
const HOUR: i64 = 3_600_000_000_000;
/// Time after the last fault within which a program must receive everything.
const SETTLE_TIME: Duration = Duration::from_secs(100);
/// Maximum number of calls of maintenance in a row; more are a violation.
const CALLS_MAX: usize = 10_000;

pub struct HistoryWorld {
    pub plan: Plan,
    pub now: Tick,
    pub trace: Trace,
    pub checker: HistoryChecker,
    pub faults: BTreeMap<Fault, u64>,
    rng: Rng,
    host: Host,
    /// Difference between the wall clock and the monotonic clock, in ns.
    offset: i64,
    /// The latest time that the wall clock has shown.
    latest: Timestamp,
    variables: Vec<(String, DataType)>,
    fault_at: Vec<Tick>,
    /// Number of late samples since the engine started.
    late: u64,
    follower: Option<Follower>,
    /// True if the engine is killed when the follower's next query arrives.
    is_kill_due: bool,
}

impl HistoryWorld {
    pub fn new(plan: Plan, trace: Trace) -> Self {
        let mut rng = Rng::new(plan.seed);
        #[expect(
            clippy::panic,
            reason = "a machine without a folder for temporary files"
        )]
        let host = Host::new().unwrap_or_else(|error| panic!("no temporary folder: {error}"));
        let strikes = plan.faults.iter();
        let fault_at = strikes
            .map(|(_, mean)| BEGIN.saturating_add(rng.wait(*mean)))
            .collect();
        Self {
            now: BEGIN,
            trace,
            checker: HistoryChecker::new(
                plan.variables
                    .iter()
                    .any(|(name, _)| name.starts_with("short")),
            ),
            faults: BTreeMap::new(),
            rng,
            host,
            offset: WALL,
            latest: Timestamp::from_nanos(WALL),
            variables: plan.variables.clone(),
            fault_at,
            late: 0,
            follower: None,
            is_kill_due: false,
            plan,
        }
    }

    fn moment(&mut self) -> Moment {
        let wall = (self.now.as_nanos() as i64).saturating_add(self.offset);
        let wall = Timestamp::from_nanos(wall);
        self.latest = self.latest.max(wall);
        Moment {
            now: self.now,
            wall,
        }
    }

    pub fn run(&mut self) {
        let end = BEGIN.saturating_add(self.plan.length);
        self.start();
        while self.now < end && self.checker.violation.is_none() {
            let next = self.now.saturating_add(self.rng.wait(self.plan.pace));
            self.pass(next);
            self.trace.events += 1;
            self.act();
            for index in 0..self.fault_at.len() {
                let due = self.fault_at.get(index).is_some_and(|at| *at <= self.now);
                if let (true, Some((fault, mean))) = (due, self.plan.faults.get(index).copied()) {
                    if let Some(at) = self.fault_at.get_mut(index) {
                        *at = self.now.saturating_add(self.rng.wait(mean));
                    }
                    self.inject(fault);
                }
            }
        }
        if self.checker.violation.is_none() {
            self.settle();
        }
        if self.checker.violation.is_none()
            && self
                .plan
                .faults
                .iter()
                .any(|(fault, _)| *fault == Fault::Damage)
        {
            self.damage();
        }
    }

    /// Lets time pass, with the turns of the program that follows a variable.
    fn pass(&mut self, until: Tick) {
        let begins_at = self
            .plan
            .follows_after
            .map(|after| BEGIN.saturating_add(after));
        if self.follower.is_none() && begins_at.is_some_and(|at| at <= self.now) {
            self.follower = Some(Follower::new(&mut self.rng));
        }
        let at = self.moment();
        if let Some(running) = &self.host.running {
            let _due = running.engine.poll(at.now, at.wall, &mut Wakes::new());
        }
        while let Some(due) = self.follower.as_ref().and_then(|one| one.remote.next())
            && due <= until
            && self.checker.violation.is_none()
        {
            self.now = self.now.max(due);
            self.follow();
        }
        self.now = self.now.max(until);
    }

    /// Runs a turn of the program that follows a variable, and of its session.
    fn follow(&mut self) {
        let moment = self.moment();
        let Some(mut follower) = self.follower.take() else {
            return;
        };
        let service = self.host.running.as_ref().map(|running| &running.service);
        follower.remote.turn(moment, service);
        let is_answered = self.answer();
        follower.act(moment.now, &mut self.checker, &mut self.trace);
        if self.rng.chance(0.01) {
            follower.start_again(&mut self.checker);
        }
        self.trace.note(follower.remote.core.changes());
        self.follower = Some(follower);
        if !is_answered {
            self.end(None, false);
        }
    }

    /// Answers queries, after everything before them was recorded. Returns false if the engine is killed
    /// before it answers one.
    fn answer(&mut self) -> bool {
        let take = |host: &Host| host.running.as_ref()?.service.take_order();
        while let Some((order, reply)) = take(&self.host) {
            if std::mem::take(&mut self.is_kill_due) {
                let fault = Fault::KillBeforeAnswer;
                *self.faults.entry(fault).or_default() += 1;
                self.log(|| fault.sentence().to_owned());
                return false;
            }
            // The product records everything before it answers. Segments may have to be moved first.
            let mut calls = 0;
            while self.commit(None) && calls < CALLS_MAX {
                self.maintain();
                calls += 1;
            }
            if calls == CALLS_MAX {
                self.checker
                    .fail(|| "H-13: waiting updates are never recorded".to_owned());
            }
            let wall = self.moment().wall;
            let (Order::History(query), Some(running)) = (order, &self.host.running) else {
                continue;
            };
            let result = running.history.read(&query, wall).map(|page| Report {
                page: Some(Box::new(LogPage::History(page))),
                ..Report::default()
            });
            reply.send(result.map_err(|error| {
                trunkline_proto::Fault::new(FaultCode::StoreFailed, error.to_string())
            }));
        }
        true
    }

    fn log(&mut self, line: impl FnOnce() -> String) {
        self.trace.log(self.now, line);
    }

    fn start(&mut self) {
        let at = self.moment();
        if let Err(error) = self.host.start(&self.variables, at) {
            return self
                .checker
                .fail(|| format!("B-63: the engine does not start: {error}"));
        }
        self.late = 0;
        let epoch = self.host.epoch;
        self.log(|| format!("start {epoch}"));
        if let Some(answer) = self.read(&everything(), false) {
            self.checker.started(epoch, &answer.0, self.latest);
        }
        self.note_deployed();
    }

    fn note_deployed(&mut self) {
        let recorded = self.variables.iter();
        let recorded = recorded.filter(|(name, _)| !name.starts_with("never"));
        let recorded = recorded
            .map(|(name, data_type)| (format!("{LIBRARY}/{name}"), format!("{data_type:?}")));
        self.checker.deployed(recorded.collect());
        self.checker.note_base();
    }

    fn act(&mut self) {
        let [commit, close, maintain, query] = self.plan.shares;
        let drawn = self.rng.below(100);
        if drawn < commit {
            self.commit(None);
        } else if drawn < commit + close {
            self.close_segment();
        } else if drawn < commit + close + maintain {
            for _ in 0..self.rng.range(1, 4) {
                self.maintain();
            }
        } else if drawn < commit + close + maintain + query {
            self.query();
        } else {
            for _ in 0..self.rng.range(1, 8) {
                self.write();
            }
        }
    }

    fn write(&mut self) {
        let at = self.moment();
        let rng = &mut self.rng;
        let index = rng.index(self.variables.len());
        let Some((name, data_type)) = self.variables.get(index).cloned() else {
            return;
        };
        let is_followed = format!("{LIBRARY}/{name}") == FOLLOWED;
        let value = value(&data_type, rng);
        let quality = rng.chance(0.1).then(|| Quality::bad(Reason::SensorFailure));
        let quality = match rng.below(20) {
            // The source's clock was never set.
            0 if !is_followed => Some(Quality::GOOD.with_clock(Clock::Source, ClockSync::Unset)),
            _ => quality,
        };
        let source = match rng.below(10) {
            // Within the disorder that a subscription to history and live readings permits.
            0..3 if is_followed => Some(-(rng.below(HOUR as u64 / 2) as i64)),
            _ if is_followed => None,
            0..3 => Some(-(rng.below(30 * HOUR as u64) as i64)),
            3 => Some(rng.below(26 * HOUR as u64) as i64),
            _ => None,
        };
        let source = source.map(|nanos| at.wall.saturating_add_nanos(nanos));
        let Some(running) = &self.host.running else {
            return;
        };
        let caller = Caller::local(1, 0);
        let full = format!("{LIBRARY}/{name}");
        let Ok(variable) = running.engine.resolve(&caller, &full) else {
            return self.checker.fail(|| format!("variable {full} is missing"));
        };
        let mut write = Write::value(&value);
        (write.quality, write.source_timestamp) = (quality, source);
        let mut wakes = Wakes::new();
        let engine = &running.engine;
        let attempt = engine.try_write(&caller, at.now, at.wall, &variable, &write, &mut wakes);
        let is_recorded = !name.starts_with("never");
        if let Attempt::Done(WriteOutcome::Refused(Refusal::Late { kept, .. })) = &attempt
            && (*kept == LateKept::History) != is_recorded
        {
            let kept = *kept;
            return self
                .checker
                .fail(|| format!("B-41: a late sample of {full} is kept {kept:?}"));
        }
        if !is_recorded {
            return;
        }
        let (sequence, measured, quality) = match attempt {
            Attempt::Done(WriteOutcome::Applied(_)) => {
                let update = variable.update();
                (update.sequence, update.source_timestamp, update.quality)
            }
            // B-41: a late sample is recorded, but never becomes the value.
            Attempt::Done(WriteOutcome::Refused(Refusal::Late {
                kept: LateKept::History,
                ..
            })) => {
                self.late += 1;
                let quality = quality.unwrap_or(Quality::GOOD);
                let quality = match quality.clock() {
                    Clock::Source => quality,
                    Clock::Engine | Clock::Unknown => {
                        quality.with_clock(Clock::Source, ClockSync::Unknown)
                    }
                };
                let measured = source.unwrap_or(at.wall);
                (LATE_SEQUENCES + self.late, measured, quality)
            }
            _ => return,
        };
        let engine_time = at.wall.as_nanos();
        let is_set = quality.clock_sync() != ClockSync::Unset;
        let time = match is_set {
            true => measured.as_nanos(),
            false => engine_time,
        };
        let mut bytes = Vec::new();
        wire::encode_value(&value, &mut bytes);
        let line = Line {
            variable: full,
            data_type: format!("{data_type:?}"),
            key: RowKey {
                time,
                epoch: engine.epoch(),
                sequence,
            },
            delay: engine_time - time,
            quality: quality.to_bits(),
            value: bytes,
        };
        self.trace.note(sequence);
        self.trace.detail(self.now, || format!("{line:?}"));
        self.checker.updated(line);
    }

    /// Runs a turn of the recorder. `room` limits the bytes that the log may grow by. Returns true if the
    /// turn succeeded and more waits.
    fn commit(&mut self, room: Option<u64>) -> bool {
        let moment = self.moment();
        let length = log_length(&match room {
            Some(_) => self.host.image(),
            None => Image::new(),
        });
        let Some(running) = &self.host.running else {
            return false;
        };
        let history = &running.history;
        let recorded = match room {
            Some(room) => with_file_limit(length + room, || history.record(moment)),
            None => history.record(moment),
        };
        if history.is_idle() {
            self.checker.committed();
        } else if recorded.is_ok() && !history.is_maintenance_due() {
            self.checker
                .fail(|| "H-13: nothing was recorded, but no maintenance is due".to_owned());
        }
        if let Err(error) = recorded {
            self.checker.totals.failed += 1;
            self.trace
                .log(self.now, || format!("not recorded: {error}"));
            if room.is_none() {
                self.checker.fail(|| format!("H-13: not recorded: {error}"));
            }
            return false;
        }
        let history = self.host.running.as_ref().map(|running| &running.history);
        history.is_some_and(|history| !history.is_idle()) && self.checker.violation.is_none()
    }

    fn close_segment(&mut self) {
        let moment = self.moment();
        let Some(running) = &self.host.running else {
            return;
        };
        let closed = running.history.close_segment(moment);
        if running.history.is_idle() {
            self.checker.committed();
        }
        self.checker.totals.closed += 1;
        if let Err(error) = closed {
            self.checker
                .fail(|| format!("H-13: the segment cannot be closed: {error}"));
        }
    }

    /// Calls maintenance once. Returns false if there is nothing to do.
    fn maintain(&mut self) -> bool {
        let wall = self.moment().wall;
        let Some(running) = &self.host.running else {
            return false;
        };
        match running.history.maintain(wall) {
            Ok(more) => {
                self.checker.totals.maintained += u64::from(more);
                more
            }
            Err(error) => {
                self.checker
                    .fail(|| format!("B-63: maintenance fails: {error}"));
                false
            }
        }
    }

    /// Reads all pages of a query, between which rows may be moved and added. Returns the answer, and the
    /// updates that were durable before if those may have changed.
    fn read(
        &mut self,
        query: &HistoryQuery,
        moves: bool,
    ) -> Option<(Answer, Option<BTreeSet<Update>>)> {
        let before = moves.then(|| self.checker.durable());
        let mut query = query.clone();
        let mut answer = Answer::default();
        loop {
            let wall = self.moment().wall;
            let running = self.host.running.as_ref()?;
            let page = match running.history.read(&query, wall) {
                Ok(page) => page,
                Err(error) => {
                    self.checker
                        .fail(|| format!("B-63: {query:?} cannot be read: {error}"));
                    return None;
                }
            };
            let from = query.from.take();
            query.from.clone_from(&page.next);
            answer.add(page);
            if query.from.is_none() {
                return Some((answer, before));
            }
            if query.from == from {
                self.checker
                    .fail(|| format!("B-63: a page of {query:?} makes no progress"));
                return None;
            }
            if moves {
                match self.rng.below(8) {
                    0 => self.write(),
                    1 => _ = self.commit(None),
                    2 => self.close_segment(),
                    3 => _ = self.maintain(),
                    _ => {}
                }
            }
        }
    }

    fn query(&mut self) {
        let mut query = everything();
        let rng = &mut self.rng;
        let pattern = pick(
            rng,
            &[
                "**",
                "plant/v",
                "plant/v*",
                "plant/short*",
                "plant/v0",
                "nothing/*",
            ],
        );
        query.patterns = Pattern::parse(pattern).into_iter().collect();
        query.limit = pick(rng, &[0, 0, 1, 2, 7, 50]);
        let span = |rng: &mut Rng, checker: &HistoryChecker| {
            let time = checker.some_time(rng.bits())?;
            let time = time + pick(rng, &[-HOUR, -1, 0, 0, 1, HOUR]);
            rng.chance(0.4).then(|| Timestamp::from_nanos(time))
        };
        query.since = span(rng, &self.checker);
        query.until = span(rng, &self.checker);
        if rng.chance(0.2) {
            query.after = self.checker.some_position(rng.bits());
        }
        // Reading everything row by row would take too long.
        if query.limit > 0 && query.limit < 7 && query.since.is_none() {
            query.limit = 7;
        }
        let moves = rng.chance(0.5);
        if let Some((answer, before)) = self.read(&query, moves) {
            let is_complete = before.is_none();
            let before = before.unwrap_or_default();
            let latest = self.latest;
            self.checker
                .compare(&query, &answer, is_complete, latest, &before);
        }
    }

    fn inject(&mut self, fault: Fault) {
        if !matches!(fault, Fault::Damage | Fault::KillBeforeAnswer) {
            *self.faults.entry(fault).or_default() += 1;
            self.log(|| fault.sentence().to_owned());
        }
        self.trace.note(fault as u64);
        match fault {
            Fault::Kill | Fault::PowerLoss => {
                let loses_power = fault == Fault::PowerLoss;
                let image = match self.rng.below(if loses_power { 2 } else { 4 }) {
                    0 => self.cut_commit(loses_power),
                    1 => self.cut_maintenance(),
                    _ => None,
                };
                self.end(image, false);
            }
            Fault::Restart => {
                let wall = self.moment().wall;
                let Some(running) = &self.host.running else {
                    return;
                };
                let closed = running.history.close(wall);
                match closed {
                    Ok(()) => self.checker.committed(),
                    Err(error) => {
                        return self
                            .checker
                            .fail(|| format!("H-13: the engine cannot be stopped: {error}"));
                    }
                }
                self.end(None, true);
            }
            Fault::Full => {
                let room = self.rng.below(300);
                self.commit(Some(room));
            }
            Fault::Clock => {
                let nanos = self.rng.magnitude(1e6, 2e14) as i64;
                let sign = pick(&mut self.rng, &[1, -1]);
                self.offset = self.offset.saturating_add(nanos * sign);
            }
            Fault::Redeploy => self.redeploy(),
            Fault::Cut => {
                if let Some(follower) = &mut self.follower {
                    follower.remote.cut(self.now);
                }
            }
            Fault::Silence => {
                let until = self.now.saturating_add(self.rng.millis(20, 60_000));
                if let Some(follower) = &mut self.follower {
                    follower.remote.silence(until);
                }
            }
            Fault::KillBeforeAnswer => self.is_kill_due = true,
            // Damage comes last, after all other faults.
            Fault::Damage => {}
        }
    }

    fn cut_commit(&mut self, loses_power: bool) -> Option<Image> {
        let moment = self.moment();
        let before = self.host.image();
        let running = self.host.running.as_ref()?;
        // Its result is lost with the process.
        let _lost = running.history.record(moment);
        let after = self.host.image();
        Some(within_commit(&before, &after, loses_power, &mut self.rng))
    }

    fn cut_maintenance(&mut self) -> Option<Image> {
        let wall = self.moment().wall;
        let before = self.host.image();
        let running = self.host.running.as_ref()?;
        let _lost = running.history.maintain(wall);
        let after = self.host.image();
        Some(within_maintenance(&before, &after, &mut self.rng))
    }

    fn end(&mut self, image: Option<Image>, is_stopped: bool) {
        self.checker.ended(is_stopped);
        if let Err(error) = self.host.end(image) {
            return self
                .checker
                .fail(|| format!("cannot create the folder of the history: {error}"));
        }
        if let Some(follower) = &mut self.follower {
            follower.remote.engine_ended(self.now);
        }
        let pause = self.rng.wait(self.plan.pace);
        self.pass(self.now.saturating_add(pause));
        self.start();
    }

    /// Removes variables, adds variables that were removed, and changes types.
    fn redeploy(&mut self) {
        let followed = FOLLOWED.trim_start_matches(LIBRARY).trim_start_matches('/');
        // Two deployments never accept updates at the same time.
        self.now = self.now.saturating_add(Duration::from_nanos(1));
        if self.rng.chance(0.5) {
            let place = self.variables.iter().position(|(one, _)| one == followed);
            if let Some(place) = place {
                let removed = self.variables.remove(place);
                self.checker.is_followed_redeployed = true;
                self.deploy();
                if self.rng.chance(0.8) {
                    self.variables.push(removed);
                }
            }
        }
        for (name, known) in self.plan.variables.clone() {
            let place = self.variables.iter().position(|(one, _)| *one == name);
            match (place, self.rng.below(4)) {
                (Some(place), 0) if self.variables.len() > 1 && name != followed => {
                    self.variables.remove(place);
                }
                (Some(place), 1) => {
                    let drawn = data_type(&mut self.rng);
                    if let Some((_, data_type)) = self.variables.get_mut(place) {
                        self.checker.is_followed_redeployed |= name == followed;
                        *data_type = drawn;
                    }
                }
                (None, 0..3) => self.variables.push((name, known)),
                _ => {}
            }
        }
        self.deploy();
    }

    fn deploy(&mut self) {
        let at = self.moment();
        if let Err(error) = self.host.deploy(&self.variables, at) {
            self.checker
                .fail(|| format!("B-64: the library is refused: {error}"));
        }
        self.note_deployed();
    }

    /// Lets time pass until the program that follows a variable has everything.
    fn settle_follower(&mut self) {
        self.is_kill_due = false;
        let followed = FOLLOWED.trim_start_matches(LIBRARY).trim_start_matches('/');
        let is_followed = |(name, _): &&(String, DataType)| name == followed;
        if !self.variables.iter().any(|one| is_followed(&one)) {
            let missing = self.plan.variables.iter().find(is_followed).cloned();
            self.variables.extend(missing);
            self.deploy();
        }
        if let Some(follower) = &mut self.follower {
            follower.remote.heal();
        }
        self.pass(self.now.saturating_add(SETTLE_TIME));
        self.commit(None);
        if let Some(follower) = &self.follower {
            self.checker.totals.connections = follower.remote.connections;
            follower.check_settled(self.host.epoch, &mut self.checker);
        }
    }

    /// Ends all faults, moves everything to files, and compares it before and after a restart.
    fn settle(&mut self) {
        self.commit(None);
        let mut calls = 0;
        while self.checker.violation.is_none() && self.maintain() {
            calls += 1;
            if calls == CALLS_MAX {
                self.checker
                    .fail(|| "B-63: maintenance never ends".to_owned());
            }
        }
        self.commit(None);
        self.settle_follower();
        let waiting = self.checker.waiting();
        if waiting > 0 {
            self.checker
                .fail(|| format!("H-13: {waiting} updates are never recorded"));
        }
        for _ in 0..2 {
            if let Some((answer, _)) = self.read(&everything(), false) {
                let latest = self.latest;
                let query = everything();
                let none = BTreeSet::new();
                self.checker.compare(&query, &answer, true, latest, &none);
                self.checker.compare_events(&answer, true);
            }
            self.close_segment();
            while self.checker.violation.is_none() && self.maintain() {}
        }
        let lost = self.host.running.as_ref();
        let lost = lost.map_or(0, |running| running.history.figures().lost);
        if lost > 0 {
            self.checker
                .fail(|| format!("H-13: {lost} updates are lost"));
        }
    }

    /// Flips bits of a file. Rows that can be read must be right, and the others must be reported as missing.
    fn damage(&mut self) {
        let mut image = self.host.image();
        let is_part =
            |path: &&std::path::PathBuf| path.extension().is_some_and(|found| found == "parquet");
        let parts: Vec<_> = image.keys().filter(is_part).cloned().collect();
        if parts.is_empty() {
            return;
        }
        *self.faults.entry(Fault::Damage).or_default() += 1;
        self.checker.totals.damaged += 1;
        let chosen = parts.get(self.rng.index(parts.len())).cloned();
        let Some(bytes) = chosen.as_ref().and_then(|path| image.get_mut(path)) else {
            return;
        };
        for _ in 0..self.rng.range(1, 3) {
            let at = self.rng.index(bytes.len());
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << self.rng.below(8);
            }
        }
        self.log(|| format!("damaged: {chosen:?}"));
        self.checker.is_damaged = true;
        self.end(Some(image), false);
    }
}

fn everything() -> HistoryQuery {
    HistoryQuery {
        patterns: Pattern::parse("**").into_iter().collect(),
        ..HistoryQuery::default()
    }
}

fn value(data_type: &DataType, rng: &mut Rng) -> Value {
    match data_type {
        DataType::F64 => Value::F64(rng.range(0, 2000) as f64 / 3.0),
        DataType::I64 => Value::I64(rng.bits().cast_signed()),
        DataType::Bool => Value::Bool(rng.chance(0.5)),
        DataType::U16 => Value::U16(rng.below(65_536) as u16),
        _ => {
            let length = pick(rng, &[0, 3, 20, 20, 700]);
            let text: String = (0..length)
                .map(|_| char::from(b'a' + rng.below(26) as u8))
                .collect();
            Value::String(text.into())
        }
    }
}
