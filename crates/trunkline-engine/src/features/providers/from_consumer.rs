//! A consumer as the connection to a provider: writes and bindings for the provider are queued in
//! the consumer's outbox.

use super::{Provider, Providers};
use crate::caller::Caller;
use crate::delivery::mail::{ProviderOrder, SourceItem, Ticket};
use crate::delivery::outbox::{Outbox, Wakes};
use crate::subscriptions::Consumer;
use crate::sync::Arc;
use crate::variable::Variable;
use trunkline_access::Action;
use trunkline_types::Value;

/// Number of queued orders at which further reads without a waiting caller are dropped, because the
/// device is already read often enough. The limit on a provider's unanswered orders bounds all
/// other orders.
const UNTICKETED_MAX: usize = 8192;

impl Providers<'_> {
    /// Creates a provider with this name that uses a consumer as its connection. The consumer takes
    /// its orders with [`Consumer::take_provider_order`].
    ///
    /// It provides only variables that `caller` may write.
    pub fn from_consumer(
        &self,
        consumer: &Consumer,
        caller: &Caller,
        name: &str,
    ) -> Arc<dyn Provider> {
        Arc::new(ConsumerProvider {
            name: Arc::from(name),
            caller: caller.clone(),
            outbox: Arc::clone(&consumer.outbox),
        })
    }
}

struct ConsumerProvider {
    name: Arc<str>,
    /// The client that provides.
    caller: Caller,
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

    fn may_provide(&self, variable: &Variable) -> bool {
        variable.permits(&self.caller, Action::Write)
    }

    fn error(&self) -> Option<String> {
        None
    }

    fn is_process(&self) -> bool {
        true
    }
}
