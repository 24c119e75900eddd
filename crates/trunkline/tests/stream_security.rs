//! Streams between programs that reach each other only over the network: identities, rights,
//! encryption from end to end, and what happens when rights are taken away or bytes are changed. The
//! right to record.
//!
//! The writer dials over TCP and TLS, as from another machine. The reader registers its name with the
//! engine over the engine's Unix socket.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tempfile::TempDir;
use trunkline::proto::{Disconnect, FaultCode, Pair};
use trunkline::record::{VariableRecorder, VariableRecorderOptions};
use trunkline::stream::directory::{ListError, list};
use trunkline::stream::{
    EngineSecurity, FanOutOptions, FanOutWriter, Options, Properties, Reader, StreamError,
    StreamFault, Writer,
};
use trunkline::types::{
    AuditAction, AuditOutcome, AuditQuery, DataType, LibraryDefinition, Pattern, StreamUrl, Url,
    VariableDefinition,
};
use trunkline::{Client, ClientSecurity, ConnectOptions, Contexts, Engine, EngineOptions};
use trunkline_access::{Role, UserName};
use trunkline_identity::accounts::AccessFile;
use trunkline_identity::authority::EngineSubject;
use trunkline_identity::folder::SecurityFolder;
use trunkline_net::{Clock, Dialler, Link, LinkOptions, public_key};
use trunkline_proto::message::hello::Hello;
use trunkline_proto::message::single::SingleFrame;
use trunkline_proto::message::stream::directory::{Lookup, PeerGrant, Ticket};
use trunkline_proto::message::stream::{
    EndState, Incarnation, StreamEnd, StreamHello, WriterState,
};
use trunkline_proto::stream::Secret;
use trunkline_proto::{
    Channel, EndKeys, Endpoint, Features, FrameBuffer, FrameKind, FrameLimits, VersionRange,
};
use trunkline_types::{Tick, Timestamp};

const WAIT: Duration = Duration::from_secs(60);
const CUT_OFF: Option<Duration> = Some(WAIT);

/// An engine with accounts, and the contexts of a user on another machine.
struct Plant {
    engine: Engine,
    access: AccessFile,
    contexts: Contexts,
    folder: TempDir,
}

