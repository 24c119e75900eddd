//! Writing: any number of writes can be in flight at once, and every write has an outcome.

use std::sync::Arc;

use trunkline_proto::message::write::{WriteBuilder, WriteOptions, WriteVerb};
use trunkline_proto::message::write_answers::WriteAnswers;
use trunkline_proto::{Disconnect, Fault, FaultCode, Features, Frame};
use trunkline_types::wire::{VALUE_BYTES_MAX, encoded_len};
use trunkline_types::{Contract, Position, Tick, Value};

use crate::client::ClientCore;
use crate::connection::Connection;
use crate::error::{WriteError, malformed};
use crate::outcome::{NotTried, WriteCounts, WriteOutcome, of_answer};
use crate::variable::VariableRef;
use crate::write_queue::Place;

/// Message bytes reserved for the overhead of a value.
const RECORD_BYTES: usize = 256;
/// A write of one value to one variable.
#[derive(Clone, PartialEq, Debug)]
pub struct Write {
    /// The variable.
    pub variable: VariableRef,
    /// The value, of the variable's type.
    pub value: Value,
    /// Source timestamp, quality and mode.
    pub options: WriteOptions,
    /// The treatment of this write if a newer one for the same variable is made before it is sent.
    pub mode: WriteMode,
}

/// The treatment of a queued write when a newer one for the same variable is made.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum WriteMode {
    /// Both are sent, in order.
    #[default]
    Queued,
    /// The newer write replaces the queued one, which ends as superseded (LM-20, LM-21). For a
    /// variable that is written faster than the connection can send, the newest value is sent.
    Newest,
}

/// The writes of one call, whose outcomes are taken together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WriteBatchId(u64);

impl Write {
    /// Returns a write of `value`; the engine sets timestamp and quality.
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

    /// Returns a write to the engine's cell only, without asking a provider (LM-04).
    pub fn set(variable: VariableRef, value: Value) -> Self {
        Self::new(variable, value).with_verb(WriteVerb::Set)
    }

    /// Returns a write that sends the variable's current value to its provider (LM-06).
    pub fn send(variable: VariableRef) -> Self {
        Self::order(variable, WriteVerb::Send)
    }

    /// Returns a write that has the variable's provider read a fresh value from its device. The
    /// outcome names the resulting update (LM-05).
    pub fn request(variable: VariableRef) -> Self {
        Self::order(variable, WriteVerb::Request)
    }

    /// Returns a write that holds the variable at the value, overriding its source and other
    /// writers (H-27).
    pub fn force(variable: VariableRef, value: Value) -> Self {
        Self::new(variable, value).with_verb(WriteVerb::Force)
    }

    /// Returns a write that ends forcing, so that the variable shows its source's value again.
    pub fn unforce(variable: VariableRef) -> Self {
        Self::order(variable, WriteVerb::Unforce)
    }

    /// Applies the write only if the variable is still at this position (B-22).
    #[must_use]
    pub fn expecting(mut self, position: Position) -> Self {
        self.options.expected = Some(position);
        self
    }

    /// Returns a write without a value. The placeholder is never sent.
    fn order(variable: VariableRef, verb: WriteVerb) -> Self {
        Self::new(variable, Value::Bool(false)).with_verb(verb)
    }

    fn with_verb(mut self, verb: WriteVerb) -> Self {
        self.options.verb = Ok(verb);
        self
    }
}

impl ClientCore {
    /// Writes values and returns at once. [`take_outcomes`](Self::take_outcomes) gives the outcomes
    /// once all of them are known. Writes are sent in the order in which they were made, many per
    /// frame.
    ///
    /// Without a connection, writes wait and are sent on the next one, until their call ends with
    /// [`end_writes`](Self::end_writes). Writes that were sent but not answered when the connection
    /// broke end as unknown: the engine may have carried them out.
    ///
    /// # Errors
    /// [`WriteError::WouldBlock`] if too many writes are queued already: none of these is accepted.
    pub fn write(
        &mut self,
        writes: impl IntoIterator<Item = Write>,
    ) -> Result<WriteBatchId, WriteError> {
        let writes: Vec<Write> = writes.into_iter().collect();
        self.check_writes(&writes)?;
        let waiting = self.writes.tracked();
        if waiting > 0 && waiting + writes.len() > self.options.writes_max {
            return Err(WriteError::OutcomesNotTaken { waiting });
        }
        let batch = self.requests.next_order();
        self.writes.begin_batch(batch, writes.len());
        for (write, index) in writes.into_iter().zip(0..) {
            self.queue_write(batch, write, Some(Place { batch, index }), None);
        }
        self.changes += 1;
        Ok(WriteBatchId(batch))
    }

