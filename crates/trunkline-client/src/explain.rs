//! Explains why a variable's updates do not reach the program, as far as the client knows: the
//! state of the connection, and of the program's subscriptions.

use std::time::Duration;

use trunkline_proto::message::ended::EndReason;
use trunkline_proto::{Disconnect, Fault, FaultCode};
use trunkline_types::{Tick, WhyStage, WhyStep, WhyVerdict};

use crate::parts::Parts;
use crate::state::ConnectionState;
use crate::subscriptions::remote::{RemoteItem, Status};
use crate::subscriptions::subscription::Subscription;

/// Explains why there is no connection. Returns nothing if no attempt has failed. After a failed
/// attempt, the engine cannot be asked. If the variable `name` is subscribed, the explanation
/// includes the age of its newest reading.
pub(crate) fn explain_connection(parts: &Parts, now: Tick, name: &str) -> Option<WhyStep> {
    let state = parts.base.connection.state();
    let cause = state.cause()?;
    let stage = match &**cause {
        Disconnect::VersionMismatch(_) => WhyStage::Version,
        Disconnect::NameLookup { .. } => WhyStage::Resolution,
        Disconnect::Refused { code, .. } | Disconnect::Goodbye { code, .. } => match code {
            FaultCode::Denied => WhyStage::Rights,
            FaultCode::VersionMismatch => WhyStage::Version,
            _ => WhyStage::Connection,
        },
        Disconnect::PeerClosed
        | Disconnect::Io { .. }
        | Disconnect::Dead { .. }
        | Disconnect::Tls { .. }
        | Disconnect::OtherUser { .. }
        | Disconnect::Malformed { .. }
        | Disconnect::NotTrunkline { .. }
        | Disconnect::Slow { .. }
        | Disconnect::OutOfMemory { .. }
        | Disconnect::ClosedLocally => WhyStage::Connection,
    };
    let default_hint = match &state {
        ConnectionState::Closed { .. } => "correct the problem, then connect again",
        ConnectionState::Connecting { .. } | ConnectionState::Connected(_) => {
            "start the engine, or repair the network; the connection is retried automatically"
        }
    };
    let (mut sentence, next) = split(&cause.to_string(), default_hint);
    if let Some(age) = newest_age(parts, now, name) {
        let seconds = age.as_secs_f64();
        sentence.push_str(&format!(
            "; the last received update is {seconds:.1} s old, and stale"
        ));
    }
    Some(WhyStep::fault(stage, sentence, next))
}

/// Returns what the client knows about the subscriptions to a variable and about queued writes.
/// These steps follow those of the engine.
pub(crate) fn explain_consumer(parts: &Parts, now: Tick, name: &str) -> Vec<WhyStep> {
    let mut steps = Vec::new();
    each_item(parts, name, |subscription, item| {
        steps.extend(status_step(item));
        steps.extend(waiting_step(subscription, item, now));
    });
    let counts = parts.writes.counts();
    if counts.waiting > 0 && counts.in_flight > 0 {
        let sentence = format!(
            "{} writes of this program wait here until the engine has answered {} earlier \
             ones: the credit is used up",
            counts.waiting, counts.in_flight
        );
        let next = "find out what delays the earlier writes, or write less often";
        steps.push(WhyStep::fault(WhyStage::Consumer, sentence, next));
    }
    if steps.is_empty() {
        let sentence = "this client is keeping up";
        steps.push(WhyStep::ok(WhyStage::Consumer, sentence));
    }
    steps
}

fn newest_age(parts: &Parts, now: Tick, name: &str) -> Option<Duration> {
    let mut newest: Option<Duration> = None;
    each_item(parts, name, |_, item| {
        if let Some(copy) = &item.copy {
            let age = copy.age(now);
            newest = Some(newest.map_or(age, |other| other.min(age)));
        }
    });
    newest
}

fn each_item(parts: &Parts, name: &str, mut visit: impl FnMut(&Subscription, &RemoteItem)) {
    for remote in parts.subscriptions.remote.by_id.values() {
        for (_, item) in remote.items() {
            let has_name = parts
                .base
                .variables
                .get(item.variable)
                .is_some_and(|variable| &*variable.name == name);
            if !has_name {
                continue;
            }
            for target in item.targets.iter() {
                if let Some(subscription) = parts.subscriptions.list.at(target.subscription) {
                    visit(subscription, item);
                }
            }
        }
    }
}

/// Returns a step if the item failed or ended.
fn status_step(item: &RemoteItem) -> Option<WhyStep> {
    match &item.status {
        Status::Failed(refused) => {
            let Fault { code, sentence } = &**refused;
            let stage = match code {
                FaultCode::UnknownName | FaultCode::BadName => WhyStage::Resolution,
                FaultCode::NotReadable | FaultCode::Denied => WhyStage::Rights,
                FaultCode::LibraryStopped | FaultCode::Gone => WhyStage::Library,
                FaultCode::MemoryFull | FaultCode::LimitReached => WhyStage::Buffer,
                _ => WhyStage::Consumer,
            };
            let (sentence, next) = split(sentence, "correct the problem, then subscribe again");
            let sentence = format!("your subscription was refused: {sentence}");
            Some(WhyStep::fault(stage, sentence, next))
        }
        Status::Ended(EndReason::Overrun) => Some(WhyStep::fault(
            WhyStage::Buffer,
            "your `all` subscription has ended with `overrun`: updates arrived faster than this \
             program took them",
            "take the waiting readings, then subscribe again; use a larger bound, or `latest`",
        )),
        Status::Ended(_) => Some(WhyStep::fault(
            WhyStage::Library,
            "your subscription has ended because the variable was undeployed",
            "deploy its library: the subscription then continues automatically",
        )),
        Status::Opening | Status::Leaving | Status::Live => None,
    }
}

/// Returns a step if readings wait for the program.
fn waiting_step(subscription: &Subscription, item: &RemoteItem, now: Tick) -> Option<WhyStep> {
    let ledger = subscription.ledger;
    if ledger.waiting == 0 {
        return None;
    }
    let age = item
        .copy
        .as_ref()
        .map_or(Duration::ZERO, |copy| copy.age(now));
    let sentence = format!(
        "{} readings of your `{}` subscription wait for this program, and the newest is {:.1} s \
         old; so far the program has taken {} of {}, {} were merged into newer ones, and {} were \
         dropped",
        ledger.waiting,
        subscription.contract,
        age.as_secs_f64(),
        ledger.taken,
        ledger.received,
        ledger.coalesced,
        ledger.dropped
    );
    let next = "have the program take the readings, which have already arrived";
    let is_behind = ledger.coalesced + ledger.dropped > 0 || ledger.waiting > 1;
    Some(WhyStep {
        verdict: match is_behind {
            true => WhyVerdict::Fault,
            false => WhyVerdict::Note,
        },
        ..WhyStep::fault(WhyStage::Consumer, sentence, next)
    })
}

/// Splits the text of a fault into the problem and the hint.
fn split(text: &str, default_hint: &str) -> (String, String) {
    match text.split_once("; ") {
        Some((sentence, next)) => (sentence.to_owned(), next.to_owned()),
        None => (text.to_owned(), default_hint.to_owned()),
    }
}
