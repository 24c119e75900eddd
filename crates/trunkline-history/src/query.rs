//! Reads what was recorded: from the Parquet files, and from the rows that are not in files yet.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use trunkline_types::history::{
    Bucket, HistoryCursor, HistoryEvent, HistoryForm, HistoryMark, HistoryPage, HistoryQuery,
    HistorySeries, RowKey, Rows, SeriesData,
};
use trunkline_types::{Pattern, Position};

use crate::buckets::Gathering;
use crate::catalogue::{ENGINE_SERIES, Series};
use crate::error::Error;
use crate::part::{self, Part, PartStream};
use crate::summary::Summary;
use crate::tail::Segment;

/// Rows, events and buckets of a page, and about its bytes.
const PAGE_ROWS: usize = 64 << 10;
const PAGE_BYTES: usize = 2 << 20;
/// Rows that are read first to find the last one.
const LAST_ROWS: u64 = 512;

/// What a query reads from: it does not change while the query runs.
pub(crate) struct View {
    pub(crate) parts: Arc<Vec<Arc<Part>>>,
    pub(crate) frozen: Vec<Arc<Segment>>,
}

/// Returns the rows of a series in the open segment, and what else there is.
pub(crate) type ViewOf<'a> = &'a dyn Fn(u32) -> (View, Option<Rows>);

/// The time of a query, from its first to its last nanosecond.
#[derive(Clone, Copy)]
struct Span {
    since: i64,
    last: i64,
}

impl Span {
    fn contains(self, time: i64) -> bool {
        time >= self.since && time <= self.last
    }
}

