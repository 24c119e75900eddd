//! Handles READ, CLOSE, INFO, UNSUBSCRIBE and REQUEST_VALUE, which have a list of handles.

use std::collections::BTreeMap;

use trunkline_access::Action;
use trunkline_engine::AccessError;
use trunkline_proto::limits::PAGE_BYTES;
use trunkline_proto::message::handles::{Handles, Unsubscribe};
use trunkline_proto::message::list::{List, ListFrame};
use trunkline_proto::message::read::ReadingsBuilder;
use trunkline_proto::message::results::ResultsBuilder;
use trunkline_proto::{DecodeError, Disconnect, Fault, FaultCode, FrameKind};

use super::info::info;
use crate::context::{Context, Page, Progress, Request};
use crate::gate::Admitted;

/// An operation on a list of handles.
#[derive(Clone, Copy, Debug)]
enum HandlesVerb {
    Read,
    Close,
    Info,
    RequestValue,
    /// Removes the handles from the subscription, or ends the subscription if `whole` is true.
    Unsubscribe {
        subscription: u32,
        whole: bool,
    },
}

#[derive(Debug)]
struct HandlesRequest {
    page: Page,
    verb: HandlesVerb,
    handles: Vec<u32>,
}

/// Collects the handles of a frame.
fn collect<F>(list: List<'_, F>) -> Result<Vec<u32>, DecodeError>
where
    F: for<'a> ListFrame<Item<'a> = u32>,
{
    // The length of the frame, which has been checked, bounds the capacity.
    let mut handles = Vec::with_capacity(list.left() as usize);
    for handle in list {
        handles.push(handle?);
    }
    Ok(handles)
}

pub(crate) fn handle(
    context: &mut Context,
    frame: &Admitted<'_>,
    kind: FrameKind,
) -> Result<(), Disconnect> {
    let (verb, handles) = match kind {
        FrameKind::Unsubscribe => {
            let unsubscribe = Unsubscribe::decode(frame)?;
            let verb = HandlesVerb::Unsubscribe {
                subscription: unsubscribe.head().subscription,
                whole: unsubscribe.left() == 0,
            };
            (verb, collect(unsubscribe)?)
        }
        FrameKind::Read => (HandlesVerb::Read, collect(Handles::decode(frame)?)?),
        FrameKind::Info => (HandlesVerb::Info, collect(Handles::decode(frame)?)?),
        FrameKind::RequestValue => (HandlesVerb::RequestValue, collect(Handles::decode(frame)?)?),
        _ => (HandlesVerb::Close, collect(Handles::decode(frame)?)?),
    };
    let page = context.page(frame)?;
    context.queue.push(HandlesRequest {
        page,
        verb,
        handles,
    });
    Ok(())
}

impl Request for HandlesRequest {
    /// Handles the next slice of a list of handles.
    fn run(&mut self, context: &mut Context) -> Progress {
        let Self {
            page,
            verb,
            handles,
        } = self;
        match *verb {
            HandlesVerb::Read => read(context, page, handles),
            HandlesVerb::Info => info(context, page, handles),
            HandlesVerb::RequestValue => request_values(context, page, handles),
            HandlesVerb::Unsubscribe {
                subscription,
                whole: true,
            } => {
                // This can take many slices. Other sessions run between the slices.
                if !context
                    .consumer
                    .unsubscribe_some(subscription, &mut context.wakes)
                {
                    return Progress::More;
                }
                answer_closed(context, page, handles);
            }
            HandlesVerb::Unsubscribe {
                subscription,
                whole: false,
            } => {
                let slice = answer_closed(context, page, handles);
                context
                    .consumer
                    .unsubscribe(subscription, Some(slice), &mut context.wakes);
            }
            HandlesVerb::Close => {
                let slice = answer_closed(context, page, handles);
                close_handles(context, slice);
            }
        }
        page.progress(handles.len())
    }

    fn units(&self) -> usize {
        self.page.units(self.handles.len())
    }

    fn bytes(&self) -> usize {
        size_of::<u32>() * self.handles.len()
    }
}

/// Reports success for the next slice of handles, and returns the slice.
fn answer_closed<'h>(context: &mut Context, page: &mut Page, handles: &'h [u32]) -> &'h [u32] {
    let (request, first) = (page.request, page.first_index());
    let slice = page.slice(handles);
    page.next += slice.len();
    let mut results = ResultsBuilder::closed(&mut context.answers.frames, request, first);
    for _ in slice {
        results.push_ok();
    }
    results.finish(page.has_more(handles.len()));
    slice
}

