//! Statistics of measured times.

/// A summary of measured values, in their unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    pub count: usize,
    pub mean: f64,
    /// Median.
    pub median: f64,
    /// 99th percentile.
    pub p99: f64,
    pub max: f64,
    /// Variance, in the unit squared.
    pub variance: f64,
}

impl Summary {
    /// Summarises and sorts `values`; `None` if there are none.
    pub fn of(values: &mut [f64]) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (count, max) = (values.len(), *values.last()?);
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Some(Self {
            count,
            mean,
            median: rank(values, 0.5),
            p99: rank(values, 0.99),
            max,
            variance: squares / count as f64,
        })
    }
}

/// Returns the value at a share of sorted values; the higher one between two.
fn rank(ordered: &[f64], share: f64) -> f64 {
    let place = (ordered.len() as f64 * share).ceil() as usize;
    ordered[place.clamp(1, ordered.len()) - 1]
}

/// Returns the median of repeats: the middle one, or the mean of the middle two; `None` without
/// any.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut ordered = values.to_vec();
    ordered.sort_by(f64::total_cmp);
    let middle = ordered.len() / 2;
    match ordered.len() {
        0 => None,
        count if count % 2 == 1 => Some(ordered[middle]),
        _ => Some(f64::midpoint(ordered[middle - 1], ordered[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_of_one_to_hundred() {
        let mut values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let sut = Summary::of(&mut values).unwrap();
        assert_eq!((sut.count, sut.mean, sut.median), (100, 50.5, 50.0));
        assert_eq!((sut.p99, sut.max, sut.variance), (99.0, 100.0, 833.25));
        assert_eq!(Summary::of(&mut []), None);
    }

    #[test]
    fn median_of_repeats() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }
}
