//! HELLO and WELCOME: the first frames of the two ends.
//!
//! The form of the first six bytes of HELLO is the same in every version.

use std::marker::PhantomData;
use std::time::Duration;

use trunkline_types::Timestamp;

use super::fields::{Always, IfSet, Mark, Maybe, fields};
use super::form::{Fixed, Flat, Form, Inner, Nanos, Varint, Whole, mapped};
use super::layout::{FieldSink, FieldValue, FrameContext, record};
use super::login::{KeyProof, Password, PasswordText, TokenSecret, TokenText};
#[cfg(test)]
use super::round_trip::Source;
use super::single::single_frame;
use crate::decode::Payload;
use crate::limits::{
    FRAME_MAX_DEFAULT, HELLO_TEXT_BYTES_MAX, ITEMS_MAX_DEFAULT, KEEPALIVE_DEADLINE,
    KEEPALIVE_INTERVAL, MESSAGE_MAX_DEFAULT, WINDOW_BYTES_DEFAULT, WINDOW_RECORDS_DEFAULT,
    WRITE_CREDIT_BYTES, WRITE_CREDIT_COUNT,
};
use crate::{DecodeError, Features, PROTOCOL_VERSION, ThroughputMode, VersionRange};

/// The first bytes of the first payload from either end.
pub const MAGIC: [u8; 4] = *b"TRNK";

fields! {
    /// The client's first message.
    #[derive(Eq)]
    pub struct Hello {
        first {
            pub versions: VersionRange = MagicThen<Flat>,
        }
        1: pub features: Features = Always<FeatureBits>,
        /// The client's own name, shown to users. All texts in this message have at most 256 bytes.
        2: pub client_name: String = IfSet<Brief>,
        /// The client's program and release.
        3: pub program: String = IfSet<Brief>,
        4: pub user: String = IfSet<Brief>,
        /// The client's process id; 0 if unknown.
        5: pub pid: u32 = Always<Varint>,
        /// The longest frame payload that the client accepts, in bytes.
        6: pub frame_max: u32 = Always<Varint>,
        /// The longest payload in parts that the client accepts, in bytes.
        7: pub message_max: u32 = Always<Varint>,
        /// Maximum number of unacknowledged update records that the client lets the engine send.
        8: pub window_records: u32 = Always<Varint>,
        /// Maximum total size of unacknowledged update records, in bytes.
        9: pub window_bytes: u32 = Always<Varint>,
        /// The client's session before the connection broke.
        10: pub resume: Option<Resume> = Maybe<Inner>,
        /// The proof of a client that logs in with a key, or registers its key with a joining token.
        11: pub key: Option<KeyProof> = Maybe<Inner>,
        /// The secret part of the joining token with which the client registers its key.
        12: pub token: Option<TokenSecret> = Maybe<TokenText>,
        /// The account of a client that logs in with a password.
        13: pub account: String = IfSet<Brief>,
        14: pub password: Password = IfSet<PasswordText>,
        /// Asks the engine for throughput mode, with these terms.
        50: pub throughput: Option<ThroughputMode> = Maybe<Inner>,
    }
    absent Self { features: Features::NONE, ..Self::default() }
}

single_frame! { Hello, Hello, unnumbered, also StreamLogin }

record! {
    #[derive(Copy, Eq)]
    pub struct Resume {
        pub session: u64 = Fixed,
        pub epoch: u64 = Fixed,
        pub engine_id: [u8; 16] = Fixed,
    }
}

fields! {
    /// The engine's acceptance of a hello.
    #[derive(Eq)]
    pub struct Welcome {
        first {
            pub version: u8 = MagicThen<Fixed>,
        }
        1: pub features: Features = Always<FeatureBits>,
        /// The engine's epoch, the first half of every position on this connection.
        2: pub epoch: u64 = Always<Varint>,
        /// Identifies the engine's store. The id is the same at every start with this store or a copy
        /// of this store. Without a store, the id is different at each start.
        3: pub engine_id: [u8; 16] = Always<Fixed>,
        4: pub session: u64 = Always<Varint>,
        /// True if the session named in the hello is resumed.
        5: pub resumed: bool = Mark,
        /// The longest frame payload, in bytes, for both directions.
        6: pub frame_max: u32 = Always<Varint>,
        /// The longest payload in parts, in bytes, for both directions.
        7: pub message_max: u32 = Always<Varint>,
        8: pub items_max: u32 = Always<Varint>,
        9: pub write_credit_count: u32 = Always<Varint>,
        10: pub write_credit_bytes: u32 = Always<Varint>,
        /// Interval of keep-alives for both ends, in whole milliseconds.
        11: pub keepalive: Duration = Always<VarintMillis> as "keepalive_ms",
        /// Silence after which either end considers the other dead, in whole milliseconds.
        12: pub deadline: Duration = Always<VarintMillis> as "deadline_ms",
        /// The time of the engine's wall clock.
        13: pub wall: Timestamp = Always<Nanos>,
        14: pub engine_name: String = IfSet<Brief>,
        15: pub engine_version: String = IfSet<Brief>,
        /// The account of the session; empty if the engine knows the client by its user id only.
        16: pub account: String = IfSet<Brief>,
        /// The role of the account: viewer, operator, engineer or admin; empty without one.
        17: pub role: String = IfSet<Brief>,
        /// The terms of throughput mode, if the client requested it; both ends then gather their
        /// output.
        50: pub throughput: Option<ThroughputMode> = Maybe<Inner>,
    }
}

