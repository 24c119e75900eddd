//! `user`: the accounts of an engine, in the file of its security folder.

use std::fmt::Write as _;
use std::path::Path;

use trunkline_access::{GroupName, Role, UserName};
use trunkline_identity::accounts::{AccessEdit, AccountEntry, Accounts, EditError};
use trunkline_identity::{Fingerprint, Password, PasswordHash, PublicKey};

use super::certificate_file::certificate_in;
use super::security_folder::{FolderArgs, UNKNOWN_ACCOUNT};
use crate::arguments::number;
use crate::output::record::{JsonSchema, Record, Serialize};
use crate::terminal::Style;
use crate::{CliError, Context, Exit, Problem, counted, password};

/// Manage the accounts of an engine
///
/// The commands work on the file access.toml in the security folder of the engine. Run them on the
/// engine's machine, as the user under which the engine runs. The engine need not be running; if it is, it
/// applies a change within a second, and ends the sessions of accounts whose rights change.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    Ls(ListArgs),
    Info(InfoArgs),
    Add(AddArgs),
    Rm(RemoveArgs),
    Role(RoleArgs),
    Groups(GroupsArgs),
    /// Disable an account: it cannot log in, and its sessions end
    Disable(AccountArgs),
    /// Enable a disabled account
    Enable(AccountArgs),
    Password(PasswordArgs),
    Key(KeyArgs),
    Certificate(CertificateArgs),
}

/// List the accounts
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    folder: FolderArgs,
}

/// Show an account with its keys and certificates
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct InfoArgs {
    /// The account
    #[arg(value_name = "ACCOUNT", value_parser = user_name)]
    name: UserName,

    #[command(flatten)]
    folder: FolderArgs,
}

/// Add an account
///
/// A role permits its actions on every name; `trunkline access roles` lists them. Without a role, the
/// account may do what rules grant; see `trunkline access grant`. To log in from another machine, a
/// program needs a key, which `trunkline pair` and `trunkline join` register, and a person a key or a
/// password.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AddArgs {
    /// Name of the account
    #[arg(value_name = "ACCOUNT", value_parser = user_name)]
    name: UserName,

    /// Role of the account: viewer, operator, engineer or admin
    #[arg(long, value_name = "ROLE", value_parser = role)]
    role: Option<Role>,

    /// Group of the account; may be given several times
    #[arg(long = "group", value_name = "GROUP", value_parser = group_name)]
    groups: Vec<GroupName>,

    /// User id on the engine's machine whose programs get this account without further proof; may be given
    /// several times
    #[arg(long = "uid", value_name = "UID", value_parser = number::<u32>(0..=UID_MAX))]
    uids: Vec<u32>,

    /// Public key, such as ed25519:BASE64; may be given several times
    #[arg(long = "key", value_name = "KEY", value_parser = public_key)]
    keys: Vec<PublicKey>,

    #[command(flatten)]
    folder: FolderArgs,
}

/// Largest user id; the next number means "none" to the system.
const UID_MAX: u64 = u32::MAX as u64 - 1;

/// Remove an account, and the rules that apply only to it
///
/// Its sessions end. Rules for its groups and its role are kept.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RemoveArgs {
    /// The account
    #[arg(value_name = "ACCOUNT", value_parser = user_name)]
    name: UserName,

    #[command(flatten)]
    folder: FolderArgs,
}

/// Change the role of an account
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RoleArgs {
    /// The account
    #[arg(value_name = "ACCOUNT", value_parser = user_name)]
    name: UserName,

    /// The role: viewer, operator, engineer or admin; `none` removes the role
    #[arg(value_name = "ROLE", value_parser = role_or_none)]
    role: RoleOrNone,

    #[command(flatten)]
    folder: FolderArgs,
}

/// Change the groups of an account
///
/// The account is then in these groups only.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct GroupsArgs {
    /// The account
    #[arg(value_name = "ACCOUNT", value_parser = user_name)]
    name: UserName,

    /// All groups of the account
    #[arg(
        value_name = "GROUP",
        value_parser = group_name,
        required_unless_present = "none",
        conflicts_with = "none"
    )]
    groups: Vec<GroupName>,

    /// Remove the account from all groups
    #[arg(long)]
    none: bool,

    #[command(flatten)]
    folder: FolderArgs,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AccountArgs {
    /// The account
    #[arg(value_name = "ACCOUNT", value_parser = user_name)]
    name: UserName,

    #[command(flatten)]
    folder: FolderArgs,
}

