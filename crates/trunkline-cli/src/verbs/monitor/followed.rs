//! The followed variables and their metadata.

use std::borrow::Cow;
use std::collections::HashMap;

use trunkline::OpenOptions;

use crate::condition::{Bound, Condition};
use crate::connection::{Connection, Entry, facts, readable};
use crate::output::Facts;
use crate::output::rates::Rate;
use crate::problem::{Problem, Stop};

/// A variable that is followed.
#[derive(Debug, Default)]
pub(super) struct Followed {
    pub(super) name: String,
    /// `None` while it cannot be opened.
    pub(super) facts: Option<Facts>,
    /// The condition of `--until`, bound to its type.
    pub(super) until: Option<Bound>,
    /// Code of the last problem reported, until a reading arrives.
    pub(super) complaint: Option<Cow<'static, str>>,
    /// Counts since the last line of `--rate`.
    pub(super) rate: Rate,
    /// True if it matched a pattern and no longer exists.
    pub(super) is_gone: bool,
}

/// The metadata of the names that exist at the start.
#[derive(Debug, Default)]
pub(super) struct Known(HashMap<String, Followed>);

impl Known {
    pub(super) fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Takes the metadata of a name, for a new item.
    pub(super) fn take(&mut self, name: &str) -> Followed {
        self.0.remove(name).unwrap_or_else(|| Followed {
            name: name.to_owned(),
            ..Followed::default()
        })
    }
}

impl Followed {
    /// Returns true unless this problem was the last one reported.
    pub(super) fn is_news(&mut self, problem: &Problem) -> bool {
        self.complaint.replace(problem.code.clone()).as_ref() != Some(&problem.code)
    }

    fn learn(&mut self, facts: Facts, condition: Option<&Condition>) -> Result<(), Problem> {
        self.until = match condition {
            Some(condition) => Some(condition.bind(&self.name, &facts.data_type)?),
            None => None,
        };
        self.facts = Some(facts);
        Ok(())
    }
}

/// Opens all names. Names that cannot be opened are followed as well: they may appear later.
pub(super) fn open(
    connection: &Connection,
    entries: &[Entry],
    condition: Option<&Condition>,
) -> Result<(Known, Vec<Problem>), Stop> {
    let names: Vec<&str> = entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::Name(name) => Some(name.as_str()),
            Entry::Problem(_) => None,
        })
        .collect();
    let describe = OpenOptions {
        describe: true,
        ..OpenOptions::default()
    };
    let mut opened = connection.open(&names, describe)?.into_iter();
    let (mut items, mut problems) = (Known::default(), Vec::new());
    for entry in entries {
        let name = match entry {
            Entry::Problem(problem) => {
                problems.push(problem.clone());
                continue;
            }
            Entry::Name(name) => name,
        };
        let mut item = Followed {
            name: name.clone(),
            ..Followed::default()
        };
        match opened
            .next()
            .map(|opened| opened.and_then(|opened| readable(name, opened)))
        {
            Some(Ok(opened)) => item.learn(facts(&opened), condition)?,
            Some(Err(problem)) => {
                item.is_news(&problem);
                problems.push(problem);
            }
            None => {}
        }
        items.0.insert(name.clone(), item);
    }
    Ok((items, problems))
}

/// Requests the metadata of the `wanted` variables again; without an answer the old is kept.
pub(super) fn refresh(
    connection: &Connection,
    items: &mut [Followed],
    wanted: impl Fn(&Followed) -> bool,
    condition: Option<&Condition>,
) -> Result<(), Stop> {
    let mut items: Vec<&mut Followed> = items
        .iter_mut()
        .filter(|item| !item.is_gone && wanted(item))
        .collect();
    let names: Vec<&str> = items.iter().map(|item| item.name.as_str()).collect();
    let describe = OpenOptions {
        describe: true,
        ..OpenOptions::default()
    };
    let Ok(opened) = connection.open(&names, describe) else {
        return Ok(());
    };
    for (item, opened) in items.iter_mut().zip(opened) {
        if let Ok(opened) = opened {
            item.learn(facts(&opened), condition)?;
        }
    }
    Ok(())
}
