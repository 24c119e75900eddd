//! The reasons why connections end.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use trunkline_types::quality::Reason;

use crate::frame::FrameError;
use crate::message::closing::{Goodbye, Refused};
use crate::{FaultCode, VersionMismatch, VersionRange};

/// The reason why a connection ended or could not be established. It is shown to users unchanged:
/// the sentence names the party at fault and what to do next.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Disconnect {
    /// The other end closed the connection without a goodbye.
    #[error(
        "the peer closed the connection without giving a reason; it may have been stopped or killed"
    )]
    PeerClosed,
    /// The transport failed.
    #[error("{}", io_sentence(*kind, text))]
    Io {
        /// The kind of error that the system reported.
        kind: ErrorKind,
        /// The system's message.
        text: String,
    },
    /// The host name could not be resolved.
    #[error(
        "the host name \"{host}\" has no address ({text}); check the spelling, and that DNS resolves the name"
    )]
    NameLookup {
        /// The host name.
        host: String,
        /// The resolver's message.
        text: String,
    },
    /// The engine refused the connection.
    #[error("the engine refused the connection: {}", one_line(sentence))]
    Refused {
        /// The reason, for programs.
        code: FaultCode,
        /// The reason, in the engine's words.
        sentence: String,
        /// The time after which the client should dial again, if the engine requests one.
        retry_after: Option<Duration>,
    },
    /// The other end closed the connection in an orderly way.
    #[error("the peer closed the connection: {}", one_line(sentence))]
    Goodbye {
        /// The reason, for programs.
        code: FaultCode,
        /// The reason, in the other end's words.
        sentence: String,
        /// The time after which this end should dial again, if the other end requests one.
        retry_after: Option<Duration>,
    },
    /// Nothing arrived from the other end within the keep-alive deadline.
    #[error(
        "nothing arrived from the peer for {:.1} s; its machine or program has stalled, or the network between the two is down", silent_for.as_secs_f64()
    )]
    Dead {
        /// Time since the last bytes arrived.
        silent_for: Duration,
    },
    /// The encrypted connection could not be set up: the certificate of the other end is not
    /// acceptable, or the other end does not accept TLS 1.3.
    #[error("the encrypted connection cannot be set up: {sentence}")]
    Tls {
        /// The reason, and what to do about it.
        sentence: String,
    },
    /// The program that listens at the port of this machine does not run as the user of this program,
    /// or the system does not report its user.
    #[error("{}", other_user(address, *uid, *own, *is_engine))]
    OtherUser {
        /// The address of the port.
        address: SocketAddr,
        /// The user of the program that listens; `None` if the system does not report it.
        uid: Option<u32>,
        /// The user of this program.
        own: u32,
        /// An engine was expected there, which may also run as the user of the service.
        is_engine: bool,
    },
    /// The other end violated the protocol.
    #[error("the peer violated the protocol ({sentence}); its program is at fault")]
    Malformed {
        /// Description of the violation.
        sentence: String,
    },
    /// The program at the other end is not Trunkline.
    #[error(
        "the peer does not speak Trunkline's protocol (its first bytes were {first_bytes}); check the host and the port"
    )]
    NotTrunkline {
        /// Printable form of the first bytes received.
        first_bytes: String,
    },
    /// The protocol versions of the two programs do not overlap.
    #[error("{0}")]
    VersionMismatch(VersionMismatch),
    /// A frame, or the hello, did not arrive in time.
    #[error(
        "the peer did not send a complete {what} within {:.1} s; the peer or the network has stalled", deadline.as_secs_f64()
    )]
    Slow {
        /// "frame", "hello" or "request".
        what: &'static str,
        /// The time allowed.
        deadline: Duration,
    },
    /// This end does not have enough memory for the data that the other end sends.
    #[error("{sentence}")]
    OutOfMemory {
        /// What the memory is for, and how to provide more.
        sentence: String,
    },
    /// This end closed the connection.
    #[error("the connection was closed by this program")]
    ClosedLocally,
}

/// Time after which a client dials again if the encrypted connection could not be set up, or if a program of
/// another user listens. A person must act first, at this machine or at the other one; the connection then
/// recovers automatically.
const REMEDY_RETRY_AFTER: Duration = Duration::from_secs(5);

/// Time after which a peer may reconnect if it was refused because memory was exhausted.
const MEMORY_RETRY_AFTER: Duration = Duration::from_secs(1);