impl Plant {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let security = folder.path().join("security");
        let subject = EngineSubject {
            name: "plant".to_owned(),
            host_names: Vec::new(),
        };
        let (_, wall) = Clock::new().moment();
        SecurityFolder::create(&security, &subject, wall).unwrap();
        let options = EngineOptions {
            listen: vec!["127.0.0.1:0".parse().unwrap()],
            security: Some(security.clone()),
            ..EngineOptions::default()
        };
        Self {
            engine: Engine::start(options).unwrap(),
            access: AccessFile::new(security.join("access.toml")),
            contexts: Contexts::in_folder(folder.path().join("contexts")),
            folder,
        }
    }

    /// Stops the engine, calls `meanwhile`, and starts it again.
    fn restart(self, meanwhile: impl FnOnce(&AccessFile)) -> Self {
        let options = EngineOptions {
            listen: vec![self.engine.local_addrs()[0].into()],
            security: Some(self.folder.path().join("security")),
            ..EngineOptions::default()
        };
        drop(self.engine);
        meanwhile(&self.access);
        let engine = Engine::start(options).unwrap();
        Self { engine, ..self }
    }

    fn port(&self) -> u16 {
        self.engine.local_addrs()[0].port()
    }

    fn owner(&self) -> Client {
        let socket = self.engine.local_sockets().remove(0);
        Client::connect(&format!("tl+unix://{socket}")).unwrap()
    }

    /// Joins the engine with a new account of this role.
    fn join(&self, account: &str, role: &str) -> EngineSecurity {
        let pair = Pair {
            account: account.to_owned(),
            role: role.to_owned(),
            groups: Vec::new(),
        };
        let token = self.owner().pair(&pair, WAIT).unwrap().token;
        let url = Url::parse(&format!("tl+tcp://127.0.0.1:{}", self.port())).unwrap();
        let context = self.contexts.join(account, &url, &token, WAIT).unwrap();
        ClientSecurity::of(&context).unwrap().for_streams().unwrap()
    }

    fn set_role(&self, account: &str, role: Option<Role>) {
        let account = UserName::parse(account).unwrap();
        let edited = self.access.edit(|edit| edit.set_role(&account, role));
        edited.unwrap();
    }

    fn set_disabled(&self, account: &str, is_disabled: bool) {
        let account = UserName::parse(account).unwrap();
        let edited = self
            .access
            .edit(|edit| edit.set_disabled(&account, is_disabled));
        edited.unwrap();
    }

    fn add_rule(&self, rule: &str) {
        let text = std::fs::read_to_string(self.access.path()).unwrap();
        std::fs::write(self.access.path(), format!("{text}\n[[rule]]\n{rule}\n")).unwrap();
    }

    /// The options of an endpoint on the engine's machine.
    fn here(&self) -> Options {
        let socket = self.engine.local_sockets().remove(0);
        Options {
            timeout: CUT_OFF,
            directory_port: self.port(),
            sockets: Some(socket.as_path().parent().unwrap().to_owned()),
            ..Options::default()
        }
    }

    /// The options of an endpoint on another machine, without an engine of its own, which dials `peer`
    /// at a port of this one.
    fn away(&self, port: u16, peer: &str, security: Option<&EngineSecurity>) -> Options {
        Options {
            peer: Some(format!("tl://127.0.0.1:{port}/{peer}")),
            timeout: CUT_OFF,
            sockets: Some(self.folder.path().join("nothing")),
            tcp_only: true,
            security: security.cloned(),
            ..Options::default()
        }
    }

    fn reader(&self, name: &'static str) -> JoinHandle<Reader<u64>> {
        let options = self.here();
        let reader = thread::spawn(move || Reader::create(name, options).unwrap());
        let url = StreamUrl::parse(name).unwrap();
        until("the reader is registered", || {
            let found = self.listed(None).unwrap();
            found.contains(&url.to_string()).then_some(())
        });
        reader
    }

    /// The endpoints that the engine lists: for its own user, or over TLS.
    fn listed(&self, security: Option<&EngineSecurity>) -> Result<Vec<String>, ListError> {
        let sockets = match security {
            None => self.here().sockets.unwrap(),
            Some(_) => self.folder.path().join("nothing"),
        };
        let found = list(
            "localhost",
            self.port(),
            Some(&sockets),
            None,
            security,
            WAIT,
        )?;
        Ok(found.into_iter().map(|endpoint| endpoint.url).collect())
    }
}

fn until<R>(what: &str, mut check: impl FnMut() -> Option<R>) -> R {
    let end = Clock::new().now().saturating_add(Duration::from_secs(15));
    loop {
        if let Some(answer) = check() {
            return answer;
        }
        assert!(Clock::new().now() < end, "{what}");
        thread::yield_now();
    }
}

/// Forwards connections to a port, keeps a copy of the bytes, and changes or cuts them on request.
struct Tap {
    port: u16,
    seen: Arc<Mutex<Vec<u8>>>,
    /// The next bytes in this direction get one changed byte.
    alters: Arc<[AtomicBool; 2]>,
    connections: Arc<AtomicUsize>,
    open: Arc<Mutex<Vec<TcpStream>>>,
    /// New connections are closed at once.
    is_down: Arc<AtomicBool>,
}

