//! `monitor`: follows variables and prints every reading.

mod alarms;
mod events;
mod followed;
mod recorded;

use std::path::PathBuf;
use std::time::Duration;

use trunkline::{
    Event, FollowEvent, PatternSet, PatternSubscription, RecordedStart, SubscribeOptions,
};
use trunkline_types::{Contract, DataType, Pattern, Reading};

pub(crate) use self::events::MonitorEvent;
use self::followed::{Followed, OpenedAtStart, open};
use self::recorded::Bookmarks;
use crate::arguments::{duration, number};
use crate::condition::Condition;
use crate::connection::{Connection, code_of, reading_fault};
use crate::output::ReadingView;
use crate::output::rates::RatePrinter;
use crate::output::readings::{PrinterOptions, ReadingPrinter};
use crate::targets;
use crate::verbs::audit::parse_time;
use crate::{CliError, Context, Exit, Problem, Tally};

/// Print every reading as it arrives
///
/// The command runs until Ctrl-C, --count, --for or --until. If updates before a reading are
/// missing, the line of the reading shows how many: `lost` counts updates that the contract promised
/// but that did not arrive, and `coalesced` counts updates that the contract allowed the engine to
/// skip. Connection losses and reconnections are reported on standard error. If the engine is not
/// running yet, the command reports this on standard error and waits for the engine. A pattern also
/// matches variables that are deployed later; variables that appear or disappear are reported on
/// standard error.
#[derive(Clone, Debug, clap::Args)]
#[command(visible_aliases = ["mon", "sub"])]
pub(crate) struct Args {
    /// Names, URLs, or patterns such as 'boiler/**'
    #[arg(value_name = "NAME", required_unless_present = "alarms")]
    names: Vec<String>,

    /// Show the alarms that are not normal, instead of readings. On a terminal, the command redraws
    /// a table whenever an alarm changes. Otherwise, it prints the alarms once, and then a line for
    /// every change. Without NAME, it shows the alarms of all variables
    #[arg(long, conflicts_with_all = ["contract", "until", "rate"])]
    alarms: bool,

    /// With --alarms: only alarms in this area
    #[arg(long, value_name = "AREA", requires = "alarms")]
    area: Option<String>,

    /// With --alarms: only alarms of this priority or higher, 1 to 1000
    #[arg(
        long,
        value_name = "N",
        value_parser = number::<u16>(1..=1000),
        requires = "alarms"
    )]
    priority: Option<u16>,

    /// What to print if updates arrive faster than they are printed. `latest` prints the newest
    /// update, `last:N` the newest N, `first:N` the oldest N, and `sampled:PERIOD` at most one per
    /// PERIOD. `all` prints every update; `all:N` and `all:N:BYTES` limit its buffer, and updates
    /// that do not fit are lost (exit code 7)
    #[arg(long, value_name = "CONTRACT", default_value = "last:1000")]
    contract: Contract,

    /// Print the updates recorded since this time, such as 10m or 14:30, and then each new update,
    /// without duplicates
    #[arg(
        long,
        value_name = "TIME",
        conflicts_with_all = ["alarms", "contract", "rate"],
        allow_hyphen_values = true
    )]
    since: Option<String>,

    /// Continue after the last readings in this file, which an earlier `monitor --json` wrote:
    /// print the updates recorded since then, and then each new update, without duplicates. For names
    /// that are not in the file, the updates are printed from --since, or from now. To continue the
    /// file itself, append the output to it with >>
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["alarms", "contract", "rate"]
    )]
    after: Option<PathBuf>,

    /// Stop after this number of readings or alarm changes
    #[arg(
        long,
        value_name = "N",
        value_parser = number::<u64>(1..=u64::MAX),
        allow_negative_numbers = true
    )]
    count: Option<u64>,

    /// Stop after this time, such as 90s or 5m (a bare number is seconds); if --count or --until is
    /// not met by then, the exit code is 4
    #[arg(long = "for", value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    duration: Option<Duration>,

    /// Stop at the first reading that meets this condition, such as 'value > 80' or 'quality !=
    /// good'
    #[arg(long, value_name = "CONDITION")]
    until: Option<String>,

    /// Instead of the readings, print a line per variable once per second: readings per second, lost
    /// updates and coalesced updates
    #[arg(long)]
    rate: bool,

    /// Fail with exit code 3 if the engine is not running, instead of waiting for it
    #[arg(long)]
    no_wait: bool,
}

