//! Libraries come and go as wholes.

use std::collections::HashSet;

use trunkline_types::scaling::ScalingError;
use trunkline_types::{LibraryDefinition, Name, Properties, Tick, Timestamp, VariableDefinition};

use crate::caller::Caller;
use crate::engine::{Engine, Library};
use crate::interest::Kind;
use crate::outbox::Wakes;
use crate::outcome::{Attempt, WriteOutcome};
use crate::registry::VARIABLES_MAX;
use crate::sync::Arc;
use crate::variable::Variable;
use crate::write::{Origin, Write};
use trunkline_types::{Quality, Reason};

/// Why a library could not be deployed; nothing of it was.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeployError {
    /// A library of this name is deployed.
    #[error("library {name} is already deployed; undeploy it first")]
    AlreadyDeployed {
        /// Its name.
        name: String,
    },
    /// A name breaks the rules.
    #[error("{library}/{path}: {error}")]
    InvalidName {
        /// The library.
        library: String,
        /// The variable's path in it.
        path: String,
        /// The rule.
        error: trunkline_types::name::NameError,
    },
    /// Two variables of the same name.
    #[error("{name} is defined twice; rename one of them")]
    DuplicateName {
        /// The full name.
        name: String,
    },
    /// The engine is full.
    #[error("{needed} variables do not fit: the engine holds at most {max}, {room} are free")]
    TooMany {
        /// Variables in the library.
        needed: usize,
        /// Free places.
        room: usize,
        /// All places.
        max: usize,
    },
    /// Scaling does not fit the type.
    #[error("{name}: {error}")]
    Scaling {
        /// The full name.
        name: String,
        /// What is wrong.
        error: ScalingError,
    },
    /// The real-time FIFO does not fit the type.
    #[error("{name}: {reason}")]
    Fifo {
        /// The full name.
        name: String,
        /// What is wrong and what to do.
        reason: String,
    },
    /// The initial value is not one of the type.
    #[error("{name}: the initial value is not {expected}; correct `initial` or `type`")]
    Initial {
        /// The full name.
        name: String,
        /// The type.
        expected: String,
    },
}

/// No library of this name is deployed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no library named {name} is deployed; `trunkline ls` lists those that are")]
pub struct UndeployError {
    /// What was asked for.
    pub name: String,
}

impl Engine {
    /// Deploys every variable of a library, or none of it. Properties that are equal are kept once.
    ///
    /// # Errors
    /// The first thing wrong with the library.
    pub fn deploy(
        &self,
        library: &LibraryDefinition,
        now: Tick,
        wall: Timestamp,
    ) -> Result<Vec<u32>, DeployError> {
        let mut libraries = self.libraries_lock();
        if libraries.iter().any(|known| known.name == library.name) {
            return Err(DeployError::AlreadyDeployed { name: library.name.clone() });
        }
        let names = self.check_library(library)?;
        let mut templates: Vec<Arc<Properties>> = Vec::new();
        let mut handles = Vec::with_capacity(names.len());
        let mut wakes = Wakes::new();
        for (name, definition) in names.into_iter().zip(&library.variables) {
            let properties = intern(&mut templates, definition);
            let made = self.registry().insert(|slot| {
                Variable::new(slot, name.as_str().into(), Arc::clone(&properties))
            });
            let Some(variable) = made else { continue };
            handles.push(variable.handle());
            self.write_initial(&variable, now, wall, &mut wakes);
        }
        libraries.push(Library {
            name: library.name.clone(),
            description: library.description.clone(),
            handles: handles.clone(),
        });
        Ok(handles)
    }

    /// Removes a library: its names are free again, its handles answer that they are gone.
    ///
    /// # Errors
    /// [`UndeployError`] when no such library is deployed.
    pub fn undeploy(&self, name: &str, wakes: &mut Wakes) -> Result<usize, UndeployError> {
        let mut libraries = self.libraries_lock();
        let place = libraries
            .iter()
            .position(|library| library.name == name)
            .ok_or_else(|| UndeployError { name: name.to_owned() })?;
        let library = libraries.remove(place);
        for variable in library.handles.iter().filter_map(|handle| self.variable(*handle)) {
            self.registry().remove(variable.name());
            let mut state = variable.lock();
            variable.set_gone(&mut state);
            let Some(extra) = &state.extra else { continue };
            for interest in &extra.interests {
                let marked = match &interest.kind {
                    Kind::Feed { mark, .. } => *mark,
                    _ => interest.item,
                };
                interest.outbox.marks.mark(interest.item);
                interest.outbox.marks.mark(marked);
                wakes.add(&interest.outbox);
            }
        }
        Ok(library.handles.len())
    }

    /// Everything that can be wrong, before anything is changed.
    fn check_library(&self, library: &LibraryDefinition) -> Result<Vec<Name>, DeployError> {
        let needed = library.variables.len();
        let room = self.registry().room();
        if needed > room {
            return Err(DeployError::TooMany { needed, room, max: VARIABLES_MAX });
        }
        let mut names = Vec::with_capacity(needed);
        let mut seen = HashSet::with_capacity(needed);
        for definition in &library.variables {
            let name = Name::join(&library.name, &definition.path).map_err(|error| {
                DeployError::InvalidName {
                    library: library.name.clone(),
                    path: definition.path.clone(),
                    error,
                }
            })?;
            if !seen.insert(name.as_str().to_owned()) {
                return Err(DeployError::DuplicateName { name: name.as_str().to_owned() });
            }
            check_properties(&name, &definition.properties)?;
            names.push(name);
        }
        Ok(names)
    }

    /// The initial value is update number 1, `uncertain: initial` (H-17).
    fn write_initial(&self, variable: &Variable, now: Tick, wall: Timestamp, wakes: &mut Wakes) {
        let Some(initial) = &variable.properties().initial else { return };
        let mut write = Write::value(initial);
        write.origin = Origin::Source;
        write.quality = Some(Quality::uncertain(Reason::Initial));
        let attempt = self.try_write(&Caller::engine(), now, wall, variable, &write, wakes);
        debug_assert!(matches!(attempt, Attempt::Done(WriteOutcome::Applied { .. })));
    }
}

fn check_properties(name: &Name, properties: &Properties) -> Result<(), DeployError> {
    let name = || name.as_str().to_owned();
    if let Some(scaling) = &properties.scaling {
        scaling
            .check(&properties.data_type)
            .map_err(|error| DeployError::Scaling { name: name(), error })?;
    }
    crate::realtime::check(properties)
        .map_err(|reason| DeployError::Fifo { name: name(), reason })?;
    if let Some(initial) = &properties.initial
        && !initial.has_type(&properties.data_type)
    {
        let expected = properties.data_type.to_string();
        return Err(DeployError::Initial { name: name(), expected });
    }
    Ok(())
}

/// The same properties once: looked for by address first, then among the latest few by value, so that
/// a library of 100,000 equal variables keeps one and a library of different ones stays fast.
fn intern(templates: &mut Vec<Arc<Properties>>, definition: &VariableDefinition) -> Arc<Properties> {
    const LOOK_BACK: usize = 16;
    let wanted = &definition.properties;
    let recent = templates.iter().rev().take(LOOK_BACK);
    if let Some(known) = recent.into_iter().find(|known| Arc::ptr_eq(known, wanted) || known == &wanted) {
        return Arc::clone(known);
    }
    templates.push(Arc::clone(wanted));
    Arc::clone(wanted)
}
