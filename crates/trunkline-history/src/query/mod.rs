//! Answers queries, each with a page: reads the Parquet files, and the rows that are not in files yet.
//!
//! A page ends when it has as many rows as were asked for, or took as much work as a page may. The
//! cursor of the next page has everything that is needed to continue, so that nothing is kept
//! between two pages.
//!
//! - `reading`: the rows of a series in their order.
//! - `intervals`: buckets; `points`: values at points in time.
//! - `progress`: what the cursor has.

mod intervals;
mod points;
mod progress;
mod reading;

use std::collections::{BTreeSet, HashSet};

use trunkline_types::history::{
    Bucket, Grid, HistoryCursor, HistoryForm, HistoryPage, HistoryQuery, HistorySeries, RowKey,
    Rows, SeriesData,
};

use self::intervals::Intervals;
use self::points::Points;
use self::progress::{Progress, SeriesProgress};
pub(crate) use self::reading::View;
use self::reading::{Last, Page, Reading, Room, Span, is_wanted};
use crate::catalogue::{ENGINE_SERIES, Series};
use crate::error::Error;

/// Rows, events and buckets of a page, and about its bytes.
const PAGE_ROWS: usize = 64 << 10;
const PAGE_BYTES: usize = 2 << 20;

/// Returns where the rows of a series are.
pub(crate) type ViewOf<'a> = &'a dyn Fn(u32) -> View;

/// Answers a query, and returns the work that the page took. `series` are in the order of their names
/// and ids.
pub(crate) fn read(
    query: &HistoryQuery,
    series: &[Series],
    view_of: ViewOf<'_>,
    now: i64,
) -> Result<(HistoryPage, usize), Error> {
    let shared = Page::default();
    let from = query.from.clone().unwrap_or_default();
    let progress = match &query.from {
        Some(from) => Progress::decode(&from.state)?,
        None => begin(query, series, view_of, now, &shared)?,
    };
    let of_engine = view_of(ENGINE_SERIES).memory;
    let mut room = Room {
        rows: match query.limit {
            0 => PAGE_ROWS,
            limit => PAGE_ROWS.min(limit as usize),
        },
        bytes: PAGE_BYTES,
    };
    let mut page = HistoryPage::default();
    let start = series.partition_point(|one| (&one.name, one.id) < (&from.variable, from.series));
    for (index, one) in series.iter().enumerate().skip(start) {
        if !is_wanted(one, &query.patterns) {
            continue;
        }
        let is_first = one.name == from.variable && one.id == from.series && query.from.is_some();
        let cursor = |after: Option<RowKey>, series: SeriesProgress| HistoryCursor {
            variable: one.name.clone(),
            series: one.id,
            after,
            state: Progress {
                series,
                ..progress.clone()
            }
            .encode(),
        };
        let is_rows = query.form == HistoryForm::Rows;
        let reading = Reading {
            page: &shared,
            series: one,
            view: view_of(one.id),
            of_engine: &of_engine,
            position: query.after.filter(|_| is_rows),
            following: match is_rows {
                true => series.get(index + 1..).unwrap_or_default(),
                false => &[],
            },
            patterns: &query.patterns,
        };
        let answer = Answering {
            query,
            reading: &reading,
            progress: &progress,
        };
        let (after, begun) = match is_first {
            true => (from.after, progress.series.clone()),
            false => (None, answer.begin()),
        };
        if room.rows == 0 || room.bytes == 0 || shared.is_spent() {
            page.next = Some(cursor(after, begun));
            break;
        }
        let (data_type, data, next) = answer.read(after, begun, room)?;
        room = room.left_after(&data);
        // Also a series without rows costs something.
        shared.spend(SERIES_WORK);
        if !data.is_empty() {
            page.series.push(HistorySeries {
                variable: one.name.clone(),
                data_type,
                units: one.units.clone(),
                data,
            });
        }
        if let Some((after, progress)) = next {
            page.next = Some(cursor(after, progress));
            break;
        }
    }
    page.state = sentence_of(&shared.damage.borrow());
    Ok((page, shared.work()))
}

/// Work of a series, in rows.
const SERIES_WORK: usize = 64;

impl Room {
    fn left_after(self, data: &SeriesData) -> Self {
        let bytes = match data {
            SeriesData::Rows(rows) => rows.memory(),
            SeriesData::Buckets { buckets, .. } => buckets.len() * size_of::<Bucket>(),
        };
        Self {
            rows: self.rows.saturating_sub(data.len()),
            bytes: self.bytes.saturating_sub(bytes + 64),
        }
    }
}

/// The state before the first page.
fn begin(
    query: &HistoryQuery,
    series: &[Series],
    view_of: ViewOf<'_>,
    now: i64,
    page: &Page,
) -> Result<Progress, Error> {
    let (since, until) = (query.since, query.until);
    let mut span = Span {
        since: since.map_or(i64::MIN, |time| time.as_nanos()),
        last: until.map_or(i64::MAX, |time| time.as_nanos().saturating_sub(1)),
    };
    let needs_start = match query.form {
        HistoryForm::Points(_) | HistoryForm::Total => true,
        HistoryForm::Interpolated(Grid(step)) | HistoryForm::Stepped(Grid(step)) => {
            let last = until.map_or(now, |time| time.as_nanos().saturating_sub(1));
            span.last = last;
            if step.is_none() {
                span.since = since.map_or(now, |time| time.as_nanos());
                span.last = span.since;
            }
            step.is_some()
        }
        HistoryForm::Buckets(_) => query.durations,
        HistoryForm::Rows | HistoryForm::Last => false,
    };
    if needs_start && since.is_none() {
        span.since = beginning(query, series, view_of, page).unwrap_or(now);
    }
    let width = match query.form {
        HistoryForm::Interpolated(Grid(step)) | HistoryForm::Stepped(Grid(step)) => {
            step.map(|step| step.get())
        }
        form => form.width(span.since, until.map_or(now, |until| until.as_nanos())),
    };
    Ok(Progress {
        span,
        now,
        width: width.unwrap_or(0),
        series: SeriesProgress::begin(span.since, None),
    })
}

