//! A budget for searches, so that one search cannot delay others for long.

/// The remaining budget of one slice of a search, in steps. One step is about as much work as
/// comparing one character. Counting names alone would not bound the time, which depends on the
/// names and the pattern (F22 of the reliability plan).
///
/// Work that has begun is finished even if the budget runs out, so a slice may overrun by its last
/// step of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepBudget {
    left: usize,
}

impl StepBudget {
    /// A budget of this many steps.
    pub const fn new(steps: usize) -> Self {
        Self { left: steps }
    }

    /// Subtracts steps that were done.
    pub fn spend(&mut self, steps: usize) {
        self.left = self.left.saturating_sub(steps);
    }

    /// Returns true if no steps are left.
    pub fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// Number of steps left.
    pub fn left(&self) -> usize {
        self.left
    }
}
