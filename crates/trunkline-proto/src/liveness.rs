//! Keep-alive and dead peers, the same on both sides (B-13).

use std::time::Duration;

use trunkline_types::Tick;
use trunkline_types::time::duration_nanos;

use crate::limits::{KEEPALIVE_DEADLINE, KEEPALIVE_INTERVAL};
use crate::message::keepalive::Keepalive;

/// When to send a keep-alive, when to give up on the peer, and how long a round trip takes.
///
/// A keep-alive goes out once per interval whatever else is sent: it carries counts and the digest.
/// Neither end is to be woken more often than that: an engine sends those of many connections
/// [together](Self::together), and a client [answers](Self::answering) the engine's with its own.
/// Any bytes from the peer count as life. Read what has arrived before calling
/// [`poll`](Self::poll), or a stall of one's own looks like the peer's.
#[derive(Clone, Debug)]
pub struct Liveness {
    interval: Duration,
    deadline: Duration,
    last_received: Tick,
    next_send: Tick,
    /// Keep-alives go out at multiples of this; zero: whenever they are due.
    grid: Duration,
    /// A keep-alive of the peer is answered with one.
    answers: bool,
    /// Set once when this process itself was late: what the peer sent may not be read yet.
    grace_until: Option<Tick>,
    /// `sent` of the peer's last keep-alive and when it came, for the echo.
    peer_sent: Option<(u64, Tick)>,
    round_trip: Option<Duration>,
}

/// Parts of an interval: when keep-alives of connections that send them together are due.
const PHASES: u32 = 4;

/// What is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LivenessAction {
    /// Nothing before [`Liveness::poll_timeout`].
    Idle,
    /// A keep-alive is to be sent now.
    SendKeepalive,
    /// The peer counts as dead.
    Dead {
        /// How long nothing came from it.
        silent_for: Duration,
    },
}

impl Liveness {
    /// A connection that is up since `now`, with these intervals.
    pub fn new(now: Tick, interval: Duration, deadline: Duration) -> Self {
        Self {
            interval,
            deadline,
            last_received: now,
            next_send: now.saturating_add(interval),
            grid: Duration::ZERO,
            answers: false,
            grace_until: None,
            peer_sent: None,
            round_trip: None,
        }
    }

    /// A connection that is up since `now`: a keep-alive each second, dead after three.
    pub fn with_defaults(now: Tick) -> Self {
        Self::new(now, KEEPALIVE_INTERVAL, KEEPALIVE_DEADLINE)
    }

    /// Keep-alives go out at multiples of a quarter of the interval, as those of every other
    /// connection do whose ticks have the same origin: one wake-up serves them all. The first one
    /// goes up to a quarter earlier for it.
    #[must_use]
    pub fn together(mut self) -> Self {
        self.grid = self.quarter();
        self.next_send = self.on_grid(self.next_send);
        self
    }

    /// A keep-alive goes out as soon as the peer's comes, unless one went out in the last half
    /// interval; one that is due by itself waits a quarter of the interval longer, for the peer's
    /// to come first.
    #[must_use]
    pub fn answering(mut self) -> Self {
        self.answers = true;
        self.next_send = self.next_send.saturating_add(self.quarter());
        self
    }

    /// Bytes came from the peer.
    pub fn handle_received(&mut self, now: Tick) {
        self.last_received = now;
        self.grace_until = None;
    }

    /// A keep-alive came from the peer. True when one is to be sent for it.
    pub fn handle_keepalive(&mut self, now: Tick, keepalive: &Keepalive) -> bool {
        self.peer_sent = Some((keepalive.sent, now));
        if keepalive.echo != 0 {
            let away = now.since(Tick::from_nanos(keepalive.echo));
            let held = Duration::from_nanos(keepalive.echo_held_ns);
            self.round_trip = Some(away.saturating_sub(held));
        }
        let rest = self.next_send.since(now).saturating_sub(self.quarter());
        let answers = self.answers && rest.saturating_mul(2) <= self.interval;
        if answers {
            self.plan(now);
        }
        answers
    }

    /// A keep-alive goes out at `now`; when the next one is due.
    fn plan(&mut self, now: Tick) {
        let due = now.saturating_add(self.interval);
        self.next_send = match self.answers {
            true => due.saturating_add(self.quarter()),
            false => self.on_grid(due),
        };
    }

    fn quarter(&self) -> Duration {
        self.interval.checked_div(PHASES).unwrap_or_default()
    }

    /// The last multiple of the grid until `due`.
    fn on_grid(&self, due: Tick) -> Tick {
        let past = due.as_nanos().checked_rem(duration_nanos(self.grid));
        Tick::from_nanos(due.as_nanos().saturating_sub(past.unwrap_or(0)))
    }

    /// The keep-alive to send at `now`.
    pub fn keepalive(&self, now: Tick, records_received: u64, digest: u64) -> Keepalive {
        let (echo, came) = self.peer_sent.unwrap_or((0, now));
        Keepalive {
            sent: now.as_nanos(),
            echo,
            echo_held_ns: duration_nanos(now.since(came)),
            records_received,
            digest,
        }
    }

    /// When [`poll`](Self::poll) has something to say.
    pub fn poll_timeout(&self) -> Tick {
        self.next_send.min(self.dead_at())
    }

    /// What is due at `now`. `SendKeepalive` is said once per interval, never in bursts.
    pub fn poll(&mut self, now: Tick) -> LivenessAction {
        let dead_at = self.dead_at();
        if now >= dead_at {
            let late = now.since(dead_at);
            if self.grace_until.is_some() || late.saturating_mul(4) <= self.interval {
                return LivenessAction::Dead {
                    silent_for: now.since(self.last_received),
                };
            }
            // This process slept through the deadline (a stopped process, a suspended machine): the
            // peer's bytes may be waiting unread. One interval to find out.
            self.grace_until = Some(now.saturating_add(self.interval));
        }
        if now >= self.next_send {
            self.plan(now);
            return LivenessAction::SendKeepalive;
        }
        LivenessAction::Idle
    }

