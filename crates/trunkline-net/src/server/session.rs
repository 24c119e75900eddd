//! One session on its connection thread: a turn at a time.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use trunkline_proto::{Disconnect, Endpoint};
use trunkline_types::{Tick, Timestamp};

use crate::Clock;
use crate::outgoing::{CLOSE_LIMIT, Flush, Outgoing};
use crate::transport::{Peer, ReceiveHalf, Source, SourceKind, Transport};

use super::admission::{Seat, SharedFile};
use super::notifier::Notifier;
use super::outlet::{Outlet, Seen};
use super::turns::{Share, TURN_TIME};
use super::worker::SessionKey;

/// Bytes read, and bytes sent, in one turn: then the other sessions of the thread come first.
const QUANTUM: usize = 256 << 10;
/// Bytes of input after which a turn looks at the clock: a look costs as much as a small request,
/// and so much input is taken in within a tenth of a turn.
const LOOK_BYTES: usize = 16 << 10;

pub(super) struct Session {
    /// A turn is already planned.
    pub(super) queued: bool,
    /// It is among those to be armed before the thread sleeps.
    pub(super) to_arm: bool,
    /// Its place among the turns of its thread.
    pub(super) share: Share,
    /// Its source is polled for room as well.
    pub(super) polls_room: bool,
    /// The entry of this session in its thread's timers.
    pub(super) timer: Option<Tick>,
    peer: Peer,
    /// Last values that its peer has mapped.
    values: Option<SharedFile>,
    incoming: Incoming,
    /// Since the last turn.
    seen: Seen,
    /// A writer has the outlet, and notifies when it has let go: nothing else is a reason for a
    /// turn until then.
    outlet_taken: bool,
    life: Life,
}

/// The receive half of a session, told of events once each.
struct Incoming {
    half: Box<dyn ReceiveHalf>,
    source: Source,
    /// A read may find something.
    ready: bool,
    /// An event said that the end of the stream is there, behind what can be read.
    hung_up: bool,
    /// The other end sends nothing more, for this reason.
    ended: Option<Disconnect>,
}

enum Life {
    Live(Live),
    /// Everything is sent, or will be until then. What still arrives is thrown away until the other
    /// end has closed too: closing a socket with unread input would make the system discard what
    /// was sent last.
    Lingering {
        until: Tick,
        outgoing: Outgoing,
    },
}

struct Live {
    /// Holds the outlet.
    notifier: Notifier,
    connected: bool,
    seat: Seat,
}

/// How a turn ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Turn {
    /// There is more to do at once, after the others.
    Again,
    /// Nothing to do until an event, a notification or [`Session::deadline`].
    Wait,
    /// The session is over.
    Over,
    /// The session is over, and its transport somebody else's, by this number.
    HandOver(u64),
}

/// When a turn takes place.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    pub(super) now: Tick,
    pub(super) wall: Timestamp,
    /// The server is shutting down: what is ready is sent, then the session closes.
    pub(super) closing: bool,
    /// When the turn began: [`now`](Self::now) is when the first of the round did.
    pub(super) began: Tick,
    /// The session that has used the time since then, and was not charged for it.
    pub(super) used_by: Option<SessionKey>,
}

