//! Writing: any number of writes can be in flight at once, and every write has an outcome.

pub(crate) mod queue;

use trunkline_proto::message::write::{WriteBuilder, WriteOptions, WriteVerb};
use trunkline_proto::{Disconnect, Fault, FaultCode, Features};
use trunkline_types::wire::{VALUE_BYTES_MAX, encoded_len};
use trunkline_types::{Position, Tick, Value};

use self::queue::{Place, Writes};
use crate::base::Base;
use crate::connection::Connection;
use crate::error::WriteError;
use crate::outcome::{NotTried, WriteOutcome};
use crate::variables::{VariableRef, Variables};

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
pub struct WriteBatchId(pub(crate) u64);

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

impl Writes {
    pub(crate) fn check(&self, base: &Base, writes: &[Write]) -> Result<(), WriteError> {
        let closed = |cause| WriteError::Closed { cause };
        base.connection.check_usable().map_err(closed)?;
        let bytes: usize = writes.iter().map(|write| encoded_len(&write.value)).sum();
        let (waiting, waiting_bytes) = self.waiting();
        let fits = waiting + writes.len() <= base.options.writes_max
            && waiting_bytes + bytes <= base.options.write_bytes_max;
        // Otherwise writes that exceed the limit on their own could never be made.
        if fits || waiting == 0 {
            return Ok(());
        }
        Err(WriteError::WouldBlock {
            waiting,
            bytes: waiting_bytes,
        })
    }

    pub(crate) fn queue(
        &mut self,
        variables: &mut Variables,
        order: u64,
        write: Write,
        place: Option<Place>,
        expires: Option<Tick>,
    ) {
        // A write that replaces another one takes over its use of the variable.
        let variable = write.variable;
        if self.push(order, write, place, expires) {
            variables.retain(variable);
        }
    }

    /// Cancels untracked writes that have expired.
    pub(crate) fn handle_timeout(&mut self, base: &mut Base, now: Tick) {
        if self.expire_at().is_none_or(|at| at > now) {
            return;
        }
        let cancelled = self.expire(now, &not_sent(&base.connection));
        if !cancelled.is_empty() {
            base.changes += 1;
        }
        for variable in cancelled {
            base.variables.release(variable);
        }
    }

    /// Appends a WRITE frame of about `page` bytes with writes made before the request `before`. A
    /// write that can never succeed is refused when its turn comes, so outcomes stay in order.
    pub(crate) fn send(
        &mut self,
        base: &mut Base,
        now: Tick,
        before: u64,
        page: usize,
        out: &mut Vec<u8>,
    ) {
        let message_max = base.connection.message_max();
        let knows_registers = base.connection.has(Features::REGISTERS);
        let variables = &mut base.variables;
        let mut frame = WriteBuilder::begin(out, self.next_write());
        while self.front().is_some_and(|order| order < before) && frame.len_bytes() < page {
            let Some(unsent) = self.next_unsent() else {
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
                let fault = not_sent(&base.connection);
                self.end_next(WriteOutcome::NotTried(NotTried::Cancelled(fault)));
                variables.release(variable);
                base.changes += 1;
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
                    self.sent_next();
                }
                Err(fault) => {
                    self.end_next(WriteOutcome::Refused(fault));
                    base.changes += 1;
                }
            }
            variables.release(variable);
        }
        frame.finish();
        self.leave_passed();
    }

    /// Ends all writes in flight as unknown, because they will not be answered.
    pub(crate) fn connection_lost(&mut self, cause: &Disconnect) {
        let sentence = format!(
            "the connection was lost before the engine answered, the write may have been carried out: \
             {cause}"
        );
        let fault = Fault::new(FaultCode::TimedOut, sentence);
        for write in self.take_in_flight() {
            if write.variable == VariableRef::NOBODY {
                continue;
            }
            self.end(write.place, WriteOutcome::Unknown(fault.clone()));
        }
    }

    /// Refuses all unsent writes, because no connection will be made.
    pub(crate) fn refuse_unsent(&mut self, variables: &mut Variables, fault: &Fault) {
        while let Some(unsent) = self.next_unsent() {
            variables.release(unsent.write.variable);
            self.end_next(WriteOutcome::Refused(fault.clone()));
        }
        self.leave_passed();
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

/// Checks that the engine supports the write. An engine without registers would take a write without
/// a value for an empty value.
pub(crate) fn check_understood(write: &Write, knows_registers: bool) -> Result<(), Fault> {
    if knows_registers || !write.options.needs_extension() {
        return Ok(());
    }
    let sentence = "the engine does not know this kind of write; update it, or put the value";
    Err(Fault::new(FaultCode::NotSupported, sentence))
}

/// Returns the handle to write to, or the fault with which this end refuses the write.
pub(crate) fn check_write(
    variables: &Variables,
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
