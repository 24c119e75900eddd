//! Subscribing: the program's side. `delivery` handles the updates that arrive.

use std::sync::Arc;

use trunkline_proto::message::contract::SubscribeFlags;
use trunkline_proto::{Fault, FaultCode};
use trunkline_types::ledger::ClientLedger;
use trunkline_types::{Access, Contract, DataType, Position};

use crate::account::Missed;
use crate::client::ClientCore;
use crate::error::{SubscribeError, check_contract};
use crate::event::Event;
use crate::options::SubscribeOptions;
use crate::request::{OpenItems, Unsubscribe};
use crate::subscription::{
    Delivery, NOBODY, Notice, Subscription, SubscriptionAccount, SubscriptionId,
};
use crate::variable::VariableRef;
use crate::wire::{Pause, Status, Target};

/// The current state of an item of a subscription.
#[derive(Clone, PartialEq, Debug)]
pub struct Item {
    /// The full name.
    pub name: Arc<str>,
    /// The variable, for reads and writes.
    pub variable: VariableRef,
    /// The type of its values; `None` before it is opened for the first time.
    pub data_type: Option<DataType>,
    /// The access that the variable permits.
    pub access: Access,
    /// True while updates arrive for it.
    pub live: bool,
    /// The position of the last update that arrived.
    pub position: Option<Position>,
}

impl ClientCore {
    /// Subscribes variables by their full names, in one request that opens and subscribes them.
    /// [`next_event`](Self::next_event) reports the results, item by item. The subscription
    /// survives reconnects until it is ended.
    ///
    /// The queue for the program is bounded: one reading per item under `latest` and `sampled`; `n`
    /// readings per item, and a limit in bytes, under `last:n` and `first:n`; the contract's bound
    /// under `all`, which the engine knows and does not exceed. Readings that do not fit are
    /// counted in `lost` of the item's next reading.
    ///
    /// # Errors
    /// [`SubscribeError`] if the contract cannot be kept, a bound is reached or the client is
    /// closed.
    pub fn subscribe<N: AsRef<str>>(
        &mut self,
        names: &[N],
        contract: Contract,
        options: SubscribeOptions,
    ) -> Result<SubscriptionId, SubscribeError> {
        check_contract(contract)?;
        if let Some(cause) = self.connection.closed() {
            return Err(SubscribeError::Closed {
                cause: Arc::clone(cause),
            });
        }
        let max = self.options.items_max;
        if self.items.saturating_add(names.len()) > max {
            return Err(SubscribeError::TooManyItems {
                items: names.len(),
                max,
            });
        }
        self.items += names.len();
        let SubscribeOptions {
            only_changes,
            own_suppressed,
            ..
        } = options;
        let flags = SubscribeFlags {
            only_changes,
            own_suppressed,
        };
        let wire_id = self.wires.find_or_add(contract, flags);
        let mut subscription = Subscription::new(wire_id, contract, options);
        if let Some(session) = self.connection.session() {
            subscription.connection_changed(Event::Connected {
                session: session.session,
                epoch: session.epoch,
                engine_id: session.engine_id,
            });
        }
        subscription.items.reserve_exact(names.len());
        let key = self.subscriptions.insert(subscription);
        self.variables.reserve(names.len());
        if let Some(wire) = self.wires.get_mut(wire_id) {
            wire.reserve(names.len());
        }
        if contract != Contract::Latest
            && let Some(wire) = self.wires.get_mut(wire_id)
        {
            wire.owner = Some(key.index);
        }
        let mut added = Vec::new();
        for (name, item) in names.iter().zip(0..) {
            let variable = self.variables.acquire(name.as_ref());
            let target = Target {
                subscription: key.index,
                item,
            };
            if let Some(index) = self.join(wire_id, variable, target) {
                added.push(index);
            }
        }
        if !added.is_empty() && self.connection.is_open() {
            self.open_items(wire_id, added, false);
        }
        self.changes += 1;
        Ok(SubscriptionId(key))
    }

