//! Reports names that belong to no variable, neither in the engine nor in the history.

use std::collections::HashSet;

use trunkline::OpenOptions;
use trunkline_types::Pattern;
use trunkline_types::history::{HistoryPage, HistoryQuery};

use super::source::{Pages, Source};
use crate::targets::Target;
use crate::verbs::audit::bad_pattern;
use crate::{CliError, Context, Exit, Problem, Tally};

/// The variables that occur in the pages of a query.
#[derive(Debug, Default)]
pub(super) struct SeenVariables(HashSet<String>);

impl SeenVariables {
    pub(super) fn note(&mut self, page: &HistoryPage) {
        for series in &page.series {
            if !self.0.contains(&series.variable) {
                self.0.insert(series.variable.clone());
            }
        }
    }
}

impl Source {
    /// Returns a problem for each name that belongs to no variable. The engine also knows the
    /// variables that have no recorded rows; a folder does not.
    fn unknown(&self, names: &[&str]) -> Result<Vec<Problem>, CliError> {
        let connection = match self {
            Self::Engine(connection) => connection,
            Self::Folder(_) => {
                let problem = |name: &&str| {
                    let sentence = "the folder has no rows of this variable; `trunkline history ls` \
                                    lists its variables";
                    Problem::failed("unknown-name", sentence).with_name(name)
                };
                return Ok(names.iter().map(problem).collect());
            }
        };
        // The engine's error suggests a similar name.
        let opened = connection.open(names, OpenOptions::default())?.into_iter();
        let unknown = opened.filter_map(Result::err);
        Ok(unknown
            .filter(|problem| problem.code == "unknown-name")
            .collect())
    }
}

/// Reports names that belong to no present or recorded variable, and suggests similar names. Returns
/// the exit code if there are any.
pub(super) fn report(
    targets: &[Target],
    pages: &mut Pages<'_>,
    context: &Context,
) -> Result<Option<Exit>, CliError> {
    let mut names = Vec::new();
    for target in targets {
        if let Target::Name(name) = target
            && !pages.seen.0.contains(name)
            && !is_recorded(name, &mut pages.source, context)?
        {
            names.push(name.as_str());
        }
    }
    if names.is_empty() {
        return Ok(None);
    }
    let width = names.iter().map(|name| crate::terminal::width(name)).max();
    let mut tally = Tally::default();
    let mut has_unknown = false;
    for problem in pages.source.unknown(&names)? {
        has_unknown = true;
        tally.item_failed(context.show(&problem, width.unwrap_or(0))?);
    }
    Ok(has_unknown.then(|| tally.exit()))
}

/// Returns true if the history has any rows of a variable.
fn is_recorded(name: &str, source: &mut Source, context: &Context) -> Result<bool, CliError> {
    let mut query = HistoryQuery {
        patterns: vec![Pattern::parse(name).map_err(bad_pattern)?],
        limit: 1,
        ..HistoryQuery::default()
    };
    loop {
        let page = source.page(query.clone(), context)?;
        if !page.series.is_empty() {
            return Ok(true);
        }
        query.from = page.next;
        if query.from.is_none() || context.interrupted.is_pressed() {
            return Ok(false);
        }
    }
}
