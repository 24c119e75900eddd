//! Subscriptions by pattern: variables are subscribed as they appear and match (B-32).
//!
//! ```text
//! patterns --> watches --> Appeared: joined to the subscription --> its readings
//!                          Gone:     after its last reading     --> removed, its place is free
//! ```
//!
//! `Appeared` for a name precedes its first reading, and `Gone` follows its last: `Gone` is held
//! back until the program has taken the events that were queued when it arrived. A name is
//! subscribed when its `Appeared` is taken, so the subscription does not contain earlier updates.

use std::collections::VecDeque;
use std::sync::Arc;

use trunkline_proto::message::ended::EndReason;
use trunkline_proto::{Fault, FaultCode};
use trunkline_types::{Access, DataType, Pattern, Tick};

use super::watch::{WatchEvent, WatchId, Watches};
use crate::client_state::ClientState;
use crate::event::Event;
use crate::subscriptions::Subscriptions;
use crate::subscriptions::subscription::SubscriptionId;
use crate::table::{Key, NameMap};

/// Maximum number of names added to a subscription with one request.
const JOINED_AT_ONCE: usize = 10_000;

/// A subscription by names and patterns. It survives reconnects.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FollowId(pub(crate) Key);

/// An event of a subscription by names and patterns. Events are delivered in order.
#[derive(Clone, PartialEq, Debug)]
pub enum FollowEvent {
    /// A variable matches a pattern and is subscribed: readings of this item follow.
    Appeared {
        /// Index of the item. After the item is gone, the index is reused.
        item: u32,
        /// The full name.
        name: Arc<str>,
        /// The type of its values.
        data_type: DataType,
        /// The access that the variable permits.
        access: Access,
    },
    /// The variable no longer exists, or no longer matches a pattern.
    Gone {
        /// Index of the item. No further events of this item follow.
        item: u32,
        /// The full name.
        name: Arc<str>,
    },
    /// All names that currently match the pattern have been reported. Repeated on each new
    /// connection.
    Listed {
        /// Index of the pattern, in the order in which the patterns were given.
        pattern: usize,
    },
    /// The engine refuses to watch a pattern.
    PatternError {
        /// Index of the pattern.
        pattern: usize,
        /// The reason.
        fault: Fault,
    },
    /// An event of the subscription. Its items are the given names and the variables that have
    /// appeared.
    Event(Event),
}

#[derive(Debug)]
pub(crate) struct Follow {
    pub(crate) subscription: SubscriptionId,
    pub(crate) watches: Vec<WatchId>,
    excluded: Vec<Pattern>,
    by_name: NameMap<u32>,
    items: Vec<Option<Item>>,
    free: Vec<u32>,
    ready: VecDeque<FollowEvent>,
    /// A removed item, and the number of events to take before its `Gone`.
    leaving: Option<(u32, usize)>,
}

#[derive(Debug)]
struct Item {
    name: Arc<str>,
    patterns: u32,
    /// The item was given by name, so it remains even if its variable disappears.
    is_fixed: bool,
}

/// The parts of the client that a subscription by patterns uses.
pub(crate) struct FollowContext<'a> {
    pub(crate) base: &'a mut ClientState,
    pub(crate) subscriptions: &'a mut Subscriptions,
    pub(crate) watches: &'a mut Watches,
}

impl Follow {
    pub(crate) fn new<N: AsRef<str>>(
        subscription: SubscriptionId,
        names: &[N],
        watches: Vec<WatchId>,
        excluded: &[Pattern],
    ) -> Self {
        let mut follow = Self {
            subscription,
            watches,
            excluded: excluded.to_vec(),
            by_name: NameMap::default(),
            items: Vec::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
            leaving: None,
        };
        for (name, index) in names.iter().zip(0..) {
            let name: Arc<str> = Arc::from(name.as_ref());
            follow.by_name.insert(Arc::clone(&name), index);
            follow.items.push(Some(Item {
                name,
                patterns: 0,
                is_fixed: true,
            }));
        }
        follow
    }

