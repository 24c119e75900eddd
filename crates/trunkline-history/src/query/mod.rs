//! Answers queries, one page at a time, from the Parquet files and the rows that are not in files yet.
//!
//! A page ends when it has the requested number of rows, or when its work reaches the limit. The cursor
//! contains the state for the next page, so no state is kept in memory between pages.
//!
//! - `selection`: the series that match the query; `reading`: the rows of a series in key order.
//! - `intervals`: aggregates over intervals of time; `points`: values at points in time.
//! - `progress`: the state that a cursor contains.

mod intervals;
mod points;
mod progress;
mod reading;
mod selection;

use std::collections::{BTreeSet, HashSet};

use trunkline_types::history::{
    Bucket, Grid, HistoryCursor, HistoryForm, HistoryPage, HistoryQuery, HistorySeries, RowKey,
    Rows, SeriesData,
};

use self::intervals::Intervals;
use self::points::Points;
use self::progress::{Progress, SeriesProgress};
pub(crate) use self::reading::View;
use self::reading::{Last, Limits, PageState, SeriesReader, TimeSpan};
use self::selection::Selection;
use crate::catalogue::{ENGINE_SERIES, Series};
use crate::error::Error;
use crate::files::schema::Projection;

/// Maximum number of rows, events and buckets of a page.
const PAGE_ROWS: usize = 64 << 10;
/// Approximate maximum size of a page in bytes.
const PAGE_BYTES: usize = 2 << 20;

/// A callback that returns the current sources of the rows of a series, given the id of the series.
pub(crate) type ViewOf<'a> = &'a dyn Fn(u32) -> View;

/// Reads one page of the answer to a query. Also returns the work for the page. `series` is sorted by name
/// and id, and `now` is the current time in nanoseconds.
pub(crate) fn read(
    query: &HistoryQuery,
    series: &[Series],
    view_of: ViewOf<'_>,
    now: i64,
) -> Result<(HistoryPage, usize), Error> {
    let shared = PageState::default();
    let from = query.from.clone().unwrap_or_default();
    let start = series.partition_point(|one| (&one.name, one.id) < (&from.variable, from.series));
    let selection = Selection::new(series.get(start..).unwrap_or_default(), query);
    let progress = match &query.from {
        Some(from) => Progress::decode(&from.state)?,
        None => begin(query, &selection, view_of, now, &shared),
    };
    let mut limits = Limits {
        rows: match query.limit {
            0 => PAGE_ROWS,
            limit => PAGE_ROWS.min(limit as usize),
        },
        bytes: PAGE_BYTES,
        is_exact: true,
    };
    let mut page = HistoryPage::default();
    let cursor = |one: &Series, after: Option<RowKey>, series: SeriesProgress| HistoryCursor {
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
    for number in 0.. {
        let Some(one) = selection.get(number, &shared) else {
            // If the search for the next series reached the work limit, the next page continues it.
            let next_candidate = selection.next_candidate();
            page.next = next_candidate.map(|one| cursor(one, None, begin_series(query, &progress)));
            break;
        };
        let is_first = one.name == from.variable && one.id == from.series && query.from.is_some();
        let (after, begun) = match is_first {
            true => (from.after, progress.series.clone()),
            false => (None, begin_series(query, &progress)),
        };
        if limits.rows == 0 || limits.bytes == 0 || shared.is_spent() {
            page.next = Some(cursor(one, after, begun));
            break;
        }
        let reader = SeriesReader {
            page: &shared,
            series: one,
            view: view_of(one.id),
            projection: match query.form {
                HistoryForm::Rows | HistoryForm::Last => Projection::Whole,
                HistoryForm::Interpolated(_) | HistoryForm::Stepped(_) => Projection::Values,
                HistoryForm::Buckets(_) | HistoryForm::Points(_) | HistoryForm::Total => {
                    Projection::Numbers
                }
            },
            position: query.after.filter(|_| is_rows),
            following: is_rows.then_some((&selection, number + 1)),
        };
        let answer = SeriesQuery {
            query,
            reader: &reader,
            progress: &progress,
        };
        let (data_type, data, next) = answer.read(after, begun, limits)?;
        limits = limits.remaining_after(&data);
        // Looking up a series is work even if the series has no rows.
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
            page.next = Some(cursor(one, after, progress));
            break;
        }
    }
    page.state = damage_sentence(&shared.damage.borrow());
    Ok((page, shared.work()))
}

