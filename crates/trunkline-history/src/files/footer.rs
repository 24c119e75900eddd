//! Reads and writes the footer of a Parquet file, which is everything after the rows. No row can be read
//! without the footer, so it is stored twice: at the end of the file, and as a copy in the folder `footers`.
//!
//! ```text
//! copy    "TLHFOT01" | u64 bytes of the file before the footer | footer | u32 CRC of all preceding bytes
//! ```
//!
//! CRCs are CRC32C; numbers are little-endian. The page indexes are part of the footer.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytes::{Buf, Bytes};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{FileMetaData, PageIndexPolicy, ParquetMetaData};
use parquet::file::metadata::{ParquetMetaDataBuilder, ParquetMetaDataReader};
use parquet::file::reader::{ChunkReader, Length};

use crate::catalogue::{Series, SpoolLog};
use crate::error::Error;
use crate::files::part::SeriesSpan;
use crate::private;

const MAGIC: &[u8; 8] = b"TLHFOT01";
/// Length of the header of a copy, in bytes.
const HEAD: usize = 16;

// Keys of the key-value metadata in the footer.
pub(crate) const SERIES_KEY: &str = "trunkline.series";
pub(crate) const CHECKSUMS_KEY: &str = "trunkline.checksums";
pub(crate) const FILE_KEY: &str = "trunkline.file";

/// Describes a file without a valid [`FileNote`].
const NO_FILE_NOTE: &str = "the footer has no valid entry `trunkline.file`";

/// The bytes of a footer.
#[derive(Clone, Debug)]
pub(crate) struct Footer {
    /// Number of bytes of the file before the footer.
    pub(crate) data_bytes: u64,
    pub(crate) bytes: Bytes,
}

/// The metadata entry with which a file can be read without the catalogue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FileNote {
    pub(crate) data_bytes: u64,
    /// CRC32C of the summary; 0 if there is none.
    pub(crate) summary: u32,
    /// The log segments whose rows the file contains, as ranges in ascending order.
    pub(crate) segments: Vec<(u64, u64)>,
    /// The logs of spools with the rows of some of these segments.
    pub(crate) spool_logs: Vec<SealedLog>,
}

/// A log of a spool whose rows are in files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SealedLog {
    pub(crate) log: SpoolLog,
    /// Number of files that have its rows. With fewer, some of its rows are only in the log.
    pub(crate) files: usize,
}

/// The content of a footer.
#[derive(Debug)]
pub(crate) struct FooterContent {
    /// The Parquet metadata without the key-value entries.
    pub(crate) metadata: ParquetMetaData,
    pub(crate) series: Vec<(Series, SeriesSpan)>,
    /// CRC32C of each 64 KiB block before the footer.
    pub(crate) sums: Vec<u32>,
    pub(crate) note: FileNote,
}

/// Name of the folder with the copies.
pub(crate) const FOLDER: &str = "footers";

/// Returns the path of the copy of a part's footer.
pub(crate) fn copy_path(folder: &Path, part: &str) -> PathBuf {
    let inside = part.strip_prefix("samples/").unwrap_or(part);
    folder.join(FOLDER).join(inside).with_extension("footer")
}

impl Footer {
    /// Reads the footer of a file. The footer follows `data_bytes` bytes of rows.
    pub(crate) fn from_file(file: &File, data_bytes: u64) -> Result<Self, Error> {
        let len = file.metadata()?.len();
        let mut bytes = vec![0; len.saturating_sub(data_bytes) as usize];
        file.read_exact_at(&mut bytes, data_bytes)?;
        Ok(Self {
            data_bytes,
            bytes: bytes.into(),
        })
    }

    /// Reads a copy of a footer. Returns `None` if the copy is missing or damaged.
    pub(crate) fn from_copy(path: &Path) -> Result<Option<Self>, Error> {
        let bytes = match std::fs::read(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            bytes => Bytes::from(bytes?),
        };
        let Some((content, sum)) = bytes.split_last_chunk::<4>() else {
            return Ok(None);
        };
        let data_bytes = content.get(MAGIC.len()..HEAD);
        let data_bytes = data_bytes.and_then(|eight| <[u8; 8]>::try_from(eight).ok());
        let is_whole = content.starts_with(MAGIC) && crc32c::crc32c(content).to_le_bytes() == *sum;
        Ok(data_bytes.filter(|_| is_whole).map(|data_bytes| Self {
            data_bytes: u64::from_le_bytes(data_bytes),
            bytes: bytes.slice(HEAD..bytes.len() - 4),
        }))
    }

