//! Stores the states of alarms, and their journal.

use std::collections::HashSet;

use rusqlite::{Row, Transaction, params};
use trunkline_engine::store::LogBound;
use trunkline_types::alarm::{
    AlarmEntry, AlarmJournalPage, AlarmJournalQuery, AlarmRecord, AlarmState, JournalEvent,
    SavedAlarm,
};
use trunkline_types::{LibraryDefinition, Name, Timestamp};

use crate::error::Error;
use crate::log::Log;
use crate::retained::name_range;

/// The journal in the table `alarm_journal`.
pub(crate) const JOURNAL: Log = Log {
    table: "alarm_journal",
    noun: "the alarm journal",
};

/// The columns of an [`AlarmRecord`], in both tables.
const RECORD_COLUMNS: &str = "state, is_active, value, operand, raised, cleared, acknowledged, \
                      acknowledged_by, comment, shelved_until";
/// The columns of the table `alarm_state` before the columns of the record.
const STATE_COLUMNS: &str = "variable, alarm, definition, process, hidden, delayed_since";
/// The columns of the table `alarm_journal` before the columns of the record.
const ENTRY_COLUMNS: &str = "number, at, event, count, variable, alarm, priority, area, description, \
                     from_state, who, remark";

/// Deletes the stored state of an alarm.
const DELETE: &str = "DELETE FROM alarm_state WHERE variable = ?1 AND alarm = ?2";

/// Number of columns in [`RECORD_COLUMNS`].
const RECORD_COLUMN_COUNT: usize = 10;

/// Returns the placeholders `?1, ?2, ..` for `count` columns.
fn placeholders(count: usize) -> String {
    let placeholders: Vec<String> = (1..=count).map(|number| format!("?{number}")).collect();
    placeholders.join(", ")
}

/// Replaces -0.0 with 0.0. SQLite stores -0.0 as 0.0, which would no longer match the checksum of the row.
fn without_negative_zero(number: Option<f64>) -> Option<f64> {
    number.map(|number| number + 0.0)
}

fn nanos(time: Option<Timestamp>) -> Option<i64> {
    time.map(Timestamp::as_nanos)
}

pub(crate) fn put(transaction: &Transaction<'_>, states: &[SavedAlarm]) -> Result<(), Error> {
    let placeholders = placeholders(6 + RECORD_COLUMN_COUNT);
    let sql = format!(
        "INSERT OR REPLACE INTO alarm_state ({STATE_COLUMNS}, {RECORD_COLUMNS}, sum)
         VALUES ({placeholders}, row_sum({placeholders}))"
    );
    let mut insert = transaction.prepare_cached(&sql)?;
    let mut delete = transaction.prepare_cached(DELETE)?;
    for state in states {
        if state.is_gone() {
            delete.execute([&state.variable, &state.alarm])?;
            continue;
        }
        let [shelved, suppressed, out_of_service] = state.hidden.map(u8::from);
        let record = &state.record;
        insert.execute(params![
            state.variable,
            state.alarm,
            state.definition,
            state.process.number(),
            shelved | suppressed << 1 | out_of_service << 2,
            nanos(state.delayed_since),
            record.state.number(),
            record.is_active,
            without_negative_zero(record.value),
            without_negative_zero(record.operand),
            nanos(record.raised),
            nanos(record.cleared),
            nanos(record.acknowledged),
            record.acknowledged_by,
            record.comment,
            nanos(record.shelved_until),
        ])?;
    }
    Ok(())
}

pub(crate) fn read_library(
    transaction: &Transaction<'_>,
    library: &str,
) -> Result<Vec<SavedAlarm>, Error> {
    let sql = format!(
        "SELECT {STATE_COLUMNS}, {RECORD_COLUMNS} FROM alarm_state
         WHERE variable >= ?1 AND variable < ?2
           AND sum = row_sum({STATE_COLUMNS}, {RECORD_COLUMNS})"
    );
    let mut statement = transaction.prepare_cached(&sql)?;
    let mut rows = statement.query(name_range(library))?;
    let mut states = Vec::new();
    while let Some(row) = rows.next()? {
        let hidden: u8 = row.get(4)?;
        states.push(SavedAlarm {
            variable: row.get(0)?,
            alarm: row.get(1)?,
            definition: row.get(2)?,
            process: state(row, 3)?,
            hidden: [1, 2, 4].map(|bit| hidden & bit != 0),
            delayed_since: time(row, 5)?,
            record: record(row, 6)?,
        });
    }
    Ok(states)
}

/// Deletes the states of alarms that the library no longer has.
pub(crate) fn keep_only(
    transaction: &Transaction<'_>,
    library: &LibraryDefinition,
) -> Result<(), Error> {
    let stored = read_library(transaction, &library.name)?;
    if stored.is_empty() {
        return Ok(());
    }
    let mut defined = HashSet::new();
    for variable in &library.variables {
        let Ok(name) = Name::join(&library.name, &variable.path) else {
            continue;
        };
        for alarm in &variable.properties.alarms {
            defined.insert((name.as_str().to_owned(), alarm.name.clone()));
        }
    }
    let mut delete = transaction.prepare_cached(DELETE)?;
    for state in stored {
        let key = (state.variable, state.alarm);
        if !defined.contains(&key) {
            delete.execute([key.0, key.1])?;
        }
    }
    Ok(())
}

pub(crate) fn remove_all(transaction: &Transaction<'_>, library: &str) -> Result<(), Error> {
    transaction
        .prepare_cached("DELETE FROM alarm_state WHERE variable >= ?1 AND variable < ?2")?
        .execute(name_range(library))?;
    Ok(())
}

