//! Checks the guarantees of streams. The checker is independent of the product: it uses only the
//! elements that programs wrote and read, and the results of their calls.
//!
//! - I1, I2: a reader receives exactly the accepted elements: in order, each once, unaltered.
//! - I3: data that is reported as received, read or durable has this state.
//! - I4: a buffer never contains more than its capacity.
//! - I5: after all faults have ended, all data arrives, and every endpoint learns the outcome of its
//!   stream.
//! - I6: a call that timed out or failed has moved no elements, and the counts of undelivered elements
//!   are correct.
//! - I7: a directory stores a bounded number of bytes for a peer, regardless of what the peer requests
//!   and reads.
//! - I8: an endpoint admits no connection as its peer without the secret of the pair.

mod reading;
mod writing;

use std::collections::BTreeMap;

use trunkline_stream::Left;
use trunkline_types::Tick;

use super::content::Kind;
use super::plan::Plan;

/// The part of an incarnation that is the same for all incarnations of an endpoint.
pub type Lineage = [u8; 8];

/// Counts of what was checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    pub connections: u64,
    /// Elements that were accepted.
    pub written: u64,
    /// Elements that were read, and compared with the written ones.
    pub delivered: u64,
    /// Calls that timed out and moved no elements.
    pub late: u64,
    /// Completed flushes, each compared with the state of the reader.
    pub flushed: u64,
    /// Endpoints that were created.
    pub ends: u64,
    /// Readers that learned that their stream has ended.
    pub over: u64,
    /// Counts of undelivered elements that were compared.
    pub undelivered: u64,
    /// Endpoints that continued from a journal.
    pub resumed: u64,
    /// Streams that were compared after all faults had ended.
    pub compared: u64,
}

/// The record of a stream.
#[derive(Clone, Debug, Default)]
pub struct StreamRecord {
    /// Number of elements that the writer has accepted.
    pub accepted: u64,
    /// Number of elements that the writer may have accepted, including those of the current call.
    pub attempted: u64,
    /// The largest value of `attempted` so far.
    attempted_max: u64,
    /// Number of elements that were reported as received, by reader. A stream whose journal was not
    /// emptied may later have another reader.
    received: BTreeMap<Lineage, u64>,
    /// Number of elements that were reported as durable, by reader.
    durable: BTreeMap<Lineage, u64>,
    /// The undelivered elements that the writer reported when it ended, and true if it was closed in
    /// order.
    left: Option<(Left, bool)>,
    /// Final position of a reader that has read all elements that arrived.
    finished: Option<u64>,
    /// True if the stream has no writer and cannot continue.
    is_over: bool,
    /// True if the program has closed the stream, so that the journal accepts no more elements.
    pub is_closing: bool,
    /// True if the program has closed the stream in order, false if it has aborted the stream.
    ending: Option<bool>,
    /// The highest position that has arrived at any reader.
    reached: u64,
    /// Position of the reader when all faults ended, if the backlog was too long for the remaining time.
    behind_at: Option<u64>,
}

/// The reason why a reader receives no more elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamEnd {
    /// The writer closed in order.
    Ended,
    /// The writer aborted the stream, or stopped waiting while it was closing.
    Aborted {
        /// Number of bytes that the writer accepted and the reader did not receive.
        missing: u64,
    },
    /// The stream ended with a fault.
    Fault,
}

/// The state of a reader.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReaderState {
    /// The stream that it reads; `None` if not known.
    pub stream: Option<u64>,
    /// Index of the next element in the stream.
    pub next: u64,
    /// Number of elements that were certainly committed.
    committed: u64,
    /// Number of elements that may have been committed.
    commit_attempted: u64,
    /// Number of elements that this incarnation of the endpoint reports as read.
    total: u64,
    /// Index of the first element that it has read; `None` if not known.
    base: Option<u64>,
    /// Number of elements that had been written when the reader was created.
    found: u64,
    /// True if the last read returned fewer elements than requested.
    was_short: bool,
}

