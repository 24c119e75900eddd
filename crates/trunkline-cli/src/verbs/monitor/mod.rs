//! `monitor`: follows variables and prints every reading.

mod followed;

use std::time::Duration;

use trunkline::{Event, FollowEvent, PatternSet, PatternSubscription, SubscribeOptions};
use trunkline_types::contract::ContractError;
use trunkline_types::{Contract, DataType, Pattern, Reading};

use self::followed::{Followed, Known, open};
use super::{Context, Verb};
use crate::arguments::{Form, duration};
use crate::condition::Condition;
use crate::connection::{Connection, code_of, reading_fault};
use crate::exit::{Exit, Tally};
use crate::output::Shown;
use crate::output::json::Object;
use crate::output::rates::RatePrinter;
use crate::output::readings::{Plan, ReadingPrinter};
use crate::problem::{Problem, Stop};
use crate::targets;
use crate::terminal::Mood;

/// Print every reading as it arrives
///
/// The command ends with Ctrl-C, or after --count, --for or --until. Each line shows how many
/// updates were missed before it: `lost` counts those that the contract promises, `coalesced` those
/// that it allows to leave out. Changes of the connection are printed on standard error, and the
/// command reconnects by itself. If the engine is not running yet, the command reports this on
/// standard error and waits for it. A pattern also follows variables that appear later; standard
/// error shows which variables appeared or are gone.
#[derive(Clone, Debug, clap::Args)]
#[command(visible_aliases = ["mon", "sub"])]
pub(crate) struct Args {
    /// Names, URLs, or patterns such as 'boiler/**'
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,

    /// The contract, which applies when updates arrive faster than they are printed: latest,
    /// last:N, first:N, all, all:N, all:N:BYTES, sampled:PERIOD
    #[arg(long, value_name = "CONTRACT", default_value = "last:1000", value_parser = contract)]
    contract: Contract,

    /// End after this number of readings
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// End after this time; if --count or --until is not met by then, the command fails
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,

    /// End with the first reading that meets this condition, such as 'value > 80' or 'quality !=
    /// good'
    #[arg(long, value_name = "CONDITION")]
    until: Option<String>,

    /// Print the number of readings once per second, instead of the readings
    #[arg(long)]
    rate: bool,

    /// End with exit code 3 if the engine is not running, instead of waiting for it
    #[arg(long)]
    no_wait: bool,
}

pub(crate) const VERB: Verb = Verb::reading(
    "monitor",
    &[
        Exit::Done,
        Exit::SomeFailed,
        Exit::Usage,
        Exit::Unreachable,
        Exit::TimedOut,
        Exit::NotPermitted,
        Exit::Lost,
        Exit::Interrupted,
    ],
);

/// Interval at which `--rate` prints.
const RATE_PERIOD: Duration = Duration::from_secs(1);

