//! File descriptors: none leaks, and running out of them is survivable. One test at a time, because
//! the count is that of the whole process.
#![cfg(not(shuttle))]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod echo;

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use echo::{CUT_OFF, Caller, CallerLink, Echo, LOOPBACK, Over, Rig, cut_off};
use rustix::process::{Resource, Rlimit, setrlimit};
use socket2::SockRef;
use trunkline_net::{
    Clock, Dialler, Link, LinkOptions, Notifier, Peer, Refusal, Server, ServerOptions,
    SessionFactory,
};
use trunkline_proto::Endpoint;

static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn connecting_and_disconnecting_leaks_no_descriptor() {
    let _alone = alone();
    for over in [Over::Tcp, Over::Unix, Over::Pipe(64 << 10)] {
        let rig = Rig::new(over);
        let other = rig.link();
        other.call(b"hello");
        let server = rig.server();
        let before = descriptors();
        for cycle in 0..300 {
            let sut = rig.link();
            if cycle % 3 > 0 {
                sut.call(b"hello");
            }
            // Sometimes in the middle of the dial.
            drop(sut);
        }
        while server.counters().sessions > 1 {
            other.call(b"round trip");
        }
        assert_eq!(descriptors(), before, "{over:?}");
    }
}

#[test]
fn reset_connections_leak_no_descriptor() {
    let _alone = alone();
    let rig = Rig::new(Over::Tcp);
    let other = rig.link();
    other.call(b"hello");
    let server = rig.server();
    let before = descriptors();
    let accepted = server.counters().accepted;
    let mut cycles = 0;
    for cycle in 0..5000 {
        let mut sut = TcpStream::connect(server.local_addrs()[0]).unwrap();
        if cycle % 2 == 0 {
            sut.write_all(b"half a mess").unwrap();
        }
        SockRef::from(&sut)
            .set_linger(Some(Duration::ZERO))
            .unwrap();
        cycles += 1;
    }
    // A connection that was reset before it was accepted may never be seen, others may still wait
    // to be.
    let is_over = || {
        other.call(b"round trip");
        let counters = server.counters();
        counters.sessions <= 1 && counters.accepted > accepted && descriptors() == before
    };
    let over = std::iter::repeat_with(is_over).take(100_000);
    assert!(over.into_iter().any(|over| over), "{} left", descriptors());
    assert!(server.counters().accepted <= accepted + cycles);
}

#[test]
fn dropped_server_leaks_no_descriptor() {
    let _alone = alone();
    drop(Rig::new(Over::Tcp));
    let before = descriptors();
    for _ in 0..20 {
        let rig = Rig::new(Over::Tcp);
        rig.link().call(b"hello");
        rig.stop();
    }
    assert_eq!(descriptors(), before);
}

/// A server in a separate process that can run out of descriptors.
struct Starved {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    address: SocketAddr,
}

const STARVED: &str = "TRUNKLINE_TEST_STARVED_SERVER";

impl Starved {
    /// A server with room for 64 descriptors, of which all but `left` are taken.
    fn start(left: usize) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "starved_server",
                "--ignored",
                "--nocapture",
                "--test-threads",
                "1",
            ])
            .env(STARVED, left.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let orders = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut starved = Self {
            child,
            orders,
            answers,
            address: LOOPBACK,
        };
        starved.address = starved.answer("address ").parse().unwrap();
        starved
    }

    fn answer(&mut self, to: &str) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(
                self.answers.read_line(&mut line).unwrap(),
                0,
                "the server has ended"
            );
            // The test program's own words share the line.
            if let Some((_, answer)) = line.split_once(to) {
                return answer.trim().to_owned();
            }
        }
    }

    fn accept_failures(&mut self) -> u64 {
        writeln!(self.orders, "failures").unwrap();
        self.answer("failures ").parse().unwrap()
    }

    fn sessions(&mut self) -> usize {
        writeln!(self.orders, "sessions").unwrap();
        self.answer("sessions ").parse().unwrap()
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(CUT_OFF)).unwrap();
        stream
    }

    fn link(&self) -> Arc<Link<Caller>> {
        let dialler = Dialler::tcp(self.address.ip().to_string(), self.address.port());
        Link::start(dialler, Caller::redialling(), LinkOptions::default()).unwrap()
    }
}

