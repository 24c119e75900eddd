//! Loss and restoration of variables and subscriptions across connections.
//!
//! ```text
//! the same epoch    every variable is opened again by its name, then every item is subscribed
//! behind
//!                   the last update it has: what was missed is counted exactly by the engine
//! another start     every item is opened and subscribed in one round trip: its next reading says
//!                   that an unknown number was lost
//! ```
//!
//! The client does not rely on the engine to keep a session: it subscribes everything again on each
//! connection. The hello names the last session, so that the engine can hand over what that one
//! left.
//!
//! Items that cannot be subscribed now, but may be later (the name does not exist yet, the library
//! is stopped), are retried together in one request. The first retry comes within 1 s; the waits
//! then grow to at most 60 s.

use std::time::Duration;

use trunkline_proto::{Backoff, Fault, FaultCode};
use trunkline_types::{Contract, Tick};

use crate::client::ClientCore;
use crate::delivery::fail_item;
use crate::request::{Ending, Page, Restore, Resume, Unsubscribe};
use crate::subscription::Subscription;
use crate::variable::VariableRef;
use crate::wire::{Pause, Status};

/// Upper bounds of the wait before failed items are retried: the first and the longest.
const RETRY_BASE: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(60);

/// Returns the backoff for failed items.
pub(crate) fn retry_backoff() -> Backoff {
    Backoff::new(RETRY_BASE, RETRY_MAX)
}

impl ClientCore {
    /// Drops all state of the lost connection.
    pub(crate) fn forget_connection(&mut self) {
        self.retry_at = None;
        self.resume_when_restored = false;
        self.variables.forget_handles();
        self.forget_suspects();
        let (others, unknown) = self.requests.disconnected();
        for (id, pending, fault) in unknown {
            self.end_request(id, pending, Some(fault));
        }
        for pending in others {
            // Their calls have ended: what they opened is released, and what they wrote is counted.
            let fault = pending.unknown_outcome();
            let fault = fault.unwrap_or_else(|| FaultCode::TimedOut.into());
            pending.request.abandoned(Ending {
                core: self,
                fault: Some(fault),
                wanted: false,
            });
        }
        let Self {
            wires, variables, ..
        } = self;
        for (id, wire) in &mut wires.by_id {
            wire.outstanding = 0;
            wire.items_mut().for_each(|(_, item)| item.not_asked());
            wire.begin_life();
            let leaving: Vec<u32> = wire
                .items()
                .filter_map(|(index, item)| item.targets.is_empty().then_some(index))
                .collect();
            for index in leaving {
                let Some(item) = wire.remove(index) else {
                    continue;
                };
                if let Some(variable) = variables.get_mut(item.variable) {
                    variable.items.retain(|place| *place != (*id, index));
                }
                variables.release(item.variable);
            }
        }
        wires.by_id.retain(|_, wire| !wire.closing);
    }

    /// Restores everything on a new connection, the first or a later one.
    pub(crate) fn restore(&mut self, same_epoch: bool) {
        self.retry_backoff.reset();
        let wires: Vec<u32> = self.wires.by_id.keys().copied().collect();
        let mut by_name = Vec::new();
        for id in wires {
            self.pause_for_backlog(id);
            let Some(wire) = self.wires.get_mut(id) else {
                continue;
            };
            wire.connected();
            let (pause, is_paused) = (wire.pause, wire.pause != Pause::No);
            if !same_epoch {
                wire.forget_handles();
            }
            let mut items = Vec::new();
            for (index, item) in wire.items_mut() {
                if !same_epoch {
                    item.forget_life();
                }
                if pause != Pause::Overrun {
                    item.status = Status::Opening;
                }
                if !is_paused {
                    items.push(index);
                }
            }
            if !same_epoch && !items.is_empty() {
                by_name.push((id, items));
            }
        }
        let opened_alone: Vec<VariableRef> = match same_epoch {
            true => self.variables.known(|_| true),
            false => self.variables.known(|items| {
                items.iter().all(|(wire, _)| {
                    self.wires
                        .get(*wire)
                        .is_none_or(|wire| wire.pause != Pause::No)
                })
            }),
        };
        if same_epoch || !opened_alone.is_empty() {
            self.requests
                .push_restoring(Restore(Page::new(opened_alone)));
        }
        for (id, items) in by_name {
            self.open_items(id, items, true);
        }
        self.resume_when_restored = same_epoch;
        if !same_epoch && self.connection.counters.connections > 1 {
            self.check_everything();
        }
    }

    /// Continues after the program's variables were reopened, as far as possible.
    pub(crate) fn restored(&mut self, page: &Page<()>, fault: &Fault) {
        for (variable, result) in page.variables.iter().zip(&page.results) {
            if result.is_none() {
                self.variables.refused(*variable, fault);
            }
        }
        if std::mem::take(&mut self.resume_when_restored) {
            let wires: Vec<u32> = self.wires.by_id.keys().copied().collect();
            for id in wires {
                if self
                    .wires
                    .get(id)
                    .is_some_and(|wire| wire.pause == Pause::No)
                {
                    self.resume(id);
                }
            }
            self.check_everything();
        }
    }

    /// Resumes a paused wire subscription, once the program has taken everything that waited.
    pub(crate) fn end_pause(&mut self, wire_id: u32) {
        let Some(wire) = self.wires.get_mut(wire_id) else {
            return;
        };
        if wire.pause == Pause::No {
            return;
        }
        wire.pause = Pause::No;
        wire.begin_life();
        for (_, item) in wire.items_mut() {
            if !matches!(item.status, Status::Failed(_)) {
                item.status = Status::Opening;
            }
        }
        if self.connection.is_open() && !self.resume_when_restored {
            self.resume(wire_id);
        }
    }

