//! `play --history`: the updates of a history in the order of their times.
//!
//! A query returns updates by variable and then by time. So they are read in windows of time, each
//! with all variables, and sorted there. A thread reads the next window while one is played, so two of
//! them are in memory. The width of a window follows from the number of updates in the one before.

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

/// The most updates of a window, and bytes of their values. Each window reads parts of files that the
/// next one reads again, so it must not be small.
const WINDOW_UPDATES: usize = 512 << 10;
const WINDOW_BYTES: usize = 64 << 20;
/// Width of the first window in nanoseconds.
const FIRST_WIDTH: i64 = 1_000_000_000;

/// The updates of a history over a time.
pub(super) struct RecordedHistory<'a> {
    variables: Vec<PlayedVariable>,
    /// The one variable that is played, if not all of them are.
    only: Option<usize>,
    /// Until playing begins.
    reader: Option<WindowReader>,
    windows: Option<Receiver<Result<Window, CliError>>>,
    /// What was read and not played yet.
    updates: VecDeque<PlayedUpdate>,
    /// Updates missing after the last one that was read; `None` if their number is unknown.
    missing: HashMap<usize, Option<u64>>,
    /// For each variable, how many of the updates that were there at the start were not read yet.
    unread: Vec<u64>,
    /// The time of the first update.
    first: Option<i64>,
    /// What the history lacks, in a sentence.
    state: String,
    /// Why reading has ended early.
    failure: Option<CliError>,
    is_complete: bool,
    context: &'a Context,
}

/// The updates of a time, in their order.
#[derive(Default)]
struct Window {
    updates: Vec<PlayedUpdate>,
    /// Bytes of their values.
    bytes: usize,
    /// In the order of each variable: updates that are missing, and true if an update follows.
    losses: Vec<(usize, Option<u64>, bool)>,
    /// What the history lacks, in a sentence.
    state: String,
    is_last: bool,
}

/// Reads one window after the other.
struct WindowReader {
    source: Source,
    patterns: Vec<Pattern>,
    numbers: Arc<HashMap<String, usize>>,
    /// The time that was not read yet.
    from: i64,
    until: i64,
    width: i64,
    /// What the history lacks, in a sentence.
    state: String,
    context: Context,
}

impl<'a> RecordedHistory<'a> {
    /// Finds out which variables were recorded in the time of the options. Returns `None` after Ctrl-C.
    pub(super) fn open(args: &Args, context: &'a Context) -> Result<Option<Self>, CliError> {
        let targets = targets::resolve(&args.history, &context.settings)?;
        let (since, until) = range(Some(&args.since), args.until.as_ref(), context)?;
        let mut reader = WindowReader {
            source: Source::open(&targets.engine, args.folder.as_deref(), context)?,
            patterns: patterns_of(&targets.wanted)?,
            numbers: Arc::default(),
            from: since.map_or(0, Timestamp::as_nanos),
            until: until.as_nanos(),
            width: FIRST_WIDTH,
            state: String::new(),
            context: context.clone(),
        };
        let Some(variables) = reader.find_variables()? else {
            return Ok(None);
        };
        Ok(Some(Self {
            unread: variables.iter().map(|one| one.updates).collect(),
            variables,
            only: None,
            reader: Some(reader),
            windows: None,
            updates: VecDeque::new(),
            missing: HashMap::new(),
            first: None,
            state: String::new(),
            failure: None,
            is_complete: false,
            context,
        }))
    }

    /// Selects the variable to play into a stream: the one with this name, or the only one.
    pub(super) fn select(&mut self, name: Option<&str>) -> Result<usize, Problem> {
        let number = match (name, self.variables.as_slice()) {
            (None, [_]) => Some(0),
            (None, _) => {
                let sentence = "several variables were recorded, but a stream carries only one; choose \
                                it with --group";
                return Err(Problem::usage(sentence));
            }
            (Some(name), all) => all.iter().position(|one| one.name == name),
        };
        let number = number.ok_or_else(|| match &self.reader {
            Some(reader) if !reader.state.is_empty() => loss_problem(FAULT, &reader.state),
            _ => {
                let sentence = format!(
                    "{} has no recorded updates in this time; select it with --history, or give an \
                     earlier --since",
                    escaped(name.unwrap_or_default())
                );
                Problem::failed("nothing-recorded", sentence)
            }
        })?;
        self.keep_only(number);
        Ok(number)
    }

