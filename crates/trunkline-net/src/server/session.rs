//! One session on its connection thread: a turn at a time.

use std::time::Duration;

use trunkline_proto::{Disconnect, Endpoint};
use trunkline_types::{Tick, Timestamp};

use crate::outgoing::{Flush, Outgoing};
use crate::transport::{ReceiveHalf, Source, Transport};

use super::admission::Seat;
use super::notifier::Notifier;

/// Bytes read, and bytes sent, in one turn: then the other sessions of the thread come first.
const QUANTUM: usize = 256 << 10;

/// How long a connection that is being closed may take over its last bytes, and over closing its
/// side.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

pub(super) struct Session {
    pub(super) source: Source,
    /// A turn is already planned.
    pub(super) queued: bool,
    /// The entry of this session in its thread's timers.
    pub(super) timer: Option<Tick>,
    receive: Box<dyn ReceiveHalf>,
    outgoing: Outgoing,
    /// A read may find something.
    ready: bool,
    /// An event said that the end of the stream is there, behind what can be read.
    hung_up: bool,
    /// The other end sends nothing more, for this reason.
    ended: Option<Disconnect>,
    /// Set once the session is closing.
    close_by: Option<Tick>,
    life: Life,
}

enum Life {
    Live {
        endpoint: Box<dyn Endpoint>,
        notifier: Notifier,
        _seat: Seat,
    },
    /// Everything is sent. What still arrives is thrown away until the other end has closed too:
    /// closing a socket with unread input would make the system discard what was sent last.
    Lingering,
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
}

/// When a turn takes place.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    pub(super) now: Tick,
    pub(super) wall: Timestamp,
    /// The server is shutting down: what is ready is sent, then the session closes.
    pub(super) closing: bool,
}

impl Session {
    pub(super) fn live(
        transport: Transport,
        endpoint: Box<dyn Endpoint>,
        notifier: Notifier,
        seat: Seat,
    ) -> Self {
        Self::new(
            transport,
            Life::Live {
                endpoint,
                notifier,
                _seat: seat,
            },
        )
    }

    /// A connection that is told `bytes` and then closed.
    pub(super) fn refused(transport: Transport, bytes: &[u8], now: Tick) -> Self {
        let mut session = Self::new(transport, Life::Lingering);
        session.outgoing.push(bytes);
        session.close_by = Some(now.saturating_add(CLOSE_LIMIT));
        session
    }

    fn new(transport: Transport, life: Life) -> Self {
        let Transport {
            source,
            receive,
            send,
            ..
        } = transport;
        Self {
            source,
            queued: false,
            timer: None,
            receive,
            outgoing: Outgoing::new(send),
            ready: false,
            hung_up: false,
            ended: None,
            close_by: None,
            life,
        }
    }

    /// The transport is registered; the endpoint may speak.
    pub(super) fn start(&mut self, moment: Moment) {
        if let Life::Live { endpoint, .. } = &mut self.life {
            endpoint.handle_connected(moment.now, moment.wall);
        }
    }

    /// An event of the transport. There is no other one for what it told, so the end that came with
    /// the last bytes is to be read for behind them.
    pub(super) fn set_ready(&mut self, hung_up: bool) {
        self.ready = true;
        self.hung_up |= hung_up;
    }

    pub(super) fn is_lingering(&self) -> bool {
        matches!(self.life, Life::Lingering)
    }

    /// When the next turn is due without an event.
    pub(super) fn deadline(&self) -> Option<Tick> {
        let endpoint = match &self.life {
            Life::Live { endpoint, .. } => endpoint.poll_timeout(),
            Life::Lingering => None,
        };
        [endpoint, self.close_by].into_iter().flatten().min()
    }

    /// Reads, runs what is due and sends, within the quantum.
    pub(super) fn turn(&mut self, buffer: &mut [u8], moment: Moment) -> Turn {
        match &mut self.life {
            Life::Live { .. } => self.turn_live(buffer, moment),
            Life::Lingering => self.turn_lingering(buffer, moment),
        }
    }

    /// The connection thread ends with the session still open.
    pub(super) fn abandon(&mut self, now: Tick) {
        if let Life::Live { endpoint, .. } = &mut self.life {
            endpoint.handle_disconnected(now, Disconnect::Local);
        }
    }

    fn turn_live(&mut self, buffer: &mut [u8], moment: Moment) -> Turn {
        let Life::Live {
            endpoint, notifier, ..
        } = &mut self.life
        else {
            return Turn::Over;
        };
        let Moment { now, wall, closing } = moment;
        notifier.accept();
        let mut read = 0;
        while self.ready && self.ended.is_none() && read < QUANTUM && endpoint.wants_input() {
            match self.receive.try_read(buffer) {
                Ok(Some(0)) => self.ended = Some(Disconnect::PeerClosed),
                Ok(Some(count)) => {
                    endpoint.handle_input(now, wall, &buffer[..count]);
                    self.ready = self.hung_up || !self.source.is_drained(count, buffer.len());
                    read += count;
                }
                Ok(None) => self.ready = false,
                Err(error) => self.ended = Some(error.into()),
            }
        }
        if endpoint.poll_timeout().is_some_and(|due| due <= now) {
            endpoint.handle_timeout(now, wall);
        }
        let flush = match self.outgoing.flush(&mut **endpoint, now, wall, QUANTUM) {
            Ok(flush) => flush,
            Err(error) => {
                self.ended.get_or_insert(error.into());
                Flush::Done
            }
        };
        let ending = endpoint.wants_close().or_else(|| self.ended.clone());
        let Some(cause) = ending.or(closing.then_some(Disconnect::Local)) else {
            let more = self.ready && endpoint.wants_input();
            return if more || flush == Flush::More {
                Turn::Again
            } else {
                Turn::Wait
            };
        };
        let close_by = *self.close_by.get_or_insert(now.saturating_add(CLOSE_LIMIT));
        if flush != Flush::Done && now < close_by {
            return if flush == Flush::More {
                Turn::Again
            } else {
                Turn::Wait
            };
        }
        endpoint.handle_disconnected(now, cause);
        if self.ended.is_some() || flush != Flush::Done {
            return Turn::Over;
        }
        self.outgoing.finish();
        self.close_by = Some(now.saturating_add(CLOSE_LIMIT));
        self.life = Life::Lingering;
        self.turn_lingering(buffer, moment)
    }

    fn turn_lingering(&mut self, buffer: &mut [u8], moment: Moment) -> Turn {
        if self.close_by.is_none_or(|close_by| close_by <= moment.now) {
            return Turn::Over;
        }
        match self.outgoing.write() {
            Ok(true) => self.outgoing.finish(),
            Ok(false) => {}
            Err(_) => return Turn::Over,
        }
        let mut read = 0;
        while self.ready && read < QUANTUM {
            match self.receive.try_read(buffer) {
                Ok(Some(0)) | Err(_) => return Turn::Over,
                Ok(Some(count)) => {
                    self.ready = self.hung_up || !self.source.is_drained(count, buffer.len());
                    read += count;
                }
                Ok(None) => self.ready = false,
            }
        }
        if self.ready { Turn::Again } else { Turn::Wait }
    }
}
