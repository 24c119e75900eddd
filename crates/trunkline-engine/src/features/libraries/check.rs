//! Checks a library completely before a deployment changes anything.

use std::collections::HashSet;

use trunkline_types::definition::{
    DESCRIPTION_BYTES_MAX, SOURCE_BYTES_MAX, UNITS_BYTES_MAX, check_text,
};
use trunkline_types::name::NUMBERS_LIBRARY;
use trunkline_types::{
    LibraryDefinition, Name, Properties, Quality, Reason, Timestamp, Value, fifo,
};

use super::DeployError;
use crate::outcome::Refusal;
use crate::write::accept::{Accepted, accept};
use crate::write::{Origin, Write};

/// Checks the library and returns the full names of its variables, in their order.
pub(super) fn names(library: &LibraryDefinition) -> Result<Vec<Name>, DeployError> {
    // Checks the library's name even if it has no variables.
    full_name(library, "x")?;
    if library.name == NUMBERS_LIBRARY {
        return Err(DeployError::NumbersLibrary {
            name: library.name.clone(),
        });
    }
    text(
        || library.name.clone(),
        "description",
        &library.description,
        DESCRIPTION_BYTES_MAX,
    )?;
    let mut names = Vec::with_capacity(library.variables.len());
    for definition in &library.variables {
        let name = full_name(library, &definition.path)?;
        properties(&name, &definition.properties)?;
        names.push(name);
    }
    let mut seen = HashSet::with_capacity(names.len());
    match names.iter().find(|name| !seen.insert(name.as_str())) {
        Some(duplicate) => Err(DeployError::DuplicateName {
            name: duplicate.as_str().to_owned(),
        }),
        None => Ok(names),
    }
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

fn properties(name: &Name, properties: &Properties) -> Result<(), DeployError> {
    let name = || name.as_str().to_owned();
    let data_type = &properties.data_type;
    data_type.check().map_err(|error| DeployError::Type {
        name: name(),
        error,
    })?;
    for (key, value, max) in [
        (
            "description",
            &properties.description,
            DESCRIPTION_BYTES_MAX,
        ),
        ("units", &properties.units, UNITS_BYTES_MAX),
        ("source", &properties.source, SOURCE_BYTES_MAX),
        ("alias", &properties.alias, SOURCE_BYTES_MAX),
        ("origin", &properties.origin, ORIGIN_BYTES_MAX),
    ] {
        text(name, key, value, max)?;
    }
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
    fifo::check(properties).map_err(|error| DeployError::Fifo {
        name: name(),
        error,
    })?;
    if let Some(initial) = &properties.initial {
        let mut accepted = Accepted::nothing();
        let write = initial_write(initial);
        let checked = accept(properties, &write, Timestamp::UNIX_EPOCH, &mut accepted);
        let fits =
            checked.and_then(|()| crate::fifo::check_length(properties, &accepted.update.value));
        fits.map_err(|refusal| {
            let name = name();
            if let Refusal::NoMemory(error) = refusal {
                return DeployError::InitialMemory { name, error };
            }
            let expected = data_type.to_string();
            DeployError::Initial { name, expected }
        })?;
    }
    Ok(())
}

/// Checks a text by the same rules as for configuration files.
fn text(
    name: impl Fn() -> String,
    key: &'static str,
    text: &str,
    max: usize,
) -> Result<(), DeployError> {
    check_text(text, max).map_err(|fault| DeployError::Text {
        name: name(),
        key,
        fault,
    })
}

/// Maximum length of an origin `file:line`: the longest path and a number.
const ORIGIN_BYTES_MAX: usize = 4_096 + 32;

/// Returns the write that makes a configured initial value the variable's first update (H-17).
pub(super) fn initial_write(initial: &Value) -> Write<'_> {
    let mut write = Write::value(initial);
    write.origin = Origin::Source;
    write.quality = Some(Quality::uncertain(Reason::Initial));
    write
}
