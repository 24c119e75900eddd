//! A set of indices that many threads mark and one thread drains.

use crate::sync::{AtomicU64, OnceLock, Ordering};

const WORD_BITS: usize = 64;
/// Words of a chunk: one per bit of its summary. Fewer under loom, where every word is costly.
const CHUNK_WORDS: usize = if cfg!(loom) { 2 } else { 64 };
/// Root words: one per bit of the top word.
const GROUPS: usize = if cfg!(loom) { 2 } else { 8 };
/// Chunks of a group: one per bit of its root word.
const GROUP_CHUNKS: usize = 64;
const CHUNK_MARKS: usize = CHUNK_WORDS * WORD_BITS;
const CHUNKS: usize = GROUPS * GROUP_CHUNKS;

const _: () = assert!(GROUP_CHUNKS <= 64 && CHUNK_WORDS <= 64 && GROUPS <= 64);

/// A set of `u32` indices, marked by any thread and drained by one. Used for items that have
/// something to send or that have changed since the last check.
///
/// An index is in the set at most once, even if it is marked several times. A call that finds the
/// *whole set* empty returns true, and its caller must wake the drainer; all other callers need
/// not. The drainer is therefore woken once each time the set becomes non-empty, and neither a mark
/// nor a wake-up is lost.
///
/// # Order
///
/// A thread's writes before it marks an index are visible to the drainer that takes the index, even
/// if the index was already marked.
///
/// # How it works
///
/// There are four levels of bits: a top word, 8 root words, a summary word per chunk, and the
/// chunk's 64 words of marks. A set bit means that the word below it may be non-empty.
///
/// - A marker sets its bit, then ensures that the bit above is set, up to the top. Most marks are
///   one atomic read-modify-write and three loads. It does not rely on the marker that first made
///   the word non-empty to set the bits above, because that marker may have been preempted in
///   between.
/// - The drainer goes down: it takes the bits out of a word, then out of the words below that these
///   bits refer to. A mark made after the drainer has passed finds empty words and sets the bits
///   above again; the drainer takes a mark made before. In both cases the mark is delivered.
///
/// # Progress
///
/// [`mark`](Self::mark) and [`unmark`](Self::unmark) are wait-free: at most four atomic operations.
/// A marker that is interrupted between two levels delays its own mark until it continues or
/// another mark is made in the same word; it never delays the mark of another thread. Draining is
/// wait-free for each index.
///
/// # Real-time
///
/// Only [`new`](Self::new) and [`ensure`](Self::ensure) allocate. Marking and draining do not, and
/// make no system call.
///
/// ```
/// use trunkline_ring::{Cursor, MarkSet};
///
/// let set = MarkSet::new();
/// set.ensure(70_000)?;
/// assert!(set.mark(70_000)); // the set was empty: wake the drainer
/// assert!(!set.mark(70_001)); // it was not
///
/// let mut due = Vec::new();
/// let taken = set.take(&mut Cursor::default(), 1_000, &mut |index| due.push(index));
/// assert_eq!((due, taken.more), (vec![70_000, 70_001], false));
/// # Ok::<(), trunkline_ring::IndexTooLarge>(())
/// ```
#[derive(Debug)]
pub struct MarkSet {
    /// Bit `g`: root word `g` may be non-empty.
    top: AtomicU64,
    /// Bit `c` of word `g`: the summary of chunk `64 g + c` may be non-empty.
    roots: [AtomicU64; GROUPS],
    chunks: Box<[OnceLock<Box<Chunk>>]>,
}

#[derive(Debug)]
struct Chunk {
    /// Bit `w`: word `w` may be non-empty.
    summary: AtomicU64,
    words: [AtomicU64; CHUNK_WORDS],
}

/// The location of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    group: usize,
    /// Chunk within the group.
    chunk: usize,
    word: usize,
    bit: usize,
}

impl Place {
    #[inline]
    fn of(index: u32) -> Self {
        let index = index as usize;
        Self {
            group: index / (CHUNK_MARKS * GROUP_CHUNKS),
            chunk: index / CHUNK_MARKS % GROUP_CHUNKS,
            word: index / WORD_BITS % CHUNK_WORDS,
            bit: index % WORD_BITS,
        }
    }

    #[inline]
    fn index(self) -> u32 {
        let chunk = self.group * GROUP_CHUNKS + self.chunk;
        // The result is at most `INDEX_MAX`, because callers pass only places of indices that can
        // be marked.
        (chunk * CHUNK_MARKS + self.word * WORD_BITS + self.bit) as u32
    }
}

