//! The accounts and rules of an engine, checked.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use trunkline_types::Pattern;
use trunkline_types::audit::cut;
use trunkline_types::name::suggest;

use crate::account::{Account, GroupName, UserName};
use crate::action::{Action, Actions, TEXT_BYTES_MAX};
use crate::decision::Explanation;
use crate::host::{Host, HostRange};
use crate::reach::Reach;
use crate::role::Role;
use crate::rule::{Effect, Place, Rule, Who};
use crate::subject_rules::SubjectRules;

/// Maximum number of accounts of a policy.
pub const ACCOUNTS_MAX: usize = 10_000;
/// Maximum number of rules of a policy.
pub const RULES_MAX: usize = 10_000;
/// Maximum number of groups of an account.
pub const GROUPS_MAX: usize = 64;
/// Maximum number of errors, and of warnings, that are reported; the others are counted.
pub const REPORTED_MAX: usize = 20;

/// The accounts and rules of an engine. They are valid: every user named in a rule has an account.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    accounts: BTreeMap<UserName, Account>,
    rules: Arc<[PreparedRule]>,
    warnings: Vec<PolicyWarning>,
    warnings_omitted: usize,
}

/// A rule with its pattern prepared.
#[derive(Clone, Debug)]
pub(crate) struct PreparedRule {
    pub(crate) rule: Rule,
    pub(crate) reach: Reach,
}

/// The properties of a caller that rules can match.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Subject<'a> {
    /// The user; for a caller without an account a name that no account can have, such as `local:0`.
    pub user: &'a str,
    pub groups: &'a [GroupName],
    pub role: Option<Role>,
    pub host: Host,
}

/// A user that cannot be a subject. Do not pass the sentence to a caller that has not proved its identity.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SubjectError {
    #[error("there is no account {user:?}{}", hint(.suggestion))]
    UnknownUser {
        /// The user as given, shortened.
        user: String,
        /// The user that was probably meant.
        suggestion: Option<UserName>,
    },
    #[error("the account {user} is disabled ({place})")]
    Disabled { user: UserName, place: Place },
}

/// The accounts and rules contain errors.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct InvalidPolicy {
    /// The errors, in the order of the accounts and then of the rules; at least one, at most
    /// [`REPORTED_MAX`].
    pub errors: Vec<PolicyError>,
    /// Number of further errors.
    pub omitted: usize,
}

/// An error in the accounts or rules.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PolicyError {
    #[error("there are {count} accounts; {ACCOUNTS_MAX} is the limit")]
    TooManyAccounts { count: usize },
    #[error(
        "there are {count} rules; {RULES_MAX} is the limit: give rights to groups instead of users"
    )]
    TooManyRules { count: usize },
    #[error("{place}: the account {user} is in {count} groups; {GROUPS_MAX} is the limit")]
    TooManyGroups {
        place: Place,
        user: UserName,
        count: usize,
    },
    #[error("{place}: there is another account {user} ({first}); give each account its own name")]
    DuplicateAccount {
        place: Place,
        user: UserName,
        /// The place of the other account.
        first: Place,
    },
    #[error(
        "{place}: the rule is for the user {user}, but there is no such account{}",
        hint(.suggestion)
    )]
    UnknownUser {
        place: Place,
        user: UserName,
        /// The user that was probably meant.
        suggestion: Option<UserName>,
    },
    #[error("{place}: the rule has no actions: specify one or several, such as read")]
    NoActions { place: Place },
    #[error(
        "{place}: the pattern {pattern} has a field, but a field has the rights of its variable: remove \
         the part from '#' on"
    )]
    Field { place: Place, pattern: Pattern },
    /// Names of streams are in lower case, and so must be the patterns that match them.
    #[error("{place}: the pattern {pattern} is too long in lower case: write a shorter one")]
    PatternTooLong { place: Place, pattern: Pattern },
}

