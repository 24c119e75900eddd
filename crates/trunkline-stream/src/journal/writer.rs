//! The journal of a writing end: what its program has written and the reader has not made safe.

use std::io;
use std::sync::Arc;

use trunkline_proto::stream::{ElementForm, ElementWalk, Pair, Secret, StreamClose};

use super::bounds::Bounds;
use super::disk::Disk;
use super::error::JournalError;
use super::log::Log;
use super::read_back::Place;
use super::record::{Lineage, RECORD_HEAD, RecordKind};
use super::recover::{self, Owner};
use super::sync_job::{SyncJob, Synced};
use super::{Durability, form_of};

/// The journal of a writing end.
///
/// Bytes go through it in this order:
/// ```text
///   kept <= pushed <= visible <= written
/// ```
/// `kept` is where the reader's acknowledgements are, `pushed` what was put into the ring from
/// which is sent, `visible` what may be put there: all that was written, or what of it is safe.
#[derive(Debug)]
pub struct WriterJournal {
    log: Log,
    durability: Durability,
    form: ElementForm,
    written_elements: u64,
    /// Read back and not pushed yet, whole elements.
    pending: Vec<u8>,
    /// How many of its bytes were pushed.
    taken: usize,
    /// Where the records behind it are; of use only while there are any.
    place: Option<Place>,
    pushed: u64,
}

/// What a writer goes on from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriterStart {
    /// Of the journal.
    pub lineage: Lineage,
    /// It was begun just now.
    pub is_new: bool,
    /// From here on it has the bytes of the stream, and so many elements lie before.
    pub kept: u64,
    /// Elements before that.
    pub kept_elements: u64,
    /// Up to here.
    pub written: u64,
    /// What makes the endpoint's shares of secrets.
    pub secret: Secret,
    /// The other end, if it ever was there.
    pub peer: Option<Pair>,
    /// The program has closed it: nothing more is written.
    pub is_ended: bool,
}

impl WriterJournal {
    /// Opens the journal on `disk`, or begins one.
    ///
    /// # Errors
    /// The disk, or what is on it.
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
            taken: 0,
            place: None,
            pushed: start.kept,
            log,
        };
        journal.rewind(start.kept)?;
        journal.written_elements = journal.count(start.kept_elements)?;
        journal.rewind(start.kept)?;
        Ok((journal, start))
    }

    /// The next bytes to push are those from `position` on.
    fn rewind(&mut self, position: u64) -> Result<(), JournalError> {
        self.pending.clear();
        self.taken = 0;
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
        // What lies behind the position is at the end of what was read last.
        let behind = usize::try_from(at.saturating_sub(position)).unwrap_or(0);
        self.taken = self.pending.len().saturating_sub(behind);
        self.place = Some(place);
        Ok(())
    }

    /// Elements at the end of the journal.
    fn count(&mut self, before: u64) -> Result<u64, JournalError> {
        if let ElementForm::Fixed(size) = self.form {
            return Ok(self.log.end / u64::from(size.max(1)));
        }
        let mut walk = ElementWalk::new(self.form, u64::MAX, self.pushed, before);
        loop {
            let rest = self.next_bytes()?;
            if rest.is_empty() {
                return Ok(walk.elements());
            }
            // No element is too long for a bound that there is not.
            let _ = walk.advance(rest, u64::MAX);
            let count = rest.len();
            self.pushed(count);
        }
    }

    /// Up to here the program has written.
    pub fn written(&self) -> u64 {
        self.log.end
    }

    /// Elements before that.
    pub fn written_elements(&self) -> u64 {
        self.written_elements
    }

    /// Whether a run of so many bytes fits the bound.
    ///
    /// # Errors
    /// The disk.
    pub fn has_room(&mut self, bytes: usize) -> Result<bool, JournalError> {
        self.log.has_room(bytes as u64)
    }

    /// The program writes `bytes`, which are `elements` whole elements. They count as written when
    /// [`is_safe`](Self::is_safe) says so of [`mark`](Self::mark).
    ///
    /// # Errors
    /// The disk; nothing was written.
    pub fn append(&mut self, bytes: &[u8], elements: u64) -> Result<(), JournalError> {
        let is_next = self.pushed == self.log.end;
        self.log.append(RecordKind::Data, self.log.end, bytes)?;
        self.written_elements += elements;
        if is_next {
            self.pending.clear();
            self.taken = 0;
            self.place = self.log.last_place().map(|last| Place {
                offset: last.offset - (RECORD_HEAD + bytes.len()) as u64,
                ..last
            });
        }
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

    /// Up to here bytes may be sent.
    pub fn visible(&self) -> u64 {
        match self.durability {
            Durability::Process => self.log.end,
            Durability::Disk => self.log.synced_end(),
        }
    }

    /// What is to be pushed next: whole elements; nothing when there is no more.
    ///
    /// # Errors
    /// The disk.
    pub fn next_bytes(&mut self) -> Result<&[u8], JournalError> {
        if self.taken == self.pending.len() {
            self.pending.clear();
            self.taken = 0;
            let limit = self.visible();
            if let Some(place) = self.place.as_mut().filter(|_| self.pushed < limit) {
                self.log.read(place, limit, &mut self.pending)?;
            }
        }
        Ok(&self.pending[self.taken..])
    }

    /// Where the bytes of [`next_bytes`](Self::next_bytes) belong in the stream.
    pub fn position(&self) -> u64 {
        self.pushed
    }

    /// So many bytes of [`next_bytes`](Self::next_bytes) were pushed.
    pub fn pushed(&mut self, bytes: usize) {
        self.taken += bytes;
        self.pushed += bytes as u64;
    }

    /// Whether the run that was appended last is what is to be pushed next, and may be.
    pub fn is_next(&self, bytes: usize) -> bool {
        // What waits for the disk is not pushed before that.
        self.durability == Durability::Process && self.pushed + bytes as u64 == self.log.end
    }

    /// That run was pushed, by who still had it.
    pub fn pushed_last(&mut self) {
        self.pushed = self.log.end;
        self.place = self.log.last_place();
    }

    /// The reader has made everything before `position` safe, where `elements` elements end. What
    /// was not pushed stays until it was, needed or not.
    ///
    /// # Errors
    /// The disk; it is tried again the next time.
    pub fn trim(&mut self, position: u64, elements: u64) -> Result<(), JournalError> {
        if position > self.pushed {
            return Ok(());
        }
        self.log.trim(position, elements)
    }

    /// Who is at the other end.
    ///
    /// # Errors
    /// The disk.
    pub fn set_peer(&mut self, peer: Pair) -> Result<(), JournalError> {
        self.log.set_peer(peer)
    }

    /// The program writes nothing more. When this returns, that is safe.
    ///
    /// # Errors
    /// The disk.
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

    /// The reader has everything, and the end: the journal is empty again, and another stream of
    /// this lineage may begin in it.
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

    /// What is to be made safe; `None`: nothing, or it need not be. What need not be is from time
    /// to time, so that the program does not wait for all of it when a segment is full.
    pub fn sync_job(&self) -> Option<SyncJob> {
        let due = match self.durability {
            Durability::Process => self.log.bounds.segment_bytes >> 3,
            Durability::Disk => 0,
        };
        self.log
            .sync_job()
            .filter(|_| self.log.unsafe_bytes() >= due)
    }

    /// The same where nobody asks whether it is due.
    pub fn sync_job_now(&self) -> Option<SyncJob> {
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
