//! The published tests T1 to T6: what they state, and what this page has in their place.

use super::blocks::rate;
use super::medians::{Repeats, ratio};
use super::results::Results;
use super::{cells, figure, w5};
use crate::blocks::{FIFO, LENGTHS, SAMPLES, WAVEFORM};
use crate::cells::{RAW, TRUNKLINE};
use crate::w5::VARIABLES;
use crate::w7::SCENARIO as W7;
use crate::w8::{POINTS, SCENARIO as W8, TYPES};

pub(super) fn section(results: &Results) -> String {
    let mut text = String::from(
        "\n## T1 to T6\n\n\
         The published tests of shared variables state ratios and shapes rather than figures. Each is \
         redrawn by the scenario named; the figures are of that section's run.\n\n\
         | test | stated | redrawn | here |\n|---|---|---|---|\n",
    );
    for row in [
        t1(results),
        t2(results),
        t3(results),
        t4(results),
        t5(results),
        t6(results),
    ] {
        text.push_str(&cells(&row));
    }
    text
}

type Statement = [String; 4];

fn statement(test: &str, stated: &str, redrawn: &str, here: String) -> Statement {
    [test.to_owned(), stated.to_owned(), redrawn.to_owned(), here]
}

fn t1(results: &Results) -> Statement {
    let cost = |system, operation: &str| {
        let ns = super::w7::value_ns(results.of(W7), system, operation, false);
        figure(ns)
    };
    let here = format!(
        "ns, variable (real-time ends) / mutex / atomic: read {} / {} / {}, write {} / {} / {}",
        cost("rt-variable", "read"),
        cost("mutex", "read"),
        cost("atomic", "read"),
        cost("rt-variable", "write"),
        cost("mutex", "write"),
        cost("atomic", "write"),
    );
    statement(
        "T1 (PB-01)",
        "a single-process variable beside a plain global: reads slower, writes slightly",
        "W7",
        here,
    )
}

fn t2(results: &Results) -> Statement {
    let rate = |system| super::w7::fifo_rate(results.of(W7), system, 1);
    let share = ratio(rate("rt-variable"), rate("rtrb"));
    statement(
        "T2 (PB-02)",
        "a FIFO-enabled variable is \"marginally slower\" than a raw FIFO",
        "W7",
        format!("{} x `rtrb` at one double", figure(share)),
    )
}

fn t3(results: &Results) -> Statement {
    let run = results.of(FIFO);
    let shares = LENGTHS.map(|length| {
        let share = ratio(
            rate(run, FIFO, TRUNKLINE, length),
            rate(run, FIFO, RAW, length),
        );
        format!("{} at {length}", figure(share))
    });
    statement(
        "T3 (PB-03 to PB-05)",
        "throughput \"approaches TCP\" and is consistent over moderate to large payloads; nothing \
         overflows, is lost or out of order",
        "W11",
        format!("x FIFO and TCP by hand: {}", shares.join(", ")),
    )
}

fn t4(results: &Results) -> Statement {
    let each = |kind: &str, count: usize| {
        let case = format!("what=memory vars={count} type={kind}");
        Repeats::find(results.of(W8), W8, TRUNKLINE, &case).figure("bytes_per_variable")
    };
    let shown = TYPES.map(|kind| {
        let each = POINTS[..2].iter().map(|count| figure(each(kind, *count)));
        format!("{kind} {}", each.collect::<Vec<_>>().join(" / "))
    });
    statement(
        "T4 (PB-06)",
        "memory after deploying 500 and 1000 variables of six types: nearly independent of the type, \
         linear in the count",
        "W8",
        format!("bytes each at 500 / 1000: {}", shown.join(", ")),
    )
}

fn t5(results: &Results) -> Statement {
    let run = results.of(WAVEFORM);
    let ours = rate(run, WAVEFORM, TRUNKLINE, SAMPLES);
    let share = ratio(ours, rate(run, WAVEFORM, RAW, SAMPLES));
    statement(
        "T5 (PB-07)",
        "one waveform of doubles streamed: the new transport more than 600 % of the old",
        "W12",
        format!("{} MB/s, {} x raw TCP", figure(ours), figure(share)),
    )
}

fn t6(results: &Results) -> Statement {
    let megabytes = |variables| {
        let rate = w5::find(results.of("w5"), TRUNKLINE, variables).figure("updates_per_s");
        figure(rate.map(|rate| rate * 8.0 / 1e6))
    };
    let shown = VARIABLES.map(|variables| format!("{} at {variables}", megabytes(variables)));
    statement(
        "T6 (PB-08)",
        "1 to 1000 double variables: total throughput far below T5, because of a fixed cost per variable",
        "W5",
        format!("MB/s of values, one per call: {}", shown.join(", ")),
    )
}
