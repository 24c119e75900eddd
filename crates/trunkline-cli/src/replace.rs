//! Replaces files atomically.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::exit::Exit;
use crate::problem::Problem;
use crate::terminal::shown;

/// Replaces a file with the output of `write` in one step: no reader finds half of it, and on
/// return it is on the disk. The new file has the permissions of the old one, or those of any new
/// file. A pipe, a device or a file that is already open (`/dev/stdout`) is written in place; if a
/// link leads to a file, that file is replaced.
///
/// # Errors
/// The error of the system; the old file is unchanged then.
pub(crate) fn replace(
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let is_link = fs::symlink_metadata(path).is_ok_and(|link| link.is_symlink());
    let is_open_already = is_link && (path.starts_with("/dev") || path.starts_with("/proc"));
    let permissions = match fs::metadata(path) {
        Ok(there) if is_open_already || !there.is_file() && !there.is_dir() => {
            return write(&mut OpenOptions::new().write(true).open(path)?);
        }
        Ok(there) => Some(there.permissions()),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !is_link => None,
        Err(error) => return Err(error),
    };
    let path = match is_link {
        true => fs::canonicalize(path)?,
        false => path.to_owned(),
    };
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let folder = folder.unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(".trunkline-")
        // The user's umask is subtracted from it.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)?;
    write(file.as_file_mut())?;
    if let Some(permissions) = permissions {
        file.as_file().set_permissions(permissions)?;
    }
    file.as_file().sync_all()?;
    file.persist(&path).map_err(|error| error.error)?;
    // So that the name is on the disk as well.
    File::open(folder)?.sync_all()
}

/// Returns the problem of an existing file that may not be replaced.
pub(crate) fn exists(path: &Path) -> Problem {
    let sentence = format!("{} already exists; --force replaces it", shown(path));
    Problem::new(Exit::SomeFailed, "exists", &sentence)
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
        fs::set_permissions(&path, Permissions::from_mode(0o662)).unwrap();
        let failed = replace(&path, |file| {
            file.write_all(b"half")?;
            Err(io::Error::other("enough"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "enough");
        assert_eq!(fs::read(&path).unwrap(), b"first");
        replace(&path, |file| file.write_all(b"second")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o662);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_stays_one_and_what_it_leads_to_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("kept"), folder.path().join("link"));
        fs::write(&path, b"first").unwrap();
        std::os::unix::fs::symlink("kept", &link).unwrap();
        replace(&link, |file| file.write_all(b"second")).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&path).unwrap(), b"second");
        // An already open file is written in place.
        let open = File::create(folder.path().join("open")).unwrap();
        let name = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&open));
        replace(Path::new(&name), |file| file.write_all(b"through")).unwrap();
        assert_eq!(fs::read(folder.path().join("open")).unwrap(), b"through");
        assert_eq!(open.metadata().unwrap().len(), 7);
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
        // If the pipe had been replaced, it would have no writer, and its reader would wait for
        // ever.
        assert!(!fs::metadata(&path).unwrap().is_file());
        assert_eq!(reader.join().unwrap(), b"to somebody");
    }
}
