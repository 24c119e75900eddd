//! Tests that a directory carries out only the requests that the gate of the connection permits.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use trunkline_net::{Clock, Notifier, Peer, Server, ServerOptions, SessionFactory};
use trunkline_proto::frame::HEADER_BYTES;
use trunkline_proto::message::closing::Refused;
use trunkline_proto::message::stream::directory::{Identity, Lookup, Ticket, TicketGrant};
use trunkline_proto::message::stream::{
    EndState, Incarnation, StreamEnd, StreamHello, WriterState,
};
use trunkline_proto::stream::{DirectoryLimits, Secret, StreamFault};
use trunkline_proto::{
    Endpoint, Fault, FaultCode, Features, Frame, FrameHeader, FrameKind, VersionRange,
};
use trunkline_stream::directory::{DirectoryHost, DirectorySession, EndpointStatus, Gate, list};
use trunkline_stream::{
    FanOutOptions, FanOutWriter, Options, PeerStatus, Reader, StreamError, Writer,
};
use trunkline_types::{DataType, StreamUrl};

const CUT_OFF: Option<Duration> = Some(Duration::from_secs(60));

/// What the tests change while programs are connected.
#[derive(Default)]
struct Rules {
    /// New connections are those of guests, for whom `secret` does not exist.
    is_guest: AtomicBool,
    /// The rights of guests have ended.
    has_ended: AtomicBool,
    /// Guests have no rights any more.
    refuses_guests: AtomicBool,
    /// Shared by the gates of guests that somebody still has.
    guests: Arc<()>,
    registrations: AtomicUsize,
    /// Who opens the next connections.
    identity: Mutex<Identity>,
    /// What the directory has done for programs: the request, the name, and the reason for a refusal.
    noted: Mutex<Vec<Noted>>,
}

type Noted = (FrameKind, Option<String>, Option<FaultCode>);

struct TestGate {
    rules: Arc<Rules>,
    is_guest: bool,
    /// The connection began before the rights of guests ended.
    may_end: bool,
    _guest: Option<Arc<()>>,
    identity: Identity,
}

impl TestGate {
    fn permits(&self, url: &StreamUrl) -> bool {
        let refuses_guests = self.rules.refuses_guests.load(Ordering::SeqCst);
        !self.is_guest || (url.segments().next() != Some("secret") && !refuses_guests)
    }
}

impl Gate for TestGate {
    fn pass(&self, kind: FrameKind, url: &StreamUrl) -> Result<(), Fault> {
        assert!(matches!(
            kind,
            FrameKind::StreamRegister | FrameKind::StreamLookup | FrameKind::StreamHello
        ));
        assert_eq!(
            (url.host(), url.port()),
            ("localhost", None),
            "without a host"
        );
        if kind == FrameKind::StreamRegister {
            self.rules.registrations.fetch_add(1, Ordering::SeqCst);
        }
        match self.permits(url) {
            true => Ok(()),
            false => Err(Fault::new(FaultCode::Denied, "not for guests")),
        }
    }

    fn shows(&self, url: &StreamUrl) -> bool {
        self.permits(url)
    }

    fn note(&self, kind: FrameKind, url: Option<&StreamUrl>, refused: Option<&Fault>) {
        let name = url.map(|url| url.to_string());
        let refused = refused.map(|fault| fault.code);
        self.rules.noted.lock().unwrap().push((kind, name, refused));
    }

    fn identity(&self) -> Identity {
        self.identity.clone()
    }

    fn may_end(&self) -> bool {
        self.may_end
    }

    fn has_ended(&self) -> bool {
        self.may_end && self.rules.has_ended.load(Ordering::SeqCst)
    }

    fn is_lost(&self, url: &StreamUrl) -> bool {
        !self.permits(url)
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
            _guest: is_guest.then(|| self.rules.guests.clone()),
            identity: self.rules.identity.lock().unwrap().clone(),
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
        Self::start_with(DirectoryLimits::default())
    }

    fn start_with(limits: DirectoryLimits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let host = Arc::new(DirectoryHost::new(limits));
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
        let is_there = || self.host.endpoints().iter().any(|one| one.url == url);
        until("the endpoint is registered", is_there);
    }

