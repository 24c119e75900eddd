//! Finds the user of the program at the other end of a TCP connection on this machine.
//!
//! The kernel answers a question about one socket. Where it does not, the tables of all sockets
//! are searched: the system lists every TCP socket with its user in `/proc/net/tcp` and `tcp6`. The peer's socket
//! is the established one with the same addresses, seen from the other end. A socket is attributed
//! to its creator, even if another program has received it.
//!
//! A connection that the listening program has not accepted yet belongs to nobody. It is attributed to the user
//! of the listening socket.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

/// The state of an established connection. Sockets in other states may have lost their user, and
/// are listed as user 0.
const ESTABLISHED: &str = "01";
/// The state of a listening socket.
const LISTENING: &str = "0A";

/// Returns the user of the peer of this connected socket, or `None` if the peer is on another
/// machine or the system does not report it. Only peers at loopback addresses are looked for.
pub(crate) fn of_socket(socket: impl AsFd, peer: SocketAddr) -> Option<u32> {
    if !peer.ip().to_canonical().is_loopback() {
        return None;
    }
    let local = rustix::net::getsockname(socket).ok()?;
    of_tcp_peer(SocketAddr::try_from(local).ok()?, peer)
}

/// Returns the peer's user, or `None` if the peer is on another machine or the system does not
/// report it.
pub(crate) fn of_tcp_peer(local: SocketAddr, peer: SocketAddr) -> Option<u32> {
    let (local, peer) = (canonical(local), canonical(peer));
    // The tables take as long as the machine has sockets. They are not searched after an answer, or
    // programs that connect and close would make the engine read them again and again.
    match ask_kernel(local, peer) {
        Some(Answer::User(uid)) => Some(uid),
        Some(Answer::NoUser) => None,
        None => ["/proc/net/tcp", "/proc/net/tcp6"]
            .into_iter()
            .find_map(|table| find(&fs::read_to_string(table).ok()?, local, peer)),
    }
}

/// Returns the user of the program to which this connected socket leads, or `None` if the program is on another
/// machine or the system does not report it. The program may not have accepted the connection yet.
pub(crate) fn of_listener(socket: impl AsFd, peer: SocketAddr) -> Option<u32> {
    let local = rustix::net::getsockname(socket).ok()?;
    let local = SocketAddr::try_from(local).ok()?;
    of_tcp_peer(local, peer).or_else(|| {
        let uid = of_listening_socket(canonical(peer));
        // If the connection was accepted meanwhile, the port may have another owner by now.
        of_tcp_peer(local, peer).or(uid)
    })
}

fn of_listening_socket(address: Endpoint) -> Option<u32> {
    let unspecified: IpAddr = match address.0 {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    match ask_kernel((unspecified, 0), address) {
        Some(Answer::User(uid)) => Some(uid),
        Some(Answer::NoUser) => None,
        None => {
            let find = |table| find_listening(&fs::read_to_string(table).ok()?, address);
            let of_v4 = || address.0.is_ipv4().then(|| find("/proc/net/tcp")).flatten();
            of_v4().or_else(|| find("/proc/net/tcp6"))
        }
    }
}

/// What the kernel reports about a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    /// The socket belongs to this user.
    User(u32),
    /// There is no such socket, or its program has closed it.
    NoUser,
}

/// Opens the socket for questions while there is a free descriptor.
pub(crate) fn prepare() {
    let mut asker = ASKER.lock().unwrap_or_else(PoisonError::into_inner);
    if asker.is_none() {
        *asker = Asker::open();
    }
}

/// Asks the kernel about the one socket with these addresses (`sock_diag(7)`). Returns `None` if the
/// kernel does not support the question.
fn ask_kernel(local: Endpoint, peer: Endpoint) -> Option<Answer> {
    let mut asker = ASKER.lock().unwrap_or_else(PoisonError::into_inner);
    let asker = match &mut *asker {
        Some(asker) => asker,
        none => none.insert(Asker::open()?),
    };
    asker.ask(local, peer)
}

/// Asks the questions of all servers of this process.
static ASKER: Mutex<Option<Asker>> = Mutex::new(None);

