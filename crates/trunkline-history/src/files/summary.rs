//! Summarizes the numeric series of a Parquet file in buckets of about 256 rows each. The width of a bucket
//! is a power of two in nanoseconds. Plots of long periods read the summary instead of the rows.
//!
//! A summary is a separate Parquet file with one row per bucket. Without it, queries read the rows.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use arrow_array::builder::StringDictionaryBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, TimestampNanosecondType};
use arrow_array::{
    ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, TimestampNanosecondArray,
};
use arrow_schema::{DataType as ArrowType, Field, Schema, TimeUnit};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;
use trunkline_types::DataType;
use trunkline_types::history::{Bucket, Rows};

use crate::catalogue::Series;
use crate::error::Error;
use crate::files::row_order::{RowValue, Step, content_of, has_numbers, steps};
use crate::private;

/// Minimum average number of rows in a bucket.
const ROWS_PER_BUCKET: u64 = 256;
/// Minimum number of rows for which a series gets a summary.
const ROWS_MIN: usize = 2 * ROWS_PER_BUCKET as usize;

/// A bucket of a summary. If all of its rows are good and it has no events, the covered time extends from the
/// first to the last row. Otherwise, the covered time is 0.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct SummaryBucket {
    pub(crate) bucket: Bucket,
    /// Time of the first number, in nanoseconds.
    pub(crate) first_time: i64,
    /// Time of the last number, in nanoseconds.
    pub(crate) last_time: i64,
    /// Number of events.
    pub(crate) events: u64,
}

impl SummaryBucket {
    /// Returns true if the bucket has only good rows and no events.
    pub(crate) fn is_clean(&self) -> bool {
        self.bucket.count > 0 && self.bucket.bad == 0 && self.events == 0
    }
}

/// Builds the buckets of a series from its sorted rows and events.
pub(crate) struct SummaryBuilder {
    width: i64,
    all: Vec<SummaryBucket>,
}

impl SummaryBuilder {
    pub(crate) fn new(width: u64) -> Self {
        Self {
            width: i64::try_from(width).unwrap_or(i64::MAX).max(1),
            all: Vec::new(),
        }
    }

    /// Adds the next rows and events in key order.
    pub(crate) fn add(&mut self, rows: &Rows, data_type: &DataType) {
        let Self { width, all } = self;
        for step in steps(rows) {
            let time = match step {
                Step::Row(row) => rows.times().get(row).copied().unwrap_or(0),
                Step::Event(mark) => mark.key.time,
            };
            // Most rows are in the same bucket as the previous row. Checking this first saves a division.
            let is_within = |last: &SummaryBucket| {
                let start = last.bucket.start;
                (start..start.saturating_add(*width)).contains(&time)
            };
            if !all.last().is_some_and(is_within) {
                all.push(SummaryBucket {
                    bucket: Bucket::new(time.div_euclid(*width).saturating_mul(*width)),
                    first_time: i64::MAX,
                    last_time: i64::MIN,
                    events: 0,
                });
            }
            let Some(one) = all.last_mut() else { continue };
            match step {
                Step::Row(row) => match content_of(rows, row, data_type) {
                    RowValue::Number(number) => {
                        if one.bucket.count > 0 {
                            let duration = time.wrapping_sub(one.last_time) as u64;
                            one.bucket.hold(one.bucket.last, duration);
                        }
                        one.bucket.add(number);
                        one.first_time = one.first_time.min(time);
                        one.last_time = time;
                    }
                    RowValue::Bad | RowValue::Other => one.bucket.bad += 1,
                },
                Step::Event(mark) => {
                    one.events += 1;
                    one.bucket.lost += mark.event.parts().1;
                }
            }
        }
    }

    pub(crate) fn finish(mut self) -> Vec<SummaryBucket> {
        for one in &mut self.all {
            if !one.is_clean() {
                (one.bucket.covered, one.bucket.time_mean) = (0, 0.0);
            }
        }
        self.all
    }
}

/// The buckets of a series in a part.
#[derive(Debug)]
pub(crate) struct Summary {
    /// Width of each bucket in nanoseconds: a power of two.
    pub(crate) width: u64,
    pub(crate) buckets: Vec<SummaryBucket>,
}

/// Name of the folder with the summaries.
pub(crate) const FOLDER: &str = "summaries";

/// Returns the path of the summary of a part.
pub(crate) fn path_of(folder: &Path, part: &str) -> PathBuf {
    let inside = part.strip_prefix("samples/").unwrap_or(part);
    folder.join(FOLDER).join(inside)
}

