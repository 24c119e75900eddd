//! `control`: takes, requests, releases and hands over control of folders, and shows who has it.

mod hold;

use std::time::Duration;

use trunkline::{CallError, Client};
use trunkline_types::{ControlEntry, ControlHolder, ControlLevel, ControlTerms, Folder};

use super::library::problem_of_order;
use crate::arguments::positive_duration;
use crate::connection::Connection;
use crate::output::record::{JsonSchema, Record, Serialize};
use crate::output::values::Amount;
use crate::targets::{self, split_url};
use crate::terminal::Style;
use crate::{CliError, Context, Exit, Problem};

pub(crate) use self::hold::ControlEvent;

/// Control who may write the variables of a folder
///
/// While a client controls a folder, the engine refuses writes by other clients to the variables in
/// it. I/O servers, real-time threads and forcing are not restricted. `trunkline why NAME` shows who
/// controls a variable.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    Ls(ListArgs),
    Take(TakeArgs),
    Request(RequestArgs),
    Release(ReleaseArgs),
    Give(GiveArgs),
}

/// List the clients that control folders, and the waiting requests
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// Only folders that contain this one, or are in it
    #[arg(value_name = "FOLDER")]
    folder: Option<String>,
}

/// Take control of a folder
///
/// Everything that runs under your identity may then write, such as your screens and other terminals; writes
/// by others are refused. The command keeps control until Ctrl-C, and prints who asks for it. With --for, it
/// ends immediately, and control ends after that time or with `control release`.
///
/// A supervisor can take control from an operator, but not the reverse; at the same level, ask with
/// `control request`. If another client has control, or takes it, the exit code is 6.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TakeArgs {
    /// Folder such as boiler or boiler/pump, or '**' for every variable
    #[arg(value_name = "FOLDER")]
    folder: String,

    #[command(flatten)]
    terms: TermsArgs,
}

/// Ask for control of a folder, and wait until the holder releases it or hands it over
///
/// The command then holds control as `control take` does. Requests for a folder are granted in the order in
/// which they arrive. Ctrl-C withdraws the request.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RequestArgs {
    /// Folder such as boiler or boiler/pump, or '**' for every variable
    #[arg(value_name = "FOLDER")]
    folder: String,

    #[command(flatten)]
    terms: TermsArgs,
}

#[derive(Clone, Debug, clap::Args)]
struct TermsArgs {
    /// Level of control: operator needs the right to write every variable in the folder, supervisor
    /// the right to force them as well
    #[arg(long, value_name = "LEVEL", default_value = "operator", value_parser = level)]
    level: ControlLevel,

    /// Time after which the control ends, such as 10m, up to a day (a bare number is seconds). The
    /// command does not wait for it
    #[arg(
        long = "for",
        value_name = "TIME",
        value_parser = positive_duration,
        allow_hyphen_values = true
    )]
    duration: Option<Duration>,

    /// Let only this command have control, so that nobody can write while it runs: neither others nor
    /// your own programs
    #[arg(long, conflicts_with = "duration")]
    lock: bool,
}

/// Release control of a folder
///
/// The client that has waited longest gets control. Control that your other commands hold is released as
/// well.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ReleaseArgs {
    /// Folder, as listed by `control ls`
    #[arg(value_name = "FOLDER")]
    folder: String,
}

/// Hand control of a folder over to a client that is waiting for it
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct GiveArgs {
    /// Folder that you control
    #[arg(value_name = "FOLDER")]
    folder: String,

    /// Account of the client, or number of its request, as listed by `control ls`
    #[arg(value_name = "TO")]
    to: String,
}

