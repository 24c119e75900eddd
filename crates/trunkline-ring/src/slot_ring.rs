//! The protocol of the multi-element FIFO: a bounded ring with a sequence stamp per slot.
//!
//! The algorithm is Dmitry Vyukov's. `tail` is the position of the next push, and `head` the
//! position of the next pop. A slot's stamp determines which side may use the slot in a certain
//! lap: the even stamp `2 * lap` gives it to the pusher, the odd stamp `2 * lap + 1` to the popper.
//! A thread that finds the stamp of its side claims the position with a compare-and-set of `tail`
//! or `head`. It then has exclusive access to the element until it stores the next stamp, so it
//! copies the element with ordinary, non-atomic accesses.
//!
//! No operation waits. A push that does not find its stamp reports that the ring is full, and a pop
//! that does not find its stamp reports that the ring is empty, even if another thread has claimed
//! the slot and is about to store the stamp.
//!
//! # Why eight bits of stamp are enough
//!
//! A stamp is compared for equality with the stamp expected for a position just loaded from `tail`
//! or `head`, and the claim succeeds only if `tail` or `head` still has that position. At that
//! moment, the slot's stamp is the expected one or the one before it. An older stamp, which could
//! have the same value after 128 laps, cannot be loaded: the position is loaded with acquire and
//! stored with release, and the thread that moved `tail` or `head` to this lap had loaded the stamp
//! of the lap before.

use crate::padded::Padded;
use crate::position::PositionMap;
use crate::slot_memory::{SlotMemory, Spot};
use crate::sync::{AtomicU64, Ordering, spin_loop};

/// Number of attempts of [`SlotRing::push_overwriting`] before it refuses the element.
const OVERWRITE_ATTEMPTS_MAX: u32 = if cfg!(loom) { 2 } else { 16 };

/// The FIFO has no room; nothing was written.
///
/// The readers have not kept up with the writers, or a reader is copying out the element in the
/// next slot. Try again in the next cycle, create the FIFO with more elements, or overwrite the
/// oldest elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

impl std::fmt::Display for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "the FIFO is full because its readers have not kept up; write again later, increase its \
             capacity, or overwrite the oldest element",
        )
    }
}

impl std::error::Error for Full {}

/// The FIFO has nothing to read.
///
/// Nothing was written since the last read, or a writer is still copying the next element into the
/// FIFO. Read again in the next cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Empty;

impl std::fmt::Display for Empty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the FIFO is empty; read again after the next write")
    }
}

impl std::error::Error for Empty {}

/// The result of a push that drops elements if there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Overflow {
    /// True if the new element is in the FIFO.
    pub stored: bool,
    /// Number of lost elements: the removed oldest elements, and the new element if it was not
    /// stored.
    pub dropped: u64,
}

impl Overflow {
    const NONE: Self = Self {
        stored: true,
        dropped: 0,
    };

    pub fn is_none(self) -> bool {
        self.dropped == 0
    }
}

/// The side that may use a slot.
#[derive(Clone, Copy)]
enum Side {
    Push,
    Pop,
}

impl Side {
    /// Returns the stamp of a slot that this side may use in a lap. The next number gives the slot
    /// to the other side. The stamp is truncated intentionally: see the module documentation.
    #[inline]
    fn stamp(self, lap: u64) -> u8 {
        match self {
            Side::Push => (lap * 2) as u8,
            Side::Pop => (lap * 2 + 1) as u8,
        }
    }
}

struct Claimed {
    spot: Spot,
    /// The stamp that gives the slot to the other side.
    next_stamp: u8,
}

/// Gives a slot to the other side on drop.
struct ReleaseOnDrop<'a> {
    memory: &'a SlotMemory,
    slot: &'a Claimed,
}

impl Drop for ReleaseOnDrop<'_> {
    #[inline]
    fn drop(&mut self) {
        self.memory.set_stamp(self.slot.spot, self.slot.next_stamp);
    }
}

/// A ring of elements of `width` words each.
#[derive(Debug)]
pub(crate) struct SlotRing {
    tail: Padded<AtomicU64>,
    head: Padded<AtomicU64>,
    dropped: Padded<AtomicU64>,
    positions: PositionMap,
    memory: SlotMemory,
}

