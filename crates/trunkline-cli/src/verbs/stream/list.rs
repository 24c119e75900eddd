//! `stream ls` and `stream info`: show the state of the endpoints in a directory.

use trunkline::proto::FaultCode;
use trunkline::stream::StreamError;
use trunkline::stream::directory::{EndpointStatus, ListError, MemberStatus, list};
use trunkline_types::{StreamUrl, Url};

use super::problem;
use super::units::counted_text;
use crate::connection::security;
use crate::output::record::{JsonSchema, Record, Serialize};
use crate::output::values::Amount;
use crate::targets;
use crate::terminal::Style;
use crate::{CliError, Context, Exit, Problem};

/// List the endpoints of streams on a machine
///
/// The list shows the peer of each endpoint, how full its buffer is and for how long, its rate, and
/// the program that runs it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LsArgs {
    /// The machine, as HOST or HOST:PORT (default: the host of --url)
    #[arg(value_name = "HOST")]
    host: Option<String>,
}

/// Show all information about one endpoint
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct InfoArgs {
    /// Name or URL of the endpoint
    #[arg(value_name = "URL")]
    end: String,
}

/// A line of `stream ls`, or the line of `stream info`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Trunkline stream endpoint, version 1")]
pub(crate) struct Endpoint {
    /// URL of the endpoint.
    endpoint: String,
    /// `writes` or `reads`; null if the endpoint has not reported its state yet; the other keys
    /// then have no meaning.
    direction: Option<&'static str>,
    /// Type of the elements; a long type is truncated.
    #[serde(rename = "type")]
    data_type: String,
    /// Whether the endpoint is connected to its peer.
    connected: bool,
    /// URL of the peer. Left out before the first connection.
    #[serde(skip_serializing_if = "String::is_empty")]
    peer: String,
    /// Program of the peer, with its version. Left out when it is unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    peer_program: String,
    /// Account or local user that opened the connection, such as `account:daq`. Left out when it is
    /// unknown, or when the endpoint itself opened the connection.
    #[serde(skip_serializing_if = "String::is_empty")]
    peer_account: String,
    /// Peers of an endpoint with several peers, at most 64. Left out for other endpoints.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    members: Vec<Member>,
    /// Number of peers that are left out of `members`.
    #[serde(skip_serializing_if = "Option::is_none")]
    more_members: Option<u64>,
    /// Transport of the connection. Left out when there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    transport: String,
    /// Capacity of the buffer, in elements.
    capacity: u64,
    /// Number of elements in the buffer.
    in_buffer: u64,
    /// Total number of elements written or read.
    total: u64,
    /// Current rate in elements per second.
    elements_per_second: u64,
    /// Number of times that the connection was lost.
    disconnections: u64,
    /// Seconds since the connection was lost. Left out when the endpoint is connected, or never was.
    #[serde(skip_serializing_if = "Option::is_none")]
    away: Option<Amount>,
    /// Seconds for which the buffer of a writer has been full, or the buffer of a reader empty. Left
    /// out otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    stalled: Option<Amount>,
    /// Why the last connection ended or could not be made. Left out when there is no reason.
    #[serde(skip_serializing_if = "String::is_empty")]
    last_disconnect: String,
    /// Why the stream ended early. Left out otherwise.
    #[serde(skip_serializing_if = "String::is_empty")]
    fault: String,
    /// Program of the endpoint, with its version. Left out when it is unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    program: String,
    /// Process ID of the program. Left out when it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
}

/// One of several peers of an endpoint.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Member {
    /// URL of the peer.
    endpoint: String,
    /// Account or local user that opened the connection. Left out when it is unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    account: String,
    /// Whether the peer is connected.
    connected: bool,
    /// Seconds since the connection was lost. Left out when the peer is connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    away: Option<Amount>,
}

impl Member {
    fn of(status: MemberStatus) -> Self {
        Self {
            endpoint: status.url,
            account: status.account,
            connected: status.away_for.is_none(),
            away: status.away_for.map(Amount::from),
        }
    }

    fn text(&self) -> String {
        let account = match self.account.as_str() {
            "" => String::new(),
            account => format!(", {account}"),
        };
        let away = match self.away {
            None => String::new(),
            Some(Amount(away)) => format!(", disconnected for {away:.1} s"),
        };
        format!("{}{account}{away}", self.endpoint)
    }
}

const WRITES: &str = "writes";
const READS: &str = "reads";
/// Index of the row with the peer in the details.
const PEER_ROW: usize = 5;

