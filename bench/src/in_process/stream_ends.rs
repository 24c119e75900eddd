//! The cost of both ends of a stream without moving bytes: in one thread, without a ring or a
//! transport.

use std::time::Instant;

use trunkline::types::{DataType, Tick};
use trunkline_proto::Frame;
use trunkline_proto::message::stream::StreamHello;
use trunkline_proto::stream::{
    DATA_BYTES_MAX, LinkOptions, ReaderLink, RingBytes, Role, WriterLink,
};

use super::{Cell, Contender, Timed};
use crate::Outcome;

/// Doubles of one frame.
pub(super) const DOUBLES: [u64; 3] = [1, 1000, DATA_BYTES_MAX / 8];

/// Frames of this many doubles, with and without checksums.
pub(super) fn cell(doubles: u64) -> Outcome<Cell> {
    let contender = |system, is_checked| -> Outcome<Contender> {
        let mut pair = Pair::new(is_checked)?;
        Ok(Contender::new(system, move |count| {
            let arrived = pair.reader.arrived();
            let start = Instant::now();
            (0..count).for_each(|_| pair.transfer(doubles));
            Timed {
                elapsed: start.elapsed(),
                wrong: count - (pair.reader.arrived() - arrived) / doubles / 8,
            }
        }))
    };
    Ok(Cell {
        case: format!("op=stream-ends doubles={doubles}"),
        waiting: "none",
        contenders: vec![contender("plain", false)?, contender("checked", true)?],
    })
}

/// A ring that contains the same bytes everywhere.
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
    fn new(is_checked: bool) -> Outcome<Self> {
        let options = |url| LinkOptions::fixed(url, DataType::F64, 8, 1 << 17);
        let (mut writer, reader) = (options("tl://localhost/w"), options("tl://localhost/r"));
        writer.role = Role::Active;
        writer.is_checked = is_checked;
        writer.incarnation.0[0] = 1;
        let mut pair = Self {
            writer: WriterLink::writer(writer, Tick::ZERO),
            reader: ReaderLink::reader(reader, Tick::ZERO),
            ring: Same(vec![0; DATA_BYTES_MAX as usize]),
            out: Vec::new(),
            written: 0,
            now: 0,
        };
        pair.writer.handle_dialled(Tick::ZERO, 1, None);
        let Pair {
            writer, ring, out, ..
        } = &mut pair;
        writer.poll_output(Tick::ZERO, ring, out);
        let frame = Frame::take_from(&mut pair.out.as_slice())?.ok_or("the writer says nothing")?;
        let hello = StreamHello::decode(&frame)?;
        pair.reader
            .handle_hello(Tick::ZERO, 1, &hello)
            .map_err(|fault| format!("{fault:?}"))?;
        pair.answer(Tick::ZERO);
        match pair.writer.is_connected() {
            true => Ok(pair),
            false => Err("the reader refuses the writer".into()),
        }
    }

    fn answer(&mut self, now: Tick) {
        self.out.clear();
        self.reader.poll_output(now, &(), &mut self.out);
        if !self.out.is_empty() {
            self.writer.handle_control(now, 1, &self.out);
        }
    }

    /// Writes, sends, receives and reads `doubles` elements, and sends the reader's answer.
    fn transfer(&mut self, doubles: u64) {
        // 100 ns each, so that acknowledgements are delayed as in a connection.
        self.now += 100;
        let now = Tick::from_nanos(self.now);
        self.written += 8 * doubles;
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
