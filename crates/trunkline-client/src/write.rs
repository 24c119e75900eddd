//! Writing: any number of writes are on their way at once, and every one has an outcome.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use trunkline_proto::message::outcome::WriteOutcome as WireOutcome;
use trunkline_proto::message::write::{WriteBuilder, WriteOptions};
use trunkline_proto::message::write_answers::WriteAnswers;
use trunkline_proto::{Disconnect, Fault, FaultCode, Frame};
use trunkline_types::wire::{VALUE_BYTES_MAX, encoded_len};
use trunkline_types::{Contract, Position, Value};

use crate::client::ClientCore;
use crate::error::WriteError;
use crate::request::malformed;
use crate::variable::VariableRef;

/// Room in a message for what goes with a value.
const RECORD_BYTES: usize = 256;
/// An emptied queue with more room than this gives it back.
const KEPT_WRITES_MAX: usize = 4096;

/// One value for one variable.
#[derive(Clone, PartialEq, Debug)]
pub struct Write {
    /// The variable.
    pub variable: VariableRef,
    /// The value, of the variable's type.
    pub value: Value,
    /// Source timestamp, quality and mode.
    pub options: WriteOptions,
}

/// Writes of one call; their outcomes are taken together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WriteBatchId(u64);

/// How a write ended. Every write ends in exactly one of these ways.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum WriteOutcome {
    /// It became the update at this position.
    Applied(Position),
    /// It was within the deadband of the update at this position: nothing changed.
    Unchanged(Position),
    /// A later write took its place before it was carried out (write mode `newest`).
    Superseded,
    /// It was refused, and by which rule. Nothing changed.
    Refused(Fault),
    /// It would have had to wait, and was asked not to. Nothing changed; it may be tried again.
    WouldBlock,
    /// Whether it was carried out is not known, and why.
    Unknown(Fault),
}

/// What became of all writes of a client: those issued are all others together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriteCounts {
    /// Accepted by [`ClientCore::write`].
    pub issued: u64,
    /// Ended as applied.
    pub applied: u64,
    /// Ended as unchanged.
    pub unchanged: u64,
    /// Ended as superseded.
    pub superseded: u64,
    /// Ended as refused.
    pub refused: u64,
    /// Ended as would-block.
    pub would_block: u64,
    /// Ended as unknown.
    pub unknown: u64,
    /// Not sent yet.
    pub waiting: u64,
    /// Sent, and not answered yet.
    pub in_flight: u64,
}

/// The writes of a client.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    unsent: VecDeque<Unsent>,
    unsent_bytes: usize,
    in_flight: BTreeMap<u64, InFlight>,
    in_flight_bytes: usize,
    next_write: u64,
    batches: BTreeMap<u64, Batch>,
    /// Outcomes of batches, those to come included.
    tracked: usize,
    /// What the engine grants on this connection.
    credit_count: usize,
    credit_bytes: usize,
    counts: WriteCounts,
    /// The last write that was refused or unknown, whoever asked.
    last_fault: Option<Fault>,
}

#[derive(Debug)]
struct Unsent {
    order: u64,
    write: Write,
    bytes: u32,
    place: Option<Place>,
}

#[derive(Debug)]
struct InFlight {
    variable: VariableRef,
    bytes: u32,
    place: Option<Place>,
}

/// Where an outcome is expected.
#[derive(Clone, Copy, Debug)]
struct Place {
    batch: u64,
    index: u32,
}

#[derive(Debug)]
struct Batch {
    outcomes: Vec<Option<WriteOutcome>>,
    open: usize,
}

impl Write {
    /// A write of `value`, stamped and judged by the engine.
    pub fn new(variable: VariableRef, value: Value) -> Self {
        Self { variable, value, options: WriteOptions::default() }
    }
}

impl Writes {
    /// The connection is up, and the engine grants this much.
    pub(crate) fn connected(&mut self, credit_count: u32, credit_bytes: u32) {
        self.credit_count = (credit_count as usize).max(1);
        self.credit_bytes = credit_bytes as usize;
    }

    /// The number of the next write to be sent, if the credit allows one. A value longer than the whole
    /// credit is sent alone.
    pub(crate) fn front(&self) -> Option<u64> {
        let front = self.unsent.front()?;
        let bytes = self.in_flight_bytes + front.bytes as usize;
        let fits = self.in_flight.len() < self.credit_count
            && (self.in_flight.is_empty() || bytes <= self.credit_bytes);
        fits.then_some(front.order)
    }

    pub(crate) fn counts(&self) -> WriteCounts {
        let (waiting, in_flight) = (self.unsent.len() as u64, self.in_flight.len() as u64);
        WriteCounts { waiting, in_flight, ..self.counts }
    }

    /// Writes that have not ended.
    pub(crate) fn open(&self) -> usize {
        self.unsent.len() + self.in_flight.len()
    }

