//! Records: heads and items of frames. The fields of a record are sent in the order of their
//! declaration.
//!
//! `record!` declares the struct and the form of each field. A record that is not a plain list of
//! fields implements [`Record`] by hand.

use trunkline_types::DataType;
use trunkline_types::wire::{decode_type, encode_type, put_u8};

#[cfg(test)]
use super::round_trip::Source;
use crate::decode::Payload;
use crate::{DecodeError, FaultRef};

/// The state that the encoding of a record inherits from the previous record and from the head. The
/// state is empty at the start of each frame, so that each frame can be decoded independently.
#[derive(Clone, Debug, Default)]
pub struct FrameContext {
    /// Handle of the previous record.
    pub(super) handle: u32,
    /// Ticket or sequence of the previous record.
    pub(super) previous_number: u64,
    /// Flags of the current record.
    pub(super) flags: u8,
    /// Flags of the head record, which precedes the items.
    pub(super) record_head_flags: u8,
    /// Flags in the header of the frame.
    pub(super) header_flags: u8,
    pub(super) types: PreviousType,
    /// Name of the current field, for error messages.
    pub(super) field: &'static str,
}

impl FrameContext {
    /// Creates the state for a field with an id, which does not depend on other fields.
    pub(super) fn of_field(field: &'static str) -> Self {
        Self {
            field,
            ..Self::default()
        }
    }
}

/// The data type of the previous item, which the encoder and the decoder track.
///
/// ```text
/// type    0                     same type as the previous item of this frame
///         1 | wire type         (a frame's first item always has one)
/// ```
#[derive(Clone, Debug, Default)]
pub(crate) struct PreviousType(Option<DataType>);

impl PreviousType {
    /// Appends a type, or 0 if it is the type of the previous item.
    pub(crate) fn put(&mut self, out: &mut Vec<u8>, data_type: &DataType) {
        if self.0.as_ref() == Some(data_type) {
            put_u8(out, 0);
        } else {
            put_u8(out, 1);
            encode_type(data_type, out);
            self.0 = Some(data_type.clone());
        }
    }

    /// Returns the last type that was written or read; `None` before the first item.
    pub(crate) fn last(&self) -> Option<&DataType> {
        self.0.as_ref()
    }

    pub(crate) fn read(&mut self, payload: &mut Payload<'_>) -> Result<DataType, DecodeError> {
        match (payload.u8()?, &self.0) {
            (0, Some(previous)) => Ok(previous.clone()),
            (1, _) => {
                let data_type = payload.read(decode_type)?;
                self.0 = Some(data_type.clone());
                Ok(data_type)
            }
            (0, None) => Err(payload.unexpected("the type of the first item", 0)),
            (other, _) => Err(payload.unexpected("0 or 1 before a type", u64::from(other))),
        }
    }
}

/// The declaration of a field, for the diagrams in the protocol reference.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Name on the wire; for a field without a form, the complete line in the diagram.
    pub name: &'static str,
    /// Rust type of the field, as written in the declaration.
    pub ty: &'static str,
    /// Form of the field, as written in the declaration; empty for a field without a form.
    pub form: &'static str,
}

impl Field {
    /// Creates a field whose line in the diagram is given literally.
    pub const fn literal(name: &'static str) -> Self {
        let (ty, form) = ("", "");
        Self { name, ty, form }
    }
}

