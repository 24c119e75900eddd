//! Writes: carried out as they arrive, answered in packed runs, parked where a feed must first drain.

use trunkline_engine::{Attempt, Origin, Refusal, Wakes, Write, WriteOutcome, WriteValue};
use trunkline_proto::message::outcome;
use trunkline_proto::message::write::{WriteOptions, WriteRecord, Writes};
use trunkline_proto::message::write_answers::WriteAnswersBuilder;
use trunkline_proto::{Disconnect, Fault, FaultCode, Frame};
use trunkline_types::{Tick, Timestamp};

use crate::fault::{of_refusal, of_unknown, unknown_handle};
use crate::session::{Session, malformed};
use crate::work::{OwnedWrite, Work, WritesWork};

/// What one write came to, before it is answered.
enum Answer {
    Outcome(WriteOutcome),
    Fault(Fault),
    WouldBlock,
    /// The answer comes later, from the provider.
    Later,
    /// It waits for room in a feed.
    Parked(Tick),
}

/// Answers in the order of their ids; a run ends where an id is missing.
#[derive(Default)]
struct Run {
    first: u64,
    answers: Vec<Answer>,
}

impl Run {
    fn push(&mut self, out: &mut Vec<u8>, id: u64, answer: Answer) {
        if self.first.wrapping_add(self.answers.len() as u64) != id {
            self.flush(out);
            self.first = id;
        }
        self.answers.push(answer);
    }

    fn flush(&mut self, out: &mut Vec<u8>) {
        if self.answers.is_empty() {
            return;
        }
        let mut frame = WriteAnswersBuilder::begin(out, self.first);
        for answer in self.answers.drain(..) {
            push_answer(&mut frame, &answer);
        }
        frame.finish();
    }
}

fn push_answer(frame: &mut WriteAnswersBuilder<'_>, answer: &Answer) {
    match answer {
        Answer::Outcome(WriteOutcome::Applied { sequence }) => {
            frame.push(&outcome::WriteOutcome::Applied { sequence: *sequence });
        }
        Answer::Outcome(WriteOutcome::Unchanged { sequence }) => {
            frame.push(&outcome::WriteOutcome::Unchanged { sequence: *sequence });
        }
        Answer::Outcome(WriteOutcome::Superseded { .. }) => {
            frame.push(&outcome::WriteOutcome::Superseded);
        }
        Answer::Outcome(WriteOutcome::Refused(refusal)) => {
            frame.push(&outcome::WriteOutcome::Refused(of_refusal(refusal).as_ref()));
        }
        Answer::Outcome(WriteOutcome::Unknown(cause)) => {
            frame.push(&outcome::WriteOutcome::Unknown(of_unknown(cause).as_ref()));
        }
        Answer::Outcome(_) => {
            let fault = Fault::from(FaultCode::Internal);
            frame.push(&outcome::WriteOutcome::Unknown(fault.as_ref()));
        }
        Answer::Fault(fault) => {
            frame.push(&outcome::WriteOutcome::Refused(fault.as_ref()));
        }
        Answer::WouldBlock | Answer::Later | Answer::Parked(_) => {
            frame.push(&outcome::WriteOutcome::WouldBlock);
        }
    }
}

impl Session {
    pub(crate) fn handle_write(
        &mut self,
        now: Tick,
        wall: Timestamp,
        frame: &Frame<'_>,
        wakes: &mut Wakes,
    ) -> Result<(), Disconnect> {
        let writes = Writes::decode(frame).map_err(malformed)?;
        let mut run = Run::default();
        let mut queued = Vec::new();
        let mut broken = None;
        for write in writes {
            let write = match write {
                Ok(write) => write,
                Err(error) => {
                    broken = Some(malformed(error));
                    break;
                }
            };
            // Behind anything that waits, a write waits too: requests keep their order.
            if !self.work.is_empty() || !queued.is_empty() {
                queued.push(owned(&write));
                continue;
            }
            match self.write_one(now, wall, &write, wakes) {
                Answer::Later => {}
                Answer::Parked(until) => {
                    self.parked_until = Some(until);
                    queued.push(owned(&write));
                }
                answer => run.push(&mut self.answers, write.write, answer),
            }
        }
        run.flush(&mut self.answers);
        if !queued.is_empty() {
            self.queue(Work::Writes(WritesWork { writes: queued, next: 0 }));
        }
        if let Some(cause) = broken {
            return Err(cause);
        }
        self.check_credit()
    }

