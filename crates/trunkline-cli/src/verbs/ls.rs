//! `ls`: lists libraries, folders and variables, one level at a time or as a tree.

use trunkline::{Client, Found};
use trunkline_types::name::{check_segment, suggest};
use trunkline_types::{Name, Pattern, Url};

use super::find::access_name;
use crate::arguments::OutputFormat;
use crate::connection::Connection;
use crate::output::record::{JsonSchema, Record, Serialize, Table};
use crate::targets;
use crate::terminal::Style;
use crate::{CliError, Context, Exit, Problem, counted};

/// List libraries, folders and variables
///
/// Without a path, the command lists the libraries. With a path, it lists the direct contents of
/// that library or folder. Folders end with a slash.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// A library, or a folder in it
    #[arg(value_name = "PATH")]
    path: Option<String>,

    /// List the whole tree, indented
    #[arg(long)]
    tree: bool,
}

/// Maximum number of libraries in an engine's answer. If there are more, they are collected from
/// the names of the variables.
const LIBRARIES_LISTED_MAX: usize = 1024;

/// One line of `ls` and `find`.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[schemars(title = "Trunkline list entry, version 1")]
pub(crate) struct Entry {
    /// Full name of the variable, or of the folder.
    name: String,
    /// Kind of the entry; `ls` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["library", "folder", "variable"]))]
    kind: Option<&'static str>,
    /// Data type, as in a configuration: `f64`, `enum(OFF, AUTO)`, `array(f64, 3, 4)`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    data_type: Option<String>,
    /// Access of clients, independent of their rights.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["read-write", "read-only", "write-only"]))]
    access: Option<&'static str>,
    /// Variables in the library or folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    variables: Option<u64>,
    /// Description of the library. Left out when empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    description: String,
    /// State of a library: `running` or `stopped`; `ls` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<String>,
    /// The displayed name, if it differs from `name`.
    #[serde(skip)]
    shown: Option<String>,
    #[serde(skip)]
    is_for_people: bool,
}

impl Entry {
    pub(super) fn of(found: &Found) -> Self {
        Self {
            name: found.name.clone(),
            data_type: Some(found.data_type.to_string()),
            access: Some(access_name(found.access)),
            ..Self::default()
        }
    }

    fn is_stopped(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state != RUNNING)
    }
}

impl Record for Entry {
    const COLUMNS: &'static [&'static str] =
        &["name", "type", "access", "variables", "description"];
    const IS_HEADED: bool = false;

    fn cell(&self, column: &str) -> Option<String> {
        match column {
            "name" => self.shown.clone(),
            "type" if self.data_type.is_none() => self.kind.map(str::to_owned),
            "variables" if self.is_for_people => {
                self.variables.map(|count| counted(count, "variable"))
            }
            "description" if self.is_stopped() => {
                let state = self.state.clone().unwrap_or_default();
                Some(match self.description.as_str() {
                    "" => state,
                    description => format!("{state}: {description}"),
                })
            }
            _ => None,
        }
    }

    fn style(&self) -> Style {
        match self.variables {
            None => Style::Plain,
            Some(_) if self.is_stopped() => Style::Warning,
            Some(_) => Style::Dim,
        }
    }
}

const RUNNING: &str = "running";

/// A variable, or a folder with its contents. A variable may also be a folder.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Node {
    path: String,
    /// Type and access if this node is a variable.
    variable: Option<(String, &'static str)>,
    children: Vec<Node>,
    description: String,
    /// State of a library that is not running.
    state: Option<String>,
    /// Number of variables in it, including itself.
    variables: u64,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let (engine, path) = parse_path(args.path.as_deref().unwrap_or_default(), context)?;
    let connection = Connection::new(&engine, context)?;
    let nodes = match path.as_str() {
        "" => roots(&connection, args.tree, context)?,
        path => nodes_below(&connection, path, context)?,
    };
    if nodes.is_empty() && !path.is_empty() {
        let problem = not_found(&connection, &path, context)?;
        return context.show(&problem, 0);
    }
    if nodes.is_empty() {
        context.remark("no libraries are deployed")?;
    }
    let mut table = context.table::<Entry>()?;
    let format = context.settings.output_format;
    for node in &nodes {
        list(node, 0, args.tree, format, &mut table)?;
    }
    table.finish()?;
    Ok(Exit::Success)
}

