//! Explains the outcomes of a variable's writes, and the exclusive right to write it.

use trunkline_types::{WhyStage, WhyStep};

use super::Walk;
use crate::features::alias::HIDDEN_TARGET;
use crate::outcome::{Controlled, Refusal};

impl Walk<'_> {
    fn refused_since(&self) -> Option<Refusal> {
        let state = self.variable.lock();
        let (sequence, refusal) = state.unapplied()?.last_refusal.as_ref()?;
        (*sequence == self.update.sequence).then(|| refusal.clone())
    }

    /// Returns the reason why the last value from the source cannot be shown.
    pub(super) fn unscaled(&self) -> Option<String> {
        let state = self.variable.lock();
        // After the refusal, the change of the quality to bad was one more update.
        match state.unapplied()?.last_refusal.as_ref()? {
            (sequence, Refusal::Scaling(error)) => {
                let before = (*sequence).max(self.variable.base_sequence());
                (before + 1 >= self.update.sequence).then(|| error.to_string())
            }
            _ => None,
        }
    }

    /// Reports who controls the folder of the variable. The control is the cause of missing updates
    /// if the last write was refused because of it.
    pub(super) fn control(&self) -> Option<WhyStep> {
        let control = self.queries.of(&self.queries.table.control);
        let state = control.state_of(self.variable, self.caller, self.moment.now)?;
        let Controlled {
            folder,
            by,
            level,
            since,
        } = &*state.holder;
        let who = match state.is_own {
            true => "you",
            false => &**by,
        };
        let waiting = match state.waiting {
            0 => String::new(),
            1 => "; 1 request waits".to_owned(),
            count => format!("; {count} requests wait"),
        };
        let sentence = format!(
            "its folder {folder} is controlled by {who}, {level}, since {since}: writes by others are \
             refused{waiting}"
        );
        let was_refused = matches!(self.refused_since(), Some(Refusal::Controlled(_)));
        Some(match was_refused && !state.is_own {
            true => {
                let next = format!("ask for control: trunkline control request {folder}");
                WhyStep::fault(WhyStage::Rights, sentence, next)
            }
            false => WhyStep::note(WhyStage::Rights, sentence),
        })
    }

    /// Reports the exclusive right to write the variable. The right is the cause of missing updates
    /// if the last write was refused because of it.
    pub(super) fn writer(&self) -> Option<WhyStep> {
        let leases = self.queries.of(&self.queries.table.leases);
        let holder = leases.holder_of(self.variable, self.moment.now)?;
        let who = match *holder.who == *self.caller.to_string() {
            true => "you",
            false => &*holder.who,
        };
        let (sentence, next) = match holder.left {
            Some(left) => (
                format!("it is leased by {who} for {left:?} more: writes by others are refused"),
                "wait until the lease expires, or stop the program that holds it",
            ),
            None => (
                format!("its single writer is {who}: writes by others are refused"),
                "write through that program, or stop it: the next waiting writer takes over",
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

    /// Returns the sentence of a refusal. Another client may have been refused because of a variable
    /// that this caller may not read (B-82).
    fn sentence_of(&self, refusal: &Refusal) -> String {
        let rights = &self.caller.rights;
        if let Refusal::Group { name } = refusal
            && rights.hides(name)
        {
            return "not written: the whole group was refused because of another of its variables"
                .to_owned();
        }
        if let Refusal::Target { target, refusal } = refusal {
            let inner = Refusal::clone(refusal);
            return inner.of_target(rights.shown(target)).to_string();
        }
        if let Refusal::Unbound { target, .. } = refusal
            && rights.hides(target)
        {
            return format!("the variable is an alias, and {HIDDEN_TARGET}");
        }
        refusal.to_string()
    }

    /// Reports the outcomes of all writes, and the writes that have failed since the newest update.
    pub(super) fn filter(&self) -> WhyStep {
        let stage = WhyStage::Filter;
        let ledger = self.variable.ledger();
        let mut sentence = format!(
            "of {} writes, {} were applied, {} unchanged, {} refused, {} unknown",
            ledger.offered, ledger.written, ledger.unchanged, ledger.refused, ledger.unknown
        );
        for (count, what) in [
            (ledger.superseded, "superseded by newer ones"),
            (ledger.fifo_overflow, "lost in a full FIFO"),
            (ledger.upstream_lost, "lost before they reached the engine"),
        ] {
            if count > 0 {
                sentence.push_str(&format!(", {count} {what}"));
            }
        }
        match self.refused_since() {
            None
            | Some(
                Refusal::Leased { .. } | Refusal::SingleWriter { .. } | Refusal::Controlled(_),
            ) => {}
            Some(refusal) => {
                let text = self.sentence_of(&refusal);
                let (why, next) = match text.rsplit_once("; ") {
                    Some((why, next)) => (why, next),
                    None => (
                        &*text,
                        "write a value that its type, range and access allow",
                    ),
                };
                return WhyStep::fault(stage, format!("{sentence}; the last refusal: {why}"), next);
            }
        }
        let state = self.variable.lock();
        let (since, count) = state.unapplied().map_or((0, 0), |u| u.unchanged_since);
        drop(state);
        if count > 1 && since == self.update.sequence || count > 0 && ledger.written <= 1 {
            let deadband = self.variable.properties().deadband;
            let next = format!(
                "its deadband is {} % for clients and {} % for its source: reduce it",
                deadband.user_percent, deadband.source_percent
            );
            let sentence = format!("{sentence}; the last {count} writes were within the deadband");
            return WhyStep::fault(stage, sentence, next);
        }
        match ledger.offered - ledger.written {
            0 => WhyStep::ok(stage, sentence),
            _ => WhyStep::note(stage, sentence),
        }
    }
}
