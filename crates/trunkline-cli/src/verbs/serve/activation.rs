//! Socket activation: the service manager listens, and passes its sockets to `serve`.
//!
//! Connections wait while the engine restarts, the engine needs no privilege for ports below 1024, and the
//! first connection can start it. The configuration still states which addresses the engine serves: a
//! socket is used instead of the listener with the same address, or takes the place of all configured
//! addresses if it is named for that.

use std::net::SocketAddr;

use trunkline::InheritedSockets;
use trunkline::types::ListenAddress;
use trunkline_config::DeploymentPlan;

use crate::Problem;

/// Name of the sockets that take the place of the configured addresses, and of the one for HTTP.
const LISTEN: &str = "listen";
const HTTP: &str = "http";

/// The addresses of the sockets that the service manager has passed.
#[derive(Clone, Debug, Default)]
pub(super) struct PassedAddresses {
    /// Those that take the place of `listen`.
    listen: Vec<ListenAddress>,
    http: Option<SocketAddr>,
    /// Those that must be in the configuration.
    others: Vec<ListenAddress>,
}

impl PassedAddresses {
    /// # Errors
    /// A socket for HTTP is no TCP socket, or there are several.
    pub(super) fn of(sockets: &InheritedSockets) -> Result<Self, Problem> {
        let mut passed = Self::default();
        for (name, address) in sockets.addresses() {
            match (name.as_str(), address) {
                (LISTEN, address) => passed.listen.push(address),
                (HTTP, ListenAddress::Tcp(address)) if passed.http.is_none() => {
                    passed.http = Some(address);
                }
                (HTTP, address) => {
                    let sentence = format!(
                        "the service manager passes the socket {address} with the name {HTTP}; pass only \
                         one such socket, with a loopback address and a port"
                    );
                    return Err(Problem::failed("service-manager", sentence));
                }
                (_, address) => passed.others.push(address),
            }
        }
        Ok(passed)
    }

    /// Replaces the addresses of the configuration with those of the named sockets.
    pub(super) fn apply(&self, plan: &mut DeploymentPlan) {
        if !self.listen.is_empty() {
            plan.engine.listen.clone_from(&self.listen);
        }
        plan.engine.http = self.http.or(plan.engine.http);
    }

    /// Checks that the configuration names all other sockets: the engine serves no address that it
    /// does not name.
    ///
    /// # Errors
    /// An address that is not in the configuration.
    pub(super) fn check_use(&self, plan: &DeploymentPlan) -> Result<(), Problem> {
        let engine = &plan.engine;
        let is_named = |address: &&ListenAddress| {
            engine.listen.contains(address)
                || (address.tcp().is_some() && address.tcp() == engine.http)
        };
        let Some(unnamed) = self.others.iter().find(|address| !is_named(address)) else {
            return Ok(());
        };
        let sentence = format!(
            "the service manager passes a socket that listens at {unnamed}, but the configuration \
             does not name this address; add it to `listen`, or name the socket with \
             FileDescriptorName={LISTEN}, so that its addresses take the place of those in the \
             configuration"
        );
        Err(Problem::failed("service-manager", sentence))
    }
}
