//! Computes the events `added` and `retired` that the history must report for each series.
//!
//! A series is a variable with a type. The event `added` is due when the series is recorded for the first
//! time, and when it is recorded again after it was retired in the same run of the engine.

use std::collections::{BTreeMap, BTreeSet};

use trunkline_types::history::HistoryEvent;

use super::checker::Answer;

/// The name of a variable, and its type.
type Series = (String, String);

/// Number of times that a series was added (`true`) and retired (`false`).
type Counts = BTreeMap<(Series, bool), u64>;

#[derive(Debug, Default)]
pub struct SeriesEvents {
    /// Every series so far.
    known: BTreeSet<Series>,
    /// The series that are recorded now.
    recorded: BTreeSet<Series>,
    /// The series that were retired in this run of the engine.
    ended: BTreeSet<Series>,
    /// Events that the history has reported as durable.
    durable: Counts,
    /// Events that are not known to be durable.
    waiting: Counts,
}

impl SeriesEvents {
    pub fn deployed(&mut self, recorded: BTreeSet<Series>) {
        for series in self.recorded.difference(&recorded) {
            *self.waiting.entry((series.clone(), false)).or_default() += 1;
            self.ended.insert(series.clone());
        }
        for series in recorded.difference(&self.recorded) {
            let is_new = self.known.insert(series.clone());
            if self.ended.remove(series) || is_new {
                *self.waiting.entry((series.clone(), true)).or_default() += 1;
            }
        }
        self.recorded = recorded;
    }

    pub fn committed(&mut self) {
        for (event, count) in std::mem::take(&mut self.waiting) {
            *self.durable.entry(event).or_default() += count;
        }
    }

    /// Compares all events of the history with the expected ones. If `is_complete` is false, the engine has
    /// just started, and events that were not durable at its end may exist or not. Returns the number of
    /// events, or a description of the difference.
    pub fn compare(&mut self, answer: &Answer, is_complete: bool) -> Result<u64, String> {
        let mut found = Counts::new();
        for (variable, data_type, event) in &answer.events {
            let is_added = match event {
                HistoryEvent::Added => true,
                HistoryEvent::Retired => false,
                _ => continue,
            };
            let series = (variable.clone(), data_type.clone());
            *found.entry((series, is_added)).or_default() += 1;
        }
        let events: BTreeSet<_> = found.keys().chain(self.durable.keys()).cloned().collect();
        // Ignore variables whose rows expire, because their events expire too.
        let is_permanent = |event: &&(Series, bool)| !event.0.0.contains("short");
        for event in events.iter().filter(is_permanent) {
            let count = |counts: &Counts| counts.get(event).copied().unwrap_or(0);
            let (min, waiting) = (count(&self.durable), count(&self.waiting));
            let max = if is_complete { min } else { min + waiting };
            if !(min..=max).contains(&count(&found)) {
                let ((variable, data_type), is_added) = event;
                let what = if *is_added { "added" } else { "retired" };
                return Err(format!(
                    "{variable} of type {data_type} is {what} {} times, not {min} to {max}",
                    count(&found)
                ));
            }
        }
        let count = found.values().sum();
        self.durable = found;
        if !is_complete {
            self.waiting.clear();
            self.recorded.clear();
            self.ended.clear();
        }
        Ok(count)
    }
}
