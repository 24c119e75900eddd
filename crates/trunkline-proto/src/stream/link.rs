//! One end of a stream, writing or reading.

use std::time::Duration;

mod admission;

use trunkline_types::Tick;

use super::fault::StreamFault;
use super::half::{Half, Outcome};
use super::input::{Input, Step, malformed};
use super::meeting::{Mismatch, any_life, check, check_lineage, meet};
use super::options::LinkOptions;
use super::output::{Place, RingBytes};
use super::reader::Reader;
use super::session::Session;
use super::writer::Writer;
use crate::message::closing::{Goodbye, Refused};
use crate::message::single::decode_empty;
use crate::message::stream::control::{decode_keepalive, encode_goodbye};
use crate::message::stream::{StreamHello, StreamWelcome};
use crate::{Disconnect, Fault, FaultCode, Frame, FrameKind, VersionRange};

pub use self::admission::Accepted;

pub type WriterLink = Link<Writer>;
pub type ReaderLink = Link<Reader>;

/// One end of a stream, without its I/O. See the [module](super) for the order of calls.
#[derive(Clone, Debug)]
pub struct Link<H> {
    pub(super) session: Session,
    pub(super) half: H,
}

impl<H: Half> Link<H> {
    pub(super) fn with(options: LinkOptions, half: H, now: Tick) -> Self {
        Self {
            session: Session::new(options, now),
            half,
        }
    }

    /// For the active end: the time of the next dial; a past tick means now.
    pub fn poll_dial(&self) -> Option<Tick> {
        self.session.poll_dial()
    }

    /// Called when the active end has a transport, which the caller numbers with `id`. `ticket` is
    /// the ticket from the directory, if there was one.
    pub fn handle_dialled(&mut self, now: Tick, id: u64, ticket: Option<[u8; 16]>) {
        self.session.attempt = self.session.attempt.saturating_add(1);
        let known = self.session.peer.as_ref();
        let takes_any = self.session.options.dials_anybody() && !self.half.is_ending();
        let meant = known.filter(|_| !takes_any);
        let meant = meant.map(|peer| peer.end.incarnation);
        // At its end it dials only its own peer, whose lineage is in its journal.
        let of_journal = self.session.options.peer_lineage.map(any_life);
        let (share, proof) = self.session.credentials();
        let hello = StreamHello {
            share,
            proof,
            versions: VersionRange::OURS,
            peer: meant.or(of_journal.filter(|_| self.half.is_ending())),
            end: self.session.end(self.half.state()),
            attempt: self.session.attempt,
            ticket,
        };
        hello.encode(&mut self.session.open(now, id).out);
    }

    /// Called when the dial failed, or the directory does not know the peer.
    pub fn handle_dial_failed(&mut self, now: Tick, cause: Disconnect) {
        self.session.handle_dial_failed(now, cause);
    }

    /// Called when the directory refused to say where the peer is.
    pub fn handle_lookup_refused(&mut self, now: Tick, refused: &Refused) {
        let is_first = self.session.peer.is_none();
        let retry = refused.retry_after.is_some();
        let fault = StreamFault::of_refusal(refused.code, &refused.sentence, retry, is_first);
        if self.session.fault.is_none() {
            self.session.fault = fault;
        }
        let cause = Disconnect::from_refused(refused, VersionRange::OURS);
        self.session.handle_dial_failed(now, cause);
    }

    /// Handles bytes received over this connection and returns how many were taken. The rest
    /// belongs into the place returned by [`wants_payload`](Self::wants_payload). Bytes of a
    /// connection that no longer counts are dropped.
    pub fn handle_control(&mut self, now: Tick, id: u64, bytes: &[u8]) -> usize {
        let Some(connection) = self.session.current(id) else {
            return bytes.len();
        };
        connection.liveness.handle_received(now);
        let mut input = std::mem::take(&mut connection.input);
        let mut rest = bytes;
        let result = self.take_frames(now, &mut input, &mut rest);
        if let Some(connection) = self.session.current(id) {
            connection.input = input;
        }
        if let Err(cause) = result {
            self.session.close(cause);
            self.half.handle_down();
        }
        if self.wants_close().is_some() {
            return bytes.len();
        }
        bytes.len().saturating_sub(rest.len())
    }

    fn take_frames(
        &mut self,
        now: Tick,
        input: &mut Input,
        rest: &mut &[u8],
    ) -> Result<(), Disconnect> {
        while self.half.wants_payload().is_none() && self.wants_close().is_none() {
            match input.next(rest)? {
                Step::Nothing => break,
                Step::Data(head) if self.session.up().is_some() => {
                    self.half.handle_data(&head)?;
                    self.session.handle_heard();
                }
                Step::Data(_) => return Err(malformed("S_DATA before S_WELCOME")),
                Step::Frame(frame) => self.handle_frame(now, &frame)?,
            }
        }
        Ok(())
    }