    /// Writes a copy of the footer. When the copy has its final name, it is complete and durable.
    pub(crate) fn write_copy(&self, path: &Path) -> Result<(), Error> {
        let mut copy = Vec::with_capacity(HEAD + self.bytes.len() + 4);
        copy.extend_from_slice(MAGIC);
        copy.extend_from_slice(&self.data_bytes.to_le_bytes());
        copy.extend_from_slice(&self.bytes);
        let sum = crc32c::crc32c(&copy);
        copy.extend_from_slice(&sum.to_le_bytes());
        let unfinished = path.with_extension("unfinished");
        if let Some(parent) = path.parent() {
            private::create_folders(parent)?;
        }
        let mut file = private::create_file(&unfinished)?;
        file.write_all(&copy)?;
        file.sync_data()?;
        std::fs::rename(&unfinished, path)?;
        // The date folder may be new in `footers`, and `footers` in the history's folder.
        for folder in path.ancestors().skip(1).take(3) {
            File::open(folder)?.sync_all()?;
        }
        Ok(())
    }

    pub(crate) fn sum(&self) -> u32 {
        crc32c::crc32c(&self.bytes)
    }

    pub(crate) fn content(&self) -> Result<FooterContent, Error> {
        let metadata = ParquetMetaDataReader::new()
            .with_page_index_policy(PageIndexPolicy::Optional)
            .parse_and_finish(self)?;
        let file = metadata.file_metadata();
        let key_values = file.key_value_metadata();
        let text_of = |key: &str| {
            let found = key_values.into_iter().flatten().find(|one| one.key == key);
            found.and_then(|one| one.value.as_deref())
        };
        let series_lines = text_of(SERIES_KEY);
        let series_lines =
            series_lines.ok_or_else(|| Error::damaged("the footer has no index of the series"))?;
        let series = series_lines
            .lines()
            .map(span_of)
            .collect::<Option<Vec<_>>>();
        let series =
            series.ok_or_else(|| Error::damaged("the footer's index of the series is invalid"))?;
        let sums = text_of(CHECKSUMS_KEY).and_then(sums_of);
        let sums = sums.ok_or_else(|| Error::damaged("the footer has no checksums"))?;
        let note = text_of(FILE_KEY).and_then(FileNote::parse);
        let note = note.ok_or_else(|| Error::damaged(NO_FILE_NOTE))?;
        // Drop the key-value entries: they are parsed now, and take as much memory as the other metadata.
        let file_metadata = FileMetaData::new(
            file.version(),
            file.num_rows(),
            file.created_by().map(str::to_owned),
            None,
            file.schema_descr_ptr(),
            file.column_orders().cloned(),
        );
        let mut builder = metadata.into_builder();
        let pages = builder.take_page_index();
        let groups = builder.take_row_groups();
        let builder = ParquetMetaDataBuilder::new(file_metadata).set_row_groups(groups);
        Ok(FooterContent {
            metadata: builder.set_page_index(pages).build(),
            series,
            sums,
            note,
        })
    }
}

impl Length for Footer {
    fn len(&self) -> u64 {
        self.data_bytes + self.bytes.len() as u64
    }
}

impl ChunkReader for Footer {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        let length = self.len().saturating_sub(start) as usize;
        Ok(self.get_bytes(start, length)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let from = start.checked_sub(self.data_bytes).map(|from| from as usize);
        let range = from.and_then(|from| Some(from..from.checked_add(length)?));
        let range = range.filter(|range| range.end <= self.bytes.len());
        let range = range.ok_or_else(|| {
            ParquetError::EOF("the footer refers to bytes outside of the footer".to_owned())
        })?;
        Ok(self.bytes.slice(range))
    }
}