    /// Same as [`write`](Self::write), for writes whose outcomes are not taken one by one. They are
    /// counted in [`write_counts`](Self::write_counts), and the last fault is kept. Writes not sent
    /// by `expires` are cancelled.
    ///
    /// # Errors
    /// Same as for [`write`](Self::write).
    pub fn write_untracked(
        &mut self,
        writes: impl IntoIterator<Item = Write>,
        expires: Tick,
    ) -> Result<(), WriteError> {
        let writes: Vec<Write> = writes.into_iter().collect();
        self.check_writes(&writes)?;
        let order = self.requests.next_order();
        for write in writes {
            self.queue_write(order, write, None, Some(expires));
        }
        Ok(())
    }

    fn queue_write(
        &mut self,
        order: u64,
        write: Write,
        place: Option<Place>,
        expires: Option<Tick>,
    ) {
        // A write that replaces another one takes over its use of the variable.
        let variable = write.variable;
        if self.writes.push(order, write, place, expires) {
            self.variables.retain(variable);
        }
    }

    /// Checks that the queue has room for the writes.
    pub(crate) fn check_writes(&self, writes: &[Write]) -> Result<(), WriteError> {
        if let Some(cause) = self.connection.closed() {
            return Err(WriteError::Closed {
                cause: Arc::clone(cause),
            });
        }
        let bytes: usize = writes.iter().map(|write| encoded_len(&write.value)).sum();
        let (waiting, waiting_bytes) = self.writes.waiting();
        let fits = waiting + writes.len() <= self.options.writes_max
            && waiting_bytes + bytes <= self.options.write_bytes_max;
        // Otherwise writes that exceed the limit on their own could never be made.
        if fits || waiting == 0 {
            return Ok(());
        }
        Err(WriteError::WouldBlock {
            waiting,
            bytes: waiting_bytes,
        })
    }

    /// Takes the outcomes once all of them are known, in the order of the writes. Returns `None`
    /// before that, and after they were taken.
    pub fn take_outcomes(&mut self, batch: WriteBatchId) -> Option<Vec<WriteOutcome>> {
        if !self.is_settled(batch) {
            return None;
        }
        let outcomes = self.writes.end_batch(batch.0)?;
        // All are known, so none is left out. The vector is reused in place.
        Some(outcomes.into_iter().map_while(|known| known).collect())
    }

    /// Returns true if every outcome of the batch is known.
    pub fn is_settled(&self, batch: WriteBatchId) -> bool {
        self.writes.is_settled(batch.0)
    }

    /// Ends a call before all of its outcomes are known, and takes them. A write that was not sent
    /// is cancelled, and never sent. A write that was sent, even in part, is unknown: it may still
    /// be carried out, and [`write_counts`](Self::write_counts) gets its true outcome once the
    /// engine answers. Returns an empty list if the outcomes were already taken.
    pub fn end_writes(&mut self, batch: WriteBatchId) -> Vec<WriteOutcome> {
        let fault = not_sent(&self.connection);
        for variable in self.writes.cancel_batch(batch.0, &fault) {
            self.variables.release(variable);
        }
        let outcomes = self.writes.end_batch(batch.0).unwrap_or_default();
        let sentence = "the call ended before the engine answered; the write may have been, or \
                        still be, carried out: read the variable again";
        let unknown = || WriteOutcome::Unknown(Fault::new(FaultCode::TimedOut, sentence));
        let outcomes = outcomes.into_iter();
        outcomes
            .map(|known| known.unwrap_or_else(unknown))
            .collect()
    }

    /// Cancels untracked writes that have expired.
    pub(crate) fn expire_writes(&mut self, now: Tick) {
        if self.writes.expire_at().is_none_or(|at| at > now) {
            return;
        }
        let fault = not_sent(&self.connection);
        let cancelled = self.writes.expire(now, &fault);
        if !cancelled.is_empty() {
            self.changes += 1;
        }
        for variable in cancelled {
            self.variables.release(variable);
        }
    }

    /// Returns the counts of all writes by outcome.
    pub fn write_counts(&self) -> WriteCounts {
        self.writes.counts()
    }

    /// Returns the reason of the last write that ended as refused, cancelled or unknown.
    pub fn last_write_fault(&self) -> Option<&Fault> {
        self.writes.last_fault()
    }

