//! `tdms repair`: cuts off the incomplete end of a file. A repair in place changes nothing before the
//! cut.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use trunkline_tdms::{
    Fault, LEAD_IN_BYTES, ReadAt, Repair, RepairMode, TdmsFile, UncheckedSegments,
};

use super::events::{Cut, Repaired, TdmsEvent};
use super::opened::{
    escaped, escaped_path, findings, index_name, index_of, not_readable, open_alone, open_verified,
    source,
};
use super::output_file::OutputFile;
use super::sums::{Compared, compare};
use crate::problem::folder_reason;
use crate::replace::replace;
use crate::terminal::is_stdio;
use crate::{CliError, Context, Exit, Problem, counted};

const PIECE_BYTES: u64 = 256 * 1024;

/// Cut off the incomplete or damaged end of a file
///
/// Without OUT, the command truncates FILE and saves the removed part as `FILE.cut`; the bytes
/// before the cut do not change. With OUT, the command does not change FILE; it writes a repaired
/// copy to OUT, in which more values can be kept. Damage elsewhere in the file is not repaired; `tdms
/// defrag` writes a copy without the damaged parts.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The TDMS file to repair
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The file to write, instead of truncating FILE
    #[arg(value_name = "OUT")]
    out: Option<PathBuf>,

    /// Replace OUT, or `FILE.cut`, if it exists
    #[arg(long)]
    force: bool,

    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,

    /// What to do with values without a checksum at the end of the file, if earlier values have
    /// checksums
    #[arg(long, value_name = "CHOICE", default_value = "keep")]
    unsummed: EndWithoutSums,
}

/// What to do with values without checksums at the end of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum EndWithoutSums {
    /// Keep the values
    Keep,
    /// Cut off the values, because they can be wrong after a power failure
    Cut,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let path = args.file.as_path();
    let Opened {
        file,
        compared,
        values_left_out,
    } = open(args)?;
    // A repair that writes a copy may also change the eight bytes of a length, which keeps more values.
    let mode = match args.out {
        None => RepairMode::Remove,
        Some(_) => RepairMode::Close,
    };
    let Some(mut repair) = file
        .repair(mode)
        .map_err(|error| failed(path, "cannot be read", &error))?
    else {
        return nothing_to_cut(&file, compared.as_ref(), args, context);
    };
    repair.values_lost += values_left_out;
    if repair.length == 0 {
        let finding = escaped(&repair.finding.to_string());
        let message = format!(
            "{}: {finding}; a repair would remove the whole file",
            escaped_path(path)
        );
        let problem = Problem::from_message("nothing-left", message);
        return Err(problem.with_hint(nothing_left(&file, args)?).into());
    }
    let other_findings = findings(&file).len().saturating_sub(1);
    let other_findings = other_findings + remaining_findings(compared.as_ref(), repair.length);
    if args.dry_run {
        report_repair(&repair, args, other_findings, context)?;
        return Ok(Exit::ProblemsFound);
    }
    match &args.out {
        None => {
            let cut_file = save_cut(path, &file, &repair, args.force)?;
            cut(path, &file, &repair).map_err(|error| failed(path, "cannot be cut", &error))?;
            if let Some(cut_file) = cut_file {
                context.notify(&TdmsEvent::TdmsKept {
                    file: cut_file.display().to_string(),
                    original: path.display().to_string(),
                })?;
            }
            rewrite_index(path, context)?;
            if let Some(compared) = &compared {
                compared
                    .shorten(repair.length)
                    .map_err(|error| failed(&compared.path, "cannot be cut", &error))?;
            }
        }
        Some(out) => {
            if let Some(exit) = copy(&file, &repair, out, args, context)? {
                return Ok(exit);
            }
        }
    }
    report_repair(&repair, args, other_findings, context)?;
    Ok(Exit::ProblemsFound.when(other_findings > 0))
}

fn nothing_left(file: &TdmsFile<File>, args: &Args) -> Result<String, Problem> {
    let path = args.file.as_path();
    let closed = file.repair(RepairMode::Close);
    let closed = closed.map_err(|error| failed(path, "cannot be read", &error))?;
    Ok(match closed {
        Some(closed) if closed.length > 0 => format!(
            "`trunkline tdms repair {} OUT` keeps the intact part of its only segment",
            escaped_path(path)
        ),
        _ => "the file has no intact segment; delete the file, or keep it unchanged".to_owned(),
    })
}

struct Opened {
    /// The file, opened at least up to the end of the part that is kept.
    file: TdmsFile<File>,
    compared: Option<Compared>,
    /// Number of readable values that are left out, because no checksum confirms them.
    values_left_out: u64,
}

fn open(args: &Args) -> Result<Opened, Problem> {
    let path = args.file.as_path();
    let unchecked = match args.unsummed {
        EndWithoutSums::Cut => UncheckedSegments::Remove,
        EndWithoutSums::Keep => UncheckedSegments::Keep,
    };
    let file = open_alone(path)?;
    let compared = compare(path, &file)?;
    let length = file.source().byte_len();
    let length = length.map_err(|error| failed(path, "cannot be read", &error))?;
    let cut = compared
        .as_ref()
        .filter(|compared| compared.cut(unchecked, length).is_some());
    let (file, values_left_out) = match cut {
        Some(compared) => open_verified(path, &compared.path, unchecked)?,
        None => (file, 0),
    };
    Ok(Opened {
        file,
        compared,
        values_left_out,
    })
}

