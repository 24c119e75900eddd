//! Stores libraries and their variables.

use rusqlite::{Transaction, params};
use trunkline_engine::LibraryState;
use trunkline_engine::store::StoredLibrary;
use trunkline_types::LibraryDefinition;
use trunkline_types::wire::{Reader, VariablesDecoder, VariablesEncoder};

use crate::error::Error;

pub(crate) fn save(transaction: &Transaction<'_>, library: &StoredLibrary) -> Result<(), Error> {
    let LibraryDefinition {
        name,
        description,
        variables,
    } = &library.definition;
    let (mut encoder, mut bytes) = (VariablesEncoder::default(), Vec::new());
    for variable in variables {
        encoder.put(variable, &mut bytes);
    }
    transaction
        .prepare_cached(
            "INSERT INTO library (name, description, state, variables, sum)
             VALUES (?1, ?2, ?3, ?4, row_sum(?1, ?2, ?3, ?4))
             ON CONFLICT (name) DO UPDATE SET
                 description = excluded.description,
                 state = excluded.state,
                 variables = excluded.variables,
                 sum = excluded.sum",
        )?
        .execute(params![name, description, number(library.state), bytes])?;
    Ok(())
}

pub(crate) fn all(transaction: &Transaction<'_>) -> Result<Vec<StoredLibrary>, Error> {
    let mut statement = transaction.prepare_cached(
        "SELECT name, description, state, variables FROM library
             WHERE sum = row_sum(name, description, state, variables) ORDER BY place",
    )?;
    let mut rows = statement.query([])?;
    let mut libraries = Vec::new();
    while let Some(row) = rows.next()? {
        let bytes: Vec<u8> = row.get(3)?;
        let (mut decoder, mut reader) = (VariablesDecoder::default(), Reader::new(&bytes));
        let mut variables = Vec::new();
        while !reader.is_empty() {
            variables.push(decoder.take(&mut reader)?);
        }
        libraries.push(StoredLibrary {
            definition: LibraryDefinition {
                name: row.get(0)?,
                description: row.get(1)?,
                variables,
            },
            state: state(row.get(2)?)?,
        });
    }
    Ok(libraries)
}

pub(crate) fn set_state(
    transaction: &Transaction<'_>,
    name: &str,
    state: LibraryState,
) -> Result<(), Error> {
    transaction
        .prepare_cached(
            "UPDATE library SET state = ?2, sum = row_sum(name, description, ?2, variables)
             WHERE name = ?1 AND sum = row_sum(name, description, state, variables)",
        )?
        .execute(params![name, number(state)])?;
    Ok(())
}

pub(crate) fn remove(transaction: &Transaction<'_>, name: &str) -> Result<(), Error> {
    transaction
        .prepare_cached("DELETE FROM library WHERE name = ?1")?
        .execute([name])?;
    Ok(())
}

fn number(state: LibraryState) -> i64 {
    match state {
        LibraryState::Running => 1,
        LibraryState::Stopped => 2,
    }
}

fn state(number: i64) -> Result<LibraryState, Error> {
    match number {
        1 => Ok(LibraryState::Running),
        2 => Ok(LibraryState::Stopped),
        other => Err(Error::Damaged(format!("{other} is not a library state"))),
    }
}
