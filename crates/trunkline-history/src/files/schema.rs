//! Defines the columns of the Parquet files, and converts between rows and columns.
//!
//! ```text
//! variable  text          full name
//! time      timestamp ns  source timestamp; engine timestamp if the source's clock was not set
//! value     f64, or null  number, including bool (0, 1), enum (its number) and timestamp
//! integer   i64, or null  exact value of i64, u64 (as the same 64 bits) and timestamp; for an f32 NaN, its
//!                         bits
//! text      text, or null text, the label of an enum, or a struct as JSON
//! raw       bytes or null wire form (bytes, struct, array, waveform)
//! quality   u32 as i32    quality bits; null for an event
//! delay     i64           nanoseconds from the source timestamp to the engine timestamp
//! epoch     u64 as i64    identifies the start of the engine
//! sequence  u64 as i64    sequence number of the update within the epoch
//! event     text, or null started, stopped, interrupted, lost, retired, added
//! count     i64, or null  number of missing updates, for the event lost, if known
//! ```

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use arrow_array::builder::{
    ArrayBuilder, BinaryBuilder, GenericByteBuilder, Int32Builder, Int64Builder, PrimitiveBuilder,
    StringBuilder,
};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, ByteArrayType, Float64Type, Int32Type, Int64Type, TimestampNanosecondType,
};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Float64Array, Int32Array, Int64Array, RecordBatch,
    StringArray, TimestampNanosecondArray, new_null_array,
};
use arrow_buffer::NullBufferBuilder;
use arrow_schema::{DataType as ArrowType, Field, Schema, TimeUnit};
use parquet::schema::types::SchemaDescriptor;
use trunkline_types::history::{HistoryEvent, HistoryEventRow, RowColumns, RowKey, Rows};
use trunkline_types::text::format_value;
use trunkline_types::{DataType, json, wire};

use crate::catalogue::Series;
use crate::error::Error;
use crate::files::run_columns::{Chunk, IntegerRuns, NameRuns};

/// Indices of the columns.
pub(crate) mod column {
    pub(crate) const VARIABLE: usize = 0;
    pub(crate) const TIME: usize = 1;
    pub(crate) const VALUE: usize = 2;
    pub(crate) const INTEGER: usize = 3;
    pub(crate) const TEXT: usize = 4;
    pub(crate) const RAW: usize = 5;
    pub(crate) const QUALITY: usize = 6;
    pub(crate) const DELAY: usize = 7;
    pub(crate) const EPOCH: usize = 8;
    pub(crate) const SEQUENCE: usize = 9;
    pub(crate) const EVENT: usize = 10;
    pub(crate) const COUNT: usize = 11;
}

pub(crate) static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(|| {
    let time = ArrowType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    let dictionary =
        || ArrowType::Dictionary(Box::new(ArrowType::Int32), Box::new(ArrowType::Utf8));
    Arc::new(Schema::new(vec![
        Field::new("variable", dictionary(), false),
        Field::new("time", time, false),
        Field::new("value", ArrowType::Float64, true),
        Field::new("integer", ArrowType::Int64, true),
        Field::new("text", ArrowType::Utf8, true),
        Field::new("raw", ArrowType::Binary, true),
        Field::new("quality", ArrowType::Int32, true),
        Field::new("delay", ArrowType::Int64, false),
        Field::new("epoch", ArrowType::Int64, false),
        Field::new("sequence", ArrowType::Int64, false),
        Field::new("event", ArrowType::Utf8, true),
        Field::new("count", ArrowType::Int64, true),
    ]))
});

/// The columns in which the values of a data type are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Storage {
    /// In `value`.
    Number,
    /// In `value`, with the label in `text`.
    Enum,
    /// In `value` and `integer`.
    Integer,
    /// In `text`.
    Text,
    /// In `raw`.
    Bytes,
    /// In `raw`, and as JSON in `text`.
    Struct,
    /// In `raw`; null if the array was too long to be recorded.
    Array,
}

impl Storage {
    pub(crate) fn of(data_type: &DataType) -> Self {
        match data_type {
            DataType::Bool
            | DataType::I8
            | DataType::I16
            | DataType::I32
            | DataType::U8
            | DataType::U16
            | DataType::U32
            | DataType::F32
            | DataType::F64 => Self::Number,
            DataType::I64 | DataType::U64 | DataType::Timestamp => Self::Integer,
            DataType::Enum(_) => Self::Enum,
            DataType::String => Self::Text,
            DataType::Bytes => Self::Bytes,
            DataType::Struct(_) => Self::Struct,
            DataType::Array(_) | DataType::Waveform(_) => Self::Array,
        }
    }
}

