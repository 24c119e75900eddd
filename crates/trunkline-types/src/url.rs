//! Parses and formats URLs, which consist of the address of an engine and a name in that engine.
//!
//! ```text
//! tl://plant7:5850/boiler/level#units
//!      ------                          host: alias, DNS name, IPv4, or IPv6 in brackets
//!             ----                     port, 5850 if omitted
//!                  ------------------  name, pattern, or library
//! tl:///boiler/level                   this machine or the selected context
//! boiler/level                         same as tl:///boiler/level
//! tl+tcp://plant7/boiler/level         over TCP, even if a better transport is available
//! tl+unix:///run/plant.sock/boiler/level
//!          ---------------              a Unix socket, whose path ends in .sock
//! tl+shm:///run/plant.sock/boiler/level  shared memory, set up through this Unix socket
//! ```
//!
//! The host is not case-sensitive and is stored in lower case; the name is stored in the form of
//! [`Name`].

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use crate::address::{SOCKET_ENDING, SocketPath, SocketPathError};
use crate::name::{NAME_BYTES_MAX, Name, NameError, Wildcards, canonicalize};
use crate::text::clip;

/// The default TCP port for variables, the directory and streams.
pub const DEFAULT_PORT: u16 = 5850;

/// A URL, parsed from text or built from its parts.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Url {
    /// The transport of the connection.
    pub via: Transport,
    /// Host in lower case. An IPv6 address has no brackets. `None` means this machine or the
    /// selected context.
    pub host: Option<String>,
    /// Port; `None` for [`DEFAULT_PORT`].
    pub port: Option<u16>,
    /// A full name, a pattern or a single segment, in canonical form. Only the rules common to all
    /// three have been checked: pass it to [`Name::parse`] or
    /// [`Pattern::parse`](crate::Pattern::parse).
    pub name: Option<String>,
}

/// The transport of a connection.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Transport {
    /// `tl://`: the best transport. On the same machine this is shared memory or a Unix socket,
    /// otherwise TCP.
    #[default]
    Best,
    /// `tl+tcp://`: TCP.
    Tcp,
    /// `tl+unix://`: this Unix socket; the URL then has no host and no port.
    Unix(SocketPath),
    /// `tl+shm://`: shared memory, set up through this Unix socket. Without shared memory, the
    /// connection fails.
    Shared(SocketPath),
}

/// The text is not a valid URL.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UrlError {
    /// The text is empty.
    #[error("the URL is empty: write tl://host/library/path or library/path")]
    Empty,
    /// The scheme is none of `tl`, `tl+tcp`, `tl+unix` and `tl+shm`.
    #[error(
        "unknown URL scheme {scheme:?}; use tl://HOST, tl://HOST:PORT or tl://HOST/LIBRARY/PATH"
    )]
    Scheme {
        /// The part before the colon.
        scheme: String,
    },
    /// The URL has `user@` before the host.
    #[error("a URL cannot contain a user or a password: leave out the part before '@'")]
    UserInfo,
    /// The host is not a valid DNS name or address.
    #[error(
        "{host:?} is not a host: write a name, an IPv4 address, or an IPv6 address in brackets"
    )]
    Host {
        /// The part given as host, shortened.
        host: String,
    },
    /// The port is not a number from 1 to 65535.
    #[error("{port:?} is not a port: write a number from 1 to 65535")]
    Port {
        /// The part given as port, shortened.
        port: String,
    },
    #[error("{0}; write the URL as in tl+unix:///path/of/a.sock/library/path")]
    Socket(#[from] SocketPathError),
    #[error(transparent)]
    Name(#[from] NameError),
}

impl Url {
    /// Parses a URL or a bare name.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        if text.is_empty() {
            return Err(UrlError::Empty);
        }
        let Some((scheme, rest)) = strip_scheme(text)? else {
            return Ok(Self {
                name: Some(parse_name(text)?),
                ..Self::default()
            });
        };
        match scheme {
            Scheme::Unix => return parse_socket(rest, Transport::Unix),
            Scheme::Shared => return parse_socket(rest, Transport::Shared),
            Scheme::Plain | Scheme::Tcp => {}
        }
        let (authority, name) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = parse_authority(authority)?;
        let via = match scheme {
            Scheme::Tcp => Transport::Tcp,
            _ => Transport::Best,
        };
        let name = if name.is_empty() {
            None
        } else {
            Some(parse_name(name)?)
        };
        Ok(Self {
            via,
            host,
            port,
            name,
        })
    }

    /// Creates the URL of this variable on this machine or in the selected context.
    pub fn of(name: &Name) -> Self {
        Self {
            name: Some(name.as_str().to_owned()),
            ..Self::default()
        }
    }

    /// Creates the URL of this variable at a host, which is an alias, a DNS name or an address; an
    /// IPv6 address may be given with or without brackets.
    pub fn at(host: &str, port: Option<u16>, name: &Name) -> Result<Self, UrlError> {
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        let host = if bare.contains(':') {
            parse_ipv6(bare)?
        } else {
            parse_host(host)?
        };
        Ok(Self {
            host: Some(host),
            port,
            ..Self::of(name)
        })
    }

    /// Returns the URL of the engine, without the name.
    #[must_use]
    pub fn without_name(self) -> Self {
        Self { name: None, ..self }
    }

    /// Returns true if the URL names an engine explicitly, rather than this machine or the selected
    /// context.
    pub fn has_engine(&self) -> bool {
        self.host.is_some() || matches!(self.via, Transport::Unix(_) | Transport::Shared(_))
    }

    /// Returns the port, or [`DEFAULT_PORT`] if the URL has none.
    pub fn port_or_default(&self) -> u16 {
        self.port.unwrap_or(DEFAULT_PORT)
    }
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        Self::parse(text)
    }
}