/// Answers a query. `series` are in the order of their names and ids.
pub(crate) fn read(
    query: &HistoryQuery,
    series: &[Series],
    view_of: ViewOf<'_>,
    now: i64,
) -> Result<HistoryPage, Error> {
    let span = Span {
        since: query.since.map_or(i64::MIN, |time| time.as_nanos()),
        last: query
            .until
            .map_or(i64::MAX, |time| time.as_nanos().saturating_sub(1)),
    };
    let limit = match query.limit {
        0 => PAGE_ROWS,
        limit => PAGE_ROWS.min(limit as usize),
    };
    let mut page = HistoryPage::default();
    let mut budget = Budget {
        rows: limit,
        bytes: PAGE_BYTES,
    };
    let mut of_engine = None;
    let from = query.from.clone().unwrap_or_default();
    let start = series.partition_point(|one| (&one.name, one.id) < (&from.variable, from.series));
    let (streams, damage) = (Streams::default(), Damage::default());
    for (index, one) in series.iter().enumerate().skip(start) {
        if !is_wanted(one, &query.patterns) {
            continue;
        }
        if budget.is_spent() {
            page.next = Some(HistoryCursor {
                variable: one.name.clone(),
                series: one.id,
                after: None,
            });
            break;
        }
        let after = match (&from.variable, from.series) {
            (name, id) if *name == one.name && id == one.id => from.after,
            _ => None,
        };
        let reading = Reading {
            position: query.after,
            damage: &damage,
            series: one,
            following: series.get(index + 1..).unwrap_or_default(),
            patterns: &query.patterns,
            view_of,
            span,
            streams: &streams,
        };
        let data = match query.form {
            HistoryForm::Rows => {
                let marks = match &of_engine {
                    Some(marks) => marks,
                    None => of_engine.insert(marks_of_engine(view_of, span, &damage)?),
                };
                let (rows, last) = reading.rows(after, marks, &mut budget)?;
                if let Some(last) = last {
                    page.next = Some(HistoryCursor {
                        variable: one.name.clone(),
                        series: one.id,
                        after: Some(last),
                    });
                }
                SeriesData::Rows(rows)
            }
            HistoryForm::Last => SeriesData::Rows(reading.last()?),
            HistoryForm::Buckets(_) | HistoryForm::Points(_) => {
                let until = query.until.map_or(now, |until| until.as_nanos());
                let width = query.form.width(span.since, until).unwrap_or(1);
                let buckets = reading.buckets(width)?;
                SeriesData::Buckets { width, buckets }
            }
        };
        budget.take(&data);
        if !data.is_empty() {
            page.series.push(HistorySeries {
                variable: one.name.clone(),
                data_type: one.data_type.clone(),
                units: one.units.clone(),
                data,
            });
        }
        if page.next.is_some() {
            break;
        }
    }
    page.state = sentence_of(&damage.borrow());
    Ok(page)
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

fn is_wanted(series: &Series, patterns: &[Pattern]) -> bool {
    let mut patterns = patterns.iter();
    series.id != ENGINE_SERIES && patterns.any(|pattern| pattern.matches(&series.name))
}

type Damage = RefCell<BTreeSet<String>>;

/// The files that are being read, by their paths. The rows of one series follow
/// those of another in a file, so that one pass reads them all.
type Streams = RefCell<HashMap<PathBuf, PartStream>>;

/// What a page still has room for.
struct Budget {
    rows: usize,
    bytes: usize,
}

impl Budget {
    fn is_spent(&self) -> bool {
        self.rows == 0 || self.bytes == 0
    }

    fn take(&mut self, data: &SeriesData) {
        let bytes = match data {
            SeriesData::Rows(rows) => rows.memory(),
            SeriesData::Buckets { buckets, .. } => buckets.len() * size_of::<Bucket>(),
        };
        self.rows = self.rows.saturating_sub(data.len());
        // Also a series without rows costs something.
        self.bytes = self.bytes.saturating_sub(bytes + 64);
    }
}

/// Returns the events that concern every variable.
fn marks_of_engine(
    view_of: ViewOf<'_>,
    span: Span,
    damage: &Damage,
) -> Result<Vec<HistoryMark>, Error> {
    let engine = Series::of_engine();
    let streams = Streams::default();
    let reading = Reading {
        position: None,
        damage,
        series: &engine,
        following: &[],
        patterns: &[],
        view_of,
        span,
        streams: &streams,
    };
    let mut budget = Budget {
        rows: usize::MAX,
        bytes: usize::MAX,
    };
    let (rows, _) = reading.rows(None, &[], &mut budget)?;
    Ok(rows.marks().to_vec())
}

/// Reads one series.
struct Reading<'a> {
    /// Only updates and events after this position.
    position: Option<Position>,
    /// What could not be read: the names of files, with the reasons.
    damage: &'a Damage,
    series: &'a Series,
    /// The series after this one.
    following: &'a [Series],
    patterns: &'a [Pattern],
    streams: &'a Streams,
    view_of: ViewOf<'a>,
    span: Span,
}

