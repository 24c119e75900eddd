//! Streams over TLS, as between two machines. An engine with accounts introduces the two ends, which
//! then encrypt from end to end.

use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;
use trunkline::proto::Pair;
use trunkline::stream::{EngineSecurity, Options};
use trunkline::types::{SocketPath, Url};
use trunkline::{Client, ClientSecurity, Contexts, Engine, EngineOptions};
use trunkline_identity::authority::EngineSubject;
use trunkline_identity::folder::SecurityFolder;
use trunkline_net::Clock;

use crate::Outcome;
use crate::hosting::free_port;
use crate::settings::Settings;

/// Maximum time for each step of the introduction.
const PATIENCE: Duration = Duration::from_secs(20);

/// The engine, and the identity of an account that has joined it.
pub(super) struct Introduction {
    engine: Engine,
    security: EngineSecurity,
    folder: TempDir,
}

impl Introduction {
    pub(super) fn start() -> Outcome<Self> {
        let folder = tempfile::tempdir()?;
        let security = folder.path().join("security");
        let subject = EngineSubject {
            name: "bench".to_owned(),
            host_names: Vec::new(),
        };
        let (_, wall) = Clock::new().moment();
        SecurityFolder::create(&security, &subject, wall)?;
        let engine = Engine::start(EngineOptions {
            listen: vec![free_port().into()],
            security: Some(security),
            ..EngineOptions::default()
        })?;
        let owner = Client::connect(&format!("tl+unix://{}", socket(&engine)?))?;
        let pair = Pair {
            account: "bench".to_owned(),
            role: "engineer".to_owned(),
            groups: Vec::new(),
        };
        let token = owner.pair(&pair, PATIENCE)?.token;
        let contexts = Contexts::in_folder(folder.path().join("contexts"));
        let url = Url::parse(&format!("tl+tcp://127.0.0.1:{}", port(&engine)?))?;
        let context = contexts.join("bench", &url, &token, PATIENCE)?;
        let security = ClientSecurity::of(&context)?
            .for_streams()
            .ok_or("the context of an engine with accounts has no identity")?;
        Ok(Self {
            engine,
            security,
            folder,
        })
    }

    /// Returns the settings with which the reader registers at the engine, on whose machine it runs.
    pub(super) fn reader(&self, settings: Settings) -> Outcome<Settings> {
        let socket = socket(&self.engine)?;
        let folder = socket
            .as_path()
            .parent()
            .ok_or("a socket without a folder")?;
        Ok(settings
            .with("engine_port", port(&self.engine)?)
            .with("engine_sockets", folder.display()))
    }

    /// Changes the options of the writer so that it dials the reader through the engine, as from
    /// another machine.
    pub(super) fn writer(&self, reader: &str, options: &mut Options) -> Outcome<()> {
        options.peer = Some(format!("tl://127.0.0.1:{}/{reader}", port(&self.engine)?));
        // No engine of its own.
        options.sockets = Some(self.folder.path().join("nothing"));
        options.security = Some(self.security.clone());
        Ok(())
    }
}

/// Applies the settings of [`Introduction::reader`]. Returns false if there are none.
pub(super) fn is_introduced(settings: &Settings, options: &mut Options) -> Outcome<bool> {
    let port: u16 = settings.value_or("engine_port", 0)?;
    if port == 0 {
        return Ok(false);
    }
    options.directory_port = port;
    options.sockets = Some(settings.value::<PathBuf>("engine_sockets")?);
    Ok(true)
}

fn socket(engine: &Engine) -> Outcome<SocketPath> {
    let sockets = engine.local_sockets();
    Ok(sockets
        .into_iter()
        .next()
        .ok_or("the engine has no socket")?)
}

fn port(engine: &Engine) -> Outcome<u16> {
    let address = engine.local_addrs().first().copied();
    Ok(address.ok_or("the engine has no address")?.port())
}
