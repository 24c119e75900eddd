//! The events `added` and `retired` of series, as the history must report them.
//!
//! A series is a variable with a type. It is added when it is recorded for the first time, and again
//! after it was retired in the same run of the engine.

use std::collections::{BTreeMap, BTreeSet};

use trunkline_types::history::HistoryEvent;

use super::checker::Answer;

/// A variable, and its type.
type Series = (String, String);

/// Number of times that a series was added (`true`) and retired (`false`).
type Counts = BTreeMap<(Series, bool), u64>;

#[derive(Debug, Default)]
pub struct SeriesEvents {
    /// Every series so far.
    known: BTreeSet<Series>,
    /// The series that are recorded in this run of the engine, and those that were recorded earlier in it.
    recorded: BTreeSet<Series>,
    ended: BTreeSet<Series>,
    durable: Counts,
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

    /// Compares all events of the history. Unless `is_complete`, the engine has just started, and events that
    /// waited at its end may be there. Returns the number of events, or the difference.
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
        // Rows of these variables expire, and their events with them.
        let is_kept = |event: &&(Series, bool)| !event.0.0.contains("short");
        for event in events.iter().filter(is_kept) {
            let count = |counts: &Counts| counts.get(event).copied().unwrap_or(0);
            let (least, waiting) = (count(&self.durable), count(&self.waiting));
            let most = if is_complete { least } else { least + waiting };
            if !(least..=most).contains(&count(&found)) {
                let ((variable, data_type), is_added) = event;
                let what = if *is_added { "added" } else { "retired" };
                return Err(format!(
                    "{variable} of type {data_type} is {what} {} times, not {least} to {most}",
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
