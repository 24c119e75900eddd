//! Tests that a directory carries out only the requests that the gate of the connection permits.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use trunkline_net::{Clock, Notifier, Peer, Server, ServerOptions, SessionFactory};
use trunkline_proto::stream::StreamFault;
use trunkline_proto::{Endpoint, Fault, FaultCode, FrameKind};
use trunkline_stream::directory::{DirectoryHost, DirectorySession, Gate, list};
use trunkline_stream::{FanOutOptions, FanOutWriter, Options, Reader, StreamError, Writer};
use trunkline_types::StreamUrl;

const CUT_OFF: Option<Duration> = Some(Duration::from_secs(60));

/// What the tests change while programs are connected.
#[derive(Default)]
struct Rules {
    /// New connections are those of guests, for whom `secret` does not exist.
    is_guest: AtomicBool,
    /// The rights of guests have ended.
    has_ended: AtomicBool,
}

struct TestGate {
    rules: Arc<Rules>,
    is_guest: bool,
    /// The connection began before the rights of guests ended.
    may_end: bool,
}

impl TestGate {
    fn permits(&self, url: &StreamUrl) -> bool {
        !self.is_guest || url.segments().next() != Some("secret")
    }
}

impl Gate for TestGate {
    fn pass(&self, kind: FrameKind, url: &StreamUrl) -> Result<(), Fault> {
        assert!(matches!(
            kind,
            FrameKind::StreamRegister | FrameKind::StreamLookup
        ));
        assert_eq!(
            (url.host(), url.port()),
            ("localhost", None),
            "without a host"
        );
        match self.permits(url) {
            true => Ok(()),
            false => Err(Fault::new(FaultCode::Denied, "not for guests")),
        }
    }

    fn shows(&self, url: &StreamUrl) -> bool {
        self.permits(url)
    }

    fn may_end(&self) -> bool {
        self.may_end
    }

    fn has_ended(&self) -> bool {
        self.may_end && self.rules.has_ended.load(Ordering::SeqCst)
    }
}

struct Factory {
    host: Arc<DirectoryHost>,
    rules: Arc<Rules>,
}

impl SessionFactory for Factory {
    fn open(&self, _: Peer, notifier: Notifier) -> Result<Box<dyn Endpoint>, Vec<u8>> {
        let is_guest = self.rules.is_guest.load(Ordering::SeqCst);
        let gate = Arc::new(TestGate {
            rules: self.rules.clone(),
            is_guest,
            may_end: is_guest && !self.rules.has_ended.load(Ordering::SeqCst),
        });
        let now = Clock::new().now();
        let session = DirectorySession::new(self.host.clone(), notifier, gate, now);
        Ok(Box::new(session))
    }

    fn hand_over(&self, number: u64, _: Peer, socket: OwnedFd) {
        self.host.hand_over(number, socket);
    }
}

struct Rig {
    host: Arc<DirectoryHost>,
    rules: Arc<Rules>,
    server: Server,
    folder: TempDir,
}

impl Rig {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let host = Arc::new(DirectoryHost::default());
        let rules = Arc::new(Rules::default());
        let options = ServerOptions {
            listen: vec![
                "127.0.0.1:0"
                    .parse::<std::net::SocketAddr>()
                    .unwrap()
                    .into(),
            ],
            near: Some(folder.path().to_owned()),
            shared_memory: false,
            ..ServerOptions::default()
        };
        let factory = Factory {
            host: host.clone(),
            rules: rules.clone(),
        };
        let server = Server::bind(options, Arc::new(factory)).unwrap();
        Self {
            host,
            rules,
            server,
            folder,
        }
    }

    fn port(&self) -> u16 {
        self.server.local_addrs()[0].port()
    }

    fn options(&self, peer: Option<&str>) -> Options {
        Options {
            peer: peer.map(str::to_owned),
            timeout: CUT_OFF,
            directory_port: self.port(),
            sockets: Some(self.folder.path().to_owned()),
            shared_memory: false,
            ..Options::default()
        }
    }

    fn set_guest(&self, is_guest: bool) {
        self.rules.is_guest.store(is_guest, Ordering::SeqCst);
    }

    fn reader(&self, url: &'static str) -> thread::JoinHandle<Reader<u64>> {
        let options = self.options(None);
        thread::spawn(move || Reader::create(url, options).unwrap())
    }

    /// Waits until the directory has this endpoint.
    fn wait_for(&self, url: &str) {
        let url = StreamUrl::parse(url).unwrap();
        let until = Clock::new().now().saturating_add(CUT_OFF.unwrap());
        while !self.host.endpoints().iter().any(|one| one.url == url) {
            assert!(Clock::new().now() < until, "{url}");
            thread::yield_now();
        }
    }

    fn listed(&self) -> Vec<String> {
        let sockets = Some(self.folder.path());
        let timeout = CUT_OFF.unwrap();
        let found = list("localhost", self.port(), sockets, None, None, timeout).unwrap();
        found.into_iter().map(|endpoint| endpoint.url).collect()
    }
}

