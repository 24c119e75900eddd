//! The connection to the engine, and requests about names that several verbs share.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use trunkline::proto::{Disconnect, Fault, FaultCode};
use trunkline::{
    CallError, Client, ClientSecurity, ConnectOptions, ConnectionState, ContextError, Contexts,
    Credentials, Found, NotTried, OpenOptions, Opened, WriteOutcome,
};
use trunkline_types::name::check_segment;
use trunkline_types::url::Transport;
use trunkline_types::{Access, Position, Properties, Tick, Url};

use crate::output::Metadata;
use crate::settings::Settings;
use crate::targets::{self, Target, Targets, address};
use crate::{CliError, Context, Exit, Problem, counted, password};

/// Interval at which a command that waits for an engine checks whether to give up.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

pub(crate) fn open_options(include_readings: bool, describe: bool) -> OpenOptions {
    OpenOptions {
        include_readings,
        describe,
        ..OpenOptions::default()
    }
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) client: Client,
    /// Address of the engine in its usual form, `localhost:5850`.
    pub(crate) address: String,
    pub(crate) engine_name: String,
    pub(crate) epoch: u64,
    timeout: Duration,
}

pub(crate) type OpenedEntry = (String, Result<Opened, Problem>);

/// The expanded operands, in order: names, and the problems of operands that cannot be used.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Entries(pub(crate) Vec<Result<String, Problem>>);

/// Starts to connect. Calls fail as soon as a connection attempt fails: most commands do not wait for
/// an engine to start.
pub(crate) fn dial(engine: &Url, settings: &Settings) -> Result<Client, Problem> {
    let options = options(engine, settings, true)?;
    Client::connect_with(&options).map_err(|error| Problem::system(&error))
}

/// Returns the options for connecting to an engine, with the context of the user if there is one.
pub(crate) fn options(
    engine: &Url,
    settings: &Settings,
    fail_fast: bool,
) -> Result<ConnectOptions, Problem> {
    Ok(ConnectOptions {
        program: "trunkline".to_owned(),
        user: std::env::var("USER").unwrap_or_default(),
        security: security(engine, settings)?,
        fail_fast,
        throughput_mode: settings.batch,
        ..ConnectOptions::to(engine)
    })
}

fn failed(error: ContextError) -> Problem {
    Problem::failed("context", error.to_string())
}

/// Returns the context of the user for this engine, if there is one.
fn context_for(engine: &Url) -> Result<Option<trunkline::Context>, Problem> {
    match Contexts::of_user() {
        Ok(contexts) => contexts.for_url(engine).map_err(failed),
        // Without a home folder, there are no contexts.
        Err(_) => Ok(None),
    }
}

/// Returns how the connection is encrypted, and the proof of the user's identity: the password of an
/// account if one is given, otherwise the key of the context. Asks for the password if necessary.
pub(crate) fn security(
    engine: &Url,
    settings: &Settings,
) -> Result<Option<ClientSecurity>, Problem> {
    let context = context_for(engine)?;
    let account = match (&settings.account, &context) {
        (Some(account), _) => account.clone(),
        (None, Some(context)) if context.key.is_none() => {
            if context.account.is_empty() {
                let sentence = format!(
                    "the context {} has no key; log in with a password: --account ACCOUNT",
                    context.name
                );
                return Err(Problem::failed("no-key", sentence));
            }
            context.account.clone()
        }
        (None, Some(context)) => return ClientSecurity::of(context).map(Some).map_err(failed),
        (None, None) => return Ok(None),
    };
    let security = match (&context, &engine.via) {
        (Some(context), _) => ClientSecurity::accepting(&context.authority).map_err(failed)?,
        (None, Transport::Unix(_) | Transport::Shared(_)) => ClientSecurity::unencrypted(),
        (None, Transport::Best | Transport::Tcp) => return Err(not_private(engine)),
    };
    let password = password::for_login(&account, &settings.password)?;
    Ok(Some(
        security.with(Credentials::Password { account, password }),
    ))
}