    fn handle_frame(&mut self, now: Tick, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let Some(kind) = frame.kind() else {
            return Ok(());
        };
        if kind != FrameKind::StreamGoodbye {
            self.session.handle_heard();
        }
        match kind {
            FrameKind::StreamGoodbye => {
                let goodbye = Goodbye::decode(frame)?;
                if self.half.is_ending() {
                    self.session.is_finished = true;
                } else if is_final(goodbye.code) {
                    self.session.fault = Some(StreamFault::Refused {
                        code: goodbye.code,
                        sentence: goodbye.sentence.clone(),
                    });
                }
                self.session.close(goodbye.into());
                self.half.handle_down();
            }
            // Before the welcome it comes from the directory, which did not know that its part was
            // over.
            FrameKind::StreamKeepalive => {
                let keepalive = decode_keepalive(frame)?;
                if let Some(connection) = self.session.up() {
                    connection.liveness.handle_keepalive(now, &keepalive);
                }
            }
            _ if self.session.up().is_none() => self.handle_answer(now, kind, frame)?,
            FrameKind::StreamBell => {
                decode_empty(frame)?;
                self.session.bells = self.session.bells.saturating_add(1);
            }
            _ => match self.half.handle_frame(frame)? {
                Outcome::Continued => {}
                Outcome::Finished => {
                    let code = FaultCode::StreamDestroyed;
                    self.session.finish(None, code, "the stream is at its end");
                }
                Outcome::PeerDestroyed(sentence) => {
                    let fault = StreamFault::PeerDestroyed { sentence };
                    let code = FaultCode::StreamDestroyed;
                    self.session.finish(Some(fault), code, "it is known");
                }
            },
        }
        Ok(())
    }

    fn handle_answer(
        &mut self,
        now: Tick,
        kind: FrameKind,
        frame: &Frame<'_>,
    ) -> Result<(), Disconnect> {
        match kind {
            FrameKind::StreamWelcome => {
                let welcome = StreamWelcome::decode(frame)?;
                self.handle_welcome(now, welcome)
            }
            FrameKind::StreamRefused => {
                let refused = Refused::decode(frame)?;
                let is_first = self.session.peer.is_none();
                let retry = refused.retry_after.is_some();
                let fault =
                    StreamFault::of_refusal(refused.code, &refused.sentence, retry, is_first);
                if fault.is_some() && self.half.is_ending() {
                    // Its peer is gone, or another endpoint has taken its place.
                    self.session.is_finished = true;
                } else if self.session.fault.is_none() {
                    self.session.fault = fault;
                }
                self.session
                    .close(Disconnect::from_refused(&refused, VersionRange::OURS));
                Ok(())
            }
            kind => Err(malformed(format!("{kind} before S_WELCOME"))),
        }
    }

    fn handle_welcome(&mut self, now: Tick, welcome: StreamWelcome) -> Result<(), Disconnect> {
        // Checked before anything else in the welcome, because any program may have the port now.
        let Some(pair) = self.session.pair_of(&welcome) else {
            let sentence = format!(
                "who answers for {} is not the endpoint that this one was connected with: it does \
                 not have what only the two have",
                welcome.end.url
            );
            return Err(malformed(sentence));
        };
        let peer = welcome.end;
        let options = &self.session.options;
        let checked = check(options, H::WRITES, &peer);
        if let Err(fault) = checked.and_then(|()| check_lineage(options, &peer)) {
            let Fault { code, sentence } = fault;
            let said = sentence.clone();
            let fault = StreamFault::Refused { code, sentence };
            self.session.finish(Some(fault), code, &said);
            return Ok(());
        }
        let known = self.session.peer.as_ref();
        let Some(meeting) = meet(&self.session.options, known, &peer) else {
            let fault = StreamFault::PeerRestarted;
            let code = FaultCode::StreamRestarted;
            self.session.finish(Some(fault), code, code.meaning());
            return Ok(());
        };
        match self.half.resume(&peer, meeting) {
            Ok(()) => {
                self.session.pair = Some(pair);
                self.session.go_up(now, peer, meeting, true);
                self.session.say_alive(now);
            }
            Err(Mismatch::Nonsense(sentence)) => return Err(malformed(sentence)),
            Err(Mismatch::Lost(bytes)) => {
                let fault = StreamFault::DataLost { bytes };
                let sentence = fault.to_string();
                let code = FaultCode::StreamDataLost;
                self.session.finish(Some(fault), code, &sentence);
            }
            Err(Mismatch::TooSmall(sentence)) => {
                let (code, said) = (FaultCode::StreamConnected, sentence.clone());
                let fault = StreamFault::Refused { code, sentence };
                self.session.finish(Some(fault), code, &said);
            }
        }
        Ok(())
    }

