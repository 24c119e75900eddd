//! Accepted connections, which may be encrypted or not.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::sync::Arc;
use crate::transport::Transport;
use crate::transport::tcp::tcp_transport;
use crate::transport::tls::receive::TlsReceive;
use crate::transport::tls::send::TlsSend;
use crate::transport::tls::{Phase, Shared, TlsServer, transport_of};

/// What a listener accepts.
#[derive(Clone, Debug)]
pub(crate) enum Security {
    /// Only unencrypted connections.
    Plain,
    /// Both, told apart by the first bytes.
    Either(Arc<TlsServer>),
    /// Only TLS. A peer that does not speak it is told so.
    Tls(Arc<TlsServer>),
}

/// Turns an accepted socket into a transport. A handshake, if there is one, happens in its halves.
pub(crate) fn accepted(
    stream: Arc<TcpStream>,
    peer: SocketAddr,
    user_timeout: Duration,
    security: &Security,
) -> io::Result<Transport> {
    let (server, is_required) = match security {
        Security::Plain => return tcp_transport(stream, peer, user_timeout),
        Security::Either(server) => (server, false),
        Security::Tls(server) => (server, true),
    };
    let shared = Arc::new(Shared::new(stream.clone(), Phase::Undecided, None));
    let receive = TlsReceive::server(shared.clone(), server.clone(), is_required);
    let send = TlsSend::server(shared, is_required);
    transport_of(stream, peer, user_timeout, receive, send)
}
