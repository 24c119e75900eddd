//! `access check`: explains what an account may do.

use trunkline_access::{
    Action, Decision, Effect, GrantedBy, Host, Rule, SubjectError, SubjectRules, UserName,
};
use trunkline_types::{Name, Pattern};

use crate::output::record::{JsonSchema, Record, Serialize};
use crate::terminal::Style;
use crate::verbs::security_folder::{ACCOUNT_DISABLED, FolderArgs, UNKNOWN_ACCOUNT};
use crate::verbs::user::user_name;
use crate::{CliError, Context, Exit, Problem};

/// Explain what an account may do
///
/// For each action, the command prints the decision, and the role or the rule that decides it. The
/// decision is one of: granted; denied by a rule; not granted by anything; needs read, because read is
/// not permitted; by name, because it depends on the name. The command reads the accounts and rules,
/// so it needs no running engine.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The account
    #[arg(value_name = "ACCOUNT", value_parser = user_name)]
    account_name: UserName,

    /// A variable, such as boiler/level, or a library as a whole, such as boiler. Without NAME, the
    /// command explains what the account may do on every name
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// Explain what the account may do from this address; `local` is the engine's machine
    #[arg(long, value_name = "ADDRESS", default_value = "local", value_parser = host)]
    host: Host,

    /// Explain only this action, and end with exit code 5 unless it is granted
    #[arg(long, value_name = "ACTION", value_parser = action)]
    action: Option<Action>,

    #[command(flatten)]
    folder: FolderArgs,
}

/// A line of `access check`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Trunkline permission, version 1")]
pub(crate) struct Permission {
    /// The account.
    account: String,
    /// The variable or the library. Left out for the decision on every name.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The address from which the account acts, or local.
    host: String,
    /// The action.
    action: &'static str,
    /// Whether the action is permitted. `by-name`: it depends on the name.
    #[schemars(extend("enum" = ["granted", "denied", "not-granted", "needs-read", "by-name"]))]
    decision: &'static str,
    /// The role or the rule that decides.
    reason: String,
    /// Place of the rule that decides, such as access.toml:12. Left out if no rule decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
}

impl Record for Permission {
    const COLUMNS: &'static [&'static str] = &["action", "decision", "reason"];
    const IS_HEADED: bool = false;

    fn cell(&self, column: &str) -> Option<String> {
        (column == "decision").then(|| self.decision.replace('-', " "))
    }

    fn style(&self) -> Style {
        match self.decision {
            "granted" => Style::Good,
            "by-name" => Style::Warning,
            _ => Style::Bad,
        }
    }
}

/// What the decisions are about.
enum Object {
    Variable(Name),
    Library(String),
    /// Every variable, and the engine as a whole.
    Everything,
}

