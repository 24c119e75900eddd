//! Writes a Parquet file of rows, and reads the rows of a series from such a file.
//!
//! Rows are sorted by variable, series and time. The file's key-value metadata has three entries:
//!
//! - `trunkline.series`: one line per series, with the id, the first row, the number of rows, the times
//!   of the first and the last row, and the definition of the series in hexadecimal, encoded as in the log.
//! - `trunkline.checksums`: the CRC32C of each 64 KiB block before the footer, eight hexadecimal digits
//!   per block.
//! - `trunkline.file`: the number of bytes before the footer, the CRC32C of the summary, the log
//!   segments whose rows the file contains, and the logs of spools among them, each with the number of
//!   files that have its rows. The catalogue can be rebuilt from this entry.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use arrow_array::RecordBatch;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder, RowSelection, RowSelector,
};
use parquet::file::metadata::{KeyValue, ParquetMetaData};
use parquet::file::page_index::offset_index::{OffsetIndexMetaData, PageLocation};
use parquet::file::reader::ChunkReader;
use trunkline_types::history::{HistoryEventRow, RowKey, Rows};

use crate::catalogue::{ENGINE_SERIES, PartRow, Series};
use crate::error::Error;
use crate::files::block_checksums::{CheckedFile, ChecksumWriter};
use crate::files::footer::{self, FileNote, Footer, FooterContent, SealedLog};
use crate::files::row_groups::RowGroups;
use crate::files::schema::{Projection, ReadBatch, SCHEMA, column};
use crate::files::summary::{self, Expected, Summarizer, Summary, SummaryBucket};
use crate::paths::{UNFINISHED, remove_if_there};
use crate::private;
use crate::sync::lock;

/// Maximum number of rows in a batch that is read from a file.
const BATCH_ROWS_MAX: usize = 8 << 10;
/// Maximum number of bytes of values in a batch that is read from a file.
pub(crate) const BATCH_BYTES_MAX: usize = 4 << 20;

/// A Parquet file of a history.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) path: PathBuf,
    pub(crate) row: PartRow,
    summary_path: PathBuf,
    footer_path: PathBuf,
    /// The index, summaries and engine events, each loaded on first use.
    loaded: Mutex<Loaded>,
}

/// Data loaded from the file and its summary, cached for later queries.
#[derive(Debug, Default)]
struct Loaded {
    index: Option<Arc<Index>>,
    summaries: Option<Arc<HashMap<u32, Arc<Summary>>>>,
    engine_marks: Option<Arc<[HistoryEventRow]>>,
    /// Approximate memory that the other fields use, in bytes.
    bytes: usize,
}

#[derive(Debug)]
struct Index {
    metadata: ArrowReaderMetadata,
    series: BTreeMap<u32, SeriesSpan>,
    /// CRC32C of each 64 KiB block before the footer.
    sums: Arc<Vec<u32>>,
    segments: Vec<(u64, u64)>,
    spool_logs: Vec<SealedLog>,
}

/// The range of rows of a series in a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SeriesSpan {
    pub(crate) first_row: u64,
    pub(crate) rows: u64,
    pub(crate) first_time: i64,
    pub(crate) last_time: i64,
}

/// Writes rows to a new part. Each series is added once, in the order of names and ids. The rows of a
/// series must be sorted, and may be added in several pieces.
pub(crate) struct PartWriter {
    path: PathBuf,
    unfinished: Unfinished,
    writer: RowGroups<ChecksumWriter<BufWriter<File>>>,
    /// The content of the metadata entry `trunkline.series`.
    series_lines: String,
    /// Times of the first and the last row or event of the file.
    times: Option<(i64, i64)>,
    rows: u64,
    /// Number of the first row of the current series.
    first_row: u64,
    /// Times of the first and the last row of the current series; `None` while it has no rows.
    series_times: Option<(i64, i64)>,
    summarizer: Summarizer,
}

