//! SUBSCRIBE: subscribes open variables under a contract.
//!
//! The client chooses the number of the subscription, unique within the session. Further frames with
//! the same number add items to the subscription. With `resume`, each item specifies the last update
//! that the client has. Delivery continues after that update if the engine still has the following
//! updates; missing updates are counted.

use trunkline_types::Contract;

use super::contract::{SubscribeFlags, Terms};
use super::form::{Fixed, FlagsThen, Flat, Handle, IfHead, Inner, Optional, Varint};
use super::layout::record;
use super::list::list_frame;

const RESUME: u8 = 1;

record! {
    #[derive(Copy, Eq)]
    pub struct SubscribeTerms {
        pub subscription: u32 = Fixed,
        pub contract: Contract = Terms,
        pub flags: SubscribeFlags = Flat,
    }
}

record! {
    #[derive(Copy, Eq)]
    pub struct SubscribeHead {
        pub terms: SubscribeTerms = Inner,
        /// The epoch of the items' positions; `None` if nothing is resumed.
        pub resume_epoch: Option<u64> = FlagsThen<Optional<RESUME, Fixed>, RESUME>,
    }
}

record! {
    #[derive(Copy, Eq)]
    pub struct SubscribeItem {
        pub handle: u32 = Handle,
        /// Sequence of the last update that the client has; 0 if it has none or does not resume.
        pub last_sequence: u64 = IfHead<RESUME, Varint>,
    }
}

list_frame! {
    SubscribeFrame: Subscribe, Subscribe, SubscribeBuilder,
    head SubscribeHead, item SubscribeItem, empty_frame kept
}
