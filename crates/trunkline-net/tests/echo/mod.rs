//! Minimal endpoints: a server that echoes its input, and a client that sends length-prefixed
//! messages.
#![allow(dead_code, reason = "each test program uses its own part")]

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;

#[path = "../certificates/mod.rs"]
pub mod certificates;

use certificates::Authority;
use trunkline_net::{
    ClientCertificates, Clock, Dialler, Link, LinkOptions, Notifier, Peer, Server, ServerOptions,
    SessionFactory, TlsClient, TlsServer, Trust,
};
use trunkline_proto::{Disconnect, Endpoint};
use trunkline_types::{SocketPath, Tick, Timestamp};

/// Any free port of this machine.
pub const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A wait that takes this long has failed.
pub const CUT_OFF: Duration = Duration::from_secs(60);

/// The tick at which a wait that starts now has failed.
pub fn cut_off() -> Option<Tick> {
    Some(Clock::new().now().saturating_add(CUT_OFF))
}

/// Echoes its input; accepts no more input while this much waits to be sent.
#[derive(Default)]
pub struct Echo {
    output: VecDeque<u8>,
    closing: Option<Disconnect>,
}

impl Echo {
    const OUTPUT_MAX: usize = 256 << 10;
    /// A message with this content requests that the connection be closed.
    pub const CLOSE: &[u8] = b"please close";

    pub fn factory() -> Arc<dyn SessionFactory> {
        Arc::new(|_: Peer, _: Notifier| Ok(Box::new(Echo::default()) as Box<dyn Endpoint>))
    }
}

impl Endpoint for Echo {
    fn handle_connected(&mut self, _: Tick, _: Timestamp) {}

    fn handle_input(&mut self, _: Tick, _: Timestamp, bytes: &[u8]) {
        self.output.extend(bytes);
        if bytes.ends_with(Self::CLOSE) {
            self.closing = Some(Disconnect::ClosedLocally);
        }
    }

    fn wants_input(&self) -> bool {
        self.output.len() < Self::OUTPUT_MAX
    }

    fn poll_output(&mut self, _: Tick, _: Timestamp, budget: usize, out: &mut Vec<u8>) -> bool {
        let count = budget.min(self.output.len());
        out.extend(self.output.drain(..count));
        !self.output.is_empty()
    }

    fn poll_timeout(&self) -> Option<Tick> {
        None
    }

    fn handle_timeout(&mut self, _: Tick, _: Timestamp) {}

    fn handle_disconnected(&mut self, _: Tick, _: Disconnect) {}

    fn wants_close(&self) -> Option<Disconnect> {
        self.closing.clone()
    }
}

/// Sends messages and keeps the answers.
pub struct Caller {
    pub connected: bool,
    pub connections: usize,
    pub disconnects: VecDeque<Disconnect>,
    pub received: VecDeque<Vec<u8>>,
    /// Takes input only while this is set.
    pub hungry: bool,
    /// Dials again after a disconnect.
    pub redials: bool,
    pub closing: Option<Disconnect>,
    pub timeout: Option<Tick>,
    pub timeouts: usize,
    output: VecDeque<u8>,
    input: Vec<u8>,
    dial: Option<Tick>,
}

impl Default for Caller {
    fn default() -> Self {
        Self {
            connected: false,
            connections: 0,
            disconnects: VecDeque::new(),
            received: VecDeque::new(),
            hungry: true,
            redials: false,
            closing: None,
            timeout: None,
            timeouts: 0,
            output: VecDeque::new(),
            input: Vec::new(),
            dial: Some(Tick::ZERO),
        }
    }
}

impl Caller {
    pub fn redialling() -> Self {
        Self {
            redials: true,
            ..Self::default()
        }
    }

    /// Discards the output that has not been sent.
    pub fn forget(&mut self) {
        self.output.clear();
    }

    pub fn send(&mut self, message: &[u8]) {
        self.output.extend((message.len() as u32).to_le_bytes());
        self.output.extend(message);
    }

    fn next_message(&mut self) -> Option<Vec<u8>> {
        let (length, rest) = self.input.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length) as usize;
        let message = rest.get(..length)?.to_vec();
        self.input.drain(..4 + length);
        Some(message)
    }
}

impl Endpoint for Caller {
    fn handle_connected(&mut self, _: Tick, _: Timestamp) {
        self.connected = true;
        self.connections += 1;
        self.input.clear();
    }

    fn handle_input(&mut self, _: Tick, _: Timestamp, bytes: &[u8]) {
        assert!(self.hungry, "input is handed over only while it is wanted");
        self.input.extend(bytes);
        while let Some(message) = self.next_message() {
            self.received.push_back(message);
        }
    }

    fn wants_input(&self) -> bool {
        self.hungry
    }

    fn poll_output(&mut self, _: Tick, _: Timestamp, budget: usize, out: &mut Vec<u8>) -> bool {
        let count = budget.min(self.output.len());
        out.extend(self.output.drain(..count));
        !self.output.is_empty()
    }

    fn poll_timeout(&self) -> Option<Tick> {
        self.timeout
    }

    fn handle_timeout(&mut self, now: Tick, _: Timestamp) {
        if self.timeout.take_if(|at| *at <= now).is_some() {
            self.timeouts += 1;
        }
    }

    fn handle_disconnected(&mut self, now: Tick, cause: Disconnect) {
        self.connected = false;
        self.closing = None;
        self.disconnects.push_back(cause);
        let pause = Duration::from_millis(1);
        self.dial = self.redials.then_some(now.saturating_add(pause));
    }

    fn wants_close(&self) -> Option<Disconnect> {
        self.closing.clone()
    }