/// A socket for questions to the kernel. It stays open, so that a process without a free descriptor can
/// still tell its clients apart.
struct Asker {
    socket: OwnedFd,
    /// Number of the last question.
    number: u32,
}

impl Asker {
    fn open() -> Option<Self> {
        let socket = socket_with(
            AddressFamily::NETLINK,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            Some(netlink::SOCK_DIAG),
        );
        let socket = socket.ok()?;
        Some(Self { socket, number: 0 })
    }

    fn ask(&mut self, local: Endpoint, peer: Endpoint) -> Option<Answer> {
        self.number = self.number.wrapping_add(1);
        let question = question(self.number, local, peer);
        send(&self.socket, &question, SendFlags::empty()).ok()?;
        let mut answer = [0; 512];
        loop {
            // The kernel has answered when `send` returns.
            let received = recv(&self.socket, &mut answer, RecvFlags::DONTWAIT);
            let (count, _) = received.ok()?;
            let answer = answer.get(..count)?;
            // An answer that was not read in time belongs to an earlier question.
            if number_at(answer, NUMBER_AT)? == self.number {
                return parse(answer);
            }
        }
    }
}

/// Length of the header of a message, `struct nlmsghdr`.
const HEADER: usize = 16;
/// Length of the question, `struct inet_diag_req_v2`.
const QUESTION: usize = 56;
/// `SOCK_DIAG_BY_FAMILY`, the type of the question and of its answer.
const BY_FAMILY: u16 = 20;
/// `NLMSG_ERROR`, the type of an answer with an error instead of a socket.
const ERROR: u16 = 2;
/// `NLM_F_REQUEST`.
const REQUEST: u16 = 1;
/// Place of the number of the question, in questions and answers.
const NUMBER_AT: usize = 8;
/// Places of the user and the inode in an answer: after the header, in `struct inet_diag_msg`.
const USER_AT: usize = HEADER + 64;
const INODE_AT: usize = HEADER + 68;
/// Place of the negative error number in an answer with an error.
const ERROR_AT: usize = HEADER;

fn question(number: u32, local: Endpoint, peer: Endpoint) -> [u8; HEADER + QUESTION] {
    let mut bytes = Vec::with_capacity(HEADER + QUESTION);
    bytes.extend_from_slice(&((HEADER + QUESTION) as u32).to_ne_bytes());
    bytes.extend_from_slice(&BY_FAMILY.to_ne_bytes());
    bytes.extend_from_slice(&REQUEST.to_ne_bytes());
    bytes.extend_from_slice(&number.to_ne_bytes());
    // The kernel knows the sender.
    bytes.extend_from_slice(&[0; 4]);
    let family = match peer.0 {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    // Families and protocols have small numbers.
    bytes.extend_from_slice(&[family.as_raw() as u8, IPPROTO_TCP, 0, 0]);
    bytes.extend_from_slice(&u32::MAX.to_ne_bytes());
    // The socket of the peer, as the peer sees it.
    for (_, port) in [peer, local] {
        bytes.extend_from_slice(&port.to_be_bytes());
    }
    for (ip, _) in [peer, local] {
        let mut address = [0; 16];
        match ip {
            IpAddr::V4(ip) => address[..4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => address.copy_from_slice(&ip.octets()),
        }
        bytes.extend_from_slice(&address);
    }
    // Any interface, and no cookie.
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&[u8::MAX; 8]);
    let mut question = [0; HEADER + QUESTION];
    question.copy_from_slice(&bytes);
    question
}

const IPPROTO_TCP: u8 = 6;

fn parse(answer: &[u8]) -> Option<Answer> {
    let kind = answer.get(4..6)?.try_into().ok().map(u16::from_ne_bytes)?;
    let number = |at| number_at(answer, at);
    match kind {
        // A socket that its program has closed has no inode, and may be listed as one of user 0.
        BY_FAMILY if number(INODE_AT)? == 0 => Some(Answer::NoUser),
        BY_FAMILY => Some(Answer::User(number(USER_AT)?)),
        ERROR => {
            let error = number(ERROR_AT)?.cast_signed().checked_neg()?;
            let is_missing = error == Errno::NOENT.raw_os_error();
            is_missing.then_some(Answer::NoUser)
        }
        _ => None,
    }
}

fn number_at(answer: &[u8], at: usize) -> Option<u32> {
    let bytes = answer.get(at..at.checked_add(4)?)?;
    bytes.try_into().ok().map(u32::from_ne_bytes)
}

/// An address and a port. An IPv4 address within IPv6 counts as IPv4.
type Endpoint = (IpAddr, u16);

fn find(table: &str, local: Endpoint, peer: Endpoint) -> Option<u32> {
    find_socket(table, |from, to, state| {
        (from, to, state) == (peer, local, ESTABLISHED)
    })
}

fn find_listening(table: &str, address: Endpoint) -> Option<u32> {
    let (ip, port) = address;
    find_socket(table, |(own, own_port), _, state| {
        state == LISTENING && own_port == port && (own == ip || own.is_unspecified())
    })
}

fn find_socket(table: &str, is_match: impl Fn(Endpoint, Endpoint, &str) -> bool) -> Option<u32> {
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (from, to) = (address(fields.next()?)?, address(fields.next()?)?);
        let state = fields.next()?;
        // Skip queues, timer and retransmissions.
        let uid = fields.nth(3)?;
        // A socket that its program has closed or not accepted has no inode, and may be listed as one of user 0.
        let has_program = fields.nth(1).is_some_and(|inode| inode != "0");
        let is_match = has_program && is_match(from, to, state);
        is_match.then(|| uid.parse().ok()).flatten()
    })
}

