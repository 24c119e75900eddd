//! Records of fields that an older version can skip; see [`tlv`](crate::tlv).
//!
//! `fields!` declares such a record. The macro works like `record!`, but each field has an id and a
//! condition under which it is written.

use std::marker::PhantomData;

use trunkline_types::wire::put_varint;

use super::form::Form;
use super::layout::{FieldSink, FieldValue, FrameContext};
#[cfg(test)]
use super::round_trip::Source;
use crate::DecodeError;
use crate::decode::Payload;
use crate::tlv::put_sized;

/// The form of a field with an id, whose content is of type `T`.
pub trait FieldForm<'a, T> {
    /// Appends one occurrence of the field for each of its values; appends nothing if there is none.
    fn put(id: u64, value: &T, out: &mut Vec<u8>);
    /// Reads one occurrence of the field.
    fn read(
        value: &mut T,
        context: &mut FrameContext,
        field: &mut Payload<'a>,
    ) -> Result<(), DecodeError>;
    /// Shows the content under `name`, for the golden vectors.
    fn show(value: &T, name: &str, to: &mut dyn FieldSink);
    /// Sets arbitrary content that this form reproduces exactly.
    #[cfg(test)]
    fn sample(value: &mut T, source: &mut Source<'a>);
}

/// A field that is always written.
#[derive(Debug)]
pub struct Always<F>(PhantomData<F>);
/// A field that is written unless it has its default value.
#[derive(Debug)]
pub struct IfSet<F>(PhantomData<F>);
/// A field that is written if it has a value.
#[derive(Debug)]
pub struct Maybe<F>(PhantomData<F>);
/// A field without content, whose presence means true.
#[derive(Debug)]
pub enum Mark {}
/// A field that occurs any number of times up to `MAX`.
#[derive(Debug)]
pub struct Many<const MAX: usize, F>(PhantomData<F>);

fn put_one<'a, T, F: Form<'a, T>>(id: u64, value: &T, out: &mut Vec<u8>) {
    put_varint(out, id);
    put_sized(out, |out| F::put(value, &mut FrameContext::default(), out));
}

impl<'a, T, F: Form<'a, T>> FieldForm<'a, T> for Always<F> {
    fn put(id: u64, value: &T, out: &mut Vec<u8>) {
        put_one::<T, F>(id, value, out);
    }

    fn read(
        value: &mut T,
        context: &mut FrameContext,
        field: &mut Payload<'a>,
    ) -> Result<(), DecodeError> {
        *value = F::read(context, field)?;
        Ok(())
    }

    fn show(value: &T, name: &str, to: &mut dyn FieldSink) {
        F::show(value, name, to);
    }

    #[cfg(test)]
    fn sample(value: &mut T, source: &mut Source<'a>) {
        *value = F::sample(source, &mut FrameContext::default());
    }
}

impl<'a, T: Default + PartialEq, F: Form<'a, T>> FieldForm<'a, T> for IfSet<F> {
    fn put(id: u64, value: &T, out: &mut Vec<u8>) {
        if *value != T::default() {
            put_one::<T, F>(id, value, out);
        }
    }

    fn read(
        value: &mut T,
        context: &mut FrameContext,
        field: &mut Payload<'a>,
    ) -> Result<(), DecodeError> {
        Always::<F>::read(value, context, field)
    }

    fn show(value: &T, name: &str, to: &mut dyn FieldSink) {
        F::show(value, name, to);
    }

    #[cfg(test)]
    fn sample(value: &mut T, source: &mut Source<'a>) {
        Always::<F>::sample(value, source);
    }
}

