//! Walks from segment to segment: the only part of reading that has state.
//!
//! Every segment may rely on earlier ones for the list of objects with data and for the layout of
//! their data. The walk keeps both, applies the properties, and records the positions of raw data,
//! in runs of segments with the same layout.

mod data;
mod resume;

use std::sync::Arc;

use crate::element::ByteOrder;
use crate::fault::{Fault, Finding};
use crate::index_file::IndexCursor;
use crate::layout::Layout;
use crate::lead_in::{DATA_TAG, INDEX_TAG, LEAD_IN_BYTES, LeadIn, TOC_METADATA, TOC_NEW_LIST};
use crate::map::Map;
use crate::metadata::{BlockCursor, BlockError};
use crate::open::{Limits, OpenError};
use crate::read_at::ReadAt;

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Data,
    /// An index file without its data file: metadata, and no data to read.
    IndexAlone,
}

pub(crate) struct Walk<'a, R: ?Sized, I: ?Sized> {
    source: &'a R,
    index: Option<IndexCursor<'a, I>>,
    kind: Kind,
    limits: Limits,
    /// Positions of segments according to the checksums, ascending; empty without checksums.
    begins: &'a [u64],
    len: u64,
    /// Position of the segment in the source, and in the data file.
    at: u64,
    position: u64,
    window: Vec<u8>,
    map: Map,
    is_big: Option<bool>,
    /// The current layout, with the byte order and the interleaving flag it was computed for.
    layout: Option<(ByteOrder, bool, Result<Arc<Layout>, Fault>)>,
    columns: u64,
    columns_max: u64,
}

impl<'a, R: ReadAt + ?Sized, I: ReadAt + ?Sized> Walk<'a, R, I> {
    pub(crate) fn new(
        source: &'a R,
        index: Option<&'a I>,
        kind: Kind,
        limits: Limits,
    ) -> Result<Self, OpenError> {
        let len = source
            .byte_len()
            .map_err(|error| OpenError::source(0, error))?;
        Ok(Self {
            source,
            index: index.map(IndexCursor::new),
            kind,
            limits,
            begins: &[],
            len,
            at: 0,
            position: 0,
            window: Vec::new(),
            map: Map::default(),
            is_big: None,
            layout: None,
            columns: 0,
            columns_max: data::columns_max(len),
        })
    }

    /// Continues after damage with the help of these positions of segments, in ascending order.
    pub(crate) fn with_begins(mut self, begins: &'a [u64]) -> Self {
        self.begins = begins;
        self
    }

    /// Walks to the end of what can be read, but not beyond `end`.
    pub(crate) fn run_to(mut self, end: u64) -> Result<Map, OpenError> {
        self.len = self.len.min(end);
        self.run()
    }

