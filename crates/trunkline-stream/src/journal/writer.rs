//! Implements the journal of a writer, which keeps written data until it is durable at the reader.

use std::io;
use std::sync::Arc;

use trunkline_proto::stream::{ElementForm, ElementWalk, Pair, Secret, StreamClose};

use super::bounds::Bounds;
use super::disk::Disk;
use super::error::JournalError;
use super::log::Log;
use super::read_back::Place;
use super::record::{Lineage, RECORD_HEADER_BYTES, RecordKind};
use super::recover::{self, Owner};
use super::sync_job::{SyncJob, Synced};
use super::{Durability, form_of, forward_to_log};

/// The journal of a writer.
///
/// Four positions in the stream describe its state:
/// ```text
///   kept <= pushed <= visible <= written
/// ```
/// The reader has acknowledged everything before `kept`. Everything before `pushed` was put into
/// the ring for sending. `visible` is the limit for pushing: everything written, or only the
/// durable part.
#[derive(Debug)]
pub struct WriterJournal {
    log: Log,
    durability: Durability,
    form: ElementForm,
    written_elements: u64,
    /// Data read back from the files, in complete elements.
    pending: Vec<u8>,
    /// Number of bytes of `pending` that are already pushed.
    pending_pushed: usize,
    /// Location of the record after `pending`; only used while such a record exists.
    place: Option<Place>,
    /// Stream position before which all data has been pushed.
    pushed: u64,
}

/// The state from which a writer continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriterStart {
    pub lineage: Lineage,
    pub is_new: bool,
    /// Position at which the part of the stream in the journal begins.
    pub kept: u64,
    /// Number of elements before `kept`.
    pub kept_elements: u64,
    /// Position at which the part of the stream in the journal ends.
    pub written: u64,
    /// The secret from which the endpoint's shared secrets are derived.
    pub secret: Secret,
    /// The peer endpoint, once the journal has recorded one.
    pub peer: Option<Pair>,
    /// The program has closed the stream, so nothing more is written.
    pub is_ended: bool,
}

impl WriterJournal {
    /// Opens the journal on `disk`, or creates one.
    pub fn open(
        disk: Arc<dyn Disk>,
        owner: &Owner,
        bounds: Bounds,
        durability: Durability,
    ) -> Result<(Self, WriterStart), JournalError> {
        let (log, is_new) = recover::open(disk, owner, bounds)?;
        let cursor = &log.cursor;
        let start = WriterStart {
            lineage: cursor.lineage,
            is_new,
            kept: cursor.position,
            kept_elements: cursor.elements,
            written: log.end,
            secret: cursor.secret,
            peer: cursor.peer,
            is_ended: cursor.end.is_some(),
        };
        let mut journal = Self {
            durability,
            form: form_of(owner.element_bytes),
            written_elements: start.kept_elements,
            pending: Vec::new(),
            pending_pushed: 0,
            place: None,
            pushed: start.kept,
            log,
        };
        // Counting reads the data, so the journal is rewound before and after.
        journal.rewind(start.kept)?;
        journal.written_elements = journal.count(start.kept_elements)?;
        journal.rewind(start.kept)?;
        Ok((journal, start))
    }

    /// Makes `position` the next byte to push.
    fn rewind(&mut self, position: u64) -> Result<(), JournalError> {
        self.pending.clear();
        self.pending_pushed = 0;
        self.pushed = position;
        let Some((place, mut at)) = self.log.place_before(position) else {
            self.place = None;
            return Ok(());
        };
        let mut place = place;
        while at < position {
            self.pending.clear();
            self.log.read(&mut place, u64::MAX, &mut self.pending)?;
            if self.pending.is_empty() {
                break;
            }
            at += self.pending.len() as u64;
        }
        // The bytes from `position` on are at the end of the last data read.
        let after = usize::try_from(at.saturating_sub(position)).unwrap_or(0);
        self.pending_pushed = self.pending.len().saturating_sub(after);
        self.place = Some(place);
        Ok(())
    }

    /// Returns the number of elements before the end of the journal, if `kept_elements` elements
    /// precede the next byte to push. If elements vary in size, this reads all data and marks it as
    /// pushed.
    fn count(&mut self, kept_elements: u64) -> Result<u64, JournalError> {
        if let ElementForm::Fixed(size) = self.form {
            return Ok(self.log.end / u64::from(size.max(1)));
        }
        let mut walk = ElementWalk::new(self.form, u64::MAX, self.pushed, kept_elements);
        loop {
            let rest = self.next_bytes()?;
            if rest.is_empty() {
                return Ok(walk.elements());
            }
            // Cannot fail: there is no bound on the length of an element.
            let _ = walk.advance(rest, u64::MAX);
            let count = rest.len();
            self.note_pushed(count);
        }
    }

