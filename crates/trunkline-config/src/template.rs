//! Reads `[[template]]` and `[[use]]`, which create the same variables for each row of parameters.

use std::collections::BTreeMap;

use crate::csv;
use crate::error::ConfigErrorKind as Kind;
use crate::expand::{Expansion, PreparedTable, Target};
use crate::fields::{Values, param_of};
use crate::keys::Section;
use crate::node::{Node, NodeKind, Table};
use crate::placeholder::{Env, Param, TextTemplate, is_parameter_name};
use crate::report::Report;
use crate::sections::{check_keys, required, tables};
use crate::source::Place;
use crate::variable::Draft;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ParamKind {
    Text,
    Integer,
    Float,
    Bool,
}

/// A parameter of a template.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Parameter {
    pub name: String,
    pub kind: ParamKind,
}

/// One `[[template]]`.
#[derive(Debug)]
pub(crate) struct Template<'a> {
    pub name: String,
    pub place: Place,
    pub parameters: Vec<Parameter>,
    pub variables: Vec<PreparedTable<'a>>,
}

/// The parameters for one instance of a template, and their place.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub env: Env,
    pub place: Place,
}

const KINDS: &[(&str, ParamKind)] = &[
    ("string", ParamKind::Text),
    ("int", ParamKind::Integer),
    ("float", ParamKind::Float),
    ("bool", ParamKind::Bool),
];

impl ParamKind {
    /// Describes the expected value in an error message.
    pub fn expected(self) -> &'static str {
        match self {
            ParamKind::Text => "text in quotes",
            ParamKind::Integer => "a whole number",
            ParamKind::Float => "a number",
            ParamKind::Bool => "true or false",
        }
    }

    fn accept(self, param: Param) -> Option<Param> {
        match (self, param) {
            (ParamKind::Text, param @ Param::Text(_))
            | (ParamKind::Integer, param @ Param::Integer(_))
            | (ParamKind::Float, param @ Param::Float(_))
            | (ParamKind::Bool, param @ Param::Bool(_)) => Some(param),
            (ParamKind::Float, Param::Integer(number)) => Some(Param::Float(number as f64)),
            _ => None,
        }
    }
}

impl<'a> Template<'a> {
    /// Reads a template. Its variables have the defaults of the file that contains the template.
    pub fn read(table: &'a Table, defaults: &Draft<'a>, report: &mut Report) -> Option<Self> {
        check_keys(table, Section::Template, report);
        let parameters = parameters(table, report);
        let place = table.place;
        required(table, Section::Template, "variable", report)?;
        let variables: Vec<_> = tables(table, "variable", report)
            .into_iter()
            .map(|table| PreparedTable::read(table, defaults, report))
            .collect();
        for variable in &variables {
            variable.check(report);
        }
        let node = required(table, Section::Template, "name", report)?;
        let name = Values::plain(report).text("name", node)?;
        Some(Self {
            name,
            place,
            parameters: parameters?,
            variables,
        })
    }