const RATE_PERIOD: Duration = Duration::from_secs(1);

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let condition = args.until.as_deref().map(Condition::parse).transpose()?;
    let since = parse_time("--since", args.since.as_ref(), context)?;
    let bookmarks = args.after.as_deref().map(Bookmarks::read).transpose()?;
    let targets = targets::resolve(&args.names, &context.settings)?;
    let connection = match args.no_wait {
        true => Connection::new(&targets.engine, context)?,
        false => {
            // `--for` is measured from the time of the connection. The wait for the engine is
            // limited to the same time, or to the timeout if that is longer.
            let wait_max = args.duration.map(|time| time.max(context.settings.timeout));
            let now = context.clock.now();
            let deadline = wait_max.map(|time| now.saturating_add(time));
            Connection::wait(&targets.engine, context, deadline, |reason| {
                context.notify(&MonitorEvent::Waiting {
                    code: reason.code.clone(),
                    message: reason.message.clone(),
                })
            })?
        }
    };
    if args.alarms {
        return alarms::follow(args, targets, &connection, context);
    }
    let patterns: Vec<Pattern> = targets.patterns().cloned().collect();
    let fixed = targets.names(&context.settings);
    let mut entries = connection.expand(targets, context)?;
    // These patterns may match later.
    let unmatched = entries.take_unmatched_patterns();
    let name_width = entries.width();
    let (settings, terminal) = (&context.settings, &context.terminal);
    let options = PrinterOptions {
        name_width,
        with_time: true,
        started: context.started,
    };
    let printer = match args.rate {
        true => Printer::Rates(RatePrinter::new(settings, terminal, name_width)?),
        false => Printer::Readings(ReadingPrinter::new(settings, terminal, options)?),
    };
    let (mut opened_at_start, problems) = open(&connection, &entries, condition.as_ref())?;
    let items: Vec<Followed> = fixed
        .iter()
        .map(|name| opened_at_start.take(name))
        .collect();
    let mut monitor = Monitor {
        args,
        context,
        connection: &connection,
        condition,
        printer,
        name_width,
        items,
        opened_at_start,
        patterns: &patterns,
        tally: Tally::default(),
        count: 0,
        engine: None,
    };
    for problem in &problems {
        monitor.report(problem)?;
    }
    for name in unmatched {
        context.notify(&MonitorEvent::NoMatch { name })?;
    }
    if patterns.is_empty() && monitor.items.iter().all(|item| item.metadata.is_none()) {
        return Ok(monitor.tally.exit());
    }
    let names: Vec<&str> = fixed.iter().map(String::as_str).collect();
    let option = match (since, &bookmarks) {
        (_, Some(_)) => Some("--after"),
        (Some(_), None) => Some("--since"),
        (None, None) => None,
    };
    if let Some(option) = option {
        if let Some(pattern) = patterns.first() {
            let sentence = format!(
                "{option} needs the names of variables and does not accept the pattern {}; list the \
                 names",
                pattern.as_str()
            );
            return Err(Problem::usage(sentence).into());
        }
        if bookmarks.as_ref().is_some_and(Bookmarks::needs_new_line) {
            context.terminal.line("")?;
        }
        let since = RecordedStart::Since(since.unwrap_or_else(|| context.now().time));
        let starts = names.iter().map(|name| {
            let bookmark = bookmarks.as_ref().and_then(|bookmarks| bookmarks.of(name));
            (*name, bookmark.map_or(since, RecordedStart::After))
        });
        return monitor.follow_recorded(&starts.collect::<Vec<_>>());
    }
    let set = PatternSet {
        names: &names,
        patterns: &patterns,
        excluded: &context.settings.exclude,
    };
    let options = SubscribeOptions::default();
    let subscription =
        connection.call(|client, _| client.subscribe_patterns(&set, args.contract, options))?;
    monitor.follow(&subscription)
}

enum Printer {
    Readings(ReadingPrinter),
    Rates(RatePrinter),
}

struct Monitor<'a> {
    args: &'a Args,
    context: &'a Context,
    connection: &'a Connection,
    condition: Option<Condition>,
    printer: Printer,
    name_width: usize,
    items: Vec<Followed>,
    opened_at_start: OpenedAtStart,
    patterns: &'a [Pattern],
    tally: Tally,
    count: u64,
    /// The engine that sends the readings, once the subscription is connected.
    engine: Option<EngineRun>,
}

