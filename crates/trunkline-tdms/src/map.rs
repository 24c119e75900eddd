//! Defines the result of walking over a file: the objects, and the positions of their data.

use std::sync::Arc;

use crate::fault::{Fault, Finding};
use crate::layout::{Layout, Tail};
use crate::lead_in::LEAD_IN_BYTES;
use crate::objects::Objects;

/// Maximum number of findings that are kept; more findings are only counted.
const FINDINGS_MAX: usize = 1_000;

/// The raw data of one segment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Extent {
    /// Position of the segment's data in the file.
    pub(crate) position: u64,
    /// Number of whole chunks before this segment in its run.
    pub(crate) chunks_before: u64,
    /// Number of whole chunks in this segment.
    pub(crate) chunks: u64,
}

/// Consecutive segments with the same layout. Only the last segment may end with a partial chunk.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Run {
    pub(crate) layout: Arc<Layout>,
    pub(crate) extents: Vec<Extent>,
    pub(crate) tail: Tail,
}

impl Run {
    pub(crate) fn chunks(&self) -> u64 {
        self.extents
            .last()
            .map_or(0, |e| e.chunks_before + e.chunks)
    }
}

/// The properties of the last segment that recovery needs.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct LastSegment {
    pub(crate) position: u64,
    pub(crate) is_big_endian: bool,
    pub(crate) metadata_bytes: u64,
}

/// The content and the faults that a walk has found.
#[derive(Debug, Default)]
pub(crate) struct Map {
    pub(crate) objects: Objects,
    pub(crate) runs: Vec<Run>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) findings_dropped: u64,
    pub(crate) segments: u64,
    /// Segments found after damage, each with the number counted from 0 and the position.
    pub(crate) segments_after_damage: Vec<(u64, u64)>,
    /// Repaired lead-ins, each with the position in the file.
    pub(crate) repaired_lead_ins: Vec<(u64, [u8; LEAD_IN_BYTES as usize])>,
    pub(crate) version: Option<u32>,
    /// The reason why the file ends within the last segment or before it, and the position.
    pub(crate) incomplete: Option<Finding>,
    /// Number of bytes at the end that belong to no readable value.
    pub(crate) bytes_lost: u64,
    /// Number of skipped bytes between segments.
    pub(crate) bytes_skipped: u64,
    pub(crate) last: Option<LastSegment>,
    /// Position at which the next segment would begin.
    pub(crate) end: u64,
}

impl Map {
    pub(crate) fn add_finding(&mut self, position: u64, fault: Fault) {
        match self.findings.len() < FINDINGS_MAX {
            true => self.findings.push(Finding { position, fault }),
            false => self.findings_dropped += 1,
        }
    }
}
