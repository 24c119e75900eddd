//! Converts rows to Arrow batches, for Arrow IPC and Parquet.
//!
//! Each channel becomes a column of its own type, with nulls after its end. Times beyond the range of 64-bit
//! nanoseconds are null, extended floats become 64-bit floats, and a complex number is a struct of
//! `re` and `im`. Properties of a channel become metadata of its column; properties of the file and
//! its groups become metadata of the schema.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    ArrayRef, BooleanArray, NullArray, PrimitiveArray, RecordBatch, StringArray, StructArray,
    TimestampNanosecondArray, new_null_array,
};
use arrow_schema::{ArrowError, DataType as ArrowType, Field, Fields, Schema, TimeUnit};
use trunkline_tdms::{ObjectPath, Properties, ReadAt, TdmsFile, TdmsType, Values};

use super::blocks::Block;
use super::columns::{Column, name_of};
use super::info::value_text;
use super::rows::{Axis, RowTime};
use super::text::TIME;

#[derive(Debug)]
pub(super) struct Batches {
    schema: Arc<Schema>,
    axis: Option<Axis>,
}

impl Batches {
    pub(super) fn new<R: ReadAt>(
        file: &TdmsFile<R>,
        columns: &[Column<'_, R>],
        axis: Option<Axis>,
    ) -> Self {
        let time = axis.map(|axis| {
            let data_type = match axis.at(0) {
                RowTime::Time(_) => time_type(),
                RowTime::Distance(_) => ArrowType::Float64,
            };
            Field::new(TIME, data_type, false)
        });
        let fields = columns.iter().map(|column| {
            let field = Field::new(&column.name, arrow_type(column.data_type), true);
            field.with_metadata(metadata("", column.channel.properties()))
        });
        let fields: Vec<Field> = time.into_iter().chain(fields).collect();
        let mut file_metadata = HashMap::new();
        for path in file.paths().filter(|path| !path.is_channel()) {
            let prefix = match path {
                ObjectPath::File => String::new(),
                group => format!("{}/", name_of(group)),
            };
            let properties = file.properties(path);
            file_metadata.extend(properties.iter().flat_map(|all| metadata(&prefix, all)));
        }
        Self {
            schema: Arc::new(Schema::new_with_metadata(fields, file_metadata)),
            axis,
        }
    }

    pub(super) fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    pub(super) fn batch(&self, block: &Block) -> Result<RecordBatch, ArrowError> {
        let time = self.axis.map(|axis| times(axis, block));
        let fields = self.schema.fields().iter().skip(time.iter().len());
        let columns = block.columns.iter().zip(&block.unreadable).zip(fields);
        let columns = columns.map(|((values, unreadable), field)| match values {
            Values::Void => new_null_array(field.data_type(), block.rows),
            values => array(values, block.rows, unreadable),
        });
        let columns = time.into_iter().chain(columns).collect();
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
    }
}

fn metadata(prefix: &str, properties: &Properties) -> HashMap<String, String> {
    let properties = properties.iter();
    properties
        .map(|(name, value)| (format!("{prefix}{}", name.to_str()), value_text(value)))
        .collect()
}

fn time_type() -> ArrowType {
    ArrowType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))
}

fn complex_fields(data_type: ArrowType) -> Fields {
    ["re", "im"]
        .map(|name| Field::new(name, data_type.clone(), true))
        .to_vec()
        .into()
}

/// Returns the Arrow type of a column: the null type if the values cannot be read.
fn arrow_type(data_type: TdmsType) -> ArrowType {
    array(&Values::new(data_type), 0, &[]).data_type().clone()
}

fn times(axis: Axis, block: &Block) -> ArrayRef {
    let rows = block.first..block.first + block.rows as u64;
    let row_times = rows.map(|row| axis.at(row));
    match axis.at(block.first) {
        RowTime::Time(_) => {
            let nanos = row_times.map(|row_time| match row_time {
                RowTime::Time(time) => time.as_nanos(),
                RowTime::Distance(_) => 0,
            });
            Arc::new(TimestampNanosecondArray::from_iter_values(nanos).with_timezone("UTC"))
        }
        RowTime::Distance(_) => {
            let distances = row_times.map(|row_time| match row_time {
                RowTime::Distance(distance) => distance,
                RowTime::Time(_) => f64::NAN,
            });
            Arc::new(PrimitiveArray::<Float64Type>::from_iter_values(distances))
        }
    }
}

