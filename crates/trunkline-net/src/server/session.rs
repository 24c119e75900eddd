//! A session consists of its receive half, which belongs to its connection thread, and its
//! *outlet*: the endpoint and the send half, behind a lock.
//!
//! The connection thread locks the outlet for a turn: input, timers, output. A thread that has
//! changed something for the session tries to take the lock and sends the pending output. If the
//! lock is taken, or if there is other work than sending, it notifies the connection thread
//! instead.
//!
//! Data to be sent is marked for the endpoint first, so the next thread with the lock finds it.
//! Lock order: a thread takes an outlet's lock only while it holds no lock of a variable or a feed.
//! A writer that holds it waits only for locks that are held briefly, and threads that hold those
//! never wait for an outlet.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use trunkline_proto::{Disconnect, Endpoint};
use trunkline_types::{Tick, Timestamp};

use crate::clock::Clock;
use crate::outgoing::{CLOSE_LIMIT, Flush, Outgoing};
use crate::peer_user;
use crate::transport::{ChannelState, Peer, ReceiveHalf, Source, SourceKind, Transport};

use super::admission::{Refusal, SessionPermit, SharedFile};
use super::notifier::Notifier;
use super::turns::{Share, TURN_TIME};
use super::worker::SessionKey;

/// Maximum number of bytes read, and of bytes sent, in one turn. After that, the thread serves its
/// other sessions.
const QUANTUM: usize = 256 << 10;
/// Number of input bytes after which a turn reads the clock. Reading the clock costs as much as a
/// small request, and a session processes this much input within a tenth of a turn.
const CHECK_BYTES: usize = 16 << 10;

/// For this time after a send, only the connection thread sends, and it gathers updates. A fast
/// writer therefore does not cause one packet per update.
const QUIET: Duration = Duration::from_micros(20);

/// After an update within `QUIET`, only the connection thread sends for this long. A fast writer
/// usually continues at its rate, and it costs less to keep the connection thread awake than to
/// wake it after every send.
const BURST: Duration = Duration::from_millis(10);

/// Maximum number of bytes that a writer sends at once. The connection thread sends the rest.
const WRITER_QUANTUM: usize = 32 << 10;

pub(super) struct Session {
    /// A turn is already planned.
    pub(super) queued: bool,
    /// The session must be armed before its thread sleeps.
    pub(super) needs_arming: bool,
    /// Time used by the session, which determines its next turn.
    pub(super) share: Share,
    /// The source is also polled for writability, which means room to send.
    pub(super) polls_writable: bool,
    /// The entry of this session in its thread's timers.
    pub(super) timer: Option<Tick>,
    peer: Peer,
    /// The file of last values that the peer has mapped.
    values: Option<SharedFile>,
    incoming: Incoming,
    /// State at the end of the last turn.
    snapshot: OutletSnapshot,
    /// A writer is using the outlet. It notifies this session when it has released the outlet;
    /// until then, nothing else causes a turn.
    outlet_taken: bool,
    life: Life,
}

/// The receive half of a session. It receives each event once.
struct Incoming {
    half: Box<dyn ReceiveHalf>,
    source: Source,
    ready: bool,
    /// An event has reported that the stream ends after the readable data.
    hung_up: bool,
    /// The reason why the other end sends nothing more.
    ended: Option<Disconnect>,
}

enum Life {
    Live(Live),
    /// Pending output may be sent until this time. Further input is read and discarded until the
    /// other end has closed too, because closing a socket with unread input makes the system
    /// discard the data sent last.
    Lingering {
        until: Tick,
        outgoing: Outgoing,
    },
}

struct Live {
    /// Gives access to the outlet.
    notifier: Notifier,
    connected: bool,
    /// The endpoint knows the security of the connection.
    channel_known: bool,
    permit: SessionPermit,
}

