//! `tdms verify`: reads every byte of a file, and reports defects and their remedies.

use std::path::PathBuf;

use trunkline_tdms::{Fault, Finding};

use super::events::TdmsEvent;
use super::opened::{advice, escaped, escaped_path, index_of, not_readable, open_alone, source};
use super::sums::{Compared, compare};
use crate::output::record::{JsonSchema, Record, Serialize};
use crate::terminal::Style;
use crate::{CliError, Context, Exit, counted};

/// A finding, printed as one line.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "A finding of `tdms verify`, version 1")]
pub(crate) struct Found {
    /// Position in the file. Left out if the finding has no single position.
    #[serde(skip_serializing_if = "Option::is_none")]
    byte: Option<u64>,
    /// What is wrong.
    what: String,
    /// What to do about it.
    #[serde(rename = "do")]
    advice: String,
}

impl Record for Found {
    const COLUMNS: &'static [&'static str] = &["byte", "what", "do"];
    const IS_HEADED: bool = false;

    fn cell(&self, column: &str) -> Option<String> {
        (column == "what").then(|| escaped(&self.what))
    }

    fn style(&self) -> Style {
        Style::Bad
    }
}

impl Found {
    /// Returns a line that counts the findings that are not listed, if there are any.
    fn not_listed(count: u64, origin: &str) -> Option<Self> {
        (count > 0).then(|| Self {
            byte: None,
            what: format!("{}{origin} not listed", counted(count, "further finding")),
            advice: "repair the listed damage first".to_owned(),
        })
    }
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
/// Each finding shows its position in bytes. If there are findings, the exit code is 8.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The TDMS file to check
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let file = match open_alone(&args.file) {
        Ok(file) => file,
        // A file in another format is a finding, not a failure of the check.
        Err(mut problem) if problem.code == "not-tdms" => {
            problem.exit = Exit::ProblemsFound;
            return Err(problem.into());
        }
        Err(problem) => return Err(problem.into()),
    };
    let index_path = index_of(&args.file);
    let index = index_path.as_deref().map(source).transpose()?;
    let verified = file
        .verify(index.as_ref())
        .map_err(|error| not_readable(&args.file, &error))?;
    let mut found: Vec<Found> = verified.findings.iter().map(Found::from).collect();
    found.extend(Found::not_listed(file.report().findings_dropped, ""));
    if let (Some(path), Some(false)) = (&index_path, verified.is_index_equal) {
        found.push(Found {
            byte: None,
            what: format!(
                "the index file {} does not belong to this file",
                escaped_path(path)
            ),
            advice: "`trunkline tdms repair` rewrites it".to_owned(),
        });
    }
    let compared = compare(&args.file, &file)?;
    if let Some(compared) = &compared {
        add_checksum_findings(&mut found, compared);
    }
    let findings = found.len();
    context.list(found)?;
    let summed = compared.as_ref().map(|compared| &compared.check);
    context.notify(&TdmsEvent::TdmsVerified {
        file: args.file.display().to_string(),
        segments: file.report().segments,
        channels: verified.channels,
        values: verified.values,
        index: verified.is_index_equal,
        sums: summed.map(|check| check.is_good()),
        segments_summed: summed.map(|check| check.segments),
        findings,
    })?;
    Ok(Exit::ProblemsFound.when(findings > 0))
}

fn add_checksum_findings(found: &mut Vec<Found>, compared: &Compared) {
    let findings = compared.check.findings.iter().zip(&compared.segments);
    for (finding, segment) in findings {
        let mut line = Found::from(finding);
        match (&finding.fault, segment) {
            // These faults are in the checksums, not in the file itself.
            (
                Fault::UnusableSums { .. } | Fault::SumsOfOtherFile | Fault::TruncatedSums { .. },
                _,
            ) => {
                line.byte = None;
                line.what = format!("{}: {}", escaped_path(&compared.path), finding.fault);
            }
            (_, Some(segment)) => line.what = format!("segment {segment}: {}", finding.fault),
            (_, None) => {}
        }
        found.push(line);
    }
    found.extend(Found::not_listed(
        compared.check.findings_dropped,
        " of the checksums",
    ));
}
