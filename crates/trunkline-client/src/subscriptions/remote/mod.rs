//! Subscriptions of the client as the engine knows them.
//!
//! All `latest` subscriptions of a client with the same filters share one remote subscription. The
//! engine sends an update once, and the client passes it to every local subscription that uses it.
//! A subscription with another contract has a remote subscription of its own, because it needs its
//! own buffer.

pub(crate) mod account;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use trunkline_proto::message::contract::SubscribeFlags;
use trunkline_proto::message::ended::EndReason;
use trunkline_proto::message::subscribe::SubscribeTerms;
use trunkline_proto::{Fault, FaultCode};
use trunkline_types::{Contract, DataType};

use self::account::{Account, Remainder};
use crate::table::{Few, NumberMap};
use crate::variables::reading::Received;
use crate::variables::{VariableRef, Variables};

/// Maximum number of the client's own writes that an item remembers until their updates arrive.
const OWN_WRITES_MAX: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct RemoteSubscriptions {
    pub(crate) by_id: BTreeMap<u32, RemoteSubscription>,
    next: u32,
}

#[derive(Debug)]
pub(crate) struct RemoteSubscription {
    pub(crate) terms: SubscribeTerms,
    items: Vec<Option<RemoteItem>>,
    free: Vec<u32>,
    by_handle: NumberMap<u32, u32>,
    /// The handle of the last lookup, with the index of its item. Handles usually have the same
    /// order as the items, so the distance between two handles is usually the distance between
    /// their items.
    near: (u32, u32),
    /// Set as soon as two items have shared a handle. From then on, only `by_handle` is correct.
    has_shared_handles: bool,
    /// Number of local subscriptions that use this one, including those without items at present.
    pub(crate) subscribers: usize,
    /// Number of unanswered requests about the items.
    pub(crate) outstanding: usize,
    /// True if no local subscription needs this one. It ends when no request about its items is
    /// outstanding.
    pub(crate) closing: bool,
    /// The reason why nothing is subscribed until the program has taken all queued events (`all`
    /// only).
    pub(crate) pause: Pause,
    /// The only local subscription that uses this one; `None` if it is shared.
    pub(crate) owner: Option<u32>,
    /// Number of the current credit period, which increases whenever the engine's credit starts
    /// again. Updates that were sent in an earlier period return no credit in this one.
    pub(crate) credit_period: u32,
    /// Number of updates that the program has taken since the last grant (`all` only).
    taken: u32,
    /// Handles of items that were removed before their first reading, which uses no credit. A
    /// handle stays here until this reading has arrived or the engine has ended the item (`all`
    /// only).
    unread: BTreeSet<u32>,
}

/// The reason why a remote subscription waits for the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pause {
    /// It does not wait.
    No,
    /// The queue of the subscription was full.
    Overrun,
    /// Too many readings from an earlier connection are queued.
    Backlog,
}

#[derive(Debug)]
/// A variable in a remote subscription.
pub(crate) struct RemoteItem {
    pub(crate) variable: VariableRef,
    pub(crate) targets: Few<Target>,
    pub(crate) status: Status,
    /// True while the item is part of an unanswered request.
    pub(crate) request_pending: bool,
    /// True while a live item waits for the answer to a repeated subscription. It was repeated
    /// because the report of the item's end may have been lost.
    pub(crate) repeat_pending: bool,
    /// The handle under which the item was last subscribed.
    pub(crate) handle: Option<u32>,
    pub(crate) data_type: Option<DataType>,
    /// The maximum age in the variable's properties, if known.
    pub(crate) max_age: Option<Duration>,
    pub(crate) account: Account,
    /// The last update as the program reads it.
    pub(crate) copy: Option<Received>,
    pub(crate) next: Next,
    #[allow(
        clippy::box_collection,
        reason = "most items have none, and stay small"
    )]
    own: Option<Box<VecDeque<u64>>>,
    /// Code of the fault that was last reported to the program.
    pub(crate) reported_fault: Option<FaultCode>,
    /// True if the program was notified that the variable with this handle is gone.
    pub(crate) is_gone: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
/// An item of a local subscription that receives the updates of a remote item.
pub(crate) struct Target {
    pub(crate) subscription: u32,
    pub(crate) item: u32,
}

