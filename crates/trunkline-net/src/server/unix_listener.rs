//! A listening Unix socket: created, protected against a second owner, and removed.

use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use socket2::{Domain, SockAddr, Socket, Type};
use trunkline_types::SocketPath;

use crate::transport::unix::own_uid;

use super::listen::{BACKLOG, BindError};

/// Only the user of the engine may connect.
const SOCKET_MODE: u32 = 0o600;

/// Maximum number of attempts to lock a file that other processes remove at the same time.
const LOCK_ATTEMPTS: usize = 16;

/// A listening Unix socket. Its file is removed on drop.
///
/// A lock on its lock file, `PATH.lock`, shows that its owner is alive. A socket that does not
/// answer and has no locked lock file was left behind, and is replaced.
#[derive(Debug)]
pub(super) struct BoundSocket {
    pub(super) socket: UnixListener,
    path: SocketPath,
    /// Device and inode of the socket's file, so that the drop does not remove the file of another
    /// socket.
    identity: (u64, u64),
    /// Locked while this exists.
    _lock: File,
}

impl BoundSocket {
    /// Listens at `path`.
    pub(super) fn bind(path: &SocketPath) -> Result<Self, BindError> {
        let error = |source: io::Error| bind_error(path, source);
        let lock = lock(path)?;
        let bound = remove_stale_socket(path).and_then(|()| listen(path.as_path()).map_err(error));
        let identity = |socket| {
            let file = fs::symlink_metadata(path.as_path()).map_err(error)?;
            Ok((socket, (file.dev(), file.ino())))
        };
        match bound.and_then(identity) {
            Ok((socket, identity)) => Ok(Self {
                socket,
                path: path.clone(),
                identity,
                _lock: lock,
            }),
            Err(error) => {
                let _ = fs::remove_file(lock_path(path));
                Err(error)
            }
        }
    }

    pub(super) fn path(&self) -> &SocketPath {
        &self.path
    }
}

impl Drop for BoundSocket {
    fn drop(&mut self) {
        // Removes the file, so that clients find no socket to connect to. A file that cannot be
        // removed stays behind, as after an engine was killed.
        let file = fs::symlink_metadata(self.path.as_path());
        if file.is_ok_and(|file| (file.dev(), file.ino()) == self.identity) {
            let _ = fs::remove_file(self.path.as_path());
        }
        let _ = fs::remove_file(lock_path(&self.path));
    }
}

fn lock_path(path: &SocketPath) -> PathBuf {
    PathBuf::from(format!("{path}.lock"))
}

/// Creates and locks the lock file beside the socket; fails if another process has locked it.
fn lock(path: &SocketPath) -> Result<File, BindError> {
    let name = lock_path(path);
    for _ in 0..LOCK_ATTEMPTS {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(SOCKET_MODE)
            // Otherwise a link placed there by another user would cause a different file to be
            // locked or created.
            .custom_flags(OFlags::NOFOLLOW.bits() as i32)
            .open(&name)
            .map_err(|source| bind_error(path, source))?;
        let is_ours = |file: &fs::Metadata| file.is_file() && file.uid() == own_uid();
        if !file.metadata().is_ok_and(|file| is_ours(&file)) {
            let source = io::Error::other("its lock file does not belong to this user");
            return Err(bind_error(path, source));
        }
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(BindError::SocketInUse { path: path.clone() });
            }
            Err(TryLockError::Error(source)) => return Err(bind_error(path, source)),
        }
        // Its previous owner may have removed the file between opening and locking.
        let locked = file.metadata().map(|file| (file.dev(), file.ino()));
        let current = fs::symlink_metadata(&name).map(|file| (file.dev(), file.ino()));
        if matches!((locked, current), (Ok(locked), Ok(current)) if locked == current) {
            return Ok(file);
        }
    }
    Err(BindError::SocketInUse { path: path.clone() })
}

/// Removes a socket that was left behind. Called with the lock file locked.
fn remove_stale_socket(path: &SocketPath) -> Result<(), BindError> {
    let file = match fs::symlink_metadata(path.as_path()) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(bind_error(path, source)),
    };
    if !file.file_type().is_socket() {
        return Err(BindError::NotASocket { path: path.clone() });
    }
    // A program that does not use lock files may listen there.
    match try_connect(path.as_path()) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            fs::remove_file(path.as_path()).map_err(|source| bind_error(path, source))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(source) if source.kind() == ErrorKind::PermissionDenied => {
            Err(bind_error(path, source))
        }
        _ => Err(BindError::SocketInUse { path: path.clone() }),
    }
}

/// Connects to determine whether a program listens. Does not wait for a program whose queue is
/// full.
fn try_connect(path: &Path) -> io::Result<()> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.connect(&SockAddr::unix(path)?)
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&SockAddr::unix(path)?)?;
    // No client can connect before the socket listens, so its initial mode does not matter.
    let listening = fs::set_permissions(path, Permissions::from_mode(SOCKET_MODE))
        .and_then(|()| socket.listen(BACKLOG))
        .and_then(|()| socket.set_nonblocking(true));
    if let Err(error) = listening {
        let _ = fs::remove_file(path);
        return Err(error);
    }
    Ok(UnixListener::from(OwnedFd::from(socket)))
}

fn bind_error(path: &SocketPath, source: io::Error) -> BindError {
    let path = path.clone();
    match source.kind() {
        ErrorKind::AddrInUse => BindError::SocketInUse { path },
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            BindError::SocketDenied { path, source }
        }
        ErrorKind::NotFound | ErrorKind::NotADirectory => BindError::NoFolder { path },
        _ => BindError::SocketIo { path, source },
    }
}