    /// How long nothing has come from the peer.
    pub fn silent_for(&self, now: Tick) -> Duration {
        now.since(self.last_received)
    }

    /// The last measured round trip, without the time the peer held the echo.
    pub fn round_trip(&self) -> Option<Duration> {
        self.round_trip
    }

    fn dead_at(&self) -> Tick {
        #[cfg(feature = "planted")]
        if trunkline_types::planted::is(trunkline_types::planted::Bug::DeadlineNotChecked) {
            return Tick::MAX;
        }
        self.grace_until
            .unwrap_or_else(|| self.last_received.saturating_add(self.deadline))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Tick {
        Tick::from_nanos(1).saturating_add(Duration::from_millis(ms))
    }

    #[test]
    fn a_keepalive_is_due_every_interval() {
        let mut sut = Liveness::with_defaults(at(0));
        assert_eq!(sut.poll(at(999)), LivenessAction::Idle);
        assert_eq!(sut.poll_timeout(), at(1000));
        assert_eq!(sut.poll(at(1000)), LivenessAction::SendKeepalive);
        assert_eq!(sut.poll(at(1000)), LivenessAction::Idle);
        assert_eq!(sut.poll_timeout(), at(2000));
    }

    #[test]
    fn keepalives_of_many_connections_go_out_at_the_same_ticks() {
        // The ticks of a process begin anywhere.
        let tick = |ms: u64| Tick::from_nanos(ms * 1_000_000);
        for opened in [3, 249, 250, 1499, 7000] {
            let mut sut = Liveness::with_defaults(tick(opened)).together();
            let first = sut.poll_timeout();
            assert_eq!(first.as_nanos() % 250_000_000, 0);
            let after = first.since(tick(opened));
            assert!(after > Duration::from_millis(750) && after <= Duration::from_secs(1));
            // Late by less than a quarter: the next one is where it was to be.
            let late = first.saturating_add(Duration::from_millis(30));
            sut.handle_received(late);
            assert_eq!(sut.poll(late), LivenessAction::SendKeepalive);
            assert_eq!(sut.poll_timeout().since(first), Duration::from_secs(1));
        }
    }

    #[test]
    fn a_keepalive_is_answered_with_one_that_was_due_soon() {
        let theirs = Liveness::with_defaults(at(0)).keepalive(at(0), 0, 0);
        let mut sut = Liveness::with_defaults(at(0)).answering();
        assert!(!sut.handle_keepalive(at(200), &theirs), "not so early");
        for second in 1..5 {
            assert!(sut.handle_keepalive(at(second * 1000), &theirs));
            assert!(!sut.handle_keepalive(at(second * 1000 + 1), &theirs));
            sut.handle_received(at(second * 1000));
            assert_eq!(sut.poll_timeout(), at(second * 1000 + 1250));
            assert_eq!(sut.poll(at(second * 1000 + 990)), LivenessAction::Idle);
        }
        // Without the peer's it goes by itself.
        assert_eq!(sut.poll(at(5250)), LivenessAction::SendKeepalive);
        assert_eq!(sut.poll(at(6500)), LivenessAction::SendKeepalive);
        let mut sut = Liveness::with_defaults(at(0));
        assert!(
            !sut.handle_keepalive(at(999), &theirs),
            "who does not answer"
        );
    }

    #[test]
    fn a_silent_peer_is_dead_at_the_deadline() {
        let mut sut = Liveness::with_defaults(at(0));
        sut.handle_received(at(500));
        sut.poll(at(3400));
        assert_eq!(sut.poll_timeout(), at(3500));
        let silent_for = Duration::from_secs(3);
        assert_eq!(sut.poll(at(3500)), LivenessAction::Dead { silent_for });
    }

    #[test]
    fn any_bytes_keep_the_peer_alive() {
        let mut sut = Liveness::with_defaults(at(0));
        for second in 1..100 {
            sut.handle_received(at(second * 1000));
            assert_eq!(sut.poll(at(second * 1000)), LivenessAction::SendKeepalive);
        }
    }

    #[test]
    fn a_stall_of_ones_own_is_not_the_peers_death() {
        let mut sut = Liveness::with_defaults(at(0));
        assert_eq!(sut.poll(at(60_000)), LivenessAction::SendKeepalive);
        sut.handle_received(at(60_100));
        assert_eq!(sut.poll(at(61_000)), LivenessAction::SendKeepalive);
    }

    #[test]
    fn after_a_stall_of_ones_own_silence_counts_once_more() {
        let mut sut = Liveness::with_defaults(at(0));
        sut.poll(at(60_000));
        assert!(matches!(sut.poll(at(61_000)), LivenessAction::Dead { .. }));
    }

    #[test]
    fn the_echo_measures_the_round_trip_without_the_time_it_was_held() {
        let (mut here, mut there) = (
            Liveness::with_defaults(at(0)),
            Liveness::with_defaults(at(0)),
        );
        let ours = here.keepalive(at(1000), 0, 0);
        assert_eq!((ours.echo, ours.echo_held_ns), (0, 0));
        there.handle_keepalive(at(1002), &ours);
        let theirs = there.keepalive(at(1700), 0, 0);
        here.handle_keepalive(at(1705), &theirs);
        assert_eq!(here.round_trip(), Some(Duration::from_millis(7)));
        assert_eq!(there.round_trip(), None);
    }
}
