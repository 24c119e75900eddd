//! Parses and fills in placeholders such as `rack{rack}/ch{ch:03}` or `plc{rack}:input/{(ch - 1) * 2}`.
//!
//! ```text
//! text        = { character | "{{" | "}}" | "{" expression [ ":0" width ] "}" }
//! expression  = term { ("+" | "-") term }
//! term        = factor { ("*" | "/" | "%") factor }
//! factor      = "-" factor | number | parameter | "(" expression ")"
//! ```
//!
//! Arithmetic uses signed 64-bit integers, reports overflow, and truncates quotients. A parameter
//! that is not a whole number cannot be part of arithmetic.

mod expression;
mod rows;

use std::fmt;
use std::sync::Arc;

use crate::suggestion::closest_match;

pub(crate) use expression::{Expression, is_parameter_name};
pub(crate) use rows::{Axis, Rows, Values};

/// The value of a parameter.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Param {
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(Arc<str>),
}

/// The parameters available to placeholders, with their values for one variable.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Env {
    params: Vec<(Arc<str>, Param)>,
}

/// A text parsed into literals and placeholders. It is parsed once and filled in for each variable.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct TextTemplate {
    text: String,
    pieces: Vec<Piece>,
}

#[derive(Clone, PartialEq, Debug)]
enum Piece {
    Literal(String),
    Placeholder {
        expression: Expression,
        width: usize,
    },
}

/// The reason why a placeholder cannot be parsed or filled in.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum PlaceholderError {
    #[error("\"{{\" has no matching brace; for a literal brace, write {{{{")]
    Unclosed,
    #[error("\"}}\" has no matching brace; for a literal brace, write }}}}")]
    Unopened,
    #[error("a placeholder is empty; for a literal brace, write {{{{")]
    Empty,
    #[error("a placeholder is longer than {PLACEHOLDER_BYTES_MAX} bytes")]
    TooLong,
    #[error("{found} is not expected in a placeholder; for a literal brace, write {{{{")]
    Unexpected { found: String },
    #[error("a placeholder ends where a number or parameter is expected")]
    Incomplete,
    #[error("a placeholder is nested too deeply")]
    TooDeep,
    #[error("\":{width}\" is not a width from :01 to :020")]
    Width { width: String },
    #[error("there is no parameter \"{name}\"{}", hint(suggestion))]
    Unknown {
        name: String,
        suggestion: Option<String>,
    },
    #[error("\"{name}\" is not a whole number; use it without arithmetic and without a width")]
    NotInteger { name: String },
    #[error("the number is too large")]
    Overflow,
    #[error("division by zero")]
    DivisionByZero,
}

/// Maximum length of a placeholder, in bytes between the braces.
const PLACEHOLDER_BYTES_MAX: usize = 256;
/// Maximum width of a zero-padded number, in characters.
const WIDTH_MAX: usize = 20;

fn hint(suggestion: &Option<String>) -> String {
    match suggestion {
        Some(word) => format!("; did you mean \"{word}\"?"),
        None => "; for a literal brace, write {{".to_owned(),
    }
}

impl Env {
    /// Adds a parameter. Returns false if a parameter of that name exists.
    pub fn add(&mut self, name: &str, value: Param) -> bool {
        if self.get(name).is_some() {
            return false;
        }
        self.params.push((name.into(), value));
        true
    }

    /// Sets the value of a parameter that was added before.
    pub fn set(&mut self, name: &str, value: Param) {
        if let Some((_, current)) = self
            .params
            .iter_mut()
            .find(|(existing, _)| **existing == *name)
        {
            *current = value;
        }
    }

    pub fn get(&self, name: &str) -> Option<&Param> {
        self.params
            .iter()
            .find(|(existing, _)| **existing == *name)
            .map(|(_, value)| value)
    }

    fn suggestion(&self, name: &str) -> Option<String> {
        closest_match(name, self.params.iter().map(|(name, _)| &**name))
    }
}

impl TextTemplate {
    pub fn parse(text: &str) -> Result<Self, PlaceholderError> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(index) = rest.find(['{', '}']) {
            let (before, from_brace) = rest.split_at(index);
            literal.push_str(before);
            if let Some(after) = from_brace.strip_prefix("{{") {
                literal.push('{');
                rest = after;
            } else if let Some(after) = from_brace.strip_prefix("}}") {
                literal.push('}');
                rest = after;
            } else if let Some(after) = from_brace.strip_prefix('{') {
                let (inside, after) = after.split_once('}').ok_or(PlaceholderError::Unclosed)?;
                if !literal.is_empty() {
                    pieces.push(Piece::Literal(std::mem::take(&mut literal)));
                }
                pieces.push(placeholder(inside)?);
                rest = after;
            } else {
                return Err(PlaceholderError::Unopened);
            }
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal));
        }
        Ok(Self {
            text: text.to_owned(),
            pieces,
        })
    }

    /// Returns the text as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns true if the text has any placeholders.
    pub fn has_placeholders(&self) -> bool {
        self.pieces
            .iter()
            .any(|piece| matches!(piece, Piece::Placeholder { .. }))
    }

    /// Returns the text with every placeholder filled in.
    pub fn expand(&self, env: &Env) -> Result<String, PlaceholderError> {
        let mut out = String::with_capacity(self.text.len());
        for piece in &self.pieces {
            match piece {
                Piece::Literal(text) => out.push_str(text),
                Piece::Placeholder { expression, width } => {
                    push_padded(&mut out, &expression.evaluate(env)?, *width)?;
                }
            }
        }
        Ok(out)
    }

    /// Returns the value of a text that is a single placeholder without a width, and `None` for any
    /// other text.
    pub fn value(&self, env: &Env) -> Option<Result<Param, PlaceholderError>> {
        match self.pieces.as_slice() {
            [
                Piece::Placeholder {
                    expression,
                    width: 0,
                },
            ] => Some(expression.evaluate(env)),
            _ => None,
        }
    }
}

fn placeholder(inside: &str) -> Result<Piece, PlaceholderError> {
    if inside.len() > PLACEHOLDER_BYTES_MAX {
        return Err(PlaceholderError::TooLong);
    }
    let (expression, width) = match inside.split_once(':') {
        None => (inside, 0),
        Some((expression, width)) => {
            let digits = width.strip_prefix('0').unwrap_or_default();
            let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
            let number = digits
                .parse()
                .ok()
                .filter(|width| (1..=WIDTH_MAX).contains(width));
            let error = || PlaceholderError::Width {
                width: width.to_owned(),
            };
            (expression, number.filter(|_| is_number).ok_or_else(error)?)
        }
    };
    Ok(Piece::Placeholder {
        expression: Expression::parse(expression)?,
        width,
    })
}

fn push_padded(out: &mut String, value: &Param, width: usize) -> Result<(), PlaceholderError> {
    use fmt::Write as _;
    let written = match value {
        Param::Integer(value) => write!(out, "{value:0width$}"),
        other if width > 0 => {
            let name = other.to_string();
            return Err(PlaceholderError::NotInteger { name });
        }
        other => write!(out, "{other}"),
    };
    // Writing to a String does not fail.
    let _ = written;
    Ok(())
}

impl fmt::Display for Param {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Param::Bool(value) => write!(f, "{value}"),
            Param::Integer(value) => write!(f, "{value}"),
            Param::Float(value) => write!(f, "{value}"),
            Param::Text(value) => f.write_str(value),
        }
    }
}

#[cfg(test)]
mod tests;
