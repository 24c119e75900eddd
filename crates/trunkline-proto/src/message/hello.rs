//! HELLO and WELCOME: the first frame of either side.
//!
//! ```text
//! HELLO    "TRNK" | version_min u8 | version_max u8 | fields
//!            1 features varint     2 client_name text   3 program text      4 user text
//!            5 pid varint          6 frame_max varint   7 message_max varint
//!            8 window_records varint                    9 window_bytes varint
//!           10 resume: session u64, epoch u64, engine_id 16 bytes
//!           50 throughput: bytes varint, delay_us varint
//!
//! WELCOME  "TRNK" | version u8 | fields
//!            1 features varint     2 epoch varint       3 engine_id 16 bytes
//!            4 session varint      5 resumed (empty)    6 frame_max varint  7 message_max varint
//!            8 items_max varint    9 write_credit_count varint
//!           10 write_credit_bytes varint               11 keepalive_ms varint
//!           12 deadline_ms varint
//!           13 wall i64           14 engine_name text  15 engine_version text
//!           50 throughput: bytes varint, delay_us varint
//! ```
//!
//! The form of the first six bytes of HELLO is the same in every version.

use std::time::Duration;

use trunkline_types::Timestamp;
use trunkline_types::wire::{put_u8, put_u64, put_varint};

use crate::decode::Payload;
use crate::limits::{
    FRAME_MAX_DEFAULT, HELLO_TEXT_BYTES_MAX, ITEMS_MAX_DEFAULT, KEEPALIVE_DEADLINE,
    KEEPALIVE_INTERVAL, MESSAGE_MAX_DEFAULT, WINDOW_BYTES_DEFAULT, WINDOW_RECORDS_DEFAULT,
    WRITE_CREDIT_BYTES, WRITE_CREDIT_COUNT,
};
use crate::tlv::{put_field, put_fixed, put_nested, put_number, put_text, read_fields};
use crate::{
    DecodeError, Features, Frame, FrameKind, FrameWriter, PROTOCOL_VERSION, Throughput,
    VersionRange,
};

/// The first bytes of either side's first payload.
pub const MAGIC: [u8; 4] = *b"TRNK";

/// The client's first message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The versions that the client speaks.
    pub versions: VersionRange,
    /// The features that the client has.
    pub features: Features,
    /// The client's name for itself, shown to people. All texts here have at most 256 bytes.
    pub client_name: String,
    /// The client's program and release.
    pub program: String,
    /// The user that the client runs as.
    pub user: String,
    /// The client's process id; 0 if unknown.
    pub pid: u32,
    /// The longest frame payload that the client accepts, in bytes.
    pub frame_max: u32,
    /// The longest payload in parts that the client accepts, in bytes.
    pub message_max: u32,
    /// Update records that the client lets the engine send before they are acknowledged.
    pub window_records: u32,
    /// Bytes of those records.
    pub window_bytes: u32,
    /// The client's session before the connection broke.
    pub resume: Option<Resume>,
    /// Asks the engine for throughput mode, with these terms.
    pub throughput: Option<Throughput>,
}

/// A session to resume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resume {
    /// The number of the session.
    pub session: u64,
    /// The epoch of its positions.
    pub epoch: u64,
    /// The engine that had the session.
    pub engine_id: [u8; 16],
}

/// The engine's acceptance of a hello.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Welcome {
    /// The version in use from here on.
    pub version: u8,
    /// The features that both ends have.
    pub features: Features,
    /// The engine's epoch, the first half of every position on this connection.
    pub epoch: u64,
    /// Identifies the engine's store: the same at every start with the store, and in copies of it.
    /// Without a store it is different at each start.
    pub engine_id: [u8; 16],
    /// The session's number.
    pub session: u64,
    /// True if the session named in the hello is resumed.
    pub resumed: bool,
    /// The longest frame payload, in bytes, for both directions.
    pub frame_max: u32,
    /// The longest payload in parts, in bytes, for both directions.
    pub message_max: u32,
    /// Number of items that this session may have open.
    pub items_max: u32,
    /// Number of writes that may be unanswered.
    pub write_credit_count: u32,
    /// Bytes of the values of those writes.
    pub write_credit_bytes: u32,
    /// Interval of keep-alives for both ends, in whole milliseconds.
    pub keepalive: Duration,
    /// Silence after which either end considers the other dead, in whole milliseconds.
    pub deadline: Duration,
    /// The time of the engine's wall clock.
    pub wall: Timestamp,
    /// The engine's name for itself.
    pub engine_name: String,
    /// The engine's release.
    pub engine_version: String,
    /// The terms of throughput mode if the client asked for it; both ends then gather what they
    /// send.
    pub throughput: Option<Throughput>,
}

impl Default for Hello {
    /// This release with its default limits and no identity.
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
            throughput: None,
        }
    }
}

