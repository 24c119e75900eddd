//! Comma-separated values, RFC 4180: written for readings and lists, read by `put --csv`.
//!
//! Text that is not printable, or that a spreadsheet would evaluate as a formula, is written as a
//! JSON string. `put --csv` and any JSON parser restore it, and spreadsheets do not evaluate it.

use std::borrow::Cow;

use serde_json::Value as Json;
use trunkline_types::text::{escape, is_unprintable, parse_csv};
use trunkline_types::{DataType, Value};

use super::reading::Reading;
use super::values::ValueStyle;
use super::{ReadingView, record};

/// The columns of a reading, with the names of the keys of a JSON line.
pub(crate) const HEADER: [&str; 10] = [
    "name", "ts", "value", "type", "units", "q", "reason", "epoch", "seq", "lost",
];

pub(crate) fn reading(view: &ReadingView<'_>, values: ValueStyle) -> String {
    let object = record::object(&Reading::new(view, values));
    let cell = |column: &str| match (column, &object[column]) {
        ("value", _) if view.has_value => {
            let data_type = &view.metadata.data_type;
            values.text(&view.reading.sample.value, data_type, None)
        }
        (_, Json::Null) => String::new(),
        (_, Json::String(text)) => text.clone(),
        (_, other) => other.to_string(),
    };
    let cells = HEADER.map(cell);
    let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
    line(&cells)
}

/// Formats a value as a cell that parses to the same value. A string is unchanged if possible; an
/// empty string is an empty cell.
pub(crate) fn cell(value: &Value, data_type: &DataType, style: ValueStyle) -> String {
    match value {
        Value::String(text) if text.is_empty() => String::new(),
        _ => style.text(value, data_type, None),
    }
}

/// First characters of cells that spreadsheets evaluate, unless the cell is a number.
const FORMULA_BEGINS: [char; 4] = ['=', '+', '-', '@'];

/// Formats text as people write it in a spreadsheet: with a leading `'` if it begins like a formula
/// or a signed number. [`line`] leaves the result unchanged.
pub(crate) fn spreadsheet_text(text: &str) -> String {
    match text.starts_with(FORMULA_BEGINS) {
        true => format!("'{text}"),
        false => text.to_owned(),
    }
}

/// Joins cells into a line. A cell that spreadsheets would evaluate, or that is not printable,
/// becomes a JSON string.
pub(crate) fn line(cells: &[&str]) -> String {
    let cells: Vec<Cow<'_, str>> = cells.iter().map(|cell| quoted(harmless(cell))).collect();
    cells.join(",")
}

fn harmless(cell: &str) -> Cow<'_, str> {
    match cell.contains(is_unprintable) || is_formula(cell) {
        true => Cow::Owned(escape(&Json::from(cell).to_string()).into_owned()),
        false => Cow::Borrowed(cell),
    }
}

/// Returns true if spreadsheets evaluate the cell; they do not evaluate numbers.
fn is_formula(cell: &str) -> bool {
    let is_number = |text: &str| {
        let digits = text.strip_prefix('-').unwrap_or(text);
        text.parse::<f64>().is_ok() || digits.starts_with("0x")
    };
    cell.len() > 1 && cell.starts_with(FORMULA_BEGINS) && !is_number(cell)
}

fn quoted(cell: Cow<'_, str>) -> Cow<'_, str> {
    let needs_quotes = cell.contains([',', '"']) || cell.starts_with(' ') || cell.ends_with(' ');
    match needs_quotes {
        true => Cow::Owned(format!("\"{}\"", cell.replace('"', "\"\""))),
        false => cell,
    }
}

/// A parsed row, with the number of the line where it begins, counted from 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    pub(crate) line: usize,
    pub(crate) cells: Vec<String>,
}