    /// Appends a WRITE frame of about `page` bytes with writes made before the request `before`. A
    /// write that can never succeed is refused when its turn comes, so outcomes stay in order.
    pub(crate) fn send_writes(&mut self, now: Tick, before: u64, page: usize, out: &mut Vec<u8>) {
        let message_max = self.connection.message_max();
        let knows_registers = self.knows_registers();
        let (writes, variables) = (&mut self.writes, &mut self.variables);
        let mut frame = WriteBuilder::begin(out, writes.next_write());
        while writes.front().is_some_and(|order| order < before) && frame.len_bytes() < page {
            let Some(unsent) = writes.next_unsent() else {
                break;
            };
            if !knows_registers {
                // The client counts superseded writes itself; the frame of this engine has no field
                // for them.
                unsent.write.options.superseded = 0;
            }
            let (write, bytes) = (&unsent.write, unsent.bytes as usize);
            let variable = write.variable;
            if unsent.expires.is_some_and(|at| at <= now) {
                writes.end_next(WriteOutcome::NotTried(NotTried::Cancelled(not_sent(
                    &self.connection,
                ))));
                variables.release(variable);
                self.changes += 1;
                continue;
            }
            let handle = check_write(variables, write, bytes, message_max)
                .and_then(|handle| check_understood(write, knows_registers).map(|()| handle));
            match handle {
                Ok(handle) => {
                    if write.options.has_value() {
                        frame.push_value(handle, &write.options, &write.value);
                    } else {
                        frame.push(handle, &write.options, &[]);
                    }
                    writes.sent_next();
                }
                Err(fault) => {
                    writes.end_next(WriteOutcome::Refused(fault));
                    self.changes += 1;
                }
            }
            variables.release(variable);
        }
        frame.finish();
        writes.leave_passed();
    }

    fn knows_registers(&self) -> bool {
        let session = self.connection.session();
        session.is_none_or(|session| session.features.contains(Features::REGISTERS))
    }

    /// Checks that the engine supports the write. An engine without registers would take a write
    /// without a value for an empty value.
    pub(crate) fn check_understood(&self, write: &Write) -> Result<(), Fault> {
        check_understood(write, self.knows_registers())
    }

    pub(crate) fn handle_write_answers(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let epoch = self.connection.epoch();
        for answer in WriteAnswers::decode(frame)? {
            let (number, outcome) = answer?;
            let Some(write) = self.writes.answered(number) else {
                let sentence = format!("write {number} is answered, which is not on its way");
                return Err(malformed(sentence));
            };
            if write.variable == VariableRef::NOBODY {
                self.published(write.published, &outcome);
                continue;
            }
            let outcome = of_answer(outcome, epoch);
            self.remember_own(write.variable, &outcome);
            self.writes.end(write.place, outcome);
            self.changes += 1;
        }
        self.end_flushes();
        Ok(())
    }

    /// Remembers an own write by its answer, which precedes its update. Under `all` the update does
    /// not carry the flag, because its runs are identical for all sessions.
    pub(crate) fn remember_own(&mut self, variable: VariableRef, outcome: &WriteOutcome) {
        let (WriteOutcome::Applied(Position { sequence, .. }), Some(known)) =
            (outcome, self.variables.get(variable))
        else {
            return;
        };
        for (wire, item) in known.items.iter() {
            let Some(wire) = self.wires.get_mut(*wire) else {
                continue;
            };
            if matches!(wire.terms.contract, Contract::All { .. })
                && let Some(item) = wire.item_mut(*item)
            {
                item.remember_own(*sequence);
            }
        }
    }

    /// Ends all writes in flight as unknown, because they will not be answered.
    pub(crate) fn writes_disconnected(&mut self, cause: &Disconnect) {
        let sentence = format!(
            "the connection was lost before the engine answered, the write may have been carried out: \
             {cause}"
        );
        let fault = Fault::new(FaultCode::TimedOut, sentence);
        for write in self.writes.take_in_flight() {
            if write.variable == VariableRef::NOBODY {
                continue;
            }
            #[cfg(feature = "planted")]
            if trunkline_types::planted::is(trunkline_types::planted::Bug::UnknownAsRefused) {
                let refused = WriteOutcome::Refused(fault.clone());
                self.writes.end(write.place, refused);
                continue;
            }
            self.writes
                .end(write.place, WriteOutcome::Unknown(fault.clone()));
        }
        self.end_flushes();
    }

    /// Refuses all unsent writes, because no connection will be made.
    pub(crate) fn refuse_unsent(&mut self, fault: &Fault) {
        while let Some(unsent) = self.writes.next_unsent() {
            self.variables.release(unsent.write.variable);
            self.writes.end_next(WriteOutcome::Refused(fault.clone()));
        }
        self.writes.leave_passed();
    }
}

/// The fault of a cancelled write.
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

fn check_understood(write: &Write, knows_registers: bool) -> Result<(), Fault> {
    if knows_registers || !write.options.needs_extension() {
        return Ok(());
    }
    let sentence = "the engine does not know this kind of write; update it, or put the value";
    Err(Fault::new(FaultCode::NotSupported, sentence))
}

/// Returns the handle to write to, or the fault with which this end refuses the write.
pub(crate) fn check_write(
    variables: &crate::variable::Variables,
    write: &Write,
    bytes: usize,
    message_max: usize,
) -> Result<u32, Fault> {
    let known = variables.get(write.variable);
    let handle = match known.and_then(|known| known.handle) {
        Some(handle) => handle,
        None => variables.handle(write.variable)?,
    };
    let data_type = known.and_then(|known| known.data_type.as_ref());
    if let Some(data_type) = data_type
        && !write.options.raw
        && write.options.has_value()
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
