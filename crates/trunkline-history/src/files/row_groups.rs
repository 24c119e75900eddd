//! Writes rows to the row groups of a Parquet file.
//!
//! Columns that vary from row to row are collected in batches, which the `parquet` crate encodes. Columns
//! that consist of runs are encoded as rows are added.

use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;
use trunkline_types::history::{HistoryEventRow, Rows};

use crate::catalogue::Series;
use crate::error::Error;
use crate::files::schema::{RunColumns, SCHEMA, ValueColumns};

/// Maximum number of rows in a page of a column, the smallest unit that a reader decodes. Pages of long
/// values have fewer rows.
pub(crate) const PAGE_ROWS: usize = 4096;
const ROW_GROUP_ROWS: usize = 1 << 20;
/// Maximum number of rows in a batch.
const BATCH_ROWS: usize = 64 << 10;
/// Approximate maximum number of bytes of values in a batch.
const BATCH_BYTES: usize = 32 << 20;
pub(crate) const ZSTD_LEVEL: i32 = 1;

/// Writes the rows of one series after the other.
pub(crate) struct RowGroups<W: Write + Send> {
    file: SerializedFileWriter<W>,
    factory: ArrowRowGroupWriterFactory,
    name: Arc<str>,
    /// The current batch, which is not encoded yet.
    batch: ValueColumns,
    /// The encoders of the current row group, one per column. The encoders of columns that consist of runs
    /// are not used.
    writers: Vec<ArrowColumnWriter>,
    /// Number of rows of the current row group, excluding the batch.
    rows: usize,
    runs: RunColumns,
}

