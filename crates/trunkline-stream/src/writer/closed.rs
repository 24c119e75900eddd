//! What a writing end leaves behind.

use trunkline_proto::stream::Left;

use crate::journal::JournalError;

/// What became of a writing end that its program has closed or destroyed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Closed {
    /// Elements that were written and that the reader is not known to have.
    pub elements: u64,
    /// Of those the ones that were on their way when the connection was lost: the reader may have
    /// them. 0 when the two ends have settled it.
    pub in_doubt: u64,
    /// Why the journal does not know that the stream has ended, or was not emptied: an endpoint
    /// that is created with it again goes on with this stream, and may be closed then.
    pub journal: Option<JournalError>,
}

impl Closed {
    pub(super) fn new(left: Left, journal: Option<JournalError>) -> Self {
        let Left { elements, in_doubt } = left;
        Self {
            elements,
            in_doubt,
            journal,
        }
    }
}
