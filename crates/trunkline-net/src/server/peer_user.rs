//! Finds the user of the program at the other end of a TCP connection on this machine.
//!
//! The system lists every TCP socket with its user in `/proc/net/tcp` and `tcp6`. The peer's socket
//! is the established one with the same addresses, seen from the other end. A socket is attributed
//! to its creator, even if another program has received it.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

/// The state of an established connection. Sockets in other states may have lost their user, and
/// are listed as user 0.
const ESTABLISHED: &str = "01";

/// Returns the user of the peer of this connected socket, or `None` if the peer is on another
/// machine or the system does not report it. Only peers at loopback addresses are looked for.
pub(super) fn of_socket(socket: impl AsFd, peer: SocketAddr) -> Option<u32> {
    if !peer.ip().to_canonical().is_loopback() {
        return None;
    }
    let local = rustix::net::getsockname(socket).ok()?;
    of_tcp_peer(SocketAddr::try_from(local).ok()?, peer)
}

/// Returns the peer's user, or `None` if the peer is on another machine or the system does not
/// report it.
pub(super) fn of_tcp_peer(local: SocketAddr, peer: SocketAddr) -> Option<u32> {
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .into_iter()
        .find_map(|table| find(&fs::read_to_string(table).ok()?, local, peer))
}

fn find(table: &str, local: SocketAddr, peer: SocketAddr) -> Option<u32> {
    let (local, peer) = (canonical(local), canonical(peer));
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (from, to) = (address(fields.next()?)?, address(fields.next()?)?);
        let state = fields.next()?;
        // Skip queues, timer and retransmissions.
        let uid = fields.nth(3)?;
        let is_match = (from, to, state) == (peer, local, ESTABLISHED);
        is_match.then(|| uid.parse().ok()).flatten()
    })
}

fn canonical(address: SocketAddr) -> (IpAddr, u16) {
    (address.ip().to_canonical(), address.port())
}

/// Parses an address of these tables: words of 32 bits in the machine's byte order, in hexadecimal.
fn address(text: &str) -> Option<(IpAddr, u16)> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut bytes = Vec::with_capacity(16);
    for word in ip.as_bytes().chunks(8) {
        let word = u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()?;
        bytes.extend_from_slice(&word.to_ne_bytes());
    }
    let ip = match bytes.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
        16 => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?),
        _ => return None,
    };
    Some((ip.to_canonical(), port))
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::transport::unix::own_uid;

    #[test]
    fn user_of_a_program_on_this_machine_is_found() {
        for listen in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(listen) else {
                println!("skipped {listen}: this machine does not have this address");
                continue;
            };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (server, peer) = listener.accept().unwrap();
            let local = server.local_addr().unwrap();
            assert_eq!(of_tcp_peer(local, peer), Some(own_uid()), "{listen}");
            drop(client);
        }
    }

    #[test]
    fn only_an_established_connection_of_both_addresses_counts() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   \
                     uid  timeout inode\n   \
                     0: 0100007F:C350 0100007F:16DA 06 00000000:00000000 03:00000000 00000000     \
                     0        0 0\n   \
                     1: 0100007F:C351 0100007F:16DA 01 00000000:00000000 00:00000000 00000000  \
                     1000        0 4711\n";
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        if cfg!(target_endian = "little") {
            assert_eq!(find(table, at(0x16da), at(0xc351)), Some(1000));
        }
        assert_eq!(
            find(table, at(0x16da), at(0xc350)),
            None,
            "the connection is closed"
        );
        assert_eq!(find(table, at(0x16db), at(0xc351)), None);
        assert_eq!(find("", at(1), at(2)), None);
    }
}
