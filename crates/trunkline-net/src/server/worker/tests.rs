//! The time of a turn is charged to the session that used it.

use trunkline_proto::{Disconnect, Endpoint};
use trunkline_types::Timestamp;

use super::*;
use crate::server::admission::{Bounds, SessionCounts};
use crate::server::turns::COUNTED_MAX;
use crate::transport::Peer;
use crate::transport::pipe::PIPE_CAPACITY;

/// A session that has nothing to do.
struct Idle;

impl Endpoint for Idle {
    fn handle_connected(&mut self, _: Tick, _: Timestamp) {}

    fn handle_input(&mut self, _: Tick, _: Timestamp, _: &[u8]) {}

    fn poll_output(&mut self, _: Tick, _: Timestamp, _: usize, _: &mut Vec<u8>) -> bool {
        false
    }

    fn poll_timeout(&self) -> Option<Tick> {
        None
    }

    fn handle_timeout(&mut self, _: Tick, _: Timestamp) {}

    fn handle_disconnected(&mut self, _: Tick, _: Disconnect) {}

    fn wants_close(&self) -> Option<Disconnect> {
        None
    }
}

fn worker() -> Worker {
    let poll = Poll::new().unwrap();
    let waker = mio::Waker::new(poll.registry(), MAILBOX).unwrap();
    let mailbox = Arc::new(Mailbox::new(waker));
    let bounds = Bounds {
        sessions_max: 10,
        handshakes_max: 10,
    };
    let open = |_: Peer, _: Notifier| Ok(Box::new(Idle) as Box<dyn Endpoint>);
    let counts = Arc::new(SessionCounts::new(bounds));
    let threads = vec![mailbox.clone()];
    let admission = Admission::new(Arc::new(open), counts, threads, PIPE_CAPACITY);
    Worker::new(poll, mailbox, Arc::new(admission), Duration::ZERO)
}

impl Worker {
    /// Opens a session. Its first turn is planned.
    fn arrive(&mut self) -> (SessionKey, Transport) {
        let near = self.admission.accept_pipe().unwrap();
        let moment = self.moment();
        self.read_mail(moment);
        (SessionKey::of_slot(self.slots.len() as u32 - 1), near)
    }

    /// Runs a turn of one session when the time since `began` has not been charged yet. Returns the
    /// time that the session is charged.
    fn turn_of(&mut self, key: SessionKey, moment: &mut Moment) -> Duration {
        let session = session(&mut self.slots, key).unwrap();
        self.turns.queue(session, key);
        let before = session.share.used();
        self.run_turns(moment);
        assert!(self.turns.is_empty(), "{key:?} had its turn");
        let session = self::session(&mut self.slots, key).unwrap();
        session.share.used() - before
    }
}

#[test]
fn time_that_is_not_charged_yet_is_charged_to_the_session_that_used_it() {
    let mut sut = worker();
    let (first, _near) = sut.arrive();
    let mut moment = sut.moment();
    // Longer ago than the maximum time charged for one turn.
    let long_ago = Tick::ZERO;
    assert!(moment.now.since(long_ago) > COUNTED_MAX);
    moment.began = long_ago;
    assert_eq!(sut.turn_of(first, &mut moment), Duration::ZERO, "alone");
    assert_eq!((moment.began, moment.used_by), (long_ago, Some(first)));

    let (second, _near) = sut.arrive();
    let uncharged = moment;
    // The system may interrupt some turns, but not all.
    let is_spared = (0..1000).any(|_| {
        let mut moment = uncharged;
        let charged = sut.turn_of(second, &mut moment);
        assert_eq!(moment.used_by, None);
        assert!(moment.began > long_ago);
        charged < COUNTED_MAX
    });
    assert!(is_spared, "the second pays for the first");
    let mut moment = uncharged;
    assert_eq!(sut.turn_of(first, &mut moment), COUNTED_MAX);
    assert_eq!(moment.used_by, None);
}