    /// Begins to read, and waits for the first updates, so that they are not late. Fails if there are
    /// none.
    pub(super) fn begin(&mut self) -> Result<(), CliError> {
        if let Some(reader) = self.reader.take() {
            let (windows, taken) = sync_channel(0);
            let thread = std::thread::Builder::new().name("history-reader".to_owned());
            // It ends when the other end of the channel is gone.
            let spawned = thread.spawn(move || reader.run(&windows));
            spawned.map_err(|error| Problem::system(&error))?;
            self.windows = Some(taken);
        }
        self.wait_for_first()
    }

    fn wait_for_first(&mut self) -> Result<(), CliError> {
        self.take_windows();
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

    /// Takes windows until one has updates, or until there are no more.
    fn take_windows(&mut self) {
        while self.updates.is_empty()
            && let Some(windows) = &self.windows
        {
            match windows.recv() {
                Ok(Ok(window)) => {
                    self.state = window.state;
                    self.is_complete = window.is_last;
                    for update in &window.updates {
                        if let Some(unread) = self.unread.get_mut(update.variable) {
                            *unread = unread.saturating_sub(1);
                        }
                    }
                    self.updates = window.updates.into();
                    self.note_losses(window.losses);
                }
                Ok(Err(failure)) => self.failure = Some(failure),
                Err(_) => self.windows = None,
            }
        }
    }

    /// Counts the gaps that end before an update.
    fn note_losses(&mut self, losses: Vec<(usize, Option<u64>, bool)>) {
        for (number, lost, is_before_update) in losses {
            let before = self.missing.remove(&number).unwrap_or(Some(0));
            let missing = before.zip(lost).map(|(before, lost)| before + lost);
            if missing == Some(0) {
                continue;
            }
            if !is_before_update {
                self.missing.insert(number, missing);
                continue;
            }
            if let Some(variable) = self.variables.get_mut(number) {
                variable.gaps += 1;
                variable.lost += missing.unwrap_or(0);
                variable.unknown_gaps += u64::from(missing.is_none());
            }
        }
    }

    /// Returns the code and the description of the loss of updates that were there at the start; `None` if
    /// all of them were read.
    fn loss(&self) -> Option<(&'static str, String)> {
        if !self.state.is_empty() {
            return Some((FAULT, self.state.clone()));
        }
        let is_played = |number: usize| self.only.is_none_or(|only| only == number);
        let (mut total, mut unread) = (0, 0);
        for (number, (one, left)) in self.variables.iter().zip(&self.unread).enumerate() {
            if is_played(number) {
                (total, unread) = (total + one.updates, unread + left);
            }
        }
        let sentence = format!(
            "{unread} of {} were not played; the history has removed them since playing began",
            counted(total, "update")
        );
        (unread > 0).then_some(("removed", sentence))
    }

    /// Reports what the history lacks, and returns the exit code of the command.
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

/// Returns the exit code of the command from that of playing. `is_complete` is false if Ctrl-C has ended
/// the reading of the history.
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

    fn keep_only(&mut self, variable: usize) {
        self.only = Some(variable);
        if let (Some(reader), Some(variable)) = (&mut self.reader, self.variables.get(variable))
            // The name of a variable that was recorded can be one that is no pattern.
            && let Ok(pattern) = Pattern::parse(&variable.name)
        {
            reader.patterns = vec![pattern];
        }
    }

    /// After a failure there are no further updates; [`exit`](RecordedHistory::exit) returns it.
    fn next_update(&mut self) -> Result<Option<PlayedUpdate>, PlaybackError> {
        loop {
            self.take_windows();
            let Some(mut update) = self.updates.pop_front() else {
                // What is missing at the end is a gap, too.
                let gaps = self.missing.keys().map(|number| (*number, Some(0), true));
                let gaps: Vec<_> = gaps.collect();
                self.note_losses(gaps);
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
    /// Returns the variables with their numbers of updates; `None` after Ctrl-C.
    fn find_variables(&mut self) -> Result<Option<Vec<PlayedVariable>>, CliError> {
        let mut query = self.query(self.until, HistoryForm::Total);
        let (mut variables, mut numbers) = (Vec::new(), HashMap::new());
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
                if numbers.insert(name.clone(), variables.len()).is_some() {
                    let sentence = format!(
                        "{} was recorded with several types; choose a time with one type",
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
        self.numbers = Arc::new(numbers);
        if !variables.is_empty() {
            return Ok(Some(variables));
        }
        if !self.state.is_empty() {
            return Err(loss_problem(FAULT, &self.state).into());
        }
        let sentence = match is_excluded {
            true => "--exclude leaves out everything that was recorded in this time",
            false => {
                "nothing was recorded of these variables in this time; give an earlier --since"
            }
        };
        Err(Problem::failed("nothing-recorded", sentence).into())
    }

    /// Reads windows until the end of the time, until nobody takes them, or until Ctrl-C.
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

    /// Reads the next window. Returns `None` if it has too many updates, so that the next attempt reads
    /// a narrower one, and after Ctrl-C.
    fn read(&mut self) -> Result<Option<Window>, CliError> {
        let end = self.from.saturating_add(self.width).min(self.until);
        let mut query = self.query(end, HistoryForm::Rows);
        let mut window = Window::default();
        while let Some(page) = self.page(&mut query)? {
            for series in &page.series {
                self.take(series, &mut window);
            }
            let is_full = window.updates.len() > WINDOW_UPDATES || window.bytes > WINDOW_BYTES;
            let width = end - self.from;
            // Updates of one time cannot be divided.
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
        // Those of one variable are in their order already.
        let key = |update: &PlayedUpdate| (update.source_timestamp, update.variable);
        window.updates.sort_by_key(key);
        window.state.clone_from(&self.state);
        window.is_last = end >= self.until;
        Ok(Some(window))
    }

    fn take(&self, series: &HistorySeries, window: &mut Window) {
        let Some(number) = self.numbers.get(&series.variable).copied() else {
            return;
        };
        let mut is_first = true;
        for item in series.items() {
            let HistoryItem::Reading(reading) = item else {
                continue;
            };
            let lost = reading.lost.count();
            if std::mem::take(&mut is_first) || lost != Some(0) {
                window.losses.push((number, lost, true));
            }
            window.bytes += encoded_len(&reading.sample.value);
            window.updates.push(PlayedUpdate {
                variable: number,
                after: Duration::ZERO,
                value: reading.sample.value,
                source_timestamp: reading.sample.source_timestamp,
                quality: reading.sample.quality,
            });
        }
        if let Some(lost) = series.lost_after_last() {
            window.losses.push((number, lost.count(), false));
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

    /// Returns a page, and prepares the query of the next one. Returns `None` after the last page, which
    /// leaves a query without patterns, and after Ctrl-C.
    fn page(&mut self, query: &mut HistoryQuery) -> Result<Option<HistoryPage>, CliError> {
        if query.patterns.is_empty() || self.context.interrupted.is_pressed() {
            return Ok(None);
        }
        let mut page = self.source.page(query.clone(), &self.context)?;
        if !page.state.is_empty() {
            self.state = std::mem::take(&mut page.state);
        }
        query.from = page.next.take();
        if query.from.is_none() {
            query.patterns.clear();
        }
        Ok(Some(page))
    }
}

/// Number of updates in the bucket of a series.
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
            // Some updates were refused, and Ctrl-C has ended the reading.
            (Exit::Failed, false, false, Exit::Interrupted),
            (Exit::Interrupted, true, true, Exit::Interrupted),
        ] {
            let found = exit_of(played, is_complete, has_loss);
            assert_eq!(found, expected, "{played:?} {is_complete} {has_loss}");
        }
    }
}
