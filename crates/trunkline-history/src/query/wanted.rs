//! The series that a query asks for.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;

use trunkline_types::{Pattern, StepBudget};

use super::reading::Page;
use crate::catalogue::{ENGINE_SERIES, Series};

/// Steps of comparisons with patterns that take as long as to decode a row.
const STEPS_PER_WORK: usize = 16;
/// Steps to look up a name, and to begin with a pattern.
const STEPS_MIN: usize = 8;

/// The wanted series, in the order of their names and ids. They are found when they are needed, and
/// the comparisons count as work of the page: many patterns times many series take long.
pub(crate) struct Wanted<'a> {
    /// Those from which the wanted ones are chosen.
    series: &'a [Series],
    /// The patterns without wildcards, and the others.
    names: HashSet<&'a str>,
    patterns: Vec<&'a Pattern>,
    /// The wanted ones among the first `compared` series.
    found: RefCell<Vec<&'a Series>>,
    compared: Cell<usize>,
    /// Steps that were not counted as work yet.
    steps: Cell<usize>,
}

impl<'a> Wanted<'a> {
    pub(crate) fn new(series: &'a [Series], patterns: &'a [Pattern]) -> Self {
        let (names, patterns): (Vec<&Pattern>, Vec<&Pattern>) =
            patterns.iter().partition(|pattern| pattern.is_literal());
        Self {
            series,
            names: names.into_iter().map(Pattern::as_str).collect(),
            patterns,
            found: RefCell::default(),
            compared: Cell::new(0),
            steps: Cell::new(0),
        }
    }

    /// Returns the wanted series with this number. `None` if there is none, or if the work of the
    /// page is spent before it is found.
    pub(crate) fn get(&self, number: usize, page: &Page) -> Option<&'a Series> {
        loop {
            let found = self.found.borrow().get(number).copied();
            if found.is_some() || page.is_spent() {
                return found;
            }
            let one = self.rest()?;
            self.compared.set(self.compared.get() + 1);
            if self.includes(one, page) {
                self.found.borrow_mut().push(one);
            }
        }
    }

    /// Returns the first series that was not compared yet.
    pub(crate) fn rest(&self) -> Option<&'a Series> {
        self.series.get(self.compared.get())
    }

    fn includes(&self, series: &Series, page: &Page) -> bool {
        if series.id == ENGINE_SERIES {
            return false;
        }
        let mut budget = StepBudget::new(usize::MAX);
        budget.spend(STEPS_MIN);
        let matches = |pattern: &&Pattern| {
            budget.spend(STEPS_MIN);
            pattern.matches_within(&mut budget, &series.name)
        };
        let is_wanted =
            self.names.contains(series.name.as_str()) || self.patterns.iter().any(matches);
        let steps = self.steps.get() + (usize::MAX - budget.left());
        page.spend(steps / STEPS_PER_WORK);
        self.steps.set(steps % STEPS_PER_WORK);
        is_wanted
    }
}
