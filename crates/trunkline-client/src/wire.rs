//! Subscriptions as the engine sees them.
//!
//! All `latest` subscriptions of a client with the same filters are one on the wire: the engine
//! sends an update once, and it is handed to every local subscription that wants it. Every other
//! contract has a wire subscription of its own, because its buffer is.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use trunkline_proto::message::contract::SubscribeFlags;
use trunkline_proto::message::ended::EndReason;
use trunkline_proto::message::subscribe::SubscribeTerms;
use trunkline_proto::{Fault, FaultCode};
use trunkline_types::{Contract, DataType};

use crate::account::{Account, Remainder};
use crate::reading::Received;
use crate::table::{Few, NumberMap};
use crate::variable::VariableRef;

/// Sequences of own writes that are remembered per item until their updates come.
const OWN_MAX: usize = 4096;

/// The wire subscriptions of a client, by their number.
#[derive(Debug, Default)]
pub(crate) struct Wires {
    pub(crate) by_id: BTreeMap<u32, WireSubscription>,
    next: u32,
}

#[derive(Debug)]
pub(crate) struct WireSubscription {
    pub(crate) terms: SubscribeTerms,
    items: Vec<Option<WireItem>>,
    free: Vec<u32>,
    by_handle: NumberMap<u32, u32>,
    /// The handle found last and its item. Handles are numbered as items are, more often than not:
    /// the item of another handle usually is as far from this one as the handle is.
    near: (u32, u32),
    /// Two items have had one handle: which of them it is now, only the table says.
    has_shared_handles: bool,
    /// Local subscriptions that use it, also those that have no items at the moment.
    pub(crate) subscribers: usize,
    /// Requests about its items that are not answered.
    pub(crate) outstanding: usize,
    /// Nobody wants it any more; it is ended when nothing about it is outstanding.
    pub(crate) closing: bool,
    /// It is not subscribed until the program has taken everything that waits (`all` only).
    pub(crate) pause: Pause,
    /// The one local subscription it is for; shared ones have none.
    pub(crate) owner: Option<u32>,
    /// Rises whenever the engine's credit begins anew: what was sent under an earlier one makes no
    /// room under this one.
    pub(crate) life: u32,
    /// Updates taken since the last grant (`all` only).
    taken: u32,
}

/// Why a wire subscription waits for the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pause {
    No,
    /// It overran its bound.
    Overrun,
    /// Too much of an earlier connection still waits.
    Backlog,
}

/// A variable under a wire subscription.
#[derive(Debug)]
pub(crate) struct WireItem {
    pub(crate) variable: VariableRef,
    pub(crate) targets: Few<Target>,
    pub(crate) status: Status,
    /// Part of a request that is not answered.
    pub(crate) asked: bool,
    /// It is live, and asked for once more because its end may have been lost; no answer yet.
    pub(crate) asked_again: bool,
    /// The handle it was subscribed by last.
    pub(crate) handle: Option<u32>,
    pub(crate) data_type: Option<DataType>,
    /// As the variable's properties say, where they are known.
    pub(crate) max_age: Option<Duration>,
    pub(crate) account: Account,
    /// The local copy.
    pub(crate) copy: Option<Received>,
    /// What the next update is.
    pub(crate) next: Next,
    #[allow(
        clippy::box_collection,
        reason = "most items have none, and stay small"
    )]
    own: Option<Box<VecDeque<u64>>>,
    /// The fault that the program was told last.
    pub(crate) told: Option<FaultCode>,
}

/// A local subscription and its item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Target {
    pub(crate) subscription: u32,
    pub(crate) item: u32,
}

/// How an item stands.
#[derive(Clone, Debug)]
pub(crate) enum Status {
    /// Not subscribed yet on this connection.
    Opening,
    /// As `Opening`, and nobody wants it any more.
    Leaving,
    Live,
    Failed(Box<Fault>),
    Ended(EndReason),
}

/// What the next update of an item is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// What the variable held when it was subscribed.
    First,
    /// What the variable held, or the first update behind what the item has.
    FirstResumed,
    /// One that was written just now.
    Update,
}

