//! The forms of fields. A form defines how a field is written, read and limited, and how the golden
//! vectors show it.

mod condition;

use std::time::Duration;

pub use condition::{Flag, FlagsThen, IfHead, Optional};
use trunkline_types::wire::{
    decode_properties, decode_type, decode_value, encode_properties, encode_type, encode_value,
    put_bytes, put_i64, put_str, put_u8, put_u16, put_u32, put_u64, put_varint, put_zigzag,
};
use trunkline_types::{Access, DataType, Properties, Quality, Timestamp, Value};

use super::fault::cut_text;
use super::hello::to_millis;
use super::layout::{FieldSink, FieldValue, FrameContext, Record};
#[cfg(test)]
use super::round_trip::Source;
use crate::decode::Payload;
use crate::{DecodeError, FaultCode};

/// The form of a field of type `T`. A form is a type without values.
pub trait Form<'a, T> {
    /// Smallest size in bytes, once the flags of the head are known.
    fn bytes_min(context: &FrameContext) -> usize;
    /// The bits that the field sets in the flags of its record.
    fn flags(_value: &T) -> u8 {
        0
    }
    fn put(value: &T, context: &mut FrameContext, out: &mut Vec<u8>);
    fn read(context: &mut FrameContext, payload: &mut Payload<'a>) -> Result<T, DecodeError>;
    /// Shows the content under this name, for the golden vectors.
    fn show(value: &T, name: &str, to: &mut dyn FieldSink);
    /// Creates arbitrary content that this form reproduces exactly.
    #[cfg(test)]
    fn sample(source: &mut Source<'a>, context: &mut FrameContext) -> T;
}

/// Text of at most `MAX` bytes. Longer text is truncated at a character boundary when it is
/// written.
#[derive(Debug)]
pub enum Text<const MAX: usize> {}
/// Text whose length is limited only by the frame, such as a name.
pub type Name = Text<{ usize::MAX }>;
/// Text up to the end of a field, truncated at a character boundary if it is longer than `MAX`
/// bytes.
#[derive(Debug)]
pub enum Whole<const MAX: usize = { usize::MAX }> {}
/// Bytes, preceded by their count.
#[derive(Debug)]
pub enum Bytes {}
/// All remaining bytes of the frame.
#[derive(Debug)]
pub enum Rest {}
/// A data type, or 0 if it is the data type of the previous item.
#[derive(Debug)]
pub enum Type {}
/// A data type, up to the end of a field.
#[derive(Debug)]
pub enum WholeType {}
/// A value of the preceding data type.
#[derive(Debug)]
pub enum Typed {}
/// The properties of a variable, preceded by their size.
#[derive(Debug)]
pub enum Configuration {}
/// The number of an enumeration variant, one byte.
#[derive(Debug)]
pub enum Number {}
/// A little-endian number with the size of its type.
#[derive(Debug)]
pub enum Fixed {}
#[derive(Debug)]
pub enum Varint {}
/// A handle: the difference from the handle of the previous record, in zigzag encoding.
#[derive(Debug)]
pub enum Handle {}
/// A ticket: the difference from the ticket of the previous record, in zigzag encoding.
#[derive(Debug)]
pub enum Ticket {}
/// A number that another field carries, so that this field takes no bytes; 0 until the other field is
/// read.
#[derive(Debug)]
pub enum Elsewhere {}
/// Whole milliseconds as a varint, rounded up.
#[derive(Debug)]
pub enum Millis {}
/// Whole milliseconds, at most 49 days.
#[derive(Debug)]
pub enum FixedMillis {}
/// Nanoseconds since 1970-01-01T00:00:00Z.
#[derive(Debug)]
pub enum Nanos {}
#[derive(Debug)]
pub enum QualityBits {}
/// The number of a fault code, two bytes.
#[derive(Debug)]
pub enum Code {}
/// An optional number: 0 means none.
#[derive(Debug)]
pub enum OrZero {}
/// Like [`OrZero`], but encoded as a varint.
#[derive(Debug)]
pub enum VarintOrZero {}
/// A record within a record. If `FLAT`, the golden vectors show its fields among the fields of the
/// outer record.
#[derive(Debug)]
pub enum Nested<const FLAT: bool> {}
/// A record within a record, shown as an object.
pub type Inner = Nested<false>;
/// A record within a record, whose fields are shown among the fields of the outer record.
pub type Flat = Nested<true>;

/// Defines forms of fields that do not depend on other fields: the smallest size in bytes, and the
/// functions that write, read, show and generate a value.
macro_rules! forms {
    ($(
        $([$($generic:tt)+])? $form:ident $(<$argument:ident>)?: $ty:ty, $bytes:expr,
        $put:expr, $read:expr, $show:expr, $sample:expr;
    )+) => { $(
        impl<'a $(, $($generic)+)?> $crate::message::form::Form<'a, $ty> for $form $(<$argument>)? {
            fn bytes_min(_: &$crate::message::layout::FrameContext) -> usize {
                $bytes
            }

            fn put(
                value: &$ty,
                context: &mut $crate::message::layout::FrameContext,
                out: &mut Vec<u8>,
            ) {
                let put: fn(&mut Vec<u8>, &$ty, &mut $crate::message::layout::FrameContext) = $put;
                put(out, value, context);
            }

            fn read(
                context: &mut $crate::message::layout::FrameContext,
                payload: &mut $crate::decode::Payload<'a>,
            ) -> Result<$ty, $crate::DecodeError> {
                let read: fn(
                    &mut $crate::decode::Payload<'a>,
                    &mut $crate::message::layout::FrameContext,
                ) -> Result<$ty, $crate::DecodeError> = $read;
                read(payload, context)
            }

            fn show(value: &$ty, name: &str, to: &mut dyn $crate::message::layout::FieldSink) {
                let show: fn(&$ty, &str, &mut dyn $crate::message::layout::FieldSink) = $show;
                show(value, name, to);
            }

            #[cfg(test)]
            fn sample(
                source: &mut $crate::message::round_trip::Source<'a>,
                context: &mut $crate::message::layout::FrameContext,
            ) -> $ty {
                let sample: fn(
                    &mut $crate::message::round_trip::Source<'a>,
                    &mut $crate::message::layout::FrameContext,
                ) -> $ty = $sample;
                sample(source, context)
            }
        }
    )+ };
}
pub(crate) use forms;

/// Defines forms that convert a value and write it in another form: the conversions in both
/// directions, and a function that returns the shown value if it differs from the converted value.
macro_rules! mapped {
    ($($form:ident: $ty:ty = $base:ty: $raw:ty, $to:expr, $from:expr $(, $shown:expr)?;)+) => { $(
        impl<'a> $crate::message::form::Form<'a, $ty> for $form {
            fn bytes_min(context: &$crate::message::layout::FrameContext) -> usize {
                <$base as $crate::message::form::Form<'a, $raw>>::bytes_min(context)
            }

            fn put(
                value: &$ty,
                context: &mut $crate::message::layout::FrameContext,
                out: &mut Vec<u8>,
            ) {
                let to: fn(&$ty) -> $raw = $to;
                <$base as $crate::message::form::Form<'a, $raw>>::put(&to(value), context, out);
            }

            fn read(
                context: &mut $crate::message::layout::FrameContext,
                payload: &mut $crate::decode::Payload<'a>,
            ) -> Result<$ty, $crate::DecodeError> {
                <$base as $crate::message::form::Form<'a, $raw>>::read(context, payload).map($from)
            }

            fn show(value: &$ty, name: &str, to: &mut dyn $crate::message::layout::FieldSink) {
                $crate::message::form::mapped!(@show $ty, $base, $raw, value, name, to, $to $(, $shown)?);
            }

            #[cfg(test)]
            fn sample(
                source: &mut $crate::message::round_trip::Source<'a>,
                context: &mut $crate::message::layout::FrameContext,
            ) -> $ty {
                let from: fn($raw) -> $ty = $from;
                from(<$base as $crate::message::form::Form<'a, $raw>>::sample(source, context))
            }
        }
    )+ };
    (@show $ty:ty, $base:ty, $raw:ty, $value:ident, $name:ident, $show:ident, $to:expr) => {
        let raw: fn(&$ty) -> $raw = $to;
        <$base as $crate::message::form::Form<'_, $raw>>::show(&raw($value), $name, $show);
    };
    (
        @show $ty:ty, $base:ty, $raw:ty, $value:ident, $name:ident, $show:ident, $to:expr,
        $shown:expr
    ) => {
        let shown: fn(&$ty) -> $crate::message::layout::FieldValue<'_> = $shown;
        $show.field($name, shown($value));
    };
}
pub(crate) use mapped;

forms! {
    [T: From<&'a str> + AsRef<str>, const MAX: usize] Text<MAX>: T, 1,
        |out, text, _| put_str(out, cut_text(text.as_ref(), MAX)),
        |payload, _| payload.text(MAX).map(T::from),
        |text, name, to| to.field(name, FieldValue::Text(text.as_ref())),
        |source, _| cut_text(source.text(), MAX).into();
    [T: From<&'a str> + AsRef<str>, const MAX: usize] Whole<MAX>: T, 0,
        |out, text, _| out.extend_from_slice(cut_text(text.as_ref(), MAX).as_bytes()),
        |field, _| field.rest_text().map(|text| cut_text(text, MAX).into()),
        |text, name, to| to.field(name, FieldValue::Text(text.as_ref())),
        |source, _| cut_text(source.text(), MAX).into();
    [const N: usize] Fixed: [u8; N], N,
        |out, bytes, _| out.extend_from_slice(bytes),
        |payload, _| payload.read(|reader| reader.array()),
        |bytes, name, to| to.field(name, FieldValue::Bytes(bytes)),
        |source, _| std::array::from_fn(|_| source.number() as u8);
    Bytes: &'a [u8], 1,
        |out, bytes, _| put_bytes(out, bytes),
        |payload, context| payload.prefixed(context.field),
        |bytes, name, to| to.field(name, FieldValue::Bytes(bytes)),
        |source, _| source.text().as_bytes();
    Bytes: Vec<u8>, 1,
        |out, bytes, _| put_bytes(out, bytes),
        |payload, context| payload.prefixed(context.field).map(<[u8]>::to_vec),
        |bytes, name, to| to.field(name, FieldValue::Bytes(bytes)),
        |source, _| source.text().as_bytes().to_vec();
    Rest: &'a [u8], 0,
        |out, bytes, _| out.extend_from_slice(bytes),
        |payload, _| Ok(payload.rest()),
        |bytes, name, to| to.field(name, FieldValue::Bytes(bytes)),
        |source, _| source.text().as_bytes();
    Type: DataType, 1,
        |out, data_type, context| context.types.put(out, data_type),
        |payload, context| context.types.read(payload),
        |data_type, name, to| to.field(name, FieldValue::Text(&data_type.to_string())),
        |source, context| {
            let data_type = source.data_type();
            context.types.put(&mut Vec::new(), &data_type);
            data_type
        };
    WholeType: DataType, 1,
        |out, data_type, _| encode_type(data_type, out),
        |field, _| field.read(decode_type),
        |data_type, name, to| to.field(name, FieldValue::Text(&data_type.to_string())),
        |source, _| source.data_type();
    Typed: Value, 0,
        |out, value, _| encode_value(value, out),
        |payload, context| {
            let data_type = context.types.last();
            let data_type = data_type.ok_or_else(|| payload.unexpected("a type before a value", 0))?;
            payload.read(|reader| decode_value(data_type, reader))
        },
        |value, name, to| {
            let mut bytes = Vec::new();
            encode_value(value, &mut bytes);
            to.field(name, FieldValue::Bytes(&bytes));
        },
        |source, context| {
            let data_type = context.types.last();
            source.value(data_type.expect("the type is sampled before its value"))
        };
    [T: Numbered] Number: T, 1,
        |out, value, _| put_u8(out, value.number()),
        |payload, _| {
            let number = payload.u8()?;
            T::from_number(number).ok_or_else(|| payload.unexpected(T::EXPECTED, u64::from(number)))
        },
        |value, name, to| value.show(name, to),
        |source, _| {
            let first = source.number() as u8 % 16;
            let mut numbers = (first..=u8::MAX).chain(0..first);
            numbers.find_map(T::from_number).expect("an enumeration has a value")
        };
    Configuration: Properties, 1,
        |out, properties, _| encode_properties(properties, out),
        |payload, _| payload.read(decode_properties),
        show_properties,
        |source, _| {
            let units = source.text().into();
            Properties { units, ..Properties::new(source.data_type()) }
        };
}

/// Defines forms of integers: the smallest size in bytes, how values are generated for the round-trip
/// test, how they are shown, and the functions that write and read a value.
macro_rules! integers {
    ($($form:ident: $ty:ty, $bytes:literal, $sample:ident, $shown:ident, $put:expr, $read:expr;)+) => {
        $crate::message::form::forms! { $(
            $form: $ty, $bytes,
            |out, value, context| {
                let put: fn(&mut Vec<u8>, $ty, &mut $crate::message::layout::FrameContext) = $put;
                put(out, *value, context);
            },
            $read,
            |value, name, to| {
                to.field(name, $crate::message::layout::FieldValue::$shown((*value).into()));
            },
            |source, _| source.$sample() as $ty;
        )+ }
    };
}
pub(crate) use integers;

integers! {
    Fixed: u8, 1, number, Number, |out, value, _| put_u8(out, value), |payload, _| payload.u8();
    Fixed: u16, 2, number, Number, |out, value, _| put_u16(out, value), |payload, _| payload.u16();
    Fixed: u32, 4, number, Number, |out, value, _| put_u32(out, value), |payload, _| payload.u32();
    Fixed: u64, 8, number, NumberAsText,
        |out, value, _| put_u64(out, value), |payload, _| payload.u64();
    Fixed: i64, 8, number, Signed, |out, value, _| put_i64(out, value), |payload, _| payload.i64();
    Varint: u32, 1, number, Number,
        |out, value, _| put_varint(out, u64::from(value)),
        |payload, context| payload.varint_u32(context.field);
    Varint: u64, 1, number, NumberAsText,
        |out, value, _| put_varint(out, value),
        |payload, _| payload.varint();
    Elsewhere: u64, 0, zero, NumberAsText, |_, _, _| {}, |_, _| Ok(0);
    Handle: u32, 1, number, Number,
        |out, value, context| {
            put_zigzag(out, i64::from(value).wrapping_sub(i64::from(context.handle)));
            context.handle = value;
        },
        |payload, context| {
            context.handle = payload.handle(context.handle)?;
            Ok(context.handle)
        };
    Ticket: u64, 1, number, NumberAsText,
        |out, value, context| {
            put_zigzag(out, value.wrapping_sub(context.previous_number) as i64);
            context.previous_number = value;
        },
        |payload, context| {
            let number = context.previous_number.wrapping_add_signed(payload.zigzag()?);
            context.previous_number = number;
            Ok(number)
        };
}

mapped! {
    Millis: Duration = Varint: u64, whole_millis, Duration::from_millis;
    FixedMillis: Duration = Fixed: u32, |time| to_millis(*time), |millis| {
        Duration::from_millis(u64::from(millis))
    };
    Nanos: Timestamp = Fixed: i64, |time| time.as_nanos(), Timestamp::from_nanos;
    QualityBits: Quality = Fixed: u32, |quality| quality.to_bits(), Quality::from_bits;
    Code: FaultCode = Fixed: u16, |code| code.number(), FaultCode::from_number, |code| {
        FieldValue::Text(code.name())
    };
    OrZero: Option<u64> = Fixed: u64, |number| number.unwrap_or(0), not_zero;
    VarintOrZero: Option<u64> = Varint: u64, |number| number.unwrap_or(0), not_zero;
}

/// Converts to whole milliseconds, rounded up so that a short time does not become zero.
fn whole_millis(duration: &Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

fn not_zero(number: u64) -> Option<u64> {
    (number != 0).then_some(number)
}

/// Shows a selection of properties that suffices to verify that a decoder has read all of them.
fn show_properties(properties: &Properties, name: &str, to: &mut dyn FieldSink) {
    to.object(name, &|to| {
        to.field("type", FieldValue::Text(&properties.data_type.to_string()));
        to.field("description", FieldValue::Text(&properties.description));
        to.field("units", FieldValue::Text(&properties.units));
        match properties.range {
            Some((low, high)) => to.list("range", &|to| {
                to.field("", FieldValue::Real(low));
                to.field("", FieldValue::Real(high));
            }),
            None => to.field("range", FieldValue::Nothing),
        }
        properties.access.show("access", to);
    });
}

impl<'a, T: Record<'a>, const FLAT: bool> Form<'a, T> for Nested<FLAT> {
    fn bytes_min(context: &FrameContext) -> usize {
        T::bytes_min(context)
    }

    fn put(value: &T, context: &mut FrameContext, out: &mut Vec<u8>) {
        let flags = context.flags;
        value.put(context, out);
        context.flags = flags;
    }

    fn read(context: &mut FrameContext, payload: &mut Payload<'a>) -> Result<T, DecodeError> {
        let flags = context.flags;
        let value = T::read(context, payload)?;
        context.flags = flags;
        Ok(value)
    }

    fn show(value: &T, name: &str, to: &mut dyn FieldSink) {
        match FLAT {
            true => value.show(to),
            false => to.object(name, &|to| value.show(to)),
        }
    }

    #[cfg(test)]
    fn sample(source: &mut Source<'a>, context: &mut FrameContext) -> T {
        T::sample(source, context)
    }
}

/// An enumeration whose variants have numbers on the wire; `numbered!` implements it.
pub trait Numbered: Copy + 'static {
    /// Description of the valid values, for the error.
    const EXPECTED: &'static str;
    fn number(self) -> u8;
    fn from_number(number: u8) -> Option<Self>;
    fn show(self, name: &str, to: &mut dyn FieldSink);
}

/// Assigns wire numbers and words for the golden vectors to the variants of an enumeration. An
/// enumeration with a `newer` variant preserves the numbers of newer versions, and the golden vectors
/// show its numbers instead of words.
macro_rules! numbered {
    ($name:ident, newer $newer:ident { $($variant:ident = $number:literal;)+ }) => {
        impl $crate::message::form::Numbered for $name {
            const EXPECTED: &'static str = "any number";

            fn number(self) -> u8 {
                match self {
                    $($name::$variant => $number,)+
                    $name::$newer(number) => number,
                }
            }

            fn from_number(number: u8) -> Option<Self> {
                Some(match number {
                    $($number => $name::$variant,)+
                    newer => $name::$newer(newer),
                })
            }

            fn show(self, name: &str, to: &mut dyn $crate::message::layout::FieldSink) {
                to.field(name, $crate::message::layout::FieldValue::Number(self.number().into()));
            }
        }
    };
    ($name:ident, $expected:literal { $($variant:ident = $number:literal, $word:literal;)+ }) => {
        impl $crate::message::form::Numbered for $name {
            const EXPECTED: &'static str = $expected;

            fn number(self) -> u8 {
                match self {
                    $($name::$variant => $number,)+
                }
            }

            fn from_number(number: u8) -> Option<Self> {
                match number {
                    $($number => Some($name::$variant),)+
                    _ => None,
                }
            }

            fn show(self, name: &str, to: &mut dyn $crate::message::layout::FieldSink) {
                let word = match self {
                    $($name::$variant => $word,)+
                };
                to.field(name, $crate::message::layout::FieldValue::Text(word));
            }
        }
    };
}
pub(crate) use numbered;

numbered! {
    Access, "an access type, 0 to 2" {
        ReadWrite = 0, "read-write";
        ReadOnly = 1, "read-only";
        WriteOnly = 2, "write-only";
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Frame, FrameKind, FrameWriter};

    #[test]
    fn value_is_refused_if_no_type_precedes_it() {
        let mut bytes = Vec::new();
        let mut writer = FrameWriter::begin(&mut bytes, FrameKind::Forced, 1);
        writer.payload().extend_from_slice(&1.5_f64.to_le_bytes());
        writer.finish(false);
        let frame = Frame::take_from(&mut &bytes[..]).unwrap().unwrap();
        let read = |context: &mut FrameContext| {
            let mut payload = Payload::of(&frame, FrameKind::Forced).unwrap();
            <Typed as Form<'_, Value>>::read(context, &mut payload)
        };
        let mut context = FrameContext::default();
        assert!(read(&mut context).is_err());
        context.types.put(&mut Vec::new(), &DataType::F64);
        assert_eq!(read(&mut context).unwrap(), Value::F64(1.5));
    }
}
