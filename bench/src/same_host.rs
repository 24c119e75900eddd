//! V9: the time from a put to its notification between two processes of one machine. The limits are
//! a value that two CPUs pass to each other through memory, and one passed through a Unix socket.

use std::io::{Read, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use trunkline::types::{Contract, DataType, Value};
use trunkline::{Client, Event, OpenOptions, SubscribeOptions, Write};

use crate::Outcome;
use crate::cells::TRUNKLINE;
use crate::hosting::{library, name, start, url};
use crate::placement::{End, pin};
use crate::record::Row;
use crate::role::{Role, say, wait_for_end};
use crate::settings::Settings;
use crate::statistics::Summary;
use crate::trunkline_calls::{PATIENCE, opened};
use crate::usage::Usage;

/// Name of the scenario in results.
pub const SCENARIO: &str = "same_host";
/// The limit of systems that poll: a cache line that two CPUs poll.
pub const RAW_MEMORY: &str = "raw-memory";
/// The limit of systems that sleep: eight bytes through a Unix socket.
pub const RAW_UNIX: &str = "raw-unix";
/// Transports from a client to an engine on the same machine, as named in its URL.
pub const TRANSPORTS: [&str; 3] = ["tcp", "unix", "shm"];
/// The cell of reading without a round trip.
pub const LOCAL_READ: &str = "local-read";
/// Reads between two clock reads, and the number of rounds in which the two ways alternate.
const READS: u32 = 100_000;
const READ_ROUNDS: usize = 30;
/// Round trips before measuring starts.
const WARM_UP: u64 = 1000;

/// Measuring time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    measured: Duration,
    /// Round trips between two clock reads. A clock read takes about 20 ns itself.
    batch: u64,
}

impl Timing {
    pub fn read(settings: &Settings) -> Outcome<Self> {
        Ok(Self {
            measured: Duration::from_millis(settings.value("ms")?),
            batch: settings.value_or("batch", 10)?,
        })
    }
}

/// Sends numbers, receives them back, and enters the times.
pub fn measure(
    timing: &Timing,
    row: &mut Row,
    mut round_trip: impl FnMut(u64) -> Outcome<u64>,
) -> Outcome<()> {
    let mut wrong = 0;
    for number in 1..=WARM_UP {
        wrong += u64::from(round_trip(number)? != number);
    }
    let (mut number, mut times) = (WARM_UP, Vec::new());
    let start = Instant::now();
    while start.elapsed() < timing.measured {
        let before = Instant::now();
        for _ in 0..timing.batch {
            number += 1;
            wrong += u64::from(round_trip(number)? != number);
        }
        times.push(before.elapsed().as_secs_f64() * 1e6 / timing.batch as f64);
    }
    let times = Summary::of(&mut times).ok_or("nothing was measured")?;
    row.figure("round_trips", (number - WARM_UP) as f64);
    row.figure("round_trip_us", times.median);
    row.figure("mean_us", times.mean);
    row.figure("p99_us", times.p99);
    row.require(wrong == 0, || {
        format!("{wrong} came back as something else")
    });
    Ok(())
}

/// Measures with one system.
pub fn cell(system: &str, settings: &Settings, placement: &str) -> Outcome<Row> {
    if settings.value_or("what", String::new())? == LOCAL_READ {
        let case = format!("what={LOCAL_READ}");
        let mut row = Row::new(SCENARIO, system, case, placement);
        local_read(&mut row)?;
        return Ok(row);
    }
    let timing = Timing::read(settings)?;
    let transport: String = settings.value_or("transport", String::new())?;
    let case = match system {
        TRUNKLINE => format!("what=put-to-notification transport={transport}"),
        _ => "what=ping-pong".to_owned(),
    };
    let mut row = Row::new(SCENARIO, system, case, placement);
    match system {
        RAW_MEMORY => memory(&timing, &mut row)?,
        RAW_UNIX => unix(&timing, &mut row)?,
        TRUNKLINE => trunkline(&transport, &timing, &mut row)?,
        _ => return Err(format!("there is no system {system}").into()),
    }
    Ok(row)
}