    /// Number of gates of guests that are in use: one for each connection to the directory, and one for
    /// each connection between endpoints.
    fn guest_gates(&self) -> usize {
        Arc::strong_count(&self.rules.guests) - 1
    }

    fn status(&self, url: &str) -> EndpointStatus {
        let (port, sockets) = (self.port(), Some(self.folder.path()));
        let url = StreamUrl::parse(url).unwrap();
        let timeout = CUT_OFF.unwrap();
        let found = list("localhost", port, sockets, Some(&url), None, timeout);
        found.unwrap().remove(0)
    }

    fn listed(&self) -> Vec<String> {
        let sockets = Some(self.folder.path());
        let timeout = CUT_OFF.unwrap();
        let found = list("localhost", self.port(), sockets, None, None, timeout).unwrap();
        found.into_iter().map(|endpoint| endpoint.url).collect()
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Clock::new().now().saturating_add(CUT_OFF.unwrap());
    while !is_so() {
        assert!(Clock::new().now() < end, "{what}");
        thread::yield_now();
    }
}

/// A connection to the directory, as a changed program uses it.
struct Raw(TcpStream);

impl Raw {
    fn dial(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(CUT_OFF).unwrap();
        Self(stream)
    }

    /// Looks an endpoint up, and returns the ticket without using it.
    fn look_up(&mut self, url: &str, incarnation: Incarnation) -> Ticket {
        let lookup = Lookup {
            versions: VersionRange::OURS,
            url: StreamUrl::parse(url).unwrap().to_string(),
            incarnation,
            program: "raw".to_owned(),
            key: None,
        };
        let mut out = Vec::new();
        lookup.encode(&mut out);
        self.0.write_all(&out).unwrap();
        let (header, payload) = self.next();
        let frame = Frame::new(header, &payload).unwrap();
        assert_eq!(frame.kind(), Some(FrameKind::StreamTicket));
        TicketGrant::decode(&frame).unwrap().ticket
    }

    /// Presents a ticket, and returns the answer, which must be a refusal.
    fn present(mut self, ticket: Ticket, incarnation: Incarnation) -> Refused {
        let hello = StreamHello {
            versions: VersionRange::OURS,
            end: StreamEnd {
                features: Features::NONE,
                incarnation,
                url: "tl://localhost/raw".to_owned(),
                peer_url: String::new(),
                data_type: DataType::U64,
                capacity: 100,
                bytes_max: 800,
                has_journal: false,
                program: "raw".to_owned(),
                state: EndState::Writer(WriterState::default()),
            },
            peer: None,
            attempt: 1,
            ticket: Some(ticket),
            share: Some(Secret([3; 32])),
            proof: None,
        };
        let mut out = Vec::new();
        hello.encode(&mut out);
        self.0.write_all(&out).unwrap();
        let (header, payload) = self.next();
        let frame = Frame::new(header, &payload).unwrap();
        assert_eq!(frame.kind(), Some(FrameKind::StreamRefused));
        Refused::decode(&frame).unwrap()
    }

