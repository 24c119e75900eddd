//! `support`: writes what others need to help with a problem.
//!
//! The file consists of the outputs of other commands, which show no secrets. Only the configuration
//! files are read by this module itself, which leaves out what may be one.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use toml_edit::{DocumentMut, Item, TableLike, Value};

use crate::replace::{replace, write_problem};
use crate::targets;
use crate::terminal::escaped_path;
use crate::{CliError, Context, Exit, Problem};

/// Write a file with the information that others need to help you
///
/// The file is text: versions, this machine, the state of the engine and its limits, its own
/// variables and alarms, and the configuration files that you name. It does not contain the values
/// of your variables, or passwords, keys or tokens: values in a configuration that may be secret
/// are left out. Read the file before you pass it on; it contains names of machines and variables.
///
/// The file reports what could not be determined, for example because the engine is not running.
/// Only its user can read it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The file to write
    #[arg(value_name = "FILE", default_value = "trunkline-support.txt")]
    file: PathBuf,

    /// Replace the file if it exists
    #[arg(long)]
    force: bool,

    /// A configuration file of the engine to include, without values that may be secret; may be
    /// given several times
    #[arg(long, value_name = "FILE")]
    config: Vec<PathBuf>,
}

/// The commands whose outputs the file contains.
const COMMANDS: &[&[&str]] = &[
    &["--version"],
    &["engine", "ping", "--count", "5", "--interval", "10ms"],
    &["engine", "info"],
    &["limits"],
    &["get", "_engine/**"],
    &["alarm", "ls", "_engine/**"],
    &["ctx", "ls"],
];

/// Files of the system that describe the machine.
const SYSTEM_FILES: &[&str] = &[
    "/proc/sys/kernel/osrelease",
    "/etc/os-release",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/self/limits",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource",
];

/// Maximum length of the output of one command, in bytes.
const SECTION_BYTES_MAX: usize = 1 << 20;

/// Takes the place of a value that may be secret.
const LEFT_OUT: &str = "(left out)";

/// Parts of keys whose values may be secret, in lower case.
const SECRET_KEYS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "key",
    "credential",
    "community",
    "pin",
    "private",
];

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let engine = targets::engine(&context.settings)?.to_string();
    let mut text = format!(
        "Trunkline support file, {}. Read it before you pass it on.\n",
        context.started
    );
    for command in COMMANDS {
        let title = format!("trunkline {}", command.join(" "));
        add_section(&mut text, &title, &output_of(command, &engine));
    }
    for file in SYSTEM_FILES {
        let content = std::fs::read(file).unwrap_or_else(|error| error.to_string().into_bytes());
        add_section(&mut text, file, &String::from_utf8_lossy(&content));
    }
    let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    let mut names: Vec<String> = names
        .filter(|name| name.starts_with("TRUNKLINE_"))
        .collect();
    names.sort();
    add_section(
        &mut text,
        "environment variables that are set",
        &names.join("\n"),
    );
    for file in &args.config {
        let title = format!("configuration {}", escaped_path(file));
        let content = std::fs::read_to_string(file);
        let content = content.map_err(|error| error.to_string());
        let content = content.and_then(|content| without_secrets(&content));
        add_section(&mut text, &title, &content.unwrap_or_else(|error| error));
    }
    write(&args.file, args.force, &text)?;
    let line = format!(
        "{} written; read it before you pass it on",
        escaped_path(&args.file)
    );
    context.terminal.note(&line)?;
    Ok(Exit::Success)
}

fn write(path: &Path, is_replaced: bool, text: &str) -> Result<(), Problem> {
    let written = replace(path, is_replaced, |file| {
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.write_all(text.as_bytes())
    });
    written.map_err(|error| write_problem(path, &error))
}

/// Appends a section. Control characters other than line ends and tabs are escaped, because the text may
/// be shown on a terminal.
fn add_section(text: &mut String, title: &str, content: &str) {
    let _ = writeln!(text, "\n==== {title}\n");
    for line in content.lines() {
        for c in line.chars() {
            match c.is_control() && c != '\t' {
                true => text.extend(c.escape_default()),
                false => text.push(c),
            }
        }
        text.push('\n');
    }
}

