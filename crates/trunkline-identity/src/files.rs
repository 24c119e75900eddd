//! Reads and writes the files of identities: checks owners and permissions, and replaces files atomically.
//!
//! A file is opened first and checked afterwards, through its handle, so that no other file can take its
//! place between the check and the read. A symbolic link is refused as the last component of a path: the
//! permissions of the folder that holds the link would decide which file is read. Links to folders are
//! followed.

use std::fmt;
use std::fs::{self, DirBuilder, File, Metadata, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, StatVfsMountFlags};
use rustix::io::Errno;
use zeroize::Zeroizing;

/// An error of a file or folder that holds identities. Each message names a remedy.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file or folder does not exist.
    #[error("{} does not exist", ShellWord(.0))]
    Missing(PathBuf),
    /// The file or folder exists, and would be overwritten.
    #[error(
        "{path} exists and is not overwritten; specify another path, or move {path} aside",
        path = ShellWord(.0)
    )]
    Exists(PathBuf),
    /// The path is a symbolic link.
    #[error("{} is a symbolic link; specify the file that it refers to", ShellWord(.0))]
    SymbolicLink(PathBuf),
    /// The path is a folder, a pipe, a device or a socket.
    #[error("{} is not a regular file; specify a file", ShellWord(.0))]
    NotAFile(PathBuf),
    /// The path of a folder names something else.
    #[error("{} is not a folder; specify a folder", ShellWord(.0))]
    NotAFolder(PathBuf),
    /// Users other than the owner can access a file with secrets.
    #[error(
        "other users can access {path}, which contains secrets (its mode is {mode:04o}); run \
         `chmod 600 {path}`; if others may have read it, replace the secrets as well",
        path = ShellWord(path)
    )]
    NotPrivate {
        /// The file.
        path: PathBuf,
        /// Its permissions, at most 0o7777.
        mode: u32,
    },
    /// Users other than the owner can change a file or folder.
    #[error(
        "other users can write {path} (its mode is {mode:04o}); run `chmod go-w {path}`",
        path = ShellWord(path)
    )]
    WritableByOthers {
        /// The file or folder.
        path: PathBuf,
        /// Its permissions, at most 0o7777.
        mode: u32,
    },
    /// The file or folder belongs to another user, who could change it.
    #[error(
        "{path} belongs to the user id {owner}, but this program runs as {user}; run the program as \
         that user, or run `chown {user} {path}`",
        path = ShellWord(path)
    )]
    OtherOwner {
        /// The file or folder.
        path: PathBuf,
        /// User id of its owner.
        owner: u32,
        /// User id of this program.
        user: u32,
    },
    /// The file is larger than any file of its kind.
    #[error(
        "{} has more than {max} bytes, the most that such a file may have; specify the correct file",
        ShellWord(path)
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The maximum, in bytes.
        max: usize,
    },
    /// The file contains other bytes than text.
    #[error("{} is not UTF-8 text; specify the correct file, or save it as UTF-8", ShellWord(.0))]
    NotText(PathBuf),
    /// The system does not permit the operation.
    #[error("{}: {error}", ShellWord(path))]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
}

impl FileError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        |error| match error.kind() {
            ErrorKind::NotFound => Self::Missing(path.to_owned()),
            ErrorKind::AlreadyExists => Self::Exists(path.to_owned()),
            _ => Self::Io {
                path: path.to_owned(),
                error,
            },
        }
    }
}

/// Who may read a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Secrecy {
    /// The owner alone: mode 0600.
    Private,
    /// Everyone: mode 0644.
    Public,
}

impl Secrecy {
    fn mode(self) -> u32 {
        match self {
            Self::Private => 0o600,
            Self::Public => 0o644,
        }
    }
}

/// The facts about a file or folder that decide whether it can be trusted.
#[derive(Clone, Copy, Debug)]
struct Facts {
    /// Permissions, at most 0o7777.
    mode: u32,
    /// User id of the owner.
    owner: u32,
    /// User id of this program.
    user: u32,
}

impl Facts {
    fn of(metadata: &Metadata) -> Self {
        Self {
            mode: metadata.mode() & 0o7777,
            owner: metadata.uid(),
            user: own_user(),
        }
    }