/// The result of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Turn {
    /// There is more to do, after the other sessions.
    Again,
    /// Nothing to do until an event, a notification or [`Session::deadline`].
    Wait,
    /// The session is over.
    Over,
    /// The session is over, and its transport is handed over under this number.
    HandOver(u64),
    /// The peer is refused; call [`Session::refuse`] with the reason.
    Refuse(Refusal),
}

/// The time and circumstances of a turn.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    pub(super) now: Tick,
    pub(super) wall: Timestamp,
    /// The server is shutting down: pending output is sent, then the session closes.
    pub(super) closing: bool,
    /// Time at which the turn began. [`now`](Self::now) is the time at which the first turn of the
    /// round began.
    pub(super) began: Tick,
    /// The session that has used the time since `began` but has not been charged for it yet.
    pub(super) used_by: Option<SessionKey>,
}

impl Session {
    pub(super) fn live(
        transport: Transport,
        endpoint: Box<dyn Endpoint>,
        notifier: Notifier,
        permit: SessionPermit,
    ) -> Self {
        let Transport {
            source,
            receive,
            send,
            peer,
        } = transport;
        let outlet = Outlet::new(endpoint, Outgoing::new(send));
        notifier.target.open(outlet);
        let live = Live {
            notifier,
            connected: false,
            channel_known: false,
            permit,
        };
        Self::new(source, peer, receive, Life::Live(live))
    }

    /// A connection that receives `bytes` and is then closed.
    pub(super) fn refused(transport: Transport, bytes: &[u8], now: Tick) -> Self {
        let Transport {
            source,
            receive,
            send,
            peer,
        } = transport;
        let mut outgoing = Outgoing::new(send);
        outgoing.fall_back_to_plaintext();
        outgoing.push(bytes);
        let until = now.saturating_add(CLOSE_LIMIT);
        Self::new(source, peer, receive, Life::Lingering { until, outgoing })
    }

    fn new(source: Source, peer: Peer, receive: Box<dyn ReceiveHalf>, life: Life) -> Self {
        let source_kind = source.kind();
        let incoming = Incoming {
            half: receive,
            source,
            ready: false,
            hung_up: false,
            ended: None,
        };
        Self {
            queued: false,
            needs_arming: false,
            share: Share::default(),
            timer: None,
            polls_writable: source_kind == SourceKind::Socket,
            peer,
            values: None,
            incoming,
            // Valid until the first turn, which is planned at once.
            snapshot: OutletSnapshot::default(),
            outlet_taken: false,
            life,
        }
    }

    /// The source to poll for this session's events.
    pub(super) fn source(&self) -> &Source {
        &self.incoming.source
    }

    pub(super) fn peer(&self) -> Peer {
        self.peer
    }

    /// Handles an event of the transport. The event is not repeated, so if it reports the end of
    /// the stream, that end must still be read after the last bytes.
    pub(super) fn set_ready(&mut self, hung_up: bool) {
        self.incoming.half.acknowledge(hung_up);
        self.incoming.ready = true;
        self.incoming.hung_up |= hung_up;
    }

    /// Returns true if the peer has asked for last values and has no answer yet.
    pub(super) fn has_table_request(&self) -> bool {
        matches!(self.life, Life::Live(_)) && self.source().table_request().is_some()
    }

    /// Passes the peer the file of last values that `file` returns for it, if any.
    pub(super) fn show_values(&mut self, file: impl FnOnce(Peer) -> Option<SharedFile>) {
        let values = file(self.peer);
        if let Some((local, request)) = self.incoming.source.table_request() {
            local.answer_table(request, values.as_ref().map(|file| file.as_fd()));
        }
        self.values = values;
    }

    /// Returns the new setting if polling for writability must be switched on or off.
    pub(super) fn writable_poll_change(&self) -> Option<bool> {
        let wanted = match self.source().kind() {
            SourceKind::Socket => true,
            SourceKind::UnixSocket => self.snapshot.is_blocked,
            SourceKind::Signal | SourceKind::SharedMemory => false,
        };
        (wanted != self.polls_writable).then_some(wanted)
    }

