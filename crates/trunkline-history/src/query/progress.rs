//! Encodes the state of a query. The cursor carries this state from one page to the next.
//!
//! ```text
//! version 1 u8 | since i64 | last i64 | now i64 | width varint | flags u8 |
//! [search_until i64] | next_time i64 | [held f64] | [before: time i64, epoch u64, sequence u64] |
//! [gap_start i64] | [latest_damage i64] | buckets, at most one
//! ```

use trunkline_types::history::{Bucket, RowKey};
use trunkline_types::wire::{
    DecodeError, Reader, decode_buckets, encode_buckets, put_f64, put_i64, put_u8, put_u64,
    put_varint,
};

use super::reading::TimeSpan;
use crate::error::Error;

/// Version of the encoding.
const VERSION: u8 = 1;
// Flags for the optional fields.
const SEARCH_UNTIL: u8 = 1;
const HELD: u8 = 2;
const BEFORE: u8 = 4;
const GAP_START: u8 = 8;
const LATEST_DAMAGE: u8 = 16;

/// The state of a query. All pages use the span, time and width that the first page determined.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Progress {
    pub(super) span: TimeSpan,
    /// The time at which the first page was read, in nanoseconds.
    pub(super) now: i64,
    /// Width of the buckets, or step of the grid, in nanoseconds; 0 if there is none.
    pub(super) width: u64,
    /// The state of the series at which the next page begins.
    pub(super) series: SeriesProgress,
}

/// The state of a series, except for the key up to which it was read.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct SeriesProgress {
    /// The pending search for the last row continues from this time backwards; `None` if no search
    /// is pending.
    pub(super) search_until: Option<i64>,
    /// The time at which the answer continues. The answer is complete before this time.
    pub(super) next_time: i64,
    /// The value that holds at `next_time`, NaN if it is not a number. `None` if no good value
    /// holds.
    pub(super) held: Option<f64>,
    /// The key of the last row before `next_time`.
    pub(super) before: Option<RowKey>,
    /// The time of the first event after `before`.
    pub(super) gap_start: Option<i64>,
    /// The latest possible time of damaged rows that an interrupted search for the last row found.
    pub(super) latest_damage: Option<i64>,
    /// The bucket that the next page continues.
    pub(super) bucket: Option<Bucket>,
}

impl SeriesProgress {
    pub(super) fn begin(next_time: i64, search_until: Option<i64>) -> Self {
        Self {
            search_until,
            next_time,
            held: None,
            before: None,
            gap_start: None,
            latest_damage: None,
            bucket: None,
        }
    }
}

impl Progress {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_u8(&mut out, VERSION);
        for time in [self.span.since, self.span.last, self.now] {
            put_i64(&mut out, time);
        }
        put_varint(&mut out, self.width);
        let SeriesProgress {
            search_until,
            next_time,
            held,
            before,
            gap_start,
            latest_damage,
            bucket,
        } = &self.series;
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        put_u8(
            &mut out,
            flag(search_until.is_some(), SEARCH_UNTIL)
                | flag(held.is_some(), HELD)
                | flag(before.is_some(), BEFORE)
                | flag(gap_start.is_some(), GAP_START)
                | flag(latest_damage.is_some(), LATEST_DAMAGE),
        );
        if let Some(time) = search_until {
            put_i64(&mut out, *time);
        }
        put_i64(&mut out, *next_time);
        if let Some(held) = held {
            put_f64(&mut out, *held);
        }
        if let Some(before) = before {
            put_i64(&mut out, before.time);
            put_u64(&mut out, before.epoch);
            put_u64(&mut out, before.sequence);
        }
        for time in [gap_start, latest_damage].into_iter().flatten() {
            put_i64(&mut out, *time);
        }
        encode_buckets(bucket.as_slice(), &mut out);
        out
    }

    /// Decodes the output of [`encode`](Self::encode).
    ///
    /// # Errors
    /// [`Error::Cursor`].
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes);
        match (Self::read(&mut reader), reader.is_empty()) {
            (Ok(Some(progress)), true) => Ok(progress),
            _ => Err(Error::Cursor),
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        if reader.u8()? != VERSION {
            return Ok(None);
        }
        let (since, last, now) = (reader.i64()?, reader.i64()?, reader.i64()?);
        let width = reader.varint()?;
        let flags = reader.u8()?;
        let has = |flag: u8| flags & flag != 0;
        let search_until = has(SEARCH_UNTIL).then(|| reader.i64()).transpose()?;
        let next_time = reader.i64()?;
        let held = has(HELD).then(|| reader.f64()).transpose()?;
        let mut before = None;
        if has(BEFORE) {
            before = Some(RowKey {
                time: reader.i64()?,
                epoch: reader.u64()?,
                sequence: reader.u64()?,
            });
        }
        let gap_start = has(GAP_START).then(|| reader.i64()).transpose()?;
        let latest_damage = has(LATEST_DAMAGE).then(|| reader.i64()).transpose()?;
        let buckets = decode_buckets(reader)?;
        Ok(Some(Self {
            span: TimeSpan { since, last },
            now,
            width,
            series: SeriesProgress {
                search_until,
                next_time,
                held,
                before,
                gap_start,
                latest_damage,
                bucket: buckets.first().copied(),
            },
        }))
    }
}
