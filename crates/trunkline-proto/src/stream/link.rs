//! One endpoint of a stream, either a writer or a reader.

use std::time::Duration;

use trunkline_types::Tick;

use super::fault::StreamFault;
use super::input::{Input, Step, malformed};
use super::link_role::{LinkRole, Outcome};
use super::meeting::{
    Meeting, Mismatch, addresses_this_incarnation, any_incarnation, check, check_lineage,
    is_name_of, lineage, meet, opens_connections,
};
use super::options::{LinkOptions, Role};
use super::output::{ByteRange, RingBytes};
use super::pairing::Pair;
use super::reader::Reader;
use super::session::{Claim, Session};
use super::writer::Writer;
use crate::limits::HELLO_DEADLINE;
use crate::message::closing::{Goodbye, Refused};
use crate::message::single::{decode_empty, encode_empty};
use crate::message::stream::control::{decode_keepalive, encode_goodbye};
use crate::message::stream::directory::Identity;
use crate::message::stream::{StreamEnd, StreamHello, StreamWelcome};
use crate::{
    Disconnect, Fault, FaultCode, Features, Frame, FrameKind, PROTOCOL_VERSION, VersionRange,
};

pub type WriterLink = Link<Writer>;
pub type ReaderLink = Link<Reader>;

/// The result of accepting a hello.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Accepted {
    /// The connection that the new connection replaces. The caller must close the replaced
    /// connection and discard its input.
    pub replaced: Option<u64>,
}

/// Time after which a peer may dial again if it was refused by an endpoint that has finished its
/// stream. Such an endpoint remains only until its own peer knows of the end.
const RETRY_AFTER_END: Duration = Duration::from_secs(1);

/// One end of a stream, without I/O. See the [module](super) for the order of calls.
#[derive(Clone, Debug)]
pub struct Link<H> {
    pub(super) session: Session,
    pub(super) half: H,
}

impl<H: LinkRole> Link<H> {
    pub(super) fn with(options: LinkOptions, half: H, now: Tick) -> Self {
        Self {
            session: Session::new(options, now),
            half,
        }
    }

    /// Returns the time of the next dial, for the active endpoint; a past tick means now.
    pub fn poll_dial(&self) -> Option<Tick> {
        self.session.poll_dial()
    }

    /// Called when the active endpoint has opened a transport. `id` is the number by which the
    /// caller identifies the transport. `ticket` is the ticket from the directory, if there was
    /// one.
    pub fn handle_dialled(&mut self, now: Tick, id: u64, ticket: Option<[u8; 16]>) {
        self.session.attempt = self.session.attempt.saturating_add(1);
        let known = self.session.peer.as_ref();
        let takes_any = self.session.options.dials_anybody() && !self.half.is_ending();
        let expected = known.filter(|_| !takes_any);
        let expected = expected.map(|peer| peer.end.incarnation);
        // An endpoint that has finished its stream dials only its own peer, whose lineage is in its
        // journal.
        let of_journal = self.session.options.peer_lineage.map(any_incarnation);
        let (share, proof) = self.session.credentials();
        let hello = StreamHello {
            share,
            proof,
            versions: VersionRange::OURS,
            peer: expected.or(of_journal.filter(|_| self.half.is_ending())),
            end: self.session.end(self.half.state()),
            attempt: self.session.attempt,
            ticket,
        };
        hello.encode(&mut self.session.open(now, id).out);
    }

    /// Called when the dial failed, or the directory does not know the peer.
    pub fn handle_dial_failed(&mut self, now: Tick, cause: Disconnect) {
        // Later, the peer's own program may get its port back. If the user is unknown, the next dial may
        // find it: the connection may have ended while the system was asked.
        let is_first = self.session.peer.is_none() && self.session.fault.is_none();
        if let Disconnect::OtherUser { uid: Some(_), .. } = &cause
            && is_first
        {
            self.session.fault = Some(StreamFault::Refused {
                code: FaultCode::Denied,
                sentence: cause.to_string(),
            });
        }
        self.session.handle_dial_failed(now, cause);
    }

