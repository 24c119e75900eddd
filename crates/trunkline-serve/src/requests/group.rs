//! Handles GROUP_WRITE: writes a group of variables at one instant, or none of them.

use trunkline_engine::{
    GROUP_MAX, GroupAttempt, GroupMember, GroupOutcome, Origin, Refusal, Write, WriteOutcome,
    WriteValue,
};
use trunkline_proto::message::group::{GroupAnswerBuilder, GroupHead, GroupWrite};
use trunkline_proto::message::outcome::{WouldBlock, WriteAnswer};
use trunkline_proto::{Fault, FaultCode, FaultRef};
use trunkline_types::{Moment, WriteVerb};

use super::Rejection;
use super::write::check_extension;
use crate::context::{Context, Effect, Progress, Request};
use crate::gate::Admitted;
use crate::write_run::{Answer, OwnedWrite, bytes_of, with_wire};

/// A group that has not been written.
#[derive(Debug)]
struct GroupRequest {
    request: u32,
    try_only: bool,
    writes: Vec<OwnedWrite>,
}

pub(crate) fn handle(context: &mut Context, frame: &Admitted<'_>) -> Result<(), Rejection> {
    let request = frame.request();
    let group = GroupWrite::decode(frame)?;
    let count = frame.count() as usize;
    if count == 0 || count > GROUP_MAX {
        let sentence = format!("a group has 1 to {GROUP_MAX} variables, but this one has {count}");
        return Err(Fault::new(FaultCode::TooLarge, sentence).into());
    }
    let try_only = group.try_only();
    let mut writes = Vec::with_capacity(count);
    for write in group {
        let write = write?;
        check_extension(context.features, &write.options)?;
        writes.push(OwnedWrite::of(&write, false)?);
    }
    context.queue.push(GroupRequest {
        request,
        try_only,
        writes,
    });
    Ok(())
}

impl Request for GroupRequest {
    /// Writes the group, or parks it until a feed has room.
    fn run(&mut self, context: &mut Context) -> Progress {
        let Moment { now, wall } = context.moment;
        context.parked_until = None;
        let members: Vec<_> = self.writes.iter().map(member).collect();
        loop {
            let (engine, caller) = (&context.engine, &context.caller);
            let attempt =
                engine
                    .groups()
                    .try_write(caller, now, wall, &members, &mut context.wakes);
            match attempt {
                GroupAttempt::Done(outcome) => {
                    put_group(context, self.request, &outcome);
                    return Progress::Done;
                }
                GroupAttempt::WouldBlock { .. } if self.try_only => {
                    let head = GroupHead::default();
                    let out = &mut context.answers.frames;
                    let mut answer = GroupAnswerBuilder::begin(out, self.request, &head);
                    for _ in &members {
                        answer.push(&WriteAnswer::NotTried(WouldBlock));
                    }
                    answer.finish(false);
                    return Progress::Done;
                }
                GroupAttempt::WouldBlock { until, handle } => {
                    let variable = context.engine.variable(handle);
                    if variable.is_some_and(|full| context.consumer.wait_for_room(&full)) {
                        context.parked_until = Some(until);
                        return Progress::Parked;
                    }
                    // The feed was drained in the meantime or its subscription has ended, so try
                    // again.
                }
            }
        }
    }

    fn bytes(&self) -> usize {
        bytes_of(&self.writes)
    }

    fn effect(&self) -> Effect {
        Effect::Group
    }
}

fn put_group(context: &mut Context, request: u32, group: &GroupOutcome) {
    let head = GroupHead {
        commit: group.commit,
        culprit: group
            .refused_member
            .and_then(|index| u32::try_from(index).ok()),
    };
    let mut answer = GroupAnswerBuilder::begin(&mut context.answers.frames, request, &head);
    for outcome in &group.outcomes {
        if let WriteOutcome::Refused(Refusal::Group { .. }) = outcome {
            // The client creates the sentence, because it knows the name of the refused variable.
            let fault = FaultRef {
                code: FaultCode::GroupRefused,
                sentence: "",
            };
            answer.push(&WriteAnswer::Refused(fault));
        } else {
            with_wire(&Answer::Outcome(outcome.clone()), |wire| answer.push(wire));
        }
    }
    answer.finish(false);
}

fn member(write: &OwnedWrite) -> GroupMember<'_> {
    let options = &write.options;
    // `try_write` refuses members that clients may not write in a group, such as raw values.
    let origin = match options.raw {
        true => Origin::SourceRaw,
        false => Origin::Client,
    };
    GroupMember {
        handle: write.handle,
        write: Write {
            value: WriteValue::Wire(&write.value),
            source_timestamp: options.source_timestamp,
            quality: options.quality,
            origin,
            verb: options.verb.unwrap_or(WriteVerb::Send),
            expected: options.expected,
            completion: None,
        },
    }
}
