//! How a reading end goes.

use std::time::Duration;

use trunkline_proto::stream::{ReaderLink, StreamClose};

use super::ReaderCore;
use crate::end::{End, ReaderEnd};
use crate::error::StreamError;
use crate::wait::Waits;

/// How long a reader that has everything waits, at most, for its writer to know that.
const LINGER: Duration = Duration::from_secs(3);

impl ReaderCore {
    /// Destroys the end: the writer is told how far it came.
    ///
    /// # Errors
    /// The journal could not be emptied.
    pub(crate) async fn destroy(&mut self, waits: &impl Waits) -> Result<(), StreamError> {
        self.commit_all();
        if self.link.with(|end, _, _| is_at_end(&end.link)) {
            let soon = self.link.now().saturating_add(LINGER);
            // Where that was lost with the connection, the writer comes again to be told: otherwise
            // it would not know what the reader had. One with a journal might be at its next stream
            // by now, and is not to be met as the one that had this one.
            let has_journal = self.journal.is_some();
            let told = |end: &mut End<ReaderEnd>, _| {
                let is_gone = has_journal && !end.link.is_connected();
                (end.link.is_over() || is_gone).then_some(())
            };
            let _is_told = self.link.wait(waits, Some(soon), told).await;
        }
        self.link.with(|end, _, _| {
            end.look();
            end.link.abort();
        });
        let soon = self.link.now().saturating_add(Duration::from_secs(1));
        let gone = |end: &mut End<ReaderEnd>, _| {
            (end.link.is_over() || !end.link.is_connected()).then_some(())
        };
        let _is_gone = self.link.wait(waits, Some(soon), gone).await;
        let emptied = self.finish_journal();
        self.link.close(soon);
        self.registration = None;
        Ok(emptied?)
    }

    /// Destroys an end without a journal, of which nothing can fail.
    pub(crate) async fn close(&mut self, waits: &impl Waits) {
        let _nothing = self.destroy(waits).await;
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

/// Whether everything has come, and the writer is not known to know.
fn is_at_end(link: &ReaderLink) -> bool {
    let has_end = |close: StreamClose| close.position <= link.arrived();
    !link.is_over() && link.end().is_some_and(has_end)
}