impl Session {
    pub(super) fn live(
        transport: Transport,
        endpoint: Box<dyn Endpoint>,
        notifier: Notifier,
        seat: Seat,
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
            seat,
        };
        Self::new(source, peer, receive, Life::Live(live))
    }

    /// A connection that is told `bytes` and then closed.
    pub(super) fn refused(transport: Transport, bytes: &[u8], now: Tick) -> Self {
        let Transport {
            source,
            receive,
            send,
            peer,
        } = transport;
        let mut outgoing = Outgoing::new(send);
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
            to_arm: false,
            share: Share::default(),
            timer: None,
            polls_room: source_kind == SourceKind::Socket,
            peer,
            values: None,
            incoming,
            // Until the first turn, which comes at once.
            seen: Seen::default(),
            outlet_taken: false,
            life,
        }
    }

    /// What to poll for this session's events.
    pub(super) fn source(&self) -> &Source {
        &self.incoming.source
    }

    /// An event of the transport. There is no other one for what it told, so the end that came with
    /// the last bytes is to be read for behind them.
    pub(super) fn set_ready(&mut self, hung_up: bool) {
        self.incoming.half.acknowledge(hung_up);
        self.incoming.ready = true;
        self.incoming.hung_up |= hung_up;
    }

    /// Whether its peer has asked for last values, and has no answer.
    pub(super) fn asks_for_values(&self) -> bool {
        matches!(self.life, Life::Live(_)) && self.source().table_question().is_some()
    }

    /// Gives its peer the last values that `file` finds for it, if any.
    pub(super) fn show_values(&mut self, file: impl FnOnce(Peer) -> Option<SharedFile>) {
        let values = file(self.peer);
        if let Some((local, question)) = self.incoming.source.table_question() {
            local.answer_table(question, values.as_ref().map(|file| file.as_fd()));
        }
        self.values = values;
    }

    /// Whether its source is to be polled for room from now on, when that changes.
    pub(super) fn room_wanted(&self) -> Option<bool> {
        let wanted = match self.source().kind() {
            SourceKind::Socket => true,
            SourceKind::UnixSocket => self.seen.is_blocked,
            SourceKind::Signal | SourceKind::SharedMemory => false,
        };
        (wanted != self.polls_room).then_some(wanted)
    }

    /// Whether it has to be armed before its thread sleeps.
    pub(super) fn wants_arming(&self) -> bool {
        self.incoming.source.wants_arming()
    }

    /// Whether something has arrived, as far as that can be told without asking the system.
    pub(super) fn glance(&mut self) -> bool {
        self.wants_input() && self.incoming.half.glance() == Some(true)
    }

    /// Something has arrived that no event told of.
    pub(super) fn set_arrived(&mut self) {
        self.incoming.ready = true;
    }

    /// Its thread is about to sleep; true when something has arrived.
    pub(super) fn arm(&mut self) -> bool {
        let found = self.wants_input() && self.incoming.half.arm();
        self.incoming.ready |= found;
        found
    }

    fn wants_input(&self) -> bool {
        (self.seen.wants_input && !self.outlet_taken) || self.is_lingering()
    }

    pub(super) fn is_lingering(&self) -> bool {
        matches!(self.life, Life::Lingering { .. })
    }

    /// When the next turn is due without an event.
    pub(super) fn deadline(&self) -> Option<Tick> {
        match &self.life {
            Life::Live(_) => self.seen.deadline.filter(|_| !self.outlet_taken),
            Life::Lingering { until, .. } => Some(*until),
        }
    }

    /// Reads, runs what is due and sends, within the quantum.
    pub(super) fn turn(&mut self, buffer: &mut [u8], moment: Moment) -> Turn {
        let Self { incoming, seen, .. } = self;
        match &mut self.life {
            Life::Live(live) => match live.turn(incoming, seen, buffer, moment) {
                None => {
                    self.outlet_taken = true;
                    Turn::Wait
                }
                Some(Turn::Over) if incoming.ended.is_none() => {
                    let Some(outlet) = live.notifier.target.close() else {
                        return Turn::Over;
                    };
                    let until = moment.now.saturating_add(CLOSE_LIMIT);
                    let mut outgoing = outlet.outgoing;
                    let turn = linger(incoming, seen, &mut outgoing, buffer);
                    self.life = Life::Lingering { until, outgoing };
                    turn
                }
                Some(turn) => {
                    self.outlet_taken = false;
                    turn
                }
            },
            Life::Lingering { until, .. } if *until <= moment.now => Turn::Over,
            Life::Lingering { outgoing, .. } => linger(incoming, seen, outgoing, buffer),
        }
    }

    /// Another descriptor of its socket, and who is at the other end.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(super) fn socket(&self) -> io::Result<(OwnedFd, Peer)> {
        let socket = self.source().as_fd().try_clone_to_owned()?;
        Ok((socket, self.peer))
    }

    /// Sends a frame with a descriptor beside it.
    pub(super) fn pass(&mut self, frame: Vec<u8>, file: OwnedFd) {
        if let Life::Live(live) = &self.life
            && let Some(mut guard) = live.notifier.target.turn()
            && let Some(outlet) = guard.as_mut()
        {
            outlet.outgoing.pass(frame, file);
        }
    }

    /// The connection thread ends with the session still open.
    pub(super) fn abandon(&mut self, now: Tick) {
        if let Life::Live(live) = &mut self.life
            && let Some(mut outlet) = live.notifier.target.close()
            && !outlet.has_panicked()
        {
            outlet.endpoint.handle_disconnected(now, Disconnect::Local);
        }
    }
}

