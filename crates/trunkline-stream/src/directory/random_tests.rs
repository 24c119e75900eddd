//! Tests a directory on a machine that provides no random numbers.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use trunkline_net::{Clock, Notifier, Peer, Server, ServerOptions, SessionFactory, Transport};
use trunkline_proto::frame::HEADER_BYTES;
use trunkline_proto::message::closing::Refused;
use trunkline_proto::message::stream::Incarnation;
use trunkline_proto::message::stream::directory::{Lookup, Ticket};
use trunkline_proto::stream::DirectoryLimits;
use trunkline_proto::{Endpoint, FaultCode, Frame, FrameHeader, FrameKind, VersionRange};
use trunkline_types::StreamUrl;

use super::gate::SharedGate;
use super::host::Content;
use super::{Arrival, Arrivals, DirectoryHost, DirectorySession, OpenGate};
use crate::properties::Properties;

struct Factory(Arc<DirectoryHost>);

impl SessionFactory for Factory {
    fn open(&self, _: Peer, notifier: Notifier) -> Result<Box<dyn Endpoint>, Vec<u8>> {
        let now = Clock::new().now();
        Ok(Box::new(DirectorySession::new(
            self.0.clone(),
            notifier,
            Arc::new(OpenGate),
            now,
        )))
    }
}

/// An endpoint that cannot be reached.
struct Unreachable;

impl Arrivals for Unreachable {
    fn arrive(&self, _: Transport, _: Arrival, _: &[u8]) {}

    fn revoke(&self, _: &Ticket, _: bool) {}

    fn tickets(&self) -> BTreeSet<Ticket> {
        BTreeSet::new()
    }

    fn properties(&self) -> Option<Properties> {
        None
    }
}

fn look_up(at: SocketAddr, url: &StreamUrl) -> TcpStream {
    let mut stream = TcpStream::connect(at).unwrap();
    let limit = Some(Duration::from_secs(60));
    stream.set_read_timeout(limit).unwrap();
    let lookup = Lookup {
        versions: VersionRange::OURS,
        url: url.to_string(),
        incarnation: Incarnation([7; 16]),
        program: "test".to_owned(),
        key: None,
    };
    let mut out = Vec::new();
    lookup.encode(&mut out);
    stream.write_all(&out).unwrap();
    stream
}

/// Reads the answer, which must be a refusal.
fn refusal(stream: &mut TcpStream) -> Refused {
    loop {
        let mut header = [0; HEADER_BYTES];
        stream.read_exact(&mut header).unwrap();
        let header = FrameHeader::from_bytes(&header);
        let mut payload = vec![0; header.length as usize];
        stream.read_exact(&mut payload).unwrap();
        let frame = Frame::new(header, &payload).unwrap();
        match frame.kind() {
            Some(FrameKind::StreamKeepalive) => {}
            kind => {
                assert_eq!(kind, Some(FrameKind::StreamRefused));
                return Refused::decode(&frame).unwrap();
            }
        }
    }
}

/// A lookup of an existing endpoint and a waiting lookup are both refused, and a ticket that could
/// be guessed is not accepted.
#[test]
fn lookup_is_refused_when_no_ticket_can_be_generated() {
    let mut host = DirectoryHost::new(DirectoryLimits::default());
    host.random = |_| Err(io::ErrorKind::Unsupported.into());
    let sut = Arc::new(host);
    let options = ServerOptions {
        listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()],
        shared_memory: false,
        threads: Some(1),
        ..ServerOptions::default()
    };
    let server = Server::bind(options, Arc::new(Factory(sut.clone()))).unwrap();
    let at = server.local_addrs()[0];
    let url = StreamUrl::parse("tl://localhost/random/there").unwrap();
    let mut waiting = look_up(at, &url);
    while !sut.is_waited_for() {
        std::thread::yield_now();
    }
    let incarnation = Incarnation([1; 16]);
    sut.register_here(&url, incarnation, "test", Arc::new(Unreachable))
        .unwrap();
    for client in [&mut waiting, &mut look_up(at, &url)] {
        let refused = refusal(client);
        assert_eq!(refused.code, FaultCode::Internal);
        assert!(
            refused.sentence.contains("cannot provide random numbers"),
            "{refused:?}"
        );
    }
    let gate: SharedGate = Arc::new(OpenGate);
    let content = Content::Bytes(Vec::new());
    let guessed = sut.redeem(&[0; 16], Incarnation([7; 16]).into(), content, &gate);
    assert_eq!(guessed.unwrap_err().code, FaultCode::BadTicket);
    assert_eq!(sut.endpoints().len(), 1);
}
