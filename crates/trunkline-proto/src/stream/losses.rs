//! The reader's record of the elements that the writer has dropped.

use std::collections::VecDeque;

use super::input::malformed;
use super::options::LinkOptions;
use super::reader::Reader;
use super::walk::ElementWalk;
use crate::Disconnect;
use crate::message::stream::Lost;

/// The losses that are not yet reported to the program.
///
/// Losses between the same two elements are merged, and each loss is reported before the program
/// reads the next element. There is therefore at most one more loss than elements in the buffer.
#[derive(Clone, Debug, Default)]
pub(super) struct Losses {
    /// True if this reader can handle loss reports.
    is_supported: bool,
    /// True if the connected writer may drop elements.
    writer_drops: bool,
    /// True if another writer may continue the stream after the last whole element.
    may_change_writer: bool,
    /// Number of elements lost since the reader began.
    pub(super) total: u64,
    /// For each unreported loss: the number of elements before the loss, and the number of missing
    /// elements.
    pub(super) unreported: VecDeque<(u64, u64)>,
}

impl Losses {
    pub(super) fn new(options: &LinkOptions) -> Self {
        Self {
            is_supported: options.drops,
            may_change_writer: options.dials_anybody(),
            ..Self::default()
        }
    }

    /// Returns true if the received part of an element may be lost with the connection.
    pub(super) fn are_possible(&self) -> bool {
        self.writer_drops || self.may_change_writer
    }

    /// Called when connected to a writer; `drops` is true if the writer may drop elements.
    pub(super) fn handle_writer(&mut self, drops: bool, is_first: bool) -> Result<(), String> {
        if drops && !self.is_supported {
            return Err(
                "the writer drops elements, but this reader cannot handle loss reports".to_owned(),
            );
        }
        if !is_first && drops != self.writer_drops {
            return Err("the writer has changed whether it may drop elements".to_owned());
        }
        self.writer_drops = drops;
        Ok(())
    }
}

impl Reader {
    /// Discards the received bytes of an incomplete element if the element may be dropped or another
    /// writer may continue the stream. The element is then sent again from its beginning, or not at
    /// all. If the writer may drop elements, this also discards an announced end.
    pub(super) fn discard_partial_element(&mut self) {
        let has_all = self
            .close
            .is_some_and(|close| close.position == self.arrived.position());
        if self.losses.are_possible() && !has_all {
            self.rewind_to_boundary();
            self.close = self.close.filter(|_| !self.losses.writer_drops);
        }
    }

    fn rewind_to_boundary(&mut self) {
        let (position, elements) = (self.arrived.boundary(), self.arrived.elements());
        self.arrived = ElementWalk::new(self.form, self.bytes_max, position, elements);
    }

    pub(super) fn handle_lost(&mut self, lost: &Lost) -> Result<(), Disconnect> {
        let boundary = self.arrived.boundary();
        if !self.losses.writer_drops {
            return Err(malformed(
                "the writer reports lost elements, but it declared that it drops none",
            ));
        }
        if lost.position != boundary || self.close.is_some() {
            return Err(malformed(format!(
                "the writer reports elements as lost at {}, but {boundary} bytes have arrived",
                lost.position
            )));
        }
        let more = lost.lost.saturating_sub(self.losses.total);
        if more == 0 {
            return Err(malformed(format!(
                "the writer reports {} lost elements, but it reported {} before",
                lost.lost, self.losses.total
            )));
        }
        self.rewind_to_boundary();
        self.losses.total = lost.lost;
        let element = self.arrived.elements();
        match self.losses.unreported.back_mut() {
            Some((at, count)) if *at == element => *count = count.saturating_add(more),
            _ => self.losses.unreported.push_back((element, more)),
        }
        Ok(())
    }
}
