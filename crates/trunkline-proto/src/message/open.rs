//! OPEN and OPENED: resolving names to handles.
//!
//! ```text
//! OPENED  options u8 | first_index varint
//!         count x item, in the order of the names
//! item    0 varint | handle zigzag delta | type | access u8 | [update record] | [properties]
//!                                                             with READ         with DESCRIBE
//!         code varint | sentence text                         (refused)
//! access  0 read and write, 1 read only, 2 write only
//! ```
//!
//! With READ the answer contains the current reading of each variable, and with DESCRIBE its
//! properties (varint length, then fields). With SUBSCRIBE the variables are subscribed in the same
//! round trip. The update records of a frame are one run. The handle of a record is the handle of the
//! item, so the record's handle delta takes no bytes.

use trunkline_types::wire::{
    decode_properties, encode_properties, put_bytes, put_u8, put_varint, put_zigzag,
};
use trunkline_types::{Access, DataType, Properties};

use super::answers::{Answers, AnswersBuilder};
use super::form::{FlagsThen, Form, Inner, Number, Optional};
use super::layout::{Field, FieldSink, FieldValue, FrameContext, PreviousType, Record, record};
use super::list::list_frame;
use super::record::{RunState, UpdateRecord};
#[cfg(test)]
use super::round_trip::Source;
use super::subscribe::SubscribeTerms;
use crate::decode::Payload;
use crate::{DecodeError, FaultRef, Frame, FrameKind, FrameWriter};

const READ: u8 = 1;
const DESCRIBE: u8 = 2;
const SUBSCRIBE: u8 = 4;

/// Optional content of the answers to an OPEN, in addition to handle and type.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenOptions {
    pub read: bool,
    pub describe: bool,
}

record! {
    #[derive(Copy, Eq, Default)]
    pub struct OpenTerms {
        /// Optional content of the answers.
        pub options: OpenOptions = FlagsThen<Options>,
        /// The subscription that the variables join.
        pub subscribe: Option<SubscribeTerms> = Optional<SUBSCRIBE, Inner>,
    }
}

/// The form of the options, which are flags of the head.
#[derive(Debug)]
pub enum Options {}

impl<'a> Form<'a, OpenOptions> for Options {
    fn bytes_min(_: &FrameContext) -> usize {
        0
    }

    fn flags(options: &OpenOptions) -> u8 {
        options.to_bits()
    }

    fn put(_: &OpenOptions, _: &mut FrameContext, _: &mut Vec<u8>) {}

    fn read(context: &mut FrameContext, _: &mut Payload<'a>) -> Result<OpenOptions, DecodeError> {
        Ok(OpenOptions::from_bits(context.flags))
    }

    fn show(options: &OpenOptions, name: &str, to: &mut dyn FieldSink) {
        to.object(name, &|to| {
            to.field("read", FieldValue::Flag(options.read));
            to.field("describe", FieldValue::Flag(options.describe));
        });
    }

    #[cfg(test)]
    fn sample(source: &mut Source<'a>, _: &mut FrameContext) -> OpenOptions {
        OpenOptions::from_bits(source.number() as u8)
    }
}

/// A name, as bytes. An invalid or too long name must be answered with a separate fault, without
/// affecting the other names, so names are not validated here.
impl<'a> Record<'a> for &'a [u8] {
    const FIELDS: &'static [Field] = &[Field::literal("name text")];

    fn bytes_min(_: &FrameContext) -> usize {
        1
    }

    fn put(&self, _: &mut FrameContext, out: &mut Vec<u8>) {
        put_bytes(out, self);
    }

    fn read(_: &mut FrameContext, payload: &mut Payload<'a>) -> Result<Self, DecodeError> {
        payload.prefixed("a name length in bytes")
    }

    fn show(&self, to: &mut dyn FieldSink) {
        to.field("", FieldValue::Text(&String::from_utf8_lossy(self)));
    }

    #[cfg(test)]
    fn sample(source: &mut Source<'a>, _: &mut FrameContext) -> Self {
        source.text().as_bytes()
    }
}

list_frame! {
    OpenFrame: Open, Open, OpenBuilder,
    head OpenTerms, item &'a [u8], empty_frame kept
}

#[derive(Clone, PartialEq, Debug)]
pub struct OpenedVariable<'a> {
    /// The variable's handle, the same for all connections of an epoch.
    pub handle: u32,
    pub data_type: DataType,
    pub access: Access,
    /// The current reading, if requested.
    pub reading: Option<UpdateRecord<'a>>,
    /// The configuration of the variable, if requested.
    pub properties: Option<Properties>,
}

