//! How a writing end goes, and what it leaves behind.

use std::time::Duration;

use trunkline_proto::stream::Left;

use super::WriterCore;
use crate::end::{End, WriterEnd};
use crate::journal::JournalError;
use crate::wait::Waits;

/// How long closing waits for what the writer still has, where nothing else is said.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Why the reader of a writer that was closed does not get everything.
pub(crate) const NOT_TAKEN_IN_TIME: &str =
    "it was closed, and the reader did not take what was left in time";

/// Why the reader of a writer that was aborted without a reason does not get everything.
pub(crate) const ABORTED: &str = "its program aborted it";

/// Why the writer of a program that panics is aborted.
pub(crate) const PANICKED: &str = "its program panicked";

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
    fn new(left: Left, journal: Option<JournalError>) -> Self {
        let Left { elements, in_doubt } = left;
        Self {
            elements,
            in_doubt,
            journal,
        }
    }
}

impl WriterCore {
    /// Nothing more is written: waits until the reader has everything, and says what it lacks. What
    /// it has not by then is given up, and the reader told so: otherwise it would wait for it. With
    /// a journal it is kept.
    pub(crate) async fn close(&mut self, waits: &impl Waits, timeout: Option<Duration>) -> Closed {
        let ended = self.link.with(|end, _, _| {
            end.end_journal()?;
            end.look();
            end.link.close();
            Ok(())
        });
        if let Err(error) = ended {
            // The stream goes on in the next life.
            return self.end(Some(error));
        }
        let closed = |end: &mut End<WriterEnd>, _| end.link.is_closed().then_some(());
        let is_closed = self
            .link
            .wait(waits, self.link.deadline(timeout), closed)
            .await;
        match is_closed {
            Some(()) => self.end(None),
            // The rest is for the next life of this end.
            None if self.journal.is_some() => self.end(None),
            None => self.abort(waits, NOT_TAKEN_IN_TIME).await,
        }
    }

    /// Nothing more is sent, and the reader is told why.
    pub(crate) async fn abort(&mut self, waits: &impl Waits, reason: &str) -> Closed {
        self.link.with(|end, _, _| {
            end.look();
            end.link.abort(reason);
        });
        let soon = self.link.now().saturating_add(Duration::from_secs(1));
        // Until the reader has said how far it came, or the connection is gone.
        let settled = |end: &mut End<WriterEnd>, _| end.link.is_closed().then_some(());
        let _is_settled = self.link.wait(waits, Some(soon), settled).await;
        self.end(None)
    }

    /// `failed`: what its journal could not be told.
    fn end(&mut self, failed: Option<JournalError>) -> Closed {
        let left = self.link.with(|end, _, _| end.left());
        let emptied = self.leave_journal();
        self.link.close(self.link.now());
        self.registration = None;
        Closed::new(left, failed.or(emptied.err()))
    }
}

impl Drop for WriterCore {
    fn drop(&mut self) {
        if self.journal.is_some() {
            self.leave();
        } else if self.link.is_closed() {
        } else if std::thread::panicking() {
            // What it has written is not the whole, and its reader is not to take it for that.
            // Without waiting: what would be waited for may be what has panicked.
            self.link.with(|end, _, _| {
                end.look();
                end.link.abort(PANICKED);
            });
            self.end(None);
        } else {
            crate::wait::block(self.close(&crate::wait::Blocking, Some(CLOSE_TIMEOUT)));
        }
    }
}