/// A decision, which may depend on the name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict<'a> {
    Decided(Decision<'a>),
    /// The names that match the pattern of this rule differ from others.
    ByName(&'a Rule),
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let object = object(args.name.as_deref())?;
    let accounts = args.folder.load()?;
    let policy = accounts.policy();
    let user = args.account_name.as_str();
    let subject = match policy.subject(user, args.host) {
        Ok(subject) => subject,
        Err(error) => return Err(refusal(&error, args.action).into()),
    };
    let rules = policy.subject_rules(&subject);
    let on = match &object {
        Object::Variable(name) => format!(" on {}", name.as_str()),
        Object::Library(library) => format!(" on the library {library}"),
        Object::Everything => String::new(),
    };
    context.remark(&format!("{subject}{on}:"))?;
    let mut exit = Exit::Success;
    let mut table = context.table::<Permission>()?;
    for action in Action::ALL {
        if args.action.is_some_and(|only| only != *action) {
            continue;
        }
        let verdict = verdict(&rules, &object, *action);
        if args.action.is_some() {
            exit = Exit::NotPermitted.when(!verdict.is_granted());
        }
        table.push(&Permission {
            account: user.to_owned(),
            name: match &object {
                Object::Variable(name) => Some(name.as_str().to_owned()),
                Object::Library(library) => Some(library.clone()),
                Object::Everything => None,
            },
            host: args.host.to_string(),
            action: action.name(),
            decision: verdict.word(),
            reason: verdict.reason(),
            place: verdict.rule().map(|rule| rule.place.to_string()),
        })?;
    }
    table.finish()?;
    Ok(exit)
}

fn refusal(error: &SubjectError, action: Option<Action>) -> Problem {
    match error {
        SubjectError::UnknownUser { .. } => Problem::failed(UNKNOWN_ACCOUNT, error.to_string()),
        SubjectError::Disabled { .. } => {
            let exit = match action {
                Some(_) => Exit::NotPermitted,
                None => Exit::Failed,
            };
            Problem::new(exit, ACCOUNT_DISABLED, error.to_string())
        }
    }
}

fn object(name: Option<&str>) -> Result<Object, Problem> {
    let Some(text) = name else {
        return Ok(Object::Everything);
    };
    if Pattern::has_wildcards(text) {
        let sentence = format!(
            "{text} is a pattern; specify one variable, or leave out the name for the decision on \
             every name"
        );
        return Err(Problem::usage(sentence));
    }
    let invalid = |error: String| Problem::usage(format!("\"{text}\": {error}"));
    if !text.contains('/') {
        trunkline_types::name::check_segment(text).map_err(|error| invalid(error.to_string()))?;
        return Ok(Object::Library(text.to_owned()));
    }
    let name = Name::parse(text).map_err(|error| invalid(error.to_string()))?;
    Ok(Object::Variable(name))
}

/// Returns true for actions that concern the engine as a whole in any case.
fn is_of_engine(action: Action) -> bool {
    match action {
        Action::Administer | Action::Audit => true,
        Action::Read
        | Action::Write
        | Action::Subscribe
        | Action::History
        | Action::Alarm
        | Action::Configure
        | Action::Force
        | Action::Stream
        | Action::Record => false,
    }
}

fn verdict<'a>(rules: &'a SubjectRules, object: &Object, action: Action) -> Verdict<'a> {
    let of_engine = || rules.decide_for_engine(action);
    let decision = match (object, action) {
        (_, Action::Administer) => of_engine(),
        // The audit trail as a whole must be permitted, and then the entries about this name.
        (_, Action::Audit) if !of_engine().is_granted() => of_engine(),
        (Object::Variable(name), action) => rules.decide(name.as_str(), action),
        (Object::Library(library), action) => rules.decide_for_library(library, action),
        (Object::Everything, action) => return everywhere(rules, action),
    };
    Verdict::Decided(decision)
}

/// Returns the decision on every name.
fn everywhere(rules: &SubjectRules, action: Action) -> Verdict<'_> {
    let verdict = everywhere_alone(rules, action);
    let is_granted_somewhere = match verdict {
        Verdict::Decided(decision) => decision.is_granted(),
        Verdict::ByName(_) => true,
    };
    if action == Action::Read || is_of_engine(action) || !is_granted_somewhere {
        return verdict;
    }
    // Every other action requires `read`.
    match (verdict, everywhere_alone(rules, Action::Read)) {
        (_, Verdict::Decided(Decision::Denied { by })) => Verdict::Decided(Decision::NeedsRead {
            denied_by: Some(by),
        }),
        (_, Verdict::Decided(Decision::Unspecified | Decision::NeedsRead { .. })) => {
            Verdict::Decided(Decision::NeedsRead { denied_by: None })
        }
        (Verdict::Decided(_), Verdict::ByName(rule)) => Verdict::ByName(rule),
        (verdict, _) => verdict,
    }
}

/// Returns the decision on every name, without requiring `read`.
fn everywhere_alone(rules: &SubjectRules, action: Action) -> Verdict<'_> {
    let narrow = |effect: Effect| {
        rules.rules().find(|rule| {
            rule.effect == effect
                && rule.actions.contains(action)
                && rule.pattern.as_str() != EVERYTHING
        })
    };
    let decision = rules.decide_for_engine(action);
    if action == Action::Administer {
        return Verdict::Decided(decision);
    }
    let exception = match decision {
        // A rule for all names denies it, which overrides every grant.
        Decision::Denied { .. } => None,
        Decision::Granted { .. } => narrow(Effect::Deny),
        // A grant on some names does not permit reading the audit trail.
        Decision::Unspecified | Decision::NeedsRead { .. } if action == Action::Audit => None,
        Decision::Unspecified | Decision::NeedsRead { .. } => narrow(Effect::Grant),
    };
    exception.map_or(Verdict::Decided(decision), Verdict::ByName)
}

/// The pattern that matches every name, and the engine as a whole.
const EVERYTHING: &str = "**";

