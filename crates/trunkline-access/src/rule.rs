//! Rules, which grant callers actions on names, or deny them.

use std::fmt;
use std::sync::Arc;

use trunkline_types::Pattern;
use trunkline_types::text::escape;

use crate::account::{GroupName, UserName};
use crate::action::Actions;
use crate::host::HostRange;
use crate::role::Role;

/// A rule: grants or denies actions on every name that matches a pattern.
///
/// A name is that of a variable, a stream or a library. A field, such as `boiler/level#units`, has
/// the rights of its variable.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Rule {
    pub who: Who,
    /// Has no field: no `#`.
    pub pattern: Pattern,
    pub effect: Effect,
    /// At least one.
    pub actions: Actions,
    /// The place of the rule, for messages.
    pub place: Place,
}

/// The callers that a rule applies to.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Who {
    User(UserName),
    Group(GroupName),
    /// The callers with this role, but not those with a higher one.
    Role(Role),
    Host(HostRange),
    Everyone,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Effect {
    Grant,
    /// Overrides every grant.
    Deny,
}

impl Effect {
    pub const fn name(self) -> &'static str {
        match self {
            Effect::Grant => "grant",
            Effect::Deny => "deny",
        }
    }
}

/// The place at which an account or a rule is defined, such as `access.toml:12`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Place(Arc<str>);

impl Place {
    /// Returns the place as given. [`Display`](fmt::Display) escapes characters that are not printable.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Place {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for Place {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escape(&self.0))
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Who::User(name) => write!(f, "user {name}"),
            Who::Group(name) => write!(f, "group {name}"),
            Who::Role(role) => write!(f, "role {role}"),
            Who::Host(range) => write!(f, "host {range}"),
            Who::Everyone => f.write_str("everyone"),
        }
    }
}

/// Writes the rule with its place: `access.toml:12: deny write on boiler/** to group guests`.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            who,
            pattern,
            effect,
            actions,
            place,
        } = self;
        write!(f, "{place}: {effect} {actions} on {pattern} to {who}")
    }
}
