//! Finds and repairs differences between the engine and its client (B-10).
//!
//! ```text
//! each keep-alive   carries the running digest of all update records sent. CHECK frames with it
//!                   carry digests of the last updates of the next 64th of the items
//! COMPARE           lists items that differ at the client. Items that still differ are sent again
//!                   in REPAIRED frames, and counted
//! COMPARE, empty    reports that the running digests differ, or that the client has reconnected.
//!                   The sweep then checks all items at once
//! ```
//!
//! The engine stores nothing per item: the last update sent is the current value of the variable,
//! unless a newer update is waiting. An item with a waiting update is not checked, because that
//! update repairs any difference.

use std::collections::{HashSet, VecDeque};

use trunkline_proto::limits::{COMPARE_ITEMS_MAX, PAGE_BYTES};
use trunkline_proto::message::convergence::{
    CHUNK_ITEMS_MAX, CheckBuilder, Chunk, Compare, CompareItem,
};
use trunkline_proto::message::updates::UpdatesBuilder;
use trunkline_proto::{Disconnect, Features, digest};
use trunkline_types::time::duration_nanos;

use crate::context::{Context, Progress, Request, SLICE};
use crate::gate::Admitted;

/// Number of keep-alives after which the sweep has covered all items.
const PARTS: u32 = 64;

/// The progress of the sweep through the items of a session.
///
/// The time determines the part to check, so all sessions of an engine check the same part at the
/// same time. Sessions with the same variables then share the cache lines of these variables.
#[derive(Debug, Default)]
struct Sweep {
    /// Number of the last keep-alive, counted in keep-alive intervals of the engine's clock.
    turn: Option<u64>,
    /// Index of the next item to check.
    next: u32,
    /// Number of items to check before the sweep pauses.
    remaining: u32,
}

impl Sweep {
    /// Schedules the items from the current index to the end of the part that belongs to keep-alive
    /// number `turn`. `end` is the number of items. No item is skipped, even if the number of items
    /// has changed or keep-alives were late.
    fn schedule(&mut self, turn: u64, end: u32) {
        let previous = self.turn.replace(turn);
        if end == 0 || previous == Some(turn) {
            self.turn = self.turn.filter(|_| end > 0);
            return;
        }
        let part = end.div_ceil(PARTS);
        let first = (turn % u64::from(end.div_ceil(part))) as u32 * part;
        if previous.is_none() && self.remaining == 0 {
            self.next = first;
        }
        if self.next >= end {
            self.next = 0;
        }
        let part_end = first.saturating_add(part).min(end);
        let distance = match part_end > self.next {
            true => part_end - self.next,
            false => end - self.next + part_end,
        };
        self.remaining = self.remaining.max(distance);
    }

    /// Returns the next range of indices to check, all below `end`. Returns `None` if there is
    /// nothing to check now.
    fn slice(&mut self, end: u32) -> Option<std::ops::Range<u32>> {
        self.remaining = self.remaining.min(end);
        if self.remaining == 0 {
            return None;
        }
        if self.next >= end {
            self.next = 0;
        }
        let from = self.next;
        let until = from
            .saturating_add(self.remaining.min(SLICE as u32))
            .min(end);
        self.remaining -= until - from;
        self.next = until;
        Some(from..until)
    }
}

/// Items to send again: items that the client listed in COMPARE and that had no pending or
/// unconfirmed update at that time. Each item is in the queue at most once, so the number of items
/// in the session bounds the queue.
#[derive(Debug, Default)]
struct Repairs {
    /// The items, each with the sequence of its last update at that time.
    queue: VecDeque<(CompareItem, u64)>,
    /// Subscription and handle of the items in the queue.
    known: HashSet<(u32, u32)>,
}

impl Repairs {
    fn push(&mut self, item: CompareItem, sequence: u64) {
        if self.known.insert((item.subscription, item.handle)) {
            self.queue.push_back((item, sequence));
        }
    }

    fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    fn next_subscription(&self) -> Option<u32> {
        self.queue.front().map(|(item, _)| item.subscription)
    }

    /// Removes and returns the next item if it belongs to this subscription.
    fn next_of(&mut self, subscription: u32) -> Option<(CompareItem, u64)> {
        let belongs = |(item, _): &mut (CompareItem, u64)| item.subscription == subscription;
        let next = self.queue.pop_front_if(belongs)?;
        self.known.remove(&(next.0.subscription, next.0.handle));
        Some(next)
    }
}

