//! Reserves room for a group in every `all` feed of its variables, or in none.

use std::collections::BTreeMap;
use std::time::Duration;

use trunkline_types::Tick;

use crate::delivery::feed::{Feed, QueueSize, Reserve, Stall};
use crate::delivery::outbox::Wakes;
use crate::delivery::subscribers::note_need;
use crate::sync::Arc;
use crate::update::Update;

/// Maximum number of variables in a group or a consistent snapshot.
pub const GROUP_MAX: usize = 4096;

/// The room that a group needs in each `all` feed of its variables.
#[derive(Debug, Default)]
pub(crate) struct GroupRooms {
    /// The feeds, in the order in which they were added.
    feeds: Vec<FeedRoom>,
    /// Index of each feed in the list, by its address.
    places: BTreeMap<usize, usize>,
}

#[derive(Debug)]
struct FeedRoom {
    feed: Arc<Feed>,
    room: QueueSize,
    stall: Duration,
    /// One of the feed's variables, to name as the cause if the feed is full.
    handle: u32,
    /// Reservation in the feed; `None` if there is none.
    reservation: Option<u32>,
    is_blocked: bool,
    run: Vec<(u32, Update)>,
}

impl GroupRooms {
    /// Adds `room` to the room that the group needs in a feed.
    pub(crate) fn ask(&mut self, feed: &Arc<Feed>, room: QueueSize, stall: Duration, handle: u32) {
        let address = Arc::as_ptr(feed).addr();
        let at = *self.places.entry(address).or_insert(self.feeds.len());
        if let Some(known) = self.feeds.get_mut(at) {
            known.room.add(room);
            known.stall = known.stall.max(stall);
            return;
        }
        self.feeds.push(FeedRoom {
            feed: Arc::clone(feed),
            room,
            stall,
            handle,
            reservation: None,
            is_blocked: false,
            run: Vec::new(),
        });
    }

    /// Reserves room in every feed or in none. On failure, returns the time until which the group
    /// may wait for a feed, and one of that feed's variables.
    pub(crate) fn reserve(&mut self, now: Tick, wakes: &mut Wakes) -> Result<(), (Tick, u32)> {
        // Checks full feeds first, as for a single write. Otherwise writers could find the other
        // feeds full because of a group that is then refused.
        let several = self.feeds.len() > 1;
        let mut blocked = self.reserve_where(several, now, wakes);
        if blocked.is_none() && several {
            blocked = self.reserve_where(false, now, wakes);
        }
        let Some(blocked) = blocked else {
            return Ok(());
        };
        let mut released = Vec::new();
        for taken in &self.feeds {
            if let Some(reservation) = taken.reservation {
                taken.feed.release(taken.room, reservation, wakes);
                released.push((Arc::clone(&taken.feed), taken.room));
            }
        }
        for full in self.feeds.iter().filter(|full| full.is_blocked) {
            note_need(&full.feed, full.room, &released);
        }
        Err(blocked)
    }

    fn reserve_where(
        &mut self,
        full_only: bool,
        now: Tick,
        wakes: &mut Wakes,
    ) -> Option<(Tick, u32)> {
        let mut blocked: Option<(Tick, u32)> = None;
        for one in &mut self.feeds {
            if one.reservation.is_some() || (full_only && one.feed.has_room(one.room)) {
                continue;
            }
            let limit = one.stall;
            match one.feed.reserve(one.room, Stall { now, limit }, wakes) {
                Reserve::Reserved(reservation) => one.reservation = Some(reservation),
                Reserve::Ended => {}
                Reserve::WouldBlock { until } => {
                    one.is_blocked = true;
                    let first = blocked.filter(|(known, _)| *known <= until);
                    blocked = first.or(Some((until, one.handle)));
                    if !full_only {
                        break;
                    }
                }
            }
        }
        blocked
    }

    /// Stores an update for its feed. Returns false if the feed has ended.
    pub(crate) fn put(&mut self, feed: &Arc<Feed>, place: u32, update: &Update) -> bool {
        let at = self.places.get(&Arc::as_ptr(feed).addr());
        let one = at.and_then(|at| self.feeds.get_mut(*at));
        let Some(one) = one.filter(|one| one.reservation.is_some()) else {
            return false;
        };
        one.run.push((place, update.clone()));
        true
    }

    pub(crate) fn commit(self, wakes: &mut Wakes) {
        for one in self.feeds {
            if let Some(reservation) = one.reservation {
                one.feed.commit_run(one.run, reservation, wakes);
            }
        }
    }
}