fn memory(timing: &Timing, row: &mut Row) -> Outcome<()> {
    row.waiting = "spinning".to_owned();
    polled(|round_trip| measure(timing, row, round_trip))
}

/// The round trip of a number through memory; both ends poll. They are two threads: memory shared
/// by two processes costs the same.
pub(crate) fn polled<T>(
    measure: impl FnOnce(&mut dyn FnMut(u64) -> Outcome<u64>) -> Outcome<T>,
) -> Outcome<T> {
    #[derive(Default)]
    #[repr(align(128))]
    struct Line(AtomicU64);
    let lines = Arc::new((Line::default(), Line::default()));
    let far_lines = Arc::clone(&lines);
    let far = thread::spawn(move || {
        let pinned = pin(End::Far).map(drop).map_err(|error| error.to_string());
        let mut last = 0;
        while last != u64::MAX {
            let seen = far_lines.0.0.load(Ordering::Acquire);
            if seen == last {
                std::hint::spin_loop();
            } else {
                last = seen;
                far_lines.1.0.store(seen, Ordering::Release);
            }
        }
        pinned
    });
    let measured = measure(&mut |number| {
        // The cache lines start with zero.
        lines.0.0.store(number + 1, Ordering::Release);
        while lines.1.0.load(Ordering::Acquire) != number + 1 {
            std::hint::spin_loop();
        }
        Ok(number)
    });
    lines.0.0.store(u64::MAX, Ordering::Release);
    far.join().map_err(|_| "the far thread failed")??;
    measured
}

fn unix(timing: &Timing, row: &mut Row) -> Outcome<()> {
    let mut far = Role::start("same_host-unix", &Settings::default())?;
    let mut stream = UnixStream::connect(far.expect("LISTENING")?)?;
    let (near_before, far_before) = (Usage::of_self()?, Usage::of(far.pid())?);
    measure(timing, row, |number| {
        stream.write_all(&number.to_le_bytes())?;
        let mut back = [0; 8];
        stream.read_exact(&mut back)?;
        Ok(u64::from_le_bytes(back))
    })?;
    slept(row, near_before, far_before, far.pid())
}

/// The far end of the Unix socket.
pub fn echo() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("echo.sock");
    let listener = UnixListener::bind(&path)?;
    say(&format!("LISTENING {}", path.display()));
    let (mut stream, _) = listener.accept()?;
    let mut number = [0; 8];
    while stream.read_exact(&mut number).is_ok() {
        stream.write_all(&number)?;
    }
    // The process may end at any time from now on.
    drop(folder);
    Ok(())
}

/// The far end of Trunkline: an engine with one variable, and its URL for this transport.
pub fn serve(settings: &Settings) -> Outcome<()> {
    let transport: String = settings.value("transport")?;
    let engine = start(&library(1, DataType::F64, Duration::ZERO))?;
    let address = engine.local_addrs().first().copied();
    let socket = engine.local_sockets().first().map(ToString::to_string);
    let place = match transport.as_str() {
        "tcp" => url(address.ok_or("the engine listens nowhere")?),
        other => format!("tl+{other}://{}", socket.ok_or("the engine has no socket")?),
    };
    say(&format!("LISTENING {place}"));
    wait_for_end();
    engine.shutdown(Duration::ZERO);
    Ok(())
}

