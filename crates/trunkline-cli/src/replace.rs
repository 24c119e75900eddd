//! Replaces files atomically.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::Problem;
use crate::problem::{folder_reason, is_folder};
use crate::terminal::escaped_path;

/// A file that appears under its name only when it is complete, so readers never see part of it. It
/// keeps the permissions of the file that it replaces; a new file gets the default permissions.
///
/// Pipes, devices and files that are already open (`/dev/stdout`) are written in place. If the path
/// is a symbolic link to a file, the file is replaced and the link stays.
#[derive(Debug)]
pub(crate) enum NewFile {
    Temporary {
        file: NamedTempFile,
        path: PathBuf,
        permissions: Option<Permissions>,
    },
    InPlace(File),
}

impl NewFile {
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let is_link = fs::symlink_metadata(path).is_ok_and(|link| link.is_symlink());
        let is_open_already = is_link && (path.starts_with("/dev") || path.starts_with("/proc"));
        let permissions = match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(metadata) if is_open_already || !metadata.is_file() => {
                return Ok(Self::InPlace(OpenOptions::new().write(true).open(path)?));
            }
            Ok(metadata) => Some(metadata.permissions()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Err(_) if is_link => {
                return Err(io::Error::other("it is a symbolic link to a missing file"));
            }
            Err(_) => None,
        };
        let path = match is_link {
            true => fs::canonicalize(path)?,
            false => path.to_owned(),
        };
        let file = tempfile::Builder::new()
            .prefix(".trunkline-")
            // The umask applies to this mode.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder_of(&path))
            // The original error names the temporary file, which the user does not know.
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => io::Error::other("there is no such folder"),
                kind => kind.into(),
            })?;
        Ok(Self::Temporary {
            file,
            path,
            permissions,
        })
    }

    pub(crate) fn file_mut(&mut self) -> &mut File {
        match self {
            Self::Temporary { file, .. } => file.as_file_mut(),
            Self::InPlace(file) => file,
        }
    }

    /// Flushes the file to disk and moves it to its place. Fails with `AlreadyExists` if a file is
    /// there and `may_replace` is false. If the move fails, an existing file stays unchanged.
    pub(crate) fn finish(self, may_replace: bool) -> io::Result<()> {
        let Self::Temporary {
            file,
            path,
            permissions,
        } = self
        else {
            return Ok(());
        };
        if let Some(permissions) = permissions {
            file.as_file().set_permissions(permissions)?;
        }
        file.as_file().sync_all()?;
        let result = match may_replace {
            true => file.persist(&path),
            false => file.persist_noclobber(&path),
        };
        result.map_err(|error| error.error)?;
        // The folder must be synced for the new name to survive a power loss.
        File::open(folder_of(&path))?.sync_all()
    }
}

pub(crate) fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    folder.unwrap_or(Path::new("."))
}

/// Creates a file with the data that `write` writes, or replaces one if `may_replace` is true. If
/// `write` fails, an existing file stays unchanged.
pub(crate) fn replace(
    path: &Path,
    may_replace: bool,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = NewFile::create(path)?;
    write(file.file_mut())?;
    file.finish(may_replace)
}

/// Returns the problem to report for a file that cannot be written.
pub(crate) fn write_problem(path: &Path, error: &io::Error) -> Problem {
    match error.kind() {
        io::ErrorKind::AlreadyExists => exists(path),
        io::ErrorKind::IsADirectory => is_folder("not-written", &escaped_path(path)),
        _ => {
            let reason = folder_reason(error);
            let sentence = format!("{} cannot be written: {reason}", escaped_path(path));
            Problem::failed("not-written", sentence)
        }
    }
}

pub(crate) fn exists(path: &Path) -> Problem {
    let sentence = format!(
        "{} already exists; use --force to replace it",
        escaped_path(path)
    );
    Problem::failed("exists", sentence)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::io::Write;

    use rustix::fs::{FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn a_file_is_replaced_completely_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept.jsonl");
        replace(&path, true, |file| file.write_all(b"first")).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o662)).unwrap();
        let failed = replace(&path, true, |file| {
            file.write_all(b"half")?;
            Err(io::Error::other("enough"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "enough");
        assert_eq!(fs::read(&path).unwrap(), b"first");
        replace(&path, true, |file| file.write_all(b"second")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o662);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_appeared_in_the_meantime_is_replaced_only_with_permission() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new");
        for (may_replace, expected_content) in [(false, b"theirs".as_slice()), (true, b"")] {
            let sut = NewFile::create(&path).unwrap();
            fs::write(&path, b"theirs").unwrap();
            let finished = sut.finish(may_replace).map_err(|error| error.kind());
            let expected = match may_replace {
                true => Ok(()),
                false => Err(io::ErrorKind::AlreadyExists),
            };
            assert_eq!(finished, expected);
            assert_eq!(fs::read(&path).unwrap(), expected_content);
        }
    }

    #[test]
    fn the_target_of_a_symbolic_link_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("kept"), folder.path().join("link"));
        fs::write(&path, b"first").unwrap();
        std::os::unix::fs::symlink("kept", &link).unwrap();
        replace(&link, true, |file| file.write_all(b"second")).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&path).unwrap(), b"second");
        let broken = folder.path().join("broken");
        std::os::unix::fs::symlink("nowhere", &broken).unwrap();
        let refused = replace(&broken, true, |_| Ok(())).unwrap_err();
        assert!(refused.to_string().contains("missing file"), "{refused}");
        // An already open file is written in place.
        let open = File::create(folder.path().join("open")).unwrap();
        let name = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&open));
        replace(Path::new(&name), true, |file| file.write_all(b"through")).unwrap();
        assert_eq!(fs::read(folder.path().join("open")).unwrap(), b"through");
        assert_eq!(open.metadata().unwrap().len(), 7);
    }

    #[test]
    fn a_folder_is_refused_with_a_clear_reason() {
        let folder = tempfile::tempdir().unwrap();
        for may_replace in [false, true] {
            let refused = replace(folder.path(), may_replace, |_| Ok(())).unwrap_err();
            let problem = write_problem(folder.path(), &refused);
            let sentence = format!(
                "{} is a folder (specify a file)",
                escaped_path(folder.path())
            );
            assert_eq!(problem.sentence(), sentence);
        }
        let path = folder.path().join("none/out.csv");
        let refused = replace(&path, true, |_| Ok(())).unwrap_err();
        let problem = write_problem(&path, &refused);
        let sentence = format!(
            "{} cannot be written: there is no such folder",
            escaped_path(&path)
        );
        assert_eq!(problem.sentence(), sentence);
    }

    #[test]
    fn a_pipe_is_written_to_and_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let reader = std::thread::spawn({
            let path = path.clone();
            move || fs::read(path).unwrap()
        });
        replace(&path, true, |file| file.write_all(b"to somebody")).unwrap();
        // A replaced pipe would have no writer, and its reader would wait forever.
        assert!(!fs::metadata(&path).unwrap().is_file());
        assert_eq!(reader.join().unwrap(), b"to somebody");
    }
}
