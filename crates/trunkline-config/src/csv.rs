//! Reads the rows of a `[[use]]` from a CSV file. The first line names the parameters. Empty lines
//! are skipped.

use std::path::{Component, Path, PathBuf};

use trunkline_types::text::{CsvCell, parse_csv};

use crate::error::ConfigErrorKind as Kind;
use crate::node::quoted_text;
use crate::placeholder::{Env, Param};
use crate::report::Report;
use crate::source::{Place, Source};
use crate::template::{ParamKind, Parameter, Row};

/// Reads the rows of the CSV file at `path`, which the configuration file sets at `named_at`.
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
                (kind, Some(position)) => format!("at {position}: {kind}"),
                (kind, None) => format!("it {kind}"),
            };
            let path = path.to_owned();
            report.error(named_at, Kind::CsvPath { path, reason });
            return None;
        }
    };
    let parsed = parse_csv(&source.text);
    let source = report.add_source(source);
    let lines = match parsed {
        Ok(lines) => lines,
        Err((offset, reason)) => {
            let (offset, reason) = (offset as u32, reason.to_owned());
            report.error(Place { source, offset }, Kind::CsvSyntax { reason });
            return None;
        }
    };
    let is_empty = |line: &[CsvCell]| matches!(line, [only] if only.text.trim().is_empty());
    let mut lines = lines.into_iter().filter(|line| !is_empty(line));
    let Some(header) = lines.next() else {
        let reason = "the file is empty; its first line must name the parameters".to_owned();
        report.error(place(source, None), Kind::CsvSyntax { reason });
        return None;
    };
    let columns = columns(&header, parameters, source, report)?;
    let mut rows = Vec::new();
    let mut is_valid = true;
    for line in lines {
        match row(&line, &header, &columns, source, report) {
            Some(row) => rows.push(row),
            None => is_valid = false,
        }
    }
    is_valid.then_some(rows)
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
    let Some(config_path) = report
        .source(named_at.source)
        .and_then(|source| source.path.as_deref())
    else {
        return refuse("only a configuration that is itself a file can use a CSV file");
    };
    let relative = Path::new(path);
    let is_below = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if path.is_empty() || !relative.components().all(is_below) {
        return refuse("it must be in the folder of the configuration file or below it");
    }
    let directory = match config_path.parent() {
        Some(directory) if directory != Path::new("") => directory.to_owned(),
        _ => PathBuf::from("."),
    };
    let file = directory.join(relative);
    match (directory.canonicalize(), file.canonicalize()) {
        (Ok(directory), Ok(target)) if !target.starts_with(&directory) => {
            refuse("it is a link to a file outside the folder of the configuration file")
        }
        _ => Source::read(&file),
    }
}

/// Returns the parameter of each column.
fn columns<'p>(
    header: &[CsvCell],
    parameters: &'p [Parameter],
    source: u32,
    report: &mut Report,
) -> Option<Vec<&'p Parameter>> {
    let mut columns: Vec<&Parameter> = Vec::with_capacity(header.len());
    let mut is_valid = true;
    for cell in header {
        let (name, place) = (cell.text.trim(), place(source, Some(cell)));
        match parameters.iter().find(|parameter| parameter.name == name) {
            Some(parameter) if columns.iter().any(|earlier| earlier.name == parameter.name) => {
                let (name, defined_by) = (name.to_owned(), "another column");
                report.error(place, Kind::ParameterTwice { name, defined_by });
                is_valid = false;
            }
            Some(parameter) => columns.push(parameter),
            None => {
                let names = parameters.iter().map(|p| p.name.as_str());
                report.unknown_key(place, name, names);
                is_valid = false;
            }
        }
    }
    // If a column name is invalid, do not also report the column as missing.
    if is_valid {
        for parameter in parameters {
            if columns.iter().all(|earlier| earlier.name != parameter.name) {
                let param = parameter.name.clone();
                let place = place(source, header.first());
                report.error(place, Kind::ParameterMissing { param });
                is_valid = false;
            }
        }
    }
    is_valid.then_some(columns)
}

fn row(
    line: &[CsvCell],
    header: &[CsvCell],
    columns: &[&Parameter],
    source: u32,
    report: &mut Report,
) -> Option<Row> {
    let row_place = place(source, line.first());
    if line.len() != header.len() {
        let reason = format!(
            "the line has {} fields, but the first line has {}",
            line.len(),
            header.len()
        );
        report.error(row_place, Kind::CsvSyntax { reason });
        return None;
    }
    let mut env = Env::default();
    let mut is_valid = true;
    for (cell, Parameter { name, kind }) in line.iter().zip(columns) {
        match param(&cell.text, *kind) {
            Some(value) => {
                env.add(name, value);
            }
            None => {
                let (param, found) = (name.clone(), quoted_text(&cell.text));
                let kind = Kind::ParameterType {
                    param,
                    found,
                    wanted: kind.expected(),
                };
                report.error(place(source, Some(cell)), kind);
                is_valid = false;
            }
        }
    }
    is_valid.then_some(Row {
        env,
        place: row_place,
    })
}

/// Returns the place of a cell, or the beginning of the file if there is no cell.
fn place(source: u32, cell: Option<&CsvCell>) -> Place {
    let offset = cell.map_or(0, |cell| cell.at as u32);
    Place { source, offset }
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
