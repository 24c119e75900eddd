//! Handles the engine's frames about subscriptions: updates, losses and ends.

use std::sync::Arc;

use trunkline_proto::message::ended::{EndReason, Ended};
use trunkline_proto::message::handles::Handles;
use trunkline_proto::message::lost::LostRecords;
use trunkline_proto::message::record::UpdateRecord;
use trunkline_proto::message::updates::Updates;
use trunkline_proto::{Disconnect, Fault, FaultCode, Frame, digest};
use trunkline_types::wire::decode_exact;
use trunkline_types::{Contract, DataType, Position, Tick};

use super::Subscriptions;
use super::remote::account::Remainder;
use super::remote::{Next, Pause, RemoteItem, RemoteSubscription, Status, Target};
use super::subscription::{Delivery, Notice, Subscription};
use crate::ask::{OwnRequest, Unsubscribe};
use crate::client_state::ClientState;
use crate::table::{Few, Slab};
use crate::variables::reading::{Arrival, Received, not_valid};

impl Subscriptions {
    pub(crate) fn handle_updates(
        &mut self,
        base: &mut ClientState,
        now: Tick,
        frame: &Frame<'_>,
    ) -> Result<(), Disconnect> {
        let updates = Updates::decode(frame)?;
        let arrival = base.connection.arrival(now)?;
        let ClientState {
            connection,
            own_requests,
            changes,
            ..
        } = base;
        let subscriptions = &mut self.list;
        connection.receipt.count_bytes(frame.payload().len());
        let mut remote = self.remote.get_mut(updates.subscription());
        let terms = remote.as_ref().map(|remote| RunTerms::of(remote));
        let (mut records, mut returned_credit, mut digest_sum) = (0, 0_u32, 0_u64);
        let counters = &mut connection.counters;
        let result = updates.into_iter().try_for_each(|record| {
            let record = record?;
            records += 1;
            digest_sum =
                digest_sum.wrapping_add(digest::of_position(record.handle, record.sequence));
            let (Some(remote), Some(terms)) = (&mut remote, &terms) else {
                counters.skipped += 1;
                return Ok(());
            };
            match update(remote, subscriptions, terms, &arrival, &record)? {
                Fate::Delivered { lost } => {
                    *changes += 1;
                    returned_credit = returned_credit.saturating_add(lost);
                }
                Fate::Unneeded { used_credit } => {
                    counters.skipped += 1;
                    returned_credit += u32::from(used_credit);
                }
                Fate::Repeated { used_credit } => {
                    counters.repeated += 1;
                    returned_credit += u32::from(used_credit);
                }
                Fate::QueueFull => {
                    own_requests.push(end_overrun(remote, subscriptions));
                }
            }
            Ok(())
        });
        counters.records += records;
        connection.receipt.count_records(records, digest_sum);
        // Credit of updates that the program will never take is returned at once.
        if let Some(remote) = remote
            && remote.count_taken(returned_credit)
        {
            connection.receipt.schedule_grant(remote.terms.subscription);
        }
        result
    }

    pub(crate) fn handle_lost(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let records = LostRecords::decode(frame)?;
        let mut remote = self.remote.get_mut(records.request());
        for record in records {
            let record = record?;
            let Some(remote) = &mut remote else { continue };
            let item = remote
                .index_of_handle(record.handle)
                .and_then(|index| remote.item_mut(index));
            if let Some(item) = item {
                item.account.add_losses(&record);
            }
        }
        Ok(())
    }

    pub(crate) fn handle_ended(
        &mut self,
        base: &mut ClientState,
        frame: &Frame<'_>,
    ) -> Result<(), Disconnect> {
        let ended = Ended::decode(frame)?;
        let (subscription, head) = (ended.request(), *ended.head());
        let sentence: Arc<str> = match head.sentence {
            "" => Arc::from(head.reason.fault_code().meaning()),
            sentence => Arc::from(sentence),
        };
        let mut was_repeated = false;
        for record in ended {
            let record = record?;
            base.connection.count_end(record.handle);
            let Some(remote) = self.remote.get_mut(subscription) else {
                continue;
            };
            let index = remote.index_of_handle(record.handle);
            if head.reason == EndReason::Overrun {
                let item = index.and_then(|index| remote.item_mut(index));
                if item.is_some_and(|item| item.ends_before_answer(record.lost)) {
                    // The overrun ended the previous subscription, and the next one was already
                    // requested. The answer to this request is still outstanding, and arrives
                    // before any update of the new subscription.
                    was_repeated = true;
                    continue;
                }
                remote.pause = Pause::Overrun;
            }
            let item = index.and_then(|index| remote.item_mut(index));
            let Some(item) = item else { continue };
            item.account.add_end(record.lost);
            end_item(
                &mut self.list,
                item,
                head.reason,
                Some(record.lost),
                &sentence,
            );
            base.changes += 1;
        }
        if was_repeated && let Some(remote) = self.remote.get_mut(subscription) {
            remote.begin_credit_period();
        }
        if head.reason == EndReason::Gone {
            self.retry.later();
        }
        Ok(())
    }

