//! A set of indices that many threads mark and one thread drains.

mod drain;

use crate::sync::{AtomicU64, OnceLock, Ordering};

pub use self::drain::{Cursor, Drain, Taken};

const WORD_BITS: usize = 64;
/// Words of a chunk: one per bit of its summary. Fewer under loom, where every word is costly.
const CHUNK_WORDS: usize = if cfg!(loom) { 2 } else { 64 };
/// Root words: one per bit of the top word.
const GROUPS: usize = if cfg!(loom) { 2 } else { 8 };
/// Chunks of a group: one per bit of its root word.
const GROUP_CHUNKS: usize = 64;
const CHUNK_MARKS: usize = CHUNK_WORDS * WORD_BITS;
const CHUNKS: usize = GROUPS * GROUP_CHUNKS;

/// A set of `u32` indices, marked by any thread and drained by one. Used for items that have
/// something to send or that have changed since the last check.
///
/// An index is in the set once, however often it is marked. The call that finds the *whole set*
/// empty returns true, and its caller wakes the drainer; all other callers have nothing to wake. A
/// drainer is therefore woken once per emptying, and neither a mark nor a wake-up is lost.
///
/// # Order
///
/// A thread's writes before it marks an index are visible to the drainer that takes the index, even
/// if the index was already marked.
///
/// # How it works
///
/// Four levels of bits: a top word over 8 root words, over a summary word per chunk, over the
/// chunk's 64 words of marks. A set bit means that the word below it may not be empty.
///
/// - A marker sets its bit, then ensures that the bit above is set, up to the top. Most marks are
///   one atomic read-modify-write and three loads. It does not rely on the marker that first made a
///   word non-empty to set the bits above: that one may have lost its processor in between.
/// - The drainer goes down: it takes a word's bits out, then the words below that those bits name.
///   A mark that comes after the drainer has passed finds words empty again and sets the bits
///   above; one that comes before is taken along. Either way it is delivered.
///
/// # Progress
///
/// [`mark`](Self::mark) and [`unmark`](Self::unmark) are wait-free: at most four atomic operations.
/// A marker that is interrupted between two levels delays its own mark until it continues or
/// another mark is made in the same word; it never delays another's. Draining is wait-free for each
/// index.
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
    /// Bit `g`: root word `g` may not be empty.
    top: AtomicU64,
    /// Bit `c` of word `g`: the summary of chunk `64 g + c` may not be empty.
    roots: [AtomicU64; GROUPS],
    chunks: Box<[OnceLock<Box<Chunk>>]>,
}

#[derive(Debug)]
struct Chunk {
    /// Bit `w`: word `w` may not be empty.
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
        // At most `INDEX_MAX`: callers pass only places of indices that could be marked.
        (chunk * CHUNK_MARKS + self.word * WORD_BITS + self.bit) as u32
    }
}

/// The index exceeds the maximum of a [`MarkSet`]; nothing was allocated.
///
/// Indices go up to [`MarkSet::INDEX_MAX`]. Refuse the item that would get this one, or free an
/// index and use it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexTooLarge {
    pub index: u32,
}

impl std::fmt::Display for IndexTooLarge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (index, max) = (self.index, MarkSet::INDEX_MAX);
        write!(
            f,
            "index {index} is above {max}, the last one a set holds: use a lower one"
        )
    }
}

impl std::error::Error for IndexTooLarge {}

impl MarkSet {
    /// The last index a set holds: 2,097,151.
    pub const INDEX_MAX: u32 = (CHUNKS * CHUNK_MARKS - 1) as u32;

    /// Creates an empty set without memory for any index.
    pub fn new() -> Self {
        Self {
            top: AtomicU64::new(0),
            roots: std::array::from_fn(|_| AtomicU64::new(0)),
            chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect(),
        }
    }

    /// Allocates the 4,096 places around `index`, unless they exist already, so that `index` can be
    /// marked. Call it when an item gets its index, never on the path that marks it.
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
    /// The result may be true although no wake-up is needed, if an active drainer has taken the
    /// mark along. It is never false if the drainer needs a wake-up.
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
        see_to_bit(&chunk.summary, place.word);
        see_to_bit(&self.roots[place.group], place.chunk);
        see_to_bit(&self.top, place.group)
    }

    /// Removes the mark of `index` and returns true if it was set.
    ///
    /// An index that an active drain has taken but not returned yet counts as not set, and is still
    /// returned. `is_empty` may return false until the set is next drained.
    #[inline]
    pub fn unmark(&self, index: u32) -> bool {
        let place = Place::of(index);
        self.chunk(place).is_some_and(|chunk| {
            let mask = 1 << place.bit;
            chunk.words[place.word].fetch_and(!mask, Ordering::AcqRel) & mask != 0
        })
    }

    /// Returns true if no index was marked at some moment during the call, not counting those that
    /// an active drain has taken.
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
/// that emptied it in every word above, so that its bits there are not taken along with older ones.
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
/// marker finds the bit taken and sets it anew, or the drainer finds what the marker wrote.
#[inline]
fn see_to_bit(word: &AtomicU64, bit: usize) -> bool {
    word.load(Ordering::SeqCst) & (1 << bit) == 0 && set_bit(word, bit)
}
