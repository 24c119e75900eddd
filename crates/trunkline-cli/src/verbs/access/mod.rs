//! `access`: the rules of an engine, in the file of its security folder.

mod check;

use trunkline_access::{
    Action, Actions, Effect, GroupName, HostRange, Place, Role, Rule, UserName, Who,
};
use trunkline_identity::accounts::Accounts;
use trunkline_types::Pattern;

use super::security_folder::{FolderArgs, warn};
use super::user::{group_name, role, user_name};
use crate::output::record::{JsonSchema, Record, Serialize};
use crate::{CliError, Context, Exit};

pub(crate) use self::check::Permission;

/// Manage the rules of an engine, and explain what an account may do
///
/// The commands work on the file access.toml in the security folder of the engine. Run them on the
/// engine's machine, as the user under which the engine runs. The engine need not be running; if it is, it
/// applies a change within a second. A rule that denies overrides every grant; what neither a role nor a rule
/// grants is denied.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    Ls(ListArgs),
    /// Add a rule that grants actions
    Grant(RuleArgs),
    /// Add a rule that denies actions, whatever roles and other rules grant
    Deny(RuleArgs),
    Rm(RemoveArgs),
    Check(check::Args),
    Roles(RolesArgs),
}

/// List the rules with their locations in the file
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    folder: FolderArgs,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RuleArgs {
    #[command(flatten)]
    selection: Selection,

    #[command(flatten)]
    folder: FolderArgs,
}

/// Remove a rule
///
/// Write the rule as it was added, as in `trunkline access rm grant read 'boiler/**' --group guests`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RemoveArgs {
    /// The effect of the rule
    #[arg(value_name = "grant|deny")]
    effect: EffectChoice,

    #[command(flatten)]
    selection: Selection,

    #[command(flatten)]
    folder: FolderArgs,
}

/// Show the actions that each role permits
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RolesArgs {}

/// A rule without its effect.
#[derive(Clone, Debug, clap::Args)]
struct Selection {
    /// The actions, separated by commas, such as read,subscribe; `all` stands for every action
    #[arg(value_name = "ACTIONS", value_parser = actions)]
    actions: Actions,

    /// The names, such as boiler/level, 'boiler/*' or 'boiler/**'; '**' also stands for the engine as a
    /// whole
    #[arg(value_name = "PATTERN", value_parser = pattern)]
    pattern: Pattern,

    #[command(flatten)]
    who: WhoArgs,
}

/// The callers that a rule applies to.
#[derive(Clone, Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct WhoArgs {
    /// The rule applies to this account
    #[arg(long, value_name = "ACCOUNT", value_parser = user_name)]
    user: Option<UserName>,

    /// The rule applies to the accounts in this group
    #[arg(long, value_name = "GROUP", value_parser = group_name)]
    group: Option<GroupName>,

    /// The rule applies to the accounts with exactly this role
    #[arg(long, value_name = "ROLE", value_parser = role)]
    role: Option<Role>,

    /// The rule applies to connections from this address or network, such as 10.0.0.7 or 10.0.0.0/8; `local`
    /// is the engine's machine
    #[arg(long, value_name = "HOST", value_parser = host_range)]
    host: Option<HostRange>,

    /// The rule applies to every caller
    #[arg(long)]
    everyone: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum EffectChoice {
    Grant,
    Deny,
}

impl From<EffectChoice> for Effect {
    fn from(choice: EffectChoice) -> Self {
        match choice {
            EffectChoice::Grant => Effect::Grant,
            EffectChoice::Deny => Effect::Deny,
        }
    }
}

impl WhoArgs {
    fn who(&self) -> Who {
        let Self {
            user,
            group,
            role,
            host,
            // One of the five is there: the command line was refused otherwise.
            everyone: _,
        } = self;
        let user = user.clone().map(Who::User);
        user.or_else(|| group.clone().map(Who::Group))
            .or_else(|| role.map(Who::Role))
            .or_else(|| host.map(Who::Host))
            .unwrap_or(Who::Everyone)
    }
}

impl Selection {
    fn rule(&self, effect: Effect) -> Rule {
        Rule {
            who: self.who.who(),
            pattern: self.pattern.clone(),
            effect,
            actions: self.actions,
            place: Place::from("command line"),
        }
    }
}

