//! Detects and repairs differences between what the engine has sent and what has arrived (B-10).
//!
//! A different running digest in a KEEPALIVE frame shows that a record was lost or altered in
//! transit. A different digest in a CHECK frame shows that an item's last update is wrong. The
//! client names suspect items in a COMPARE frame. In a REPAIRED frame, the engine sends the
//! differing items again. They replace the local state, and are counted.

use std::collections::VecDeque;

use trunkline_proto::limits::COMPARE_ITEMS_MAX;
use trunkline_proto::message::convergence::{Check, CompareBuilder, CompareHead, CompareItem};
use trunkline_proto::message::keepalive::Keepalive;
use trunkline_proto::message::record::UpdateRecord;
use trunkline_proto::message::updates::Updates;
use trunkline_proto::{Disconnect, Features, Frame, digest};
use trunkline_types::wire::decode_exact;
use trunkline_types::{DataType, Position, Tick};

use super::Subscriptions;
use super::remote::{
    Next, Pause, RemoteItem, RemoteSubscription, RemoteSubscriptions, Status, Target,
};
use super::subscription::Delivery;
use crate::ask::{CheckAll, OwnRequest, Resume};
use crate::client_state::ClientState;
use crate::connection::Connection;
use crate::variables::reading::{Arrival, Received, not_valid};

/// Suspect items that the client has still to name to the engine, each with remote subscription and
/// handle.
#[derive(Debug, Default)]
pub(crate) struct Suspects(VecDeque<(u32, u32)>);

/// Requests a check of all items, which follows the requests made so far.
pub(super) fn check_everything(remote: &RemoteSubscriptions, base: &mut ClientState) {
    if base.connection.has(Features::CONVERGENCE) && !remote.by_id.is_empty() {
        base.own_requests.push(OwnRequest::CheckAll(CheckAll));
    }
}

/// Compares the engine's digest of the sent records with the digest of the records that arrived.
pub(crate) fn compare_digest(
    remote: &mut RemoteSubscriptions,
    base: &mut ClientState,
    keepalive: &Keepalive,
) {
    let connection = &mut base.connection;
    let (records, digest) = (keepalive.records_received, keepalive.digest);
    let converges = connection.has(Features::CONVERGENCE);
    if converges && !connection.receipt.agrees(records, digest) {
        connection.receipt.adopt_totals(records, digest);
        connection.counters.diverged += 1;
        let counts_ends = connection.has(Features::ENDS);
        check_everything(remote, base);
        if counts_ends {
            resubscribe_all(remote, base);
        }
    }
}

/// Subscribes every item again. The lost record may have been the end of an item, which the engine
/// no longer has and does not report again. For an item that is still subscribed, nothing changes.
fn resubscribe_all(remote: &mut RemoteSubscriptions, base: &mut ClientState) {
    for (id, remote) in &mut remote.by_id {
        if remote.closing || remote.pause != Pause::No {
            continue;
        }
        let live = remote.items().filter(|(_, item)| {
            matches!(item.status, Status::Live) && !item.request_pending && item.handle.is_some()
        });
        let items: Vec<u32> = live.map(|(index, _)| index).collect();
        if !items.is_empty() {
            remote.ask(&items);
            for index in &items {
                if let Some(item) = remote.item_mut(*index) {
                    item.repeat_pending = true;
                }
            }
            base.own_requests
                .push(OwnRequest::Resume(Resume { remote: *id, items }));
        }
    }
}

impl Suspects {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends a COMPARE frame with the local state of suspect items. Returns false if there are
    /// none.
    pub(crate) fn send(
        &mut self,
        remote: &RemoteSubscriptions,
        connection: &mut Connection,
        page: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let epoch = connection.session().map(|session| session.epoch);
        let head = CompareHead {
            records_received: connection.receipt.acknowledge(),
        };
        let mut items = Vec::new();
        while let Some((subscription, handle)) = self.0.pop_front() {
            let remote = remote.get(subscription);
            if let Some(local) = remote.and_then(|remote| local_state(remote, handle, epoch)) {
                items.push(CompareItem {
                    subscription,
                    handle,
                    sequence: local.sequence,
                    digest: local.digest,
                });
            }
            if items.len() >= COMPARE_ITEMS_MAX || items.len() * ITEM_BYTES >= page {
                break;
            }
        }
        if items.is_empty() {
            return false;
        }
        let mut frame = CompareBuilder::begin(out, 0, &head);
        items.iter().for_each(|item| frame.push(item));
        frame.finish(false);
        true
    }
}

/// Compares the digests of a CHECK frame with those of the local items.
pub(crate) fn handle_check(
    subscriptions: &mut Subscriptions,
    connection: &Connection,
    frame: &Frame<'_>,
) -> Result<(), Disconnect> {
    let epoch = connection.session().map(|session| session.epoch);
    let suspects = &mut subscriptions.suspects.0;
    for chunk in Check::decode(frame)? {
        let chunk = chunk?;
        let Some(remote) = subscriptions.remote.get(chunk.subscription) else {
            continue;
        };
        let handles = chunk.handles.iter();
        let local = handles.map(|handle| local_state(remote, *handle, epoch));
        let sum = local.reduce(|sum, local| Some(sum?.plus(local?)));
        if sum.flatten().is_some_and(|sum| sum.digest == chunk.digest) {
            continue;
        }
        let live_handles = chunk.handles.iter();
        let live_handles = live_handles.filter(|handle| live(remote, **handle).is_some());
        for handle in live_handles {
            // A queue with more entries than there are items would contain duplicates.
            if suspects.len() <= subscriptions.items {
                suspects.push_back((chunk.subscription, *handle));
            }
        }
    }
    Ok(())
}

