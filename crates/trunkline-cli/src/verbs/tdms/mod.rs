//! `tdms`: reads, checks, repairs and converts TDMS files, without an engine.
//!
//! # Layout
//! - `opened`: opens a file named on the command line, and describes its defects. `output_file`: the
//!   destination of a new file, written completely or not at all.
//! - `columns`: the selected channels, and the cells of a row. `rows`: selects rows by number or by
//!   time; `times`: selects rows by a channel of times in the group. `blocks`: reads rows in blocks, in
//!   bounded memory.
//! - `sums`: compares a file with the checksums next to it.
//! - `info`, `cat`, `convert`, `verify`, `repair`: the subcommands; `events`: their results.
//! - `text`: rows for people, JSON and CSV; `arrow`: rows for Arrow IPC and Parquet.

mod arrow;
mod blocks;
mod cat;
pub(crate) mod columns;
mod convert;
pub(crate) mod events;
pub(crate) mod info;
pub(crate) mod opened;
pub(crate) mod output_file;
mod repair;
mod rows;
pub(crate) mod sums;
pub(crate) mod text;
mod times;
pub(crate) mod verify;

use std::path::PathBuf;

use crate::{CliError, Context, Exit};

/// Read, check, repair and convert TDMS files
///
/// `tdms` needs no engine. A channel is named `group/channel`. If a group or channel name contains
/// `/`, `#`, `%` or `*`, write `%2F`, `%23`, `%25` or `%2A` instead. The path syntax of TDMS,
/// `/'group'/'channel'`, is also accepted, and so is `boiler/level/value` if `boiler/level` is a
/// recorded variable.
///
/// Files are read in pieces, so they can be of any size. A file that was not closed, or whose end
/// is missing, is read as far as possible, and a message describes the missing part.
///
/// If `x.tdms.sums`, which `record start --sums` writes, is next to `x.tdms`, `verify`, `repair`,
/// `convert` and `defrag` compare every segment with its checksum.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    Info(info::Args),
    /// Print rows
    ///
    /// Row `n` holds value `n` of each selected channel; the first row is 0. Columns are named
    /// group/channel, such as `boiler/level/value`; `%2F` is shown as `/` where the name stays
    /// unambiguous. Qualities of recorded variables are printed as words, such as `good`. Values
    /// are scaled with the scales of the file, unless --raw is given.
    Cat(cat::Args),
    /// Print the first rows (10 unless --count is given)
    Head(cat::Args),
    Convert(Box<convert::Args>),
    Verify(verify::Args),
    Repair(repair::Args),
    Defrag(convert::DefragArgs),
}

/// Options that select rows, and their format.
#[derive(Clone, Debug, Default, clap::Args)]
struct RowArgs {
    /// Only channels that match, such as 'daq/*'; may be given several times
    #[arg(long, value_name = "PATTERN")]
    channel: Vec<String>,

    /// Start at this row: a row number from 0, a time since the first row such as 1.5s, or a time
    /// such as 2026-11-20T21:39:04, 14:30 or yesterday; in a recording of several variables, times
    /// also need a --channel that selects one group
    #[arg(long, value_name = "ROW", allow_hyphen_values = true)]
    from: Option<String>,

    /// Stop before this row; same format as --from
    #[arg(long, value_name = "ROW", allow_hyphen_values = true)]
    to: Option<String>,

    /// Maximum number of rows
    #[arg(
        long,
        value_name = "N",
        value_parser = crate::arguments::number::<u64>(0..=u64::MAX),
        allow_negative_numbers = true
    )]
    count: Option<u64>,

    /// Use the stored numbers, without scaling
    #[arg(long)]
    raw: bool,

    /// In CSV, put a `'` before text that begins like a formula (`=`, `+`, `-`, `@`), so that
    /// spreadsheets show it as text; by default, such text is written as a JSON string, which
    /// spreadsheets do not evaluate either
    #[arg(long)]
    spreadsheet: bool,
}

/// The output file.
#[derive(Clone, Debug, clap::Args)]
struct OutArgs {
    /// The file to write; `-` is standard output
    #[arg(value_name = "OUT")]
    path: PathBuf,

    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(command: &Subcommand, context: &Context) -> Result<Exit, CliError> {
    match command {
        Subcommand::Info(args) => info::run(args, context),
        Subcommand::Cat(args) => cat::run(args, args.rows.count, context),
        Subcommand::Head(args) => cat::run(args, args.rows.count.or(Some(HEAD)), context),
        Subcommand::Convert(args) => convert::run(args, context),
        Subcommand::Verify(args) => verify::run(args, context),
        Subcommand::Repair(args) => repair::run(args, context),
        Subcommand::Defrag(args) => convert::defrag(args, context),
    }
}

/// Default number of rows that `tdms head` prints.
const HEAD: u64 = 10;
