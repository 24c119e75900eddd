//! `ctx`: the engines that the user has joined, and which of them commands use by default.

use std::path::{Path, PathBuf};

use trunkline::{
    Context as EngineContext, ContextError, ContextProof, Contexts, NewContext, NewKey,
};
use trunkline_identity::{ClientCertificate, ProgramKey};
use trunkline_types::Timestamp;

use super::certificate_file::certificate_in;
use super::security_folder::note;
use crate::output::record::{JsonSchema, Record, Serialize};
use crate::targets;
use crate::terminal::Style;
use crate::{CliError, Context, Exit, Problem, Tally};

/// Manage contexts: the engines that you have joined
///
/// A context contains the URL of an engine, the certificate of the engine's authority, and usually a key or a
/// client certificate. Commands that connect to this URL are encrypted, accept only this engine, and log in
/// with the key or the certificate. Commands without --url and TRUNKLINE_URL use the engine of the selected
/// context. `trunkline join` creates a context. Contexts are stored in ~/.config/trunkline/contexts, or in
/// trunkline/contexts under XDG_CONFIG_HOME. Without a subcommand, the contexts are listed.
#[derive(Clone, Debug, clap::Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Subcommand>,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Subcommand {
    /// List the contexts; the selected one is marked with *
    Ls(ListArgs),
    Select(SelectArgs),
    Info(InfoArgs),
    Add(AddArgs),
    Rm(RemoveArgs),
}

#[derive(Clone, Debug, clap::Args)]
struct ListArgs {}

/// Select the context that commands use by default
#[derive(Clone, Debug, clap::Args)]
struct SelectArgs {
    /// The context; `-` selects none, so that commands use the engine on this machine
    #[arg(value_name = "NAME")]
    name: String,
}

/// Show a context, with its authority and its public key
#[derive(Clone, Debug, clap::Args)]
struct InfoArgs {
    /// The context
    #[arg(value_name = "NAME")]
    name: String,
}

/// Add a context for an engine without a joining token
///
/// The global option --url is the URL of the engine. The command does not contact the engine. Without --key
/// and --no-key, the command creates a key and prints its public part, which an administrator adds to an
/// account with `trunkline user key add`. With --certificate, an administrator adds the printed SHA-256 with
/// `trunkline user certificate add`. The global option --account names your account at the engine; with
/// --no-key, commands then ask for its password.
#[derive(Clone, Debug, clap::Args)]
struct AddArgs {
    /// Name of the context
    #[arg(value_name = "NAME")]
    name: String,

    /// Certificate of the authority that issued the engine's certificate, in PEM form: a copy of
    /// authority.crt from the security folder of the engine
    #[arg(long, value_name = "FILE")]
    authority: PathBuf,

    /// Log in with the Ed25519 key in this file (PKCS #8, PEM), which stays where it is; with
    /// --certificate, the file of the private key of the certificate
    #[arg(long, value_name = "FILE", conflicts_with = "no_key")]
    key: Option<PathBuf>,

    /// Log in with the client certificate in this file (PEM), which stays where it is; needs --key
    #[arg(long, value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,

    /// Log in only with a password
    #[arg(long)]
    no_key: bool,
}

/// Remove a context and its key
///
/// The account at the engine is kept; an administrator removes it with `trunkline user rm`, or only the key
/// with `trunkline user key rm`. A key file that was given with `ctx add --key` is kept as well.
#[derive(Clone, Debug, clap::Args)]
struct RemoveArgs {
    /// The context
    #[arg(value_name = "NAME")]
    name: String,
}

/// A line of `ctx ls` and `ctx select`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Trunkline context, version 1")]
pub(crate) struct Listed {
    /// Name of the context.
    name: String,
    /// URL of the engine.
    url: String,
    /// Account of the user at the engine; empty if it is not known.
    account: String,
    /// Role of the account when the user joined; empty if it had none, or if it is not known.
    role: String,
    /// True if commands use this context by default.
    selected: bool,
}

impl Record for Listed {
    const COLUMNS: &'static [&'static str] = &["name", "url", "account", "role", "selected"];

    fn cell(&self, column: &str) -> Option<String> {
        (column == "selected").then(|| if self.selected { "*" } else { "" }.to_owned())
    }
}

/// The line of `ctx info`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Trunkline context in detail, version 1")]
pub(crate) struct Info {
    #[serde(flatten)]
    listed: Listed,
    /// SHA-256 of the public key of the engine's authority.
    authority: String,
    /// Name in the certificate of the authority. It is not verified.
    authority_name: String,
    /// First moment at which the certificate of the authority is valid.
    #[schemars(extend("format" = "date-time"))]
    valid_from: String,
    /// Last moment at which the certificate of the authority is valid.
    #[schemars(extend("format" = "date-time"))]
    valid_until: String,
    /// The public key with which the user logs in. Left out without a key, or if it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// The file of the private key. Left out without a key.
    #[serde(skip_serializing_if = "Option::is_none")]
    key_file: Option<String>,
    /// SHA-256 of the public key of the client certificate with which the user logs in. Left out
    /// without one, or if it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate: Option<String>,
    /// The file of the client certificate. Left out without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate_file: Option<String>,
    /// The file of the context.
    file: String,
}

