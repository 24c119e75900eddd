//! Shared values by number, which come and go while readers follow their numbers without a lock.
//!
//! ```text
//! reader                              remover
//! announce the epoch                  take the pointer out of the slot
//! load pointers, use what they        retire the value, stamped with the epoch; next epoch
//!   point to                          drop what is stamped before every announced epoch
//! announce nothing
//! ```
//!
//! A reader writes one word of its own when it begins and one when it ends, however many slots it
//! follows in between, so readers do not take each other's cache lines. What was removed stays in
//! memory until every reader that had begun before has ended. This is epoch-based reclamation
//! (K. Fraser, "Practical lock-freedom", 2004, section 5.2.3), except that no reader drops anything
//! while it reads: removers drop, and readers when they have ended.
//!
//! Four accesses are sequentially consistent: a reader announces an epoch, then loads a pointer; a
//! remover takes the pointer out, then looks at what is announced. So a remover that does not see
//! an announcement has taken the pointer out before that reader loads it.

use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr;
// The values are std's: whether they are freed too early, loom sees by what is in them.
use std::sync::Arc as Shared;

use crate::padded::Padded;
use crate::sync::{
    Arc, AtomicBool, AtomicPtr, AtomicU64, Mutex, MutexGuard, OnceLock, Ordering, PoisonError,
    total_order,
};

/// Slots are allocated in chunks of this many, never move, and stay.
const CHUNK: usize = if cfg!(loom) { 2 } else { 4096 };

/// The word of a reader that follows nothing.
const NOTHING: u64 = 0;

/// Most values that one [`SlotTable::reclaim`] drops, or the end of one reading.
const RECLAIMED_MAX: usize = 64;

/// Slots for shared values. Cloning it clones the reference.
pub struct SlotTable<T>(Arc<Table<T>>);

struct Table<T> {
    chunks: Box<[OnceLock<Chunk<T>>]>,
    /// Above [`NOTHING`]; higher after each removal.
    epoch: AtomicU64,
    /// The word of each reader.
    readers: Mutex<Vec<Arc<Padded<AtomicU64>>>>,
    /// Values that were removed, with the epoch of their removal: epochs ascend.
    retired: Mutex<VecDeque<(u64, Shared<T>)>>,
    /// Whether there are any.
    has_retired: AtomicBool,
}

type Chunk<T> = Box<[Slot<T>]>;

struct Slot<T> {
    /// It has a value, so it is sent and shared as one: an `AtomicPtr` is for every `T`.
    has: PhantomData<Shared<T>>,
    /// Of [`Shared::into_raw`], a reference that the slot has; null in an empty slot.
    value: AtomicPtr<T>,
    /// Held by those that change the slot, and by those that count a reference.
    lock: Mutex<()>,
}

fn held<G>(guard: Result<G, PoisonError<G>>) -> G {
    // What is behind these locks is whole after each statement.
    guard.unwrap_or_else(PoisonError::into_inner)
}

impl<T> Slot<T> {
    fn empty() -> Self {
        Self {
            has: PhantomData,
            value: AtomicPtr::new(ptr::null_mut()),
            lock: Mutex::new(()),
        }
    }

    /// What is in the slot, for as long as its lock is held.
    fn locked<'g>(&self, _guard: &'g MutexGuard<'_, ()>) -> Option<Lent<'g, T>> {
        let value = self.value.load(Ordering::Acquire);
        // SAFETY: a pointer in a slot is of `into_raw`, and the slot's reference is given up only
        // under the lock, which is held for 'g.
        (!value.is_null()).then(|| unsafe { Lent::new(value) })
    }
}

impl<T> Drop for Slot<T> {
    fn drop(&mut self) {
        let value = self.value.load(Ordering::Acquire);
        if !value.is_null() {
            // SAFETY: a pointer in a slot is of `into_raw`, and its reference is the slot's.
            drop(unsafe { Shared::from_raw(value) });
        }
    }
}

