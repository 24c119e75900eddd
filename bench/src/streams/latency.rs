//! W4: half the round trip of one element, each flushed.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use trunkline::stream::{Reader, Until, Writer};

use super::{Form, LATENCY, free_port};
use crate::Outcome;
use crate::cells::RAW;
use crate::raw::connect;
use crate::record::Row;
use crate::role::{Role, say};
use crate::settings::Settings;
use crate::statistics::Summary;

/// Elements that a buffer of this test holds.
const CAPACITY: usize = 4096;
/// Round trips before the measured ones.
const WARM_UP: u64 = 1000;

/// Measures with one system: this process asks, another one answers.
///
/// # Errors
/// There is no such system, or an end has failed.
pub fn cell(system: &str, settings: &Settings, placement: &str) -> Outcome<Row> {
    let spins: u32 = settings.value_or("spin", 1)?;
    let count: u64 = settings.value("count")?;
    let waiting = if spins == 0 { "sleeping" } else { "spinning" };
    let case = format!("waiting={waiting}");
    let mut row = Row::new(LATENCY, system, case, placement);
    row.waiting = waiting.to_owned();
    let (there, back) = (free_port()?, free_port()?);
    let far_settings = settings
        .clone()
        .with("system", system)
        .with("there", there)
        .with("back", back);
    if system == RAW {
        let mut far = Role::start("w4-raw", &far_settings)?;
        let mut socket = connect(&far.expect("LISTENING")?)?;
        if spins != 0 {
            socket.set_nonblocking(true)?;
        }
        return measure(row, count, |number| {
            socket.write_all(&number.to_le_bytes())?;
            Ok(u64::from_le_bytes(receive(&mut socket)?))
        });
    }
    let form = Form::of(system)?;
    let _far = Role::start("w4-trunkline", &far_settings)?;
    let mut options = form.options(CAPACITY, settings)?;
    options.peer = Some(format!("tl://localhost:{there}/there"));
    let mut writer = Writer::<u64>::create("ask", options)?;
    let mut options = form.options(CAPACITY, settings)?;
    options.peer = Some(format!("tl://localhost:{back}/back"));
    let mut reader = Reader::<u64>::create("hear", options)?;
    measure(row, count, |number| {
        writer.write(&number, None)?;
        writer.flush(Until::Sent, Some(Duration::ZERO))?;
        Ok(reader.read(Some(Duration::from_secs(20)))?)
    })
}

fn measure(
    mut row: Row,
    count: u64,
    mut round_trip: impl FnMut(u64) -> Outcome<u64>,
) -> Outcome<Row> {
    let mut wrong = 0;
    let mut times = Vec::new();
    for number in 0..WARM_UP + count {
        let before = Instant::now();
        wrong += u64::from(round_trip(number)? != number);
        if number >= WARM_UP {
            times.push(before.elapsed().as_secs_f64() * 1e6 / 2.0);
        }
    }
    times.sort_by(f64::total_cmp);
    let p999 = times[(times.len() * 999 / 1000).min(times.len() - 1)];
    let times = Summary::of(&mut times).ok_or("nothing was measured")?;
    row.figure("one_way_us", times.mean);
    row.figure("median_us", times.median);
    row.figure("p99_us", times.p99);
    row.figure("p999_us", p999);
    row.require(wrong == 0, || {
        format!("{wrong} came back as something else")
    });
    Ok(row)
}

/// Eight bytes, from a socket that may not block.
fn receive(socket: &mut impl Read) -> Outcome<[u8; 8]> {
    let mut bytes = [0; 8];
    let mut filled = 0;
    while filled < bytes.len() {
        match socket.read(&mut bytes[filled..]) {
            Ok(0) => return Err("the other end has closed".into()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}

/// The far end of raw.
///
/// # Errors
/// The system refuses a socket.
pub fn echo_raw(settings: &Settings) -> Outcome<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    say(&format!("LISTENING {}", listener.local_addr()?));
    let (mut socket, _) = listener.accept()?;
    socket.set_nodelay(true)?;
    if settings.value_or("spin", 1)? != 0 {
        socket.set_nonblocking(true)?;
    }
    while let Ok(bytes) = receive(&mut socket) {
        socket.write_all(&bytes)?;
    }
    Ok(())
}

/// The far end of Trunkline.
///
/// # Errors
/// An endpoint cannot be created.
pub fn echo_stream(settings: &Settings) -> Outcome<()> {
    let form = Form::of(&settings.value::<String>("system")?)?;
    let (there, back): (u16, u16) = (settings.value("there")?, settings.value("back")?);
    let url = format!("tl://localhost:{there}/there");
    let mut reader = Reader::<u64>::create(&url, form.options(CAPACITY, settings)?)?;
    let url = format!("tl://localhost:{back}/back");
    let mut writer = Writer::<u64>::create(&url, form.options(CAPACITY, settings)?)?;
    while let Ok(number) = reader.read(None) {
        writer.write(&number, None)?;
        writer.flush(Until::Sent, Some(Duration::ZERO))?;
    }
    Ok(())
}
