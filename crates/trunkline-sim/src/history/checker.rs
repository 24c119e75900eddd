//! Records all updates, and checks that the history returns them.
//!
//! ```text
//! update --> waiting --commit reported--> durable
//!                 \--end of the engine--> uncertain: there or not, but without a gap
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use trunkline_types::history::{
    HistoryEvent, HistoryPage, HistoryQuery, LATE_SEQUENCES, RowKey, SeriesData, is_late_sequence,
};
use trunkline_types::{Position, Timestamp};

use super::plan::{FOLLOWED, KEEP};
use super::series_events::SeriesEvents;

/// Counts of what was checked. `scenario.rs` describes each count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    pub updates: u64,
    pub durable: u64,
    pub rows: u64,
    pub queries: u64,
    pub moved: u64,
    pub commits: u64,
    pub failed: u64,
    pub closed: u64,
    pub maintained: u64,
    pub starts: u64,
    pub survived: u64,
    pub damaged: u64,
    pub late: u64,
    pub events: u64,
    pub connections: u64,
    pub followed: u64,
    pub filled: u64,
    /// How often the program was started again and continued after its last update.
    pub continued: u64,
}

/// A row, as a query must return it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    /// Full name of the variable.
    pub variable: String,
    /// Type of the variable, as text.
    pub data_type: String,
    pub key: RowKey,
    pub delay: i64,
    pub quality: u32,
    /// The value in wire form.
    pub value: Vec<u8>,
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RowKey {
            time,
            epoch,
            sequence,
        } = self.key;
        let name = &self.variable;
        write!(f, "{name} {epoch}.{sequence} of {time}")
    }
}

/// Identifies an update by variable, epoch and sequence (B-01).
pub type Update = (String, u64, u64);

fn update_of(line: &Line) -> Update {
    let RowKey {
        epoch, sequence, ..
    } = line.key;
    (line.variable.clone(), epoch, sequence)
}

/// The content of all pages of a query.
#[derive(Debug, Default)]
pub struct Answer {
    pub lines: Vec<Line>,
    /// The events, each with its variable and type.
    pub events: Vec<(String, String, HistoryEvent)>,
    pub states: Vec<String>,
}

impl Answer {
    pub fn add(&mut self, page: HistoryPage) {
        for series in page.series {
            let SeriesData::Rows(rows) = series.data else {
                continue;
            };
            rows.visit(0..rows.len(), |row| {
                self.lines.push(Line {
                    variable: series.variable.clone(),
                    data_type: format!("{:?}", series.data_type),
                    key: row.key,
                    delay: row.delay,
                    quality: row.quality.to_bits(),
                    value: row.value.to_vec(),
                });
            });
            let marks = rows.events().iter();
            let (name, data_type) = (&series.variable, format!("{:?}", series.data_type));
            self.events
                .extend(marks.map(|mark| (name.clone(), data_type.clone(), mark.event)));
        }
        if !page.state.is_empty() {
            self.states.push(page.state);
        }
    }
}

#[derive(Debug, Default)]
pub struct HistoryChecker {
    /// The first violation.
    pub violation: Option<String>,
    pub totals: Totals,
    /// Updates that the history has not reported as durable.
    waiting: Vec<Line>,
    /// Updates that the history has reported as durable, or that have survived a start.
    durable: BTreeMap<Update, Line>,
    /// Every update of the variable that a program follows, by epoch and sequence.
    pub accepted: BTreeMap<(u64, u64), Line>,
    /// Every update, to find two with one epoch and sequence.
    numbered: BTreeSet<Update>,
    /// True if the variable that a program follows was undeployed.
    pub is_followed_redeployed: bool,
    /// The last sequence before the latest deployment of the followed variable, by epoch.
    pub bases: BTreeMap<u64, u64>,
    series: SeriesEvents,
    /// The event that must report the end of each earlier run of the engine, by epoch.
    ends: BTreeMap<u64, HistoryEvent>,
    epoch: u64,
    /// True if rows of some variables expire.
    expires: bool,
    /// True if a file was damaged. Rows may then be missing, if the history reports the damage.
    pub is_damaged: bool,
}

impl HistoryChecker {
    /// Creates the checker of a new history. `expires` is true if rows of some variables expire.
    pub fn new(expires: bool) -> Self {
        Self {
            expires,
            ..Self::default()
        }
    }

    pub fn fail(&mut self, violation: impl FnOnce() -> String) {
        if self.violation.is_none() {
            self.violation = Some(violation());
        }
    }

