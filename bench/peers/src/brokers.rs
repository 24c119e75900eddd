//! Servers between the ends: started for one cell on a free port of this machine, and stopped with
//! it.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use trunkline_bench::Outcome;
use trunkline_bench::placement::{End, pin, unpin};

/// Longest time that a server may take to listen.
const START_MAX: Duration = Duration::from_secs(10);

/// CPUs of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The CPU of the far end, because the server is the far end.
    FarEnd,
    /// Any CPU: the server is a third process between two ends.
    Between,
}

/// A running server.
pub struct Broker {
    child: Child,
    folder: PathBuf,
    port: u16,
}

impl Broker {
    /// Starts the server of a system; `None` if it has none.
    pub fn start(system: &str, place: Place) -> Outcome<Option<Broker>> {
        let port = free_port()?;
        let folder = std::env::temp_dir().join(format!("trunkline-peer-{}", std::process::id()));
        let mut command = match system {
            "redis" => redis(port),
            "mosquitto" => {
                std::fs::create_dir_all(&folder)?;
                let file = folder.join("mosquitto.conf");
                std::fs::write(&file, mosquitto(port))?;
                let mut command = Command::new(found("mosquitto"));
                command.arg("-c").arg(file);
                command
            }
            "nats" => {
                let mut command = Command::new(found("nats-server"));
                command.args(["-a", "127.0.0.1", "-p", &port.to_string()]);
                command
            }
            _ => return Ok(None),
        };
        std::fs::create_dir_all(&folder)?;
        command.current_dir(&folder).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        // A child process inherits the CPUs of the thread that starts it.
        let started = thread::spawn(move || {
            match place {
                Place::FarEnd => drop(pin(End::Far).map_err(|error| error.to_string())?),
                Place::Between => unpin().map_err(|error| error.to_string())?,
            }
            command.spawn().map_err(|error| error.to_string())
        });
        let child = started
            .join()
            .map_err(|_| "the thread of a broker failed")??;
        let broker = Broker {
            child,
            folder,
            port,
        };
        let deadline = Instant::now() + START_MAX;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if Instant::now() > deadline {
                return Err(format!("the server of {system} does not listen").into());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(Some(broker))
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // The server stores nothing, so it can be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Nothing is stored on disk, and no slow subscriber is disconnected.
fn redis(port: u16) -> Command {
    let mut command = Command::new(found("redis-server"));
    command.args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
    command.args(["--save", "", "--appendonly", "no"]);
    command.args(["--client-output-buffer-limit", "pubsub 0 0 0"]);
    command
}

/// Without Nagle's algorithm and without limits that would drop messages.
fn mosquitto(port: u16) -> String {
    format!(
        "listener {port} 127.0.0.1\nallow_anonymous true\nset_tcp_nodelay true\n\
         max_queued_messages 0\nmax_inflight_messages 0\n"
    )
}

/// Servers may be in folders outside the search path.
fn found(program: &str) -> PathBuf {
    let folders = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];
    let paths = folders
        .iter()
        .map(|folder| PathBuf::from(folder).join(program));
    let mut there = paths.filter(|path| path.exists());
    there.next().unwrap_or_else(|| PathBuf::from(program))
}

/// Returns a free port.
pub fn free_port() -> Outcome<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port())
}

/// Returns how the placement of a row names a system's server.
pub fn placement(placement: &str, broker: Option<&Broker>, place: Place) -> String {
    match (broker, place) {
        (None, _) => placement.to_owned(),
        (_, Place::FarEnd) => format!("{placement} (the server is the far end)"),
        (_, Place::Between) => format!("{placement} (the server between them on any CPU)"),
    }
}
