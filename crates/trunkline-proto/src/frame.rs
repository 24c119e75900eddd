//! Encodes frames and splits incoming bytes into frames.
//!
//! All limits are checked before anything is buffered.
//!
//! ```text
//!  0        4    5     6         8          12         16
//! +--------+----+-----+---------+----------+----------+------------------+
//! | length |kind|flags| reserved| request  | count    | payload ...      |
//! |  u32   | u8 | u8  |   u16   |   u32    |   u32    | `length` bytes   |
//! +--------+----+-----+---------+----------+----------+------------------+
//!
//! payload, with the flag EXT:
//! +--------------------------------+-----------------------+------------------+
//! | payload of the kind            | extension: fields     | its length  u32  |
//! +--------------------------------+-----------------------+------------------+
//! ```
//!
//! All numbers are little-endian. `length` counts the bytes after the header. `request` matches an
//! answer to a request; in UPDATES, LOST and ENDED, it identifies the subscription. `count` is the number
//! of items of a list, and 0 in frames without a list. An extension field has the form `varint id,
//! varint length, bytes`; unknown fields are skipped. Without EXT, no bytes may follow the payload
//! that the kind defines.
//!
//! A message longer than a frame, such as a 16 MiB value over a connection whose frames have at
//! most 1 MiB, is split into parts:
//!
//! ```text
//! +------------------+------------------+ ... +---------------------------------+
//! | PART  first MiB  | PART  second MiB |     | UPDATES, WRITE, ...  the rest   |
//! +------------------+------------------+ ... +---------------------------------+
//! ```
//!
//! The payloads of the PART frames are prepended to the payload of the next frame of another kind.
//! The receiver's [`FrameBuffer`] joins the parts, so decoders never see them. No other frame may be
//! sent between the parts of one message. The deadline of a frame applies to every `frame_max` bytes
//! of the message, regardless of the number of parts.

use std::time::Duration;

use trunkline_types::Tick;
use zeroize::Zeroize;

use crate::FrameKind;
use crate::limits::{
    FRAME_DEADLINE, FRAME_MAX_DEFAULT, HELLO_DEADLINE, HELLO_FRAME_MAX, MESSAGE_MAX_DEFAULT,
};

/// Size of the header, in bytes.
pub const HEADER_BYTES: usize = 16;
const LENGTH: usize = 0;
const KIND: usize = 4;
const FLAGS: usize = 5;
const REQUEST: usize = 8;
const COUNT: usize = 12;

/// Flag: more frames of this request or answer follow.
pub const MORE: u8 = 1;
/// Flag: the payload ends with an extension block.
pub const EXT: u8 = 2;

/// Size of the length field at the end of an extension block.
const EXT_LENGTH_BYTES: usize = 4;

/// The fields of a frame header; the [module](self) shows the layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FrameHeader {
    /// Number of bytes after the header.
    pub length: u32,
    /// The number of a [`FrameKind`], or a number unknown to this version.
    pub kind: u8,
    /// [`MORE`] and [`EXT`]; other bits are ignored.
    pub flags: u8,
    /// The number of the request or of the subscription.
    pub request: u32,
    /// Number of items of a list; 0 in frames without a list.
    pub count: u32,
}

/// A complete received frame; its bytes are in the frame buffer or in the input.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    header: FrameHeader,
    payload: &'a [u8],
    extension: &'a [u8],
}

impl FrameHeader {
    /// Parses a header; any 16 bytes are valid.
    pub fn from_bytes(bytes: &[u8; HEADER_BYTES]) -> Self {
        let [
            l0,
            l1,
            l2,
            l3,
            kind,
            flags,
            _,
            _,
            r0,
            r1,
            r2,
            r3,
            c0,
            c1,
            c2,
            c3,
        ] = *bytes;
        Self {
            length: u32::from_le_bytes([l0, l1, l2, l3]),
            kind,
            flags,
            request: u32::from_le_bytes([r0, r1, r2, r3]),
            count: u32::from_le_bytes([c0, c1, c2, c3]),
        }
    }

    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let mut put = |offset: usize, field: &[u8]| {
            for (slot, byte) in bytes.iter_mut().skip(offset).zip(field) {
                *slot = *byte;
            }
        };
        put(LENGTH, &self.length.to_le_bytes());
        put(KIND, &[self.kind]);
        put(FLAGS, &[self.flags]);
        put(REQUEST, &self.request.to_le_bytes());
        put(COUNT, &self.count.to_le_bytes());
        bytes
    }
}

