//! Defines the faults, applies them, and ends them.

use std::time::Duration;

use crate::link::End;
#[cfg(feature = "planted")]
use crate::plan::Repairs;
use crate::world::{Event, World};

/// A kind of fault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fault {
    /// A connection is closed or reset at a random byte.
    Cut,
    /// No data arrives in one direction or both, and neither end is notified.
    HalfOpen,
    /// The connections of a machine are slow.
    Slow,
    /// All data from and to a machine is delayed.
    Late,
    /// The engine's machine refuses connections.
    Refuse,
    /// The engine's process is paused.
    EnginePause,
    /// The engine's process is killed and started again.
    EngineKill,
    /// A client's process is paused.
    ClientPause,
    /// A client's process is killed and a new one started.
    ClientKill,
    /// A program takes no updates.
    SlowReader,
    /// The clock of a machine is stepped.
    ClockStep,
}

/// All faults.
pub const FAULTS: &[Fault] = &[
    Fault::Cut,
    Fault::HalfOpen,
    Fault::Slow,
    Fault::Late,
    Fault::Refuse,
    Fault::EnginePause,
    Fault::EngineKill,
    Fault::ClientPause,
    Fault::ClientKill,
    Fault::SlowReader,
    Fault::ClockStep,
];

impl Fault {
    /// Returns a description of the fault for the report.
    pub fn sentence(self) -> &'static str {
        match self {
            Fault::Cut => "a connection is closed or reset at any byte",
            Fault::HalfOpen => "silence in one direction or both, without notice to either end",
            Fault::Slow => "a machine's connections carry 2 kB/s to 500 kB/s",
            Fault::Late => "all traffic from and to a machine is up to 400 ms late",
            Fault::Refuse => "the engine's machine refuses connections",
            Fault::EnginePause => "the engine's process is paused",
            Fault::EngineKill => "the engine's process is killed and started again",
            Fault::ClientPause => "a client's process is paused",
            Fault::ClientKill => "a client's process is killed and a new one started",
            Fault::SlowReader => "a program takes no readings",
            Fault::ClockStep => "a machine's clock is set: an hour, ten years, a second back",
        }
    }
}

const SECOND: i64 = 1_000_000_000;
/// Steps of a clock in ns: an hour or ten years in both directions, and one second back.
const STEPS: [i64; 6] = [
    3600 * SECOND,
    -3600 * SECOND,
    315_576_000 * SECOND,
    -315_576_000 * SECOND,
    -SECOND,
    -SECOND,
];

impl World {
    /// Applies a fault with a random duration and severity.
    pub(crate) fn inject(&mut self, fault: Fault) {
        let now = self.now;
        let victim = self.rng.index(self.programs.len());
        let pause = Duration::from_secs_f64(self.rng.magnitude(0.02, 8.0));
        let until = now.saturating_add(pause);
        self.faults
            .entry(fault)
            .and_modify(|count| *count += 1)
            .or_insert(1);
        self.trace.log(now, || {
            format!("fault {fault:?} program {victim} for {pause:?}")
        });
        match fault {
            Fault::Cut => self.cut(victim),
            Fault::HalfOpen => {
                let which = self.rng.below(3);
                if let Some(ways) = self.ways.get_mut(victim) {
                    if which != 0 {
                        ways.to_client.silent_until = ways.to_client.silent_until.max(until);
                    }
                    if which != 1 {
                        ways.to_engine.silent_until = ways.to_engine.silent_until.max(until);
                    }
                }
                self.schedule(until, Event::SilenceEnds(victim));
            }
            Fault::Slow => {
                let rate = self.rng.magnitude(2_000.0, 500_000.0) as u64;
                if let Some(ways) = self.ways.get_mut(victim) {
                    ways.to_client.rate = rate;
                    ways.to_engine.rate = rate;
                }
                self.schedule(until, Event::RestoreSpeed(victim));
            }
            Fault::Late => {
                let delay = self.rng.millis(1, 400);
                if let Some(ways) = self.ways.get_mut(victim) {
                    ways.to_client.delay = delay;
                    ways.to_engine.delay = delay;
                }
                self.schedule(until, Event::RestoreSpeed(victim));
            }
            Fault::Refuse => self.engine.refuses_until = until,
            Fault::EnginePause => self.engine.paused_until = self.engine.paused_until.max(until),
            Fault::EngineKill => {
                let again = now.saturating_add(pause / 3);
                self.kill_engine();
                self.engine.restart_at = Some(again);
                self.schedule(again, Event::Restart);
            }
            Fault::ClientPause => {
                if let Some(host) = self.programs.get_mut(victim) {
                    host.paused_until = host.paused_until.max(until);
                }
            }
            Fault::ClientKill => {
                self.kill_client(victim);
                let again = now.saturating_add(pause / 3);
                self.schedule(again, Event::StartProgram(victim));
            }
            Fault::SlowReader => {
                if let Some(host) = self.programs.get_mut(victim) {
                    host.slow_until = host.slow_until.max(until);
                    host.take_at = None;
                }
                self.schedule(until, Event::Take(victim));
            }
            Fault::ClockStep => {
                let step = STEPS.get(self.rng.index(STEPS.len())).copied().unwrap_or(0);
                let machine = self.rng.index(self.offsets.len());
                if let Some(offset) = self.offsets.get_mut(machine) {
                    *offset += step;
                }
            }
        }
    }