fn contract(text: &str) -> Result<Contract, ContractError> {
    text.parse()
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Stop> {
    crate::interrupt::end_process_on_interrupt(&context.terminal)?;
    let condition = args.until.as_deref().map(Condition::parse).transpose()?;
    let targets = targets::resolve(&args.names, &context.settings)?;
    let connection = match args.no_wait {
        true => Connection::new(&targets.engine, context)?,
        false => {
            // The time of --for begins with the connection.
            let patience = args.duration.map(|time| time.max(context.settings.timeout));
            let now = context.clock.now();
            let until = patience.map(|time| now.saturating_add(time));
            Connection::wait(&targets.engine, context, until, |why| {
                let mut object = Object::new();
                object.put("event", "waiting");
                object.put("code", &*why.code);
                object.put("message", why.message.as_str());
                let sentence = format!("*** {}; waiting for the engine", why.message);
                note(context, object, Mood::Uncertain, &sentence)
            })?
        }
    };
    let patterns: Vec<Pattern> = targets.patterns().cloned().collect();
    let fixed = targets.names(&context.settings);
    let mut entries = connection.expand(targets, context)?;
    // The pattern may match later.
    let unmatched = entries.take_no_match();
    let name_width = entries.width();
    let printer = match args.rate {
        true => Printer::Rates(RatePrinter::new(
            &context.settings,
            &context.terminal,
            name_width,
        )?),
        false => {
            let plan = Plan {
                name_width,
                with_time: true,
                started: context.started,
            };
            Printer::Readings(ReadingPrinter::new(
                &context.settings,
                &context.terminal,
                plan,
            )?)
        }
    };
    let (mut known, problems) = open(&connection, &entries.0, condition.as_ref())?;
    let items: Vec<Followed> = fixed.iter().map(|name| known.take(name)).collect();
    let mut monitor = Monitor {
        args,
        context,
        connection: &connection,
        condition,
        printer,
        name_width,
        items,
        known,
        patterns: &patterns,
        tally: Tally::default(),
        count: 0,
        engine: None,
    };
    for problem in &problems {
        monitor.complain(problem)?;
    }
    for pattern in &unmatched {
        let mut object = Object::new();
        object.put("event", "no-match");
        object.put("name", pattern.as_str());
        let sentence =
            format!("*** no name matches {pattern} yet; waiting for variables to appear");
        monitor.say(object, Mood::Uncertain, &sentence)?;
    }
    if patterns.is_empty() && monitor.items.iter().all(|item| item.facts.is_none()) {
        return Ok(monitor.tally.exit());
    }
    let names: Vec<&str> = fixed.iter().map(String::as_str).collect();
    let set = PatternSet {
        names: &names,
        patterns: &patterns,
        excluded: &context.settings.exclude,
    };
    let subscription = connection
        .client
        .subscribe_patterns(&set, args.contract, SubscribeOptions::default())
        .map_err(|error| connection.failed(&error))?;
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
    /// Metadata of the names that matched at the start, until they appear.
    known: Known,
    patterns: &'a [Pattern],
    tally: Tally,
    /// Number of readings so far.
    count: u64,
    /// Epoch and identity of the engine that readings are from, once the subscription is connected.
    engine: Option<(u64, [u8; 16])>,
}

impl Monitor<'_> {
    /// Prints events until an end condition is met.
    fn follow(mut self, subscription: &PatternSubscription) -> Result<Exit, Stop> {
        let clock = self.context.clock;
        let end = self
            .args
            .duration
            .map(|duration| clock.now().saturating_add(duration));
        let mut rate_since = clock.now();
        loop {
            let event = match subscription.try_next() {
                Some(event) => Some(event),
                None => {
                    // Nothing is waiting, so the reader of the output gets all of it now.
                    self.context.terminal.flush()?;
                    let rate = self
                        .args
                        .rate
                        .then_some(rate_since.saturating_add(RATE_PERIOD));
                    let until = [end, rate].into_iter().flatten().min();
                    subscription.next(until.map(|until| until.since(clock.now())))
                }
            };
            let is_enough = match event {
                Some(event) => self.take(event)?,
                // Without a deadline, no next event means that there will be none.
                None => end.is_none() && !self.args.rate,
            };
            if is_enough {
                return Ok(self.tally.exit());
            }
            let now = clock.now();
            if self.args.rate && now.since(rate_since) >= RATE_PERIOD {
                self.print_rates(now.since(rate_since))?;
                rate_since = now;
            }
            if end.is_some_and(|end| now >= end) {
                return self.time_is_over();
            }
        }
    }

    /// Handles one event. Returns true if it was the last one wanted.
    fn take(&mut self, event: FollowEvent) -> Result<bool, Stop> {
        match event {
            FollowEvent::Event(event) => return self.handle(event),
            FollowEvent::Appeared {
                item,
                name,
                data_type,
                ..
            } => self.take_appeared(item as usize, &name, &data_type)?,
            FollowEvent::Gone { item, name } => {
                if let Some(item) = self.items.get_mut(item as usize) {
                    item.is_gone = true;
                }
                let mut object = Object::new();
                object.put("event", "gone");
                object.put("name", &*name);
                self.say(object, Mood::Bad, &format!("*** {name} is gone"))?;
            }
            FollowEvent::PatternError { pattern, fault } => {
                let pattern = self.patterns.get(pattern).map_or("", Pattern::as_str);
                self.complain(&reading_fault(&fault).of(pattern))?;
            }
            _ => {}
        }
        Ok(false)
    }

    fn take_appeared(&mut self, index: usize, name: &str, ty: &DataType) -> Result<(), Stop> {
        let is_news = !self.known.contains(name);
        let item = self.known.take(name);
        match self.items.get_mut(index) {
            Some(place) => *place = item,
            None => self.items.push(item),
        }
        if !is_news {
            return Ok(());
        }
        let mut object = Object::new();
        object.put("event", "appeared");
        object.put("name", name);
        object.put("type", ty.to_string());
        self.say(object, Mood::Fine, &format!("*** {name} appeared ({ty})"))
    }

    /// Handles one event of the subscription. Returns true if it was the last one wanted.
    fn handle(&mut self, event: Event) -> Result<bool, Stop> {
        match event {
            Event::Reading { item, reading } => return self.take_reading(item as usize, &reading),
            Event::ItemError { item, fault } => {
                let Some(item) = self.items.get_mut(item as usize) else {
                    return Ok(false);
                };
                let problem = reading_fault(&fault).of(&item.name);
                if item.is_news(&problem) {
                    self.complain(&problem)?;
                }
            }
            Event::Ended {
                item,
                lost,
                sentence,
                ..
            } => {
                self.take_end(item as usize, lost, &sentence)?;
            }
            Event::Disconnected {
                cause,
                reconnecting,
            } => {
                let mut object = Object::new();
                object.put("event", "disconnected");
                object.put("code", code_of(&cause));
                object.put("message", cause.to_string());
                object.put("reconnecting", reconnecting);
                let sentence = match reconnecting {
                    true => format!("*** connection lost, connecting again: {cause}"),
                    false => format!("*** connection lost, not connecting again: {cause}"),
                };
                self.say(object, Mood::Bad, &sentence)?;
                if !reconnecting {
                    self.tally.item_failed(Exit::Unreachable);
                    return Ok(true);
                }
            }
            Event::Connected {
                session,
                epoch,
                engine_id,
            } => self.take_connected(session, epoch, engine_id)?,
            _ => {}
        }
        Ok(false)
    }

    fn take_connected(
        &mut self,
        session: u64,
        epoch: u64,
        engine_id: [u8; 16],
    ) -> Result<(), Stop> {
        let Some(before) = self.engine.replace((epoch, engine_id)) else {
            return Ok(());
        };
        let values = self.context.settings.values;
        let is_restarted = before != (epoch, engine_id);
        let is_replaced = before.1 != engine_id;
        let mut object = Object::new();
        object.put("event", "connected");
        object.put("session", values.json_u64(session));
        object.put("epoch", values.json_u64(epoch));
        object.put("restarted", is_restarted);
        object.put(
            "engine_id",
            format!("{:032x}", u128::from_be_bytes(engine_id)),
        );
        let address = &self.connection.address;
        let sentence = match (is_restarted, is_replaced) {
            (true, false) => format!("*** connected again to {address}, which was restarted"),
            (_, true) => format!(
                "*** connected again to {address}, which was restarted with another store or \
                 without one"
            ),
            (false, false) => format!("*** connected again to {address}"),
        };
        self.say(object, Mood::Fine, &sentence)?;
        if is_restarted {
            // The new engine may have another configuration.
            let condition = self.condition.as_ref();
            followed::refresh(self.connection, &mut self.items, |_| true, condition)?;
        }
        Ok(())
    }

    fn take_reading(&mut self, index: usize, reading: &Reading) -> Result<bool, Stop> {
        let received = self.context.clock.wall();
        let Some(item) = self.items.get(index) else {
            return Ok(false);
        };
        if item.facts.is_none() {
            // Requests the metadata of all variables that appeared with it at once.
            let is_unknown = |item: &Followed| item.facts.is_none();
            followed::refresh(
                self.connection,
                &mut self.items,
                is_unknown,
                self.condition.as_ref(),
            )?;
        }
        let Some(item) = self.items.get_mut(index) else {
            return Ok(false);
        };
        let Some(facts) = &item.facts else {
            return Ok(false);
        };
        item.complaint = None;
        if self.args.is_lossless() && !reading.lost.is_none() {
            self.tally.data_lost();
        }
        item.rate.readings += 1;
        item.rate.lost = item.rate.lost.plus(reading.lost);
        if let Printer::Readings(printer) = &mut self.printer {
            printer.print(&Shown::new(&item.name, facts, reading, received))?;
        }
        self.count += 1;
        let is_met = item
            .until
            .as_ref()
            .is_some_and(|until| until.is_met(reading));
        Ok(is_met || self.args.count.is_some_and(|count| self.count >= count))
    }

    fn take_end(&mut self, index: usize, lost: Option<u64>, sentence: &str) -> Result<(), Stop> {
        let Some(item) = self.items.get(index) else {
            return Ok(());
        };
        if self.args.is_lossless() && lost.is_some_and(|lost| lost > 0) {
            self.tally.data_lost();
        }
        let mut object = Object::new();
        object.put("event", "ended");
        object.put("name", item.name.as_str());
        object.put("message", sentence);
        object.put(
            "lost",
            lost.map(|lost| self.context.settings.values.json_u64(lost)),
        );
        let count = lost.map_or_else(String::new, |lost| format!(" (lost={lost})"));
        let text = format!("*** {}: {sentence}{count}", item.name);
        self.say(object, Mood::Bad, &text)
    }

    fn print_rates(&mut self, period: Duration) -> Result<(), Stop> {
        let Printer::Rates(printer) = &self.printer else {
            return Ok(());
        };
        for item in self.items.iter_mut().filter(|item| !item.is_gone) {
            let rate = std::mem::take(&mut item.rate);
            printer.print(&item.name, rate, period.as_secs_f64())?;
        }
        self.context.terminal.flush()
    }

    /// Ends because the time of `--for` is over.
    fn time_is_over(mut self) -> Result<Exit, Stop> {
        let count = self.count;
        let sentence = match (self.args.count, &self.condition) {
            (Some(wanted), _) => format!("the time ran out after {count} of {wanted} readings"),
            (None, Some(_)) => {
                format!("the time ran out; none of {count} readings met the condition of --until")
            }
            (None, None) => return Ok(self.tally.exit()),
        };
        self.tally.timed_out();
        let problem = Problem::new(Exit::TimedOut, "timed-out", &sentence);
        self.context.terminal.problem(&problem, 0)?;
        Ok(self.tally.exit())
    }

    /// Reports the problem of one name.
    fn complain(&mut self, problem: &Problem) -> Result<(), Stop> {
        self.tally
            .item_failed(self.context.show(problem, self.name_width)?);
        Ok(())
    }

    /// Reports an event on standard error.
    fn say(&self, object: Object, mood: Mood, sentence: &str) -> Result<(), Stop> {
        note(self.context, object, mood, sentence)
    }
}

/// Writes a line to standard error.
fn note(context: &Context, object: Object, mood: Mood, sentence: &str) -> Result<(), Stop> {
    let terminal = &context.terminal;
    match context.settings.form {
        Form::Json | Form::Jsonl => terminal.note(&object.into_json().to_string()),
        _ => terminal.note(&terminal.error_paint(mood, sentence)),
    }
}

impl Args {
    /// Returns true if a lost reading is a failure.
    fn is_lossless(&self) -> bool {
        matches!(self.contract, Contract::All { .. })
    }
}