/// Something in the accounts or rules that is valid, but probably not meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PolicyWarning {
    /// A rule is for a group that no account names.
    EmptyGroup {
        place: Place,
        group: GroupName,
        /// The group that was probably meant.
        suggestion: Option<GroupName>,
    },
    /// The pattern has a single segment, as names of variables never do.
    NoVariable { place: Place, pattern: Pattern },
    /// A rule lists an action on the engine as a whole, but its pattern is not `**`.
    NotEverything {
        place: Place,
        action: Action,
        pattern: Pattern,
    },
    /// A rule denies every administrator the action `administer`.
    NoAdministrator { place: Place },
}

fn hint<T: fmt::Display>(suggestion: &Option<T>) -> String {
    suggestion
        .as_ref()
        .map_or_else(String::new, |name| format!("; did you mean {name}?"))
}

impl Policy {
    /// Checks accounts and rules. Groups exist if an account names them.
    ///
    /// # Errors
    /// [`InvalidPolicy`], with every error up to [`REPORTED_MAX`].
    pub fn new(accounts: Vec<Account>, rules: Vec<Rule>) -> Result<Self, InvalidPolicy> {
        let mut errors = Reported::default();
        if accounts.len() > ACCOUNTS_MAX {
            let count = accounts.len();
            errors.push(|| PolicyError::TooManyAccounts { count });
        }
        if rules.len() > RULES_MAX {
            let count = rules.len();
            errors.push(|| PolicyError::TooManyRules { count });
        }
        errors.into_result()?;

        let mut errors = Reported::default();
        let accounts = checked_accounts(accounts, &mut errors);
        let mut prepared = Vec::with_capacity(rules.len());
        for rule in rules {
            if let Some(reach) = checked_rule(&rule, &accounts, &mut errors) {
                prepared.push(PreparedRule { rule, reach });
            }
        }
        errors.into_result()?;

        let warnings = warnings(&accounts, &prepared);
        Ok(Self {
            accounts,
            rules: prepared.into(),
            warnings: warnings.reported,
            warnings_omitted: warnings.omitted,
        })
    }

    /// Returns the accounts, ordered by name.
    pub fn accounts(&self) -> impl ExactSizeIterator<Item = &Account> {
        self.accounts.values()
    }

    /// Returns the account of a user, which may be disabled.
    pub fn account(&self, user: &str) -> Option<&Account> {
        self.accounts.get(user)
    }

    /// Returns the rules in their order.
    pub fn rules(&self) -> impl ExactSizeIterator<Item = &Rule> {
        self.rules.iter().map(|prepared| &prepared.rule)
    }

    /// Returns the warnings in the order of the rules, at most [`REPORTED_MAX`].
    pub fn warnings(&self) -> &[PolicyWarning] {
        &self.warnings
    }

    /// Returns the number of further warnings.
    pub fn warnings_omitted(&self) -> usize {
        self.warnings_omitted
    }

    /// Returns the subject that a user is at a host.
    ///
    /// # Errors
    /// [`SubjectError`] if there is no such account or it is disabled.
    pub fn subject<'a>(&'a self, user: &str, host: Host) -> Result<Subject<'a>, SubjectError> {
        let Some(account) = self.accounts.get(user) else {
            let names = self.accounts.keys().map(UserName::as_str);
            let meant = suggest(user, names);
            return Err(SubjectError::UnknownUser {
                user: cut(user, TEXT_BYTES_MAX),
                suggestion: meant.and_then(|name| UserName::parse(&name).ok()),
            });
        };
        if account.disabled {
            return Err(SubjectError::Disabled {
                user: account.name.clone(),
                place: account.place.clone(),
            });
        }
        Ok(Subject {
            user: account.name.as_str(),
            groups: &account.groups,
            role: account.role,
            host,
        })
    }

    /// Prepares the rules that apply to a subject. Takes time proportional to the number of rules: call it
    /// once per session, not for each request.
    pub fn subject_rules(&self, subject: &Subject<'_>) -> SubjectRules {
        let concerned = (0..)
            .zip(self.rules.iter())
            .filter(|(_, prepared)| subject.is_concerned_by(&prepared.rule.who));
        let indices = concerned.map(|(index, _)| index).collect();
        SubjectRules::new(Arc::clone(&self.rules), subject.role, indices)
    }

    /// Explains what a subject may do with `name`, the name of a variable.
    pub fn explain(&self, subject: &Subject<'_>, name: &str) -> Explanation {
        Explanation::new(subject.to_string(), self.subject_rules(subject), name)
    }
}

