//! The actions that a rule grants or denies.

use std::fmt;
use std::ops::BitOr;
use std::str::FromStr;

use trunkline_types::audit::cut;
use trunkline_types::name::suggest;

macro_rules! actions {
    ($($(#[doc = $doc:literal])+ $variant:ident = $bit:literal, $name:literal;)+) => {
        /// An action on a variable, a stream, a library, or the engine as a whole.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Action {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Action {
            /// Every action, in ascending order of its bit.
            pub const ALL: &[Action] = &[$(Action::$variant,)+];

            /// Returns the bit of the action in [`Actions`], as a mask.
            pub const fn bit(self) -> u16 {
                match self {
                    $(Action::$variant => 1 << $bit,)+
                }
            }

            /// Returns the name, as in rules.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Action::$variant => $name,)+
                }
            }

            /// Returns the meaning, in one sentence.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Action::$variant => concat!($($doc),+).trim_start(),)+
                }
            }
        }
    };
}

actions! {
    /// Find a variable by its name, and read its value, fields, configuration and alarms.
    Read = 0, "read";
    /// Write a variable, ask its source for a fresh value, hold a lease, and control a folder.
    Write = 1, "write";
    /// Receive the updates of a variable.
    Subscribe = 2, "subscribe";
    /// Query the recorded updates of a variable, and its entries in the alarm journal.
    History = 3, "history";
    /// Acknowledge, reset and shelve alarms, and take them out of service.
    Alarm = 4, "alarm";
    /// Deploy, undeploy, start and stop a library, change the configuration of a variable, and use or
    /// provide an I/O server.
    Configure = 5, "configure";
    /// Force and unforce a variable, and control a folder as a supervisor.
    Force = 6, "force";
    /// Open an endpoint of a stream, as its writer or its reader: register its name, or connect to
    /// it.
    Stream = 7, "stream";
    /// Subscribe a variable for a recording, in addition to `subscribe`.
    Record = 8, "record";
    /// Read the audit trail.
    Audit = 9, "audit";
    /// Change accounts, rules and certificates, reload the configuration of the engine, and stop the
    /// engine.
    Administer = 10, "administer";
}

/// The word for every action, in rules.
const ALL_NAME: &str = "all";

/// The text is not the name of an action.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ActionError {
    #[error("{text:?} is not an action{}", hint(*.suggestion))]
    Unknown {
        /// The text as given, shortened.
        text: String,
        /// The action that was probably meant.
        suggestion: Option<&'static str>,
    },
    /// The list is empty.
    #[error("no action is given: write one or several, such as read, write; or all")]
    Empty,
}

fn hint(suggestion: Option<&str>) -> String {
    match suggestion {
        Some(name) => format!("; did you mean {name}?"),
        None => {
            let names: Vec<&str> = Action::ALL.iter().map(|action| action.name()).collect();
            format!(": write one of {}, or {ALL_NAME}", names.join(", "))
        }
    }
}

impl ActionError {
    fn unknown(text: &str) -> Self {
        let names = || Action::ALL.iter().map(|action| action.name());
        let meant = suggest(text, names().chain([ALL_NAME]));
        ActionError::Unknown {
            text: cut(text, TEXT_BYTES_MAX),
            suggestion: names()
                .chain([ALL_NAME])
                .find(|name| Some(*name) == meant.as_deref()),
        }
    }
}

impl FromStr for Action {
    type Err = ActionError;

    fn from_str(text: &str) -> Result<Self, ActionError> {
        let found = Action::ALL.iter().find(|action| action.name() == text);
        found.copied().ok_or_else(|| ActionError::unknown(text))
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A set of actions.
///
/// The five highest bits of [`bits`](Self::bits) are never set, so that a table can use them for its own
/// marks, such as "not computed yet".
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Actions(u16);

impl Actions {
    pub const NONE: Actions = Actions(0);
    pub const ALL: Actions = Actions::of(Action::ALL);

    /// Returns the set of the actions listed.
    pub const fn of(actions: &[Action]) -> Self {
        let mut bits = 0;
        let mut rest = actions;
        while let [action, after @ ..] = rest {
            bits |= action.bit();
            rest = after;
        }
        Self(bits)
    }

    /// Returns the set as bits; see [`Action::bit`].
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Returns the set with the given bits, excluding those that belong to no action.
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits & Self::ALL.0)
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    pub const fn contains(self, action: Action) -> bool {
        self.0 & action.bit() != 0
    }

    /// Returns true if every action of `other` is in this set.
    pub const fn contains_all(self, other: Actions) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the actions that are in this set, in `other`, or in both.
    pub const fn union(self, other: Actions) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the actions that are in both sets.
    pub const fn intersection(self, other: Actions) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the actions of this set that are not in `other`.
    pub const fn without(self, other: Actions) -> Self {
        Self(self.0 & !other.0)
    }

    /// Iterates over the actions in ascending order of their bits.
    pub fn iter(self) -> impl Iterator<Item = Action> {
        let all = Action::ALL.iter().copied();
        all.filter(move |action| self.contains(*action))
    }

    /// Returns the set of the actions named; `all` names every action.
    ///
    /// # Errors
    /// [`ActionError`] if a name is unknown or there is none.
    pub fn from_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, ActionError> {
        let mut actions = Actions::NONE;
        for name in names {
            actions = match name {
                ALL_NAME => Actions::ALL,
                name => actions | name.parse::<Action>()?,
            };
        }
        match actions.is_empty() {
            true => Err(ActionError::Empty),
            false => Ok(actions),
        }
    }
}

/// Parses names separated by commas, as [`Display`](fmt::Display) writes them.
impl FromStr for Actions {
    type Err = ActionError;

