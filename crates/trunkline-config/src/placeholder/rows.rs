//! Iterates over the parameter values of `each` and `zip` without storing all combinations.

use std::sync::Arc;

use super::{Env, Param};

/// The values of one parameter.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Values {
    /// Whole numbers from `first` to `last` inclusive; `first` is at most `last`.
    Range {
        first: i64,
        last: i64,
    },
    List(Vec<Param>),
}

/// Parameters whose values advance together: one parameter of `each`, or all parameters of `zip`.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Axis {
    /// At least one parameter; all have the same number of values.
    pub columns: Vec<(Arc<str>, Values)>,
}

/// All combinations of the axes. The last axis varies fastest.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Rows {
    axes: Vec<Axis>,
}

impl Values {
    /// Parses a range such as `"1..4"`. Returns `None` if `text` is not a range.
    pub fn parse_range(text: &str) -> Option<(i64, i64)> {
        let (first, last) = text.split_once("..")?;
        let number = |text: &str| text.trim().replace('_', "").parse().ok();
        Some((number(first)?, number(last)?))
    }

    /// Returns the number of values, saturated at 2^64 - 1.
    pub fn len(&self) -> u64 {
        match self {
            Values::Range { first, last } => {
                let count = (i128::from(*last) - i128::from(*first) + 1).max(0);
                u64::try_from(count).unwrap_or(u64::MAX)
            }
            Values::List(values) => values.len() as u64,
        }
    }

    fn at(&self, index: u64) -> Option<Param> {
        match self {
            Values::Range { first, .. } => first.checked_add_unsigned(index).map(Param::Integer),
            Values::List(values) => values.get(usize::try_from(index).ok()?).cloned(),
        }
    }
}

impl Axis {
    /// Returns the number of values of each parameter.
    pub fn len(&self) -> u64 {
        self.columns.first().map_or(0, |(_, values)| values.len())
    }
}

impl Rows {
    /// Returns all combinations of these axes. Without axes, the result is one row without parameters.
    pub fn new(axes: Vec<Axis>) -> Self {
        Self { axes }
    }

    /// Returns the number of rows, saturated at the maximum of `u128`.
    pub fn len(&self) -> u128 {
        self.axes.iter().fold(1, |count: u128, axis| {
            count.saturating_mul(u128::from(axis.len()))
        })
    }

    /// Calls `f` with the parameters of each row, in addition to those of `base`, until `f` returns
    /// false.
    pub fn for_each(&self, base: &Env, mut f: impl FnMut(&Env) -> bool) {
        if self.len() == 0 {
            return;
        }
        let mut env = base.clone();
        for (name, values) in self.axes.iter().flat_map(|axis| &axis.columns) {
            if let Some(value) = values.at(0) {
                env.add(name, value);
            }
        }
        let mut indices = vec![0; self.axes.len()];
        while f(&env) && self.advance(&mut indices, &mut env) {}
    }

    /// Advances to the next row: increments the last index, and carries into the one before it.
    /// Returns false after the last row.
    fn advance(&self, indices: &mut [u64], env: &mut Env) -> bool {
        for (axis, index) in self.axes.iter().zip(indices).rev() {
            *index += 1;
            let has_wrapped = *index >= axis.len();
            if has_wrapped {
                *index = 0;
            }
            for (name, values) in &axis.columns {
                if let Some(value) = values.at(*index) {
                    env.set(name, value);
                }
            }
            if !has_wrapped {
                return true;
            }
        }
        false
    }
}
