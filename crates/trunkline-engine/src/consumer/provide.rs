//! A consumer as the connection to a provider: writes and bindings for the provider are queued in
//! the consumer's outbox.

use super::Consumer;
use crate::outbox::{Outbox, Wakes};
use crate::provider::{Provider, SourceItem, Ticket};
use crate::sync::Arc;
use trunkline_types::Value;

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

/// Number of queued orders from which reads without a waiting caller are dropped: the device is
/// asked often enough then. The other orders are bounded by what a provider may have unanswered.
const UNTICKETED_MAX: usize = 8192;

impl Consumer {
    /// Creates a provider with this name. Its orders are taken with
    /// [`take_provider_order`](Self::take_provider_order).
    pub fn provider(&self, name: &str) -> Arc<dyn Provider> {
        Arc::new(Behind {
            name: Arc::from(name),
            outbox: Arc::clone(&self.outbox),
        })
    }

    /// Takes the next order for a provider behind this consumer.
    pub fn take_provider_order(&mut self) -> Option<ProviderOrder> {
        self.outbox.orders.lock().pop_front()
    }
}

struct Behind {
    name: Arc<str>,
    outbox: Arc<Outbox>,
}

impl Behind {
    fn push(&self, orders: impl IntoIterator<Item = ProviderOrder>) {
        self.outbox.orders.lock().extend(orders);
        Wakes::new().add(&self.outbox);
    }
}

impl Provider for Behind {
    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn send(&self, ticket: Ticket, handle: u32, raw: Value) {
        self.push([ProviderOrder::Write {
            ticket,
            handle,
            raw,
        }]);
    }

    fn request(&self, ticket: Option<Ticket>, handle: u32) {
        if ticket.is_none() && self.outbox.orders.lock().len() >= UNTICKETED_MAX {
            return;
        }
        self.push([ProviderOrder::Read { ticket, handle }]);
    }

    fn bind(&self, items: &[SourceItem]) {
        self.push(items.iter().cloned().map(ProviderOrder::Bind));
    }

    fn trouble(&self) -> Option<String> {
        None
    }

    fn is_process(&self) -> bool {
        true
    }
}
