//! Which aliases there are, by name, and what is wrong with a library that adds some.

use std::collections::{BTreeMap, HashMap};

use trunkline_types::name::NameError;
use trunkline_types::{LibraryDefinition, Name, Properties};

use super::misfit;
use crate::engine::Engine;
use crate::library::DeployError;
use crate::sync::Mutex;

/// Aliases of aliases: steps from the last one to a variable that is none.
pub const ALIAS_DEPTH_MAX: usize = 8;
/// Aliases that may lead to one variable, directly or through others: each of its updates becomes
/// one of theirs.
pub const ALIASES_MAX: usize = 4096;

/// Why a variable cannot be an alias; what is said stands behind its name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AliasFault {
    /// The target is given as a URL.
    #[error(
        "its alias {target} is a URL; an alias leads to a variable of this engine: write \
         `library/path`"
    )]
    Url {
        /// As given.
        target: String,
    },
    /// The target is no name.
    #[error("its alias: {error}")]
    InvalidName {
        /// The rule.
        error: NameError,
    },
    /// The target is a field.
    #[error("its alias {target} is a field; an alias leads to a whole variable")]
    Field {
        /// As given.
        target: String,
    },
    /// A property that says where the value comes from.
    #[error("an alias has its value from its target, so it cannot have `{key}`; leave one out")]
    Contradicted {
        /// The property.
        key: &'static str,
    },
    /// It would lead to itself.
    #[error("its alias leads back to itself: {path}; one of them must be a variable of its own")]
    Cycle {
        /// Each name, then the next it leads to.
        path: String,
    },
    /// Too many steps.
    #[error(
        "{steps} aliases lead one to the next, at most {ALIAS_DEPTH_MAX} may; make it an alias of \
         {root}"
    )]
    TooDeep {
        /// How many.
        steps: usize,
        /// Where they end.
        root: String,
    },
    /// Too many aliases of one variable.
    #[error("{count} aliases would lead to {root}, at most {ALIASES_MAX} may")]
    TooMany {
        /// The variable.
        root: String,
        /// How many.
        count: usize,
    },
    /// The target is of another type, or may not be shown.
    #[error("it cannot be an alias: {sentence}")]
    Misfit {
        /// What is wrong and what to do.
        sentence: String,
    },
}

/// An alias that is deployed.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) handle: u32,
    /// The name it leads to, whether that is deployed or not.
    pub(super) target: Name,
}

/// Every alias that is deployed, by name.
#[derive(Debug, Default)]
pub(crate) struct Aliases {
    pub(super) table: Mutex<BTreeMap<Name, Entry>>,
}

/// What is wrong with one variable's properties for itself, and where it leads.
pub(crate) fn target_of(properties: &Properties) -> Result<Option<Name>, AliasFault> {
    if properties.alias.is_empty() {
        return Ok(None);
    }
    let target = || properties.alias.clone();
    if properties.alias.contains("://") {
        return Err(AliasFault::Url { target: target() });
    }
    let has = [
        (!properties.source.is_empty(), "source"),
        (properties.initial.is_some(), "initial"),
        (properties.retain, "retain"),
        (properties.fifo != trunkline_types::Fifo::Off, "fifo"),
    ];
    if let Some((_, key)) = has.into_iter().find(|(has, _)| *has) {
        return Err(AliasFault::Contradicted { key });
    }
    let name = Name::parse(&properties.alias).map_err(|error| AliasFault::InvalidName { error })?;
    match name.field() {
        None => Ok(Some(name)),
        Some(_) => Err(AliasFault::Field { target: target() }),
    }
}

impl Engine {
    /// What is wrong with the aliases of a library, given all that are deployed.
    pub(crate) fn check_aliases(
        &self,
        library: &LibraryDefinition,
        names: &[Name],
    ) -> Result<(), DeployError> {
        let mut new = Vec::new();
        for (name, definition) in names.iter().zip(&library.variables) {
            let refuse = |fault| refused(name, fault);
            if let Some(target) = target_of(&definition.properties).map_err(refuse)? {
                new.push((name, target, &definition.properties));
            }
        }
        if new.is_empty() {
            // What goes makes no chain longer.
            return Ok(());
        }
        let table = self.aliases().table.lock();
        let others = table
            .iter()
            .filter(|(name, _)| name.library() != library.name);
        let mut targets: HashMap<&str, &str> = others
            .map(|(name, entry)| (name.as_str(), entry.target.as_str()))
            .collect();
        targets.extend(
            new.iter()
                .map(|(name, target, _)| (name.as_str(), target.as_str())),
        );
        check_chains(&targets)?;
        drop(table);
        let own: HashMap<&str, &Properties> = names
            .iter()
            .zip(&library.variables)
            .map(|(name, definition)| (name.as_str(), &*definition.properties))
            .collect();
        for (name, target, properties) in new {
            let target_name = target.as_str();
            let wrong = match own.get(target_name) {
                Some(of_target) => misfit(properties, target_name, of_target),
                None if target.library() == library.name => None,
                None => self
                    .registry()
                    .find(target_name)
                    .and_then(|variable| misfit(properties, target_name, &variable.properties())),
            };
            if let Some(wrong) = wrong {
                let sentence = wrong.sentence.to_string();
                return Err(refused(name, AliasFault::Misfit { sentence }));
            }
        }
        Ok(())
    }
}

fn refused(name: &Name, fault: AliasFault) -> DeployError {
    let name = name.as_str().to_owned();
    DeployError::Alias { name, fault }
}

/// Follows every alias to the variable that is none.
fn check_chains(targets: &HashMap<&str, &str>) -> Result<(), DeployError> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let mut names: Vec<&&str> = targets.keys().collect();
    // The same one is named every time.
    names.sort_unstable();
    for name in names {
        let refuse = |fault| DeployError::Alias {
            name: (*name).to_owned(),
            fault,
        };
        let mut path = vec![*name];
        let mut at = *name;
        while let Some(next) = targets.get(at) {
            let is_cycle = path.contains(next);
            path.push(next);
            // One that leads into a cycle of others: theirs is told, at one of them.
            if is_cycle && next == name {
                let path = path.join(" -> ");
                return Err(refuse(AliasFault::Cycle { path }));
            }
            if is_cycle || path.len() > CHAIN_LOOKED_AT {
                break;
            }
            at = next;
        }
        let steps = path.len() - 1;
        let root = path.last().copied().unwrap_or_default();
        if targets.contains_key(root) && steps <= CHAIN_LOOKED_AT {
            // It leads into a cycle that the names on it will tell.
            continue;
        }
        if steps > ALIAS_DEPTH_MAX {
            let root = root.to_owned();
            return Err(refuse(AliasFault::TooDeep { steps, root }));
        }
        let count = counts.entry(root).or_default();
        *count += 1;
        if *count > ALIASES_MAX {
            let (root, count) = (root.to_owned(), *count);
            return Err(refuse(AliasFault::TooMany { root, count }));
        }
    }
    Ok(())
}

/// A chain is followed this far, so that a cycle of that length is told as one.
const CHAIN_LOOKED_AT: usize = 64;
