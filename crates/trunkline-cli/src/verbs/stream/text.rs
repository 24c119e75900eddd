//! Formats elements as lines of text, JSON Lines or CSV, and parses them.

use serde_json::{Value as Json, json};
use trunkline_types::json::from_json;
use trunkline_types::text::parse_value;
use trunkline_types::{DataType, Value};

use super::ElementForm;
use crate::Problem;
use crate::output::csv;
use crate::output::values::ValueStyle;

/// Column of elements without fields, and JSON key of an element if the writer is shown too.
const COLUMN: &str = "value";

/// Column or JSON key of the writer, if there can be several writers.
pub(super) const WRITER: &str = "writer";

fn columns(data_type: &DataType) -> Vec<&str> {
    match data_type {
        DataType::Struct(fields) => fields.fields.iter().map(|(name, _)| &**name).collect(),
        _ => vec![COLUMN],
    }
}

/// Returns the header line, if the form has one.
pub(super) fn header(form: ElementForm, data_type: &DataType, has_writer: bool) -> Option<String> {
    let writer = has_writer.then_some(WRITER);
    let columns = writer.into_iter().chain(columns(data_type));
    (form == ElementForm::Csv).then(|| csv::line(&columns.collect::<Vec<_>>()))
}

pub(super) fn line(
    form: ElementForm,
    writer: Option<&str>,
    value: &Value,
    data_type: &DataType,
    style: ValueStyle,
) -> String {
    if form != ElementForm::Csv {
        let value = style.json(value, data_type).into_plain();
        return match writer {
            None => value.to_string(),
            Some(writer) => json!({ WRITER: writer, COLUMN: value }).to_string(),
        };
    }
    let cell = |value: &Value, data_type: &DataType| csv::cell(value, data_type, style);
    let cells: Vec<String> = match (value, data_type) {
        (Value::Struct(values), DataType::Struct(struct_type)) => {
            let fields = values.iter().zip(&struct_type.fields);
            fields
                .map(|(value, (_, data_type))| cell(value, data_type))
                .collect()
        }
        _ => vec![cell(value, data_type)],
    };
    let cells = cells.iter().map(String::as_str);
    let cells: Vec<&str> = writer.into_iter().chain(cells).collect();
    // A parser would skip an empty row.
    match cells.as_slice() {
        [""] => "\"\"".to_owned(),
        cells => csv::line(cells),
    }
}

/// Parses lines of text that arrive in pieces.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    form: ElementForm,
    data_type: &'a DataType,
    /// Text after the last complete line.
    rest: Vec<u8>,
    /// Number of bytes of `rest` that were already scanned, and whether they end within quotes.
    scanned: (usize, bool),
    /// Number of complete lines that were parsed.
    count: usize,
    /// For each column of CSV, the index of its field in the type. `None` before the first row.
    field_indexes: Option<Vec<usize>>,
}

/// Maximum length of a line in bytes. No element needs a longer line.
const LINE_BYTES_MAX: usize = 1 << 30;

impl<'a> Lines<'a> {
    pub(super) fn new(form: ElementForm, data_type: &'a DataType) -> Self {
        Self {
            form,
            data_type,
            rest: Vec::new(),
            scanned: (0, false),
            count: 0,
            field_indexes: None,
        }
    }

    /// Parses a piece of text and appends the elements of complete lines, up to the first invalid one.
    pub(super) fn parse(&mut self, piece: &[u8], out: &mut Vec<Value>) -> Result<(), Problem> {
        self.rest.extend_from_slice(piece);
        let (mut line_start, (mut position, mut is_quoted)) = (0, self.scanned);
        let rest = std::mem::take(&mut self.rest);
        while let Some(byte) = rest.get(position) {
            position += 1;
            match byte {
                // Only CSV allows line breaks within quotes.
                b'"' if self.form == ElementForm::Csv => is_quoted = !is_quoted,
                b'\n' if !is_quoted => {
                    self.parse_line(&rest[line_start..position], out)?;
                    line_start = position;
                }
                _ => {}
            }
        }
        self.rest.extend_from_slice(&rest[line_start..]);
        self.scanned = (position - line_start, is_quoted);
        match self.rest.len() > LINE_BYTES_MAX {
            true => Err(self.invalid("the line is longer than 1 GiB")),
            false => Ok(()),
        }
    }

    /// Parses the last line, which need not end with a line break.
    pub(super) fn finish(&mut self, out: &mut Vec<Value>) -> Result<(), Problem> {
        let rest = std::mem::take(&mut self.rest);
        self.parse_line(&rest, out)
    }

    fn parse_line(&mut self, line: &[u8], out: &mut Vec<Value>) -> Result<(), Problem> {
        let text = std::str::from_utf8(line).map_err(|_| self.invalid("the line is not UTF-8"))?;
        let value = match self.form {
            _ if text.trim().is_empty() => None,
            ElementForm::Csv => self.row(text)?,
            _ => {
                let json: Json = serde_json::from_str(text.trim_end()).map_err(|error| {
                    let column = error.column();
                    self.invalid(&format!("column {column}: invalid JSON"))
                })?;
                let value = from_json(&json, self.data_type);
                Some(value.map_err(|error| self.invalid(&error.to_string()))?)
            }
        };
        self.count += line.iter().filter(|byte| **byte == b'\n').count();
        out.extend(value);
        Ok(())
    }

