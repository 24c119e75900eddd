//! A session whose endpoint panics while another thread sends for it.
#![cfg(not(shuttle))]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod echo;

use std::io::Read;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

use echo::{CUT_OFF, LOOPBACK};
use trunkline_net::{Clock, Notifier, Peer, Server, ServerOptions};
use trunkline_proto::{Disconnect, Endpoint};
use trunkline_types::{Tick, Timestamp};

/// Breaks off in the middle of a frame when `writer` has it send.
struct Broken {
    writer: ThreadId,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    broken: AtomicBool,
    /// Number of calls afterwards.
    disturbed: AtomicUsize,
}

impl Broken {
    fn note(&self) {
        if self.state.broken.load(Ordering::SeqCst) {
            self.state.disturbed.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Endpoint for Broken {
    fn handle_connected(&mut self, _: Tick, _: Timestamp) {
        self.note();
    }

    fn handle_input(&mut self, _: Tick, _: Timestamp, _: &[u8]) {
        self.note();
    }

    fn poll_output(&mut self, _: Tick, _: Timestamp, _: usize, out: &mut Vec<u8>) -> bool {
        self.note();
        if thread::current().id() == self.writer {
            out.extend(b"half");
            self.state.broken.store(true, Ordering::SeqCst);
            panic!("on purpose");
        }
        false
    }

    fn lets_writers_send(&self) -> bool {
        self.note();
        true
    }

    fn poll_timeout(&self) -> Option<Tick> {
        self.note();
        None
    }

    fn handle_timeout(&mut self, _: Tick, _: Timestamp) {
        self.note();
    }

    fn handle_disconnected(&mut self, _: Tick, _: Disconnect) {
        self.note();
    }

    fn wants_close(&self) -> Option<Disconnect> {
        self.note();
        None
    }
}

#[test]
fn session_that_panicked_in_a_writer_ends_without_further_calls() {
    let (state, known) = (Arc::new(State::default()), Arc::new(Mutex::new(None)));
    let writer = thread::current().id();
    let options = ServerOptions {
        listen: vec![LOOPBACK.into()],
        threads: Some(1),
        spin: Duration::ZERO,
        ..ServerOptions::default()
    };
    let (own, notifiers) = (state.clone(), known.clone());
    let factory = move |_: Peer, notifier: Notifier| {
        *notifiers.lock().unwrap() = Some(notifier);
        let state = own.clone();
        Ok(Box::new(Broken { writer, state }) as Box<dyn Endpoint>)
    };
    let server = Server::bind(options, Arc::new(factory)).unwrap();
    let mut peer = TcpStream::connect(server.local_addrs()[0]).unwrap();
    peer.set_read_timeout(Some(CUT_OFF)).unwrap();
    let clock = Clock::new();
    let start = clock.now();
    // A writer sends only for a thread that sleeps.
    while !state.broken.load(Ordering::SeqCst) {
        assert!(clock.now().since(start) < CUT_OFF);
        let notifier: Option<Notifier> = known.lock().unwrap().clone();
        if let Some(notifier) = notifier {
            notifier.send();
        }
        thread::yield_now();
    }
    let mut received = Vec::new();
    let end = peer.read_to_end(&mut received);
    let was_cut_off = end.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
    assert!(!was_cut_off, "the session has not ended");
    assert_eq!(received, b"", "what lay half written was sent");
    assert_eq!(state.disturbed.load(Ordering::SeqCst), 0);
}
