//! Typed access to the values of a table. Reports a value of the wrong form at its place.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use trunkline_types::contract::parse_duration;
use trunkline_types::definition::{self, TextFault};
use trunkline_types::text::parse_size;

use crate::display::{format_duration, grouped};
use crate::error::ConfigErrorKind as Kind;
use crate::keys::Section;
use crate::node::{Node, NodeKind, Table, quoted_text};
use crate::placeholder::{Env, Param, TextTemplate};
use crate::report::Report;
use crate::sections::check_keys;
use crate::source::Place;

/// Reads values. `env` defines how placeholders in texts are treated.
pub(crate) struct Values<'r, 'e> {
    pub report: &'r mut Report,
    pub env: Braces<'e>,
}

/// The meaning of braces in a text.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Braces<'e> {
    /// Braces are ordinary characters: the text is used unchanged.
    Plain,
    /// Braces enclose placeholders, which are filled in with these parameters.
    Fill(&'e Env),
    /// A placeholder is an error, because this section cannot have any.
    Reject(Section),
}

/// A value with its placeholders filled in.
pub(crate) enum Filled<'a> {
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    /// A time, a list or a table, in which placeholders are not filled in.
    Other(&'a Node),
}

impl<'r> Values<'r, 'static> {
    /// Returns a reader for sections without placeholders.
    pub fn plain(report: &'r mut Report) -> Self {
        Self {
            report,
            env: Braces::Plain,
        }
    }
}