fn not_private(engine: &Url) -> Problem {
    let sentence = format!(
        "a password is sent only over an encrypted connection or a Unix socket, and there is no context \
         for {engine}; add one with `trunkline ctx add NAME --url {engine} --authority FILE`, or use \
         --url tl+unix://PATH"
    );
    Problem::failed("not-private", sentence)
}

/// Returns true if the engine may run on another machine: the host is neither `localhost` nor a loopback
/// address.
fn is_beyond_machine(engine: &Url) -> bool {
    match (&engine.via, engine.host.as_deref()) {
        (Transport::Unix(_) | Transport::Shared(_), _) | (_, None | Some("localhost")) => false,
        (Transport::Best | Transport::Tcp, Some(host)) => match host.parse::<IpAddr>() {
            Ok(address) => !address.to_canonical().is_loopback(),
            Err(_) => true,
        },
    }
}

/// Checks that the session runs under the account whose password was given: an engine without
/// accounts accepts a program of its own user without looking at the password.
fn check_account(account: &str, settings: &Settings) -> Result<(), Problem> {
    match &settings.account {
        Some(wanted) if wanted != account => {
            let sentence = format!(
                "the engine did not check the password of {wanted}, because it has no accounts; \
                 leave out --account"
            );
            Err(Problem::failed("no-accounts", sentence))
        }
        Some(_) | None => Ok(()),
    }
}

/// The least time for a login that may have to wait for others.
pub(crate) const LOGIN_TIMEOUT_MIN: Duration = Duration::from_secs(10);

impl Connection {
    /// Connects, and waits until the connection is up.
    pub(crate) fn new(engine: &Url, context: &Context) -> Result<Self, CliError> {
        let client = dial(engine, &context.settings)?;
        let timeout = match &context.settings.account {
            Some(_) => context.settings.timeout.max(LOGIN_TIMEOUT_MIN),
            None => context.settings.timeout,
        };
        match client.wait_connected(timeout) {
            Ok(session) => {
                check_account(&session.account, &context.settings)?;
                let identity = (session.engine_name.as_str(), session.epoch);
                Self::from_client(client, identity, engine, context)
            }
            Err(error) => Err(not_reached(&address(engine), &error).into()),
        }
    }

    pub(crate) fn to_engine(context: &Context) -> Result<Self, CliError> {
        Self::new(&targets::engine(&context.settings)?, context)
    }

    fn from_client(
        client: Client,
        (engine_name, epoch): (&str, u64),
        engine: &Url,
        context: &Context,
    ) -> Result<Self, CliError> {
        if is_beyond_machine(engine) && context_for(engine)?.is_none() {
            context.warn(&format!(
                "warning: the connection to {} is not encrypted, and another machine could take the \
                 place of the engine; join the engine: `trunkline help join`",
                address(engine)
            ))?;
        }
        Ok(Self {
            client,
            address: address(engine),
            engine_name: engine_name.to_owned(),
            epoch,
            timeout: context.settings.timeout,
        })
    }

    /// Same as [`new`](Self::new), but waits for an engine that is not running, until `deadline`.
    /// Calls `report_wait` once, with the reason for the wait. On a timeout, the latest reason is
    /// the error.
    pub(crate) fn wait(
        engine: &Url,
        context: &Context,
        deadline: Option<Tick>,
        report_wait: impl FnOnce(&Problem) -> Result<(), CliError>,
    ) -> Result<Self, CliError> {
        let client = Client::connect_with(&options(engine, &context.settings, false)?)
            .map_err(|error| Problem::system(&error))?;
        let mut report_wait = Some(report_wait);
        loop {
            let now = context.clock.now();
            let remaining = deadline.map_or(Duration::MAX, |deadline| deadline.since(now));
            let error = match client.wait_connected(remaining.min(CHECK_INTERVAL)) {
                Ok(session) => {
                    check_account(&session.account, &context.settings)?;
                    let identity = (session.engine_name.as_str(), session.epoch);
                    return Self::from_client(client, identity, engine, context);
                }
                Err(error) => not_reached(&address(engine), &error),
            };
            let is_closed = matches!(client.state(), ConnectionState::Closed { .. });
            if is_closed || remaining <= CHECK_INTERVAL {
                return Err(error.into());
            }
            if let Some(report_wait) = report_wait.take() {
                report_wait(&error)?;
            }
        }
    }

