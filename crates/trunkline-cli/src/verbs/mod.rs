//! The verbs, each in its own file with its arguments; `set`, `send` and `request` are in `put`.

pub(crate) mod access;
pub(crate) mod alarm;
pub(crate) mod audit;
pub(crate) mod backup;
mod certificate_file;
pub(crate) mod completion;
pub(crate) mod control;
pub(crate) mod ctx;
pub(crate) mod demo;
pub(crate) mod deploy;
pub(crate) mod engine;
pub(crate) mod find;
pub(crate) mod force;
pub(crate) mod get;
pub(crate) mod help;
pub(crate) mod history;
pub(crate) mod info;
pub(crate) mod init;
pub(crate) mod io;
pub(crate) mod join;
pub(crate) mod library;
pub(crate) mod limits;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod monitor;
pub(crate) mod pair;
#[cfg(target_os = "linux")]
pub(crate) mod play;
mod progress;
pub(crate) mod put;
#[cfg(target_os = "linux")]
pub(crate) mod record;
mod security_folder;
pub(crate) mod serve;
pub(crate) mod snapshot;
pub(crate) mod stream;
pub(crate) mod support;
mod table;
pub(crate) mod tdms;
pub(crate) mod undeploy;
pub(crate) mod unforce;
pub(crate) mod user;
pub(crate) mod why;

pub(crate) use self::table::{VERBS, Verb};

use trunkline::{InheritedSockets, Write};
use trunkline_net::Clock;
use trunkline_types::Timestamp;

use crate::arguments::Command;
use crate::instant::Now;
use crate::interrupt::Interrupted;
use crate::output::record::{Notice, Record, Table, json};
use crate::settings::Settings;
use crate::terminal::{Style, Terminal};
use crate::{CliError, Exit, Problem};

#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) settings: Settings,
    pub(crate) terminal: Terminal,
    pub(crate) interrupted: Interrupted,
    pub(crate) clock: Clock,
    pub(crate) started: Timestamp,
    /// Listening sockets of a service manager, for `serve`.
    pub(crate) sockets: InheritedSockets,
}

pub(crate) fn run(command: &Command, context: &Context) -> Result<Exit, CliError> {
    match command {
        Command::Get(args) => get::run(args, context),
        Command::Put(args) => put::write_values(args, Write::new, context),
        Command::Set(args) => put::write_values(args, Write::set, context),
        Command::Send(args) => put::write_orders(&args.names, Write::send, context),
        Command::Request(args) => put::write_orders(&args.names, Write::request, context),
        Command::Force(args) => force::run(args, context),
        Command::Unforce(args) => unforce::run(args, context),
        Command::Snapshot(args) => snapshot::run(args, context),
        Command::Monitor(args) => monitor::run(args, context),
        Command::Info(args) => info::run(args, context),
        Command::Ls(args) => ls::run(args, context),
        Command::Find(args) => find::run(args, context),
        Command::Why(args) => why::run(args, context),
        Command::Limits(args) => limits::run(args, context),
        Command::Support(args) => support::run(args, context),
        Command::Deploy(args) => deploy::run(args, context),
        Command::Undeploy(args) => undeploy::run(args, context),
        Command::Library(args) => library::run(args, context),
        Command::Alarm(command) => alarm::run(command, context),
        Command::Control(command) => control::run(command, context),
        Command::Audit(args) => audit::run(args, context),
        Command::History(args) => history::run(args, context),
        Command::Backup(command) => backup::run(command, context),
        Command::Engine(command) => engine::run(command, context),
        Command::Stream(args) => stream::run(args, context),
        #[cfg(target_os = "linux")]
        Command::Record(args) => record::run(args, context),
        #[cfg(target_os = "linux")]
        Command::Play(args) => play::run(args, context),
        Command::Tdms(args) => tdms::run(args, context),
        Command::Io(args) => io::run(args, context),
        Command::Init(args) => init::run(args, context),
        Command::Pair(args) => pair::run(args, context),
        Command::Join(args) => join::run(args, context),
        Command::Ctx(args) => ctx::run(args, context),
        Command::User(command) => user::run(command, context),
        Command::Access(command) => access::run(command, context),
        Command::Serve(args) => serve::run(args, context),
        Command::Demo(args) => demo::run(args, context),
        Command::Completion(args) => completion::run(args, context),
        Command::Man(args) => man::run(args, context),
        Command::Help(args) => help::run(args, context),
    }
}

