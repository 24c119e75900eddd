//! Providers: whoever owns a variable's value outside the engine, such as an I/O server.
//!
//! A provider publishes values and is asked to take them. It is asked outside every lock through a
//! queue of its own, and answers when it can; a write waits for the answer or for its time-out, the
//! cell never shows what the device did not confirm.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;

use trunkline_types::{Quality, Reason, Tick, Timestamp, Value};

use crate::caller::Caller;
use crate::engine::Engine;
use crate::outbox::Wakes;
use crate::outcome::{Attempt, Refusal, UnknownCause, WriteOutcome};
use crate::sync::{Arc, Mutex, RwLock};
use crate::write::{Completion, Origin, Write, WriteValue, count_unknown, refused, requalify};

/// Writes that one provider may have unanswered; the next is refused.
pub const PROVIDER_PENDING_MAX: usize = 4096;
/// How long a provider may take to answer a write.
pub const PROVIDER_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);

/// A write that a provider has to answer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Ticket(u64);

/// What the engine asks of a provider. Called on the writer's thread: queue the order and return.
pub trait Provider: Send + Sync {
    /// For people: the name of the I/O server.
    fn name(&self) -> Arc<str>;
    /// Write `raw` to the device behind the variable `handle`, then call [`Engine::answer`].
    fn send(&self, ticket: Ticket, handle: u32, raw: Value);
    /// Publish a fresh value of the variable `handle` when it can be had.
    fn request(&self, handle: u32);
    /// One sentence about its present state when something is wrong with it.
    fn trouble(&self) -> Option<String>;
}

/// What a provider says to a write.
#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    /// Done; the device now holds this raw value.
    Applied(Value),
    /// Not done, and why, in a sentence.
    Refused(String),
}

/// Why an order could not be handed over.
pub(crate) enum SendFailure {
    Busy { provider: Arc<str>, pending: usize },
    Gone { provider: Arc<str> },
}

/// All providers of an engine and the writes they have not answered.
pub(crate) struct Providers {
    slots: RwLock<Vec<ProviderSlot>>,
    pending: Mutex<Pending>,
    timeout: Duration,
}

struct ProviderSlot {
    name: Arc<str>,
    /// `None` once it has gone; the slot and its name stay for the messages.
    provider: Option<Arc<dyn Provider>>,
}

#[derive(Default)]
struct Pending {
    last_ticket: u64,
    writes: HashMap<Ticket, PendingWrite>,
    deadlines: BTreeMap<(Tick, Ticket), ()>,
    /// Unanswered writes of each provider.
    counts: HashMap<usize, usize>,
}

struct PendingWrite {
    provider: usize,
    handle: u32,
    deadline: Tick,
    completion: Option<Completion>,
}

impl Pending {
    fn remove(&mut self, ticket: Ticket) -> Option<PendingWrite> {
        let write = self.writes.remove(&ticket)?;
        self.deadlines.remove(&(write.deadline, ticket));
        if let Some(count) = self.counts.get_mut(&write.provider) {
            *count = count.saturating_sub(1);
        }
        Some(write)
    }
}

impl fmt::Debug for Providers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.slots.read().iter().map(|slot| Arc::clone(&slot.name)).collect();
        f.debug_struct("Providers").field("names", &names).finish_non_exhaustive()
    }
}

impl Providers {
    pub(crate) fn new(timeout: Duration) -> Self {
        Self { slots: RwLock::new(Vec::new()), pending: Mutex::new(Pending::default()), timeout }
    }

    pub(crate) fn send(
        &self,
        index: usize,
        now: Tick,
        handle: u32,
        raw: Value,
        completion: Option<Completion>,
        _wakes: &mut Wakes,
    ) -> Result<(), SendFailure> {
        let (name, provider) = self.slot(index);
        let Some(provider) = provider else { return Err(SendFailure::Gone { provider: name }) };
        let ticket = {
            let mut pending = self.pending.lock();
            let count = pending.counts.entry(index).or_default();
            if *count >= PROVIDER_PENDING_MAX {
                return Err(SendFailure::Busy { provider: name, pending: *count });
            }
            *count += 1;
            pending.last_ticket += 1;
            let ticket = Ticket(pending.last_ticket);
            let deadline = now.saturating_add(self.timeout);
            pending.deadlines.insert((deadline, ticket), ());
            let write = PendingWrite { provider: index, handle, deadline, completion };
            pending.writes.insert(ticket, write);
            ticket
        };
        provider.send(ticket, handle, raw);
        Ok(())
    }

    fn slot(&self, index: usize) -> (Arc<str>, Option<Arc<dyn Provider>>) {
        let slots = self.slots.read();
        match slots.get(index) {
            Some(slot) => (Arc::clone(&slot.name), slot.provider.clone()),
            None => (Arc::from("an unknown provider"), None),
        }
    }

    pub(crate) fn get(&self, index: usize) -> (Arc<str>, Option<Arc<dyn Provider>>) {
        self.slot(index)
    }