static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(|| {
    let time = || ArrowType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    let name = ArrowType::Dictionary(Box::new(ArrowType::Int32), Box::new(ArrowType::Utf8));
    let number = |name: &str| Field::new(name, ArrowType::Float64, false);
    let integer = |name: &str| Field::new(name, ArrowType::Int64, false);
    Arc::new(Schema::new(vec![
        Field::new("variable", name, false),
        Field::new("time", time(), false),
        integer("width"),
        integer("count"),
        integer("bad"),
        integer("lost"),
        integer("events"),
        number("first"),
        number("last"),
        number("min"),
        number("max"),
        number("sum"),
        number("time_mean"),
        Field::new("first_time", time(), false),
        Field::new("last_time", time(), false),
        Field::new("series", ArrowType::Int32, false),
    ]))
});

/// An estimate of the rows of a series: their number, and the times of the first and the last row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    pub(crate) rows: u64,
    pub(crate) first_time: i64,
    pub(crate) last_time: i64,
}

impl Expected {
    /// Returns the bucket width for these rows, in nanoseconds.
    fn width(self) -> u64 {
        let span = self.last_time.saturating_sub(self.first_time).max(1) as u64;
        (span / self.rows.max(1))
            .saturating_mul(ROWS_PER_BUCKET)
            .clamp(1, 1 << 62)
            .next_power_of_two()
    }
}

/// Builds the summary file of a part.
#[derive(Default)]
pub(crate) struct Summarizer {
    series: Vec<(u32, String, Summary)>,
    open: Option<OpenSummary>,
}

struct OpenSummary {
    id: u32,
    name: String,
    width: u64,
    builder: SummaryBuilder,
    rows: usize,
}

impl Summarizer {
    /// Begins a series. The series gets a summary if it is numeric and enough rows are expected.
    pub(crate) fn begin(&mut self, series: &Series, expected: Option<Expected>) {
        let is_summarized = |expected: &Expected| {
            has_numbers(&series.data_type) && expected.rows >= ROWS_MIN as u64
        };
        self.open = expected.filter(is_summarized).map(|expected| OpenSummary {
            id: series.id,
            name: series.name.clone(),
            width: expected.width(),
            builder: SummaryBuilder::new(expected.width()),
            rows: 0,
        });
    }

    /// Adds the next sorted rows of the current series.
    pub(crate) fn add(&mut self, series: &Series, rows: &Rows) {
        if let Some(open) = &mut self.open {
            open.builder.add(rows, &series.data_type);
            open.rows += rows.len();
        }
    }

    /// Ends the current series.
    pub(crate) fn end(&mut self) {
        // The series may have fewer rows than expected, because rows have expired.
        if let Some(open) = self.open.take().filter(|open| open.rows >= ROWS_MIN) {
            let (width, buckets) = (open.width, open.builder.finish());
            let summary = Summary { width, buckets };
            self.series.push((open.id, open.name, summary));
        }
    }

    /// Returns the content of the summary file, or `None` if no series has a summary.
    pub(crate) fn finish(self) -> Result<Option<Vec<u8>>, Error> {
        if self.series.is_empty() {
            return Ok(None);
        }
        let column = |name: &str| ColumnPath::from(name);
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
            .set_dictionary_enabled(false)
            .set_column_dictionary_enabled(column("variable"), true);
        for name in ["first", "last", "min", "max", "sum", "time_mean"] {
            properties = properties.set_column_encoding(column(name), Encoding::BYTE_STREAM_SPLIT);
        }
        let integers = [
            "time",
            "width",
            "count",
            "bad",
            "lost",
            "events",
            "first_time",
            "last_time",
            "series",
        ];
        for name in integers {
            properties =
                properties.set_column_encoding(column(name), Encoding::DELTA_BINARY_PACKED);
        }
        let mut writer =
            ArrowWriter::try_new(Vec::new(), Arc::clone(&SCHEMA), Some(properties.build()))?;
        writer.write(&self.batch()?)?;
        Ok(Some(writer.into_inner()?))
    }

