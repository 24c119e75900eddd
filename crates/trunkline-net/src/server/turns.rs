//! Scheduling: the sessions of a connection thread share its time.
//!
//! Each session counts the time that its turns have taken. The next turn goes to the session that
//! has used the least time. A session that needs little time therefore waits only for the turn in
//! progress when it is woken, and sessions that need much time alternate among themselves.
//!
//! ```text
//!   time used   ...10 ms          30 ms  31 ms  31 ms
//!   planned        small write    bulk   bulk   bulk      --> small write, then bulk after bulk
//! ```
//!
//! A sleeping session does not accumulate an advantage: when it is woken, its time used is set to
//! at most [`HEAD_START`] less than the time used by the session that had the last turn.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::session::Session;
use super::worker::SessionKey;

/// Duration of one turn, regardless of how expensive its bytes are to process. Endpoints do not
/// read the clock: each call does a small amount of work, and the turn ends between two calls.
pub(super) const TURN_TIME: Duration = Duration::from_micros(200);

/// Maximum time that is charged for one turn. A longer turn is more often caused by the system,
/// which ran another thread in the meantime, than by the session. If it were charged in full, a
/// session that needs little time would have to wait until all others had used the same amount.
pub(super) const COUNTED_MAX: Duration = Duration::from_micros(400);

/// The lead of a newly woken session over the active sessions.
const HEAD_START: Duration = Duration::from_millis(1);

/// The time that a session has used, on the scale of its thread.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Share {
    used: Duration,
}

impl Share {
    /// Adds the time of a turn.
    pub(super) fn use_up(&mut self, time: Duration) {
        self.used = self.used.saturating_add(time.min(COUNTED_MAX));
    }

    #[cfg(test)]
    pub(super) fn used(self) -> Duration {
        self.used
    }
}

/// A planned turn: the time used, its number and the session.
type Planned = (Duration, u64, SessionKey);

/// The planned turns of a thread.
#[derive(Default)]
pub(super) struct Turns {
    /// The planned turn, if there is only one, as in a thread with little to do. Using the heap for
    /// one entry would cost as much as a small request.
    sole: Option<Planned>,
    /// Several planned turns, ordered by the time used and then by the order of planning.
    planned: BinaryHeap<Reverse<Planned>>,
    /// Number of turns planned so far.
    count: u64,
    /// The time used by the session that had the last turn.
    reached: Duration,
}

impl Turns {
    /// Plans a turn for the session, unless it has one.
    pub(super) fn queue(&mut self, session: &mut Session, key: SessionKey) {
        if !std::mem::replace(&mut session.queued, true) {
            session.share.used = self.plan(session.share, key);
        }
    }

    fn plan(&mut self, share: Share, key: SessionKey) -> Duration {
        let used = share.used.max(self.reached.saturating_sub(HEAD_START));
        self.count = self.count.wrapping_add(1);
        let turn = (used, self.count, key);
        if self.is_empty() {
            self.sole = Some(turn);
        } else {
            self.planned.extend(self.sole.take().map(Reverse));
            self.planned.push(Reverse(turn));
        }
        used
    }

    /// Removes and returns the next turn's session.
    pub(super) fn next(&mut self) -> Option<SessionKey> {
        let sole = self.sole.take();
        let (used, _, key) = sole.or_else(|| self.planned.pop().map(|Reverse(turn)| turn))?;
        self.reached = self.reached.max(used);
        Some(key)
    }

    pub(super) fn len(&self) -> usize {
        self.planned.len() + usize::from(self.sole.is_some())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sole.is_none() && self.planned.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The maximum time that is charged for one turn.
    const LONG: Duration = COUNTED_MAX;

    /// Simulates a small turn during which the system ran another thread.
    #[test]
    fn interrupted_turn_is_not_charged_to_its_session() {
        let mut sut = Turns::default();
        let [bulk, small] = [0, 1].map(SessionKey::of_slot);
        let (mut much, mut little) = (Share::default(), Share::default());
        for _ in 0..100 {
            much.used = sut.plan(much, bulk);
            assert_eq!(sut.next(), Some(bulk));
            much.use_up(LONG);
            much.used = sut.plan(much, bulk);
            little.used = sut.plan(little, small);
            assert_eq!(sut.next(), Some(small));
            little.use_up(Duration::from_millis(100));
            assert_eq!(sut.next(), Some(bulk));
            much.use_up(LONG);
        }
    }

    /// Three sessions always have more work; a fourth occasionally has a little work.
    #[test]
    fn a_session_that_needs_little_is_next_and_the_others_share() {
        let mut sut = Turns::default();
        let keys = [0, 1, 2, 3].map(SessionKey::of_slot);
        let mut shares = [Share::default(); 4];
        for bulk in 0..3 {
            shares[bulk].used = sut.plan(shares[bulk], keys[bulk]);
        }
        let mut had = [0; 4];
        for round in 0..3000 {
            if round % 10 == 0 {
                shares[3].used = sut.plan(shares[3], keys[3]);
            }
            let key = sut.next().unwrap();
            let at = keys.iter().position(|one| *one == key).unwrap();
            had[at] += 1;
            if round > 100 && round % 10 == 0 {
                assert_eq!(at, 3, "round {round}: it waits for nobody");
            }
            shares[at].use_up(if at == 3 { LONG / 100 } else { LONG });
            if at < 3 {
                shares[at].used = sut.plan(shares[at], keys[at]);
            }
        }
        let (least, most) = (had[..3].iter().min(), had[..3].iter().max());
        assert!(most.unwrap() - least.unwrap() <= 1, "{had:?}");
    }

    #[test]
    fn idle_session_does_not_starve_the_others() {
        let mut sut = Turns::default();
        let [bulk, sleeper] = [0, 1].map(SessionKey::of_slot);
        let mut share = Share::default();
        for _ in 0..1000 {
            share.used = sut.plan(share, bulk);
            assert_eq!(sut.next(), Some(bulk));
            share.use_up(LONG);
        }
        let mut woken = Share::default();
        sut.plan(share, bulk);
        let mut turns = 0;
        loop {
            woken.used = sut.plan(woken, sleeper);
            let key = sut.next().unwrap();
            if key == bulk {
                break;
            }
            woken.use_up(LONG);
            turns += 1;
        }
        assert!(turns <= 5, "{turns} turns without one for the other");
    }
}