impl Wires {
    /// The wire subscription for these terms, with one more subscriber: one that exists where it
    /// can be shared.
    pub(crate) fn find_or_add(&mut self, contract: Contract, flags: SubscribeFlags) -> u32 {
        if contract == Contract::Latest {
            let shared = self.by_id.iter_mut().find(|(_, wire)| {
                wire.terms.contract == contract && wire.terms.flags == flags && !wire.closing
            });
            if let Some((id, wire)) = shared {
                wire.subscribers += 1;
                return *id;
            }
        }
        self.next += 1;
        let terms = SubscribeTerms {
            subscription: self.next,
            contract,
            flags,
        };
        let mut wire = WireSubscription::new(terms);
        wire.subscribers = 1;
        self.by_id.insert(self.next, wire);
        self.next
    }

    pub(crate) fn get(&self, id: u32) -> Option<&WireSubscription> {
        self.by_id.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut WireSubscription> {
        self.by_id.get_mut(&id)
    }

    pub(crate) fn item_mut(&mut self, id: u32, item: u32) -> Option<&mut WireItem> {
        self.get_mut(id)?.item_mut(item)
    }
}

impl WireSubscription {
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
            life: 1,
            taken: 0,
        }
    }

    /// The engine's credit begins anew.
    pub(crate) fn begin_life(&mut self) {
        self.life = self.life.wrapping_add(1).max(1);
        self.taken = 0;
    }

    /// The updates taken since the last grant.
    pub(crate) fn take_grant(&mut self) -> u32 {
        std::mem::take(&mut self.taken)
    }

    /// Whether newer updates take the place of older ones.
    pub(crate) fn has_cells(&self) -> bool {
        matches!(self.terms.contract, Contract::Latest | Contract::Sampled(_))
    }

    /// Where updates went that lie between two of one item, as far as nothing was told.
    pub(crate) fn remainder(&self) -> Remainder {
        match self.has_cells() {
            true => Remainder::Coalesced,
            false => Remainder::Unknown,
        }
    }

    /// So many items may be added.
    pub(crate) fn reserve(&mut self, items: usize) {
        self.items.reserve(items.saturating_sub(self.free.len()));
        self.by_handle.reserve(items);
    }

    /// Adds an item for a variable that has none here.
    pub(crate) fn add(&mut self, variable: VariableRef) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.items.push(None);
            (self.items.len() - 1) as u32
        });
        if let Some(place) = self.items.get_mut(index as usize) {
            *place = Some(WireItem::new(variable));
        }
        index
    }

    /// Takes an item out.
    pub(crate) fn remove(&mut self, index: u32) -> Option<WireItem> {
        let item = self.items.get_mut(index as usize)?.take()?;
        if let Some(handle) = item.handle
            && self.by_handle.get(&handle) == Some(&index)
        {
            self.by_handle.remove(&handle);
        }
        self.free.push(index);
        Some(item)
    }

    /// These items are part of a request now.
    pub(crate) fn ask(&mut self, items: &[u32]) {
        self.outstanding += 1;
        for index in items {
            if let Some(item) = self.item_mut(*index) {
                item.asked = true;
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.len() == self.free.len()
    }

    pub(crate) fn item(&self, index: u32) -> Option<&WireItem> {
        self.items.get(index as usize)?.as_ref()
    }

    pub(crate) fn item_mut(&mut self, index: u32) -> Option<&mut WireItem> {
        self.items.get_mut(index as usize)?.as_mut()
    }

    /// The items with their numbers.
    pub(crate) fn items(&self) -> impl Iterator<Item = (u32, &WireItem)> {
        (0..)
            .zip(&self.items)
            .filter_map(|(index, item)| Some((index, item.as_ref()?)))
    }

    pub(crate) fn items_mut(&mut self) -> impl Iterator<Item = (u32, &mut WireItem)> {
        (0..)
            .zip(&mut self.items)
            .filter_map(|(index, item)| Some((index, item.as_mut()?)))
    }

    /// The item that updates with this handle are of.
    #[inline(always)]
    pub(crate) fn item_of(&mut self, handle: u32) -> Option<&mut WireItem> {
        let index = self.of_handle(handle)?;
        self.item_mut(index)
    }

    /// The number of the item that updates with this handle are of.
    #[inline(always)]
    pub(crate) fn of_handle(&mut self, handle: u32) -> Option<u32> {
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

    /// [`of_handle`](Self::of_handle) for who only looks.
    pub(crate) fn item_by_handle(&self, handle: u32) -> Option<&WireItem> {
        self.item(*self.by_handle.get(&handle)?)
    }

    /// The engine has opened the item.
    pub(crate) fn opened(&mut self, index: u32, handle: u32, data_type: &DataType) {
        let Some(Some(item)) = self.items.get_mut(index as usize) else {
            return;
        };
        if item.data_type.as_ref() != Some(data_type) {
            item.data_type = Some(data_type.clone());
        }
        let before = item.handle.replace(handle);
        if before != Some(handle) {
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

    /// Handles of an epoch that is over mean nothing.
    pub(crate) fn forget_handles(&mut self) {
        self.by_handle = NumberMap::default();
        self.has_shared_handles = false;
        self.items_mut().for_each(|(_, item)| item.handle = None);
    }

    /// The program took so many updates, or they never got that far. Whether a grant is due.
    #[inline]
    pub(crate) fn count_taken(&mut self, updates: u32) -> bool {
        #[cfg(feature = "planted")]
        if trunkline_types::planted::is(trunkline_types::planted::Bug::CreditNotReturned) {
            return false;
        }
        let Contract::All { elements, .. } = self.terms.contract else {
            return false;
        };
        self.taken = self.taken.saturating_add(updates);
        updates > 0 && self.taken >= (elements / 4).max(1)
    }
}

impl WireItem {
    fn new(variable: VariableRef) -> Self {
        Self {
            variable,
            targets: Few::None,
            status: Status::Opening,
            asked: false,
            asked_again: false,
            handle: None,
            data_type: None,
            max_age: None,
            account: Account::default(),
            copy: None,
            next: Next::First,
            own: None,
            told: None,
        }
    }

    /// The request that it is part of is over, or the connection is.
    pub(crate) fn not_asked(&mut self) {
        (self.asked, self.asked_again) = (false, false);
    }

    /// An overrun has ended it, as the engine says. True when the answer to a request for its next
    /// life is still to come: then it waits for that.
    pub(crate) fn ends_before_answer(&mut self, lost: u64) -> bool {
        if std::mem::take(&mut self.asked_again) && matches!(self.status, Status::Live) {
            self.account.tell_end(lost);
            self.status = Status::Opening;
            return true;
        }
        // One that ended at this end before has told its end.
        self.asked && matches!(self.status, Status::Opening)
    }

    /// A write of this client became the update of this number.
    pub(crate) fn remember_own(&mut self, sequence: u64) {
        let own = self.own.get_or_insert_default();
        let place = own.partition_point(|known| *known < sequence);
        own.insert(place, sequence);
        if own.len() > OWN_MAX {
            own.pop_front();
        }
    }

    /// Whether the update of this number was written by this client. Earlier ones are forgotten.
    #[inline(always)]
    pub(crate) fn take_own(&mut self, sequence: u64) -> bool {
        let Some(own) = &mut self.own else {
            return false;
        };
        while let Some(known) = own.pop_front_if(|known| *known <= sequence) {
            if known == sequence {
                return true;
            }
        }
        false
    }

    /// Whether an update is one to be delivered. The last ones of a variable that is gone may come
    /// behind the news, when another subscription has had it first.
    pub(crate) fn takes_updates(&self) -> bool {
        matches!(self.status, Status::Live | Status::Ended(EndReason::Gone))
    }

    /// The engine is another one, or was restarted: the positions known here are not compared with
    /// its positions, whatever their epochs.
    pub(crate) fn forget_life(&mut self) {
        self.own = None;
        self.account.replaced();
    }

    /// Whether trying again later can help without anybody noticing the program. Not while the
    /// request that it failed in goes on: the end of that one would be taken for the answer to the
    /// next.
    pub(crate) fn may_retry(&self) -> bool {
        match &self.status {
            _ if self.asked => false,
            Status::Failed(fault) => is_temporary(fault.code),
            Status::Ended(reason) => *reason == EndReason::Gone,
            _ => false,
        }
    }
}

/// Faults that go when somebody deploys or starts what is missing.
pub(crate) fn is_temporary(code: FaultCode) -> bool {
    use FaultCode::{Gone, LibraryStopped, LimitReached, MemoryFull, UnknownHandle, UnknownName};
    matches!(
        code,
        UnknownName | Gone | UnknownHandle | LibraryStopped | LimitReached | MemoryFull
    )
}
