//! W5 and W6: updates to one or several subscribers of all. If a system would drop or queue without
//! limit, acknowledgements keep the writer within a window of the slowest one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use trunkline_bench::Outcome;
use trunkline_bench::record::Row;
use trunkline_bench::role::{Role, say};
use trunkline_bench::settings::Settings;
use trunkline_bench::updates_to_one::figures::{Share, Written, enter, take_with, taken_of};
use trunkline_bench::updates_to_one::{PER_CALL, Stream, Taken, Window};
use trunkline_bench::usage::{Usage, others_cpu_ns, process_cpu_ns, thread_cpu_ns};

use crate::brokers::{Broker, Place, free_port, placement};
use crate::bus::{Ends, Put, Side, Space, open};

/// Limit of unacknowledged updates of all subscribers together.
const WINDOW: u64 = 8192;

/// Limit of unacknowledged updates of one subscriber: at least two pipelines of 256; fewer if the
/// backlog would exceed the rule of the scenario.
fn window(system: &str, subscribers: usize) -> u64 {
    let least = if system == "mosquitto" { 256 } else { 512 };
    (WINDOW / subscribers as u64).max(least)
}

/// Without an acknowledgement for this long, updates were lost.
const STUCK: Duration = Duration::from_secs(5);

pub fn take_all(settings: &Settings) -> Outcome<()> {
    let (system, port): (String, u16) = (settings.value("system")?, settings.value("port")?);
    let stream = Stream::read(settings)?;
    let subscribed = AtomicUsize::new(0);
    take_with(stream.subscribers, |number| {
        take_one(&system, port, stream, number, &subscribed).map_err(|error| error.to_string())
    })
}

fn take_one(
    system: &str,
    port: u16,
    stream: Stream,
    number: usize,
    subscribed: &AtomicUsize,
) -> Outcome<Share> {
    let side = Side {
        put: Space::new("ack", stream.subscribers),
        take: Space::new("dat", stream.variables),
        listen: false,
        port,
    };
    let Ends {
        mut put,
        take,
        windowed,
    } = open(system, &side)?;
    let mut taken = Taken::new(stream.variables);
    let mut window: Option<Window> = None;
    let (mut is_known, mut failed) = (false, None);
    let every = self::window(system, stream.subscribers) / 4;
    take.run(&mut |variable, value| {
        let value = crate::call_cost::number(value).unwrap_or(f64::NEG_INFINITY);
        if value == 0.0 {
            // The first message of the last variable: all subscriptions are active.
            if variable + 1 == stream.variables && !is_known {
                is_known = true;
                if subscribed.fetch_add(1, Ordering::Relaxed) + 1 == stream.subscribers {
                    say("SUBSCRIBED");
                }
            }
            return true;
        }
        if value.is_nan() {
            return false;
        }
        taken.take(variable, value);
        let window = window.get_or_insert_with(|| Window::open(stream.warm_up));
        if taken.count.is_multiple_of(256) {
            window.poll(taken.count, process_cpu_ns);
        }
        if windowed && taken.count.is_multiple_of(every) {
            let count = taken.count.to_le_bytes();
            let said = put.put(number, &count).and_then(|()| put.flush());
            failed = said.err().map(|error| error.to_string());
        }
        failed.is_none()
    })?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    let measured = window.and_then(|window| window.close(taken.count, process_cpu_ns()));
    // Dropping it would disturb the other end.
    std::mem::forget(put);
    Ok(Share { taken, measured })
}