/// Work for looking up a series, in decoded rows.
const SERIES_WORK: usize = 64;

impl Limits {
    fn remaining_after(self, data: &SeriesData) -> Self {
        let bytes = match data {
            SeriesData::Rows(rows) => rows.memory(),
            SeriesData::Buckets { buckets, .. } => buckets.len() * size_of::<Bucket>(),
        };
        Self {
            rows: self.rows.saturating_sub(data.len()),
            bytes: self.bytes.saturating_sub(bytes + 64),
            is_exact: self.is_exact,
        }
    }
}

/// Returns the state at the beginning of a query.
fn begin(
    query: &HistoryQuery,
    selection: &Selection<'_>,
    view_of: ViewOf<'_>,
    now: i64,
    page: &PageState,
) -> Progress {
    let (since, until) = (query.since, query.until);
    let mut span = TimeSpan {
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
        span.since = beginning(selection, view_of, page).unwrap_or(now);
    }
    let width = match query.form {
        HistoryForm::Interpolated(Grid(step)) | HistoryForm::Stepped(Grid(step)) => {
            step.map(|step| step.get())
        }
        form => form.width(span.since, until.map_or(now, |until| until.as_nanos())),
    };
    Progress {
        span,
        now,
        width: width.unwrap_or(0),
        series: SeriesProgress::begin(span.since, None),
    }
}

/// Returns the state at the beginning of a series.
fn begin_series(query: &HistoryQuery, progress: &Progress) -> SeriesProgress {
    let span = progress.span;
    match query.form {
        HistoryForm::Rows => SeriesProgress::begin(span.since, None),
        HistoryForm::Last => SeriesProgress::begin(span.since, Some(span.last)),
        HistoryForm::Buckets(_) | HistoryForm::Points(_) | HistoryForm::Total => {
            intervals::begin(span, has_durations(query))
        }
        HistoryForm::Interpolated(grid) | HistoryForm::Stepped(grid) => {
            points::begin(span, step_of(grid))
        }
    }
}

/// Returns true if the query requests the covered time and the time-weighted mean.
fn has_durations(query: &HistoryQuery) -> bool {
    query.durations || query.form == HistoryForm::Total
}

fn step_of(grid: Grid) -> Option<i64> {
    grid.0
        .map(|step| i64::try_from(step.get()).unwrap_or(i64::MAX))
}

/// Returns the time of the first row or event of the selected series, or an earlier time if the search would
/// exceed the work limit of a page. Returns `None` if these series have no rows or events.
fn beginning(selection: &Selection<'_>, view_of: ViewOf<'_>, page: &PageState) -> Option<i64> {
    let mut ids: HashSet<u32> = HashSet::new();
    let mut first: Option<i64> = None;
    let mut include = |time: i64| first = Some(first.map_or(time, |first| first.min(time)));
    // Use the files of the last view: a segment may move to files between two views.
    let mut view = view_of(ENGINE_SERIES);
    while let Some(one) = selection.get(ids.len(), page) {
        ids.insert(one.id);
        page.spend(SERIES_WORK);
        view = view_of(one.id);
        for rows in &view.memory {
            let mark_times = rows.events().first().map(|mark| mark.key.time);
            let times = rows.times().first().copied().into_iter().chain(mark_times);
            times.for_each(&mut include);
        }
    }
    if selection.next_candidate().is_some() {
        // The search was cut short, so return a time that is not after the first row of any series.
        let first_of_files = view.parts.first().map(|part| part.row.first_time);
        return first_of_files
            .into_iter()
            .chain(view.first_time)
            .chain(first)
            .min();
    }
    for part in view.parts.iter() {
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
        let selected_spans = spans.iter().filter(|(id, _)| ids.contains(id));
        for (_, span) in selected_spans {
            first = Some(first.map_or(span.first_time, |first| first.min(span.first_time)));
        }
    }
    first
}

