//! Finds a feed to share, in an index of the engine's feeds by their sets of variables.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use super::{Feed, Moved};
use crate::delivery::outbox::Wakes;
use crate::sync::{Arc, Mutex, Weak};

/// Feeds that other subscriptions may join, by a hash of their variables. The caller must check
/// that a found feed has the right variables. No other lock is taken while this one is held.
#[derive(Debug, Default)]
pub(crate) struct Feeds {
    by_variables: Mutex<FeedIndex>,
}

#[derive(Debug, Default)]
struct FeedIndex {
    feeds: HashMap<u64, Weak<Feed>>,
    /// Number of remaining entries when ended feeds were last removed.
    len_after_cleanup: usize,
}

impl Feeds {
    /// Returns a feed of another subscription with these variables, whose handles are in ascending
    /// order. If there is none, offers `own` for sharing.
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

    /// Offers `own` for sharing, because the variables of the feed offered before have changed.
    pub(crate) fn offer(&self, handles: &[u32], own: &Arc<Feed>) {
        self.by_variables.lock().put(key_of(handles), own);
    }
}

impl FeedIndex {
    fn put(&mut self, key: u64, feed: &Arc<Feed>) {
        if self.feeds.len() > 2 * self.len_after_cleanup + 8 {
            self.feeds.retain(|_, feed| feed.strong_count() > 0);
            self.len_after_cleanup = self.feeds.len();
        }
        self.feeds.insert(key, Arc::downgrade(feed));
    }
}

/// The hash is the same in every process. A comparison of the variables detects collisions.
fn key_of(handles: &[u32]) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(handles)
}

impl Feed {
    pub(crate) fn set_open(&self) {
        self.log.lock().set_open();
    }

    /// Takes out a member with all its queued entries, to be added to another feed. The caller
    /// holds the locks of all its variables.
    pub(crate) fn move_out(&self, member: usize, wakes: &mut Wakes) -> Option<Moved> {
        self.log.lock().move_out(member, wakes)
    }

    /// Adds a member and returns its number. The caller holds the locks of its `places` variables,
    /// and has checked that each of them is in this feed.
    pub(crate) fn join(&self, moved: Moved, places: u32) -> Result<usize, Box<Moved>> {
        self.log.lock().join(moved, places)
    }
}
