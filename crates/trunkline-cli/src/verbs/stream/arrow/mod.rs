//! Converts elements to and from the Arrow IPC streaming format: batches of columns, which most data
//! programs can read.
//!
//! A struct has a column per field; any other type has the single column `value`. In the input,
//! numbers must have exactly the element's type, while text, bytes, lists and times may have any
//! Arrow type that holds the same values. Nulls are refused.
//!
//! # Layout
//! - [`Batches`] converts elements to batches; `columns` builds an array of values.
//! - [`Parser`] converts batches to elements; `values` extracts the values of an array.

mod columns;
mod values;

use std::cell::Cell;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Once};

use arrow_array::{Array, ArrayRef, RecordBatch, StringArray, StructArray};
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType as ArrowType, Field, Fields, Schema};
use trunkline_types::{DataType, Value};

use super::text::WRITER;
use crate::{CliError, Problem};

/// Name of the column for elements without fields.
const COLUMN: &str = "value";

fn fields(data_type: &DataType) -> Result<Fields, Problem> {
    Ok(match columns::array(&[], data_type)?.data_type() {
        ArrowType::Struct(fields) => fields.clone(),
        data_type => vec![Field::new(COLUMN, data_type.clone(), false)].into(),
    })
}

pub(super) struct Batches {
    writer: StreamWriter<BufWriter<File>>,
    schema: Arc<Schema>,
    data_type: DataType,
}

impl Batches {
    /// Begins an output of batches for elements of this type. With `has_writer`, the first column names
    /// the writer of each element.
    pub(super) fn new(out: File, data_type: &DataType, has_writer: bool) -> Result<Self, CliError> {
        let writer = has_writer.then(|| Arc::new(Field::new(WRITER, ArrowType::Utf8, false)));
        let fields = fields(data_type)?;
        let columns = writer.into_iter().chain(fields.iter().cloned());
        let schema = Arc::new(Schema::new(columns.collect::<Fields>()));
        let writer = StreamWriter::try_new(BufWriter::new(out), &schema).map_err(write_problem)?;
        Ok(Self {
            writer,
            schema,
            data_type: data_type.clone(),
        })
    }

    /// Writes a batch of elements, all from `writer` if it is given, and flushes it.
    pub(super) fn write(&mut self, values: &[Value], writer: Option<&str>) -> Result<(), CliError> {
        let writer = writer.map(|writer| {
            let names = std::iter::repeat_n(writer, values.len());
            Arc::new(StringArray::from_iter_values(names)) as ArrayRef
        });
        let values: Vec<&Value> = values.iter().collect();
        let column = columns::array(&values, &self.data_type)?;
        let columns: Vec<ArrayRef> = match self.data_type {
            DataType::Struct(_) => struct_columns(&column),
            _ => vec![column],
        };
        let columns = writer.into_iter().chain(columns).collect();
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns);
        let batch = batch.map_err(write_problem)?;
        self.writer.write(&batch).map_err(write_problem)?;
        Ok(self.writer.get_mut().flush()?)
    }

    pub(super) fn finish(mut self) -> Result<(), CliError> {
        self.writer.finish().map_err(write_problem)?;
        Ok(self.writer.get_mut().flush()?)
    }
}

fn struct_columns(column: &ArrayRef) -> Vec<ArrayRef> {
    let array = column.as_any().downcast_ref::<StructArray>();
    array
        .map(|array| array.columns().to_vec())
        .unwrap_or_default()
}

fn write_problem(error: ArrowError) -> CliError {
    match error {
        ArrowError::IoError(_, error) => error.into(),
        other => Problem::usage(format!(
            "the elements cannot be converted to Arrow: {other}"
        ))
        .into(),
    }
}

#[derive(Debug)]
pub(super) struct Parser<'a> {
    decoder: StreamDecoder,
    data_type: &'a DataType,
}

impl<'a> Parser<'a> {
    pub(super) fn new(data_type: &'a DataType) -> Result<Self, Problem> {
        fields(data_type)?;
        Ok(Self {
            decoder: StreamDecoder::new(),
            data_type,
        })
    }

    pub(super) fn parse(&mut self, piece: &[u8], out: &mut Vec<Value>) -> Result<(), Problem> {
        let mut buffer = Buffer::from(piece);
        while !buffer.is_empty() {
            let batch = without_panic(|| self.decoder.decode(&mut buffer));
            let batch = batch.ok_or_else(|| invalid("it is not an Arrow IPC stream"))?;
            let Some(batch) = batch.map_err(|error| invalid(&error.to_string()))? else {
                continue;
            };
            let array: ArrayRef = match (self.data_type, batch.columns()) {
                (DataType::Struct(_), _) => Arc::new(StructArray::from(batch)),
                // The name of the column does not matter.
                (_, [column]) => Arc::clone(column),
                (_, columns) => {
                    let count = columns.len();
                    return Err(invalid(&format!(
                        "there are {count} columns, but elements of {} have one",
                        self.data_type
                    )));
                }
            };
            out.extend(values::values(&array, self.data_type).map_err(|reason| invalid(&reason))?);
        }
        Ok(())
    }

    pub(super) fn finish(&mut self) -> Result<(), Problem> {
        self.decoder
            .finish()
            .map_err(|error| invalid(&error.to_string()))
    }
}

thread_local! {
    /// True while panics of this thread are caught and not reported.
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Returns the result of `decode`, or `None` after a panic, which is not reported. The decoder slices
/// its buffers by lengths from the input, and does not check all of them first.
fn without_panic<R>(decode: impl FnOnce() -> R) -> Option<R> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let previous_hook = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !IS_GUARDED.get() {
                previous_hook(panic);
            }
        }));
    });
    IS_GUARDED.set(true);
    // After a panic, the decoder is not used again, because the input is refused.
    let answer = panic::catch_unwind(AssertUnwindSafe(decode));
    IS_GUARDED.set(false);
    answer.ok()
}

