//! The connection to the engine, and the calls about names that several verbs share.

use std::sync::Arc;
use std::time::Duration;

use trunkline::proto::{Disconnect, Fault, FaultCode};
use trunkline::{
    CallError, Client, ConnectOptions, ConnectionState, NotTried, OpenOptions, Opened, WriteOutcome,
};
use trunkline_types::{Access, Position, Properties, Tick, Url};

use crate::exit::Exit;
use crate::output::{Facts, counted};
use crate::problem::{Problem, Stop};
use crate::settings::Settings;
use crate::targets::{Targets, Wanted, address};
use crate::verbs::Context;

/// Period at which a command that waits for an engine checks if waiting is still useful.
const LOOK_PERIOD: Duration = Duration::from_millis(500);

/// An established connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) client: Client,
    /// Address of the engine as people write it, `localhost:5850`.
    pub(crate) address: String,
    /// The engine's own name.
    pub(crate) engine_name: String,
    /// Epoch of the engine's start.
    pub(crate) epoch: u64,
    timeout: Duration,
}

/// An item to show, in the order of the operands.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Entry {
    /// A name to open.
    Name(String),
    /// An operand that cannot be used.
    Problem(Problem),
}

/// The names and problems that the operands resolved to.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Entries(pub(crate) Vec<Entry>);

/// Begins to connect. Calls fail as soon as an attempt has failed: a command does not wait for an
/// engine to start.
///
/// # Errors
/// The machine has no descriptor or thread left.
pub(crate) fn dial(engine: &Url, settings: &Settings) -> Result<Client, Problem> {
    Client::connect_with(&options(engine, settings, true))
        .map_err(|error| Problem::new(Exit::SomeFailed, "system", &error.to_string()))
}

/// Returns the connection options of this program.
pub(crate) fn options(engine: &Url, settings: &Settings, fail_fast: bool) -> ConnectOptions {
    ConnectOptions {
        url: engine.clone(),
        program: "trunkline".to_owned(),
        user: std::env::var("USER").unwrap_or_default(),
        fail_fast,
        throughput: settings.batch,
        spin: trunkline::SPIN_DEFAULT,
    }
}

impl Connection {
    /// Connects, and waits until the connection is up.
    ///
    /// # Errors
    /// The engine is not reachable.
    pub(crate) fn new(engine: &Url, context: &Context) -> Result<Self, Stop> {
        let timeout = context.settings.timeout;
        let client = dial(engine, &context.settings)?;
        let address = address(engine);
        match client.wait_connected(timeout) {
            Ok(session) => Ok(Self {
                client,
                address,
                engine_name: session.engine_name.clone(),
                epoch: session.epoch,
                timeout,
            }),
            Err(error) => Err(not_reached(&address, &error).into()),
        }
    }

    /// As [`new`](Self::new), but waits for an engine that is not running. Calls `say` once, with
    /// the reason. If there is no engine by `until`, that reason is the error.
    ///
    /// # Errors
    /// There was no engine in time, or trying again is useless.
    pub(crate) fn wait(
        engine: &Url,
        context: &Context,
        until: Option<Tick>,
        say: impl FnOnce(&Problem) -> Result<(), Stop>,
    ) -> Result<Self, Stop> {
        let client = Client::connect_with(&options(engine, &context.settings, false))
            .map_err(|error| Problem::new(Exit::SomeFailed, "system", &error.to_string()))?;
        let address = address(engine);
        let mut say = Some(say);
        loop {
            let now = context.clock.now();
            let left = until.map_or(Duration::MAX, |until| until.since(now));
            let error = match client.wait_connected(left.min(LOOK_PERIOD)) {
                Ok(session) => {
                    return Ok(Self {
                        client,
                        address,
                        engine_name: session.engine_name.clone(),
                        epoch: session.epoch,
                        timeout: context.settings.timeout,
                    });
                }
                Err(error) => not_reached(&address, &error),
            };
            let is_hopeless = matches!(client.state(), ConnectionState::Closed { .. });
            if is_hopeless || left <= LOOK_PERIOD {
                return Err(error.into());
            }
            if let Some(say) = say.take() {
                say(&error)?;
            }
        }
    }

