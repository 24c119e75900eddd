//! ENDED: the engine has ended items of a subscription.
//!
//! `last_sequence` is the sequence of the last delivered update, and `lost` the exact number of
//! updates that were not delivered. A client that subscribes again from that position gets the
//! updates that the engine still has.

pub use trunkline_types::ledger::EndedItem;

use super::form::{Fixed, Handle, Number, Text, Varint, numbered};
use super::layout::record;
use super::list::list_frame;
use crate::FaultCode;
use crate::limits::SENTENCE_BYTES_MAX;

/// The reason why items of a subscription were ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EndReason {
    /// The bound of an `all` subscription was reached.
    Overrun,
    /// The variable was removed.
    Gone,
    /// The client no longer has the right to read the variable.
    Denied,
    /// A reason defined by a newer version.
    Unknown(u8),
}

numbered! {
    EndReason, newer Unknown { Overrun = 1; Gone = 2; Denied = 3; }
}

record! {
    /// The part common to all ended items of the frame. The request of the frame is the
    /// subscription.
    #[derive(Copy, Eq)]
    pub struct EndedHead<'a> {
        /// The reason, for programs.
        pub reason: EndReason = Number,
        /// The epoch of the positions.
        pub epoch: u64 = Fixed,
        /// The reason, for users.
        pub sentence: &'a str = Text<SENTENCE_BYTES_MAX>,
    }
}

record! {
    impl EndedItem {
        handle: u32 = Handle,
        last_sequence: u64 = Varint,
        lost: u64 = Varint,
    }
}

list_frame! {
    EndedFrame: Ended, Ended, EndedBuilder,
    head EndedHead<'a>, item EndedItem, empty_frame removed
}

impl EndReason {
    /// The equivalent fault code.
    pub const fn fault_code(self) -> FaultCode {
        match self {
            EndReason::Overrun => FaultCode::Overrun,
            EndReason::Gone => FaultCode::Gone,
            EndReason::Denied => FaultCode::Denied,
            EndReason::Unknown(_) => FaultCode::Internal,
        }
    }
}
