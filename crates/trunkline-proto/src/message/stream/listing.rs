//! The state of the endpoints of a machine, as reported to its directory and listed by it.
//!
//! ```text
//! S_LIST       "TRNK" | version_min u8 | version_max u8 | fields:
//!                1 after this URL, text   2 this endpoint only, text
//! S_ENDPOINTS  fields: 1 an endpoint, repeats, as S_STATUS   2 more follow varint: 1
//! S_STATUS     fields:
//!                1 endpoint text       2 direction varint: 1 writes, 2 reads
//!                3 type text           4 capacity varint      5 in its buffer varint
//!                6 total varint        7 connected varint: 1  8 disconnections varint
//!                9 away_ms varint     10 why last text       11 peer text
//!               12 peer's program text 13 transport text     14 fault text
//!               15 program text       16 pid varint          17 stalled_ms varint
//!               18 rate varint
//! ```

use std::time::Duration;

use trunkline_types::wire::put_u8;

use super::hello::{URL_BYTES_MAX, url};
use super::seal::seal;
use crate::decode::Payload;
use crate::message::fault::cut_text;
use crate::message::hello::{MAGIC, cut, read_magic, text};
use crate::tlv::{put_nested, put_number, put_text, read_fields};
use crate::{DecodeError, Frame, FrameKind, FrameWriter, VersionRange};

/// Most endpoints of one S_ENDPOINTS.
pub const ENDPOINTS_PAGE_MAX: usize = 256;

/// Longest element type that is reported, in bytes; the rest is cut off.
pub const TYPE_SHOWN_BYTES_MAX: usize = 1024;

/// Asks for the endpoints that a directory knows, in the order of their URLs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndpointsQuery {
    /// The versions that the asking program speaks.
    pub versions: VersionRange,
    /// The last URL of the previous page; empty for the first page.
    pub after: String,
    /// URL of the only endpoint wanted; empty for all.
    pub only: String,
}

/// The state of an endpoint at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EndpointStatus {
    /// URL of the endpoint in canonical form.
    pub url: String,
    /// True for a writer, false for a reader, `None` if not reported yet.
    pub is_writer: Option<bool>,
    /// Type of its elements, as text.
    pub data_type: String,
    /// Number of elements that its buffer can hold.
    pub capacity: u64,
    /// Number of elements in its buffer.
    pub in_buffer: u64,
    /// Total number of elements written or read.
    pub total: u64,
    /// Elements per second over the recent past.
    pub rate: u64,
    /// True while the two ends are connected.
    pub is_connected: bool,
    /// Number of times that a connection was lost.
    pub disconnections: u64,
    /// Time since a connection was lost; `None` if there was none or the ends are connected.
    pub away_for: Option<Duration>,
    /// Time for which a writer's buffer has been full, or a reader's empty.
    pub stalled_for: Option<Duration>,
    /// The reason why the last connection ended or was not established.
    pub last_disconnect: String,
    /// URL of the peer.
    pub peer: String,
    /// The peer's program and release.
    pub peer_program: String,
    /// Transport of the connection.
    pub transport: String,
    /// The reason why the stream ended other than in order.
    pub fault: String,
    /// The endpoint's program and release.
    pub program: String,
    /// Process id of the program; 0 if unknown.
    pub pid: u32,
}

/// A page of endpoints.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EndpointsPage {
    /// The endpoints in the order of their URLs.
    pub endpoints: Vec<EndpointStatus>,
    /// True if there are more endpoints, which can be requested after the last one.
    pub has_more: bool,
}

