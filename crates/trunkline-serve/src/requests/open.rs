//! Handles OPEN: opens variables by name, and subscribes them if the client requests it. The answer
//! has a result for each name.

use std::sync::Arc;

use trunkline_engine::{AccessError, Variable};
use trunkline_proto::limits::PAGE_BYTES;
use trunkline_proto::message::open::{Open, OpenTerms, OpenedBuilder};
use trunkline_proto::message::subscribe::SubscribeTerms;
use trunkline_proto::{Disconnect, Fault};
use trunkline_types::Moment;
use trunkline_types::name::NameError;

use super::subscribe::subscribe_one;
use crate::context::{Context, Page, Progress, Request};
use crate::gate::Admitted;
use crate::updates::RecordEncoder;

/// Maximum number of unknown names per request for which a similar name is searched.
const SUGGESTIONS_MAX: u32 = 8;

#[derive(Debug)]
struct OpenRequest {
    page: Page,
    terms: OpenTerms,
    names: Names,
    /// Number of unknown names so far.
    misses: u32,
}

/// A list of names in one buffer.
#[derive(Debug, Default)]
struct Names {
    /// All names, without separators.
    bytes: Vec<u8>,
    /// End of each name in `bytes`.
    ends: Vec<u32>,
}

impl Names {
    fn push(&mut self, name: &[u8]) {
        self.bytes.extend_from_slice(name);
        // The names come from one frame, which is far smaller than 4 GiB.
        self.ends.push(self.bytes.len() as u32);
    }

    fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)? as usize;
        let start = match index.checked_sub(1) {
            Some(before) => *self.ends.get(before)? as usize,
            None => 0,
        };
        self.bytes.get(start..end)
    }
}

pub(crate) fn handle(context: &mut Context, frame: &Admitted<'_>) -> Result<(), Disconnect> {
    let open = Open::decode(frame)?;
    let terms = *open.head();
    let mut names = Names::default();
    for name in open {
        names.push(name?);
    }
    let page = context.page(frame)?;
    context.queue.push(OpenRequest {
        page,
        terms,
        names,
        misses: 0,
    });
    Ok(())
}

impl Request for OpenRequest {
    /// Opens the next slice of names.
    fn run(&mut self, context: &mut Context) -> Progress {
        let mut answers = std::mem::take(&mut context.answers.frames);
        let (options, total) = (self.terms.options, self.names.ends.len());
        let (request, first) = (self.page.request, self.page.first_index());
        let mut frame = OpenedBuilder::begin(&mut answers, request, options, first);
        for index in self.page.range(total) {
            self.page.next += 1;
            let name = self.names.get(index).unwrap_or_default();
            let subscribe = self.terms.subscribe.as_ref();
            match open_one(context, name, subscribe, &mut self.misses) {
                Err(fault) => frame.push_fault(fault.as_ref()),
                Ok(variable) => {
                    let properties = variable.properties();
                    let handle = variable.handle();
                    let update = options.read.then(|| context.readable(&variable).ok());
                    let reading = update.as_ref().map(|update| match update {
                        Some(update) => {
                            let records =
                                context.records.within(update, |room| frame.make_room(room));
                            records.record(handle, update)
                        }
                        None => RecordEncoder::not_readable(handle),
                    });
                    frame.push(
                        handle,
                        &properties.data_type,
                        properties.access,
                        reading.as_ref(),
                        options.describe.then_some(&**properties),
                    );
                }
            }
            if frame.len_bytes() >= PAGE_BYTES {
                break;
            }
        }
        frame.finish(self.page.has_more(total));
        context.answers.frames = answers;
        self.page.progress(total)
    }

    fn units(&self) -> usize {
        self.page.units(self.names.ends.len())
    }

    fn bytes(&self) -> usize {
        self.names.bytes.len() + size_of::<u32>() * self.names.ends.len()
    }
}

fn open_one(
    context: &mut Context,
    name: &[u8],
    terms: Option<&SubscribeTerms>,
    misses: &mut u32,
) -> Result<Arc<Variable>, Fault> {
    let Moment { now, wall } = context.moment;
    let found = std::str::from_utf8(name)
        .map_err(|_| AccessError::InvalidName(NameError::NotUtf8))
        .and_then(|name| {
            context
                .engine
                .fields()
                .open(&context.caller, name, now, wall)
        });
    let variable = found.map_err(|error| Fault::from(&suggest(context, error, misses)))?;
    let opened = context
        .engine
        .fields()
        .keep(&mut context.consumer, variable);
    let variable = opened.map_err(|error| Fault::from(&error))?;
    if let Some(terms) = terms {
        subscribe_one(context, &variable, terms, None, true)?;
    }
    Ok(variable)
}

/// Adds the most similar existing name to the error, for the first few unknown names of a request
/// only, because the search may have to read tens of thousands of names.
fn suggest(context: &Context, error: AccessError, misses: &mut u32) -> AccessError {
    let AccessError::UnknownName {
        name,
        suggestion: None,
    } = error
    else {
        return error;
    };
    *misses += 1;
    let suggestion = match *misses <= SUGGESTIONS_MAX {
        true => context.engine.suggest(&context.caller, &name),
        false => None,
    };
    AccessError::UnknownName { name, suggestion }
}
