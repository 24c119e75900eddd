//! Explains why a variable does not reach a client: the engine's steps, then those of this session.

use std::sync::Arc;

use trunkline_engine::Variable;
use trunkline_proto::message::why::WhyAnswerBuilder;
use trunkline_types::ledger::SubscriptionLedger;
use trunkline_types::{Contract, Timestamp, WhyStage, WhyStep, WhyVerdict};

use crate::session::Session;
use crate::work::Progress;

/// Period from which a client may wonder where its values are.
const LONG_PERIOD_SECONDS: f64 = 1.0;

impl Session {
    pub(crate) fn run_why(&mut self, request: u32, name: &str, wall: Timestamp) -> Progress {
        let now = self.last_seen.0;
        let steps = self.engine.explain(&self.caller, name, now, wall);
        let own = self.own_steps(name);
        let mut answer = WhyAnswerBuilder::begin(&mut self.answers.frames, request, &());
        for step in steps.iter().chain(&own) {
            answer.push(&step.as_ref());
        }
        answer.finish(false);
        Progress::Done
    }

    /// Returns the steps that explain what this session does with the variable's updates.
    fn own_steps(&self, name: &str) -> Vec<WhyStep> {
        let name = name.split_once('#').map_or(name, |(variable, _)| variable);
        let mut steps = Vec::new();
        let Ok(variable) = self.engine.resolve(&self.caller, name) else {
            return steps;
        };
        for (id, contract) in self.consumer.subscriptions_of(variable.handle()) {
            if let Some(ledger) = self.consumer.ledger(id, variable.handle()) {
                steps.extend(self.of_filter(id, contract, &variable, &ledger));
                steps.extend(of_buffer(contract, &ledger));
            }
        }
        if self.parked_until.is_some() {
            steps.push(WhyStep::fault(
                WhyStage::Buffer,
                "a request of yours waits, and with it what you asked for since: the `all` buffer \
                 of a subscriber is full, and the variable's owner lets writers wait for it \
                 (`stall`), or the audit is full",
                "have the subscriber take its updates, or shorten `stall`; see `trunkline limits` \
                 for the store of the audit",
            ));
        }
        if !self.window.has_room() {
            let sentence = format!(
                "{} updates are on their way to you and not confirmed: you do not take them",
                self.consumer.in_flight()
            );
            let next = "see what your program or the network between does";
            steps.push(WhyStep::fault(WhyStage::Consumer, sentence, next));
        }
        steps
    }

    /// Returns a step if the subscription itself holds back the newest update.
    fn of_filter(
        &self,
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
        let only_changes = self.consumer.only_changes(id)?;
        let behind = variable
            .sequence()
            .saturating_sub(self.consumer.last_delivered(id, variable.handle())?);
        (only_changes && ledger.waiting == 0 && behind > 0).then(|| {
            let sentence = format!(
                "your subscription asks for other values only, and the last {behind} updates \
                 repeated the one you have"
            );
            let next = "subscribe to every update, or look why its writer repeats itself";
            WhyStep::fault(WhyStage::Filter, sentence, next)
        })
    }
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
        // Past drops are only worth a note once the client has caught up.
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