impl Disconnect {
    /// Returns true if dialling again may succeed without further action. Returns false if a person
    /// must act first, so that the client reports the failure at once instead of retrying
    /// indefinitely, or if this end closed the connection itself.
    pub fn may_retry(&self) -> bool {
        match self {
            Disconnect::VersionMismatch(_) | Disconnect::NotTrunkline { .. } => false,
            Disconnect::Refused { code, .. } | Disconnect::Goodbye { code, .. } => {
                !matches!(code, FaultCode::Denied | FaultCode::VersionMismatch)
            }
            Disconnect::ClosedLocally => false,
            Disconnect::PeerClosed
            | Disconnect::Io { .. }
            | Disconnect::NameLookup { .. }
            | Disconnect::Dead { .. }
            | Disconnect::Tls { .. }
            | Disconnect::OtherUser { .. }
            | Disconnect::Malformed { .. }
            | Disconnect::Slow { .. }
            | Disconnect::OutOfMemory { .. } => true,
        }
    }

    /// Returns the time after which to dial again, if the other end requested one or the cause calls
    /// for a longer time than usual.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Disconnect::Refused { retry_after, .. } | Disconnect::Goodbye { retry_after, .. } => {
                *retry_after
            }
            Disconnect::Tls { .. } | Disconnect::OtherUser { uid: Some(_), .. } => {
                Some(REMEDY_RETRY_AFTER)
            }
            Disconnect::PeerClosed
            | Disconnect::Io { .. }
            | Disconnect::NameLookup { .. }
            | Disconnect::Dead { .. }
            | Disconnect::OtherUser { uid: None, .. }
            | Disconnect::Malformed { .. }
            | Disconnect::NotTrunkline { .. }
            | Disconnect::VersionMismatch(_)
            | Disconnect::Slow { .. }
            | Disconnect::OutOfMemory { .. }
            | Disconnect::ClosedLocally => None,
        }
    }

    /// Returns the quality reason for readings that arrived over this connection.
    pub fn quality_reason(&self) -> Reason {
        match self {
            Disconnect::NameLookup { .. } => Reason::NameLookupFailed,
            Disconnect::Io {
                kind: ErrorKind::ConnectionRefused,
                ..
            } => Reason::ProcessMissing,
            Disconnect::Io { kind, .. } if is_unreachable(*kind) => Reason::HostUnreachable,
            Disconnect::Refused {
                code: FaultCode::Denied,
                ..
            }
            | Disconnect::Goodbye {
                code: FaultCode::Denied,
                ..
            }
            | Disconnect::OtherUser { .. } => Reason::AccessDenied,
            Disconnect::VersionMismatch(_) => Reason::VersionMismatch,
            Disconnect::Refused { .. } | Disconnect::Tls { .. } | Disconnect::ClosedLocally => {
                Reason::NotConnected
            }
            Disconnect::PeerClosed
            | Disconnect::Io { .. }
            | Disconnect::Goodbye { .. }
            | Disconnect::Dead { .. }
            | Disconnect::Malformed { .. }
            | Disconnect::NotTrunkline { .. }
            | Disconnect::Slow { .. }
            | Disconnect::OutOfMemory { .. } => Reason::ConnectionLost,
        }
    }

    /// Returns the goodbye that informs the other end why this end is closing the connection;
    /// `None` if the other end would not read it.
    pub fn goodbye(&self) -> Option<Goodbye> {
        let (code, sentence) = match self {
            Disconnect::Dead { .. } | Disconnect::Slow { .. } => {
                let code = FaultCode::PeerSilent;
                (code, code.meaning().to_owned())
            }
            Disconnect::Malformed { sentence } => (
                FaultCode::Malformed,
                format!("this program violated the protocol: {sentence}"),
            ),
            Disconnect::OutOfMemory { sentence } => (FaultCode::MemoryFull, sentence.clone()),
            Disconnect::PeerClosed
            | Disconnect::Io { .. }
            | Disconnect::NameLookup { .. }
            | Disconnect::Refused { .. }
            | Disconnect::Goodbye { .. }
            | Disconnect::Tls { .. }
            | Disconnect::OtherUser { .. }
            | Disconnect::NotTrunkline { .. }
            | Disconnect::VersionMismatch(_)
            | Disconnect::ClosedLocally => return None,
        };
        Some(Goodbye {
            code,
            retry_after: (code == FaultCode::MemoryFull).then_some(MEMORY_RETRY_AFTER),
            sentence,
        })
    }

    /// Converts a refusal received by a client that speaks `ours`.
    pub fn from_refused(refused: &Refused, ours: VersionRange) -> Self {
        if refused.code == FaultCode::VersionMismatch {
            let engine = refused.versions;
            return Disconnect::VersionMismatch(VersionMismatch {
                engine,
                client: ours,
            });
        }
        let Refused {
            code,
            retry_after,
            ref sentence,
            ..
        } = *refused;
        Disconnect::Refused {
            code,
            sentence: sentence.clone(),
            retry_after,
        }
    }
}

