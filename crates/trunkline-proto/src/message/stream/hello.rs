//! S_HELLO and S_WELCOME: the identities of the two endpoints of a stream, and their progress.
//!
//! ```text
//! S_HELLO    "TRNK" | version_min u8 | version_max u8 | fields: as below, and
//!             20 peer incarnation 16 bytes    21 attempt varint    22 ticket 16 bytes
//!             23 share 32 bytes               24 proof 32 bytes
//! S_WELCOME  "TRNK" | version u8 | fields:
//!              1 features varint   2 incarnation 16 bytes  3 endpoint text   4 peer text
//!              5 type              6 capacity varint       7 bytes_max varint
//!              8 journal (empty)   9 program text
//!             10 writer: kept varint, kept_elements varint, written varint
//!             11 reader: arrived varint, arrived_elements varint, read varint, durable varint,
//!                credit_bytes varint, credit_elements varint
//!             12 reader: lost varint
//!             23 share 32 bytes    24 proof 32 bytes
//! ```
//!
//! Exactly one of the fields 10 and 11 is present.

use trunkline_types::DataType;
use trunkline_types::wire::{decode_type, encode_type, put_u8, put_varint};

use super::POSITION_MAX;
use super::seal::seal;
use crate::decode::Payload;
use crate::message::hello::{MAGIC, cut, read_magic, text};
use crate::stream::Secret;
use crate::tlv::{put_field, put_nested, put_number, put_text, read_fields};
use crate::{DecodeError, Features, Frame, FrameKind, FrameWriter, PROTOCOL_VERSION, VersionRange};

/// One life of an endpoint: 128 bits, random each time it is created.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Incarnation(pub [u8; 16]);

/// An endpoint's description of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamEnd {
    /// The endpoint's features; S_WELCOME has `SHARED_RING` only if both endpoints agree to it.
    pub features: Features,
    /// The life of the endpoint.
    pub incarnation: Incarnation,
    /// URL of the endpoint in canonical form, at most 1024 bytes.
    pub url: String,
    /// URL that it expects its peer to have; empty if it names none.
    pub peer_url: String,
    /// Type of its elements.
    pub data_type: DataType,
    /// Number of elements that its buffer can hold.
    pub capacity: u64,
    /// Number of bytes that its buffer can hold.
    pub bytes_max: u64,
    /// True if the endpoint has a journal on disk, from which its next life continues.
    pub has_journal: bool,
    /// Its program and release, shown to people.
    pub program: String,
    /// Its progress, as a writer or as a reader.
    pub state: EndState,
}

/// The progress of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndState {
    /// The endpoint writes.
    Writer(WriterState),
    /// The endpoint reads.
    Reader(ReaderState),
}

/// The progress of a writer. Positions are in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriterState {
    /// The writer has all bytes from here on. The position is the start of an element.
    pub kept: u64,
    /// Number of elements before `kept`.
    pub kept_elements: u64,
    /// The writer's program has written up to here.
    pub written: u64,
}

/// The progress of a reader. Positions are in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReaderState {
    /// Everything before this position has arrived.
    pub arrived: u64,
    /// Number of whole elements before `arrived`.
    pub arrived_elements: u64,
    /// The reader's program has read up to here.
    pub read: u64,
    /// Everything before this position is on disk.
    pub durable: u64,
    /// The writer may send up to here.
    pub credit_bytes: u64,
    /// The writer may not send the element with this number or any later one.
    pub credit_elements: u64,
    /// Number of elements that the writer has dropped, as far as the reader knows.
    pub lost: u64,
}

/// The first message of the endpoint that dials.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamHello {
    /// The versions that it speaks.
    pub versions: VersionRange,
    /// The endpoint itself.
    pub end: StreamEnd,
    /// The life of the peer to which it was connected before; `None` at first.
    pub peer: Option<Incarnation>,
    /// Number of its dials, so that a delayed dial does not replace a later one.
    pub attempt: u64,
    /// The ticket from the directory; `None` if it dialled the endpoint directly.
    pub ticket: Option<[u8; 16]>,
    /// Its part of the secret of the pair, if the two have not met before.
    pub share: Option<Secret>,
    /// Proof that it is the endpoint to which the other one was connected.
    pub proof: Option<Secret>,
}

