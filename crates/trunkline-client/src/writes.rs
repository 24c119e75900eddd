//! Sends writes, many of which can be in flight at once, and records the outcome of each.
//!
//! A write waits in the queue, is sent as soon as the write credit allows, and is answered by its
//! number. The outcome is stored until the program takes it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use trunkline_proto::message::outcome::{WouldBlock, WriteAnswer};
use trunkline_proto::message::write::{WriteAnswers, WriteBuilder, WriteOptions, WriteVerb};
use trunkline_proto::{Agreement, Disconnect, Fault, FaultCode, Features, Frame};
use trunkline_types::wire::{VALUE_BYTES_MAX, encode_value, encoded_len};
use trunkline_types::{Position, Tick, Value};

use crate::client_state::ClientState;
use crate::connection::Connection;
use crate::error::{WriteError, malformed};
use crate::subscriptions::remote::RemoteSubscriptions;
use crate::variables::{Variable, VariableRef, Variables, not_open};

/// Maximum capacity that an empty queue keeps. A larger queue is freed when it becomes empty.
const EMPTY_QUEUE_CAPACITY_MAX: usize = 16 << 10;
/// Maximum number of entries in [`InFlightWrites::recent`], including answered writes. Older
/// unanswered writes move to a map.
const RECENT_MAX: usize = 16 << 10;

/// Minimum time between two searches for expired writes.
const EXPIRY_STEP: Duration = Duration::from_millis(10);

/// Bytes of a message that are reserved for the fields of a write besides its value.
const RECORD_BYTES: usize = 256;

/// A write of one value to one variable.
#[derive(Clone, PartialEq, Debug)]
pub struct Write {
    /// The variable.
    pub variable: VariableRef,
    /// The value, of the variable's type.
    pub value: Value,
    /// Source timestamp, quality and other options of the write.
    pub options: WriteOptions,
    /// Treatment of this write if a newer write of the same variable is queued before this one is
    /// sent.
    pub mode: WriteMode,
}

/// The treatment of a queued write when a newer write of the same variable is queued.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum WriteMode {
    /// Both writes are sent, in order.
    #[default]
    Queued,
    /// The newer write replaces the queued one, which ends as superseded (LM-20, LM-21). If a
    /// program writes a variable faster than the connection can send, only the newest value is
    /// sent.
    Newest,
}

/// Identifies the writes of one call, whose outcomes are taken together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WriteBatchId(pub(crate) u64);

impl Write {
    /// Returns a write of `value`. The engine sets the timestamp and the quality.
    pub fn new(variable: VariableRef, value: Value) -> Self {
        Self {
            variable,
            value,
            options: WriteOptions::default(),
            mode: WriteMode::Queued,
        }
    }

    /// Returns a write that is replaced by a newer write of this variable while it waits to be
    /// sent.
    pub fn newest(variable: VariableRef, value: Value) -> Self {
        Self {
            mode: WriteMode::Newest,
            ..Self::new(variable, value)
        }
    }

    /// Returns a write of the engine's value only. The engine does not pass it to the provider
    /// (LM-04).
    pub fn set(variable: VariableRef, value: Value) -> Self {
        Self::new(variable, value).with_verb(WriteVerb::Set)
    }

    /// Returns a write that passes the variable's current value to its provider (LM-06).
    pub fn send(variable: VariableRef) -> Self {
        Self::order(variable, WriteVerb::Send)
    }

    /// Returns a write that requests a fresh value from the variable's provider. The outcome
    /// contains the position of the resulting update (LM-05).
    pub fn request(variable: VariableRef) -> Self {
        Self::order(variable, WriteVerb::Request)
    }

    /// Returns a write that forces the variable to `value`, overriding its source and other writers
    /// (H-27).
    pub fn force(variable: VariableRef, value: Value) -> Self {
        Self::new(variable, value).with_verb(WriteVerb::Force)
    }

    /// Returns a write that ends forcing. The variable then shows the value of its source again.
    pub fn unforce(variable: VariableRef) -> Self {
        Self::order(variable, WriteVerb::Unforce)
    }

    /// Makes the write conditional: the engine refuses it if the variable is no longer at
    /// `position` (B-22).
    #[must_use]
    pub fn expecting(mut self, position: Position) -> Self {
        self.options.expected = Some(position);
        self
    }

