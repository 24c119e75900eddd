//! A delivery contract and its flags, as encoded in OPEN, SUBSCRIBE and INFO_ANSWER.
//!
//! ```text
//! contract  0 latest
//!           1 last     elements varint
//!           2 first    elements varint
//!           3 all      elements varint | bytes varint      (0: the default of either)
//!           4 sampled  period_ns varint
//! flags     bit 0 only changes (catch-all off)   bit 1 own updates suppressed
//! ```

use std::time::Duration;

use trunkline_types::Contract;
use trunkline_types::contract::{ALL_BYTES_DEFAULT, ALL_ELEMENTS_DEFAULT};
use trunkline_types::time::duration_nanos;
use trunkline_types::wire::{put_u8, put_varint};

use crate::DecodeError;
use crate::decode::Payload;

/// The filters of a subscription; filtered updates are counted as such.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct SubscribeFlags {
    /// Delivers only updates whose value or quality differs from the previous one (catch-all off).
    pub only_changes: bool,
    /// Suppresses updates that this session wrote itself.
    pub own_suppressed: bool,
}

impl SubscribeFlags {
    /// No filter: every update passes.
    pub const NONE: SubscribeFlags = SubscribeFlags {
        only_changes: false,
        own_suppressed: false,
    };

    /// The bits on the wire.
    pub const fn to_bits(self) -> u8 {
        self.only_changes as u8 | ((self.own_suppressed as u8) << 1)
    }

    /// Reads the bits on the wire; bits unknown to this version are ignored.
    pub const fn from_bits(bits: u8) -> Self {
        Self {
            only_changes: bits & 1 != 0,
            own_suppressed: bits & 2 != 0,
        }
    }
}

/// Appends a contract.
pub(crate) fn put_contract(out: &mut Vec<u8>, contract: &Contract) {
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

/// Reads a contract. The engine checks the bounds of its numbers and answers with a fault.
pub(crate) fn read_contract(payload: &mut Payload<'_>) -> Result<Contract, DecodeError> {
    let tag = payload.u8()?;
    Ok(match tag {
        0 => Contract::Latest,
        1 => Contract::Last(payload.varint_u32("a buffer")?),
        2 => Contract::First(payload.varint_u32("a buffer")?),
        3 => {
            let or_default = |given, default| if given == 0 { default } else { given };
            Contract::All {
                elements: or_default(payload.varint_u32("a bound")?, ALL_ELEMENTS_DEFAULT),
                bytes: or_default(payload.varint_u32("a bound")?, ALL_BYTES_DEFAULT),
            }
        }
        4 => Contract::Sampled(Duration::from_nanos(payload.varint()?)),
        other => return Err(payload.unexpected("a contract, 0 to 4", u64::from(other))),
    })
}
