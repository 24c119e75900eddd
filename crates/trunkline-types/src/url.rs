//! URLs: where an engine is, and a name there.
//!
//! ```text
//! tl://plant7:5850/boiler/level#units
//!      ------                          host: alias, DNS name, IPv4, or IPv6 in brackets
//!             ----                     port, 5850 when left out
//!                  ------------------  name, pattern, or library
//! tl:///boiler/level                   this machine or the selected context
//! boiler/level                         the same
//! ```
//!
//! The host is not case-sensitive and kept in lower case; the name is kept as [`Name`] keeps it.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use crate::name::{NAME_BYTES_MAX, Name, NameError, Stars, scan};
use crate::text::clip;

/// The port of variables, directory and streams.
pub const DEFAULT_PORT: u16 = 5850;

/// A parsed URL. Built at run time from its parts, or from text.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Url {
    /// Host in lower case, IPv6 without its brackets; `None` for this machine or the selected
    /// context.
    pub host: Option<String>,
    /// Port; `None` for [`DEFAULT_PORT`].
    pub port: Option<u16>,
    /// A full name, a pattern, or a single segment; canonical and checked as far as these agree:
    /// give it to [`Name::parse`] or [`Pattern::parse`](crate::Pattern::parse).
    pub name: Option<String>,
}

/// The text is not a URL.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// Nothing at all.
    #[error("the URL is empty: write tl://host/library/path or library/path")]
    Empty,
    /// Another scheme than `tl`.
    #[error("{scheme:?} is not a scheme of this system: write tl://host/library/path")]
    Scheme {
        /// What stands before the colon.
        scheme: String,
    },
    /// `user@` before the host.
    #[error("a URL carries no user and no password: leave out what stands before '@'")]
    UserInfo,
    /// A host that no machine can have.
    #[error(
        "{host:?} is not a host: write a name, an IPv4 address, or an IPv6 address in brackets"
    )]
    Host {
        /// What stands there, shortened.
        host: String,
    },
    /// Not a number from 1 to 65535.
    #[error("{port:?} is not a port: write a number from 1 to 65535")]
    Port {
        /// What stands there, shortened.
        port: String,
    },
    /// The part after the host.
    #[error(transparent)]
    Name(#[from] NameError),
}

impl Url {
    /// Parses a URL or a bare name.
    ///
    /// # Errors
    /// [`UrlError`] says which part is wrong.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        if text.is_empty() {
            return Err(UrlError::Empty);
        }
        let Some(rest) = strip_scheme(text)? else {
            return Ok(Self {
                name: Some(parse_name(text)?),
                ..Self::default()
            });
        };
        let (authority, name) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = parse_authority(authority)?;
        let name = if name.is_empty() {
            None
        } else {
            Some(parse_name(name)?)
        };
        Ok(Self { host, port, name })
    }

    /// The URL of this variable on this machine or in the selected context.
    pub fn of(name: &Name) -> Self {
        Self {
            name: Some(name.as_str().to_owned()),
            ..Self::default()
        }
    }

    /// The URL of this variable at a host: alias, DNS name or address, IPv6 with or without
    /// brackets.
    ///
    /// # Errors
    /// [`UrlError::Host`] when `host` is none of these.
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

    /// The port to connect to.
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

/// Always with scheme, so that [`Url::parse`] gives the same again.
impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SCHEME)?;
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

/// What follows `tl://`, or nothing when the text is a bare name.
fn strip_scheme(text: &str) -> Result<Option<&str>, UrlError> {
    let Some((scheme, rest)) = text.split_once(':') else {
        return Ok(None);
    };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    match (scheme.eq_ignore_ascii_case("tl"), rest.strip_prefix("//")) {
        (true, Some(rest)) => Ok(Some(rest)),
        (false, Some(_)) if is_scheme => Err(UrlError::Scheme {
            scheme: clip(scheme),
        }),
        // `tl:/x` is a slip of the pen, not a library called `tl:`.
        (true, None) => Err(UrlError::Scheme {
            scheme: format!("{scheme}:"),
        }),
        (false, _) => Ok(None),
    }
}

fn parse_name(text: &str) -> Result<String, NameError> {
    scan(text, NAME_BYTES_MAX, Stars::Allowed).map(|name| name.into_owned())
}

fn parse_authority(text: &str) -> Result<(Option<String>, Option<u16>), UrlError> {
    if text.contains('@') {
        return Err(UrlError::UserInfo);
    }
    let (host, rest) = if let Some(rest) = text.strip_prefix('[') {
        let (address, rest) = rest.split_once(']').ok_or_else(|| bad_host(text))?;
        (Some(parse_ipv6(address)?), rest)
    } else {
        let (host, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
        let host = if host.is_empty() {
            None
        } else {
            Some(parse_host(host)?)
        };
        (host, rest)
    };
    match rest.strip_prefix(':') {
        // More than one colon is an IPv6 address without its brackets.
        Some(port) if port.contains(':') => Err(bad_host(text)),
        Some(port) => Ok((host, Some(parse_port(port)?))),
        None if rest.is_empty() => Ok((host, None)),
        None => Err(bad_host(text)),
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

/// An IPv6 address without brackets, with or without a zone, whose name is case-sensitive.
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

fn parse_port(text: &str) -> Result<u16, UrlError> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse::<u16>() {
        Ok(port) if digits && port > 0 => Ok(port),
        _ => Err(UrlError::Port { port: clip(text) }),
    }
}

const SCHEME: &str = "tl://";
/// Longest DNS name.
const HOST_BYTES_MAX: usize = 253;

#[cfg(test)]
mod tests;