/// An unfinished file. It is removed on drop, unless it was renamed.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl PartWriter {
    /// Begins a part. `path` is its final path relative to the history's folder; [`finish`](Self::finish)
    /// renames the file to it.
    pub(crate) fn create(folder: &Path, path: &str) -> Result<Self, Error> {
        let unfinished = folder.join(UNFINISHED);
        private::create_folders(&unfinished)?;
        let name = path.replace('/', "_");
        let (path, unfinished) = (folder.join(path), Unfinished(unfinished.join(name)));
        let file = private::create_file(&unfinished.0)?;
        let file = ChecksumWriter::new(BufWriter::with_capacity(1 << 20, file));
        Ok(Self {
            path,
            unfinished,
            writer: RowGroups::new(file)?,
            series_lines: String::new(),
            times: None,
            rows: 0,
            first_row: 0,
            series_times: None,
            summarizer: Summarizer::default(),
        })
    }

    /// Adds all rows and events of a series, which must be sorted.
    pub(crate) fn add_series(&mut self, series: &Series, rows: &Rows) -> Result<(), Error> {
        let times = rows.times().first().zip(rows.times().last());
        self.begin_series(
            series,
            times.map(|(first, last)| Expected {
                rows: rows.len() as u64,
                first_time: *first,
                last_time: *last,
            }),
        );
        self.add(series, rows)?;
        self.end_series(series);
        Ok(())
    }

    /// Begins a series. `expected` is an estimate of its rows; without it, the series gets no summary.
    pub(crate) fn begin_series(&mut self, series: &Series, expected: Option<Expected>) {
        (self.first_row, self.series_times) = (self.rows, None);
        self.summarizer.begin(series, expected);
        self.writer.begin(&series.name);
    }

    /// Adds rows and events of the current series. They must be sorted, and must not precede those added
    /// before.
    pub(crate) fn add(&mut self, series: &Series, rows: &Rows) -> Result<(), Error> {
        self.summarizer.add(series, rows);
        let mut at = 0;
        for mark in rows.events() {
            let before = rows.seek(mark.key);
            self.writer.add(series, rows, at..before)?;
            at = before.max(at);
            self.writer.add_mark(mark)?;
        }
        self.writer.add(series, rows, at..rows.len())?;
        self.rows += (rows.len() + rows.events().len()) as u64;
        let row_times = [rows.times().first(), rows.times().last()]
            .into_iter()
            .flatten();
        let mark_times = rows.events().iter().map(|mark| &mark.key.time);
        let times = row_times.chain(mark_times).copied();
        if let Some(times) = times.clone().min().zip(times.max()) {
            self.series_times = Some(widen(self.series_times, times));
        }
        Ok(())
    }

    /// Ends the current series.
    pub(crate) fn end_series(&mut self, series: &Series) {
        self.summarizer.end();
        if let Some((first_time, last_time)) = self.series_times {
            let span = SeriesSpan {
                first_row: self.first_row,
                rows: self.rows - self.first_row,
                first_time,
                last_time,
            };
            self.series_lines.push_str(&footer::line_of(series, &span));
            self.times = Some(widen(self.times, (first_time, last_time)));
        }
    }

    /// Completes the file and gives it its final name durably. `segments` are the log segments whose rows
    /// the file contains, as ranges in ascending order, and `spool_logs` the logs of spools among them.
    pub(crate) fn finish(
        self,
        folder: &Path,
        segments: Vec<(u64, u64)>,
        spool_logs: Vec<SealedLog>,
    ) -> Result<PartRow, Error> {
        // All rows are written now; only the footer remains.
        let mut writer = self.writer.finish()?;
        let summary = self.summarizer.finish()?;
        let note = FileNote {
            data_bytes: writer.inner().written,
            summary: summary.as_deref().map_or(0, crc32c::crc32c),
            segments,
            spool_logs,
        };
        let sums = writer.inner().sums().iter();
        let sums: String = sums.map(|sum| format!("{sum:08x}")).collect();
        let values = [
            (footer::SERIES_KEY, self.series_lines),
            (footer::CHECKSUMS_KEY, sums),
            (footer::FILE_KEY, note.text()),
        ];
        for (key, value) in values {
            let value = KeyValue::new(key.to_owned(), value);
            writer.append_key_value_metadata(value);
        }
        let mut file = writer.into_inner()?.into_inner();
        file.flush()?;
        let file = file
            .into_inner()
            .map_err(std::io::IntoInnerError::into_error)?;
        file.sync_all()?;
        let bytes = file.metadata()?.len();
        let footer = Footer::from_file(&File::open(&self.unfinished.0)?, note.data_bytes)?;
        let path = relative(folder, &self.path);
        footer.write_copy(&footer::copy_path(folder, &path))?;
        if let Some(parent) = self.path.parent() {
            private::create_folders(parent)?;
        }
        std::fs::rename(&self.unfinished.0, &self.path)?;
        if let Some(parent) = self.path.parent() {
            File::open(parent)?.sync_all()?;
            // The date folder may be new in `samples`, and `samples` in the history's folder.
            File::open(folder.join("samples"))?.sync_all()?;
            File::open(folder)?.sync_all()?;
        }
        if let Some(summary) = summary {
            summary::write(&summary::path_of(folder, &path), &summary)?;
        }
        let (first_time, last_time) = self.times.unwrap_or_default();
        Ok(PartRow {
            path,
            segment: note.segments.last().map_or(0, |(_, last)| *last),
            first_time,
            last_time,
            rows: self.rows,
            bytes,
            expires: i64::MAX,
            data_bytes: note.data_bytes,
            footer: footer.sum(),
            summary: note.summary,
        })
    }
}

