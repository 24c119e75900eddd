//! The repeats of a run, put together: what counts is the median.

use crate::record::{Row, Run};
use crate::statistics::median;

/// All rows of one cell and system.
#[derive(Debug)]
pub struct Repeats<'a>(Vec<&'a Row>);

impl<'a> Repeats<'a> {
    /// The rows of `run` for a cell.
    pub fn find(run: &'a Run, scenario: &str, system: &str, case: &str) -> Self {
        let is_it =
            |row: &&Row| row.scenario == scenario && row.system == system && row.case == case;
        Self(run.rows.iter().filter(is_it).collect())
    }

    /// Median of a figure over the repeats that count.
    pub fn figure(&self, name: &str) -> Option<f64> {
        let values: Vec<f64> = self
            .counting()
            .filter_map(|row| row.figures.get(name).copied())
            .collect();
        median(&values)
    }

    /// Sum of a figure over the repeats that count.
    pub fn total(&self, name: &str) -> Option<f64> {
        self.counting()
            .filter_map(|row| row.figures.get(name).copied())
            .reduce(|a, b| a + b)
    }

    /// Whether an end often found its answer there before it could sleep, in a repeat that counts.
    pub fn is_mixed(&self) -> bool {
        self.counting().any(|row| row.waiting == "mixed")
    }

    /// How its ends waited, by the first repeat that counts.
    pub fn waiting(&self) -> Option<&'a str> {
        self.counting().next().map(|row| row.waiting.as_str())
    }

    /// Why repeats do not count, one sentence each.
    pub fn invalid(&self) -> Vec<String> {
        let reasons = self.0.iter().flat_map(|row| {
            row.invalid
                .iter()
                .map(|reason| format!("repeat {}: {reason}", row.repeat))
        });
        reasons.collect()
    }

    fn counting(&self) -> impl Iterator<Item = &&'a Row> {
        self.0.iter().filter(|row| row.invalid.is_empty())
    }
}

/// The quotient of two figures, when both are there.
pub fn ratio(numerator: Option<f64>, denominator: Option<f64>) -> Option<f64> {
    Some(numerator? / denominator?).filter(|ratio| ratio.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    #[test]
    fn only_repeats_that_count_are_in_the_median() {
        let mut rows = Vec::new();
        for (repeat, value, valid) in [(1, 3.0, true), (2, 900.0, false), (3, 1.0, true)] {
            let mut row = Row::new("w1", "raw-tcp", "n=1".to_owned(), "cross");
            row.repeat = repeat;
            row.figure("mean_us", value);
            row.require(valid, || "one was lost".to_owned());
            rows.push(row);
        }
        let run = Run {
            machine: Machine::here("quick").unwrap(),
            rows,
        };
        let sut = Repeats::find(&run, "w1", "raw-tcp", "n=1");
        assert_eq!(sut.figure("mean_us"), Some(2.0));
        assert_eq!(sut.figure("p99_us"), None);
        assert_eq!(sut.invalid(), ["repeat 2: one was lost"]);
        assert_eq!(ratio(Some(1.0), Some(0.0)), None);
    }
}