/// Converts a word, which is the wire form of a value, to a number. Returns NaN for types that are not
/// numeric.
#[inline]
pub(crate) fn number_of(word: u64, data_type: &DataType) -> f64 {
    match data_type {
        DataType::F64 => f64::from_bits(word),
        DataType::F32 => f64::from(f32::from_bits(word as u32)),
        DataType::Bool | DataType::U8 => f64::from(word as u8),
        DataType::I8 => f64::from(word as i8),
        DataType::I16 => f64::from(word as i16),
        DataType::U16 => f64::from(word as u16),
        DataType::I32 => f64::from(word as i32),
        DataType::U32 | DataType::Enum(_) => f64::from(word as u32),
        DataType::I64 | DataType::Timestamp => word as i64 as f64,
        DataType::U64 => word as f64,
        DataType::String
        | DataType::Bytes
        | DataType::Array(_)
        | DataType::Struct(_)
        | DataType::Waveform(_) => f64::NAN,
    }
}

/// Converts a number back to a word; the inverse of [`number_of`].
fn word_of(number: f64, data_type: &DataType) -> u64 {
    match data_type {
        DataType::F32 => u64::from((number as f32).to_bits()),
        DataType::Bool | DataType::U8 => u64::from(number as u8),
        DataType::I8 => u64::from(number as i8 as u8),
        DataType::I16 => u64::from(number as i16 as u16),
        DataType::U16 => u64::from(number as u16),
        DataType::I32 => u64::from(number as i32 as u32),
        DataType::U32 | DataType::Enum(_) => u64::from(number as u32),
        DataType::F64
        | DataType::I64
        | DataType::U64
        | DataType::Timestamp
        | DataType::String
        | DataType::Bytes
        | DataType::Array(_)
        | DataType::Struct(_)
        | DataType::Waveform(_) => number.to_bits(),
    }
}

/// Encodes the columns that consist of runs.
pub(crate) struct RunColumns {
    variable: NameRuns,
    quality: IntegerRuns,
    delay: IntegerRuns,
    epoch: IntegerRuns,
    sequence: IntegerRuns,
    count: IntegerRuns,
}

impl RunColumns {
    pub(crate) fn new(schema: &SchemaDescriptor) -> Result<Self, Error> {
        Ok(Self {
            variable: NameRuns::new(schema.column(column::VARIABLE))?,
            quality: IntegerRuns::new(schema.column(column::QUALITY))?,
            delay: IntegerRuns::new(schema.column(column::DELAY))?,
            epoch: IntegerRuns::new(schema.column(column::EPOCH))?,
            sequence: IntegerRuns::new(schema.column(column::SEQUENCE))?,
            count: IntegerRuns::new(schema.column(column::COUNT))?,
        })
    }

    /// Adds a range of updates of a variable.
    pub(crate) fn add(&mut self, name: &Arc<str>, rows: &Rows, range: Range<usize>) {
        self.variable.put(name, range.len());
        match rows.delays().get(range.clone()) {
            Some(delays) => self.delay.put_values(delays),
            None => self.delay.put_run(0, 0, range.len()),
        }
        rows.epochs().visit(range.clone(), |epoch, _, rows| {
            self.epoch.put_run(epoch as i64, 0, rows);
        });
        rows.sequences().visit(range.clone(), |first, into, rows| {
            let first = first.wrapping_add(into as u64);
            self.sequence.put_run(first as i64, 1, rows);
        });
        rows.qualities().visit(range.clone(), |quality, _, rows| {
            self.quality.put_run(i64::from(quality as i32), 0, rows);
        });
        self.count.put_nulls(range.len());
    }

    /// Adds an event of a variable.
    pub(crate) fn add_mark(&mut self, name: &Arc<str>, mark: &HistoryEventRow) {
        self.variable.put(name, 1);
        self.quality.put_nulls(1);
        self.delay.put_run(0, 0, 1);
        self.epoch.put_run(mark.key.epoch as i64, 0, 1);
        self.sequence.put_run(mark.key.sequence as i64, 0, 1);
        match mark.event.parts() {
            (_, 0) => self.count.put_nulls(1),
            (_, count) => self.count.put_run(count as i64, 0, 1),
        }
    }

