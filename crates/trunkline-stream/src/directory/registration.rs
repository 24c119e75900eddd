//! Registers an endpoint's name.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use trunkline_net::{Clock, near, public_key};
use trunkline_proto::message::stream::directory::Register;
use trunkline_proto::stream::LinkOptions;
use trunkline_proto::{FaultCode, VersionRange};
use trunkline_types::{StreamUrl, Tick};

use super::listener::{Listener, own_address};
use super::registry::{self, NameState, Registry};
use super::{Arrivals, DirectoryHost};
use crate::error::StreamError;
use crate::handle::Environment;
use crate::options::Options;
use crate::wait::Waiter;

/// Time for which a name that is taken is requested again. The engine learns that the previous
/// endpoint is gone only when it reads the end of that endpoint's connection, possibly after this
/// request.
const NAME_GRACE: Duration = Duration::from_millis(500);

/// Keeps an endpoint's name registered.
pub(crate) enum Registration {
    /// The name is registered with a directory of this process. If there is a listener, the directory
    /// is reached over the listener's port.
    Here {
        host: Arc<DirectoryHost>,
        number: u64,
        _listener: Option<Listener>,
    },
    /// The name is registered with the engine of this machine.
    Engine(Arc<Registry>),
}

impl Drop for Registration {
    fn drop(&mut self) {
        match self {
            Self::Here { host, number, .. } => host.forget(*number),
            Self::Engine(registry) => registry.close(Tick::ZERO),
        }
    }
}

impl Registration {
    /// Registers `url` with a directory of this process.
    pub(crate) fn here(
        host: Arc<DirectoryHost>,
        listener: Option<Listener>,
        url: &StreamUrl,
        link: &LinkOptions,
        arrivals: Arc<dyn Arrivals>,
    ) -> Result<Self, StreamError> {
        let number = host
            .register_here(url, link.incarnation, &link.program, arrivals)
            .map_err(|fault| StreamError::Refused {
                code: fault.code,
                sentence: fault.sentence,
            })?;
        Ok(Self::Here {
            host,
            number,
            _listener: listener,
        })
    }
}

/// Registers `url` with a directory on the URL's port, or with the engine of this machine if the URL
/// has no port. Returns `None` if the path of the engine's socket cannot be determined.
pub(crate) async fn register(
    waiter: &impl Waiter,
    url: &StreamUrl,
    link: &LinkOptions,
    options: &Options,
    deadline: Option<Tick>,
    arrivals: Arc<dyn Arrivals>,
) -> Result<Option<Registration>, StreamError> {
    let sockets = options.sockets.as_deref();
    if let Some(port) = url.port() {
        let host = own_address(url.host()).unwrap_or([127, 0, 0, 1].into());
        let listener = Listener::at(SocketAddr::new(host, port), sockets, options.insecure)?;
        let host = listener.host.clone();
        return Registration::here(host, Some(listener), url, link, arrivals).map(Some);
    }
    let Some(socket) = near::socket(sockets, options.directory_port) else {
        return Ok(None);
    };
    let own_seed = Environment::Real
        .end_seed()
        .map_err(|cause| StreamError::Random { cause })?;
    let register = Register {
        versions: VersionRange::OURS,
        url: url.within_host().to_string(),
        incarnation: link.incarnation,
        program: link.program.clone(),
        pid: std::process::id(),
        key: Some(public_key(&own_seed)?),
    };
    let socket_path = socket.to_string();
    let registry = registry::start(socket, register, own_seed, arrivals)?;
    let grace = Clock::new().now().saturating_add(NAME_GRACE);
    let state = waiter.wait(&registry, deadline, |end, now| match end.name_state() {
        NameState::Requested => None,
        // The registry retries on its own.
        NameState::Refused(FaultCode::EndpointTaken, _) if now < grace => None,
        state => Some(state.clone()),
    });
    let state = state.await;
    let state = state.or_else(|| registry.with(|end, _, _| Some(end.name_state().clone())));
    let registration = Registration::Engine(registry);
    match state {
        Some(NameState::Registered) => Ok(Some(registration)),
        Some(NameState::Refused(code, sentence)) => Err(StreamError::Refused { code, sentence }),
        // No peer looks up an endpoint that dials, so the endpoint needs no registered name.
        _ if options.peer.is_some() => Ok(Some(registration)),
        Some(NameState::Unreachable(cause)) => Err(StreamError::NoDirectory {
            socket: socket_path,
            url: Box::new(url.clone()),
            cause,
        }),
        _ => Err(StreamError::NoPeer {
            peer: None,
            timeout: options.timeout.unwrap_or_default(),
            last: None,
        }),
    }
}
