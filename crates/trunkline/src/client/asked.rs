//! Requests whose answers a thread polls for while it does other work.

use std::sync::Arc;
use std::time::Duration;

use trunkline_client::{OpenOptions, Opened, VariableRef};

use super::verbs::{Pending, Results, Shared};
use super::{CallError, Client};

/// A request in progress. Dropping it abandons the request.
pub(crate) struct Asked<R> {
    shared: Arc<Shared>,
    pending: Pending<R>,
}

impl<R> Asked<R> {
    /// Returns the answer if it has arrived.
    pub(crate) fn answer(&self) -> Option<Result<R, CallError>> {
        let link = &self.shared.link;
        link.with(|core, _, _| self.shared.check(core, &self.pending))
    }

    /// Waits up to `timeout` for the answer.
    pub(crate) fn answer_within(&self, timeout: Duration) -> Option<Result<R, CallError>> {
        let deadline = self.shared.deadline(timeout);
        let link = &self.shared.link;
        link.wait_until(Some(deadline), |core, _| {
            self.shared.check(core, &self.pending)
        })
    }
}

impl<R> Drop for Asked<R> {
    fn drop(&mut self) {
        // Does nothing if the request was answered.
        self.shared.forget(&self.pending);
    }
}

impl Client {
    /// Begins what [`Client::open`] does.
    ///
    /// # Errors
    /// [`CallError::Request`].
    pub(crate) fn ask_to_open<N: AsRef<str>>(
        &self,
        names: &[N],
        options: OpenOptions,
    ) -> Result<Asked<Results<Opened>>, CallError> {
        Ok(Asked {
            pending: self.shared.open(names, options)?,
            shared: Arc::clone(&self.shared),
        })
    }

    /// Begins what [`Client::close_variables`] does.
    ///
    /// # Errors
    /// As [`Client::ask_to_open`].
    pub(crate) fn ask_to_close(
        &self,
        variables: &[VariableRef],
    ) -> Result<Asked<Results<()>>, CallError> {
        Ok(Asked {
            pending: self.shared.close_variables(variables)?,
            shared: Arc::clone(&self.shared),
        })
    }
}
