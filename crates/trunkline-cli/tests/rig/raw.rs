//! Peers that do not keep to the protocol, byte by byte.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use socket2::SockRef;
use trunkline_proto::message::closing::{Goodbye, Refused};
use trunkline_proto::message::hello::Hello;
use trunkline_proto::{FrameBuffer, FrameKind, FrameLimits, Negotiation};
use trunkline_types::Tick;

use crate::CUT_OFF;

pub struct Raw(pub TcpStream);

impl Raw {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(CUT_OFF)).unwrap();
        stream.set_write_timeout(Some(CUT_OFF)).unwrap();
        Self(stream)
    }

    /// With a hello that was accepted.
    pub fn greet(address: SocketAddr) -> Self {
        let mut peer = Self::connect(address);
        peer.0.write_all(&hello()).unwrap();
        assert_eq!(peer.next_kind(), Some(FrameKind::Welcome));
        peer
    }

    /// Sends; the engine may have closed the connection already.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.0.write_all(bytes);
    }

    /// The kind of the next frame other than a keep-alive; `None` at the end of the connection.
    pub fn next_kind(&mut self) -> Option<FrameKind> {
        self.next_frame().map(|(kind, _)| kind)
    }

    fn next_frame(&mut self) -> Option<(FrameKind, Vec<u8>)> {
        loop {
            let mut head = [0; 16];
            self.0.read_exact(&mut head).ok()?;
            let header = trunkline_proto::FrameHeader::from_bytes(&head);
            let mut bytes = head.to_vec();
            bytes.resize(16 + header.length as usize, 0);
            self.0.read_exact(&mut bytes[16..]).ok()?;
            match FrameKind::from_number(header.kind) {
                Some(FrameKind::Keepalive) => {}
                Some(kind) => return Some((kind, bytes)),
                None => {}
            }
        }
    }

    /// The fault and the sentence with which the engine closes the connection; `None` if it closed
    /// without a goodbye.
    pub fn last_words(&mut self) -> Option<(String, String)> {
        while let Some((kind, bytes)) = self.next_frame() {
            let limits = match kind {
                FrameKind::Refused => FrameLimits::HELLO,
                _ => FrameLimits::default(),
            };
            let mut frames = FrameBuffer::new(limits);
            let mut input = bytes.as_slice();
            let frame = frames.next_frame(Tick::ZERO, &mut input).unwrap().unwrap();
            let said = match kind {
                FrameKind::Goodbye => {
                    let goodbye = Goodbye::decode(&frame).unwrap();
                    (goodbye.code.to_string(), goodbye.sentence)
                }
                FrameKind::Refused => {
                    let refused = Refused::decode(&frame).unwrap();
                    (refused.code.to_string(), refused.sentence)
                }
                _ => continue,
            };
            return Some(said);
        }
        None
    }

    /// Gone without a word of the system either: a reset.
    pub fn abort(self) {
        let _ = SockRef::from(&self.0).set_linger(Some(Duration::ZERO));
    }
}

/// A hello as this version's clients send it.
pub fn hello() -> Vec<u8> {
    let mut bytes = Vec::new();
    let hello = Hello {
        versions: Negotiation::OURS.versions,
        features: Negotiation::OURS.features,
        client_name: "rig".to_owned(),
        program: "rig".to_owned(),
        frame_max: Negotiation::OURS.frame_max,
        message_max: Negotiation::OURS.message_max,
        window_records: 1000,
        window_bytes: 1 << 20,
        ..Hello::default()
    };
    hello.encode(&mut bytes);
    bytes
}