impl<'a> Verdict<'a> {
    fn is_granted(self) -> bool {
        match self {
            Verdict::Decided(decision) => decision.is_granted(),
            Verdict::ByName(_) => false,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Verdict::Decided(Decision::Granted { .. }) => "granted",
            Verdict::Decided(Decision::Denied { .. }) => "denied",
            Verdict::Decided(Decision::Unspecified) => "not-granted",
            Verdict::Decided(Decision::NeedsRead { .. }) => "needs-read",
            Verdict::ByName(_) => "by-name",
        }
    }

    fn reason(self) -> String {
        match self {
            Verdict::Decided(decision) => decision.to_string(),
            Verdict::ByName(rule) => rule.to_string(),
        }
    }

    fn rule(self) -> Option<&'a Rule> {
        match self {
            Verdict::Decided(Decision::Granted {
                by: GrantedBy::Rule(rule),
            })
            | Verdict::Decided(Decision::Denied { by: rule })
            | Verdict::Decided(Decision::NeedsRead {
                denied_by: Some(rule),
            })
            | Verdict::ByName(rule) => Some(rule),
            Verdict::Decided(
                Decision::Granted {
                    by: GrantedBy::Role(_),
                }
                | Decision::Unspecified
                | Decision::NeedsRead { denied_by: None },
            ) => None,
        }
    }
}

fn host(text: &str) -> Result<Host, String> {
    text.parse().map_err(|error| format!("{error}"))
}

fn action(text: &str) -> Result<Action, String> {
    text.parse().map_err(|error| format!("{error}"))
}

#[cfg(test)]
mod tests {
    use trunkline_identity::Accounts;

    use super::*;

    const USER: &str = "[[user]]\nname = \"anna\"\n";

    /// The decisions on `actions` on every name, for an account with this role and these rules.
    fn decided(role: &str, rules: &[(&str, &str, &str)], actions: &[Action]) -> Vec<&'static str> {
        let mut text = USER.to_owned();
        if !role.is_empty() {
            text += &format!("role = \"{role}\"\n");
        }
        for (effect, action, pattern) in rules {
            text += &format!(
                "[[rule]]\nuser = \"anna\"\npattern = \"{pattern}\"\n{effect} = [\"{action}\"]\n"
            );
        }
        let accounts = Accounts::parse("access.toml", &text).unwrap();
        let subject = accounts.policy().subject("anna", Host::Local).unwrap();
        let rules = accounts.policy().subject_rules(&subject);
        let verdicts = actions.iter().map(|action| everywhere(&rules, *action));
        verdicts.map(Verdict::word).collect()
    }

    #[test]
    fn decision_on_every_name_depends_on_the_name_if_a_narrower_rule_changes_it() {
        const ASKED: [Action; 4] = [
            Action::Read,
            Action::Write,
            Action::Audit,
            Action::Administer,
        ];
        for (role, rules, expected) in [
            ("", &[][..], ["not-granted"; 4]),
            (
                "operator",
                &[],
                ["granted", "granted", "not-granted", "not-granted"],
            ),
            (
                "admin",
                &[("deny", "write", "a/**")],
                ["granted", "by-name", "granted", "granted"],
            ),
            (
                "admin",
                &[("deny", "write", "**")],
                ["granted", "denied", "granted", "granted"],
            ),
            (
                "admin",
                &[("deny", "read", "a/b")],
                ["by-name", "by-name", "granted", "granted"],
            ),
            (
                "admin",
                &[("deny", "read", "**")],
                ["denied", "needs-read", "granted", "granted"],
            ),
            (
                "",
                &[("grant", "write", "a/b")],
                ["not-granted", "needs-read", "not-granted", "not-granted"],
            ),
            (
                "viewer",
                &[("grant", "write", "a/b")],
                ["granted", "by-name", "not-granted", "not-granted"],
            ),
            (
                "",
                &[("grant", "all", "a/**")],
                ["by-name", "by-name", "not-granted", "not-granted"],
            ),
            (
                "viewer",
                &[("grant", "audit", "**"), ("deny", "audit", "a/b")],
                ["granted", "not-granted", "by-name", "not-granted"],
            ),
            ("admin", &[("deny", "administer", "a/b")], ["granted"; 4]),
        ] {
            assert_eq!(decided(role, rules, &ASKED), expected, "{role} {rules:?}");
        }
    }
}