pub(crate) fn handle_repaired(
    subscriptions: &mut Subscriptions,
    base: &mut ClientState,
    now: Tick,
    frame: &Frame<'_>,
) -> Result<(), Disconnect> {
    let records = Updates::decode_repaired(frame)?;
    let arrival = base.connection.arrival(now)?;
    base.connection.receipt.count_bytes(frame.payload().len());
    let subscription = records.subscription();
    for record in records {
        let record = record?;
        let record_digest = digest::of_position(record.handle, record.sequence);
        base.connection.receipt.count_records(1, record_digest);
        repair(subscriptions, base, &arrival, subscription, &record)?;
    }
    Ok(())
}

fn repair(
    subscriptions: &mut Subscriptions,
    base: &mut ClientState,
    arrival: &Arrival,
    subscription: u32,
    record: &UpdateRecord<'_>,
) -> Result<(), Disconnect> {
    let Subscriptions { remote, list, .. } = subscriptions;
    let Some(remote) = remote.get_mut(subscription) else {
        return Ok(());
    };
    let Some(local) = local_state(remote, record.handle, Some(arrival.epoch)) else {
        return Ok(());
    };
    let remainder = remote.remainder();
    let index = remote.index_of_handle(record.handle);
    let Some(item) = index.and_then(|index| remote.item_mut(index)) else {
        return Ok(());
    };
    let data_type = item.data_type.as_ref().unwrap_or(&DataType::Bool);
    let value = record.value.map(|bytes| decode_exact(data_type, bytes));
    let value = value.transpose().map_err(|error| not_valid(&error))?;
    let received = arrival.receive(record, value, true);
    let is_correct = local.sequence == record.sequence
        && local.digest == received.digest(record.handle)
        && item.copy.is_some();
    let bytes = record.value.map_or(0, <[u8]>::len);
    let has_space = |target: &Target| {
        let target = list.at(target.subscription);
        target.is_none_or(|subscription| subscription.has_space(bytes))
    };
    if is_correct || !item.targets.iter().all(has_space) {
        return Ok(());
    }
    // Under `all`, all updates that were sent and lost have used credit, including this one.
    let is_newer = received.position().sequence > local.sequence;
    let lost = match is_newer && item.next == Next::Update {
        true => item
            .account
            .unexplained(received.position())
            .saturating_add(1),
        false => 0,
    };
    item.next = Next::Update;
    let position = Position {
        sequence: record.sequence,
        ..received.position()
    };
    let missed = item.account.repair(position, remainder);
    let replaces_update = item.copy.as_ref().is_some_and(Received::is_update);
    // Messages never exceed 4 GiB.
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    let received = item.copy.insert(received);
    for target in item.targets.iter() {
        if let Some(subscription) = list.at_mut(target.subscription) {
            let delivery = Delivery {
                received,
                missed: missed.clone(),
                bytes,
                credit: 0,
                replaces_update,
            };
            subscription.deliver(target.item, delivery);
            subscription.ledger.repaired += 1;
        }
    }
    if remote.count_taken(u32::try_from(lost).unwrap_or(u32::MAX)) {
        base.connection.receipt.schedule_grant(subscription);
    }
    base.connection.counters.repaired += 1;
    base.changes += 1;
    Ok(())
}

/// Approximate size in bytes of an item in a COMPARE frame.
const ITEM_BYTES: usize = 16;

/// The sequence number and the digest of an item's last local update, 0 if there is none; or a sum
/// of digests.
#[derive(Clone, Copy, Default)]
struct LocalState {
    sequence: u64,
    digest: u64,
}

impl LocalState {
    fn plus(self, other: LocalState) -> LocalState {
        LocalState {
            sequence: 0,
            digest: self.digest.wrapping_add(other.digest),
        }
    }
}

/// Returns the local state of an item within the engine's epoch; `None` if the item is not
/// subscribed.
fn local_state(remote: &RemoteSubscription, handle: u32, epoch: Option<u64>) -> Option<LocalState> {
    let item = live(remote, handle)?;
    let copy = item.copy.as_ref();
    // The copy survives a replacement of the engine, but the account then starts again.
    let is_from_this_engine = item.account.position().is_some();
    let copy = copy.filter(|copy| is_from_this_engine && Some(copy.position().epoch) == epoch);
    Some(copy.map_or(LocalState::default(), |copy| LocalState {
        sequence: copy.position().sequence,
        digest: copy.digest(handle),
    }))
}

fn live(remote: &RemoteSubscription, handle: u32) -> Option<&RemoteItem> {
    let item = remote.item_by_handle(handle)?;
    matches!(item.status, Status::Live).then_some(item)
}
