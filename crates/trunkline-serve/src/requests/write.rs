//! Carries out writes on arrival, answers them in packed runs, and parks writes that must wait for a
//! feed.
//!
//! A parked write delays later writes to the same variable, to keep their order. It also delays all
//! other requests except writes, because they must see the effect of earlier writes. Writes to other
//! variables continue. The write credit bounds the number of parked writes.

use trunkline_engine::{
    Attempt, FollowedHandles, Origin, Refusal, Write, WriteOutcome, WriteValue,
    check_room_to_decode,
};
use trunkline_proto::message::write::{WriteOptions, WriteRecord, Writes};
use trunkline_proto::{Disconnect, Fault, FaultCode, Features, FrameKind};
use trunkline_types::wire;
use trunkline_types::{Moment, Quality, Tick};

use crate::context::{Context, Effect, Progress, REQUEST_BYTES, Request, units_of};
use crate::fault::not_agreed;
use crate::gate::{self, Admitted};
use crate::request_budget::MemoryUse;
use crate::write_run::{Answer, CompactAnswer, OwnedWrite, bytes_of};

/// The result of an attempt to write.
enum Attempted {
    /// The write is complete, and this is its answer.
    Answered(CompactAnswer),
    /// The write was passed to the variable's provider, which answers later.
    AtProvider,
    /// A feed has no room. The write must be tried again at this time at the latest.
    Parked(Tick),
}

pub(crate) fn handle(context: &mut Context, frame: &Admitted<'_>) -> Result<(), Disconnect> {
    let writes = Writes::decode(frame)?;
    let is_published = frame.kind() == Some(FrameKind::Publish);
    context
        .unanswered
        .begin(writes.first_write(), frame.count(), &context.options)?;
    let mut handles = std::mem::take(&mut context.handles);
    let followed = handles.follow();
    let mut queued = Vec::new();
    let mut result = Ok(());
    for write in writes {
        let write = match write {
            Ok(write) => write,
            Err(error) => {
                result = Err(error.into());
                break;
            }
        };
        // Requests are carried out in order, so a write waits behind all waiting requests.
        let result_of_write = if !context.queue.is_empty() || !queued.is_empty() {
            copy_to_wait(context, &write, is_published).map(|write| queued.push(write))
        } else if context.parked.contains(write.handle) {
            copy_to_wait(context, &write, is_published).map(|write| context.parked.push(write))
        } else {
            match attempt(context, &followed, &write, is_published) {
                Ok(Attempted::Answered(answer)) => {
                    let run = &mut context.unanswered.run;
                    run.push(&mut context.answers.frames, write.write, answer);
                    Ok(())
                }
                Ok(Attempted::AtProvider) => Ok(()),
                Ok(Attempted::Parked(until)) => copy_to_wait(context, &write, is_published)
                    .map(|write| park(context, write, until)),
                Err(fault) => Err(fault),
            }
        };
        if let Err(fault) = result_of_write {
            let refused = CompactAnswer::from(Answer::Fault(fault));
            let run = &mut context.unanswered.run;
            run.push(&mut context.answers.frames, write.write, refused);
        }
    }
    if queued.is_empty() {
        // The payload is longer than the values, but the returned credit need not be exact.
        let bytes = frame.payload().len();
        context
            .unanswered
            .return_credit(frame.count() as usize, bytes);
    } else {
        context.queue.push(QueuedWrites(queued));
    }
    result = result.and_then(|()| context.unanswered.check_bytes(&context.options));
    context.unanswered.run.flush(&mut context.answers.frames);
    drop(followed);
    context.handles = handles;
    result
}

/// Copies a write that has to wait. Fails if the budget or the memory is exhausted.
fn copy_to_wait(
    context: &mut Context,
    write: &WriteRecord<'_>,
    is_published: bool,
) -> Result<OwnedWrite, Fault> {
    let bytes = REQUEST_BYTES + size_of::<OwnedWrite>() + write.value.len();
    context.account.add(MemoryUse::Requests, bytes)?;
    let owned = OwnedWrite::of(write, is_published)?;
    context.unanswered.add_waiting(write.value.len());
    Ok(owned)
}

/// Writes that wait behind other requests.
#[derive(Debug)]
struct QueuedWrites(Vec<OwnedWrite>);

impl Request for QueuedWrites {
    fn run(&mut self, context: &mut Context) -> Progress {
        run_waiting(context, self.0.drain(..));
        Progress::Done
    }

    fn units(&self) -> usize {
        units_of(self.0.len())
    }

    fn bytes(&self) -> usize {
        bytes_of(&self.0)
    }

    fn effect(&self) -> Effect {
        Effect::Writes
    }
}

/// Tries the parked writes again. Writes for which a feed still has no room remain parked.
pub(crate) fn retry_parked(context: &mut Context) {
    if context.parked.is_empty() {
        return;
    }
    context.parked_until = None;
    let writes = std::mem::take(&mut context.parked).writes;
    run_waiting(context, writes.into_iter());
}

