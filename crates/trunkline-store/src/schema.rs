//! The tables, and how a file gets them.

use rusqlite::{Connection, TransactionBehavior};

use crate::trouble::Problem;

/// Says that a file is a Trunkline store: `Trnk`.
const APPLICATION_ID: i32 = i32::from_be_bytes(*b"Trnk");
/// The form of the tables; it rises with every change of them.
const FORM: u32 = 1;

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

/// Makes the tables in a new file, and looks at an old one: whether it is a store, of a form that
/// is known, and whole.
pub(crate) fn prepare(connection: &mut Connection) -> Result<(), Problem> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let number = |pragma: &str| transaction.pragma_query_value(None, pragma, |row| row.get(0));
    let (application, form): (i32, u32) = (number("application_id")?, {
        transaction.pragma_query_value(None, "user_version", |row| row.get(0))?
    });
    let tables: u32 =
        transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    match (application, form) {
        // New, or cut off before its tables were there.
        (0, 0) if tables == 0 => {
            transaction.execute_batch(TABLES)?;
            transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
            transaction.pragma_update(None, "user_version", FORM)?;
        }
        (APPLICATION_ID, FORM) => {}
        (APPLICATION_ID, found) if found > FORM => {
            return Err(Problem::Newer { found, known: FORM });
        }
        _ => return Err(Problem::damaged("it is a database of another program")),
    }
    transaction.commit()?;
    let verdict: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    match verdict.as_str() {
        "ok" => Ok(()),
        trouble => Err(Problem::damaged(trouble)),
    }
}
