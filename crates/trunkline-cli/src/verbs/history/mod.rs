//! `history`: shows the recorded updates of variables, and maintains the folder of a history.

mod buckets;
mod coverage;
mod export;
mod folder;
mod plot;
pub(crate) mod source;
mod unknown;

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use trunkline_types::history::{
    Grid, HistoryEvent, HistoryForm, HistoryItem, HistoryQuery, POINTS_MAX, SeriesData,
};
use trunkline_types::{Pattern, Timestamp};

use self::buckets::Aggregate;
pub(crate) use self::buckets::Bucket;
pub(crate) use self::coverage::Coverage;
pub(crate) use self::folder::{FolderEvent, Found, Listed, Totals};
use self::source::{FAULT, Pages, Source};
use crate::arguments::{number, positive_duration};
use crate::output::readings::{PrinterOptions, ReadingPrinter};
use crate::output::record::{JsonSchema, Notice, Serialize};
use crate::output::{Metadata, ReadingView, counted};
use crate::targets::{self, Target};
use crate::terminal::Style;
use crate::verbs::audit::{bad_pattern, parse_time};
use crate::{CliError, Context, Exit, Problem};

/// Show the recorded values of variables
///
/// The engine records the variables that a [[history]] section of its configuration selects. The
/// command prints readings as `monitor` does, sorted by variable and then by time. Events of the
/// recording itself, such as starts and losses, are reported on standard error. With --every or
/// --points, the command prints one line for each interval: the number of values, the smallest, the
/// largest, the first, the last and the mean. With --interpolated, it prints the value at regular
/// intervals. With --folder, it reads a history folder directly, whether or not an engine is
/// recording into it.
///
/// The subcommands read, check and repair a history folder. The name of a variable contains a `/`,
/// so it cannot be confused with a subcommand.
#[derive(Clone, Debug, clap::Args)]
#[command(subcommand_negates_reqs = true, disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Subcommand>,

    /// Names, URLs, or patterns such as 'boiler/**'. Variables that no longer exist are found too
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,

    /// Read this history folder, such as plant.history, instead of asking an engine
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,

    /// Only readings since this time, such as 2026-11-21T08:00, 14:30, today, yesterday, 10m or
    /// "2 hours ago"
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1h",
        allow_hyphen_values = true
    )]
    since: String,

    /// Only readings before this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    until: Option<String>,

    /// Only the last reading of each variable before --until, however old it is
    #[arg(long, conflicts_with_all = ["since", "every", "points", "plot"])]
    last: bool,

    /// Print one line for each interval of this length, such as 10s or 5m. Intervals with neither
    /// readings nor missing updates are omitted
    #[arg(
        long,
        value_name = "TIME",
        value_parser = positive_duration,
        conflicts_with = "points",
        allow_hyphen_values = true
    )]
    every: Option<Duration>,

    /// Print at most this number of intervals for each variable. Their length is a power of two in
    /// nanoseconds, so that queries over long periods are fast
    #[arg(long, value_name = "N", value_parser = number::<u32>(2..=u64::from(POINTS_MAX)))]
    points: Option<u32>,

    /// With --every or --points: the columns to print, in the given order
    #[arg(
        long,
        value_name = "COLUMN,...",
        value_enum,
        value_delimiter = ',',
        conflicts_with_all = ["last", "plot", "interpolated", "stepped", "coverage"]
    )]
    agg: Vec<Aggregate>,

    /// Print the value at the time of --at, or at every multiple of --every. Numbers are interpolated
    /// linearly between the readings before and after; other types keep the value of the previous
    /// reading. Without these readings, or across a gap, there is no value
    #[arg(long, conflicts_with_all = ["last", "points", "plot"])]
    interpolated: bool,

    /// Like --interpolated, but always print the value of the previous reading, as for a setpoint
    #[arg(long, conflicts_with_all = ["last", "points", "plot", "interpolated"])]
    stepped: bool,

    /// With --interpolated or --stepped: print the value at this time
    #[arg(
        long,
        value_name = "TIME",
        conflicts_with_all = ["since", "until", "every", "last", "points", "plot", "coverage"],
        allow_hyphen_values = true
    )]
    at: Option<String>,

    /// Print the coverage of each variable: the number of readings, of bad readings and of missing
    /// updates, and the share of the time during which the value is known and not bad
    #[arg(
        long,
        conflicts_with_all = ["last", "every", "points", "plot", "interpolated", "stepped"]
    )]
    coverage: bool,

    /// Draw the values of each variable in the terminal
    #[arg(long, conflicts_with_all = ["every", "points", "count"])]
    plot: bool,

    /// Stop after this number of readings or intervals
    #[arg(
        long,
        value_name = "N",
        value_parser = number::<u64>(1..=u64::MAX),
        allow_negative_numbers = true
    )]
    count: Option<u64>,
}

