//! Slots in groups of cache lines.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

use crate::sync::{AtomicU8, Ordering};

const LINE_BYTES: usize = 64;
/// Bytes reserved for stamps at the beginning of a group, and the maximum number of lanes in it.
const STAMP_BYTES: usize = 8;
/// An element of at least this size has its stamp on a separate line. A thread that polls the stamp
/// then does not contend for the line to which the element is being written, and copies cover whole
/// lines.
const WIDE_BYTES: usize = 512;

#[repr(align(64))]
struct Line(UnsafeCell<[MaybeUninit<u8>; LINE_BYTES]>);

/// The number of elements in a group and their offsets.
#[derive(Debug, Clone, Copy)]
struct Shape {
    lanes: usize,
    /// 2^64 / `lanes`, rounded up; 0 if there is one lane.
    per_lane: u64,
    group_bytes: usize,
    words_at: usize,
    element_bytes: usize,
}

impl Shape {
    /// Returns the shape for elements of `width` words; `None` if one element does not fit into the
    /// address space.
    fn of(width: usize) -> Option<Self> {
        let element_bytes = size_of::<u64>().checked_mul(width)?;
        let words_at = match element_bytes < WIDE_BYTES {
            true => STAMP_BYTES,
            false => LINE_BYTES,
        };
        let lanes = ((LINE_BYTES - words_at) / element_bytes).max(1);
        let bytes = element_bytes.checked_mul(lanes)?.checked_add(words_at)?;
        let group_bytes = bytes.checked_next_multiple_of(LINE_BYTES)?;
        let per_lane = match lanes {
            1 => 0,
            lanes => u64::MAX / lanes as u64 + 1,
        };
        Some(Self {
            lanes,
            per_lane,
            group_bytes,
            words_at,
            element_bytes,
        })
    }

    /// Returns the group of a slot, `slot / lanes`. It uses a multiplication, because every access
    /// needs the result and a division takes several times as long.
    ///
    /// Rounding `per_lane` up makes it too large by less than 1, the product by less than `slot`,
    /// and the quotient by less than `slot / 2^64`. Reaching the next group would take 2^61 slots,
    /// which no memory has.
    #[inline]
    fn group_of(&self, slot: usize) -> usize {
        match self.per_lane {
            0 => slot,
            per_lane => ((slot as u128 * u128::from(per_lane)) >> 64) as usize,
        }
    }
}

/// Memory of `capacity` slots, each with a stamp and an element of `width` words; `width` is at
/// least 1.
pub(crate) struct SlotMemory {
    lines: Box<[Line]>,
    capacity: usize,
    width: usize,
    shape: Shape,
}

// SAFETY: stamps are atomic; words are reached only through `unsafe` methods, whose contract is
// that the caller has exclusive access to them.
unsafe impl Sync for SlotMemory {}

/// The location of one slot. Created by [`SlotMemory::spot`], and valid only in the memory that
/// created it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spot {
    /// Offset of the slot's group, in bytes.
    group: usize,
    /// Index of the slot in its group.
    lane: usize,
}

impl SlotMemory {
    /// Allocates the slots, all with the stamp `stamp`, and touches every page. Returns `None` if
    /// they do not fit into the address space.
    pub(crate) fn new(capacity: usize, width: usize, stamp: u8) -> Option<Self> {
        let shape = Shape::of(width)?;
        let bytes = capacity
            .div_ceil(shape.lanes)
            .checked_mul(shape.group_bytes)?;
        isize::try_from(bytes).ok()?;
        let line = |_| Line(UnsafeCell::new([MaybeUninit::uninit(); LINE_BYTES]));
        let lines: Box<[Line]> = (0..bytes / LINE_BYTES).map(line).collect();
        for line in &lines {
            // Volatile, to touch the page: the first access of a real-time thread must not cause
            // the page fault.
            // SAFETY: only this thread has the line, and it may hold any byte.
            unsafe { line.0.get().cast::<u8>().write_volatile(0) };
        }
        let memory = Self {
            lines,
            capacity,
            width,
            shape,
        };
        for offset in (0..bytes).step_by(shape.group_bytes) {
            for lane in 0..STAMP_BYTES {
                // SAFETY: nothing else has the memory yet, and a group begins with its stamps.
                unsafe { memory.at(offset + lane).write(stamp) };
            }
        }
        Some(memory)
    }

    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the number of words per element.
    #[inline]
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    #[inline]
    pub(crate) fn spot(&self, index: usize) -> Spot {
        assert!(
            index < self.capacity,
            "the slot asked for is inside the ring"
        );
        let group = self.shape.group_of(index);
        Spot {
            group: group * self.shape.group_bytes,
            lane: index - group * self.shape.lanes,
        }
    }

