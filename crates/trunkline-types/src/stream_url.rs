//! Parses and formats URLs of stream endpoints, which consist of machine, context and name.
//!
//! ```text
//! tl://plant7:5900:test bench/Subsystem A/stream 1
//!      ------                                      host: alias, DNS name, IPv4, or [IPv6];
//!                                                  empty: localhost
//!             ----                                 port, if it consists of digits: the endpoint
//!                                                  itself listens there
//!                  ----------                      context, otherwise: distinguishes programs on
//!                                                  one machine; empty if omitted
//!                             -------------------- name of the endpoint, one segment or more
//! //plant7/stream 1                                the scheme may be omitted
//! stream 1                                         the host may be omitted, too: localhost
//! ```
//!
//! URLs are not case-sensitive: the canonical form is in lower case. In a context and in a name,
//! `%` and two hexadecimal digits represent one byte of UTF-8. The canonical form escapes `/` and
//! `%`. In a context, it also escapes `:`, and the first digit if the context consists only of
//! digits.

use std::fmt;
use std::str::FromStr;

use crate::text::clip;
use crate::text::is_unprintable;
use crate::url::{UrlError, parse_authority_host, parse_port};

/// Maximum length of the URL of an endpoint in canonical form, in bytes.
pub const STREAM_URL_BYTES_MAX: usize = 1024;

/// The URL of an endpoint, in canonical form. If two endpoints name each other, the endpoint with
/// the lesser URL in this type's order opens the connections.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StreamUrl {
    host: String,
    context: String,
    /// Segments, unescaped; at least one, none empty.
    segments: Vec<String>,
    port: Option<u16>,
}

/// The text is not the URL of an endpoint.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StreamUrlError {
    #[error(transparent)]
    Url(#[from] UrlError),
    #[error("{text:?} does not name an endpoint: write tl://host/endpoint")]
    NoEndpoint {
        /// The URL, shortened.
        text: String,
    },
    /// The name has two consecutive slashes, or a slash at its end.
    #[error(
        "a part of the endpoint's name is empty: write single slashes between its parts, and none at the start or end"
    )]
    EmptySegment,
    /// More than a port and a context follow the host.
    #[error(
        "{authority:?} has more parts than host, port and context, in this order: write %3A for a \
         colon in the context"
    )]
    Authority {
        /// The part before the name, shortened.
        authority: String,
    },
    /// `%` is not followed by two hexadecimal digits, or the bytes are not UTF-8.
    #[error("{text:?} contains an invalid escape: write %25 for a percent sign")]
    Escape {
        /// The offending part, shortened.
        text: String,
    },
    /// A character that is invisible or that reorders the displayed text.
    #[error("the character U+{:04X} is not printable", u32::from(*character))]
    Unprintable { character: char },
    /// The URL is longer than `STREAM_URL_BYTES_MAX`.
    #[error("the URL has {bytes} bytes; {STREAM_URL_BYTES_MAX} is the limit")]
    TooLong {
        /// Length of the URL in bytes.
        bytes: usize,
    },
}

impl StreamUrl {
    /// Parses a URL, or the name of an endpoint on this machine.
    pub fn parse(text: &str) -> Result<Self, StreamUrlError> {
        if text.len() > STREAM_URL_BYTES_MAX * 3 {
            return Err(StreamUrlError::TooLong { bytes: text.len() });
        }
        let rest = strip_scheme(text)?;
        let (authority, path) = match rest {
            Some(rest) => rest.split_once('/').unwrap_or((rest, "")),
            None => ("", text),
        };
        if path.is_empty() {
            return Err(StreamUrlError::NoEndpoint { text: clip(text) });
        }
        let (host, rest) = parse_authority_host(authority)?;
        let (port, context) = parse_port_and_context(authority, rest)?;
        let segments: Result<Vec<String>, _> = path.split('/').map(unescape).collect();
        let segments = segments?;
        if segments.iter().any(String::is_empty) {
            return Err(StreamUrlError::EmptySegment);
        }
        let url = Self {
            host: host.unwrap_or_else(|| LOCALHOST.to_owned()),
            context,
            segments,
            port,
        };
        let bytes = url.to_string().len();
        if bytes > STREAM_URL_BYTES_MAX {
            return Err(StreamUrlError::TooLong { bytes });
        }
        Ok(url)
    }

    /// Returns the host in lower case, an IPv6 address without brackets; `localhost` if none was
    /// given.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port at which the endpoint itself listens; `None` if the directory knows its
    /// location.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Returns the context, unescaped; empty by default.
    pub fn context(&self) -> &str {
        &self.context
    }

