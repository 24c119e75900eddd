//! Finds and repairs differences between the engine and its client (B-10).
//!
//! ```text
//! each keep-alive   the running digest of the update records sent, and CHECK frames about the
//!                   next 64th of the items: the updates sent last, with every bit of the values
//! COMPARE           the client names items that differ; those that still differ are sent again, in
//!                   REPAIRED, and counted
//! COMPARE, empty    the running digests differ, or the client has returned: the sweep goes
//!                   through all items at once
//! ```
//!
//! Nothing is stored per item. The last update sent is the variable's current value, unless a newer
//! update is waiting. An item with a waiting update is omitted, because that update repairs any
//! difference.

use std::collections::{HashSet, VecDeque};

use trunkline_proto::limits::{COMPARE_ITEMS_MAX, PAGE_BYTES};
use trunkline_proto::message::convergence::{
    CHUNK_ITEMS_MAX, CheckBuilder, Chunk, Compare, CompareItem,
};
use trunkline_proto::message::updates::UpdatesBuilder;
use trunkline_proto::{Disconnect, Features, Frame, digest};
use trunkline_types::time::duration_nanos;

use crate::context::{Context, Progress, Request, SLICE};

/// Number of keep-alives in which the sweep covers all items.
const PARTS: u32 = 64;

/// The progress of the sweep through the items.
///
/// The time determines the part to check, so the part is the same for all sessions of an engine.
/// Sessions with the same variables therefore check the same variables at the same time, and the
/// memory of these is fetched only once.
#[derive(Debug, Default)]
struct Sweep {
    /// The keep-alive, numbered by the time, for which the sweep last continued.
    turn: Option<u64>,
    /// The index of the next item to check.
    next: u32,
    /// Number of indices still to check, in slices.
    left: u32,
}

impl Sweep {
    /// Continues to the end of the part that belongs to keep-alive number `turn`, out of `end`
    /// indices. It starts at the current index, so that no index is omitted, even if the number of
    /// items has changed or the turn is late.
    fn go_on(&mut self, turn: u64, end: u32) {
        let before = self.turn.replace(turn);
        if end == 0 || before == Some(turn) {
            self.turn = self.turn.filter(|_| end > 0);
            return;
        }
        let part = end.div_ceil(PARTS);
        let first = (turn % u64::from(end.div_ceil(part))) as u32 * part;
        if before.is_none() && self.left == 0 {
            self.next = first;
        }
        if self.next >= end {
            self.next = 0;
        }
        let goal = first.saturating_add(part).min(end);
        let way = match goal > self.next {
            true => goal - self.next,
            false => end - self.next + goal,
        };
        self.left = self.left.max(way);
    }

    /// Returns the next slice of the indices below `end`, or `None` if there is nothing to check
    /// now.
    fn slice(&mut self, end: u32) -> Option<std::ops::Range<u32>> {
        self.left = self.left.min(end);
        if self.left == 0 {
            return None;
        }
        if self.next >= end {
            self.next = 0;
        }
        let from = self.next;
        let until = from.saturating_add(self.left.min(SLICE as u32)).min(end);
        self.left -= until - from;
        self.next = until;
        Some(from..until)
    }
}

/// Items that the client named in COMPARE and that had no pending or unconfirmed update at that
/// time, without duplicates. Their number is at most the number of items of the session.
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

    /// Takes the next item if it belongs to this subscription.
    fn next_of(&mut self, subscription: u32) -> Option<(CompareItem, u64)> {
        let is_of = |(item, _): &mut (CompareItem, u64)| item.subscription == subscription;
        let next = self.queue.pop_front_if(is_of)?;
        self.known.remove(&(next.0.subscription, next.0.handle));
        Some(next)
    }
}

/// The sweep through the items of a session, and the repairs that wait.
#[derive(Debug, Default)]
pub(crate) struct Convergence {
    sweep: Sweep,
    repairs: Repairs,
}

/// Makes the sweep cover all items, once the earlier requests have been carried out.
#[derive(Debug)]
struct CheckAll;

impl Request for CheckAll {
    fn run(&mut self, context: &mut Context) -> Progress {
        context.check_all = true;
        Progress::Done
    }
}

impl Convergence {
    /// Returns true if there is nothing to check and nothing to resend now.
    pub(crate) fn is_idle(&self) -> bool {
        self.sweep.left == 0 && self.repairs.is_empty()
    }

    /// Returns the number of update records sent so far and their digest, for a keep-alive. Starts
    /// the next part of the sweep.
    pub(crate) fn begin_sweep(&mut self, context: &Context) -> (u64, u64) {
        if !context.features.contains(Features::CONVERGENCE) {
            return (0, 0);
        }
        let interval = duration_nanos(context.options.keepalive).max(1);
        let turn = context.moment.now.as_nanos() / interval;
        self.sweep.go_on(turn, context.consumer.index_end());
        (context.window.sent(), context.window.digest())
    }

