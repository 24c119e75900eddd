//! Any number of clients on one thread: the production client, over TCP, in a separate loop.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use trunkline_client::{ClientCore, ClientOptions, SubscribeOptions, SubscriptionId};
use trunkline_net::Clock;
use trunkline_proto::{Disconnect, Endpoint};
use trunkline_types::{Contract, Tick};

use crate::CUT_OFF;
use crate::view::View;

/// Longest time between two checks for due work.
const LOOK: Duration = Duration::from_millis(5);

pub struct Crowd {
    poll: Poll,
    clock: Clock,
    address: SocketAddr,
    pub members: Vec<Member>,
    /// When connections were begun.
    pub attempts: Vec<Tick>,
    buffer: Vec<u8>,
    /// The next check of all clients.
    look_at: Tick,
}

/// One client with one subscription.
pub struct Member {
    pub core: ClientCore,
    pub view: View,
    subscription: SubscriptionId,
    socket: Option<TcpStream>,
    connecting: bool,
    readable: bool,
    /// It neither reads nor sends: its program stalls.
    pub stalled: bool,
    output: Vec<u8>,
}

impl Crowd {
    pub fn new(address: SocketAddr) -> Self {
        Self {
            poll: Poll::new().unwrap(),
            clock: Clock::new(),
            address,
            members: Vec::new(),
            attempts: Vec::new(),
            buffer: vec![0; 64 << 10],
            look_at: Tick::ZERO,
        }
    }

    /// One more client, which subscribes these names.
    pub fn join(&mut self, names: &[String], contract: Contract) {
        let mut core = ClientCore::new(ClientOptions {
            program: "rig".to_owned(),
            seed: 0x5eed ^ ((self.members.len() as u64 + 1) << 20),
            ..ClientOptions::default()
        });
        let options = SubscribeOptions::default();
        let subscription = core.subscribe(names, contract, options).unwrap();
        self.members.push(Member {
            core,
            view: View::default(),
            subscription,
            socket: None,
            connecting: false,
            readable: false,
            stalled: false,
            output: Vec::new(),
        });
    }

    pub fn connected(&self) -> usize {
        let open = self.members.iter();
        open.filter(|member| member.core.session().is_some())
            .count()
    }

    /// Drives all of them until `done`, for at most the cut-off.
    pub fn run(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        let end = self.clock.now().saturating_add(CUT_OFF);
        while !done(self) {
            assert!(
                self.clock.now() < end,
                "{what}: not within {CUT_OFF:?}; {} of {} are connected",
                self.connected(),
                self.members.len()
            );
            self.turn();
        }
    }

    /// Drives all of them for this time.
    pub fn run_for(&mut self, duration: Duration) {
        let end = self.clock.now().saturating_add(duration);
        while self.clock.now() < end {
            self.turn();
        }
    }

    fn turn(&mut self) {
        let mut events = Events::with_capacity(1024);
        let polled = self.poll.poll(&mut events, Some(LOOK));
        for event in events.iter().filter(|_| polled.is_ok()) {
            if let Some(member) = self.members.get_mut(event.token().0) {
                member.readable = true;
                // Every client with due work is driven now, regardless of their number.
                if !member.stalled {
                    member.turn(&mut self.buffer, self.clock);
                }
            }
        }
        if self.clock.now() < self.look_at {
            return;
        }
        self.look_at = self.clock.now().saturating_add(LOOK);
        for index in 0..self.members.len() {
            let member = &mut self.members[index];
            if member.stalled {
                continue;
            }
            let now = self.clock.now();
            if member.socket.is_none() && member.core.poll_dial().is_some_and(|due| due <= now) {
                self.attempts.push(now);
                member.dial(&self.poll, index, self.address, now);
            }
            member.turn(&mut self.buffer, self.clock);
        }
    }
}

impl Member {
    fn dial(&mut self, poll: &Poll, index: usize, address: SocketAddr, now: Tick) {
        let connected = TcpStream::connect(address).and_then(|mut socket| {
            let interest = Interest::READABLE | Interest::WRITABLE;
            poll.registry()
                .register(&mut socket, Token(index), interest)?;
            Ok(socket)
        });
        match connected {
            Ok(socket) => (self.socket, self.connecting) = (Some(socket), true),
            Err(error) => self.core.handle_disconnected(now, error.into()),
        }
    }

    fn turn(&mut self, buffer: &mut [u8], clock: Clock) {
        let (now, wall) = (clock.now(), clock.wall());
        if let Some(socket) = self.socket.as_ref().filter(|_| self.connecting) {
            match (socket.take_error(), socket.peer_addr()) {
                (Ok(None), Ok(_)) => {
                    self.connecting = false;
                    self.core.handle_connected(now, wall);
                }
                (Ok(None), Err(error)) if error.kind() == ErrorKind::NotConnected => return,
                (Ok(Some(error)) | Err(error), _) | (_, Err(error)) => {
                    return self.hang_up(now, error.into());
                }
            }
        }
        if let Err(cause) = self.exchange(buffer, clock) {
            self.hang_up(now, cause);
        }
        while let Some(event) = self.core.next_event(now, self.subscription) {
            self.view.take(event);
        }
    }

    fn exchange(&mut self, buffer: &mut [u8], clock: Clock) -> Result<(), Disconnect> {
        let (now, wall) = (clock.now(), clock.wall());
        if self.core.poll_timeout().is_some_and(|due| due <= now) {
            self.core.handle_timeout(now, wall);
        }
        let Some(socket) = &mut self.socket else {
            return Ok(());
        };
        while self.readable && self.core.wants_input() {
            match socket.read(buffer) {
                Ok(0) => return Err(Disconnect::PeerClosed),
                Ok(count) => self.core.handle_input(now, wall, &buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.readable = false,
                Err(error) => return Err(error.into()),
            }
        }
        loop {
            let more = self.output.len() < 64 << 10
                && self.core.poll_output(now, wall, 64 << 10, &mut self.output);
            if self.output.is_empty() {
                break;
            }
            match socket.write(&self.output) {
                Ok(count) => drop(self.output.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
            if !more && self.output.is_empty() {
                break;
            }
        }
        match self.core.wants_close() {
            Some(cause) => Err(cause),
            None => Ok(()),
        }
    }

    /// The connection is gone, or is given up.
    pub fn hang_up(&mut self, now: Tick, cause: Disconnect) {
        self.socket = None;
        (self.connecting, self.readable) = (false, false);
        self.output.clear();
        self.core.handle_disconnected(now, cause);
    }
}
