//! W8: memory of variables and items, first full sets, restarts.

use super::bars::Bar;
use super::medians::{Repeats, ratio};
use super::svg::{Chart, Line};
use super::{Plot, Section, cells, figure};
use crate::cells::{RAW, TRUNKLINE};
use crate::record::Run;
use crate::w8::memory::MAP;
use crate::w8::{CONNECTED, NAME_BYTES, POINTS, RESTARTED, SCENARIO, TYPES};

/// How far the larger points may lie from the fitted line and still count as on it, in percent.
const LINEAR_PERCENT: f64 = 10.0;

pub(super) fn section(run: &Run) -> Section {
    let mut text = format!(
        "\n## W8: what variables cost\n\n\
         ### Memory of each variable\n\n\
         An engine in a fresh process for every row deploys variables with names of {NAME_BYTES} bytes, \
         without a subscriber, and each is written once: resident bytes added, divided by their number. \
         The definitions handed in, and what the first variable of a process needs, do not count; memory \
         that deploying took for a moment and the allocator has kept does. *Hash map*: the least that finds \
         a value, two timestamps and a quality by name, in memory measured alike.\n\n\
         | type | variables | bytes each | deployed only | hash map | ratio | added MiB | deploy ms |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|\n"
    );
    for variables in POINTS {
        text.push_str(&memory_row(run, TYPES[0], variables));
    }
    for kind in &TYPES[1..] {
        for variables in &POINTS[..2] {
            text.push_str(&memory_row(run, kind, *variables));
        }
    }
    text.push_str(&fit_sentence(run));
    text.push_str(
        "\n### Memory of each subscribed item\n\n\
         Resident bytes added by a `latest` subscription to all variables, divided by their number, when its \
         first full set has been taken. *Engine alone*: a subscriber in its process, which is the item with \
         its counters. The others are over TCP: what a connection keeps of each variable it has opened is \
         part of the engine's, and what the program's client keeps is the client's. The *first* subscriber \
         of a variable also pays for what all subscribers of it share.\n\n\
         | items | engine alone, first | further | engine over TCP, first | further | client, first | further |\n\
         |---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for items in CONNECTED {
        let alone = find(run, TRUNKLINE, "items-in-process", items);
        let remote = find(run, TRUNKLINE, "items", items);
        text.push_str(&cells(&[
            items.to_string(),
            figure(alone.figure("first_bytes_per_item")),
            figure(alone.figure("further_bytes_per_item")),
            figure(remote.figure("first_bytes_per_item")),
            figure(remote.figure("further_bytes_per_item")),
            figure(remote.figure("first_client_bytes_per_item")),
            figure(remote.figure("further_client_bytes_per_item")),
        ]));
    }
    text.push_str(
        "\n### From nothing to a first full set\n\n\
         A client connects, subscribes `latest` to all variables by name in one call, and has a reading of \
         each, all of which are checked. Raw: connects, sends the names, gets a record of 24 bytes for \
         each. CPU is that of the whole process.\n\n\
         | variables | system | ms | x raw | near CPU ms | far CPU ms |\n\
         |---:|---|---:|---:|---:|---:|\n",
    );
    let rows = |text: &mut String, variables| {
        let raw = connect_ms(run, RAW, variables);
        let systems = [RAW, TRUNKLINE].map(|system| (system, system));
        let others = super::peers::measured(run, SCENARIO);
        for (system, name) in systems.into_iter().chain(others) {
            let repeats = find(run, system, "connect", variables);
            let elapsed = connect_ms(run, system, variables);
            text.push_str(&cells(&[
                variables.to_string(),
                name.to_owned(),
                figure(elapsed),
                figure(ratio(elapsed, raw)),
                figure(repeats.figure("near_cpu_ms")),
                figure(repeats.figure("far_cpu_ms")),
            ]));
        }
    };
    for variables in CONNECTED {
        rows(&mut text, variables);
    }
    text.push_str(
        "\nOthers: Redis subscribes by name and reads with `MGET`; mosquitto has retained messages; \
         Zenoh declares a subscriber each and asks once for all values; ZeroMQ answers each subscription \
         with the last value; open62541 and the EPICS clients monitor each variable. NATS' core keeps no \
         last value.\n",
    );
    text.push_str(&restart(run));
    Section {
        text,
        charts: vec![Plot::of_lines("w8-memory.svg", &curve(run))],
    }
}