/// The sweep through the items of a session, and the items to send again.
#[derive(Debug, Default)]
pub(crate) struct Convergence {
    sweep: Sweep,
    repairs: Repairs,
}

/// Makes the sweep check all items. It is a request, so that earlier requests are carried out first.
#[derive(Debug)]
struct CheckAll;

impl Request for CheckAll {
    fn run(&mut self, context: &mut Context) -> Progress {
        context.check_all = true;
        Progress::Done
    }
}

impl Convergence {
    /// Returns true if there is nothing to check and nothing to send again now.
    pub(crate) fn is_idle(&self) -> bool {
        self.sweep.remaining == 0 && self.repairs.is_empty()
    }

    /// Returns the number of update records sent so far and their digest, for a keep-alive. Starts
    /// the next part of the sweep.
    pub(crate) fn begin_sweep(&mut self, context: &Context) -> (u64, u64) {
        if !context.features.contains(Features::CONVERGENCE) {
            return (0, 0);
        }
        let interval = duration_nanos(context.options.keepalive).max(1);
        let turn = context.moment.now.as_nanos() / interval;
        self.sweep.schedule(turn, context.consumer.index_end());
        (context.window.sent(), context.window.digest())
    }

    /// Checks the next slice of items, while there is room for answers. Returns true if there is
    /// more to do now.
    pub(crate) fn run_sweep(&mut self, context: &mut Context, room: usize) -> bool {
        let end = context.consumer.index_end();
        if std::mem::take(&mut context.check_all) {
            self.sweep.remaining = end;
        }
        if self.sweep.remaining == 0 || context.answers.len() >= room {
            return self.sweep.remaining > 0;
        }
        let Some(indices) = self.sweep.slice(end) else {
            return false;
        };
        let mut frame = CheckBuilder::begin(&mut context.answers.frames, 0, &());
        let mut chunk = Chunk {
            handles: Vec::with_capacity(CHUNK_ITEMS_MAX),
            ..Chunk::default()
        };
        let result = context
            .consumer
            .sweep(indices, |subscription, variable, update| {
                let handle = variable.handle();
                let is_full = chunk.handles.len() == CHUNK_ITEMS_MAX;
                if is_full || chunk.subscription != subscription {
                    if !chunk.handles.is_empty() {
                        frame.push(&chunk);
                    }
                    chunk.subscription = subscription;
                    chunk.handles.clear();
                    chunk.digest = 0;
                }
                let item_digest = digest::of_record(&context.records.record(handle, update));
                chunk.handles.push(handle);
                chunk.digest = chunk.digest.wrapping_add(item_digest);
            });
        if !chunk.handles.is_empty() {
            frame.push(&chunk);
        }
        frame.finish(false);
        result.drain || self.sweep.remaining > 0
    }

    pub(crate) fn handle_compare(
        &mut self,
        context: &mut Context,
        frame: &Admitted<'_>,
    ) -> Result<(), Disconnect> {
        let compare = Compare::decode(frame)?;
        context.confirm(compare.head().records_received)?;
        if compare.left() == 0 {
            context.queue.push(CheckAll);
            return Ok(());
        }
        if frame.count() as usize > COMPARE_ITEMS_MAX {
            self.sweep.remaining = context.consumer.index_end();
        }
        for item in compare.take(COMPARE_ITEMS_MAX) {
            let item = item?;
            // Look up the update now, not when there is room for the answer, because the client
            // compared its state after the records that this frame confirms.
            let confirmed = context.consumer.settled(item.subscription, item.handle);
            if let Some(update) = confirmed {
                self.repairs.push(item, update.sequence);
            }
        }
        Ok(())
    }