/// The subcommands for the folder of a history.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    Ls(folder::LsArgs),
    Info(folder::InfoArgs),
    Verify(folder::VerifyArgs),
    Compact(folder::CompactArgs),
    Rebuild(folder::RebuildArgs),
    Export(Box<export::Args>),
}

/// An event of the recording of a variable, on standard error.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Trunkline history event, version 1")]
pub(crate) struct Event {
    /// started, stopped, interrupted, lost, added or retired.
    event: &'static str,
    /// Name of the variable.
    name: String,
    /// Time of the event, UTC, nanoseconds.
    #[schemars(extend("format" = "date-time"))]
    ts: String,
    /// With lost: number of missing updates, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    /// Description for people.
    #[serde(skip)]
    sentence: String,
}

impl Event {
    fn new(name: &str, when: Timestamp, event: HistoryEvent) -> Self {
        let sentence = match event {
            HistoryEvent::Started => "the engine started".to_owned(),
            HistoryEvent::Added => "the variable was added".to_owned(),
            HistoryEvent::Stopped => "the engine stopped".to_owned(),
            HistoryEvent::Interrupted => {
                "the engine was interrupted; updates between this time and its next start are missing"
                    .to_owned()
            }
            HistoryEvent::Lost(Some(count)) => {
                let verb = if count == 1 { "is" } else { "are" };
                format!("{} {verb} missing", counted(count, "update"))
            }
            HistoryEvent::Lost(None) => "updates are missing".to_owned(),
            HistoryEvent::Retired => "the variable was undeployed".to_owned(),
            HistoryEvent::Other(number) => format!("event {number} of a newer version"),
        };
        let count = match event {
            HistoryEvent::Lost(count) => count,
            HistoryEvent::Started
            | HistoryEvent::Added
            | HistoryEvent::Stopped
            | HistoryEvent::Interrupted
            | HistoryEvent::Retired
            | HistoryEvent::Other(_) => None,
        };
        Self {
            event: event.name(),
            name: name.to_owned(),
            ts: when.to_string(),
            count,
            sentence,
        }
    }
}

impl std::fmt::Display for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} ({})", self.name, self.sentence, self.ts)
    }
}

impl Notice for Event {
    fn style(&self) -> Style {
        match self.event {
            "lost" | "interrupted" => Style::Bad,
            _ => Style::Plain,
        }
    }
}

/// Refuses combinations of options that clap cannot express.
fn check(args: &Args, context: &Context) -> Result<(), Problem> {
    let is_at_points = args.interpolated || args.stepped;
    let sentence = if args.plot && !context.settings.output_format.is_for_people() {
        "--plot works only with table and plain output; for JSON and CSV, use --points"
    } else if is_at_points && args.at.is_none() && args.every.is_none() {
        "--interpolated and --stepped need points in time; add --every or --at"
    } else if args.at.is_some() && !is_at_points {
        "--at works only with --interpolated or --stepped; for the last reading before a time, use \
         --last --until"
    } else if !args.agg.is_empty() && args.every.is_none() && args.points.is_none() {
        "--agg works only with --every or --points; add one of them"
    } else {
        return Ok(());
    };
    Err(Problem::usage(sentence))
}

fn form_of(args: &Args, context: &Context) -> HistoryForm {
    let width = |time: Duration| {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        NonZeroU64::new(nanos).unwrap_or(NonZeroU64::MIN)
    };
    let grid = Grid(args.every.map(width));
    match (args.every, args.points) {
        _ if args.last => HistoryForm::Last,
        _ if args.coverage => HistoryForm::Total,
        _ if args.interpolated => HistoryForm::Interpolated(grid),
        _ if args.stepped => HistoryForm::Stepped(grid),
        _ if args.plot => HistoryForm::Points(plot::points(&context.terminal)),
        (Some(every), _) => HistoryForm::Buckets(width(every)),
        (_, Some(points)) => HistoryForm::Points(points),
        (None, None) => HistoryForm::Rows,
    }
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    match &args.command {
        None => show(args, context),
        Some(Subcommand::Ls(args)) => folder::list(args, context),
        Some(Subcommand::Info(args)) => folder::info(args, context),
        Some(Subcommand::Verify(args)) => folder::verify(args, context),
        Some(Subcommand::Compact(args)) => folder::compact(args, context),
        Some(Subcommand::Rebuild(args)) => folder::rebuild(args, context),
        Some(Subcommand::Export(args)) => export::run(args, context),
    }
}

