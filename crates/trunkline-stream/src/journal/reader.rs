//! The journal of a reading end: what has arrived and its program has not done with.

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
use super::{Durability, form_of};

/// The journal of a reading end.
///
/// ```text
///   read <= durable <= arrived
/// ```
/// after a crash it goes on with what had arrived, from `read` on. `durable` may be behind `read`:
/// what was read is not needed any more.
#[derive(Debug)]
pub struct ReaderJournal {
    log: Log,
    durability: Durability,
}

/// What a reader goes on from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReaderStart {
    /// Of the journal.
    pub lineage: Lineage,
    /// It was begun just now.
    pub is_new: bool,
    /// Up to here the program is done with it.
    pub read: u64,
    /// Elements before that.
    pub read_elements: u64,
    /// Up to here the stream has arrived, whole elements, and is safe.
    pub arrived: u64,
    /// Elements before that.
    pub arrived_elements: u64,
    /// What has arrived and was not read.
    pub bytes: Vec<u8>,
    /// What makes the endpoint's shares of secrets.
    pub secret: Secret,
    /// The other end, if it ever was there.
    pub peer: Option<Pair>,
    /// Where the stream ends, if that is known.
    pub end: Option<StreamClose>,
}

impl ReaderJournal {
    /// Opens the journal on `disk`, or begins one.
    ///
    /// # Errors
    /// The disk, or what is on it.
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
                // At most the length of the chunk.
                bytes.extend_from_slice(&chunk[skipped as usize..]);
            }
        }
        let form = form_of(owner.element_bytes);
        let arrived_elements = match form {
            ElementForm::Fixed(size) => log.end / u64::from(size.max(1)),
            ElementForm::Variable => {
                let mut walk = ElementWalk::new(form, u64::MAX, read, read_elements);
                // No element is too long for a bound that there is not.
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

    /// Up to here the journal has the stream.
    pub fn arrived(&self) -> u64 {
        self.log.end
    }

    /// Up to here the program is done with it, and so many elements.
    pub fn read(&self) -> (u64, u64) {
        (self.log.cursor.position, self.log.cursor.elements)
    }

    /// Up to here it is safe.
    pub fn durable(&self) -> u64 {
        self.log.synced_end()
    }

    /// Whole elements have arrived.
    ///
    /// # Errors
    /// The disk; the journal has none of them.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), JournalError> {
        self.log.append(RecordKind::Data, self.log.end, bytes)
    }

    /// The stream ends there.
    ///
    /// # Errors
    /// The disk.
    pub fn end(&mut self, end: StreamClose) -> Result<(), JournalError> {
        self.log.append_end(end)
    }

    /// Where the stream ends, if that is known and safe.
    pub fn safe_end(&self) -> Option<StreamClose> {
        let is_safe = self.log.synced() == self.log.appended();
        self.log.cursor.end.filter(|_| is_safe)
    }

    /// The program is done with everything before `position`, where `elements` elements end. It is
    /// as safe as it is to be when [`is_safe`](Self::is_safe) says so of [`mark`](Self::mark).
    ///
    /// # Errors
    /// The disk; nothing was committed.
    pub fn commit(&mut self, position: u64, elements: u64) -> Result<(), JournalError> {
        if position <= self.log.cursor.position {
            return Ok(());
        }
        let payload = elements.to_le_bytes();
        self.log.append(RecordKind::Read, position, &payload)?;
        // Files that stay a while longer do no harm.
        let _ = self.log.trim(position, elements);
        Ok(())
    }

    /// The number of what was appended last.
    pub fn mark(&self) -> u64 {
        self.log.appended()
    }

    /// Whether what has this number is as safe as it is to be.
    ///
    /// # Errors
    /// It is not known what is on the disk.
    pub fn is_safe(&self, mark: u64) -> Result<bool, JournalError> {
        match self.log.broken() {
            Some(error) => Err(error.clone()),
            None => Ok(self.durability == Durability::Process || self.log.synced() >= mark),
        }
    }

    /// Who is at the other end.
    ///
    /// # Errors
    /// The disk.
    pub fn set_peer(&mut self, peer: Pair) -> Result<(), JournalError> {
        self.log.set_peer(peer)
    }

    /// The program has read everything, and the end: the journal is empty again.
    ///
    /// # Errors
    /// The disk.
    pub fn finish(&mut self, lineage: Lineage) -> Result<(), JournalError> {
        self.log.finish(lineage)
    }

    /// Something could not be done with it, for this reason.
    pub(crate) fn error(&self, action: &'static str, cause: io::Error) -> JournalError {
        self.log.error(action, cause)
    }

    /// What is to be made safe; `None`: nothing.
    pub fn sync_job(&self) -> Option<SyncJob> {
        self.log.sync_job()
    }

    /// That was done.
    ///
    /// # Errors
    /// It was not: it is not known what is on the disk, and nothing more is written to it.
    pub fn finish_sync(&mut self, done: Synced) -> Result<(), JournalError> {
        self.log.finish_sync(done)
    }
}