impl Record for Endpoint {
    const COLUMNS: &'static [&'static str] = &[
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

    fn cell(&self, column: &str) -> Option<String> {
        match column {
            "endpoint" => Some(self.name()),
            "direction" if self.direction.is_none() => Some("?".to_owned()),
            "state" => Some(self.state()),
            "fill" => Some(format!("{}/{}", self.in_buffer, self.capacity)),
            "rate" => Some(format!("{}/s", counted_text(self.elements_per_second))),
            _ => None,
        }
    }

    fn style(&self) -> Style {
        match (self.fault.is_empty(), self.away, self.connected) {
            (false, ..) => Style::Bad,
            (true, Some(_), _) => Style::Warning,
            (true, None, true) => Style::Plain,
            (true, None, false) => Style::Dim,
        }
    }
}

impl Endpoint {
    fn of(status: &EndpointStatus) -> Self {
        let status = status.clone();
        Self {
            direction: status.is_writer.map(|is_writer| match is_writer {
                true => WRITES,
                false => READS,
            }),
            endpoint: status.url,
            data_type: status.data_type,
            connected: status.is_connected,
            peer: status.peer,
            peer_program: status.peer_program,
            peer_account: status.peer_account,
            members: status.members.into_iter().map(Member::of).collect(),
            more_members: Some(status.more_members).filter(|more| *more > 0),
            transport: status.transport,
            capacity: status.capacity,
            in_buffer: status.in_buffer,
            total: status.total,
            elements_per_second: status.rate,
            disconnections: status.disconnections,
            away: status.away_for.map(Amount::from),
            stalled: status.stalled_for.map(Amount::from),
            last_disconnect: status.last_disconnect,
            fault: status.fault,
            program: status.program,
            pid: Some(status.pid).filter(|pid| *pid > 0),
        }
    }

    /// Returns the URL in the short form that is used on the same machine.
    fn name(&self) -> String {
        let url = self.endpoint.as_str();
        url.strip_prefix("tl://localhost/")
            .unwrap_or(url)
            .to_owned()
    }

    fn state(&self) -> String {
        match (self.direction, self.away) {
            (None, _) => "?".to_owned(),
            _ if !self.fault.is_empty() => "failed".to_owned(),
            _ if self.connected => "connected".to_owned(),
            (_, Some(Amount(away))) => format!("disconnected for {away:.1} s"),
            _ => "waiting for its peer".to_owned(),
        }
    }

    /// Derives the bottleneck from the fill level of the buffer (NS-83).
    fn diagnosis(&self) -> &'static str {
        let (is_full, is_empty) = (self.in_buffer >= self.capacity, self.in_buffer == 0);
        match (self.direction, self.connected) {
            (Some(WRITES), true) if is_full => {
                "buffer full: the network or the reader is the bottleneck"
            }
            (Some(WRITES), true) if is_empty => {
                "buffer empty: the writing program is the bottleneck"
            }
            (Some(READS), true) if is_full => "buffer full: the reading program is the bottleneck",
            (Some(READS), true) if is_empty => {
                "buffer empty: the writer or the network is the bottleneck"
            }
            (Some(WRITES), false) => match (self.away.is_some(), is_full) {
                (true, true) => {
                    "disconnected: the buffer is full, and writing waits until the peer reconnects"
                }
                (true, false) => {
                    "disconnected: elements can still be written until the buffer is full"
                }
                (false, true) => "no peer yet: the buffer is full, and writing waits for a peer",
                (false, false) => "no peer yet: elements can be written until the buffer is full",
            },
            (Some(READS), false) => match self.away.is_some() {
                true => "disconnected: elements that have arrived can still be read",
                false => "no peer yet",
            },
            _ => "",
        }
    }

    fn properties(&self) -> Vec<(&'static str, String, Style)> {
        let cell = |column: &str| self.cell(column).unwrap_or_default();
        let plain = |name, value: String| (name, value, Style::Plain);
        let stalled = self.stalled.map(|Amount(seconds)| match self.direction {
            Some(WRITES) => format!("full for {seconds:.1} s"),
            _ => format!("empty for {seconds:.1} s"),
        });
        let pid = self.pid.map(|pid| pid.to_string());
        let member = match self.direction {
            Some(WRITES) => "reader",
            _ => "writer",
        };
        let members = self.members.iter().map(|one| plain(member, one.text()));
        let more = self
            .more_members
            .map(|more| plain(member, format!("and {more} more")));
        let mut rows = vec![
            plain("endpoint", cell("endpoint")),
            plain("direction", self.direction.unwrap_or("?").to_owned()),
            plain("type", self.data_type.clone()),
            ("state", cell("state"), self.style()),
            ("error", self.fault.clone(), Style::Bad),
            plain("peer", self.peer.clone()),
            plain("peer's account", self.peer_account.clone()),
            plain("peer's program", self.peer_program.clone()),
            plain("transport", self.transport.clone()),
            plain("fill", cell("fill")),
            plain("buffer", stalled.unwrap_or_default()),
            plain("diagnosis", self.diagnosis().to_owned()),
            plain("total", self.total.to_string()),
            plain("rate", cell("rate")),
            plain("disconnections", self.disconnections.to_string()),
            plain("last disconnection", self.last_disconnect.clone()),
            plain("program", self.program.clone()),
            plain("pid", pid.unwrap_or_default()),
        ];
        let after_peer = PEER_ROW + 1;
        rows.splice(after_peer..after_peer, members.chain(more));
        rows
    }
}