    /// Joins an item to the wire subscription. Returns the index of the wire item if it was added
    /// now. An existing wire item delivers its local copy to the new item at once.
    fn join(&mut self, wire_id: u32, variable: VariableRef, target: Target) -> Option<u32> {
        let Self {
            wires,
            subscriptions,
            variables,
            ..
        } = self;
        let wire = wires.get_mut(wire_id)?;
        let known = variables.get_mut(variable)?;
        let mut places = known.items.iter();
        let there = places.find_map(|(wire, index)| (*wire == wire_id).then_some(*index));
        let is_new = there.is_none();
        let index = there.unwrap_or_else(|| wire.add(variable));
        let max_age = known.max_age;
        let subscription = subscriptions.at_mut(target.subscription)?;
        subscription.put_item(target.item, index);
        let item = wire.item_mut(index)?;
        item.targets.push(target);
        if is_new {
            known.items.push((wire_id, index));
            item.max_age = max_age;
            return Some(index);
        }
        // The wire item already holds the variable.
        variables.release(variable);
        if let Some(copy) = &item.copy {
            let delivery = Delivery {
                received: copy,
                missed: Missed::NOTHING,
                bytes: 0,
                credit: 0,
                replaces_update: false,
            };
            subscription.deliver(target.item, delivery);
        }
        match &item.status {
            Status::Leaving => item.status = Status::Opening,
            Status::Failed(fault) => {
                subscription.notify(target.item, Notice::Fault((**fault).clone()));
            }
            Status::Ended(reason) => {
                let last = item.account.position();
                let sentence: Arc<str> = Arc::from(reason.fault_code().meaning());
                let notice = Notice::Ended {
                    reason: *reason,
                    last,
                    lost: None,
                    sentence,
                };
                subscription.notify(target.item, notice);
            }
            Status::Opening | Status::Live => {}
        }
        None
    }

    /// Adds names to a subscription as the given items: after the last item, or in the place of one
    /// that has left. Names beyond the client's limit on items get an item error.
    pub(crate) fn join_items(&mut self, id: SubscriptionId, names: &[(u32, Arc<str>)]) {
        let Some(subscription) = self.subscriptions.get(id.0) else {
            return;
        };
        let wire_id = subscription.wire;
        let room = self.options.items_max.saturating_sub(self.items);
        let (joining, refused) = names.split_at(room.min(names.len()));
        self.items += joining.len();
        self.variables.reserve(joining.len());
        let mut added = Vec::new();
        for (item, name) in joining {
            let variable = self.variables.acquire(name);
            let target = Target {
                subscription: id.0.index,
                item: *item,
            };
            let new = self.join(wire_id, variable, target);
            added.extend(new.or_else(|| self.try_again(id, *item)));
        }
        if let Some(subscription) = self.subscriptions.get_mut(id.0) {
            for (item, _) in refused {
                subscription.put_item(*item, NOBODY);
                let fault = Fault::from(FaultCode::LimitReached);
                subscription.notify(*item, Notice::Fault(fault));
            }
        }
        if !added.is_empty() && self.connection.is_open() {
            self.open_items(wire_id, added, false);
        }
        self.changes += 1;
    }

    /// Reopens an item at once instead of at the next retry, because the engine has reported that
    /// its variable exists again.
    pub(crate) fn reopen_item(&mut self, id: SubscriptionId, item: u32) {
        let Some(wire) = self.subscriptions.get(id.0).map(|entry| entry.wire) else {
            return;
        };
        if let Some(index) = self.try_again(id, item)
            && self.connection.is_open()
        {
            self.open_items(wire, vec![index], false);
        }
    }

    /// Returns the wire item if it is not subscribed but may be now, and marks it as opening.
    fn try_again(&mut self, id: SubscriptionId, item: u32) -> Option<u32> {
        let entry = self.subscriptions.get(id.0)?;
        let index = entry.items.get(item as usize)?.wire_item;
        let wire = self.wires.get_mut(entry.wire)?;
        let can_be_asked = !wire.closing && wire.pause == Pause::No;
        let wire_item = wire.item_mut(index)?;
        if !can_be_asked || !wire_item.may_retry() {
            return None;
        }
        wire_item.status = Status::Opening;
        Some(index)
    }

    /// Removes one item from a subscription; its place can be used again.
    pub(crate) fn leave_item(&mut self, id: SubscriptionId, item: u32) {
        let Some(entry) = self.subscriptions.get_mut(id.0) else {
            return;
        };
        let Some(wire_item) = entry.take_item(item) else {
            return;
        };
        let wire_id = entry.wire;
        self.items -= 1;
        let target = Target {
            subscription: id.0.index,
            item,
        };
        let handle = self.leave(wire_id, wire_item, target);
        if let Some(handle) = handle
            && self.connection.is_open()
        {
            self.requests.push(Unsubscribe {
                wire: wire_id,
                handles: vec![handle],
            });
        }
        if let Some(wire) = self.wires.get_mut(wire_id)
            && wire.is_empty()
        {
            // The engine has ended the subscription with its last item, so its credit starts again.
            wire.begin_life();
        }
    }

    /// Removes a target from a wire item. Returns the handle if no target is left and the engine
    /// must end the item.
    fn leave(&mut self, wire_id: u32, index: u32, target: Target) -> Option<u32> {
        let wire = self.wires.get_mut(wire_id)?;
        let wire_item = wire.item_mut(index)?;
        wire_item.targets.retain(|t| *t != target);
        if !wire_item.targets.is_empty() {
            return None;
        }
        if wire_item.asked {
            wire_item.status = Status::Leaving;
            return None;
        }
        let is_live = matches!(wire_item.status, Status::Live);
        let handle = wire_item.handle.filter(|_| is_live);
        let variable = wire_item.variable;
        wire.remove(index);
        if let Some(known) = self.variables.get_mut(variable) {
            known.items.retain(|place| *place != (wire_id, index));
        }
        self.variables.release(variable);
        handle
    }

