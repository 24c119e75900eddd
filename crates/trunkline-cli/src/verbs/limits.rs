//! `limits`: shows the limits of an engine, and their usage.

use serde_json::Value as Json;
use trunkline::OpenOptions;
use trunkline_types::Value;
use trunkline_types::name::NAME_BYTES_MAX;
use trunkline_types::pattern::PATTERN_BYTES_MAX;
use trunkline_types::wire::VALUE_BYTES_MAX;

use super::{Context, Verb};
use crate::connection::Connection;
use crate::exit::Exit;
use crate::output::json::Object;
use crate::output::records::{Records, Row};
use crate::problem::Stop;
use crate::targets;
use crate::terminal::Mood;

/// Show the limits of an engine and their usage
///
/// The usage is the engine's newest measurement; by default, it measures itself once per second. An
/// engine that does not measure itself (health = 0) reports no usage, and of the limits only those
/// of items, writes and write bytes of a session. A dash marks what is not reported; the key under
/// engine.limits is shown anyway. A limit without a key is fixed. Fixed limits are those of this
/// program; an engine of another version may have different ones.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) const VERB: Verb = Verb::reading(
    "limits",
    &[
        Exit::Done,
        Exit::Usage,
        Exit::Unreachable,
        Exit::TimedOut,
        Exit::Interrupted,
    ],
);

/// The engine's own measurements, in the order of the request.
const MEASURED: [&str; 12] = [
    "_engine/sessions",
    "_engine/sessions_max",
    "_engine/variables",
    "_engine/slots",
    "_engine/slots_max",
    "_engine/fields",
    "_engine/fields_max",
    "_engine/subscriptions",
    "_engine/queued",
    "_engine/queued_max",
    "_engine/requested",
    "_engine/requested_max",
];

/// A quantity that is bounded, or at least counted.
struct Limit {
    name: &'static str,
    used: Option<u64>,
    max: Option<u64>,
    unit: &'static str,
    /// The configuration key that sets it; empty if it is fixed.
    key: &'static str,
}

pub(crate) fn run(_args: &Args, context: &Context) -> Result<Exit, Stop> {
    crate::interrupt::end_process_on_interrupt(&context.terminal)?;
    let connection = Connection::new(&targets::engine(&context.settings)?, context)?;
    let columns = &["limit", "used", "max", "unit", "key"];
    let mut records = Records::new(&context.settings, &context.terminal, columns)?.headed();
    for limit in limits(&connection)? {
        records.push(row(&limit, context))?;
    }
    records.finish()?;
    Ok(Exit::Done)
}

fn limits(connection: &Connection) -> Result<Vec<Limit>, Stop> {
    let [
        sessions,
        sessions_max,
        variables,
        slots,
        slots_max,
        fields,
        fields_max,
        subscriptions,
        queued,
        queued_max,
        requested,
        requested_max,
    ] = measured(connection)?;
    let session = connection.client.wait_connected(connection.timeout());
    let session = session.map_err(|error| connection.failed(&error))?;
    let limit = |name, used, max, unit, key| Limit {
        name,
        used,
        max,
        unit,
        key,
    };
    let fixed = |name, max: usize, unit| limit(name, None, Some(max as u64), unit, "");
    let told = |max: u32| Some(u64::from(max));
    Ok(vec![
        limit("sessions", sessions, sessions_max, "", "sessions_max"),
        limit("queued", queued, queued_max, "B", "queue_bytes_max"),
        limit(
            "queued of a session",
            None,
            None,
            "B",
            "queue_bytes_per_session_max",
        ),
        limit(
            "requests and items",
            requested,
            requested_max,
            "B",
            "request_bytes_max",
        ),
        limit(
            "items of a session",
            None,
            told(session.items_max),
            "",
            "items_per_session_max",
        ),
        limit(
            "writes of a session",
            None,
            told(session.writes_max),
            "",
            "writes_per_session_max",
        ),
        limit(
            "write bytes of a session",
            None,
            told(session.write_bytes_max),
            "B",
            "write_bytes_per_session_max",
        ),
        limit("variables", variables, None, "", "variables_max"),
        limit("slots", slots, slots_max, "", ""),
        limit("open fields", fields, fields_max, "", ""),
        limit("subscriptions", subscriptions, None, "", ""),
        fixed("value", VALUE_BYTES_MAX, "B"),
        fixed("name", NAME_BYTES_MAX, "B"),
        fixed("pattern", PATTERN_BYTES_MAX, "B"),
        fixed("group", trunkline::GROUP_MAX, ""),
    ])
}

/// Returns the values of [`MEASURED`]; `None` for those that the engine does not report.
fn measured(connection: &Connection) -> Result<[Option<u64>; MEASURED.len()], Stop> {
    let options = OpenOptions {
        read: true,
        ..OpenOptions::default()
    };
    let mut values = [None; MEASURED.len()];
    let opened = connection.open(&MEASURED, options)?;
    for (value, opened) in values.iter_mut().zip(opened) {
        // A missing variable is a measurement that the engine does not make.
        let reading = opened.ok().and_then(|opened| opened.reading);
        let sample = reading.map(|reading| reading.sample);
        *value = match sample.map(|sample| sample.value) {
            // The engine reports an absent limit as the largest number.
            Some(Value::U64(number)) if number < u64::MAX => Some(number),
            _ => None,
        };
    }
    Ok(values)
}

fn row(limit: &Limit, context: &Context) -> Row {
    let values = context.settings.values;
    let text = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |n| n.to_string());
    let json = |number: Option<u64>| number.map_or(Json::Null, |number| values.json_u64(number));
    let mut object = Object::new();
    object.put("limit", limit.name);
    object.put("used", json(limit.used));
    object.put("max", json(limit.max));
    object.put_text("unit", limit.unit);
    object.put_text("key", limit.key);
    // Nine tenths of a limit count as near it.
    let is_near = |(used, max): (u64, u64)| used.saturating_mul(10) >= max.saturating_mul(9);
    let mood = match limit.used.zip(limit.max).is_some_and(is_near) {
        true => Mood::Uncertain,
        false => Mood::Plain,
    };
    Row {
        cells: vec![
            limit.name.to_owned(),
            text(limit.used),
            text(limit.max),
            limit.unit.to_owned(),
            limit.key.to_owned(),
        ],
        object,
        mood,
    }
}
