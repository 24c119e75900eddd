//! Finds the patterns of a recording that have matched no variable.

use std::collections::HashMap;

use trunkline_types::Pattern;

/// The patterns of a recording, with a mark for each pattern that has matched no variable so far.
#[derive(Debug)]
pub(super) struct Unmatched {
    patterns: Vec<Pattern>,
    /// True for each pattern that has matched no variable.
    is_unmatched: Vec<bool>,
    /// Patterns without a wildcard, which match only one name, as a map because there may be one
    /// for each variable.
    names: HashMap<String, Vec<usize>>,
    /// Numbers of the patterns with a wildcard.
    wildcards: Vec<usize>,
    /// True for each pattern whose matches the engine has listed completely.
    is_listed: Vec<bool>,
    /// Number of patterns whose matches are not listed completely.
    unlisted: usize,
    /// True if the set of unmatched patterns has changed since it was last taken.
    has_changed: bool,
}

impl Unmatched {
    pub(super) fn new(patterns: &[Pattern]) -> Self {
        let mut names: HashMap<String, Vec<usize>> = HashMap::new();
        let mut wildcards = Vec::new();
        for (number, pattern) in patterns.iter().enumerate() {
            match pattern.is_literal() {
                true => names
                    .entry(pattern.as_str().to_owned())
                    .or_default()
                    .push(number),
                false => wildcards.push(number),
            }
        }
        Self {
            patterns: patterns.to_vec(),
            is_unmatched: vec![true; patterns.len()],
            names,
            wildcards,
            is_listed: vec![false; patterns.len()],
            unlisted: patterns.len(),
            has_changed: false,
        }
    }

    /// Records that the engine has listed every match of this pattern. Each new connection lists
    /// the matches again.
    pub(super) fn listed(&mut self, number: usize) {
        let Some(is_listed) = self.is_listed.get_mut(number) else {
            return;
        };
        if !std::mem::replace(is_listed, true) {
            self.unlisted -= 1;
            self.has_changed = true;
        }
    }

    /// Returns true once the engine has listed the matches of every pattern.
    pub(super) fn is_known(&self) -> bool {
        self.unlisted == 0
    }

    pub(super) fn appeared(&mut self, name: &str) {
        let patterns = &self.patterns;
        let matches = |number: &usize| patterns.get(*number).is_some_and(|one| one.matches(name));
        let by_name = self.names.get(name).into_iter().flatten().copied();
        let by_wildcard = self.wildcards.iter().copied().filter(matches);
        for number in by_name.chain(by_wildcard) {
            if let Some(is_unmatched) = self.is_unmatched.get_mut(number) {
                self.has_changed |= std::mem::replace(is_unmatched, false);
            }
        }
    }

    /// Returns the patterns that are listed completely and have matched no variable; `None` if
    /// nothing has changed since the last call.
    pub(super) fn take_changes(&mut self) -> Option<Vec<String>> {
        if !std::mem::take(&mut self.has_changed) {
            return None;
        }
        let patterns = self
            .is_unmatched
            .iter()
            .zip(&self.is_listed)
            .zip(&self.patterns);
        let unmatched =
            patterns.filter(|((is_unmatched, is_listed), _)| **is_unmatched && **is_listed);
        Some(
            unmatched
                .map(|(_, pattern)| pattern.as_str().to_owned())
                .collect(),
        )
    }

    pub(super) fn pattern(&self, number: usize) -> &str {
        self.patterns.get(number).map_or("", Pattern::as_str)
    }
}
