//! R3 and R4: TDMS files.

use super::bars::Bar;
use super::medians::{Repeats, ratio};
use super::{Section, cells, figure};
use crate::cells::TRUNKLINE;
use crate::peers::named;
use crate::record::Run;
use crate::tdms::reading::{FRESH, SLICES, WHATS, WHOLE};
use crate::tdms::{RAW_FILE, READING, WRITING};

const NPTDMS: &str = "nptdms";
const SYSTEMS: [&str; 3] = [RAW_FILE, TRUNKLINE, NPTDMS];

fn name(system: &str) -> &'static str {
    match system {
        RAW_FILE => "the same bytes, raw",
        TRUNKLINE => "Trunkline",
        other => named(other).map_or("?", |peer| peer.name),
    }
}

fn read(run: &Run, system: &str, what: &str, name: &str) -> Option<f64> {
    Repeats::find(run, READING, system, &format!("what={what}")).figure(name)
}

fn written(run: &Run, system: &str, name: &str) -> Option<f64> {
    Repeats::find(run, WRITING, system, "what=segments").figure(name)
}

/// R3.
pub(super) fn reading(run: &Run) -> Section {
    let mut text = String::from(
        "\n## R3: TDMS files, read\n\n\
         f64 in 256 segments of 1 MiB, in the system's cache. *Whole*: the file is opened and its only channel \
         read into memory that all passes share; *fresh*: the same into memory that each pass allocates, as \
         npTDMS always does, so that only this case compares with npTDMS on equal terms. All systems have \
         that memory in large pages where the system provides them: npTDMS by NumPy, Trunkline by \
         `read_vec`. *Interleaved*: four channels that lie row by row, all of them; *slices*: 1,000 values \
         from anywhere in an open file. Raw reads the same bytes by their places.\n\n\
         | what | system | MB/s | x raw | CPU s per GB | us per slice | bytes read per byte |\n\
         |---|---|---:|---:|---:|---:|---:|\n",
    );
    for what in WHATS {
        for system in SYSTEMS {
            let of = |name| read(run, system, what, name);
            text.push_str(&cells(&[
                what.to_owned(),
                name(system).to_owned(),
                figure(of("mb_per_s")),
                figure(ratio(of("mb_per_s"), read(run, RAW_FILE, what, "mb_per_s"))),
                figure(of("cpu_s_per_gb")),
                figure(of("us_per_slice")),
                figure(of("bytes_read_per_byte")),
            ]));
        }
    }
    Section {
        text,
        charts: Vec::new(),
    }
}

/// R4.
pub(super) fn writing(run: &Run) -> Section {
    let mut text = String::from(
        "\n## R4: TDMS files, written as many small segments\n\n\
         Files of 50 segments, each with 100 values of f64 of 1,000 channels: made, written and closed, into \
         the system's cache. Raw gathers and writes the same values without a format.\n\n\
         | system | M values/s | MB/s | x raw | CPU s per GB | file : payload |\n\
         |---|---:|---:|---:|---:|---:|\n",
    );
    for system in SYSTEMS {
        let of = |name| written(run, system, name);
        text.push_str(&cells(&[
            name(system).to_owned(),
            figure(of("values_per_s").map(|rate| rate / 1e6)),
            figure(of("mb_per_s")),
            figure(ratio(of("mb_per_s"), written(run, RAW_FILE, "mb_per_s"))),
            figure(of("cpu_s_per_gb")),
            figure(of("file_per_payload")),
        ]));
    }
    Section {
        text,
        charts: Vec::new(),
    }
}

/// Both.
pub(super) fn bars(reading: &Run, writing: &Run) -> Vec<Bar> {
    let rate = |system, what| read(reading, system, what, "mb_per_s");
    let to = |system, what| ratio(rate(TRUNKLINE, what), rate(system, what));
    let values = |system| written(writing, system, "values_per_s");
    vec![
        Bar::at_least("R3", "a whole channel: x raw", 0.9, to(RAW_FILE, WHOLE)),
        Bar::at_least(
            "R3",
            "a whole channel, fresh memory: x npTDMS",
            3.0,
            to(NPTDMS, FRESH),
        ),
        Bar::at_most(
            "R3",
            "slices: bytes read per byte",
            1.0,
            read(reading, TRUNKLINE, SLICES, "bytes_read_per_byte"),
        ),
        Bar::at_least(
            "R4",
            "many small segments: x npTDMS",
            10.0,
            ratio(values(TRUNKLINE), values(NPTDMS)),
        ),
        Bar::at_most(
            "R4",
            "the same: file to payload",
            1.1,
            written(writing, TRUNKLINE, "file_per_payload"),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::record::Row;

    fn run(rows: &[(&str, &str, &str, &str, f64)]) -> Run {
        let row = |(scenario, system, case, name, value): &(&str, &str, &str, &str, f64)| {
            let mut row = Row::new(scenario, system, format!("what={case}"), "cross");
            row.figure(name, *value);
            row
        };
        Run {
            machine: Machine::here("quick").unwrap(),
            rows: rows.iter().map(row).collect(),
        }
    }

    #[test]
    fn bars_are_ratios_of_one_run() {
        let read = run(&[
            (READING, RAW_FILE, WHOLE, "mb_per_s", 1000.0),
            (READING, TRUNKLINE, WHOLE, "mb_per_s", 950.0),
            (READING, TRUNKLINE, FRESH, "mb_per_s", 950.0),
            (READING, NPTDMS, FRESH, "mb_per_s", 190.0),
            (READING, TRUNKLINE, SLICES, "bytes_read_per_byte", 1.0),
        ]);
        let wrote = run(&[
            (WRITING, TRUNKLINE, "segments", "values_per_s", 5e7),
            (WRITING, NPTDMS, "segments", "values_per_s", 2e6),
            (WRITING, TRUNKLINE, "segments", "file_per_payload", 1.002),
        ]);
        let measured: Vec<Option<f64>> = bars(&read, &wrote).iter().map(Bar::measured).collect();
        assert_eq!(
            measured,
            [Some(0.95), Some(5.0), Some(1.0), Some(25.0), Some(1.002)]
        );
        let text = reading(&read).text;
        assert!(
            text.contains("| whole | Trunkline | 950 | 0.950 |"),
            "{text}"
        );
        assert!(writing(&wrote).text.contains("| npTDMS | 2.00 |"));
    }
}
