//! Converts the rows of an answer to Arrow batches for other programs.

use std::sync::{Arc, LazyLock};

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_schema::{DataType as ArrowType, Field, Schema};
use trunkline_engine::history::HistoryError;
use trunkline_types::history::{HistorySeries, SeriesData};

use crate::catalogue::Series;
use crate::error::Error;
use crate::files::schema::{Batch, SCHEMA, column};

static EXPORTED: LazyLock<Arc<Schema>> = LazyLock::new(|| {
    let text = |name: &str| Arc::new(Field::new(name, ArrowType::Utf8, false));
    let mut fields = vec![text("variable"), text("type"), text("units")];
    fields.extend(SCHEMA.fields().iter().skip(column::TIME).cloned());
    Arc::new(Schema::new(fields))
});

/// Returns the schema of [`arrow_batch`]: the columns of the history's files, and columns for the data type
/// and the units.
#[must_use]
pub fn arrow_schema() -> Arc<Schema> {
    Arc::clone(&EXPORTED)
}

/// Converts the rows and events of a series to an Arrow batch, sorted by time. Returns `None` if the answer
/// has intervals instead of rows.
///
/// # Errors
/// Returns an error if the values do not have the data type of the series.
pub fn arrow_batch(series: &HistorySeries) -> Result<Option<RecordBatch>, HistoryError> {
    let SeriesData::Rows(rows) = &series.data else {
        return Ok(None);
    };
    let one = Series {
        id: 0,
        name: series.variable.clone(),
        data_type: series.data_type.clone(),
        units: series.units.clone(),
    };
    let build = || -> Result<RecordBatch, Error> {
        let mut batch = Batch::default();
        batch.begin(&one.name);
        let mut at = 0;
        for mark in rows.events() {
            let before = rows.seek(mark.key).max(at);
            batch.add(&one, rows, at..before);
            at = before;
            batch.add_mark(mark);
        }
        batch.add(&one, rows, at..rows.len());
        let rows = batch.take()?;
        let text = |text: &str| {
            let repeated = std::iter::repeat_n(text, rows.num_rows());
            Arc::new(StringArray::from_iter_values(repeated)) as ArrayRef
        };
        let data_type = one.data_type.to_string();
        let mut columns = vec![text(&one.name), text(&data_type), text(&one.units)];
        columns.extend(rows.columns().iter().skip(column::TIME).cloned());
        Ok(RecordBatch::try_new(arrow_schema(), columns)?)
    };
    build()
        .map(Some)
        .map_err(|error| error.of(one.name.as_ref()))
}
