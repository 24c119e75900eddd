//! W4: half the round trip of one element. Each element is flushed.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use trunkline::stream::{Reader, Until, Writer};

use super::{Form, LATENCY, RAW_EACH_WAY, free_port};
use crate::Outcome;
use crate::cells::RAW;
use crate::raw::connect;
use crate::record::Row;
use crate::role::{Role, say};
use crate::same_host::{self, RAW_MEMORY};
use crate::settings::Settings;
use crate::statistics::Summary;

const CAPACITY: usize = 4096;
/// Round trips before measuring starts.
const WARM_UP: u64 = 1000;

/// Measures one system: this process sends, another one answers.
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
    if system == RAW_MEMORY {
        if spins == 0 {
            return Err("memory does not sleep".into());
        }
        let asked =
            |round_trip: &mut dyn FnMut(u64) -> Outcome<u64>| measure(row, count, round_trip);
        return same_host::polled(asked);
    }
    if system == RAW || system == RAW_EACH_WAY {
        let mut far = Role::start("stream_latency-raw", &far_settings)?;
        let address = far.expect("LISTENING")?;
        let mut ask = connect(&address)?;
        let mut hear = match system {
            RAW => ask.try_clone()?,
            _ => connect(&address)?,
        };
        if spins != 0 {
            hear.set_nonblocking(true)?;
        }
        return measure(row, count, |number| {
            ask.write_all(&number.to_le_bytes())?;
            Ok(u64::from_le_bytes(receive(&mut hear)?))
        });
    }
    let form = Form::of(system)?;
    let _far = Role::start("stream_latency-trunkline", &far_settings)?;
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

/// Runs round trips and enters the times.
pub fn measure(
    mut row: Row,
    count: u64,
    mut round_trip: impl FnMut(u64) -> Outcome<u64>,
) -> Outcome<Row> {
    let mut pings = Pings::new(count);
    loop {
        let number = pings.send();
        let back = round_trip(number)?;
        if !pings.is_back(back) {
            break;
        }
    }
    pings.enter(&mut row)?;
    Ok(row)
}

/// The state of the end that receives the answers.
#[derive(Debug)]
pub struct Pings {
    count: u64,
    next: u64,
    wrong: u64,
    sent: Instant,
    times: Vec<f64>,
}

impl Pings {
    /// Creates it for `count` round trips after the warm-up.
    pub fn new(count: u64) -> Self {
        Self {
            count,
            next: 0,
            wrong: 0,
            sent: Instant::now(),
            times: Vec::with_capacity(count as usize),
        }
    }

    /// Returns the next element to send.
    pub fn send(&mut self) -> u64 {
        self.sent = Instant::now();
        self.next
    }

    /// Takes an answer. Returns true if another element is to be sent.
    pub fn is_back(&mut self, number: u64) -> bool {
        let time = self.sent.elapsed();
        self.wrong += u64::from(number != self.next);
        if self.next >= WARM_UP {
            self.times.push(time.as_secs_f64() * 1e6 / 2.0);
        }
        self.next += 1;
        self.next < WARM_UP + self.count
    }

    pub fn enter(mut self, row: &mut Row) -> Outcome<()> {
        let times = Summary::of(&mut self.times).ok_or("nothing was measured")?;
        // The times are sorted now.
        let p999 = self.times[(self.times.len() * 999 / 1000).min(self.times.len() - 1)];
        row.figure("one_way_us", times.mean);
        row.figure("median_us", times.median);
        row.figure("p99_us", times.p99);
        row.figure("p999_us", p999);
        let wrong = self.wrong;
        row.require(wrong == 0, || {
            format!("{wrong} came back as something else")
        });
        Ok(())
    }
}

/// Reads eight bytes from a socket that may be non-blocking.
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

pub fn echo_raw(settings: &Settings) -> Outcome<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    say(&format!("LISTENING {}", listener.local_addr()?));
    let (mut hear, _) = listener.accept()?;
    let mut answer = match settings.value::<String>("system")?.as_str() {
        RAW => hear.try_clone()?,
        _ => listener.accept()?.0,
    };
    answer.set_nodelay(true)?;
    if settings.value_or("spin", 1)? != 0 {
        hear.set_nonblocking(true)?;
    }
    while let Ok(bytes) = receive(&mut hear) {
        answer.write_all(&bytes)?;
    }
    Ok(())
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_are_halved_and_checked() {
        let row = || Row::new(LATENCY, RAW, String::new(), "cross");
        let right = measure(row(), 10, Ok).unwrap();
        assert!(right.invalid.is_empty() && right.figures["p999_us"] >= right.figures["median_us"]);
        let asked = std::cell::Cell::new(0);
        let wrong = measure(row(), 10, |number| {
            asked.set(asked.get() + 1);
            Ok(if number == WARM_UP + 3 { 0 } else { number })
        });
        assert_eq!(asked.get(), WARM_UP + 10);
        assert_eq!(wrong.unwrap().invalid, ["1 came back as something else"]);
    }

    #[test]
    fn a_time_is_half_a_round_trip() {
        let mut sut = Pings::new(1);
        for number in 0..=WARM_UP {
            assert_eq!(sut.send(), number);
            if number == WARM_UP {
                sut.sent = Instant::now().checked_sub(Duration::from_secs(8)).unwrap();
            }
            assert_eq!(sut.is_back(number), number < WARM_UP);
        }
        let mut row = Row::new(LATENCY, RAW, String::new(), "cross");
        sut.enter(&mut row).unwrap();
        assert!((4e6..5e6).contains(&row.figures["one_way_us"]));
    }
}
