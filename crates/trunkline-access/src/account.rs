//! Accounts, and the names of users and groups.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use trunkline_types::text::is_unprintable;

use crate::role::Role;
use crate::rule::Place;

/// Maximum length of the name of a user or a group, in characters.
pub const NAME_CHARS_MAX: usize = 64;

/// Names that an engine gives to callers without an account, so that no account can pass as one of them in
/// the audit trail. The others contain a colon, such as `local:1000`.
const RESERVED_NAMES: [&str; 3] = ["engine", "loopback", "unauthenticated"];

/// An account: a person or a program that an engine knows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Account {
    pub name: UserName,
    /// The actions permitted on every name; `None` if only rules permit something.
    pub role: Option<Role>,
    pub groups: Vec<GroupName>,
    /// A disabled account cannot be used until it is enabled again.
    pub disabled: bool,
    /// The place of its definition, for messages.
    pub place: Place,
}

/// The text cannot be the name of a user or a group.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NameError {
    #[error("the name is empty: write 1 to {NAME_CHARS_MAX} characters")]
    Empty,
    #[error("the name has more than {NAME_CHARS_MAX} characters: choose a shorter one")]
    TooLong,
    /// A space, a line break or the like.
    #[error(
        "the name has white space (U+{:04X}) at byte {position}: write - or _ in its place",
        u32::from(*character)
    )]
    Whitespace {
        /// Offset of the character.
        position: usize,
        character: char,
    },
    /// A character that is invisible, controls a terminal, or reorders the displayed text.
    #[error("the character U+{:04X} at byte {position} of the name is not printable", u32::from(*character))]
    Unprintable {
        /// Offset of the character.
        position: usize,
        character: char,
    },
    /// A colon occurs only in names that an engine gives.
    #[error(
        "the name has a colon at byte {position}, which is reserved for callers without an account, such as \
         local:1000: write - or _ in its place"
    )]
    Colon {
        /// Offset of the colon.
        position: usize,
    },
    #[error("the name {name} is reserved for the engine: choose another one")]
    Reserved { name: &'static str },
}

fn check(text: &str) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if text.chars().nth(NAME_CHARS_MAX).is_some() {
        return Err(NameError::TooLong);
    }
    for (position, character) in text.char_indices() {
        if character == ':' {
            return Err(NameError::Colon { position });
        }
        if character.is_whitespace() {
            return Err(NameError::Whitespace {
                position,
                character,
            });
        }
        if is_unprintable(character) {
            return Err(NameError::Unprintable {
                position,
                character,
            });
        }
    }
    match RESERVED_NAMES.into_iter().find(|name| *name == text) {
        Some(name) => Err(NameError::Reserved { name }),
        None => Ok(()),
    }
}

macro_rules! names {
    ($($(#[doc = $doc:literal])+ $name:ident;)+) => {
        $(
            $(#[doc = $doc])+
            ///
            /// It has 1 to [`NAME_CHARS_MAX`] printable characters without white space and colons, and is
            /// compared byte by byte: case is significant.
            #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
            pub struct $name(Box<str>);

            impl $name {
                /// Checks a name.
                pub fn parse(text: &str) -> Result<Self, NameError> {
                    check(text)?;
                    Ok(Self(text.into()))
                }

                pub fn as_str(&self) -> &str {
                    &self.0
                }
            }

            impl FromStr for $name {
                type Err = NameError;

                fn from_str(text: &str) -> Result<Self, NameError> {
                    Self::parse(text)
                }
            }

            impl Borrow<str> for $name {
                fn borrow(&self) -> &str {
                    &self.0
                }
            }

            impl AsRef<str> for $name {
                fn as_ref(&self) -> &str {
                    &self.0
                }
            }

            impl fmt::Display for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.pad(&self.0)
                }
            }

            impl fmt::Debug for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    fmt::Debug::fmt(&self.0, f)
                }
            }
        )+
    };
}

names! {
    /// The name of a user: of the account of a person or a program.
    UserName;
    /// The name of a group. A group exists if an account names it.
    GroupName;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_people_and_programs_are_accepted() {
        let longest = "ä".repeat(NAME_CHARS_MAX);
        for name in [
            "anna",
            "Anna",
            "shift-a",
            "plc_7",
            "PLANT\\anna",
            "anna@plant.example",
            "Jörg",
            "操作员",
            "engine2",
            "7",
            longest.as_str(),
        ] {
            let sut = UserName::parse(name).unwrap();
            assert_eq!(sut.to_string(), name);
            assert_eq!(GroupName::parse(name).unwrap().as_str(), name);
        }
        assert_ne!(UserName::parse("anna"), UserName::parse("Anna"));
    }

    #[test]
    fn every_rule_of_names_has_its_sentence() {
        for (name, expected) in [
            (String::new(), "the name is empty: write 1 to 64 characters"),
            (
                "a".repeat(65),
                "the name has more than 64 characters: choose a shorter one",
            ),
            (
                "anna b".to_owned(),
                "the name has white space (U+0020) at byte 4: write - or _ in its place",
            ),
            (
                "anna\n".to_owned(),
                "the name has white space (U+000A) at byte 4: write - or _ in its place",
            ),
            (
                "a\u{a0}b".to_owned(),
                "the name has white space (U+00A0) at byte 1: write - or _ in its place",
            ),
            (
                "an\u{1b}[31m".to_owned(),
                "the character U+001B at byte 2 of the name is not printable",
            ),
            (
                "anna\u{202e}".to_owned(),
                "the character U+202E at byte 4 of the name is not printable",
            ),
            (
                "ann\u{200b}a".to_owned(),
                "the character U+200B at byte 3 of the name is not printable",
            ),
            (
                "local:0".to_owned(),
                "the name has a colon at byte 5, which is reserved for callers without an account, such \
                 as local:1000: write - or _ in its place",
            ),
            (
                "engine".to_owned(),
                "the name engine is reserved for the engine: choose another one",
            ),
        ] {
            assert_eq!(UserName::parse(&name).unwrap_err().to_string(), expected);
            assert_eq!(name.parse::<GroupName>().unwrap_err().to_string(), expected);
        }
    }
}
