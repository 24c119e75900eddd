//! A delivery contract and its flags, as encoded in OPEN, SUBSCRIBE and INFO_ANSWER.
//!
//! ```text
//! contract  0 latest
//!           1 last     elements varint
//!           2 first    elements varint
//!           3 all      elements varint | bytes varint      (0: the default)
//!           4 sampled  period_ns varint
//! flags     bit 0 only changes (catch-all off)   bit 1 own updates suppressed
//! ```

use std::time::Duration;

use trunkline_types::Contract;
use trunkline_types::contract::{ALL_BYTES_DEFAULT, ALL_ELEMENTS_DEFAULT};
use trunkline_types::time::duration_nanos;
use trunkline_types::wire::{put_u8, put_varint};

use super::form::{Flag, FlagsThen, forms};
use super::layout::{FieldSink, FieldValue, record};
use crate::DecodeError;
use crate::decode::Payload;

record! {
    /// The filters of a subscription; filtered updates are counted separately.
    #[derive(Copy, Eq, Hash, Default)]
    pub struct SubscribeFlags {
        /// Delivers only updates whose value or quality differs from the previous one (catch-all
        /// off).
        pub only_changes: bool = FlagsThen<Flag<1>>,
        /// Suppresses updates that this session wrote itself.
        pub own_suppressed: bool = Flag<2>,
        /// The updates are for a recording, which needs the right to record as well.
        pub recorded: bool = Flag<4>,
    }
}

impl SubscribeFlags {
    /// No filter: every update is delivered.
    pub const NONE: SubscribeFlags = SubscribeFlags {
        only_changes: false,
        own_suppressed: false,
        recorded: false,
    };
}

#[derive(Debug)]
pub enum Terms {}

forms! {
    Terms: Contract, 1,
        |out, contract, _| put_contract(contract, out),
        |payload, _| read_contract(payload),
        show_contract,
        |source, _| {
            let number = source.number();
            match source.number() % 5 {
                0 => Contract::Latest,
                1 => Contract::Last(number as u32),
                2 => Contract::First(number as u32),
                3 => Contract::All {
                    elements: (number as u32).max(1),
                    bytes: (source.number() as u32).max(1),
                },
                _ => Contract::Sampled(Duration::from_nanos(number)),
            }
        };
}

fn put_contract(contract: &Contract, out: &mut Vec<u8>) {
    match *contract {
        Contract::Latest => put_u8(out, 0),
        Contract::Last(elements) => {
            put_u8(out, 1);
            put_varint(out, u64::from(elements));
        }
        Contract::First(elements) => {
            put_u8(out, 2);
            put_varint(out, u64::from(elements));
        }
        Contract::All { elements, bytes } => {
            put_u8(out, 3);
            put_varint(out, u64::from(elements));
            put_varint(out, u64::from(bytes));
        }
        Contract::Sampled(period) => {
            put_u8(out, 4);
            put_varint(out, duration_nanos(period));
        }
    }
}

/// Reads a contract. This does not check the bounds: the engine checks them and answers with a fault.
fn read_contract(payload: &mut Payload<'_>) -> Result<Contract, DecodeError> {
    let tag = payload.u8()?;
    Ok(match tag {
        0 => Contract::Latest,
        1 => Contract::Last(payload.varint_u32("a buffer")?),
        2 => Contract::First(payload.varint_u32("a buffer")?),
        3 => {
            let or_default = |bound, default| if bound == 0 { default } else { bound };
            Contract::All {
                elements: or_default(payload.varint_u32("a bound")?, ALL_ELEMENTS_DEFAULT),
                bytes: or_default(payload.varint_u32("a bound")?, ALL_BYTES_DEFAULT),
            }
        }
        4 => Contract::Sampled(Duration::from_nanos(payload.varint()?)),
        other => return Err(payload.unexpected("a contract, 0 to 4", u64::from(other))),
    })
}

fn show_contract(contract: &Contract, name: &str, to: &mut dyn FieldSink) {
    to.object(name, &|to| {
        to.field("name", FieldValue::Text(&contract.to_string()));
        match *contract {
            Contract::Latest => {}
            Contract::Last(elements) | Contract::First(elements) => {
                to.field("elements", FieldValue::Number(elements.into()));
            }
            Contract::All { elements, bytes } => {
                to.field("elements", FieldValue::Number(elements.into()));
                to.field("bytes", FieldValue::Number(bytes.into()));
            }
            Contract::Sampled(period) => {
                to.field(
                    "period_ns",
                    FieldValue::NumberAsText(duration_nanos(period)),
                );
            }
        }
    });
}
