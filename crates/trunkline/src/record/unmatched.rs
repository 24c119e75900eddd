//! Patterns that have matched nothing.

use trunkline_types::Pattern;

/// The patterns of a recording that have matched nothing so far.
#[derive(Debug)]
pub(super) struct Unmatched {
    patterns: Vec<One>,
    /// Of which patterns the engine has told every name that they match.
    is_listed: Vec<bool>,
    /// How many the others are.
    unlisted: usize,
}

#[derive(Debug)]
struct One {
    pattern: Pattern,
    /// Where it stands among all.
    number: usize,
}

impl Unmatched {
    pub(super) fn new(patterns: &[Pattern]) -> Self {
        let one = |(number, pattern): (usize, &Pattern)| One {
            pattern: pattern.clone(),
            number,
        };
        Self {
            patterns: patterns.iter().enumerate().map(one).collect(),
            is_listed: vec![false; patterns.len()],
            unlisted: patterns.len(),
        }
    }

    /// Every name that this pattern matches was told; with every connection anew.
    pub(super) fn listed(&mut self, number: usize) {
        let Some(is_listed) = self.is_listed.get_mut(number) else {
            return;
        };
        if !std::mem::replace(is_listed, true) {
            self.unlisted -= 1;
        }
    }

    /// Whether it is known of every pattern what it matches.
    pub(super) fn is_known(&self) -> bool {
        self.unlisted == 0
    }

    /// A variable of this name is there. Whether it is the first of a pattern.
    pub(super) fn appeared(&mut self, name: &str) -> bool {
        let before = self.patterns.len();
        self.patterns.retain(|one| !one.pattern.matches(name));
        self.patterns.len() < before
    }

    /// Those of which it is known.
    pub(super) fn names(&self) -> Vec<String> {
        let known = |one: &&One| self.is_listed.get(one.number).is_some_and(|listed| *listed);
        let known = self.patterns.iter().filter(known);
        known.map(|one| one.pattern.to_string()).collect()
    }
}