pub(super) fn ls(args: &LsArgs, context: &Context) -> Result<Exit, CliError> {
    let directory = match &args.host {
        Some(host) => host_of(host, &targets::engine(&context.settings)?)?,
        None => targets::engine(&context.settings)?,
    };
    let endpoints = query(&directory, None, context)?;
    context.list(endpoints.iter().map(Endpoint::of))?;
    if endpoints.is_empty() {
        context.remark("there are no stream endpoints")?;
    }
    Ok(Exit::Success)
}

pub(super) fn info(args: &InfoArgs, context: &Context) -> Result<Exit, CliError> {
    let url = StreamUrl::parse(&args.end).map_err(|error| problem(&StreamError::Url(error)))?;
    let mut directory = targets::engine(&context.settings)?;
    // A name without a host is looked up in the engine that other commands use.
    if args.end.contains("//") {
        directory.port = url
            .port()
            .or(match directory.host.as_deref() == Some(url.host()) {
                true => directory.port,
                false => None,
            });
        directory.host = Some(url.host().to_owned());
    }
    let endpoint_url = url.within_host();
    let endpoints = query(&directory, Some(&endpoint_url), context)?;
    let Some(endpoint) = endpoints.first() else {
        let sentence = "no such endpoint; `trunkline stream ls` lists the endpoints";
        let problem = Problem::failed("unknown-endpoint", sentence);
        return context.show(&problem.with_name(&args.end), 0);
    };
    let record = Endpoint::of(endpoint);
    context.print_details(&record, record.properties())?;
    Ok(Exit::Success)
}

fn host_of(text: &str, engine: &Url) -> Result<Url, Problem> {
    let with_scheme = match text.contains("://") {
        true => text.to_owned(),
        false => format!("tl://{text}"),
    };
    let url =
        Url::parse(&with_scheme).map_err(|error| Problem::usage(format!("\"{text}\": {error}")))?;
    if url.name.is_some() {
        let sentence = format!(
            "\"{text}\" names an endpoint, not only a host; use `stream info` for one endpoint"
        );
        return Err(Problem::usage(sentence));
    }
    Ok(match url.port.is_none() && url.host == engine.host {
        true => engine.clone(),
        false => url,
    })
}

fn query(
    directory: &Url,
    endpoint: Option<&StreamUrl>,
    context: &Context,
) -> Result<Vec<EndpointStatus>, Problem> {
    let host = directory.host.as_deref().unwrap_or("localhost");
    let timeout = context.settings.timeout;
    let security = security(directory, &context.settings)?;
    let security = security.and_then(|security| security.for_streams());
    let port = directory.port_or_default();
    list(host, port, None, endpoint, security.as_ref(), timeout).map_err(|error| {
        let (exit, code) = match &error {
            ListError::TimedOut { .. } => (Exit::TimedOut, "timed-out"),
            ListError::Refused {
                code: code @ (FaultCode::Denied | FaultCode::NotAuthenticated),
                ..
            } => (Exit::NotPermitted, code.name()),
            ListError::Refused { code, .. } => (Exit::Failed, code.name()),
            ListError::NoDirectory { .. } => (Exit::Unreachable, "no-directory"),
            _ => (Exit::Unreachable, "not-connected"),
        };
        Problem::new(exit, code, error.to_string())
    })
}
