//! W1: the grid, beside raw and beside the publication.

use super::medians::{Repeats, ratio};
use super::peers::Beside;
use super::svg::{Chart, Line};
use super::{Plot, Section, cells, figure, published};
use crate::cells::{NEAR_WAYS, RAW, TRUNKLINE, TRUNKLINE_ALL};
use crate::record::Run;
use crate::w1::{AT_ONCE, Kind, PERIODS_MS, SCENARIO, TYPES, VARIABLES};

const HEAD: &str = "\
| variables | T ms | ticks | raw mean us | mean us | ratio | median us | p99 us | raw p99 us | variance us2 \
| never notified % | switches per wait, raw / ours | published ms | published never % |
|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|
";

pub(super) fn section(run: &Run) -> Section {
    let mut text = String::from(
        "\n## W1: write to notification\n\n\
         Every T ms a client that is subscribed (`latest`) writes a new value to all its variables on an \
         engine in another process, in one call. Per value: from that call to its notification. Raw: \
         the same values packed into one `write`, echoed in one. Ticks are those of all repeats.\n",
    );
    for kind in TYPES {
        text.push_str(&format!("\n### {}\n\n{HEAD}", kind.name()));
        for (column, variables) in VARIABLES.into_iter().enumerate() {
            for (line, period) in PERIODS_MS.into_iter().enumerate() {
                text.push_str(&table_row(run, kind, (column, variables), (line, period)));
            }
        }
    }
    text.push_str(&ways(run));
    text.push_str(&overwritten(run));
    text.push_str(
        "\n### Beside other systems\n\ni32, every 10 ms, mean from write to notification. ",
    );
    text.push_str(
        "The server of Redis, mosquitto and NATS is the far end; the others have a process that \
         gives back what it is sent, EPICS and OPC UA a server of variables. Cyclone DDS sends \
         doubles.\n\n",
    );
    text.push_str(&beside(run).table());
    let charts = vec![
        Plot::of_lines("w1-variables.svg", &by_variables(run)),
        Plot::of_lines("w1-periods.svg", &by_periods(run)),
        beside(run).plot(
            "w1-systems.svg",
            "W1: mean from write to notification, i32, every 10 ms",
        ),
    ];
    Section { text, charts }
}

/// One variable by every way to an engine.
fn ways(run: &Run) -> String {
    let mut text = String::from(
        "\n### One variable, every way\n\n\
         i32, every 10 ms. `spinning`: both ends look before they sleep, which pays while updates follow \
         each other; `shm`: the same through shared memory.\n\n\
         | system | mean us | median us | p99 us | ratio of means |\n|---|---:|---:|---:|---:|\n",
    );
    let raw = find(run, RAW, Kind::I32, 1, 10).figure("mean_us");
    for system in [RAW, TRUNKLINE].into_iter().chain(NEAR_WAYS) {
        let repeats = find(run, system, Kind::I32, 1, 10);
        let mean = repeats.figure("mean_us");
        text.push_str(&cells(&[
            format!("{system}{}", super::mark(&repeats)),
            figure(mean),
            figure(repeats.figure("median_us")),
            figure(repeats.figure("p99_us")),
            figure(ratio(mean, raw)),
        ]));
    }
    text
}

fn beside(run: &Run) -> Beside<'_> {
    let column = |variables: usize| {
        let case = format!("n={variables} t=10 type=i32");
        (super::peers::counted(variables, "variable"), case)
    };
    Beside {
        run,
        scenario: SCENARIO,
        ours: &[(RAW, "raw TCP"), (TRUNKLINE, "Trunkline")],
        columns: [1, 100, 500].map(column).to_vec(),
        figure: "mean_us",
        unit: "us",
        divisor: 1.0,
    }
}

