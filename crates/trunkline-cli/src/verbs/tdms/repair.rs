//! `tdms repair`: cuts off the incomplete end. In place, nothing before the cut is changed.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use trunkline_tdms::{Fault, LEAD_IN_BYTES, Mending, ReadAt, Repair, TdmsFile, Unsummed};

use super::convert::tell;
use super::opened::{
    findings, index_name, index_of, open_alone, open_summed, plain, shown, source,
};
use super::place::{Out, is_standard};
use super::sums::{Compared, compare};
use crate::exit::Exit;
use crate::output::counted;
use crate::output::json::Object;
use crate::problem::{Problem, Stop};
use crate::replace::replace;
use crate::verbs::Context;

/// Bytes copied at a time.
const PIECE_BYTES: u64 = 256 * 1024;

/// Cut off the incomplete or damaged end of a file
///
/// Without OUT, FILE itself is cut. No byte before the cut is changed, and what is cut off stays in
/// `FILE.cut`. With OUT, FILE is not changed, and more values are kept. Damage before the end is
/// not cut; `defrag` writes a file without it, which every reader opens.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The file
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The file to write, instead of cutting FILE
    #[arg(value_name = "OUT")]
    out: Option<PathBuf>,

    /// Replace OUT, or `FILE.cut`, if it exists
    #[arg(long)]
    force: bool,

    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,

    /// What to do with values at the end that have no checksum, if others have one
    #[arg(long, value_name = "CHOICE", default_value = "keep")]
    unsummed: EndWithoutSums,
}

