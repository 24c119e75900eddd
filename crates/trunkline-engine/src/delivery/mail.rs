//! What providers and consumers exchange.

use trunkline_types::Value;

/// A provider's place in the engine. Release it with `detach` of [`Engine::providers`](crate::Engine::providers).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ProviderId(pub(crate) usize);

/// Identifies a write that a provider has to answer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Ticket {
    pub(crate) number: u64,
    pub(crate) provider: ProviderId,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceItem {
    pub handle: u32,
    /// The part of its `source` after the colon.
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
        /// Identifies the request in the answer; `None` if no caller waits, and the value is simply
        /// published.
        ticket: Option<Ticket>,
        handle: u32,
    },
    /// Deliver updates of this variable from now on.
    Bind(SourceItem),
}
