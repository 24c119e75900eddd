//! `support`: writes what others need to help with a problem.
//!
//! The file consists of the outputs of other commands, which show no secrets. Only the configuration
//! files are read by this module itself, which leaves out what may be one.

use std::fmt::Write as _;
use std::fs::Permissions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use toml_edit::{DocumentMut, Item, TableLike, Value};

use crate::replace::{replace, write_problem};
use crate::settings::Settings;
use crate::targets;
use crate::terminal::escaped_path;
use crate::{CliError, Context, Exit, Problem};

/// Write a file with the information that others need to help you
///
/// The file is text: versions, this machine, the state of the engine and its limits, its own
/// variables and alarms, and the configuration files that you name. It does not contain the values
/// of your variables, or Trunkline passwords, keys or tokens. Values in the configuration that could be
/// secrets, judging by their key or their form, are left out. Read the file before you pass it on: it
/// contains the names of machines and variables, and the settings of a driver may contain secrets that do
/// not look like secrets.
///
/// With `--account`, each of the commands in the file asks for the password; set
/// TRUNKLINE_PASSWORD_FILE to a file that contains it instead.
///
/// The file reports what could not be determined, for example because the engine is not running.
/// Only you and root can read it.
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

/// Parts of keys whose values may be secret, and of texts that may contain a secret, in lower case.
const SECRET_WORDS: &[&str] = &[
    "pass",
    "pwd",
    "secret",
    "token",
    "key",
    "credential",
    "community",
    "pin",
    "private",
    "auth",
    "login",
    "bearer",
    "cookie",
    "dsn",
];

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let options = connection_options(&context.settings)?;
    let mut text = format!(
        "Trunkline support file, {}. Read it before you pass it on.\n",
        context.started
    );
    for command in COMMANDS {
        let title = format!("trunkline {}", command.join(" "));
        add_section(&mut text, &title, &output_of(command, &options));
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
    if is_replaced {
        // The new file would have the permissions of the old one, and a link would decide its place.
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(write_problem(path, &error));
            }
            _ => {}
        }
    }
    let written = replace(path, false, |file| {
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

/// Returns the options with which other commands reach the same engine in the same way.
fn connection_options(settings: &Settings) -> Result<Vec<String>, Problem> {
    let mut options = vec!["--url".to_owned(), targets::engine(settings)?.to_string()];
    if let Some(account) = &settings.account {
        options.extend(["--account".to_owned(), account.clone()]);
    }
    if let Some(timeout) = settings.explicit_timeout() {
        let timeout = format!("{}ns", timeout.as_nanos());
        options.extend(["--timeout".to_owned(), timeout]);
    }
    Ok(options)
}

/// Runs a command of this program, and returns its output and its errors.
fn output_of(arguments: &[&str], options: &[String]) -> String {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return error.to_string(),
    };
    let output = Command::new(program)
        .args(arguments)
        .args(options)
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

fn has_secret_word(text: &str) -> bool {
    let text = text.to_lowercase();
    SECRET_WORDS.iter().any(|part| text.contains(part))
}

/// Returns true for a text that may contain a secret: the user part of an address, a parameter, or
/// what is named like one.
fn may_be_secret(text: &str) -> bool {
    text.contains(['@', '=']) || has_secret_word(text)
}

/// Appends the keys of a table, each with its path and its value on a line of its own.
fn list_table(table: &dyn TableLike, path: &str, lines: &mut String) {
    for (key, item) in table.iter() {
        let path = match path {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        };
        match item {
            _ if has_secret_word(key) => {
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
        Value::String(text) if may_be_secret(text.value()) => {
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
    use std::ffi::OsString;

    use super::*;

    #[test]
    fn replaced_file_is_private_and_a_link_is_not_followed() {
        use std::fs;
        let folder = tempfile::tempdir().unwrap();
        let [file, link] = ["file.txt", "link.txt"].map(|name| folder.path().join(name));
        fs::write(&file, "before").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        for path in [&link, &file] {
            assert!(write(path, false, "refused").is_err());
            write(path, true, "after").unwrap();
            let metadata = fs::symlink_metadata(path).unwrap();
            assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
            assert_eq!(fs::read_to_string(path).unwrap(), "after");
            let target = fs::read_to_string(&file).unwrap();
            assert_eq!(target == "before", path == &link, "{target}");
        }
    }

    #[test]
    fn values_that_may_be_secret_and_comments_are_left_out() {
        let text = r#"
# hunter2
[engine]
name = "plant" # hunter2
listen = ["127.0.0.1:5850"]
security = "security"

[[io]]
name = "plc"
driver = "opc"
Password = "hunter2"
api_TOKEN = """
hunter2
"""
url = "opc://user:hunter2@host"
address = "10.0.0.7:4840"
options = { user = "anna", pass_phrase = "hunter2", port = 1 }
login = { user = "hunter2" }
keys = ["hunter2"]
db_pass = "hunter2"
Pwd = "hunter2"
auth = "Basic hunter2"
server = "host=db password=hunter2"
endpoint = "https://host/?sig=hunter2"
headers = ["Accept: text/csv", "authorization: Bearer hunter2"]
startup = "PASSWORD hunter2"

[io.private]
deep = "hunter2"
"#;
        let found = without_secrets(&text.replace("[io.private]", "[secrets]")).unwrap();
        assert!(!found.contains("hunter2"), "{found}");
        for expected in [
            "engine.name = \"plant\"\n",
            "engine.listen[0] = \"127.0.0.1:5850\"\n",
            "engine.security = \"security\"\n",
            "io[0].driver = \"opc\"\n",
            "io[0].Password = (left out)\n",
            "io[0].address = \"10.0.0.7:4840\"\n",
            "io[0].options.user = \"anna\"\n",
            "io[0].options.port = 1\n",
            "io[0].headers[0] = \"Accept: text/csv\"\n",
            "io[0].startup = (left out)\n",
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
    fn commands_log_in_and_wait_as_support_itself_would() {
        let options = |words: &[&str]| {
            let words = [&["trunkline", "support", "--url", "tl://plant"], words].concat();
            let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
            let (cli, is_timeout_given) = crate::parse(&words).unwrap();
            let mut settings = Settings::new(&cli.global, false).unwrap();
            settings.is_timeout_given = is_timeout_given;
            connection_options(&settings).unwrap().join(" ")
        };
        assert_eq!(options(&[]), "--url tl://plant");
        assert_eq!(
            options(&["--account", "anna", "--timeout", "1.5s"]),
            "--url tl://plant --account anna --timeout 1500000000ns"
        );
    }

    #[test]
    fn control_characters_of_a_section_are_escaped() {
        let mut text = String::new();
        add_section(&mut text, "title", "a\u{1b}[31mb\n\tc");
        assert_eq!(text, "\n==== title\n\na\\u{1b}[31mb\n\tc\n");
    }
}
