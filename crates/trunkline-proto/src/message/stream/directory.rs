//! The frames between an endpoint and the directory, which knows where endpoints are.
//!
//! ```text
//! S_LOOKUP      "TRNK" | version_min u8 | version_max u8 | fields:
//!                 1 endpoint text   2 incarnation of who asks 16 bytes   3 program text
//! S_TICKET      ticket 16 bytes | valid_ms u32
//! S_REGISTER    "TRNK" | version_min u8 | version_max u8 | fields:
//!                 1 endpoint text   2 its incarnation 16 bytes           3 program text
//!                 4 pid varint
//! S_REGISTERED  lease_ms u32 | endpoint text
//! S_ARRIVED     ticket 16 bytes | what has been read of the connection
//! ```
//!
//! S_LOOKUP, S_TICKET and S_REGISTER carry [checksums](super::seal): an endpoint requested under an
//! altered name would be waited for indefinitely.

use std::time::Duration;

use trunkline_types::wire::{put_str, put_u8, put_u32};

use super::Incarnation;
use super::hello::{URL_BYTES_MAX, url};
use super::seal::seal;
use crate::decode::Payload;
use crate::message::hello::{MAGIC, cut, read_magic, text, to_millis};
use crate::tlv::{put_field, put_number, put_text, read_fields};
use crate::{DecodeError, Frame, FrameKind, FrameWriter, VersionRange};

/// A one-time permission to connect to an endpoint.
pub type Ticket = [u8; 16];

/// Asks for an endpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lookup {
    /// The versions that the asking program speaks.
    pub versions: VersionRange,
    /// URL of the requested endpoint, in canonical form.
    pub url: String,
    /// The incarnation of the asking endpoint.
    pub incarnation: Incarnation,
    /// The asking program and its release, shown to people.
    pub program: String,
}

/// The answer to S_LOOKUP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TicketGrant {
    /// The ticket to present in S_HELLO.
    pub ticket: Ticket,
    /// Time for which the ticket is valid, in whole milliseconds.
    pub valid_for: Duration,
}

/// Registers the name of an endpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Register {
    /// The versions that the endpoint's program speaks.
    pub versions: VersionRange,
    /// URL of the endpoint, in canonical form.
    pub url: String,
    /// The incarnation of the endpoint.
    pub incarnation: Incarnation,
    /// The endpoint's program and its release, shown to people.
    pub program: String,
    /// Process id of the program; 0 if unknown.
    pub pid: u32,
}

/// The name is registered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Registered {
    /// Silence after which the name is free again, in whole milliseconds.
    pub lease: Duration,
    /// The URL under which others find the endpoint.
    pub url: String,
}

/// An endpoint has presented a ticket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrived<'a> {
    /// The presented ticket.
    pub ticket: Ticket,
    /// The bytes already read from the connection, starting with S_HELLO.
    pub bytes: &'a [u8],
}

impl Lookup {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let mut frame = FrameWriter::begin(out, FrameKind::StreamLookup, 0);
        put_who(frame.payload(), self.versions, &self.url, self.incarnation);
        put_text(frame.payload(), 3, cut(&self.program));
        frame.finish(false);
        seal(out, start);
    }

    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the payload does not have the form drawn in the [module](self).
    pub fn decode(frame: &Frame<'_>) -> Result<Self, DecodeError> {
        let register = Register::read(frame, FrameKind::StreamLookup)?;
        let Register {
            versions,
            url,
            incarnation,
            program,
            ..
        } = register;
        Ok(Self {
            versions,
            url,
            incarnation,
            program,
        })
    }
}

impl Register {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let mut frame = FrameWriter::begin(out, FrameKind::StreamRegister, 0);
        put_who(frame.payload(), self.versions, &self.url, self.incarnation);
        put_text(frame.payload(), 3, cut(&self.program));
        put_number(frame.payload(), 4, u64::from(self.pid));
        frame.finish(false);
        seal(out, start);
    }

    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the payload does not have the form drawn in the [module](self).
    pub fn decode(frame: &Frame<'_>) -> Result<Self, DecodeError> {
        Self::read(frame, FrameKind::StreamRegister)
    }

    fn read(frame: &Frame<'_>, kind: FrameKind) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, kind)?;
        read_magic(&mut payload)?;
        let mut register = Self {
            versions: VersionRange {
                min: payload.u8()?,
                max: payload.u8()?,
            },
            url: String::new(),
            incarnation: Incarnation::default(),
            program: String::new(),
            pid: 0,
        };
        read_fields(&mut payload, |id, field| {
            match id {
                1 => register.url = url(field)?,
                2 => register.incarnation = Incarnation(field.read(|reader| reader.array())?),
                3 => register.program = text(field)?,
                4 if kind == FrameKind::StreamRegister => {
                    register.pid = field.varint_u32("a process id")?;
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(register)
    }
}

impl TicketGrant {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let mut frame = FrameWriter::begin(out, FrameKind::StreamTicket, 0);
        frame.payload().extend_from_slice(&self.ticket);
        put_u32(frame.payload(), to_millis(self.valid_for));
        frame.finish(false);
        seal(out, start);
    }

    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the payload does not have the form drawn in the [module](self).
    pub fn decode(frame: &Frame<'_>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::StreamTicket)?;
        let grant = Self {
            ticket: payload.read(|reader| reader.array())?,
            valid_for: Duration::from_millis(u64::from(payload.u32()?)),
        };
        payload.finish()?;
        Ok(grant)
    }
}

impl Registered {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut frame = FrameWriter::begin(out, FrameKind::StreamRegistered, 0);
        put_u32(frame.payload(), to_millis(self.lease));
        put_str(frame.payload(), &self.url);
        frame.finish(false);
    }

    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the payload does not have the form drawn in the [module](self).
    pub fn decode(frame: &Frame<'_>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::StreamRegistered)?;
        let registered = Self {
            lease: Duration::from_millis(u64::from(payload.u32()?)),
            url: payload.text(URL_BYTES_MAX)?.to_owned(),
        };
        payload.finish()?;
        Ok(registered)
    }
}

impl<'a> Arrived<'a> {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut frame = FrameWriter::begin(out, FrameKind::StreamArrived, 0);
        frame.payload().extend_from_slice(&self.ticket);
        frame.payload().extend_from_slice(self.bytes);
        frame.finish(false);
    }

    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the payload does not have the form drawn in the [module](self).
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::StreamArrived)?;
        Ok(Self {
            ticket: payload.read(|reader| reader.array())?,
            bytes: payload.rest(),
        })
    }
}

fn put_who(out: &mut Vec<u8>, versions: VersionRange, url: &str, incarnation: Incarnation) {
    out.extend_from_slice(&MAGIC);
    put_u8(out, versions.min);
    put_u8(out, versions.max);
    put_text(out, 1, url);
    put_field(out, 2, &incarnation.0);
}
