//! Options of a client's connection: the engine, and the identity that the client reports.

use std::time::Duration;

use trunkline_net::{Dialler, SPIN_DEFAULT, StartError};
use trunkline_proto::ThroughputMode;
use trunkline_types::Url;
use trunkline_types::url::{Transport, UrlError};

use trunkline_net::near;

use crate::contexts::{ClientSecurity, ContextError, Contexts};

/// Settings of a client's connection.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// Host and port of the engine, or its Unix socket. A variable name in the URL is ignored. For
    /// a port of this machine, the client uses the engine's Unix socket if there is one. Without encryption, it
    /// refuses a port at which a program of another user listens, other than root and the user of the service
    /// `trunkline`. With `tl+tcp://`, it uses the port itself and does not check who
    /// listens there.
    pub url: Url,
    /// Name of the program, as operators of the engine see it.
    pub program: String,
    /// Name of the user for whom the program acts, as operators of the engine see it.
    pub user: String,
    /// Encryption and identity, for engines on other machines. With `None`, connections are not
    /// encrypted, and the engine knows the client only by the user id that the system reports.
    /// [`Session::is_exposed`](crate::Session::is_exposed) reports a connection to another machine without
    /// encryption.
    pub security: Option<ClientSecurity>,
    /// If true, waiting calls fail as soon as an attempt to connect has failed. If false, they wait
    /// for a connection until their timeout.
    pub fail_fast: bool,
    /// Settings of throughput mode, in which both ends gather data up to a size or an age before
    /// they send it, if the engine supports this mode. With `None`, both ends send everything at
    /// once.
    pub throughput_mode: Option<ThroughputMode>,
    /// Longest time that a thread spins while it waits for an answer, before it sleeps. Spinning
    /// avoids the delay of a wake-up but costs processor time. The client stops spinning when this
    /// brings no benefit. With zero, threads sleep at once.
    pub spin: Duration,
}

impl ConnectOptions {
    /// Returns the default options for the engine that `url` names. A bare name means
    /// the engine on this machine. If the user has [joined](crate::contexts) the engine, the
    /// connection is encrypted and uses the user's key.
    ///
    /// # Errors
    /// [`ConnectError::Url`] if `url` is not valid; [`ConnectError::Context`] if the key of the user
    /// cannot be used.
    pub fn new(url: &str) -> Result<Self, ConnectError> {
        let url = Url::parse(url).map_err(ConnectError::Url)?;
        let mut options = Self::to(&url);
        if let Ok(contexts) = Contexts::of_user()
            && let Some(context) = contexts.for_url(&url)?
        {
            options.security = Some(ClientSecurity::of(&context)?);
        }
        Ok(options)
    }

    /// Returns the default options for the engine at `url`, without a context of the user.
    pub fn to(url: &Url) -> Self {
        let program = std::env::args().next().unwrap_or_default();
        let program = program.rsplit('/').next().unwrap_or_default().to_owned();
        Self {
            url: url.clone(),
            program,
            user: String::new(),
            security: None,
            fail_fast: false,
            throughput_mode: None,
            spin: SPIN_DEFAULT,
        }
    }

    pub(crate) fn dialler(&self) -> Dialler {
        let security = self.security.as_ref();
        if matches!(self.url.via, Transport::Best | Transport::Tcp)
            && let Some(dialler) = security.and_then(|security| security.dialler(&self.url))
        {
            return dialler;
        }
        let host = self.url.host.as_deref().unwrap_or("localhost");
        let port = self.url.port_or_default();
        match &self.url.via {
            Transport::Best => near::dialler(None, host, port).for_engine(),
            Transport::Tcp => Dialler::tcp(host, port),
            Transport::Unix(path) => Dialler::Unix(path.clone()),
            Transport::Shared(path) => Dialler::Shared(path.clone()),
        }
    }
}

/// The reason why a client could not start to connect.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The system cannot start another thread.
    #[error("cannot start a thread ({0}); raise the system's limit on threads")]
    Thread(std::io::Error),
    /// The text is not a valid URL.
    #[error("{0}")]
    Url(UrlError),
    /// The context of the engine cannot be used.
    #[error("{0}")]
    Context(#[from] ContextError),
    /// The system cannot provide another descriptor or thread.
    #[error("{0}")]
    Start(#[from] StartError),
}
