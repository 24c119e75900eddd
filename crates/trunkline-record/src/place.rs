//! Whether the name of a file that is being written still leads to it.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where a file is that is no longer at the name it was made with.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Whereabouts {
    /// It has no name any more: it was removed, or another file took its name. Its data is lost
    /// when the file is closed.
    Removed {
        /// Where its data can be copied from until then, on this machine.
        copy_from: Option<PathBuf>,
    },
    /// It was renamed, and is whole.
    Renamed {
        /// Its name now, where the system knows it.
        to: Option<PathBuf>,
    },
}

/// A file that was removed, replaced or renamed while it was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Displaced {
    /// The name it was made with.
    pub path: PathBuf,
    /// Where it is instead.
    pub now: Whereabouts,
}

impl Displaced {
    /// Whether its data is lost.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        matches!(self.now, Whereabouts::Removed { .. })
    }
}

impl fmt::Display for Displaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.now {
            Whereabouts::Removed { .. } => {
                write!(f, "{path} was removed or replaced while it was written")
            }
            Whereabouts::Renamed { to: Some(to) } => write!(
                f,
                "{path} was renamed while it was written; it is {} now",
                to.display()
            ),
            Whereabouts::Renamed { to: None } => write!(
                f,
                "{path} was renamed while it was written; its data is in a file of another name"
            ),
        }
    }
}

/// The name of an open file.
#[derive(Debug)]
pub(crate) struct Place {
    path: PathBuf,
}

impl Place {
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        // The program may change its folder.
        let path = std::path::absolute(path)?;
        Ok(Self { path })
    }

    /// None: the name leads to the file, or the system does not say.
    pub(crate) fn displaced(&self, file: &File) -> Option<Displaced> {
        let own = file.metadata().ok()?;
        let is_own = |path: &Path| match std::fs::symlink_metadata(path) {
            Ok(there) => Some(there.dev() == own.dev() && there.ino() == own.ino()),
            Err(error) if is_absence(&error) => Some(false),
            // As when a server of files does not answer: that proves nothing.
            Err(_) => None,
        };
        if is_own(&self.path)? {
            return None;
        }
        let descriptor = file.as_raw_fd();
        let now = match own.nlink() {
            0 => {
                let process = std::process::id();
                let copy_from = PathBuf::from(format!("/proc/{process}/fd/{descriptor}"));
                Whereabouts::Removed {
                    copy_from: copy_from.exists().then_some(copy_from),
                }
            }
            _ => {
                let to = std::fs::read_link(format!("/proc/self/fd/{descriptor}")).ok();
                let to = to.filter(|to| is_own(to) == Some(true));
                Whereabouts::Renamed { to }
            }
        };
        Some(Displaced {
            path: self.path.clone(),
            now,
        })
    }
}

/// There is no such name.
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
        let sut = Place::of(&path).unwrap();
        assert_eq!(sut.displaced(&file), None);
        let other = folder.path().join("b.tdms");
        std::fs::rename(&path, &other).unwrap();
        let found = sut.displaced(&file).unwrap();
        let to = other.canonicalize().unwrap();
        assert_eq!(found.now, Whereabouts::Renamed { to: Some(to) });
        // Another file has its name.
        std::fs::write(&path, "another").unwrap();
        assert!(!sut.displaced(&file).unwrap().is_removed());
        std::fs::remove_file(&other).unwrap();
        let found = sut.displaced(&file).unwrap();
        assert!(found.is_removed());
        assert!(found.to_string().contains("removed or replaced"), "{found}");
        std::fs::remove_file(&path).unwrap();
        assert!(sut.displaced(&file).unwrap().is_removed());
    }

    #[test]
    fn a_file_whose_name_is_gone_and_that_has_another_one_is_not_lost() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tdms");
        let file = File::create(&path).unwrap();
        let sut = Place::of(&path).unwrap();
        std::fs::hard_link(&path, folder.path().join("b.tdms")).unwrap();
        std::fs::remove_file(&path).unwrap();
        let found = sut.displaced(&file).unwrap();
        assert_eq!(found.now, Whereabouts::Renamed { to: None });
    }
}
