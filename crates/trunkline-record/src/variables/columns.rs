//! Converts values of variables to values of channels and back.

use std::ops::Range;
use std::sync::Arc;

use trunkline_tdms::{TdmsTime, Text, Values};
use trunkline_types::{Array, DataType, ElementType, Elements, Timestamp, Value, Waveform};

use super::attributes;
use super::layout::{ElementColumns, Layout, Part};

/// Number of values whose memory a cleared column retains.
const RETAINED_VALUES: usize = 64;

/// Updates of a variable, column by column.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    pub(super) times: Vec<TdmsTime>,
    pub(super) values: Vec<Values>,
    pub(super) qualities: Vec<u32>,
}

impl Columns {
    pub(super) fn of(layout: &Layout) -> Self {
        let columns = layout.columns.iter();
        Self {
            times: Vec::new(),
            values: columns
                .map(|column| Values::new(column.data_type))
                .collect(),
            qualities: Vec::new(),
        }
    }

    /// Appends a value, which must have the layout's type.
    pub(super) fn push(&mut self, layout: &Layout, value: &Value) {
        push(&layout.value, value, &mut self.values);
    }

    /// Removes all updates. Memory for more than a few values is freed, because the next updates
    /// may belong to another variable.
    pub(super) fn clear(&mut self) {
        self.times.clear();
        self.times.shrink_to(RETAINED_VALUES);
        self.qualities.clear();
        self.qualities.shrink_to(RETAINED_VALUES);
        for values in &mut self.values {
            values.clear(RETAINED_VALUES);
        }
    }

    /// Moves all updates of `other` to the end.
    pub(super) fn append(&mut self, other: &mut Self) {
        self.times.append(&mut other.times);
        self.qualities.append(&mut other.qualities);
        for (ours, theirs) in self.values.iter_mut().zip(&mut other.values) {
            ours.append(theirs);
        }
    }
}

/// Returns the number of bytes of memory that a value needs in its columns.
pub(super) fn byte_len(value: &Value) -> usize {
    let number = size_of::<u128>();
    match value {
        Value::String(text) => text.len() + size_of::<Text>(),
        Value::Bytes(bytes) => bytes.len() + number,
        Value::Array(array) => elements_len(array.elements()) + number * array.shape().len(),
        Value::Struct(fields) => fields.iter().map(byte_len).sum(),
        Value::Waveform(waveform) => {
            let attributes = waveform.attributes.iter();
            // An attribute needs more memory as text.
            let text = attributes.map(|(name, value)| 2 * (name.len() + byte_len(value)) + number);
            elements_len(&waveform.samples) + text.sum::<usize>() + 4 * number
        }
        _ => number,
    }
}

fn elements_len(elements: &Elements) -> usize {
    match elements {
        Elements::String(all) => all.iter().map(|text| text.len() + size_of::<Text>()).sum(),
        Elements::Timestamp(all) => all.len() * size_of::<TdmsTime>(),
        all => all.len() * all.element_type().fixed_size().unwrap_or(1),
    }
}

fn push(part: &Part, value: &Value, columns: &mut [Values]) {
    match (part, value) {
        (Part::Scalar(column), value) => push_scalar(columns, *column, value),
        (Part::Bytes(element_columns), Value::Bytes(bytes)) => {
            if let Some(Values::U8(all)) = columns.get_mut(element_columns.elements) {
                all.extend_from_slice(bytes);
            }
            push_number(columns, element_columns.count, bytes.len());
        }
        (Part::Array(element_columns, lengths), Value::Array(array)) => {
            push_elements(columns, *element_columns, array.elements());
            for (column, length) in lengths.iter().zip(array.shape()) {
                push_number(columns, *column, *length as usize);
            }
        }
        (
            Part::Waveform {
                element_columns,
                t0,
                dt,
                attributes,
            },
            Value::Waveform(waveform),
        ) => {
            push_elements(columns, *element_columns, &waveform.samples);
            push_scalar(columns, *t0, &Value::Timestamp(waveform.t0));
            push_scalar(columns, *dt, &Value::F64(waveform.dt));
            let text = attributes::to_text(&waveform.attributes);
            push_scalar(columns, *attributes, &Value::String(text.into()));
        }
        (Part::Struct(parts), Value::Struct(fields)) => {
            for (part, field) in parts.iter().zip(fields.iter()) {
                push(part, field, columns);
            }
        }
        // This cannot happen, because the value has the layout's type.
        _ => {}
    }
}

