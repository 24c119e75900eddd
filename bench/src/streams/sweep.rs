//! Throughput by the published method (NS-87): first the buffer size varies, with calls of a tenth
//! of it; then the call size varies, with the best buffer.

use std::time::Duration;

use super::flow::Flow;
use super::{COPIED, IN_PLACE, SWEEP, throughput};
use crate::Outcome;
use crate::cells::RAW;
use crate::record::Row;
use crate::settings::Settings;

/// The compared systems. Raw has only the buffer of the system: its call size alone varies.
pub const SYSTEMS: [&str; 3] = [RAW, COPIED, IN_PLACE];
/// Buffer sizes in elements.
pub const BUFFERS: [usize; 5] = [1000, 10_000, 100_000, 1_000_000, 10_000_000];
/// Call sizes in elements, for the best buffer. Sizes above the buffer size are left out.
pub const CALLS: [usize; 6] = [1, 10, 100, 1000, 10_000, 100_000];

pub fn by_buffer(buffer: usize) -> String {
    format!("sweep=buffer buffer={buffer} call={}", buffer / 10)
}

/// Returns the case of a call with the best buffer. Which buffer was the best is a figure.
pub fn by_call(call: usize) -> String {
    format!("sweep=call call={call}")
}

/// Measures both sweeps of one system.
pub fn cells(system: &str, settings: &Settings, placement: &str) -> Outcome<Vec<Row>> {
    let (warm_ms, ms) = (settings.value("warm_ms")?, settings.value("ms")?);
    let point = |case: String, buffer: usize, call: usize| {
        let flow = Flow {
            call,
            buffer: Some(buffer),
            warm_up: Duration::from_millis(warm_ms),
            measured: Duration::from_millis(ms),
        };
        let mut row = Row::new(SWEEP, system, case, placement);
        row.waiting = "mixed".to_owned();
        throughput::measure(system, flow, &mut row)?;
        row.figure("buffer", buffer as f64);
        Ok(row)
    };
    sweep(point)
}

fn sweep(mut point: impl FnMut(String, usize, usize) -> Outcome<Row>) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    let mut best = (0.0, BUFFERS[0]);
    for buffer in BUFFERS {
        let row = point(by_buffer(buffer), buffer, buffer / 10)?;
        let rate = row.figures.get("elements_per_s").copied().unwrap_or(0.0);
        if rate > best.0 {
            best = (rate, buffer);
        }
        rows.push(row);
    }
    for call in CALLS.into_iter().filter(|call| *call <= best.1) {
        rows.push(point(by_call(call), best.1, call)?);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_varied_with_the_best_buffer() {
        let rows = sweep(|case, buffer, call| {
            let mut row = Row::new(SWEEP, RAW, case, "cross");
            // The best size is in the middle, the worst is the largest.
            let rate = if buffer == 10_000 { 9.0 } else { 1.0 };
            row.figure("elements_per_s", rate);
            row.figure("buffer", buffer as f64);
            row.figure("call", call as f64);
            Ok(row)
        });
        let rows = rows.unwrap();
        let calls = &rows[BUFFERS.len()..];
        assert!(calls.iter().all(|row| row.figures["buffer"] == 10_000.0));
        let cases: Vec<&str> = calls.iter().map(|row| row.case.as_str()).collect();
        assert_eq!(cases.len(), 5, "a call of 100,000 does not fit: {cases:?}");
        assert_eq!(cases[4], "sweep=call call=10000");
        assert_eq!(rows[1].case, "sweep=buffer buffer=10000 call=1000");
    }
}
