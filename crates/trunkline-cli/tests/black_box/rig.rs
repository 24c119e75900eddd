//! Processes of the binary: run to their end, or kept running and read line by line.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, pidfd_open};

use tempfile::TempDir;

/// Long enough for any machine; only a test that hangs ever waits for it.
pub const CUT_OFF: Duration = Duration::from_secs(60);

/// The variables that most tests use.
pub const RIG: &str = r#"
[library]
name = "rig"
description = "Test rig"

[[variable]]
name = "level"
type = "f64"
units = "%"
precision = 1
range = [0, 100]
initial = 72.4
description = "Tank level"

[[variable]]
name = "setpoint"
type = "f64"
units = "%"
precision = 1
range = [0, 100]
initial = 70.0

[[variable]]
name = "mode"
type = "enum(OFF, AUTO, HAND)"
initial = "AUTO"

[[variable]]
name = "clamped"
type = "f64"
range = [0, 10]
coerce = true

[[variable]]
name = "coarse"
type = "f64"
range = [0, 100]
deadband = { user = 5 }
initial = 50.0

[[variable]]
name = "sealed"
type = "u8"
access = "read-only"
initial = 7

[[variable]]
name = "order"
type = "string"
access = "write-only"

[[variable]]
name = "empty"
type = "i32"

[[variable]]
name = "pump/on"
type = "bool"
initial = true

[[variable]]
name = "pump/starts"
type = "u64"
initial = "18446744073709551615"

[[variable]]
name = "Storage Line Control"
type = "string"
initial = "open"

[[variable]]
name = "curve"
type = "array(f64, *)"
"#;

/// The result of a process.
#[derive(Debug)]
pub struct Output {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// The binary with these arguments, in an environment with long timeouts, because the machine may
/// be busy, and without access to the user's own files.
pub fn command(arguments: &[&str]) -> Command {
    // Nothing else is kept there, so that the engines may make their folder of sockets.
    let runtime = concat!(env!("CARGO_TARGET_TMPDIR"), "/run");
    std::fs::create_dir_all(runtime).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_trunkline"));
    command
        .args(arguments)
        .env_remove("TRUNKLINE_URL")
        .env_remove("TRUNKLINE_ACCOUNT")
        .env_remove("TRUNKLINE_PASSWORD_FILE")
        .env("TRUNKLINE_TIMEOUT", "60s")
        .env(
            "XDG_CONFIG_HOME",
            concat!(env!("CARGO_TARGET_TMPDIR"), "/config"),
        )
        .env(
            "XDG_STATE_HOME",
            concat!(env!("CARGO_TARGET_TMPDIR"), "/state"),
        )
        .env("XDG_RUNTIME_DIR", runtime)
        .env("TZ", "UTC");
    command
}

/// Runs the binary to its end.
pub fn run(arguments: &[&str]) -> Output {
    finish(&mut command(arguments), "")
}

/// Runs a command to its end, with this on its standard input.
pub fn finish(command: &mut Command, input: &str) -> Output {
    let mut drained = Drained::start(command, Stdio::piped());
    let (mut pipe, input) = (drained.input(), input.to_owned());
    // In a separate thread: a process that does not read its input closes it, or fails `end`.
    std::thread::spawn(move || pipe.write_all(input.as_bytes()));
    drained.end()
}

/// Waits until a process ends, and returns its exit code.
///
/// # Panics
///
/// Panics if it is still running after [`CUT_OFF`]; `what` names the process.
pub fn exit_code(child: &mut Child, what: &str) -> Option<i32> {
    exit_code_within(child, what, CUT_OFF)
}

/// Like [`exit_code`], with another limit, for a process whose work takes longer.
pub fn exit_code_within(child: &mut Child, what: &str, limit: Duration) -> Option<i32> {
    // A test that has waited for its end has reaped it, and its process id is free.
    if let Some(status) = child.try_wait().unwrap() {
        return status.code();
    }
    let process = rustix::process::Pid::from_child(child);
    // It is not reaped before `wait`, so the number is still its own.
    let process = pidfd_open(process, PidfdFlags::empty()).unwrap();
    let mut ended = [PollFd::new(&process, PollFlags::IN)];
    let within = Timespec::try_from(limit).unwrap();
    let count = rustix::io::retry_on_intr(|| poll(&mut ended, Some(&within))).unwrap();
    assert_eq!(count, 1, "{what} is still running after {limit:?}");
    child.wait().unwrap().code()
}

/// A process whose standard output and standard error are both read from its start to its end, so
/// that neither pipe ever fills and stops it.
pub struct Drained {
    child: Child,
    out: Receiver<Vec<u8>>,
    err: Receiver<Vec<u8>>,
}

/// Time limit of a process that is drained: long enough for any machine.
const DRAINED_WITHIN: Duration = Duration::from_secs(300);

impl Drained {
    /// Starts a process with this as its standard input.
    pub fn start(command: &mut Command, input: Stdio) -> Self {
        Self::start_writing(command, input, Stdio::piped())
    }

    /// Like [`start`](Self::start), with its standard output elsewhere: none of it is read here.
    pub fn start_writing(command: &mut Command, input: Stdio, output: Stdio) -> Self {
        let mut child = command
            .stdin(input)
            .stdout(output)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            out: read_all(child.stdout.take()),
            err: read_all(child.stderr.take()),
            child,
        }
    }

    /// Its standard input, which ends when this is dropped.
    pub fn input(&mut self) -> ChildStdin {
        self.child.stdin.take().unwrap()
    }

    /// Waits until it ends: its code, and all that it wrote, where text is expected.
    pub fn end(self) -> Output {
        let (code, out, err) = self.end_raw();
        let out = String::from_utf8(out).unwrap();
        Output { code, out, err }
    }