impl FileNote {
    pub(crate) fn text(&self) -> String {
        let segments = self.segments.iter();
        let segments: Vec<String> = segments.map(|(from, to)| format!("{from}-{to}")).collect();
        let Self {
            data_bytes,
            summary,
            ..
        } = self;
        let mut text = format!("{data_bytes} {summary:08x} {}", segments.join(","));
        for SealedLog { log, files } in &self.spool_logs {
            text.push_str(&format!(" {}:{}:{files}", log.spool, log.log));
        }
        text
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let data_bytes = words.next()?.parse().ok()?;
        let summary = u32::from_str_radix(words.next()?, 16).ok()?;
        let segments = words.next()?.split(',').map(|range| {
            let (from, to) = range.split_once('-')?;
            Some((from.parse().ok()?, to.parse().ok()?))
        });
        let segments = segments.collect::<Option<Vec<_>>>()?;
        let spool_logs = words.map(|word| {
            let (spool, rest) = word.split_once(':')?;
            let (log, files) = rest.split_once(':')?;
            Some(SealedLog {
                log: SpoolLog {
                    spool: spool.to_owned(),
                    log: log.parse().ok()?,
                },
                files: files.parse().ok()?,
            })
        });
        Some(Self {
            data_bytes,
            summary,
            segments,
            spool_logs: spool_logs.collect::<Option<Vec<_>>>()?,
        })
    }
}

/// Returns the line for a series in the metadata entry `trunkline.series`.
pub(crate) fn line_of(series: &Series, span: &SeriesSpan) -> String {
    let SeriesSpan {
        first_row,
        rows,
        first_time,
        last_time,
    } = span;
    let mut definition = Vec::new();
    series.encode_definition(&mut definition);
    let mut line = format!("{} {first_row} {rows} {first_time} {last_time} ", series.id);
    for byte in definition {
        line.push_str(&format!("{byte:02x}"));
    }
    line.push('\n');
    line
}

fn span_of(line: &str) -> Option<(Series, SeriesSpan)> {
    let mut words = line.split(' ');
    let id = words.next()?.parse().ok()?;
    let span = SeriesSpan {
        first_row: words.next()?.parse().ok()?,
        rows: words.next()?.parse().ok()?,
        first_time: words.next()?.parse().ok()?,
        last_time: words.next()?.parse().ok()?,
    };
    let (pairs, rest) = words.next()?.as_bytes().as_chunks::<2>();
    let definition = pairs.iter().map(|pair| {
        let pair = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(pair, 16).ok()
    });
    let definition = definition.collect::<Option<Vec<u8>>>()?;
    let series = Series::decode_definition(id, &definition).ok()?;
    rest.is_empty().then_some((series, span))
}

fn sums_of(text: &str) -> Option<Vec<u32>> {
    let (digits, rest) = text.as_bytes().as_chunks::<8>();
    let sums = digits.iter().map(|eight| {
        let eight = std::str::from_utf8(eight).ok()?;
        u32::from_str_radix(eight, 16).ok()
    });
    sums.collect::<Option<Vec<u32>>>()
        .filter(|_| rest.is_empty())
}

/// Finds the footer of a file without the catalogue, in its copy or in the file.
pub(crate) fn find(path: &Path, copy: &Path) -> Result<Footer, Error> {
    if let Some(footer) = Footer::from_copy(copy)? {
        return Ok(footer);
    }
    // The last 8 bytes are the length of the metadata and a magic. The metadata says where the rows end.
    let file = File::open(path)?;
    let len = file.metadata()?.len();
    let end = len.checked_sub(8).ok_or_else(too_short)?;
    let mut tail = [0; 8];
    file.read_exact_at(&mut tail, end)?;
    let [a, b, c, d, ..] = tail;
    let length = u64::from(u32::from_le_bytes([a, b, c, d]));
    if !tail.ends_with(b"PAR1") || length > end {
        return Err(Error::damaged("the file does not end as a Parquet file"));
    }
    let mut metadata = vec![0; length as usize];
    file.read_exact_at(&mut metadata, end - length)?;
    let metadata = ParquetMetaDataReader::decode_metadata(&metadata)?;
    let key_values = metadata.file_metadata().key_value_metadata();
    let note = key_values.into_iter().flatten();
    let note = note.filter(|one| one.key == FILE_KEY);
    let mut note = note.filter_map(|one| FileNote::parse(one.value.as_deref()?));
    let note = note.next_back();
    let note = note.ok_or_else(|| Error::damaged(NO_FILE_NOTE))?;
    if note.data_bytes > len {
        return Err(too_short());
    }
    Footer::from_file(&file, note.data_bytes)
}

fn too_short() -> Error {
    Error::damaged("the file is too short")
}