/// The state that an item of an OPENED frame inherits from the head and from the preceding items.
#[derive(Clone, Debug)]
pub struct OpenedState {
    options: OpenOptions,
    types: PreviousType,
    run: RunState,
    previous: u32,
}

impl OpenedState {
    fn new(options: OpenOptions) -> Self {
        Self {
            options,
            types: PreviousType::default(),
            run: RunState::START,
            previous: 0,
        }
    }
}

pub type OpenedBuilder<'a> = AnswersBuilder<'a, OpenedState>;

impl<'a> OpenedBuilder<'a> {
    /// Begins an OPENED frame at the end of `out`; its first item has the index `first_index` in
    /// the request.
    pub fn begin(
        out: &'a mut Vec<u8>,
        request: u32,
        options: OpenOptions,
        first_index: u32,
    ) -> Self {
        let frame = FrameWriter::begin(out, FrameKind::Opened, request);
        Self::with_head(frame, options, first_index)
    }

    pub(crate) fn with_head(
        mut frame: FrameWriter<'a>,
        options: OpenOptions,
        first_index: u32,
    ) -> Self {
        let out = frame.payload();
        put_u8(out, options.to_bits());
        put_varint(out, u64::from(first_index));
        let state = OpenedState::new(options);
        Self { frame, state }
    }

    /// Appends the next variable. `reading` and `properties` are written only if the options
    /// request them. In that case, a missing reading is written as "not written yet", and missing
    /// properties as the default properties.
    pub fn push(
        &mut self,
        handle: u32,
        data_type: &DataType,
        access: Access,
        reading: Option<&UpdateRecord<'_>>,
        properties: Option<&Properties>,
    ) {
        let (out, state) = (self.frame.payload(), &mut self.state);
        put_u8(out, 0);
        put_zigzag(
            out,
            i64::from(handle).wrapping_sub(i64::from(state.previous)),
        );
        state.previous = handle;
        state.types.put(out, data_type);
        Number::put(&access, &mut FrameContext::default(), out);
        if state.options.read {
            state.run.expect_handle(handle);
            let nothing = UpdateRecord::nothing_yet(handle);
            state.run.put(
                out,
                &UpdateRecord {
                    handle,
                    ..*reading.unwrap_or(&nothing)
                },
            );
        }
        if state.options.describe {
            match properties {
                Some(properties) => encode_properties(properties, out),
                None => encode_properties(&Properties::new(data_type.clone()), out),
            }
        }
        self.frame.count_item();
    }
}

/// An OPENED frame; iterates over the items, each a variable or the fault that prevented its
/// opening.
pub type Opened<'a> = Answers<'a, OpenedState>;

impl<'a> Opened<'a> {
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        Self::with_head(Payload::of(frame, FrameKind::Opened)?, frame.count())
    }

    pub(crate) fn with_head(mut payload: Payload<'a>, count: u32) -> Result<Self, DecodeError> {
        let options = OpenOptions::from_bits(payload.u8()?);
        let first_index = payload.varint_u32("an index")?;
        Self::of(first_index, payload, count, OpenedState::new(options))
    }

    /// Returns the options that determine the optional content of the items.
    pub fn options(&self) -> OpenOptions {
        self.state.options
    }
}

impl<'a> Iterator for Opened<'a> {
    type Item = Result<Result<OpenedVariable<'a>, FaultRef<'a>>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let OpenedState {
            options,
            types,
            run,
            previous,
        } = &mut self.state;
        self.items.next_with(|payload| {
            if let Some(code) = payload.status()? {
                return Ok(Err(payload.fault_sentence(code)?));
            }
            let handle = payload.handle(*previous)?;
            *previous = handle;
            let data_type = types.read(payload)?;
            let access = Number::read(&mut FrameContext::default(), payload)?;
            let mut reading = None;
            if options.read {
                run.expect_handle(handle);
                let record = run.read(payload)?;
                if record.handle != handle {
                    return Err(payload.unexpected("the item's handle", u64::from(record.handle)));
                }
                reading = Some(record);
            }
            let mut properties = None;
            if options.describe {
                properties = Some(payload.read(decode_properties)?);
            }
            Ok(Ok(OpenedVariable {
                handle,
                data_type,
                access,
                reading,
                properties,
            }))
        })
    }
}

impl OpenOptions {
    const fn to_bits(self) -> u8 {
        (if self.read { READ } else { 0 }) | (if self.describe { DESCRIBE } else { 0 })
    }

    const fn from_bits(bits: u8) -> Self {
        Self {
            read: bits & READ != 0,
            describe: bits & DESCRIBE != 0,
        }
    }
}
