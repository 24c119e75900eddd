//! The provider's frames: a program outside the engine is the source of variables.
//!
//! ```text
//! PROVIDE          lease_ms u32 | provider text | count x name text
//! PROVIDED         lease_ms u32 | then as OPENED
//! PUBLISH          as WRITE; answered by WRITE_ANSWERS
//! PROVIDER_WRITE   as WRITE, the ids being tickets
//! PROVIDER_REQUEST first_ticket u64 | count x handle zigzag delta
//! PROVIDER_BIND    count x ( handle zigzag delta | type | access u8 | item text )
//! PROVIDER_ANSWER  count x ( ticket zigzag delta | outcome u8 | .. )
//!     outcome      0 applied: flags u8 | [source ns i64] | [quality u32] | [value varint,bytes]
//!                                        if 1              if 2            if 4, the read-back
//!                  3 refused, 5 unknown: code varint | sentence text
//! ```
//!
//! A provider holds a lease: if nothing has come from it for that long, its variables become bad,
//! with the cause and the time. Used only if both ends have the feature PROVIDER.

use std::time::Duration;

use trunkline_types::wire::{put_bytes, put_i64, put_str, put_u8, put_u32, put_u64, put_zigzag};
use trunkline_types::{Access, DataType, Quality, Timestamp};

use super::fault::put_fault;
use super::handles::{Handles, HandlesBuilder};
use super::hello::to_millis;
use super::open::{OpenOptions, Opened, OpenedBuilder};
use super::outcome::{APPLIED, REFUSED, UNKNOWN};
use super::typed::{TypeRun, put_access, read_access};
use crate::decode::{Items, Payload};
use crate::limits::HELLO_TEXT_BYTES_MAX;
use crate::{DecodeError, FaultRef, Frame, FrameKind, FrameWriter};

/// Longest name of an item, in bytes.
const ITEM_BYTES_MAX: usize = 4096;

const SOURCE_TIME: u8 = 1;
const QUALITY: u8 = 2;
const VALUE: u8 = 4;

/// Writes a PROVIDE frame.
#[derive(Debug)]
#[must_use = "a frame is complete only when it is finished"]
pub struct ProvideBuilder<'a> {
    frame: FrameWriter<'a>,
}

impl<'a> ProvideBuilder<'a> {
    /// Begins a frame at the end of `out`; `provider` is the name of the provider.
    pub fn begin(out: &'a mut Vec<u8>, request: u32, lease: Duration, provider: &str) -> Self {
        let mut frame = FrameWriter::begin(out, FrameKind::Provide, request);
        let out = frame.payload();
        put_u32(out, to_millis(lease));
        put_str(out, super::fault::cut_text(provider, HELLO_TEXT_BYTES_MAX));
        Self { frame }
    }

    /// Appends the name of a variable to provide.
    pub fn push(&mut self, name: &str) {
        put_str(self.frame.payload(), name);
        self.frame.count_item();
    }

    /// Bytes of the frame so far, header included.
    pub fn len_bytes(&self) -> usize {
        self.frame.len_bytes()
    }

    /// Completes the frame; set `more` if further frames of this request follow.
    pub fn finish(self, more: bool) {
        self.frame.finish(more);
    }
}

/// A PROVIDE frame; iterates over the names, as bytes like [`Open`](super::open::Open).
#[derive(Clone, Debug)]
pub struct Provide<'a> {
    lease: Duration,
    provider: &'a str,
    items: Items<'a>,
}

impl<'a> Provide<'a> {
    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the head does not have the form drawn in the [module](self) or the frame
    /// cannot hold `count` names; errors in the names appear during iteration.
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::Provide)?;
        let lease = Duration::from_millis(u64::from(payload.u32()?));
        let provider = payload.text(HELLO_TEXT_BYTES_MAX)?;
        Ok(Self {
            lease,
            provider,
            items: Items::new(payload, frame.count(), 1)?,
        })
    }

    /// Longest time that the provider may be silent.
    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// Number of names in the frame.
    pub fn count(&self) -> u32 {
        self.items.left()
    }

    /// The name of the provider.
    pub fn provider(&self) -> &'a str {
        self.provider
    }
}

impl<'a> Iterator for Provide<'a> {
    type Item = Result<&'a [u8], DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.items
            .next_with(|payload| payload.prefixed("a name length in bytes"))
    }
}

/// Begins a PROVIDED frame at the end of `out`: the granted lease, then items as in OPENED.
pub fn begin_provided(
    out: &mut Vec<u8>,
    request: u32,
    lease: Duration,
    options: OpenOptions,
    first_index: u32,
) -> OpenedBuilder<'_> {
    let mut frame = FrameWriter::begin(out, FrameKind::Provided, request);
    put_u32(frame.payload(), to_millis(lease));
    OpenedBuilder::with_head(frame, options, first_index)
}