/// Set the password of an account
///
/// The command asks for the password twice. If standard input is not a terminal, it reads the
/// password from the first line. A password has at least 12 characters; several words make a good password.
/// Commands log in with it if the global option --account is given.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PasswordArgs {
    /// The account
    #[arg(value_name = "ACCOUNT", value_parser = user_name)]
    name: UserName,

    /// Remove the password, so that the account cannot log in with one
    #[arg(long)]
    remove: bool,

    #[command(flatten)]
    folder: FolderArgs,
}

/// Add a public key to an account, or remove one
///
/// `trunkline user info` shows the keys of an account.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct KeyArgs {
    /// What to do
    #[arg(value_name = "add|rm")]
    change: Change,

    /// The account
    #[arg(value_name = "ACCOUNT", value_parser = user_name)]
    name: UserName,

    /// The public key, such as ed25519:BASE64
    #[arg(value_name = "KEY", value_parser = public_key)]
    key: PublicKey,

    #[command(flatten)]
    folder: FolderArgs,
}

/// Add a client certificate to an account, or remove one
///
/// A client that proves during the TLS handshake that it has the private key of the certificate then
/// has this account. Only the public key of the certificate is stored. Names in the certificate, its
/// issuer and its validity are not examined: to revoke a certificate, remove it here.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CertificateArgs {
    /// What to do
    #[arg(value_name = "add|rm")]
    change: Change,

    /// The account
    #[arg(value_name = "ACCOUNT", value_parser = user_name)]
    name: UserName,

    /// A file with the certificate in PEM form, or the SHA-256 of its public key, such as sha256:0a1b...
    #[arg(value_name = "CERTIFICATE")]
    certificate: String,

    #[command(flatten)]
    folder: FolderArgs,
}

/// A change of the keys or certificates of an account.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Change {
    Add,
    #[value(name = "rm")]
    Remove,
}

/// The argument of `user role`.
#[derive(Clone, Copy, Debug)]
struct RoleOrNone(Option<Role>);

