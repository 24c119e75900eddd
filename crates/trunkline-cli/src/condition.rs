//! The condition of `--until`, which ends the command at the first reading that meets it.
//!
//! ```text
//! value > 80            numbers and timestamps: = (or ==), !=, <, <=, >, >=
//! value = AUTO          other types, such as strings, enums and booleans: only = and !=
//! quality != good       good, uncertain, bad, or a reason such as sensor-failure
//! ```

use std::cmp::Ordering;

use trunkline_types::text::parse_value;
use trunkline_types::{DataType, Level, Reading, Reason, Value};

use crate::Problem;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Condition {
    text: String,
    subject: Subject,
    operator: &'static str,
    operand: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Subject {
    Value,
    Quality,
}

/// A condition for a variable of a known type.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct BoundCondition {
    operator: &'static str,
    operand: Operand,
}

#[derive(Clone, PartialEq, Debug)]
enum Operand {
    Number(f64),
    /// Compared exactly, as `i128`.
    Integer(i128),
    /// Compared for equality only.
    Value(Value),
    Level(Level),
    Reason(Reason),
}

/// Longer operators come first, so that `<=` is not parsed as `<`.
const OPERATORS: [&str; 7] = ["==", "!=", "<=", ">=", "=", "<", ">"];

impl Condition {
    pub(crate) fn parse(text: &str) -> Result<Self, Problem> {
        let invalid = || {
            let sentence = format!(
                "--until \"{text}\" is not a condition; write `value` or `quality`, an operator (= != < \
                 <= > >=), and an operand, as in 'value > 80'"
            );
            Problem::usage(sentence)
        };
        let trimmed = text.trim();
        let end = trimmed
            .find(|c: char| !c.is_ascii_alphabetic())
            .ok_or_else(invalid)?;
        let (subject, rest) = trimmed.split_at(end);
        let subject = match subject {
            "value" => Subject::Value,
            "quality" => Subject::Quality,
            _ => return Err(invalid()),
        };
        let rest = rest.trim_start();
        let operator = OPERATORS
            .iter()
            .find(|operator| rest.starts_with(**operator));
        let operator = operator.ok_or_else(invalid)?;
        let operand = rest[operator.len()..].trim();
        if operand.is_empty() {
            return Err(invalid());
        }
        let operand = operand.to_owned();
        Ok(Self {
            text: text.to_owned(),
            subject,
            operator,
            operand,
        })
    }

    pub(crate) fn bind(&self, name: &str, ty: &DataType) -> Result<BoundCondition, Problem> {
        let unusable = |reason: String| {
            let text = &self.text;
            Problem::usage(format!(
                "--until \"{text}\" cannot be used for {name} ({ty}): {reason}"
            ))
        };
        let operand = match self.subject {
            Subject::Quality => self.quality_operand().map_err(unusable)?,
            Subject::Value => self.value_operand(ty).map_err(unusable)?,
        };
        Ok(BoundCondition {
            operator: self.operator,
            operand,
        })
    }

    /// Returns true if the operand seems to contain another comparison, joined by `and` or `or`.
    fn has_several_comparisons(&self) -> bool {
        let mut words = self.operand.split_whitespace().skip(1);
        words.any(|word| {
            matches!(
                word.to_ascii_lowercase().as_str(),
                "and" | "or" | "&&" | "||"
            )
        })
    }

    fn is_ordering(&self) -> bool {
        self.operator.starts_with(['<', '>'])
    }

    fn quality_operand(&self) -> Result<Operand, String> {
        if self.has_several_comparisons() {
            return Err("write only one comparison".to_owned());
        }
        let word = self.operand.as_str();
        let levels = [Level::Good, Level::Uncertain, Level::Bad];
        if let Some(level) = levels.into_iter().find(|level| level.to_string() == word) {
            return Ok(Operand::Level(level));
        }
        match Reason::from_name(word) {
            Some(_) if self.is_ordering() => Err("reasons have no order; use = or !=".to_owned()),
            Some(reason) => Ok(Operand::Reason(reason)),
            None => Err(format!(
                "\"{word}\" is not a quality: write good, uncertain, bad, or a reason such as \
                 simulated"
            )),
        }
    }