    /// Completes the columns, and returns them by index.
    pub(crate) fn close(self) -> Result<BTreeMap<usize, Chunk>, Error> {
        Ok(BTreeMap::from([
            (column::VARIABLE, self.variable.close()?),
            (column::QUALITY, self.quality.close()?),
            (column::DELAY, self.delay.close()?),
            (column::EPOCH, self.epoch.close()?),
            (column::SEQUENCE, self.sequence.close()?),
            (column::COUNT, self.count.close()?),
        ]))
    }
}

/// A column builder whose trailing nulls are appended only when they are needed.
trait NullableColumn: ArrayBuilder {
    fn append_nulls(&mut self, rows: usize);

    /// Appends nulls until the column has this number of rows.
    fn fill(&mut self, rows: usize) {
        self.append_nulls(rows.saturating_sub(self.len()));
    }
}

impl<T: ArrowPrimitiveType> NullableColumn for PrimitiveBuilder<T> {
    fn append_nulls(&mut self, rows: usize) {
        self.append_nulls(rows);
    }
}

impl<T: ByteArrayType> NullableColumn for GenericByteBuilder<T> {
    fn append_nulls(&mut self, rows: usize) {
        self.append_nulls(rows);
    }
}

/// Collects the columns that vary from row to row.
pub(crate) struct ValueColumns {
    times: Vec<i64>,
    values: Vec<f64>,
    value_nulls: NullBufferBuilder,
    integers: Int64Builder,
    texts: StringBuilder,
    raws: BinaryBuilder,
    events: StringBuilder,
}

impl Default for ValueColumns {
    fn default() -> Self {
        Self {
            times: Vec::new(),
            values: Vec::new(),
            value_nulls: NullBufferBuilder::new(0),
            integers: Int64Builder::new(),
            texts: StringBuilder::new(),
            raws: BinaryBuilder::new(),
            events: StringBuilder::new(),
        }
    }
}

impl ValueColumns {
    pub(crate) fn len(&self) -> usize {
        self.times.len()
    }

    /// Adds a range of updates with values of a data type.
    pub(crate) fn add(&mut self, data_type: &DataType, rows: &Rows, range: Range<usize>) {
        let Some(times) = rows.times().get(range.clone()) else {
            return;
        };
        self.add_values(data_type, rows, range);
        self.times.extend_from_slice(times);
    }

    fn add_values(&mut self, data_type: &DataType, rows: &Rows, range: Range<usize>) {
        let storage = Storage::of(data_type);
        let words = rows.words().get(range.clone()).unwrap_or_default();
        match storage {
            Storage::Number | Storage::Integer | Storage::Enum => {
                let numbers = words.iter().map(|word| number_of(*word, data_type));
                self.values.extend(numbers);
                self.value_nulls.append_n_non_nulls(range.len());
            }
            Storage::Text | Storage::Bytes | Storage::Struct | Storage::Array => {
                self.values.resize(self.values.len() + range.len(), 0.0);
                self.value_nulls.append_n_nulls(range.len());
            }
        }
        let start = self.len();
        match storage {
            Storage::Number if *data_type == DataType::F32 => {
                // Converting a NaN to f64 and back may change its bits, so store them.
                for (row, word) in words.iter().enumerate() {
                    if f32::from_bits(*word as u32).is_nan() {
                        self.integers.fill(start + row);
                        self.integers.append_value(*word as i64);
                    }
                }
            }
            Storage::Integer => {
                self.integers.fill(start);
                let integers = words.iter().map(|word| *word as i64);
                self.integers.append_slice(&integers.collect::<Vec<i64>>());
            }
            _ => {}
        }
        match storage {
            Storage::Text | Storage::Enum | Storage::Struct => {
                self.texts.fill(start);
                rows.visit(range.clone(), |row| {
                    self.texts.append_option(text_of(data_type, row.value));
                });
            }
            _ => {}
        }
        match storage {
            Storage::Bytes | Storage::Struct => {
                self.raws.fill(start);
                rows.visit(range, |row| self.raws.append_value(row.value));
            }
            Storage::Array => {
                self.raws.fill(start);
                rows.visit(range, |row| {
                    let is_recorded = !row.value.is_empty();
                    self.raws.append_option(is_recorded.then_some(row.value));
                });
            }
            _ => {}
        }
    }

    pub(crate) fn add_mark(&mut self, mark: &HistoryEventRow) {
        self.values.push(0.0);
        self.value_nulls.append_null();
        self.events.fill(self.times.len());
        match mark.event {
            // Store the number, so that a newer version can read the event.
            HistoryEvent::Other(number) => self.events.append_value(number.to_string()),
            event => self.events.append_value(event.name()),
        }
        self.times.push(mark.key.time);
    }

