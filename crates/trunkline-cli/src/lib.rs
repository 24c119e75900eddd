//! The `trunkline` command: all verbs, and the composition root that assembles an engine.
//!
//! ```text
//! words --arguments--> Command, GlobalArgs --settings--> Settings
//!                         |                                 |
//!                         +----> verbs ----------------- Context
//!                                  |    \
//!                            connection   output --> terminal --> stdout (data), stderr (the rest)
//! ```
//!
//! # Layout
//! - [`run`]: parses the command line, runs the verb and returns the exit code.
//! - `arguments`, `settings`: the options, and the checked settings that result from them.
//! - `verbs`: one file per verb. `targets`, `connection`: names and URLs, and the connection to
//!   their engine.
//! - `output`: readings and lists as table, plain text, JSON, CSV. `terminal`: the only module that
//!   prints.
//! - `examples`: the examples in the help.
//! - `problem`, `exit`: errors, and their exit codes. `interrupt`: Ctrl-C.
//! - `password`: passwords, asked on the terminal or read from a file.
//! - `condition`: `--until`. `instant`: times. `replace`: files that are replaced atomically.

#![forbid(unsafe_code)]

mod arguments;
mod condition;
mod connection;
mod examples;
mod exit;
mod instant;
mod interrupt;
mod output;
mod password;
mod problem;
mod replace;
mod settings;
mod targets;
mod terminal;
mod verbs;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches};

use trunkline::InheritedSockets;
use trunkline_types::name::suggest;

// Other modules import `Exit`, `Tally`, `CliError`, `Problem`, `Context` and `counted` from here.
use crate::arguments::Cli;
use crate::exit::{Exit, Tally};
use crate::interrupt::Interrupted;
use crate::output::counted;
use crate::problem::{CliError, Problem};
use crate::settings::Settings;
use crate::terminal::{Terminal, escaped, escaped_lines};
use crate::verbs::{Context, help};

/// Runs the command line of this process. `docs/reference/exit-codes.md` describes the exit codes.
pub fn run() -> ExitCode {
    // Before there are threads.
    let sockets = InheritedSockets::claim();
    let words: Vec<OsString> = std::env::args_os().collect();
    let is_json = wants_json(&words);
    let terminal = Terminal::new(is_json);
    let result = match parse(&words) {
        Ok((cli, is_timeout_given)) => match sockets {
            Ok(sockets) => run_verb(&cli, is_timeout_given, &terminal, sockets),
            Err(error) => Err(Problem::failed("service-manager", error.to_string()).into()),
        },
        Err(error) => refuse(
            &with_escaped_words(with_suggestion(error, &words)),
            &words,
            &terminal,
        ),
    };
    finish(result, &terminal).into()
}

/// Returns the parsed command line, and whether an option or the environment sets the timeout.
fn parse(words: &[OsString]) -> Result<(Cli, bool), clap::Error> {
    let matches = help::command().try_get_matches_from(words)?;
    check_option_positions(&matches)?;
    let source = matches.value_source("timeout");
    let is_timeout_given = source.is_some_and(|source| source != ValueSource::DefaultValue);
    Ok((Cli::from_arg_matches(&matches)?, is_timeout_given))
}

/// Refuses options of a command that precede one of its subcommands: clap accepts them there, but the
/// subcommand would ignore them.
fn check_option_positions(matches: &clap::ArgMatches) -> Result<(), clap::Error> {
    let Some((name, subcommand_matches)) = matches.subcommand() else {
        return Ok(());
    };
    let Some((verb, _)) = subcommand_matches.subcommand() else {
        return Ok(());
    };
    let cli = Cli::command();
    let arguments = cli
        .find_subcommand(name)
        .into_iter()
        .flat_map(clap::Command::get_arguments);
    let is_given = |argument: &&clap::Arg| {
        subcommand_matches.value_source(argument.get_id().as_str())
            == Some(ValueSource::CommandLine)
    };
    match arguments
        .filter(|argument| argument.get_long().is_some())
        .find(is_given)
    {
        None => Ok(()),
        Some(argument) => {
            let option = argument.get_long().unwrap_or_default();
            let sentence = format!(
                "--{option} before `{verb}` applies only to `{name}` without a subcommand; write the \
                 options of `{verb}` after `{verb}`\n"
            );
            Err(clap::Error::raw(ErrorKind::ArgumentConflict, sentence))
        }
    }
}

fn run_verb(
    cli: &Cli,
    is_timeout_given: bool,
    terminal: &Terminal,
    sockets: InheritedSockets,
) -> Result<Exit, CliError> {
    let mut settings = Settings::new(&cli.global, terminal.out_is_tty)?;
    settings.is_timeout_given = is_timeout_given;
    let clock = trunkline_net::Clock::new();
    let context = Context {
        settings,
        terminal: terminal.clone(),
        interrupted: Interrupted::new(terminal)?,
        clock,
        started: clock.wall(),
        sockets,
    };
    verbs::run(&cli.command, &context)
}

/// Completes the output, reports an error, and returns the exit code.
fn finish(result: Result<Exit, CliError>, terminal: &Terminal) -> Exit {
    let error = match (result, terminal.finish()) {
        (Ok(exit), Ok(())) => return exit,
        (Err(error), _) | (Ok(_), Err(error)) => error,
    };
    match error {
        CliError::PipeClosed => Exit::Success,
        CliError::Problem(problem) => {
            // If standard error is closed as well, the problem cannot be shown.
            let _ = terminal.problem(&problem, 0);
            problem.exit
        }
    }
}

