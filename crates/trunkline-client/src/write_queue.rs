//! Writes that wait, writes on their way, and outcomes that wait.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use trunkline_proto::Fault;
use trunkline_types::Tick;
use trunkline_types::wire::encoded_len;

use crate::outcome::{WriteCounts, WriteOutcome};
use crate::variable::VariableRef;
use crate::write::{Write, WriteMode};

/// An emptied queue with more room than this gives it back.
const KEPT_WRITES_MAX: usize = 4096;
/// Places for writes on their way, answered or not, before the oldest are kept by number.
const RECENT_MAX: usize = 16 << 10;

/// From one look for writes whose life is over to the next.
const EXPIRY_STEP: Duration = Duration::from_millis(10);

/// The writes of a client.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    unsent: VecDeque<Unsent>,
    unsent_bytes: usize,
    /// Writes at its front that are sent, or refused, and leave it together.
    passed: usize,
    /// Writes taken out of `unsent` so far: what a place in the whole sequence is counted from.
    taken: u64,
    /// Where in the sequence the write of a variable waits whose place a newer one takes.
    newest: BTreeMap<VariableRef, u64>,
    /// When to look for unsent writes whose life is over.
    expire_at: Option<Tick>,
    in_flight: OnTheirWay,
    in_flight_bytes: usize,
    batches: BTreeMap<u64, Batch>,
    /// Outcomes of batches, those to come included.
    tracked: usize,
    /// What the engine grants on this connection.
    credit_count: usize,
    credit_bytes: usize,
    counts: WriteCounts,
    last_fault: Option<Fault>,
}

/// A write that was not sent.
#[derive(Debug)]
pub(crate) struct Unsent {
    order: u64,
    pub(crate) write: Write,
    /// Of its value.
    pub(crate) bytes: u32,
    pub(crate) place: Option<Place>,
    /// It is not sent from then on.
    pub(crate) expires: Option<Tick>,
}

/// A write that was sent and not answered.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) variable: VariableRef,
    /// Of a provider's value, whose variable is nobody's here.
    pub(crate) published: u32,
    bytes: u32,
    pub(crate) place: Option<Place>,
}

/// Where an outcome is expected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) batch: u64,
    pub(crate) index: u32,
}

/// Writes that were sent and not answered, by their numbers, which follow one another.
#[derive(Debug, Default)]
struct OnTheirWay {
    /// From `first` on; `None` where one is answered. The first one is not.
    recent: VecDeque<Option<InFlight>>,
    first: u64,
    /// Left behind by many that were sent later and are answered, so that `recent` is bounded.
    late: BTreeMap<u64, InFlight>,
    count: usize,
}

impl OnTheirWay {
    /// The number of the next write.
    fn next(&self) -> u64 {
        self.first + self.recent.len() as u64
    }

    #[inline]
    fn push(&mut self, write: InFlight) {
        if self.recent.len() >= RECENT_MAX {
            self.late.extend(
                self.recent
                    .pop_front()
                    .flatten()
                    .map(|write| (self.first, write)),
            );
            self.first += 1;
            self.trim();
        }
        self.recent.push_back(Some(write));
        self.count += 1;
    }

    #[inline]
    fn remove(&mut self, number: u64) -> Option<InFlight> {
        let write = match number.checked_sub(self.first) {
            Some(index) => self.recent.get_mut(usize::try_from(index).ok()?)?.take()?,
            None => self.late.remove(&number)?,
        };
        self.count -= 1;
        if number == self.first {
            self.trim();
        }
        Some(write)
    }

    /// Everything, in order; the numbers go on.
    fn take(&mut self) -> impl Iterator<Item = InFlight> + use<> {
        self.first = self.next();
        self.count = 0;
        let late = std::mem::take(&mut self.late).into_values();
        late.chain(std::mem::take(&mut self.recent).into_iter().flatten())
    }

    /// The first one is never an answered one.
    #[inline]
    fn trim(&mut self) {
        while let Some(None) = self.recent.front() {
            self.recent.pop_front();
            self.first += 1;
        }
    }
}

#[derive(Debug)]
struct Batch {
    outcomes: Vec<Option<WriteOutcome>>,
    open: usize,
}

impl Writes {
    /// The connection is up, and the engine grants this much.
    pub(crate) fn connected(&mut self, credit_count: u32, credit_bytes: u32) {
        self.credit_count = (credit_count as usize).max(1);
        self.credit_bytes = credit_bytes as usize;
    }

