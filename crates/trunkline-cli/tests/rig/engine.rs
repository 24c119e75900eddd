//! An engine in a separate process.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use trunkline::{Client, OpenOptions, VariableRef, Write};
use trunkline_types::{Reading, Value};

use crate::CUT_OFF;
use crate::process::{Running, command};

/// Variables `rig/v0`, `rig/v1` ... of one type, and the content of the engine's section.
pub fn config(variables: usize, data_type: &str, engine: &str) -> String {
    use std::fmt::Write;
    let mut text = format!("[engine]\nlocal_socket = false\n{engine}\n[library]\nname = \"rig\"\n");
    for index in 0..variables {
        let _ = write!(
            text,
            "[[variable]]\nname = \"v{index}\"\ntype = \"{data_type}\"\n"
        );
    }
    text
}

/// Full names of the first of them.
pub fn names(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("rig/v{index}")).collect()
}

/// How an engine is started.
pub struct Launch {
    /// Words before the command, such as `ip netns exec NAME`.
    pub before: Vec<String>,
    pub environment: Vec<(String, String)>,
    /// The first is its own port; `Engine::address` returns it.
    pub listen: Vec<String>,
    pub config: String,
}

pub struct Engine {
    running: Running,
    pub address: SocketAddr,
    launch: Launch,
    folder: TempDir,
}

impl Engine {
    /// On a free port of this machine.
    pub fn start(config: &str) -> Self {
        Self::launch(Launch {
            before: Vec::new(),
            environment: Vec::new(),
            listen: vec!["127.0.0.1:0".to_owned()],
            config: config.to_owned(),
        })
    }

    pub fn launch(launch: Launch) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("rig.toml"), &launch.config).unwrap();
        let (running, address) = serve(&launch, &launch.listen[0], folder.path().join("rig.toml"));
        Self {
            running,
            address,
            launch,
            folder,
        }
    }

    pub fn pid(&self) -> u32 {
        self.running.child.id()
    }

    pub fn signal(&self, signal: &str) {
        self.running.signal(signal);
    }

    /// The process ends at an arbitrary instruction.
    pub fn kill(&mut self) {
        self.running.child.kill().unwrap();
        self.running.child.wait().unwrap();
    }

    /// The same engine at the same place, after [`kill`](Self::kill).
    pub fn start_again(&mut self) {
        let config = self.folder.path().join("rig.toml");
        (self.running, self.address) = serve(&self.launch, &self.address.to_string(), config);
    }

    /// Waits until it prints `part` on standard error.
    pub fn says(&self, part: &str) {
        self.running.error_with(part);
    }

    /// A client over TCP.
    pub fn client(&self) -> Client {
        client_at(self.address)
    }

    /// Resident memory in KiB.
    pub fn resident(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = text.lines().find(|line| line.starts_with("VmRSS:"));
        let word = line.and_then(|line| line.split_whitespace().nth(1));
        word.unwrap().parse().unwrap()
    }

    /// Processor time it has used, in steps of 10 ms.
    pub fn processor(&self) -> Duration {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        // Behind the name, which may hold anything.
        let fields: Vec<_> = text.rsplit(") ").next().unwrap().split(' ').collect();
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        Duration::from_millis(ticks * 10)
    }

    /// Changes its limit on descriptors while it runs; false where that cannot be done.
    pub fn limit_descriptors(&self, limit: usize) -> bool {
        let mut prlimit = Command::new("prlimit");
        prlimit.args([
            "--pid",
            &self.pid().to_string(),
            &format!("--nofile={limit}:"),
        ]);
        prlimit.status().is_ok_and(|status| status.success())
    }

    /// Descriptors it has open.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid()))
            .unwrap()
            .count()
    }
}

pub fn client_at(address: SocketAddr) -> Client {
    Client::connect(&format!("tl+tcp://{address}")).unwrap()
}

/// A command with further words before it, such as `ip netns exec NAME`.
pub fn with_words_before(before: &[String], plain: Command) -> Command {
    let Some((first, rest)) = before.split_first() else {
        return plain;
    };
    let mut wrapped = Command::new(first);
    wrapped.args(rest).arg(plain.get_program());
    wrapped.args(plain.get_args());
    for (key, value) in plain.get_envs() {
        match value {
            Some(value) => wrapped.env(key, value),
            None => wrapped.env_remove(key),
        };
    }
    wrapped
}

fn serve(launch: &Launch, listen: &str, config: PathBuf) -> (Running, SocketAddr) {
    let config = config.to_str().unwrap().to_owned();
    let mut arguments = vec!["serve", &config, "--listen", listen, "--store", "none"];
    for further in &launch.listen[1..] {
        arguments.extend(["--listen", further]);
    }
    let is_secure = launch.config.contains("\nsecurity = ");
    if !listen.starts_with("127.") && !is_secure {
        arguments.push("--insecure");
    }
    let mut serve = with_words_before(&launch.before, command(&arguments));
    serve.envs(launch.environment.iter().cloned());
    let running = Running::spawn(&mut serve);
    let line = running.line_with("Listening on tl://");
    let url = line.split(' ').find(|word| word.starts_with("tl://"));
    let address = url.and_then(|url| url.strip_prefix("tl://")).unwrap();
    (running, address.parse().unwrap())
}

/// Opened variables of one connection.
pub struct Handles(pub Vec<VariableRef>);

impl Handles {
    pub fn open(client: &Client, names: &[String]) -> Self {
        let opened = client.open(names, OpenOptions::default(), CUT_OFF).unwrap();
        Self(opened.into_iter().map(|o| o.unwrap().variable).collect())
    }

    /// Writes `value` to each of them, and waits for nothing.
    pub fn write(&self, client: &Client, value: f64) {
        let writes = self.0.iter();
        let writes = writes.map(|variable| Write::new(*variable, Value::F64(value)));
        client
            .write_untracked(writes, Duration::from_secs(60))
            .unwrap();
    }

    /// The current values of the engine.
    pub fn read(&self, client: &Client) -> Vec<Reading> {
        let readings = client.read(&self.0, CUT_OFF).unwrap();
        readings.into_iter().map(Result::unwrap).collect()
    }
}