impl<'a, T, F: Form<'a, T>> FieldForm<'a, Option<T>> for Maybe<F> {
    fn put(id: u64, value: &Option<T>, out: &mut Vec<u8>) {
        if let Some(value) = value {
            put_one::<T, F>(id, value, out);
        }
    }

    fn read(
        value: &mut Option<T>,
        context: &mut FrameContext,
        field: &mut Payload<'a>,
    ) -> Result<(), DecodeError> {
        *value = Some(F::read(context, field)?);
        Ok(())
    }

    fn show(value: &Option<T>, name: &str, to: &mut dyn FieldSink) {
        match value {
            Some(value) => F::show(value, name, to),
            None => to.field(name, FieldValue::Nothing),
        }
    }

    #[cfg(test)]
    fn sample(value: &mut Option<T>, source: &mut Source<'a>) {
        let is_there = source.bool();
        *value = is_there.then(|| F::sample(source, &mut FrameContext::default()));
    }
}

impl<'a> FieldForm<'a, bool> for Mark {
    fn put(id: u64, value: &bool, out: &mut Vec<u8>) {
        if *value {
            put_varint(out, id);
            put_varint(out, 0);
        }
    }

    fn read(
        value: &mut bool,
        _: &mut FrameContext,
        _: &mut Payload<'a>,
    ) -> Result<(), DecodeError> {
        *value = true;
        Ok(())
    }

    fn show(value: &bool, name: &str, to: &mut dyn FieldSink) {
        to.field(name, FieldValue::Flag(*value));
    }

    #[cfg(test)]
    fn sample(value: &mut bool, source: &mut Source<'a>) {
        *value = source.bool();
    }
}

impl<'a, T, const MAX: usize, F: Form<'a, T>> FieldForm<'a, Vec<T>> for Many<MAX, F> {
    fn put(id: u64, values: &Vec<T>, out: &mut Vec<u8>) {
        for value in values.iter().take(MAX) {
            put_one::<T, F>(id, value, out);
        }
    }

    fn read(
        values: &mut Vec<T>,
        context: &mut FrameContext,
        field: &mut Payload<'a>,
    ) -> Result<(), DecodeError> {
        if values.len() >= MAX {
            let found = (values.len() as u64).saturating_add(1);
            return Err(
                field.unexpected("at most the permitted number of fields with this id", found)
            );
        }
        values.push(F::read(context, field)?);
        Ok(())
    }

    fn show(values: &Vec<T>, name: &str, to: &mut dyn FieldSink) {
        to.list(name, &|to| {
            values.iter().for_each(|value| F::show(value, "", to));
        });
    }

    #[cfg(test)]
    fn sample(values: &mut Vec<T>, source: &mut Source<'a>) {
        let count = source.number() % 4;
        let one = |_| F::sample(source, &mut FrameContext::default());
        *values = (0..count).map(one).collect();
    }
}