    /// Appends the frames to send now and returns the range of the ring to send after them. Send
    /// all of it before polling again. If the result is `None` and nothing was appended, there is
    /// nothing to send.
    pub fn poll_output(
        &mut self,
        now: Tick,
        ring: &dyn RingBytes,
        out: &mut Vec<u8>,
    ) -> Option<Place> {
        let connection = self.session.connection.as_mut()?;
        out.append(&mut connection.out);
        if !connection.is_up {
            return None;
        }
        self.half.poll_output(now, ring, out)
    }

    /// Called when all output so far was handed to the transport.
    pub fn handle_sent(&mut self, id: u64) {
        if self.session.current(id).is_some_and(|c| c.is_up) {
            self.half.handle_sent();
        }
    }

    /// Selects whether the bytes that a writer sends from now on carry checksums.
    pub fn set_checked(&mut self, is_checked: bool) {
        self.half.set_checked(is_checked);
    }

    /// Offers to share one ring with the peer, or confirms it. Must be called before the hello of
    /// either end.
    pub fn set_shared(&mut self, is_shared: bool) {
        self.session.is_shared = is_shared;
        if !is_shared {
            self.half.leave_shared();
        }
    }

    /// The time at which to call [`handle_timeout`](Self::handle_timeout) and then
    /// [`poll_output`](Self::poll_output); `None` if neither is needed.
    pub fn poll_timeout(&self) -> Option<Tick> {
        let is_up = self.is_connected();
        let half = self.half.poll_timeout().filter(|_| is_up);
        self.session.poll_timeout().into_iter().chain(half).min()
    }

    /// The same while the transport has not accepted the last output: timeouts that would only
    /// produce more output are left out.
    pub fn poll_timeout_while_sending(&self) -> Option<Tick> {
        self.session.poll_timeout()
    }

    /// Called when the time returned by [`poll_timeout`](Self::poll_timeout) has passed. Handle the
    /// received bytes first, otherwise a stall of this process looks like one of the peer.
    pub fn handle_timeout(&mut self, now: Tick) {
        let was_up = self.is_connected();
        self.session.handle_timeout(now, self.half.left_bytes());
        if was_up && !self.is_connected() {
            self.half.handle_down();
        }
    }

    /// Called when the transport is gone.
    pub fn handle_disconnected(&mut self, now: Tick, id: u64, cause: Disconnect) {
        if self.session.handle_disconnected(now, id, cause) {
            self.half.handle_down();
        }
    }

    /// Ends the connection, if there is one, for a reason outside the protocol. The peer receives
    /// the sentence.
    pub fn turn_away(&mut self, code: FaultCode, sentence: &str) {
        if let Some(connection) = self.session.up() {
            let goodbye = Goodbye {
                code,
                retry_after: Some(Duration::from_secs(1)),
                sentence: sentence.to_owned(),
            };
            encode_goodbye(&goodbye, &mut connection.out);
            self.session.close(Disconnect::Local);
            self.half.handle_down();
        }
    }

    /// Called when the information by which the next life of this end recognises its peer could not
    /// be stored. A peer that dialled must then not be answered, because it would take the next
    /// life for a stranger. Call this before the answer is polled. An end that dialled continues,
    /// because its share identifies it.
    pub fn turn_away_unstored(&mut self, code: FaultCode, sentence: &str) {
        if self.session.pair.is_none_or(|pair| pair.offered.is_none()) {
            return;
        }
        if let Some(connection) = self.session.up() {
            connection.out.clear();
        }
        self.turn_away(code, sentence);
    }

    /// Ends the stream because this many bytes are at neither end, and notifies the peer.
    pub fn lose(&mut self, bytes: u64) {
        let fault = StreamFault::DataLost { bytes };
        let sentence = fault.to_string();
        let code = FaultCode::StreamDataLost;
        self.session.finish(Some(fault), code, &sentence);
        self.half.handle_down();
    }

    /// The reason to close the transport once all output is sent; `None` while it stays open.
    pub fn wants_close(&self) -> Option<&Disconnect> {
        self.session.connection.as_ref()?.closing.as_ref()
    }
}

/// Returns true if a peer that closes with this code will not continue in any later life.
fn is_final(code: FaultCode) -> bool {
    matches!(code, FaultCode::StreamDataLost | FaultCode::StreamRestarted)
}
