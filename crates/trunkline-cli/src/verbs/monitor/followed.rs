//! The variables that are followed, and what is known of them.

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
    /// The condition of `--until`, for its type.
    pub(super) until: Option<Bound>,
    /// The code of the last thing said to be wrong with it, until a reading comes.
    pub(super) complaint: Option<Cow<'static, str>>,
    /// What came since the last line of `--rate`.
    pub(super) rate: Rate,
    /// It matched a pattern and is no more.
    pub(super) is_gone: bool,
}

/// What is known of the names there are at the start.
#[derive(Debug, Default)]
pub(super) struct Known(HashMap<String, Followed>);

impl Known {
    pub(super) fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// What is known of a name, as an item.
    pub(super) fn take(&mut self, name: &str) -> Followed {
        self.0.remove(name).unwrap_or_else(|| Followed {
            name: name.to_owned(),
            ..Followed::default()
        })
    }
}

impl Followed {
    /// Whether this problem was not just said.
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

/// Opens all names. What cannot be opened is followed as well: it may come later.
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

/// Asks anew for what is known of the variables that are `wanted`; where there is no answer, the
/// old stands.
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