/// Adds a suggestion that clap itself does not make: a command with a similar name, or the
/// subcommands that accept the option.
fn with_suggestion(mut error: clap::Error, words: &[OsString]) -> clap::Error {
    if let Some(tip) = tip(&error, words) {
        let tips = ContextValue::StyledStrs(vec![tip.into()]);
        error.insert(ContextKind::Suggested, tips);
    }
    if error.kind() != ErrorKind::InvalidSubcommand
        || error.get(ContextKind::SuggestedSubcommand).is_some()
    {
        return error;
    }
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    let cli = Cli::command();
    let index = words.iter().position(|word| word.to_str() == Some(typed));
    let command = find_command(&cli, &words[..index.unwrap_or_default()]).unwrap_or(&cli);
    let names = command.get_subcommands().map(clap::Command::get_name);
    if let Some(name) = suggest(typed, names) {
        let suggestion = ContextValue::Strings(vec![name]);
        error.insert(ContextKind::SuggestedSubcommand, suggestion);
    }
    error
}

/// Returns a tip that lists the subcommands of the same command that accept the unknown option.
fn tip(error: &clap::Error, words: &[OsString]) -> Option<String> {
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let long = option.strip_prefix("--")?;
    let cli = Cli::command();
    let command = find_command(&cli, words)?;
    let takes_option = |verb: &&clap::Command| {
        let mut arguments = verb.get_arguments();
        arguments.any(|argument| argument.get_long() == Some(long) && !argument.is_hide_set())
    };
    let verbs = command.get_subcommands().filter(takes_option);
    let verbs: Vec<String> = verbs
        .map(|verb| format!("`{} {}`", command.get_name(), verb.get_name()))
        .collect();
    let is_unknown = error.kind() == ErrorKind::UnknownArgument && !verbs.is_empty();
    is_unknown.then(|| format!("{option} is for {}", verbs.join(", ")))
}

/// Returns the first command that the words name.
fn find_command<'a>(cli: &'a clap::Command, words: &[OsString]) -> Option<&'a clap::Command> {
    words
        .iter()
        .skip(1)
        .find_map(|word| cli.find_subcommand(word))
}

fn refuse(error: &clap::Error, words: &[OsString], terminal: &Terminal) -> Result<Exit, CliError> {
    let is_json = wants_json(words);
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            terminal.raw(error.render().to_string().as_bytes())?;
            Ok(Exit::Success)
        }
        // If an environment variable sets an option, clap reports a short error instead of the
        // help.
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            if !is_json =>
        {
            let mut cli = help::command();
            cli.build();
            let mut command = find_command(&cli, words).cloned().unwrap_or(cli);
            terminal.note(command.render_help().to_string().trim_end())?;
            Ok(Exit::Usage)
        }
        _ if is_json => {
            let text = rendered(error);
            let single_line = |part: &str| part.split_whitespace().collect::<Vec<_>>().join(" ");
            // The parts are the message, an optional tip, and the usage.
            let mut parts = text.split("\n\n").map(single_line);
            let message = parts.next().unwrap_or_default();
            let mut problem = Problem::usage(message.strip_prefix("error: ").unwrap_or(&message));
            let tip = parts.find_map(|part| Some(part.strip_prefix("tip: ")?.to_owned()));
            let default_hint = || "`trunkline help COMMAND` explains a command".to_owned();
            let hint = tip.or_else(|| problem.hint.take());
            problem.hint = Some(hint.unwrap_or_else(default_hint));
            Err(problem.into())
        }
        _ => {
            terminal.note(rendered(error).trim_end())?;
            Ok(Exit::Usage)
        }
    }
}

/// Escapes the words of the command line that the error quotes.
fn with_escaped_words(mut error: clap::Error) -> clap::Error {
    for kind in [
        ContextKind::InvalidArg,
        ContextKind::InvalidSubcommand,
        ContextKind::InvalidValue,
    ] {
        if let Some(ContextValue::String(word)) = error.get(kind) {
            let word = ContextValue::String(escaped(word));
            error.insert(kind, word);
        }
    }
    error
}

fn rendered(error: &clap::Error) -> String {
    escaped_lines(&error.render().to_string())
}

/// Returns true if errors must be JSON. Reads the raw words, because the command line may be
/// invalid.
fn wants_json(words: &[OsString]) -> bool {
    let words: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
    let json_formats = ["json", "jsonl"];
    let after = |option: &str| {
        words
            .windows(2)
            .any(|pair| pair[0] == option && json_formats.contains(&pair[1]))
    };
    let joined = words.iter().any(|word| {
        let value = word.strip_prefix("--output=").or(word.strip_prefix("-o"));
        value.is_some_and(|value| json_formats.contains(&value.trim_start_matches('=')))
    });
    words.contains(&"--json") || joined || after("-o") || after("--output")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_output_of_errors_is_detected_in_an_invalid_command_line() {
        let wants = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            wants_json(&words)
        };
        for line in [
            "get --json x",
            "get -o json x",
            "-ojsonl get",
            "get --output=json --bad",
        ] {
            assert!(wants(line), "{line}");
        }
        for line in ["get x", "get -o csv json", "-o table get", "get x/json"] {
            assert!(!wants(line), "{line}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// clap would confuse the values of two arguments with the same id.
    #[test]
    fn no_argument_has_the_id_of_a_global_option() {
        let cli = Cli::command();
        let globals = cli
            .get_arguments()
            .filter(|argument| argument.is_global_set());
        let globals: Vec<&clap::Id> = globals.map(clap::Arg::get_id).collect();
        for command in cli.get_subcommands() {
            for verb in std::iter::once(command).chain(command.get_subcommands()) {
                for argument in verb.get_arguments() {
                    let id = argument.get_id();
                    assert!(!globals.contains(&id), "{} {id}", verb.get_name());
                }
            }
        }
    }
}
