//! UPDATES: the updates of a subscription. REPAIRED has the same form.
//!
//! ```text
//! UPDATES  header.request = subscription
//!          count x update record: one self-contained run, see `record`
//! ```
//!
//! The epoch of the positions is the epoch in WELCOME.

use super::record::{RunState, UpdateRecord};
use crate::decode::{Items, Payload};
use crate::frame::{FrameHeader, HEADER_BYTES};
use crate::{DecodeError, Frame, FrameKind, FrameWriter};

#[derive(Debug)]
#[must_use = "a frame is complete only when it is finished"]
pub struct UpdatesBuilder<'a> {
    frame: FrameWriter<'a>,
    state: RunState,
}

impl<'a> UpdatesBuilder<'a> {
    pub fn begin(out: &'a mut Vec<u8>, subscription: u32) -> Self {
        let frame = FrameWriter::begin(out, FrameKind::Updates, subscription);
        Self {
            frame,
            state: RunState::START,
        }
    }

    /// Begins a REPAIRED frame, for items for which the client has a different value.
    pub fn begin_repaired(out: &'a mut Vec<u8>, subscription: u32) -> Self {
        let frame = FrameWriter::begin(out, FrameKind::Repaired, subscription);
        Self {
            frame,
            state: RunState::START,
        }
    }

    /// Reserves memory for a record with a long value; returns false if there is not enough memory.
    #[must_use]
    pub fn make_room(&mut self, bytes: usize) -> bool {
        self.frame.payload().try_reserve_exact(bytes).is_ok()
    }

    /// Appends a record.
    ///
    /// # Real-time
    /// Allocates only if the buffer has to grow.
    #[inline]
    pub fn push(&mut self, record: &UpdateRecord<'_>) {
        self.state.put(self.frame.payload(), record);
        self.frame.count_item();
    }

    pub fn count(&self) -> u32 {
        self.frame.count()
    }

    pub fn len_bytes(&self) -> usize {
        self.frame.len_bytes()
    }

    /// Completes the frame; a frame without records is removed from the buffer.
    pub fn finish(self) {
        self.frame.finish_list(false, true);
    }
}

/// Returns the header of an UPDATES frame for an existing run, such as one that is encoded once and
/// sent to many clients. `run` contains `count` records written with one [`RunState`], and must be
/// shorter than 4 GiB.
pub fn run_header(subscription: u32, count: u32, run: &[u8]) -> [u8; HEADER_BYTES] {
    let header = FrameHeader {
        length: u32::try_from(run.len()).unwrap_or(u32::MAX),
        kind: FrameKind::Updates.number(),
        flags: 0,
        request: subscription,
        count,
    };
    header.to_bytes()
}

#[derive(Clone, Debug)]
pub struct Updates<'a> {
    subscription: u32,
    items: Items<'a>,
    state: RunState,
}

impl<'a> Updates<'a> {
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        Self::of(frame, FrameKind::Updates)
    }

    pub fn decode_repaired(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        Self::of(frame, FrameKind::Repaired)
    }

    fn of(frame: &Frame<'a>, kind: FrameKind) -> Result<Self, DecodeError> {
        let payload = Payload::of(frame, kind)?;
        let items = Items::new(payload, frame.count(), 1)?;
        Ok(Self {
            subscription: frame.request(),
            items,
            state: RunState::START,
        })
    }

    pub fn subscription(&self) -> u32 {
        self.subscription
    }

    pub fn left(&self) -> u32 {
        self.items.left()
    }
}

impl<'a> Iterator for Updates<'a> {
    type Item = Result<UpdateRecord<'a>, DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let state = &mut self.state;
        self.items.next_with(|payload| state.read(payload))
    }
}
