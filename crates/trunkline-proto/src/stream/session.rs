//! The current connection of an endpoint, the identity of its peer, and the time of the next dial.

use std::time::Duration;

use trunkline_types::Tick;

use super::fault::StreamFault;
use super::input::Input;
use super::meeting::{KnownPeer, Meeting, any_incarnation, claims_to_be_known, lineage};
use super::options::{LinkOptions, Role};
use super::pairing::{Pair, Purpose, Secret};
use crate::limits::HELLO_DEADLINE;
use crate::message::closing::Goodbye;
use crate::message::stream::control::{encode_goodbye, encode_keepalive};
use crate::message::stream::directory::Identity;
use crate::message::stream::{EndState, StreamEnd, StreamHello, StreamWelcome};
use crate::{Backoff, Disconnect, FaultCode, Features, Liveness, LivenessAction};

/// Longest wait before a dial. It is shorter than for a client of an engine: a stream has only one
/// peer, so there is no burst of clients that reconnect at the same time, and the writer's buffer must
/// last until a dial succeeds.
pub const REDIAL_MAX: Duration = Duration::from_millis(400);

/// The state of one transport connection.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    /// The number by which the caller identifies the transport.
    pub(super) id: u64,
    pub(super) input: Input,
    /// Frames to send before anything else.
    pub(super) out: Vec<u8>,
    /// True while both ends have accepted each other.
    pub(super) is_up: bool,
    /// True if the connection has been up, even if it is closing now.
    was_up: bool,
    /// The reason to close the connection once `out` is sent.
    pub(super) closing: Option<Disconnect>,
    /// Time of the dial or of the received hello.
    opened_at: Tick,
    pub(super) liveness: Liveness,
}

/// The state of an endpoint, except for its positions.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) options: LinkOptions,
    pub(super) peer: Option<KnownPeer>,
    /// The pair with the peer, or with the peer recorded in the journal.
    pub(super) pair: Option<Pair>,
    pub(super) connection: Option<Connection>,
    /// True if both ends share a ring, or this endpoint offers to share one.
    pub(super) is_shared: bool,
    /// Number of S_BELLs received over the current connection.
    pub(super) bells: u64,
    /// Attempt number of the peer's last accepted dial.
    pub(super) peer_attempt: u64,
    pub(super) fault: Option<StreamFault>,
    /// True if no further connection is needed.
    pub(super) is_finished: bool,
    /// Number of dials of this endpoint.
    pub(super) attempt: u64,
    /// Time of the next dial; `None` if this endpoint does not dial.
    dial_at: Option<Tick>,
    backoff: Backoff,
    /// State of the random number generator.
    random: u64,
    /// Number of established connections that have ended.
    pub(super) disconnections: u64,
    /// Time at which the last connection ended; `None` while connected.
    pub(super) away_since: Option<Tick>,
    /// The reason why the last connection ended or was not established.
    pub(super) last_disconnect: Option<Disconnect>,
}

/// The identity that a dialling endpoint claims, and whether the claim is proved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Claim {
    /// The dialling endpoint does not claim to be the previous peer.
    Stranger,
    /// The dialling endpoint claims to be the previous peer, and has proved that it has the secret of
    /// the pair.
    Proven,
    /// The dialling endpoint claims to be the previous peer without proof, but may not have received
    /// the welcome that completes the secret.
    Unanswered,
    /// The dialling endpoint claims to be the previous peer, and its proof is wrong or missing.
    Impostor,
}

impl Connection {
    fn say_alive(&mut self, now: Tick) {
        let keepalive = self.liveness.keepalive(now, 0, 0);
        encode_keepalive(&keepalive, &mut self.out);
    }
}

impl Session {
    pub(super) fn new(options: LinkOptions, now: Tick) -> Self {
        Self {
            peer: None,
            pair: options.pair,
            connection: None,
            is_shared: false,
            bells: 0,
            peer_attempt: 0,
            fault: None,
            is_finished: false,
            attempt: 0,
            dial_at: (options.role == Role::Active).then_some(now),
            backoff: Backoff::new(Backoff::BASE, REDIAL_MAX),
            random: options.seed,
            disconnections: 0,
            away_since: None,
            last_disconnect: None,
            options,
        }
    }

    fn features(&self) -> Features {
        let feature = |is_set, feature| if is_set { feature } else { Features::NONE };
        feature(self.is_shared, Features::SHARED_RING)
            .or(feature(self.options.drops, Features::DROPS))
    }

    /// Returns this endpoint's description of itself.
    pub(super) fn end(&self, state: EndState) -> StreamEnd {
        let options = &self.options;
        StreamEnd {
            features: self.features(),
            incarnation: options.incarnation,
            url: options.url.clone(),
            peer_url: options.peer_url.clone(),
            data_type: options.data_type.clone(),
            capacity: options.capacity,
            bytes_max: options.bytes_max,
            has_journal: options.has_journal,
            program: options.program.clone(),
            state,
        }
    }