    /// Cuts a program's connection at a random byte in flight.
    fn cut(&mut self, victim: usize) {
        let now = self.now;
        let end = match self.rng.chance(0.5) {
            true => End::Fin,
            false => End::Reset,
        };
        let Some(link) = self.programs.get(victim).and_then(|host| host.link) else {
            return;
        };
        let Some(pipes) = self.links.get_mut(&link) else {
            return;
        };
        let kept = self.rng.index(pipes.to_client.bytes() + 1);
        pipes.to_client.cut(now, kept, end);
        let kept = self.rng.index(pipes.to_engine.bytes() + 1);
        pipes.to_engine.cut(now, kept, end);
        self.expect_arrivals(link);
    }

    /// Kills the engine's process. Each connection ends after a random byte in flight.
    fn kill_engine(&mut self) {
        let now = self.now;
        self.count_marks();
        if self.engine.running.take().is_none() {
            return;
        }
        let links: Vec<u32> = self.links.keys().copied().collect();
        for link in links {
            let end = match self.rng.chance(0.5) {
                true => End::Fin,
                false => End::Reset,
            };
            if let Some(pipes) = self.links.get_mut(&link) {
                pipes.engine_is_gone = true;
                let kept = self.rng.index(pipes.to_client.bytes() + 1);
                pipes.to_client.cut(now, kept, end);
            }
            self.expect_arrivals(link);
        }
    }

    /// Kills a client's process.
    fn kill_client(&mut self, victim: usize) {
        let now = self.now;
        self.count_repairs_of(victim);
        let Some(host) = self.programs.get_mut(victim) else {
            return;
        };
        host.current_dial = None;
        host.paused_until = now;
        let (program, link) = (host.running.take(), host.link.take());
        if let Some(program) = program {
            self.checker.forget_writer(program.writer);
        }
        let end = match self.rng.chance(0.5) {
            true => End::Fin,
            false => End::Reset,
        };
        if let Some(link) = link {
            if let Some(pipes) = self.links.get_mut(&link) {
                pipes.client_is_gone = true;
                let kept = self.rng.index(pipes.to_engine.bytes() + 1);
                pipes.to_engine.cut(now, kept, end);
            }
            self.expect_arrivals(link);
        }
    }

    /// Ends all faults at once.
    pub(crate) fn heal(&mut self) {
        let now = self.now;
        self.trace.log(now, || "heal".to_owned());
        self.faults_enabled = false;
        // The planted loss of records is a fault too, so end it here.
        #[cfg(feature = "planted")]
        if self.plan.repairs == Repairs::Records {
            trunkline_types::planted::plant(None);
        }
        for victim in 0..self.programs.len() {
            self.restore_speed(victim);
            if let Some(ways) = self.ways.get_mut(victim) {
                ways.to_client.silent_until = now;
                ways.to_engine.silent_until = now;
            }
            if let Some(host) = self.programs.get_mut(victim) {
                host.paused_until = now;
                host.slow_until = now;
                host.take_at = None;
                host.takes_all = self.plan.cycles == 0;
                if host.running.is_none() {
                    self.schedule(now, Event::StartProgram(victim));
                }
            }
            self.await_dial(victim);
            self.schedule(now, Event::Take(victim));
            self.wake_program(victim, now);
        }
        self.engine.paused_until = now;
        self.engine.refuses_until = now;
        if self.engine.running.is_none() {
            self.engine.restart_at = Some(now);
            self.schedule(now, Event::Restart);
        }
        let links: Vec<u32> = self.links.keys().copied().collect();
        for link in links {
            if let Some(pipes) = self.links.get_mut(&link) {
                let latest = now.saturating_add(self.plan.way.delay);
                pipes.to_client.deliver_by(latest);
                pipes.to_engine.deliver_by(latest);
            }
            self.expect_arrivals(link);
            self.wake_session(link, now);
        }
        self.schedule(now, Event::Housekeeping);
    }

    /// Restores the speed of a machine's connections.
    pub(crate) fn restore_speed(&mut self, victim: usize) {
        let way = self.plan.way;
        if let Some(ways) = self.ways.get_mut(victim) {
            for direction in [&mut ways.to_client, &mut ways.to_engine] {
                (direction.delay, direction.rate) = (way.delay, way.rate);
            }
        }
    }

    /// Returns true while the engine's process runs and is not paused.
    pub(crate) fn engine_runs(&self) -> bool {
        self.engine.running.is_some() && self.engine.paused_until <= self.now
    }
}