impl Reading<'_> {
    /// Returns the rows after a key as far as the budget allows, and the key of the last row if
    /// there may be more.
    fn rows(
        &self,
        after: Option<RowKey>,
        of_engine: &[HistoryMark],
        budget: &mut Budget,
    ) -> Result<(Rows, Option<RowKey>), Error> {
        let mut sources = self.sources(after)?;
        let mut out = self.series.rows();
        let mut marks: Vec<HistoryMark> = Vec::new();
        let mut cut = None;
        loop {
            let mut heads = Vec::with_capacity(sources.len());
            for (index, source) in sources.iter_mut().enumerate() {
                if let Some(key) = source.head(self, &mut marks)? {
                    heads.push((key, index));
                }
            }
            heads.sort_unstable();
            let Some((_, first)) = heads.first().copied() else {
                break;
            };
            let next = heads.get(1).map(|(key, _)| *key);
            let Some(source) = sources.get_mut(first) else {
                break;
            };
            if source.is_unread() {
                source.read(self)?;
                continue;
            }
            let end = match next {
                Some(next) => source.rows.seek(next).max(source.at + 1),
                None => source.rows.len(),
            };
            let end = end.min(source.at + budget.rows.saturating_sub(out.len()));
            out.append(&source.rows, source.at..end);
            source.at = end;
            if out.len() >= budget.rows || out.memory() >= budget.bytes {
                cut = out.len().checked_sub(1).and_then(|last| out.key(last));
                break;
            }
        }
        // Before those of the variable at the same time.
        marks.splice(0..0, of_engine.iter().copied());
        let is_here = |mark: &HistoryMark| {
            self.span.contains(mark.key.time)
                && self.is_after_position(&mark.key)
                && after.is_none_or(|after| mark.key > after)
                && cut.is_none_or(|cut| mark.key <= cut)
        };
        marks.retain(is_here);
        marks.sort_by_key(|mark| mark.key);
        if out.len() + marks.len() > budget.rows
            && let Some(end) = key_at(&out, &marks, budget.rows)
        {
            let mut fewer = Rows::new(out.word_bytes());
            fewer.append(&out, 0..out.seek(next_key(end)));
            out = fewer;
            marks.retain(|mark| mark.key <= end);
            cut = Some(end);
        }
        for mark in marks {
            out.push_mark(mark);
        }
        Ok((out, cut))
    }

    /// Returns where a part has rows of the series. A part that cannot be read has none.
    fn span(&self, part: &Part) -> Option<part::Span> {
        part.span(self.series.id).unwrap_or_else(|error| {
            self.note_damage(part, error);
            None
        })
    }

    /// Returns what was read from a part; notes why nothing was.
    fn or_damage<T>(&self, part: &Part, read: Result<T, Error>) -> Option<T> {
        read.map_err(|error| self.note_damage(part, error)).ok()
    }

    fn note_damage(&self, part: &Part, error: Error) {
        let sentence = format!("{} cannot be read: {}", part.row.path, error.sentence());
        self.damage.borrow_mut().insert(sentence);
    }

    /// Epochs are compared for equality only; the rows of others are selected by time. Late samples
    /// of this epoch are not after a position, because they never were the value.
    fn is_after_position(&self, key: &RowKey) -> bool {
        let position = self.position;
        position.is_none_or(|at| {
            key.epoch != at.epoch || (key.sequence > at.sequence && !key.is_late())
        })
    }

    /// Leaves out the updates up to the position that the query names.
    fn after_position(&self, mut rows: Rows) -> Rows {
        if self.position.is_none() {
            return rows;
        }
        let mut left = Rows::new(rows.word_bytes());
        for row in 0..rows.len() {
            if rows
                .key(row)
                .is_some_and(|key| self.is_after_position(&key))
            {
                left.append(&rows, row..row + 1);
            }
        }
        for mark in rows.take_marks() {
            left.push_mark(mark);
        }
        left
    }

    /// Takes the next rows of a file, and returns their number. A page that is damaged is left out,
    /// and an event says so.
    fn take(&self, file: &InFile, rows: &mut Rows) -> u64 {
        if let Ok(taken) = self.try_take(file, rows) {
            return taken;
        }
        // Page by page, so that one page is lost and not its neighbours.
        let end = part::page_end(file.next).min(file.end);
        let mut page = self.series.rows();
        if let Err(error) = file.part.read(self.series, file.next, end, &mut page) {
            self.note_damage(&file.part, error);
            rows.push_mark(HistoryMark {
                key: RowKey {
                    time: file.last_time,
                    epoch: u64::MAX,
                    sequence: u64::MAX,
                },
                event: HistoryEvent::Lost(None),
            });
        } else {
            *rows = page;
        }
        end - file.next
    }

    fn try_take(&self, file: &InFile, rows: &mut Rows) -> Result<u64, Error> {
        let most = file.end - file.next;
        let mut streams = self.streams.borrow_mut();
        let known = streams.remove(&file.part.path);
        let known = known.filter(|stream| stream.is_at(self.series.id, file.next));
        let mut stream = match known {
            Some(stream) => stream,
            None => self.stream(file)?,
        };
        let taken = stream.take(self.series, file.next, most as usize, rows)?;
        streams.insert(file.part.path.clone(), stream);
        Ok(taken)
    }

    /// Begins to read a file at the next row, for this series and the wanted ones after it, as far
    /// as a page may have room for them.
    fn stream(&self, file: &InFile) -> Result<PartStream, Error> {
        let mut ranges = vec![(self.series, file.next, file.end)];
        let mut rows = file.end - file.next;
        let Span { since, last } = self.span;
        for series in self.following {
            if rows >= PAGE_ROWS as u64 {
                break;
            }
            if !is_wanted(series, self.patterns) {
                continue;
            }
            let found = file
                .part
                .span(series.id)?
                .filter(|found| found.last_time >= since && found.first_time <= last);
            if let Some(found) = found {
                let (from, to) = file.part.narrow(found, since, last)?;
                if from < to {
                    rows += to - from;
                    ranges.push((series, from, to));
                }
            }
        }
        file.part.stream(&ranges)
    }

    /// Everything that may have rows after a key and within the time.
    fn sources(&self, after: Option<RowKey>) -> Result<Vec<Source>, Error> {
        let (view, open) = (self.view_of)(self.series.id);
        let since = after.map_or(self.span.since, |after| after.time.max(self.span.since));
        let mut sources = Vec::new();
        for part in view.parts.iter() {
            if part.row.last_time < since || part.row.first_time > self.span.last {
                continue;
            }
            let Some(found) = self.span(part) else {
                continue;
            };
            if found.last_time < since || found.first_time > self.span.last {
                continue;
            }
            let range = part.narrow(found, since, self.span.last);
            let Some((first, end)) = self.or_damage(part, range) else {
                continue;
            };
            sources.push(Source {
                rows: Rows::new(None),
                at: 0,
                after,
                file: Some(InFile {
                    part: Arc::clone(part),
                    next: first,
                    end,
                    first_time: found.first_time,
                    last_time: found.first_time.max(since),
                    is_unread: true,
                }),
            });
        }
        let frozen = view
            .frozen
            .iter()
            .filter_map(|segment| segment.rows.get(&self.series.id));
        for rows in frozen.cloned().chain(open) {
            let rows = self.after_position(rows);
            sources.push(Source::of_memory(rows, after, self.span));
        }
        Ok(sources)
    }

    /// Returns the last row before the end of the time.
    fn last(&self) -> Result<Rows, Error> {
        let (view, open) = (self.view_of)(self.series.id);
        let mut best: Option<(RowKey, Rows)> = None;
        let mut offer = |rows: &Rows, row: usize| {
            if let Some(key) = rows.key(row)
                && self.span.contains(key.time)
                && best.as_ref().is_none_or(|(known, _)| *known < key)
            {
                let mut only = Rows::new(rows.word_bytes());
                only.append(rows, row..row + 1);
                best = Some((key, only));
            }
        };
        let frozen = view
            .frozen
            .iter()
            .filter_map(|segment| segment.rows.get(&self.series.id));
        for rows in frozen.chain(&open) {
            let keys = (0..rows.len()).filter(|row| {
                let time = rows.times().get(*row);
                time.is_some_and(|time| self.span.contains(*time))
            });
            if let Some(row) = keys.max_by_key(|row| rows.key(*row)) {
                offer(rows, row);
            }
        }
        let mut parts: Vec<_> = view.parts.iter().collect();
        parts.sort_by_key(|part| std::cmp::Reverse(part.row.last_time));
        for part in parts {
            let known = best.as_ref().map_or(i64::MIN, |(key, _)| key.time);
            if part.row.last_time < known.max(self.span.since) {
                break;
            }
            if part.row.first_time > self.span.last {
                continue;
            }
            let Some(found) = self.span(part) else {
                continue;
            };
            let range = part.narrow(found, self.span.since, self.span.last);
            let Some((first, end)) = self.or_damage(part, range) else {
                continue;
            };
            let (mut to, mut count) = (end, LAST_ROWS);
            while to > first {
                let from = to.saturating_sub(count).max(first);
                count *= 2;
                let mut rows = self.series.rows();
                let read = part.read(self.series, from, to, &mut rows);
                if self.or_damage(part, read).is_none() {
                    break;
                }
                let is_inside = |row: &usize| {
                    let time = rows.times().get(*row);
                    time.is_some_and(|time| self.span.contains(*time))
                };
                if let Some(row) = (0..rows.len()).rev().find(is_inside) {
                    let key = rows.key(row);
                    if key.is_some_and(|key| best.as_ref().is_none_or(|(known, _)| *known < key)) {
                        let mut only = self.series.rows();
                        only.append(&rows, row..row + 1);
                        best = key.map(|key| (key, only));
                    }
                    break;
                }
                to = from;
            }
        }
        Ok(best.map_or_else(|| self.series.rows(), |(_, rows)| rows))
    }

    fn buckets(&self, width: u64) -> Result<Vec<Bucket>, Error> {
        let (view, open) = (self.view_of)(self.series.id);
        let mut gathering = Gathering::new(width);
        let Span { since, last } = self.span;
        // In the order of recording, so that of rows of one time the last is the newest.
        let mut parts: Vec<&Arc<Part>> = view.parts.iter().collect();
        parts.sort_by_key(|part| part.row.segment);
        for part in parts {
            if part.row.last_time < since || part.row.first_time > last {
                continue;
            }
            let Some(found) = self.span(part) else {
                continue;
            };
            // Without a summary the rows say the same.
            match part.summary(self.series.id, width).unwrap_or_default() {
                Some(summary) => {
                    self.add_summary(part, found, &summary, &mut gathering)?;
                }
                None => self.add_rows(part, found, (since, last), &mut gathering)?,
            }
        }
        let frozen = view
            .frozen
            .iter()
            .filter_map(|segment| segment.rows.get(&self.series.id));
        for rows in frozen.chain(&open) {
            let accepts = |time| self.span.contains(time);
            gathering.add_all(rows, &self.series.data_type, accepts)?;
        }
        let filled = gathering.finish().into_iter();
        Ok(filled.map(|filling| filling.bucket).collect())
    }

    /// Adds the rows of a time.
    fn add_rows(
        &self,
        part: &Part,
        found: part::Span,
        (since, last): (i64, i64),
        gathering: &mut Gathering,
    ) -> Result<(), Error> {
        let range = part.narrow(found, since, last);
        let Some((first, end)) = self.or_damage(part, range) else {
            return Ok(());
        };
        let mut result = Ok(());
        let read = part.visit_numbers(first, end, |time, row| {
            if time >= since && time <= last && result.is_ok() {
                result = gathering.add(time, row);
            }
        });
        self.or_damage(part, read);
        result
    }

    /// Adds what was summarized, and the rows at the ends of the time of which only a part is asked
    /// for.
    fn add_summary(
        &self,
        part: &Part,
        found: part::Span,
        summary: &Summary,
        gathering: &mut Gathering,
    ) -> Result<(), Error> {
        let Span { since, last } = self.span;
        for filling in &summary.buckets {
            let start = filling.bucket.start;
            let end = start.saturating_add(summary.width as i64);
            if end <= since || start > last {
                continue;
            }
            if start >= since && end.saturating_sub(1) <= last {
                gathering.join(filling)?;
            } else {
                let time = (start.max(since), end.saturating_sub(1).min(last));
                self.add_rows(part, found, time, gathering)?;
            }
        }
        Ok(())
    }
}

