//! Finds and reads the source files, up to a maximum size, and converts offsets to positions.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::display::grouped;
use crate::error::{ConfigErrorKind as Kind, Position};

/// Maximum size of a configuration or CSV file, in bytes.
pub const FILE_BYTES_MAX: u64 = 16 << 20;

/// The text of a file or from another origin.
#[derive(Debug)]
pub(crate) struct Source {
    /// Name in messages: the path of a file, or the name that the caller passed with a text.
    pub name: String,
    /// Path on disk; `None` if the text is not from a file.
    pub path: Option<PathBuf>,
    /// The text without a byte order mark.
    pub text: String,
    /// Byte offset of the start of each line.
    lines: Vec<u32>,
}

/// A place in a source.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Place {
    /// Index of the source in the [`Report`](crate::report::Report).
    pub source: u32,
    /// Byte offset in the text of the source.
    pub offset: u32,
}

/// The reason why a file could not be read, with the position in the file if there is one.
pub(crate) type ReadFault = (Option<Position>, Kind);

impl Source {
    /// Returns a source for a text that is not from a file.
    pub fn of_text(name: &str, text: &str) -> Self {
        Self::new(name.to_owned(), None, text)
    }

    fn new(name: String, path: Option<PathBuf>, text: &str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).to_owned();
        let after_newline = |(offset, byte)| (byte == b'\n').then_some(offset as u32 + 1);
        let lines = std::iter::once(0).chain(text.bytes().enumerate().filter_map(after_newline));
        Self {
            name,
            path,
            lines: lines.collect(),
            text,
        }
    }

    pub fn read(path: &Path) -> Result<Self, ReadFault> {
        let without_position = |kind| (None, kind);
        let unreadable = |error: std::io::Error| match error.kind() {
            ErrorKind::NotFound => without_position(Kind::FileMissing),
            _ => without_position(Kind::Unreadable {
                reason: error.to_string(),
            }),
        };
        let mut bytes = Vec::new();
        let file = open_regular(path).map_err(unreadable)?;
        file.take(FILE_BYTES_MAX + 1)
            .read_to_end(&mut bytes)
            .map_err(unreadable)?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(without_position(Kind::FileTooLarge {
                max: grouped(FILE_BYTES_MAX),
            }));
        }
        let name = path.display().to_string();
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Self::new(name, Some(path.to_owned()), &text)),
            Err(error) => {
                let valid_bytes = error.utf8_error().valid_up_to();
                let bytes = error.as_bytes().get(..valid_bytes).unwrap_or_default();
                let valid = Self::of_text(&name, &String::from_utf8_lossy(bytes));
                Err((Some(valid.position(u32::MAX)), Kind::NotUtf8))
            }
        }
    }

    /// Converts a byte offset to a line and a column.
    pub fn position(&self, offset: u32) -> Position {
        let mut end = self.text.len().min(offset as usize);
        while !self.text.is_char_boundary(end) {
            end = end.saturating_sub(1);
        }
        let line = self.line(end as u32);
        let start = self.lines.get(line as usize - 1).copied().unwrap_or(0) as usize;
        let column = self
            .text
            .get(start..end)
            .unwrap_or_default()
            .chars()
            .count();
        Position {
            line,
            column: column as u32 + 1,
        }
    }

    /// Returns the line number of a byte offset, from 1.
    pub fn line(&self, offset: u32) -> u32 {
        self.lines.partition_point(|start| *start <= offset).max(1) as u32
    }
}

/// Opens a regular file. A pipe is not waited for: opening it would last until it has a writer.
fn open_regular(path: &Path) -> std::io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(std::io::Error::other("it is not a regular file")),
    }
}

/// Returns `path` if it is a file, or the `*.toml` files of the directory, sorted by name.
pub(crate) fn files_of(path: &Path) -> Result<Vec<PathBuf>, Kind> {
    let unreadable = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => Kind::FileMissing,
        _ => Kind::Unreadable {
            reason: error.to_string(),
        },
    };
    if !fs::metadata(path).map_err(unreadable)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        if file
            .extension()
            .is_some_and(|extension| extension == "toml")
            && !file.is_dir()
        {
            files.push(file);
        }
    }
    files.sort();
    if files.is_empty() {
        Err(Kind::DirectoryEmpty)
    } else {
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_and_characters_from_one() {
        let source = Source::of_text("a.toml", "\u{feff}x = 1\r\n  \u{e9}\u{e9}y = 2\n");
        assert_eq!(source.position(0), Position { line: 1, column: 1 });
        let y = source.text.find('y').unwrap() as u32;
        assert_eq!(source.position(y), Position { line: 2, column: 5 });
        assert_eq!(source.position(u32::MAX), Position { line: 3, column: 1 });
    }

    #[test]
    fn pipe_is_refused_without_waiting_for_a_writer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe.toml");
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let refused = Source::read(&path).unwrap_err();
        let expected = Kind::Unreadable {
            reason: "it is not a regular file".to_owned(),
        };
        assert_eq!(refused, (None, expected));
        assert_eq!(files_of(folder.path()), Ok(vec![path]));
    }

    #[test]
    fn offset_inside_a_character_has_the_position_of_the_character() {
        let source = Source::of_text("a.toml", "\u{e9}");
        assert_eq!(source.position(1), Position { line: 1, column: 1 });
    }
}
