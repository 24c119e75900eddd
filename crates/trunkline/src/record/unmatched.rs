//! Patterns that have matched nothing.

use std::collections::HashMap;

use trunkline_types::Pattern;

/// The patterns of a recording, and which of them have matched nothing so far.
#[derive(Debug)]
pub(super) struct Unmatched {
    patterns: Vec<Pattern>,
    /// True for each pattern that has matched nothing.
    is_open: Vec<bool>,
    /// Patterns without a wildcard, which match only one name; there may be as many as variables.
    names: HashMap<String, Vec<usize>>,
    wildcards: Vec<usize>,
    /// True for each pattern whose matches the engine has listed completely.
    is_listed: Vec<bool>,
    /// Number of patterns not listed yet.
    unlisted: usize,
    /// True if the result has changed since it was last taken.
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
            is_open: vec![true; patterns.len()],
            names,
            wildcards,
            is_listed: vec![false; patterns.len()],
            unlisted: patterns.len(),
            has_changed: false,
        }
    }

    /// Notes that the engine has listed every match of this pattern. Every connection lists the
    /// matches anew.
    pub(super) fn listed(&mut self, number: usize) {
        let Some(is_listed) = self.is_listed.get_mut(number) else {
            return;
        };
        if !std::mem::replace(is_listed, true) {
            self.unlisted -= 1;
            self.has_changed = true;
        }
    }

    /// Returns true once the matches of every pattern are known.
    pub(super) fn is_known(&self) -> bool {
        self.unlisted == 0
    }

    pub(super) fn appeared(&mut self, name: &str) {
        let patterns = &self.patterns;
        let matches = |number: &usize| patterns.get(*number).is_some_and(|one| one.matches(name));
        let by_name = self.names.get(name).into_iter().flatten().copied();
        let by_wildcard = self.wildcards.iter().copied().filter(matches);
        for number in by_name.chain(by_wildcard) {
            if let Some(is_open) = self.is_open.get_mut(number) {
                self.has_changed |= std::mem::replace(is_open, false);
            }
        }
    }

    /// Returns the listed patterns that have matched nothing; `None` if nothing has changed since
    /// the last call.
    pub(super) fn take_news(&mut self) -> Option<Vec<String>> {
        if !std::mem::take(&mut self.has_changed) {
            return None;
        }
        let known = self.is_open.iter().zip(&self.is_listed).zip(&self.patterns);
        let known = known.filter(|((is_open, is_listed), _)| **is_open && **is_listed);
        Some(
            known
                .map(|(_, pattern)| pattern.as_str().to_owned())
                .collect(),
        )
    }

    pub(super) fn pattern(&self, number: usize) -> &str {
        self.patterns.get(number).map_or("", Pattern::as_str)
    }
}
