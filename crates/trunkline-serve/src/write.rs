//! Writes: carried out on arrival, answered in packed runs, and parked if a feed must drain first.
//!
//! A parked write delays later writes to the same variable, to keep their order, and requests other
//! than writes, because these must see all earlier writes. Writes to other variables continue. The
//! write credit bounds the parked writes.

use std::collections::{BTreeMap, VecDeque};

use trunkline_engine::{
    Attempt, FollowedHandles, Origin, Wakes, Write, WriteValue, check_room_to_decode,
};
use trunkline_proto::message::write::{WriteOptions, WriteRecord, Writes};
use trunkline_proto::{Disconnect, Fault, FaultCode, Features, Frame, FrameKind};
use trunkline_types::wire::{self, Reader};
use trunkline_types::{Quality, Tick, Timestamp};

use crate::fault::{not_agreed, out_of_memory};
use crate::options::ServeOptions;
use crate::request_budget::Use;
use crate::session::Session;
use crate::work::{OwnedWrite, Progress, Work, WritesWork};
use crate::write_run::{Answer, Packed, Run};

/// The result of an attempt to write.
enum Attempted {
    Ended(Packed),
    /// The provider answers later.
    Later,
    /// The write waits for room in a feed.
    Parked(Tick),
}

/// Writes that wait for room in a feed, and later writes to the same variables, in order.
#[derive(Debug, Default)]
pub(crate) struct Parked {
    writes: VecDeque<OwnedWrite>,
    /// Number of parked writes per variable.
    handles: BTreeMap<u32, usize>,
    bytes: usize,
}

impl Parked {
    pub(crate) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    fn holds(&self, handle: u32) -> bool {
        self.handles.contains_key(&handle)
    }

    /// Returns the approximate memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn push(&mut self, write: OwnedWrite) {
        self.bytes += size_of::<OwnedWrite>() + write.value.len();
        *self.handles.entry(write.handle).or_default() += 1;
        self.writes.push_back(write);
    }
}

/// Maximum capacity, in answers, of a list that is kept for reuse.
const KEPT_ANSWERS_MAX: usize = 4096;

/// Writes that have arrived and are not yet answered.
#[derive(Debug, Default)]
pub(crate) struct Unanswered {
    /// The minimum id of the next write.
    next: u64,
    /// Writes behind other requests, and parked ones.
    waiting: usize,
    waiting_bytes: usize,
    /// Writes at a provider, with the bytes of their values.
    provided: BTreeMap<u64, usize>,
    provided_bytes: usize,
    /// Credit returned by answers since a quarter of it was last reached: writes and bytes.
    returned: usize,
    returned_bytes: usize,
    /// An empty list, kept for its capacity.
    list: Vec<Packed>,
}

impl Unanswered {
    fn count(&self) -> usize {
        self.waiting + self.provided.len()
    }

    /// Accepts a frame of `count` writes. A frame that breaks the credit or the order of ids is
    /// rejected before it is read, because its answers alone might be far longer than the frame.
    fn begin(&mut self, first: u64, count: u32, options: &ServeOptions) -> Result<(), Disconnect> {
        let max = options.write_credit_count as usize;
        let unanswered = self.count() + count as usize;
        if unanswered > max {
            let sentence = format!("{unanswered} writes are unanswered; {max} were granted");
            return Err(Disconnect::Malformed { sentence });
        }
        let next = first
            .checked_add(u64::from(count))
            .filter(|_| first >= self.next);
        let Some(next) = next else {
            let sentence = format!("write {first} follows write {}; numbers ascend", self.next);
            return Err(Disconnect::Malformed { sentence });
        };
        self.next = next;
        Ok(())
    }

