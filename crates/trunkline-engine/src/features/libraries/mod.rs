//! Libraries: variables are deployed, started, stopped and undeployed as wholes (DP-01, DP-03,
//! DP-07, DP-16).
//!
//! One lock serializes these operations; no write takes it. The list of libraries has another lock,
//! because sessions read the list. That lock is never held while a whole library is processed.

mod check;
mod deploy;
mod error;
mod lifetime;

pub use self::deploy::{Deployed, Retained, RetainedValues};
pub use self::error::{DeployError, UnknownLibrary};
use crate::engine::Engine;
use crate::outcome::orders::LibraryState;
use crate::sync::MutexGuard;
use trunkline_types::Quality;
use trunkline_types::name::is_reserved;

/// A deployed library.
#[derive(Clone, Debug, Default)]
pub struct Library {
    /// Name of the library: the first segment of its variables' names.
    pub name: String,
    /// Description for people.
    pub description: String,
    /// Running or stopped.
    pub state: LibraryState,
    /// Handles of its variables, in the order of its definition.
    pub handles: Vec<u32>,
    /// While stopped: the qualities that its variables had before, except good ones.
    before_stop: Vec<(u32, Quality)>,
}

impl Engine {
    /// The deployed libraries.
    pub fn libraries(&self) -> Vec<Library> {
        self.libraries_lock().clone()
    }

    /// Returns the deployed library with this name.
    pub fn library(&self, name: &str) -> Option<Library> {
        let libraries = self.libraries_lock();
        libraries
            .iter()
            .find(|library| library.name == name)
            .cloned()
    }

    /// Number of deployed variables, without those of the engine's own libraries.
    pub fn variable_count(&self) -> usize {
        let libraries = self.libraries_lock();
        let counted = libraries
            .iter()
            .filter(|library| !is_reserved(&library.name));
        counted.map(|library| library.handles.len()).sum()
    }
}

/// Index of a library in the list.
fn place(libraries: &MutexGuard<'_, Vec<Library>>, name: &str) -> Result<usize, UnknownLibrary> {
    let place = libraries.iter().position(|library| library.name == name);
    place.ok_or_else(|| UnknownLibrary {
        name: name.to_owned(),
    })
}
