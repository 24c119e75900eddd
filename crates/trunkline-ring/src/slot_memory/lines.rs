//! Slots in groups of cache lines.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

use crate::sync::{AtomicU8, Ordering};

const LINE_BYTES: usize = 64;
/// Bytes kept for stamps at the beginning of a group; no group has more lanes than that.
const STAMP_BYTES: usize = 8;

#[repr(align(64))]
struct Line(UnsafeCell<[MaybeUninit<u8>; LINE_BYTES]>);

/// How many elements share a group, and where in it they lie.
#[derive(Debug, Clone, Copy)]
struct Shape {
    lanes: usize,
    group_bytes: usize,
    values_at: usize,
    element_bytes: usize,
}

impl Shape {
    /// The shape for elements of `width` values; `None` when one does not fit the address space.
    fn of<T>(width: usize) -> Option<Self> {
        assert!(
            align_of::<T>() <= LINE_BYTES,
            "elements are aligned to at most a cache line"
        );
        let element_bytes = size_of::<T>().checked_mul(width)?;
        let values_at = STAMP_BYTES.max(align_of::<T>());
        let room = (LINE_BYTES - values_at).checked_div(element_bytes);
        let lanes = room.unwrap_or(STAMP_BYTES).clamp(1, STAMP_BYTES);
        let bytes = element_bytes.checked_mul(lanes)?.checked_add(values_at)?;
        let group_bytes = bytes.checked_next_multiple_of(LINE_BYTES)?;
        Some(Self {
            lanes,
            group_bytes,
            values_at,
            element_bytes,
        })
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
// that the caller has them for itself. What moves from thread to thread are values of `T: Send`.
unsafe impl<T: Send> Send for SlotMemory<T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Send> Sync for SlotMemory<T> {}

/// Slots in a row; made by [`SlotMemory::stretch`], and inside the memory that made it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stretch {
    /// Offset of the first slot's group, in bytes.
    group: usize,
    /// The first slot's place in its group.
    lane: usize,
    slots: usize,
}

impl Stretch {
    /// Number of slots.
    #[inline]
    pub(crate) fn slots(self) -> usize {
        self.slots
    }

    /// The first `slots` slots of this stretch, or all if it has fewer.
    #[inline]
    pub(crate) fn shortened(self, slots: usize) -> Self {
        Self {
            slots: self.slots.min(slots),
            ..self
        }
    }
}

impl<T: Copy> SlotMemory<T> {
    /// Allocates the slots, all stamped `stamp`, and touches every page; `None` when they do not
    /// fit the address space.
    pub(crate) fn new(capacity: usize, width: usize, stamp: u8) -> Option<Self> {
        let shape = Shape::of::<T>(width)?;
        let bytes = capacity
            .div_ceil(shape.lanes)
            .checked_mul(shape.group_bytes)?;
        isize::try_from(bytes).ok()?;
        let line = |_| Line(UnsafeCell::new([MaybeUninit::uninit(); LINE_BYTES]));
        let lines: Box<[Line]> = (0..bytes / LINE_BYTES).map(line).collect();
        for line in &lines {
            // Volatile for the sake of the page it is on: the first access of a real-time thread
            // must not be the one that pays for it.
            // SAFETY: the line is this thread's alone, and may hold any byte.
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
                // SAFETY: nobody else has the memory yet, and a group begins with its stamps.
                unsafe { memory.at(offset + lane).write(stamp) };
            }
        }
        Some(memory)
    }

    /// Number of slots.
    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Number of values of an element.
    #[inline]
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// The `slots` slots from `first` on.
    #[inline]
    pub(crate) fn stretch(&self, first: usize, slots: usize) -> Stretch {
        assert!(
            first < self.capacity && slots <= self.capacity - first,
            "a stretch has an end"
        );
        let group = first / self.shape.lanes;
        Stretch {
            group: group * self.shape.group_bytes,
            lane: first - group * self.shape.lanes,
            slots,
        }
    }