fn show(args: &Args, context: &Context) -> Result<Exit, CliError> {
    check(args, context)?;
    let targets = targets::resolve(&args.names, &context.settings)?;
    let patterns = patterns_of(&targets.list)?;
    let now = context.now().time;
    let at = parse_time("--at", args.at.as_ref(), context)?;
    let since = (!args.last && at.is_none()).then_some(&args.since);
    let (since, until) = range(since, args.until.as_ref(), context)?;
    let since = at.or(since);
    let until = match args.coverage {
        // Time in the future does not count as missing.
        true => until.min(now),
        false => until,
    };
    let form = form_of(args, context);
    let query = HistoryQuery {
        patterns,
        since,
        until: at.is_none().then_some(until),
        form,
        durations: args.coverage || args.agg.iter().any(|aggregate| aggregate.is_of_durations()),
        ..HistoryQuery::default()
    };
    let source = Source::open(&targets.engine, args.folder.as_deref(), context)?;
    let mut pages = Pages::new(source, query, context);
    let limit = args.count.unwrap_or(u64::MAX);
    let (count, state) = match form {
        HistoryForm::Rows
        | HistoryForm::Last
        | HistoryForm::Interpolated(_)
        | HistoryForm::Stepped(_) => print_rows(&mut pages, limit, context)?,
        HistoryForm::Total => {
            let since = since.unwrap_or(until);
            coverage::print(&mut pages, (since, until), limit, context)?
        }
        HistoryForm::Buckets(_) | HistoryForm::Points(_) if args.plot => {
            plot::draw(&mut pages, since, until, context)?
        }
        HistoryForm::Buckets(_) | HistoryForm::Points(_) => {
            let range = (since.unwrap_or(until), until.min(now));
            buckets::print(&mut pages, &args.agg, range, limit, context)?
        }
    };
    let is_complete = count < limit && !context.interrupted.is_pressed();
    let unknown = match is_complete {
        true => unknown::report(&targets.list, &mut pages, context)?,
        false => None,
    };
    if count == 0 && unknown.is_none() {
        context.terminal.note("nothing was recorded")?;
    }
    if state.is_empty() {
        return Ok(unknown.unwrap_or(Exit::Success));
    }
    context.note_with_code(FAULT, &state)?;
    Ok(Exit::Lost)
}

/// Returns the start and the end of a query. Without `until`, it ends now.
pub(crate) fn range(
    since: Option<&String>,
    until: Option<&String>,
    context: &Context,
) -> Result<(Option<Timestamp>, Timestamp), CliError> {
    let until = parse_time("--until", until, context)?;
    let start = parse_time("--since", since, context)?;
    if let (Some(text), Some(start), Some(until)) = (since, start, until)
        && start >= until
    {
        let sentence =
            format!("--since {text} is not before --until {until}; give an earlier --since");
        return Err(Problem::usage(sentence).into());
    }
    Ok((start, until.unwrap_or_else(|| context.now().time)))
}

/// Converts names and patterns to patterns. A name matches that variable only.
pub(crate) fn patterns_of(targets: &[Target]) -> Result<Vec<Pattern>, CliError> {
    let patterns = targets.iter().map(|target| match target {
        Target::Pattern(pattern) => Ok(pattern.clone()),
        Target::Name(name) => Ok(Pattern::parse(name).map_err(bad_pattern)?),
        Target::Invalid(problem) => Err(problem.clone().without_name().into()),
    });
    patterns.collect()
}

/// Prints at most `limit` readings. Returns their number and the state of the history.
fn print_rows(
    pages: &mut Pages<'_>,
    limit: u64,
    context: &Context,
) -> Result<(u64, String), CliError> {
    let options = PrinterOptions {
        name_width: 0,
        with_time: true,
        started: context.started,
    };
    let mut printer = ReadingPrinter::new(&context.settings, &context.terminal, options)?;
    let (mut count, mut state) = (0, String::new());
    while let Some(page) = pages.next()? {
        if !page.state.is_empty() {
            state = page.state;
        }
        let received = context.clock.wall();
        for series in &page.series {
            let SeriesData::Rows(_) = &series.data else {
                continue;
            };
            let metadata = Metadata {
                data_type: series.data_type.clone(),
                units: series.units.clone(),
                precision: None,
            };
            for item in series.items() {
                match item {
                    HistoryItem::Reading(reading) => {
                        let name = &series.variable;
                        let view = ReadingView::recorded(name, &metadata, &reading, received);
                        printer.print(&view)?;
                        count += 1;
                        if count == limit {
                            return Ok((count, state));
                        }
                    }
                    HistoryItem::Event { when, event } => {
                        context.notify(&Event::new(&series.variable, when, event))?;
                    }
                }
            }
        }
        if context.interrupted.is_pressed() {
            break;
        }
    }
    Ok((count, state))
}
