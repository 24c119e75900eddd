//! An engine with a library of every kind of variable, and a client that is connected to it.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use tempfile::TempDir;
use trunkline::proto::ThroughputMode;
use trunkline::types::{Contract, Reading, SocketPath};
use trunkline::{
    Client, ConnectOptions, Engine, Event, OpenOptions, Opened, Peer, SubscribeOptions,
    Subscription, VariableRef, Write, WriteOutcome,
};

/// Limit that only a hanging test reaches.
pub const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Transport {
    Tcp,
    Unix,
    Shared,
    /// TCP, where both ends gather their output.
    Throughput,
    Memory,
}

pub struct Place {
    transport: Transport,
    pub engine: Engine,
    pub client: Client,
    socket: SocketPath,
    /// The folder of the socket.
    _folder: TempDir,
}

impl Place {
    pub fn new(transport: Transport) -> Self {
        let text = include_str!("library.toml");
        let plan = trunkline::config::parse("library.toml", text);
        let mut plan = plan.expect("the library is right");
        let folder = TempDir::new().expect("a folder");
        let socket = folder.path().join("engine.sock");
        let socket = SocketPath::parse(socket.to_str().expect("text")).expect("a short path");
        plan.engine.listen.push(socket.clone().into());
        let engine = Engine::from_plan(&plan).expect("an engine on a free port");
        let client = connect(transport, &engine, &socket);
        Self {
            transport,
            engine,
            client,
            socket,
            _folder: folder,
        }
    }

    /// Another client of the engine.
    pub fn another(&self) -> Client {
        connect(self.transport, &self.engine, &self.socket)
    }

    pub fn open(&self, name: &str) -> Opened {
        let options = OpenOptions {
            include_readings: true,
            describe: true,
            ..OpenOptions::default()
        };
        let mut opened = self
            .client
            .open(&[name], options, TIMEOUT)
            .expect("an answer");
        opened.remove(0).expect("the variable exists")
    }

    pub fn variable(&self, name: &str) -> VariableRef {
        self.open(name).variable
    }

    pub fn write(&self, write: Write) -> WriteOutcome {
        self.client
            .write([write], TIMEOUT)
            .expect("an answer")
            .remove(0)
    }

    pub fn read(&self, variable: VariableRef) -> Reading {
        let mut readings = self.client.read(&[variable], TIMEOUT).expect("an answer");
        readings.remove(0).expect("a reading")
    }

    pub fn subscribe(&self, name: &str, contract: Contract) -> Subscription {
        self.subscribe_with(name, contract, SubscribeOptions::default())
    }

    pub fn subscribe_with(
        &self,
        name: &str,
        contract: Contract,
        options: SubscribeOptions,
    ) -> Subscription {
        self.client
            .subscribe(&[name], contract, options)
            .expect("a subscription")
    }
}

fn connect(transport: Transport, engine: &Engine, socket: &SocketPath) -> Client {
    let client = match transport {
        Transport::Tcp => Client::connect(&format!("tl+tcp://{}", engine.local_addrs()[0])),
        Transport::Unix => Client::connect(&format!("tl+unix://{socket}")),
        Transport::Shared => Client::connect(&format!("tl+shm://{socket}")),
        Transport::Throughput => {
            let address = engine.local_addrs()[0];
            let options = ConnectOptions::new(&format!("tl+tcp://{address}"));
            let mut options = options.expect("a URL");
            // Short, because each call of a scenario waits twice for this delay.
            options.throughput_mode = Some(ThroughputMode {
                delay: Duration::from_micros(200),
                ..ThroughputMode::DEFAULT
            });
            Client::connect_with(&options)
        }
        Transport::Memory => engine.client(),
    };
    let client = client.expect("a client");
    client.wait_connected(TIMEOUT).expect("a connection");
    let over = match client.peer() {
        Some(Peer::Tcp(_)) if client.throughput_mode().is_some() => Transport::Throughput,
        Some(Peer::Tcp(_)) => Transport::Tcp,
        Some(Peer::Unix { .. }) => match client.transport().expect("a connection").name {
            "shared memory" => Transport::Shared,
            _ => Transport::Unix,
        },
        _ => Transport::Memory,
    };
    assert_eq!(over, transport);
    client
}

/// A variable as another client knows it.
pub fn open_with(client: &Client, name: &str) -> VariableRef {
    let mut opened = client
        .open(&[name], OpenOptions::default(), TIMEOUT)
        .expect("an answer");
    opened.remove(0).expect("the variable exists").variable
}

/// Returns the next reading. Skips other events.
pub fn reading(subscription: &Subscription) -> Reading {
    loop {
        match subscription.next(Some(TIMEOUT)) {
            Some(Event::Reading { reading, .. }) => return reading,
            Some(Event::Connected { .. }) => {}
            other => panic!("a reading was expected, not {other:?}"),
        }
    }
}

/// Runs a task on this thread.
pub fn block_on<R>(task: impl Future<Output = R>) -> R {
    let mut task = pin!(task);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        if let Poll::Ready(result) = task.as_mut().poll(&mut Context::from_waker(&waker)) {
            return result;
        }
        thread::park();
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