/// The index exceeds the maximum of a [`MarkSet`]; nothing was allocated.
///
/// Indices go up to [`MarkSet::INDEX_MAX`]. The caller should refuse the item that would get this
/// index, or free another index and reuse it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexTooLarge {
    pub index: u32,
}

impl std::fmt::Display for IndexTooLarge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (index, max) = (self.index, MarkSet::INDEX_MAX);
        write!(
            f,
            "index {index} is above the maximum, {max}; use a lower one"
        )
    }
}

impl std::error::Error for IndexTooLarge {}

impl MarkSet {
    /// The largest index in a set: 2,097,151.
    pub const INDEX_MAX: u32 = (CHUNKS * CHUNK_MARKS - 1) as u32;

    /// Creates an empty set without memory for any index.
    pub fn new() -> Self {
        Self {
            top: AtomicU64::new(0),
            roots: std::array::from_fn(|_| AtomicU64::new(0)),
            chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect(),
        }
    }

    /// Allocates the block of 4,096 places that contains `index`, unless it already exists, so that
    /// `index` can be marked. Call it when an item gets its index, not on the path that marks the
    /// index.
    ///
    /// # Errors
    ///
    /// [`IndexTooLarge`] beyond [`INDEX_MAX`](Self::INDEX_MAX).
    pub fn ensure(&self, index: u32) -> Result<(), IndexTooLarge> {
        let chunk = self
            .chunks
            .get(index as usize / CHUNK_MARKS)
            .ok_or(IndexTooLarge { index })?;
        chunk.get_or_init(|| {
            let words = std::array::from_fn(|_| AtomicU64::new(0));
            Box::new(Chunk {
                summary: AtomicU64::new(0),
                words,
            })
        });
        Ok(())
    }

    /// Marks `index`. Returns true if the whole set was empty: the caller must then wake the
    /// drainer.
    ///
    /// The result may be true although no wake-up is needed, if an active drainer has already taken
    /// the mark. It is never false if the drainer needs a wake-up.
    ///
    /// # Panics
    ///
    /// If `index` has not been [ensured](Self::ensure).
    #[inline]
    #[track_caller]
    pub fn mark(&self, index: u32) -> bool {
        let place = Place::of(index);
        let Some(chunk) = self.chunk(place) else {
            panic!("index {index} is marked before `ensure({index})`: call that first");
        };
        let _was_empty = set_bit(&chunk.words[place.word], place.bit);
        ensure_bit(&chunk.summary, place.word);
        ensure_bit(&self.roots[place.group], place.chunk);
        ensure_bit(&self.top, place.group)
    }

    /// Removes the mark of `index` and returns true if it was set.
    ///
    /// An index that an active drain has taken but not returned yet counts as not marked, and is
    /// still returned. Afterwards, `is_empty` may return false until the set is next drained.
    #[inline]
    pub fn unmark(&self, index: u32) -> bool {
        let place = Place::of(index);
        self.chunk(place).is_some_and(|chunk| {
            let mask = 1 << place.bit;
            chunk.words[place.word].fetch_and(!mask, Ordering::AcqRel) & mask != 0
        })
    }

    /// Returns true if no index was marked at some moment during the call, not counting indices
    /// that an active drain has taken.
    ///
    /// After [`unmark`](Self::unmark), or just after a drain, it may return `false` for an empty
    /// set; draining corrects that.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.top.load(Ordering::Acquire) == 0
    }

    /// Returns the chunk of a place, or `None` if it has not been allocated.
    #[inline]
    fn chunk(&self, place: Place) -> Option<&Chunk> {
        let chunk = self.chunks.get(place.group * GROUP_CHUNKS + place.chunk)?;
        chunk.get().map(|chunk| &**chunk)
    }
}

impl Default for MarkSet {
    fn default() -> Self {
        Self::new()
    }
}

/// Sets a bit and returns true if the word was empty.
///
/// SYNC POINT, pairs with `take_bits` in both directions. Release: a thread that takes the bit
/// finds what lies below it. Acquire: a marker that finds a word emptied comes after the drainer
/// that emptied it in every word above, so that its bits there are not taken together with older
/// ones.
#[inline]
fn set_bit(word: &AtomicU64, bit: usize) -> bool {
    let was_empty = word.fetch_or(1 << bit, Ordering::SeqCst) == 0;
    // loom treats such operations as acquire and release only.
    #[cfg(loom)]
    crate::sync::fence(Ordering::SeqCst);
    was_empty
}

