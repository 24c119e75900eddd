//! A connection thread: its sessions with their events, notifications and timers.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use mio::event::Event;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use trunkline_types::Tick;

use crate::clock::Clock;
use crate::spin::Spin;
use crate::sync::{Arc, Ordering};
use crate::transport::{Peer, Transport};

use super::admission::{Admission, Refusal, SessionPermit};
use super::mailbox::Mailbox;
use super::notifier::Notifier;
use super::session::{Moment, Session, Turn};
use super::turns::{TURN_TIME, Turns};

/// Maximum number of bytes per read. The endpoint handles them without interruption.
const READ_BYTES: usize = 32 << 10;

/// Maximum number of events fetched from the system at once.
const EVENTS_MAX: usize = 256;

/// Maximum number of lingering connections of one thread. These connections were sent a reason for
/// the refusal, and get time to read it before they are closed. Further connections are closed at
/// once.
const LINGERING_MAX: usize = 64;

/// Number of memory polls per system call while the thread spins.
const MEMORY_POLLS_PER_SYSTEM_CALL: usize = 16;

/// Maximum number of timers that fire before newly arrived input is handled.
const TIMERS_MAX: usize = 16;

/// Maximum number of sessions whose memory is polled while the thread spins.
const MEMORY_POLLED_MAX: usize = 8;

/// The token of the mailbox; no session has it.
pub(super) const MAILBOX: Token = Token(usize::MAX);

/// A session of one thread: its slot, and a generation that distinguishes the successive sessions
/// of a slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct SessionKey {
    slot: u32,
    generation: u32,
}

/// Messages from other threads to a connection thread.
pub(super) enum Mail {
    Notified(SessionKey),
    Arrived(Transport, SessionPermit),
    Refused {
        transport: Transport,
        bytes: Vec<u8>,
    },
    /// A frame for a session, to be sent with a descriptor.
    Pass(SessionKey, Vec<u8>, OwnedFd),
    /// Send pending output, close, and end at the deadline at the latest.
    Shutdown {
        deadline: Tick,
    },
}

pub(super) struct Worker {
    poll: Poll,
    mailbox: Arc<Mailbox<Mail, mio::Waker>>,
    admission: Arc<Admission>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    lingering: usize,
    turns: Turns,
    /// Sessions that had a turn since they were last armed.
    to_arm: Vec<SessionKey>,
    timers: BTreeSet<(Tick, SessionKey)>,
    buffer: Box<[u8]>,
    spin: Spin,
    /// Number of polls in all spins so far.
    polls: usize,
    mail: Vec<Mail>,
    shutdown: Option<Tick>,
}

#[derive(Default)]
struct Slot {
    generation: u32,
    session: Option<Session>,
}

impl Worker {
    pub(super) fn new(
        poll: Poll,
        mailbox: Arc<Mailbox<Mail, mio::Waker>>,
        admission: Arc<Admission>,
        spin: Duration,
    ) -> Self {
        Self {
            poll,
            mailbox,
            admission,
            slots: Vec::new(),
            free: Vec::new(),
            lingering: 0,
            turns: Turns::default(),
            to_arm: Vec::new(),
            timers: BTreeSet::new(),
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
            spin: Spin::new(spin),
            polls: 0,
            mail: Vec::new(),
            shutdown: None,
        }
    }

