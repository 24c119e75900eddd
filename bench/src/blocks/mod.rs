//! W11 and W12: blocks of doubles from one variable to one subscriber of `all` in another process.
//!
//! W11: a time-critical thread writes into a FIFO, which is sent to the network every millisecond:
//! the FIFO of a network variable, or a plain FIFO with a loop that writes to a socket. W12:
//! waveforms are written as fast as possible.

pub mod taking;

use std::io::Write as _;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use trunkline::Engine;
use trunkline::types::{
    ArrayType, DataType, ElementType, Elements, Fifo, LibraryDefinition, Properties, Timestamp,
    Value, VariableDefinition, Waveform,
};
use trunkline_engine::realtime::RtWrite;

use crate::Outcome;
use crate::cells::{RAW, TRUNKLINE};
use crate::hosting::{start, url};
use crate::raw::connect;
use crate::record::Row;
use crate::role::Role;
use crate::settings::Settings;
use crate::updates_to_one::figures::{Written, enter, taken_of};
use crate::updates_to_one::{Stream, Window};
use crate::usage::{others_cpu_ns, thread_cpu_ns};

/// W11: through a FIFO.
pub const FIFO: &str = "fifo_blocks";
/// W12: without a FIFO.
pub const WAVEFORM: &str = "waveforms";
/// Doubles per block through a FIFO (PB-02, PB-04).
pub const LENGTHS: [usize; 3] = [1, 128, 1024];
/// Samples per waveform (PB-07).
pub const SAMPLES: usize = 10_000;
/// Capacity of the FIFO in doubles, rounded to whole blocks, and its minimum in blocks (PB-05).
const FIFO_DOUBLES: usize = 1 << 17;
const FIFO_BLOCKS: usize = 100;
/// Maximum capacity in blocks: the smallest blocks of one millisecond.
const FIFO_BLOCKS_MAX: usize = 1 << 15;
/// Sleep of the plain loop when the FIFO is empty, as in the engine.
const POLL: Duration = Duration::from_millis(1);
/// Longest wait of a write for the subscriber.
const STALL: Duration = Duration::from_secs(20);
const VARIABLE: &str = "bench/block";

/// Settings of one cell.
#[derive(Clone, Copy, Debug)]
pub struct Blocks {
    /// Doubles per block.
    length: usize,
    through_fifo: bool,
    stream: Stream,
}

impl Blocks {
    pub fn read(settings: &Settings) -> Outcome<Self> {
        Ok(Self {
            length: settings.value("length")?,
            through_fifo: settings.value("fifo")?,
            stream: Stream::read(&settings.clone().with("vars", 1))?,
        })
    }

    fn settings(&self) -> Settings {
        let settings = self.stream.settings().with("length", self.length);
        settings.with("fifo", self.through_fifo)
    }

    fn capacity(&self) -> usize {
        (FIFO_DOUBLES / self.length).clamp(FIFO_BLOCKS, FIFO_BLOCKS_MAX)
    }
}

/// Fills block `number`: with its number and the following ones. The last block, which is not
/// counted, begins with a value that is not a number.
fn fill(block: &mut [f64], number: u64) {
    for (at, element) in block.iter_mut().enumerate() {
        *element = number as f64 + at as f64;
    }
}

/// Returns true if the content of a block matches its first element.
fn is_whole(block: &[f64], length: usize) -> bool {
    let first = block.first().copied().unwrap_or(f64::NAN);
    let is_right = |(at, element): (usize, &f64)| *element == first + at as f64;
    block.len() == length && block.iter().enumerate().all(is_right)
}

/// Measures one system: this process writes.
pub fn cell(scenario: &str, system: &str, settings: &Settings, placement: &str) -> Outcome<Row> {
    let blocks = Blocks::read(settings)?;
    let case = format!("length={}", blocks.length);
    let mut row = Row::new(scenario, system, case, placement);
    match (system, blocks.through_fifo) {
        (RAW, false) => {
            let mut far = Role::start("blocks-raw", &blocks.settings())?;
            let mut socket = connect(&far.expect("LISTENING")?)?;
            let mut bytes = vec![0; 8 * blocks.length];
            write_all(&blocks, far, &mut row, |block| {
                into_bytes(block, &mut bytes);
                Ok(socket.write_all(&bytes)?)
            })?;
        }
        (RAW, true) => raw_through_fifo(&blocks, &mut row)?,
        (TRUNKLINE, false) => {
            let engine = start(&definition(&blocks))?;
            let far = subscriber(&blocks, &engine)?;
            let variable = engine.variable::<Value>(VARIABLE)?;
            write_all(&blocks, far, &mut row, |block| {
                let mut waveform = Waveform::empty(ElementType::F64);
                waveform.t0 = wall();
                waveform.dt = 1e-4;
                waveform.samples = Elements::F64(block.to_vec());
                variable.write(Value::Waveform(Arc::new(waveform)))?;
                Ok(())
            })?;
        }
        (TRUNKLINE, true) => trunkline_through_fifo(&blocks, &mut row)?,
        _ => return Err(format!("there is no system {system}").into()),
    }
    let bytes = 8.0 * blocks.length as f64;
    if let Some(rate) = row.figures.get("updates_per_s").copied() {
        row.figure("mb_per_s", rate * bytes / 1e6);
    }
    Ok(row)
}

