//! Subscribes to variables for the program. `delivery` handles arriving updates.

use std::sync::Arc;

use trunkline_proto::message::contract::SubscribeFlags;
use trunkline_proto::{Fault, FaultCode};
use trunkline_types::{Access, Contract, DataType, Position};

use super::Subscriptions;
use super::remote::account::Missed;
use super::remote::{Pause, Status, Target};
use super::subscription::{Delivery, NO_ITEM, Notice, Subscription, SubscriptionId};
use crate::ask::{OpenItems, OwnRequest, Unsubscribe};
use crate::client_state::ClientState;
use crate::error::{SubscribeError, check_contract};
use crate::options::SubscribeOptions;
use crate::variables::VariableRef;

/// The current state of a subscription's item.
#[derive(Clone, PartialEq, Debug)]
pub struct Item {
    /// The full name of the variable.
    pub name: Arc<str>,
    /// The variable, for reads and writes.
    pub variable: VariableRef,
    /// The type of the variable's values; `None` before the variable was first opened.
    pub data_type: Option<DataType>,
    /// The access that the variable permits.
    pub access: Access,
    /// True while updates of the item arrive.
    pub live: bool,
    /// The position of the last update that arrived; `None` before the first update.
    pub position: Option<Position>,
}

impl Subscriptions {
    /// Subscribes to variables by their full names. One request opens and subscribes all of them.
    pub(crate) fn subscribe<N: AsRef<str>>(
        &mut self,
        base: &mut ClientState,
        names: &[N],
        contract: Contract,
        options: SubscribeOptions,
    ) -> Result<SubscriptionId, SubscribeError> {
        check_contract(contract)?;
        let closed = |cause| SubscribeError::Closed { cause };
        base.connection.check_usable().map_err(closed)?;
        let max = base.options.items_max;
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
            recorded,
            ..
        } = options;
        let flags = SubscribeFlags {
            only_changes,
            own_suppressed,
            recorded,
        };
        let remote_id = self.remote.find_or_add(contract, flags);
        let mut subscription = Subscription::new(remote_id, contract, options);
        if let Some(event) = base.connection.connected_event() {
            subscription.connection_changed(event);
        }
        subscription.items.reserve_exact(names.len());
        let key = self.list.insert(subscription);
        base.variables.reserve(names.len());
        if let Some(remote) = self.remote.get_mut(remote_id) {
            remote.reserve(names.len());
            if contract != Contract::Latest {
                remote.owner = Some(key.index);
            }
        }
        let mut added = Vec::new();
        for (name, item) in names.iter().zip(0..) {
            let variable = base.variables.acquire(name.as_ref());
            let target = Target {
                subscription: key.index,
                item,
            };
            if let Some(index) = self.join(base, remote_id, variable, target) {
                added.push(index);
            }
        }
        if !added.is_empty() && base.connection.is_open() {
            self.open_items(base, remote_id, added, false);
        }
        base.changes += 1;
        Ok(SubscriptionId(key))
    }

    /// Joins an item to the remote subscription. Returns the index of the remote item if this call
    /// has added it. An existing remote item delivers its local copy to the new item at once.
    fn join(
        &mut self,
        base: &mut ClientState,
        remote_id: u32,
        variable: VariableRef,
        target: Target,
    ) -> Option<u32> {
        let remote = self.remote.get_mut(remote_id)?;
        let entry = base.variables.get_mut(variable)?;
        let mut items = entry.items.iter();
        let existing = items.find_map(|(remote, index)| (*remote == remote_id).then_some(*index));
        let is_new = existing.is_none();
        let index = existing.unwrap_or_else(|| remote.add(variable));
        let max_age = entry.max_age;
        let subscription = self.list.at_mut(target.subscription)?;
        subscription.put_item(target.item, index);
        let item = remote.item_mut(index)?;
        item.targets.push(target);
        if is_new {
            entry.items.push((remote_id, index));
            item.max_age = max_age;
            return Some(index);
        }
        // The remote item itself uses the variable, so this use is released.
        base.variables.release(variable);
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

    /// Adds names to a subscription as the given items: after the last item, or in a free slot.
    /// Names beyond the client's limit on items get an item error.
    pub(crate) fn join_items(
        &mut self,
        base: &mut ClientState,
        id: SubscriptionId,
        names: &[(u32, Arc<str>)],
    ) {
        let Some(subscription) = self.list.get(id.0) else {
            return;
        };
        let remote_id = subscription.remote;
        let free = base.options.items_max.saturating_sub(self.items);
        let (joining, refused) = names.split_at(free.min(names.len()));
        self.items += joining.len();
        base.variables.reserve(joining.len());
        let mut added = Vec::new();
        for (item, name) in joining {
            let variable = base.variables.acquire(name);
            let target = Target {
                subscription: id.0.index,
                item: *item,
            };
            let new = self.join(base, remote_id, variable, target);
            added.extend(new.or_else(|| self.mark_for_retry(id, *item)));
        }
        if let Some(subscription) = self.list.get_mut(id.0) {
            for (item, _) in refused {
                subscription.put_item(*item, NO_ITEM);
                let fault = Fault::from(FaultCode::LimitReached);
                subscription.notify(*item, Notice::Fault(fault));
            }
        }
        if !added.is_empty() && base.connection.is_open() {
            self.open_items(base, remote_id, added, false);
        }
        base.changes += 1;
    }

    /// Opens an item again at once instead of at the next retry, because the engine has reported
    /// that its variable exists again.
    pub(crate) fn reopen_item(&mut self, base: &mut ClientState, id: SubscriptionId, item: u32) {
        let Some(remote) = self.list.get(id.0).map(|entry| entry.remote) else {
            return;
        };
        if let Some(index) = self.mark_for_retry(id, item)
            && base.connection.is_open()
        {
            self.open_items(base, remote, vec![index], false);
        }
    }

    /// Marks the remote item as opening and returns its index, if the item is not subscribed but a
    /// retry may succeed.
    fn mark_for_retry(&mut self, id: SubscriptionId, item: u32) -> Option<u32> {
        let entry = self.list.get(id.0)?;
        let index = entry.items.get(item as usize)?.remote_item;
        let remote = self.remote.get_mut(entry.remote)?;
        let accepts_requests = !remote.closing && remote.pause == Pause::No;
        let remote_item = remote.item_mut(index)?;
        if !accepts_requests || !remote_item.may_retry() {
            return None;
        }
        remote_item.status = Status::Opening;
        Some(index)
    }

    /// Removes one item from a subscription. Its slot can be used again.
    pub(crate) fn leave_item(&mut self, base: &mut ClientState, id: SubscriptionId, item: u32) {
        let Some(entry) = self.list.get_mut(id.0) else {
            return;
        };
        let Some(remote_item) = entry.take_item(item) else {
            return;
        };
        let remote_id = entry.remote;
        self.items -= 1;
        let target = Target {
            subscription: id.0.index,
            item,
        };
        let handle = self.leave(base, remote_id, remote_item, target);
        if let Some(handle) = handle
            && base.connection.is_open()
        {
            base.own_requests.push(OwnRequest::Unsubscribe(Unsubscribe {
                remote: remote_id,
                handles: vec![handle],
            }));
        }
        if let Some(remote) = self.remote.get_mut(remote_id)
            && remote.is_empty()
        {
            // The engine ended the subscription with its last item, so its credit starts again.
            remote.begin_credit_period();
        }
    }

    /// Removes a target from a remote item. If this was the last target and the engine must end the
    /// item, returns the handle of the item.
    fn leave(
        &mut self,
        base: &mut ClientState,
        remote_id: u32,
        index: u32,
        target: Target,
    ) -> Option<u32> {
        let remote_item = self.remote.item_mut(remote_id, index)?;
        remote_item.targets.retain(|t| *t != target);
        if !remote_item.targets.is_empty() {
            return None;
        }
        if remote_item.request_pending {
            remote_item.status = Status::Leaving;
            return None;
        }
        let is_live = matches!(remote_item.status, Status::Live);
        let handle = remote_item.handle.filter(|_| is_live);
        self.remote
            .remove_item(&mut base.variables, remote_id, index);
        handle
    }

    /// Requests that the engine opens and subscribes items of a remote subscription.
    pub(super) fn open_items(
        &mut self,
        base: &mut ClientState,
        remote_id: u32,
        items: Vec<u32>,
        restoring: bool,
    ) {
        let Some(remote) = self.remote.get_mut(remote_id) else {
            return;
        };
        remote.ask(&items);
        base.variables.reserve_handles(items.len());
        let remote = remote_id;
        let request = OwnRequest::OpenItems(OpenItems { remote, items });
        match restoring {
            true => base.own_requests.push_first(request),
            false => base.own_requests.push(request),
        }
    }

    pub(crate) fn unsubscribe(&mut self, base: &mut ClientState, id: SubscriptionId) {
        let Some(entry) = self.list.remove(id.0) else {
            return;
        };
        let (remote_id, connected) = (entry.remote, base.connection.is_open());
        base.changes += 1;
        let mut handles = Vec::new();
        for (local, item) in entry.items.iter().zip(0..) {
            if local.remote_item == NO_ITEM {
                continue;
            }
            self.items -= 1;
            let target = Target {
                subscription: id.0.index,
                item,
            };
            handles.extend(self.leave(base, remote_id, local.remote_item, target));
        }
        let Some(remote) = self.remote.get_mut(remote_id) else {
            return;
        };
        remote.subscribers -= 1;
        remote.closing = remote.subscribers == 0;
        let had_live_items = !handles.is_empty();
        if remote.closing && remote.is_empty() && remote.outstanding == 0 {
            self.remote.by_id.remove(&remote_id);
            // An unsubscribe request without handles ends the whole subscription.
            handles.clear();
        } else if remote.is_empty() {
            // The engine ended the subscription with its last item, so its credit starts again.
            remote.begin_credit_period();
        }
        if connected && had_live_items {
            base.own_requests.push(OwnRequest::Unsubscribe(Unsubscribe {
                remote: remote_id,
                handles,
            }));
        }
    }

    pub(crate) fn item(&self, base: &ClientState, id: SubscriptionId, item: u32) -> Option<Item> {
        let entry = self.get(id)?;
        let remote = self.remote.get(entry.remote)?;
        let remote_item = remote.item(entry.items.get(item as usize)?.remote_item)?;
        let variable = base.variables.get(remote_item.variable)?;
        Some(Item {
            name: Arc::clone(&variable.name),
            variable: remote_item.variable,
            data_type: remote_item.data_type.clone(),
            access: variable.access,
            live: base.connection.is_open() && matches!(remote_item.status, Status::Live),
            position: remote_item.account.position(),
        })
    }
}