impl EndpointsQuery {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let mut frame = FrameWriter::begin(out, FrameKind::StreamList, 0);
        frame.payload().extend_from_slice(&MAGIC);
        put_u8(frame.payload(), self.versions.min);
        put_u8(frame.payload(), self.versions.max);
        put_text(frame.payload(), 1, &self.after);
        put_text(frame.payload(), 2, &self.only);
        frame.finish(false);
        seal(out, start);
    }

    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the payload does not have the form drawn in the [module](self).
    pub fn decode(frame: &Frame<'_>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::StreamList)?;
        read_magic(&mut payload)?;
        let mut query = Self {
            versions: VersionRange {
                min: payload.u8()?,
                max: payload.u8()?,
            },
            after: String::new(),
            only: String::new(),
        };
        read_fields(&mut payload, |id, field| {
            match id {
                1 => query.after = url(field)?,
                2 => query.only = url(field)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(query)
    }
}

impl EndpointsPage {
    /// Appends the frame with at most [`ENDPOINTS_PAGE_MAX`] of the endpoints.
    pub fn encode(&self, request: u32, out: &mut Vec<u8>) {
        let mut frame = FrameWriter::begin(out, FrameKind::StreamEndpoints, request);
        for endpoint in self.endpoints.iter().take(ENDPOINTS_PAGE_MAX) {
            put_nested(frame.payload(), 1, |out| endpoint.put(out));
        }
        if self.has_more {
            put_number(frame.payload(), 2, 1);
        }
        frame.finish(false);
    }

    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the payload does not have the form drawn in the [module](self), or has
    /// more endpoints than a page may have.
    pub fn decode(frame: &Frame<'_>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::StreamEndpoints)?;
        let mut page = Self::default();
        read_fields(&mut payload, |id, field| {
            match id {
                1 if page.endpoints.len() >= ENDPOINTS_PAGE_MAX => {
                    let found = (page.endpoints.len() as u64).saturating_add(1);
                    return Err(field.unexpected("at most 256 endpoints", found));
                }
                1 => page.endpoints.push(EndpointStatus::read(field)?),
                2 => page.has_more = field.varint()? != 0,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(page)
    }
}

impl EndpointStatus {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut frame = FrameWriter::begin(out, FrameKind::StreamStatus, 0);
        self.put(frame.payload());
        frame.finish(false);
    }

    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the payload does not have the form drawn in the [module](self).
    pub fn decode(frame: &Frame<'_>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::StreamStatus)?;
        Self::read(&mut payload)
    }

    fn put(&self, out: &mut Vec<u8>) {
        let number = |out: &mut Vec<u8>, id, number| {
            if number > 0 {
                put_number(out, id, number);
            }
        };
        put_text(out, 1, cut_text(&self.url, URL_BYTES_MAX));
        let direction = self
            .is_writer
            .map_or(0, |writes| if writes { 1 } else { 2 });
        number(out, 2, direction);
        put_text(out, 3, cut_text(&self.data_type, TYPE_SHOWN_BYTES_MAX));
        number(out, 4, self.capacity);
        number(out, 5, self.in_buffer);
        number(out, 6, self.total);
        number(out, 7, u64::from(self.is_connected));
        number(out, 8, self.disconnections);
        if let Some(away_for) = self.away_for {
            put_number(out, 9, millis(away_for));
        }
        put_text(out, 10, cut(&self.last_disconnect));
        put_text(out, 11, cut_text(&self.peer, URL_BYTES_MAX));
        put_text(out, 12, cut(&self.peer_program));
        put_text(out, 13, cut(&self.transport));
        put_text(out, 14, cut(&self.fault));
        put_text(out, 15, cut(&self.program));
        number(out, 16, u64::from(self.pid));
        if let Some(stalled_for) = self.stalled_for {
            put_number(out, 17, millis(stalled_for));
        }
        number(out, 18, self.rate);
    }

    fn read(payload: &mut Payload<'_>) -> Result<Self, DecodeError> {
        let mut status = Self::default();
        read_fields(payload, |id, field| {
            match id {
                1 => status.url = url(field)?,
                2 => {
                    status.is_writer = match field.varint()? {
                        1 => Some(true),
                        2 => Some(false),
                        // A direction unknown to this version.
                        _ => None,
                    };
                }
                3 => {
                    let shown = field.whole_text()?;
                    status.data_type = cut_text(shown, TYPE_SHOWN_BYTES_MAX).to_owned();
                }
                4 => status.capacity = field.varint()?,
                5 => status.in_buffer = field.varint()?,
                6 => status.total = field.varint()?,
                7 => status.is_connected = field.varint()? != 0,
                8 => status.disconnections = field.varint()?,
                9 => status.away_for = Some(Duration::from_millis(field.varint()?)),
                10 => status.last_disconnect = text(field)?,
                11 => status.peer = url(field)?,
                12 => status.peer_program = text(field)?,
                13 => status.transport = text(field)?,
                14 => status.fault = text(field)?,
                15 => status.program = text(field)?,
                16 => status.pid = field.varint_u32("a process id")?,
                17 => status.stalled_for = Some(Duration::from_millis(field.varint()?)),
                18 => status.rate = field.varint()?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(status)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