    fn end(&mut self, place: Option<Place>, outcome: WriteOutcome) {
        let count = match &outcome {
            WriteOutcome::Applied(_) => &mut self.counts.applied,
            WriteOutcome::Unchanged(_) => &mut self.counts.unchanged,
            WriteOutcome::Superseded => &mut self.counts.superseded,
            WriteOutcome::Refused(_) => &mut self.counts.refused,
            WriteOutcome::WouldBlock => &mut self.counts.would_block,
            WriteOutcome::Unknown(_) => &mut self.counts.unknown,
        };
        *count += 1;
        if let WriteOutcome::Refused(fault) | WriteOutcome::Unknown(fault) = &outcome {
            self.last_fault = Some(fault.clone());
        }
        let Some(place) = place else { return };
        let Some(batch) = self.batches.get_mut(&place.batch) else { return };
        if let Some(slot @ None) = batch.outcomes.get_mut(place.index as usize) {
            *slot = Some(outcome);
            batch.open -= 1;
        }
    }

    fn pop_unsent(&mut self) -> Option<Unsent> {
        let unsent = self.unsent.pop_front()?;
        self.unsent_bytes -= unsent.bytes as usize;
        if self.unsent.is_empty() && self.unsent.capacity() > KEPT_WRITES_MAX {
            self.unsent = VecDeque::new();
        }
        Some(unsent)
    }
}

impl ClientCore {
    /// Writes values. The call returns at once; [`take_outcomes`](Self::take_outcomes) has the outcomes
    /// when all of them are known. Writes are sent in the order they were made, many to a frame.
    ///
    /// While there is no connection they wait, and are sent on the next one. Those that were sent and not
    /// answered when it broke end as unknown: nobody can say whether the engine carried them out.
    ///
    /// # Errors
    /// [`WriteError::WouldBlock`] when too many writes wait already: none of these is accepted.
    pub fn write(
        &mut self,
        writes: impl IntoIterator<Item = Write>,
    ) -> Result<WriteBatchId, WriteError> {
        let writes: Vec<Write> = writes.into_iter().collect();
        self.check_writes(&writes)?;
        let tracked = self.writes.tracked + writes.len();
        if self.writes.tracked > 0 && tracked > self.options.writes_max {
            return Err(WriteError::OutcomesNotTaken { waiting: self.writes.tracked });
        }
        let order = self.requests.next_order();
        let outcomes = writes.iter().map(|_| None).collect();
        self.writes.batches.insert(order, Batch { outcomes, open: writes.len() });
        self.writes.tracked = tracked;
        for (write, index) in writes.into_iter().zip(0..) {
            self.accept(order, write, Some(Place { batch: order, index }));
        }
        self.changes += 1;
        Ok(WriteBatchId(order))
    }

