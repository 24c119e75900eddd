//! A set of indices that are marked from many threads and drained by one.

mod drain;

use crate::sync::{AtomicU64, OnceLock, Ordering};

pub use self::drain::{Cursor, Drain, Taken};

const WORD_BITS: usize = 64;
/// Words of a chunk: one per bit of its summary. Few under loom, which pays for every word.
const CHUNK_WORDS: usize = if cfg!(loom) { 2 } else { 64 };
/// Root words: one per bit of the top word.
const GROUPS: usize = if cfg!(loom) { 2 } else { 8 };
/// Chunks of a group: one per bit of its root word.
const GROUP_CHUNKS: usize = 64;
const CHUNK_MARKS: usize = CHUNK_WORDS * WORD_BITS;
const CHUNKS: usize = GROUPS * GROUP_CHUNKS;

/// A set of `u32` indices, marked by any thread and drained by one: who has something to send, what
/// has changed since the last look.
///
/// An index is in the set once, however often it is marked. The call that finds the *whole set*
/// empty says so, and its caller wakes the drainer; every other call has nothing to wake. So a
/// drainer is woken once per emptying, and neither a mark nor a wake-up is lost.
///
/// # Order
///
/// What a thread wrote before it marked an index is visible to the drainer that takes the index,
/// also when the index was already marked.
///
/// # How it works
///
/// Four levels of bits: a top word over 8 root words, over a summary word per chunk, over the
/// chunk's 64 words of marks. A bit above says that the word below it may not be empty.
///
/// - A marker sets its bit, then sees to it that the bit above is set, up to the top. Most marks
///   are one atomic read-modify-write and three loads. It does not rely on the marker that made a
///   word not empty to bring the news up: that one may have lost its processor in between.
/// - The drainer goes down: it takes a word's bits out, then the words below that those bits name.
///   A mark that comes after the drainer has passed finds words empty again and goes up; one that
///   comes before is taken along. Either way it is delivered.
///
/// # Progress
///
/// [`mark`](Self::mark) and [`unmark`](Self::unmark) are wait-free: at most four atomic operations.
/// A marker that is interrupted between two levels holds its own mark back, until it goes on or
/// another mark is made in the same word; it never holds back another's. Draining is wait-free for
/// each index.
///
/// # Real-time
///
/// Only [`new`](Self::new) and [`ensure`](Self::ensure) allocate; marking and draining do not, and
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

/// Where an index is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    group: usize,
    /// Chunk within the group.
    chunk: usize,
    /// Word within the chunk.
    word: usize,
    /// Bit within the word.
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
        // At most `INDEX_MAX`: only places of indices that could be marked are asked.
        (chunk * CHUNK_MARKS + self.word * WORD_BITS + self.bit) as u32
    }
}

/// The index is beyond what a [`MarkSet`] can hold; nothing was allocated.
///
/// Indices go up to [`MarkSet::INDEX_MAX`]. Refuse the item that would get this one, or free an
/// index and use it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexTooLarge {
    /// The index asked for.
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

    /// An empty set with memory for no index yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            top: AtomicU64::new(0),
            roots: std::array::from_fn(|_| AtomicU64::new(0)),
            chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect(),
        }
    }

    /// Sees to it that `index` can be marked, by allocating the 4,096 places around it if they are
    /// not there yet. Done when an item gets its index, never where it is marked.
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

    /// Marks `index`, and says whether the whole set was empty: the caller then wakes the drainer.
    ///
    /// A call that says so may turn out to have been for nothing, when a drainer that was at work
    /// has taken the mark along; it never fails to say so when a drainer would not come otherwise.
    ///
    /// # Panics
    ///
    /// When `index` has not been [ensured](Self::ensure).
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

    /// Takes the mark of `index` away, and returns whether it was there.
    ///
    /// An index that a drain in progress has taken but not handed out yet counts as not there, and
    /// is still handed out. The set may go on saying that it is not empty until it is next drained.
    #[inline]
    pub fn unmark(&self, index: u32) -> bool {
        let place = Place::of(index);
        self.chunk(place).is_some_and(|chunk| {
            let mask = 1 << place.bit;
            chunk.words[place.word].fetch_and(!mask, Ordering::AcqRel) & mask != 0
        })
    }

    /// Whether no index was marked at some moment during the call, those aside that a drain in
    /// progress has taken.
    ///
    /// After [`unmark`](Self::unmark), or just after a drain, it may say `false` of an empty set;
    /// draining puts that right.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.top.load(Ordering::Acquire) == 0
    }

    /// The chunk of a place; `None` when it has not been allocated.
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

/// Sets a bit, and returns whether the word was empty.
///
/// SYNC POINT, pairs with `take_bits` in both directions. Released: whoever takes the bit finds
/// what lies below it. Acquired: a marker that finds a word emptied comes after the drainer that
/// emptied it in every word above, so that its bits there are not taken along with older ones.
#[inline]
fn set_bit(word: &AtomicU64, bit: usize) -> bool {
    let was_empty = word.fetch_or(1 << bit, Ordering::SeqCst) == 0;
    // loom takes such operations for acquire and release only.
    #[cfg(loom)]
    crate::sync::fence(Ordering::SeqCst);
    was_empty
}

/// Sets a bit unless it is set, and returns whether the word was empty.
///
/// SYNC POINT, pairs with `take_bits`, both sequentially consistent. The marker writes the word
/// below, then looks here; the drainer takes the bit here, then the word below. So either the
/// marker finds the bit taken and sets it anew, or the drainer finds what the marker wrote.
#[inline]
fn see_to_bit(word: &AtomicU64, bit: usize) -> bool {
    word.load(Ordering::SeqCst) & (1 << bit) == 0 && set_bit(word, bit)
}