    /// Returns a write without a value. The placeholder value of the struct is never sent.
    fn order(variable: VariableRef, verb: WriteVerb) -> Self {
        Self::new(variable, Value::Bool(false)).with_verb(verb)
    }

    fn with_verb(mut self, verb: WriteVerb) -> Self {
        self.options.verb = Ok(verb);
        self
    }
}

/// The outcome of a write. A fault gives the reason.
pub type WriteOutcome = trunkline_types::WriteOutcome<Position, Fault, Fault, NotTried>;

/// The outcome of a group of writes.
pub type GroupOutcome = trunkline_types::GroupOutcome<WriteOutcome>;

/// The reason why the engine did not try a write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotTried {
    /// The write would have had to wait, but the call forbids waiting.
    WouldBlock,
    /// The call or the lifetime of the write ended before the write was sent. It will never be
    /// sent.
    Cancelled(Fault),
}

/// Counts of a client's writes by outcome. `issued` is the sum of all other counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriteCounts {
    /// Writes accepted by `ClientCore::write` and `ClientCore::write_untracked`, and writes of
    /// completed groups.
    pub issued: u64,
    /// Writes that the engine has carried out.
    pub applied: u64,
    /// Writes of a value within the deadband of the previous one.
    pub unchanged: u64,
    /// Queued writes that a newer write replaced.
    pub superseded: u64,
    /// Writes that the engine or the client refused.
    pub refused: u64,
    /// Writes that would have had to wait, although the call forbids it.
    pub would_block: u64,
    /// Writes whose outcome is unknown.
    pub unknown: u64,
    /// Writes that were cancelled before they were sent.
    pub cancelled: u64,
    /// Writes that are not sent yet.
    pub waiting: u64,
    /// Writes that are sent but not answered yet, including writes of calls that have ended.
    pub in_flight: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Writes {
    unsent: VecDeque<Unsent>,
    unsent_bytes: usize,
    /// Number of writes at the front of `unsent` that are already sent or refused. They are removed
    /// together.
    processed: usize,
    /// Number of writes removed from the queue so far, which is the position of the first write in
    /// `unsent`. Positions count all writes since the start.
    removed: u64,
    /// Position of each queued write that a newer write of its variable may replace.
    newest: BTreeMap<VariableRef, u64>,
    /// Time of the next search for expired unsent writes.
    expire_at: Option<Tick>,
    in_flight: InFlightWrites,
    in_flight_bytes: usize,
    batches: BTreeMap<u64, Batch>,
    /// Number of outcomes in batches, including outcomes that are not known yet.
    tracked: usize,
    credit_count: usize,
    credit_bytes: usize,
    counts: WriteCounts,
    last_fault: Option<Fault>,
}

#[derive(Debug)]
/// A queued write.
struct Unsent {
    order: u64,
    write: Write,
    /// Size of the value in bytes.
    bytes: u32,
    place: Option<BatchSlot>,
    /// Time after which the write must not be sent.
    expires: Option<Tick>,
}

/// A write that was sent and not yet answered.
#[derive(Debug)]
struct InFlight {
    variable: VariableRef,
    /// Handle of a value that the provider published. `variable` is then `NOBODY`.
    published: u32,
    bytes: u32,
    place: Option<BatchSlot>,
}

/// The place of an outcome: the batch that waits for it, and its index in the batch.
#[derive(Clone, Copy, Debug)]
struct BatchSlot {
    batch: u64,
    index: u32,
}

/// Writes in flight, by their consecutive numbers.
#[derive(Debug, Default)]
struct InFlightWrites {
    /// Writes from the number `first` on. An answered write is `None`. The first entry is never
    /// `None`.
    recent: VecDeque<Option<InFlight>>,
    first: u64,
    /// Unanswered writes that were moved out of `recent` to limit its length, because many later
    /// writes followed.
    late: BTreeMap<u64, InFlight>,
    count: usize,
}

impl InFlightWrites {
    fn next(&self) -> u64 {
        self.first + self.recent.len() as u64
    }

