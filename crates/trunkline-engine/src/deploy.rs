//! Libraries come and go as wholes.

use std::collections::HashSet;

use trunkline_types::data_type::TypeError;
use trunkline_types::scaling::ScalingError;
use trunkline_types::{
    LibraryDefinition, Name, Properties, Quality, Reason, Tick, Timestamp, Value,
    VariableDefinition,
};

use crate::accept::{Accepted, accept};
use crate::caller::Caller;
use crate::engine::{Engine, Library};
use crate::outbox::Wakes;
use crate::outcome::{Attempt, WriteOutcome};
use crate::registry::VARIABLES_MAX;
use crate::sync::Arc;
use crate::variable::Variable;
use crate::write::{Origin, Write};

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
    /// A variable named like a field of another.
    #[error("{name} names a field; a variable's name has no `#`, write `%23` for the character")]
    Field {
        /// The full name.
        name: String,
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
    /// No variable can have this type.
    #[error("{name}: {error}")]
    Type {
        /// The full name.
        name: String,
        /// What is wrong.
        error: TypeError,
    },
    /// The range is none.
    #[error("{name}: the range {low} to {high} is none; give the lower number first, both finite")]
    Range {
        /// The full name.
        name: String,
        /// The lower end as given.
        low: f64,
        /// The upper end as given.
        high: f64,
    },
    /// A deadband that is no percentage.
    #[error("{name}: a deadband of {percent} % makes no sense; give 0 to 100")]
    Deadband {
        /// The full name.
        name: String,
        /// What was given.
        percent: f64,
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
    /// The initial value is not one of the type, or the FIFO cannot hold it.
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
            return Err(DeployError::AlreadyDeployed {
                name: library.name.clone(),
            });
        }
        let names = self.check_library(library)?;
        let mut templates: Vec<Arc<Properties>> = Vec::new();
        let mut handles = Vec::with_capacity(names.len());
        for (name, definition) in names.into_iter().zip(&library.variables) {
            let properties = intern(&mut templates, definition);
            // Nobody finds the variable before it has its initial value, so nobody can have written
            // it.
            let made = self.registry().insert(|slot| {
                let variable = Variable::new(slot, name.as_str().into(), properties);
                self.write_initial(&variable, now, wall);
                variable
            });
            // There is room: it was counted under the lock that is still held.
            handles.extend(made.map(|variable| variable.handle()));
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
            .ok_or_else(|| UndeployError {
                name: name.to_owned(),
            })?;
        let library = libraries.remove(place);
        for variable in library
            .handles
            .iter()
            .filter_map(|handle| self.variable(*handle))
        {
            self.registry().remove(variable.name());
            let state = variable.lock();
            variable.set_gone(&state);
            if let Some(interests) = state.interests() {
                interests.announce_gone(wakes);
            }
        }
        Ok(library.handles.len())
    }

    /// Everything that can be wrong, before anything is changed.
    fn check_library(&self, library: &LibraryDefinition) -> Result<Vec<Name>, DeployError> {
        let needed = library.variables.len();
        let room = self.registry().room();
        if needed > room {
            return Err(DeployError::TooMany {
                needed,
                room,
                max: VARIABLES_MAX,
            });
        }
        // A library without variables has a name all the same.
        full_name(library, "x")?;
        let mut names = Vec::with_capacity(needed);
        for definition in &library.variables {
            let name = full_name(library, &definition.path)?;
            check_properties(&name, &definition.properties)?;
            names.push(name);
        }
        let mut seen = HashSet::with_capacity(needed);
        for name in names.iter().map(Name::as_str) {
            if !seen.insert(name) || self.registry().find(name).is_some() {
                return Err(DeployError::DuplicateName {
                    name: name.to_owned(),
                });
            }
        }
        Ok(names)
    }

    /// The initial value is update number 1, `uncertain: initial` (H-17).
    fn write_initial(&self, variable: &Variable, now: Tick, wall: Timestamp) {
        let Some(initial) = &variable.properties().initial else {
            return;
        };
        let write = initial_write(initial);
        let (caller, mut wakes) = (Caller::engine(), Wakes::new());
        let attempt = self.try_write(&caller, now, wall, variable, &write, &mut wakes);
        debug_assert!(matches!(
            attempt,
            Attempt::Done(WriteOutcome::Applied { sequence: 1 })
        ));
    }
}

fn initial_write(initial: &Value) -> Write<'_> {
    let mut write = Write::value(initial);
    write.origin = Origin::Source;
    write.quality = Some(Quality::uncertain(Reason::Initial));
    write
}

fn full_name(library: &LibraryDefinition, path: &str) -> Result<Name, DeployError> {
    let name = Name::join(&library.name, path).map_err(|error| DeployError::InvalidName {
        library: library.name.clone(),
        path: path.to_owned(),
        error,
    })?;
    match name.field() {
        None => Ok(name),
        Some(_) => Err(DeployError::Field {
            name: name.as_str().to_owned(),
        }),
    }
}

fn check_properties(name: &Name, properties: &Properties) -> Result<(), DeployError> {
    let name = || name.as_str().to_owned();
    let data_type = &properties.data_type;
    data_type.check().map_err(|error| DeployError::Type {
        name: name(),
        error,
    })?;
    if let Some((low, high)) = properties.range
        && !(low < high && low.is_finite() && high.is_finite())
    {
        return Err(DeployError::Range {
            name: name(),
            low,
            high,
        });
    }
    let deadband = properties.deadband;
    for percent in [deadband.user_percent, deadband.source_percent] {
        if !(0.0..=100.0).contains(&percent) {
            return Err(DeployError::Deadband {
                name: name(),
                percent,
            });
        }
    }
    if let Some(scaling) = &properties.scaling {
        scaling
            .check(data_type)
            .map_err(|error| DeployError::Scaling {
                name: name(),
                error,
            })?;
    }
    crate::realtime::check(properties).map_err(|reason| DeployError::Fifo {
        name: name(),
        reason,
    })?;
    if let Some(initial) = &properties.initial {
        let mut accepted = Accepted::nothing();
        let write = initial_write(initial);
        let checked = accept(properties, &write, Timestamp::UNIX_EPOCH, &mut accepted);
        let fits = checked
            .and_then(|()| crate::realtime::check_length(properties, &accepted.update.value));
        if fits.is_err() {
            return Err(DeployError::Initial {
                name: name(),
                expected: data_type.to_string(),
            });
        }
    }
    Ok(())
}

/// The same properties once: looked for among the latest few only, so that a library of 100,000
/// equal variables keeps one and a library of different ones stays fast.
fn intern(
    templates: &mut Vec<Arc<Properties>>,
    definition: &VariableDefinition,
) -> Arc<Properties> {
    const LOOK_BACK: usize = 16;
    let wanted = &definition.properties;
    let mut recent = templates.iter().rev().take(LOOK_BACK);
    if let Some(known) = recent.find(|known| Arc::ptr_eq(known, wanted) || known == &wanted) {
        return Arc::clone(known);
    }
    templates.push(Arc::clone(wanted));
    Arc::clone(wanted)
}
