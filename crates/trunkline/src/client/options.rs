//! The engine to connect to, and the identity that the client presents.

use std::time::Duration;

use trunkline_net::{Dialler, SPIN_DEFAULT, StartError};
use trunkline_proto::ThroughputMode;
use trunkline_types::Url;
use trunkline_types::url::{UrlError, Via};

use trunkline_net::near;

/// Settings of a client's connection.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// Host and port of the engine, or its Unix socket; a variable name in the URL is ignored. For
    /// a port of this machine, the client uses the engine's Unix socket if there is one, unless the
    /// URL says `tl+tcp://`.
    pub url: Url,
    /// Name of the program, shown to operators of the engine.
    pub program: String,
    /// Name of the user for whom the program acts, shown to operators of the engine.
    pub user: String,
    /// Fails waiting calls as soon as an attempt to connect has failed, instead of letting them
    /// wait for a connection until their timeout.
    pub fail_fast: bool,
    /// Throughput mode: both ends gather data up to a size or an age before they send it, if the
    /// engine also supports this mode. `None`: both ends send everything at once.
    pub throughput_mode: Option<ThroughputMode>,
    /// Longest time that a thread waiting for an answer spins before it sleeps. Spinning avoids the
    /// wake-up delay but costs processor time; the client stops spinning where it does not pay.
    /// Zero: threads sleep at once.
    pub spin: Duration,
}

impl ConnectOptions {
    /// Returns the default options for the engine that `url` names; a bare name means this machine.
    ///
    /// # Errors
    /// [`ConnectError::Url`] if `url` is not a URL.
    pub fn new(url: &str) -> Result<Self, ConnectError> {
        let url = Url::parse(url).map_err(ConnectError::Url)?;
        let program = std::env::args().next().unwrap_or_default();
        let program = program.rsplit('/').next().unwrap_or_default().to_owned();
        Ok(Self {
            url,
            program,
            user: String::new(),
            fail_fast: false,
            throughput_mode: None,
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

/// The reason why a client could not begin to connect.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// A thread could not be started.
    #[error("cannot start a thread ({0}); the system's thread limit has been reached")]
    Thread(std::io::Error),
    /// The text is not a valid URL.
    #[error("{0}")]
    Url(UrlError),
    /// The system has no descriptor or thread left.
    #[error("{0}")]
    Start(#[from] StartError),
}
