//! The counts of W3 and similar scenarios: the reader counts elements after a warm-up. Each element
//! is its own number.

use std::time::{Duration, Instant};

use crate::Outcome;
use crate::raw::field;
use crate::record::Row;
use crate::role::{Role, say};
use crate::settings::Settings;

/// The raw system combines small calls and sends at least this many elements at once.
const PACKED: usize = 4096;
/// Minimum number of elements between two clock reads.
const CLOCK_INTERVAL: usize = 10_000;
/// Smallest buffer of an endpoint, in elements. A buffer holds ten calls (NS-82).
const CAPACITY: (usize, usize) = (100_000, 1_000_000);

#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// Elements of a call.
    pub call: usize,
    /// Elements of a buffer; `None`: chosen by the size of the calls.
    pub buffer: Option<usize>,
    /// Time before counting.
    pub warm_up: Duration,
    /// Time of counting.
    pub measured: Duration,
}

impl Flow {
    pub fn read(settings: &Settings) -> Outcome<Self> {
        let buffer: usize = settings.value_or("buffer", 0)?;
        Ok(Self {
            call: settings.value("call")?,
            buffer: (buffer > 0).then_some(buffer),
            warm_up: Duration::from_millis(settings.value("warm_ms")?),
            measured: Duration::from_millis(settings.value("ms")?),
        })
    }

    pub fn settings(&self) -> Settings {
        Settings::default()
            .with("call", self.call)
            .with("buffer", self.buffer.unwrap_or(0))
            .with("warm_ms", self.warm_up.as_millis())
            .with("ms", self.measured.as_millis())
    }

    /// Returns the elements of one `write` or `read` of raw.
    pub(super) fn packed(&self) -> usize {
        match self.call {
            small if small < 1000 => PACKED,
            call => call,
        }
    }

    pub(super) fn capacity(&self) -> usize {
        let by_call = (10 * self.call).clamp(CAPACITY.0, CAPACITY.1);
        self.buffer.unwrap_or(by_call)
    }

    /// Returns the number of calls of `elements` between two clock reads.
    pub fn calls_per_clock_read(call: usize) -> usize {
        (CLOCK_INTERVAL / call).max(1)
    }
}

/// Generates and checks elements: each is its own number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Count of elements so far, which is the next element.
    pub next: u64,
    /// Elements that differed from the expected one.
    pub wrong: u64,
}

impl Numbers {
    /// Fills `elements` with the next ones.
    #[inline]
    pub fn fill(&mut self, elements: &mut [f64]) {
        for element in elements {
            *element = self.next as f64;
            self.next += 1;
        }
    }

    /// Fills `bytes` with the next elements, eight bytes each.
    #[inline]
    pub fn fill_bytes(&mut self, bytes: &mut [u8]) {
        for element in bytes.chunks_exact_mut(8) {
            element.copy_from_slice(&(self.next as f64).to_le_bytes());
            self.next += 1;
        }
    }

    #[inline]
    pub fn check(&mut self, elements: &[f64]) {
        self.check_each(elements.iter().copied());
    }

    #[inline]
    pub fn check_bytes(&mut self, bytes: &[u8]) {
        let elements = bytes.chunks_exact(8);
        self.check_each(elements.map(|element| field::f64(element, 0)));
    }

