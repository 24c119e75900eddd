//! `tdms verify`: reads every byte of a file, and reports defects and their remedies.

use std::path::{Path, PathBuf};

use trunkline_tdms::{Fault, Finding, OpenError};

use super::convert::tell;
use super::opened::{advice, index_of, open_alone, plain, shown, source};
use super::sums::{Compared, compare};
use crate::exit::Exit;
use crate::interrupt;
use crate::output::counted;
use crate::output::json::Object;
use crate::output::records::{Records, Row};
use crate::problem::{Problem, Stop};
use crate::terminal::Mood;
use crate::verbs::Context;

/// A defect and its remedy. Each way of checking a file adds its own.
#[derive(Debug)]
struct Found {
    /// Position in the file; `None` if it is not at one place.
    byte: Option<u64>,
    what: String,
    advice: String,
}

impl From<&Finding> for Found {
    fn from(finding: &Finding) -> Self {
        Self {
            byte: Some(finding.position),
            what: finding.fault.to_string(),
            advice: advice(&finding.fault).to_owned(),
        }
    }
}

/// Read every byte of a file, and list the damage
///
/// Each finding names its byte in the file. If there is one, the exit code is 8.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The file
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Exit, Stop> {
    interrupt::end_process_on_interrupt(&context.terminal)?;
    let file = match open_alone(&args.file) {
        Ok(file) => file,
        // That nothing can be read is a result of the check.
        Err(mut problem) if problem.code == "not-tdms" => {
            problem.exit = Exit::Found;
            return Err(problem.into());
        }
        Err(problem) => return Err(problem.into()),
    };
    let index_path = index_of(&args.file);
    let index = index_path.as_deref().map(source).transpose()?;
    let verified = file
        .verify(index.as_ref())
        .map_err(|error| unreadable(&args.file, &error))?;
    let mut found: Vec<Found> = verified.findings.iter().map(Found::from).collect();
    let dropped = file.report().findings_dropped;
    if dropped > 0 {
        found.push(Found {
            byte: None,
            what: format!("{} more that were not kept", counted(dropped, "finding")),
            advice: "correct those above first".to_owned(),
        });
    }
    if let (Some(path), Some(false)) = (&index_path, verified.is_index_same) {
        found.push(Found {
            byte: None,
            what: format!(
                "the index file {} does not belong to this file",
                shown(path)
            ),
            advice: "`trunkline tdms repair` rewrites it".to_owned(),
        });
    }
    let compared = compare(&args.file, &file)?;
    if let Some(compared) = &compared {
        add_sums(&mut found, compared);
    }
    let mut records = Records::new(&context.settings, &context.terminal, COLUMNS)?;
    for one in &found {
        records.push(row(one))?;
    }
    records.finish()?;
    let report = file.report();
    let mut object = Object::new();
    object.put("event", "tdms-verified");
    object.put("file", args.file.display().to_string());
    object.put("segments", report.segments);
    object.put("channels", verified.channels);
    object.put("values", verified.values);
    if let Some(is_same) = verified.is_index_same {
        object.put("index", is_same);
    }
    let summed = compared.as_ref().map(|compared| &compared.check);
    if let Some(check) = summed {
        object.put("sums", check.is_good());
        object.put("segments_summed", check.segments);
    }
    object.put("findings", found.len());
    let summed = summed.map_or_else(String::new, |check| {
        format!(
            "; {} as written, by the checksums",
            counted(check.segments, "segment")
        )
    });
    let findings = match found.len() {
        0 => "nothing wrong".to_owned(),
        many => counted(many as u64, "finding"),
    };
    let summary = format!(
        "{}: {findings} in {}, {}, {}{summed}",
        shown(&args.file),
        counted(report.segments, "segment"),
        counted(verified.channels, "channel"),
        counted(verified.values, "value"),
    );
    tell(object, &summary, context)?;
    Ok(match found.is_empty() {
        true => Exit::Done,
        false => Exit::Found,
    })
}

/// Adds the findings of the checksums beside the file.
fn add_sums(found: &mut Vec<Found>, compared: &Compared) {
    let findings = compared.check.findings.iter().zip(&compared.segments);
    for (finding, segment) in findings {
        let mut one = Found::from(finding);
        match (&finding.fault, segment) {
            // These are not in the file itself.
            (Fault::UnusableSums { .. } | Fault::SumsOfAnother | Fault::CutSums { .. }, _) => {
                one.byte = None;
                one.what = format!("{}: {}", shown(&compared.path), finding.fault);
            }
            (_, Some(segment)) => one.what = format!("segment {segment}: {}", finding.fault),
            (_, None) => {}
        }
        found.push(one);
    }
    if compared.check.findings_dropped > 0 {
        found.push(Found {
            byte: None,
            what: format!(
                "{} of the checksums that were not kept",
                counted(compared.check.findings_dropped, "finding")
            ),
            advice: "correct those above first".to_owned(),
        });
    }
}

const COLUMNS: &[&str] = &["byte", "what", "do"];

fn row(found: &Found) -> Row {
    let mut object = Object::new();
    if let Some(byte) = found.byte {
        object.put("byte", byte);
    }
    object.put("what", found.what.as_str());
    object.put("do", found.advice.as_str());
    let byte = found.byte.map(|byte| byte.to_string());
    Row {
        cells: vec![
            byte.unwrap_or_default(),
            plain(&found.what),
            found.advice.clone(),
        ],
        object,
        mood: Mood::Bad,
    }
}

fn unreadable(path: &Path, error: &OpenError) -> Problem {
    let mut problem = Problem::new(Exit::SomeFailed, "not-readable", "");
    problem.message = format!("{}: {error}", shown(path));
    problem
}
