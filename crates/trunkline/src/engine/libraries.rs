//! An engine's libraries, by program.

use trunkline_engine::store::StoreError;
use trunkline_engine::{AuditRoom, Deployed, LibraryState, Report};
use trunkline_types::name::is_reserved;
use trunkline_types::{AuditAction, AuditPage, AuditQuery, LibraryDefinition};

use super::{Engine, LibraryError};
use crate::administrator::report_of;

impl Engine {
    /// Deploys a library: all of it, or nothing. With a store it is deployed again at every start,
    /// until it is undeployed.
    ///
    /// # Errors
    /// [`LibraryError`] names what is wrong with it, or with the store; nothing is changed then.
    pub fn deploy(&self, library: &LibraryDefinition) -> Result<Deployed, LibraryError> {
        self.deploy_stored(library, false)
    }

    /// Deploys a library that may be deployed already. Variables that stay what they were keep
    /// their handles, values and subscribers; those of another type, scope or FIFO are new ones,
    /// and those that it no longer has are gone.
    ///
    /// # Errors
    /// As [`Engine::deploy`].
    pub fn replace(&self, library: &LibraryDefinition) -> Result<Deployed, LibraryError> {
        self.deploy_stored(library, true)
    }

    fn deploy_stored(
        &self,
        library: &LibraryDefinition,
        replace: bool,
    ) -> Result<Deployed, LibraryError> {
        let room = self.inner.keeper.audit().room()?;
        let result = self.inner.keeper.deploy(library, replace, true);
        let end = result
            .as_ref()
            .map(|deployed| report_of(deployed, None).to_string());
        self.note((AuditAction::Deploy, &library.name), end, &room);
        result
    }

    /// Removes a library, also from the store; who uses its variables is told that they are gone.
    ///
    /// # Errors
    /// There is no such library, or the store cannot be written.
    pub fn undeploy(&self, name: &str) -> Result<usize, LibraryError> {
        let room = self.inner.keeper.audit().room()?;
        let result = self.inner.keeper.undeploy(name, true);
        let end = result.as_ref().map(|removed| {
            let report = Report {
                removed: *removed,
                ..Report::default()
            };
            report.to_string()
        });
        self.note((AuditAction::Undeploy, name), end, &room);
        result
    }

    /// Starts a library that is stopped. False when it runs already.
    ///
    /// # Errors
    /// As [`Engine::undeploy`].
    pub fn start_library(&self, name: &str) -> Result<bool, LibraryError> {
        let room = self.inner.keeper.audit().room()?;
        let result = self.inner.keeper.set_state(name, LibraryState::Running);
        let end = result.as_ref().map(of_state);
        self.note((AuditAction::Start, name), end, &room);
        result
    }

    /// Stops a library, which stays deployed: its variables keep their values, say
    /// `bad: process-missing`, and cannot be written until it is started. False when it is stopped
    /// already.
    ///
    /// # Errors
    /// As [`Engine::undeploy`].
    pub fn stop_library(&self, name: &str) -> Result<bool, LibraryError> {
        let room = self.inner.keeper.audit().room()?;
        let result = self.inner.keeper.set_state(name, LibraryState::Stopped);
        let end = result.as_ref().map(of_state);
        self.note((AuditAction::Stop, name), end, &room);
        result
    }

    /// What a program of this process has ordered is noted like what clients order.
    fn note(
        &self,
        (action, name): (AuditAction, &str),
        end: Result<String, &LibraryError>,
        room: &AuditRoom,
    ) {
        let end = end.map_err(LibraryError::to_string);
        let audit = self.inner.keeper.audit();
        audit.note(&self.caller(), action, name, end, room);
    }

    /// A page of the audit: who did what to variables with `audit = true`, who forced what and who
    /// gave which order (B-24). It reads the store, so it takes as long as a disk does.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn audit(&self, query: &AuditQuery) -> Result<AuditPage, StoreError> {
        self.inner.keeper.audit().page(query)
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

    /// What the store holds that is damaged and therefore not used, in a sentence; `None`: nothing.
    pub fn store_damage(&self) -> Option<String> {
        self.inner.keeper.damage_sentence()
    }
}

fn of_state(has_changed: &bool) -> String {
    match has_changed {
        true => String::new(),
        false => "nothing changed".to_owned(),
    }
}
