//! Passwords: asked on the terminal, which does not show them, or read from a file or from standard
//! input. They are never arguments or environment variables, which other users can see.

use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::OnceLock;

use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use trunkline::proto::Password;
use trunkline_identity::files::read_secret;
use zeroize::Zeroizing;

use crate::{Exit, Problem};

/// The environment variable that names the file with the password for a login.
const FILE_VARIABLE: &str = "TRUNKLINE_PASSWORD_FILE";

/// Maximum length of a line with a password, in bytes.
const LINE_BYTES_MAX: usize = 1024;

/// Error code for a password that cannot be read.
const CODE: &str = "password";

/// A line that is erased from memory when it is dropped.
type Line = Zeroizing<String>;

/// Returns the password with which `account` logs in. `known` remembers it, so that a command that
/// connects several times asks once.
pub(crate) fn for_login(account: &str, known: &OnceLock<Password>) -> Result<Password, Problem> {
    if let Some(password) = known.get() {
        return Ok(password.clone());
    }
    let line = match std::env::var_os(FILE_VARIABLE).filter(|path| !path.is_empty()) {
        Some(path) => from_file(path.into())?,
        None => ask(&format!("Password of {account}: "))?,
    };
    let password = to_send(&line)?;
    Ok(known.get_or_init(|| password).clone())
}

/// Asks for a new password, twice on a terminal; otherwise reads it from the first line of standard
/// input.
pub(crate) fn new_for(account: &str) -> Result<Line, Problem> {
    let stdin = io::stdin();
    let line = match stdin.is_terminal() {
        true => {
            let first = ask(&format!("New password of {account}: "))?;
            let second = ask("The same password again: ")?;
            if *first != *second {
                let sentence = "the two passwords differ, and nothing was changed; try again";
                return Err(Problem::failed(CODE, sentence));
            }
            first
        }
        false => {
            // Not through the buffer of `Stdin`, which would keep a copy.
            let input = stdin.as_fd().try_clone_to_owned().map_err(unreadable)?;
            plain_line(&mut File::from(input))?
        }
    };
    // A password that cannot be sent could never be used.
    to_send(&line)?;
    Ok(line)
}

fn to_send(line: &str) -> Result<Password, Problem> {
    let password = Password::new(line.to_owned());
    password.map_err(|error| Problem::failed(CODE, error.to_string()))
}

/// Reads the first line of a file that only the user can read.
fn from_file(path: PathBuf) -> Result<Line, Problem> {
    let text = read_secret(&path, LINE_BYTES_MAX);
    let text = text.map_err(|error| Problem::failed(CODE, format!("{FILE_VARIABLE}: {error}")))?;
    let line = text.lines().next().unwrap_or_default();
    match line.is_empty() {
        false => Ok(Zeroizing::new(line.to_owned())),
        true => {
            let sentence = format!("{FILE_VARIABLE}: the first line of the file is empty");
            Err(Problem::failed(CODE, sentence))
        }
    }
}

/// Asks on the terminal of this process, which is not necessarily standard input.
fn ask(prompt: &str) -> Result<Line, Problem> {
    let terminal = File::options()
        .read(true)
        .write(true)
        .open("/dev/tty")
        .map_err(|_| {
            let sentence = format!(
                "there is no terminal on which to ask for the password; write it to a file that \
                 only you can read (mode 0600), and set {FILE_VARIABLE} to its path"
            );
            Problem::failed(CODE, sentence)
        })?;
    let hidden = Hidden::start(&terminal).map_err(unreadable)?;
    let prompt = crate::escaped(prompt);
    let mut screen = &terminal;
    screen.write_all(prompt.as_bytes()).map_err(unreadable)?;
    let line = typed_line(&mut &terminal);
    drop(hidden);
    // If the terminal is gone, the line break does not matter.
    let _ = screen.write_all(b"\n");
    line
}

/// A terminal that shows no typed characters, and delivers each of them at once. Ctrl-C arrives as a
/// character: if it ended the process, the terminal would stay in this mode.
struct Hidden<'a> {
    terminal: &'a File,
    before: Termios,
}

