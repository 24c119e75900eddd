//! Processes that are started to be killed.
#![allow(dead_code, reason = "each test program uses its own part")]

use std::process::{Child, Command, Stdio};

use trunkline_types::SocketPath;

/// The socket that a victim connects to, or listens on.
const SOCKET: &str = "TRUNKLINE_VICTIM_SOCKET";

/// This program again, running one of its entry points for victims. Those are ignored tests, so
/// that they do not count as tests that passed.
pub struct Victim(Child);

impl Victim {
    /// Runs the entry point of this name with the socket that [`socket`] returns in it.
    pub fn start(role: &str, socket: &SocketPath) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", role, "--ignored", "--nocapture"])
            .env(SOCKET, socket.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.expect("a child"))
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    pub fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// In a victim: the socket to connect to, or to listen on. `None`: all ignored tests are being run.
pub fn socket() -> Option<SocketPath> {
    let text = std::env::var(SOCKET).ok()?;
    Some(SocketPath::parse(&text).unwrap())
}