/// A line of `control ls`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Trunkline control, version 1")]
pub(crate) struct Controlled {
    /// The folder; `**` for every variable.
    folder: String,
    /// Whether the client has control or waits for it.
    #[schemars(extend("enum" = ["held", "waiting"]))]
    state: &'static str,
    /// Level of control.
    #[schemars(extend("enum" = ["operator", "supervisor"]))]
    level: &'static str,
    /// Who may write: one session, or every session with the identity of the holder.
    #[schemars(extend("enum" = ["session", "identity"]))]
    holder: &'static str,
    /// The holder or the client that waits, with the origin of its session.
    by: String,
    /// Whether the control or the request is yours.
    own: bool,
    /// Time at which control was granted or requested.
    #[schemars(extend("format" = "date-time"))]
    since: String,
    /// Remaining time of the control in seconds. Left out if it ends with the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    left: Option<Amount>,
    /// Number of the control or request.
    number: u64,
    /// Cells for people.
    #[serde(skip)]
    texts: [(&'static str, String); 2],
}

impl Record for Controlled {
    const COLUMNS: &'static [&'static str] =
        &["folder", "state", "level", "by", "since", "left", "number"];

    fn texts(&self) -> &[(&'static str, String)] {
        &self.texts
    }

    fn style(&self) -> Style {
        match self.state {
            "waiting" => Style::Dim,
            _ => Style::Plain,
        }
    }
}

/// The line of `control release` and `control give`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Trunkline end of control, version 1")]
pub(crate) struct Ended {
    /// The folder.
    folder: String,
    /// Whether the control was released, or handed over to the client that waited.
    #[schemars(extend("enum" = ["released", "given"]))]
    outcome: &'static str,
    /// The new holder. Left out after a release.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
}

impl Record for Ended {
    const COLUMNS: &'static [&'static str] = &["folder", "outcome", "to"];
    const IS_HEADED: bool = false;
}

fn level(text: &str) -> Result<ControlLevel, String> {
    let mut levels = ControlLevel::ALL.iter();
    let found = levels.find(|level| level.name() == text);
    let known = || "it must be operator or supervisor".to_owned();
    found.copied().ok_or_else(known)
}

impl TermsArgs {
    fn terms(&self) -> ControlTerms {
        ControlTerms {
            level: self.level,
            holder: match self.lock {
                true => ControlHolder::Session,
                false => ControlHolder::Identity,
            },
            duration: self.duration,
        }
    }
}

/// A folder and the connection to its engine.
#[derive(Debug)]
struct Place {
    folder: Folder,
    connection: Connection,
}

impl Place {
    fn new(operand: &str, context: &Context) -> Result<Self, CliError> {
        let failed = |message: String| Problem::failed("bad-name", message).with_name(operand);
        let engine = targets::engine(&context.settings)?;
        let (engine, path) = split_url(operand, &engine).map_err(failed)?;
        let folder = Folder::parse(&path).map_err(|error| failed(error.to_string()))?;
        let connection = Connection::new(&engine, context)?;
        Ok(Self { folder, connection })
    }