impl Subject<'_> {
    /// Returns true if rules for `who` apply to this subject.
    pub fn is_concerned_by(&self, who: &Who) -> bool {
        match who {
            Who::User(user) => user.as_str() == self.user,
            Who::Group(group) => self.groups.contains(group),
            Who::Role(role) => self.role == Some(*role),
            Who::Host(range) => range.contains(self.host),
            Who::Everyone => true,
        }
    }
}

/// Checks the accounts, and orders them by name.
fn checked_accounts(
    accounts: Vec<Account>,
    errors: &mut Reported<PolicyError>,
) -> BTreeMap<UserName, Account> {
    let mut by_name = BTreeMap::<UserName, Account>::new();
    for mut account in accounts {
        account.groups.sort();
        account.groups.dedup();
        let count = account.groups.len();
        if count > GROUPS_MAX {
            errors.push(|| PolicyError::TooManyGroups {
                place: account.place.clone(),
                user: account.name.clone(),
                count,
            });
        }
        match by_name.get(&account.name) {
            Some(first) => errors.push(|| PolicyError::DuplicateAccount {
                place: account.place,
                user: account.name,
                first: first.place.clone(),
            }),
            None => {
                by_name.insert(account.name.clone(), account);
            }
        }
    }
    by_name
}

/// Checks a rule. Returns its prepared pattern; `None` if the pattern is in error.
fn checked_rule(
    rule: &Rule,
    accounts: &BTreeMap<UserName, Account>,
    errors: &mut Reported<PolicyError>,
) -> Option<Reach> {
    let place = || rule.place.clone();
    match &rule.who {
        Who::User(user) if !accounts.contains_key(user) => {
            errors.push(|| PolicyError::UnknownUser {
                place: place(),
                user: user.clone(),
                suggestion: suggest(user.as_str(), accounts.keys().map(UserName::as_str))
                    .and_then(|name| UserName::parse(&name).ok()),
            });
        }
        Who::User(_) | Who::Group(_) | Who::Role(_) | Who::Host(_) | Who::Everyone => {}
    }
    if rule.actions.is_empty() {
        errors.push(|| PolicyError::NoActions { place: place() });
    }
    let pattern = || rule.pattern.clone();
    if rule.pattern.as_str().contains('#') {
        errors.push(|| PolicyError::Field {
            place: place(),
            pattern: pattern(),
        });
        return None;
    }
    let reach = Reach::new(&rule.pattern);
    if reach.is_err() {
        errors.push(|| PolicyError::PatternTooLong {
            place: place(),
            pattern: pattern(),
        });
    }
    reach.ok()
}

fn warnings(
    accounts: &BTreeMap<UserName, Account>,
    rules: &[PreparedRule],
) -> Reported<PolicyWarning> {
    let groups: BTreeSet<&GroupName> = accounts.values().flat_map(|a| &a.groups).collect();
    let mut warnings = Reported::default();
    for PreparedRule { rule, reach } in rules {
        let place = || rule.place.clone();
        let pattern = || rule.pattern.clone();
        match &rule.who {
            Who::Group(group) if !groups.contains(group) => {
                warnings.push(|| PolicyWarning::EmptyGroup {
                    place: place(),
                    group: group.clone(),
                    suggestion: suggest(group.as_str(), groups.iter().map(|g| g.as_str()))
                        .and_then(|name| GroupName::parse(&name).ok()),
                });
            }
            Who::Group(_) | Who::User(_) | Who::Role(_) | Who::Host(_) | Who::Everyone => {}
        }
        // The name of a stream may have a single segment.
        let may_name_a_stream = rule.actions.contains(Action::Stream);
        let has_one_segment = !rule.pattern.as_str().contains('/');
        if has_one_segment && !reach.is_everything() && !may_name_a_stream {
            warnings.push(|| PolicyWarning::NoVariable {
                place: place(),
                pattern: pattern(),
            });
        }
        for action in without_effect(rule, reach).iter() {
            warnings.push(|| PolicyWarning::NotEverything {
                place: place(),
                action,
                pattern: pattern(),
            });
        }
        let denies_administration = rule.effect == Effect::Deny
            && reach.is_everything()
            && rule.actions.contains(Action::Administer);
        let concerns_administrators = match &rule.who {
            Who::Everyone | Who::Role(Role::Admin) => true,
            Who::Role(Role::Viewer | Role::Operator | Role::Engineer) => false,
            Who::User(_) | Who::Group(_) => false,
            Who::Host(HostRange::Local | HostRange::Network(_)) => false,
        };
        if denies_administration && concerns_administrators {
            warnings.push(|| PolicyWarning::NoAdministrator { place: place() });
        }
    }
    warnings
}

