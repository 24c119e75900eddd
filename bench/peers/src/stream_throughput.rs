//! W3: f64 elements, one message per call; and CPU load at a rate (NS-88). If a system would drop
//! or queue without limit, acknowledgements keep the writer within a window.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use trunkline_bench::Outcome;
use trunkline_bench::record::Row;
use trunkline_bench::role::{Role, say};
use trunkline_bench::settings::Settings;
use trunkline_bench::streams::flow::{Counted, Counting, Flow, Numbers};
use trunkline_bench::streams::{THROUGHPUT, paced};
use trunkline_bench::usage::{Usage, process_cpu_ns};

use crate::brokers::{Broker, Place, free_port, placement};
use crate::bus::{Ends, Put, Side, Space, open};
use crate::updates_to_one::greet;
use crate::{iceoryx, zeromq};

/// Limits of waiting elements and messages.
const WAITING: usize = 8_000_000;
const MESSAGES: (usize, usize) = (16, 8192);
/// Calls of fewer elements use a reused buffer.
const SMALL: usize = 64;
/// Without an acknowledgement for this long, messages were lost.
const STUCK: Duration = Duration::from_secs(5);
/// The message sent before the first one until the reader answers, and the one after the last.
const HELLO: f64 = f64::NAN;
const END: &[u8] = &[];

/// Limit of messages in transit.
fn window(call: usize) -> usize {
    (WAITING / call).clamp(MESSAGES.0, MESSAGES.1)
}

fn open_stream(system: &str, side: &Side, call: usize) -> Outcome<Ends> {
    match system {
        "zeromq" => zeromq::open_pipes(side, window(call)),
        _ => open(system, side),
    }
}

/// The writer's end.
struct Feed {
    put: Box<dyn Put>,
    call: usize,
    small: Vec<u8>,
    numbers: Numbers,
    /// Messages put, and messages acknowledged by the reader.
    messages: u64,
    acknowledged: Option<Arc<AtomicU64>>,
}

impl Feed {
    fn open(system: &str, side: &Side, call: usize) -> Outcome<Self> {
        let Ends {
            put,
            take,
            windowed,
        } = open_stream(system, side, call)?;
        let acknowledged = windowed.then(|| Arc::new(AtomicU64::new(0)));
        if let Some(acknowledged) = acknowledged.clone() {
            thread::spawn(move || {
                let heard = take.run(&mut |_, count| {
                    let Ok(count) = count.try_into() else {
                        return false;
                    };
                    acknowledged.fetch_max(u64::from_le_bytes(count), Ordering::AcqRel);
                    true
                });
                heard.map_err(|error| eprintln!("{error}"))
            });
        }
        Ok(Self {
            put,
            call,
            small: vec![0; 8 * call.min(SMALL)],
            numbers: Numbers::default(),
            messages: 0,
            acknowledged,
        })
    }

    /// One call.
    fn write(&mut self) -> Outcome<()> {
        if self.call <= SMALL {
            self.numbers.fill_bytes(&mut self.small);
            self.put.put(0, &self.small)?;
        } else {
            let mut bytes = vec![0; 8 * self.call];
            self.numbers.fill_bytes(&mut bytes);
            self.put.put_owned(0, bytes)?;
        }
        self.messages += 1;
        self.hold_back()
    }

    /// Waits until the reader is within the window.
    fn hold_back(&mut self) -> Outcome<()> {
        let Some(acknowledged) = &self.acknowledged else {
            return Ok(());
        };
        let ahead = window(self.call) as u64;
        let is_far = || self.messages >= acknowledged.load(Ordering::Acquire) + ahead;
        if !is_far() {
            return Ok(());
        }
        self.put.flush()?;
        let deadline = Instant::now() + STUCK;
        while is_far() {
            thread::sleep(Duration::from_micros(20));
            if Instant::now() > deadline {
                return Err("messages were put that did not come".into());
            }
        }
        Ok(())
    }
}

/// The far end of all systems except iceoryx2. With `drains` it takes until the last message,
/// otherwise for the time that the flow has set.
pub fn take_all(settings: &Settings) -> Outcome<()> {
    let (system, port): (String, u16) = (settings.value("system")?, settings.value("port")?);
    let flow = Flow::read(settings)?;
    let drains: bool = settings.value_or("drains", false)?;
    let side = Side {
        put: Space::new("ack", 1),
        take: Space::new("dat", 1),
        listen: false,
        port,
    };
    let Ends {
        mut put,
        take,
        windowed,
    } = open_stream(&system, &side, flow.call)?;
    let mut counting = Counting::new(flow, process_cpu_ns);
    let (mut messages, mut is_heard, mut failed) = (0_u64, false, None);
    let look_every = Flow::calls_per_clock_read(flow.call) as u64;
    let tell_every = (window(flow.call) / 4) as u64;
    let start = Instant::now();
    take.run(&mut |_, bytes| {
        if bytes.len() == 8 && bytes == HELLO.to_le_bytes() {
            if !is_heard {
                is_heard = true;
                say("SUBSCRIBED");
            }
            return true;
        }
        if bytes.is_empty() {
            let numbers = counting.numbers;
            let counted = Counted {
                elements: numbers.next as f64,
                seconds: start.elapsed().as_secs_f64(),
                cpu_ns: process_cpu_ns() as f64,
                wrong: numbers.wrong as f64,
            };
            counted.report();
            return false;
        }
        if !drains
            && messages.is_multiple_of(look_every)
            && let Some(counted) = counting.poll()
        {
            counted.report();
            return false;
        }
        counting.numbers.check_bytes(bytes);
        messages += 1;
        if windowed && messages.is_multiple_of(tell_every) {
            let said = put.put(0, &messages.to_le_bytes());
            let said = said.and_then(|()| put.flush());
            failed = said.err().map(|error| error.to_string());
        }
        failed.is_none()
    })?;
    // Dropping it would disturb the other end.
    std::mem::forget(put);
    failed.map_or(Ok(()), |error| Err(error.into()))
}

