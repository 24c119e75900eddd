//! Defines the history: the selection of recorded variables, and the recorded data.
//!
//! ```text
//! HistoryRule       selects variables and their settings       settings
//! Rows              consecutive rows of one variable           rows
//! HistoryQuery      a reader's request                         query
//! HistoryPage       the answer: series of rows or buckets      query
//! ```

mod query;
mod rows;
mod settings;

pub use query::{
    Bucket, Grid, HistoryCursor, HistoryForm, HistoryItem, HistoryPage, HistoryQuery,
    HistorySeries, POINTS_MAX, PermitName, PermittedNames, SeriesData,
};
pub(crate) use rows::Columns;
pub use rows::{
    HistoryEvent, HistoryEventRow, LATE_SEQUENCES, Row, RowColumns, RowKey, Rows, Steps,
    is_late_sequence,
};
pub use settings::{HistoryRule, HistorySettings};
