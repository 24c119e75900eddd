//! Tracks unanswered writes, and packs the answers to consecutive writes into runs.
//!
//! An unanswered write waits behind other requests, is parked until a feed has room, or waits for a
//! provider.

use std::collections::{BTreeMap, VecDeque};

use trunkline_engine::{Consumer, Refusal, WriteOutcome};
use trunkline_proto::message::outcome::{WouldBlock, WriteAnswer};
use trunkline_proto::message::write::{
    WriteAnswersBuilder, WriteAnswersHead, WriteOptions, WriteRecord,
};
use trunkline_proto::{Disconnect, Fault};

use crate::fault::out_of_memory;
use crate::options::ServeOptions;

/// Maximum capacity, in answers, of a list whose memory is retained for reuse.
const RETAINED_ANSWERS_MAX: usize = 4096;

/// A copy of a write that could not be carried out on arrival.
#[derive(Debug)]
pub(crate) struct OwnedWrite {
    /// Number of the write, which the client assigned.
    pub(crate) id: u64,
    pub(crate) handle: u32,
    pub(crate) options: WriteOptions,
    pub(crate) value: Box<[u8]>,
    /// True if the variable's provider published the value.
    pub(crate) is_published: bool,
}

impl OwnedWrite {
    /// Copies a write. Fails if there is not enough memory.
    pub(crate) fn of(write: &WriteRecord<'_>, is_published: bool) -> Result<Self, Fault> {
        let mut value = Vec::new();
        if value.try_reserve_exact(write.value.len()).is_err() {
            return Err(out_of_memory(write.value.len()));
        }
        value.extend_from_slice(write.value);
        Ok(Self {
            id: write.write,
            handle: write.handle,
            options: write.options,
            value: value.into_boxed_slice(),
            is_published,
        })
    }

    pub(crate) fn record(&self) -> WriteRecord<'_> {
        WriteRecord {
            write: self.id,
            handle: self.handle,
            options: self.options,
            value: &self.value,
        }
    }
}

pub(crate) fn bytes_of(writes: &[OwnedWrite]) -> usize {
    let write = |write: &OwnedWrite| size_of::<OwnedWrite>() + write.value.len();
    writes.iter().map(write).sum()
}

/// Writes that wait for room in a feed, and later writes to the same variables, in order.
#[derive(Debug, Default)]
pub(crate) struct Parked {
    pub(crate) writes: VecDeque<OwnedWrite>,
    /// Number of parked writes per variable.
    handles: BTreeMap<u32, usize>,
    bytes: usize,
}

impl Parked {
    pub(crate) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Returns true if a write to this variable is parked.
    pub(crate) fn contains(&self, handle: u32) -> bool {
        self.handles.contains_key(&handle)
    }

    /// Returns the approximate memory of the parked writes in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn push(&mut self, write: OwnedWrite) {
        self.bytes += size_of::<OwnedWrite>() + write.value.len();
        *self.handles.entry(write.handle).or_default() += 1;
        self.writes.push_back(write);
    }
}

/// Writes that have arrived and are not yet answered.
#[derive(Debug, Default)]
pub(crate) struct Unanswered {
    /// The lowest number that the next write may have.
    next: u64,
    /// Number of writes that wait behind other requests or are parked.
    waiting: usize,
    /// Total size of the values of those writes, in bytes.
    waiting_bytes: usize,
    /// Size of the value in bytes of each write that a provider has not answered, by number.
    at_provider: BTreeMap<u64, usize>,
    /// Total size of those values, in bytes.
    at_provider_bytes: usize,
    /// Number of writes answered since [`take_returned`](Self::take_returned) last returned true.
    returned: usize,
    /// Total size of the values of those writes, in bytes.
    returned_bytes: usize,
    /// Answers that have not been encoded.
    pub(crate) run: AnswerRun,
}

impl Unanswered {
    pub(crate) fn count(&self) -> usize {
        self.waiting + self.at_provider.len()
    }

    /// Accepts a frame of `count` writes. Rejects a frame that exceeds the credit or whose numbers do
    /// not increase. This happens before the writes are decoded, because their answers might be far
    /// longer than the frame.
    pub(crate) fn begin(
        &mut self,
        first: u64,
        count: u32,
        options: &ServeOptions,
    ) -> Result<(), Disconnect> {
        let max = options.write_credit_count as usize;
        let unanswered = self.count() + count as usize;
        if unanswered > max {
            let sentence = format!("{unanswered} writes are unanswered, but the credit is {max}");
            return Err(Disconnect::Malformed { sentence });
        }
        let next = first
            .checked_add(u64::from(count))
            .filter(|_| first >= self.next);
        let Some(next) = next else {
            let sentence = format!(
                "the client sent write {first}, but the number must be at least {}: write numbers \
                 must increase",
                self.next
            );
            return Err(Disconnect::Malformed { sentence });
        };
        self.next = next;
        Ok(())
    }

    /// Rejects a client if the values of its unanswered writes exceed the credit in bytes.
    pub(crate) fn check_bytes(&self, options: &ServeOptions) -> Result<(), Disconnect> {
        let (bytes, max) = (
            self.waiting_bytes + self.at_provider_bytes,
            options.write_credit_bytes,
        );
        // A single value may be longer than the credit, if no other write is unanswered.
        if bytes <= max as usize || self.count() <= 1 {
            return Ok(());
        }
        let sentence = format!(
            "the values of the unanswered writes have {bytes} bytes, but the credit is {max} bytes"
        );
        Err(Disconnect::Malformed { sentence })
    }

