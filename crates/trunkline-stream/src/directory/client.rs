//! Lists the endpoints that a directory knows.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use trunkline_net::{Clock, near};
use trunkline_proto::message::closing::Refused;
use trunkline_proto::message::stream::listing::{EndpointStatus, EndpointsPage, EndpointsQuery};
use trunkline_proto::{
    DecodeError, Disconnect, FaultCode, FrameBuffer, FrameKind, FrameLimits, VersionRange,
};
use trunkline_types::{StreamUrl, Tick};

/// The error of listing a directory. The message is written for users.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// The directory cannot be reached.
    #[error("{address} is not reached: {cause}; is the engine running, and is the port right?")]
    Unreachable {
        /// Host and port.
        address: String,
        /// The system's error.
        #[source]
        cause: io::Error,
    },
    /// No answer arrived in time.
    #[error("{address} did not answer within {:.1} s", timeout.as_secs_f64())]
    TimedOut {
        /// Host and port.
        address: String,
        /// The time limit.
        timeout: Duration,
    },
    /// The directory refused.
    #[error("{sentence}")]
    Refused {
        /// The code for programs to match on.
        code: FaultCode,
        /// The reason, as a sentence.
        sentence: String,
    },
    /// The answer is not that of a directory.
    #[error("{address} does not answer as a directory of streams: {cause}")]
    NoDirectory {
        /// Host and port.
        address: String,
        /// The error in the answer.
        cause: Disconnect,
    },
}

/// More entries than a directory holds; stops a listing that would never end.
const LISTED_MAX: usize = 100_000;

/// A blocking connection with a time limit.
trait Connection: Read + Write {
    fn set_timeout(&self, timeout: Duration) -> io::Result<()>;
}

impl Connection for UnixStream {
    fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(timeout))?;
        self.set_write_timeout(Some(timeout))
    }
}

impl Connection for TcpStream {
    fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(timeout))?;
        self.set_write_timeout(Some(timeout))
    }
}

/// Lists the endpoints of the directory at a port of `host`, ordered by URL. Reaches this machine's
/// engine over its socket in `sockets` (`None`: the current user's folder), other machines over
/// TCP. `only`: lists that endpoint alone, if it exists. Blocks the calling thread for at most
/// `timeout`. The addresses of a host share the time: each gets its part of what is left.
///
/// # Errors
/// The directory cannot be reached, does not answer in time, or does not understand.
pub fn list(
    host: &str,
    port: u16,
    sockets: Option<&Path>,
    only: Option<&StreamUrl>,
    timeout: Duration,
) -> Result<Vec<EndpointStatus>, ListError> {
    let address = format!("{host}:{port}");
    let deadline = Clock::new().now().saturating_add(timeout);
    let connection = connect(host, port, sockets, deadline);
    let mut asking = Asking {
        connection: connection.map_err(|cause| ListError::Unreachable {
            address: address.clone(),
            cause,
        })?,
        frames: FrameBuffer::new(FrameLimits::default()),
        address,
        timeout,
        deadline,
    };
    let mut query = EndpointsQuery {
        versions: VersionRange::OURS,
        after: String::new(),
        only: only.map(StreamUrl::to_string).unwrap_or_default(),
    };
    let mut endpoints: Vec<EndpointStatus> = Vec::new();
    loop {
        let page = asking.page(&query)?;
        let last = page.endpoints.last().map(|last| last.url.clone());
        endpoints.extend(page.endpoints);
        match last {
            Some(last) if page.has_more && endpoints.len() < LISTED_MAX => query.after = last,
            _ => return Ok(endpoints),
        }
    }
}

fn connect(
    host: &str,
    port: u16,
    sockets: Option<&Path>,
    deadline: Tick,
) -> io::Result<Box<dyn Connection>> {
    let is_here = crate::listener::own_address(host).is_some_and(|address| address.is_loopback());
    // `near::connect` does not use a socket that belongs to another user; the TCP port is tried
    // instead.
    if let Some(stream) = is_here.then(|| near::connect(sockets, port).ok()).flatten() {
        return Ok(Box::new(stream));
    }
    let addresses = match host.parse::<IpAddr>() {
        Ok(address) => vec![SocketAddr::new(address, port)],
        Err(_) => look_up(host, port, deadline)?,
    };
    first_of(&addresses, deadline)
}

