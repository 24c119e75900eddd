//! W7: one process: a value between its threads, and FIFOs.

use super::bars::Bar;
use super::medians::{Repeats, ratio};
use super::svg::Bars;
use super::{Plot, Section, cells, figure};
use crate::record::Run;
use crate::w7::{CAPACITY, PAYLOADS, SCENARIO};

const OPERATIONS: [&str; 3] = ["read", "write", "write-read"];

/// Who holds one value, and what they are.
const HOLDERS: [(&str, &str); 10] = [
    ("atomic", "atomic"),
    ("mutex", "mutex (`std`)"),
    ("seqlock", "bare seqlock, writers lock"),
    ("seqlock-one-writer", "bare seqlock, one writer"),
    ("last-value", "`LastValue`, one writer"),
    ("last-value-4", "`LastValue` of 4 words, one writer"),
    ("rt-cell", "`RtCell`"),
    ("typed-cell", "`TypedCell`"),
    ("rt-variable", "variable, real-time ends"),
    ("variable", "variable, handle"),
];

/// The FIFOs, and what they are.
const FIFOS: [(&str, &str); 9] = [
    ("rtrb", "`rtrb`"),
    ("rtrb-chunks", "`rtrb`, slices of doubles"),
    ("array-queue", "crossbeam `ArrayQueue`"),
    ("channel", "crossbeam channel"),
    ("spsc-ring", "`SpscRing`"),
    ("spsc-slices", "`SpscRing`, slices of doubles"),
    ("typed-fifo", "`TypedFifo`"),
    ("fifo", "`Fifo`"),
    ("rt-variable", "variable, real-time ends"),
];

pub(super) fn section(run: &Run) -> Section {
    let mut text = String::from(
        "\n## W7: within one process\n\n\
         All systems of a column take turns, round by round, in one process.\n\n\
         ### T1: one value\n\n\
         ns per call, one thread, caches warm. *Write-read* writes, reads, and compares, in the same \
         iteration. With a stamp, value and timestamp travel together; the stamp is given, except to the \
         variable's handle, which reads the engine's two clocks for it. *Handle*: the whole write path \
         with its checks and its lock, and the whole sample with quality, timestamps and position; its \
         cell has 4 words. *Real-time ends*: writer and reader of a single-process variable with a FIFO \
         of one element. Ratios in brackets: to the bare seqlock of that size whose writers lock, to the \
         other one where there is one writer.\n\n\
         | system | read | write | write-read | read, stamp | write, stamp | write-read, stamp |\n\
         |---|---:|---:|---:|---:|---:|---:|\n",
    );
    for (system, name) in HOLDERS {
        let mut row = vec![name.to_owned()];
        for stamped in [false, true] {
            for operation in OPERATIONS {
                let cost = value_ns(run, system, operation, stamped);
                let limit =
                    yardstick(system).and_then(|limit| value_ns(run, limit, operation, stamped));
                row.push(match ratio(cost, limit) {
                    Some(ratio) => format!("{} ({ratio:.1})", figure(cost)),
                    None => figure(cost),
                });
            }
        }
        text.push_str(&cells(&row));
    }
    text.push_str(&format!(
        "\nReading a clock: UTC {} ns, monotonic {} ns.\n",
        figure(clock_ns(run, "wall-clock")),
        figure(clock_ns(run, "monotonic-clock"))
    ));
    text.push_str(&format!(
        "\n### T2: FIFO of {CAPACITY} elements\n\n\
         One producing and one consuming thread, each on a CPU of its own, both spinning when they have \
         to wait. Every element is there, once, in order; none was dropped. M elements/s, and to the \
         better form of `rtrb` at that payload. *Slices of doubles*: a ring of {CAPACITY} elements' \
         doubles, an element per call. The variable is a single-process one; its FIFO would discard its \
         oldest element when full, so its producer waits for the consumer's count.\n\n\
         | system | {} |\n|---|{}\n",
        PAYLOADS
            .map(|n| format!("{} | x rtrb", doubles(n)))
            .join(" | "),
        "---:|---:|".repeat(PAYLOADS.len())
    ));
    for (system, name) in FIFOS {
        let mut row = vec![name.to_owned()];
        for payload in PAYLOADS {
            let rate = fifo_rate(run, system, payload);
            row.push(figure(rate));
            row.push(figure(ratio(rate, best_of_rtrb(run, payload))));
        }
        text.push_str(&cells(&row));
    }
    Section {
        text,
        charts: vec![Plot::of_bars("w7-fifo.svg", &fifos(run))],
    }
}

