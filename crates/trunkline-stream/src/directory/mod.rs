//! Implements the directory of the endpoints on a machine or on one port. A directory maps names to
//! endpoints, and hands connecting peers over to the endpoints that they look up.
//!
//! ```text
//!   endpoint A                 directory                     endpoint B's process
//!     |                            | <---- S_REGISTER (B) -------- |   (or B is in this process)
//!     | ---- S_LOOKUP (B) -------> |                               |
//!     | <--- S_TICKET ------------ |                               |
//!     | ---- S_HELLO, ticket ----> |                               |
//!     |                            | ---- S_ARRIVED, socket -----> |
//!     | <================= the stream's own connection ==========> |
//! ```
//!
//! Each engine provides the directory of its machine. An endpoint whose URL names a port provides a
//! directory on that port.
//!
//! If endpoint A is on another machine, its connection to the engine is encrypted. The engine then sends
//! S_PEER instead of S_TICKET, and S_VISITOR instead of S_ARRIVED: they contain the public key of the
//! other endpoint. A ends its encryption with the engine, and begins a new one with B over the same
//! connection, which the engine has passed to B's process. The engine cannot read it.

mod arrivals;
mod client;
mod gate;
#[cfg(all(test, feature = "sim"))]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod guest_tests;
mod host;
mod listener;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod random_tests;
mod registration;
mod registry;
mod session;
mod session_notifier;
mod visits;

pub(crate) use self::arrivals::{Arrival, Arrivals, attach, refuse, transport_of};
pub use self::client::{ListError, list};
pub use self::gate::{Gate, OpenGate};
pub use self::host::{DirectoryHost, EndpointInfo};
pub(crate) use self::listener::own_address;
pub(crate) use self::registration::{Registration, register};
pub use self::session::DirectorySession;
pub(crate) use self::session_notifier::SessionNotifier;
#[cfg(feature = "sim")]
pub use self::session_notifier::SimulatedBell;

use trunkline_proto::FrameKind;
pub use trunkline_proto::message::stream::listing::{EndpointStatus, MemberStatus};

/// Returns true if a connection that begins with a frame of this kind is for a directory.
pub fn is_first(kind: FrameKind) -> bool {
    matches!(
        kind,
        FrameKind::StreamLookup
            | FrameKind::StreamRegister
            | FrameKind::StreamHello
            | FrameKind::StreamList
            | FrameKind::StreamLogin
    )
}