/// Carries out writes that waited. Parks a write if a feed has no room, and then also later writes to
/// the same variable.
fn run_waiting(context: &mut Context, writes: impl Iterator<Item = OwnedWrite>) {
    let mut handles = std::mem::take(&mut context.handles);
    let followed = handles.follow();
    for write in writes {
        if context.parked.contains(write.handle) {
            context.parked.push(write);
            continue;
        }
        let answer = match attempt(context, &followed, &write.record(), write.is_published) {
            Ok(Attempted::Answered(answer)) => Some(answer),
            Ok(Attempted::AtProvider) => None,
            Ok(Attempted::Parked(until)) => {
                park(context, write, until);
                continue;
            }
            Err(fault) => Some(CompactAnswer::from(Answer::Fault(fault))),
        };
        if let Some(answer) = answer {
            let run = &mut context.unanswered.run;
            run.push(&mut context.answers.frames, write.id, answer);
        }
        context.unanswered.remove_waiting(write.value.len());
    }
    drop(followed);
    context.handles = handles;
    context.unanswered.run.flush(&mut context.answers.frames);
}

fn park(context: &mut Context, write: OwnedWrite, until: Tick) {
    context.parked_until = Some(context.parked_until.map_or(until, |at| at.min(until)));
    context.parked.push(write);
}

fn attempt(
    context: &mut Context,
    handles: &FollowedHandles<'_>,
    record: &WriteRecord<'_>,
    is_published: bool,
) -> Result<Attempted, Fault> {
    let answered = |answer: Answer| Ok(Attempted::Answered(CompactAnswer::from(answer)));
    let (engine, caller) = (&context.engine, &context.caller);
    let Moment { now, wall } = context.moment;
    let may_use_fast_path = !is_published && has_only_value(&record.options);
    let Some(variable) = handles.visible(caller, record.handle) else {
        return Err(Fault::from(&engine.no_variable(caller, record.handle)));
    };
    if may_use_fast_path
        && engine.is_clock_settled()
        && let Some(sequence) =
            variable.write_plain_wire(caller, wall, record.value, &mut context.wakes)
    {
        return Ok(Attempted::Answered(CompactAnswer::Applied(sequence)));
    }
    check_extension(context.features, &record.options)?;
    if is_published && (context.provider.is_none() || variable.provider() != context.provider) {
        return Err(FaultCode::NotItsProvider.into());
    }
    if is_published && record.value.is_empty() {
        // A provider publishes an empty value to change only the quality of the source.
        let quality = record.options.quality.unwrap_or(Quality::GOOD);
        engine
            .providers()
            .set_quality(record.handle, quality, now, wall, &mut context.wakes);
        let sequence = variable.sequence();
        return Ok(Attempted::Answered(CompactAnswer::Applied(sequence)));
    }
    let is_provided = variable.is_provided();
    let WriteOptions {
        source_timestamp,
        quality,
        raw,
        expected,
        superseded,
        ..
    } = record.options;
    let origin = match (is_published, raw) {
        (false, _) => Origin::Client,
        (true, false) => Origin::Source,
        (true, true) => Origin::SourceRaw,
    };
    let verb = match record.options.verb {
        Ok(verb) if is_published || !raw => verb,
        _ => {
            let sentence = "this engine does not support this kind of write, or accepts raw values \
                            only from the provider; update the engine, or write in engineering units";
            return Err(Fault::new(FaultCode::NotSupported, sentence));
        }
    };
    if superseded > 0 {
        variable.count_superseded(u64::from(superseded));
    }
    let raw_value;
    let mut value = WriteValue::Wire(record.value);
    if origin == Origin::SourceRaw {
        let properties = variable.properties();
        let raw_type = properties.raw_type();
        // The provider must send the raw type that it was given. If decoding fails, the engine
        // receives the encoded value and reports the error.
        if raw_type != variable.data_type()
            && check_room_to_decode(raw_type, record.value).is_ok()
            && let Ok(decoded) = wire::decode_exact(raw_type, record.value)
        {
            raw_value = decoded;
            value = WriteValue::Value(&raw_value);
        }
    }
    let write = Write {
        value,
        source_timestamp,
        quality,
        origin,
        verb,
        expected,
        completion: (is_provided && !is_published)
            .then(|| context.consumer.completion(record.write)),
    };
    loop {
        match engine.try_write(caller, now, wall, variable, &write, &mut context.wakes) {
            Attempt::Done(outcome) => {
                if matches!(outcome, WriteOutcome::Refused(Refusal::Denied { .. })) {
                    let request = gate::RefusedRequest {
                        request: FrameKind::Write.name(),
                        name: variable.name(),
                    };
                    gate::note_refusal(engine, caller, request, context.moment, &mut context.wakes);
                }
                return answered(Answer::Outcome(outcome));
            }
            Attempt::Pending => {
                context
                    .unanswered
                    .add_at_provider(record.write, record.value.len());
                return Ok(Attempted::AtProvider);
            }
            Attempt::WouldBlock { .. } if record.options.try_only => {
                return answered(Answer::WouldBlock);
            }
            Attempt::WouldBlock { until } => {
                if context.consumer.wait_for_room(variable) {
                    return Ok(Attempted::Parked(until));
                }
                // The feed was drained in the meantime or its subscription has ended, so try again.
            }
        }
    }
}

/// Checks that the client may send the extended form of a write if these options need it.
pub(super) fn check_extension(features: Features, options: &WriteOptions) -> Result<(), Fault> {
    match options.needs_extension() && !features.contains(Features::REGISTERS) {
        true => Err(not_agreed("the extension of a write", Features::REGISTERS)),
        false => Ok(()),
    }
}

/// Returns true if the write has a value and no other options, so that it can use the fast path.
fn has_only_value(options: &WriteOptions) -> bool {
    let without_options = WriteOptions {
        // `try_only` does not matter, because the fast path never waits.
        try_only: options.try_only,
        ..WriteOptions::default()
    };
    *options == without_options
}
