use proptest::prelude::*;

use crate::Quality;
use crate::arbitrary::bits;
use crate::history::{Bucket, HistoryEvent, HistoryEventRow, Row, RowKey, Rows};
use crate::wire::{
    DecodeError, Reader, decode_buckets, decode_rows, encode_buckets, encode_rows, put_f64,
    put_varint,
};

/// The data for a row, with 16 bytes for its value.
#[derive(Clone, Debug)]
struct Draft {
    key: RowKey,
    delay: i64,
    quality: u32,
    value: [u8; 16],
}

impl Draft {
    fn push(&self, rows: &mut Rows, length: usize) {
        rows.push(&Row {
            key: self.key,
            delay: self.delay,
            quality: Quality::from_bits(self.quality),
            value: &self.value[..length],
        });
    }
}

/// Generates keys. Most keys continue the previous key, so that some steps are long.
fn drafts() -> impl Strategy<Value = Vec<Draft>> {
    let jump = prop_oneof![9 => Just(1_u64), 1 => any::<u64>()];
    let time = prop_oneof![8 => 0..2_000_000_i64, 1 => any::<i64>()];
    let epoch = prop_oneof![19 => Just(0_u64), 1 => 1..4_u64];
    let delay = prop_oneof![4 => Just(0_i64), 1 => any::<i64>()];
    let quality = prop_oneof![9 => Just(0_u32), 1 => any::<u32>()];
    let draft = (jump, time, epoch, delay, quality, any::<[u8; 16]>());
    prop::collection::vec(draft, 0..60).prop_map(|steps| {
        let mut key = RowKey::default();
        let row = |(jump, time, epoch, delay, quality, value)| {
            key = RowKey {
                time: key.time.wrapping_add(time),
                epoch: key.epoch.wrapping_add(epoch),
                sequence: key.sequence.wrapping_add(jump),
            };
            Draft {
                key,
                delay,
                quality,
                value,
            }
        };
        steps.into_iter().map(row).collect()
    })
}

fn marks() -> impl Strategy<Value = Vec<HistoryEventRow>> {
    let mark = (
        any::<i64>(),
        any::<u64>(),
        any::<u64>(),
        any::<u8>(),
        any::<u64>(),
    );
    let mark = mark.prop_map(|(time, epoch, sequence, event, count)| HistoryEventRow {
        key: RowKey {
            time,
            epoch,
            sequence,
        },
        event: HistoryEvent::from_parts(event % 8, count),
    });
    prop::collection::vec(mark, 0..6)
}

/// Generates rows with values of a fixed length, or of any length.
fn rows() -> impl Strategy<Value = Rows> {
    let fixed = prop_oneof![Just(None), (1..=8_usize).prop_map(Some), Just(Some(16))];
    (fixed, drafts(), marks()).prop_map(|(fixed, drafts, marks)| {
        let mut rows = Rows::new(fixed);
        for draft in drafts {
            let any_length = usize::from(draft.value[0]) % 17;
            draft.push(&mut rows, fixed.unwrap_or(any_length));
        }
        marks.into_iter().for_each(|mark| rows.push_event(mark));
        rows
    })
}

fn encoded(rows: &Rows, first: usize, first_mark: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_rows(rows, first, first_mark, &mut bytes);
    bytes
}

fn decode(bytes: &[u8]) -> Result<Rows, DecodeError> {
    let mut reader = Reader::new(bytes);
    let rows = decode_rows(&mut reader)?;
    reader.finish()?;
    Ok(rows)
}

/// Reads every row and every event, as a reader of the history does.
fn walk(rows: &Rows) -> usize {
    let mut seen = 0;
    rows.visit(0..usize::MAX, |row| seen += row.value.len().max(1));
    assert!(rows.key(rows.len()).is_none());
    seen + rows.events().len()
}

/// Returns the rows from `first` on, individually.
fn all_from(rows: &Rows, first: usize) -> Vec<(RowKey, i64, u32, Vec<u8>)> {
    let mut all = Vec::new();
    rows.visit(first..rows.len(), |row| {
        all.push((
            row.key,
            row.delay,
            row.quality.to_bits(),
            row.value.to_vec(),
        ));
    });
    all
}

fn bucket() -> impl Strategy<Value = Bucket> {
    let start = prop_oneof![any::<i64>(), (0..40_i64).prop_map(|n| n << 30)];
    let counts = (
        prop_oneof![Just(0_u64), any::<u64>()],
        any::<u64>(),
        0..3_u64,
        prop_oneof![Just(0_u64), any::<u64>()],
    );
    (start, counts, any::<[u64; 6]>()).prop_map(|(start, (count, bad, lost, covered), numbers)| {
        let mut bucket = Bucket {
            count,
            bad,
            lost,
            covered,
            ..Bucket::new(start)
        };
        let [first, last, min, max, sum, time_mean] = numbers.map(f64::from_bits);
        if covered > 0 {
            bucket.time_mean = time_mean;
        }
        if count > 0 {
            (bucket.first, bucket.last) = (first, last);
            (bucket.min, bucket.max, bucket.sum) = (min, max, sum);
        }
        bucket
    })
}

/// Returns the content bit for bit, including the bits of NaN.
fn content(bucket: &Bucket) -> ([u64; 4], i64, [u64; 6]) {
    let Bucket {
        start,
        count,
        bad,
        lost,
        first,
        last,
        min,
        max,
        sum,
        covered,
        time_mean,
    } = *bucket;
    let numbers = [first, last, min, max, sum, time_mean].map(f64::to_bits);
    ([count, bad, lost, covered], start, numbers)
}

