//! Creates endpoints that continue a stream from their journals.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use trunkline_net::StreamMemory;
use trunkline_proto::message::stream::{Incarnation, ReaderState, Until, WriterState};
use trunkline_proto::stream::{ElementForm, Pair, ReaderLink, Secret, WriterLink};
use trunkline_ring::RingStart;

use super::{Plan, World, no_random};
use crate::bytes::{ReaderCore, WriterCore};
use crate::end::{ReaderEnd, ReaderStore, WriterEnd, WriterStore};
use crate::error::StreamError;
use crate::journal::{JournalError, JournalOptions, Lineage, Owner, ReaderJournal, WriterJournal};
use crate::wait::Waiter;

/// Creates a writer, or continues one from its journal.
pub(super) async fn writer(
    waiter: &impl Waiter,
    mut plan: Plan<'_, impl World>,
    options: &JournalOptions,
) -> Result<WriterCore, StreamError> {
    let bounds = plan.world.bounds(options, plan.link.bytes_max)?;
    let (disk, owner) = (plan.world.disk(options)?, plan.owner(true)?);
    let (journal, start) = WriterJournal::open(disk, &owner, bounds, options.durability)?;
    let written_elements = journal.written_elements();
    plan.continue_stream(start.lineage, start.secret, start.peer, start.is_new)?;
    let begin = RingStart {
        position: start.kept,
        elements: start.kept_elements,
    };
    let memory = plan.memory_from(begin)?;
    let (wake, wakes) = sync_channel(1);
    let ring = memory.element_memory().starting_at(begin);
    let store = WriterStore::new(
        journal,
        ring.producer(),
        plan.link.form,
        start.peer,
        start.is_ended,
        wake,
    );
    let inner = memory.element_memory().starting_at(begin).consumer();
    let mut inner = WriterEnd::new(inner);
    inner.store = Some(store);
    inner.idle = plan.idle(&memory);
    let at = WriterState {
        kept: start.kept,
        kept_elements: start.kept_elements,
        written: start.written,
    };
    let mut link =
        WriterLink::restored_writer(plan.link.clone(), at, plan.world.environment().now());
    // Must come before `close`: a closed link accepts no more positions.
    link.handle_written(start.written, written_elements);
    if start.is_ended {
        link.close();
    }
    let connected = plan.connect(waiter, link, inner, None).await?;
    let started = connected.link.start_syncing(wakes);
    started.map_err(|cause| no_thread(&options.folder, cause))?;
    // The journal's store owns the program's end of the ring. The core uses only the shape of its
    // ring, so it gets a dummy ring that occupies no physical memory. The dummy ring is full, so
    // nothing can be written into it and lost.
    let dummy = StreamMemory::create(plan.shape, RingStart::default(), false);
    let dummy = dummy.map_err(|cause| plan.no_memory(cause))?;
    let mut ring = dummy.element_memory().producer();
    ring.commit(plan.shape.bytes_max() as u64, plan.shape.capacity());
    let core = WriterCore::new(connected, ring);
    Ok(core.with_journal(options.durability))
}

/// Creates a reader, or continues one from its journal.
pub(super) async fn reader(
    waiter: &impl Waiter,
    mut plan: Plan<'_, impl World>,
    options: &JournalOptions,
) -> Result<ReaderCore, StreamError> {
    let bounds = plan.world.bounds(options, plan.link.bytes_max)?;
    let (disk, owner) = (plan.world.disk(options)?, plan.owner(false)?);
    let (journal, start) = ReaderJournal::open(disk, &owner, bounds, options.durability)?;
    plan.continue_stream(start.lineage, start.secret, start.peer, start.is_new)?;
    // If the journal contains the end of the stream, creation does not wait for the peer.
    plan.needs_no_peer |= start.end.is_some();
    let begin = RingStart {
        position: start.read,
        elements: start.read_elements,
    };
    let memory = plan.memory_from(begin)?;
    let mut ring = memory.element_memory().starting_at(begin).producer();
    let elements = start.arrived_elements.saturating_sub(start.read_elements);
    if !ring.push(&start.bytes, elements).unwrap_or(false) {
        return Err(JournalError::Unread {
            folder: options.folder.clone(),
            bytes: start.bytes.len() as u64,
            elements,
        }
        .into());
    }
    let consumer = memory.element_memory().starting_at(begin).consumer();
    let at = ReaderState {
        arrived: start.arrived,
        arrived_elements: start.arrived_elements,
        read: start.read,
        durable: start.arrived,
        ..ReaderState::default()
    };
    let now = plan.world.environment().now();
    let mut link = ReaderLink::restored_reader(plan.link.clone(), at, start.read_elements, now);
    if let Some(end) = start.end {
        link.restore_end(end);
    }
    let (wake, wakes) = sync_channel(1);
    let mut inner = ReaderEnd::new(ring);
    inner.store = Some(ReaderStore::new(journal, start.peer, wake));
    inner.idle = plan.idle(&memory);
    let connected = plan.connect(waiter, link, inner, None).await?;
    let started = connected.link.start_syncing(wakes);
    started.map_err(|cause| no_thread(&options.folder, cause))?;
    let core = ReaderCore::new(connected, consumer);
    Ok(core.with_journal(options))
}

fn no_thread(folder: &Path, cause: io::Error) -> StreamError {
    let folder = folder.to_owned();
    let cause = Arc::new(cause);
    JournalError::Thread { folder, cause }.into()
}

impl<W: World> Plan<'_, W> {
    fn owner(&self, is_writer: bool) -> Result<Owner, StreamError> {
        Ok(Owner {
            is_writer,
            element_bytes: match self.link.form {
                ElementForm::Fixed(bytes) => bytes,
                ElementForm::Variable => 0,
            },
            url: self.url.to_string(),
            lineage: self.new_lineage()?,
            secret: self.link.secret,
        })
    }

    /// Sets up a new incarnation of the endpoint that owns this journal.
    fn continue_stream(
        &mut self,
        lineage: Lineage,
        secret: Secret,
        peer: Option<Pair>,
        is_new: bool,
    ) -> Result<(), StreamError> {
        let mut incarnation = [0; 16];
        incarnation[..8].copy_from_slice(&self.new_lineage()?);
        incarnation[8..].copy_from_slice(&lineage);
        self.link.incarnation = Incarnation(incarnation);
        self.link.has_journal = true;
        self.link.secret = secret;
        self.link.pair = peer;
        self.link.peer_lineage = peer.map(|pair| pair.lineage);
        self.link.had_stream = !is_new && peer.is_none();
        self.link.freed_at = Until::Durable;
        self.needs_no_peer = peer.is_some();
        Ok(())
    }

    fn new_lineage(&self) -> Result<Lineage, StreamError> {
        self.world.environment().new_lineage().map_err(no_random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_journal_thread_is_not_reported_as_missing_memory() {
        let error = no_thread(Path::new("/j"), io::ErrorKind::WouldBlock.into());
        let text = error.to_string();
        assert!(text.contains("the journal in /j"), "{text}");
        assert!(text.contains("cannot start a thread"), "{text}");
        assert!(!matches!(error, StreamError::Memory { .. }), "{error:?}");
    }
}
