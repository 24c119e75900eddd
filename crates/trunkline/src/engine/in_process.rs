//! Access for the program that hosts an engine: its variables without a connection, and a client of
//! it.

use std::sync::Arc;

use trunkline_client::{FromValue, IntoValue};

use super::Engine;
use crate::client::{Client, ConnectError};
use crate::local::{
    self, Group, GroupRefused, OpenError, SampleSet, Variable, WriteError, Written, WrittenGroup,
};

impl Engine {
    /// Returns a client of this engine over a memory pipe. It has the same verbs and delivery
    /// guarantees as a client over the network, and also sees single-process variables.
    ///
    /// # Errors
    /// [`ConnectError::Start`]: the system cannot provide another descriptor or thread.
    pub fn client(&self) -> Result<Client, ConnectError> {
        let server = Arc::clone(&self.inner.server);
        Client::through_pipe(move || server.accept_pipe())
    }

    /// Opens a variable of this engine, of any scope, as the type `T`.
    ///
    /// # Errors
    /// [`OpenError`]: the variable does not exist, or has another type.
    pub fn variable<T: FromValue>(&self, name: &str) -> Result<Variable<T>, OpenError> {
        Variable::open(&self.inner.core, self.caller(), self.inner.clock, name)
    }

    /// Writes many variables of this engine, each as [`Variable::write`] does. It reads the clocks
    /// only once, and sends to subscribers only after every 1,024 writes and after the last write.
    /// Returns one result per write, in order.
    ///
    /// The writes are not one transaction: a reader may see some of them before the others. If a
    /// write must wait for its provider's answer or for an `all` subscription that stalls writers,
    /// all writes after it wait too.
    pub fn write_many<'a, T: IntoValue + 'a>(
        &self,
        writes: impl IntoIterator<Item = (&'a Variable<T>, T)>,
    ) -> Vec<Result<Written, WriteError>> {
        local::write_many(self.inner.clock, writes)
    }

    /// Writes a group of variables of this engine: all or none, with one timestamp and one commit
    /// number, and contiguous in every `all` subscription. The call waits while such a subscription
    /// stalls its writers. The caller of the group is that of its first variable, which matters for
    /// leased variables and for variables with a single writer.
    ///
    /// # Errors
    /// [`GroupRefused`] with the refused write and the rule that refused it. Nothing was written.
    pub fn write_group(&self, group: &Group) -> Result<WrittenGroup, GroupRefused> {
        group.write(&self.inner.core, self.inner.clock, || self.caller())
    }

    /// Reads at most 4,096 variables of this engine at one instant.
    pub fn snapshot<N: AsRef<str>>(&self, names: &[N]) -> SampleSet {
        SampleSet::read(&self.inner.core, &self.caller(), names)
    }
}