impl Live {
    /// A turn of a session with its endpoint, which has been told when the session is over. `None`:
    /// a writer has the outlet, and notifies afterwards.
    fn turn(
        &mut self,
        incoming: &mut Incoming,
        seen: &mut Seen,
        buffer: &mut [u8],
        moment: Moment,
    ) -> Option<Turn> {
        let Moment {
            now,
            wall,
            closing,
            began,
            used_by: _,
        } = moment;
        // Before the lock: a writer that comes too late for this turn has it come again.
        self.notifier.target.accept();
        let mut guard = self.notifier.target.turn()?;
        let Some(outlet) = guard.as_mut() else {
            return Some(Turn::Over);
        };
        if outlet.has_panicked() {
            // As after a panic in a turn: without a word, and without what lies half written.
            incoming.ended.get_or_insert(Disconnect::Local);
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
            endpoint.handle_connected(now, wall);
        }
        let clock = Clock::new();
        let is_over = || clock.now().since(began) >= TURN_TIME;
        let (mut read, mut looked) = (0, 0);
        while read < QUANTUM && endpoint.wants_input() {
            let count = incoming.read(buffer);
            if count == 0 {
                break;
            }
            endpoint.handle_input(now, wall, &buffer[..count]);
            read += count;
            if read - looked >= LOOK_BYTES {
                looked = read;
                if is_over() {
                    break;
                }
            }
        }
        if endpoint.poll_timeout().is_some_and(|due| due <= now) {
            endpoint.handle_timeout(now, wall);
        }
        if !endpoint.is_in_handshake() {
            self.seat.end_handshake();
        }
        let flush = match outgoing.flush(&mut **endpoint, now, wall, QUANTUM, is_over) {
            Ok(flush) => flush,
            Err(error) => {
                incoming.ended.get_or_insert(error.into());
                Flush::Done
            }
        };
        // The endpoint's own reason says most.
        let cause = endpoint.wants_close().or_else(|| incoming.ended.clone());
        if let Some(cause) = cause.or(closing.then_some(Disconnect::Local))
            && outgoing.may_close(&cause, flush, now)
        {
            // Nobody is there to read what would linger.
            let dead = matches!(cause, Disconnect::Dead { .. });
            if dead {
                outgoing.abort();
            }
            endpoint.handle_disconnected(now, cause);
            if dead || flush != Flush::Done {
                incoming.ended.get_or_insert(Disconnect::Local);
            }
            return Some(Turn::Over);
        }
        let number = endpoint.wants_handover();
        if let Some(number) = number.filter(|_| flush == Flush::Done && outgoing.is_empty()) {
            return Some(Turn::HandOver(number));
        }
        *seen = outlet.look();
        let more = incoming.ready && seen.wants_input;
        Some(match flush {
            Flush::More => Turn::Again,
            _ if more => Turn::Again,
            _ => Turn::Wait,
        })
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // Of a session whose endpoint panicked; all others have ended before.
        let _outlet = self.notifier.target.close();
    }
}

/// A turn of a connection that is only being closed.
fn linger(
    incoming: &mut Incoming,
    seen: &mut Seen,
    outgoing: &mut Outgoing,
    buffer: &mut [u8],
) -> Turn {
    match outgoing.write() {
        Ok(true) => outgoing.finish(),
        Ok(false) => {}
        Err(_) => return Turn::Over,
    }
    seen.is_blocked = outgoing.is_blocked();
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
    /// Reads once, if there may be something; 0 when there was not.
    fn read(&mut self, buffer: &mut [u8]) -> usize {
        if !self.ready {
            return 0;
        }
        let read = self.half.try_read(buffer);
        self.ready = false;
        match read {
            Ok(Some(0)) => self.ended = Some(Disconnect::PeerClosed),
            Ok(Some(count)) => {
                self.ready = self.hung_up || !self.source.is_drained(count, buffer.len());
                return count;
            }
            Ok(None) => {}
            Err(error) => self.ended = Some(error.into()),
        }
        0
    }
}
