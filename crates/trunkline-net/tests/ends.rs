//! Connections that a server hands over, and that two programs continue with keys that each knows of
//! the other.
#![cfg(not(shuttle))]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod echo;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use echo::certificates::Authority;
use echo::{CUT_OFF, LOOPBACK, cut_off};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use rustls_pki_types::{CertificateDer, ServerName};
use trunkline_net::{
    ClientCertificates, Clock, Dialler, Link, LinkOptions, Notifier, Peer, Server, ServerOptions,
    SessionFactory, TlsClient, TlsServer, Transport, Trust, accept_end, public_key, tcp,
};
use trunkline_proto::{Disconnect, EndKeys, Endpoint};
use trunkline_types::{Tick, Timestamp};

const QUESTION: &[u8] = b"where";
const ANSWER: &[u8] = b"there";
const HELLO: &[u8] = b"hello";

/// Seeds of the keys of the two ends.
const DIALLING: [u8; 32] = [1; 32];
const DIALLED: [u8; 32] = [2; 32];
const OTHER: [u8; 32] = [3; 32];

/// The server's endpoint: answers the question, and hands the connection over.
#[derive(Default)]
struct Doorman {
    input: Vec<u8>,
    has_answered: bool,
}

impl Endpoint for Doorman {
    fn handle_connected(&mut self, _: Tick, _: Timestamp) {}

