//! Outcomes of writes, in packed runs.

use trunkline_engine::{Refusal, WriteOutcome};
use trunkline_proto::Fault;
use trunkline_proto::message::outcome::{WouldBlock, WriteAnswer};
use trunkline_proto::message::write_answers::{WriteAnswersBuilder, WriteAnswersHead};

/// Maximum capacity, in answers, of a list that is kept for reuse.
const KEPT_ANSWERS_MAX: usize = 4096;

/// The outcome of a write, before it is encoded.
#[derive(Debug)]
pub(crate) enum Answer {
    Outcome(WriteOutcome),
    Fault(Fault),
    WouldBlock,
}

/// Answers in the order of their ids. A missing id ends the run.
#[derive(Debug, Default)]
pub(crate) struct Run {
    first: u64,
    answers: Vec<Packed>,
}

/// An answer that waits for the end of its run. Small, because there are thousands of them.
#[derive(Debug)]
pub(crate) enum Packed {
    Applied(u64),
    Other(Box<Answer>),
}

impl From<Answer> for Packed {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Outcome(WriteOutcome::Applied(sequence)) => Packed::Applied(sequence),
            answer => Packed::Other(Box::new(answer)),
        }
    }
}

impl Run {
    pub(crate) fn push(&mut self, out: &mut Vec<u8>, id: u64, answer: Packed) {
        if self.first.wrapping_add(self.answers.len() as u64) != id {
            self.flush(out);
            self.first = id;
        }
        self.answers.push(answer);
    }

    pub(crate) fn flush(&mut self, out: &mut Vec<u8>) {
        if self.answers.is_empty() {
            return;
        }
        let head = WriteAnswersHead {
            first_write: self.first,
        };
        let mut frame = WriteAnswersBuilder::begin(out, 0, &head);
        for answer in self.answers.drain(..) {
            match answer {
                Packed::Applied(sequence) => {
                    frame.push(&WriteAnswer::Applied(sequence));
                }
                Packed::Other(answer) => with_wire(&answer, |wire| frame.push(wire)),
            }
        }
        frame.finish(false);
        if self.answers.capacity() > KEPT_ANSWERS_MAX {
            self.answers = Vec::new();
        }
    }
}

/// Passes an answer to `push`, converted into the protocol's form.
pub(crate) fn with_wire(answer: &Answer, push: impl FnOnce(&WriteAnswer<'_>)) {
    use WriteAnswer as Wire;
    let fault;
    push(&match answer {
        Answer::Outcome(WriteOutcome::Applied(sequence)) => Wire::Applied(*sequence),
        Answer::Outcome(WriteOutcome::Unchanged(sequence)) => Wire::Unchanged(*sequence),
        Answer::Outcome(WriteOutcome::Superseded) => Wire::Superseded,
        Answer::Outcome(WriteOutcome::Refused(refusal)) => {
            fault = Fault::from(refusal);
            Wire::Refused(fault.as_ref())
        }
        Answer::Outcome(WriteOutcome::Unknown(cause)) => {
            fault = Fault::from(cause);
            Wire::Unknown(fault.as_ref())
        }
        Answer::Outcome(WriteOutcome::NotTried(never)) => match *never {},
        Answer::Fault(fault) => Wire::Refused(fault.as_ref()),
        Answer::WouldBlock => Wire::NotTried(WouldBlock),
    });
}

/// Guards the size of a refusal, because answers are built by the thousand.
const _: () = assert!(size_of::<Refusal>() <= 64);