impl<'a> Frame<'a> {
    /// Builds a frame from its header and payload.
    ///
    /// # Errors
    /// [`FrameError::Extension`] if EXT is set but the payload does not end with a block.
    pub fn new(header: FrameHeader, payload: &'a [u8]) -> Result<Self, FrameError> {
        if header.flags & EXT == 0 {
            return Ok(Self {
                header,
                payload,
                extension: &[],
            });
        }
        let error = FrameError::Extension { kind: header.kind };
        let (rest, length) = payload
            .split_last_chunk::<EXT_LENGTH_BYTES>()
            .ok_or(error.clone())?;
        let length = u32::from_le_bytes(*length) as usize;
        let split = rest.len().checked_sub(length).ok_or(error.clone())?;
        let (payload, extension) = rest.split_at_checked(split).ok_or(error)?;
        Ok(Self {
            header,
            payload,
            extension,
        })
    }

    /// Removes the first frame from `bytes`; returns `None` if there is no complete frame. This
    /// checks no limits, so only tests and tools may use it; connections use a [`FrameBuffer`].
    pub fn take_from(bytes: &mut &'a [u8]) -> Result<Option<Self>, FrameError> {
        let Some((head, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let header = FrameHeader::from_bytes(head);
        let Some((payload, rest)) = rest.split_at_checked(header.length as usize) else {
            return Ok(None);
        };
        *bytes = rest;
        Frame::new(header, payload).map(Some)
    }

    /// Returns the kind; `None` if this version does not know the kind. Frames of unknown kinds are
    /// skipped (B-51).
    pub fn kind(&self) -> Option<FrameKind> {
        FrameKind::from_number(self.header.kind)
    }

    /// Returns the request that the frame belongs to; in UPDATES, LOST and ENDED, the subscription.
    pub fn request(&self) -> u32 {
        self.header.request
    }

    /// Returns the number of items in the payload according to the peer. Decoders check this number
    /// against the number of bytes.
    pub fn count(&self) -> u32 {
        self.header.count
    }

    /// Returns true if more frames of this request or answer follow.
    pub fn has_more(&self) -> bool {
        self.header.flags & MORE != 0
    }

    pub fn header(&self) -> FrameHeader {
        self.header
    }

    /// Returns the payload without the extension.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Returns the fields of the extension; empty if there is no extension.
    pub fn extension(&self) -> &'a [u8] {
        self.extension
    }
}

/// Appends one frame to a buffer. The header is reserved first and filled in at the end.
///
/// The existing content of the buffer is preserved. Dropping the writer without
/// [`finish`](Self::finish) or [`abandon`](Self::abandon) leaves a header of zeros, followed by the
/// payload.
#[derive(Debug)]
#[must_use = "a frame is complete only when it is finished"]
pub struct FrameWriter<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    kind: FrameKind,
    request: u32,
    count: u32,
}

impl<'a> FrameWriter<'a> {
    pub fn begin(out: &'a mut Vec<u8>, kind: FrameKind, request: u32) -> Self {
        let start = out.len();
        out.extend_from_slice(&[0; HEADER_BYTES]);
        Self {
            out,
            start,
            kind,
            request,
            count: 0,
        }
    }

    pub fn payload(&mut self) -> &mut Vec<u8> {
        self.out
    }

    pub fn count_item(&mut self) {
        self.count = self.count.saturating_add(1);
    }

    /// Returns the number of items counted so far.
    pub fn count(&self) -> u32 {
        self.count
    }

    pub fn len_bytes(&self) -> usize {
        self.out.len().saturating_sub(self.start)
    }