/// What to do with an end without checksums.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum EndWithoutSums {
    /// Keep them
    Keep,
    /// Cut them off: after a loss of power they can be wrong
    Cut,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Exit, Stop> {
    let path = args.file.as_path();
    let Opened {
        file,
        compared,
        values_left_out,
    } = open(args)?;
    // In another file the eight bytes of a length may change, which keeps more values.
    let mending = match args.out {
        None => Mending::Cut,
        Some(_) => Mending::Close,
    };
    let Some(mut repair) = file
        .repair(mending)
        .map_err(|error| failed(path, "cannot be read", &error))?
    else {
        return nothing_to_cut(&file, compared.as_ref(), args, context);
    };
    repair.values_lost += values_left_out;
    if repair.length == 0 {
        let mut problem = Problem::new(Exit::SomeFailed, "nothing-left", "");
        problem.message = format!(
            "{}: {}; nothing of the file would remain",
            shown(path),
            plain(&repair.finding.to_string())
        );
        problem.hint = Some(nothing_left(&file, args)?);
        return Err(problem.into());
    }
    let others = findings(&file).len().saturating_sub(1);
    let others = others + stay(compared.as_ref(), repair.length);
    if args.dry_run {
        say(&repair, args, others, context)?;
        return Ok(Exit::Found);
    }
    match &args.out {
        None => {
            let kept = keep(path, &file, &repair, args.force)?;
            cut(path, &file, &repair).map_err(|error| failed(path, "cannot be cut", &error))?;
            say_kept(path, kept.as_deref(), context)?;
            renew_index(path, context)?;
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
    say(&repair, args, others, context)?;
    Ok(match others {
        0 => Exit::Done,
        _ => Exit::Found,
    })
}

/// Returns the advice for a file of which nothing would be left.
fn nothing_left(file: &TdmsFile<File>, args: &Args) -> Result<String, Problem> {
    let path = args.file.as_path();
    let closed = file.repair(Mending::Close);
    let closed = closed.map_err(|error| failed(path, "cannot be read", &error))?;
    Ok(match closed {
        Some(closed) if closed.length > 0 => format!(
            "`trunkline tdms repair {} OUT` keeps the intact part of its only segment",
            shown(path)
        ),
        _ => "it has no intact segment; delete it, or keep it unchanged".to_owned(),
    })
}

/// The file to repair.
struct Opened {
    /// Opened as far as it is to be kept, or further.
    file: TdmsFile<File>,
    compared: Option<Compared>,
    /// Readable values that no checksum vouches for.
    values_left_out: u64,
}

fn open(args: &Args) -> Result<Opened, Problem> {
    let path = args.file.as_path();
    let unsummed = match args.unsummed {
        EndWithoutSums::Cut => Unsummed::Cut,
        EndWithoutSums::Keep => Unsummed::Keep,
    };
    let file = open_alone(path)?;
    let compared = compare(path, &file)?;
    let length = file.source().byte_len();
    let length = length.map_err(|error| failed(path, "cannot be read", &error))?;
    let cut = compared
        .as_ref()
        .filter(|compared| compared.cut(unsummed, length).is_some());
    let (file, values_left_out) = match cut {
        Some(compared) => open_summed(path, &compared.path, unsummed)?,
        None => (file, 0),
    };
    Ok(Opened {
        file,
        compared,
        values_left_out,
    })
}

/// Returns the number of checksum findings that remain if the file is cut to `length` bytes.
fn stay(compared: Option<&Compared>, length: u64) -> usize {
    compared.map_or(0, |compared| {
        let findings = &compared.check.findings;
        findings.iter().filter(|one| one.position < length).count()
    })
}

/// Handles a file with a proper end. Its index file may still belong to another file.
fn nothing_to_cut(
    file: &TdmsFile<File>,
    compared: Option<&Compared>,
    args: &Args,
    context: &Context,
) -> Result<Exit, Stop> {
    let path = args.file.as_path();
    let mut renewed = false;
    // With OUT, neither FILE nor the files beside it are changed.
    if let Some(index) = index_of(path).filter(|_| args.out.is_none()) {
        let is_same = file.verify(Some(&source(&index)?));
        let is_same = is_same
            .map_err(|error| {
                let sentence = format!("{}: {error}", shown(path));
                Problem::new(Exit::SomeFailed, "not-readable", &sentence)
            })?
            .is_index_same;
        if is_same == Some(false) {
            if args.dry_run {
                let summary = format!("{}: would be written anew", shown(&index));
                tell(event(args, "index", "would-be-written"), &summary, context)?;
                return Ok(Exit::Found);
            }
            renew_index(path, context)?;
            renewed = true;
        }
    }
    let strings = file.damaged_strings().map_err(|error| {
        let sentence = format!("{}: {error}", shown(path));
        Problem::new(Exit::SomeFailed, "not-readable", &sentence)
    })?;
    let others = (findings(file).len() + strings.len() + stay(compared, u64::MAX)) as u64;
    if !renewed {
        let summary = match others {
            0 => format!(
                "{}: there is nothing to repair{}",
                shown(path),
                unwritten(args)
            ),
            _ => format!(
                "{}: its end is whole; {} stay, which `trunkline tdms verify` lists{}",
                shown(path),
                counted(others, "finding"),
                unwritten(args)
            ),
        };
        let mut object = event(args, "done", "nothing");
        object.put("findings", others);
        tell(object, &summary, context)?;
    }
    Ok(match others {
        0 => Exit::Done,
        _ => Exit::Found,
    })
}

/// Returns a remark that the file named as OUT is not written.
fn unwritten(args: &Args) -> String {
    let out = args.out.as_deref();
    out.map_or_else(String::new, |out| {
        format!("; {} is not written", shown(out))
    })
}

fn event(args: &Args, key: &str, what: &str) -> Object {
    let mut object = Object::new();
    object.put("event", "tdms-repaired");
    object.put("file", args.file.display().to_string());
    object.put(key, what);
    object
}

/// Reports what was done, or would be.
fn say(repair: &Repair, args: &Args, others: usize, context: &Context) -> Result<(), Stop> {
    let mut object = event(
        args,
        "done",
        match args.dry_run {
            true => "nothing",
            false => "cut",
        },
    );
    if let Some(out) = &args.out {
        object.put("out", out.display().to_string());
    }
    object.put("byte", repair.finding.position);
    object.put("what", repair.finding.fault.to_string());
    object.put("length", repair.length);
    object.put("bytes_lost", repair.bytes_lost);
    object.put("values_lost", repair.values_lost);
    object.put("findings", others);
    let is_to_be = match args.dry_run {
        true => "would be cut",
        false => "was cut",
    };
    let into = match &args.out {
        Some(out) => format!(", in {}", shown(out)),
        None => String::new(),
    };
    let stay = match others {
        0 => String::new(),
        many => format!("; {} stay", counted(many as u64, "finding")),
    };
    let summary = format!(
        "{}: {}\nit {is_to_be} at byte {}{into}: {} and {} that could be read are lost{stay}",
        shown(&args.file),
        plain(&repair.finding.to_string()),
        repair.length,
        counted(repair.bytes_lost, "byte"),
        counted(repair.values_lost, "value"),
    );
    tell(object, &summary, context)
}

/// Truncates the file in place.
fn cut(path: &Path, file: &TdmsFile<File>, repair: &Repair) -> io::Result<()> {
    let before = repair.length.saturating_add(repair.bytes_lost);
    if file.source().byte_len()? != before {
        return Err(io::Error::other(
            "the file has changed meanwhile; another program writes to it",
        ));
    }
    let file = OpenOptions::new().write(true).open(path)?;
    file.set_len(repair.length)?;
    file.sync_all()
}

/// Returns the path for the bytes that are cut off in place.
fn cut_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".cut");
    name.into()
}

