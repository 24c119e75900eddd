//! HISTORY and HISTORY_ROWS: queries for the recorded updates of variables.
//!
//! Used only if both ends have the feature HISTORY. A page is sent in one or more HISTORY_ROWS
//! frames, all with the same head; a page may be empty although more pages follow. To get the next
//! page, send a HISTORY frame and set `from` to `next` of this page. The rows of one series may be
//! split over consecutive items, which differ only in `data`, so that no frame becomes too long.

use std::num::NonZeroU64;

use trunkline_types::history::{
    Grid, HistoryCursor, HistoryForm, HistoryQuery, HistorySeries, RowKey, SeriesData,
};
use trunkline_types::wire::{decode_buckets, decode_rows, encode_buckets, encode_rows, put_varint};
use trunkline_types::{DataType, Position, Timestamp};
#[cfg(test)]
use trunkline_types::{
    Quality,
    history::{Bucket, HistoryEvent, HistoryEventRow, Row, Rows},
};

use super::form::{
    Bytes, Fixed, Flag, FlagsThen, Inner, Name, Nanos, Optional, Text, Type, Varint, forms,
};
use super::layout::{FieldValue, record};
use super::list::list_frame;
#[cfg(test)]
use super::round_trip::Source;
use crate::DecodeError;
use crate::decode::Payload;
use crate::limits::SENTENCE_BYTES_MAX;
use crate::tlv::put_sized;

const SINCE: u8 = 1;
const UNTIL: u8 = 2;
const FROM: u8 = 4;
const POSITION: u8 = 8;
const DURATIONS: u8 = 16;
const ALL: u8 = SINCE | UNTIL | FROM | POSITION | DURATIONS;
/// Flag of a cursor: a row key follows.
const AFTER: u8 = 1;
/// Flag: this is not the last page.
const NEXT: u8 = 1;

record! {
    impl RowKey {
        time: i64 = Fixed,
        epoch: u64 = Fixed,
        sequence: u64 = Varint,
    }
}

record! {
    impl HistoryCursor {
        variable: String = Name,
        series: u32 = Varint,
        after: Option<RowKey> = FlagsThen<Optional<AFTER, Inner>, AFTER>,
        state: Vec<u8> = Bytes,
    }
}

record! {
    /// Asks for a page of a history; see [`HistoryQuery`]. The items are its patterns.
    #[derive(Eq, Default)]
    pub struct HistoryHead {
        /// Selects rows from this source timestamp on.
        pub since: Option<Timestamp> = FlagsThen<Optional<SINCE, Nanos>, ALL>,
        /// Selects rows before this source timestamp.
        pub until: Option<Timestamp> = Optional<UNTIL, Nanos>,
        /// The number of a [`HistoryForm`], or a number defined by a newer version.
        pub form: u8 = Fixed,
        /// Depending on the form: the width of the buckets in nanoseconds, the number of buckets, or
        /// the step of the grid in nanoseconds; otherwise 0.
        pub size: u64 = Varint,
        /// Maximum number of rows, events and buckets of the page; 0 lets the engine choose.
        pub limit: u32 = Varint,
        /// Position at which the page begins; `None` for the first page.
        pub from: Option<HistoryCursor> = Optional<FROM, Inner>,
        /// Selects updates and events after this position.
        pub after: Option<Position> = Optional<POSITION, Inner>,
        /// True to add the covered time and the time-weighted mean to buckets.
        pub durations: bool = Flag<DURATIONS>,
    }
}

impl HistoryHead {
    /// Returns the head for a query, whose patterns are sent as the items.
    pub fn of(query: &HistoryQuery) -> Self {
        let step = |grid: Grid| grid.0.map_or(0, NonZeroU64::get);
        let (form, size) = match query.form {
            HistoryForm::Rows => (0, 0),
            HistoryForm::Last => (1, 0),
            HistoryForm::Buckets(width) => (2, width.get()),
            HistoryForm::Points(points) => (3, u64::from(points)),
            HistoryForm::Total => (4, 0),
            HistoryForm::Interpolated(grid) => (5, step(grid)),
            HistoryForm::Stepped(grid) => (6, step(grid)),
        };
        Self {
            since: query.since,
            until: query.until,
            form,
            size,
            limit: query.limit,
            from: query.from.clone(),
            after: query.after,
            durations: query.durations,
        }
    }

