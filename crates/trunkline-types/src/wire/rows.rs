//! Encodes and decodes the rows of a history, for its log and for frames.
//!
//! ```text
//! count       varint, number of updates
//! form        u8: 0 values of any length, 1..8 bytes per value; + 16 if there are delays
//! times       count zigzags, each the difference from the previous time; for the first time, from 0
//! delays      count zigzags, if there are any
//! epochs      steps: varint number, then each (varint rows since the previous step, u64)
//! sequences   steps of varint sequences
//! qualities   steps of u32
//! values      count values of the same length; or count varint lengths, then the bytes
//! events      varint number, then each (zigzag time, u64 epoch, varint sequence, u8 event,
//!             varint count)
//! ```

use super::{DecodeError, Reader, put_varint, put_zigzag};
use crate::history::{Columns, HistoryEvent, HistoryEventRow, RowKey, Rows};

/// Maximum number of rows, and also of events, in one encoded sequence.
pub const ROWS_MAX: usize = 1 << 24;
const DELAYS: u8 = 16;

/// Appends the rows from `first` on, and the events from `first_mark` on.
pub fn encode_rows(rows: &Rows, first: usize, first_mark: usize, out: &mut Vec<u8>) {
    let first = first.min(rows.len());
    let count = rows.len().saturating_sub(first);
    put_varint(out, count as u64);
    let delays = rows.delays().get(first..).unwrap_or_default();
    let word_bytes = rows.word_bytes().unwrap_or(0);
    let form = word_bytes as u8 | if delays.is_empty() { 0 } else { DELAYS };
    out.push(form);
    let mut previous = 0_i64;
    for time in rows.times().get(first..).unwrap_or_default() {
        put_zigzag(out, time.wrapping_sub(previous));
        previous = *time;
    }
    for delay in delays {
        put_zigzag(out, *delay);
    }
    let (epochs, sequences, qualities) = match count {
        0 => (&[][..], &[][..], &[][..]),
        _ => (
            rows.epochs().parts(),
            rows.sequences().parts(),
            rows.qualities().parts(),
        ),
    };
    put_steps(out, epochs, first, |out, epoch, _| {
        out.extend_from_slice(&epoch.to_le_bytes());
    });
    put_steps(out, sequences, first, |out, sequence, skipped| {
        put_varint(out, sequence.wrapping_add(skipped as u64));
    });
    put_steps(out, qualities, first, |out, quality, _| {
        out.extend_from_slice(&quality.to_le_bytes());
    });
    match word_bytes {
        0 => put_bytes(out, rows, first),
        8 => {
            for word in rows.words().get(first..).unwrap_or_default() {
                out.extend_from_slice(&word.to_le_bytes());
            }
        }
        bytes => {
            for word in rows.words().get(first..).unwrap_or_default() {
                out.extend_from_slice(word.to_le_bytes().get(..bytes).unwrap_or_default());
            }
        }
    }
    let marks = rows.events().get(first_mark..).unwrap_or_default();
    put_varint(out, marks.len() as u64);
    for mark in marks {
        let (event, count) = mark.event.parts();
        put_zigzag(out, mark.key.time);
        out.extend_from_slice(&mark.key.epoch.to_le_bytes());
        put_varint(out, mark.key.sequence);
        out.push(event);
        put_varint(out, count);
    }
}

fn put_bytes(out: &mut Vec<u8>, rows: &Rows, first: usize) {
    let (ends, bytes) = rows.values();
    let start = match first.checked_sub(1) {
        Some(previous) => ends.get(previous).copied().unwrap_or(0),
        None => 0,
    };
    let mut previous = start;
    for end in ends.get(first..).unwrap_or_default() {
        put_varint(out, u64::from(end.wrapping_sub(previous)));
        previous = *end;
    }
    out.extend_from_slice(bytes.get(start as usize..).unwrap_or_default());
}

/// Appends the steps of the rows from `first` on. Calls `put` with the value of each step and the
/// number of its rows before `first`.
fn put_steps<T: Copy>(
    out: &mut Vec<u8>,
    steps: &[(u32, T)],
    first: usize,
    put: impl Fn(&mut Vec<u8>, T, usize),
) {
    let step = steps.partition_point(|(row, _)| *row as usize <= first);
    let steps = steps.get(step.saturating_sub(1)..).unwrap_or_default();
    put_varint(out, steps.len() as u64);
    let mut previous = first;
    for (row, value) in steps {
        let row = *row as usize;
        let start = row.max(first);
        put_varint(out, start.wrapping_sub(previous) as u64);
        put(out, *value, start.wrapping_sub(row));
        previous = start;
    }
}

