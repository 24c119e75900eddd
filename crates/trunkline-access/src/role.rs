//! The four roles: named sets of actions, granted on every name.

use std::fmt;
use std::str::FromStr;

use trunkline_types::audit::cut;
use trunkline_types::name::suggest;

use crate::action::{Action, Actions, TEXT_BYTES_MAX};

/// The role of an account: a grant of [`actions`](Self::actions) on every name and on the engine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// Sees everything and changes nothing.
    Viewer,
    /// Runs the plant: also writes values and responds to alarms.
    Operator,
    /// Builds and maintains the system: also changes its configuration, forces, records, uses streams and
    /// reads the audit trail.
    Engineer,
    /// Also decides who may do what.
    Admin,
}

/// The text is not the name of a role.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{text:?} is not a role{}", hint(*.suggestion))]
pub struct RoleError {
    /// The text as given, shortened.
    pub text: String,
    /// The role that was probably meant.
    pub suggestion: Option<Role>,
}

fn hint(suggestion: Option<Role>) -> String {
    match suggestion {
        Some(role) => format!("; did you mean {role}?"),
        None => {
            let names = Role::ALL.map(Role::name).join(", ");
            format!(": write one of {names}")
        }
    }
}

impl Role {
    /// Every role. Each one has all actions of the one before it.
    pub const ALL: [Role; 4] = [Role::Viewer, Role::Operator, Role::Engineer, Role::Admin];

    pub const fn name(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Engineer => "engineer",
            Role::Admin => "admin",
        }
    }

    /// Returns the actions that the role grants.
    pub const fn actions(self) -> Actions {
        match self {
            Role::Viewer => VIEWER,
            Role::Operator => OPERATOR,
            Role::Engineer => ENGINEER,
            Role::Admin => Actions::ALL,
        }
    }
}

const VIEWER: Actions = Actions::of(&[Action::Read, Action::Subscribe, Action::History]);
const OPERATOR: Actions = VIEWER.union(Actions::of(&[Action::Write, Action::Alarm]));
const ENGINEER: Actions = OPERATOR.union(Actions::of(&[
    Action::Force,
    Action::Configure,
    Action::Stream,
    Action::Record,
    Action::Audit,
]));

impl FromStr for Role {
    type Err = RoleError;

    fn from_str(text: &str) -> Result<Self, RoleError> {
        let named = |name: &str| Role::ALL.into_iter().find(|role| role.name() == name);
        named(text).ok_or_else(|| RoleError {
            text: cut(text, TEXT_BYTES_MAX),
            suggestion: suggest(text, Role::ALL.into_iter().map(Role::name))
                .and_then(|name| named(&name)),
        })
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn role_is_parsed_from_its_name_and_a_typo_gets_a_suggestion() {
        for role in Role::ALL {
            assert_eq!(role.to_string().parse(), Ok(role));
        }
        for (text, expected) in [
            ("Admin", "\"Admin\" is not a role; did you mean admin?"),
            (
                "enginer",
                "\"enginer\" is not a role; did you mean engineer?",
            ),
            (
                "root",
                "\"root\" is not a role: write one of viewer, operator, engineer, admin",
            ),
        ] {
            assert_eq!(text.parse::<Role>().unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn each_role_has_all_actions_of_the_one_before() {
        for pair in Role::ALL.windows(2) {
            assert!(pair[1].actions().contains_all(pair[0].actions()));
            assert_ne!(pair[1].actions(), pair[0].actions());
        }
    }
}
