//! A run from beginning to end: faults, heal, and the checks once there is no more activity.

use std::collections::BTreeMap;
use std::time::Duration;

use trunkline_client::RequestId;
use trunkline_client::request::Info;
use trunkline_proto::Endpoint;
use trunkline_types::{Contract, Position};

use crate::checker::number_of;
use crate::plan::Repairs;
use crate::program::Follow;
use crate::world::World;

/// Time after the last fault within which all clients are connected.
const CONNECTED: Duration = Duration::from_secs(10);
/// Time after the heal within which every view matches the engine's (B-11).
const CONVERGED: Duration = Duration::from_secs(2);
/// The same after a mark was lost: the keep-alives of a whole sweep, plus time for lost connections to end.
const SWEPT: Duration = Duration::from_secs(70);
/// Time within which every write that waits for room ends.
const ENDED: Duration = Duration::from_secs(60);
/// Time within which a single update reaches every subscriber if nothing is wrong.
const PROBE: Duration = Duration::from_millis(700);
/// Silence after which an end notices that its peer is dead (B-13): the deadline, the interval that
/// it allows after its own stall, and the time of a turn.
const DEAD: Duration = Duration::from_millis(4_200);

impl World {
    /// Runs the plan: first safety, then liveness.
    pub fn run(&mut self) {
        if self.plan.cycles > 0 {
            self.run_chaos();
        } else {
            self.run_for(self.plan.safety);
            self.heal();
            self.converge();
        }
        self.busy = false;
        self.end_writes();
        if self.plan.repairs == Repairs::Marks {
            self.run_for(SWEPT);
            self.check_views("a whole sweep after the last write", true, SWEPT);
            // The sweep sets the marks of items again, but not those of patterns, so
            // `check_transient` is left out.
        } else {
            self.run_for(CONVERGED);
            self.check_views("2 s after the last write", true, CONVERGED);
            self.check_transient("2 s after the last write", CONVERGED);
            for _ in 0..3 {
                self.probe();
            }
        }
        self.check_ledgers();
        self.checker.all_ended();
        self.count_repairs();
        self.check_budget();
    }

    /// Waits until all clients are connected.
    fn converge(&mut self) {
        let end = self.now.saturating_add(CONNECTED);
        while self.now < end && self.checker.violation.is_none() && !self.all_connected() {
            self.run_for(Duration::from_millis(20));
        }
        if !self.all_connected() {
            self.checker
                .fail(|| "not everybody is connected 10 s after the heal".to_owned());
        }
        self.run_for(Duration::from_millis(500));
    }

    /// Waits until all writes have ended. Writes wait for room, up to `stall` each, one after
    /// another; the end of the last one is the last write.
    fn end_writes(&mut self) {
        let end = self.now.saturating_add(ENDED);
        while self.now < end && self.checker.violation.is_none() && self.checker.has_open() {
            self.run_for(Duration::from_millis(20));
        }
    }

    fn run_chaos(&mut self) {
        self.run_for(Duration::from_secs(3));
        for cycle in 0..self.plan.cycles {
            if self.checker.violation.is_some() {
                return;
            }
            (self.faulty, self.busy) = (true, true);
            for _ in 0..self.chance.range(1, 3) {
                let fault = crate::fault::FAULTS[self.chance.index(crate::fault::FAULTS.len())];
                self.strike(fault);
                let time = self.chance.millis(0, 1500);
                self.run_for(time);
            }
            self.heal();
            self.busy = false;
            self.run_for(CONVERGED);
            let when = format!("2 s after the heal of cycle {cycle}");
            self.check_views(&when, true, CONVERGED);
            self.check_transient(&when, CONVERGED);
        }
    }

    fn all_connected(&self) -> bool {
        let is_up = |host: &crate::program::ProgramHost| {
            let session = host.running.as_ref().and_then(|p| p.core.session());
            session.is_some_and(|session| session.epoch == self.engine.epoch)
        };
        // Clients of an engine that was just killed have not noticed it yet.
        self.engine.running.is_some() && self.programs.iter().all(is_up)
    }