fn widen(range: Option<(i64, i64)>, (first, last): (i64, i64)) -> (i64, i64) {
    range.map_or((first, last), |range| {
        (range.0.min(first), range.1.max(last))
    })
}

/// Returns the path of a file relative to a folder.
fn relative(folder: &Path, path: &Path) -> String {
    let relative = path.strip_prefix(folder).unwrap_or(path);
    relative.display().to_string()
}

/// Parses the numbers of the first and the last log segment from the path of a part. Returns `None` if
/// the path is not that of a part.
pub(crate) fn segments_of(path: &str) -> Option<(u64, u64)> {
    let (_, name) = path.rsplit_once('/')?;
    let name = name.strip_suffix(".parquet")?;
    let (first, last) = name.split_once('-').unwrap_or((name, name));
    Some((first.parse().ok()?, last.parse().ok()?))
}

impl Series {
    /// Creates an empty row buffer for the data type of this series.
    pub(crate) fn rows(&self) -> Rows {
        Rows::new(self.data_type.fixed_size())
    }
}

impl Part {
    pub(crate) fn new(folder: &Path, row: PartRow) -> Self {
        Self {
            path: folder.join(&row.path),
            summary_path: summary::path_of(folder, &row.path),
            footer_path: footer::copy_path(folder, &row.path),
            row,
            loaded: Mutex::default(),
        }
    }

    /// Removes the file, its summary and the copy of its footer.
    pub(crate) fn remove(&self) -> Result<(), Error> {
        remove_if_there(&self.path)?;
        remove_if_there(&self.summary_path)?;
        remove_if_there(&self.footer_path)
    }

    fn index(&self) -> Result<Arc<Index>, Error> {
        if let Some(index) = &lock(&self.loaded).index {
            return Ok(Arc::clone(index));
        }
        let FooterContent {
            metadata,
            series,
            sums,
            note,
        } = self.footer()?.content()?;
        let options = ArrowReaderOptions::new().with_schema(Arc::clone(&SCHEMA));
        let series = series.into_iter().map(|(one, span)| (one.id, span));
        let index = Arc::new(Index {
            metadata: ArrowReaderMetadata::try_new(Arc::new(metadata), options)?,
            series: series.collect(),
            sums: Arc::new(sums),
            segments: note.segments,
            spool_logs: note.spool_logs,
        });
        let index_bytes =
            index.series.len() * (size_of::<SeriesSpan>() + 32) + index.sums.len() * 4;
        let mut loaded = lock(&self.loaded);
        loaded.bytes += index.metadata.metadata().memory_size() + index_bytes;
        loaded.index = Some(Arc::clone(&index));
        Ok(index)
    }

    /// Reads the footer from the file, or from its copy if the footer in the file is damaged.
    fn footer(&self) -> Result<Footer, Error> {
        let (in_file, in_copy) = self.footers()?;
        let found = in_file.or(in_copy);
        found.ok_or_else(|| Error::damaged("the checksum of the footer does not match"))
    }

    /// Returns the footer in the file and the copy of the footer. A damaged or missing one is `None`.
    pub(crate) fn footers(&self) -> Result<(Option<Footer>, Option<Footer>), Error> {
        // A copy of the footer is of no use if the file itself is missing.
        let file = File::open(&self.path)?;
        let is_intact = |footer: &Footer| {
            footer.sum() == self.row.footer && footer.data_bytes == self.row.data_bytes
        };
        let in_file = Footer::from_file(&file, self.row.data_bytes).ok();
        let in_copy = Footer::from_copy(&self.footer_path).ok().flatten();
        Ok((in_file.filter(is_intact), in_copy.filter(is_intact)))
    }

    /// If one of the two footers is damaged or missing, restores it from the other one. Returns true if
    /// a footer was restored.
    pub(crate) fn repair(&self) -> Result<bool, Error> {
        match self.footers()? {
            (Some(_), Some(_)) | (None, None) => Ok(false),
            (Some(footer), None) => {
                footer.write_copy(&self.footer_path)?;
                Ok(true)
            }
            (None, Some(footer)) => {
                let file = File::options().write(true).open(&self.path)?;
                file.write_all_at(&footer.bytes, footer.data_bytes)?;
                file.set_len(footer.data_bytes + footer.bytes.len() as u64)?;
                file.sync_all()?;
                Ok(true)
            }
        }
    }

    /// Returns the definition and the row range of each series, in row order.
    pub(crate) fn definitions(&self) -> Result<Vec<(Series, SeriesSpan)>, Error> {
        Ok(self.footer()?.content()?.series)
    }

