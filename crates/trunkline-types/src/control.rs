//! Control of folders: who may write the variables of a folder now.
//!
//! ```text
//! folder boiler     boiler/level, boiler/pump/on, ...    as the pattern boiler/**
//! folder **         every variable
//! ```

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::pattern::{PATTERN_BYTES_MAX, Pattern, PatternError};
use crate::time::Timestamp;

/// Maximum length of a folder in bytes.
pub const FOLDER_BYTES_MAX: usize = PATTERN_BYTES_MAX;
/// Maximum number of controlled folders, and of waiting requests, in an engine.
pub const CONTROL_FOLDERS_MAX: usize = 1_024;
/// Maximum number of folders that one identity controls and waits for together.
pub const CONTROL_OF_IDENTITY_MAX: usize = 128;
/// Maximum number of requests that wait for a folder, for folders in it, or for folders around it.
/// Further requests are refused.
pub const CONTROL_WAITING_MAX: usize = 64;
/// Maximum number of these requests that one identity has. More count as this many, wherever they are
/// refused, so that others can wait as well.
pub const CONTROL_WAITING_OF_IDENTITY_MAX: usize = 4;
/// Longest and shortest duration of a token. Other durations are changed to the nearest of them.
pub const CONTROL_MAX: Duration = Duration::from_secs(24 * 3600);
pub const CONTROL_MIN: Duration = Duration::from_secs(1);

/// The folder of all variables, as users write it.
const EVERYTHING: &str = "**";

/// A folder: the variables whose names begin with its segments.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Folder(Box<str>);

/// The text is not a folder.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FolderError {
    /// The text breaks a rule that also applies to patterns.
    #[error("{0}")]
    Pattern(#[from] PatternError),
    /// The text is empty, so that nobody takes everything by mistake.
    #[error("the folder is empty: write a folder such as boiler, or ** for every variable")]
    Empty,
    /// The text has a wildcard before its end, or a field.
    #[error(
        "{text:?} is not a folder: write the first segments of names, without * and #, such as \
         boiler or boiler/pump"
    )]
    NotPlain {
        /// The text as given.
        text: String,
    },
}

impl Folder {
    /// Checks a folder, and converts it to canonical form. `boiler`, `boiler/` and `boiler/**` are
    /// the same folder.
    pub fn parse(text: &str) -> Result<Self, FolderError> {
        if text.is_empty() {
            return Err(FolderError::Empty);
        }
        if text == EVERYTHING {
            return Ok(Self("".into()));
        }
        let body = text.strip_suffix("/**").or(text.strip_suffix('/'));
        let body = body.unwrap_or(text);
        let pattern = Pattern::parse(body)?;
        if !pattern.is_literal() || pattern.as_str().contains('#') {
            let text = text.to_owned();
            return Err(FolderError::NotPlain { text });
        }
        Ok(Self(pattern.as_str().into()))
    }

    /// Returns the segments as one text; empty for the folder of all variables.
    pub fn path(&self) -> &str {
        &self.0
    }

    /// Returns the folder as users write it.
    pub fn as_str(&self) -> &str {
        match self.is_everything() {
            true => EVERYTHING,
            false => &self.0,
        }
    }

    pub fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if a variable with this name is in the folder. The name is in canonical form,
    /// without a field.
    pub fn covers(&self, name: &str) -> bool {
        is_at_or_below(name, &self.0)
    }

    /// Returns true if every variable of `other` is in this folder.
    pub fn contains(&self, other: &Folder) -> bool {
        self.covers(&other.0)
    }

    /// Returns true if one folder contains the other, so that a variable can be in both.
    pub fn overlaps(&self, other: &Folder) -> bool {
        self.contains(other) || other.contains(self)
    }
}

fn is_at_or_below(name: &str, path: &str) -> bool {
    let rest = name.strip_prefix(path);
    rest.is_some_and(|rest| path.is_empty() || rest.is_empty() || rest.starts_with('/'))
}

/// Returns the paths of all folders that can cover `name`, from the longest to the shortest, which
/// is the folder of all variables.
pub fn paths_above(name: &str) -> impl Iterator<Item = &str> {
    let whole = (!name.is_empty()).then_some(name);
    let prefixes = name.rmatch_indices('/').map(|(at, _)| &name[..at]);
    whole.into_iter().chain(prefixes).chain([""])
}

/// Folders are looked up by their paths.
impl Borrow<str> for Folder {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl FromStr for Folder {
    type Err = FolderError;

    fn from_str(text: &str) -> Result<Self, FolderError> {
        Self::parse(text)
    }
}

impl fmt::Display for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Folder({self})")
    }
}