/// Joins at most three sentences about files that could not be read; empty if all files could be read.
fn damage_sentence(damage: &BTreeSet<String>) -> String {
    let named: Vec<&str> = damage.iter().take(3).map(String::as_str).collect();
    let more = match damage.len().saturating_sub(named.len()) {
        0 => String::new(),
        more => format!("; there are {more} more such errors"),
    };
    format!("{}{more}", named.join("; "))
}

/// A query for one series of a page.
struct SeriesQuery<'r, 'a> {
    query: &'r HistoryQuery,
    reader: &'r SeriesReader<'a>,
    progress: &'r Progress,
}

type SeriesResult = (trunkline_types::DataType, SeriesData, intervals::Next);

impl<'r, 'a> SeriesQuery<'r, 'a> {
    fn intervals(&self) -> Intervals<'r, 'a> {
        let width = self.progress.width.max(1);
        Intervals {
            reader: self.reader,
            span: self.progress.span,
            width: (self.query.form != HistoryForm::Total).then_some(width),
            durations: has_durations(self.query),
            now: self.progress.now,
        }
    }

    fn points(&self, grid: Grid, is_linear: bool) -> Points<'r, 'a> {
        Points {
            reader: self.reader,
            span: self.progress.span,
            step: step_of(grid),
            is_linear,
            now: self.progress.now,
        }
    }

