//! Reports the events of a stream endpoint on standard error.

use std::borrow::Cow;
use std::fmt::{Display, Formatter, Result};
use std::time::Duration;

use trunkline::stream::StreamError;

use super::problem;
use super::units::{bytes_text, per_second, rate_text};
use crate::counted;
use crate::output::record::{JsonSchema, Notice, Serialize};
use crate::output::values::Amount;
use crate::terminal::escaped;

/// A line of `stream write` or `stream read` on standard error: a change of a connection, or the final
/// summary.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[schemars(title = "Trunkline stream event, version 1")]
pub(crate) enum StreamEvent {
    /// The stream continues from its journal.
    StreamJournal {
        /// URL of this endpoint.
        url: String,
        /// Number of elements that earlier programs have written or read.
        elements: u64,
    },
    /// A peer is connected.
    StreamConnected {
        /// URL of this endpoint.
        url: String,
        /// URL of the peer.
        peer: String,
        /// Transport of the connection; left out if there may be several.
        #[serde(skip_serializing_if = "Option::is_none")]
        transport: Option<&'static str>,
        /// Type of the elements.
        #[serde(rename = "type")]
        data_type: String,
        /// Another connected writer has the same name, and the output cannot distinguish them. Left
        /// out otherwise.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        #[schemars(extend("const" = true))]
        same_name: bool,
        #[serde(skip)]
        is_again: bool,
    },
    /// The connection with the only peer was lost.
    StreamDisconnected {
        /// URL of this endpoint.
        url: String,
        /// URL of the peer.
        peer: String,
        /// The cause, in a sentence.
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        #[serde(skip)]
        is_writer: bool,
    },
    /// After Ctrl-C: the elements already written are being delivered.
    StreamDelivering {
        /// URL of this endpoint.
        url: String,
        /// Number of elements that are not delivered yet.
        elements: u64,
        #[serde(skip)]
        limit: Duration,
    },
    /// The disk of the journal accepts no elements.
    StreamDiskFull {
        /// URL of this endpoint.
        url: String,
        /// The cause, in a sentence.
        message: String,
    },
    /// The disk of the journal accepts elements again.
    StreamDiskBack {
        /// URL of this endpoint.
        url: String,
    },
    /// The writer has dropped elements because this endpoint was too slow.
    StreamLost {
        /// URL of this endpoint.
        url: String,
        /// Number of elements that were read before the first gap.
        before: u64,
        /// Number of missing elements.
        elements: u64,
        /// Number of gaps, which are places at which elements are missing.
        #[schemars(range(min = 1))]
        places: u64,
    },
    /// One of several readers has left, or was disconnected at the end.
    StreamReader {
        /// URL of this endpoint.
        url: String,
        /// URL of the peer.
        peer: String,
        /// Number of elements that were written but are not known to have reached the reader.
        left: u64,
        /// Number of elements of `left` that were in transit when the connection was lost. The
        /// reader may have received them.
        in_doubt: u64,
        /// Number of elements that were dropped because the reader was too slow.
        lost: u64,
        #[serde(flatten)]
        why: Why,
    },
    /// One of several writers has ended.
    StreamWriter {
        /// URL of this endpoint.
        url: String,
        /// URL of the peer.
        peer: String,
        /// Number of elements that were read from this writer.
        elements: u64,
        #[serde(flatten)]
        why: Why,
    },
    /// The summary of `stream write`.
    Written {
        #[serde(flatten)]
        moved: Transferred,
        /// Number of elements that are not known to have reached the reader. For several readers,
        /// the sum over all readers except those that were destroyed by their own programs.
        #[serde(skip_serializing_if = "Option::is_none")]
        left: Option<u64>,
        /// Number of elements of `left` that were in transit when the connection was lost. The
        /// reader may have received them.
        #[serde(skip_serializing_if = "Option::is_none")]
        in_doubt: Option<u64>,
        /// For an endpoint with several readers, the number of readers that have connected.
        #[serde(skip_serializing_if = "Option::is_none")]
        readers: Option<u64>,
        /// For an endpoint with several readers, the number of elements that they lost because they
        /// were too slow.
        #[serde(skip_serializing_if = "Option::is_none")]
        lost: Option<u64>,
        /// Number of elements in the journal that are not known to have reached the reader.
        #[serde(skip_serializing_if = "Option::is_none")]
        kept: Option<u64>,
    },
    /// The summary of `stream read`.
    Read {
        #[serde(flatten)]
        moved: Transferred,
        /// Number of elements that had arrived but were not read.
        unread: u64,
        /// Number of elements that the writer dropped because this endpoint was too slow.
        lost: u64,
        /// For an endpoint with several writers, the number of writers that have ended.
        #[serde(skip_serializing_if = "Option::is_none")]
        ended: Option<u64>,
    },
}

