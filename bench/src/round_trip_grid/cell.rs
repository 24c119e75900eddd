//! The loop of W1 and its figures; all systems use them.

use std::thread;
use std::time::{Duration, Instant};

use super::{Grid, Registers};
use crate::Outcome;
use crate::record::Row;
use crate::statistics::Summary;
use crate::usage::Usage;

/// Ticks before the measured ones: the first write is slower than all others.
pub const WARM_UP_TICKS: u32 = 2;
/// Longest time for the last notifications.
pub const LAST: Duration = Duration::from_millis(500);

/// Results of the ticks of one cell.
#[derive(Debug)]
pub struct Seen {
    first_tick: u32,
    /// Time at which each tick was sent, from 1.
    sent: Vec<Instant>,
    /// The last notified tick of each variable.
    last: Vec<u32>,
    /// Times from sending to notification, in microseconds.
    latencies: Vec<f64>,
    /// Notifications of a tick that is older than an earlier one, or that was never sent.
    out_of_order: u64,
    /// Variables notified of the current tick.
    current: usize,
    /// Notifications of any tick.
    notified: usize,
}

impl Seen {
    /// Creates the state before the first tick; tick numbers start above `first_tick`.
    pub fn new(grid: &Grid, first_tick: u32) -> Self {
        Self {
            first_tick,
            sent: Vec::with_capacity((WARM_UP_TICKS + grid.ticks) as usize),
            last: vec![first_tick; grid.variables],
            latencies: Vec::with_capacity(grid.variables * grid.ticks as usize),
            out_of_order: 0,
            current: 0,
            notified: 0,
        }
    }

    /// Returns the updates without a notification, including those of the first ticks.
    fn never(&self) -> usize {
        (self.sent.len() * self.last.len()).saturating_sub(self.notified)
    }

    /// Notes that the next tick is sent now.
    pub fn sending(&mut self) {
        self.current = 0;
        self.sent.push(Instant::now());
    }

    /// Returns the number of variables notified of the last tick.
    pub fn current(&self) -> usize {
        self.current
    }

    /// Notes that a variable was notified of a tick.
    pub fn note(&mut self, at: Instant, variable: usize, noticed: u32) {
        // A new subscription starts with the value from before this cell.
        if noticed <= self.first_tick {
            return;
        }
        let number = noticed - self.first_tick;
        let is_newer = self.last.get(variable).is_some_and(|last| noticed > *last);
        let Some(sent) = self.sent.get(number as usize - 1).filter(|_| is_newer) else {
            self.out_of_order += 1;
            return;
        };
        self.last[variable] = noticed;
        self.notified += 1;
        if number > WARM_UP_TICKS {
            let latency = at.saturating_duration_since(*sent);
            self.latencies.push(latency.as_secs_f64() * 1e6);
        }
        if number as usize == self.sent.len() {
            self.current += 1;
        }
    }
}

/// Runs the ticks of a cell and enters the figures. Tick numbers start above `first_tick`; no
/// variable has had such a value.
pub fn run(
    grid: &Grid,
    first_tick: u32,
    registers: &mut dyn Registers,
    far_pid: u32,
    row: &mut Row,
) -> Outcome<()> {
    let mut seen = Seen::new(grid, first_tick);
    let all_ticks = WARM_UP_TICKS + grid.ticks;
    let (mut near, mut far) = (Usage::default(), Usage::default());
    let lost_before = registers.told_lost();
    let mut next = Instant::now() + grid.period;
    for tick in 1..=all_ticks {
        registers.prepare(first_tick + tick);
        thread::sleep(next.saturating_duration_since(Instant::now()));
        next += grid.period;
        if tick == WARM_UP_TICKS + 1 {
            (near, far) = (Usage::of_self()?, Usage::of(far_pid)?);
        }
        seen.sending();
        registers.send()?;
        let deadline = if tick == all_ticks { next + LAST } else { next };
        while seen.current < grid.variables && Instant::now() < deadline {
            registers.receive(deadline, &mut |variable, noticed| {
                seen.note(Instant::now(), variable, noticed);
            })?;
        }
    }
    let (near, far) = (Usage::of_self()? - near, Usage::of(far_pid)? - far);
    enter(grid, &mut seen, row);
    enter_usage(grid, near, far, row);
    if let (Some(before), Some(lost)) = (lost_before, registers.told_lost()) {
        let (lost, never) = (lost - before, seen.never() as u64);
        row.figure("never_notified", never as f64);
        row.figure("told_lost", lost as f64);
        row.require(lost == never, || {
            format!("{never} updates were never notified, and {lost} were told to be lost")
        });
    }
    Ok(())
}

