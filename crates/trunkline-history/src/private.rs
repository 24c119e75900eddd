//! Creates files and folders that only the user of the engine may access, whatever the folder of the history
//! permits.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Returns options that create a file with mode 0600. A file that exists keeps its mode.
pub(crate) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// As [`File::create`].
pub(crate) fn create_file(path: &Path) -> io::Result<File> {
    options().write(true).create(true).truncate(true).open(path)
}

/// As [`std::fs::write`].
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    create_file(path)?.write_all(bytes)
}

/// As [`std::fs::create_dir_all`].
pub(crate) fn create_folders(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}
