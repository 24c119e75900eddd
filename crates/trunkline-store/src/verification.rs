//! Checks the hash chain of a stored audit trail.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension, Row};
use trunkline_engine::store::StoreError;
use trunkline_types::audit::{ChainAnchor, ChainCheck, ChainFault, ChainReport};

use crate::audit::{entry, is_intact, link, select};
use crate::damage;
use crate::error::Error;
use crate::schema::{APPLICATION_ID, SCHEMA_VERSION, definitions, expected_definitions};

/// Checks the audit trail in a copy of a store and its write-ahead log. Returns `None` if the store has an
/// earlier version, which has no chain. With an anchor, also checks that the chain contains this hash.
///
/// Changes nothing but that SQLite merges the log into the file. The store of an engine cannot be checked
/// in its place, because the engine keeps it locked.
///
/// # Errors
/// The copy is not a store, has a newer version, or is damaged as a whole, so that its entries cannot be
/// found.
pub fn verify_audit(
    copy: &Path,
    anchor: Option<ChainAnchor>,
) -> Result<Option<ChainReport>, StoreError> {
    verify(copy, anchor).map_err(|error| error.into_store_error(copy))
}

fn verify(copy: &Path, anchor: Option<ChainAnchor>) -> Result<Option<ChainReport>, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(copy, flags)?;
    damage::add_row_sum(&connection)?;
    let number =
        |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let application = number("application_id")?;
    if application != i64::from(APPLICATION_ID) {
        return Err(Error::damaged("it is a database of another program"));
    }
    match u32::try_from(number("user_version")?) {
        Ok(SCHEMA_VERSION) => {}
        Ok(1..SCHEMA_VERSION) => return Ok(None),
        Ok(found) if found > SCHEMA_VERSION => {
            let known = SCHEMA_VERSION;
            return Err(Error::Newer { found, known });
        }
        Ok(_) | Err(_) => return Err(Error::damaged("the version of its tables is invalid")),
    }
    let verdict: String =
        connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if verdict != "ok" {
        return Err(Error::Damaged(verdict));
    }
    if definitions(&connection)? != expected_definitions()? {
        return Err(Error::damaged(
            "its tables do not match the schema of a store",
        ));
    }
    check_chain(&connection, anchor).map(Some)
}

fn check_chain(connection: &Connection, anchor: Option<ChainAnchor>) -> Result<ChainReport, Error> {
    let mut check = ChainCheck::new(anchor);
    let mut statement = connection.prepare(&format!("{} ORDER BY number", select()))?;
    let mut rows = statement.query([])?;
    let mut first = None;
    while let Some(row) = rows.next()? {
        let number = row.get::<_, i64>(0)?.cast_unsigned();
        first.get_or_insert(number);
        let why = match is_intact(row)? {
            true => match exact_entry(row) {
                Ok(entry) => {
                    check.push(&entry);
                    continue;
                }
                Err(error) => error,
            },
            false => "its checksum is wrong".to_owned(),
        };
        check.push_unreadable(number, link(row)?, why);
    }
    let first = first.unwrap_or(1);
    if let Some(problem) = anchor_problem(connection, first)? {
        check.push_fault(first, ChainFault::Unreadable(problem));
    }
    Ok(check.finish())
}

/// Reads an entry, and checks that its row is as the entry would be stored. A column that the kind of
/// outcome does not use is not part of the entry, so its content would not be part of the hash.
fn exact_entry(row: &Row<'_>) -> Result<trunkline_types::AuditEntry, String> {
    let entry = entry(row).map_err(|error| match error {
        Error::Damaged(problem) => problem,
        Error::Sqlite(error) => error.to_string(),
        other => format!("{other:?}"),
    })?;
    let column = |index| row.get::<_, i64>(index).map(i64::cast_unsigned);
    let text = |index| row.get::<_, String>(index);
    let outcome = entry.outcome.parts();
    let stored = (column(10), column(11), text(12));
    match stored {
        (Ok(epoch), Ok(count), Ok(sentence))
            if (epoch, count, &*sentence) == (outcome.epoch, outcome.count, outcome.sentence) =>
        {
            Ok(entry)
        }
        _ => Err("a column that its outcome does not use has a content".to_owned()),
    }
}

