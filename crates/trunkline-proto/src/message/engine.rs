//! ENGINE and ENGINE_ANSWER: information about the engine itself.
//!
//! ```text
//! ENGINE         nothing
//! ENGINE_ANSWER  fields
//!     1 name text       2 version text     3 epoch varint      4 uptime_ns varint   5 pid varint
//!     6 variables varint                   7 sessions varint   8 host text          9 started i64
//!    10 library (repeats): name text | state text | variables varint | description text
//! ```

use std::time::Duration;

use trunkline_types::Timestamp;
use trunkline_types::time::duration_nanos;
use trunkline_types::wire::{put_str, put_varint};

use crate::decode::Payload;
use crate::limits::ENGINE_LIBRARIES_MAX;
use crate::tlv::{put_field, put_fixed, put_number, put_text, read_fields};
use crate::{DecodeError, Frame, FrameKind, FrameWriter};

/// An engine's description of itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EngineInfo {
    /// The configured name of the engine.
    pub name: String,
    /// The release of its program.
    pub version: String,
    /// The current epoch.
    pub epoch: u64,
    /// Time since the engine was started.
    pub uptime: Duration,
    /// Its process id; 0 if unknown.
    pub pid: u32,
    /// Number of deployed variables that are reachable over the network.
    pub variables: u64,
    /// Number of connected sessions.
    pub sessions: u64,
    /// The name of its machine.
    pub host: String,
    /// Start time, by the engine's wall clock.
    pub started: Timestamp,
    /// The libraries, at most 1,024.
    pub libraries: Vec<LibraryInfo>,
}

/// A summary of a library.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LibraryInfo {
    /// The library's name.
    pub name: String,
    /// The state: `running`, `stopped`, ...
    pub state: String,
    /// Number of variables in it.
    pub variables: u64,
    /// The description, for people.
    pub description: String,
}

/// Appends an ENGINE frame.
pub fn encode_engine_request(request: u32, out: &mut Vec<u8>) {
    FrameWriter::begin(out, FrameKind::Engine, request).finish(false);
}

/// Reads an ENGINE frame.
///
/// # Errors
/// [`DecodeError`] if the payload is not empty.
pub fn decode_engine_request(frame: &Frame<'_>) -> Result<(), DecodeError> {
    Payload::of(frame, FrameKind::Engine)?.finish()
}

impl EngineInfo {
    /// Appends the frame.
    pub fn encode(&self, request: u32, out: &mut Vec<u8>) {
        let mut frame = FrameWriter::begin(out, FrameKind::EngineAnswer, request);
        let out = frame.payload();
        put_text(out, 1, &self.name);
        put_text(out, 2, &self.version);
        put_number(out, 3, self.epoch);
        put_number(out, 4, duration_nanos(self.uptime));
        put_number(out, 5, u64::from(self.pid));
        put_number(out, 6, self.variables);
        put_number(out, 7, self.sessions);
        put_text(out, 8, &self.host);
        put_fixed(out, 9, self.started.as_nanos());
        let mut entry = Vec::new();
        for library in self.libraries.iter().take(ENGINE_LIBRARIES_MAX) {
            entry.clear();
            put_str(&mut entry, &library.name);
            put_str(&mut entry, &library.state);
            put_varint(&mut entry, library.variables);
            put_str(&mut entry, &library.description);
            put_field(out, 10, &entry);
        }
        frame.finish(false);
    }

    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the payload does not have the form drawn in the [module](self).
    pub fn decode(frame: &Frame<'_>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::EngineAnswer)?;
        let mut info = Self::default();
        read_fields(&mut payload, |id, field| {
            match id {
                1 => info.name = field.whole_text()?.to_owned(),
                2 => info.version = field.whole_text()?.to_owned(),
                3 => info.epoch = field.varint()?,
                4 => info.uptime = Duration::from_nanos(field.varint()?),
                5 => info.pid = field.varint_u32("a process id")?,
                6 => info.variables = field.varint()?,
                7 => info.sessions = field.varint()?,
                8 => info.host = field.whole_text()?.to_owned(),
                9 => info.started = Timestamp::from_nanos(field.i64()?),
                10 if info.libraries.len() == ENGINE_LIBRARIES_MAX => {
                    return Err(field.unexpected("at most 1024 libraries", 1025));
                }
                10 => info.libraries.push(LibraryInfo {
                    name: field.text(usize::MAX)?.to_owned(),
                    state: field.text(usize::MAX)?.to_owned(),
                    variables: field.varint()?,
                    description: field.text(usize::MAX)?.to_owned(),
                }),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(info)
    }
}