impl Series {
    /// The series of the history itself.
    pub(crate) fn of_engine() -> Self {
        Self {
            id: ENGINE_SERIES,
            name: String::new(),
            data_type: trunkline_types::DataType::Bytes,
            units: String::new(),
        }
    }

    /// Empty rows for the values of this series.
    pub(crate) fn rows(&self) -> Rows {
        Rows::new(self.data_type.fixed_size())
    }
}

/// Rows of one series in the order of their keys, in memory or in a file.
struct Source {
    rows: Rows,
    /// The next row in `rows`.
    at: usize,
    after: Option<RowKey>,
    file: Option<InFile>,
}

struct InFile {
    part: Arc<Part>,
    next: u64,
    end: u64,
    /// No row is older.
    first_time: i64,
    /// Time of the last row that was read.
    last_time: i64,
    is_unread: bool,
}

impl Source {
    fn of_memory(rows: Rows, after: Option<RowKey>, span: Span) -> Self {
        let rows = rows.sorted();
        let start = rows.times().partition_point(|time| *time < span.since);
        let end = rows.times().partition_point(|time| *time <= span.last);
        let at = match after {
            Some(after) => start.max(rows.seek(next_key(after))),
            None => start,
        };
        let mut inside = Rows::new(rows.word_bytes());
        inside.append(&rows, at..end.max(at));
        for mark in rows.marks() {
            inside.push_mark(*mark);
        }
        Self {
            rows: inside,
            at: 0,
            after,
            file: None,
        }
    }