fn canonical(address: SocketAddr) -> Endpoint {
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
            let (local, peer) = (canonical(local), canonical(peer));
            if ask_kernel(local, peer).is_none() {
                println!("this kernel does not answer questions about one socket");
                continue;
            }
            let own = Some(Answer::User(own_uid()));
            assert_eq!(
                ask_kernel(peer, (local.0, 1)),
                Some(Answer::NoUser),
                "{listen}"
            );
            client.shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(ask_kernel(local, peer), own, "half-closed");
            // The system keeps the socket of a closed program, which must not count as root's.
            drop(client);
            assert_eq!(ask_kernel(local, peer), Some(Answer::NoUser), "closed");
            assert_eq!(
                of_tcp_peer(SocketAddr::from(local), SocketAddr::from(peer)),
                None
            );
        }
    }

    /// A connection that is not accepted yet has no user of its own.
    #[test]
    fn user_of_a_listening_program_is_found_before_it_accepts() {
        for (listen, dial) in [
            ("127.0.0.1:0", Ipv4Addr::LOCALHOST.into()),
            ("0.0.0.0:0", Ipv4Addr::LOCALHOST.into()),
            ("[::]:0", IpAddr::from(Ipv4Addr::LOCALHOST)),
            ("[::1]:0", Ipv6Addr::LOCALHOST.into()),
            ("[::]:0", Ipv6Addr::LOCALHOST.into()),
        ] {
            let Ok(listener) = TcpListener::bind(listen) else {
                println!("skipped {listen}: this machine does not have this address");
                continue;
            };
            let peer = SocketAddr::new(dial, listener.local_addr().unwrap().port());
            let client = TcpStream::connect(peer).unwrap();
            let (own, name) = (Some(own_uid()), format!("{listen} by {dial}"));
            assert_eq!(
                of_tcp_peer(client.local_addr().unwrap(), peer),
                None,
                "{name}"
            );
            assert_eq!(of_listener(&client, peer), own, "{name}");
            let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
            let found = tables.into_iter().find_map(|table| {
                find_listening(&fs::read_to_string(table).ok()?, canonical(peer))
            });
            assert_eq!(found, own, "{name}, in the tables");
            let accepted = listener.accept().unwrap();
            drop(listener);
            assert_eq!(of_listener(&client, peer), own, "{name}, accepted");
            drop(accepted);
            assert_eq!(of_listener(&client, peer), None, "{name}, closed");
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
        let at = |port: u16| canonical(SocketAddr::from(([127, 0, 0, 1], port)));
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