/// What the two policies do with values that come faster than they are taken.
fn overwritten(run: &Run) -> String {
    let mut text = String::from(
        "\n### What is never notified\n\n\
         A reading says in band how many updates before it were lost, and why. *Never notified* is \
         counted by the program that writes and is subscribed, *told* is the sum of what its readings \
         said. At once: 100 ticks follow each other without a pause, and nothing is taken before the \
         last. Published: LabMap, 100 variables, every 10 ms, i32.\n\n\
         | variables | T ms | contract | mean us | never notified % | never notified | told |\n\
         |---:|---:|---|---:|---:|---:|---:|\n",
    );
    let cases = VARIABLES
        .into_iter()
        .flat_map(|variables| PERIODS_MS.map(|period| (variables, period)));
    for (variables, period) in cases.chain([(100, AT_ONCE)]) {
        for (system, contract) in [(TRUNKLINE, "`latest`"), (TRUNKLINE_ALL, "`all`")] {
            let repeats = find(run, system, Kind::I32, variables, period);
            text.push_str(&cells(&[
                variables.to_string(),
                match period {
                    AT_ONCE => "at once".to_owned(),
                    _ => period.to_string(),
                },
                contract.to_owned(),
                figure(repeats.figure("mean_us")),
                figure(repeats.figure("never_notified_percent")),
                figure(repeats.total("never_notified")),
                figure(repeats.total("told_lost")),
            ]));
        }
    }
    let (mean, never) = published::round_trip(Kind::I32, 0, 3);
    text.push_str(&format!(
        "| 100 | 10 | LabMap, published | {} | {never} | - | not told |\n",
        figure(Some(mean * 1e3))
    ));
    text
}

fn find<'a>(run: &'a Run, system: &str, kind: Kind, variables: usize, period: u64) -> Repeats<'a> {
    let case = format!("n={variables} t={period} type={}", kind.name());
    Repeats::find(run, SCENARIO, system, &case)
}

fn table_row(
    run: &Run,
    kind: Kind,
    (column, variables): (usize, usize),
    (line, period): (usize, u64),
) -> String {
    let raw = find(run, RAW, kind, variables, period);
    let ours = find(run, TRUNKLINE, kind, variables, period);
    let (published_ms, published_never) = published::round_trip(kind, line, column);
    let mean = ours.figure("mean_us");
    cells(&[
        variables.to_string(),
        period.to_string(),
        figure(ours.total("ticks")),
        figure(raw.figure("mean_us")),
        figure(mean),
        figure(ratio(mean, raw.figure("mean_us"))),
        figure(ours.figure("median_us")),
        figure(ours.figure("p99_us")),
        figure(raw.figure("p99_us")),
        figure(ours.figure("variance_us2")),
        figure(ours.figure("never_notified_percent")),
        format!("{} / {}", slept(&raw), slept(&ours)),
        published_ms.to_string(),
        published_never.to_string(),
    ])
}

/// Of the client; one of its two waits per tick is for the next tick.
fn slept(repeats: &Repeats<'_>) -> String {
    let switches = figure(repeats.figure("near_switches_per_wait"));
    format!("{switches}{}", super::mark(repeats))
}

fn by_variables(run: &Run) -> Chart {
    let measured = |system| {
        let mean = |variables| {
            let mean = find(run, system, Kind::I32, variables, 10).figure("mean_us");
            Some((variables as f64, mean?))
        };
        VARIABLES.into_iter().filter_map(mean).collect()
    };
    let then = VARIABLES
        .into_iter()
        .enumerate()
        .map(|(column, variables)| {
            (
                variables as f64,
                published::round_trip(Kind::I32, 0, column).0 * 1e3,
            )
        });
    Chart {
        title: "W1: mean from write to notification, i32, every 10 ms".to_owned(),
        x_label: "variables".to_owned(),
        y_label: "us".to_owned(),
        lines: vec![
            Line {
                name: "Trunkline".to_owned(),
                points: measured(TRUNKLINE),
                dashed: false,
            },
            Line {
                name: "raw TCP".to_owned(),
                points: measured(RAW),
                dashed: false,
            },
            Line {
                name: "LabMap, published".to_owned(),
                points: then.collect(),
                dashed: true,
            },
        ],
    }
}

fn by_periods(run: &Run) -> Chart {
    let mut lines = Vec::new();
    for (system, name, dashed) in [(TRUNKLINE, "Trunkline", false), (RAW, "raw TCP", true)] {
        for variables in [1, 500] {
            let mean = |period| {
                let mean = find(run, system, Kind::I32, variables, period).figure("mean_us");
                Some((period as f64, mean?))
            };
            let points = PERIODS_MS.into_iter().filter_map(mean).collect();
            lines.push(Line {
                name: format!("{name}, {variables} variables"),
                points,
                dashed,
            });
        }
    }
    Chart {
        title: "W1: no cliff at low rates, i32".to_owned(),
        x_label: "period in ms".to_owned(),
        y_label: "us".to_owned(),
        lines,
    }
}
