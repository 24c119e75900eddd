//! Watched patterns: the matching names, and their changes (B-32).
//!
//! ```text
//! reported by the engine             reported to the program
//!    truth, per name    --- differ? ---> pending, in order   --> next_watch_event
//! ```
//!
//! Events are computed when they are taken, from the difference between the two states. At most one
//! event per name is pending, so the number of names bounds the memory even if the program takes no
//! events for a long time. After a reconnect the engine lists the names again, and only differences
//! are reported. While the connection is down, no name is reported as gone.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use trunkline_proto::message::watch::{Appeared, AppearedVariable, Listing, Vanished};
use trunkline_proto::{Disconnect, Fault, FaultCode, Frame};
use trunkline_types::{Access, DataType};

use crate::ask::{self, OwnRequest, Unwatch};
use crate::client_state::ClientState;
use crate::error::RequestError;
use crate::table::{Key, NameMap, NumberMap, Slab};

/// A watched pattern. It survives reconnects.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WatchId(pub(crate) Key);

/// An event of a watched pattern. Events are delivered in order.
#[derive(Clone, PartialEq, Debug)]
pub enum WatchEvent {
    /// A variable with this name exists: it was listed or is new.
    Appeared {
        /// The full name.
        name: Arc<str>,
        /// The type of its values.
        data_type: DataType,
        /// The access that the variable permits.
        access: Access,
    },
    /// No variable with this name exists any more.
    Gone {
        /// The full name.
        name: Arc<str>,
    },
    /// The listing of existing names is complete. Sent once on each connection, and again after
    /// more changes at once than the engine's log can hold.
    Listed,
    /// The engine refuses to watch the pattern, for this reason. The client asks again on the next
    /// connection.
    Failed(Fault),
}

#[derive(Debug, Default)]
pub(crate) struct Watches {
    list: Slab<Watch>,
    /// Watches by their number on the wire.
    by_number: NumberMap<u32, Key>,
    next_number: u32,
}

#[derive(Debug)]
struct Watch {
    pattern: Arc<str>,
    /// The watch's number on this connection; 0 if none.
    number: u32,
    names: NameMap<Entry>,
    /// Names by handle. Fields share the handle of their variable.
    by_handle: BTreeSet<(u32, Arc<str>)>,
    /// Increases with every connection. Entries with an older number are not confirmed on this
    /// connection.
    listing: u32,
    next_incarnation: u64,
    pending: BTreeMap<u64, Pending>,
    next_serial: u64,
    /// Serials in `pending` of the end of the listing and of a failure.
    listed: Option<u64>,
    failed: Option<u64>,
}

#[derive(Debug)]
enum Pending {
    Name(Arc<str>),
    Listed,
    Failed(Fault),
}

/// The state of one name.
#[derive(Debug, Default)]
struct Entry {
    truth: Option<Known>,
    /// The incarnation that was reported to the program.
    told: Option<u64>,
    pending: Option<u64>,
}

#[derive(Debug)]
struct Known {
    handle: u32,
    data_type: DataType,
    access: Access,
    /// Distinguishes successive variables with the same name.
    incarnation: u64,
    listing: u32,
}

impl Watches {
    /// Watches the names that match a pattern, across reconnects, until [`end`](Self::end).
    pub(crate) fn watch(
        &mut self,
        base: &mut ClientState,
        pattern: &str,
    ) -> Result<WatchId, RequestError> {
        let closed = |cause| RequestError::Closed { cause };
        base.connection.check_usable().map_err(closed)?;
        let key = self.list.insert(Watch::new(pattern));
        if base.connection.is_open() {
            self.send(base, key);
        }
        Ok(WatchId(key))
    }

    /// Ends a watch and drops its pending events. Returns its number on this connection; 0 if none.
    pub(crate) fn end(&mut self, id: WatchId) -> Option<u32> {
        let ended = self.list.remove(id.0)?;
        self.by_number.remove(&ended.number);
        Some(ended.number)
    }

    /// Takes the next event; `None` if nothing is pending.
    pub(crate) fn next_event(&mut self, id: WatchId) -> Option<WatchEvent> {
        self.list.get_mut(id.0)?.next()
    }

    /// Returns all names that currently match, as far as the engine has reported them, sorted.
    pub(crate) fn names(&self, id: WatchId) -> Vec<Arc<str>> {
        let watch = self.list.get(id.0);
        let names = watch.into_iter().flat_map(|watch| &watch.names);
        let mut names: Vec<Arc<str>> = names
            .filter_map(|(name, entry)| entry.truth.as_ref().map(|_| Arc::clone(name)))
            .collect();
        names.sort();
        names
    }

