//! `monitor --alarms`: prints the alarms that are not normal, then every change. On a terminal,
//! draws a table of the alarms that are not normal, and redraws it when one changes.

use std::time::Duration;

use trunkline::{AlarmQuery, Event, SubscribeOptions, Subscription};
use trunkline_types::alarm::{AlarmJournalQuery, AlarmState, AlarmStatus};
use trunkline_types::{Contract, Pattern, Tick, Timestamp};

use super::events::MonitorEvent;
use super::{Args, EngineRun};
use crate::arguments::OutputFormat;
use crate::connection::{Connection, code_of};
use crate::output::record::Table;
use crate::output::times::TimeColumn;
use crate::settings::Columns;
use crate::targets::{Target, Targets};
use crate::verbs::alarm::{Entry, table_of};
use crate::{CliError, Context, Exit, Problem, Tally};

/// The variable with the number of the newest journal entry. It only signals changes: the entries
/// are read from the journal, which has each change exactly once, even across a reconnection.
const JOURNAL: &str = "_engine/alarms/journal";

/// Minimum time between two redraws of the table, because each requests all alarms from the
/// engine.
const REDRAW_INTERVAL_MIN: Duration = Duration::from_millis(200);

struct Follower<'a> {
    args: &'a Args,
    context: &'a Context,
    connection: &'a Connection,
    patterns: Vec<Pattern>,
    /// `None` if a table of the current alarms is drawn.
    list: Option<Table>,
    /// When the table was last drawn.
    last_drawn: Option<Tick>,
    /// When to redraw the table, if an alarm has changed.
    draw_at: Option<Tick>,
    times: Option<TimeColumn>,
    /// Number of the next journal entry.
    next: u64,
    /// Number and time of the newest entry seen.
    last: Option<(u64, Timestamp)>,
    count: u64,
    engine: Option<EngineRun>,
    tally: Tally,
}

pub(super) fn follow(
    args: &Args,
    targets: Targets,
    connection: &Connection,
    context: &Context,
) -> Result<Exit, CliError> {
    let mut patterns = Vec::new();
    for target in targets.list {
        patterns.push(match target {
            Target::Pattern(pattern) => pattern,
            Target::Name(name) => Pattern::parse(&name)
                .map_err(|error| Problem::failed("bad-pattern", error.to_string()))?,
            Target::Invalid(problem) => return Err(problem.without_name().into()),
        });
    }
    let settings = &context.settings;
    let is_drawn = settings.output_format == OutputFormat::Table
        && settings.columns != Columns::Terse
        && args.count.is_none()
        && context.terminal.can_draw();
    let list = match is_drawn {
        true => None,
        false => Some(context.table::<Entry>()?.following()),
    };
    let mut follower = Follower {
        args,
        context,
        connection,
        patterns,
        list,
        last_drawn: None,
        draw_at: None,
        times: context.settings.times.column(true, context.started),
        next: 0,
        last: None,
        count: 0,
        engine: None,
        tally: Tally::default(),
    };
    let options = SubscribeOptions::default();
    let journal =
        connection.call(|client, _| client.subscribe(&[JOURNAL], Contract::Latest, options))?;
    follower.show_current()?;
    follower.run(&journal)
}

