//! Parses and formats the addresses at which an engine listens: a TCP port or a Unix socket.
//!
//! ```text
//! 127.0.0.1:5850                         TCP
//! unix:/run/user/1000/trunkline/a.sock   Unix socket: absolute, ends in .sock
//! ```

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::str::FromStr;

use crate::text::clip;

/// Maximum length of the path of a Unix socket, in bytes: the size of a Linux socket address without
/// the terminating zero byte.
pub const SOCKET_PATH_BYTES_MAX: usize = 107;

/// The path of a Unix socket: absolute, at most [`SOCKET_PATH_BYTES_MAX`] bytes, and ending in
/// `.sock`, so that a URL can append a name to it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SocketPath(String);

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ListenAddress {
    /// An IP address and TCP port; port 0 selects any free port.
    Tcp(SocketAddr),
    Unix(SocketPath),
}

/// The text is not a valid path of a Unix socket.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SocketPathError {
    /// The path does not begin with `/`.
    #[error(
        "{path:?} is not an absolute path: write it from the root, such as /run/user/1000/plant.sock"
    )]
    Relative {
        /// The path as given, shortened.
        path: String,
    },
    /// The path does not end in `.sock`, or its last segment is only `.sock`.
    #[error("{path:?} does not end in .sock, as the path of a Unix socket must")]
    Ending {
        /// The path as given, shortened.
        path: String,
    },
    #[error(
        "the path of the Unix socket is {bytes} bytes long, and the limit is {SOCKET_PATH_BYTES_MAX}: \
         choose a folder with a shorter path"
    )]
    TooLong {
        /// Length of the path, in bytes.
        bytes: usize,
    },
    /// The path contains a control character or one of `#`, `*`, `%` and `?`.
    #[error(
        "the path of a Unix socket contains {character:?}, which is reserved: choose another name"
    )]
    Character { character: char },
    /// A segment is `.`, `..` or empty.
    #[error("{path:?} contains \".\", \"..\" or \"//\"; write the path without them")]
    NotNormalized {
        /// The path as given, shortened.
        path: String,
    },
}

/// The text is neither an IP address with a port nor a Unix socket.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ListenAddressError {
    /// The text is not an IP address with a port.
    #[error(
        "{text:?} is not an address: write one such as 127.0.0.1:5850, or unix:/path/of/a.sock"
    )]
    Address {
        /// The text as given, shortened.
        text: String,
    },
    /// The path after `unix:` is not valid.
    #[error(transparent)]
    Socket(#[from] SocketPathError),
}

impl SocketPath {
    /// Checks the path of a Unix socket.
    pub fn parse(text: &str) -> Result<Self, SocketPathError> {
        let path = || clip(text);
        let Some(relative_path) = text.strip_prefix('/') else {
            return Err(SocketPathError::Relative { path: path() });
        };
        let is_reserved = |c: &char| c.is_control() || matches!(c, '#' | '*' | '%' | '?');
        if let Some(character) = text.chars().find(is_reserved) {
            return Err(SocketPathError::Character { character });
        }
        let mut segments = relative_path.split('/');
        if segments.any(|segment| matches!(segment, "" | "." | "..")) {
            return Err(SocketPathError::NotNormalized { path: path() });
        }
        if !text.ends_with(SOCKET_ENDING) || text.ends_with("/.sock") {
            return Err(SocketPathError::Ending { path: path() });
        }
        if text.len() > SOCKET_PATH_BYTES_MAX {
            return Err(SocketPathError::TooLong { bytes: text.len() });
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns the path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the path as a `Path`.
    pub fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }
}

/// The ending that every socket path has.
pub(crate) const SOCKET_ENDING: &str = ".sock";

/// The prefix that marks a socket path where an address is expected.
const UNIX_PREFIX: &str = "unix:";

impl ListenAddress {
    /// Returns the IP address and port; `None` for a Unix socket.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            ListenAddress::Tcp(address) => Some(*address),
            ListenAddress::Unix(_) => None,
        }
    }

    /// Parses a Unix socket; returns `None` if the text does not begin with `unix:`.
    pub fn parse_unix(text: &str) -> Option<Result<Self, SocketPathError>> {
        let path = text.strip_prefix(UNIX_PREFIX)?;
        Some(SocketPath::parse(path).map(ListenAddress::Unix))
    }
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        ListenAddress::Tcp(address)
    }
}

impl From<SocketPath> for ListenAddress {
    fn from(path: SocketPath) -> Self {
        ListenAddress::Unix(path)
    }
}

impl FromStr for ListenAddress {
    type Err = ListenAddressError;

    fn from_str(text: &str) -> Result<Self, ListenAddressError> {
        if let Some(socket) = Self::parse_unix(text) {
            return Ok(socket?);
        }
        let address = text.parse::<SocketAddr>();
        address
            .map(ListenAddress::Tcp)
            .map_err(|_| ListenAddressError::Address { text: clip(text) })
    }
}

impl FromStr for SocketPath {
    type Err = SocketPathError;

    fn from_str(text: &str) -> Result<Self, SocketPathError> {
        Self::parse(text)
    }
}

impl fmt::Display for SocketPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The form used in configuration files.
impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddress::Tcp(address) => address.fmt(f),
            ListenAddress::Unix(path) => write!(f, "{UNIX_PREFIX}{path}"),
        }
    }
}

#[cfg(test)]
mod tests;
