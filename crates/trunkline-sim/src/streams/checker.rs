//! The checker: it is independent of the product, and uses only the elements that programs wrote
//! and read, and the results of their calls.
//!
//! - I1, I2: a reader gets exactly what was accepted: in order, each element once, unaltered.
//! - I3: data reported as received, read or durable has this state.
//! - I4: buffers hold no more than their capacity.
//! - I5: after the heal everything arrives, and every end learns the outcome of its stream.
//! - I6: a call that timed out or failed moved nothing, and the counts of undelivered elements are
//!   right.
//! - I7: a directory keeps a bounded number of bytes for a peer, whatever the peer requests and
//!   whether or not it reads.
//! - I8: an end admits no connection in its peer's name without the secret of the pair.

mod reading;
mod writing;

use std::collections::BTreeMap;

use trunkline_stream::Left;
use trunkline_types::Tick;

use super::content::Kind;
use super::plan::Plan;

/// The part of an incarnation that stays the same over all incarnations of an endpoint.
pub type Lineage = [u8; 8];

/// Counts of what was checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    pub connections: u64,
    /// Elements that were accepted.
    pub written: u64,
    /// Elements that were read, and compared with those written.
    pub delivered: u64,
    /// Calls that timed out and moved nothing.
    pub late: u64,
    /// Completed flushes, each compared with the other end.
    pub flushed: u64,
    /// Ends that were created.
    pub ends: u64,
    /// Readers that learned that their stream is over.
    pub over: u64,
    /// Counts of undelivered elements that were compared.
    pub undelivered: u64,
    /// Ends that continued from a journal.
    pub resumed: u64,
    /// Streams that were complete after the heal.
    pub compared: u64,
}

/// The writer's view of a stream.
#[derive(Clone, Debug, Default)]
pub struct StreamRecord {
    /// Elements that were certainly written, and those that may have been.
    pub accepted: u64,
    pub attempted: u64,
    /// The largest value of `attempted` so far.
    attempted_max: u64,
    /// Elements reported as received and as durable, by reader: a stream whose journal was not
    /// emptied may have another reader later.
    received: BTreeMap<Lineage, u64>,
    durable: BTreeMap<Lineage, u64>,
    /// The undelivered elements of its writer, and true if the writer closed in order.
    left: Option<(Left, bool)>,
    /// The position of a reader that has read everything that arrived.
    finished: Option<u64>,
    /// The writer is gone for good.
    is_over: bool,
    /// The program has closed the stream, so a journal accepts no more.
    pub is_closing: bool,
    /// True if the program has ended the stream in order, false if not in order.
    ending: Option<bool>,
    /// The furthest position reached at any reader.
    reached: u64,
    /// The position of the reader at the heal, if more was left than the remaining time allows.
    behind_at: Option<u64>,
}

/// The reason why a reader gets no more elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamEnd {
    /// The writer closed in order.
    Ended,
    /// The writer aborted, or gave up while closing.
    Aborted {
        /// Bytes that the writer accepted but the reader did not get.
        missing: u64,
    },
    /// Any other reason.
    Fault,
}

/// The state of a reader.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReaderState {
    pub stream: Option<u64>,
    pub next: u64,
    committed: u64,
    commit_attempted: u64,
    /// Elements that this incarnation of the end reports as read.
    total: u64,
    /// Index of its first element.
    base: Option<u64>,
    /// Elements that were written when the reader was created.
    found: u64,
    /// A call returned fewer elements than requested.
    was_short: bool,
}

#[derive(Debug)]
pub struct Checker {
    pub violation: Option<String>,
    kind: Kind,
    takes_successor: bool,
    /// The sides that have journals.
    journals: [bool; 2],
    /// The sides on which a completed call survives a loss of power.
    on_disk: [bool; 2],
    capacity: [u64; 2],
    streams: Vec<StreamRecord>,
    known: BTreeMap<Lineage, u64>,
    readers: BTreeMap<Lineage, ReaderState>,
    /// A process was killed, or a program has ended its end.
    pub is_disturbed: bool,
    /// Confirmed data may be lost.
    pub may_lose: bool,
    /// Data that had arrived may be lost again.
    has_power_failed: bool,
    /// A disk has failed, so that a journal may not have been emptied; or a stream was given up
    /// while the other end was away.
    pub has_failed: bool,
    /// A single element, and the time by which it must be read.
    probe: Option<(u64, Tick)>,
    pub totals: Totals,
    scratch: Vec<u8>,
}

impl Checker {
    pub fn new(plan: &Plan) -> Self {
        let on_disk =
            |side: &super::plan::Side| side.journal == Some(trunkline_stream::Durability::Disk);
        Self {
            violation: None,
            kind: plan.kind,
            takes_successor: plan.takes_successor,
            journals: [0, 1].map(|side| plan.sides[side].journal.is_some()),
            on_disk: [0, 1].map(|side| on_disk(&plan.sides[side])),
            capacity: [0, 1].map(|side| plan.sides[side].capacity as u64),
            streams: Vec::new(),
            known: BTreeMap::new(),
            readers: BTreeMap::new(),
            is_disturbed: false,
            may_lose: false,
            has_power_failed: false,
            has_failed: false,
            probe: None,
            totals: Totals::default(),
            scratch: Vec::new(),
        }
    }

    /// Records a violation; only the first one counts.
    pub fn fail(&mut self, what: impl FnOnce() -> String) {
        if self.violation.is_none() {
            self.violation = Some(what());
        }
    }

    pub fn stream(&self, stream: u64) -> &StreamRecord {
        &self.streams[stream as usize]
    }

