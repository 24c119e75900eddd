//! `limits`: shows the limits of an engine and their usage.

use std::collections::HashMap;

use trunkline::Client;
use trunkline_access::policy::ACCOUNTS_MAX;
use trunkline_identity::password::{VERIFICATIONS_MAX, WAITING_MAX};
use trunkline_identity::token::{JOINS_WRONG_MAX, PENDING_MAX, TOKEN_LIFETIME};
use trunkline_proto::limits::{HELLO_DEADLINE, HELLO_FRAME_MAX};
use trunkline_types::Value;
use trunkline_types::control::{
    CONTROL_FOLDERS_MAX, CONTROL_OF_IDENTITY_MAX, CONTROL_WAITING_MAX,
    CONTROL_WAITING_OF_IDENTITY_MAX,
};
use trunkline_types::name::NAME_BYTES_MAX;
use trunkline_types::pattern::PATTERN_BYTES_MAX;
use trunkline_types::wire::VALUE_BYTES_MAX;

use crate::connection::{Connection, open_options};
use crate::output::record::{JsonSchema, Record, Serialize};
use crate::output::values::{ValueStyle, WideInt};
use crate::terminal::Style;
use crate::{CliError, Context, Exit};

/// Show the limits of an engine, and how much of each is in use
///
/// The usage shown is the engine's newest measurement; by default, the engine measures it once per
/// second. An engine that does not measure itself (health = 0) reports no usage, and only three
/// limits: items, writes and write bytes of a session. A dash means that the figure is not counted,
/// has no limit of its own, or is not reported by the engine. The column key names the key under
/// engine.limits in the configuration that sets the limit. A limit without a key is fixed;
/// subscriptions have no limit. Fixed limits are those of this program; an engine of another
/// version may have different ones.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {}

/// For each limit: its name, the engine's variables with its usage and its maximum, its unit, and
/// the key that sets it.
#[rustfmt::skip]
const LIMITS: [(&str, &str, &str, &str, &str); 30] = [
    ("sessions", "sessions", "sessions_max", "", "sessions_max"),
    ("sessions of an account", "", "", "", "sessions_max"),
    ("connections without login", "handshakes", "handshakes_max", "", "handshakes_max"),
    ("connections of an address", "", "connections_per_address", "1/s", "connections_per_address"),
    ("login", "", "", "s", ""),
    ("frame before login", "", "", "B", ""),
    ("password checks at a time", "", "", "", ""),
    ("waiting password checks", "", "", "", ""),
    ("wrong tokens per minute", "", "", "", ""),
    ("unused joining tokens", "", "", "", ""),
    ("lifetime of a joining token", "", "", "s", ""),
    ("accounts", "", "", "", ""),
    ("controlled folders", "", "", "", ""),
    ("controlled folders of an identity", "", "", "", ""),
    ("waiting requests for a folder", "", "", "", ""),
    ("waiting requests of an identity for a folder", "", "", "", ""),
    ("queued", "queued", "queued_max", "B", "queue_bytes_max"),
    ("queued of a session", "", "", "B", "queue_bytes_per_session_max"),
    ("requests and items", "requested", "requested_max", "B", "request_bytes_max"),
    ("items of a session", "", "", "", "items_per_session_max"),
    ("writes of a session", "", "", "", "writes_per_session_max"),
    ("write bytes of a session", "", "", "B", "write_bytes_per_session_max"),
    ("variables", "variables", "", "", "variables_max"),
    ("slots", "slots", "slots_max", "", ""),
    ("open fields", "fields", "fields_max", "", ""),
    ("subscriptions", "subscriptions", "", "", ""),
    ("value", "", "", "B", ""),
    ("name", "", "", "B", ""),
    ("pattern", "", "", "B", ""),
    ("group", "", "", "", ""),
];

/// A line of `limits`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Trunkline limit, version 1")]
pub(crate) struct Limit {
    /// Name of the limit, or of a figure without a limit.
    limit: &'static str,
    /// Current usage; null if it is not counted, or if the engine does not report it.
    used: Option<WideInt>,
    /// Maximum; null if there is no separate limit, or if the engine does not report it.
    max: Option<WideInt>,
    /// Unit: B for bytes, s for seconds, 1/s for a rate. Left out for counts.
    #[serde(skip_serializing_if = "str::is_empty")]
    unit: &'static str,
    /// The key under [engine.limits] that sets it. Left out for fixed limits.
    #[serde(skip_serializing_if = "str::is_empty")]
    key: &'static str,
    #[serde(skip)]
    is_near: bool,
}