impl Values<'_, '_> {
    /// Returns the value with its placeholders filled in. A text that is a single placeholder becomes
    /// the value of the parameter, which can be a number.
    pub fn filled<'a>(&mut self, node: &'a Node) -> Option<Filled<'a>> {
        Some(match &node.kind {
            NodeKind::Bool(value) => Filled::Bool(*value),
            NodeKind::Integer(value) => Filled::Integer(*value),
            NodeKind::Float(value) => Filled::Float(*value),
            NodeKind::Text(text) => match self.parameter(node.place, text)? {
                Some(Param::Bool(value)) => Filled::Bool(value),
                Some(Param::Integer(value)) => Filled::Integer(value),
                Some(Param::Float(value)) => Filled::Float(value),
                Some(Param::Text(text)) => Filled::Text(text.as_ref().to_owned()),
                None => Filled::Text(self.fill(node.place, text)?),
            },
            NodeKind::Time(_) | NodeKind::List(_) | NodeKind::Table(_) => Filled::Other(node),
        })
    }

    /// Returns the value of a text that is a single placeholder, `Some(None)` for any other text,
    /// and `None` after an error.
    fn parameter(&mut self, place: Place, text: &str) -> Option<Option<Param>> {
        let Braces::Fill(env) = self.env else {
            return Some(None);
        };
        if !text.starts_with('{') {
            return Some(None);
        }
        let value = TextTemplate::parse(text).and_then(|parsed| parsed.value(env).transpose());
        self.report.ok_or_report(place, text, value)
    }

    pub fn fill(&mut self, place: Place, text: &str) -> Option<String> {
        if !text.contains(['{', '}']) {
            return Some(text.to_owned());
        }
        let no_parameters = Env::default();
        let env = match self.env {
            Braces::Plain => return Some(text.to_owned()),
            Braces::Fill(env) => env,
            Braces::Reject(section) => {
                if TextTemplate::parse(text).is_ok_and(|parsed| parsed.has_placeholders()) {
                    self.report.error(
                        place,
                        Kind::PlaceholderHere {
                            section: section.header(),
                        },
                    );
                    return None;
                }
                &no_parameters
            }
        };
        let filled = TextTemplate::parse(text).and_then(|parsed| parsed.expand(env));
        self.report.ok_or_report(place, text, filled)
    }

    /// Reports that the value has a different form than expected.
    pub fn wrong_form<T>(&mut self, key: &str, node: &Node, expected: &'static str) -> Option<T> {
        let (key, found) = (key.to_owned(), node.quoted());
        self.report.error(
            node.place,
            Kind::WrongForm {
                key,
                expected,
                found,
            },
        );
        None
    }

    /// Reads text. If the text is a single placeholder with a number, returns the number as text.
    pub fn text(&mut self, key: &str, node: &Node) -> Option<String> {
        match &node.kind {
            NodeKind::Text(text) => self.fill(node.place, text),
            _ => self.wrong_form(key, node, "text in quotes"),
        }
    }

    /// Reads text for display: no control characters, at most `max` bytes.
    pub fn text_within(&mut self, key: &str, node: &Node, max: usize) -> Option<String> {
        let text = self.text(key, node)?;
        self.check_text(key, node.place, &text, max).then_some(text)
    }

    /// Returns true if `text` has no control characters and at most `max` bytes; otherwise reports
    /// it.
    pub fn check_text(&mut self, key: &str, place: Place, text: &str, max: usize) -> bool {
        let key = key.to_owned();
        let kind = match definition::check_text(text, max) {
            Ok(()) => return true,
            Err(TextFault::TooLong { max }) => Kind::TextTooLong { key, max },
            Err(TextFault::ControlCharacter { code }) => Kind::ControlCharacter { key, code },
        };
        self.report.error(place, kind);
        false
    }

    /// Reads one of the words in `choices`.
    pub fn choice<T: Copy>(&mut self, key: &str, node: &Node, choices: &[(&str, T)]) -> Option<T> {
        let found = self.text(key, node)?;
        if let Some((_, value)) = choices.iter().find(|(word, _)| *word == found) {
            return Some(*value);
        }
        let words = || choices.iter().map(|(word, _)| *word);
        let kind = Kind::UnknownChoice {
            key: key.to_owned(),
            found: found.clone(),
            choices: words().map(quoted_text).collect::<Vec<_>>().join(", "),
        };
        self.report
            .error_with_suggestion(node.place, kind, &found, words());
        None
    }

    /// Reads `true` or `false`.
    pub fn boolean(&mut self, key: &str, node: &Node) -> Option<bool> {
        match self.filled(node)? {
            Filled::Bool(value) => Some(value),
            _ => self.wrong_form(key, node, "true or false"),
        }
    }

    /// Reads a whole number within bounds.
    pub fn integer(&mut self, key: &str, node: &Node, bounds: RangeInclusive<i64>) -> Option<i64> {
        match self.filled(node)? {
            Filled::Integer(value) => self.within(key, node, value, bounds, grouped),
            _ => self.wrong_form(key, node, "a whole number"),
        }
    }

    /// Reads a finite number.
    pub fn number(&mut self, key: &str, node: &Node) -> Option<f64> {
        match self.filled(node)? {
            Filled::Integer(value) => Some(value as f64),
            Filled::Float(value) if value.is_finite() => Some(value),
            _ => self.wrong_form(key, node, "a number"),
        }
    }

    /// Reads a finite number within bounds.
    pub fn number_within(
        &mut self,
        key: &str,
        node: &Node,
        bounds: RangeInclusive<f64>,
    ) -> Option<f64> {
        let value = self.number(key, node)?;
        self.within(key, node, value, bounds, |value| value.to_string())
    }

    /// Reads two numbers, `[LOW, HIGH]`.
    pub fn pair(&mut self, key: &str, node: &Node) -> Option<[f64; 2]> {
        match &node.kind {
            NodeKind::List(nodes) => match nodes.as_slice() {
                [first, second] => {
                    let (first, second) = (self.number(key, first), self.number(key, second));
                    Some([first?, second?])
                }
                _ => self.wrong_form(key, node, "two numbers, such as [0, 100]"),
            },
            _ => self.wrong_form(key, node, "two numbers, such as [0, 100]"),
        }
    }

    /// Reads a duration such as `"100ms"`; a bare number is seconds.
    pub fn duration(
        &mut self,
        key: &str,
        node: &Node,
        bounds: RangeInclusive<Duration>,
    ) -> Option<Duration> {
        let seconds = |seconds| Duration::try_from_secs_f64(seconds).ok();
        let value = match self.filled(node)? {
            Filled::Integer(value) => seconds(value as f64),
            Filled::Float(value) => seconds(value),
            Filled::Text(text) => parse_duration(text.trim()),
            Filled::Bool(_) | Filled::Other(_) => None,
        };
        match value {
            Some(value) => self.within(key, node, value, bounds, format_duration),
            None => self.wrong_form(key, node, "a duration such as \"100ms\", \"2s\" or \"1h\""),
        }
    }

    /// Reads a number of bytes: `65_536`, `"64 KiB"`, `"1 MiB"`.
    pub fn bytes(&mut self, key: &str, node: &Node, bounds: RangeInclusive<i64>) -> Option<i64> {
        let value = match self.filled(node)? {
            Filled::Integer(value) => Some(value),
            Filled::Text(text) => parse_size(&text).and_then(|bytes| bytes.try_into().ok()),
            Filled::Bool(_) | Filled::Float(_) | Filled::Other(_) => None,
        };
        match value {
            Some(value) => self.within(key, node, value, bounds, grouped),
            None => self.wrong_form(key, node, "a number of bytes such as 65_536 or \"64 KiB\""),
        }
    }

    fn within<T: PartialOrd + Copy>(
        &mut self,
        key: &str,
        node: &Node,
        value: T,
        bounds: RangeInclusive<T>,
        format: impl Fn(T) -> String,
    ) -> Option<T> {
        if bounds.contains(&value) {
            return Some(value);
        }
        let (low, high) = (format(*bounds.start()), format(*bounds.end()));
        let (key, found) = (key.to_owned(), format(value));
        self.report.error(
            node.place,
            Kind::OutOfBounds {
                key,
                found,
                low,
                high,
            },
        );
        None
    }

    /// Returns the items of a list.
    pub fn list<'a>(&mut self, key: &str, node: &'a Node) -> Option<&'a [Node]> {
        match &node.kind {
            NodeKind::List(nodes) => Some(nodes),
            _ => self.wrong_form(key, node, "a list"),
        }
    }

    /// Returns a table with the keys of `section`.
    pub fn table<'a>(&mut self, key: &str, node: &'a Node, section: Section) -> Option<&'a Table> {
        let table = self.table_with_any_keys(key, node)?;
        check_keys(table, section, self.report);
        Some(table)
    }

    /// Returns a table without checking its keys.
    pub fn table_with_any_keys<'a>(&mut self, key: &str, node: &'a Node) -> Option<&'a Table> {
        match &node.kind {
            NodeKind::Table(table) => Some(table),
            _ => self.wrong_form(key, node, "a table"),
        }
    }
}

/// Converts a single value to a parameter. Returns `None` for times, lists and tables.
pub(crate) fn param_of(node: &Node) -> Option<Param> {
    match &node.kind {
        NodeKind::Bool(value) => Some(Param::Bool(*value)),
        NodeKind::Integer(value) => Some(Param::Integer(*value)),
        NodeKind::Float(value) => Some(Param::Float(*value)),
        NodeKind::Text(text) => Some(Param::Text(Arc::from(text.as_str()))),
        NodeKind::Time(_) | NodeKind::List(_) | NodeKind::Table(_) => None,
    }
}
