//! The forms of fields that depend on flags.

use std::marker::PhantomData;

use trunkline_types::wire::put_u8;

use super::Form;
use crate::DecodeError;
use crate::decode::Payload;
use crate::message::layout::{FieldSink, FieldValue, FrameContext};
#[cfg(test)]
use crate::message::round_trip::Source;

/// A field preceded by the flags of the record, one byte. A value above `MAX` is an error.
#[derive(Debug)]
pub struct FlagsThen<F, const MAX: u8 = { u8::MAX }>(PhantomData<F>);
/// A flag of the record: true if the bit is set. Takes no bytes of its own.
#[derive(Debug)]
pub enum Flag<const BIT: u8> {}
/// A field that is present if a flag of its record is set.
#[derive(Debug)]
pub struct Optional<const BIT: u8, F>(PhantomData<F>);
/// A field that is present in every item if a flag of the head is set; otherwise it has its default
/// value.
#[derive(Debug)]
pub struct IfHead<const BIT: u8, F>(PhantomData<F>);

impl<'a, T, F: Form<'a, T>, const MAX: u8> Form<'a, T> for FlagsThen<F, MAX> {
    fn bytes_min(context: &FrameContext) -> usize {
        F::bytes_min(context).saturating_add(1)
    }

    fn flags(value: &T) -> u8 {
        F::flags(value)
    }

    fn put(value: &T, context: &mut FrameContext, out: &mut Vec<u8>) {
        put_u8(out, context.flags);
        F::put(value, context, out);
    }

    fn read(context: &mut FrameContext, payload: &mut Payload<'a>) -> Result<T, DecodeError> {
        context.flags = payload.u8()?;
        if context.flags > MAX {
            return Err(payload.unexpected("flags of this version", u64::from(context.flags)));
        }
        F::read(context, payload)
    }

    fn show(value: &T, name: &str, to: &mut dyn FieldSink) {
        F::show(value, name, to);
    }

    #[cfg(test)]
    fn sample(source: &mut Source<'a>, context: &mut FrameContext) -> T {
        F::sample(source, context)
    }
}

impl<'a, const BIT: u8> Form<'a, bool> for Flag<BIT> {
    fn bytes_min(_: &FrameContext) -> usize {
        0
    }

    fn flags(value: &bool) -> u8 {
        if *value { BIT } else { 0 }
    }

    fn put(_: &bool, _: &mut FrameContext, _: &mut Vec<u8>) {}

    fn read(context: &mut FrameContext, _: &mut Payload<'a>) -> Result<bool, DecodeError> {
        Ok(context.flags & BIT != 0)
    }

    fn show(value: &bool, name: &str, to: &mut dyn FieldSink) {
        to.field(name, FieldValue::Flag(*value));
    }

    #[cfg(test)]
    fn sample(source: &mut Source<'a>, _: &mut FrameContext) -> bool {
        source.bool()
    }
}

impl<'a, T, const BIT: u8, F: Form<'a, T>> Form<'a, Option<T>> for Optional<BIT, F> {
    fn bytes_min(_: &FrameContext) -> usize {
        0
    }

    fn flags(value: &Option<T>) -> u8 {
        value.as_ref().map_or(0, |_| BIT)
    }

    fn put(value: &Option<T>, context: &mut FrameContext, out: &mut Vec<u8>) {
        if let Some(value) = value {
            F::put(value, context, out);
        }
    }

    fn read(
        context: &mut FrameContext,
        payload: &mut Payload<'a>,
    ) -> Result<Option<T>, DecodeError> {
        let is_present = context.flags & BIT != 0;
        is_present.then(|| F::read(context, payload)).transpose()
    }

    fn show(value: &Option<T>, name: &str, to: &mut dyn FieldSink) {
        match value {
            Some(value) => F::show(value, name, to),
            None => to.field(name, FieldValue::Nothing),
        }
    }

    #[cfg(test)]
    fn sample(source: &mut Source<'a>, context: &mut FrameContext) -> Option<T> {
        source.bool().then(|| F::sample(source, context))
    }
}

impl<'a, T: Default, const BIT: u8, F: Form<'a, T>> Form<'a, T> for IfHead<BIT, F> {
    fn bytes_min(context: &FrameContext) -> usize {
        match context.record_head_flags & BIT {
            0 => 0,
            _ => F::bytes_min(context),
        }
    }

    fn put(value: &T, context: &mut FrameContext, out: &mut Vec<u8>) {
        if context.record_head_flags & BIT != 0 {
            F::put(value, context, out);
        }
    }

    fn read(context: &mut FrameContext, payload: &mut Payload<'a>) -> Result<T, DecodeError> {
        match context.record_head_flags & BIT {
            0 => Ok(T::default()),
            _ => F::read(context, payload),
        }
    }

    fn show(value: &T, name: &str, to: &mut dyn FieldSink) {
        F::show(value, name, to);
    }

    #[cfg(test)]
    fn sample(source: &mut Source<'a>, context: &mut FrameContext) -> T {
        match context.record_head_flags & BIT {
            0 => T::default(),
            _ => F::sample(source, context),
        }
    }
}
