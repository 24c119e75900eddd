//! Stores the audit trail as a hash chain.
//!
//! The hash of an entry is computed when the entry is appended, from the hash of the last entry. The table
//! `audit_anchor` has one row: the number and the hash of the last removed entry, to which the oldest
//! remaining entry is linked.

use rusqlite::types::ValueRef;
use rusqlite::{OptionalExtension, Row, Transaction, params};
use trunkline_engine::store::LogBound;
use trunkline_types::audit::{AuditHash, AuditHead, AuditLink};
use trunkline_types::{
    AuditAction, AuditEntry, AuditOutcome, AuditPage, AuditQuery, Position, Tick, Timestamp,
};

use crate::error::Error;
use crate::log::Log;

/// The audit trail in the table `audit`.
pub(crate) const AUDIT: Log = Log {
    table: "audit",
    noun: "the audit",
};

/// The columns of an entry before the hash chain was added, in version 5 of the tables.
pub(crate) const UNCHAINED_COLUMNS: &str = "number, at, who, origin, action, name, type, old, new, \
                                            outcome, epoch, count, sentence";
/// All columns of an entry, except its checksum.
pub(crate) const COLUMNS: &str = "number, at, who, origin, action, name, type, old, new, outcome, \
                                  epoch, count, sentence, monotonic, hash";
/// Refuses changes to an entry, even by other programs.
pub(crate) const IS_NOT_CHANGED: &str = "CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'an entry of the audit is not changed'); END;";

pub(crate) fn append(
    transaction: &Transaction<'_>,
    entries: &[AuditEntry],
    bound: LogBound,
) -> Result<AuditHead, Error> {
    let end = head(transaction)?;
    let new_entries = entries.iter().filter(|entry| entry.number > end.number);
    insert(transaction, end, new_entries)?;
    AUDIT.trim(transaction, bound, |removal| {
        let end = *removal.numbers.end();
        let removed = hash_of(transaction, end)?;
        transaction
            .prepare_cached(
                "UPDATE audit_anchor SET number = ?1, hash = ?2, sum = row_sum(?1, ?2)",
            )?
            .execute(params![end.cast_signed(), removed.0])?;
        let entry = AuditEntry::of_removal(removal, bound.now, Some(removed));
        insert(transaction, head(transaction)?, [&entry].into_iter())
    })?;
    head(transaction)
}

/// Returns the number and the hash of the last entry.
pub(crate) fn head(transaction: &Transaction<'_>) -> Result<AuditHead, Error> {
    let number = AUDIT.end(transaction)?;
    let hash = match number {
        0 => AuditHash::ZERO,
        number => hash_of(transaction, number)?,
    };
    Ok(AuditHead { number, hash })
}

/// Returns the hash of an entry. A damaged hash counts as zero, so that later entries can be stored. The
/// check of the chain reports the damage.
fn hash_of(transaction: &Transaction<'_>, number: u64) -> Result<AuditHash, Error> {
    let mut statement = transaction.prepare_cached("SELECT hash FROM audit WHERE number = ?1")?;
    let hash = statement.query_row([number.cast_signed()], |row| Ok(hash(row.get_ref(0)?)));
    Ok(hash.optional()?.flatten().unwrap_or_default())
}

fn hash(value: ValueRef<'_>) -> Option<AuditHash> {
    match value {
        ValueRef::Blob(bytes) => bytes.try_into().ok().map(AuditHash),
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Text(_) => None,
    }
}

/// Appends entries after the entry `end`.
fn insert<'e>(
    transaction: &Transaction<'_>,
    end: AuditHead,
    entries: impl Iterator<Item = &'e AuditEntry>,
) -> Result<(), Error> {
    const VALUES: &str = "?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15";
    let mut insert = transaction.prepare_cached(&format!(
        "INSERT INTO audit ({COLUMNS}, sum) VALUES ({VALUES}, row_sum({VALUES}))"
    ))?;
    let mut previous = end.hash;
    for entry in entries {
        previous = previous.followed_by(entry);
        let outcome = entry.outcome.parts();
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
            outcome.number,
            outcome.epoch.cast_signed(),
            outcome.count.cast_signed(),
            outcome.sentence,
            entry.monotonic.as_nanos().cast_signed(),
            previous.0,
        ])?;
    }
    Ok(())
}

