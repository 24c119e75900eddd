//! What providers and consumers exchange.

use trunkline_types::Value;

/// A provider's place in the engine. Release it with [`Engine::detach_provider`](crate::Engine::detach_provider).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ProviderId(pub(crate) usize);

/// Identifies a write that a provider has to answer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Ticket {
    pub(crate) number: u64,
    pub(crate) provider: ProviderId,
}

/// A variable that a provider delivers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceItem {
    /// Handle of the variable.
    pub handle: u32,
    /// The part of its `source` after the colon.
    pub item: Box<str>,
}

/// A request to a provider behind a consumer.
#[derive(Clone, PartialEq, Debug)]
pub enum ProviderOrder {
    /// Write `raw` to the device behind the variable.
    Write {
        /// Identifies the request in the answer.
        ticket: Ticket,
        /// Handle of the variable.
        handle: u32,
        /// The value in raw units.
        raw: Value,
    },
    /// Read a fresh value from the device.
    Read {
        /// Identifies the request in the answer; `None` if no caller waits, and the value is simply
        /// published.
        ticket: Option<Ticket>,
        /// Handle of the variable.
        handle: u32,
    },
    /// Deliver updates of this variable from now on.
    Bind(SourceItem),
}