/// Returns the time of the first row or event of the wanted series, or an earlier one if finding it
/// would take more work than a page may; `None` if they have none.
fn beginning(
    query: &HistoryQuery,
    series: &[Series],
    view_of: ViewOf<'_>,
    page: &Page,
) -> Option<i64> {
    let wanted = series.iter().filter(|one| is_wanted(one, &query.patterns));
    let wanted: HashSet<u32> = wanted.map(|one| one.id).collect();
    let mut first: Option<i64> = None;
    let mut offer = |time: i64| first = Some(first.map_or(time, |first| first.min(time)));
    let mut parts = None;
    for id in &wanted {
        let view = view_of(*id);
        for rows in &view.memory {
            let of_marks = rows.marks().first().map(|mark| mark.key.time);
            let times = rows.times().first().copied().into_iter().chain(of_marks);
            times.for_each(&mut offer);
        }
        parts = Some(view.parts);
    }
    for part in parts.iter().flat_map(|parts| parts.iter()) {
        if first.is_some_and(|first| first <= part.row.first_time) {
            break;
        }
        if page.is_spent() {
            return Some(part.row.first_time);
        }
        if !part.is_indexed() {
            page.spend(reading::INDEX_WORK);
        }
        let spans = page.or_damage(part, part.spans()).unwrap_or_default();
        page.spend(spans.len());
        let of_wanted = spans.iter().filter(|(id, _)| wanted.contains(id));
        for (_, span) in of_wanted {
            first = Some(first.map_or(span.first_time, |first| first.min(span.first_time)));
        }
    }
    first
}

/// Names what could not be read; empty if there is nothing.
fn sentence_of(damage: &BTreeSet<String>) -> String {
    let named: Vec<&str> = damage.iter().take(3).map(String::as_str).collect();
    let more = match damage.len().saturating_sub(named.len()) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    format!("{}{more}", named.join("; "))
}

/// A series of a page.
struct Answering<'r, 'a> {
    query: &'r HistoryQuery,
    reading: &'r Reading<'a>,
    progress: &'r Progress,
}

type Read = (trunkline_types::DataType, SeriesData, intervals::Next);

impl<'r, 'a> Answering<'r, 'a> {
    fn intervals(&self) -> Intervals<'r, 'a> {
        let width = self.progress.width.max(1);
        Intervals {
            reading: self.reading,
            span: self.progress.span,
            width: (self.query.form != HistoryForm::Total).then_some(width),
            durations: self.query.durations || self.query.form == HistoryForm::Total,
            now: self.progress.now,
        }
    }

    fn points(&self, grid: Grid, is_linear: bool) -> Points<'r, 'a> {
        Points {
            reading: self.reading,
            span: self.progress.span,
            step: grid
                .0
                .map(|step| i64::try_from(step.get()).unwrap_or(i64::MAX)),
            is_linear,
            now: self.progress.now,
        }
    }

    fn begin(&self) -> SeriesProgress {
        let span = self.progress.span;
        match self.query.form {
            HistoryForm::Rows => SeriesProgress::begin(span.since, None),
            HistoryForm::Last => SeriesProgress::begin(span.since, Some(span.last)),
            HistoryForm::Buckets(_) | HistoryForm::Points(_) | HistoryForm::Total => {
                self.intervals().begin()
            }
            HistoryForm::Interpolated(grid) | HistoryForm::Stepped(grid) => {
                self.points(grid, false).begin()
            }
        }
    }

    fn read(
        &self,
        after: Option<RowKey>,
        progress: SeriesProgress,
        room: Room,
    ) -> Result<Read, Error> {
        let data_type = self.reading.series.data_type.clone();
        let span = self.progress.span;
        Ok(match self.query.form {
            HistoryForm::Rows => {
                let window = self.reading.window(after, span, room)?;
                let next = window.end.map(|end| (Some(end), progress));
                (data_type, SeriesData::Rows(window.rows), next)
            }
            HistoryForm::Last => {
                let last = progress.seek.unwrap_or(span.last).min(span.last);
                let (rows, next) = match self.reading.last(Span { last, ..span }) {
                    Last::Found(_, rows) => (*rows, None),
                    Last::Nothing => (self.reading.series.rows(), None),
                    Last::NotAfter(time) => {
                        let progress = SeriesProgress {
                            seek: Some(time),
                            ..progress
                        };
                        (Rows::default(), Some((None, progress)))
                    }
                };
                (data_type, SeriesData::Rows(rows), next)
            }
            HistoryForm::Buckets(_) | HistoryForm::Points(_) | HistoryForm::Total => {
                let intervals = self.intervals();
                let (buckets, next) = intervals.read(after, progress, room.rows)?;
                let last = span.last.saturating_add(1).min(self.progress.now);
                let whole = last.saturating_sub(span.since).max(1) as u64;
                let width = intervals.width.unwrap_or(whole);
                (data_type, SeriesData::Buckets { width, buckets }, next)
            }
            HistoryForm::Interpolated(grid) | HistoryForm::Stepped(grid) => {
                let is_linear = matches!(self.query.form, HistoryForm::Interpolated(_));
                let points = self.points(grid, is_linear);
                let (rows, next) = points.read(after, progress, room)?;
                (points.data_type(), SeriesData::Rows(rows), next)
            }
        })
    }
}
