//! The one place that prints: standard output for data, standard error for everything else.
//!
//! Whatever is printed as text passes [`safe`] here: no character from outside, in whatever form,
//! moves the cursor, ends a line, or hides or reorders what is around it. Cells of tables and of
//! tab-separated columns pass [`plain`] before they are joined, so none begins another column.
//!
//! Output is kept back until a line is of use to somebody: at once on a terminal, otherwise when
//! the command has nothing more to say for now. So a pipe gets whole lines, in time, and few system
//! calls.

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

use crate::problem::{Problem, Stop};

/// How a word is to be seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mood {
    /// As it is.
    Plain,
    /// Less important.
    Dim,
    /// Careful.
    Uncertain,
    /// Wrong.
    Bad,
    /// Right, where that is the news.
    Fine,
}

/// Standard output and standard error of this process. Clones are the same terminal.
#[derive(Clone, Debug)]
pub(crate) struct Terminal {
    out: Arc<Mutex<Out>>,
    /// Whether standard output is a terminal.
    pub(crate) is_tty: bool,
    colours: bool,
    error_colours: bool,
    /// Whether standard error is a terminal on which progress has a line of its own.
    shows_progress: bool,
    /// Whether errors are JSON objects.
    json_errors: bool,
}

#[derive(Debug)]
struct Out {
    stream: BufWriter<Stdout>,
    list: List,
    /// Progress stands on the last line of standard error.
    has_progress: bool,
}

/// Whether the lines are the elements of one JSON array.
#[derive(Debug, PartialEq, Eq)]
enum List {
    No,
    Empty,
    Begun,
}