    /// The main loop of the thread.
    pub(super) fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut moment = self.moment();
        while !self.is_over() {
            let start = moment.now;
            let idle = self.turns.is_empty() && !self.is_due(start);
            let found = idle && self.spin(&mut events, start);
            let polled = found || self.sleep(&mut events, start, idle);
            if polled {
                for event in &events {
                    self.accept_event(event);
                }
            }
            moment = self.moment();
            if idle && !found {
                self.spin.waited(moment.now.since(start));
            }
            self.read_mail(moment);
            self.fire_timers(moment.now);
            self.run_turns(&mut moment);
            // Before the thread sleeps, send what those turns have marked.
            self.read_mail(moment);
            self.run_turns(&mut moment);
        }
        let now = Clock::new().now();
        self.slots
            .iter_mut()
            .filter_map(|slot| slot.session.as_mut())
            .for_each(|s| s.abandon(now));
    }

    /// Polls for work for a short time. Returns true if it found work; `events` then contains the
    /// events that the system reported, if any.
    fn spin(&mut self, events: &mut Events, now: Tick) -> bool {
        if !self.spin.is_on() {
            return false;
        }
        events.clear();
        if self.to_arm.len() > MEMORY_POLLED_MAX {
            // There are too many sessions to poll one by one: arm them, so that they wake the
            // thread.
            self.arm();
            if !self.turns.is_empty() {
                return true;
            }
        }
        let longest = self.next_timer().map(|due| due.since(now));
        let polls = &mut self.polls;
        let (poll, mailbox) = (&mut self.poll, &self.mailbox);
        let (slots, turns, to_arm) = (&mut self.slots, &mut self.turns, &self.to_arm);
        // Polling memory is much cheaper than a system call, so only one of every `period` polls,
        // counted over all spins, also makes a system call. Sessions on sockets thus get their turn
        // even if shared memory is busy.
        let period = match to_arm.is_empty() {
            true => 1,
            false => MEMORY_POLLS_PER_SYSTEM_CALL,
        };
        self.spin.run(longest, || {
            for key in to_arm.iter().take(MEMORY_POLLED_MAX) {
                if let Some(session) = session(slots, *key)
                    && session.glance()
                {
                    session.set_arrived();
                    turns.queue(session, *key);
                }
            }
            *polls = polls.wrapping_add(1);
            if polls.is_multiple_of(period) {
                let polled = poll.poll(events, Some(Duration::ZERO));
                if polled.is_err() {
                    events.clear();
                }
            }
            !turns.is_empty() || mailbox.has_mail() || !events.is_empty()
        })
    }

    /// Makes the sessions in `to_arm` announce that their thread sleeps, and plans turns for those
    /// that have new input.
    fn arm(&mut self) {
        for key in self.to_arm.drain(..) {
            if let Some(session) = session(&mut self.slots, key) {
                session.needs_arming = false;
                if session.arm() {
                    self.turns.queue(session, key);
                }
            }
        }
    }

    /// Sleeps until there is work, or only fetches pending events if there is work already. Returns
    /// false if the poll failed.
    fn sleep(&mut self, events: &mut Events, now: Tick, idle: bool) -> bool {
        if idle {
            self.arm();
        }
        let asleep = idle && self.turns.is_empty() && self.mailbox.fall_asleep();
        let timeout = match asleep {
            true => self.next_timer().map(|due| due.since(now)),
            false => Some(Duration::ZERO),
        };
        // Fails if a signal interrupts it or memory is exhausted; the loop continues in both cases.
        let polled = self.poll.poll(events, timeout);
        self.mailbox.wake_up();
        polled.is_ok()
    }

    fn is_over(&self) -> bool {
        let Some(deadline) = self.shutdown else {
            return false;
        };
        self.free.len() == self.slots.len() || Clock::new().now() >= deadline
    }

    fn moment(&mut self) -> Moment {
        let closing = self.shutdown.is_some();
        let (now, wall) = Clock::new().moment();
        Moment {
            now,
            wall,
            closing,
            began: now,
            used_by: None,
        }
    }

    fn next_timer(&self) -> Option<Tick> {
        let timer = self.timers.first().map(|(due, _)| *due);
        Tick::earliest([timer, self.shutdown])
    }

    fn accept_event(&mut self, event: &Event) {
        if event.token() == MAILBOX {
            // The main loop reads the mail in every round.
            return;
        }
        let key = SessionKey::from_token(event.token());
        if let Some(session) = session(&mut self.slots, key) {
            session.set_ready(event.is_read_closed() || event.is_error());
            if session.has_table_request() {
                let factory = &self.admission.factory;
                // Catch panics, as for the opening of a session.
                let show = || session.show_values(|peer| factory.last_values(peer));
                let _ = catch_unwind(AssertUnwindSafe(show));
            }
            self.turns.queue(session, key);
        }
    }

    fn read_mail(&mut self, moment: Moment) {
        if !self.mailbox.has_mail() {
            return;
        }
        let mut mail = std::mem::take(&mut self.mail);
        self.mailbox.take(&mut mail);
        for message in mail.drain(..) {
            match message {
                Mail::Notified(key) => {
                    if let Some(session) = session(&mut self.slots, key) {
                        self.turns.queue(session, key);
                    }
                }
                Mail::Pass(key, frame, file) => {
                    if let Some(session) = session(&mut self.slots, key) {
                        session.pass_descriptor(frame, file);
                        self.turns.queue(session, key);
                    }
                }
                Mail::Arrived(transport, permit) => self.open(transport, permit, moment),
                Mail::Refused { transport, bytes } => self.refuse(transport, &bytes, moment.now),
                Mail::Shutdown { deadline } => self.shut_down(deadline),
            }
        }
        self.mail = mail;
    }

    fn open(&mut self, transport: Transport, permit: SessionPermit, moment: Moment) {
        if self.shutdown.is_some() {
            return;
        }
        let key = self.allocate();
        let notifier = Notifier::new(key, self.mailbox.clone(), &transport);
        let factory = &self.admission.factory;
        let open = || factory.open(transport.peer, notifier.clone());
        // A panic is a defect of one session; the others continue.
        match catch_unwind(AssertUnwindSafe(open)).unwrap_or(Err(Vec::new())) {
            Ok(endpoint) => {
                self.admission
                    .counts
                    .accepted
                    .fetch_add(1, Ordering::Relaxed);
                self.install(key, Session::live(transport, endpoint, notifier, permit));
            }
            Err(bytes) => {
                self.free.push(key.slot);
                drop(permit);
                self.refuse(transport, &bytes, moment.now);
            }
        }
    }

    fn refuse(&mut self, mut transport: Transport, bytes: &[u8], now: Tick) {
        self.admission
            .counts
            .refused
            .fetch_add(1, Ordering::Relaxed);
        if bytes.is_empty() || self.shutdown.is_some() {
            return;
        }
        if self.lingering < LINGERING_MAX {
            let key = self.allocate();
            self.lingering += 1;
            self.install(key, Session::refused(transport, bytes, now));
            return;
        }
        // Too many connections are already lingering, so the thread does not wait for this one.
        // Most peers have already sent their request and still receive the answer: reading their
        // input first keeps the system from discarding it.
        transport.send.fall_back_to_plaintext();
        let _ = transport.receive.try_read(&mut self.buffer);
        let _ = transport.send.try_write(bytes);
        transport.send.finish();
    }

    fn allocate(&mut self) -> SessionKey {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            // The session limit is far below the range of u32.
            (self.slots.len() - 1) as u32
        });
        let entry = &mut self.slots[slot as usize];
        entry.generation = entry.generation.wrapping_add(1);
        SessionKey {
            slot,
            generation: entry.generation,
        }
    }

    /// Registers a session and plans its first turn.
    fn install(&mut self, key: SessionKey, session: Session) {
        let registered = self.register(key, &session);
        let session = self.slots[key.slot as usize].session.insert(session);
        match registered {
            Ok(()) => self.turns.queue(session, key),
            Err(_) => self.remove(key),
        }
    }

    fn register(&self, key: SessionKey, session: &Session) -> io::Result<()> {
        let fd = session.source().as_fd().as_raw_fd();
        self.poll.registry().register(
            &mut SourceFd(&fd),
            key.token(),
            interest(session.polls_writable),
        )
    }

    fn shut_down(&mut self, deadline: Tick) {
        self.shutdown = Some(deadline);
        for (slot, entry) in self.slots.iter_mut().enumerate() {
            if let Some(session) = &mut entry.session {
                let key = SessionKey {
                    slot: slot as u32,
                    generation: entry.generation,
                };
                self.turns.queue(session, key);
            }
        }
    }

    /// Returns true if a timer is due.
    fn is_due(&self, now: Tick) -> bool {
        self.timers.first().is_some_and(|(due, _)| *due <= now)
    }

    /// Plans turns for sessions whose timers are due. Many may be due at the same time, so newly
    /// arrived input is handled in between.
    fn fire_timers(&mut self, now: Tick) {
        for _ in 0..TIMERS_MAX {
            let Some(&(_, key)) = self.timers.first().filter(|(due, _)| *due <= now) else {
                return;
            };
            self.timers.pop_first();
            if let Some(session) = session(&mut self.slots, key) {
                session.timer = None;
                self.turns.queue(session, key);
            }
        }
    }

    /// Runs one turn for each session that has one planned now, those that have used the least time
    /// first. Stops after the time of one turn, to check for new input.
    fn run_turns(&mut self, moment: &mut Moment) {
        moment.closing = self.shutdown.is_some();
        let clock = Clock::new();
        let round_began = moment.began;
        let is_alone = self.slots.len() - self.free.len() <= 1;
        for _ in 0..self.turns.len() {
            if moment.began.since(round_began) >= TURN_TIME {
                return;
            }
            let Some(key) = self.turns.next() else {
                return;
            };
            let Some(session) = session(&mut self.slots, key) else {
                continue;
            };
            session.queued = false;
            // This session is not charged for the time that another one has used.
            if moment.used_by.take().is_some_and(|other| other != key) {
                moment.began = clock.now();
            }
            let was_lingering = session.is_lingering();
            let buffer = &mut self.buffer;
            // A panic is a defect of one session's endpoint; the other sessions continue.
            let turn = catch_unwind(AssertUnwindSafe(|| session.turn(buffer, *moment)));
            let mut turn = turn.unwrap_or(Turn::Over);
            // If the thread has only one session, there is no time to share, so the turn is not
            // timed: reading the clock costs as much as a small request.
            if !is_alone || matches!(turn, Turn::Again) {
                let ended = clock.now();
                session.share.use_up(ended.since(moment.began));
                moment.began = ended;
            } else {
                moment.used_by = Some(key);
            }
            if !was_lingering && session.is_lingering() {
                self.lingering += 1;
                if self.lingering > LINGERING_MAX {
                    turn = Turn::Over;
                }
            }
            match turn {
                Turn::Over => {
                    self.remove(key);
                    continue;
                }
                Turn::HandOver(number) => {
                    self.hand_over(key, number, moment.now);
                    continue;
                }
                Turn::Refuse(refusal) => {
                    session.refuse(&refusal_bytes(&self.admission, session.peer(), refusal));
                    self.turns.queue(session, key);
                }
                Turn::Again => self.turns.queue(session, key),
                Turn::Wait => {}
            }
            if session.wants_arming() && !std::mem::replace(&mut session.needs_arming, true) {
                self.to_arm.push(key);
            }
            if update_interest(&self.poll, session, key).is_err() {
                self.remove(key);
                continue;
            }
            set_timer(&mut self.timers, session, key);
        }
    }

    /// Takes a session's transport and hands it over as its endpoint requested.
    fn hand_over(&mut self, key: SessionKey, number: u64, now: Tick) {
        let socket = session(&mut self.slots, key).map(|session| {
            let socket = session.socket();
            session.abandon(now);
            socket
        });
        self.remove(key);
        if let Some(Ok((socket, peer))) = socket {
            let factory = &self.admission.factory;
            let hand_over = || factory.hand_over(number, peer, socket);
            // Catch panics, as for the opening of a session.
            let _ = catch_unwind(AssertUnwindSafe(hand_over));
        }
    }

    fn remove(&mut self, key: SessionKey) {
        let entry = &mut self.slots[key.slot as usize];
        let Some(session) = entry.session.take() else {
            return;
        };
        if session.is_lingering() {
            self.lingering -= 1;
        }
        if session.needs_arming {
            self.to_arm.retain(|other| *other != key);
        }
        if let Some(timer) = session.timer {
            self.timers.remove(&(timer, key));
        }
        let fd = session.source().as_fd().as_raw_fd();
        // Fails if it was never registered; then there is nothing to undo.
        let _ = self.poll.registry().deregister(&mut SourceFd(&fd));
        self.free.push(key.slot);
    }
}