impl Record for Info {
    const COLUMNS: &'static [&'static str] = &["property", "value"];
}

/// The line of `ctx add`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Trunkline new context, version 1")]
pub(crate) struct Added {
    /// Name of the context.
    context: String,
    /// URL of the engine.
    url: String,
    /// The public key, which an account of the engine must have. Left out with --no-key and
    /// --certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// SHA-256 of the public key of the client certificate, which an account of the engine must have.
    /// Left out without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate: Option<String>,
    /// True if commands use this context by default.
    selected: bool,
}

impl Record for Added {
    const COLUMNS: &'static [&'static str] = &["context", "url", "key", "selected", "certificate"];
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let contexts = Contexts::of_user().map_err(|error| problem(&error))?;
    match &args.command {
        None | Some(Subcommand::Ls(ListArgs {})) => list(&contexts, context),
        Some(Subcommand::Select(args)) => select(args, &contexts, context),
        Some(Subcommand::Info(args)) => info(args, &contexts, context),
        Some(Subcommand::Add(args)) => add(args, &contexts, context),
        Some(Subcommand::Rm(args)) => remove(args, &contexts, context),
    }
}

fn list(contexts: &Contexts, context: &Context) -> Result<Exit, CliError> {
    let all = contexts.all().map_err(|error| problem(&error))?;
    let selected = selected(contexts)?;
    let is_missing = |name: &&String| !all.iter().any(|(one, _)| one == *name);
    if let Some(name) = selected.as_ref().filter(is_missing) {
        let sentence = format!(
            "the selected context {name} does not exist; select another one with `trunkline ctx \
             select`"
        );
        note(context, UNKNOWN, &sentence)?;
    }
    if all.is_empty() {
        context.remark("there are no contexts; `trunkline join` creates one")?;
    }
    let usable = all.iter().filter_map(|(_, one)| one.as_ref().ok());
    context.list(usable.map(|one| listed(one, selected.as_deref())))?;
    let mut tally = Tally::default();
    for (name, one) in &all {
        if let Err(error) = one {
            let problem = problem(error).with_name(name);
            tally.item_failed(context.show(&problem, 0)?);
        }
    }
    Ok(tally.exit())
}

fn select(args: &SelectArgs, contexts: &Contexts, context: &Context) -> Result<Exit, CliError> {
    if args.name == "-" {
        contexts.select(None).map_err(|error| problem(&error))?;
        context.remark("no context is selected; commands use the engine on this machine")?;
        return Ok(Exit::Success);
    }
    contexts
        .select(Some(&args.name))
        .map_err(|error| problem(&error))?;
    let selected = contexts.get(&args.name).map_err(|error| problem(&error))?;
    context.list([listed(&selected, Some(&args.name))])?;
    if context.settings.url.is_some() {
        context.remark("--url or TRUNKLINE_URL is set and overrides the selected context")?;
    }
    Ok(Exit::Success)
}

fn info(args: &InfoArgs, contexts: &Contexts, context: &Context) -> Result<Exit, CliError> {
    let one = contexts.get(&args.name).map_err(|error| problem(&error))?;
    let file = contexts.path(&args.name).map_err(|error| problem(&error))?;
    let selected = selected(contexts)?;
    let (key, certificate, unusable) = match proof_of(&one) {
        Ok(Some(ContextProof::Key(key))) => (Some(key.to_string()), None, None),
        Ok(Some(ContextProof::Certificate(one))) => (None, Some(one.to_string()), None),
        Ok(None) => (None, None, None),
        Err(error) => (None, None, Some(problem(&error))),
    };
    let authority = &one.authority;
    let shown = Info {
        authority: authority.fingerprint().to_string(),
        authority_name: authority.subject().to_owned(),
        valid_from: authority.not_before().to_string(),
        valid_until: authority.not_after().to_string(),
        key,
        key_file: one.key.as_deref().map(path_text),
        certificate,
        certificate_file: one.certificate.as_deref().map(path_text),
        file: path_text(&file),
        listed: listed(&one, selected.as_deref()),
    };
    context.print_details(&shown, properties(&shown, authority.not_after(), context))?;
    match unusable {
        None => Ok(Exit::Success),
        Some(problem) => Err(problem.into()),
    }
}