pub fn measure(
    scenario: &str,
    system: &str,
    settings: &Settings,
    place: &str,
) -> Outcome<Vec<Row>> {
    let stream = Stream::read(settings)?;
    let broker = Broker::start(system, Place::Between)?;
    let port = broker
        .as_ref()
        .map_or_else(free_port, |broker| Ok(broker.port()))?;
    let place = placement(place, broker.as_ref(), Place::Between);
    let mut row = Row::new(scenario, system, stream.case(scenario), &place);
    let side = Side {
        put: Space::new("dat", stream.variables),
        take: Space::new("ack", stream.subscribers),
        listen: true,
        port,
    };
    let Ends {
        mut put,
        take,
        windowed,
    } = open(system, &side)?;
    let acknowledged: Arc<Vec<AtomicU64>> =
        Arc::new((0..stream.subscribers).map(|_| AtomicU64::new(0)).collect());
    if windowed {
        let acknowledged = Arc::clone(&acknowledged);
        thread::spawn(move || {
            let heard = take.run(&mut |subscriber, count| {
                let Ok(count) = count.try_into() else {
                    return false;
                };
                acknowledged[subscriber].fetch_max(u64::from_le_bytes(count), Ordering::AcqRel);
                true
            });
            heard.map_err(|error| eprintln!("{error}"))
        });
    }
    let settings = stream.settings().with("system", system).with("port", port);
    let mut far = Role::start("updates_to_one-take", &settings)?;
    greet(put.as_mut(), stream.variables - 1, 0.0, &mut far)?;
    let broker_ns = || {
        broker
            .as_ref()
            .map_or(0, |one| Usage::of(one.pid()).unwrap_or_default().cpu_ns)
    };
    let ahead = self::window(system, stream.subscribers);
    let mut window = Window::open(stream.warm_up);
    let (mut count, mut others, mut in_window) = (0, 0, false);
    loop {
        for at in 0..PER_CALL as u64 {
            let number = count + at;
            let value = (number / stream.variables as u64 + 1) as f64;
            put.put(
                (number % stream.variables as u64) as usize,
                &value.to_le_bytes(),
            )?;
        }
        count += PER_CALL as u64;
        if windowed {
            hold_back(put.as_mut(), count, ahead, &acknowledged)?;
        }
        let now = window.poll(count, || {
            in_window = true;
            others = others_cpu_ns() + broker_ns();
            thread_cpu_ns()
        });
        if in_window && now >= window.end(stream.measured) {
            break;
        }
    }
    put.flush()?;
    let by_writer = window
        .close(count, thread_cpu_ns())
        .ok_or("nothing was measured")?;
    let others_cpu_ns = (others_cpu_ns() + broker_ns()).saturating_sub(others);
    let last = Instant::now();
    put.put(0, &f64::NAN.to_le_bytes())?;
    put.flush()?;
    let taken = taken_of(&mut far)?;
    let backlog = last.elapsed();
    let subscribers = stream.subscribers;
    let written = Written {
        subscribers,
        count,
        by_writer,
        others_cpu_ns,
        backlog,
    };
    enter(&mut row, &written, &taken)?;
    std::mem::forget(put);
    Ok(vec![row])
}

/// Puts a message until every subscriber has received it: earlier losses do not count.
pub fn greet(put: &mut dyn Put, variable: usize, word: f64, far: &mut Role) -> Outcome<()> {
    let stop = AtomicBool::new(false);
    let said = thread::scope(|scope| {
        let putting = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let put = put
                    .put(variable, &word.to_le_bytes())
                    .and_then(|()| put.flush());
                put.map_err(|error| error.to_string())?;
                thread::sleep(Duration::from_millis(20));
            }
            Ok::<(), String>(())
        });
        let said = far.expect("SUBSCRIBED").map_err(|error| error.to_string());
        stop.store(true, Ordering::Relaxed);
        let put = putting
            .join()
            .unwrap_or_else(|_| Err("putting failed".to_owned()));
        said.and(put)
    });
    said?;
    thread::sleep(Duration::from_millis(200));
    Ok(())
}

/// Waits until the slowest subscriber is within the window.
fn hold_back(put: &mut dyn Put, count: u64, ahead: u64, acknowledged: &[AtomicU64]) -> Outcome<()> {
    let slowest = || {
        let counts = acknowledged
            .iter()
            .map(|count| count.load(Ordering::Acquire));
        counts.min().unwrap_or(u64::MAX)
    };
    if count < slowest().saturating_add(ahead) {
        return Ok(());
    }
    put.flush()?;
    let deadline = Instant::now() + STUCK;
    while count >= slowest().saturating_add(ahead) {
        thread::sleep(Duration::from_micros(20));
        if Instant::now() > deadline {
            return Err(format!("{count} updates were put, {} came", slowest()).into());
        }
    }
    Ok(())
}
