//! Numbered slots for shared values, which may be replaced while readers access them without a
//! lock.
//!
//! ```text
//! reader                              remover
//! announce the epoch                  remove the pointer from the slot
//! load pointers, use the              retire the value, stamped with the epoch; next epoch
//!   values                            drop values stamped before every announced epoch
//! announce nothing
//! ```
//!
//! A reader writes its own word once at the beginning and once at the end, for any number of slots
//! that it accesses in between, so readers do not contend for cache lines. A removed value remains
//! in memory until every reading that began before the removal has ended. This is epoch-based
//! reclamation (K. Fraser, "Practical lock-freedom", 2004, section 5.2.3), except that a reader
//! drops nothing while it reads: values are dropped by removers, and by readers after they have
//! ended.
//!
//! Four accesses are sequentially consistent: a reader announces an epoch, then loads a pointer; a
//! remover removes the pointer, then loads the announced epochs. A remover that does not see an
//! announcement has therefore removed the pointer before that reader loads it.

use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr;
// The values use std's `Arc`. With the contents of the values, loom detects if they are freed too
// early.
use std::sync::Arc as Shared;

use crate::padded::Padded;
use crate::sync::{
    Arc, AtomicBool, AtomicPtr, AtomicU64, Mutex, MutexGuard, OnceLock, Ordering, PoisonError,
    total_order,
};

/// Slots are allocated in chunks of this size, which neither move nor disappear.
const CHUNK: usize = if cfg!(loom) { 2 } else { 4096 };

/// The announced epoch of a reader that is not reading.
const NOT_READING: u64 = 0;

/// Maximum number of values dropped by one [`SlotTable::reclaim`] or the end of one reading.
const RECLAIMED_MAX: usize = 64;

/// Slots for shared values. A clone refers to the same slots.
pub struct SlotTable<T>(Arc<Table<T>>);

struct Table<T> {
    chunks: Box<[OnceLock<Chunk<T>>]>,
    /// Current epoch: greater than [`NOT_READING`], incremented by each removal.
    epoch: AtomicU64,
    readers: Mutex<Vec<Arc<Padded<AtomicU64>>>>,
    /// Removed values with the epoch of their removal, in ascending order.
    retired: Mutex<VecDeque<(u64, Shared<T>)>>,
    /// True if `retired` may be non-empty.
    has_retired: AtomicBool,
}

type Chunk<T> = Box<[Slot<T>]>;

struct Slot<T> {
    /// Makes the slot `Send` and `Sync` only if its value is: an `AtomicPtr` is both for every `T`.
    _marker: PhantomData<Shared<T>>,
    /// A reference owned by the slot, from [`Shared::into_raw`]; null in an empty slot.
    value: AtomicPtr<T>,
    /// Held while the slot is changed or a reference is counted.
    lock: Mutex<()>,
}

fn ignore_poison<G>(guard: Result<G, PoisonError<G>>) -> G {
    // The data behind these locks is consistent after each statement.
    guard.unwrap_or_else(PoisonError::into_inner)
}

impl<T> Slot<T> {
    fn empty() -> Self {
        Self {
            _marker: PhantomData,
            value: AtomicPtr::new(ptr::null_mut()),
            lock: Mutex::new(()),
        }
    }

    /// Returns the content of the slot, valid while its lock is held.
    fn locked<'g>(&self, _guard: &'g MutexGuard<'_, ()>) -> Option<Borrowed<'g, T>> {
        let value = self.value.load(Ordering::Acquire);
        // SAFETY: a pointer in a slot comes from `into_raw`, and the slot's reference is given up
        // only under the lock, which is held for 'g.
        (!value.is_null()).then(|| unsafe { Borrowed::new(value) })
    }
}

impl<T> Drop for Slot<T> {
    fn drop(&mut self) {
        let value = self.value.load(Ordering::Acquire);
        if !value.is_null() {
            // SAFETY: a pointer in a slot comes from `into_raw`, and the slot owns its reference.
            drop(unsafe { Shared::from_raw(value) });
        }
    }
}

/// A borrowed reference, not included in the count.
struct Borrowed<'a, T>(ManuallyDrop<Shared<T>>, PhantomData<&'a T>);

impl<T> Borrowed<'_, T> {
    /// # Safety
    /// `value` comes from [`Shared::into_raw`], and one reference to it outlives the lifetime.
    unsafe fn new(value: *const T) -> Self {
        // SAFETY: it is never dropped, so the count does not change.
        let value = ManuallyDrop::new(unsafe { Shared::from_raw(value) });
        Self(value, PhantomData)
    }
}

impl<T> SlotTable<T> {
    /// Creates a table of at least `slots` empty slots. Their memory is allocated when they are
    /// filled.
    pub fn new(slots: usize) -> Self {
        Self(Arc::new(Table {
            chunks: (0..slots.div_ceil(CHUNK))
                .map(|_| OnceLock::new())
                .collect(),
            epoch: AtomicU64::new(NOT_READING + 1),
            readers: Mutex::new(Vec::new()),
            retired: Mutex::new(VecDeque::new()),
            has_retired: AtomicBool::new(false),
        }))
    }

    /// Returns the value in a slot. Holds the slot's lock while it counts the reference.
    #[inline]
    pub fn get(&self, slot: usize) -> Option<Shared<T>> {
        self.with(slot, |value| value.map(Shared::clone))
    }