    /// Position up to which the program has written.
    pub fn written(&self) -> u64 {
        self.log.end
    }

    /// Number of elements before [`written`](Self::written).
    pub fn written_elements(&self) -> u64 {
        self.written_elements
    }

    /// Returns true if a run of this length fits within the size limit. Frees space for it if
    /// necessary and possible.
    pub fn has_room(&mut self, bytes: usize) -> Result<bool, JournalError> {
        self.log.has_room(bytes as u64)
    }

    /// Appends `bytes`, which contain `elements` complete elements. The elements are as durable as
    /// configured once [`is_safe`](Self::is_safe) returns true for the current
    /// [`mark`](Self::mark).
    pub fn append(&mut self, bytes: &[u8], elements: u64) -> Result<(), JournalError> {
        let is_next = self.pushed == self.log.end;
        self.log.append(RecordKind::Data, self.log.end, bytes)?;
        self.written_elements += elements;
        if is_next {
            // Everything before these bytes is pushed, so they are the next ones to read back.
            self.pending.clear();
            self.pending_pushed = 0;
            self.place = self.log.last_place().map(|last| Place {
                offset: last.offset - (RECORD_HEADER_BYTES + bytes.len()) as u64,
                ..last
            });
        }
        Ok(())
    }

    /// Position up to which data may be sent.
    pub fn visible(&self) -> u64 {
        match self.durability {
            Durability::Process => self.log.end,
            Durability::Disk => self.log.synced_end(),
        }
    }

    /// Returns the next data to push, in complete elements; empty if there is none.
    pub fn next_bytes(&mut self) -> Result<&[u8], JournalError> {
        if self.pending_pushed == self.pending.len() {
            self.pending.clear();
            self.pending_pushed = 0;
            let limit = self.visible();
            if let Some(place) = self.place.as_mut().filter(|_| self.pushed < limit) {
                self.log.read(place, limit, &mut self.pending)?;
            }
        }
        Ok(&self.pending[self.pending_pushed..])
    }

    /// Stream position of the data returned by [`next_bytes`](Self::next_bytes).
    pub fn position(&self) -> u64 {
        self.pushed
    }

    /// Marks this many bytes of [`next_bytes`](Self::next_bytes) as pushed.
    pub fn note_pushed(&mut self, bytes: usize) {
        self.pending_pushed += bytes;
        self.pushed += bytes as u64;
    }

    /// Returns true if the last appended run, of this length, is the next one to push and may be
    /// pushed now.
    pub fn is_next(&self, bytes: usize) -> bool {
        // Data that waits for the disk is not pushed before it is durable.
        self.durability == Durability::Process && self.pushed + bytes as u64 == self.log.end
    }

    /// Marks the last appended run as pushed. The caller pushed the bytes that it had passed to
    /// [`append`](Self::append), without reading them back.
    pub fn note_last_pushed(&mut self) {
        self.pushed = self.log.end;
        self.place = self.log.last_place();
    }

    /// Releases everything before `position`, which is durable at the reader; `elements` is the
    /// number of elements before `position`. Does nothing if some of this data is not pushed yet.
    ///
    /// # Errors
    /// The disk failed. The next call tries again.
    pub fn trim(&mut self, position: u64, elements: u64) -> Result<(), JournalError> {
        if position > self.pushed {
            return Ok(());
        }
        self.log.trim(position, elements)
    }

    /// Records the end of the stream. It is durable when this returns.
    pub fn end(&mut self) -> Result<(), JournalError> {
        let position = self.log.end;
        self.log.append_end(StreamClose {
            is_aborted: false,
            position,
            written: position,
        })?;
        match self.log.sync_job() {
            Some(job) => self.log.finish_sync(job.run()),
            None => Ok(()),
        }
    }

    /// Returns a job that syncs the data, or `None` if there is too little data to sync. With
    /// `Durability::Process`, data is synced from time to time, so that the program does not have to
    /// wait for a whole segment when the segment is full.
    pub fn sync_job(&self) -> Option<SyncJob> {
        let bytes_min = match self.durability {
            Durability::Process => self.log.bounds.segment_bytes >> 3,
            Durability::Disk => 0,
        };
        self.log
            .sync_job()
            .filter(|_| self.log.unsynced_bytes() >= bytes_min)
    }

    /// Like [`sync_job`](Self::sync_job), but also for a small amount of data.
    pub fn sync_job_now(&self) -> Option<SyncJob> {
        self.log.sync_job()
    }
}

forward_to_log!(WriterJournal);
