//! Buckets of time that are being filled.

use std::collections::BTreeMap;

use trunkline_types::history::{Bucket, POINTS_MAX, Rows};
use trunkline_types::{DataType, Quality};

use crate::error::Error;
use crate::schema::number_of;

/// Buckets of one variable over the whole time of a query.
const BUCKETS_MAX: usize = POINTS_MAX as usize;

/// A row as buckets count it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NumberRow {
    Number(f64),
    Bad,
    Event { lost: u64 },
}

/// Buckets that are being filled, from sources that may overlap in time.
pub(crate) struct Gathering {
    width: i64,
    buckets: BTreeMap<i64, Filling>,
    /// The bucket that was filled last.
    current: Option<Filling>,
}

/// A bucket with the times of its first and last number.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Filling {
    pub(crate) bucket: Bucket,
    pub(crate) first_time: i64,
    pub(crate) last_time: i64,
}

impl Gathering {
    pub(crate) fn new(width: u64) -> Self {
        Self {
            width: i64::try_from(width).unwrap_or(i64::MAX).max(1),
            buckets: BTreeMap::new(),
            current: None,
        }
    }

    #[inline]
    pub(crate) fn add(&mut self, time: i64, row: NumberRow) -> Result<(), Error> {
        let is_same = self.current.as_ref().is_some_and(|current| {
            time >= current.bucket.start
                && (time.wrapping_sub(current.bucket.start) as u64) < self.width as u64
        });
        if !is_same {
            self.turn_to(time)?;
        }
        let Some(current) = &mut self.current else {
            return Ok(());
        };
        match row {
            NumberRow::Number(number) => current.add(time, number),
            NumberRow::Bad => current.bucket.bad += 1,
            NumberRow::Event { lost } => current.bucket.lost += lost,
        }
        Ok(())
    }

    /// Adds the rows and events whose times are accepted.
    pub(crate) fn add_all(
        &mut self,
        rows: &Rows,
        data_type: &DataType,
        accepts: impl Fn(i64) -> bool,
    ) -> Result<(), Error> {
        let mut runs = Vec::new();
        rows.qualities().visit(0..rows.len(), |quality, _, count| {
            let quality = Quality::from_bits(quality);
            runs.push((!quality.is_bad() && quality.has_value(), count));
        });
        let has_numbers = !rows.words().is_empty();
        let mut row = 0;
        for (is_usable, count) in runs {
            for at in row..row + count {
                let (time, word) = (rows.times().get(at), rows.words().get(at));
                let Some(time) = time.copied().filter(|time| accepts(*time)) else {
                    continue;
                };
                let number = match word {
                    Some(word) if is_usable && has_numbers => number_of(*word, data_type),
                    _ => f64::NAN,
                };
                self.add(time, NumberRow::Number(number))?;
            }
            row += count;
        }
        for mark in rows.marks() {
            if accepts(mark.key.time) {
                let (_, lost) = mark.event.parts();
                if lost > 0 {
                    self.add(mark.key.time, NumberRow::Event { lost })?;
                }
            }
        }
        Ok(())
    }

    /// Adds what was gathered before in a bucket of at most this width.
    pub(crate) fn join(&mut self, filling: &Filling) -> Result<(), Error> {
        self.turn_to(filling.bucket.start)?;
        if let Some(current) = &mut self.current {
            current.join(filling);
        }
        Ok(())
    }

    fn turn_to(&mut self, time: i64) -> Result<(), Error> {
        if let Some(current) = self.current.take() {
            self.buckets.insert(current.bucket.start, current);
        }
        let start = time.div_euclid(self.width).saturating_mul(self.width);
        if self.buckets.len() >= BUCKETS_MAX {
            return Err(Error::TooManyBuckets);
        }
        let known = self.buckets.remove(&start);
        self.current = Some(known.unwrap_or_else(|| Filling::new(start)));
        Ok(())
    }

    /// Returns the buckets in the order of time.
    pub(crate) fn finish(mut self) -> Vec<Filling> {
        if let Some(current) = self.current.take() {
            self.buckets.insert(current.bucket.start, current);
        }
        self.buckets.into_values().collect()
    }
}

impl Filling {
    fn new(start: i64) -> Self {
        Self {
            bucket: Bucket::new(start),
            first_time: i64::MAX,
            last_time: i64::MIN,
        }
    }

    /// Adds a number. Numbers of several sources do not come in the order of time.
    #[inline]
    fn add(&mut self, time: i64, number: f64) {
        let Bucket { first, last, .. } = self.bucket;
        self.bucket.add(number);
        if !number.is_nan() {
            self.bucket.first = if time < self.first_time {
                number
            } else {
                first
            };
            self.bucket.last = if time < self.last_time { last } else { number };
            self.first_time = self.first_time.min(time);
            self.last_time = self.last_time.max(time);
        }
    }

    fn join(&mut self, other: &Filling) {
        let Bucket { first, last, .. } = self.bucket;
        self.bucket.join(&other.bucket);
        if other.bucket.count > 0 {
            let is_older = other.first_time < self.first_time;
            self.bucket.first = if is_older { other.bucket.first } else { first };
            let is_newer = other.last_time >= self.last_time;
            self.bucket.last = if is_newer { other.bucket.last } else { last };
            self.first_time = self.first_time.min(other.first_time);
            self.last_time = self.last_time.max(other.last_time);
        }
    }
}
