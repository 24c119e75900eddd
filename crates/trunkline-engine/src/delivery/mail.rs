//! Messages between providers and consumers.

use trunkline_types::Value;

/// A provider's registration in the engine. Release it with `detach` of
/// [`Engine::providers`](crate::Engine::providers).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ProviderId(pub(crate) usize);

/// Identifies a write that a provider must answer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Ticket {
    pub(crate) number: u64,
    pub(crate) provider: ProviderId,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceItem {
    pub handle: u32,
    /// The part of the variable's `source` after the colon.
    pub item: Box<str>,
}

#[derive(Clone, PartialEq, Debug)]
pub enum ProviderOrder {
    Write {
        ticket: Ticket,
        handle: u32,
        raw: Value,
    },
    Read {
        /// Identifies the request in the answer. `None`: no caller waits, and the provider
        /// publishes the value.
        ticket: Option<Ticket>,
        handle: u32,
    },
    /// Deliver updates of this variable from now on.
    Bind(SourceItem),
}