/// Looks `host` up in a separate thread, because the system's resolver blocks without a limit. The
/// thread ends when the resolver returns.
fn look_up(host: &str, port: u16, deadline: Tick) -> io::Result<Vec<SocketAddr>> {
    let (sender, answer) = sync_channel(1);
    let name = host.to_owned();
    thread::Builder::new()
        .name("trunkline-lookup".to_owned())
        .spawn(move || {
            let found = (name.as_str(), port).to_socket_addrs();
            // Nothing receives the answer if the look-up took too long.
            let _ = sender.send(found.map(Iterator::collect));
        })?;
    let left = deadline.since(Clock::new().now());
    answer.recv_timeout(left).unwrap_or_else(|_| {
        let text = "the look-up of the host's name gave no answer in time";
        Err(io::Error::new(io::ErrorKind::TimedOut, text))
    })
}

/// Connects to the first address that answers.
fn first_of(addresses: &[SocketAddr], deadline: Tick) -> io::Result<Box<dyn Connection>> {
    let mut error = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for (address, others) in addresses.iter().zip((1..=addresses.len() as u32).rev()) {
        // An address that does not answer leaves time for the others.
        let part = deadline.since(Clock::new().now()) / others;
        if part.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match TcpStream::connect_timeout(address, part) {
            Ok(stream) => return Ok(Box::new(stream)),
            Err(cause) => error = cause,
        }
    }
    Err(error)
}

/// A connection to a directory.
struct Asking {
    connection: Box<dyn Connection>,
    frames: FrameBuffer,
    address: String,
    timeout: Duration,
    deadline: Tick,
}

impl Asking {
    fn page(&mut self, query: &EndpointsQuery) -> Result<EndpointsPage, ListError> {
        let mut frame = Vec::new();
        query.encode(&mut frame);
        self.limit()?;
        let written = self.connection.write_all(&frame);
        written.map_err(|cause| self.broken(cause))?;
        let mut buffer = vec![0; 64 << 10];
        loop {
            self.limit()?;
            let count = self.connection.read(&mut buffer);
            let count = count.map_err(|cause| self.broken(cause))?;
            if count == 0 {
                let kind = io::ErrorKind::UnexpectedEof;
                return Err(self.broken(io::Error::new(kind, "it closed the connection")));
            }
            if let Some(page) = self.take(&buffer[..count])? {
                return Ok(page);
            }
        }
    }

    /// Limits the next call to the time that is left.
    fn limit(&self) -> Result<(), ListError> {
        let left = self.deadline.since(Clock::new().now());
        let limited = match left.is_zero() {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => self.connection.set_timeout(left),
        };
        limited.map_err(|cause| self.broken(cause))
    }

    fn take(&mut self, bytes: &[u8]) -> Result<Option<EndpointsPage>, ListError> {
        let nonsense = |cause: Disconnect| ListError::NoDirectory {
            address: self.address.clone(),
            cause,
        };
        let broken = |error: DecodeError| nonsense(error.into());
        let mut rest = bytes;
        loop {
            let now = Clock::new().now();
            let next = self.frames.next_frame(now, &mut rest);
            let Some(frame) = next.map_err(|error| nonsense(error.into()))? else {
                return Ok(None);
            };
            match frame.kind() {
                Some(FrameKind::StreamEndpoints) => {
                    return EndpointsPage::decode(&frame).map(Some).map_err(broken);
                }
                Some(FrameKind::StreamRefused) => {
                    let refused = Refused::decode(&frame).map_err(broken)?;
                    return Err(ListError::Refused {
                        code: refused.code,
                        sentence: refused.sentence,
                    });
                }
                // Keep-alives.
                _ => {}
            }
        }
    }

    fn broken(&self, cause: io::Error) -> ListError {
        let address = self.address.clone();
        match cause.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ListError::TimedOut {
                address,
                timeout: self.timeout,
            },
            _ => ListError::Unreachable { address, cause },
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// The address of a listener, which would answer, is not tried any more.
    #[test]
    fn no_address_is_tried_after_the_callers_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let error = first_of(&[address; 3], Clock::new().now());
        assert_eq!(error.err().unwrap().kind(), io::ErrorKind::TimedOut);
    }
}