/// Returns the engine, and the path without trailing slashes.
fn parse_path(operand: &str, context: &Context) -> Result<(Url, String), CliError> {
    let default = targets::engine(&context.settings)?;
    let bad_name = |sentence: String| Problem::failed("bad-name", sentence).with_name(operand);
    let parts = targets::split_url(operand.trim_end_matches('/'), &default);
    let (engine, path) = parts.map_err(bad_name)?;
    if Pattern::has_wildcards(&path) {
        return Err(Problem::usage("`ls` does not accept patterns; use `trunkline find`").into());
    }
    let checked = match path.contains('/') {
        true => Name::parse(&path).map(|_| ()),
        false if path.is_empty() => Ok(()),
        false => check_segment(&path),
    };
    checked.map_err(|error| bad_name(error.to_string()))?;
    Ok((engine, path))
}

/// Returns the libraries. For a tree, their contents are included.
fn roots(connection: &Connection, is_tree: bool, context: &Context) -> Result<Vec<Node>, CliError> {
    let info = connection.call(Client::engine_info)?;
    let needs_names = is_tree || info.libraries.len() >= LIBRARIES_LISTED_MAX;
    let mut nodes: Vec<Node> = match needs_names {
        true => tree(&connection.find("**", context)?, ""),
        false => Vec::new(),
    };
    for library in info.libraries {
        let state = (library.state != RUNNING).then_some(library.state);
        match nodes.iter_mut().find(|node| node.path == library.name) {
            Some(node) => (node.description, node.state) = (library.description, state),
            // All variables in this library are excluded.
            None if needs_names && library.variables > 0 => {}
            None if context.settings.is_excluded(&library.name) => {}
            None => nodes.push(Node {
                path: library.name,
                description: library.description,
                variables: library.variables,
                state,
                ..Node::default()
            }),
        }
    }
    Ok(nodes)
}

fn nodes_below(
    connection: &Connection,
    path: &str,
    context: &Context,
) -> Result<Vec<Node>, CliError> {
    let found = connection.find(&format!("{path}/**"), context)?;
    let (itself, contents): (Vec<Found>, Vec<Found>) =
        found.into_iter().partition(|found| found.name == path);
    let mut nodes: Vec<Node> = itself.iter().map(leaf).collect();
    nodes.extend(tree(&contents, path));
    Ok(nodes)
}

/// Builds nodes from the names below `path`, in the order of their first appearance.
fn tree(found: &[Found], path: &str) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    let mut rest = found;
    let mut index = std::collections::HashMap::new();
    let mut groups: Vec<Vec<Found>> = Vec::new();
    while let Some((found, others)) = rest.split_first() {
        rest = others;
        let relative_path = match path {
            "" => found.name.as_str(),
            path => found.name.get(path.len() + 1..).unwrap_or_default(),
        };
        let segment = relative_path.split('/').next().unwrap_or_default();
        let end = found.name.len() - relative_path.len() + segment.len();
        let child = &found.name[..end];
        let group = *index.entry(child.to_owned()).or_insert_with(|| {
            nodes.push(Node {
                path: child.to_owned(),
                ..Node::default()
            });
            groups.push(Vec::new());
            nodes.len() - 1
        });
        if found.name == child {
            nodes[group].variable = leaf(found).variable;
            nodes[group].variables += 1;
        } else {
            groups[group].push(found.clone());
        }
    }
    for (node, group) in nodes.iter_mut().zip(&groups) {
        node.variables += group.len() as u64;
        node.children = tree(group, &node.path);
    }
    nodes
}

fn leaf(found: &Found) -> Node {
    Node {
        path: found.name.clone(),
        variable: Some((found.data_type.to_string(), access_name(found.access))),
        variables: 1,
        ..Node::default()
    }
}