    /// Returns the next frame other than a keep-alive.
    fn next(&mut self) -> (FrameHeader, Vec<u8>) {
        loop {
            let mut header = [0; HEADER_BYTES];
            self.0.read_exact(&mut header).unwrap();
            let header = FrameHeader::from_bytes(&header);
            let mut payload = vec![0; header.length as usize];
            self.0.read_exact(&mut payload).unwrap();
            if FrameKind::from_number(header.kind) != Some(FrameKind::StreamKeepalive) {
                return (header, payload);
            }
        }
    }
}

/// Forwards one connection to a port until it is cut; later ones are closed.
struct Cut {
    port: u16,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Cut {
    fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let cut = Self {
            port: listener.local_addr().unwrap().port(),
            open: Arc::default(),
        };
        let open = cut.open.clone();
        thread::spawn(move || {
            let (near, _) = listener.accept().unwrap();
            drop(listener);
            let far = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let clone = |stream: &TcpStream| stream.try_clone().unwrap();
            open.lock().unwrap().extend([clone(&near), clone(&far)]);
            for (mut from, mut to) in [(clone(&near), clone(&far)), (far, near)] {
                thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
        });
        cut
    }

    fn cut(&self) {
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
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
    // The directory forgets an endpoint that was refused a moment later than its program.
    let is_forgotten = || !rig.listed().iter().any(|name| name.ends_with("open/out"));
    until("the refused endpoint is forgotten", is_forgotten);
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

/// Behaviour: B-80.
#[test]
fn guest_sees_no_hidden_name_of_a_peer() {
    let rig = Rig::start();
    let reader = rig.reader("open/in");
    rig.wait_for("open/in");
    let options = FanOutOptions {
        options: rig.options(None),
        readers_min: 0,
        ..FanOutOptions::default()
    };
    let _all = FanOutWriter::<u64>::create("open/all", options).unwrap();
    let _ends = ["secret/a", "open/b"]
        .map(|url| Reader::<u64>::create(url, rig.options(Some("open/all"))).unwrap());
    let options = Options {
        program: "recorder 1.0".to_owned(),
        ..rig.options(Some("open/in"))
    };
    let writer = Writer::<u64>::create("secret/out", options).unwrap();
    let reader = reader.join().unwrap();
    let of_peer = || {
        let status = rig.status("open/in");
        [status.peer, status.peer_program, status.peer_account]
    };
    let members = || -> Vec<[String; 2]> {
        let members = rig.status("open/all").members.into_iter();
        members.map(|member| [member.url, member.account]).collect()
    };
    until("the reports", || {
        !of_peer()[0].is_empty() && members().len() == 2
    });
    let [peer, program, user] = of_peer();
    assert_eq!(peer, "tl://localhost/secret/out");
    assert_eq!(program, "recorder 1.0");
    assert!(user.starts_with("local:"), "{user}");
    let [a, b] =
        ["secret/a", "open/b"].map(|name| [format!("tl://localhost/{name}"), user.clone()]);
    assert_eq!(members(), [a, b.clone()]);
    rig.set_guest(true);
    let hidden = ["(hidden)", ""].map(str::to_owned);
    assert_eq!(of_peer(), ["(hidden)", "", ""]);
    assert_eq!(members(), [hidden, b]);
    drop((reader, writer));
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
    until("the connection ends", || {
        reader.properties().disconnections > 0
    });
    // The next look-up is by the new rights.
    for element in 3..100 {
        writer.write(&element, CUT_OFF).unwrap();
    }
    let rest = reader.read_many(97, CUT_OFF).unwrap();
    assert_eq!(rest, (3..100).collect::<Vec<_>>());
}

/// A ticket outlives the connection that got it, but not the right to use it.
///
/// Behaviour: B-80, B-82.
#[test]
fn unredeemed_ticket_is_worthless_once_its_rights_have_ended() {
    let rig = Rig::start();
    let reader = rig.reader("open/in");
    rig.wait_for("open/in");
    rig.set_guest(true);
    let incarnation = Incarnation([7; 16]);
    let ticket = Raw::dial(rig.port()).look_up("open/in", incarnation);
    rig.rules.refuses_guests.store(true, Ordering::SeqCst);
    let refused = Raw::dial(rig.port()).present(ticket, incarnation);
    assert_eq!(refused.code, FaultCode::Denied);
    assert_eq!(refused.sentence, "not for guests");
    // The refused attempt has used the ticket up.
    rig.rules.refuses_guests.store(false, Ordering::SeqCst);
    let refused = Raw::dial(rig.port()).present(ticket, incarnation);
    assert_eq!(refused.code, FaultCode::BadTicket);
    // The reader still waits for its writer.
    let _writer = Writer::<u64>::create("open/out", rig.options(Some("open/in"))).unwrap();
    drop(reader.join().unwrap());
}

/// Behaviour: B-80, B-82.
#[test]
fn ticket_is_of_no_use_to_another_account() {
    let rig = Rig::start();
    let reader = rig.reader("open/in");
    rig.wait_for("open/in");
    let be = |name: &str| *rig.rules.identity.lock().unwrap() = Some(name.into());
    let incarnation = Incarnation([7; 16]);
    let look_up = || Raw::dial(rig.port()).look_up("open/in", incarnation);
    be("account:daq");
    let given = look_up();
    be("account:other");
    let refused = Raw::dial(rig.port()).present(given, incarnation);
    assert_eq!(refused.code, FaultCode::BadTicket);
    // The user whom the system reports is another identity than an account.
    let given = look_up();
    *rig.rules.identity.lock().unwrap() = None;
    let refused = Raw::dial(rig.port()).present(given, incarnation);
    assert_eq!(refused.code, FaultCode::BadTicket);
    let _writer = Writer::<u64>::create("open/out", rig.options(Some("open/in"))).unwrap();
    drop(reader.join().unwrap());
}

/// Behaviour: B-24, B-80.
#[test]
fn registered_and_connected_endpoints_and_refusals_are_noted() {
    let rig = Rig::start();
    let reader = rig.reader("open/in");
    rig.wait_for("open/in");
    Reader::<u64>::create("open/in", rig.options(None)).unwrap_err();
    let incarnation = Incarnation([7; 16]);
    let refused = Raw::dial(rig.port()).present([0; 16], incarnation);
    assert_eq!(refused.code, FaultCode::BadTicket);
    let _writer = Writer::<u64>::create("open/out", rig.options(Some("open/in"))).unwrap();
    drop(reader.join().unwrap());
    let noted = || rig.rules.noted.lock().unwrap().clone();
    let of = |kind: FrameKind, name: &str| {
        let noted = noted().into_iter();
        let name = Some(format!("tl://localhost/{name}"));
        let noted = noted.filter(|noted| (noted.0, &noted.1) == (kind, &name));
        noted.map(|noted| noted.2).collect::<Vec<_>>()
    };
    // The second endpoint has tried a few times.
    let mut registered = of(FrameKind::StreamRegister, "open/in");
    registered.dedup();
    assert_eq!(registered, [None, Some(FaultCode::EndpointTaken)]);
    assert_eq!(of(FrameKind::StreamRegister, "open/out"), [None]);
    until("the connection is noted", || {
        of(FrameKind::StreamHello, "open/in").contains(&None)
    });
    let with_ticket = noted().into_iter();
    let with_ticket = with_ticket.filter(|noted| noted.0 == FrameKind::StreamHello);
    assert_eq!(with_ticket.count(), 2);
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
    until("the connection ends", || {
        guest.properties().disconnections > 0
    });
    let (mut own, mut guest) = (own, guest);
    writer.write(&5, CUT_OFF).unwrap();
    assert_eq!(own.read(CUT_OFF).unwrap(), 5);
    assert_eq!(guest.read(CUT_OFF).unwrap(), 5);
    assert_eq!(own.properties().disconnections, 0);
}

/// A reader whose account may not use the stream any more does not delay the writer, connected or not,
/// also if its connection was lost before, or if its rights had changed before in another way.
///
/// Behaviour: B-80, B-62.
#[test]
fn reader_without_the_right_has_no_place() {
    for (is_there, has_changed_before) in [(true, false), (false, false), (false, true)] {
        let rig = Rig::start();
        let options = FanOutOptions {
            options: Options {
                capacity: 10,
                ..rig.options(None)
            },
            readers_min: 0,
            ..FanOutOptions::default()
        };
        let mut writer = FanOutWriter::<u64>::create("open/all", options).unwrap();
        let mut own = Reader::<u64>::create("open/own", rig.options(Some("open/all"))).unwrap();
        rig.set_guest(true);
        let proxy = Cut::to(rig.port());
        let options = Options {
            capacity: 10,
            peer: Some(format!("tl://127.0.0.1:{}/open/all", proxy.port)),
            tcp_only: true,
            ..rig.options(None)
        };
        let _ghost = Reader::<u64>::create("open/ghost", options).unwrap();
        let ghost = |writer: &FanOutWriter<u64>| {
            let is_ghost = |reader: &PeerStatus| reader.member.url.ends_with("open/ghost");
            writer.readers().into_iter().find(is_ghost)
        };
        if !is_there {
            proxy.cut();
            until("the ghost is away", || {
                ghost(&writer).is_some_and(|ghost| !ghost.is_connected)
            });
        }
        if has_changed_before {
            rig.rules.has_ended.store(true, Ordering::SeqCst);
            rig.host.end_revoked();
            assert!(ghost(&writer).is_some(), "it may come again");
        }
        // The endpoint reports the ends of connections together with its status.
        for element in 0..10 {
            writer.write(&element, CUT_OFF).unwrap();
            assert_eq!(own.read(CUT_OFF).unwrap(), element);
            if element == 0 || element == 9 {
                rig.set_guest(false);
                until("a report", || rig.status("open/all").total == element + 1);
            }
        }
        rig.rules.refuses_guests.store(true, Ordering::SeqCst);
        rig.rules.has_ended.store(true, Ordering::SeqCst);
        rig.host.end_revoked();
        for element in 10..100 {
            writer.write(&element, CUT_OFF).unwrap();
            assert_eq!(own.read(CUT_OFF).unwrap(), element);
        }
        assert_eq!(ghost(&writer), None);
        let left = writer.departed();
        assert_eq!(left.len(), 1, "{left:?}");
        assert_eq!(left[0].fault, Some(StreamFault::PeerExcluded));
    }
}

/// The endpoint's lease is so short that the directory releases its name again and again, as after a stall of
/// the engine.
///
/// Behaviour: B-80, NS-66.
#[test]
fn connection_ends_with_its_rights_also_if_the_endpoint_has_registered_again() {
    let rig = Rig::start_with(DirectoryLimits {
        lease: Duration::from_millis(500),
        ..DirectoryLimits::default()
    });
    let reader = rig.reader("open/in");
    rig.wait_for("open/in");
    rig.set_guest(true);
    let mut writer = Writer::<u64>::create("open/out", rig.options(Some("open/in"))).unwrap();
    rig.set_guest(false);
    let mut reader = reader.join().unwrap();
    writer.write(&1, CUT_OFF).unwrap();
    assert_eq!(reader.read(CUT_OFF).unwrap(), 1);
    let registrations = || rig.rules.registrations.load(Ordering::SeqCst);
    let before = registrations();
    // Both endpoints have registered again.
    until("they register again", || registrations() >= before + 4);
    assert_eq!(reader.properties().disconnections, 0);
    rig.rules.has_ended.store(true, Ordering::SeqCst);
    until("the connection ends", || {
        rig.host.end_revoked();
        reader.properties().disconnections > 0
    });
    // The next look-up is by the new rights.
    writer.write(&2, CUT_OFF).unwrap();
    assert_eq!(reader.read(CUT_OFF).unwrap(), 2);
}

/// Behaviour: B-80, B-62.
#[test]
fn directory_forgets_a_guest_whose_connection_has_ended() {
    let rig = Rig::start();
    let options = FanOutOptions {
        options: rig.options(None),
        readers_min: 0,
        ..FanOutOptions::default()
    };
    let mut writer = FanOutWriter::<u64>::create("open/all", options).unwrap();
    let single = rig.reader("open/in");
    rig.wait_for("open/in");
    rig.set_guest(true);
    let guest = |url: &str| Reader::<u64>::create(url, rig.options(Some("open/all"))).unwrap();
    let mut stays = guest("open/stays");
    until("the guest is there", || rig.guest_gates() == 2);
    drop(guest("open/leaves"));
    until("the other one is forgotten", || rig.guest_gates() == 2);
    // An endpoint with one peer reports it as well.
    let leaves = Writer::<u64>::create("open/out", rig.options(Some("open/in"))).unwrap();
    let single = single.join().unwrap();
    drop(leaves);
    until("the writer is forgotten", || rig.guest_gates() == 2);
    drop(single);
    writer.write(&5, CUT_OFF).unwrap();
    assert_eq!(stays.read(CUT_OFF).unwrap(), 5);
    assert_eq!(stays.properties().disconnections, 0);
}