    /// Rejects a client that has more unanswered bytes than it was granted.
    fn check_bytes(&self, options: &ServeOptions) -> Result<(), Disconnect> {
        let (bytes, max) = (
            self.waiting_bytes + self.provided_bytes,
            options.write_credit_bytes,
        );
        // One value may be longer than the credit; it is sent alone.
        if bytes <= max as usize || self.count() <= 1 {
            return Ok(());
        }
        let sentence = format!("values of {bytes} bytes are unanswered; {max} were granted");
        Err(Disconnect::Malformed { sentence })
    }

    fn wait(&mut self, bytes: usize) {
        self.waiting += 1;
        self.waiting_bytes += bytes;
    }

    fn go_on(&mut self, bytes: usize) {
        self.waiting -= 1;
        self.waiting_bytes -= bytes;
        self.give_back(1, bytes);
    }

    fn give_back(&mut self, writes: usize, bytes: usize) {
        self.returned = self.returned.saturating_add(writes);
        self.returned_bytes = self.returned_bytes.saturating_add(bytes);
    }

    /// Returns true if a quarter of the credit was returned since the last time. A client at full
    /// speed needs it soon, so its answers are no longer gathered.
    pub(crate) fn take_returned(&mut self, options: &ServeOptions) -> bool {
        let is_much = self.returned >= (options.write_credit_count / 4).max(1) as usize
            || self.returned_bytes >= (options.write_credit_bytes / 4).max(1) as usize;
        if is_much {
            (self.returned, self.returned_bytes) = (0, 0);
        }
        is_much
    }

    fn provide(&mut self, id: u64, bytes: usize) {
        self.provided.insert(id, bytes);
        self.provided_bytes += bytes;
    }

    /// Returns an empty run.
    fn run(&mut self) -> Run {
        Run {
            first: 0,
            answers: std::mem::take(&mut self.list),
        }
    }

    /// Keeps the list of a flushed run for reuse.
    fn keep(&mut self, run: Run) {
        if run.answers.capacity() <= KEPT_ANSWERS_MAX {
            self.list = run.answers;
        }
    }

    fn answer(&mut self, id: u64) {
        let bytes = self.provided.remove(&id).unwrap_or_default();
        self.provided_bytes -= bytes;
        self.give_back(1, bytes);
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
        let writes = Writes::decode(frame)?;
        let is_published = frame.kind() == Some(FrameKind::Publish);
        self.unanswered
            .begin(writes.first_write(), frame.count(), &self.options)?;
        let mut handles = std::mem::take(&mut self.handles);
        let followed = handles.follow();
        let mut run = self.unanswered.run();
        let mut queued = Vec::new();
        let mut result = Ok(());
        for write in writes {
            let write = match write {
                Ok(write) => write,
                Err(error) => {
                    result = Err(error.into());
                    break;
                }
            };
            // A write waits behind anything that waits, because requests keep their order.
            if !self.work.is_empty() || !queued.is_empty() {
                match self.queued(&write, is_published) {
                    Ok(write) => queued.push(write),
                    Err(fault) => run.push(&mut self.answers.frames, write.write, refused(fault)),
                }
                continue;
            }
            if self.parked.holds(write.handle) {
                match self.queued(&write, is_published) {
                    Ok(write) => self.parked.push(write),
                    Err(fault) => run.push(&mut self.answers.frames, write.write, refused(fault)),
                }
                continue;
            }
            match self.attempt(&followed, (now, wall), &write, is_published, wakes) {
                Attempted::Ended(answer) => run.push(&mut self.answers.frames, write.write, answer),
                Attempted::Later => {}
                Attempted::Parked(until) => match self.queued(&write, is_published) {
                    Ok(write) => self.park(write, until),
                    Err(fault) => run.push(&mut self.answers.frames, write.write, refused(fault)),
                },
            }
        }
        drop(followed);
        self.handles = handles;
        run.flush(&mut self.answers.frames);
        self.unanswered.keep(run);
        if self.gathering.is_some() && queued.is_empty() {
            // The payload is longer than the values, but a quarter of the credit is only
            // approximate.
            let bytes = frame.payload().len();
            self.unanswered.give_back(frame.count() as usize, bytes);
        }
        if !queued.is_empty() {
            self.work.push(Work::Writes(WritesWork { writes: queued }));
        }
        result.and_then(|()| self.unanswered.check_bytes(&self.options))
    }