/// Returns the settings with which the `parquet` crate encodes columns.
fn properties() -> Result<WriterProperties, Error> {
    let path = |name: &str| ColumnPath::from(name);
    let mut builder = WriterProperties::builder()
        .set_created_by(concat!("trunkline ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_write_batch_size(1024)
        .set_statistics_enabled(EnabledStatistics::Page)
        // Damage to a dictionary would make a whole row group unreadable.
        .set_dictionary_enabled(false);
    builder = builder.set_column_encoding(path("value"), Encoding::BYTE_STREAM_SPLIT);
    for name in ["time", "integer"] {
        builder = builder.set_column_encoding(path(name), Encoding::DELTA_BINARY_PACKED);
    }
    // Compression hardly reduces the size of packed time differences.
    builder = builder.set_column_compression(path("time"), Compression::UNCOMPRESSED);
    Ok(builder.build())
}

impl<W: Write + Send> RowGroups<W> {
    pub(crate) fn new(output: W) -> Result<Self, Error> {
        let writer = ArrowWriter::try_new(output, Arc::clone(&SCHEMA), Some(properties()?))?;
        let (file, factory) = writer.into_serialized_writer()?;
        Ok(Self {
            runs: RunColumns::new(file.schema_descr())?,
            file,
            factory,
            name: Arc::default(),
            batch: ValueColumns::default(),
            writers: Vec::new(),
            rows: 0,
        })
    }

    /// Begins the rows of a series.
    pub(crate) fn begin(&mut self, name: &str) {
        self.name = name.into();
    }

    /// Adds a range of updates of the current series.
    pub(crate) fn add(
        &mut self,
        series: &Series,
        rows: &Rows,
        range: Range<usize>,
    ) -> Result<(), Error> {
        // The longer the values, the fewer rows a batch has.
        let bytes_per_row = rows.value_bytes() / rows.len().max(1);
        let batch_rows = BATCH_ROWS.min(BATCH_BYTES / bytes_per_row.max(1)).max(1);
        let mut at = range.start;
        while at < range.end {
            let rows_max = batch_rows.min(ROW_GROUP_ROWS - self.rows);
            let end = range
                .end
                .min(at + rows_max.saturating_sub(self.batch.len()));
            self.runs.add(&self.name, rows, at..end);
            self.batch.add(&series.data_type, rows, at..end);
            at = end;
            if self.batch.len() >= rows_max {
                self.write_batch()?;
            }
        }
        Ok(())
    }

    /// Adds an event of the current series.
    pub(crate) fn add_mark(&mut self, mark: &HistoryEventRow) -> Result<(), Error> {
        self.runs.add_mark(&self.name, mark);
        self.batch.add_mark(mark);
        match self.batch.len() >= BATCH_ROWS.min(ROW_GROUP_ROWS - self.rows) {
            true => self.write_batch(),
            false => Ok(()),
        }
    }

    fn write_batch(&mut self) -> Result<(), Error> {
        if self.writers.is_empty() {
            let number = self.file.flushed_row_groups().len();
            self.writers = self.factory.create_column_writers(number)?;
        }
        self.rows += self.batch.len();
        for (column, array) in self.batch.take() {
            let leaves = compute_leaves(SCHEMA.field(column), &array)?;
            if let Some(writer) = self.writers.get_mut(column) {
                leaves.iter().try_for_each(|leaf| writer.write(leaf))?;
            }
        }
        match self.rows >= ROW_GROUP_ROWS {
            true => self.end_group(),
            false => Ok(()),
        }
    }

    fn end_group(&mut self) -> Result<(), Error> {
        let next = RunColumns::new(self.file.schema_descr())?;
        let mut runs = std::mem::replace(&mut self.runs, next).close()?;
        let mut group = self.file.next_row_group()?;
        for (column, writer) in self.writers.drain(..).enumerate() {
            match runs.remove(&column) {
                Some(chunk) => chunk.append_to(&mut group)?,
                None => writer.close()?.append_to_row_group(&mut group)?,
            }
        }
        group.close()?;
        self.rows = 0;
        Ok(())
    }

    /// Writes the remaining rows, and returns the file without its footer.
    pub(crate) fn finish(mut self) -> Result<SerializedFileWriter<W>, Error> {
        if self.batch.len() > 0 {
            self.write_batch()?;
        }
        if self.rows > 0 {
            self.end_group()?;
        }
        self.file.flush()?;
        Ok(self.file)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails at an unexpected result")]
mod tests {
    use arrow_array::RecordBatch;
    use bytes::Bytes;
    use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
    use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};
    use parquet::file::page_index::offset_index::OffsetIndexMetaData;
    use trunkline_types::history::{HistoryEvent, Row, RowKey};
    use trunkline_types::{DataType, Quality, wire};

    use super::*;
    use crate::files::schema::Batch;

    /// Returns settings with which the `parquet` crate alone writes the same file.
    fn reference_properties() -> WriterProperties {
        let path = |name: &str| ColumnPath::from(name);
        let mut builder = properties()
            .unwrap()
            .into_builder()
            .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
            .set_column_dictionary_enabled(path("variable"), true);
        for name in ["quality", "delay", "epoch", "sequence", "count"] {
            builder = builder
                .set_column_encoding(path(name), Encoding::DELTA_BINARY_PACKED)
                .set_column_statistics_enabled(path(name), EnabledStatistics::None);
        }
        builder.build()
    }

    /// Writes rows with the code under test and with the `parquet` crate alone. Returns both files.
    fn write_both(all: &[(Series, Rows)]) -> (Bytes, Bytes) {
        let mut sut = RowGroups::new(Vec::new()).unwrap();
        let mut batch = Batch::default();
        for (series, rows) in all {
            sut.begin(&series.name);
            batch.begin(&series.name);
            let mut at = 0;
            for mark in rows.events() {
                let before = rows.seek(mark.key);
                sut.add(series, rows, at..before).unwrap();
                sut.add_mark(mark).unwrap();
                batch.add(series, rows, at..before);
                batch.add_mark(mark);
                at = before;
            }
            sut.add(series, rows, at..rows.len()).unwrap();
            batch.add(series, rows, at..rows.len());
        }
        let properties = Some(reference_properties());
        let mut reference =
            ArrowWriter::try_new(Vec::new(), Arc::clone(&SCHEMA), properties).unwrap();
        reference.write(&batch.take().unwrap()).unwrap();
        let file = sut.finish().unwrap().into_inner().unwrap();
        (file.into(), reference.into_inner().unwrap().into())
    }

    fn read(file: Bytes) -> (Arc<ParquetMetaData>, Vec<RecordBatch>) {
        let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Required);
        let reader = ParquetRecordBatchReaderBuilder::try_new_with_options(file, options).unwrap();
        let metadata = Arc::clone(reader.metadata());
        let batches = reader.with_batch_size(1000).build().unwrap();
        (metadata, batches.map(Result::unwrap).collect())
    }

    fn series(name: String, data_type: DataType) -> Series {
        Series {
            id: 1,
            name,
            data_type,
            units: String::new(),
        }
    }

    /// Creates sorted random rows. `run` returns the length of the next run of a column.
    fn rows_of(
        series: &Series,
        count: usize,
        random: &mut fastrand::Rng,
        run: impl Fn(&mut fastrand::Rng) -> usize,
    ) -> Rows {
        const EXTREMES: [u64; 6] = [0, 1, u64::MAX, u64::MAX / 2, u64::MAX / 2 + 1, 1 << 32];
        let mut rows = series.rows();
        let (mut key, mut quality, mut delays) = (RowKey::default(), 0, None);
        let mut left = [0; 4];
        for row in 0..count {
            for (column, left) in left.iter_mut().enumerate() {
                if *left > 0 {
                    *left -= 1;
                    continue;
                }
                *left = run(random);
                match column {
                    0 => key.epoch = random.choice(EXTREMES).unwrap(),
                    1 => key.sequence = random.choice(EXTREMES).unwrap().wrapping_add(row as u64),
                    2 => quality = random.u32(..),
                    _ => delays = random.bool().then_some(random.u32(1..40)),
                }
            }
            key.time += random.i64(0..1_000_000);
            key.sequence = key.sequence.wrapping_add(1);
            let delay = delays.map_or(0, |bits| random.i64(..) >> bits);
            let mut value = random.f64().to_le_bytes().to_vec();
            if series.data_type == DataType::String {
                value.clear();
                wire::put_varint(&mut value, 5);
                value.extend(format!("{:05}", row % 1000).bytes());
            }
            rows.push(&Row {
                key,
                delay,
                quality: Quality::from_bits(quality),
                value: &value,
            });
        }
        rows
    }

    /// The rows fill more than one row group. All run lengths are multiples of eight, because the `parquet`
    /// crate bit-packs other runs of nulls and names.
    #[test]
    fn file_is_identical_to_that_of_the_parquet_crate() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut all = Vec::new();
        let mut total = 0;
        while total < ROW_GROUP_ROWS + 20_000 {
            // Some names are longer than the maximum length in the statistics.
            let filling = "ä€".repeat(all.len() % 15);
            let name = format!(
                "rig/{:04}{filling}{}",
                all.len(),
                "x".repeat(all.len() % 23)
            );
            let is_text = all.len() % 40 == 7;
            let data_type = if is_text {
                DataType::String
            } else {
                DataType::F64
            };
            let series = series(name, data_type);
            let count = 8 * random.usize(1..2_000);
            let longest = 1 << random.u32(1..16);
            let rows = rows_of(&series, count, &mut random, |random| {
                random.usize(0..longest)
            });
            all.push((series, rows));
            total += count;
        }
        let (file, reference) = write_both(&all);
        let ((found, _), (expected, _)) = (read(file.clone()), read(reference.clone()));
        assert_eq!(found.num_row_groups(), 2);
        assert_eq!(found.row_groups(), expected.row_groups());
        assert!(file == reference);
    }

    #[test]
    fn runs_of_any_length_are_read_as_written() {
        for seed in 0..30 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut all = Vec::new();
            for number in 0..random.usize(1..200) {
                let series = series(format!("rig/{number:03}"), DataType::F64);
                let most = *random.choice(&[1, 5, 300, 5_000]).unwrap();
                let count = random.usize(0..=most);
                let longest = *random.choice(&[1, 3, 100, 3_000]).unwrap();
                let rows = |random: &mut fastrand::Rng| random.usize(0..longest);
                let mut rows = rows_of(&series, count, &mut random, rows);
                for _ in 0..random.usize(0..40) {
                    let key = rows.key(random.usize(0..=count)).unwrap_or(RowKey {
                        time: i64::MAX,
                        ..RowKey::default()
                    });
                    let lost = random.bool().then_some(random.u64(1..1 << 40));
                    let event = random.choice([HistoryEvent::Added, HistoryEvent::Lost(lost)]);
                    rows.push_event(HistoryEventRow {
                        key,
                        event: event.unwrap(),
                    });
                }
                all.push((series, rows.sorted()));
            }
            let (file, reference) = write_both(&all);
            let ((found, batches), (expected, expected_batches)) = (read(file), read(reference));
            assert_eq!(batches, expected_batches, "with seed {seed}");
            assert_eq!(found.num_row_groups(), expected.num_row_groups());
            for group in 0..found.num_row_groups() {
                let pages = (
                    found.page_index_for_row_group(group),
                    expected.page_index_for_row_group(group),
                );
                for column in 0..SCHEMA.fields().len() {
                    let (found, expected) = (
                        found.row_group(group).column(column),
                        expected.row_group(group).column(column),
                    );
                    assert_eq!(found.statistics(), expected.statistics());
                    assert_eq!(found.encodings_mask(), expected.encodings_mask());
                    assert_eq!(found.page_encoding_stats(), expected.page_encoding_stats());
                    assert_eq!(found.num_values(), expected.num_values());
                    let bytes = found.unencoded_byte_array_data_bytes();
                    assert_eq!(bytes, expected.unencoded_byte_array_data_bytes());
                    let (found, expected) = (&pages.0, &pages.1);
                    assert_eq!(found.column_index(column), expected.column_index(column));
                    let starts = |pages: &OffsetIndexMetaData| {
                        let pages = pages.page_locations().iter();
                        pages.map(|page| page.first_row_index).collect::<Vec<_>>()
                    };
                    let found = starts(found.offset_index(column).unwrap());
                    assert_eq!(found, starts(expected.offset_index(column).unwrap()));
                }
            }
        }
    }
}
