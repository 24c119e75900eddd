//! W3: how many elements per second, by call size.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use trunkline::stream::{Options, Reader, Writer};

use super::{Form, THROUGHPUT, free_port};
use crate::Outcome;
use crate::cells::RAW;
use crate::raw::connect;
use crate::record::Row;
use crate::role::{Role, say};
use crate::settings::Settings;
use crate::usage::process_cpu_ns;

/// Raw packs small calls: so many elements at least go out at once.
const PACKED: usize = 4096;
/// Elements between two looks at the clock, at least.
const LOOK_EVERY: usize = 10_000;
/// Buffers of the endpoints, in elements: ten calls, but never less than the first (NS-82).
const CAPACITY: (usize, usize) = (100_000, 1_000_000);

/// What is done.
#[derive(Clone, Copy, Debug)]
struct Flow {
    call: usize,
    warm_up: Duration,
    measured: Duration,
}

impl Flow {
    fn read(settings: &Settings) -> Outcome<Self> {
        Ok(Self {
            call: settings.value("call")?,
            warm_up: Duration::from_millis(settings.value("warm_ms")?),
            measured: Duration::from_millis(settings.value("ms")?),
        })
    }

    /// Elements of one `write` or `read` of raw.
    fn packed(self) -> usize {
        match self.call {
            small if small < 1000 => PACKED,
            call => call,
        }
    }

    fn capacity(self) -> usize {
        (10 * self.call).clamp(CAPACITY.0, CAPACITY.1)
    }
}

/// The next elements: their own numbers.
#[derive(Debug, Default)]
struct Numbers {
    next: u64,
    wrong: u64,
}

impl Numbers {
    #[inline]
    fn fill(&mut self, elements: &mut [f64]) {
        for element in elements {
            *element = self.next as f64;
            self.next += 1;
        }
    }

    #[inline]
    fn check(&mut self, elements: &[f64]) {
        let mut wrong = 0;
        for element in elements {
            wrong += u64::from(*element != self.next as f64);
            self.next += 1;
        }
        self.wrong += wrong;
    }
}

/// Measures with one system: this process writes, another one reads and counts.
///
/// # Errors
/// There is no such system, or an end has failed.
pub fn cell(system: &str, settings: &Settings, placement: &str) -> Outcome<Row> {
    let flow = Flow::read(settings)?;
    let case = format!("call={}", flow.call);
    let mut row = Row::new(THROUGHPUT, system, case, placement);
    row.waiting = "mixed".to_owned();
    let port = free_port()?;
    let far_settings = settings.clone().with("port", port).with("system", system);
    let mut numbers = Numbers::default();
    let cpu = process_cpu_ns();
    let mut far;
    if system == RAW {
        far = Role::start("w3-raw", &far_settings)?;
        let mut socket = connect(&far.expect("LISTENING")?)?;
        let mut buffer = vec![0.0_f64; flow.packed()];
        loop {
            numbers.fill(&mut buffer);
            // It ends when the reader has counted enough.
            if socket.write_all(bytemuck::cast_slice(&buffer)).is_err() {
                break;
            }
        }
    } else {
        let form = Form::of(system)?;
        far = Role::start("w3-trunkline", &far_settings)?;
        let mut options: Options = form.options(flow.capacity(), settings)?;
        options.peer = Some(format!("tl://localhost:{port}/bench"));
        let mut writer = Writer::<f64>::create("bench/out", options)?;
        let mut buffer = vec![0.0; flow.call];
        loop {
            let written = if form.is_in_place {
                writer.write_with(flow.call, None, |elements| numbers.fill(elements))
            } else if flow.call == 1 {
                numbers.fill(&mut buffer);
                writer.write(&buffer[0], None)
            } else {
                numbers.fill(&mut buffer);
                writer.write_many(&buffer, None)
            };
            if written.is_err() {
                break;
            }
        }
    }
    let cpu = process_cpu_ns() - cpu;
    let result = far.expect("RESULT")?;
    let numbers_of: Vec<f64> = result
        .split(' ')
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    let [elements, seconds, far_cpu, wrong] = numbers_of[..] else {
        return Err(format!("the reader said {result:?}").into());
    };
    let rate = elements / seconds;
    row.figure("elements_per_s", rate);
    row.figure("mb_per_s", rate * 8e-6);
    let writer_ns = cpu as f64 / numbers.next as f64;
    row.figure("writer_ns_per_element", writer_ns);
    row.figure("reader_ns_per_element", far_cpu / elements);
    // A gigabyte has an eighth of a thousand million elements.
    row.figure("cpu_s_per_gb", (writer_ns + far_cpu / elements) / 8.0);
    row.require(wrong == 0.0, || format!("{wrong} elements were wrong"));
    Ok(row)
}

/// The reader's side of the count.
struct Counting {
    flow: Flow,
    numbers: Numbers,
    opened: Option<Instant>,
    /// Since the warm-up: when, elements, processor time.
    window: Option<(Instant, u64, u64)>,
}

impl Counting {
    fn new(flow: Flow) -> Self {
        Self {
            flow,
            numbers: Numbers::default(),
            opened: None,
            window: None,
        }
    }

    /// Says what was counted when it is time; false then.
    fn look(&mut self) -> bool {
        let now = Instant::now();
        let opened = *self.opened.get_or_insert(now);
        let count = self.numbers.next;
        match self.window {
            None if now - opened >= self.flow.warm_up => {
                self.window = Some((now, count, process_cpu_ns()));
            }
            Some((since, before, cpu)) if now - since >= self.flow.measured => {
                say(&format!(
                    "RESULT {} {} {} {}",
                    count - before,
                    (now - since).as_secs_f64(),
                    process_cpu_ns() - cpu,
                    self.numbers.wrong
                ));
                return false;
            }
            _ => {}
        }
        true
    }
}

/// The far end of raw.
///
/// # Errors
/// The system refuses a socket, or the writer ends before its end.
pub fn read_raw(settings: &Settings) -> Outcome<()> {
    let flow = Flow::read(settings)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, settings.value("port")?))?;
    say(&format!("LISTENING {}", listener.local_addr()?));
    let (mut socket, _) = listener.accept()?;
    let mut counting = Counting::new(flow);
    let mut buffer = vec![0.0_f64; flow.packed()];
    while counting.look() {
        for _ in 0..(LOOK_EVERY / flow.packed()).max(1) {
            socket.read_exact(bytemuck::cast_slice_mut(&mut buffer))?;
            counting.numbers.check(&buffer);
        }
    }
    Ok(())
}

/// The far end of Trunkline.
///
/// # Errors
/// The stream has ended before its end.
pub fn read_stream(settings: &Settings) -> Outcome<()> {
    let flow = Flow::read(settings)?;
    let form = Form::of(&settings.value::<String>("system")?)?;
    let port: u16 = settings.value("port")?;
    let options = form.options(flow.capacity(), settings)?;
    let url = format!("tl://localhost:{port}/bench");
    let mut reader = Reader::<f64>::create(&url, options)?;
    let mut counting = Counting::new(flow);
    let mut buffer = vec![0.0; flow.call];
    while counting.look() {
        for _ in 0..(LOOK_EVERY / flow.call).max(1) {
            if form.is_in_place {
                counting.numbers.check(&reader.acquire(flow.call, None)?);
            } else if flow.call == 1 {
                counting.numbers.check(&[reader.read(None)?]);
            } else {
                reader.read_into(&mut buffer, None)?;
                counting.numbers.check(&buffer);
            }
        }
    }
    Ok(())
}
