//! What the client's end costs per item, without a network and without an engine: frames that were
//! encoded before go in, readings and outcomes come out.
//!
//! ```text
//! take_speed [PATH ITEMS PASSES]      all|all-events|latest|put|get|subscribe
//! ```
//!
//! Without arguments it prints ns per item and stage. With them it goes one path so often, for a
//! profiler: `valgrind --tool=callgrind` counts the functions `stage_in`, `stage_take`,
//! `stage_write`, `stage_out`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program for measuring stops at the first surprise"
)]
#![allow(dead_code, unused_imports, reason = "the rig is for tests")]

#[path = "../tests/client/rig/mod.rs"]
mod rig;

use std::time::{Duration, Instant};

use rig::{Rig, WALL};
use trunkline_client::{
    Answer, Batch, Event, RequestId, SubscribeOptions, SubscriptionId, VariableRef, Write,
    WriteBatchId,
};
use trunkline_proto::message::outcome::WriteAnswer;
use trunkline_proto::message::read::ReadingsBuilder;
use trunkline_proto::message::record::UpdateRecord;
use trunkline_proto::message::updates::UpdatesBuilder;
use trunkline_proto::message::write_answers::WriteAnswersBuilder;
use trunkline_proto::{Endpoint, Frame, FrameBuffer, FrameLimits};
use trunkline_types::{Contract, Quality, Timestamp, Value};

/// Items of a pass of the printed table.
const ITEMS: usize = 1000;
const PASSES: u32 = 2000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [path, items, passes] = &arguments[..] {
        let (items, passes) = (items.parse().unwrap(), passes.parse().unwrap());
        repeat(path, items, passes);
        return;
    }
    for (path, items, passes) in [
        ("all", 1, PASSES),
        ("all", ITEMS, PASSES),
        ("all-events", ITEMS, PASSES),
        ("latest", 500, PASSES),
        ("put", ITEMS, PASSES),
        ("get", ITEMS, PASSES),
        ("subscribe", 100_000, 3),
    ] {
        let [write, out, input, take] = repeat(path, items, passes);
        println!(
            "{path:10} {items:6} items: write {write:6.1} out {out:6.1} in {input:6.1} take {take:6.1} ns"
        );
    }
}

/// Goes a path so often; ns per item of its stages: write, out, in, take.
fn repeat(path: &str, items: usize, passes: u32) -> [f64; 4] {
    let mut spent = [Duration::ZERO; 4];
    // Under `all` a pass has a thousand updates at least, as it has in a busy stream.
    let records = items.max(ITEMS);
    let per_pass = match path {
        "all" | "all-events" | "latest" => records,
        _ => items,
    };
    if path == "subscribe" {
        for _ in 0..passes {
            subscribe(items, &mut spent);
        }
    } else {
        let mut sut = Sut::new(items);
        let contract = match path {
            "all" | "all-events" => Some(Contract::ALL),
            "latest" => Some(Contract::Latest),
            _ => None,
        };
        if let Some(contract) = contract {
            sut.follow(
                contract,
                records,
                passes,
                path.ends_with("events"),
                &mut spent,
            );
        } else {
            for _ in 0..passes {
                match path {
                    "put" => sut.put(&mut spent),
                    "get" => sut.get(&mut spent),
                    other => panic!("there is no path {other}"),
                }
            }
        }
    }
    spent.map(|spent| spent.as_nanos() as f64 / f64::from(passes) / per_pass as f64)
}

fn timed<T>(spent: &mut Duration, run: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = run();
    *spent += start.elapsed();
    result
}

fn names(items: usize) -> Vec<String> {
    (0..items)
        .map(|item| format!("bench/value-{item:06}"))
        .collect()
}

struct Sut {
    rig: Rig,
    names: Vec<String>,
    variables: Vec<VariableRef>,
    sequence: u64,
    writes: u64,
}