    fn poll_dial(&self) -> Option<Tick> {
        self.dial
    }
}

/// A link of an echo client, with the waits that tests need.
pub trait CallerLink {
    fn wait_connected(&self);
    fn send(&self, message: &[u8]);
    fn receive(&self) -> Vec<u8>;
    fn call(&self, message: &[u8]) -> Vec<u8>;
    fn wait_disconnected(&self) -> Disconnect;
}

impl CallerLink for Link<Caller> {
    fn wait_connected(&self) {
        self.wait_until(cut_off(), |caller, _| caller.connected.then_some(()))
            .expect("connected");
    }

    fn send(&self, message: &[u8]) {
        self.with(|caller, _, _| caller.send(message));
    }

    fn receive(&self) -> Vec<u8> {
        self.wait_until(cut_off(), |caller, _| caller.received.pop_front())
            .expect("a message")
    }

    fn call(&self, message: &[u8]) -> Vec<u8> {
        self.send(message);
        self.receive()
    }

    fn wait_disconnected(&self) -> Disconnect {
        self.wait_until(cut_off(), |caller, _| caller.disconnects.pop_front())
            .expect("a disconnect")
    }
}

/// The transport between client and server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Over {
    Tcp,
    Tls,
    Unix,
    /// A Unix socket with shared memory.
    Shared,
    /// A pipe of this capacity.
    Pipe(usize),
}

/// An echo server that can be replaced by another one at the same address.
pub struct Rig {
    pub over: Over,
    spin: Duration,
    server: Arc<Mutex<Option<Arc<Server>>>>,
    address: SocketAddr,
    socket: SocketPath,
    /// Deleted with its contents when the rig is dropped.
    _folder: TempDir,
    factory: Arc<dyn SessionFactory>,
    authority: Authority,
}

impl Rig {
    pub fn new(over: Over) -> Self {
        Self::serving(over, Echo::factory())
    }

    pub fn serving(over: Over, factory: Arc<dyn SessionFactory>) -> Self {
        let server = Arc::default();
        let folder = TempDir::new().expect("a folder");
        let mut rig = Self {
            socket: socket_in(&folder, "echo"),
            _folder: folder,
            over,
            spin: trunkline_net::SPIN_DEFAULT,
            server,
            address: LOOPBACK,
            factory,
            authority: Authority::new("test"),
        };
        rig.start();
        rig
    }

    /// Both ends sleep at once, without spinning first.
    pub fn sleeping(over: Over) -> Self {
        let mut rig = Self::new(over);
        rig.stop();
        rig.spin = Duration::ZERO;
        rig.start();
        rig
    }

    pub fn start(&mut self) {
        let mut options = ServerOptions {
            spin: self.spin,
            // Hundreds of clients connect at once, and none of them retries.
            handshakes_max: 1000,
            ..ServerOptions::default()
        };
        match self.over {
            Over::Tcp => options.listen = vec![self.address.into()],
            Over::Tls => {
                let identity = self.authority.identity();
                let tls = TlsServer::new(identity, ClientCertificates::Ignored);
                options.listen = vec![self.address.into()];
                options.tls = Some(Arc::new(tls.expect("certificates")));
            }
            Over::Unix | Over::Shared => options.listen = vec![self.socket.clone().into()],
            Over::Pipe(capacity) => options.pipe_capacity = capacity,
        }
        let server = Server::bind(options, self.factory.clone()).expect("a server");
        if let Some(address) = server.local_addrs().first() {
            self.address = *address;
        }
        *self.server.lock().unwrap() = Some(Arc::new(server));
    }

    pub fn stop(&self) {
        let server = self.server.lock().unwrap().take();
        if let Some(server) = server {
            server.shutdown(CUT_OFF);
        }
    }

    pub fn server(&self) -> Arc<Server> {
        self.server
            .lock()
            .unwrap()
            .clone()
            .expect("a running server")
    }

    pub fn socket(&self) -> &SocketPath {
        &self.socket
    }

    pub fn dialler(&self) -> Dialler {
        match self.over {
            Over::Tcp => Dialler::tcp(self.address.ip().to_string(), self.address.port()),
            Over::Tls => {
                let trust = Trust::Authorities(vec![self.authority.der.clone()]);
                let tls = Arc::new(TlsClient::new(trust, None).expect("an authority"));
                Dialler::tls(self.address.ip().to_string(), self.address.port(), tls)
            }
            Over::Unix => Dialler::Unix(self.socket.clone()),
            Over::Shared => Dialler::Shared(self.socket.clone()),
            Over::Pipe(_) => {
                let server = self.server.clone();
                Dialler::pipe(move || {
                    let server = server.lock().unwrap().clone();
                    match server {
                        Some(server) => server.accept_pipe(),
                        None => Err(std::io::ErrorKind::ConnectionRefused.into()),
                    }
                })
            }
        }
    }

    pub fn link(&self) -> Arc<Link<Caller>> {
        self.link_of(Caller::default())
    }

    pub fn link_of(&self, caller: Caller) -> Arc<Link<Caller>> {
        let options = LinkOptions {
            spin: self.spin,
            ..LinkOptions::default()
        };
        Link::start(self.dialler(), caller, options).expect("a link")
    }
}

/// A socket's path in a folder of the test.
pub fn socket_in(folder: &TempDir, name: &str) -> SocketPath {
    let path = folder.path().join(format!("{name}.sock"));
    SocketPath::parse(path.to_str().expect("text")).expect("a short path")
}

/// Returns a deterministic byte pattern.
pub fn noise(length: usize) -> Vec<u8> {
    (0..length)
        .map(|at| (at ^ (at >> 8).wrapping_mul(7)) as u8)
        .collect()
}
