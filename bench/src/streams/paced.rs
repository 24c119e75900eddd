//! CPU load at a rate (NS-88): the writer keeps a rate, which is raised until either end uses its whole CPU
//! CPU or the rate is no longer reached.

use std::thread;
use std::time::{Duration, Instant};

use super::drain::Tap;
use super::flow::Flow;
use super::{COPIED, PACED};
use crate::Outcome;
use crate::cells::RAW;
use crate::record::Row;
use crate::settings::Settings;
use crate::usage::{Usage, process_cpu_ns};

/// The compared systems.
pub const SYSTEMS: [&str; 2] = [RAW, COPIED];
/// Elements per call. Raw and other systems are measured with the small calls (NS-88).
pub const CALLS: [usize; 2] = [SMALL, 100_000];
/// See [`CALLS`].
pub const SMALL: usize = 10_000;
/// Requested rates in elements per second, in order.
pub const RATES: [f64; 9] = [5e6, 1e7, 2e7, 4e7, 8e7, 1.6e8, 3.2e8, 6.4e8, 1.28e9];

/// Load in percent from which a core counts as saturated.
const BUSY_PERCENT: f64 = 90.0;
/// Share of a rate below which it counts as not reached.
const KEPT_SHARE: f64 = 0.95;
/// CPU time samples per rate.
const SAMPLES: u32 = 6;

pub fn case(call: usize, rate: f64) -> String {
    format!("call={call} rate={rate}")
}

/// Measures all rates of one system.
pub fn cells(system: &str, settings: &Settings, placement: &str) -> Outcome<Vec<Row>> {
    let call: usize = settings.value("call")?;
    let settings = settings.clone().with("warm_ms", 0);
    let mut tap = Tap::open(system, &Flow::read(&settings)?, &settings)?;
    let pid = tap.far.pid();
    let mut rows = raise(system, &settings, placement, pid, || tap.write())?;
    let wrong = tap.finish()?.wrong;
    for row in &mut rows {
        row.require(wrong == 0.0, || format!("{wrong} elements were wrong"));
        row.figure("call", call as f64);
    }
    Ok(rows)
}

/// Raises the rate of a writer. `write` makes one call; `far` is the process of the reader.
pub fn raise(
    system: &str,
    settings: &Settings,
    placement: &str,
    far: u32,
    mut write: impl FnMut() -> Outcome<()>,
) -> Outcome<Vec<Row>> {
    let (call, ms) = (settings.value("call")?, settings.value("ms")?);
    let time = Duration::from_millis(ms);
    let mut rows = Vec::new();
    for rate in RATES {
        let mut row = Row::new(PACED, system, case(call, rate), placement);
        row.waiting = "mixed".to_owned();
        let cpu = || Ok((process_cpu_ns(), Usage::of(far)?.cpu_ns));
        let kept = keep(rate, call, time, cpu, &mut write)?;
        row.figure("elements_per_s", kept.rate);
        row.figure("mb_per_s", kept.rate * 8e-6);
        row.figure("writer_percent", kept.percent.0);
        row.figure("reader_percent", kept.percent.1);
        row.figure("busiest_percent", kept.busiest);
        rows.push(row);
        if kept.is_limit(rate) {
            break;
        }
    }
    Ok(rows)
}

/// The result of one rate.
#[derive(Clone, Copy, Debug)]
struct RateResult {
    rate: f64,
    /// Load of a core by the writer and by the reader, in percent.
    percent: (f64, f64),
    /// Largest sample of either load.
    busiest: f64,
}

impl RateResult {
    /// Returns true if no higher rate can be reached.
    fn is_limit(&self, requested: f64) -> bool {
        self.percent.0.max(self.percent.1) > BUSY_PERCENT || self.rate < requested * KEPT_SHARE
    }
}

/// Writes at a rate; `cpu` returns the CPU nanoseconds of writer and reader.
fn keep(
    rate: f64,
    call: usize,
    time: Duration,
    cpu: impl Fn() -> Outcome<(u64, u64)>,
    mut write: impl FnMut() -> Outcome<()>,
) -> Outcome<RateResult> {
    let (start, first) = (Instant::now(), cpu()?);
    let mut sample = (start, first);
    let (mut calls, mut busiest) = (0_u64, 0.0_f64);
    loop {
        let now = Instant::now();
        if now - sample.0 >= time / SAMPLES {
            let used = cpu()?;
            let (writer, reader) = percent(sample.1, used, now - sample.0);
            busiest = busiest.max(writer).max(reader);
            sample = (now, used);
        }
        if now - start >= time {
            break;
        }
        let due = Duration::from_secs_f64(calls as f64 * call as f64 / rate);
        if let Some(early) = due.checked_sub(now - start) {
            thread::sleep(early.min(time - (now - start)));
            continue;
        }
        write()?;
        calls += 1;
    }
    let elapsed = start.elapsed();
    Ok(RateResult {
        rate: (calls * call as u64) as f64 / elapsed.as_secs_f64(),
        percent: percent(first, cpu()?, elapsed),
        busiest,
    })
}

/// Returns the load of a core in percent.
fn percent(before: (u64, u64), after: (u64, u64), elapsed: Duration) -> (f64, f64) {
    let share = |before: u64, after: u64| {
        after.saturating_sub(before) as f64 * 100.0 / elapsed.as_nanos() as f64
    };
    (share(before.0, after.0), share(before.1, after.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_load_is_cpu_time_divided_by_elapsed_time() {
        let used = percent((1000, 0), (1500, 250), Duration::from_nanos(1000));
        assert_eq!(used, (50.0, 25.0));
    }

    #[test]
    fn saturated_core_or_missed_rate_is_the_limit() {
        let kept = |rate, writer, reader| RateResult {
            rate,
            percent: (writer, reader),
            busiest: 100.0,
        };
        assert!(!kept(99.0, 89.0, 20.0).is_limit(100.0));
        assert!(kept(99.0, 20.0, 91.0).is_limit(100.0));
        assert!(kept(94.0, 20.0, 20.0).is_limit(100.0));
    }

    #[test]
    fn a_rate_is_never_exceeded() {
        let mut calls = 0;
        let kept = keep(
            1e4,
            10,
            Duration::from_millis(20),
            || Ok((0, 0)),
            || {
                calls += 1;
                Ok(())
            },
        );
        // The first call is due at once, then one per millisecond.
        assert!((1..=21).contains(&calls), "{calls}");
        assert!(kept.unwrap().rate <= 10_500.0);
    }
}