/// Returns the bytes that inform a peer why its session is refused, and counts the refusal.
fn refusal_bytes(admission: &Admission, peer: Peer, refusal: Refusal) -> Vec<u8> {
    admission.counts.refused.fetch_add(1, Ordering::Relaxed);
    let retry_after = admission.retry_after(refusal);
    let bytes = || admission.factory.refusal(peer, refusal, retry_after);
    // Catch panics, as for the opening of a session.
    catch_unwind(AssertUnwindSafe(bytes)).unwrap_or_default()
}

fn interest(polls_writable: bool) -> Interest {
    match polls_writable {
        true => Interest::READABLE | Interest::WRITABLE,
        false => Interest::READABLE,
    }
}

/// Switches polling for writability on or off, if the session requires it. Registering the source
/// again also reports pending events.
fn update_interest(poll: &Poll, session: &mut Session, key: SessionKey) -> io::Result<()> {
    let Some(writable) = session.writable_poll_change() else {
        return Ok(());
    };
    session.polls_writable = writable;
    let fd = session.source().as_fd().as_raw_fd();
    let registry = poll.registry();
    registry.reregister(&mut SourceFd(&fd), key.token(), interest(writable))
}

/// Ensures that a timer fires no later than the session's deadline. A timer that fires too early
/// costs less than updating the timer at every turn.
fn set_timer(timers: &mut BTreeSet<(Tick, SessionKey)>, session: &mut Session, key: SessionKey) {
    let Some(deadline) = session.deadline() else {
        return;
    };
    if session.timer.is_some_and(|timer| timer <= deadline) {
        return;
    }
    if let Some(timer) = session.timer.replace(deadline) {
        timers.remove(&(timer, key));
    }
    timers.insert((deadline, key));
}

fn session(slots: &mut [Slot], key: SessionKey) -> Option<&mut Session> {
    let entry = slots.get_mut(key.slot as usize)?;
    entry
        .session
        .as_mut()
        .filter(|_| entry.generation == key.generation)
}

impl SessionKey {
    fn token(self) -> Token {
        Token((self.generation as usize) << 32 | self.slot as usize)
    }

    /// Returns the key of the first session of a slot.
    #[cfg(test)]
    pub(super) fn of_slot(slot: u32) -> Self {
        let generation = 1;
        Self { slot, generation }
    }

    pub(super) fn from_token(token: Token) -> Self {
        Self {
            slot: token.0 as u32,
            generation: (token.0 >> 32) as u32,
        }
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
