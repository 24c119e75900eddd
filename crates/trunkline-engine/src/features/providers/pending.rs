//! The list of providers, and their unanswered writes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::time::Duration;

use trunkline_types::{Tick, Value};

use super::{DetachedProvider, NameTaken, PROVIDER_PENDING_MAX, Provider};
use crate::delivery::mail::{ProviderId, Ticket};
use crate::sync::{Arc, Mutex, RwLock};
use crate::variable::Variable;
use crate::write::{Completion, WriteObserver};

pub(crate) enum SendFailure {
    Busy { provider: Arc<str>, pending: usize },
    Gone { provider: Arc<str> },
}

/// A request to the device of a variable, which its provider must answer.
pub(crate) enum DeviceRequest {
    Write(Value),
    Read,
}

/// The parties to inform of the outcome of a write or request.
#[derive(Default)]
pub(crate) struct Waiting {
    pub(crate) completion: Option<Completion>,
    pub(crate) observer: Option<Box<dyn WriteObserver>>,
    /// Session of the writer; 0 for a request without a value.
    pub(crate) writer: u32,
}

pub struct ProviderTable {
    slots: RwLock<Vec<ProviderSlot>>,
    pending: Mutex<Pending>,
    /// Detached providers whose variables must still be marked, in the order of detachment. Locked
    /// before a variable.
    pub(super) ended: Mutex<VecDeque<DetachedProvider>>,
    timeout: Duration,
}

struct ProviderSlot {
    name: Arc<str>,
    /// `None` while the provider is not running. The slot and its name remain for error messages.
    provider: Option<Arc<dyn Provider>>,
    is_source: bool,
    is_process: bool,
    /// Owns the variables that name a provider of this name, but that the running one has no right
    /// to provide. It never runs.
    is_withheld: bool,
}

pub(super) struct Named {
    pub(super) index: usize,
    pub(super) name: Arc<str>,
    pub(super) provider: Option<Arc<dyn Provider>>,
}

#[derive(Default)]
struct Pending {
    last_number: u64,
    writes: BTreeMap<Ticket, PendingWrite>,
    deadlines: BTreeSet<(Tick, Ticket)>,
    counts: BTreeMap<ProviderId, usize>,
}

pub(super) struct PendingWrite {
    pub(super) variable: Arc<Variable>,
    deadline: Tick,
    pub(super) waiting: Waiting,
}

impl Pending {
    fn remove(&mut self, ticket: Ticket) -> Option<PendingWrite> {
        let write = self.writes.remove(&ticket)?;
        self.deadlines.remove(&(write.deadline, ticket));
        if let Some(count) = self.counts.get_mut(&ticket.provider) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.counts.remove(&ticket.provider);
            }
        }
        Some(write)
    }

    fn remove_all(&mut self, tickets: Vec<Ticket>) -> Vec<(Ticket, PendingWrite)> {
        tickets
            .into_iter()
            .filter_map(|ticket| Some((ticket, self.remove(ticket)?)))
            .collect()
    }
}

impl fmt::Debug for ProviderTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self
            .slots
            .read()
            .iter()
            .map(|slot| Arc::clone(&slot.name))
            .collect();
        f.debug_struct("Providers")
            .field("names", &names)
            .finish_non_exhaustive()
    }
}

impl ProviderTable {
    pub(crate) fn new(timeout: Duration) -> Self {
        Self {
            slots: RwLock::new(Vec::new()),
            pending: Mutex::new(Pending::default()),
            ended: Mutex::new(VecDeque::new()),
            timeout,
        }
    }

    pub(super) fn is_pending(&self, ticket: Ticket) -> bool {
        self.pending.lock().writes.contains_key(&ticket)
    }

    pub(super) fn attach(&self, provider: Arc<dyn Provider>) -> usize {
        let mut slots = self.slots.write();
        slots.push(ProviderSlot {
            name: provider.name(),
            is_process: provider.is_process(),
            provider: Some(provider),
            is_source: false,
            is_withheld: false,
        });
        slots.len() - 1
    }

    /// Reserves a slot for a provider that runs in a separate process.
    pub(super) fn expect(&self, name: &str) {
        let mut slots = self.slots.write();
        if !slots
            .iter()
            .any(|slot| slot.is_source && *slot.name == *name)
        {
            slots.push(ProviderSlot {
                name: Arc::from(name),
                provider: None,
                is_source: true,
                is_process: true,
                is_withheld: false,
            });
        }
    }

    /// Returns the slot that owns the variables which a provider of this name has no right to
    /// provide. There is one slot per name.
    pub(super) fn withheld(&self, name: &Arc<str>) -> usize {
        let mut slots = self.slots.write();
        let place = slots
            .iter()
            .position(|slot| slot.is_withheld && slot.name == *name);
        place.unwrap_or_else(|| {
            slots.push(ProviderSlot {
                name: Arc::clone(name),
                provider: None,
                is_source: false,
                is_process: true,
                is_withheld: true,
            });
            slots.len() - 1
        })
    }