    /// Returns true if the source is a file of which nothing was read yet.
    fn is_unread(&self) -> bool {
        self.file.as_ref().is_some_and(|file| file.is_unread)
    }

    /// Returns the key of the next row, or a smaller one if nothing was read yet. Moves the events
    /// that it finds to `marks`.
    fn head(
        &mut self,
        reading: &Reading<'_>,
        marks: &mut Vec<HistoryMark>,
    ) -> Result<Option<RowKey>, Error> {
        if let Some(file) = self.file.as_ref().filter(|file| file.is_unread) {
            return Ok(Some(RowKey {
                time: file.first_time,
                ..RowKey::default()
            }));
        }
        loop {
            marks.extend(self.rows.take_marks());
            if let Some(key) = self.rows.key(self.at) {
                return Ok(Some(key));
            }
            if !self.read(reading)? {
                return Ok(None);
            }
        }
    }

    /// Reads the next rows from the file. Returns false if there are none.
    fn read(&mut self, reading: &Reading<'_>) -> Result<bool, Error> {
        let Some(file) = &mut self.file else {
            return Ok(false);
        };
        file.is_unread = false;
        if file.next >= file.end {
            return Ok(false);
        }
        let mut rows = reading.series.rows();
        file.next += reading.take(file, &mut rows);
        let mut rows = reading.after_position(rows);
        file.last_time = rows.times().last().copied().unwrap_or(file.last_time);
        let Span { since, last } = reading.span;
        let start = rows.times().partition_point(|time| *time < since);
        let start = match self.after {
            Some(after) => start.max(rows.seek(next_key(after))),
            None => start,
        };
        let stop = rows.times().partition_point(|time| *time <= last);
        let mut inside = Rows::new(rows.word_bytes());
        inside.append(&rows, start..stop.max(start));
        for mark in rows.take_marks() {
            inside.push_mark(mark);
        }
        self.rows = inside;
        self.at = 0;
        Ok(true)
    }
}

/// Returns the key of the last of the first `count` rows and events.
fn key_at(rows: &Rows, marks: &[HistoryMark], count: usize) -> Option<RowKey> {
    let (mut row, mut mark) = (0, 0);
    let mut last = None;
    for _ in 0..count {
        let (of_row, of_mark) = (rows.key(row), marks.get(mark).map(|mark| mark.key));
        last = match (of_row, of_mark) {
            (Some(of_row), Some(of_mark)) if of_mark < of_row => {
                mark += 1;
                Some(of_mark)
            }
            (Some(of_row), _) => {
                row += 1;
                Some(of_row)
            }
            (None, Some(of_mark)) => {
                mark += 1;
                Some(of_mark)
            }
            (None, None) => return last,
        };
    }
    last
}

/// The smallest key after this one.
fn next_key(key: RowKey) -> RowKey {
    RowKey {
        sequence: key.sequence.saturating_add(1),
        ..key
    }
}
