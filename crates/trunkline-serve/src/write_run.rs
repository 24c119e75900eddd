//! Writes from their arrival to the answer. They wait, are parked or are at a provider; then they
//! are outcomes in packed runs.

use std::collections::{BTreeMap, VecDeque};

use trunkline_engine::{Consumer, Refusal, WriteOutcome};
use trunkline_proto::message::outcome::{WouldBlock, WriteAnswer};
use trunkline_proto::message::write::{
    WriteAnswersBuilder, WriteAnswersHead, WriteOptions, WriteRecord,
};
use trunkline_proto::{Disconnect, Fault};

use crate::fault::out_of_memory;
use crate::options::ServeOptions;

/// Maximum capacity, in answers, of a list that is retained for reuse.
const KEPT_ANSWERS_MAX: usize = 4096;

/// One write that could not be carried out on arrival.
#[derive(Debug)]
pub(crate) struct OwnedWrite {
    pub(crate) id: u64,
    pub(crate) handle: u32,
    pub(crate) options: WriteOptions,
    pub(crate) value: Box<[u8]>,
    /// True if the variable's provider published it.
    pub(crate) is_published: bool,
}

impl OwnedWrite {
    /// Returns a copy of a write, if there is enough memory for it.
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

    pub(crate) fn holds(&self, handle: u32) -> bool {
        self.handles.contains_key(&handle)
    }

    /// Returns the approximate memory in bytes.
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
    /// The minimum id of the next write.
    next: u64,
    /// Number of writes that wait behind other requests or are parked.
    waiting: usize,
    waiting_bytes: usize,
    /// Writes at a provider, with the bytes of their values.
    provided: BTreeMap<u64, usize>,
    provided_bytes: usize,
    /// Credit returned by answers since it last reached a quarter of the total: number of writes,
    /// and bytes.
    returned: usize,
    returned_bytes: usize,
    /// Answers that are not encoded yet.
    pub(crate) run: Run,
}

impl Unanswered {
    pub(crate) fn count(&self) -> usize {
        self.waiting + self.provided.len()
    }

    /// Accepts a frame of `count` writes. A frame that violates the credit or the order of ids is
    /// rejected before it is read, because its answers alone might be far longer than the frame.
    pub(crate) fn begin(
        &mut self,
        first: u64,
        count: u32,
        options: &ServeOptions,
    ) -> Result<(), Disconnect> {
        let max = options.write_credit_count as usize;
        let unanswered = self.count() + count as usize;
        if unanswered > max {
            let sentence = format!("{unanswered} writes are unanswered; {max} were granted");
            return Err(Disconnect::Malformed { sentence });
        }
        let next = first
            .checked_add(u64::from(count))
            .filter(|_| first >= self.next);
        let Some(next) = next else {
            let sentence = format!("write {first} follows write {}; numbers ascend", self.next);
            return Err(Disconnect::Malformed { sentence });
        };
        self.next = next;
        Ok(())
    }

    /// Rejects a client whose unanswered writes have more bytes than it was granted.
    pub(crate) fn check_bytes(&self, options: &ServeOptions) -> Result<(), Disconnect> {
        let (bytes, max) = (
            self.waiting_bytes + self.provided_bytes,
            options.write_credit_bytes,
        );
        // One value may be longer than the credit; it is sent alone.
        if bytes <= max as usize || self.count() <= 1 {
            return Ok(());
        }
        let sentence = format!("values of {bytes} bytes are unanswered; {max} were granted");
        Err(Disconnect::Malformed { sentence })
    }

    pub(crate) fn wait(&mut self, bytes: usize) {
        self.waiting += 1;
        self.waiting_bytes += bytes;
    }

    pub(crate) fn go_on(&mut self, bytes: usize) {
        self.waiting -= 1;
        self.waiting_bytes -= bytes;
        self.give_back(1, bytes);
    }

    pub(crate) fn give_back(&mut self, writes: usize, bytes: usize) {
        self.returned = self.returned.saturating_add(writes);
        self.returned_bytes = self.returned_bytes.saturating_add(bytes);
    }

    /// Returns true if a quarter of the credit was returned since this last returned true. A client
    /// that writes at full speed needs the credit soon, so its answers are then no longer gathered.
    pub(crate) fn take_returned(&mut self, options: &ServeOptions) -> bool {
        let is_much = self.returned >= (options.write_credit_count / 4).max(1) as usize
            || self.returned_bytes >= (options.write_credit_bytes / 4).max(1) as usize;
        if is_much {
            (self.returned, self.returned_bytes) = (0, 0);
        }
        is_much
    }

    pub(crate) fn provide(&mut self, id: u64, bytes: usize) {
        self.provided.insert(id, bytes);
        self.provided_bytes += bytes;
    }

    pub(crate) fn answer(&mut self, id: u64) {
        let bytes = self.provided.remove(&id).unwrap_or_default();
        self.provided_bytes -= bytes;
        self.give_back(1, bytes);
    }

    /// Appends the answers to writes whose provider has answered.
    pub(crate) fn answer_completions(&mut self, consumer: &mut Consumer, out: &mut Vec<u8>) {
        while let Some((id, outcome)) = consumer.take_completion() {
            self.answer(id);
            let answer = Packed::from(Answer::Outcome(outcome));
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

/// Answers in the order of their ids. A missing id ends the run.
#[derive(Debug, Default)]
pub(crate) struct Run {
    first: u64,
    answers: Vec<Packed>,
}

/// An answer that waits for the end of its run. It is small, because there are thousands of them.
#[derive(Debug)]
pub(crate) enum Packed {
    Applied(u64),
    Other(Box<Answer>),
}

impl From<Answer> for Packed {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Outcome(WriteOutcome::Applied(sequence)) => Packed::Applied(sequence),
            answer => Packed::Other(Box::new(answer)),
        }
    }
}

impl Run {
    pub(crate) fn push(&mut self, out: &mut Vec<u8>, id: u64, answer: Packed) {
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
                Packed::Applied(sequence) => {
                    frame.push(&WriteAnswer::Applied(sequence));
                }
                Packed::Other(answer) => with_wire(&answer, |wire| frame.push(wire)),
            }
        }
        frame.finish(false);
        if self.answers.capacity() > KEPT_ANSWERS_MAX {
            self.answers = Vec::new();
        }
    }
}

/// Passes an answer to `push`, converted into the protocol's form.
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

/// Limits the size of a refusal, because there are thousands of answers.
const _: () = assert!(size_of::<Refusal>() <= 64);
