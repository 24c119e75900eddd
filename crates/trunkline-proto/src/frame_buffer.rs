//! Splits incoming bytes into frames, under limits that are checked before anything is buffered.

use std::time::Duration;

use trunkline_types::Tick;

use crate::FrameKind;
use crate::frame::{Frame, FrameHeader, HEADER_BYTES};
use crate::limits::{
    FRAME_DEADLINE, FRAME_MAX_DEFAULT, HELLO_DEADLINE, HELLO_FRAME_MAX, MESSAGE_MAX_DEFAULT,
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameLimits {
    /// Longest payload of one frame, in bytes.
    pub frame_max: u32,
    /// Longest payload of a message in parts, in bytes, all parts together.
    pub message_max: u32,
    /// Longest time from the first byte of a frame to its last (against slow-loris attacks).
    pub frame_deadline: Duration,
    /// True until the hello is done: only the frames of the hello are accepted.
    pub hello: bool,
}

/// The bytes are not a frame that is legal now. The connection is closed, because the bytes after
/// them cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FrameError {
    /// The first bytes of the connection are not a hello.
    #[error("the first bytes are not a hello, but \"{}\"", first_bytes.escape_ascii())]
    NotTrunkline { first_bytes: [u8; HEADER_BYTES] },
    /// A frame exceeds the agreed length.
    #[error("a frame of kind {kind} announces {length} bytes where at most {max} are agreed")]
    TooLong { kind: u8, length: u32, max: u32 },
    /// The parts of a message exceed the agreed length.
    #[error("the parts of a message exceed {max} bytes")]
    MessageTooLong { max: u32 },
    /// The flag EXT is set, but the payload does not end with an extension block.
    #[error("a frame of kind {kind} announces an extension block that is not there")]
    Extension { kind: u8 },
    #[error("there is no memory for {bytes} bytes of a frame")]
    NoMemory { bytes: usize },
    /// A frame did not arrive in time.
    #[error("a frame was not complete within {} ms", deadline.as_millis())]
    Slow { deadline: Duration },
}

/// Splits incoming bytes into frames.
///
/// Frames that are complete in the input are returned from there without a copy; only the
/// incomplete rest is buffered. Memory grows with the bytes that have arrived, never with the
/// length that a header announces.
///
/// ```
/// # use trunkline_proto::{FrameBuffer, FrameLimits, message::why::Why};
/// # use trunkline_types::Tick;
/// # let (now, mut bytes) = (Tick::ZERO, Vec::new());
/// # Why { name: "plant/level" }.encode(7, &mut bytes);
/// # Why { name: "plant/flow" }.encode(9, &mut bytes);
/// let mut frames = FrameBuffer::new(FrameLimits::default());
/// let mut input = bytes.as_slice();
/// let mut received = Vec::new();
/// while let Some(frame) = frames.next_frame(now, &mut input).unwrap() {
///     received.push(frame.request());
/// }
/// assert_eq!(received, [7, 9]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct FrameBuffer {
    limits: FrameLimits,
    /// An incomplete frame, header first; or the frame returned last, if `spent`.
    pending: Vec<u8>,
    /// The parts of a message whose last frame has not arrived yet.
    parts: Vec<u8>,
    /// True if `pending` (and `parts`) hold the frame returned last.
    spent: bool,
    started_at: Option<Tick>,
    /// The stretch of a message in parts that must arrive in time.
    stretch: Option<Stretch>,
}

/// A stretch of a message in parts, as long as a frame may be. It has the deadline of one frame, in
/// however many parts it arrives. Otherwise a message of small parts would get a new deadline with
/// each part.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    began: Tick,
    /// Bytes of the message before this stretch.
    before: usize,
}

/// The location of a complete frame's payload.
enum Place<'i> {
    Input(&'i [u8]),
    Pending,
}

impl FrameLimits {
    pub const HELLO: FrameLimits = FrameLimits {
        frame_max: HELLO_FRAME_MAX,
        message_max: HELLO_FRAME_MAX,
        frame_deadline: HELLO_DEADLINE,
        hello: true,
    };
}

impl Default for FrameLimits {
    /// The limits after the hello if nothing else was agreed.
    fn default() -> Self {
        Self {
            frame_max: FRAME_MAX_DEFAULT,
            message_max: MESSAGE_MAX_DEFAULT,
            frame_deadline: FRAME_DEADLINE,
            hello: false,
        }
    }
}

