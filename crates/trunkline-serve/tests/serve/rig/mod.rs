//! Connects an engine and its clients through queues of bytes, without a network and without a clock.
//!
//! A [`Pair`] is a real session and a real client. As on a connection thread, the session has a turn
//! only if it was woken, if bytes have arrived, if a timeout is due, or if a full transport has room
//! again. If a wake-up is missing, the test therefore sees old values.

#![allow(dead_code, reason = "each test program uses its own part")]

pub mod access;
mod peer;
pub mod spoken;
mod world;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use trunkline_client::{
    ClientCore, ClientOptions, Event, OpenOptions, Opened, Request, RequestId, SubscribeOptions,
    SubscriptionId, VariableRef, Write, WriteOutcome,
};
use trunkline_proto::message::info::VariableInfo;
use trunkline_proto::{Disconnect, Endpoint, Fault, Frame};
use trunkline_serve::{ServeOptions, Session};
use trunkline_types::ledger::SubscriptionLedger;
use trunkline_types::{Contract, Reading, Value};

pub use peer::{Heard, Peer};
pub use world::{Bell, World, define, f64_variable};

/// Number of bytes that a transport can store in each direction.
pub const TRANSPORT_BYTES: usize = 64 << 10;

/// A client and its session.
pub struct Pair {
    pub world: World,
    pub client: ClientCore,
    pub session: Option<Session>,
    pub options: Arc<ServeOptions>,
    /// True while the client's process is stalled, so that it neither reads nor sends.
    pub is_stopped: bool,
    /// Number of bytes that the transport can store in each direction.
    pub capacity: usize,
    /// True if the client has requested throughput mode, so that answers take some time.
    pub gathers: bool,
    /// Maximum number of bytes that the client reads at a time.
    pub piece: usize,
    /// Frames and bytes that went each way since this was last cleared.
    pub traffic: Traffic,
    /// The treatment of frames in transit to the client, one by one; `None`: unchanged.
    pub between: Option<Tamper>,
    /// The beginning of a frame to the client, while `between` may change frames.
    uncut: Vec<u8>,
    bell: Bell,
    /// True if the session must have a turn.
    is_due: bool,
    /// True if the transport to the client was full.
    was_full: bool,
    to_engine: VecDeque<u8>,
    to_client: VecDeque<u8>,
}

/// How a turn of the session ended.
enum Turn {
    /// True if anything moved.
    Moved(bool),
    Closed(Disconnect),
}

