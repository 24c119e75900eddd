//! Reads queries of the history, and writes their pages. In between, a query is an order, which the
//! engine's host answers.

use std::borrow::Cow;

use trunkline_engine::Order;
use trunkline_proto::limits::{HISTORY_PATTERNS_MAX, PAGE_BYTES};
use trunkline_proto::message::history::{
    HistoryFrame, HistoryHead, HistoryRowsForm, HistoryRowsHead,
};
use trunkline_proto::{Fault, FaultCode, Frame};
use trunkline_types::Pattern;
use trunkline_types::history::{HistoryPage, HistoryQuery, HistorySeries, Rows, SeriesData};

use super::Rejection;
use super::orders::{parse_pattern, put_frames, refuse_order, take_order};
use crate::context::Context;

/// Bounds of an item, so that a frame is not much longer than a page.
const ITEM_ROWS: usize = 2048;
const ITEM_MARKS: usize = 1024;
const ITEM_BUCKETS: usize = 1024;

pub(crate) fn handle(context: &mut Context, frame: &Frame<'_>) -> Result<(), Rejection> {
    let asked = HistoryFrame::decode(frame)?;
    if asked.left() as usize > HISTORY_PATTERNS_MAX {
        let sentence = format!(
            "a query of the history has at most {HISTORY_PATTERNS_MAX} patterns; split it, or use \
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
    } = *asked.head();
    let form = asked
        .head()
        .query_form()
        .ok_or_else(|| unknown(asked.head()))?;
    let from = asked.head().from.clone();
    let mut patterns = Vec::with_capacity(asked.left() as usize);
    for item in asked {
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
    }));
    let refused = refuse_order(context, order.check_rights(&context.caller));
    take_order(context, frame.request(), order, refused);
    Ok(())
}

fn unknown(head: &HistoryHead) -> Fault {
    let sentence = match (head.form, head.size) {
        (2, 0) => "the buckets of a history need a width".to_owned(),
        (form, _) => format!("this engine knows no form {form} of a history; update it"),
    };
    Fault::new(FaultCode::BadRequest, sentence)
}

/// Returns the memory of a query, which is charged until the host has answered it.
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

/// A series as consecutive items: one item if it is short, otherwise several.
struct Items<'p> {
    series: &'p HistorySeries,
    /// Number of rows or buckets, and number of events, in the preceding items.
    at: usize,
    mark: usize,
    is_done: bool,
}

impl<'p> Items<'p> {
    fn of(series: &'p HistorySeries) -> Self {
        Self {
            series,
            at: 0,
            mark: 0,
            is_done: false,
        }
    }

    /// Returns the next part of the data.
    fn part(&mut self) -> SeriesData {
        match &self.series.data {
            SeriesData::Rows(rows) => {
                let end = end_of_item(rows, self.at);
                let mut part = Rows::new(rows.word_bytes());
                part.append(rows, self.at..end);
                self.at = end;
                let marks = rows.marks().get(self.mark..).unwrap_or_default();
                for mark in marks.iter().take(ITEM_MARKS) {
                    part.push_mark(*mark);
                }
                self.mark += part.marks().len();
                self.is_done = end >= rows.len() && self.mark >= rows.marks().len();
                SeriesData::Rows(part)
            }
            SeriesData::Buckets { width, buckets } => {
                let left = buckets.get(self.at..).unwrap_or_default();
                let part: Vec<_> = left.iter().take(ITEM_BUCKETS).copied().collect();
                self.at += part.len();
                self.is_done = self.at >= buckets.len();
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
        if self.at == 0 && self.mark == 0 && is_short(&self.series.data) {
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
    let most = rows.len().min(start + ITEM_ROWS);
    if rows.word_bytes().is_some() {
        return most;
    }
    let mut bytes = 0;
    for row in start..most {
        bytes += rows.with_row(row, |row| row.value.len()).unwrap_or(0);
        if bytes > PAGE_BYTES / 2 {
            return row + 1;
        }
    }
    most
}
