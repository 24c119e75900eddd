//! W3 and W4, S6, and the published curves of streams.

mod bars;
mod curves;
mod journal;

pub(super) use self::bars::bars;
pub(super) use self::curves::{paced, sweep};
pub(super) use self::journal::journals;

use super::medians::{Repeats, ratio};
use super::published::STREAM_LATENCY;
use super::svg::{Chart, Line};
use super::{Plot, Section, cells, figure, peers};
use crate::cells::RAW;
use crate::peers::named;
use crate::record::Run;
use crate::same_host::RAW_MEMORY;
use crate::streams::{
    CALLS, COPIED, IN_PLACE, LATENCY, RAW_EACH_WAY, SHARED_COPIED, SHARED_IN_PLACE,
    SLEEPING_SYSTEMS, SPINNING_SYSTEMS, SYSTEMS, THROUGHPUT,
};

/// The systems as people call them.
fn name(system: &str) -> &'static str {
    match system {
        RAW => "raw TCP",
        RAW_EACH_WAY => "raw TCP, a connection each way",
        RAW_MEMORY => "memory, by hand",
        COPIED => "Trunkline, copied",
        IN_PLACE => "Trunkline, in place",
        SHARED_COPIED => "Trunkline, shared memory, copied",
        SHARED_IN_PLACE => "Trunkline, shared memory, in place",
        _ => named(system).map_or("another system", |peer| peer.name),
    }
}

/// Ours, and those others that were measured in a cell.
fn systems<'a>(
    run: &'a Run,
    scenario: &'static str,
    ours: &'a [&'static str],
    case: &'a str,
) -> impl Iterator<Item = &'static str> + 'a {
    let is_there = move |system: &&'static str| {
        let mut rows = run.rows.iter();
        rows.any(|row| row.scenario == scenario && row.system == *system && row.case == case)
    };
    let others = peers::measured(run, scenario).into_iter();
    let others = others.map(|(system, _)| system).filter(is_there);
    ours.iter().copied().chain(others)
}

fn at<'a>(run: &'a Run, system: &str, call: usize) -> Repeats<'a> {
    Repeats::find(run, THROUGHPUT, system, &format!("call={call}"))
}

fn rate(run: &Run, system: &str, call: usize) -> Option<f64> {
    at(run, system, call).figure("elements_per_s")
}

/// W3.
pub(super) fn throughput(run: &Run) -> Section {
    let mut text = String::from(
        "\n## W3: streams, throughput\n\n\
         Elements of f64 from one process to another, as many as can be: lossless, in order, every one \
         checked against its number. The buffers hold ten calls, at least 100,000 elements and at most \
         1,000,000 (NS-82, NS-87). *Copied*: `write_many`, `read_into`, and with one element `write`, \
         `read`; *in place*: `write_with`, `acquire`. Raw writes and reads the same content with calls of \
         the same size, small ones packed to 4096 elements. *Memory, by hand*: a ring of as many elements \
         as Trunkline's buffers between two threads, filled and checked in place, both polling. Other \
         systems send a message per call; CPU includes that of a server or driver between the ends, and \
         servers are measured with 1, 1000 and 100,000 elements a call, systems of one machine with 1, \
         100 and 10,000.\n\n\
         | elements per call | system | M elements/s | MB/s | x raw | writer ns per element | reader ns | \
         CPU s per GB | x raw |\n|---:|---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for call in CALLS {
        let raw = at(run, RAW, call);
        for system in systems(run, THROUGHPUT, &SYSTEMS, &format!("call={call}")) {
            let of = at(run, system, call);
            let cpu = |of: &Repeats<'_>| of.figure("cpu_s_per_gb");
            text.push_str(&cells(&[
                call.to_string(),
                name(system).to_owned(),
                match of.invalid().is_empty() || of.figure("elements_per_s").is_some() {
                    true => figure(of.figure("elements_per_s").map(|rate| rate / 1e6)),
                    false => "does not count".to_owned(),
                },
                figure(of.figure("mb_per_s")),
                figure(ratio(rate(run, system, call), rate(run, RAW, call))),
                figure(of.figure("writer_ns_per_element")),
                figure(of.figure("reader_ns_per_element")),
                figure(cpu(&of)),
                figure(ratio(cpu(&of), cpu(&raw))),
            ]));
        }
    }
    Section {
        text,
        charts: rates(run),
    }
}

/// Ours beside the limits; beside others over a network; beside others on the same host.
fn rates(run: &Run) -> Vec<Plot> {
    let line = |system: &str| {
        let point = |call| {
            let mb = at(run, system, call).figure("mb_per_s")?;
            Some((call as f64, mb))
        };
        Line {
            name: name(system).to_owned(),
            points: CALLS.into_iter().filter_map(point).collect(),
            dashed: matches!(system, RAW | RAW_MEMORY),
        }
    };
    let chart = |file, title: &str, systems: Vec<&'static str>| {
        let chart = Chart {
            title: title.to_owned(),
            x_label: "elements per call".to_owned(),
            y_label: "MB/s".to_owned(),
            lines: systems.into_iter().map(line).collect(),
        };
        Plot::of_lines(file, &chart)
    };
    let others = |near: bool| {
        let others = peers::measured(run, THROUGHPUT).into_iter();
        let others = others.map(|(system, _)| system);
        others
            .filter(|system| named(system).is_some_and(|peer| peer.is_near() == near))
            .collect::<Vec<_>>()
    };
    let title = "W3: streams of f64 between two processes";
    let mut plots = vec![chart("w3-rate.svg", title, SYSTEMS.to_vec())];
    for (near, file, title, ours) in [
        (
            false,
            "w3-systems.svg",
            "W3: streams over TCP",
            [RAW, COPIED, IN_PLACE],
        ),
        (
            true,
            "w3-same-host.svg",
            "W3: streams on one machine",
            [RAW_MEMORY, SHARED_COPIED, SHARED_IN_PLACE],
        ),
    ] {
        let others = others(near);
        if !others.is_empty() {
            plots.push(chart(file, title, [&ours[..], &others].concat()));
        }
    }
    plots
}

