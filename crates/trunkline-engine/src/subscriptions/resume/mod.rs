//! State of the `all` subscriptions of a lost session, stored until the next session takes over.
//!
//! ```text
//! confirmed | sent, not confirmed | taken | in the feed | written while disconnected
//!           |<------------------------- stored ------------------------------------->|
//! ```
//!
//! Unacked updates are stored until the peer has confirmed them. When the session is lost, it stays
//! a member of its feeds for a while and collects new updates up to the subscription's own bound.
//! The oldest are dropped first, and no writer ever waits for it. A session that names the lost one
//! as its predecessor resumes at its peer's position, item by item.
//!
//! # Layout
//! - `unacked`: sent and unconfirmed updates; `charge`: the bytes of all stored data.
//! - `detach`: how a session leaves its state; `detached`: the state; `backlog`: updates stored
//!   outside the feeds.
//! - `replay`: passes the state on to the next session.

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
pub(super) use self::replay::SCAN_ENTRIES_PER_REQUEST;
use self::unacked::Unacked;
use super::Subscriptions;
use crate::caller::Caller;
use crate::delivery::outbox::Wakes;
use crate::variable::Variable;
use crate::write::EngineCore;

/// Maximum number of predecessors of a session. Each loss during a resumption adds one.
const FOLLOWED_MAX: usize = 16;

/// Data that lets a consumer resume an earlier session, and lets a later session resume this
/// consumer.
pub(super) struct Resume {
    /// Sent updates that the peer may request again; `None` if it never does.
    pub(super) unacked: Option<Unacked>,
    /// States of earlier sessions that this one resumes.
    followed: Vec<Detached>,
    /// Charge for queued updates from before its subscriptions were made.
    pub(super) past: Charge,
    /// Number of entries in other subscribers' feeds that this request may still examine.
    pub(super) scan_budget: usize,
}

impl Resume {
    pub(super) fn none() -> Self {
        Self {
            unacked: None,
            followed: Vec::new(),
            past: Charge::default(),
            scan_budget: SCAN_ENTRIES_PER_REQUEST,
        }
    }

    /// Stores sent updates if the peer confirms them. `queue_max` is the number of bytes that may
    /// be queued for the consumer.
    pub(super) fn keeping(core: &EngineCore, queue_max: usize, is_confirmed: bool) -> Self {
        Self {
            unacked: is_confirmed.then(|| Unacked::new(core, queue_max)),
            past: Charge::of(core, queue_max),
            ..Self::none()
        }
    }

    pub(super) fn follow(&mut self, home: &Subscriptions, caller: &Caller, session: u32) -> bool {
        let found = home.take(session, caller);
        let is_found = !found.is_empty();
        self.followed.extend(found);
        while self.followed.len() > FOLLOWED_MAX {
            home.absences.give_up(self.followed.remove(0));
        }
        is_found
    }

    /// Returns true if an item replaces a stored one, and therefore needs no additional memory.
    pub(super) fn takes_over(&self, subscription: u32, variable: &Variable) -> bool {
        let mut feeds = self
            .followed
            .iter()
            .filter_map(|detached| detached.feeds.get(&subscription));
        feeds.any(|feed| feed.owed.contains_key(&variable.handle()))
    }

    pub(super) fn release_settled(
        &mut self,
        subscription: u32,
        home: &Subscriptions,
        wakes: &mut Wakes,
    ) {
        for detached in &mut self.followed {
            detached.release_settled(subscription, home, wakes);
        }
        self.followed.retain(|detached| !detached.feeds.is_empty());
    }

    /// Drops expired states. Returns the time at which the next one expires.
    pub(super) fn release_expired(
        &mut self,
        now: Tick,
        home: &Subscriptions,
        wakes: &mut Wakes,
    ) -> Option<Tick> {
        while let Some(at) = self.followed.iter().position(|one| one.until <= now) {
            let detached = self.followed.remove(at);
            detached.give_up(home, wakes);
        }
        self.followed.iter().map(|one| one.until).min()
    }
}