    /// Called when the directory refused to look up the peer.
    pub fn handle_lookup_refused(&mut self, now: Tick, refused: &Refused) {
        let is_first = self.session.peer.is_none();
        let retry = refused.retry_after.is_some();
        let fault = StreamFault::of_refusal(refused.code, &refused.sentence, retry, is_first);
        // The rights of the account may have been taken away only for a time.
        let is_final = is_first || refused.code != FaultCode::Denied;
        if self.session.fault.is_none() {
            self.session.fault = fault.filter(|_| is_final);
        }
        let cause = Disconnect::from_refused(refused, VersionRange::OURS);
        self.session.handle_dial_failed(now, cause);
    }

    /// Handles bytes received over this connection, and returns the number of bytes consumed. The
    /// remaining bytes belong in the range returned by
    /// [`next_payload_range`](Self::next_payload_range). Bytes of a replaced connection are discarded.
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
        while self.half.next_payload_range().is_none() && self.wants_close().is_none() {
            match input.next(rest)? {
                Step::Nothing => break,
                Step::Data(head) if self.session.up().is_some() => {
                    self.half.handle_data(&head)?;
                    self.session.handle_confirmed();
                }
                Step::Data(_) => {
                    return Err(malformed(
                        "the dialled endpoint sent S_DATA before S_WELCOME",
                    ));
                }
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
            self.session.handle_confirmed();
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
            // Before the welcome, a keep-alive comes from the directory, which sent it before handing
            // over the connection.
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
                    self.session.finish(None, code, "the stream has ended");
                }
                Outcome::PeerDestroyed(sentence) => {
                    let fault = StreamFault::PeerDestroyed { sentence };
                    let code = FaultCode::StreamDestroyed;
                    self.session
                        .finish(Some(fault), code, "the peer has received the abort");
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
                    // The peer no longer exists, or it is connected to a successor of this endpoint.
                    self.session.is_finished = true;
                } else if self.session.fault.is_none() {
                    self.session.fault = fault;
                }
                self.session
                    .close(Disconnect::from_refused(&refused, VersionRange::OURS));
                Ok(())
            }
            kind => Err(malformed(format!(
                "the dialled endpoint sent {kind} before S_WELCOME"
            ))),
        }
    }

    fn handle_welcome(&mut self, now: Tick, welcome: StreamWelcome) -> Result<(), Disconnect> {
        // Verify the identity before anything else, because a different program may be using the port
        // now.
        let Some(pair) = self.session.pair_of(&welcome) else {
            let sentence = format!(
                "the program that answers for {} is not the endpoint to which this endpoint was \
                 connected before: it does not have the shared secret",
                welcome.end.url
            );
            return Err(malformed(sentence));
        };
        let peer = welcome.end;
        let options = &self.session.options;
        let checked = check(options, H::WRITES, &peer);
        if let Err(fault) = checked.and_then(|()| check_lineage(options, &peer)) {
            let Fault { code, sentence } = fault;
            let reason = sentence.clone();
            let fault = StreamFault::Refused { code, sentence };
            self.session.finish(Some(fault), code, &reason);
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
                self.session
                    .handle_established(now, peer, meeting, true, None);
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
                let (code, reason) = (FaultCode::StreamConnected, sentence.clone());
                let fault = StreamFault::Refused { code, sentence };
                self.session.finish(Some(fault), code, &reason);
            }
        }
        Ok(())
    }

    /// Appends the frames to send now and returns the range of the ring to send after them. The frames
    /// and the range must be sent before the next poll. If the result is `None` and nothing was
    /// appended, there is nothing to send.
    pub fn poll_output(
        &mut self,
        now: Tick,
        ring: &dyn RingBytes,
        out: &mut Vec<u8>,
    ) -> Option<ByteRange> {
        let connection = self.session.connection.as_mut()?;
        out.append(&mut connection.out);
        if !connection.is_up {
            return None;
        }
        self.half.poll_output(now, ring, out)
    }

    /// Called when the transport has accepted all output so far.
    pub fn handle_sent(&mut self, id: u64) {
        if self.session.current(id).is_some_and(|c| c.is_up) {
            self.half.handle_sent();
        }
    }

    /// Turns checksums on or off for the bytes that a writer sends from now on.
    pub fn set_checked(&mut self, is_checked: bool) {
        self.half.set_checked(is_checked);
    }

    /// Sets whether this endpoint offers to share one ring with the peer, or accepts such an offer.
    /// Must be called before this endpoint sends its hello or welcome.
    pub fn set_shared(&mut self, is_shared: bool) {
        self.session.is_shared = is_shared;
        if !is_shared {
            self.half.leave_shared();
        }
    }

    /// Returns the time at which to call [`handle_timeout`](Self::handle_timeout) and then
    /// [`poll_output`](Self::poll_output); `None` if neither is needed.
    pub fn poll_timeout(&self) -> Option<Tick> {
        let is_up = self.is_connected();
        let half = self.half.poll_timeout().filter(|_| is_up);
        self.session.poll_timeout().into_iter().chain(half).min()
    }

    /// Like [`poll_timeout`](Self::poll_timeout), but omits timeouts that would only produce more
    /// output. For use while the transport has not accepted the last output.
    pub fn poll_timeout_while_sending(&self) -> Option<Tick> {
        self.session.poll_timeout()
    }

    /// Called when the time returned by [`poll_timeout`](Self::poll_timeout) has passed. Handle all
    /// received bytes first; otherwise, a stall of this process looks like a stall of the peer.
    pub fn handle_timeout(&mut self, now: Tick) {
        let was_up = self.is_connected();
        self.session
            .handle_timeout(now, self.half.remaining_bytes());
        if was_up && !self.is_connected() {
            self.half.handle_down();
        }
    }

    /// Called when the transport is closed or has failed.
    pub fn handle_disconnected(&mut self, now: Tick, id: u64, cause: Disconnect) {
        if self.session.handle_disconnected(now, id, cause) {
            self.half.handle_down();
        }
    }

    /// Closes an established connection for a reason outside the protocol, and sends `sentence` to the
    /// peer.
    pub fn reject_peer(&mut self, code: FaultCode, sentence: &str) {
        if let Some(connection) = self.session.up() {
            let goodbye = Goodbye {
                code,
                retry_after: Some(Duration::from_secs(1)),
                sentence: sentence.to_owned(),
            };
            encode_goodbye(&goodbye, &mut connection.out);
            self.session.close(Disconnect::ClosedLocally);
            self.half.handle_down();
        }
    }

    /// Called when the pair could not be stored in the journal for the next incarnation. If the peer
    /// has dialled, it must then get no welcome, because it would not recognise the next incarnation.
    /// Call this method before the welcome is polled. If this endpoint has dialled, the connection
    /// continues, because the peer recognises this endpoint by its share.
    pub fn reject_peer_unstored(&mut self, code: FaultCode, sentence: &str) {
        if self.session.pair.is_none_or(|pair| pair.offered.is_none()) {
            return;
        }
        if let Some(connection) = self.session.up() {
            connection.out.clear();
        }
        self.reject_peer(code, sentence);
    }

    /// Ends the stream because neither end has `bytes` bytes of it, and notifies the peer.
    pub fn lose(&mut self, bytes: u64) {
        let fault = StreamFault::DataLost { bytes };
        let sentence = fault.to_string();
        let code = FaultCode::StreamDataLost;
        self.session.finish(Some(fault), code, &sentence);
        self.half.handle_down();
    }

    /// Returns the reason to close the transport once all output is sent; `None` while the transport
    /// stays open.
    pub fn wants_close(&self) -> Option<&Disconnect> {
        self.session.connection.as_ref()?.closing.as_ref()
    }
}