/// Sets a bit unless it is set. Returns true if it set the bit and the word was empty.
///
/// SYNC POINT, pairs with `take_bits`, both sequentially consistent. The marker writes the word
/// below, then loads this one; the drainer takes the bit here, then the word below. So either the
/// marker finds the bit taken and sets it again, or the drainer finds what the marker wrote.
#[inline]
fn ensure_bit(word: &AtomicU64, bit: usize) -> bool {
    word.load(Ordering::SeqCst) & (1 << bit) == 0 && set_bit(word, bit)
}

/// The index at which a drainer continues next time: the last returned index plus one.
///
/// The cursor makes draining fair. An index that is marked again and again is returned once per
/// round, after every other index that was marked before the round reached it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cursor {
    next: u32,
}

impl Cursor {
    /// Creates a cursor that continues at `index`, for example at an index that was taken but not
    /// processed.
    pub const fn at(index: u32) -> Self {
        Self { next: index }
    }
}

/// The result of [`MarkSet::take`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Taken {
    pub count: usize,
    /// True if the limit was reached and marks may be left. No later mark will request a wake-up
    /// for them, so the caller must call again.
    pub more: bool,
}

impl MarkSet {
    /// Removes up to `limit` indices from the set and passes each to `each`.
    ///
    /// An index is removed before it is passed on. If it is marked again in the meantime, it is
    /// delivered again, by this call or after the wake-up that the mark requests.
    ///
    /// # Panics
    ///
    /// If `each` panics. The marks that were not passed on are then in the set again, but no
    /// wake-up will be requested for them.
    #[inline]
    pub fn take(&self, cursor: &mut Cursor, limit: usize, each: &mut impl FnMut(u32)) -> Taken {
        let mut drain = self.drain(cursor);
        for count in 0..limit {
            match drain.next() {
                Some(index) => each(index),
                None => return Taken { count, more: false },
            }
        }
        Taken {
            count: limit,
            more: drain.has_more(),
        }
    }

    /// Returns an iterator that removes indices from the set. It begins at `cursor`, wraps around,
    /// and ends just before `cursor`.
    ///
    /// Dropping it puts back the marks that it has not returned; see [`Drain::has_more`]. It is
    /// meant for one drain at a time. Several drains at once lose no marks, but each gets only some
    /// of them.
    pub fn drain<'a>(&'a self, cursor: &'a mut Cursor) -> Drain<'a> {
        let start = Place::of(cursor.next);
        let top = take_bits(&self.top, 0).taken;
        let before_start = (1 << start.group) - 1;
        Drain {
            set: self,
            cursor,
            start: Some(start),
            place: start,
            word: 0,
            summary: 0,
            root: 0,
            top: top & !before_start,
            top_wrapped: top & before_start,
        }
    }
}

/// Removes marked indices from a [`MarkSet`]; created by [`MarkSet::drain`].
///
/// Its fields hold the bits that it has taken out of the set but not processed, one word per level.
/// In the first pass, it takes only bits at or after the start; it takes the other bits after it
/// has wrapped around.
#[derive(Debug)]
pub struct Drain<'a> {
    set: &'a MarkSet,
    cursor: &'a mut Cursor,
    /// The place at which the drain began; `None` after it has wrapped around.
    start: Option<Place>,
    /// The location that the fields below refer to: `word` belongs to a word of a chunk of a group.
    place: Place,
    word: u64,
    /// Words of the chunk to visit.
    summary: u64,
    /// Chunks of the group to visit.
    root: u64,
    /// Groups to visit.
    top: u64,
    /// Groups to visit after wrapping around.
    top_wrapped: u64,
}

impl Iterator for Drain<'_> {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        loop {
            if let Some(bit) = take_lowest(&mut self.word) {
                let index = Place { bit, ..self.place }.index();
                self.cursor.next = if index < MarkSet::INDEX_MAX {
                    index + 1
                } else {
                    0
                };
                return Some(index);
            }
            if !self.descend() {
                return None;
            }
        }
    }
}

impl<'a> Drain<'a> {
    /// Returns true if marked indices may be left.
    pub fn has_more(&self) -> bool {
        self.word | self.summary | self.root | self.top | self.top_wrapped != 0
    }

