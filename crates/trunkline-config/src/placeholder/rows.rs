//! `each` and `zip`: the values that parameters go through, without listing them in memory.

use std::sync::Arc;

use super::{Env, Param};

/// The values of one parameter.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Values {
    /// Whole numbers, both ends included; `first` is not above `last`.
    Range { first: i64, last: i64 },
    /// Anything.
    List(Vec<Param>),
}

/// Parameters that go through their values together.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Axis {
    /// At least one; all values have the same length.
    pub columns: Vec<(Arc<str>, Values)>,
}

/// All combinations of the axes, the last one varying fastest.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Rows {
    axes: Vec<Axis>,
}

impl Values {
    /// The range that `text` stands for: `"1..4"`. `None` when it is none at all.
    pub fn parse_range(text: &str) -> Option<(i64, i64)> {
        let (first, last) = text.split_once("..")?;
        let number = |text: &str| text.trim().replace('_', "").parse().ok();
        Some((number(first)?, number(last)?))
    }

    /// How many there are; 2^64 counts as one less.
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
    /// Number of positions.
    pub fn len(&self) -> u64 {
        self.columns.first().map_or(0, |(_, values)| values.len())
    }
}

impl Rows {
    /// All combinations of these axes; without axes there is one row.
    pub fn new(axes: Vec<Axis>) -> Self {
        Self { axes }
    }

    /// Number of rows, saturating.
    pub fn len(&self) -> u128 {
        self.axes.iter().fold(1, |count: u128, axis| {
            count.saturating_mul(u128::from(axis.len()))
        })
    }

    /// Calls `f` with the environment of every row, which begins with what `base` has, until it
    /// returns `false`.
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

    /// Steps to the next row like an odometer; `false` after the last one.
    fn advance(&self, indices: &mut [u64], env: &mut Env) -> bool {
        for (axis, index) in self.axes.iter().zip(indices).rev() {
            *index += 1;
            let is_over = *index >= axis.len();
            if is_over {
                *index = 0;
            }
            for (name, values) in &axis.columns {
                if let Some(value) = values.at(*index) {
                    env.set(name, value);
                }
            }
            if !is_over {
                return true;
            }
        }
        false
    }
}
