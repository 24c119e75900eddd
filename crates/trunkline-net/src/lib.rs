//! Drives any Trunkline protocol endpoint, and waits on it, over TCP, Unix sockets, shared memory
//! and in-memory pipes.
//!
//! The endpoints (`trunkline_proto::Endpoint`) are state machines without a socket, a clock or a
//! thread. This crate provides all three, and knows nothing about the content of the messages.
//!
//! ```text
//!   application threads and tasks                         writers of the engine
//!      | with, wait_until, poll_until                        | Notifier::notify
//!      v                                                     v
//!   Link<E: Endpoint>                                     Server: connection threads, acceptor
//!      | the waiting thread drives; a background             | each session: an Endpoint
//!      | thread while no thread is waiting                   |
//!      v                                                     v
//!   Transport { receive half, send half } ~~~ TCP, pipe ~~~ Transport { receive half, send half }
//! ```
//!
//! # Layout
//! - [`clock`]: the only place that reads clocks.
//! - [`transport`]: connected byte streams, each in two halves: [`tcp`], [`tls`](transport::tls),
//!   `unix`, `shm`, [`pipe`](transport::pipe); [`passing`]: connections passed from one process to another.
//! - [`near`]: paths of the Unix sockets that are named after ports.
//! - [`link`]: the client's side; [`dial`]: connecting to an engine.
//! - [`server`]: the engine's side.
//! - [`spin`]: polling for a short time before sleeping.
//! - [`housekeeper`]: the thread that calls an engine's `poll`.

#![deny(unsafe_code)]

pub mod clock;
pub mod dial;
pub mod housekeeper;
mod idle_wait;
pub mod link;
pub mod near;
mod outgoing;
mod peer_user;
mod role;
pub mod server;
mod signal;
mod sleeper;
pub mod spin;
mod sync;
pub mod transport;

pub use clock::Clock;
pub use dial::{DialLimits, Dialler, PortOwner};
pub use housekeeper::Housekeeper;
pub use link::{Admitted, Link, LinkOptions, StartError};
pub use server::{
    BindError, Notifier, Refusal, Server, ServerCounters, ServerOptions, SessionFactory,
    SharedFile, never_send_on_this_thread,
};
pub use spin::{SPIN_DEFAULT, Spin};
pub use transport::pipe::pipe;
pub use transport::shm::{LocalTable, StreamMemory, create_table};
pub use transport::tls::{
    ClientCertificates, TlsClient, TlsError, TlsIdentity, TlsServer, Trust, accept_end, public_key,
};
pub use transport::{Peer, Transport, TransportUsed, passing, tcp};
pub use trunkline_ring::{TableEntry, TableValue, TableWriter};
