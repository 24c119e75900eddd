//! The published methods of measuring streams, in a few milliseconds each: the parameters are
//! varied, every figure exists, and nothing is wrong. Speed is measured by `bench/run`.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::process::Command;

use trunkline_bench::cells::RAW;
use trunkline_bench::record::Row;
use trunkline_bench::streams::{COPIED, LATENCY, PACED, SWEEP, paced, sweep};

/// The rows of a cell, each of which counts.
fn rows(scenario: &str, system: &str, settings: &[&str]) -> Vec<Row> {
    let output = Command::new(env!("CARGO_BIN_EXE_trunkline-bench"))
        .args(["cell", scenario, system])
        .args(settings)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{system}: {said}");
    let out = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<Row> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(!rows.is_empty());
    for row in &rows {
        assert_eq!(
            (row.scenario.as_str(), row.system.as_str()),
            (scenario, system)
        );
        assert!(row.invalid.is_empty(), "{row:?}");
    }
    rows
}

fn figure(row: &Row, name: &str) -> f64 {
    let found = row.figures.get(name).copied();
    let found = found.filter(|figure| figure.is_finite() && *figure >= 0.0);
    found.unwrap_or_else(|| panic!("no {name}: {row:?}"))
}

/// The round trip of one element, flushed each time, and that of the connection without a stream;
/// the latency is half of each.
///
/// Behaviour: NS-86.
#[test]
fn latency_is_half_a_round_trip_and_is_compared_with_raw() {
    for system in [RAW, COPIED] {
        let rows = rows(LATENCY, system, &["count=50", "spin=0"]);
        let [row] = &rows[..] else {
            panic!("{rows:?}");
        };
        assert_eq!(row.case, "waiting=sleeping");
        let [median, p99, p999] = ["median_us", "p99_us", "p999_us"].map(|name| figure(row, name));
        assert!(figure(row, "one_way_us") > 0.0 && median > 0.0, "{row:?}");
        assert!(median <= p99 && p99 <= p999, "{row:?}");
    }
}

/// Buffers of every size with calls of a tenth of them, then every call with the buffer that was
/// best, counted at the reader.
///
/// Behaviour: NS-87, NS-82.
#[test]
fn throughput_is_swept_by_buffer_and_then_by_call_with_the_best_of_them() {
    let rows = rows(SWEEP, COPIED, &["warm_ms=1", "ms=10"]);
    let (by_buffer, by_call) = rows.split_at(sweep::BUFFERS.len());
    let mut best = (0.0, 0.0);
    for (row, buffer) in by_buffer.iter().zip(sweep::BUFFERS) {
        assert_eq!(row.case, sweep::by_buffer(buffer));
        assert_eq!(figure(row, "buffer"), buffer as f64);
        let rate = figure(row, "elements_per_s");
        assert!(rate > 0.0, "{row:?}");
        if rate > best.0 {
            best = (rate, figure(row, "buffer"));
        }
    }
    let fits = |call: &usize| *call as f64 <= best.1;
    let calls: Vec<usize> = sweep::CALLS.into_iter().filter(fits).collect();
    let cases: Vec<&str> = by_call.iter().map(|row| row.case.as_str()).collect();
    let expected: Vec<String> = calls.into_iter().map(sweep::by_call).collect();
    assert_eq!(cases, expected);
    for row in by_call {
        assert_eq!(figure(row, "buffer"), best.1);
        assert!(figure(row, "elements_per_s") > 0.0, "{row:?}");
        assert!(figure(row, "cpu_s_per_gb") > 0.0, "{row:?}");
    }
}

/// A writer keeps a rate, which is raised until a core is saturated or the rate is missed.
///
/// Behaviour: NS-88.
#[test]
fn rate_is_raised_until_a_core_or_the_stream_saturates() {
    for (system, call) in [(RAW, paced::SMALL), (COPIED, paced::CALLS[1])] {
        let rows = rows(PACED, system, &[&format!("call={call}"), "ms=30"]);
        assert!(rows.len() <= paced::RATES.len());
        let mut limits = 0;
        for (row, rate) in rows.iter().zip(paced::RATES) {
            assert_eq!(row.case, paced::case(call, rate));
            let [writer, reader, busiest] = ["writer_percent", "reader_percent", "busiest_percent"]
                .map(|name| figure(row, name));
            assert!(busiest > 0.0, "{row:?}");
            let is_kept = figure(row, "elements_per_s") >= 0.95 * rate;
            limits += usize::from(writer.max(reader) > 90.0 || !is_kept);
            assert!(
                limits == 0 || row.case == rows[rows.len() - 1].case,
                "{rows:?}"
            );
        }
        assert!(limits == 1 || rows.len() == paced::RATES.len(), "{rows:?}");
    }
}
