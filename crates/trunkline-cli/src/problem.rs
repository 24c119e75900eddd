//! Errors as the user sees them: a sentence for people, a JSON object for programs.

use std::borrow::Cow;
use std::fmt::Display;
use std::io;

use crate::exit::Exit;
use crate::output::record::{JsonSchema, Serialize};

/// One line on standard error of a command with --json.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[schemars(title = "Trunkline error, version 1")]
pub(crate) struct Problem {
    /// The name that the error is about. Left out if the error is about the whole command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// Stable code for programs, such as unknown-name.
    pub(crate) code: Cow<'static, str>,
    /// Description of the error for people.
    pub(crate) message: String,
    /// Recommended action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
    /// Exit code of the command.
    #[serde(skip)]
    pub(crate) exit: Exit,
}

/// The reason why a command ends early.
#[derive(Debug)]
pub(crate) enum CliError {
    /// The reader closed the output, which is not an error.
    PipeClosed,
    Problem(Box<Problem>),
}

impl Problem {
    /// Returns a problem of the whole command. If `sentence` contains a `; `, the text after it is
    /// the remedy and becomes the hint.
    pub(crate) fn new(
        exit: Exit,
        code: impl Into<Cow<'static, str>>,
        sentence: impl AsRef<str>,
    ) -> Self {
        let problem = match sentence.as_ref().split_once("; ") {
            Some((message, hint)) => Self::from_message(code, message).with_hint(hint),
            None => Self::from_message(code, sentence.as_ref()),
        };
        Self { exit, ..problem }
    }

    /// Same as [`new`](Self::new), with [`Exit::Failed`].
    pub(crate) fn failed(code: impl Into<Cow<'static, str>>, sentence: impl AsRef<str>) -> Self {
        Self::new(Exit::Failed, code, sentence)
    }

    /// Same as [`failed`](Self::failed), but does not split a remedy from the message.
    pub(crate) fn from_message(
        code: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            name: None,
            code: code.into(),
            message: message.into(),
            hint: None,
            exit: Exit::Failed,
        }
    }

    #[must_use]
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn system(error: &dyn Display) -> Self {
        Self::failed("system", error.to_string())
    }

    pub(crate) fn usage(sentence: impl AsRef<str>) -> Self {
        Self::new(Exit::Usage, "usage", sentence)
    }

    /// Makes this a problem of the whole command instead of one name.
    #[must_use]
    pub(crate) fn without_name(mut self) -> Self {
        self.name = None;
        self
    }

    #[must_use]
    pub(crate) fn with_name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    pub(crate) fn sentence(&self) -> String {
        // An unknown name is a frequent error, so its message is short, and only a suggestion is
        // worth the space.
        let (message, hint) = match self.code.as_ref() {
            "unknown-name" => {
                let is_suggestion = |hint: &&str| {
                    hint.starts_with("did you mean") || hint.starts_with("it is a folder")
                };
                ("not found", self.hint.as_deref().filter(is_suggestion))
            }
            _ => (self.message.as_str(), self.hint.as_deref()),
        };
        match hint {
            Some(hint) => format!("{message} ({hint})"),
            None => message.to_owned(),
        }
    }
}

/// Returns the reason why a file could not be opened, read or written, in plain words.
pub(crate) fn file_reason(error: &io::Error) -> String {
    let words = match error.kind() {
        io::ErrorKind::NotFound => "there is no such file",
        io::ErrorKind::IsADirectory => "it is a folder; specify a file",
        io::ErrorKind::NotADirectory => "part of the path is a file, not a folder",
        io::ErrorKind::PermissionDenied => "permission denied",
        // `read_to_string` reports invalid UTF-8 in this way.
        io::ErrorKind::InvalidData if error.get_ref().is_none() => "it is not UTF-8 text",
        _ => return error.to_string(),
    };
    match error.get_ref() {
        // This program created the error, with its own text.
        Some(reason) => reason.to_string(),
        None => words.to_owned(),
    }
}

/// Same as [`file_reason`], for a folder, or for a file that cannot be created.
pub(crate) fn folder_reason(error: &io::Error) -> String {
    match (error.kind(), error.get_ref()) {
        (io::ErrorKind::NotFound, None) => "there is no such folder".to_owned(),
        _ => file_reason(error),
    }
}

/// Returns the problem of a path that is a folder but must be a file.
pub(crate) fn is_folder(code: &'static str, path: &str) -> Problem {
    Problem::failed(code, format!("{path} is a folder; specify a file"))
}

impl From<Problem> for CliError {
    fn from(problem: Problem) -> Self {
        CliError::Problem(Box::new(problem))
    }
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => CliError::PipeClosed,
            _ => {
                let sentence = format!("cannot write to standard output: {error}");
                Problem::failed("output", sentence).into()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_after_a_semicolon_becomes_the_hint() {
        let sentence = "no variable is named boiler/lvel; did you mean boiler/level?";
        let sut = Problem::failed("unknown-name", sentence).with_name("boiler/lvel");
        assert_eq!(sut.sentence(), "not found (did you mean boiler/level?)");
        assert_eq!(
            crate::output::record::json(&sut),
            "{\"v\":1,\"name\":\"boiler/lvel\",\"code\":\"unknown-name\",\"message\":\"no variable \
             is named boiler/lvel\",\"hint\":\"did you mean boiler/level?\"}"
        );
    }

    #[test]
    fn common_file_errors_have_plain_descriptions() {
        use std::io::ErrorKind::{IsADirectory, NotFound, StorageFull};
        let folder = tempfile::tempdir().unwrap();
        let missing = std::fs::read(folder.path().join("none")).unwrap_err();
        assert_eq!(file_reason(&missing), "there is no such file");
        assert_eq!(folder_reason(&missing), "there is no such folder");
        let read = std::fs::read_to_string(folder.path()).unwrap_err();
        assert_eq!(read.kind(), IsADirectory);
        assert_eq!(file_reason(&read), "it is a folder; specify a file");
        let binary = folder.path().join("binary");
        std::fs::write(&binary, [0xff]).unwrap();
        let binary = std::fs::read_to_string(binary).unwrap_err();
        assert_eq!(file_reason(&binary), "it is not UTF-8 text");
        let own = io::Error::new(NotFound, "it is a link to a missing file");
        assert_eq!(file_reason(&own), "it is a link to a missing file");
        let full = io::Error::from(StorageFull);
        assert_eq!(file_reason(&full), full.to_string());
    }

    #[test]
    fn only_a_suggestion_follows_not_found() {
        let sentence = "no variable is named x/y; `trunkline find` lists the existing ones";
        let sut = Problem::failed("unknown-name", sentence).with_name("x/y");
        assert_eq!(sut.sentence(), "not found");
    }
}
