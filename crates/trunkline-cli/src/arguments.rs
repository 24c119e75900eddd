//! Defines the command line with clap. This module has the options that all commands share. The
//! module of each command defines the command's own options.

use std::ops::RangeInclusive;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use trunkline::proto::ThroughputMode;
use trunkline_types::DataType;
use trunkline_types::contract::parse_duration;
use trunkline_types::text::{Digits, parse_type};

use crate::verbs;

/// The whole command line.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "trunkline",
    version,
    about = "Read, write and monitor the variables of machines and laboratories",
    disable_help_subcommand = true,
    arg_required_else_help = true,
    after_help = "An engine serves variables to programs; a library is a set of variables deployed \
                  together.\nStart with `trunkline demo`, then try `trunkline get boiler/level` in \
                  another terminal.\n`trunkline help COMMAND` explains a command.\n`trunkline help \
                  config` lists the keys of configuration files."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
}

/// The commands.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Command {
    Get(verbs::get::Args),
    /// Write values, and wait until each is confirmed
    ///
    /// The forms are `put NAME VALUE`, `put NAME=VALUE NAME=VALUE`, `put NAME -`, which reads the
    /// value from standard input, and `put --csv FILE`. The form of a value depends on the type of
    /// the variable: for example, 72.5 for a number, on for a boolean, AUTO for an enum, and
    /// [1, 2, 3] for an array. All values are sent in one batch. If one of them is refused, the
    /// others are still written, except with `--atomic`.
    Put(verbs::put::Args),
    /// Set values in the engine only, without writing them to devices
    ///
    /// To write the value to the device later, use `send`. A new value from the device replaces a
    /// value that has not been sent. For a variable without a device, `set` is the same as `put`.
    Set(verbs::put::Args),
    /// Send the current values of variables to their devices, and wait until the devices have
    /// accepted them
    ///
    /// `set` followed by `send` is a `put` in two steps. For a variable without a device, `send`
    /// does nothing.
    Send(verbs::put::DeviceRequestArgs),
    /// Make devices measure again, and wait for the new values
    ///
    /// By contrast, `get` prints the values that the engine already has, without asking the
    /// devices.
    Request(verbs::put::DeviceRequestArgs),
    Force(verbs::force::Args),
    Unforce(verbs::unforce::Args),
    #[command(subcommand, disable_help_subcommand = true)]
    Snapshot(verbs::snapshot::Subcommand),
    Monitor(verbs::monitor::Args),
    Info(verbs::info::Args),
    Ls(verbs::ls::Args),
    Find(verbs::find::Args),
    Why(verbs::why::Args),
    Limits(verbs::limits::Args),
    Support(verbs::support::Args),
    Deploy(verbs::deploy::Args),
    Undeploy(verbs::undeploy::Args),
    #[command(subcommand, disable_help_subcommand = true)]
    Library(verbs::library::Subcommand),
    #[command(subcommand, disable_help_subcommand = true)]
    Alarm(verbs::alarm::Subcommand),
    #[command(subcommand, disable_help_subcommand = true)]
    Control(verbs::control::Subcommand),
    Audit(verbs::audit::Args),
    History(verbs::history::Args),
    #[command(subcommand, disable_help_subcommand = true)]
    Backup(verbs::backup::Subcommand),
    #[command(subcommand, disable_help_subcommand = true)]
    Engine(verbs::engine::Subcommand),
    #[command(subcommand, disable_help_subcommand = true)]
    Stream(verbs::stream::Subcommand),
    #[cfg(target_os = "linux")]
    #[command(subcommand, disable_help_subcommand = true)]
    Record(verbs::record::Subcommand),
    #[cfg(target_os = "linux")]
    Play(verbs::play::Args),
    #[command(subcommand, disable_help_subcommand = true)]
    Tdms(verbs::tdms::Subcommand),
    #[command(subcommand, disable_help_subcommand = true)]
    Io(verbs::io::Subcommand),
    Init(verbs::init::Args),
    Pair(verbs::pair::Args),
    Join(verbs::join::Args),
    Ctx(verbs::ctx::Args),
    #[command(subcommand, disable_help_subcommand = true)]
    User(verbs::user::Subcommand),
    #[command(subcommand, disable_help_subcommand = true)]
    Access(verbs::access::Subcommand),
    Serve(verbs::serve::Args),
    Demo(verbs::demo::Args),
    Completion(verbs::completion::Args),
    #[command(hide = true)]
    Man(verbs::man::Args),
    Help(verbs::help::Args),
}