    /// Calls `f` with the content of the slot, under the slot's lock. During the call, no other
    /// thread removes the value or clones it through this table. `f` must not use the table.
    #[inline]
    pub fn with<R>(&self, slot: usize, f: impl FnOnce(Option<&Shared<T>>) -> R) -> R {
        let Some(slot) = self.0.slot(slot) else {
            return f(None);
        };
        let guard = ignore_poison(slot.lock.lock());
        let value = slot.locked(&guard);
        f(value.as_ref().map(|value| &*value.0))
    }

    /// Fills a slot and removes its previous value.
    ///
    /// Returns false if there is no such slot.
    pub fn set(&self, slot: usize, value: Shared<T>) -> bool {
        if let Some(chunk) = self.0.chunks.get(slot / CHUNK) {
            chunk.get_or_init(|| (0..CHUNK).map(|_| Slot::empty()).collect());
        }
        let Some(slot) = self.0.slot(slot) else {
            return false;
        };
        let value = Shared::into_raw(value).cast_mut();
        let guard = ignore_poison(slot.lock.lock());
        let before = slot.value.swap(value, Ordering::SeqCst);
        self.0.retire(before);
        drop(guard);
        true
    }

    /// Empties a slot if `predicate` returns true for its value, under the same rules as
    /// [`SlotTable::with`]. Returns true if the slot was emptied.
    ///
    /// The value is dropped by [`SlotTable::reclaim`], or at the end of the last reading that may
    /// access it.
    pub fn remove_if(&self, slot: usize, predicate: impl FnOnce(&Shared<T>) -> bool) -> bool {
        let Some(slot) = self.0.slot(slot) else {
            return false;
        };
        let guard = ignore_poison(slot.lock.lock());
        if !slot.locked(&guard).is_some_and(|value| predicate(&value.0)) {
            return false;
        }
        let before = slot.value.swap(ptr::null_mut(), Ordering::SeqCst);
        self.0.retire(before);
        drop(guard);
        true
    }

    /// Drops up to 64 removed values that no reader can access any more. Returns true if there may
    /// be more. The values' destructors run, so the caller must not hold a lock that they may take.
    pub fn reclaim(&self) -> bool {
        self.0.reclaim()
    }

    /// Creates a reader, for one thread at a time.
    pub fn reader(&self) -> SlotReader<T> {
        let word = Arc::new(Padded(AtomicU64::new(NOT_READING)));
        ignore_poison(self.0.readers.lock()).push(Arc::clone(&word));
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

    /// Keeps the reference of a slot until no reader can access it.
    fn retire(&self, value: *mut T) {
        if value.is_null() {
            return;
        }
        // SAFETY: the pointer comes from `into_raw`, and the caller has taken it out of its slot.
        let value = unsafe { Shared::from_raw(value) };
        let mut retired = ignore_poison(self.retired.lock());
        // Incremented under the lock, so that the list is in ascending order.
        let epoch = self.epoch.fetch_add(1, Ordering::AcqRel);
        retired.push_back((epoch, value));
        self.has_retired.store(true, Ordering::Relaxed);
    }

    #[cold]
    fn reclaim(&self) -> bool {
        let mut retired = ignore_poison(self.retired.lock());
        if retired.is_empty() {
            return false;
        }
        total_order();
        let words = ignore_poison(self.readers.lock());
        let announced = words.iter().map(|word| word.load(Ordering::SeqCst));
        let oldest = announced.filter(|epoch| *epoch != NOT_READING).min();
        drop(words);
        // A reader that announced a later epoch has seen the slot empty.
        let count = match oldest {
            None => retired.len(),
            Some(oldest) => retired.partition_point(|(epoch, _)| *epoch < oldest),
        };
        let reclaimed: Vec<_> = retired.drain(..count.min(RECLAIMED_MAX)).collect();
        self.has_retired
            .store(!retired.is_empty(), Ordering::Relaxed);
        drop(retired);
        // Drop the values outside the lock, because dropping a value may remove others.
        drop(reclaimed);
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

/// A handle with which one thread accesses slots without a lock. It keeps the table alive.
pub struct SlotReader<T> {
    table: Arc<Table<T>>,
    word: Arc<Padded<AtomicU64>>,
}

impl<T> SlotReader<T> {
    /// Begins a reading. Values removed from now on remain in memory until the result is dropped,
    /// so drop it soon.
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
        ignore_poison(self.table.readers.lock()).retain(|word| !Arc::ptr_eq(word, &self.word));
    }
}

impl<T> fmt::Debug for SlotReader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotReader").finish_non_exhaustive()
    }
}

/// A reading: access to the values of a table. Dropping it may drop values that were removed in the
/// meantime, so the caller must not hold a lock that their destructors may take.
pub struct Pinned<'r, T> {
    reader: &'r mut SlotReader<T>,
}

impl<T> Pinned<'_, T> {
    /// Returns the value in a slot, without a lock or a reference count.
    #[inline]
    pub fn get(&self, slot: usize) -> Option<&T> {
        let value = self.reader.table.slot(slot)?.value.load(Ordering::SeqCst);
        // SAFETY: null, or a pointer to a value whose reference the slot owned when it was loaded.
        // This reader's epoch is announced for as long as `self` is borrowed, and the reader keeps
        // the table, so that reference is given up neither by `reclaim` nor with the table.
        unsafe { value.as_ref() }
    }
}

impl<T> Drop for Pinned<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let reader = &self.reader;
        reader.word.store(NOT_READING, Ordering::Release);
        // This may miss a value that is just being retired. In that case, the next reader that
        // ends, or the next remover, finds it.
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