    /// Removes the collected rows, and returns the columns with their indices.
    pub(crate) fn take(&mut self) -> Vec<(usize, ArrayRef)> {
        let rows = self.len();
        let times = TimestampNanosecondArray::from(std::mem::take(&mut self.times));
        let times: ArrayRef = Arc::new(times.with_timezone("UTC"));
        let values = std::mem::take(&mut self.values).into();
        let values: ArrayRef = Arc::new(Float64Array::new(values, self.value_nulls.finish()));
        vec![
            (column::TIME, times),
            (column::VALUE, values),
            finish(&mut self.integers, column::INTEGER, rows),
            finish(&mut self.texts, column::TEXT, rows),
            finish(&mut self.raws, column::RAW, rows),
            finish(&mut self.events, column::EVENT, rows),
        ]
    }
}

/// Takes the values out of a column builder, padded with nulls to this number of rows.
fn finish(values: &mut impl NullableColumn, column: usize, rows: usize) -> (usize, ArrayRef) {
    if values.is_empty() {
        let null = new_null_array(SCHEMA.field(column).data_type(), rows);
        return (column, null);
    }
    values.fill(rows);
    (column, values.finish())
}

/// Collects rows of several series in columns, with one value per row in every column.
#[derive(Default)]
pub(crate) struct Batch {
    names: Vec<String>,
    name_keys: Vec<i32>,
    values: ValueColumns,
    qualities: Int32Builder,
    delays: Vec<i64>,
    epochs: Vec<i64>,
    sequences: Vec<i64>,
    counts: Int64Builder,
}

impl Batch {
    /// Begins the rows of a series.
    pub(crate) fn begin(&mut self, name: &str) {
        self.names.push(name.to_owned());
    }

    /// Adds updates of the current series.
    pub(crate) fn add(&mut self, series: &Series, rows: &Rows, range: Range<usize>) {
        let count = range.len();
        let end = self.name_keys.len() + count;
        self.name_keys.resize(end, self.names.len() as i32 - 1);
        match rows.delays().get(range.clone()) {
            Some(delays) => self.delays.extend_from_slice(delays),
            None => self.delays.resize(end, 0),
        }
        rows.epochs().visit(range.clone(), |epoch, _, rows| {
            let filled = self.epochs.len() + rows;
            self.epochs.resize(filled, epoch as i64);
        });
        rows.sequences().visit(range.clone(), |first, into, rows| {
            let first = first.wrapping_add(into as u64) as i64;
            let following = (0..rows as i64).map(|more| first.wrapping_add(more));
            self.sequences.extend(following);
        });
        rows.qualities().visit(range.clone(), |quality, _, rows| {
            self.qualities.append_value_n(quality as i32, rows);
        });
        self.counts.append_nulls(count);
        self.values.add(&series.data_type, rows, range);
    }

    /// Adds an event of the current series.
    pub(crate) fn add_mark(&mut self, mark: &HistoryEventRow) {
        self.name_keys.push(self.names.len() as i32 - 1);
        self.qualities.append_null();
        self.delays.push(0);
        self.epochs.push(mark.key.epoch as i64);
        self.sequences.push(mark.key.sequence as i64);
        let (_, count) = mark.event.parts();
        self.counts
            .append_option((count > 0).then_some(count as i64));
        self.values.add_mark(mark);
    }

    /// Returns the collected rows.
    pub(crate) fn take(&mut self) -> Result<RecordBatch, Error> {
        let mut batch = std::mem::take(self);
        let names = StringArray::from(batch.names);
        let name_keys = Int32Array::from(batch.name_keys);
        let variables = DictionaryArray::<Int32Type>::try_new(name_keys, Arc::new(names))?;
        let mut columns = BTreeMap::<usize, ArrayRef>::from_iter(batch.values.take());
        columns.insert(column::VARIABLE, Arc::new(variables));
        columns.insert(column::QUALITY, Arc::new(batch.qualities.finish()));
        columns.insert(column::DELAY, Arc::new(Int64Array::from(batch.delays)));
        columns.insert(column::EPOCH, Arc::new(Int64Array::from(batch.epochs)));
        let sequences = Int64Array::from(batch.sequences);
        columns.insert(column::SEQUENCE, Arc::new(sequences));
        columns.insert(column::COUNT, Arc::new(batch.counts.finish()));
        let columns = columns.into_values().collect();
        Ok(RecordBatch::try_new(Arc::clone(&SCHEMA), columns)?)
    }
}