    #[inline]
    fn push(&mut self, write: InFlight) {
        if self.recent.len() >= RECENT_MAX {
            self.move_oldest();
        }
        self.recent.push_back(Some(write));
        self.count += 1;
    }

    /// Moves the oldest recent write to `late`. It is unanswered, because `recent` never begins
    /// with `None`.
    #[cold]
    fn move_oldest(&mut self) {
        let oldest = self.recent.pop_front().flatten();
        self.late.extend(oldest.map(|write| (self.first, write)));
        self.first += 1;
        self.trim();
    }

    #[inline]
    fn remove(&mut self, number: u64) -> Option<InFlight> {
        let write = match number.checked_sub(self.first) {
            Some(index) => self.recent.get_mut(usize::try_from(index).ok()?)?.take()?,
            None => self.late.remove(&number)?,
        };
        self.count -= 1;
        if number == self.first {
            self.trim();
        }
        Some(write)
    }

    /// Removes and returns all writes in order. The numbering continues.
    fn take(&mut self) -> impl Iterator<Item = InFlight> + use<> {
        self.first = self.next();
        self.count = 0;
        let late = std::mem::take(&mut self.late).into_values();
        late.chain(std::mem::take(&mut self.recent).into_iter().flatten())
    }

    #[inline]
    fn trim(&mut self) {
        while let Some(None) = self.recent.front() {
            self.recent.pop_front();
            self.first += 1;
        }
    }
}

#[derive(Debug)]
/// The outcomes of one call.
struct Batch {
    outcomes: Vec<Option<WriteOutcome>>,
    /// Number of outcomes that are not known yet.
    open: usize,
}

impl Writes {
    pub(crate) fn connected(&mut self, credit_count: u32, credit_bytes: u32) {
        self.credit_count = (credit_count as usize).max(1);
        self.credit_bytes = credit_bytes as usize;
    }

    /// Returns the order of the next write to send if the credit allows sending it. A value that is
    /// longer than the whole credit is sent alone.
    pub(crate) fn front(&self) -> Option<u64> {
        let front = self.unsent.get(self.processed)?;
        let bytes = self.in_flight_bytes + front.bytes as usize;
        let fits = self.in_flight.count < self.credit_count
            && (self.in_flight.count == 0 || bytes <= self.credit_bytes);
        fits.then_some(front.order)
    }

    /// Returns true if writes are queued and only missing credit prevents sending them.
    pub(crate) fn wait_for_credit(&self) -> bool {
        self.unsent.len() > self.processed && self.front().is_none()
    }

