//! Peers that request too much, stop half-way or misbehave do not affect the others.
#![cfg(not(shuttle))]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod echo;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use echo::{CUT_OFF, Caller, CallerLink, Echo, LOOPBACK, Over, Rig, noise};
use socket2::SockRef;
use trunkline_net::{
    Dialler, Link, LinkOptions, Notifier, Peer, Refusal, Server, ServerOptions, SessionFactory,
};
use trunkline_proto::{Disconnect, Endpoint};
use trunkline_types::{Tick, Timestamp};

/// A server that makes `endpoint` for each session.
fn serve(factory: impl SessionFactory + 'static) -> Server {
    let options = ServerOptions {
        listen: vec![LOOPBACK.into()],
        ..ServerOptions::default()
    };
    Server::bind(options, Arc::new(factory)).unwrap()
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.local_addrs()[0]).unwrap();
    stream.set_read_timeout(Some(CUT_OFF)).unwrap();
    stream
}

fn link(server: &Server) -> Arc<Link<Caller>> {
    let address = server.local_addrs()[0];
    let dialler = Dialler::tcp(address.ip().to_string(), address.port());
    Link::start(dialler, Caller::default(), LinkOptions::default()).unwrap()
}

/// Round trips of another client until `done`: time passes, and the server is seen to continue.
fn until(other: &Link<Caller>, mut done: impl FnMut() -> bool) {
    while !done() {
        assert_eq!(other.call(b"round trip"), b"round trip");
    }
}

/// Sends as much as it is asked for, and counts it.
struct Flood(Arc<AtomicU64>);

impl Endpoint for Flood {
    fn handle_connected(&mut self, _: Tick, _: Timestamp) {}
    fn handle_input(&mut self, _: Tick, _: Timestamp, _: &[u8]) {}
    fn poll_output(&mut self, _: Tick, _: Timestamp, budget: usize, out: &mut Vec<u8>) -> bool {
        out.resize(out.len() + budget, 7);
        self.0.fetch_add(budget as u64, Ordering::SeqCst);
        true
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

/// Every second session is a flood, the others echo.
fn flood_then_echo(asked: &Arc<AtomicU64>) -> impl SessionFactory + 'static {
    let asked = asked.clone();
    let sessions = AtomicU64::new(0);
    move |_: Peer, _: Notifier| {
        Ok(match sessions.fetch_add(1, Ordering::SeqCst) % 2 {
            0 => Box::new(Flood(asked.clone())) as Box<dyn Endpoint>,
            _ => Box::new(Echo::default()),
        })
    }
}

#[test]
fn a_client_that_stops_reading_costs_a_bounded_buffer() {
    let asked = Arc::new(AtomicU64::new(0));
    let options = ServerOptions {
        pipe_capacity: 1000,
        ..ServerOptions::default()
    };
    let server = Arc::new(Server::bind(options, Arc::new(flood_then_echo(&asked))).unwrap());
    let _stopped = server.accept_pipe().unwrap();
    let in_dialler = server.clone();
    let dialler = Dialler::pipe(move || in_dialler.accept_pipe());
    let other = Link::start(dialler, Caller::default(), LinkOptions::default()).unwrap();
    until(&other, || asked.load(Ordering::SeqCst) > 0);
    for _ in 0..1000 {
        other.call(b"round trip");
    }
    let asked = asked.load(Ordering::SeqCst);
    assert!(
        asked <= 1000 + (64 << 10),
        "the endpoint was asked for {asked} bytes"
    );
}

#[test]
fn client_that_stops_reading_over_tcp_gets_no_more_data() {
    let asked = Arc::new(AtomicU64::new(0));
    let server = serve(flood_then_echo(&asked));
    let stopped = connect(&server);
    // Keeps the buffers of the system small.
    SockRef::from(&stopped).set_recv_buffer_size(4096).unwrap();
    let other = link(&server);
    other.wait_connected();
    let mut last = 0;
    until(&other, || {
        for _ in 0..100 {
            other.call(b"round trip");
        }
        let now = asked.load(Ordering::SeqCst);
        std::mem::replace(&mut last, now) == now && now > 0
    });
    assert!(last < 64 << 20, "the endpoint was asked for {last} bytes");
    assert_eq!(server.counters().sessions, 2);
}

#[test]
fn a_client_that_reads_all_it_can_does_not_starve_the_others() {
    let asked = Arc::new(AtomicU64::new(0));
    let options = ServerOptions {
        listen: vec![LOOPBACK.into()],
        threads: Some(1),
        ..ServerOptions::default()
    };
    let server = Server::bind(options, Arc::new(flood_then_echo(&asked))).unwrap();
    let mut greedy = connect(&server);
    let reader = std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 20];
        while greedy.read(&mut buffer).is_ok_and(|count| count > 0) {}
    });
    let other = link(&server);
    for _ in 0..1000 {
        assert_eq!(other.call(b"round trip"), b"round trip");
    }
    server.shutdown(Duration::ZERO);
    reader.join().unwrap();
}