/// A line of `user`, except for `user rm`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Trunkline account, version 1")]
pub(crate) struct Account {
    /// Name of the account.
    name: String,
    /// Role of the account. Left out without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["viewer", "operator", "engineer", "admin"]))]
    role: Option<&'static str>,
    /// Groups of the account.
    groups: Vec<String>,
    /// Public keys with which programs log in.
    keys: Vec<String>,
    /// SHA-256 of the public keys of client certificates.
    certificates: Vec<String>,
    /// Whether the account has a password.
    password: bool,
    /// User ids of the engine's machine that have this account without further proof.
    uids: Vec<u32>,
    /// Whether the account is disabled.
    disabled: bool,
    /// Place of the account, such as access.toml:12.
    place: String,
    /// Cells for people.
    #[serde(skip)]
    cells: [(&'static str, String); 3],
}

impl Record for Account {
    const COLUMNS: &'static [&'static str] = &["name", "role", "groups", "login", "state"];

    fn texts(&self) -> &[(&'static str, String)] {
        &self.cells
    }

    fn style(&self) -> Style {
        match self.disabled {
            true => Style::Dim,
            false => Style::Plain,
        }
    }
}

impl Account {
    fn new(entry: &AccountEntry) -> Self {
        fn texts<T: ToString>(items: &[T]) -> Vec<String> {
            items.iter().map(T::to_string).collect()
        }
        let AccountEntry {
            account,
            keys,
            certificates,
            password,
            uids,
            line: _,
        } = entry;
        let groups = texts(&account.groups);
        let state = if account.disabled { "disabled" } else { "" };
        Self {
            name: account.name.to_string(),
            role: account.role.map(Role::name),
            cells: [
                ("groups", groups.join(", ")),
                ("login", proofs(entry)),
                ("state", state.to_owned()),
            ],
            groups,
            keys: texts(keys),
            certificates: texts(certificates),
            password: password.is_some(),
            uids: uids.clone(),
            disabled: account.disabled,
            place: account.place.to_string(),
        }
    }

    fn properties(&self) -> Vec<(&'static str, String, Style)> {
        let plain = |name, text: String| (name, text, Style::Plain);
        let state = if self.disabled { "disabled" } else { "enabled" };
        let password = if self.password { "yes" } else { "no" };
        let uids: Vec<String> = self.uids.iter().map(u32::to_string).collect();
        let mut properties = vec![
            plain("name", self.name.clone()),
            plain("role", self.role.unwrap_or_default().to_owned()),
            plain("groups", self.groups.join(", ")),
            plain("state", state.to_owned()),
            plain("password", password.to_owned()),
        ];
        properties.extend(self.keys.iter().map(|key| plain("key", key.clone())));
        let certificates = self.certificates.iter();
        properties.extend(certificates.map(|text| plain("certificate", text.clone())));
        properties.push(plain("uids", uids.join(", ")));
        properties.push(plain("place", self.place.clone()));
        properties
    }
}

/// Lists how an account can log in, as in `2 keys, password, uid 1000`.
fn proofs(entry: &AccountEntry) -> String {
    let mut text = String::new();
    let mut add = |proof: String| {
        let separator = if text.is_empty() { "" } else { ", " };
        let _ = write!(text, "{separator}{proof}");
    };
    for (count, noun) in [
        (entry.keys.len(), "key"),
        (entry.certificates.len(), "certificate"),
    ] {
        if count > 0 {
            add(counted(count as u64, noun));
        }
    }
    if entry.password.is_some() {
        add("password".to_owned());
    }
    for uid in &entry.uids {
        add(format!("uid {uid}"));
    }
    text
}

/// The line of `user rm`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Trunkline removed account, version 1")]
pub(crate) struct Removed {
    /// Name of the account.
    name: String,
    /// Number of rules for this account alone, which were removed as well.
    rules: usize,
    #[serde(skip)]
    cells: [(&'static str, String); 1],
}

impl Record for Removed {
    const COLUMNS: &'static [&'static str] = &["name", "rules"];
    const IS_HEADED: bool = false;

    fn texts(&self) -> &[(&'static str, String)] {
        &self.cells
    }
}

pub(crate) fn run(command: &Subcommand, context: &Context) -> Result<Exit, CliError> {
    match command {
        Subcommand::Ls(args) => list(args, context),
        Subcommand::Info(args) => info(args, context),
        Subcommand::Add(args) => add(args, context),
        Subcommand::Rm(args) => remove(args, context),
        Subcommand::Role(args) => change(&args.folder, &args.name, context, |edit| {
            edit.set_role(&args.name, args.role.0)
        }),
        Subcommand::Groups(args) => change(&args.folder, &args.name, context, |edit| {
            edit.set_groups(&args.name, &args.groups)
        }),
        Subcommand::Disable(args) => change(&args.folder, &args.name, context, |edit| {
            edit.set_disabled(&args.name, true)
        }),
        Subcommand::Enable(args) => change(&args.folder, &args.name, context, |edit| {
            edit.set_disabled(&args.name, false)
        }),
        Subcommand::Password(args) => set_password(args, context),
        Subcommand::Key(args) => change(&args.folder, &args.name, context, |edit| {
            match args.change {
                Change::Add => edit.add_key(&args.name, &args.key),
                Change::Remove => edit.remove_key(&args.name, &args.key),
            }
        }),
        Subcommand::Certificate(args) => {
            let certificate = fingerprint(&args.certificate)?;
            change(&args.folder, &args.name, context, |edit| {
                match args.change {
                    Change::Add => edit.add_certificate(&args.name, &certificate),
                    Change::Remove => edit.remove_certificate(&args.name, &certificate),
                }
            })
        }
    }
}

fn list(args: &ListArgs, context: &Context) -> Result<Exit, CliError> {
    let accounts = args.folder.load()?;
    context.list(accounts.entries().iter().map(Account::new))?;
    Ok(Exit::Success)
}

fn info(args: &InfoArgs, context: &Context) -> Result<Exit, CliError> {
    let accounts = args.folder.load()?;
    let account = Account::new(entry(&accounts, &args.name)?);
    context.print_details(&account, account.properties())?;
    Ok(Exit::Success)
}

fn add(args: &AddArgs, context: &Context) -> Result<Exit, CliError> {
    let ((), accounts) = args.folder.edit(context, |edit| {
        edit.add_account(&args.name, args.role, &args.groups)?;
        if !args.uids.is_empty() {
            edit.set_uids(&args.name, &args.uids)?;
        }
        for key in &args.keys {
            edit.add_key(&args.name, key)?;
        }
        Ok(())
    })?;
    let entry = entry(&accounts, &args.name)?;
    context.list([Account::new(entry)])?;
    if proofs(entry).is_empty() {
        let name = &args.name;
        context.remark(&format!(
            "{name} cannot log in yet: `trunkline pair {name}` issues a joining token for a program, and \
             `trunkline user password {name}` sets a password"
        ))?;
    }
    Ok(Exit::Success)
}

fn remove(args: &RemoveArgs, context: &Context) -> Result<Exit, CliError> {
    let (rules, _) = args
        .folder
        .edit(context, |edit| edit.remove_account(&args.name))?;
    let text = match rules {
        0 => "removed".to_owned(),
        rules => format!("removed with {}", counted(rules as u64, "rule")),
    };
    context.list([Removed {
        name: args.name.to_string(),
        rules,
        cells: [("rules", text)],
    }])?;
    Ok(Exit::Success)
}

fn set_password(args: &PasswordArgs, context: &Context) -> Result<Exit, CliError> {
    let name = &args.name;
    // The user need not type a password for an account that does not exist.
    entry(&args.folder.load()?, name)?;
    let hash = match args.remove {
        true => None,
        false => {
            let password = Password::from(password::new_for(name.as_str())?);
            let hash = PasswordHash::of(&password);
            Some(hash.map_err(|error| Problem::failed("password", error.to_string()))?)
        }
    };
    change(&args.folder, name, context, |edit| {
        edit.set_password(name, hash.as_ref())
    })
}

/// Changes an account, and prints it.
fn change(
    folder: &FolderArgs,
    name: &UserName,
    context: &Context,
    change: impl Fn(&mut AccessEdit) -> Result<(), EditError>,
) -> Result<Exit, CliError> {
    let ((), accounts) = folder.edit(context, change)?;
    context.list([Account::new(entry(&accounts, name)?)])?;
    Ok(Exit::Success)
}

fn entry<'a>(accounts: &'a Accounts, name: &UserName) -> Result<&'a AccountEntry, Problem> {
    let mut entries = accounts.entries().iter();
    entries
        .find(|entry| entry.account.name == *name)
        .ok_or_else(|| {
            let names = accounts.entries().iter();
            let names = names.map(|entry| entry.account.name.as_str());
            let hint = match trunkline_types::name::suggest(name.as_str(), names) {
                Some(meant) => format!("did you mean {meant}?"),
                None => "`trunkline user ls` lists the accounts".to_owned(),
            };
            let sentence = format!("there is no account {name}; {hint}");
            Problem::failed(UNKNOWN_ACCOUNT, sentence)
        })
}

/// Returns the fingerprint that the text is, or that of the certificate in the file that it names.
fn fingerprint(text: &str) -> Result<Fingerprint, Problem> {
    if text.starts_with("sha256:") {
        return text
            .parse()
            .map_err(|error| Problem::usage(format!("{error}")));
    }
    let certificate = certificate_in(Path::new(text))?;
    Ok(certificate.fingerprint())
}

pub(super) fn user_name(text: &str) -> Result<UserName, String> {
    UserName::parse(text).map_err(|error| error.to_string())
}

pub(super) fn group_name(text: &str) -> Result<GroupName, String> {
    GroupName::parse(text).map_err(|error| error.to_string())
}

pub(super) fn role(text: &str) -> Result<Role, String> {
    text.parse().map_err(|error| format!("{error}"))
}

fn role_or_none(text: &str) -> Result<RoleOrNone, String> {
    match text {
        "none" => Ok(RoleOrNone(None)),
        text => role(text).map(|role| RoleOrNone(Some(role))),
    }
}

fn public_key(text: &str) -> Result<PublicKey, String> {
    text.parse().map_err(|error| format!("{error}"))
}