    /// Completes the frame; `more` is true if further frames of the same request or answer follow.
    /// The frame must be shorter than 4 GiB. [`split_oversized`] splits a frame that is longer than
    /// the `frame_max` of the connection.
    pub fn finish(self, more: bool) {
        let flags = if more { MORE } else { 0 };
        self.finish_with(flags);
    }

    /// Completes the frame, or removes it if it has no items and `empty_is_removed` is true.
    pub(crate) fn finish_list(self, more: bool, empty_is_removed: bool) {
        match empty_is_removed && self.count == 0 {
            true => self.abandon(),
            false => self.finish(more),
        }
    }

    /// Completes the frame with an extension block made of these fields.
    pub fn finish_with_extension(self, more: bool, fields: &[u8]) {
        self.out.extend_from_slice(fields);
        let length = u32::try_from(fields.len()).unwrap_or(u32::MAX);
        self.out.extend_from_slice(&length.to_le_bytes());
        let flags = if more { MORE | EXT } else { EXT };
        self.finish_with(flags);
    }

    pub fn abandon(self) {
        self.out.truncate(self.start);
    }

    pub(crate) fn finish_with(self, flags: u8) {
        let length = self.len_bytes().saturating_sub(HEADER_BYTES);
        let header = FrameHeader {
            length: u32::try_from(length).unwrap_or(u32::MAX),
            kind: self.kind.number(),
            flags,
            request: self.request,
            count: self.count,
        };
        let end = self.start.saturating_add(HEADER_BYTES);
        if let Some(slot) = self.out.get_mut(self.start..end) {
            slot.copy_from_slice(&header.to_bytes());
        }
    }
}

/// Splits all frames in `out[start..]` that are longer than `frame_max` into parts.
///
/// `out[start..]` must contain whole frames, as encoders write them. Bytes are moved only if a frame
/// must be split. The split is done in place: `out` does not allocate if the caller has reserved
/// [`part_bytes`] in advance.
#[inline]
pub fn split_oversized(out: &mut Vec<u8>, start: usize, frame_max: u32) {
    // No frame is too long if all frames together are within the limit of one frame.
    if out.len().saturating_sub(start) > frame_max as usize {
        split(out, start, frame_max.max(1) as usize);
    }
}

fn split(out: &mut Vec<u8>, start: usize, frame_max: usize) {
    let whole = out.get(start..).unwrap_or_default();
    let more: usize = Pieces::of(whole, frame_max)
        .filter(|piece| piece.is_new)
        .count()
        .saturating_mul(HEADER_BYTES);
    if more == 0 {
        return;
    }
    let pieces: Vec<Piece> = Pieces::of(whole, frame_max).collect();
    let end = out.len();
    out.reserve_exact(more);
    out.resize(end.saturating_add(more), 0);
    // Move the pieces from the last to the first. Each piece moves by the total size of the headers
    // that will be inserted before it.
    let mut shift = more;
    for piece in pieces.iter().rev() {
        let from = start.saturating_add(piece.at);
        let to = from.saturating_add(shift);
        out.copy_within(from..from.saturating_add(piece.bytes), to);
        let header = to.saturating_sub(HEADER_BYTES);
        if let Some(place) = out.get_mut(header..to) {
            place.copy_from_slice(&piece.header.to_bytes());
        }
        if piece.is_new {
            shift = shift.saturating_sub(HEADER_BYTES);
        }
    }
}

/// Returns the maximum number of bytes by which [splitting](split_oversized) enlarges a message with
/// a value of `value_bytes` bytes.
pub fn part_bytes(value_bytes: usize, frame_max: u32) -> usize {
    let parts = value_bytes
        .checked_div(frame_max.max(1) as usize)
        .unwrap_or(value_bytes);
    parts.saturating_add(2).saturating_mul(HEADER_BYTES)
}

/// A part of a payload that fits into one frame.
struct Piece {
    at: usize,
    bytes: usize,
    header: FrameHeader,
    /// True if the header is inserted, false if it replaces the frame's own header.
    is_new: bool,
}

/// Iterates over the payloads of frames, in pieces that each fit into one frame.
struct Pieces<'a> {
    rest: &'a [u8],
    frame_max: usize,
    /// Offset of the next piece.
    at: usize,
    /// The header of the frame being split, and the number of remaining payload bytes.
    open: Option<(FrameHeader, usize)>,
}

