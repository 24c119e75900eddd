//! Explains why updates of a variable do not reach a client. The answer contains the checks of the
//! engine, followed by the checks of this session.

use std::sync::Arc;

use trunkline_engine::Variable;
use trunkline_proto::Disconnect;
use trunkline_proto::message::why::{Why, WhyAnswerBuilder};
use trunkline_types::ledger::SubscriptionLedger;
use trunkline_types::{Contract, Moment, WhyStage, WhyStep, WhyVerdict};

use crate::context::{Context, ITEMS_PER_UNIT, Progress, Request, units_of};
use crate::gate::Admitted;

/// Minimum sampling period in seconds that is reported as a possible cause of missing values.
const LONG_PERIOD_SECONDS: f64 = 1.0;

pub(crate) fn handle(context: &mut Context, frame: &Admitted<'_>) -> Result<(), Disconnect> {
    let why = Why::decode(frame)?;
    let mut request = WhyRequest {
        request: frame.request(),
        name: why.name.to_owned(),
    };
    if context.parked_until.is_some() {
        // Answer immediately: behind the parked write, the answer would come too late to explain why
        // the write waits.
        request.run(context);
    } else {
        context.queue.push(request);
    }
    Ok(())
}

#[derive(Debug)]
struct WhyRequest {
    request: u32,
    name: String,
}

impl Request for WhyRequest {
    fn run(&mut self, context: &mut Context) -> Progress {
        let Self { request, name } = self;
        let Moment { now, wall } = context.moment;
        let steps = context
            .engine
            .queries()
            .explain(&context.caller, name, now, wall);
        let own = own_steps(context, name);
        let mut answer = WhyAnswerBuilder::begin(&mut context.answers.frames, *request, &());
        for step in steps.iter().chain(&own) {
            answer.push(&step.as_ref());
        }
        answer.finish(false);
        Progress::Done
    }

    fn units(&self) -> usize {
        units_of(ITEMS_PER_UNIT)
    }

    fn bytes(&self) -> usize {
        self.name.len()
    }
}

/// Returns the steps that explain how this session delivers the variable's updates.
fn own_steps(context: &Context, name: &str) -> Vec<WhyStep> {
    let name = name.split_once('#').map_or(name, |(variable, _)| variable);
    let mut steps = Vec::new();
    let Ok(variable) = context.engine.resolve(&context.caller, name) else {
        return steps;
    };
    let facts = context.options.facts.as_ref();
    steps.extend(facts.and_then(|facts| facts.recording(variable.name())));
    for (id, contract) in context.consumer.subscriptions_of(variable.handle()) {
        if let Some(ledger) = context.consumer.ledger(id, variable.handle()) {
            steps.extend(filter_step(context, id, contract, &variable, &ledger));
            steps.extend(buffer_step(contract, &ledger));
        }
    }
    if context.parked_until.is_some() {
        steps.push(WhyStep::fault(
            WhyStage::Buffer,
            "one of your requests is waiting and delays the requests after it: the `all` buffer of \
             a subscriber is full and the variable makes writers wait for it (`stall`), or the \
             audit trail is full",
            "make sure that the subscriber receives its updates, or reduce `stall`; check the \
             store of the audit trail with `trunkline limits`",
        ));
    }
    if !context.window.has_room() {
        let sentence = format!(
            "{} updates were sent to you but not confirmed: your program is not receiving them",
            context.consumer.in_flight()
        );
        let next = "check your program and the network";
        steps.push(WhyStep::fault(WhyStage::Consumer, sentence, next));
    }
    steps
}

/// Returns a step if the subscription itself holds back the newest update.
fn filter_step(
    context: &Context,
    id: u32,
    contract: Contract,
    variable: &Arc<Variable>,
    ledger: &SubscriptionLedger,
) -> Option<WhyStep> {
    if let Contract::Sampled(period) = contract
        && ledger.waiting > 0
        && period.as_secs_f64() >= LONG_PERIOD_SECONDS
    {
        let sentence = format!(
            "your subscription samples once every {period:?}: an update waits for the next sample, \
             and {} updates were merged",
            ledger.coalesced
        );
        let next = "subscribe with a shorter period, or with `latest`";
        return Some(WhyStep::fault(WhyStage::Filter, sentence, next));
    }
    let only_changes = context.consumer.only_changes(id)?;
    let behind = variable
        .sequence()
        .saturating_sub(context.consumer.last_delivered(id, variable.handle())?);
    (only_changes && ledger.waiting == 0 && behind > 0).then(|| {
        let sentence = format!(
            "your subscription reports only changed values, and the last {behind} updates \
             repeated the value that you have"
        );
        let next = "subscribe to every update, or check why the writer repeats the value";
        WhyStep::fault(WhyStage::Filter, sentence, next)
    })
}

/// Returns a step if the subscription's buffer has dropped updates.
fn buffer_step(contract: Contract, ledger: &SubscriptionLedger) -> Option<WhyStep> {
    let stage = WhyStage::Buffer;
    let SubscriptionLedger {
        written,
        dropped_queue,
        dropped_overrun,
        waiting,
        ..
    } = *ledger;
    if dropped_overrun > 0 {
        let sentence = format!(
            "your `{contract}` subscription has reached its bound and ends: you missed \
             {dropped_overrun} of {written} updates"
        );
        let next =
            "receive updates faster, request a larger bound, or set `stall` for the variable";
        return Some(WhyStep::fault(stage, sentence, next));
    }
    if dropped_queue > 0 {
        let sentence = format!(
            "your `{contract}` buffer was full: {dropped_queue} of {written} updates were dropped, \
             and {waiting} are waiting"
        );
        let step = WhyStep::fault(
            stage,
            sentence,
            "receive updates faster, or request a larger buffer",
        );
        // If the client has caught up, past drops are only a note.
        return Some(match waiting > 0 {
            true => step,
            false => WhyStep {
                verdict: WhyVerdict::Note,
                ..step
            },
        });
    }
    None
}
