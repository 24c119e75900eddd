//! `ls`: libraries, folders and variables, one level at a time or as a tree.

use trunkline::Found;
use trunkline_types::Name;
use trunkline_types::name::suggest;

use super::find::access_name;
use super::{Context, Verb};
use crate::connection::Connection;
use crate::exit::Exit;
use crate::output::json::Object;
use crate::output::records::{Records, Row};
use crate::problem::{Problem, Stop};
use crate::settings::Settings;
use crate::targets;
use crate::terminal::Mood;

/// List libraries, folders and variables
///
/// Without a path the libraries, with one what is directly in it; folders end with a slash.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// A library, or a folder in it
    #[arg(value_name = "PATH")]
    path: Option<String>,

    /// Everything below, indented
    #[arg(long)]
    tree: bool,
}

pub(crate) const VERB: Verb = Verb {
    name: "ls",
    writes: false,
    exits: &[
        Exit::Done,
        Exit::SomeFailed,
        Exit::Usage,
        Exit::Unreachable,
        Exit::TimedOut,
        Exit::Interrupted,
    ],
};

/// An engine names at most so many libraries in one answer; beyond, they are gathered from the names.
const LIBRARIES_TOLD_MAX: usize = 1024;

/// A variable, or a folder with what is in it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Node {
    name: String,
    /// The full name, or that of the folder.
    path: String,
    variable: Option<(String, &'static str)>,
    children: Vec<Node>,
    description: String,
    /// Variables in it, itself included.
    variables: u64,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Stop> {
    crate::interrupt::end_process_on_interrupt(&context.terminal)?;
    let (engine, path) = place(args.path.as_deref().unwrap_or_default(), &context.settings)?;
    let connection = Connection::new(&engine, context)?;
    let nodes = match path.as_str() {
        "" => roots(&connection, args.tree)?,
        path => match below(&connection, path)? {
            nodes if nodes.is_empty() => {
                return context.show(&missing(&connection, path)?, 0);
            }
            nodes => nodes,
        },
    };
    let columns: &[&str] = &["name", "kind", "type", "access", "variables", "description"];
    let mut records = Records::new(&context.settings, &context.terminal, match args.tree {
        true => &["name", "detail"],
        false => &["name", "detail", "description"],
    })?;
    let _ = columns;
    for node in &nodes {
        list(node, 0, args.tree, &context.settings, &mut records)?;
    }
    records.finish()?;
    Ok(Exit::Done)
}
