//! The round trip of 8 bytes over TCP: two blocking sockets, and a link with a server. Nothing
//! spins, so both ends sleep at every message.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use trunkline::types::{Tick, Timestamp};
use trunkline_net::{Clock, Dialler, Link, LinkOptions, Notifier, Peer, Server, ServerOptions};
use trunkline_proto::{Disconnect, Endpoint};

use super::{Cell, Contender, Timed};
use crate::Outcome;
use crate::hosting::free_port;
use crate::placement::{End, pin};

const MESSAGE: [u8; 8] = *b"8 bytes.";
/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(10);

/// Returns both systems; the answering threads have the CPU of the far end.
pub(super) fn cell() -> Outcome<Cell> {
    let far = thread::spawn(|| -> io::Result<_> {
        // If this fails, the two ends share a CPU.
        let _ = pin(End::Far);
        Ok((start_raw()?, start_server()?))
    });
    let (mut raw, server) = far.join().map_err(|_| "the far end panicked")??;
    let address = server.local_addrs()[0];
    let dialler = Dialler::tcp(address.ip().to_string(), address.port());
    let link = Link::start(dialler, Party::default(), LinkOptions::default())?;
    Ok(Cell {
        case: "op=round-trip bytes=8".to_owned(),
        waiting: "sleeping",
        contenders: vec![
            contender("raw-tcp", move || {
                raw.write_all(&MESSAGE).is_ok() && raw.read_exact(&mut [0; 8]).is_ok()
            }),
            contender("link", move || {
                // The server ends with the link.
                let _server = &server;
                let clock = Clock::new();
                let sent = link.with(|caller, _, _| {
                    caller.output.extend(MESSAGE);
                    caller.received
                });
                let until = Some(clock.now().saturating_add(PATIENCE));
                link.wait_until(until, |caller, _| (caller.received > sent).then_some(()))
                    .is_some()
            }),
        ],
    })
}

/// `call` returns true once it has its answer.
fn contender(system: &'static str, mut call: impl FnMut() -> bool + 'static) -> Contender {
    Contender::new(system, move |count| {
        let start = Instant::now();
        let answered = (0..count).filter(|_| call()).count() as u64;
        Timed {
            elapsed: start.elapsed(),
            wrong: count - answered,
        }
    })
}

fn start_raw() -> io::Result<TcpStream> {
    let listener = TcpListener::bind(free_port())?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    let (mut server, _) = listener.accept()?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    thread::spawn(move || {
        let mut message = [0; 8];
        while server.read_exact(&mut message).is_ok() && server.write_all(&message).is_ok() {}
    });
    Ok(client)
}

fn start_server() -> io::Result<Server> {
    let options = ServerOptions {
        listen: vec![free_port().into()],
        ..ServerOptions::default()
    };
    let factory = |_: Peer, _: Notifier| Ok(Box::new(Party::echo()) as Box<dyn Endpoint>);
    Server::bind(options, Arc::new(factory)).map_err(io::Error::other)
}

/// An end that sends `output`, and either counts its input or echoes it.
#[derive(Default)]
struct Party {
    output: Vec<u8>,
    /// Messages.
    received: u64,
    echoes: bool,
}

impl Party {
    fn echo() -> Self {
        Self {
            echoes: true,
            ..Self::default()
        }
    }
}

impl Endpoint for Party {
    fn handle_connected(&mut self, _: Tick, _: Timestamp) {}

    fn handle_input(&mut self, _: Tick, _: Timestamp, bytes: &[u8]) {
        self.received += bytes.len() as u64 / MESSAGE.len() as u64;
        if self.echoes {
            self.output.extend(bytes);
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

    fn handle_disconnected(&mut self, _: Tick, _: Disconnect) {}

    fn wants_close(&self) -> Option<Disconnect> {
        None
    }

    fn poll_dial(&self) -> Option<Tick> {
        (!self.echoes).then_some(Tick::ZERO)
    }
}