    /// Moves to the next word, chunk or group that may contain marks; returns false if there is
    /// none.
    fn descend(&mut self) -> bool {
        if let Some(word) = take_lowest(&mut self.summary) {
            self.place.word = word;
            self.enter_word();
        } else if let Some(chunk) = take_lowest(&mut self.root) {
            self.place.chunk = chunk;
            self.enter_chunk();
        } else if let Some(group) = take_lowest(&mut self.top) {
            self.place.group = group;
            self.enter_group();
        } else if self.top_wrapped != 0 {
            self.top = std::mem::take(&mut self.top_wrapped);
            self.start = None;
        } else {
            return false;
        }
        true
    }

    fn enter_group(&mut self) {
        let first = self
            .start
            .filter(|s| s.group == self.place.group)
            .map_or(0, |s| s.chunk);
        let bits = take_bits(&self.set.roots[self.place.group], first);
        self.root = bits.taken;
        if bits.has_remaining {
            self.revisit_group();
        }
    }

    fn enter_chunk(&mut self) {
        let Some(chunk) = self.chunk() else { return };
        let is_start = |s: &Place| (s.group, s.chunk) == (self.place.group, self.place.chunk);
        let first = self.start.filter(is_start).map_or(0, |s| s.word);
        let bits = take_bits(&chunk.summary, first);
        self.summary = bits.taken;
        if bits.has_remaining {
            self.revisit_chunk();
        }
    }

    fn enter_word(&mut self) {
        let Some(chunk) = self.chunk() else { return };
        let is_start = |s: &Place| {
            Place { bit: 0, ..*s }
                == Place {
                    bit: 0,
                    ..self.place
                }
        };
        let first = self.start.filter(is_start).map_or(0, |s| s.bit);
        let bits = take_bits(&chunk.words[self.place.word], first);
        self.word = bits.taken;
        if bits.has_remaining {
            restore_bits(&chunk.summary, 1 << self.place.word);
            self.revisit_chunk();
        }
    }

    /// Puts back the bit of this chunk, which still contains marks before the start.
    fn revisit_chunk(&mut self) {
        restore_bits(&self.set.roots[self.place.group], 1 << self.place.chunk);
        self.revisit_group();
    }

    fn revisit_group(&mut self) {
        self.top_wrapped |= 1 << self.place.group;
    }

    /// Returns the chunk of the current place. It exists because its bit was set.
    fn chunk(&self) -> Option<&'a Chunk> {
        self.set.chunk(self.place)
    }
}

impl Drop for Drain<'_> {
    /// Puts back everything that was taken and not returned: marks first, then the bits that refer
    /// to them.
    fn drop(&mut self) {
        let Place {
            group,
            chunk: in_group,
            word,
            ..
        } = self.place;
        if let Some(chunk) = self.chunk() {
            if self.word != 0 {
                restore_bits(&chunk.words[word], self.word);
                self.summary |= 1 << word;
            }
            if self.summary != 0 {
                restore_bits(&chunk.summary, self.summary);
                self.root |= 1 << in_group;
            }
        }
        if self.root != 0 {
            restore_bits(&self.set.roots[group], self.root);
            self.top |= 1 << group;
        }
        let top = self.top | self.top_wrapped;
        if top != 0 {
            restore_bits(&self.set.top, top);
        }
    }
}

/// The bits taken out of a word.
struct Bits {
    taken: u64,
    /// True if bits before the first requested bit remain in the word.
    has_remaining: bool,
}

/// Removes the bits from `first` on from a word.
///
/// SYNC POINT, pairs with `set_bit` in both directions. Acquire: the bits below the bits taken are
/// visible, and so is everything that the markers did before they marked. Release: a marker that
/// finds the word empty from now on comes after the bits above were taken out.
#[inline]
fn take_bits(word: &AtomicU64, first: usize) -> Bits {
    let below_first = (1 << first) - 1;
    let before = if below_first == 0 {
        word.swap(0, Ordering::SeqCst)
    } else {
        word.fetch_and(below_first, Ordering::SeqCst)
    };
    Bits {
        taken: before & !below_first,
        has_remaining: before & below_first != 0,
    }
}

/// Sets bits that were taken before. Their marks were already reported, so no wake-up is necessary.
#[inline]
fn restore_bits(word: &AtomicU64, bits: u64) {
    word.fetch_or(bits, Ordering::SeqCst);
}

/// Removes the lowest bit from a local word.
#[inline]
fn take_lowest(word: &mut u64) -> Option<usize> {
    let bit = (*word != 0).then(|| word.trailing_zeros() as usize)?;
    *word &= *word - 1;
    Some(bit)
}