impl From<Goodbye> for Disconnect {
    fn from(goodbye: Goodbye) -> Self {
        let Goodbye {
            code,
            retry_after,
            sentence,
        } = goodbye;
        Disconnect::Goodbye {
            code,
            sentence,
            retry_after,
        }
    }
}

impl From<crate::DecodeError> for Disconnect {
    fn from(error: crate::DecodeError) -> Self {
        Disconnect::Malformed {
            sentence: error.to_string(),
        }
    }
}

impl From<FrameError> for Disconnect {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::NotTrunkline { first_bytes } => Disconnect::NotTrunkline {
                first_bytes: format!("\"{}\"", first_bytes.escape_ascii()),
            },
            FrameError::Slow { deadline } => Disconnect::Slow {
                what: "frame",
                deadline,
            },
            FrameError::NoMemory { .. } => Disconnect::OutOfMemory {
                sentence: format!("{error}; try again later, or give this program more memory"),
            },
            FrameError::TooLong { .. }
            | FrameError::MessageTooLong { .. }
            | FrameError::Extension { .. } => Disconnect::Malformed {
                sentence: error.to_string(),
            },
        }
    }
}

impl From<std::io::Error> for Disconnect {
    fn from(error: std::io::Error) -> Self {
        Disconnect::Io {
            kind: error.kind(),
            text: error.to_string(),
        }
    }
}

fn is_unreachable(kind: ErrorKind) -> bool {
    use ErrorKind::{HostUnreachable, NetworkUnreachable, TimedOut};
    matches!(kind, HostUnreachable | NetworkUnreachable | TimedOut)
}

/// Escapes control characters, above all the ends of lines: before the login, anyone can be the other
/// end, and its words must not look like further lines of this program.
fn one_line(sentence: &str) -> String {
    let mut line = String::with_capacity(sentence.len());
    for c in sentence.chars() {
        match c.is_control() {
            true => line.extend(c.escape_default()),
            false => line.push(c),
        }
    }
    line
}

fn other_user(address: &SocketAddr, uid: Option<u32>, own: u32, is_engine: bool) -> String {
    let user = match uid {
        Some(uid) => format!("as user {uid}"),
        None => "as a user that the system does not report".to_owned(),
    };
    let remedy = match is_engine {
        true => format!(
            "if it is the engine that you expect, join it with `trunkline join`; to accept the programs of all \
             users, connect to tl+tcp://{address}, or, for a stream, use `insecure`"
        ),
        false => "run both programs as the same user, let both use an engine, or, if you trust that program, \
                  permit other users with `insecure`"
            .to_owned(),
    };
    format!(
        "the program that listens at {address} runs {user}, and this program, which runs as user {own}, \
         has not sent it anything; {remedy}"
    )
}

fn io_sentence(kind: ErrorKind, text: &str) -> String {
    let advice = match kind {
        ErrorKind::ConnectionRefused => {
            // The path of a Unix socket; an IP address does not begin with a slash.
            let what = if text.starts_with('/') {
                "path"
            } else {
                "port"
            };
            return format!(
                "no program is listening there ({text}); start the engine, or check the {what}"
            );
        }
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted => {
            "the peer was stopped or killed, or a network device or link in between broke the connection"
        }
        kind if is_unreachable(kind) => {
            "the machine does not answer: is it on, and does the network reach it?"
        }
        ErrorKind::PermissionDenied => {
            "this machine does not allow the connection: check the firewall, or the permissions of the socket"
        }
        _ => return format!("the connection failed ({text})"),
    };
    format!("the connection failed ({text}); {advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_other_end_stay_on_their_line() {
        let refused = Disconnect::Refused {
            code: FaultCode::Denied,
            sentence: "no\n  run: \u{1b}[31mcurl".to_owned(),
            retry_after: None,
        };
        assert_eq!(
            refused.to_string(),
            "the engine refused the connection: no\\n  run: \\u{1b}[31mcurl"
        );
    }
}
