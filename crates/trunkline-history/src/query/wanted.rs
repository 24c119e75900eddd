//! The series that match a query.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;

use trunkline_types::{Pattern, StepBudget};

use super::reading::{PAGE_WORK, Page};
use crate::catalogue::{ENGINE_SERIES, Series};

/// Number of pattern comparison steps that take as long as decoding one row.
const STEPS_PER_WORK: usize = 16;
/// Steps for looking up a name, and for starting the comparison with a pattern.
const STEPS_MIN: usize = 8;

/// The wanted series, sorted by name and id. They are found on demand, and the comparisons count as
/// work of the page: comparing many patterns with many series takes long.
pub(crate) struct Wanted<'a> {
    /// The series among which the wanted ones are found.
    series: &'a [Series],
    /// The patterns without wildcards; `patterns` are the others.
    names: HashSet<&'a str>,
    patterns: Vec<&'a Pattern>,
    /// The wanted series among the first `compared` ones.
    found: RefCell<Vec<&'a Series>>,
    compared: Cell<usize>,
    /// Steps that have not been counted as work yet.
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

    /// Returns the wanted series with this number. Returns `None` if there is none, or if the page
    /// reaches its work limit first.
    pub(crate) fn get(&self, number: usize, page: &Page) -> Option<&'a Series> {
        self.get_within(number, page, PAGE_WORK)
    }

    /// As [`get`](Self::get), but compares names only until the work of the page reaches `limit`.
    pub(crate) fn get_within(
        &self,
        number: usize,
        page: &Page,
        limit: usize,
    ) -> Option<&'a Series> {
        loop {
            let found = self.found.borrow().get(number).copied();
            if found.is_some() || page.work() >= limit {
                return found;
            }
            let one = self.rest()?;
            self.compared.set(self.compared.get() + 1);
            if self.includes(one, page) {
                self.found.borrow_mut().push(one);
            }
        }
    }

    /// Returns the first series that has not been compared yet.
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
