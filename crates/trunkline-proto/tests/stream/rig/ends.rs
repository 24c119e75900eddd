//! The two ends with their rings, as a driver would run them.

use std::collections::VecDeque;

use trunkline_proto::Disconnect;
use trunkline_proto::frame::Frame;
use trunkline_proto::message::stream::control::encode_refused;
use trunkline_proto::message::stream::directory::Identity;
use trunkline_proto::message::stream::{StreamHello, WriterState};
use trunkline_proto::stream::{
    ByteRange, ElementForm, LinkOptions, ReaderLink, RingBytes, WriterLink,
};
use trunkline_types::Tick;

use super::SIZE;

/// The network's view of an end.
pub trait End {
    fn poll_dial(&self) -> Option<Tick>;
    fn dialled(&mut self, now: Tick, id: u64);
    fn dial_failed(&mut self, now: Tick, cause: Disconnect);
    /// The connection that is replaced, or the bytes of a refusal.
    fn hello(&mut self, now: Tick, id: u64, hello: &StreamHello) -> Result<Option<u64>, Vec<u8>>;
    fn input(&mut self, now: Tick, id: u64, bytes: &[u8]);
    fn output(&mut self, now: Tick) -> Vec<u8>;
    fn poll_timeout(&self) -> Option<Tick>;
    fn handle_timeout(&mut self, now: Tick);
    fn connection(&self) -> Option<u64>;
    fn wants_close(&self) -> Option<Disconnect>;
    fn disconnected(&mut self, now: Tick, id: u64, cause: Disconnect);
}

/// A writer; its elements are numbers from 0 on.
pub struct WriterEnd {
    pub link: WriterLink,
    /// From `base` on.
    ring: VecDeque<u8>,
    base: u64,
    pub written: u64,
    /// The end of each variable-size element.
    pub ends: Vec<u64>,
    /// Who opens the connections to it.
    pub caller: Identity,
}

/// A reader that checks its elements.
pub struct ReaderEnd {
    pub link: ReaderLink,
    ring: VecDeque<u8>,
    base: u64,
    /// Bytes and elements that were read, and the number of the next element of one size.
    pub read: u64,
    pub read_elements: u64,
    pub next: u64,
    /// Elements reported as lost.
    pub lost: u64,
    /// Who opens the connections to it.
    pub caller: Identity,
}

/// The writer's ring for its link.
struct Window<'a> {
    base: u64,
    pieces: [&'a [u8]; 2],
}

impl RingBytes for Window<'_> {
    fn bytes(&self, position: u64, len: u64) -> [&[u8]; 2] {
        assert!(position >= self.base, "what was freed is asked for");
        let from = (position - self.base) as usize;
        let to = from + len as usize;
        let [first, rest] = self.pieces;
        assert!(to <= first.len() + rest.len(), "what was not written");
        let cut = |at: usize| at.min(first.len());
        [
            &first[cut(from)..cut(to)],
            &rest[from.saturating_sub(first.len())..to.saturating_sub(first.len())],
        ]
    }
}

/// Byte `at` of the element with this number that varies.
pub fn byte_of(element: u64, at: usize) -> u8 {
    (element.wrapping_mul(31).wrapping_add(at as u64) % 251) as u8
}

impl WriterEnd {
    pub fn new(options: LinkOptions, now: Tick) -> Self {
        Self {
            link: WriterLink::writer(options, now),
            ring: VecDeque::new(),
            base: 0,
            written: 0,
            ends: Vec::new(),
            caller: None,
        }
    }

    /// A writer that continues from its journal, which holds elements of one size.
    pub fn restored(link: WriterLink, at: WriterState) -> Self {
        let numbers = at.kept / SIZE..at.written / SIZE;
        Self {
            link,
            ring: numbers.flat_map(u64::to_le_bytes).collect(),
            base: at.kept,
            written: at.written,
            ends: Vec::new(),
            caller: None,
        }
    }

    /// It takes the place of a reader that had received this number of variable-size elements.
    pub fn goes_on_from(&mut self, elements: u64) {
        let from = self.link.freed();
        assert_eq!(self.link.freed_elements(), elements);
        self.window();
        self.ends = vec![from; elements as usize];
    }

    fn begin(&mut self) {
        let (freed, _) = self.link.ring_freed();
        if self.written == 0 && freed > self.base {
            // The stream begins where the reader is.
            self.written = freed;
            self.base = freed;
        }
    }

    fn window(&mut self) -> (&mut WriterLink, Window<'_>) {
        self.begin();
        let (first, rest) = self.ring.as_slices();
        let window = Window {
            base: self.base - self.link.ring_shift(),
            pieces: [first, rest],
        };
        (&mut self.link, window)
    }

