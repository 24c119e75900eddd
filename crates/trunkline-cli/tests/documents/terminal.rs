//! The terminals of a reader: one for commands that end, and one for each that keeps running.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{tcgetwinsize, tcsetwinsize};
use tempfile::TempDir;

use crate::output;
use crate::rig::{CUT_OFF, exit_code};

/// Wide enough for every line of a page.
const COLUMNS: u16 = 240;

/// A network of a page's own, in which the ports that pages print are free.
pub struct Network {
    holder: Child,
}

impl Network {
    /// `None` where the machine does not let this user make one.
    pub fn create() -> Option<Self> {
        let script = "ip link set lo up && echo up && exec cat";
        let mut command = Command::new("unshare");
        match rustix::process::geteuid().is_root() {
            true => command.arg("--net"),
            false => command.args(["--net", "--map-root-user"]),
        };
        let spawned = command
            .args(["--", "sh", "-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut holder = spawned.ok()?;
        let mut line = String::new();
        let said = BufReader::new(holder.stdout.take()?).read_line(&mut line);
        let network = Self { holder };
        (said.is_ok() && line == "up\n").then_some(network)
    }

    /// A shell in it.
    fn shell(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.holder.id().to_string(), "--net"]);
        if !rustix::process::geteuid().is_root() {
            command.args(["--user", "--preserve-credentials"]);
        }
        command.args(["--", "bash", "-c"]);
        command
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// The output of a command, and its exit status.
#[derive(Debug)]
pub struct Ended {
    pub output: String,
    /// `None` if a signal ended it.
    pub exit: Option<i32>,
}

/// A command that keeps running.
struct Running {
    command: String,
    shown: Shown,
}

/// The terminals of a page.
pub struct Terminal<'a> {
    network: &'a Network,
    folder: TempDir,
    running: Vec<Running>,
}

impl<'a> Terminal<'a> {
    /// Terminals in an empty folder, in which the binary has the place that `make demo` gives it.
    pub fn new(network: &'a Network, repository: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("target/release");
        fs::create_dir_all(&bin).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_trunkline"), bin.join("trunkline")).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_tl"), bin.join("tl")).unwrap();
        fs::create_dir(folder.path().join("run")).unwrap();
        let examples = repository.join("examples").canonicalize().unwrap();
        std::os::unix::fs::symlink(examples, folder.path().join("examples")).unwrap();
        Self {
            network,
            folder,
            running: Vec::new(),
        }
    }

    pub fn write_file(&self, name: &str, text: &str, append: bool) {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut options = OpenOptions::new();
        options
            .create(true)
            .append(append)
            .write(true)
            .truncate(!append);
        options
            .open(path)
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
    }

    /// Runs a script to its end; with `interrupt`, until its first line.
    pub fn run(&self, place: &str, script: &str, interrupt: bool) -> Ended {
        let mut command = self.command(script);
        // The pages do not document a busy machine.
        command.env("TRUNKLINE_TIMEOUT", "60s");
        let mut shown = Shown::spawn(command);
        let mut output = String::new();
        loop {
            match shown.lines.recv_timeout(CUT_OFF) {
                Ok(line) => {
                    output.push_str(&line);
                    if interrupt && output.trim() == line.trim() && !line.trim().is_empty() {
                        shown.signal("INT");
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    panic!("{place}: `{script}` does not end; so far it has printed\n{output}")
                }
            }
        }
        let exit = exit_code(&mut shown.child, script);
        Ended { output, exit }
    }

    /// Starts a command that keeps running, and waits until it prints `until`.
    pub fn start(&mut self, place: &str, script: &str, until: Option<&str>) {
        let shown = Shown::spawn(self.command(script));
        if let Some(until) = until {
            shown.wait_for(place, script, |line| line.contains(until));
        }
        let command = script.to_owned();
        self.running.push(Running { command, shown });
    }

    /// Kills the running command with this part.
    pub fn kill(&mut self, place: &str, part: &str) {
        let found = self
            .running
            .iter()
            .position(|running| running.command.contains(part));
        let at = found.unwrap_or_else(|| panic!("{place}: no `{part}` is running"));
        drop(self.running.remove(at));
    }

    /// Waits until the running command with this part has printed these lines, in any order.
    pub fn wait_for_lines(&self, place: &str, part: &str, lines: &[String]) {
        let mut running = self.running.iter();
        let found = running.find(|running| running.command.contains(part));
        let running = found.unwrap_or_else(|| panic!("{place}: no `{part}` is running"));
        let mut missing: Vec<&String> = lines.iter().filter(|line| line.trim() != "...").collect();
        running.shown.wait_for(place, &running.command, |printed| {
            missing.retain(|line| !output::is_line(line, printed));
            missing.is_empty()
        });
    }

    fn command(&self, script: &str) -> Command {
        let folder = self.folder.path();
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = self.network.shell();
        command
            .arg(script)
            .current_dir(folder)
            .env(
                "PATH",
                format!("{}:{path}", folder.join("target/release").display()),
            )
            .env("HOME", folder)
            .env("USER", "ann")
            .env("XDG_RUNTIME_DIR", folder.join("run"))
            .env("XDG_STATE_HOME", folder.join("state"))
            .env("TZ", "UTC")
            .env("TERM", "xterm")
            .env("NO_COLOR", "1")
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("TRUNKLINE_TIMEOUT")
            .env_remove("TRUNKLINE_ACCOUNT")
            .env_remove("TRUNKLINE_PASSWORD_FILE")
            .env_remove("TRUNKLINE_URL");
        command
    }
}

/// A process on its own terminal.
struct Shown {
    child: Child,
    lines: Receiver<String>,
}

impl Shown {
    fn spawn(mut command: Command) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = OpenOptions::new()
            .read(true)
            .write(true)
            .open(name.to_str().unwrap());
        let slave = slave.unwrap();
        let mut size = tcgetwinsize(&slave).unwrap();
        size.ws_col = COLUMNS;
        tcsetwinsize(&slave, size).unwrap();
        // A separate process group, so that a signal reaches the children of a script, as Ctrl-C
        // does.
        let child = std::os::unix::process::CommandExt::process_group(&mut command, 0)
            .stdin(Stdio::null())
            .stdout(slave.try_clone().unwrap())
            .stderr(slave)
            .spawn()
            .unwrap();
        drop(command);
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let mut master = File::from(master);
            let (mut rest, mut bytes) = (Vec::new(), [0; 4096]);
            while let Ok(count @ 1..) = master.read(&mut bytes) {
                rest.extend_from_slice(&bytes[..count]);
                while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = rest.drain(..=end).collect();
                    let _ = sender.send(String::from_utf8_lossy(&line).into_owned());
                }
            }
            let _ = sender.send(String::from_utf8_lossy(&rest).into_owned());
        });
        Self { child, lines }
    }

    fn wait_for(&self, place: &str, command: &str, mut is_it: impl FnMut(&str) -> bool) {
        let mut seen = String::new();
        while let Ok(line) = self.lines.recv_timeout(CUT_OFF) {
            if is_it(&line) {
                return;
            }
            seen.push_str(&line);
        }
        panic!("{place}: `{command}` does not print what is waited for, but\n{seen}");
    }

    fn signal(&self, signal: &str) {
        let group = format!("-{}", self.child.id());
        let sent = Command::new("kill")
            .args([&format!("-{signal}"), "--", &group])
            .status();
        assert!(sent.unwrap().success());
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal("KILL");
        }
        let _ = self.child.wait();
    }
}