/// Behaviour: B-82, NS-09.
#[test]
fn name_that_the_gate_refuses_is_not_registered() {
    let rig = Rig::start();
    rig.set_guest(true);
    for url in ["secret/in", "Secret/IN", "//localhost:ctx/secret/in"] {
        let error = Reader::<u64>::create(url, rig.options(None)).unwrap_err();
        let is_denied = matches!(
            &error,
            StreamError::Refused { code: FaultCode::Denied, sentence } if sentence == "not for guests"
        );
        assert!(is_denied, "{url}: {error:?}");
    }
    assert_eq!(rig.host.endpoints(), []);
    // Neither does an endpoint that dials get such a name.
    let options = rig.options(Some("open/in"));
    let error = Writer::<u64>::create("secret/out", options).unwrap_err();
    let is_denied = matches!(
        &error,
        StreamError::Refused {
            code: FaultCode::Denied,
            ..
        }
    );
    assert!(is_denied, "{error:?}");
}

/// The refusal is the same whether the stream exists or not.
///
/// Behaviour: B-82.
#[test]
fn guest_learns_nothing_about_a_hidden_stream() {
    let rig = Rig::start();
    let look_up = || {
        let options = rig.options(Some("secret/in"));
        match Writer::<u64>::create("open/out", options).unwrap_err() {
            StreamError::Fault(StreamFault::Refused { code, sentence }) => (code, sentence),
            other => panic!("{other:?}"),
        }
    };
    rig.set_guest(true);
    let of_none = look_up();
    rig.set_guest(false);
    let secret = rig.reader("secret/in");
    let open = rig.reader("open/in");
    rig.wait_for("secret/in");
    rig.wait_for("open/in");
    assert_eq!(
        rig.listed(),
        ["tl://localhost/open/in", "tl://localhost/secret/in"]
    );
    rig.set_guest(true);
    assert_eq!(look_up(), of_none);
    assert_eq!(of_none, (FaultCode::Denied, "not for guests".to_owned()));
    assert_eq!(rig.listed(), ["tl://localhost/open/in"]);
    // What is permitted works.
    let mut writer = Writer::<u64>::create("open/out", rig.options(Some("open/in"))).unwrap();
    let mut open = open.join().unwrap();
    writer.write(&7, CUT_OFF).unwrap();
    assert_eq!(open.read(CUT_OFF).unwrap(), 7);
    rig.set_guest(false);
    let _writer = Writer::<u64>::create("other/out", rig.options(Some("secret/in"))).unwrap();
    drop(secret.join().unwrap());
}

/// The connection ends, not the stream: nothing is lost, and it continues when it is permitted again.
///
/// Behaviour: B-80, NS-66.
#[test]
fn connection_ends_with_the_rights_that_permitted_it() {
    let rig = Rig::start();
    let reader = rig.reader("open/in");
    rig.wait_for("open/in");
    rig.set_guest(true);
    let mut writer = Writer::<u64>::create("open/out", rig.options(Some("open/in"))).unwrap();
    let mut reader = reader.join().unwrap();
    writer.write(&1, CUT_OFF).unwrap();
    assert_eq!(reader.read(CUT_OFF).unwrap(), 1);
    rig.host.end_revoked();
    writer.write(&2, CUT_OFF).unwrap();
    assert_eq!(reader.read(CUT_OFF).unwrap(), 2);
    assert_eq!(reader.properties().disconnections, 0);
    rig.rules.has_ended.store(true, Ordering::SeqCst);
    rig.host.end_revoked();
    let until = Clock::new().now().saturating_add(CUT_OFF.unwrap());
    while reader.properties().disconnections == 0 {
        assert!(Clock::new().now() < until, "the connection stays");
        thread::yield_now();
    }
    // The next look-up is by the new rights.
    for element in 3..100 {
        writer.write(&element, CUT_OFF).unwrap();
    }
    let rest = reader.read_many(97, CUT_OFF).unwrap();
    assert_eq!(rest, (3..100).collect::<Vec<_>>());
}

/// Behaviour: B-80, B-62.
#[test]
fn only_the_reader_whose_rights_ended_is_disconnected() {
    let rig = Rig::start();
    let options = FanOutOptions {
        options: rig.options(None),
        readers_min: 0,
        ..FanOutOptions::default()
    };
    let mut writer = FanOutWriter::<u64>::create("open/all", options).unwrap();
    let own = Reader::<u64>::create("open/own", rig.options(Some("open/all"))).unwrap();
    rig.set_guest(true);
    let guest = Reader::<u64>::create("open/guest", rig.options(Some("open/all"))).unwrap();
    rig.rules.has_ended.store(true, Ordering::SeqCst);
    rig.host.end_revoked();
    let until = Clock::new().now().saturating_add(CUT_OFF.unwrap());
    while guest.properties().disconnections == 0 {
        assert!(Clock::new().now() < until, "the connection stays");
        thread::yield_now();
    }
    let (mut own, mut guest) = (own, guest);
    writer.write(&5, CUT_OFF).unwrap();
    assert_eq!(own.read(CUT_OFF).unwrap(), 5);
    assert_eq!(guest.read(CUT_OFF).unwrap(), 5);
    assert_eq!(own.properties().disconnections, 0);
}
