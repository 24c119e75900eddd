//! The allocations per update: an allocator counts the requests of the engine's end of some
//! connections, from the write to the bytes sent, confirmations included.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use trunkline_engine::{Attempt, Caller, Engine, EngineOptions, Variable, Wake, Wakes, Write};
use trunkline_proto::message::contract::SubscribeFlags;
use trunkline_proto::message::hello::Hello;
use trunkline_proto::message::keepalive::{AckBuilder, AckHead, Grant};
use trunkline_proto::message::subscribe::{
    SubscribeBuilder, SubscribeHead, SubscribeItem, SubscribeTerms,
};
use trunkline_proto::message::updates::Updates;
use trunkline_proto::{Endpoint, Frame, FrameKind};
use trunkline_serve::{ServeOptions, Session};
use trunkline_types::{
    Contract, DataType, LibraryDefinition, Tick, Timestamp, Value, VariableDefinition,
};

const VARIABLES: usize = 100;
const NOW: Tick = Tick::from_nanos(1);
const WALL: Timestamp = Timestamp::from_nanos(1_767_225_600_000_000_000);

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that is ending counts no more.
    let _ended = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call is forwarded unchanged to `System`; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's contract is the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is the system allocator's.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's contract is the system allocator's.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Silent;

impl Wake for Silent {
    fn wake(&self) {}
}

/// A session, and as much of a client as it needs.
struct Peer {
    session: Session,
    bytes: Vec<u8>,
    answer: Vec<u8>,
    received: u64,
    /// Values and handles of the last round, in the order in which they came.
    seen: Vec<(u32, f64)>,
}

impl Peer {
    fn new(engine: &Engine, session: u32, contract: Contract, handles: &[u32]) -> Self {
        let options = Arc::new(ServeOptions::default());
        let caller = Caller::local(session, 0);
        let mut session = Session::new(engine.clone(), options, caller, Box::new(Silent));
        session.handle_connected(NOW, WALL);
        let mut bytes = Vec::new();
        Hello::default().encode(&mut bytes);
        let terms = SubscribeTerms {
            subscription: 1,
            contract,
            flags: SubscribeFlags::NONE,
        };
        let head = SubscribeHead {
            terms,
            resume_epoch: None,
        };
        let mut frame = SubscribeBuilder::begin(&mut bytes, 1, &head);
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
            answer: Vec::new(),
            received: 0,
            seen: Vec::with_capacity(2 * VARIABLES),
        }
    }

    fn take(&mut self) {
        self.bytes.clear();
        while self
            .session
            .poll_output(NOW, WALL, 1 << 16, &mut self.bytes)
        {}
        self.seen.clear();
        let mut rest = self.bytes.as_slice();
        while let Ok(Some(frame)) = Frame::take_from(&mut rest) {
            if frame.header().kind != FrameKind::Updates.number() {
                continue;
            }
            for update in Updates::decode(&frame).expect("well formed") {
                let update = update.expect("well formed");
                let value = update.value.and_then(|bytes| bytes.try_into().ok());
                let value = value.map_or(f64::NAN, f64::from_le_bytes);
                self.seen.push((update.handle, value));
            }
        }
        let more = self.seen.len() as u64;
        self.received += more;
        self.answer.clear();
        let head = AckHead {
            records_received: self.received,
        };
        let mut ack = AckBuilder::begin(&mut self.answer, 0, &head);
        ack.push(&Grant {
            subscription: 1,
            more,
        });
        ack.finish(false);
        self.session.handle_input(NOW, WALL, &self.answer);
    }
}

/// Writes everything and takes it at every end.
fn round(
    (engine, caller): (&Engine, &Caller),
    variables: &[Arc<Variable>],
    peers: &mut [Peer],
    wakes: &mut Wakes,
    value: f64,
) {
    let value = Value::F64(value);
    for variable in variables {
        let write = Write::value(&value);
        let attempt = engine.try_write(caller, NOW, WALL, variable, &write, wakes);
        assert!(matches!(attempt, Attempt::Done(_)));
    }
    wakes.flush();
    peers.iter_mut().for_each(Peer::take);
}

/// One subscriber, and several that share a feed; no update is lost meanwhile.
/// Behaviour: B-03, B-06.
#[test]
fn updates_allocate_nothing_from_the_write_to_the_wire() {
    for contract in [Contract::Latest, Contract::ALL] {
        for subscribers in [1, 4] {
            let engine = Engine::new(EngineOptions::new("sut", 7));
            let define = |n| VariableDefinition::new(format!("v{n}"), DataType::F64);
            let library = LibraryDefinition {
                name: "rig".to_owned(),
                description: String::new(),
                variables: (0..VARIABLES).map(define).collect(),
            };
            let handles = engine
                .libraries()
                .deploy(&library, NOW, WALL)
                .expect("well formed");
            let variable = |handle: &u32| Arc::clone(&engine.variable(*handle).expect("deployed"));
            let variables: Vec<Arc<Variable>> = handles.iter().map(variable).collect();
            let mut peers: Vec<Peer> = (0..subscribers)
                .map(|number| Peer::new(&engine, number + 2, contract, &handles))
                .collect();
            // Writers keep the list of whom to wake.
            let (mut wakes, caller) = (Wakes::new(), Caller::local(1, 0));
            let mut rounds = |peers: &mut [Peer]| {
                for n in 0..100 {
                    round(
                        (&engine, &caller),
                        &variables,
                        peers,
                        &mut wakes,
                        f64::from(n),
                    );
                }
            };
            rounds(&mut peers);
            let before = ALLOCATIONS.with(Cell::get);
            rounds(&mut peers);
            let allocations = ALLOCATIONS.with(Cell::get) - before;
            assert_eq!(allocations, 0, "{contract}, {subscribers} subscribers");
            let expected: Vec<(u32, f64)> = handles.iter().map(|one| (*one, 99.0)).collect();
            for peer in &peers {
                assert_eq!(peer.seen, expected, "{contract}, {subscribers} subscribers");
            }
        }
    }
}
