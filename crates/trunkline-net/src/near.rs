//! The Unix sockets named after TCP ports. Through them, a program on the same machine finds a
//! faster way to an engine without configuration.

use std::fs::{self, DirBuilder};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::dial::Dialler;
use trunkline_types::SocketPath;

use crate::transport::unix::own_uid;

/// Returns the folder of this user's sockets: `$XDG_RUNTIME_DIR/trunkline`, or if that is not set
/// `trunkline-UID` in the system's folder for temporary files.
pub fn folder() -> PathBuf {
    let runtime_folder = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    match runtime_folder.filter(|path| path.is_absolute()) {
        Some(path) => path.join("trunkline"),
        None => std::env::temp_dir().join(format!("trunkline-{}", own_uid())),
    }
}

/// Creates this user's folder of sockets if it is missing, and returns its path. Returns `None`
/// unless the folder is private to this user.
pub fn prepare_socket_folder() -> Option<PathBuf> {
    let folder = folder();
    // It may exist already; the check below decides.
    let _ = DirBuilder::new().mode(0o700).create(&folder);
    let metadata = fs::symlink_metadata(&folder).ok()?;
    let is_private =
        metadata.is_dir() && metadata.uid() == own_uid() && metadata.mode() & 0o077 == 0;
    is_private.then_some(folder)
}

/// Returns the path of the socket named after a port, in `sockets` or, for `None`, in this user's
/// folder.
pub fn socket(sockets: Option<&Path>, port: u16) -> Option<SocketPath> {
    let socket = sockets.map_or_else(folder, Path::to_owned);
    let socket = socket.join(format!("{port}.sock"));
    SocketPath::parse(socket.to_str()?).ok()
}

/// Creates a dialler for a port of `host`. If `host` is this machine, the dialler prefers the
/// socket named after the port.
pub fn dialler(sockets: Option<&Path>, host: &str, port: u16) -> Dialler {
    let is_here = host == "localhost" || host.parse() == Ok(IpAddr::V4(Ipv4Addr::LOCALHOST));
    match socket(sockets, port).filter(|_| is_here) {
        Some(socket) => Dialler::near(socket, host, port),
        None => Dialler::tcp(host, port),
    }
}
