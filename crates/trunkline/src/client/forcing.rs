//! The list of forced variables, for threads and for tasks.
//!
//! Single variables are forced with [`Write::force`](crate::Write::force) and
//! [`Write::unforce`](crate::Write::unforce). To force many at once, switch forcing off, force
//! each, and switch it on again.

use std::time::Duration;

use trunkline_client::ForcedList;
use trunkline_proto::message::forcing::ForcingVerb;

use super::CallError;
use super::{blocking, tasks};

impl blocking::Client {
    /// Returns the forced variables, with who forced them and when, and the values of their
    /// sources.
    ///
    /// # Errors
    /// [`CallError::Fault`] if the engine refuses, [`CallError`] if there is no answer.
    pub fn forced(&self, timeout: Duration) -> Result<ForcedList, CallError> {
        self.wait(self.shared.forcing(ForcingVerb::List)?, timeout)
    }

    /// Switches forcing for the whole engine. While it is off, every variable shows the value of
    /// its source, and the list is kept. The `total` of the answer is the number of variables
    /// affected.
    ///
    /// # Errors
    /// As [`forced`](Self::forced); without an answer, the switch may still have happened.
    pub fn set_forcing(&self, on: bool, timeout: Duration) -> Result<ForcedList, CallError> {
        self.wait(self.shared.forcing(switch(on))?, timeout)
    }

    /// Unforces every variable of the engine.
    ///
    /// # Errors
    /// As [`set_forcing`](Self::set_forcing).
    pub fn clear_forcing(&self, timeout: Duration) -> Result<ForcedList, CallError> {
        self.wait(self.shared.forcing(ForcingVerb::Clear)?, timeout)
    }
}

impl tasks::Client {
    /// As [`forced`](Self::forced)(crate::Client::forced).
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
