//! W3 and W4: streams of elements.

use super::bars::Bar;
use super::medians::{Repeats, ratio};
use super::svg::{Chart, Line};
use super::{Plot, Section, cells, figure};
use crate::cells::RAW;
use crate::record::Run;
use crate::streams::{
    CALLS, COPIED, IN_PLACE, LATENCY, LATENCY_SYSTEMS, SHARED_COPIED, SHARED_IN_PLACE, SYSTEMS,
    THROUGHPUT,
};

/// The systems as people call them.
fn name(system: &str) -> &'static str {
    match system {
        RAW => "raw TCP",
        COPIED => "Trunkline, copied",
        IN_PLACE => "Trunkline, in place",
        SHARED_COPIED => "Trunkline, shared memory, copied",
        SHARED_IN_PLACE => "Trunkline, shared memory, in place",
        _ => "another system",
    }
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
         the same size, small ones packed to 4096 elements.\n\n\
         | elements per call | system | M elements/s | MB/s | x raw | writer ns per element | reader ns | \
         CPU s per GB | x raw |\n|---:|---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for call in CALLS {
        for system in SYSTEMS {
            let of = at(run, system, call);
            let raw = at(run, RAW, call);
            let cpu = |of: &Repeats<'_>| of.figure("cpu_s_per_gb");
            text.push_str(&cells(&[
                call.to_string(),
                name(system).to_owned(),
                figure(of.figure("elements_per_s").map(|rate| rate / 1e6)),
                figure(of.figure("mb_per_s")),
                figure(ratio(rate(run, system, call), rate(run, RAW, call))),
                figure(of.figure("writer_ns_per_element")),
                figure(of.figure("reader_ns_per_element")),
                figure(cpu(&of)),
                figure(ratio(cpu(&of), cpu(&raw))),
            ]));
        }
    }
    let line = |system: &str| {
        let point = |call| {
            let mb = at(run, system, call).figure("mb_per_s")?;
            Some((call as f64, mb))
        };
        Line {
            name: name(system).to_owned(),
            points: CALLS.into_iter().filter_map(point).collect(),
            dashed: system == RAW,
        }
    };
    let chart = Chart {
        title: "W3: streams of f64 between two processes".to_owned(),
        x_label: "elements per call".to_owned(),
        y_label: "MB/s".to_owned(),
        lines: SYSTEMS.map(line).to_vec(),
    };
    Section {
        text,
        charts: vec![Plot::of_lines("w3-rate.svg", &chart)],
    }
}

fn one_way<'a>(run: &'a Run, system: &str, waiting: &str) -> Repeats<'a> {
    Repeats::find(run, LATENCY, system, &format!("waiting={waiting}"))
}

/// W4.
pub(super) fn latency(run: &Run) -> Section {
    let mut text = String::from(
        "\n## W4: streams, latency\n\n\
         One element of 8 bytes there and back over two streams, each flushed at once, 10,000 times; half \
         of the round trip (NS-86). *Sleeping*: nobody looks before it sleeps. *Spinning*: raw polls all the \
         time, Trunkline looks for up to 50 us.\n\n\
         | waiting | system | mean us | x raw | median us | p99 us | p99.9 us |\n\
         |---|---|---:|---:|---:|---:|---:|\n",
    );
    for waiting in ["sleeping", "spinning"] {
        for system in LATENCY_SYSTEMS {
            let of = one_way(run, system, waiting);
            let mean = of.figure("one_way_us");
            let raw = one_way(run, RAW, waiting).figure("one_way_us");
            text.push_str(&cells(&[
                waiting.to_owned(),
                name(system).to_owned(),
                figure(mean),
                figure(ratio(mean, raw)),
                figure(of.figure("median_us")),
                figure(of.figure("p99_us")),
                figure(of.figure("p999_us")),
            ]));
        }
    }
    Section {
        text,
        charts: Vec::new(),
    }
}

/// S1, S2, S3, S5, and of S4 the latency.
pub(super) fn bars(throughput: &Run, latency: &Run) -> Vec<Bar> {
    let to_raw = |system, call| ratio(rate(throughput, system, call), rate(throughput, RAW, call));
    let mut bars = Vec::new();
    for (call, in_place, copied) in [
        (1000, 0.9, 0.7),
        (10_000, 0.95, 0.75),
        (100_000, 0.95, 0.75),
    ] {
        for (system, limit, how) in [(IN_PLACE, in_place, "in place"), (COPIED, copied, "copied")] {
            let what = format!("W3, {call} per call, {how}: x raw");
            bars.push(Bar::at_least("S1", &what, limit, to_raw(system, call)));
        }
    }
    let what = "W3, one per call: x raw, packed";
    bars.push(Bar::at_least("S2", what, 0.4, to_raw(COPIED, 1)));
    for (waiting, limit) in [("sleeping", 1.2), ("spinning", 1.3)] {
        let figure = |system, name| one_way(latency, system, waiting).figure(name);
        let mean = ratio(figure(COPIED, "one_way_us"), figure(RAW, "one_way_us"));
        let what = format!("W4, {waiting}: mean to raw");
        bars.push(Bar::at_most("S3", &what, limit, mean));
        let tail = ratio(figure(COPIED, "p999_us"), figure(RAW, "p999_us"));
        let what = format!("W4, {waiting}: p99.9 to raw");
        bars.push(Bar::at_most("S3", &what, 1.0, tail));
    }
    let polled = one_way(latency, SHARED_COPIED, "spinning").figure("median_us");
    let what = "W4, shared memory, spinning: us one way";
    bars.push(Bar::at_most("S4", what, 0.2, polled));
    for call in [10_000, 100_000] {
        for (system, how) in [(COPIED, "copied"), (IN_PLACE, "in place")] {
            let cpu = |system| at(throughput, system, call).figure("cpu_s_per_gb");
            let what = format!("W3, {call} per call, {how}: CPU per GB to raw");
            bars.push(Bar::at_most(
                "S5",
                &what,
                1.25,
                ratio(cpu(system), cpu(RAW)),
            ));
        }
    }
    bars
}
