//! LEASE and LEASED: the exclusive right of a session to write a variable, for a limited time
//! (B-22).
//!
//! Used only if both ends have the feature GROUPS. ACQUIRE by the session that holds the lease
//! renews the lease. RENEW of an expired lease is refused, because another session may have written in
//! the meantime.
//! With EXPECTED, a lease is granted only if the variable is still at that position. The answer
//! contains the sequence of the newest update, from which the holder continues. A lease ends when
//! its time has expired, with RELEASE, or with the session.

use std::time::Duration;

pub use trunkline_types::{Granted, LeaseVerb};

use super::form::{Fixed, FlagsThen, Handle, IfHead, Millis, Number, Optional, Varint, numbered};
use super::layout::record;
use super::list::{AnswerHead, list_frame};
use crate::FaultRef;

const EXPECTED: u8 = 1;

numbered! {
    LeaseVerb, "the verb 1, 2 or 3" {
        Acquire = 1, "acquire";
        Renew = 2, "renew";
        Release = 3, "release";
    }
}

record! {
    #[derive(Copy, Eq)]
    pub struct LeaseHead {
        pub verb: LeaseVerb = Number,
        /// Duration of the lease, sent in ms; ignored for a release.
        pub duration: Duration = FlagsThen<Millis> as "duration_ms",
        /// The epoch of the expected positions; `None` if no positions are expected.
        pub expected_epoch: Option<u64> = Optional<EXPECTED, Fixed>,
    }
}

record! {
    #[derive(Copy, Eq)]
    pub struct LeaseItem {
        pub handle: u32 = Handle,
        /// The expected sequence; 0 and not sent if no positions are expected.
        pub sequence: u64 = IfHead<EXPECTED, Varint>,
    }
}

record! {
    impl Granted {
        duration: Duration = Millis as "duration_ms",
        sequence: u64 = Varint,
    }
}

list_frame! {
    LeaseFrame: Lease, Lease, LeaseBuilder,
    head LeaseHead, item LeaseItem, empty_frame kept
}

list_frame! {
    LeasedFrame: Leased, Leased, LeasedBuilder,
    head AnswerHead, item Result<Granted, FaultRef<'a>>, empty_frame kept
}
