//! Implements the lane to one of several readers, which has a cursor in the ring that all readers
//! share.
//!
//! ```text
//!                     program
//!                        | push
//!                        v
//!            [ ring          ]
//!               ^    ^     ^ cursors: the space before the slowest cursor is free
//!               |    |     |
//!             lane  lane  lane  -- each has its own WriterLink and connection
//! ```
//!
//! The positions of a lane are 0 where the lane's reader joined. They do not count the elements that
//! the reader lost.

use std::sync::Arc;

use trunkline_net::StreamMemory;
use trunkline_proto::message::stream::Until;
use trunkline_proto::stream::{ByteRange, ElementForm, Left, RingBytes, Writer, WriterLink};
use trunkline_ring::{Corrupt, ElementCursor, RingStart};

use super::one_ring::SharedRing;
use super::{Bell, EndpointRole, StopPolling};

pub(crate) struct LaneEnd {
    /// `None` once the reader has left.
    cursor: Option<ElementCursor>,
    form: ElementForm,
    /// The place in the ring where the lane's reader joined.
    start: RingStart,
    /// Ring position minus lane position, valid from the first byte that the lane still needs.
    ring_offset: u64,
    /// Maximum number of elements kept for a reader that does not accept them; `None` means as many
    /// as fit in the ring.
    quota: Option<u64>,
    /// Number of elements that had been written when the reader last stalled.
    written_at_stall: u64,
    sending: Option<Sending>,
    awaits_announcement: bool,
    /// The elements that the reader has not received; set when the stream is over.
    left: Option<Left>,
    bell: Arc<Bell>,
    /// The state when the program was last notified.
    last_reported: ([u64; 3], u64, u64, bool),
    /// Always `None`, because several readers use the ring.
    shared: Option<SharedRing>,
}

/// A part of the stream that is being sent.
struct Sending {
    place: ByteRange,
    /// A copy of the bytes, made when the ring releases them before they are sent.
    copy: Option<Vec<u8>>,
}

/// The point from which a ring keeps elements: the first element boundary that is at or after both
/// this position and this number of elements.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeepFrom {
    pub(crate) position: u64,
    pub(crate) elements: u64,
}

impl LaneEnd {
    /// Creates a lane whose reader gets everything after its cursor.
    pub(crate) fn new(
        cursor: ElementCursor,
        form: ElementForm,
        quota: Option<u64>,
        bell: Arc<Bell>,
    ) -> Self {
        let start = cursor.place();
        Self {
            cursor: Some(cursor),
            form,
            start,
            ring_offset: start.position,
            quota,
            written_at_stall: 0,
            sending: None,
            awaits_announcement: false,
            left: None,
            bell,
            last_reported: ([0; 3], 0, 0, false),
            shared: None,
        }
    }

    /// Called when the program, which was asked to announce its writes, has written something.
    pub(crate) fn wake(&mut self) {
        self.awaits_announcement = false;
    }

    pub(crate) fn keep_from(&mut self, link: &mut WriterLink, from: KeepFrom) {
        if let Some(begin) = self.cursor.as_ref().map(ElementCursor::place) {
            self.drop_from(link, begin, from);
        }
    }

    /// Returns how many elements the reader has not received.
    pub(crate) fn left(&self, link: &WriterLink) -> Left {
        self.left.unwrap_or_else(|| link.left(self))
    }

    /// Applies the link's progress, so that the ring releases the elements that this reader no
    /// longer needs.
    fn follow(&mut self, link: &WriterLink) {
        self.ring_offset = self.start.position.saturating_add(link.ring_shift());
        let (position, elements) = link.ring_freed();
        if let Some(cursor) = &mut self.cursor {
            let elements = self.start.elements.saturating_add(elements);
            cursor.pass(self.start.position.saturating_add(position), elements);
        }
        // Elements that vary in size are freed later than they are acknowledged.
        let places = Until::REQUESTABLE.map(|until| link.position(until));
        let report = (
            places,
            link.position(Until::Sent),
            position,
            link.is_closed(),
        );
        if std::mem::replace(&mut self.last_reported, report) != report {
            self.bell.ring();
        }
    }

    /// Drops elements that exceed the quota and that a stalled reader has not accepted.
    fn drop_excess(&mut self, link: &mut WriterLink, written: u64) {
        let Some(quota) = self.quota else {
            return;
        };
        let (position, handed) = link.ring_handed(self);
        let waiting = written.saturating_sub(handed);
        let stalled = match link.is_connected() {
            true => self.written_at_stall.saturating_sub(handed),
            false => waiting,
        };
        let excess = waiting.saturating_sub(quota).min(stalled);
        if excess > 0 {
            let from = KeepFrom {
                position: 0,
                elements: self.start.elements + handed + excess,
            };
            let handed = RingStart {
                position: self.start.position + position,
                elements: self.start.elements + handed,
            };
            self.drop_from(link, handed, from);
        }
    }

    /// Releases everything before `from` for this reader, searching from `begin`.
    fn drop_from(&mut self, link: &mut WriterLink, begin: RingStart, from: KeepFrom) {
        let Some(cursor) = &self.cursor else {
            return;
        };
        let place = boundary_at_or_after(cursor, self.form, begin, from);
        self.copy_sending();
        let position = place.position.saturating_sub(self.start.position);
        let elements = place.elements.saturating_sub(self.start.elements);
        link.drop_before(position, elements, self);
        self.follow(link);
    }