    /// Returns the next event, or `None` if none is queued.
    pub(crate) fn next(
        &mut self,
        context: &mut FollowContext<'_>,
        now: Tick,
    ) -> Option<FollowEvent> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            match self.leaving {
                Some((item, 0)) => {
                    self.leaving = None;
                    if let Some(event) = self.leave(context, item) {
                        return Some(event);
                    }
                    continue;
                }
                Some((item, left)) => self.leaving = Some((item, left - 1)),
                None => {
                    if self.take_events(context) {
                        continue;
                    }
                }
            }
            let event = context
                .subscriptions
                .next_event(context.base, now, self.subscription);
            match event {
                Some(event) if self.is_told(&event) => return Some(FollowEvent::Event(event)),
                Some(_) => {}
                None => match &mut self.leaving {
                    Some((_, left)) => *left = 0,
                    None => return None,
                },
            }
        }
    }

    /// Takes the events of the patterns, up to the next `Gone`. Returns false if there are none.
    fn take_events(&mut self, context: &mut FollowContext<'_>) -> bool {
        let mut joining = Vec::new();
        'patterns: for (pattern, watch) in self.watches.clone().into_iter().enumerate() {
            while let Some(event) = context.watches.next_event(watch) {
                match event {
                    WatchEvent::Appeared {
                        name,
                        data_type,
                        access,
                    } => {
                        if self.is_excluded(&name) {
                            continue;
                        }
                        if let Some(item) = self.by_name.get(&name).copied() {
                            if let Some(Some(entry)) = self.items.get_mut(item as usize) {
                                entry.patterns += 1;
                            }
                            context.subscriptions.reopen_item(
                                context.base,
                                self.subscription,
                                item,
                            );
                            continue;
                        }
                        let item = self.place(&name);
                        joining.push((item, Arc::clone(&name)));
                        self.ready.push_back(FollowEvent::Appeared {
                            item,
                            name,
                            data_type,
                            access,
                        });
                        if joining.len() >= JOINED_AT_ONCE {
                            break 'patterns;
                        }
                    }
                    WatchEvent::Gone { name } => {
                        let Some(item) = self.by_name.get(&name).copied() else {
                            continue;
                        };
                        let Some(Some(entry)) = self.items.get_mut(item as usize) else {
                            continue;
                        };
                        entry.patterns = entry.patterns.saturating_sub(1);
                        if entry.patterns == 0 && !entry.is_fixed {
                            self.leaving =
                                Some((item, context.subscriptions.waiting(self.subscription)));
                            break 'patterns;
                        }
                    }
                    WatchEvent::Listed => self.ready.push_back(FollowEvent::Listed { pattern }),
                    WatchEvent::Failed(fault) => {
                        self.ready
                            .push_back(FollowEvent::PatternError { pattern, fault });
                    }
                }
            }
        }
        if !joining.is_empty() {
            context
                .subscriptions
                .join_items(context.base, self.subscription, &joining);
        }
        !self.ready.is_empty() || self.leaving.is_some()
    }

    fn leave(&mut self, context: &mut FollowContext<'_>, item: u32) -> Option<FollowEvent> {
        let entry = self.items.get_mut(item as usize)?.take()?;
        self.by_name.remove(&entry.name);
        self.free.push(item);
        context
            .subscriptions
            .leave_item(context.base, self.subscription, item);
        let name = entry.name;
        Some(FollowEvent::Gone { item, name })
    }

    fn place(&mut self, name: &Arc<str>) -> u32 {
        let item = self.free.pop().unwrap_or_else(|| {
            self.items.push(None);
            (self.items.len() - 1) as u32
        });
        if let Some(place) = self.items.get_mut(item as usize) {
            *place = Some(Item {
                name: Arc::clone(name),
                patterns: 1,
                is_fixed: false,
            });
        }
        self.by_name.insert(Arc::clone(name), item);
        item
    }

    fn is_excluded(&self, name: &str) -> bool {
        self.excluded.iter().any(|pattern| pattern.matches(name))
    }

    /// Returns true if the event is for the program. The end of a variable is not: the pattern
    /// already reports it.
    fn is_told(&self, event: &Event) -> bool {
        let item = match event {
            Event::Ended {
                item,
                reason: EndReason::Gone,
                ..
            } => item,
            Event::ItemError { item, fault } if is_missing(fault.code) => item,
            _ => return true,
        };
        let entry = self.items.get(*item as usize).and_then(Option::as_ref);
        entry.is_some_and(|entry| entry.is_fixed)
    }
}

/// Returns true if the fault only means that the variable does not exist.
fn is_missing(code: FaultCode) -> bool {
    use FaultCode::{Gone, UnknownHandle, UnknownName};
    matches!(code, Gone | UnknownHandle | UnknownName)
}
