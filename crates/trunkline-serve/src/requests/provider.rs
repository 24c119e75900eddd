//! Lets a client be the source of variables, such as an I/O server in a separate process.
//!
//! ```text
//!  writers' threads --> the consumer's queue --> PROVIDER_WRITE, PROVIDER_REQUEST, PROVIDER_BIND
//!  PROVIDER_ANSWER  --> providers().answer
//!  PUBLISH          --> the write path, as the variable's source
//! ```
//!
//! A client is a provider until its connection ends for any reason, including its keep-alive
//! deadline. The quality of its variables then becomes bad, with the reason `ProviderGone`.

use std::collections::BTreeMap;

use trunkline_engine::{
    Answer, NoMemory, PROVIDER_PENDING_MAX, ProviderOrder, SecurityEvent, SecurityNote, Ticket,
    check_room_to_decode, io_server,
};
use trunkline_proto::limits::PAGE_BYTES;
use trunkline_proto::message::open::OpenOptions;
use trunkline_proto::message::provider::{
    BoundVariable, Provide, ProviderAnswers, ProviderBindBuilder, ProviderOutcome,
    ProviderRequestBuilder, ProviderRequestHead, ReadBack, begin_provided,
};
use trunkline_proto::message::write::{WriteBuilder, WriteOptions};
use trunkline_proto::{Disconnect, Fault, FaultCode, FrameKind};
use trunkline_types::wire::{self, Reader};
use trunkline_types::{Moment, Reason, Value};

use super::Rejection;
use crate::context::Context;
use crate::gate::{Admitted, RefusedRequest, note_refusal};

/// Maximum number of sent orders to remember: the maximum number of orders that the engine waits for,
/// and the same number that have timed out.
const SENT_MAX: usize = 2 * PROVIDER_PENDING_MAX;

/// The provider role of a session.
#[derive(Debug, Default)]
pub(crate) struct ProviderRole {
    /// Orders that were sent and not answered, by their number on this connection.
    sent: BTreeMap<u64, SentOrder>,
    next_ticket: u64,
}

#[derive(Debug)]
struct SentOrder {
    ticket: Ticket,
    handle: u32,
    /// The value to write; `None` for a read request.
    value: Option<Value>,
}

impl ProviderRole {
    /// Remembers an order that was sent. If there are more than `SENT_MAX`, removes the oldest, for
    /// which the engine no longer waits.
    fn remember(&mut self, number: u64, ticket: Ticket, handle: u32, value: Option<Value>) {
        self.next_ticket = number + 1;
        let sent = SentOrder {
            ticket,
            handle,
            value,
        };
        self.sent.insert(number, sent);
        if self.sent.len() > SENT_MAX {
            self.sent.pop_first();
        }
    }

    /// Handles PROVIDE: the client becomes the source of every variable whose `source` names it.
    pub(crate) fn handle(context: &mut Context, frame: &Admitted<'_>) -> Result<(), Rejection> {
        let provide = Provide::decode(frame)?;
        let name = provide.head().provider;
        let refused = |code, sentence: &'static str| Err(Fault::new(code, sentence).into());
        let server = io_server(name);
        if !context.caller.rights.permit_io(&server) {
            let request = RefusedRequest {
                request: FrameKind::Provide.name(),
                name: &server,
            };
            let (engine, caller) = (&context.engine, &context.caller);
            note_refusal(engine, caller, request, context.moment, &mut context.wakes);
            let sentence = format!(
                "you have no permission to provide the I/O server {name}; ask the engine's \
                 administrator for the right to configure {server}"
            );
            return Err(Fault::new(FaultCode::Denied, sentence).into());
        }
        if context.provider.is_some() {
            let sentence = "a connection can have only one provider; open another connection";
            return refused(FaultCode::BadRequest, sentence);
        }
        if name.is_empty() || provide.left() > 0 {
            let sentence = "a provider needs a name and no list of variables; it provides the \
                            variables whose `source` begins with the name";
            return refused(FaultCode::NotSupported, sentence);
        }
        let providers = context.engine.providers();
        let attached = providers.attach_source(providers.from_consumer(
            &context.consumer,
            &context.caller,
            name,
        ));
        let id = attached.map_err(|taken| Fault::new(FaultCode::NameTaken, taken.to_string()))?;
        context.provider = Some(id);
        let note = SecurityNote {
            peer: &context.caller.principal.to_string(),
            event: SecurityEvent::Provides { server: &server },
        };
        let (audit, caller) = (context.engine.audit(), &context.caller);
        audit.note_security(caller, note, context.moment, &mut context.wakes);
        let (lease, options) = (context.options.deadline, OpenOptions::default());
        let out = &mut context.answers.frames;
        begin_provided(out, frame.request(), lease, options, 0).finish(false);
        Ok(())
    }

    /// Handles the client's answers to orders.
    pub(crate) fn handle_provider_answer(
        &mut self,
        context: &mut Context,
        frame: &Admitted<'_>,
    ) -> Result<(), Disconnect> {
        for answer in ProviderAnswers::decode(frame)? {
            let answer = answer?;
            // Ignore an answer to an order that was already answered or never sent.
            let Some(sent) = self.sent.remove(&answer.ticket) else {
                continue;
            };
            let result = match answer.outcome {
                ProviderOutcome::Refused(fault) => Answer::Refused(fault.to_fault().sentence),
                ProviderOutcome::Unknown(fault) => Answer::Unknown(fault.to_fault().sentence),
                ProviderOutcome::Applied(back) => read_back(context, &sent, &back),
            };
            pass_answer(context, sent.ticket, sent.handle, result);
        }
        Ok(())
    }

