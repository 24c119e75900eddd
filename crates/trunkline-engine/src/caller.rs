//! The author of a request. Every access to a variable requires one.

use std::fmt;
use std::sync::Arc;

use trunkline_access::Host;

use crate::rights::Rights;

/// The author of a request: its session, principal, origin and rights.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Number of the session, unique within an engine start; 0 stands for the engine itself.
    pub session: u32,
    pub principal: Principal,
    /// Origin of the request, as readable text: `pid 4711 on this machine`, `10.0.0.7:51344`.
    pub origin: Arc<str>,
    /// Where the request came from, for rules that name a host.
    pub host: Host,
    pub rights: Rights,
    /// True if the request came through a connection. Single-process variables are hidden from
    /// connections.
    pub remote: bool,
}

/// The identity behind a request.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Principal {
    Engine,
    /// An account of the engine, whose client has proved its identity.
    Account(Arc<str>),
    /// A program in the engine's process, or a peer whose user id the operating system confirms.
    Local(u32),
    /// A peer on the loopback interface, user unknown.
    Loopback,
    /// A peer on a listener that the configuration declares insecure.
    Unauthenticated,
}

impl Caller {
    /// The engine itself, as the caller for initial values, I/O servers and the pump.
    pub fn engine() -> Self {
        Self {
            session: 0,
            principal: Principal::Engine,
            origin: Arc::from("engine"),
            host: Host::Local,
            rights: Rights::ALL,
            remote: false,
        }
    }

    pub fn local(session: u32, uid: u32) -> Self {
        Self {
            session,
            principal: Principal::Local(uid),
            origin: Arc::from("this process"),
            host: Host::Local,
            rights: Rights::ALL,
            remote: false,
        }
    }
}

impl Principal {
    /// Returns true if the engine knows who this is: an account, or a user of this machine.
    pub fn is_proved(&self) -> bool {
        match self {
            Principal::Account(_) | Principal::Local(_) => true,
            Principal::Engine | Principal::Loopback | Principal::Unauthenticated => false,
        }
    }

    /// Returns true if both are the same known identity.
    pub(crate) fn is_proved_as(&self, other: &Principal) -> bool {
        self.is_proved() && self == other
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Principal::Engine => f.write_str("engine"),
            Principal::Account(name) => write!(f, "account:{name}"),
            Principal::Local(uid) => write!(f, "local:{uid}"),
            Principal::Loopback => f.write_str("loopback"),
            Principal::Unauthenticated => f.write_str("unauthenticated"),
        }
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.principal, self.origin)
    }
}