pub(crate) fn append(
    transaction: &Transaction<'_>,
    entries: &[AlarmEntry],
    bound: LogBound,
) -> Result<u64, Error> {
    let end = JOURNAL.end(transaction)?;
    let new = entries.iter().filter(|entry| entry.number > end);
    insert(transaction, new)?;
    JOURNAL.trim(transaction, bound, |removal| {
        let event = JournalEvent::Removed(removal.count());
        let text = removal.to_string();
        let entry = AlarmEntry::of_journal(removal.number, bound.now, event, text);
        insert(transaction, [&entry].into_iter())
    })
}

fn insert<'e>(
    transaction: &Transaction<'_>,
    entries: impl Iterator<Item = &'e AlarmEntry>,
) -> Result<(), Error> {
    let placeholders = placeholders(12 + RECORD_COLUMN_COUNT);
    let sql = format!(
        "INSERT INTO alarm_journal ({ENTRY_COLUMNS}, {RECORD_COLUMNS}, sum)
         VALUES ({placeholders}, row_sum({placeholders}))"
    );
    let mut insert = transaction.prepare_cached(&sql)?;
    for entry in entries {
        let (event, count) = entry.event.parts();
        let record = &entry.record;
        insert.execute(params![
            entry.number.cast_signed(),
            entry.when.as_nanos(),
            event,
            count.cast_signed(),
            entry.variable,
            entry.alarm,
            entry.priority,
            entry.area,
            entry.description,
            entry.from.number(),
            entry.who,
            entry.comment,
            record.state.number(),
            record.is_active,
            without_negative_zero(record.value),
            without_negative_zero(record.operand),
            nanos(record.raised),
            nanos(record.cleared),
            nanos(record.acknowledged),
            record.acknowledged_by,
            record.comment,
            nanos(record.shelved_until),
        ])?;
    }
    Ok(())
}

pub(crate) fn page(
    transaction: &Transaction<'_>,
    query: &AlarmJournalQuery,
) -> Result<AlarmJournalPage, Error> {
    let columns = format!("{ENTRY_COLUMNS}, {RECORD_COLUMNS}");
    // All entries within the requested time have numbers from `first` to `last`.
    let is_continued = query.from.is_some();
    let mut first = match query.since.filter(|_| !is_continued || query.newest_first) {
        Some(since) => JOURNAL.first_since(transaction, since)?.unwrap_or(u64::MAX),
        None => 0,
    };
    let mut last = match query.until.filter(|_| !is_continued || !query.newest_first) {
        Some(until) => JOURNAL.last_before(transaction, until)?.unwrap_or(0),
        None => u64::MAX,
    };
    let order = match query.newest_first {
        true => {
            last = query.from.map_or(last, |from| from.min(last));
            "DESC"
        }
        false => {
            first = query.from.map_or(first, |from| from.max(first));
            "ASC"
        }
    };
    let sql = format!(
        "SELECT {columns}, sum = row_sum({columns}) FROM alarm_journal
         WHERE number BETWEEN ?1 AND ?2 ORDER BY number {order}"
    );
    let mut statement = transaction.prepare_cached(&sql)?;
    let numbers = [first, last].map(|number| i64::try_from(number).unwrap_or(i64::MAX));
    let rows = statement.query_map(numbers, |row| Ok(entry(row)))?;
    let (entries, next) = query.take_page(rows.map(|row| row?))?;
    Ok(AlarmJournalPage {
        entries,
        next,
        removed: JOURNAL.number_range(transaction)?.0 - 1,
        state: String::new(),
    })
}

fn entry(row: &Row<'_>) -> Result<AlarmEntry, Error> {
    let number = row.get::<_, i64>(0)?.cast_unsigned();
    if !row.get::<_, bool>(12 + RECORD_COLUMN_COUNT)? {
        let text = "this entry is damaged in the store".to_owned();
        let lost = JournalEvent::Lost(1);
        return Ok(AlarmEntry::of_journal(
            number,
            Timestamp::UNIX_EPOCH,
            lost,
            text,
        ));
    }
    Ok(AlarmEntry {
        number,
        when: Timestamp::from_nanos(row.get(1)?),
        event: JournalEvent::from_parts(row.get(2)?, row.get::<_, i64>(3)?.cast_unsigned()),
        variable: row.get(4)?,
        alarm: row.get(5)?,
        priority: row.get(6)?,
        area: row.get(7)?,
        description: row.get(8)?,
        from: state(row, 9)?,
        who: row.get(10)?,
        comment: row.get(11)?,
        record: record(row, 12)?,
    })
}

/// Reads the columns of [`RECORD_COLUMNS`], starting at column `at`.
fn record(row: &Row<'_>, at: usize) -> Result<AlarmRecord, Error> {
    Ok(AlarmRecord {
        state: state(row, at)?,
        is_active: row.get(at + 1)?,
        value: row.get(at + 2)?,
        operand: row.get(at + 3)?,
        raised: time(row, at + 4)?,
        cleared: time(row, at + 5)?,
        acknowledged: time(row, at + 6)?,
        acknowledged_by: row.get(at + 7)?,
        comment: row.get(at + 8)?,
        shelved_until: time(row, at + 9)?,
    })
}

fn state(row: &Row<'_>, column: usize) -> Result<AlarmState, Error> {
    let number: u8 = row.get(column)?;
    AlarmState::from_number(number)
        .ok_or_else(|| Error::Damaged(format!("{number} is not an alarm state")))
}

fn time(row: &Row<'_>, column: usize) -> Result<Option<Timestamp>, Error> {
    Ok(row
        .get::<_, Option<i64>>(column)?
        .map(Timestamp::from_nanos))
}
