//! A consumer as the connection to a provider: writes and bindings for the provider are queued in
//! the consumer's outbox.

use super::{Provider, Providers};
use crate::delivery::mail::{ProviderOrder, SourceItem, Ticket};
use crate::delivery::outbox::{Outbox, Wakes};
use crate::subscriptions::Consumer;
use crate::sync::Arc;
use trunkline_types::Value;

/// Number of queued orders at which further reads without a waiting caller are dropped, because the
/// device is already read often enough. The limit on a provider's unanswered orders bounds all
/// other orders.
const UNTICKETED_MAX: usize = 8192;

impl Providers<'_> {
    /// Creates a provider with this name that uses a consumer as its connection. The consumer takes
    /// its orders with [`Consumer::take_provider_order`].
    pub fn from_consumer(&self, consumer: &Consumer, name: &str) -> Arc<dyn Provider> {
        Arc::new(ConsumerProvider {
            name: Arc::from(name),
            outbox: Arc::clone(&consumer.outbox),
        })
    }
}

struct ConsumerProvider {
    name: Arc<str>,
    outbox: Arc<Outbox>,
}

impl ConsumerProvider {
    fn push(&self, orders: impl IntoIterator<Item = ProviderOrder>) {
        self.outbox.orders.lock().extend(orders);
        Wakes::new().add(&self.outbox);
    }
}

impl Provider for ConsumerProvider {
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

    fn error(&self) -> Option<String> {
        None
    }

    fn is_process(&self) -> bool {
        true
    }
}