/// Reads rows written by [`encode_rows`].
///
/// # Errors
/// [`DecodeError`] if the bytes are not the rows of a history.
pub fn decode_rows(reader: &mut Reader<'_>) -> Result<Rows, DecodeError> {
    let offset = reader.offset();
    let count = reader.count("a number of rows", ROWS_MAX, 1)?;
    let form = reader.u8()?;
    let word_bytes = form & 15;
    if word_bytes > 8 || form & !(15 | DELAYS) != 0 {
        return Err(DecodeError::Unexpected {
            offset,
            expected: "a valid form of rows",
            found: u64::from(form),
        });
    }
    let mut columns = Columns {
        word_bytes,
        ..Columns::default()
    };
    let mut time = 0_i64;
    columns.times.reserve_exact(count);
    for _ in 0..count {
        time = time.wrapping_add(reader.zigzag()?);
        columns.times.push(time);
    }
    if form & DELAYS != 0 {
        columns.delays.reserve_exact(count);
        for _ in 0..count {
            columns.delays.push(reader.zigzag()?);
        }
    }
    columns.epochs = read_steps(reader, Reader::u64)?;
    columns.sequences = read_steps(reader, Reader::varint)?;
    columns.qualities = read_steps(reader, Reader::u32)?;
    match word_bytes {
        0 => read_bytes(reader, count, &mut columns)?,
        bytes => {
            let bytes = usize::from(bytes);
            let all = reader.bytes(count.saturating_mul(bytes))?;
            columns.words.reserve_exact(count);
            let words = all.chunks_exact(bytes).map(|value| {
                let mut word = [0; 8];
                for (target, byte) in word.iter_mut().zip(value) {
                    *target = *byte;
                }
                u64::from_le_bytes(word)
            });
            columns.words.extend(words);
        }
    }
    let marks = reader.count("a number of events", ROWS_MAX, 12)?;
    columns.events.reserve_exact(marks);
    for _ in 0..marks {
        let key = RowKey {
            time: reader.zigzag()?,
            epoch: reader.u64()?,
            sequence: reader.varint()?,
        };
        let (event, count) = (reader.u8()?, reader.varint()?);
        columns.events.push(HistoryEventRow {
            key,
            event: HistoryEvent::from_parts(event, count),
        });
    }
    Rows::from_columns(columns).ok_or(DecodeError::Unexpected {
        offset,
        expected: "columns of the same length",
        found: count as u64,
    })
}

fn read_bytes(
    reader: &mut Reader<'_>,
    count: usize,
    columns: &mut Columns,
) -> Result<(), DecodeError> {
    let offset = reader.offset();
    columns.ends.reserve_exact(count);
    let mut end = 0_u64;
    for _ in 0..count {
        end = end.saturating_add(reader.varint()?);
        let Ok(end) = u32::try_from(end) else {
            return Err(DecodeError::TooLong {
                offset,
                what: "a length of values",
                length: end,
                max: u64::from(u32::MAX),
            });
        };
        columns.ends.push(end);
    }
    columns.bytes = reader.bytes(end as usize)?.to_vec();
    Ok(())
}

fn read_steps<'a, T>(
    reader: &mut Reader<'a>,
    read: impl Fn(&mut Reader<'a>) -> Result<T, DecodeError>,
) -> Result<Vec<(u32, T)>, DecodeError> {
    let count = reader.count("a number of steps", ROWS_MAX, 2)?;
    let mut steps = Vec::with_capacity(count);
    let mut row = 0_u64;
    for _ in 0..count {
        let offset = reader.offset();
        row = row.saturating_add(reader.varint()?);
        let Ok(first) = u32::try_from(row) else {
            return Err(DecodeError::TooLong {
                offset,
                what: "a row",
                length: row,
                max: u64::from(u32::MAX),
            });
        };
        steps.push((first, read(reader)?));
    }
    Ok(steps)
}
