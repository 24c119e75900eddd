//! Writes groups of values, of which the engine carries out all or none.
//!
//! Groups, writes and requests are sent in the order in which they were made. A group that was sent
//! but not answered when the connection broke is not sent again. Its members end as unknown, as
//! single writes do.

use trunkline_proto::message::group::{GroupAnswer, GroupWriteBuilder};
use trunkline_proto::{Disconnect, Fault, FaultCode, Features, FrameKind};
use trunkline_types::wire::encoded_len;

use super::{Answering, Ending, Exchange, Next, Prepared, Sending};
use crate::error::malformed;
use crate::parts::Parts;
use crate::writes::{
    GroupOutcome, NotTried, Write, WriteOutcome, check_write, not_sent, outcome_of,
};

/// Bytes of a message reserved for the fields of a group.
const GROUP_BYTES: usize = 64;
/// Bytes of a message reserved for the fields of each member besides its value.
const MEMBER_BYTES: usize = 64;

#[derive(Debug)]
pub struct WriteGroup {
    pub(crate) writes: Vec<Write>,
    pub(crate) try_only: bool,
    pub(crate) outcome: Option<GroupOutcome>,
}

impl WriteGroup {
    /// Checks the group. Returns the index of the member that cannot be sent, with the reason.
    fn check(&self, parts: &Parts) -> Result<(), (usize, Fault)> {
        let Some(agreement) = parts.base.connection.agreement() else {
            return Ok(());
        };
        let message_max = agreement.message_max as usize;
        let mut bytes = GROUP_BYTES;
        for (index, write) in self.writes.iter().enumerate() {
            let value_bytes = encoded_len(&write.value);
            let variable = parts.base.variables.get(write.variable);
            check_write(variable, write, value_bytes, agreement).map_err(|fault| (index, fault))?;
            bytes = bytes
                .saturating_add(value_bytes)
                .saturating_add(MEMBER_BYTES);
        }
        if bytes <= message_max {
            return Ok(());
        }
        let sentence = format!(
            "the group has {bytes} bytes, and the limit is {message_max}; split it into several \
             groups"
        );
        Err((0, Fault::new(FaultCode::TooLarge, sentence)))
    }

    /// Returns the outcome of the group if every write has this outcome.
    fn each(&self, outcome: WriteOutcome) -> GroupOutcome {
        GroupOutcome {
            commit: None,
            refused_member: None,
            outcomes: vec![outcome; self.writes.len()],
        }
    }

    /// Ends the group. The outcomes of all other members name the member that caused the refusal.
    fn set_outcome(&mut self, parts: &Parts, mut ended: GroupOutcome) {
        let refused = ended
            .refused_member
            .and_then(|index| self.writes.get(index));
        let variable = refused.and_then(|write| parts.base.variables.get(write.variable));
        if let Some(name) = variable.map(|variable| &*variable.name) {
            for outcome in &mut ended.outcomes {
                if matches!(outcome, WriteOutcome::Refused(fault)
                    if fault.code == FaultCode::GroupRefused)
                {
                    let sentence =
                        format!("not written: the whole group was refused because of {name}");
                    let fault = Fault::new(FaultCode::GroupRefused, sentence);
                    *outcome = WriteOutcome::Refused(fault);
                }
            }
        }
        self.outcome = Some(ended);
    }
}

impl Exchange for WriteGroup {
    const ANSWERED_BY: Option<FrameKind> = Some(FrameKind::GroupAnswer);
    const USES_HANDLES: bool = true;
    const CHECK_HINT: &'static str = "read one of its variables";
    type End = Result<GroupOutcome, Fault>;

    fn requires(&self) -> Option<(Features, &'static str)> {
        let missing = "does not support groups; update it, or write the variables one by one";
        Some((Features::GROUPS, missing))
    }

    fn changes_engine(&self) -> bool {
        true
    }

    fn waits_for_writes(&self) -> bool {
        true
    }

    fn prepare(&mut self, parts: &mut Parts) -> Prepared {
        let Err((refused_member, fault)) = self.check(parts) else {
            return Prepared::Single;
        };
        let others = WriteOutcome::Refused(FaultCode::GroupRefused.into());
        let mut ended = self.each(others);
        ended.refused_member = Some(refused_member);
        if let Some(outcome) = ended.outcomes.get_mut(refused_member) {
            *outcome = WriteOutcome::Refused(fault);
        }
        self.set_outcome(parts, ended);
        Prepared::Items(0)
    }

    fn encode(&mut self, sending: &mut Sending<'_>) {
        let variables = &sending.parts.base.variables;
        let mut frame = GroupWriteBuilder::begin(sending.out, sending.number, self.try_only);
        for write in &self.writes {
            // The handle was checked before. If it is invalid by now, the engine refuses the whole
            // group.
            let handle = variables.handle(write.variable).unwrap_or(u32::MAX);
            match write.options.has_value() {
                true => frame.push_value(handle, &write.options, &write.value),
                false => frame.push(handle, &write.options, &[]),
            }
        }
        frame.finish();
    }

    fn answered(&mut self, answer: &mut Answering<'_, '_>) -> Result<Next, Disconnect> {
        let group = GroupAnswer::decode(answer.frame)?;
        let head = *group.head();
        let (outcome_count, write_count) = (answer.frame.count() as usize, self.writes.len());
        if outcome_count != write_count {
            let sentence = format!(
                "the engine answered a group of {write_count} writes with {outcome_count} outcomes"
            );
            return Err(malformed(sentence));
        }
        let epoch = answer.parts.base.connection.epoch();
        let mut outcomes = Vec::with_capacity(write_count);
        for (outcome, write) in group.zip(&self.writes) {
            let outcome = outcome_of(outcome?, epoch);
            let remote = &mut answer.parts.subscriptions.remote;
            if let WriteOutcome::Applied(position) = &outcome {
                let variables = &answer.parts.base.variables;
                remote.remember_own(variables, write.variable, position.sequence);
            }
            outcomes.push(outcome);
        }
        let ended = GroupOutcome {
            commit: head.commit,
            refused_member: head.culprit.map(|index| index as usize),
            outcomes,
        };
        self.set_outcome(answer.parts, ended);
        Ok(Next::Settle)
    }

    fn end(mut self, ending: Ending<'_>) -> Self::End {
        let outcome = self.outcome.take();
        let outcome = outcome.unwrap_or_else(|| {
            self.each(match ending.fault {
                // The engine reports with this code that it does not know the outcome.
                Some(fault) if fault.code == FaultCode::TimedOut => WriteOutcome::Unknown(fault),
                Some(fault) => WriteOutcome::Refused(fault),
                // The call ended before the group was sent.
                None => {
                    let fault = not_sent(&ending.parts.base.connection);
                    WriteOutcome::NotTried(NotTried::Cancelled(fault))
                }
            })
        });
        ending.parts.writes.count_group(&outcome.outcomes);
        Ok(outcome)
    }

    fn unknown(&self, fault: &Fault) -> Option<Self::End> {
        Some(Ok(self.each(WriteOutcome::Unknown(fault.clone()))))
    }
}
