//! Orders about libraries, and the audit, for threads and for tasks.

use std::sync::Arc;
use std::time::Duration;

use trunkline_proto::message::library::{LibraryReport, LibraryVerb};
use trunkline_types::{AuditPage, AuditQuery, LibraryDefinition};

use super::CallError;
use super::{blocking, tasks};

impl blocking::Client {
    /// Deploys a library, as a whole or not at all. With `replace` it may already be deployed;
    /// variables that do not change keep their values and subscribers.
    ///
    /// # Errors
    /// [`CallError::Fault`] if the engine refuses it, or received it and did not answer in time; in
    /// the second case it may still be deployed. Any other [`CallError`]: it was not sent, and
    /// never will be.
    pub fn deploy(
        &self,
        library: impl Into<Arc<LibraryDefinition>>,
        replace: bool,
        timeout: Duration,
    ) -> Result<LibraryReport, CallError> {
        self.wait(self.shared.deploy(library.into(), replace)?, timeout)
    }

    /// Removes a library; users of its variables are notified. Without `force` it is refused while
    /// its variables have subscribers.
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

    /// Starts a stopped library.
    ///
    /// # Errors
    /// As [`deploy`](Self::deploy).
    pub fn start_library(&self, name: &str, timeout: Duration) -> Result<LibraryReport, CallError> {
        let pending = self.shared.order_library(name, LibraryVerb::Start)?;
        self.wait(pending, timeout)
    }

    /// Stops a library. Its variables keep their values and cannot be written until it is started
    /// again.
    ///
    /// # Errors
    /// As [`deploy`](Self::deploy).
    pub fn stop_library(&self, name: &str, timeout: Duration) -> Result<LibraryReport, CallError> {
        let pending = self.shared.order_library(name, LibraryVerb::Stop)?;
        self.wait(pending, timeout)
    }

    /// Queries the audit: writes of variables with `audit = true`, forces and orders. Returns at
    /// most the query's limit, or 100,000 entries; `next` in the answer is where to continue.
    ///
    /// # Errors
    /// [`CallError::Fault`] if the engine refuses it, [`CallError`] if there is no answer.
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