    /// Returns the parts of the endpoint's name, unescaped; at least one.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().map(String::as_str)
    }

    /// Returns the name without the host and the context, in canonical form.
    pub fn path(&self) -> String {
        let text = self.to_string();
        let path = text.strip_prefix("tl://").unwrap_or(&text);
        path.split_once('/')
            .map_or(path, |(_, path)| path)
            .to_owned()
    }

    /// Returns the context and the name, which together identify an endpoint on its machine.
    pub fn endpoint(&self) -> (&str, &[String]) {
        (&self.context, &self.segments)
    }

    /// Returns the URL without host and port, under which the directory of the endpoint's machine
    /// lists the endpoint.
    pub fn within_host(&self) -> Self {
        Self {
            host: LOCALHOST.to_owned(),
            port: None,
            ..self.clone()
        }
    }

    /// Returns the same endpoint at another host, for passing a `localhost` URL to another machine.
    pub fn at_host(&self, host: &str) -> Result<Self, StreamUrlError> {
        let host = match host.contains(':') && !host.starts_with('[') {
            true => format!("[{host}]"),
            false => host.to_owned(),
        };
        let (host, rest) = parse_authority_host(&host)?;
        match (host, rest) {
            (Some(host), "") => Ok(Self {
                host,
                ..self.clone()
            }),
            _ => Err(UrlError::Host {
                host: String::new(),
            }
            .into()),
        }
    }

    /// Returns the endpoints whose names are proper prefixes of this name, shortest first.
    pub fn ancestors(&self) -> impl Iterator<Item = Self> {
        (1..self.segments.len()).map(|count| Self {
            segments: self.segments[..count].to_vec(),
            ..self.clone()
        })
    }

    /// Returns true if one name is a proper prefix of the other, part by part, in the same context
    /// at the same host and port. Only one of two such names may be in use.
    pub fn is_nested_with(&self, other: &Self) -> bool {
        let (shorter, longer) = match self.segments.len() < other.segments.len() {
            true => (self, other),
            false => (other, self),
        };
        shorter.segments.len() < longer.segments.len()
            && self.host == other.host
            && self.port == other.port
            && self.context == other.context
            && longer.segments.starts_with(&shorter.segments)
    }
}

const LOCALHOST: &str = "localhost";

impl FromStr for StreamUrl {
    type Err = StreamUrlError;

    fn from_str(text: &str) -> Result<Self, StreamUrlError> {
        Self::parse(text)
    }
}

/// Writes the canonical form.
impl fmt::Display for StreamUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "tl://[{}]", self.host)?,
            false => write!(f, "tl://{}", self.host)?,
        }
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        if !self.context.is_empty() {
            f.write_str(":")?;
            let digits = self.context.bytes().all(|byte| byte.is_ascii_digit());
            for (at, character) in self.context.char_indices() {
                escape(f, character, character == ':' || (digits && at == 0))?;
            }
        }
        for segment in &self.segments {
            f.write_str("/")?;
            for character in segment.chars() {
                escape(f, character, false)?;
            }
        }
        Ok(())
    }
}

fn escape(f: &mut fmt::Formatter<'_>, character: char, always: bool) -> fmt::Result {
    match always || matches!(character, '/' | '%') {
        // Each of these characters is a single byte.
        true => write!(f, "%{:02X}", u32::from(character)),
        false => write!(f, "{character}"),
    }
}

/// Returns the text after `tl://` or `//`; `None` if the text is a bare name.
fn strip_scheme(text: &str) -> Result<Option<&str>, StreamUrlError> {
    if let Some(rest) = text.strip_prefix("//") {
        return Ok(Some(rest));
    }
    match text.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("tl") => Ok(Some(rest)),
        Some((scheme, _)) if !scheme.contains('/') => Err(UrlError::Scheme {
            scheme: clip(scheme),
        }
        .into()),
        _ => Ok(None),
    }
}

/// Parses the text after the host: nothing, a port, a context, or both in this order.
fn parse_port_and_context(
    authority: &str,
    rest: &str,
) -> Result<(Option<u16>, String), StreamUrlError> {
    let Some(rest) = rest.strip_prefix(':') else {
        return match rest.is_empty() {
            true => Ok((None, String::new())),
            false => Err(UrlError::Host {
                host: clip(authority),
            }
            .into()),
        };
    };
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let parts: Vec<&str> = rest.splitn(3, ':').collect();
    match *parts.as_slice() {
        [port] if is_digits(port) => Ok((Some(parse_port(port)?), String::new())),
        [context] => Ok((None, unescape(context)?)),
        [port, context] if is_digits(port) && !is_digits(context) => {
            Ok((Some(parse_port(port)?), unescape(context)?))
        }
        _ => Err(StreamUrlError::Authority {
            authority: clip(authority),
        }),
    }
}

/// Decodes the escapes and converts the text to lower case.
fn unescape(text: &str) -> Result<String, StreamUrlError> {
    let bad = || StreamUrlError::Escape { text: clip(text) };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        match (digit(), digit()) {
            // Two hexadecimal digits are at most 255, so the cast is lossless.
            (Some(high), Some(low)) => bytes.push((high * 16 + low) as u8),
            _ => return Err(bad()),
        }
    }
    let text = String::from_utf8(bytes).map_err(|_| bad())?;
    // A second pass is necessary for a few characters whose lower-case form has a lower-case form.
    let lower = text.to_lowercase().to_lowercase();
    match lower.chars().find(|character| is_unprintable(*character)) {
        Some(character) => Err(StreamUrlError::Unprintable { character }),
        None => Ok(lower),
    }
}

#[cfg(test)]
mod tests;
