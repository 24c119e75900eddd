//! What `serve` reports while it runs: human-readable messages, or a log for programs.
//!
//! Both go to standard error. The log has one line per event, with time, level, target, message and
//! fields, as text or as JSON. No event has a value of a variable, a credential or a token.

use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value as Json, json};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber, error, info, warn};
use trunkline::figures::HealthMonitor;
use trunkline::{ReloadError, Reloaded, config};
use trunkline_net::Clock;
use trunkline_net::server::ServerCounters;
use trunkline_types::{Tick, Timestamp};
use trunkline_web::HOUSEKEEPING_AGE_MAX;

use crate::terminal::{Terminal, escaped};
use crate::{CliError, Context, Problem};

/// Shortest time between two reports of refused connections, and between two of a late
/// housekeeping.
const REPEAT_AFTER: Duration = Duration::from_secs(10);
/// Delay from which the housekeeping is late.
const DELAY_MAX: Duration = Duration::from_millis(500);

/// The form of the lines of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people
    Text,
    /// One JSON object per line
    Json,
}

/// The least important events that the log has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum LogLevel {
    /// Data is not stored or not recorded
    Error,
    /// Something that needs attention
    Warn,
    /// The normal course, such as start and stop
    Info,
    /// Details for the search for a fault
    Debug,
    /// Everything
    Trace,
}

impl LogLevel {
    fn filter(self) -> LevelFilter {
        match self {
            Self::Error => LevelFilter::ERROR,
            Self::Warn => LevelFilter::WARN,
            Self::Info => LevelFilter::INFO,
            Self::Debug => LevelFilter::DEBUG,
            Self::Trace => LevelFilter::TRACE,
        }
    }
}

/// The options for the log.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct LogArgs {
    /// Write a log to standard error, in this format, instead of messages for people; with only
    /// --log-level: text
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<LogFormat>,

    /// Write a log to standard error, with events of this level or higher, instead of messages for
    /// people; with only --log-format: info
    #[arg(
        long,
        value_name = "LEVEL",
        env = "TRUNKLINE_LOG",
        hide_env_values = true
    )]
    log_level: Option<LogLevel>,
}

/// Reports events: as notes, or in the log.
#[derive(Clone, Debug)]
pub(in crate::verbs) enum Reporter {
    Notes(Terminal),
    Log(Arc<LevelSwitch>),
}

/// The level of the log, which can change while the program runs.
#[derive(Debug)]
pub(in crate::verbs) struct LevelSwitch {
    /// Read for the first event of each kind, which is then remembered.
    level: Mutex<LevelFilter>,
    /// The command line sets the level, so the configuration does not.
    is_fixed: bool,
}

impl LevelSwitch {
    fn level(&self) -> LevelFilter {
        *self.level.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, level: LevelFilter) {
        *self.level.lock().unwrap_or_else(PoisonError::into_inner) = level;
        // Each kind of event remembers whether it is logged.
        tracing::callsite::rebuild_interest_cache();
    }
}

/// The parts of an engine that can fail while it runs, in the order in which they are checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    Store,
    History,
    Spool,
    Security,
}

impl Part {
    pub(super) const ALL: [Self; 4] = [Self::Store, Self::History, Self::Spool, Self::Security];

    const fn recovery(self) -> &'static str {
        match self {
            Self::Store => "the store works again, and all data is saved",
            Self::History => "the history is being recorded again",
            Self::Spool => "the spool of the history can be used again",
            Self::Security => "the accounts and the certificate of the engine can be used again",
        }
    }
}

impl Reporter {
    /// Starts the log if one of its options is given.
    ///
    /// # Errors
    /// This process already has a log.
    pub(super) fn start(args: LogArgs, context: &Context) -> Result<Self, Problem> {
        if args.log_format.is_none() && args.log_level.is_none() {
            return Ok(Self::Notes(context.terminal.clone()));
        }
        let switch = Arc::new(LevelSwitch {
            level: Mutex::new(args.log_level.unwrap_or(LogLevel::Info).filter()),
            is_fixed: args.log_level.is_some(),
        });
        let log = Log {
            terminal: context.terminal.clone(),
            clock: context.clock,
            format: args.log_format.unwrap_or(LogFormat::Text),
            switch: Arc::clone(&switch),
        };
        tracing::subscriber::set_global_default(log).map_err(|error| Problem::system(&error))?;
        Ok(Self::Log(switch))
    }

    /// Uses the level of the configuration, unless the command line sets one.
    pub(super) fn set_level(&self, level: config::LogLevel) {
        let Self::Log(switch) = self else {
            return;
        };
        if switch.is_fixed {
            return;
        }
        switch.set(match level {
            config::LogLevel::Error => LevelFilter::ERROR,
            config::LogLevel::Warn => LevelFilter::WARN,
            config::LogLevel::Info => LevelFilter::INFO,
            config::LogLevel::Debug => LevelFilter::DEBUG,
            config::LogLevel::Trace => LevelFilter::TRACE,
        });
    }

