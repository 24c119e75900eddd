//! Implements the phases of a run: faults, the time after them, and the checks.

use std::sync::Arc;
use std::time::Duration;

use trunkline_stream::journal::sim_disk::{Crash, SimDisk};
use trunkline_stream::sim;
use trunkline_types::Tick;

use super::{Machine, World};
use crate::run::BEGIN;
use crate::streams::ctx::{self, Exit, Phase};

/// Time after the last fault during which the program continues to write.
const CALM_WRITES: Duration = Duration::from_secs(4);
/// Maximum time after the last fault until all data has arrived.
const CALM: Duration = Duration::from_secs(10);
/// Maximum time from that point until both programs have ended.
const FINISH: Duration = Duration::from_secs(20);
/// Maximum number of turns at one instant. More turns indicate an endless loop.
const TURNS_MAX: u64 = 200_000;

impl World {
    /// Describes the state of all programs, endpoints and connections, for a violation.
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

    /// Runs until the time `until`, or until the first violation.
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
                let violation = || format!("I5: turns never end: {state}");
                self.shared.checker.borrow_mut().fail(violation);
            }
            self.now = next;
            self.clock.set(next);
            self.trace.events += 1;
            self.trace.note(next.as_nanos());
            self.inject_due_faults();
            let first = self.rng.index(2);
            self.turn_side(first);
            self.turn_side(1 - first);
            self.turn_sessions();
            self.handle_wipes();
            self.watch();
        }
        self.now = self.now.max(until);
        self.clock.set(self.now);
    }

    /// If a program has requested it, removes both journals and restarts both programs.
    fn handle_wipes(&mut self) {
        let requests_wipe = |side: &Machine| {
            side.running
                .as_ref()
                .is_some_and(|r| r.exit == Some(Exit::Wipe))
        };
        if !self.sides.iter().any(requests_wipe) {
            return;
        }
        self.shared.checker.borrow_mut().wiped();
        for side in 0..2 {
            self.kill(side, Crash::Killed);
            self.sides[side].disk = SimDisk::default();
            self.sides[side].start_at = Some(self.now.saturating_add(Duration::from_millis(50)));
        }
    }

    /// Runs the plan: injects faults, ends them, and checks the results.
    pub fn run(&mut self) {
        let healed = BEGIN.saturating_add(self.plan().fault_phase);
        self.run_until(healed);
        self.heal();
        self.shared
            .phase
            .set(Phase::Calm(healed.saturating_add(CALM_WRITES)));
        // Poll the programs, so that they notice the new phase even if they wait.
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
                    .fail(|| format!("I5: side {side} does not finish: {exit:?}"));
            }
        }
        // Kill programs that have not ended, because their endpoints cannot continue without the world.
        for side in 0..2 {
            self.kill(side, Crash::Killed);
        }
    }

    /// Checks that both endpoints exist and are connected, and that all elements were read.
    fn compare(&mut self) {
        let ends = self.shared.ends.borrow();
        let [Some(writer), Some(reader)] = &*ends else {
            let violation = || "I5: an end is missing 10 s after the heal".to_owned();
            self.shared.checker.borrow_mut().fail(violation);
            return;
        };
        let found = [writer.properties(), reader.properties()];
        for found in &found {
            if !found.is_connected {
                self.shared.checker.borrow_mut().fail(|| {
                    format!(
                        "I5: {} is not connected 10 s after the heal: {found:?}",
                        found.url
                    )
                });
                return;
            }
        }
        let lineage = |end: &Arc<dyn sim::SimEndpoint>| ctx::lineage(end.incarnation());
        let (writer, own) = (lineage(writer), lineage(reader));
        let mut checker = self.shared.checker.borrow_mut();
        let stream = checker.stream_of(writer);
        checker.compare(own, stream);
    }
}