    fn send(&mut self, base: &mut ClientState, key: Key) {
        self.next_number = self.next_number.wrapping_add(1).max(1);
        let number = self.next_number;
        if let Some(watch) = self.list.get_mut(key) {
            watch.number = number;
            let pattern = Arc::clone(&watch.pattern);
            self.by_number.insert(number, key);
            base.own_requests.push(OwnRequest::Watch(ask::Watch {
                key,
                number,
                pattern,
            }));
            base.changes += 1;
        }
    }

    /// Requests the listing of every pattern on a new connection.
    pub(crate) fn restore(&mut self, base: &mut ClientState) {
        let keys: Vec<Key> = self.list.iter().map(|(key, _)| key).collect();
        for key in keys {
            self.send(base, key);
        }
    }

    pub(crate) fn connection_lost(&mut self) {
        self.by_number = NumberMap::default();
        for watch in self.list.values_mut() {
            watch.number = 0;
            watch.list_anew();
        }
    }

    pub(crate) fn refused(&mut self, base: &mut ClientState, key: Key, fault: Fault) {
        if let Some(watch) = self.list.get_mut(key) {
            watch.fail(fault);
            base.changes += 1;
        }
    }

    /// Handles names that the engine lists for a watch, or that are new. Returns true if the
    /// listing is complete.
    pub(crate) fn handle_appeared(
        &mut self,
        base: &mut ClientState,
        frame: &Frame<'_>,
    ) -> Result<bool, Disconnect> {
        let appeared = Appeared::decode(frame)?;
        let (number, listing) = (appeared.head().watch, appeared.head().listing);
        let is_complete = listing == Listing::Complete;
        let key = self.by_number.get(&number);
        let Some(watch) = key.and_then(|key| self.list.get_mut(*key)) else {
            // The watch was ended in the meantime.
            return Ok(is_complete);
        };
        if listing == Listing::Restarted {
            watch.list_anew();
        }
        for variable in appeared {
            watch.appeared(&variable?);
        }
        if is_complete {
            watch.listing_ends();
        }
        base.changes += 1;
        let max = base.options.items_max;
        if watch.names.len() > max {
            let sentence = format!(
                "the pattern matches more than {max} names, as many as this client takes; use a \
                 narrower one"
            );
            watch.forget_names();
            watch.fail(Fault::new(FaultCode::LimitReached, sentence));
            watch.number = 0;
            self.by_number.remove(&number);
            base.own_requests.push(OwnRequest::Unwatch(Unwatch(number)));
        }
        Ok(is_complete)
    }

    pub(crate) fn handle_vanished(
        &mut self,
        base: &mut ClientState,
        frame: &Frame<'_>,
    ) -> Result<(), Disconnect> {
        let vanished = Vanished::decode(frame)?;
        let key = self.by_number.get(&vanished.head().watch);
        let mut watch = key.and_then(|key| self.list.get_mut(*key));
        for handle in vanished {
            let handle = handle?;
            if let Some(watch) = &mut watch {
                watch.vanished(handle);
            }
        }
        base.changes += 1;
        Ok(())
    }
}

impl Watch {
    fn new(pattern: &str) -> Self {
        Self {
            pattern: Arc::from(pattern),
            number: 0,
            names: NameMap::default(),
            by_handle: BTreeSet::new(),
            listing: 0,
            next_incarnation: 0,
            pending: BTreeMap::new(),
            next_serial: 0,
            listed: None,
            failed: None,
        }
    }

    /// Begins a new listing, which must confirm the known names.
    fn list_anew(&mut self) {
        self.by_handle = BTreeSet::new();
        self.listing = self.listing.wrapping_add(1);
    }

    fn push(&mut self, pending: Pending) -> u64 {
        let serial = self.next_serial;
        self.next_serial += 1;
        self.pending.insert(serial, pending);
        serial
    }