/// Options of all commands.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalArgs {
    /// URL of the engine; a name such as tl://HOST/LIBRARY/PATH overrides it. Default: the URL of the
    /// selected context (`trunkline ctx`), otherwise tl://localhost:5850
    #[arg(
        long,
        value_name = "URL",
        env = "TRUNKLINE_URL",
        hide_env_values = true,
        global = true
    )]
    pub(crate) url: Option<String>,

    /// Log in to the engine with the password of this account. The command asks for the password on
    /// the terminal, or reads it from the file that the environment variable TRUNKLINE_PASSWORD_FILE
    /// names
    #[arg(
        long,
        value_name = "ACCOUNT",
        env = "TRUNKLINE_ACCOUNT",
        hide_env_values = true,
        global = true
    )]
    pub(crate) account: Option<String>,

    /// Maximum time to wait for the engine: a number of seconds, or a number with a unit: ns, us,
    /// ms, s, m, h or d
    #[arg(
        short = 'w',
        long,
        value_name = "TIME",
        env = "TRUNKLINE_TIMEOUT",
        hide_env_values = true,
        default_value = "2s",
        value_parser = positive_duration,
        allow_hyphen_values = true,
        global = true
    )]
    pub(crate) timeout: Duration,

    /// Throughput mode: the client and the engine collect data, and send the data when it reaches
    /// this size or has waited for this time; without a value: 8KiB,10ms
    #[arg(
        long,
        value_name = "BYTES,TIME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "8KiB,10ms",
        global = true
    )]
    pub(crate) batch: Option<ThroughputMode>,

    /// Output format; default: table on a terminal, otherwise plain
    #[arg(short = 'o', long = "output", value_name = "FORMAT", global = true)]
    pub(crate) output_format: Option<OutputFormat>,

    /// Print JSON Lines, the same as `-o jsonl`; errors are also JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Print only values; in lists, print only names
    #[arg(short, long, global = true)]
    pub(crate) terse: bool,

    /// Also print the time and quality
    #[arg(short = 'a', long, global = true)]
    pub(crate) wide: bool,

    /// Style of times: date and time, seconds since the start of the command, seconds since the
    /// previous line of the same variable, seconds since 1970, or none
    #[arg(long, value_name = "STYLE", global = true)]
    pub(crate) time: Option<TimeStyle>,

    /// Time to print: the time at which the value was measured, accepted by the engine, or received
    /// by this command
    #[arg(long, value_name = "CLOCK", default_value = "source", global = true)]
    pub(crate) clock: ClockChoice,

    /// Print times in UTC instead of local time
    #[arg(long, global = true)]
    pub(crate) utc: bool,

    /// Number of decimal places; default: the precision in the variable's configuration
    #[arg(
        short = 'f',
        long,
        value_name = "DIGITS",
        value_parser = number::<u8>(0..=17),
        allow_negative_numbers = true,
        global = true
    )]
    pub(crate) precision: Option<u8>,

    /// Print floating-point numbers as 1.23e4, with this number of decimal places
    #[arg(
        short = 'e',
        long,
        value_name = "DIGITS",
        value_parser = number::<u8>(0..=17),
        allow_negative_numbers = true,
        conflicts_with = "precision",
        global = true
    )]
    pub(crate) scientific: Option<u8>,

    /// Print floating-point numbers with this number of significant digits
    #[arg(
        short = 'g',
        long,
        value_name = "DIGITS",
        value_parser = number::<u8>(1..=17),
        allow_negative_numbers = true,
        conflicts_with_all = ["precision", "scientific"],
        global = true
    )]
    pub(crate) significant: Option<u8>,

    /// Print integers in hexadecimal
    #[arg(long, global = true)]
    pub(crate) hex: bool,

    /// Print enums as numbers instead of labels
    #[arg(short = 'n', long, global = true)]
    pub(crate) enum_number: bool,

    /// Maximum number of array elements to print; default: 8 in a table, all in plain output. The
    /// other formats print all elements
    #[arg(
        short = '#',
        long,
        value_name = "COUNT",
        value_parser = number::<usize>(0..=u64::MAX),
        allow_negative_numbers = true,
        global = true
    )]
    pub(crate) elements: Option<usize>,

    /// Template for readings, such as '{name} {value}'; `trunkline help get` lists the placeholders
    #[arg(long = "format", value_name = "TEMPLATE", global = true)]
    pub(crate) template: Option<String>,

    /// Print 64-bit integers as strings in JSON, for programs that read all numbers as floating
    /// point
    #[arg(long, global = true)]
    pub(crate) int_strings: bool,

    /// Leave out names that match this pattern; may be given several times
    #[arg(long, value_name = "PATTERN", global = true)]
    pub(crate) exclude: Vec<String>,
}

