//! The parts that all decoders share: a checked cursor over a payload, and iterators over its
//! items.
//!
//! No function here allocates. The `count` of a list is checked against the number of bytes present
//! before the first item is read, and bytes after the last item are an error (F13, F16).

use trunkline_types::wire::{self, Reader};

use crate::limits::SENTENCE_BYTES_MAX;
use crate::{FaultCode, FaultRef, Frame, FrameKind};

/// The payload of a frame does not match its kind. The peer's program is at fault, and the
/// connection is closed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{kind} frame, {cause}")]
pub struct DecodeError {
    pub kind: FrameKind,
    /// The error; its offsets count from the start of the payload.
    pub cause: wire::DecodeError,
}

/// A cursor over the payload of a frame. After a failed read the frame must not be decoded further.
#[derive(Clone, Debug)]
pub struct Payload<'a> {
    kind: FrameKind,
    reader: Reader<'a>,
}

/// Iterates over the items of a payload; shared by all lists.
#[derive(Clone, Debug)]
pub(crate) struct Items<'a> {
    payload: Payload<'a>,
    left: u32,
    ended: bool,
}

/// Adds the kind of the frame to an error of the reader.
#[inline]
fn in_frame(kind: FrameKind) -> impl FnOnce(wire::DecodeError) -> DecodeError {
    move |cause| DecodeError { kind, cause }
}

/// Defines reads that add the kind of the frame to the reader's error.
macro_rules! forward {
    ($($name:ident -> $ty:ty),+) => {
        $(#[inline]
        pub(crate) fn $name(&mut self) -> Result<$ty, DecodeError> {
            self.reader.$name().map_err(in_frame(self.kind))
        })+
    };
}

impl<'a> Payload<'a> {
    pub(crate) fn of(frame: &Frame<'a>, kind: FrameKind) -> Result<Self, DecodeError> {
        let payload = Self {
            kind,
            reader: Reader::new(frame.payload()),
        };
        if frame.header().kind == kind.number() {
            Ok(payload)
        } else {
            Err(payload.unexpected("a frame of this kind", u64::from(frame.header().kind)))
        }
    }

    /// Returns a cursor over the extension block of a frame.
    pub(crate) fn of_extension(frame: &Frame<'a>) -> Self {
        Self {
            kind: frame.kind().unwrap_or(FrameKind::Part),
            reader: Reader::new(frame.extension()),
        }
    }

    pub(crate) fn of_kinds(
        frame: &Frame<'a>,
        kind: FrameKind,
        also: &[FrameKind],
    ) -> Result<Self, DecodeError> {
        let is_found = |kind: &&FrameKind| kind.number() == frame.header().kind;
        Self::of(frame, *also.iter().find(is_found).unwrap_or(&kind))
    }

    forward!(u8 -> u8, u16 -> u16, u32 -> u32, u64 -> u64, i64 -> i64);
    forward!(varint -> u64, zigzag -> i64);

    /// Runs a decoder of `trunkline-types` at this position.
    pub(crate) fn read<T>(
        &mut self,
        read: impl FnOnce(&mut Reader<'a>) -> Result<T, wire::DecodeError>,
    ) -> Result<T, DecodeError> {
        read(&mut self.reader).map_err(in_frame(self.kind))
    }

    /// Reads a varint that must fit into a `u32`.
    pub(crate) fn varint_u32(&mut self, what: &'static str) -> Result<u32, DecodeError> {
        let offset = self.reader.offset();
        let length = self.varint()?;
        u32::try_from(length).map_err(|_| {
            let max = u64::from(u32::MAX);
            self.error(wire::DecodeError::TooLong {
                offset,
                what,
                length,
                max,
            })
        })
    }

    /// Reads a handle, encoded as the difference from the previous handle.
    #[inline]
    pub(crate) fn handle(&mut self, previous: u32) -> Result<u32, DecodeError> {
        let delta = self.zigzag()?;
        i64::from(previous)
            .checked_add(delta)
            .and_then(|handle| u32::try_from(handle).ok())
            .ok_or_else(|| self.unexpected("a handle within 32 bits", delta as u64))
    }

    /// Reads a varint length and the bytes that follow it.
    #[inline]
    pub(crate) fn prefixed(&mut self, what: &'static str) -> Result<&'a [u8], DecodeError> {
        self.read(|reader| reader.prefixed(what, usize::MAX))
    }

    pub(crate) fn text(&mut self, max: usize) -> Result<&'a str, DecodeError> {
        self.read(|reader| reader.str(max))
    }

    /// Reads the code and the sentence of a fault; a code of 0 is an error here.
    pub(crate) fn fault(&mut self) -> Result<FaultRef<'a>, DecodeError> {
        match self.status()? {
            Some(code) => self.fault_sentence(code),
            None => Err(self.unexpected("a fault code", 0)),
        }
    }