    /// Reports the result of a reload of the configuration.
    pub(super) fn reloaded(&self, result: &Result<Reloaded, ReloadError>) {
        let sentence = match result {
            Ok(reloaded) => format!("the configuration was reloaded: {reloaded}"),
            Err(error) => {
                format!("the configuration was not reloaded and is unchanged: {error}")
            }
        };
        match (self, result) {
            // A closed standard error is no reason to stop serving.
            (Self::Notes(terminal), _) => drop(terminal.note(&format!("*** {sentence}"))),
            (Self::Log(_), Ok(_)) => info!(target: "trunkline::configuration", "{sentence}"),
            (Self::Log(_), Err(_)) => error!(target: "trunkline::configuration", "{sentence}"),
        }
    }

    /// Reports the start of the program. Notes do not have it, because the summary follows.
    pub(super) fn starting(&self, files: usize) {
        if matches!(self, Self::Log(_)) {
            let version = env!("CARGO_PKG_VERSION");
            info!(target: "trunkline::engine", version, files, pid = std::process::id(), "starting");
        }
    }

    pub(super) fn listening(&self, engine: &str, urls: &[String], variables: usize) {
        if matches!(self, Self::Log(_)) {
            let urls = urls.join(" ");
            info!(target: "trunkline::engine", engine, urls, variables, "listening");
        }
    }

    pub(super) fn stopping(&self) {
        if matches!(self, Self::Log(_)) {
            info!(target: "trunkline::engine", "stopping");
        }
    }

    pub(super) fn stopped(&self) {
        if matches!(self, Self::Log(_)) {
            info!(target: "trunkline::engine", "stopped");
        }
    }

    /// Reports something that the user should know or change, in one sentence.
    pub(super) fn warning(&self, sentence: &str, context: &Context) -> Result<(), CliError> {
        match self {
            Self::Notes(_) => context.warn(&format!("*** {sentence}")),
            Self::Log(_) => {
                warn!(target: "trunkline::engine", "{sentence}");
                Ok(())
            }
        }
    }

    /// Like [`warning`](Self::warning), for advice, which notes show without emphasis.
    pub(super) fn advice(&self, sentence: &str) -> Result<(), CliError> {
        match self {
            Self::Notes(terminal) => terminal.note(&format!("*** {sentence}")),
            Self::Log(_) => {
                warn!(target: "trunkline::engine", "{sentence}");
                Ok(())
            }
        }
    }

    /// Reports a failure at the start, which notes emphasize.
    pub(super) fn initial_failure(
        &self,
        part: Part,
        sentence: &str,
        context: &Context,
    ) -> Result<(), CliError> {
        match self {
            Self::Notes(_) => self.warning(sentence, context),
            Self::Log(_) => {
                self.failure(part, sentence);
                Ok(())
            }
        }
    }

    pub(super) fn failure(&self, part: Part, sentence: &str) {
        match (self, part) {
            // A closed standard error is no reason to stop serving.
            (Self::Notes(terminal), _) => drop(terminal.note(&format!("*** {sentence}"))),
            (Self::Log(_), Part::Store) => error!(target: "trunkline::store", "{sentence}"),
            (Self::Log(_), Part::History) => error!(target: "trunkline::history", "{sentence}"),
            (Self::Log(_), Part::Spool) => error!(target: "trunkline::spool", "{sentence}"),
            (Self::Log(_), Part::Security) => error!(target: "trunkline::security", "{sentence}"),
        }
    }

    pub(super) fn recovery(&self, part: Part) {
        let sentence = part.recovery();
        match (self, part) {
            (Self::Notes(terminal), _) => drop(terminal.note(&format!("*** {sentence}"))),
            (Self::Log(_), Part::Store) => info!(target: "trunkline::store", "{sentence}"),
            (Self::Log(_), Part::History) => info!(target: "trunkline::history", "{sentence}"),
            (Self::Log(_), Part::Spool) => info!(target: "trunkline::spool", "{sentence}"),
            (Self::Log(_), Part::Security) => info!(target: "trunkline::security", "{sentence}"),
        }
    }
}

/// Reports refused connections and late housekeeping in the log, at most once in
/// [`REPEAT_AFTER`] each.
#[derive(Debug)]
pub(super) struct LoadWatch {
    monitor: HealthMonitor,
    reported: ServerCounters,
    next_refusals: Tick,
    next_delay: Tick,
}

impl LoadWatch {
    /// Returns a watch for a log; notes have no such reports.
    pub(super) fn new(
        reporter: &Reporter,
        monitor: impl FnOnce() -> HealthMonitor,
        counters: ServerCounters,
    ) -> Option<Self> {
        matches!(reporter, Reporter::Log(_)).then(|| Self {
            monitor: monitor(),
            reported: counters,
            next_refusals: Tick::ZERO,
            next_delay: Tick::ZERO,
        })
    }