impl Sut {
    fn new(items: usize) -> Self {
        let names = names(items);
        let mut rig = Rig::new();
        for name in &names {
            rig.engine.add(name, Value::F64(0.0));
        }
        rig.engine.index();
        rig.connect();
        let known: Vec<&str> = names.iter().map(String::as_str).collect();
        let variables = rig
            .open(&known)
            .iter()
            .map(|opened| opened.variable)
            .collect();
        Self {
            rig,
            names,
            variables,
            sequence: 1,
            writes: 0,
        }
    }

    /// Updates of all items, round and round.
    fn follow(
        &mut self,
        contract: Contract,
        records: usize,
        passes: u32,
        one_by_one: bool,
        spent: &mut [Duration; 4],
    ) {
        let options = SubscribeOptions::default();
        let id = self
            .rig
            .client
            .subscribe(&self.names, contract, options)
            .unwrap();
        self.rig.exchange();
        let wire = self.rig.wire(id);
        while self.rig.client.next_event(self.rig.now, id).is_some() {}
        let items = self.names.len();
        let (mut frame, mut events, mut value) = (Vec::new(), Vec::new(), 0_f64);
        let mut batch = Batch::new();
        let mut item = 0;
        for _ in 0..passes {
            frame.clear();
            let mut updates = UpdatesBuilder::begin(&mut frame, wire);
            for _ in 0..records {
                if item == 0 {
                    self.sequence += 1;
                }
                value += 1.0;
                let at = Timestamp::from_nanos(WALL.as_nanos() + self.sequence as i64 * 100);
                updates.push(&UpdateRecord {
                    handle: 100 + item as u32,
                    sequence: self.sequence,
                    engine_timestamp: at,
                    source_timestamp: at,
                    quality: Quality::GOOD,
                    own: false,
                    value: Some(&value.to_le_bytes()),
                });
                item = (item + 1) % items;
            }
            updates.finish();
            self.rig.engine.records_sent += records as u64;
            timed(&mut spent[2], || stage_in(&mut self.rig, &frame));
            let rig = &mut self.rig;
            let taken = timed(&mut spent[3], || match one_by_one {
                true => stage_events(rig, id, &mut events),
                false => stage_take(rig, id, &mut batch),
            });
            assert_eq!(
                taken,
                if contract == Contract::Latest {
                    items
                } else {
                    records
                }
            );
            let out = timed(&mut spent[1], || stage_out(&mut self.rig));
            self.rig.engine.take(self.rig.now, &out);
            self.rig.engine.said.clear();
        }
    }

    fn put(&mut self, spent: &mut [Duration; 4]) {
        self.sequence += 1;
        let value = Value::F64(self.sequence as f64);
        let writes: Vec<Write> = self
            .variables
            .iter()
            .map(|variable| Write::new(*variable, value.clone()))
            .collect();
        let batch = timed(&mut spent[0], || stage_write(&mut self.rig, writes));
        let out = timed(&mut spent[1], || stage_out(&mut self.rig));
        std::hint::black_box(out);
        let mut frame = Vec::new();
        let mut answers = WriteAnswersBuilder::begin(&mut frame, self.writes);
        for _ in &self.variables {
            answers.push(&WriteAnswer::Applied(self.sequence));
        }
        answers.finish();
        self.writes += self.variables.len() as u64;
        timed(&mut spent[2], || stage_in(&mut self.rig, &frame));
        let taken = timed(&mut spent[3], || stage_outcomes(&mut self.rig, batch));
        assert_eq!(taken, self.variables.len());
    }

    fn get(&mut self, spent: &mut [Duration; 4]) {
        self.sequence += 1;
        let request = timed(&mut spent[0], || stage_ask(&mut self.rig, &self.variables));
        let out = timed(&mut spent[1], || stage_out(&mut self.rig));
        let number = first_request(&out, &mut self.rig);
        let mut frame = Vec::new();
        let mut answer = ReadingsBuilder::begin(&mut frame, number, 0);
        for item in 0..self.variables.len() as u32 {
            answer.push(&UpdateRecord {
                handle: 100 + item,
                sequence: self.sequence,
                engine_timestamp: WALL,
                source_timestamp: WALL,
                quality: Quality::GOOD,
                own: false,
                value: Some(&(self.sequence as f64).to_le_bytes()),
            });
        }
        answer.finish(false);
        timed(&mut spent[2], || stage_in(&mut self.rig, &frame));
        let taken = timed(&mut spent[3], || stage_answer(&mut self.rig, request));
        assert_eq!(taken, self.variables.len());
    }
}