pub trait Record<'a>: Clone + PartialEq + std::fmt::Debug {
    const FIELDS: &'static [Field];
    /// True if a fault may replace the record.
    const MAY_FAIL: bool = false;
    /// Smallest size in bytes, once the flags of the head are known.
    fn bytes_min(context: &FrameContext) -> usize;
    fn put(&self, context: &mut FrameContext, out: &mut Vec<u8>);
    fn read(context: &mut FrameContext, payload: &mut Payload<'a>) -> Result<Self, DecodeError>;
    /// Shows the content of the record, for the golden vectors.
    fn show(&self, to: &mut dyn FieldSink);
    /// Creates arbitrary content, for the round-trip test.
    #[cfg(test)]
    fn sample(source: &mut Source<'a>, context: &mut FrameContext) -> Self;
}

/// The content of a field, as the golden vectors show it.
#[derive(Clone, Copy, Debug)]
pub enum FieldValue<'a> {
    Nothing,
    Flag(bool),
    Number(u64),
    /// A number of up to 64 bits, shown as text in decimal, because JSON numbers lose precision.
    NumberAsText(u64),
    /// Like `NumberAsText`, but signed.
    Signed(i64),
    Real(f64),
    Text(&'a str),
    /// Bytes, shown in hexadecimal.
    Bytes(&'a [u8]),
}

/// Receives the content of records.
pub trait FieldSink {
    /// Receives a field. An item of a list has an empty name.
    fn field(&mut self, name: &str, value: FieldValue<'_>);
    /// Receives a field that is an object; `show` shows the fields of the object.
    fn object(&mut self, name: &str, show: &dyn Fn(&mut dyn FieldSink));
    /// Receives a field that is a list; `show` shows the items, with empty names.
    fn list(&mut self, name: &str, show: &dyn Fn(&mut dyn FieldSink));
}

/// Declares a record: `pub field: Type = Form`, with `as "name"` if the name on the wire is
/// different.
///
/// The lifetime of a record that borrows from the frame must be named `'a`. With `impl` instead of
/// `pub struct`, the struct is declared elsewhere.
macro_rules! record {
    (
        $(#[$meta:meta])*
        pub struct $name:ident $(<$life:lifetime>)? {
            $( $(#[$doc:meta])* pub $field:ident: $ty:ty = $form:ty $(as $wire:literal)?, )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Debug)]
        pub struct $name $(<$life>)? {
            $( $(#[$doc])* pub $field: $ty, )*
        }

        $crate::message::layout::record! {
            impl $name $(<$life>)? { $( $field: $ty = $form $(as $wire)?, )* }
        }
    };
    (
        impl $record:ty {
            $( $field:ident: $ty:ty = $form:ty $(as $wire:literal)?, )*
        }
    ) => {
        impl<'a> $crate::message::layout::Record<'a> for $record {
            const FIELDS: &'static [$crate::message::layout::Field] = &[
                $($crate::message::layout::record!(@field $field: $ty = $form $(as $wire)?),)*
            ];

            fn bytes_min(context: &$crate::message::layout::FrameContext) -> usize {
                0_usize$(.saturating_add(
                    <$form as $crate::message::form::Form<'a, $ty>>::bytes_min(context),
                ))*
            }

            #[inline]
            fn put(&self, context: &mut $crate::message::layout::FrameContext, out: &mut Vec<u8>) {
                context.flags = 0$(
                    | <$form as $crate::message::form::Form<'a, $ty>>::flags(&self.$field)
                )*;
                $(
                    <$form as $crate::message::form::Form<'a, $ty>>::put(&self.$field, context, out);
                )*
            }

            #[inline]
            fn read(
                context: &mut $crate::message::layout::FrameContext,
                payload: &mut $crate::decode::Payload<'a>,
            ) -> Result<Self, $crate::DecodeError> {
                Ok(Self {
                    $($field: {
                        context.field = stringify!($field);
                        <$form as $crate::message::form::Form<'a, $ty>>::read(context, payload)?
                    },)*
                })
            }

            fn show(&self, to: &mut dyn $crate::message::layout::FieldSink) {
                $(<$form as $crate::message::form::Form<'a, $ty>>::show(
                    &self.$field,
                    $crate::message::layout::record!(@name $field $($wire)?),
                    to,
                );)*
            }

            #[cfg(test)]
            fn sample(
                source: &mut $crate::message::round_trip::Source<'a>,
                context: &mut $crate::message::layout::FrameContext,
            ) -> Self {
                Self {
                    $(
                        $field: <$form as $crate::message::form::Form<'a, $ty>>::sample(
                            source, context,
                        ),
                    )*
                }
            }
        }
    };
    (@field $field:ident: $ty:ty = $form:ty $(as $wire:literal)?) => {
        $crate::message::layout::Field {
            name: $crate::message::layout::record!(@name $field $($wire)?),
            ty: stringify!($ty),
            form: stringify!($form),
        }
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $wire:literal) => { $wire };
}
pub(crate) use record;

/// The head of a frame without a head: the items directly follow the header.
impl Record<'_> for () {
    const FIELDS: &'static [Field] = &[];

    fn bytes_min(_: &FrameContext) -> usize {
        0
    }

    fn put(&self, _: &mut FrameContext, _: &mut Vec<u8>) {}

    fn read(_: &mut FrameContext, _: &mut Payload<'_>) -> Result<Self, DecodeError> {
        Ok(())
    }

    fn show(&self, _: &mut dyn FieldSink) {}

    #[cfg(test)]
    fn sample(_: &mut Source<'_>, _: &mut FrameContext) -> Self {}
}

/// An item that may be refused: a refused item is replaced by a fault, and any other item is preceded
/// by 0.
impl<'a, T: Record<'a>> Record<'a> for Result<T, FaultRef<'a>> {
    const FIELDS: &'static [Field] = T::FIELDS;
    const MAY_FAIL: bool = true;

    fn bytes_min(_: &FrameContext) -> usize {
        2
    }

    fn put(&self, context: &mut FrameContext, out: &mut Vec<u8>) {
        match self {
            Ok(item) => {
                put_u8(out, 0);
                item.put(context, out);
            }
            Err(fault) => fault.put(context, out),
        }
    }

    fn read(context: &mut FrameContext, payload: &mut Payload<'a>) -> Result<Self, DecodeError> {
        Ok(match payload.status()? {
            None => Ok(T::read(context, payload)?),
            Some(code) => Err(payload.fault_sentence(code)?),
        })
    }

    fn show(&self, to: &mut dyn FieldSink) {
        match self {
            Ok(item) => item.show(to),
            Err(fault) => fault.show(to),
        }
    }

    #[cfg(test)]
    fn sample(source: &mut Source<'a>, context: &mut FrameContext) -> Self {
        match source.bool() {
            true => Ok(T::sample(source, context)),
            false => Err(FaultRef::sample(source, context)),
        }
    }
}