/// Reads a PROVIDED frame: the granted lease, and the items.
///
/// # Errors
/// [`DecodeError`] if the head does not have the form drawn in the [module](self).
pub fn decode_provided<'a>(frame: &Frame<'a>) -> Result<(Duration, Opened<'a>), DecodeError> {
    let mut payload = Payload::of(frame, FrameKind::Provided)?;
    let lease = Duration::from_millis(u64::from(payload.u32()?));
    Ok((lease, Opened::of(payload, frame.count())?))
}

/// Begins a PROVIDER_REQUEST frame at the end of `out`. The handle at `index` has the ticket
/// `first_ticket + index`.
pub fn begin_provider_request(out: &mut Vec<u8>, first_ticket: u64) -> HandlesBuilder<'_> {
    let mut builder = HandlesBuilder::begin(out, FrameKind::ProviderRequest, 0);
    put_u64(builder.head(), first_ticket);
    builder
}

/// Reads a PROVIDER_REQUEST frame: the first ticket, and the handles.
///
/// # Errors
/// [`DecodeError`] if the head does not have the form drawn in the [module](self).
pub fn decode_provider_request<'a>(frame: &Frame<'a>) -> Result<(u64, Handles<'a>), DecodeError> {
    let mut payload = Payload::of(frame, FrameKind::ProviderRequest)?;
    let first_ticket = payload.u64()?;
    Ok((first_ticket, Handles::of(payload, frame.count())?))
}

/// A variable that a provider must deliver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BoundVariable<'a> {
    /// The variable.
    pub handle: u32,
    /// The type of its values, including raw ones.
    pub data_type: DataType,
    /// The access that clients have to it.
    pub access: Access,
    /// The part of its `source` after the provider's name.
    pub item: &'a str,
}

/// Writes a PROVIDER_BIND frame.
#[derive(Debug)]
#[must_use = "a frame is complete only when it is finished"]
pub struct ProviderBindBuilder<'a> {
    frame: FrameWriter<'a>,
    previous: u32,
    types: TypeRun,
}

impl<'a> ProviderBindBuilder<'a> {
    /// Begins a frame at the end of `out`.
    pub fn begin(out: &'a mut Vec<u8>) -> Self {
        Self {
            frame: FrameWriter::begin(out, FrameKind::ProviderBind, 0),
            previous: 0,
            types: TypeRun::default(),
        }
    }

    /// Appends a variable.
    pub fn push(&mut self, handle: u32, data_type: &DataType, access: Access, item: &str) {
        let out = self.frame.payload();
        put_zigzag(
            out,
            i64::from(handle).wrapping_sub(i64::from(self.previous)),
        );
        self.previous = handle;
        self.types.put(out, data_type);
        put_access(out, access);
        put_str(out, super::fault::cut_text(item, ITEM_BYTES_MAX));
        self.frame.count_item();
    }

    /// Bytes of the frame so far, header included.
    pub fn len_bytes(&self) -> usize {
        self.frame.len_bytes()
    }

    /// Completes the frame; a frame without variables is removed from the buffer.
    pub fn finish(self) {
        if self.frame.count() == 0 {
            self.frame.abandon();
        } else {
            self.frame.finish(false);
        }
    }
}

/// A PROVIDER_BIND frame; iterates over the variables.
#[derive(Clone, Debug)]
pub struct ProviderBind<'a> {
    items: Items<'a>,
    previous: u32,
    types: TypeRun,
}

impl<'a> ProviderBind<'a> {
    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the frame cannot hold `count` variables; errors in the variables appear
    /// during iteration.
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let payload = Payload::of(frame, FrameKind::ProviderBind)?;
        Ok(Self {
            items: Items::new(payload, frame.count(), 4)?,
            previous: 0,
            types: TypeRun::default(),
        })
    }
}

impl<'a> Iterator for ProviderBind<'a> {
    type Item = Result<BoundVariable<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let Self {
            previous, types, ..
        } = self;
        self.items.next_with(|payload| {
            let handle = payload.handle(*previous)?;
            *previous = handle;
            Ok(BoundVariable {
                handle,
                data_type: types.read(payload)?,
                access: read_access(payload)?,
                item: payload.text(ITEM_BYTES_MAX)?,
            })
        })
    }
}

/// A provider's answer to a ticket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProviderAnswer<'a> {
    /// The ticket of PROVIDER_WRITE or PROVIDER_REQUEST.
    pub ticket: u64,
    /// The outcome of the ticket.
    pub outcome: ProviderOutcome<'a>,
}

