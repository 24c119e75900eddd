//! Answers in which each item is either a result or the fault that prevented it: OPENED, READINGS
//! and SNAPSHOT_ANSWER.
//!
//! `S` is the state that the encoding of an item inherits from the head and the preceding items.

use super::fault::put_fault;
use crate::decode::{Items, Payload};
use crate::{DecodeError, FaultRef, FrameWriter};

/// Smallest size of an item, in bytes.
const ITEM_BYTES_MIN: usize = 2;

#[derive(Debug)]
#[must_use = "a frame is complete only when it is finished"]
pub struct AnswersBuilder<'a, S> {
    pub(super) frame: FrameWriter<'a>,
    pub(super) state: S,
}

impl<S> AnswersBuilder<'_, S> {
    /// Reserves memory for an item with a long value; returns false if there is not enough memory.
    #[must_use]
    pub fn make_room(&mut self, bytes: usize) -> bool {
        self.frame.payload().try_reserve_exact(bytes).is_ok()
    }

    pub fn push_fault(&mut self, fault: FaultRef<'_>) {
        put_fault(self.frame.payload(), fault);
        self.frame.count_item();
    }

    pub fn count(&self) -> u32 {
        self.frame.count()
    }

    pub fn len_bytes(&self) -> usize {
        self.frame.len_bytes()
    }

    pub fn finish(self, more: bool) {
        self.frame.finish(more);
    }
}

/// Iterates over the items, each a result or the fault that prevented it.
#[derive(Clone, Debug)]
pub struct Answers<'a, S> {
    pub(super) first_index: u32,
    pub(super) items: Items<'a>,
    pub(super) state: S,
}

impl<'a, S> Answers<'a, S> {
    pub(super) fn of(
        first_index: u32,
        payload: Payload<'a>,
        count: u32,
        state: S,
    ) -> Result<Self, DecodeError> {
        Ok(Self {
            first_index,
            items: Items::new(payload, count, ITEM_BYTES_MIN)?,
            state,
        })
    }

    pub fn first_index(&self) -> u32 {
        self.first_index
    }

    pub fn left(&self) -> u32 {
        self.items.left()
    }
}
