//! Where to connect to, and as whom.

use std::time::Duration;

use trunkline_net::{Dialler, SPIN_DEFAULT, StartError};
use trunkline_proto::Throughput;
use trunkline_types::Url;
use trunkline_types::url::{UrlError, Via};

use trunkline_net::near;

/// How a client connects.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// Host and port of the engine, or its Unix socket; the name in it is not used. A port of this
    /// machine is reached through the engine's Unix socket where there is one, unless the URL says
    /// `tl+tcp://`.
    pub url: Url,
    /// The program's name, for people who look at the engine.
    pub program: String,
    /// On whose behalf, for people who look at the engine.
    pub user: String,
    /// Gives up waiting calls as soon as an attempt to connect has failed, instead of letting them
    /// wait for a connection until their time is over.
    pub fail_fast: bool,
    /// Throughput mode: what either end sends is gathered until there is much of it or it has
    /// waited long, where the engine has that mode as well. `None`: everything is sent at once.
    pub throughput: Option<Throughput>,
    /// How long a thread that waits for an answer looks for it before it sleeps, at most. Looking
    /// spares the time that waking up takes and costs processor time; it is given up where it does
    /// not pay. Zero: threads sleep at once.
    pub spin: Duration,
}

impl ConnectOptions {
    /// The engine that `url` names; a bare name means this machine.
    ///
    /// # Errors
    /// [`ConnectError::Url`] when it is no URL.
    pub fn new(url: &str) -> Result<Self, ConnectError> {
        let url = Url::parse(url).map_err(ConnectError::Url)?;
        let program = std::env::args().next().unwrap_or_default();
        let program = program.rsplit('/').next().unwrap_or_default().to_owned();
        Ok(Self {
            url,
            program,
            user: String::new(),
            fail_fast: false,
            throughput: None,
            spin: SPIN_DEFAULT,
        })
    }

    pub(crate) fn dialler(&self) -> Dialler {
        let host = self.url.host.as_deref().unwrap_or("localhost");
        let port = self.url.port_or_default();
        match &self.url.via {
            Via::Chosen => near::dialler(None, host, port),
            Via::Tcp => Dialler::tcp(host, port),
            Via::Unix(path) => Dialler::Unix(path.clone()),
            Via::Shared(path) => Dialler::Shared(path.clone()),
        }
    }
}

/// Why a client could not even begin to connect.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// A thread could not be started.
    #[error("a thread could not be started ({0}); the system's limit on threads is reached")]
    Thread(std::io::Error),
    /// Not a URL.
    #[error("{0}")]
    Url(UrlError),
    /// The machine has no descriptor or thread left.
    #[error("{0}")]
    Start(#[from] StartError),
}
