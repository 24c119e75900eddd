//! Encodes and decodes the buckets of a history for frames.
//!
//! ```text
//! count       varint, number of buckets
//! buckets     each: zigzag difference between its start and the start of the previous bucket (for the
//!             first bucket, 0), varint count, varint bad, varint lost, varint covered; then, unless
//!             its count is 0, the f64s first, last, min, max, sum; then, unless covered is 0, the f64
//!             time_mean
//! ```

use super::{DecodeError, ROWS_MAX, Reader, put_f64, put_varint, put_zigzag};
use crate::history::Bucket;

/// Minimum length of an encoded bucket: one byte for each of the first five fields.
const BUCKET_BYTES_MIN: usize = 5;

/// Appends buckets.
pub fn encode_buckets(buckets: &[Bucket], out: &mut Vec<u8>) {
    put_varint(out, buckets.len() as u64);
    let mut previous_start = 0_i64;
    for bucket in buckets {
        put_zigzag(out, bucket.start.wrapping_sub(previous_start));
        previous_start = bucket.start;
        for count in [bucket.count, bucket.bad, bucket.lost, bucket.covered] {
            put_varint(out, count);
        }
        if bucket.count > 0 {
            let Bucket {
                first,
                last,
                min,
                max,
                sum,
                ..
            } = *bucket;
            for number in [first, last, min, max, sum] {
                put_f64(out, number);
            }
        }
        if bucket.covered > 0 {
            put_f64(out, bucket.time_mean);
        }
    }
}

/// Reads buckets written by [`encode_buckets`].
///
/// # Errors
/// [`DecodeError`] if the bytes are not the buckets of a history.
pub fn decode_buckets(reader: &mut Reader<'_>) -> Result<Vec<Bucket>, DecodeError> {
    let count = reader.count("a number of buckets", ROWS_MAX, BUCKET_BYTES_MIN)?;
    let mut buckets = Vec::with_capacity(count);
    let mut start = 0_i64;
    for _ in 0..count {
        start = start.wrapping_add(reader.zigzag()?);
        let mut bucket = Bucket {
            count: reader.varint()?,
            bad: reader.varint()?,
            lost: reader.varint()?,
            covered: reader.varint()?,
            ..Bucket::new(start)
        };
        if bucket.count > 0 {
            bucket.first = reader.f64()?;
            bucket.last = reader.f64()?;
            bucket.min = reader.f64()?;
            bucket.max = reader.f64()?;
            bucket.sum = reader.f64()?;
        }
        if bucket.covered > 0 {
            bucket.time_mean = reader.f64()?;
        }
        buckets.push(bucket);
    }
    Ok(buckets)
}
