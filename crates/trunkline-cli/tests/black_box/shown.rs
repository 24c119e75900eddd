//! Processes on a terminal, as people have them.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{tcgetwinsize, tcsetwinsize};

use crate::rig::{CUT_OFF, exit_code};

/// Lines that are waited for; there are two in a second.
const LINES_MAX: usize = 120;

/// A process, and the output that its terminal shows.
#[derive(Debug)]
pub struct Shown {
    pub child: Child,
    lines: Receiver<String>,
}

impl Shown {
    /// Standard error is the terminal, and standard output is discarded.
    pub fn spawn(command: &mut Command) -> Self {
        Self::on_terminal(command, 0, false)
    }

    /// Standard output is the terminal as well, as in interactive use, with this number of columns;
    /// 0: unknown.
    pub fn spawn_all(command: &mut Command, columns: u16) -> Self {
        Self::on_terminal(command, columns, true)
    }

    fn on_terminal(command: &mut Command, columns: u16, has_output: bool) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let mut options = OpenOptions::new();
        let slave = options.read(true).write(true).open(name.to_str().unwrap());
        let slave = slave.unwrap();
        let mut size = tcgetwinsize(&slave).unwrap();
        size.ws_col = columns;
        tcsetwinsize(&slave, size).unwrap();
        let out = match has_output {
            true => slave.try_clone().unwrap().into(),
            false => Stdio::null(),
        };
        // Independent of the terminal that runs the test, unless the test sets it.
        if !command.get_envs().any(|(name, _)| name == "TERM") {
            command.env("TERM", "xterm");
        }
        let child = command
            .env_remove("NO_COLOR")
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(slave)
            .spawn()
            .unwrap();
        // The other end, so that it is closed when the process has ended.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let (sender, lines) = channel();
        std::thread::spawn(move || read(File::from(master), &sender));
        Self { child, lines }
    }

    /// Waits for a line that has this, behind those that were waited for before.
    pub fn until(&self, part: &str) -> String {
        let mut seen = Vec::new();
        while seen.len() < LINES_MAX {
            match self.lines.recv_timeout(CUT_OFF) {
                Ok(line) if line.contains(part) => return line,
                Ok(line) => seen.push(line),
                Err(_) => break,
            }
        }
        panic!("it does not show {part:?}, but {seen:#?}");
    }

    pub fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill")
            .args([&format!("-{signal}"), &pid])
            .status();
        assert!(sent.unwrap().success());
    }

    /// All that is shown that was not waited for, until the process ends; and with which code.
    pub fn rest(mut self) -> (Option<i32>, Vec<String>) {
        let code = exit_code(&mut self.child, "the process on a terminal");
        (code, self.lines.iter().collect())
    }

    pub fn end(mut self) -> Option<i32> {
        exit_code(&mut self.child, "the process on a terminal")
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads the terminal output, line by renewed line, until no process writes to it.
fn read(mut master: File, sender: &Sender<String>) {
    let (mut rest, mut bytes) = (Vec::new(), [0; 1024]);
    while let Ok(count @ 1..) = master.read(&mut bytes) {
        rest.extend_from_slice(&bytes[..count]);
        while let Some(end) = rest.iter().position(|byte| *byte == b'\r') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            let _ = sender.send(String::from_utf8_lossy(&line).into_owned());
        }
    }
    let _ = sender.send(String::from_utf8_lossy(&rest).into_owned());
}
