//! Sets of item indices.

use std::collections::BTreeMap;

/// The indices of a subscription's items. They usually form a few ranges, because items are added
/// one after the other.
#[derive(Debug, Default)]
pub(crate) struct Indices {
    /// The end of each range, by its start.
    ranges: BTreeMap<u32, u32>,
    len: usize,
}

impl Indices {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.ranges.iter().flat_map(|(start, end)| *start..*end)
    }

    pub(crate) fn from(&self, index: u32) -> impl Iterator<Item = u32> {
        let within = self.ranges.range(..index).next_back();
        let within = within.map_or(0..0, |(_, end)| index..*end);
        let after = self.ranges.range(index..);
        within.chain(after.flat_map(|(start, end)| *start..*end))
    }

    pub(crate) fn insert(&mut self, index: u32) {
        self.len += 1;
        let mut end = index + 1;
        if let Some(after) = self.ranges.remove(&end) {
            end = after;
        }
        match self.ranges.range_mut(..index).next_back() {
            Some((_, before)) if *before == index => *before = end,
            _ => drop(self.ranges.insert(index, end)),
        }
    }

    pub(crate) fn pop(&mut self) -> Option<u32> {
        let mut last = self.ranges.last_entry()?;
        let (start, index) = (*last.key(), *last.get() - 1);
        match index == start {
            true => drop(last.remove()),
            false => *last.get_mut() = index,
        }
        self.len -= 1;
        Some(index)
    }

    pub(crate) fn remove(&mut self, index: u32) {
        let Some((start, end)) = self.ranges.range_mut(..=index).next_back() else {
            return;
        };
        if *end <= index {
            return;
        }
        self.len -= 1;
        let (start, old_end) = (*start, std::mem::replace(end, index));
        if start == index {
            self.ranges.remove(&start);
        }
        if index + 1 < old_end {
            self.ranges.insert(index + 1, old_end);
        }
    }
}