    /// Lists the names of the parameters for a message.
    fn parameter_names(&self) -> String {
        self.parameters
            .iter()
            .map(|p| p.name.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    }
}

fn parameters(table: &Table, report: &mut Report) -> Option<Vec<Parameter>> {
    let Some(node) = table.node("params") else {
        return Some(Vec::new());
    };
    let mut values = Values::plain(report);
    let table = values.table_with_any_keys("params", node)?;
    let mut parameters = Some(Vec::with_capacity(table.entries.len()));
    for entry in &table.entries {
        let name = entry.key.clone();
        let is_name = is_parameter_name(&name);
        if !is_name {
            let name = name.clone();
            values
                .report
                .error(entry.key_place, Kind::ParameterName { name });
        }
        match values.choice(&name, &entry.node, KINDS) {
            Some(kind) if is_name => {
                if let Some(parameters) = &mut parameters {
                    parameters.push(Parameter { name, kind });
                }
            }
            _ => parameters = None,
        }
    }
    parameters
}

/// Adds the variables of one `[[use]]` to `target`.
pub(crate) fn apply<'a>(
    table: &'a Table,
    templates: &mut BTreeMap<String, Template<'a>>,
    target: &mut Target<'a>,
    expansion: &mut Expansion<'_>,
) {
    let report = &mut *expansion.report;
    check_keys(table, Section::Use, report);
    let prefix = table
        .node("at")
        .map(|node| (node, Values::plain(report).text("at", node)));
    let Some((node, name)) = required(table, Section::Use, "template", report)
        .and_then(|node| Some((node, Values::plain(report).text("template", node)?)))
    else {
        target.is_incomplete = true;
        return;
    };
    let Some(template) = templates.get_mut(&name) else {
        let kind = Kind::UnknownTemplate { name: name.clone() };
        report.error_with_suggestion(
            node.place,
            kind,
            &name,
            templates.keys().map(String::as_str),
        );
        target.is_incomplete = true;
        return;
    };
    let Some(rows) = rows(table, template, report) else {
        target.is_incomplete = true;
        return;
    };
    for row in rows {
        let previous = expansion.report.set_used_at(Some(row.place));
        let prefix = match &prefix {
            None => Some(None),
            Some((node, text)) => text
                .as_ref()
                .and_then(|text| expand_prefix(node, text, &row.env, expansion.report))
                .map(Some),
        };
        match prefix {
            Some(prefix) => {
                for variable in &mut template.variables {
                    variable.expand(&row.env, prefix.as_deref(), target, expansion);
                }
            }
            None => target.is_incomplete = true,
        }
        expansion.report.set_used_at(previous);
    }
}

fn expand_prefix(node: &Node, text: &str, env: &Env, report: &mut Report) -> Option<String> {
    let filled = TextTemplate::parse(text).and_then(|template| template.expand(env));
    report.ok_or_report(node.place, text, filled)
}

/// Returns the rows of a `[[use]]`, from `rows` or the lines of `csv`. If both keys are absent, returns
/// one empty row for a template without parameters, and otherwise reports an error.
fn rows(table: &Table, template: &Template<'_>, report: &mut Report) -> Option<Vec<Row>> {
    match (table.entry("rows"), table.entry("csv")) {
        (Some(_), Some(csv)) => {
            report.error(csv.key_place, Kind::RowsAndCsv);
            None
        }
        (Some(entry), None) => {
            let nodes = Values::plain(report).list("rows", &entry.node)?;
            let mut rows = Vec::with_capacity(nodes.len());
            for node in nodes {
                rows.push(row(node, &template.parameters, report));
            }
            rows.into_iter().collect()
        }
        (None, Some(entry)) => {
            let path = Values::plain(report).text("csv", &entry.node)?;
            csv::rows(&path, entry.node.place, &template.parameters, report)
        }
        (None, None) if template.parameters.is_empty() => Some(vec![Row {
            env: Env::default(),
            place: table.place,
        }]),
        (None, None) => {
            let (template, params) = (template.name.clone(), template.parameter_names());
            report.error(table.place, Kind::RowsMissing { template, params });
            None
        }
    }
}

fn row(node: &Node, parameters: &[Parameter], report: &mut Report) -> Option<Row> {
    let NodeKind::Table(table) = &node.kind else {
        return Values::plain(report).wrong_form("rows", node, "a list of tables");
    };
    let mut is_valid = true;
    for entry in &table.entries {
        if parameters
            .iter()
            .all(|parameter| parameter.name != entry.key)
        {
            let names = parameters.iter().map(|p| p.name.as_str());
            report.unknown_key(entry.key_place, &entry.key, names);
            is_valid = false;
        }
    }
    let mut env = Env::default();
    for Parameter { name, kind } in parameters {
        let Some(entry) = table.entry(name) else {
            report.error(
                table.place,
                Kind::ParameterMissing {
                    param: name.clone(),
                },
            );
            is_valid = false;
            continue;
        };
        match param_of(&entry.node).and_then(|param| kind.accept(param)) {
            Some(value) => {
                env.add(name, value);
            }
            None => {
                let (param, found) = (name.clone(), entry.node.quoted());
                let kind = Kind::ParameterType {
                    param,
                    found,
                    wanted: kind.expected(),
                };
                report.error(entry.node.place, kind);
                is_valid = false;
            }
        }
    }
    is_valid.then_some(Row {
        env,
        place: node.place,
    })
}
