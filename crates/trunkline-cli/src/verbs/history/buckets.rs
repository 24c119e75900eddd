//! Lines of `history` with --every and --points.

use serde_json::Value as Json;
use trunkline_types::history::SeriesData;
use trunkline_types::{DataType, Timestamp, Value};

use super::Pages;
use crate::output::record::{JsonSchema, Record, Serialize};
use crate::output::values::WideInt;
use crate::{CliError, Context};

/// An interval of `history`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Trunkline history interval, version 1")]
pub(crate) struct Bucket {
    /// The variable.
    name: String,
    /// The start of the interval, UTC, nanoseconds.
    #[schemars(extend("format" = "date-time"))]
    ts: String,
    /// Length of the interval in seconds.
    #[schemars(range(min = 0))]
    width: f64,
    /// Number of values that are numbers and not bad. A string with --int-strings.
    count: WideInt,
    /// The smallest of them. The numbers are left out if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    min: Option<Json>,
    /// The largest of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<Json>,
    /// The first of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<Json>,
    /// The last of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<Json>,
    /// Their mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    mean: Option<Json>,
    /// Number of readings that are bad or not numbers. Left out if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    bad: Option<WideInt>,
    /// Number of updates that are known to be missing. Left out if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<WideInt>,
    /// For people: the time, and numbers with the digits that were asked for.
    #[serde(skip)]
    texts: Vec<(&'static str, String)>,
}

impl Record for Bucket {
    const COLUMNS: &'static [&'static str] = &[
        "time", "name", "count", "min", "max", "first", "last", "mean", "bad", "lost",
    ];

    fn texts(&self) -> &[(&'static str, String)] {
        &self.texts
    }
}

/// Prints the intervals. Returns their number and the state of the history.
pub(super) fn print(
    pages: &mut Pages<'_>,
    most: u64,
    context: &Context,
) -> Result<(u64, String), CliError> {
    let mut table = context.table::<Bucket>()?;
    let mut times = context.settings.times.column(true, context.started);
    let values = context.settings.values;
    let (mut count, mut state) = (0, String::new());
    'pages: while let Some(page) = pages.next()? {
        if !page.state.is_empty() {
            state = page.state;
        }
        for series in &page.series {
            let SeriesData::Buckets { width, buckets } = &series.data else {
                continue;
            };
            for bucket in buckets {
                let time = Timestamp::from_nanos(bucket.start);
                let text = |number: f64| match bucket.count {
                    0 => String::new(),
                    _ => values.text(&Value::F64(number), &DataType::F64, None),
                };
                let json = |number: f64| (bucket.count > 0).then(|| Json::from(number));
                let some = |number: u64| (number > 0).then(|| values.wide(number));
                let column = times.as_mut();
                let shown = column.map(|times| times.text(&series.variable, time.into()));
                table.push(&Bucket {
                    name: series.variable.clone(),
                    ts: time.to_string(),
                    width: *width as f64 / 1e9,
                    count: values.wide(bucket.count),
                    min: json(bucket.min),
                    max: json(bucket.max),
                    first: json(bucket.first),
                    last: json(bucket.last),
                    mean: json(bucket.mean()),
                    bad: some(bucket.bad),
                    lost: some(bucket.lost),
                    texts: vec![
                        ("time", shown.unwrap_or_default()),
                        ("min", text(bucket.min)),
                        ("max", text(bucket.max)),
                        ("first", text(bucket.first)),
                        ("last", text(bucket.last)),
                        ("mean", text(bucket.mean())),
                    ],
                })?;
                count += 1;
                if count == most {
                    break 'pages;
                }
            }
        }
        if context.interrupted.is_so() {
            break;
        }
    }
    table.finish()?;
    Ok((count, state))
}
