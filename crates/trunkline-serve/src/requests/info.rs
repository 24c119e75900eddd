//! Answers INFO with all information about each variable.

use trunkline_engine::{ForcedVariable, Variable};
use trunkline_proto::Fault;
use trunkline_proto::limits::{INFO_READERS_MAX, INFO_SUBSCRIPTIONS_MAX, PAGE_BYTES};
use trunkline_proto::message::contract::SubscribeFlags;
use trunkline_proto::message::info::{
    InfoAnswerBuilder, ReaderInfo, SubscriptionInfo, VariableInfo,
};
use trunkline_proto::message::list::AnswerHead;
use trunkline_proto::message::subscribe::SubscribeTerms;
use trunkline_types::AuditMode;

use super::forcing::entry;
use crate::context::{Context, Page};

/// Appends the information about the next slice of handles.
pub(super) fn info(context: &mut Context, page: &mut Page, handles: &[u32]) {
    let head = AnswerHead {
        first_index: page.first_index(),
    };
    let mut answers = std::mem::take(&mut context.answers.frames);
    let mut frame = InfoAnswerBuilder::begin(&mut answers, page.request, &head);
    for handle in page.slice(handles) {
        page.next += 1;
        match context.engine.visible(&context.caller, *handle) {
            None => {
                let error = context.engine.no_variable(&context.caller, *handle);
                frame.push(&Err(Fault::from(&error).as_ref()));
            }
            Some(variable) => frame.push(&Ok(describe(context, &variable))),
        }
        if frame.len_bytes() >= PAGE_BYTES {
            break;
        }
    }
    frame.finish(page.has_more(handles.len()));
    context.answers.frames = answers;
}

fn describe(context: &Context, variable: &Variable) -> VariableInfo {
    let update = variable.update();
    let handle = variable.handle();
    let subscriptions = context.consumer.subscriptions_of(handle);
    let subscriptions = subscriptions
        .into_iter()
        .take(INFO_SUBSCRIPTIONS_MAX)
        .filter_map(|(subscription, contract)| {
            let ledger = context.consumer.ledger(subscription, handle)?;
            let flags = flags_of(context, subscription);
            Some(SubscriptionInfo {
                terms: SubscribeTerms {
                    subscription,
                    contract,
                    flags,
                },
                ledger,
            })
        })
        .collect();
    let lease = context
        .engine
        .leases()
        .holder_of(variable, context.moment.now);
    let lease = lease.as_ref();
    VariableInfo {
        name: variable.name().to_owned(),
        properties: (*context
            .caller
            .rights
            .shown_properties(&variable.properties()))
        .clone(),
        sequence: update.sequence,
        engine_timestamp: update.engine_timestamp,
        write_ledger: variable.ledger(),
        subscribers: variable.subscribers() as u64,
        last_writer: context
            .engine
            .writers()
            .last_writer(variable, &context.caller),
        source_state: context
            .engine
            .queries()
            .source_state(&context.caller, variable),
        held_by: lease.map_or_else(String::new, |lease| lease.who.to_string()),
        lease_left: lease.and_then(|lease| lease.left).unwrap_or_default(),
        writers_waiting: lease.map_or(0, |lease| lease.waiting as u64),
        audit: match variable.properties().audit != AuditMode::Off {
            true => context.engine.audit().storage().sentence.to_string(),
            false => String::new(),
        },
        subscriptions,
        readers: variable
            .readers(INFO_READERS_MAX)
            .into_iter()
            .map(|reader| ReaderInfo {
                session: reader.whose.session,
                from: reader.whose.from,
                transport: reader.whose.transport.to_owned(),
                repaired: reader.repaired,
            })
            .collect(),
        forced: ForcedVariable::of(variable).map(|forced| entry(variable, forced)),
    }
}

/// Returns the flags of an existing subscription.
fn flags_of(context: &Context, subscription: u32) -> SubscribeFlags {
    let only_changes = context.consumer.only_changes(subscription);
    SubscribeFlags {
        only_changes: only_changes.unwrap_or(false),
        ..SubscribeFlags::NONE
    }
}
