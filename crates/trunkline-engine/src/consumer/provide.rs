//! A consumer as the way to a provider: what writers and deployments want of it waits in the
//! consumer's outbox.

use super::Consumer;
use crate::outbox::{Outbox, Wakes};
use crate::provider::{Provider, SourceItem, Ticket};
use crate::sync::Arc;
use trunkline_types::Value;

/// Something that a provider behind a consumer is to do.
#[derive(Clone, PartialEq, Debug)]
pub enum ProviderOrder {
    /// Write `raw` to the device behind the variable.
    Write {
        /// To answer with.
        ticket: Ticket,
        /// The variable.
        handle: u32,
        /// The value.
        raw: Value,
    },
    /// Read a fresh value from the device.
    Read {
        /// To answer with; `None`: nobody waits, publish it.
        ticket: Option<Ticket>,
        /// The variable.
        handle: u32,
    },
    /// Deliver this variable from now on.
    Bind(SourceItem),
}

/// Reads that nobody waits for are dropped while so many orders wait: the device is asked often
/// enough. The others are bounded by what a provider may have unanswered.
const UNTICKETED_MAX: usize = 8192;

impl Consumer {
    /// A provider of this name whose orders are taken with
    /// [`take_provider_order`](Self::take_provider_order).
    pub fn provider(&self, name: &str) -> Arc<dyn Provider> {
        Arc::new(Behind {
            name: Arc::from(name),
            outbox: Arc::clone(&self.outbox),
        })
    }

    /// The next order for a provider behind this consumer.
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