    /// A client that has more writes unanswered than it was granted does not keep to the protocol.
    fn check_credit(&self) -> Result<(), Disconnect> {
        let mut count = self.pending_writes;
        let mut bytes = 0;
        for work in &self.work {
            if let Work::Writes(writes) = work {
                let waiting = writes.writes.get(writes.next..).unwrap_or_default();
                count += waiting.len();
                bytes += waiting.iter().map(|write| write.value.len()).sum::<usize>();
            }
        }
        let (count_max, bytes_max) =
            (self.options.write_credit_count, self.options.write_credit_bytes);
        // One value may be longer than the credit; it is sent alone.
        if count <= count_max as usize && (bytes <= bytes_max as usize || count <= 1) {
            return Ok(());
        }
        let sentence = format!(
            "{count} writes with {bytes} bytes are unanswered; {count_max} with {bytes_max} bytes \
             were granted"
        );
        Err(Disconnect::Malformed { sentence })
    }

    /// Goes on with writes that waited. Returns whether all of them are done.
    pub(crate) fn run_writes(
        &mut self,
        work: &mut WritesWork,
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) -> bool {
        self.parked_until = None;
        let mut run = Run::default();
        while let Some(write) = work.writes.get(work.next) {
            let record = WriteRecord {
                write: write.id,
                handle: write.handle,
                options: write.options,
                value: &write.value,
            };
            match self.write_one(now, wall, &record, wakes) {
                Answer::Later => {}
                Answer::Parked(until) => {
                    self.parked_until = Some(until);
                    break;
                }
                answer => run.push(&mut self.answers, write.id, answer),
            }
            work.next += 1;
        }
        run.flush(&mut self.answers);
        work.next == work.writes.len()
    }

    fn write_one(
        &mut self,
        now: Tick,
        wall: Timestamp,
        record: &WriteRecord<'_>,
        wakes: &mut Wakes,
    ) -> Answer {
        if record.options.raw || record.options.cell_only {
            let sentence = "this engine does not take raw or cell-only writes; update it";
            return Answer::Fault(Fault::new(FaultCode::NotSupported, sentence));
        }
        let engine = self.engine.clone();
        let Some(variable) = engine.visible(&self.caller, record.handle) else {
            return Answer::Fault(unknown_handle(record.handle));
        };
        let write = Write {
            value: WriteValue::Wire(record.value),
            source_timestamp: record.options.source_timestamp,
            quality: record.options.quality,
            origin: Origin::Client,
            completion: variable
                .is_provided()
                .then(|| self.consumer.completion(record.write)),
        };
        loop {
            match engine.try_write(&self.caller, now, wall, variable, &write, wakes) {
                Attempt::Done(outcome) => return Answer::Outcome(outcome),
                Attempt::Pending => {
                    self.pending_writes += 1;
                    return Answer::Later;
                }
                Attempt::WouldBlock { .. } if record.options.try_only => {
                    return Answer::WouldBlock;
                }
                Attempt::WouldBlock { until } => {
                    if self.consumer.wait_for_room(variable) {
                        return Answer::Parked(until);
                    }
                    // The feed was drained in between: there is room, or the subscription ended.
                }
            }
        }
    }

    /// Answers writes whose provider has answered.
    pub(crate) fn answer_completions(&mut self) {
        let mut run = Run::default();
        while let Some((id, outcome)) = self.consumer.take_completion() {
            self.pending_writes = self.pending_writes.saturating_sub(1);
            run.push(&mut self.answers, id, Answer::Outcome(outcome));
        }
        run.flush(&mut self.answers);
    }
}

fn owned(write: &WriteRecord<'_>) -> OwnedWrite {
    let options: WriteOptions = write.options;
    OwnedWrite { id: write.write, handle: write.handle, options, value: write.value.into() }
}

/// Kept so that a refusal's size cannot grow unnoticed: answers are built by the thousand.
const _: () = assert!(size_of::<Refusal>() <= 64);
