//! Finds the sections of a file, and checks their keys.

use crate::error::ConfigErrorKind as Kind;
use crate::keys::Section;
use crate::node::{Node, NodeKind, Table};
use crate::report::Report;

/// Reports every key of `table` that `section` does not accept.
pub(crate) fn check_keys(table: &Table, section: Section, report: &mut Report) {
    for entry in &table.entries {
        let key = &entry.key;
        if section.key(key).is_some() {
            continue;
        }
        match section.planned(key) {
            Some(feature) => {
                report.error(
                    entry.key_place,
                    Kind::NotSupported {
                        key: key.clone(),
                        feature,
                    },
                );
            }
            None if section.is_part_of_variable() && Section::Variable.key(key).is_some() => {
                let (key, section) = (key.clone(), section.header());
                report.error(entry.key_place, Kind::KeyElsewhere { key, section });
            }
            None => {
                let names = section.keys().map(|key| key.name);
                report.unknown_key(entry.key_place, key, names);
            }
        }
    }
}

/// Returns the value of a required key. Reports a missing key.
pub(crate) fn required<'a>(
    table: &'a Table,
    section: Section,
    key: &'static str,
    report: &mut Report,
) -> Option<&'a Node> {
    debug_assert!(
        section.key(key).is_some(),
        "{key} is missing from the key tables"
    );
    let node = table.node(key);
    if node.is_none() {
        report.error(
            table.place,
            Kind::KeyMissing {
                section: section.header(),
                key,
            },
        );
    }
    node
}

/// Returns the tables of `[[name]]`.
pub(crate) fn tables<'a>(file: &'a Table, name: &str, report: &mut Report) -> Vec<&'a Table> {
    let Some(entry) = file.entry(name) else {
        return Vec::new();
    };
    let report_wrong = |node: &Node, report: &mut Report| {
        let found = match &node.kind {
            NodeKind::Table(_) => format!("[{name}]"),
            _ => node.quoted(),
        };
        report.error(
            node.place,
            Kind::WrongSection {
                expected: format!("[[{name}]]"),
                found,
            },
        );
    };
    let NodeKind::List(nodes) = &entry.node.kind else {
        report_wrong(&entry.node, report);
        return Vec::new();
    };
    let mut tables = Vec::with_capacity(nodes.len());
    for node in nodes {
        match &node.kind {
            NodeKind::Table(table) => tables.push(table),
            _ => report_wrong(node, report),
        }
    }
    tables
}

/// Returns the table of `[name]`.
pub(crate) fn table<'a>(file: &'a Table, name: &str, report: &mut Report) -> Option<&'a Table> {
    let entry = file.entry(name)?;
    match &entry.node.kind {
        NodeKind::Table(table) => Some(table),
        kind => {
            let found = match kind {
                NodeKind::List(_) => format!("[[{name}]]"),
                _ => entry.node.quoted(),
            };
            let expected = format!("[{name}]");
            report.error(entry.node.place, Kind::WrongSection { expected, found });
            None
        }
    }
}
