//! The decision on one action, and the explanation of all of them.

use std::fmt;

use crate::action::Action;
use crate::role::Role;
use crate::rule::Rule;
use crate::subject_rules::SubjectRules;

/// The decision on an action, with its reason.
///
/// The reason names a rule, and therefore a pattern. Tell it only to a caller that may read the name: to
/// others, a name that may not be read does not exist (B-82).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision<'a> {
    Granted {
        by: GrantedBy<'a>,
    },
    /// A rule denies the action.
    Denied {
        by: &'a Rule,
    },
    /// Neither the role nor a rule grants or denies the action.
    Unspecified,
    /// The action is granted, but it requires `read`, which is not.
    NeedsRead {
        /// The rule that denies `read`; `None` if `read` is unspecified.
        denied_by: Option<&'a Rule>,
    },
}

/// What grants an action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GrantedBy<'a> {
    Role(Role),
    Rule(&'a Rule),
}

impl Decision<'_> {
    pub const fn is_granted(&self) -> bool {
        match self {
            Decision::Granted { .. } => true,
            Decision::Denied { .. } | Decision::Unspecified | Decision::NeedsRead { .. } => false,
        }
    }

    /// Returns the decision in one or two words.
    pub const fn name(&self) -> &'static str {
        match self {
            Decision::Granted { .. } => "granted",
            Decision::Denied { .. } => "denied",
            Decision::Unspecified => "not granted",
            Decision::NeedsRead { .. } => "needs read",
        }
    }
}

/// Writes the reason: the role, or the rule with its place.
impl fmt::Display for Decision<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Decision::Granted {
                by: GrantedBy::Role(role),
            } => write!(f, "the role {role} grants it"),
            Decision::Granted {
                by: GrantedBy::Rule(rule),
            }
            | Decision::Denied { by: rule } => write!(f, "{rule}"),
            Decision::Unspecified => f.write_str("neither the role nor a rule grants it"),
            Decision::NeedsRead { denied_by: None } => {
                f.write_str("it requires read, which neither the role nor a rule grants")
            }
            Decision::NeedsRead {
                denied_by: Some(rule),
            } => write!(f, "it requires read, which is denied: {rule}"),
        }
    }
}

/// What a subject may do with a name, and why.
///
/// ```text
/// anna (operator, groups shift-a) from 10.0.0.7 on boiler/level:
/// read        granted      the role operator grants it
/// write       denied       access.toml:12: deny write on boiler/** to group shift-a
/// configure   not granted  neither the role nor a rule grants it
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Explanation {
    subject: String,
    rules: SubjectRules,
    name: String,
}

impl Explanation {
    pub(crate) fn new(subject: String, rules: SubjectRules, name: &str) -> Self {
        Self {
            subject,
            rules,
            name: name.to_owned(),
        }
    }

    /// Returns the caller: user, role, groups and host, as text.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the decision on each action, in the order of [`Action::ALL`]. The decision on `administer` is
    /// that for the engine as a whole, because the action does not concern a single name. The decision on
    /// `audit` is granted if it is granted both for the engine and for the name.
    pub fn decisions(&self) -> impl Iterator<Item = (Action, Decision<'_>)> {
        let decide = |action| match action {
            Action::Administer => self.rules.decide_for_engine(action),
            Action::Audit => match self.rules.decide_for_engine(action) {
                Decision::Granted { .. } => self.rules.decide(&self.name, action),
                refused @ (Decision::Denied { .. }
                | Decision::Unspecified
                | Decision::NeedsRead { .. }) => refused,
            },
            Action::Read
            | Action::Write
            | Action::Subscribe
            | Action::History
            | Action::Alarm
            | Action::Configure
            | Action::Force
            | Action::Stream
            | Action::Record => self.rules.decide(&self.name, action),
        };
        Action::ALL
            .iter()
            .map(move |action| (*action, decide(*action)))
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = trunkline_types::text::escape(&self.name);
        write!(f, "{} on {name}:", self.subject)?;
        for (action, decision) in self.decisions() {
            write!(f, "\n{action:11} {:12} {decision}", decision.name())?;
        }
        Ok(())
    }
}
