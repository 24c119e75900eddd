//! Writes: carried out on arrival, answered in packed runs, and parked if a feed must drain first.
//!
//! A parked write delays later writes to the same variable, to keep their order, and requests other
//! than writes, because these must see all earlier writes. Writes to other variables continue. The
//! write credit bounds the parked writes.

use trunkline_engine::{Attempt, FollowedHandles, Origin, Write, WriteValue, check_room_to_decode};
use trunkline_proto::message::write::{WriteOptions, WriteRecord, Writes};
use trunkline_proto::{Disconnect, Fault, FaultCode, Features, Frame, FrameKind};
use trunkline_types::wire;
use trunkline_types::{Moment, Quality, Tick};

use crate::context::{Context, Effect, Progress, REQUEST_BYTES, Request, units_of};
use crate::fault::not_agreed;
use crate::request_budget::Use;
use crate::write_run::{Answer, OwnedWrite, Packed, bytes_of};

/// The result of an attempt to write.
enum Attempted {
    Ended(Packed),
    /// The provider answers later.
    Later,
    /// The write waits for room in a feed.
    Parked(Tick),
}

pub(crate) fn handle(context: &mut Context, frame: &Frame<'_>) -> Result<(), Disconnect> {
    let writes = Writes::decode(frame)?;
    let is_published = frame.kind() == Some(FrameKind::Publish);
    context
        .unanswered
        .begin(writes.first_write(), frame.count(), &context.options)?;
    let mut handles = std::mem::take(&mut context.handles);
    let followed = handles.follow();
    let mut behind = Vec::new();
    let mut result = Ok(());
    for write in writes {
        let write = match write {
            Ok(write) => write,
            Err(error) => {
                result = Err(error.into());
                break;
            }
        };
        // A write waits behind all waiting requests, because requests are carried out in order.
        let kept = if !context.queue.is_empty() || !behind.is_empty() {
            copy(context, &write, is_published).map(|write| behind.push(write))
        } else if context.parked.holds(write.handle) {
            copy(context, &write, is_published).map(|write| context.parked.push(write))
        } else {
            match attempt(context, &followed, &write, is_published) {
                Ok(Attempted::Ended(answer)) => {
                    let run = &mut context.unanswered.run;
                    run.push(&mut context.answers.frames, write.write, answer);
                    Ok(())
                }
                Ok(Attempted::Later) => Ok(()),
                Ok(Attempted::Parked(until)) => {
                    copy(context, &write, is_published).map(|write| park(context, write, until))
                }
                Err(fault) => Err(fault),
            }
        };
        if let Err(fault) = kept {
            let refused = Packed::from(Answer::Fault(fault));
            let run = &mut context.unanswered.run;
            run.push(&mut context.answers.frames, write.write, refused);
        }
    }
    if behind.is_empty() {
        // The payload is longer than the values, but the quarter of the credit is only approximate.
        let bytes = frame.payload().len();
        context.unanswered.give_back(frame.count() as usize, bytes);
    } else {
        context.queue.push(QueuedWrites(behind));
    }
    result = result.and_then(|()| context.unanswered.check_bytes(&context.options));
    context.unanswered.run.flush(&mut context.answers.frames);
    drop(followed);
    context.handles = handles;
    result
}

/// Returns an owned copy of a write that has to wait, if there is enough memory for it.
fn copy(
    context: &mut Context,
    write: &WriteRecord<'_>,
    is_published: bool,
) -> Result<OwnedWrite, Fault> {
    let bytes = REQUEST_BYTES + size_of::<OwnedWrite>() + write.value.len();
    context.account.add(Use::Requests, bytes)?;
    let owned = OwnedWrite::of(write, is_published)?;
    context.unanswered.wait(write.value.len());
    Ok(owned)
}

/// Writes that waited behind other requests.
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