    fn stream_mut(&mut self, stream: u64) -> &mut StreamRecord {
        &mut self.streams[stream as usize]
    }

    /// Returns the stream of the writer with this lineage.
    pub fn stream_of(&mut self, lineage: Lineage) -> u64 {
        if let Some(stream) = self.known.get(&lineage) {
            return *stream;
        }
        let stream = self.streams.len() as u64;
        self.streams.push(StreamRecord::default());
        self.known.insert(lineage, stream);
        stream
    }

    /// Called when a process is gone. If its program did not have the reader yet, the reader's position is
    /// unknown.
    pub fn killed(&mut self, side: usize) {
        if side == 1 && self.takes_successor {
            self.streams
                .iter_mut()
                .for_each(|stream| stream.reached = stream.attempted);
        }
    }

    /// Called when both journals were removed: the next stream is a new one.
    pub fn wiped(&mut self) {
        self.is_disturbed = true;
        self.may_lose = false;
        self.known.clear();
        self.readers.clear();
        self.streams
            .iter_mut()
            .for_each(|stream| stream.is_over = true);
    }

    /// Called when a machine has lost power: data that was not durable may be lost.
    pub fn power_failed(&mut self, side: usize) {
        self.has_power_failed |= side == 1;
        if !self.on_disk[side] {
            self.may_lose = true;
        }
    }

    /// Called when a reader has read everything that arrived, and its stream ends for this reason.
    /// `peer` is the writer that it was last connected to.
    pub fn reader_over(&mut self, own: Lineage, peer: Option<Lineage>, end: StreamEnd) {
        self.totals.over += 1;
        let mut reading = self.reader(own);
        let peer = peer.map(|peer| self.stream_of(peer));
        let may_be_another = self.takes_successor || reading.total == 0;
        if may_be_another && peer.is_some() && peer != reading.stream {
            // The peer is a successor of the writer, or the reader's first writer, and none of its elements
            // was read.
            reading.stream = peer;
            (reading.next, reading.base) = (0, reading.base.map(|_| 0));
        }
        let Some(stream) = reading.stream else {
            return;
        };
        let has_failed = self.has_failed && self.journals[0];
        let record = self.stream_mut(stream);
        if reading.base.is_none() {
            return;
        }
        record.finished = Some(reading.next);
        let (next, accepted, attempted) = (reading.next, record.accepted, record.attempted);
        let ending = record.ending;
        let is_whole = (accepted..=attempted).contains(&next);
        match end {
            // If a journal cannot be emptied because of its disk, the stream continues in the next
            // incarnation.
            StreamEnd::Ended | StreamEnd::Aborted { missing: 0 } if has_failed => {}
            StreamEnd::Ended | StreamEnd::Aborted { missing: 0 } if !is_whole => {
                self.fail(|| {
                    format!(
                        "I1: the stream ends after {next} elements, but {accepted} were written"
                    )
                });
            }
            StreamEnd::Ended if ending != Some(true) => {
                self.fail(|| {
                    format!("I1: a reader sees an orderly end, but the writer's end was {ending:?}")
                });
            }
            StreamEnd::Aborted { .. } if ending.is_none() => {
                self.fail(|| {
                    "I1: a stream is aborted, but its program has not ended it".to_owned()
                });
            }
            StreamEnd::Aborted { missing } if missing > 0 && next >= attempted => {
                self.fail(|| format!("I6: {missing} bytes are reported as missing, but none are"));
            }
            _ => {}
        }
        self.compare_ends(stream);
    }

    /// Checks that the elements the writer reports as undelivered are those that the reader lacks.
    fn compare_ends(&mut self, stream: u64) {
        let record = self.stream(stream);
        let (Some((left, in_order)), Some(next)) = (record.left, record.finished) else {
            return;
        };
        let (accepted, attempted) = (record.accepted, record.attempted);
        if accepted != attempted || self.has_power_failed || self.has_failed {
            return;
        }
        self.totals.undelivered += 1;
        let most = accepted.saturating_sub(left.elements - left.in_doubt.min(left.elements));
        let least = accepted.saturating_sub(left.elements);
        if left.elements > accepted || !(least..=most).contains(&next) {
            self.fail(|| {
                format!(
                    "I6: {left:?} of {accepted} elements are reported as undelivered (in order: \
                     {in_order}), but the reader has {next}"
                )
            });
        }
    }

    /// Requires that the last element is read by this time.
    pub fn probe(&mut self, stream: u64, by: Tick) {
        self.probe = Some((self.stream(stream).accepted, by));
    }

    /// Returns true while the probe has not been read.
    pub fn is_probing(&self) -> bool {
        self.probe.is_some()
    }

    /// Checks that the element was read in time.
    pub fn check_probe(&mut self, now: Tick) {
        let Some((count, by)) = self.probe else {
            return;
        };
        let is_read = self.readers.values().any(|reading| reading.next >= count);
        if is_read {
            self.probe = None;
        } else if now > by {
            self.fail(|| "I5: a single element is late without a fault".to_owned());
        }
    }

    /// Checks after the heal that everything was read.
    pub fn compare(&mut self, own: Lineage, stream: u64) {
        let reading = self.reader(own);
        self.totals.compared += 1;
        let record = self.stream(stream);
        let accepted = record.accepted;
        if reading.base.is_none() {
            return;
        }
        if record.behind_at.is_some_and(|before| reading.next > before) {
            return;
        }
        let has_other = reading.stream != Some(stream) && accepted > 0;
        if has_other || (accepted > 0 && reading.next != accepted) {
            self.fail(|| {
                format!(
                    "I5: {} of {accepted} elements of stream {stream} were read 10 s after the heal",
                    reading.next
                )
            });
        }
    }
}
