//! Answers without values: SUBSCRIBED, CLOSED, REQUESTED.
//!
//! ```text
//! SUBSCRIBED CLOSED REQUESTED   first_index varint | exceptions to the end of the payload
//!                               count = items answered
//! exception                     index varint | code varint | sentence text
//! ```
//!
//! Items that are not listed as exceptions have succeeded. `index` is relative to the frame's first
//! item, and the exceptions are in ascending order. `first_index` is the index of the frame's first
//! item within the whole request.

use trunkline_types::wire::put_varint;

use super::fault::put_fault;
use crate::decode::Payload;
use crate::{DecodeError, FaultRef, Frame, FrameKind, FrameWriter};

/// Writes a SUBSCRIBED, CLOSED or REQUESTED frame.
#[derive(Debug)]
#[must_use = "a frame is complete only when it is finished"]
pub struct ResultsBuilder<'a> {
    frame: FrameWriter<'a>,
}

impl<'a> ResultsBuilder<'a> {
    pub fn subscribed(out: &'a mut Vec<u8>, request: u32, first_index: u32) -> Self {
        Self::begin(out, FrameKind::Subscribed, request, first_index)
    }

    /// Begins a CLOSED frame, the answer to UNSUBSCRIBE and CLOSE.
    pub fn closed(out: &'a mut Vec<u8>, request: u32, first_index: u32) -> Self {
        Self::begin(out, FrameKind::Closed, request, first_index)
    }

    pub fn requested(out: &'a mut Vec<u8>, request: u32, first_index: u32) -> Self {
        Self::begin(out, FrameKind::Requested, request, first_index)
    }

    fn begin(out: &'a mut Vec<u8>, kind: FrameKind, request: u32, first_index: u32) -> Self {
        let mut frame = FrameWriter::begin(out, kind, request);
        put_varint(frame.payload(), u64::from(first_index));
        Self { frame }
    }

    /// Counts the next item as successful.
    pub fn push_ok(&mut self) {
        self.frame.count_item();
    }

    pub fn push_fault(&mut self, fault: FaultRef<'_>) {
        let index = self.frame.count();
        let out = self.frame.payload();
        put_varint(out, u64::from(index));
        put_fault(out, fault);
        self.frame.count_item();
    }

    pub fn count(&self) -> u32 {
        self.frame.count()
    }

    pub fn len_bytes(&self) -> usize {
        self.frame.len_bytes()
    }

    pub fn finish(self, more: bool) {
        self.frame.finish(more);
    }
}

/// A SUBSCRIBED, CLOSED or REQUESTED frame. Iterates over the exceptions: the index within the
/// whole request, and the fault.
#[derive(Clone, Debug)]
pub struct Results<'a> {
    payload: Payload<'a>,
    first_index: u32,
    count: u32,
    /// Lowest valid index of the next exception.
    next: u32,
    ended: bool,
}

impl<'a> Results<'a> {
    /// Reads a SUBSCRIBED, CLOSED or REQUESTED frame, whose kind the caller has checked.
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let kind = match frame.kind() {
            Some(kind @ (FrameKind::Subscribed | FrameKind::Closed | FrameKind::Requested)) => kind,
            _ => FrameKind::Subscribed,
        };
        let mut payload = Payload::of(frame, kind)?;
        let first_index = payload.varint_u32("an index")?;
        Ok(Self {
            payload,
            first_index,
            count: frame.count(),
            next: 0,
            ended: false,
        })
    }

    pub fn first_index(&self) -> u32 {
        self.first_index
    }

    /// Returns the number of items that the frame answers, including exceptions.
    pub fn answered(&self) -> u32 {
        self.count
    }

    fn read(&mut self) -> Result<(u32, FaultRef<'a>), DecodeError> {
        let index = self.payload.varint_u32("an index")?;
        let whole = self.first_index.checked_add(index);
        let (Some(whole), true) = (whole, (self.next..self.count).contains(&index)) else {
            let found = u64::from(index);
            return Err(self
                .payload
                .unexpected("ascending indices below the count", found));
        };
        self.next = index.saturating_add(1);
        Ok((whole, self.payload.fault()?))
    }
}

impl<'a> Iterator for Results<'a> {
    type Item = Result<(u32, FaultRef<'a>), DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended || self.payload.is_empty() {
            return None;
        }
        let result = self.read();
        self.ended = result.is_err();
        Some(result)
    }
}