    /// Expands the operands: replaces every pattern by the names that currently match it. Names
    /// that are excluded, or already matched by an earlier pattern, are left out.
    ///
    /// # Errors
    /// The engine does not answer.
    pub(crate) fn expand(&self, targets: Targets, context: &Context) -> Result<Entries, Stop> {
        let mut entries = Vec::with_capacity(targets.wanted.len());
        let mut seen = std::collections::HashSet::new();
        for wanted in targets.wanted {
            let pattern = match wanted {
                Wanted::Wrong(problem) => {
                    entries.push(Entry::Problem(problem));
                    continue;
                }
                Wanted::Name(name) => {
                    if !context.settings.is_excluded(&name) {
                        seen.insert(name.clone());
                        entries.push(Entry::Name(name));
                    }
                    continue;
                }
                Wanted::Pattern(pattern) => pattern.to_string(),
            };
            let found = self.client.find(&pattern, None, self.timeout);
            let found = found.map_err(|error| self.failed(&error))?;
            let mut has_any = false;
            for found in found {
                let is_wanted = !context.settings.is_excluded(&found.name);
                has_any |= is_wanted;
                if is_wanted && seen.insert(found.name.clone()) {
                    entries.push(Entry::Name(found.name));
                }
            }
            if !has_any {
                entries.push(Entry::Problem(nothing_matches(&pattern)));
            }
        }
        Ok(Entries(entries))
    }

    /// Opens names. A failure of one name is that name's problem.
    ///
    /// # Errors
    /// The engine does not answer.
    pub(crate) fn open(
        &self,
        names: &[&str],
        options: OpenOptions,
    ) -> Result<Vec<Result<Opened, Problem>>, Stop> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let opened = self.client.open(names, options, self.timeout);
        let opened = opened.map_err(|error| self.failed(&error))?;
        let mut looked = 0;
        let results = opened.into_iter().zip(names);
        Ok(results
            .map(|(result, name)| {
                result.map_err(|fault| {
                    let mut problem = unopened(&fault, name);
                    if fault.code == FaultCode::UnknownName && looked < FOLDERS_LOOKED_MAX {
                        looked += 1;
                        problem.hint = self.folder(name).or(problem.hint);
                    }
                    problem
                })
            })
            .collect())
    }

    /// Returns a hint for a name that is not a variable but has variables below it.
    fn folder(&self, name: &str) -> Option<String> {
        let found = self.client.find(&format!("{name}/**"), None, self.timeout);
        // If this call fails, the name is still unknown.
        match found.ok()?.len() as u64 {
            0 => None,
            count => Some(format!(
                "it is a folder with {}: `trunkline ls {name}` lists them",
                counted(count, "variable")
            )),
        }
    }

    /// Returns the problem of a failed call.
    pub(crate) fn failed(&self, error: &CallError) -> Problem {
        match error {
            CallError::NotConnected { .. } => not_reached(&self.address, error),
            CallError::TimedOut { .. } => {
                let sentence = format!(
                    "the engine at {} gave no answer within {:?}; allow more time with -w, or \
                     check the engine",
                    self.address, self.timeout
                );
                Problem::new(Exit::TimedOut, "timed-out", &sentence)
            }
            CallError::Fault(fault) => reading_fault(fault),
            other => Problem::new(Exit::SomeFailed, "failed", &other.to_string()),
        }
    }

    /// Returns the time to wait for each answer.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }
}

impl Entries {
    /// Returns the names, in order.
    pub(crate) fn names(&self) -> Vec<&str> {
        let names = self.0.iter().filter_map(|entry| match entry {
            Entry::Name(name) => Some(name.as_str()),
            Entry::Problem(_) => None,
        });
        names.collect()
    }

    /// Removes the problems of patterns that match nothing; returns those patterns.
    pub(crate) fn take_no_match(&mut self) -> Vec<String> {
        let mut patterns = Vec::new();
        self.0.retain(|entry| match entry {
            Entry::Problem(problem) if problem.code == NO_MATCH => {
                patterns.extend(problem.name.clone());
                false
            }
            _ => true,
        });
        patterns
    }

    /// Returns the width of the longest name, of variables and problems.
    pub(crate) fn width(&self) -> usize {
        let names = self.0.iter().map(|entry| match entry {
            Entry::Name(name) => name.as_str(),
            Entry::Problem(problem) => problem.name.as_deref().unwrap_or_default(),
        });
        // A single very long name must not push the other columns out of sight.
        names
            .map(crate::terminal::width)
            .filter(|width| *width <= NAME_SHOWN_MAX)
            .max()
            .unwrap_or(0)
    }
}

/// Limit on unknown names per command that are checked for being folders.
const FOLDERS_LOOKED_MAX: usize = 8;

/// Longest name that counts for the width of a table.
const NAME_SHOWN_MAX: usize = 80;

