//! Patterns that have matched nothing.

use trunkline_types::Pattern;

/// The patterns of a recording, and which have matched nothing so far.
#[derive(Debug)]
pub(super) struct Unmatched {
    patterns: Vec<Pattern>,
    /// Which have matched nothing.
    open: Vec<usize>,
    /// Of which the engine has told every name that they match.
    is_listed: Vec<bool>,
    /// How many the others are.
    unlisted: usize,
    /// It is not as it was when it was looked at last.
    has_changed: bool,
}

impl Unmatched {
    pub(super) fn new(patterns: &[Pattern]) -> Self {
        Self {
            patterns: patterns.to_vec(),
            open: (0..patterns.len()).collect(),
            is_listed: vec![false; patterns.len()],
            unlisted: patterns.len(),
            has_changed: false,
        }
    }

    /// Every name that this pattern matches was told; with every connection anew.
    pub(super) fn listed(&mut self, number: usize) {
        let Some(is_listed) = self.is_listed.get_mut(number) else {
            return;
        };
        if !std::mem::replace(is_listed, true) {
            self.unlisted -= 1;
            self.has_changed = true;
        }
    }

    /// Whether it is known of every pattern what it matches.
    pub(super) fn is_known(&self) -> bool {
        self.unlisted == 0
    }

    /// A variable of this name is there.
    pub(super) fn appeared(&mut self, name: &str) {
        let (before, patterns) = (self.open.len(), &self.patterns);
        let matches = |number: usize| patterns.get(number).is_some_and(|one| one.matches(name));
        self.open.retain(|number| !matches(*number));
        self.has_changed |= self.open.len() < before;
    }

    /// Those that have matched nothing, of those of which it is known; none where they are as they
    /// were the last time.
    pub(super) fn take_news(&mut self) -> Option<Vec<String>> {
        if !std::mem::take(&mut self.has_changed) {
            return None;
        }
        let is_listed = |number: &&usize| self.is_listed.get(**number).is_some_and(|is| *is);
        let known = self.open.iter().filter(is_listed);
        Some(
            known
                .map(|number| self.pattern(*number).to_owned())
                .collect(),
        )
    }

    /// A pattern, as it is written.
    pub(super) fn pattern(&self, number: usize) -> &str {
        self.patterns.get(number).map_or("", Pattern::as_str)
    }
}
