//! The content and the timing of acknowledgements.

use crate::message::stream::Ack;
use crate::stream::options::ElementForm;
use crate::stream::reader::Reader;

impl Reader {
    /// The acknowledgement that could be sent now.
    pub(super) fn now(&self) -> Ack {
        let arrived = self.arrived.position();
        let has_all = self.close.is_some_and(|close| close.position == arrived);
        Ack {
            // No part of an element counts as arrived while the element may still be dropped.
            arrived: match self.losses.are_possible() && !has_all {
                true => self.arrived.boundary(),
                false => arrived,
            },
            read: self.read,
            durable: self.durable,
            credit_bytes: self.read.saturating_add(self.bytes_max),
            credit_elements: self.read_elements.saturating_add(self.capacity),
            has_end: self.is_end_safe && has_all,
        }
    }

    /// Additional credit that is worth its own frame, in bytes: a quarter of the buffer.
    pub(in crate::stream) fn credit_step(&self) -> u64 {
        match self.form {
            ElementForm::Fixed(size) => (self.capacity >> 2).max(1).saturating_mul(u64::from(size)),
            ElementForm::Variable => (self.bytes_max >> 2).max(1),
        }
    }

    /// Returns true if the acknowledgement must be sent at once.
    pub(super) fn is_urgent(&self, now: &Ack) -> bool {
        let told = &self.told;
        let arrived_step = (self.bytes_max.min(self.peer_bytes) >> 2).max(1);
        let more = |now: u64, told: u64, step: u64| now.saturating_sub(told) >= step;
        let is_asked = |ask: u64, now: u64, told: u64| ask > told && now >= ask;
        let [available, read, durable] = self.asks;
        // The writer has no credit left, and the program here has no whole element to read.
        let is_starved = now.read == self.arrived.boundary()
            && told.credit_bytes == self.arrived.position()
            && now.credit_bytes > told.credit_bytes;
        more(now.arrived, told.arrived, arrived_step)
            || more(now.credit_bytes, told.credit_bytes, self.credit_step())
            || more(
                now.credit_elements,
                told.credit_elements,
                (self.capacity >> 2).max(1),
            )
            || is_asked(available, now.arrived, told.arrived)
            || is_asked(read, now.read, told.read)
            || is_asked(durable, now.durable, told.durable)
            || (self.is_writer_short && now.arrived > told.arrived)
            || now.has_end != told.has_end
            || is_starved
    }
}