/// Formats a value for the column `text`: a string unchanged, an enum as its label, a struct as JSON.
fn text_of(data_type: &DataType, bytes: &[u8]) -> Option<String> {
    let value = wire::decode_exact(data_type, bytes).ok()?;
    Some(match data_type {
        DataType::Struct(_) => json::to_json(&value, data_type).into_plain().to_string(),
        DataType::String
        | DataType::Enum(_)
        | DataType::Bool
        | DataType::I8
        | DataType::I16
        | DataType::I32
        | DataType::I64
        | DataType::U8
        | DataType::U16
        | DataType::U32
        | DataType::U64
        | DataType::F32
        | DataType::F64
        | DataType::Bytes
        | DataType::Timestamp
        | DataType::Array(_)
        | DataType::Waveform(_) => match value {
            trunkline_types::Value::String(text) => text.to_string(),
            value => format_value(&value, data_type, &Default::default()),
        },
    })
}

/// The set of columns to read from a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Projection {
    /// All columns of a row.
    Whole,
    /// All columns except the delay; the delay of the rows is then 0.
    Values,
    /// All columns except the delay and values that are not numeric; these values are then empty.
    Numbers,
}

impl Projection {
    /// Returns the column from which values of a data type are read; `None` if this projection omits it.
    fn value_column(self, data_type: &DataType) -> Option<usize> {
        let reads_all_types = self != Self::Numbers;
        match Storage::of(data_type) {
            Storage::Number | Storage::Enum => Some(column::VALUE),
            Storage::Integer => Some(column::INTEGER),
            Storage::Text => reads_all_types.then_some(column::TEXT),
            Storage::Bytes | Storage::Struct | Storage::Array => {
                reads_all_types.then_some(column::RAW)
            }
        }
    }

    /// Returns true if the bits of NaN values must be read from the column `integer`.
    fn reads_nan_bits(self, data_type: &DataType) -> bool {
        self != Self::Numbers && *data_type == DataType::F32
    }

    /// Returns the indices of the columns needed for rows of these data types, in ascending order.
    pub(crate) fn columns_of<'t>(self, types: impl Iterator<Item = &'t DataType>) -> Vec<usize> {
        let mut columns = vec![
            column::TIME,
            column::QUALITY,
            column::EPOCH,
            column::SEQUENCE,
            column::EVENT,
            column::COUNT,
        ];
        columns.extend((self == Self::Whole).then_some(column::DELAY));
        for data_type in types {
            columns.extend(self.reads_nan_bits(data_type).then_some(column::INTEGER));
            columns.extend(self.value_column(data_type));
        }
        columns.sort_unstable();
        columns.dedup();
        columns
    }
}

/// A batch of rows read from a file with the columns that [`Projection::columns_of`] returned.
pub(crate) struct ReadBatch<'b> {
    projection: Projection,
    columns: &'b [usize],
    batch: &'b RecordBatch,
}

impl<'b> ReadBatch<'b> {
    pub(crate) fn new(
        projection: Projection,
        columns: &'b [usize],
        batch: &'b RecordBatch,
    ) -> Self {
        Self {
            projection,
            columns,
            batch,
        }
    }