/// Returns the problem of a path that does not exist, with a suggestion.
fn not_found(connection: &Connection, path: &str, context: &Context) -> Result<Problem, CliError> {
    let siblings = match path.rsplit_once('/') {
        Some((parent, _)) => nodes_below(connection, parent, context)?,
        None => roots(connection, false, context)?,
    };
    let suggestion = suggest(path, siblings.iter().map(|node| node.path.as_str()));
    let sentence = format!("there is no library or folder {path}");
    let mut problem = Problem::from_message("unknown-name", sentence).with_name(path);
    problem.hint = suggestion.map(|name| format!("did you mean {name}?"));
    Ok(problem)
}

fn list(
    node: &Node,
    depth: usize,
    is_tree: bool,
    format: OutputFormat,
    table: &mut Table,
) -> Result<(), CliError> {
    let is_folder = node.variable.is_none() || !node.children.is_empty();
    if let Some((data_type, access)) = &node.variable {
        table.push(&Entry {
            name: node.path.clone(),
            kind: Some("variable"),
            data_type: Some(data_type.clone()),
            access: Some(*access),
            shown: Some(displayed_name(node, depth, is_tree, format)),
            ..Entry::default()
        })?;
    }
    if is_folder {
        let state = || node.state.clone().unwrap_or_else(|| RUNNING.to_owned());
        let (kind, state) = match node.path.contains('/') {
            true => ("folder", None),
            false => ("library", Some(state())),
        };
        table.push(&Entry {
            name: node.path.clone(),
            kind: Some(kind),
            variables: Some(node.variables),
            description: node.description.clone(),
            state,
            shown: Some(format!("{}/", displayed_name(node, depth, is_tree, format))),
            is_for_people: format.is_for_people(),
            ..Entry::default()
        })?;
    }
    if is_tree {
        for child in &node.children {
            list(child, depth + 1, is_tree, format, table)?;
        }
    }
    Ok(())
}

/// Returns the name to display: in a tree for people the last segment, indented; otherwise the path.
fn displayed_name(node: &Node, depth: usize, is_tree: bool, format: OutputFormat) -> String {
    let last = node.path.rsplit('/').next().unwrap_or_default();
    match is_tree && format.is_for_people() {
        true if depth > 0 => format!("{}{last}", "  ".repeat(depth)),
        _ => node.path.clone(),
    }
}

#[cfg(test)]
mod tests {
    use trunkline_types::{Access, DataType};

    use super::*;

    fn names(names: &[&str]) -> Vec<Found> {
        let found = |name: &&str| Found {
            name: (*name).to_owned(),
            data_type: DataType::F64,
            access: Access::ReadWrite,
        };
        names.iter().map(found).collect()
    }

    #[test]
    fn names_become_folders_in_the_order_of_their_first_appearance() {
        let found = names(&["b/z", "b/pump/mode", "a/x", "b/pump/on", "b/pump"]);
        let roots = tree(&found, "");
        let shown: Vec<(&str, u64)> = roots
            .iter()
            .map(|node| (node.path.as_str(), node.variables))
            .collect();
        assert_eq!(shown, [("b", 4), ("a", 1)]);
        let children: Vec<&str> = roots[0].children.iter().map(|n| n.path.as_str()).collect();
        assert_eq!(children, ["b/z", "b/pump"]);
        // A variable may have other variables below it.
        assert!(roots[0].children[1].variable.is_some());
        assert_eq!(roots[0].children[1].children.len(), 2);
        assert_eq!(roots[0].children[1].variables, 3);
    }

    #[test]
    fn the_contents_of_a_folder_are_listed() {
        let found = names(&["b/pump/mode", "b/pump/a/b"]);
        let nodes = tree(&found, "b/pump");
        let paths: Vec<&str> = nodes.iter().map(|node| node.path.as_str()).collect();
        assert_eq!(paths, ["b/pump/mode", "b/pump/a"]);
    }
}