/// The other endpoint's acceptance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamWelcome {
    /// The version in use from here on.
    pub version: u8,
    /// The endpoint itself.
    pub end: StreamEnd,
    /// Its part of the secret of the pair, if the two meet for the first time.
    pub share: Option<Secret>,
    /// Proof that it is the endpoint to which the other one was connected.
    pub proof: Option<Secret>,
}

/// Longest URL of an endpoint in these frames, in bytes.
pub const URL_BYTES_MAX: usize = 1024;

impl StreamHello {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let mut frame = FrameWriter::begin(out, FrameKind::StreamHello, 0);
        let payload = frame.payload();
        payload.extend_from_slice(&MAGIC);
        put_u8(payload, self.versions.min);
        put_u8(payload, self.versions.max);
        self.end.put(payload);
        if let Some(peer) = self.peer {
            put_field(payload, 20, &peer.0);
        }
        put_number(payload, 21, self.attempt);
        if let Some(ticket) = &self.ticket {
            put_field(payload, 22, ticket);
        }
        put_secrets(payload, &self.share, &self.proof);
        frame.finish(false);
        seal(out, start);
    }

    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the payload does not have the form drawn in the [module](self).
    pub fn decode(frame: &Frame<'_>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::StreamHello)?;
        read_magic(&mut payload)?;
        let versions = VersionRange {
            min: payload.u8()?,
            max: payload.u8()?,
        };
        let (mut peer, mut attempt, mut ticket) = (None, 0, None);
        let (mut share, mut proof) = (None, None);
        let end = StreamEnd::read(&mut payload, |id, field| {
            match id {
                20 => peer = Some(Incarnation(field.read(|reader| reader.array())?)),
                21 => attempt = field.varint()?,
                22 => ticket = Some(field.read(|reader| reader.array())?),
                23 => share = Some(secret(field)?),
                24 => proof = Some(secret(field)?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(Self {
            versions,
            end,
            peer,
            attempt,
            ticket,
            share,
            proof,
        })
    }
}

impl StreamWelcome {
    /// Creates the welcome of this endpoint.
    pub fn new(end: StreamEnd) -> Self {
        Self {
            version: PROTOCOL_VERSION,
            end,
            share: None,
            proof: None,
        }
    }

    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let mut frame = FrameWriter::begin(out, FrameKind::StreamWelcome, 0);
        let payload = frame.payload();
        payload.extend_from_slice(&MAGIC);
        put_u8(payload, self.version);
        self.end.put(payload);
        put_secrets(payload, &self.share, &self.proof);
        frame.finish(false);
        seal(out, start);
    }

    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the payload does not have the form drawn in the [module](self).
    pub fn decode(frame: &Frame<'_>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::StreamWelcome)?;
        read_magic(&mut payload)?;
        let version = payload.u8()?;
        let (mut share, mut proof) = (None, None);
        let end = StreamEnd::read(&mut payload, |id, field| {
            match id {
                23 => share = Some(secret(field)?),
                24 => proof = Some(secret(field)?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(Self {
            version,
            end,
            share,
            proof,
        })
    }
}

fn put_secrets(out: &mut Vec<u8>, share: &Option<Secret>, proof: &Option<Secret>) {
    for (id, secret) in [(23, share), (24, proof)] {
        if let Some(secret) = secret {
            put_field(out, id, &secret.0);
        }
    }
}

fn secret(field: &mut Payload<'_>) -> Result<Secret, DecodeError> {
    Ok(Secret(field.read(|reader| reader.array())?))
}

impl StreamEnd {
    fn put(&self, out: &mut Vec<u8>) {
        put_number(out, 1, self.features.to_bits());
        put_field(out, 2, &self.incarnation.0);
        put_text(out, 3, &self.url);
        put_text(out, 4, &self.peer_url);
        put_nested(out, 5, |out| encode_type(&self.data_type, out));
        put_number(out, 6, self.capacity);
        put_number(out, 7, self.bytes_max);
        if self.has_journal {
            put_field(out, 8, &[]);
        }
        put_text(out, 9, cut(&self.program));
        let (id, numbers) = match self.state {
            EndState::Writer(at) => (10, vec![at.kept, at.kept_elements, at.written]),
            EndState::Reader(at) => (
                11,
                vec![
                    at.arrived,
                    at.arrived_elements,
                    at.read,
                    at.durable,
                    at.credit_bytes,
                    at.credit_elements,
                ],
            ),
        };
        put_nested(out, id, |out| {
            numbers.iter().for_each(|number| put_varint(out, *number));
        });
        match self.state {
            EndState::Reader(at) if at.lost > 0 => put_number(out, 12, at.lost),
            _ => {}
        }
    }

    /// Reads the fields; passes those that are not in this list to `other`.
    fn read<'a>(
        payload: &mut Payload<'a>,
        mut other: impl FnMut(u64, &mut Payload<'a>) -> Result<bool, DecodeError>,
    ) -> Result<Self, DecodeError> {
        let mut end = StreamEnd {
            features: Features::NONE,
            incarnation: Incarnation::default(),
            url: String::new(),
            peer_url: String::new(),
            data_type: DataType::F64,
            capacity: 0,
            bytes_max: 0,
            has_journal: false,
            program: String::new(),
            state: EndState::Writer(WriterState::default()),
        };
        let (mut has_type, mut states, mut lost) = (false, 0_u64, 0);
        read_fields(payload, |id, field| {
            match id {
                1 => end.features = Features::from_bits(field.varint()?),
                2 => end.incarnation = Incarnation(field.read(|reader| reader.array())?),
                3 => end.url = url(field)?,
                4 => end.peer_url = url(field)?,
                5 => {
                    end.data_type = field.read(decode_type)?;
                    has_type = true;
                }
                6 => end.capacity = field.varint()?,
                7 => end.bytes_max = position(field)?,
                8 => end.has_journal = true,
                9 => end.program = text(field)?,
                10 => {
                    states = states.saturating_add(1);
                    end.state = EndState::Writer(WriterState {
                        kept: position(field)?,
                        kept_elements: position(field)?,
                        written: position(field)?,
                    });
                }
                11 => {
                    states = states.saturating_add(1);
                    end.state = EndState::Reader(ReaderState {
                        arrived: position(field)?,
                        arrived_elements: position(field)?,
                        read: position(field)?,
                        durable: position(field)?,
                        credit_bytes: position(field)?,
                        credit_elements: field.varint()?,
                        lost: 0,
                    });
                }
                12 => lost = position(field)?,
                _ => return other(id, field),
            }
            Ok(true)
        })?;
        if !has_type {
            return Err(payload.unexpected("the type of the elements", 0));
        }
        if let EndState::Reader(at) = &mut end.state {
            at.lost = lost;
        }
        if states != 1 {
            return Err(payload.unexpected("the state of one writer or one reader", states));
        }
        Ok(end)
    }
}

pub(super) fn url(field: &mut Payload<'_>) -> Result<String, DecodeError> {
    let url = field.whole_text()?;
    if url.len() > URL_BYTES_MAX {
        return Err(field.unexpected("a URL of at most 1024 bytes", url.len() as u64));
    }
    Ok(url.to_owned())
}

/// Reads a position, or a number that is added to one.
pub(super) fn position(field: &mut Payload<'_>) -> Result<u64, DecodeError> {
    match field.varint()? {
        position if position <= POSITION_MAX => Ok(position),
        nonsense => Err(field.unexpected("a position of at most 2^62", nonsense)),
    }
}