/// Returns the cells of a column, with nulls for unreadable cells and after the end of the channel.
fn array(values: &Values, rows: usize, unreadable: &[Range<usize>]) -> ArrayRef {
    match values {
        Values::I8(v) => numbers::<Int8Type>(v.iter().copied(), rows, unreadable),
        Values::I16(v) => numbers::<Int16Type>(v.iter().copied(), rows, unreadable),
        Values::I32(v) => numbers::<Int32Type>(v.iter().copied(), rows, unreadable),
        Values::I64(v) => numbers::<Int64Type>(v.iter().copied(), rows, unreadable),
        Values::U8(v) => numbers::<UInt8Type>(v.iter().copied(), rows, unreadable),
        Values::U16(v) => numbers::<UInt16Type>(v.iter().copied(), rows, unreadable),
        Values::U32(v) => numbers::<UInt32Type>(v.iter().copied(), rows, unreadable),
        Values::U64(v) => numbers::<UInt64Type>(v.iter().copied(), rows, unreadable),
        Values::F32(v) => numbers::<Float32Type>(v.iter().copied(), rows, unreadable),
        Values::F64(v) => numbers::<Float64Type>(v.iter().copied(), rows, unreadable),
        Values::Extended(v) => {
            numbers::<Float64Type>(v.iter().map(|x| x.to_f64()), rows, unreadable)
        }
        Values::String(v) => {
            let texts = padded(v.iter().map(|text| Some(text.to_str())), rows, unreadable);
            Arc::new(texts.collect::<StringArray>())
        }
        Values::Bool(v) => {
            let all = padded(v.iter().copied().map(Some), rows, unreadable);
            Arc::new(all.collect::<BooleanArray>())
        }
        Values::Time(v) => {
            let nanos = v.iter().map(|time| Some(time.to_timestamp()?.as_nanos()));
            let all: TimestampNanosecondArray = padded(nanos, rows, unreadable).collect();
            Arc::new(all.with_timezone("UTC"))
        }
        Values::ComplexF32(v) => {
            let part = |index: usize| {
                numbers::<Float32Type>(v.iter().map(|pair| pair[index]), rows, unreadable)
            };
            complex([part(0), part(1)], ArrowType::Float32)
        }
        Values::ComplexF64(v) => {
            let part = |index: usize| {
                numbers::<Float64Type>(v.iter().map(|pair| pair[index]), rows, unreadable)
            };
            complex([part(0), part(1)], ArrowType::Float64)
        }
        _ => Arc::new(NullArray::new(rows)),
    }
}

fn complex(parts: [ArrayRef; 2], data_type: ArrowType) -> ArrayRef {
    Arc::new(StructArray::new(
        complex_fields(data_type),
        parts.to_vec(),
        None,
    ))
}

fn numbers<T: ArrowPrimitiveType>(
    values: impl Iterator<Item = T::Native>,
    rows: usize,
    unreadable: &[Range<usize>],
) -> ArrayRef {
    Arc::new(padded(values.map(Some), rows, unreadable).collect::<PrimitiveArray<T>>())
}

/// Appends nulls up to the number of rows, and replaces unreadable cells with nulls.
fn padded<T>(
    values: impl Iterator<Item = Option<T>>,
    rows: usize,
    unreadable: &[Range<usize>],
) -> impl Iterator<Item = Option<T>> {
    let values = values.enumerate().map(|(row, value)| {
        let is_unreadable = unreadable.iter().any(|range| range.contains(&row));
        value.filter(|_| !is_unreadable)
    });
    values.chain(std::iter::repeat_with(|| None)).take(rows)
}
