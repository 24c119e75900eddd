//! W11 and W12: blocks of doubles through a FIFO, and waveforms.

use super::bars::Bar;
use super::medians::{Repeats, ratio};
use super::svg::{Chart, Line};
use super::{Plot, Section, cells, figure};
use crate::blocks::{FIFO, LENGTHS, SAMPLES, WAVEFORM};
use crate::cells::{RAW, TRUNKLINE};
use crate::record::Run;

const HEAD: &str = "\
| doubles | system | blocks/s | MB/s | x raw | writer ns per block | its other threads ns | subscriber ns |
|---:|---|---:|---:|---:|---:|---:|---:|
";

/// W11.
pub(super) fn fifo(run: &Run) -> Section {
    let mut text = format!(
        "\n## W11: a FIFO towards the network\n\n\
         A time-critical thread writes blocks of doubles into a FIFO that does not overflow; every \
         millisecond it is emptied towards one subscriber in another process, which checks every double. \
         Trunkline: a network variable with a FIFO, subscribed `all`. Raw: a FIFO (`rtrb`) of the same \
         length, a thread that empties it into a socket with as few calls as it can.\n\n{HEAD}"
    );
    for length in LENGTHS {
        text.push_str(&rows(run, FIFO, length));
    }
    let line = |(system, name): (&str, &str)| {
        let point = |length| Some((length as f64, rate(run, FIFO, system, length)?));
        Line {
            name: name.to_owned(),
            points: LENGTHS.into_iter().filter_map(point).collect(),
            dashed: system == RAW,
        }
    };
    let chart = Chart {
        title: "W11: a FIFO towards the network (T3)".to_owned(),
        x_label: "doubles per block".to_owned(),
        y_label: "MB/s".to_owned(),
        lines: [(TRUNKLINE, "Trunkline"), (RAW, "FIFO and raw TCP")]
            .map(line)
            .to_vec(),
    };
    Section {
        text,
        charts: vec![Plot::of_lines("w11-rate.svg", &chart)],
    }
}

/// W12.
pub(super) fn waveform(run: &Run) -> Section {
    let text = format!(
        "\n## W12: waveforms\n\n\
         A waveform variable of {SAMPLES} samples is written as fast as possible; one subscriber (`all`) \
         in another process takes and checks every sample. Raw: the samples of each in one `write`.\
         \n\n{HEAD}{}",
        rows(run, WAVEFORM, SAMPLES)
    );
    Section {
        text,
        charts: Vec::new(),
    }
}

fn find<'a>(run: &'a Run, scenario: &str, system: &str, length: usize) -> Repeats<'a> {
    Repeats::find(run, scenario, system, &format!("length={length}"))
}

/// Megabytes per second of a cell.
pub(super) fn rate(run: &Run, scenario: &str, system: &str, length: usize) -> Option<f64> {
    find(run, scenario, system, length).figure("mb_per_s")
}

fn rows(run: &Run, scenario: &str, length: usize) -> String {
    let mut text = String::new();
    for system in [RAW, TRUNKLINE] {
        let repeats = find(run, scenario, system, length);
        text.push_str(&cells(&[
            length.to_string(),
            system.to_owned(),
            figure(repeats.figure("updates_per_s")),
            figure(repeats.figure("mb_per_s")),
            figure(ratio(
                rate(run, scenario, system, length),
                rate(run, scenario, RAW, length),
            )),
            figure(repeats.figure("writer_ns_per_update")),
            figure(repeats.figure("engine_ns_per_update")),
            figure(repeats.figure("client_ns_per_update")),
        ]));
    }
    text
}

pub(super) fn bars(fifo: &Run, waveform: &Run) -> Vec<Bar> {
    let to_raw = |run, scenario, length| {
        ratio(
            rate(run, scenario, TRUNKLINE, length),
            rate(run, scenario, RAW, length),
        )
    };
    let mut bars = Vec::new();
    for length in LENGTHS {
        let what = format!("W11, {length} doubles: x FIFO and raw TCP");
        bars.push(Bar::at_least("V13", &what, 0.9, to_raw(fifo, FIFO, length)));
    }
    let measured = to_raw(waveform, WAVEFORM, SAMPLES);
    bars.push(Bar::at_least(
        "V14",
        "W12: x raw TCP of that size",
        0.8,
        measured,
    ));
    bars
}
