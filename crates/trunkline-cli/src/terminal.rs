//! The only module that opens standard output and standard error. Data goes to standard output,
//! everything else to standard error.
//!
//! Text is escaped before it is printed, except by [`Terminal::raw`] and
//! [`Terminal::binary_output`], so that characters from outside cannot move the cursor, end a line,
//! or hide or reorder other text. Each cell of a table or of a tab-separated line is escaped before
//! the cells are joined, so that no cell can start a new column.
//!
//! On a terminal, output is flushed after every line; otherwise, it is flushed when the command has
//! nothing more to print for now. A line, or an element of a JSON list, is written as a unit: no
//! flush ends in the middle of it.

#![expect(
    clippy::disallowed_methods,
    reason = "the one place that has standard output and standard error"
)]

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use trunkline_types::text::{escape, escape_except};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::output::record::json;
use crate::{CliError, Problem};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Style {
    Plain,
    Dim,
    Warning,
    Bad,
    Good,
}

/// Standard output and standard error of this process. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Terminal {
    out: Arc<Mutex<Out>>,
    pub(crate) out_is_tty: bool,
    colours: bool,
    error_colours: bool,
    /// True if progress is shown on standard error.
    shows_progress: bool,
    json_errors: bool,
}

#[derive(Debug)]
struct Out {
    stream: BufWriter<Stdout>,
    /// Reused buffer for one line.
    line: Vec<u8>,
    json_list: JsonList,
    /// True while the last line of standard error shows progress.
    has_progress: bool,
    /// Number of lines above the cursor that [`Terminal::draw`] has written.
    drawn: usize,
}

#[derive(Debug, PartialEq, Eq)]
enum JsonList {
    Off,
    Empty,
    Started,
}

impl Terminal {
    /// Returns the terminal of this process. It uses colours only if the terminal supports them and
    /// `NO_COLOR` is unset or empty.
    pub(crate) fn new(json_errors: bool) -> Self {
        let supports_colours =
            supports_colours(std::env::var_os("NO_COLOR"), std::env::var_os("TERM"));
        let out_is_tty = io::stdout().is_terminal();
        Self {
            out: Arc::new(Mutex::new(Out {
                stream: BufWriter::with_capacity(64 * 1024, io::stdout()),
                line: Vec::new(),
                json_list: JsonList::Off,
                has_progress: false,
                drawn: 0,
            })),
            out_is_tty,
            colours: supports_colours && out_is_tty,
            error_colours: supports_colours && io::stderr().is_terminal(),
            // Data on a terminal would overwrite the progress line.
            shows_progress: has_progress_line() && !out_is_tty && !json_errors,
            json_errors,
        }
    }

    /// Returns the width of standard output in columns, if it is a terminal.
    pub(crate) fn columns(&self) -> Option<usize> {
        if !self.out_is_tty {
            return None;
        }
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
        Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
    }

    /// Redraws a changing display: replaces the lines of the previous call. Lines are cut to the
    /// width and height of the terminal. Requires a terminal that [can](Self::can_draw) move its
    /// cursor.
    pub(crate) fn draw(&self, lines: &[String]) -> Result<(), CliError> {
        let size = rustix::termios::tcgetwinsize(io::stdout());
        // A terminal that does not know its size reports 0.
        let (columns, rows) = match size {
            Ok(size) if size.ws_col > 0 && size.ws_row > 1 => {
                (usize::from(size.ws_col), usize::from(size.ws_row) - 1)
            }
            _ => (80, 23),
        };
        let out = &mut *self.out();
        let mut text = match out.drawn {
            0 => String::new(),
            drawn => format!("\u{1b}[{drawn}A\u{1b}[J"),
        };
        let visible = match lines.len() > rows {
            true => rows - 1,
            false => lines.len(),
        };
        for line in lines.iter().take(visible) {
            let line = safe(line, self.colours, |_| false);
            text.push_str(cut_to_width(&line, columns));
            text.push_str("\u{1b}[0m\n");
        }
        let hidden = lines.len() - visible;
        if hidden > 0 {
            let line = format!("{hidden} more lines do not fit");
            text.push_str(cut_to_width(&line, columns));
            text.push('\n');
        }
        out.drawn = visible + usize::from(hidden > 0);
        out.stream.write_all(text.as_bytes())?;
        Ok(out.stream.flush()?)
    }

    /// Returns true if standard output is a terminal that can move its cursor.
    pub(crate) fn can_draw(&self) -> bool {
        self.out_is_tty && !is_dumb(std::env::var_os("TERM"))
    }

    /// Makes the following lines the elements of one JSON array.
    pub(crate) fn begin_list(&self) {
        self.out().json_list = JsonList::Empty;
    }

