//! `help`: prints help for people. With `--json`, it prints the whole command line and
//! configuration as data; the reference pages are generated from it.

use std::collections::BTreeSet;

use clap::{Arg, ArgAction, CommandFactory};
use serde_json::{Value as Json, json};
use trunkline_config::keys::{SECTIONS, Section};

use trunkline_types::name::suggest;

use super::{VERBS, Verb};
use crate::arguments::Cli;
use crate::examples;
use crate::output::schema::schema;
use crate::{CliError, Context, Exit, Problem};

/// Explain a command; with `--json`, describe all commands in machine-readable form
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The command; `options` for the global options; `config` for the keys of
    /// configuration files; `schema` for the JSON Schema of the output; without it, a summary of
    /// all commands
    #[arg(value_name = "COMMAND")]
    command: Option<String>,

    /// A subcommand, such as `write` of `stream`; after `config`, a section of configuration files,
    /// such as `engine`
    #[arg(value_name = "SUBCOMMAND")]
    verb: Option<String>,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let is_json = context.settings.is_json();
    let text = match (&args.command, is_json) {
        (Some(name), _) if name == SCHEMA => format!("{:#}\n", schema()),
        (_, true) => format!("{}\n", describe_cli()),
        (None, false) => command().render_help().to_string(),
        (Some(name), false) if name == OPTIONS && args.verb.is_none() => options(),
        (Some(name), false) if name == CONFIG => configuration(args.verb.as_deref())?,
        (Some(name), false) => command_help(name, args.verb.as_deref())?,
    };
    context.terminal.raw(text.as_bytes())?;
    Ok(Exit::Success)
}

const OPTIONS: &str = "options";
const SCHEMA: &str = "schema";
const CONFIG: &str = "config";

/// Returns the command line without the global options, which have their own help page.
pub(crate) fn command() -> clap::Command {
    let hint =
        "Global options, such as --url, --timeout, --output and --json: `trunkline help options`";
    let cli = Cli::command().mut_args(|argument| match argument.is_global_set() {
        true => argument.hide(true),
        false => argument,
    });
    let start = cli.get_after_help().map(ToString::to_string);
    let start = format!("{}\n{hint}", start.unwrap_or_default());
    cli.mut_subcommands(|command| {
        let name = command.get_name().to_owned();
        let footer = |verb: Option<&str>| format!("{}{hint}", examples::examples_for(&name, verb));
        let command = command.mut_subcommands(|verb| {
            let footer = footer(Some(verb.get_name()));
            verb.after_help(footer)
        });
        command.after_help(footer(None))
    })
    .after_help(start)
}

fn options() -> String {
    let cli = Cli::command();
    let globals = cli
        .get_arguments()
        .filter(|argument| argument.is_global_set());
    clap::Command::new("trunkline COMMAND")
        .about("Options of all commands")
        .disable_help_flag(true)
        .args(globals.cloned())
        .render_long_help()
        .to_string()
}

fn configuration(section: Option<&str>) -> Result<String, Problem> {
    let heading = |section: Section| section.header().trim_start_matches("a ");
    let bare = |section: Section| heading(section).trim_matches(['[', ']']);
    let requested = section.map(|text| text.trim_matches(['[', ']']));
    let mut page = String::new();
    let is_requested =
        |section: &&Section| requested.is_none_or(|requested| bare(**section) == requested);
    for section in SECTIONS.iter().filter(is_requested) {
        if !page.is_empty() {
            page.push('\n');
        }
        page += &format!("{}\n", heading(*section));
        for key in section.keys() {
            let default = match key.default {
                "" => "required".to_owned(),
                default => format!("default {default}"),
            };
            page += &format!(
                "  {}: {} ({default})\n      {}\n",
                key.name, key.form, key.meaning
            );
        }
    }
    match (page.is_empty(), requested) {
        (true, Some(requested)) => {
            let names: Vec<&str> = SECTIONS.iter().map(|section| bare(*section)).collect();
            let sentence = format!(
                "unknown section \"{requested}\"; the sections are {}",
                names.join(", ")
            );
            Err(Problem::usage(sentence))
        }
        _ => Ok(page),
    }
}

