//! Handles FORCING: lists forced variables, and switches forcing on or off (H-27).

use trunkline_access::Action;
use trunkline_engine::{ForcedVariable, NoAuditRoom, Variable};
use trunkline_proto::limits::PAGE_BYTES;
use trunkline_proto::message::forcing::{
    ForcedBuilder, ForcedEntry, ForcedHead, Forcing, ForcingVerb,
};
use trunkline_proto::{Disconnect, Fault, FaultCode, FrameKind};
use trunkline_types::Moment;

use crate::context::{Context, Progress, Request, SLICE};
use crate::fault::audit_unstored;
use crate::gate::{Admitted, RefusedRequest, note_refusal};

pub(crate) fn handle(context: &mut Context, frame: &Admitted<'_>) -> Result<(), Disconnect> {
    let request = frame.request();
    let forcing = Forcing::decode(frame)?;
    context.queue.push(ForcingRequest { request, forcing });
    Ok(())
}

#[derive(Debug)]
struct ForcingRequest {
    request: u32,
    forcing: Forcing,
}

impl Request for ForcingRequest {
    fn run(&mut self, context: &mut Context) -> Progress {
        let Self { request, forcing } = *self;
        let rights = &context.caller.rights;
        let is_permitted = match forcing.verb {
            ForcingVerb::List => rights.permit_somewhere(Action::Read),
            // They can concern any variable.
            ForcingVerb::On | ForcingVerb::Off | ForcingVerb::Clear => {
                rights.permit_everywhere(Action::Force)
            }
        };
        if !is_permitted {
            if forcing.verb != ForcingVerb::List {
                let request = RefusedRequest {
                    request: FrameKind::Forcing.name(),
                    name: "",
                };
                let (engine, caller) = (&context.engine, &context.caller);
                note_refusal(engine, caller, request, context.moment, &mut context.wakes);
            }
            let sentence = "you have no permission for this operation on forced variables; ask the \
                        engine's administrator";
            context.put_fault(request, &Fault::new(FaultCode::Denied, sentence));
            return Progress::Done;
        }
        context.parked_until = None;
        let (engine, caller, wakes) = (&context.engine, &context.caller, &mut context.wakes);
        let Moment { now, wall } = context.moment;
        let changed = match forcing.verb {
            ForcingVerb::List => {
                list_forced(context, request, forcing);
                return Progress::Done;
            }
            ForcingVerb::On => engine.forcing().set(caller, true, now, wall, wakes),
            ForcingVerb::Off => engine.forcing().set(caller, false, now, wall, wakes),
            ForcingVerb::Clear => engine.forcing().clear(caller, now, wall, wakes),
        };
        let forced_count = match changed {
            Ok(forced_count) => forced_count,
            Err(NoAuditRoom::Wait(until)) => {
                return match context.consumer.wait_for_audit() {
                    true => {
                        context.parked_until = Some(until);
                        Progress::Parked
                    }
                    // The audit trail may have room now, so try the request again.
                    false => Progress::More,
                };
            }
            Err(NoAuditRoom::Unstored) => {
                context.put_fault(request, &audit_unstored());
                return Progress::Done;
            }
        };
        let head = ForcedHead {
            is_on: context.engine.forcing().is_on(),
            total: forced_count as u32,
            next_cursor: 0,
        };
        ForcedBuilder::begin(&mut context.answers.frames, request, &head).finish(false);
        Progress::Done
    }
}

/// Appends one page of forced variables, up to the requested number and the size of a page.
fn list_forced(context: &mut Context, request: u32, forcing: Forcing) {
    let limit = match forcing.limit {
        0 => SLICE,
        limit => SLICE.min(limit as usize),
    };
    let page = context
        .engine
        .forcing()
        .page(&context.caller, forcing.cursor, limit);
    let mut next_cursor = page.next.unwrap_or(0);
    let mut builder =
        ForcedBuilder::begin(&mut context.answers.frames, request, &ForcedHead::default());
    for forced in page.variables {
        if builder.len_bytes() >= PAGE_BYTES {
            next_cursor = forced.handle;
            break;
        }
        if let Some(variable) = context.engine.variable(forced.handle) {
            builder.push(&entry(&variable, forced));
        }
    }
    builder.finish_page(&ForcedHead {
        is_on: page.is_on,
        total: page.total as u32,
        next_cursor,
    });
}

/// Converts a forced variable to the form of the protocol.
pub(super) fn entry(variable: &Variable, forced: ForcedVariable) -> ForcedEntry {
    ForcedEntry {
        name: variable.name().to_owned(),
        data_type: variable.data_type().clone(),
        value: forced.value,
        by: forced.by.to_string(),
        since: forced.since,
        behind: forced.behind,
    }
}
