//! Queued writes, writes in flight, and outcomes not yet taken.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use trunkline_proto::Fault;
use trunkline_types::Tick;
use trunkline_types::wire::encoded_len;

use super::{Write, WriteMode};
use crate::outcome::{NotTried, WriteCounts, WriteOutcome};
use crate::variables::VariableRef;

/// An emptied queue with a larger capacity than this is freed.
const KEPT_WRITES_MAX: usize = 4096;
/// Maximum number of recent entries, answered ones included. Older unanswered writes move to a map.
const RECENT_MAX: usize = 16 << 10;

/// Minimum time between two searches for expired writes.
const EXPIRY_STEP: Duration = Duration::from_millis(10);

#[derive(Debug, Default)]
pub(crate) struct Writes {
    unsent: VecDeque<Unsent>,
    unsent_bytes: usize,
    /// Number of writes at the front of `unsent` that were sent or refused, and are removed
    /// together.
    passed: usize,
    /// Number of writes taken out of `unsent` so far. Positions in the whole sequence count from
    /// here.
    taken: u64,
    /// Position in the sequence of the queued write that a newer write of the variable replaces.
    newest: BTreeMap<VariableRef, u64>,
    /// The next time to search for expired unsent writes.
    expire_at: Option<Tick>,
    in_flight: OnTheirWay,
    in_flight_bytes: usize,
    batches: BTreeMap<u64, Batch>,
    /// Number of outcomes in batches, including outstanding ones.
    tracked: usize,
    credit_count: usize,
    credit_bytes: usize,
    counts: WriteCounts,
    last_fault: Option<Fault>,
}

#[derive(Debug)]
pub(crate) struct Unsent {
    order: u64,
    pub(crate) write: Write,
    /// Size of its value in bytes.
    pub(crate) bytes: u32,
    pub(crate) place: Option<Place>,
    /// The time from which the write must not be sent.
    pub(crate) expires: Option<Tick>,
}

/// A write that was sent and not yet answered.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) variable: VariableRef,
    /// The handle of a provider's published value, whose `variable` is `NOBODY`.
    pub(crate) published: u32,
    bytes: u32,
    pub(crate) place: Option<Place>,
}

/// The batch and index for which an outcome is expected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) batch: u64,
    pub(crate) index: u32,
}

/// Writes that were sent and not yet answered, by their consecutive numbers.
#[derive(Debug, Default)]
struct OnTheirWay {
    /// Writes from number `first` on; `None` once answered. The first entry is never `None`.
    recent: VecDeque<Option<InFlight>>,
    first: u64,
    /// Unanswered writes that many later ones have overtaken. They are moved here to bound
    /// `recent`.
    late: BTreeMap<u64, InFlight>,
    count: usize,
}

impl OnTheirWay {
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

    /// Takes all writes in order. The numbers continue.
    fn take(&mut self) -> impl Iterator<Item = InFlight> + use<> {
        self.first = self.next();
        self.count = 0;
        let late = std::mem::take(&mut self.late).into_values();
        late.chain(std::mem::take(&mut self.recent).into_iter().flatten())
    }

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
    pub(crate) fn connected(&mut self, credit_count: u32, credit_bytes: u32) {
        self.credit_count = (credit_count as usize).max(1);
        self.credit_bytes = credit_bytes as usize;
    }

    /// Returns the order of the next write to send, if the credit allows one. A value longer than
    /// the whole credit is sent alone.
    pub(crate) fn front(&self) -> Option<u64> {
        let front = self.unsent.get(self.passed)?;
        let bytes = self.in_flight_bytes + front.bytes as usize;
        let fits = self.in_flight.count < self.credit_count
            && (self.in_flight.count == 0 || bytes <= self.credit_bytes);
        fits.then_some(front.order)
    }

    /// Returns true if writes wait only for credit.
    pub(crate) fn wait_for_credit(&self) -> bool {
        self.unsent.len() > self.passed && self.front().is_none()
    }