/// Tries parked writes again: for each variable, as many writes as there is room for now.
pub(crate) fn retry_parked(context: &mut Context) {
    if context.parked.is_empty() {
        return;
    }
    context.parked_until = None;
    let writes = std::mem::take(&mut context.parked).writes;
    run_waiting(context, writes.into_iter());
}

/// Carries out writes that waited. A write for which there is no room is parked, and so are later
/// writes to the same variable.
fn run_waiting(context: &mut Context, writes: impl Iterator<Item = OwnedWrite>) {
    let mut handles = std::mem::take(&mut context.handles);
    let followed = handles.follow();
    for write in writes {
        if context.parked.holds(write.handle) {
            context.parked.push(write);
            continue;
        }
        let answer = match attempt(context, &followed, &write.record(), write.is_published) {
            Ok(Attempted::Ended(answer)) => Some(answer),
            Ok(Attempted::Later) => None,
            Ok(Attempted::Parked(until)) => {
                park(context, write, until);
                continue;
            }
            Err(fault) => Some(Packed::from(Answer::Fault(fault))),
        };
        if let Some(answer) = answer {
            let run = &mut context.unanswered.run;
            run.push(&mut context.answers.frames, write.id, answer);
        }
        context.unanswered.go_on(write.value.len());
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
    let ended = |answer: Answer| Ok(Attempted::Ended(Packed::from(answer)));
    let (engine, caller) = (&context.engine, &context.caller);
    let Moment { now, wall } = context.moment;
    let is_bare = !is_published && is_bare(&record.options);
    let Some(variable) = handles.visible(caller, record.handle) else {
        return Err(Fault::from(&engine.no_variable(record.handle)));
    };
    if is_bare
        && engine.is_clock_settled()
        && let Some(sequence) =
            variable.write_plain_wire(caller, wall, record.value, &mut context.wakes)
    {
        return Ok(Attempted::Ended(Packed::Applied(sequence)));
    }
    check_extension(context.features, &record.options)?;
    if is_published && (context.provider.is_none() || variable.provider() != context.provider) {
        return Err(FaultCode::NotItsProvider.into());
    }
    if is_published && record.value.is_empty() {
        // Only the quality of the source changes.
        let quality = record.options.quality.unwrap_or(Quality::GOOD);
        engine
            .providers()
            .set_quality(record.handle, quality, now, wall, &mut context.wakes);
        let sequence = variable.sequence();
        return Ok(Attempted::Ended(Packed::Applied(sequence)));
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
            let sentence = "this engine does not know what is to be done with the value, or \
                            takes none in raw units; update it, or write in engineering units";
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
        // The value should have the type that was sent to the provider. The engine reports any
        // error in it.
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
            Attempt::Done(outcome) => return ended(Answer::Outcome(outcome)),
            Attempt::Pending => {
                context.unanswered.provide(record.write, record.value.len());
                return Ok(Attempted::Later);
            }
            Attempt::WouldBlock { .. } if record.options.try_only => {
                return ended(Answer::WouldBlock);
            }
            Attempt::WouldBlock { until } => {
                if context.consumer.wait_for_room(variable) {
                    return Ok(Attempted::Parked(until));
                }
                // The feed was drained in the meantime: there is room, or the subscription has
                // ended.
            }
        }
    }
}

/// Checks that the client may use the extension of a write.
pub(super) fn check_extension(features: Features, options: &WriteOptions) -> Result<(), Fault> {
    match options.needs_extension() && !features.contains(Features::REGISTERS) {
        true => Err(not_agreed("the extension of a write", Features::REGISTERS)),
        false => Ok(()),
    }
}

/// Returns true if the write has only a value, which is then written unchanged and gets its
/// timestamp on arrival.
fn is_bare(options: &WriteOptions) -> bool {
    let bare = WriteOptions {
        // This has no effect if nothing can delay the write.
        try_only: options.try_only,
        ..WriteOptions::default()
    };
    *options == bare
}
