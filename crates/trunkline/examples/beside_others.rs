//! How long a small write takes beside clients that ask for much.
//!
//! ```text
//! cargo run --profile sim -p trunkline --example beside_others -- [variables] [seconds per case]
//! ```
//!
//! One engine over TCP, one client that writes a value each 2 ms and waits for its answer, and beside
//! it peers that send large requests one after the other and throw the answers away.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use trunkline::types::{DataType, LibraryDefinition, VariableDefinition};
use trunkline::{Client, Engine, EngineOptions};
use trunkline_proto::message::find::Find;
use trunkline_proto::message::handles::HandlesBuilder;
use trunkline_proto::message::hello::Hello;
use trunkline_proto::message::open::{OpenBuilder, OpenTerms};
use trunkline_proto::message::why::Why;
use trunkline_proto::{FrameHeader, FrameKind};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// What a peer asks for.
#[derive(Clone, Copy, Debug)]
enum Asks {
    Read,
    Open,
    Find,
    Why,
}

/// Items of a request; a frame holds 10,000 of them.
const ITEMS: usize = 20_000;

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
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
            .map(|n| VariableDefinition::new(&format!("v{n}"), DataType::F64))
            .collect(),
    })?;
    let address = *engine.local_addrs().first().ok_or("no port")?;
    println!("case            p50 ms   p99 ms   max ms   answers/s");
    measure(address, variables, "alone", &[], seconds)?;
    for count in [1, 20] {
        for asks in [Asks::Read, Asks::Open, Asks::Find, Asks::Why] {
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
    let timeout = Duration::from_secs(30);
    let client = Client::connect(&format!("tl://{address}"))?;
    let x = client.variable::<f64>("rig/v0", timeout)?;
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
    let mut value = 0.0;
    while began.elapsed() < Duration::from_secs(seconds) {
        value += 1.0;
        let sent = Instant::now();
        x.put(value, timeout)?;
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

/// A peer that has one request on its way, for as long as it may.
fn ask(
    address: SocketAddr,
    variables: usize,
    asks: Asks,
    stop: &AtomicBool,
    answers: &AtomicU64,
) -> Outcome<()> {
    let mut stream = TcpStream::connect(address)?;
    let mut bytes = Vec::new();
    Hello::default().encode(&mut bytes);
    stream.write_all(&bytes)?;
    let mut request = Vec::new();
    match asks {
        Asks::Read => {
            let mut frame = HandlesBuilder::read(&mut request, 7);
            (0..ITEMS).for_each(|n| frame.push((n % variables) as u32 + 1));
            frame.finish(false);
        }
        Asks::Open => {
            let mut frame = OpenBuilder::begin(&mut request, 7, &OpenTerms::default());
            (0..ITEMS).for_each(|n| frame.push(&format!("rig/v{}", n % variables)));
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
    let mut buffer = vec![0; 256 << 10];
    let mut waiting = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        stream.write_all(&request)?;
        while !takes_answer(&mut waiting) {
            let count = stream.read(&mut buffer)?;
            if count == 0 {
                return Err("the engine has closed the connection".into());
            }
            waiting.extend_from_slice(buffer.get(..count).unwrap_or_default());
        }
        answers.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Takes whole frames away; true when the last one of the answer was among them.
fn takes_answer(waiting: &mut Vec<u8>) -> bool {
    let (mut at, mut is_done) = (0, false);
    while let Some(head) = waiting.get(at..).and_then(<[u8]>::first_chunk::<16>) {
        let header = FrameHeader::from_bytes(head);
        let end = at + 16 + header.length as usize;
        if end > waiting.len() {
            break;
        }
        let has_more = header.flags & 1 != 0;
        let is_answer = FrameKind::from_number(header.kind) != Some(FrameKind::Keepalive);
        is_done |= is_answer && header.request == 7 && !has_more;
        at = end;
    }
    waiting.drain(..at);
    is_done
}