#[test]
fn a_client_that_sends_all_it_can_does_not_starve_the_others() {
    let options = ServerOptions {
        listen: vec![LOOPBACK.into()],
        threads: Some(1),
        ..ServerOptions::default()
    };
    let server = Server::bind(options, Echo::factory()).unwrap();
    let mut greedy = connect(&server);
    let mut echoed = greedy.try_clone().unwrap();
    let reader = std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 20];
        while echoed.read(&mut buffer).is_ok_and(|count| count > 0) {}
    });
    let writer = std::thread::spawn(move || {
        let buffer = vec![7; 1 << 20];
        while greedy.write_all(&buffer).is_ok() {}
    });
    let other = link(&server);
    for _ in 0..1000 {
        assert_eq!(other.call(b"round trip"), b"round trip");
    }
    server.shutdown(Duration::ZERO);
    writer.join().unwrap();
    reader.join().unwrap();
}

#[test]
fn a_peer_that_closes_its_half_still_gets_its_answers() {
    let rig = Rig::new(Over::Tcp);
    let server = rig.server();
    let mut sut = connect(&server);
    let message = noise(100_000);
    let mut writer = sut.try_clone().unwrap();
    let expected = message.clone();
    let writing = std::thread::spawn(move || {
        writer.write_all(&message).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut answer = Vec::new();
    sut.read_to_end(&mut answer).unwrap();
    writing.join().unwrap();
    assert!(
        answer == expected,
        "{} bytes of {}",
        answer.len(),
        expected.len()
    );
    until(&rig.link(), || server.counters().sessions == 1);
}

#[test]
fn a_reset_by_the_client_ends_its_session() {
    let rig = Rig::new(Over::Tcp);
    let server = rig.server();
    let sut = connect(&server);
    let other = rig.link();
    until(&other, || server.counters().sessions == 2);
    SockRef::from(&sut)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
    drop(sut);
    until(&other, || server.counters().sessions == 1);
}

#[test]
fn reset_by_the_server_is_reported_with_its_meaning() {
    let listener = TcpListener::bind(LOOPBACK).unwrap();
    let address = listener.local_addr().unwrap();
    let dialler = Dialler::tcp(address.ip().to_string(), address.port());
    let sut = Link::start(dialler, Caller::default(), LinkOptions::default()).unwrap();
    let (server, _) = listener.accept().unwrap();
    SockRef::from(&server)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
    drop(server);
    let cause = sut.wait_disconnected().to_string();
    assert!(cause.contains("the peer was stopped or killed"), "{cause}");
}

#[test]
fn goodbye_is_read_after_the_send_side_failed() {
    let listener = TcpListener::bind(LOOPBACK).unwrap();
    let address = listener.local_addr().unwrap();
    let dialler = Dialler::tcp(address.ip().to_string(), address.port());
    let sut = Link::start(dialler, Caller::default(), LinkOptions::default()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    sut.wait_connected();
    sut.with(|caller, _, _| caller.hungry = false);
    server.write_all(&[3, 0, 0, 0]).unwrap();
    server.write_all(b"bye").unwrap();
    drop(server);
    // Until the system has noticed that the peer is gone.
    let broken = std::iter::repeat_with(|| sut.send(&[0; 100]))
        .take(100)
        .count();
    assert_eq!(broken, 100);
    sut.with(|caller, _, _| caller.hungry = true);
    assert_eq!(sut.receive(), b"bye");
    sut.wait_disconnected();
}

/// A link whose server reads nothing, and more to send than the system takes.
fn stuck() -> (Arc<Link<Caller>>, TcpStream) {
    let listener = TcpListener::bind(LOOPBACK).unwrap();
    let address = listener.local_addr().unwrap();
    let dialler = Dialler::tcp(address.ip().to_string(), address.port());
    let sut = Link::start(dialler, Caller::default(), LinkOptions::default()).unwrap();
    let (server, _) = listener.accept().unwrap();
    sut.wait_connected();
    sut.send(&noise(32 << 20));
    (sut, server)
}

#[test]
fn a_connection_to_a_dead_peer_is_closed_at_once() {
    let (sut, mut server) = stuck();
    let dead = Disconnect::Dead {
        silent_for: Duration::from_secs(3),
    };
    sut.with(|caller, _, _| caller.closing = Some(dead.clone()));
    assert_eq!(sut.wait_disconnected(), dead);
    // A peer that was cut off in one direction only learns of it as well, but not in order after
    // its unconfirmed data.
    server.set_read_timeout(Some(CUT_OFF)).unwrap();
    let read = server.read_to_end(&mut Vec::new());
    assert_eq!(read.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

/// Treats its connection as dead after the first input.
struct Mute(Echo, bool);

impl Endpoint for Mute {
    fn handle_connected(&mut self, now: Tick, wall: Timestamp) {
        self.0.handle_connected(now, wall);
    }
    fn handle_input(&mut self, _: Tick, _: Timestamp, _: &[u8]) {
        self.1 = true;
    }
    fn poll_output(&mut self, _: Tick, _: Timestamp, budget: usize, out: &mut Vec<u8>) -> bool {
        // A whole buffer, or the end would find nothing in its way.
        out.resize(out.len() + budget, 7);
        !self.1
    }
    fn poll_timeout(&self) -> Option<Tick> {
        None
    }
    fn handle_timeout(&mut self, _: Tick, _: Timestamp) {}
    fn handle_disconnected(&mut self, _: Tick, _: Disconnect) {}
    fn wants_close(&self) -> Option<Disconnect> {
        let silent_for = Duration::from_secs(3);
        self.1.then_some(Disconnect::Dead { silent_for })
    }
}

#[test]
fn a_server_resets_the_connection_of_a_dead_peer() {
    let server = serve(|_: Peer, _: Notifier| {
        Ok(Box::new(Mute(Echo::default(), false)) as Box<dyn Endpoint>)
    });
    let mut sut = connect(&server);
    sut.write_all(b"something").unwrap();
    let read = sut.read_to_end(&mut Vec::new());
    assert_eq!(read.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_peer_that_does_not_read_cannot_keep_a_connection_from_closing() {
    let (sut, _server) = stuck();
    sut.with(|caller, _, _| caller.closing = Some(Disconnect::ClosedLocally));
    assert_eq!(sut.wait_disconnected(), Disconnect::ClosedLocally);
}

/// Refuses every peer with a sentence.
struct Sentences;

impl SessionFactory for Sentences {
    fn open(&self, _: Peer, _: Notifier) -> Result<Box<dyn Endpoint>, Vec<u8>> {
        Ok(Box::new(Echo::default()))
    }

    fn refusal(&self, peer: Peer, refusal: Refusal, _: Option<Duration>) -> Vec<u8> {
        format!("{peer}: {refusal}").into_bytes()
    }
}

#[test]
fn session_beyond_the_limit_is_refused_and_the_others_stay() {
    let options = ServerOptions {
        listen: vec![LOOPBACK.into()],
        sessions_max: 2,
        ..Default::default()
    };
    let server = Server::bind(options, Arc::new(Sentences)).unwrap();
    let (first, second) = (link(&server), link(&server));
    first.call(b"hello");
    second.call(b"hello");
    let mut sut = connect(&server);
    // Sent before it is refused, and never read: that must not cost it the reason.
    let _ = sut.write_all(&noise(1000));
    let mut reason = String::new();
    sut.read_to_string(&mut reason).unwrap();
    assert_eq!(
        reason,
        format!(
            "{}: 2 sessions are open, which is the limit; close some, or raise sessions_max",
            sut.local_addr().unwrap()
        )
    );
    assert_eq!(first.call(b"still"), b"still");
    drop(second);
    until(&first, || server.counters().sessions == 1);
    assert_eq!(link(&server).call(b"room again"), b"room again");
    assert_eq!(server.counters().refused, 1);
}

/// Set up after the first input of the peer; echoes it.
#[derive(Default)]
struct Shy(Echo, bool);

impl Endpoint for Shy {
    fn handle_connected(&mut self, now: Tick, wall: Timestamp) {
        self.0.handle_connected(now, wall);
    }
    fn handle_input(&mut self, now: Tick, wall: Timestamp, bytes: &[u8]) {
        self.1 = true;
        self.0.handle_input(now, wall, bytes);
    }
    fn poll_output(
        &mut self,
        now: Tick,
        wall: Timestamp,
        budget: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        self.0.poll_output(now, wall, budget, out)
    }
    fn poll_timeout(&self) -> Option<Tick> {
        None
    }
    fn handle_timeout(&mut self, _: Tick, _: Timestamp) {}
    fn handle_disconnected(&mut self, now: Tick, cause: Disconnect) {
        self.0.handle_disconnected(now, cause);
    }
    fn is_in_handshake(&self) -> bool {
        !self.1
    }
    fn wants_close(&self) -> Option<Disconnect> {
        self.0.wants_close()
    }
}

/// Says when to come again, in milliseconds.
struct Hints;

impl SessionFactory for Hints {
    fn open(&self, _: Peer, _: Notifier) -> Result<Box<dyn Endpoint>, Vec<u8>> {
        Ok(Box::new(Shy::default()))
    }

    fn refusal(&self, _: Peer, refusal: Refusal, retry_after: Option<Duration>) -> Vec<u8> {
        let millis = retry_after.map_or(0, |wait| wait.as_millis());
        format!("{refusal}: {millis}").into_bytes()
    }
}

#[test]
fn peers_without_a_hello_are_limited_and_do_not_affect_others() {
    let options = ServerOptions {
        listen: vec![LOOPBACK.into()],
        handshakes_max: 3,
        ..Default::default()
    };
    let server = Server::bind(options, Arc::new(Hints)).unwrap();
    // A session counts until it is set up, and no longer.
    let other = link(&server);
    other.call(b"hello");
    assert_eq!(server.counters().handshakes, 0);
    let mut silent: Vec<_> = (0..3).map(|_| connect(&server)).collect();
    until(&other, || server.counters().handshakes == 3);
    let hints = (0..200).map(|_| {
        let mut answer = String::new();
        connect(&server).read_to_string(&mut answer).unwrap();
        let (sentence, millis) = answer.rsplit_once(": ").unwrap();
        assert!(
            sentence.starts_with("3 connections are being set up"),
            "{answer}"
        );
        millis.parse::<u64>().unwrap()
    });
    // Each gets a different time to retry.
    let hints: Vec<_> = hints.collect();
    assert!(hints.iter().all(|millis| *millis >= 99), "{hints:?}");
    assert_eq!(other.call(b"still"), b"still");
    assert_eq!(server.counters().sessions, 4);
    silent[0].write_all(b"hello").unwrap();
    until(&other, || server.counters().handshakes == 2);
    assert_eq!(link(&server).call(b"room again"), b"room again");
    drop(silent);
    until(&other, || server.counters().handshakes == 0);
}

#[test]
fn refused_peer_gets_the_reason() {
    let server = serve(|_: Peer, _: Notifier| Err(b"not you".to_vec()));
    let mut sut = connect(&server);
    let mut reason = String::new();
    sut.read_to_string(&mut reason).unwrap();
    assert_eq!(reason, "not you");
    assert_eq!(
        (server.counters().sessions, server.counters().refused),
        (0, 1)
    );
}

/// Panics at the first byte.
struct Fragile;

impl Endpoint for Fragile {
    fn handle_connected(&mut self, _: Tick, _: Timestamp) {}
    fn handle_input(&mut self, _: Tick, _: Timestamp, _: &[u8]) {
        panic!("on purpose");
    }
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

#[test]
fn a_defect_of_one_session_ends_that_session_alone() {
    let sessions = AtomicU64::new(0);
    let server = serve(move |_: Peer, _: Notifier| {
        Ok(match sessions.fetch_add(1, Ordering::SeqCst) {
            0 => Box::new(Fragile) as Box<dyn Endpoint>,
            _ => Box::new(Echo::default()),
        })
    });
    let mut sut = connect(&server);
    sut.write_all(b"x").unwrap();
    assert_eq!(sut.read(&mut [0; 8]).unwrap(), 0);
    assert_eq!(link(&server).call(b"hello"), b"hello");
}

/// Sends what other threads put into its letter box.
struct Letters(Arc<Mutex<Vec<u8>>>);

impl Endpoint for Letters {
    fn handle_connected(&mut self, _: Tick, _: Timestamp) {}
    fn handle_input(&mut self, _: Tick, _: Timestamp, _: &[u8]) {}
    fn poll_output(&mut self, _: Tick, _: Timestamp, _: usize, out: &mut Vec<u8>) -> bool {
        out.append(&mut self.0.lock().unwrap());
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

fn letters() -> (Server, Arc<Mutex<Vec<u8>>>, Receiver<Notifier>) {
    let letters = Arc::<Mutex<Vec<u8>>>::default();
    let (sender, notifiers) = channel();
    let (in_factory, sender) = (letters.clone(), Mutex::new(sender));
    let server = serve(move |_: Peer, notifier: Notifier| {
        sender.lock().unwrap().send(notifier).unwrap();
        Ok(Box::new(Letters(in_factory.clone())) as Box<dyn Endpoint>)
    });
    (server, letters, notifiers)
}

#[test]
fn every_notification_is_sent() {
    let (server, letters, notifiers) = letters();
    let mut sut = connect(&server);
    let notifier = notifiers.recv_timeout(CUT_OFF).unwrap();
    let writing = std::thread::spawn(move || {
        for index in 0..10_000u32 {
            letters.lock().unwrap().extend(index.to_le_bytes());
            notifier.notify();
        }
    });
    for index in 0..10_000u32 {
        let mut number = [0; 4];
        sut.read_exact(&mut number).unwrap();
        assert_eq!(u32::from_le_bytes(number), index);
    }
    writing.join().unwrap();
}

#[test]
fn a_notifier_outlives_its_session() {
    let (server, letters, notifiers) = letters();
    let mut sut = connect(&server);
    let notifier = notifiers.recv_timeout(CUT_OFF).unwrap();
    drop(server);
    // No thread would send data that becomes ready from now on.
    *letters.lock().unwrap() = noise(50_000);
    notifier.notify();
    notifier.send();
    // No session returns, and nothing more is sent.
    sut.set_read_timeout(Some(CUT_OFF)).unwrap();
    let mut rest = Vec::new();
    let ended = sut.read_to_end(&mut rest);
    let is_cut = |error: &std::io::Error| error.kind() == std::io::ErrorKind::ConnectionReset;
    assert!(
        ended.as_ref().is_ok() || ended.as_ref().is_err_and(is_cut),
        "{ended:?}"
    );
    assert!(rest.is_empty(), "{} bytes after the end", rest.len());
    assert_eq!(
        letters.lock().unwrap().len(),
        50_000,
        "the session is asked"
    );
}

#[test]
fn server_that_shut_down_has_sent_pending_data_and_accepts_no_peer() {
    let (server, letters, notifiers) = letters();
    let mut sut = connect(&server);
    notifiers.recv_timeout(CUT_OFF).unwrap();
    *letters.lock().unwrap() = noise(50_000);
    let reading = std::thread::spawn(move || {
        let mut received = Vec::new();
        sut.read_to_end(&mut received).unwrap();
        received
    });
    server.shutdown(CUT_OFF);
    assert!(reading.join().unwrap() == noise(50_000));
    assert!(TcpStream::connect(server.local_addrs()[0]).is_err());
    assert!(server.accept_pipe().is_err());
    assert_eq!(server.counters().sessions, 0);
}

#[test]
fn busy_memory_does_not_keep_others_waiting() {
    let rig = Rig::new(Over::Shared);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        // More than a thread examines one by one, and all on the same connection thread.
        let busy: Vec<_> = (0..12)
            .map(|_| {
                let (link, stop) = (rig.link(), &stop);
                scope.spawn(move || {
                    // At least once, also if this thread begins late: everyone is served.
                    loop {
                        assert_eq!(link.call(b"busy"), b"busy");
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                })
            })
            .collect();
        let over_socket = Dialler::Unix(rig.socket().clone());
        let options = LinkOptions::default();
        let other = Link::start(over_socket, Caller::default(), options).unwrap();
        for _ in 0..100 {
            assert_eq!(other.call(b"quiet"), b"quiet");
        }
        stop.store(true, Ordering::Relaxed);
        for one in busy {
            one.join().unwrap();
        }
    });
}

/// A user of this machine that is not the engine's.
const OTHER_USER: u32 = 65_534;

/// Opens connections as another user and has each answered; returns those that are sessions.
fn connect_as_other_user(server: &Server, count: usize) -> Option<Vec<TcpStream>> {
    let address = server.local_addrs()[0];
    let connecting = thread::spawn(move || {
        let uid = rustix::process::Uid::from_raw(OTHER_USER);
        // Applies to this thread alone, which ends; its sockets belong to that user.
        rustix::thread::set_thread_res_uid(uid, uid, uid).ok()?;
        let streams = (0..count).map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(CUT_OFF)).unwrap();
            let mut answer = [0];
            let sent = stream.write_all(b"?");
            let is_session = sent.is_ok() && stream.read_exact(&mut answer).is_ok();
            (is_session && &answer == b"?").then_some(stream)
        });
        Some(streams.collect::<Vec<_>>())
    });
    let streams = connecting.join().unwrap()?;
    Some(streams.into_iter().flatten().collect())
}

#[test]
fn other_users_cannot_exhaust_the_engines_own_places() {
    const SESSIONS_MAX: usize = 200;
    const KEPT: usize = 2;
    let options = ServerOptions {
        listen: vec![LOOPBACK.into()],
        sessions_max: SESSIONS_MAX,
        handshakes_max: 10 * SESSIONS_MAX,
        connections_per_address: 1_000_000,
        ..ServerOptions::default()
    };
    let server = Server::bind(options, Echo::factory()).unwrap();
    let Some(others) = connect_as_other_user(&server, SESSIONS_MAX + 20) else {
        println!("skipped, because this test may not become another user");
        return;
    };
    assert_eq!(others.len(), SESSIONS_MAX - KEPT, "idle sessions of others");
    // Sessions that can stop the engine are still admitted, and the others do not take their
    // places.
    let first = link(&server);
    assert_eq!(first.call(b"who is there?"), b"who is there?");
    assert_eq!(connect_as_other_user(&server, 5).unwrap().len(), 0);
    let second = link(&server);
    assert_eq!(second.call(b"and now?"), b"and now?");
    assert_eq!(server.counters().sessions, SESSIONS_MAX);
    // Places are counted in total, not per user: other users get a released place only beyond the
    // reserved ones.
    drop((second, others));
    until(&first, || server.counters().sessions == 1);
    let others = connect_as_other_user(&server, SESSIONS_MAX).unwrap();
    assert_eq!(others.len(), SESSIONS_MAX - KEPT - 1);
}

#[test]
fn a_listener_for_one_user_refuses_the_programs_of_others_over_tcp() {
    let options = ServerOptions {
        listen: vec![LOOPBACK.into()],
        same_user: true,
        ..ServerOptions::default()
    };
    let server = Server::bind(options, Echo::factory()).unwrap();
    let Some(others) = connect_as_other_user(&server, 3) else {
        println!("skipped, because this test may not become another user");
        return;
    };
    assert_eq!(others.len(), 0);
    let own = link(&server);
    assert_eq!(own.call(b"who is there?"), b"who is there?");
    assert_eq!(server.counters().sessions, 1);
}