fn trunkline(transport: &str, timing: &Timing, row: &mut Row) -> Outcome<()> {
    let mut far = Role::start(
        "same_host-engine",
        &Settings::default().with("transport", transport),
    )?;
    let client = Client::connect(&far.expect("LISTENING")?)?;
    let names = [name(0)];
    let variable = opened(client.open(&names, OpenOptions::default(), PATIENCE)?)?[0];
    let options = SubscribeOptions::default();
    let subscription = client.subscribe(&names, Contract::Latest, options)?;
    let next = || -> Outcome<u64> {
        loop {
            match subscription.next(Some(PATIENCE)) {
                Some(Event::Reading { reading, .. }) => match reading.sample.value {
                    Value::F64(value) => return Ok(value as u64),
                    other => return Err(format!("a value of another type: {other:?}").into()),
                },
                Some(Event::Connected { .. }) => {}
                other => return Err(format!("instead of a reading: {other:?}").into()),
            }
        }
    };
    // The earlier value of the variable.
    next()?;
    let (near_before, far_before) = (Usage::of_self()?, Usage::of(far.pid())?);
    measure(timing, row, |number| {
        client.write_untracked([Write::new(variable, Value::F64(number as f64))], PATIENCE)?;
        next()
    })?;
    slept(row, near_before, far_before, far.pid())
}

/// Reads the last value of an engine in another process from shared memory, and that of an engine
/// in this process. One thread alternates between both. Nothing is written meanwhile.
fn local_read(row: &mut Row) -> Outcome<()> {
    "none".clone_into(&mut row.waiting);
    let mut far = Role::start(
        "same_host-engine",
        &Settings::default().with("transport", "shm"),
    )?;
    let client = Client::connect(&far.expect("LISTENING")?)?;
    let variable = opened(client.open(&[name(0)], OpenOptions::default(), PATIENCE)?)?[0];
    client.write([Write::new(variable, Value::F64(4.5))], PATIENCE)?;
    let near = client.local_reader(variable, PATIENCE)?;
    row.require(near.is_local(), || {
        "the engine shows no values in memory".to_owned()
    });
    let engine = start(&library(1, DataType::F64, Duration::ZERO))?;
    let own = engine.variable::<f64>(&name(0))?;
    own.write(4.5)?;
    let mut wrong = 0_u64;
    let (mut local, mut in_process) = (Vec::new(), Vec::new());
    for _ in 0..READ_ROUNDS {
        let before = Instant::now();
        for _ in 0..READS {
            let read = std::hint::black_box(near.last());
            wrong += u64::from(read.is_none_or(|read| read.sample.value != Value::F64(4.5)));
        }
        local.push(before.elapsed().as_secs_f64() * 1e9 / f64::from(READS));
        let before = Instant::now();
        for _ in 0..READS {
            let read = std::hint::black_box(own.read());
            wrong += u64::from(!read.is_ok_and(|read| read.value == 4.5));
        }
        in_process.push(before.elapsed().as_secs_f64() * 1e9 / f64::from(READS));
    }
    let middle = |times: &[f64]| crate::statistics::median(times).unwrap_or(f64::NAN);
    let (local, in_process) = (middle(&local), middle(&in_process));
    row.figure("local_ns", local);
    row.figure("in_process_ns", in_process);
    row.figure("local_ratio", local / in_process);
    row.require(wrong == 0, || format!("{wrong} reads had another value"));
    Ok(())
}

fn slept(row: &mut Row, near: Usage, far: Usage, far_pid: u32) -> Outcome<()> {
    let waits = row.figures["round_trips"] + WARM_UP as f64;
    row.slept("near", (Usage::of_self()? - near).voluntary, waits);
    row.slept("far", (Usage::of(far_pid)? - far).voluntary, waits);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_results_are_counted() {
        let timing = Timing {
            measured: Duration::ZERO,
            batch: 1,
        };
        let mut row = Row::new(SCENARIO, RAW_UNIX, String::new(), "cross");
        measure(&timing, &mut row, |number| Ok(number.min(WARM_UP - 1))).unwrap_err();
        let timing = Timing {
            measured: Duration::from_millis(2),
            ..timing
        };
        measure(&timing, &mut row, Ok).unwrap();
        assert!(row.invalid.is_empty());
        measure(&timing, &mut row, |_| Ok(0)).unwrap();
        assert!(row.invalid[0].contains("something else"));
    }
}
