//! A file that is put in the place of another.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Puts what `write` makes in the place of a file in one step: nobody finds half of it, and it is
/// on the disk then. The new one has the permissions of the old one, or those of any new file. A
/// pipe or a device is written to where it is.
///
/// # Errors
/// Whatever the system says; what was there is still there then.
pub(crate) fn replace(
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let permissions = match fs::metadata(path) {
        Ok(there) if !there.is_file() && !there.is_dir() => {
            return write(&mut OpenOptions::new().write(true).open(path)?);
        }
        Ok(there) => there.permissions(),
        // The user's mask takes from it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Permissions::from_mode(0o666),
        Err(error) => return Err(error),
    };
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let mut file = tempfile::Builder::new()
        .prefix(".trunkline-")
        .permissions(permissions)
        .tempfile_in(folder.unwrap_or(Path::new(".")))?;
    write(file.as_file_mut())?;
    file.as_file().sync_all()?;
    file.persist(path).map(|_| ()).map_err(|error| error.error)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::io::Write;

    use rustix::fs::{FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn a_file_is_replaced_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept.jsonl");
        replace(&path, |file| file.write_all(b"first")).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let failed = replace(&path, |file| {
            file.write_all(b"half")?;
            Err(io::Error::other("enough"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "enough");
        assert_eq!(fs::read(&path).unwrap(), b"first");
        replace(&path, |file| file.write_all(b"second")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_pipe_is_written_to_and_stays_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let reader = std::thread::spawn({
            let path = path.clone();
            move || fs::read(path).unwrap()
        });
        replace(&path, |file| file.write_all(b"to somebody")).unwrap();
        // A pipe that was replaced has nobody who writes to it: its reader waits for ever.
        assert!(!fs::metadata(&path).unwrap().is_file());
        assert_eq!(reader.join().unwrap(), b"to somebody");
    }
}
