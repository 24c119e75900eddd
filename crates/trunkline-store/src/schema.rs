//! Creates and migrates the tables.

use rusqlite::{Connection, TransactionBehavior};
use trunkline_engine::store::Damage;

use crate::audit;
use crate::damage;
use crate::error::Error;

/// Identifies a file as a Trunkline store: `Trnk`.
pub(crate) const APPLICATION_ID: i32 = i32::from_be_bytes(*b"Trnk");
/// Increased with every change to the tables.
pub(crate) const SCHEMA_VERSION: u32 = 6;

const TABLES: &str = "
CREATE TABLE start (count INTEGER NOT NULL);
INSERT INTO start VALUES (0);
CREATE TABLE library (
    place       INTEGER PRIMARY KEY AUTOINCREMENT,
    name        TEXT NOT NULL UNIQUE,
    description TEXT NOT NULL,
    state       INTEGER NOT NULL,
    variables   BLOB NOT NULL
);
CREATE TABLE retained (
    name             TEXT PRIMARY KEY,
    type             BLOB NOT NULL,
    value            BLOB NOT NULL,
    source_timestamp INTEGER NOT NULL,
    quality          INTEGER NOT NULL
) WITHOUT ROWID;
";

/// Added in version 2. Entries can only be appended, with numbers without gaps, and only the oldest entries
/// can be removed. Triggers refuse all other changes, even if another program requests them.
const AUDIT: &str = "
CREATE TABLE audit (
    number   INTEGER PRIMARY KEY,
    at       INTEGER NOT NULL,
    who      TEXT NOT NULL,
    origin   TEXT NOT NULL,
    action   INTEGER NOT NULL,
    name     TEXT NOT NULL,
    type     TEXT NOT NULL,
    old      TEXT NOT NULL,
    new      TEXT NOT NULL,
    outcome  INTEGER NOT NULL,
    epoch    INTEGER NOT NULL,
    count    INTEGER NOT NULL,
    sentence TEXT NOT NULL
);
CREATE TRIGGER audit_is_gapless BEFORE INSERT ON audit
WHEN NEW.number <> ifnull((SELECT max(number) FROM audit), 0) + 1
BEGIN SELECT RAISE(ABORT, 'the entry does not follow the last one'); END;
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'an entry of the audit is not changed'); END;
CREATE TRIGGER audit_loses_the_oldest_only BEFORE DELETE ON audit
WHEN OLD.number <> (SELECT min(number) FROM audit)
  OR OLD.number = (SELECT max(number) FROM audit)
BEGIN SELECT RAISE(ABORT, 'only the oldest entry of the audit is removed'); END;
";

/// Added in version 3: an identifier of the store.
const ENGINE_ID: &str = "
ALTER TABLE start ADD COLUMN engine_id BLOB NOT NULL DEFAULT x'';
UPDATE start SET engine_id = randomblob(16);
";

/// Added in version 4: a checksum of each row, and a table for rows that do not match their checksum.
const CHECKSUMS: &str = "
ALTER TABLE start ADD COLUMN sum INTEGER NOT NULL DEFAULT 0;
UPDATE start SET sum = row_sum(count, engine_id);
ALTER TABLE library ADD COLUMN sum INTEGER NOT NULL DEFAULT 0;
UPDATE library SET sum = row_sum(name, description, state, variables);
ALTER TABLE retained ADD COLUMN sum INTEGER NOT NULL DEFAULT 0;
UPDATE retained SET sum = row_sum(name, type, value, source_timestamp, quality);
ALTER TABLE audit ADD COLUMN sum INTEGER NOT NULL DEFAULT 0;
DROP TRIGGER audit_is_not_changed;
UPDATE audit SET sum = row_sum(number, at, who, origin, action, name, type, old, new, outcome,
                               epoch, count, sentence);
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'an entry of the audit is not changed'); END;
CREATE TABLE damaged (
    place   INTEGER PRIMARY KEY,
    kind    TEXT NOT NULL,
    name    TEXT NOT NULL,
    content TEXT NOT NULL
);
";