/// Properties that can be read at any time.
impl<H> Link<H> {
    pub fn connection(&self) -> Option<u64> {
        self.session.connection.as_ref().map(|c| c.id)
    }

    pub fn is_connected(&self) -> bool {
        self.session.connection.as_ref().is_some_and(|c| c.is_up)
    }

    /// Returns the time at which the connection was lost; `None` if connected or never connected.
    pub fn away_since(&self) -> Option<Tick> {
        self.session.away_since
    }

    /// Returns the number of times that an established connection ended, including the end of the
    /// stream.
    pub fn disconnections(&self) -> u64 {
        self.session.disconnections
    }

    /// Returns the reason why the last connection ended or was not established.
    pub fn last_disconnect(&self) -> Option<&Disconnect> {
        self.session.last_disconnect.as_ref()
    }

    /// Returns the error with which the stream ended; `None` if the stream has not ended, or has ended
    /// regularly.
    pub fn fault(&self) -> Option<&StreamFault> {
        self.session.fault.as_ref()
    }

    /// Returns true if the stream has ended, either regularly or with an error.
    pub fn is_over(&self) -> bool {
        self.session.is_over()
    }

    /// Returns the peer's description of itself from the last established connection.
    pub fn peer(&self) -> Option<&StreamEnd> {
        self.session.peer.as_ref().map(|known| &known.end)
    }

