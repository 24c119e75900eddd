//! Searches for variables by configuration and state (VS-02).
//!
//! A condition compares a [field](crate::features::fields) of each variable with a text. All
//! conditions of a search must hold. The search opens no fields.

use trunkline_types::name::suggest;
use trunkline_types::{Comparison, Condition, DataType, Pattern, StepBudget, Value};

use super::Queries;
use crate::caller::Caller;
use crate::features::fields::{FIELDS, FieldRef};
use crate::sync::Arc;
use crate::variable::Variable;

/// Cost of computing a field, in steps, in addition to the length of its text.
const FIELD_STEPS: usize = 64;

/// A checked condition that can be compared with many variables.
#[derive(Clone, Debug)]
pub struct Matcher {
    field: Option<FieldRef>,
    comparison: Comparison,
    expected: Expected,
}

#[derive(Clone, Debug)]
enum Expected {
    /// The text, and its lower-case form for `Contains`.
    Text {
        exact: String,
        lower: String,
    },
    Number(f64),
    Bool(bool),
    Nothing,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MatcherError {
    #[error(
        "there is no field {field:?}; {}the fields are {known}; * searches every text field",
        did_you_mean(suggestion)
    )]
    Field {
        field: String,
        /// The most similar field.
        suggestion: Option<String>,
        known: String,
    },
    /// The field does not support this comparison with this value.
    #[error("{field} is {what}")]
    Value {
        field: String,
        /// The kind of value that the field has, and the conditions that it supports.
        what: &'static str,
        value: String,
    },
}

impl Matcher {
    /// Checks a condition. The field `*` means any field with text. A type also equals its kind:
    /// `array` matches `array(f64, 3)`.
    pub fn new(condition: &Condition) -> Result<Self, MatcherError> {
        let comparison = condition.comparison;
        let (field, value) = (condition.field.as_str(), condition.value.as_str());
        let found = match field {
            "*" => None,
            _ => Some(FieldRef::named(field).ok_or_else(|| unknown(field))?),
        };
        let ty = found.as_ref().map_or(DataType::String, FieldRef::data_type);
        #[expect(clippy::wildcard_enum_match_arm, reason = "only these types matter")]
        let (what, expected) = match ty {
            _ if value.is_empty() && is_equality(comparison) && ty != DataType::String => {
                ("", Some(Expected::Nothing))
            }
            DataType::F64 | DataType::U64 => {
                let number = value.parse().ok().map(Expected::Number);
                let fits = comparison != Comparison::Contains;
                let what = "a number: use =, !=, < or > with a number";
                (what, number.filter(|_| fits))
            }
            DataType::Bool => {
                let flag = value.parse().ok().map(Expected::Bool);
                let what = "true or false: use = or !=, with one of these values";
                (what, flag.filter(|_| is_equality(comparison)))
            }
            DataType::String => {
                let text = Expected::Text {
                    exact: value.to_owned(),
                    lower: value.to_lowercase(),
                };
                let fits = is_equality(comparison) || comparison == Comparison::Contains;
                ("text: use =, != or ~", fits.then_some(text))
            }
            _ => ("a time, which cannot be searched", None),
        };
        match expected {
            Some(expected) => Ok(Self {
                field: found,
                comparison,
                expected,
            }),
            None => Err(MatcherError::Value {
                field: field.to_owned(),
                what,
                value: value.to_owned(),
            }),
        }
    }

    pub fn text_bytes(&self) -> usize {
        match &self.expected {
            Expected::Text { exact, lower } => exact.len() + lower.len(),
            Expected::Number(_) | Expected::Bool(_) | Expected::Nothing => 0,
        }
    }

