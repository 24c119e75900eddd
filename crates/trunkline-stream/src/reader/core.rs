//! The reading end, in bytes: what every kind of reader does.

use std::sync::Arc;
use std::time::Duration;

use trunkline_net::{Clock, Link};
use trunkline_proto::stream::{ElementForm, ReaderLink, StreamFault};
use trunkline_ring::ElementConsumer;

use super::journaled::Commits;
use crate::element;
use crate::end::{End, ReaderEnd};
use crate::error::StreamError;
use crate::rendezvous::Registration;
use crate::wait::{Waits, deadline};

pub(crate) struct ReaderCore {
    pub(crate) link: Arc<Link<End<ReaderEnd>>>,
    pub(crate) ring: ElementConsumer,
    pub(crate) form: ElementForm,
    /// When the program has read up to here, the writer waits for credit.
    credit_at: u64,
    /// It has a journal.
    pub(super) journal: Option<Commits>,
    pub(super) registration: Option<Registration>,
}

/// How many elements a read is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    Exactly(usize),
    Available,
}

impl ReaderCore {
    pub(crate) fn new(
        link: Arc<Link<End<ReaderEnd>>>,
        ring: ElementConsumer,
        form: ElementForm,
        registration: Option<Registration>,
    ) -> Self {
        Self {
            link,
            ring,
            form,
            credit_at: 0,
            journal: None,
            registration,
        }
    }

    pub(crate) fn capacity(&self) -> usize {
        // A capacity came as a usize.
        usize::try_from(self.ring.shape().capacity()).unwrap_or(usize::MAX)
    }

    /// Elements that can be read now.
    pub(crate) fn available(&mut self) -> usize {
        // Nobody but this program has the memory, so its positions are true.
        let (_, elements) = self.ring.available().unwrap_or((0, 0));
        usize::try_from(elements).unwrap_or(usize::MAX)
    }

    /// Waits until the elements are there, and says how many the call gets: all that it wants, or
    /// what is left of a stream that has ended (NS-48).
    pub(crate) async fn wait_for(
        &mut self,
        waits: &impl Waits,
        wanted: Wanted,
        timeout: Option<Duration>,
    ) -> Result<usize, StreamError> {
        if self.journal.is_some() {
            self.commit_before_read(waits).await?;
        }
        match wanted {
            Wanted::Exactly(count) if self.has(count) => Ok(count),
            Wanted::Exactly(count) => self.wait_long(waits, count, timeout).await,
            Wanted::Available => {
                let count = self.available();
                if count > 0 {
                    return Ok(count);
                }
                // What has arrived and was not taken in yet is available too; and an end is told.
                match self.wait_long(waits, 1, Some(Duration::ZERO)).await {
                    Ok(_) => Ok(self.available()),
                    Err(StreamError::Timeout { .. }) => Ok(0),
                    Err(error) => Err(error),
                }
            }
        }
    }

    #[inline]
    fn has(&mut self, count: usize) -> bool {
        let bytes = match self.form {
            ElementForm::Fixed(size) => (count as u64).saturating_mul(u64::from(size)),
            ElementForm::Variable => 0,
        };
        self.ring.has(bytes, count as u64).unwrap_or(false)
    }

    async fn wait_long(
        &mut self,
        waits: &impl Waits,
        count: usize,
        timeout: Option<Duration>,
    ) -> Result<usize, StreamError> {
        if count as u64 > self.ring.shape().capacity() {
            return Err(StreamError::TooMany {
                asked: count,
                capacity: self.capacity(),
            });
        }
        let link = self.link.clone();
        let found = waits.wait(&link, deadline(timeout), |end, _| {
            end.look();
            if self.has(count) {
                return Some(Ok(count));
            }
            if let Some(error) = end.journal_error() {
                // What was stored by now may be read.
                let left = self.available();
                return Some(if left > 0 {
                    Ok(left)
                } else {
                    Err(error.into())
                });
            }
            if self.has(count) {
                return Some(Ok(count));
            }
            let error = over(&end.link)?;
            // Everything that came is in the ring by now.
            let left = self.available();
            Some(if left > 0 { Ok(left) } else { Err(error) })
        });
        match found.await {
            Some(result) => result,
            None => Err(match timeout {
                Some(timeout) if !self.link.is_closed() => StreamError::Timeout {
                    timeout,
                    what: "not all of the elements have come",
                },
                _ => StreamError::Closed,
            }),
        }
    }

    /// The bytes of the next `count` elements, which are there.
    pub(crate) fn region(&mut self, count: usize) -> &[u8] {
        let position = self.ring.read();
        let bytes = match self.form {
            ElementForm::Fixed(size) => count * size as usize,
            ElementForm::Variable => {
                let (all, _) = self.ring.available().unwrap_or((0, 0));
                let all = usize::try_from(all).unwrap_or(0);
                let [bytes, _] = self.ring.region_at(position, all).unwrap_or_default();
                element::bytes_of(self.form, bytes, count).unwrap_or(0)
            }
        };
        self.known_region(bytes)
    }

    /// So many bytes of the next elements, which are known to be there.
    pub(crate) fn known_region(&self, bytes: usize) -> &[u8] {
        // Mirrored memory: it lies in one piece.
        let [bytes, _] = self
            .ring
            .region_at(self.ring.read(), bytes)
            .unwrap_or_default();
        bytes
    }

    /// The next elements were read: so many, of so many bytes.
    #[inline]
    pub(crate) fn release(&mut self, bytes: usize, count: usize) {
        self.ring.release(bytes as u64, count as u64);
        if self.ring.read() >= self.credit_at {
            self.give_credit();
        }
    }

    #[cold]
    fn give_credit(&mut self) {
        self.credit_at = self.link.with(|end, _, _| {
            end.look();
            end.link.wants_read_at()
        });
        // At least one element further, or every read would take the lock.
        self.credit_at = self.credit_at.max(self.ring.read() + 1);
    }

    /// Destroys the end: the writer is told how far it came.
    pub(crate) async fn close(&mut self, waits: &impl Waits) {
        self.commit_all();
        self.link.with(|end, _, _| {
            end.look();
            end.link.abort();
        });
        let soon = Clock::new().now().saturating_add(Duration::from_secs(1));
        let gone = |end: &mut End<ReaderEnd>, _| {
            (end.link.is_over() || !end.link.is_connected()).then_some(())
        };
        let _is_gone = waits.wait(&self.link, Some(soon), gone).await;
        self.finish_journal();
        self.link.close(soon);
        self.registration = None;
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

/// Why nothing more comes; what has come may still be read.
fn over(link: &ReaderLink) -> Option<StreamError> {
    // An end before a fault: the connection of a stream that has ended is gone too.
    if let Some(close) = link.end().filter(|close| close.position <= link.arrived()) {
        let missing = close.written.saturating_sub(close.position);
        return Some(match missing {
            0 => StreamError::Ended,
            missing => StreamError::Aborted { missing },
        });
    }
    match link.fault() {
        Some(fault) => Some(fault.clone().into()),
        None if link.is_over() => Some(StreamFault::Destroyed.into()),
        None => None,
    }
}
