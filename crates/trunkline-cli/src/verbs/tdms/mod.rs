//! `tdms`: files of measured values, without an engine.
//!
//! # Layout
//! - `opened`: opens a file of the command line, and describes its defects. `place`: the
//!   destination of a new file, written completely or not at all.
//! - `columns`: the selected channels, and the cells of a row. `rows`: selects rows by number or by
//!   time; `times`: by a channel of times in the group. `blocks`: reads rows in blocks, in bounded
//!   memory.
//! - `sums`: the checksums beside a file.
//! - `info`, `cat`, `convert`, `verify`, `repair`: the verbs. `text`: rows for people, JSON and
//!   CSV; `arrow`: rows for Arrow IPC and Parquet.

mod arrow;
mod blocks;
mod cat;
mod checks;
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

/// Look into TDMS files, check them, mend them and turn them into other forms
///
/// It needs no engine. A channel is called `group/channel`, in which `%2F`, `%23`, `%25` and `%2A`
/// stand for `/`, `#`, `%` and `*` of the file's own names; a name as the file writes it,
/// `/'group'/'channel'`, is understood, too, and so is `boiler/level/value` where `boiler/level` is
/// a recorded variable. Rows are the values of the chosen channels with the same number, from 0.
/// Columns are named as the file names them, `boiler/level/value`, where that is unambiguous, and
/// qualities of recorded variables are words. Values are scaled as the file says, unless --raw is
/// given.
///
/// A file of any size is read piece by piece. One that was not closed, or lost its end, is read as
/// far as it goes, and it is said what is missing.
///
/// Examples: `trunkline tdms info run.tdms`, `trunkline tdms head run.tdms --channel 'daq/*'`,
/// `trunkline tdms cat run.tdms --from 10s --to 20s -o csv`,
/// `trunkline tdms convert run.tdms run.parquet`, `trunkline tdms verify run.tdms`,
/// `trunkline tdms repair run.tdms --dry-run`.
///
/// `verify` reads every byte, lists what is wrong and at which byte, and ends with 8 when it found
/// something. `repair` cuts off a last segment that is not whole, keeps what it cuts off in
/// `FILE.cut`, and never changes a byte before it; with OUT it leaves FILE alone, and keeps more.
/// Damage before the end is not cut: what is sound behind it is read, and `defrag` writes it into a
/// file that every reader opens. Where `x.tdms.sums` lies beside `x.tdms`, as
/// `record start --sums` makes it, both compare every segment with its checksum: `repair` cuts off
/// what is wrong at the end, and with `--unsummed cut` what has no checksum there. `convert` and
/// `defrag` write OUT whole or not at all, and end with 8 when FILE was not whole.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// What to do
    #[arg(value_name = "VERB")]
    verb: Order,

    /// The file
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// convert, defrag, repair: the file to write; of convert also -, standard output
    #[arg(
        value_name = "OUT",
        required_if_eq_any([("verb", "convert"), ("verb", "defrag")])
    )]
    out: Option<PathBuf>,

    /// Only channels that match, such as 'daq/*'; may be given several times
    #[arg(long, value_name = "PATTERN")]
    channel: Vec<String>,

    /// cat, head, convert: begin with this row; a number from 0, a time since the first row such as
    /// 1.5s, or a time such as 2026-11-20T21:39:04, 14:30 or yesterday; of variables that were
    /// recorded, times of one group
    #[arg(long, value_name = "ROW", allow_hyphen_values = true)]
    from: Option<String>,

    /// cat, head, convert: end before this row
    #[arg(long, value_name = "ROW", allow_hyphen_values = true)]
    to: Option<String>,

    /// cat, head, convert: so many rows at most; head shows 10 unless said otherwise
    #[arg(long, value_name = "N")]
    count: Option<u64>,

    /// cat, head, convert: the numbers as they were recorded, not scaled
    #[arg(long)]
    raw: bool,

    /// convert: what OUT is, where its name does not say so
    #[arg(long = "as", value_name = "FORM")]
    out_form: Option<OutForm>,

    /// cat, head, convert: in CSV, all text that begins as a formula does (`=`, `+`, `-`, `@`) gets
    /// a `'` in front, as people write text in a spreadsheet; otherwise a formula is written as a
    /// JSON string, which no spreadsheet computes either
    #[arg(long)]
    spreadsheet: bool,

    /// convert, defrag, repair: replace OUT if it is there
    #[arg(long)]
    force: bool,

    /// repair: only say what would be done
    #[arg(long)]
    dry_run: bool,

    /// repair: what becomes of values at the end that have no checksum, where others have
    #[arg(long, value_name = "CHOICE")]
    unsummed: Option<EndWithoutSums>,
}

/// What becomes of an end without checksums.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum EndWithoutSums {
    /// They stay, as they do unless told otherwise
    Keep,
    /// They are cut off: after a loss of power they can be wrong
    Cut,
}

/// What can be done with a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Order {
    /// What is in it
    Info,
    /// Print rows
    Cat,
    /// Print the first rows
    Head,
    /// Write it in another form
    Convert,
    /// Read all of it, and say what is wrong
    Verify,
    /// Cut off what is not whole
    Repair,
    /// Write it anew, all values of a channel together
    Defrag,
}

/// Forms of a file that is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum OutForm {
    /// Comma-separated values with a header
    Csv,
    /// A JSON object per row
    Jsonl,
    /// Arrow IPC, the file format; the stream format on standard output
    Arrow,
    /// Parquet, compressed with Snappy
    Parquet,
    /// TDMS 2.0, all values of a channel together
    Tdms,
    /// TDMS 1.0, the same
    Tdms1,
}

pub(crate) const VERB: Verb = Verb {
    name: "tdms",
    writes: true,
    exits: &[
        Exit::Done,
        Exit::SomeFailed,
        Exit::Usage,
        Exit::Found,
        Exit::Interrupted,
    ],
    verbs: &[],
};

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Stop> {
    checks::check(args)?;
    match args.verb {
        Order::Info => info::run(args, context),
        Order::Cat | Order::Head => cat::run(args, context),
        Order::Convert => convert::run(args, context),
        Order::Defrag => convert::defrag(args, context),
        Order::Verify => verify::run(args, context),
        Order::Repair => repair::run(args, context),
    }
}
