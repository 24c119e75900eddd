//! Errors in the text of accounts and rules.

use std::fmt;

use trunkline_access::account::NameError;
use trunkline_access::action::ActionError;
use trunkline_access::host::HostRangeError;
use trunkline_access::role::RoleError;
use trunkline_access::{Place, PolicyError};
use trunkline_types::pattern::PatternError;

use super::CREDENTIALS_MAX;
use super::file::FILE_BYTES_MAX;
use crate::fingerprint::FingerprintError;
use crate::keys::PublicKeyError;
use crate::password::HashTextError;

/// Maximum number of errors that are reported; the others are counted.
pub const ERRORS_MAX: usize = 20;

/// The errors of a text, in the order of their lines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccessErrors {
    /// The first errors: at least one, at most [`ERRORS_MAX`].
    pub errors: Vec<AccessError>,
    /// Number of further errors.
    pub omitted: usize,
}

/// An error of the text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccessError {
    /// The place, such as `access.toml:12`; `None` if the kind states it, or concerns the whole file.
    pub place: Option<Place>,
    /// What is wrong.
    pub kind: AccessErrorKind,
}

/// What is wrong. The message of each variant follows the place.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AccessErrorKind {
    /// The text is not TOML.
    #[error("this is not valid TOML: {reason}")]
    Syntax {
        /// The reason, from the library that reads TOML.
        reason: String,
    },
    /// The text has more than [`FILE_BYTES_MAX`] bytes.
    #[error(
        "the accounts and rules have more than {FILE_BYTES_MAX} bytes; give rights to groups instead of users"
    )]
    TooLarge,
    /// A key that this section does not have.
    #[error("unknown key {key:?} in {section}; {}", hint(.suggestion, .known))]
    UnknownKey {
        /// The key, shortened.
        key: String,
        /// The section.
        section: &'static str,
        /// The key that was probably meant.
        suggestion: Option<&'static str>,
        /// All keys of the section.
        known: &'static [&'static str],
    },
    /// A section in another form than `[[user]]` or `[[rule]]`.
    #[error("write [[{key}]] for each {key}")]
    WrongSection {
        /// The key of the section.
        key: &'static str,
    },
    /// A required key is missing.
    #[error("the {section} has no {key}; add {example}")]
    KeyMissing {
        /// The section.
        section: &'static str,
        /// The key.
        key: &'static str,
        /// How it is written.
        example: &'static str,
    },
    /// A value of another type.
    #[error("{key} must be {expected}, not {found}")]
    WrongForm {
        /// The key.
        key: &'static str,
        /// What is expected.
        expected: &'static str,
        /// What was found.
        found: &'static str,
    },
    /// A list with too many items.
    #[error("{key} has {count} items; {CREDENTIALS_MAX} is the limit")]
    TooMany {
        /// The key.
        key: &'static str,
        /// Their number.
        count: usize,
    },
    /// The name of a user or a group cannot be used.
    #[error("{key}: {error}")]
    Name {
        /// The key.
        key: &'static str,
        /// The reason.
        error: NameError,
    },
    /// There is no such role.
    #[error("{0}")]
    Role(RoleError),
    /// There is no such action.
    #[error("{0}")]
    Actions(ActionError),
    /// The host of a rule cannot be used.
    #[error("{0}")]
    Host(HostRangeError),
    /// The pattern of a rule cannot be used.
    #[error("pattern: {0}")]
    Pattern(PatternError),
    /// A public key cannot be used.
    #[error("keys: {0}")]
    Key(PublicKeyError),
    /// A fingerprint cannot be used.
    #[error("certificates: {0}")]
    Certificate(FingerprintError),
    /// A password hash cannot be used.
    #[error("password: {0}")]
    Password(HashTextError),
    /// A user id is out of range.
    #[error("{key}: {found} is not a user id; write a number from 0 to {}", u32::MAX - 1)]
    UserId {
        /// The key.
        key: &'static str,
        /// The number.
        found: i64,
    },
    /// Two accounts have the same key, certificate or user id, so a login would be ambiguous.
    #[error(
        "{what} is already listed at {other}; remove one of them, because it must identify one account"
    )]
    Duplicate {
        /// The key, the certificate or the user id.
        what: String,
        /// Its first place.
        other: Place,
    },
    /// A rule does not state to whom it applies.
    #[error(
        "the rule does not state to whom it applies; add one of user, group, role, host or \
         everyone = true"
    )]
    NoSubject,
    /// A rule states twice to whom it applies.
    #[error("the rule has both {first} and {second}; write one rule for each")]
    TwoSubjects {
        /// The first key.
        first: &'static str,
        /// The second key.
        second: &'static str,
    },
    /// `everyone` is false.
    #[error("everyone = false means nothing; remove it, or write everyone = true")]
    EveryoneFalse,
    /// A rule neither grants nor denies.
    #[error("the rule neither grants nor denies; add grant = [\"read\"] or deny = [\"write\"]")]
    NoEffect,
    /// A rule grants and denies.
    #[error("the rule has both grant and deny; write one rule for each")]
    TwoEffects,
    /// Both `uid` and `uids` are there.
    #[error("the user has both uid and uids; list all of them in uids")]
    TwoUserIds,
    /// The accounts and rules contradict each other.
    #[error("{0}")]
    Policy(PolicyError),
}

impl AccessErrors {
    /// Returns the error of a text that is not TOML, without its line.
    pub(super) fn syntax(error: &toml_edit::TomlError) -> Self {
        Self {
            errors: vec![AccessError {
                place: None,
                kind: AccessErrorKind::syntax(error),
            }],
            omitted: 0,
        }
    }
}

impl AccessErrorKind {
    pub(super) fn syntax(error: &toml_edit::TomlError) -> Self {
        // Not its `Display`, which quotes the line: it may hold a password hash.
        let reason = error.message().trim_end().replace('\n', " ");
        Self::Syntax { reason }
    }
}

fn hint(suggestion: &Option<&str>, known: &[&str]) -> String {
    match suggestion {
        Some(word) => format!("did you mean {word}?"),
        None => format!("the keys here are {}", known.join(", ")),
    }
}

/// Formats as `access.toml:12: unknown key "nmae" in [[user]]; did you mean name?`.
impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{place}: {}", self.kind),
            None => fmt::Display::fmt(&self.kind, f),
        }
    }
}

impl std::error::Error for AccessError {}

/// Formats one error per line, and the number of further ones.
impl fmt::Display for AccessErrors {
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

impl std::error::Error for AccessErrors {}