fn invalid(reason: &str) -> Problem {
    Problem::usage(format!("standard input: {reason}"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use trunkline_types::text::parse_type;
    use trunkline_types::{Array as Numbers, Elements, Timestamp};

    use super::*;

    /// Parses bytes that arrive in pieces.
    fn read(data_type: &DataType, bytes: &[u8], piece: usize) -> Result<Vec<Value>, Problem> {
        let mut sut = Parser::new(data_type)?;
        let mut found = Vec::new();
        for piece in bytes.chunks(piece) {
            sut.parse(piece, &mut found)?;
        }
        sut.finish()?;
        Ok(found)
    }

    /// Returns the encoded bytes of the values, in two batches.
    fn written(data_type: &DataType, values: &[Value]) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("elements.arrow");
        let mut sut = Batches::new(File::create(&path).unwrap(), data_type, false).unwrap();
        let (first, second) = values.split_at(1);
        sut.write(first, None).unwrap();
        sut.write(second, None).unwrap();
        sut.finish().unwrap();
        fs::read(path).unwrap()
    }

    /// Behaviour: NS-03.
    #[test]
    fn elements_of_every_type_round_trip_at_any_split_of_the_bytes() {
        let array = |elements| Value::Array(Numbers::vector(elements).into());
        let time = |nanos| Value::Timestamp(Timestamp::from_nanos(nanos));
        let text = |text: &str| Value::String(text.into());
        for (ty, values) in [
            ("bool", vec![Value::Bool(true), Value::Bool(false)]),
            ("i8", vec![Value::I8(-1), Value::I8(2)]),
            ("u64", vec![Value::U64(u64::MAX), Value::U64(0)]),
            ("f32", vec![Value::F32(1.5), Value::F32(f32::INFINITY)]),
            ("string", vec![text(""), text("ä\n\"")]),
            (
                "bytes",
                vec![Value::Bytes([0, 255].into()), Value::Bytes([].into())],
            ),
            ("timestamp", vec![time(-1), time(1_795_223_903_559_215_767)]),
            ("enum(OFF, AUTO)", vec![Value::Enum(1), Value::Enum(0)]),
            (
                "array(f64, *)",
                vec![
                    array(Elements::F64(vec![])),
                    array(Elements::F64(vec![1.0, 2.0])),
                ],
            ),
            (
                "array(string, 1)",
                vec![
                    array(Elements::String(vec!["a".into()])),
                    array(Elements::String(vec!["b".into()])),
                ],
            ),
            (
                "struct(a: bool, b: struct(c: i16, d: array(timestamp, *)))",
                [3, 4]
                    .map(|c| {
                        let times = vec![Timestamp::from_nanos(7); usize::from(c == 4)];
                        let b = [Value::I16(c), array(Elements::Timestamp(times))];
                        Value::Struct([Value::Bool(true), Value::Struct(b.into())].into())
                    })
                    .to_vec(),
            ),
        ] {
            let data_type = parse_type(ty).unwrap();
            let bytes = written(&data_type, &values);
            for piece in [1, 7, 1000] {
                let found = read(&data_type, &bytes, piece);
                assert_eq!(found, Ok(values.clone()), "{ty} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn elements_of_another_type_are_refused() {
        let data_type = |ty: &str| parse_type(ty).unwrap();
        let i32s = written(&data_type("i32"), &[Value::I32(1), Value::I32(2)]);
        let error = read(&data_type("f64"), &i32s, 1000).unwrap_err();
        assert!(
            error.message.contains("the Arrow type Int32"),
            "{}",
            error.message
        );
        let texts = written(&data_type("string"), &[Value::String("OFF".into())]);
        let error = read(&data_type("enum(ON)"), &texts, 1000).unwrap_err();
        assert!(
            error.message.contains("not one of the labels"),
            "{}",
            error.message
        );
        let error = read(&data_type("struct(a: i32)"), &i32s, 1000).unwrap_err();
        assert!(
            error.message.contains("no column \"a\""),
            "{}",
            error.message
        );
        let error = read(&data_type("i32"), &i32s[..i32s.len() / 2], 1000).unwrap_err();
        assert_eq!(error.code, "usage");
        let error = read(&data_type("i32"), &[0xab; 100], 10).unwrap_err();
        assert_eq!(error.code, "usage");
        for ty in [
            "waveform(f64)",
            "array(f64, 2, 2)",
            "struct(a: waveform(i8))",
        ] {
            let error = read(&data_type(ty), &[], 1).unwrap_err();
            assert!(
                error.message.contains("cannot be converted to Arrow"),
                "{}",
                error.message
            );
        }
    }

    #[test]
    fn altered_bytes_are_refused_or_parsed_without_a_panic() {
        let data_type = parse_type("struct(text: string, n: array(f64, *))").unwrap();
        let value = |text: &str| {
            let numbers = Value::Array(Numbers::vector(Elements::F64(vec![1.0, 2.0])).into());
            Value::Struct([Value::String(text.into()), numbers].into())
        };
        let bytes = written(&data_type, &[value("a"), value("bc"), value("")]);
        let mut altered = bytes.clone();
        let mut refused = 0;
        for position in 0..bytes.len() {
            for mask in [0x01, 0x80, 0xff] {
                altered[position] ^= mask;
                refused += usize::from(read(&data_type, &altered, 1000).is_err());
                altered[position] = bytes[position];
            }
        }
        assert!(refused > 0);
    }
}
