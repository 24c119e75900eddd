//! The time of a small write while other clients send large requests.
//!
//! One engine over TCP, one client that writes a value every 2 ms and waits for its answer, and
//! peers that send large requests one after the other and discard the answers.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use trunkline::types::{DataType, LibraryDefinition, Tick, VariableDefinition};
use trunkline::{Engine, EngineOptions};
use trunkline_proto::message::find::Find;
use trunkline_proto::message::handles::HandlesBuilder;
use trunkline_proto::message::hello::Hello;
use trunkline_proto::message::keepalive::Keepalive;
use trunkline_proto::message::open::{OpenBuilder, OpenTerms, Opened};
use trunkline_proto::message::why::Why;
use trunkline_proto::message::write::{WriteBuilder, WriteOptions};
use trunkline_proto::{Frame, FrameBuffer, FrameKind, FrameLimits};

use crate::Outcome;

/// The requests of a peer.
#[derive(Clone, Copy, Debug)]
enum Asks {
    Read,
    Open,
    Find,
    Why,
}

/// Items of a request; a frame holds 10,000 of them.
const ITEMS: usize = 20_000;

/// Measures each case and prints a line for it.
pub fn run(mut arguments: impl Iterator<Item = String>) -> Outcome<()> {
    let variables: usize = arguments.next().map_or(Ok(20_000), |text| text.parse())?;
    let seconds: u64 = arguments.next().map_or(Ok(3), |text| text.parse())?;
    let engine = Engine::start(EngineOptions {
        listen: vec!["127.0.0.1:0".parse()?],
        ..EngineOptions::default()
    })?;
    engine.deploy(&LibraryDefinition {
        name: "rig".into(),
        description: String::new(),
        variables: (0..variables)
            .map(|n| VariableDefinition::new(format!("v{n}"), DataType::F64))
            .collect(),
    })?;
    let address = *engine.local_addrs().first().ok_or("no port")?;
    println!("case            p50 ms   p99 ms   max ms   answers/s");
    measure(address, variables, "alone", &[], seconds)?;
    let counts = arguments.next().map_or(Ok(20), |text| text.parse())?;
    for count in [1, counts] {
        for asks in [Asks::Why, Asks::Read, Asks::Open, Asks::Find] {
            let name = format!("{count} {asks:?}");
            measure(address, variables, &name, &vec![asks; count], seconds)?;
        }
    }
    Ok(())
}

fn measure(
    address: SocketAddr,
    variables: usize,
    name: &str,
    others: &[Asks],
    seconds: u64,
) -> Outcome<()> {
    let mut client = Peer::connect(address)?;
    let handle = client.open("rig/v0")?;
    let stop = Arc::new(AtomicBool::new(false));
    let answers = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = others
        .iter()
        .map(|asks| {
            let (stop, answers, asks) = (stop.clone(), answers.clone(), *asks);
            thread::spawn(move || {
                if let Err(error) = ask(address, variables, asks, &stop, &answers) {
                    eprintln!("{asks:?}: {error}");
                }
            })
        })
        .collect();
    thread::sleep(Duration::from_millis(300));
    answers.store(0, Ordering::Relaxed);
    let (began, mut times) = (Instant::now(), Vec::new());
    let mut write = 0;
    while began.elapsed() < Duration::from_secs(seconds) {
        let sent = Instant::now();
        client.write(write, handle)?;
        write += 1;
        times.push(sent.elapsed());
        thread::sleep(Duration::from_millis(2));
    }
    let rate = answers.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().map_err(|_| "a peer panicked")?;
    }
    times.sort_unstable();
    let at = |share: f64| {
        let index = (times.len() as f64 * share) as usize;
        let time = times.get(index.min(times.len().saturating_sub(1)));
        time.map_or(0.0, |time| time.as_secs_f64() * 1e3)
    };
    println!(
        "{name:<14} {:>8.2} {:>8.2} {:>8.2} {rate:>11.1}",
        at(0.5),
        at(0.99),
        at(1.0)
    );
    Ok(())
}