    /// Returns true if a slot has this stamp.
    ///
    /// SYNC POINT, pairs with `set_stamp`: everything done before the slot got the stamp has
    /// happened.
    #[inline]
    pub(crate) fn is_stamped(&self, spot: Spot, stamp: u8) -> bool {
        self.stamp(spot).load(Ordering::Acquire) == stamp
    }

    /// Stamps a slot.
    ///
    /// SYNC POINT, pairs with `is_stamped`: everything this thread did before is visible.
    #[inline]
    pub(crate) fn set_stamp(&self, spot: Spot, stamp: u8) {
        self.stamp(spot).store(stamp, Ordering::Release);
    }

    /// Copies an element, given in two parts, into a slot.
    ///
    /// # Safety
    ///
    /// The parts together have the width of the memory, and no other thread accesses the words of
    /// the slot during the call.
    #[inline]
    pub(crate) unsafe fn write(&self, spot: Spot, first: &[u64], rest: &[u64]) {
        debug_assert_eq!(first.len() + rest.len(), self.width);
        let target = self.words(spot);
        // SAFETY: the slot has room for an element, and only the caller accesses it.
        unsafe {
            for (words, target) in [(first, target), (rest, target.add(first.len()))] {
                match words {
                    // A call of a memory copy costs more than storing one word.
                    [] => {}
                    [word] => target.write(*word),
                    words => target.copy_from_nonoverlapping(words.as_ptr(), words.len()),
                }
            }
        }
    }

    /// Passes the element in a slot to `look`.
    ///
    /// # Safety
    ///
    /// The slot has been written, and no other thread writes its words during the call.
    #[inline]
    pub(crate) unsafe fn with<R>(&self, spot: Spot, look: impl FnOnce(&[u64]) -> R) -> R {
        // SAFETY: the slot holds an element of `width` words, and nothing writes it.
        look(unsafe { std::slice::from_raw_parts(self.words(spot), self.width) })
    }

    /// Copies an element out of a slot.
    ///
    /// # Safety
    ///
    /// `element` has the width of the memory, the slot has been written, and no other thread writes
    /// its words during the call.
    #[inline]
    pub(crate) unsafe fn read(&self, spot: Spot, element: &mut [u64]) {
        debug_assert_eq!(element.len(), self.width);
        let source = self.words(spot);
        // SAFETY: the slot holds an element, which nothing writes, and `element` has room for it.
        unsafe {
            match element {
                [word] => *word = source.read(),
                words => words
                    .as_mut_ptr()
                    .copy_from_nonoverlapping(source, words.len()),
            }
        }
    }

    #[inline]
    fn stamp(&self, spot: Spot) -> &AtomicU8 {
        // SAFETY: a slot lies inside the memory, a group begins with its stamps, `new` has written
        // them, and they are accessed in no other way while the memory is shared.
        unsafe { AtomicU8::from_ptr(self.at(spot.group + spot.lane)) }
    }

    /// Returns the address of the first word of a slot.
    #[inline]
    fn words(&self, spot: Spot) -> *mut u64 {
        let offset = spot.group + self.shape.words_at + spot.lane * self.shape.element_bytes;
        // SAFETY: a slot lies inside the memory.
        let start = unsafe { self.at(offset) };
        // The result is aligned, because groups and `words_at` are, and an element consists of
        // whole words.
        start.cast()
    }

    /// Returns a pointer into the memory.
    ///
    /// # Safety
    ///
    /// `offset` is inside it.
    #[inline]
    unsafe fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset < size_of_val(&*self.lines));
        let start = UnsafeCell::raw_get(self.lines.as_ptr().cast::<UnsafeCell<u8>>());
        // SAFETY: the caller guarantees the offset.
        unsafe { start.add(offset) }
    }
}

impl std::fmt::Debug for SlotMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SlotMemory")
            .field("capacity", &self.capacity)
            .field("width", &self.width)
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}
