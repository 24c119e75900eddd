//! Registration of an endpoint's name.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use trunkline_net::{Clock, near};
use trunkline_proto::message::stream::directory::Register;
use trunkline_proto::{FaultCode, VersionRange};
use trunkline_types::Tick;

use super::Plan;
use crate::directory::Arrivals;
use crate::error::StreamError;
use crate::listener::{Listener, own_address};
use crate::registry::{self, Name, Registry};
use crate::wait::Waits;

/// Time during which a taken name is requested again. The engine notices that the previous endpoint
/// has gone when it reads the end of its connection, possibly after this request.
const NAME_GRACE: Duration = Duration::from_millis(500);

/// Keeps an endpoint's name registered.
pub(crate) enum Registration {
    /// Behind a port of its own.
    Port { listener: Listener, number: u64 },
    /// With the engine of this machine.
    Engine(Arc<Registry>),
    /// With a directory of a simulated world.
    #[cfg(feature = "sim")]
    Simulated {
        host: Arc<crate::directory::DirectoryHost>,
        number: u64,
    },
}

impl Drop for Registration {
    fn drop(&mut self) {
        match self {
            Registration::Port { listener, number } => {
                listener.host.forget(*number);
            }
            Registration::Engine(registry) => registry.close(Tick::ZERO),
            #[cfg(feature = "sim")]
            Registration::Simulated { host, number } => host.forget(*number),
        }
    }
}

impl Plan {
    pub(super) async fn register(
        &self,
        waits: &impl Waits,
        arrivals: Arc<dyn Arrivals>,
    ) -> Result<Option<Registration>, StreamError> {
        if let Some(port) = self.url.port() {
            let host = own_address(self.url.host());
            let address = SocketAddr::new(host.unwrap_or([127, 0, 0, 1].into()), port);
            let listener = Listener::at(
                address,
                self.options.sockets.as_deref(),
                self.options.insecure,
            )?;
            let Self { url, link, .. } = self;
            let number = listener
                .host
                .register_here(url, link.incarnation, &link.program, arrivals)
                .map_err(|fault| StreamError::Refused {
                    code: fault.code,
                    sentence: fault.sentence,
                })?;
            return Ok(Some(Registration::Port { listener, number }));
        }
        let socket = near::socket(self.options.sockets.as_deref(), self.options.directory_port);
        let Some(socket) = socket else {
            return Ok(None);
        };
        let register = Register {
            versions: VersionRange::OURS,
            url: self.url.within_host().to_string(),
            incarnation: self.link.incarnation,
            program: self.link.program.clone(),
            pid: std::process::id(),
        };
        let registry = registry::start(socket, register, arrivals)?;
        let grace = Clock::new().now().saturating_add(NAME_GRACE);
        let name = waits.wait(&registry, self.until, |end, now| match end.name() {
            Name::Asking => None,
            // The registry asks again by itself.
            Name::Refused(FaultCode::EndpointTaken, _) if now < grace => None,
            name => Some(name.clone()),
        });
        let name = name.await;
        let name = name.or_else(|| registry.with(|end, _, _| Some(end.name().clone())));
        let registration = Registration::Engine(registry);
        match name {
            Some(Name::Ours) => Ok(Some(registration)),
            Some(Name::Refused(code, sentence)) => Err(StreamError::Refused { code, sentence }),
            // Nobody looks up an end that dials, so it needs no registered name.
            _ if self.peer.is_some() => Ok(Some(registration)),
            Some(Name::Nobody(cause)) => Err(StreamError::NoDirectory { cause }),
            _ => Err(StreamError::NoPeer {
                timeout: self.options.timeout.unwrap_or_default(),
                last: None,
            }),
        }
    }
}