    /// Replaces every pattern with the names that match it now. Leaves out excluded names, and names
    /// that an earlier operand already selected.
    pub(crate) fn expand(&self, targets: Targets, context: &Context) -> Result<Entries, CliError> {
        let mut entries = Vec::with_capacity(targets.list.len());
        let mut names_seen = std::collections::HashSet::new();
        let mut hints = 0;
        for target in targets.list {
            match target {
                Target::Invalid(problem) if hints < HINTS_MAX => {
                    hints += 1;
                    entries.push(Err(self.with_library_hint(problem)));
                }
                Target::Invalid(problem) => entries.push(Err(problem)),
                Target::Name(name) if context.settings.is_excluded(&name) => {}
                Target::Name(name) => {
                    names_seen.insert(name.clone());
                    entries.push(Ok(name));
                }
                Target::Pattern(pattern) => {
                    let found = self.find(&pattern.to_string(), context)?;
                    if found.is_empty() {
                        entries.push(Err(nothing_matches(&pattern.to_string())));
                    }
                    let names = found.into_iter().map(|found| found.name);
                    entries.extend(names.filter(|name| names_seen.insert(name.clone())).map(Ok));
                }
            }
        }
        Ok(Entries(entries))
    }

    /// Finds the names that match a pattern, without excluded ones.
    pub(crate) fn find(&self, pattern: &str, context: &Context) -> Result<Vec<Found>, Problem> {
        let mut found = self.call(|client, wait| client.find(pattern, None, wait))?;
        found.retain(|found| !context.settings.is_excluded(&found.name));
        Ok(found)
    }

    /// Makes a call with the timeout of this connection.
    pub(crate) fn call<R>(
        &self,
        call: impl FnOnce(&Client, Duration) -> Result<R, CallError>,
    ) -> Result<R, Problem> {
        call(&self.client, self.timeout).map_err(|error| self.failed(&error))
    }

    /// Opens names. If a name fails, only its own result is a problem.
    pub(crate) fn open(
        &self,
        names: &[&str],
        options: OpenOptions,
    ) -> Result<Vec<Result<Opened, Problem>>, CliError> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let opened = self.call(|client, wait| client.open(names, options, wait))?;
        let mut hints = 0;
        let results = opened.into_iter().zip(names).map(|(result, name)| {
            result.map_err(|fault| {
                let mut problem = reading_fault(&fault).with_name(name);
                if fault.code == FaultCode::UnknownName && hints < HINTS_MAX {
                    hints += 1;
                    problem.hint = self.folder_hint(name).or(problem.hint);
                }
                problem
            })
        });
        Ok(results.collect())
    }

    /// Opens the names of these entries. Returns each name with its opened variable or its problem.
    pub(crate) fn open_all(
        &self,
        entries: &Entries,
        options: OpenOptions,
    ) -> Result<Vec<OpenedEntry>, CliError> {
        let mut opened = self.open(&entries.names(), options)?.into_iter();
        let opened = entries.0.iter().filter_map(|entry| match entry {
            Ok(name) => Some((name.clone(), opened.next()?)),
            Err(problem) => {
                let name = problem.name.clone().unwrap_or_default();
                Some((name, Err(problem.clone())))
            }
        });
        Ok(opened.collect())
    }

    /// Returns a hint for a name that is not a variable but has variables below it.
    fn folder_hint(&self, name: &str) -> Option<String> {
        let found = self.client.find(&format!("{name}/**"), None, self.timeout);
        // If this call fails, the problem only lacks a hint.
        match found.ok()?.len() as u64 {
            0 => None,
            count => Some(format!(
                "it is a folder with {}: `trunkline ls {name}` lists them",
                counted(count, "variable")
            )),
        }
    }

    /// Adds a hint to the problem of an invalid name if a library has that name.
    fn with_library_hint(&self, problem: Problem) -> Problem {
        let name = problem.name.as_deref().unwrap_or_default();
        if problem.code != targets::BAD_NAME || check_segment(name).is_err() {
            return problem;
        }
        // If this call fails, the problem only lacks a hint.
        let info = self.client.engine_info(self.timeout).ok();
        let mut libraries = info.iter().flat_map(|info| &info.libraries);
        match libraries.find(|library| library.name == *name) {
            None => problem,
            Some(library) => {
                let count = counted(library.variables, "variable");
                let hint =
                    format!("{name} is a library with {count}: '{name}/**' selects all of them");
                problem.with_hint(hint)
            }
        }
    }

    pub(crate) fn failed(&self, error: &CallError) -> Problem {
        match error {
            CallError::NotConnected { .. } => not_reached(&self.address, error),
            CallError::TimedOut { .. } => {
                let sentence = format!(
                    "the engine at {} did not answer within {:?}; check that the engine is running, \
                     or allow more time with -w",
                    self.address, self.timeout
                );
                Problem::new(Exit::TimedOut, "timed-out", sentence)
            }
            CallError::Fault(fault) => reading_fault(fault),
            other => Problem::failed("failed", other.to_string()),
        }
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }
}

