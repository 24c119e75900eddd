//! `stream ls` and `stream info`: the endpoints in a directory, and the state of each.

use std::time::Duration;

use serde_json::Value as Json;
use trunkline::stream::StreamError;
use trunkline::stream::directory::{EndpointStatus, ListError, list};
use trunkline_types::{StreamUrl, Url};

use super::problem;
use super::units::counted_text;
use crate::exit::Exit;
use crate::output::json::Object;
use crate::output::records::{Records, Row};
use crate::problem::{Problem, Stop};
use crate::targets;
use crate::terminal::Mood;
use crate::verbs::{Context, Verb};

/// List the ends of streams on this machine, or on another
///
/// It shows the peer of each end, how full its buffer is and for how long, its rate, and the
/// program that runs it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LsArgs {
    /// The host, with a port if it is not the engine's (default: the host of --url)
    #[arg(value_name = "HOST")]
    host: Option<String>,
}

/// Show everything about one end
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct InfoArgs {
    /// The name or URL of the end
    #[arg(value_name = "URL")]
    end: String,
}

pub(super) const LS: Verb = Verb::reading(
    "ls",
    &[
        Exit::Done,
        Exit::SomeFailed,
        Exit::Usage,
        Exit::Unreachable,
        Exit::TimedOut,
        Exit::NotPermitted,
        Exit::Interrupted,
    ],
);

pub(super) const INFO: Verb = Verb::reading("info", LS.exits);

/// Lists the endpoints of a host.
pub(super) fn ls(args: &LsArgs, context: &Context) -> Result<Exit, Stop> {
    crate::interrupt::end_process_on_interrupt(&context.terminal)?;
    let place = match &args.host {
        Some(host) => host_of(host, &targets::engine(&context.settings)?)?,
        None => targets::engine(&context.settings)?,
    };
    let found = ask(&place, None, context)?;
    let columns = &[
        "endpoint",
        "direction",
        "state",
        "fill",
        "total",
        "rate",
        "disconnections",
        "type",
        "peer",
        "transport",
        "program",
        "pid",
    ];
    let mut records = Records::new(&context.settings, &context.terminal, columns)?.headed();
    for endpoint in &found {
        records.push(Row {
            cells: vec![
                name(&endpoint.url),
                direction(endpoint).to_owned(),
                state(endpoint),
                fill(endpoint),
                endpoint.total.to_string(),
                format!("{}/s", counted_text(endpoint.rate)),
                endpoint.disconnections.to_string(),
                endpoint.data_type.clone(),
                endpoint.peer.clone(),
                endpoint.transport.clone(),
                endpoint.program.clone(),
                pid(endpoint),
            ],
            object: object(endpoint),
            mood: mood(endpoint),
        })?;
    }
    records.finish()?;
    if found.is_empty() {
        context.remark("no endpoints")?;
    }
    Ok(Exit::Done)
}

/// Shows everything about one endpoint.
pub(super) fn info(args: &InfoArgs, context: &Context) -> Result<Exit, Stop> {
    crate::interrupt::end_process_on_interrupt(&context.terminal)?;
    let url = StreamUrl::parse(&args.end).map_err(|error| problem(&StreamError::Url(error)))?;
    let mut place = targets::engine(&context.settings)?;
    // The default is the engine that other verbs use.
    if args.end.contains("//") {
        place.port = url
            .port()
            .or(match place.host.as_deref() == Some(url.host()) {
                true => place.port,
                false => None,
            });
        place.host = Some(url.host().to_owned());
    }
    let only = url.within_host();
    let found = ask(&place, Some(&only), context)?;
    let Some(endpoint) = found.first() else {
        let sentence = "no such endpoint; `trunkline stream ls` lists the endpoints";
        let problem = Problem::new(Exit::SomeFailed, "unknown-endpoint", sentence);
        return context.show(&problem.of(&args.end), 0);
    };
    let mut records = Records::new(&context.settings, &context.terminal, &["property", "value"])?;
    if context.settings.is_json() {
        records.push(Row {
            cells: Vec::new(),
            object: object(endpoint),
            mood: Mood::Plain,
        })?;
        records.finish()?;
        return Ok(Exit::Done);
    }
    for (property, value, mood) in properties(endpoint) {
        if !value.is_empty() {
            records.push(Row {
                cells: vec![property.to_owned(), value],
                object: Object::new(),
                mood,
            })?;
        }
    }
    records.finish()?;
    Ok(Exit::Done)
}

/// Returns the place that a host refers to, with or without a port.
fn host_of(text: &str, engine: &Url) -> Result<Url, Problem> {
    let with_scheme = match text.contains("://") {
        true => text.to_owned(),
        false => format!("tl://{text}"),
    };
    let url = Url::parse(&with_scheme)
        .map_err(|error| Problem::usage(&format!("\"{text}\": {error}")))?;
    if url.name.is_some() {
        let sentence = format!(
            "\"{text}\" names an endpoint, not only a host; use `stream info` for one endpoint"
        );
        return Err(Problem::usage(&sentence));
    }
    Ok(match url.port.is_none() && url.host == engine.host {
        true => engine.clone(),
        false => url,
    })
}

fn ask(
    place: &Url,
    only: Option<&StreamUrl>,
    context: &Context,
) -> Result<Vec<EndpointStatus>, Problem> {
    let host = place.host.as_deref().unwrap_or("localhost");
    let timeout = context.settings.timeout;
    list(host, place.port_or_default(), None, only, timeout).map_err(|error| {
        let (exit, code) = match &error {
            ListError::TimedOut { .. } => (Exit::TimedOut, "timed-out"),
            ListError::Refused { code, .. } => (Exit::SomeFailed, code.name()),
            ListError::NoDirectory { .. } => (Exit::Unreachable, "no-directory"),
            _ => (Exit::Unreachable, "not-connected"),
        };
        Problem::new(exit, code, &error.to_string())
    })
}