/// Removes variables from every subscription.
fn close_handles(context: &mut Context, handles: &[u32]) {
    let mut closing: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for handle in handles {
        for (subscription, _) in context.consumer.subscriptions_of(*handle) {
            closing.entry(subscription).or_default().push(*handle);
        }
    }
    for (subscription, handles) in closing {
        context
            .consumer
            .unsubscribe(subscription, Some(&handles), &mut context.wakes);
    }
    for handle in handles {
        context.consumer.drop_field(*handle);
    }
}

fn read(context: &mut Context, page: &mut Page, handles: &[u32]) {
    let (request, first) = (page.request, page.first_index());
    let mut answers = std::mem::take(&mut context.answers.frames);
    let mut handle_reader = std::mem::take(&mut context.handles);
    let followed = handle_reader.follow();
    let mut readings = ReadingsBuilder::begin(&mut answers, request, first);
    for handle in page.slice(handles) {
        page.next += 1;
        let variable = followed.visible(&context.caller, *handle);
        if let Some(variable) = variable
            && let Some(update) = variable.read_plain(&context.caller)
        {
            let (word, bytes) = (update.word.to_le_bytes(), variable.plain_bytes());
            let value = word.get(..bytes).unwrap_or(&word);
            if let Some(record) = context.records.plain_record(*handle, &update, value) {
                readings.push(&record);
                if readings.len_bytes() >= PAGE_BYTES {
                    break;
                }
                continue;
            }
        }
        let update = match variable {
            None => Err(Fault::from(
                &context.engine.no_variable(&context.caller, *handle),
            )),
            Some(variable) if variable.is_gone() => Err(Fault::from(&AccessError::Gone)),
            Some(variable) => context
                .readable(variable)
                .map_err(|error| Fault::from(&error)),
        };
        match update.and_then(|update| context.records.check(update, &mut readings)) {
            Ok(update) => readings.push(&context.records.record(*handle, &update)),
            Err(fault) => readings.push_fault(fault.as_ref()),
        }
        if readings.len_bytes() >= PAGE_BYTES {
            break;
        }
    }
    readings.finish(page.has_more(handles.len()));
    drop(followed);
    context.handles = handle_reader;
    context.answers.frames = answers;
}

fn request_values(context: &mut Context, page: &mut Page, handles: &[u32]) {
    let (request, first) = (page.request, page.first_index());
    let mut results = ResultsBuilder::requested(&mut context.answers.frames, request, first);
    for handle in page.slice(handles) {
        page.next += 1;
        let Some(variable) = context.engine.visible(&context.caller, *handle) else {
            let error = context.engine.no_variable(&context.caller, *handle);
            results.push_fault(Fault::from(&error).as_ref());
            continue;
        };
        if !variable.permits(&context.caller, Action::Write) {
            results.push_fault(
                Fault::from(&AccessError::Denied {
                    action: Action::Write,
                })
                .as_ref(),
            );
        } else if context.engine.providers().request(*handle) {
            results.push_ok();
        } else {
            let sentence =
                "this variable has no provider: its value changes only when it is written";
            results.push_fault(Fault::new(FaultCode::ProviderGone, sentence).as_ref());
        }
        if results.len_bytes() >= PAGE_BYTES {
            break;
        }
    }
    results.finish(page.has_more(handles.len()));
}
