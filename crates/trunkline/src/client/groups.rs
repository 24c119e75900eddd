//! Many variables at one instant, and leases, for both kinds of client.

use std::time::Duration;

use trunkline_client::{GroupOutcome, Lease, LeaseTerms, Snapshot, VariableRef, Write};
use trunkline_proto::Fault;

use super::CallError;
use super::blocking::Client;
use super::tasks;

impl Client {
    /// Writes all of these together, or none: at most 4,096 variables, with one engine timestamp
    /// and one commit number, contiguous for whoever follows all of them. It waits where an `all`
    /// subscription holds writers up.
    ///
    /// Variables that have a provider are refused unless they are [set](Write::set).
    ///
    /// # Errors
    /// [`CallError`] when the group is not accepted, or is not sent in time; then it never will be.
    /// Why it was refused is in its outcomes, and that they are unknown where it was sent and not
    /// answered in time.
    pub fn write_group(
        &self,
        writes: impl IntoIterator<Item = Write>,
        timeout: Duration,
    ) -> Result<GroupOutcome, CallError> {
        let writes = writes.into_iter().collect();
        self.wait(self.shared.write_group(writes, false)?, timeout)
    }

    /// As [`Client::write_group`], but a group that would have to wait is not written: all its
    /// outcomes are would-block.
    ///
    /// # Errors
    /// As there.
    pub fn try_write_group(
        &self,
        writes: impl IntoIterator<Item = Write>,
        timeout: Duration,
    ) -> Result<GroupOutcome, CallError> {
        let writes = writes.into_iter().collect();
        self.wait(self.shared.write_group(writes, true)?, timeout)
    }

    /// What variables hold at one instant, at most 4,096 of them; of more each is consistent by
    /// itself, and the snapshot says so.
    ///
    /// # Errors
    /// [`CallError`] when there is no answer; what is wrong with one variable is in its reading.
    pub fn snapshot(
        &self,
        variables: &[VariableRef],
        timeout: Duration,
    ) -> Result<Snapshot, CallError> {
        self.wait(self.shared.snapshot(variables)?, timeout)
    }

    /// Takes, renews or gives back leases: while this connection holds the lease of a variable,
    /// other clients' writes are refused. A lease ends with its time and with the connection.
    ///
    /// # Errors
    /// [`CallError`] when there is no answer; who holds a variable is in its own result.
    pub fn lease(
        &self,
        variables: &[VariableRef],
        terms: LeaseTerms,
        timeout: Duration,
    ) -> Result<Vec<Result<Lease, Fault>>, CallError> {
        self.wait(self.shared.lease(variables, terms)?, timeout)
    }
}

impl tasks::Client {
    /// As [`Client::write_group`](crate::Client::write_group).
    ///
    /// # Errors
    /// As there.
    pub async fn write_group(
        &self,
        writes: impl IntoIterator<Item = Write>,
        timeout: Duration,
    ) -> Result<GroupOutcome, CallError> {
        let pending = self
            .shared
            .write_group(writes.into_iter().collect(), false)?;
        self.wait(pending, timeout).await
    }

    /// As [`Client::snapshot`](crate::Client::snapshot).
    ///
    /// # Errors
    /// As there.
    pub async fn snapshot(
        &self,
        variables: &[VariableRef],
        timeout: Duration,
    ) -> Result<Snapshot, CallError> {
        let pending = self.shared.snapshot(variables)?;
        self.wait(pending, timeout).await
    }

    /// As [`Client::lease`](crate::Client::lease).
    ///
    /// # Errors
    /// As there.
    pub async fn lease(
        &self,
        variables: &[VariableRef],
        terms: LeaseTerms,
        timeout: Duration,
    ) -> Result<Vec<Result<Lease, Fault>>, CallError> {
        let pending = self.shared.lease(variables, terms)?;
        self.wait(pending, timeout).await
    }
}
