//! The source of the history: an engine or a folder.

use std::path::Path;

use trunkline_history::{FolderError, HistoryFolder};
use trunkline_types::Url;
use trunkline_types::history::{HistoryPage, HistoryQuery};

use super::unknown::SeenVariables;
use crate::connection::Connection;
use crate::{CliError, Context, Exit, Problem};

/// Error code for recorded data that cannot be read.
pub(crate) const FAULT: &str = "history-fault";

/// Returns the error of a command that prints nothing, because recorded updates are lost.
pub(crate) fn loss_problem(code: &'static str, sentence: &str) -> Problem {
    Problem {
        exit: Exit::Lost,
        ..Problem::from_message(code, sentence)
    }
}

pub(crate) enum Source {
    Engine(Box<Connection>),
    Folder(Box<HistoryFolder>),
}

impl Source {
    /// Opens the folder if one is given; otherwise connects to the engine.
    pub(crate) fn open(
        engine: &Url,
        folder: Option<&Path>,
        context: &Context,
    ) -> Result<Self, CliError> {
        Ok(match folder {
            None => Self::Engine(Box::new(Connection::new(engine, context)?)),
            Some(folder) => {
                let opened = HistoryFolder::open(folder, context.clock.wall());
                Self::Folder(Box::new(opened.map_err(|error| problem(&error))?))
            }
        })
    }

    pub(crate) fn page(
        &mut self,
        query: HistoryQuery,
        context: &Context,
    ) -> Result<HistoryPage, CliError> {
        Ok(match self {
            Self::Engine(connection) => {
                connection.call(|client, wait| client.history(query, wait))?
            }
            Self::Folder(folder) => {
                let page = folder.read(&query, context.clock.wall());
                page.map_err(|error| problem(&error))?
            }
        })
    }
}

/// Converts the error of a folder.
pub(super) fn problem(error: &FolderError) -> Problem {
    let (exit, code) = match error {
        FolderError::NoHistory { .. } | FolderError::Spool { .. } => (Exit::Failed, "no-history"),
        FolderError::NotPermitted { .. } => (Exit::NotPermitted, "not-permitted"),
        FolderError::InUse { .. } => (Exit::Failed, "in-use"),
        FolderError::History(_) if error.is_damage() => (Exit::ProblemsFound, "damaged"),
        FolderError::History(_) => (Exit::Failed, "history"),
    };
    Problem::new(exit, code, error.to_string())
}

/// Fetches the pages of a query one by one.
pub(crate) struct Pages<'a> {
    pub(super) source: Source,
    query: HistoryQuery,
    is_first: bool,
    /// The variables in the pages so far.
    pub(super) seen: SeenVariables,
    context: &'a Context,
}

impl<'a> Pages<'a> {
    pub(crate) fn new(source: Source, query: HistoryQuery, context: &'a Context) -> Self {
        Self {
            source,
            query,
            is_first: true,
            seen: SeenVariables::default(),
            context,
        }
    }

    pub(crate) fn next(&mut self) -> Result<Option<HistoryPage>, CliError> {
        if !std::mem::take(&mut self.is_first) && self.query.from.is_none() {
            return Ok(None);
        }
        let page = self.source.page(self.query.clone(), self.context)?;
        self.query.from.clone_from(&page.next);
        self.seen.note(&page);
        Ok(Some(page))
    }
}