    /// How many slots have this stamp, up to the first that has another.
    ///
    /// SYNC POINT, pairs with `set_stamps`: what was done before a slot got its stamp has happened.
    #[inline]
    pub(crate) fn count_stamped(&self, stretch: Stretch, stamp: u8) -> usize {
        let mut count = 0;
        for part in self.parts(stretch) {
            for lane in part.lane..part.lane + part.slots {
                if self.stamp(part.group, lane).load(Ordering::Acquire) != stamp {
                    return count;
                }
                count += 1;
            }
        }
        count
    }

    /// Stamps the slots, the first one last: whoever looks from there on finds all or none.
    ///
    /// SYNC POINT, pairs with `count_stamped`: what this thread did before is done.
    #[inline]
    pub(crate) fn set_stamps(&self, stretch: Stretch, stamp: u8) {
        if stretch.slots == 0 {
            return;
        }
        let mut is_first = true;
        for part in self.parts(stretch) {
            for lane in part.lane + usize::from(is_first)..part.lane + part.slots {
                self.stamp(part.group, lane).store(stamp, Ordering::Release);
            }
            is_first = false;
        }
        self.stamp(stretch.group, stretch.lane)
            .store(stamp, Ordering::Release);
    }

    /// Copies elements into the slots.
    ///
    /// # Safety
    ///
    /// `elements` has as many elements as the stretch has slots, and no other thread accesses the
    /// values of those slots during the call.
    #[inline]
    pub(crate) unsafe fn write(&self, stretch: Stretch, elements: &[T]) {
        debug_assert_eq!(elements.len(), stretch.slots * self.width);
        let mut source = elements.as_ptr();
        for part in self.parts(stretch) {
            let count = part.slots * self.width;
            // SAFETY: the values of the part lie inside the memory and are the caller's alone;
            // `source` has `count` values left, since the parts add up to the elements.
            unsafe {
                let target = self.values(part);
                match count {
                    // A call to copy memory costs more than one value.
                    1 => target.write(source.read()),
                    _ => target.copy_from_nonoverlapping(source, count),
                }
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
    #[inline]
    pub(crate) unsafe fn read(&self, stretch: Stretch, elements: &mut [T]) {
        debug_assert_eq!(elements.len(), stretch.slots * self.width);
        let mut target = elements.as_mut_ptr();
        for part in self.parts(stretch) {
            let count = part.slots * self.width;
            // SAFETY: the values of the part lie inside the memory, have been written, and nobody
            // writes them; `target` has room for `count` values, since the parts add up to the
            // elements.
            unsafe {
                let source = self.values(part);
                match count {
                    1 => target.write(source.read()),
                    _ => target.copy_from_nonoverlapping(source, count),
                }
                target = target.add(count);
            }
        }
    }

    /// Cuts a stretch into parts that lie in one group each.
    #[inline]
    fn parts(&self, mut rest: Stretch) -> impl Iterator<Item = Stretch> + use<T> {
        let Shape {
            lanes, group_bytes, ..
        } = self.shape;
        std::iter::from_fn(move || {
            let part = rest.shortened(lanes - rest.lane);
            rest = Stretch {
                group: rest.group + group_bytes,
                lane: 0,
                slots: rest.slots - part.slots,
            };
            (part.slots > 0).then_some(part)
        })
    }

    /// The stamp of a slot; `group` and `lane` come from a stretch of this memory.
    #[inline]
    fn stamp(&self, group: usize, lane: usize) -> &AtomicU8 {
        // SAFETY: a stretch lies inside the memory, a group begins with its stamps, `new` has
        // written them, and they are accessed in no other way while the memory is shared.
        unsafe { AtomicU8::from_ptr(self.at(group + lane)) }
    }

    /// Where the values of a part begin.
    ///
    /// # Safety
    ///
    /// The part has at least one slot, and its stretch is of this memory.
    #[inline]
    unsafe fn values(&self, part: Stretch) -> *mut T {
        let offset = self.shape.values_at + part.lane * self.shape.element_bytes;
        // SAFETY: the slot lies inside the memory.
        let start = unsafe { self.at(part.group + offset) };
        // Aligned, since groups and `values_at` are and an element is whole values.
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
        // SAFETY: the caller vouches for the offset.
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
