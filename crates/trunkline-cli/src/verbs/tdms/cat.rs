//! `tdms cat` and `tdms head`: print rows to standard output.

use std::path::PathBuf;

use super::RowArgs;
use super::blocks::{Blocks, report_unreadable};
use super::columns::columns;
use super::opened::{open, report_defects};
use super::rows::{Axis, RowTime, range, report_no_rows};
use super::text::Lines;
use crate::arguments::OutputFormat;
use crate::settings::Columns;
use crate::{CliError, Context, Exit, Problem};

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The TDMS file to read
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    pub(super) rows: RowArgs,
}

pub(super) fn run(args: &Args, count: Option<u64>, context: &Context) -> Result<Exit, CliError> {
    let settings = &context.settings;
    if matches!(settings.columns, Columns::Template(_)) {
        let sentence = "--format is for readings: get, monitor and put; use -o csv";
        return Err(Problem::usage(sentence).into());
    }
    let file = open(&args.file)?;
    report_defects(&file, &args.file, context)?;
    let columns = columns(&file, &args.rows, context)?;
    let axis = Axis::of(&columns);
    let now = context.now();
    let range = range(&file, &args.rows, count, &columns, axis.as_ref(), &now)?;
    report_no_rows(&args.rows, &columns, range, context)?;
    let is_terse = settings.columns == Columns::Terse;
    let start = match axis.map(|axis| axis.at(range.0)) {
        Some(RowTime::Time(time)) => time,
        _ => context.started,
    };
    // `--time none` omits the column of times.
    let times = settings.times.column(true, start).filter(|_| !is_terse);
    let axis = axis.filter(|_| times.is_some());
    let times = times.filter(|_| settings.output_format.is_for_people());
    let lines = Lines::new(
        settings.output_format,
        &columns,
        axis,
        times,
        settings.values,
    );
    let mut lines = lines.guarded_if(args.rows.spreadsheet);
    if settings.output_format == OutputFormat::Json {
        context.terminal.begin_list();
    }
    if let Some(header) = lines.header().filter(|_| !is_terse) {
        context.terminal.line(&header)?;
    }
    let mut blocks = Blocks::new(&columns, range);
    while let Some(block) = blocks.next()? {
        lines.write(&block, |line| context.terminal.line(line))?;
    }
    let is_unreadable = report_unreadable(blocks.unreadable(), context)?;
    Ok(Exit::ProblemsFound.when(is_unreadable))
}