impl Entries {
    pub(crate) fn names(&self) -> Vec<&str> {
        self.0.iter().flatten().map(String::as_str).collect()
    }

    /// Removes the problems of patterns that match nothing, and returns those patterns.
    pub(crate) fn take_unmatched_patterns(&mut self) -> Vec<String> {
        let is_no_match =
            |entry: &mut _| matches!(entry, Err(Problem { code, .. }) if code == NO_MATCH);
        let removed = self.0.extract_if(.., is_no_match);
        removed.filter_map(|entry| entry.err()?.name).collect()
    }

    /// Returns the width of the widest name, including the names of problems.
    pub(crate) fn width(&self) -> usize {
        let names = self.0.iter().map(|entry| match entry {
            Ok(name) => name.as_str(),
            Err(problem) => problem.name.as_deref().unwrap_or_default(),
        });
        // A single very long name must not push the other columns out of sight.
        let widths = names.map(crate::terminal::width);
        widths
            .filter(|width| *width <= NAME_SHOWN_MAX)
            .max()
            .unwrap_or(0)
    }
}

/// Maximum number of hints per command, because each takes a request to the engine.
const HINTS_MAX: usize = 8;

const NAME_SHOWN_MAX: usize = 80;

pub(crate) fn not_reached(address: &str, error: &CallError) -> Problem {
    let (code, reason) = match error {
        CallError::NotConnected { cause } => (code_of(cause), cause.to_string()),
        CallError::TimedOut { after } => (
            "not-connected",
            format!(
                "no answer within {after:?}; check the address and the machine, or allow more time with -w"
            ),
        ),
        other => ("not-connected", other.to_string()),
    };
    let sentence = format!("cannot reach the engine at {address}: {reason}");
    Problem::new(Exit::Unreachable, code, sentence)
}

pub(crate) fn code_of(cause: &Arc<Disconnect>) -> &'static str {
    match &**cause {
        Disconnect::VersionMismatch(_) => "version-mismatch",
        Disconnect::NotTrunkline { .. } => "not-trunkline",
        Disconnect::NameLookup { .. } => "name-lookup-failed",
        Disconnect::Refused { code, .. } | Disconnect::Goodbye { code, .. } => code.name(),
        _ => "not-connected",
    }
}

/// Converts a fault of a request that writes no value into a problem.
pub(crate) fn reading_fault(fault: &Fault) -> Problem {
    let exit = match fault.code {
        FaultCode::Denied | FaultCode::NotReadable => Exit::NotPermitted,
        FaultCode::TimedOut => Exit::TimedOut,
        _ => Exit::Failed,
    };
    Problem::new(exit, fault.code.name(), &fault.sentence)
}

