//! Creates endpoints on this machine.

use std::io;
use std::sync::Arc;

use trunkline_net::passing::Descriptors;
use trunkline_net::{Dialler, Link, LinkOptions as NetOptions, near};
use trunkline_types::StreamUrl;

use super::acceptor::Acceptor;
use super::{Plan, World};
use crate::directory::{Registration, own_address, register};
use crate::end::StreamEndpoint;
use crate::error::StreamError;
use crate::handle::{EndpointHandle, Environment};
use crate::journal::disk::{Disk, RealDisk};
use crate::journal::{Bounds, JournalError, JournalOptions};
use crate::options::{DIRECTORY_PORT, Options};
use crate::properties::HasProperties;
use crate::wait::Waiter;

/// The real environment, as opposed to a simulation.
pub(crate) struct RealWorld;

impl World for RealWorld {
    fn environment(&self) -> Environment {
        Environment::Real
    }

    fn disk(&self, options: &JournalOptions) -> Result<Arc<dyn Disk>, JournalError> {
        match RealDisk::open(&options.folder) {
            Ok(disk) => Ok(Arc::new(disk)),
            Err(_) if options.folder.is_file() => Err(JournalError::NotAFolder {
                path: options.folder.clone(),
            }),
            Err(cause) => Err(JournalError::disk(&options.folder, "opened", cause)),
        }
    }

    fn bounds(&self, options: &JournalOptions, bytes_max: u64) -> Result<Bounds, JournalError> {
        options.bounds(bytes_max)
    }

    async fn start<S: HasProperties>(
        &self,
        waiter: &impl Waiter,
        plan: &Plan<'_, Self>,
        end: StreamEndpoint<S>,
        descriptors: &Descriptors,
    ) -> Result<(EndpointHandle<S>, Option<Registration>), StreamError> {
        let Plan { url, options, .. } = plan;
        let net = NetOptions {
            spin: options.spin,
            ..NetOptions::default()
        };
        let dialler = dialler(plan.peer.as_ref(), options, descriptors)?;
        let link = Link::start(dialler, end, net)?;
        let arrivals = Arc::new(Acceptor {
            link: Arc::downgrade(&link),
            is_checked: options.is_checked,
        });
        let registered = register(waiter, url, &plan.link, options, plan.deadline, arrivals);
        Ok((EndpointHandle::Net(link), registered.await?))
    }
}

fn dialler(
    peer: Option<&StreamUrl>,
    options: &Options,
    descriptors: &Descriptors,
) -> Result<Dialler, StreamError> {
    // An endpoint without a peer only accepts connections.
    let Some(peer) = peer else {
        return Ok(Dialler::pipe(|| Err(io::ErrorKind::Unsupported.into())));
    };
    let own = own_address(peer.host());
    let is_here = own.is_some_and(|address| address.is_loopback());
    let port = peer.port().unwrap_or(match is_here {
        true => options.directory_port,
        false => DIRECTORY_PORT,
    });
    // A program of another user may listen at the port of an endpoint or of an engine first, and would get the
    // data.
    let for_user = |dialler: Dialler| match peer.port() {
        _ if options.insecure => dialler,
        Some(_) => dialler.for_own_user(),
        None => dialler.for_engine(),
    };
    // A program of another user than the engine's has no socket, and may have joined the engine.
    let has_socket = near::socket(options.sockets.as_deref(), port)
        .is_some_and(|socket| socket.as_path().exists());
    if is_here && !options.tcp_only && (has_socket || options.security.is_none()) {
        let near = near::dialler(options.sockets.as_deref(), peer.host(), port);
        return Ok(for_user(near.taking(descriptors.clone())));
    }
    match &options.security {
        Some(security) => {
            let tls = Arc::clone(&security.tls);
            Ok(Dialler::tls(peer.host(), port, tls))
        }
        None if own.is_some() || options.insecure => Ok(for_user(Dialler::tcp(peer.host(), port))),
        None => Err(StreamError::NotEncrypted {
            peer: Box::new(peer.clone()),
        }),
    }
}