/// Links the entries of a store of an earlier version, from the oldest to the newest.
pub(crate) fn chain_existing(transaction: &Transaction<'_>) -> Result<(), Error> {
    let numbers = transaction
        .prepare("SELECT number FROM audit ORDER BY number")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<Vec<i64>, _>>()?;
    transaction.execute_batch("DROP TRIGGER audit_is_not_changed")?;
    // A row that was damaged before keeps its wrong checksum.
    let is_intact = format!("sum = row_sum({UNCHAINED_COLUMNS})");
    let mut select = transaction.prepare(&format!(
        "SELECT {COLUMNS}, {is_intact}, NULL FROM audit WHERE number = ?1"
    ))?;
    let mut update = transaction.prepare(&format!(
        "UPDATE audit SET hash = ?2, sum = CASE WHEN {is_intact}
             THEN row_sum({UNCHAINED_COLUMNS}, monotonic, ?2) ELSE sum END WHERE number = ?1"
    ))?;
    let mut previous = AuditHash::ZERO;
    for number in numbers {
        let entry = select.query_row([number], |row| Ok(entry(row)))?;
        let entry = entry.unwrap_or_else(|_| damaged(number.cast_unsigned(), None));
        previous = previous.followed_by(&entry);
        update.execute(params![number, previous.0])?;
    }
    transaction.execute_batch(IS_NOT_CHANGED)?;
    Ok(())
}

/// Returns the query for entries, as [`entry`] reads them, without its conditions.
pub(crate) fn select() -> String {
    format!(
        "SELECT {COLUMNS}, sum = row_sum({COLUMNS}), \
                ifnull((SELECT before.hash FROM audit AS before \
                        WHERE before.number = audit.number - 1), \
                       (SELECT hash FROM audit_anchor)) FROM audit"
    )
}

pub(crate) fn page(transaction: &Transaction<'_>, query: &AuditQuery) -> Result<AuditPage, Error> {
    let select = select();
    let (end, sql) = match query.newest_first {
        true => (
            u64::MAX,
            format!("{select} WHERE number <= ?1 ORDER BY number DESC"),
        ),
        false => (0, format!("{select} WHERE number >= ?1 ORDER BY number")),
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

/// Returns true if the checksum of the row is that of its content.
pub(crate) fn is_intact(row: &Row<'_>) -> Result<bool, Error> {
    Ok(row.get::<_, bool>(15)?)
}

/// Returns the place of a row in the chain; `None` if it has no hash.
pub(crate) fn link(row: &Row<'_>) -> Result<Option<AuditLink>, Error> {
    let [own, previous] = [14, 16].map(|column| row.get_ref(column).map(hash));
    let (own, previous) = (own?, previous?);
    Ok(own.map(|hash| AuditLink {
        previous: previous.unwrap_or_default(),
        hash,
    }))
}

/// Reads a row. Returns an entry of its own kind for a row that does not match its checksum.
pub(crate) fn entry(row: &Row<'_>) -> Result<AuditEntry, Error> {
    let number = |column| row.get(column).map(i64::cast_unsigned);
    let link = link(row)?;
    if !is_intact(row)? {
        return Ok(damaged(number(0)?, link));
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
        monotonic: Tick::from_nanos(number(13)?),
        who: row.get(2)?,
        from: row.get(3)?,
        action: AuditAction::from_number(row.get(4)?),
        name: row.get(5)?,
        data_type: row.get(6)?,
        old: row.get(7)?,
        new: row.get(8)?,
        outcome,
        link,
    })
}

/// Returns the replacement for an entry that does not match its checksum. None of the entry's content can
/// be trusted.
fn damaged(number: u64, link: Option<AuditLink>) -> AuditEntry {
    AuditEntry {
        number,
        when: Timestamp::UNIX_EPOCH,
        monotonic: Tick::ZERO,
        who: String::new(),
        from: String::new(),
        action: AuditAction::Lost,
        name: String::new(),
        data_type: String::new(),
        old: String::new(),
        new: "this entry is damaged in the store".to_owned(),
        outcome: AuditOutcome::Lost(1),
        link,
    }
}
