//! Errors as they are shown: a sentence for people, an object for programs.

use std::borrow::Cow;
use std::io;

use serde_json::{Map, Value as Json};

use crate::exit::Exit;

/// An error, of one name or of the whole command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Problem {
    /// The name that failed, if only one did.
    pub(crate) name: Option<String>,
    /// Stable word for programs, such as `unknown-name`.
    pub(crate) code: Cow<'static, str>,
    /// Description of the error.
    pub(crate) message: String,
    /// Remedy.
    pub(crate) hint: Option<String>,
    /// Exit code that it leads to.
    pub(crate) exit: Exit,
}

/// The reason why a command ends early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The reader has closed the output: a clean end.
    PipeClosed,
    /// An error.
    Problem(Box<Problem>),
}

impl Problem {
    /// Returns a problem of the whole command. A sentence states the error, then `; `, then the
    /// remedy: the second half becomes the hint.
    pub(crate) fn new(exit: Exit, code: impl Into<Cow<'static, str>>, sentence: &str) -> Self {
        let (message, hint) = match sentence.split_once("; ") {
            Some((message, hint)) => (message, Some(hint.to_owned())),
            None => (sentence, None),
        };
        Self {
            name: None,
            code: code.into(),
            message: message.to_owned(),
            hint,
            exit,
        }
    }

    /// Returns an error of the command line.
    pub(crate) fn usage(sentence: &str) -> Self {
        Self::new(Exit::Usage, "usage", sentence)
    }

    /// Assigns the problem to a name.
    #[must_use]
    pub(crate) fn of(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Returns the text that people see after the name.
    pub(crate) fn sentence(&self) -> String {
        // Frequent errors are shortened, and only a suggestion is worth its space.
        let (message, hint) = match self.code.as_ref() {
            "unknown-name" => {
                let hint = self.hint.as_deref().filter(|hint| {
                    ["did you mean", "it is a folder"]
                        .iter()
                        .any(|w| hint.starts_with(w))
                });
                ("not found", hint)
            }
            _ => (self.message.as_str(), self.hint.as_deref()),
        };
        match hint {
            Some(hint) => format!("{message} ({hint})"),
            None => message.to_owned(),
        }
    }

    /// Returns the object that programs see.
    pub(crate) fn to_json(&self) -> Json {
        let mut object = Map::new();
        object.insert("v".to_owned(), Json::from(1));
        if let Some(name) = &self.name {
            object.insert("name".to_owned(), Json::from(name.as_str()));
        }
        object.insert("code".to_owned(), Json::from(self.code.as_ref()));
        object.insert("message".to_owned(), Json::from(self.message.as_str()));
        if let Some(hint) = &self.hint {
            object.insert("hint".to_owned(), Json::from(hint.as_str()));
        }
        Json::Object(object)
    }
}

impl From<Problem> for Stop {
    fn from(problem: Problem) -> Self {
        Stop::Problem(Box::new(problem))
    }
}

impl From<io::Error> for Stop {
    /// Converts an error of writing to standard output.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Stop::PipeClosed,
            _ => {
                let sentence = format!("cannot write to standard output: {error}");
                Problem::new(Exit::SomeFailed, "output", &sentence).into()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_do_becomes_the_hint() {
        let sentence = "no variable is named boiler/lvel; did you mean boiler/level?";
        let sut = Problem::new(Exit::SomeFailed, "unknown-name", sentence).of("boiler/lvel");
        assert_eq!(sut.sentence(), "not found (did you mean boiler/level?)");
        assert_eq!(
            sut.to_json().to_string(),
            "{\"v\":1,\"name\":\"boiler/lvel\",\"code\":\"unknown-name\",\"message\":\"no variable \
             is named boiler/lvel\",\"hint\":\"did you mean boiler/level?\"}"
        );
    }

    #[test]
    fn only_a_suggestion_follows_not_found() {
        let sentence = "no variable is named x/y; `trunkline find` lists those there are";
        let sut = Problem::new(Exit::SomeFailed, "unknown-name", sentence).of("x/y");
        assert_eq!(sut.sentence(), "not found");
    }
}