    /// Returns who opened the last established connection; `None` if it is unknown, or if this endpoint
    /// has dialled.
    pub fn peer_identity(&self) -> Option<&str> {
        self.session.peer.as_ref()?.identity.as_deref()
    }

    /// Returns true if the two ends share a ring, as agreed when the last connection was established.
    pub fn is_shared(&self) -> bool {
        let peer = self.session.peer.as_ref();
        let agrees = peer.is_some_and(|peer| peer.end.features.contains(Features::SHARED_RING));
        agrees && self.session.is_shared
    }

    /// Returns the number of S_BELL frames received over the current connection.
    pub fn bells(&self) -> u64 {
        self.session.bells
    }

    /// Sends S_BELL if the two ends are connected.
    pub fn ring_bell(&mut self) {
        if let Some(connection) = self.session.up() {
            encode_empty(FrameKind::StreamBell, 0, &mut connection.out);
        }
    }

    /// Ends the stream for a reason outside the protocol.
    pub fn fail(&mut self, fault: StreamFault) {
        let sentence = fault.to_string();
        self.session
            .finish(Some(fault), FaultCode::StreamDestroyed, &sentence);
    }

    /// Closes the connection for a reason outside the protocol. The active endpoint then dials again.
    pub fn drop_connection(&mut self, cause: Disconnect) {
        self.session.close(cause);
    }

    /// Returns true if the peer has sent something since it was accepted, which shows that the peer
    /// has received the welcome.
    pub fn is_peer_confirmed(&self) -> bool {
        self.session
            .peer
            .as_ref()
            .is_some_and(|peer| peer.is_confirmed)
    }

    /// Returns the pair that this endpoint forms with its peer, once the two have met.
    pub fn pair(&self) -> Option<&Pair> {
        self.session.pair.as_ref()
    }

    pub fn options(&self) -> &LinkOptions {
        &self.session.options
    }
}

/// Admission of dialling peers, at the endpoint that is dialled.
impl<H: LinkRole> Link<H> {
    /// Called at the passive endpoint when the first frame of a transport is this hello, from a peer of
    /// an unknown identity. Pass the bytes after the hello to [`handle_control`](Self::handle_control).
    ///
    /// # Errors
    /// The refusal to send before closing the transport. An existing connection remains.
    pub fn handle_hello(
        &mut self,
        now: Tick,
        id: u64,
        hello: &StreamHello,
    ) -> Result<Accepted, Refused> {
        self.handle_hello_of(now, id, hello, &None)
    }

