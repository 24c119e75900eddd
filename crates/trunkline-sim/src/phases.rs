//! Implements the phases of a run: faults, healing, and the checks after all activity has stopped.

use std::collections::BTreeMap;
use std::time::Duration;

use trunkline_client::RequestId;
use trunkline_client::request::Info;
use trunkline_proto::Endpoint;
use trunkline_types::{Contract, Position};

use crate::checker::write_number;
use crate::plan::Repairs;
use crate::program::Subscription;
use crate::world::World;

/// Maximum time after the last fault until all clients are connected.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// Maximum time after healing until every client's values match the engine's (B-11).
const CONVERGE_TIME: Duration = Duration::from_secs(2);
/// Used instead of `CONVERGE_TIME` if marks may be lost: the keep-alives of one full sweep, plus the
/// time until lost connections end.
const SWEEP_TIME: Duration = Duration::from_secs(70);
/// Maximum time until all writes that wait for room have ended.
const WRITES_END_TIME: Duration = Duration::from_secs(60);
/// Maximum time until a single update reaches every subscriber.
const PROBE_TIME: Duration = Duration::from_millis(700);
/// Maximum silence until an endpoint detects a dead peer (B-13): the deadline, the extra time that
/// the endpoint allows after it was itself stalled, and the duration of one turn.
const SILENCE_MAX: Duration = Duration::from_millis(4_200);

impl World {
    /// Runs the plan: first with faults, which checks safety, and then without, which checks liveness.
    pub fn run(&mut self) {
        if self.plan.cycles > 0 {
            self.run_chaos();
        } else {
            self.run_for(self.plan.fault_phase);
            self.heal();
            self.converge();
        }
        self.writes_enabled = false;
        self.end_writes();
        if self.plan.repairs == Repairs::Marks {
            self.run_for(SWEEP_TIME);
            self.check_views("a whole sweep after the last write", true, SWEEP_TIME);
            // The sweep restores the lost marks of items, but not those of patterns, so do not check the
            // transient variables.
        } else {
            self.run_for(CONVERGE_TIME);
            self.check_views("2 s after the last write", true, CONVERGE_TIME);
            self.check_transient("2 s after the last write", CONVERGE_TIME);
            for _ in 0..3 {
                self.probe();
            }
        }
        self.check_ledgers();
        self.checker.check_all_ended();
        self.count_repairs();
        self.check_budget();
    }

    /// Runs until all clients are connected.
    fn converge(&mut self) {
        let end = self.now.saturating_add(CONNECT_TIME);
        while self.now < end && self.checker.violation.is_none() && !self.all_connected() {
            self.run_for(Duration::from_millis(20));
        }
        if !self.all_connected() {
            self.checker
                .fail(|| "a program is not connected 10 s after the heal".to_owned());
        }
        self.run_for(Duration::from_millis(500));
    }

    /// Runs until all writes have ended. Writes may wait for room one after another, each for up to
    /// `stall`. The time for the checks that follow begins when the last write has ended.
    fn end_writes(&mut self) {
        let end = self.now.saturating_add(WRITES_END_TIME);
        while self.now < end && self.checker.violation.is_none() && self.checker.has_open_writes() {
            self.run_for(Duration::from_millis(20));
        }
    }

    fn run_chaos(&mut self) {
        self.run_for(Duration::from_secs(3));
        for cycle in 0..self.plan.cycles {
            if self.checker.violation.is_some() {
                return;
            }
            (self.faults_enabled, self.writes_enabled) = (true, true);
            for _ in 0..self.rng.range(1, 3) {
                let fault = crate::fault::FAULTS[self.rng.index(crate::fault::FAULTS.len())];
                self.inject(fault);
                let time = self.rng.millis(0, 1500);
                self.run_for(time);
            }
            self.heal();
            self.writes_enabled = false;
            self.run_for(CONVERGE_TIME);
            let when = format!("2 s after the heal of cycle {cycle}");
            self.check_views(&when, true, CONVERGE_TIME);
            self.check_transient(&when, CONVERGE_TIME);
        }
    }

