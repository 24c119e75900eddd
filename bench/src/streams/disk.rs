//! The limit of journals: a file in the same folder, written sequentially.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use tempfile::TempDir;

use super::flow::{Flow, Numbers};
use crate::Outcome;
use crate::record::Row;
use crate::usage::process_cpu_ns;

/// Bypasses the page cache (`O_DIRECT`): two writes at a time, `fdatasync` at the end.
pub const DIRECT: &str = "disk-direct";
/// Through the page cache, with `fdatasync` after every 64 MiB and at the end.
pub const SYNCED: &str = "disk-synced";

/// Environment variable that names a folder on the measured disk.
const FOLDER: &str = "TRUNKLINE_DISK";
const FOLDER_DEFAULT: &str = "target";
/// Bytes of a write, and their alignment in memory.
const BLOCK: usize = 4 << 20;
const ALIGNED: usize = 4096;
/// Writes between two `fdatasync`.
const SYNC_EVERY: u64 = 16;
/// Writes after which writing restarts at the beginning of the file: the size of a journal.
const BLOCKS_MAX: u64 = (1 << 30) / BLOCK as u64;

/// The folder of a cell; removed on drop.
pub(crate) fn folder() -> Outcome<TempDir> {
    let parent = std::env::var_os(FOLDER).map_or_else(|| FOLDER_DEFAULT.into(), PathBuf::from);
    std::fs::create_dir_all(&parent)?;
    // The far end may have another current directory.
    let parent = std::fs::canonicalize(parent)?;
    Ok(tempfile::Builder::new()
        .prefix("bench-journals-")
        .tempdir_in(parent)?)
}

/// Writes for the time that the flow has set.
pub(super) fn measure(system: &str, flow: &Flow, row: &mut Row) -> Outcome<()> {
    let folder = folder()?;
    let is_direct = system == DIRECT;
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    if is_direct {
        options.custom_flags(OFlags::DIRECT.bits().cast_signed());
    }
    let file = options
        .open(folder.path().join("file"))
        .map_err(|error| format!("the file system has no {system}: {error}"))?;
    let next = AtomicU64::new(0);
    write_for(&file, is_direct, flow.warm_up, &next)?;
    let (before, cpu, start) = (
        next.load(Ordering::Relaxed),
        process_cpu_ns(),
        Instant::now(),
    );
    write_for(&file, is_direct, flow.measured, &next)?;
    let blocks = next.load(Ordering::Relaxed) - before;
    enter(
        blocks * BLOCK as u64,
        start.elapsed(),
        process_cpu_ns() - cpu,
        row,
    );
    Ok(())
}

fn enter(bytes: u64, elapsed: Duration, cpu_ns: u64, row: &mut Row) {
    let mb_per_s = bytes as f64 / 1e6 / elapsed.as_secs_f64();
    row.figure("mb_per_s", mb_per_s);
    row.figure("elements_per_s", mb_per_s / 8e-6);
    row.figure("cpu_s_per_gb", cpu_ns as f64 / bytes as f64);
}

/// Writes and syncs blocks; `next` is the number of the next one.
fn write_for(file: &File, is_direct: bool, time: Duration, next: &AtomicU64) -> Outcome<()> {
    let end = Instant::now() + time;
    let write = || -> std::io::Result<()> {
        let mut memory = vec![0; BLOCK + ALIGNED];
        let first = memory.as_ptr().align_offset(ALIGNED);
        let block = &mut memory[first..first + BLOCK];
        Numbers::default().fill(bytemuck::cast_slice_mut(block));
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            file.write_all_at(block, number % BLOCKS_MAX * BLOCK as u64)?;
            if !is_direct && (number + 1).is_multiple_of(SYNC_EVERY) {
                file.sync_data()?;
            }
            if Instant::now() >= end {
                return Ok(());
            }
        }
    };
    thread::scope(|scope| {
        let second = is_direct.then(|| scope.spawn(write));
        write()?;
        match second.map(thread::ScopedJoinHandle::join) {
            None => Ok(()),
            Some(Ok(written)) => written,
            Some(Err(_)) => Err(std::io::Error::other("a writing thread failed")),
        }
    })?;
    Ok(file.sync_data()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_of_a_gigabyte_per_second() {
        let mut row = Row::new("stream_journal", SYNCED, String::new(), "cross");
        enter(
            2_000_000_000,
            Duration::from_secs(2),
            1_000_000_000,
            &mut row,
        );
        assert_eq!(row.figures["mb_per_s"], 1000.0);
        assert_eq!(row.figures["elements_per_s"], 125e6);
        assert_eq!(row.figures["cpu_s_per_gb"], 0.5);
    }

    #[test]
    fn blocks_are_written_one_after_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let file = File::create(&path).unwrap();
        let next = AtomicU64::new(0);
        write_for(&file, false, Duration::from_millis(1), &next).unwrap();
        let blocks = next.into_inner();
        assert!(blocks > 0);
        let written = std::fs::metadata(path).unwrap().len();
        assert_eq!(written, blocks.min(BLOCKS_MAX) * BLOCK as u64);
    }
}