#[derive(Clone, Debug)]
/// The state of a remote item.
pub(crate) enum Status {
    /// Not subscribed yet on this connection.
    Opening,
    /// As `Opening`, but no local subscription needs the item any more.
    Leaving,
    Live,
    Failed(Box<Fault>),
    Ended(EndReason),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
/// The update that an item expects next.
pub(crate) enum Next {
    /// The value that the variable has when it is subscribed.
    First,
    /// The value that the variable has, or the first update after the item's last one.
    FirstResumed,
    /// An update that results from a new write.
    Update,
}

impl RemoteSubscriptions {
    /// Returns the remote subscription with these terms, and counts one more subscriber. Shares an
    /// existing remote subscription if possible.
    pub(crate) fn find_or_add(&mut self, contract: Contract, flags: SubscribeFlags) -> u32 {
        if contract == Contract::Latest {
            let shared = self.by_id.iter_mut().find(|(_, remote)| {
                remote.terms.contract == contract && remote.terms.flags == flags && !remote.closing
            });
            if let Some((id, remote)) = shared {
                remote.subscribers += 1;
                return *id;
            }
        }
        self.next += 1;
        let terms = SubscribeTerms {
            subscription: self.next,
            contract,
            flags,
        };
        let mut remote = RemoteSubscription::new(terms);
        remote.subscribers = 1;
        self.by_id.insert(self.next, remote);
        self.next
    }

    pub(crate) fn ids(&self) -> Vec<u32> {
        self.by_id.keys().copied().collect()
    }

    pub(crate) fn get(&self, id: u32) -> Option<&RemoteSubscription> {
        self.by_id.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut RemoteSubscription> {
        self.by_id.get_mut(&id)
    }

    pub(crate) fn item_mut(&mut self, id: u32, item: u32) -> Option<&mut RemoteItem> {
        self.get_mut(id)?.item_mut(item)
    }

    /// Removes an item and its use of the variable.
    pub(crate) fn remove_item(&mut self, variables: &mut Variables, id: u32, index: u32) {
        let remote = self.get_mut(id);
        let Some(item) = remote.and_then(|remote| remote.remove(index)) else {
            return;
        };
        if let Some(variable) = variables.get_mut(item.variable) {
            variable.items.retain(|place| *place != (id, index));
        }
        variables.release(item.variable);
    }

    /// Remembers a write of this client by its answer, which arrives before the update. Under
    /// `all`, an update does not contain the `own` flag, because all sessions receive the same
    /// bytes.
    pub(crate) fn remember_own(
        &mut self,
        variables: &Variables,
        variable: VariableRef,
        sequence: u64,
    ) {
        let Some(known) = variables.get(variable) else {
            return;
        };
        for (id, item) in known.items.iter() {
            if let Some(remote) = self.get_mut(*id)
                && matches!(remote.terms.contract, Contract::All { .. })
                && let Some(item) = remote.item_mut(*item)
            {
                item.remember_own(sequence);
            }
        }
    }
}

impl RemoteSubscription {
    fn new(terms: SubscribeTerms) -> Self {
        Self {
            terms,
            items: Vec::new(),
            free: Vec::new(),
            by_handle: NumberMap::default(),
            near: (0, 0),
            has_shared_handles: false,
            subscribers: 0,
            outstanding: 0,
            closing: false,
            pause: Pause::No,
            owner: None,
            credit_period: 1,
            taken: 0,
            unread: BTreeSet::new(),
        }
    }

    /// Starts a new credit period.
    pub(crate) fn begin_credit_period(&mut self) {
        self.credit_period = self.credit_period.wrapping_add(1).max(1);
        self.taken = 0;
    }

    /// Returns and resets the number of updates that the program has taken since the last grant.
    pub(crate) fn take_grant(&mut self) -> u32 {
        std::mem::take(&mut self.taken)
    }

    /// Returns true if a newer update replaces an older one.
    pub(crate) fn has_cells(&self) -> bool {
        matches!(self.terms.contract, Contract::Latest | Contract::Sampled(_))
    }

    /// Returns the cause to report for missing updates that no other report explains.
    pub(crate) fn remainder(&self) -> Remainder {
        match self.has_cells() {
            true => Remainder::Coalesced,
            false => Remainder::Unknown,
        }
    }