    /// Returns the form that the query requests; `None` if this version does not know the form, or
    /// if its buckets have no width.
    pub fn query_form(&self) -> Option<HistoryForm> {
        match self.form {
            0 => Some(HistoryForm::Rows),
            1 => Some(HistoryForm::Last),
            2 => NonZeroU64::new(self.size).map(HistoryForm::Buckets),
            3 => Some(HistoryForm::Points(
                u32::try_from(self.size).unwrap_or(u32::MAX),
            )),
            4 => Some(HistoryForm::Total),
            5 => Some(HistoryForm::Interpolated(Grid(NonZeroU64::new(self.size)))),
            6 => Some(HistoryForm::Stepped(Grid(NonZeroU64::new(self.size)))),
            _ => None,
        }
    }
}

record! {
    #[derive(Copy, Eq)]
    pub struct HistoryPattern<'a> {
        /// Selects variables by their names. The engine checks the pattern.
        pub pattern: &'a str = Name,
    }
}

list_frame! {
    HistoryFrameForm: History, HistoryFrame, HistoryBuilder,
    head HistoryHead, item HistoryPattern<'a>, empty_frame kept, items "patterns"
}

record! {
    #[derive(Eq, Default)]
    pub struct HistoryRowsHead<'a> {
        /// Position at which the next page begins; `None` if this is the last page.
        pub next: Option<HistoryCursor> = FlagsThen<Optional<NEXT, Inner>, NEXT>,
        /// The place where the history is stored and any problem of the store, in a sentence.
        pub state: &'a str = Text<{ 4 * SENTENCE_BYTES_MAX }>,
    }
}

record! {
    impl HistorySeries {
        variable: String = Name,
        data_type: DataType = Type as "type",
        units: String = Name,
        data: SeriesData = Recorded,
    }
}

list_frame! {
    HistoryRowsForm: HistoryRows, HistoryRowsFrame, HistoryRowsBuilder,
    head HistoryRowsHead<'a>, item HistorySeries, empty_frame kept, items "series"
}

/// The width of the buckets, or 0 for rows; then the rows or the buckets, preceded by their size.
#[derive(Debug)]
enum Recorded {}

forms! {
    Recorded: SeriesData, 2,
        |out, data, _| put_data(data, out),
        |payload, _| read_data(payload),
        |data, name, to| {
            to.field("width", FieldValue::NumberAsText(width_of(data)));
            let mut bytes = Vec::new();
            put_content(data, &mut bytes);
            to.field(name, FieldValue::Bytes(&bytes));
        },
        |source, _| sample_data(source);
}

fn width_of(data: &SeriesData) -> u64 {
    match data {
        SeriesData::Rows(_) => 0,
        // Buckets always have a width, because a width of 0 would mean rows.
        SeriesData::Buckets { width, .. } => (*width).max(1),
    }
}

fn put_content(data: &SeriesData, out: &mut Vec<u8>) {
    match data {
        SeriesData::Rows(rows) => encode_rows(rows, 0, 0, out),
        SeriesData::Buckets { buckets, .. } => encode_buckets(buckets, out),
    }
}

fn put_data(data: &SeriesData, out: &mut Vec<u8>) {
    put_varint(out, width_of(data));
    put_sized(out, |out| put_content(data, out));
}

fn read_data(payload: &mut Payload<'_>) -> Result<SeriesData, DecodeError> {
    let width = payload.varint()?;
    let mut content = payload.sized()?;
    let data = match width {
        0 => SeriesData::Rows(content.read(decode_rows)?),
        width => SeriesData::Buckets {
            width,
            buckets: content.read(decode_buckets)?,
        },
    };
    content.finish()?;
    Ok(data)
}

#[cfg(test)]
fn sample_data(source: &mut Source<'_>) -> SeriesData {
    let count = source.number() % 5;
    if source.bool() {
        let bucket = |_| {
            let mut bucket = Bucket::new(source.number() as i64);
            bucket.add(source.number() as f64);
            bucket.bad = source.number();
            bucket.hold(source.number() as f64, source.number());
            bucket
        };
        let width = 7;
        let buckets = (0..count).map(bucket).collect();
        return SeriesData::Buckets { width, buckets };
    }
    let mut rows = Rows::new(source.bool().then_some(8));
    for _ in 0..count {
        let value = match rows.word_bytes() {
            Some(_) => source.number().to_le_bytes().to_vec(),
            None => source.text().as_bytes().to_vec(),
        };
        let key = sample_key(source);
        let delay = source.number() as i64;
        let quality = Quality::from_bits(source.number() as u32);
        rows.push(&Row {
            key,
            delay,
            quality,
            value: &value,
        });
        if source.bool() {
            let event = HistoryEvent::from_parts(source.number() as u8, 3);
            rows.push_event(HistoryEventRow { key, event });
        }
    }
    SeriesData::Rows(rows)
}

#[cfg(test)]
fn sample_key(source: &mut Source<'_>) -> RowKey {
    RowKey {
        time: source.number() as i64,
        epoch: source.number(),
        sequence: source.number(),
    }
}
