//! Restores variables and subscriptions after the loss of a connection.
//!
//! ```text
//! the same epoch    Every variable is opened again by its name. Then every item is subscribed
//!                   from its last update on, and the engine counts exactly the missed updates.
//! another epoch     Every item is opened and subscribed in one round trip. Its next reading
//!                   reports an unknown number of lost updates.
//! ```
//!
//! The client does not rely on the engine to keep a session: it subscribes everything again on each
//! connection. The hello names the last session, so that the engine can send the backlog of that
//! session.
//!
//! Some items cannot be subscribed now but may be later, because a name does not exist yet or a
//! library is stopped. They are retried together in one request. The first retry follows within 1
//! s, and later delays grow to at most 60 s.

use std::time::Duration;

use trunkline_proto::{Backoff, Fault};
use trunkline_types::{Contract, Tick};

use super::Subscriptions;
use super::convergence::{Suspects, check_everything};
use super::delivery::{fail_item, note_handle};
use super::remote::{Pause, RemoteSubscription, Status};
use super::subscription::Subscription;
use crate::ask::{OwnRequest, Restore, Resume, Unsubscribe};
use crate::client_state::ClientState;
use crate::variables::VariableRef;
use crate::variables::page::Page;

/// First and longest upper limit of the delay before failed items are retried.
const RETRY_BASE: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(60);

/// The retry of items that failed and may succeed later.
#[derive(Debug)]
pub(crate) struct Retry {
    /// Time of the next retry.
    pub(crate) at: Option<Tick>,
    pub(crate) is_wanted: bool,
    backoff: Backoff,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            at: None,
            is_wanted: false,
            backoff: Backoff::new(RETRY_BASE, RETRY_MAX),
        }
    }
}

impl Retry {
    /// Requests a retry. [`Subscriptions::plan_retry`] sets its time.
    pub(crate) fn later(&mut self) {
        self.is_wanted = true;
    }

    /// Sets the delay before the next retry to its minimum again.
    pub(crate) fn reset(&mut self) {
        self.backoff.reset();
    }
}

impl Subscriptions {
    pub(crate) fn connection_lost(&mut self, base: &mut ClientState) {
        self.retry.at = None;
        self.resume_when_restored = false;
        // The engine has no comparison of these items in progress any more.
        self.suspects = Suspects::default();
        for id in self.remote.ids() {
            let Some(remote) = self.remote.get_mut(id) else {
                continue;
            };
            remote.outstanding = 0;
            remote
                .items_mut()
                .for_each(|(_, item)| item.request_ended());
            remote.begin_credit_period();
            let leaving: Vec<u32> = remote
                .items()
                .filter_map(|(index, item)| item.targets.is_empty().then_some(index))
                .collect();
            for index in leaving {
                self.remote.remove_item(&mut base.variables, id, index);
            }
        }
        self.remote.by_id.retain(|_, remote| !remote.closing);
    }