impl Terminal {
    /// Of this process. Colours only where people look, and not where `NO_COLOR` is set.
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
            // Where data scrolls by there is no place for it.
            shows_progress: has_progress_line() && !is_tty && !json_errors,
            json_errors,
        }
    }

    /// From now on the lines are the elements of one JSON array.
    pub(crate) fn begin_list(&self) {
        self.out().list = List::Empty;
    }

    /// Writes one line of data, of columns with tabs between them where it has several. A line
    /// break in it is escaped like everything else that is not printable.
    pub(crate) fn line(&self, line: &str) -> Result<(), Stop> {
        self.write_line(&safe(line, self.colours, |character| character == '\t'))
    }

    /// The same of text with line breaks of the user's own, such as those of `--format`. Text from
    /// outside in it was escaped before.
    pub(crate) fn lines(&self, lines: &str) -> Result<(), Stop> {
        self.write_line(&safe(lines, self.colours, is_layout))
    }

    fn write_line(&self, line: &str) -> Result<(), Stop> {
        let mut out = self.out();
        if self.is_tty && std::mem::take(&mut out.has_progress) {
            // They are seen in the same place. Whoever closed standard error does not want to know.
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

    /// Writes text as it is: the help, a generated script. Never text from outside.
    pub(crate) fn raw(&self, text: &[u8]) -> Result<(), Stop> {
        let mut out = self.out();
        out.stream.write_all(text)?;
        Ok(out.stream.flush()?)
    }

    /// Hands on what was written so far.
    pub(crate) fn flush(&self) -> Result<(), Stop> {
        Ok(self.out().stream.flush()?)
    }

    /// Completes what was begun and hands it on. Nothing is written afterwards.
    pub(crate) fn finish(&self) -> Result<(), Stop> {
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

    /// A problem, on standard error; behind a name as wide as `width`.
    pub(crate) fn problem(&self, problem: &Problem, width: usize) -> Result<(), Stop> {
        if self.json_errors {
            return self.note(&problem.to_json().to_string());
        }
        let text = match &problem.name {
            Some(name) => {
                let sentence = format!("*** {}", plain_lines(&problem.sentence()));
                let sentence = self.error_paint(Mood::Bad, &sentence);
                format!("{}   {sentence}", padded(&clipped(&plain(name)), width))
            }
            None => {
                let head = self.error_paint(Mood::Bad, "error:");
                let message = plain_lines(&problem.message);
                match &problem.hint {
                    Some(hint) => format!("{head} {message}\n  {}", plain_lines(hint)),
                    None => format!("{head} {message}"),
                }
            }
        };
        self.note(&text)
    }

    /// A line on standard error, after the data written so far.
    pub(crate) fn note(&self, line: &str) -> Result<(), Stop> {
        self.flush()?;
        let erase = match std::mem::take(&mut self.out().has_progress) {
            true => ERASE_LINE,
            false => "",
        };
        let line = safe(line, self.error_colours, is_layout);
        // Whoever closed standard error does not want to know.
        let _ = writeln!(io::stderr().lock(), "{erase}{line}");
        Ok(())
    }

    /// Whether [`progress`](Self::progress) shows anything.
    pub(crate) fn shows_progress(&self) -> bool {
        self.shows_progress
    }

    /// How a command is doing, on one line of standard error that is renewed; only on a terminal.
    pub(crate) fn progress(&self, line: &str) {
        if self.shows_progress {
            self.out().has_progress = true;
            // Of a line that goes on in the next one only that could be taken away again.
            let line = plain(line);
            let line = fitting(&line, columns());
            // Whoever closed standard error does not want to know.
            let _ = write!(io::stderr().lock(), "{ERASE_LINE}{line}");
        }
    }

    /// The same for a command whose data goes to a file: there is a place for progress where people
    /// look at standard error.
    pub(crate) fn beside_files(&self) -> Self {
        Self {
            shows_progress: has_progress_line() && !self.json_errors,
            ..self.clone()
        }
    }

    /// Takes the progress away.
    pub(crate) fn end_progress(&self) {
        if std::mem::take(&mut self.out().has_progress) {
            // Whoever closed standard error does not want to know.
            let _ = write!(io::stderr().lock(), "{ERASE_LINE}");
        }
    }

    /// Standard output for data that is no text, behind everything that was written so far.
    pub(crate) fn data(&self) -> Result<File, Stop> {
        self.flush()?;
        Ok(io::stdout().as_fd().try_clone_to_owned()?.into())
    }

    /// The text as it is to be seen on standard output.
    pub(crate) fn paint(&self, mood: Mood, text: &str) -> String {
        painted(self.colours, mood, text)
    }

    /// The text as it is to be seen on standard error.
    pub(crate) fn error_paint(&self, mood: Mood, text: &str) -> String {
        painted(self.error_colours, mood, text)
    }

    fn out(&self) -> MutexGuard<'_, Out> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many columns one line of the terminal has that standard error is.
fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stderr());
    // A terminal that does not know says 0.
    let columns = size.map_or(0, |size| usize::from(size.ws_col));
    columns.checked_sub(1).unwrap_or(usize::MAX)
}

/// Whether people look at standard error, and a line can be renewed there.
fn has_progress_line() -> bool {
    io::stderr().is_terminal() && !is_dumb(std::env::var_os("TERM"))
}

/// Whether a terminal can do no more than show one line behind the other.
fn is_dumb(term: Option<OsString>) -> bool {
    term.is_some_and(|term| term == "dumb")
}

/// Whether colours are wanted on a terminal: not where `NO_COLOR` says anything, nor where none can
/// be.
fn are_colours_wanted(no_color: Option<OsString>, term: Option<OsString>) -> bool {
    no_color.is_none_or(|value| value.is_empty()) && !is_dumb(term)
}

/// A path for people: nothing in it moves the cursor.
pub(crate) fn shown(path: &Path) -> String {
    plain(&path.display().to_string())
}

/// Text from outside on one line, without anything that a terminal would obey, and without tabs.
pub(crate) fn plain(text: &str) -> String {
    escape(text).into_owned()
}

/// The same of text that may have several lines.
fn plain_lines(text: &str) -> String {
    escape_except(text, |character| character == '\n').into_owned()
}

/// Columns with tabs between them; empty ones at the end are left out.
pub(crate) fn tabbed<'c>(cells: impl IntoIterator<Item = &'c str>) -> String {
    let cells: Vec<Cow<'_, str>> = cells.into_iter().map(escape).collect();
    cells.join("\t").trim_end_matches('\t').to_owned()
}

