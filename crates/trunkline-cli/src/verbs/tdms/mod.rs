//! `tdms`: files of measured values, without an engine.
//!
//! # Layout
//! - `opened`: opens a file of the command line, and describes its defects. `place`: the
//!   destination of a new file, written completely or not at all.
//! - `columns`: the selected channels, and the cells of a row. `rows`: selects rows by number or by
//!   time; `times`: by a channel of times in the group. `blocks`: reads rows in blocks, in bounded
//!   memory.
//! - `sums`: the checksums beside a file.
//! - `info`, `cat`, `convert`, `verify`, `repair`: the subcommands. `text`: rows for people, JSON
//!   and CSV; `arrow`: rows for Arrow IPC and Parquet.

mod arrow;
mod blocks;
mod cat;
pub(crate) mod columns;
mod convert;
mod info;
pub(crate) mod opened;
mod place;
mod repair;
mod rows;
pub(crate) mod sums;
mod text;
mod times;
mod verify;

use std::path::PathBuf;

use super::{Context, Verb};
use crate::exit::Exit;
use crate::problem::Stop;

/// Read, check, repair and convert TDMS files
///
/// `tdms` needs no engine. A channel is named `group/channel`; `%2F`, `%23`, `%25` and `%2A` stand
/// for `/`, `#`, `%` and `*` in the names of the file. A name as the file writes it,
/// `/'group'/'channel'`, is accepted too, and so is `boiler/level/value` if `boiler/level` is a
/// recorded variable.
///
/// A file of any size is read in pieces. A file that was not closed, or that lost its end, is read
/// as far as possible, and a message names what is missing.
///
/// If `x.tdms.sums` lies beside `x.tdms`, as `record start --sums` writes it, `verify`, `repair`,
/// `convert` and `defrag` compare every segment with its checksum.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    Info(info::Args),
    /// Print rows
    ///
    /// Row `n` holds value `n` of each selected channel; the first row is 0. Columns have the names
    /// that the file gives them, `boiler/level/value`, where these are unambiguous. Qualities of
    /// recorded variables are words. Values are scaled with the scales of the file, unless --raw is
    /// given.
    Cat(cat::Args),
    /// Print the first rows: 10, or --count
    Head(cat::Args),
    Convert(Box<convert::Args>),
    Verify(verify::Args),
    Repair(repair::Args),
    Defrag(convert::DefragArgs),
}

/// The selected rows, and how they are written.
#[derive(Clone, Debug, Default, clap::Args)]
struct RowArgs {
    /// Only channels that match, such as 'daq/*'; may be given several times
    #[arg(long, value_name = "PATTERN")]
    channel: Vec<String>,

    /// Begin with this row: a number from 0, a time since the first row such as 1.5s, or a time
    /// such as 2026-11-20T21:39:04, 14:30 or yesterday; for recorded variables, of one group
    #[arg(long, value_name = "ROW", allow_hyphen_values = true)]
    from: Option<String>,

    /// End before this row
    #[arg(long, value_name = "ROW", allow_hyphen_values = true)]
    to: Option<String>,

    /// The maximum number of rows
    #[arg(long, value_name = "N")]
    count: Option<u64>,

    /// The numbers as they were recorded, not scaled
    #[arg(long)]
    raw: bool,

    /// In CSV, put a `'` before all text that begins like a formula (`=`, `+`, `-`, `@`), as people
    /// write text in a spreadsheet; otherwise such text is a JSON string, which no spreadsheet
    /// computes either
    #[arg(long)]
    spreadsheet: bool,
}

/// A file that is written.
#[derive(Clone, Debug, clap::Args)]
struct OutArgs {
    /// The file to write; `-` is standard output
    #[arg(value_name = "OUT")]
    path: PathBuf,

    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,
}

/// Exit codes of subcommands that may find damage.
const EXITS: &[Exit] = &[
    Exit::Done,
    Exit::SomeFailed,
    Exit::Usage,
    Exit::Found,
    Exit::Interrupted,
];

pub(crate) const VERB: Verb = Verb::group(
    "tdms",
    &[
        Verb::reading(
            "info",
            &[Exit::Done, Exit::SomeFailed, Exit::Usage, Exit::Interrupted],
        ),
        Verb::reading("cat", EXITS),
        Verb::reading("head", EXITS),
        Verb::writing("convert", EXITS),
        Verb::reading("verify", EXITS),
        Verb::writing("repair", EXITS),
        Verb::writing("defrag", EXITS),
    ],
);

pub(crate) fn run(command: &Subcommand, context: &Context) -> Result<Exit, Stop> {
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

/// Number of rows that `head` shows by default.
const HEAD: u64 = 10;
