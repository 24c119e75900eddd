//! Finds the files of a series.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::tdms_file::series_file;

/// Returns the numbers and paths of the existing files whose names belong to the series that begins
/// with `path`. Files after a missing file are included.
pub(crate) fn numbered_files(path: &Path) -> Vec<(u32, PathBuf)> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let Ok(entries) = std::fs::read_dir(folder) else {
        // Files can be opened even if their directory cannot be listed.
        let files = (1..).map(|number| (number, series_file(path, number)));
        return files
            .take_while(|(number, file)| *number == 1 || file.is_file())
            .collect();
    };
    let names = entries.filter_map(|entry| Some(entry.ok()?.file_name()));
    let numbers = names.filter_map(|name| number_of(path, &name));
    let mut files: Vec<_> = numbers
        .map(|number| (number, series_file(path, number)))
        .collect();
    files.retain(|(_, file)| file.is_file());
    files.sort_unstable();
    files.insert(0, (1, path.to_owned()));
    files
}

/// Returns the number in the series of the file with this name; `None` for the first file or
/// another file.
fn number_of(first: &Path, name: &OsStr) -> Option<u32> {
    let stem = Path::new(name).file_stem()?.to_string_lossy();
    let number = stem.rsplit_once('_')?.1.parse().ok()?;
    let is_member = number >= 2 && series_file(first, number).file_name() == Some(name);
    is_member.then_some(number)
}
