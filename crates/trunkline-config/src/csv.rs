//! Reads the CSV files with the rows of a `[[use]]`. The first line names the parameters. The
//! format is RFC 4180: commas, quotes doubled inside quotes, lines ending in LF or CRLF. Empty
//! lines are skipped.

use std::path::{Component, Path, PathBuf};

use crate::error::ConfigErrorKind as Kind;
use crate::node::shown_text;
use crate::placeholder::{Env, Param};
use crate::report::Report;
use crate::source::{Place, Source};
use crate::template::{ParamKind, Parameter, Row};

/// A field of a line and its byte offset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Cell {
    pub text: String,
    pub at: u32,
}

/// Reads the rows of a CSV file that a configuration file names.
pub(crate) fn rows(
    path: &str,
    named_at: Place,
    parameters: &[Parameter],
    report: &mut Report,
) -> Option<Vec<Row>> {
    let source = match open(path, named_at, report) {
        Ok(source) => source,
        Err((position, kind)) => {
            let reason = match (kind, position) {
                (Kind::CsvPath { reason, .. }, _) => reason,
                (Kind::FileMissing, _) => "there is no such file".to_owned(),
                (kind, Some(position)) => format!("at {position} {kind}"),
                (kind, None) => format!("it {kind}"),
            };
            let path = path.to_owned();
            report.error(named_at, Kind::CsvPath { path, reason });
            return None;
        }
    };
    let parsed = parse(&source.text);
    let source = report.add_source(source);
    let place = |at| Place { source, at };
    let lines = match parsed {
        Ok(lines) => lines,
        Err((at, reason)) => {
            report.error(
                place(at),
                Kind::CsvSyntax {
                    reason: reason.to_owned(),
                },
            );
            return None;
        }
    };
    let mut lines = lines.into_iter();
    let Some(header) = lines.next() else {
        let reason = "it is empty; its first line names the parameters".to_owned();
        report.error(place(0), Kind::CsvSyntax { reason });
        return None;
    };
    let columns = columns(&header, parameters, source, report)?;
    let mut rows = Vec::new();
    let mut is_good = true;
    for line in lines {
        match row(&line, &header, &columns, source, report) {
            Some(row) => rows.push(row),
            None => is_good = false,
        }
    }
    is_good.then_some(rows)
}

/// Opens a file in the configuration file's directory or below it, after resolving links.
fn open(path: &str, named_at: Place, report: &Report) -> Result<Source, crate::source::ReadFault> {
    let refuse = |reason: &str| {
        Err((
            None,
            Kind::CsvPath {
                path: path.to_owned(),
                reason: reason.to_owned(),
            },
        ))
    };
    let Some(from) = report
        .source(named_at.source)
        .and_then(|source| source.path.as_deref())
    else {
        return refuse("files are read only for configuration that is itself a file");
    };
    let relative = Path::new(path);
    let stays = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if path.is_empty() || !relative.components().all(stays) {
        return refuse("it must lie beside the configuration file or below it");
    }
    let directory = match from.parent() {
        Some(directory) if directory != Path::new("") => directory.to_owned(),
        _ => PathBuf::from("."),
    };
    let file = directory.join(relative);
    match (directory.canonicalize(), file.canonicalize()) {
        (Ok(directory), Ok(target)) if !target.starts_with(&directory) => {
            refuse("it is a link that leaves the directory of the configuration file")
        }
        _ => Source::read(&file),
    }
}

/// Returns the parameter of each column.
fn columns<'p>(
    header: &[Cell],
    parameters: &'p [Parameter],
    source: u32,
    report: &mut Report,
) -> Option<Vec<&'p Parameter>> {
    let mut columns: Vec<&Parameter> = Vec::with_capacity(header.len());
    let mut is_good = true;
    for cell in header {
        let (name, place) = (
            cell.text.trim(),
            Place {
                source,
                at: cell.at,
            },
        );
        match parameters.iter().find(|parameter| parameter.name == name) {
            Some(parameter) if columns.iter().any(|known| known.name == parameter.name) => {
                let (name, by) = (name.to_owned(), "another column");
                report.error(place, Kind::ParameterTwice { name, by });
                is_good = false;
            }
            Some(parameter) => columns.push(parameter),
            None => {
                let names = parameters.iter().map(|p| p.name.as_str());
                report.unknown_key(place, name, names);
                is_good = false;
            }
        }
    }
    // A missing column is reported only if all column names could be read.
    if is_good {
        let at = header.first().map_or(0, |cell| cell.at);
        for parameter in parameters {
            if columns.iter().all(|known| known.name != parameter.name) {
                let param = parameter.name.clone();
                report.error(Place { source, at }, Kind::ParameterMissing { param });
                is_good = false;
            }
        }
    }
    is_good.then_some(columns)
}

