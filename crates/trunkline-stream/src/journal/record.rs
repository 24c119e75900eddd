//! Encodes and decodes the files of a journal. docs/reference/stream-journal.md specifies the format;
//! all numbers are little-endian.

use trunkline_proto::stream::{Pair, Secret, StreamClose};

/// The part of an incarnation that stays the same when the endpoint is created again. The other part
/// is new each time.
pub type Lineage = [u8; 8];

/// Length of a segment's header, in bytes.
pub(super) const SEGMENT_HEADER_BYTES: usize = 40;
/// Length of a record's header, in bytes.
pub(super) const RECORD_HEADER_BYTES: usize = 24;

const END_PAYLOAD_BYTES: usize = 9;

const SEGMENT_MAGIC: u64 = u64::from_le_bytes(*b"TLJSEG\0\x01");
const CURSOR_MAGIC: u64 = u64::from_le_bytes(*b"TLJCUR\0\x01");

/// Longest URL in a cursor, in bytes.
const URL_MAX: usize = 4096;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentHeader {
    /// Number of the segment, counted from 1.
    pub seq: u64,
    /// Stream position of the first data in the segment, in bytes.
    pub position: u64,
    pub lineage: Lineage,
    /// Boot number of the machine when the segment was created; 0 if unknown.
    pub boot: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordKind {
    /// Data of the stream, starting at `position`.
    Data,
    /// The program has read up to `position`; the payload is the number of elements.
    Read,
    /// The stream ends at `position`; the payload is the number of bytes written, and a flag for an
    /// abort.
    End,
    /// The end of the segment; the bytes after this record are old content of a reused file.
    Seal,
}

/// The header of a record, excluding the checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordHeader {
    pub kind: RecordKind,
    pub position: u64,
    /// Length of the payload, in bytes.
    pub len: u32,
    /// Length of the durable part of the segment when the record was written, below 2^56.
    pub safe: u64,
}

/// Contents of the cursor file: the owner of the journal, and the position before which data is no
/// longer needed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cursor {
    pub lineage: Lineage,
    pub is_writer: bool,
    /// Bytes per element; 0 if elements vary in size.
    pub element_bytes: u32,
    /// URL of the endpoint.
    pub url: String,
    /// Number of the last segment when the cursor was written; 0 if no segment existed.
    pub seq: u64,
    /// For a writer: everything before this position is durable at the reader. For a reader: the
    /// program has read everything before this position.
    pub position: u64,
    /// Number of elements before `position`.
    pub elements: u64,
    /// The secret from which the endpoint's shared secrets are derived.
    pub secret: Secret,
    /// The peer endpoint, and the secrets by which the two endpoints recognise each other.
    pub peer: Option<Pair>,
    /// The end of the stream, once known.
    pub end: Option<StreamClose>,
}

impl SegmentHeader {
    /// Returns the encoded header, and the seed for the checksums of the segment's records.
    pub(super) fn encode(&self) -> ([u8; SEGMENT_HEADER_BYTES], u32) {
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        bytes[..8].copy_from_slice(&SEGMENT_MAGIC.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.seq.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.position.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.lineage);
        bytes[32..36].copy_from_slice(&self.boot.to_le_bytes());
        let seed = crc32c::crc32c(&bytes[..36]);
        bytes[36..].copy_from_slice(&seed.to_le_bytes());
        (bytes, seed)
    }

    pub(super) fn decode(bytes: &[u8; SEGMENT_HEADER_BYTES]) -> Option<(Self, u32)> {
        let header = Self {
            seq: u64_at(bytes, 8),
            position: u64_at(bytes, 16),
            lineage: array_at(bytes, 24),
            boot: u32::from_le_bytes(array_at(bytes, 32)),
        };
        let (encoded, seed) = header.encode();
        (encoded == *bytes).then_some((header, seed))
    }
}