    #[inline]
    fn check_each(&mut self, elements: impl Iterator<Item = f64>) {
        let mut wrong = 0;
        for element in elements {
            wrong += u64::from(element != self.next as f64);
            self.next += 1;
        }
        self.wrong += wrong;
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counted {
    pub elements: f64,
    pub seconds: f64,
    /// CPU nanoseconds of the reader in the window.
    pub cpu_ns: f64,
    /// Elements out of order or wrong since the beginning.
    pub wrong: f64,
}

impl Counted {
    /// Reports the counts to the client process.
    pub fn report(&self) {
        say(&format!(
            "RESULT {} {} {} {}",
            self.elements, self.seconds, self.cpu_ns, self.wrong
        ));
    }

    /// Waits for the report of the far end.
    pub fn of(far: &mut Role) -> Outcome<Self> {
        let report = far.expect("RESULT")?;
        let numbers: Vec<f64> = report
            .split(' ')
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        let [elements, seconds, cpu_ns, wrong] = numbers[..] else {
            return Err(format!("unexpected report of the reader: {report:?}").into());
        };
        Ok(Self {
            elements,
            seconds,
            cpu_ns,
            wrong,
        })
    }

    /// Adds the figures to `row`; `writer_ns` is the writer's CPU time per element.
    pub fn enter(&self, writer_ns: f64, row: &mut Row) {
        let (rate, reader_ns) = (self.elements / self.seconds, self.cpu_ns / self.elements);
        row.figure("elements_per_s", rate);
        row.figure("mb_per_s", rate * 8e-6);
        row.figure("writer_ns_per_element", writer_ns);
        row.figure("reader_ns_per_element", reader_ns);
        // One gigabyte is 10⁹ / 8 elements.
        row.figure("cpu_s_per_gb", (writer_ns + reader_ns) / 8.0);
        let wrong = self.wrong;
        row.require(wrong == 0.0, || format!("{wrong} elements were wrong"));
    }
}

/// Counts for the reader.
#[derive(Debug)]
pub struct Counting {
    flow: Flow,
    cpu: fn() -> u64,
    pub numbers: Numbers,
    opened: Option<Instant>,
    /// Values at the end of the warm-up: time, elements, CPU time.
    window: Option<(Instant, u64, u64)>,
}

impl Counting {
    /// Starts with the first clock read; `cpu` returns the CPU time of the reader so far.
    pub fn new(flow: Flow, cpu: fn() -> u64) -> Self {
        Self {
            flow,
            cpu,
            numbers: Numbers::default(),
            opened: None,
            window: None,
        }
    }

    /// Reads the clock. Returns the count at the end of the window.
    pub fn poll(&mut self) -> Option<Counted> {
        self.poll_at(Instant::now())
    }

    fn poll_at(&mut self, now: Instant) -> Option<Counted> {
        let opened = *self.opened.get_or_insert(now);
        let count = self.numbers.next;
        match self.window {
            None if now - opened >= self.flow.warm_up => {
                self.window = Some((now, count, (self.cpu)()));
                None
            }
            Some((since, before, cpu)) if now - since >= self.flow.measured => Some(Counted {
                elements: (count - before) as f64,
                seconds: (now - since).as_secs_f64(),
                cpu_ns: ((self.cpu)() - cpu) as f64,
                wrong: self.numbers.wrong as f64,
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_after_the_warm_up_are_counted_and_all_are_checked() {
        let flow = Flow {
            call: 10,
            buffer: None,
            warm_up: Duration::from_secs(1),
            measured: Duration::from_secs(2),
        };
        let mut sut = Counting::new(flow, || 7);
        let start = Instant::now();
        let mut elements = [0.0; 10];
        let mut written = Numbers::default();
        let mut counted = None;
        for tenth in 0..=30 {
            written.fill(&mut elements);
            if tenth == 3 {
                elements.swap(0, 1);
            }
            sut.numbers.check(&elements);
            counted = sut.poll_at(start + Duration::from_millis(100 * tenth));
            assert_eq!(counted.is_some(), tenth == 30);
        }
        let counted = counted.unwrap();
        assert_eq!((counted.elements, counted.wrong), (200.0, 2.0));
        let mut row = Row::new("stream_throughput", "raw-tcp", String::new(), "cross");
        counted.enter(1.5, &mut row);
        assert_eq!(row.figures["elements_per_s"], 100.0);
        assert_eq!(row.invalid, ["2 elements were wrong"]);
    }

    #[test]
    fn bytes_and_elements_are_equivalent() {
        let (mut written, mut read) = (Numbers::default(), Numbers::default());
        let mut bytes = [0; 24];
        written.fill_bytes(&mut bytes);
        read.check(&[0.0, 1.0, 2.0]);
        written.fill_bytes(&mut bytes);
        read.check_bytes(&bytes);
        assert_eq!((written.next, read), (6, Numbers { next: 6, wrong: 0 }));
        read.check_bytes(&bytes);
        assert_eq!(read.wrong, 3);
    }

    #[test]
    fn flow_round_trips_through_settings() {
        let sut = Flow {
            call: 1000,
            buffer: Some(50_000),
            warm_up: Duration::from_millis(100),
            measured: Duration::from_millis(300),
        };
        let read = Flow::read(&sut.settings()).unwrap();
        assert_eq!((read.call, read.capacity()), (1000, 50_000));
        let read = Flow::read(&sut.settings().with("buffer", 0).with("call", 1)).unwrap();
        assert_eq!((read.packed(), read.capacity()), (4096, 100_000));
        assert_eq!(read.measured, sut.measured);
    }
}
