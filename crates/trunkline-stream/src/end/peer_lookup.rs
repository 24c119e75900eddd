//! Looks up the peer in the directory of the peer's machine, and waits until the peer exists.

use std::fmt;

use trunkline_proto::limits::HELLO_FRAME_MAX;
use trunkline_proto::message::closing::Refused;
use trunkline_proto::message::hello::Hello;
use trunkline_proto::message::single::SingleFrame;
use trunkline_proto::message::stream::Incarnation;
use trunkline_proto::message::stream::control::{decode_keepalive, encode_keepalive};
use trunkline_proto::message::stream::directory::{EndKey, Lookup, PeerGrant, Ticket, TicketGrant};
use trunkline_proto::message::stream::seal::is_frame_intact;
use trunkline_proto::{
    Channel, Credentials, Disconnect, EndSeed, FrameBuffer, FrameKind, FrameLimits, Liveness,
    LivenessAction, VersionRange,
};
use trunkline_types::Tick;
use zeroize::Zeroize;

/// The peer that an endpoint looks up, and the endpoint's own identity.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The peer's URL, in canonical form.
    pub(crate) url: String,
    /// The incarnation of this endpoint.
    pub(crate) incarnation: Incarnation,
    /// Name and release of this endpoint's program, for display.
    pub(crate) program: String,
    /// For a peer on another machine.
    pub(crate) login: Option<Login>,
}

/// What an endpoint proves to the engine of its peer, and then to the peer.
#[derive(Clone)]
pub(crate) struct Login {
    pub(crate) credentials: Option<Credentials>,
    /// The seed of the endpoint's own key. `Debug` does not show it.
    pub(crate) own_seed: EndSeed,
    pub(crate) own_key: EndKey,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("credentials", &self.credentials)
            .field("own_key", &self.own_key)
            .finish_non_exhaustive()
    }
}

/// A lookup at a directory.
pub(super) struct PeerLookup {
    frames: FrameBuffer,
    out: Vec<u8>,
    liveness: Liveness,
    closing: Option<Disconnect>,
    is_refused: bool,
    /// The connection to the directory is encrypted.
    is_encrypted: bool,
}

pub(super) enum LookupAnswer {
    /// No answer has arrived yet.
    Nothing,
    /// The peer exists. This ticket admits the endpoint to the peer over the same connection.
    Ticket(Ticket),
    /// The peer exists. The engine hands this connection over to it.
    Peer(PeerGrant),
    Refused(Refused),
}

impl PeerLookup {
    pub(super) fn begin(target: &Target, channel: &Channel, now: Tick) -> Self {
        // With room for the login, so that no copy of it is left behind.
        let mut out = Vec::with_capacity(HELLO_FRAME_MAX as usize);
        let is_encrypted = channel.binding.is_some();
        let login = target.login.as_ref().filter(|_| is_encrypted);
        if let Some(credentials) = login.and_then(|login| login.credentials.as_ref()) {
            let mut hello = Hello {
                program: target.program.clone(),
                pid: std::process::id(),
                ..Hello::default()
            };
            credentials.prove(channel, false, &mut hello);
            hello.encode_as(FrameKind::StreamLogin, 0, &mut out);
        }
        let lookup = Lookup {
            versions: VersionRange::OURS,
            url: target.url.clone(),
            incarnation: target.incarnation,
            program: target.program.clone(),
            key: login.map(|login| login.own_key),
        };
        lookup.encode(&mut out);
        Self {
            frames: FrameBuffer::new(FrameLimits::default()),
            out,
            liveness: Liveness::with_defaults(now),
            closing: None,
            is_refused: false,
            is_encrypted,
        }
    }

