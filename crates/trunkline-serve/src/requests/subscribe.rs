//! Handles SUBSCRIBE: subscribes open variables by handle, and answers with a result for each item.

use std::sync::Arc;

use trunkline_access::Action;
use trunkline_engine::{AccessError, Variable};
use trunkline_proto::limits::PAGE_BYTES;
use trunkline_proto::message::results::ResultsBuilder;
use trunkline_proto::message::subscribe::{
    Subscribe, SubscribeHead, SubscribeItem, SubscribeTerms,
};
use trunkline_proto::{Disconnect, Fault, FaultCode};
use trunkline_types::{Contract, Position, Tick};

use crate::context::{Context, Page, Progress, Request};
use crate::gate::Admitted;
use crate::request_budget::{ITEM_BYTES, MemoryUse};

#[derive(Debug)]
struct SubscribeRequest {
    page: Page,
    terms: SubscribeTerms,
    resume_epoch: Option<u64>,
    items: Vec<SubscribeItem>,
}

pub(crate) fn handle(context: &mut Context, frame: &Admitted<'_>) -> Result<(), Disconnect> {
    let subscribe = Subscribe::decode(frame)?;
    let SubscribeHead {
        terms,
        resume_epoch,
    } = *subscribe.head();
    let items = subscribe.collect::<Result<Vec<_>, _>>()?;
    let page = context.page(frame)?;
    context.queue.push(SubscribeRequest {
        page,
        terms,
        resume_epoch,
        items,
    });
    Ok(())
}

impl Request for SubscribeRequest {
    /// Subscribes the next slice of handles.
    fn run(&mut self, context: &mut Context) -> Progress {
        let total = self.items.len();
        let (request, first) = (self.page.request, self.page.first_index());
        if first == 0 {
            context.consumer.begin_request();
        }
        let mut answers = std::mem::take(&mut context.answers.frames);
        let mut results = ResultsBuilder::subscribed(&mut answers, request, first);
        for item in self.page.slice(&self.items) {
            self.page.next += 1;
            let resume = self
                .resume_epoch
                .filter(|_| item.last_sequence > 0)
                .map(|epoch| Position {
                    epoch,
                    sequence: item.last_sequence,
                });
            let result = match context.engine.visible(&context.caller, item.handle) {
                None => Err(Fault::from(
                    &context.engine.no_variable(&context.caller, item.handle),
                )),
                Some(variable) => subscribe_one(context, &variable, &self.terms, resume, false),
            };
            match result {
                Ok(()) => results.push_ok(),
                Err(fault) => results.push_fault(fault.as_ref()),
            }
            if results.len_bytes() >= PAGE_BYTES {
                break;
            }
        }
        results.finish(self.page.has_more(total));
        context.answers.frames = answers;
        self.page.progress(total)
    }

    fn units(&self) -> usize {
        self.page.units(self.items.len())
    }

    fn bytes(&self) -> usize {
        size_of::<SubscribeItem>() * self.items.len()
    }
}

/// Subscribes one variable. If `first_is_free` is true, the first update of an `all` subscription
/// uses no credit. This is so after an OPEN, whose client knows which update is the first. After a
/// SUBSCRIBE, only the engine knows whether there is a first reading.
pub(super) fn subscribe_one(
    context: &mut Context,
    variable: &Arc<Variable>,
    terms: &SubscribeTerms,
    resume: Option<Position>,
    first_is_free: bool,
) -> Result<(), Fault> {
    let SubscribeTerms {
        subscription,
        contract,
        flags,
    } = *terms;
    if flags.own_suppressed {
        let sentence = "this engine cannot suppress a session's own updates; ignore the updates \
                        that are marked as own";
        return Err(Fault::new(FaultCode::NotSupported, sentence));
    }
    if flags.recorded && !variable.permits(&context.caller, Action::Record) {
        let action = Action::Record;
        return Err(Fault::from(&AccessError::Denied { action }));
    }
    let items = context.consumer.item_count();
    if items >= context.options.items_max as usize {
        return Err(Fault::from(&AccessError::Limit {
            what: "the number of items of one session",
            max: u64::from(context.options.items_max),
            hint: "close subscriptions or open another connection",
        }));
    }
    charge_item(context, items)?;
    let is_new = !context.consumer.has_subscription(subscription);
    let request = trunkline_engine::Subscribe {
        subscription,
        contract,
        only_changes: flags.only_changes,
        resume,
        first_is_free,
    };
    context
        .consumer
        .subscribe(&context.caller, variable, request)
        .map_err(|error| Fault::from(&error))?;
    match contract {
        // The bound in the contract is the initial credit. The client grants more credit later.
        Contract::All { elements, .. } if is_new => {
            context.consumer.grant(subscription, u64::from(elements));
        }
        Contract::Sampled(_) => {
            context.sampled_due = Tick::earliest([context.sampled_due, Some(context.moment.now)]);
        }
        _ => {}
    }
    Ok(())
}

/// Charges the memory of one more item than `items` to the session. It remains charged until the
/// session ends, because the memory of an ended item is reused for the next item.
fn charge_item(context: &mut Context, items: usize) -> Result<(), Fault> {
    let bytes = items.saturating_add(1).saturating_mul(ITEM_BYTES);
    if bytes <= context.account.used(MemoryUse::Items) {
        return Ok(());
    }
    context.account.set(MemoryUse::Items, bytes)
}
