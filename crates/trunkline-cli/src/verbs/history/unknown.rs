//! Names that no variable has, and that the history does not know.

use std::collections::HashSet;

use trunkline::OpenOptions;
use trunkline_types::Pattern;
use trunkline_types::history::{HistoryPage, HistoryQuery};

use crate::connection::Connection;
use crate::targets::Wanted;
use crate::verbs::audit::bad_pattern;
use crate::{CliError, Context, Exit, Tally};

/// The variables that the pages of a query have.
#[derive(Debug, Default)]
pub(super) struct Seen(HashSet<String>);

impl Seen {
    pub(super) fn note(&mut self, page: &HistoryPage) {
        for series in &page.series {
            if !self.0.contains(&series.variable) {
                self.0.insert(series.variable.clone());
            }
        }
    }
}

/// Reports the names that no variable has or had, with similar ones. Returns the exit code if there
/// are any.
pub(super) fn tell(
    wanted: &[Wanted],
    seen: &Seen,
    connection: &Connection,
    context: &Context,
) -> Result<Option<Exit>, CliError> {
    let mut names = Vec::new();
    for one in wanted {
        if let Wanted::Name(name) = one
            && !seen.0.contains(name)
            && !is_recorded(name, connection, context)?
        {
            names.push(name.as_str());
        }
    }
    if names.is_empty() {
        return Ok(None);
    }
    let width = names.iter().map(|name| crate::terminal::width(name)).max();
    let mut tally = Tally::default();
    let mut is_any = false;
    // The engine's error suggests a similar name.
    for opened in connection.open(&names, OpenOptions::default())? {
        match opened {
            Err(problem) if problem.code == "unknown-name" => {
                is_any = true;
                tally.item_failed(context.show(&problem, width.unwrap_or(0))?);
            }
            // There is such a variable, but nothing was recorded of it in this time.
            Ok(_) | Err(_) => {}
        }
    }
    Ok(is_any.then(|| tally.exit()))
}

/// Returns true if the history has something of a variable, at any time.
fn is_recorded(name: &str, connection: &Connection, context: &Context) -> Result<bool, CliError> {
    let mut query = HistoryQuery {
        patterns: vec![Pattern::parse(name).map_err(bad_pattern)?],
        limit: 1,
        ..HistoryQuery::default()
    };
    loop {
        let asked = query.clone();
        let page = connection.call(|client, wait| client.history(asked, wait))?;
        if !page.series.is_empty() {
            return Ok(true);
        }
        query.from = page.next;
        if query.from.is_none() || context.interrupted.is_so() {
            return Ok(false);
        }
    }
}
