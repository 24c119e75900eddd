#![no_main]
//! A whole session of an engine with arbitrary input after the peer's hello.

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use trunkline_engine::{Caller, Engine, EngineOptions, Wake};
use trunkline_proto::Endpoint;
use trunkline_proto::message::hello::Hello;
use trunkline_serve::{ServeOptions, Session};
use trunkline_types::{DataType, LibraryDefinition, Tick, Timestamp, VariableDefinition};

struct NoWake;

impl Wake for NoWake {
    fn wake(&self) {}
}

const WALL: Timestamp = Timestamp::from_nanos(1_795_000_000_000_000_000);

fuzz_target!(|data: &[u8]| {
    let engine = Engine::new(EngineOptions::new("fuzz", 1));
    let variables = vec![
        VariableDefinition::new("number", DataType::F64),
        VariableDefinition::new("text", DataType::String),
        VariableDefinition::new("flag", DataType::Bool),
    ];
    let library =
        LibraryDefinition { name: "l".into(), description: String::new(), variables };
    engine.libraries().deploy(&library, Tick::ZERO, WALL).expect("a plain library");
    let mut caller = Caller::local(1, 0);
    caller.remote = true;
    let options = Arc::new(ServeOptions::default());
    let mut session = Session::new(engine.clone(), options, caller, Box::new(NoWake));
    let mut now = Tick::from_nanos(1);
    session.handle_connected(now, WALL);
    let mut hello = Vec::new();
    Hello::default().encode(&mut hello);
    session.handle_input(now, WALL, &hello);
    let mut out = Vec::new();
    // The first byte determines how the rest is split.
    let (cut, data) = data.split_first().map_or((255, data), |(cut, data)| (*cut, data));
    for piece in data.chunks(usize::from(cut).max(1)) {
        session.handle_input(now, WALL, piece);
        now = now.saturating_add(std::time::Duration::from_millis(10));
        for _ in 0..8 {
            out.clear();
            if !session.poll_output(now, WALL, 4096, &mut out) {
                break;
            }
        }
        if session.poll_timeout().is_some_and(|due| due <= now) {
            session.handle_timeout(now, WALL);
        }
    }
    for handle in 1..=3 {
        assert!(engine.variable(handle).expect("deployed").ledger().is_balanced());
    }
});