    /// Checks that every subscriber's newest value, quality and position match the engine's (B-11).
    /// Excluded are `first:n`, which keeps the first updates, and single writes that are too recent
    /// for `sampled`. An update younger than `settled` may still be in flight.
    fn check_views(&mut self, when: &str, sampled: bool, settled: Duration) {
        let now = self.now;
        if self.checker.violation.is_some() {
            return;
        }
        let Some(running) = &self.engine.running else {
            return self.checker.fail(|| format!("{when}: the engine is gone"));
        };
        let mut compared = 0;
        let mut found = None;
        let epoch = running.engine.epoch();
        for (program, host) in self.programs.iter().enumerate() {
            let Some(started) = &host.running else {
                continue;
            };
            if started.core.session().is_none() {
                found = Some(format!("program {program} is not connected {when}"));
                break;
            }
            for follow in &started.follows {
                // A write that had to wait for room is younger than the heal. If it overruns an
                // `all` subscription, the subscription starts again.
                let is_young = |variable: &u32| {
                    let truth = running.handles.get(*variable as usize);
                    let truth = truth.and_then(|handle| running.engine.variable(*handle));
                    let sequence = truth.map_or(0, |truth| truth.update().sequence);
                    let seen = self.checker.seen(*variable, Position { epoch, sequence });
                    seen.is_some_and(|seen| now.since(seen.at) < settled)
                };
                let is_all = matches!(follow.contract, Contract::All { .. });
                if is_all && follow.variables.iter().any(is_young) {
                    continue;
                }
                for (item, variable) in follow.variables.iter().enumerate() {
                    if is_young(variable) {
                        continue;
                    }
                    let is_sampled = matches!(follow.contract, Contract::Sampled(_));
                    if matches!(follow.contract, Contract::First(_)) || (is_sampled && !sampled) {
                        continue;
                    }
                    let handle = running.handles.get(*variable as usize);
                    let Some(truth) = handle.and_then(|h| running.engine.variable(*h)) else {
                        continue;
                    };
                    let update = truth.update();
                    let position = Position {
                        epoch,
                        sequence: update.sequence,
                    };
                    compared += 1;
                    let value = started.core.value(now, follow.id, item as u32);
                    let who = || {
                        format!(
                            "program {program} variable {variable} under {}",
                            follow.contract
                        )
                    };
                    let Some(value) = value else {
                        found = Some(format!("B-11: {} has no value {when}", who()));
                        break;
                    };
                    let truly = truth.sample_of(&update).value;
                    let same = value.position == position
                        && (update.sequence == 0 || value.sample.quality == update.quality)
                        && (update.sequence == 0
                            || number_of(&value.sample.value) == number_of(&truly));
                    if !same {
                        found = Some(format!(
                            "B-11: {} is at {:?}, the engine at {position:?}, {when}",
                            who(),
                            value.position
                        ));
                    } else if value.stale.is_some() {
                        found = Some(format!("B-12: {} says it is stale {when}", who()));
                    } else if had(follow, item) != Some(position) {
                        found = Some(format!(
                            "B-11: {} has taken {:?}, the engine is at {position:?}, {when}; {} \
                             events wait",
                            who(),
                            had(follow, item),
                            started.core.waiting(follow.id)
                        ));
                    }
                }
            }
        }
        self.checker.totals.compared += compared;
        if let Some(found) = found {
            self.checker.fail(|| found);
        }
    }

    /// Makes single writes at arbitrary times: a missing wake-up shows as a late update.
    fn probe(&mut self) {
        let count = self.plan.variables.len() as u64;
        for _ in 0..count.min(10) {
            let variable = self.chance.below(count) as u32;
            self.produce_one(variable);
            self.after_engine();
            let time = self.chance.millis(0, 30);
            self.run_for(time);
        }
        let slack = self.plan.way.delay * 4 + self.plan.scheduling * 20;
        self.run_for(PROBE + slack);
        self.check_views("after a single write", false, Duration::ZERO);
    }