    /// Walks to the end of what can be read.
    pub(crate) fn run(mut self) -> Result<Map, OpenError> {
        loop {
            match self.segment() {
                Ok(true) => {}
                Ok(false) if self.map.incomplete.is_some() && self.resume()? => {}
                Ok(false) => break,
                Err(OpenError::Refused(finding))
                    if self.limits.is_salvaging && self.map.segments > 0 =>
                {
                    self.map.bytes_lost = self.len - self.at;
                    self.map.incomplete = Some(finding);
                    if !self.resume()? {
                        break;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        self.map.end = self.at;
        Ok(self.map)
    }

    /// Ends the walk here.
    fn ends(&mut self, fault: Fault, bytes_lost: u64) -> Result<bool, OpenError> {
        self.map.incomplete = Some(self.finding(fault));
        self.map.bytes_lost = bytes_lost;
        Ok(false)
    }

    fn finding(&self, fault: Fault) -> Finding {
        let position = self.position;
        Finding { position, fault }
    }

    fn refuse<T>(&self, fault: Fault) -> Result<T, OpenError> {
        Err(OpenError::Refused(self.finding(fault)))
    }

    /// Processes one segment; returns false at the end.
    fn segment(&mut self) -> Result<bool, OpenError> {
        let left = self.len - self.at;
        let mut bytes = [0; LEAD_IN_BYTES as usize];
        let there = left.min(LEAD_IN_BYTES) as usize;
        self.source
            .read_exact_at(&mut bytes[..there], self.at)
            .map_err(|error| OpenError::source(self.at, error))?;
        if there == bytes.len() {
            self.repair_lead_in(&mut bytes)?;
        }
        if !self.check_tag(&bytes[..there.min(4)])? {
            return self.ends(Fault::Garbage { bytes: left }, left);
        }
        match left {
            0 if self.at > 0 => return Ok(false),
            0 => return self.ends(Fault::Empty, 0),
            1..LEAD_IN_BYTES => return self.ends(Fault::TruncatedLeadIn { bytes: left }, left),
            _ => {}
        }
        let lead_in = LeadIn::decode(&bytes);
        if lead_in == LeadIn::UNWRITTEN {
            return self.ends(Fault::Unwritten { bytes: left }, left);
        }
        let (segment, metadata) = (lead_in.segment_bytes, lead_in.metadata_bytes);
        if segment < metadata {
            return self.refuse(Fault::MetadataBeyondSegment { metadata, segment });
        }
        let after = left - LEAD_IN_BYTES;
        if metadata > after {
            let missing = metadata - after;
            return self.ends(Fault::TruncatedMetadata { missing }, left);
        }
        if self
            .position
            .checked_add(LEAD_IN_BYTES + metadata)
            .is_none()
        {
            // Only in an index: after a segment that was not closed or claims a similar length.
            return self.ends(Fault::Overflow, left);
        }
        self.warn_of(&lead_in);
        self.use_index(&bytes, &lead_in)?;
        self.take_metadata(&lead_in)?;
        self.map.segments += 1;
        match self.kind {
            Kind::Data => self.take_data(&lead_in, after),
            Kind::IndexAlone => {
                self.at += LEAD_IN_BYTES + metadata;
                let next = self.position.saturating_add(LEAD_IN_BYTES);
                self.position = next.saturating_add(segment);
                Ok(true)
            }
        }
    }

    /// Returns false if no segment begins here. Fails if the file does not begin with a segment of
    /// the expected kind.
    fn check_tag(&self, tag: &[u8]) -> Result<bool, OpenError> {
        let (expected, other) = match self.kind {
            Kind::Data => (DATA_TAG, INDEX_TAG),
            Kind::IndexAlone => (INDEX_TAG, DATA_TAG),
        };
        let is_expected = expected.starts_with(tag);
        if is_expected || self.at > 0 {
            return Ok(is_expected);
        }
        let (tag, is_other) = (tag.to_vec(), tag == other);
        match self.kind {
            Kind::Data if is_other => self.refuse(Fault::IndexFile),
            Kind::Data => self.refuse(Fault::NotTdms { tag }),
            Kind::IndexAlone => self.refuse(Fault::NotIndex { tag }),
        }
    }

    fn warn_of(&mut self, lead_in: &LeadIn) {
        let version = lead_in.version;
        let position = self.position;
        if !matches!(version, 4712 | 4713) {
            self.map.find(position, Fault::UnknownVersion { version });
        }
        if *self.map.version.get_or_insert(version) != version {
            self.map.find(position, Fault::VersionChange { version });
            self.map.version = Some(version);
        }
        let is_big = lead_in.order() == ByteOrder::Big;
        if self
            .is_big
            .replace(is_big)
            .is_some_and(|before| before != is_big)
        {
            self.map.find(position, Fault::ByteOrderChange);
            self.layout = None;
        }
        let bits = lead_in.unknown_flags();
        if bits != 0 {
            self.map.find(position, Fault::UnknownFlags { bits });
        }
    }

    /// Stops using the index once it differs from the data.
    fn use_index(&mut self, bytes: &[u8; 28], lead_in: &LeadIn) -> Result<(), OpenError> {
        let Some(index) = &mut self.index else {
            return Ok(());
        };
        // Compares all of it: a damaged index may have the right length.
        let metadata = Some((self.source, self.at + LEAD_IN_BYTES));
        let is_same = index
            .matches(bytes, lead_in.metadata_bytes, metadata)
            .map_err(|error| OpenError::source(self.at, error))?;
        if !is_same {
            self.index = None;
            self.map.find(self.position, Fault::StaleIndex);
        }
        Ok(())
    }

    fn take_metadata(&mut self, lead_in: &LeadIn) -> Result<(), OpenError> {
        let bytes = lead_in.metadata_bytes;
        let index_at = self.index.as_mut().map(|index| index.pass(bytes));
        if !lead_in.has(TOC_METADATA) {
            return match self.map.segments {
                0 => self.refuse(Fault::NoMetadata),
                _ => Ok(()),
            };
        }
        if lead_in.has(TOC_NEW_LIST) || self.map.segments == 0 {
            self.map.objects.begin_list();
            self.layout = None;
        }
        let position = self.position + LEAD_IN_BYTES;
        let order = lead_in.order();
        let mut window = std::mem::take(&mut self.window);
        let taken = match (&self.index, index_at) {
            (Some(index), Some(at)) => {
                let mut block =
                    BlockCursor::new(index.source(), &mut window, (at, position, bytes), order);
                take_objects(&mut self.map, &mut block, &self.limits)
            }
            _ => {
                let at = self.at + LEAD_IN_BYTES;
                let mut block =
                    BlockCursor::new(self.source, &mut window, (at, position, bytes), order);
                take_objects(&mut self.map, &mut block, &self.limits)
            }
        };
        self.window = window;
        match taken {
            Ok(is_changed) => {
                if is_changed {
                    self.layout = None;
                }
                Ok(())
            }
            Err(BlockError::Source(position, error)) => Err(OpenError::source(position, error)),
            Err(BlockError::Refused(finding)) => Err(OpenError::Refused(finding)),
            Err(BlockError::Unreadable(finding)) => {
                self.map.find(finding.position, finding.fault);
                self.map.objects.record_loss();
                self.layout = None;
                Ok(())
            }
        }
    }
}

/// Processes the objects of a block. Returns true if the layout may have changed.
fn take_objects<R: ReadAt + ?Sized>(
    map: &mut Map,
    block: &mut BlockCursor<'_, R>,
    limits: &Limits,
) -> Result<bool, BlockError> {
    // A path and two numbers take at least 12 bytes.
    let count = block.count(12)?;
    let mut is_changed = false;
    map.objects.begin_block();
    for _ in 0..count {
        let position = block.position();
        let effect = map.objects.read_entry(block, limits)?;
        is_changed |= effect.is_changed;
        if let Some(path) = effect.duplicate {
            map.find(position, Fault::DuplicatePath { path });
        }
    }
    Ok(is_changed)
}
