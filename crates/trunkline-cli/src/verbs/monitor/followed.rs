//! The followed variables and their metadata.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::condition::{BoundCondition, Condition};
use crate::connection::{Connection, Entries, metadata, open_options, readable};
use crate::output::Metadata;
use crate::output::rates::Rate;
use crate::{CliError, Problem};

/// A followed variable.
#[derive(Debug, Default)]
pub(super) struct Followed {
    pub(super) name: String,
    /// `None` while the variable cannot be opened.
    pub(super) metadata: Option<Metadata>,
    /// The condition of `--until`, for the type of this variable.
    pub(super) until: Option<BoundCondition>,
    /// Code of the last reported problem. A reading clears it.
    pub(super) last_problem: Option<Cow<'static, str>>,
    pub(super) rate: Rate,
    pub(super) is_gone: bool,
}

/// The variables that were opened at the start, by name.
#[derive(Debug, Default)]
pub(super) struct OpenedAtStart(HashMap<String, Followed>);

impl OpenedAtStart {
    pub(super) fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(super) fn take(&mut self, name: &str) -> Followed {
        self.0.remove(name).unwrap_or_else(|| Followed {
            name: name.to_owned(),
            ..Followed::default()
        })
    }
}

impl Followed {
    /// Returns true unless the last reported problem is the same.
    pub(super) fn is_new_problem(&mut self, problem: &Problem) -> bool {
        self.last_problem.replace(problem.code.clone()).as_ref() != Some(&problem.code)
    }

    fn set_metadata(
        &mut self,
        metadata: Metadata,
        condition: Option<&Condition>,
    ) -> Result<(), Problem> {
        self.until = match condition {
            Some(condition) => Some(condition.bind(&self.name, &metadata.data_type)?),
            None => None,
        };
        self.metadata = Some(metadata);
        Ok(())
    }
}

/// Opens all names. Names that cannot be opened are followed too, because they may appear later.
pub(super) fn open(
    connection: &Connection,
    entries: &Entries,
    condition: Option<&Condition>,
) -> Result<(OpenedAtStart, Vec<Problem>), CliError> {
    let (mut items, mut problems) = (OpenedAtStart::default(), Vec::new());
    for (name, opened) in connection.open_all(entries, open_options(false, true))? {
        let mut item = Followed {
            name: name.clone(),
            ..Followed::default()
        };
        match opened.and_then(|opened| readable(&name, opened)) {
            Ok(opened) => item.set_metadata(metadata(&opened), condition)?,
            Err(problem) => {
                item.is_new_problem(&problem);
                problems.push(problem);
            }
        }
        items.0.insert(name, item);
    }
    Ok((items, problems))
}

/// Requests the metadata of the variables that `filter` accepts again. If this fails, keeps the old
/// metadata.
pub(super) fn refresh(
    connection: &Connection,
    items: &mut [Followed],
    filter: impl Fn(&Followed) -> bool,
    condition: Option<&Condition>,
) -> Result<(), CliError> {
    let mut items: Vec<&mut Followed> = items
        .iter_mut()
        .filter(|item| !item.is_gone && filter(item))
        .collect();
    let names: Vec<&str> = items.iter().map(|item| item.name.as_str()).collect();
    let Ok(opened) = connection.open(&names, open_options(false, true)) else {
        return Ok(());
    };
    for (item, opened) in items.iter_mut().zip(opened) {
        if let Ok(opened) = opened {
            item.set_metadata(metadata(&opened), condition)?;
        }
    }
    Ok(())
}
