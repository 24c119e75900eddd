//! An engine put together from its parts, so that many updates share one clock read and one
//! wake-up: what a scan does. The facade writes one value per call.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, Thread};

use trunkline::types::{LibraryDefinition, Tick, Timestamp, Value};
use trunkline_engine::{
    Attempt, Caller, Consumer, Engine, EngineOptions, Variable, Wake, Wakes, Write, WriteOutcome,
};
use trunkline_net::server::{Refusal, Server, ServerOptions, SessionFactory};
use trunkline_net::{Clock, Notifier, Peer};
use trunkline_proto::Endpoint;
use trunkline_serve::{ServeOptions, Session};

use super::trunkline::Source;
use crate::Outcome;
use crate::hosting::{free_port, name, url};

/// Any user; rights are not what is measured.
const USER: u32 = 0;

/// Writes many updates with one clock read.
pub struct Direct {
    engine: Engine,
    server: Server,
    clock: Clock,
    caller: Caller,
    variables: Vec<Arc<Variable>>,
    /// Where room in a full feed is announced.
    room: Consumer,
}

impl Direct {
    /// An engine with this library that listens on a free port.
    ///
    /// # Errors
    /// The system refuses a port or a thread.
    pub fn start(library: &LibraryDefinition) -> Outcome<Self> {
        let clock = Clock::new();
        let epoch = clock.wall().as_nanos() as u64;
        let engine = Engine::new(EngineOptions::new("bench", epoch));
        engine.deploy(library, clock.now(), clock.wall())?;
        let options = ServerOptions {
            listen: vec![free_port()],
            ..ServerOptions::default()
        };
        let server = Server::bind(options, Arc::new(Sessions(engine.clone())))?;
        let caller = Caller::local(1, USER);
        let found = |index| engine.resolve(&caller, &name(index)).map(Arc::clone);
        let variables = (0..library.variables.len())
            .map(found)
            .collect::<Result<Vec<_>, _>>()?;
        let room = Consumer::new(engine.clone(), Box::new(Unpark(thread::current())));
        Ok(Self {
            engine,
            server,
            clock,
            caller,
            variables,
            room,
        })
    }

    /// True when it was applied, false when it has to wait.
    fn attempt(
        &self,
        variable: &Variable,
        value: f64,
        wakes: &mut Wakes,
        now: Tick,
        wall: Timestamp,
    ) -> Outcome<bool> {
        let value = Value::F64(value);
        let write = Write::value(&value);
        match self
            .engine
            .try_write(&self.caller, now, wall, variable, &write, wakes)
        {
            Attempt::Done(WriteOutcome::Applied { .. }) => Ok(true),
            Attempt::WouldBlock { .. } => Ok(false),
            other => Err(format!("a write ended as {other:?}").into()),
        }
    }
}

impl Source for Direct {
    fn write(&mut self, updates: &[(usize, f64)]) -> Outcome<()> {
        let (mut now, mut wall) = (self.clock.now(), self.clock.wall());
        let mut wakes = Wakes::new();
        for (index, value) in updates {
            let variable = &*self.variables[*index];
            while !self.attempt(variable, *value, &mut wakes, now, wall)? {
                // What was written so far has to be sent before there can be room.
                wakes.flush();
                if self.room.wait_for_room(variable) {
                    thread::park();
                }
                (now, wall) = (self.clock.now(), self.clock.wall());
            }
        }
        Ok(())
    }

    fn url(&self) -> Outcome<String> {
        let address: Option<SocketAddr> = self.server.local_addrs().first().copied();
        Ok(url(address.ok_or("the engine listens nowhere")?))
    }
}

/// Wakes the writer.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(&self) {
        self.0.unpark();
    }
}

/// Has a session's connection thread look at it.
struct Notify(Notifier);

impl Wake for Notify {
    fn wake(&self) {
        self.0.notify();
    }
}

struct Sessions(Engine);

impl SessionFactory for Sessions {
    fn open(&self, _peer: Peer, notifier: Notifier) -> Result<Box<dyn Endpoint>, Vec<u8>> {
        let options = Arc::new(ServeOptions::default());
        let caller = Caller::local(2, USER);
        let wake = Box::new(Notify(notifier));
        Ok(Box::new(Session::new(
            self.0.clone(),
            options,
            caller,
            wake,
        )))
    }

    fn refusal(&self, _peer: Peer, _refusal: Refusal) -> Vec<u8> {
        Vec::new()
    }
}