    /// Returns the element of a row; `None` if the row names the columns.
    fn row(&mut self, text: &str) -> Result<Option<Value>, Problem> {
        let rows = csv::parse(text).map_err(|(_, reason)| self.invalid(reason))?;
        // A row that consists only of quotes is an empty element.
        let cells = rows.into_iter().next().map(|row| row.cells);
        let cells = cells.unwrap_or_else(|| vec![String::new()]);
        let columns = columns(self.data_type);
        if self.field_indexes.is_none() {
            let field = |cell: &String| columns.iter().position(|column| column == cell);
            let indexes: Option<Vec<usize>> = cells.iter().map(field).collect();
            let indexes = indexes.filter(|indexes| {
                indexes.len() == columns.len()
                    && (0..columns.len()).all(|index| indexes.contains(&index))
            });
            let is_header = indexes.is_some();
            self.field_indexes = Some(indexes.unwrap_or_else(|| (0..columns.len()).collect()));
            if is_header {
                return Ok(None);
            }
        }
        if cells.len() != columns.len() {
            let (found, expected) = (cells.len(), columns.len());
            let data_type = self.data_type;
            return Err(self.invalid(&format!(
                "the row has {found} cells, but an element of {data_type} has {expected}"
            )));
        }
        let DataType::Struct(fields) = self.data_type else {
            return self.cell(&cells[0], self.data_type).map(Some);
        };
        let indexes = self.field_indexes.as_deref().unwrap_or_default();
        let mut values = vec![Value::Bool(false); columns.len()];
        for (cell, index) in cells.iter().zip(indexes) {
            values[*index] = self.cell(cell, &fields.fields[*index].1)?;
        }
        Ok(Some(Value::Struct(values.into())))
    }

    fn cell(&self, cell: &str, data_type: &DataType) -> Result<Value, Problem> {
        parse_value(cell, data_type).map_err(|error| self.invalid(&error.to_string()))
    }

    fn invalid(&self, reason: &str) -> Problem {
        Problem::usage(format!("standard input:{}: {reason}", self.count + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trunkline_types::text::parse_type;

    fn read(form: ElementForm, ty: &str, pieces: &[&str]) -> Result<Vec<Value>, Problem> {
        let data_type = parse_type(ty).unwrap();
        let mut sut = Lines::new(form, &data_type);
        let mut found = Vec::new();
        for piece in pieces {
            sut.parse(piece.as_bytes(), &mut found)?;
        }
        sut.finish(&mut found)?;
        Ok(found)
    }

    #[test]
    fn written_text_is_read_back_at_any_split() {
        let struct_type = "struct(on: bool, text: string, n: array(i32, *))";
        let texts = [
            "",
            " a,b ",
            "two\nlines \"q\"",
            "null",
            "=1+1",
            "\"json\"",
            "\u{2028}\u{1b}",
        ];
        for (ty, values) in [
            ("f64", vec![Value::F64(1.5), Value::F64(f64::INFINITY)]),
            (
                "string",
                texts.map(|text| Value::String(text.into())).to_vec(),
            ),
            ("enum(OFF, AUTO)", vec![Value::Enum(1), Value::Enum(0)]),
            ("bytes", vec![Value::Bytes([0, 255].into())]),
            (
                struct_type,
                texts
                    .map(|text| {
                        let array =
                            trunkline_types::Array::vector(trunkline_types::Elements::I32(vec![
                                1, -2,
                            ]));
                        let text = Value::String(text.into());
                        Value::Struct([Value::Bool(true), text, Value::Array(array.into())].into())
                    })
                    .to_vec(),
            ),
        ] {
            for form in [ElementForm::Csv, ElementForm::Jsonl] {
                let data_type = parse_type(ty).unwrap();
                let mut text =
                    header(form, &data_type, false).map_or_else(String::new, |h| h + "\n");
                for value in &values {
                    text += &line(form, None, value, &data_type, ValueStyle::default());
                    text.push('\n');
                }
                assert_eq!(read(form, ty, &[&text]), Ok(values.clone()), "{text}");
                let characters: Vec<String> = text.chars().map(String::from).collect();
                let characters: Vec<&str> = characters.iter().map(String::as_str).collect();
                assert_eq!(read(form, ty, &characters), Ok(values.clone()), "{text}");
            }
        }
    }

    #[test]
    fn columns_may_be_named_in_any_order_or_not_at_all() {
        let ty = "struct(a: i32, b: string)";
        let expected = Ok(vec![Value::Struct(
            [Value::I32(1), Value::String("x".into())].into(),
        )]);
        assert_eq!(read(ElementForm::Csv, ty, &["b,a\nx,1"]), expected);
        assert_eq!(read(ElementForm::Csv, ty, &["1,x\n"]), expected);
    }

    #[test]
    fn errors_name_the_line() {
        for (form, text, expected) in [
            (ElementForm::Csv, "value\n1\nx\n", "standard input:3: "),
            (
                ElementForm::Csv,
                "1,2\n",
                "standard input:1: the row has 2 cells",
            ),
            (
                ElementForm::Jsonl,
                "1\n\n{\n",
                "standard input:3: column 1: invalid JSON",
            ),
            (ElementForm::Jsonl, "1\n\"x\"\n", "standard input:2: "),
        ] {
            let problem = read(form, "f64", &[text]).unwrap_err();
            assert!(problem.message.starts_with(expected), "{}", problem.message);
        }
    }
}