fn properties(
    info: &Info,
    valid_until: Timestamp,
    context: &Context,
) -> Vec<(&'static str, String, Style)> {
    let plain = |name, text: &str| (name, text.to_owned(), Style::Plain);
    let listed = &info.listed;
    let validity = match valid_until < context.started {
        true => Style::Bad,
        false => Style::Plain,
    };
    vec![
        plain("name", &listed.name),
        plain("url", &listed.url),
        plain("account", &listed.account),
        plain("role", &listed.role),
        plain("selected", if listed.selected { "yes" } else { "no" }),
        plain("authority", &info.authority),
        plain("authority name", &info.authority_name),
        plain("valid from", &info.valid_from),
        ("valid until", info.valid_until.clone(), validity),
        plain("key", info.key.as_deref().unwrap_or_default()),
        plain("key file", info.key_file.as_deref().unwrap_or_default()),
        plain(
            "certificate",
            info.certificate.as_deref().unwrap_or_default(),
        ),
        plain(
            "certificate file",
            info.certificate_file.as_deref().unwrap_or_default(),
        ),
        plain("file", &info.file),
    ]
}

fn add(args: &AddArgs, contexts: &Contexts, context: &Context) -> Result<Exit, CliError> {
    if context.settings.url.is_none() {
        let sentence = "`ctx add` needs the URL of the engine; add --url, such as --url tl://plant.example:5850";
        return Err(Problem::usage(sentence).into());
    }
    let url = targets::engine(&context.settings)?;
    let authority = certificate_in(&args.authority)?;
    let account = context.settings.account.as_deref().unwrap_or_default();
    let new = NewContext {
        name: &args.name,
        url: &url,
        account,
        authority,
        key: match (&args.key, &args.certificate, args.no_key) {
            (_, _, true) => NewKey::None,
            (Some(key), Some(certificate), false) => NewKey::Certificate { certificate, key },
            (Some(file), None, false) => NewKey::File(file),
            (None, _, false) => NewKey::Create,
        },
    };
    let proof = contexts.add(&new).map_err(|error| problem(&error))?;
    let (key, certificate) = match proof {
        Some(ContextProof::Key(key)) => (Some(key.to_string()), None),
        Some(ContextProof::Certificate(certificate)) => (None, Some(certificate.to_string())),
        None => (None, None),
    };
    let is_selected = selected(contexts)?.as_deref() == Some(&*args.name);
    context.list([Added {
        context: args.name.clone(),
        url: url.to_string(),
        key: key.clone(),
        certificate: certificate.clone(),
        selected: is_selected,
    }])?;
    let account = if account.is_empty() {
        "ACCOUNT"
    } else {
        account
    };
    if let Some(key) = key {
        context.remark(&format!(
            "the engine accepts the key once it belongs to an account; an administrator must run: \
             trunkline user key add {account} {key}"
        ))?;
    }
    if let Some(certificate) = certificate {
        context.remark(&format!(
            "the engine accepts the certificate once it belongs to an account; an administrator \
             must run: trunkline user certificate add {account} {certificate}"
        ))?;
    }
    Ok(Exit::Success)
}

fn remove(args: &RemoveArgs, contexts: &Contexts, context: &Context) -> Result<Exit, CliError> {
    let name = &args.name;
    // A context with a damaged file can be removed as well.
    let one = contexts.get(name).ok();
    contexts.remove(name).map_err(|error| problem(&error))?;
    let account = one.map(|one| match one.account.as_str() {
        "" => format!("the account at {}", one.url),
        account => format!("the account {account} at {}", one.url),
    });
    let account = account.unwrap_or_else(|| "the account at the engine".to_owned());
    context.remark(&format!(
        "{name} removed; {account} still exists, and an administrator can remove it with `trunkline user rm`"
    ))?;
    Ok(Exit::Success)
}

/// Returns the key or the certificate with which a context logs in.
fn proof_of(one: &EngineContext) -> Result<Option<ContextProof>, ContextError> {
    let Some(key) = &one.key else {
        return Ok(None);
    };
    Ok(Some(match &one.certificate {
        None => ContextProof::Key(ProgramKey::load(key)?.public()),
        Some(certificate) => {
            let client = ClientCertificate::load(certificate, key)?;
            ContextProof::Certificate(client.certificate().fingerprint())
        }
    }))
}

fn listed(one: &EngineContext, selected: Option<&str>) -> Listed {
    Listed {
        name: one.name.clone(),
        url: one.url.to_string(),
        account: one.account.clone(),
        role: one.role.clone(),
        selected: selected == Some(&*one.name),
    }
}

fn selected(contexts: &Contexts) -> Result<Option<String>, Problem> {
    contexts.selected().map_err(|error| problem(&error))
}

/// Error code for a context that does not exist.
const UNKNOWN: &str = "unknown-context";

/// Error code for a private key that cannot be used.
const KEY: &str = "key";

fn problem(error: &ContextError) -> Problem {
    let sentence = error.to_string();
    match error {
        ContextError::Name { .. } | ContextError::Url { .. } => Problem::usage(sentence),
        ContextError::Unknown { .. } => Problem::failed(UNKNOWN, sentence),
        ContextError::Exists { .. } => Problem::failed("context-exists", sentence),
        ContextError::Key(_) | ContextError::Certificate(_) => Problem::failed(KEY, sentence),
        _ => Problem::failed("context", sentence),
    }
}

fn path_text(path: &Path) -> String {
    path.display().to_string()
}
