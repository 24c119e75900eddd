//! What the engine's end of many connections costs per delivered update, without a network.
//!
//! ```text
//! cargo run --release -p trunkline-serve --example fan_out [SUBSCRIBERS ROUNDS]
//! ```
//!
//! 100 variables are written 100 at a time; every session has an `all` subscription of them, and a
//! peer that confirms and grants what it got. Without arguments a table for 1, 8 and 32
//! subscribers, each size once per repeat in turn; with arguments one size, for a profiler. What
//! the peer does is in the figures: it looks at the heads of the frames only.

// A measuring program reads the clock and prints.
#![allow(clippy::print_stdout, clippy::disallowed_methods)]
#![cfg_attr(shuttle, allow(unused))]

use std::sync::Arc;
use std::time::Instant;

use trunkline_engine::{Caller, Engine, EngineOptions, Variable, Wake, Wakes, Write};
use trunkline_proto::message::contract::SubscribeFlags;
use trunkline_proto::message::hello::Hello;
use trunkline_proto::message::keepalive::{AckBuilder, Grant};
use trunkline_proto::message::subscribe::{SubscribeBuilder, SubscribeItem, SubscribeTerms};
use trunkline_proto::message::updates::Updates;
use trunkline_proto::{Endpoint, Frame, FrameKind};
use trunkline_serve::{ServeOptions, Session};
use trunkline_types::{
    Contract, DataType, LibraryDefinition, Tick, Timestamp, Value, VariableDefinition,
};

const VARIABLES: usize = 100;
const REPEATS: usize = 7;
const ROUNDS: usize = 500;
const NOW: Tick = Tick::from_nanos(1);
const WALL: Timestamp = Timestamp::from_nanos(1_767_225_600_000_000_000);
/// Bytes asked for at a time, as the driver does.
const BUDGET: usize = 1 << 16;
const ALL: Contract = Contract::All {
    elements: 1 << 16,
    bytes: 16 << 20,
};

fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .filter_map(|text| text.parse().ok());
    if let (Some(subscribers), Some(rounds)) = (arguments.next(), arguments.next()) {
        let mut scene = Scene::new(subscribers);
        (0..rounds).for_each(|_| scene.round());
        return;
    }
    let mut scenes: Vec<Scene> = [1, 8, 32].into_iter().map(Scene::new).collect();
    let mut nanos = vec![Vec::new(); scenes.len()];
    for _ in 0..REPEATS {
        for (scene, nanos) in scenes.iter_mut().zip(&mut nanos) {
            let start = Instant::now();
            (0..ROUNDS).for_each(|_| scene.round());
            let delivered = scene.peers.len() * VARIABLES * ROUNDS;
            nanos.push(start.elapsed().as_nanos() as f64 / delivered as f64);
        }
    }
    for (scene, mut nanos) in scenes.iter().zip(nanos) {
        nanos.sort_by(f64::total_cmp);
        let count = scene.peers.len();
        println!(
            "{:7.1} ns per delivered update, {count} subscribers",
            nanos[REPEATS / 2]
        );
    }
}

struct Scene {
    engine: Engine,
    caller: Caller,
    variables: Vec<Arc<Variable>>,
    peers: Vec<Peer>,
    written: u64,
}

/// A session, and as much of a client as it needs.
struct Peer {
    session: Session,
    bytes: Vec<u8>,
    received: u64,
}

impl Scene {
    fn new(subscribers: usize) -> Self {
        let engine = Engine::new(EngineOptions::new("speed", 1));
        let define = |n| VariableDefinition::new(format!("v{n}"), DataType::F64);
        let library = LibraryDefinition {
            name: "speed".to_owned(),
            description: String::new(),
            variables: (0..VARIABLES).map(define).collect(),
        };
        let handles = engine.deploy(&library, NOW, WALL).unwrap_or_default();
        let variables = handles
            .iter()
            .filter_map(|handle| engine.variable(*handle))
            .collect();
        let peers = (0..subscribers)
            .map(|number| Peer::new(&engine, number as u32 + 2, &handles))
            .collect();
        let mut scene = Self {
            engine,
            caller: Caller::local(1, 0),
            variables,
            peers,
            written: 0,
        };
        // First readings; then what all of them say is as it should be.
        scene.peers.iter_mut().for_each(Peer::take);
        for _ in 0..2 {
            scene.round();
            for peer in &scene.peers {
                peer.is_checked(VARIABLES);
            }
        }
        scene
    }

    /// Writes every variable, and hands over what every session has to say.
    fn round(&mut self) {
        self.written += 1;
        let value = Value::F64(self.written as f64);
        let mut wakes = Wakes::new();
        for variable in &self.variables {
            let write = Write::value(&value);
            let caller = &self.caller;
            let _done = self
                .engine
                .try_write(caller, NOW, WALL, variable, &write, &mut wakes);
        }
        wakes.flush();
        self.peers.iter_mut().for_each(Peer::take);
    }
}

impl Peer {
    fn new(engine: &Engine, session: u32, handles: &[u32]) -> Self {
        let options = Arc::new(ServeOptions::default());
        let caller = Caller::local(session, 0);
        let mut session = Session::new(engine.clone(), options, caller, Box::new(Silent));
        session.handle_connected(NOW, WALL);
        let mut bytes = Vec::new();
        let hello = Hello {
            window_records: 1 << 20,
            window_bytes: 64 << 20,
            ..Hello::default()
        };
        hello.encode(&mut bytes);
        let terms = SubscribeTerms {
            subscription: 1,
            contract: ALL,
            flags: SubscribeFlags::NONE,
        };
        let mut frame = SubscribeBuilder::begin(&mut bytes, 1, &terms, None);
        for handle in handles {
            let (handle, last_sequence) = (*handle, 0);
            frame.push(&SubscribeItem {
                handle,
                last_sequence,
            });
        }
        frame.finish(false);
        session.handle_input(NOW, WALL, &bytes);
        Self {
            session,
            bytes,
            received: 0,
        }
    }

    /// Takes what there is, and confirms it.
    fn take(&mut self) {
        self.bytes.clear();
        while self.session.poll_output(NOW, WALL, BUDGET, &mut self.bytes) {}
        let (mut rest, mut count) = (self.bytes.as_slice(), 0);
        while let Ok(Some(frame)) = Frame::take_from(&mut rest) {
            if frame.header().kind == FrameKind::Updates.number() {
                count += u64::from(frame.count());
            }
        }
        self.received += count;
        let mut answer = Vec::new();
        let mut ack = AckBuilder::begin(&mut answer, self.received);
        ack.push(Grant {
            subscription: 1,
            more: count,
        });
        ack.finish();
        self.session.handle_input(NOW, WALL, &answer);
    }

    /// Whether the last output had so many updates, each of which can be read.
    fn is_checked(&self, expected: usize) {
        let (mut rest, mut count) = (self.bytes.as_slice(), 0);
        while let Ok(Some(frame)) = Frame::take_from(&mut rest) {
            if let Ok(updates) = Updates::decode(&frame) {
                count += updates.filter(Result::is_ok).count();
            }
        }
        assert_eq!(count, expected, "updates of one round");
    }
}

struct Silent;

impl Wake for Silent {
    fn wake(&self) {}
}