    /// Like [`end`](Self::end), with any bytes on standard output.
    pub fn end_raw(mut self) -> (Option<i32>, Vec<u8>, String) {
        // Its standard error ends with it.
        let Ok(err) = self.err.recv_timeout(DRAINED_WITHIN) else {
            panic!("process {} does not end", self.child.id());
        };
        let Ok(out) = self.out.recv_timeout(DRAINED_WITHIN) else {
            panic!("the output of process {} does not end", self.child.id());
        };
        let code = exit_code(&mut self.child, "a process that closed its output");
        (code, out, String::from_utf8(err).unwrap())
    }
}

impl Drop for Drained {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads it to its end in a thread, which sends all of it at once.
fn read_all(stream: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            stream.read_to_end(&mut bytes).unwrap();
        }
        // A failed test no longer receives.
        let _ = sender.send(bytes);
    });
    receiver
}

/// A process that is still running; ended with the test.
pub struct Running {
    pub child: Child,
    lines: Receiver<String>,
    errors: Receiver<String>,
}

impl Running {
    /// Starts the binary.
    pub fn start(arguments: &[&str]) -> Self {
        Self::spawn(&mut command(arguments))
    }

    pub fn spawn(command: &mut Command) -> Self {
        Self::spawn_reading(command, Stdio::null())
    }

    /// Like [`spawn`](Self::spawn), with this as its standard input.
    pub fn spawn_reading(command: &mut Command, input: Stdio) -> Self {
        let mut child = command
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = read_lines(child.stdout.take().unwrap());
        let errors = read_lines(child.stderr.take().unwrap());
        Self {
            child,
            lines,
            errors,
        }
    }

    /// The next line of standard output.
    pub fn line(&self) -> String {
        match self.lines.recv_timeout(CUT_OFF) {
            Ok(line) => line,
            Err(_) => {
                let errors: Vec<String> = self.errors.try_iter().collect();
                panic!("there is no further line of output; errors: {errors:#?}")
            }
        }
    }

    /// The next line of standard output, if one has arrived.
    #[allow(dead_code, reason = "the rig of faults uses it")]
    pub fn try_line(&self) -> Option<String> {
        self.lines.try_recv().ok()
    }

    /// The next line of standard output that contains `part`.
    pub fn line_with(&self, part: &str) -> String {
        loop {
            let line = self.line();
            if line.contains(part) {
                return line;
            }
        }
    }

    /// The next line of standard error that contains `part`.
    pub fn error_with(&self, part: &str) -> String {
        loop {
            let line = self
                .errors
                .recv_timeout(CUT_OFF)
                .expect("there is no such line of errors");
            if line.contains(part) {
                return line;
            }
        }
    }

    /// The unread lines of standard error.
    pub fn errors(&self) -> Vec<String> {
        self.errors.try_iter().collect()
    }

    /// Sends it a signal, such as `INT`.
    pub fn signal(&self, signal: &str) {
        let sent = Command::new("kill")
            .args([&format!("-{signal}"), &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(sent.success());
    }

    /// Waits until it ends by itself. Returns its code and its unread output.
    pub fn end(self) -> (Option<i32>, Vec<String>) {
        self.end_within(CUT_OFF)
    }

    /// Like [`end`](Self::end), with another limit, for a process whose work takes longer.
    pub fn end_within(mut self, limit: Duration) -> (Option<i32>, Vec<String>) {
        let code = exit_code_within(&mut self.child, "the process", limit);
        (code, self.lines.iter().collect())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// An engine that serves a configuration on its own port.
pub struct Served {
    pub engine: Running,
    pub url: String,
    pub folder: TempDir,
}

impl Served {
    /// Serves this file.
    pub fn start(config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("plant.toml"), config).unwrap();
        let (engine, url) = serve(&folder.path().join("plant.toml"), "127.0.0.1:0");
        Self {
            engine,
            url,
            folder,
        }
    }

    /// Serves [`RIG`].
    pub fn rig() -> Self {
        Self::start(RIG)
    }

    /// Runs a command against it, to its end.
    pub fn run(&self, arguments: &[&str]) -> Output {
        finish(&mut self.command(arguments), "")
    }

    /// Like [`run`](Self::run), with this on its standard input.
    pub fn run_with_input(&self, arguments: &[&str], input: &str) -> Output {
        finish(&mut self.command(arguments), input)
    }

    /// Starts a command against it, and leaves it running.
    pub fn spawn(&self, arguments: &[&str]) -> Running {
        Running::spawn(&mut self.command(arguments))
    }

    /// A command against it.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(arguments);
        command.env("TRUNKLINE_URL", &self.url);
        command
    }

    /// A file in its folder.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Stops it in order, and serves the same file again at the same place.
    pub fn restart(&mut self) {
        let address = self.url.strip_prefix("tl://").unwrap().to_owned();
        self.engine.signal("TERM");
        assert_eq!(exit_code(&mut self.engine.child, "the engine"), Some(0));
        let path: PathBuf = self.folder.path().join("plant.toml");
        (self.engine, self.url) = serve(&path, &address);
    }
}

/// An engine that serves this file, or all files of this folder, at this address; and its URL.
pub fn serve(config: &Path, listen: &str) -> (Running, String) {
    let config = config.to_str().unwrap();
    let arguments = ["serve", config, "--listen", listen, "--store", "none"];
    let running = Running::start(&arguments);
    let line = running.line_with("Listening on tl://");
    let url = line
        .split(' ')
        .find(|word| word.starts_with("tl://"))
        .unwrap()
        .to_owned();
    (running, url)
}

/// The words of a line whose columns are separated by tabs.
pub fn columns(line: &str) -> Vec<&str> {
    line.split('\t').collect()
}