/// A peer that always has one request in progress, until it is stopped.
fn ask(
    address: SocketAddr,
    variables: usize,
    asks: Asks,
    stop: &AtomicBool,
    answers: &AtomicU64,
) -> Outcome<()> {
    let mut peer = Peer::connect(address)?;
    let mut request = Vec::new();
    match asks {
        Asks::Read => {
            let mut frame = HandlesBuilder::read(&mut request, 7);
            (0..ITEMS).for_each(|n| frame.push(&((n % variables) as u32 + 1)));
            frame.finish(false);
        }
        Asks::Open => {
            let mut frame = OpenBuilder::begin(&mut request, 7, &OpenTerms::default());
            (0..ITEMS).for_each(|n| frame.push(&format!("rig/v{}", n % variables).as_bytes()));
            frame.finish(false);
        }
        Asks::Find => {
            Find {
                pattern: "rig/*99",
                cursor: 0,
                limit: 100_000,
            }
            .encode(7, &mut request);
        }
        Asks::Why => (0..200).for_each(|n| {
            let name = format!("rig/v{n}");
            Why { name: &name }.encode(if n == 199 { 7 } else { 8 }, &mut request);
        }),
    }
    while !stop.load(Ordering::Relaxed) {
        peer.stream.write_all(&request)?;
        peer.wait_for(|frame| frame.request() == 7 && !frame.has_more())?;
        answers.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// A client that only sends and waits.
struct Peer {
    stream: TcpStream,
    buffer: Vec<u8>,
    frames: FrameBuffer,
    sent_life: Instant,
}

impl Peer {
    fn connect(address: SocketAddr) -> Outcome<Self> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        let mut bytes = Vec::new();
        Hello::default().encode(&mut bytes);
        stream.write_all(&bytes)?;
        let mut peer = Self {
            stream,
            buffer: vec![0; 64 << 10],
            frames: FrameBuffer::new(FrameLimits::default()),
            sent_life: Instant::now(),
        };
        peer.wait_for(|frame| frame.kind() == Some(FrameKind::Welcome))?;
        Ok(peer)
    }

    fn open(&mut self, name: &str) -> Outcome<u32> {
        let mut bytes = Vec::new();
        let mut frame = OpenBuilder::begin(&mut bytes, 1, &OpenTerms::default());
        frame.push(&name.as_bytes());
        frame.finish(false);
        self.stream.write_all(&bytes)?;
        let mut handle = None;
        self.wait_for(|frame| {
            let mut opened = Opened::decode(frame).into_iter().flatten().flatten();
            handle = opened.next().and_then(Result::ok).map(|item| item.handle);
            handle.is_some()
        })?;
        handle.ok_or_else(|| "it is not there".into())
    }

    fn write(&mut self, number: u64, handle: u32) -> Outcome<()> {
        let mut bytes = Vec::new();
        let mut frame = WriteBuilder::begin(&mut bytes, number);
        let value = (number as f64).to_le_bytes();
        frame.push(handle, &WriteOptions::default(), &value);
        frame.finish();
        self.stream.write_all(&bytes)?;
        self.wait_for(|frame| frame.kind() == Some(FrameKind::WriteAnswers))
    }

    /// Reads until a frame matches.
    fn wait_for(&mut self, mut is_it: impl FnMut(&Frame<'_>) -> bool) -> Outcome<()> {
        loop {
            if self.sent_life.elapsed() > Duration::from_millis(500) {
                self.sent_life = Instant::now();
                let mut bytes = Vec::new();
                Keepalive::default().encode(&mut bytes);
                self.stream.write_all(&bytes)?;
            }
            let count = self.stream.read(&mut self.buffer)?;
            if count == 0 {
                return Err("the engine has closed the connection".into());
            }
            let mut input = self.buffer.get(..count).unwrap_or_default();
            let mut is_there = false;
            while let Some(frame) = self.frames.next_frame(Tick::ZERO, &mut input)? {
                is_there |= is_it(&frame);
            }
            if is_there {
                return Ok(());
            }
        }
    }
}