/// Returns the actions on the engine as a whole that a rule lists without effect, because its pattern is not
/// `**`. A rule with all actions lists none of them in particular.
fn without_effect(rule: &Rule, reach: &Reach) -> Actions {
    if reach.is_everything() || rule.actions == Actions::ALL {
        return Actions::NONE;
    }
    let needs_everything = match rule.effect {
        Effect::Grant => Actions::of(&[Action::Audit, Action::Administer]),
        // A rule that denies `audit` on some names hides their entries.
        Effect::Deny => Actions::of(&[Action::Administer]),
    };
    rule.actions.intersection(needs_everything)
}

/// The first errors or warnings, and the number of the others.
#[derive(Debug)]
struct Reported<T> {
    reported: Vec<T>,
    omitted: usize,
}

impl<T> Default for Reported<T> {
    fn default() -> Self {
        Self {
            reported: Vec::new(),
            omitted: 0,
        }
    }
}

impl<T> Reported<T> {
    /// Adds an item. Makes it only if it is reported, because a suggestion takes time.
    fn push(&mut self, item: impl FnOnce() -> T) {
        match self.reported.len() < REPORTED_MAX {
            true => self.reported.push(item()),
            false => self.omitted += 1,
        }
    }
}

impl Reported<PolicyError> {
    fn into_result(self) -> Result<(), InvalidPolicy> {
        match self.reported.is_empty() {
            true => Ok(()),
            false => Err(InvalidPolicy {
                errors: self.reported,
                omitted: self.omitted,
            }),
        }
    }
}

/// Writes one error per line.
impl fmt::Display for InvalidPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{error}")?;
        }
        match self.omitted {
            0 => Ok(()),
            omitted => write!(f, "\nand {omitted} more"),
        }
    }
}

impl fmt::Display for PolicyWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyWarning::EmptyGroup {
                place,
                group,
                suggestion,
            } => write!(
                f,
                "{place}: the rule is for the group {group}, but no account is in it{}",
                hint(suggestion)
            ),
            PolicyWarning::NoVariable { place, pattern } => write!(
                f,
                "{place}: the pattern {pattern} matches no variable, because names of variables are \
                 library/path: write {pattern}/** for a whole library"
            ),
            PolicyWarning::NotEverything {
                place,
                action,
                pattern,
            } => write!(
                f,
                "{place}: {action} on {pattern} has no effect, because it is an action on the engine as a \
                 whole: write the pattern **"
            ),
            PolicyWarning::NoAdministrator { place } => write!(
                f,
                "{place}: the rule denies administer to every administrator, so that rights can be changed \
                 only in the file"
            ),
        }
    }
}

/// Writes `anna (operator, groups shift-a, boiler) from 10.0.0.7`.
impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = self.role.map_or("no role", Role::name);
        write!(f, "{} ({role}", self.user)?;
        for (index, group) in self.groups.iter().enumerate() {
            let separator = if index == 0 { ", groups " } else { ", " };
            write!(f, "{separator}{group}")?;
        }
        write!(f, ") from {}", self.host)
    }
}