impl Record for Limit {
    const COLUMNS: &'static [&'static str] = &["limit", "used", "max", "unit", "key"];

    fn style(&self) -> Style {
        match self.is_near {
            true => Style::Warning,
            false => Style::Plain,
        }
    }
}

pub(crate) fn run(_args: &Args, context: &Context) -> Result<Exit, CliError> {
    let connection = Connection::to_engine(context)?;
    context.list(limits(&connection, context.settings.values)?)?;
    Ok(Exit::Success)
}

fn limits(connection: &Connection, values: ValueStyle) -> Result<Vec<Limit>, CliError> {
    let session = connection.call(Client::wait_connected)?;
    let measured = measured(connection)?;
    let number = |name: &str| *measured.get(&format!("_engine/{name}"))?;
    // Usage of nine tenths or more is near the limit.
    let is_near = |(used, max): (u64, u64)| used.saturating_mul(10) >= max.saturating_mul(9);
    let limits = LIMITS.iter().map(|(limit, used, max, unit, key)| {
        let used = number(used);
        let max = number(max).or(match *limit {
            "items of a session" => Some(u64::from(session.items_max)),
            "writes of a session" => Some(u64::from(session.writes_max)),
            "write bytes of a session" => Some(u64::from(session.write_bytes_max)),
            "sessions of an account" => number("sessions_max").map(|max| (max / 2).max(1)),
            "login" => Some(HELLO_DEADLINE.as_secs()),
            "frame before login" => Some(u64::from(HELLO_FRAME_MAX)),
            "password checks at a time" => Some(VERIFICATIONS_MAX as u64),
            "waiting password checks" => Some(WAITING_MAX as u64),
            "wrong tokens per minute" => Some(JOINS_WRONG_MAX as u64),
            "unused joining tokens" => Some(PENDING_MAX as u64),
            "lifetime of a joining token" => Some(TOKEN_LIFETIME.as_secs()),
            "accounts" => Some(ACCOUNTS_MAX as u64),
            "controlled folders" => Some(CONTROL_FOLDERS_MAX as u64),
            "controlled folders of an identity" => Some(CONTROL_OF_IDENTITY_MAX as u64),
            "waiting requests for a folder" => Some(CONTROL_WAITING_MAX as u64),
            "waiting requests of an identity for a folder" => {
                Some(CONTROL_WAITING_OF_IDENTITY_MAX as u64)
            }
            "value" => Some(VALUE_BYTES_MAX as u64),
            "name" => Some(NAME_BYTES_MAX as u64),
            "pattern" => Some(PATTERN_BYTES_MAX as u64),
            "group" => Some(trunkline::GROUP_MAX as u64),
            _ => None,
        });
        Limit {
            limit,
            used: used.map(|number| values.int_or_text(number)),
            max: max.map(|number| values.int_or_text(number)),
            unit,
            key,
            is_near: used.zip(max).is_some_and(is_near),
        }
    });
    Ok(limits.collect())
}

/// Returns the engine's measurements by name; `None` for those that the engine does not report.
fn measured(connection: &Connection) -> Result<HashMap<String, Option<u64>>, CliError> {
    let names = LIMITS.iter().flat_map(|(_, used, max, ..)| [*used, *max]);
    let names = names.filter(|name| !name.is_empty());
    let names: Vec<String> = names.map(|name| format!("_engine/{name}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let opened = connection.open(&names, open_options(true, false))?;
    let measured = names.iter().zip(opened).map(|(name, opened)| {
        // If the variable is missing, the engine does not make this measurement.
        let reading = opened.ok().and_then(|opened| opened.reading);
        let number = match reading.map(|reading| reading.sample.value) {
            // The engine reports an absent limit as the largest number.
            Some(Value::U64(number)) if number < u64::MAX => Some(number),
            _ => None,
        };
        (name.to_string(), number)
    });
    Ok(measured.collect())
}
