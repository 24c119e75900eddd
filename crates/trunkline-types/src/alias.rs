//! Checks aliases (H-20). The engine applies these rules when it deploys and binds aliases. The parser
//! of configurations applies the same rules.

use std::collections::HashMap;

use crate::name::NameError;
use crate::{Access, DataType, Fifo, Name, Properties, Reason, Scaling, Scope};

/// Maximum length of a chain of aliases: the number of steps from the first alias to a variable that is
/// not an alias.
pub const ALIAS_DEPTH_MAX: usize = 8;
/// Maximum number of aliases that lead to one variable, directly or through other aliases. Each update
/// of the variable becomes an update of all these aliases.
pub const ALIASES_MAX: usize = 4096;

/// The reason why a variable cannot be an alias. The message is phrased so that it can follow the
/// variable's name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AliasFault {
    #[error(
        "the alias target {target} is a URL; an alias refers to a variable of the same engine: write \
         `library/path`"
    )]
    Url {
        /// The target as given.
        target: String,
    },
    #[error("the alias target is not a valid name: {error}")]
    InvalidName { error: NameError },
    #[error("the alias target {target} is a field; an alias refers to a whole variable")]
    Field {
        /// The target as given.
        target: String,
    },
    /// The alias also has a property that determines the source of its value.
    #[error(
        "an alias takes its value from its target, so it cannot have `{key}`; remove one of the two"
    )]
    Contradicted {
        /// The configuration key of the contradicting property.
        key: &'static str,
    },
    #[error("these aliases form a cycle: {path}; one of them must not be an alias")]
    Cycle {
        /// The names in the cycle, joined by `->`.
        path: String,
    },
    /// The chain has more than `ALIAS_DEPTH_MAX` steps.
    #[error(
        "the chain has {steps} aliases; {ALIAS_DEPTH_MAX} is the limit: make this variable an alias \
         of {root}"
    )]
    TooDeep {
        /// Number of steps found.
        steps: usize,
        /// The variable at the end of the chain.
        root: String,
    },
    /// More than `ALIASES_MAX` aliases lead to one variable.
    #[error("{count} aliases would lead to {root}; {ALIASES_MAX} is the limit")]
    TooMany {
        /// Full name of the variable.
        root: String,
        /// Number of aliases counted when the limit was passed.
        count: usize,
    },
    /// The target has an incompatible type, or this alias may not show its value.
    #[error("it cannot be an alias: {sentence}")]
    Mismatch {
        /// The problem and the remedy.
        sentence: String,
    },
}

/// The reason why a variable cannot be an alias of another one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mismatch {
    /// The quality reason for an alias that was already bound.
    pub reason: Reason,
    /// The problem and the remedy, for users.
    pub sentence: String,
}

/// Checks the properties of a single variable, and returns the name of its target; `None` if the
/// variable is not an alias.
///
/// # Errors
/// The target is not the name of a variable, or another property determines the source of the
/// value.
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

/// Returns the reason why a variable with the properties `alias` cannot be an alias of `target`,
/// whose full name is `name`; `None` if it can.
pub fn mismatch(alias: &Properties, name: &str, target: &Properties) -> Option<Mismatch> {
    let mismatch = |reason, sentence| Some(Mismatch { reason, sentence });
    if alias.scope == Scope::Network && target.scope == Scope::Process {
        let sentence = format!(
            "{name} can be reached only in its own process; give the alias `scope = \"process\"`, too"
        );
        return mismatch(Reason::AccessDenied, sentence);
    }
    if target.access == Access::WriteOnly && alias.access != Access::WriteOnly {
        let sentence =
            format!("{name} is write-only; give the alias `access = \"write-only\"`, too");
        return mismatch(Reason::AccessDenied, sentence);
    }
    let (from, to) = (&target.data_type, &alias.data_type);
    if !converts(alias.scaling.as_ref(), from, to) {
        let sentence =
            format!("{name} is {from}, which cannot be converted to {to}; give both the same type");
        return mismatch(Reason::ConfigurationError, sentence);
    }
    None
}

/// Returns true if values can be converted from one type to the other and back.
fn converts(scaling: Option<&Scaling>, from: &DataType, to: &DataType) -> bool {
    match scaling {
        None => from == to || (from.is_numeric() && to.is_numeric()),
        Some(scaling) => scaling.check(from).is_ok() && scaling.check(to).is_ok(),
    }
}

/// Follows every alias to a variable that is not an alias. `targets` maps the full name of each
/// alias to the full name of its target.
///
/// # Errors
/// The name of the offending alias and its fault: a cycle, a chain that is too long, or too many
/// aliases of one variable.
pub fn check_chains(targets: &HashMap<&str, &str>) -> Result<(), (String, AliasFault)> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let mut names: Vec<&&str> = targets.keys().collect();
    // Sort the names, so that every check reports the same alias.
    names.sort_unstable();
    for name in names {
        let refuse = |fault| ((*name).to_owned(), fault);
        let mut path = vec![*name];
        let mut current = *name;
        while let Some(next) = targets.get(current) {
            let is_cycle = path.contains(next);
            path.push(next);
            // A cycle that does not contain this alias is reported for an alias in the cycle.
            if is_cycle && next == name {
                let path = path.join(" -> ");
                return Err(refuse(AliasFault::Cycle { path }));
            }
            if is_cycle || path.len() > CHAIN_STEPS_MAX {
                break;
            }
            current = next;
        }
        let steps = path.len() - 1;
        let root = path.last().copied().unwrap_or_default();
        if targets.contains_key(root) && steps <= CHAIN_STEPS_MAX {
            // The cycle is reported for an alias in the cycle.
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

/// Maximum number of steps for which a chain is followed. A cycle of up to this length is reported
/// as a cycle.
const CHAIN_STEPS_MAX: usize = 64;
