//! FORCING and FORCED: the list of forced variables, and its switch.
//!
//! ```text
//! FORCING  verb u8 | cursor u32 | limit u32
//!          verb   0 LIST  1 ON  2 OFF  3 CLEAR
//! FORCED   state u8 | total u32 | next_cursor u32
//!          count x ( name text | type | flags u8 | since i64 | by text | value
//!                    [ quality u32 | value ] )
//!          state  1 ON                       flags  1 BEHIND: what follows in brackets is there
//! ```
//!
//! Agreed as the feature FORCING. OFF lets every forced variable show the value of its source and
//! keeps the list; ON applies the list; CLEAR empties it. These three are answered without items,
//! and `total` is the number of variables affected. LIST is answered with one page; a `next_cursor`
//! other than 0 is the cursor of the FORCING for the next page.

use trunkline_types::wire::{decode_value, encode_value, put_i64, put_str, put_u8, put_u32};
use trunkline_types::{DataType, Quality, Timestamp, Value};

use super::typed::TypeRun;
use crate::decode::{Items, Payload};
use crate::limits::SENTENCE_BYTES_MAX;
use crate::{DecodeError, Frame, FrameKind, FrameWriter};

const ON: u8 = 1;
const BEHIND: u8 = 1;

/// The action on the list of forced variables.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ForcingVerb {
    /// Return a page of the list.
    List,
    /// Apply the forced values.
    On,
    /// Show the source's value for every variable, but keep the list.
    Off,
    /// Unforce every variable.
    Clear,
}

/// A FORCING frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Forcing {
    /// The action.
    pub verb: ForcingVerb,
    /// Cursor of the page; 0 for the first page.
    pub cursor: u32,
    /// Most items wanted in the answer; 0 lets the engine choose.
    pub limit: u32,
}

/// A forced variable.
#[derive(Clone, PartialEq, Debug)]
pub struct ForcedEntry {
    /// Its full name.
    pub name: String,
    /// The type of its values.
    pub data_type: DataType,
    /// The forced value.
    pub value: Value,
    /// Principal that forced it, for people.
    pub by: String,
    /// Time at which it was forced.
    pub since: Timestamp,
    /// The value and quality that its source delivers meanwhile; `None` if there is none yet.
    pub behind: Option<(Value, Quality)>,
}

impl Forcing {
    /// Appends the frame.
    pub fn encode(&self, request: u32, out: &mut Vec<u8>) {
        let mut frame = FrameWriter::begin(out, FrameKind::Forcing, request);
        let out = frame.payload();
        put_u8(out, self.verb as u8);
        put_u32(out, self.cursor);
        put_u32(out, self.limit);
        frame.finish(false);
    }

    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the payload does not have the form drawn in the [module](self).
    pub fn decode(frame: &Frame<'_>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::Forcing)?;
        let verb = match payload.u8()? {
            0 => ForcingVerb::List,
            1 => ForcingVerb::On,
            2 => ForcingVerb::Off,
            3 => ForcingVerb::Clear,
            other => return Err(payload.unexpected("a verb, 0 to 3", u64::from(other))),
        };
        let forcing = Self {
            verb,
            cursor: payload.u32()?,
            limit: payload.u32()?,
        };
        payload.finish()?;
        Ok(forcing)
    }
}

/// The head of every FORCED frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ForcedHead {
    /// True while forced values are applied.
    pub is_on: bool,
    /// Number of variables on the list, or of those that the action affected.
    pub total: u32,
    /// Cursor of the next page; 0 if this is the last.
    pub next_cursor: u32,
}

/// Writes a FORCED frame.
#[derive(Debug)]
#[must_use = "a frame is complete only when it is finished"]
pub struct ForcedBuilder<'a> {
    frame: FrameWriter<'a>,
    types: TypeRun,
    head_at: usize,
}

