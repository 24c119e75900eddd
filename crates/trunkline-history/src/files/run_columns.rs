//! Encodes columns that consist of runs. A run repeats one value, ascends in equal steps, or is null.
//!
//! The encoders of the `parquet` crate process one value per row. The encoders in this module process one run
//! at a time, and write the same pages. Apache Parquet specifies the encodings in Encodings.md, and the
//! metadata in parquet.thrift and PageIndex.md, all at <https://github.com/apache/parquet-format>.

use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{
    BoundaryOrder, Compression, Encoding, EncodingMask, PageType, Type, ZstdLevel,
};
use parquet::column::page::{CompressedPage, Page, PageWriteSpec, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::ByteArray;
use parquet::file::metadata::{
    ColumnChunkMetaData, ColumnIndexBuilder, OffsetIndexBuilder, PageEncodingStats,
};
use parquet::file::statistics::ValueStatistics;
use parquet::file::writer::{SerializedPageWriter, SerializedRowGroupWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use trunkline_types::wire::{put_varint, put_zigzag};

use crate::error::Error;
use crate::files::row_groups::{PAGE_ROWS, ZSTD_LEVEL};

/// Number of miniblocks in a block of DELTA_BINARY_PACKED, the same as in the `parquet` crate.
const MINIBLOCKS: usize = 4;
/// Maximum length of a name in the statistics in bytes, the same as in the `parquet` crate.
const STATISTICS_BYTES: usize = 64;

/// A finished column chunk: the encoded values of a column in a row group.
pub(crate) struct Chunk {
    bytes: Bytes,
    close: ColumnCloseResult,
}

impl Chunk {
    /// Appends the chunk as the next column of a row group.
    pub(crate) fn append_to<W: Write + Send>(
        self,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<(), Error> {
        Ok(group.append_column(&self.bytes, self.close)?)
    }
}

/// Writes the pages of a column chunk.
struct Pages {
    column: ColumnDescPtr,
    encoding: Encoding,
    compressor: zstd::bulk::Compressor<'static>,
    written: TrackedWrite<Vec<u8>>,
    offsets: OffsetIndexBuilder,
    pages: i32,
    rows: u64,
    uncompressed: usize,
    /// The first error. `close` returns it, so that adding rows cannot fail.
    error: Option<Error>,
}

impl Pages {
    fn new(column: ColumnDescPtr, encoding: Encoding) -> Result<Self, Error> {
        Ok(Self {
            column,
            encoding,
            compressor: zstd::bulk::Compressor::new(ZSTD_LEVEL)?,
            written: TrackedWrite::new(Vec::new()),
            offsets: OffsetIndexBuilder::new(),
            pages: 0,
            rows: 0,
            uncompressed: 0,
            error: None,
        })
    }

    fn add(&mut self, rows: usize, plain: &[u8]) {
        let spec = match self.write(rows, plain) {
            Ok(spec) => spec,
            Err(error) => {
                self.error.get_or_insert(error);
                return;
            }
        };
        self.offsets.append_row_count(rows as i64);
        let (offset, size) = (spec.offset as i64, spec.compressed_size as i32);
        self.offsets.append_offset_and_size(offset, size);
        self.pages += 1;
        self.rows += rows as u64;
        self.uncompressed += spec.uncompressed_size;
    }

    fn write(&mut self, rows: usize, plain: &[u8]) -> Result<PageWriteSpec, Error> {
        let page = Page::DataPage {
            buf: self.compressor.compress(plain)?.into(),
            num_values: rows as u32,
            encoding: self.encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        write_page(&mut self.written, page, plain.len())
    }

    /// Completes the chunk. `dictionary` is the number of dictionary values and their PLAIN encoding.
    fn close(mut self, dictionary: Option<(u32, Vec<u8>)>) -> Result<Chunk, Error> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let mut encodings = vec![Encoding::RLE, self.encoding];
        let mut page_kinds = vec![PageEncodingStats {
            page_type: PageType::DATA_PAGE,
            encoding: self.encoding,
            count: self.pages,
        }];
        let mut first = TrackedWrite::new(Vec::new());
        if let Some((values, plain)) = dictionary {
            let page = Page::DictionaryPage {
                buf: self.compressor.compress(&plain)?.into(),
                num_values: values,
                encoding: Encoding::PLAIN,
                is_sorted: false,
            };
            let spec = write_page(&mut first, page, plain.len())?;
            self.uncompressed += spec.uncompressed_size;
            encodings.push(Encoding::PLAIN);
            page_kinds.insert(
                0,
                PageEncodingStats {
                    page_type: PageType::DICTIONARY_PAGE,
                    encoding: Encoding::PLAIN,
                    count: 1,
                },
            );
        }
        let mut bytes = first.into_inner()?;
        let dictionary_bytes = bytes.len();
        bytes.append(&mut self.written.into_inner()?);
        let metadata = ColumnChunkMetaData::builder(self.column)
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
            .set_encodings_mask(EncodingMask::new_from_encodings(encodings.iter()))
            .set_page_encoding_stats(page_kinds)
            .set_total_compressed_size(bytes.len() as i64)
            .set_total_uncompressed_size(self.uncompressed as i64)
            .set_num_values(self.rows as i64)
            .set_data_page_offset(0);
        let close = ColumnCloseResult {
            bytes_written: bytes.len() as u64,
            rows_written: self.rows,
            metadata: metadata.build()?,
            bloom_filter: None,
            column_index: None,
            offset_index: Some(self.offsets.build()),
        };
        Ok(Chunk {
            bytes: bytes.into(),
            close: close.update_dictionary_location(dictionary_bytes)?,
        })
    }
}

fn write_page(
    to: &mut TrackedWrite<Vec<u8>>,
    page: Page,
    plain_bytes: usize,
) -> Result<PageWriteSpec, Error> {
    let page = CompressedPage::new(page, plain_bytes);
    Ok(SerializedPageWriter::new(to).write_page(page)?)
}

/// Encodes runs of equal small numbers.
#[derive(Default)]
struct Repeats(Vec<(u32, usize)>);

impl Repeats {
    fn push(&mut self, number: u32, rows: usize) {
        match self.0.last_mut() {
            Some((last, count)) if *last == number => *count += rows,
            _ => self.0.push((number, rows)),
        }
    }

    /// Moves the runs to a page, with `bits` bits per number.
    ///
    /// Source: Encodings.md, "Run Length Encoding / Bit-Packing Hybrid (RLE = 3)". Only rle-runs are used.
    fn encode(&mut self, bits: u32, page: &mut Vec<u8>) {
        let bytes = bits.div_ceil(8) as usize;
        for (number, rows) in self.0.drain(..) {
            put_varint(page, (rows as u64) << 1);
            page.extend(number.to_le_bytes().into_iter().take(bytes));
        }
    }
}

/// Encodes the integers of a page.
///
/// Source: Encodings.md, "Delta Encoding (DELTA_BINARY_PACKED = 5)". The block size is the same as in the
/// `parquet` crate.
struct Deltas {
    /// True for 64-bit integers, false for 32-bit integers.
    is_wide: bool,
    /// Number of differences in a block.
    block: usize,
    values: usize,
    first: i64,
    last: i64,
    /// Differences of the incomplete block.
    pending: Vec<i64>,
    /// The encoded blocks of the page.
    blocks: Vec<u8>,
}

impl Deltas {
    fn new(is_wide: bool) -> Self {
        let block = if is_wide { 256 } else { 128 };
        Self {
            is_wide,
            block,
            values: 0,
            first: 0,
            last: 0,
            pending: Vec::with_capacity(block),
            blocks: Vec::new(),
        }
    }

    /// Adds `count` values that begin with `first` and increase by `step`.
    fn put_run(&mut self, first: i64, step: i64, count: usize) {
        self.put_value(first);
        let step = difference(self.is_wide, step, 0);
        let mut remaining = count.saturating_sub(1);
        self.values += remaining;
        self.last = first.wrapping_add(step.wrapping_mul(remaining as i64));
        while remaining > 0 {
            if self.pending.is_empty() && remaining >= self.block {
                // All differences equal the minimum, so each miniblock has a width of 0 bits.
                put_zigzag(&mut self.blocks, step);
                self.blocks.extend([0; MINIBLOCKS]);
                remaining -= self.block;
                continue;
            }
            let more = remaining.min(self.block - self.pending.len());
            self.pending.resize(self.pending.len() + more, step);
            remaining -= more;
            self.end_full_block();
        }
    }

    fn put_value(&mut self, value: i64) {
        if self.values == 0 {
            self.first = value;
        } else {
            let delta = difference(self.is_wide, value, self.last);
            self.pending.push(delta);
            self.end_full_block();
        }
        self.values += 1;
        self.last = value;
    }

    fn end_full_block(&mut self) {
        if self.pending.len() == self.block {
            self.end_block();
        }
    }

    fn end_block(&mut self) {
        let Some(smallest) = self.pending.iter().copied().min() else {
            return;
        };
        let is_wide = self.is_wide;
        let above_smallest = |delta: i64| match difference(is_wide, delta, smallest) {
            above if is_wide => above as u64,
            above => u64::from(above as u32),
        };
        let size = self.block / MINIBLOCKS;
        let miniblocks = self.pending.chunks(size).map(|deltas| {
            let largest = deltas.iter().map(|delta| above_smallest(*delta)).max();
            (deltas, u64::BITS - largest.unwrap_or(0).leading_zeros())
        });
        put_zigzag(&mut self.blocks, smallest);
        let widths = miniblocks.clone().map(|(_, width)| width as u8);
        let widths = widths.chain(std::iter::repeat(0)).take(MINIBLOCKS);
        self.blocks.extend(widths);
        for (deltas, width) in miniblocks {
            let deltas = deltas.iter().map(|delta| above_smallest(*delta));
            pack(deltas, width, size, &mut self.blocks);
        }
        self.pending.clear();
    }

    /// Moves the values to a page.
    fn encode(&mut self, page: &mut Vec<u8>) {
        self.end_block();
        put_varint(page, self.block as u64);
        put_varint(page, MINIBLOCKS as u64);
        put_varint(page, self.values as u64);
        put_zigzag(page, self.first);
        page.append(&mut self.blocks);
        (self.values, self.first) = (0, 0);
    }
}

/// Returns a difference in wrapping 64-bit or 32-bit arithmetic.
fn difference(is_wide: bool, left: i64, right: i64) -> i64 {
    match is_wide {
        true => left.wrapping_sub(right),
        false => i64::from((left as i32).wrapping_sub(right as i32)),
    }
}

/// Appends numbers of `width` bits each, least significant bit first, padded with zeros to `count` numbers.
fn pack(numbers: impl Iterator<Item = u64>, width: u32, count: usize, out: &mut Vec<u8>) {
    let end = out.len() + (count * width as usize).div_ceil(8);
    let (mut bits, mut filled) = (0_u128, 0);
    for number in numbers {
        bits |= u128::from(number) << filled;
        filled += width;
        if filled >= u64::BITS {
            out.extend((bits as u64).to_le_bytes());
            bits >>= u64::BITS;
            filled -= u64::BITS;
        }
    }
    out.extend((bits as u64).to_le_bytes());
    out.resize(end, 0);
}

/// Encodes a column of integers.
pub(crate) struct IntegerRuns {
    pages: Pages,
    is_nullable: bool,
    /// Number of rows in the current page.
    rows: usize,
    /// For each row of the current page, 1 if it has a value, or 0 if it is null.
    levels: Repeats,
    values: Deltas,
    /// A buffer for the encoded page, reused for all pages.
    page: Vec<u8>,
}

impl IntegerRuns {
    pub(crate) fn new(column: ColumnDescPtr) -> Result<Self, Error> {
        Ok(Self {
            is_nullable: column.max_def_level() > 0,
            rows: 0,
            levels: Repeats::default(),
            values: Deltas::new(column.physical_type() == Type::INT64),
            page: Vec::new(),
            pages: Pages::new(column, Encoding::DELTA_BINARY_PACKED)?,
        })
    }

    /// Adds `rows` values that begin with `first` and increase by `step`.
    pub(crate) fn put_run(&mut self, first: i64, step: i64, rows: usize) {
        self.put(1, rows, |deltas, part| {
            let offset = step.wrapping_mul(part.start as i64);
            deltas.put_run(first.wrapping_add(offset), step, part.len());
        });
    }

    pub(crate) fn put_values(&mut self, values: &[i64]) {
        self.put(1, values.len(), |deltas, part| {
            let part = values.get(part).unwrap_or_default();
            part.iter().for_each(|value| deltas.put_value(*value));
        });
    }

    pub(crate) fn put_nulls(&mut self, rows: usize) {
        self.put(0, rows, |_, _| {});
    }

    /// Adds rows that all have values (level 1) or are all null (level 0). `put` adds the values of a range
    /// of these rows.
    fn put(&mut self, level: u32, rows: usize, put: impl Fn(&mut Deltas, Range<usize>)) {
        let mut at = 0;
        while at < rows {
            let end = rows.min(at + PAGE_ROWS - self.rows);
            put(&mut self.values, at..end);
            self.levels.push(level, end - at);
            self.rows += end - at;
            at = end;
            if self.rows == PAGE_ROWS {
                self.end_page();
            }
        }
    }

    fn end_page(&mut self) {
        self.page.clear();
        if self.is_nullable {
            let mut levels = Vec::new();
            self.levels.encode(1, &mut levels);
            self.page.extend((levels.len() as u32).to_le_bytes());
            self.page.append(&mut levels);
        }
        self.levels.0.clear();
        self.values.encode(&mut self.page);
        self.pages.add(self.rows, &self.page);
        self.rows = 0;
    }

    pub(crate) fn close(mut self) -> Result<Chunk, Error> {
        if self.rows > 0 {
            self.end_page();
        }
        self.pages.close(None)
    }
}

/// The smallest and the greatest name of a page or chunk.
type Bounds = (Arc<str>, Arc<str>);

/// Encodes the column of names with a dictionary.
///
/// Source: Encodings.md, "Dictionary Encoding (PLAIN_DICTIONARY = 2 and RLE_DICTIONARY = 8)".
pub(crate) struct NameRuns {
    pages: Pages,
    /// The names in PLAIN encoding: for each name, the length in four bytes, then the text.
    dictionary: Vec<u8>,
    /// Number of names in the dictionary.
    names: u32,
    /// The newest name in the dictionary.
    last: Arc<str>,
    /// Number of rows in the current page.
    rows: usize,
    /// For each row of the current page, the index of its name in the dictionary.
    indices: Repeats,
    /// Bounds of the names in the current page.
    bounds: Option<Bounds>,
    /// Total length of the names of the rows in the current page.
    name_bytes: i64,
    /// A buffer for the encoded page, reused for all pages.
    page: Vec<u8>,
    /// Bounds of the names in each finished page.
    page_bounds: Vec<Bounds>,
    /// Total length of the names of the rows in the finished pages.
    page_name_bytes: i64,
}

impl NameRuns {
    pub(crate) fn new(column: ColumnDescPtr) -> Result<Self, Error> {
        Ok(Self {
            pages: Pages::new(column, Encoding::RLE_DICTIONARY)?,
            dictionary: Vec::new(),
            names: 0,
            last: Arc::default(),
            rows: 0,
            indices: Repeats::default(),
            bounds: None,
            name_bytes: 0,
            page: Vec::new(),
            page_bounds: Vec::new(),
            page_name_bytes: 0,
        })
    }

    /// Adds rows of a variable. The rows of a variable must be added consecutively.
    pub(crate) fn put(&mut self, name: &Arc<str>, rows: usize) {
        if rows > 0 && (self.names == 0 || self.last != *name) {
            self.dictionary.extend((name.len() as u32).to_le_bytes());
            self.dictionary.extend(name.as_bytes());
            self.names += 1;
            self.last = Arc::clone(name);
        }
        let mut remaining = rows;
        while remaining > 0 {
            let count = remaining.min(PAGE_ROWS - self.rows);
            self.indices.push(self.names - 1, count);
            self.name_bytes += (name.len() * count) as i64;
            self.bounds = Some(widen(self.bounds.take(), (name.clone(), name.clone())));
            self.rows += count;
            remaining -= count;
            if self.rows == PAGE_ROWS {
                self.end_page();
            }
        }
    }

    fn end_page(&mut self) {
        let bits = u32::BITS - self.names.saturating_sub(1).leading_zeros();
        self.page.clear();
        self.page.push(bits as u8);
        self.indices.encode(bits, &mut self.page);
        self.pages.add(self.rows, &self.page);
        let offsets = &mut self.pages.offsets;
        offsets.append_unencoded_byte_array_data_bytes(Some(self.name_bytes));
        self.page_bounds.extend(self.bounds.take());
        self.page_name_bytes += self.name_bytes;
        (self.rows, self.name_bytes) = (0, 0);
    }

    pub(crate) fn close(mut self) -> Result<Chunk, Error> {
        if self.rows > 0 {
            self.end_page();
        }
        let mut index = ColumnIndexBuilder::new(Type::BYTE_ARRAY);
        for (smallest, greatest) in &self.page_bounds {
            let (smallest, greatest) = (lower_bound(smallest), upper_bound(greatest));
            index.append(false, smallest.into(), greatest.into(), 0, None);
        }
        let ascends = |before: &Bounds, after: &Bounds| before.0 <= after.0 && before.1 <= after.1;
        index.set_boundary_order(match self.page_bounds.is_sorted_by(ascends) {
            true => BoundaryOrder::ASCENDING,
            false => BoundaryOrder::UNORDERED,
        });
        let dictionary = Some((self.names, self.dictionary));
        let mut chunk = self.pages.close(dictionary)?;
        let mut metadata = chunk.close.metadata.into_builder();
        metadata = metadata.set_unencoded_byte_array_data_bytes(Some(self.page_name_bytes));
        let bounds = self.page_bounds.into_iter();
        if let Some((smallest, greatest)) = bounds.reduce(|bounds, page| widen(Some(bounds), page))
        {
            let (lower, upper) = (lower_bound(&smallest), upper_bound(&greatest));
            let is_exact = (lower == &*smallest, upper == *greatest);
            let (lower, upper) = (ByteArray::from(lower), ByteArray::from(upper.into_bytes()));
            let statistics = ValueStatistics::new(Some(lower), Some(upper), None, Some(0), false)
                .with_min_is_exact(is_exact.0)
                .with_max_is_exact(is_exact.1);
            metadata = metadata.set_statistics(statistics.into());
        }
        chunk.close.metadata = metadata.build()?;
        chunk.close.column_index = Some(index.build()?);
        Ok(chunk)
    }
}

fn widen(bounds: Option<Bounds>, other: Bounds) -> Bounds {
    match bounds {
        Some(bounds) => (bounds.0.min(other.0), bounds.1.max(other.1)),
        None => other,
    }
}

/// Returns a lower bound of a name: its first [`STATISTICS_BYTES`] bytes at most.
fn lower_bound(name: &str) -> &str {
    name.get(..name.floor_char_boundary(STATISTICS_BYTES))
        .unwrap_or(name)
}

/// Returns an upper bound of a name: the whole name, or its beginning with the last character replaced by
/// the next character.
fn upper_bound(name: &str) -> String {
    let start = lower_bound(name);
    if start.len() == name.len() {
        return name.to_owned();
    }
    for (at, character) in start.char_indices().rev() {
        let next = char::from_u32(character as u32 + 1);
        if let (Some(next), Some(before)) = (next, start.get(..at))
            && next.len_utf8() == character.len_utf8()
        {
            return format!("{before}{next}");
        }
    }
    name.to_owned()
}