    /// Returns the order of the oldest unsent write.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.unsent.front().map(|unsent| unsent.order)
    }

    /// Queues writes whose outcomes the program takes together.
    pub(crate) fn write(
        &mut self,
        base: &mut ClientState,
        writes: impl IntoIterator<Item = Write>,
    ) -> Result<WriteBatchId, WriteError> {
        let batch = base.own_requests.next_order();
        let place = |index| Some(BatchSlot { batch, index });
        let open = self.append(base, batch, writes, place, None)?;
        let mut outcomes = Vec::new();
        outcomes.resize_with(open, || None);
        self.batches.insert(batch, Batch { outcomes, open });
        self.tracked += open;
        self.queue(base, open);
        base.changes += 1;
        Ok(WriteBatchId(batch))
    }

    /// Queues writes whose outcomes are counted only.
    pub(crate) fn write_untracked(
        &mut self,
        base: &mut ClientState,
        writes: impl IntoIterator<Item = Write>,
        expires: Tick,
    ) -> Result<(), WriteError> {
        let order = base.own_requests.next_order();
        let count = self.append(base, order, writes, |_| None, Some(expires))?;
        self.queue(base, count);
        Ok(())
    }

    /// Appends all writes to the queue and returns their number, or appends none of them. After a
    /// success, the caller calls [`queue`](Self::queue).
    fn append(
        &mut self,
        base: &ClientState,
        order: u64,
        writes: impl IntoIterator<Item = Write>,
        place: impl Fn(u32) -> Option<BatchSlot>,
        expires: Option<Tick>,
    ) -> Result<usize, WriteError> {
        let waiting = self.unsent.len();
        let mut total = 0;
        self.unsent
            .extend(writes.into_iter().zip(0..).map(|(write, index)| {
                let bytes = encoded_len(&write.value);
                total += bytes;
                Unsent {
                    order,
                    write,
                    bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
                    place: place(index),
                    expires,
                }
            }));
        let count = self.unsent.len() - waiting;
        let has_space = self.check_space(base, waiting, count, total);
        let tracked = if place(0).is_some() { self.tracked } else { 0 };
        let error = match has_space {
            Err(error) => error,
            Ok(()) if tracked > 0 && tracked + count > base.options.writes_max => {
                WriteError::OutcomesNotTaken { waiting: tracked }
            }
            Ok(()) => return Ok(count),
        };
        self.unsent.truncate(waiting);
        Err(error)
    }

    /// Returns an error if the queue has no space for the writes, or if there will be no
    /// connection.
    pub(crate) fn check(&self, base: &ClientState, writes: &[Write]) -> Result<(), WriteError> {
        let bytes = writes.iter().map(|write| encoded_len(&write.value)).sum();
        self.check_space(base, self.unsent.len(), writes.len(), bytes)
    }

    fn check_space(
        &self,
        base: &ClientState,
        waiting: usize,
        count: usize,
        bytes: usize,
    ) -> Result<(), WriteError> {
        if let Some(cause) = base.connection.closed().map(Arc::clone) {
            return Err(WriteError::Closed { cause });
        }
        let fits = waiting + count <= base.options.writes_max
            && self.unsent_bytes + bytes <= base.options.write_bytes_max;
        // An empty queue accepts writes of any size. Otherwise writes that alone exceed the limit
        // could never be sent.
        if fits || waiting == 0 {
            return Ok(());
        }
        Err(WriteError::WouldBlock {
            waiting,
            bytes: self.unsent_bytes,
        })
    }

    /// Counts the last `count` writes of the queue as issued. A write that replaces an earlier
    /// write moves to its position.
    fn queue(&mut self, base: &mut ClientState, count: usize) {
        let start = self.unsent.len() - count;
        let (mut bytes, mut expires, mut replaces) = (0, None, false);
        for unsent in self.unsent.range(start..) {
            bytes += unsent.bytes as usize;
            expires = unsent.expires;
            replaces |= unsent.write.mode == WriteMode::Newest;
            base.variables.retain(unsent.write.variable);
        }
        self.counts.issued += count as u64;
        self.unsent_bytes += bytes;
        self.expire_at = self.expire_at.into_iter().chain(expires).min();
        if replaces {
            for unsent in self.unsent.split_off(start) {
                self.push_or_replace(&mut base.variables, unsent);
            }
        }
    }

    fn push_or_replace(&mut self, variables: &mut Variables, unsent: Unsent) {
        let variable = unsent.write.variable;
        if unsent.write.mode == WriteMode::Newest {
            let position = self.newest.get(&variable);
            let index = position.and_then(|at| usize::try_from(at.checked_sub(self.removed)?).ok());
            if let Some(queued) = index.and_then(|index| self.unsent.get_mut(index)) {
                let superseded = queued.write.options.superseded.saturating_add(1);
                let order = queued.order;
                let replaced = std::mem::replace(queued, unsent);
                (queued.order, queued.write.options.superseded) = (order, superseded);
                self.unsent_bytes -= replaced.bytes as usize;
                variables.release(variable);
                return self.end(replaced.place, WriteOutcome::Superseded);
            }
            let at = self.removed + self.unsent.len() as u64;
            self.newest.insert(variable, at);
        }
        self.unsent.push_back(unsent);
    }

    /// Ends a call although some of its outcomes may not be known yet.
    pub(crate) fn end_call(
        &mut self,
        base: &mut ClientState,
        id: WriteBatchId,
    ) -> Vec<WriteOutcome> {
        if !self.is_settled(id) {
            // The queue has the order of the calls, with one exception: a write that replaced an
            // earlier write precedes the other writes of its call.
            let first = match self.newest.is_empty() {
                true => self.unsent.partition_point(|unsent| unsent.order < id.0),
                false => 0,
            };
            let is_of_call = |unsent: &Unsent| unsent.place.is_some_and(|at| at.batch == id.0);
            self.cancel(base, first, is_of_call);
        }
        let outcomes = self.end_batch(id).unwrap_or_default();
        let sentence = "the call ended before the engine answered; the engine may have carried out \
                        the write, or may still do so: read the variable again";
        let unknown = || WriteOutcome::Unknown(Fault::new(FaultCode::TimedOut, sentence));
        let outcomes = outcomes.into_iter();
        outcomes
            .map(|outcome| outcome.unwrap_or_else(unknown))
            .collect()
    }

    /// Returns the time of the next call of [`handle_timeout`](Self::handle_timeout).
    pub(crate) fn expire_at(&self) -> Option<Tick> {
        self.expire_at
    }

    /// Cancels untracked writes whose lifetime has ended.
    pub(crate) fn handle_timeout(&mut self, base: &mut ClientState, now: Tick) {
        if self.expire_at.is_none_or(|at| at > now) {
            return;
        }
        let is_expired = |unsent: &Unsent| unsent.expires.is_some_and(|at| at <= now);
        if self.cancel(base, 0, is_expired) {
            base.changes += 1;
        }
        // The pause lets writes that expire shortly after one another be cancelled together. None
        // of them is sent during the pause, because sending checks the expiry itself.
        let next = self.unsent.iter().filter_map(|unsent| unsent.expires).min();
        self.expire_at = next.map(|at| at.max(now.saturating_add(EXPIRY_STEP)));
    }

    /// Cancels unsent writes, starting at the index `first`. Returns false if it cancelled none.
    fn cancel(
        &mut self,
        base: &mut ClientState,
        first: usize,
        is_cancelled: impl Fn(&Unsent) -> bool,
    ) -> bool {
        let fault = not_sent(&base.connection);
        let mut is_any = false;
        for unsent in self.unsent.split_off(first) {
            if is_cancelled(&unsent) {
                self.unsent_bytes -= unsent.bytes as usize;
                is_any = true;
                base.variables.release(unsent.write.variable);
                self.end(
                    unsent.place,
                    WriteOutcome::NotTried(NotTried::Cancelled(fault.clone())),
                );
            } else {
                self.unsent.push_back(unsent);
            }
        }
        if is_any && !self.newest.is_empty() {
            self.newest.clear();
            for (unsent, at) in self.unsent.iter().zip(self.removed..) {
                if unsent.write.mode == WriteMode::Newest {
                    self.newest.insert(unsent.write.variable, at);
                }
            }
        }
        is_any
    }

    /// Returns the next write to send, which stays in the queue. Sent and refused writes leave the
    /// queue when the caller calls [`remove_processed`](Self::remove_processed).
    fn next_unsent(&mut self) -> Option<&mut Unsent> {
        self.unsent.get_mut(self.processed)
    }

    /// Returns the number that the next sent write gets in the protocol. Numbers are never used
    /// again.
    pub(crate) fn next_write(&self) -> u64 {
        self.in_flight.next()
    }

    #[inline]
    fn sent_next(&mut self) {
        let Some(unsent) = self.unsent.get(self.processed) else {
            return;
        };
        let Unsent { bytes, place, .. } = *unsent;
        self.in_flight.push(InFlight {
            variable: unsent.write.variable,
            published: 0,
            bytes,
            place,
        });
        self.in_flight_bytes += bytes as usize;
        self.skip_next();
    }

    /// Marks the next write as processed. The queue needs it no longer.
    #[inline]
    fn skip_next(&mut self) {
        let Some(unsent) = self.unsent.get(self.processed) else {
            return;
        };
        if unsent.write.mode == WriteMode::Newest {
            self.newest.remove(&unsent.write.variable);
        }
        self.removed += 1;
        self.unsent_bytes -= unsent.bytes as usize;
        self.processed += 1;
    }

    /// Removes all writes from the queue that were sent or refused.
    fn remove_processed(&mut self) {
        self.unsent.drain(..std::mem::take(&mut self.processed));
        if self.unsent.is_empty() && self.unsent.capacity() > EMPTY_QUEUE_CAPACITY_MAX {
            self.unsent = VecDeque::new();
        }
    }

    /// Ends the next write without sending it.
    fn end_next(&mut self, outcome: WriteOutcome) {
        let Some(unsent) = self.unsent.get(self.processed) else {
            return;
        };
        let place = unsent.place;
        self.skip_next();
        self.end(place, outcome);
    }

    pub(crate) fn has_credit(&self) -> bool {
        self.in_flight.count < self.credit_count && self.in_flight_bytes < self.credit_bytes
    }

    /// Records that a value of a provider was sent. It uses the next write number.
    pub(crate) fn sent_publication(&mut self, handle: u32, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.in_flight.push(InFlight {
            variable: VariableRef::NOBODY,
            published: handle,
            bytes,
            place: None,
        });
        self.in_flight_bytes += bytes as usize;
    }

    /// Returns true if every write with a smaller number is answered.
    pub(crate) fn are_answered_before(&self, number: u64) -> bool {
        let first = self.in_flight.late.first_key_value();
        let oldest = first.map_or(self.in_flight.first, |(first, _)| *first);
        number <= oldest
    }

    #[inline]
    fn end(&mut self, place: Option<BatchSlot>, outcome: WriteOutcome) {
        let count = match &outcome {
            WriteOutcome::Applied(_) => &mut self.counts.applied,
            WriteOutcome::Unchanged(_) => &mut self.counts.unchanged,
            WriteOutcome::Superseded => &mut self.counts.superseded,
            WriteOutcome::Refused(_) => &mut self.counts.refused,
            WriteOutcome::Unknown(_) => &mut self.counts.unknown,
            WriteOutcome::NotTried(NotTried::WouldBlock) => &mut self.counts.would_block,
            WriteOutcome::NotTried(NotTried::Cancelled(_)) => &mut self.counts.cancelled,
        };
        *count += 1;
        if let WriteOutcome::Refused(fault)
        | WriteOutcome::Unknown(fault)
        | WriteOutcome::NotTried(NotTried::Cancelled(fault)) = &outcome
        {
            self.last_fault = Some(fault.clone());
        }
        let Some(place) = place else { return };
        let Some(batch) = self.batches.get_mut(&place.batch) else {
            return;
        };
        if let Some(slot @ None) = batch.outcomes.get_mut(place.index as usize) {
            *slot = Some(outcome);
            batch.open -= 1;
        }
    }

    pub(crate) fn count_group(&mut self, outcomes: &[WriteOutcome]) {
        for outcome in outcomes {
            self.counts.issued += 1;
            self.end(None, outcome.clone());
        }
    }

    /// Takes the outcomes of a call if all of them are known.
    pub(crate) fn take_outcomes(&mut self, id: WriteBatchId) -> Option<Vec<WriteOutcome>> {
        if !self.is_settled(id) {
            return None;
        }
        // No outcome is omitted, because all of them are known. The vector is reused in place.
        let outcomes = self.end_batch(id)?.into_iter();
        Some(outcomes.map_while(|outcome| outcome).collect())
    }

    /// Returns true if every outcome of the call is known.
    pub(crate) fn is_settled(&self, id: WriteBatchId) -> bool {
        let batch = self.batches.get(&id.0);
        batch.is_some_and(|batch| batch.open == 0)
    }

    /// Removes the outcomes of a call, known or not. Outcomes that arrive later are not stored.
    fn end_batch(&mut self, id: WriteBatchId) -> Option<Vec<Option<WriteOutcome>>> {
        let batch = self.batches.remove(&id.0)?;
        self.tracked -= batch.outcomes.len();
        Some(batch.outcomes)
    }

    pub(crate) fn counts(&self) -> WriteCounts {
        let (waiting, in_flight) = (self.unsent.len() as u64, self.in_flight.count as u64);
        WriteCounts {
            waiting,
            in_flight,
            ..self.counts
        }
    }

    /// Returns the fault of the last write that was refused or cancelled, or whose outcome is
    /// unknown.
    pub(crate) fn last_fault(&self) -> Option<&Fault> {
        self.last_fault.as_ref()
    }

    pub(crate) fn open(&self) -> usize {
        self.unsent.len() + self.in_flight.count
    }

    /// Appends a WRITE frame of about `page` bytes with the writes that precede the request
    /// `before`. A write that can never succeed is refused only when it reaches the front of the
    /// queue, so that outcomes stay in order.
    pub(crate) fn send(
        &mut self,
        base: &mut ClientState,
        now: Tick,
        before: u64,
        agreement: &Agreement,
        page: usize,
        out: &mut Vec<u8>,
    ) {
        let supports_registers = agreement.features.contains(Features::REGISTERS);
        let variables = &mut base.variables;
        let mut frame = WriteBuilder::begin(out, self.next_write());
        while self.front().is_some_and(|order| order < before) && frame.len_bytes() < page {
            let Some(unsent) = self.next_unsent() else {
                break;
            };
            if !supports_registers {
                // The frames for this engine have no field for superseded writes. Only the client
                // counts them.
                unsent.write.options.superseded = 0;
            }
            let (write, bytes) = (&unsent.write, unsent.bytes as usize);
            let variable = write.variable;
            if unsent.expires.is_some_and(|at| at <= now) {
                let fault = not_sent(&base.connection);
                self.end_next(WriteOutcome::NotTried(NotTried::Cancelled(fault)));
                variables.release(variable);
                base.changes += 1;
                continue;
            }
            let target = variables.get_mut(variable);
            match check_write(target.as_deref(), write, bytes, agreement) {
                Ok(handle) => {
                    if write.options.has_value() {
                        let encode = |out: &mut _| encode_value(&write.value, out);
                        frame.push_with(handle, &write.options, bytes, encode);
                    } else {
                        frame.push(handle, &write.options, &[]);
                    }
                    self.sent_next();
                }
                Err(fault) => {
                    self.end_next(WriteOutcome::Refused(fault));
                    base.changes += 1;
                }
            }
            match target {
                Some(target) if target.users > 1 => target.users -= 1,
                _ => variables.release(variable),
            }
        }
        self.remove_processed();
        frame.finish();
    }

    /// Handles the engine's answers. `epoch` is the epoch of the engine that sent them. `refused`
    /// is called for each refused value of the provider.
    pub(crate) fn handle_answers(
        &mut self,
        base: &mut ClientState,
        epoch: u64,
        remote: &mut RemoteSubscriptions,
        frame: &Frame<'_>,
        mut refused: impl FnMut(&mut ClientState, u32, FaultCode),
    ) -> Result<(), Disconnect> {
        let answers = WriteAnswers::decode(frame)?;
        let mut next = answers.head().first_write;
        for answer in answers {
            let (number, answer) = (next, answer?);
            next = next.wrapping_add(1);
            let Some(write) = self.in_flight.remove(number) else {
                let sentence =
                    format!("the engine answered write {number}, which is not in flight");
                return Err(malformed(sentence));
            };
            self.in_flight_bytes -= write.bytes as usize;
            if write.variable == VariableRef::NOBODY {
                if let WriteAnswer::Refused(fault) = answer {
                    refused(base, write.published, fault.code);
                }
                continue;
            }
            if let WriteAnswer::Applied(sequence) = answer {
                remote.remember_own(&base.variables, write.variable, sequence);
            }
            self.end(write.place, outcome_of(answer, epoch));
            base.changes += 1;
        }
        Ok(())
    }

    /// Ends all writes in flight as unknown, because no answers to them can arrive.
    pub(crate) fn connection_lost(&mut self, cause: &Disconnect) {
        let sentence = format!(
            "the connection was lost before the engine answered; the engine may have carried \
             out the write: {cause}"
        );
        let fault = Fault::new(FaultCode::TimedOut, sentence);
        self.in_flight_bytes = 0;
        for write in self.in_flight.take() {
            if write.variable == VariableRef::NOBODY {
                continue;
            }
            self.end(write.place, WriteOutcome::Unknown(fault.clone()));
        }
    }

    /// Refuses all unsent writes, because there will be no connection any more.
    pub(crate) fn refuse_unsent(&mut self, variables: &mut Variables, fault: &Fault) {
        while let Some(unsent) = self.next_unsent() {
            variables.release(unsent.write.variable);
            self.end_next(WriteOutcome::Refused(fault.clone()));
        }
        self.remove_processed();
    }
}

