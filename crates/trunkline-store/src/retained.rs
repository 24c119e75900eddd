//! Stores the newest values of retained variables.

use std::collections::HashMap;

use rusqlite::{Row, Transaction, params};
use trunkline_engine::Encoded;
use trunkline_engine::store::RetainedValue;
use trunkline_types::wire::{Reader, decode_type, encode_type};
use trunkline_types::{DataType, LibraryDefinition, Name, Quality, Timestamp};

use crate::error::Error;

pub(crate) fn put(transaction: &Transaction<'_>, values: &[RetainedValue]) -> Result<(), Error> {
    let mut statement = transaction.prepare_cached(
        "INSERT INTO retained (name, type, value, source_timestamp, quality, sum)
         VALUES (?1, ?2, ?3, ?4, ?5, row_sum(?1, ?2, ?3, ?4, ?5))
         ON CONFLICT (name) DO UPDATE SET
             type = excluded.type,
             value = excluded.value,
             source_timestamp = excluded.source_timestamp,
             quality = excluded.quality,
             sum = excluded.sum",
    )?;
    let mut data_type = Vec::new();
    for value in values {
        data_type.clear();
        encode_type(&value.data_type, &mut data_type);
        statement.execute(params![
            value.name,
            data_type,
            value.value.as_slice(),
            value.source_timestamp.as_nanos(),
            value.quality.to_bits(),
        ])?;
    }
    Ok(())
}

pub(crate) fn read_library(
    transaction: &Transaction<'_>,
    library: &str,
) -> Result<Vec<RetainedValue>, Error> {
    let mut statement = transaction.prepare_cached(
        "SELECT name, type, value, source_timestamp, quality FROM retained
         WHERE name >= ?1 AND name < ?2
           AND sum = row_sum(name, type, value, source_timestamp, quality)",
    )?;
    let [first, end] = name_range(library);
    let mut rows = statement.query([first, end])?;
    let mut values = Vec::new();
    while let Some(row) = rows.next()? {
        values.push(RetainedValue {
            name: row.get(0)?,
            data_type: type_of(row)?,
            value: Encoded::try_from_bytes(row.get_ref(2)?.as_blob()?)
                .map_err(|_| Error::NoMemory)?,
            source_timestamp: Timestamp::from_nanos(row.get(3)?),
            quality: Quality::from_bits(row.get(4)?),
        });
    }
    Ok(values)
}

/// Returns the names and types of the values, without the values themselves.
fn types_of_library(
    transaction: &Transaction<'_>,
    library: &str,
) -> Result<Vec<(String, DataType)>, Error> {
    let mut statement = transaction
        .prepare_cached("SELECT name, type FROM retained WHERE name >= ?1 AND name < ?2")?;
    let mut rows = statement.query(name_range(library))?;
    let mut types = Vec::new();
    while let Some(row) = rows.next()? {
        types.push((row.get(0)?, type_of(row)?));
    }
    Ok(types)
}

fn type_of(row: &Row<'_>) -> Result<DataType, Error> {
    let bytes = row.get_ref(1)?.as_blob()?;
    let mut reader = Reader::new(bytes);
    let data_type = decode_type(&mut reader)?;
    reader.finish()?;
    Ok(data_type)
}

/// Deletes the values of variables that the library no longer contains or that now have another type.
pub(crate) fn keep_only(
    transaction: &Transaction<'_>,
    library: &LibraryDefinition,
) -> Result<(), Error> {
    let stored = types_of_library(transaction, &library.name)?;
    if stored.is_empty() {
        return Ok(());
    }
    let types: HashMap<Name, _> = library
        .variables
        .iter()
        .filter_map(|variable| {
            let name = Name::join(&library.name, &variable.path).ok()?;
            Some((name, &variable.properties.data_type))
        })
        .collect();
    let mut delete = transaction.prepare_cached("DELETE FROM retained WHERE name = ?1")?;
    for (text, data_type) in stored {
        let name = Name::parse(&text).ok();
        let defined_type = name.and_then(|name| types.get(&name).copied());
        if defined_type != Some(&data_type) {
            delete.execute([text])?;
        }
    }
    Ok(())
}

pub(crate) fn remove_all(transaction: &Transaction<'_>, library: &str) -> Result<(), Error> {
    transaction
        .prepare_cached("DELETE FROM retained WHERE name >= ?1 AND name < ?2")?
        .execute(name_range(library))?;
    Ok(())
}

/// Returns the range of the names of a library's variables: an inclusive and an exclusive bound. The second
/// bound ends in `0`, because `0` is the character after `/`.
pub(crate) fn name_range(library: &str) -> [String; 2] {
    // Use the spelling of full names, even if the library's own name is spelled differently.
    let name = Name::join(library, "x");
    let prefix = name
        .as_ref()
        .ok()
        .and_then(|name| name.as_str().strip_suffix("/x"));
    let prefix = prefix.unwrap_or(library);
    [format!("{prefix}/"), format!("{prefix}0")]
}
