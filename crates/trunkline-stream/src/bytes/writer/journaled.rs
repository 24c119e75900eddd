//! Writes elements into a journal.

use std::time::Duration;

use trunkline_proto::message::stream::Until;

use super::{WriterCore, end_of_stream_error};
use crate::error::StreamError;
use crate::journal::{Durability, JournalError};
use crate::wait::Waiter;

impl WriterCore {
    pub(crate) fn with_journal(mut self, durability: Durability) -> Self {
        self.journal = Some(durability);
        self
    }

    /// Writes all elements, or none. If the future is dropped while it waits for the disk, the
    /// elements have been written.
    #[cold]
    pub(super) async fn write_journaled(
        &mut self,
        waiter: &impl Waiter,
        bytes: &[u8],
        elements: usize,
        timeout: Option<Duration>,
    ) -> Result<(), StreamError> {
        self.check_size(bytes.len(), elements)?;
        let count = elements as u64;
        // Accessing the endpoint sends the elements at once, if possible.
        let written = self
            .link
            .with(|end, _, _| match end_of_stream_error(&end.link) {
                Some(error) => Err(error),
                None => end.write(bytes, count),
            })?;
        let mark = match written {
            Some(mark) => mark,
            None => {
                let found = self
                    .link
                    .wait(waiter, self.link.deadline(timeout), |end, _| {
                        if let Some(error) = end_of_stream_error(&end.link) {
                            return Some(Err(error));
                        }
                        end.write(bytes, count).transpose()
                    });
                match found.await {
                    Some(mark) => mark?,
                    None => {
                        self.link
                            .with(|end, _, _| end.link.set_short_of_room(false));
                        let what = "the journal has no room for all of the elements";
                        return Err(self.link.wait_error(timeout, what));
                    }
                }
            }
        };
        if self.journal == Some(Durability::Disk) {
            let durable = self.link.wait(waiter, None, |end, _| {
                let is_durable = end.is_written(mark);
                let is_durable = is_durable.map(|is_durable| is_durable.then_some(()));
                is_durable.transpose()
            });
            durable.await.unwrap_or(Err(StreamError::Closed))?;
        }
        Ok(())
    }

    /// # Errors
    /// The requested stage can never be reached.
    pub(super) fn check_durable(&self, until: Until) -> Result<(), StreamError> {
        self.link.with(|end, _, _| {
            if let Some(error) = end.journal_error() {
                return Err(error.into());
            }
            match end.link.peer() {
                Some(peer) if until == Until::Durable && !peer.has_journal => {
                    Err(StreamError::NoJournal)
                }
                _ => Ok(()),
            }
        })
    }

    /// Leaves the journal to the next incarnation, or empties it if the stream has ended.
    pub(super) fn release_journal(&mut self) -> Result<(), JournalError> {
        let lineage = self.link.new_lineage();
        self.link.with(|end, _, _| end.release_journal(lineage))
    }

    /// Closes the writer without ending the stream.
    pub(super) fn suspend(&mut self) {
        if !self.link.is_closed() {
            // No caller can handle the error, but the properties show it.
            let _ = self.release_journal();
            self.link.close(self.link.now());
            self.registration = None;
        }
    }
}
