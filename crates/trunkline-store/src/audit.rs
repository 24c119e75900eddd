//! Stores the audit.

use rusqlite::{Row, Transaction, params};
use trunkline_engine::store::LogBound;
use trunkline_types::{
    AuditAction, AuditEntry, AuditOutcome, AuditPage, AuditQuery, Position, Timestamp,
};

use crate::error::Error;
use crate::log::Log;

/// The audit in the table `audit`.
pub(crate) const AUDIT: Log = Log {
    table: "audit",
    noun: "the audit",
};

pub(crate) fn append(
    transaction: &Transaction<'_>,
    entries: &[AuditEntry],
    bound: LogBound,
) -> Result<u64, Error> {
    let end = AUDIT.end(transaction)?;
    insert(
        transaction,
        entries.iter().filter(|entry| entry.number > end),
    )?;
    AUDIT.trim(transaction, bound, |removal| {
        let entry = AuditEntry::of_removal(removal, bound.now);
        insert(transaction, [&entry].into_iter())
    })
}

fn insert<'e>(
    transaction: &Transaction<'_>,
    entries: impl Iterator<Item = &'e AuditEntry>,
) -> Result<(), Error> {
    let mut insert = transaction.prepare_cached(
        "INSERT INTO audit
         (number, at, who, origin, action, name, type, old, new, outcome, epoch, count, sentence,
          sum)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13,
                 row_sum(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13))",
    )?;
    for entry in entries {
        let (outcome, epoch, count, sentence) = outcome_columns(&entry.outcome);
        insert.execute(params![
            entry.number.cast_signed(),
            entry.when.as_nanos(),
            entry.who,
            entry.from,
            entry.action.number(),
            entry.name,
            entry.data_type,
            entry.old,
            entry.new,
            outcome,
            epoch.cast_signed(),
            count.cast_signed(),
            sentence,
        ])?;
    }
    Ok(())
}

pub(crate) fn page(transaction: &Transaction<'_>, query: &AuditQuery) -> Result<AuditPage, Error> {
    const COLUMNS: &str = "SELECT number, at, who, origin, action, name, type, old, new, outcome, \
                           epoch, count, sentence, \
                           sum = row_sum(number, at, who, origin, action, name, type, old, new, \
                                         outcome, epoch, count, sentence) FROM audit";
    let (end, sql) = match query.newest_first {
        true => (
            u64::MAX,
            format!("{COLUMNS} WHERE number <= ?1 ORDER BY number DESC"),
        ),
        false => (0, format!("{COLUMNS} WHERE number >= ?1 ORDER BY number")),
    };
    let from = i64::try_from(query.from.unwrap_or(end)).unwrap_or(i64::MAX);
    let mut statement = transaction.prepare_cached(&sql)?;
    let rows = statement.query_map([from], |row| Ok(entry(row)))?;
    let (entries, next) = query.take_page(rows.map(|row| row?))?;
    Ok(AuditPage {
        entries,
        next,
        removed: AUDIT.number_range(transaction)?.0 - 1,
        state: String::new(),
    })
}

/// Returns the columns of an outcome: the number of its kind, the epoch, the sequence or count, the sentence.
fn outcome_columns(outcome: &AuditOutcome) -> (i64, u64, u64, &str) {
    match outcome {
        AuditOutcome::Done => (1, 0, 0, ""),
        AuditOutcome::Applied(position) => (2, position.epoch, position.sequence, ""),
        AuditOutcome::Unchanged(position) => (3, position.epoch, position.sequence, ""),
        AuditOutcome::Refused(rule) => (4, 0, 0, rule),
        AuditOutcome::Unknown(cause) => (5, 0, 0, cause),
        AuditOutcome::Lost(count) => (6, 0, *count, ""),
    }
}

fn entry(row: &Row<'_>) -> Result<AuditEntry, Error> {
    let number = |column| row.get(column).map(i64::cast_unsigned);
    if !row.get::<_, bool>(13)? {
        return Ok(damaged(number(0)?));
    }
    let position = || -> Result<Position, Error> {
        Ok(Position {
            epoch: number(10)?,
            sequence: number(11)?,
        })
    };
    let outcome = match row.get::<_, i64>(9)? {
        1 => AuditOutcome::Done,
        2 => AuditOutcome::Applied(position()?),
        3 => AuditOutcome::Unchanged(position()?),
        4 => AuditOutcome::Refused(row.get(12)?),
        5 => AuditOutcome::Unknown(row.get(12)?),
        6 => AuditOutcome::Lost(number(11)?),
        other => {
            let problem = format!("{other} is not an audit outcome");
            return Err(Error::Damaged(problem));
        }
    };
    Ok(AuditEntry {
        number: number(0)?,
        when: Timestamp::from_nanos(row.get(1)?),
        who: row.get(2)?,
        from: row.get(3)?,
        action: AuditAction::from_number(row.get(4)?),
        name: row.get(5)?,
        data_type: row.get(6)?,
        old: row.get(7)?,
        new: row.get(8)?,
        outcome,
    })
}

/// Returns the replacement for an entry that does not match its checksum. None of the entry's content can
/// be trusted.
fn damaged(number: u64) -> AuditEntry {
    AuditEntry {
        number,
        when: Timestamp::UNIX_EPOCH,
        who: String::new(),
        from: String::new(),
        action: AuditAction::Lost,
        name: String::new(),
        data_type: String::new(),
        old: String::new(),
        new: "this entry is damaged in the store".to_owned(),
        outcome: AuditOutcome::Lost(1),
    }
}