    /// Records an update of a recorded variable.
    pub fn updated(&mut self, line: Line) {
        self.totals.updates += 1;
        self.totals.late += u64::from(line.key.sequence > LATE_SEQUENCES);
        if line.variable == FOLLOWED {
            let place = (line.key.epoch, line.key.sequence);
            self.accepted.insert(place, line.clone());
        }
        if !self.numbered.insert(update_of(&line)) {
            self.fail(|| format!("B-01: the sequence of {line:?} is assigned twice"));
        }
        self.waiting.push(line);
    }

    /// Called when the history reports all updates so far as durable.
    pub fn committed(&mut self) {
        self.totals.commits += 1;
        self.series.committed();
        self.totals.durable += self.waiting.len() as u64;
        for line in self.waiting.drain(..) {
            self.durable.insert(update_of(&line), line);
        }
    }

    /// Called when the library is deployed: notes the last sequence of the followed variable.
    pub fn note_base(&mut self) {
        let updates = self
            .accepted
            .range((self.epoch, 0)..=(self.epoch, u64::MAX));
        let mut sequences = updates.map(|(place, _)| place.1);
        let last = sequences.rfind(|sequence| !is_late_sequence(*sequence));
        self.bases.insert(self.epoch, last.unwrap_or(0));
    }

    /// Called when the recorded variables have changed to these, each with its type.
    pub fn deployed(&mut self, recorded: BTreeSet<(String, String)>) {
        self.series.deployed(recorded);
    }

    /// Compares the events of series with the expected ones. If `is_complete` is true, all updates are
    /// durable.
    pub fn compare_events(&mut self, answer: &Answer, is_complete: bool) {
        if self.is_damaged {
            return;
        }
        let checked = self.series.compare(answer, is_complete);
        match checked {
            Ok(count) => self.totals.events += count,
            Err(difference) => self.fail(|| format!("B-64: {difference}")),
        }
    }

    /// Returns true if the update was reported as durable.
    pub fn is_durable(&self, line: &Line) -> bool {
        self.durable.contains_key(&update_of(line))
    }

    /// Returns true if updates before the present one may be missing: a run of the engine was
    /// interrupted, or a file was damaged.
    pub fn may_lack_updates(&self) -> bool {
        self.is_damaged
            || self
                .ends
                .values()
                .any(|end| *end == HistoryEvent::Interrupted)
    }

    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Called when the engine has ended. `is_stopped` is true if it was stopped in an orderly way.
    pub fn ended(&mut self, is_stopped: bool) {
        let end = match is_stopped {
            true => HistoryEvent::Stopped,
            false => HistoryEvent::Interrupted,
        };
        self.ends.insert(self.epoch, end);
    }

    /// Called when the engine has started. `answer` has all rows and events of the history. Updates that
    /// were not reported as durable may have survived or not.
    pub fn started(&mut self, epoch: u64, answer: &Answer, now: Timestamp) {
        self.totals.starts += 1;
        let waiting = std::mem::take(&mut self.waiting);
        let found: BTreeSet<Update> = answer.lines.iter().map(update_of).collect();
        let mut missing = BTreeSet::new();
        for line in waiting {
            let update = update_of(&line);
            // Within a commit, late samples are recorded after the other updates.
            let series = (
                line.variable.clone(),
                line.data_type.clone(),
                line.key.sequence > LATE_SEQUENCES,
            );
            match found.contains(&update) {
                true if missing.contains(&series) => {
                    self.fail(|| format!("H-13: {line:?} has survived, and not the one before it"))
                }
                true => {
                    self.totals.survived += 1;
                    self.durable.insert(update, line);
                }
                false => _ = missing.insert(series),
            }
        }
        self.epoch = epoch;
        self.compare(
            &HistoryQuery::default(),
            answer,
            true,
            now,
            &BTreeSet::new(),
        );
        self.compare_ends(answer);
        self.compare_events(answer, false);
    }

    /// Checks that the history reports each start of the engine, and how each earlier run ended.
    fn compare_ends(&mut self, answer: &Answer) {
        if self.is_damaged {
            return;
        }
        let Some((name, data_type, _)) = answer.events.first() else {
            if !answer.lines.is_empty() {
                self.fail(|| "B-63: an answer with rows has no events".to_owned());
            }
            return;
        };
        // A query returns the events of the engine with every series.
        let engine_events = answer
            .events
            .iter()
            .filter(|(variable, of, _)| (variable, of) == (name, data_type));
        let is_end = |event: &HistoryEvent| {
            matches!(
                event,
                HistoryEvent::Started | HistoryEvent::Stopped | HistoryEvent::Interrupted
            )
        };
        let found = engine_events.filter(|(.., event)| is_end(event));
        let count = |searched: HistoryEvent, found: &[HistoryEvent]| {
            found.iter().filter(|event| **event == searched).count()
        };
        let found: Vec<HistoryEvent> = found.map(|(.., event)| *event).collect();
        let ends: Vec<HistoryEvent> = self.ends.values().copied().collect();
        let expected = [
            (HistoryEvent::Started, self.ends.len() + 1),
            (HistoryEvent::Stopped, count(HistoryEvent::Stopped, &ends)),
            (
                HistoryEvent::Interrupted,
                count(HistoryEvent::Interrupted, &ends),
            ),
        ];
        for (event, expected) in expected {
            let actual = count(event, &found);
            if actual != expected {
                self.fail(|| {
                    format!(
                        "B-63: there are {actual} events {event:?}, not {expected}, in {found:?}"
                    )
                });
            }
        }
    }

