//! Lists the endpoints that are registered with a directory.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use trunkline_net::passing::Descriptors;
use trunkline_net::{Clock, DialLimits, Dialler, Link, LinkOptions, near};
use trunkline_proto::limits::HELLO_FRAME_MAX;
use trunkline_proto::message::closing::Refused;
use trunkline_proto::message::hello::Hello;
use trunkline_proto::message::single::SingleFrame;
use trunkline_proto::message::stream::listing::{EndpointStatus, EndpointsPage, EndpointsQuery};
use trunkline_proto::{
    Channel, Credentials, Disconnect, Endpoint, FaultCode, FrameBuffer, FrameKind, FrameLimits,
    VersionRange,
};
use trunkline_types::{StreamUrl, Tick, Timestamp};
use zeroize::Zeroize;

use super::own_address;
use crate::options::EngineSecurity;

/// An error of listing a directory. The message is written for users.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    #[error("{address} cannot be reached: {cause}")]
    Unreachable {
        /// Host and port.
        address: String,
        /// The reason why the connection failed.
        cause: Disconnect,
    },
    #[error("{address} did not answer within {:.1} s", timeout.as_secs_f64())]
    TimedOut {
        /// Host and port.
        address: String,
        timeout: Duration,
    },
    #[error("{sentence}")]
    Refused {
        /// The code for programs to match on.
        code: FaultCode,
        sentence: String,
    },
    #[error("{address} is not a directory of streams: {cause}")]
    NoDirectory {
        /// Host and port.
        address: String,
        cause: Disconnect,
    },
}

/// Maximum number of entries in a listing, more than a directory holds. A faulty directory could
/// otherwise make a listing endless.
const LISTED_MAX: usize = 100_000;

/// Lists the endpoints of the directory at a port of `host`, ordered by URL.
///
/// Connects to the engine of this machine over the socket in the folder `sockets` (`None`: the
/// current user's folder), and to other machines over TCP, encrypted if there is a `security`. The
/// engine lists only what the program may see. With `only`, the list contains at most that endpoint.
/// Blocks the calling thread for at most `timeout`. Each address of the host has at
/// most a third of `timeout` to accept the connection.
///
/// # Errors
/// The directory cannot be reached, does not answer in time, or refuses the request.
pub fn list(
    host: &str,
    port: u16,
    sockets: Option<&Path>,
    only: Option<&StreamUrl>,
    security: Option<&EngineSecurity>,
    timeout: Duration,
) -> Result<Vec<EndpointStatus>, ListError> {
    let address = format!("{host}:{port}");
    let deadline = Clock::new().now().saturating_add(timeout);
    let is_here = own_address(host).is_some_and(|address| address.is_loopback());
    let socket = near::socket(sockets, port).filter(|_| is_here);
    // Without a socket, the engine belongs to another user.
    let has_socket = socket
        .as_ref()
        .is_some_and(|socket| socket.as_path().exists());
    let dialler = match (socket, security) {
        (_, Some(security)) if !has_socket => Dialler::tls(host, port, Arc::clone(&security.tls)),
        (Some(socket), _) => Dialler::near(socket, host, port).taking(Descriptors::default()),
        (None, _) => Dialler::tcp(host, port),
    };
    let limits = DialLimits::default();
    let options = LinkOptions {
        dial: DialLimits {
            connect: limits.connect.min(timeout / 3),
            ..limits
        },
        ..LinkOptions::default()
    };
    let lister = Lister {
        query: EndpointsQuery {
            versions: VersionRange::OURS,
            after: String::new(),
            only: only.map(StreamUrl::to_string).unwrap_or_default(),
        },
        credentials: security.and_then(|security| security.credentials.clone()),
        channel: Channel::default(),
        frames: FrameBuffer::new(FrameLimits::default()),
        // With room for the login, so that no copy of it is left behind.
        out: Vec::with_capacity(HELLO_FRAME_MAX as usize),
        endpoints: Vec::new(),
        outcome: None,
    };
    let link = match Link::start(dialler, lister, options) {
        Ok(link) => link,
        Err(error) => {
            let (kind, text) = (ErrorKind::Other, error.to_string());
            let cause = Disconnect::Io { kind, text };
            return Err(ListError::Unreachable { address, cause });
        }
    };
    match link.wait_until(Some(deadline), |lister, _| lister.outcome.take()) {
        Some(Outcome::Listed(endpoints)) => Ok(endpoints),
        Some(Outcome::Refused(code, sentence)) => Err(ListError::Refused { code, sentence }),
        Some(Outcome::NoDirectory(cause)) => Err(ListError::NoDirectory { address, cause }),
        Some(Outcome::Disconnected(cause)) => Err(ListError::Unreachable { address, cause }),
        None => Err(ListError::TimedOut { address, timeout }),
    }
}