/// A reference that somebody else has counted.
struct Lent<'a, T>(ManuallyDrop<Shared<T>>, PhantomData<&'a T>);

impl<T> Lent<'_, T> {
    /// # Safety
    /// `value` is of [`Shared::into_raw`], and one reference to it outlives the lifetime.
    unsafe fn new(value: *const T) -> Self {
        // SAFETY: it is never dropped, so the count stays what it is.
        let value = ManuallyDrop::new(unsafe { Shared::from_raw(value) });
        Self(value, PhantomData)
    }
}

impl<T> SlotTable<T> {
    /// Empty slots, at least `slots` of them. Their memory is allocated as they are filled.
    pub fn new(slots: usize) -> Self {
        Self(Arc::new(Table {
            chunks: (0..slots.div_ceil(CHUNK))
                .map(|_| OnceLock::new())
                .collect(),
            epoch: AtomicU64::new(NOTHING + 1),
            readers: Mutex::new(Vec::new()),
            retired: Mutex::new(VecDeque::new()),
            has_retired: AtomicBool::new(false),
        }))
    }

    /// The value in a slot. Takes the slot's lock for as long as counting a reference takes.
    #[inline]
    pub fn get(&self, slot: usize) -> Option<Shared<T>> {
        self.with(slot, |value| value.map(Shared::clone))
    }

    /// Calls `look` with what is in the slot, under the slot's lock: nobody removes the value or
    /// counts a reference to it here meanwhile. `look` does not use the table.
    #[inline]
    pub fn with<R>(&self, slot: usize, look: impl FnOnce(Option<&Shared<T>>) -> R) -> R {
        let Some(slot) = self.0.slot(slot) else {
            return look(None);
        };
        let guard = held(slot.lock.lock());
        let value = slot.locked(&guard);
        look(value.as_ref().map(|value| &*value.0))
    }

    /// Fills a slot. What was in it before is removed.
    ///
    /// False: there is no such slot.
    pub fn set(&self, slot: usize, value: Shared<T>) -> bool {
        if let Some(chunk) = self.0.chunks.get(slot / CHUNK) {
            chunk.get_or_init(|| (0..CHUNK).map(|_| Slot::empty()).collect());
        }
        let Some(slot) = self.0.slot(slot) else {
            return false;
        };
        let value = Shared::into_raw(value).cast_mut();
        let guard = held(slot.lock.lock());
        let before = slot.value.swap(value, Ordering::SeqCst);
        self.0.retire(before);
        drop(guard);
        true
    }

    /// Empties a slot if `is_it` of what is in it, as under [`SlotTable::with`]. False: it was
    /// not.
    ///
    /// The value is dropped by [`SlotTable::reclaim`], or when the readers have ended that may
    /// follow it.
    pub fn remove_if(&self, slot: usize, is_it: impl FnOnce(&Shared<T>) -> bool) -> bool {
        let Some(slot) = self.0.slot(slot) else {
            return false;
        };
        let guard = held(slot.lock.lock());
        if !slot.locked(&guard).is_some_and(|value| is_it(&value.0)) {
            return false;
        }
        let before = slot.value.swap(ptr::null_mut(), Ordering::SeqCst);
        self.0.retire(before);
        drop(guard);
        true
    }

    /// Drops what was removed and no reader can follow any more, some 64 values at most. True:
    /// there may be more. The values' own code runs, so the caller holds no lock that it may take.
    pub fn reclaim(&self) -> bool {
        self.0.reclaim()
    }

    /// A reader, for one thread at a time.
    pub fn reader(&self) -> SlotReader<T> {
        let word = Arc::new(Padded(AtomicU64::new(NOTHING)));
        held(self.0.readers.lock()).push(Arc::clone(&word));
        SlotReader {
            table: Arc::clone(&self.0),
            word,
        }
    }
}

