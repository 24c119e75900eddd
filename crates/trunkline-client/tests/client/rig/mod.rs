//! A client and a fake engine, joined without a network and without a clock.

mod answers;
mod engine;
mod said;

use std::time::Duration;

use trunkline_client::{
    ClientCore, ClientOptions, Event, OpenOptions, Opened, Request, RequestId, SubscribeOptions,
    SubscriptionId, VariableRef, Write,
};
use trunkline_proto::message::lost::{LostBuilder, LostRecord};
use trunkline_proto::{Disconnect, Endpoint, Fault};
use trunkline_types::{Contract, Reading, Tick, Timestamp, Value};

pub use engine::FakeEngine;
pub use said::{Said, SaidWrite};

/// The engine's wall clock at every welcome.
pub const WALL: Timestamp = Timestamp::from_nanos(1_700_000_000_000_000_000);

pub struct Rig {
    pub client: ClientCore,
    pub engine: FakeEngine,
    pub now: Tick,
    pub connected: bool,
    /// The number of bytes taken of the client's output at a time.
    pub budget: usize,
}

impl Rig {
    /// Returns a client that is not connected yet.
    pub fn new() -> Self {
        Self::with(ClientOptions {
            seed: 7,
            ..ClientOptions::default()
        })
    }

    pub fn with(options: ClientOptions) -> Self {
        Self {
            client: ClientCore::new(options),
            engine: FakeEngine::new(),
            now: Tick::from_nanos(1_000_000_000),
            connected: false,
            budget: 64 << 10,
        }
    }

    /// Returns a connected client. The engine has these variables, each an f64 with the value 0.
    pub fn connected(names: &[&str]) -> Self {
        let mut rig = Self::new();
        for name in names {
            rig.engine.add(name, Value::F64(0.0));
        }
        rig.connect();
        rig
    }

    /// Lets time pass until the client dials, and answers.
    pub fn connect(&mut self) {
        let due = self.client.poll_dial().expect("the client wants to dial");
        self.now = self.now.max(due);
        self.engine.connected();
        self.connected = true;
        self.client.handle_connected(self.now, WALL);
        self.exchange();
    }

    /// Carries bytes both ways until nothing moves.
    pub fn exchange(&mut self) {
        for _ in 0..100_000 {
            if !self.connected {
                return;
            }
            let mut bytes = Vec::new();
            while self
                .client
                .poll_output(self.now, WALL, self.budget, &mut bytes)
            {}
            self.engine.take(self.now, &bytes);
            let answers = std::mem::take(&mut self.engine.out);
            if !answers.is_empty() {
                self.client.handle_input(self.now, WALL, &answers);
            } else if bytes.is_empty() {
                return;
            }
            self.close_if_wanted();
        }
        panic!("the two ends never come to rest");
    }

    fn close_if_wanted(&mut self) {
        if let Some(cause) = self.client.wants_close() {
            let mut bytes = Vec::new();
            while self
                .client
                .poll_output(self.now, WALL, self.budget, &mut bytes)
            {}
            self.engine.take(self.now, &bytes);
            self.connected = false;
            self.client.handle_disconnected(self.now, cause);
        }
    }

    /// Sends what `encode` appends from the engine to the client.
    pub fn tell(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        encode(&mut self.engine.out);
        self.exchange();
    }

    /// Breaks the connection.
    pub fn cut(&mut self) {
        self.connected = false;
        self.client
            .handle_disconnected(self.now, Disconnect::PeerClosed);
    }

    /// Breaks the connection and establishes it again.
    pub fn reconnect(&mut self) {
        self.cut();
        self.engine.welcome.session += 1;
        self.connect();
    }

    /// Lets time pass, and calls the client at each of its timeouts.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now.saturating_add(time);
        let mut calls = 0;
        while let Some(due) = self.client.poll_timeout().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.client.handle_timeout(self.now, WALL);
            self.exchange();
            self.close_if_wanted();
            calls += 1;
            assert!(
                calls < 100_000,
                "the client wants the same time again and again"
            );
        }
        self.now = end;
    }

    /// The client's frames since the last call.
    pub fn said(&mut self) -> Vec<Said> {
        std::mem::take(&mut self.engine.said)
    }

    pub fn open(&mut self, names: &[&str]) -> Vec<Opened> {
        let request = self.client.open(names, OpenOptions::default()).unwrap();
        self.exchange();
        let answer = self.client.take(request).expect("an answer");
        answer.unwrap().into_iter().map(Result::unwrap).collect()
    }

    pub fn open_one(&mut self, name: &str) -> VariableRef {
        self.open(&[name])[0].variable
    }

    pub fn answer<R: Request>(&mut self, request: RequestId<R>) -> Result<R::Answer, Fault> {
        self.exchange();
        self.client.take(request).expect("an answer")
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

    /// The wire number of a subscription.
    pub fn wire(&self, id: SubscriptionId) -> u32 {
        self.client.wire_number(id).unwrap()
    }

    /// Sets a variable at the engine and delivers the update.
    pub fn set(&mut self, name: &str, value: f64) {
        self.engine.set(name, value);
        self.exchange();
    }

    /// Takes all queued events of a subscription.
    pub fn events(&mut self, id: SubscriptionId) -> Vec<Event> {
        let events = std::iter::from_fn(|| self.client.next_event(self.now, id)).collect();
        self.exchange();
        events
    }

    /// The pending readings.
    pub fn readings(&mut self, id: SubscriptionId) -> Vec<Reading> {
        let reading = |event| match event {
            Event::Reading { reading, .. } => Some(reading),
            _ => None,
        };
        self.events(id).into_iter().filter_map(reading).collect()
    }

    /// The values of the pending readings.
    pub fn values(&mut self, id: SubscriptionId) -> Vec<f64> {
        self.readings(id).iter().map(value).collect()
    }
}

/// The value of a reading of an f64.
pub fn value(reading: &Reading) -> f64 {
    reading.sample.value.as_f64().expect("a number")
}

/// A write of an f64.
pub fn write(variable: VariableRef, value: f64) -> Write {
    Write::new(variable, Value::F64(value))
}

/// Appends a LOST frame with one record.
pub fn lost(out: &mut Vec<u8>, subscription: u32, handle: u32, fill: impl FnOnce(&mut LostRecord)) {
    let mut record = LostRecord {
        handle,
        ..LostRecord::default()
    };
    fill(&mut record);
    let mut frame = LostBuilder::begin(out, subscription, &());
    frame.push(&record);
    frame.finish(false);
}