    /// Returns true if the session must be armed before its thread sleeps.
    pub(super) fn wants_arming(&self) -> bool {
        self.incoming.source.wants_arming()
    }

    /// Returns true if arrived input can be detected without a system call.
    pub(super) fn glance(&mut self) -> bool {
        self.wants_input() && self.incoming.half.glance() == Some(true)
    }

    /// Records that something has arrived without an event.
    pub(super) fn set_arrived(&mut self) {
        self.incoming.ready = true;
    }

    /// Prepares for its thread's sleep. Returns true if something has arrived.
    pub(super) fn arm(&mut self) -> bool {
        let found = self.wants_input() && self.incoming.half.arm();
        self.incoming.ready |= found;
        found
    }

    fn wants_input(&self) -> bool {
        (self.snapshot.wants_input && !self.outlet_taken) || self.is_lingering()
    }

    pub(super) fn is_lingering(&self) -> bool {
        matches!(self.life, Life::Lingering { .. })
    }

    /// Time at which the next turn is due without an event.
    pub(super) fn deadline(&self) -> Option<Tick> {
        match &self.life {
            Life::Live(_) => self.snapshot.deadline.filter(|_| !self.outlet_taken),
            Life::Lingering { until, .. } => Some(*until),
        }
    }

    /// Reads, runs what is due and sends, within the quantum.
    pub(super) fn turn(&mut self, buffer: &mut [u8], moment: Moment) -> Turn {
        let Self {
            incoming, snapshot, ..
        } = self;
        match &mut self.life {
            Life::Live(live) => match live.turn(incoming, snapshot, buffer, self.peer, moment) {
                None => {
                    self.outlet_taken = true;
                    Turn::Wait
                }
                Some(Turn::Refuse(refusal)) => {
                    let Some(mut outlet) = live.notifier.target.close() else {
                        return Turn::Over;
                    };
                    let sentence = refusal.to_string();
                    let cause = Disconnect::Tls { sentence };
                    outlet.endpoint.handle_disconnected(moment.now, cause);
                    let until = moment.now.saturating_add(CLOSE_LIMIT);
                    let outgoing = outlet.outgoing;
                    self.life = Life::Lingering { until, outgoing };
                    Turn::Refuse(refusal)
                }
                Some(Turn::Over) if incoming.ended.is_none() => {
                    let Some(outlet) = live.notifier.target.close() else {
                        return Turn::Over;
                    };
                    let until = moment.now.saturating_add(CLOSE_LIMIT);
                    let mut outgoing = outlet.outgoing;
                    let turn = linger(incoming, snapshot, &mut outgoing, buffer);
                    self.life = Life::Lingering { until, outgoing };
                    turn
                }
                Some(turn) => {
                    self.outlet_taken = false;
                    turn
                }
            },
            Life::Lingering { until, .. } if *until <= moment.now => Turn::Over,
            Life::Lingering { outgoing, .. } => linger(incoming, snapshot, outgoing, buffer),
        }
    }

    /// Sends the reason why the peer was refused in its last turn.
    pub(super) fn refuse(&mut self, bytes: &[u8]) {
        if let Life::Lingering { outgoing, .. } = &mut self.life {
            outgoing.fall_back_to_plaintext();
            outgoing.push(bytes);
        }
    }

    /// Duplicates the descriptor of its socket; also returns the peer.
    ///
    /// # Errors
    /// The connection is encrypted, so its keys would be missing, or no descriptor is left.
    pub(super) fn socket(&self) -> io::Result<(OwnedFd, Peer)> {
        if self.source().has_keys() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let socket = self.source().as_fd().try_clone_to_owned()?;
        Ok((socket, self.peer))
    }