impl Context {
    /// Returns the reference for times in options: the current time, in the time zone of the output.
    pub(crate) fn now(&self) -> Now {
        Now {
            time: self.clock.wall(),
            zone: self.settings.times.zone(),
        }
    }

    /// Returns a context for a command that writes no data to standard output while it runs: it
    /// shows progress whenever standard error is a terminal.
    pub(crate) fn for_file_output(&self) -> Self {
        Self {
            terminal: self.terminal.for_file_output(),
            ..self.clone()
        }
    }

    /// Returns the result of a command that handles Ctrl-C itself. After Ctrl-C, shows an error, which
    /// does not determine the exit code.
    pub(crate) fn after_interruption(
        &self,
        result: Result<Exit, CliError>,
    ) -> Result<Exit, CliError> {
        match result {
            Err(CliError::Problem(problem)) if self.interrupted.is_pressed() => {
                self.terminal.problem(&problem, 0)?;
                Ok(Exit::Interrupted)
            }
            result => result,
        }
    }

    pub(crate) fn table<R: Record>(&self) -> Result<Table, CliError> {
        self.table_of(R::COLUMNS, R::IS_HEADED)
    }

    pub(crate) fn table_of(
        &self,
        columns: &[&'static str],
        is_headed: bool,
    ) -> Result<Table, CliError> {
        Table::new(&self.settings, &self.terminal, columns, is_headed)
    }

    pub(crate) fn list<R: Record>(
        &self,
        records: impl IntoIterator<Item = R>,
    ) -> Result<(), CliError> {
        let mut table = self.table::<R>()?;
        for record in records {
            table.push(&record)?;
        }
        table.finish()
    }

    /// Prints the details of one object: the record as JSON, or a row for each property that is not
    /// empty.
    pub(crate) fn print_details(
        &self,
        record: &impl Record,
        properties: Vec<(&'static str, String, Style)>,
    ) -> Result<(), CliError> {
        let mut table = self.table_of(&["property", "value"], false)?;
        if self.settings.is_json() {
            return table.push(record);
        }
        for (name, value, style) in properties
            .into_iter()
            .filter(|(_, text, _)| !text.is_empty())
        {
            table.push_cells(vec![name.to_owned(), value], style)?;
        }
        table.finish()
    }

    /// Writes a notice to standard error.
    pub(crate) fn notify(&self, notice: &impl Notice) -> Result<(), CliError> {
        self.terminal.note(&match self.settings.is_json() {
            true => json(notice),
            false => self.terminal.error_paint(notice.style(), &notice.text()),
        })
    }

    /// Writes a remark to standard error: a problem in JSON output, otherwise a sentence.
    pub(crate) fn note_with_code(
        &self,
        code: &'static str,
        sentence: &str,
    ) -> Result<(), CliError> {
        match self.settings.is_json() {
            true => self.terminal.note(&json(&Problem::failed(code, sentence))),
            false => self.terminal.note(sentence),
        }
    }

    /// Writes a remark about the result to standard error. JSON output has no remark, because the
    /// result contains the information.
    pub(crate) fn remark(&self, sentence: &str) -> Result<(), CliError> {
        match self.settings.is_json() {
            true => Ok(()),
            false => self.terminal.note(sentence),
        }
    }

    /// Writes a warning to standard error, always as text.
    pub(crate) fn warn(&self, sentence: &str) -> Result<(), CliError> {
        let terminal = &self.terminal;
        terminal.note(&terminal.error_paint(Style::Bad, sentence))
    }

    /// Shows the problem of one name, and returns its exit code.
    pub(crate) fn show(&self, problem: &Problem, width: usize) -> Result<Exit, CliError> {
        self.terminal.problem(problem, width)?;
        Ok(problem.exit)
    }
}
