//! `ls`: lists libraries, folders and variables, one level at a time or as a tree.

use trunkline::Found;
use trunkline_types::name::{check_segment, suggest};
use trunkline_types::{Name, Pattern, Url};

use super::find::access_name;
use super::{Context, Verb};
use crate::arguments::Form;
use crate::connection::Connection;
use crate::exit::Exit;
use crate::output::counted;
use crate::output::json::Object;
use crate::output::records::{Records, Row};
use crate::problem::{Problem, Stop};
use crate::targets;
use crate::terminal::Mood;

/// List libraries, folders and variables
///
/// Without a path, `ls` lists the libraries; with a path, its direct contents. Folders end with a
/// slash.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// A library, or a folder in it
    #[arg(value_name = "PATH")]
    path: Option<String>,

    /// List everything below, indented
    #[arg(long)]
    tree: bool,
}

pub(crate) const VERB: Verb = Verb::reading(
    "ls",
    &[
        Exit::Done,
        Exit::SomeFailed,
        Exit::Usage,
        Exit::Unreachable,
        Exit::TimedOut,
        Exit::Interrupted,
    ],
);

/// Maximum number of libraries in one answer of an engine; beyond it, they are collected from the
/// names.
const LIBRARIES_TOLD_MAX: usize = 1024;

