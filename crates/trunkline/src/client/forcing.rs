//! The list of forced variables, for threads and for tasks.
//!
//! Single variables are forced with [`Write::force`](crate::Write::force) and
//! [`Write::unforce`](crate::Write::unforce). Many at once: switch forcing off, force each, switch
//! it on.

use std::time::Duration;

use trunkline_client::ForcedList;
use trunkline_proto::message::forcing::ForcingVerb;

use super::CallError;
use super::{blocking, tasks};

impl blocking::Client {
    /// The variables that are held at values, who did it and when, and what their sources say.
    ///
    /// # Errors
    /// [`CallError::Fault`] when the engine refuses, [`CallError`] when there is no answer.
    pub fn forced(&self, timeout: Duration) -> Result<ForcedList, CallError> {
        self.wait(self.shared.forcing(ForcingVerb::List)?, timeout)
    }

    /// Switches forcing for the whole engine: off, every variable shows what its source says, and
    /// the list stays. Its `total` says how many variables that concerned.
    ///
    /// # Errors
    /// As [`Client::forced`]; without an answer it may have been done all the same.
    pub fn set_forcing(&self, on: bool, timeout: Duration) -> Result<ForcedList, CallError> {
        self.wait(self.shared.forcing(switch(on))?, timeout)
    }

    /// Unforces every variable of the engine.
    ///
    /// # Errors
    /// As [`Client::set_forcing`].
    pub fn clear_forcing(&self, timeout: Duration) -> Result<ForcedList, CallError> {
        self.wait(self.shared.forcing(ForcingVerb::Clear)?, timeout)
    }
}

impl tasks::Client {
    /// As [`Client::forced`](crate::Client::forced).
    ///
    /// # Errors
    /// As there.
    pub async fn forced(&self, timeout: Duration) -> Result<ForcedList, CallError> {
        let pending = self.shared.forcing(ForcingVerb::List)?;
        self.wait(pending, timeout).await
    }

    /// As [`Client::set_forcing`](crate::Client::set_forcing).
    ///
    /// # Errors
    /// As there.
    pub async fn set_forcing(&self, on: bool, timeout: Duration) -> Result<ForcedList, CallError> {
        let pending = self.shared.forcing(switch(on))?;
        self.wait(pending, timeout).await
    }

    /// As [`Client::clear_forcing`](crate::Client::clear_forcing).
    ///
    /// # Errors
    /// As there.
    pub async fn clear_forcing(&self, timeout: Duration) -> Result<ForcedList, CallError> {
        let pending = self.shared.forcing(ForcingVerb::Clear)?;
        self.wait(pending, timeout).await
    }
}

fn switch(on: bool) -> ForcingVerb {
    match on {
        true => ForcingVerb::On,
        false => ForcingVerb::Off,
    }
}
