//! Keep-alive and detection of dead peers, the same on both sides (B-13).

use std::time::Duration;

use trunkline_types::Tick;
use trunkline_types::time::duration_nanos;

use crate::limits::{KEEPALIVE_DEADLINE, KEEPALIVE_INTERVAL};
use crate::message::keepalive::Keepalive;

/// Decides when to send a keep-alive and when to give up on the peer, and measures the round trip.
///
/// A keep-alive is sent once per interval regardless of other traffic, because it carries counts
/// and the digest. To avoid further wake-ups at both ends, an engine sends the keep-alives of many
/// connections [together](Self::together), and a client [answers](Self::answering) the engine's
/// keep-alives with its own. Any bytes from the peer count as a sign of life. Read the bytes that
/// have arrived before calling [`poll`](Self::poll); otherwise a stall of this process looks like a
/// stall of the peer.
#[derive(Clone, Debug)]
pub struct Liveness {
    interval: Duration,
    deadline: Duration,
    last_received: Tick,
    next_send: Tick,
    /// Keep-alives are sent at multiples of this duration; zero means no alignment.
    grid: Duration,
    /// True if each keep-alive of the peer is answered with a keep-alive.
    answers: bool,
    /// End of the single grace period that the peer gets after a stall of this process, because
    /// bytes from the peer may still be unread.
    grace_until: Option<Tick>,
    /// The `sent` field of the peer's last keep-alive and the arrival time of that keep-alive, for
    /// the echo.
    peer_sent: Option<(u64, Tick)>,
    round_trip: Option<Duration>,
}

/// Number of time slots in an interval; connections that send keep-alives together share these
/// slots.
const PHASES: u32 = 4;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LivenessAction {
    /// Nothing to do before [`Liveness::poll_timeout`].
    Idle,
    /// Send a keep-alive now.
    SendKeepalive,
    Dead {
        /// Time since the last bytes from the peer.
        silent_for: Duration,
    },
}

impl Liveness {
    /// Starts at `now`, the time at which the connection came up, with the given interval and deadline.
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

    /// Starts at `now`, the time at which the connection came up, with the default times: a
    /// keep-alive every second, and a deadline of three seconds.
    pub fn with_defaults(now: Tick) -> Self {
        Self::new(now, KEEPALIVE_INTERVAL, KEEPALIVE_DEADLINE)
    }

    /// Sends keep-alives at multiples of a quarter of the interval. All connections whose ticks
    /// have the same origin then share one wake-up. The first keep-alive is sent up to a quarter of
    /// the interval earlier.
    #[must_use]
    pub fn together(mut self) -> Self {
        self.grid = self.quarter();
        self.next_send = self.aligned(self.next_send);
        self
    }

    /// Sends a keep-alive as soon as one arrives from the peer, unless this end sent one in the
    /// last half interval. A keep-alive that is due without one from the peer is delayed by a
    /// quarter of the interval, so that the peer's keep-alive can arrive first.
    #[must_use]
    pub fn answering(mut self) -> Self {
        self.answers = true;
        self.next_send = self.next_send.saturating_add(self.quarter());
        self
    }

    /// Called when bytes have arrived from the peer.
    pub fn handle_received(&mut self, now: Tick) {
        (self.last_received, self.grace_until) = (now, None);
    }

    /// Called when a keep-alive has arrived from the peer. Returns true if a keep-alive must be
    /// sent in answer.
    pub fn handle_keepalive(&mut self, now: Tick, keepalive: &Keepalive) -> bool {
        self.peer_sent = Some((keepalive.sent, now));
        if keepalive.echo != 0 {
            let elapsed = now.since(Tick::from_nanos(keepalive.echo));
            let held = Duration::from_nanos(keepalive.echo_held_ns);
            self.round_trip = Some(elapsed.saturating_sub(held));
        }
        let remaining = self.next_send.since(now).saturating_sub(self.quarter());
        let answers = self.answers && remaining.saturating_mul(2) <= self.interval;
        if answers {
            self.schedule_next(now);
        }
        answers
    }

    /// Schedules the next keep-alive after the keep-alive sent at `now`.
    fn schedule_next(&mut self, now: Tick) {
        let due = now.saturating_add(self.interval);
        self.next_send = match self.answers {
            true => due.saturating_add(self.quarter()),
            false => self.aligned(due),
        };
    }

    fn quarter(&self) -> Duration {
        self.interval.checked_div(PHASES).unwrap_or_default()
    }

    /// Returns the last multiple of the grid that is not after `due`.
    fn aligned(&self, due: Tick) -> Tick {
        let past = due.as_nanos().checked_rem(duration_nanos(self.grid));
        Tick::from_nanos(due.as_nanos().saturating_sub(past.unwrap_or(0)))
    }

