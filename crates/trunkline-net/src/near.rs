//! Where the Unix sockets lie that are named after ports: how a program on the same machine finds
//! a better way to an engine than its TCP port, without being told.

use std::fs::{self, DirBuilder};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use crate::dial::Dialler;
use trunkline_types::SocketPath;

use crate::unix::{self, own_uid};

/// The folder of this user's sockets: `$XDG_RUNTIME_DIR/trunkline`, or where that is not set
/// `trunkline-UID` in the system's folder for temporary files.
pub fn folder() -> PathBuf {
    let given = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    match given.filter(|path| path.is_absolute()) {
        Some(path) => path.join("trunkline"),
        None => std::env::temp_dir().join(format!("trunkline-{}", own_uid())),
    }
}

/// That folder, made if it is missing; `None` unless it is this user's and nobody else's.
pub fn prepared_folder() -> Option<PathBuf> {
    let folder = folder();
    // It may be there already; what it is counts.
    let _ = DirBuilder::new().mode(0o700).create(&folder);
    let found = fs::symlink_metadata(&folder).ok()?;
    let is_private = found.is_dir() && found.uid() == own_uid() && found.mode() & 0o077 == 0;
    is_private.then_some(folder)
}

/// The socket in `sockets` (`None`: this user's folder) that is named after a port.
pub fn socket(sockets: Option<&Path>, port: u16) -> Option<SocketPath> {
    let socket = sockets.map_or_else(folder, Path::to_owned);
    let socket = socket.join(format!("{port}.sock"));
    SocketPath::parse(socket.to_str()?).ok()
}

/// Connects to the socket in `sockets` (`None`: this user's folder) that is named after a port, for
/// calls that block. Nobody but a program of this user is accepted there: the folder may be one of
/// temporary files, where anybody can be first.
///
/// # Errors
/// Nobody is there, it is another user's, or it is too busy.
pub fn connect(sockets: Option<&Path>, port: u16) -> std::io::Result<UnixStream> {
    let path = socket(sockets, port).ok_or(std::io::ErrorKind::NotFound)?;
    let (stream, _) = unix::connect(path.as_path())?;
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// How to reach a port of `host`: on this machine by the socket that is named after it.
pub fn dialler(sockets: Option<&Path>, host: &str, port: u16) -> Dialler {
    let is_here = host == "localhost" || host.parse() == Ok(IpAddr::V4(Ipv4Addr::LOCALHOST));
    match socket(sockets, port).filter(|_| is_here) {
        Some(socket) => Dialler::near(socket, host, port),
        None => Dialler::tcp(host, port),
    }
}