    fn take_due(&self, now: Tick, limit: usize) -> Vec<PendingWrite> {
        let mut pending = self.pending.lock();
        let due: Vec<Ticket> = pending
            .deadlines
            .keys()
            .take_while(|(deadline, _)| *deadline <= now)
            .map(|(_, ticket)| *ticket)
            .take(limit)
            .collect();
        due.into_iter().filter_map(|ticket| pending.remove(ticket)).collect()
    }

    fn take_all_of(&self, provider: usize) -> Vec<PendingWrite> {
        let mut pending = self.pending.lock();
        let tickets: Vec<Ticket> = pending
            .writes
            .iter()
            .filter(|(_, write)| write.provider == provider)
            .map(|(ticket, _)| *ticket)
            .collect();
        tickets.into_iter().filter_map(|ticket| pending.remove(ticket)).collect()
    }

    fn next_deadline(&self) -> Option<Tick> {
        self.pending.lock().deadlines.keys().next().map(|(deadline, _)| *deadline)
    }
}

/// A provider's place in the engine; give it back with [`Engine::detach_provider`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProviderId(usize);

impl Engine {
    /// Makes `provider` the owner of these variables' values. Until it publishes, those that have no
    /// value yet stay `bad: no-value`.
    pub fn attach_provider(&self, provider: Arc<dyn Provider>, handles: &[u32]) -> ProviderId {
        let index = {
            let mut slots = self.providers().slots.write();
            slots.push(ProviderSlot { name: provider.name(), provider: Some(provider) });
            slots.len() - 1
        };
        for variable in handles.iter().filter_map(|handle| self.variable(*handle)) {
            variable.set_provider(Some(index));
        }
        ProviderId(index)
    }

    /// The provider has gone: its variables turn bad with the cause, and what it had not answered ends
    /// as unknown.
    pub fn detach_provider(
        &self,
        id: ProviderId,
        reason: Reason,
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) {
        let name = {
            let mut slots = self.providers().slots.write();
            let Some(slot) = slots.get_mut(id.0) else { return };
            slot.provider = None;
            Arc::clone(&slot.name)
        };
        for write in self.providers().take_all_of(id.0) {
            let cause = UnknownCause::ProviderGone { provider: Arc::clone(&name) };
            self.finish_unknown(write, cause, wakes);
        }
        self.for_each_variable(|variable| {
            if variable.provider_index() == Some(id.0) {
                requalify(variable, Quality::bad(reason), now, wall, wakes);
            }
        });
    }

    /// The provider's answer to a write. An answer that comes after its time-out changes nothing but
    /// the variable's value: the read-back is true whenever it arrives.
    pub fn answer(
        &self,
        ticket: Ticket,
        handle: u32,
        answer: Answer,
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) {
        let pending = self.providers().pending.lock().remove(ticket);
        let Some(variable) = self.variable(handle) else { return };
        let outcome = match answer {
            Answer::Applied(raw) => {
                let write = Write {
                    value: WriteValue::Value(&raw),
                    source_timestamp: None,
                    quality: None,
                    origin: Origin::SourceRaw,
                    completion: None,
                };
                let caller = Caller::engine();
                match self.try_write(&caller, now, wall, variable, &write, wakes) {
                    Attempt::Done(outcome) => outcome,
                    // The value is on the device; a full feed only delays its appearance here.
                    Attempt::WouldBlock { .. } | Attempt::Pending => {
                        WriteOutcome::Applied { sequence: variable.sequence() }
                    }
                }
            }
            Answer::Refused(reason) => {
                let Some(write) = &pending else { return };
                let (provider, _) = self.providers().slot(write.provider);
                match refused(variable, Refusal::Provider { provider, reason }) {
                    Attempt::Done(outcome) => outcome,
                    Attempt::WouldBlock { .. } | Attempt::Pending => return,
                }
            }
        };
        if let Some(completion) = pending.and_then(|write| write.completion) {
            completion.outbox.complete(completion.id, outcome);
            wakes.add(&completion.outbox);
        }
    }

    /// Asks the variable's provider for a fresh value. False when it has none that runs.
    pub fn request(&self, handle: u32) -> bool {
        let index = self.variable(handle).and_then(|variable| variable.provider_index());
        let provider = index.and_then(|index| self.providers().slot(index).1);
        if let Some(provider) = &provider {
            provider.request(handle);
        }
        provider.is_some()
    }

    /// Ends writes whose provider has taken too long; at most `limit` per call.
    pub(crate) fn expire_pending(&self, now: Tick, limit: usize, wakes: &mut Wakes) -> usize {
        let due = self.providers().take_due(now, limit);
        let count = due.len();
        for write in due {
            let (provider, _) = self.providers().slot(write.provider);
            self.finish_unknown(write, UnknownCause::ProviderTimedOut { provider }, wakes);
        }
        count
    }

    pub(crate) fn next_provider_deadline(&self) -> Option<Tick> {
        self.providers().next_deadline()
    }

    fn finish_unknown(&self, write: PendingWrite, cause: UnknownCause, wakes: &mut Wakes) {
        let Some(variable) = self.variable(write.handle) else { return };
        let outcome = count_unknown(variable, cause);
        if let Some(completion) = write.completion {
            completion.outbox.complete(completion.id, outcome);
            wakes.add(&completion.outbox);
        }
    }
}