    /// Returns the row ranges whose decoding needs any of these bytes of the file.
    pub(crate) fn rows_in(&self, bytes: Range<u64>) -> Result<Vec<(u64, u64)>, Error> {
        let index = self.index()?;
        let metadata = index.metadata.metadata();
        let is_inside = |start: i64, length: i64| {
            let start = start.max(0) as u64;
            start < bytes.end && start + length.max(0) as u64 > bytes.start
        };
        let mut ranges = Vec::new();
        let mut group_start = 0;
        for (number, group) in metadata.row_groups().iter().enumerate() {
            let group_end = group_start + group.num_rows().max(0) as u64;
            let pages = metadata.page_index_for_row_group(number);
            for (column_index, chunk) in group.columns().iter().enumerate() {
                // Queries do not read the variable names. They are stored for other programs.
                if column_index == column::VARIABLE {
                    continue;
                }
                if let Some(start) = chunk.dictionary_page_offset()
                    && is_inside(start, chunk.data_page_offset() - start)
                {
                    ranges.push((group_start, group_end));
                }
                let Some(pages) = pages.offset_index(column_index) else {
                    continue;
                };
                let pages = pages.page_locations();
                let ends = pages.iter().skip(1).map(|page| page.first_row_index);
                let ends = ends.chain([group.num_rows()]);
                for (page, end) in pages.iter().zip(ends) {
                    if is_inside(page.offset, i64::from(page.compressed_page_size)) {
                        let row = |row: i64| group_start + row.max(0) as u64;
                        ranges.push((row(page.first_row_index), row(end)));
                    }
                }
            }
            group_start = group_end;
        }
        Ok(ranges)
    }

    /// Returns a lower and an upper bound of the times of rows `from..to` of a series.
    pub(crate) fn times_of_rows(
        &self,
        span: SeriesSpan,
        from: u64,
        to: u64,
    ) -> Result<(i64, i64), Error> {
        let index = self.index()?;
        let metadata = index.metadata.metadata();
        let mut bounds: Option<(i64, i64)> = None;
        let mut group_start = 0;
        for (number, group) in metadata.row_groups().iter().enumerate() {
            let pages = metadata.page_index_for_row_group(number);
            if let (Some(locations), Some(times)) = (
                pages.offset_index(column::TIME),
                pages.column_index(column::TIME),
            ) {
                let locations = locations.page_locations();
                for (page, place) in locations.iter().enumerate() {
                    let start = group_start + place.first_row_index.max(0) as u64;
                    let end = match locations.get(page + 1) {
                        Some(next) => group_start + next.first_row_index.max(0) as u64,
                        None => group_start + group.num_rows().max(0) as u64,
                    };
                    if start >= to || end <= from {
                        continue;
                    }
                    // The bounds of a page are useless if the page also has rows of other series.
                    let has_one_series =
                        start >= span.first_row && end <= span.first_row + span.rows;
                    let all = (span.first_time, span.last_time);
                    let times = page_times(times, page)
                        .filter(|_| has_one_series)
                        .unwrap_or(all);
                    bounds = Some(widen(bounds, times));
                }
            }
            group_start += group.num_rows().max(0) as u64;
        }
        Ok(bounds.unwrap_or((span.first_time, span.last_time)))
    }

    /// Returns the path of the summary, relative to the history's folder.
    pub(crate) fn summary_name(&self, folder: &Path) -> String {
        relative(folder, &self.summary_path)
    }

    /// Returns the path of the footer's copy, relative to the history's folder.
    pub(crate) fn copy_name(&self, folder: &Path) -> String {
        relative(folder, &self.footer_path)
    }