    fn from_str(text: &str) -> Result<Self, ActionError> {
        match text.trim() {
            "" => Err(ActionError::Empty),
            text => Self::from_names(text.split(',').map(str::trim)),
        }
    }
}

/// Writes the names separated by commas, `all`, or `none`.
impl fmt::Display for Actions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Actions::ALL => f.write_str(ALL_NAME),
            Actions::NONE => f.write_str("none"),
            some => {
                for (index, action) in some.iter().enumerate() {
                    let separator = if index == 0 { "" } else { ", " };
                    write!(f, "{separator}{action}")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Debug for Actions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Actions({self})")
    }
}

impl From<Action> for Actions {
    fn from(action: Action) -> Self {
        Self(action.bit())
    }
}

impl<A: Into<Actions>> BitOr<A> for Actions {
    type Output = Actions;

    fn bitor(self, other: A) -> Actions {
        self.union(other.into())
    }
}

impl FromIterator<Action> for Actions {
    fn from_iter<I: IntoIterator<Item = Action>>(actions: I) -> Self {
        actions.into_iter().fold(Actions::NONE, BitOr::bitor)
    }
}

/// Maximum length of a text that an error quotes, in bytes.
pub(crate) const TEXT_BYTES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_keep_their_bits_and_leave_five_bits_free() {
        let bits: Vec<u16> = Action::ALL.iter().map(|action| action.bit()).collect();
        let expected: Vec<u16> = (0..11).map(|bit| 1 << bit).collect();
        assert_eq!(bits, expected);
        assert_eq!(Actions::ALL.bits(), 0b0000_0111_1111_1111);
        assert_eq!(Actions::from_bits(u16::MAX), Actions::ALL);
        let names: Vec<&str> = Action::ALL.iter().map(|action| action.name()).collect();
        assert_eq!(
            names.join(" "),
            "read write subscribe history alarm configure force stream record audit administer"
        );
    }

    #[test]
    fn every_meaning_is_one_sentence() {
        for action in Action::ALL {
            let meaning = action.meaning();
            assert!(meaning.ends_with('.'), "{meaning}");
            assert_eq!(meaning.matches(". ").count(), 0, "{meaning}");
            assert!(meaning.starts_with(char::is_uppercase), "{meaning}");
        }
    }

    #[test]
    fn sets_are_computed_action_by_action() {
        let few = Actions::of(&[Action::Read, Action::Force]);
        let others = Actions::of(&[Action::Force, Action::Audit]);
        for action in Action::ALL {
            let (a, b) = (few.contains(*action), others.contains(*action));
            assert_eq!(few.union(others).contains(*action), a | b);
            assert_eq!((few | others).contains(*action), a | b);
            assert_eq!(few.intersection(others).contains(*action), a & b);
            assert_eq!(few.without(others).contains(*action), a & !b);
        }
        assert_eq!(few.iter().collect::<Actions>(), few);
        assert_eq!(few.len(), 2);
        assert!(few.contains_all(Action::Read.into()) && !few.contains_all(others));
        assert!(few.contains_all(Actions::NONE) && Actions::NONE.is_empty());
    }

    #[test]
    fn every_set_is_parsed_from_its_text() {
        for bits in 1..=Actions::ALL.bits() {
            let actions = Actions::from_bits(bits);
            assert_eq!(actions.to_string().parse(), Ok(actions));
        }
        assert_eq!(Actions::NONE.to_string(), "none");
        assert_eq!(Actions::ALL.to_string(), "all");
        assert_eq!(" write ,read ".parse(), Ok(Actions::from_bits(3)));
        assert_eq!(Actions::from_names(["audit", "all"]), Ok(Actions::ALL));
    }

    #[test]
    fn unknown_action_is_an_error_with_a_suggestion_or_the_list() {
        for (text, expected) in [
            ("wirte", "\"wirte\" is not an action; did you mean write?"),
            ("Read", "\"Read\" is not an action; did you mean read?"),
            ("read,al", "\"al\" is not an action; did you mean all?"),
            (
                "fly",
                "\"fly\" is not an action: write one of read, write, subscribe, history, alarm, \
                 configure, force, stream, record, audit, administer, or all",
            ),
            (
                "read,,write",
                "\"\" is not an action: write one of read, write, subscribe, history, alarm, \
                 configure, force, stream, record, audit, administer, or all",
            ),
            (
                " ",
                "no action is given: write one or several, such as read, write; or all",
            ),
        ] {
            assert_eq!(text.parse::<Actions>().unwrap_err().to_string(), expected);
        }
        let long = "x".repeat(100_000).parse::<Action>().unwrap_err();
        assert!(long.to_string().len() < 300);
        assert_eq!(Actions::from_names([]), Err(ActionError::Empty));
    }
}
