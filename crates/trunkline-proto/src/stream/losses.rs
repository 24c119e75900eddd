//! The reader's record of elements that its writer has dropped.

use std::collections::VecDeque;

use super::input::malformed;
use super::options::LinkOptions;
use super::reader::Reader;
use super::walk::ElementWalk;
use crate::Disconnect;
use crate::message::stream::Lost;

/// Losses not yet reported to the program.
///
/// Losses between the same two elements are merged, and each loss is reported before the program
/// reads past it. The number of losses is therefore at most the number of elements in the buffer
/// plus one.
#[derive(Clone, Debug, Default)]
pub(super) struct Losses {
    may: bool,
    drops: bool,
    /// True if another writer may continue the stream after the last whole element.
    may_begin_anew: bool,
    pub(super) total: u64,
    /// For each loss, the number of elements before it and the number of missing elements.
    pub(super) open: VecDeque<(u64, u64)>,
}

impl Losses {
    pub(super) fn new(options: &LinkOptions) -> Self {
        Self {
            may: options.drops,
            may_begin_anew: options.dials_anybody(),
            ..Self::default()
        }
    }

    /// Returns true if the received part of an element may be lost with the connection.
    pub(super) fn are_possible(&self) -> bool {
        self.drops || self.may_begin_anew
    }

    /// Called when connected to a writer; `drops` is true if the writer may drop elements.
    pub(super) fn handle_writer(&mut self, drops: bool, is_first: bool) -> Result<(), String> {
        if drops && !self.may {
            return Err("it drops elements, but this end cannot handle loss reports".to_owned());
        }
        if !is_first && drops != self.drops {
            return Err("it drops elements now and did not before, or the reverse".to_owned());
        }
        self.drops = drops;
        Ok(())
    }
}

impl Reader {
    /// Discards the received part of an incomplete element if the element may be dropped or another
    /// writer may take over: the element is then either sent again from its beginning, or not at
    /// all. If the writer may drop elements, an announced end is also discarded.
    pub(super) fn forget_part(&mut self) {
        let has_all = self
            .close
            .is_some_and(|close| close.position == self.arrived.position());
        if self.losses.are_possible() && !has_all {
            self.begin_element();
            self.close = self.close.filter(|_| !self.losses.drops);
        }
    }

    fn begin_element(&mut self) {
        let (position, elements) = (self.arrived.boundary(), self.arrived.elements());
        self.arrived = ElementWalk::new(self.form, self.bytes_max, position, elements);
    }

    pub(super) fn handle_lost(&mut self, lost: &Lost) -> Result<(), Disconnect> {
        let boundary = self.arrived.boundary();
        if !self.losses.drops {
            return Err(malformed("elements are lost of a writer that drops none"));
        }
        if lost.position != boundary || self.close.is_some() {
            return Err(malformed(format!(
                "elements are lost at {} where {boundary} bytes have arrived",
                lost.position
            )));
        }
        let more = lost.lost.saturating_sub(self.losses.total);
        if more == 0 {
            return Err(malformed(format!(
                "{} elements are lost where {} were before",
                lost.lost, self.losses.total
            )));
        }
        self.begin_element();
        self.losses.total = lost.lost;
        let element = self.arrived.elements();
        match self.losses.open.back_mut() {
            Some((at, count)) if *at == element => *count = count.saturating_add(more),
            _ => self.losses.open.push_back((element, more)),
        }
        Ok(())
    }
}
