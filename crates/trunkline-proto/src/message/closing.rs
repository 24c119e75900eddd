//! REFUSED and GOODBYE: the reason why a connection is refused, or closed in an orderly way.
//!
//! The form of both is the same in every version. A `retry_after_ms` of 0 makes no request.

use std::time::Duration;

use super::form::{Code, Fixed, Flat, Text, mapped};
use super::hello::to_millis;
use super::layout::record;
use super::single::single_frame;
use crate::limits::SENTENCE_BYTES_MAX;
use crate::{FaultCode, VersionMismatch, VersionRange};

record! {
    /// The engine refuses the hello and then closes the connection.
    #[derive(Eq)]
    pub struct Refused {
        pub code: FaultCode = Code,
        pub versions: VersionRange = Flat,
        /// The time after which the client should dial again, in whole milliseconds.
        pub retry_after: Option<Duration> = RetryMillis as "retry_after_ms",
        pub sentence: String = Text<SENTENCE_BYTES_MAX>,
    }
}

single_frame! { Refused, Refused, unnumbered, also StreamRefused }

record! {
    /// The sender closes the connection in an orderly way.
    #[derive(Eq)]
    pub struct Goodbye {
        pub code: FaultCode = Code,
        /// The time after which the receiver should dial again, in whole milliseconds.
        pub retry_after: Option<Duration> = RetryMillis as "retry_after_ms",
        pub sentence: String = Text<SENTENCE_BYTES_MAX>,
    }
}

single_frame! { Goodbye, Goodbye, unnumbered, also StreamGoodbye }

record! {
    impl VersionRange {
        min: u8 = Fixed as "version_min",
        max: u8 = Fixed as "version_max",
    }
}

/// Whole milliseconds; 0 means none.
#[derive(Debug)]
pub enum RetryMillis {}

mapped! {
    RetryMillis: Option<Duration> = Fixed: u32, |after| {
        after.map_or(0, |after| to_millis(after).max(1))
    }, |millis| {
        (millis != 0).then(|| Duration::from_millis(u64::from(millis)))
    };
}

impl From<VersionMismatch> for Refused {
    fn from(mismatch: VersionMismatch) -> Self {
        Self {
            code: FaultCode::VersionMismatch,
            versions: mismatch.engine,
            retry_after: None,
            sentence: mismatch.to_string(),
        }
    }
}
