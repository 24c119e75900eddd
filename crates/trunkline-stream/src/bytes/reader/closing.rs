//! Closing a reader.

use std::time::Duration;

use trunkline_proto::stream::{ReaderLink, StreamClose};

use super::ReaderCore;
use crate::end::{ReaderEnd, StreamEndpoint};
use crate::error::StreamError;
use crate::wait::Waiter;

/// Longest wait, once everything has arrived, for the writer to learn of it.
const LINGER: Duration = Duration::from_secs(3);

impl ReaderCore {
    /// Destroys the reader, and sends the writer the position that it reached.
    pub(crate) async fn destroy(&mut self, waiter: &impl Waiter) -> Result<(), StreamError> {
        self.commit_all();
        if self.link.with(|end, _, _| is_at_end(&end.link)) {
            let soon = self.link.now().saturating_add(LINGER);
            // If the final acknowledgement was lost with the connection, the writer reconnects to
            // get it; otherwise it would not know how much the reader has received. A writer with a
            // journal may already be in its next stream, and must not be mistaken for the writer of
            // this one.
            let has_journal = self.journal.is_some();
            let writer_knows = |end: &mut StreamEndpoint<ReaderEnd>, _| {
                let is_gone = has_journal && !end.link.is_connected();
                (end.link.is_over() || is_gone).then_some(())
            };
            let _writer_knows = self.link.wait(waiter, Some(soon), writer_knows).await;
        }
        self.link.with(|end, _, _| {
            end.poll_ring();
            end.link.abort();
        });
        let soon = self.link.now().saturating_add(Duration::from_secs(1));
        let gone = |end: &mut StreamEndpoint<ReaderEnd>, _| {
            (end.link.is_over() || !end.link.is_connected()).then_some(())
        };
        let _is_gone = self.link.wait(waiter, Some(soon), gone).await;
        let emptied = self.finish_journal();
        self.link.close(soon);
        self.registration = None;
        Ok(emptied?)
    }

    /// Destroys a reader without a journal, which cannot fail.
    pub(crate) async fn close(&mut self, waiter: &impl Waiter) {
        let _nothing = self.destroy(waiter).await;
    }
}

impl Drop for ReaderCore {
    fn drop(&mut self) {
        if self.journal.is_some() {
            self.leave();
        } else if !self.link.is_closed() {
            crate::wait::block(self.close(&crate::wait::Blocking));
        }
    }
}

/// Returns true if everything has arrived, but the writer may not know it yet.
fn is_at_end(link: &ReaderLink) -> bool {
    let has_end = |close: StreamClose| close.position <= link.arrived();
    !link.is_over() && link.end().is_some_and(has_end)
}