    fn all_connected(&self) -> bool {
        let is_up = |host: &crate::program::ProgramHost| {
            let session = host.running.as_ref().and_then(|p| p.core.session());
            session.is_some_and(|session| session.epoch == self.engine.epoch)
        };
        // A client does not notice immediately that the engine was killed, so check the engine too.
        self.engine.running.is_some() && self.programs.iter().all(is_up)
    }

    /// Checks that every subscriber's newest value, quality and position match the engine's (B-11).
    /// Excludes `first:n` subscriptions, which keep the first updates. Excludes `sampled` subscriptions
    /// unless `sampled` is true, because they may not have sampled the last write. Excludes updates
    /// younger than `settled`, which may still be in flight.
    fn check_views(&mut self, when: &str, sampled: bool, settled: Duration) {
        let now = self.now;
        if self.checker.violation.is_some() {
            return;
        }
        let Some(running) = &self.engine.running else {
            return self.checker.fail(|| format!("{when}: the engine is gone"));
        };
        let mut compared = 0;
        let mut violation = None;
        let epoch = running.engine.epoch();
        for (program, host) in self.programs.iter().enumerate() {
            let Some(started) = &host.running else {
                continue;
            };
            if started.core.session().is_none() {
                violation = Some(format!("program {program} is not connected {when}"));
                break;
            }
            for subscription in &started.subscriptions {
                // A write that waited for room may take effect after healing, and may overrun an `all`
                // subscription, which the client then reopens.
                let is_recent = |variable: &u32| {
                    let handle = running.handles.get(*variable as usize);
                    let engine_variable =
                        handle.and_then(|handle| running.engine.variable(*handle));
                    let sequence = engine_variable.map_or(0, |variable| variable.update().sequence);
                    let update = self
                        .checker
                        .update_at(*variable, Position { epoch, sequence });
                    update.is_some_and(|update| now.since(update.at) < settled)
                };
                let is_all = matches!(subscription.contract, Contract::All { .. });
                if is_all && subscription.variables.iter().any(is_recent) {
                    continue;
                }
                for (item, variable) in subscription.variables.iter().enumerate() {
                    if is_recent(variable) {
                        continue;
                    }
                    let is_sampled = matches!(subscription.contract, Contract::Sampled(_));
                    if matches!(subscription.contract, Contract::First(_))
                        || (is_sampled && !sampled)
                    {
                        continue;
                    }
                    let handle = running.handles.get(*variable as usize);
                    let Some(engine_variable) = handle.and_then(|h| running.engine.variable(*h))
                    else {
                        continue;
                    };
                    let update = engine_variable.update();
                    let position = Position {
                        epoch,
                        sequence: update.sequence,
                    };
                    compared += 1;
                    let value = started.core.value(now, subscription.id, item as u32);
                    let context = || {
                        format!(
                            "program {program} variable {variable} under {}",
                            subscription.contract
                        )
                    };
                    let Some(value) = value else {
                        violation = Some(format!("B-11: {} has no value {when}", context()));
                        break;
                    };
                    let engine_value = engine_variable.sample_of(&update).value;
                    let same = value.position == position
                        && (update.sequence == 0 || value.sample.quality == update.quality)
                        && (update.sequence == 0
                            || write_number(&value.sample.value) == write_number(&engine_value));
                    if !same {
                        violation = Some(format!(
                            "B-11: {} is at {:?}, the engine at {position:?}, {when}",
                            context(),
                            value.position
                        ));
                    } else if value.stale.is_some() {
                        violation = Some(format!("B-12: {} is marked as stale {when}", context()));
                    } else if last_taken(subscription, item) != Some(position) {
                        violation = Some(format!(
                            "B-11: {} has taken {:?}, the engine is at {position:?}, {when}; {} \
                             events wait",
                            context(),
                            last_taken(subscription, item),
                            started.core.waiting(subscription.id)
                        ));
                    }
                }
            }
        }
        self.checker.totals.compared += compared;
        if let Some(violation) = violation {
            self.checker.fail(|| violation);
        }
    }