single_frame! { Welcome, Welcome, unnumbered }

record! {
    impl ThroughputMode {
        bytes: u32 = Varint,
        delay: Duration = Micros as "delay_us",
    }
}

impl Default for Hello {
    /// Describes this release with its default limits and no identity.
    fn default() -> Self {
        Self {
            versions: VersionRange::OURS,
            features: Features::OURS,
            client_name: String::new(),
            program: String::new(),
            user: String::new(),
            pid: 0,
            frame_max: FRAME_MAX_DEFAULT,
            message_max: MESSAGE_MAX_DEFAULT,
            window_records: WINDOW_RECORDS_DEFAULT,
            window_bytes: WINDOW_BYTES_DEFAULT,
            resume: None,
            key: None,
            token: None,
            account: String::new(),
            password: Password::default(),
            throughput: None,
        }
    }
}

impl Default for Welcome {
    /// Describes this release with its default limits; the engine fills in epoch, session and
    /// identity.
    fn default() -> Self {
        Self {
            version: PROTOCOL_VERSION,
            features: Features::NONE,
            epoch: 0,
            engine_id: [0; 16],
            session: 0,
            resumed: false,
            frame_max: FRAME_MAX_DEFAULT,
            message_max: MESSAGE_MAX_DEFAULT,
            items_max: ITEMS_MAX_DEFAULT,
            write_credit_count: WRITE_CREDIT_COUNT,
            write_credit_bytes: WRITE_CREDIT_BYTES,
            keepalive: KEEPALIVE_INTERVAL,
            deadline: KEEPALIVE_DEADLINE,
            wall: Timestamp::UNIX_EPOCH,
            engine_name: String::new(),
            engine_version: String::new(),
            account: String::new(),
            role: String::new(),
            throughput: None,
        }
    }
}

/// Text up to the end of a field, truncated to the maximum length in a hello.
pub type Brief = Whole<HELLO_TEXT_BYTES_MAX>;
#[derive(Debug)]
pub enum FeatureBits {}
/// Whole milliseconds as a varint, at most 49 days.
#[derive(Debug)]
pub enum VarintMillis {}
/// Whole microseconds as a varint.
#[derive(Debug)]
pub enum Micros {}
/// A field preceded by the letters TRNK.
#[derive(Debug)]
pub struct MagicThen<F>(PhantomData<F>);

mapped! {
    FeatureBits: Features = Varint: u64, |features| features.to_bits(), Features::from_bits;
    VarintMillis: Duration = Varint: u32, |time| to_millis(*time), |millis| {
        Duration::from_millis(u64::from(millis))
    };
    Micros: Duration = Varint: u64, whole_micros, Duration::from_micros, |time| {
        FieldValue::Number(whole_micros(time))
    };
}

impl<'a, T, F: Form<'a, T>> Form<'a, T> for MagicThen<F> {
    fn bytes_min(context: &FrameContext) -> usize {
        F::bytes_min(context).saturating_add(MAGIC.len())
    }

    fn put(value: &T, context: &mut FrameContext, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        F::put(value, context, out);
    }

    fn read(context: &mut FrameContext, payload: &mut Payload<'a>) -> Result<T, DecodeError> {
        let found = payload.u32()?;
        if found.to_le_bytes() != MAGIC {
            return Err(payload.unexpected("the letters TRNK", u64::from(found)));
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

fn whole_micros(duration: &Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Converts a duration to whole milliseconds, at most 49 days.
pub(crate) fn to_millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}
