//! Watches patterns of names: lists the matching names and reports changes (B-32).
//!
//! ```text
//! reported by the engine             reported to the program
//!   current, per name    --- differ? ---> pending, in order   --> next_watch_event
//! ```
//!
//! An event is computed when the program takes it, from the difference between the two states. At
//! most one event per name is pending, so the number of names limits the memory even if the program
//! takes no events for a long time. After a reconnection the engine lists the names again, and only
//! differences are reported. While the connection is down, no name is reported as gone.

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

/// Identifies a watched pattern, across reconnections.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WatchId(pub(crate) Key);

/// An event of a watched pattern. Events arrive in the order of the changes.
#[derive(Clone, PartialEq, Debug)]
pub enum WatchEvent {
    /// A variable with this name exists: the engine has listed it, or it is new.
    Appeared {
        /// The full name.
        name: Arc<str>,
        /// The type of the variable's values.
        data_type: DataType,
        /// The access that the variable permits.
        access: Access,
    },
    /// A variable with this name no longer exists.
    Gone {
        /// The full name.
        name: Arc<str>,
    },
    /// The list of existing names is complete. This event occurs once on each connection, and again
    /// after more simultaneous changes than the engine's log can hold.
    Listed,
    /// The engine refuses to watch the pattern, with the reason. The client repeats the request on
    /// the next connection.
    Failed(Fault),
}

#[derive(Debug, Default)]
pub(crate) struct Watches {
    list: Slab<Watch>,
    /// Watches by their protocol number.
    by_number: NumberMap<u32, Key>,
    next_number: u32,
}

#[derive(Debug)]
struct Watch {
    pattern: Arc<str>,
    /// The watch's protocol number on this connection; 0 if it has none.
    number: u32,
    names: NameMap<Entry>,
    /// Names by handle. Several names may have one handle, because fields have the handle of their
    /// variable.
    by_handle: BTreeSet<(u32, Arc<str>)>,
    /// Number of the current list of names, which increases with every connection. An entry with an
    /// older number is not confirmed on this connection.
    listing: u32,
    next_incarnation: u64,
    pending: BTreeMap<u64, Pending>,
    next_serial: u64,
    /// Serial numbers, in `pending`, of the end of the list and of a failure.
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
    /// The variable that has this name at the engine.
    current: Option<CurrentVariable>,
    /// The incarnation that was last reported to the program; `None` if the program knows of no
    /// variable.
    reported: Option<u64>,
    /// Serial number of the name in [`Watch::pending`].
    pending: Option<u64>,
}

#[derive(Debug)]
struct CurrentVariable {
    handle: u32,
    data_type: DataType,
    access: Access,
    /// Distinguishes consecutive variables with the same name.
    incarnation: u64,
    listing: u32,
}

impl Watches {
    /// Watches the names that match a pattern, across reconnections, until [`end`](Self::end).
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

    /// Ends a watch and drops its pending events. Returns its number on this connection, or 0 if it
    /// has none; `None` if there is no such watch.
    pub(crate) fn end(&mut self, id: WatchId) -> Option<u32> {
        let ended = self.list.remove(id.0)?;
        self.by_number.remove(&ended.number);
        Some(ended.number)
    }

    /// Takes the next event; `None` if there is none.
    pub(crate) fn next_event(&mut self, id: WatchId) -> Option<WatchEvent> {
        self.list.get_mut(id.0)?.next()
    }