    /// Writes one line of data; tabs separate its columns. Line breaks are escaped, like all other
    /// unprintable characters.
    pub(crate) fn line(&self, line: &str) -> Result<(), CliError> {
        self.write_line(&safe(line, self.colours, |character| character == '\t'))
    }

    /// Writes text that may contain the user's own line breaks, such as those in `--format`. The
    /// caller must already have escaped text from outside.
    pub(crate) fn lines(&self, lines: &str) -> Result<(), CliError> {
        self.write_line(&safe(lines, self.colours, is_layout))
    }

    fn write_line(&self, line: &str) -> Result<(), CliError> {
        let out = &mut *self.out();
        if self.out_is_tty {
            // Standard output and the progress line share this terminal.
            erase_progress(out);
        }
        let (before, after) = match out.json_list {
            JsonList::Off => ("", "\n"),
            JsonList::Empty => ("[\n", ""),
            JsonList::Started => (",\n", ""),
        };
        if out.json_list != JsonList::Off {
            out.json_list = JsonList::Started;
        }
        write_whole(&mut out.stream, &mut out.line, [before, line, after])?;
        if self.out_is_tty {
            out.stream.flush()?;
        }
        Ok(())
    }

    /// Writes text unchanged. Text from outside must already be escaped.
    pub(crate) fn raw(&self, text: &[u8]) -> Result<(), CliError> {
        let mut out = self.out();
        out.stream.write_all(text)?;
        Ok(out.stream.flush()?)
    }

    pub(crate) fn flush(&self) -> Result<(), CliError> {
        Ok(self.out().stream.flush()?)
    }

    /// Completes and flushes the output. Nothing may be written afterwards.
    pub(crate) fn finish(&self) -> Result<(), CliError> {
        self.end_progress();
        let mut out = self.out();
        let end = match std::mem::replace(&mut out.json_list, JsonList::Off) {
            JsonList::Off => "",
            JsonList::Empty => "[]\n",
            JsonList::Started => "\n]\n",
        };
        out.stream.write_all(end.as_bytes())?;
        Ok(out.stream.flush()?)
    }

    /// Writes a problem to standard error. If it has a name, the name is padded to `width`.
    pub(crate) fn problem(&self, problem: &Problem, width: usize) -> Result<(), CliError> {
        if self.json_errors {
            return self.note(&json(problem));
        }
        let text = match &problem.name {
            Some(name) => {
                let sentence = format!("*** {}", escaped_lines(&problem.sentence()));
                let sentence = self.error_paint(Style::Bad, &sentence);
                format!("{}   {sentence}", padded(&clipped(&escaped(name)), width))
            }
            None => {
                let head = self.error_paint(Style::Bad, "error:");
                let message = escaped_lines(&problem.message);
                match &problem.hint {
                    Some(hint) => format!("{head} {message}\n  {}", escaped_lines(hint)),
                    None => format!("{head} {message}"),
                }
            }
        };
        self.note(&text)
    }

    /// Writes a line to standard error, after flushing the data written so far.
    pub(crate) fn note(&self, line: &str) -> Result<(), CliError> {
        self.flush()?;
        self.end_progress();
        // The next `draw` starts below this line.
        self.out().drawn = 0;
        let line = safe(line, self.error_colours, is_layout);
        // If standard error is closed, the failure does not matter.
        let _ = writeln!(io::stderr().lock(), "{line}");
        Ok(())
    }

    pub(crate) fn shows_progress(&self) -> bool {
        self.shows_progress
    }

    /// Shows the progress of a command on one line of standard error, which each call rewrites.
    /// Does nothing if [`shows_progress`](Self::shows_progress) returns false.
    pub(crate) fn progress(&self, line: &str) {
        if self.shows_progress {
            self.out().has_progress = true;
            // If the line wrapped, only its last row could be erased.
            let line = escaped(line);
            let line = cut_to_width(&line, progress_columns());
            // If standard error is closed, the failure does not matter.
            let _ = write!(io::stderr().lock(), "{ERASE_LINE}{line}");
        }
    }

    /// Returns a terminal that also shows progress when standard output is a terminal, for commands
    /// whose data goes to files.
    pub(crate) fn for_file_output(&self) -> Self {
        Self {
            shows_progress: has_progress_line() && !self.json_errors,
            ..self.clone()
        }
    }

    pub(crate) fn end_progress(&self) {
        erase_progress(&mut self.out());
    }

    /// Flushes everything written so far, and returns standard output for binary data.
    pub(crate) fn binary_output(&self) -> Result<File, CliError> {
        self.flush()?;
        Ok(io::stdout().as_fd().try_clone_to_owned()?.into())
    }