/// Opens and subscribes so many, and takes the first readings.
fn subscribe(items: usize, spent: &mut [Duration; 4]) {
    let names = names(items);
    let mut rig = Rig::new();
    for name in &names {
        rig.engine.add(name, Value::F64(0.0));
    }
    rig.engine.index();
    rig.connect();
    let id = timed(&mut spent[0], || stage_subscribe(&mut rig, &names));
    loop {
        let out = timed(&mut spent[1], || stage_out(&mut rig));
        if out.is_empty() {
            break;
        }
        rig.engine.take(rig.now, &out);
        rig.engine.said.clear();
        let answers = std::mem::take(&mut rig.engine.out);
        timed(&mut spent[2], || stage_in(&mut rig, &answers));
    }
    let taken = timed(&mut spent[3], || {
        stage_take(&mut rig, id, &mut Batch::new())
    });
    assert_eq!(taken, items);
}

/// The request number of the first frame in `bytes`.
fn first_request(bytes: &[u8], rig: &mut Rig) -> u32 {
    let mut frames = FrameBuffer::new(FrameLimits::default());
    let mut input = bytes;
    let frame = frames.next_frame(rig.now, &mut input).unwrap();
    frame.map_or(0, |frame: Frame<'_>| frame.request())
}

#[inline(never)]
fn stage_in(rig: &mut Rig, bytes: &[u8]) {
    rig.client.handle_input(rig.now, WALL, bytes);
}

#[inline(never)]
fn stage_out(rig: &mut Rig) -> Vec<u8> {
    let mut out = Vec::new();
    while rig.client.poll_output(rig.now, WALL, 64 << 10, &mut out) {}
    out
}

/// One by one, as a simple program does.
#[inline(never)]
fn stage_events(rig: &mut Rig, id: SubscriptionId, events: &mut Vec<Event>) -> usize {
    let mut readings = 0;
    while rig.client.take_events(rig.now, id, 1000, events) > 0 {
        for event in &*events {
            if let Event::Reading { reading, .. } = event
                && matches!(reading.sample.value, Value::F64(_))
            {
                readings += 1;
            }
        }
        events.clear();
    }
    readings
}

/// A thousand together.
#[inline(never)]
fn stage_take(rig: &mut Rig, id: SubscriptionId, batch: &mut Batch) -> usize {
    let mut readings = 0;
    while rig.client.take_batch(rig.now, id, 1000, batch) {
        for reading in batch.readings() {
            readings += usize::from(reading.get::<f64>().is_some());
        }
    }
    readings
}

#[inline(never)]
fn stage_subscribe(rig: &mut Rig, names: &[String]) -> SubscriptionId {
    let options = SubscribeOptions::default();
    rig.client
        .subscribe(names, Contract::Latest, options)
        .unwrap()
}

#[inline(never)]
fn stage_write(rig: &mut Rig, writes: Vec<Write>) -> WriteBatchId {
    rig.client.write(writes).unwrap()
}

#[inline(never)]
fn stage_outcomes(rig: &mut Rig, batch: WriteBatchId) -> usize {
    rig.client.take_outcomes(batch).unwrap().len()
}

#[inline(never)]
fn stage_ask(rig: &mut Rig, variables: &[VariableRef]) -> RequestId {
    rig.client.read(variables).unwrap()
}

#[inline(never)]
fn stage_answer(rig: &mut Rig, request: RequestId) -> usize {
    match rig.client.take(request) {
        Some(Answer::Readings(readings)) => readings.len(),
        other => panic!("instead of readings: {other:?}"),
    }
}
