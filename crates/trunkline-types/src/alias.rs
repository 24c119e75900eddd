//! Which variables can be aliases of which (H-20). One rule for everybody: the engine deploys and
//! binds aliases by it, and a configuration that breaks it is refused where it is read.

use std::collections::HashMap;

use crate::name::NameError;
use crate::{Access, DataType, Fifo, Name, Properties, Reason, Scaling, Scope};

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

/// Why a variable cannot show another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Misfit {
    /// The reason in the quality of an alias that was bound before.
    pub reason: Reason,
    /// What is wrong and what to do, for people.
    pub sentence: String,
}

/// What is wrong with one variable's properties for itself, and where it leads; `None` for
/// what is no alias.
///
/// # Errors
/// The target is none, or the properties say otherwise where the value comes from.
pub fn target_of(properties: &Properties) -> Result<Option<Name>, AliasFault> {
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
        (properties.fifo != Fifo::Off, "fifo"),
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

/// Why a variable of the properties `alias` cannot show `target`, whose full name is `name`.
pub fn misfit(alias: &Properties, name: &str, target: &Properties) -> Option<Misfit> {
    let misfit = |reason, sentence| Some(Misfit { reason, sentence });
    if alias.scope == Scope::Network && target.scope == Scope::Process {
        let sentence = format!(
            "{name} is for its own process only; give the alias `scope = \"process\"`, too"
        );
        return misfit(Reason::AccessDenied, sentence);
    }
    if target.access == Access::WriteOnly && alias.access != Access::WriteOnly {
        let sentence =
            format!("{name} is write-only; give the alias `access = \"write-only\"`, too");
        return misfit(Reason::AccessDenied, sentence);
    }
    let (from, to) = (&target.data_type, &alias.data_type);
    if !converts(alias.scaling.as_ref(), from, to) {
        let sentence = format!("{name} is {from}, which cannot become {to}; give both one type");
        return misfit(Reason::ConfigurationError, sentence);
    }
    None
}

/// Whether values of one type can become values of the other, and back.
fn converts(scaling: Option<&Scaling>, from: &DataType, to: &DataType) -> bool {
    match scaling {
        None => from == to || (from.is_numeric() && to.is_numeric()),
        Some(scaling) => scaling.check(from).is_ok() && scaling.check(to).is_ok(),
    }
}

/// Follows every alias to the variable that is none; `targets` says of each alias whom it leads to,
/// by full names.
///
/// # Errors
/// The alias that is at fault: there is a cycle, a chain is too long, or too many lead to one
/// variable.
pub fn check_chains(targets: &HashMap<&str, &str>) -> Result<(), (String, AliasFault)> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let mut names: Vec<&&str> = targets.keys().collect();
    // The same one is named every time.
    names.sort_unstable();
    for name in names {
        let refuse = |fault| ((*name).to_owned(), fault);
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