impl Drop for Starved {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Sentences;

impl SessionFactory for Sentences {
    fn open(&self, _: Peer, _: Notifier) -> Result<Box<dyn Endpoint>, Vec<u8>> {
        Ok(Box::new(Echo::default()))
    }

    fn refusal(&self, _: Peer, refusal: Refusal, _: Option<Duration>) -> Vec<u8> {
        refusal.to_string().into_bytes()
    }
}

/// The server itself; does nothing as an ordinary test.
#[test]
#[ignore = "an entry point of the processes that the tests start"]
fn starved_server() {
    let Ok(left) = std::env::var(STARVED) else {
        return;
    };
    let limit = Rlimit {
        current: Some(64),
        maximum: Some(64),
    };
    setrlimit(Resource::Nofile, limit).unwrap();
    let options = ServerOptions {
        listen: vec![LOOPBACK.into()],
        ..ServerOptions::default()
    };
    let server = Server::bind(options, Arc::new(Sentences)).unwrap();
    assert_eq!(
        server.sessions_max(),
        32,
        "the rest of the limit is for everything else"
    );
    let mut files: Vec<_> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    files.truncate(files.len() - left.parse::<usize>().unwrap());
    println!("address {}", server.local_addrs()[0]);
    for order in std::io::stdin().lines() {
        match order.unwrap().as_str() {
            "failures" => println!("failures {}", server.counters().accept_failures),
            "sessions" => println!("sessions {}", server.counters().sessions),
            order => panic!("{order}"),
        }
    }
}

#[test]
fn without_descriptors_sessions_stay_and_new_clients_are_refused() {
    let _alone = alone();
    let mut sut = Starved::start(4);
    let clock = Clock::new();
    let start = clock.now();
    let mut sessions: Vec<_> = (0..4).map(|_| sut.link()).collect();
    for session in &sessions {
        assert_eq!(session.call(b"hello"), b"hello");
    }
    // These wait in the system's queue until the shortage has lasted.
    let mut refused: Vec<_> = (0..20).map(|_| sut.connect()).collect();
    for newcomer in &mut refused {
        let mut reason = String::new();
        newcomer.read_to_string(&mut reason).unwrap();
        assert_eq!(
            reason,
            "the engine has no file descriptor left; close connections, or raise its `ulimit -n`"
        );
    }
    for session in &sessions {
        assert_eq!(session.call(b"still here"), b"still here");
    }
    // Pauses of 10 to 320 ms, then one attempt each 500 ms.
    let failures = sut.accept_failures();
    let half_seconds = clock.now().since(start).as_millis() as u64 / 500;
    assert!(
        (1..=8 + half_seconds).contains(&failures),
        "{failures} attempts in {half_seconds} half seconds"
    );

    sessions.pop();
    while sut.sessions() == 4 {}
    // The acceptor may be in the middle of turning newcomers away.
    let served = std::iter::repeat_with(|| {
        let newcomer = sut.link();
        newcomer.send(b"room again");
        newcomer.wait_until(cut_off(), |caller, _| {
            let answered = caller
                .received
                .pop_front()
                .map(|answer| answer == b"room again");
            answered.or((!caller.disconnects.is_empty()).then_some(false))
        })
    });
    assert!(served.take(1000).any(|served| served == Some(true)));
}

#[test]
fn sessions_beyond_the_descriptors_are_refused_before_any_shortage() {
    let _alone = alone();
    let mut sut = Starved::start(48);
    let sessions: Vec<_> = (0..32).map(|_| sut.link()).collect();
    for session in &sessions {
        assert_eq!(session.call(b"hello"), b"hello");
    }
    let mut reason = String::new();
    sut.connect().read_to_string(&mut reason).unwrap();
    assert_eq!(
        reason,
        "32 sessions are open, which is the limit; close some, or raise sessions_max"
    );
    assert_eq!(sut.accept_failures(), 0);
}

/// Linux then reports a lack of descriptors to the acceptor even though no client waits.
#[test]
fn full_descriptor_table_is_no_failure_while_no_client_waits() {
    let _alone = alone();
    let mut sut = Starved::start(1);
    for _ in 0..20 {
        let session = sut.link();
        assert_eq!(session.call(b"the last descriptor"), b"the last descriptor");
        drop(session);
        while sut.sessions() > 0 {}
    }
    assert_eq!(sut.accept_failures(), 0);
}