/// One run of an engine, from start to stop.
#[derive(Clone, Copy, PartialEq, Eq)]
struct EngineRun {
    epoch: u64,
    engine_id: [u8; 16],
}

impl EngineRun {
    /// Returns the event for a reconnection, or `None` for the first connection.
    fn reconnection_event(
        self,
        session: u64,
        previous: Option<EngineRun>,
        connection: &Connection,
        context: &Context,
    ) -> Option<MonitorEvent> {
        let (previous, values) = (previous?, context.settings.values);
        Some(MonitorEvent::Connected {
            session: values.int_or_text(session),
            epoch: values.int_or_text(self.epoch),
            restarted: previous != self,
            engine_id: format!("{:032x}", u128::from_be_bytes(self.engine_id)),
            address: connection.address.clone(),
            is_replaced: previous.engine_id != self.engine_id,
        })
    }
}

impl Monitor<'_> {
    fn follow(mut self, subscription: &PatternSubscription) -> Result<Exit, CliError> {
        let clock = self.context.clock;
        let end = self.args.duration;
        let end = end.map(|duration| clock.now().saturating_add(duration));
        let mut rate_since = clock.now();
        loop {
            let event = match subscription.try_next() {
                Some(event) => Some(event),
                None => {
                    // No event is waiting, so flush the output for its reader.
                    self.context.terminal.flush()?;
                    let rate = rate_since.saturating_add(RATE_PERIOD);
                    let rate = self.args.rate.then_some(rate);
                    let deadline = [end, rate].into_iter().flatten().min();
                    subscription.next(deadline.map(|deadline| deadline.since(clock.now())))
                }
            };
            let is_done = match event {
                Some(event) => self.handle_follow_event(event)?,
                // Without a deadline, `None` means that no more events will come.
                None => end.is_none() && !self.args.rate,
            };
            if is_done {
                return Ok(self.tally.exit());
            }
            let now = clock.now();
            if self.args.rate && now.since(rate_since) >= RATE_PERIOD {
                self.print_rates(now.since(rate_since))?;
                rate_since = now;
            }
            if end.is_some_and(|end| now >= end) {
                return self.timed_out();
            }
        }
    }

    /// Handles one event of the patterns or of the subscription. Returns true if the command is
    /// done.
    fn handle_follow_event(&mut self, event: FollowEvent) -> Result<bool, CliError> {
        match event {
            FollowEvent::Event(event) => return self.handle(event),
            FollowEvent::Appeared {
                item,
                name,
                data_type,
                ..
            } => self.handle_appeared(item as usize, &name, &data_type)?,
            FollowEvent::Gone { item, name } => {
                if let Some(item) = self.items.get_mut(item as usize) {
                    item.is_gone = true;
                }
                let name = name.to_string();
                self.context.notify(&MonitorEvent::Gone { name })?;
            }
            FollowEvent::PatternError { pattern, fault } => {
                let pattern = self.patterns.get(pattern).map_or("", Pattern::as_str);
                self.report(&reading_fault(&fault).with_name(pattern))?;
            }
            _ => {}
        }
        Ok(false)
    }

    fn handle_appeared(&mut self, index: usize, name: &str, ty: &DataType) -> Result<(), CliError> {
        let is_new = !self.opened_at_start.contains(name);
        let item = self.opened_at_start.take(name);
        match self.items.get_mut(index) {
            Some(slot) => *slot = item,
            None => self.items.push(item),
        }
        if !is_new {
            return Ok(());
        }
        self.context.notify(&MonitorEvent::Appeared {
            name: name.to_owned(),
            data_type: ty.to_string(),
        })
    }

    /// Handles one event of the subscription. Returns true if the command is done.
    fn handle(&mut self, event: Event) -> Result<bool, CliError> {
        match event {
            Event::Reading { item, reading } => {
                return self.handle_reading(item as usize, &reading);
            }
            Event::ItemError { item, fault } => {
                let Some(item) = self.items.get_mut(item as usize) else {
                    return Ok(false);
                };
                let problem = reading_fault(&fault).with_name(&item.name);
                if item.is_new_problem(&problem) {
                    self.report(&problem)?;
                }
            }
            Event::Ended {
                item,
                lost,
                sentence,
                ..
            } => self.handle_ended(item as usize, lost, &sentence)?,
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
                    return Ok(true);
                }
            }
            Event::Connected {
                session,
                epoch,
                engine_id,
            } => self.handle_connected(session, epoch, engine_id)?,
        }
        Ok(false)
    }

    fn handle_connected(
        &mut self,
        session: u64,
        epoch: u64,
        engine_id: [u8; 16],
    ) -> Result<(), CliError> {
        let engine = EngineRun { epoch, engine_id };
        let previous = self.engine.replace(engine);
        let event = engine.reconnection_event(session, previous, self.connection, self.context);
        let Some(event) = event else {
            return Ok(());
        };
        self.context.notify(&event)?;
        if previous != Some(engine) {
            // The new engine may have another configuration.
            let condition = self.condition.as_ref();
            followed::refresh(self.connection, &mut self.items, |_| true, condition)?;
        }
        Ok(())
    }

    fn handle_reading(&mut self, index: usize, reading: &Reading) -> Result<bool, CliError> {
        let received = self.context.clock.wall();
        let Some(item) = self.items.get(index) else {
            return Ok(false);
        };
        if item.metadata.is_none() {
            // Requests the metadata of all variables that lack it in one call.
            let (condition, items) = (self.condition.as_ref(), &mut self.items);
            followed::refresh(
                self.connection,
                items,
                |item| item.metadata.is_none(),
                condition,
            )?;
        }
        let Some(item) = self.items.get_mut(index) else {
            return Ok(false);
        };
        let Some(metadata) = &item.metadata else {
            return Ok(false);
        };
        item.last_problem = None;
        if self.args.is_lossless() && !reading.lost.nothing_lost() {
            self.tally.set_lost();
        }
        item.rate.readings += 1;
        item.rate.lost = item.rate.lost.plus(reading.lost);
        if let Printer::Readings(printer) = &mut self.printer {
            printer.print(&ReadingView::new(&item.name, metadata, reading, received))?;
        }
        self.count += 1;
        let condition = item.until.as_ref();
        let is_met = condition.is_some_and(|condition| condition.is_met(reading));
        Ok(is_met || self.args.count.is_some_and(|count| self.count >= count))
    }

    fn handle_ended(
        &mut self,
        index: usize,
        lost: Option<u64>,
        sentence: &str,
    ) -> Result<(), CliError> {
        let Some(item) = self.items.get(index) else {
            return Ok(());
        };
        if self.args.is_lossless() && lost.is_some_and(|lost| lost > 0) {
            self.tally.set_lost();
        }
        let values = self.context.settings.values;
        self.context.notify(&MonitorEvent::Ended {
            name: item.name.clone(),
            message: sentence.to_owned(),
            lost: lost.map(|lost| values.int_or_text(lost)),
        })
    }

    fn print_rates(&mut self, period: Duration) -> Result<(), CliError> {
        let Printer::Rates(printer) = &mut self.printer else {
            return Ok(());
        };
        for item in self.items.iter_mut().filter(|item| !item.is_gone) {
            let rate = std::mem::take(&mut item.rate);
            printer.print(&item.name, rate, period.as_secs_f64())?;
        }
        self.context.terminal.flush()
    }

    fn timed_out(mut self) -> Result<Exit, CliError> {
        let count = self.count;
        let sentence = match (self.args.count, &self.condition) {
            (Some(expected), _) => format!("timed out after {count} of {expected} readings"),
            (None, Some(_)) => {
                format!("timed out; none of {count} readings met the --until condition")
            }
            (None, None) => return Ok(self.tally.exit()),
        };
        self.tally.set_timed_out();
        self.context
            .show(&Problem::new(Exit::TimedOut, "timed-out", sentence), 0)?;
        Ok(self.tally.exit())
    }

    fn report(&mut self, problem: &Problem) -> Result<(), CliError> {
        let exit = self.context.show(problem, self.name_width)?;
        self.tally.item_failed(exit);
        Ok(())
    }
}

impl Args {
    fn is_lossless(&self) -> bool {
        matches!(self.contract, Contract::All { .. })
            || self.since.is_some()
            || self.after.is_some()
    }
}
