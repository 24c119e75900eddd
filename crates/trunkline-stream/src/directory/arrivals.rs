//! Connects arriving peers to their endpoint.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use trunkline_net::{Admitted, Link, Peer, Transport, passing, tcp};
use trunkline_proto::message::stream::directory::{ArrivedFrom, Identity, Ticket};

use crate::end::{EndpointRole, StreamEndpoint};
use crate::properties::Properties;

/// What the directory knows about a connection to an endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    /// The ticket with which the peer arrived.
    pub(crate) ticket: Ticket,
    /// Who has opened the connection.
    pub(crate) identity: Identity,
}

impl Arrival {
    pub(super) fn new(ticket: Ticket, from: &ArrivedFrom) -> Self {
        let identity = from.identity();
        Self { ticket, identity }
    }
}

pub(crate) trait Arrivals: Send + Sync {
    /// Handles a connection, and the bytes read from it, which begin with S_HELLO.
    fn arrive(&self, transport: Transport, arrival: Arrival, bytes: &[u8]);

    /// Ends the connection that arrived with this ticket, if it still exists. With `is_lost`, the peer
    /// may not use the stream any more, so that no place is kept for it.
    fn revoke(&self, ticket: &Ticket, is_lost: bool);

    /// Returns the tickets of the connections that have arrived and still exist, or whose peers have a
    /// place that is kept for them.
    fn tickets(&self) -> BTreeSet<Ticket>;

    /// The simulated counterpart of [`arrive`](Self::arrive), for the transport with this number.
    #[cfg(feature = "sim")]
    fn arrive_simulated(&self, transport: u64, bytes: &[u8]) {
        let _ = (transport, bytes);
    }

    /// Returns the endpoint's properties; `None` once the endpoint is gone.
    fn properties(&self) -> Option<Properties>;
}

pub(crate) fn transport_of(socket: OwnedFd) -> io::Result<Transport> {
    passing::transport_of(socket, tcp::USER_TIMEOUT)
}

/// Connects `link` to the peer that arrived over `transport`, and from which `bytes` were read.
/// `is_checked` turns checksums on or off; with `None` they are on only between machines.
///
/// # Errors
/// Returns the transport, and the answer with which to refuse it; the answer is empty if the link
/// is closed.
pub(crate) fn attach<S: EndpointRole + 'static>(
    link: &Arc<Link<StreamEndpoint<S>>>,
    transport: Transport,
    arrival: Arrival,
    bytes: &[u8],
    is_checked: Option<bool>,
) -> Result<(), Box<(Transport, Vec<u8>)>> {
    let is_local = matches!(transport.peer, Peer::Unix { .. });
    let is_remote = matches!(transport.peer, Peer::Tcp(peer) if !peer.ip().is_loopback());
    let mut answer = Vec::new();
    let attached = link.attach(transport, |end, now, _| {
        match end.admit(now, bytes, is_local, &arrival.identity) {
            Ok(first) => {
                end.link.set_checked(is_checked.unwrap_or(is_remote));
                end.set_ticket(arrival.ticket);
                Admitted::Yes(first)
            }
            Err(refused) => {
                answer = refused;
                Admitted::No
            }
        }
    });
    attached.map_err(|transport| Box::new((transport, answer)))
}

/// Closes a transport that no endpoint accepts.
pub(crate) fn refuse(mut transport: Transport, answer: &[u8]) {
    // An answer that does not fit into the send buffer of a new connection is dropped.
    if transport.send.try_write(answer).is_ok() {
        transport.send.finish();
    }
}