    fn value_operand(&self, ty: &DataType) -> Result<Operand, String> {
        if ty.is_numeric() {
            // Integers are compared as i128, so that even 2^64 compares correctly with a u8. A
            // fraction such as 80.5 is allowed for an integer type and compared as f64.
            return match (self.operand.parse::<i128>(), self.operand.parse::<f64>()) {
                (Ok(integer), _) if !ty.is_float() => Ok(Operand::Integer(integer)),
                (_, Ok(number)) => Ok(Operand::Number(number)),
                _ if self.has_several_comparisons() => Err("write only one comparison".to_owned()),
                _ => Err(format!("{:?} is not a number", self.operand)),
            };
        }
        if self.is_ordering() && *ty != DataType::Timestamp {
            return Err("values of this type have no order; use = or !=".to_owned());
        }
        parse_value(&self.operand, ty)
            .map(Operand::Value)
            .map_err(|error| error.to_string())
    }
}

impl BoundCondition {
    /// Returns true if the reading meets the condition. A reading without a value meets no
    /// condition on the value.
    pub(crate) fn is_met(&self, reading: &Reading) -> bool {
        let quality = reading.sample.quality;
        let has_value = reading.has_value();
        let ordering = match &self.operand {
            Operand::Level(level) => Some(quality.level().cmp(level)),
            Operand::Reason(reason) => equality(quality.reason() == *reason),
            _ if !has_value => return false,
            Operand::Integer(operand) => {
                integer(&reading.sample.value).map(|value| value.cmp(operand))
            }
            Operand::Number(operand) => reading
                .sample
                .value
                .as_f64()
                .and_then(|value| value.partial_cmp(operand)),
            Operand::Value(operand) => match (&reading.sample.value, operand) {
                (Value::Timestamp(value), Value::Timestamp(operand)) => Some(value.cmp(operand)),
                (value, operand) => equality(value == operand),
            },
        };
        match (self.operator, ordering) {
            ("!=", ordering) => ordering != Some(Ordering::Equal),
            (_, None) => false,
            ("<", Some(ordering)) => ordering.is_lt(),
            ("<=", Some(ordering)) => ordering.is_le(),
            (">", Some(ordering)) => ordering.is_gt(),
            (">=", Some(ordering)) => ordering.is_ge(),
            (_, Some(ordering)) => ordering.is_eq(),
        }
    }
}

/// Returns `None` for unequal values: they have no order, as with NaN.
fn equality(equal: bool) -> Option<Ordering> {
    equal.then_some(Ordering::Equal)
}