    /// Subscribes items that are not subscribed, starting after their last updates. Items without a
    /// handle are subscribed by name.
    fn resume(&mut self, wire_id: u32) {
        let Self {
            wires,
            variables,
            subscriptions,
            ..
        } = self;
        let Some(wire) = wires.get_mut(wire_id) else {
            return;
        };
        let (mut by_handle, mut by_name, mut refused) = (Vec::new(), Vec::new(), Vec::new());
        for (index, item) in wire.items() {
            if item.asked || !matches!(item.status, Status::Opening) {
                continue;
            }
            let Some(variable) = variables.get(item.variable) else {
                continue;
            };
            match (variable.handle, &variable.data_type, &variable.fault) {
                (Some(handle), Some(data_type), _) => {
                    by_handle.push((index, handle, data_type.clone()));
                }
                (_, _, Some(fault)) => refused.push((index, (**fault).clone())),
                _ => by_name.push(index),
            }
        }
        let has_refused = !refused.is_empty();
        for (index, fault) in refused {
            if let Some(item) = wire.item_mut(index) {
                fail_item(subscriptions, item, fault);
            }
        }
        let mut items = Vec::with_capacity(by_handle.len());
        for (index, handle, data_type) in by_handle {
            wire.opened(index, handle, &data_type);
            items.push(index);
        }
        if !items.is_empty() {
            wire.ask(&items);
            self.requests.push(Resume {
                wire: wire_id,
                items,
            });
        }
        if !by_name.is_empty() {
            self.open_items(wire_id, by_name, false);
        }
        if has_refused {
            self.changes += 1;
            self.retry_failed_later();
        }
    }

    /// Ends a request about items of a wire subscription. Items without an answer get the fault.
    pub(crate) fn items_answered(&mut self, wire_id: u32, items: &[u32], fault: &Fault) {
        let Self {
            wires,
            variables,
            subscriptions,
            ..
        } = self;
        let Some(wire) = wires.get_mut(wire_id) else {
            return;
        };
        wire.outstanding = wire.outstanding.saturating_sub(1);
        let (mut handles, mut failed, mut may_retry) = (Vec::new(), false, false);
        for index in items {
            let Some(item) = wire.item_mut(*index) else {
                continue;
            };
            item.not_asked();
            match item.status {
                Status::Opening => {
                    fail_item(subscriptions, item, fault.clone());
                    failed = true;
                }
                Status::Leaving => {
                    handles.extend(item.handle);
                    let variable = item.variable;
                    wire.remove(*index);
                    if let Some(known) = variables.get_mut(variable) {
                        known.items.retain(|place| *place != (wire_id, *index));
                    }
                    variables.release(variable);
                }
                // Its retry may have come due while the request was pending.
                _ => may_retry |= item.may_retry(),
            }
        }
        let is_over = wire.closing && wire.outstanding == 0;
        if is_over {
            wires.by_id.remove(&wire_id);
            self.requests.push(Unsubscribe {
                wire: wire_id,
                handles: Vec::new(),
            });
        } else if !handles.is_empty() {
            self.requests.push(Unsubscribe {
                wire: wire_id,
                handles,
            });
        }
        if failed {
            self.changes += 1;
        }
        if failed || may_retry {
            self.retry_failed_later();
        }
    }

    /// Requests a retry of the items that failed and may succeed later.
    pub(crate) fn retry_failed_later(&mut self) {
        self.retry_wanted = true;
    }

    /// Sets the timer for failed items. Called once per batch of input.
    pub(crate) fn plan_retry(&mut self, now: Tick) {
        if !std::mem::take(&mut self.retry_wanted) || self.retry_at.is_some() {
            return;
        }
        let mut wires = self.wires.by_id.values();
        if wires.any(|wire| wire.items().any(|(_, item)| item.may_retry())) {
            let wait = self.retry_backoff.next(self.connection.random(), None);
            self.retry_at = Some(now.saturating_add(wait));
        }
    }

    /// Retries failed items if the timer is due.
    pub(crate) fn retry_failed(&mut self, now: Tick) {
        if self.retry_at.is_none_or(|due| now < due) {
            return;
        }
        self.retry_at = None;
        let wires: Vec<u32> = self.wires.by_id.keys().copied().collect();
        for id in wires {
            let Some(wire) = self.wires.get_mut(id) else {
                continue;
            };
            if wire.closing || wire.pause != Pause::No {
                continue;
            }
            let mut items = Vec::new();
            for (index, item) in wire.items_mut() {
                if item.may_retry() {
                    item.status = Status::Opening;
                    items.push(index);
                }
            }
            if !items.is_empty() {
                self.open_items(id, items, false);
            }
        }
    }

    /// Pauses an `all` subscription whose backlog exceeds its bound, because the engine's bound
    /// starts afresh with every connection.
    fn pause_for_backlog(&mut self, wire_id: u32) {
        let Some(wire) = self.wires.get_mut(wire_id) else {
            return;
        };
        let Contract::All { elements, .. } = wire.terms.contract else {
            return;
        };
        let owner = wire.owner.and_then(|owner| self.subscriptions.at(owner));
        let waiting = owner.map_or(0, Subscription::readings_waiting);
        if wire.pause == Pause::No && waiting > u64::from(elements) {
            wire.pause = Pause::Backlog;
        }
    }
}