    fn free(&mut self) {
        let (freed, _) = self.link.ring_freed();
        self.begin();
        self.ring.drain(..(freed - self.base) as usize);
        self.base = freed;
    }

    /// Elements in the buffer.
    pub fn fill(&self) -> u64 {
        let written = match self.link.options().form {
            ElementForm::Fixed(_) => self.written / SIZE,
            ElementForm::Variable => self.ends.len() as u64,
        };
        written.saturating_sub(self.link.ring_freed().1)
    }

    /// Drops all but the last `keep` elements.
    pub fn drop_all_but(&mut self, keep: u64) {
        let (position, elements) = match self.link.options().form {
            ElementForm::Fixed(_) => {
                let elements = (self.written / SIZE).saturating_sub(keep);
                (elements * SIZE, elements)
            }
            ElementForm::Variable => {
                let elements = self.ends.len().saturating_sub(keep as usize);
                let before = elements.checked_sub(1).map_or(0, |last| self.ends[last]);
                (before, elements as u64)
            }
        };
        let (link, window) = self.window();
        link.drop_before(position, elements, &window);
        self.free();
    }

    pub fn left(&mut self) -> trunkline_proto::stream::Left {
        let (link, window) = self.window();
        link.left(&window)
    }

    /// Writes `count` elements of one size, or none.
    pub fn write(&mut self, count: u64) -> bool {
        self.free();
        if self.fill() + count > self.link.options().capacity {
            self.link.set_short_of_room(true);
            return false;
        }
        self.link.set_short_of_room(false);
        for _ in 0..count {
            self.ring.extend((self.written / SIZE).to_le_bytes());
            self.written += SIZE;
        }
        self.link
            .handle_ring_written(self.written, self.written / SIZE);
        true
    }

    /// Writes an element that varies, or does not.
    pub fn write_varying(&mut self, len: usize) -> bool {
        self.free();
        let kept = self.ends.len() as u64 - self.link.ring_freed().1;
        let bytes = self.written - self.base + 4 + len as u64;
        if kept >= self.link.options().capacity || bytes > self.link.options().bytes_max {
            return false;
        }
        let element = self.ends.len() as u64;
        self.ring.extend((len as u32).to_le_bytes());
        self.ring.extend((0..len).map(|at| byte_of(element, at)));
        self.written += 4 + len as u64;
        self.ends.push(self.written);
        self.link.handle_ring_written(self.written, element + 1);
        true
    }
}

impl ReaderEnd {
    pub fn new(options: LinkOptions, now: Tick) -> Self {
        Self {
            link: ReaderLink::reader(options, now),
            ring: VecDeque::new(),
            base: 0,
            read: 0,
            read_elements: 0,
            next: 0,
            lost: 0,
            caller: None,
        }
    }

    /// A reader that continues from its journal, in which everything was read.
    pub fn restored(link: ReaderLink) -> Self {
        let (read, read_elements) = link.ready();
        Self {
            link,
            ring: VecDeque::new(),
            base: read,
            read,
            read_elements,
            next: read_elements,
            lost: 0,
            caller: None,
        }
    }

    /// Elements in the buffer.
    pub fn fill(&self) -> u64 {
        self.link.ready().1 - self.read_elements
    }

    /// Reads `count` elements of one size, or none, and checks that they are the next ones.
    pub fn read(&mut self, count: u64) -> bool {
        if self.fill() < count {
            return false;
        }
        for at in 0..count {
            self.skip_lost(self.read_elements + at);
            let element: Vec<u8> = self.ring.drain(..SIZE as usize).collect();
            let number = u64::from_le_bytes(element.try_into().unwrap());
            assert_eq!(number, self.next, "the next element");
            self.next += 1;
        }
        self.took(count * SIZE, count);
        true
    }

    /// Reads the next variable-size element, if it has arrived, and checks it.
    pub fn read_varying(&mut self) -> bool {
        if self.fill() == 0 {
            return false;
        }
        let head: Vec<u8> = self.ring.drain(..4).collect();
        let len = u32::from_le_bytes(head.try_into().unwrap()) as usize;
        let element: Vec<u8> = self.ring.drain(..len).collect();
        self.skip_lost(self.read_elements);
        let number = self.read_elements + self.lost;
        let is_right = (0..len).all(|at| element[at] == byte_of(number, at));
        assert!(is_right, "element {number} of {len} bytes");
        self.took(4 + len as u64, 1);
        true
    }