    /// Sends the items that differ at the client again, while there is room for answers. Returns true
    /// if there is more to do now.
    pub(crate) fn run_repairs(&mut self, context: &mut Context, room: usize) -> bool {
        let mut examined = 0;
        while examined < SLICE
            && context.answers.len() < room
            && let Some(subscription) = self.repairs.next_subscription()
        {
            let mut frame =
                UpdatesBuilder::begin_repaired(&mut context.answers.frames, subscription);
            while examined < SLICE
                && frame.len_bytes() < PAGE_BYTES
                && let Some((item, sequence)) = self.repairs.next_of(subscription)
            {
                examined += 1;
                let confirmed = context.consumer.settled(subscription, item.handle);
                let Some(update) = confirmed.filter(|update| update.sequence == sequence) else {
                    continue;
                };
                let room = context.records.room_for(&update);
                if room.is_some_and(|bytes| !frame.make_room(bytes)) {
                    // There is not enough memory for the value now. The next sweep finds it again.
                    continue;
                }
                let mut record = context.records.record(item.handle, &update);
                let item_digest = digest::of_record(&record);
                if (record.sequence, item_digest) != (item.sequence, item.digest) {
                    let before = frame.len_bytes();
                    if update.sequence == 0
                        && let Some(variable) = context.engine.variable(item.handle)
                    {
                        record.sequence = variable.base_sequence();
                    }
                    frame.push(&record);
                    let record_digest = digest::of_position(item.handle, record.sequence);
                    context
                        .window
                        .send(frame.len_bytes() - before, record_digest);
                    context.consumer.repair(subscription, item.handle);
                }
            }
            if frame.count() > 0 {
                context.window.end_run();
            }
            frame.finish();
        }
        !self.repairs.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_checked_in_slices_cyclically() {
        let mut sut = Sweep::default();
        assert_eq!(sut.slice(5000), None);
        sut.remaining = 1500;
        sut.next = 4200;
        assert_eq!(sut.slice(5000), Some(4200..5000));
        assert_eq!(sut.slice(5000), Some(0..700));
        assert_eq!(sut.slice(5000), None);
    }

    /// Returns the indices of all slices that are scheduled, in order.
    fn scheduled(sut: &mut Sweep, end: u32) -> Vec<u32> {
        std::iter::from_fn(|| sut.slice(end)).flatten().collect()
    }

    #[test]
    fn each_item_is_checked_within_64_keep_alives_of_any_session() {
        for end in [1, 5, 64, 65, 1000, 10_000] {
            let (mut early, mut late) = (Sweep::default(), Sweep::default());
            let mut check_counts = vec![0; end as usize];
            for turn in 7..7 + 64 {
                early.schedule(turn, end);
                let part = scheduled(&mut early, end);
                assert!(part.len() <= end.div_ceil(64) as usize, "{end}");
                part.iter()
                    .for_each(|index| check_counts[*index as usize] += 1);
                if turn > 30 {
                    late.schedule(turn, end);
                    assert_eq!(scheduled(&mut late, end), part, "{end} at {turn}");
                }
            }
            assert!(
                check_counts.iter().all(|count| *count > 0),
                "{end}: {check_counts:?}"
            );
        }
    }

    #[test]
    fn missed_checks_and_new_items_are_caught_up() {
        let mut sut = Sweep::default();
        sut.schedule(0, 640);
        assert_eq!(scheduled(&mut sut, 640).len(), 10);
        sut.schedule(3, 640);
        assert_eq!(scheduled(&mut sut, 640), Vec::from_iter(10..40));
        // A second call in the same interval schedules nothing.
        sut.schedule(3, 640);
        assert!(scheduled(&mut sut, 640).is_empty());
        // The client is slow, but the remaining indices are not skipped.
        sut.schedule(4, 640);
        sut.schedule(5, 1280);
        assert_eq!(scheduled(&mut sut, 1280), Vec::from_iter(40..120));
        sut.schedule(63, 1280);
        assert_eq!(scheduled(&mut sut, 1280), Vec::from_iter(120..1280));
        sut.schedule(64, 1280);
        assert_eq!(scheduled(&mut sut, 1280), Vec::from_iter(0..20));
        sut.schedule(65, 0);
        assert!(scheduled(&mut sut, 0).is_empty());
    }

    #[test]
    fn items_removed_meanwhile_are_skipped() {
        let mut sut = Sweep::default();
        (sut.remaining, sut.next) = (1500, 900);
        assert_eq!(sut.slice(10), Some(0..10));
        assert_eq!(sut.slice(10), None);
        sut.remaining = 3;
        assert_eq!(sut.slice(0), None);
    }
}
