//! Events that `monitor` reports in addition to readings.

use std::borrow::Cow;
use std::fmt::{Display, Formatter, Result};

use crate::output::record::{JsonSchema, Notice, Serialize};
use crate::output::values::WideInt;
use crate::terminal::Style;

/// An event of `monitor`, on standard error.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum MonitorEvent {
    /// The engine is not running; the command waits for it.
    Waiting {
        /// Stable code of the cause.
        code: Cow<'static, str>,
        /// The cause, in a sentence.
        message: String,
    },
    /// The connection was lost.
    Disconnected {
        /// Stable code of the cause.
        code: &'static str,
        /// The cause, in a sentence.
        message: String,
        /// Whether the client reconnects automatically.
        reconnecting: bool,
    },
    /// The connection was restored.
    Connected {
        /// Number of the session, which the engine assigns.
        session: WideInt,
        /// Identifies the current run of the engine.
        epoch: WideInt,
        /// Whether the engine was restarted or replaced in the meantime.
        restarted: bool,
        /// Identifies the engine's store; without a store, it changes at each start.
        #[schemars(extend("pattern" = "^[0-9a-f]{32}$"))]
        engine_id: String,
        #[serde(skip)]
        address: String,
        /// True if the engine has a different store, or none.
        #[serde(skip)]
        is_replaced: bool,
    },
    /// The engine ended a subscription.
    Ended {
        /// Name of the variable.
        name: String,
        /// The cause, in a sentence.
        message: String,
        /// Updates not delivered. Null when the number is unknown.
        lost: Option<WideInt>,
    },
    /// A variable that matches a pattern appeared.
    Appeared {
        /// Name of the variable.
        name: String,
        /// The type of its values.
        #[serde(rename = "type")]
        data_type: String,
    },
    /// A variable was removed.
    Gone {
        /// Name of the variable.
        name: String,
    },
    /// A pattern matches nothing yet.
    NoMatch {
        /// The pattern.
        name: String,
    },
}

/// Prefix of messages; redundant after `connection lost`.
const PEER_CLOSED: &str = "the peer closed the connection: ";

impl Notice for MonitorEvent {
    fn style(&self) -> Style {
        match self {
            Self::Waiting { .. } | Self::NoMatch { .. } => Style::Warning,
            Self::Disconnected { .. } | Self::Ended { .. } | Self::Gone { .. } => Style::Bad,
            Self::Connected { .. } | Self::Appeared { .. } => Style::Good,
        }
    }
}

impl Display for MonitorEvent {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("*** ")?;
        match self {
            Self::Waiting { message, .. } => write!(f, "{message}; waiting for the engine"),
            Self::Disconnected {
                message,
                reconnecting,
                ..
            } => {
                let consequence = if *reconnecting {
                    "reconnecting automatically"
                } else {
                    "not reconnecting"
                };
                let message = message.strip_prefix(PEER_CLOSED).unwrap_or(message);
                write!(f, "connection lost: {message}; {consequence}")
            }
            Self::Connected {
                restarted,
                address,
                is_replaced,
                ..
            } => {
                write!(f, "reconnected to {address}")?;
                match (restarted, is_replaced) {
                    (_, true) => f.write_str(
                        ": the engine was restarted, without the data of its previous run",
                    ),
                    (true, false) => f.write_str(", which was restarted"),
                    (false, false) => Ok(()),
                }
            }
            Self::Ended {
                name,
                message,
                lost,
            } => {
                write!(f, "{name}: {message}")?;
                match lost {
                    Some(lost) => write!(f, " (lost={lost})"),
                    None => Ok(()),
                }
            }
            Self::Appeared { name, data_type } => write!(f, "{name} appeared ({data_type})"),
            Self::Gone { name } => write!(f, "{name} is gone"),
            Self::NoMatch { name } => {
                write!(
                    f,
                    "no name matches {name} yet; waiting for variables to appear"
                )
            }
        }
    }
}