/// Declares a record of fields: `id: pub field: Type = When<Form>`, with `as "name"` if the name on
/// the wire is different. Fields under `first` precede the other fields and have no id. `absent` is
/// the record to which the present fields are added. With `impl` instead of `pub struct`, the struct
/// is declared elsewhere. A `sized` record is preceded by its size.
macro_rules! fields {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident $(<$life:lifetime>)? $(($sized:ident))? {
            $(first {
                $( $(#[$first_doc:meta])* pub $first:ident: $first_ty:ty = $first_form:ty
                    $(as $first_wire:literal)?, )+
            })?
            $( $(#[$doc:meta])* $id:literal: pub $field:ident: $ty:ty = $form:ty
                $(as $wire:literal)?, )+
        }
        $(absent $absent:expr)?
    ) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Debug)]
        $vis struct $name $(<$life>)? {
            $($( $(#[$first_doc])* pub $first: $first_ty, )+)?
            $( $(#[$doc])* pub $field: $ty, )+
        }

        $crate::message::fields::fields! {
            $($sized)? impl $name $(<$life>)? {
                $(first { $( $first: $first_ty = $first_form $(as $first_wire)?, )+ })?
                $( $id: $field = $form $(as $wire)?, )+
            }
            $(absent $absent)?
        }
    };
    (sized impl $($rest:tt)+) => {
        $crate::message::fields::fields! { @impl true, $($rest)+ }
    };
    (impl $($rest:tt)+) => {
        $crate::message::fields::fields! { @impl false, $($rest)+ }
    };
    (
        @impl $is_sized:literal, $record:ty {
            $(first {
                $( $first:ident: $first_ty:ty = $first_form:ty $(as $first_wire:literal)?, )+
            })?
            $( $id:literal: $field:ident = $form:ty $(as $wire:literal)?, )+
        }
        $(absent $absent:expr)?
    ) => {
        impl<'a> $crate::message::layout::Record<'a> for $record {
            const FIELDS: &'static [$crate::message::layout::Field] = &[
                $($($crate::message::layout::record!(
                    @field $first: $first_ty = $first_form $(as $first_wire)?
                ),)+)?
                $crate::message::layout::Field::literal(match $is_sized {
                    true => "size varint | fields",
                    false => "fields",
                }),
            ];

            fn bytes_min(_context: &$crate::message::layout::FrameContext) -> usize {
                usize::from($is_sized)$($(.saturating_add(
                    <$first_form as $crate::message::form::Form<'a, $first_ty>>::bytes_min(
                        _context,
                    ),
                ))+)?
            }

            fn put(&self, _context: &mut $crate::message::layout::FrameContext, out: &mut Vec<u8>) {
                $($(<$first_form as $crate::message::form::Form<'a, $first_ty>>::put(
                    &self.$first,
                    _context,
                    out,
                );)+)?
                let put = |out: &mut Vec<u8>| {
                    $(<$form as $crate::message::fields::FieldForm<'a, _>>::put(
                        $id,
                        &self.$field,
                        out,
                    );)+
                };
                match $is_sized {
                    true => $crate::tlv::put_sized(out, put),
                    false => put(out),
                }
            }

            fn read(
                _context: &mut $crate::message::layout::FrameContext,
                payload: &mut $crate::decode::Payload<'a>,
            ) -> Result<Self, $crate::DecodeError> {
                let mut record: Self = $crate::message::fields::fields!(@absent $($absent)?);
                $($(
                    _context.field = stringify!($first);
                    record.$first = <$first_form as $crate::message::form::Form<'a, $first_ty>>::read(
                        _context,
                        payload,
                    )?;
                )+)?
                let read = |id: u64, field: &mut $crate::decode::Payload<'a>| {
                    match id {
                        $($id => <$form as $crate::message::fields::FieldForm<'a, _>>::read(
                            &mut record.$field,
                            &mut $crate::message::layout::FrameContext::of_field(
                                stringify!($field),
                            ),
                            field,
                        )?,)+
                        _ => return Ok(false),
                    }
                    Ok::<_, $crate::DecodeError>(true)
                };
                match $is_sized {
                    true => $crate::tlv::read_fields(&mut payload.sized()?, read)?,
                    false => $crate::tlv::read_fields(payload, read)?,
                }
                Ok(record)
            }

            fn show(&self, to: &mut dyn $crate::message::layout::FieldSink) {
                $($(<$first_form as $crate::message::form::Form<'a, $first_ty>>::show(
                    &self.$first,
                    $crate::message::layout::record!(@name $first $($first_wire)?),
                    to,
                );)+)?
                $(<$form as $crate::message::fields::FieldForm<'a, _>>::show(
                    &self.$field,
                    $crate::message::layout::record!(@name $field $($wire)?),
                    to,
                );)+
            }

            #[cfg(test)]
            fn sample(
                source: &mut $crate::message::round_trip::Source<'a>,
                _context: &mut $crate::message::layout::FrameContext,
            ) -> Self {
                let mut record: Self = $crate::message::fields::fields!(@absent $($absent)?);
                $($(
                    record.$first =
                        <$first_form as $crate::message::form::Form<'a, $first_ty>>::sample(
                            source,
                            _context,
                        );
                )+)?
                $(<$form as $crate::message::fields::FieldForm<'a, _>>::sample(
                    &mut record.$field,
                    source,
                );)+
                record
            }
        }
    };
    (@absent) => { Self::default() };
    (@absent $absent:expr) => { $absent };
}
pub(crate) use fields;
