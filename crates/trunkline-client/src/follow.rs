//! Subscriptions by pattern: what a pattern matches is subscribed as it appears (B-32).
//!
//! ```text
//! patterns --> watches --> Appeared: joined to the subscription --> its readings
//!                          Gone:     after its last reading     --> left, its place is free
//! ```
//!
//! `Appeared` of a name comes before its first reading, and `Gone` after its last: a variable that
//! is gone is held back until what waited when the news came has been taken. A name is subscribed
//! when its `Appeared` is taken: what was written before that is not part of the subscription.

use std::collections::VecDeque;
use std::sync::Arc;

use trunkline_proto::message::ended::EndReason;
use trunkline_proto::{Fault, FaultCode};
use trunkline_types::{Access, Contract, DataType, Pattern, Tick};

use crate::client::ClientCore;
use crate::error::SubscribeError;
use crate::event::Event;
use crate::options::SubscribeOptions;
use crate::subscription::SubscriptionId;
use crate::table::{Key, NameMap};
use crate::watch::{WatchEvent, WatchId};

/// Names that are joined to a subscription in one request.
const JOINED_AT_ONCE: usize = 10_000;

/// A subscription by names and patterns. Survives reconnects.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FollowId(pub(crate) Key);

/// What happens under a subscription by names and patterns, in order.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum FollowEvent {
    /// A variable matches a pattern, and is subscribed: readings of this item follow.
    Appeared {
        /// Its item; the number of one that is gone is used again.
        item: u32,
        /// Its full name.
        name: Arc<str>,
        /// The type of its values.
        data_type: DataType,
        /// What can be done with it at all.
        access: Access,
    },
    /// The variable is no more, or matches no pattern any more.
    Gone {
        /// Its item, of which nothing follows.
        item: u32,
        /// Its full name.
        name: Arc<str>,
    },
    /// Every name that matches a pattern was told; with every connection anew.
    Listed {
        /// Which pattern, counted as they were given.
        pattern: usize,
    },
    /// The engine does not follow a pattern, and why.
    PatternError {
        /// Which pattern.
        pattern: usize,
        /// Why.
        fault: Fault,
    },
    /// An event of the subscription; its items are the names as they were given, and those that
    /// appeared.
    Event(Event),
}

#[derive(Debug)]
pub(crate) struct Follow {
    subscription: SubscriptionId,
    watches: Vec<WatchId>,
    excluded: Vec<Pattern>,
    by_name: NameMap<u32>,
    items: Vec<Option<Item>>,
    free: Vec<u32>,
    ready: VecDeque<FollowEvent>,
    /// An item that is gone, and the events that waited when the news came.
    leaving: Option<(u32, usize)>,
}

#[derive(Debug)]
struct Item {
    name: Arc<str>,
    /// Patterns that match it.
    patterns: u32,
    /// It was named, and stays whatever becomes of it.
    is_fixed: bool,
}

impl ClientCore {
    /// Subscribes names and what patterns match, now and later, leaving out what an `excluded`
    /// pattern matches. The items of `names` are numbered as they are given.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe).
    pub fn follow<N: AsRef<str>>(
        &mut self,
        names: &[N],
        patterns: &[Pattern],
        excluded: &[Pattern],
        contract: Contract,
        options: SubscribeOptions,
    ) -> Result<FollowId, SubscribeError> {
        let subscription = self.subscribe(names, contract, options)?;
        let mut watches = Vec::with_capacity(patterns.len());
        for pattern in patterns {
            // A client that is closed has refused the subscription.
            watches.extend(self.watch(pattern.as_str()).ok());
        }
        let mut follow = Follow {
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
        Ok(FollowId(self.follows.insert(follow)))
    }

    /// Ends a subscription by patterns; what waits for it is dropped.
    pub fn unfollow(&mut self, follow: FollowId) {
        if let Some(follow) = self.follows.remove(follow.0) {
            self.unsubscribe(follow.subscription);
            follow.watches.into_iter().for_each(|w| self.unwatch(w));
        }
    }

    /// The subscription behind it, for local copies and its ledger.
    pub fn followed(&self, follow: FollowId) -> Option<SubscriptionId> {
        Some(self.follows.get(follow.0)?.subscription)
    }

    /// What happened next; `None` when nothing waits.
    pub fn next_followed(&mut self, now: Tick, id: FollowId) -> Option<FollowEvent> {
        // Apart from the core while both are worked on.
        let mut follow = std::mem::take(&mut *self.follows.get_mut(id.0)?);
        let event = follow.next(self, now);
        if let Some(place) = self.follows.get_mut(id.0) {
            *place = follow;
        }
        event
    }
}

impl Default for Follow {
    fn default() -> Self {
        Self {
            subscription: SubscriptionId(Key::NOBODY),
            watches: Vec::new(),
            excluded: Vec::new(),
            by_name: NameMap::default(),
            items: Vec::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
            leaving: None,
        }
    }
}

impl Follow {
    fn next(&mut self, core: &mut ClientCore, now: Tick) -> Option<FollowEvent> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            match self.leaving {
                Some((item, 0)) => {
                    self.leaving = None;
                    if let Some(event) = self.leave(core, item) {
                        return Some(event);
                    }
                    continue;
                }
                Some((item, left)) => self.leaving = Some((item, left - 1)),
                None => {
                    if self.look(core) {
                        continue;
                    }
                }
            }
            match core.next_event(now, self.subscription) {
                Some(event) if self.is_told(&event) => return Some(FollowEvent::Event(event)),
                Some(_) => {}
                None => match &mut self.leaving {
                    Some((_, left)) => *left = 0,
                    None => return None,
                },
            }
        }
    }

    /// Takes what the patterns say, up to the next variable that goes. False when they say nothing.
    fn look(&mut self, core: &mut ClientCore) -> bool {
        let mut joining = Vec::new();
        'patterns: for (pattern, watch) in self.watches.clone().into_iter().enumerate() {
            while let Some(event) = core.next_watch_event(watch) {
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
                            core.reopen_item(self.subscription, item);
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
                            self.leaving = Some((item, core.waiting(self.subscription)));
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
            core.join_items(self.subscription, &joining);
        }
        !self.ready.is_empty() || self.leaving.is_some()
    }

    fn leave(&mut self, core: &mut ClientCore, item: u32) -> Option<FollowEvent> {
        let entry = self.items.get_mut(item as usize)?.take()?;
        self.by_name.remove(&entry.name);
        self.free.push(item);
        core.leave_item(self.subscription, item);
        let name = entry.name;
        Some(FollowEvent::Gone { item, name })
    }

    /// A place for a name that is new.
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

    /// Whether the program is told: that a variable of a pattern is gone it hears from the pattern.
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

/// Whether the fault only says that a variable is not there.
fn is_missing(code: FaultCode) -> bool {
    use FaultCode::{Gone, UnknownHandle, UnknownName};
    matches!(code, Gone | UnknownHandle | UnknownName)
}