/// Returns the number of checksum findings that remain if the file is cut to `length` bytes.
fn remaining_findings(compared: Option<&Compared>, length: u64) -> usize {
    compared.map_or(0, |compared| {
        let findings = &compared.check.findings;
        findings
            .iter()
            .filter(|finding| finding.position < length)
            .count()
    })
}

/// Handles a file with an intact end. Its index file may still belong to another file.
fn nothing_to_cut(
    file: &TdmsFile<File>,
    compared: Option<&Compared>,
    args: &Args,
    context: &Context,
) -> Result<Exit, CliError> {
    let path = args.file.as_path();
    let mut is_index_written = false;
    // With OUT, neither FILE nor the files next to it are changed.
    if let Some(index) = index_of(path).filter(|_| args.out.is_none()) {
        let verified = file.verify(Some(&source(&index)?));
        let verified = verified.map_err(|error| not_readable(path, &error))?;
        if verified.is_index_equal == Some(false) {
            if args.dry_run {
                let summary = format!("{}: would be rewritten", escaped_path(&index));
                context.notify(&TdmsEvent::TdmsRepaired(Repaired {
                    index: Some("would-be-written"),
                    ..Repaired::new(path, summary)
                }))?;
                return Ok(Exit::ProblemsFound);
            }
            rewrite_index(path, context)?;
            is_index_written = true;
        }
    }
    let strings = file.damaged_strings();
    let strings = strings.map_err(|error| not_readable(path, &error))?;
    let other_findings =
        (findings(file).len() + strings.len() + remaining_findings(compared, u64::MAX)) as u64;
    if !is_index_written {
        let (path_shown, not_written) = (escaped_path(path), out_not_written(args));
        let summary = match other_findings {
            0 => format!("{path_shown}: there is nothing to repair{not_written}"),
            _ => format!(
                "{path_shown}: its end is intact; {} remain, which `trunkline tdms verify` \
                 lists{not_written}",
                counted(other_findings, "finding"),
            ),
        };
        context.notify(&TdmsEvent::TdmsRepaired(Repaired {
            done: Some("nothing"),
            findings: Some(other_findings as usize),
            ..Repaired::new(path, summary)
        }))?;
    }
    Ok(Exit::ProblemsFound.when(other_findings > 0))
}

fn out_not_written(args: &Args) -> String {
    let text = |out: &PathBuf| format!("; {} is not written", escaped_path(out));
    args.out.as_ref().map(text).unwrap_or_default()
}

fn report_repair(
    repair: &Repair,
    args: &Args,
    other_findings: usize,
    context: &Context,
) -> Result<(), CliError> {
    let (cut_text, removed_text) = match args.dry_run {
        true => ("would be cut", "would be removed"),
        false => ("was cut", "were removed"),
    };
    let into = args
        .out
        .as_ref()
        .map(|out| format!(", in {}", escaped_path(out)));
    let into = into.unwrap_or_default();
    let remaining = match other_findings {
        0 => String::new(),
        count => format!("; {} remain", counted(count as u64, "finding")),
    };
    let summary = format!(
        "{}: {}\nthe file {cut_text} at byte {}{into}: {} and {} {removed_text}{remaining}",
        escaped_path(&args.file),
        escaped(&repair.finding.to_string()),
        repair.length,
        counted(repair.bytes_lost, "byte"),
        counted(repair.values_lost, "readable value"),
    );
    context.notify(&TdmsEvent::TdmsRepaired(Repaired {
        done: Some(if args.dry_run { "nothing" } else { "cut" }),
        out: args.out.as_ref().map(|out| out.display().to_string()),
        cut: Some(Cut {
            byte: repair.finding.position,
            what: repair.finding.fault.to_string(),
            length: repair.length,
            bytes_lost: repair.bytes_lost,
            values_lost: repair.values_lost,
        }),
        findings: Some(other_findings),
        ..Repaired::new(&args.file, summary)
    }))
}

fn cut(path: &Path, file: &TdmsFile<File>, repair: &Repair) -> io::Result<()> {
    let expected_length = repair.length.saturating_add(repair.bytes_lost);
    if file.source().byte_len()? != expected_length {
        return Err(io::Error::other(
            "another program has changed the file during the repair; stop that program, and repeat \
             the repair",
        ));
    }
    let file = OpenOptions::new().write(true).open(path)?;
    file.set_len(repair.length)?;
    file.sync_all()
}

fn cut_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".cut");
    name.into()
}

