//! `play --history`: reads the updates of a history in time order.
//!
//! A query returns updates sorted by variable and then by time. The updates of all variables are
//! therefore read in time windows, and each window is sorted by time. A thread reads the next window
//! while the current one is played, so two windows are in memory. The number of updates in a window
//! determines the width of the next one.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use trunkline::record::{PlaybackError, PlayedUpdate, PlayedVariable, UpdateSource};
use trunkline_types::history::{
    HistoryForm, HistoryItem, HistoryPage, HistoryQuery, HistorySeries, SeriesData,
};
use trunkline_types::wire::encoded_len;
use trunkline_types::{Pattern, Timestamp};

use super::Args;
use crate::targets;
use crate::terminal::escaped;
use crate::verbs::history::source::{FAULT, Source, loss_problem};
use crate::verbs::history::{patterns_of, range};
use crate::{CliError, Context, Exit, Problem, counted};

/// Maximum number of updates in a window, and maximum size of their values. Consecutive windows partly
/// read the same data, so windows must not be small.
const WINDOW_UPDATES: usize = 512 << 10;
const WINDOW_BYTES: usize = 64 << 20;
/// Width of the first window in nanoseconds.
const FIRST_WIDTH: i64 = 1_000_000_000;

/// The recorded updates of a time range.
pub(super) struct RecordedHistory<'a> {
    variables: Vec<PlayedVariable>,
    /// Index of the selected variable; `None` if all variables are played.
    only: Option<usize>,
    /// Reads the windows. `None` once its thread has started.
    reader: Option<WindowReader>,
    /// The windows from the reader's thread.
    windows: Option<Receiver<Result<Window, CliError>>>,
    /// Updates that were read but not played yet.
    updates: VecDeque<PlayedUpdate>,
    /// Number of updates missing after the last one that was read, by variable; `None` if unknown.
    missing: HashMap<usize, Option<u64>>,
    /// For each variable, the number of updates that existed at the start and were not read yet.
    unread: Vec<u64>,
    /// Source timestamp of the first update, in nanoseconds.
    first: Option<i64>,
    /// Description of recorded data that could not be read; empty if there is none.
    damage: String,
    /// Error that ended the reading early.
    failure: Option<CliError>,
    /// True once the last window was received.
    is_complete: bool,
    context: &'a Context,
}

/// The updates of one time window, sorted by time.
#[derive(Default)]
struct Window {
    updates: Vec<PlayedUpdate>,
    /// Total size of their values in bytes.
    bytes: usize,
    /// The gaps: the variable, the number of missing updates, and true if an update follows the gap. The
    /// gaps of each variable are in time order.
    losses: Vec<(usize, Option<u64>, bool)>,
    /// Description of recorded data that could not be read; empty if there is none.
    damage: String,
    is_last: bool,
}

/// Reads the windows in time order.
struct WindowReader {
    source: Source,
    patterns: Vec<Pattern>,
    /// Index of each variable, by name.
    indexes: Arc<HashMap<String, usize>>,
    /// Start of the next window, in nanoseconds.
    from: i64,
    /// End of the time range, in nanoseconds.
    until: i64,
    /// Width of the next window in nanoseconds.
    width: i64,
    /// Description of recorded data that could not be read; empty if there is none.
    damage: String,
    context: Context,
}

impl<'a> RecordedHistory<'a> {
    /// Finds the variables that were recorded in the time range of the options. Returns `None` after
    /// Ctrl-C.
    pub(super) fn open(args: &Args, context: &'a Context) -> Result<Option<Self>, CliError> {
        let targets = targets::resolve(&args.history, &context.settings)?;
        let (since, until) = range(Some(&args.since), args.until.as_ref(), context)?;
        let mut reader = WindowReader {
            source: Source::open(&targets.engine, args.folder.as_deref(), context)?,
            patterns: patterns_of(&targets.list)?,
            indexes: Arc::default(),
            from: since.map_or(0, Timestamp::as_nanos),
            until: until.as_nanos(),
            width: FIRST_WIDTH,
            damage: String::new(),
            context: context.clone(),
        };
        let Some(variables) = reader.find_variables()? else {
            return Ok(None);
        };
        Ok(Some(Self {
            unread: variables.iter().map(|variable| variable.updates).collect(),
            variables,
            only: None,
            reader: Some(reader),
            windows: None,
            updates: VecDeque::new(),
            missing: HashMap::new(),
            first: None,
            damage: String::new(),
            failure: None,
            is_complete: false,
            context,
        }))
    }