fn push_number(columns: &mut [Values], column: usize, number: usize) {
    // A value's length fits in a `u32`.
    push_scalar(columns, column, &Value::U32(number as u32));
}

fn push_scalar(columns: &mut [Values], column: usize, value: &Value) {
    let Some(column) = columns.get_mut(column) else {
        return;
    };
    match (column, value) {
        (Values::U32(all), Value::Enum(value)) => all.push(*value),
        (Values::String(all), Value::String(value)) => all.push(Text::from(&**value)),
        (Values::Time(all), Value::Timestamp(value)) => all.push((*value).into()),
        (column, value) => push_plain(column, value),
    }
}

fn push_elements(columns: &mut [Values], element_columns: ElementColumns, elements: &Elements) {
    push_number(columns, element_columns.count, elements.len());
    let Some(column) = columns.get_mut(element_columns.elements) else {
        return;
    };
    match (column, elements) {
        (Values::String(all), Elements::String(elements)) => {
            all.extend(elements.iter().map(|text| Text::from(&**text)));
        }
        (Values::Time(all), Elements::Timestamp(elements)) => {
            all.extend(elements.iter().map(|time| TdmsTime::from(*time)));
        }
        (column, elements) => extend_plain(column, elements),
    }
}

/// Converts the types that are represented identically in columns, values and arrays. Other types
/// cannot occur, because a value has the layout's type; they are ignored.
macro_rules! plain {
    ($($variant:ident)*) => {
        fn push_plain(column: &mut Values, value: &Value) {
            match (column, value) {
                $((Values::$variant(all), Value::$variant(value)) => all.push(*value),)*
                _ => {}
            }
        }

        fn extend_plain(column: &mut Values, elements: &Elements) {
            match (column, elements) {
                $((Values::$variant(all), Elements::$variant(elements)) => all.extend_from_slice(elements),)*
                _ => {}
            }
        }

        fn plain_value(values: &Values, index: usize) -> Option<Value> {
            match values {
                $(Values::$variant(all) => all.get(index).copied().map(Value::$variant),)*
                _ => None,
            }
        }

        fn plain_elements(values: &Values, range: Range<usize>) -> Option<Elements> {
            match values {
                $(Values::$variant(all) => Some(Elements::$variant(all.get(range)?.to_vec())),)*
                _ => None,
            }
        }
    };
}

plain! { Bool I8 I16 I32 I64 U8 U16 U32 U64 F32 F64 }

/// Supplies the values of columns in order.
pub(super) trait Source {
    /// The reason why a value cannot be read.
    type Error;

    /// Takes the next `count` values of a column. Returns the buffer that contains them, and the
    /// index of the first value in the buffer.
    fn next(&mut self, column: usize, count: u64) -> Result<(&Values, usize), Self::Error>;

