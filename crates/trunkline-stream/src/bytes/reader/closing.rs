//! Closes a reader.

use std::time::Duration;

use trunkline_proto::stream::{ReaderLink, StreamClose};

use super::ReaderCore;
use crate::end::{ReaderEnd, StreamEndpoint};
use crate::error::StreamError;
use crate::wait::Waiter;

/// Maximum time for which a reader that has received everything waits until the writer has the final
/// acknowledgement.
const FINAL_ACK_TIMEOUT: Duration = Duration::from_secs(3);

impl ReaderCore {
    /// Destroys the reader, and sends the writer the position that it reached.
    pub(crate) async fn destroy(&mut self, waiter: &impl Waiter) -> Result<(), StreamError> {
        self.commit_all();
        if self.link.with(|end, _, _| is_at_end(&end.link)) {
            let deadline = self.link.now().saturating_add(FINAL_ACK_TIMEOUT);
            // If the final acknowledgement was lost with the connection, the writer reconnects to
            // get it. Otherwise the writer would not know how much the reader has received. A writer
            // with a journal may already have begun its next stream, and must not be mistaken for the
            // writer of this stream.
            let has_journal = self.journal.is_some();
            let writer_knows = |end: &mut StreamEndpoint<ReaderEnd>, _| {
                let is_gone = has_journal && !end.link.is_connected();
                (end.link.is_over() || is_gone).then_some(())
            };
            let _writer_knows = self.link.wait(waiter, Some(deadline), writer_knows).await;
        }
        self.link.with(|end, _, _| {
            end.poll_ring();
            end.link.abort();
        });
        let deadline = self.link.now().saturating_add(Duration::from_secs(1));
        let gone = |end: &mut StreamEndpoint<ReaderEnd>, _| {
            (end.link.is_over() || !end.link.is_connected()).then_some(())
        };
        let _is_gone = self.link.wait(waiter, Some(deadline), gone).await;
        let emptied = self.finish_journal();
        self.link.close(deadline);
        self.registration = None;
        Ok(emptied?)
    }

    /// Destroys a reader without a journal, which cannot fail.
    pub(crate) async fn close(&mut self, waiter: &impl Waiter) {
        let _ = self.destroy(waiter).await;
    }
}

impl Drop for ReaderCore {
    fn drop(&mut self) {
        if self.journal.is_some() {
            self.suspend();
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