    /// The number of the next write to be sent, if the credit allows one. A value longer than the
    /// whole credit is sent alone.
    pub(crate) fn front(&self) -> Option<u64> {
        let front = self.unsent.get(self.passed)?;
        let bytes = self.in_flight_bytes + front.bytes as usize;
        let fits = self.in_flight.count < self.credit_count
            && (self.in_flight.count == 0 || bytes <= self.credit_bytes);
        fits.then_some(front.order)
    }

    /// Whether writes wait only because the engine grants no more at a time.
    pub(crate) fn wait_for_credit(&self) -> bool {
        self.unsent.len() > self.passed && self.front().is_none()
    }

    /// The number of the oldest write that waits to be sent.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.unsent.front().map(|unsent| unsent.order)
    }

    /// Writes that wait to be sent, and bytes of their values.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        (self.unsent.len(), self.unsent_bytes)
    }

    /// Outcomes that wait or will.
    pub(crate) fn tracked(&self) -> usize {
        self.tracked
    }

    /// Expects this many outcomes under a number.
    pub(crate) fn begin_batch(&mut self, number: u64, count: usize) {
        let outcomes = (0..count).map(|_| None).collect();
        self.batches.insert(
            number,
            Batch {
                outcomes,
                open: count,
            },
        );
        self.tracked += count;
    }

    /// Queues a write; false when it took the place of one that waited.
    #[inline]
    pub(crate) fn push(
        &mut self,
        order: u64,
        mut write: Write,
        place: Option<Place>,
        expires: Option<Tick>,
    ) -> bool {
        self.expire_at = self.expire_at.into_iter().chain(expires).min();
        let bytes = u32::try_from(encoded_len(&write.value)).unwrap_or(u32::MAX);
        self.counts.issued += 1;
        self.unsent_bytes += bytes as usize;
        if write.mode == WriteMode::Newest {
            let known = self.newest.get(&write.variable);
            let index = known.and_then(|at| usize::try_from(at.checked_sub(self.taken)?).ok());
            if let Some(waiting) = index.and_then(|index| self.unsent.get_mut(index)) {
                let superseded = waiting.write.options.superseded.saturating_add(1);
                write.options.superseded = superseded;
                self.unsent_bytes -= waiting.bytes as usize;
                let before = waiting.place;
                (waiting.write, waiting.bytes, waiting.place) = (write, bytes, place);
                waiting.expires = expires;
                self.end(before, WriteOutcome::Superseded);
                return false;
            }
            let at = self.taken + self.unsent.len() as u64;
            self.newest.insert(write.variable, at);
        }
        self.unsent.push_back(Unsent {
            order,
            write,
            bytes,
            place,
            expires,
        });
        true
    }

    /// Cancels what is unsent of a batch. Returns the variables that these writes held.
    pub(crate) fn cancel_batch(&mut self, number: u64, fault: &Fault) -> Vec<VariableRef> {
        if self.is_settled(number) {
            return Vec::new();
        }
        // The queue is in the order of the calls; only a write that took the place of another is
        // further ahead than its own call.
        let first = match self.newest.is_empty() {
            true => self.unsent.partition_point(|unsent| unsent.order < number),
            false => 0,
        };
        let is_of_batch = |unsent: &Unsent| unsent.place.is_some_and(|at| at.batch == number);
        self.cancel(first, is_of_batch, fault)
    }

    /// When [`expire`](Self::expire) has something to do.
    pub(crate) fn expire_at(&self) -> Option<Tick> {
        self.expire_at
    }

    /// Cancels the unsent writes whose life is over. Returns the variables that they held.
    pub(crate) fn expire(&mut self, now: Tick, fault: &Fault) -> Vec<VariableRef> {
        if self.expire_at.is_none_or(|at| at > now) {
            return Vec::new();
        }
        let is_over = |unsent: &Unsent| unsent.expires.is_some_and(|at| at <= now);
        let cancelled = self.cancel(0, is_over, fault);
        // Many writes end one shortly after the other: they are looked at together. None of them is
        // sent meanwhile, because sending compares the time itself.
        let next = self.unsent.iter().filter_map(|unsent| unsent.expires).min();
        self.expire_at = next.map(|at| at.max(now.saturating_add(EXPIRY_STEP)));
        cancelled
    }

    fn cancel(
        &mut self,
        first: usize,
        is_cancelled: impl Fn(&Unsent) -> bool,
        fault: &Fault,
    ) -> Vec<VariableRef> {
        let mut variables = Vec::new();
        for unsent in self.unsent.split_off(first) {
            if is_cancelled(&unsent) {
                #[cfg(feature = "planted")]
                if trunkline_types::planted::is(trunkline_types::planted::Bug::EndedWriteSent) {
                    self.end(unsent.place, WriteOutcome::Cancelled(fault.clone()));
                    self.unsent.push_back(unsent);
                    continue;
                }
                self.unsent_bytes -= unsent.bytes as usize;
                variables.push(unsent.write.variable);
                self.end(unsent.place, WriteOutcome::Cancelled(fault.clone()));
            } else {
                self.unsent.push_back(unsent);
            }
        }
        if !variables.is_empty() && !self.newest.is_empty() {
            self.newest.clear();
            for (unsent, at) in self.unsent.iter().zip(self.taken..) {
                if unsent.write.mode == WriteMode::Newest {
                    self.newest.insert(unsent.write.variable, at);
                }
            }
        }
        variables
    }

    /// The next write to be sent, where it waits. Those that were sent or refused leave the queue
    /// with [`leave_passed`](Self::leave_passed), which follows.
    pub(crate) fn next_unsent(&mut self) -> Option<&mut Unsent> {
        self.unsent.get_mut(self.passed)
    }

    /// The number on the wire of the next write that is sent; they are never used again.
    pub(crate) fn next_write(&self) -> u64 {
        self.in_flight.next()
    }

    /// The next write has been sent, under the next number.
    #[inline]
    pub(crate) fn sent_next(&mut self) {
        let Some(unsent) = self.unsent.get(self.passed) else {
            return;
        };
        let Unsent { bytes, place, .. } = *unsent;
        self.in_flight.push(InFlight {
            variable: unsent.write.variable,
            published: 0,
            bytes,
            place,
        });
        self.in_flight_bytes += bytes as usize;
        self.pass_next();
    }

    /// The next write needs the queue no more.
    #[inline]
    fn pass_next(&mut self) {
        let Some(unsent) = self.unsent.get(self.passed) else {
            return;
        };
        if unsent.write.mode == WriteMode::Newest {
            self.newest.remove(&unsent.write.variable);
        }
        self.taken += 1;
        self.unsent_bytes -= unsent.bytes as usize;
        self.passed += 1;
    }

    /// Takes those that were sent or refused out of the queue.
    pub(crate) fn leave_passed(&mut self) {
        self.unsent.drain(..std::mem::take(&mut self.passed));
        if self.unsent.is_empty() && self.unsent.capacity() > KEPT_WRITES_MAX {
            self.unsent = VecDeque::new();
        }
    }

    /// The next write will not be sent, and has ended so.
    pub(crate) fn end_next(&mut self, outcome: WriteOutcome) {
        let Some(unsent) = self.unsent.get(self.passed) else {
            return;
        };
        let place = unsent.place;
        self.pass_next();
        self.end(place, outcome);
    }

    /// Whether one more may be on its way.
    pub(crate) fn has_credit(&self) -> bool {
        self.in_flight.count < self.credit_count && self.in_flight_bytes < self.credit_bytes
    }

    /// A provider's value has been sent under the next number.
    pub(crate) fn sent_publication(&mut self, handle: u32, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.in_flight.push(InFlight {
            variable: VariableRef::NOBODY,
            published: handle,
            bytes,
            place: None,
        });
        self.in_flight_bytes += bytes as usize;
    }

    /// The engine has answered this write.
    #[inline]
    pub(crate) fn answered(&mut self, number: u64) -> Option<InFlight> {
        let write = self.in_flight.remove(number)?;
        self.in_flight_bytes -= write.bytes as usize;
        Some(write)
    }

    /// Whether every write that was sent under a smaller number has been answered.
    pub(crate) fn are_answered_before(&self, number: u64) -> bool {
        let first = self.in_flight.late.first_key_value();
        let oldest = first.map_or(self.in_flight.first, |(first, _)| *first);
        number <= oldest
    }

    /// Everything that was sent, in order: nobody will answer it.
    pub(crate) fn take_in_flight(&mut self) -> impl Iterator<Item = InFlight> + use<> {
        self.in_flight_bytes = 0;
        self.in_flight.take()
    }

    /// A write has ended.
    #[inline]
    pub(crate) fn end(&mut self, place: Option<Place>, outcome: WriteOutcome) {
        let count = match &outcome {
            WriteOutcome::Applied(_) => &mut self.counts.applied,
            WriteOutcome::Unchanged(_) => &mut self.counts.unchanged,
            WriteOutcome::Superseded => &mut self.counts.superseded,
            WriteOutcome::Refused(_) => &mut self.counts.refused,
            WriteOutcome::WouldBlock => &mut self.counts.would_block,
            WriteOutcome::Unknown(_) => &mut self.counts.unknown,
            WriteOutcome::Cancelled(_) => &mut self.counts.cancelled,
        };
        *count += 1;
        if let WriteOutcome::Refused(fault)
        | WriteOutcome::Unknown(fault)
        | WriteOutcome::Cancelled(fault) = &outcome
        {
            self.last_fault = Some(fault.clone());
        }
        let Some(place) = place else { return };
        let Some(batch) = self.batches.get_mut(&place.batch) else {
            return;
        };
        if let Some(slot @ None) = batch.outcomes.get_mut(place.index as usize) {
            *slot = Some(outcome);
            batch.open -= 1;
        }
    }

    /// A group of writes has ended.
    pub(crate) fn count_group(&mut self, outcomes: &[WriteOutcome]) {
        for outcome in outcomes {
            self.counts.issued += 1;
            self.end(None, outcome.clone());
        }
    }

    /// The first write that is not sent, whether or not it may be.
    pub(crate) fn first_unsent(&self) -> Option<u64> {
        self.unsent.front().map(|unsent| unsent.order)
    }

    /// Whether every outcome under this number is known.
    pub(crate) fn is_settled(&self, number: u64) -> bool {
        self.batches
            .get(&number)
            .is_some_and(|batch| batch.open == 0)
    }

    /// The outcomes under this number, known or not; afterwards nobody expects them.
    pub(crate) fn end_batch(&mut self, number: u64) -> Option<Vec<Option<WriteOutcome>>> {
        let batch = self.batches.remove(&number)?;
        self.tracked -= batch.outcomes.len();
        Some(batch.outcomes)
    }

    pub(crate) fn counts(&self) -> WriteCounts {
        let (waiting, in_flight) = (self.unsent.len() as u64, self.in_flight.count as u64);
        WriteCounts {
            waiting,
            in_flight,
            ..self.counts
        }
    }

    /// Why the last write that was refused, cancelled or is unknown ended so.
    pub(crate) fn last_fault(&self) -> Option<&Fault> {
        self.last_fault.as_ref()
    }

    /// Writes that have not ended.
    pub(crate) fn open(&self) -> usize {
        self.unsent.len() + self.in_flight.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write() -> InFlight {
        InFlight {
            variable: VariableRef::NOBODY,
            published: 0,
            bytes: 8,
            place: None,
        }
    }

    #[test]
    fn writes_are_answered_in_any_order_and_once() {
        let mut sut = OnTheirWay::default();
        (0..5).for_each(|_| sut.push(write()));
        for number in [3, 0, 4, 1] {
            assert!(sut.remove(number).is_some());
            assert!(sut.remove(number).is_none(), "{number} twice");
        }
        assert_eq!((sut.count, sut.first, sut.next()), (1, 2, 5));
        assert!(sut.remove(5).is_none() && sut.remove(2).is_some());
        assert_eq!((sut.count, sut.first, sut.next()), (0, 5, 5));
    }

    #[test]
    fn one_that_is_never_answered_holds_no_room_for_all_behind_it() {
        let mut sut = OnTheirWay::default();
        sut.push(write());
        for number in 1..100_000 {
            sut.push(write());
            assert!(sut.remove(number).is_some());
        }
        assert!(sut.recent.len() <= RECENT_MAX);
        assert_eq!((sut.count, sut.late.len()), (1, 1));
        assert!(sut.remove(0).is_some() && sut.remove(0).is_none());
        assert_eq!(sut.count, 0);
    }

    #[test]
    fn numbers_go_on_when_everything_was_taken() {
        let mut sut = OnTheirWay::default();
        (0..3).for_each(|_| sut.push(write()));
        sut.remove(1);
        assert_eq!(sut.take().count(), 2);
        assert_eq!((sut.count, sut.next()), (0, 3));
        assert!(sut.remove(0).is_none());
    }
}