impl<'a> Pieces<'a> {
    fn of(rest: &'a [u8], frame_max: usize) -> Self {
        Self {
            rest,
            frame_max,
            at: 0,
            open: None,
        }
    }
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let is_new = self.open.is_some();
        let (frame, left) = match self.open.take() {
            Some(open) => open,
            None => {
                let (header, frame, after) = take_frame(self.rest)?;
                self.rest = after;
                self.at = self.at.saturating_add(HEADER_BYTES);
                (header, frame.len().saturating_sub(HEADER_BYTES))
            }
        };
        let bytes = left.min(self.frame_max);
        let header = match left > bytes {
            true => {
                self.open = Some((frame, left.saturating_sub(bytes)));
                FrameHeader {
                    length: bytes as u32,
                    kind: FrameKind::Part.number(),
                    request: frame.request,
                    ..FrameHeader::default()
                }
            }
            false => FrameHeader {
                length: bytes as u32,
                ..frame
            },
        };
        let at = self.at;
        self.at = self.at.saturating_add(bytes);
        Some(Piece {
            at,
            bytes,
            header,
            is_new,
        })
    }
}

fn take_frame(bytes: &[u8]) -> Option<(FrameHeader, &[u8], &[u8])> {
    let header = FrameHeader::from_bytes(bytes.first_chunk::<HEADER_BYTES>()?);
    let whole = HEADER_BYTES.saturating_add(header.length as usize);
    let (frame, after) = bytes.split_at_checked(whole)?;
    Some((header, frame, after))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameLimits {
    /// Longest payload of one frame, in bytes.
    pub frame_max: u32,
    /// Longest payload of a message in parts: the total of all parts, in bytes.
    pub message_max: u32,
    /// Longest time from the first to the last byte of a frame; protects against slow-loris attacks.
    pub frame_deadline: Duration,
    /// True until the hello is complete; during that time, only frames of the hello are accepted.
    pub hello: bool,
}

/// The received bytes are not a valid frame. The connection must be closed, because the following
/// bytes cannot be interpreted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FrameError {
    /// The first bytes of the connection are not a hello.
    #[error("the first bytes are \"{}\" instead of a hello", first_bytes.escape_ascii())]
    NotTrunkline { first_bytes: [u8; HEADER_BYTES] },
    /// A frame exceeds the agreed length.
    #[error("a frame of kind {kind} announces {length} bytes, but at most {max} are allowed")]
    TooLong { kind: u8, length: u32, max: u32 },
    /// The parts of a message exceed the agreed length.
    #[error("the parts of a message exceed {max} bytes")]
    MessageTooLong { max: u32 },
    /// The flag EXT is set, but the payload does not end with an extension block.
    #[error("a frame of kind {kind} announces an extension block, but does not end with one")]
    Extension { kind: u8 },
    #[error("there is no memory for {bytes} bytes of a frame")]
    NoMemory { bytes: usize },
    /// A frame did not arrive in time.
    #[error("a frame was not complete within {} ms", deadline.as_millis())]
    Slow { deadline: Duration },
}

/// Splits incoming bytes into frames.
///
/// Frames that are complete in the input are returned without a copy; only an incomplete frame at
/// the end is buffered. Memory use grows with the number of bytes that have arrived, never with the
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
    /// An incomplete frame, starting with the header. If `is_consumed` is true: the frame that was
    /// returned last.
    pending: Vec<u8>,
    /// The parts of a message whose last frame has not arrived yet.
    parts: Vec<u8>,
    /// True if `pending` and `parts` contain the frame that was returned last, so that the next call
    /// discards them.
    is_consumed: bool,
    started_at: Option<Tick>,
    /// The segment of a message in parts that must arrive in time.
    segment: Option<Segment>,
}

/// A segment of a message in parts, as long as the longest frame. A segment has the deadline of one
/// frame, regardless of the number of its parts. Otherwise, a message of small parts would get a new
/// deadline with each part.
#[derive(Clone, Copy, Debug)]
struct Segment {
    started_at: Tick,
    /// Number of bytes of the message before this segment.
    offset: usize,
}

