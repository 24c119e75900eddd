//! Libraries: variables are deployed, started, stopped and undeployed as wholes (DP-01, DP-03,
//! DP-07, DP-16).
//!
//! One lock orders these operations; no write takes it. The list of libraries has another one,
//! which is never held as long as a library takes to go through: sessions look at the list.

mod check;
mod deploy;
mod error;
mod lifetime;

pub use self::deploy::{Deployed, Retained, RetainedValues};
pub use self::error::{DeployError, UnknownLibrary};
use crate::engine::Engine;
use crate::sync::MutexGuard;
use trunkline_types::Quality;
use trunkline_types::name::is_reserved;

/// A deployed library.
#[derive(Clone, Debug, Default)]
pub struct Library {
    /// Its name: the first segment of its variables' names.
    pub name: String,
    /// For people.
    pub description: String,
    /// Whether its variables can be written.
    pub state: LibraryState,
    /// Handles of its variables, in the order of its definition.
    pub handles: Vec<u32>,
    /// While it is stopped: what the qualities of its variables were that were not good.
    before_stop: Vec<(u32, Quality)>,
}

/// Whether a library's variables are served.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum LibraryState {
    /// They are.
    #[default]
    Running,
    /// They keep their values, say `bad: process-missing`, and nobody can write them.
    Stopped,
}

impl LibraryState {
    /// `running` or `stopped`.
    pub fn name(self) -> &'static str {
        match self {
            LibraryState::Running => "running",
            LibraryState::Stopped => "stopped",
        }
    }
}

impl Engine {
    /// The deployed libraries.
    pub fn libraries(&self) -> Vec<Library> {
        self.libraries_lock().clone()
    }

    /// One of them.
    pub fn library(&self, name: &str) -> Option<Library> {
        let libraries = self.libraries_lock();
        libraries
            .iter()
            .find(|library| library.name == name)
            .cloned()
    }

    /// Number of variables deployed now, those of the engine's own libraries not counted.
    pub fn variable_count(&self) -> usize {
        let libraries = self.libraries_lock();
        let counted = libraries
            .iter()
            .filter(|library| !is_reserved(&library.name));
        counted.map(|library| library.handles.len()).sum()
    }
}

/// Where a library stands in the list.
fn place(libraries: &MutexGuard<'_, Vec<Library>>, name: &str) -> Result<usize, UnknownLibrary> {
    let place = libraries.iter().position(|library| library.name == name);
    place.ok_or_else(|| UnknownLibrary {
        name: name.to_owned(),
    })
}
