//! S_HELLO and S_WELCOME: the identities of the two endpoints of a stream, and their progress.
//!
//! Exactly one of the fields 10 and 11 is present.

use trunkline_types::DataType;

use super::VarintPosition;
use super::seal::seal;
use crate::decode::Payload;
use crate::message::fault::cut_text;
use crate::message::fields::{Always, IfSet, Mark, Maybe, fields};
use crate::message::form::{Elsewhere, Fixed, Flat, Form, Inner, Varint, WholeType, forms, mapped};
use crate::message::hello::{Brief, FeatureBits, MagicThen};
use crate::message::layout::{FieldValue, FrameContext, Record, record};
use crate::stream::Secret;
use crate::{DecodeError, Features, Frame, FrameKind, FrameWriter, PROTOCOL_VERSION, VersionRange};

/// Identifies one incarnation of an endpoint: 128 random bits, chosen each time the endpoint is
/// created. With a journal, the last 64 bits remain the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Incarnation(pub [u8; 16]);

/// An endpoint's description of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamEnd {
    /// The endpoint's features; S_WELCOME has `SHARED_RING` only if both endpoints agree to it.
    pub features: Features,
    pub incarnation: Incarnation,
    /// URL of the endpoint in canonical form, at most 1024 bytes.
    pub url: String,
    /// Expected URL of the peer; empty if any peer is accepted.
    pub peer_url: String,
    pub data_type: DataType,
    /// Number of elements that the endpoint's buffer can hold.
    pub capacity: u64,
    /// Number of bytes that the endpoint's buffer can hold.
    pub bytes_max: u64,
    /// True if the endpoint has a journal on disk, from which its next incarnation continues.
    pub has_journal: bool,
    /// Program and version of the endpoint, shown to users.
    pub program: String,
    pub state: EndState,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndState {
    Writer(WriterState),
    Reader(ReaderState),
}

record! {
    /// The progress of a writer; positions are in bytes.
    #[derive(Copy, Eq, Default)]
    pub struct WriterState {
        /// The writer has all bytes from here on. The position is the start of an element.
        pub kept: u64 = VarintPosition,
        pub kept_elements: u64 = VarintPosition,
        /// The writer's program has written up to here.
        pub written: u64 = VarintPosition,
    }
}

record! {
    /// The progress of a reader; positions are in bytes.
    #[derive(Copy, Eq, Default)]
    pub struct ReaderState {
        /// Everything before this position has arrived.
        pub arrived: u64 = VarintPosition,
        pub arrived_elements: u64 = VarintPosition,
        /// The reader's program has read up to here.
        pub read: u64 = VarintPosition,
        /// Everything before this position is on disk.
        pub durable: u64 = VarintPosition,
        /// The writer may send up to here.
        pub credit_bytes: u64 = VarintPosition,
        /// The writer may not send the element with this number or any later one.
        pub credit_elements: u64 = Varint,
        /// Number of dropped elements that the writer has reported to the reader.
        pub lost: u64 = Elsewhere,
    }
}

/// The first message of the endpoint that dials.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamHello {
    pub versions: VersionRange,
    pub end: StreamEnd,
    /// The incarnation of the previous peer; `None` if there was none.
    pub peer: Option<Incarnation>,
    /// Number of dials so far, so that a delayed hello does not replace a later one.
    pub attempt: u64,
    /// The ticket from the directory; `None` if the endpoint was dialled without the directory.
    pub ticket: Option<[u8; 16]>,
    /// The sender's share of the pair's secret, if the two endpoints have not connected before.
    pub share: Option<Secret>,
    /// Proof that the sender is the previous peer of the receiver.
    pub proof: Option<Secret>,
}

/// The acceptance by the dialled endpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamWelcome {
    pub version: u8,
    pub end: StreamEnd,
    /// The sender's share of the pair's secret, if the two endpoints connect for the first time.
    pub share: Option<Secret>,
    /// Proof that the sender is the previous peer of the receiver.
    pub proof: Option<Secret>,
}

/// Longest URL of an endpoint in these frames, in bytes.
pub const URL_BYTES_MAX: usize = 1024;

fields! {
    #[derive(Default)]
    struct Fields {
        1: pub features: Features = Always<FeatureBits>,
        2: pub incarnation: Incarnation = Always<IncarnationBytes>,
        3: pub url: String = IfSet<Url>,
        4: pub peer_url: String = IfSet<Url>,
        5: pub data_type: Option<DataType> = Maybe<WholeType>,
        6: pub capacity: u64 = Always<Varint>,
        7: pub bytes_max: u64 = Always<VarintPosition>,
        8: pub has_journal: bool = Mark,
        9: pub program: String = IfSet<Brief>,
        10: pub writer: Option<WriterState> = Maybe<Inner>,
        11: pub reader: Option<ReaderState> = Maybe<Inner>,
        12: pub lost: u64 = IfSet<VarintPosition>,
        20: pub peer: Option<Incarnation> = Maybe<IncarnationBytes>,
        21: pub attempt: Option<u64> = Maybe<Varint>,
        22: pub ticket: Option<[u8; 16]> = Maybe<Fixed>,
        23: pub share: Option<Secret> = Maybe<SecretBytes>,
        24: pub proof: Option<Secret> = Maybe<SecretBytes>,
    }
}