    /// Like [`handle_hello`](Self::handle_hello), from a peer of this identity.
    ///
    /// # Errors
    /// See [`handle_hello`](Self::handle_hello).
    pub fn handle_hello_of(
        &mut self,
        now: Tick,
        id: u64,
        hello: &StreamHello,
        identity: &Identity,
    ) -> Result<Accepted, Refused> {
        let claim = self.session.claim(hello);
        self.admit(hello, claim, identity)
            .and_then(|meeting| self.accept(now, id, hello, meeting, claim, identity))
            .map_err(|(fault, retry_after)| Refused {
                code: fault.code,
                versions: VersionRange::OURS,
                retry_after,
                sentence: fault.sentence,
            })
    }

    fn admit(
        &mut self,
        hello: &StreamHello,
        claim: Claim,
        identity: &Identity,
    ) -> Result<Meeting, Refusal> {
        if self.session.is_over() {
            let sentence = FaultCode::StreamDestroyed.meaning();
            return Err((Fault::new(FaultCode::StreamDestroyed, sentence), None));
        }
        let VersionRange { min, max } = hello.versions;
        if !(min..=max).contains(&PROTOCOL_VERSION) {
            let sentence = format!(
                "the dialling endpoint speaks protocol versions {min} to {max}, and this endpoint \
                 speaks version {}; update the older program",
                PROTOCOL_VERSION
            );
            return Err((Fault::new(FaultCode::VersionMismatch, sentence), None));
        }
        if claim == Claim::Impostor {
            // Give an impostor no other information, and leave the state of this endpoint unchanged.
            let sentence = "this endpoint is connected to another endpoint with the same \
                            incarnation, and only that endpoint can reconnect";
            return Err((Fault::new(FaultCode::Denied, sentence), None));
        }
        if claim != Claim::Proven && hello.share.is_none() {
            let sentence =
                "the first hello between two endpoints must contain a share of their secret";
            return Err((Fault::new(FaultCode::Malformed, sentence), None));
        }
        let options = &self.session.options;
        check(options, H::WRITES, &hello.end).map_err(|fault| (fault, None))?;
        let refused = |code: FaultCode| Err((Fault::new(code, code.meaning()), None));
        let dials = self.session.options.role == Role::Active;
        let is_mutual = !options.peer_url.is_empty() && !hello.end.peer_url.is_empty();
        let own = (options.url.as_str(), options.incarnation);
        if is_mutual && opens_connections(own, (&hello.end.url, hello.end.incarnation)) {
            let code = FaultCode::StreamOutdated;
            let sentence = format!("{} opens the connection itself", options.url);
            return Err((Fault::new(code, sentence), Some(HELLO_DEADLINE)));
        }
        if dials && !is_mutual {
            let sentence = format!(
                "{} cannot be dialled, because it dials its peer itself",
                options.url
            );
            return Err((Fault::new(FaultCode::StreamPeer, sentence), None));
        }
        if let Some(known) = &self.session.peer {
            if !known.may_have_given_up() && !is_name_of(&known.end.url, &hello.end.url) {
                return refused(FaultCode::StreamConnected);
            }
            let is_known = claim != Claim::Stranger || known.may_have_given_up();
            if !is_known && !known.is_succeeded_by(identity) {
                // Otherwise, any program that may use the stream could end it during an outage.
                let sentence = format!(
                    "{} is connected to an endpoint of another account or user with the same name; \
                     choose another name, or create {} again",
                    options.url, options.url
                );
                return Err((Fault::new(FaultCode::Denied, sentence), None));
            }
            let is_same = known.end.incarnation == hello.end.incarnation;
            if is_same && hello.attempt <= self.session.peer_attempt {
                return refused(FaultCode::StreamOutdated);
            }
            if !is_same && self.is_connected() {
                // The dialling endpoint may be the next incarnation of the peer, if the death of the
                // previous incarnation is not yet detected.
                let code = FaultCode::StreamConnected;
                let retry = self.session.options.deadline;
                return Err((Fault::new(code, code.meaning()), Some(retry)));
            }
        }
        if !addresses_this_incarnation(&self.session.options, hello.peer) {
            let options = &self.session.options;
            let has_journal = hello.end.has_journal || options.has_journal;
            // If the dialling endpoint has finished its stream, no data is lost.
            let is_at_end = hello
                .peer
                .is_some_and(|peer| peer == any_incarnation(lineage(peer)));
            let is_first = self.session.peer.is_none() && !options.had_stream;
            if is_first && has_journal && !is_at_end {
                // One of the two endpoints continues a stream from its journal, but the other endpoint
                // never had that stream. If the dialling endpoint has no journal, it dials again, and
                // its next hello addresses this incarnation.
                self.session.fault = Some(StreamFault::LocalRestarted);
            }
            return refused(FaultCode::StreamRestarted);
        }
        let checked = check_lineage(&self.session.options, &hello.end);
        if checked.is_err() && self.half.is_ending() {
            return self.refuse_after_end();
        }
        // A stream with a journal waits for its own peer, which has the secret.
        checked.map_err(|fault| (fault, None))?;
        let known = self.session.peer.as_ref();
        match meet(&self.session.options, known, &hello.end) {
            Some(Meeting::First | Meeting::Successor)
                if known.is_some() && self.half.is_ending() =>
            {
                self.refuse_after_end()
            }
            Some(meeting) => Ok(meeting),
            None => {
                if !self.session.options.has_journal {
                    self.session.fault = Some(StreamFault::PeerRestarted);
                }
                refused(FaultCode::StreamRestarted)
            }
        }
    }

