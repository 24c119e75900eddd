//! The far end of a scenario: another process of this program.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::settings::Settings;

/// Longer than any role may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// Longest time that a role may take to end by itself.
const END_MAX: Duration = Duration::from_secs(3);

/// A running role. Dropping it ends the role.
#[derive(Debug)]
pub struct Role {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Role {
    /// Starts a role of this program.
    pub fn start(name: &str, settings: &Settings) -> Outcome<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["role", name])
            .args(settings.arguments())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or("a role without an output")?;
        let (sender, lines) = channel();
        thread::spawn(move || forward(BufReader::new(output), &sender));
        Ok(Self {
            name: name.to_owned(),
            child,
            input,
            lines,
        })
    }

    /// Kills the process, and waits until it has ended.
    pub fn kill(&mut self) -> Outcome<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line that begins with `word`. Returns the rest of the line.
    pub fn expect(&mut self, word: &str) -> Outcome<String> {
        let deadline = Instant::now() + ANSWER_MAX;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    if let Some(rest) = line.strip_prefix(word) {
                        return Ok(rest.trim().to_owned());
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!("role {} did not say {word} in time", self.name).into());
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(format!("role {} ended before it said {word}", self.name).into());
                }
            }
        }
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        self.input = None;
        let deadline = Instant::now() + END_MAX;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(2));
        }
        // Fails only if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn forward(output: impl BufRead, sender: &Sender<String>) {
    for line in output.lines().map_while(Result::ok) {
        if sender.send(line).is_err() {
            return;
        }
    }
}

/// Sends a line to the process that started this role.
pub fn say(line: &str) {
    let mut output = std::io::stdout().lock();
    // Fails only if that process has ended; then this role ends too.
    let _ = writeln!(output, "{line}");
    let _ = output.flush();
}

/// Waits until the process that started this role closes its input.
pub fn wait_for_end() {
    for line in std::io::stdin().lock().lines() {
        if line.is_err() {
            return;
        }
    }
}

/// Ends this process as soon as the one that started it closes its input.
pub fn end_with_parent() {
    thread::spawn(|| {
        wait_for_end();
        std::process::exit(0);
    });
}