    /// Restores all subscriptions on a new connection, which may be the first one.
    pub(crate) fn restore(&mut self, base: &mut ClientState, same_epoch: bool) {
        self.retry.reset();
        let mut by_name = Vec::new();
        for id in self.remote.ids() {
            self.pause_for_backlog(id);
            let Some(remote) = self.remote.get_mut(id) else {
                continue;
            };
            remote.connected();
            let (pause, is_paused) = (remote.pause, remote.pause != Pause::No);
            if !same_epoch {
                remote.forget_handles();
            }
            let mut items = Vec::new();
            for (index, item) in remote.items_mut() {
                if !same_epoch {
                    item.forget_engine_state();
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
        let is_paused = |id: u32| {
            self.remote
                .get(id)
                .is_none_or(|remote| remote.pause != Pause::No)
        };
        let to_open: Vec<VariableRef> = match same_epoch {
            true => base.variables.opened_or_subscribed(|_| true),
            false => {
                let all_paused = |items: &[(u32, u32)]| items.iter().all(|(id, _)| is_paused(*id));
                base.variables.opened_or_subscribed(all_paused)
            }
        };
        if same_epoch || !to_open.is_empty() {
            let restore = Restore(Page::new(to_open));
            base.own_requests.push_first(OwnRequest::Restore(restore));
        }
        for (id, items) in by_name {
            self.open_items(base, id, items, true);
        }
        self.resume_when_restored = same_epoch;
        if !same_epoch && base.connection.counters.connections > 1 {
            check_everything(&self.remote, base);
        }
    }

    /// Continues after the engine has opened the variables again, or some of them.
    pub(crate) fn restored(&mut self, base: &mut ClientState, page: &Page<()>, fault: &Fault) {
        for (variable, result) in page.variables.iter().zip(&page.results) {
            if result.is_none() {
                base.variables.refused(*variable, fault);
            }
        }
        if std::mem::take(&mut self.resume_when_restored) {
            for id in self.remote.ids() {
                let remote = self.remote.get(id);
                if remote.is_some_and(|remote| remote.pause == Pause::No) {
                    self.resume(base, id);
                }
            }
            check_everything(&self.remote, base);
        }
    }

    /// Resumes a paused remote subscription after the program has taken all queued events.
    pub(crate) fn end_pause(&mut self, base: &mut ClientState, remote_id: u32) {
        let Some(remote) = self.remote.get_mut(remote_id) else {
            return;
        };
        if remote.pause == Pause::No {
            return;
        }
        remote.pause = Pause::No;
        remote.begin_credit_period();
        for (_, item) in remote.items_mut() {
            if !matches!(item.status, Status::Failed(_)) {
                item.status = Status::Opening;
            }
        }
        if base.connection.is_open() && !self.resume_when_restored {
            self.resume(base, remote_id);
        }
    }

    /// Subscribes the items that are not subscribed, from their last updates on. Items without a
    /// handle are subscribed by name.
    fn resume(&mut self, base: &mut ClientState, remote_id: u32) {
        let Some(remote) = self.remote.get_mut(remote_id) else {
            return;
        };
        let (mut by_handle, mut by_name, mut refused) = (Vec::new(), Vec::new(), Vec::new());
        for (index, item) in remote.items() {
            if item.request_pending || !matches!(item.status, Status::Opening) {
                continue;
            }
            let Some(variable) = base.variables.get(item.variable) else {
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
            if let Some(item) = remote.item_mut(index) {
                fail_item(&mut self.list, item, fault);
            }
        }
        let mut items = Vec::with_capacity(by_handle.len());
        for (index, handle, data_type) in by_handle {
            note_handle(&mut self.list, remote, index, handle, &data_type);
            items.push(index);
        }
        if !items.is_empty() {
            remote.ask(&items);
            base.own_requests.push(OwnRequest::Resume(Resume {
                remote: remote_id,
                items,
            }));
        }
        if !by_name.is_empty() {
            self.open_items(base, remote_id, by_name, false);
        }
        if has_refused {
            base.changes += 1;
            self.retry.later();
        }
    }

    /// Ends a request about items of a remote subscription. Unanswered items get the fault.
    pub(crate) fn items_answered(
        &mut self,
        base: &mut ClientState,
        remote_id: u32,
        items: &[u32],
        fault: &Fault,
    ) {
        let (mut handles, mut failed, mut may_retry) = (Vec::new(), false, false);
        for index in items {
            let Some(item) = self.remote.item_mut(remote_id, *index) else {
                continue;
            };
            item.request_ended();
            match item.status {
                Status::Opening => {
                    fail_item(&mut self.list, item, fault.clone());
                    failed = true;
                }
                Status::Leaving => {
                    handles.extend(item.handle);
                    self.remote
                        .remove_item(&mut base.variables, remote_id, *index);
                }
                // The time of the retry may have come while the request was pending.
                _ => may_retry |= item.may_retry(),
            }
        }
        let Some(remote) = self.remote.get_mut(remote_id) else {
            return;
        };
        remote.outstanding = remote.outstanding.saturating_sub(1);
        let is_over = remote.closing && remote.outstanding == 0;
        if is_over {
            self.remote.by_id.remove(&remote_id);
            handles.clear();
        }
        if is_over || !handles.is_empty() {
            base.own_requests.push(OwnRequest::Unsubscribe(Unsubscribe {
                remote: remote_id,
                handles,
            }));
        }
        if failed {
            base.changes += 1;
        }
        if failed || may_retry {
            self.retry.later();
        }
    }

    /// Sets the time of the retry of failed items. This is called once per batch of input.
    pub(crate) fn plan_retry(&mut self, base: &mut ClientState, now: Tick) {
        self.retry.is_wanted = false;
        if self.retry.at.is_some() {
            return;
        }
        let may_retry =
            |remote: &RemoteSubscription| remote.items().any(|(_, item)| item.may_retry());
        if self.remote.by_id.values().any(may_retry) {
            let wait = self.retry.backoff.next(base.connection.random(), None);
            self.retry.at = Some(now.saturating_add(wait));
        }
    }

    /// Retries failed items if the retry is due.
    pub(crate) fn retry_failed(&mut self, base: &mut ClientState, now: Tick) {
        if self.retry.at.is_none_or(|due| now < due) {
            return;
        }
        self.retry.at = None;
        for id in self.remote.ids() {
            let Some(remote) = self.remote.get_mut(id) else {
                continue;
            };
            if remote.closing || remote.pause != Pause::No {
                continue;
            }
            let mut items = Vec::new();
            for (index, item) in remote.items_mut() {
                if item.may_retry() {
                    item.status = Status::Opening;
                    items.push(index);
                }
            }
            if !items.is_empty() {
                self.open_items(base, id, items, false);
            }
        }
    }

    /// Pauses an `all` subscription whose queue exceeds its bound, because the engine counts the
    /// bound from 0 again on every connection.
    fn pause_for_backlog(&mut self, remote_id: u32) {
        let Some(remote) = self.remote.get_mut(remote_id) else {
            return;
        };
        let Contract::All { elements, .. } = remote.terms.contract else {
            return;
        };
        let owner = remote.owner.and_then(|owner| self.list.at(owner));
        let waiting = owner.map_or(0, Subscription::readings_waiting);
        if remote.pause == Pause::No && waiting > u64::from(elements) {
            remote.pause = Pause::Backlog;
        }
    }
}
