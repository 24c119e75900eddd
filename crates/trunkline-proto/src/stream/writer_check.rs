//! Plausibility checks of a reader's reports.

use super::meeting::Mismatch;
use super::options::ElementForm;
use super::writer::Writer;
use crate::message::stream::{Ack, StreamEnd};

impl Writer {
    /// Checks an acknowledgement for impossible values.
    pub(super) fn check(&self, ack: &Ack) -> Result<(), String> {
        let went_back = ack.arrived < self.arrived
            || ack.read < self.read
            || ack.durable < self.durable
            || ack.credit_bytes < self.credit_bytes
            || ack.credit_elements < self.credit_elements;
        if went_back {
            return Err(format!(
                "the acknowledgement of {} bytes goes back behind an earlier one",
                ack.arrived
            ));
        }
        self.check_order(ack, self.handed)
    }

    pub(super) fn check_order(&self, ack: &Ack, handed: u64) -> Result<(), String> {
        let Ack {
            arrived,
            read,
            durable,
            credit_bytes,
            ..
        } = *ack;
        if arrived > handed {
            return Err(format!(
                "it acknowledges {arrived} bytes where {handed} were sent"
            ));
        }
        if read > arrived || durable > arrived {
            return Err(format!(
                "it has read {read} and stored {durable} bytes where {arrived} have arrived"
            ));
        }
        if credit_bytes > read.saturating_add(self.peer_bytes) {
            return Err(format!(
                "its credit goes to {credit_bytes}, beyond its buffer of {} bytes",
                self.peer_bytes
            ));
        }
        if let ElementForm::Fixed(size) = self.form {
            let element = u64::from(size.max(1));
            let read = read.checked_div(element).unwrap_or(0);
            if ack.credit_elements > read.saturating_add(self.peer_capacity) {
                return Err(format!(
                    "its credit goes to element {}, beyond its buffer of {} elements",
                    ack.credit_elements, self.peer_capacity
                ));
            }
        }
        Ok(())
    }

    /// Elements of variable size that are written, or about to be, may be as long as the previous
    /// reader's buffer allowed. A reader with a smaller buffer might never have room for the next
    /// one.
    pub(super) fn check_buffer(&self, peer: &StreamEnd) -> Result<(), Mismatch> {
        let is_known = self.form == ElementForm::Variable && self.peer_bytes < u64::MAX;
        if !is_known || peer.bytes_max >= self.peer_bytes {
            return Ok(());
        }
        Err(Mismatch::TooSmall(format!(
            "the buffer of {} holds {} bytes, that of the one whose place it takes held {}, and \
             elements may be as long: create it with one as large",
            peer.url, peer.bytes_max, self.peer_bytes
        )))
    }

    /// Checks the report of a returning reader for impossible values.
    pub(super) fn check_again(&self, at: &Ack) -> Result<(), String> {
        if at.arrived < self.arrived || at.read < self.read || at.durable < self.durable {
            return Err(format!(
                "it has {} bytes where it had {} before",
                at.arrived, self.arrived
            ));
        }
        Ok(())
    }
}