    pub(crate) fn handle_gone(
        &mut self,
        base: &mut ClientState,
        frame: &Frame<'_>,
    ) -> Result<(), Disconnect> {
        let fault = Fault::from(FaultCode::Gone);
        let sentence: Arc<str> = Arc::from(fault.sentence.as_str());
        for handle in Handles::decode(frame)? {
            let handle = handle?;
            base.connection.count_end(handle);
            let Some(variable) = base.variables.of_handle(handle) else {
                continue;
            };
            base.variables.refused(variable, &fault);
            let items = base.variables.get(variable).map(|variable| &variable.items);
            for (remote, item) in items.into_iter().flat_map(|items| items.iter()) {
                let Some(item) = self.remote.item_mut(*remote, *item) else {
                    continue;
                };
                if item.handle != Some(handle) || !matches!(item.status, Status::Live) {
                    continue;
                }
                // The item stays registered under its handle, because another subscription may
                // still receive the last updates.
                end_item(&mut self.list, item, EndReason::Gone, None, &sentence);
                base.changes += 1;
            }
        }
        self.retry.later();
        Ok(())
    }

    /// Handles the engine's answer to the subscription of an item.
    pub(crate) fn item_opened(
        &mut self,
        base: &mut ClientState,
        remote_id: u32,
        index: u32,
        next: Next,
        result: Result<(), Fault>,
    ) {
        let Some(remote) = self.remote.get_mut(remote_id) else {
            return;
        };
        let Some(item) = remote.item_mut(index) else {
            return;
        };
        item.repeat_pending = false;
        let is_leaving = matches!(item.status, Status::Leaving);
        // The live item was subscribed again, because the report of its end may have been lost.
        let has_ended = result.is_err() && matches!(item.status, Status::Live);
        if !is_leaving && !has_ended && !matches!(item.status, Status::Opening) {
            return;
        }
        if let Err(fault) = result {
            let Some(item) = remote.item_mut(index) else {
                return;
            };
            if !is_leaving {
                fail_item(&mut self.list, item, fault);
                base.changes += 1;
                self.retry.later();
            }
            return;
        }
        let variable = base.variables.get(item.variable);
        let opened = variable.and_then(|v| Some((v.handle?, v.data_type.clone()?)));
        if let Some((handle, data_type)) = opened {
            note_handle(&mut self.list, remote, index, handle, &data_type);
        }
        let Some(item) = remote.item_mut(index) else {
            return;
        };
        if !is_leaving {
            item.status = Status::Live;
        }
        if item.reported_fault.take().is_some() {
            self.retry.reset();
        }
        item.next = next;
    }
}

/// The result of an arriving update.
enum Fate {
    /// The update was delivered. `lost` updates before it were sent and lost, so their credit is
    /// returned.
    Delivered { lost: u32 },
    /// No item needs the update.
    Unneeded { used_credit: bool },
    /// The item already has the update.
    Repeated { used_credit: bool },
    /// The program's queue is full.
    QueueFull,
}

/// The terms of the subscription to which the updates of a frame belong.
struct RunTerms {
    is_all: bool,
    has_cells: bool,
    credit_period: u32,
}

impl RunTerms {
    fn of(remote: &RemoteSubscription) -> Self {
        Self {
            is_all: matches!(remote.terms.contract, Contract::All { .. }),
            has_cells: remote.has_cells(),
            credit_period: remote.credit_period,
        }
    }
}

