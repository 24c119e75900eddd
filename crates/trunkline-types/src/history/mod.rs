//! History: which variables an engine records, and what a reader gets.
//!
//! ```text
//! HistoryRule       which variables are recorded, and how      settings
//! Rows              consecutive rows of one variable           rows
//! HistoryQuery      what a reader asks for                     query
//! HistoryPage       what it gets: series of rows or buckets    query
//! ```

mod query;
mod rows;
mod settings;

pub use query::{
    Bucket, Grid, HistoryCursor, HistoryForm, HistoryItem, HistoryPage, HistoryQuery,
    HistorySeries, POINTS_MAX, SeriesData,
};
pub(crate) use rows::Columns;
pub use rows::{HistoryEvent, HistoryMark, LATE_SEQUENCES, Row, RowColumns, RowKey, Rows, Steps};
pub use settings::{HistoryRule, HistorySettings};