/// Enters the usage of the two ends in the measured ticks.
pub fn enter_usage(grid: &Grid, near: Usage, far: Usage, row: &mut Row) {
    let waits = f64::from(grid.ticks);
    row.figure("near_cpu_us_per_tick", near.cpu_ns as f64 / 1e3 / waits);
    row.figure("far_cpu_us_per_tick", far.cpu_ns as f64 / 1e3 / waits);
    // One wait of the near end is for the next period.
    row.slept("near", near.voluntary, 2.0 * waits);
    row.slept("far", far.voluntary, waits);
}

/// Enters the figures after all ticks have been sent.
pub fn enter(grid: &Grid, seen: &mut Seen, row: &mut Row) {
    let last_tick = seen.first_tick + seen.sent.len() as u32;
    let wanted = grid.variables * grid.ticks as usize;
    let unfinished = seen.last.iter().filter(|last| **last != last_tick).count();
    let missing = wanted.saturating_sub(seen.latencies.len());
    row.figure("ticks", f64::from(grid.ticks));
    row.figure(
        "never_notified_percent",
        100.0 * missing as f64 / wanted as f64,
    );
    row.require(seen.out_of_order == 0, || {
        format!(
            "{} notifications out of order or of another content",
            seen.out_of_order
        )
    });
    row.require(unfinished == 0, || {
        format!("{unfinished} variables never showed the last value")
    });
    if let Some(times) = Summary::of(&mut seen.latencies) {
        row.figure("mean_us", times.mean);
        row.figure("median_us", times.median);
        row.figure("p99_us", times.p99);
        row.figure("max_us", times.max);
        row.figure("variance_us2", times.variance);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::round_trip_grid::Kind;

    /// Notifies at once; forgets every `forgets`th write of variable 0.
    struct Echo {
        variables: usize,
        prepared: u32,
        waiting: Vec<(usize, u32)>,
        forgets: u32,
        tells: bool,
    }

    impl Registers for Echo {
        fn prepare(&mut self, tick: u32) {
            self.prepared = tick;
        }

        fn send(&mut self) -> Outcome<()> {
            let kept =
                |variable: &usize| *variable > 0 || !self.prepared.is_multiple_of(self.forgets);
            let notices = (0..self.variables)
                .filter(kept)
                .map(|variable| (variable, self.prepared));
            self.waiting.extend(notices);
            Ok(())
        }

        fn told_lost(&self) -> Option<u64> {
            self.tells
                .then_some(u64::from(self.prepared.saturating_sub(1000) / self.forgets))
        }

        fn receive(&mut self, _: Instant, notice: &mut dyn FnMut(usize, u32)) -> Outcome<()> {
            self.waiting
                .drain(..)
                .for_each(|(variable, tick)| notice(variable, tick));
            Ok(())
        }
    }

    fn measured(forgets: u32, tells: bool) -> Row {
        let period = Duration::from_millis(1);
        let grid = Grid {
            variables: 2,
            kind: Kind::I32,
            period,
            ticks: 10,
        };
        let mut echo = Echo {
            variables: 2,
            prepared: 0,
            waiting: vec![(0, 3)],
            forgets,
            tells,
        };
        let mut row = Row::new("round_trip_grid", "raw-tcp", String::new(), "cross");
        run(&grid, 1000, &mut echo, std::process::id(), &mut row).unwrap();
        row
    }

    #[test]
    fn every_value_is_measured() {
        let row = measured(u32::MAX, true);
        assert_eq!(row.figures["never_notified_percent"], 0.0);
        assert_eq!(row.invalid, Vec::<String>::new());
        assert!(row.figures["mean_us"] <= row.figures["max_us"]);
    }

    #[test]
    fn values_that_are_never_notified_are_counted() {
        // Ticks 1003 to 1012 are measured. One of two variables loses every fourth.
        let row = measured(4, false);
        assert_eq!(row.figures["never_notified_percent"], 15.0);
        assert!(
            row.invalid[0].contains("never showed the last value"),
            "{:?}",
            row.invalid
        );
    }

    #[test]
    fn missing_notifications_must_be_reported_as_lost() {
        // Of ticks 1001 to 1012, three are lost and reported.
        let row = measured(4, true);
        assert_eq!(
            (row.figures["never_notified"], row.figures["told_lost"]),
            (3.0, 3.0)
        );
        assert!(!row.invalid.iter().any(|reason| reason.contains("told")));
    }
}