    fn handle_input(&mut self, _: Tick, _: Timestamp, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    fn wants_input(&self) -> bool {
        !self.has_answered
    }

    fn poll_output(&mut self, _: Tick, _: Timestamp, _: usize, out: &mut Vec<u8>) -> bool {
        if self.input == QUESTION && !std::mem::replace(&mut self.has_answered, true) {
            out.extend_from_slice(ANSWER);
        }
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

    fn wants_handover(&self) -> Option<u64> {
        self.has_answered.then_some(7)
    }
}

struct House(Mutex<Sender<OwnedFd>>);

impl SessionFactory for House {
    fn open(&self, _: Peer, _: Notifier) -> Result<Box<dyn Endpoint>, Vec<u8>> {
        Ok(Box::new(Doorman::default()))
    }

    fn hand_over(&self, number: u64, _: Peer, socket: OwnedFd) {
        assert_eq!(number, 7);
        let _ = self.0.lock().unwrap().send(socket);
    }
}

struct Rig {
    authority: Authority,
    server: Server,
    handed_over: Receiver<OwnedFd>,
}

impl Rig {
    fn start() -> Self {
        let authority = Authority::new("plant");
        let identity = authority.identity();
        let tls = TlsServer::new(identity, ClientCertificates::Accepted).unwrap();
        let options = ServerOptions {
            listen: vec![LOOPBACK.into()],
            tls: Some(Arc::new(tls)),
            ..ServerOptions::default()
        };
        let (sender, handed_over) = channel();
        let server = Server::bind(options, Arc::new(House(Mutex::new(sender)))).unwrap();
        Self {
            authority,
            server,
            handed_over,
        }
    }

    fn port(&self) -> u16 {
        self.server.local_addrs()[0].port()
    }

    fn visit(&self, keys: EndKeys) -> Arc<Link<Visitor>> {
        let trust = Trust::Authorities(vec![self.authority.der.clone()]);
        let tls = Arc::new(TlsClient::new(trust, None).unwrap());
        let dialler = Dialler::tls("localhost", self.port(), tls);
        Link::start(dialler, Visitor::new(keys), LinkOptions::default()).unwrap()
    }

    /// Continues the next connection that the server hands over.
    fn accept(&self, keys: &EndKeys) -> std::io::Result<(Transport, Vec<u8>)> {
        let socket = self.handed_over.recv_timeout(CUT_OFF).unwrap();
        let deadline = cut_off().unwrap();
        accept_end(socket, tcp::USER_TIMEOUT, keys, deadline, |bytes| {
            bytes.len() >= HELLO.len()
        })
    }
}

/// The dialling end: asks, continues the connection with its keys, and says hello.
struct Visitor {
    keys: EndKeys,
    /// Set until the driver has taken the keys.
    next: Option<EndKeys>,
    output: Vec<u8>,
    input: Vec<u8>,
    has_answer: bool,
    has_dialled: bool,
    ended: Option<Disconnect>,
}

impl Visitor {
    fn new(keys: EndKeys) -> Self {
        Self {
            keys,
            next: None,
            output: Vec::new(),
            input: Vec::new(),
            has_answer: false,
            has_dialled: false,
            ended: None,
        }
    }
}

impl Endpoint for Visitor {
    fn handle_connected(&mut self, _: Tick, _: Timestamp) {
        self.has_dialled = true;
        self.output.extend_from_slice(QUESTION);
    }

    fn handle_input(&mut self, _: Tick, _: Timestamp, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        if !self.has_answer && self.input == ANSWER {
            self.has_answer = true;
            self.input.clear();
            self.next = Some(self.keys.clone());
            // The driver must not send this to the server.
            self.output.extend_from_slice(HELLO);
        }
    }

    fn poll_output(&mut self, _: Tick, _: Timestamp, _: usize, out: &mut Vec<u8>) -> bool {
        out.append(&mut self.output);
        false
    }

    fn poll_timeout(&self) -> Option<Tick> {
        None
    }

    fn handle_timeout(&mut self, _: Tick, _: Timestamp) {}

    fn handle_disconnected(&mut self, _: Tick, cause: Disconnect) {
        self.ended = Some(cause);
    }

    fn wants_close(&self) -> Option<Disconnect> {
        None
    }

    fn poll_dial(&self) -> Option<Tick> {
        (!self.has_dialled).then_some(Tick::ZERO)
    }

    fn take_end_keys(&mut self) -> Option<EndKeys> {
        self.next.take()
    }
}

fn keys(own_seed: [u8; 32], peer_seed: [u8; 32]) -> EndKeys {
    EndKeys {
        own_seed: own_seed.into(),
        peer: public_key(&peer_seed).unwrap(),
    }
}

/// The reason why the visitor's connection ended.
fn end_of(link: &Link<Visitor>) -> String {
    let ended = link.wait_until(cut_off(), |visitor, _| visitor.ended.clone());
    ended.expect("the connection ends").to_string()
}

/// Both directions, also with more than fits into the buffers of the sockets.
///
/// Behaviour: B-80.
#[test]
fn two_ends_continue_a_connection_with_their_keys() {
    let rig = Rig::start();
    let link = rig.visit(keys(DIALLING, DIALLED));
    let (mut transport, bytes) = rig.accept(&keys(DIALLED, DIALLING)).unwrap();
    assert_eq!(bytes, HELLO);
    assert_eq!(link.transport().unwrap().name, "TLS");
    let sent: Vec<u8> = (0..1 << 20).map(|i: u32| (i % 251) as u8).collect();
    let mut rest = &sent[..];
    while !rest.is_empty() {
        match transport.send.try_write(rest).unwrap() {
            Some(count) => rest = &rest[count..],
            // The link's own thread reads.
            None => std::thread::yield_now(),
        }
    }
    while !transport.send.flush().unwrap() {
        std::thread::yield_now();
    }
    let received = link.wait_until(cut_off(), |visitor, _| {
        (visitor.input.len() >= sent.len()).then(|| std::mem::take(&mut visitor.input))
    });
    assert!(received.unwrap() == sent);
    transport.send.finish();
    assert_eq!(end_of(&link), Disconnect::PeerClosed.to_string());
}

/// A program that has the connection, but not the key, gets nothing.
///
/// Behaviour: B-80, NS-66.
#[test]
fn end_without_the_key_is_refused_by_the_other_end() {
    let rig = Rig::start();
    // The dialling end has another key than the dialled one was told.
    let link = rig.visit(keys(OTHER, DIALLED));
    let error = rig.accept(&keys(DIALLED, DIALLING)).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("does not have the key that the engine named"),
        "{text}"
    );
    end_of(&link);
    // The dialled end has another key than the dialling one was told.
    let link = rig.visit(keys(DIALLING, DIALLED));
    assert!(rig.accept(&keys(OTHER, DIALLING)).is_err());
    let text = end_of(&link);
    assert!(
        text.contains("does not have the key that the engine named"),
        "{text}"
    );
}

/// A peer that never proves its key costs a bounded time.
#[test]
fn silent_peer_of_a_handover_is_given_up_at_the_deadline() {
    let listener = std::net::TcpListener::bind(LOOPBACK).unwrap();
    let _silent = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (socket, _) = listener.accept().unwrap();
    let now = Clock::new().now();
    let keys = keys(DIALLED, DIALLING);
    let accepted = accept_end(socket.into(), tcp::USER_TIMEOUT, &keys, now, |_| true);
    assert_eq!(accepted.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
}

/// Bytes that somebody puts behind the end of the encryption do not reach the other program.
///
/// Behaviour: B-80.
#[test]
fn bytes_behind_the_end_of_encryption_are_not_handed_over() {
    let rig = Rig::start();
    let mut store = RootCertStore::empty();
    store
        .add(CertificateDer::from(rig.authority.der.clone()))
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(store)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let mut tls = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", rig.port())).unwrap();
    stream.set_read_timeout(Some(CUT_OFF)).unwrap();
    tls.writer().write_all(QUESTION).unwrap();
    let mut answer = [0; ANSWER.len()];
    let mut read = 0;
    while read < answer.len() {
        tls.complete_io(&mut stream).unwrap();
        read += tls.reader().read(&mut answer[read..]).unwrap_or(0);
    }
    assert_eq!(answer, ANSWER);
    tls.send_close_notify();
    let mut bytes = Vec::new();
    while tls.wants_write() {
        tls.write_tls(&mut bytes).unwrap();
    }
    bytes.extend_from_slice(b"smuggled");
    stream.write_all(&bytes).unwrap();
    let socket = rig.handed_over.recv_timeout(CUT_OFF).unwrap();
    // The server has ended its side before, and says nothing more.
    while !tls.process_new_packets().unwrap().peer_has_closed() {
        assert!(tls.read_tls(&mut stream).unwrap() > 0);
    }
    stream.write_all(b"continued").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut handed_over = TcpStream::from(socket);
    handed_over.set_nonblocking(false).unwrap();
    let mut rest = Vec::new();
    handed_over.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"continued");
}
