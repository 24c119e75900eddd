//! Draining a mark set, from the top level down and in rounds.

use super::{Chunk, GROUP_CHUNKS, MarkSet, Place};
use crate::sync::{AtomicU64, Ordering};

/// The index at which a drainer continues next time: one after the last index returned.
///
/// The cursor makes draining fair. An index that is marked again and again is returned once per
/// round, after every other index that was marked before the round reached it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cursor {
    next: u32,
}

impl Cursor {
    /// Continues at `index`, for example one that was taken but not processed.
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
    /// for them: call again.
    pub more: bool,
}

impl MarkSet {
    /// Removes up to `limit` indices from the set and passes each to `each`.
    ///
    /// An index is removed before it is passed on. One that is marked again meanwhile is delivered
    /// again, by this call or after the wake-up that the mark requests.
    ///
    /// # Panics
    ///
    /// Only if `each` panics; the marks not passed on are then in the set again, but no wake-up
    /// will be requested for them.
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

    /// Returns an iterator that removes indices from the set, from `cursor` on, around, and up to
    /// it.
    ///
    /// Dropping it puts back what it has not returned; see [`Drain::has_more`]. It is meant for one
    /// drain at a time. Several at once lose nothing, but each sees only part of the marks.
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
            top_around: top & before_start,
        }
    }
}

/// Removes marked indices from a [`MarkSet`]; created by [`MarkSet::drain`].
///
/// Its fields hold the bits that it has taken out of the set but not processed, one word per level.
/// In the first pass it takes only bits at or after the start; it takes the others after wrapping
/// around.
#[derive(Debug)]
pub struct Drain<'a> {
    set: &'a MarkSet,
    cursor: &'a mut Cursor,
    /// The start; `None` after wrapping around.
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
    top_around: u64,
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
        self.word | self.summary | self.root | self.top | self.top_around != 0
    }

    /// Moves to the next word, chunk or group that may hold marks; returns false if there is none.
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
        } else if self.top_around != 0 {
            self.top = std::mem::take(&mut self.top_around);
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
        if bits.is_left {
            self.come_back_to_group();
        }
    }

    fn enter_chunk(&mut self) {
        let Some(chunk) = self.chunk() else { return };
        let is_start = |s: &Place| (s.group, s.chunk) == (self.place.group, self.place.chunk);
        let first = self.start.filter(is_start).map_or(0, |s| s.word);
        let bits = take_bits(&chunk.summary, first);
        self.summary = bits.taken;
        if bits.is_left {
            self.come_back_to_chunk();
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
        if bits.is_left {
            put_bits(&chunk.summary, 1 << self.place.word);
            self.come_back_to_chunk();
        }
    }

    /// Puts back the bit of this chunk, which still holds marks before the start.
    fn come_back_to_chunk(&mut self) {
        put_bits(&self.set.roots[self.place.group], 1 << self.place.chunk);
        self.come_back_to_group();
    }

    fn come_back_to_group(&mut self) {
        self.top_around |= 1 << self.place.group;
    }

    /// Returns the chunk of the current place. It exists because its bit was set.
    fn chunk(&self) -> Option<&'a Chunk> {
        self.set.chunk(self.place)
    }
}

impl Drop for Drain<'_> {
    /// Puts back what was taken and not returned: marks first, then the bits that lead to them.
    fn drop(&mut self) {
        let Place {
            group,
            chunk: in_group,
            word,
            ..
        } = self.place;
        if let Some(chunk) = self.chunk() {
            if self.word != 0 {
                put_bits(&chunk.words[word], self.word);
                self.summary |= 1 << word;
            }
            if self.summary != 0 {
                put_bits(&chunk.summary, self.summary);
                self.root |= 1 << in_group;
            }
        }
        if self.root != 0 {
            put_bits(&self.set.roots[group], self.root);
            self.top |= 1 << group;
        }
        let top = self.top | self.top_around;
        if top != 0 {
            put_bits(&self.set.top, top);
        }
    }
}

/// The bits taken out of a word.
struct Bits {
    taken: u64,
    /// True if bits before the first requested one remain in the word.
    is_left: bool,
}

/// Takes the bits from `first` on out of a word.
///
/// SYNC POINT, pairs with `set_bit` in both directions. Acquire: what lies below the bits taken is
/// there, and so is what the markers did before they marked. Release: a marker that finds the word
/// empty from now on comes after the bits above were taken out.
#[inline]
fn take_bits(word: &AtomicU64, first: usize) -> Bits {
    let kept = (1 << first) - 1;
    let before = if kept == 0 {
        word.swap(0, Ordering::SeqCst)
    } else {
        word.fetch_and(kept, Ordering::SeqCst)
    };
    Bits {
        taken: before & !kept,
        is_left: before & kept != 0,
    }
}

/// Sets bits for marks that have been reported before, so no wake-up is due.
#[inline]
fn put_bits(word: &AtomicU64, bits: u64) {
    word.fetch_or(bits, Ordering::SeqCst);
}

/// Removes the lowest bit from a local word.
#[inline]
fn take_lowest(word: &mut u64) -> Option<usize> {
    let bit = (*word != 0).then(|| word.trailing_zeros() as usize)?;
    *word &= *word - 1;
    Some(bit)
}

const _: () = assert!(GROUP_CHUNKS <= 64 && super::CHUNK_WORDS <= 64 && super::GROUPS <= 64);
