//! Iterates over rows and events in key order, and provides the numeric value of a row.

use trunkline_types::DataType;
use trunkline_types::history::{HistoryEventRow, RowKey, Rows};

use crate::files::schema::{Storage, number_of};

/// An entry of a series: an update or an event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// The index of an update.
    Row(usize),
    Event(HistoryEventRow),
}

impl Step {
    /// Returns the key of the entry. `rows` are the rows from which the step comes.
    pub(crate) fn key(&self, rows: &Rows) -> Option<RowKey> {
        match self {
            Self::Row(row) => rows.key(*row),
            Self::Event(mark) => Some(mark.key),
        }
    }
}

/// Iterates over sorted rows and events in key order.
pub(crate) fn steps(rows: &Rows) -> impl Iterator<Item = Step> + '_ {
    let (mut row, mut marks) = (0, rows.events().iter().peekable());
    let mut stop = None;
    std::iter::from_fn(move || {
        let mark = marks.peek().copied();
        let end = match (stop, mark) {
            (Some(stop), _) => stop,
            (None, Some(mark)) => *stop.insert(rows.seek(mark.key)),
            (None, None) => rows.len(),
        };
        if row < end {
            row += 1;
            return Some(Step::Row(row - 1));
        }
        stop = None;
        marks.next().copied().map(Step::Event)
    })
}

/// The value of a row for calculations.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum RowValue {
    /// The quality is bad, there is no value, or the value is NaN.
    Bad,
    Number(f64),
    /// A value that is not a number.
    Other,
}

impl RowValue {
    /// Returns the value, or NaN if it is not a number; `None` if it is bad.
    pub(crate) fn value(self) -> Option<f64> {
        match self {
            Self::Bad => None,
            Self::Number(number) => Some(number),
            Self::Other => Some(f64::NAN),
        }
    }
}

/// Returns true if values of this data type count as numbers in summaries and buckets.
pub(crate) fn has_numbers(data_type: &DataType) -> bool {
    match Storage::of(data_type) {
        Storage::Number | Storage::Integer | Storage::Enum => true,
        Storage::Text | Storage::Bytes | Storage::Struct | Storage::Array => false,
    }
}

/// Returns the value of a row for calculations.
pub(crate) fn content_of(rows: &Rows, row: usize, data_type: &DataType) -> RowValue {
    let quality = rows.quality(row);
    if quality.is_bad() || !quality.has_value() {
        return RowValue::Bad;
    }
    if !has_numbers(data_type) {
        return RowValue::Other;
    }
    match rows
        .words()
        .get(row)
        .map(|word| number_of(*word, data_type))
    {
        Some(number) if !number.is_nan() => RowValue::Number(number),
        _ => RowValue::Bad,
    }
}

/// Returns the smallest key greater than this one.
pub(crate) fn next_key(key: RowKey) -> RowKey {
    match (key.sequence.checked_add(1), key.epoch.checked_add(1)) {
        (Some(sequence), _) => RowKey { sequence, ..key },
        (None, Some(epoch)) => RowKey {
            epoch,
            sequence: 0,
            ..key
        },
        (None, None) => key.time.checked_add(1).map_or(key, first_key),
    }
}

/// Returns the largest key less than this one.
pub(crate) fn previous_key(key: RowKey) -> RowKey {
    match (key.sequence.checked_sub(1), key.epoch.checked_sub(1)) {
        (Some(sequence), _) => RowKey { sequence, ..key },
        (None, Some(epoch)) => RowKey {
            epoch,
            sequence: u64::MAX,
            ..key
        },
        (None, None) => key.time.checked_sub(1).map_or(key, last_key),
    }
}

/// Returns the smallest key with this time.
pub(crate) fn first_key(time: i64) -> RowKey {
    RowKey {
        time,
        ..RowKey::default()
    }
}

/// Returns the largest key with this time.
pub(crate) fn last_key(time: i64) -> RowKey {
    RowKey {
        time,
        epoch: u64::MAX,
        sequence: u64::MAX,
    }
}
