//! The variables of the scenarios, and the rights of a caller.

use std::sync::Arc;
use std::time::Duration;

use trunkline_access::{
    Account, Action, Actions, Effect, Host, Place, Policy, Rule, UserName, Who,
};
use trunkline_engine::Rights;
use trunkline_types::{DataType, LibraryDefinition, Pattern, Properties, VariableDefinition};

use crate::Outcome;

/// The library of all scenarios.
pub const LIBRARY: &str = "bench";

pub fn name(index: usize) -> String {
    format!("{LIBRARY}/{}", path(index))
}

fn path(index: usize) -> String {
    format!("rig/channel{index:04}")
}

/// Returns the full names of the first `count` variables.
pub fn names(count: usize) -> Vec<String> {
    (0..count).map(name).collect()
}

/// Returns a library of `count` variables of one type. Their writers wait up to `stall` for a full
/// feed.
pub fn library(count: usize, data_type: DataType, stall: Duration) -> LibraryDefinition {
    let properties = Arc::new(Properties {
        stall,
        ..Properties::new(data_type)
    });
    let variable = |index| VariableDefinition {
        path: path(index),
        properties: properties.clone(),
    };
    LibraryDefinition {
        name: LIBRARY.to_owned(),
        description: String::new(),
        variables: (0..count).map(variable).collect(),
    }
}

/// Returns the rights of a caller to whom rules grant everything on the library of the scenarios, and
/// deny one name in it, so that the rules decide for each name.
pub fn rights_by_name() -> Outcome<Rights> {
    let user = UserName::parse("bench")?;
    let rule = |effect, actions, pattern| -> Outcome<Rule> {
        Ok(Rule {
            who: Who::User(user.clone()),
            pattern: Pattern::parse(pattern)?,
            effect,
            actions,
            place: Place::from("access.toml:2"),
        })
    };
    let account = Account {
        name: user.clone(),
        role: None,
        groups: Vec::new(),
        disabled: false,
        place: Place::from("access.toml:1"),
    };
    let rules = vec![
        rule(Effect::Grant, Actions::ALL, "bench/**")?,
        rule(
            Effect::Deny,
            Actions::of(&[Action::Write]),
            "bench/rig/other",
        )?,
    ];
    let policy = Policy::new(vec![account], rules)?;
    let subject = policy.subject("bench", Host::Local)?;
    Ok(Rights::of(policy.subject_rules(&subject)))
}
