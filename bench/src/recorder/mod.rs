//! W9: recording a ring of regions to one file, by chunk size (ZC-16), and several devices, each
//! with a ring and a file (ZC-18).
//!
//! The ring is not filled during the measurement: its memory already contains the samples of a
//! device. Chunks are handed over as soon as there is room. So time and CPU time are those of the
//! path from memory to the disk alone, until `fdatasync` has returned.

mod card;
mod fio;
mod others;
pub mod plan;
mod ring;

use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;

use self::ring::Way;
use crate::Outcome;
use crate::record::Row;
use crate::settings::Settings;

pub const SCENARIO: &str = "recorder";
/// Devices whose rate is raised until one overflows.
pub const DEVICES: &str = "recorder_devices";

/// `fio`: io_uring, bypassing the page cache, eight writes at a time.
pub const FIO: &str = "fio";
/// Trunkline: each chunk is written in place.
pub const IN_PLACE: &str = "trunkline";
/// Trunkline: each chunk is copied into other memory first.
pub const COPIED: &str = "trunkline-copied";
/// Trunkline: the recorder copies chunks and collects them into segments.
pub const COLLECTED: &str = "trunkline-collected";
/// Trunkline: written in place, with a checksum file.
pub const SUMMED: &str = "trunkline-summed";
/// A file written through the page cache, with `fdatasync` at the end.
pub const CACHED: &str = "write-cached";

/// Environment variable that names a folder on the measured disk.
const FOLDER: &str = "TRUNKLINE_DISK";
const FOLDER_DEFAULT: &str = "target";

/// The data to write.
#[derive(Clone, Copy, Debug)]
struct Task {
    /// Bytes of a chunk.
    chunk: usize,
    /// Bytes of all chunks.
    bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Timing {
    elapsed: Duration,
    cpu_s: f64,
    /// Bytes of the file; the bytes of the chunks if unknown.
    file_bytes: u64,
    /// Bytes copied by the CPU, if the system counts them.
    copied: Option<u64>,
}

impl Task {
    fn read(settings: &Settings) -> Outcome<Self> {
        Ok(Self {
            chunk: settings.value("chunk")?,
            bytes: settings.value("bytes")?,
        })
    }

    fn case(self) -> String {
        format!("chunk={}", self.chunk)
    }

    fn chunks(self) -> u64 {
        self.bytes / self.chunk as u64
    }
}

impl Timing {
    fn enter(self, task: Task, row: &mut Row) {
        let bytes = task.bytes as f64;
        row.figure("mb_per_s", bytes / 1e6 / self.elapsed.as_secs_f64());
        row.figure("cpu_s_per_gb", self.cpu_s / (bytes / 1e9));
        row.figure("file_to_payload", self.file_bytes as f64 / bytes);
        if let Some(copied) = self.copied {
            row.figure("copied_per_byte", copied as f64 / bytes);
        }
    }
}

/// Measures one system.
pub fn cell(system: &str, settings: &Settings, placement: &str) -> Outcome<Row> {
    let task = Task::read(settings)?;
    let mut row = Row::new(SCENARIO, system, task.case(), placement);
    row.waiting = "sleeping".to_owned();
    let folder = folder()?;
    let path = folder.path().join("file.tdms");
    let took = match system {
        FIO => fio::write(task, &path)?,
        IN_PLACE => ring::record(task, &path, Way::InPlace, &mut row)?,
        COPIED => ring::record(task, &path, Way::Copied, &mut row)?,
        COLLECTED => ring::record(task, &path, Way::Collected, &mut row)?,
        SUMMED => ring::record(task, &path, Way::WithChecksums, &mut row)?,
        CACHED => ring::write_cached(task, &path)?,
        _ => others::write(system, task, &path)?,
    };
    took.enter(task, &mut row);
    Ok(row)
}

/// Measures devices with one system.
pub fn devices_cell(system: &str, settings: &Settings, placement: &str) -> Outcome<Row> {
    let way = match system {
        IN_PLACE => Way::InPlace,
        COPIED => Way::Copied,
        _ => return Err(format!("there is no system {system}").into()),
    };
    card::cell(system, way, settings, placement)
}

/// Pause of the disk before a cell.
const REST: Duration = Duration::from_secs(2);

/// Returns the folder of a cell; removed on drop. Waits first: a file system frees deleted files,
/// gigabytes of an earlier cell, in the background.
fn folder() -> Outcome<TempDir> {
    rustix::fs::sync();
    std::thread::sleep(REST);
    let parent = std::env::var_os(FOLDER).map_or_else(|| FOLDER_DEFAULT.into(), PathBuf::from);
    std::fs::create_dir_all(&parent)?;
    Ok(tempfile::Builder::new()
        .prefix("bench-recorder-")
        .tempdir_in(parent)?)
}