    /// Returns an owned copy of a write that has to wait.
    ///
    /// # Errors
    /// There is no memory for it.
    fn queued(&mut self, write: &WriteRecord<'_>, is_published: bool) -> Result<OwnedWrite, Fault> {
        let bytes = size_of::<Work>() + size_of::<OwnedWrite>() + write.value.len();
        self.account.add(Use::Work, bytes)?;
        let mut value = Vec::new();
        if value.try_reserve_exact(write.value.len()).is_err() {
            return Err(out_of_memory(write.value.len()));
        }
        value.extend_from_slice(write.value);
        self.unanswered.wait(write.value.len());
        let WriteRecord {
            write: id,
            handle,
            options,
            ..
        } = *write;
        Ok(OwnedWrite {
            id,
            handle,
            options,
            value: value.into_boxed_slice(),
            is_published,
        })
    }

    /// Continues with writes that waited behind other requests.
    pub(crate) fn run_writes(
        &mut self,
        work: &mut WritesWork,
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) -> Progress {
        self.run_waiting(work.writes.drain(..), (now, wall), wakes);
        Progress::Done
    }

    /// Tries parked writes again: for each variable, as many as there is room for now.
    pub(crate) fn retry_parked(&mut self, now: Tick, wall: Timestamp, wakes: &mut Wakes) {
        if self.parked.is_empty() {
            return;
        }
        self.parked_until = None;
        let Parked { writes, .. } = std::mem::take(&mut self.parked);
        self.run_waiting(writes.into_iter(), (now, wall), wakes);
    }

    /// Carries out writes that waited. A write that finds no room is parked, and so are later
    /// writes to the same variable.
    fn run_waiting(
        &mut self,
        writes: impl Iterator<Item = OwnedWrite>,
        time: (Tick, Timestamp),
        wakes: &mut Wakes,
    ) {
        let mut handles = std::mem::take(&mut self.handles);
        let followed = handles.follow();
        let mut run = self.unanswered.run();
        for write in writes {
            if self.parked.holds(write.handle) {
                self.parked.push(write);
                continue;
            }
            let record = write.record();
            match self.attempt(&followed, time, &record, write.is_published, wakes) {
                Attempted::Ended(answer) => run.push(&mut self.answers.frames, write.id, answer),
                Attempted::Later => {}
                Attempted::Parked(until) => {
                    self.park(write, until);
                    continue;
                }
            }
            self.unanswered.go_on(write.value.len());
        }
        drop(followed);
        self.handles = handles;
        run.flush(&mut self.answers.frames);
        self.unanswered.keep(run);
    }

    fn park(&mut self, write: OwnedWrite, until: Tick) {
        self.parked_until = Some(self.parked_until.map_or(until, |at| at.min(until)));
        self.parked.push(write);
    }