pub(crate) fn writing_fault(fault: &Fault) -> Problem {
    let exit = match fault.code {
        FaultCode::UnknownName | FaultCode::BadName | FaultCode::Gone => Exit::Failed,
        FaultCode::Denied => Exit::NotPermitted,
        _ => Exit::Refused,
    };
    Problem::new(exit, fault.code.name(), &fault.sentence)
}

/// Returns the outcome of a write as a word, with its position, or a problem if the write failed or
/// may have failed.
pub(crate) fn outcome_word(
    outcome: &WriteOutcome,
) -> Result<(&'static str, Option<Position>), Problem> {
    match outcome {
        WriteOutcome::Applied(position) => Ok(("applied", Some(*position))),
        WriteOutcome::Unchanged(position) => Ok(("unchanged", Some(*position))),
        WriteOutcome::Superseded => Ok(("superseded", None)),
        WriteOutcome::Refused(fault) => Err(writing_fault(fault)),
        WriteOutcome::Unknown(fault) => {
            let sentence = format!("the outcome of the write is unknown: {}", fault.sentence);
            Err(Problem::new(
                Exit::OutcomeUnknown,
                fault.code.name(),
                sentence,
            ))
        }
        WriteOutcome::NotTried(NotTried::Cancelled(fault)) => {
            let sentence = format!("not written: {}", fault.sentence);
            Err(Problem::new(Exit::TimedOut, "cancelled", sentence))
        }
        WriteOutcome::NotTried(NotTried::WouldBlock) => {
            let sentence = "the buffer of a subscriber is full, and writers must wait until it has \
                            space; try again later";
            Err(Problem::new(Exit::Refused, "would-block", sentence))
        }
    }
}

pub(crate) fn outcome_unknown() -> Problem {
    let sentence = "the outcome of the write is unknown; read the variable to see its value";
    Problem::new(Exit::OutcomeUnknown, "unknown", sentence)
}

pub(crate) const SUPERSEDED: &str = "superseded by a later write";

pub(crate) fn nothing_matches(pattern: &str) -> Problem {
    no_match(
        pattern,
        "no name matches; `trunkline ls` lists the libraries",
    )
}

pub(crate) fn no_match(pattern: &str, sentence: impl AsRef<str>) -> Problem {
    Problem::failed(NO_MATCH, sentence).with_name(pattern)
}

const NO_MATCH: &str = "no-match";

pub(crate) fn readable(name: &str, opened: Opened) -> Result<Opened, Problem> {
    match opened.access {
        Access::WriteOnly => {
            let sentence = "the variable is write-only; to make it readable, change `access` in its \
                            configuration";
            Err(Problem::new(Exit::NotPermitted, "not-readable", sentence).with_name(name))
        }
        _ => Ok(opened),
    }
}

pub(crate) fn metadata(opened: &Opened) -> Metadata {
    let properties: Option<&Properties> = opened.properties.as_deref();
    Metadata {
        data_type: opened.data_type.clone(),
        units: properties
            .map(|properties| properties.units.clone())
            .unwrap_or_default(),
        precision: properties.and_then(|properties| properties.precision),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Behaviour: B-80.
    #[test]
    fn loopback_and_unix_sockets_are_within_the_machine() {
        for (url, is_beyond) in [
            ("tl://", false),
            ("tl://localhost", false),
            ("tl+tcp://127.0.0.1:5850", false),
            ("tl://127.9.9.9", false),
            ("tl://[::1]", false),
            ("tl+unix:///run/trunkline.sock", false),
            ("tl://plant-7", true),
            ("tl+tcp://10.0.0.7", true),
            ("tl://[fd00::7]:5851", true),
        ] {
            let url = Url::parse(url).expect("the URL is valid");
            assert_eq!(is_beyond_machine(&url), is_beyond, "{url}");
        }
    }
}