    /// Reads a status: `None` for success, otherwise the code of a fault whose sentence follows.
    #[inline]
    pub(crate) fn status(&mut self) -> Result<Option<FaultCode>, DecodeError> {
        let status = self.varint()?;
        let Ok(number) = u16::try_from(status) else {
            return Err(self.unexpected("a status within 16 bits", status));
        };
        Ok((number != 0).then(|| FaultCode::from_number(number)))
    }

    pub(crate) fn fault_sentence(&mut self, code: FaultCode) -> Result<FaultRef<'a>, DecodeError> {
        Ok(FaultRef {
            code,
            sentence: self.text(SENTENCE_BYTES_MAX)?,
        })
    }

    /// Consumes and returns all remaining bytes.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        self.reader.rest()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.reader.is_empty()
    }

    /// Splits off the next `length` bytes as a payload.
    pub(crate) fn sub(&mut self, length: usize) -> Result<Payload<'a>, DecodeError> {
        let kind = self.kind;
        self.read(|reader| reader.sub(length))
            .map(|reader| Payload { kind, reader })
    }

    pub(crate) fn finish(&self) -> Result<(), DecodeError> {
        self.reader.finish().map_err(|cause| self.error(cause))
    }

    /// Creates the error for unexpected content at this position.
    #[cold]
    pub(crate) fn unexpected(&self, expected: &'static str, found: u64) -> DecodeError {
        let offset = self.reader.offset();
        self.error(wire::DecodeError::Unexpected {
            offset,
            expected,
            found,
        })
    }

    #[cold]
    pub(crate) fn error(&self, cause: wire::DecodeError) -> DecodeError {
        DecodeError {
            kind: self.kind,
            cause,
        }
    }
}

impl<'a> Items<'a> {
    /// Treats the remaining bytes of `payload` as `count` items of at least `item_bytes` bytes
    /// each.
    pub(crate) fn new(
        payload: Payload<'a>,
        count: u32,
        item_bytes: usize,
    ) -> Result<Self, DecodeError> {
        let needed = u64::from(count).saturating_mul(item_bytes as u64);
        let present = payload.reader.remaining();
        if needed > present as u64 {
            let offset = payload.reader.offset();
            return Err(payload.error(wire::DecodeError::Truncated {
                offset,
                needed,
                present,
            }));
        }
        Ok(Self {
            payload,
            left: count,
            ended: false,
        })
    }

    pub(crate) fn left(&self) -> u32 {
        if self.ended { 0 } else { self.left }
    }

    /// Reads one item. After the last item, this checks that no bytes follow. The iteration ends
    /// after an error.
    #[inline(always)]
    pub(crate) fn next_with<T>(
        &mut self,
        read: impl FnOnce(&mut Payload<'a>) -> Result<T, DecodeError>,
    ) -> Option<Result<T, DecodeError>> {
        if self.ended {
            return None;
        }
        let result = if self.left == 0 {
            self.ended = true;
            self.payload.finish().err().map(Err)?
        } else {
            self.left = self.left.wrapping_sub(1);
            read(&mut self.payload)
        };
        self.ended |= result.is_err();
        Some(result)
    }
}
