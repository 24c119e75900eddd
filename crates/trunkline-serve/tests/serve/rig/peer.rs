//! A peer that sends arbitrary frames to a real session.

use std::sync::Arc;

use trunkline_proto::message::closing::{Goodbye, Refused};
use trunkline_proto::message::hello::{Hello, Welcome};
use trunkline_proto::{Disconnect, Endpoint, Frame, FrameKind};
use trunkline_serve::{ServeOptions, Session};

use super::World;

pub struct Peer {
    pub world: World,
    pub session: Session,
    /// The output of the session.
    pub said: Vec<u8>,
}

/// The last frame of the session.
#[derive(Debug)]
pub enum Heard {
    Nothing,
    Welcome(Box<Welcome>),
    Refused(Refused),
    Goodbye(Goodbye),
    Other(FrameKind),
}

impl Peer {
    /// Creates a connected peer that has not sent anything.
    pub fn silent(world: &World) -> Self {
        Self::with(world, ServeOptions::default())
    }

    pub fn with(world: &World, options: ServeOptions) -> Self {
        let wake = Box::new(super::Bell::default());
        let mut session = Session::new(world.engine(), Arc::new(options), world.caller(), wake);
        let (now, wall) = world.time();
        session.handle_connected(now, wall);
        Self {
            world: world.clone(),
            session,
            said: Vec::new(),
        }
    }

    /// Creates a connected peer that has completed the handshake.
    pub fn greeted(world: &World) -> Self {
        let mut peer = Self::silent(world);
        peer.say(|out| Hello::default().encode(out));
        peer.said.clear();
        peer
    }

    /// Sends the bytes that `encode` appends, and receives the session's output.
    pub fn say(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = Vec::new();
        encode(&mut bytes);
        self.send(&bytes);
    }

    pub fn send(&mut self, bytes: &[u8]) {
        let (now, wall) = self.world.time();
        self.session.handle_input(now, wall, bytes);
        self.take();
    }

    /// Receives the session's output.
    pub fn take(&mut self) {
        let (now, wall) = self.world.time();
        while self
            .session
            .poll_output(now, wall, 64 << 10, &mut self.said)
        {}
    }

    /// Lets the session handle timeouts that are due now.
    pub fn time_out(&mut self) {
        let (now, wall) = self.world.time();
        self.session.handle_timeout(now, wall);
        self.take();
    }

    /// Kinds of the frames that the session has sent.
    pub fn kinds(&self) -> Vec<FrameKind> {
        self.frames(|frame| frame.kind().expect("a kind"))
    }

    pub fn frames<T>(&self, mut each: impl FnMut(&Frame<'_>) -> T) -> Vec<T> {
        let mut rest = self.said.as_slice();
        let mut frames = Vec::new();
        while let Some(frame) = Frame::take_from(&mut rest).expect("frames") {
            frames.push(each(&frame));
        }
        assert!(rest.is_empty(), "half a frame was said");
        frames
    }

    /// Number of update records that the session has sent.
    pub fn records(&self) -> usize {
        let records = self.frames(|frame| match frame.kind() {
            Some(FrameKind::Updates) => frame.count() as usize,
            _ => 0,
        });
        records.into_iter().sum()
    }

    pub fn last(&self) -> Heard {
        let frames = self.frames(|frame| match frame.kind() {
            Some(FrameKind::Welcome) => Heard::Welcome(Box::new(Welcome::decode(frame).unwrap())),
            Some(FrameKind::Refused) => Heard::Refused(Refused::decode(frame).unwrap()),
            Some(FrameKind::Goodbye) => Heard::Goodbye(Goodbye::decode(frame).unwrap()),
            other => Heard::Other(other.expect("a kind")),
        });
        frames.into_iter().next_back().unwrap_or(Heard::Nothing)
    }

    /// Returns the sentence of the GOODBYE or REFUSED that has ended the session.
    pub fn last_sentence(&self) -> String {
        match self.last() {
            Heard::Refused(refused) => refused.sentence,
            Heard::Goodbye(goodbye) => goodbye.sentence,
            other => panic!("no last word but {other:?}"),
        }
    }

    /// Returns the cause with which the session closes.
    pub fn cause(&self) -> Disconnect {
        self.session.wants_close().expect("it wants to close")
    }
}
