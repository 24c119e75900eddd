//! Selects the series that match a query.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;

use trunkline_types::history::{HistoryQuery, PermittedNames};
use trunkline_types::{Pattern, StepBudget};

use super::reading::{PAGE_WORK, PageState};
use crate::catalogue::{ENGINE_SERIES, Series};

/// Number of steps of pattern comparison that take as long as decoding one row.
const STEPS_PER_WORK: usize = 16;
/// Number of steps for looking up a name, and for starting the comparison with a pattern.
const STEPS_MIN: usize = 8;

/// The series that match a query, sorted by name and id. They are found on demand. The comparisons count as
/// work of the page, because comparing many patterns with many series takes long.
pub(crate) struct Selection<'a> {
    /// All series that may match, sorted by name and id.
    series: &'a [Series],
    /// The patterns without wildcards, which are names.
    names: HashSet<&'a str>,
    /// The patterns with wildcards.
    patterns: Vec<&'a Pattern>,
    permitted: &'a PermittedNames,
    /// The matching series among the first `compared` elements of `series`.
    found: RefCell<Vec<&'a Series>>,
    /// Number of series that were compared.
    compared: Cell<usize>,
    /// Steps that have not been counted as work yet.
    steps: Cell<usize>,
}

impl<'a> Selection<'a> {
    pub(crate) fn new(series: &'a [Series], query: &'a HistoryQuery) -> Self {
        let (names, patterns): (Vec<&Pattern>, Vec<&Pattern>) = query
            .patterns
            .iter()
            .partition(|pattern| pattern.is_literal());
        Self {
            series,
            names: names.into_iter().map(Pattern::as_str).collect(),
            patterns,
            permitted: &query.permitted,
            found: RefCell::default(),
            compared: Cell::new(0),
            steps: Cell::new(0),
        }
    }

    /// Returns the matching series with this number, counted from 0. Returns `None` if there is none, or if
    /// the page reaches its work limit first.
    pub(crate) fn get(&self, number: usize, page: &PageState) -> Option<&'a Series> {
        self.get_within(number, page, PAGE_WORK)
    }

    /// Does the same as [`get`](Self::get), but stops comparing when the work of the page reaches `limit`.
    pub(crate) fn get_within(
        &self,
        number: usize,
        page: &PageState,
        limit: usize,
    ) -> Option<&'a Series> {
        loop {
            let found = self.found.borrow().get(number).copied();
            if found.is_some() || page.work() >= limit {
                return found;
            }
            let one = self.next_candidate()?;
            self.compared.set(self.compared.get() + 1);
            if self.includes(one, page) {
                self.found.borrow_mut().push(one);
            }
        }
    }

    /// Returns the first series that was not compared yet; `None` if all were. Skips series that the
    /// reader may not query: they must not be named in a cursor, and must not count as work, because the
    /// ends of pages would then show that they exist.
    pub(crate) fn next_candidate(&self) -> Option<&'a Series> {
        loop {
            let one = self.series.get(self.compared.get())?;
            if self.permitted.contains(&one.name) {
                return Some(one);
            }
            self.compared.set(self.compared.get() + 1);
        }
    }

    fn includes(&self, series: &Series, page: &PageState) -> bool {
        if series.id == ENGINE_SERIES {
            return false;
        }
        let mut budget = StepBudget::new(usize::MAX);
        budget.spend(STEPS_MIN);
        let matches = |pattern: &&Pattern| {
            budget.spend(STEPS_MIN);
            pattern.matches_within(&mut budget, &series.name)
        };
        let is_selected =
            self.names.contains(series.name.as_str()) || self.patterns.iter().any(matches);
        let steps = self.steps.get() + (usize::MAX - budget.left());
        page.spend(steps / STEPS_PER_WORK);
        self.steps.set(steps % STEPS_PER_WORK);
        is_selected
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use trunkline_types::DataType;
    use trunkline_types::history::PermitName;

    use super::*;

    struct Own;

    impl PermitName for Own {
        fn permits(&self, name: &str) -> bool {
            name.starts_with("own/")
        }
    }

    fn series(names: &[&str]) -> Vec<Series> {
        let series = names.iter().zip(1..).map(|(name, id)| Series {
            id,
            name: (*name).to_owned(),
            data_type: DataType::F64,
            units: String::new(),
        });
        series.collect()
    }

    fn query(patterns: &[&str]) -> HistoryQuery {
        let patterns = patterns.iter().map(|text| Pattern::parse(text).unwrap());
        HistoryQuery {
            patterns: patterns.collect(),
            permitted: PermittedNames::by(Arc::new(Own)),
            ..HistoryQuery::default()
        }
    }

    /// Behaviour: B-82, H-16.
    #[test]
    fn page_that_reaches_its_work_limit_continues_at_a_series_that_may_be_queried() {
        let series = series(&["foreign/a", "own/a", "own/b", "own0/a", "own0/b", "own/z"]);
        let query = query(&["**"]);
        let (sut, page) = (Selection::new(&series, &query), PageState::default());
        assert_eq!(sut.get(1, &page).map(|one| &*one.name), Some("own/b"));
        page.spend(PAGE_WORK);
        assert!(sut.get(2, &page).is_none());
        let next = sut.next_candidate().map(|one| &*one.name);
        assert_eq!(next, Some("own/z"), "and not at a hidden series");

        let (sut, page) = (Selection::new(&series[..5], &query), PageState::default());
        page.spend(PAGE_WORK);
        while sut.get_within(2, &page, usize::MAX).is_some() {}
        assert!(sut.next_candidate().is_none(), "only hidden series follow");
    }

    /// The ends of pages, which depend on the work, do not show hidden series.
    ///
    /// Behaviour: B-82.
    #[test]
    fn hidden_series_are_no_work() {
        let work = |names: &[&str]| {
            let (series, query) = (series(names), query(&["*/*a*b*c*", "own/*"]));
            let (sut, page) = (Selection::new(&series, &query), PageState::default());
            let found = (0..).map_while(|number| sut.get(number, &page)).count();
            (found, page.work())
        };
        let own = ["own/aaaaaaaaaaaaaaab", "own/b", "own/c"];
        let long = format!("foreign/{}", "ab".repeat(200));
        let mixed = [&*long, own[0], &*long, own[1], own[2], &*long];
        assert_eq!(work(&mixed), work(&own));
    }
}