    pub(super) fn is_withheld(&self, index: usize) -> bool {
        let slots = self.slots.read();
        slots.get(index).is_some_and(|slot| slot.is_withheld)
    }

    /// Returns true if the provider runs, or ran, in a separate process.
    pub(crate) fn is_process(&self, index: usize) -> bool {
        self.slots
            .read()
            .get(index)
            .is_some_and(|slot| slot.is_process)
    }

    /// Adds a provider that variables name as their source, and returns its index.
    pub(super) fn attach_named(&self, provider: Arc<dyn Provider>) -> Result<usize, NameTaken> {
        let name = provider.name();
        let mut slots = self.slots.write();
        let is_taken =
            |slot: &ProviderSlot| slot.is_source && slot.provider.is_some() && slot.name == name;
        if slots.iter().any(is_taken) {
            return Err(NameTaken { name });
        }
        // A provider that returns gets its previous slot, because its variables still refer to it.
        let place = slots
            .iter()
            .position(|slot| slot.is_source && slot.name == name);
        let slot = ProviderSlot {
            name,
            is_process: provider.is_process(),
            provider: Some(provider),
            is_source: true,
            is_withheld: false,
        };
        match place.and_then(|place| Some((place, slots.get_mut(place)?))) {
            Some((place, existing)) => {
                *existing = slot;
                Ok(place)
            }
            None => {
                slots.push(slot);
                Ok(slots.len() - 1)
            }
        }
    }

    /// Returns the providers that variables name as their source: running, gone or expected.
    pub(super) fn named(&self) -> Vec<Named> {
        let slots = self.slots.read();
        let sources = slots.iter().enumerate().filter(|(_, slot)| slot.is_source);
        let named = sources.map(|(index, slot)| Named {
            index,
            name: Arc::clone(&slot.name),
            provider: slot.provider.clone(),
        });
        named.collect()
    }

    pub(super) fn detach(&self, id: ProviderId) -> Option<Arc<str>> {
        let mut slots = self.slots.write();
        let slot = slots.get_mut(id.0)?;
        slot.provider = None;
        Some(Arc::clone(&slot.name))
    }

    pub(super) fn take(&self, ticket: Ticket) -> Option<PendingWrite> {
        self.pending.lock().remove(ticket)
    }

    /// Records an order as unanswered, and passes it to its provider outside all locks.
    pub(crate) fn send(
        &self,
        index: usize,
        now: Tick,
        variable: &Arc<Variable>,
        device_request: DeviceRequest,
        waiting: Waiting,
    ) -> Result<(), SendFailure> {
        let handle = variable.handle();
        let (name, provider) = self.get(index);
        let Some(provider) = provider else {
            return Err(SendFailure::Gone { provider: name });
        };
        let ticket = {
            let mut pending = self.pending.lock();
            let id = ProviderId(index);
            let count = pending.counts.entry(id).or_default();
            if *count >= PROVIDER_PENDING_MAX {
                return Err(SendFailure::Busy {
                    provider: name,
                    pending: *count,
                });
            }
            *count += 1;
            pending.last_number += 1;
            let ticket = Ticket {
                number: pending.last_number,
                provider: id,
            };
            let deadline = now.saturating_add(self.timeout);
            pending.deadlines.insert((deadline, ticket));
            pending.writes.insert(
                ticket,
                PendingWrite {
                    variable: Arc::clone(variable),
                    deadline,
                    waiting,
                },
            );
            ticket
        };
        match device_request {
            DeviceRequest::Write(raw) => provider.send(ticket, handle, raw),
            DeviceRequest::Read => provider.request(Some(ticket), handle),
        }
        Ok(())
    }

    /// Returns a provider's name, and the provider itself while it is running.
    pub(crate) fn get(&self, index: usize) -> (Arc<str>, Option<Arc<dyn Provider>>) {
        let slots = self.slots.read();
        match slots.get(index) {
            Some(slot) => (Arc::clone(&slot.name), slot.provider.clone()),
            None => (Arc::from("an unknown provider"), None),
        }
    }

    pub(super) fn take_due(&self, now: Tick, limit: usize) -> Vec<(Ticket, PendingWrite)> {
        let mut pending = self.pending.lock();
        let due = pending
            .deadlines
            .iter()
            .take_while(|(deadline, _)| *deadline <= now);
        let due: Vec<Ticket> = due.map(|(_, ticket)| *ticket).take(limit).collect();
        pending.remove_all(due)
    }

    pub(super) fn take_all_of(&self, provider: ProviderId) -> Vec<(Ticket, PendingWrite)> {
        let mut pending = self.pending.lock();
        let all = pending
            .writes
            .keys()
            .filter(|ticket| ticket.provider == provider);
        let all: Vec<Ticket> = all.copied().collect();
        pending.remove_all(all)
    }

    pub(super) fn next_deadline(&self) -> Option<Tick> {
        self.pending
            .lock()
            .deadlines
            .first()
            .map(|(deadline, _)| *deadline)
    }
}