impl GlobalArgs {
    pub(crate) fn digits(&self) -> Option<Digits> {
        let fixed = self.precision.map(Digits::Fixed);
        let scientific = self.scientific.map(Digits::Scientific);
        fixed
            .or(scientific)
            .or(self.significant.map(Digits::Significant))
    }
}

/// Output formats.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum OutputFormat {
    /// Aligned columns for people
    Table,
    /// Tab-separated columns
    Plain,
    /// One JSON array
    Json,
    /// One JSON object per line
    Jsonl,
    /// Comma-separated values with a header
    Csv,
}

/// How times are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum TimeStyle {
    /// 2026-11-20 21:39:04.123456
    Abs,
    /// Seconds since the command started
    Rel,
    /// Seconds since the previous line of the same variable
    #[value(name = "inc")]
    Delta,
    /// Seconds since 1970-01-01 UTC
    Unix,
    /// No time
    None,
}

/// Which time is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum ClockChoice {
    /// When the value was measured
    Source,
    /// When the engine accepted the value
    Engine,
    /// When the value arrived at this command
    Local,
}

/// Returns a parser for whole numbers within `range`.
pub(crate) fn number<N: TryFrom<u64> + 'static>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<N, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        let number = number.and_then(|number| N::try_from(number).ok());
        let (min, max) = (range.start(), range.end());
        number.ok_or_else(|| match *max {
            u64::MAX => format!("it must be a whole number, {min} or more"),
            max => format!("it must be a whole number from {min} to {max}"),
        })
    }
}

/// Parses a duration such as `2`, `2s` or `500ms`; a bare number is in seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let message = match text.strip_prefix('-') {
        Some(time) if parse_duration(time).is_some() => "a time cannot be negative",
        _ => {
            "not a time; use a number of seconds, or a number with a unit: ns, us, ms, s, m, h or d"
        }
    };
    parse_duration(text).ok_or_else(|| message.to_owned())
}

pub(crate) fn data_type(text: &str) -> Result<DataType, String> {
    parse_type(text).map_err(|error| error.to_string())
}

/// Parses a number greater than zero.
#[cfg(target_os = "linux")]
pub(crate) fn positive(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.parse().ok();
    let number = number.filter(|number| number.is_normal() && *number > 0.0);
    number.ok_or_else(|| "use a number greater than 0, such as 100 or 0.5".to_owned())
}

/// Parses a duration greater than zero.
pub(crate) fn positive_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("it must be longer than 0".to_owned()),
        duration => Ok(duration),
    }
}
