//! Checks that the name of a file being written still refers to that file.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The location of a file that no longer has its original name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FileLocation {
    /// The file was removed, or another file replaced it. Its data is lost when the file is closed.
    Removed {
        /// A path from which the data can be copied until the file is closed, on this machine only.
        copy_from: Option<PathBuf>,
    },
    /// The file was renamed, and its data is complete.
    Renamed {
        /// The new name, if the system reports it.
        to: Option<PathBuf>,
    },
}

/// A file that was removed, replaced or renamed while it was being written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MovedFile {
    /// The path with which the file was created.
    pub path: PathBuf,
    /// The current location of the file.
    pub location: FileLocation,
}

impl MovedFile {
    /// Returns true if the data is lost.
    pub fn is_removed(&self) -> bool {
        matches!(self.location, FileLocation::Removed { .. })
    }
}

impl fmt::Display for MovedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.location {
            FileLocation::Removed { .. } => {
                write!(
                    f,
                    "{path} was removed or replaced while it was being written"
                )
            }
            FileLocation::Renamed { to: Some(to) } => write!(
                f,
                "{path} was renamed while it was being written; it is {} now",
                to.display()
            ),
            FileLocation::Renamed { to: None } => write!(
                f,
                "{path} was renamed while it was being written; its data is in the renamed file"
            ),
        }
    }
}

/// The absolute path with which a file was created.
#[derive(Debug)]
pub(crate) struct WatchedPath {
    path: PathBuf,
}

impl WatchedPath {
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        // The path must be absolute, because the program may change its working directory.
        let path = std::path::absolute(path)?;
        Ok(Self { path })
    }

    /// Returns `None` if the name still refers to the file, or if this cannot be determined.
    pub(crate) fn moved_file(&self, file: &File) -> Option<MovedFile> {
        let metadata = file.metadata().ok()?;
        let refers_to_file = |path: &Path| match std::fs::symlink_metadata(path) {
            Ok(other) => Some(other.dev() == metadata.dev() && other.ino() == metadata.ino()),
            Err(error) if is_absence(&error) => Some(false),
            // After other errors, such as a file server that does not respond, the result is
            // unknown.
            Err(_) => None,
        };
        if refers_to_file(&self.path)? {
            return None;
        }
        let descriptor = file.as_raw_fd();
        let location = match metadata.nlink() {
            0 => {
                let process = std::process::id();
                let copy_from = PathBuf::from(format!("/proc/{process}/fd/{descriptor}"));
                FileLocation::Removed {
                    copy_from: copy_from.exists().then_some(copy_from),
                }
            }
            _ => {
                let to = std::fs::read_link(format!("/proc/self/fd/{descriptor}")).ok();
                let to = to.filter(|to| refers_to_file(to) == Some(true));
                FileLocation::Renamed { to }
            }
        };
        Some(MovedFile {
            path: self.path.clone(),
            location,
        })
    }
}

/// Syncs the folder of a file, so that the file's name survives a power loss.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Returns true if the error means that the name does not exist.
fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_removed_replaced_or_renamed_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tdms");
        let file = File::create(&path).unwrap();
        let sut = WatchedPath::of(&path).unwrap();
        assert_eq!(sut.moved_file(&file), None);
        let other = folder.path().join("b.tdms");
        std::fs::rename(&path, &other).unwrap();
        let found = sut.moved_file(&file).unwrap();
        let to = other.canonicalize().unwrap();
        assert_eq!(found.location, FileLocation::Renamed { to: Some(to) });
        // Another file now has the original name.
        std::fs::write(&path, "another").unwrap();
        assert!(!sut.moved_file(&file).unwrap().is_removed());
        std::fs::remove_file(&other).unwrap();
        let found = sut.moved_file(&file).unwrap();
        assert!(found.is_removed());
        assert!(found.to_string().contains("removed or replaced"), "{found}");
        std::fs::remove_file(&path).unwrap();
        assert!(sut.moved_file(&file).unwrap().is_removed());
    }

    #[test]
    fn file_with_another_link_is_not_lost() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tdms");
        let file = File::create(&path).unwrap();
        let sut = WatchedPath::of(&path).unwrap();
        std::fs::hard_link(&path, folder.path().join("b.tdms")).unwrap();
        std::fs::remove_file(&path).unwrap();
        let found = sut.moved_file(&file).unwrap();
        assert_eq!(found.location, FileLocation::Renamed { to: None });
    }
}
