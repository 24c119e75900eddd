//! Subscribes to variables by pattern, as they appear and match (B-32).
//!
//! ```text
//! patterns --> watches --> Appeared: added to the subscription     --> its readings
//!                          Gone:     after its last reading        --> removed, its index is free
//! ```
//!
//! `Appeared` for a name precedes its first reading, and `Gone` follows its last: the client delays
//! `Gone` until the program has taken the events that were queued when it arrived. A name is
//! subscribed when the program takes its `Appeared`, so the subscription does not contain earlier
//! updates.

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

/// Maximum number of names that are added to a subscription with one request.
const JOINING_MAX: usize = 10_000;

/// Identifies a subscription by names and patterns, across reconnections.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FollowId(pub(crate) Key);

/// An event of a subscription by names and patterns. Events arrive in order.
#[derive(Clone, PartialEq, Debug)]
pub enum FollowEvent {
    /// A variable matches a pattern and is subscribed. Readings of this item follow.
    Appeared {
        /// Index of the item. The index is used again after the item is gone.
        item: u32,
        /// The full name.
        name: Arc<str>,
        /// The type of the variable's values.
        data_type: DataType,
        /// The access that the variable permits.
        access: Access,
    },
    /// The variable no longer exists, or no longer matches a pattern.
    Gone {
        /// Index of the item. No further events of the item follow.
        item: u32,
        /// The full name.
        name: Arc<str>,
    },
    /// All names that match the pattern at present have been reported. This event is repeated on
    /// each new connection.
    Listed {
        /// Index of the pattern, in the order in which the patterns were given.
        pattern: usize,
    },
    /// The engine refuses to watch the pattern.
    PatternError {
        /// Index of the pattern.
        pattern: usize,
        /// The reason for the refusal.
        fault: Fault,
    },
    /// An event of the subscription. Its items are the given names, and the variables that have
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
    /// The index of a removed item, and the number of events that the program takes before its
    /// `Gone`.
    leaving: Option<(u32, usize)>,
}

#[derive(Debug)]
struct Item {
    name: Arc<str>,
    /// Number of patterns that the variable matches.
    patterns: u32,
    /// True if the item was given by name. It then remains even if its variable disappears.
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

    /// Takes the next event; `None` if there is none.
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
                    if let Some(event) = self.remove_item(context, item) {
                        return Some(event);
                    }
                    continue;
                }
                Some((item, left)) => self.leaving = Some((item, left - 1)),
                None => {
                    if self.take_pattern_events(context) {
                        continue;
                    }
                }
            }
            let event = context
                .subscriptions
                .next_event(context.base, now, self.subscription);
            match event {
                Some(event) if self.is_for_program(&event) => {
                    return Some(FollowEvent::Event(event));
                }
                Some(_) => {}
                None => match &mut self.leaving {
                    Some((_, left)) => *left = 0,
                    None => return None,
                },
            }
        }
    }

    /// Takes the events of the patterns, up to the next `Gone`. Returns false if there are none.
    fn take_pattern_events(&mut self, context: &mut FollowContext<'_>) -> bool {
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
                        let item = self.add_item(&name);
                        joining.push((item, Arc::clone(&name)));
                        self.ready.push_back(FollowEvent::Appeared {
                            item,
                            name,
                            data_type,
                            access,
                        });
                        if joining.len() >= JOINING_MAX {
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

    fn remove_item(&mut self, context: &mut FollowContext<'_>, item: u32) -> Option<FollowEvent> {
        let entry = self.items.get_mut(item as usize)?.take()?;
        self.by_name.remove(&entry.name);
        self.free.push(item);
        context
            .subscriptions
            .leave_item(context.base, self.subscription, item);
        let name = entry.name;
        Some(FollowEvent::Gone { item, name })
    }

    fn add_item(&mut self, name: &Arc<str>) -> u32 {
        let item = self.free.pop().unwrap_or_else(|| {
            self.items.push(None);
            (self.items.len() - 1) as u32
        });
        if let Some(slot) = self.items.get_mut(item as usize) {
            *slot = Some(Item {
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

    /// Returns true if the program receives the event. It does not receive the end of a variable
    /// that a pattern added, because `Gone` already reports it.
    fn is_for_program(&self, event: &Event) -> bool {
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