    /// As [`write`](Self::write), for writes whose outcomes nobody takes one by one: they are counted in
    /// [`write_counts`](Self::write_counts), and the last fault is kept.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_untracked(
        &mut self,
        writes: impl IntoIterator<Item = Write>,
    ) -> Result<(), WriteError> {
        let writes: Vec<Write> = writes.into_iter().collect();
        self.check_writes(&writes)?;
        let order = self.requests.next_order();
        for write in writes {
            self.accept(order, write, None);
        }
        Ok(())
    }

    /// Whether the writes find room.
    fn check_writes(&self, writes: &[Write]) -> Result<(), WriteError> {
        if let Some(cause) = self.connection.closed() {
            return Err(WriteError::Closed { cause: Arc::clone(cause) });
        }
        let bytes: usize = writes.iter().map(|write| encoded_len(&write.value)).sum();
        let (waiting, waiting_bytes) = (self.writes.unsent.len(), self.writes.unsent_bytes);
        let fits = waiting + writes.len() <= self.options.writes_max
            && waiting_bytes + bytes <= self.options.write_bytes_max;
        // What alone is more than the bound could otherwise never be written.
        if fits || waiting == 0 {
            return Ok(());
        }
        Err(WriteError::WouldBlock { waiting, bytes: waiting_bytes })
    }

    /// Queues a write. One that can never succeed is refused when its turn comes, as all others are.
    fn accept(&mut self, order: u64, write: Write, place: Option<Place>) {
        self.writes.counts.issued += 1;
        self.variables.retain(write.variable);
        let bytes = u32::try_from(encoded_len(&write.value)).unwrap_or(u32::MAX);
        self.writes.unsent_bytes += bytes as usize;
        self.writes.unsent.push_back(Unsent { order, write, bytes, place });
    }

    /// The outcomes, once all of them are known, in the order of the writes; afterwards they are gone.
    pub fn take_outcomes(&mut self, batch: WriteBatchId) -> Option<Vec<WriteOutcome>> {
        if !self.is_settled(batch) {
            return None;
        }
        let batch = self.writes.batches.remove(&batch.0)?;
        self.writes.tracked -= batch.outcomes.len();
        Some(batch.outcomes.into_iter().flatten().collect())
    }

    /// Whether every outcome of the batch is known.
    pub fn is_settled(&self, batch: WriteBatchId) -> bool {
        self.writes.batches.get(&batch.0).is_some_and(|batch| batch.open == 0)
    }

    /// Nobody will take the outcomes; the writes go on, and are counted.
    pub fn forget_writes(&mut self, batch: WriteBatchId) {
        if let Some(batch) = self.writes.batches.remove(&batch.0) {
            self.writes.tracked -= batch.outcomes.len();
        }
    }

    /// What became of all writes so far.
    pub fn write_counts(&self) -> WriteCounts {
        self.writes.counts()
    }

    /// Why the last write that was refused, or is unknown, ended so.
    pub fn last_write_fault(&self) -> Option<&Fault> {
        self.writes.last_fault.as_ref()
    }

    /// Appends a WRITE frame of writes made before the request `before`, up to `end` bytes of `out`.
    pub(crate) fn send_writes(&mut self, before: u64, page: usize, out: &mut Vec<u8>) {
        let message_max = self.connection.message_max();
        let mut frame = WriteBuilder::begin(out, self.writes.next_write);
        while self.writes.front().is_some_and(|order| order < before) && frame.len_bytes() < page {
            let Some(unsent) = self.writes.pop_unsent() else { break };
            let Unsent { write, bytes, place, .. } = unsent;
            let handle = check_write(&self.variables, &write, bytes as usize, message_max);
            self.variables.release(write.variable);
            let handle = match handle {
                Ok(handle) => handle,
                Err(fault) => {
                    self.writes.end(place, WriteOutcome::Refused(fault));
                    self.changes += 1;
                    continue;
                }
            };
            let number = frame.push_value(handle, &write.options, &write.value);
            self.writes.next_write = number + 1;
            self.writes.in_flight_bytes += bytes as usize;
            self.writes.in_flight.insert(number, InFlight { variable: write.variable, bytes, place });
        }
        frame.finish();
    }

    pub(crate) fn handle_write_answers(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let epoch = self.connection.session().map_or(0, |session| session.epoch);
        for answer in WriteAnswers::decode(frame)? {
            let (number, outcome) = answer?;
            let Some(write) = self.writes.in_flight.remove(&number) else {
                let sentence = format!("write {number} is answered, which is not on its way");
                return Err(malformed(sentence));
            };
            self.writes.in_flight_bytes -= write.bytes as usize;
            let position = |sequence| Position { epoch, sequence };
            let outcome = match outcome {
                WireOutcome::Applied { sequence } => {
                    self.remember_own(write.variable, sequence);
                    WriteOutcome::Applied(position(sequence))
                }
                WireOutcome::Unchanged { sequence } => WriteOutcome::Unchanged(position(sequence)),
                WireOutcome::Superseded => WriteOutcome::Superseded,
                WireOutcome::Refused(fault) => WriteOutcome::Refused(fault.to_fault()),
                WireOutcome::WouldBlock => WriteOutcome::WouldBlock,
                WireOutcome::Unknown(fault) => WriteOutcome::Unknown(fault.to_fault()),
            };
            self.writes.end(write.place, outcome);
            self.changes += 1;
        }
        Ok(())
    }

    /// The answer to a write precedes its update: under `all`, whose runs are the same for all sessions,
    /// the mark is set here.
    fn remember_own(&mut self, variable: VariableRef, sequence: u64) {
        let Some(known) = self.variables.get(variable) else { return };
        for (wire, item) in &known.items {
            let Some(wire) = self.wires.get_mut(*wire) else { continue };
            if matches!(wire.terms.contract, Contract::All { .. })
                && let Some(item) = wire.item_mut(*item)
            {
                item.remember_own(sequence);
            }
        }
    }

    /// The connection is gone: nobody will answer what was sent.
    pub(crate) fn writes_disconnected(&mut self, cause: &Disconnect) {
        let sentence = format!(
            "the connection was lost before the engine answered, the write may have been carried out: \
             {cause}"
        );
        let fault = Fault::new(FaultCode::TimedOut, sentence);
        self.writes.in_flight_bytes = 0;
        for (_, write) in std::mem::take(&mut self.writes.in_flight) {
            self.writes.end(write.place, WriteOutcome::Unknown(fault.clone()));
        }
    }

    /// No connection will be made: what was not sent never will be.
    pub(crate) fn refuse_unsent(&mut self, fault: &Fault) {
        while let Some(unsent) = self.writes.pop_unsent() {
            self.variables.release(unsent.write.variable);
            self.writes.end(unsent.place, WriteOutcome::Refused(fault.clone()));
        }
    }
}

/// The handle to write to, or why the write is refused at this end.
fn check_write(
    variables: &crate::variable::Variables,
    write: &Write,
    bytes: usize,
    message_max: usize,
) -> Result<u32, Fault> {
    let handle = variables.handle(write.variable)?;
    let data_type = variables.get(write.variable).and_then(|v| v.data_type.as_ref());
    if let Some(data_type) = data_type
        && !write.options.raw
        && !write.value.has_type(data_type)
    {
        let sentence = format!("the variable is {data_type}, the value is not; write one that is");
        return Err(Fault::new(FaultCode::WrongType, sentence));
    }
    let max = VALUE_BYTES_MAX.min(message_max.saturating_sub(RECORD_BYTES));
    if bytes > max {
        let sentence = format!("the value has {bytes} bytes; {max} is the limit, use a stream");
        return Err(Fault::new(FaultCode::TooLarge, sentence));
    }
    Ok(handle)
}