/// The far end of iceoryx2.
pub fn take_memory(settings: &Settings) -> Outcome<()> {
    let name: String = settings.value("name")?;
    iceoryx::read(&name, Flow::read(settings)?)?.report();
    Ok(())
}

/// Both ends of a system, and the server between them.
struct Ready {
    feed: Feed,
    far: Role,
    broker: Option<Broker>,
    place: String,
}

fn ready(system: &str, settings: &Settings, place: &str) -> Outcome<Ready> {
    let broker = Broker::start(system, Place::Between)?;
    let port = broker
        .as_ref()
        .map_or_else(free_port, |broker| Ok(broker.port()))?;
    let place = placement(place, broker.as_ref(), Place::Between);
    let side = Side {
        put: Space::new("dat", 1),
        take: Space::new("ack", 1),
        listen: true,
        port,
    };
    let mut feed = Feed::open(system, &side, settings.value("call")?)?;
    let settings = settings.clone().with("system", system).with("port", port);
    let mut far = Role::start("stream_throughput-take", &settings)?;
    greet(feed.put.as_mut(), 0, HELLO, &mut far)?;
    Ok(Ready {
        feed,
        far,
        broker,
        place,
    })
}

pub fn measure(system: &str, settings: &Settings, place: &str) -> Outcome<Vec<Row>> {
    let flow = Flow::read(settings)?;
    let written = Arc::new(AtomicU64::new(0));
    let progress = Arc::clone(&written);
    let case = format!("call={}", flow.call);
    let mut row = Row::new(THROUGHPUT, system, case, place);
    row.waiting = "mixed".to_owned();
    // A writer that waits for an ended reader stays blocked in its thread.
    if system == "iceoryx2" {
        row.waiting = "spinning".to_owned();
        let name = format!("trunkline-peer-{}", std::process::id());
        let mut far = Role::start(
            "stream_throughput-take-memory",
            &flow.settings().with("name", &name),
        )?;
        let flags = Arc::new((AtomicBool::new(false), AtomicBool::new(false)));
        let writers = Arc::clone(&flags);
        let writer = thread::spawn(move || {
            let (is_heard, is_over) = &*writers;
            let wrote = iceoryx::write(&name, flow.call, is_heard, |next| {
                progress.store(next, Ordering::Relaxed);
                !is_over.load(Ordering::Relaxed)
            });
            wrote.map_err(|error| eprintln!("{error}"))
        });
        let (is_heard, is_over) = &*flags;
        far.expect("SUBSCRIBED")?;
        let cpu = process_cpu_ns();
        is_heard.store(true, Ordering::Release);
        let counted = Counted::of(&mut far)?;
        let cpu = process_cpu_ns() - cpu;
        // Lets it free its shared memory, unless it waits for the reader.
        is_over.store(true, Ordering::Relaxed);
        let deadline = Instant::now() + Duration::from_secs(1);
        while !writer.is_finished() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(2));
        }
        counted.enter(
            cpu as f64 / written.load(Ordering::Relaxed) as f64,
            &mut row,
        );
        return Ok(vec![row]);
    }
    let Ready {
        mut feed,
        mut far,
        broker,
        place,
    } = ready(system, settings, place)?;
    row.placement = place;
    let server = || -> f64 {
        let usage = broker.as_ref().and_then(|one| Usage::of(one.pid()).ok());
        usage.map_or(0.0, |usage| usage.cpu_ns as f64)
    };
    let (cpu, served) = (process_cpu_ns(), server());
    thread::spawn(move || {
        loop {
            if let Err(error) = feed.write() {
                eprintln!("{error}");
                // Not dropped: more messages may be in transit than the reader waits for.
                std::mem::forget(feed);
                return;
            }
            progress.store(feed.numbers.next, Ordering::Relaxed);
        }
    });
    let counted = Counted::of(&mut far)?;
    let (cpu, served) = (process_cpu_ns() - cpu, server() - served);
    let elements = written.load(Ordering::Relaxed) as f64;
    let writer_ns = cpu as f64 / elements;
    counted.enter(writer_ns, &mut row);
    if broker.is_some() {
        let server_ns = served / elements;
        row.figure("server_ns_per_element", server_ns);
        let all = row.figures["cpu_s_per_gb"] + server_ns / 8.0;
        row.figure("cpu_s_per_gb", all);
    }
    Ok(vec![row])
}

/// NS-88.
pub fn at_rates(system: &str, settings: &Settings, place: &str) -> Outcome<Vec<Row>> {
    let settings = settings.clone().with("warm_ms", 0).with("drains", true);
    let Ready {
        mut feed,
        mut far,
        place,
        ..
    } = ready(system, &settings, place)?;
    let mut rows = paced::raise(system, &settings, &place, far.pid(), || feed.write())?;
    feed.put.put(0, END)?;
    feed.put.flush()?;
    let counted = Counted::of(&mut far)?;
    let lost = feed.numbers.next as f64 - counted.elements;
    for row in &mut rows {
        row.require(counted.wrong == 0.0 && lost == 0.0, || {
            format!("{} elements were wrong, {lost} lost", counted.wrong)
        });
    }
    Ok(rows)
}