    fn appeared(&mut self, variable: &AppearedVariable<'_>) {
        let name: Arc<str> = match self.names.get_key_value(variable.name) {
            Some((name, _)) => Arc::clone(name),
            None => Arc::from(variable.name),
        };
        let (listing, incarnation) = (self.listing, self.next_incarnation);
        let entry = self.names.entry(Arc::clone(&name)).or_default();
        // A name has only one handle at a time, even if the engine did not report the end of the
        // previous one.
        if let Some(before) = &entry.truth {
            self.by_handle.remove(&(before.handle, Arc::clone(&name)));
        }
        self.by_handle.insert((variable.handle, Arc::clone(&name)));
        let known = Known {
            handle: variable.handle,
            data_type: variable.data_type.clone(),
            access: variable.access,
            incarnation,
            listing,
        };
        match &mut entry.truth {
            // Known from the previous connection; nothing changes for the program.
            Some(before)
                if before.listing != listing
                    && before.data_type == known.data_type
                    && before.access == known.access =>
            {
                before.handle = known.handle;
                before.listing = listing;
                return;
            }
            truth => *truth = Some(known),
        }
        self.next_incarnation += 1;
        self.note(&name);
    }

    fn vanished(&mut self, handle: u32) {
        let empty: Arc<str> = Arc::from("");
        let from = (handle, Arc::clone(&empty));
        let to = handle
            .checked_add(1)
            .map_or(Bound::Unbounded, |next| Bound::Excluded((next, empty)));
        let of_it = self.by_handle.range((Bound::Included(from), to)).cloned();
        for (handle, name) in of_it.collect::<Vec<_>>() {
            self.by_handle.remove(&(handle, Arc::clone(&name)));
            if let Some(entry) = self.names.get_mut(&name)
                && entry
                    .truth
                    .as_ref()
                    .is_some_and(|known| known.handle == handle)
            {
                entry.truth = None;
                self.note(&name);
            }
        }
    }

    /// Completes the listing. Names from before that it does not contain no longer exist.
    fn listing_ends(&mut self) {
        let listing = self.listing;
        let mut missing = Vec::new();
        for (name, entry) in &mut self.names {
            if entry
                .truth
                .as_ref()
                .is_some_and(|known| known.listing != listing)
            {
                entry.truth = None;
                missing.push(Arc::clone(name));
            }
        }
        missing.sort();
        missing.iter().for_each(|name| self.note(name));
        if let Some(before) = self.listed.take() {
            self.pending.remove(&before);
        }
        self.listed = Some(self.push(Pending::Listed));
    }

    /// Removes all names and their pending events. The next connection lists all names again.
    fn forget_names(&mut self) {
        self.names = NameMap::default();
        self.by_handle = BTreeSet::new();
        self.pending = BTreeMap::new();
        (self.listed, self.failed) = (None, None);
    }

    fn fail(&mut self, fault: Fault) {
        if let Some(before) = self.failed.take() {
            self.pending.remove(&before);
        }
        self.failed = Some(self.push(Pending::Failed(fault)));
    }

    /// Queues an event for a name that may differ from what the program knows.
    fn note(&mut self, name: &Arc<str>) {
        let Some(entry) = self.names.get_mut(name) else {
            return;
        };
        if entry.truth.is_none() && entry.told.is_none() {
            // The name appeared and vanished before the program took the event.
            if let Some(entry) = self.names.remove(name)
                && let Some(serial) = entry.pending
            {
                self.pending.remove(&serial);
            }
        } else if entry.pending.is_none() {
            entry.pending = Some(self.next_serial);
            self.push(Pending::Name(Arc::clone(name)));
        }
    }

    fn next(&mut self) -> Option<WatchEvent> {
        while let Some((serial, pending)) = self.pending.pop_first() {
            let name = match pending {
                Pending::Listed => {
                    self.listed = None;
                    return Some(WatchEvent::Listed);
                }
                Pending::Failed(fault) => {
                    self.failed = None;
                    return Some(WatchEvent::Failed(fault));
                }
                Pending::Name(name) => name,
            };
            let Some(entry) = self.names.get_mut(&name) else {
                continue;
            };
            entry.pending = None;
            match (entry.told, &entry.truth) {
                (Some(told), Some(known)) if told == known.incarnation => {}
                (None, None) => {
                    self.names.remove(&name);
                }
                (Some(_), None) => {
                    self.names.remove(&name);
                    return Some(WatchEvent::Gone { name });
                }
                (Some(_), Some(_)) => {
                    // Another variable now has this name, and is reported next.
                    entry.told = None;
                    entry.pending = Some(serial);
                    self.pending
                        .insert(serial, Pending::Name(Arc::clone(&name)));
                    return Some(WatchEvent::Gone { name });
                }
                (None, Some(known)) => {
                    entry.told = Some(known.incarnation);
                    return Some(WatchEvent::Appeared {
                        data_type: known.data_type.clone(),
                        access: known.access,
                        name,
                    });
                }
            }
        }
        None
    }
}