impl Hello {
    /// Appends the frame. Texts are truncated to 256 bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut frame = FrameWriter::begin(out, FrameKind::Hello, 0);
        let out = frame.payload();
        out.extend_from_slice(&MAGIC);
        put_u8(out, self.versions.min);
        put_u8(out, self.versions.max);
        put_number(out, 1, self.features.to_bits());
        put_text(out, 2, cut(&self.client_name));
        put_text(out, 3, cut(&self.program));
        put_text(out, 4, cut(&self.user));
        put_number(out, 5, u64::from(self.pid));
        put_number(out, 6, u64::from(self.frame_max));
        put_number(out, 7, u64::from(self.message_max));
        put_number(out, 8, u64::from(self.window_records));
        put_number(out, 9, u64::from(self.window_bytes));
        if let Some(resume) = self.resume {
            put_nested(out, 10, |out| {
                put_u64(out, resume.session);
                put_u64(out, resume.epoch);
                out.extend_from_slice(&resume.engine_id);
            });
        }
        put_throughput(out, self.throughput);
        frame.finish(false);
    }

    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the payload does not have the form drawn in the [module](self).
    pub fn decode(frame: &Frame<'_>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::Hello)?;
        read_magic(&mut payload)?;
        let versions = VersionRange {
            min: payload.u8()?,
            max: payload.u8()?,
        };
        let mut hello = Hello {
            versions,
            features: Features::NONE,
            ..Hello::default()
        };
        read_fields(&mut payload, |id, field| {
            match id {
                1 => hello.features = Features::from_bits(field.varint()?),
                2 => hello.client_name = text(field)?,
                3 => hello.program = text(field)?,
                4 => hello.user = text(field)?,
                5 => hello.pid = field.varint_u32("a process id")?,
                6 => hello.frame_max = field.varint_u32("a frame limit")?,
                7 => hello.message_max = field.varint_u32("a message limit")?,
                8 => hello.window_records = field.varint_u32("a window")?,
                9 => hello.window_bytes = field.varint_u32("a window")?,
                10 => {
                    hello.resume = Some(Resume {
                        session: field.u64()?,
                        epoch: field.u64()?,
                        engine_id: field.read(|reader| reader.array())?,
                    });
                }
                50 => hello.throughput = Some(throughput(field)?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(hello)
    }
}

impl Default for Welcome {
    /// This release with its default limits; the engine fills in epoch, session and identity.
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
            throughput: None,
        }
    }
}

impl Welcome {
    /// Appends the frame. Texts are truncated to 256 bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut frame = FrameWriter::begin(out, FrameKind::Welcome, 0);
        let out = frame.payload();
        out.extend_from_slice(&MAGIC);
        put_u8(out, self.version);
        put_number(out, 1, self.features.to_bits());
        put_number(out, 2, self.epoch);
        put_field(out, 3, &self.engine_id);
        put_number(out, 4, self.session);
        if self.resumed {
            put_field(out, 5, &[]);
        }
        put_number(out, 6, u64::from(self.frame_max));
        put_number(out, 7, u64::from(self.message_max));
        put_number(out, 8, u64::from(self.items_max));
        put_number(out, 9, u64::from(self.write_credit_count));
        put_number(out, 10, u64::from(self.write_credit_bytes));
        put_number(out, 11, u64::from(to_millis(self.keepalive)));
        put_number(out, 12, u64::from(to_millis(self.deadline)));
        put_fixed(out, 13, self.wall.as_nanos());
        put_text(out, 14, cut(&self.engine_name));
        put_text(out, 15, cut(&self.engine_version));
        put_throughput(out, self.throughput);
        frame.finish(false);
    }

    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the payload does not have the form drawn in the [module](self).
    pub fn decode(frame: &Frame<'_>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::Welcome)?;
        read_magic(&mut payload)?;
        let version = payload.u8()?;
        let mut welcome = Welcome {
            version,
            ..Welcome::default()
        };
        read_fields(&mut payload, |id, field| {
            match id {
                1 => welcome.features = Features::from_bits(field.varint()?),
                2 => welcome.epoch = field.varint()?,
                3 => welcome.engine_id = field.read(|reader| reader.array())?,
                4 => welcome.session = field.varint()?,
                5 => welcome.resumed = true,
                6 => welcome.frame_max = field.varint_u32("a frame limit")?,
                7 => welcome.message_max = field.varint_u32("a message limit")?,
                8 => welcome.items_max = field.varint_u32("an item limit")?,
                9 => welcome.write_credit_count = field.varint_u32("a write credit")?,
                10 => welcome.write_credit_bytes = field.varint_u32("a write credit")?,
                11 => welcome.keepalive = millis(field)?,
                12 => welcome.deadline = millis(field)?,
                13 => welcome.wall = Timestamp::from_nanos(field.i64()?),
                14 => welcome.engine_name = text(field)?,
                15 => welcome.engine_version = text(field)?,
                50 => welcome.throughput = Some(throughput(field)?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(welcome)
    }
}

pub(super) fn read_magic(payload: &mut Payload<'_>) -> Result<(), DecodeError> {
    let found = payload.u32()?;
    if found.to_le_bytes() == MAGIC {
        return Ok(());
    }
    Err(payload.unexpected("the letters TRNK", u64::from(found)))
}

fn put_throughput(out: &mut Vec<u8>, throughput: Option<Throughput>) {
    if let Some(Throughput { bytes, delay }) = throughput {
        put_nested(out, 50, |out| {
            put_varint(out, u64::from(bytes));
            put_varint(out, u64::try_from(delay.as_micros()).unwrap_or(u64::MAX));
        });
    }
}

fn throughput(field: &mut Payload<'_>) -> Result<Throughput, DecodeError> {
    Ok(Throughput {
        bytes: field.varint_u32("a number of bytes")?,
        delay: Duration::from_micros(field.varint()?),
    })
}

pub(super) fn text(field: &mut Payload<'_>) -> Result<String, DecodeError> {
    Ok(cut(field.whole_text()?).to_owned())
}

fn millis(field: &mut Payload<'_>) -> Result<Duration, DecodeError> {
    Ok(Duration::from_millis(u64::from(
        field.varint_u32("a time in ms")?,
    )))
}

/// Converts a duration to whole milliseconds, at most 49 days.
pub(crate) fn to_millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

/// Returns the longest prefix of `text` that fits and does not split a character.
pub(super) fn cut(text: &str) -> &str {
    crate::message::fault::cut_text(text, HELLO_TEXT_BYTES_MAX)
}
