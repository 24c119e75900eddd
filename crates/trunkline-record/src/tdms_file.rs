//! Creates TDMS files with their queues, and derives the paths of a series and of checksum files.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trunkline_ring::RegionMemory;

use crate::backend::{BackendChoice, CacheMode, FileReport, open_file};
use crate::queue::{QueueOptions, WriteQueue};

/// Returns the path of file `number` of a series in `folder`: `name.tdms`, `name_0002.tdms`, and so
/// on.
///
/// # Errors
/// `InvalidInput`: `name` is not a valid file name.
pub fn series_path(folder: &Path, name: &str, number: u32) -> io::Result<PathBuf> {
    let is_valid = !name.is_empty() && !name.contains(['/', '\\', '\0']) && !name.starts_with('.');
    if !is_valid {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "{name:?} is not a valid file name; it must not contain slashes or begin with a dot"
            ),
        ));
    }
    Ok(folder.join(match number {
        0 | 1 => format!("{name}.tdms"),
        number => format!("{name}_{number:04}.tdms"),
    }))
}

/// Returns the path of file `number` of the series that begins with `first`: `run.tdms`,
/// `run_0002.tdms`, and so on.
pub fn series_file(first: &Path, number: u32) -> PathBuf {
    if number < 2 {
        return first.to_owned();
    }
    let mut name = first.file_stem().unwrap_or_default().to_owned();
    name.push(format!("_{number:04}"));
    if let Some(extension) = first.extension() {
        name.push(".");
        name.push(extension);
    }
    first.with_file_name(name)
}

/// Creates a TDMS file and the queue that writes it, with a checksum file at [`sums_path`] if the
/// options require one. Removes the index file and the checksum file of an earlier file with this
/// name, because readers would trust them. If the queue is dropped before any data was written, the
/// new file is removed.
pub fn tdms_queue(
    path: &Path,
    backend_choice: BackendChoice,
    cache_mode: CacheMode,
    options: QueueOptions,
    memories: Vec<Arc<RegionMemory>>,
) -> io::Result<(WriteQueue, FileReport)> {
    let opened = open_file(path, backend_choice, cache_mode, options.writes_max())?;
    let mut paths = vec![path.to_owned()];
    let mut queue = WriteQueue::new(opened.backend, options, memories);
    queue.remove_if_unwritten(paths.clone());
    let sums_path = sums_path(path);
    remove_leftovers(path)?;
    if options.has_sums {
        // Two operations suffice: at most one write and one sync run at a time.
        let sums = open_file(&sums_path, backend_choice, CacheMode::Cached, 2);
        queue = queue.with_sums(sums?.backend).map_err(io::Error::other)?;
        paths.push(sums_path);
        queue.remove_if_unwritten(paths);
    }
    Ok((queue, opened.report))
}

/// Removes the index file and the checksum file of an earlier file with this name.
pub(crate) fn remove_leftovers(path: &Path) -> io::Result<()> {
    for leftover in [path.with_extension("tdms_index"), sums_path(path)] {
        match std::fs::remove_file(leftover) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Returns the path of the checksum file of a TDMS file: `x.tdms.sums` for `x.tdms`.
pub fn sums_path(path: &Path) -> PathBuf {
    let mut sums = path.as_os_str().to_owned();
    sums.push(".sums");
    sums.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_series_are_named_after_the_first() {
        let name = |first: &str, number| {
            let path = series_file(Path::new(first), number);
            path.to_str().map(str::to_owned)
        };
        assert_eq!(name("a/run.tdms", 1).as_deref(), Some("a/run.tdms"));
        assert_eq!(name("a/run.tdms", 2).as_deref(), Some("a/run_0002.tdms"));
        assert_eq!(
            name("run.1.tdms", 12_345).as_deref(),
            Some("run.1_12345.tdms")
        );
        assert_eq!(name("run", 3).as_deref(), Some("run_0003"));
    }
}