fn integer(value: &Value) -> Option<i128> {
    Some(match value {
        Value::I8(v) => i128::from(*v),
        Value::I16(v) => i128::from(*v),
        Value::I32(v) => i128::from(*v),
        Value::I64(v) => i128::from(*v),
        Value::U8(v) => i128::from(*v),
        Value::U16(v) => i128::from(*v),
        Value::U32(v) => i128::from(*v),
        Value::U64(v) => i128::from(*v),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use trunkline_types::text::parse_type;
    use trunkline_types::{Position, Quality, Sample};

    use super::*;
    use crate::output::fixtures;

    fn reading(value: Value) -> Reading {
        let sample = Sample {
            value,
            ..fixtures::reading().sample
        };
        Reading {
            sample,
            ..fixtures::reading()
        }
    }

    fn is_met(condition: &str, ty: &str, value: Value) -> bool {
        let ty = parse_type(ty).unwrap();
        let bound = Condition::parse(condition)
            .unwrap()
            .bind("a/b", &ty)
            .unwrap();
        bound.is_met(&reading(value))
    }

    #[test]
    fn numbers_are_compared_as_numbers() {
        assert!(is_met("value > 80", "f64", Value::F64(80.1)));
        assert!(!is_met("value > 80", "f64", Value::F64(80.0)));
        assert!(is_met("value>=80", "f32", Value::F32(80.0)));
        assert!(is_met("value <= -1.5", "f64", Value::F64(-2.0)));
        assert!(is_met("value != 3", "u8", Value::U8(4)));
        assert!(is_met("value < 80.5", "u8", Value::U8(80)));
        assert!(!is_met("value = 3", "f64", Value::F64(f64::NAN)));
        assert!(is_met("value != 3", "f64", Value::F64(f64::NAN)));
    }

    #[test]
    fn large_integers_are_compared_exactly() {
        let big = (1_u64 << 53) + 1;
        assert!(!is_met("value == 9007199254740992", "u64", Value::U64(big)));
        assert!(is_met("value == 9007199254740993", "u64", Value::U64(big)));
        assert!(is_met(
            "value < 99999999999999999999",
            "u64",
            Value::U64(u64::MAX)
        ));
    }

    #[test]
    fn enums_strings_and_booleans_are_compared_for_equality() {
        assert!(is_met("value = AUTO", "enum(OFF, AUTO)", Value::Enum(1)));
        assert!(is_met("value != AUTO", "enum(OFF, AUTO)", Value::Enum(0)));
        assert!(is_met("value == on", "bool", Value::Bool(true)));
        assert!(is_met(
            "value = a = b",
            "string",
            Value::String("a = b".into())
        ));
    }

    #[test]
    fn quality_has_levels_and_reasons() {
        let bad = Reading {
            sample: Sample {
                quality: Quality::bad(Reason::SensorFailure),
                ..fixtures::reading().sample
            },
            ..fixtures::reading()
        };
        for (condition, expected) in [
            ("quality = bad", true),
            ("quality != good", true),
            ("quality >= uncertain", true),
            ("quality < bad", false),
            ("quality = sensor-failure", true),
            ("quality = device-failure", false),
        ] {
            let bound = Condition::parse(condition)
                .unwrap()
                .bind("a/b", &DataType::F64)
                .unwrap();
            assert_eq!(bound.is_met(&bad), expected, "{condition}");
        }
    }

    #[test]
    fn a_variable_without_a_value_meets_no_condition() {
        let bound = Condition::parse("value < 1")
            .unwrap()
            .bind("a/b", &DataType::F64)
            .unwrap();
        let position = Position {
            epoch: 1,
            sequence: 0,
        };
        assert!(!bound.is_met(&Reading {
            position,
            ..reading(Value::F64(0.0))
        }));
    }

    #[test]
    fn invalid_conditions_are_refused_with_an_example() {
        for text in ["", "value", "value >", "> 80", "level > 80", "value ~ 80"] {
            let problem = Condition::parse(text).unwrap_err();
            assert!(problem.hint.unwrap().contains("'value > 80'"), "{text}");
        }
    }

    #[test]
    fn the_error_of_a_refused_condition_names_the_cause() {
        for (condition, reason) in [
            ("value > > 3", "\"> 3\" is not a number"),
            ("value > 3 and value < 5", "write only one comparison"),
            ("value > 3 || quality = bad", "write only one comparison"),
            (
                "quality = good or quality = bad",
                "write only one comparison",
            ),
            (
                "quality != godo",
                "\"godo\" is not a quality: write good, uncertain, bad, or a reason such as \
                 simulated",
            ),
        ] {
            let bound = Condition::parse(condition).unwrap();
            let problem = bound.bind("a/b", &DataType::F64).unwrap_err();
            assert!(problem.sentence().ends_with(reason), "{problem:?}");
        }
    }

    #[test]
    fn a_condition_that_does_not_fit_the_type_is_refused() {
        for (condition, ty) in [
            ("value > high", "f64"),
            ("value > AUTO", "enum(OFF, AUTO)"),
            ("value = STOP", "enum(OFF, AUTO)"),
            ("quality = great", "f64"),
            ("value > > 3", "f64"),
            ("quality < sensor-failure", "f64"),
        ] {
            let ty = parse_type(ty).unwrap();
            let problem = Condition::parse(condition)
                .unwrap()
                .bind("a/b", &ty)
                .unwrap_err();
            assert!(
                problem.message.contains("cannot be used for a/b"),
                "{condition}: {problem:?}"
            );
        }
    }
}
