//! Where an engine listens: a TCP port, or a Unix socket.
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

/// Longest path of a socket in bytes: what fits into a socket address of Linux, with the zero byte
/// that ends it.
pub const SOCKET_PATH_BYTES_MAX: usize = 107;

/// The path of a Unix socket: absolute, at most [`SOCKET_PATH_BYTES_MAX`] bytes, and ending in
/// `.sock`, so that a URL can have a name behind it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SocketPath(String);

/// One place to listen at.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ListenAddress {
    /// A TCP port of an address; port 0 is any that is free.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(SocketPath),
}

/// The text is no path of a Unix socket.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketPathError {
    /// It does not begin with `/`.
    #[error("{path:?} is not a whole path: write it from the root, /run/user/1000/plant.sock")]
    Relative {
        /// What stands there, shortened.
        path: String,
    },
    /// It does not end in `.sock`.
    #[error(
        "{path:?} does not end in .sock: the path of a Unix socket does, which tells it from the \
         name of a variable behind it"
    )]
    Ending {
        /// What stands there, shortened.
        path: String,
    },
    /// It does not fit into a socket address.
    #[error(
        "the path of the Unix socket has {bytes} bytes, and the system takes {SOCKET_PATH_BYTES_MAX}: \
         choose a folder with a shorter path"
    )]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// A character that no path here may have.
    #[error("the path of a Unix socket has {character:?}, which is reserved: choose another name")]
    Character {
        /// Which one.
        character: char,
    },
    /// `.`, `..` or nothing between two slashes.
    #[error("{path:?} goes by way of . or .. or //: write the path without them")]
    Roundabout {
        /// What stands there, shortened.
        path: String,
    },
}

/// Neither an address nor a socket.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenAddressError {
    /// Not an IP address with a port.
    #[error("{text:?} is no address: write one such as 127.0.0.1:5850, or unix:/path/of/a.sock")]
    Address {
        /// What stands there, shortened.
        text: String,
    },
    /// What stands behind `unix:` is wrong.
    #[error(transparent)]
    Socket(#[from] SocketPathError),
}

impl SocketPath {
    /// Checks a path.
    ///
    /// # Errors
    /// [`SocketPathError`] says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, SocketPathError> {
        let path = || clip(text);
        let Some(below) = text.strip_prefix('/') else {
            return Err(SocketPathError::Relative { path: path() });
        };
        let is_reserved = |c: &char| c.is_control() || matches!(c, '#' | '*' | '%' | '?');
        if let Some(character) = text.chars().find(is_reserved) {
            return Err(SocketPathError::Character { character });
        }
        let mut segments = below.split('/');
        if segments.any(|segment| matches!(segment, "" | "." | "..")) {
            return Err(SocketPathError::Roundabout { path: path() });
        }
        if !text.ends_with(SOCKET_ENDING) || text.ends_with("/.sock") {
            return Err(SocketPathError::Ending { path: path() });
        }
        if text.len() > SOCKET_PATH_BYTES_MAX {
            return Err(SocketPathError::TooLong { bytes: text.len() });
        }
        Ok(Self(text.to_owned()))
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path.
    pub fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }
}

/// How the path of a socket ends.
pub(crate) const SOCKET_ENDING: &str = ".sock";

/// What stands before the path of a socket where an address is expected.
const UNIX_PREFIX: &str = "unix:";

impl ListenAddress {
    /// The address and port, unless it is a Unix socket.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            ListenAddress::Tcp(address) => Some(*address),
            ListenAddress::Unix(_) => None,
        }
    }

    /// A Unix socket, when the text begins with `unix:`.
    ///
    /// # Errors
    /// What is wrong with the path behind it.
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

/// As it is written in a configuration.
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
