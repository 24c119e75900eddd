//! `join`: registers this user's key with an engine.

use trunkline::{CallError, ContextError, Contexts, JoinError};
use trunkline_types::Url;

use crate::connection::not_reached;
use crate::output::record::{JsonSchema, Record, Serialize};
use crate::targets::address;
use crate::{CliError, Context, Exit, Problem};

/// Join an engine with a joining token
///
/// The command creates a key, registers it with the engine, and stores a context: from then on,
/// every command that connects to this URL is encrypted, accepts only this engine, and logs in with
/// the key. `trunkline pair ACCOUNT` on the engine's machine issues the token. The first context is
/// selected, so that commands use its engine by default; `trunkline ctx` shows and changes contexts.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// URL of the engine, such as tl://plant.example:5850
    #[arg(value_name = "URL")]
    engine: String,

    /// The joining token, in upper or lower case, with or without dashes; `-` reads it from standard
    /// input
    #[arg(value_name = "TOKEN", default_value = "-")]
    token: String,

    /// Name of the context. Default: the host in the URL
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

/// The line of `join`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Trunkline joined engine, version 1")]
pub(crate) struct Joined {
    /// Name of the context.
    context: String,
    /// URL of the engine.
    url: String,
    /// Account of this user at the engine.
    account: String,
    /// Role of the account; empty if it has none.
    role: String,
    /// True if commands use this context by default.
    selected: bool,
}

impl Record for Joined {
    const COLUMNS: &'static [&'static str] = &["context", "url", "account", "role", "selected"];
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let with_scheme = match args.engine.contains("://") {
        true => args.engine.clone(),
        false => format!("tl://{}", args.engine),
    };
    let url = Url::parse(&with_scheme).map_err(|error| Problem::usage(error.to_string()))?;
    let token = match args.token.as_str() {
        "-" => read_token()?,
        token => token.to_owned(),
    };
    let contexts =
        Contexts::of_user().map_err(|error| Problem::failed("context", error.to_string()))?;
    let host = url.host.clone().unwrap_or_default();
    let name = args
        .name
        .clone()
        .unwrap_or_else(|| host.replace([':', '%'], "-"));
    let timeout = context
        .settings
        .timeout
        .max(crate::connection::LOGIN_TIMEOUT_MIN);
    let joined = contexts
        .join(&name, &url, &token, timeout)
        .map_err(|error| problem(&url, &error))?;
    let selected = contexts.selected().ok().flatten();
    context.list([Joined {
        selected: selected.as_deref() == Some(&*name),
        context: name,
        url: joined.url.to_string(),
        account: joined.account,
        role: joined.role,
    }])?;
    Ok(Exit::Success)
}

/// Reads the token from the first line of standard input, so that it need not be an argument, which
/// other users of this machine can see.
fn read_token() -> Result<String, Problem> {
    let mut line = String::new();
    match std::io::stdin().read_line(&mut line) {
        Ok(0) | Err(_) => Err(Problem::usage(
            "there is no token on standard input; pass it as the second argument",
        )),
        Ok(_) => Ok(line.trim().to_owned()),
    }
}

fn problem(url: &Url, error: &JoinError) -> Problem {
    match error {
        JoinError::Refused(
            error @ (CallError::NotConnected { .. } | CallError::TimedOut { .. }),
        ) => not_reached(&address(url), error),
        JoinError::Token(_) | JoinError::Context(ContextError::Url { .. }) => {
            Problem::usage(error.to_string())
        }
        _ => Problem::failed("join", error.to_string()),
    }
}
