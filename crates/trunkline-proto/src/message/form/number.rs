//! The forms of numbers, and of what is written as a number.

use std::time::Duration;

use trunkline_types::wire::{put_i64, put_u8, put_u16, put_u32, put_u64, put_varint, put_zigzag};
use trunkline_types::{Quality, Timestamp};

use super::mapped;
use crate::FaultCode;
use crate::message::hello::to_millis;
use crate::message::layout::Shown;

/// Little-endian, in as many bytes as the type has.
#[derive(Debug)]
pub enum Fixed {}
#[derive(Debug)]
pub enum Varint {}
/// A handle: the difference from the handle of the record before, as a zigzag.
#[derive(Debug)]
pub enum Handle {}
/// A ticket: the difference from the ticket of the record before, as a zigzag.
#[derive(Debug)]
pub enum Ticket {}
/// A number that another field carries; 0 until that is read.
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
#[derive(Debug)]
pub enum Code {}
/// A number that may be absent: 0 stands for none.
#[derive(Debug)]
pub enum OrZero {}
/// As [`OrZero`], but a varint.
#[derive(Debug)]
pub enum VarintOrZero {}

/// Defines forms of integers: their size in bytes, or the smallest, how they are chosen for the
/// round trip and shown, and the functions that put one and read one.
macro_rules! integers {
    ($($form:ident: $ty:ty, $bytes:literal, $sample:ident, $shown:ident, $put:expr, $read:expr;)+) => {
        $crate::message::form::forms! { $(
            $form: $ty, $bytes,
            |out, value, run| {
                let put: fn(&mut Vec<u8>, $ty, &mut $crate::message::layout::Run) = $put;
                put(out, *value, run);
            },
            $read,
            |value, name, to| {
                to.field(name, $crate::message::layout::Shown::$shown((*value).into()));
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
    Fixed: u64, 8, number, Digits, |out, value, _| put_u64(out, value), |payload, _| payload.u64();
    Fixed: i64, 8, number, Signed, |out, value, _| put_i64(out, value), |payload, _| payload.i64();
    Varint: u32, 1, number, Number,
        |out, value, _| put_varint(out, u64::from(value)),
        |payload, run| payload.varint_u32(run.field);
    Varint: u64, 1, number, Digits,
        |out, value, _| put_varint(out, value),
        |payload, _| payload.varint();
    Elsewhere: u64, 0, zero, Digits, |_, _, _| {}, |_, _| Ok(0);
    Handle: u32, 1, number, Number,
        |out, value, run| {
            put_zigzag(out, i64::from(value).wrapping_sub(i64::from(run.handle)));
            run.handle = value;
        },
        |payload, run| {
            run.handle = payload.handle(run.handle)?;
            Ok(run.handle)
        };
    Ticket: u64, 1, number, Digits,
        |out, value, run| {
            put_zigzag(out, value.wrapping_sub(run.ticket) as i64);
            run.ticket = value;
        },
        |payload, run| {
            run.ticket = run.ticket.wrapping_add_signed(payload.zigzag()?);
            Ok(run.ticket)
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
        Shown::Text(code.name())
    };
    OrZero: Option<u64> = Fixed: u64, |number| number.unwrap_or(0), not_zero;
    VarintOrZero: Option<u64> = Varint: u64, |number| number.unwrap_or(0), not_zero;
}

/// Whole milliseconds, rounded up so that a short time does not become zero.
fn whole_millis(duration: &Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

fn not_zero(number: u64) -> Option<u64> {
    (number != 0).then_some(number)
}