    /// Returns an error unless only the owner, who is this program's user or root, can write `path`, and,
    /// for secrets, read it.
    fn check(self, path: &Path, secrecy: Secrecy) -> Result<(), FileError> {
        let path = || path.to_owned();
        let Self { mode, owner, user } = self;
        if owner != user && owner != ROOT {
            return Err(FileError::OtherOwner {
                path: path(),
                owner,
                user,
            });
        }
        match secrecy {
            Secrecy::Private if mode & 0o077 != 0 => {
                Err(FileError::NotPrivate { path: path(), mode })
            }
            Secrecy::Public if mode & 0o022 != 0 => {
                Err(FileError::WritableByOthers { path: path(), mode })
            }
            Secrecy::Private | Secrecy::Public => Ok(()),
        }
    }
}

/// The user id of root.
const ROOT: u32 = 0;

/// The permission of a folder that lets only the owner of a file rename or remove it.
const STICKY: u32 = 0o1000;

/// Returns the effective user id of this program.
pub(crate) fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Reads a text file of at most `max` bytes, and checks who can access it. The text is erased from memory
/// when it is dropped.
pub(crate) fn read(
    path: &Path,
    secrecy: Secrecy,
    max: usize,
) -> Result<Zeroizing<String>, FileError> {
    // Opening a pipe without O_NONBLOCK would wait for a writer.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(handle) => File::from(handle),
        Err(Errno::LOOP) => return Err(FileError::SymbolicLink(path.to_owned())),
        Err(Errno::NXIO) => return Err(FileError::NotAFile(path.to_owned())),
        Err(error) => return Err(FileError::io(path)(error.into())),
    };
    let metadata = file.metadata().map_err(FileError::io(path))?;
    if !metadata.is_file() {
        return Err(FileError::NotAFile(path.to_owned()));
    }
    Facts::of(&metadata).check(path, secrecy)?;
    let too_large = || FileError::TooLarge {
        path: path.to_owned(),
        max,
    };
    let length = usize::try_from(metadata.len()).map_err(|_| too_large())?;
    if length > max {
        return Err(too_large());
    }
    // One byte more than the file has shows its end without growing the buffer, which would leave a copy of
    // the secrets behind.
    let mut bytes = Zeroizing::new(vec![0; length.saturating_add(1)]);
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(count) => filled = filled.saturating_add(count),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(FileError::io(path)(error)),
        }
    }
    if filled > length {
        return Err(FileError::io(path)(io::Error::other(
            "the file grew while it was read; try again",
        )));
    }
    let text = std::str::from_utf8(bytes.get(..filled).unwrap_or_default());
    match text {
        Ok(text) => Ok(Zeroizing::new(text.to_owned())),
        Err(_) => Err(FileError::NotText(path.to_owned())),
    }
}

/// Reads a text file with a secret of the user, of at most `max` bytes, such as a password for
/// logging in.
///
/// # Errors
/// [`FileError`] if the file is not a regular file, is larger, is not UTF-8 text, or is accessible by
/// other users.
pub fn read_secret(path: &Path, max: usize) -> Result<Zeroizing<String>, FileError> {
    read(path, Secrecy::Private, max)
}

/// Checks that only this program's user and root can change a file, such as a configuration, or put
/// another one in its place. Links are followed.
///
/// So the folders above it are checked as well: those of the path as it is written, and those where the
/// file really is. In a sticky folder such as `/tmp`, others cannot replace a file or a folder of this
/// user. On a file system that is mounted read-only nobody can, whatever the permissions are.
///
/// # Errors
/// [`FileError::OtherOwner`] or [`FileError::WritableByOthers`], for the file or a folder; [`FileError`] if
/// one of them cannot be examined.
pub fn check_writers(path: &Path) -> Result<(), FileError> {
    let absolute = std::path::absolute(path).map_err(FileError::io(path))?;
    let real = fs::canonicalize(path).map_err(FileError::io(path))?;
    for place in [&absolute, &real] {
        // The link itself, if it is one: its owner can change where it leads.
        let metadata = fs::symlink_metadata(place).map_err(FileError::io(place))?;
        let facts = Facts::of(&metadata);
        let secrecy = Secrecy::Public;
        match metadata.is_symlink() {
            // Links have all permissions.
            true => Facts { mode: 0, ..facts }.check(place, secrecy)?,
            false if is_read_only(place) => {}
            false => facts.check(place, secrecy)?,
        }
        for folder in place.ancestors().skip(1) {
            check_folder_writers(folder)?;
        }
    }
    Ok(())
}