    /// Makes single writes at random times. If a wake-up is missing, an update arrives too late.
    fn probe(&mut self) {
        let count = self.plan.variables.len() as u64;
        for _ in 0..count.min(10) {
            let variable = self.rng.below(count) as u32;
            self.produce_one(variable);
            self.after_engine();
            let time = self.rng.millis(0, 30);
            self.run_for(time);
        }
        let slack = self.plan.way.delay * 4 + self.plan.scheduling * 20;
        self.run_for(PROBE_TIME + slack);
        self.check_views("after a single write", false, Duration::ZERO);
    }

    /// Checks that the ledgers balance, and that the counts of client and engine agree (B-02).
    fn check_ledgers(&mut self) {
        // Time for a keep-alive in each direction, which confirms everything received.
        self.run_for(Duration::from_millis(2_600));
        if self.checker.violation.is_some() || self.plan.repairs == Repairs::Records {
            return;
        }
        let requests: Vec<Option<RequestId<Info>>> = self
            .programs
            .iter_mut()
            .map(|host| {
                let started = host.running.as_mut()?;
                let variables = started.variables.clone();
                started.core.info(&variables).ok()
            })
            .collect();
        for program in 0..self.programs.len() {
            self.wake_program(program, self.now);
        }
        self.run_for(Duration::from_millis(1_500) + self.plan.way.delay * 4);
        for (program, request) in requests.into_iter().enumerate() {
            self.check_ledgers_of(program, request);
        }
    }

    fn check_ledgers_of(&mut self, program: usize, request: Option<RequestId<Info>>) {
        let all_written = self.engine.all_written;
        let Self {
            programs, checker, ..
        } = self;
        let Some(started) = programs
            .get_mut(program)
            .and_then(|host| host.running.as_mut())
        else {
            return;
        };
        let answer = request.and_then(|request| started.core.take(request));
        let Some(Ok(infos)) = answer else {
            return checker.fail(|| format!("program {program} received no ledgers: {answer:?}"));
        };
        let mut received: BTreeMap<u32, u64> = BTreeMap::new();
        for info in infos.into_iter().flatten() {
            checker.totals.ledgers += 1 + info.subscriptions.len() as u64;
            if !info.write_ledger.is_balanced() || info.write_ledger.written != info.sequence {
                let text = format!("B-02: upstream of {}: {:?}", info.name, info.write_ledger);
                checker.fail(|| text);
            }
            for subscription in &info.subscriptions {
                let ledger = subscription.ledger;
                *received.entry(subscription.terms.subscription).or_default() += ledger.received;
                let is_quiet = ledger.waiting == 0 && ledger.sent_unconfirmed == 0;
                if !ledger.is_balanced() || !is_quiet {
                    let contract = subscription.terms.contract;
                    let name = &info.name;
                    let text =
                        format!("B-02: {name} of program {program} under {contract}: {ledger:?}");
                    checker.fail(|| text);
                }
            }
        }
        for subscription in &started.subscriptions {
            let Some(ledger) = started.core.ledger(subscription.id) else {
                continue;
            };
            checker.totals.ledgers += 1;
            if !ledger.is_balanced() || ledger.waiting > 0 {
                let text = format!(
                    "B-02: client {program} under {}: {ledger:?}",
                    subscription.contract
                );
                checker.fail(|| text);
            }
        }
        for subscription in &started.subscriptions {
            // For an `all` subscription that was reopened, the engine counts from zero. The engine does
            // not count a first reading without a value, but the client does.
            let was_not_reopened = !matches!(subscription.contract, Contract::All { .. });
            let wire_number = started.core.wire_number(subscription.id);
            let Some(ledger) = started.core.ledger(subscription.id) else {
                continue;
            };
            if let Some(before) = subscription
                .received_before
                .filter(|_| was_not_reopened && all_written)
                && let Some(at_engine) = wire_number.and_then(|number| received.get(&number))
                && ledger.received - before != *at_engine
            {
                let received_here = ledger.received - before;
                checker.fail(|| {
                    format!(
                        "B-02: client {program} has received {received_here} under {}, the \
                         engine has {at_engine} confirmed",
                        subscription.contract
                    )
                });
            }
        }
        let counts = started.core.write_counts();
        let ends = counts.applied
            + counts.unchanged
            + counts.superseded
            + counts.refused
            + counts.would_block
            + counts.unknown
            + counts.cancelled;
        if counts.issued != ends + counts.waiting + counts.in_flight || counts.waiting > 0 {
            checker.fail(|| format!("B-20: client {program} counts its writes as {counts:?}"));
        }
    }

