//! The forms of fields: how each is written, read, bounded and shown.

use std::marker::PhantomData;
use std::time::Duration;

use trunkline_types::wire::{put_str, put_u8, put_u32, put_u64, put_varint, put_zigzag};
use trunkline_types::{Access, DataType};

use super::fault::cut_text;
use super::layout::{Run, Show, Shown};
#[cfg(test)]
use super::round_trip::Source;
use crate::DecodeError;
use crate::decode::Payload;

/// The form of a field of type `T`. Forms are types without values.
pub trait Form<'a, T> {
    /// Smallest size in bytes, once the flags of the head are known.
    fn bytes_min(run: &Run) -> usize;
    /// The bits that the field sets in the flags of its record.
    fn flags(_value: &T) -> u8 {
        0
    }
    /// Appends the field.
    fn put(value: &T, run: &mut Run, out: &mut Vec<u8>);
    /// Reads the field; `name` is for the error.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes do not have this form.
    fn read(name: &'static str, run: &mut Run, payload: &mut Payload<'a>)
    -> Result<T, DecodeError>;
    /// Shows the content under this name, for the golden vectors.
    fn show(value: &T, name: &str, to: &mut dyn Show);
    /// Any content that this form keeps exactly.
    #[cfg(test)]
    fn sample(source: &mut Source<'a>, run: &Run) -> T;
}

/// Little-endian, in as many bytes as the type has.
#[derive(Debug)]
pub enum Fixed {}
/// A varint.
#[derive(Debug)]
pub enum Varint {}
/// A handle: the difference from the handle of the record before, as a zigzag.
#[derive(Debug)]
pub enum Handle {}
/// Whole milliseconds as a varint, rounded up.
#[derive(Debug)]
pub enum Millis {}
/// Text of at most `MAX` bytes. Longer text is cut at a character when it is written.
#[derive(Debug)]
pub enum Text<const MAX: usize> {}
/// Text that only the frame bounds, such as a name.
pub type Name = Text<{ usize::MAX }>;
/// A data type, or the mark that it is that of the item before.
#[derive(Debug)]
pub enum Type {}
/// A number that may be absent: 0 stands for none.
#[derive(Debug)]
pub enum OrZero {}
/// The number of an enumeration, one byte.
#[derive(Debug)]
pub enum Number {}
/// The flags of the record, one byte, stand before this field.
#[derive(Debug)]
pub struct FlagsThen<F>(PhantomData<F>);
/// Present if a flag of its record is set.
#[derive(Debug)]
pub struct Optional<const BIT: u8, F>(PhantomData<F>);
/// Present in every item if a flag of the head is set; otherwise it has its default.
#[derive(Debug)]
pub struct IfHead<const BIT: u8, F>(PhantomData<F>);

/// Defines the fixed forms of integers.
macro_rules! fixed {
    ($($ty:ident, $put:ident, $shown:ident;)+) => { $(
        impl<'a> Form<'a, $ty> for Fixed {
            fn bytes_min(_: &Run) -> usize {
                size_of::<$ty>()
            }

            fn put(value: &$ty, _: &mut Run, out: &mut Vec<u8>) {
                $put(out, *value);
            }

            fn read(
                _: &'static str,
                _: &mut Run,
                payload: &mut Payload<'a>,
            ) -> Result<$ty, DecodeError> {
                payload.$ty()
            }

            fn show(value: &$ty, name: &str, to: &mut dyn Show) {
                to.field(name, Shown::$shown(*value));
            }

            #[cfg(test)]
            fn sample(source: &mut Source<'a>, _: &Run) -> $ty {
                source.number() as $ty
            }
        }
    )+ };
}

fixed! {
    u32, put_u32, Small;
    u64, put_u64, Big;
}

impl<'a> Form<'a, u64> for Varint {
    fn bytes_min(_: &Run) -> usize {
        1
    }

    fn put(value: &u64, _: &mut Run, out: &mut Vec<u8>) {
        put_varint(out, *value);
    }

    fn read(_: &'static str, _: &mut Run, payload: &mut Payload<'a>) -> Result<u64, DecodeError> {
        payload.varint()
    }

    fn show(value: &u64, name: &str, to: &mut dyn Show) {
        to.field(name, Shown::Big(*value));
    }

    #[cfg(test)]
    fn sample(source: &mut Source<'a>, _: &Run) -> u64 {
        source.number()
    }
}

impl<'a> Form<'a, u32> for Varint {
    fn bytes_min(_: &Run) -> usize {
        1
    }

    fn put(value: &u32, _: &mut Run, out: &mut Vec<u8>) {
        put_varint(out, u64::from(*value));
    }