    /// Checks that ledgers are balanced and that both ends' counts agree (B-02).
    fn check_ledgers(&mut self) {
        // Time for a keep-alive in each direction, which confirms everything received.
        self.run_for(Duration::from_millis(2_600));
        if self.checker.violation.is_some() || self.plan.repairs == Repairs::Records {
            return;
        }
        let asked: Vec<Option<RequestId<Info>>> = self
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
        for (program, request) in asked.into_iter().enumerate() {
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
            return checker.fail(|| format!("program {program} is told no ledgers: {answer:?}"));
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
        for follow in &started.follows {
            let Some(ledger) = started.core.ledger(follow.id) else {
                continue;
            };
            checker.totals.ledgers += 1;
            if !ledger.is_balanced() || ledger.waiting > 0 {
                let text = format!(
                    "B-02: client {program} under {}: {ledger:?}",
                    follow.contract
                );
                checker.fail(|| text);
            }
        }
        for follow in &started.follows {
            // The engine counts a reopened `all` subscription from zero. It does not count a first reading
            // without a value, although the client counts it as received.
            let is_one_life = !matches!(follow.contract, Contract::All { .. });
            let wire = started.core.wire_number(follow.id);
            let Some(ledger) = started.core.ledger(follow.id) else {
                continue;
            };
            if let Some(before) = follow
                .received_before
                .filter(|_| is_one_life && all_written)
                && let Some(at_engine) = wire.and_then(|wire| received.get(&wire))
                && ledger.received - before != *at_engine
            {
                let here = ledger.received - before;
                checker.fail(|| {
                    format!(
                        "B-02: client {program} has received {here} under {}, {at_engine} are \
                         confirmed",
                        follow.contract
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
                .repaired(counters.diverged, counters.repaired, 0);
        }
    }

    /// Records the repairs of an engine, at the end of its process or of the run. Either a client
    /// has counted an item that the engine sent again, or the client is gone.
    pub(crate) fn count_marks(&mut self) {
        if let Some(running) = &self.engine.running {
            let (repaired, marked) = running.engine.health().repaired_and_marked();
            if self.plan.repairs != Repairs::Records && repaired > 0 {
                self.checker
                    .fail(|| format!("B-10: the engine sent {repaired} items once more"));
            }
            self.checker.repaired(0, 0, marked);
        }
    }

    /// Checks bounds and deadlines, twice a second.
    pub(crate) fn inspect(&mut self) {
        let now = self.now;
        let mut found = None;
        for (program, host) in self.programs.iter().enumerate() {
            let Some(started) = &host.running else {
                continue;
            };
            if host.paused_until > now {
                continue;
            }
            let silent = now.since(host.heard);
            if host.link.is_some() && started.core.session().is_some() && silent > DEAD {
                found = Some(format!(
                    "B-13: program {program} has heard nothing for {silent:?}"
                ));
            }
            for follow in &started.follows {
                let waiting = started.core.waiting(follow.id);
                let bound = bound_of(follow);
                if waiting > bound {
                    found = Some(format!(
                        "program {program} holds {waiting} under {}, {bound} is its bound",
                        follow.contract
                    ));
                }
                if started.core.session().is_none()
                    && let Some(value) = started.core.value(now, follow.id, 0)
                    && (value.stale.is_none() || value.sample.quality.is_good())
                {
                    found = Some(format!(
                        "B-12: program {program} is not connected, and has {value:?}"
                    ));
                }
            }
        }
        if let Some(running) = &self.engine.running
            && self.engine.paused_until <= now
        {
            for (link, slot) in &running.sessions {
                let silent = now.since(slot.heard);
                if slot.session.is_open() && slot.session.wants_input() && silent > DEAD {
                    let program = slot.program;
                    found = Some(format!(
                        "B-13: link {link} of program {program}: the engine has heard nothing for \
                         {silent:?}"
                    ));
                }
            }
        }
        if let Some(found) = found {
            self.checker.fail(|| found);
        }
    }
}

fn had(follow: &Follow, item: usize) -> Option<Position> {
    follow.had.get(item)?.position
}

/// The largest number of events that may wait under a subscription: its readings, one notice per
/// item, and changes of the connection.
fn bound_of(follow: &Follow) -> usize {
    let items = follow.variables.len();
    let readings = match follow.contract {
        Contract::Latest | Contract::Sampled(_) => items,
        Contract::Last(n) | Contract::First(n) => items * n as usize,
        Contract::All { elements, .. } => 2 * elements as usize + items,
    };
    readings + items + 16
}
