//! Slots in groups of cache lines.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

use crate::sync::{AtomicU8, Ordering};

const LINE_BYTES: usize = 64;
/// Bytes reserved for stamps at the beginning of a group, and the maximum number of lanes in it.
const STAMP_BYTES: usize = 8;
/// An element of at least this size has its stamp on a separate line. A thread that polls the stamp
/// then does not take away the line that the element is being written to, and copies cover whole
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
    values_at: usize,
    element_bytes: usize,
}

impl Shape {
    /// The shape for elements of `width` values; `None` if one element does not fit the address
    /// space.
    fn of<T>(width: usize) -> Option<Self> {
        assert!(
            align_of::<T>() <= LINE_BYTES,
            "elements are aligned to at most a cache line"
        );
        let element_bytes = size_of::<T>().checked_mul(width)?;
        let values_at = match element_bytes < WIDE_BYTES {
            true => STAMP_BYTES.max(align_of::<T>()),
            false => LINE_BYTES,
        };
        let room = (LINE_BYTES - values_at).checked_div(element_bytes);
        let lanes = room.unwrap_or(STAMP_BYTES).clamp(1, STAMP_BYTES);
        let bytes = element_bytes.checked_mul(lanes)?.checked_add(values_at)?;
        let group_bytes = bytes.checked_next_multiple_of(LINE_BYTES)?;
        let per_lane = match lanes {
            1 => 0,
            lanes => u64::MAX / lanes as u64 + 1,
        };
        Some(Self {
            lanes,
            per_lane,
            group_bytes,
            values_at,
            element_bytes,
        })
    }

    /// Returns the group of a slot, `slot / lanes`. It multiplies, because every access needs the
    /// result and a division takes several times as long.
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

/// `capacity` slots, each of a stamp and an element of `width` values of `T`.
pub(crate) struct SlotMemory<T> {
    lines: Box<[Line]>,
    capacity: usize,
    width: usize,
    shape: Shape,
    values: PhantomData<T>,
}

// SAFETY: stamps are atomic; values are reached only through `unsafe` methods, whose contract is
// that the caller has exclusive access to them. What moves between threads are values of `T: Send`.
unsafe impl<T: Send> Send for SlotMemory<T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Send> Sync for SlotMemory<T> {}

/// One slot; created by [`SlotMemory::spot`], and inside the memory that created it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spot {
    /// Offset of the slot's group, in bytes.
    group: usize,
    /// Index of the slot in its group.
    lane: usize,
}

/// Consecutive slots; created by [`SlotMemory::stretch`], and inside the memory that created it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stretch {
    first: Spot,
    slots: usize,
}

impl Stretch {
    #[inline]
    pub(crate) fn slots(self) -> usize {
        self.slots
    }

    /// Returns the first `slots` slots of this stretch, or all if it has fewer.
    #[inline]
    pub(crate) fn shortened(self, slots: usize) -> Self {
        Self {
            slots: self.slots.min(slots),
            ..self
        }
    }
}