    fn read(
        name: &'static str,
        _: &mut Run,
        payload: &mut Payload<'a>,
    ) -> Result<u32, DecodeError> {
        payload.varint_u32(name)
    }

    fn show(value: &u32, name: &str, to: &mut dyn Show) {
        to.field(name, Shown::Small(*value));
    }

    #[cfg(test)]
    fn sample(source: &mut Source<'a>, _: &Run) -> u32 {
        source.number() as u32
    }
}

impl<'a> Form<'a, u32> for Handle {
    fn bytes_min(_: &Run) -> usize {
        1
    }

    fn put(value: &u32, run: &mut Run, out: &mut Vec<u8>) {
        put_zigzag(out, i64::from(*value).wrapping_sub(i64::from(run.handle)));
        run.handle = *value;
    }

    fn read(_: &'static str, run: &mut Run, payload: &mut Payload<'a>) -> Result<u32, DecodeError> {
        run.handle = payload.handle(run.handle)?;
        Ok(run.handle)
    }

    fn show(value: &u32, name: &str, to: &mut dyn Show) {
        to.field(name, Shown::Small(*value));
    }

    #[cfg(test)]
    fn sample(source: &mut Source<'a>, _: &Run) -> u32 {
        source.number() as u32
    }
}

/// Defines forms that write a value as another one, in another form: how to get there, and back.
macro_rules! mapped {
    ($($form:ident: $ty:ty = $base:ty: $raw:ty, $to:expr, $from:expr;)+) => { $(
        impl<'a> Form<'a, $ty> for $form {
            fn bytes_min(run: &Run) -> usize {
                <$base as Form<'a, $raw>>::bytes_min(run)
            }

            fn put(value: &$ty, run: &mut Run, out: &mut Vec<u8>) {
                let to: fn(&$ty) -> $raw = $to;
                <$base as Form<'a, $raw>>::put(&to(value), run, out);
            }

            fn read(
                name: &'static str,
                run: &mut Run,
                payload: &mut Payload<'a>,
            ) -> Result<$ty, DecodeError> {
                <$base as Form<'a, $raw>>::read(name, run, payload).map($from)
            }

            fn show(value: &$ty, name: &str, to: &mut dyn Show) {
                let raw: fn(&$ty) -> $raw = $to;
                <$base as Form<'a, $raw>>::show(&raw(value), name, to);
            }

            #[cfg(test)]
            fn sample(source: &mut Source<'a>, run: &Run) -> $ty {
                let from: fn($raw) -> $ty = $from;
                from(<$base as Form<'a, $raw>>::sample(source, run))
            }
        }
    )+ };
}

mapped! {
    Millis: Duration = Varint: u64, whole_millis, Duration::from_millis;
    OrZero: Option<u64> = Fixed: u64, |number| number.unwrap_or(0), |number| {
        (number != 0).then_some(number)
    };
}

/// Whole milliseconds, rounded up so that a short time does not become zero.
fn whole_millis(duration: &Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

impl<'a, const MAX: usize> Form<'a, &'a str> for Text<MAX> {
    fn bytes_min(_: &Run) -> usize {
        1
    }

    fn put(value: &&'a str, _: &mut Run, out: &mut Vec<u8>) {
        put_str(out, cut_text(value, MAX));
    }

    fn read(
        _: &'static str,
        _: &mut Run,
        payload: &mut Payload<'a>,
    ) -> Result<&'a str, DecodeError> {
        payload.text(MAX)
    }

    fn show(value: &&'a str, name: &str, to: &mut dyn Show) {
        to.field(name, Shown::Text(value));
    }

    #[cfg(test)]
    fn sample(source: &mut Source<'a>, _: &Run) -> &'a str {
        cut_text(source.text(), MAX)
    }
}

impl<'a> Form<'a, DataType> for Type {
    fn bytes_min(_: &Run) -> usize {
        1
    }

    fn put(value: &DataType, run: &mut Run, out: &mut Vec<u8>) {
        run.types.put(out, value);
    }

    fn read(
        _: &'static str,
        run: &mut Run,
        payload: &mut Payload<'a>,
    ) -> Result<DataType, DecodeError> {
        run.types.read(payload)
    }

    fn show(value: &DataType, name: &str, to: &mut dyn Show) {
        to.field(name, Shown::Text(&value.to_string()));
    }

    #[cfg(test)]
    fn sample(source: &mut Source<'a>, _: &Run) -> DataType {
        source.data_type()
    }
}

/// An enumeration with a number on the wire; `numbered!` gives it one.
pub trait Numbered: Copy + 'static {
    /// What is legal, for the error.
    const EXPECTED: &'static str;
    /// The number on the wire.
    fn number(self) -> u8;
    /// The value with this number, if there is one.
    fn from_number(number: u8) -> Option<Self>;
    /// The value in the golden vectors.
    fn shown(self) -> Shown<'static>;
}