    /// Selects the variable to play into a stream: the variable with this name, or without a name the
    /// only variable. Returns its index.
    pub(super) fn select(&mut self, name: Option<&str>) -> Result<usize, Problem> {
        let index = match (name, self.variables.as_slice()) {
            (None, [_]) => Some(0),
            (None, _) => {
                let sentence = "several variables were recorded, but a stream carries only one; choose \
                                one with --group";
                return Err(Problem::usage(sentence));
            }
            (Some(name), all) => all.iter().position(|variable| variable.name == name),
        };
        let index = index.ok_or_else(|| match &self.reader {
            Some(reader) if !reader.damage.is_empty() => loss_problem(FAULT, &reader.damage),
            _ => {
                let sentence = format!(
                    "{} has no recorded updates in this time range; select it with --history, or use \
                     an earlier --since",
                    escaped(name.unwrap_or_default())
                );
                Problem::failed("nothing-recorded", sentence)
            }
        })?;
        self.select_only(index);
        Ok(index)
    }

    /// Starts to read, and waits for the first updates, so that they are not late. Fails if they cannot
    /// be read.
    pub(super) fn begin(&mut self) -> Result<(), CliError> {
        if let Some(reader) = self.reader.take() {
            let (sender, receiver) = sync_channel(0);
            let thread = std::thread::Builder::new().name("history-reader".to_owned());
            // The thread ends when the receiver is dropped.
            let spawned = thread.spawn(move || reader.run(&sender));
            spawned.map_err(|error| Problem::system(&error))?;
            self.windows = Some(receiver);
        }
        self.wait_for_first()
    }

    fn wait_for_first(&mut self) -> Result<(), CliError> {
        self.receive_windows();
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        match self.loss() {
            Some((code, sentence)) if self.updates.is_empty() && self.is_complete => {
                Err(loss_problem(code, &sentence).into())
            }
            _ => Ok(()),
        }
    }

    /// Receives windows until one has updates, or until no more windows follow.
    fn receive_windows(&mut self) {
        while self.updates.is_empty()
            && let Some(windows) = &self.windows
        {
            match windows.recv() {
                Ok(Ok(window)) => {
                    self.damage = window.damage;
                    self.is_complete = window.is_last;
                    for update in &window.updates {
                        if let Some(unread) = self.unread.get_mut(update.variable) {
                            *unread = unread.saturating_sub(1);
                        }
                    }
                    self.updates = window.updates.into();
                    self.count_gaps(window.losses);
                }
                Ok(Err(failure)) => self.failure = Some(failure),
                Err(_) => self.windows = None,
            }
        }
    }

    /// Counts the gaps that are followed by an update, and keeps the others for the next window.
    fn count_gaps(&mut self, losses: Vec<(usize, Option<u64>, bool)>) {
        for (index, lost, is_before_update) in losses {
            let earlier = self.missing.remove(&index).unwrap_or(Some(0));
            let missing = earlier.zip(lost).map(|(earlier, lost)| earlier + lost);
            if missing == Some(0) {
                continue;
            }
            if !is_before_update {
                self.missing.insert(index, missing);
                continue;
            }
            if let Some(variable) = self.variables.get_mut(index) {
                variable.gaps += 1;
                variable.lost += missing.unwrap_or(0);
                variable.unknown_gaps += u64::from(missing.is_none());
            }
        }
    }

    /// Returns the code and the description of a loss of updates; `None` if all updates that existed at
    /// the start were read.
    fn loss(&self) -> Option<(&'static str, String)> {
        if !self.damage.is_empty() {
            return Some((FAULT, self.damage.clone()));
        }
        let is_played = |index: usize| self.only.is_none_or(|only| only == index);
        let (mut total, mut unread) = (0, 0);
        let counts = self.variables.iter().zip(&self.unread);
        for (index, (variable, unread_updates)) in counts.enumerate() {
            if is_played(index) {
                (total, unread) = (total + variable.updates, unread + unread_updates);
            }
        }
        let sentence = format!(
            "{unread} of {} were not played; the history has removed them since playing began",
            counted(total, "update")
        );
        (unread > 0).then_some(("removed", sentence))
    }