    /// Consumes frames from `bytes`, up to and including the answer.
    pub(super) fn handle_input(&mut self, now: Tick, bytes: &mut &[u8]) -> LookupAnswer {
        self.liveness.handle_received(now);
        loop {
            let answer = match self.frames.next_frame(now, bytes) {
                Ok(None) => return LookupAnswer::Nothing,
                // An engine sends this frame instead of serving a connection: it has too many, or
                // they must be encrypted.
                Ok(Some(frame)) if frame.kind() == Some(FrameKind::Refused) => {
                    Refused::decode(&frame).map(|refused| {
                        self.is_refused = true;
                        Some(LookupAnswer::Refused(refused))
                    })
                }
                // The altered frame may have been the answer, so waiting for another answer might
                // never end.
                Ok(Some(frame)) if !is_frame_intact(&frame) => {
                    let sentence = "a frame from a directory was altered in transit".to_owned();
                    self.closing = Some(Disconnect::Malformed { sentence });
                    return LookupAnswer::Nothing;
                }
                Ok(Some(frame)) => match frame.kind() {
                    Some(FrameKind::StreamTicket | FrameKind::StreamPeer)
                        if (frame.kind() == Some(FrameKind::StreamPeer)) != self.is_encrypted =>
                    {
                        let sentence = "the engine's answer does not fit the encryption of the \
                                        connection; its program is at fault"
                            .to_owned();
                        self.closing = Some(Disconnect::Malformed { sentence });
                        return LookupAnswer::Nothing;
                    }
                    Some(FrameKind::StreamPeer) => {
                        PeerGrant::decode(&frame).map(|grant| Some(LookupAnswer::Peer(grant)))
                    }
                    Some(FrameKind::StreamTicket) => TicketGrant::decode(&frame)
                        .map(|grant| Some(LookupAnswer::Ticket(grant.ticket))),
                    Some(FrameKind::StreamRefused) => Refused::decode(&frame).map(|refused| {
                        self.is_refused = true;
                        Some(LookupAnswer::Refused(refused))
                    }),
                    Some(FrameKind::StreamKeepalive) => decode_keepalive(&frame).map(|keepalive| {
                        self.liveness.handle_keepalive(now, &keepalive);
                        None
                    }),
                    _ => Ok(None),
                },
                Err(error) => {
                    self.closing = Some(error.into());
                    return LookupAnswer::Nothing;
                }
            };
            match answer {
                Ok(None) => {}
                Ok(Some(answer)) => {
                    if let LookupAnswer::Refused(refused) = &answer {
                        let cause = Disconnect::from_refused(refused, VersionRange::OURS);
                        self.closing = Some(cause);
                    }
                    return answer;
                }
                Err(error) => {
                    self.closing = Some(error.into());
                    return LookupAnswer::Nothing;
                }
            }
        }
    }

    pub(super) fn poll_output(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.out);
        // The login may have contained a password or a token.
        self.out.zeroize();
    }

    pub(super) fn poll_timeout(&self) -> Tick {
        let liveness = self.liveness.poll_timeout();
        let incomplete = self.frames.poll_timeout();
        incomplete.map_or(liveness, |incomplete| incomplete.min(liveness))
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::time::Duration;

    use trunkline_proto::FaultCode;

    use super::*;

    fn lookup() -> PeerLookup {
        let target = Target {
            url: "tl://localhost/x".to_owned(),
            incarnation: Incarnation::default(),
            program: String::new(),
            login: None,
        };
        PeerLookup::begin(&target, &Channel::default(), Tick::ZERO)
    }

    fn grant() -> Vec<u8> {
        let grant = TicketGrant {
            ticket: [7; 16],
            valid_for: Duration::from_secs(10),
        };
        let mut out = Vec::new();
        grant.encode(&mut out);
        out
    }

    /// The endpoint rejects an answer in which any single bit was altered, and does not wait for
    /// another answer.
    ///
    /// Behaviour: NS-12, NS-66.
    #[test]
    fn altered_answer_closes_the_connection_at_once_or_by_timeout() {
        let answer = grant();
        // Two bytes of the header have no meaning yet.
        for bit in (0..answer.len() * 8).filter(|bit| !matches!(bit / 8, 6 | 7)) {
            let mut altered = answer.clone();
            altered[bit / 8] ^= 1 << (bit % 8);
            let mut sut = lookup();
            let answer = sut.handle_input(Tick::ZERO, &mut altered.as_slice());
            assert!(matches!(answer, LookupAnswer::Nothing), "bit {bit}");
            // Keep-alives show that the directory is alive.
            for second in 1..=10 {
                let now = Tick::ZERO.saturating_add(Duration::from_secs(second));
                sut.liveness.handle_received(now);
                if sut.poll_timeout() <= now {
                    sut.handle_timeout(now);
                }
            }
            assert!(sut.wants_close().is_some(), "bit {bit}");
        }
        let mut sut = lookup();
        let answer = sut.handle_input(Tick::ZERO, &mut answer.as_slice());
        assert!(matches!(answer, LookupAnswer::Ticket(ticket) if ticket == [7; 16]));
    }

    #[test]
    fn full_engine_reports_when_to_retry() {
        let refused = Refused {
            code: FaultCode::Overloaded,
            versions: VersionRange::OURS,
            retry_after: Some(Duration::from_secs(2)),
            sentence: "too many connections".to_owned(),
        };
        let mut out = Vec::new();
        refused.encode(&mut out);
        let mut sut = lookup();
        let answer = sut.handle_input(Tick::ZERO, &mut out.as_slice());
        assert!(matches!(answer, LookupAnswer::Refused(_)));
        let retry_after = sut.wants_close().unwrap().retry_after();
        assert_eq!(retry_after, Some(Duration::from_secs(2)));
    }
}
