//! W1: the time of a notification is taken in the callback of the system.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use trunkline_bench::Outcome;
use trunkline_bench::raw::field;
use trunkline_bench::record::Row;
use trunkline_bench::role::{Role, say, wait_for_end};
use trunkline_bench::round_trip_grid::cell::{LAST, Seen, WARM_UP_TICKS, enter, enter_usage};
use trunkline_bench::round_trip_grid::{Grid, Kind, SCENARIO};
use trunkline_bench::settings::Settings;
use trunkline_bench::usage::Usage;

use crate::brokers::{Broker, Place, free_port, placement};
use crate::bus::{Put, Side, Space, open};

/// Longest time until the first value returns.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Time, variable, tick.
type Notices = Arc<Mutex<Vec<(Instant, usize, u32)>>>;

/// The far end of a system without a server: echoes.
pub fn echo(settings: &Settings) -> Outcome<()> {
    let (system, count): (String, usize) = (settings.value("system")?, settings.value("n")?);
    let side = Side {
        put: Space::new("ntf", count),
        take: Space::new("set", count),
        listen: true,
        port: settings.value("port")?,
    };
    let ends = open(&system, &side)?;
    let (mut put, take) = (ends.put, ends.take);
    thread::spawn(move || {
        let echoed = take.run(&mut |variable, value| {
            let put = put
                .put(variable, value)
                .and_then(|()| match variable + 1 == count {
                    true => put.flush(),
                    false => Ok(()),
                });
            put.is_ok()
        });
        echoed.map_err(|error| eprintln!("{error}"))
    });
    say("LISTENING");
    wait_for_end();
    Ok(())
}

pub fn measure(system: &str, settings: &Settings, place: &str) -> Outcome<Vec<Row>> {
    let periods: String = settings.value("periods")?;
    let (count, kind) = (
        settings.value("n")?,
        Kind::named(&settings.value::<String>("type")?)?,
    );
    // The server is the other end: the client receives from it the values it has put.
    let broker = Broker::start(system, Place::FarEnd)?;
    let port = broker
        .as_ref()
        .map_or_else(free_port, |broker| Ok(broker.port()))?;
    let role = match &broker {
        Some(_) => None,
        None => {
            let settings = Settings::default()
                .with("system", system)
                .with("n", count)
                .with("port", port);
            let mut role = Role::start("round_trip_grid-echo", &settings)?;
            role.expect("LISTENING")?;
            Some(role)
        }
    };
    let far = broker
        .as_ref()
        .map(Broker::pid)
        .or(role.as_ref().map(Role::pid));
    let far = far.ok_or("there is no far end")?;
    let heard = if broker.is_some() { "set" } else { "ntf" };
    let side = Side {
        put: Space::new("set", count),
        take: Space::new(heard, count),
        listen: false,
        port,
    };
    let ends = open(system, &side)?;
    let (mut put, take) = (ends.put, ends.take);
    let notices = Notices::default();
    let noticed = Arc::clone(&notices);
    thread::spawn(move || {
        let taken = take.run(&mut |variable, value| {
            let at = Instant::now();
            let tick = tick_of(kind, value).unwrap_or(0);
            noticed.lock().is_ok_and(|mut notices| {
                notices.push((at, variable, tick));
                true
            })
        });
        taken.map_err(|error| eprintln!("{error}"))
    });
    connected(put.as_mut(), kind, count, &notices)?;
    let mut rows = Vec::new();
    let mut first_tick = 0;
    for period in periods.split(',') {
        let (period, ticks) = period
            .split_once(':')
            .ok_or("write periods as period:ticks")?;
        let grid = Grid::read(&settings.clone().with("t", period).with("ticks", ticks))?;
        let case = format!("n={count} t={period} type={}", kind.name());
        let place = placement(place, broker.as_ref(), Place::FarEnd);
        let mut row = Row::new(SCENARIO, system, case, &place);
        run(&grid, first_tick, put.as_mut(), &notices, far, &mut row)?;
        first_tick += grid.ticks + WARM_UP_TICKS;
        rows.push(row);
    }
    Ok(rows)
}

/// Puts until both directions work: earlier losses do not count.
fn connected(put: &mut dyn Put, kind: Kind, count: usize, notices: &Notices) -> Outcome<()> {
    let deadline = Instant::now() + CONNECT_MAX;
    let has_last = |notices: &[(Instant, usize, u32)]| {
        notices
            .iter()
            .any(|(_, variable, _)| *variable + 1 == count)
    };
    loop {
        put.put(count - 1, &value_of(kind, 0))?;
        put.flush()?;
        thread::sleep(Duration::from_millis(20));
        if notices.lock().is_ok_and(|notices| has_last(&notices)) {
            break;
        }
        if Instant::now() > deadline {
            return Err("nothing came back".into());
        }
    }
    thread::sleep(Duration::from_millis(300));
    Ok(())
}

fn run(
    grid: &Grid,
    first_tick: u32,
    put: &mut dyn Put,
    notices: &Notices,
    far_pid: u32,
    row: &mut Row,
) -> Outcome<()> {
    let mut seen = Seen::new(grid, first_tick);
    let all_ticks = WARM_UP_TICKS + grid.ticks;
    let (mut near, mut far) = (Usage::default(), Usage::default());
    lock(notices)?.clear();
    lock(notices)?.reserve(grid.variables * all_ticks as usize);
    let mut next = Instant::now() + grid.period;
    for tick in 1..=all_ticks {
        let value = value_of(grid.kind, first_tick + tick);
        thread::sleep(next.saturating_duration_since(Instant::now()));
        next += grid.period;
        if tick == WARM_UP_TICKS + 1 {
            (near, far) = (Usage::of_self()?, Usage::of(far_pid)?);
        }
        seen.sending();
        for variable in 0..grid.variables {
            put.put(variable, &value)?;
        }
        put.flush()?;
    }
    let wanted = grid.variables * all_ticks as usize;
    let deadline = next + LAST;
    while lock(notices)?.len() < wanted && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(1));
    }
    let (near, far) = (Usage::of_self()? - near, Usage::of(far_pid)? - far);
    for (at, variable, tick) in lock(notices)?.drain(..) {
        seen.note(at, variable, tick);
    }
    enter(grid, &mut seen, row);
    enter_usage(grid, near, far, row);
    Ok(())
}

fn lock(notices: &Notices) -> Outcome<std::sync::MutexGuard<'_, Vec<(Instant, usize, u32)>>> {
    notices.lock().map_err(|_| "a callback has failed".into())
}

fn value_of(kind: Kind, tick: u32) -> Vec<u8> {
    match kind {
        Kind::I32 => (tick as i32).to_le_bytes().to_vec(),
        Kind::F32 => (tick as f32).to_le_bytes().to_vec(),
        Kind::String16 => Kind::string_of(tick).into_bytes(),
    }
}

fn tick_of(kind: Kind, value: &[u8]) -> Outcome<u32> {
    Ok(match kind {
        _ if value.len() < 4 => return Err("a value that is too short".into()),
        Kind::I32 => field::u32(value, 0),
        Kind::F32 => f32::from_bits(field::u32(value, 0)) as u32,
        Kind::String16 => std::str::from_utf8(value)?.parse()?,
    })
}
