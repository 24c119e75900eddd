//! The reference page of the command line, from `trunkline help --json`.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command as Process;
use std::time::SystemTime;

use cargo_metadata::MetadataCommand;
use serde::Deserialize;

use super::Options;
use crate::tree::Tree;

/// The page written.
pub(super) const PAGE: &str = "docs/reference/cli.md";

/// The binary's description of itself, version 1.
#[derive(Debug, Deserialize)]
pub(super) struct Help {
    /// Version of this structure.
    pub v: u32,
    /// Options of all commands.
    #[serde(default)]
    pub args: Vec<Arg>,
    /// The commands, in the order of the page.
    pub commands: Vec<Command>,
    /// The sections of a configuration file, in the order of their page.
    #[serde(default)]
    pub configuration: Vec<Section>,
}

/// A section of a configuration file.
#[derive(Debug, Deserialize)]
pub(super) struct Section {
    /// The section as written, such as `[engine]`.
    pub section: String,
    pub keys: Vec<Key>,
}

/// A key of a configuration file.
#[derive(Debug, Deserialize)]
pub(super) struct Key {
    pub name: String,
    /// The form of its value.
    pub form: String,
    /// Its default; empty when it is required.
    pub default: String,
    pub meaning: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Command {
    /// The name as typed, after the name of its parent command.
    pub name: String,
    /// Its description, one sentence or more.
    pub about: String,
    /// `ro`: changes nothing; `rw`: may change something.
    pub tag: String,
    /// Operands and options.
    #[serde(default)]
    pub args: Vec<Arg>,
    /// Codes it may end with.
    #[serde(default)]
    pub exit_codes: Vec<u8>,
    #[serde(default)]
    pub commands: Vec<Command>,
}

/// One operand or option.
#[derive(Debug, Deserialize)]
pub(super) struct Arg {
    /// Name of an operand.
    pub name: String,
    /// Long option, without its hyphens.
    pub long: Option<String>,
    /// Short option, without its hyphen.
    pub short: Option<String>,
    #[serde(default)]
    pub help: Option<String>,
    /// Name of the value it takes; none for a switch.
    pub value: Option<String>,
    /// Value when it is not given.
    pub default: Option<String>,
    /// True if the command refuses to run without it.
    #[serde(default)]
    pub required: bool,
}

/// The result of asking the binary.
#[derive(Debug)]
pub(super) enum Answer {
    /// It answered: its help, and the schema of its output.
    Help(Help, String),
    /// There is no binary, and none was required.
    NoBinary(String),
}

/// Asks the binary for its description, if there is a binary.
pub(super) fn ask(tree: &Tree, options: &Options) -> Result<Answer, String> {
    let binary = match &options.binary {
        Some(path) => path.clone(),
        None => match newest_binary(tree)? {
            Some(path) => path,
            None => {
                let why =
                    "there is no trunkline binary; build it with `cargo build --bin trunkline`";
                return match options.require_binary {
                    true => Err(why.to_owned()),
                    false => Ok(Answer::NoBinary(why.to_owned())),
                };
            }
        },
    };
    let shown = binary.display();
    let ask = |words: [&str; 2]| {
        let output = Process::new(&binary).args(words).output();
        let output = output.map_err(|e| format!("cannot run {shown}: {e}"))?;
        match output.status.success() {
            true => Ok(output.stdout),
            false => {
                let said = String::from_utf8_lossy(&output.stderr);
                let words = words.join(" ");
                Err(format!(
                    "`{shown} {words}` failed ({}): {said}",
                    output.status
                ))
            }
        }
    };
    let help = parse(&ask(["help", "--json"])?);
    let help = help.map_err(|e| format!("`{shown} help --json`: {e}"))?;
    let schema = String::from_utf8_lossy(&ask(["help", "schema"])?).into_owned();
    Ok(Answer::Help(help, schema))
}

/// Returns the newer one of the binaries under the target folder.
pub(crate) fn newest_binary(tree: &Tree) -> Result<Option<PathBuf>, String> {
    let metadata = MetadataCommand::new()
        .current_dir(tree.root())
        .no_deps()
        .exec()
        .map_err(|e| format!("cargo metadata failed: {e}"))?;
    let name = format!("trunkline{}", std::env::consts::EXE_SUFFIX);
    let candidates = ["debug", "release"].into_iter().filter_map(|profile| {
        let path = metadata
            .target_directory
            .join(profile)
            .join(&name)
            .into_std_path_buf();
        let written: SystemTime = fs::metadata(&path).and_then(|m| m.modified()).ok()?;
        Some((written, path))
    });
    Ok(candidates.max().map(|(_, path)| path))
}

/// Reads the answer.
pub(super) fn parse(json: &[u8]) -> Result<Help, String> {
    let help: Help = serde_json::from_slice(json).map_err(|e| e.to_string())?;
    match help.v {
        1 => Ok(help),
        v => Err(format!(
            "version {v} of the structure; xtask/src/docs/cli.rs reads version 1"
        )),
    }
}

/// Returns the whole page.
pub(super) fn write(help: &Help) -> String {
    let mut page = "\
# Command line

<!-- Written by `cargo xtask docs` from `trunkline help --json`. Do not edit. -->

`tl` is a shorter name for `trunkline`. [JSON output](json.md) describes what each command prints,
including the order of columns, and [Exit codes](exit-codes.md) explains the codes. A command marked
`ro` changes nothing; one marked `rw` may.
"
    .to_owned();
    if !help.args.is_empty() {
        page.push_str("\n## Global options\n");
        write_args(&mut page, &help.args);
    }
    for command in &help.commands {
        write_command(&mut page, "##", &command.name, command);
        for below in &command.commands {
            let name = format!("{} {}", command.name, below.name);
            write_command(&mut page, "###", &name, below);
        }
    }
    page
}

/// Writes the section of one command.
fn write_command(page: &mut String, heading: &str, name: &str, command: &Command) {
    let about = one_line(&command.about);
    let _ = write!(page, "\n{heading} {name}\n\n{about} (`{}`)\n", command.tag);
    if !command.commands.is_empty() && command.args.is_empty() {
        return;
    }
    let _ = write!(page, "\n```text\n{}\n```\n", usage(name, command));
    if !command.args.is_empty() {
        write_args(page, &command.args);
    }
    if !command.exit_codes.is_empty() {
        let codes: Vec<String> = command.exit_codes.iter().map(u8::to_string).collect();
        let _ = write!(page, "\nExit codes: {}.\n", codes.join(", "));
    }
}

/// Returns the tables of the keys of a configuration file.
pub(super) fn write_configuration(help: &Help) -> String {
    let mut text = String::new();
    for section in &help.configuration {
        let _ = write!(
            text,
            "### {}\n\n| Key | Written | Default | Meaning |\n|---|---|---|---|\n",
            one_line(&section.section)
        );
        for key in &section.keys {
            let default = match key.default.as_str() {
                "" => "required".to_owned(),
                default => one_line(default),
            };
            let (form, meaning) = (one_line(&key.form), one_line(&key.meaning));
            let _ = writeln!(text, "| `{}` | {form} | {default} | {meaning} |", key.name);
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

fn usage(name: &str, command: &Command) -> String {
    let mut usage = format!("trunkline {name}");
    let (required, optional): (Vec<&Arg>, Vec<&Arg>) = command
        .args
        .iter()
        .filter(|arg| arg.is_option())
        .partition(|option| option.required);
    if !optional.is_empty() {
        usage.push_str(" [OPTIONS]");
    }
    for option in required {
        let _ = write!(usage, " {}", option.in_usage());
    }
    for operand in command.args.iter().filter(|a| !a.is_option()) {
        let value = operand.value.as_deref().unwrap_or(&operand.name);
        let _ = match operand.required {
            true => write!(usage, " {value}"),
            false => write!(usage, " [{value}]"),
        };
    }
    usage
}

fn write_args(page: &mut String, args: &[Arg]) {
    page.push_str("\n| Argument | Meaning | Default |\n|---|---|---|\n");
    for arg in args {
        let default = match &arg.default {
            Some(default) => format!("`{default}`"),
            None if arg.required && arg.is_option() => "required".to_owned(),
            None => String::new(),
        };
        let help = one_line(arg.help.as_deref().unwrap_or_default());
        let _ = writeln!(
            page,
            "| `{}` | {help} | {default} |",
            arg.shown().replace('|', "\\|")
        );
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('|', "\\|")
        .replace('<', "&lt;")
}

impl Arg {
    fn is_option(&self) -> bool {
        self.long.is_some() || self.short.is_some()
    }

    /// Returns the option with one of its names, as in a usage line.
    fn in_usage(&self) -> String {
        let name = match (&self.long, &self.short) {
            (Some(long), _) => format!("--{long}"),
            (None, Some(short)) => format!("-{short}"),
            (None, None) => self.name.clone(),
        };
        match &self.value {
            Some(value) => format!("{name} {value}"),
            None => name,
        }
    }

    fn shown(&self) -> String {
        let short = self.short.as_ref().map(|s| format!("-{s}"));
        let long = self.long.as_ref().map(|l| format!("--{l}"));
        let names: Vec<String> = short.into_iter().chain(long).collect();
        match (names.as_slice(), &self.value) {
            ([], Some(value)) => value.clone(),
            ([], None) => self.name.clone(),
            (names, None) => names.join(", "),
            (names, Some(value)) => format!("{} {value}", names.join(", ")),
        }
    }
}