    /// Reserves memory for `items` more items.
    pub(crate) fn reserve(&mut self, items: usize) {
        self.items.reserve(items.saturating_sub(self.free.len()));
        self.by_handle.reserve(items);
    }

    pub(crate) fn add(&mut self, variable: VariableRef) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.items.push(None);
            (self.items.len() - 1) as u32
        });
        if let Some(slot) = self.items.get_mut(index as usize) {
            *slot = Some(RemoteItem::new(variable));
        }
        index
    }

    fn remove(&mut self, index: u32) -> Option<RemoteItem> {
        let item = self.items.get_mut(index as usize)?.take()?;
        if let Some(handle) = item.handle
            && self.by_handle.get(&handle) == Some(&index)
        {
            self.by_handle.remove(&handle);
        }
        if item.next == Next::First && matches!(self.terms.contract, Contract::All { .. }) {
            self.unread.extend(item.handle);
        }
        self.free.push(index);
        Some(item)
    }

    /// Records the arrival of an update that belongs to no item. Returns true if the update is the
    /// first reading of a removed item, which used no credit.
    pub(crate) fn pass_first(&mut self, handle: u32) -> bool {
        self.unread.remove(&handle)
    }

    /// Records that the engine will send no more updates of these items.
    pub(crate) fn items_ended(&mut self, handles: &[u32]) {
        for handle in handles {
            self.unread.remove(handle);
        }
    }

    /// Records a new connection, on which nothing is subscribed yet.
    pub(crate) fn connected(&mut self) {
        self.unread.clear();
    }

    pub(crate) fn ask(&mut self, items: &[u32]) {
        self.outstanding += 1;
        for index in items {
            if let Some(item) = self.item_mut(*index) {
                item.request_pending = true;
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.len() == self.free.len()
    }

    pub(crate) fn item(&self, index: u32) -> Option<&RemoteItem> {
        self.items.get(index as usize)?.as_ref()
    }

    pub(crate) fn item_mut(&mut self, index: u32) -> Option<&mut RemoteItem> {
        self.items.get_mut(index as usize)?.as_mut()
    }

    /// Returns the items with their indices.
    pub(crate) fn items(&self) -> impl Iterator<Item = (u32, &RemoteItem)> {
        (0..)
            .zip(&self.items)
            .filter_map(|(index, item)| Some((index, item.as_ref()?)))
    }

    pub(crate) fn items_mut(&mut self) -> impl Iterator<Item = (u32, &mut RemoteItem)> {
        (0..)
            .zip(&mut self.items)
            .filter_map(|(index, item)| Some((index, item.as_mut()?)))
    }

    #[inline(always)]
    pub(crate) fn item_of(&mut self, handle: u32) -> Option<&mut RemoteItem> {
        let index = self.index_of_handle(handle)?;
        self.item_mut(index)
    }

    /// Returns the index of the item that receives the updates of this handle.
    #[inline(always)]
    pub(crate) fn index_of_handle(&mut self, handle: u32) -> Option<u32> {
        let (near, index) = self.near;
        let guess = index.wrapping_add(handle.wrapping_sub(near));
        let item = self.items.get(guess as usize).and_then(Option::as_ref);
        if item.is_some_and(|item| item.handle == Some(handle)) && !self.has_shared_handles {
            self.near = (handle, guess);
            return Some(guess);
        }
        let index = *self.by_handle.get(&handle)?;
        self.near = (handle, index);
        Some(index)
    }

    /// As [`index_of_handle`](Self::index_of_handle), but without updating the last lookup.
    pub(crate) fn item_by_handle(&self, handle: u32) -> Option<&RemoteItem> {
        self.item(*self.by_handle.get(&handle)?)
    }

    pub(crate) fn opened(&mut self, index: u32, handle: u32, data_type: &DataType) {
        let Some(Some(item)) = self.items.get_mut(index as usize) else {
            return;
        };
        if item.data_type.as_ref() != Some(data_type) {
            item.data_type = Some(data_type.clone());
        }
        let before = item.handle.replace(handle);
        if before != Some(handle) {
            item.is_gone = false;
            if before.is_some() {
                item.account.replaced();
            }
            if let Some(before) = before
                && self.by_handle.get(&before) == Some(&index)
            {
                self.by_handle.remove(&before);
            }
        }
        let other = self.by_handle.insert(handle, index);
        self.has_shared_handles |= other.is_some_and(|other| other != index);
    }

    /// Forgets all handles, because handles of an earlier epoch are invalid.
    pub(crate) fn forget_handles(&mut self) {
        self.by_handle = NumberMap::default();
        self.has_shared_handles = false;
        self.items_mut().for_each(|(_, item)| item.handle = None);
    }

    /// Counts updates that the program has taken, or that never arrived. Returns true if the client
    /// should grant credit.
    #[inline]
    pub(crate) fn count_taken(&mut self, updates: u32) -> bool {
        let Contract::All { elements, .. } = self.terms.contract else {
            return false;
        };
        self.taken = self.taken.saturating_add(updates);
        updates > 0 && self.taken >= (elements / 4).max(1)
    }
}

impl RemoteItem {
    fn new(variable: VariableRef) -> Self {
        Self {
            variable,
            targets: Few::None,
            status: Status::Opening,
            request_pending: false,
            repeat_pending: false,
            handle: None,
            data_type: None,
            max_age: None,
            account: Account::default(),
            copy: None,
            next: Next::First,
            own: None,
            reported_fault: None,
            is_gone: false,
        }
    }

    /// Records that the item's request or the connection has ended.
    pub(crate) fn request_ended(&mut self) {
        (self.request_pending, self.repeat_pending) = (false, false);
    }

    /// Handles the engine's report that an overrun has ended the item. Returns true if the item
    /// waits for the answer to the request that subscribes it again.
    pub(crate) fn ends_before_answer(&mut self, lost: u64) -> bool {
        if std::mem::take(&mut self.repeat_pending) && matches!(self.status, Status::Live) {
            self.account.add_end(lost);
            self.status = Status::Opening;
            return true;
        }
        // An item that the client itself ended has already reported its end.
        self.request_pending && matches!(self.status, Status::Opening)
    }

    /// Remembers that a write of this client resulted in the update with this sequence number.
    pub(crate) fn remember_own(&mut self, sequence: u64) {
        let own = self.own.get_or_insert_default();
        let index = own.partition_point(|other| *other < sequence);
        own.insert(index, sequence);
        if own.len() > OWN_WRITES_MAX {
            own.pop_front();
        }
    }

    /// Returns true if the update with this sequence number results from a write of this client.
    /// Forgets earlier sequence numbers.
    #[inline(always)]
    pub(crate) fn take_own(&mut self, sequence: u64) -> bool {
        let Some(own) = &mut self.own else {
            return false;
        };
        while let Some(own_sequence) = own.pop_front_if(|first| *first <= sequence) {
            if own_sequence == sequence {
                return true;
            }
        }
        false
    }

    /// Returns true if the item delivers updates. The last updates of a removed variable may arrive
    /// after the report of its end, if another subscription received that report first.
    pub(crate) fn takes_updates(&self) -> bool {
        matches!(self.status, Status::Live | Status::Ended(EndReason::Gone))
    }

    /// Returns true if a variable with this handle replaces the item's, and the program was not
    /// notified that the former variable is gone.
    pub(crate) fn was_replaced_unnoticed(&self, handle: u32) -> bool {
        self.handle.is_some_and(|before| before != handle) && !self.is_gone
    }

    /// Discards the state of an engine that was replaced or restarted. Its positions cannot be
    /// compared with those of the new engine, even if the epochs have the same number.
    pub(crate) fn forget_engine_state(&mut self) {
        self.own = None;
        self.account.replaced();
    }

    /// Returns true if a retry can succeed without action by the program. Returns false while the
    /// failed request is still pending, because its end would be taken for the answer to the next
    /// request.
    pub(crate) fn may_retry(&self) -> bool {
        match &self.status {
            _ if self.request_pending => false,
            Status::Failed(fault) => is_temporary(fault.code),
            Status::Ended(reason) => *reason == EndReason::Gone,
            _ => false,
        }
    }
}

/// Returns true for faults that disappear when the missing library or variable is deployed or
/// started, or when a limit is no longer reached.
pub(crate) fn is_temporary(code: FaultCode) -> bool {
    use FaultCode::{Gone, LibraryStopped, LimitReached, MemoryFull, UnknownHandle, UnknownName};
    matches!(
        code,
        UnknownName | Gone | UnknownHandle | LibraryStopped | LimitReached | MemoryFull
    )
}
