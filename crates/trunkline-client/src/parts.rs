//! The state of a client except its requests, which use it.

use crate::client_state::ClientState;
use crate::options::ClientOptions;
use crate::patterns::Patterns;
use crate::provider::ProviderRole;
use crate::subscriptions::Subscriptions;
use crate::writes::Writes;

#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) base: ClientState,
    pub(crate) writes: Writes,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) patterns: Patterns,
    pub(crate) provider: ProviderRole,
}

impl Parts {
    pub(crate) fn new(options: ClientOptions) -> Self {
        Self {
            base: ClientState::new(options),
            writes: Writes::default(),
            subscriptions: Subscriptions::default(),
            patterns: Patterns::default(),
            provider: ProviderRole::default(),
        }
    }
}
