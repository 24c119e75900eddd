//! `pair`: issues a joining token for another program.

use trunkline::proto::Pair;
use trunkline_access::Role;

use super::library;
use crate::connection::Connection;
use crate::output::record::{JsonSchema, Record, Serialize};
use crate::{CliError, Context, Exit};

/// Issue a joining token, with which another program joins the engine
///
/// On the other machine, `trunkline join URL TOKEN` creates a key and registers it with the account.
/// The token works once, within 10 minutes; a restart of the engine invalidates it. Run the command
/// on the engine's machine, as the engine's user or as root, or use an account with the role admin.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Account of the program. A new account needs --role or --group; for an existing account, the
    /// token adds a key
    #[arg(value_name = "ACCOUNT")]
    account_name: String,

    /// Role of the new account
    #[arg(long, value_name = "ROLE", value_parser = role)]
    role: Option<Role>,

    /// Group of the new account; may be given several times
    #[arg(long, value_name = "GROUP")]
    group: Vec<String>,
}

/// The line of `pair`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Trunkline joining token, version 1")]
pub(crate) struct Token {
    /// Account for which the token is valid.
    account: String,
    /// The token, which is a secret.
    token: String,
    /// Time for which the token is valid, in seconds.
    valid_s: u64,
}

impl Record for Token {
    const COLUMNS: &'static [&'static str] = &["token"];
    const IS_HEADED: bool = false;
}

fn role(text: &str) -> Result<Role, String> {
    text.parse().map_err(|error| format!("{error}"))
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let connection = Connection::to_engine(context)?;
    let pair = Pair {
        account: args.account_name.clone(),
        role: args
            .role
            .map_or_else(String::new, |role| role.name().to_owned()),
        groups: args.group.clone(),
    };
    let timeout = connection.timeout();
    let paired = connection.client.pair(&pair, timeout);
    let paired = paired.map_err(|error| library::problem_of_order(&connection, &error))?;
    let minutes = paired.valid_for.as_secs() / 60;
    let token = Token {
        account: args.account_name.clone(),
        token: paired.token,
        valid_s: paired.valid_for.as_secs(),
    };
    let text = format!(
        "Run this on the other machine within {minutes} minutes, with the address of this machine:\n  \
         trunkline join tl://HOST:PORT {}",
        token.token
    );
    if context.settings.output_format.is_for_people() {
        context.terminal.note(&text)?;
    }
    context.list([token])?;
    Ok(Exit::Success)
}