/// The reason why a peer has left.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Why {
    /// Code of the reason. Left out for a reader that stayed to the end, and for a writer that was
    /// closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<Cow<'static, str>>,
    /// The reason, as a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip)]
    sentence: String,
}

impl From<Option<StreamError>> for Why {
    fn from(error: Option<StreamError>) -> Self {
        error.map_or_else(Self::default, |error| {
            let problem = problem(&error);
            Self {
                sentence: format!("; {}", problem.sentence()),
                code: Some(problem.code),
                message: Some(problem.message),
            }
        })
    }
}

/// Amount of data that an endpoint has transferred.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Transferred {
    /// URL of this endpoint.
    pub(super) url: String,
    /// Number of elements written or read.
    pub(super) elements: u64,
    /// Size of these elements, in bytes.
    pub(super) bytes: u64,
    /// Seconds since the endpoints were connected.
    pub(super) seconds: Amount,
    /// Number of times that the connection was lost.
    pub(super) disconnections: u64,
}

impl Notice for StreamEvent {
    fn text(&self) -> String {
        escaped(&self.to_string())
    }
}

impl Display for StreamEvent {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::StreamJournal { url, elements } => {
                write!(f, "{url} resuming after element {elements}")
            }
            Self::StreamConnected {
                url,
                peer,
                transport,
                same_name,
                is_again,
                ..
            } => {
                let connected = match is_again {
                    true => "reconnected",
                    false => "connected",
                };
                write!(f, "{url} {connected} to {peer}")?;
                match transport.filter(|_| !is_again) {
                    Some(transport) => write!(f, " ({transport})"),
                    None if *same_name => f.write_str(
                        ", which has the same name as another writer: the output cannot \
                         distinguish them; give each writer its own name",
                    ),
                    None => Ok(()),
                }
            }
            Self::StreamDisconnected {
                url,
                peer,
                message,
                is_writer,
            } => {
                let cause = message.as_ref().map(|cause| format!(" ({cause})"));
                let cause = cause.unwrap_or_default();
                let consequence = match is_writer {
                    true => "elements can still be written until the buffer is full",
                    false => "elements that have arrived can still be read",
                };
                write!(f, "{url}: connection to {peer} lost{cause}; {consequence}")
            }
            Self::StreamDelivering {
                elements, limit, ..
            } => {
                let (elements, limit) = (counted(*elements, "element"), limit.as_secs());
                write!(
                    f,
                    "interrupted: delivering {elements} for up to {limit} s; press Ctrl-C again to \
                     stop without delivering them"
                )
            }
            Self::StreamDiskFull { url, message } => write!(f, "{url} waits: {message}"),
            Self::StreamDiskBack { url } => {
                write!(
                    f,
                    "{url} continues: the journal's disk is accepting data again"
                )
            }
            Self::StreamLost {
                before,
                elements,
                places,
                ..
            } => {
                let elements = counted(*elements, "element");
                let at = match places {
                    1 => String::new(),
                    places => format!(" at {places} places"),
                };
                write!(
                    f,
                    "{elements} missing after the first {before}{at}: this endpoint was too slow \
                     for its writer, which does not wait"
                )
            }
            Self::StreamReader {
                peer,
                left,
                in_doubt,
                lost,
                why,
                ..
            } => {
                let left = counted(*left, "element");
                let in_doubt = in_transit_text(*in_doubt);
                let lost = match lost {
                    0 => String::new(),
                    count => format!("; the reader was too slow and lost {count}"),
                };
                match why.code {
                    None => write!(f, "{peer}: {left} not delivered{in_doubt}{lost}"),
                    Some(_) => write!(
                        f,
                        "{peer} has left: {left} had not arrived{in_doubt}{lost}{}",
                        why.sentence
                    ),
                }
            }
            Self::StreamWriter {
                peer,
                elements,
                why,
                ..
            } => {
                let read = counted(*elements, "element");
                write!(f, "{peer} has ended: {read} read{}", why.sentence)
            }
            Self::Written {
                moved,
                left,
                in_doubt,
                readers,
                lost,
                kept,
            } => {
                moved.sum_up("written", f)?;
                if let Some(readers) = readers {
                    write!(f, "; {} connected", counted(*readers, "reader"))?;
                }
                if let Some(left) = left {
                    let in_doubt = in_transit_text(in_doubt.unwrap_or_default());
                    write!(f, "; {} not delivered{in_doubt}", counted(*left, "element"))?;
                }
                if let Some(lost @ 1..) = lost {
                    write!(f, "; {lost} were lost by readers that were too slow")?;
                }
                if let Some(kept) = kept {
                    write!(f, "; {} in the journal", counted(*kept, "element"))?;
                }
                Ok(())
            }
            Self::Read {
                moved,
                unread,
                lost,
                ended,
            } => {
                moved.sum_up("read", f)?;
                if *unread > 0 {
                    write!(f, "; {unread} that had arrived were not read")?;
                }
                if *lost > 0 {
                    write!(f, "; {lost} were lost because this endpoint was too slow")?;
                }
                if let Some(ended) = ended {
                    write!(f, "; {} ended", counted(*ended, "writer"))?;
                }
                Ok(())
            }
        }
    }
}

