//! Groups, snapshots and leases, for both kinds of client.

use std::time::Duration;

use trunkline_client::{GroupOutcome, Lease, LeaseTerms, Snapshot, VariableRef, Write};
use trunkline_proto::Fault;

use super::CallError;
use super::blocking::Client;
use super::tasks;

impl Client {
    /// Writes all of these together, or none: at most 4,096 variables, with one engine timestamp
    /// and one commit number, contiguous for a subscription to all of them. The call waits while an
    /// `all` subscription stalls its writers.
    ///
    /// Variables that have a provider are refused unless they are [set](Write::set).
    ///
    /// # Errors
    /// [`CallError`] if the group is not accepted, or is not sent in time; in that case it never
    /// will be. The reason for a refusal is in the outcomes. If the group was sent but not answered
    /// in time, its outcomes are unknown.
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

    /// Reads at most 4,096 variables at one instant. With more variables each reading is consistent
    /// only by itself, and the snapshot reports that.
    ///
    /// # Errors
    /// [`CallError`] if there is no answer. An error about one variable is in its reading.
    pub fn snapshot(
        &self,
        variables: &[VariableRef],
        timeout: Duration,
    ) -> Result<Snapshot, CallError> {
        self.wait(self.shared.snapshot(variables)?, timeout)
    }

    /// Takes, renews or releases leases. While this connection holds the lease of a variable,
    /// writes of other clients are refused. A lease ends when its time expires or the connection
    /// ends.
    ///
    /// # Errors
    /// [`CallError`] if there is no answer. If another client holds a variable, its result names
    /// that client.
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
