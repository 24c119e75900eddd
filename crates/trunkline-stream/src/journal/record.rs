//! How a journal lies on the disk: docs/reference/stream-journal.md. Little endian throughout.

use trunkline_proto::stream::{Pair, Secret, StreamClose};

/// The other part of an incarnation is new in each life of an endpoint; this one stays.
pub type Lineage = [u8; 8];

/// Bytes before the records of a segment.
pub(super) const SEGMENT_HEAD: usize = 40;
/// Bytes before those of a record.
pub(super) const RECORD_HEAD: usize = 24;

/// Bytes behind the head of a record of an end.
const END_PAYLOAD: usize = 9;

const SEGMENT_MAGIC: u64 = u64::from_le_bytes(*b"TLJSEG\0\x01");
const CURSOR_MAGIC: u64 = u64::from_le_bytes(*b"TLJCUR\0\x01");

/// Longest URL in a cursor, in bytes.
const URL_MAX: usize = 4096;

/// What every segment begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentHead {
    /// Segments are counted from 1.
    pub seq: u64,
    /// Where its first bytes belong in the stream.
    pub position: u64,
    /// Of the journal.
    pub lineage: Lineage,
    /// The start of the machine in which it was begun; 0: unknown.
    pub boot: u32,
}

/// What a record is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordKind {
    /// Bytes of the stream, from `position` on.
    Data,
    /// The program has read up to `position`, and so many elements.
    Read,
    /// The stream ends at `position`; how many bytes were written, and whether it was aborted.
    End,
    /// Nothing more in this segment: what follows was there before, when the file was another one.
    Seal,
}

/// What every record begins with, but for its checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordHead {
    /// What it is of.
    pub kind: RecordKind,
    /// A place in the stream.
    pub position: u64,
    /// Bytes behind this head.
    pub len: u32,
    /// Bytes of the segment that were safe when it was written, below 2^56.
    pub safe: u64,
}

/// The cursor file: whose journal it is, and what of it is done with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cursor {
    /// Of the journal.
    pub lineage: Lineage,
    /// Whether it is a writer's.
    pub is_writer: bool,
    /// Bytes of an element; 0 where they vary.
    pub element_bytes: u32,
    /// The URL of the endpoint.
    pub url: String,
    /// The segment that was written to then; 0 before there is one.
    pub seq: u64,
    /// A writer: what lies before is safe with the reader. A reader: what lies before was read.
    pub position: u64,
    /// Elements before that.
    pub elements: u64,
    /// What makes the endpoint's shares of secrets.
    pub secret: Secret,
    /// The other end, and what the two have to know each other again.
    pub peer: Option<Pair>,
    /// Where the stream ends, once that is known.
    pub end: Option<StreamClose>,
}

impl SegmentHead {
    /// The bytes, and what the checksums of its records begin with.
    pub(super) fn encode(&self) -> ([u8; SEGMENT_HEAD], u32) {
        let mut bytes = [0; SEGMENT_HEAD];
        bytes[..8].copy_from_slice(&SEGMENT_MAGIC.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.seq.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.position.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.lineage);
        bytes[32..36].copy_from_slice(&self.boot.to_le_bytes());
        let seed = crc32c::crc32c(&bytes[..36]);
        bytes[36..].copy_from_slice(&seed.to_le_bytes());
        (bytes, seed)
    }

    /// `None`: these are not the bytes of one.
    pub(super) fn decode(bytes: &[u8; SEGMENT_HEAD]) -> Option<(Self, u32)> {
        let head = Self {
            seq: u64_at(bytes, 8),
            position: u64_at(bytes, 16),
            lineage: array_at(bytes, 24),
            boot: u32::from_le_bytes(array_at(bytes, 32)),
        };
        let (again, seed) = head.encode();
        (again == *bytes).then_some((head, seed))
    }
}

impl RecordHead {
    /// The bytes, with the checksum of them and of `payload`.
    pub(super) fn encode(&self, seed: u32, payload: &[u8]) -> [u8; RECORD_HEAD] {
        let mut bytes = [0; RECORD_HEAD];
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

    /// `None`: no such record can be. Whether it is one is for [`is_whole`](Self::is_whole) to say.
    pub(super) fn decode(bytes: &[u8; RECORD_HEAD]) -> Option<Self> {
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

    /// Whether these are the bytes that the record was written with.
    pub(super) fn is_whole(&self, seed: u32, head: &[u8; RECORD_HEAD], payload: &[u8]) -> bool {
        self.len as usize == payload.len() && self.encode(seed, payload) == *head
    }
}

/// What a record of an end has behind its head.
pub(super) fn end_payload(end: StreamClose) -> [u8; END_PAYLOAD] {
    let mut payload = [0; END_PAYLOAD];
    payload[..8].copy_from_slice(&end.written.to_le_bytes());
    payload[8] = u8::from(end.is_aborted);
    payload
}

/// The end that such a record at `position` is of; `None`: these are not the bytes of one.
pub(super) fn end_of(position: u64, payload: &[u8]) -> Option<StreamClose> {
    let payload: &[u8; END_PAYLOAD] = payload.try_into().ok()?;
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
        // An endpoint's URL is far shorter.
        out.extend_from_slice(&(self.url.len() as u32).to_le_bytes());
        out.extend_from_slice(self.url.as_bytes());
        let crc = crc32c::crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// `None`: these are not the bytes of one.
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
        // Whatever is not looked at above is found here, checksum and all.
        (cursor.encode() == bytes).then_some(cursor)
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

/// Of bytes that are long enough.
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
        fn a_cursor_is_read_as_it_was_written_and_no_other_way(
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
        fn nonsense_is_no_cursor(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(Cursor::decode(&bytes), None);
        }

        #[test]
        fn a_segment_begins_as_it_was_written_or_not_at_all(
            seq: u64, position: u64, lineage: Lineage, boot: u32,
            at in 0..SEGMENT_HEAD, bit in 0..8_u32,
        ) {
            let head = SegmentHead { seq, position, lineage, boot };
            let (mut bytes, seed) = head.encode();
            prop_assert_eq!(SegmentHead::decode(&bytes), Some((head, seed)));
            bytes[at] ^= 1 << bit;
            prop_assert_eq!(SegmentHead::decode(&bytes), None);
        }

        #[test]
        fn a_record_with_any_bit_altered_is_none(
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
            let head = RecordHead { kind, position, len: payload.len() as u32, safe };
            let mut bytes = head.encode(seed, &payload).to_vec();
            bytes.extend_from_slice(&payload);
            let check = |bytes: &[u8]| {
                let first: [u8; RECORD_HEAD] = bytes[..RECORD_HEAD].try_into().unwrap();
                RecordHead::decode(&first)
                    .filter(|head| head.is_whole(seed, &first, &bytes[RECORD_HEAD..]))
            };
            prop_assert_eq!(check(&bytes), Some(head));
            prop_assert!(!head.is_whole(
                seed ^ 1, bytes[..RECORD_HEAD].try_into().unwrap(), &payload,
            ), "a record of another segment is none of this one");
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert_eq!(check(&bytes), None);
        }
    }
}