    /// Returns the share to offer with the current dial. Without a pair, the welcome to an earlier
    /// dial may have been lost, so the endpoint offers the same share again.
    fn offered_share(&self) -> Secret {
        let number = match self.pair {
            Some(_) => self.attempt,
            None => 0,
        };
        self.options.secret.offer(number)
    }

    /// Returns the credentials for the hello of the current dial: the share, and the proof if this
    /// endpoint has met its peer.
    pub(super) fn credentials(&self) -> (Option<Secret>, Option<Secret>) {
        let (own, attempt) = (self.options.incarnation, self.attempt);
        let proof = self.pair.map(|pair| {
            let to = any_incarnation(pair.lineage);
            pair.secret.proof(Purpose::Hello, own, to, attempt)
        });
        (Some(self.offered_share()), proof)
    }

    /// Determines which identity a dialling endpoint claims, and whether the claim is proved.
    pub(super) fn claim(&self, hello: &StreamHello) -> Claim {
        let known = self.peer.as_ref();
        if !claims_to_be_known(&self.options, known, &hello.end) {
            return Claim::Stranger;
        }
        let Some(pair) = &self.pair else {
            return Claim::Unanswered;
        };
        let (own, peer) = (self.options.incarnation, hello.end.incarnation);
        let proof = pair.secret.proof(Purpose::Hello, peer, own, hello.attempt);
        if hello.proof == Some(proof) {
            Claim::Proven
        } else if (hello.share.is_some() && hello.share == pair.offered)
            || known.is_some_and(|known| !known.is_confirmed)
        {
            Claim::Unanswered
        } else {
            Claim::Impostor
        }
    }

    /// Builds the welcome of this endpoint, and the pair that the two endpoints form from now on.
    pub(super) fn welcome(
        &self,
        hello: &StreamHello,
        claim: Claim,
        state: EndState,
    ) -> (StreamWelcome, Option<Pair>) {
        let mut welcome = StreamWelcome::new(self.end(state));
        let (own, peer) = (self.options.incarnation, hello.end.incarnation);
        let pair = self.pair.filter(|_| claim == Claim::Proven);
        if let Some(pair) = pair {
            let proof = pair
                .secret
                .proof(Purpose::Welcome, own, peer, hello.attempt);
            welcome.proof = Some(proof);
            return (welcome, Some(pair));
        }
        let pair = hello.share.map(|offered| {
            let answered = self.options.secret.answer(peer, hello.attempt, &offered);
            welcome.share = Some(answered);
            Pair {
                lineage: lineage(peer),
                secret: Secret::of_pair(&offered, &answered),
                offered: Some(offered),
            }
        });
        (welcome, pair)
    }

    /// Called when the dialled endpoint has sent a welcome. Returns the pair that the two endpoints
    /// form from now on, or `None` if the dialled endpoint has not proved the identity that it claims.
    pub(super) fn pair_of(&self, welcome: &StreamWelcome) -> Option<Pair> {
        let (own, peer) = (self.options.incarnation, welcome.end.incarnation);
        let is_claimed = claims_to_be_known(&self.options, self.peer.as_ref(), &welcome.end);
        if let Some(pair) = self.pair.filter(|_| is_claimed) {
            let proof = pair.secret.proof(Purpose::Welcome, peer, own, self.attempt);
            let is_proven = welcome.proof == Some(proof);
            return Some(pair).filter(|_| is_proven);
        }
        let answered = welcome.share?;
        Some(Pair {
            lineage: lineage(peer),
            secret: Secret::of_pair(&self.offered_share(), &answered),
            offered: None,
        })
    }

    pub(super) fn is_over(&self) -> bool {
        self.fault.is_some() || self.is_finished
    }

    pub(super) fn poll_dial(&self) -> Option<Tick> {
        if self.is_over() || self.connection.is_some() {
            return None;
        }
        self.dial_at
    }

    /// Returns the connection with this number, if it is the current one.
    pub(super) fn current(&mut self, id: u64) -> Option<&mut Connection> {
        self.connection.as_mut().filter(|c| c.id == id)
    }

    /// Returns the current connection, if it is up.
    pub(super) fn up(&mut self) -> Option<&mut Connection> {
        self.connection.as_mut().filter(|c| c.is_up)
    }

    /// Replaces the current connection with a new one.
    pub(super) fn open(&mut self, now: Tick, id: u64) -> &mut Connection {
        let liveness = Liveness::new(now, self.options.keepalive, self.options.deadline);
        self.bells = 0;
        self.connection.insert(Connection {
            id,
            input: Input::default(),
            out: Vec::new(),
            is_up: false,
            was_up: false,
            closing: None,
            opened_at: now,
            liveness,
        })
    }

    /// Called when both ends have accepted each other. `is_confirmed` is true if the peer is known to
    /// have accepted this endpoint.
    pub(super) fn handle_established(
        &mut self,
        now: Tick,
        end: StreamEnd,
        meeting: Meeting,
        is_confirmed: bool,
        identity: Identity,
    ) {
        let known = self.peer.as_ref();
        let same = known.filter(|known| known.end.incarnation == end.incarnation);
        self.peer = Some(KnownPeer {
            is_confirmed: is_confirmed || same.is_some_and(|known| known.is_confirmed),
            meeting: same.map_or(meeting, |known| known.meeting),
            end,
            identity,
        });
        self.away_since = None;
        self.backoff.reset();
        if let Some(connection) = &mut self.connection {
            connection.is_up = true;
            connection.was_up = true;
            connection.liveness = Liveness::new(now, self.options.keepalive, self.options.deadline);
        }
    }

