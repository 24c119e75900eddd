//! The elements that stay behind when a writer goes.

use crate::stream::options::ElementForm;
use crate::stream::output::RingBytes;
use crate::stream::walk::walk;
use crate::stream::writer::Writer;

/// The elements that stay behind when a writer goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Left {
    /// Number of elements that were written and that the reader is not known to have.
    pub elements: u64,
    /// Of these, the number that were in flight when the connection was lost: the reader may have
    /// them. 0 once the two ends have settled it.
    pub in_doubt: u64,
}

impl Writer {
    pub(in crate::stream) fn left(&self, ring: &dyn RingBytes) -> Left {
        let elements_at = |position: u64| {
            if position < self.kept.boundary() {
                return self.elements_behind(position);
            }
            let mut at = self.kept.clone();
            let len = position.saturating_sub(at.position());
            walk(&mut at, ring, len, u64::MAX);
            at.elements()
        };
        let arrived = elements_at(self.arrived);
        let written = match self.form {
            ElementForm::Fixed(_) => elements_at(self.written),
            ElementForm::Variable => self.written_elements,
        };
        let elements = written.saturating_sub(arrived);
        Left {
            elements,
            in_doubt: elements_at(self.reached).saturating_sub(arrived),
        }
    }
}
