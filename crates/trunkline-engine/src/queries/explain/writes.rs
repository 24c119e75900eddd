//! The outcomes of a variable's writes, and the exclusive right to write it.

use trunkline_types::{WhyStage, WhyStep};

use super::Walk;
use crate::outcome::Refusal;

impl Walk<'_> {
    fn refused_since(&self) -> Option<Refusal> {
        let state = self.variable.lock();
        let (sequence, refusal) = state.unapplied()?.last_refusal.as_ref()?;
        (*sequence == self.update.sequence).then(|| refusal.clone())
    }

    /// Returns the reason why the last value from the source cannot be shown.
    pub(super) fn unscaled(&self) -> Option<String> {
        let state = self.variable.lock();
        // The change of quality to bad is a separate update.
        match state.unapplied()?.last_refusal.as_ref()? {
            (sequence, Refusal::Scaling(error)) if sequence + 1 >= self.update.sequence => {
                Some(error.to_string())
            }
            _ => None,
        }
    }

    /// Reports the exclusive right to write the variable. It is the cause if it led to the refusal
    /// of the last write and still exists.
    pub(super) fn writer(&self) -> Option<WhyStep> {
        let leases = self.queries.of(&self.queries.table.leases);
        let held = leases.held_by(self.variable, self.moment.now)?;
        let who = match *held.who == *self.caller.to_string() {
            true => "you",
            false => &*held.who,
        };
        let (sentence, next) = match held.left {
            Some(left) => (
                format!("it is leased by {who} for {left:?} more: what others write is refused"),
                "wait until the lease is over, or end the program that holds it",
            ),
            None => (
                format!("its single writer is {who}: what others write is refused"),
                "write through that program, or end it: whoever waits takes over",
            ),
        };
        let was_refused = matches!(
            self.refused_since(),
            Some(Refusal::Leased { .. } | Refusal::SingleWriter { .. })
        );
        Some(match was_refused {
            true => WhyStep::fault(WhyStage::Rights, sentence, next),
            false => WhyStep::note(WhyStage::Rights, sentence),
        })
    }

    /// Reports the writes withheld since the newest update.
    pub(super) fn filter(&self) -> WhyStep {
        let stage = WhyStage::Filter;
        let ledger = self.variable.ledger();
        let mut sentence = format!(
            "of {} writes {} were applied, {} unchanged, {} refused, {} unknown",
            ledger.offered, ledger.written, ledger.unchanged, ledger.refused, ledger.unknown
        );
        for (count, what) in [
            (ledger.superseded, "superseded by newer ones"),
            (ledger.fifo_overflow, "lost in a full FIFO"),
            (ledger.upstream_lost, "lost before they came here"),
        ] {
            if count > 0 {
                sentence.push_str(&format!(", {count} {what}"));
            }
        }
        match self.refused_since() {
            None | Some(Refusal::Leased { .. } | Refusal::SingleWriter { .. }) => {}
            Some(refusal) => {
                let text = refusal.to_string();
                let (why, next) = match text.rsplit_once("; ") {
                    Some((why, next)) => (why, next),
                    None => (
                        &*text,
                        "write a value that its type, range and access allow",
                    ),
                };
                return WhyStep::fault(stage, format!("{sentence}; the last: {why}"), next);
            }
        }
        let state = self.variable.lock();
        let (since, count) = state.unapplied().map_or((0, 0), |u| u.unchanged_since);
        drop(state);
        if count > 1 && since == self.update.sequence || count > 0 && ledger.written <= 1 {
            let deadband = self.variable.properties().deadband;
            let next = format!(
                "its deadband is {} % for clients and {} % for its source: make it smaller",
                deadband.user_percent, deadband.source_percent
            );
            let sentence = format!("{sentence}; the last {count} lay within the deadband");
            return WhyStep::fault(stage, sentence, next);
        }
        match ledger.offered - ledger.written {
            0 => WhyStep::ok(stage, sentence),
            _ => WhyStep::note(stage, sentence),
        }
    }
}