    /// Reads the whole file and verifies its checksums.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let sums = Arc::clone(&self.index()?.sums);
        let file = CheckedFile::new(File::open(&self.path)?, sums, self.row.data_bytes);
        std::io::copy(&mut file.get_read(0)?, &mut std::io::sink())?;
        Ok(())
    }

    /// Returns true if the index is in memory.
    pub(crate) fn is_indexed(&self) -> bool {
        lock(&self.loaded).index.is_some()
    }

    /// Returns true if the summary is in memory, so that no file must be read to use it.
    pub(crate) fn is_summarized(&self) -> bool {
        lock(&self.loaded).summaries.is_some()
    }

    /// Returns the approximate memory of the cached data, in bytes.
    pub(crate) fn loaded_bytes(&self) -> usize {
        lock(&self.loaded).bytes
    }

    /// Drops the cached data. It is loaded again when needed.
    pub(crate) fn unload(&self) {
        *lock(&self.loaded) = Loaded::default();
    }

    /// Returns the events in this part that concern all variables.
    pub(crate) fn engine_marks(&self) -> Result<Arc<[HistoryEventRow]>, Error> {
        if let Some(marks) = &lock(&self.loaded).engine_marks {
            return Ok(Arc::clone(marks));
        }
        let mut marks = Vec::new();
        if let Some(span) = self.span(ENGINE_SERIES)? {
            let engine = Series::of_engine();
            let mut rows = engine.rows();
            let end = span.first_row + span.rows;
            self.read(&engine, span.first_row, end, Projection::Numbers, &mut rows)?;
            marks = rows.take_events();
        }
        let marks: Arc<[HistoryEventRow]> = marks.into();
        let mut loaded = lock(&self.loaded);
        loaded.bytes += marks.len() * size_of::<HistoryEventRow>();
        loaded.engine_marks = Some(Arc::clone(&marks));
        Ok(marks)
    }

    /// Returns the summary of a series, if there is one. If `width` is given, returns the summary only if
    /// its buckets divide buckets of this width.
    pub(crate) fn summary(
        &self,
        series: u32,
        width: Option<u64>,
    ) -> Result<Option<Arc<Summary>>, Error> {
        let loaded = lock(&self.loaded).summaries.clone();
        let summaries = match loaded {
            Some(summaries) => summaries,
            None => {
                let read = summary::read(&self.summary_path, self.row.summary)?;
                let read = Arc::new(read.unwrap_or_default());
                let buckets: usize = read.values().map(|one| one.buckets.len() + 1).sum();
                let mut loaded = lock(&self.loaded);
                loaded.bytes += buckets * size_of::<SummaryBucket>();
                loaded.summaries = Some(Arc::clone(&read));
                read
            }
        };
        let summary = summaries.get(&series);
        Ok(summary
            .filter(|summary| width.is_none_or(|width| width.is_multiple_of(summary.width)))
            .cloned())
    }

    /// Returns the log segments whose rows the part contains, as ranges in ascending order.
    pub(crate) fn segments(&self) -> Result<Vec<(u64, u64)>, Error> {
        Ok(self.index()?.segments.clone())
    }

    /// Returns the logs of spools whose rows the part has.
    pub(crate) fn spool_logs(&self) -> Result<Vec<SealedLog>, Error> {
        Ok(self.index()?.spool_logs.clone())
    }

    /// Returns the row ranges of all series.
    pub(crate) fn spans(&self) -> Result<Vec<(u32, SeriesSpan)>, Error> {
        let index = self.index()?;
        Ok(index.series.iter().map(|(id, span)| (*id, *span)).collect())
    }

    /// Returns the row range of a series, if the part has rows of it.
    pub(crate) fn span(&self, series: u32) -> Result<Option<SeriesSpan>, Error> {
        Ok(self.index()?.series.get(&series).copied())
    }

    /// Returns the range of rows in the span whose times may be in `since..=latest`. The range consists of
    /// whole pages, except at the ends of the span.
    pub(crate) fn narrow(
        &self,
        span: SeriesSpan,
        since: i64,
        latest: i64,
    ) -> Result<(u64, u64), Error> {
        let index = self.index()?;
        let metadata = index.metadata.metadata();
        let end = span.first_row + span.rows;
        let (mut from, mut to) = (span.first_row, end);
        if span.first_time >= since && span.last_time <= latest {
            return Ok((from, to));
        }
        let mut group_start = 0_u64;
        for group in 0..metadata.num_row_groups() {
            let rows = metadata.row_group(group).num_rows().max(0) as u64;
            let group_end = group_start + rows;
            if group_end > from && group_start < to {
                let pages = metadata.page_index_for_row_group(group);
                if let (Some(locations), Some(times)) = (
                    pages.offset_index(column::TIME),
                    pages.column_index(column::TIME),
                ) {
                    let locations = locations.page_locations();
                    let first_row = |page: usize| match locations.get(page) {
                        Some(place) => group_start + place.first_row_index.max(0) as u64,
                        None => group_end,
                    };
                    // Pages that contain only this series are sorted by time.
                    let first_own = locations.partition_point(|place| {
                        group_start + (place.first_row_index.max(0) as u64) < span.first_row
                    });
                    for page in first_own..locations.len() {
                        let (first, last) = (first_row(page), first_row(page + 1));
                        if last > end {
                            break;
                        }
                        let Some((min, max)) = page_times(times, page) else {
                            continue;
                        };
                        if max < since {
                            from = from.max(last);
                        }
                        if min > latest {
                            to = to.min(first);
                            break;
                        }
                    }
                }
            }
            group_start = group_end;
        }
        Ok((from, to.max(from)))
    }

    /// Returns the largest range of rows around `row` within which no column begins a new page. If a page
    /// is damaged, all of these rows may be unreadable.
    pub(crate) fn page_at(
        &self,
        series: &Series,
        row: u64,
        projection: Projection,
    ) -> Result<(u64, u64), Error> {
        let index = self.index()?;
        let metadata = index.metadata.metadata();
        let columns = projection.columns_of(std::iter::once(&series.data_type));
        let mut group_start = 0;
        for (number, group) in metadata.row_groups().iter().enumerate() {
            let group_end = group_start + group.num_rows().max(0) as u64;
            if row >= group_end {
                group_start = group_end;
                continue;
            }
            let pages = metadata.page_index_for_row_group(number);
            let (mut start, mut end) = (group_start, group_end);
            for column in &columns {
                let Some(locations) = pages.offset_index(*column) else {
                    continue;
                };
                let locations = locations.page_locations();
                let first_row = |page: &PageLocation| {
                    group_start.saturating_add(page.first_row_index.max(0) as u64)
                };
                let next = locations.partition_point(|page| first_row(page) <= row);
                let current = next.checked_sub(1).and_then(|page| locations.get(page));
                start = current.map_or(start, |page| start.max(first_row(page)));
                end = locations
                    .get(next)
                    .map_or(end, |next| end.min(first_row(next)));
            }
            return Ok((start, end));
        }
        Ok((row, row + 1))
    }

    /// Creates a reader of ranges of rows. A batch has at most about `batch_bytes` bytes of values.
    fn reader(
        &self,
        ranges: &[(u64, u64)],
        columns: &[usize],
        batch_bytes: usize,
    ) -> Result<ParquetRecordBatchReader, Error> {
        let index = self.index()?;
        let file = File::open(&self.path)?;
        let file = CheckedFile::new(file, Arc::clone(&index.sums), self.row.data_bytes);
        let builder =
            ParquetRecordBatchReaderBuilder::new_with_metadata(file, index.metadata.clone());
        let first = ranges.first().map_or(0, |range| range.0);
        let end = ranges.last().map_or(0, |range| range.1);
        // Read only the row groups that contain these rows.
        let (mut groups, mut start, mut position) = (Vec::new(), 0_u64, 0_u64);
        for group in 0..builder.metadata().num_row_groups() {
            let rows = builder.metadata().row_group(group).num_rows().max(0) as u64;
            if start + rows <= first {
                position = start + rows;
            } else if start < end {
                groups.push(group);
            }
            start += rows;
        }
        // The longer the values, the fewer rows a batch has.
        let length_max = value_length_max(builder.metadata(), columns, first..end);
        let batch = (batch_bytes / length_max.max(1)).clamp(1, BATCH_ROWS_MAX);
        let mut selectors = Vec::with_capacity(2 * ranges.len());
        for (from, to) in ranges {
            selectors.push(RowSelector::skip(from.saturating_sub(position) as usize));
            selectors.push(RowSelector::select((to - from) as usize));
            position = *to;
        }
        let mask = ProjectionMask::roots(builder.parquet_schema(), columns.iter().copied());
        Ok(builder
            .with_row_groups(groups)
            .with_row_selection(RowSelection::from(selectors))
            .with_projection(mask)
            .with_batch_size(batch)
            .build()?)
    }

    /// Begins a sequential read of ranges of rows. The ranges are in ascending order, and each belongs to
    /// one series. A batch has at most about `batch_bytes` bytes of values.
    pub(crate) fn stream(
        &self,
        ranges: &[(&Series, u64, u64)],
        projection: Projection,
        batch_bytes: usize,
    ) -> Result<PartStream, Error> {
        let columns = projection.columns_of(ranges.iter().map(|(series, _, _)| &series.data_type));
        let rows: Vec<(u64, u64)> = ranges.iter().map(|(_, from, to)| (*from, *to)).collect();
        let reader = self.reader(&rows, &columns, batch_bytes)?;
        let remaining = ranges
            .iter()
            .map(|(series, from, to)| (series.id, *from, *to));
        Ok(PartStream {
            reader,
            projection,
            columns,
            batch: None,
            at: 0,
            ranges: remaining.collect(),
            last: None,
        })
    }

    /// Reads rows `first..end` of the file, which must belong to one series.
    pub(crate) fn read(
        &self,
        series: &Series,
        first: u64,
        end: u64,
        projection: Projection,
        rows: &mut Rows,
    ) -> Result<(), Error> {
        let mut stream = self.stream(&[(series, first, end)], projection, BATCH_BYTES_MAX)?;
        let mut next = first;
        while next < end {
            next += stream.take(series, next, (end - next) as usize, rows)?;
        }
        Ok(())
    }
}

