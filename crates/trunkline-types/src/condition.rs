//! Parses and formats search conditions on the fields of a variable.

use std::fmt;
use std::str::FromStr;

/// A comparison of a field with a given text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Comparison {
    /// Equal to the text.
    Equal = 1,
    /// Not equal to the text.
    Differs = 2,
    /// Contains the text, ignoring case.
    Contains = 3,
    /// Numerically less than the text.
    Below = 4,
    /// Numerically greater than the text.
    Above = 5,
}

/// A field compared with a text, such as `units=degC`, `description~pump` or `range.high>100`. The
/// engine defines which fields exist.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Condition {
    /// Name of the field, such as `units`; `*` for any text field.
    pub field: String,
    pub comparison: Comparison,
    /// The value to compare with.
    pub value: String,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{text:?} is not a condition: use a field, an operator (=, !=, ~, < or >) and a value, such as units=degC"
)]
pub struct ConditionError {
    text: String,
}

impl Comparison {
    /// All comparisons, in ascending order of their numbers.
    pub const ALL: [Comparison; 5] = [
        Comparison::Equal,
        Comparison::Differs,
        Comparison::Contains,
        Comparison::Below,
        Comparison::Above,
    ];

    /// Returns the comparison with this number, if this version knows it.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.number() == number)
    }

    /// Returns the number on the wire.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Returns the sign that users write.
    pub const fn sign(self) -> &'static str {
        match self {
            Comparison::Equal => "=",
            Comparison::Differs => "!=",
            Comparison::Contains => "~",
            Comparison::Below => "<",
            Comparison::Above => ">",
        }
    }
}

impl Condition {
    /// Returns a condition that compares `field` with `value`.
    pub fn new(field: &str, comparison: Comparison, value: &str) -> Self {
        Self {
            field: field.to_owned(),
            comparison,
            value: value.to_owned(),
        }
    }
}

impl FromStr for Condition {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Self, ConditionError> {
        let error = || ConditionError {
            text: text.to_owned(),
        };
        let at = text.find(['=', '!', '~', '<', '>']).ok_or_else(error)?;
        let (field, rest) = text.split_at(at);
        let comparison = Comparison::ALL
            .into_iter()
            .find(|comparison| rest.starts_with(comparison.sign()))
            .ok_or_else(error)?;
        let value = rest.get(comparison.sign().len()..).unwrap_or_default();
        match field.trim() {
            "" => Err(error()),
            field => Ok(Self::new(field, comparison, value.trim())),
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.field, self.comparison.sign(), self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_written_as_field_sign_and_value() {
        for (text, field, comparison, value) in [
            ("units=degC", "units", Comparison::Equal, "degC"),
            ("units=", "units", Comparison::Equal, ""),
            ("units != %", "units", Comparison::Differs, "%"),
            ("*~feed=pump", "*", Comparison::Contains, "feed=pump"),
            ("range.high>100", "range.high", Comparison::Above, "100"),
            ("range.low<-5", "range.low", Comparison::Below, "-5"),
        ] {
            let condition: Condition = text.parse().unwrap();
            assert_eq!(
                condition,
                Condition::new(field, comparison, value),
                "{text}"
            );
        }
        for text in ["", "units", "=degC", "units!degC", "  ~x"] {
            assert!(text.parse::<Condition>().is_err(), "{text}");
        }
    }
}
