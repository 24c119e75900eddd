//! What the engine sends for subscriptions: updates, what was lost before them, and ends.

use std::sync::Arc;

use trunkline_proto::message::ended::{EndReason, Ended};
use trunkline_proto::message::handles::Handles;
use trunkline_proto::message::lost::LostRecords;
use trunkline_proto::message::record::UpdateRecord;
use trunkline_proto::message::results::Results;
use trunkline_proto::message::updates::Updates;
use trunkline_proto::{Disconnect, Fault, FaultCode, Frame};
use trunkline_types::{Contract, DataType, Position, Tick};

use crate::browse::answer_run;
use crate::client::ClientCore;
use crate::open::wrong_answer;
use crate::reading::Remainder;
use crate::request::{Request, Verb};
use crate::subscription::{Delivery, Notice, Subscription};
use crate::table::Slab;
use crate::wire::{Next, Pause, Status, WireItem, WireSubscription};

impl ClientCore {
    pub(crate) fn handle_updates(
        &mut self,
        now: Tick,
        frame: &Frame<'_>,
    ) -> Result<(), Disconnect> {
        let updates = Updates::decode(frame)?;
        self.connection.receipt.count_bytes(frame.payload().len());
        let mut wire = self.wires.by_id.remove(&updates.subscription());
        let mut result = Ok(());
        for record in updates {
            result = record.map_err(Disconnect::from).and_then(|record| {
                let receipt = &mut self.connection.receipt;
                receipt.count_record(record.handle, record.sequence);
                self.connection.counters.records += 1;
                match &mut wire {
                    Some(wire) => self.update(now, wire, &record),
                    None => {
                        self.connection.counters.skipped += 1;
                        Ok(())
                    }
                }
            });
            if result.is_err() {
                break;
            }
        }
        if let Some(wire) = wire {
            self.wires.by_id.insert(wire.terms.subscription, wire);
        }
        result
    }

    /// One update record, for the item that it is of.
    fn update(
        &mut self,
        now: Tick,
        wire: &mut WireSubscription,
        record: &UpdateRecord<'_>,
    ) -> Result<(), Disconnect> {
        let (between, life) = (wire.remainder(), wire.life);
        let wire_contract = wire.terms.contract;
        let index = wire.of_handle(record.handle);
        let live = index
            .and_then(|index| wire.item_mut(index))
            .filter(|item| item.takes_updates());
        let Some(item) = live else {
            self.connection.counters.skipped += 1;
            self.made_room(wire);
            return Ok(());
        };
        let next = std::mem::replace(&mut item.next, Next::Update);
        let bool_type = DataType::Bool;
        let data_type = item.data_type.as_ref().unwrap_or(&bool_type);
        let is_first = next != Next::Update;
        let mut received = self.connection.receive(now, record, data_type, is_first)?;
        received.own |= item.take_own(record.sequence);
        // What the variable held when it was subscribed comes beside the credit, and beside the
        // bound of `all` in bytes.
        let credit = if next == Next::First { 0 } else { life };
        let bytes = match (next, wire_contract) {
            (Next::First, Contract::All { .. }) => 0,
            _ => record.value.map_or(0, <[u8]>::len),
        };
        let remainder = if is_first {
            Remainder::Disconnect
        } else {
            between
        };
        let has_room = |subscription: &Subscription| subscription.has_room(bytes);
        let mut targets = item.targets.iter();
        if !targets.all(|target| {
            self.subscriptions
                .at(target.subscription)
                .is_none_or(has_room)
        }) {
            self.end_overrun(wire);
            return Ok(());
        }
        let Some(lost) = item.account.update(received.position, remainder) else {
            self.connection.counters.repeated += 1;
            if credit != 0 {
                self.made_room(wire);
            }
            return Ok(());
        };
        let mut delivery = Delivery {
            received: &received,
            lost,
            bytes,
            credit,
        };
        for target in &item.targets {
            if let Some(subscription) = self.subscriptions.at_mut(target.subscription) {
                subscription.deliver(target.item, &delivery);
                // However many items have the name, the engine sent one update.
                delivery.credit = 0;
            }
        }
        item.copy = Some(received);
        self.changes += 1;
        Ok(())
    }

    /// An update that will never be taken by the program makes room at once.
    fn made_room(&mut self, wire: &mut WireSubscription) {
        if wire.count_taken() {
            self.connection.receipt.grant_due(wire.terms.subscription);
        }
    }

    /// The program has too much waiting under `all`: the subscription ends here as it would have at
    /// the engine, and goes on from the last update that found room.
    fn end_overrun(&mut self, wire: &mut WireSubscription) {
        wire.pause = Pause::Overrun;
        let sentence: Arc<str> = Arc::from(
            "this program has not taken its updates and its bound is reached; it must \
                       take them faster or ask for a larger bound",
        );
        for (_, item) in wire.items_mut() {
            item.account.tell_end_here();
            end_item(
                &mut self.subscriptions,
                item,
                EndReason::Overrun,
                None,
                &sentence,
            );
        }
        let (wire, handles) = (wire.terms.subscription, Vec::new());
        self.requests.push(Verb::Unsubscribe { wire, handles });
    }

    pub(crate) fn handle_lost(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let records = LostRecords::decode(frame)?;
        let mut wire = self.wires.get_mut(records.subscription());
        for record in records {
            let record = record?;
            let Some(wire) = &mut wire else { continue };
            let item = wire
                .of_handle(record.handle)
                .and_then(|index| wire.item_mut(index));
            if let Some(item) = item {
                item.account.tell(&record);
            }
        }
        Ok(())
    }