/// Returns the URL as people write it on the machine itself.
fn name(url: &str) -> String {
    url.strip_prefix("tl://localhost/")
        .unwrap_or(url)
        .to_owned()
}

fn direction(endpoint: &EndpointStatus) -> &'static str {
    match endpoint.is_writer {
        Some(true) => "writes",
        Some(false) => "reads",
        None => "?",
    }
}

/// Returns the state in a word or two.
fn state(endpoint: &EndpointStatus) -> String {
    match endpoint {
        EndpointStatus {
            is_writer: None, ..
        } => "?".to_owned(),
        EndpointStatus { fault, .. } if !fault.is_empty() => "over".to_owned(),
        EndpointStatus {
            is_connected: true, ..
        } => "connected".to_owned(),
        EndpointStatus {
            away_for: Some(away),
            ..
        } => format!("away for {}", seconds(*away)),
        _ => "waits for its peer".to_owned(),
    }
}

fn mood(endpoint: &EndpointStatus) -> Mood {
    match endpoint {
        EndpointStatus { fault, .. } if !fault.is_empty() => Mood::Bad,
        EndpointStatus {
            away_for: Some(_), ..
        } => Mood::Uncertain,
        EndpointStatus {
            is_connected: true, ..
        } => Mood::Plain,
        _ => Mood::Dim,
    }
}

fn fill(endpoint: &EndpointStatus) -> String {
    format!("{}/{}", endpoint.in_buffer, endpoint.capacity)
}

fn pid(endpoint: &EndpointStatus) -> String {
    match endpoint.pid {
        0 => String::new(),
        pid => pid.to_string(),
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// Derives from the fill of the buffer which side is the limit (NS-83).
fn diagnosis(endpoint: &EndpointStatus) -> &'static str {
    let is_full = endpoint.in_buffer >= endpoint.capacity;
    match (endpoint.is_writer, endpoint.is_connected) {
        (Some(true), true) if is_full => {
            "its buffer is full: the network or the reader is the limit"
        }
        (Some(true), true) if endpoint.in_buffer == 0 => {
            "its buffer is empty: its own program is the limit"
        }
        (Some(false), true) if is_full => "its buffer is full: its own program is the limit",
        (Some(false), true) if endpoint.in_buffer == 0 => {
            "its buffer is empty: the writer or the network is the limit"
        }
        (Some(true), false) => match (endpoint.away_for.is_some(), is_full) {
            (true, true) => {
                "peer away: its buffer is full, and writing waits until the peer is back"
            }
            (true, false) => "peer away: what is written is kept until its buffer is full",
            (false, true) => "no peer yet: its buffer is full, and writing waits for one",
            (false, false) => "no peer yet: what is written is kept until its buffer is full",
        },
        (Some(false), false) => match endpoint.away_for.is_some() {
            true => "peer away: what has arrived can be read",
            false => "no peer yet",
        },
        _ => "",
    }
}

fn properties(endpoint: &EndpointStatus) -> Vec<(&'static str, String, Mood)> {
    let plain = |name, value: String| (name, value, Mood::Plain);
    let stalled = endpoint.stalled_for.map(|time| match endpoint.is_writer {
        Some(true) => format!("full for {}", seconds(time)),
        _ => format!("empty for {}", seconds(time)),
    });
    let number = |number: u64| number.to_string();
    vec![
        plain("endpoint", name(&endpoint.url)),
        plain("direction", direction(endpoint).to_owned()),
        plain("type", endpoint.data_type.clone()),
        ("state", state(endpoint), mood(endpoint)),
        ("over because", endpoint.fault.clone(), Mood::Bad),
        plain("peer", endpoint.peer.clone()),
        plain("peer's program", endpoint.peer_program.clone()),
        plain("transport", endpoint.transport.clone()),
        plain("fill", fill(endpoint)),
        plain("buffer", stalled.unwrap_or_default()),
        plain("diagnosis", diagnosis(endpoint).to_owned()),
        plain("total", number(endpoint.total)),
        plain("rate", format!("{}/s", counted_text(endpoint.rate))),
        plain("disconnections", number(endpoint.disconnections)),
        plain("last one", endpoint.last_disconnect.clone()),
        plain("program", endpoint.program.clone()),
        plain("pid", pid(endpoint)),
    ]
}

fn object(endpoint: &EndpointStatus) -> Object {
    let mut object = Object::new();
    object.put("endpoint", endpoint.url.as_str());
    object.put(
        "direction",
        match endpoint.is_writer {
            Some(true) => Json::from("writes"),
            Some(false) => Json::from("reads"),
            None => Json::Null,
        },
    );
    object.put("type", endpoint.data_type.as_str());
    object.put("connected", endpoint.is_connected);
    object.put_text("peer", &endpoint.peer);
    object.put_text("peer_program", &endpoint.peer_program);
    object.put_text("transport", &endpoint.transport);
    object.put("capacity", endpoint.capacity);
    object.put("in_buffer", endpoint.in_buffer);
    object.put("total", endpoint.total);
    object.put("elements_per_second", endpoint.rate);
    object.put("disconnections", endpoint.disconnections);
    if let Some(away) = endpoint.away_for {
        object.put("away", away.as_secs_f64());
    }
    if let Some(stalled) = endpoint.stalled_for {
        object.put("stalled", stalled.as_secs_f64());
    }
    object.put_text("last_disconnect", &endpoint.last_disconnect);
    object.put_text("fault", &endpoint.fault);
    object.put_text("program", &endpoint.program);
    if endpoint.pid > 0 {
        object.put("pid", endpoint.pid);
    }
    object
}