/// Always writes the scheme, so that [`Url::parse`] returns an equal URL.
impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.via {
            Transport::Best => "tl://",
            Transport::Tcp => "tl+tcp://",
            Transport::Unix(_) => "tl+unix://",
            Transport::Shared(_) => "tl+shm://",
        })?;
        if let Transport::Unix(path) | Transport::Shared(path) = &self.via {
            path.fmt(f)?;
        }
        match self.host.as_deref() {
            Some(host) if host.contains(':') => write!(f, "[{host}]")?,
            host => f.write_str(host.unwrap_or_default())?,
        }
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        match &self.name {
            Some(name) => write!(f, "/{name}"),
            None => Ok(()),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Plain,
    Tcp,
    Unix,
    Shared,
}

/// Splits off the scheme; `None` if the text is a bare name.
fn strip_scheme(text: &str) -> Result<Option<(Scheme, &str)>, UrlError> {
    let Some((scheme, rest)) = text.split_once(':') else {
        return Ok(None);
    };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    let known_scheme = match scheme.to_ascii_lowercase().as_str() {
        "tl" => Some(Scheme::Plain),
        "tl+tcp" => Some(Scheme::Tcp),
        "tl+unix" => Some(Scheme::Unix),
        "tl+shm" => Some(Scheme::Shared),
        _ => None,
    };
    match (known_scheme, rest.strip_prefix("//")) {
        (Some(scheme), Some(rest)) => Ok(Some((scheme, rest))),
        (None, Some(_)) if is_scheme => Err(UrlError::Scheme {
            scheme: clip(scheme),
        }),
        // `tl:/x` is treated as a typo, not as a library called `tl:`.
        (Some(_), None) => Err(UrlError::Scheme {
            scheme: format!("{scheme}:"),
        }),
        (None, _) => Ok(None),
    }
}

/// Parses the path of a socket, up to the first segment that ends in `.sock`, and the name after
/// it.
fn parse_socket(text: &str, via: fn(SocketPath) -> Transport) -> Result<Url, UrlError> {
    let mut end = text.len();
    for (at, _) in text.match_indices('/').skip(1) {
        if text[..at].ends_with(SOCKET_ENDING) {
            end = at;
            break;
        }
    }
    let (path, name) = text.split_at(end);
    let name = name.strip_prefix('/').unwrap_or_default();
    let name = match name.is_empty() {
        true => None,
        false => Some(parse_name(name)?),
    };
    Ok(Url {
        via: via(SocketPath::parse(path)?),
        name,
        ..Url::default()
    })
}

fn parse_name(text: &str) -> Result<String, NameError> {
    canonicalize(text, NAME_BYTES_MAX, Wildcards::Allowed).map(|name| name.into_owned())
}

fn parse_authority(text: &str) -> Result<(Option<String>, Option<u16>), UrlError> {
    let (host, rest) = parse_authority_host(text)?;
    match rest.strip_prefix(':') {
        // With more than one colon, this is an IPv6 address without brackets.
        Some(port) if port.contains(':') => Err(bad_host(text)),
        Some(port) => Ok((host, Some(parse_port(port)?))),
        None if rest.is_empty() => Ok((host, None)),
        None => Err(bad_host(text)),
    }
}

/// Parses the host. Also returns the text after the host, which is empty or begins with a colon.
pub(crate) fn parse_authority_host(text: &str) -> Result<(Option<String>, &str), UrlError> {
    if text.contains('@') {
        return Err(UrlError::UserInfo);
    }
    if let Some(rest) = text.strip_prefix('[') {
        let (address, rest) = rest.split_once(']').ok_or_else(|| bad_host(text))?;
        return Ok((Some(parse_ipv6(address)?), rest));
    }
    let (host, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
    match host.is_empty() {
        true => Ok((None, rest)),
        false => Ok((Some(parse_host(host)?), rest)),
    }
}

fn parse_host(text: &str) -> Result<String, UrlError> {
    let labels = text.strip_suffix('.').unwrap_or(text).split('.');
    let fits = text.len() <= HOST_BYTES_MAX
        && text.chars().all(is_host_char)
        && labels.into_iter().all(|label| !label.is_empty());
    if fits {
        Ok(text.to_ascii_lowercase())
    } else {
        Err(bad_host(text))
    }
}

/// Parses an IPv6 address without brackets, with or without a zone; the zone's name is
/// case-sensitive.
fn parse_ipv6(text: &str) -> Result<String, UrlError> {
    let (address, zone) = text.split_at(text.find('%').unwrap_or(text.len()));
    let zone_fits = match zone.strip_prefix('%') {
        Some(zone) => !zone.is_empty() && zone.len() <= 64 && zone.chars().all(is_host_char),
        None => true,
    };
    if address.parse::<Ipv6Addr>().is_err() || !zone_fits {
        return Err(bad_host(text));
    }
    Ok(address.to_ascii_lowercase() + zone)
}

fn bad_host(text: &str) -> UrlError {
    UrlError::Host { host: clip(text) }
}

fn is_host_char(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '-' | '.' | '_')
}

pub(crate) fn parse_port(text: &str) -> Result<u16, UrlError> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse::<u16>() {
        Ok(port) if digits && port > 0 => Ok(port),
        _ => Err(UrlError::Port { port: clip(text) }),
    }
}

/// Longest DNS name, in bytes.
const HOST_BYTES_MAX: usize = 253;

#[cfg(test)]
mod tests;
