//! Access for the program that hosts an engine: its variables without a connection, and a client.

use std::sync::Arc;

use trunkline_client::{FromValue, IntoValue};

use super::Engine;
use crate::client::{Client, ConnectError};
use crate::local::{
    self, Group, GroupRefused, OpenError, SampleSet, Variable, WriteError, Written, WrittenGroup,
};

impl Engine {
    /// Returns a client of this engine over a memory pipe, with the same verbs and delivery as over
    /// the network. It also sees single-process variables.
    ///
    /// # Errors
    /// [`ConnectError::Start`]: the system has no descriptor or thread left.
    pub fn client(&self) -> Result<Client, ConnectError> {
        let server = Arc::clone(&self.inner.server);
        Client::through_pipe(move || server.accept_pipe())
    }

    /// Opens a variable of this engine as the type `T`, whatever its scope.
    ///
    /// # Errors
    /// [`OpenError`]: no such variable, or another type.
    pub fn variable<T: FromValue>(&self, name: &str) -> Result<Variable<T>, OpenError> {
        Variable::open(&self.inner.core, self.caller(), self.inner.clock, name)
    }

    /// Writes many variables of this engine, as [`Variable::write`] does for each in turn, but
    /// reads the clocks only once, and sends to subscribers after the last write and after every
    /// 1,024 writes. Returns one result per write, in order.
    ///
    /// The writes are not one transaction: a reader may see some before the others. If a write has
    /// to wait (for its provider's answer, or for an `all` subscription that stalls writers), the
    /// writes after it wait too.
    pub fn write_many<'a, T: IntoValue + 'a>(
        &self,
        writes: impl IntoIterator<Item = (&'a Variable<T>, T)>,
    ) -> Vec<Result<Written, WriteError>> {
        local::write_many(self.inner.clock, writes)
    }

    /// Writes a group of variables of this engine: all or none, with one timestamp and one commit
    /// number, contiguous in every `all` subscription. The call waits while such a subscription
    /// stalls its writers. The group acts for the caller of its first variable, which matters for
    /// variables that are leased or have a single writer.
    ///
    /// # Errors
    /// [`GroupRefused`] with the refused write and the rule; nothing was written.
    pub fn write_group(&self, group: &Group) -> Result<WrittenGroup, GroupRefused> {
        group.write(&self.inner.core, self.inner.clock, || self.caller())
    }

    /// Reads variables of this engine, at most 4,096, at one instant.
    pub fn snapshot<N: AsRef<str>>(&self, names: &[N]) -> SampleSet {
        SampleSet::read(&self.inner.core, &self.caller(), names)
    }
}
