//! Finds a feed to share: the index of the engine.s feeds by their sets of variables.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use super::{Feed, Moved};
use crate::delivery::outbox::Wakes;
use crate::sync::{Arc, Mutex, Weak};

/// Feeds that others may join, by a hash of their variables. The finder must check that a feed has
/// the right variables. No other lock is taken while this one is held.
#[derive(Debug, Default)]
pub(crate) struct Feeds {
    by_variables: Mutex<FeedIndex>,
}

#[derive(Debug, Default)]
struct FeedIndex {
    feeds: HashMap<u64, Weak<Feed>>,
    /// Number of entries left after ended feeds were last removed.
    left: usize,
}

impl Feeds {
    /// Returns another subscription's feed of these variables, whose handles are in ascending
    /// order. If there is none, offers `own` to others.
    pub(crate) fn find_or_offer(&self, handles: &[u32], own: &Arc<Feed>) -> Option<Arc<Feed>> {
        let mut known = self.by_variables.lock();
        let key = key_of(handles);
        let found = known.feeds.get(&key).and_then(Weak::upgrade);
        if let Some(found) = found.filter(|found| !Arc::ptr_eq(found, own)) {
            return Some(found);
        }
        known.put(key, own);
        None
    }

    /// Offers `own` to others, because the feed offered before now has other variables.
    pub(crate) fn offer(&self, handles: &[u32], own: &Arc<Feed>) {
        self.by_variables.lock().put(key_of(handles), own);
    }
}

impl FeedIndex {
    fn put(&mut self, key: u64, feed: &Arc<Feed>) {
        if self.feeds.len() > 2 * self.left + 8 {
            self.feeds.retain(|_, feed| feed.strong_count() > 0);
            self.left = self.feeds.len();
        }
        self.feeds.insert(key, Arc::downgrade(feed));
    }
}

/// The hash is the same in every process. A feed found by a collision is recognized by its
/// variables.
fn key_of(handles: &[u32]) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(handles)
}

impl Feed {
    pub(crate) fn set_open(&self) {
        self.log.lock().set_open();
    }

    /// Takes out a member with everything queued for it, to be added elsewhere. The caller holds
    /// the locks of all its variables.
    pub(crate) fn move_out(&self, member: usize, wakes: &mut Wakes) -> Option<Moved> {
        self.log.lock().move_out(member, wakes)
    }

    /// Adds a member and returns its number. The caller holds the locks of its `places` variables,
    /// and has found each of them in this feed.
    pub(crate) fn join(&self, moved: Moved, places: u32) -> Result<usize, Box<Moved>> {
        self.log.lock().join(moved, places)
    }
}
