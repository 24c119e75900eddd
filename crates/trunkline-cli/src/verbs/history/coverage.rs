//! Lines of `history` with --coverage.

use trunkline_types::Timestamp;
use trunkline_types::history::SeriesData;

use super::Pages;
use super::buckets::percent;
use crate::output::record::{JsonSchema, Record, Serialize};
use crate::output::values::WideInt;
use crate::{CliError, Context};

/// The share of a time range that the history covers.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Trunkline history coverage, version 1")]
pub(crate) struct Coverage {
    /// Name of the variable.
    name: String,
    /// Start of the time range, UTC, nanoseconds.
    #[schemars(extend("format" = "date-time"))]
    since: String,
    /// End of the time range.
    #[schemars(extend("format" = "date-time"))]
    until: String,
    /// Number of readings that are not bad. A string with --int-strings.
    count: WideInt,
    /// Number of readings that are bad.
    bad: WideInt,
    /// Number of updates that are known to be missing.
    lost: WideInt,
    /// Total time in seconds during which the value was known and not bad.
    #[schemars(range(min = 0))]
    covered: f64,
    /// Covered share of the time range, from 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    coverage: f64,
    /// Cells for people: the covered time, and the share in percent.
    #[serde(skip)]
    texts: Vec<(&'static str, String)>,
}

impl Record for Coverage {
    const COLUMNS: &'static [&'static str] =
        &["name", "count", "bad", "lost", "covered", "coverage"];

    fn texts(&self) -> &[(&'static str, String)] {
        &self.texts
    }
}

/// Prints the coverage of each variable, at most `limit` lines. Returns the number of lines and the
/// state of the history.
pub(super) fn print(
    pages: &mut Pages<'_>,
    (since, until): (Timestamp, Timestamp),
    limit: u64,
    context: &Context,
) -> Result<(u64, String), CliError> {
    let mut table = context.table::<Coverage>()?;
    let values = context.settings.values;
    let time = until.nanos_since(since).max(1) as f64;
    let (mut count, mut state) = (0, String::new());
    'pages: while let Some(page) = pages.next()? {
        if !page.state.is_empty() {
            state = page.state;
        }
        for series in &page.series {
            let SeriesData::Buckets { buckets, .. } = &series.data else {
                continue;
            };
            for bucket in buckets {
                let coverage = bucket.covered as f64 / time;
                let covered = bucket.covered as f64 / 1e9;
                table.push(&Coverage {
                    name: series.variable.clone(),
                    since: since.to_string(),
                    until: until.to_string(),
                    count: values.int_or_text(bucket.count),
                    bad: values.int_or_text(bucket.bad),
                    lost: values.int_or_text(bucket.lost),
                    covered,
                    coverage,
                    texts: vec![
                        ("covered", format!("{covered:.3} s")),
                        ("coverage", percent(coverage)),
                    ],
                })?;
                count += 1;
                if count == limit {
                    break 'pages;
                }
            }
        }
        if context.interrupted.is_pressed() {
            break;
        }
    }
    table.finish()?;
    Ok((count, state))
}