    /// Returns the error for data that does not form a value of the variable's type.
    fn invalid(&self, column: usize, why: &'static str) -> Self::Error;
}

/// Assembles the next value from its columns.
pub(super) fn value<S: Source>(
    part: &Part,
    data_type: &DataType,
    source: &mut S,
) -> Result<Value, S::Error> {
    Ok(match (part, data_type) {
        (Part::Scalar(column), data_type) => scalar(*column, data_type, source)?,
        (Part::Bytes(element_columns), _) => {
            match elements(*element_columns, ElementType::U8, source)? {
                Elements::U8(bytes) => Value::Bytes(bytes.into()),
                _ => {
                    return Err(source.invalid(element_columns.elements, "bytes of the wrong type"));
                }
            }
        }
        (Part::Array(element_columns, lengths), DataType::Array(array_type)) => {
            let elements = elements(*element_columns, array_type.element, source)?;
            let mut shape = Vec::with_capacity(lengths.len().max(1));
            for column in lengths {
                shape.push(number(*column, source)?);
            }
            if lengths.is_empty() {
                shape.push(elements.len() as u32);
            }
            let array = Array::new(shape, elements).ok();
            let array = array.filter(|array| array.has_type(array_type));
            Value::Array(Arc::new(array.ok_or_else(|| {
                source.invalid(
                    element_columns.count,
                    "dimensions that do not match the elements or the type",
                )
            })?))
        }
        (
            Part::Waveform {
                element_columns,
                t0,
                dt,
                attributes,
            },
            DataType::Waveform(element),
        ) => {
            let samples = elements(*element_columns, *element, source)?;
            let Value::Timestamp(start) = scalar(*t0, &DataType::Timestamp, source)? else {
                return Err(source.invalid(*t0, "a value that is not a time"));
            };
            let Value::F64(interval) = scalar(*dt, &DataType::F64, source)? else {
                return Err(source.invalid(*dt, "a value that is not a number"));
            };
            let Value::String(text) = scalar(*attributes, &DataType::String, source)? else {
                return Err(source.invalid(*attributes, "a value that is not text"));
            };
            let attributes = attributes::from_text(&text).ok_or_else(|| {
                source.invalid(*attributes, "text that is not a list of attributes")
            })?;
            Value::Waveform(Arc::new(Waveform {
                t0: start,
                dt: interval,
                samples,
                attributes,
            }))
        }
        (Part::Struct(parts), DataType::Struct(fields)) => {
            let fields = parts.iter().zip(&fields.fields);
            let fields = fields.map(|(part, (_, data_type))| value(part, data_type, source));
            Value::Struct(fields.collect::<Result<_, _>>()?)
        }
        (
            Part::Array(element_columns, _)
            | Part::Waveform {
                element_columns, ..
            },
            _,
        ) => {
            return Err(source.invalid(element_columns.count, "the wrong type"));
        }
        (Part::Struct(_), _) => return Err(source.invalid(0, "the wrong type")),
    })
}

fn number<S: Source>(column: usize, source: &mut S) -> Result<u32, S::Error> {
    match scalar(column, &DataType::U32, source)? {
        Value::U32(number) => Ok(number),
        _ => Err(source.invalid(column, "a value that is not a number")),
    }
}

fn scalar<S: Source>(
    column: usize,
    data_type: &DataType,
    source: &mut S,
) -> Result<Value, S::Error> {
    let (values, index) = source.next(column, 1)?;
    let value = match (values, data_type) {
        (Values::U32(all), DataType::Enum(_)) => all.get(index).copied().map(Value::Enum),
        (Values::String(all), _) => all.get(index).map(|value| Value::String(text(value))),
        (Values::Time(all), _) => all.get(index).map(|value| Value::Timestamp(time(*value))),
        (plain, _) => plain_value(plain, index),
    };
    value.ok_or_else(|| source.invalid(column, "no such value"))
}

fn elements<S: Source>(
    element_columns: ElementColumns,
    element: ElementType,
    source: &mut S,
) -> Result<Elements, S::Error> {
    let count = number(element_columns.count, source)?;
    if count == 0 {
        return Ok(Elements::zeros(element, 0));
    }
    let (values, index) = source.next(element_columns.elements, u64::from(count))?;
    let end = index.saturating_add(count as usize);
    copy_elements(values, index..end).ok_or_else(|| {
        source.invalid(
            element_columns.elements,
            "fewer elements than its count states",
        )
    })
}

fn copy_elements(values: &Values, range: Range<usize>) -> Option<Elements> {
    match values {
        Values::String(all) => {
            let texts = all.get(range)?.iter().map(text);
            Some(Elements::String(texts.collect()))
        }
        Values::Time(all) => {
            let times = all.get(range)?.iter().map(|value| time(*value));
            Some(Elements::Timestamp(times.collect()))
        }
        plain => plain_elements(plain, range),
    }
}

/// Returns the recorded text. Invalid UTF-8 is converted as for display.
fn text(text: &Text) -> Arc<str> {
    match std::str::from_utf8(text.as_bytes()) {
        Ok(exact) => exact.into(),
        Err(_) => (*text.to_str()).into(),
    }
}

fn time(time: TdmsTime) -> Timestamp {
    time.to_timestamp().unwrap_or(Timestamp::UNIX_EPOCH)
}