    /// Checks the next slice of items, while there is room for answers. Returns true if there is
    /// more to do now.
    pub(crate) fn run_sweep(&mut self, context: &mut Context, room: usize) -> bool {
        let end = context.consumer.index_end();
        if std::mem::take(&mut context.check_all) {
            self.sweep.left = end;
        }
        if self.sweep.left == 0 || context.answers.len() >= room {
            return self.sweep.left > 0;
        }
        let Some(indices) = self.sweep.slice(end) else {
            return false;
        };
        let mut frame = CheckBuilder::begin(&mut context.answers.frames, 0, &());
        let mut chunk = Chunk {
            handles: Vec::with_capacity(CHUNK_ITEMS_MAX),
            ..Chunk::default()
        };
        let looked = context
            .consumer
            .look(indices, |subscription, variable, update| {
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
                let of_item = digest::of_record(&context.records.record(handle, update));
                chunk.handles.push(handle);
                chunk.digest = chunk.digest.wrapping_add(of_item);
            });
        if !chunk.handles.is_empty() {
            frame.push(&chunk);
        }
        frame.finish(false);
        looked.drain || self.sweep.left > 0
    }

    pub(crate) fn handle_compare(
        &mut self,
        context: &mut Context,
        frame: &Frame<'_>,
    ) -> Result<(), Disconnect> {
        let compare = Compare::decode(frame)?;
        context.confirm(compare.head().records_received)?;
        if compare.left() == 0 {
            context.queue.push(CheckAll);
            return Ok(());
        }
        if frame.count() as usize > COMPARE_ITEMS_MAX {
            self.sweep.left = context.consumer.index_end();
        }
        for item in compare.take(COMPARE_ITEMS_MAX) {
            let item = item?;
            // Check this now rather than when there is room, because the client's state is the
            // state after the records that this frame confirms.
            let settled = context.consumer.settled(item.subscription, item.handle);
            if let Some(update) = settled {
                self.repairs.push(item, update.sequence);
            }
        }
        Ok(())
    }

    /// Resends the items that differ at the client, while there is room for answers. Returns true
    /// if there is more to do now.
    pub(crate) fn run_repairs(&mut self, context: &mut Context, room: usize) -> bool {
        let mut looked = 0;
        while looked < SLICE
            && context.answers.len() < room
            && let Some(subscription) = self.repairs.next_subscription()
        {
            let mut frame =
                UpdatesBuilder::begin_repaired(&mut context.answers.frames, subscription);
            while looked < SLICE
                && frame.len_bytes() < PAGE_BYTES
                && let Some((item, sequence)) = self.repairs.next_of(subscription)
            {
                looked += 1;
                let settled = context.consumer.settled(subscription, item.handle);
                let Some(update) = settled.filter(|update| update.sequence == sequence) else {
                    continue;
                };
                let room = context.records.room_for(&update);
                if room.is_some_and(|bytes| !frame.make_room(bytes)) {
                    // There is not enough memory for it now. The next sweep will find it again.
                    continue;
                }
                let record = context.records.record(item.handle, &update);
                let of_item = digest::of_record(&record);
                if (record.sequence, of_item) != (item.sequence, item.digest) {
                    let before = frame.len_bytes();
                    frame.push(&record);
                    let of_position = digest::of_position(item.handle, record.sequence);
                    context.window.send(frame.len_bytes() - before, of_position);
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
        sut.left = 1500;
        sut.next = 4200;
        assert_eq!(sut.slice(5000), Some(4200..5000));
        assert_eq!(sut.slice(5000), Some(0..700));
        assert_eq!(sut.slice(5000), None);
    }

    /// Returns the indices of all remaining slices, in order.
    fn looked(sut: &mut Sweep, end: u32) -> Vec<u32> {
        std::iter::from_fn(|| sut.slice(end)).flatten().collect()
    }

    #[test]
    fn each_item_is_checked_within_64_keep_alives_of_any_session() {
        for end in [1, 5, 64, 65, 1000, 10_000] {
            let (mut early, mut late) = (Sweep::default(), Sweep::default());
            let mut seen = vec![0; end as usize];
            for turn in 7..7 + 64 {
                early.go_on(turn, end);
                let part = looked(&mut early, end);
                assert!(part.len() <= end.div_ceil(64) as usize, "{end}");
                part.iter().for_each(|index| seen[*index as usize] += 1);
                if turn > 30 {
                    late.go_on(turn, end);
                    assert_eq!(looked(&mut late, end), part, "{end} at {turn}");
                }
            }
            assert!(seen.iter().all(|count| *count > 0), "{end}: {seen:?}");
        }
    }

    #[test]
    fn missed_checks_and_new_items_are_caught_up() {
        let mut sut = Sweep::default();
        sut.go_on(0, 640);
        assert_eq!(looked(&mut sut, 640).len(), 10);
        sut.go_on(3, 640);
        assert_eq!(looked(&mut sut, 640), Vec::from_iter(10..40));
        // A second call in the same interval.
        sut.go_on(3, 640);
        assert!(looked(&mut sut, 640).is_empty());
        // The client is slow, but the remaining indices are not skipped.
        sut.go_on(4, 640);
        sut.go_on(5, 1280);
        assert_eq!(looked(&mut sut, 1280), Vec::from_iter(40..120));
        sut.go_on(63, 1280);
        assert_eq!(looked(&mut sut, 1280), Vec::from_iter(120..1280));
        sut.go_on(64, 1280);
        assert_eq!(looked(&mut sut, 1280), Vec::from_iter(0..20));
        sut.go_on(65, 0);
        assert!(looked(&mut sut, 0).is_empty());
    }

    #[test]
    fn items_removed_meanwhile_are_skipped() {
        let mut sut = Sweep::default();
        (sut.left, sut.next) = (1500, 900);
        assert_eq!(sut.slice(10), Some(0..10));
        assert_eq!(sut.slice(10), None);
        sut.left = 3;
        assert_eq!(sut.slice(0), None);
    }
}