#[derive(Debug)]
pub struct Checker {
    pub violation: Option<String>,
    kind: Kind,
    accepts_successor: bool,
    /// True for each side that has a journal.
    journals: [bool; 2],
    /// True for each side on which the data of a completed call survives a power loss.
    on_disk: [bool; 2],
    /// Capacity of the buffer of each side, in elements.
    capacity: [u64; 2],
    streams: Vec<StreamRecord>,
    /// Number of each stream, by the lineage of its writer.
    known: BTreeMap<Lineage, u64>,
    readers: BTreeMap<Lineage, ReaderState>,
    /// True after a process was killed, or a program has ended its endpoint.
    pub is_disturbed: bool,
    /// True if confirmed data may be lost.
    pub may_lose: bool,
    /// True if data that had arrived at the reader may be lost again.
    has_power_failed: bool,
    /// True if a disk has failed, so that a journal may not have been emptied, or if a stream was aborted
    /// while the reader was not connected.
    pub has_failed: bool,
    /// Position that a reader must reach, and the time by which it must do so.
    probe: Option<(u64, Tick)>,
    pub totals: Totals,
    /// Buffer for the expected element.
    scratch: Vec<u8>,
}

impl Checker {
    pub fn new(plan: &Plan) -> Self {
        let on_disk =
            |side: &super::plan::Side| side.journal == Some(trunkline_stream::Durability::Disk);
        Self {
            violation: None,
            kind: plan.kind,
            accepts_successor: plan.accepts_successor,
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

    /// Records a violation, unless there is one already.
    pub fn fail(&mut self, violation: impl FnOnce() -> String) {
        if self.violation.is_none() {
            self.violation = Some(violation());
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

    /// Called when a process was killed. If the program had not received its reader, the position of the
    /// reader is unknown.
    pub fn killed(&mut self, side: usize) {
        if side == 1 && self.accepts_successor {
            self.streams
                .iter_mut()
                .for_each(|stream| stream.reached = stream.attempted);
        }
    }

    /// Called when both journals were removed. The next stream is then a new one.
    pub fn wiped(&mut self) {
        self.is_disturbed = true;
        self.may_lose = false;
        self.known.clear();
        self.readers.clear();
        self.streams
            .iter_mut()
            .for_each(|stream| stream.is_over = true);
    }

    /// Called when a machine has lost power. Data that was not durable may be lost.
    pub fn power_failed(&mut self, side: usize) {
        self.has_power_failed |= side == 1;
        if !self.on_disk[side] {
            self.may_lose = true;
        }
    }

    /// Called when a reader has read all elements that arrived, and the stream has ended. `peer` is the
    /// writer to which the reader was last connected.
    pub fn reader_over(&mut self, own: Lineage, peer: Option<Lineage>, end: StreamEnd) {
        self.totals.over += 1;
        let mut reading = self.reader(own);
        let peer = peer.map(|peer| self.stream_of(peer));
        let may_be_another = self.accepts_successor || reading.total == 0;
        if may_be_another && peer.is_some() && peer != reading.stream {
            // The peer is the first writer or a successor, and the reader has read none of its elements.
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
            // If a failed disk prevents a journal from being emptied, the next incarnation continues the
            // stream.
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

    /// Checks that the writer reports exactly the elements as undelivered that the reader has not received.
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
        let next_max = accepted.saturating_sub(left.elements - left.in_doubt.min(left.elements));
        let next_min = accepted.saturating_sub(left.elements);
        if left.elements > accepted || !(next_min..=next_max).contains(&next) {
            self.fail(|| {
                format!(
                    "I6: {left:?} of {accepted} elements are reported as undelivered (in order: \
                     {in_order}), but the reader has {next}"
                )
            });
        }
    }

    /// Requires that the last accepted element is read by this time.
    pub fn probe(&mut self, stream: u64, by: Tick) {
        self.probe = Some((self.stream(stream).accepted, by));
    }

    /// Returns true while the probe has not been read.
    pub fn is_probing(&self) -> bool {
        self.probe.is_some()
    }

    /// Checks that the probe was read in time.
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

    /// Called some time after all faults have ended. Checks that all elements were read.
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