    /// Sends about a page of queued orders to the client: writes, read requests, and the variables
    /// that it provides. Returns true if there are more.
    pub(crate) fn send_provider_orders(&mut self, context: &mut Context) -> bool {
        while context.answers.frames.len() < PAGE_BYTES {
            let mut order = context.consumer.take_provider_order();
            if order.is_none() {
                return false;
            }
            while let Some(first) = order.take() {
                order = match first {
                    ProviderOrder::Bind(_) => send_binds(context, first),
                    ProviderOrder::Write { .. } => self.send_provider_writes(context, first),
                    ProviderOrder::Read { .. } => self.send_provider_requests(context, first),
                };
            }
        }
        true
    }

    fn send_provider_writes(
        &mut self,
        context: &mut Context,
        first: ProviderOrder,
    ) -> Option<ProviderOrder> {
        let out = &mut context.answers.frames;
        let mut frame = WriteBuilder::begin_provider_write(out, self.next_ticket);
        let (mut order, mut unsent) = (Some(first), Vec::new());
        while let Some(ProviderOrder::Write {
            ticket,
            handle,
            raw,
        }) = order
        {
            // Skip a write that has timed out: its writer was told that the outcome is unknown.
            if context.engine.providers().awaits_answer(ticket) {
                let bytes = wire::encoded_len(&raw);
                let room = context.records.room_for_bytes(bytes);
                if room.is_some_and(|room| !frame.make_room(room)) {
                    unsent.push((ticket, handle, NoMemory { bytes }));
                    order = context.consumer.take_provider_order();
                    continue;
                }
                let number = frame.push_value(handle, &WriteOptions::default(), &raw);
                self.remember(number, ticket, handle, Some(raw));
            }
            if frame.len_bytes() >= PAGE_BYTES {
                order = None;
                break;
            }
            order = context.consumer.take_provider_order();
        }
        frame.finish();
        for (ticket, handle, error) in unsent {
            pass_answer(context, ticket, handle, Answer::Unsent(error));
        }
        order
    }

    fn send_provider_requests(
        &mut self,
        context: &mut Context,
        first: ProviderOrder,
    ) -> Option<ProviderOrder> {
        let out = &mut context.answers.frames;
        let head = ProviderRequestHead {
            first_ticket: self.next_ticket,
        };
        let mut frame = ProviderRequestBuilder::begin(out, 0, &head);
        let mut order = Some(first);
        while let Some(ProviderOrder::Read { ticket, handle }) = order {
            frame.push(&handle);
            let number = self.next_ticket;
            self.next_ticket += 1;
            if let Some(ticket) = ticket {
                self.remember(number, ticket, handle, None);
            }
            if frame.len_bytes() >= PAGE_BYTES {
                order = None;
                break;
            }
            order = context.consumer.take_provider_order();
        }
        frame.finish(false);
        order
    }

    /// Ends the provider role when the connection ends. The variables then have no source.
    pub(crate) fn stop_providing(&mut self, context: &mut Context) {
        let Some(id) = context.provider.take() else {
            return;
        };
        *self = Self::default();
        let Moment { now, wall } = context.moment;
        let (engine, reason) = (&context.engine, Reason::ProviderGone);
        engine
            .providers()
            .detach(id, reason, now, wall, &mut context.wakes);
    }
}

/// Passes a provider's answer to the engine.
fn pass_answer(context: &mut Context, ticket: Ticket, handle: u32, answer: Answer) {
    let Moment { now, wall } = context.moment;
    let (providers, wakes) = (context.engine.providers(), &mut context.wakes);
    providers.answer(ticket, handle, answer, now, wall, wakes);
}

fn read_back(context: &Context, sent: &SentOrder, back: &ReadBack<'_>) -> Answer {
    let variable = context.engine.variable(sent.handle);
    let value = match (back.value, variable) {
        (Some(bytes), Some(variable)) => {
            let properties = variable.properties();
            let raw_type = properties.raw_type();
            if let Err(error) = check_room_to_decode(raw_type, bytes) {
                return Answer::NoMemory(error);
            }
            wire::decode_value(raw_type, &mut Reader::new(bytes)).ok()
        }
        (None, _) => sent.value.clone(),
        (Some(_), None) => None,
    };
    match value {
        Some(value) => Answer::Read {
            value,
            quality: back.quality,
            source_timestamp: back.source_timestamp,
        },
        None => {
            Answer::Unknown("the provider read back an invalid value for the variable".to_owned())
        }
    }
}

/// Sends consecutive bind orders in one frame. Returns the first order of another kind.
fn send_binds(context: &mut Context, first: ProviderOrder) -> Option<ProviderOrder> {
    let mut frame = ProviderBindBuilder::begin(&mut context.answers.frames, 0, &());
    let mut order = Some(first);
    while let Some(ProviderOrder::Bind(bind)) = &order {
        if let Some(variable) = context.engine.variable(bind.handle) {
            let properties = variable.properties();
            let raw_type = properties.raw_type();
            frame.push(&BoundVariable {
                handle: bind.handle,
                data_type: raw_type.clone(),
                access: properties.access,
                item: &bind.item,
            });
        }
        if frame.len_bytes() >= PAGE_BYTES {
            order = None;
            break;
        }
        order = context.consumer.take_provider_order();
    }
    frame.finish(false);
    order
}
