//! S6: journals.

use super::super::bars::Bar;
use super::super::medians::{Repeats, ratio};
use super::super::{Section, cells, figure};
use crate::cells::RAW;
use crate::record::Run;
use crate::streams::JOURNALS;
use crate::streams::disk::{DIRECT, SYNCED};
use crate::streams::journal::{CALLS, DURABLE, READ, RECEIVED, SYSTEMS};

fn name(system: &str) -> &'static str {
    match system {
        RAW => "raw TCP",
        DIRECT => "disk, around the cache",
        SYNCED => "disk, through the cache",
        RECEIVED => "writer's journal, until received",
        READ => "both journals, until read",
        _ => "both journals, until durable",
    }
}

fn at<'a>(run: &'a Run, system: &str, call: usize) -> Repeats<'a> {
    Repeats::find(run, JOURNALS, system, &format!("call={call}"))
}

fn rate(run: &Run, system: &str, call: usize) -> Option<f64> {
    at(run, system, call).figure("mb_per_s")
}

/// The slower of raw TCP and the disk, written the faster way.
fn limit(run: &Run, call: usize) -> Option<f64> {
    let ways = [DIRECT, SYNCED].into_iter();
    let disk = ways
        .filter_map(|way| rate(run, way, call))
        .reduce(f64::max)?;
    Some(disk.min(rate(run, RAW, call)?))
}

/// S6.
pub(in crate::report) fn journals(run: &Run) -> Section {
    let mut text = String::from(
        "\n## S6: streams with journals\n\n\
         Elements of f64 over TCP from a writer with a journal, copied, for a second; then it flushes until \
         the reader has received, read or made durable all of it, which counts. *Disk*: a file of up to \
         1 GiB in the folder of the journals, written in blocks of 4 MiB from its beginning to its end: \
         two at a time around the system's cache (`O_DIRECT`), or through it with `fdatasync` behind every \
         64 MiB; `fdatasync` at the end. The limit is the slower of raw TCP and the faster of the two. \
         Where both ends have a journal, the disk is written twice.\n\n\
         | elements per call | system | M elements/s | MB/s | x limit | CPU s per GB |\n\
         |---:|---|---:|---:|---:|---:|\n",
    );
    for call in CALLS {
        for system in SYSTEMS {
            let of = at(run, system, call);
            text.push_str(&cells(&[
                call.to_string(),
                name(system).to_owned(),
                figure(of.figure("elements_per_s").map(|rate| rate / 1e6)),
                figure(of.figure("mb_per_s")),
                figure(ratio(of.figure("mb_per_s"), limit(run, call))),
                figure(of.figure("cpu_s_per_gb")),
            ]));
        }
    }
    Section {
        text,
        charts: Vec::new(),
    }
}

/// S6.
pub(super) fn bars(run: &Run) -> Vec<Bar> {
    let mut bars = Vec::new();
    for call in CALLS {
        for system in [RECEIVED, READ, DURABLE] {
            let what = format!(
                "{}, {call} per call: x the slower of raw and disk",
                name(system)
            );
            let measured = ratio(rate(run, system, call), limit(run, call));
            bars.push(Bar::at_least("S6", &what, 0.8, measured));
        }
    }
    bars
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::record::Row;

    #[test]
    fn the_limit_is_the_slower_of_raw_and_the_faster_disk() {
        let rows = [
            (RAW, 10_000, 5000.0),
            (DIRECT, 10_000, 1000.0),
            (SYNCED, 10_000, 800.0),
            (RECEIVED, 10_000, 900.0),
            (RAW, 100_000, 500.0),
            (DIRECT, 100_000, 1000.0),
            (DURABLE, 100_000, 250.0),
        ];
        let row = |(system, call, rate): &(&str, usize, f64)| {
            let mut row = Row::new(JOURNALS, system, format!("call={call}"), "cross");
            row.figure("mb_per_s", *rate);
            row
        };
        let run = Run {
            machine: Machine::here("quick").unwrap(),
            rows: rows.iter().map(row).collect(),
        };
        let bars = bars(&run);
        let measured: Vec<Option<f64>> = bars.iter().map(Bar::measured).collect();
        assert_eq!(measured, [Some(0.9), None, None, None, None, Some(0.5)]);
        let text = journals(&run).text;
        assert!(
            text.contains("until received | - | 900 | 0.900 |"),
            "{text}"
        );
    }
}