/// The text as it may reach the terminal: everything that is not printable is escaped, unless
/// `keep` names it, or it is a colour of [`painted`] where there are colours.
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

/// What separates lines and columns.
fn is_layout(character: char) -> bool {
    matches!(character, '\n' | '\t')
}

/// The columns of a terminal that a text takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// The text and spaces behind it, as many as it lacks columns to `width`.
pub(crate) fn padded(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(text.width());
    let mut padded = String::with_capacity(text.len() + missing);
    padded.push_str(text);
    padded.extend(std::iter::repeat_n(' ', missing));
    padded
}

/// As much of the text as there are columns for.
fn fitting(text: &str, columns: usize) -> &str {
    let mut taken = 0;
    let end = text.char_indices().find(|(_, character)| {
        taken += character.width().unwrap_or(0);
        taken > columns
    });
    end.map_or(text, |(end, _)| &text[..end])
}

/// The beginning of a name that is too long to be looked at.
fn clipped(name: &str) -> Cow<'_, str> {
    match name.char_indices().nth(NAME_SHOWN_MAX) {
        Some((end, _)) => Cow::Owned(format!("{}…", &name[..end])),
        None => Cow::Borrowed(name),
    }
}

/// Back to the beginning of the line, which is empty then.
const ERASE_LINE: &str = "\r\u{1b}[K";

/// Characters of a name that an error shows.
const NAME_SHOWN_MAX: usize = 100;

const DIM: &str = "\u{1b}[2m";
const YELLOW: &str = "\u{1b}[33m";
const RED: &str = "\u{1b}[31m";
const GREEN: &str = "\u{1b}[32m";
/// As before the colour.
const RESET: &str = "\u{1b}[0m";

/// Everything that [`painted`] puts around a text.
const COLOURS: [&str; 5] = [DIM, YELLOW, RED, GREEN, RESET];

fn painted(colours: bool, mood: Mood, text: &str) -> String {
    let text = escape_except(text, is_layout);
    let colour = match mood {
        _ if !colours => return text.into_owned(),
        Mood::Plain => return text.into_owned(),
        Mood::Dim => DIM,
        Mood::Uncertain => YELLOW,
        Mood::Bad => RED,
        Mood::Fine => GREEN,
    };
    format!("{colour}{text}{RESET}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_left_out_where_they_are_not_wanted() {
        let text = |text: &str| Some(OsString::from(text));
        assert!(are_colours_wanted(None, text("xterm")));
        assert!(
            are_colours_wanted(text(""), None),
            "an empty NO_COLOR says nothing"
        );
        assert!(!are_colours_wanted(text("1"), text("xterm")));
        assert!(!are_colours_wanted(None, text("dumb")));
        assert_eq!(painted(false, Mood::Bad, "x"), "x");
        assert_eq!(painted(true, Mood::Bad, "x"), "\u{1b}[31mx\u{1b}[0m");
        assert_eq!(painted(true, Mood::Plain, "x"), "x");
    }

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        assert_eq!(plain("a'b/µ\n\u{1b}[31m"), "a'b/µ\\n\\u001b[31m");
        assert_eq!(plain_lines("a\n\u{7}b"), "a\n\\u0007b");
        assert_eq!(shown(Path::new("a\tb")), "a\\tb");
    }

    #[test]
    fn only_colours_of_its_own_reach_the_terminal() {
        let red = painted(true, Mood::Bad, "x\u{1b}]0;y");
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