    /// Counts a write that has to wait. `bytes` is the size of its value.
    pub(crate) fn add_waiting(&mut self, bytes: usize) {
        self.waiting += 1;
        self.waiting_bytes += bytes;
    }

    /// Counts a write that waited and was then carried out.
    pub(crate) fn remove_waiting(&mut self, bytes: usize) {
        self.waiting -= 1;
        self.waiting_bytes -= bytes;
        self.return_credit(1, bytes);
    }

    pub(crate) fn return_credit(&mut self, writes: usize, bytes: usize) {
        self.returned = self.returned.saturating_add(writes);
        self.returned_bytes = self.returned_bytes.saturating_add(bytes);
    }

    /// Returns true if at least a quarter of the credit was returned since the last call that
    /// returned true. The answers must then be sent, because a client that writes at full speed needs
    /// the credit.
    pub(crate) fn take_returned(&mut self, options: &ServeOptions) -> bool {
        let is_due = self.returned >= (options.write_credit_count / 4).max(1) as usize
            || self.returned_bytes >= (options.write_credit_bytes / 4).max(1) as usize;
        if is_due {
            (self.returned, self.returned_bytes) = (0, 0);
        }
        is_due
    }

    /// Counts a write that was passed to a provider.
    pub(crate) fn add_at_provider(&mut self, id: u64, bytes: usize) {
        self.at_provider.insert(id, bytes);
        self.at_provider_bytes += bytes;
    }

    /// Counts a write that a provider has answered.
    pub(crate) fn remove_at_provider(&mut self, id: u64) {
        let bytes = self.at_provider.remove(&id).unwrap_or_default();
        self.at_provider_bytes -= bytes;
        self.return_credit(1, bytes);
    }

    /// Appends the answers to writes that a provider has answered.
    pub(crate) fn answer_completions(&mut self, consumer: &mut Consumer, out: &mut Vec<u8>) {
        while let Some((id, outcome)) = consumer.take_completion() {
            self.remove_at_provider(id);
            let answer = CompactAnswer::from(Answer::Outcome(outcome));
            self.run.push(out, id, answer);
        }
        self.run.flush(out);
    }
}

/// The outcome of a write, before it is encoded.
#[derive(Debug)]
pub(crate) enum Answer {
    Outcome(WriteOutcome),
    Fault(Fault),
    WouldBlock,
}

/// Answers to writes with consecutive numbers.
#[derive(Debug, Default)]
pub(crate) struct AnswerRun {
    /// Number of the first write of the run.
    first: u64,
    answers: Vec<CompactAnswer>,
}

/// An [`Answer`] in a run. The type is small, because there can be thousands of answers.
#[derive(Debug)]
pub(crate) enum CompactAnswer {
    /// The write was applied with this sequence number.
    Applied(u64),
    Other(Box<Answer>),
}

impl From<Answer> for CompactAnswer {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Outcome(WriteOutcome::Applied(sequence)) => CompactAnswer::Applied(sequence),
            answer => CompactAnswer::Other(Box::new(answer)),
        }
    }
}

impl AnswerRun {
    /// Adds the answer to the write with number `id`. Encodes the run first if `id` does not follow
    /// its last number.
    pub(crate) fn push(&mut self, out: &mut Vec<u8>, id: u64, answer: CompactAnswer) {
        if self.first.wrapping_add(self.answers.len() as u64) != id {
            self.flush(out);
            self.first = id;
        }
        self.answers.push(answer);
    }

    pub(crate) fn flush(&mut self, out: &mut Vec<u8>) {
        if self.answers.is_empty() {
            return;
        }
        let head = WriteAnswersHead {
            first_write: self.first,
        };
        let mut frame = WriteAnswersBuilder::begin(out, 0, &head);
        for answer in self.answers.drain(..) {
            match answer {
                CompactAnswer::Applied(sequence) => {
                    frame.push(&WriteAnswer::Applied(sequence));
                }
                CompactAnswer::Other(answer) => with_wire(&answer, |wire| frame.push(wire)),
            }
        }
        frame.finish(false);
        if self.answers.capacity() > RETAINED_ANSWERS_MAX {
            self.answers = Vec::new();
        }
    }
}

/// Converts an answer to the form of the protocol, and passes it to `push`.
pub(crate) fn with_wire(answer: &Answer, push: impl FnOnce(&WriteAnswer<'_>)) {
    use WriteAnswer as Wire;
    let fault;
    push(&match answer {
        Answer::Outcome(WriteOutcome::Applied(sequence)) => Wire::Applied(*sequence),
        Answer::Outcome(WriteOutcome::Unchanged(sequence)) => Wire::Unchanged(*sequence),
        Answer::Outcome(WriteOutcome::Superseded) => Wire::Superseded,
        Answer::Outcome(WriteOutcome::Refused(refusal)) => {
            fault = Fault::from(refusal);
            Wire::Refused(fault.as_ref())
        }
        Answer::Outcome(WriteOutcome::Unknown(cause)) => {
            fault = Fault::from(cause);
            Wire::Unknown(fault.as_ref())
        }
        Answer::Outcome(WriteOutcome::NotTried(never)) => match *never {},
        Answer::Fault(fault) => Wire::Refused(fault.as_ref()),
        Answer::WouldBlock => Wire::NotTried(WouldBlock),
    });
}

/// Checks that a refusal is small, because there can be thousands of answers.
const _: () = assert!(size_of::<Refusal>() <= 64);
