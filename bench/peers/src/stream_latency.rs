//! W4: the round trip of a number. The time is taken in the callback of the system; iceoryx2 is
//! polled.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use trunkline_bench::Outcome;
use trunkline_bench::record::Row;
use trunkline_bench::role::{Role, say};
use trunkline_bench::settings::Settings;
use trunkline_bench::streams::LATENCY;
use trunkline_bench::streams::latency::{Pings, measure as ping};

use crate::brokers::{Broker, Place, free_port, placement};
use crate::bus::{Ends, Put, Side, Space, open};
use crate::{iceoryx, same_host, zeromq};

/// Limit of queued messages.
const QUEUE: usize = 1000;
/// Sent until the far end answers.
const HELLO: u64 = u64::MAX;
/// Longest time until the far end answers.
const CONNECT_MAX: Duration = Duration::from_secs(10);

fn open_both(system: &str, side: &Side) -> Outcome<Ends> {
    match system {
        "zeromq" => zeromq::open_pipes(side, QUEUE),
        _ => open(system, side),
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

pub fn echo(settings: &Settings) -> Outcome<()> {
    let system: String = settings.value("system")?;
    let side = Side {
        put: Space::new("back", 1),
        take: Space::new("there", 1),
        listen: false,
        port: settings.value("port")?,
    };
    let Ends { mut put, take, .. } = open_both(&system, &side)?;
    let mut failed = None;
    say("LISTENING");
    take.run(&mut |_, bytes| {
        let said = put.put(0, bytes).and_then(|()| put.flush());
        failed = said.err().map(|error| error.to_string());
        failed.is_none()
    })?;
    failed.map_or(Ok(()), |error| Err(error.into()))
}

pub fn measure(system: &str, settings: &Settings, place: &str) -> Outcome<Vec<Row>> {
    let count: u64 = settings.value("count")?;
    if system == "iceoryx2" {
        let mut row = Row::new(LATENCY, system, "waiting=spinning".to_owned(), place);
        row.waiting = "spinning".to_owned();
        let (_far, ends) = same_host::connect()?;
        let ends: iceoryx::Ends = ends;
        let row = ping(row, count, |number| {
            ends.send(number)?;
            ends.receive()
        })?;
        return Ok(vec![row]);
    }
    let broker = Broker::start(system, Place::Between)?;
    let port = broker
        .as_ref()
        .map_or_else(free_port, |broker| Ok(broker.port()))?;
    let place = placement(place, broker.as_ref(), Place::Between);
    let mut row = Row::new(LATENCY, system, "waiting=sleeping".to_owned(), &place);
    let side = Side {
        put: Space::new("there", 1),
        take: Space::new("back", 1),
        listen: true,
        port,
    };
    let Ends { put, take, .. } = open_both(system, &side)?;
    let settings = Settings::default()
        .with("system", system)
        .with("port", port);
    let mut far = Role::start("stream_latency-echo", &settings)?;
    far.expect("LISTENING")?;
    let put = Arc::new(Mutex::new(put));
    let is_heard = Arc::new(AtomicBool::new(false));
    greet(Arc::clone(&put), Arc::clone(&is_heard));
    let mut pings = Pings::new(count);
    let mut failed = None;
    take.run(&mut |_, bytes| {
        let number = number(bytes);
        if number == HELLO {
            // More of them may be in transit.
            if is_heard.swap(true, Ordering::AcqRel) {
                return true;
            }
        } else if !pings.is_back(number) {
            return false;
        }
        let mut put = put.lock().expect("nobody panics with it");
        let said = put.put(0, &pings.send().to_le_bytes());
        let said = said.and_then(|()| put.flush());
        failed = said.err().map(|error| error.to_string());
        failed.is_none()
    })?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    pings.enter(&mut row)?;
    Ok(vec![row])
}

/// Sends a message until one returns: earlier losses do not count.
fn greet(put: Arc<Mutex<Box<dyn Put>>>, is_heard: Arc<AtomicBool>) {
    thread::spawn(move || {
        let deadline = Instant::now() + CONNECT_MAX;
        while !is_heard.load(Ordering::Acquire) && Instant::now() < deadline {
            let mut put = put.lock().expect("nobody panics with it");
            let said = put.put(0, &HELLO.to_le_bytes()).and_then(|()| put.flush());
            drop(put);
            if let Err(error) = said {
                eprintln!("{error}");
            }
            thread::sleep(Duration::from_millis(50));
        }
    });
}