fn restart(run: &Run) -> String {
    let mut text = String::from(
        "\n### Restart\n\n\
         An engine starts with a library and its retained values from its store, all written before; \
         every value is compared afterwards. *Process*: from starting the process to the running engine. \
         Each start is a process of its own; the store's file is in the system's cache. *File*: what reading \
         the file once takes.\n\n\
         | variables | engine ms | process ms | file MiB | file ms | deploy and store ms | keep the values ms |\n\
         |---:|---:|---:|---:|---:|---:|---:|\n",
    );
    let repeats = find(run, TRUNKLINE, "restart", RESTARTED);
    let mut row = vec![RESTARTED.to_string()];
    for name in [
        "start_ms",
        "process_ms",
        "file_mib",
        "file_read_ms",
        "deploy_ms",
        "keep_ms",
    ] {
        row.push(figure(repeats.figure(name)));
    }
    text.push_str(&cells(&row));
    text
}

/// V8; the other system's time is not of this run.
pub(super) fn bars(run: &Run) -> Vec<Bar> {
    let mut bars = Vec::new();
    for variables in &POINTS[2..] {
        let each = memory(run, TRUNKLINE, TYPES[0], *variables).figure("bytes_per_variable");
        let what = format!("W8, {variables} f64 variables: bytes each");
        bars.push(Bar::at_most("V8", &what, 300.0, each));
    }
    bars.push(Bar::at_most(
        "V8",
        "the same: furthest from the fitted line, % (10 taken as linear)",
        LINEAR_PERCENT,
        fit(&points(run, TRUNKLINE)).map(|fit| fit.deviation_percent),
    ));
    for (what, place) in [("items-in-process", "engine alone"), ("items", "over TCP")] {
        let items = find(run, TRUNKLINE, what, CONNECTED[1]);
        for which in ["first", "further"] {
            bars.push(Bar::at_most(
                "V8",
                &format!(
                    "W8, {} items, {place}, {which} `latest` subscription: bytes each",
                    CONNECTED[1]
                ),
                64.0,
                items.figure(&format!("{which}_bytes_per_item")),
            ));
        }
    }
    let case = format!("what=connect vars={}", CONNECTED[1]);
    let best = super::peers::best(run, SCENARIO, &case, "elapsed_ms", true);
    bars.push(Bar::at_most(
        "V8",
        &format!(
            "W8, {} variables, first full set: to the best other system{}",
            CONNECTED[1],
            super::peers::called(best)
        ),
        0.5,
        ratio(
            connect_ms(run, TRUNKLINE, CONNECTED[1]),
            best.map(|(_, elapsed)| elapsed),
        ),
    ));
    bars
}

fn find<'a>(run: &'a Run, system: &str, what: &str, variables: usize) -> Repeats<'a> {
    let case = format!("what={what} vars={variables}");
    Repeats::find(run, SCENARIO, system, &case)
}

fn memory<'a>(run: &'a Run, system: &str, kind: &str, variables: usize) -> Repeats<'a> {
    let case = format!("what=memory vars={variables} type={kind}");
    Repeats::find(run, SCENARIO, system, &case)
}

fn connect_ms(run: &Run, system: &str, variables: usize) -> Option<f64> {
    find(run, system, "connect", variables).figure("elapsed_ms")
}

fn memory_row(run: &Run, kind: &str, variables: usize) -> String {
    let repeats = memory(run, TRUNKLINE, kind, variables);
    let each = repeats.figure("bytes_per_variable");
    let map = memory(run, MAP, kind, variables).figure("bytes_per_variable");
    cells(&[
        kind.to_owned(),
        variables.to_string(),
        figure(each),
        figure(repeats.figure("deployed_bytes_per_variable")),
        figure(map),
        figure(ratio(each, map)),
        figure(repeats.figure("added_mib")),
        figure(repeats.figure("deploy_ms")),
    ])
}

/// Number of variables and bytes added by them.
fn points(run: &Run, system: &str) -> Vec<(f64, f64)> {
    let point = |variables: usize| {
        let each = memory(run, system, TYPES[0], variables).figure("bytes_per_variable")?;
        Some((variables as f64, each * variables as f64))
    };
    POINTS.into_iter().filter_map(point).collect()
}

/// A line through points.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Fit {
    /// Bytes of each further variable.
    slope: f64,
    /// Bytes that any number costs.
    intercept: f64,
    /// Of the points from 100,000 variables on, how far the furthest lies from the line, in percent
    /// of the line.
    deviation_percent: f64,
}