impl Follower<'_> {
    fn run(mut self, journal: &Subscription) -> Result<Exit, CliError> {
        let clock = self.context.clock;
        let end = self
            .args
            .duration
            .map(|time| clock.now().saturating_add(time));
        loop {
            self.context.terminal.flush()?;
            let now = clock.now();
            let deadline = Tick::earliest([end, self.draw_at]);
            let is_done = match journal.next(deadline.map(|deadline| deadline.since(now))) {
                Some(event) => match self.handle(event) {
                    // The connection was lost during the request. The next event after the
                    // reconnection repeats it.
                    Err(CliError::Problem(problem)) if problem.exit == Exit::Unreachable => false,
                    result => result?,
                },
                None => deadline.is_none(),
            };
            let now = clock.now();
            if self.draw_at.is_some_and(|at| now >= at) {
                match self.draw() {
                    // The table is redrawn after the reconnection.
                    Err(CliError::Problem(problem)) if problem.exit == Exit::Unreachable => {
                        self.draw_at = None;
                    }
                    result => result?,
                }
            }
            if is_done || end.is_some_and(|end| clock.now() >= end) {
                return self.finish();
            }
        }
    }

    fn finish(mut self) -> Result<Exit, CliError> {
        if let Some(list) = self.list.take() {
            list.finish()?;
        }
        if let Some(expected) = self.args.count.filter(|expected| self.count < *expected) {
            let sentence = format!("timed out after {} of {expected} changes", self.count);
            self.tally.set_timed_out();
            let problem = Problem::new(Exit::TimedOut, "timed-out", sentence);
            self.context.show(&problem, 0)?;
        }
        Ok(self.tally.exit())
    }

    /// Handles one event of the journal's variable. Returns true if the command is done.
    fn handle(&mut self, event: Event) -> Result<bool, CliError> {
        match event {
            // The journal may be ahead of the reading, so its value does not matter.
            Event::Reading { .. } if self.list.is_some() => return self.show_changes(),
            Event::Reading { .. } => {
                let now = self.context.clock.now();
                let earliest = self
                    .last_drawn
                    .map(|last_drawn| last_drawn.saturating_add(REDRAW_INTERVAL_MIN));
                self.draw_at = Some(earliest.unwrap_or(now).max(now));
            }
            Event::Disconnected {
                cause,
                reconnecting,
            } => {
                self.context.notify(&MonitorEvent::Disconnected {
                    code: code_of(&cause),
                    message: cause.to_string(),
                    reconnecting,
                })?;
                if !reconnecting {
                    self.tally.item_failed(Exit::Unreachable);
                }
                return Ok(!reconnecting);
            }
            Event::Connected {
                session,
                epoch,
                engine_id,
            } => {
                let engine = EngineRun { epoch, engine_id };
                let previous = self.engine;
                let event =
                    engine.reconnection_event(session, previous, self.connection, self.context);
                if let Some(event) = event {
                    self.context.notify(&event)?;
                }
                if previous.is_some_and(|previous| previous != engine) && !self.is_continued()? {
                    self.show_current()?;
                }
                self.engine = Some(engine);
            }
            Event::ItemError { .. } | Event::Ended { .. } => {
                let sentence = "this engine has no alarm journal; update the engine";
                return Err(Problem::failed("not-supported", sentence).into());
            }
        }
        Ok(false)
    }

    /// Returns true if the restarted engine still has the entry that was seen last, so that the
    /// journal continues after it.
    fn is_continued(&mut self) -> Result<bool, CliError> {
        let Some((number, when)) = self.last else {
            // No entry was seen before, so there is nothing to continue.
            return Ok(false);
        };
        let query = AlarmJournalQuery {
            from: Some(number),
            limit: 1,
            ..AlarmJournalQuery::default()
        };
        let page = self
            .connection
            .call(|client, wait| client.alarm_journal(query.clone(), wait))?;
        let first = page.entries.first();
        Ok(first.is_some_and(|entry| (entry.number, entry.when) == (number, when)))
    }

    /// Shows the alarms that are not normal. Reads the end of the journal first, so that no later
    /// change is missed.
    fn show_current(&mut self) -> Result<(), CliError> {
        if self.list.is_none() {
            return self.draw();
        }
        let newest = AlarmJournalQuery {
            newest_first: true,
            limit: 1,
            ..AlarmJournalQuery::default()
        };
        let page = self
            .connection
            .call(|client, wait| client.alarm_journal(newest.clone(), wait))?;
        self.last = page.entries.last().map(|entry| (entry.number, entry.when));
        self.next = self.last.map_or(0, |(number, _)| number) + 1;
        let values = self.context.settings.values;
        for alarm in self.current_alarms()? {
            let line = Entry::present(&alarm, self.context.clock.wall(), &mut self.times, values);
            self.push(&line)?;
        }
        Ok(())
    }

    /// Returns the selected alarms that are not normal.
    fn current_alarms(&self) -> Result<Vec<AlarmStatus>, CliError> {
        let states = AlarmState::ALL.into_iter();
        let query = AlarmQuery {
            pattern: self.single_pattern(),
            area: self.args.area.clone().unwrap_or_default(),
            priority_min: self.args.priority.unwrap_or(0),
            states: states
                .filter(|state| *state != AlarmState::Normal)
                .collect(),
        };
        let mut alarms = self
            .connection
            .call(|client, wait| client.alarms(query.clone(), wait))?;
        alarms.retain(|alarm| self.selects(&alarm.variable));
        Ok(alarms)
    }

    /// Redraws the table of the alarms that are not normal.
    fn draw(&mut self) -> Result<(), CliError> {
        let mut alarms = self.current_alarms()?;
        (self.last_drawn, self.draw_at) = (Some(self.context.clock.now()), None);
        let mut lines = table_of(&mut alarms, self.context)?.lines();
        if lines.is_empty() {
            lines.push("all alarms are normal".to_owned());
        }
        self.context.terminal.draw(&lines)
    }

    fn push(&mut self, line: &Entry) -> Result<(), CliError> {
        match &mut self.list {
            Some(list) => list.push(line),
            None => Ok(()),
        }
    }

    /// Shows the changes since the last call. Returns true if `--count` is reached.
    fn show_changes(&mut self) -> Result<bool, CliError> {
        let values = self.context.settings.values;
        let mut query = AlarmJournalQuery {
            from: Some(self.next),
            pattern: self.single_pattern(),
            area: self.args.area.clone().unwrap_or_default(),
            priority_min: self.args.priority.unwrap_or(0),
            ..AlarmJournalQuery::default()
        };
        loop {
            let page = self
                .connection
                .call(|client, wait| client.alarm_journal(query.clone(), wait))?;
            if page.removed >= self.next {
                let sentence = format!(
                    "{} entries of the alarm journal were removed before they were shown",
                    page.removed + 1 - self.next
                );
                self.context.note_with_code("lost", &sentence)?;
                self.tally.set_lost();
                self.next = page.removed + 1;
            }
            for entry in &page.entries {
                self.next = entry.number + 1;
                self.last = Some((entry.number, entry.when));
                if !self.selects(&entry.variable) {
                    continue;
                }
                let line = Entry::new(entry, &mut self.times, values);
                self.push(&line)?;
                self.count += 1;
                if self.args.count.is_some_and(|count| self.count >= count) {
                    return Ok(true);
                }
            }
            match page.next {
                Some(next) => {
                    self.next = self.next.max(next);
                    query.from = Some(next);
                }
                None => return Ok(false),
            }
        }
    }

    /// Returns the pattern if there is exactly one, so that the engine can apply it.
    fn single_pattern(&self) -> Option<Pattern> {
        match self.patterns.as_slice() {
            [pattern] => Some(pattern.clone()),
            _ => None,
        }
    }

    /// Returns true if a pattern matches. Entries about the journal itself have no variable, and
    /// are always selected.
    fn selects(&self, variable: &str) -> bool {
        variable.is_empty()
            || self.patterns.is_empty()
            || self
                .patterns
                .iter()
                .any(|pattern| pattern.matches(variable))
    }
}
