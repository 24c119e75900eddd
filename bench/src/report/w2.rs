//! W2: the table, beside raw and beside the publication.

use super::medians::{Repeats, ratio};
use super::peers::Beside;
use super::svg::Bars;
use super::{Plot, Section, cells, figure, published};
use crate::cells::{RAW, TRUNKLINE};
use crate::record::Run;
use crate::w2::{CALLS, MANY_CALLS, OPERATIONS, Operation, SCENARIO, SYSTEMS};

const HEAD: &str = "\
| operation | system | elapsed ms | ratio | CPU of the client ms | of the far end ms | bytes \
| packets | switches per wait, client / far end |
|---|---|---:|---:|---:|---:|---:|---:|---:|
";

pub(super) fn section(run: &Run) -> Section {
    let mut text = format!(
        "\n## W2: puts and gets\n\n\
         {CALLS} calls, over {CALLS} f64 variables in turn. Synchronous: each call is answered before the \
         next. Asynchronous: all are handed over in one call that waits once. Raw: requests of 13 bytes, \
         in one `write` where they may be. `spinning`: both ends look before they sleep; `shm`: the same \
         through shared memory, of which the loopback interface sees nothing. Bytes and packets are the loopback interface's, both \
         directions, headers and acknowledgements included. Published: sent and received together.\n\n{HEAD}"
    );
    for operation in OPERATIONS {
        text.push_str(&rows(run, operation, CALLS));
        let then = published::table_1(operation);
        text.push_str(&cells(&[
            operation.name().to_owned(),
            "Vsystem, published".to_owned(),
            figure(Some(then.elapsed_s * 1e3)),
            "-".to_owned(),
            figure(Some(then.cpu_s * 1e3)),
            "-".to_owned(),
            figure(Some(then.kilobytes * 1e3)),
            figure(Some(then.messages)),
            "-".to_owned(),
        ]));
    }
    text.push_str(&format!(
        "\n### Beside other systems\n\n{CALLS} calls, elapsed. Asynchronous: `MSET` and `MGET` of \
         Redis, one request of OPC UA, otherwise as many calls as there are, handed over before the \
         first is awaited. MQTT has no get; NATS and ZeroMQ ask a program that has the values.\n\n"
    ));
    let column = |operation: Operation| {
        let case = format!("op={} calls={CALLS}", operation.name());
        (operation.name().to_owned(), case)
    };
    let beside = Beside {
        run,
        scenario: SCENARIO,
        ours: &[(RAW, "raw TCP"), (TRUNKLINE, "Trunkline")],
        columns: OPERATIONS.map(column).to_vec(),
        figure: "elapsed_ms",
        unit: "ms",
        divisor: 1.0,
    };
    text.push_str(&beside.table());
    let has_many = OPERATIONS.iter().any(|operation| {
        find(run, TRUNKLINE, *operation, MANY_CALLS)
            .figure("calls")
            .is_some()
    });
    if has_many {
        text.push_str(&format!(
            "\n{MANY_CALLS} calls; asynchronous ones 10000 at a time:\n\n{HEAD}"
        ));
        for operation in OPERATIONS {
            text.push_str(&rows(run, operation, MANY_CALLS));
        }
    }
    Section {
        text,
        charts: vec![Plot::of_bars("w2-elapsed.svg", &elapsed(run))],
    }
}

/// The repeats of an operation.
pub(super) fn find<'a>(
    run: &'a Run,
    system: &str,
    operation: Operation,
    calls: usize,
) -> Repeats<'a> {
    Repeats::find(
        run,
        SCENARIO,
        system,
        &format!("op={} calls={calls}", operation.name()),
    )
}

fn rows(run: &Run, operation: Operation, calls: usize) -> String {
    let raw = find(run, RAW, operation, calls).figure("elapsed_ms");
    let mut text = String::new();
    for system in SYSTEMS {
        let repeats = find(run, system, operation, calls);
        let elapsed = repeats.figure("elapsed_ms");
        if elapsed.is_none() && repeats.invalid().is_empty() {
            continue;
        }
        let switches = |end: &str| figure(repeats.figure(&format!("{end}_switches_per_wait")));
        text.push_str(&cells(&[
            operation.name().to_owned(),
            system.to_owned(),
            figure(elapsed),
            figure(ratio(elapsed, raw)),
            figure(repeats.figure("near_cpu_ms")),
            figure(repeats.figure("far_cpu_ms")),
            figure(repeats.figure("loopback_bytes")),
            figure(repeats.figure("loopback_packets")),
            format!(
                "{} / {}{}",
                switches("near"),
                switches("far"),
                super::mark(&repeats)
            ),
        ]));
    }
    text
}

fn elapsed(run: &Run) -> Bars {
    let measured = |system| {
        let elapsed = |operation| find(run, system, operation, CALLS).figure("elapsed_ms");
        OPERATIONS.map(elapsed).to_vec()
    };
    let then = OPERATIONS.map(|operation| Some(published::table_1(operation).elapsed_s * 1e3));
    Bars {
        title: format!("W2: time of {CALLS} calls"),
        y_label: "ms".to_owned(),
        groups: OPERATIONS
            .map(|operation| operation.name().to_owned())
            .to_vec(),
        series: vec![
            ("Trunkline".to_owned(), measured(TRUNKLINE)),
            ("raw TCP".to_owned(), measured(RAW)),
            ("Vsystem, published".to_owned(), then.to_vec()),
        ],
    }
}