    /// Reports lost updates, and returns the exit code of the command.
    pub(super) fn exit(self, played: Exit) -> Result<Exit, CliError> {
        let loss = self
            .loss()
            .filter(|(code, _)| self.is_complete || *code == FAULT);
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        if let Some((code, sentence)) = &loss {
            self.context.note_with_code(code, sentence)?;
        }
        Ok(exit_of(played, self.is_complete, loss.is_some()))
    }
}

/// Combines the exit code of playing with the result of reading. `is_complete` is false if Ctrl-C ended
/// the reading.
fn exit_of(played: Exit, is_complete: bool, has_loss: bool) -> Exit {
    match played {
        Exit::Success | Exit::Failed if !is_complete => Exit::Interrupted,
        Exit::Success | Exit::Failed if has_loss => Exit::Lost,
        other => other,
    }
}

impl UpdateSource for RecordedHistory<'_> {
    fn variables(&self) -> &[PlayedVariable] {
        &self.variables
    }

    fn select_only(&mut self, variable: usize) {
        self.only = Some(variable);
        if let (Some(reader), Some(variable)) = (&mut self.reader, self.variables.get(variable))
            // A recorded name may be invalid as a pattern.
            && let Ok(pattern) = Pattern::parse(&variable.name)
        {
            reader.patterns = vec![pattern];
        }
    }

    /// Returns no further updates after a failure; [`exit`](RecordedHistory::exit) returns the failure.
    fn next_update(&mut self) -> Result<Option<PlayedUpdate>, PlaybackError> {
        loop {
            self.receive_windows();
            let Some(mut update) = self.updates.pop_front() else {
                // Updates missing at the end are a gap, too.
                let gaps = self.missing.keys().map(|index| (*index, Some(0), true));
                let gaps: Vec<_> = gaps.collect();
                self.count_gaps(gaps);
                return Ok(None);
            };
            if self.only.is_some_and(|only| only != update.variable) {
                continue;
            }
            let time = update.source_timestamp.as_nanos();
            let first = *self.first.get_or_insert(time);
            update.after = Duration::from_nanos(time.abs_diff(first));
            return Ok(Some(update));
        }
    }
}

impl WindowReader {
    /// Returns the variables and how many updates each of them has; `None` after Ctrl-C.
    fn find_variables(&mut self) -> Result<Option<Vec<PlayedVariable>>, CliError> {
        let mut query = self.query(self.until, HistoryForm::Total);
        let (mut variables, mut indexes) = (Vec::new(), HashMap::new());
        let mut is_excluded = false;
        while let Some(page) = self.page(&mut query)? {
            for series in page.series {
                let updates = updates_of(&series);
                if self.context.settings.is_excluded(&series.variable) {
                    is_excluded = true;
                    continue;
                }
                if updates == 0 {
                    continue;
                }
                let name = series.variable;
                if indexes.insert(name.clone(), variables.len()).is_some() {
                    let sentence = format!(
                        "{} was recorded with several types; choose a time range with one type",
                        escaped(&name)
                    );
                    return Err(Problem::failed("several-types", sentence).into());
                }
                variables.push(PlayedVariable {
                    name,
                    data_type: series.data_type,
                    updates,
                    cut_off: 0,
                    unreadable: 0,
                    gaps: 0,
                    lost: 0,
                    unknown_gaps: 0,
                });
            }
        }
        if self.context.interrupted.is_pressed() {
            return Ok(None);
        }
        self.indexes = Arc::new(indexes);
        if !variables.is_empty() {
            return Ok(Some(variables));
        }
        if !self.damage.is_empty() {
            return Err(loss_problem(FAULT, &self.damage).into());
        }
        let sentence = match is_excluded {
            true => "--exclude leaves out every variable that was recorded in this time range",
            false => {
                "no updates of these variables were recorded in this time range; use an earlier --since"
            }
        };
        Err(Problem::failed("nothing-recorded", sentence).into())
    }

    /// Reads windows until the end of the time range, until the receiver is dropped, or until Ctrl-C.
    fn run(mut self, windows: &SyncSender<Result<Window, CliError>>) {
        while self.from < self.until && !self.context.interrupted.is_pressed() {
            let window = match self.read() {
                Ok(None) => continue,
                Ok(Some(window)) => Ok(window),
                Err(error) => Err(error),
            };
            let has_failed = window.is_err();
            if windows.send(window).is_err() || has_failed {
                return;
            }
        }
    }