    pub(super) fn pass_descriptor(&mut self, frame: Vec<u8>, file: OwnedFd) {
        if let Life::Live(live) = &self.life
            && let Some(mut guard) = live.notifier.target.turn()
            && let Some(outlet) = guard.as_mut()
        {
            outlet.outgoing.pass_descriptor(frame, file);
        }
    }

    /// Ends an open session because the connection thread ends.
    pub(super) fn abandon(&mut self, now: Tick) {
        if let Life::Live(live) = &mut self.life
            && let Some(mut outlet) = live.notifier.target.close()
            && !outlet.has_panicked()
        {
            outlet
                .endpoint
                .handle_disconnected(now, Disconnect::ClosedLocally);
        }
    }
}

impl Live {
    /// Takes a turn of a session with its endpoint. If the session has ended, the endpoint has been
    /// informed. Returns `None` if a writer has the outlet; the writer notifies when it has
    /// released it.
    fn turn(
        &mut self,
        incoming: &mut Incoming,
        snapshot: &mut OutletSnapshot,
        buffer: &mut [u8],
        peer: Peer,
        moment: Moment,
    ) -> Option<Turn> {
        let Moment {
            now,
            wall,
            closing,
            began,
            used_by: _,
        } = moment;
        // Called before the lock is taken, so that a writer that is too late for this turn causes
        // another turn.
        self.notifier.target.accept();
        let mut guard = self.notifier.target.turn()?;
        let Some(outlet) = guard.as_mut() else {
            return Some(Turn::Over);
        };
        if outlet.has_panicked() {
            // Same as after a panic in a turn: close without a message, and do not send incomplete
            // output.
            incoming.ended.get_or_insert(Disconnect::ClosedLocally);
            return Some(Turn::Over);
        }
        let now = outlet.not_before(now);
        if let Some(failure) = outlet.take_failure() {
            incoming.ended.get_or_insert(failure);
        }
        let Outlet {
            endpoint, outgoing, ..
        } = outlet;
        if !std::mem::replace(&mut self.connected, true) {
            self.channel_known =
                tell_channel(incoming, &mut **endpoint, peer).is_ok_and(|known| known);
            endpoint.handle_connected(now, wall);
        }
        let clock = Clock::new();
        let is_over = || clock.now().since(began) >= TURN_TIME;
        let (mut read, mut checked) = (0, 0);
        while read < QUANTUM && endpoint.wants_input() {
            let count = incoming.read(buffer);
            if !self.channel_known {
                match tell_channel(incoming, &mut **endpoint, peer) {
                    Ok(known) => self.channel_known = known,
                    Err(refusal) => return Some(Turn::Refuse(refusal)),
                }
            }
            if count == 0 {
                break;
            }
            endpoint.handle_input(now, wall, &buffer[..count]);
            read += count;
            if read - checked >= CHECK_BYTES {
                checked = read;
                if is_over() {
                    break;
                }
            }
        }
        if endpoint.poll_timeout().is_some_and(|due| due <= now) {
            endpoint.handle_timeout(now, wall);
        }
        if self.channel_known && !endpoint.is_in_handshake() {
            self.permit.end_handshake();
        }
        let flush = match outgoing.flush(&mut **endpoint, now, wall, QUANTUM, is_over) {
            Ok(flush) => flush,
            Err(error) => {
                incoming.ended.get_or_insert(error.into());
                Flush::Done
            }
        };
        // The endpoint's own reason is the most informative one.
        let cause = endpoint.wants_close().or_else(|| incoming.ended.clone());
        if let Some(cause) = cause.or(closing.then_some(Disconnect::ClosedLocally))
            && outgoing.may_close(&cause, flush, now)
        {
            // No peer is left to read lingering data.
            let dead = matches!(cause, Disconnect::Dead { .. });
            if dead {
                outgoing.abort();
            }
            endpoint.handle_disconnected(now, cause);
            if dead || flush != Flush::Done || !outgoing.is_open() {
                incoming.ended.get_or_insert(Disconnect::ClosedLocally);
            }
            return Some(Turn::Over);
        }
        let number = endpoint.wants_handover();
        if let Some(number) = number.filter(|_| flush == Flush::Done && outgoing.is_empty()) {
            match release(incoming, outgoing) {
                Ok(true) => return Some(Turn::HandOver(number)),
                Ok(false) => {}
                Err(error) => {
                    let cause = Disconnect::from(error);
                    endpoint.handle_disconnected(now, cause.clone());
                    incoming.ended.get_or_insert(cause);
                    return Some(Turn::Over);
                }
            }
        }
        *snapshot = outlet.check();
        let more = incoming.ready && snapshot.wants_input;
        Some(match flush {
            Flush::More => Turn::Again,
            _ if more => Turn::Again,
            _ => Turn::Wait,
        })
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // Only for a session whose endpoint panicked; all others have ended before.
        let _outlet = self.notifier.target.close();
    }
}