    /// Refuses a peer because this endpoint has finished its stream and waits only until its own peer
    /// knows of the end. Other peers must connect to the next endpoint with this name.
    fn refuse_after_end<T>(&self) -> Result<T, Refusal> {
        let code = FaultCode::StreamConnected;
        Err((Fault::new(code, code.meaning()), Some(RETRY_AFTER_END)))
    }

    fn accept(
        &mut self,
        now: Tick,
        id: u64,
        hello: &StreamHello,
        meeting: Meeting,
        claim: Claim,
        identity: &Identity,
    ) -> Result<Accepted, Refusal> {
        match self.half.resume(&hello.end, meeting) {
            Ok(()) => {}
            // An unknown peer gets no information about the progress of this endpoint, and cannot
            // end its stream.
            Err(Mismatch::Nonsense(_) | Mismatch::Lost(_)) if claim == Claim::Stranger => {
                let sentence = format!(
                    "the position of {} does not match the stream of {}; create both endpoints again",
                    hello.end.url, self.session.options.url
                );
                return Err((Fault::new(FaultCode::StreamDataLost, sentence), None));
            }
            Err(Mismatch::Nonsense(sentence)) => {
                return Err((Fault::new(FaultCode::Malformed, sentence), None));
            }
            Err(Mismatch::Lost(bytes)) => {
                let fault = StreamFault::DataLost { bytes };
                let sentence = fault.to_string();
                self.session.fault = Some(fault);
                return Err((Fault::new(FaultCode::StreamDataLost, sentence), None));
            }
            Err(Mismatch::TooSmall(sentence)) => {
                return Err((Fault::new(FaultCode::StreamConnected, sentence), None));
            }
        }
        let replaced = self.session.connection.as_ref().map(|c| c.id);
        if let Some(old) = replaced {
            self.session
                .handle_disconnected(now, old, Disconnect::PeerClosed);
        }
        self.session.peer_attempt = hello.attempt;
        // Of two endpoints that name each other, only the peer dials from now on.
        self.session.stop_dialling();
        let (welcome, pair) = self.session.welcome(hello, claim, self.half.state());
        self.session.pair = pair;
        welcome.encode(&mut self.session.open(now, id).out);
        let (end, identity) = (hello.end.clone(), identity.clone());
        self.session
            .handle_established(now, end, meeting, false, identity);
        Ok(Accepted { replaced })
    }
}

/// The reason for refusing a hello, and the time after which the peer may dial again.
type Refusal = (Fault, Option<Duration>);

/// Returns true if a peer that closes with this code will not continue the stream in any later
/// incarnation.
fn is_final(code: FaultCode) -> bool {
    matches!(code, FaultCode::StreamDataLost | FaultCode::StreamRestarted)
}