    /// Reads the next window. Returns `None` if the window has too many updates; the next call then reads
    /// a narrower one. Also returns `None` after Ctrl-C.
    fn read(&mut self) -> Result<Option<Window>, CliError> {
        let end = self.from.saturating_add(self.width).min(self.until);
        let mut query = self.query(end, HistoryForm::Rows);
        let mut window = Window::default();
        while let Some(page) = self.page(&mut query)? {
            for series in &page.series {
                self.add(series, &mut window);
            }
            let is_full = window.updates.len() > WINDOW_UPDATES || window.bytes > WINDOW_BYTES;
            let width = end - self.from;
            // Updates with the same timestamp cannot be divided.
            if is_full && width > 1 {
                self.width = width / 2;
                return Ok(None);
            }
        }
        if self.context.interrupted.is_pressed() {
            return Ok(None);
        }
        if window.updates.len() < WINDOW_UPDATES / 4 && window.bytes < WINDOW_BYTES / 4 {
            self.width = self.width.saturating_mul(2);
        }
        self.from = end;
        // The sort is stable: updates of a variable with the same timestamp keep their order.
        let key = |update: &PlayedUpdate| (update.source_timestamp, update.variable);
        window.updates.sort_by_key(key);
        window.damage.clone_from(&self.damage);
        window.is_last = end >= self.until;
        Ok(Some(window))
    }

    /// Adds the updates and gaps of a series to the window.
    fn add(&self, series: &HistorySeries, window: &mut Window) {
        let Some(index) = self.indexes.get(&series.variable).copied() else {
            return;
        };
        let mut is_first = true;
        for item in series.items() {
            let HistoryItem::Reading(reading) = item else {
                continue;
            };
            let lost = reading.lost.count();
            if std::mem::take(&mut is_first) || lost != Some(0) {
                window.losses.push((index, lost, true));
            }
            window.bytes += encoded_len(&reading.sample.value);
            window.updates.push(PlayedUpdate {
                variable: index,
                after: Duration::ZERO,
                value: reading.sample.value,
                source_timestamp: reading.sample.source_timestamp,
                quality: reading.sample.quality,
            });
        }
        if let Some(lost) = series.lost_after_last() {
            window.losses.push((index, lost.count(), false));
        }
    }

    fn query(&self, end: i64, form: HistoryForm) -> HistoryQuery {
        HistoryQuery {
            patterns: self.patterns.clone(),
            since: Some(Timestamp::from_nanos(self.from)),
            until: Some(Timestamp::from_nanos(end)),
            form,
            ..HistoryQuery::default()
        }
    }

    /// Returns the next page, and updates the query for the page after it. The last page leaves a query
    /// without patterns, for which the next call returns `None`. Also returns `None` after Ctrl-C.
    fn page(&mut self, query: &mut HistoryQuery) -> Result<Option<HistoryPage>, CliError> {
        if query.patterns.is_empty() || self.context.interrupted.is_pressed() {
            return Ok(None);
        }
        let mut page = self.source.page(query.clone(), &self.context)?;
        if !page.state.is_empty() {
            self.damage = std::mem::take(&mut page.state);
        }
        query.from = page.next.take();
        if query.from.is_none() {
            query.patterns.clear();
        }
        Ok(Some(page))
    }
}

/// Returns the number of updates in the buckets of a series.
fn updates_of(series: &HistorySeries) -> u64 {
    match &series.data {
        SeriesData::Buckets { buckets, .. } => {
            buckets.iter().map(|bucket| bucket.count + bucket.bad).sum()
        }
        SeriesData::Rows(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ctrl_c_outranks_failures_and_losses() {
        for (played, is_complete, has_loss, expected) in [
            (Exit::Success, true, false, Exit::Success),
            (Exit::Failed, true, false, Exit::Failed),
            (Exit::Success, true, true, Exit::Lost),
            (Exit::Failed, true, true, Exit::Lost),
            (Exit::Success, false, true, Exit::Interrupted),
            // Some updates were refused, and Ctrl-C ended the reading.
            (Exit::Failed, false, false, Exit::Interrupted),
            (Exit::Interrupted, true, true, Exit::Interrupted),
        ] {
            let found = exit_of(played, is_complete, has_loss);
            assert_eq!(found, expected, "{played:?} {is_complete} {has_loss}");
        }
    }
}