    /// Returns the matching names that the engine has reported so far, sorted.
    pub(crate) fn names(&self, id: WatchId) -> Vec<Arc<str>> {
        let watch = self.list.get(id.0);
        let names = watch.into_iter().flat_map(|watch| &watch.names);
        let mut names: Vec<Arc<str>> = names
            .filter_map(|(name, entry)| entry.current.as_ref().map(|_| Arc::clone(name)))
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

    /// Requests the list of names for every pattern on a new connection.
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
            watch.begin_listing();
        }
    }

    pub(crate) fn refused(&mut self, base: &mut ClientState, key: Key, fault: Fault) {
        if let Some(watch) = self.list.get_mut(key) {
            watch.fail(fault);
            base.changes += 1;
        }
    }

    /// Handles names that the engine lists for a watch, and new names. Returns true if the list is
    /// complete.
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
            watch.begin_listing();
        }
        for variable in appeared {
            watch.appeared(&variable?);
        }
        if is_complete {
            watch.end_listing();
        }
        base.changes += 1;
        let max = base.options.items_max;
        if watch.names.len() > max {
            let sentence = format!(
                "the pattern matches more than {max} names, which is the limit of this client; use \
                 a narrower one"
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

    /// Starts a new list of names, which must confirm the known names.
    fn begin_listing(&mut self) {
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
        // A name has only one handle at a time, even if the engine has not reported the end of the
        // previous variable.
        if let Some(before) = &entry.current {
            self.by_handle.remove(&(before.handle, Arc::clone(&name)));
        }
        self.by_handle.insert((variable.handle, Arc::clone(&name)));
        let known = CurrentVariable {
            handle: variable.handle,
            data_type: variable.data_type.clone(),
            access: variable.access,
            incarnation,
            listing,
        };
        match &mut entry.current {
            // The variable is known from the previous connection, so nothing changes for the
            // program.
            Some(before)
                if before.listing != listing
                    && before.data_type == known.data_type
                    && before.access == known.access =>
            {
                before.handle = known.handle;
                before.listing = listing;
                return;
            }
            current => *current = Some(known),
        }
        self.next_incarnation += 1;
        self.queue_event(&name);
    }

    fn vanished(&mut self, handle: u32) {
        let empty: Arc<str> = Arc::from("");
        let from = (handle, Arc::clone(&empty));
        let to = handle
            .checked_add(1)
            .map_or(Bound::Unbounded, |next| Bound::Excluded((next, empty)));
        let names = self.by_handle.range((Bound::Included(from), to)).cloned();
        for (handle, name) in names.collect::<Vec<_>>() {
            self.by_handle.remove(&(handle, Arc::clone(&name)));
            if let Some(entry) = self.names.get_mut(&name)
                && entry
                    .current
                    .as_ref()
                    .is_some_and(|known| known.handle == handle)
            {
                entry.current = None;
                self.queue_event(&name);
            }
        }
    }

    /// Completes the list. Known names that it does not contain no longer exist.
    fn end_listing(&mut self) {
        let listing = self.listing;
        let mut missing = Vec::new();
        for (name, entry) in &mut self.names {
            if entry
                .current
                .as_ref()
                .is_some_and(|known| known.listing != listing)
            {
                entry.current = None;
                missing.push(Arc::clone(name));
            }
        }
        missing.sort();
        missing.iter().for_each(|name| self.queue_event(name));
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

    /// Queues an event for a name whose state may differ from what was reported to the program.
    fn queue_event(&mut self, name: &Arc<str>) {
        let Some(entry) = self.names.get_mut(name) else {
            return;
        };
        if entry.current.is_none() && entry.reported.is_none() {
            // The variable appeared and disappeared before the program took the event.
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
            match (entry.reported, &entry.current) {
                (Some(reported), Some(known)) if reported == known.incarnation => {}
                (None, None) => {
                    self.names.remove(&name);
                }
                (Some(_), None) => {
                    self.names.remove(&name);
                    return Some(WatchEvent::Gone { name });
                }
                (Some(_), Some(_)) => {
                    // Another variable has this name now. It is reported next.
                    entry.reported = None;
                    entry.pending = Some(serial);
                    self.pending
                        .insert(serial, Pending::Name(Arc::clone(&name)));
                    return Some(WatchEvent::Gone { name });
                }
                (None, Some(known)) => {
                    entry.reported = Some(known.incarnation);
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