    /// Returns the order of the oldest unsent write.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.unsent.front().map(|unsent| unsent.order)
    }

    /// Returns the number of unsent writes, and the total size of their values in bytes.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        (self.unsent.len(), self.unsent_bytes)
    }

    /// Returns the number of outcomes that are outstanding or not yet taken.
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

    /// Queues a write. Returns false if it replaced a queued one.
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

    /// Cancels the unsent writes of a batch. Returns the variables that these writes used.
    pub(crate) fn cancel_batch(&mut self, number: u64, fault: &Fault) -> Vec<VariableRef> {
        if self.is_settled(number) {
            return Vec::new();
        }
        // The queue is in the order of the calls, except for writes that replaced another one:
        // these are further ahead than their own call.
        let first = match self.newest.is_empty() {
            true => self.unsent.partition_point(|unsent| unsent.order < number),
            false => 0,
        };
        let is_of_batch = |unsent: &Unsent| unsent.place.is_some_and(|at| at.batch == number);
        self.cancel(first, is_of_batch, fault)
    }

    /// Returns the next time at which [`expire`](Self::expire) has something to do.
    pub(crate) fn expire_at(&self) -> Option<Tick> {
        self.expire_at
    }

    /// Cancels the unsent writes that have expired. Returns the variables that they used.
    pub(crate) fn expire(&mut self, now: Tick, fault: &Fault) -> Vec<VariableRef> {
        if self.expire_at.is_none_or(|at| at > now) {
            return Vec::new();
        }
        let is_over = |unsent: &Unsent| unsent.expires.is_some_and(|at| at <= now);
        let cancelled = self.cancel(0, is_over, fault);
        // Writes that expire shortly after one another are handled together. None of them is sent
        // in the meantime, because sending compares the time itself.
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
                self.unsent_bytes -= unsent.bytes as usize;
                variables.push(unsent.write.variable);
                self.end(
                    unsent.place,
                    WriteOutcome::NotTried(NotTried::Cancelled(fault.clone())),
                );
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

    /// Returns the next write to send, in place. Writes that were sent or refused leave the queue
    /// when the caller then calls [`leave_passed`](Self::leave_passed).
    pub(crate) fn next_unsent(&mut self) -> Option<&mut Unsent> {
        self.unsent.get_mut(self.passed)
    }

    /// Returns the wire number of the next write sent. Numbers are never reused.
    pub(crate) fn next_write(&self) -> u64 {
        self.in_flight.next()
    }

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

    /// Passes over the next write, which no longer needs the queue.
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

    /// Removes the writes that were sent or refused from the queue.
    pub(crate) fn leave_passed(&mut self) {
        self.unsent.drain(..std::mem::take(&mut self.passed));
        if self.unsent.is_empty() && self.unsent.capacity() > KEPT_WRITES_MAX {
            self.unsent = VecDeque::new();
        }
    }

    /// Ends the next write without sending it.
    pub(crate) fn end_next(&mut self, outcome: WriteOutcome) {
        let Some(unsent) = self.unsent.get(self.passed) else {
            return;
        };
        let place = unsent.place;
        self.pass_next();
        self.end(place, outcome);
    }

    pub(crate) fn has_credit(&self) -> bool {
        self.in_flight.count < self.credit_count && self.in_flight_bytes < self.credit_bytes
    }

    /// Records that a provider's value was sent, under the next number.
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

    #[inline]
    pub(crate) fn answered(&mut self, number: u64) -> Option<InFlight> {
        let write = self.in_flight.remove(number)?;
        self.in_flight_bytes -= write.bytes as usize;
        Some(write)
    }

    /// Returns true if every write with a smaller number has been answered.
    pub(crate) fn are_answered_before(&self, number: u64) -> bool {
        let first = self.in_flight.late.first_key_value();
        let oldest = first.map_or(self.in_flight.first, |(first, _)| *first);
        number <= oldest
    }

    /// Takes all writes in flight, in order, because they will not be answered.
    pub(crate) fn take_in_flight(&mut self) -> impl Iterator<Item = InFlight> + use<> {
        self.in_flight_bytes = 0;
        self.in_flight.take()
    }

    #[inline]
    pub(crate) fn end(&mut self, place: Option<Place>, outcome: WriteOutcome) {
        let count = match &outcome {
            WriteOutcome::Applied(_) => &mut self.counts.applied,
            WriteOutcome::Unchanged(_) => &mut self.counts.unchanged,
            WriteOutcome::Superseded => &mut self.counts.superseded,
            WriteOutcome::Refused(_) => &mut self.counts.refused,
            WriteOutcome::Unknown(_) => &mut self.counts.unknown,
            WriteOutcome::NotTried(NotTried::WouldBlock) => &mut self.counts.would_block,
            WriteOutcome::NotTried(NotTried::Cancelled(_)) => &mut self.counts.cancelled,
        };
        *count += 1;
        if let WriteOutcome::Refused(fault)
        | WriteOutcome::Unknown(fault)
        | WriteOutcome::NotTried(NotTried::Cancelled(fault)) = &outcome
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

    pub(crate) fn count_group(&mut self, outcomes: &[WriteOutcome]) {
        for outcome in outcomes {
            self.counts.issued += 1;
            self.end(None, outcome.clone());
        }
    }

    /// Returns true if every outcome under this number is known.
    pub(crate) fn is_settled(&self, number: u64) -> bool {
        self.batches
            .get(&number)
            .is_some_and(|batch| batch.open == 0)
    }

    /// Takes the outcomes under this number, known or not. Later outcomes are not stored.
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

    /// Returns the reason of the last write that ended as refused, cancelled or unknown.
    pub(crate) fn last_fault(&self) -> Option<&Fault> {
        self.last_fault.as_ref()
    }

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
    fn unanswered_write_does_not_block_the_queue() {
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
    fn numbers_continue_after_the_queue_was_empty() {
        let mut sut = OnTheirWay::default();
        (0..3).for_each(|_| sut.push(write()));
        sut.remove(1);
        assert_eq!(sut.take().count(), 2);
        assert_eq!((sut.count, sut.next()), (0, 3));
        assert!(sut.remove(0).is_none());
    }
}