    pub(crate) fn paint(&self, style: Style, text: &str) -> String {
        painted(self.colours, style, text)
    }

    pub(crate) fn error_paint(&self, style: Style, text: &str) -> String {
        painted(self.error_colours, style, text)
    }

    fn out(&self) -> MutexGuard<'_, Out> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn erase_progress(out: &mut Out) {
    if std::mem::take(&mut out.has_progress) {
        // If standard error is closed, the failure does not matter.
        let _ = write!(io::stderr().lock(), "{ERASE_LINE}");
    }
}

/// Writes the parts in a single call, so that a buffered stream never flushes only some of them.
/// `buffer` is scratch space.
fn write_whole(out: &mut impl Write, buffer: &mut Vec<u8>, parts: [&str; 3]) -> io::Result<()> {
    buffer.clear();
    for part in parts {
        buffer.extend_from_slice(part.as_bytes());
    }
    out.write_all(buffer)
}

/// Returns the width of the progress line: one column less than the terminal, so that it does not
/// wrap.
fn progress_columns() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stderr());
    // A terminal that does not know its size reports 0.
    let columns = size.map_or(0, |size| usize::from(size.ws_col));
    columns.checked_sub(1).unwrap_or(usize::MAX)
}

fn has_progress_line() -> bool {
    io::stderr().is_terminal() && !is_dumb(std::env::var_os("TERM"))
}

fn is_dumb(term: Option<OsString>) -> bool {
    term.is_some_and(|term| term == "dumb")
}

/// Returns false if `NO_COLOR` is not empty, or on a dumb terminal.
fn supports_colours(no_color: Option<OsString>, term: Option<OsString>) -> bool {
    no_color.is_none_or(|value| value.is_empty()) && !is_dumb(term)
}

pub(crate) fn escaped_path(path: &Path) -> String {
    escaped(&path.display().to_string())
}

/// Returns true for `-`, the path of standard input and standard output.
pub(crate) fn is_stdio(path: &Path) -> bool {
    path == Path::new("-")
}

/// Reads a file, or standard input, as text.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    match is_stdio(path) {
        true => io::read_to_string(io::stdin()),
        false => std::fs::read_to_string(path),
    }
}

/// Escapes text from outside into one line without tabs or terminal control sequences.
pub(crate) fn escaped(text: &str) -> String {
    escape(text).into_owned()
}

/// Escapes text from outside that may have several lines.
pub(crate) fn escaped_lines(text: &str) -> String {
    escape_except(text, |character| character == '\n').into_owned()
}

/// Joins cells with tabs, without empty cells at the end.
pub(crate) fn tabbed<'c>(cells: impl IntoIterator<Item = &'c str>) -> String {
    let cells: Vec<Cow<'_, str>> = cells.into_iter().map(escape).collect();
    cells.join("\t").trim_end_matches('\t').to_owned()
}

/// Escapes everything unprintable, except characters that `keep` accepts and, if `has_colours` is
/// true, the colour sequences of [`painted`].
fn safe(text: &str, has_colours: bool, keep: fn(char) -> bool) -> Cow<'_, str> {
    if !has_colours || !text.contains('\u{1b}') {
        return escape_except(text, keep);
    }
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(index) = rest.find('\u{1b}') {
        let (before, after) = rest.split_at(index);
        safe.push_str(&escape_except(before, keep));
        let colour = COLOURS.iter().find(|colour| after.starts_with(**colour));
        let (shown, length) = match colour {
            Some(colour) => (Cow::Borrowed(*colour), colour.len()),
            None => (escape(&after[..1]), 1),
        };
        safe.push_str(&shown);
        rest = &after[length..];
    }
    safe.push_str(&escape_except(rest, keep));
    Cow::Owned(safe)
}

fn is_layout(character: char) -> bool {
    matches!(character, '\n' | '\t')
}

/// Returns the number of terminal columns that a text takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

pub(crate) fn padded(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(text.width());
    let mut padded = String::with_capacity(text.len() + missing);
    padded.push_str(text);
    padded.extend(std::iter::repeat_n(' ', missing));
    padded
}

/// Cuts text to the width of `columns`. Colour sequences have no width.
fn cut_to_width(text: &str, columns: usize) -> &str {
    let (mut width, mut is_colour) = (0, false);
    let end = text.char_indices().find(|(_, character)| {
        if is_colour || *character == '\u{1b}' {
            is_colour = *character != 'm';
            return false;
        }
        width += character.width().unwrap_or(0);
        width > columns
    });
    end.map_or(text, |(end, _)| &text[..end])
}