/// Added in version 5: the states of alarms, and their journal. The journal has the same rules as the audit
/// trail.
const ALARMS: &str = "
CREATE TABLE alarm_state (
    variable        TEXT NOT NULL,
    alarm           TEXT NOT NULL,
    definition      BLOB NOT NULL,
    process         INTEGER NOT NULL,
    hidden          INTEGER NOT NULL,
    delayed_since   INTEGER,
    state           INTEGER NOT NULL,
    is_active       INTEGER NOT NULL,
    value           REAL,
    operand         REAL,
    raised          INTEGER,
    cleared         INTEGER,
    acknowledged    INTEGER,
    acknowledged_by TEXT NOT NULL,
    comment         TEXT NOT NULL,
    shelved_until   INTEGER,
    sum             INTEGER NOT NULL,
    PRIMARY KEY (variable, alarm)
) WITHOUT ROWID;
CREATE TABLE alarm_journal (
    number          INTEGER PRIMARY KEY,
    at              INTEGER NOT NULL,
    event           INTEGER NOT NULL,
    count           INTEGER NOT NULL,
    variable        TEXT NOT NULL,
    alarm           TEXT NOT NULL,
    priority        INTEGER NOT NULL,
    area            TEXT NOT NULL,
    description     TEXT NOT NULL,
    from_state      INTEGER NOT NULL,
    who             TEXT NOT NULL,
    remark          TEXT NOT NULL,
    state           INTEGER NOT NULL,
    is_active       INTEGER NOT NULL,
    value           REAL,
    operand         REAL,
    raised          INTEGER,
    cleared         INTEGER,
    acknowledged    INTEGER,
    acknowledged_by TEXT NOT NULL,
    comment         TEXT NOT NULL,
    shelved_until   INTEGER,
    sum             INTEGER NOT NULL
);
CREATE INDEX alarm_journal_at ON alarm_journal (at);
CREATE TRIGGER alarm_journal_is_gapless BEFORE INSERT ON alarm_journal
WHEN NEW.number <> ifnull((SELECT max(number) FROM alarm_journal), 0) + 1
BEGIN SELECT RAISE(ABORT, 'the entry does not follow the last one'); END;
CREATE TRIGGER alarm_journal_is_not_changed BEFORE UPDATE ON alarm_journal
BEGIN SELECT RAISE(ABORT, 'an entry of the alarm journal is not changed'); END;
CREATE TRIGGER alarm_journal_loses_the_oldest_only BEFORE DELETE ON alarm_journal
WHEN OLD.number <> (SELECT min(number) FROM alarm_journal)
  OR OLD.number = (SELECT max(number) FROM alarm_journal)
BEGIN SELECT RAISE(ABORT, 'only the oldest entry of the alarm journal is removed'); END;
";

/// Added in version 6: the hash chain of the audit trail. The entries of an older store are linked afterwards
/// by [`audit::chain_existing`].
const CHAIN: &str = "
ALTER TABLE audit ADD COLUMN monotonic INTEGER NOT NULL DEFAULT 0;
ALTER TABLE audit ADD COLUMN hash BLOB NOT NULL DEFAULT x'';
CREATE TABLE audit_anchor (
    number INTEGER NOT NULL,
    hash   BLOB NOT NULL,
    sum    INTEGER NOT NULL
);
INSERT INTO audit_anchor
    SELECT ifnull(min(number) - 1, 0), zeroblob(32), row_sum(ifnull(min(number) - 1, 0), zeroblob(32))
    FROM audit;
";
/// The version that added the chain.
const CHAIN_VERSION: u32 = 6;

/// The migration from each version to the next one.
const MIGRATIONS: [&str; SCHEMA_VERSION as usize - 1] =
    [AUDIT, ENGINE_ID, CHECKSUMS, ALARMS, CHAIN];

/// Creates the tables in a new file, and checks an existing file, which must be an intact store of a
/// known version. Returns the damaged rows.
pub(crate) fn prepare(connection: &mut Connection) -> Result<Vec<Damage>, Error> {
    damage::add_row_sum(connection)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let number = |pragma: &str| transaction.pragma_query_value(None, pragma, |row| row.get(0));
    let (application, version): (i32, u32) = (number("application_id")?, {
        transaction.pragma_query_value(None, "user_version", |row| row.get(0))?
    });
    let tables: u32 =
        transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    match (application, version) {
        // The file is new, or its creation was interrupted before the tables were created.
        (0, 0) if tables == 0 => {
            create_tables(&transaction)?;
            transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
            transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
        }
        (APPLICATION_ID, SCHEMA_VERSION) => {}
        (APPLICATION_ID, older @ 1..SCHEMA_VERSION) => {
            let mut migrations = MIGRATIONS.iter().skip(older as usize - 1);
            migrations.try_for_each(|migration| transaction.execute_batch(migration))?;
            if older < CHAIN_VERSION {
                audit::chain_existing(&transaction)?;
            }
            transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
        }
        (APPLICATION_ID, found) if found > SCHEMA_VERSION => {
            return Err(Error::Newer {
                found,
                known: SCHEMA_VERSION,
            });
        }
        _ => return Err(Error::damaged("it is a database of another program")),
    }
    transaction.commit()?;
    let result: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    match result.as_str() {
        "ok" => {}
        problem => return Err(Error::damaged(problem)),
    }
    // The file contains the definitions of its tables as text. If a definition is damaged, queries read the
    // wrong columns.
    if definitions(connection)? != expected_definitions()? {
        return Err(Error::damaged(
            "its tables do not match the schema of a store",
        ));
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let damage = damage::quarantine(&transaction)?;
    transaction.commit()?;
    Ok(damage)
}

fn create_tables(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(TABLES)?;
    let mut migrations = MIGRATIONS.iter();
    migrations.try_for_each(|migration| connection.execute_batch(migration))
}

/// Returns SQLite's definitions of tables, indexes and triggers.
pub(crate) fn definitions(connection: &Connection) -> rusqlite::Result<Vec<[String; 4]>> {
    let mut statement = connection.prepare(
        "SELECT quote(type), quote(name), quote(tbl_name), quote(sql) FROM sqlite_schema
         ORDER BY name",
    )?;
    let rows = statement.query_map([], |row| {
        Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?])
    })?;
    rows.collect()
}

/// Returns the definitions in a newly created store.
pub(crate) fn expected_definitions() -> rusqlite::Result<Vec<[String; 4]>> {
    let connection = Connection::open_in_memory()?;
    damage::add_row_sum(&connection)?;
    create_tables(&connection)?;
    definitions(&connection)
}