/// The level of control, in ascending order. Without control, a client is an observer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum ControlLevel {
    /// Needs the right to write every variable of the folder.
    #[default]
    Operator,
    /// Needs the right to force them as well. Takes control from operators.
    Supervisor,
}

impl ControlLevel {
    pub const ALL: &[ControlLevel] = &[ControlLevel::Operator, ControlLevel::Supervisor];

    /// Returns the name shown to users and used by scripts.
    pub const fn name(self) -> &'static str {
        match self {
            ControlLevel::Operator => "operator",
            ControlLevel::Supervisor => "supervisor",
        }
    }
}

impl fmt::Display for ControlLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Who may write while a folder is controlled.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum ControlHolder {
    /// The session that took control, such as one program.
    #[default]
    Session,
    /// Every session with the identity of the one that took control, such as an operator's screens
    /// and terminals.
    Identity,
}

impl ControlHolder {
    /// Returns the name shown to users and used by scripts.
    pub const fn name(self) -> &'static str {
        match self {
            ControlHolder::Session => "session",
            ControlHolder::Identity => "identity",
        }
    }
}

impl fmt::Display for ControlHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The terms on which a client takes control, or asks for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ControlTerms {
    pub level: ControlLevel,
    pub holder: ControlHolder,
    /// Time after which control ends, from when it was granted on. With `None`, it ends with the
    /// session. Control of an identity with a duration outlives the session.
    pub duration: Option<Duration>,
}

/// A folder that is controlled, or that a client waits to control.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ControlEntry {
    /// Number of the token or request, unique for one start of the engine. Requests are granted in
    /// the order of their numbers.
    pub number: u64,
    pub folder: Folder,
    /// True if the client does not have control yet, but waits for it.
    pub is_waiting: bool,
    pub level: ControlLevel,
    pub holder: ControlHolder,
    /// The holder, or the client that waits, with the origin of its session.
    pub by: String,
    /// Time at which control was granted, or at which it was requested.
    pub since: Timestamp,
    /// Time until control ends; `None` if it ends with its session, and for a request.
    pub left: Option<Duration>,
    /// True if the caller holds the token, or waits.
    pub is_own: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_has_one_form_and_no_wildcards() {
        for (text, path) in [
            ("boiler", "boiler"),
            ("boiler/", "boiler"),
            ("boiler/**", "boiler"),
            ("boiler/pump", "boiler/pump"),
            ("a%2fb/c", "a%2Fb/c"),
            ("**", ""),
        ] {
            assert_eq!(Folder::parse(text).unwrap().path(), path, "{text}");
        }
        assert_eq!(Folder::parse(""), Err(FolderError::Empty));
        for text in [
            "/",
            "//",
            "boiler//pump",
            "boiler/*",
            "b*",
            "**/pump",
            "a/**/b",
            "a/x#y",
            "boiler**",
            "/**",
            "a\u{7}",
        ] {
            let error = Folder::parse(text);
            assert!(error.is_err(), "{text} {error:?}");
        }
        let long = "x".repeat(FOLDER_BYTES_MAX + 1);
        assert!(Folder::parse(&long).is_err());
        assert_eq!(Folder::parse("**").unwrap().to_string(), "**");
    }

    #[test]
    fn folder_covers_what_its_pattern_matches() {
        let names = [
            "boiler/level",
            "boiler/pump/on",
            "boiler2/level",
            "b/x",
            "boiler/pump",
        ];
        for text in ["boiler", "boiler/pump", "b", "boiler/pump/on", "boi", "**"] {
            let folder = Folder::parse(text).unwrap();
            let pattern = match text {
                "**" => Pattern::parse(text).unwrap(),
                text => Pattern::parse(&format!("{text}/**")).unwrap(),
            };
            for name in names {
                let is_above = paths_above(name).any(|path| path == folder.path());
                assert_eq!(folder.covers(name), pattern.matches(name), "{text} {name}");
                assert_eq!(folder.covers(name), is_above, "{text} {name}");
            }
        }
        let (all, boiler) = (
            Folder::parse("**").unwrap(),
            Folder::parse("boiler").unwrap(),
        );
        let (pump, other) = (
            Folder::parse("boiler/pump").unwrap(),
            Folder::parse("rig").unwrap(),
        );
        assert!(all.contains(&boiler) && boiler.contains(&pump) && boiler.contains(&boiler));
        assert!(!pump.contains(&boiler) && pump.overlaps(&boiler) && !other.overlaps(&boiler));
        assert_eq!(paths_above("a/b").collect::<Vec<_>>(), ["a/b", "a", ""]);
        assert_eq!(paths_above("").collect::<Vec<_>>(), [""]);
    }
}
