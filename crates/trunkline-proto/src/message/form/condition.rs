//! The forms of fields that depend on flags.

use std::marker::PhantomData;

use trunkline_types::wire::put_u8;

use super::Form;
use crate::DecodeError;
use crate::decode::Payload;
use crate::message::layout::{Run, Show, Shown};
#[cfg(test)]
use crate::message::round_trip::Source;

/// A field preceded by the flags of the record, one byte. Flags above `MAX` are an error.
#[derive(Debug)]
pub struct FlagsThen<F, const MAX: u8 = { u8::MAX }>(PhantomData<F>);
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

    fn read(run: &mut Run, payload: &mut Payload<'a>) -> Result<T, DecodeError> {
        run.flags = payload.u8()?;
        if run.flags > MAX {
            return Err(payload.unexpected("flags of this version", u64::from(run.flags)));
        }
        F::read(run, payload)
    }

    fn show(value: &T, name: &str, to: &mut dyn Show) {
        F::show(value, name, to);
    }

    #[cfg(test)]
    fn sample(source: &mut Source<'a>, run: &mut Run) -> T {
        F::sample(source, run)
    }
}

impl<'a, const BIT: u8> Form<'a, bool> for Flag<BIT> {
    fn bytes_min(_: &Run) -> usize {
        0
    }

    fn flags(value: &bool) -> u8 {
        if *value { BIT } else { 0 }
    }

    fn put(_: &bool, _: &mut Run, _: &mut Vec<u8>) {}

    fn read(run: &mut Run, _: &mut Payload<'a>) -> Result<bool, DecodeError> {
        Ok(run.flags & BIT != 0)
    }

    fn show(value: &bool, name: &str, to: &mut dyn Show) {
        to.field(name, Shown::Flag(*value));
    }

    #[cfg(test)]
    fn sample(source: &mut Source<'a>, _: &mut Run) -> bool {
        source.is_chosen()
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

    fn read(run: &mut Run, payload: &mut Payload<'a>) -> Result<Option<T>, DecodeError> {
        let is_present = run.flags & BIT != 0;
        is_present.then(|| F::read(run, payload)).transpose()
    }

    fn show(value: &Option<T>, name: &str, to: &mut dyn Show) {
        match value {
            Some(value) => F::show(value, name, to),
            None => to.field(name, Shown::Nothing),
        }
    }

    #[cfg(test)]
    fn sample(source: &mut Source<'a>, run: &mut Run) -> Option<T> {
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

    fn read(run: &mut Run, payload: &mut Payload<'a>) -> Result<T, DecodeError> {
        match run.head_flags & BIT {
            0 => Ok(T::default()),
            _ => F::read(run, payload),
        }
    }

    fn show(value: &T, name: &str, to: &mut dyn Show) {
        F::show(value, name, to);
    }

    #[cfg(test)]
    fn sample(source: &mut Source<'a>, run: &mut Run) -> T {
        match run.head_flags & BIT {
            0 => T::default(),
            _ => F::sample(source, run),
        }
    }
}
