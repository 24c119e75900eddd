//! Decodes history queries, and encodes the pages that answer them. The engine's host answers the
//! query, which is passed to it as an order.

use std::borrow::Cow;

use trunkline_engine::Order;
use trunkline_proto::limits::{HISTORY_PATTERNS_MAX, PAGE_BYTES};
use trunkline_proto::message::history::{
    HistoryFrame, HistoryHead, HistoryRowsForm, HistoryRowsHead,
};
use trunkline_proto::{Fault, FaultCode};
use trunkline_types::Pattern;
use trunkline_types::history::{HistoryPage, HistoryQuery, HistorySeries, Rows, SeriesData};

use super::Rejection;
use super::orders::{parse_pattern, put_frames, queue_order, refuse_order};
use crate::context::Context;
use crate::gate::Admitted;

// Limits on the size of an item, so that a frame is not much longer than a page.

/// Maximum number of rows in one item.
const ITEM_ROWS: usize = 2048;
/// Maximum number of marks in one item.
const ITEM_MARKS: usize = 1024;
/// Maximum number of buckets in one item.
const ITEM_BUCKETS: usize = 1024;

pub(crate) fn handle(context: &mut Context, frame: &Admitted<'_>) -> Result<(), Rejection> {
    let query = HistoryFrame::decode(frame)?;
    if query.left() as usize > HISTORY_PATTERNS_MAX {
        let sentence = format!(
            "a history query can have at most {HISTORY_PATTERNS_MAX} patterns; split the query, or use \
             patterns that match more variables"
        );
        return Err(Fault::new(FaultCode::TooLarge, sentence).into());
    }
    let HistoryHead {
        since,
        until,
        limit,
        after,
        durations,
        ..
    } = *query.head();
    let form = query
        .head()
        .query_form()
        .ok_or_else(|| invalid_form(query.head()))?;
    let from = query.head().from.clone();
    let mut patterns = Vec::with_capacity(query.left() as usize);
    for item in query {
        patterns.push(parse_pattern(item?.pattern)?);
    }
    let order = Order::History(Box::new(HistoryQuery {
        patterns,
        since,
        until,
        after,
        form,
        durations,
        from,
        limit,
        permitted: context.caller.rights.names_with_history(),
    }));
    let refused = refuse_order(context, order.check_rights(&context.caller));
    queue_order(context, frame.request(), order, refused);
    Ok(())
}

fn invalid_form(head: &HistoryHead) -> Fault {
    let sentence = match (head.form, head.size) {
        (2, 0) => "a history query for buckets needs a bucket width greater than 0".to_owned(),
        (form, _) => format!(
            "this engine does not support form {form} of a history query; update the engine"
        ),
    };
    Fault::new(FaultCode::BadRequest, sentence)
}

/// Returns the memory of a query in bytes. It is charged to the session until the host has answered.
pub(super) fn bytes_of(query: &HistoryQuery) -> usize {
    let pattern = |pattern: &Pattern| size_of::<Pattern>() + pattern.as_str().len();
    let cursor = query.from.as_ref();
    let cursor = cursor.map_or(0, |from| from.variable.len() + from.state.len());
    let patterns: usize = query.patterns.iter().map(pattern).sum();
    size_of::<HistoryQuery>() + patterns + cursor
}

/// Appends a page, in frames of about `PAGE_BYTES` each.
pub(super) fn put_page(page: &HistoryPage, request: u32, out: &mut Vec<u8>) {
    let head = HistoryRowsHead {
        next: page.next.clone(),
        state: &page.state,
    };
    let items = page.series.iter().flat_map(Items::of);
    put_frames::<HistoryRowsForm, _>(&head, items, request, out);
}

/// Splits a series into items of limited size. A short series is a single item.
struct Items<'p> {
    series: &'p HistorySeries,
    /// Number of rows or buckets in the items returned so far.
    rows_done: usize,
    /// Number of marks in the items returned so far.
    marks_done: usize,
    is_done: bool,
}

impl<'p> Items<'p> {
    fn of(series: &'p HistorySeries) -> Self {
        Self {
            series,
            rows_done: 0,
            marks_done: 0,
            is_done: false,
        }
    }

    /// Returns the data of the next item.
    fn part(&mut self) -> SeriesData {
        match &self.series.data {
            SeriesData::Rows(rows) => {
                let end = end_of_item(rows, self.rows_done);
                let mut part = Rows::new(rows.word_bytes());
                part.append(rows, self.rows_done..end);
                self.rows_done = end;
                let marks = rows.events().get(self.marks_done..).unwrap_or_default();
                for mark in marks.iter().take(ITEM_MARKS) {
                    part.push_event(*mark);
                }
                self.marks_done += part.events().len();
                self.is_done = end >= rows.len() && self.marks_done >= rows.events().len();
                SeriesData::Rows(part)
            }
            SeriesData::Buckets { width, buckets } => {
                let remaining = buckets.get(self.rows_done..).unwrap_or_default();
                let part: Vec<_> = remaining.iter().take(ITEM_BUCKETS).copied().collect();
                self.rows_done += part.len();
                self.is_done = self.rows_done >= buckets.len();
                SeriesData::Buckets {
                    width: *width,
                    buckets: part,
                }
            }
        }
    }
}

impl<'p> Iterator for Items<'p> {
    type Item = Cow<'p, HistorySeries>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        if self.rows_done == 0 && self.marks_done == 0 && is_short(&self.series.data) {
            self.is_done = true;
            return Some(Cow::Borrowed(self.series));
        }
        let data = self.part();
        let HistorySeries {
            variable,
            data_type,
            units,
            ..
        } = self.series;
        Some(Cow::Owned(HistorySeries {
            variable: variable.clone(),
            data_type: data_type.clone(),
            units: units.clone(),
            data,
        }))
    }
}

fn is_short(data: &SeriesData) -> bool {
    match data {
        SeriesData::Rows(rows) => rows.memory() <= PAGE_BYTES,
        SeriesData::Buckets { buckets, .. } => buckets.len() <= ITEM_BUCKETS,
    }
}

/// Returns the end of the rows of the item that begins at `start`. The item has at least one row,
/// unless no row is left.
fn end_of_item(rows: &Rows, start: usize) -> usize {
    let end_max = rows.len().min(start + ITEM_ROWS);
    if rows.word_bytes().is_some() {
        return end_max;
    }
    let mut bytes = 0;
    for row in start..end_max {
        bytes += rows.with_row(row, |row| row.value.len()).unwrap_or(0);
        if bytes > PAGE_BYTES / 2 {
            return row + 1;
        }
    }
    end_max
}
