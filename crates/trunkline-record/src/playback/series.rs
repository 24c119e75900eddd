//! The files of a series.

use std::path::{Path, PathBuf};

/// The files of the series that begins with `path`: `name.tdms`, `name_0002.tdms` and so on, as far
/// as there are any without one missing.
#[must_use]
pub fn series_files(path: &Path) -> Vec<PathBuf> {
    let mut files = vec![path.to_owned()];
    let name = path.file_stem().and_then(|name| name.to_str());
    let (Some(name), Some("tdms")) = (name, path.extension().and_then(|end| end.to_str())) else {
        return files;
    };
    for number in 2_u32.. {
        let next = path.with_file_name(format!("{name}_{number:04}.tdms"));
        if !next.is_file() {
            break;
        }
        files.push(next);
    }
    files
}
