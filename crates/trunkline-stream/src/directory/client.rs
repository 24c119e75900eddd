//! Lists the endpoints that a directory knows.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use trunkline_net::{Clock, near};
use trunkline_proto::message::stream::control::decode_refused;
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
/// `timeout`, plus the resolution of the name and up to `timeout` for each further TCP address of
/// the host.
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
    let connection = connect(host, port, sockets, timeout);
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
    timeout: Duration,
) -> io::Result<Box<dyn Connection>> {
    let is_here = crate::listener::own_address(host).is_some_and(|address| address.is_loopback());
    // `near::connect` does not use a socket that belongs to another user; the TCP port is tried
    // instead.
    if let Some(stream) = is_here.then(|| near::connect(sockets, port).ok()).flatten() {
        return Ok(Box::new(stream));
    }
    let mut error = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
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
                    let refused = decode_refused(&frame).map_err(broken)?;
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