/// Checks the row that states the last removed entry. Returns the problem, if there is one.
fn anchor_problem(connection: &Connection, first: u64) -> Result<Option<String>, Error> {
    let count: i64 =
        connection.query_row("SELECT count(*) FROM audit_anchor", [], |row| row.get(0))?;
    let found: Option<(bool, bool)> = connection
        .query_row(
            "SELECT sum IS row_sum(number, hash) AND typeof(number) = 'integer' \
                    AND typeof(hash) = 'blob' AND length(hash) = 32, number IS ?1 - 1 \
             FROM audit_anchor",
            [first.cast_signed()],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    Ok(match (count, found) {
        (1, Some((true, true))) => None,
        (1, Some((false, _))) => Some("the checksum of the last removed entry is wrong".to_owned()),
        (1, Some((true, false))) => {
            Some("the number of the last removed entry is not the one before".to_owned())
        }
        _ => Some("the last removed entry is not known".to_owned()),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use std::path::PathBuf;

    use rusqlite::types::Value;
    use trunkline_engine::store::{LogBound, Store};
    use trunkline_types::audit::AuditHash;
    use trunkline_types::{
        AuditAction, AuditEntry, AuditOutcome, AuditQuery, Position, Tick, Timestamp,
    };

    use super::*;
    use crate::SqliteStore;
    use crate::audit::{COLUMNS, IS_NOT_CHANGED, UNCHAINED_COLUMNS};

    fn entry(number: u64) -> AuditEntry {
        let at = Position {
            epoch: 0x0102_0304_0506_0708,
            sequence: number,
        };
        AuditEntry {
            number,
            when: Timestamp::from_nanos(1_700_000_000_123_456_789),
            monotonic: Tick::from_nanos(77_000_000_001),
            who: "local:1000".to_owned(),
            from: "process 7 of user 1000".to_owned(),
            action: AuditAction::Put,
            name: "rig/Größe".to_owned(),
            data_type: "f64".to_owned(),
            old: (number - 1).to_string(),
            new: number.to_string(),
            outcome: match number % 4 {
                0 => AuditOutcome::Refused("the variable is read-only".to_owned()),
                1 => AuditOutcome::Applied(at),
                2 => AuditOutcome::Lost(300),
                _ => AuditOutcome::Done,
            },
            link: None,
        }
    }

    /// Creates a store with 14 entries, of which the oldest 2 have been removed.
    fn store() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let mut store = SqliteStore::open(&path).unwrap();
        let entries: Vec<_> = (1..=13).map(entry).collect();
        let bound = LogBound {
            entries: 12,
            age: None,
            now: Timestamp::from_nanos(1_700_000_001_000_000_000),
        };
        assert_eq!(store.append_audit(&entries, bound).unwrap().number, 14);
        drop(store);
        (folder, path)
    }

    fn report(path: &Path) -> ChainReport {
        verify_audit(path, None).unwrap().unwrap()
    }

    /// Opens the store like a program that forges entries: it can compute checksums, and switches the
    /// triggers off while it works.
    fn forge(path: &Path, sql: &str) {
        let connection = Connection::open(path).unwrap();
        connection
            .pragma_update(None, "synchronous", "OFF")
            .unwrap();
        damage::add_row_sum(&connection).unwrap();
        let triggers: Vec<(String, String)> = connection
            .prepare(
                "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'audit'",
            )
            .unwrap()
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        assert_eq!(triggers.len(), 3);
        for (name, _) in &triggers {
            connection
                .execute_batch(&format!("DROP TRIGGER {name}"))
                .unwrap();
        }
        connection.execute_batch(sql).unwrap();
        for (_, sql) in &triggers {
            connection.execute_batch(sql).unwrap();
        }
    }

    /// Returns every value that differs in one byte, as SQL literals.
    fn altered(value: &Value) -> Vec<String> {
        let hex =
            |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
        let each_byte = |bytes: &[u8]| -> Vec<Vec<u8>> {
            let changed = |at: usize| {
                let mut bytes = bytes.to_vec();
                bytes[at] ^= 1;
                bytes
            };
            (0..bytes.len()).map(changed).collect()
        };
        match value {
            Value::Integer(number) => each_byte(&number.to_le_bytes())
                .into_iter()
                .map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap()).to_string())
                .collect(),
            Value::Text(text) => each_byte(text.as_bytes())
                .into_iter()
                .map(|bytes| format!("CAST(x'{}' AS TEXT)", hex(&bytes)))
                .chain([
                    format!("CAST(x'{}' AS BLOB)", hex(text.as_bytes())),
                    "'x'".to_owned(),
                ])
                .collect(),
            Value::Blob(bytes) => each_byte(bytes)
                .into_iter()
                .map(|bytes| format!("x'{}'", hex(&bytes)))
                .chain(["x''".to_owned(), format!("CAST(x'{}' AS TEXT)", hex(bytes))])
                .collect(),
            Value::Null | Value::Real(_) => panic!("no such column"),
        }
    }

    /// Every byte of every column of every row, with and without a correct checksum.
    ///
    /// Behaviour: B-24.
    #[test]
    fn every_altered_byte_of_a_row_is_found() {
        let (folder, path) = store();
        let intact = report(&path);
        assert!(intact.is_intact(), "{intact:?}");
        assert_eq!(intact.entries, 12);
        let connection = Connection::open(&path).unwrap();
        let columns: Vec<&str> = COLUMNS.split(", ").chain(["sum"]).collect();
        let mut changes = Vec::new();
        for number in [4, 5, 14] {
            for column in &columns {
                let sql = format!("SELECT {column} FROM audit WHERE number = {number}");
                let value: Value = connection.query_row(&sql, [], |row| row.get(0)).unwrap();
                changes.extend(
                    altered(&value)
                        .into_iter()
                        .map(|value| (number, *column, value)),
                );
            }
        }
        drop(connection);
        let copy = folder.path().join("copy.db");
        let mut found = 0;
        for (number, column, value) in &changes {
            for corrects_sum in [false, true] {
                if corrects_sum && *column == "sum" {
                    continue;
                }
                std::fs::copy(&path, &copy).unwrap();
                let key = match *column {
                    "number" => value.clone(),
                    _ => number.to_string(),
                };
                let mut sql = format!(
                    "UPDATE OR REPLACE audit SET {column} = {value} WHERE number = {number};"
                );
                if corrects_sum {
                    sql +=
                        &format!("UPDATE audit SET sum = row_sum({COLUMNS}) WHERE number = {key};");
                }
                forge(&copy, &sql);
                let at = format!("{sql} -> ");
                match verify_audit(&copy, None) {
                    Ok(Some(report)) => {
                        assert!(!report.is_intact(), "{at} is not found");
                        let first = report.faults[0].0;
                        // A changed number also concerns the entry that it takes the place of.
                        let is_near = first.abs_diff(*number) <= 1 || *column == "number";
                        assert!(is_near, "{at} {:?}", report.faults);
                        found += 1;
                    }
                    Ok(None) => panic!("{at} no chain"),
                    Err(error) => {
                        let kind = &error.kind;
                        assert!(
                            matches!(kind, trunkline_engine::store::StoreErrorKind::Damaged(_)),
                            "{at} {error}"
                        );
                    }
                }
            }
        }
        assert!(found > 1_000, "{found} of {}", changes.len());
    }

    #[test]
    fn every_altered_byte_of_the_anchor_is_found() {
        let (folder, path) = store();
        let connection = Connection::open(&path).unwrap();
        let copy = folder.path().join("copy.db");
        for column in ["number", "hash", "sum"] {
            let sql = format!("SELECT {column} FROM audit_anchor");
            let value: Value = connection.query_row(&sql, [], |row| row.get(0)).unwrap();
            for value in altered(&value) {
                for sum in ["sum", "row_sum(number, hash)"] {
                    if column == "sum" && sum != "sum" {
                        continue;
                    }
                    std::fs::copy(&path, &copy).unwrap();
                    let sql = format!(
                        "UPDATE audit_anchor SET {column} = {value};
                         UPDATE audit_anchor SET sum = {sum};"
                    );
                    forge(&copy, &sql);
                    assert!(!report(&copy).is_intact(), "{sql}");
                }
            }
        }
        for sql in [
            "DELETE FROM audit_anchor",
            "INSERT INTO audit_anchor SELECT * FROM audit_anchor",
        ] {
            std::fs::copy(&path, &copy).unwrap();
            forge(&copy, sql);
            assert!(!report(&copy).is_intact(), "{sql}");
        }
    }

    /// The forger also computes new hashes where this is possible without changing later entries.
    #[test]
    fn removed_inserted_and_reordered_entries_are_found() {
        let (folder, path) = store();
        let copy = folder.path().join("copy.db");
        let all = format!("{COLUMNS}, sum");
        let with_number = |number: &str| all.replacen("number", number, 1);
        let insert = |from: &str, number: u64| {
            let columns = with_number(&number.to_string());
            format!("INSERT INTO audit ({all}) SELECT {columns} FROM {from};")
        };
        let resum = format!("UPDATE audit SET sum = row_sum({COLUMNS});");
        for (sql, expected) in [
            ("DELETE FROM audit WHERE number = 8;".to_owned(), 9),
            (
                "DELETE FROM audit WHERE number BETWEEN 6 AND 12;".to_owned(),
                13,
            ),
            // The oldest entries, with the row that states the last removed one.
            (
                "UPDATE audit_anchor SET number = 3,
                        hash = (SELECT hash FROM audit WHERE number = 3);
                 UPDATE audit_anchor SET sum = row_sum(number, hash);
                 DELETE FROM audit WHERE number = 3;"
                    .to_owned(),
                4,
            ),
            // An entry in the middle, with later entries moved up.
            (
                "DELETE FROM audit WHERE number = 8;
                 UPDATE audit SET number = number - 1 WHERE number = 9;
                 UPDATE audit SET number = number - 1 WHERE number = 10;
                 UPDATE audit SET number = number - 1 WHERE number = 11;"
                    .to_owned()
                    + &resum,
                8,
            ),
            // Two entries exchange their numbers.
            (
                "UPDATE audit SET number = 100 WHERE number = 6;
                 UPDATE audit SET number = 6 WHERE number = 7;
                 UPDATE audit SET number = 7 WHERE number = 100;"
                    .to_owned()
                    + &resum,
                6,
            ),
            (insert("audit WHERE number = 9", 15) + &resum, 15),
            (insert("audit WHERE number = 4", 2) + &resum, 2),
        ] {
            std::fs::copy(&path, &copy).unwrap();
            forge(&copy, &sql);
            let report = report(&copy);
            assert_eq!(
                report.faults.first().map(|fault| fault.0),
                Some(expected),
                "{sql}: {report:?}"
            );
        }
    }

    #[test]
    fn trigger_that_was_changed_is_reported_as_damage() {
        let (_folder, path) = store();
        let connection = Connection::open(&path).unwrap();
        connection
            .execute_batch("DROP TRIGGER audit_is_not_changed")
            .unwrap();
        drop(connection);
        verify_audit(&path, None).unwrap_err();
        Connection::open(&path)
            .unwrap()
            .execute_batch(IS_NOT_CHANGED)
            .unwrap();
        assert!(report(&path).is_intact());
    }

    /// Anyone who can write the whole file can compute a new chain. A hash that was noted before shows it.
    #[test]
    fn rewritten_chain_does_not_contain_the_noted_hash() {
        let (_folder, path) = store();
        let hash_of = |number: u64| {
            let connection = Connection::open(&path).unwrap();
            let sql = format!("SELECT hash FROM audit WHERE number = {number}");
            AuditHash(connection.query_row(&sql, [], |row| row.get(0)).unwrap())
        };
        let anchor = ChainAnchor {
            number: Some(12),
            hash: hash_of(12),
        };
        let found = verify_audit(&path, Some(anchor)).unwrap().unwrap();
        assert_eq!((found.is_intact(), found.anchored), (true, Some(12)));

        forge(&path, "UPDATE audit SET new = '1e9' WHERE number = 8");
        let mut previous = hash_of(7);
        for number in 8..=14 {
            let connection = Connection::open(&path).unwrap();
            damage::add_row_sum(&connection).unwrap();
            let resum = format!("sum = row_sum({})", COLUMNS);
            let sql = format!("{} WHERE number = {number}", select());
            let entry = connection
                .query_row(&sql, [], |row| {
                    let number = row.get::<_, i64>(0)?.cast_unsigned();
                    let mut forged = self::entry(number);
                    forged.new = row.get(8)?;
                    forged.old = row.get(7)?;
                    forged.who = row.get(2)?;
                    forged.from = row.get(3)?;
                    if number == 14 {
                        forged = AuditEntry {
                            when: Timestamp::from_nanos(row.get(1)?),
                            monotonic: Tick::ZERO,
                            action: AuditAction::Removed,
                            name: String::new(),
                            data_type: String::new(),
                            outcome: AuditOutcome::Done,
                            ..forged
                        };
                    }
                    Ok(forged)
                })
                .unwrap();
            drop(connection);
            previous = previous.followed_by(&entry);
            let update = format!(
                "UPDATE audit SET hash = x'{previous}' WHERE number = {number};
                 UPDATE audit SET {resum} WHERE number = {number};"
            );
            forge(&path, &update);
        }
        assert!(report(&path).is_intact(), "the new chain is consistent");
        let found = verify_audit(&path, Some(anchor)).unwrap().unwrap();
        assert_eq!(found.faults, [(12, ChainFault::OtherPast)]);
    }

    /// Turns the store into one of version 5, with the checksums of this version.
    fn downgrade(path: &Path) {
        let sql = format!(
            "UPDATE audit SET sum = row_sum({UNCHAINED_COLUMNS});
             UPDATE audit SET old = '', sum = row_sum(number, at, who, origin, action, name, type, '', new,
                                                      outcome, epoch, count, sentence) WHERE action = 41;
             ALTER TABLE audit DROP COLUMN monotonic;
             ALTER TABLE audit DROP COLUMN hash;
             DROP TABLE audit_anchor;
             PRAGMA user_version = 5;"
        );
        forge(path, &sql);
    }

    #[test]
    fn entries_of_an_older_version_are_chained_at_the_first_start() {
        let (_folder, path) = store();
        downgrade(&path);
        assert_eq!(verify_audit(&path, None), Ok(None), "it has no chain yet");
        let mut store = SqliteStore::open(&path).unwrap();
        let page = store.audit(&AuditQuery::default()).unwrap();
        let numbers = page.entries.iter().map(|entry| entry.number);
        assert!(numbers.eq(3..=14));
        let content = |mut entry: AuditEntry| {
            entry.link = None;
            entry
        };
        for read in page.entries.into_iter().take(11) {
            let expected = AuditEntry {
                monotonic: Tick::ZERO,
                ..entry(read.number)
            };
            assert_eq!(content(read), expected);
        }
        let bound = LogBound {
            entries: 100,
            age: None,
            now: Timestamp::from_nanos(1),
        };
        store.append_audit(&[entry(15)], bound).unwrap();
        drop(store);
        let faults = report(&path).faults;
        assert_eq!(faults, [], "a chain that begins with the migration");
    }

    #[test]
    fn damaged_entry_of_an_older_version_stays_damaged() {
        let (_folder, path) = store();
        downgrade(&path);
        forge(&path, "UPDATE audit SET new = 'x' WHERE number = 7");
        drop(SqliteStore::open(&path).unwrap());
        let report = report(&path);
        let numbers: Vec<u64> = report.faults.iter().map(|fault| fault.0).collect();
        assert_eq!(numbers, [7], "{report:?}");
        assert!(matches!(report.faults[0].1, ChainFault::Unreadable(_)));
    }
}
