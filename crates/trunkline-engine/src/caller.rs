//! Who asks. There is no way to a variable without one, from the first commit on.

use std::fmt;
use std::sync::Arc;

/// The author of a request: the session it came through, whose it is and from where.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Number of the session, unique within an engine start; 0 is the engine itself.
    pub session: u32,
    /// On whose behalf.
    pub principal: Principal,
    /// Where from, for people: `pid 4711 on this machine`, `10.0.0.7:51344`.
    pub origin: Arc<str>,
    /// What it may do.
    pub rights: Rights,
    /// Whether the request came through a connection; single-process variables are hidden from
    /// those.
    pub remote: bool,
}

/// Whose request it is. Identities with secrets come with security; until then, these.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Principal {
    /// The engine's own services and I/O servers.
    Engine,
    /// A program in the engine's process or a peer whose user id the system vouches for.
    Local(u32),
    /// Somebody on the loopback interface, user unknown.
    Loopback,
    /// Somebody on a listener that the configuration declared insecure.
    Unauthenticated,
}

/// What a caller may do with the variables it can see.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rights {
    /// Read, subscribe.
    pub read: bool,
    /// Write, request.
    pub write: bool,
    /// Deploy, undeploy, start and stop libraries.
    pub administer: bool,
}

impl Rights {
    /// Everything.
    pub const ALL: Rights = Rights {
        read: true,
        write: true,
        administer: true,
    };
    /// Looking only.
    pub const READ: Rights = Rights {
        read: true,
        write: false,
        administer: false,
    };
}

impl Caller {
    /// The engine itself: initial values, I/O servers, the pump.
    pub fn engine() -> Self {
        Self {
            session: 0,
            principal: Principal::Engine,
            origin: Arc::from("engine"),
            rights: Rights::ALL,
            remote: false,
        }
    }

    /// A program in the engine's own process.
    pub fn local(session: u32, uid: u32) -> Self {
        Self {
            session,
            principal: Principal::Local(uid),
            origin: Arc::from("this process"),
            rights: Rights::ALL,
            remote: false,
        }
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Principal::Engine => f.write_str("engine"),
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