impl SlotRing {
    /// Creates an empty ring.
    ///
    /// # Panics
    ///
    /// If `capacity` or `width` is 0, or the elements do not fit in the address space.
    pub(crate) fn new(capacity: usize, width: usize) -> Self {
        assert!(
            width > 0,
            "the width of an element is 0 words; use a width of 1 word or more"
        );
        let Some(memory) = SlotMemory::new(capacity, width, Side::Push.stamp(0)) else {
            panic!(
                "{capacity} elements of {width} words do not fit in the address space; use fewer"
            );
        };
        Self {
            tail: Padded(AtomicU64::new(0)),
            head: Padded(AtomicU64::new(0)),
            dropped: Padded(AtomicU64::new(0)),
            positions: PositionMap::new(capacity),
            memory,
        }
    }

    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        self.memory.capacity()
    }

    #[inline]
    pub(crate) fn width(&self) -> usize {
        self.memory.width()
    }

    /// Returns the number of elements at some moment during the call, including elements that are
    /// being written or read.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        // Load `head` first: it cannot pass the `tail` that is loaded after it. In the meantime,
        // `tail` may move by more than the capacity, hence the limit.
        let head = self.head.load(Ordering::Acquire);
        let tail = self.tail.load(Ordering::Acquire);
        (self.positions.distance(head, tail) as usize).min(self.capacity())
    }

    /// Returns the number of elements lost to overwriting pushes.
    #[inline]
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn try_push(&self, element: &[u64]) -> Result<(), Full> {
        self.try_push_parts(element, &[]).map(|_| ())
    }

    /// Pushes an element given in two parts and returns its position.
    #[inline]
    pub(crate) fn try_push_parts(&self, first: &[u64], rest: &[u64]) -> Result<u64, Full> {
        debug_assert_eq!(first.len() + rest.len(), self.width());
        let (slot, position) = self.claim(&self.tail, Side::Push).ok_or(Full)?;
        // SAFETY: only this thread accesses the slot from the claim until the next stamp is stored.
        unsafe { self.memory.write(slot.spot, first, rest) };
        self.memory.set_stamp(slot.spot, slot.next_stamp);
        Ok(position)
    }

    #[inline]
    pub(crate) fn try_pop(&self, element: &mut [u64]) -> Result<(), Empty> {
        debug_assert_eq!(element.len(), self.width());
        let (slot, _) = self.claim(&self.head, Side::Pop).ok_or(Empty)?;
        // SAFETY: only this thread accesses the slot from the claim until the next stamp is stored,
        // and the slot was written before the poppers got it.
        unsafe { self.memory.read(slot.spot, element) };
        self.memory.set_stamp(slot.spot, slot.next_stamp);
        Ok(())
    }

    /// Pops an element without copying it: `take` gets it in its slot, which no other thread
    /// accesses until `take` returns.
    #[inline]
    pub(crate) fn try_pop_with<R>(&self, take: impl FnOnce(&[u64]) -> R) -> Result<R, Empty> {
        let (slot, _) = self.claim(&self.head, Side::Pop).ok_or(Empty)?;
        // Releases the slot on drop, so that the slot is not lost if `take` panics.
        let _release = ReleaseOnDrop {
            memory: &self.memory,
            slot: &slot,
        };
        // SAFETY: only this thread accesses the slot from the claim until `_release` gives it to
        // the other side, which is after this call, and the slot was written before the poppers got
        // it.
        Ok(unsafe { self.memory.with(slot.spot, take) })
    }

    /// Pushes an element given in two parts, and drops the oldest elements while there is no room.
    /// Also returns its position; a refused element gets the position of the next push.
    #[inline]
    pub(crate) fn push_overwriting(&self, first: &[u64], rest: &[u64]) -> (Overflow, u64) {
        match self.try_push_parts(first, rest) {
            Ok(position) => (Overflow::NONE, position),
            Err(Full) => self.overwrite(first, rest),
        }
    }

    /// Kept out of line, so that a push that finds room is small enough to be inlined.
    #[cold]
    #[inline(never)]
    fn overwrite(&self, first: &[u64], rest: &[u64]) -> (Overflow, u64) {
        let mut outcome = Overflow {
            stored: false,
            dropped: 0,
        };
        let mut pushed_at = None;
        for _ in 0..OVERWRITE_ATTEMPTS_MAX {
            if let Ok(position) = self.try_push_parts(first, rest) {
                outcome.stored = true;
                pushed_at = Some(position);
                break;
            }
            if self.drop_oldest() {
                outcome.dropped += 1;
            } else {
                spin_loop();
            }
        }
        outcome.dropped += u64::from(!outcome.stored);
        if outcome.dropped > 0 {
            self.dropped.fetch_add(outcome.dropped, Ordering::Relaxed);
        }
        let position = pushed_at.unwrap_or_else(|| self.tail.load(Ordering::Relaxed));
        (outcome, position)
    }

    /// Removes the oldest element if the next push needs its slot.
    ///
    /// Otherwise, the ring has room, or a reader is still copying out of the needed slot; dropping
    /// other elements would not free it.
    #[inline]
    fn drop_oldest(&self) -> bool {
        let head = self.head.load(Ordering::Acquire);
        let tail = self.tail.load(Ordering::Acquire);
        if self.positions.advance(head, self.capacity()) != tail {
            return false;
        }
        let Some((slot, next)) = self.ready(head, Side::Pop) else {
            return false;
        };
        let claim = self
            .head
            .compare_exchange(head, next, Ordering::Release, Ordering::Relaxed);
        if claim.is_ok() {
            self.memory.set_stamp(slot.spot, slot.next_stamp);
        }
        claim.is_ok()
    }

    /// Claims the slot at `end` for `side`, and also returns its position; `None` if it is not
    /// ready.
    #[inline]
    fn claim(&self, end: &AtomicU64, side: Side) -> Option<(Claimed, u64)> {
        let mut position = end.load(Ordering::Acquire);
        loop {
            let Some((claimed, next)) = self.ready(position, side) else {
                // If another thread has claimed this position in the meantime, it may already have
                // stored the next stamp. Then the next position determines whether there is room.
                // The stamp was loaded with acquire, so a claim before it is visible here.
                let now = end.load(Ordering::Acquire);
                if now == position {
                    return None;
                }
                position = now;
                continue;
            };
            // Release, so that a thread that loads the new position sees the stamps loaded here:
            // see the module documentation.
            let swap =
                end.compare_exchange_weak(position, next, Ordering::Release, Ordering::Acquire);
            match swap {
                Ok(_) => return Some((claimed, position)),
                Err(now) => position = now,
            }
        }
    }

    /// Returns the slot at `position` and the position that follows, if the stamp of the slot gives
    /// it to the side `side`.
    #[inline]
    fn ready(&self, position: u64, side: Side) -> Option<(Claimed, u64)> {
        let spot = self.memory.spot(self.positions.index(position));
        let stamp = side.stamp(self.positions.lap(position));
        let claimed = Claimed {
            spot,
            next_stamp: stamp.wrapping_add(1),
        };
        self.memory
            .is_stamped(spot, stamp)
            .then(|| (claimed, self.positions.advance(position, 1)))
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