    /// Builds the keep-alive to send at `now`.
    pub fn keepalive(&self, now: Tick, records_received: u64, digest: u64) -> Keepalive {
        let (echo, received_at) = self.peer_sent.unwrap_or((0, now));
        Keepalive {
            sent: now.as_nanos(),
            echo,
            echo_held_ns: duration_nanos(now.since(received_at)),
            records_received,
            digest,
        }
    }

    /// Returns the time at which [`poll`](Self::poll) next returns an action.
    pub fn poll_timeout(&self) -> Tick {
        self.next_send.min(self.dead_at())
    }

    /// Returns the action due at `now`. `SendKeepalive` is returned once per interval, never in
    /// bursts.
    pub fn poll(&mut self, now: Tick) -> LivenessAction {
        let dead_at = self.dead_at();
        if now >= dead_at {
            let late = now.since(dead_at);
            if self.grace_until.is_some() || late.saturating_mul(4) <= self.interval {
                return LivenessAction::Dead {
                    silent_for: now.since(self.last_received),
                };
            }
            // This process did not run at the deadline, for example because the machine was
            // suspended, so bytes from the peer may be unread. Allow one interval to read them.
            self.grace_until = Some(now.saturating_add(self.interval));
        }
        if now >= self.next_send {
            self.schedule_next(now);
            return LivenessAction::SendKeepalive;
        }
        LivenessAction::Idle
    }

    /// Returns the time since the last bytes arrived from the peer.
    pub fn silent_for(&self, now: Tick) -> Duration {
        now.since(self.last_received)
    }

    /// Returns the last measured round-trip time, excluding the time for which the peer held the
    /// echo.
    pub fn round_trip(&self) -> Option<Duration> {
        self.round_trip
    }

    fn dead_at(&self) -> Tick {
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
    fn keepalives_of_many_connections_are_sent_at_the_same_ticks() {
        // The ticks of a process have an arbitrary origin.
        let tick = |ms: u64| Tick::from_nanos(ms * 1_000_000);
        for opened in [3, 249, 250, 1499, 7000] {
            let mut sut = Liveness::with_defaults(tick(opened)).together();
            let first = sut.poll_timeout();
            assert_eq!(first.as_nanos() % 250_000_000, 0);
            let after = first.since(tick(opened));
            assert!(after > Duration::from_millis(750) && after <= Duration::from_secs(1));
            // Late by less than a quarter of the interval: the next keep-alive is not shifted.
            let late = first.saturating_add(Duration::from_millis(30));
            sut.handle_received(late);
            assert_eq!(sut.poll(late), LivenessAction::SendKeepalive);
            assert_eq!(sut.poll_timeout().since(first), Duration::from_secs(1));
        }
    }

    #[test]
    fn a_keepalive_is_answered_if_the_next_one_is_due_soon() {
        let theirs = Liveness::with_defaults(at(0)).keepalive(at(0), 0, 0);
        let mut sut = Liveness::with_defaults(at(0)).answering();
        assert!(
            !sut.handle_keepalive(at(200), &theirs),
            "a keep-alive was sent recently"
        );
        for second in 1..5 {
            assert!(sut.handle_keepalive(at(second * 1000), &theirs));
            assert!(!sut.handle_keepalive(at(second * 1000 + 1), &theirs));
            sut.handle_received(at(second * 1000));
            assert_eq!(sut.poll_timeout(), at(second * 1000 + 1250));
            assert_eq!(sut.poll(at(second * 1000 + 990)), LivenessAction::Idle);
        }
        // Without the peer's keep-alive this end sends its own.
        assert_eq!(sut.poll(at(5250)), LivenessAction::SendKeepalive);
        assert_eq!(sut.poll(at(6500)), LivenessAction::SendKeepalive);
        let mut sut = Liveness::with_defaults(at(0));
        assert!(
            !sut.handle_keepalive(at(999), &theirs),
            "a peer without the answering option does not answer"
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
    fn local_stall_does_not_expire_the_peer() {
        let mut sut = Liveness::with_defaults(at(0));
        assert_eq!(sut.poll(at(60_000)), LivenessAction::SendKeepalive);
        sut.handle_received(at(60_100));
        assert_eq!(sut.poll(at(61_000)), LivenessAction::SendKeepalive);
    }

    #[test]
    fn silence_counts_again_after_a_local_stall() {
        let mut sut = Liveness::with_defaults(at(0));
        sut.poll(at(60_000));
        assert!(matches!(sut.poll(at(61_000)), LivenessAction::Dead { .. }));
    }

    #[test]
    fn round_trip_excludes_the_time_for_which_the_peer_held_the_echo() {
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
