//! Explains the subscribers of a variable, and what prevents their updates.

use trunkline_types::{WhyStage, WhyStep};

use super::Walk;
use crate::delivery::subscribers::Pressure;

impl Walk<'_> {
    pub(super) fn memory(&self) -> Option<WhyStep> {
        let health = self.queries.of(&self.queries.table.subscriptions);
        let memory = health.queue_memory()?;
        let sentence = format!(
            "{} of {} bytes for waiting updates are in use",
            memory.used, memory.max
        );
        if memory.is_full() {
            let sentence = format!(
                "the engine's memory is full: {sentence}, and new buffered subscriptions are refused"
            );
            let next = "stop the subscribers that do not take their updates (trunkline info \
                        '_engine/**'), or raise `queue_bytes_max`";
            return Some(WhyStep::fault(WhyStage::Buffer, sentence, next));
        }
        // Refused requests no longer need memory, but are worth reporting.
        (memory.refusals > 0).then(|| {
            let refusals = memory.refusals;
            let sentence = format!("{sentence}; free memory was insufficient {refusals} times");
            WhyStep::note(WhyStage::Buffer, sentence)
        })
    }

    pub(super) fn buffers(&self) -> Option<WhyStep> {
        let bytes = self.update.value.as_slice().len();
        let (mut full, mut ended, mut dropping) = (0, 0, 0);
        self.variable
            .visit_pressures(bytes, &mut |pressure| match pressure {
                Pressure::None => {}
                Pressure::Full => full += 1,
                Pressure::Ended => ended += 1,
                Pressure::Dropping => dropping += 1,
            });
        let stall = self.variable.properties().stall;
        if full > 0 && !stall.is_zero() {
            let sentence = format!(
                "the `all` buffers of {full} subscribers are full, and writes wait up to {stall:?} \
                 for them"
            );
            let next = "make the subscribers take their updates faster, or set `stall = 0`";
            return Some(WhyStep::fault(WhyStage::Buffer, sentence, next));
        }
        if full + ended + dropping == 0 {
            return None;
        }
        Some(WhyStep::note(
            WhyStage::Buffer,
            format!(
                "{} of its `all` subscribers have fallen behind, and {dropping} of its subscribers \
                 drop updates",
                full + ended
            ),
        ))
    }

    pub(super) fn subscribers(&self) -> WhyStep {
        let sentence = match self.variable.subscribers() {
            0 => "no subscribers".to_owned(),
            1 => "1 subscriber".to_owned(),
            count => format!("{count} subscribers"),
        };
        WhyStep::ok(WhyStage::Buffer, sentence)
    }
}
