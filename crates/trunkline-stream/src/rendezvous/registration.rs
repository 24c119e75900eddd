//! How an endpoint has its name.

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

/// How long a name that is taken is asked for again. The engine sees that the endpoint before has
/// gone when it comes to the end of its connection, which may be after this one has asked.
const NAME_GRACE: Duration = Duration::from_millis(500);

/// What keeps an endpoint's name.
pub(crate) enum Registration {
    /// A port of its own.
    Port { listener: Listener, number: u64 },
    /// The engine of this machine.
    Engine(Arc<Registry>),
    /// A directory of a simulated world.
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
            // It asks again by itself.
            Name::Refused(FaultCode::EndpointTaken, _) if now < grace => None,
            name => Some(name.clone()),
        });
        let name = name.await;
        let name = name.or_else(|| registry.with(|end, _, _| Some(end.name().clone())));
        let registration = Registration::Engine(registry);
        match name {
            Some(Name::Ours) => Ok(Some(registration)),
            Some(Name::Refused(code, sentence)) => Err(StreamError::Refused { code, sentence }),
            // Who dials is not looked for, so it needs nobody who knows its name.
            _ if self.peer.is_some() => Ok(Some(registration)),
            Some(Name::Nobody(cause)) => Err(StreamError::NoDirectory { cause }),
            _ => Err(StreamError::NoPeer {
                timeout: self.options.timeout.unwrap_or_default(),
                last: None,
            }),
        }
    }
}