fn row(
    line: &[Cell],
    header: &[Cell],
    columns: &[&Parameter],
    source: u32,
    report: &mut Report,
) -> Option<Row> {
    let place = Place {
        source,
        at: line.first().map_or(0, |cell| cell.at),
    };
    if line.len() != header.len() {
        let reason = format!(
            "{} fields where the first line has {}",
            line.len(),
            header.len()
        );
        report.error(place, Kind::CsvSyntax { reason });
        return None;
    }
    let mut env = Env::default();
    let mut is_good = true;
    for (cell, Parameter { name, kind }) in line.iter().zip(columns) {
        match param(&cell.text, *kind) {
            Some(value) => {
                env.add(name, value);
            }
            None => {
                let (param, found) = (name.clone(), shown_text(&cell.text));
                let kind = Kind::ParameterType {
                    param,
                    found,
                    wanted: kind.wanted(),
                };
                report.error(
                    Place {
                        source,
                        at: cell.at,
                    },
                    kind,
                );
                is_good = false;
            }
        }
    }
    is_good.then_some(Row { env, place })
}

fn param(text: &str, kind: ParamKind) -> Option<Param> {
    let trimmed = text.trim();
    match kind {
        ParamKind::Text => Some(Param::Text(text.into())),
        ParamKind::Integer => trimmed.parse().ok().map(Param::Integer),
        ParamKind::Float => trimmed
            .parse()
            .ok()
            .filter(|number: &f64| number.is_finite())
            .map(Param::Float),
        ParamKind::Bool => trimmed.parse().ok().map(Param::Bool),
    }
}

/// Splits a text into lines of fields. Returns the byte offset and the reason on failure.
pub(crate) fn parse(text: &str) -> Result<Vec<Vec<Cell>>, (u32, &'static str)> {
    let mut lines = Vec::new();
    let mut line = Vec::new();
    let mut at = 0;
    loop {
        let (cell, end) = cell(text, at)?;
        line.push(cell);
        let rest = text.get(end..).unwrap_or_default();
        if rest.starts_with(',') {
            at = end + 1;
            continue;
        }
        let is_empty = matches!(line.as_slice(), [only] if only.text.trim().is_empty());
        let whole = std::mem::take(&mut line);
        if !is_empty {
            lines.push(whole);
        }
        at = match rest.find('\n') {
            Some(newline) => end + newline + 1,
            None => return Ok(lines),
        };
    }
}

/// Returns the field that begins at `at`, and its end: a comma, a line end or the end of the text.
fn cell(text: &str, at: usize) -> Result<(Cell, usize), (u32, &'static str)> {
    let start = at as u32;
    let rest = text.get(at..).unwrap_or_default();
    let Some(quoted) = rest.strip_prefix('"') else {
        let end = rest.find([',', '\r', '\n']).unwrap_or(rest.len());
        let inside = rest.get(..end).unwrap_or_default();
        if inside.contains('"') {
            return Err((
                start,
                "a quote inside a field; put the whole field in quotes, double it",
            ));
        }
        return Ok((
            Cell {
                text: inside.to_owned(),
                at: start,
            },
            at + end,
        ));
    };
    let mut inside = String::new();
    let mut left = quoted;
    loop {
        let Some((before, after)) = left.split_once('"') else {
            return Err((start, "a quote is never closed"));
        };
        inside.push_str(before);
        left = after;
        match left.strip_prefix('"') {
            Some(after) => {
                inside.push('"');
                left = after;
            }
            None => break,
        }
    }
    if !left.is_empty() && !left.starts_with([',', '\r', '\n']) {
        return Err((start, "text after a closing quote"));
    }
    Ok((
        Cell {
            text: inside,
            at: start,
        },
        text.len() - left.len(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<Vec<String>> {
        let lines = parse(text).unwrap();
        lines
            .into_iter()
            .map(|line| line.into_iter().map(|cell| cell.text).collect())
            .collect()
    }

    #[test]
    fn fields_quotes_and_line_ends_are_understood() {
        assert_eq!(
            texts("tag,addr\r\nA,1\r\n\nB,2"),
            [["tag", "addr"], ["A", "1"], ["B", "2"]]
        );
        assert_eq!(texts("\"a,\"\"b\"\"\n\",x\n"), [["a,\"b\"\n", "x"]]);
        assert_eq!(texts("a,\n,b\n"), [["a", ""], ["", "b"]]);
        assert_eq!(texts(""), Vec::<Vec<String>>::new());
    }

    #[test]
    fn broken_quotes_are_located() {
        assert_eq!(parse("a,\"b"), Err((2, "a quote is never closed")));
        assert_eq!(parse("a,\"b\"c"), Err((2, "text after a closing quote")));
        assert!(parse("a\"b").is_err());
    }
}