fn one_way<'a>(run: &'a Run, system: &str, waiting: &str) -> Repeats<'a> {
    Repeats::find(run, LATENCY, system, &format!("waiting={waiting}"))
}

/// W4.
pub(super) fn latency(run: &Run) -> Section {
    let mut text = String::from(
        "\n## W4: streams, latency\n\n\
         One element of 8 bytes there and back over two streams, each flushed at once, 10,000 times; half \
         of the round trip (NS-86). *Sleeping*: nobody looks before it sleeps. *Spinning*: raw, memory and \
         other systems of one machine poll all the time, Trunkline looks for up to 50 us. Raw has one \
         connection, where the answer carries the acknowledgement of TCP; *a connection each way* is raw as \
         streams are, where acknowledgements are packets of their own.\n\n\
         | waiting | system | mean us | x raw | median us | p99 us | p99.9 us |\n\
         |---|---|---:|---:|---:|---:|---:|\n",
    );
    let ways: [(&str, &[&str]); 2] = [
        ("sleeping", &SLEEPING_SYSTEMS),
        ("spinning", &SPINNING_SYSTEMS),
    ];
    for (waiting, ours) in ways {
        let raw = one_way(run, RAW, waiting).figure("one_way_us");
        for system in systems(run, LATENCY, ours, &format!("waiting={waiting}")) {
            let of = one_way(run, system, waiting);
            let mean = of.figure("one_way_us");
            text.push_str(&cells(&[
                waiting.to_owned(),
                name(system).to_owned(),
                match mean.is_none() && !of.invalid().is_empty() {
                    true => "does not count".to_owned(),
                    false => figure(mean),
                },
                figure(ratio(mean, raw)),
                figure(of.figure("median_us")),
                figure(of.figure("p99_us")),
                figure(of.figure("p999_us")),
            ]));
        }
    }
    text.push_str(
        "\nPublished (NS-86), of machines and networks of their time; what compares is the ratio:\n\n\
         | controller, network | TCP us | stream us | x TCP |\n|---|---:|---:|---:|\n",
    );
    for (machine, tcp, stream) in STREAM_LATENCY {
        text.push_str(&cells(&[
            machine.to_owned(),
            format!("{tcp}"),
            format!("{stream}"),
            figure(ratio(Some(stream), Some(tcp))),
        ]));
    }
    for (waiting, _) in ways {
        let mean = |system| one_way(run, system, waiting).figure("one_way_us");
        text.push_str(&cells(&[
            format!("here, one machine, {waiting}"),
            figure(mean(RAW)),
            figure(mean(COPIED)),
            figure(ratio(mean(COPIED), mean(RAW))),
        ]));
    }
    Section {
        text,
        charts: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::record::Row;

    #[test]
    fn other_systems_stand_where_they_were_measured() {
        let row = |scenario, system, case: &str, name: &str, value: f64| {
            let mut row = Row::new(scenario, system, case.to_owned(), "cross");
            row.figure(name, value);
            row
        };
        let mut lost = row(THROUGHPUT, "nats", "call=1", "elements_per_s", 1e9);
        lost.require(false, || "3 elements were wrong".to_owned());
        let run = Run {
            machine: Machine::here("quick").unwrap(),
            rows: vec![
                row(THROUGHPUT, RAW, "call=1", "elements_per_s", 1e8),
                row(THROUGHPUT, "zeromq", "call=1", "elements_per_s", 5e6),
                lost,
                row(LATENCY, RAW, "waiting=sleeping", "one_way_us", 20.0),
                row(LATENCY, COPIED, "waiting=sleeping", "one_way_us", 25.0),
                row(LATENCY, "aeron", "waiting=spinning", "one_way_us", 0.1),
            ],
        };
        let text = throughput(&run).text;
        assert!(
            text.contains("| 1 | ZeroMQ | 5.00 | - | 0.0500 |"),
            "{text}"
        );
        assert!(text.contains("| 1 | NATS | does not count |"), "{text}");
        assert!(!text.contains("| 10 | ZeroMQ |"), "{text}");
        let text = latency(&run).text;
        assert!(text.contains("| spinning | Aeron IPC | 0.100 |"), "{text}");
        assert!(text.contains("sleeping | 20.0 | 25.0 | 1.25 |"), "{text}");
        assert!(text.contains("| 82.02 | 347.9 | 4.24 |"), "{text}");
    }
}
