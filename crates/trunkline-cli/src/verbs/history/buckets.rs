//! Lines of `history` with --every and --points.

use clap::ValueEnum;
use serde_json::Value as Json;
use trunkline_types::history::{Bucket as Data, SeriesData};
use trunkline_types::{DataType, Timestamp, Value};

use super::Pages;
use crate::output::record::{JsonSchema, Record, Serialize};
use crate::output::values::WideInt;
use crate::{CliError, Context};

/// A column of an interval, as `--agg` names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Aggregate {
    /// Number of readings that are not bad
    Count,
    /// The smallest value
    Min,
    /// The largest value
    Max,
    /// The first value
    First,
    /// The last value
    Last,
    /// The mean of the values
    Mean,
    /// The mean of the values, weighted by duration
    #[value(name = "time_mean")]
    TimeMean,
    /// Share of the interval in which the value is known and not bad
    Coverage,
    /// Number of readings that are bad
    Bad,
    /// Number of updates that are known to be missing
    Lost,
}

impl Aggregate {
    /// The columns without --agg.
    const DEFAULT: [Self; 8] = [
        Self::Count,
        Self::Min,
        Self::Max,
        Self::First,
        Self::Last,
        Self::Mean,
        Self::Bad,
        Self::Lost,
    ];

    /// Returns true if the engine computes this aggregate only on request.
    pub(super) fn is_of_durations(self) -> bool {
        matches!(self, Self::TimeMean | Self::Coverage)
    }

    /// Returns the name of the column, which is also the key in JSON.
    fn column(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Min => "min",
            Self::Max => "max",
            Self::First => "first",
            Self::Last => "last",
            Self::Mean => "mean",
            Self::TimeMean => "time_mean",
            Self::Coverage => "coverage",
            Self::Bad => "bad",
            Self::Lost => "lost",
        }
    }
}

/// Formats a share as a percentage for people.
pub(super) fn percent(share: f64) -> String {
    // Rounding must not hide that something is missing.
    let percent = match share {
        share if share < 1.0 => (share * 100.0).min(99.999),
        _ => 100.0,
    };
    format!("{percent:.3} %")
}

/// An interval of `history`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Trunkline history interval, version 1")]
pub(crate) struct Bucket {
    /// Name of the variable.
    name: String,
    /// The start of the interval, UTC, nanoseconds.
    #[schemars(extend("format" = "date-time"))]
    ts: String,
    /// Length of the interval in seconds.
    #[schemars(range(min = 0))]
    width: f64,
    /// Number of readings that are not bad. A string with --int-strings. Like each of the following
    /// keys, left out if --agg does not list it.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<WideInt>,
    /// The smallest value of these readings. Like the following values, left out if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    min: Option<Json>,
    /// The largest value.
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<Json>,
    /// The first value.
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<Json>,
    /// The last value.
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<Json>,
    /// The mean of the values.
    #[serde(skip_serializing_if = "Option::is_none")]
    mean: Option<Json>,
    /// The mean of the values, weighted by duration.
    #[serde(skip_serializing_if = "Option::is_none")]
    time_mean: Option<Json>,
    /// Share of the interval in which the value is known and not bad, from 0 to 1. Only the
    /// requested part of the first and the last interval counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1))]
    coverage: Option<f64>,
    /// Number of readings that are bad. Left out if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    bad: Option<WideInt>,
    /// Number of updates that are known to be missing. Left out if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<WideInt>,
    /// Cells for people: the time, and numbers with the requested digits.
    #[serde(skip)]
    texts: Vec<(&'static str, String)>,
}

impl Record for Bucket {
    const COLUMNS: &'static [&'static str] = &[
        "time",
        "name",
        "count",
        "min",
        "max",
        "first",
        "last",
        "mean",
        "time_mean",
        "coverage",
        "bad",
        "lost",
    ];

    fn texts(&self) -> &[(&'static str, String)] {
        &self.texts
    }
}

/// Prints at most `limit` intervals. Returns their number and the state of the history.
pub(super) fn print(
    pages: &mut Pages<'_>,
    chosen: &[Aggregate],
    (since, until): (Timestamp, Timestamp),
    limit: u64,
    context: &Context,
) -> Result<(u64, String), CliError> {
    let chosen = match chosen {
        [] => &Aggregate::DEFAULT[..],
        chosen => chosen,
    };
    let mut columns = vec!["time", "name"];
    columns.extend(chosen.iter().map(|aggregate| aggregate.column()));
    let mut table = context.table_of(&columns, Bucket::IS_HEADED)?;
    let mut times = context.settings.times.column(true, context.started);
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
                let column = times.as_mut();
                let shown = column.map(|times| times.text(&series.variable, time.into()));
                let end = bucket.start.saturating_add_unsigned(*width);
                let from = bucket.start.max(since.as_nanos());
                let length = end.min(until.as_nanos()).saturating_sub(from).max(1);
                let mut line = Bucket::new(bucket, chosen, length, context);
                line.name.clone_from(&series.variable);
                line.width = *width as f64 / 1e9;
                line.texts.push(("time", shown.unwrap_or_default()));
                table.push(&line)?;
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

impl Bucket {
    /// `length` is the length of the requested part of the interval, in nanoseconds.
    fn new(bucket: &Data, chosen: &[Aggregate], length: i64, context: &Context) -> Self {
        let values = context.settings.values;
        let mut line = Self {
            name: String::new(),
            ts: Timestamp::from_nanos(bucket.start).to_string(),
            width: 0.0,
            count: None,
            min: None,
            max: None,
            first: None,
            last: None,
            mean: None,
            time_mean: None,
            coverage: None,
            bad: None,
            lost: None,
            texts: Vec::new(),
        };
        let non_zero = |number: u64| (number > 0).then(|| values.int_or_text(number));
        for aggregate in chosen {
            let number = match aggregate {
                Aggregate::Min => bucket.min,
                Aggregate::Max => bucket.max,
                Aggregate::First => bucket.first,
                Aggregate::Last => bucket.last,
                Aggregate::Mean => bucket.mean(),
                Aggregate::TimeMean if bucket.covered > 0 => bucket.time_mean,
                Aggregate::TimeMean
                | Aggregate::Count
                | Aggregate::Coverage
                | Aggregate::Bad
                | Aggregate::Lost => f64::NAN,
            };
            let json = (!number.is_nan()).then(|| Json::from(number));
            let text = json.as_ref().map_or(String::new(), |_| {
                values.text(&Value::F64(number), &DataType::F64, None)
            });
            match aggregate {
                Aggregate::Count => line.count = Some(values.int_or_text(bucket.count)),
                Aggregate::Min => line.min = json,
                Aggregate::Max => line.max = json,
                Aggregate::First => line.first = json,
                Aggregate::Last => line.last = json,
                Aggregate::Mean => line.mean = json,
                Aggregate::TimeMean => line.time_mean = json,
                Aggregate::Coverage => {
                    let coverage = (bucket.covered as f64 / length as f64).min(1.0);
                    line.coverage = Some(coverage);
                    line.texts.push(("coverage", percent(coverage)));
                    continue;
                }
                Aggregate::Bad => line.bad = non_zero(bucket.bad),
                Aggregate::Lost => line.lost = non_zero(bucket.lost),
            }
            if !matches!(
                aggregate,
                Aggregate::Count | Aggregate::Bad | Aggregate::Lost
            ) {
                line.texts.push((aggregate.column(), text));
            }
        }
        line
    }
}
