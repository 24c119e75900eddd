//! NS-70: elements written during an outage wait in the writer's buffer, and no error is reported.

use std::time::Duration;

use trunkline::stream::{Options, Until, Writer};
use trunkline_net::Clock;

use crate::figures::{is_full, record, seconds, size};
use crate::proxy::{Cut, Proxy};
use crate::streams::{FEW, WAIT, address, far, fill, said, start, url};
use crate::{alone, last, until};

/// 1 MB of elements.
const CAPACITY: usize = 125_000;

/// 1 kB each 10 ms are 100 kB/s.
const PACE: Duration = Duration::from_millis(10);

/// The writing program, and its observations.
struct Written {
    writer: Writer<f64>,
    next: u64,
    highest: u64,
    longest: Duration,
}

impl Written {
    /// Writes 1 kB. In the full version it must be in time; elsewhere the machine may be slower.
    fn write(&mut self, timeout: Option<Duration>) {
        let clock = Clock::new();
        let start = clock.now();
        let next = self.next;
        let written = self
            .writer
            .write_with(FEW, timeout, |elements| fill(elements, next));
        written.expect("an outage is no error");
        self.next += FEW as u64;
        self.longest = self.longest.max(clock.now().since(start));
        self.highest = self.highest.max(self.writer.properties().in_buffer);
    }

    /// Writes at the pace for this time, unless `done` before. Returns the duration.
    fn write_for(&mut self, duration: Duration, done: impl Fn(&Writer<f64>) -> bool) -> Duration {
        let clock = Clock::new();
        let start = clock.now();
        let mut due = start;
        while clock.now().since(start) < duration && !done(&self.writer) {
            self.write(WAIT);
            due = due.saturating_add(PACE);
            last(due.since(clock.now()));
        }
        clock.now().since(start)
    }
}

/// Behaviour: NS-67, NS-70.
#[test]
fn outage_that_fits_the_buffer_is_not_an_error() {
    let _alone = alone();
    let passive = address();
    let proxy = Proxy::start(passive);
    let reader = start(&["read few", &url(passive, "passive"), ""]);
    let options = Options {
        capacity: CAPACITY,
        ..far(Some(&url(proxy.address, "passive")))
    };
    let mut written = Written {
        writer: Writer::create(&url(address(), "active"), options).unwrap(),
        next: 0,
        highest: 0,
        longest: Duration::ZERO,
    };
    let never = |_: &Writer<f64>| false;
    written.write_for(size(Duration::ZERO, Duration::from_secs(2)), never);
    written.writer.flush(Until::Available, WAIT).unwrap();
    proxy.close_door(true);
    proxy.cut(Cut::Reset);
    until("the cut", || {
        (!written.writer.properties().is_connected).then_some(())
    });
    if is_full() {
        written.write_for(Duration::from_secs(10), never);
    } else {
        // The data of 10 s at once: all of it fits.
        (0..CAPACITY / FEW).for_each(|_| written.write(Some(Duration::ZERO)));
        assert_eq!(written.highest, CAPACITY as u64);
    }
    proxy.close_door(false);
    // The elements of one turn are always in the buffer.
    let caught_up = |writer: &Writer<f64>| writer.properties().in_buffer <= 2 * FEW as u64;
    let took = written.write_for(Duration::from_secs(60), caught_up);
    written.write_for(size(Duration::ZERO, Duration::from_secs(1)), never);
    let Written {
        writer,
        next,
        highest,
        longest,
    } = written;
    let left = writer.close(WAIT);
    assert_eq!((left.elements, left.in_doubt), (0, 0));
    let (code, lines) = reader.end();
    assert_eq!(code, Some(0), "{lines:?}");
    let wrong = ["lost", "again", "altered"].map(|what| said(&lines, what));
    assert_eq!((said(&lines, "read"), wrong), (next, [0; 3]));
    if is_full() {
        let check = "NS-70, 100 kB/s through 10 s of outage, 1 MB of buffer";
        let fill = format!("{highest} of {CAPACITY} elements");
        for (figure, measured, wanted) in [
            ("errors of read and write, elements lost", "0, 0", "0, 0"),
            ("peak fill of the writer's buffer", fill.as_str(), ""),
            ("longest call of write", seconds(longest).as_str(), ""),
            ("caught up after the outage", seconds(took).as_str(), ""),
        ] {
            record(check, figure, measured, wanted);
        }
    }
}