fn command_help(name: &str, verb: Option<&str>) -> Result<String, Problem> {
    let mut cli = command();
    cli.build();
    let Some(found) = cli.find_subcommand(name) else {
        let names = VERBS.iter().map(|verb| verb.name);
        let hint = match suggest(name, names) {
            Some(suggestion) => format!("did you mean {suggestion}?"),
            None => "`trunkline help` lists all commands".to_owned(),
        };
        return Err(Problem::usage(format!(
            "unknown command \"{name}\"; {hint}"
        )));
    };
    let Some(verb) = verb else {
        return Ok(found.clone().render_long_help().to_string());
    };
    let Some(subcommand) = found.find_subcommand(verb) else {
        let names: Vec<&str> = found
            .get_subcommands()
            .map(clap::Command::get_name)
            .collect();
        let hint = match names.is_empty() {
            true => format!("`trunkline help {name}` explains it"),
            false => format!("its subcommands are {}", names.join(", ")),
        };
        return Err(Problem::usage(format!(
            "{name} has no subcommand {verb}; {hint}"
        )));
    };
    Ok(subcommand.clone().render_long_help().to_string())
}

/// Describes the command line and the configuration as JSON, in version 1 of its format.
fn describe_cli() -> Json {
    let cli = Cli::command();
    json!({
        "v": 1,
        "program": "trunkline",
        "version": env!("CARGO_PKG_VERSION"),
        "args": arguments(&cli),
        "commands": describe_all(VERBS, &cli),
        "configuration": SECTIONS.iter().map(|section| configured(*section)).collect::<Vec<_>>(),
    })
}

fn describe_all(verbs: &[Verb], parent: &clap::Command) -> Vec<Json> {
    let commands = verbs
        .iter()
        .map(|verb| (verb, parent.find_subcommand(verb.name)));
    commands
        .filter_map(|(verb, command)| Some(describe(verb, command?)))
        .collect()
}

fn describe(verb: &Verb, command: &clap::Command) -> Json {
    let about = command.get_long_about().or(command.get_about());
    let aliases: Vec<&str> = command.get_visible_aliases().collect();
    let all = || std::iter::once(verb).chain(verb.verbs);
    let exits: BTreeSet<&u8> = all().flat_map(|verb| verb.exits).collect();
    let mut described = json!({
        "name": verb.name,
        "aliases": aliases,
        "about": about.map(|about| sentences(&about.to_string())).unwrap_or_default(),
        "tag": if all().any(|verb| verb.writes) { "rw" } else { "ro" },
        "args": arguments(command),
        "exit_codes": exits,
    });
    if !verb.verbs.is_empty() {
        described["commands"] = describe_all(verb.verbs, command).into();
    }
    described
}

fn arguments(command: &clap::Command) -> Vec<Json> {
    command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set())
        .map(argument)
        .collect()
}

fn argument(argument: &Arg) -> Json {
    let takes_value = argument.get_action().takes_values();
    let default: Vec<_> = argument
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy())
        .collect();
    json!({
        "name": argument.get_id().as_str(),
        "long": argument.get_long(),
        "short": argument.get_short().map(String::from),
        "help": argument.get_help().map(|help| help_of(argument, &help.to_string())),
        "value": takes_value.then(|| value_of(argument)),
        "default": (takes_value && !default.is_empty()).then(|| default.join(",")),
        "required": argument.is_required_set(),
    })
}

/// Returns the notation of an argument's value: the possible values, or the name of the value, followed
/// by dots if the argument can be repeated.
fn value_of(argument: &Arg) -> String {
    let values: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| value.get_name().to_owned())
        .collect();
    if !values.is_empty() {
        return values.join("|");
    }
    let name = argument
        .get_value_names()
        .and_then(|names| names.first())
        .map_or_else(|| argument.get_id().to_string(), ToString::to_string);
    let is_list = argument.is_positional() && matches!(argument.get_action(), ArgAction::Append);
    match is_list {
        true => format!("{name}..."),
        false => name,
    }
}

fn help_of(argument: &Arg, help: &str) -> String {
    match argument.get_env() {
        Some(variable) => format!("{help} [environment: {}]", variable.to_string_lossy()),
        None => help.to_owned(),
    }
}

/// Joins paragraphs to one line, each with a full stop at its end.
fn sentences(text: &str) -> String {
    let paragraphs = text
        .split("\n\n")
        .map(str::trim)
        .filter(|paragraph| !paragraph.is_empty());
    let sentences = paragraphs.map(|paragraph| match paragraph.ends_with(['.', ':', '?']) {
        true => paragraph.to_owned(),
        false => format!("{paragraph}."),
    });
    sentences.collect::<Vec<_>>().join(" ")
}

fn configured(section: Section) -> Json {
    let keys: Vec<Json> = section
        .keys()
        .map(|key| {
            json!({
                "name": key.name,
                "form": key.form,
                "default": key.default,
                "meaning": key.meaning,
            })
        })
        .collect();
    json!({ "section": section.header(), "keys": keys })
}
