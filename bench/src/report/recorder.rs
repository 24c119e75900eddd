//! W9: the recorder.

use super::bars::Bar;
use super::medians::{Repeats, ratio};
use super::svg::{Chart, Line};
use super::{Plot, Section, cells, figure};
use crate::peers::{named, of};
use crate::record::Run;
use crate::recorder::plan::{CHUNKS, DEVICES_COUNTS, DEVICES_SYSTEMS, SYSTEMS};
use crate::recorder::{CACHED, COLLECTED, COPIED, DEVICES, FIO, IN_PLACE, SCENARIO, SUMMED};

/// The chunk of the bars of R1.
const MEBIBYTE: u64 = 1 << 20;
/// From this chunk on the bars of R2 hold.
const LARGE: u64 = 256 << 10;

fn name(system: &str) -> &'static str {
    match system {
        FIO => "fio, io_uring, direct, 8 at a time",
        IN_PLACE => "Trunkline, in place",
        COPIED => "Trunkline, one copy before it",
        COLLECTED => "Trunkline, copied into segments",
        SUMMED => "Trunkline, in place, with checksums",
        CACHED => "writes through the cache",
        _ => named(system).map_or("another system", |peer| peer.name),
    }
}

fn at<'a>(run: &'a Run, system: &str, chunk: u64) -> Repeats<'a> {
    Repeats::find(run, SCENARIO, system, &format!("chunk={chunk}"))
}

fn systems() -> impl Iterator<Item = &'static str> {
    let others = of(SCENARIO).map(|peer| peer.system);
    SYSTEMS.into_iter().chain(others)
}

/// W9.
pub(super) fn section(run: &Run) -> Section {
    let mut text = String::from(
        "\n## W9: the recorder\n\n\
         Samples of u64 from a ring in memory to one file, until `fdatasync` has returned and the file is \
         closed: 4 GiB with chunks of 256 KiB and more, less with smaller ones. Before each the disk is left \
         alone for 2 s. Nobody fills the ring meanwhile, so CPU time is that of writing alone. *In place*: \
         regions of the ring are written from where they lie, eight at a time, around the cache. *One copy \
         before it*: the same from memory of its own, into which each chunk is copied first, as programs do \
         whose memory is a device's. *Copied into segments*: the recorder copies chunks itself, and writes \
         1 MiB of them together. Of npTDMS each chunk is a segment of a TDMS file; of HDF5 one dataset of the \
         final size is written chunk by chunk. *Copied per byte* is what the recorder says of itself; the \
         profiler's answer is in the costs below.\n\n\
         | chunk KiB | system | MB/s | x fio | CPU s per GB | x fio | copied per byte | file to payload |\n\
         |---:|---|---:|---:|---:|---:|---:|---:|\n",
    );
    for chunk in CHUNKS {
        let fio = at(run, FIO, chunk);
        for system in systems() {
            let of = at(run, system, chunk);
            let (rate, cpu) = (of.figure("mb_per_s"), of.figure("cpu_s_per_gb"));
            if rate.is_none() && of.invalid().is_empty() {
                continue;
            }
            text.push_str(&cells(&[
                (chunk >> 10).to_string(),
                name(system).to_owned(),
                match of.invalid().is_empty() || rate.is_some() {
                    true => figure(rate),
                    false => "does not count".to_owned(),
                },
                figure(ratio(rate, fio.figure("mb_per_s"))),
                figure(cpu),
                figure(ratio(cpu, fio.figure("cpu_s_per_gb"))),
                figure(of.figure("copied_per_byte")),
                figure(of.figure("file_to_payload")),
            ]));
        }
    }
    let line = |system: &'static str| Line {
        name: name(system).to_owned(),
        points: CHUNKS
            .into_iter()
            .filter_map(|chunk| {
                let rate = at(run, system, chunk).figure("mb_per_s")?;
                Some(((chunk >> 10) as f64, rate))
            })
            .collect(),
        dashed: system == FIO,
    };
    let chart = Chart {
        title: "W9: recorded to one file".to_owned(),
        x_label: "KiB per chunk".to_owned(),
        y_label: "MB/s".to_owned(),
        lines: systems().map(line).collect(),
    };
    Section {
        text,
        charts: vec![Plot::of_lines("w9-rate.svg", &chart)],
    }
}

/// ZC-18.
pub(super) fn devices(run: &Run) -> Section {
    let mut text = String::from(
        "\n## Devices until one overflows\n\n\
         So many simulated devices, each with a ring (256 MiB of memory for all) and a TDMS file of its own, \
         in one thread, at the highest rate at which none of them has lost a sample in 1.5 s; *MB/s* is what was \
         written in that time, without what is in the rings still. Samples are there \
         when a device says so, as if its DMA engine had put them there: the CPU fills nothing. Memory \
         traffic is what follows from the way: the device writes each byte once and the disk reads it once, \
         and a copy reads and writes it once more. *No rate*: there are always samples.\n\n\
         | devices | system | MB/s per device | MB/s | no rate, MB/s | copied, MB/s | memory traffic, MB/s | \
         CPU s per GB | CPU % |\n\
         |---:|---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for count in DEVICES_COUNTS {
        for system in DEVICES_SYSTEMS {
            let of = Repeats::find(run, DEVICES, system, &format!("devices={count}"));
            let rate = of.figure("mb_per_s");
            if rate.is_none() && of.invalid().is_empty() {
                continue;
            }
            let copied = f64::from(u8::from(system == COPIED)) * 2.0;
            text.push_str(&cells(&[
                count.to_string(),
                name(system).to_owned(),
                figure(of.figure("mb_per_s_device")),
                figure(rate),
                figure(of.figure("mb_per_s_no_rate")),
                figure(rate.map(|rate| rate * copied)),
                figure(rate.map(|rate| rate * (2.0 + copied))),
                figure(of.figure("cpu_s_per_gb")),
                figure(of.figure("cpu_percent")),
            ]));
        }
    }
    Section {
        text,
        charts: Vec::new(),
    }
}

/// R1 and R2.
pub(super) fn bars(run: &Run) -> Vec<Bar> {
    let of = |system, chunk, name| at(run, system, chunk).figure(name);
    let to_fio = |name| ratio(of(IN_PLACE, MEBIBYTE, name), of(FIO, MEBIBYTE, name));
    let mut bars = vec![
        Bar::at_least("R1", "W9, 1 MiB regions: x fio", 0.95, to_fio("mb_per_s")),
        Bar::at_most(
            "R2",
            "W9, 1 MiB regions: CPU per GB to fio",
            1.2,
            to_fio("cpu_s_per_gb"),
        ),
    ];
    for chunk in CHUNKS.into_iter().filter(|chunk| *chunk >= LARGE) {
        let cpu = |system| of(system, chunk, "cpu_s_per_gb");
        let what = format!("W9, {} KiB: CPU per GB to one copy", chunk >> 10);
        bars.push(Bar::at_most(
            "R2",
            &what,
            0.5,
            ratio(cpu(IN_PLACE), cpu(COPIED)),
        ));
    }
    bars
}