    fn read(
        &self,
        after: Option<RowKey>,
        progress: SeriesProgress,
        limits: Limits,
    ) -> Result<SeriesResult, Error> {
        let data_type = self.reader.series.data_type.clone();
        let span = self.progress.span;
        Ok(match self.query.form {
            HistoryForm::Rows => {
                let window = self.reader.window(after, span, limits)?;
                let next = window.end.map(|end| (Some(end), progress));
                (data_type, SeriesData::Rows(window.rows), next)
            }
            HistoryForm::Last => {
                let last = progress.search_until.unwrap_or(span.last).min(span.last);
                let span = TimeSpan { last, ..span };
                let (rows, next) = match self.reader.last(span, progress.latest_damage) {
                    Last::Found(_, rows) => (*rows, None),
                    Last::Nothing => (self.reader.series.rows(), None),
                    Last::Interrupted(searched) => {
                        let progress = SeriesProgress {
                            search_until: Some(searched.time),
                            latest_damage: searched.latest_damage,
                            ..progress
                        };
                        (Rows::default(), Some((None, progress)))
                    }
                };
                (data_type, SeriesData::Rows(rows), next)
            }
            HistoryForm::Buckets(_) | HistoryForm::Points(_) | HistoryForm::Total => {
                let intervals = self.intervals();
                let (buckets, next) = intervals.read(after, progress, limits.rows)?;
                let last = span.last.saturating_add(1).min(self.progress.now);
                let whole = last.saturating_sub(span.since).max(1) as u64;
                let width = intervals.width.unwrap_or(whole);
                (data_type, SeriesData::Buckets { width, buckets }, next)
            }
            HistoryForm::Interpolated(grid) | HistoryForm::Stepped(grid) => {
                let is_linear = matches!(self.query.form, HistoryForm::Interpolated(_));
                let points = self.points(grid, is_linear);
                let (rows, next) = points.read(after, progress, limits)?;
                (points.data_type(), SeriesData::Rows(rows), next)
            }
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails at an unexpected result")]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use trunkline_types::history::{HistoryEvent, HistoryEventRow, Row};
    use trunkline_types::{DataType, Pattern, Quality, Timestamp};

    use super::*;
    use crate::files::part::Part;
    use crate::files::seal;
    use crate::log::tail::Segment;

    /// A segment is moved to files while a page is read: its events are in memory when the first series is
    /// read, and in a file when the second series is read.
    #[test]
    fn engine_events_occur_once_while_a_segment_moves_to_files() {
        const TIME: i64 = 1_790_000_000_000_000_000;
        let folder = tempfile::tempdir().unwrap();
        let series: Vec<Series> = (1..=2)
            .map(|id| Series {
                id,
                name: format!("rig/{id}"),
                data_type: DataType::U8,
                units: String::new(),
            })
            .collect();
        let key = |sequence| RowKey {
            time: TIME,
            epoch: 1,
            sequence,
        };
        let mut segment = Segment::new(1);
        let mut started = Rows::new(None);
        started.push_event(HistoryEventRow {
            key: key(0),
            event: HistoryEvent::Started,
        });
        segment.add(ENGINE_SERIES, &started, Timestamp::from_nanos(TIME));
        for one in &series {
            let mut rows = one.rows();
            rows.push(&Row {
                key: key(1),
                delay: 0,
                quality: Quality::GOOD,
                value: &[7],
            });
            segment.add(one.id, &rows, Timestamp::from_nanos(TIME));
        }
        let sealed = seal::seal(folder.path(), &segment, &series, &|_| None).unwrap();
        let sealed = sealed.into_iter();
        let sealed: Vec<_> = sealed
            .map(|row| Arc::new(Part::new(folder.path(), row)))
            .collect();
        let (none, sealed) = (Arc::new(Vec::new()), Arc::new(sealed));
        let view_of = |id| match id {
            2 => View::of(&sealed, std::iter::empty(), id),
            _ => View::of(&none, [&segment].into_iter(), id),
        };
        let query = HistoryQuery {
            patterns: vec![Pattern::parse("**").unwrap()],
            ..HistoryQuery::default()
        };
        let (page, _) = read(&query, &series, &view_of, TIME).unwrap();
        assert_eq!(page.series.len(), 2);
        for one in page.series {
            let SeriesData::Rows(rows) = one.data else {
                panic!("buckets");
            };
            assert_eq!(
                (rows.len(), rows.events().len()),
                (1, 1),
                "{}",
                one.variable
            );
        }
    }

    const START: i64 = 1_790_000_000_000_000_000;

    /// Creates a file with `count` rows of each series, one nanosecond apart. `first` is the time of the
    /// first row.
    fn part(
        folder: &Path,
        number: u64,
        series: &[Series],
        (first, count): (i64, u64),
    ) -> Arc<Part> {
        let mut segment = Segment::new(number);
        for one in series {
            let mut rows = one.rows();
            for row in 0..count {
                rows.push(&Row {
                    key: RowKey {
                        time: first + row as i64,
                        epoch: 1,
                        sequence: number * count + row,
                    },
                    delay: 0,
                    quality: Quality::GOOD,
                    value: &1.5_f64.to_le_bytes(),
                });
            }
            segment.add(one.id, &rows, Timestamp::from_nanos(first));
        }
        let mut sealed = seal::seal(folder, &segment, series, &|_| None).unwrap();
        assert_eq!(sealed.len(), 1);
        Arc::new(Part::new(folder, sealed.remove(0)))
    }

    /// Without this bound, each page would compare the patterns with all names to read a few rows.
    #[test]
    fn search_for_series_to_prefetch_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let series = many(400);
        let parts = Arc::new(vec![part(folder.path(), 1, &series[..1], (START, 100))]);
        let view_of = |id| View::of(&parts, std::iter::empty(), id);
        let pattern = |n: u32| Pattern::parse(&format!("**/{n}*")).unwrap();
        let mut patterns: Vec<Pattern> = (1_000_000..1_005_000).map(pattern).collect();
        patterns.push(Pattern::parse(&series[0].name).unwrap());
        let query = HistoryQuery {
            patterns,
            limit: 10,
            ..HistoryQuery::default()
        };
        let (page, work) = read(&query, &series, &view_of, START).unwrap();
        assert_eq!(page.series[0].data.len(), 10);
        assert!(work < 2 * reading::PREFETCH_WORK, "{work}");
    }

    /// Without this bound, the searches in several files would use up the work of a page, and each page would
    /// contain the rows of a single series.
    #[test]
    fn search_for_series_to_prefetch_is_bounded_over_all_files() {
        let folder = tempfile::tempdir().unwrap();
        let series = many(80_000);
        let recorded = &series[..50];
        let parts = (0..8).map(|number| {
            let first = START + number as i64 * 1_000;
            part(folder.path(), number, recorded, (first, 1))
        });
        let parts = Arc::new(parts.collect());
        let view_of = |id| View::of(&parts, std::iter::empty(), id);
        let query = HistoryQuery {
            patterns: vec![Pattern::parse("**").unwrap()],
            ..HistoryQuery::default()
        };
        let (page, _) = read(&query, &series, &view_of, START).unwrap();
        assert_eq!(page.series.len(), recorded.len());
        assert!(page.series.iter().all(|one| one.data.len() == 8));
    }

    /// The newest file cannot be read, and the search needs two pages to find the oldest one.
    #[test]
    fn last_row_reports_later_damage_that_an_earlier_page_found() {
        const FILES: u64 = 40;
        let folder = tempfile::tempdir().unwrap();
        let series = many(2);
        let parts = (0..FILES).map(|number| {
            let recorded_series = match number {
                0 | 39 => &series[..1],
                _ => &series[1..],
            };
            let first = START + number as i64 * 1_000;
            part(folder.path(), number, recorded_series, (first, 1))
        });
        let parts: Vec<Arc<Part>> = parts.collect();
        let newest = &parts[FILES as usize - 1].path;
        let mut bytes = std::fs::read(newest).unwrap();
        bytes[10] ^= 1;
        std::fs::write(newest, bytes).unwrap();
        let parts = Arc::new(parts);
        let view_of = |id| View::of(&parts, std::iter::empty(), id);
        let mut query = HistoryQuery {
            patterns: vec![Pattern::parse(&series[0].name).unwrap()],
            form: HistoryForm::Last,
            ..HistoryQuery::default()
        };
        let (first, _) = read(&query, &series, &view_of, START).unwrap();
        assert!(first.series.is_empty());
        assert!(first.state.contains("cannot be read"), "{}", first.state);
        query.from = first.next;
        let (page, _) = read(&query, &series, &view_of, START).unwrap();
        assert!(page.next.is_none());
        let SeriesData::Rows(rows) = &page.series[0].data else {
            panic!("buckets");
        };
        assert_eq!(rows.times(), [START]);
        let events: Vec<_> = rows.events().iter().map(|mark| mark.event).collect();
        assert_eq!(events, [HistoryEvent::Lost(None)]);
    }

    fn many(count: u32) -> Vec<Series> {
        let of = |id: u32| Series {
            id,
            name: format!("rig/{id:06}"),
            data_type: DataType::F64,
            units: String::new(),
        };
        (1..=count).map(of).collect()
    }

    /// Reads all pages of a query without results. Returns their number, and the largest work of a page.
    fn pages(query: &HistoryQuery, series: &[Series]) -> (usize, usize) {
        let none = Arc::new(Vec::new());
        let view_of = |id| View::of(&none, std::iter::empty(), id);
        let (mut query, mut count, mut work_max) = (query.clone(), 0, 0);
        loop {
            let (page, work) = read(&query, series, &view_of, 0).unwrap();
            (count, work_max) = (count + 1, work_max.max(work));
            assert!(page.next.is_none() || page.next != query.from);
            query.from = page.next;
            if query.from.is_none() {
                return (count, work_max);
            }
        }
    }

    /// Without this bound, a page would take as long as comparing all patterns with all series.
    #[test]
    fn pattern_comparisons_count_as_work_of_a_page() {
        let series = many(400);
        let pattern = |n: u32| Pattern::parse(&format!("**/{n}*")).unwrap();
        for form in [
            HistoryForm::Rows,
            HistoryForm::Total,
            HistoryForm::Points(9),
        ] {
            let query = HistoryQuery {
                patterns: (1_000_000..1_005_000).map(pattern).collect(),
                form,
                ..HistoryQuery::default()
            };
            let (count, work_max) = pages(&query, &series);
            assert!(count > 2, "{form:?}: {count} pages");
            assert!(work_max < 2 * reading::PAGE_WORK, "{form:?}: {work_max}");
        }
    }

    /// The work for looking up a name does not depend on the number of names in the query.
    #[test]
    fn query_of_many_names_takes_little_work() {
        let series = many(2_000);
        let names = series.iter().map(|one| Pattern::parse(&one.name).unwrap());
        let query = HistoryQuery {
            patterns: names.collect(),
            ..HistoryQuery::default()
        };
        let (count, work_max) = pages(&query, &series);
        assert_eq!(count, 1);
        assert!(work_max < 100 * series.len(), "{work_max}");
    }
}