/// Parses rows; empty lines are skipped. An error contains its line number.
pub(crate) fn parse(text: &str) -> Result<Vec<Row>, (usize, &'static str)> {
    let (mut line, mut counted_up_to) = (1, 0);
    let mut line_at = |position| {
        line += text[counted_up_to..position].matches('\n').count();
        counted_up_to = position;
        line
    };
    let rows = parse_csv(text).map_err(|(position, error)| (line_at(position), error))?;
    let rows = rows.into_iter().map(|cells| Row {
        line: line_at(cells.first().map_or(0, |cell| cell.at)),
        cells: cells.into_iter().map(|cell| cell.text).collect(),
    });
    Ok(rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::fixtures::{T, metadata, reading as reading_fixture, with_bad_quality};

    #[test]
    fn cells_with_commas_quotes_or_outer_spaces_are_quoted() {
        assert_eq!(
            line(&["a/b", "1,5", "say \"x\"", " y"]),
            "a/b,\"1,5\",\"say \"\"x\"\"\",\" y\""
        );
    }

    #[test]
    fn formulas_and_control_characters_become_json_strings() {
        let cells = |cell| line(&[cell]);
        assert_eq!(cells("=1+1"), "\"\"\"=1+1\"\"\"");
        assert_eq!(cells("@SUM(A1)"), "\"\"\"@SUM(A1)\"\"\"");
        assert_eq!(cells("+cmd|' /C x'!A0"), "\"\"\"+cmd|' /C x'!A0\"\"\"");
        assert_eq!(cells("two\nlines"), "\"\"\"two\\nlines\"\"\"");
        assert_eq!(cells("a\u{2028}b"), "\"\"\"a\\u2028b\"\"\"");
        for plain in ["-1.5e3", "-0x1f", "-inf", "-", "a=b", "°C"] {
            assert_eq!(cells(plain), plain);
        }
        // After a leading `'`, no formula character needs a JSON string.
        for begin in FORMULA_BEGINS {
            let text = spreadsheet_text(&format!("{begin}1+1"));
            assert_eq!(line(&[&text]), format!("'{begin}1+1"));
        }
        assert_eq!(spreadsheet_text("\t=1"), "\t=1");
        assert_eq!(cells("\t=1"), "\"\"\"\\t=1\"\"\"");
    }

    #[test]
    fn a_reading_has_one_cell_per_column() {
        let metadata = metadata();
        for (reading, expected) in [
            (
                reading_fixture(),
                "boiler/level,2026-11-20T21:39:04.123456789Z,72.41,f64,%,good,,12,48213,0",
            ),
            (
                with_bad_quality(),
                "boiler/level,2026-11-20T21:39:04.123456789Z,NaN,f64,%,bad,sensor-failure,12,48213,3",
            ),
        ] {
            let view = ReadingView::new("boiler/level", &metadata, &reading, T);
            let text = super::reading(&view, ValueStyle::default());
            assert_eq!(text, expected);
            assert_eq!(parse(&text).unwrap()[0].cells.len(), HEADER.len());
        }
    }

    #[test]
    fn written_text_is_read_back() {
        let cells = ["plain", "a,b", "q\"q", "two lines", "", " x "];
        let text = format!("{}\r\n\n{}\n", line(&cells), line(&["next"]));
        let rows = parse(&text).unwrap();
        assert_eq!(
            rows[0],
            Row {
                line: 1,
                cells: cells.map(str::to_owned).to_vec()
            }
        );
        assert_eq!(
            rows[1],
            Row {
                line: 3,
                cells: vec!["next".to_owned()]
            }
        );
    }

    #[test]
    fn a_cell_of_several_lines_is_read() {
        let rows = parse("\"two\nlines\",x\nnext\n").unwrap();
        assert_eq!(rows[0].cells, ["two\nlines", "x"]);
        assert_eq!(rows[1].line, 3);
    }

    #[test]
    fn errors_name_their_line() {
        for (text, line) in [("a,b\nc,\"d", 2), ("a\"b", 1), ("\"a\"b,c", 1)] {
            assert_eq!(parse(text).map_err(|(line, _)| line), Err(line), "{text}");
        }
    }
}