    /// Reports the elements missing before this one to the program.
    fn skip_lost(&mut self, element: u64) {
        while self.link.next_loss().is_some_and(|(at, _)| at <= element) {
            let (at, count) = self.link.take_loss().unwrap();
            assert_eq!(at, element, "told where it is");
            self.lost += count;
            self.next += count;
        }
    }

    /// Reports the elements missing after everything that has arrived.
    pub fn skip_last_lost(&mut self) {
        self.skip_lost(self.read_elements);
    }

    fn took(&mut self, bytes: u64, elements: u64) {
        self.read += bytes;
        self.base += bytes;
        self.read_elements += elements;
        self.link.handle_read(self.read, self.read_elements);
    }

    fn put(&mut self, place: ByteRange, bytes: &[u8]) {
        if self.ring.is_empty() && self.base == 0 && self.read == 0 && place.position > 0 {
            let (at, elements) = self.link.ready();
            if at == place.position {
                // The stream begins where an earlier reader was.
                (self.base, self.read, self.read_elements) = (at, at, elements);
                self.next = at / SIZE;
            }
        }
        let at = (place.position - self.base) as usize;
        assert!(at <= self.ring.len(), "no gap");
        self.ring.truncate(at);
        self.ring.extend(bytes);
        let max = self.link.options().bytes_max;
        assert!(self.ring.len() as u64 <= max, "more than the buffer holds");
    }
}

macro_rules! end {
    ($End:ident) => {
        fn poll_dial(&self) -> Option<Tick> {
            self.link.poll_dial()
        }
        fn dialled(&mut self, now: Tick, id: u64) {
            self.link.handle_dialled(now, id, None);
        }
        fn dial_failed(&mut self, now: Tick, cause: Disconnect) {
            self.link.handle_dial_failed(now, cause);
        }
        fn hello(
            &mut self,
            now: Tick,
            id: u64,
            hello: &StreamHello,
        ) -> Result<Option<u64>, Vec<u8>> {
            match self.link.handle_hello_of(now, id, hello, &self.caller) {
                Ok(accepted) => Ok(accepted.replaced),
                Err(refused) => {
                    let mut out = Vec::new();
                    encode_refused(&refused, &mut out);
                    let mut rest = out.as_slice();
                    Frame::take_from(&mut rest).unwrap().unwrap();
                    Err(out)
                }
            }
        }
        fn poll_timeout(&self) -> Option<Tick> {
            self.link.poll_timeout()
        }
        fn handle_timeout(&mut self, now: Tick) {
            self.link.handle_timeout(now);
        }
        fn connection(&self) -> Option<u64> {
            self.link.connection()
        }
        fn wants_close(&self) -> Option<Disconnect> {
            self.link.wants_close().cloned()
        }
        fn disconnected(&mut self, now: Tick, id: u64, cause: Disconnect) {
            self.link.handle_disconnected(now, id, cause);
        }
    };
}

impl End for WriterEnd {
    end!(WriterEnd);

    fn input(&mut self, now: Tick, id: u64, bytes: &[u8]) {
        assert_eq!(self.link.handle_control(now, id, bytes), bytes.len());
    }

    fn output(&mut self, now: Tick) -> Vec<u8> {
        let mut out = Vec::new();
        let (link, window) = self.window();
        if let Some(ByteRange { position, len }) = link.poll_output(now, &window, &mut out) {
            let pieces = window.bytes(position, len);
            out.extend(pieces.concat());
            let id = link.connection().unwrap();
            link.handle_sent(id);
        }
        self.free();
        out
    }
}

impl End for ReaderEnd {
    end!(ReaderEnd);

    fn input(&mut self, now: Tick, id: u64, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let place = self.link.next_payload_range();
            let is_current = self.link.connection() == Some(id);
            let took = match place.filter(|_| is_current) {
                Some(place) => {
                    let len = (place.len as usize).min(bytes.len());
                    self.put(place, &bytes[..len]);
                    self.link.handle_payload(now, id, &bytes[..len]);
                    len
                }
                None => self.link.handle_control(now, id, bytes),
            };
            bytes = &bytes[took..];
        }
    }

    fn output(&mut self, now: Tick) -> Vec<u8> {
        let mut out = Vec::new();
        assert!(self.link.poll_output(now, &(), &mut out).is_none());
        out
    }
}

/// Options for elements that vary.
pub fn varying(mut options: LinkOptions, capacity: u64, bytes_max: u64) -> LinkOptions {
    options.form = ElementForm::Variable;
    options.capacity = capacity;
    options.bytes_max = bytes_max;
    options
}