/// Tells the endpoint about the security of the connection. Returns false if it is not known yet.
///
/// # Errors
/// The peer must be refused.
fn tell_channel(
    incoming: &mut Incoming,
    endpoint: &mut dyn Endpoint,
    peer: Peer,
) -> Result<bool, Refusal> {
    let mut channel = match incoming.half.channel() {
        ChannelState::Undecided => return Ok(false),
        ChannelState::Plain => peer.plain_channel(),
        ChannelState::Encrypted(channel) => *channel,
        ChannelState::EncryptionMissing => return Err(Refusal::EncryptionRequired),
    };
    if let Peer::Tcp(address) = peer {
        channel.address = Some(address.ip());
        channel.uid = peer_user::of_socket(&incoming.source, address);
    }
    endpoint.handle_channel(&channel);
    Ok(true)
}

/// Gives up the encryption of a connection that is handed over. Returns false while the peer has not
/// done so.
fn release(incoming: &mut Incoming, outgoing: &mut Outgoing) -> io::Result<bool> {
    // The peer starts over when it sees the end of this half, so its own half must have ended.
    Ok(incoming.half.release()? && outgoing.release()?)
}

/// Takes a turn of a connection that is being closed.
fn linger(
    incoming: &mut Incoming,
    snapshot: &mut OutletSnapshot,
    outgoing: &mut Outgoing,
    buffer: &mut [u8],
) -> Turn {
    match outgoing.write() {
        Ok(true) => outgoing.finish(),
        Ok(false) => {}
        Err(_) => return Turn::Over,
    }
    snapshot.is_blocked = outgoing.is_blocked();
    let mut read = 0;
    while read < QUANTUM && incoming.ready {
        read += incoming.read(buffer);
    }
    match incoming.ended {
        Some(_) => Turn::Over,
        None if incoming.ready => Turn::Again,
        None => Turn::Wait,
    }
}

impl Incoming {
    /// Reads once if there may be input; returns 0 if nothing was read.
    fn read(&mut self, buffer: &mut [u8]) -> usize {
        if !self.ready {
            return 0;
        }
        let read = self.half.try_read(buffer);
        self.ready = false;
        match read {
            Ok(Some(0)) => self.ended = Some(Disconnect::PeerClosed),
            Ok(Some(count)) => {
                self.ready =
                    self.hung_up || !self.half.is_drained(&self.source, count, buffer.len());
                return count;
            }
            Ok(None) => {}
            Err(error) => self.ended = Some(error.into()),
        }
        0
    }
}

pub(super) struct Outlet {
    pub(super) endpoint: Box<dyn Endpoint>,
    pub(super) outgoing: Outgoing,
    /// End of a burst: updates came too fast for writers to send them, so writers do not try again
    /// before this time.
    burst_until: Tick,
    /// The error with which the transport failed on a writer's thread.
    failed: Option<Disconnect>,
    /// The endpoint panicked on a writer's thread. It is not called any more, and its incomplete
    /// output is not sent.
    panicked: bool,
    /// State recorded at the end of the connection thread's last turn.
    snapshot: OutletSnapshot,
    /// The latest time passed to the endpoint. It is needed because threads read the clock before
    /// they have the lock.
    latest: Tick,
}