/// A variable, or a folder with its contents; a variable may be a folder, too.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Node {
    /// Full name of the variable or folder.
    path: String,
    /// Type and access, if it is a variable.
    variable: Option<(String, &'static str)>,
    children: Vec<Node>,
    description: String,
    /// State of a library that is not running.
    state: Option<String>,
    /// Number of variables in it, including itself.
    variables: u64,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Stop> {
    crate::interrupt::end_process_on_interrupt(&context.terminal)?;
    let (engine, path) = match place(args.path.as_deref().unwrap_or_default(), context)? {
        Ok(place) => place,
        Err(problem) => return context.show(&problem, 0),
    };
    let connection = Connection::new(&engine, context)?;
    let nodes = match path.as_str() {
        "" => roots(&connection, args.tree, context)?,
        path => below(&connection, path, context)?,
    };
    if nodes.is_empty() && !path.is_empty() {
        let problem = missing(&connection, &path, context)?;
        return context.show(&problem, 0);
    }
    if nodes.is_empty() {
        context.remark("no libraries are deployed")?;
    }
    let columns = &["name", "type", "access", "variables", "description"];
    let mut records = Records::new(&context.settings, &context.terminal, columns)?;
    let form = context.settings.form;
    for node in &nodes {
        list(node, 0, args.tree, form, &mut records)?;
    }
    records.finish()?;
    Ok(Exit::Done)
}

/// Returns the engine, and the path without slashes at its ends.
fn place(operand: &str, context: &Context) -> Result<Result<(Url, String), Problem>, Stop> {
    let default = targets::engine(&context.settings)?;
    let wrong = |sentence: String| {
        Ok(Err(
            Problem::new(Exit::SomeFailed, "bad-name", &sentence).of(operand)
        ))
    };
    let trimmed = operand.trim_end_matches('/');
    let (engine, path) = match operand.contains("://").then(|| Url::parse(trimmed)) {
        None => (default, trimmed.to_owned()),
        Some(Err(error)) => return wrong(error.to_string()),
        Some(Ok(url)) => {
            let name = url.name.clone().unwrap_or_default();
            match url.has_engine() {
                true => (url.without_name(), name),
                false => (default, name),
            }
        }
    };
    if Pattern::has_wildcards(&path) {
        return Err(Problem::usage("ls does not take patterns; use find").into());
    }
    let checked = match path.contains('/') {
        true => Name::parse(&path).map(|_| ()),
        false if path.is_empty() => Ok(()),
        false => check_segment(&path),
    };
    match checked {
        Ok(()) => Ok(Ok((engine, path))),
        Err(error) => wrong(error.to_string()),
    }
}

/// Returns the libraries, with their contents for a tree.
fn roots(connection: &Connection, is_tree: bool, context: &Context) -> Result<Vec<Node>, Stop> {
    let info = connection.client.engine_info(connection.timeout());
    let info = info.map_err(|error| connection.failed(&error))?;
    let is_by_name = is_tree || info.libraries.len() >= LIBRARIES_TOLD_MAX;
    let mut nodes: Vec<Node> = match is_by_name {
        true => tree(&found(connection, "**", context)?, ""),
        false => Vec::new(),
    };
    for library in info.libraries {
        let state = (library.state != "running").then_some(library.state);
        match nodes.iter_mut().find(|node| node.path == library.name) {
            Some(node) => (node.description, node.state) = (library.description, state),
            // All of its contents are excluded.
            None if is_by_name && library.variables > 0 => {}
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

/// Returns the contents of a folder, and the variable itself if the path is one.
fn below(connection: &Connection, path: &str, context: &Context) -> Result<Vec<Node>, Stop> {
    let found = found(connection, &format!("{path}/**"), context)?;
    let (itself, inside): (Vec<Found>, Vec<Found>) =
        found.into_iter().partition(|found| found.name == path);
    let mut nodes: Vec<Node> = itself.iter().map(leaf).collect();
    nodes.extend(tree(&inside, path));
    Ok(nodes)
}

fn found(connection: &Connection, pattern: &str, context: &Context) -> Result<Vec<Found>, Stop> {
    let found = connection.client.find(pattern, None, connection.timeout());
    let mut found = found.map_err(|error| connection.failed(&error))?;
    found.retain(|found| !context.settings.is_excluded(&found.name));
    Ok(found)
}

/// Turns names below `path` into nodes, in the order of their first appearance.
fn tree(found: &[Found], path: &str) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    let mut rest = found;
    let mut index = std::collections::HashMap::new();
    let mut groups: Vec<Vec<Found>> = Vec::new();
    while let Some((found, others)) = rest.split_first() {
        rest = others;
        let inside = match path {
            "" => found.name.as_str(),
            path => found.name.get(path.len() + 1..).unwrap_or_default(),
        };
        let segment = inside.split('/').next().unwrap_or_default();
        let end = found.name.len() - inside.len() + segment.len();
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

/// Returns the problem of a missing folder, with a similar name as suggestion.
fn missing(connection: &Connection, path: &str, context: &Context) -> Result<Problem, Stop> {
    let siblings = match path.rsplit_once('/') {
        Some((parent, _)) => below(connection, parent, context)?,
        None => roots(connection, false, context)?,
    };
    let suggestion = suggest(path, siblings.iter().map(|node| node.path.as_str()));
    let mut problem = Problem::new(
        Exit::SomeFailed,
        "unknown-name",
        &format!("there is no library or folder {path}"),
    );
    problem.hint = suggestion.map(|name| format!("did you mean {name}?"));
    Ok(problem.of(path))
}

/// Adds a node's row, and in a tree those of its children.
fn list(
    node: &Node,
    depth: usize,
    is_tree: bool,
    form: Form,
    records: &mut Records,
) -> Result<(), Stop> {
    let is_folder = node.variable.is_none() || !node.children.is_empty();
    if let Some((data_type, access)) = &node.variable {
        let mut object = Object::new();
        object.put("name", node.path.as_str());
        object.put("kind", "variable");
        object.put("type", data_type.as_str());
        object.put("access", *access);
        let name = shown(node, depth, is_tree, form);
        let cells = vec![name, data_type.clone(), (*access).to_owned()];
        records.push(Row {
            cells,
            object,
            mood: Mood::Plain,
        })?;
    }
    if is_folder {
        let kind = if node.path.contains('/') {
            "folder"
        } else {
            "library"
        };
        let mut object = Object::new();
        object.put("name", node.path.as_str());
        object.put("kind", kind);
        object.put("variables", node.variables);
        object.put_text("description", &node.description);
        if kind == "library" {
            object.put("state", node.state.as_deref().unwrap_or("running"));
        }
        let description = match (&node.state, node.description.as_str()) {
            (None, description) => description.to_owned(),
            (Some(state), "") => state.clone(),
            (Some(state), description) => format!("{state}: {description}"),
        };
        let name = format!("{}/", shown(node, depth, is_tree, form));
        let cells = vec![
            name,
            kind.to_owned(),
            String::new(),
            match form.is_for_people() {
                true => counted(node.variables, "variable"),
                false => node.variables.to_string(),
            },
            description,
        ];
        records.push(Row {
            cells,
            object,
            mood: match node.state {
                Some(_) => Mood::Uncertain,
                None => Mood::Dim,
            },
        })?;
    }
    if is_tree {
        for child in &node.children {
            list(child, depth + 1, is_tree, form, records)?;
        }
    }
    Ok(())
}

/// Returns the name in the list: in a tree for people the last segment, indented.
fn shown(node: &Node, depth: usize, is_tree: bool, form: Form) -> String {
    let last = node.path.rsplit('/').next().unwrap_or_default();
    match is_tree && form.is_for_people() {
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
        // A variable may have others below it.
        assert!(roots[0].children[1].variable.is_some());
        assert_eq!(roots[0].children[1].children.len(), 2);
        assert_eq!(roots[0].children[1].variables, 3);
    }

    #[test]
    fn a_folder_is_listed_from_its_path_on() {
        let found = names(&["b/pump/mode", "b/pump/a/b"]);
        let nodes = tree(&found, "b/pump");
        let paths: Vec<&str> = nodes.iter().map(|node| node.path.as_str()).collect();
        assert_eq!(paths, ["b/pump/mode", "b/pump/a"]);
    }
}