    fn call<R>(
        &self,
        call: impl FnOnce(&Client, &str, Duration) -> Result<R, CallError>,
    ) -> Result<R, Problem> {
        let Self { folder, connection } = self;
        let result = call(&connection.client, folder.as_str(), connection.timeout());
        result.map_err(|error| problem_of_order(connection, &error).with_name(folder.as_str()))
    }
}

pub(crate) fn run(command: &Subcommand, context: &Context) -> Result<Exit, CliError> {
    match command {
        Subcommand::Ls(args) => list(args, context),
        Subcommand::Take(args) => {
            let place = Place::new(&args.folder, context)?;
            let terms = args.terms.terms();
            let entry = place.call(|client, folder, wait| client.take_control(folder, terms, wait));
            hold::hold(&place, entry?, terms, context)
        }
        Subcommand::Request(args) => {
            let place = Place::new(&args.folder, context)?;
            let terms = args.terms.terms();
            let entry =
                place.call(|client, folder, wait| client.request_control(folder, terms, wait));
            hold::hold(&place, entry?, terms, context)
        }
        Subcommand::Release(args) => {
            let place = Place::new(&args.folder, context)?;
            place.call(|client, folder, wait| client.release_control(folder, wait))?;
            ended(&place, "released", None, context)
        }
        Subcommand::Give(args) => give(args, context),
    }
}

fn list(args: &ListArgs, context: &Context) -> Result<Exit, CliError> {
    let (connection, folder) = match &args.folder {
        None => (Connection::to_engine(context)?, String::new()),
        Some(operand) => {
            let Place { folder, connection } = Place::new(operand, context)?;
            (connection, folder.to_string())
        }
    };
    let list = connection.call(|client, wait| client.controls(&folder, false, wait))?;
    let mut table = context.table::<Controlled>()?;
    let mut times = context.settings.times.column(true, context.started);
    for entry in &list.entries {
        let since = times
            .as_mut()
            .map(|times| times.text(entry.folder.as_str(), entry.since.into()));
        table.push(&line(entry, since.unwrap_or_default()))?;
    }
    table.finish()?;
    if list.entries.is_empty() {
        context.remark("no folder is controlled; every client may write what its rights permit")?;
    }
    Ok(Exit::Success)
}

fn line(entry: &ControlEntry, since: String) -> Controlled {
    let left = match entry.left {
        Some(left) => format!("{:.0} s", left.as_secs_f64()),
        None => String::new(),
    };
    Controlled {
        folder: entry.folder.to_string(),
        state: match entry.is_waiting {
            true => "waiting",
            false => "held",
        },
        level: entry.level.name(),
        holder: entry.holder.name(),
        by: entry.by.clone(),
        own: entry.is_own,
        since: entry.since.to_string(),
        left: entry.left.map(Amount::from),
        number: entry.number,
        texts: [("since", since), ("left", left)],
    }
}

fn give(args: &GiveArgs, context: &Context) -> Result<Exit, CliError> {
    let place = Place::new(&args.folder, context)?;
    let list = place.call(|client, folder, wait| client.controls(folder, false, wait))?;
    let waiting: Vec<&ControlEntry> = list
        .entries
        .iter()
        .filter(|entry| entry.is_waiting && is_by(entry, &args.to))
        .collect();
    let entry = match waiting.as_slice() {
        [entry] => *entry,
        [] => {
            let sentence = format!("{} is not waiting for {}", args.to, place.folder);
            let hint = "`trunkline control ls` lists the requests";
            let problem = Problem::failed("no-request", sentence).with_hint(hint);
            return Err(problem.into());
        }
        several => {
            let numbers: Vec<String> = several.iter().map(|one| one.number.to_string()).collect();
            let sentence = format!(
                "{} has several waiting requests; specify the number of one: {}",
                args.to,
                numbers.join(", ")
            );
            return Err(Problem::failed("ambiguous", sentence).into());
        }
    };
    let number = entry.number;
    let given = place.call(|client, folder, wait| client.give_control(folder, number, wait))?;
    ended(&place, "given", Some(given.by), context)
}

/// Returns true if `text` names the client that waits: by the number of its request, by its identity
/// such as `account:ana`, or by the name in it.
fn is_by(entry: &ControlEntry, text: &str) -> bool {
    let identity = entry.by.split(' ').next().unwrap_or_default();
    let name = identity.split_once(':').map_or(identity, |(_, name)| name);
    text == entry.number.to_string() || text == identity || text == name || text == entry.by
}

fn ended(
    place: &Place,
    outcome: &'static str,
    to: Option<String>,
    context: &Context,
) -> Result<Exit, CliError> {
    context.list([Ended {
        folder: place.folder.to_string(),
        outcome,
        to,
    }])?;
    Ok(Exit::Success)
}

#[cfg(test)]
mod tests {
    use trunkline_types::Timestamp;

    use super::*;

    #[test]
    fn waiting_client_is_found_by_number_identity_and_name() {
        let entry = ControlEntry {
            number: 7,
            folder: Folder::parse("boiler").unwrap(),
            is_waiting: true,
            level: ControlLevel::Operator,
            holder: ControlHolder::Identity,
            by: "account:bo (10.0.0.7:5, trunkline, user bo)".to_owned(),
            since: Timestamp::UNIX_EPOCH,
            left: None,
            is_own: false,
        };
        for text in ["7", "account:bo", "bo", &entry.by] {
            assert!(is_by(&entry, text), "{text}");
        }
        for text in ["", "8", "b", "account", "ana", "account:bo (", "trunkline"] {
            assert!(!is_by(&entry, text), "{text}");
        }
    }
}
