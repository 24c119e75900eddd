//! Operations on the libraries of an in-process engine.

use trunkline_engine::history::{HistoryError, SpoolState};
use trunkline_engine::store::StoreError;
use trunkline_engine::{AuditRoom, Deployed, LibraryState, Report};
use trunkline_types::alarm::{AlarmJournalPage, AlarmJournalQuery};
use trunkline_types::name::is_reserved;
use trunkline_types::{AuditAction, AuditPage, AuditQuery, LibraryDefinition};

use super::{Engine, LibraryError};
use crate::administrator::report_of;

impl Engine {
    /// Deploys a library: all of its variables or, if there is an error, none. If the engine has a
    /// store, the library is deployed again at each start until it is undeployed.
    ///
    /// # Errors
    /// [`LibraryError`] if the library is invalid or the store fails. Nothing changes in either
    /// case.
    pub fn deploy(&self, library: &LibraryDefinition) -> Result<Deployed, LibraryError> {
        self.deploy_audited(library, false)
    }

    /// Deploys a library that may already be deployed. Unchanged variables keep their handles,
    /// values and subscribers. Variables whose type, scope or FIFO differs are created again.
    /// Variables that the library no longer contains are removed.
    ///
    /// # Errors
    /// The same as [`Engine::deploy`].
    pub fn replace(&self, library: &LibraryDefinition) -> Result<Deployed, LibraryError> {
        self.deploy_audited(library, true)
    }

    fn deploy_audited(
        &self,
        library: &LibraryDefinition,
        replace: bool,
    ) -> Result<Deployed, LibraryError> {
        let room = self.inner.deployments.audit().room()?;
        let result = self.inner.deployments.deploy(library, replace, true);
        let outcome = result
            .as_ref()
            .map(|deployed| report_of(deployed, None).to_string());
        self.record_audit((AuditAction::Deploy, &library.name), outcome, &room);
        result
    }

    /// Removes a library from the engine and from the store, and notifies the users of its
    /// variables. Returns the number of removed variables.
    ///
    /// # Errors
    /// [`LibraryError`]: there is no such library, or the store cannot be written.
    pub fn undeploy(&self, name: &str) -> Result<usize, LibraryError> {
        let room = self.inner.deployments.audit().room()?;
        let result = self.inner.deployments.undeploy(name, true);
        let outcome = result.as_ref().map(|removed| {
            let report = Report {
                removed: *removed,
                ..Report::default()
            };
            report.to_string()
        });
        self.record_audit((AuditAction::Undeploy, name), outcome, &room);
        result
    }

    /// Starts a stopped library. Returns false if it is already running.
    ///
    /// # Errors
    /// The same as [`Engine::undeploy`].
    pub fn start_library(&self, name: &str) -> Result<bool, LibraryError> {
        let room = self.inner.deployments.audit().room()?;
        let result = self
            .inner
            .deployments
            .set_state(name, LibraryState::Running);
        let outcome = result.as_ref().map(state_change_text);
        self.record_audit((AuditAction::Start, name), outcome, &room);
        result
    }

    /// Stops a library, which stays deployed. Its variables keep their values, have the quality
    /// `bad: process-missing`, and cannot be written until the library is started. Returns false if
    /// the library is already stopped.
    ///
    /// # Errors
    /// The same as [`Engine::undeploy`].
    pub fn stop_library(&self, name: &str) -> Result<bool, LibraryError> {
        let room = self.inner.deployments.audit().room()?;
        let result = self
            .inner
            .deployments
            .set_state(name, LibraryState::Stopped);
        let outcome = result.as_ref().map(state_change_text);
        self.record_audit((AuditAction::Stop, name), outcome, &room);
        result
    }

    /// Records an order of this process in the audit trail, in the same way as an order of a
    /// client.
    fn record_audit(
        &self,
        (action, name): (AuditAction, &str),
        outcome: Result<String, &LibraryError>,
        room: &AuditRoom,
    ) {
        let outcome = outcome.map_err(LibraryError::to_string);
        let audit = self.inner.deployments.audit();
        audit.note(&self.caller(), action, name, outcome, room);
    }

    /// Returns a page of the audit trail: writes of variables with `audit = true`, forces and
    /// orders (deploy, start, ...), each with its principal (B-24). The call reads the store, so a
    /// slow disk delays it.
    ///
    /// # Errors
    /// [`StoreError`]: the store cannot be read.
    pub fn audit(&self, query: &AuditQuery) -> Result<AuditPage, StoreError> {
        self.inner.deployments.audit().page(query)
    }

    /// Returns a page of the alarm journal, which has an entry for every change of an alarm (H-11).
    /// The call reads the store, so a slow disk delays it.
    ///
    /// # Errors
    /// [`StoreError`]: the store cannot be read.
    pub fn alarm_journal(&self, query: &AlarmJournalQuery) -> Result<AlarmJournalPage, StoreError> {
        self.inner.deployments.alarms().page(query)
    }

    /// Returns the number of deployed variables.
    pub fn variable_count(&self) -> usize {
        self.inner.core.libraries().variable_count()
    }

    /// Returns the names of the deployed libraries, each with its number of variables.
    pub fn libraries(&self) -> Vec<(String, usize)> {
        let libraries = self.inner.core.libraries().all().into_iter();
        libraries
            .filter(|library| !is_reserved(&library.name))
            .map(|library| (library.name, library.handles.len()))
            .collect()
    }

    /// Returns the names of stored libraries that the engine ignores, because the configuration
    /// files define libraries with the same names.
    pub fn shadowed_libraries(&self) -> &[String] {
        &self.inner.shadowed
    }

    /// Returns the current failure of the store, if any. Until the store works again, changed
    /// values wait in memory.
    pub fn store_error(&self) -> Option<StoreError> {
        self.inner.deployments.store_error()
    }

    /// Returns the current failure of the history, if any. While the history is failing, updates
    /// wait in memory as long as there is space. If the history has not been opened yet, nothing is
    /// recorded.
    pub fn history_error(&self) -> Option<HistoryError> {
        self.inner.deployments.history()?.error()
    }

    /// Returns the state of the history's spool; `None` if there is no spool. While `cause` is set,
    /// updates are recorded in the spool.
    pub fn history_spool(&self) -> Option<SpoolState> {
        self.inner.deployments.history()?.spool()
    }

    /// Describes the damaged contents of the store in one sentence; `None` if there are none. The
    /// engine does not use damaged contents.
    pub fn store_damage(&self) -> Option<String> {
        self.inner.deployments.damage_sentence()
    }
}

fn state_change_text(has_changed: &bool) -> String {
    if *has_changed { "" } else { "nothing changed" }.to_owned()
}