impl Fields {
    fn of(end: &StreamEnd) -> Self {
        let mut fields = Self {
            features: end.features,
            incarnation: end.incarnation,
            url: end.url.clone(),
            peer_url: end.peer_url.clone(),
            data_type: Some(end.data_type.clone()),
            capacity: end.capacity,
            bytes_max: end.bytes_max,
            has_journal: end.has_journal,
            program: end.program.clone(),
            ..Self::default()
        };
        match end.state {
            EndState::Writer(at) => fields.writer = Some(at),
            EndState::Reader(at) => (fields.reader, fields.lost) = (Some(at), at.lost),
        }
        fields
    }

    fn into_end(self, payload: &Payload<'_>) -> Result<StreamEnd, DecodeError> {
        let no_type = payload.unexpected("the type of the elements", 0);
        let state = match (self.writer, self.reader) {
            (Some(at), None) => EndState::Writer(at),
            (None, Some(at)) => EndState::Reader(ReaderState {
                lost: self.lost,
                ..at
            }),
            (writer, _) => {
                let found = if writer.is_some() { 2 } else { 0 };
                return Err(payload.unexpected("the state of one writer or one reader", found));
            }
        };
        Ok(StreamEnd {
            features: self.features,
            incarnation: self.incarnation,
            url: self.url,
            peer_url: self.peer_url,
            data_type: self.data_type.ok_or(no_type)?,
            capacity: self.capacity,
            bytes_max: self.bytes_max,
            has_journal: self.has_journal,
            program: self.program,
            state,
        })
    }
}

impl StreamHello {
    pub fn encode(&self, out: &mut Vec<u8>) {
        let fields = Fields {
            peer: self.peer,
            attempt: Some(self.attempt),
            ticket: self.ticket,
            share: self.share,
            proof: self.proof,
            ..Fields::of(&self.end)
        };
        encode::<_, Flat>(FrameKind::StreamHello, &self.versions, &fields, out);
    }

    pub fn decode(frame: &Frame<'_>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::StreamHello)?;
        let versions = MagicThen::<Flat>::read(&mut FrameContext::default(), &mut payload)?;
        let fields = Fields::read(&mut FrameContext::default(), &mut payload)?;
        Ok(Self {
            versions,
            peer: fields.peer,
            attempt: fields.attempt.unwrap_or(0),
            ticket: fields.ticket,
            share: fields.share,
            proof: fields.proof,
            end: fields.into_end(&payload)?,
        })
    }
}

impl StreamWelcome {
    pub fn new(end: StreamEnd) -> Self {
        Self {
            version: PROTOCOL_VERSION,
            end,
            share: None,
            proof: None,
        }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        let fields = Fields {
            share: self.share,
            proof: self.proof,
            ..Fields::of(&self.end)
        };
        encode::<_, Fixed>(FrameKind::StreamWelcome, &self.version, &fields, out);
    }

    pub fn decode(frame: &Frame<'_>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::StreamWelcome)?;
        let version = MagicThen::<Fixed>::read(&mut FrameContext::default(), &mut payload)?;
        let fields = Fields::read(&mut FrameContext::default(), &mut payload)?;
        Ok(Self {
            version,
            share: fields.share,
            proof: fields.proof,
            end: fields.into_end(&payload)?,
        })
    }
}

fn encode<'a, T, F: Form<'a, T>>(kind: FrameKind, first: &T, fields: &Fields, out: &mut Vec<u8>) {
    let start = out.len();
    let mut frame = FrameWriter::begin(out, kind, 0);
    MagicThen::<F>::put(first, &mut FrameContext::default(), frame.payload());
    fields.put(&mut FrameContext::default(), frame.payload());
    frame.finish(false);
    seal(out, start);
}

/// An incarnation, 16 bytes.
#[derive(Debug)]
pub enum IncarnationBytes {}
#[derive(Debug)]
pub enum SecretBytes {}
/// A URL, up to the end of the field.
#[derive(Debug)]
pub enum Url {}

mapped! {
    IncarnationBytes: Incarnation = Fixed: [u8; 16], |incarnation| incarnation.0, Incarnation;
    SecretBytes: Secret = Fixed: [u8; 32], |secret| secret.0, Secret;
}

forms! {
    Url: String, 0,
        |out, url, _| out.extend_from_slice(cut_text(url, URL_BYTES_MAX).as_bytes()),
        |field, _| match field.rest_text()? {
            url if url.len() <= URL_BYTES_MAX => Ok(url.to_owned()),
            url => Err(field.unexpected("a URL of at most 1024 bytes", url.len() as u64)),
        },
        |url, name, to| to.field(name, FieldValue::Text(url)),
        |source, _| source.text().to_owned();
}