pub(crate) fn outcome_of(answer: WriteAnswer<'_>, epoch: u64) -> WriteOutcome {
    let position = |sequence| Position { epoch, sequence };
    match answer {
        WriteAnswer::Applied(sequence) => WriteOutcome::Applied(position(sequence)),
        WriteAnswer::Unchanged(sequence) => WriteOutcome::Unchanged(position(sequence)),
        WriteAnswer::Superseded => WriteOutcome::Superseded,
        WriteAnswer::Refused(fault) => WriteOutcome::Refused(fault.to_fault()),
        WriteAnswer::Unknown(fault) => WriteOutcome::Unknown(fault.to_fault()),
        WriteAnswer::NotTried(WouldBlock) => WriteOutcome::NotTried(NotTried::WouldBlock),
    }
}

#[cold]
pub(crate) fn not_sent(connection: &Connection) -> Fault {
    let sentence = match connection.down_because() {
        Some(cause) => format!("not sent in time and cancelled: {cause}"),
        None if connection.is_open() => {
            "not sent in time and cancelled: the engine was busy with earlier writes".to_owned()
        }
        None => "not sent in time and cancelled: not connected yet".to_owned(),
    };
    Fault::new(FaultCode::TimedOut, sentence)
}

/// Returns the handle of the variable to write, or the fault for which the client refuses the
/// write.
pub(crate) fn check_write(
    variable: Option<&Variable>,
    write: &Write,
    bytes: usize,
    agreement: &Agreement,
) -> Result<u32, Fault> {
    let variable = variable.ok_or_else(not_open)?;
    let handle = variable.handle.ok_or_else(|| variable.no_handle())?;
    if let Some(data_type) = &variable.data_type
        && !write.options.raw
        && write.options.has_value()
        && !write.value.has_type(data_type)
    {
        let sentence = format!(
            "the value does not have the variable's type, {data_type}; write a value of that type"
        );
        return Err(Fault::new(FaultCode::WrongType, sentence));
    }
    let max = VALUE_BYTES_MAX.min((agreement.message_max as usize).saturating_sub(RECORD_BYTES));
    if bytes > max {
        let sentence = format!("the value has {bytes} bytes, and the limit is {max}; use a stream");
        return Err(Fault::new(FaultCode::TooLarge, sentence));
    }
    // An engine without registers would take a write without a value for a write of an empty value.
    if !agreement.features.contains(Features::REGISTERS) && write.options.needs_extension() {
        let sentence = "the engine does not support this kind of write; update the engine, or write \
                        the value normally";
        return Err(Fault::new(FaultCode::NotSupported, sentence));
    }
    Ok(handle)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write() -> InFlight {
        InFlight {
            variable: VariableRef::NOBODY,
            published: 0,
            bytes: 8,
            place: None,
        }
    }

    #[test]
    fn writes_are_answered_in_any_order_and_once() {
        let mut sut = InFlightWrites::default();
        (0..5).for_each(|_| sut.push(write()));
        for number in [3, 0, 4, 1] {
            assert!(sut.remove(number).is_some());
            assert!(sut.remove(number).is_none(), "{number} twice");
        }
        assert_eq!((sut.count, sut.first, sut.next()), (1, 2, 5));
        assert!(sut.remove(5).is_none() && sut.remove(2).is_some());
        assert_eq!((sut.count, sut.first, sut.next()), (0, 5, 5));
    }

    #[test]
    fn unanswered_write_does_not_block_the_queue() {
        let mut sut = InFlightWrites::default();
        sut.push(write());
        for number in 1..100_000 {
            sut.push(write());
            assert!(sut.remove(number).is_some());
        }
        assert!(sut.recent.len() <= RECENT_MAX);
        assert_eq!((sut.count, sut.late.len()), (1, 1));
        assert!(sut.remove(0).is_some() && sut.remove(0).is_none());
        assert_eq!(sut.count, 0);
    }

    #[test]
    fn numbers_continue_after_the_queue_was_empty() {
        let mut sut = InFlightWrites::default();
        (0..3).for_each(|_| sut.push(write()));
        sut.remove(1);
        assert_eq!(sut.take().count(), 2);
        assert_eq!((sut.count, sut.next()), (0, 3));
        assert!(sut.remove(0).is_none());
    }
}