/// The loop of all systems: writes blocks as fast as `write` accepts them.
fn write_all(
    blocks: &Blocks,
    mut far: Role,
    row: &mut Row,
    mut write: impl FnMut(&[f64]) -> Outcome<()>,
) -> Outcome<()> {
    let mut block = vec![0.0; blocks.length];
    let mut window = Window::open(blocks.stream.warm_up);
    let look_every = (1024 / blocks.length).max(1) as u64;
    let (mut count, mut others, mut in_window) = (0_u64, 0, false);
    loop {
        count += 1;
        fill(&mut block, count);
        write(&block)?;
        if !count.is_multiple_of(look_every) {
            continue;
        }
        let now = window.poll(count, || {
            in_window = true;
            others = others_cpu_ns();
            thread_cpu_ns()
        });
        if in_window && now >= window.end(blocks.stream.measured) {
            break;
        }
    }
    let by_writer = window.close(count, thread_cpu_ns());
    let others_cpu_ns = others_cpu_ns().saturating_sub(others);
    let last = Instant::now();
    write(&vec![f64::NAN; blocks.length])?;
    let taken = taken_of(&mut far)?;
    let written = Written {
        subscribers: 1,
        count,
        by_writer: by_writer.ok_or("the measured time never began")?,
        others_cpu_ns,
        backlog: last.elapsed(),
    };
    enter(row, &written, &taken)
}

/// Returns the values as little-endian bytes, eight each.
fn into_bytes(doubles: &[f64], bytes: &mut [u8]) {
    for (bytes, double) in bytes.chunks_exact_mut(8).zip(doubles) {
        bytes.copy_from_slice(&double.to_le_bytes());
    }
}

/// A plain FIFO, and a thread that sends its content to a socket in as few calls as possible.
fn raw_through_fifo(blocks: &Blocks, row: &mut Row) -> Outcome<()> {
    let mut far = Role::start("blocks-raw", &blocks.settings())?;
    let mut socket = connect(&far.expect("LISTENING")?)?;
    let (mut producer, mut consumer) =
        rtrb::RingBuffer::<f64>::new(blocks.capacity() * blocks.length);
    let sending = thread::spawn(move || {
        let mut bytes = vec![0; 8 * consumer.buffer().capacity()];
        loop {
            let is_last = consumer.is_abandoned();
            let Ok(chunk) = consumer.read_chunk(consumer.slots()) else {
                continue;
            };
            let (first, second) = chunk.as_slices();
            let (begin, end) = bytes.split_at_mut(8 * first.len());
            into_bytes(first, begin);
            into_bytes(second, end);
            let size = 8 * (first.len() + second.len());
            chunk.commit_all();
            if size > 0 {
                socket.write_all(&bytes[..size])?;
            } else if is_last {
                return Ok::<(), std::io::Error>(());
            } else {
                thread::sleep(POLL);
            }
        }
    });
    write_all(blocks, far, row, |block| {
        loop {
            if let Ok(mut chunk) = producer.write_chunk(block.len()) {
                let (first, second) = chunk.as_mut_slices();
                let (begin, end) = block.split_at(first.len());
                first.copy_from_slice(begin);
                second.copy_from_slice(end);
                chunk.commit_all();
                return Ok(());
            }
            // Both threads share a CPU.
            thread::sleep(POLL / 10);
        }
    })?;
    drop(producer);
    Ok(sending.join().map_err(|_| "the sending thread failed")??)
}

/// One variable: a waveform, or a double or an array of doubles with a FIFO.
fn definition(blocks: &Blocks) -> LibraryDefinition {
    let length = blocks.length as u32;
    let data_type = match (blocks.through_fifo, length) {
        (false, _) => DataType::Waveform(ElementType::F64),
        (true, 1) => DataType::F64,
        (true, _) => DataType::Array(Arc::new(ArrayType {
            element: ElementType::F64,
            shape: vec![Some(length)],
        })),
    };
    let mut properties = Properties::new(data_type);
    properties.stall = STALL;
    if blocks.through_fifo {
        let capacity = blocks.capacity() as u32;
        properties.fifo = Fifo::Multi { capacity, length };
    }
    LibraryDefinition {
        name: "bench".to_owned(),
        description: String::new(),
        variables: vec![VariableDefinition {
            path: "block".to_owned(),
            properties: Arc::new(properties),
        }],
    }
}

fn subscriber(blocks: &Blocks, engine: &Engine) -> Outcome<Role> {
    let address = engine.local_addrs().first().copied();
    let address = address.ok_or("the engine listens nowhere")?;
    let mut far = Role::start(
        "blocks-trunkline",
        &blocks.settings().with("url", url(address)),
    )?;
    far.expect("SUBSCRIBED")?;
    Ok(far)
}

/// A time-critical thread that does not overflow its FIFO: elements that have left it are counted.
fn trunkline_through_fifo(blocks: &Blocks, row: &mut Row) -> Outcome<()> {
    let engine = start(&definition(blocks))?;
    let far = subscriber(blocks, &engine)?;
    let mut writer = engine.rt_writer(VARIABLE)?;
    let variable = engine.variable::<Value>(VARIABLE)?;
    let (capacity, mut written, mut left) = (blocks.capacity() as u64, 0, 0);
    let mut overflows = 0_u64;
    write_all(blocks, far, row, |block| {
        while written - left >= capacity {
            left = variable.read()?.position.sequence;
            if written - left >= capacity {
                thread::sleep(POLL / 10);
            }
        }
        written += 1;
        overflows += u64::from(writer.write_slice(block, wall()) != RtWrite::Written);
        Ok(())
    })?;
    row.figure("fifo_blocks", capacity as f64);
    row.require(overflows == 0, || {
        format!("the FIFO overflowed {overflows} times")
    });
    Ok(())
}

fn wall() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Timestamp::UNIX_EPOCH.saturating_add_nanos(since.unwrap_or_default().as_nanos() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_with_wrong_content_is_detected() {
        let mut block = [0.0; 5];
        fill(&mut block, 7);
        assert!(is_whole(&block, 5));
        block[3] = 0.0;
        assert!(!is_whole(&block, 5));
        assert!(!is_whole(&block[..2], 5));
    }
}