fn clipped(name: &str) -> Cow<'_, str> {
    match name.char_indices().nth(NAME_SHOWN_MAX) {
        Some((end, _)) => Cow::Owned(format!("{}…", &name[..end])),
        None => Cow::Borrowed(name),
    }
}

const ERASE_LINE: &str = "\r\u{1b}[K";

const NAME_SHOWN_MAX: usize = 100;

const DIM: &str = "\u{1b}[2m";
const YELLOW: &str = "\u{1b}[33m";
const RED: &str = "\u{1b}[31m";
const GREEN: &str = "\u{1b}[32m";
const RESET: &str = "\u{1b}[0m";

const COLOURS: [&str; 5] = [DIM, YELLOW, RED, GREEN, RESET];

fn painted(colours: bool, style: Style, text: &str) -> String {
    let text = escape_except(text, is_layout);
    let colour = match style {
        _ if !colours => return text.into_owned(),
        Style::Plain => return text.into_owned(),
        Style::Dim => DIM,
        Style::Warning => YELLOW,
        Style::Bad => RED,
        Style::Good => GREEN,
    };
    format!("{colour}{text}{RESET}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_omitted_on_request() {
        let text = |text: &str| Some(OsString::from(text));
        assert!(supports_colours(None, text("xterm")));
        assert!(
            supports_colours(text(""), None),
            "an empty NO_COLOR has no effect"
        );
        assert!(!supports_colours(text("1"), text("xterm")));
        assert!(!supports_colours(None, text("dumb")));
        assert_eq!(painted(false, Style::Bad, "x"), "x");
        assert_eq!(painted(true, Style::Bad, "x"), "\u{1b}[31mx\u{1b}[0m");
        assert_eq!(painted(true, Style::Plain, "x"), "x");
    }

    #[test]
    fn terminal_control_sequences_are_escaped() {
        assert_eq!(escaped("a'b/µ\n\u{1b}[31m"), "a'b/µ\\n\\u001b[31m");
        assert_eq!(escaped_lines("a\n\u{7}b"), "a\n\\u0007b");
        assert_eq!(escaped_path(Path::new("a\tb")), "a\\tb");
    }

    #[test]
    fn only_the_programs_own_colours_reach_the_terminal() {
        let red = painted(true, Style::Bad, "x\u{1b}]0;y");
        assert_eq!(red, "\u{1b}[31mx\\u001b]0;y\u{1b}[0m");
        assert_eq!(safe(&red, true, is_layout), red);
        assert_eq!(
            safe(&red, false, is_layout),
            "\\u001b[31mx\\u001b]0;y\\u001b[0m"
        );
        assert_eq!(
            safe("a\u{1b}[2J\u{1b}[31mb\u{2028}", true, is_layout),
            "a\\u001b[2J\u{1b}[31mb\\u2028"
        );
        assert_eq!(safe("a\tb\nc", true, is_layout), "a\tb\nc");
        assert_eq!(safe("a\tb\nc", false, |c| c == '\t'), "a\tb\\nc");
    }

    #[test]
    fn cells_do_not_start_new_columns_or_lines() {
        assert_eq!(tabbed(["a\tb", "c\nd", ""]), "a\\tb\tc\\nd");
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(padded("液位", 6), "液位  ");
        assert_eq!(padded("e\u{301}", 3), "e\u{301}  ");
        assert_eq!(cut_to_width("液位", 3), "液");
        assert_eq!(cut_to_width("abc", 3), "abc");
    }

    #[test]
    fn text_is_padded_and_clipped_by_characters() {
        assert_eq!(padded("°C", 4), "°C  ");
        assert_eq!(padded("too long", 3), "too long");
        assert_eq!(
            clipped(&"é".repeat(200)).chars().count(),
            NAME_SHOWN_MAX + 1
        );
    }

    /// Records the bytes of each call to `write`.
    #[derive(Default)]
    struct Pipe(Vec<Vec<u8>>);

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.push(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn pipe_gets_whole_lines_even_if_they_exceed_the_buffer() {
        let mut sut = BufWriter::with_capacity(16, Pipe::default());
        let mut line = Vec::new();
        for length in [7, 8, 15, 16, 17, 40, 3] {
            write_whole(&mut sut, &mut line, ["", &"x".repeat(length), "\n"]).unwrap();
        }
        sut.flush().unwrap();
        let written = &sut.get_ref().0;
        assert_eq!(written.concat().len(), 106 + 7);
        for bytes in written {
            assert_eq!(bytes.last(), Some(&b'\n'), "{bytes:?}");
        }
    }
}
