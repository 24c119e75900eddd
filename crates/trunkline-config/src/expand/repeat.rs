//! Reads the keys `each` and `zip` of a variable's table.

use std::sync::Arc;

use crate::error::ConfigErrorKind as Kind;
use crate::fields::{Braces, Values, param_of};
use crate::node::{Node, NodeKind, Table};
use crate::placeholder::{Axis, Env, Param, Rows, Values as ParamValues, is_parameter_name};
use crate::report::Report;
use crate::source::Place;

/// Returns the rows that `each` and `zip` define.
pub(super) fn rows(table: &Table, base: &Env, report: &mut Report) -> Option<Rows> {
    let mut names = base.clone();
    let mut axes = Vec::new();
    let each = columns(table, "each", base, &mut names, report)?;
    axes.extend(each.into_iter().map(|(name, values, _)| Axis {
        columns: vec![(name, values)],
    }));
    let zip = columns(table, "zip", base, &mut names, report)?;
    if let Some((first, first_values, _)) = zip.first() {
        for (second, values, place) in &zip {
            let (first_len, second_len) = (first_values.len(), values.len());
            if first_len != second_len {
                let (first, second) = (first.to_string(), second.to_string());
                let kind = Kind::ZipLengths {
                    first,
                    first_len,
                    second,
                    second_len,
                };
                report.error(*place, kind);
                return None;
            }
        }
        let columns = zip
            .into_iter()
            .map(|(name, values, _)| (name, values))
            .collect();
        axes.push(Axis { columns });
    }
    Some(Rows::new(axes))
}

/// Reads the parameters of `each` or `zip`: a table of lists and ranges. Adds their names to `names`,
/// so that a name that is used twice is reported.
fn columns(
    table: &Table,
    key: &'static str,
    base: &Env,
    names: &mut Env,
    report: &mut Report,
) -> Option<Vec<(Arc<str>, ParamValues, Place)>> {
    let Some(node) = table.node(key) else {
        return Some(Vec::new());
    };
    let mut values = Values {
        report,
        env: Braces::Fill(base),
    };
    let table = values.table_with_any_keys(key, node)?;
    if table.entries.is_empty() {
        values.report.error(
            node.place,
            Kind::NothingToRepeat {
                key: key.to_owned(),
            },
        );
        return None;
    }
    let mut columns = Vec::with_capacity(table.entries.len());
    let mut is_complete = true;
    for entry in &table.entries {
        let name = entry.key.clone();
        if !is_parameter_name(&name) {
            values
                .report
                .error(entry.key_place, Kind::ParameterName { name });
            is_complete = false;
        } else if !names.add(&name, Param::Integer(0)) {
            let defined_by = if base.get(&name).is_some() {
                "the template"
            } else {
                "each"
            };
            values
                .report
                .error(entry.key_place, Kind::ParameterTwice { name, defined_by });
            is_complete = false;
        } else {
            match param_values(&name, &entry.node, &mut values) {
                Some(found) => columns.push((name.into(), found, entry.node.place)),
                None => is_complete = false,
            }
        }
    }
    is_complete.then_some(columns)
}

/// Reads the values of one parameter: a range such as `"1..4"`, or a list.
fn param_values(key: &str, node: &Node, values: &mut Values<'_, '_>) -> Option<ParamValues> {
    match &node.kind {
        NodeKind::Text(_) => {
            let text = values.text(key, node)?;
            let kind = match ParamValues::parse_range(&text) {
                Some((first, last)) if first <= last => {
                    return Some(ParamValues::Range { first, last });
                }
                Some(_) => Kind::RangeBackwards { text },
                None => Kind::InvalidRange { text },
            };
            values.report.error(node.place, kind);
            None
        }
        NodeKind::List(nodes) if nodes.is_empty() => {
            values.report.error(
                node.place,
                Kind::NothingToRepeat {
                    key: key.to_owned(),
                },
            );
            None
        }
        NodeKind::List(nodes) => {
            let mut params = Vec::with_capacity(nodes.len());
            for node in nodes {
                match param_of(node) {
                    Some(Param::Text(_)) => {
                        params.push(Param::Text(values.text(key, node)?.into()));
                    }
                    Some(param) => params.push(param),
                    None => return values.wrong_form(key, node, "a number or text"),
                }
            }
            Some(ParamValues::List(params))
        }
        _ => values.wrong_form(key, node, "a range such as \"1..4\", or a list"),
    }
}