    fn column(&self, column: usize) -> Result<&'b ArrayRef, Error> {
        let index = self.columns.iter().position(|one| *one == column);
        let found = index.and_then(|index| self.batch.columns().get(index));
        found.ok_or_else(|| Error::damaged("a column is missing"))
    }

    fn int64(&self, column: usize) -> Result<&'b Int64Array, Error> {
        let found = self.column(column)?.as_primitive_opt::<Int64Type>();
        found.ok_or_else(wrong_type)
    }

    /// Appends a range of the batch, which must belong to one series, to `rows`.
    pub(crate) fn read(
        &self,
        range: Range<usize>,
        data_type: &DataType,
        rows: &mut Rows,
    ) -> Result<(), Error> {
        let events = self.column(column::EVENT)?.as_string_opt::<i32>();
        let events = events.ok_or_else(wrong_type)?;
        let mut at = range.start;
        if events.null_count() < events.len() {
            for row in range.clone() {
                if events.is_valid(row) {
                    self.read_updates(at..row, data_type, rows)?;
                    rows.push_event(self.mark(events.value(row), row)?);
                    at = row + 1;
                }
            }
        }
        self.read_updates(at..range.end, data_type, rows)
    }

    fn mark(&self, name: &str, row: usize) -> Result<HistoryEventRow, Error> {
        let times = self
            .column(column::TIME)?
            .as_primitive_opt::<TimestampNanosecondType>();
        let counts = self.int64(column::COUNT)?;
        let count = if counts.is_valid(row) {
            counts.value(row) as u64
        } else {
            0
        };
        Ok(HistoryEventRow {
            key: RowKey {
                time: times.ok_or_else(wrong_type)?.value(row),
                epoch: self.int64(column::EPOCH)?.value(row) as u64,
                sequence: self.int64(column::SEQUENCE)?.value(row) as u64,
            },
            event: event_of(name, count),
        })
    }

    /// Appends a range without events to `rows`.
    fn read_updates(
        &self,
        range: Range<usize>,
        data_type: &DataType,
        rows: &mut Rows,
    ) -> Result<(), Error> {
        if range.is_empty() {
            return Ok(());
        }
        let times = self
            .column(column::TIME)?
            .as_primitive_opt::<TimestampNanosecondType>();
        let qualities = self
            .column(column::QUALITY)?
            .as_primitive_opt::<Int32Type>();
        let keys = RowColumns {
            times: slice_of(times.ok_or_else(wrong_type)?.values(), &range)?,
            delays: match self.projection {
                Projection::Whole => slice_of(self.int64(column::DELAY)?.values(), &range)?,
                Projection::Values | Projection::Numbers => &[],
            },
            epochs: slice_of(self.int64(column::EPOCH)?.values(), &range)?,
            sequences: slice_of(self.int64(column::SEQUENCE)?.values(), &range)?,
            qualities: slice_of(qualities.ok_or_else(wrong_type)?.values(), &range)?,
        };
        if self.projection.value_column(data_type).is_none() {
            rows.extend_bytes(&keys, |_, _| {});
            return Ok(());
        }
        match Storage::of(data_type) {
            Storage::Number if self.projection.reads_nan_bits(data_type) => {
                let values = self
                    .column(column::VALUE)?
                    .as_primitive_opt::<Float64Type>();
                let values = slice_of(values.ok_or_else(wrong_type)?.values(), &range)?;
                let exact = self.int64(column::INTEGER)?;
                let words = values.iter().enumerate().map(|(row, value)| {
                    let row = range.start + row;
                    match exact.is_valid(row) {
                        true => exact.value(row) as u64,
                        false => word_of(*value, data_type),
                    }
                });
                rows.extend_words(&keys, words);
            }
            Storage::Number | Storage::Enum => {
                let values = self
                    .column(column::VALUE)?
                    .as_primitive_opt::<Float64Type>();
                let values = slice_of(values.ok_or_else(wrong_type)?.values(), &range)?;
                rows.extend_words(&keys, values.iter().map(|value| word_of(*value, data_type)));
            }
            Storage::Integer => {
                let values = slice_of(self.int64(column::INTEGER)?.values(), &range)?;
                rows.extend_words(&keys, values.iter().map(|value| *value as u64));
            }
            Storage::Text => {
                let texts = self.column(column::TEXT)?.as_string_opt::<i32>();
                let texts = texts.ok_or_else(wrong_type)?;
                let mut wire = Vec::new();
                rows.extend_bytes(&keys, |row, out| {
                    let text = texts.value(range.start + row);
                    wire.clear();
                    wire::put_varint(&mut wire, text.len() as u64);
                    out.extend_from_slice(&wire);
                    out.extend_from_slice(text.as_bytes());
                });
            }
            Storage::Bytes | Storage::Struct | Storage::Array => {
                let raws = self.column(column::RAW)?.as_binary_opt::<i32>();
                let raws = raws.ok_or_else(wrong_type)?;
                rows.extend_bytes(&keys, |row, out| {
                    out.extend_from_slice(raws.value(range.start + row));
                });
            }
        }
        Ok(())
    }
}

fn slice_of<'a, T>(values: &'a [T], range: &Range<usize>) -> Result<&'a [T], Error> {
    let part = values.get(range.clone());
    part.ok_or_else(|| Error::damaged("a column is too short"))
}

fn wrong_type() -> Error {
    Error::damaged("a column has the wrong type")
}

fn event_of(name: &str, count: u64) -> HistoryEvent {
    let known = (1..=6).map(|number| HistoryEvent::from_parts(number, count));
    let found = known.into_iter().find(|event| event.name() == name);
    found.unwrap_or_else(|| HistoryEvent::Other(name.parse().unwrap_or(0)))
}