impl Tap {
    fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let tap = Self {
            port: listener.local_addr().unwrap().port(),
            seen: Arc::default(),
            alters: Arc::default(),
            connections: Arc::default(),
            open: Arc::default(),
            is_down: Arc::default(),
        };
        let is_down = tap.is_down.clone();
        let (seen, alters) = (tap.seen.clone(), tap.alters.clone());
        let (connections, open) = (tap.connections.clone(), tap.open.clone());
        thread::spawn(move || {
            for near in listener.incoming() {
                let near = near.unwrap();
                if is_down.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(far) = TcpStream::connect(("127.0.0.1", port)) else {
                    return;
                };
                connections.fetch_add(1, Ordering::SeqCst);
                let clone = |stream: &TcpStream| stream.try_clone().unwrap();
                open.lock().unwrap().extend([clone(&near), clone(&far)]);
                for (way, from, to) in [(0, clone(&near), clone(&far)), (1, far, near)] {
                    let (seen, alters) = (seen.clone(), alters.clone());
                    thread::spawn(move || forward(from, to, &seen, &alters[way]));
                }
            }
        });
        tap
    }

    fn cut(&self) {
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn has_seen(&self, bytes: &[u8]) -> bool {
        let seen = self.seen.lock().unwrap();
        seen.windows(bytes.len()).any(|window| window == bytes)
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, seen: &Mutex<Vec<u8>>, alters: &AtomicBool) {
    let mut buffer = [0; 16 << 10];
    while let Ok(count) = from.read(&mut buffer) {
        let bytes = &mut buffer[..count];
        if count == 0 {
            break;
        }
        seen.lock().unwrap().extend_from_slice(bytes);
        if alters.swap(false, Ordering::SeqCst) {
            bytes[count / 2] ^= 0x10;
        }
        if to.write_all(bytes).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

/// An element whose bytes are recognised.
const MARK: u64 = u64::from_le_bytes(*b"secret42");

fn refusal(error: StreamError) -> (FaultCode, String) {
    match error {
        StreamError::Fault(StreamFault::Refused { code, sentence }) => (code, sentence),
        other => panic!("{other:?}"),
    }
}

fn last_disconnect(properties: &Properties) -> String {
    format!("{:?}", properties.last_disconnect)
}

/// The names, the type and the elements are visible to nobody in between, not even to the engine, which
/// has handed the connection over.
///
/// Behaviour: NS-02, B-80.
#[test]
fn stream_from_another_machine_is_encrypted_from_end_to_end() {
    let plant = Plant::start();
    let engineer = plant.join("daq", "engineer");
    let reader = plant.reader("archive/in");
    let tap = Tap::to(plant.port());
    let options = plant.away(tap.port, "archive/in", Some(&engineer));
    let mut writer = Writer::<u64>::create("daq/out", options).unwrap();
    let mut reader = reader.join().unwrap();
    for _ in 0..1000 {
        writer.write(&MARK, CUT_OFF).unwrap();
    }
    assert_eq!(reader.read_many(1000, CUT_OFF).unwrap(), vec![MARK; 1000]);
    assert_eq!(writer.properties().transport, Some("TLS"));
    assert_eq!(reader.properties().transport, Some("TLS"));
    // One connection carried everything, and nobody could read it.
    let cause = last_disconnect(&writer.properties());
    assert_eq!(tap.connections.load(Ordering::SeqCst), 1, "{cause}");
    assert_eq!(writer.close(CUT_OFF).elements, 0);
    for secret in [&b"secret42"[..], b"archive", b"daq", b"TRNK"] {
        assert!(!tap.has_seen(secret), "{secret:?}");
    }
}

/// Behaviour: NS-66, NS-71.
#[test]
fn nothing_is_lost_when_encrypted_connections_are_cut_and_changed() {
    let plant = Plant::start();
    let engineer = plant.join("daq", "engineer");
    let reader = plant.reader("archive/in");
    let tap = Tap::to(plant.port());
    let options = plant.away(tap.port, "archive/in", Some(&engineer));
    let mut writer = Writer::<u64>::create("daq/out", options).unwrap();
    let mut reader = reader.join().unwrap();
    let mut next = 0;
    for round in 0..12 {
        until("the connection is up", || {
            let (writer, reader) = (writer.properties(), reader.properties());
            (writer.is_connected && reader.is_connected).then_some(())
        });
        let disconnections = writer.properties().disconnections;
        match round % 3 {
            0 => tap.cut(),
            way => tap.alters[way - 1].store(true, Ordering::SeqCst),
        }
        let chunk: Vec<u64> = (next..next + 500).collect();
        writer.write_many(&chunk, CUT_OFF).unwrap();
        assert_eq!(reader.read_many(500, CUT_OFF).unwrap(), chunk);
        next += 500;
        until(&format!("the connection of round {round} ends"), || {
            (writer.properties().disconnections > disconnections).then_some(())
        });
        if round % 3 == 1 {
            let cause = last_disconnect(&reader.properties());
            assert!(cause.contains("changed on their way"), "{cause}");
        }
    }
    assert_eq!(writer.close(CUT_OFF).elements, 0);
}

/// Behaviour: B-80, B-82.
#[test]
fn engine_refuses_streams_without_an_identity_or_the_right() {
    let plant = Plant::start();
    let engineer = plant.join("daq", "engineer");
    let viewer = plant.join("screen", "viewer");
    plant.add_rule("user = \"screen\"\npattern = \"archive/**\"\ndeny = [\"read\"]");
    let _archive = plant.reader("archive/in");
    let _public = plant.reader("public/in");
    let dial = |peer: &str, security: Option<&EngineSecurity>| {
        let options = plant.away(plant.port(), peer, security);
        refusal(Writer::<u64>::create("daq/out", options).unwrap_err())
    };
    // A key that the engine does not know.
    let stranger = plant.join("stranger", "engineer");
    let account = UserName::parse("stranger").unwrap();
    let removed = plant.access.edit(|edit| edit.remove_account(&account));
    removed.unwrap();
    until("the account is gone", || {
        plant.listed(Some(&stranger)).err()
    });
    let (code, sentence) = dial("archive/in", Some(&stranger));
    assert_eq!(code, FaultCode::NotAuthenticated, "{sentence}");
    // A viewer may see a stream, but neither write nor read it. A hidden one is refused in the same
    // way, whether it exists or not.
    until("the rule counts", || {
        (plant.listed(Some(&viewer)).unwrap() == ["tl://localhost/public/in"]).then_some(())
    });
    for name in ["public/in", "archive/in", "archive/none"] {
        let (code, sentence) = dial(name, Some(&viewer));
        assert_eq!(code, FaultCode::Denied);
        assert_eq!(
            sentence,
            format!(
                "you have no permission to use the stream {name}; ask the engine's administrator \
                 for the action `stream` on it"
            )
        );
    }
    let refused = plant.engine.audit(&AuditQuery::default()).unwrap().entries;
    // Further refusals of the account are counted.
    let mut requests = refused.iter();
    let entry = requests.find(|entry| entry.action == AuditAction::Request);
    let entry = entry.unwrap_or_else(|| panic!("{refused:?}"));
    assert_eq!(entry.who, "account:screen");
    assert_eq!(entry.name, "public/in");
    let all = ["tl://localhost/archive/in", "tl://localhost/public/in"];
    assert_eq!(plant.listed(Some(&engineer)).unwrap(), all);
    assert_eq!(plant.listed(None).unwrap(), all);
    match plant.listed(Some(&stranger)) {
        Err(ListError::Refused { code, .. }) => assert_eq!(code, FaultCode::NotAuthenticated),
        other => panic!("{other:?}"),
    }
}

/// Behaviour: B-24, B-80.
#[test]
fn audit_trail_tells_who_registered_and_opened_a_stream() {
    let plant = Plant::start();
    let engineer = plant.join("daq", "engineer");
    let reader = plant.reader("archive/in");
    let options = plant.away(plant.port(), "archive/in", Some(&engineer));
    let _writer = Writer::<u64>::create("daq/out", options).unwrap();
    let _reader = reader.join().unwrap();
    let [registered, connected] = until("both are in the audit trail", || {
        let entries = plant.engine.audit(&AuditQuery::default()).unwrap().entries;
        let actions = [AuditAction::StreamRegister, AuditAction::StreamConnect];
        let entries = entries.into_iter();
        let entries = entries.filter(|entry| actions.contains(&entry.action));
        entries.collect::<Vec<_>>().try_into().ok()
    });
    assert_eq!(registered.action, AuditAction::StreamRegister);
    assert!(registered.who.starts_with("local:"), "{}", registered.who);
    assert!(
        registered.from.starts_with("process "),
        "{}",
        registered.from
    );
    assert_eq!(connected.action, AuditAction::StreamConnect);
    assert_eq!(connected.who, "account:daq");
    assert!(
        connected.from.starts_with("127.0.0.1"),
        "{}",
        connected.from
    );
    for entry in [registered, connected] {
        assert_eq!(entry.name, "archive/in");
        assert_eq!(entry.outcome, AuditOutcome::Done);
    }
}

/// During an outage, the name of the peer alone does not end a stream, also if the account may use it.
///
/// Behaviour: B-80, NS-66.
#[test]
fn account_cannot_end_the_stream_of_another_during_an_outage() {
    let plant = Plant::start();
    let [daq, other] = ["daq", "other"].map(|account| plant.join(account, "engineer"));
    let reader = plant.reader("archive/in");
    let tap = Tap::to(plant.port());
    let options = plant.away(tap.port, "archive/in", Some(&daq));
    let mut writer = Writer::<u64>::create("daq/out", options).unwrap();
    let mut reader = reader.join().unwrap();
    writer.write(&1, CUT_OFF).unwrap();
    assert_eq!(reader.read(CUT_OFF).unwrap(), 1);
    assert_eq!(
        reader.properties().peer_account.as_deref(),
        Some("account:daq")
    );
    tap.is_down.store(true, Ordering::SeqCst);
    tap.cut();
    until("the outage", || {
        (!reader.properties().is_connected).then_some(())
    });
    let options = plant.away(plant.port(), "archive/in", Some(&other));
    let (code, sentence) = refusal(Writer::<u64>::create("daq/out", options).unwrap_err());
    assert_eq!(code, FaultCode::Denied, "{sentence}");
    assert!(!sentence.contains("account:"), "{sentence}");
    tap.is_down.store(false, Ordering::SeqCst);
    writer.write(&2, CUT_OFF).unwrap();
    assert_eq!(reader.read(CUT_OFF).unwrap(), 2);
    assert_eq!(reader.properties().fault, None);
}

/// A reader keeps its place while its account may use the stream, and no longer.
///
/// Behaviour: B-80, B-62.
#[test]
fn disabled_account_has_no_place_among_the_readers() {
    let plant = Plant::start();
    let mal = plant.join("mal", "engineer");
    let options = FanOutOptions {
        options: Options {
            capacity: 10,
            ..plant.here()
        },
        readers_min: 0,
        ..FanOutOptions::default()
    };
    let mut writer = FanOutWriter::<u64>::create("daq/all", options).unwrap();
    let options = plant.away(plant.port(), "daq/all", Some(&mal));
    let mut reader = Reader::<u64>::create("display/in", options).unwrap();
    // With other rights, the account may still use the stream.
    plant.set_role("mal", Some(Role::Admin));
    until("the connection ends", || {
        (reader.properties().disconnections > 0).then_some(())
    });
    writer.write(&1, CUT_OFF).unwrap();
    assert_eq!(reader.read(CUT_OFF).unwrap(), 1);
    assert_eq!(writer.readers()[0].member.number, 1);
    let info = || {
        let url = StreamUrl::parse("daq/all").unwrap();
        let sockets = plant.here().sockets;
        let port = plant.port();
        let found = list(
            "localhost",
            port,
            sockets.as_deref(),
            Some(&url),
            None,
            WAIT,
        );
        found.unwrap().remove(0).members
    };
    let member = until("the report", || info().pop());
    assert_eq!(member.url, "tl://localhost/display/in");
    assert_eq!(member.account, "account:mal");
    plant.set_disabled("mal", true);
    until("the place is free", || {
        writer.readers().is_empty().then_some(())
    });
    until("the report", || info().is_empty().then_some(()));
}

/// A stream whose account loses its rights is disconnected, also though its data does not pass through
/// the engine. It loses nothing, and continues when the account has its rights again.
///
/// Behaviour: B-80, NS-66.
#[test]
fn stream_is_disconnected_while_its_account_lacks_the_right() {
    let plant = Plant::start();
    let engineer = plant.join("daq", "engineer");
    let reader = plant.reader("archive/in");
    let options = plant.away(plant.port(), "archive/in", Some(&engineer));
    let mut writer = Writer::<u64>::create("daq/out", options).unwrap();
    let mut reader = reader.join().unwrap();
    writer.write(&1, CUT_OFF).unwrap();
    assert_eq!(reader.read(CUT_OFF).unwrap(), 1);

    plant.set_role("daq", Some(Role::Viewer));
    until("the writer is refused", || {
        let properties = writer.properties();
        let cause = last_disconnect(&properties);
        (!properties.is_connected && cause.contains("no permission")).then_some(())
    });
    assert!(!reader.properties().is_connected);
    writer.write(&2, CUT_OFF).unwrap();
    plant.set_role("daq", Some(Role::Engineer));
    assert_eq!(reader.read(CUT_OFF).unwrap(), 2);

    plant.set_disabled("daq", true);
    until("the writer is refused", || {
        let properties = writer.properties();
        (!properties.is_connected).then_some(())
    });
    writer.write(&3, CUT_OFF).unwrap();
    plant.set_disabled("daq", false);
    assert_eq!(reader.read(CUT_OFF).unwrap(), 3);
    assert_eq!(writer.close(CUT_OFF).elements, 0);
}

/// Behaviour: B-80.
#[test]
fn restart_of_the_engine_does_not_disturb_an_encrypted_stream() {
    let plant = Plant::start();
    let engineer = plant.join("daq", "engineer");
    let reader = plant.reader("archive/in");
    let options = plant.away(plant.port(), "archive/in", Some(&engineer));
    let mut writer = Writer::<u64>::create("daq/out", options).unwrap();
    let mut reader = reader.join().unwrap();
    let Plant {
        engine,
        folder: _folder,
        ..
    } = plant;
    drop(engine);
    for element in 0..1000 {
        writer.write(&element, CUT_OFF).unwrap();
    }
    let all: Vec<u64> = (0..1000).collect();
    assert_eq!(reader.read_many(1000, CUT_OFF).unwrap(), all);
    assert_eq!(reader.properties().disconnections, 0);
}

/// The endpoint tells the engine which connections it has.
///
/// Behaviour: B-80, NS-66.
#[test]
fn revocation_after_a_restart_of_the_engine_ends_the_stream() {
    for is_down in [false, true] {
        let plant = Plant::start();
        let engineer = plant.join("daq", "engineer");
        let reader = plant.reader("archive/in");
        let options = plant.away(plant.port(), "archive/in", Some(&engineer));
        let mut writer = Writer::<u64>::create("daq/out", options).unwrap();
        let mut reader = reader.join().unwrap();
        let take_right = |access: &AccessFile| {
            let account = UserName::parse("daq").unwrap();
            let edited = access.edit(|edit| edit.set_role(&account, Some(Role::Viewer)));
            edited.unwrap();
        };
        let plant = plant.restart(|access| {
            if is_down {
                take_right(access);
            }
        });
        let is_registered = || plant.listed(None).ok()?.pop();
        until("the endpoint registers again", is_registered);
        if !is_down {
            // Nothing has changed, so nothing ends.
            writer.write(&0, CUT_OFF).unwrap();
            assert_eq!(reader.read(CUT_OFF).unwrap(), 0);
            assert_eq!(reader.properties().disconnections, 0);
            take_right(&plant.access);
        }
        until("the stream is disconnected", || {
            (reader.properties().disconnections == 1).then_some(())
        });
        writer.write(&1, CUT_OFF).unwrap();
        plant.set_role("daq", Some(Role::Engineer));
        assert_eq!(reader.read(CUT_OFF).unwrap(), 1);
    }
}

/// A program that an account permits to ask for a stream, and that then connects to the endpoint with
/// `used`. With another key than the engine was told, it is somebody who has got hold of the connection.
struct Impostor {
    security: EngineSecurity,
    used: [u8; 32],
    channel: Channel,
    frames: FrameBuffer,
    output: Vec<u8>,
    keys: Option<EndKeys>,
    has_peer: bool,
    has_dialled: bool,
    ended: Option<Disconnect>,
    /// The kinds of the frames from the endpoint.
    answers: Vec<FrameKind>,
}

const NAMED: [u8; 32] = [1; 32];
const OTHER: [u8; 32] = [2; 32];
const IMPOSTOR: Incarnation = Incarnation([7; 16]);

impl Impostor {
    fn new(security: &EngineSecurity, used: [u8; 32]) -> Self {
        Self {
            security: security.clone(),
            used,
            channel: Channel::default(),
            frames: FrameBuffer::new(FrameLimits::default()),
            output: Vec::new(),
            keys: None,
            has_peer: false,
            has_dialled: false,
            ended: None,
            answers: Vec::new(),
        }
    }

    /// What a writer with the ticket says to the endpoint.
    fn greet(&mut self, ticket: Ticket) {
        let hello = StreamHello {
            versions: VersionRange::OURS,
            end: StreamEnd {
                features: Features::NONE,
                incarnation: IMPOSTOR,
                url: "tl://localhost/impostor".to_owned(),
                peer_url: String::new(),
                data_type: DataType::U64,
                capacity: 100,
                bytes_max: 800,
                has_journal: false,
                program: "impostor".to_owned(),
                state: EndState::Writer(WriterState::default()),
            },
            peer: None,
            attempt: 1,
            ticket: Some(ticket),
            share: Some(Secret([3; 32])),
            proof: None,
        };
        hello.encode(&mut self.output);
    }
}

impl Endpoint for Impostor {
    fn handle_channel(&mut self, channel: &Channel) {
        self.channel = channel.clone();
    }

    fn handle_connected(&mut self, _: Tick, _: Timestamp) {
        self.has_dialled = true;
        let mut hello = Hello::default();
        let credentials = self.security.credentials.as_ref().unwrap();
        credentials.prove(&self.channel, false, &mut hello);
        hello.encode_as(FrameKind::StreamLogin, 0, &mut self.output);
        let lookup = Lookup {
            versions: VersionRange::OURS,
            url: "tl://localhost/archive/in".to_owned(),
            incarnation: IMPOSTOR,
            program: "impostor".to_owned(),
            key: Some(public_key(&NAMED).unwrap()),
        };
        lookup.encode(&mut self.output);
    }

    fn handle_input(&mut self, now: Tick, _: Timestamp, mut bytes: &[u8]) {
        while let Ok(Some(frame)) = self.frames.next_frame(now, &mut bytes) {
            if self.has_peer {
                self.answers.extend(frame.kind());
            } else if frame.kind() == Some(FrameKind::StreamPeer) {
                let PeerGrant { ticket, key } = PeerGrant::decode(&frame).unwrap();
                self.has_peer = true;
                self.keys = Some(EndKeys {
                    own_seed: self.used.into(),
                    peer: key,
                });
                // The driver sends it to the endpoint.
                self.greet(ticket);
                return;
            }
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
        self.keys.take()
    }
}

/// Behaviour: B-80, NS-66.
#[test]
fn impostor_with_a_ticket_but_without_the_key_gets_nothing() {
    let plant = Plant::start();
    let engineer = plant.join("daq", "engineer");
    let reader = plant.reader("archive/in");
    let connect = |used: [u8; 32]| {
        let dialler = Dialler::tls("127.0.0.1", plant.port(), engineer.tls.clone());
        let impostor = Impostor::new(&engineer, used);
        Link::start(dialler, impostor, LinkOptions::default()).unwrap()
    };
    let end = Some(Clock::new().now().saturating_add(WAIT));
    let link = connect(OTHER);
    let ended = link.wait_until(end, |impostor, _| {
        let ended = impostor.ended.clone()?;
        Some((ended, impostor.has_peer, impostor.answers.clone()))
    });
    let (_, has_peer, answers) = ended.unwrap();
    assert!(has_peer, "the engine has let it ask");
    assert_eq!(answers, []);
    // The reader still waits for its peer.
    let options = plant.away(plant.port(), "archive/in", Some(&engineer));
    let mut writer = Writer::<u64>::create("daq/out", options).unwrap();
    writer.write(&MARK, CUT_OFF).unwrap();
    let mut reader = reader.join().unwrap();
    assert_eq!(reader.read(CUT_OFF).unwrap(), MARK);
    drop((writer, reader));
    // With the key, the same program is accepted: it was refused for nothing else.
    let reader = plant.reader("archive/in");
    let link = connect(NAMED);
    let answer = link.wait_until(end, |impostor, _| impostor.answers.first().copied());
    assert_eq!(answer, Some(FrameKind::StreamWelcome));
    drop(reader.join().unwrap());
}

/// A recorder says that it records, so the engine can require the right. What an account may subscribe, it
/// can still keep in other ways.
///
/// Behaviour: B-82.
#[test]
fn recorder_needs_the_right_to_record_each_variable() {
    let plant = Plant::start();
    let library = LibraryDefinition {
        name: "rig".to_owned(),
        description: String::new(),
        variables: vec![VariableDefinition::new("x", DataType::F64)],
    };
    plant.engine.deploy(&library).unwrap();
    let record = |account: &str, role: &str| {
        plant.join(account, role);
        let context = plant.contexts.get(account).unwrap();
        let security = Some(ClientSecurity::of(&context).unwrap());
        let options = ConnectOptions {
            security,
            ..ConnectOptions::to(&context.url)
        };
        let client = Client::connect_with(&options).unwrap();
        let path = plant.folder.path().join(format!("{account}.tdms"));
        let patterns = [Pattern::parse("rig/**").unwrap()];
        let options = VariableRecorderOptions::default();
        let recorder = VariableRecorder::start(&client, &patterns, &[], &path, options).unwrap();
        until("the engine has answered", || {
            let status = recorder.status();
            (status.is_following || status.refused_count > 0).then_some(status.refused)
        })
    };
    assert_eq!(record("daq", "engineer"), []);
    let refused = record("press", "operator");
    let [(name, reason)] = &refused[..] else {
        panic!("{refused:?}");
    };
    assert_eq!(name, "rig/x");
    assert!(reason.contains("record"), "{reason}");
}

/// A plain stream to another machine needs the word `insecure` at the end that dials.
///
/// Behaviour: B-80.
#[test]
fn stream_that_would_not_be_encrypted_needs_the_word_insecure() {
    let options = Options {
        timeout: CUT_OFF,
        ..Options::to("tl://192.0.2.7/archive/in")
    };
    let error = Writer::<u64>::create("tl://localhost/daq/out", options).unwrap_err();
    assert!(
        matches!(error, StreamError::NotEncrypted { .. }),
        "{error:?}"
    );
    let text = error.to_string();
    assert!(text.contains("trunkline join"), "{text}");
    assert!(text.contains("192.0.2.7"), "{text}");
}