fn decoded_buckets(bytes: &[u8]) -> Result<Vec<Bucket>, DecodeError> {
    let mut reader = Reader::new(bytes);
    let buckets = decode_buckets(&mut reader)?;
    reader.finish()?;
    Ok(buckets)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn rows_round_trip(rows in rows()) {
        let decoded = decode(&encoded(&rows, 0, 0));
        prop_assert_eq!(decoded, Ok(rows));
    }

    /// The log stores rows in parts that start at any row.
    #[test]
    fn rows_from_any_row_on_round_trip(rows in rows(), from in 0..70_usize, mark in 0..8_usize) {
        let run = decode(&encoded(&rows, from, mark)).unwrap();
        prop_assert_eq!(all_from(&run, 0), all_from(&rows, from));
        let marks = rows.events().get(mark..).unwrap_or_default();
        prop_assert_eq!(run.events(), marks);
    }

    /// A series that was split over several items is restored when they are joined.
    #[test]
    fn appended_runs_are_the_rows(rows in rows(), lengths in prop::collection::vec(1..20_usize, 60)) {
        let mut joined = Rows::new(rows.word_bytes());
        let mut at = 0;
        for length in lengths {
            let end = (at + length).min(rows.len());
            let mut part = Rows::new(rows.word_bytes());
            part.append(&rows, at..end);
            let part = decode(&encoded(&part, 0, 0)).unwrap();
            joined.append(&part, 0..part.len());
            at = end;
        }
        rows.events().iter().for_each(|mark| joined.push_event(*mark));
        prop_assert_eq!(all_from(&joined, 0), all_from(&rows, 0));
        // The joined rows also take no more steps than before.
        prop_assert_eq!(joined, rows);
    }

    #[test]
    fn every_truncation_of_rows_is_an_error(rows in rows()) {
        let bytes = encoded(&rows, 0, 0);
        for length in 0..bytes.len() {
            prop_assert!(decode(&bytes[..length]).is_err());
        }
    }

    #[test]
    fn damaged_rows_are_refused_or_are_rows(
        rows in rows(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = encoded(&rows, 0, 0);
        for (index, byte) in damage {
            *index.get_mut(&mut bytes) = byte;
        }
        if let Ok(rows) = decode(&bytes) {
            walk(&rows);
            let again = encoded(&rows, 0, 0);
            prop_assert_eq!(decode(&again), Ok(rows));
        }
    }

    #[test]
    fn random_bytes_are_refused_or_are_rows(
        bytes in prop::collection::vec(prop_oneof![0..4_u8, any::<u8>()], 0..120),
    ) {
        if let Ok(rows) = decode(&bytes) {
            walk(&rows);
        }
        let _ = decoded_buckets(&bytes);
    }

    #[test]
    fn buckets_round_trip_bit_for_bit(buckets in prop::collection::vec(bucket(), 0..20)) {
        let mut bytes = Vec::new();
        encode_buckets(&buckets, &mut bytes);
        let decoded = decoded_buckets(&bytes).unwrap();
        let contents = |buckets: &[Bucket]| buckets.iter().map(content).collect::<Vec<_>>();
        prop_assert_eq!(contents(&decoded), contents(&buckets));
        for length in 0..bytes.len() {
            prop_assert!(decoded_buckets(&bytes[..length]).is_err());
        }
    }
}

#[test]
fn regular_numbers_take_few_bytes() {
    let mut rows = Rows::new(Some(8));
    for n in 0..1000 {
        rows.push(&Row {
            key: RowKey {
                time: 1_767_225_600_000_000_000 + n * 1_000_000,
                epoch: 7,
                sequence: n as u64,
            },
            delay: 0,
            quality: Quality::GOOD,
            value: &bits(&crate::Value::F64(n as f64)),
        });
    }
    let bytes = encoded(&rows, 0, 0).len();
    assert!(bytes < 1000 * 11 + 60, "{bytes} bytes");
}

#[test]
fn count_beyond_the_bytes_present_is_refused() {
    for count in [2, 1 << 20, u64::from(u32::MAX), u64::MAX] {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, count);
        bytes.push(8);
        assert!(decode(&bytes).is_err(), "{count} rows");
        assert!(decoded_buckets(&bytes).is_err(), "{count} buckets");
    }
}

#[test]
fn inconsistent_columns_are_refused() {
    let mut rows = Rows::new(Some(1));
    Draft {
        key: RowKey::default(),
        delay: 0,
        quality: 0,
        value: [5; 16],
    }
    .push(&mut rows, 1);
    let good = encoded(&rows, 0, 0);
    assert_eq!(good[..4], [1, 1, 0, 1]);
    let changed = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        decode(&bytes)
    };
    assert!(changed(1, 9).is_err(), "a value of 9 bytes");
    assert!(changed(1, 32 + 1).is_err(), "an unknown mark");
    assert!(changed(4, 1).is_err(), "the first step begins at row 1");
    // A row without an epoch.
    let mut bytes = good.clone();
    bytes.drain(3..13);
    bytes.insert(3, 0);
    assert!(decode(&bytes).is_err());
    // An epoch without a row.
    let mut bytes = vec![0, 1, 1, 0];
    put_f64(&mut bytes, 0.0);
    bytes.extend_from_slice(&[0, 0, 0]);
    assert!(decode(&bytes).is_err());
}
