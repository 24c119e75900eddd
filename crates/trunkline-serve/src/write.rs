//! Writes: carried out as they arrive, answered in packed runs, parked where a feed must first
//! drain.
//!
//! A parked write holds up the later writes to its own variable, so that their order is kept, and
//! requests that are not writes, which see all writes before them. Writes to other variables go on.
//! The write credit bounds what is parked.

use std::collections::{BTreeMap, VecDeque};

use trunkline_engine::{Attempt, FollowedHandles, Origin, Verb, Wakes, Write, WriteValue};
use trunkline_proto::message::write::{WriteOptions, WriteRecord, WriteVerb, Writes};
use trunkline_proto::{Disconnect, Fault, FaultCode, Features, Frame, FrameKind};
use trunkline_types::wire::{self, Reader};
use trunkline_types::{Quality, Tick, Timestamp};

use crate::fault::{not_agreed, of_access, out_of_memory};
use crate::options::ServeOptions;
use crate::request_budget::Use;
use crate::session::Session;
use crate::work::{OwnedWrite, Progress, Work, WritesWork};
use crate::write_run::{Answer, Packed, Run};

/// How one write went.
enum Attempted {
    Ended(Packed),
    /// The answer comes later, from the provider.
    Later,
    /// It waits for room in a feed.
    Parked(Tick),
}

/// Writes that wait for room in a feed, and those behind them to the same variables, in order.
#[derive(Debug, Default)]
pub(crate) struct Parked {
    writes: VecDeque<OwnedWrite>,
    /// How many of them each variable has.
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

    /// Bytes of memory, roughly.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn push(&mut self, write: OwnedWrite) {
        self.bytes += size_of::<OwnedWrite>() + write.value.len();
        *self.handles.entry(write.handle).or_default() += 1;
        self.writes.push_back(write);
    }
}

/// Answers kept for the memory of their list at most.
const KEPT_ANSWERS_MAX: usize = 4096;

/// Writes that have come and are not answered.
#[derive(Debug, Default)]
pub(crate) struct Unanswered {
    /// The id that the next write has at least.
    next: u64,
    /// Behind other requests, or parked.
    waiting: usize,
    waiting_bytes: usize,
    /// At a provider, with the bytes of their values.
    provided: BTreeMap<u64, usize>,
    provided_bytes: usize,
    /// Credit that answers have given back since a quarter of it last was: writes and bytes.
    returned: usize,
    returned_bytes: usize,
    /// An empty list, kept for its memory.
    list: Vec<Packed>,
}

impl Unanswered {
    fn count(&self) -> usize {
        self.waiting + self.provided.len()
    }

    /// A frame of `count` writes has come. One that could not end well is not looked at: its
    /// answers alone might be far longer than it.
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

    /// A client that has more bytes unanswered than it was granted does not keep to the protocol.
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

    /// Whether a quarter of the credit was given back since this was last so. A client at full
    /// speed needs it soon, so that its answers are gathered no longer.
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

    /// A run without answers.
    fn run(&mut self) -> Run {
        Run {
            first: 0,
            answers: std::mem::take(&mut self.list),
        }
    }

    /// Takes the memory of a run back, which was flushed.
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
            // Behind anything that waits, a write waits too: requests keep their order.
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
            // More bytes than those of the values: only about a quarter of the credit is meant.
            let bytes = frame.payload().len();
            self.unanswered.give_back(frame.count() as usize, bytes);
        }
        if !queued.is_empty() {
            self.work.push(Work::Writes(WritesWork { writes: queued }));
        }
        result.and_then(|()| self.unanswered.check_bytes(&self.options))
    }

    /// A write that has to wait.
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

    /// Goes on with writes that waited behind other requests.
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

    /// Tries parked writes again: of each variable as many as there is room for now.
    pub(crate) fn retry_parked(&mut self, now: Tick, wall: Timestamp, wakes: &mut Wakes) {
        if self.parked.is_empty() {
            return;
        }
        self.parked_until = None;
        let Parked { writes, .. } = std::mem::take(&mut self.parked);
        self.run_waiting(writes.into_iter(), (now, wall), wakes);
    }

    /// Carries out writes that waited. Where one finds no room, it is parked, and so are those
    /// behind it to the same variable.
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
            return ended(Answer::Fault(of_access(&error)));
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
            // Only what the source says about itself.
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
        let verb = match verb_of(record.options.verb) {
            Some(verb) if is_published || !raw => verb,
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
            // Of the type that the provider was told; what is wrong with it, the engine says.
            if raw_type != variable.data_type()
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
                    // The feed was drained in between: there is room, or the subscription ended.
                }
            }
        }
    }

    /// Whether the client may send what the extension of a write says.
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

/// Whether a write says nothing beside its value: it is put as it is, stamped on arrival.
fn is_bare(options: &WriteOptions) -> bool {
    let bare = WriteOptions {
        // Where nothing can hold it up, that makes no difference.
        try_only: options.try_only,
        ..WriteOptions::default()
    };
    *options == bare
}

/// What the engine calls it; `None` of a newer version.
pub(crate) fn verb_of(verb: WriteVerb) -> Option<Verb> {
    Some(match verb {
        WriteVerb::Put => Verb::Put,
        WriteVerb::Set => Verb::Set,
        WriteVerb::Send => Verb::Send,
        WriteVerb::Request => Verb::Request,
        WriteVerb::Force => Verb::Force,
        WriteVerb::Unforce => Verb::Unforce,
        _ => return None,
    })
}