/// Saves the bytes to be cut off to a separate file, and syncs it. It saves nothing if they are
/// only what a killed recorder leaves: the place of the next segment, and zeros.
fn keep(
    path: &Path,
    file: &TdmsFile<File>,
    repair: &Repair,
    is_forced: bool,
) -> Result<Option<PathBuf>, Problem> {
    let kept = cut_name(path);
    let unkept = |error: &io::Error| {
        let mut problem = failed(&kept, "cannot be written, and nothing is cut", error);
        if error.kind() == io::ErrorKind::AlreadyExists {
            problem.message = format!(
                "{} already exists, with the bytes that an earlier repair cut off",
                shown(&kept)
            );
            problem.hint = Some("move it, overwrite it with --force, or name OUT".to_owned());
        }
        problem
    };
    let end = repair.length.saturating_add(repair.bytes_lost);
    let is_unwritten = matches!(repair.finding.fault, Fault::Unwritten { .. });
    let lead_in_bytes = if is_unwritten { LEAD_IN_BYTES } else { 0 };
    let mut pieces = Pieces {
        file,
        at: repair.length.saturating_add(lead_in_bytes),
        end,
        piece: Vec::new(),
    };
    let mut is_zero = true;
    while let Some(piece) = pieces.next().map_err(|error| unkept(&error))? {
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
    let mut out = options.open(&kept).map_err(|error| unkept(&error))?;
    pieces.at = repair.length;
    let mut copied = Ok(());
    while let Some(piece) = pieces.next().map_err(|error| unkept(&error))? {
        copied = out.write_all(piece);
        if copied.is_err() {
            break;
        }
    }
    copied
        .and_then(|()| out.sync_all())
        .map_err(|error| unkept(&error))?;
    Ok(Some(kept))
}

/// The bytes of a file, piece by piece.
struct Pieces<'a> {
    file: &'a TdmsFile<File>,
    at: u64,
    end: u64,
    piece: Vec<u8>,
}

impl Pieces<'_> {
    fn next(&mut self) -> io::Result<Option<&[u8]>> {
        let left = self.end.saturating_sub(self.at);
        self.piece.resize(left.min(PIECE_BYTES) as usize, 0);
        if self.piece.is_empty() {
            return Ok(None);
        }
        self.file.source().read_exact_at(&mut self.piece, self.at)?;
        self.at += self.piece.len() as u64;
        Ok(Some(&self.piece))
    }
}

fn say_kept(path: &Path, kept: Option<&Path>, context: &Context) -> Result<(), Stop> {
    let Some(kept) = kept else {
        return Ok(());
    };
    let mut object = Object::new();
    object.put("event", "tdms-kept");
    object.put("file", kept.display().to_string());
    let line = format!(
        "what is cut off is kept in {1}; `cat {0} {1}` gives the file as it was",
        shown(path),
        shown(kept)
    );
    tell(object, &line, context)
}

/// Copies the part to keep to another file. Returns the exit code if that did not succeed.
fn copy(
    file: &TdmsFile<File>,
    repair: &Repair,
    path: &Path,
    args: &Args,
    context: &Context,
) -> Result<Option<Exit>, Stop> {
    if is_standard(path) {
        let sentence = "the repaired file cannot go to standard output; name a file";
        return Err(Problem::usage(sentence).into());
    }
    let mut out = Out::new(path, &args.file, args.force, context)?;
    out.expected = Some(repair.length);
    let watch = out.watch();
    let mut piece = Vec::new();
    let mut at = 0;
    while at < repair.length {
        piece.resize((repair.length - at).min(PIECE_BYTES) as usize, 0);
        file.source()
            .read_exact_at(&mut piece, at)
            .map_err(|error| failed(&args.file, "cannot be read", &error))?;
        patch(&mut piece, at, repair);
        if let Err(error) = out.write_all(&piece) {
            return watch.failed(path, &error).map(Some);
        }
        at += piece.len() as u64;
    }
    out.finish(path)?;
    Ok(None)
}

/// Applies those of the bytes to overwrite that lie in a piece.
fn patch(piece: &mut [u8], at: u64, repair: &Repair) {
    let Some((position, bytes)) = repair.patch else {
        return;
    };
    for (byte, place) in bytes.into_iter().zip(position..) {
        let place = place.checked_sub(at).and_then(|n| usize::try_from(n).ok());
        if let Some(old) = place.and_then(|place| piece.get_mut(place)) {
            *old = byte;
        }
    }
}

/// Rewrites the index file, if there is one.
fn renew_index(path: &Path, context: &Context) -> Result<(), Stop> {
    let index = index_name(path);
    if !index.is_file() {
        return Ok(());
    }
    let file = open_alone(path)?;
    replace(&index, |out| {
        let mut out = io::BufWriter::new(out);
        file.write_index(&mut out)?;
        out.flush()
    })
    .map_err(|error| failed(&index, "cannot be written", &error))?;
    let mut object = Object::new();
    object.put("event", "tdms-index-written");
    object.put("file", index.display().to_string());
    tell(object, &format!("{}: written anew", shown(&index)), context)
}

fn failed(path: &Path, what: &str, error: &io::Error) -> Problem {
    let sentence = format!("{} {what}: {error}", shown(path));
    Problem::new(Exit::SomeFailed, "not-repaired", &sentence)
}