    /// Returns true if the condition currently holds for a variable. The cost is charged to
    /// `budget`.
    pub fn holds(&self, variable: &Variable, budget: &mut StepBudget) -> bool {
        match &self.field {
            Some(field) => self.holds_for(field, variable, budget),
            None => {
                let mut texts = FIELDS
                    .iter()
                    .filter(|field| field.data_type() == DataType::String);
                let mut any = |condition: &Self| {
                    texts.any(|field| condition.holds_for(&field.into(), variable, budget))
                };
                match self.comparison {
                    // Holds only if no field contains the text.
                    Comparison::Differs => !any(&self.with(Comparison::Contains)),
                    Comparison::Equal => any(self),
                    Comparison::Contains | Comparison::Below | Comparison::Above => {
                        any(&self.with(Comparison::Contains))
                    }
                }
            }
        }
    }

    fn with(&self, comparison: Comparison) -> Self {
        Self {
            comparison,
            ..self.clone()
        }
    }

    fn holds_for(&self, field: &FieldRef, variable: &Variable, budget: &mut StepBudget) -> bool {
        let value = field.value_of(variable);
        let text = match &value {
            Some(Value::String(text)) => text.len(),
            _ => 0,
        };
        budget.spend(FIELD_STEPS + text + self.text_bytes());
        let is_equal = match (&value, &self.expected) {
            (None, Expected::Nothing) => true,
            (Some(Value::String(text)), Expected::Text { exact, lower }) => {
                if self.comparison == Comparison::Contains {
                    return text.to_lowercase().contains(lower);
                }
                // A type also matches by its kind.
                **text == **exact
                    || (field.name() == "type" && text.split('(').next() == Some(exact))
            }
            (Some(Value::Bool(flag)), Expected::Bool(expected)) => flag == expected,
            (Some(value), Expected::Number(expected)) => {
                let Some(number) = number(value) else {
                    return false;
                };
                match self.comparison {
                    Comparison::Below => return number < *expected,
                    Comparison::Above => return number > *expected,
                    Comparison::Equal | Comparison::Differs | Comparison::Contains => {
                        number == *expected
                    }
                }
            }
            _ => false,
        };
        match self.comparison {
            Comparison::Equal => is_equal,
            Comparison::Differs => !is_equal,
            Comparison::Contains | Comparison::Below | Comparison::Above => false,
        }
    }
}

impl Queries<'_> {
    /// Like [`EngineCore::find`](crate::EngineCore::find), with conditions that must all hold.
    #[expect(
        clippy::too_many_arguments,
        reason = "the arguments of `find`, plus the conditions"
    )]
    pub fn search(
        &self,
        caller: &Caller,
        pattern: &Pattern,
        conditions: &[Matcher],
        cursor: u32,
        limit: usize,
        budget: &mut StepBudget,
        mut visit: impl FnMut(&Arc<Variable>),
    ) -> Option<u32> {
        let mut found = 0;
        let mut from = cursor;
        loop {
            if found >= limit || (from > cursor && budget.is_spent()) {
                return Some(from);
            }
            // Searches one match at a time, so that variables that fail the conditions do not
            // count.
            let mut candidate = None;
            let next = self
                .core
                .find(caller, pattern, from, 1, budget, |variable| {
                    candidate = Some(Arc::clone(variable));
                });
            if let Some(variable) = candidate
                && conditions.iter().all(|one| one.holds(&variable, budget))
            {
                found += 1;
                visit(&variable);
            }
            from = next?;
        }
    }
}

fn is_equality(comparison: Comparison) -> bool {
    matches!(comparison, Comparison::Equal | Comparison::Differs)
}

fn did_you_mean(suggestion: &Option<String>) -> String {
    match suggestion {
        Some(name) => format!("did you mean {name:?}? "),
        None => String::new(),
    }
}

fn unknown(field: &str) -> MatcherError {
    let known: Vec<&str> = FIELDS.iter().map(|field| field.name).collect();
    MatcherError::Field {
        field: field.to_owned(),
        suggestion: suggest(field, known.iter().copied()),
        known: known.join(", "),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "only these values matter")]
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::F64(number) => Some(*number),
        Value::U64(count) => Some(*count as f64),
        _ => None,
    }
}