impl Transferred {
    /// Writes the beginning of the summary; `done` is the verb, such as `written`.
    fn sum_up(&self, done: &str, f: &mut Formatter<'_>) -> Result {
        let Amount(seconds) = self.seconds;
        let elapsed = Duration::from_secs_f64(seconds);
        write!(
            f,
            "{} {done} ({}) in {seconds:.3} s: {:.0} elements/s, {}",
            counted(self.elements, "element"),
            bytes_text(self.bytes as f64),
            per_second(self.elements, elapsed),
            rate_text(per_second(self.bytes, elapsed)),
        )?;
        match self.disconnections {
            0 => Ok(()),
            count => write!(f, ", {}", counted(count, "disconnection")),
        }
    }
}

fn in_transit_text(in_doubt: u64) -> String {
    match in_doubt {
        0 => String::new(),
        count => format!(" ({count} in transit)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise a peer could print lines that look like those of this command.
    #[test]
    fn texts_of_a_peer_stay_in_one_line() {
        let text = "out\nerror: forged\u{1b}[5m";
        let connected = StreamEvent::StreamConnected {
            url: "tl://localhost/in".to_owned(),
            peer: text.to_owned(),
            transport: Some("TCP"),
            data_type: "f64".to_owned(),
            same_name: false,
            is_again: false,
        };
        let aborted = problem(&StreamError::Aborted {
            missing: 0,
            reason: text.to_owned(),
        });
        for shown in [connected.text(), aborted.message] {
            assert!(shown.contains("\\nerror: forged"), "{shown}");
            assert!(!shown.contains(['\n', '\u{1b}']), "{shown}");
        }
    }
}
