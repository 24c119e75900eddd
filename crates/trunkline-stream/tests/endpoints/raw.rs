//! Implements a peer that sends frames of arbitrary content.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use trunkline_proto::message::closing::{Goodbye, Refused};
use trunkline_proto::message::stream::directory::{Lookup, Ticket, TicketGrant};
use trunkline_proto::message::stream::{
    EndState, Incarnation, ReaderState, StreamEnd, StreamHello, StreamWelcome, WriterState,
};
use trunkline_proto::stream::Secret;
use trunkline_proto::{Features, Frame, FrameHeader, FrameKind, VersionRange};
use trunkline_types::DataType;

use crate::rig::{TEST_TIMEOUT, until};

/// A connection.
pub struct Raw(TcpStream);

/// A received frame.
pub struct ReceivedFrame {
    header: FrameHeader,
    payload: Vec<u8>,
}

impl ReceivedFrame {
    pub fn frame(&self) -> Frame<'_> {
        Frame::new(self.header, &self.payload).unwrap()
    }

    pub fn kind(&self) -> Option<FrameKind> {
        self.frame().kind()
    }

    /// Returns the position and the bytes of an S_DATA frame without a checksum.
    pub fn data(&self) -> (u64, &[u8]) {
        assert_eq!(self.kind(), Some(FrameKind::StreamData));
        let (position, bytes) = self.payload.split_at(8);
        (u64::from_le_bytes(position.try_into().unwrap()), bytes)
    }
}

impl Raw {
    /// Dials until a program listens at the address.
    pub fn dial(address: SocketAddr) -> Self {
        let mut dialled = None;
        until("a listener", || {
            dialled = TcpStream::connect(address).ok();
            dialled.is_some()
        });
        let stream = dialled.unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        Self(stream)
    }

    /// Ignores errors, because the endpoint may have closed the connection, which the test detects.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.0.write_all(bytes);
    }

    /// Returns the next frame other than a keep-alive; `None` once the connection is closed.
    pub fn next(&mut self) -> Option<ReceivedFrame> {
        loop {
            let mut header = [0; 16];
            self.0.read_exact(&mut header).map_err(closed).ok()?;
            let header = FrameHeader::from_bytes(&header);
            let mut payload = vec![0; header.length as usize];
            self.0.read_exact(&mut payload).map_err(closed).ok()?;
            let received = ReceivedFrame { header, payload };
            if received.kind() != Some(FrameKind::StreamKeepalive) {
                return Some(received);
            }
        }
    }

    /// Returns the next frame of this kind.
    pub fn next_of(&mut self, kind: FrameKind) -> ReceivedFrame {
        loop {
            let received = self.next().expect("a frame");
            if received.kind() == Some(kind) {
                return received;
            }
        }
    }

    /// Reads until the endpoint has closed the connection. Returns its goodbye, if it sent one.
    pub fn until_closed(&mut self) -> Option<Goodbye> {
        let mut goodbye = None;
        while let Some(received) = self.next() {
            if received.kind() == Some(FrameKind::StreamGoodbye) {
                goodbye = Some(Goodbye::decode(&received.frame()).unwrap());
            }
        }
        goodbye
    }

    /// Reads until the endpoint has refused and closed the connection.
    pub fn until_refused(&mut self) -> Refused {
        let received = self.next_of(FrameKind::StreamRefused);
        let refused = Refused::decode(&received.frame()).unwrap();
        assert_eq!(self.until_closed(), None);
        refused
    }

    pub fn ask(&mut self, url: &str, incarnation: Incarnation) -> Ticket {
        let mut out = Vec::new();
        let lookup = Lookup {
            versions: VersionRange::OURS,
            url: url.to_owned(),
            incarnation,
            program: "raw".to_owned(),
            key: None,
        };
        lookup.encode(&mut out);
        self.send(&out);
        let received = self.next_of(FrameKind::StreamTicket);
        TicketGrant::decode(&received.frame()).unwrap().ticket
    }

    pub fn greet(&mut self, hello: &StreamHello) {
        let mut out = Vec::new();
        hello.encode(&mut out);
        self.send(&out);
    }

    pub fn welcome(&mut self) -> StreamEnd {
        let received = self.next_of(FrameKind::StreamWelcome);
        StreamWelcome::decode(&received.frame()).unwrap().end
    }
}

fn closed(error: std::io::Error) {
    use std::io::ErrorKind;
    assert_ne!(error.kind(), ErrorKind::WouldBlock, "it was to be closed");
}

/// An endpoint of `f64` that dials.
#[derive(Clone)]
pub struct RawEndpoint {
    pub incarnation: Incarnation,
    pub attempt: u64,
    /// Incarnation of the endpoint to which this peer was connected.
    pub peer: Option<Incarnation>,
    pub state: EndState,
    pub share: Secret,
}

impl RawEndpoint {
    pub fn writer() -> Self {
        Self::new(EndState::Writer(WriterState::default()))
    }

    /// Creates a reader with room for 100 elements.
    pub fn reader() -> Self {
        Self::new(EndState::Reader(ReaderState {
            credit_bytes: 800,
            credit_elements: 100,
            ..ReaderState::default()
        }))
    }

    fn new(state: EndState) -> Self {
        let mut incarnation = [0; 16];
        incarnation.fill_with(|| fastrand::u8(..));
        Self {
            incarnation: Incarnation(incarnation),
            attempt: 0,
            peer: None,
            state,
            share: Secret([fastrand::u8(..); 32]),
        }
    }

    pub fn hello(&self, ticket: Option<Ticket>) -> StreamHello {
        StreamHello {
            versions: VersionRange::OURS,
            end: StreamEnd {
                features: Features::NONE,
                incarnation: self.incarnation,
                url: "tl://localhost/raw".to_owned(),
                peer_url: String::new(),
                data_type: DataType::F64,
                capacity: 100,
                bytes_max: 800,
                has_journal: false,
                program: "raw".to_owned(),
                state: self.state,
            },
            peer: self.peer,
            attempt: self.attempt,
            ticket,
            // The same secret each time, so that the endpoint is recognised when it reconnects.
            share: Some(self.share),
            proof: None,
        }
    }

    /// Dials, gets a ticket, and sends S_HELLO.
    pub fn dial(&mut self, address: SocketAddr, name: &str) -> Raw {
        self.attempt += 1;
        let mut raw = Raw::dial(address);
        let ticket = raw.ask(&crate::rig::url(address, name), self.incarnation);
        raw.greet(&self.hello(Some(ticket)));
        raw
    }

    /// Like [`dial`](Self::dial), but also waits until S_HELLO is accepted.
    pub fn connect(&mut self, address: SocketAddr, name: &str) -> (Raw, StreamEnd) {
        let mut raw = self.dial(address, name);
        let end = raw.welcome();
        self.peer = Some(end.incarnation);
        (raw, end)
    }
}
