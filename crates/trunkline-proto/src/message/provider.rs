//! Frames of a provider: a program outside the engine that is the source of variables.
//!
//! A provider holds a lease: if the engine receives nothing from the provider for the duration of
//! the lease, the quality of the provider's variables becomes bad, with the cause and the time.
//! Used only if both ends have the feature PROVIDER.

use std::time::Duration;

use trunkline_types::wire::put_u8;
use trunkline_types::{Access, DataType, Quality, Timestamp};

use super::form::{
    Bytes, Fixed, FixedMillis, FlagsThen, Flat, Form, Handle, Nanos, Number, Optional, QualityBits,
    Text, Ticket, Type,
};
use super::layout::{Field, FieldSink, FieldValue, FrameContext, Record, record};
use super::list::list_frame;
use super::open::{OpenOptions, Opened, OpenedBuilder};
use super::outcome::{APPLIED, REFUSED, UNKNOWN};
#[cfg(test)]
use super::round_trip::Source;
use crate::decode::Payload;
use crate::limits::HELLO_TEXT_BYTES_MAX;
use crate::{DecodeError, FaultRef, Frame, FrameKind, FrameWriter};

/// Longest name of an item, in bytes.
const ITEM_BYTES_MAX: usize = 4096;

const SOURCE_TIME: u8 = 1;
const QUALITY: u8 = 2;
const VALUE: u8 = 4;

record! {
    #[derive(Copy, Eq)]
    pub struct ProvideHead<'a> {
        /// Longest time for which the provider may be silent, in whole milliseconds.
        pub lease: Duration = FixedMillis as "lease_ms",
        pub provider: &'a str = Text<HELLO_TEXT_BYTES_MAX>,
    }
}

list_frame! {
    ProvideFrame: Provide, Provide, ProvideBuilder,
    head ProvideHead<'a>, item &'a [u8], empty_frame kept
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
    FixedMillis::put(&lease, &mut FrameContext::default(), frame.payload());
    OpenedBuilder::with_head(frame, options, first_index)
}

/// Reads a PROVIDED frame: the granted lease, and the items.
pub fn decode_provided<'a>(frame: &Frame<'a>) -> Result<(Duration, Opened<'a>), DecodeError> {
    let mut payload = Payload::of(frame, FrameKind::Provided)?;
    let lease = FixedMillis::read(&mut FrameContext::default(), &mut payload)?;
    Ok((lease, Opened::with_head(payload, frame.count())?))
}

record! {
    #[derive(Copy, Eq)]
    pub struct ProviderRequestHead {
        /// The ticket of the first handle; the tickets of the other handles follow it in order.
        pub first_ticket: u64 = Fixed,
    }
}

list_frame! {
    ProviderRequestFrame: ProviderRequest, ProviderRequest, ProviderRequestBuilder,
    head ProviderRequestHead, item u32, empty_frame kept
}

record! {
    #[derive(Eq)]
    pub struct BoundVariable<'a> {
        pub handle: u32 = Handle,
        /// The type of the values, including raw values.
        pub data_type: DataType = Type as "type",
        pub access: Access = Number,
        /// The part of the variable's `source` property after the provider's name.
        pub item: &'a str = Text<ITEM_BYTES_MAX>,
    }
}

list_frame! {
    ProviderBindFrame: ProviderBind, ProviderBind, ProviderBindBuilder,
    head (), item BoundVariable<'a>, empty_frame removed
}

record! {
    #[derive(Copy, Eq)]
    pub struct ProviderAnswer<'a> {
        pub ticket: u64 = Ticket,
        pub outcome: ProviderOutcome<'a> = Flat,
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProviderOutcome<'a> {
    Applied(ReadBack<'a>),
    Refused(FaultRef<'a>),
    /// The provider does not know whether the ticket was carried out.
    Unknown(FaultRef<'a>),
}

record! {
    /// The state of the device after the ticket was carried out.
    #[derive(Copy, Eq, Default)]
    pub struct ReadBack<'a> {
        /// Time of the read-back; `None` to let the engine set the timestamp.
        pub source_timestamp: Option<Timestamp> = FlagsThen<Optional<SOURCE_TIME, Nanos>>,
        /// Quality of the value; `None` for good.
        pub quality: Option<Quality> = Optional<QUALITY, QualityBits>,
        /// The value in wire form; `None` if it is the value that was written.
        pub value: Option<&'a [u8]> = Optional<VALUE, Bytes>,
    }
}

impl<'a> Record<'a> for ProviderOutcome<'a> {
    const FIELDS: &'static [Field] = &[Field::literal("outcome u8 | ..")];

    fn bytes_min(_: &FrameContext) -> usize {
        2
    }

    fn put(&self, context: &mut FrameContext, out: &mut Vec<u8>) {
        match self {
            Self::Applied(back) => {
                put_u8(out, APPLIED);
                back.put(context, out);
            }
            Self::Refused(fault) => {
                put_u8(out, REFUSED);
                fault.put(context, out);
            }
            Self::Unknown(fault) => {
                put_u8(out, UNKNOWN);
                fault.put(context, out);
            }
        }
    }

    fn read(context: &mut FrameContext, payload: &mut Payload<'a>) -> Result<Self, DecodeError> {
        Ok(match payload.u8()? {
            APPLIED => Self::Applied(ReadBack::read(context, payload)?),
            REFUSED => Self::Refused(payload.fault()?),
            UNKNOWN => Self::Unknown(payload.fault()?),
            other => return Err(payload.unexpected("the outcome 0, 3 or 5", u64::from(other))),
        })
    }

    fn show(&self, to: &mut dyn FieldSink) {
        match self {
            Self::Applied(back) => {
                to.field("outcome", FieldValue::Text("applied"));
                back.show(to);
            }
            Self::Refused(fault) => {
                fault.show(to);
                to.field("outcome", FieldValue::Text("refused"));
            }
            Self::Unknown(fault) => {
                fault.show(to);
                to.field("outcome", FieldValue::Text("unknown"));
            }
        }
    }

    #[cfg(test)]
    fn sample(source: &mut Source<'a>, context: &mut FrameContext) -> Self {
        match source.number() % 3 {
            0 => Self::Applied(ReadBack::sample(source, context)),
            1 => Self::Refused(FaultRef::sample(source, context)),
            _ => Self::Unknown(FaultRef::sample(source, context)),
        }
    }
}

list_frame! {
    ProviderAnswerFrame: ProviderAnswer, ProviderAnswers, ProviderAnswersBuilder,
    head (), item ProviderAnswer<'a>, empty_frame removed
}