    /// Asks the engine to open and subscribe items of a wire subscription.
    pub(crate) fn open_items(&mut self, wire: u32, items: Vec<u32>, restoring: bool) {
        let Some(entry) = self.wires.get_mut(wire) else {
            return;
        };
        entry.ask(&items);
        self.variables.reserve_handles(items.len());
        let request = OpenItems { wire, items };
        match restoring {
            true => self.requests.push_restoring(request),
            false => self.requests.push(request),
        }
    }

    /// Ends a subscription and drops its queue.
    pub fn unsubscribe(&mut self, subscription: SubscriptionId) {
        let Some(entry) = self.subscriptions.remove(subscription.0) else {
            return;
        };
        let (wire_id, connected) = (entry.wire, self.connection.is_open());
        self.changes += 1;
        let mut handles = Vec::new();
        for (local, item) in entry.items.iter().zip(0..) {
            if local.wire_item == NOBODY {
                continue;
            }
            self.items -= 1;
            let target = Target {
                subscription: subscription.0.index,
                item,
            };
            handles.extend(self.leave(wire_id, local.wire_item, target));
        }
        let Some(wire) = self.wires.get_mut(wire_id) else {
            return;
        };
        wire.subscribers -= 1;
        wire.closing = wire.subscribers == 0;
        if wire.closing && wire.is_empty() && wire.outstanding == 0 {
            self.wires.by_id.remove(&wire_id);
            // An empty list ends the whole subscription.
            let was_live = !handles.is_empty();
            handles.clear();
            if connected && was_live {
                self.requests.push(Unsubscribe {
                    wire: wire_id,
                    handles,
                });
            }
            return;
        }
        if wire.is_empty() {
            // The engine has ended the subscription with its last item, so its credit starts again.
            wire.begin_life();
        }
        if connected && !handles.is_empty() {
            self.requests.push(Unsubscribe {
                wire: wire_id,
                handles,
            });
        }
    }

    /// Returns the current state of an item.
    pub fn item(&self, subscription: SubscriptionId, item: u32) -> Option<Item> {
        let entry = self.subscriptions.get(subscription.0)?;
        let wire = self.wires.get(entry.wire)?;
        let wire_item = wire.item(entry.items.get(item as usize)?.wire_item)?;
        let variable = self.variables.get(wire_item.variable)?;
        Some(Item {
            name: Arc::clone(&variable.name),
            variable: wire_item.variable,
            data_type: wire_item.data_type.clone(),
            access: variable.access,
            live: self.connection.is_open() && matches!(wire_item.status, Status::Live),
            position: wire_item.account.position(),
        })
    }

    /// Returns the counts of what became of every update that arrived for a subscription.
    pub fn ledger(&self, subscription: SubscriptionId) -> Option<ClientLedger> {
        self.subscriptions
            .get(subscription.0)
            .map(|entry| entry.ledger)
    }

    /// Returns the account of every update of the subscription's variables, including those that
    /// did not arrive.
    pub fn account(&self, subscription: SubscriptionId) -> Option<SubscriptionAccount> {
        let entry = self.subscriptions.get(subscription.0)?;
        Some(SubscriptionAccount {
            ledger: entry.ledger,
            missed: entry.missed,
        })
    }

    /// Returns the engine's number of the subscription, as in the answer to [`info`](Self::info).
    /// `latest` subscriptions with the same filters share one.
    pub fn wire_number(&self, subscription: SubscriptionId) -> Option<u32> {
        self.subscriptions
            .get(subscription.0)
            .map(|entry| entry.wire)
    }

    /// Returns the number of queued events of a subscription.
    pub fn waiting(&self, subscription: SubscriptionId) -> usize {
        self.subscriptions
            .get(subscription.0)
            .map_or(0, Subscription::waiting)
    }

    /// Returns a number that rises with every event queued for a subscription. While it is
    /// unchanged, there is nothing new to look at.
    pub fn subscription_changes(&self, subscription: SubscriptionId) -> u64 {
        self.subscriptions
            .get(subscription.0)
            .map_or(0, |entry| entry.changes)
    }

    /// Reopens a subscription that ended with `overrun` and does not reopen on its own. Delivery
    /// resumes after the last update that arrived, and missing updates are counted.
    pub fn resubscribe(&mut self, subscription: SubscriptionId) {
        let wire = self
            .subscriptions
            .get(subscription.0)
            .map(|entry| entry.wire);
        if let Some(wire) = wire {
            self.end_pause(wire);
        }
    }
}
