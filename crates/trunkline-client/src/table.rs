//! Tables and hashes that are identical in every run, so that the simulator can replay this crate
//! exactly.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// A map whose keys are numbers that the engine or this crate chose.
pub(crate) type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<MixHasher>>;
/// A map whose keys are names that the program chose or found.
pub(crate) type NameMap<V> = HashMap<Arc<str>, V, BuildHasherDefault<MixHasher>>;

/// The key of a value in a [`Slab`]. After the value is removed, the key never matches again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Key {
    pub(crate) index: u32,
    generation: u32,
}

impl Key {
    /// A key that matches no value, because indices count up from 0 and never become this large.
    pub(crate) const NOBODY: Key = Key {
        index: u32::MAX,
        generation: 0,
    };
}

/// A list of values whose indices never change.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Option<(u32, T)>>,
    free: Vec<u32>,
    /// The generation of the last inserted value. It is not stored per slot, so an empty slab can
    /// free its memory.
    generation: u32,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            generation: 0,
        }
    }
}

impl<T> Slab<T> {
    pub(crate) fn reserve(&mut self, more: usize) {
        self.slots.reserve(more.saturating_sub(self.free.len()));
    }

    /// Adds a value. The callers limit the number of values to far below 2^32.
    pub(crate) fn insert(&mut self, value: T) -> Key {
        self.generation = self.generation.wrapping_add(1);
        let generation = self.generation;
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.slots.push(None);
                (self.slots.len() - 1) as u32
            }
        };
        if let Some(slot) = self.slots.get_mut(index as usize) {
            *slot = Some((generation, value));
        }
        Key { index, generation }
    }

    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        match self.slots.get(key.index as usize)? {
            Some((generation, value)) if *generation == key.generation => Some(value),
            _ => None,
        }
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        match self.slots.get_mut(key.index as usize)? {
            Some((generation, value)) if *generation == key.generation => Some(value),
            _ => None,
        }
    }

    /// Returns the value at an index, whatever its generation.
    pub(crate) fn at_mut(&mut self, index: u32) -> Option<&mut T> {
        self.slots
            .get_mut(index as usize)?
            .as_mut()
            .map(|(_, value)| value)
    }

    pub(crate) fn at(&self, index: u32) -> Option<&T> {
        self.slots
            .get(index as usize)?
            .as_ref()
            .map(|(_, value)| value)
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        self.get(key)?;
        let (_, value) = self.slots.get_mut(key.index as usize)?.take()?;
        self.free.push(key.index);
        if self.free.len() == self.slots.len() {
            self.slots = Vec::new();
            self.free = Vec::new();
        }
        Some(value)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| {
            let (generation, value) = slot.as_ref()?;
            Some((
                Key {
                    index: index as u32,
                    generation: *generation,
                },
                value,
            ))
        })
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().flatten().map(|(_, value)| value)
    }
}

/// A list that usually has at most one element. It then needs no allocation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum Few<T> {
    #[default]
    None,
    One(T),
    Many(Vec<T>),
}

impl<T: Copy> Few<T> {
    pub(crate) fn as_slice(&self) -> &[T] {
        match self {
            Few::None => &[],
            Few::One(element) => std::slice::from_ref(element),
            Few::Many(elements) => elements,
        }
    }

    pub(crate) fn push(&mut self, element: T) {
        match self {
            Few::None => *self = Few::One(element),
            Few::One(first) => *self = Few::Many(vec![*first, element]),
            Few::Many(elements) => elements.push(element),
        }
    }

    pub(crate) fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        match self {
            Few::One(element) if !keep(element) => *self = Few::None,
            Few::None | Few::One(_) => {}
            Few::Many(elements) => {
                elements.retain(keep);
                match elements[..] {
                    [] => *self = Few::None,
                    [last] => *self = Few::One(last),
                    _ => {}
                }
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Few::None)
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.as_slice().iter()
    }
}

/// A hasher that spreads numbers and names over 64 bits, with one multiplication per number or per
/// 8 bytes, and another at the end.
#[derive(Clone, Copy, Default)]
pub(crate) struct MixHasher(u64);

const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for MixHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (chunks, rest) = bytes.as_chunks::<8>();
        for chunk in chunks {
            self.write_u64(u64::from_le_bytes(*chunk));
        }
        let mut last = [0; 8];
        if let Some(last) = last.get_mut(..rest.len()) {
            last.copy_from_slice(rest);
        }
        self.write_u64(u64::from_le_bytes(last) ^ bytes.len() as u64);
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(u64::from(number));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(29) ^ number).wrapping_mul(MIX);
    }

    fn finish(&self) -> u64 {
        (self.0 ^ (self.0 >> 32)).wrapping_mul(MIX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_key_finds_no_entry() {
        let mut sut = Slab::default();
        let first = sut.insert("a");
        assert_eq!(sut.remove(first), Some("a"));
        let second = sut.insert("b");
        assert_eq!((sut.get(first), sut.get(second)), (None, Some(&"b")));
        assert_eq!((sut.remove(first), sut.len()), (None, 1));
    }

    #[test]
    fn empty_slab_uses_no_memory() {
        let mut sut = Slab::default();
        let keys: Vec<Key> = (0..1000).map(|n| sut.insert(n)).collect();
        keys.iter()
            .for_each(|key| assert!(sut.remove(*key).is_some()));
        assert_eq!((sut.slots.capacity(), sut.free.capacity()), (0, 0));
    }

    #[test]
    fn small_tables_keep_insertion_order() {
        let mut sut = Few::default();
        assert!(sut.is_empty());
        for count in 1..5 {
            sut.push(count);
            assert_eq!(sut.as_slice(), (1..=count).collect::<Vec<i32>>());
        }
        for (removed, remaining) in [
            (2, vec![1, 3, 4]),
            (1, vec![3, 4]),
            (4, vec![3]),
            (3, vec![]),
        ] {
            sut.retain(|element| *element != removed);
            assert_eq!(sut.as_slice(), remaining);
        }
        assert_eq!(sut, Few::None);
    }

    #[test]
    fn the_hash_is_the_same_in_every_run() {
        let mut sut = MixHasher::default();
        sut.write_u32(7);
        assert_eq!(sut.finish(), {
            let mut again = MixHasher::default();
            again.write_u32(7);
            again.finish()
        });
        assert_ne!(sut.finish(), MixHasher::default().finish());
    }
}