/// The location of a complete frame's payload.
enum PayloadLocation<'i> {
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
    /// The limits after the hello, unless other limits were agreed.
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
            pending: Vec::new(),
            parts: Vec::new(),
            is_consumed: false,
            started_at: None,
            segment: None,
        }
    }

    pub fn set_limits(&mut self, limits: FrameLimits) {
        self.erase_login();
        self.limits = limits;
    }

    /// Discards all content, so that the buffer can be used for the next connection.
    pub fn reset(&mut self, limits: FrameLimits) {
        *self = Self::new(limits);
    }

    /// Returns the next complete frame; `None` if all of `input` is consumed and no frame is
    /// complete. The parts of a message are joined, so PART frames are never returned.
    ///
    /// The limits may change between two calls. Call this method with the same `input` until it
    /// returns `None`.
    ///
    /// # Errors
    /// [`FrameError`]; the connection can no longer be used.
    pub fn next_frame<'a, 'i: 'a>(
        &'a mut self,
        now: Tick,
        input: &mut &'i [u8],
    ) -> Result<Option<Frame<'a>>, FrameError> {
        self.discard_consumed();
        loop {
            let Some((header, location)) = self.complete_one(now, input)? else {
                return Ok(None);
            };
            let is_part = header.kind == FrameKind::Part.number();
            if is_part || !self.parts.is_empty() {
                let bytes = match location {
                    PayloadLocation::Input(payload) => payload,
                    PayloadLocation::Pending => {
                        self.pending.get(HEADER_BYTES..).unwrap_or_default()
                    }
                };
                let length = self.parts.len().saturating_add(bytes.len());
                if length > self.limits.message_max as usize {
                    return Err(FrameError::MessageTooLong {
                        max: self.limits.message_max,
                    });
                }
                append(&mut self.parts, bytes)?;
                clear(&mut self.pending);
                if is_part {
                    self.record_part(now, length);
                    continue;
                }
                self.segment = None;
                self.is_consumed = true;
                return Frame::new(header, &self.parts).map(Some);
            }
            return match location {
                PayloadLocation::Input(payload) => Frame::new(header, payload).map(Some),
                PayloadLocation::Pending => {
                    self.is_consumed = true;
                    let payload = self.pending.get(HEADER_BYTES..).unwrap_or_default();
                    Frame::new(header, payload).map(Some)
                }
            };
        }
    }

    /// Returns the time at which the incomplete frame began to arrive.
    pub fn frame_started_at(&self) -> Option<Tick> {
        self.started_at
    }

    /// Returns the deadline of the incomplete frame, or of the current segment of a message in parts.
    pub fn poll_timeout(&self) -> Option<Tick> {
        let segment = self.segment.map(|segment| segment.started_at);
        let started_at = Tick::earliest([self.started_at, segment]);
        started_at.map(|started_at| started_at.saturating_add(self.limits.frame_deadline))
    }

    /// Checks the deadline of the incomplete frame or segment.
    ///
    /// # Errors
    /// [`FrameError::Slow`] if the deadline has passed; the connection must be closed.
    pub fn handle_timeout(&self, now: Tick) -> Result<(), FrameError> {
        match self.poll_timeout() {
            Some(due) if now >= due => Err(FrameError::Slow {
                deadline: self.limits.frame_deadline,
            }),
            _ => Ok(()),
        }
    }

    pub fn buffered_bytes(&self) -> usize {
        if self.is_consumed {
            0
        } else {
            self.pending.len().saturating_add(self.parts.len())
        }
    }

    /// Returns the amount of allocated memory in bytes, whether used or unused.
    pub fn allocated_bytes(&self) -> usize {
        self.pending
            .capacity()
            .saturating_add(self.parts.capacity())
    }

    /// Records that a part has extended the message to `length` bytes.
    fn record_part(&mut self, now: Tick, length: usize) {
        let segment = self.segment.get_or_insert(Segment {
            started_at: now,
            offset: 0,
        });
        if length.saturating_sub(segment.offset) >= self.limits.frame_max as usize {
            *segment = Segment {
                started_at: now,
                offset: length,
            };
        }
    }

    /// Erases the frame that was returned last if it belongs to the login, because it may contain a password or
    /// a token.
    fn erase_login(&mut self) {
        if self.limits.hello && self.is_consumed {
            self.is_consumed = false;
            self.erase();
        }
    }

    fn erase(&mut self) {
        self.pending.zeroize();
        self.parts.zeroize();
    }

    fn discard_consumed(&mut self) {
        self.erase_login();
        if self.is_consumed {
            self.is_consumed = false;
            clear(&mut self.pending);
            clear(&mut self.parts);
        }
    }

    /// Removes from `input` the bytes that complete one frame.
    fn complete_one<'i>(
        &mut self,
        now: Tick,
        input: &mut &'i [u8],
    ) -> Result<Option<(FrameHeader, PayloadLocation<'i>)>, FrameError> {
        if self.pending.is_empty() {
            if let Some((head, rest)) = input.split_first_chunk::<HEADER_BYTES>() {
                let header = self.check(head)?;
                if let Some((payload, rest)) = rest.split_at_checked(header.length as usize) {
                    *input = rest;
                    return Ok(Some((header, PayloadLocation::Input(payload))));
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
        Ok(Some((header, PayloadLocation::Pending)))
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

impl Drop for FrameBuffer {
    fn drop(&mut self) {
        // A frame of the login, complete or not.
        if self.limits.hello {
            self.erase();
        }
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

/// Clears a buffer, and frees the memory if a long frame has enlarged the buffer (F25).
fn clear(buffer: &mut Vec<u8>) {
    const KEPT_BYTES_MAX: usize = 128 << 10;
    if buffer.capacity() > KEPT_BYTES_MAX {
        *buffer = Vec::new();
    } else {
        buffer.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: FrameKind, request: u32, payload: &[u8]) -> Vec<u8> {
        let header = FrameHeader {
            length: payload.len() as u32,
            kind: kind.number(),
            request,
            ..FrameHeader::default()
        };
        [&header.to_bytes()[..], payload].concat()
    }

    #[test]
    fn frames_are_split_in_place_and_bytes_before_them_are_preserved() {
        let max = 10;
        let lengths = [0, 5, 10, 11, 3, 20, 21, 40, 0, 7, 95];
        let (mut whole, mut expected) = (vec![99; 3], vec![99; 3]);
        for (request, length) in (1..).zip(lengths) {
            let payload: Vec<u8> = (0..length).collect();
            whole.extend(frame(FrameKind::Updates, request, &payload));
            let mut parts = payload.chunks(max).peekable();
            if payload.is_empty() {
                expected.extend(frame(FrameKind::Updates, request, &[]));
            }
            while let Some(part) = parts.next() {
                let kind = match parts.peek() {
                    Some(_) => FrameKind::Part,
                    None => FrameKind::Updates,
                };
                expected.extend(frame(kind, request, part));
            }
        }
        let before = whole.len();
        split_oversized(&mut whole, 3, max as u32);
        assert_eq!(whole, expected);
        assert!(whole.len() - before <= lengths.len() * part_bytes(95, max as u32));
        // Splitting again changes nothing.
        split_oversized(&mut whole, 3, max as u32);
        assert_eq!(whole, expected);
    }

    #[test]
    fn frame_of_the_login_is_erased_when_the_session_begins() {
        let hello = frame(FrameKind::Hello, 0, b"password");
        let (first, mut rest) = hello.split_at(10);
        let mut sut = FrameBuffer::new(FrameLimits::HELLO);
        let next = sut.next_frame(Tick::ZERO, &mut &*first);
        assert!(matches!(next, Ok(None)));
        let next = sut.next_frame(Tick::ZERO, &mut rest);
        assert!(matches!(next, Ok(Some(frame)) if frame.kind() == Some(FrameKind::Hello)));
        sut.set_limits(FrameLimits::default());
        assert!(sut.pending.is_empty());
        assert!(!sut.is_consumed);
    }
}