impl RecordHeader {
    /// Returns the encoded header, which includes a checksum over the header and `payload`.
    pub(super) fn encode(&self, seed: u32, payload: &[u8]) -> [u8; RECORD_HEADER_BYTES] {
        let mut bytes = [0; RECORD_HEADER_BYTES];
        bytes[4..8].copy_from_slice(&self.len.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.position.to_le_bytes());
        bytes[16] = match self.kind {
            RecordKind::Data => 1,
            RecordKind::Read => 2,
            RecordKind::End => 3,
            RecordKind::Seal => 4,
        };
        bytes[17..].copy_from_slice(&self.safe.to_le_bytes()[..7]);
        let crc = crc32c::crc32c_append(crc32c::crc32c_append(seed, &bytes[4..]), payload);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Returns `None` if a record cannot begin with these bytes. [`is_intact`](Self::is_intact)
    /// checks that the record is intact.
    pub(super) fn decode(bytes: &[u8; RECORD_HEADER_BYTES]) -> Option<Self> {
        let kind = match bytes[16] {
            1 => RecordKind::Data,
            2 => RecordKind::Read,
            3 => RecordKind::End,
            4 => RecordKind::Seal,
            _ => return None,
        };
        let mut safe = [0; 8];
        safe[..7].copy_from_slice(&bytes[17..]);
        Some(Self {
            kind,
            position: u64_at(bytes, 8),
            len: u32::from_le_bytes(array_at(bytes, 4)),
            safe: u64::from_le_bytes(safe),
        })
    }

    /// Returns true if `header` and `payload` are unchanged since the record was written.
    pub(super) fn is_intact(
        &self,
        seed: u32,
        header: &[u8; RECORD_HEADER_BYTES],
        payload: &[u8],
    ) -> bool {
        self.len as usize == payload.len() && self.encode(seed, payload) == *header
    }
}

pub(super) fn encode_end(end: StreamClose) -> [u8; END_PAYLOAD_BYTES] {
    let mut payload = [0; END_PAYLOAD_BYTES];
    payload[..8].copy_from_slice(&end.written.to_le_bytes());
    payload[8] = u8::from(end.is_aborted);
    payload
}

/// Decodes the payload of an `End` record at `position`; `None` if it is invalid.
pub(super) fn decode_end(position: u64, payload: &[u8]) -> Option<StreamClose> {
    let payload: &[u8; END_PAYLOAD_BYTES] = payload.try_into().ok()?;
    Some(StreamClose {
        position,
        written: u64_at(payload, 0),
        is_aborted: match payload[8] {
            0 => false,
            1 => true,
            _ => return None,
        },
    })
}

impl Cursor {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        out.extend_from_slice(&CURSOR_MAGIC.to_le_bytes());
        out.extend_from_slice(&self.lineage);
        for number in [self.seq, self.position, self.elements] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.element_bytes.to_le_bytes());
        out.push(if self.is_writer { 1 } else { 2 });
        out.push(match &self.peer {
            None => 0,
            Some(Pair { offered: None, .. }) => 1,
            Some(_) => 2,
        });
        out.push(u8::from(self.end.is_some()));
        out.push(u8::from(self.end.is_some_and(|end| end.is_aborted)));
        out.extend_from_slice(&self.peer.map(|pair| pair.lineage).unwrap_or_default());
        let (position, written) = self.end.map_or((0, 0), |end| (end.position, end.written));
        out.extend_from_slice(&position.to_le_bytes());
        out.extend_from_slice(&written.to_le_bytes());
        let shared = self.peer.map(|pair| pair.secret).unwrap_or_default();
        let offered = self.peer.and_then(|pair| pair.offered).unwrap_or_default();
        for secret in [self.secret, shared, offered] {
            out.extend_from_slice(&secret.0);
        }
        // The URL of an endpoint is far shorter than 4 GiB.
        out.extend_from_slice(&(self.url.len() as u32).to_le_bytes());
        out.extend_from_slice(self.url.as_bytes());
        let crc = crc32c::crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        const FIXED: usize = 172;
        if !(FIXED + 4..=FIXED + 4 + URL_MAX).contains(&bytes.len()) {
            return None;
        }
        let (fixed, rest) = bytes.split_at(FIXED);
        let url = rest.get(..rest.len().checked_sub(4)?)?;
        let end = StreamClose {
            position: u64_at(fixed, 56),
            written: u64_at(fixed, 64),
            is_aborted: fixed[47] == 1,
        };
        let cursor = Self {
            lineage: array_at(fixed, 8),
            seq: u64_at(fixed, 16),
            position: u64_at(fixed, 24),
            elements: u64_at(fixed, 32),
            element_bytes: u32::from_le_bytes(array_at(fixed, 40)),
            is_writer: fixed[44] == 1,
            secret: Secret(array_at(fixed, 72)),
            peer: (fixed[45] != 0).then(|| Pair {
                lineage: array_at(fixed, 48),
                secret: Secret(array_at(fixed, 104)),
                offered: (fixed[45] == 2).then(|| Secret(array_at(fixed, 136))),
            }),
            end: (fixed[46] == 1).then_some(end),
            url: std::str::from_utf8(url).ok()?.to_owned(),
        };
        // The comparison checks everything not checked above, including the checksum.
        (cursor.encode() == bytes).then_some(cursor)
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

/// `bytes` must be long enough.
fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cursor() -> impl Strategy<Value = Cursor> {
        let numbers = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u32>());
        let end = prop::option::of((any::<u64>(), any::<u64>(), any::<bool>()));
        let secret = || any::<[u8; 32]>().prop_map(Secret);
        let pair = (any::<Lineage>(), secret(), prop::option::of(secret()));
        let pair = pair.prop_map(|(lineage, secret, offered)| Pair {
            lineage,
            secret,
            offered,
        });
        let peer = (secret(), prop::option::of(pair));
        (
            any::<Lineage>(),
            any::<bool>(),
            numbers,
            peer,
            end,
            ".{0,40}",
        )
            .prop_map(
                |(
                    lineage,
                    is_writer,
                    (seq, position, elements, element_bytes),
                    peers,
                    end,
                    url,
                )| {
                    let (secret, peer) = peers;
                    Cursor {
                        lineage,
                        is_writer,
                        element_bytes,
                        url,
                        seq,
                        position,
                        elements,
                        secret,
                        peer,
                        end: end.map(|(position, written, is_aborted)| StreamClose {
                            position,
                            written,
                            is_aborted,
                        }),
                    }
                },
            )
    }

    proptest! {
        #[test]
        fn cursor_round_trips_and_altered_bytes_are_rejected(
            cursor in cursor(),
            at: prop::sample::Index,
            bit in 0..8_u32,
        ) {
            let mut bytes = cursor.encode();
            prop_assert_eq!(Cursor::decode(&bytes), Some(cursor));
            for len in 0..bytes.len() {
                prop_assert_eq!(Cursor::decode(&bytes[..len]), None);
            }
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert_eq!(Cursor::decode(&bytes), None, "byte {} bit {}", at, bit);
        }

        #[test]
        fn invalid_bytes_are_not_a_cursor(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(Cursor::decode(&bytes), None);
        }

        #[test]
        fn segment_header_round_trips_or_is_rejected(
            seq: u64, position: u64, lineage: Lineage, boot: u32,
            at in 0..SEGMENT_HEADER_BYTES, bit in 0..8_u32,
        ) {
            let header = SegmentHeader { seq, position, lineage, boot };
            let (mut bytes, seed) = header.encode();
            prop_assert_eq!(SegmentHeader::decode(&bytes), Some((header, seed)));
            bytes[at] ^= 1 << bit;
            prop_assert_eq!(SegmentHeader::decode(&bytes), None);
        }

        #[test]
        fn record_with_a_flipped_bit_is_rejected(
            seed: u32,
            position: u64,
            safe in 0..1_u64 << 56,
            payload in prop::collection::vec(any::<u8>(), 0..100),
            kind in prop::sample::select(vec![
                RecordKind::Data, RecordKind::Read, RecordKind::End,
            ]),
            at: prop::sample::Index,
            bit in 0..8_u32,
        ) {
            let header = RecordHeader { kind, position, len: payload.len() as u32, safe };
            let mut bytes = header.encode(seed, &payload).to_vec();
            bytes.extend_from_slice(&payload);
            let check = |bytes: &[u8]| {
                let first: [u8; RECORD_HEADER_BYTES] = bytes[..RECORD_HEADER_BYTES].try_into().unwrap();
                RecordHeader::decode(&first)
                    .filter(|header| header.is_intact(seed, &first, &bytes[RECORD_HEADER_BYTES..]))
            };
            prop_assert_eq!(check(&bytes), Some(header));
            prop_assert!(!header.is_intact(
                seed ^ 1, bytes[..RECORD_HEADER_BYTES].try_into().unwrap(), &payload,
            ), "a record of another segment must not be valid in this one");
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert_eq!(check(&bytes), None);
        }
    }
}