impl<T: Copy> SlotMemory<T> {
    /// Allocates the slots, all stamped `stamp`, and touches every page. Returns `None` if they do
    /// not fit the address space.
    pub(crate) fn new(capacity: usize, width: usize, stamp: u8) -> Option<Self> {
        let shape = Shape::of::<T>(width)?;
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
            values: PhantomData,
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

    /// Number of values per element.
    #[inline]
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Returns slot number `index`.
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

    /// Returns the `slots` slots from slot number `first` on.
    #[inline]
    pub(crate) fn stretch(&self, first: usize, slots: usize) -> Stretch {
        assert!(
            slots <= self.capacity - first,
            "the slots asked for are inside the ring"
        );
        Stretch {
            first: self.spot(first),
            slots,
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

    /// Returns the number of leading slots that have this stamp.
    pub(crate) fn count_stamped(&self, stretch: Stretch, stamp: u8) -> usize {
        let mut count = 0;
        for Stretch {
            first: Spot { group, lane },
            slots,
        } in self.parts(stretch)
        {
            for lane in lane..lane + slots {
                if !self.is_stamped(Spot { group, lane }, stamp) {
                    return count;
                }
                count += 1;
            }
        }
        count
    }

    /// Stamps the slots, the first one last: a thread that scans from there finds all or none.
    pub(crate) fn set_stamps(&self, stretch: Stretch, stamp: u8) {
        for Stretch {
            first: Spot { group, lane },
            slots,
        } in self.parts(stretch)
        {
            let is_first = group == stretch.first.group;
            for lane in lane + usize::from(is_first)..lane + slots {
                self.set_stamp(Spot { group, lane }, stamp);
            }
        }
        if stretch.slots > 0 {
            self.set_stamp(stretch.first, stamp);
        }
    }

    /// Copies an element, given in two parts, into a slot.
    ///
    /// # Safety
    ///
    /// The parts together have the width of the memory, and no other thread accesses the values of
    /// the slot during the call.
    #[inline]
    pub(crate) unsafe fn write(&self, spot: Spot, first: &[T], rest: &[T]) {
        debug_assert_eq!(first.len() + rest.len(), self.width);
        let target = self.values(spot);
        // SAFETY: the slot has room for an element, and only the caller accesses it.
        unsafe {
            for (values, target) in [(first, target), (rest, target.add(first.len()))] {
                match values {
                    // A call that copies memory costs more than storing one value.
                    [] => {}
                    [value] => target.write(*value),
                    values => target.copy_from_nonoverlapping(values.as_ptr(), values.len()),
                }
            }
        }
    }

    /// Passes the element in a slot to `look`.
    ///
    /// # Safety
    ///
    /// The slot has been written, and no other thread writes its values during the call.
    #[inline]
    pub(crate) unsafe fn with<R>(&self, spot: Spot, look: impl FnOnce(&[T]) -> R) -> R {
        // SAFETY: the slot holds an element of `width` values, and nothing writes it.
        look(unsafe { std::slice::from_raw_parts(self.values(spot), self.width) })
    }

    /// Copies an element out of a slot.
    ///
    /// # Safety
    ///
    /// `target` has room for an element, the slot has been written, and no other thread writes its
    /// values during the call.
    #[inline]
    pub(crate) unsafe fn read(&self, spot: Spot, target: *mut T) {
        let source = self.values(spot);
        // SAFETY: the slot holds an element, which nothing writes, and `target` has room for it.
        unsafe {
            match self.width {
                1 => target.write(source.read()),
                width => target.copy_from_nonoverlapping(source, width),
            }
        }
    }

    /// Copies elements into the slots.
    ///
    /// # Safety
    ///
    /// `elements` has as many elements as the stretch has slots, and no other thread accesses the
    /// values of those slots during the call.
    pub(crate) unsafe fn write_all(&self, stretch: Stretch, elements: &[T]) {
        debug_assert_eq!(elements.len(), stretch.slots * self.width);
        let mut source = elements.as_ptr();
        for part in self.parts(stretch) {
            let count = part.slots * self.width;
            // SAFETY: elements of one group are contiguous; only the caller accesses those of the
            // part, and `source` has enough left, since the parts add up to the stretch.
            unsafe {
                self.values(part.first)
                    .copy_from_nonoverlapping(source, count);
                source = source.add(count);
            }
        }
    }

    /// Copies elements out of the slots.
    ///
    /// # Safety
    ///
    /// `elements` has room for as many elements as the stretch has slots, those slots have been
    /// written, and no other thread writes their values during the call.
    pub(crate) unsafe fn read_all(&self, stretch: Stretch, elements: &mut [T]) {
        debug_assert_eq!(elements.len(), stretch.slots * self.width);
        let mut target = elements.as_mut_ptr();
        for part in self.parts(stretch) {
            let count = part.slots * self.width;
            // SAFETY: elements of one group are contiguous; nothing writes those of the part, and
            // `target` has room for them, since the parts add up to the stretch.
            unsafe {
                target.copy_from_nonoverlapping(self.values(part.first), count);
                target = target.add(count);
            }
        }
    }

    /// Splits a stretch into parts that lie in one group each.
    #[inline]
    fn parts(&self, mut rest: Stretch) -> impl Iterator<Item = Stretch> + use<T> {
        let Shape {
            lanes, group_bytes, ..
        } = self.shape;
        std::iter::from_fn(move || {
            let part = rest.shortened(lanes - rest.first.lane);
            let next = Spot {
                group: rest.first.group + group_bytes,
                lane: 0,
            };
            rest = Stretch {
                first: next,
                slots: rest.slots - part.slots,
            };
            (part.slots > 0).then_some(part)
        })
    }

    #[inline]
    fn stamp(&self, spot: Spot) -> &AtomicU8 {
        // SAFETY: a slot lies inside the memory, a group begins with its stamps, `new` has written
        // them, and they are accessed in no other way while the memory is shared.
        unsafe { AtomicU8::from_ptr(self.at(spot.group + spot.lane)) }
    }

    /// Address of the first value of a slot.
    #[inline]
    fn values(&self, spot: Spot) -> *mut T {
        let offset = spot.group + self.shape.values_at + spot.lane * self.shape.element_bytes;
        // SAFETY: a slot lies inside the memory.
        let start = unsafe { self.at(offset) };
        // Aligned: groups and `values_at` are, and an element consists of whole values.
        start.cast()
    }

    /// A pointer into the memory.
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

impl<T> std::fmt::Debug for SlotMemory<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SlotMemory")
            .field("capacity", &self.capacity)
            .field("width", &self.width)
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}
