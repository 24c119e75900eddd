//! What went wrong, in the form in which it is shown: a sentence for people, an object for
//! programs.

use std::borrow::Cow;
use std::io;

use serde_json::{Map, Value as Json};

use crate::exit::Exit;

/// Something that went wrong, of one name or of the whole command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Problem {
    /// The name that failed, when it is one name's failure.
    pub(crate) name: Option<String>,
    /// Stable word for programs, such as `unknown-name`.
    pub(crate) code: Cow<'static, str>,
    /// What is wrong.
    pub(crate) message: String,
    /// What to do about it.
    pub(crate) hint: Option<String>,
    /// The code it leads to.
    pub(crate) exit: Exit,
}

/// Why a command does not go on.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Nobody reads its output any more: a clean end.
    PipeClosed,
    /// Something is wrong.
    Problem(Box<Problem>),
}

impl Problem {
    /// A problem of the whole command. Sentences here say what is wrong, then `; `, then what to
    /// do: the second half becomes the hint.
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

    /// The command line is wrong.
    pub(crate) fn usage(sentence: &str) -> Self {
        Self::new(Exit::Usage, "usage", sentence)
    }

    /// The same, of this name.
    #[must_use]
    pub(crate) fn of(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// As people see it behind the name.
    pub(crate) fn sentence(&self) -> String {
        // What everybody knows is said shortly, and only a suggestion is worth its place.
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

    /// As programs see it.
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
    /// An error of writing to standard output.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Stop::PipeClosed,
            _ => {
                let sentence = format!("standard output cannot be written: {error}");
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
            "{\"v\":1,\"name\":\"boiler/lvel\",\"code\":\"unknown-name\",\
             \"message\":\"no variable is named boiler/lvel\",\
             \"hint\":\"did you mean boiler/level?\"}"
        );
    }

    #[test]
    fn only_a_suggestion_follows_not_found() {
        let sentence = "no variable is named x/y; `trunkline find` lists those there are";
        let sut = Problem::new(Exit::SomeFailed, "unknown-name", sentence).of("x/y");
        assert_eq!(sut.sentence(), "not found");
    }
}
