//! How much a search may do before others get their turn.

/// What is left of the work that one slice of a search may do, in steps: about as much as comparing
/// one character. A search that counts names only is as slow as the names and the pattern make it
/// (F22 of the reliability plan).
///
/// What is begun is finished, however little was left: a slice takes as much longer as its last
/// step of work does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    left: usize,
}

impl Effort {
    /// For so many steps.
    pub const fn new(steps: usize) -> Self {
        Self { left: steps }
    }

    /// Counts steps that were done.
    pub fn spend(&mut self, steps: usize) {
        self.left = self.left.saturating_sub(steps);
    }

    /// Whether it is time to stop.
    pub fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// Steps that are left.
    pub fn left(&self) -> usize {
        self.left
    }
}
