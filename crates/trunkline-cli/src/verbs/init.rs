//! `init`: writes a first configuration.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use trunkline_identity::authority::EngineSubject;
use trunkline_identity::folder::{FolderError, SecurityFolder};
use trunkline_identity::host_name::HostName;
use trunkline_types::Timestamp;

use crate::replace::{exists, replace, write_problem};
use crate::terminal::escaped_path;
use crate::{CliError, Context, Exit, Problem};

/// Write an example configuration with comments, ready for `serve`
///
/// The file contains a library with several variables, one of them scaled, and an I/O server that
/// reads the CPU, memory, disk and network use of this computer. An existing file is replaced only
/// with --force.
///
/// The command also creates the folder `security` next to the file, with a private authority, the
/// engine's certificate, and a file for accounts and rules. An existing folder is kept, because the
/// clients that joined the engine trust its authority.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The file to write
    #[arg(value_name = "FILE", default_value = "trunkline.toml")]
    file: PathBuf,

    /// Replace the file if it exists
    #[arg(long)]
    force: bool,

    /// Host name or IP address by which other machines reach the engine, for its certificate; may be
    /// given several times. The name of this machine is always included
    #[arg(long, value_name = "HOST", value_parser = host_name)]
    host: Vec<HostName>,
}

/// Name of the security folder, as in the example.
const SECURITY: &str = "security";

fn host_name(text: &str) -> Result<HostName, String> {
    HostName::parse(text).map_err(|error| error.to_string())
}

const EXAMPLE: &str = include_str!("init.toml");

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let path = &args.file;
    let written = replace(path, args.force, |file| file.write_all(EXAMPLE.as_bytes()));
    written.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => exists(path),
        _ => Problem {
            code: "file".into(),
            ..write_problem(path, &error)
        },
    })?;
    let folder = path.parent().unwrap_or(Path::new("")).join(SECURITY);
    let is_new = create_security(&folder, &args.host, context.started)?;
    let line = format!("{0} written; try: trunkline serve {0}", escaped_path(path));
    context.terminal.note(&line)?;
    let folder = escaped_path(&folder);
    context.terminal.note(&match is_new {
        true => format!("{folder} created: certificates, accounts and rules of the engine"),
        false => format!("{folder} exists already and was kept"),
    })?;
    Ok(Exit::Success)
}

/// Creates the security folder. Returns false if there is one already.
fn create_security(folder: &Path, hosts: &[HostName], wall: Timestamp) -> Result<bool, Problem> {
    if folder.exists() {
        return Ok(false);
    }
    let own = super::serve::host_name();
    let own_host = own.as_deref().and_then(|name| HostName::parse(name).ok());
    let subject = EngineSubject {
        name: own.unwrap_or_else(|| "trunkline".to_owned()),
        host_names: own_host.into_iter().chain(hosts.iter().cloned()).collect(),
    };
    match SecurityFolder::create(folder, &subject, wall) {
        Ok(_) => Ok(true),
        Err(FolderError::NotEmpty(_)) => Ok(false),
        Err(error) => Err(Problem::failed("security", error.to_string())),
    }
}
