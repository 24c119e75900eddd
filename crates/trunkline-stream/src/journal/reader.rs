//! Implements the journal of a reader, which keeps received data until the program has processed it.

use std::io;
use std::sync::Arc;

use trunkline_proto::stream::{ElementForm, ElementWalk, Pair, Secret, StreamClose};

use super::bounds::Bounds;
use super::disk::Disk;
use super::error::JournalError;
use super::log::Log;
use super::record::{Lineage, RecordKind};
use super::recover::{self, Owner};
use super::sync_job::{SyncJob, Synced};
use super::{Durability, form_of, forward_to_log};

/// The journal of a reader.
///
/// ```text
///   read <= arrived, durable <= arrived
/// ```
/// After a crash, the reader continues with the data that had arrived, from `read` on. `durable`
/// can be smaller than `read`, because data that was read is no longer needed.
#[derive(Debug)]
pub struct ReaderJournal {
    log: Log,
    durability: Durability,
}

/// The state from which a reader continues.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReaderStart {
    pub lineage: Lineage,
    pub is_new: bool,
    /// Position up to which the program has processed the stream.
    pub read: u64,
    /// Number of elements before `read`.
    pub read_elements: u64,
    /// Position up to which complete elements have arrived and are durable.
    pub arrived: u64,
    /// Number of elements before `arrived`.
    pub arrived_elements: u64,
    /// Data between `read` and `arrived`.
    pub bytes: Vec<u8>,
    /// The secret from which the endpoint's shared secrets are derived.
    pub secret: Secret,
    /// The peer endpoint, once the journal has recorded one.
    pub peer: Option<Pair>,
    /// The end of the stream, if known.
    pub end: Option<StreamClose>,
}

impl ReaderJournal {
    /// Opens the journal on `disk`, or creates one.
    pub fn open(
        disk: Arc<dyn Disk>,
        owner: &Owner,
        bounds: Bounds,
        durability: Durability,
    ) -> Result<(Self, ReaderStart), JournalError> {
        let (log, is_new) = recover::open(disk, owner, bounds)?;
        let cursor = &log.cursor;
        let (read, read_elements) = (cursor.position, cursor.elements);
        let mut bytes = Vec::new();
        if let Some((mut place, begin)) = log.place_before(read) {
            let mut chunk = Vec::new();
            let mut at = begin;
            loop {
                chunk.clear();
                log.read(&mut place, u64::MAX, &mut chunk)?;
                if chunk.is_empty() {
                    break;
                }
                let skipped = read.saturating_sub(at).min(chunk.len() as u64);
                at += chunk.len() as u64;
                // At most the length of the chunk, so the cast is lossless.
                bytes.extend_from_slice(&chunk[skipped as usize..]);
            }
        }
        let form = form_of(owner.element_bytes);
        let arrived_elements = match form {
            ElementForm::Fixed(size) => log.end / u64::from(size.max(1)),
            ElementForm::Variable => {
                let mut walk = ElementWalk::new(form, u64::MAX, read, read_elements);
                // Cannot fail: there is no bound on the length of an element.
                let _ = walk.advance(&bytes, u64::MAX);
                walk.elements()
            }
        };
        let start = ReaderStart {
            lineage: cursor.lineage,
            is_new,
            read,
            read_elements,
            arrived: log.end,
            arrived_elements,
            bytes,
            secret: cursor.secret,
            peer: cursor.peer,
            end: cursor.end,
        };
        Ok((Self { log, durability }, start))
    }

    /// Returns the position up to which the stream has been appended to the journal.
    pub fn arrived(&self) -> u64 {
        self.log.end
    }

    /// Returns the position up to which the program has processed the stream, and the number of
    /// elements before that position.
    pub fn read(&self) -> (u64, u64) {
        (self.log.cursor.position, self.log.cursor.elements)
    }

    /// Position up to which the stream is durable.
    pub fn durable(&self) -> u64 {
        self.log.synced_end()
    }

    /// Appends received data, which must consist of complete elements.
    ///
    /// # Errors
    /// The disk failed; nothing was appended.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), JournalError> {
        self.log.append(RecordKind::Data, self.log.end, bytes)
    }

    pub fn end(&mut self, end: StreamClose) -> Result<(), JournalError> {
        self.log.append_end(end)
    }

    /// Returns the end of the stream, if it is known and durable.
    pub fn durable_end(&self) -> Option<StreamClose> {
        let is_safe = self.log.synced() == self.log.appended();
        self.log.cursor.end.filter(|_| is_safe)
    }

    /// Records that the program has processed everything before `position`; `elements` is the number
    /// of elements before `position`. The commit is as durable as configured once
    /// [`is_safe`](Self::is_safe) returns true for [`mark`](Self::mark).
    ///
    /// # Errors
    /// The disk failed; nothing was committed.
    pub fn commit(&mut self, position: u64, elements: u64) -> Result<(), JournalError> {
        if position <= self.log.cursor.position {
            return Ok(());
        }
        let payload = elements.to_le_bytes();
        self.log.append(RecordKind::Read, position, &payload)?;
        // If trimming fails, the files are only kept longer.
        let _ = self.log.trim(position, elements);
        Ok(())
    }

    /// Returns a job that syncs the data; `None` if everything is durable.
    pub fn sync_job(&self) -> Option<SyncJob> {
        self.log.sync_job()
    }
}

forward_to_log!(ReaderJournal);
