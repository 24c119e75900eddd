//! An engine with plain variables for the scenarios.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use trunkline::types::{DataType, LibraryDefinition, SocketPath};
use trunkline::{Client, ConnectOptions, Engine, EngineOptions};

use crate::Outcome;
use crate::role::{say, wait_for_end};
use crate::settings::Settings;

pub use trunkline_counted::plant::{LIBRARY, library, name, names};

pub fn free_port() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

/// How the two ends of a scenario wait, and their transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manner {
    /// Time for which both ends spin before they sleep.
    pub spin: Duration,
    /// Shared memory instead of TCP.
    pub shared_memory: bool,
}

impl Manner {
    /// TCP without spinning: compared with programs that sleep in the system.
    pub const SLEEPING: Self = Self {
        spin: Duration::ZERO,
        shared_memory: false,
    };

    fn read(settings: &Settings) -> Outcome<Self> {
        Ok(Self {
            spin: Duration::from_micros(settings.value_or("spin_us", 0)?),
            shared_memory: settings.value_or("shm", false)?,
        })
    }

    /// Returns these as settings of the far end.
    pub fn settings(self, settings: Settings) -> Settings {
        settings
            .with("spin_us", self.spin.as_micros())
            .with("shm", self.shared_memory)
    }

    /// Returns a client that waits like this.
    pub fn client(self, url: &str) -> Outcome<Client> {
        let mut options = ConnectOptions::new(url)?;
        options.spin = self.spin;
        Ok(Client::connect_with(&options)?)
    }
}

/// Returns an engine that listens on a free port of this machine.
pub fn start(library: &LibraryDefinition) -> Outcome<Engine> {
    let options = EngineOptions {
        listen: vec![free_port().into()],
        ..EngineOptions::default()
    };
    let engine = Engine::start(options)?;
    engine.deploy(library)?;
    Ok(engine)
}

pub fn url(address: SocketAddr) -> String {
    // TCP, even if an engine on this machine offers something faster.
    format!("tl+tcp://{address}")
}

/// The far end of W1 and W2: an engine with variables, until the near end stops it.
pub fn serve(settings: &Settings) -> Outcome<()> {
    let data_type = match settings.value::<String>("type")?.as_str() {
        "i32" => DataType::I32,
        "f32" => DataType::F32,
        "f64" => DataType::F64,
        "string16" => DataType::String,
        other => return Err(format!("no scenario has variables of type {other}").into()),
    };
    let manner = Manner::read(settings)?;
    let socket = std::env::temp_dir().join(format!("trunkline-bench-{}.sock", std::process::id()));
    let socket = SocketPath::parse(&socket.to_string_lossy())?;
    let options = EngineOptions {
        listen: vec![match manner.shared_memory {
            true => socket.clone().into(),
            false => free_port().into(),
        }],
        spin: manner.spin,
        ..EngineOptions::default()
    };
    let engine = Engine::start(options)?;
    engine.deploy(&library(settings.value("n")?, data_type, Duration::ZERO))?;
    let url = match engine.local_addrs().first() {
        Some(address) => url(*address),
        None => format!("tl+shm://{socket}"),
    };
    say(&format!("LISTENING {url}"));
    wait_for_end();
    engine.shutdown(Duration::ZERO);
    Ok(())
}