/// Gives an enumeration its numbers on the wire, and the words of the golden vectors. One with the
/// variant `newer` keeps the numbers of newer versions, and the golden vectors show numbers.
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

            fn shown(self) -> $crate::message::layout::Shown<'static> {
                $crate::message::layout::Shown::Small(self.number().into())
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

            fn shown(self) -> $crate::message::layout::Shown<'static> {
                $crate::message::layout::Shown::Text(match self {
                    $($name::$variant => $word,)+
                })
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

impl<'a, T: Numbered> Form<'a, T> for Number {
    fn bytes_min(_: &Run) -> usize {
        1
    }

    fn put(value: &T, _: &mut Run, out: &mut Vec<u8>) {
        put_u8(out, value.number());
    }

    fn read(_: &'static str, _: &mut Run, payload: &mut Payload<'a>) -> Result<T, DecodeError> {
        let number = payload.u8()?;
        T::from_number(number).ok_or_else(|| payload.unexpected(T::EXPECTED, u64::from(number)))
    }

    fn show(value: &T, name: &str, to: &mut dyn Show) {
        to.field(name, value.shown());
    }

    #[cfg(test)]
    fn sample(source: &mut Source<'a>, _: &Run) -> T {
        let first = source.number() as u8 % 16;
        let mut numbers = (first..=u8::MAX).chain(0..first);
        numbers
            .find_map(T::from_number)
            .expect("an enumeration has a value")
    }
}

impl<'a, T, F: Form<'a, T>> Form<'a, T> for FlagsThen<F> {
    fn bytes_min(run: &Run) -> usize {
        F::bytes_min(run).saturating_add(1)
    }

    fn flags(value: &T) -> u8 {
        F::flags(value)
    }

    fn put(value: &T, run: &mut Run, out: &mut Vec<u8>) {
        put_u8(out, run.flags);
        F::put(value, run, out);
    }

    fn read(
        name: &'static str,
        run: &mut Run,
        payload: &mut Payload<'a>,
    ) -> Result<T, DecodeError> {
        run.flags = payload.u8()?;
        F::read(name, run, payload)
    }

    fn show(value: &T, name: &str, to: &mut dyn Show) {
        F::show(value, name, to);
    }

    #[cfg(test)]
    fn sample(source: &mut Source<'a>, run: &Run) -> T {
        F::sample(source, run)
    }
}

impl<'a, T, const BIT: u8, F: Form<'a, T>> Form<'a, Option<T>> for Optional<BIT, F> {
    fn bytes_min(_: &Run) -> usize {
        0
    }

    fn flags(value: &Option<T>) -> u8 {
        value.as_ref().map_or(0, |_| BIT)
    }

    fn put(value: &Option<T>, run: &mut Run, out: &mut Vec<u8>) {
        if let Some(value) = value {
            F::put(value, run, out);
        }
    }

    fn read(
        name: &'static str,
        run: &mut Run,
        payload: &mut Payload<'a>,
    ) -> Result<Option<T>, DecodeError> {
        let is_present = run.flags & BIT != 0;
        is_present.then(|| F::read(name, run, payload)).transpose()
    }

    fn show(value: &Option<T>, name: &str, to: &mut dyn Show) {
        match value {
            Some(value) => F::show(value, name, to),
            None => to.field(name, Shown::Nothing),
        }
    }

    #[cfg(test)]
    fn sample(source: &mut Source<'a>, run: &Run) -> Option<T> {
        source.is_chosen().then(|| F::sample(source, run))
    }
}

impl<'a, T: Default, const BIT: u8, F: Form<'a, T>> Form<'a, T> for IfHead<BIT, F> {
    fn bytes_min(run: &Run) -> usize {
        match run.head_flags & BIT {
            0 => 0,
            _ => F::bytes_min(run),
        }
    }

    fn put(value: &T, run: &mut Run, out: &mut Vec<u8>) {
        if run.head_flags & BIT != 0 {
            F::put(value, run, out);
        }
    }

    fn read(
        name: &'static str,
        run: &mut Run,
        payload: &mut Payload<'a>,
    ) -> Result<T, DecodeError> {
        match run.head_flags & BIT {
            0 => Ok(T::default()),
            _ => F::read(name, run, payload),
        }
    }

    fn show(value: &T, name: &str, to: &mut dyn Show) {
        F::show(value, name, to);
    }

    #[cfg(test)]
    fn sample(source: &mut Source<'a>, run: &Run) -> T {
        match run.head_flags & BIT {
            0 => T::default(),
            _ => F::sample(source, run),
        }
    }
}