/// A line of `access ls`, `access grant`, `access deny` and `access rm`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Trunkline access rule, version 1")]
pub(crate) struct ListedRule {
    /// Whether the rule grants or denies the actions.
    #[schemars(extend("enum" = ["grant", "deny"]))]
    effect: &'static str,
    /// The actions.
    actions: Vec<&'static str>,
    /// Pattern of the names to which the rule applies.
    pattern: String,
    /// The account that the rule applies to. A rule has exactly one of user, group, role, host and everyone.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// The group that the rule applies to.
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    /// The role that the rule applies to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["viewer", "operator", "engineer", "admin"]))]
    role: Option<&'static str>,
    /// The address or network that the rule applies to, or local.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    /// The rule applies to every caller. Left out when false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("const" = true))]
    everyone: bool,
    /// Place of the rule, such as access.toml:12. Left out for a rule that was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
    /// Cells for people.
    #[serde(skip)]
    cells: [(&'static str, String); 3],
}

impl Record for ListedRule {
    const COLUMNS: &'static [&'static str] = &["effect", "actions", "pattern", "who", "place"];

    fn texts(&self) -> &[(&'static str, String)] {
        &self.cells
    }
}

impl ListedRule {
    fn new(rule: &Rule, is_there: bool) -> Self {
        let Rule {
            who,
            pattern,
            effect,
            actions,
            place,
        } = rule;
        let place = is_there.then(|| place.to_string());
        let mut listed = Self {
            effect: effect.name(),
            actions: actions.iter().map(Action::name).collect(),
            pattern: pattern.to_string(),
            user: None,
            group: None,
            role: None,
            host: None,
            everyone: false,
            cells: [
                ("actions", actions.to_string()),
                ("who", who.to_string()),
                ("place", place.clone().unwrap_or_default()),
            ],
            place,
        };
        match who {
            Who::User(name) => listed.user = Some(name.to_string()),
            Who::Group(name) => listed.group = Some(name.to_string()),
            Who::Role(role) => listed.role = Some(role.name()),
            Who::Host(range) => listed.host = Some(range.to_string()),
            Who::Everyone => listed.everyone = true,
        }
        listed
    }
}

/// A line of `access roles`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Trunkline action and roles, version 1")]
pub(crate) struct ActionOfRoles {
    /// The action.
    action: &'static str,
    /// Whether the role viewer permits it.
    viewer: bool,
    /// Whether the role operator permits it.
    operator: bool,
    /// Whether the role engineer permits it.
    engineer: bool,
    /// Whether the role admin permits it.
    admin: bool,
    /// What the action is.
    meaning: &'static str,
}

impl Record for ActionOfRoles {
    const COLUMNS: &'static [&'static str] = &[
        "action", "viewer", "operator", "engineer", "admin", "meaning",
    ];

    fn cell(&self, column: &str) -> Option<String> {
        let roles = [
            ("viewer", self.viewer),
            ("operator", self.operator),
            ("engineer", self.engineer),
            ("admin", self.admin),
        ];
        let (_, is_permitted) = roles.into_iter().find(|(name, _)| *name == column)?;
        Some(if is_permitted { "yes" } else { "no" }.to_owned())
    }
}

pub(crate) fn run(command: &Subcommand, context: &Context) -> Result<Exit, CliError> {
    match command {
        Subcommand::Ls(args) => list(args, context),
        Subcommand::Grant(args) => add(args, Effect::Grant, context),
        Subcommand::Deny(args) => add(args, Effect::Deny, context),
        Subcommand::Rm(args) => remove(args, context),
        Subcommand::Check(args) => check::run(args, context),
        Subcommand::Roles(RolesArgs {}) => roles(context),
    }
}

fn list(args: &ListArgs, context: &Context) -> Result<Exit, CliError> {
    let accounts = args.folder.load()?;
    let rules = accounts.policy().rules();
    context.list(rules.map(|rule| ListedRule::new(rule, true)))?;
    warn(&accounts, None, context)?;
    Ok(Exit::Success)
}

fn add(args: &RuleArgs, effect: Effect, context: &Context) -> Result<Exit, CliError> {
    let rule = args.selection.rule(effect);
    let ((), accounts) = args.folder.edit(context, |edit| edit.add_rule(&rule))?;
    if let Some(added) = at_its_place(&rule, &accounts) {
        context.list([ListedRule::new(added, true)])?;
        warn(&accounts, Some(&added.place), context)?;
    }
    Ok(Exit::Success)
}

/// Returns the rule that is equal except for its place.
fn at_its_place<'a>(rule: &Rule, accounts: &'a Accounts) -> Option<&'a Rule> {
    let mut rules = accounts.policy().rules();
    rules.find(|other| {
        let moved = Rule {
            place: other.place.clone(),
            ..rule.clone()
        };
        **other == moved
    })
}

fn remove(args: &RemoveArgs, context: &Context) -> Result<Exit, CliError> {
    let rule = args.selection.rule(args.effect.into());
    args.folder.edit(context, |edit| edit.remove_rule(&rule))?;
    context.list([ListedRule::new(&rule, false)])?;
    Ok(Exit::Success)
}

fn roles(context: &Context) -> Result<Exit, CliError> {
    let rows = Action::ALL.iter().map(|action| {
        let permits = |role: Role| role.actions().contains(*action);
        ActionOfRoles {
            action: action.name(),
            viewer: permits(Role::Viewer),
            operator: permits(Role::Operator),
            engineer: permits(Role::Engineer),
            admin: permits(Role::Admin),
            meaning: action.meaning(),
        }
    });
    context.list(rows)?;
    Ok(Exit::Success)
}

fn actions(text: &str) -> Result<Actions, String> {
    text.parse().map_err(|error| format!("{error}"))
}

fn pattern(text: &str) -> Result<Pattern, String> {
    Pattern::parse(text).map_err(|error| error.to_string())
}

fn host_range(text: &str) -> Result<HostRange, String> {
    text.parse().map_err(|error| format!("{error}"))
}