/// State that the connection thread acts on without the lock.
#[derive(Clone, Copy, Default)]
pub(super) struct OutletSnapshot {
    /// The endpoint takes input.
    pub(super) wants_input: bool,
    /// The transport had no room.
    pub(super) is_blocked: bool,
    /// Time of the session's next turn if nothing happens before.
    pub(super) deadline: Option<Tick>,
}

impl Outlet {
    pub(super) fn new(endpoint: Box<dyn Endpoint>, outgoing: Outgoing) -> Self {
        Self {
            endpoint,
            outgoing,
            burst_until: Tick::ZERO,
            failed: None,
            panicked: false,
            snapshot: OutletSnapshot::default(),
            latest: Tick::ZERO,
        }
    }

    /// Returns the time to use for a turn, which is never earlier than a time already passed to the
    /// endpoint.
    pub(super) fn not_before(&mut self, now: Tick) -> Tick {
        self.latest = self.latest.max(now);
        self.latest
    }

    /// Removes and returns the error with which a writer's send failed.
    pub(super) fn take_failure(&mut self) -> Option<Disconnect> {
        self.failed.take()
    }

    /// Returns true if the endpoint has panicked: the session then ends without it.
    pub(super) fn has_panicked(&self) -> bool {
        self.panicked
    }

    /// Records the state at the end of the connection thread's turn. The thread acts on this state
    /// until its next turn.
    pub(super) fn check(&mut self) -> OutletSnapshot {
        self.snapshot = OutletSnapshot {
            wants_input: self.endpoint.wants_input(),
            is_blocked: self.outgoing.is_blocked(),
            deadline: Tick::earliest([self.endpoint.poll_timeout(), self.outgoing.close_by()]),
        };
        self.snapshot
    }

    /// Sends pending output on a thread other than the connection thread. Returns false if the
    /// connection thread has work to do as well.
    pub(super) fn send(&mut self, now: Tick, wall: Timestamp) -> bool {
        if now.since(self.outgoing.last_write()) < QUIET {
            self.burst_until = now.saturating_add(BURST);
            return false;
        }
        let is_mine = now >= self.burst_until
            && self.failed.is_none()
            && !self.panicked
            && !self.outgoing.is_blocked()
            && self.endpoint.lets_writers_send();
        if !is_mine {
            return false;
        }
        let now = self.not_before(now);
        let Self {
            endpoint, outgoing, ..
        } = self;
        let flush = || outgoing.flush(&mut **endpoint, now, wall, WRITER_QUANTUM, || false);
        // A panic is a defect of one session's endpoint, not of the writer.
        match catch_unwind(AssertUnwindSafe(flush)) {
            Ok(Ok(Flush::Done)) => self.is_complete(),
            Ok(Ok(Flush::Blocked | Flush::More)) => false,
            Ok(Err(error)) => {
                self.failed = Some(error.into());
                false
            }
            Err(_) => {
                self.panicked = true;
                false
            }
        }
    }

    /// Returns true if no work is left for the connection thread except work that it already knows
    /// of, so that it may continue to sleep.
    fn is_complete(&self) -> bool {
        self.endpoint.wants_close().is_none()
            && self.endpoint.wants_input() == self.snapshot.wants_input
            && self.knows_deadline()
    }

    /// Returns true if the connection thread will wake by itself in time for the endpoint's next
    /// time-out.
    pub(super) fn knows_deadline(&self) -> bool {
        let Some(due) = self.endpoint.poll_timeout() else {
            return true;
        };
        self.snapshot.deadline.is_some_and(|planned| planned <= due)
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