    fn batch(&self) -> Result<RecordBatch, Error> {
        let mut names = StringDictionaryBuilder::<Int32Type>::new();
        let (mut ids, mut widths, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for (id, name, summary) in &self.series {
            for one in &summary.buckets {
                names.append_value(name);
                ids.push(*id as i32);
                widths.push(summary.width as i64);
                all.push(*one);
            }
        }
        let times = |of: fn(&SummaryBucket) -> i64| {
            let times = TimestampNanosecondArray::from_iter_values(all.iter().map(of));
            Arc::new(times.with_timezone("UTC")) as ArrayRef
        };
        let integers = |of: fn(&SummaryBucket) -> u64| {
            let values = all.iter().map(|one| of(one) as i64);
            Arc::new(Int64Array::from_iter_values(values)) as ArrayRef
        };
        let numbers = |of: fn(&Bucket) -> f64| {
            let values = all.iter().map(|one| of(&one.bucket));
            Arc::new(Float64Array::from_iter_values(values)) as ArrayRef
        };
        let columns: Vec<ArrayRef> = vec![
            Arc::new(names.finish()),
            times(|one| one.bucket.start),
            Arc::new(Int64Array::from(widths)),
            integers(|one| one.bucket.count),
            integers(|one| one.bucket.bad),
            integers(|one| one.bucket.lost),
            integers(|one| one.events),
            numbers(|bucket| bucket.first),
            numbers(|bucket| bucket.last),
            numbers(|bucket| bucket.min),
            numbers(|bucket| bucket.max),
            numbers(|bucket| bucket.sum),
            numbers(|bucket| bucket.time_mean),
            times(|one| one.first_time),
            times(|one| one.last_time),
            Arc::new(Int32Array::from(ids)),
        ];
        Ok(RecordBatch::try_new(Arc::clone(&SCHEMA), columns)?)
    }
}

/// Writes a summary file. It need not be durable, but it is complete when it has its final name.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    if let Some(folder) = path.parent() {
        private::create_folders(folder)?;
    }
    let unfinished = path.with_extension("unfinished");
    private::write(&unfinished, bytes)?;
    Ok(std::fs::rename(&unfinished, path)?)
}

/// Reads a summary file. Returns `None` if it is missing, or if its checksum differs from `sum`.
pub(crate) fn read(path: &Path, sum: u32) -> Result<Option<HashMap<u32, Arc<Summary>>>, Error> {
    let bytes = match std::fs::read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        bytes => Bytes::from(bytes?),
    };
    if sum == 0 || crc32c::crc32c(&bytes) != sum {
        return Ok(None);
    }
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes)?
        .with_batch_size(64 << 10)
        .build()?;
    let mut found: HashMap<u32, Summary> = HashMap::new();
    for batch in reader {
        let read = read_batch(&batch?, &mut found);
        read.ok_or_else(|| Error::damaged("a column of the summary is missing or wrong"))?;
    }
    let found = found.into_iter();
    Ok(Some(
        found.map(|(id, summary)| (id, Arc::new(summary))).collect(),
    ))
}

fn read_batch(batch: &RecordBatch, found: &mut HashMap<u32, Summary>) -> Option<()> {
    let times = |column: usize| {
        let column = batch.columns().get(column)?;
        column.as_primitive_opt::<TimestampNanosecondType>()
    };
    let integers = |column: usize| batch.columns().get(column)?.as_primitive_opt::<Int64Type>();
    let numbers = |column: usize| {
        batch
            .columns()
            .get(column)?
            .as_primitive_opt::<Float64Type>()
    };
    let starts = times(1)?;
    let (widths, counts, bads, losts) = (integers(2)?, integers(3)?, integers(4)?, integers(5)?);
    let events = integers(6)?;
    let (firsts, lasts, mins) = (numbers(7)?, numbers(8)?, numbers(9)?);
    let (maxs, sums, time_means) = (numbers(10)?, numbers(11)?, numbers(12)?);
    let (first_times, last_times) = (times(13)?, times(14)?);
    let ids = batch.columns().get(15)?.as_primitive_opt::<Int32Type>()?;
    for row in 0..batch.num_rows() {
        let summary = found
            .entry(ids.value(row) as u32)
            .or_insert_with(|| Summary {
                width: widths.value(row) as u64,
                buckets: Vec::new(),
            });
        let (first_time, last_time) = (first_times.value(row), last_times.value(row));
        let mut one = SummaryBucket {
            bucket: Bucket {
                start: starts.value(row),
                count: counts.value(row) as u64,
                bad: bads.value(row) as u64,
                lost: losts.value(row) as u64,
                first: firsts.value(row),
                last: lasts.value(row),
                min: mins.value(row),
                max: maxs.value(row),
                sum: sums.value(row),
                covered: 0,
                time_mean: time_means.value(row),
            },
            first_time,
            last_time,
            events: events.value(row) as u64,
        };
        if one.is_clean() {
            one.bucket.covered = last_time.wrapping_sub(first_time) as u64;
        }
        summary.buckets.push(one);
    }
    Some(())
}
