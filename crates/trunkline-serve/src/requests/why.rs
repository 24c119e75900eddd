//! Explains why a variable's updates do not reach a client: the engine's steps, then the steps of
//! this session.

use std::sync::Arc;

use trunkline_engine::Variable;
use trunkline_proto::message::why::{Why, WhyAnswerBuilder};
use trunkline_proto::{Disconnect, Frame};
use trunkline_types::ledger::SubscriptionLedger;
use trunkline_types::{Contract, Moment, WhyStage, WhyStep, WhyVerdict};

use crate::context::{Context, ITEMS_PER_UNIT, Progress, Request, units_of};

/// Minimum sampling period, in seconds, that may explain why a client misses values.
const LONG_PERIOD_SECONDS: f64 = 1.0;

pub(crate) fn handle(context: &mut Context, frame: &Frame<'_>) -> Result<(), Disconnect> {
    let why = Why::decode(frame)?;
    let mut asked = WhyRequest {
        request: frame.request(),
        name: why.name.to_owned(),
    };
    if context.parked_until.is_some() {
        // If the answer waited behind the parked write, it would be too late to explain the delay.
        asked.run(context);
    } else {
        context.queue.push(asked);
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

/// Returns the steps that explain how this session handles the variable's updates.
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
            steps.extend(of_filter(context, id, contract, &variable, &ledger));
            steps.extend(of_buffer(contract, &ledger));
        }
    }
    if context.parked_until.is_some() {
        steps.push(WhyStep::fault(
            WhyStage::Buffer,
            "one of your requests is waiting, and later ones wait behind it: the `all` buffer \
             of a subscriber is full, and the variable's owner lets writers wait for it \
             (`stall`), or the audit is full",
            "have the subscriber take its updates, or shorten `stall`; see `trunkline limits` \
             for the store of the audit",
        ));
    }
    if !context.window.has_room() {
        let sentence = format!(
            "{} updates are on their way to you and not confirmed: you do not take them",
            context.consumer.in_flight()
        );
        let next = "check your program and the network";
        steps.push(WhyStep::fault(WhyStage::Consumer, sentence, next));
    }
    steps
}

/// Returns a step if the subscription itself withholds the newest update.
fn of_filter(
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
            "your subscription looks once in {period:?}: an update waits for its next look, \
             and {} were merged",
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
            "your subscription asks for other values only, and the last {behind} updates \
             repeated the one you have"
        );
        let next = "subscribe to every update, or look why its writer repeats itself";
        WhyStep::fault(WhyStage::Filter, sentence, next)
    })
}

/// Returns a step if the subscription's buffer has dropped updates.
fn of_buffer(contract: Contract, ledger: &SubscriptionLedger) -> Option<WhyStep> {
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
            "your `{contract}` subscription has reached its bound and ends: you miss \
             {dropped_overrun} of {written} updates"
        );
        let next = "take updates faster, ask for a larger bound, or have the owner set `stall`";
        return Some(WhyStep::fault(stage, sentence, next));
    }
    if dropped_queue > 0 {
        let sentence = format!(
            "your `{contract}` buffer was full: {dropped_queue} of {written} updates were dropped, \
             {waiting} wait"
        );
        let step = WhyStep::fault(
            stage,
            sentence,
            "take updates faster, or ask for a larger buffer",
        );
        // Once the client has caught up, past drops are only reported as a note.
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