/// The replacement of a frame, given with its bytes; `None`: it stays unchanged.
pub type Tamper = Box<dyn FnMut(&Frame<'_>, &[u8]) -> Option<Vec<u8>>>;

/// The traffic of a connection.
#[derive(Default, Debug)]
pub struct Traffic {
    pub to_engine: Direction,
    pub to_client: Direction,
}

#[derive(Default, Debug)]
pub struct Direction {
    /// Kinds of the frames, in order.
    pub kinds: Vec<u8>,
    pub bytes: usize,
    rest: Vec<u8>,
}

impl Direction {
    fn note(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        self.rest.extend_from_slice(bytes);
        let mut rest = self.rest.as_slice();
        while let Some(frame) = trunkline_proto::Frame::take_from(&mut rest).expect("frames") {
            self.kinds.push(frame.header().kind);
        }
        self.rest = rest.to_vec();
    }

    /// Frames of this kind.
    pub fn count(&self, kind: trunkline_proto::FrameKind) -> usize {
        self.kinds.iter().filter(|k| **k == kind.number()).count()
    }
}

impl Pair {
    /// Creates a client that is connected to the library `rig` with these `f64` variables. Each variable has
    /// been written once, with 0.
    pub fn of(names: &[&str]) -> Self {
        let world = World::with_library("rig", names.iter().map(|n| f64_variable(n)).collect());
        names
            .iter()
            .for_each(|name| world.set(&format!("rig/{name}"), 0.0));
        Self::on(&world)
    }

    /// Creates a client that is connected to this engine.
    pub fn on(world: &World) -> Self {
        let mut pair = Self::offline(world, ServeOptions::default(), client_options());
        pair.connect();
        pair
    }

    /// Creates a client that is not connected.
    pub fn offline(world: &World, serve: ServeOptions, client: ClientOptions) -> Self {
        Self {
            world: world.clone(),
            client: ClientCore::new(client),
            session: None,
            options: Arc::new(serve),
            is_stopped: false,
            capacity: TRANSPORT_BYTES,
            gathers: false,
            piece: usize::MAX,
            traffic: Traffic::default(),
            between: None,
            uncut: Vec::new(),
            bell: Bell::default(),
            is_due: false,
            was_full: false,
            to_engine: VecDeque::new(),
            to_client: VecDeque::new(),
        }
    }

    /// Makes the engine identify itself with this id from now on.
    pub fn becomes_engine(&mut self, engine_id: [u8; 16]) {
        self.options = Arc::new(ServeOptions {
            engine_id,
            ..(*self.options).clone()
        });
    }

    /// Lets time pass until the client connects, and completes the handshake.
    pub fn connect(&mut self) {
        self.dial();
        self.exchange();
    }

    /// Lets time pass until the client connects, without exchanging the HELLO.
    pub fn dial(&mut self) {
        let due = self.client.poll_dial().expect("the client wants to dial");
        self.world.advance_to(due);
        self.bell = Bell::default();
        let (engine, options) = (self.world.engine(), Arc::clone(&self.options));
        let (caller, wake) = (self.world.caller(), Box::new(self.bell.clone()));
        let mut session = Session::new(engine, options, caller, wake);
        let (now, wall) = self.world.time();
        session.handle_connected(now, wall);
        self.client.handle_connected(now, wall);
        self.session = Some(session);
    }

    /// Breaks the connection. Data in flight is lost.
    pub fn cut(&mut self) {
        let (now, _) = self.world.time();
        if let Some(mut session) = self.session.take() {
            session.handle_disconnected(now, Disconnect::PeerClosed);
            self.client.handle_disconnected(now, Disconnect::PeerClosed);
        }
        self.to_engine.clear();
        self.to_client.clear();
        self.uncut.clear();
        self.traffic.to_engine.rest.clear();
        self.traffic.to_client.rest.clear();
    }

    /// Breaks the connection after this number of further bytes in each direction. Later data in flight is
    /// lost.
    pub fn cut_after(&mut self, to_engine: usize, to_client: usize) {
        let ((now, wall), capacity) = (self.world.time(), self.capacity);
        self.capacity = TRANSPORT_BYTES;
        if self.session.is_some() {
            self.client_sends();
            self.is_due = true;
            let arriving: Vec<u8> = self.to_engine.drain(..).take(to_engine).collect();
            if let Some(session) = &mut self.session {
                session.handle_input(now, wall, &arriving);
            }
            self.turn_of_session();
            let arriving: Vec<u8> = self.to_client.drain(..).take(to_client).collect();
            self.client.handle_input(now, wall, &arriving);
        }
        self.capacity = capacity;
        self.cut();
    }

    /// Passes bytes in both directions until there are none.
    pub fn exchange(&mut self) {
        for _ in 0..100_000 {
            let moved = self.turn_of_client() | self.turn_of_session();
            if !moved {
                return;
            }
        }
        panic!("the two ends never come to rest");
    }

    /// Runs a turn of the client. Returns true if any bytes were passed.
    pub fn turn_of_client(&mut self) -> bool {
        if self.is_stopped || self.session.is_none() {
            return false;
        }
        let (now, wall) = self.world.time();
        let taken = self.to_client.len().min(self.piece);
        let bytes: Vec<u8> = self.to_client.drain(..taken).collect();
        if !bytes.is_empty() {
            self.client.handle_input(now, wall, &bytes);
        }
        let room = self.capacity.saturating_sub(self.to_engine.len());
        let mut out = Vec::new();
        if room > 0 {
            self.client.poll_output(now, wall, room, &mut out);
        }
        self.traffic.to_engine.note(&out);
        self.to_engine.extend(&out);
        if let Some(cause) = self.client.wants_close() {
            self.turn_of_session();
            self.close(cause.clone(), Disconnect::PeerClosed);
            return true;
        }
        !bytes.is_empty() || !out.is_empty()
    }

    /// Lets the client send without receiving, as if the network worked in one direction only.
    pub fn client_sends(&mut self) {
        let (now, wall) = self.world.time();
        let mut out = Vec::new();
        let room = TRANSPORT_BYTES - self.to_engine.len();
        self.client.poll_output(now, wall, room, &mut out);
        self.traffic.to_engine.note(&out);
        self.to_engine.extend(&out);
    }

    /// Runs a turn of the connection thread if there is a reason for one.
    pub fn turn_of_session(&mut self) -> bool {
        let Some(mut session) = self.session.take() else {
            return false;
        };
        let moved = self.turn_of(&mut session);
        match moved {
            Turn::Closed(cause) => {
                self.session = Some(session);
                self.deliver_last_words();
                self.close(Disconnect::PeerClosed, cause);
                true
            }
            Turn::Moved(moved) => {
                self.session = Some(session);
                moved
            }
        }
    }

    fn turn_of(&mut self, session: &mut Session) -> Turn {
        let (now, wall) = self.world.time();
        let mut took_input = false;
        if !self.to_engine.is_empty() && session.wants_input() {
            let bytes: Vec<u8> = self.to_engine.drain(..).collect();
            session.handle_input(now, wall, &bytes);
            took_input = true;
        }
        if session.poll_timeout().is_some_and(|due| due <= now) {
            session.handle_timeout(now, wall);
            self.is_due = true;
        }
        let has_room = self.to_client.len() < self.capacity;
        let is_due = took_input
            || self.bell.rang()
            || std::mem::take(&mut self.is_due)
            || (self.was_full && has_room);
        self.was_full |= is_due && !has_room;
        if !is_due || !has_room {
            return Turn::Moved(took_input);
        }
        let room = self.capacity - self.to_client.len();
        let mut out = Vec::new();
        let more = session.poll_output(now, wall, room, &mut out);
        self.was_full = false;
        self.is_due = more;
        let is_moving = took_input || more || !out.is_empty();
        self.traffic.to_client.note(&out);
        let out = self.carried(out);
        self.to_client.extend(&out);
        if let Some(cause) = session.wants_close()
            && !more
        {
            return Turn::Closed(cause);
        }
        Turn::Moved(is_moving)
    }

    /// Applies `between` to the frames in these bytes to the client.
    fn carried(&mut self, out: Vec<u8>) -> Vec<u8> {
        let Some(between) = &mut self.between else {
            let mut whole = std::mem::take(&mut self.uncut);
            whole.extend(out);
            return whole;
        };
        self.uncut.extend(out);
        let (mut carried, mut rest) = (Vec::new(), self.uncut.as_slice());
        loop {
            let before = rest;
            let Some(frame) = Frame::take_from(&mut rest).expect("frames") else {
                break;
            };
            let bytes = &before[..before.len() - rest.len()];
            match between(&frame, bytes) {
                None => carried.extend(bytes),
                Some(altered) => carried.extend(altered),
            }
        }
        self.uncut = rest.to_vec();
        carried
    }

    /// Makes the session have a turn, for a reason that the test itself has caused.
    pub fn wake_session(&mut self) {
        self.is_due = true;
    }

    fn deliver_last_words(&mut self) {
        let (now, wall) = self.world.time();
        let bytes: Vec<u8> = self.to_client.drain(..).collect();
        if !bytes.is_empty() && !self.is_stopped {
            self.client.handle_input(now, wall, &bytes);
        }
    }

    fn close(&mut self, at_client: Disconnect, at_engine: Disconnect) {
        let (now, _) = self.world.time();
        if let Some(mut session) = self.session.take() {
            session.handle_disconnected(now, at_engine);
            let at_client = self.client.wants_close().unwrap_or(at_client);
            self.client.handle_disconnected(now, at_client);
        }
        self.to_engine.clear();
        self.to_client.clear();
        self.uncut.clear();
    }

    /// Lets time pass, and runs both ends and the engine whenever a timeout is due.
    pub fn pass(&mut self, time: Duration) {
        let end = self.world.time().0.saturating_add(time);
        loop {
            self.exchange();
            let session = self.session.as_ref().and_then(Endpoint::poll_timeout);
            let client = self.client.poll_timeout().filter(|_| !self.is_stopped);
            let Some(due) = session
                .into_iter()
                .chain(client)
                .min()
                .filter(|due| *due <= end)
            else {
                break;
            };
            self.world.advance_to(due);
            let (now, wall) = self.world.time();
            if self.client.poll_timeout().is_some_and(|due| due <= now) && !self.is_stopped {
                self.client.handle_timeout(now, wall);
            }
            self.turn_of_session();
        }
        self.world.advance_to(end);
        self.exchange();
    }

    /// Adds these frames to the bytes from the client.
    pub fn forge(&mut self, frames: &[u8]) {
        self.to_engine.extend(frames);
    }

    /// Returns the number of bytes in flight to the client.
    pub fn waiting_answers(&self) -> usize {
        self.to_client.len()
    }

    // Actions of programs.

    pub fn open(&mut self, names: &[&str]) -> Vec<Result<Opened, Fault>> {
        self.open_with(names, OpenOptions::default())
    }

    pub fn open_with(
        &mut self,
        names: &[&str],
        options: OpenOptions,
    ) -> Vec<Result<Opened, Fault>> {
        let request = self.client.open(names, options).unwrap();
        self.answer(request).unwrap()
    }

    pub fn variable(&mut self, name: &str) -> VariableRef {
        self.open(&[name])
            .remove(0)
            .expect("the variable exists")
            .variable
    }

    pub fn answer<R: Request>(&mut self, request: RequestId<R>) -> Result<R::Answer, Fault> {
        self.exchange();
        if self.gathers {
            self.pass(Duration::from_millis(100));
        }
        self.client.take(request).expect("an answer")
    }

    pub fn read(&mut self, variables: &[VariableRef]) -> Vec<Result<Reading, Fault>> {
        let request = self.client.read(variables).unwrap();
        self.answer(request).unwrap()
    }

    /// Writes, and waits for the outcomes.
    pub fn write(
        &mut self,
        writes: impl IntoIterator<Item = (VariableRef, f64)>,
    ) -> Vec<WriteOutcome> {
        self.write_values(
            writes
                .into_iter()
                .map(|(v, value)| Write::new(v, Value::F64(value))),
        )
    }

    pub fn write_values(&mut self, writes: impl IntoIterator<Item = Write>) -> Vec<WriteOutcome> {
        let batch = self.client.write(writes).unwrap();
        self.exchange();
        self.client
            .take_outcomes(batch)
            .expect("all writes are answered")
    }

    pub fn subscribe(&mut self, names: &[&str], contract: &str) -> SubscriptionId {
        self.subscribe_with(
            names,
            contract.parse().unwrap(),
            SubscribeOptions::default(),
        )
    }

    pub fn subscribe_with(
        &mut self,
        names: &[&str],
        contract: Contract,
        options: SubscribeOptions,
    ) -> SubscriptionId {
        let id = self.client.subscribe(names, contract, options).unwrap();
        self.exchange();
        id
    }

    /// Takes all waiting events of a subscription.
    pub fn events(&mut self, id: SubscriptionId) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            let (before, (now, _)) = (events.len(), self.world.time());
            events.extend(std::iter::from_fn(|| self.client.next_event(now, id)));
            // Taking an event may have made room for pending data.
            self.exchange();
            if events.len() == before {
                return events;
            }
        }
    }

    /// Takes all waiting readings of a subscription.
    pub fn readings(&mut self, id: SubscriptionId) -> Vec<Reading> {
        self.events(id).into_iter().filter_map(reading).collect()
    }

    /// Takes all waiting readings of a subscription, and returns their values.
    pub fn values(&mut self, id: SubscriptionId) -> Vec<f64> {
        self.readings(id).iter().map(value).collect()
    }

    /// Returns the engine's information about a variable.
    pub fn info(&mut self, variable: VariableRef) -> VariableInfo {
        let request = self.client.info(&[variable]).unwrap();
        self.answer(request)
            .unwrap()
            .remove(0)
            .expect("it is there")
    }

    /// Returns the engine's ledger of a variable under a subscription. Checks that the ledger balances.
    pub fn engine_ledger(
        &mut self,
        id: SubscriptionId,
        variable: VariableRef,
    ) -> SubscriptionLedger {
        let wire = self.client.wire_number(id).unwrap();
        let info = self.info(variable);
        let mut subscriptions = info.subscriptions.into_iter();
        let found = subscriptions.find(|s| s.terms.subscription == wire);
        let ledger = found.expect("it is subscribed").ledger;
        assert!(ledger.is_balanced(), "{ledger:?}");
        ledger
    }

    /// Lets time pass until a keep-alive in each direction has confirmed all received data.
    pub fn settle(&mut self) {
        self.pass(Duration::from_millis(2500));
    }
}

pub fn client_options() -> ClientOptions {
    ClientOptions {
        seed: 7,
        ..ClientOptions::default()
    }
}

pub fn reading(event: Event) -> Option<Reading> {
    match event {
        Event::Reading { reading, .. } => Some(reading),
        _ => None,
    }
}

/// The value of a reading of a number.
pub fn value(reading: &Reading) -> f64 {
    reading.sample.value.as_f64().expect("a number")
}

/// The sequence numbers of readings.
pub fn sequences(readings: &[Reading]) -> Vec<u64> {
    readings
        .iter()
        .map(|reading| reading.position.sequence)
        .collect()
}

/// The sequence of a write that was applied.
pub fn applied(outcome: &WriteOutcome) -> u64 {
    match outcome {
        WriteOutcome::Applied(position) => position.sequence,
        other => panic!("not applied: {other:?}"),
    }
}
