//! Digests by which two ends determine whether they have the same data (B-10).
//!
//! Digests detect faults, not forgery: an attacker who can alter frames can also alter digests.

use crate::message::record::UpdateRecord;

const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
const FIRST: u64 = 0xbf58_476d_1ce4_e5b9;
const SECOND: u64 = 0x94d0_49bb_1331_11eb;

/// Returns the contribution of one update record to the running digest: a hash of handle and
/// sequence, so that the sums over different records are almost never equal.
#[inline]
pub const fn of_position(handle: u32, sequence: u64) -> u64 {
    finish(sequence.wrapping_add((handle as u64).wrapping_mul(SPREAD)))
}

/// Returns the contribution of the end of an item (GONE or ENDED) to the running digest.
pub const fn of_end(handle: u32) -> u64 {
    of_position(handle, u64::MAX)
}

/// Returns the digest of a record: handle, sequence, timestamps, quality and every bit of the
/// value. The digest does not cover the flag [`own`](UpdateRecord::own), which differs between
/// sessions.
pub fn of_record(record: &UpdateRecord<'_>) -> u64 {
    let position = of_position(record.handle, record.sequence);
    let quality = u64::from(record.quality.to_bits());
    let length = record.value.map_or(u64::MAX, |value| value.len() as u64);
    let engine = record.engine_timestamp.as_nanos() as u64;
    let source = record.source_timestamp.as_nanos() as u64;
    let head = [engine, source, quality, length];
    let digest = head
        .iter()
        .fold(position, |digest, word| step(digest, *word));
    let (words, rest) = record.value.unwrap_or_default().as_chunks::<8>();
    let digest = words.iter().fold(digest, |digest, word| {
        step(digest, u64::from_le_bytes(*word))
    });
    let mut last = [0; 8];
    last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    finish(step(digest, u64::from_le_bytes(last)))
}

#[inline]
const fn step(digest: u64, word: u64) -> u64 {
    (digest.rotate_left(29) ^ word).wrapping_mul(SPREAD)
}

#[inline]
const fn finish(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(FIRST);
    let number = (number ^ (number >> 27)).wrapping_mul(SECOND);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use trunkline_types::{Quality, Timestamp};

    use super::*;

    fn record(value: &[u8]) -> UpdateRecord<'_> {
        UpdateRecord {
            handle: 5,
            sequence: 9,
            engine_timestamp: Timestamp::from_nanos(17),
            source_timestamp: Timestamp::from_nanos(16),
            quality: Quality::GOOD,
            own: false,
            value: Some(value),
        }
    }

    /// The digests are part of the protocol, so they must not change.
    #[test]
    fn digests_match_the_known_values() {
        assert_eq!(of_position(5, 9), POSITION);
        assert_eq!(of_record(&record(b"12345678abc")), RECORD);
    }

    const POSITION: u64 = 0x4336_b378_2f58_87a1;
    const RECORD: u64 = 0x85bc_d006_3384_64bd;

    #[test]
    fn every_bit_of_a_value_and_every_field_counts() {
        let value = *b"12345678abc";
        let sut = of_record(&record(&value));
        for bit in 0..8 * value.len() {
            let mut other = value;
            other[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(of_record(&record(&other)), sut, "bit {bit}");
        }
        let sample = record(&value);
        let others = [
            UpdateRecord {
                handle: 6,
                ..sample
            },
            UpdateRecord {
                sequence: 8,
                ..sample
            },
            UpdateRecord {
                engine_timestamp: Timestamp::from_nanos(18),
                ..sample
            },
            UpdateRecord {
                source_timestamp: Timestamp::from_nanos(15),
                ..sample
            },
            UpdateRecord {
                quality: Quality::from_bits(1),
                ..sample
            },
            UpdateRecord {
                value: None,
                ..sample
            },
            record(b"12345678ab"),
            record(b"12345678abc\0"),
            record(b""),
        ];
        let mut digests: Vec<u64> = others.iter().map(of_record).chain([sut]).collect();
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), 10);
        assert_eq!(
            of_record(&UpdateRecord {
                own: true,
                ..sample
            }),
            sut
        );
    }

    #[test]
    fn lost_and_reordered_records_do_not_cancel_out() {
        let sums = |pairs: &[(u32, u64)]| {
            let mixed = pairs
                .iter()
                .map(|(handle, sequence)| of_position(*handle, *sequence));
            mixed.fold(0, u64::wrapping_add)
        };
        assert_ne!(sums(&[(1, 2), (2, 1)]), sums(&[(1, 1), (2, 2)]));
        assert_ne!(sums(&[(1, 2), (1, 3)]), sums(&[(1, 1), (1, 4)]));
        assert_ne!(sums(&[(1, 0)]), 0);
    }
}