/// The line with the least squares; `None` with fewer than three points.
fn fit(points: &[(f64, f64)]) -> Option<Fit> {
    if points.len() < 3 {
        return None;
    }
    let count = points.len() as f64;
    let mean_x = points.iter().map(|point| point.0).sum::<f64>() / count;
    let mean_y = points.iter().map(|point| point.1).sum::<f64>() / count;
    let across: f64 = points
        .iter()
        .map(|(x, y)| (x - mean_x) * (y - mean_y))
        .sum();
    let along: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let slope = across / along;
    let intercept = mean_y - slope * mean_x;
    let large = points.iter().filter(|(x, _)| *x >= POINTS[2] as f64);
    let deviation = large.map(|(x, y)| {
        let line = slope * x + intercept;
        ((y - line) / line).abs() * 100.0
    });
    Some(Fit {
        slope,
        intercept,
        deviation_percent: deviation.reduce(f64::max)?,
    })
}

fn fit_sentence(run: &Run) -> String {
    match fit(&points(run, TRUNKLINE)) {
        Some(fit) => format!(
            "\nThe line through the f64 points: {:.1} bytes for each variable and {:.0} KiB at once; the \
             points from {} variables on lie within {:.1} % of it.\n",
            fit.slope,
            fit.intercept / 1024.0,
            POINTS[2],
            fit.deviation_percent
        ),
        None => "\nToo few points for a line.\n".to_owned(),
    }
}

fn curve(run: &Run) -> Chart {
    let line = |(system, name): (&str, &str)| Line {
        name: name.to_owned(),
        points: points(run, system)
            .into_iter()
            .map(|(variables, bytes)| (variables, bytes / f64::from(1 << 20)))
            .collect(),
        dashed: system == MAP,
    };
    Chart {
        title: "W8: memory of f64 variables, written once".to_owned(),
        x_label: "variables".to_owned(),
        y_label: "MiB".to_owned(),
        lines: [(TRUNKLINE, "Trunkline engine"), (MAP, "hash map")]
            .map(line)
            .to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::record::Row;

    fn run(figures: &[(&str, &str, &str, f64)]) -> Run {
        let row = |(system, case, name, value): &(&str, &str, &str, f64)| {
            let mut row = Row::new(SCENARIO, system, (*case).to_owned(), "cross");
            row.figure(name, *value);
            row
        };
        Run {
            machine: Machine::here("quick").unwrap(),
            rows: figures.iter().map(row).collect(),
        }
    }

    #[test]
    fn the_line_through_points_on_a_line_is_that_line() {
        let on_line = |x: f64| (x, 250.0 * x + 4096.0);
        let points: Vec<(f64, f64)> = POINTS.iter().map(|n| on_line(*n as f64)).collect();
        let line = fit(&points).unwrap();
        assert!((line.slope - 250.0).abs() < 1e-6 && line.deviation_percent < 1e-6);
        assert!((line.intercept - 4096.0).abs() < 1.0, "{line:?}");
        let mut bent = points.clone();
        bent[2].1 *= 1.5;
        assert!(fit(&bent).unwrap().deviation_percent > 30.0);
        assert_eq!(fit(&points[..2]), None);
    }

    #[test]
    fn section_has_curve_items_first_sets_and_restart() {
        let run = run(&[
            (
                "trunkline",
                "what=memory vars=500 type=f64",
                "bytes_per_variable",
                400.0,
            ),
            (
                "trunkline",
                "what=memory vars=1000 type=f64",
                "bytes_per_variable",
                300.0,
            ),
            (
                "trunkline",
                "what=memory vars=100000 type=f64",
                "bytes_per_variable",
                200.0,
            ),
            (
                "hash-map",
                "what=memory vars=100000 type=f64",
                "bytes_per_variable",
                100.0,
            ),
            (
                "trunkline",
                "what=items vars=100000",
                "first_bytes_per_item",
                70.0,
            ),
            ("raw-tcp", "what=connect vars=100000", "elapsed_ms", 2.0),
            ("trunkline", "what=connect vars=100000", "elapsed_ms", 94.0),
            ("zeromq", "what=connect vars=100000", "elapsed_ms", 188.0),
            ("trunkline", "what=restart vars=100000", "start_ms", 512.0),
        ]);
        let section = section(&run);
        for part in [
            "| f64 | 100000 | 200 | - | 100 | 2.00 |",
            "| 100000 | - | - | 70.0 | - |",
            "| 100000 | trunkline | 94.0 | 47.0 |",
            "| 100000 | 512 | - |",
            "The line through the f64 points: 199",
        ] {
            assert!(section.text.contains(part), "{part} in {}", section.text);
        }
        assert!(section.charts[0].svg.is_some());
        let bars = bars(&run);
        let measured = |what: &str| {
            let bar = bars.iter().find(|bar| bar.what().contains(what));
            bar.unwrap_or_else(|| panic!("{what}")).measured()
        };
        assert_eq!(measured("100000 f64 variables"), Some(200.0));
        assert_eq!(measured("first full set"), Some(0.5));
        assert_eq!(measured("1000000 f64 variables"), None);
    }
}