/// V7, against what was measured in the same rounds.
pub(super) fn bars(run: &Run) -> Vec<Bar> {
    let mut bars = Vec::new();
    for (system, name) in [("rt-cell", "RtCell"), ("typed-cell", "TypedCell")] {
        for (stamped, words) in [(false, "1 word"), (true, "2 words")] {
            for (operation, limit) in [("read", 1.2), ("write", 1.5)] {
                let cost = |system| value_ns(run, system, operation, stamped);
                bars.push(Bar::at_most(
                    "V7",
                    &format!("W7, {name} of {words}, {operation}: to a bare seqlock"),
                    limit,
                    ratio(cost(system), cost("seqlock")),
                ));
            }
        }
    }
    let two_writes = value_ns(run, "mutex", "write", false).map(|mutex| 2.0 * mutex);
    let clocks = clock_ns(run, "wall-clock").map(|clock| 1.3 * clock);
    let with_clocks = two_writes
        .zip(clocks)
        .map(|(writes, clocks)| writes + clocks);
    for (system, name, cell, of) in [
        ("rt-variable", "real-time ends", "rt-cell", "RtCell"),
        ("variable", "handle", "last-value-4", "LastValue of 4 words"),
    ] {
        let cost = |operation, stamped| value_ns(run, system, operation, stamped);
        bars.push(Bar::at_most(
            "V7",
            &format!("W7, variable ({name}), read with timestamp: to its cell ({of})"),
            1.5,
            ratio(cost("read", true), value_ns(run, cell, "read", true)),
        ));
        bars.push(Bar::at_most(
            "V7",
            &format!("W7, variable ({name}), write without timestamp: to a mutex"),
            2.0,
            ratio(cost("write", false), two_writes.map(|writes| writes / 2.0)),
        ));
        bars.push(Bar::at_most(
            "V7",
            &format!(
                "W7, variable ({name}), write with timestamp: to 2 mutex writes + 1.3 clock reads"
            ),
            1.0,
            ratio(cost("write", true), with_clocks),
        ));
    }
    for (systems, name) in [
        (&["spsc-ring", "spsc-slices"][..], "SpscRing"),
        (&["rt-variable"], "FIFO of a variable"),
    ] {
        for payload in PAYLOADS {
            let rates = systems
                .iter()
                .filter_map(|system| fifo_rate(run, system, payload));
            bars.push(Bar::at_least(
                "V7",
                &format!("W7, {name}, {}: x rtrb", doubles(payload)),
                0.8,
                ratio(rates.reduce(f64::max), best_of_rtrb(run, payload)),
            ));
        }
    }
    bars
}

/// The seqlock that does what a system does; none has 4 words.
fn yardstick(system: &str) -> Option<&'static str> {
    match system {
        "last-value-4" => None,
        "seqlock-one-writer" | "last-value" => Some("seqlock-one-writer"),
        _ => Some("seqlock"),
    }
}

pub(super) fn value_ns(run: &Run, system: &str, operation: &str, stamped: bool) -> Option<f64> {
    let stamp = if stamped { "yes" } else { "no" };
    let case = format!("op={operation} stamp={stamp}");
    Repeats::find(run, SCENARIO, system, &case).figure("ns")
}

fn clock_ns(run: &Run, clock: &str) -> Option<f64> {
    Repeats::find(run, SCENARIO, clock, "op=clock").figure("ns")
}

/// Millions of elements per second.
pub(super) fn fifo_rate(run: &Run, system: &str, payload: usize) -> Option<f64> {
    let case = format!("op=fifo doubles={payload}");
    Some(1e3 / Repeats::find(run, SCENARIO, system, &case).figure("ns")?)
}

fn doubles(payload: usize) -> String {
    match payload {
        1 => "1 double".to_owned(),
        more => format!("{more} doubles"),
    }
}

fn best_of_rtrb(run: &Run, payload: usize) -> Option<f64> {
    let rates = ["rtrb", "rtrb-chunks"].into_iter();
    rates
        .filter_map(|system| fifo_rate(run, system, payload))
        .reduce(f64::max)
}

fn fifos(run: &Run) -> Bars {
    let shown = ["spsc-ring", "rt-variable", "rtrb", "array-queue", "channel"];
    let series = |system: &str| {
        let rates = PAYLOADS.map(|payload| fifo_rate(run, system, payload));
        (system.to_owned(), rates.to_vec())
    };
    Bars {
        title: format!("W7: FIFO of {CAPACITY} elements, one producer, one consumer"),
        y_label: "M elements/s".to_owned(),
        groups: PAYLOADS.map(doubles).to_vec(),
        series: shown.map(series).to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::record::Row;

    fn run(figures: &[(&str, &str, f64)]) -> Run {
        let row = |(system, case, ns): &(&str, &str, f64)| {
            let mut row = Row::new(SCENARIO, system, (*case).to_owned(), "one thread");
            row.figure("ns", *ns);
            row
        };
        Run {
            machine: Machine::here("quick").unwrap(),
            rows: figures.iter().map(row).collect(),
        }
    }

    #[test]
    fn costs_stand_beside_the_seqlock_that_does_the_same() {
        let run = run(&[
            ("seqlock", "op=write stamp=no", 8.0),
            ("seqlock-one-writer", "op=write stamp=no", 1.0),
            ("last-value", "op=write stamp=no", 2.0),
            ("rt-cell", "op=write stamp=no", 12.0),
        ]);
        let text = section(&run).text;
        assert!(
            text.contains("| `LastValue`, one writer | - | 2.00 (2.0) |"),
            "{text}"
        );
        assert!(text.contains("| `RtCell` | - | 12.0 (1.5) |"), "{text}");
    }

    #[test]
    fn bars_are_against_what_the_design_names() {
        let run = run(&[
            ("mutex", "op=write stamp=no", 10.0),
            ("wall-clock", "op=clock", 20.0),
            ("variable", "op=write stamp=no", 30.0),
            ("variable", "op=write stamp=yes", 23.0),
            ("rtrb", "op=fifo doubles=128", 100.0),
            ("rtrb-chunks", "op=fifo doubles=128", 50.0),
            ("spsc-ring", "op=fifo doubles=128", 100.0),
            ("rt-variable", "op=fifo doubles=128", 500.0),
        ]);
        let bars = bars(&run);
        let measured = |what: &str| {
            let bar = bars.iter().find(|bar| bar.what().contains(what));
            bar.unwrap_or_else(|| panic!("{what}")).measured()
        };
        assert_eq!(measured("(handle), write without"), Some(3.0));
        assert_eq!(measured("(handle), write with timestamp"), Some(0.5));
        assert_eq!(measured("SpscRing, 128"), Some(0.5));
        assert_eq!(measured("FIFO of a variable, 128"), Some(0.1));
        assert_eq!(measured("SpscRing, 1024"), None);
    }
}
