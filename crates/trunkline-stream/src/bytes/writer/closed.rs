//! Closes and aborts a writer.

use std::time::Duration;

use trunkline_proto::stream::Left;

use super::WriterCore;
use crate::end::{StreamEndpoint, WriterEnd};
use crate::journal::JournalError;
use crate::wait::Waiter;

/// Default time for which closing a writer waits for the reader to receive everything.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Reason sent to the reader if the writer is closed before the reader has received everything.
pub(crate) const NOT_RECEIVED_IN_TIME: &str =
    "the writer was closed, and the reader did not receive the remaining elements in time";

/// Reason sent to the reader if the writer is aborted without a reason.
pub(crate) const ABORTED: &str = "the writer's program aborted the stream";

/// Reason sent to the reader if the writer's program panics.
pub(crate) const PANICKED: &str = "the writer's program panicked";

/// The result of closing or aborting a writer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Closed {
    /// Number of written elements that the reader has not confirmed.
    pub elements: u64,
    /// Number of these elements that were in flight when the connection was lost; the reader may
    /// have received them. 0 once the two endpoints have determined how many arrived.
    pub in_doubt: u64,
    /// The reason why the end of the stream is not in the journal, or why the journal was not
    /// emptied. An endpoint created with the same journal continues this stream, and can then be
    /// closed.
    pub journal_error: Option<JournalError>,
}

impl WriterCore {
    /// Ends the stream, waits up to `timeout` for the reader to receive everything, and reports how
    /// many elements the reader has not received. After a timeout, a journal keeps those elements.
    /// Without a journal, they are discarded and the reader is notified, because the reader would
    /// otherwise wait for them.
    pub(crate) async fn close(
        &mut self,
        waiter: &impl Waiter,
        timeout: Option<Duration>,
    ) -> Closed {
        let ended = self.link.with(|end, _, _| {
            end.end_journal()?;
            end.poll_ring();
            end.link.close();
            Ok(())
        });
        if let Err(error) = ended {
            // The stream continues in the next incarnation.
            return self.end(Some(error));
        }
        let closed = |end: &mut StreamEndpoint<WriterEnd>, _| end.link.is_closed().then_some(());
        let is_closed = self
            .link
            .wait(waiter, self.link.deadline(timeout), closed)
            .await;
        match is_closed {
            Some(()) => self.end(None),
            // The next incarnation of this endpoint sends the remaining elements.
            None if self.journal.is_some() => self.end(None),
            None => self.abort(waiter, NOT_RECEIVED_IN_TIME).await,
        }
    }

    /// Stops sending elements, and sends the reader the reason. Waits at most one second to learn how
    /// many elements the reader has received.
    pub(crate) async fn abort(&mut self, waiter: &impl Waiter, reason: &str) -> Closed {
        self.link.with(|end, _, _| {
            end.poll_ring();
            end.link.abort(reason);
        });
        let deadline = self.link.now().saturating_add(Duration::from_secs(1));
        // The link is closed once the reader has reported its position, or the connection is gone.
        let closed = |end: &mut StreamEndpoint<WriterEnd>, _| end.link.is_closed().then_some(());
        let _is_closed = self.link.wait(waiter, Some(deadline), closed).await;
        self.end(None)
    }

    /// Closes the link and releases the journal. `journal_error` is the reason why the end of the
    /// stream could not be recorded in the journal, if any.
    fn end(&mut self, journal_error: Option<JournalError>) -> Closed {
        let Left { elements, in_doubt } = self.link.with(|end, _, _| end.left());
        let emptied = self.release_journal();
        self.link.close(self.link.now());
        self.registration = None;
        Closed {
            elements,
            in_doubt,
            journal_error: journal_error.or(emptied.err()),
        }
    }
}

impl Drop for WriterCore {
    fn drop(&mut self) {
        if self.journal.is_some() {
            self.suspend();
        } else if self.link.is_closed() {
            // The program has already closed or aborted the writer.
        } else if std::thread::panicking() {
            // The stream is incomplete, and the reader must not treat it as complete. This does not
            // wait, because the reader may belong to the part of the program that panicked.
            self.link.with(|end, _, _| {
                end.poll_ring();
                end.link.abort(PANICKED);
            });
            self.end(None);
        } else {
            crate::wait::block(self.close(&crate::wait::Blocking, Some(CLOSE_TIMEOUT)));
        }
    }
}