/// Returns the problem of an unreachable engine.
pub(crate) fn not_reached(address: &str, error: &CallError) -> Problem {
    let (code, reason) = match error {
        CallError::NotConnected { cause } => (code_of(cause), cause.to_string()),
        CallError::TimedOut { after } => (
            "not-connected",
            format!("no answer within {after:?}; check the host"),
        ),
        other => ("not-connected", other.to_string()),
    };
    let sentence = format!("the engine at {address} is not reachable: {reason}");
    Problem::new(Exit::Unreachable, code, &sentence)
}

/// Returns the code for programs.
pub(crate) fn code_of(cause: &Arc<Disconnect>) -> &'static str {
    match &**cause {
        Disconnect::VersionMismatch(_) => "version-mismatch",
        Disconnect::NotTrunkline { .. } => "not-trunkline",
        Disconnect::NameLookup { .. } => "name-lookup-failed",
        Disconnect::Refused { code, .. } | Disconnect::Goodbye { code, .. } => code.name(),
        _ => "not-connected",
    }
}

/// Returns the problem of a name that could not be opened.
fn unopened(fault: &Fault, name: &str) -> Problem {
    reading_fault(fault).of(name)
}

/// Converts a fault of opening, reading or requesting.
pub(crate) fn reading_fault(fault: &Fault) -> Problem {
    let exit = match fault.code {
        FaultCode::Denied | FaultCode::NotReadable => Exit::NotPermitted,
        FaultCode::TimedOut => Exit::TimedOut,
        _ => Exit::SomeFailed,
    };
    Problem::new(exit, fault.code.name(), &fault.sentence)
}

/// Converts a fault of writing.
pub(crate) fn writing_fault(fault: &Fault) -> Problem {
    let exit = match fault.code {
        FaultCode::UnknownName | FaultCode::BadName | FaultCode::Gone => Exit::SomeFailed,
        FaultCode::Denied => Exit::NotPermitted,
        _ => Exit::Refused,
    };
    Problem::new(exit, fault.code.name(), &fault.sentence)
}

/// Returns the word for the outcome of a write and the position that it names, or the reason why
/// the write failed or may have failed.
pub(crate) fn written(outcome: &WriteOutcome) -> Result<(&'static str, Option<Position>), Problem> {
    match outcome {
        WriteOutcome::Applied(position) => Ok(("applied", Some(*position))),
        WriteOutcome::Unchanged(position) => Ok(("unchanged", Some(*position))),
        WriteOutcome::Superseded => Ok(("superseded", None)),
        WriteOutcome::Refused(fault) => Err(writing_fault(fault)),
        WriteOutcome::Unknown(fault) => {
            let sentence = format!("the outcome of the write is unknown: {}", fault.sentence);
            Err(Problem::new(Exit::Unknown, fault.code.name(), &sentence))
        }
        WriteOutcome::NotTried(NotTried::Cancelled(fault)) => {
            let sentence = format!("not written: {}", fault.sentence);
            Err(Problem::new(Exit::TimedOut, "cancelled", &sentence))
        }
        WriteOutcome::NotTried(NotTried::WouldBlock) => {
            let sentence =
                "a subscriber's buffer is full, and the variable makes writers wait; try again";
            Err(Problem::new(Exit::Refused, "would-block", sentence))
        }
    }
}

/// Returns the problem of a write that has no outcome.
pub(crate) fn not_known() -> Problem {
    let sentence = "the outcome of the write is unknown; read the variable";
    Problem::new(Exit::Unknown, "unknown", sentence)
}

/// The remark on a write that was superseded.
pub(crate) const SUPERSEDED: &str = "superseded by a later write";

/// Returns the problem of a pattern that matches nothing.
pub(crate) fn nothing_matches(pattern: &str) -> Problem {
    let sentence = "no name matches; `trunkline ls` lists the libraries";
    Problem::new(Exit::SomeFailed, NO_MATCH, sentence).of(pattern)
}

/// The code of [`nothing_matches`].
const NO_MATCH: &str = "no-match";

/// Returns the opened variable if it is readable.
pub(crate) fn readable(name: &str, opened: Opened) -> Result<Opened, Problem> {
    match opened.access {
        Access::WriteOnly => {
            let sentence = "the variable is write-only; its configuration sets this with `access`";
            Err(Problem::new(Exit::NotPermitted, "not-readable", sentence).of(name))
        }
        _ => Ok(opened),
    }
}

/// Returns the properties of an opened variable that are shown with its readings.
pub(crate) fn facts(opened: &Opened) -> Facts {
    let properties: Option<&Properties> = opened.properties.as_deref();
    Facts {
        data_type: opened.data_type.clone(),
        units: properties
            .map(|properties| properties.units.clone())
            .unwrap_or_default(),
        precision: properties.and_then(|properties| properties.precision),
    }
}