/// Checks the permissions of a folder. Its owner may be another user, who then administers this machine's
/// files or provides this part of them.
fn check_folder_writers(folder: &Path) -> Result<(), FileError> {
    let metadata = fs::metadata(folder).map_err(FileError::io(folder))?;
    let facts = Facts::of(&metadata);
    let facts = Facts {
        owner: facts.user,
        ..facts
    };
    if facts.mode & STICKY != 0 || is_read_only(folder) {
        return Ok(());
    }
    facts.check(folder, Secrecy::Public)
}

fn is_read_only(path: &Path) -> bool {
    rustix::fs::statvfs(path).is_ok_and(|stats| stats.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// Reads a text file of at most `max` bytes that decides whom this program trusts, and checks that only
/// this user and root can change it ([`check_writers`]). Links are followed.
///
/// # Errors
/// [`FileError`] if the file is not a regular file, is larger, is not UTF-8 text, or if other users can
/// change it.
pub fn read_trusted(path: &Path, max: usize) -> Result<Zeroizing<String>, FileError> {
    check_writers(path)?;
    let real = fs::canonicalize(path).map_err(FileError::io(path))?;
    read(&real, Secrecy::Public, max)
}

/// Whether a write may replace a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Existing {
    Refuse,
    Replace,
}

/// Writes a file so that, after an interruption at any point, the old or the new content is there, complete
/// and with the correct permissions.
///
/// The content goes to a new file (`O_EXCL`) in the same folder, which is moved to its place after it has
/// reached the disk.
pub(crate) fn write(
    path: &Path,
    content: &[u8],
    secrecy: Secrecy,
    existing: Existing,
) -> Result<(), FileError> {
    let folder = folder_of(path);
    let failed = |error: io::Error| match error.kind() {
        // The file itself is being created, so its folder is missing.
        ErrorKind::NotFound => FileError::Missing(folder.to_owned()),
        _ => FileError::io(path)(error),
    };
    if existing == Existing::Replace
        && fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink())
    {
        return Err(FileError::SymbolicLink(path.to_owned()));
    }
    let mut file = tempfile::Builder::new()
        .prefix(TEMPORARY_PREFIX)
        .permissions(Permissions::from_mode(0o600))
        .tempfile_in(folder)
        .map_err(|error| match error.kind() {
            ErrorKind::NotFound => FileError::Missing(folder.to_owned()),
            // The original error names the temporary file, which the user does not know.
            kind => FileError::io(path)(kind.into()),
        })?;
    file.write_all(content).map_err(failed)?;
    let permissions = Permissions::from_mode(secrecy.mode());
    let handle = file.as_file();
    handle.set_permissions(permissions).map_err(failed)?;
    handle.sync_all().map_err(failed)?;
    let placed = match existing {
        Existing::Refuse => file.persist_noclobber(path),
        Existing::Replace => file.persist(path),
    };
    placed.map_err(|error| failed(error.error))?;
    sync_folder(folder)
}

/// Start of the names of unfinished files.
pub(crate) const TEMPORARY_PREFIX: &str = ".trunkline-";

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), FileError> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(FileError::io(folder))
}

/// Creates a folder with mode 0700, and its missing parents. A folder that exists stays unchanged.
pub(crate) fn create_folder(folder: &Path) -> Result<(), FileError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder.create(folder).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists | ErrorKind::NotADirectory => {
            FileError::NotAFolder(folder.to_owned())
        }
        _ => FileError::io(folder)(error),
    })
}

/// Checks that only this program's user, or root, can change the names in a folder.
pub(crate) fn check_folder(folder: &Path) -> Result<(), FileError> {
    let metadata = fs::metadata(folder).map_err(FileError::io(folder))?;
    if !metadata.is_dir() {
        return Err(FileError::NotAFolder(folder.to_owned()));
    }
    Facts::of(&metadata).check(folder, Secrecy::Public)
}

/// Returns the folder that contains `path`.
pub(crate) fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    folder.unwrap_or(Path::new("."))
}

/// Formats a path so that a shell reads it as one word, and a terminal shows no control characters.
pub(crate) struct ShellWord<'a>(pub(crate) &'a Path);

impl fmt::Display for ShellWord<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string_lossy();
        let is_plain = |c: char| c.is_alphanumeric() || "/._-+=:,@%".contains(c);
        if !text.is_empty() && text.chars().all(is_plain) {
            return f.write_str(&text);
        }
        f.write_str("'")?;
        for c in text.chars() {
            match c {
                '\'' => f.write_str("'\\''")?,
                c if c.is_control() => write!(f, "{}", c.escape_default())?,
                c => write!(f, "{c}")?,
            }
        }
        f.write_str("'")
    }
}

#[cfg(test)]
mod tests;