impl<'a> Hidden<'a> {
    fn start(terminal: &'a File) -> io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut modes = before.clone();
        modes.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        modes.input_modes |= InputModes::ICRNL;
        modes.special_codes[SpecialCodeIndex::VMIN] = 1;
        modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        // Characters typed before the prompt were not meant for it.
        tcsetattr(terminal, OptionalActions::Flush, &modes)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Hidden<'_> {
    fn drop(&mut self) {
        // If the terminal is gone, its mode does not matter.
        let _ = tcsetattr(self.terminal, OptionalActions::Drain, &self.before);
    }
}

const CTRL_C: u8 = 0x03;
const CTRL_D: u8 = 0x04;
const BACKSPACE: u8 = 0x08;
const CTRL_U: u8 = 0x15;
const DELETE: u8 = 0x7f;

/// Reads a line that a person types, with the usual keys for corrections.
fn typed_line(terminal: &mut impl Read) -> Result<Line, Problem> {
    let mut line = Typed::new();
    while let Some(byte) = next_byte(terminal)? {
        match byte {
            b'\n' => return line.finish(),
            CTRL_C => return Err(cancelled()),
            CTRL_D if line.0.is_empty() => return Err(cancelled()),
            CTRL_D => {}
            BACKSPACE | DELETE => line.erase_last(),
            CTRL_U => line.erase(),
            byte => line.push(byte)?,
        }
    }
    Err(cancelled())
}

/// Reads the first line of a pipe or a file.
fn plain_line(input: &mut impl Read) -> Result<Line, Problem> {
    let mut line = Typed::new();
    loop {
        match next_byte(input)? {
            None if line.0.is_empty() => {
                let sentence = "there is no password on standard input; write it to the first line";
                return Err(Problem::failed(CODE, sentence));
            }
            None | Some(b'\n') => break,
            Some(byte) => line.push(byte)?,
        }
    }
    if line.0.last() == Some(&b'\r') {
        line.0.pop();
    }
    line.finish()
}

fn next_byte(input: &mut impl Read) -> Result<Option<u8>, Problem> {
    let mut byte = Zeroizing::new([0]);
    loop {
        match input.read(&mut *byte) {
            Ok(0) => return Ok(None),
            Ok(_) => return Ok(Some(byte[0])),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(unreadable(error)),
        }
    }
}

/// The bytes of a line so far. They never move in memory, so no copy is left behind.
struct Typed(Zeroizing<Vec<u8>>);

impl Typed {
    fn new() -> Self {
        Self(Zeroizing::new(Vec::with_capacity(LINE_BYTES_MAX)))
    }

    fn push(&mut self, byte: u8) -> Result<(), Problem> {
        if self.0.len() == LINE_BYTES_MAX {
            let sentence =
                format!("the password has more than {LINE_BYTES_MAX} bytes; use a shorter one");
            return Err(Problem::failed(CODE, sentence));
        }
        self.0.push(byte);
        Ok(())
    }

    /// Erases the last character.
    fn erase_last(&mut self) {
        // The first byte of a UTF-8 character is no continuation byte.
        while let Some(byte) = self.0.pop() {
            if byte & 0xc0 != 0x80 {
                return;
            }
        }
    }

    fn erase(&mut self) {
        self.0.clear();
    }

    fn finish(self) -> Result<Line, Problem> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => Ok(Zeroizing::new(text.to_owned())),
            Err(_) => {
                let sentence = "the password is not UTF-8 text; set the terminal to UTF-8";
                Err(Problem::failed(CODE, sentence))
            }
        }
    }
}

fn unreadable(error: impl Into<io::Error>) -> Problem {
    let sentence = format!("the password cannot be read: {}", error.into());
    Problem::failed(CODE, sentence)
}

fn cancelled() -> Problem {
    Problem::new(Exit::Interrupted, CODE, "no password was given")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(bytes: &[u8]) -> Result<String, Exit> {
        let line = typed_line(&mut &*bytes);
        line.map(|line| (*line).clone())
            .map_err(|problem| problem.exit)
    }

    #[test]
    fn typed_line_is_corrected_with_the_usual_keys() {
        assert_eq!(typed(b"horse\n"), Ok("horse".to_owned()));
        assert_eq!(typed(b"hot\x7frse\n"), Ok("horse".to_owned()));
        assert_eq!(
            typed("h\u{e4}\u{1f600}\x7f\x08orse\n".as_bytes()),
            Ok("horse".to_owned())
        );
        assert_eq!(typed(b"\x7f\x08horse\n"), Ok("horse".to_owned()));
        assert_eq!(typed(b"wrong\x15horse\n"), Ok("horse".to_owned()));
        assert_eq!(typed(b"ho\x04rse\n"), Ok("horse".to_owned()));
    }

    #[test]
    fn nothing_is_returned_after_ctrl_c_or_the_end_of_the_terminal() {
        for bytes in [&b"horse\x03"[..], b"\x04", b"horse", b""] {
            assert_eq!(typed(bytes), Err(Exit::Interrupted), "{bytes:?}");
        }
    }

    #[test]
    fn first_line_of_a_pipe_is_the_password() {
        for input in ["horse\n", "horse", "horse\r\nbattery\n", "horse\nbattery"] {
            let line = plain_line(&mut input.as_bytes()).unwrap();
            assert_eq!(*line, "horse", "{input:?}");
        }
        assert!(plain_line(&mut &b""[..]).is_err());
        assert!(plain_line(&mut &b"\xff\n"[..]).is_err());
        assert!(plain_line(&mut "a".repeat(LINE_BYTES_MAX).as_bytes()).is_ok());
        assert!(plain_line(&mut "a".repeat(LINE_BYTES_MAX + 1).as_bytes()).is_err());
    }
}
