//! Limits the work of a search, so that one search cannot delay others for long.

/// The remaining steps of one slice of a search. One step is about as much work as the comparison of
/// one character. A limit on the number of names would not limit the time, which also depends on the
/// names and the pattern (F22 of the reliability plan).
///
/// A comparison that has begun is completed even if the budget is used up, so a slice may exceed its
/// budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepBudget {
    left: usize,
}

impl StepBudget {
    /// Creates a budget of `steps` steps.
    pub const fn new(steps: usize) -> Self {
        Self { left: steps }
    }

    /// Subtracts completed steps.
    pub fn spend(&mut self, steps: usize) {
        self.left = self.left.saturating_sub(steps);
    }

    /// Returns true if no steps are left.
    pub fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// Returns the number of steps left.
    pub fn left(&self) -> usize {
        self.left
    }
}