    pub(super) fn check(&mut self, now: Tick, counters: ServerCounters) {
        let refused = counters.refused.saturating_sub(self.reported.refused);
        let failed = counters
            .accept_failures
            .saturating_sub(self.reported.accept_failures);
        if (refused > 0 || failed > 0) && now >= self.next_refusals {
            self.next_refusals = now.saturating_add(REPEAT_AFTER);
            self.reported = counters;
            let (sessions, handshakes) = (counters.sessions, counters.handshakes);
            warn!(
                target: "trunkline::connections",
                refused, failed, sessions, handshakes, "connections were refused"
            );
        }
        let (age, delay) = (
            self.monitor.housekeeping_age(),
            self.monitor.figures().housekeeping_delay,
        );
        if now < self.next_delay || age.max(delay) < DELAY_MAX {
            return;
        }
        self.next_delay = now.saturating_add(REPEAT_AFTER);
        let delay_ms = delay.max(age).as_millis() as u64;
        if age > HOUSEKEEPING_AGE_MAX {
            error!(target: "trunkline::housekeeping", delay_ms, "the housekeeping is not running");
        } else {
            warn!(
                target: "trunkline::housekeeping",
                delay_ms, "the housekeeping ran late; the processors or the disk may be overloaded"
            );
        }
    }
}

/// Writes events to standard error.
struct Log {
    terminal: Terminal,
    clock: Clock,
    format: LogFormat,
    switch: Arc<LevelSwitch>,
}

impl Subscriber for Log {
    /// Events of other libraries are left out: only our own are documented and free of secrets.
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.switch.level() && metadata.target().starts_with("trunkline")
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.switch.level())
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let (level, target) = (*event.metadata().level(), event.metadata().target());
        let line = match self.format {
            LogFormat::Text => text_line(self.clock.wall(), level, target, &fields),
            LogFormat::Json => json_line(self.clock.wall(), level, target, fields),
        };
        // A closed standard error is no reason to stop serving.
        let _ = self.terminal.note(&line);
    }

    // There are no spans.

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The message of an event, and its fields in order.
#[derive(Debug, Default)]
struct Fields {
    message: String,
    others: Map<String, Json>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: Json) {
        self.others.insert(field.name().to_owned(), value);
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            _ => self.put(field, format!("{value:?}").into()),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message = value.to_owned(),
            _ => self.put(field, value.into()),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }
}

/// `2026-11-30T04:39:51.123456Z WARN trunkline::store: message field=1 other="text"`. Line breaks are
/// escaped, so that an event cannot look like two.
fn text_line(time: Timestamp, level: Level, target: &str, fields: &Fields) -> String {
    let mut line = format!("{time} {level} {target}: {}", escaped(&fields.message));
    for (name, value) in &fields.others {
        // Writing to a text cannot fail.
        let _ = write!(line, " {name}={value}");
    }
    line
}

fn json_line(time: Timestamp, level: Level, target: &str, fields: Fields) -> String {
    let mut line = Map::new();
    line.insert("time".to_owned(), time.to_string().into());
    line.insert(
        "level".to_owned(),
        level.as_str().to_ascii_lowercase().into(),
    );
    line.insert("target".to_owned(), target.into());
    line.insert("message".to_owned(), fields.message.into());
    line.insert("fields".to_owned(), Json::Object(fields.others));
    json!(line).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields() -> Fields {
        let mut others = Map::new();
        others.insert("refused".to_owned(), 3.into());
        others.insert("urls".to_owned(), "tl://a \"b\"".into());
        Fields {
            message: "one\ntwo".to_owned(),
            others,
        }
    }

    #[test]
    fn text_has_one_line_per_event() {
        let sut = text_line(
            Timestamp::from_nanos(0),
            Level::WARN,
            "trunkline::x",
            &fields(),
        );
        let (time, rest) = sut.split_once(' ').unwrap();
        assert!(time.starts_with("1970-01-01T00:00:00"), "{sut}");
        let expected = "WARN trunkline::x: one\\ntwo refused=3 urls=\"tl://a \\\"b\\\"\"";
        assert_eq!(rest, expected);
    }

    #[test]
    fn json_has_one_object_per_event() {
        let sut = json_line(
            Timestamp::from_nanos(0),
            Level::ERROR,
            "trunkline::x",
            fields(),
        );
        assert!(!sut.contains('\n'), "{sut}");
        let sut: Json = serde_json::from_str(&sut).unwrap();
        assert_eq!(sut["level"], "error");
        assert_eq!(sut["target"], "trunkline::x");
        assert_eq!(sut["message"], "one\ntwo");
        assert_eq!(sut["fields"]["refused"], 3);
    }
}