    /// Copies data that is partly sent, so that sending can finish without the ring.
    fn copy_sending(&mut self) {
        let Some(Sending { place, copy: None }) = &self.sending else {
            return;
        };
        let [bytes, _] = self.bytes(place.position, place.len);
        let bytes = bytes.to_vec();
        if let Some(sending) = &mut self.sending {
            sending.copy = Some(bytes);
        }
    }
}

/// Returns the first element boundary at or after both `begin` and `from`, or the end of the ring's
/// data. `begin` must be an element boundary.
pub(crate) fn boundary_at_or_after(
    cursor: &ElementCursor,
    form: ElementForm,
    begin: RingStart,
    from: KeepFrom,
) -> RingStart {
    let mut place = begin;
    if let ElementForm::Fixed(size) = form {
        let size = u64::from(size.max(1));
        let bytes = from.position.saturating_sub(begin.position);
        let skipped = from.elements.saturating_sub(begin.elements);
        let skipped = skipped.max(bytes.div_ceil(size));
        place.position += skipped * size;
        place.elements += skipped;
        return place;
    }
    let mut len = [0; crate::element::LENGTH_BYTES];
    while (place.position < from.position || place.elements < from.elements)
        && cursor.read_at(place.position, &mut len)
    {
        place.position += len.len() as u64 + u64::from(u32::from_le_bytes(len));
        place.elements += 1;
    }
    place
}

impl RingBytes for LaneEnd {
    fn bytes(&self, position: u64, len: u64) -> [&[u8]; 2] {
        // A length that exceeds `usize` cannot be available.
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let region = self
            .cursor
            .as_ref()
            .and_then(|cursor| cursor.region_at(position.saturating_add(self.ring_offset), len));
        region.unwrap_or_default()
    }
}

impl EndpointRole for LaneEnd {
    type LinkRole = Writer;

    fn poll_ring(&mut self, link: &mut WriterLink) -> Result<(), Corrupt> {
        self.follow(link);
        let Some(cursor) = &mut self.cursor else {
            return Ok(());
        };
        let (elements, written) = (cursor.written_elements()?, cursor.written()?);
        let elements = elements.saturating_sub(self.start.elements);
        link.handle_ring_written(written.saturating_sub(self.start.position), elements);
        self.drop_excess(link, elements);
        Ok(())
    }

    fn apply_progress(&mut self, link: &mut WriterLink) {
        self.follow(link);
    }

    fn shared(&self) -> Option<&SharedRing> {
        self.shared.as_ref()
    }

    fn shared_mut(&mut self) -> &mut Option<SharedRing> {
        &mut self.shared
    }

    fn start(_: &WriterLink) -> RingStart {
        RingStart::default()
    }

    fn take_over(&mut self, _: &Arc<StreamMemory>, _: RingStart, _: RingStart) {}

    fn unpolled_bytes(&mut self, link: &WriterLink) -> u64 {
        let polled = link.written().saturating_add(self.ring_offset);
        let written = self.cursor.as_mut().and_then(|c| c.written().ok());
        written.unwrap_or(0).saturating_sub(polled)
    }

    fn begin_sending(&mut self, link: &WriterLink, place: Option<ByteRange>) {
        match place {
            Some(place) => self.sending = Some(Sending { place, copy: None }),
            // The reader has no room or is not connected, so the unsent elements have to wait.
            None => {
                self.written_at_stall = self.written_at_stall.max(link.ring_written_elements());
            }
        }
    }

    fn end_sending(&mut self) {
        self.sending = None;
    }

    fn sending_bytes(&self, position: u64, len: u64) -> &[u8] {
        if let Some(Sending {
            place,
            copy: Some(bytes),
        }) = &self.sending
        {
            let begin = usize::try_from(position.saturating_sub(place.position));
            return begin
                .ok()
                .and_then(|at| bytes.get(at..))
                .unwrap_or_default();
        }
        let [piece, _] = self.bytes(position, len);
        piece
    }

    fn handle_over(&mut self, link: &mut WriterLink) {
        link.free(self);
        self.follow(link);
        self.left = Some(link.left(self));
        // From here on, the lane delays neither the writer nor the other readers.
        self.cursor = None;
        self.bell.ring();
    }

    /// Returns false, because all lanes share the ring's memory.
    fn releases_idle_memory(&self) -> bool {
        false
    }

    fn release_idle_memory(&mut self, _: &WriterLink) {}

    fn stop_polling(&mut self, link: &WriterLink) -> StopPolling {
        if std::mem::replace(&mut self.awaits_announcement, true) {
            return StopPolling::Yes;
        }
        let polled = link.written().saturating_add(self.ring_offset);
        let waits = self.cursor.as_mut().map(|cursor| cursor.wait_after(polled));
        match waits {
            Some(Ok(false)) => {
                self.awaits_announcement = false;
                StopPolling::Found
            }
            _ => StopPolling::Requested,
        }
    }
}