/// Runs a command of this program, and returns its output and its errors.
fn output_of(arguments: &[&str], engine: &str) -> String {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return error.to_string(),
    };
    let output = Command::new(program)
        .args(arguments)
        .args(["--url", engine].map(OsString::from))
        .stdin(Stdio::null())
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) => return error.to_string(),
    };
    let part = |bytes: &[u8]| {
        let shown = bytes.get(..SECTION_BYTES_MAX).unwrap_or(bytes);
        let rest = bytes.len() - shown.len();
        let mut text = String::from_utf8_lossy(shown).into_owned();
        if rest > 0 {
            let _ = write!(text, "\n({rest} more bytes)");
        }
        text
    };
    let mut text = part(&output.stdout);
    text.push_str(&part(&output.stderr));
    if !output.status.success() {
        let _ = write!(text, "\n({})", output.status);
    }
    text
}

/// Returns a configuration without the values that may be secret, and without comments.
///
/// # Errors
/// A sentence, if it cannot be parsed: then nothing is known to be safe.
fn without_secrets(text: &str) -> Result<String, String> {
    let failed = |_| "left out, because it is not valid TOML".to_owned();
    let document: DocumentMut = text.parse().map_err(failed)?;
    let mut lines = String::new();
    list_table(document.as_table(), "", &mut lines);
    Ok(lines)
}

fn is_secret(key: &str) -> bool {
    let key = key.to_lowercase();
    SECRET_KEYS.iter().any(|part| key.contains(part))
}

/// Appends the keys of a table, each with its path and its value on a line of its own.
fn list_table(table: &dyn TableLike, path: &str, lines: &mut String) {
    for (key, item) in table.iter() {
        let path = match path {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        };
        match item {
            _ if is_secret(key) => {
                let _ = writeln!(lines, "{path} = {LEFT_OUT}");
            }
            Item::None => {}
            Item::Value(value) => list_value(value, &path, lines),
            Item::Table(table) => list_table(table, &path, lines),
            Item::ArrayOfTables(tables) => {
                for (index, table) in tables.iter().enumerate() {
                    list_table(table, &format!("{path}[{index}]"), lines);
                }
            }
        }
    }
}

fn list_value(value: &Value, path: &str, lines: &mut String) {
    match value {
        Value::InlineTable(table) => list_table(table, path, lines),
        Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                list_value(value, &format!("{path}[{index}]"), lines);
            }
        }
        // The user part of an address can contain a password.
        Value::String(text) if text.value().contains('@') => {
            let _ = writeln!(lines, "{path} = {LEFT_OUT}");
        }
        Value::String(text) => {
            let _ = writeln!(lines, "{path} = {:?}", text.value());
        }
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => {
            let _ = writeln!(lines, "{path} = {}", value.to_string().trim());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_may_be_secret_and_comments_are_left_out() {
        let text = r#"
# comment-secret
[engine]
name = "plant" # trailing-secret
listen = ["127.0.0.1:5850"]
security = "security"

[[io]]
name = "plc"
driver = "opc"
Password = "plain-secret"
api_TOKEN = """
line-secret
"""
url = "opc://user:url-secret@host"
login = { user = "anna", pass_phrase = 1, passphrase = "inline-secret" }
keys = ["array-secret"]

[io.private]
deep = "table-secret"
"#;
        let found = without_secrets(&text.replace("[io.private]", "[secrets]")).unwrap();
        assert_eq!(found.matches("-secret").count(), 0, "{found}");
        for expected in [
            "engine.name = \"plant\"\n",
            "engine.listen[0] = \"127.0.0.1:5850\"\n",
            "engine.security = \"security\"\n",
            "io[0].driver = \"opc\"\n",
            "io[0].Password = (left out)\n",
            "io[0].login.user = \"anna\"\n",
            "io[0].login.pass_phrase = 1\n",
            "secrets = (left out)\n",
        ] {
            assert!(found.contains(expected), "{expected} in {found}");
        }
        assert!(
            without_secrets("[engine\nname = 1")
                .unwrap_err()
                .contains("not valid TOML")
        );
    }

    #[test]
    fn control_characters_of_a_section_are_escaped() {
        let mut text = String::new();
        add_section(&mut text, "title", "a\u{1b}[31mb\n\tc");
        assert_eq!(text, "\n==== title\n\na\\u{1b}[31mb\n\tc\n");
    }
}