struct Lister {
    query: EndpointsQuery,
    credentials: Option<Credentials>,
    channel: Channel,
    frames: FrameBuffer,
    out: Vec<u8>,
    endpoints: Vec<EndpointStatus>,
    outcome: Option<Outcome>,
}

enum Outcome {
    Listed(Vec<EndpointStatus>),
    Refused(FaultCode, String),
    NoDirectory(Disconnect),
    Disconnected(Disconnect),
}

impl Lister {
    fn handle_frames(&mut self, now: Tick, bytes: &mut &[u8]) -> Result<(), Disconnect> {
        while let Some(frame) = self.frames.next_frame(now, bytes)? {
            match frame.kind() {
                Some(FrameKind::StreamEndpoints) => {
                    let page = EndpointsPage::decode(&frame)?;
                    let last = page.endpoints.last().map(|last| last.url.clone());
                    self.endpoints.extend(page.endpoints);
                    match last {
                        Some(last) if page.has_more && self.endpoints.len() < LISTED_MAX => {
                            self.query.after = last;
                            self.query.encode(&mut self.out);
                        }
                        _ => {
                            self.outcome =
                                Some(Outcome::Listed(std::mem::take(&mut self.endpoints)))
                        }
                    }
                }
                Some(FrameKind::StreamRefused | FrameKind::Refused) => {
                    let refused = Refused::decode(&frame)?;
                    self.outcome = Some(Outcome::Refused(refused.code, refused.sentence));
                }
                // Keep-alives need no answer.
                _ => {}
            }
        }
        Ok(())
    }
}

impl Endpoint for Lister {
    fn handle_channel(&mut self, channel: &Channel) {
        self.channel = channel.clone();
    }

    fn handle_connected(&mut self, _: Tick, _: Timestamp) {
        let is_encrypted = self.channel.binding.is_some();
        if let Some(credentials) = self.credentials.as_ref().filter(|_| is_encrypted) {
            let mut hello = Hello::default();
            credentials.prove(&self.channel, false, &mut hello);
            hello.encode_as(FrameKind::StreamLogin, 0, &mut self.out);
        }
        self.query.encode(&mut self.out);
    }

    fn handle_input(&mut self, now: Tick, _: Timestamp, bytes: &[u8]) {
        if let Err(cause) = self.handle_frames(now, &mut &*bytes) {
            self.outcome = Some(Outcome::NoDirectory(cause));
        }
    }

    fn poll_output(&mut self, _: Tick, _: Timestamp, _: usize, out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(&self.out);
        // The login may have contained a password or a token.
        self.out.zeroize();
        false
    }

    fn poll_timeout(&self) -> Option<Tick> {
        None
    }

    fn handle_timeout(&mut self, _: Tick, _: Timestamp) {}

    fn handle_disconnected(&mut self, _: Tick, cause: Disconnect) {
        self.outcome.get_or_insert(Outcome::Disconnected(cause));
    }

    fn wants_close(&self) -> Option<Disconnect> {
        None
    }

    fn poll_dial(&self) -> Option<Tick> {
        self.outcome.is_none().then_some(Tick::ZERO)
    }
}