    /// Compares an answer with the expected rows. If `is_complete` is true, nothing was recorded since the
    /// first page. Otherwise `before` has the updates that were durable at the first page, which the answer
    /// must contain.
    pub fn compare(
        &mut self,
        query: &HistoryQuery,
        answer: &Answer,
        is_complete: bool,
        now: Timestamp,
        before: &BTreeSet<Update>,
    ) {
        self.totals.queries += 1;
        self.totals.moved += u64::from(!is_complete);
        self.totals.rows += answer.lines.len() as u64;
        let mut seen = BTreeSet::new();
        for line in &answer.lines {
            let update = update_of(line);
            match self.durable.get(&update) {
                Some(known) if known == line && is_selected(query, line) => {}
                known => {
                    let known = format!("{known:?}");
                    self.fail(|| format!("B-63: a query of {query:?} has {line:?}, not {known}"));
                }
            }
            if !seen.insert(update) {
                self.fail(|| format!("B-63: a query of {query:?} has {line:?} twice"));
            }
        }
        for lines in answer.lines.windows(2) {
            if let [one, next] = lines
                && (&one.variable, &one.data_type) == (&next.variable, &next.data_type)
                && one.key >= next.key
            {
                self.fail(|| format!("B-63: {next:?} comes after {one:?}"));
            }
        }
        let lost: u64 = answer
            .events
            .iter()
            .map(|(.., event)| match event {
                HistoryEvent::Lost(count) => count.unwrap_or(1),
                _ => 0,
            })
            .sum();
        // If the removal of a file with expired rows was interrupted, the file is set apart.
        let is_apart = |state: &String| self.expires && state.contains("set-apart");
        let reports_loss = lost > 0 || !answer.states.iter().all(is_apart);
        if self.is_damaged && reports_loss {
            return;
        }
        if reports_loss {
            let states = format!("{:?}", answer.states);
            self.fail(|| format!("B-63: {lost} rows are reported as lost, and {states}"));
        }
        let oldest = now.as_nanos() - KEEP.as_nanos() as i64;
        let must = self.durable.iter().filter(|(update, line)| {
            let may_be_removed = line.variable.contains("short") && line.key.time <= oldest;
            let was_durable = is_complete || before.contains(*update);
            was_durable && !may_be_removed && is_selected(query, line)
        });
        let mut missing = must.filter(|(update, _)| !seen.contains(*update));
        if let Some((_, line)) = missing.next() {
            let (line, rest) = (line.clone(), missing.count());
            self.fail(|| format!("B-63: a query of {query:?} lacks {line:?} and {rest} more rows"));
        }
    }

    /// Returns the durable updates.
    pub fn durable(&self) -> BTreeSet<Update> {
        self.durable.keys().cloned().collect()
    }

    /// Returns the time of a durable update, chosen by `number`.
    pub fn some_time(&self, number: u64) -> Option<i64> {
        let at = (number as usize).checked_rem(self.durable.len())?;
        self.durable.values().nth(at).map(|line| line.key.time)
    }

    /// Returns the position of a durable update, chosen by `number`.
    pub fn some_position(&self, number: u64) -> Option<Position> {
        let is_position = |update: &&Update| update.2 <= LATE_SEQUENCES;
        let positions = || self.durable.keys().filter(is_position);
        let at = (number as usize).checked_rem(positions().count())?;
        let (_, epoch, sequence) = positions().nth(at)?;
        Some(Position {
            epoch: *epoch,
            sequence: *sequence,
        })
    }
}

/// Returns true if the query selects this row.
fn is_selected(query: &HistoryQuery, line: &Line) -> bool {
    let time = Timestamp::from_nanos(line.key.time);
    let RowKey {
        epoch, sequence, ..
    } = line.key;
    let is_named = query.patterns.is_empty()
        || query
            .patterns
            .iter()
            .any(|pattern| pattern.matches(&line.variable));
    is_named
        && query.since.is_none_or(|since| time >= since)
        && query.until.is_none_or(|until| time < until)
        // `after` excludes no rows of other epochs, and all late samples of its own epoch.
        && query.after.is_none_or(|after| {
            epoch != after.epoch || (sequence > after.sequence && sequence <= LATE_SEQUENCES)
        })
}