    fn attempt(
        &mut self,
        handles: &FollowedHandles<'_>,
        (now, wall): (Tick, Timestamp),
        record: &WriteRecord<'_>,
        is_published: bool,
        wakes: &mut Wakes,
    ) -> Attempted {
        let ended = |answer: Answer| Attempted::Ended(Packed::from(answer));
        let engine = &self.engine;
        let Some(variable) = handles.visible(&self.caller, record.handle) else {
            let error = engine.no_variable(record.handle);
            return ended(Answer::Fault(Fault::from(&error)));
        };
        if !is_published
            && is_bare(&record.options)
            && engine.is_clock_settled()
            && let Some(sequence) =
                variable.write_plain_wire(&self.caller, wall, record.value, wakes)
        {
            return Attempted::Ended(Packed::Applied(sequence));
        }
        if let Err(fault) = self.check_extension(&record.options) {
            return ended(Answer::Fault(fault));
        }
        if is_published && !self.provides(variable) {
            let fault = FaultCode::NotItsProvider.into();
            return ended(Answer::Fault(fault));
        }
        if is_published && record.value.is_empty() {
            // Only the quality of the source changes.
            let quality = record.options.quality.unwrap_or(Quality::GOOD);
            engine.set_quality(record.handle, quality, now, wall, wakes);
            let sequence = variable.sequence();
            return Attempted::Ended(Packed::Applied(sequence));
        }
        let is_provided = variable.is_provided();
        let WriteOptions {
            source_timestamp,
            quality,
            raw,
            expected,
            superseded,
            ..
        } = record.options;
        let origin = match (is_published, raw) {
            (false, _) => Origin::Client,
            (true, false) => Origin::Source,
            (true, true) => Origin::SourceRaw,
        };
        let verb = match record.options.verb {
            Ok(verb) if is_published || !raw => verb,
            _ => {
                let sentence = "this engine does not know what is to be done with the value, or \
                                takes none in raw units; update it, or write in engineering units";
                let fault = Fault::new(FaultCode::NotSupported, sentence);
                return ended(Answer::Fault(fault));
            }
        };
        if superseded > 0 {
            variable.count_superseded(u64::from(superseded));
        }
        let raw_value;
        let mut value = WriteValue::Wire(record.value);
        if origin == Origin::SourceRaw {
            let properties = variable.properties();
            let raw_type = properties.raw_type();
            let mut reader = Reader::new(record.value);
            // The value has the type that the provider was told. The engine reports any error in
            // it.
            if raw_type != variable.data_type()
                && check_room_to_decode(raw_type, record.value).is_ok()
                && let Ok(decoded) = wire::decode_value(raw_type, &mut reader)
                && reader.is_empty()
            {
                raw_value = decoded;
                value = WriteValue::Value(&raw_value);
            }
        }
        let write = Write {
            value,
            source_timestamp,
            quality,
            origin,
            verb,
            expected,
            completion: (is_provided && !is_published)
                .then(|| self.consumer.completion(record.write)),
        };
        loop {
            match engine.try_write(&self.caller, now, wall, variable, &write, wakes) {
                Attempt::Done(outcome) => return ended(Answer::Outcome(outcome)),
                Attempt::Pending => {
                    self.unanswered.provide(record.write, record.value.len());
                    return Attempted::Later;
                }
                Attempt::WouldBlock { .. } if record.options.try_only => {
                    return ended(Answer::WouldBlock);
                }
                Attempt::WouldBlock { until } => {
                    if self.consumer.wait_for_room(variable) {
                        return Attempted::Parked(until);
                    }
                    // The feed was drained in the meantime: there is room, or the subscription
                    // ended.
                }
            }
        }
    }

    /// Checks that the client may use the extension of a write.
    pub(crate) fn check_extension(&self, options: &WriteOptions) -> Result<(), Fault> {
        match options.needs_extension() && !self.features.contains(Features::REGISTERS) {
            true => Err(not_agreed("the extension of a write", Features::REGISTERS)),
            false => Ok(()),
        }
    }

    /// Answers writes whose provider has answered.
    pub(crate) fn answer_completions(&mut self) {
        let mut run = self.unanswered.run();
        while let Some((id, outcome)) = self.consumer.take_completion() {
            self.unanswered.answer(id);
            let answer = Packed::from(Answer::Outcome(outcome));
            run.push(&mut self.answers.frames, id, answer);
        }
        run.flush(&mut self.answers.frames);
        self.unanswered.keep(run);
    }
}

fn refused(fault: Fault) -> Packed {
    Packed::from(Answer::Fault(fault))
}

/// Returns true if the write has only a value: it is written as is, and stamped on arrival.
fn is_bare(options: &WriteOptions) -> bool {
    let bare = WriteOptions {
        // This makes no difference where nothing can delay the write.
        try_only: options.try_only,
        ..WriteOptions::default()
    };
    *options == bare
}