/// A sequential read of rows of several series.
pub(crate) struct PartStream {
    reader: ParquetRecordBatchReader,
    projection: Projection,
    columns: Vec<usize>,
    batch: Option<RecordBatch>,
    /// Index of the next row in the batch.
    at: usize,
    /// The ranges that remain to be read: id of the series, next row, end.
    ranges: VecDeque<(u32, u64, u64)>,
    /// The key of the last row or event taken from the current range, which is the first one in `ranges`.
    last: Option<RowKey>,
}

impl PartStream {
    /// Returns true if the next row of the stream is this row of this series.
    pub(crate) fn is_at(&self, series: u32, row: u64) -> bool {
        self.ranges
            .front()
            .is_some_and(|(id, next, _)| (*id, *next) == (series, row))
    }

    /// Returns the next row and the key of the row before it. Returns `None` if the stream is not between
    /// two rows of this series.
    pub(crate) fn position(&self, series: u32) -> Option<(u64, RowKey)> {
        let (id, next, _) = self.ranges.front()?;
        Some((*next, self.last?)).filter(|_| *id == series)
    }

    /// Returns true if all ranges have been read.
    pub(crate) fn is_at_end(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Appends at most `count_max` rows of a series, starting with row `next`, and returns their number.
    pub(crate) fn take(
        &mut self,
        series: &Series,
        next: u64,
        count_max: usize,
        rows: &mut Rows,
    ) -> Result<u64, Error> {
        let too_few_rows = || Error::damaged("a file has fewer rows than its index");
        let (id, at, end) = self.ranges.front_mut().ok_or_else(too_few_rows)?;
        if (*id, *at) != (series.id, next) {
            return Err(too_few_rows());
        }
        if self
            .batch
            .as_ref()
            .is_none_or(|batch| self.at >= batch.num_rows())
        {
            self.batch = Some(self.reader.next().ok_or_else(too_few_rows)??);
            self.at = 0;
        }
        let Some(batch) = &self.batch else {
            return Err(too_few_rows());
        };
        let count = count_max
            .min(batch.num_rows() - self.at)
            .min((*end - *at) as usize);
        if count == 0 {
            return Err(too_few_rows());
        }
        let read = ReadBatch::new(self.projection, &self.columns, batch);
        read.read(self.at..self.at + count, &series.data_type, rows)?;
        self.at += count;
        *at += count as u64;
        let last_row = rows.len().checked_sub(1).and_then(|last| rows.key(last));
        self.last = last_row.max(rows.events().last().map(|mark| mark.key));
        if *at == *end {
            self.ranges.pop_front();
            self.last = None;
        }
        Ok(count as u64)
    }
}

/// Returns an estimate of the longest row in bytes of values: the sum over the columns of the mean value
/// length in the page with the longest values, among pages that contain any of these rows.
fn value_length_max(metadata: &ParquetMetaData, columns: &[usize], rows: Range<u64>) -> usize {
    let mut length_max = 0;
    let mut group_start = 0;
    for (number, group) in metadata.row_groups().iter().enumerate() {
        let group_end = group_start + group.num_rows().max(0) as u64;
        if group_end > rows.start && group_start < rows.end {
            let pages = metadata.page_index_for_row_group(number);
            let of_columns = columns.iter().map(|column| {
                let pages = pages.offset_index(*column);
                pages.map_or(0, |pages| {
                    column_value_length_max(pages, group_start..group_end, &rows)
                })
            });
            length_max = length_max.max(of_columns.sum::<usize>());
        }
        group_start = group_end;
    }
    length_max
}

/// Does the same as [`value_length_max`] for one column of a row group.
fn column_value_length_max(
    pages: &OffsetIndexMetaData,
    group: Range<u64>,
    rows: &Range<u64>,
) -> usize {
    let Some(bytes) = pages.unencoded_byte_array_data_bytes() else {
        // The values of this column have a fixed size.
        return 0;
    };
    let locations = pages.page_locations();
    let first_row = |page: usize| match locations.get(page) {
        Some(place) => group.start + place.first_row_index.max(0) as u64,
        None => group.end,
    };
    let of_pages = bytes.iter().enumerate().map(|(page, bytes)| {
        let (first, end) = (first_row(page), first_row(page + 1));
        let is_read = end > rows.start && first < rows.end;
        let mean = (*bytes).max(0) as u64 / end.saturating_sub(first).max(1);
        if is_read { mean as usize } else { 0 }
    });
    of_pages.max().unwrap_or(0)
}

fn page_times(
    times: &parquet::file::page_index::column_index::ColumnIndexMetaData,
    page: usize,
) -> Option<(i64, i64)> {
    use parquet::file::page_index::column_index::ColumnIndexMetaData as Kind;
    match times {
        Kind::INT64(index) => Some((
            *index.min_values().get(page)?,
            *index.max_values().get(page)?,
        )),
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails at an unexpected result")]
mod tests {
    use trunkline_types::history::Row;
    use trunkline_types::{DataType, Quality, wire};

    use super::*;
    use crate::files::block_checksums::BLOCK;
    use crate::files::row_groups::PAGE_ROWS;

    fn series(data_type: DataType) -> Series {
        Series {
            id: 1,
            name: "rig/x".to_owned(),
            data_type,
            units: String::new(),
        }
    }

    /// Creates a file with these values. The random delays fill several blocks.
    fn part(folder: &Path, series: &Series, values: &[Vec<u8>]) -> Part {
        let mut random = fastrand::Rng::with_seed(1);
        let mut rows = series.rows();
        for (row, value) in values.iter().enumerate() {
            rows.push(&Row {
                key: RowKey {
                    time: row as i64,
                    epoch: 1,
                    sequence: row as u64,
                },
                delay: random.i64(..),
                quality: Quality::GOOD,
                value,
            });
        }
        let path = "samples/date=2026-11-28/0000000001.parquet";
        let mut writer = PartWriter::create(folder, path).unwrap();
        writer.add_series(series, &rows).unwrap();
        let row = writer.finish(folder, vec![(1, 1)], Vec::new()).unwrap();
        Part::new(folder, row)
    }

    /// Damages a block that contains only this column.
    fn damage(part: &Part, column: usize) {
        let index = part.index().unwrap();
        let column = index.metadata.metadata().row_group(0).column(column);
        let (start, length) = column.byte_range();
        let at = start.next_multiple_of(BLOCK as u64);
        assert!(
            at + BLOCK as u64 <= start + length,
            "the column contains a whole block"
        );
        let mut bytes = std::fs::read(&part.path).unwrap();
        bytes[at as usize] ^= 1;
        std::fs::write(&part.path, bytes).unwrap();
    }

    fn read(part: &Part, series: &Series, projection: Projection) -> Result<Rows, Error> {
        let span = part.span(series.id)?.unwrap();
        let mut rows = series.rows();
        let end = span.first_row + span.rows;
        part.read(series, span.first_row, end, projection, &mut rows)?;
        Ok(rows)
    }

    /// Buckets and points do not need the delay, and reading it takes as long as reading the values.
    #[test]
    fn delay_is_read_only_with_whole_rows() {
        let folder = tempfile::tempdir().unwrap();
        let series = series(DataType::F64);
        let values: Vec<Vec<u8>> = (0..40_000)
            .map(|n| f64::from(n).to_le_bytes().to_vec())
            .collect();
        let part = part(folder.path(), &series, &values);
        let whole = read(&part, &series, Projection::Whole).unwrap();
        assert!(!whole.delays().is_empty());
        damage(&part, column::DELAY);
        assert!(read(&part, &series, Projection::Whole).is_err());
        for projection in [Projection::Values, Projection::Numbers] {
            let found = read(&part, &series, projection).unwrap();
            assert_eq!(found.words(), whole.words());
            assert_eq!(found.times(), whole.times());
            assert_eq!(found.key(39_999), whole.key(39_999));
            assert!(found.delays().is_empty());
        }
    }

    /// A bucket of a series that is not numeric needs only the number of values.
    #[test]
    fn non_numeric_values_are_not_read_for_buckets() {
        let folder = tempfile::tempdir().unwrap();
        let series = series(DataType::Bytes);
        let mut random = fastrand::Rng::with_seed(2);
        let values = (0..3_000).map(|_| {
            let bytes: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(200).collect();
            let mut value = Vec::new();
            wire::put_varint(&mut value, bytes.len() as u64);
            value.extend(bytes);
            value
        });
        let values: Vec<Vec<u8>> = values.collect();
        let part = part(folder.path(), &series, &values);
        damage(&part, column::RAW);
        assert!(read(&part, &series, Projection::Values).is_err());
        let found = read(&part, &series, Projection::Numbers).unwrap();
        assert_eq!((found.len(), found.value_bytes()), (3_000, 0));
    }

    #[test]
    fn page_at_returns_the_rows_of_one_page_of_long_values() {
        let folder = tempfile::tempdir().unwrap();
        let series = series(DataType::Bytes);
        let values: Vec<Vec<u8>> = (0..5_000)
            .map(|n: usize| {
                let mut value = Vec::new();
                wire::put_varint(&mut value, 5_000);
                value.resize(5_002, n as u8);
                value
            })
            .collect();
        let part = part(folder.path(), &series, &values);
        let mut row = 0;
        let mut pages = 0;
        while row < 5_000 {
            let (start, end) = part.page_at(&series, row, Projection::Values).unwrap();
            assert_eq!(start, row);
            let last = part.page_at(&series, end - 1, Projection::Values).unwrap();
            assert_eq!(last, (start, end));
            assert!(end > row && end - row < 500, "{row}..{end}");
            (row, pages) = (end, pages + 1);
        }
        assert_eq!(row, 5_000);
        assert!(pages > 10, "{pages} pages");
        // A page of numbers has the maximum number of rows.
        let numbers = part.page_at(&series, 10, Projection::Numbers).unwrap();
        assert_eq!(numbers, (0, PAGE_ROWS as u64));
    }
}
