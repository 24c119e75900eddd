//! The only place that prints: standard output for data, standard error for everything else.
//!
//! All printed text passes [`safe`] here: no character from outside, in any form, moves the cursor,
//! ends a line, or hides or reorders the text around it. Cells of tables and of tab-separated
//! columns pass [`plain`] before they are joined, so none begins another column.
//!
//! Output is flushed when it is useful: on a terminal after every line, otherwise when the command
//! has nothing more to print for now. So a pipe gets whole lines, in time, and few system calls are
//! made.

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
    /// A warning.
    Uncertain,
    Bad,
    /// Good news.
    Fine,
}

/// Standard output and standard error of this process. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Terminal {
    out: Arc<Mutex<Out>>,
    pub(crate) is_tty: bool,
    colours: bool,
    error_colours: bool,
    /// True if standard error is a terminal with a line of its own for progress.
    shows_progress: bool,
    json_errors: bool,
}

#[derive(Debug)]
struct Out {
    stream: BufWriter<Stdout>,
    list: List,
    /// True while the last line of standard error shows progress.
    has_progress: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum List {
    No,
    Empty,
    Begun,
}

impl Terminal {
    /// Returns the terminal of this process. It uses colours only on a terminal, and not if
    /// `NO_COLOR` is set.
    pub(crate) fn new(json_errors: bool) -> Self {
        let wanted = are_colours_wanted(std::env::var_os("NO_COLOR"), std::env::var_os("TERM"));
        let is_tty = io::stdout().is_terminal();
        Self {
            out: Arc::new(Mutex::new(Out {
                stream: BufWriter::with_capacity(64 * 1024, io::stdout()),
                list: List::No,
                has_progress: false,
            })),
            is_tty,
            colours: wanted && is_tty,
            error_colours: wanted && io::stderr().is_terminal(),
            // While data scrolls by on the same terminal there is no place for it.
            shows_progress: has_progress_line() && !is_tty && !json_errors,
            json_errors,
        }
    }

    /// Makes the following lines the elements of one JSON array.
    pub(crate) fn begin_list(&self) {
        self.out().list = List::Empty;
    }

    /// Writes one line of data; tabs separate its columns. A line break in it is escaped like every
    /// other unprintable character.
    pub(crate) fn line(&self, line: &str) -> Result<(), CliError> {
        self.write_line(&safe(line, self.colours, |character| character == '\t'))
    }

    /// Writes text that may have line breaks of the user's own, such as those of `--format`. Text
    /// from outside was escaped before.
    pub(crate) fn lines(&self, lines: &str) -> Result<(), CliError> {
        self.write_line(&safe(lines, self.colours, is_layout))
    }

    fn write_line(&self, line: &str) -> Result<(), CliError> {
        let mut out = self.out();
        if self.is_tty && std::mem::take(&mut out.has_progress) {
            // Both streams are shown in the same place. If standard error is closed, the failure
            // does not matter.
            let _ = write!(io::stderr().lock(), "{ERASE_LINE}");
        }
        let before = match out.list {
            List::No => "",
            List::Empty => "[\n",
            List::Begun => ",\n",
        };
        let is_list = out.list != List::No;
        if is_list {
            out.list = List::Begun;
        }
        out.stream.write_all(before.as_bytes())?;
        out.stream.write_all(line.as_bytes())?;
        if !is_list {
            out.stream.write_all(b"\n")?;
        }
        if self.is_tty {
            out.stream.flush()?;
        }
        Ok(())
    }

    /// Writes text unchanged: the help, a generated script. Never text from outside.
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
        let end = match std::mem::replace(&mut out.list, List::No) {
            List::No => "",
            List::Empty => "[]\n",
            List::Begun => "\n]\n",
        };
        out.stream.write_all(end.as_bytes())?;
        Ok(out.stream.flush()?)
    }

    /// Writes a problem to standard error, after a name padded to `width`.
    pub(crate) fn problem(&self, problem: &Problem, width: usize) -> Result<(), CliError> {
        if self.json_errors {
            return self.note(&json(problem));
        }
        let text = match &problem.name {
            Some(name) => {
                let sentence = format!("*** {}", plain_lines(&problem.sentence()));
                let sentence = self.error_paint(Style::Bad, &sentence);
                format!("{}   {sentence}", padded(&clipped(&plain(name)), width))
            }
            None => {
                let head = self.error_paint(Style::Bad, "error:");
                let message = plain_lines(&problem.message);
                match &problem.hint {
                    Some(hint) => format!("{head} {message}\n  {}", plain_lines(hint)),
                    None => format!("{head} {message}"),
                }
            }
        };
        self.note(&text)
    }

    /// Writes a line to standard error, after flushing the data written so far.
    pub(crate) fn note(&self, line: &str) -> Result<(), CliError> {
        self.flush()?;
        let erase = match std::mem::take(&mut self.out().has_progress) {
            true => ERASE_LINE,
            false => "",
        };
        let line = safe(line, self.error_colours, is_layout);
        // If standard error is closed, the failure does not matter.
        let _ = writeln!(io::stderr().lock(), "{erase}{line}");
        Ok(())
    }

    pub(crate) fn shows_progress(&self) -> bool {
        self.shows_progress
    }