impl<'a> ForcedBuilder<'a> {
    /// Begins a frame at the end of `out`.
    pub fn begin(out: &'a mut Vec<u8>, request: u32) -> Self {
        let mut frame = FrameWriter::begin(out, FrameKind::Forced, request);
        let head_at = frame.payload().len();
        frame.payload().extend([0; HEAD_BYTES]);
        Self {
            frame,
            types: TypeRun::default(),
            head_at,
        }
    }

    /// Appends a variable.
    pub fn push(&mut self, entry: &ForcedEntry) {
        put_entry(self.frame.payload(), &mut self.types, entry);
        self.frame.count_item();
    }

    /// Bytes of the frame so far, header included.
    pub fn len_bytes(&self) -> usize {
        self.frame.len_bytes()
    }

    /// Completes the frame.
    pub fn finish(mut self, head: &ForcedHead) {
        let mut bytes = Vec::with_capacity(HEAD_BYTES);
        put_u8(&mut bytes, if head.is_on { ON } else { 0 });
        put_u32(&mut bytes, head.total);
        put_u32(&mut bytes, head.next_cursor);
        let end = self.head_at.saturating_add(HEAD_BYTES);
        if let Some(place) = self.frame.payload().get_mut(self.head_at..end) {
            place.copy_from_slice(&bytes);
        }
        self.frame.finish(false);
    }
}

/// A FORCED frame; iterates over the variables.
#[derive(Clone, Debug)]
pub struct Forced<'a> {
    head: ForcedHead,
    items: Items<'a>,
    types: TypeRun,
}

impl<'a> Forced<'a> {
    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the frame cannot hold `count` items; errors in the items appear during
    /// iteration.
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::Forced)?;
        let head = ForcedHead {
            is_on: payload.u8()? & ON != 0,
            total: payload.u32()?,
            next_cursor: payload.u32()?,
        };
        Ok(Self {
            head,
            items: Items::new(payload, frame.count(), ENTRY_BYTES_MIN)?,
            types: TypeRun::default(),
        })
    }

    /// The head of the frame.
    pub fn head(&self) -> ForcedHead {
        self.head
    }
}

impl Iterator for Forced<'_> {
    type Item = Result<ForcedEntry, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let types = &mut self.types;
        self.items.next_with(|payload| read_entry(payload, types))
    }
}

pub(super) fn put_entry(out: &mut Vec<u8>, types: &mut TypeRun, entry: &ForcedEntry) {
    put_str(out, &entry.name);
    types.put(out, &entry.data_type);
    put_u8(out, if entry.behind.is_some() { BEHIND } else { 0 });
    put_i64(out, entry.since.as_nanos());
    put_str(out, super::fault::cut_text(&entry.by, SENTENCE_BYTES_MAX));
    encode_value(&entry.value, out);
    if let Some((value, quality)) = &entry.behind {
        put_u32(out, quality.to_bits());
        encode_value(value, out);
    }
}

pub(super) fn read_entry(
    payload: &mut Payload<'_>,
    types: &mut TypeRun,
) -> Result<ForcedEntry, DecodeError> {
    let name = payload.text(usize::MAX)?.to_owned();
    let data_type = types.read(payload)?;
    let flags = payload.u8()?;
    let since = Timestamp::from_nanos(payload.i64()?);
    let by = payload.text(SENTENCE_BYTES_MAX)?.to_owned();
    let value = payload.read(|reader| decode_value(&data_type, reader))?;
    let behind = match flags & BEHIND {
        0 => None,
        _ => {
            let quality = Quality::from_bits(payload.u32()?);
            let value = payload.read(|reader| decode_value(&data_type, reader))?;
            Some((value, quality))
        }
    };
    Ok(ForcedEntry {
        name,
        data_type,
        value,
        by,
        since,
        behind,
    })
}

/// Size of the head: state, total and cursor.
const HEAD_BYTES: usize = 9;
/// Smallest size of an entry: two empty texts, a type, flags and a time.
const ENTRY_BYTES_MIN: usize = 12;