/// Saves the bytes that will be cut off to a separate file, and syncs it. Saves nothing if they are
/// only the remains of a killed recorder: the lead-in of the next segment, and zeros.
fn save_cut(
    path: &Path,
    file: &TdmsFile<File>,
    repair: &Repair,
    is_forced: bool,
) -> Result<Option<PathBuf>, Problem> {
    let cut_file = cut_name(path);
    let not_saved = |error: &io::Error| {
        let mut problem = failed(&cut_file, "cannot be written, so nothing is cut", error);
        if error.kind() == io::ErrorKind::AlreadyExists {
            problem.message = format!(
                "{} already exists, with the bytes that an earlier repair cut off",
                escaped_path(&cut_file)
            );
            problem.hint = Some("move it, overwrite it with --force, or specify OUT".to_owned());
        }
        problem
    };
    let end = repair.length.saturating_add(repair.bytes_lost);
    let is_unwritten = matches!(repair.finding.fault, Fault::Unwritten { .. });
    let lead_in_bytes = if is_unwritten { LEAD_IN_BYTES } else { 0 };
    let mut pieces = Pieces {
        file,
        position: repair.length.saturating_add(lead_in_bytes),
        end,
        piece: Vec::new(),
    };
    let mut is_zero = true;
    while let Some(piece) = pieces.next().map_err(|error| not_saved(&error))? {
        is_zero &= piece.iter().all(|byte| *byte == 0);
        if !is_zero {
            break;
        }
    }
    if is_zero {
        return Ok(None);
    }
    let mut options = OpenOptions::new();
    options.write(true);
    match is_forced {
        true => options.create(true).truncate(true),
        false => options.create_new(true),
    };
    let mut out = options.open(&cut_file).map_err(|error| not_saved(&error))?;
    pieces.position = repair.length;
    let mut copied = Ok(());
    while let Some(piece) = pieces.next().map_err(|error| not_saved(&error))? {
        copied = out.write_all(piece);
        if copied.is_err() {
            break;
        }
    }
    copied
        .and_then(|()| out.sync_all())
        .map_err(|error| not_saved(&error))?;
    Ok(Some(cut_file))
}

/// Reads a range of a file in pieces.
struct Pieces<'a> {
    file: &'a TdmsFile<File>,
    position: u64,
    end: u64,
    piece: Vec<u8>,
}

impl Pieces<'_> {
    fn next(&mut self) -> io::Result<Option<&[u8]>> {
        let remaining = self.end.saturating_sub(self.position);
        self.piece.resize(remaining.min(PIECE_BYTES) as usize, 0);
        if self.piece.is_empty() {
            return Ok(None);
        }
        self.file
            .source()
            .read_exact_at(&mut self.piece, self.position)?;
        self.position += self.piece.len() as u64;
        Ok(Some(&self.piece))
    }
}

/// Copies the part to keep to another file. Returns the exit code if interrupted.
fn copy(
    file: &TdmsFile<File>,
    repair: &Repair,
    path: &Path,
    args: &Args,
    context: &Context,
) -> Result<Option<Exit>, CliError> {
    if is_stdio(path) {
        let sentence =
            "the repaired file cannot be written to standard output; give the name of a file";
        return Err(Problem::usage(sentence).into());
    }
    let mut out = OutputFile::new(path, Some(&args.file), args.force, context)?;
    out.expected = Some(repair.length);
    let watch = out.watch();
    let mut piece = Vec::new();
    let mut position = 0;
    while position < repair.length {
        piece.resize((repair.length - position).min(PIECE_BYTES) as usize, 0);
        file.source()
            .read_exact_at(&mut piece, position)
            .map_err(|error| failed(&args.file, "cannot be read", &error))?;
        patch(&mut piece, position, repair);
        if let Err(error) = out.write_all(&piece) {
            return watch.failed(path, &error).map(Some);
        }
        position += piece.len() as u64;
    }
    out.finish(path)?;
    Ok(None)
}

/// Overwrites the bytes of a piece that the repair changes. The piece begins at `position`.
fn patch(piece: &mut [u8], position: u64, repair: &Repair) {
    let Some((patch_position, bytes)) = repair.patch else {
        return;
    };
    for (byte, byte_position) in bytes.into_iter().zip(patch_position..) {
        let offset = byte_position
            .checked_sub(position)
            .and_then(|n| usize::try_from(n).ok());
        if let Some(target) = offset.and_then(|offset| piece.get_mut(offset)) {
            *target = byte;
        }
    }
}

fn rewrite_index(path: &Path, context: &Context) -> Result<(), CliError> {
    let index = index_name(path);
    if !index.is_file() {
        return Ok(());
    }
    let file = open_alone(path)?;
    replace(&index, true, |out| {
        let mut out = io::BufWriter::new(out);
        file.write_index(&mut out)?;
        out.flush()
    })
    .map_err(|error| failed(&index, "cannot be written", &error))?;
    context.notify(&TdmsEvent::TdmsIndexWritten {
        file: index.display().to_string(),
    })
}

fn failed(path: &Path, problem: &str, error: &io::Error) -> Problem {
    let sentence = format!("{} {problem}: {}", escaped_path(path), folder_reason(error));
    Problem::failed("not-repaired", sentence)
}