impl FrameBuffer {
    /// Creates an empty buffer.
    pub fn new(limits: FrameLimits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    pub fn set_limits(&mut self, limits: FrameLimits) {
        self.limits = limits;
    }

    /// Discards everything, for the next connection.
    pub fn reset(&mut self, limits: FrameLimits) {
        *self = Self::new(limits);
    }

    /// Returns the next complete frame; `None` if all of `input` is consumed and no frame is
    /// complete. The parts of a message are joined here: PART frames are never returned.
    ///
    /// The limits may be changed between two calls. Call this with the same `input` until it
    /// returns `None`.
    ///
    /// # Errors
    /// [`FrameError`]; the connection can no longer be used.
    pub fn next_frame<'a, 'i: 'a>(
        &'a mut self,
        now: Tick,
        input: &mut &'i [u8],
    ) -> Result<Option<Frame<'a>>, FrameError> {
        self.discard_spent();
        loop {
            let Some((header, place)) = self.complete_one(now, input)? else {
                return Ok(None);
            };
            let is_part = header.kind == FrameKind::Part.number();
            if is_part || !self.parts.is_empty() {
                let bytes = match place {
                    Place::Input(payload) => payload,
                    Place::Pending => self.pending.get(HEADER_BYTES..).unwrap_or_default(),
                };
                let length = self.parts.len().saturating_add(bytes.len());
                if length > self.limits.message_max as usize {
                    return Err(FrameError::MessageTooLong {
                        max: self.limits.message_max,
                    });
                }
                append(&mut self.parts, bytes)?;
                empty(&mut self.pending);
                if is_part {
                    self.note_part(now, length);
                    continue;
                }
                self.stretch = None;
                self.spent = true;
                return Frame::new(header, &self.parts).map(Some);
            }
            return match place {
                Place::Input(payload) => Frame::new(header, payload).map(Some),
                Place::Pending => {
                    self.spent = true;
                    let payload = self.pending.get(HEADER_BYTES..).unwrap_or_default();
                    Frame::new(header, payload).map(Some)
                }
            };
        }
    }

    /// The time at which the incomplete frame began to arrive.
    pub fn frame_started_at(&self) -> Option<Tick> {
        self.started_at
    }

    /// The deadline of the incomplete frame, or of the next stretch of a message in parts.
    pub fn poll_timeout(&self) -> Option<Tick> {
        let stretch = self.stretch.map(|stretch| stretch.began);
        let began = Tick::earliest([self.started_at, stretch]);
        began.map(|began| began.saturating_add(self.limits.frame_deadline))
    }

    /// Checks the deadline of the incomplete frame or stretch.
    ///
    /// # Errors
    /// [`FrameError::Slow`] if it has passed; the connection must be closed.
    pub fn handle_timeout(&self, now: Tick) -> Result<(), FrameError> {
        match self.poll_timeout() {
            Some(due) if now >= due => Err(FrameError::Slow {
                deadline: self.limits.frame_deadline,
            }),
            _ => Ok(()),
        }
    }

    pub fn buffered_bytes(&self) -> usize {
        if self.spent {
            0
        } else {
            self.pending.len().saturating_add(self.parts.len())
        }
    }

    /// Allocated memory in bytes, used or not.
    pub fn held_bytes(&self) -> usize {
        self.pending
            .capacity()
            .saturating_add(self.parts.capacity())
    }

    /// Records that a part has extended the message to `length` bytes.
    fn note_part(&mut self, now: Tick, length: usize) {
        let stretch = self.stretch.get_or_insert(Stretch {
            began: now,
            before: 0,
        });
        if length.saturating_sub(stretch.before) >= self.limits.frame_max as usize {
            *stretch = Stretch {
                began: now,
                before: length,
            };
        }
    }

    fn discard_spent(&mut self) {
        if self.spent {
            self.spent = false;
            empty(&mut self.pending);
            empty(&mut self.parts);
        }
    }

    /// Takes the bytes that complete one frame from `input`.
    fn complete_one<'i>(
        &mut self,
        now: Tick,
        input: &mut &'i [u8],
    ) -> Result<Option<(FrameHeader, Place<'i>)>, FrameError> {
        if self.pending.is_empty() {
            if let Some((head, rest)) = input.split_first_chunk::<HEADER_BYTES>() {
                let header = self.check(head)?;
                if let Some((payload, rest)) = rest.split_at_checked(header.length as usize) {
                    *input = rest;
                    return Ok(Some((header, Place::Input(payload))));
                }
            }
            if input.is_empty() {
                return Ok(None);
            }
            self.started_at = Some(now);
        }
        self.take(input, HEADER_BYTES)?;
        let Some(head) = self.pending.first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let header = self.check(head)?;
        let whole = HEADER_BYTES.saturating_add(header.length as usize);
        self.take(input, whole)?;
        if self.pending.len() < whole {
            return Ok(None);
        }
        self.started_at = None;
        Ok(Some((header, Place::Pending)))
    }

    /// Moves bytes from `input` until `pending` has `whole` bytes or the input is empty.
    fn take(&mut self, input: &mut &[u8], whole: usize) -> Result<(), FrameError> {
        let missing = whole.saturating_sub(self.pending.len()).min(input.len());
        let (taken, rest) = input.split_at(missing);
        append(&mut self.pending, taken)?;
        *input = rest;
        Ok(())
    }

    fn check(&self, head: &[u8; HEADER_BYTES]) -> Result<FrameHeader, FrameError> {
        let header = FrameHeader::from_bytes(head);
        let FrameHeader { kind, length, .. } = header;
        let max = self.limits.frame_max;
        if self.limits.hello
            && !(FrameKind::Hello.number()..=FrameKind::Goodbye.number()).contains(&kind)
        {
            return Err(FrameError::NotTrunkline { first_bytes: *head });
        }
        if length > max {
            return Err(FrameError::TooLong { kind, length, max });
        }
        Ok(header)
    }
}

/// Appends the bytes, or fails if there is no memory for them.
fn append(buffer: &mut Vec<u8>, bytes: &[u8]) -> Result<(), FrameError> {
    if buffer.try_reserve(bytes.len()).is_err() {
        let bytes = buffer.len().saturating_add(bytes.len());
        return Err(FrameError::NoMemory { bytes });
    }
    buffer.extend_from_slice(bytes);
    Ok(())
}

/// Empties a buffer; one that a long frame has enlarged releases its memory (F25).
fn empty(buffer: &mut Vec<u8>) {
    const KEPT_BYTES_MAX: usize = 128 << 10;
    if buffer.capacity() > KEPT_BYTES_MAX {
        *buffer = Vec::new();
    } else {
        buffer.clear();
    }
}
