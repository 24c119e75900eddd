//! State kept for `all` subscriptions of a session that broke, until the next session takes over.
//!
//! ```text
//! confirmed | sent, not confirmed | taken | in the feed | written while nobody is there
//!           |<------------------------- kept ------------------------------------------>|
//! ```
//!
//! Unacked updates are kept until the peer has confirmed them. When the session breaks, its place in
//! the feeds stays for a while and collects new updates up to the subscription's own bound. The
//! oldest are dropped first, and no writer ever waits for it. The session that names the broken one
//! as its predecessor resumes at its peer's position, item by item.
//!
//!
//! # Layout
//! - `unacked`: sent and unconfirmed updates; `charge`: the bytes of everything kept.
//! - `detach`: a session leaves its remains; `detached`: the remains; `backlog`: updates kept outside
//!   the feeds.
//! - `replay`: hands the remains to the next session.

mod backlog;
pub(super) mod charge;
mod detach;
mod detached;
mod replay;
mod unacked;

use trunkline_types::Tick;

use self::charge::Charge;
pub(super) use self::detach::leave;
pub(crate) use self::detached::{Detached, DetachedSessions};
pub(super) use self::replay::LOOKS_PER_REQUEST;
use self::unacked::Unacked;
use super::Subscriptions;
use crate::caller::Caller;
use crate::delivery::outbox::Wakes;
use crate::variable::Variable;
use crate::write::EngineCore;

/// Maximum number of predecessors of a session. Each break during a resumption adds one.
const FOLLOWED_MAX: usize = 16;

/// What a consumer keeps to resume an earlier session, and to be resumed itself.
pub(super) struct Resume {
    /// Sent updates that the peer may ask for again; `None` if it never does.
    pub(super) unacked: Option<Unacked>,
    followed: Vec<Detached>,
    /// Charge of queued updates from before its subscriptions were made.
    pub(super) past: Charge,
    /// Entries of other subscribers' feeds that this request may still examine.
    pub(super) looks: usize,
}

impl Resume {
    pub(super) fn none() -> Self {
        Self {
            unacked: None,
            followed: Vec::new(),
            past: Charge::default(),
            looks: LOOKS_PER_REQUEST,
        }
    }

    /// Keeps sent updates if the peer confirms them. `queue_max` is the number of bytes that may be
    /// queued for the consumer.
    pub(super) fn keeping(core: &EngineCore, queue_max: usize, is_confirmed: bool) -> Self {
        Self {
            unacked: is_confirmed.then(|| Unacked::new(core, queue_max)),
            past: Charge::of(core, queue_max),
            ..Self::none()
        }
    }

    pub(super) fn follow(&mut self, home: &Subscriptions, caller: &Caller, session: u32) -> bool {
        let found = home.take(session, caller);
        let is_kept = !found.is_empty();
        self.followed.extend(found);
        while self.followed.len() > FOLLOWED_MAX {
            home.absences.give_up(self.followed.remove(0));
        }
        is_kept
    }

    /// Returns true if an item replaces one that was kept, and therefore needs no further memory.
    pub(super) fn takes_over(&self, subscription: u32, variable: &Variable) -> bool {
        let mut feeds = self
            .followed
            .iter()
            .filter_map(|absent| absent.feeds.get(&subscription));
        feeds.any(|feed| feed.owed.contains_key(&variable.handle()))
    }

    pub(super) fn release_settled(
        &mut self,
        subscription: u32,
        home: &Subscriptions,
        wakes: &mut Wakes,
    ) {
        for absent in &mut self.followed {
            absent.release_settled(subscription, home, wakes);
        }
        self.followed.retain(|absent| !absent.feeds.is_empty());
    }

    /// Gives up expired remains. Returns the time at which the next expire.
    pub(super) fn release_expired(
        &mut self,
        now: Tick,
        home: &Subscriptions,
        wakes: &mut Wakes,
    ) -> Option<Tick> {
        while let Some(at) = self.followed.iter().position(|one| one.until <= now) {
            let absent = self.followed.remove(at);
            absent.give_up(home, wakes);
        }
        self.followed.iter().map(|one| one.until).min()
    }
}
