//! The verbs, one file each with its arguments and its code.

pub(crate) mod audit;
pub(crate) mod completion;
pub(crate) mod demo;
pub(crate) mod deploy;
pub(crate) mod find;
pub(crate) mod force;
pub(crate) mod get;
pub(crate) mod help;
pub(crate) mod info;
pub(crate) mod init;
pub(crate) mod io;
pub(crate) mod library;
pub(crate) mod limits;
pub(crate) mod ls;
pub(crate) mod monitor;
#[cfg(target_os = "linux")]
pub(crate) mod play;
pub(crate) mod put;
#[cfg(target_os = "linux")]
pub(crate) mod record;
pub(crate) mod request;
pub(crate) mod send;
pub(crate) mod serve;
pub(crate) mod set;
pub(crate) mod snapshot;
pub(crate) mod stream;
pub(crate) mod tdms;
pub(crate) mod undeploy;
pub(crate) mod unforce;
pub(crate) mod why;

use trunkline_net::Clock;
use trunkline_types::Timestamp;

use crate::arguments::Command;
use crate::exit::Exit;
use crate::instant::Now;
use crate::problem::{Problem, Stop};
use crate::settings::Settings;
use crate::terminal::Terminal;

/// The environment that every verb works with.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) settings: Settings,
    pub(crate) terminal: Terminal,
    pub(crate) clock: Clock,
    /// Start time of the command.
    pub(crate) started: Timestamp,
}

/// The metadata of a verb, beside its arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Verb {
    pub(crate) name: &'static str,
    /// True if it may change something.
    pub(crate) writes: bool,
    /// Its possible exit codes.
    pub(crate) exits: &'static [Exit],
    /// Its subcommands. If it has any, its other metadata are theirs.
    pub(crate) verbs: &'static [Verb],
}

impl Verb {
    /// Describes a verb that changes nothing.
    pub(crate) const fn reading(name: &'static str, exits: &'static [Exit]) -> Self {
        Self {
            name,
            writes: false,
            exits,
            verbs: &[],
        }
    }

    /// Describes a verb that may change something.
    pub(crate) const fn writing(name: &'static str, exits: &'static [Exit]) -> Self {
        Self {
            writes: true,
            ..Self::reading(name, exits)
        }
    }

    /// Describes a command that does nothing without one of its subcommands.
    pub(crate) const fn group(name: &'static str, verbs: &'static [Verb]) -> Self {
        Self {
            verbs,
            ..Self::reading(name, &[])
        }
    }
}

/// Every verb, in the order of the help.
pub(crate) const VERBS: &[Verb] = &[
    get::VERB,
    put::VERB,
    set::VERB,
    send::VERB,
    request::VERB,
    force::VERB,
    unforce::VERB,
    snapshot::VERB,
    monitor::VERB,
    info::VERB,
    ls::VERB,
    find::VERB,
    why::VERB,
    limits::VERB,
    deploy::VERB,
    undeploy::VERB,
    library::VERB,
    audit::VERB,
    stream::VERB,
    #[cfg(target_os = "linux")]
    record::VERB,
    #[cfg(target_os = "linux")]
    play::VERB,
    tdms::VERB,
    io::VERB,
    init::VERB,
    serve::VERB,
    demo::VERB,
    completion::VERB,
    help::VERB,
];

/// Runs a verb to its end.
pub(crate) fn run(command: &Command, context: &Context) -> Result<Exit, Stop> {
    match command {
        Command::Get(args) => get::run(args, context),
        Command::Put(args) => put::run(args, context),
        Command::Set(args) => set::run(args, context),
        Command::Send(args) => send::run(args, context),
        Command::Request(args) => request::run(args, context),
        Command::Force(args) => force::run(args, context),
        Command::Unforce(args) => unforce::run(args, context),
        Command::Snapshot(args) => snapshot::run(args, context),
        Command::Monitor(args) => monitor::run(args, context),
        Command::Info(args) => info::run(args, context),
        Command::Ls(args) => ls::run(args, context),
        Command::Find(args) => find::run(args, context),
        Command::Why(args) => why::run(args, context),
        Command::Limits(args) => limits::run(args, context),
        Command::Deploy(args) => deploy::run(args, context),
        Command::Undeploy(args) => undeploy::run(args, context),
        Command::Library(args) => library::run(args, context),
        Command::Audit(args) => audit::run(args, context),
        Command::Stream(args) => stream::run(args, context),
        #[cfg(target_os = "linux")]
        Command::Record(args) => record::run(args, context),
        #[cfg(target_os = "linux")]
        Command::Play(args) => play::run(args, context),
        Command::Tdms(args) => tdms::run(args, context),
        Command::Io(args) => io::run(args, context),
        Command::Init(args) => init::run(args, context),
        Command::Serve(args) => serve::run(args, context),
        Command::Demo(args) => demo::run(args, context),
        Command::Completion(args) => completion::run(args, context),
        Command::Help(args) => help::run(args, context),
    }
}

impl Context {
    /// Returns the reference for times given by people: the current time, in the zone in which
    /// times are shown.
    pub(crate) fn now(&self) -> Now {
        Now {
            time: self.clock.wall(),
            zone: self.settings.times.zone(),
        }
    }

    /// Returns a context for a command that writes no data to standard output while it runs: its
    /// progress is shown whenever standard error is a terminal.
    #[cfg(target_os = "linux")]
    pub(crate) fn beside_files(&self) -> Self {
        Self {
            settings: self.settings.clone(),
            terminal: self.terminal.beside_files(),
            clock: self.clock,
            started: self.started,
        }
    }

    /// Writes a remark about the result to standard error, for people only: programs see it in the
    /// result.
    pub(crate) fn remark(&self, sentence: &str) -> Result<(), Stop> {
        match self.settings.is_json() {
            true => Ok(()),
            false => self.terminal.note(sentence),
        }
    }

    /// Shows the problem of one name, and returns its exit code.
    pub(crate) fn show(&self, problem: &Problem, width: usize) -> Result<Exit, Stop> {
        self.terminal.problem(problem, width)?;
        Ok(problem.exit)
    }
}