/// The outcome of a ticket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProviderOutcome<'a> {
    /// The ticket was carried out.
    Applied(ReadBack<'a>),
    /// The provider refused; the fault names the rule.
    Refused(FaultRef<'a>),
    /// It is not known whether the ticket was carried out.
    Unknown(FaultRef<'a>),
}

/// The state of the device after the ticket was carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReadBack<'a> {
    /// Time of the read-back; `None` to let the engine stamp it.
    pub source_timestamp: Option<Timestamp>,
    /// Quality of the value; `None` for good.
    pub quality: Option<Quality>,
    /// The value in wire form; `None` if it is the value written.
    pub value: Option<&'a [u8]>,
}

/// Writes a PROVIDER_ANSWER frame.
#[derive(Debug)]
#[must_use = "a frame is complete only when it is finished"]
pub struct ProviderAnswersBuilder<'a> {
    frame: FrameWriter<'a>,
    previous: u64,
}

impl<'a> ProviderAnswersBuilder<'a> {
    /// Begins a frame at the end of `out`.
    pub fn begin(out: &'a mut Vec<u8>) -> Self {
        Self {
            frame: FrameWriter::begin(out, FrameKind::ProviderAnswer, 0),
            previous: 0,
        }
    }

    /// Appends an answer.
    pub fn push(&mut self, answer: &ProviderAnswer<'_>) {
        let out = self.frame.payload();
        put_zigzag(out, answer.ticket.wrapping_sub(self.previous) as i64);
        self.previous = answer.ticket;
        match answer.outcome {
            ProviderOutcome::Applied(ReadBack {
                source_timestamp,
                quality,
                value,
            }) => {
                put_u8(out, APPLIED);
                let flag = |set: bool, flag: u8| if set { flag } else { 0 };
                put_u8(
                    out,
                    flag(source_timestamp.is_some(), SOURCE_TIME)
                        | flag(quality.is_some(), QUALITY)
                        | flag(value.is_some(), VALUE),
                );
                if let Some(time) = source_timestamp {
                    put_i64(out, time.as_nanos());
                }
                if let Some(quality) = quality {
                    put_u32(out, quality.to_bits());
                }
                if let Some(value) = value {
                    put_bytes(out, value);
                }
            }
            ProviderOutcome::Refused(fault) => {
                put_u8(out, REFUSED);
                put_fault(out, fault);
            }
            ProviderOutcome::Unknown(fault) => {
                put_u8(out, UNKNOWN);
                put_fault(out, fault);
            }
        }
        self.frame.count_item();
    }

    /// Bytes of the frame so far, header included.
    pub fn len_bytes(&self) -> usize {
        self.frame.len_bytes()
    }

    /// Completes the frame; a frame without answers is removed from the buffer.
    pub fn finish(self) {
        if self.frame.count() == 0 {
            self.frame.abandon();
        } else {
            self.frame.finish(false);
        }
    }
}

/// A PROVIDER_ANSWER frame; iterates over the answers.
#[derive(Clone, Debug)]
pub struct ProviderAnswers<'a> {
    items: Items<'a>,
    previous: u64,
}

impl<'a> ProviderAnswers<'a> {
    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the frame cannot hold `count` answers; errors in the answers appear
    /// during iteration.
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let payload = Payload::of(frame, FrameKind::ProviderAnswer)?;
        Ok(Self {
            items: Items::new(payload, frame.count(), 3)?,
            previous: 0,
        })
    }
}

impl<'a> Iterator for ProviderAnswers<'a> {
    type Item = Result<ProviderAnswer<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let previous = &mut self.previous;
        self.items.next_with(|payload| {
            let ticket = previous.wrapping_add_signed(payload.zigzag()?);
            *previous = ticket;
            let outcome = match payload.u8()? {
                APPLIED => ProviderOutcome::Applied(read_back(payload)?),
                REFUSED => ProviderOutcome::Refused(payload.fault()?),
                UNKNOWN => ProviderOutcome::Unknown(payload.fault()?),
                other => {
                    return Err(payload.unexpected("the outcome 0, 3 or 5", u64::from(other)));
                }
            };
            Ok(ProviderAnswer { ticket, outcome })
        })
    }
}

fn read_back<'a>(payload: &mut Payload<'a>) -> Result<ReadBack<'a>, DecodeError> {
    let flags = payload.u8()?;
    let mut back = ReadBack::default();
    if flags & SOURCE_TIME != 0 {
        back.source_timestamp = Some(Timestamp::from_nanos(payload.i64()?));
    }
    if flags & QUALITY != 0 {
        back.quality = Some(Quality::from_bits(payload.u32()?));
    }
    if flags & VALUE != 0 {
        back.value = Some(payload.prefixed("a value")?);
    }
    Ok(back)
}
