//! Orders about libraries and the audit, for threads and for tasks.

use std::sync::Arc;
use std::time::Duration;

use trunkline_proto::message::library::{LibraryReport, LibraryVerb};
use trunkline_types::{AuditPage, AuditQuery, LibraryDefinition};

use super::CallError;
use super::{blocking, tasks};

impl blocking::Client {
    /// Deploys a library: all of it, or nothing. With `replace` it may be deployed already, and its
    /// variables that stay what they were keep their values and their subscribers.
    ///
    /// # Errors
    /// [`CallError::Fault`] when the engine refuses it, or was sent it and did not answer in time:
    /// it
    /// may be deployed all the same then. Any other [`CallError`]: it was not sent, and never will
    /// be.
    pub fn deploy(
        &self,
        library: impl Into<Arc<LibraryDefinition>>,
        replace: bool,
        timeout: Duration,
    ) -> Result<LibraryReport, CallError> {
        self.wait(self.shared.deploy(library.into(), replace)?, timeout)
    }

    /// Removes a library; who uses its variables is told that they are gone. Without `force` it is
    /// refused while somebody is subscribed to them.
    ///
    /// # Errors
    /// As [`deploy`](Self::deploy).
    pub fn undeploy(
        &self,
        name: &str,
        force: bool,
        timeout: Duration,
    ) -> Result<LibraryReport, CallError> {
        let verb = LibraryVerb::Undeploy { force };
        self.wait(self.shared.order_library(name, verb)?, timeout)
    }

    /// Starts a library that was stopped.
    ///
    /// # Errors
    /// As [`deploy`](Self::deploy).
    pub fn start_library(&self, name: &str, timeout: Duration) -> Result<LibraryReport, CallError> {
        let pending = self.shared.order_library(name, LibraryVerb::Start)?;
        self.wait(pending, timeout)
    }

    /// Stops a library: its variables keep their values, and nobody can write them until it is
    /// started again.
    ///
    /// # Errors
    /// As [`deploy`](Self::deploy).
    pub fn stop_library(&self, name: &str, timeout: Duration) -> Result<LibraryReport, CallError> {
        let pending = self.shared.order_library(name, LibraryVerb::Stop)?;
        self.wait(pending, timeout)
    }

    /// Asks who did what to the engine: writes of variables with `audit = true`, forces and orders,
    /// up to the query's limit, or 100,000 entries; `next` of the answer is where they go on.
    ///
    /// # Errors
    /// [`CallError::Fault`] when the engine refuses it, [`CallError`] when there is no answer.
    pub fn audit(&self, query: AuditQuery, timeout: Duration) -> Result<AuditPage, CallError> {
        self.wait(self.shared.audit(query)?, timeout)
    }
}

impl tasks::Client {
    /// As [`Client::deploy`](crate::Client::deploy).
    ///
    /// # Errors
    /// As there.
    pub async fn deploy(
        &self,
        library: impl Into<Arc<LibraryDefinition>>,
        replace: bool,
        timeout: Duration,
    ) -> Result<LibraryReport, CallError> {
        let pending = self.shared.deploy(library.into(), replace)?;
        self.wait(pending, timeout).await
    }

    /// As [`Client::undeploy`](crate::Client::undeploy).
    ///
    /// # Errors
    /// As there.
    pub async fn undeploy(
        &self,
        name: &str,
        force: bool,
        timeout: Duration,
    ) -> Result<LibraryReport, CallError> {
        let verb = LibraryVerb::Undeploy { force };
        let pending = self.shared.order_library(name, verb)?;
        self.wait(pending, timeout).await
    }

    /// As [`Client::start_library`](crate::Client::start_library).
    ///
    /// # Errors
    /// As there.
    pub async fn start_library(
        &self,
        name: &str,
        timeout: Duration,
    ) -> Result<LibraryReport, CallError> {
        let pending = self.shared.order_library(name, LibraryVerb::Start)?;
        self.wait(pending, timeout).await
    }

    /// As [`Client::stop_library`](crate::Client::stop_library).
    ///
    /// # Errors
    /// As there.
    pub async fn stop_library(
        &self,
        name: &str,
        timeout: Duration,
    ) -> Result<LibraryReport, CallError> {
        let pending = self.shared.order_library(name, LibraryVerb::Stop)?;
        self.wait(pending, timeout).await
    }

    /// As [`Client::audit`](crate::Client::audit).
    ///
    /// # Errors
    /// As there.
    pub async fn audit(
        &self,
        query: AuditQuery,
        timeout: Duration,
    ) -> Result<AuditPage, CallError> {
        let pending = self.shared.audit(query)?;
        self.wait(pending, timeout).await
    }
}
