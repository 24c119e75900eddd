//! The time of a turn is charged to the session that used it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use trunkline_proto::{Channel, Disconnect, Endpoint};
use trunkline_types::Timestamp;

use super::*;
use crate::server::admission::{Bounds, SessionCounts, SessionFactory};
use crate::server::turns::COUNTED_MAX;
use crate::transport::Peer;
use crate::transport::pipe::PIPE_CAPACITY;
use crate::transport::tls::{ClientCertificates, Security, TlsIdentity, TlsServer, accepted};

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
    worker_of(Arc::new(|_: Peer, _: Notifier| {
        Ok(Box::new(Idle) as Box<dyn Endpoint>)
    }))
}

fn worker_of(factory: Arc<dyn SessionFactory>) -> Worker {
    let poll = Poll::new().unwrap();
    let waker = mio::Waker::new(poll.registry(), MAILBOX).unwrap();
    let mailbox = Arc::new(Mailbox::new(waker));
    let bounds = Bounds {
        sessions_max: 10,
        handshakes_max: 10,
    };
    let counts = Arc::new(SessionCounts::new(bounds));
    let threads = vec![mailbox.clone()];
    let admission = Admission::new(factory, counts, threads, PIPE_CAPACITY);
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

/// A session that waits for a hello until a deadline.
#[derive(Default)]
struct AwaitsHello {
    due: Option<Tick>,
    closing: Option<Disconnect>,
    told: bool,
}

const HELLO_LIMIT: Duration = Duration::from_secs(5);

impl Endpoint for AwaitsHello {
    fn handle_connected(&mut self, now: Tick, _: Timestamp) {
        self.due = Some(now.saturating_add(HELLO_LIMIT));
    }

    fn handle_channel(&mut self, _: &Channel) {
        self.told = true;
    }

    fn handle_input(&mut self, _: Tick, _: Timestamp, _: &[u8]) {}

    fn poll_output(&mut self, _: Tick, _: Timestamp, _: usize, out: &mut Vec<u8>) -> bool {
        if self.closing.is_some() {
            out.extend(b"too slow");
        }
        false
    }

    fn poll_timeout(&self) -> Option<Tick> {
        self.due
    }

    fn handle_timeout(&mut self, now: Tick, _: Timestamp) {
        if self.due.take_if(|due| *due <= now).is_some() {
            self.closing = Some(Disconnect::Slow {
                what: "hello",
                deadline: HELLO_LIMIT,
            });
        }
    }

    fn handle_disconnected(&mut self, _: Tick, _: Disconnect) {
        assert!(!self.told, "the handshake was never complete");
    }

    fn wants_close(&self) -> Option<Disconnect> {
        self.closing.clone()
    }

    fn is_in_handshake(&self) -> bool {
        true
    }
}

/// An identity with a key that nobody else has.
fn identity() -> TlsIdentity {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    TlsIdentity {
        chain: vec![params.self_signed(&key).unwrap().der().to_vec()],
        key: key.serialize_der(),
    }
}

/// H-18: a peer that sends its part of the handshake byte by byte occupies a session until the hello
/// is due, and no longer.
#[test]
fn handshake_that_is_not_complete_in_time_is_cut() {
    let server = TlsServer::new(identity(), ClientCertificates::Ignored).unwrap();
    let server = Arc::new(server);
    for security in [Security::Tls, Security::Either].map(|one| one(server.clone())) {
        let open = |_: Peer, _: Notifier| Ok(Box::new(AwaitsHello::default()) as Box<dyn Endpoint>);
        let mut sut = worker_of(Arc::new(open));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, address) = listener.accept().unwrap();
        let timeout = Duration::from_secs(30);
        let transport = accepted(Arc::new(stream), address, timeout, &security).unwrap();
        sut.admission.admit(transport, || true);
        let mut moment = sut.moment();
        sut.read_mail(moment);
        // The time limit begins with the first turn.
        let began = moment.now;
        sut.run_turns(&mut moment);
        let key = SessionKey::of_slot(0);
        let counters = |sut: &Worker| sut.admission.counts.counters();
        for byte in [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc] {
            peer.write_all(&[byte]).unwrap();
            let session = session(&mut sut.slots, key).unwrap();
            session.set_ready(false);
            sut.turns.queue(session, key);
            moment.now = moment.now.saturating_add(HELLO_LIMIT / 10);
            sut.run_turns(&mut moment);
            assert_eq!((counters(&sut).sessions, counters(&sut).handshakes), (1, 1));
        }
        moment.now = began.saturating_add(HELLO_LIMIT);
        sut.fire_timers(moment.now);
        sut.run_turns(&mut moment);
        assert_eq!((counters(&sut).sessions, counters(&sut).handshakes), (0, 0));
        let mut answer = Vec::new();
        let _ = peer.read_to_end(&mut answer);
        assert_eq!(answer, b"", "nothing that is not encrypted");
    }
}
