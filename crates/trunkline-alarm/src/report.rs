//! Computes statistics of an alarm system from its journal: the rates, floods, chattering alarms and
//! worst alarms of ISA-18.2-2016, section 16.5.

use std::collections::BTreeMap;
use std::time::Duration;

use trunkline_types::Timestamp;

/// The period over which alarms are counted.
pub const PERIOD: Duration = Duration::from_secs(600);
/// A flood begins with a period in which more alarms than this are raised.
pub const FLOOD_ABOVE: u64 = 10;
/// A flood ends with the first period in which fewer alarms than this are raised.
pub const FLOOD_BELOW: u64 = 5;
/// An alarm chatters if it is raised this many times within [`CHATTER_TIME`].
pub const CHATTER_COUNT: usize = 3;
pub const CHATTER_TIME: Duration = Duration::from_secs(60);
/// Maximum number of the worst alarms in a report.
pub const WORST_MAX: usize = 10;

/// Statistics of the alarms that were raised in a span of time.
#[derive(Clone, PartialEq, Debug)]
pub struct Report<K> {
    /// Number of alarms raised.
    pub raised: u64,
    /// Average number of alarms raised in ten minutes.
    pub average: f64,
    /// Number of alarms raised in the busiest period of ten minutes.
    pub peak: u64,
    pub floods: Vec<Flood>,
    /// The alarms that chattered, worst first. The number is the largest number of times that the alarm was
    /// raised within one minute.
    pub chattering: Vec<(K, u64)>,
    /// The alarms raised most often, at most [`WORST_MAX`]. The number is the number of times that the alarm was
    /// raised.
    pub worst: Vec<(K, u64)>,
}

/// A span of time in which more alarms are raised than an operator can handle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flood {
    pub from: Timestamp,
    pub until: Timestamp,
    pub raised: u64,
}

impl<K: Ord + Clone> Report<K> {
    /// Computes the statistics for the span from `from` until `until`. `raises` contains the time and the key
    /// of each alarm that was raised; times outside the span are ignored.
    pub fn compute(
        raises: impl IntoIterator<Item = (Timestamp, K)>,
        from: Timestamp,
        until: Timestamp,
    ) -> Self {
        let span = until.as_nanos().saturating_sub(from.as_nanos()).max(0);
        let (mut periods, mut times) = (BTreeMap::<i64, u64>::new(), BTreeMap::new());
        let mut raised = 0;
        for (when, key) in raises {
            let since = when.as_nanos().saturating_sub(from.as_nanos());
            if since < 0 || since >= span {
                continue;
            }
            raised += 1;
            *periods.entry(since / nanos(PERIOD)).or_default() += 1;
            times.entry(key).or_insert_with(Vec::new).push(since);
        }
        let mut chattering = Vec::new();
        for (key, times) in &mut times {
            times.sort_unstable();
            let count = max_within(times, nanos(CHATTER_TIME));
            if count >= CHATTER_COUNT {
                chattering.push((key.clone(), count as u64));
            }
        }
        let counts = times
            .into_iter()
            .map(|(key, times)| (key, times.len() as u64));
        let mut worst: Vec<_> = counts.collect();
        for list in [&mut chattering, &mut worst] {
            list.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        }
        worst.truncate(WORST_MAX);
        // A span shorter than a period counts as one period.
        let period_count = (span as f64 / nanos(PERIOD) as f64).max(1.0);
        Self {
            raised,
            average: raised as f64 / period_count,
            peak: periods.values().copied().max().unwrap_or(0),
            floods: floods(&periods, from, until),
            chattering,
            worst,
        }
    }
}

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// Returns the largest number of ascending `times` that lie within any interval of length `span`.
fn max_within(times: &[i64], span: i64) -> usize {
    let mut first = 0;
    let mut max = 0;
    for (index, time) in times.iter().enumerate() {
        while times.get(first).is_some_and(|start| time - start > span) {
            first += 1;
        }
        max = max.max(index + 1 - first);
    }
    max
}

/// Returns the floods. `periods` contains the number of alarms raised in each period with alarms.
fn floods(periods: &BTreeMap<i64, u64>, from: Timestamp, until: Timestamp) -> Vec<Flood> {
    let start_of = |period: i64| from.saturating_add_nanos(period.saturating_mul(nanos(PERIOD)));
    let mut floods: Vec<Flood> = Vec::new();
    // The period at which the flood in progress ends.
    let mut end = i64::MIN;
    for (&period, &raised) in periods {
        let continues = period == end && raised >= FLOOD_BELOW;
        match floods.last_mut().filter(|_| continues) {
            Some(flood) => flood.raised += raised,
            None if raised > FLOOD_ABOVE => floods.push(Flood {
                from: start_of(period),
                until,
                raised,
            }),
            None => continue,
        }
        end = period + 1;
        if let Some(flood) = floods.last_mut() {
            flood.until = start_of(end).min(until);
        }
    }
    floods
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_nanos(second * SECOND)
    }

    fn report(raises: &[(i64, &'static str)], until: i64) -> Report<&'static str> {
        let raises = raises.iter().map(|(second, key)| (at(*second), *key));
        Report::compute(raises, at(0), at(until))
    }

    #[test]
    fn span_without_alarms_has_empty_statistics() {
        let sut = report(&[], 3600);
        assert_eq!((sut.raised, sut.average, sut.peak), (0, 0.0, 0));
        assert!(sut.floods.is_empty() && sut.worst.is_empty());
    }

    #[test]
    fn rates_count_only_alarms_within_the_span() {
        let raises = [
            (-1, "a"),
            (0, "a"),
            (599, "b"),
            (600, "a"),
            (3599, "a"),
            (3600, "a"),
        ];
        let sut = report(&raises, 3600);
        assert_eq!((sut.raised, sut.peak), (4, 2));
        assert!((sut.average - 4.0 / 6.0).abs() < 1e-9, "{}", sut.average);
        assert_eq!(sut.worst, [("a", 3), ("b", 1)]);
        assert_eq!(report(&raises, 60).average, 1.0, "one period at least");
    }

    #[test]
    fn flood_lasts_until_a_period_has_few_alarms() {
        let mut raises = Vec::new();
        // Number of alarms in each period of ten minutes.
        for (period, count) in [(0, 10), (1, 11), (2, 5), (3, 4), (5, 30), (6, 6)] {
            raises.extend((0..count).map(|number| (period * 600 + number, "a")));
        }
        let sut = report(&raises, 4000);
        let flood = |from, until, raised| Flood {
            from: at(from),
            until: at(until),
            raised,
        };
        assert_eq!(sut.floods, [flood(600, 1800, 16), flood(3000, 4000, 36)]);
    }

    #[test]
    fn alarm_chatters_if_it_is_raised_three_times_in_a_minute() {
        let raises = [
            (0, "slow"),
            (31, "slow"),
            (61, "slow"),
            (100, "fast"),
            (130, "fast"),
            (160, "fast"),
            (161, "fast"),
            (300, "fast"),
            (400, "edge"),
            (430, "edge"),
            (460, "edge"),
        ];
        let sut = report(&raises, 3600);
        assert_eq!(sut.chattering, [("edge", 3), ("fast", 3)]);
    }
}
