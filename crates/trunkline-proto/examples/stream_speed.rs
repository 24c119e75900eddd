//! What the two ends of a stream cost beside the moving of the bytes: both of them in one thread,
//! no ring and no transport.
//!
//! ```text
//! cargo run --release -p trunkline-proto --example stream_speed
//! ```

// A measuring program reads the clock and prints.
#![allow(clippy::print_stdout, clippy::disallowed_methods)]

use std::time::Instant;

use trunkline_proto::Frame;
use trunkline_proto::message::stream::StreamHello;
use trunkline_proto::stream::{
    DATA_BYTES_MAX, LinkOptions, ReaderLink, RingBytes, Role, WriterLink,
};
use trunkline_types::{DataType, Tick};

const ROUNDS: usize = 9;

/// A ring of which every place is the same.
struct Same(Vec<u8>);

impl RingBytes for Same {
    fn bytes(&self, _: u64, len: u64) -> [&[u8]; 2] {
        [self.0.get(..len as usize).unwrap_or_default(), &[]]
    }
}

struct Pair {
    writer: WriterLink,
    reader: ReaderLink,
    ring: Same,
    out: Vec<u8>,
    written: u64,
    now: u64,
}

impl Pair {
    fn new(capacity: u64, is_checked: bool) -> Option<Self> {
        let options = |url| LinkOptions::fixed(url, DataType::F64, 8, capacity);
        let (mut w, r) = (options("tl://localhost/w"), options("tl://localhost/r"));
        w.role = Role::Active;
        w.is_checked = is_checked;
        w.incarnation.0[0] = 1;
        let mut pair = Self {
            writer: WriterLink::writer(w, Tick::ZERO),
            reader: ReaderLink::reader(r, Tick::ZERO),
            ring: Same(vec![0; DATA_BYTES_MAX as usize]),
            out: Vec::new(),
            written: 0,
            now: 0,
        };
        pair.writer.handle_dialled(Tick::ZERO, 1, None);
        pair.writer
            .poll_output(Tick::ZERO, &pair.ring, &mut pair.out);
        let frame = Frame::take_from(&mut pair.out.as_slice()).ok()??;
        let hello = StreamHello::decode(&frame).ok()?;
        pair.reader.handle_hello(Tick::ZERO, 1, &hello).ok()?;
        pair.answer(Tick::ZERO);
        pair.writer.is_connected().then_some(pair)
    }

    fn answer(&mut self, now: Tick) {
        self.out.clear();
        self.reader.poll_output(now, &(), &mut self.out);
        if !self.out.is_empty() {
            self.writer.handle_control(now, 1, &self.out);
        }
    }

    /// `len` bytes are written, sent, received and read, and what the reader says about that.
    fn transfer(&mut self, len: u64) {
        // 100 ns a transfer, so that acknowledgements are delayed as they would be.
        self.now += 100;
        let now = Tick::from_nanos(self.now);
        self.written += len;
        self.writer.handle_written(self.written, self.written / 8);
        loop {
            self.out.clear();
            let place = self.writer.poll_output(now, &self.ring, &mut self.out);
            let Some(place) = place else { break };
            self.writer.handle_sent(1);
            self.reader.handle_control(now, 1, &self.out);
            let [bytes, _] = self.ring.bytes(place.position, place.len);
            self.reader.handle_payload(now, 1, bytes);
            let (position, elements) = self.reader.ready();
            self.reader.handle_read(position, elements);
        }
        self.answer(now);
    }
}

fn main() {
    for (what, len, is_checked, count) in [
        ("a frame of one double", 8, false, 1_000_000),
        ("a frame of one double, checked", 8, true, 1_000_000),
        ("a frame of 1,000 doubles", 8000, false, 500_000),
        ("a frame of 1,000 doubles, checked", 8000, true, 200_000),
        ("a frame of 256 KiB, checked", DATA_BYTES_MAX, true, 10_000),
    ] {
        let mut times: Vec<f64> = (0..ROUNDS)
            .filter_map(|_| {
                let mut pair = Pair::new(1 << 17, is_checked)?;
                let start = Instant::now();
                (0..count).for_each(|_| pair.transfer(len));
                assert_eq!(pair.reader.arrived(), len * count);
                Some(start.elapsed().as_nanos() as f64 / count as f64)
            })
            .collect();
        times.sort_by(f64::total_cmp);
        let median = times.get(times.len() / 2).copied().unwrap_or(f64::NAN);
        let best = times.first().copied().unwrap_or(f64::NAN);
        println!(
            "{what:36} {median:10.1} ns, best {best:.1} ({:.2} GB/s)",
            len as f64 / best
        );
    }
}