#[inline(always)]
fn update(
    remote: &mut RemoteSubscription,
    subscriptions: &mut Slab<Subscription>,
    terms: &RunTerms,
    arrival: &Arrival,
    record: &UpdateRecord<'_>,
) -> Result<Fate, Disconnect> {
    let Some(item) = remote.item_of(record.handle) else {
        let used_credit = !remote.pass_first(record.handle);
        return Ok(Fate::Unneeded { used_credit });
    };
    let next = item.next;
    item.next = Next::Update;
    if !item.takes_updates() {
        let used_credit = next != Next::First;
        return Ok(Fate::Unneeded { used_credit });
    }
    let data_type = item.data_type.as_ref().unwrap_or(&DataType::Bool);
    let value = match record.value {
        Some(bytes) => match decode_exact(data_type, bytes) {
            Ok(value) => Some(value),
            Err(error) => return Err(not_valid(&error)),
        },
        None => None,
    };
    let is_own = !record.has_no_value_yet() && item.take_own(record.sequence);
    let (mut bytes, mut credit) = (record.value.map_or(0, <[u8]>::len), terms.credit_period);
    let mut remainder = match terms.has_cells {
        true => Remainder::Coalesced,
        false => Remainder::Unknown,
    };
    let is_first = next != Next::Update;
    if is_first {
        remainder = Remainder::Disconnect;
    }
    // The value sent when an item is subscribed does not count against the byte limit of `all`.
    // When the item is subscribed for the first time, the value does not use credit either.
    if is_first && terms.is_all {
        bytes = 0;
    }
    if next == Next::First {
        credit = 0;
    }
    if terms.is_all {
        let has_space = |target: &Target| {
            let subscription = subscriptions.at(target.subscription);
            subscription.is_none_or(|subscription| subscription.has_space(bytes))
        };
        let all_have_space = match &item.targets {
            Few::One(target) => has_space(target),
            targets => targets.iter().all(has_space),
        };
        if !all_have_space {
            return Ok(Fate::QueueFull);
        }
    }
    let position = Position {
        epoch: arrival.epoch,
        sequence: record.sequence,
    };
    let lost = match terms.is_all && !is_first {
        true => u32::try_from(item.account.unexplained(position)).unwrap_or(u32::MAX),
        false => 0,
    };
    // Only here does the position of a record replace the item's last position.
    let Some(missed) = item.account.update(position, remainder) else {
        return Ok(Fate::Repeated {
            used_credit: credit != 0,
        });
    };
    let replaces_update = item.copy.as_ref().is_some_and(Received::is_update);
    let received = item.copy.insert(arrival.receive(record, value, is_first));
    received.own |= is_own;
    // Messages never exceed 4 GiB.
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    if let Few::One(target) = &item.targets {
        if let Some(subscription) = subscriptions.at_mut(target.subscription) {
            let delivery = Delivery {
                received,
                missed,
                bytes,
                credit,
                replaces_update,
            };
            subscription.deliver(target.item, delivery);
        }
    } else {
        for target in item.targets.iter() {
            if let Some(subscription) = subscriptions.at_mut(target.subscription) {
                let delivery = Delivery {
                    received,
                    missed: missed.clone(),
                    bytes,
                    credit,
                    replaces_update,
                };
                subscription.deliver(target.item, delivery);
                // The engine sent a single update, even if several items have this name.
                credit = 0;
            }
        }
    }
    Ok(Fate::Delivered { lost })
}

/// Ends an `all` subscription because the program's queue is full. The effect is that of an overrun
/// at the engine: the subscription resumes after the last queued update.
#[cold]
fn end_overrun(
    remote: &mut RemoteSubscription,
    subscriptions: &mut Slab<Subscription>,
) -> OwnRequest {
    remote.pause = Pause::Overrun;
    let sentence: Arc<str> = Arc::from(
        "this program has not taken its updates fast enough, and its queue is full; take them \
         faster, or subscribe with a larger bound",
    );
    for (_, item) in remote.items_mut() {
        item.account.add_local_end();
        end_item(subscriptions, item, EndReason::Overrun, None, &sentence);
    }
    let (remote, handles) = (remote.terms.subscription, Vec::new());
    OwnRequest::Unsubscribe(Unsubscribe { remote, handles })
}

/// Ends an item and notifies every subscription that uses it. Does nothing if the item has already
/// ended for this reason.
fn end_item(
    subscriptions: &mut Slab<Subscription>,
    item: &mut RemoteItem,
    reason: EndReason,
    lost: Option<u64>,
    sentence: &Arc<str>,
) {
    if matches!(&item.status, Status::Ended(earlier) if *earlier == reason)
        || matches!(item.status, Status::Leaving)
    {
        return;
    }
    item.status = Status::Ended(reason);
    notify_end(subscriptions, item, reason, lost, sentence);
}

/// Notifies every subscription that uses an item that it has ended.
fn notify_end(
    subscriptions: &mut Slab<Subscription>,
    item: &mut RemoteItem,
    reason: EndReason,
    lost: Option<u64>,
    sentence: &Arc<str>,
) {
    item.is_gone |= reason == EndReason::Gone;
    let last: Option<Position> = item.account.position();
    for target in item.targets.iter() {
        if let Some(subscription) = subscriptions.at_mut(target.subscription) {
            let sentence = Arc::clone(sentence);
            subscription.notify(
                target.item,
                Notice::Ended {
                    reason,
                    last,
                    lost,
                    sentence,
                },
            );
        }
    }
}

/// Records the handle and the type of an item's variable. If the variable has replaced another one,
/// and the engine's report of that was lost with the connection, notifies every subscription that uses
/// the item.
pub(super) fn note_handle(
    subscriptions: &mut Slab<Subscription>,
    remote: &mut RemoteSubscription,
    index: u32,
    handle: u32,
    data_type: &DataType,
) {
    if let Some(item) = remote.item_mut(index)
        && item.was_replaced_unnoticed(handle)
    {
        let sentence = Arc::from(FaultCode::Gone.meaning());
        notify_end(subscriptions, item, EndReason::Gone, None, &sentence);
    }
    remote.opened(index, handle, data_type);
}

/// Records why an item is not subscribed. Notifies every subscription that uses the item once per
/// cause.
pub(super) fn fail_item(
    subscriptions: &mut Slab<Subscription>,
    item: &mut RemoteItem,
    fault: Fault,
) {
    if item.reported_fault != Some(fault.code) {
        item.reported_fault = Some(fault.code);
        for target in item.targets.iter() {
            if let Some(subscription) = subscriptions.at_mut(target.subscription) {
                subscription.notify(target.item, Notice::Fault(fault.clone()));
            }
        }
    }
    item.status = Status::Failed(Box::new(fault));
}
