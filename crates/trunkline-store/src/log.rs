//! Manages a table of numbered entries: the audit trail or the alarm journal. Only the oldest entries can be
//! removed.

use rusqlite::{OptionalExtension, Transaction};
use trunkline_engine::store::LogBound;
use trunkline_types::Timestamp;
use trunkline_types::audit::Removal;

use crate::error::Error;

/// A table with the columns `number` and `at`.
#[derive(Clone, Copy)]
pub(crate) struct Log {
    pub(crate) table: &'static str,
    /// Name of the log in messages.
    pub(crate) noun: &'static str,
}

impl Log {
    /// Returns the number of the last entry; 0 if there is none.
    pub(crate) fn end(self, transaction: &Transaction<'_>) -> Result<u64, Error> {
        Ok(self.number_range(transaction)?.1)
    }

    /// Returns the numbers of the first and the last entry; `(1, 0)` if there is none.
    pub(crate) fn number_range(self, transaction: &Transaction<'_>) -> Result<(u64, u64), Error> {
        let Self { table, noun } = self;
        let sql = format!("SELECT ifnull(min(number), 1), ifnull(max(number), 0) FROM {table}");
        let mut statement = transaction.prepare_cached(&sql)?;
        let (first, last): (i64, i64) =
            statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        match (u64::try_from(first), u64::try_from(last)) {
            (Ok(first @ 1..), Ok(last)) => Ok((first, last)),
            _ => Err(Error::Damaged(format!(
                "{noun} has an entry with an invalid number"
            ))),
        }
    }

    /// Removes the oldest entries beyond the bound, after `insert` has appended the entry that reports
    /// the removal. Returns the number of the last entry.
    pub(crate) fn trim(
        self,
        transaction: &Transaction<'_>,
        bound: LogBound,
        insert: impl FnOnce(&Removal) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        let (first, last) = self.number_range(transaction)?;
        let Some(end) = self.last_to_remove(transaction, bound, (first, last))? else {
            return Ok(last);
        };
        let times = self.time_of(transaction, first)?..=self.time_of(transaction, end)?;
        let removal = Removal {
            number: last + 1,
            numbers: first..=end,
            times,
        };
        insert(&removal)?;
        transaction
            .prepare_cached(&format!("DELETE FROM {} WHERE number <= ?1", self.table))?
            .execute([end.cast_signed()])?;
        Ok(removal.number)
    }

    /// Returns the number of the last entry that must be removed. The last entry of the log is never
    /// removed.
    fn last_to_remove(
        self,
        transaction: &Transaction<'_>,
        bound: LogBound,
        (first, last): (u64, u64),
    ) -> Result<Option<u64>, Error> {
        if last <= first {
            return Ok(None);
        }
        let by_count = bound.remove_through(first, last);
        let by_age = match bound.remove_before(self.time_of(transaction, first)?) {
            None => None,
            Some(before) => {
                let first_kept = self.first_since(transaction, before)?;
                Some(first_kept.unwrap_or(last) - 1)
            }
        };
        let end = by_count.max(by_age).map(|end| end.min(last - 1));
        Ok(end.filter(|end| *end >= first))
    }

    /// Returns the smallest number of the entries at or after this time. Because of the plus sign in the
    /// query, SQLite can use an index on `at`, if there is one, instead of scanning the numbers.
    pub(crate) fn first_since(
        self,
        transaction: &Transaction<'_>,
        time: Timestamp,
    ) -> Result<Option<u64>, Error> {
        let sql = format!("SELECT min(+number) FROM {} WHERE at >= ?1", self.table);
        let mut statement = transaction.prepare_cached(&sql)?;
        let number: Option<i64> = statement.query_row([time.as_nanos()], |row| row.get(0))?;
        Ok(number.map(i64::cast_unsigned))
    }

    /// Returns the greatest number of the entries before this time.
    pub(crate) fn last_before(
        self,
        transaction: &Transaction<'_>,
        time: Timestamp,
    ) -> Result<Option<u64>, Error> {
        let sql = format!("SELECT max(+number) FROM {} WHERE at < ?1", self.table);
        let mut statement = transaction.prepare_cached(&sql)?;
        let number: Option<i64> = statement.query_row([time.as_nanos()], |row| row.get(0))?;
        Ok(number.map(i64::cast_unsigned))
    }

    fn time_of(self, transaction: &Transaction<'_>, number: u64) -> Result<Timestamp, Error> {
        let sql = format!("SELECT at FROM {} WHERE number = ?1", self.table);
        let mut statement = transaction.prepare_cached(&sql)?;
        let at = statement.query_row([number.cast_signed()], |row| row.get(0));
        at.optional()?
            .map(Timestamp::from_nanos)
            .ok_or_else(|| Error::Damaged(format!("{} lacks entry {number}", self.noun)))
    }
}
