//! Reads the `[[history]]` sections, which define the variables that an engine records, and how.

use std::collections::HashMap;
use std::time::Duration;

use trunkline_types::Pattern;
use trunkline_types::history::{HistoryRule, HistorySettings};
use trunkline_types::name::NUMBERS_LIBRARY;
use trunkline_types::wire::VALUE_BYTES_MAX;

use crate::error::ConfigErrorKind as Kind;
use crate::fields::Values;
use crate::keys::Section;
use crate::node::{Node, NodeKind, Table};
use crate::report::Report;
use crate::sections::{check_keys, required, tables};
use crate::source::Place;

const DEADBAND_MAX: f64 = 100.0;
const EVERY_MIN: Duration = Duration::from_millis(1);
const EVERY_MAX: Duration = Duration::from_secs(86_400);
const KEEP_MIN: Duration = Duration::from_secs(3_600);
const KEEP_MAX: Duration = Duration::from_secs(36_500 * 86_400);

/// The keys that a section with `record = false` cannot have.
const SETTINGS: [&str; 5] = ["deadband", "resolution", "every", "keep", "array_bytes_max"];

/// A pattern of variables, and its place.
struct LocatedPattern {
    pattern: Pattern,
    place: Place,
}

/// Reads the sections of all files, in their order. Returns `None` if there are none.
pub(crate) fn read(documents: &[(u32, Table)], report: &mut Report) -> Option<Vec<HistoryRule>> {
    let mut rules = Vec::new();
    let mut earlier: HashMap<String, Place> = HashMap::new();
    let mut has_section = false;
    for (_, document) in documents {
        has_section |= document.entry("history").is_some();
        for section in tables(document, "history", report) {
            let (patterns, settings) = read_section(section, report);
            for LocatedPattern { pattern, place } in &patterns {
                check_reachable(pattern, *place, &earlier, report);
            }
            // Patterns of one section may overlap, because they have the same settings.
            for LocatedPattern { pattern, place } in patterns {
                earlier.entry(pattern.as_str().to_owned()).or_insert(place);
                rules.push(HistoryRule { pattern, settings });
            }
        }
    }
    if !has_section {
        report_unused_folders(documents, report);
    }
    has_section.then_some(rules)
}

/// Reports a history folder or spool that is set although no section records anything.
fn report_unused_folders(documents: &[(u32, Table)], report: &mut Report) {
    for (_, document) in documents {
        let engine = document.entry("engine").map(|entry| &entry.node.kind);
        let Some(NodeKind::Table(engine)) = engine else {
            continue;
        };
        for key in ["history", "history_spool"] {
            if let Some(entry) = engine.entry(key) {
                report.error(entry.key_place, Kind::HistoryOfNothing { key });
            }
        }
    }
}

/// Returns the patterns of a section, and the settings of the variables that match them.
fn read_section(
    table: &Table,
    report: &mut Report,
) -> (Vec<LocatedPattern>, Option<HistorySettings>) {
    check_keys(table, Section::History, report);
    let node = required(table, Section::History, "variables", report);
    let mut values = Values::plain(report);
    let patterns = node.and_then(|node| read_patterns(node, &mut values));
    let settings = settings(table, &mut values);
    let record = table
        .node("record")
        .and_then(|node| values.boolean("record", node));
    let is_recorded = record.unwrap_or(true);
    if !is_recorded {
        for entry in &table.entries {
            if let Some(key) = SETTINGS.into_iter().find(|key| *key == entry.key) {
                report.error(entry.key_place, Kind::HistoryContradicted { key });
            }
        }
    }
    let settings = is_recorded.then_some(settings);
    (patterns.unwrap_or_default(), settings)
}

fn read_patterns(node: &Node, values: &mut Values<'_, '_>) -> Option<Vec<LocatedPattern>> {
    const EXPECTED: &str = "a pattern, or a non-empty list of patterns";
    let nodes = match &node.kind {
        NodeKind::List(nodes) if !nodes.is_empty() => nodes.as_slice(),
        NodeKind::Text(_) => std::slice::from_ref(node),
        _ => return values.wrong_form("variables", node, EXPECTED),
    };
    let mut patterns = Vec::with_capacity(nodes.len());
    for node in nodes {
        let Some(text) = values.text("variables", node) else {
            continue;
        };
        let place = node.place;
        match parse_pattern(&text) {
            Ok(pattern) => patterns.push(LocatedPattern { pattern, place }),
            Err(reason) => {
                let kind = Kind::InvalidPattern { text, reason };
                values.report.error(place, kind);
            }
        }
    }
    Some(patterns)
}

/// Parses a pattern of full names. Returns the reason if the pattern cannot match a variable.
fn parse_pattern(text: &str) -> Result<Pattern, String> {
    let pattern = Pattern::parse(text).map_err(|error| error.to_string())?;
    let written = pattern.as_str();
    if let Some((_, field)) = written.split_once('#') {
        return Err(format!(
            "the history records whole variables, not fields; remove #{field}"
        ));
    }
    if written.split('/').next() == Some(NUMBERS_LIBRARY) {
        return Err(
            "a pattern matches full names, not register numbers; write library/name".to_owned(),
        );
    }
    Ok(pattern)
}

fn settings(table: &Table, values: &mut Values<'_, '_>) -> HistorySettings {
    let deadband = table
        .node("deadband")
        .and_then(|node| values.number_within("deadband", node, 0.0..=DEADBAND_MAX));
    let resolution = table
        .node("resolution")
        .and_then(|node| resolution(node, values));
    let array_bytes_max = table
        .node("array_bytes_max")
        .and_then(|node| values.bytes("array_bytes_max", node, 0..=VALUE_BYTES_MAX as i64))
        .and_then(|bytes| usize::try_from(bytes).ok());
    let mut duration = |key: &str, min, max| {
        let node = table.node(key)?;
        match &node.kind {
            NodeKind::Text(text) if text == "none" => None,
            _ => values.duration(key, node, min..=max),
        }
    };
    HistorySettings {
        deadband_percent: deadband.unwrap_or_default(),
        resolution: resolution.unwrap_or_default(),
        every: duration("every", EVERY_MIN, EVERY_MAX),
        keep: duration("keep", KEEP_MIN, KEEP_MAX),
        array_bytes_max: array_bytes_max.unwrap_or(HistorySettings::ARRAY_BYTES_MAX),
    }
}

fn resolution(node: &Node, values: &mut Values<'_, '_>) -> Option<f64> {
    let resolution = values.number("resolution", node)?;
    if resolution < 0.0 {
        return values.wrong_form("resolution", node, "0 or greater");
    }
    Some(resolution)
}

/// Reports a pattern that has no effect, because a pattern of an earlier section matches all of its
/// variables first. Detects only the common cases: the same pattern, and `a/**` before a pattern
/// below `a`.
fn check_reachable(
    pattern: &Pattern,
    place: Place,
    earlier: &HashMap<String, Place>,
    report: &mut Report,
) {
    let text = pattern.as_str();
    let ends = text.match_indices('/').map(|(end, _)| end);
    let above = ends
        .chain([text.len()])
        .map(|end| format!("{}/**", &text[..end]));
    let covering = ["**".to_owned(), text.to_owned()].into_iter().chain(above);
    let found = covering
        .filter_map(|covering| Some((*earlier.get(&covering)?, covering)))
        .next();
    if let Some((other, covering)) = found {
        let kind = Kind::HistoryUnreachable {
            text: text.to_owned(),
            earlier: covering,
            other: report.format_place(other),
        };
        report.error(place, kind);
    }
}
