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
        /// Stable word for the cause.
        code: Cow<'static, str>,
        /// The cause, in a sentence.
        message: String,
    },
    /// The connection was lost.
    Disconnected {
        /// Stable word for the cause.
        code: &'static str,
        /// The cause, in a sentence.
        message: String,
        /// Whether the client reconnects by itself.
        reconnecting: bool,
    },
    /// The connection is back.
    Connected {
        /// Number that the engine gave the connection.
        session: WideInt,
        /// Identifies the start of the engine.
        epoch: WideInt,
        /// Whether the engine was restarted in between, or is another one.
        restarted: bool,
        /// Identifies the engine's store; without a store, it differs at each start.
        #[schemars(extend("pattern" = "^[0-9a-f]{32}$"))]
        engine_id: String,
        #[serde(skip)]
        address: String,
        /// The engine has a different store, or none.
        #[serde(skip)]
        is_replaced: bool,
    },
    /// The engine has ended a subscription.
    Ended {
        /// The variable.
        name: String,
        /// The cause, in a sentence.
        message: String,
        /// Updates not delivered. Null when the number is unknown.
        lost: Option<WideInt>,
    },
    /// A variable has appeared under a pattern.
    Appeared {
        /// The variable.
        name: String,
        /// The type of its values.
        #[serde(rename = "type")]
        data_type: String,
    },
    /// A variable is gone.
    Gone {
        /// The variable.
        name: String,
    },
    /// A pattern matches nothing yet.
    NoMatch {
        /// The pattern.
        name: String,
    },
}

/// A prefix that repeats what `connection lost` says.
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
