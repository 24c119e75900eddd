//! Who joins whom: the feeds of an engine by the set of their variables.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use super::{Feed, Moved};
use crate::outbox::Wakes;
use crate::sync::{Arc, Mutex, Weak};

/// Feeds that others may join, by a hash of their variables. Who finds one by it looks whether it
/// is the right one. Nothing is locked while its lock is held.
#[derive(Debug, Default)]
pub(crate) struct Feeds {
    by_variables: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    feeds: HashMap<u64, Weak<Feed>>,
    /// As many were left when those that have gone were last taken out.
    left: usize,
}

impl Feeds {
    /// The feed that another subscription has of these variables, whose handles are in ascending
    /// order. Where there is none, `own` is the one that others will find.
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

    /// Others find `own` from now on: what they found before has other variables now.
    pub(crate) fn offer(&self, handles: &[u32], own: &Arc<Feed>) {
        self.by_variables.lock().put(key_of(handles), own);
    }
}

impl Known {
    fn put(&mut self, key: u64, feed: &Arc<Feed>) {
        if self.feeds.len() > 2 * self.left + 8 {
            self.feeds.retain(|_, feed| feed.strong_count() > 0);
            self.left = self.feeds.len();
        }
        self.feeds.insert(key, Arc::downgrade(feed));
    }
}

/// The same in every process: a feed that is found by chance is told from the right one.
fn key_of(handles: &[u32]) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(handles)
}

impl Feed {
    /// Others with the same variables may join.
    pub(crate) fn set_open(&self) {
        self.log.lock().set_open();
    }

    /// Takes a member out with all that waits for it, to be put in elsewhere. The caller holds the
    /// locks of all its variables.
    pub(crate) fn move_out(&self, member: usize, wakes: &mut Wakes) -> Option<Moved> {
        self.log.lock().move_out(member, wakes)
    }

    /// Takes a member in, and returns its number here. The caller holds the locks of the variables,
    /// of which there are `places`, and has found each of them here.
    pub(crate) fn join(&self, moved: Moved, places: u32) -> Result<usize, Box<Moved>> {
        self.log.lock().join(moved, places)
    }
}
