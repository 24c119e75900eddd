//! An engine's libraries, by program.

use trunkline_engine::health::is_reserved;
use trunkline_engine::store::StoreError;
use trunkline_engine::{Deployed, LibraryState};
use trunkline_types::LibraryDefinition;

use super::{Engine, LibraryError};

impl Engine {
    /// Deploys a library: all of it, or nothing. With a store it is deployed again at every start,
    /// until it is undeployed.
    ///
    /// # Errors
    /// [`LibraryError`] names what is wrong with it, or with the store; nothing is changed then.
    pub fn deploy(&self, library: &LibraryDefinition) -> Result<Deployed, LibraryError> {
        self.inner.keeper.deploy(library, false, true)
    }

    /// Deploys a library that may be deployed already. Variables that stay what they were keep
    /// their handles, values and subscribers; those of another type, scope or FIFO are new ones,
    /// and those that it no longer has are gone.
    ///
    /// # Errors
    /// As [`Engine::deploy`].
    pub fn replace(&self, library: &LibraryDefinition) -> Result<Deployed, LibraryError> {
        self.inner.keeper.deploy(library, true, true)
    }

    /// Removes a library, also from the store; who uses its variables is told that they are gone.
    ///
    /// # Errors
    /// There is no such library, or the store cannot be written.
    pub fn undeploy(&self, name: &str) -> Result<usize, LibraryError> {
        self.inner.keeper.undeploy(name, true)
    }

    /// Starts a library that is stopped. False when it runs already.
    ///
    /// # Errors
    /// As [`Engine::undeploy`].
    pub fn start_library(&self, name: &str) -> Result<bool, LibraryError> {
        let running = LibraryState::Running;
        self.inner.keeper.set_state(name, running)
    }

    /// Stops a library, which stays deployed: its variables keep their values, say
    /// `bad: process-missing`, and cannot be written until it is started. False when it is stopped
    /// already.
    ///
    /// # Errors
    /// As [`Engine::undeploy`].
    pub fn stop_library(&self, name: &str) -> Result<bool, LibraryError> {
        let stopped = LibraryState::Stopped;
        self.inner.keeper.set_state(name, stopped)
    }

    /// Number of variables deployed.
    pub fn variable_count(&self) -> usize {
        self.inner.core.variable_count()
    }

    /// Names of the deployed libraries, and how many variables each has.
    pub fn libraries(&self) -> Vec<(String, usize)> {
        let libraries = self.inner.core.libraries().into_iter();
        libraries
            .filter(|library| !is_reserved(&library.name))
            .map(|library| (library.name, library.handles.len()))
            .collect()
    }

    /// Libraries of the store that are not used, because the configuration files have others of
    /// their names.
    pub fn shadowed_libraries(&self) -> &[String] {
        &self.inner.shadowed
    }

    /// What is wrong with the store, if something is: values are then kept in memory, and stored as
    /// soon as that can be done.
    pub fn store_trouble(&self) -> Option<StoreError> {
        self.inner.keeper.store_trouble()
    }
}
