//! Why a connection ended.

use std::io::ErrorKind;
use std::time::Duration;

use trunkline_types::quality::Reason;

use crate::frame_buffer::FrameError;
use crate::message::closing::{Goodbye, Refused};
use crate::{FaultCode, VersionMismatch, VersionRange};

/// Why a connection ended, or never came to be. Shown to people as it is: the sentence says who is
/// at fault and what to do next.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Disconnect {
    /// The other end closed the connection without a word.
    #[error(
        "the other end closed the connection without saying why; it may have been stopped or killed"
    )]
    PeerClosed,
    /// The transport failed.
    #[error("{}", io_sentence(*kind, text))]
    Io {
        /// What the system reported.
        kind: ErrorKind,
        /// The system's words.
        text: String,
    },
    /// The host's name has no address.
    #[error("the host name \"{host}\" has no address ({text}); check its spelling and the DNS")]
    NameLookup {
        /// The name.
        host: String,
        /// The resolver's words.
        text: String,
    },
    /// The engine refused the connection.
    #[error("the engine refused the connection: {sentence}")]
    Refused {
        /// Why.
        code: FaultCode,
        /// Why, in the engine's words.
        sentence: String,
        /// When it asks to be dialled again.
        retry_after: Option<Duration>,
    },
    /// The other end closed the connection in order.
    #[error("the other end closed the connection: {sentence}")]
    Goodbye {
        /// Why.
        code: FaultCode,
        /// Why, in its words.
        sentence: String,
        /// When it asks to be dialled again.
        retry_after: Option<Duration>,
    },
    /// Nothing came from the other end within the keep-alive deadline.
    #[error(
        "nothing came from the other end for {:.1} s; its machine or program stands still, or the \
         network between is cut", silent_for.as_secs_f64()
    )]
    Dead {
        /// How long.
        silent_for: Duration,
    },
    /// The other end sent something that is not the protocol.
    #[error("the other end does not keep to the protocol ({sentence}); its program is at fault")]
    Malformed {
        /// What it sent.
        sentence: String,
    },
    /// The other end is no Trunkline at all.
    #[error(
        "the program at the other end does not speak Trunkline's protocol (its first bytes were \
         {first_bytes}); check host and port"
    )]
    NotTrunkline {
        /// Printable form of its first bytes.
        first_bytes: String,
    },
    /// The two programs are of versions that do not work together.
    #[error("{0}")]
    VersionMismatch(VersionMismatch),
    /// A frame, or the hello, took too long to arrive.
    #[error(
        "the other end did not complete its {what} within {:.1} s; its program or the network \
         stands still", deadline.as_secs_f64()
    )]
    Slow {
        /// "frame" or "hello".
        what: &'static str,
        /// How long it had.
        deadline: Duration,
    },
    /// This end has no memory for what the other end sends.
    #[error("{sentence}")]
    OutOfMemory {
        /// What there is no memory for, and what to do.
        sentence: String,
    },
    /// This end closed the connection.
    #[error("the connection was closed by this program")]
    Local,
}

/// When a peer that there was no memory for may come again.
const MEMORY_RETRY_AFTER: Duration = Duration::from_secs(1);

impl Disconnect {
    /// Whether dialling again by itself can help. False only when a person must act first; a client
    /// says so at once instead of trying for ever.
    pub fn may_retry(&self) -> bool {
        match self {
            Disconnect::VersionMismatch(_) | Disconnect::NotTrunkline { .. } => false,
            Disconnect::Refused { code, .. } | Disconnect::Goodbye { code, .. } => {
                !matches!(code, FaultCode::Denied | FaultCode::VersionMismatch)
            }
            Disconnect::Local => false,
            _ => true,
        }
    }

    /// When the other end asked to be dialled again.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Disconnect::Refused { retry_after, .. } | Disconnect::Goodbye { retry_after, .. } => {
                *retry_after
            }
            _ => None,
        }
    }

    /// The reason of the quality that readings behind this connection have now.
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
            } => Reason::AccessDenied,
            Disconnect::VersionMismatch(_) => Reason::VersionMismatch,
            Disconnect::Refused { .. } | Disconnect::Local => Reason::NotConnected,
            _ => Reason::ConnectionLost,
        }
    }

    /// The goodbye that tells the other end why this end closes; `None` where it would not be read.
    pub fn goodbye(&self) -> Option<Goodbye> {
        let code = match self {
            Disconnect::Dead { .. } | Disconnect::Slow { .. } => FaultCode::PeerSilent,
            Disconnect::Malformed { .. } => FaultCode::Malformed,
            Disconnect::OutOfMemory { .. } => FaultCode::MemoryFull,
            _ => return None,
        };
        let sentence = match self {
            Disconnect::Malformed { sentence } => {
                format!("this program sent what is not the protocol: {sentence}")
            }
            Disconnect::OutOfMemory { sentence } => sentence.clone(),
            _ => code.meaning().to_owned(),
        };
        let is_full = matches!(self, Disconnect::OutOfMemory { .. });
        Some(Goodbye {
            code,
            retry_after: is_full.then_some(MEMORY_RETRY_AFTER),
            sentence,
        })
    }

    /// What a refusal means to a client that speaks `ours`.
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
            malformed => Disconnect::Malformed {
                sentence: malformed.to_string(),
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

fn io_sentence(kind: ErrorKind, text: &str) -> String {
    let advice = match kind {
        // The path of a Unix socket; an address begins otherwise.
        ErrorKind::ConnectionRefused if text.starts_with('/') => {
            "no program listens there: is the engine running, and is the path right?"
        }
        ErrorKind::ConnectionRefused => {
            "no program listens there: is the engine running, and is the port right?"
        }
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted => {
            "the other end was stopped or killed, or something between cut the connection"
        }
        kind if is_unreachable(kind) => {
            "the machine does not answer: is it on, and does the network reach it?"
        }
        ErrorKind::PermissionDenied => "this machine does not allow the connection",
        _ => "the system reported it for this connection",
    };
    format!("the connection failed ({text}); {advice}")
}