    /// Shows the state of a command on one line of standard error that is rewritten each time; only
    /// on a terminal.
    pub(crate) fn progress(&self, line: &str) {
        if self.shows_progress {
            self.out().has_progress = true;
            // If the line wrapped, only its last row could be erased.
            let line = plain(line);
            let line = fitting(&line, columns());
            // If standard error is closed, the failure does not matter.
            let _ = write!(io::stderr().lock(), "{ERASE_LINE}{line}");
        }
    }

    /// Returns a terminal for a command whose data goes to a file: progress is shown if standard
    /// error is a terminal.
    pub(crate) fn beside_files(&self) -> Self {
        Self {
            shows_progress: has_progress_line() && !self.json_errors,
            ..self.clone()
        }
    }

    pub(crate) fn end_progress(&self) {
        if std::mem::take(&mut self.out().has_progress) {
            // If standard error is closed, the failure does not matter.
            let _ = write!(io::stderr().lock(), "{ERASE_LINE}");
        }
    }

    /// Returns standard output for binary data, after everything written so far.
    pub(crate) fn data(&self) -> Result<File, CliError> {
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

fn columns() -> usize {
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

/// Returns true if colours are wanted on a terminal: not if `NO_COLOR` is set to anything, and not
/// on a dumb terminal.
fn are_colours_wanted(no_color: Option<OsString>, term: Option<OsString>) -> bool {
    no_color.is_none_or(|value| value.is_empty()) && !is_dumb(term)
}

pub(crate) fn shown(path: &Path) -> String {
    plain(&path.display().to_string())
}

/// Returns true for `-`, the path of standard input and standard output.
pub(crate) fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

/// Reads a file, or standard input, as text.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    match is_standard(path) {
        true => io::read_to_string(io::stdin()),
        false => std::fs::read_to_string(path),
    }
}

/// Escapes text from outside: one line, without tabs or terminal control.
pub(crate) fn plain(text: &str) -> String {
    escape(text).into_owned()
}

/// Escapes text from outside that may have several lines.
pub(crate) fn plain_lines(text: &str) -> String {
    escape_except(text, |character| character == '\n').into_owned()
}

/// Joins columns with tabs; empty ones at the end are left out.
pub(crate) fn tabbed<'c>(cells: impl IntoIterator<Item = &'c str>) -> String {
    let cells: Vec<Cow<'_, str>> = cells.into_iter().map(escape).collect();
    cells.join("\t").trim_end_matches('\t').to_owned()
}

/// Returns the text as it may reach the terminal. Everything unprintable is escaped, except
/// characters that `keep` accepts and, if colours are used, the colours of [`painted`].
fn safe(text: &str, has_colours: bool, keep: fn(char) -> bool) -> Cow<'_, str> {
    if !has_colours || !text.contains('\u{1b}') {
        return escape_except(text, keep);
    }
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        let (before, from) = rest.split_at(at);
        safe.push_str(&escape_except(before, keep));
        let colour = COLOURS.iter().find(|colour| from.starts_with(**colour));
        let (shown, length) = match colour {
            Some(colour) => (Cow::Borrowed(*colour), colour.len()),
            None => (escape(&from[..1]), 1),
        };
        safe.push_str(&shown);
        rest = &from[length..];
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

/// Returns the part of the text that fits into `columns`.
fn fitting(text: &str, columns: usize) -> &str {
    let mut taken = 0;
    let end = text.char_indices().find(|(_, character)| {
        taken += character.width().unwrap_or(0);
        taken > columns
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
        Style::Uncertain => YELLOW,
        Style::Bad => RED,
        Style::Fine => GREEN,
    };
    format!("{colour}{text}{RESET}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_omitted_on_request() {
        let text = |text: &str| Some(OsString::from(text));
        assert!(are_colours_wanted(None, text("xterm")));
        assert!(
            are_colours_wanted(text(""), None),
            "an empty NO_COLOR says nothing"
        );
        assert!(!are_colours_wanted(text("1"), text("xterm")));
        assert!(!are_colours_wanted(None, text("dumb")));
        assert_eq!(painted(false, Style::Bad, "x"), "x");
        assert_eq!(painted(true, Style::Bad, "x"), "\u{1b}[31mx\u{1b}[0m");
        assert_eq!(painted(true, Style::Plain, "x"), "x");
    }

    #[test]
    fn terminal_control_sequences_are_escaped() {
        assert_eq!(plain("a'b/µ\n\u{1b}[31m"), "a'b/µ\\n\\u001b[31m");
        assert_eq!(plain_lines("a\n\u{7}b"), "a\n\\u0007b");
        assert_eq!(shown(Path::new("a\tb")), "a\\tb");
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
    fn cells_begin_no_further_column_or_line() {
        assert_eq!(tabbed(["a\tb", "c\nd", ""]), "a\\tb\tc\\nd");
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(padded("液位", 6), "液位  ");
        assert_eq!(padded("e\u{301}", 3), "e\u{301}  ");
        assert_eq!(fitting("液位", 3), "液");
        assert_eq!(fitting("abc", 3), "abc");
    }

    #[test]
    fn columns_are_as_wide_as_their_characters() {
        assert_eq!(padded("°C", 4), "°C  ");
        assert_eq!(padded("too long", 3), "too long");
        assert_eq!(
            clipped(&"é".repeat(200)).chars().count(),
            NAME_SHOWN_MAX + 1
        );
    }
}