impl<T> Table<T> {
    #[inline]
    fn slot(&self, slot: usize) -> Option<&Slot<T>> {
        self.chunks.get(slot / CHUNK)?.get()?.get(slot % CHUNK)
    }

    /// Keeps the reference of a slot until no reader can follow it.
    fn retire(&self, value: *mut T) {
        if value.is_null() {
            return;
        }
        // SAFETY: the pointer is of `into_raw`, and the caller has taken it out of its slot.
        let value = unsafe { Shared::from_raw(value) };
        let mut retired = held(self.retired.lock());
        // Under the lock, so that the list ascends.
        let epoch = self.epoch.fetch_add(1, Ordering::AcqRel);
        retired.push_back((epoch, value));
        self.has_retired.store(true, Ordering::Relaxed);
    }

    #[cold]
    fn reclaim(&self) -> bool {
        let mut retired = held(self.retired.lock());
        if retired.is_empty() {
            return false;
        }
        total_order();
        let words = held(self.readers.lock());
        let announced = words.iter().map(|word| word.load(Ordering::SeqCst));
        let oldest = announced.filter(|epoch| *epoch != NOTHING).min();
        drop(words);
        // A reader that announced a later epoch had seen that the slot is empty.
        let count = match oldest {
            None => retired.len(),
            Some(oldest) => retired.partition_point(|(epoch, _)| *epoch < oldest),
        };
        let free: Vec<_> = retired.drain(..count.min(RECLAIMED_MAX)).collect();
        self.has_retired
            .store(!retired.is_empty(), Ordering::Relaxed);
        drop(retired);
        // Outside the lock: what is dropped may remove others.
        drop(free);
        count > RECLAIMED_MAX
    }
}

impl<T> Clone for SlotTable<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for SlotTable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotTable").finish_non_exhaustive()
    }
}

/// One thread's way to follow slots without a lock. It keeps the table.
pub struct SlotReader<T> {
    table: Arc<Table<T>>,
    word: Arc<Padded<AtomicU64>>,
}

impl<T> SlotReader<T> {
    /// Begins to follow slots. What is removed from now on stays in memory until the result is
    /// dropped: drop it soon.
    #[inline]
    pub fn pin(&mut self) -> Pinned<'_, T> {
        let epoch = self.table.epoch.load(Ordering::Acquire);
        // A swap is a store and a full barrier in one instruction.
        self.word.swap(epoch, Ordering::SeqCst);
        total_order();
        Pinned { reader: self }
    }
}

impl<T> Drop for SlotReader<T> {
    fn drop(&mut self) {
        held(self.table.readers.lock()).retain(|word| !Arc::ptr_eq(word, &self.word));
    }
}

impl<T> fmt::Debug for SlotReader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotReader").finish_non_exhaustive()
    }
}

/// The values of a table, as one reader follows them. Dropping it drops some of the values that
/// were removed meanwhile, so the caller holds no lock then that their code may take.
pub struct Pinned<'r, T> {
    reader: &'r mut SlotReader<T>,
}

impl<T> Pinned<'_, T> {
    /// The value in a slot. No lock is taken and nothing is counted.
    #[inline]
    pub fn get(&self, slot: usize) -> Option<&T> {
        let value = self.reader.table.slot(slot)?.value.load(Ordering::SeqCst);
        // SAFETY: null, or of a value of which a reference was the slot's when it was loaded. This
        // reader's epoch is announced for as long as `self` is borrowed, and the reader keeps the
        // table, so that reference is given up neither by `reclaim` nor with the table.
        unsafe { value.as_ref() }
    }
}

impl<T> Drop for Pinned<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let reader = &self.reader;
        reader.word.store(NOTHING, Ordering::Release);
        // Missed when a value is retired just now: then the next reader that ends sees it, or the
        // next remover.
        if reader.table.has_retired.load(Ordering::Relaxed) {
            let _has_more = reader.table.reclaim();
        }
    }
}

impl<T> fmt::Debug for Pinned<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pinned").finish_non_exhaustive()
    }
}