    /// Records the repairs of all running processes.
    fn count_repairs(&mut self) {
        for program in 0..self.programs.len() {
            self.count_repairs_of(program);
        }
        self.count_marks();
    }

    /// Records the repairs of a client, at the end of its process or of the run.
    pub(crate) fn count_repairs_of(&mut self, program: usize) {
        let host = self.programs.get(program);
        if let Some(started) = host.and_then(|host| host.running.as_ref()) {
            let counters = started.core.counters();
            self.checker
                .record_repairs(counters.diverged, counters.repaired, 0);
        }
    }

    /// Records the repairs of an engine, at the end of its process or of the run. Items that the engine
    /// sent again are not added, because the clients that received them count them.
    pub(crate) fn count_marks(&mut self) {
        if let Some(running) = &self.engine.running {
            let (repaired, marked) = running.engine.health().repaired_and_marked();
            if self.plan.repairs != Repairs::Records && repaired > 0 {
                self.checker
                    .fail(|| format!("B-10: the engine sent {repaired} items again"));
            }
            self.checker.record_repairs(0, 0, marked);
        }
    }

    /// Checks bounds and deadlines. This happens twice a second.
    pub(crate) fn inspect(&mut self) {
        let now = self.now;
        let mut violation = None;
        for (program, host) in self.programs.iter().enumerate() {
            let Some(started) = &host.running else {
                continue;
            };
            if host.paused_until > now {
                continue;
            }
            let silent = now.since(host.last_input_at);
            if host.link.is_some() && started.core.session().is_some() && silent > SILENCE_MAX {
                violation = Some(format!(
                    "B-13: program {program} has heard nothing for {silent:?}"
                ));
            }
            for subscription in &started.subscriptions {
                let waiting = started.core.waiting(subscription.id);
                let bound = queue_bound(subscription);
                if waiting > bound {
                    violation = Some(format!(
                        "program {program} holds {waiting} events under {}, its bound is {bound}",
                        subscription.contract
                    ));
                }
                if started.core.session().is_none()
                    && let Some(value) = started.core.value(now, subscription.id, 0)
                    && (value.stale.is_none() || value.sample.quality.is_good())
                {
                    violation = Some(format!(
                        "B-12: program {program} is not connected, but has {value:?}"
                    ));
                }
            }
        }
        if let Some(running) = &self.engine.running
            && self.engine.paused_until <= now
        {
            for (link, slot) in &running.sessions {
                let silent = now.since(slot.last_input_at);
                if slot.session.is_open() && slot.session.wants_input() && silent > SILENCE_MAX {
                    let program = slot.program;
                    violation = Some(format!(
                        "B-13: link {link} of program {program}: the engine has heard nothing for \
                         {silent:?}"
                    ));
                }
            }
        }
        if let Some(violation) = violation {
            self.checker.fail(|| violation);
        }
    }
}

fn last_taken(subscription: &Subscription, item: usize) -> Option<Position> {
    subscription.items.get(item)?.position
}

/// Returns the maximum number of events that may wait in a subscription: readings, one notice per item,
/// and changes of the connection.
fn queue_bound(subscription: &Subscription) -> usize {
    let items = subscription.variables.len();
    let readings = match subscription.contract {
        Contract::Latest | Contract::Sampled(_) => items,
        Contract::Last(n) | Contract::First(n) => items * n as usize,
        Contract::All { elements, .. } => 2 * elements as usize + items,
    };
    readings + items + 16
}