    /// Sends a keep-alive, which shows the peer that this endpoint has received its frames.
    pub(super) fn say_alive(&mut self, now: Tick) {
        if let Some(connection) = self.up() {
            connection.say_alive(now);
        }
    }

    /// Called for frames that a peer sends only once it has accepted this endpoint.
    pub(super) fn handle_confirmed(&mut self) {
        if let (Some(peer), true) = (
            &mut self.peer,
            self.connection.as_ref().is_some_and(|c| c.is_up),
        ) {
            peer.is_confirmed = true;
        }
    }

    /// Closes the connection and sends the reason to the peer.
    pub(super) fn close(&mut self, cause: Disconnect) {
        if let Some(connection) = &mut self.connection {
            if let Some(goodbye) = cause.goodbye() {
                encode_goodbye(&goodbye, &mut connection.out);
            }
            connection.is_up = false;
            connection.closing.get_or_insert(cause);
        }
    }

    /// Ends the stream and sends this reason to the peer.
    pub(super) fn finish(&mut self, fault: Option<StreamFault>, code: FaultCode, sentence: &str) {
        if let Some(connection) = &mut self.connection {
            let goodbye = Goodbye {
                code,
                retry_after: None,
                sentence: sentence.to_owned(),
            };
            encode_goodbye(&goodbye, &mut connection.out);
        }
        self.is_finished = true;
        if self.fault.is_none() {
            self.fault = fault;
        }
        self.close(Disconnect::ClosedLocally);
    }

    /// Called when a transport is closed or has failed. Returns false if it was not the current
    /// transport.
    pub(super) fn handle_disconnected(&mut self, now: Tick, id: u64, cause: Disconnect) -> bool {
        if self.current(id).is_none() {
            return false;
        }
        let Some(connection) = self.connection.take() else {
            return false;
        };
        let cause = connection.closing.unwrap_or(cause);
        if connection.was_up {
            self.disconnections = self.disconnections.saturating_add(1);
            self.away_since = Some(now);
        }
        self.plan_dial(now, cause.retry_after());
        self.last_disconnect = Some(cause);
        true
    }

    pub(super) fn handle_dial_failed(&mut self, now: Tick, cause: Disconnect) {
        self.plan_dial(now, cause.retry_after());
        self.last_disconnect = Some(cause);
    }

    pub(super) fn stop_dialling(&mut self) {
        self.options.role = Role::Passive;
        self.dial_at = None;
    }

    fn plan_dial(&mut self, now: Tick, retry_after: Option<Duration>) {
        // SplitMix64; any generator with a good distribution would do.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut random = self.random;
        random = (random ^ (random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        random = (random ^ (random >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        if self.options.role == Role::Active {
            let wait = self.backoff.next(random ^ (random >> 31), retry_after);
            self.dial_at = Some(now.saturating_add(wait));
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Tick> {
        let gone = match (self.away_since, self.options.gone_after) {
            (Some(since), Some(after)) if !self.is_over() => Some(since.saturating_add(after)),
            _ => None,
        };
        let connection = self.connection.as_ref().and_then(|connection| {
            if connection.is_up {
                Some(connection.liveness.poll_timeout())
            } else if connection.closing.is_none() {
                Some(connection.opened_at.saturating_add(HELLO_DEADLINE))
            } else {
                None
            }
        });
        [gone, connection].into_iter().flatten().min()
    }

    /// Handles timeouts that are due; `remaining_bytes` is reported if the endpoint stops waiting for
    /// its peer.
    pub(super) fn handle_timeout(&mut self, now: Tick, remaining_bytes: u64) {
        if let Some(connection) = &mut self.connection {
            let mut cause = None;
            if connection.is_up {
                match connection.liveness.poll(now) {
                    LivenessAction::Idle => {}
                    LivenessAction::SendKeepalive => connection.say_alive(now),
                    LivenessAction::Dead { silent_for } => {
                        cause = Some(Disconnect::Dead { silent_for });
                    }
                }
            } else if connection.closing.is_none()
                && now >= connection.opened_at.saturating_add(HELLO_DEADLINE)
            {
                cause = Some(Disconnect::Slow {
                    what: "hello",
                    deadline: HELLO_DEADLINE,
                });
            }
            if let Some(cause) = cause {
                self.close(cause);
            }
        }
        if let (Some(since), Some(after)) = (self.away_since, self.options.gone_after)
            && now >= since.saturating_add(after)
            && !self.is_over()
        {
            self.fault = Some(StreamFault::PeerGone {
                away_for: now.since(since),
                bytes: remaining_bytes,
            });
            // This also closes a connection that is still being established.
            self.close(Disconnect::ClosedLocally);
        }
    }
}
