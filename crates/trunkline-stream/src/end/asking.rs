//! An endpoint asks the directory of its peer's machine for the peer, and waits until it is there.

use trunkline_proto::message::closing::Refused;
use trunkline_proto::message::stream::Incarnation;
use trunkline_proto::message::stream::control::{
    decode_keepalive, decode_refused, encode_keepalive,
};
use trunkline_proto::message::stream::directory::{Lookup, Ticket, TicketGrant};
use trunkline_proto::message::stream::seal::is_frame_intact;
use trunkline_proto::{
    Disconnect, FrameBuffer, FrameKind, FrameLimits, Liveness, LivenessAction, VersionRange,
};
use trunkline_types::Tick;

/// Whom an endpoint asks for, and who it is.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The peer's URL, in canonical form.
    pub(crate) url: String,
    /// The endpoint's own life.
    pub(crate) incarnation: Incarnation,
    /// Its program; shown to people.
    pub(crate) program: String,
}

/// A question to a directory.
pub(super) struct Asking {
    frames: FrameBuffer,
    out: Vec<u8>,
    liveness: Liveness,
    closing: Option<Disconnect>,
    is_refused: bool,
}

/// What the directory has said.
pub(super) enum Heard {
    Nothing,
    /// The peer is there, and is reached with this over the same connection.
    Ticket(Ticket),
    Refused(Refused),
}

impl Asking {
    pub(super) fn begin(target: &Target, now: Tick) -> Self {
        let mut out = Vec::new();
        let lookup = Lookup {
            versions: VersionRange::OURS,
            url: target.url.clone(),
            incarnation: target.incarnation,
            program: target.program.clone(),
        };
        lookup.encode(&mut out);
        Self {
            frames: FrameBuffer::new(FrameLimits::default()),
            out,
            liveness: Liveness::with_defaults(now),
            closing: None,
            is_refused: false,
        }
    }

    /// Takes frames off `bytes`, up to the answer.
    pub(super) fn handle_input(&mut self, now: Tick, bytes: &mut &[u8]) -> Heard {
        self.liveness.handle_received(now);
        loop {
            let heard = match self.frames.next_frame(now, bytes) {
                Ok(None) => return Heard::Nothing,
                // It may have been the answer, for which nobody would wait in vain.
                Ok(Some(frame)) if !is_frame_intact(&frame) => {
                    let sentence = "what a directory has said was altered on the way".to_owned();
                    self.closing = Some(Disconnect::Malformed { sentence });
                    return Heard::Nothing;
                }
                Ok(Some(frame)) => match frame.kind() {
                    Some(FrameKind::StreamTicket) => {
                        TicketGrant::decode(&frame).map(|grant| Some(Heard::Ticket(grant.ticket)))
                    }
                    Some(FrameKind::StreamRefused) => decode_refused(&frame).map(|refused| {
                        self.is_refused = true;
                        Some(Heard::Refused(refused))
                    }),
                    Some(FrameKind::StreamKeepalive) => decode_keepalive(&frame).map(|keepalive| {
                        self.liveness.handle_keepalive(now, &keepalive);
                        None
                    }),
                    _ => Ok(None),
                },
                Err(error) => {
                    self.closing = Some(error.into());
                    return Heard::Nothing;
                }
            };
            match heard {
                Ok(None) => {}
                Ok(Some(heard)) => {
                    if let Heard::Refused(refused) = &heard {
                        let cause = Disconnect::from_refused(refused, VersionRange::OURS);
                        self.closing = Some(cause);
                    }
                    return heard;
                }
                Err(error) => {
                    self.closing = Some(error.into());
                    return Heard::Nothing;
                }
            }
        }
    }

    pub(super) fn poll_output(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.out);
    }

    pub(super) fn poll_timeout(&self) -> Tick {
        let incomplete = self.frames.poll_timeout();
        let alive = self.liveness.poll_timeout();
        incomplete.map_or(alive, |incomplete| incomplete.min(alive))
    }

    pub(super) fn handle_timeout(&mut self, now: Tick) {
        if let Err(slow) = self.frames.handle_timeout(now) {
            self.closing = Some(slow.into());
        }
        match self.liveness.poll(now) {
            LivenessAction::Idle => {}
            LivenessAction::SendKeepalive => {
                encode_keepalive(&self.liveness.keepalive(now, 0, 0), &mut self.out);
            }
            LivenessAction::Dead { silent_for } => {
                self.closing = Some(Disconnect::Dead { silent_for });
            }
        }
    }

    pub(super) fn wants_close(&self) -> Option<Disconnect> {
        self.closing.clone()
    }

    pub(super) fn is_refused(&self) -> bool {
        self.is_refused
    }
}