    pub(crate) fn handle_ended(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let ended = Ended::decode(frame)?;
        let head = ended.head();
        let sentence: Arc<str> = match head.sentence {
            "" => Arc::from(head.reason.fault_code().meaning()),
            sentence => Arc::from(sentence),
        };
        for record in ended {
            let record = record?;
            let Some(wire) = self.wires.get_mut(head.subscription) else {
                continue;
            };
            if head.reason == EndReason::Overrun {
                wire.pause = Pause::Overrun;
            }
            let item = wire
                .of_handle(record.handle)
                .and_then(|index| wire.item_mut(index));
            let Some(item) = item else { continue };
            item.account.tell_end(record.lost);
            end_item(
                &mut self.subscriptions,
                item,
                head.reason,
                Some(record.lost),
                &sentence,
            );
            self.changes += 1;
        }
        if head.reason == EndReason::Gone {
            self.retry_failed_later();
        }
        Ok(())
    }

    pub(crate) fn handle_gone(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let fault = Fault::from(FaultCode::Gone);
        let sentence: Arc<str> = Arc::from(fault.sentence.as_str());
        for handle in Handles::decode(frame)? {
            let handle = handle?;
            let Some(variable) = self.variables.of_handle(handle) else {
                continue;
            };
            self.variables.refused(variable, &fault);
            let places = self
                .variables
                .get(variable)
                .map(|v| v.items.clone())
                .unwrap_or_default();
            for (wire, item) in places {
                let Some(item) = self.wires.item_mut(wire, item) else {
                    continue;
                };
                if item.handle != Some(handle) || !matches!(item.status, Status::Live) {
                    continue;
                }
                // The item stays known by its handle: another subscription's last updates may
                // follow.
                end_item(
                    &mut self.subscriptions,
                    item,
                    EndReason::Gone,
                    None,
                    &sentence,
                );
                self.changes += 1;
            }
        }
        self.retry_failed_later();
        Ok(())
    }

    pub(crate) fn handle_subscribed(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let results = Results::decode(frame)?;
        let Some((id, mut request)) = self.requests.answered_by(frame)? else {
            return Ok(());
        };
        let taken = self.take_subscribed(&mut request, results);
        self.settle_if(taken, id, request, frame)
    }

    fn take_subscribed(
        &mut self,
        request: &mut Request,
        results: Results<'_>,
    ) -> Result<(), Disconnect> {
        let (first, count) = (results.first_index(), results.answered());
        if !matches!(request.verb, Verb::Resume { .. }) {
            return Err(wrong_answer("SUBSCRIBED"));
        }
        let mut rest = answer_run(request, first, count)?;
        let Verb::Resume { wire, items } = &request.verb else {
            return Ok(());
        };
        let mut exceptions = Vec::new();
        for exception in results {
            let (index, fault) = exception?;
            exceptions.push((index, fault.to_fault()));
        }
        let mut exceptions = exceptions.into_iter().peekable();
        for index in &mut rest {
            let fault = exceptions
                .next_if(|(at, _)| *at == index)
                .map(|(_, fault)| fault);
            let Some(item) = items.get(index as usize) else {
                continue;
            };
            let next = Next::FirstResumed;
            self.item_opened(*wire, *item, next, fault.map_or(Ok(()), Err));
        }
        Ok(())
    }

    /// The engine has subscribed an item, or not.
    pub(crate) fn item_opened(
        &mut self,
        wire_id: u32,
        index: u32,
        next: Next,
        result: Result<(), Fault>,
    ) {
        let Self {
            wires,
            variables,
            subscriptions,
            ..
        } = self;
        let Some(wire) = wires.get_mut(wire_id) else {
            return;
        };
        let Some(item) = wire.item(index) else { return };
        let is_leaving = matches!(item.status, Status::Leaving);
        if !is_leaving && !matches!(item.status, Status::Opening) {
            return;
        }
        if let Err(fault) = result {
            let Some(item) = wire.item_mut(index) else {
                return;
            };
            if !is_leaving {
                fail_item(subscriptions, item, fault);
                self.changes += 1;
                self.retry_failed_later();
            }
            return;
        }
        let variable = variables.get(item.variable);
        let opened = variable.and_then(|v| Some((v.handle?, v.data_type.clone()?)));
        if let Some((handle, data_type)) = opened {
            wire.opened(index, handle, &data_type);
        }
        let Some(item) = wire.item_mut(index) else {
            return;
        };
        if !is_leaving {
            item.status = Status::Live;
        }
        if item.told.take().is_some() {
            self.retry_backoff.reset();
        }
        item.next = next;
    }
}

/// Ends an item, and tells everyone who wants it. An item that has ended for this reason stays as
/// it is.
fn end_item(
    subscriptions: &mut Slab<Subscription>,
    item: &mut WireItem,
    reason: EndReason,
    lost: Option<u64>,
    sentence: &Arc<str>,
) {
    if matches!(&item.status, Status::Ended(before) if *before == reason)
        || matches!(item.status, Status::Leaving)
    {
        return;
    }
    item.status = Status::Ended(reason);
    let last: Option<Position> = item.account.position();
    for target in &item.targets {
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

/// Notes why an item is not subscribed, and tells everyone who wants it, once per cause.
pub(crate) fn fail_item(subscriptions: &mut Slab<Subscription>, item: &mut WireItem, fault: Fault) {
    if item.told != Some(fault.code) {
        item.told = Some(fault.code);
        for target in &item.targets {
            if let Some(subscription) = subscriptions.at_mut(target.subscription) {
                subscription.notify(target.item, Notice::Fault(fault.clone()));
            }
        }
    }
    item.status = Status::Failed(Box::new(fault));
}
