//! Drives both ends of each connection in simulated time, as `trunkline-net` does for real
//! connections.

use std::time::Duration;

use trunkline_proto::Endpoint;
use trunkline_types::{Moment, Tick};

use crate::link::{Direction, ended, io, last_word, refusal, transmit};
use crate::world::{Event, Pipes, World};

/// Time after which an unanswered attempt to connect fails.
const DIAL_TIMEOUT: Duration = Duration::from_secs(3);
/// Number of bytes that a connection sends over the shared line in one turn.
const PACKET: usize = 1460;

impl World {
    /// Schedules a turn of a client's driver.
    pub(crate) fn wake_program(&mut self, program: usize, at: Tick) {
        let Some(host) = self.programs.get_mut(program) else {
            return;
        };
        let at = at.max(self.now);
        if host.turn_at.is_none_or(|known| at < known) {
            host.turn_at = Some(at);
            self.schedule(at, Event::Client(program));
        }
    }

    /// Schedules a turn of a session's driver.
    pub(crate) fn wake_session(&mut self, link: u32, at: Tick) {
        let at = at.max(self.now);
        let slot = self
            .engine
            .running
            .as_mut()
            .and_then(|e| e.sessions.get_mut(&link));
        let is_new = match slot {
            Some(slot) if slot.turn_at.is_some_and(|known| known <= at) => false,
            Some(slot) => {
                slot.turn_at = Some(at);
                true
            }
            // The connection has not been accepted yet.
            None => self
                .links
                .get(&link)
                .is_some_and(|pipes| !pipes.engine_is_gone),
        };
        if is_new {
            self.schedule(at, Event::Session(link));
        }
    }

    /// Schedules turns of both ends for the times at which data in flight arrives.
    pub(crate) fn expect_arrivals(&mut self, link: u32) {
        let Some(pipes) = self.links.get(&link) else {
            return;
        };
        let (program, client_is_gone) = (pipes.program, pipes.client_is_gone);
        let Some(ways) = self.ways.get(program) else {
            return;
        };
        let to_client = pipes.to_client.next_arrival(&ways.to_client);
        let to_engine = pipes.to_engine.next_arrival(&ways.to_engine);
        if let Some(at) = to_client.filter(|_| !client_is_gone) {
            self.wake_program(program, at);
        }
        if let Some(at) = to_engine {
            self.wake_session(link, at);
        }
    }

    pub(crate) fn client_turn(&mut self, program: usize) {
        let now = self.now;
        let Some(host) = self.programs.get_mut(program) else {
            return;
        };
        if host.turn_at != Some(now) {
            return;
        }
        host.turn_at = None;
        if host.paused_until > now {
            let until = host.paused_until;
            host.last_input_at = until;
            return self.wake_program(program, until);
        }
        if host.running.is_none() {
            return;
        }
        match host.link {
            Some(link) => self.drive_client(program, link),
            None => self.dial(program),
        }
        let Some(host) = self.programs.get(program) else {
            return;
        };
        let Some(running) = &host.running else {
            return;
        };
        let changes = running.core.changes();
        let has_changed = changes != host.changes;
        let link = host.link;
        let due = match link {
            Some(_) => running.core.poll_timeout(),
            None => running
                .core
                .poll_dial()
                .filter(|_| host.current_dial.is_none()),
        };
        let take_at = now.saturating_add(host.take_after()).max(host.slow_until);
        if let Some(host) = self.programs.get_mut(program) {
            host.changes = changes;
        }
        if has_changed {
            self.take_later(program, take_at);
        }
        if let Some(due) = due {
            self.wake_program(program, due);
        }
        if let Some(link) = link {
            self.expect_arrivals(link);
        }
    }

    fn drive_client(&mut self, program: usize, link: u32) {
        let (now, wall) = (self.now, self.wall(program + 1));
        let Self {
            programs,
            links,
            ways,
            trace,
            rng,
            plan,
            checker,
            ..
        } = self;
        let (Some(host), Some(pipes), Some(ways)) = (
            programs.get_mut(program),
            links.get_mut(&link),
            ways.get(program),
        ) else {
            return;
        };
        let Some(running) = &mut host.running else {
            return;
        };
        let mut input = Vec::new();
        pipes
            .to_client
            .read(now, plan.read_max, &ways.to_client, &mut input);
        let mut engine_has_room = false;
        if !input.is_empty() {
            host.last_input_at = now;
            trace.note(input.len() as u64);
            running.core.handle_input(now, wall, &input);
            running.take_answers(checker);
            if host.plan.drives && host.slow_until <= now {
                running.take(now, usize::MAX, checker);
            }
            engine_has_room = std::mem::take(&mut pipes.to_client.was_full);
        }
        let core = &mut running.core;
        if core.poll_timeout().is_some_and(|due| due <= now) {
            core.handle_timeout(now, wall);
        }
        let send = |to: &mut Direction, bytes: &[u8]| {
            trace.note_bytes(bytes);
            to.send(now, bytes, &ways.to_engine, rng);
        };
        let more = transmit(core, &mut pipes.to_engine, Moment { now, wall }, send);
        let closes = core.wants_close().filter(|_| !more);
        let gone = pipes.to_client.ended(now, &ways.to_client);
        if let Some(cause) = closes.or(gone.map(ended)) {
            pipes.client_is_gone = true;
            let end = last_word(gone, &cause);
            pipes.to_engine.finish(now, end, &ways.to_engine);
            host.link = None;
            let text = format!("program {program} link {link} ends: {cause}");
            trace.log(now, || text);
            core.handle_disconnected(now, cause);
            self.expect_arrivals(link);
            self.forget_link(link);
            return;
        }
        if more {
            let at = now.saturating_add(Duration::from_micros(10));
            self.wake_program(program, at);
        }
        if engine_has_room && let Some(running) = &mut self.engine.running {
            if let Some(slot) = running.sessions.get_mut(&link) {
                slot.is_due = true;
            }
            let at = self.random_turn_time();
            self.wake_session(link, at);
        }
    }

    fn dial(&mut self, program: usize) {
        let now = self.now;
        let Some(host) = self.programs.get_mut(program) else {
            return;
        };
        let Some(running) = &host.running else {
            return;
        };
        if host.current_dial.is_some() || running.core.poll_dial().is_none_or(|due| due > now) {
            return;
        }
        self.dials += 1;
        host.current_dial = Some(self.dials);
        self.await_dial(program);
    }

    /// Schedules the end of an attempt to connect: the time at which an answer can arrive, or the timeout.
    pub(crate) fn await_dial(&mut self, program: usize) {
        let now = self.now;
        let Some(dial) = self
            .programs
            .get(program)
            .and_then(|host| host.current_dial)
        else {
            return;
        };
        let Some(ways) = self.ways.get(program) else {
            return;
        };
        let silent = ways.to_engine.silent_until.max(ways.to_client.silent_until);
        let round_trip = ways.to_engine.delay + ways.to_client.delay;
        let answered = silent.max(now).saturating_add(round_trip);
        let at = answered.min(now.saturating_add(DIAL_TIMEOUT));
        self.schedule(at, Event::DialEnded(program, dial));
    }

    pub(crate) fn dial_ended(&mut self, program: usize, dial: u32) {
        let (now, wall) = (self.now, self.wall(program + 1));
        let Some(ways) = self.ways.get(program) else {
            return;
        };
        let is_silent = ways.to_engine.silent_until.max(ways.to_client.silent_until) > now;
        let refused = self.engine.running.is_none() || self.engine.refuses_until > now;
        let Some(host) = self.programs.get_mut(program) else {
            return;
        };
        // Ignore an attempt that has already ended, or whose process was killed.
        if host.current_dial != Some(dial) {
            return;
        }
        host.current_dial = None;
        let Some(running) = &mut host.running else {
            return;
        };
        let failed = match (is_silent, refused) {
            (true, _) => Some(io(std::io::ErrorKind::TimedOut)),
            (_, true) => Some(refusal()),
            _ => None,
        };
        self.trace.note(u64::from(failed.is_some()));
        if let Some(cause) = failed {
            running.core.handle_disconnected(now, cause);
            return self.wake_program(program, now);
        }
        self.next_link += 1;
        let link = self.next_link;
        let pipes = Pipes {
            program,
            to_engine: Default::default(),
            to_client: Default::default(),
            client_is_gone: false,
            engine_is_gone: false,
        };
        self.links.insert(link, pipes);
        self.connections += 1;
        host.link = Some(link);
        host.last_input_at = now;
        running.core.handle_connected(now, wall);
        self.trace
            .log(now, || format!("program {program} link {link} connected"));
        self.wake_program(program, now);
        let at = self.random_turn_time();
        self.wake_session(link, at);
    }

    pub(crate) fn session_turn(&mut self, link: u32) {
        let (now, wall) = (self.now, self.wall(0));
        if self.engine.running.is_none() {
            return;
        }
        if self.engine.paused_until > now {
            let until = self.engine.paused_until;
            if let Some(running) = &mut self.engine.running
                && let Some(slot) = running.sessions.get_mut(&link)
            {
                if slot.turn_at != Some(now) {
                    return;
                }
                slot.turn_at = None;
                slot.last_input_at = until;
            }
            return self.wake_session(link, until);
        }
        let Some(pipes) = self.links.get(&link) else {
            return;
        };
        if pipes.engine_is_gone {
            return;
        }
        let program = pipes.program;
        let known = self
            .engine
            .running
            .as_ref()
            .is_some_and(|e| e.sessions.contains_key(&link));
        if !known {
            let host = self.programs.get(program);
            let running = host.and_then(|host| host.running.as_ref());
            let writer = running.map_or(0, |running| running.writer);
            let checker = &mut self.checker;
            self.engine.accept(link, program, writer, now, checker);
        }
        let Self {
            engine,
            links,
            ways,
            trace,
            rng,
            plan,
            ..
        } = self;
        let (Some(running), Some(pipes), Some(ways)) =
            (&mut engine.running, links.get_mut(&link), ways.get(program))
        else {
            return;
        };
        let Some(slot) = running.sessions.get_mut(&link) else {
            return;
        };
        if known && slot.turn_at != Some(now) {
            return;
        }
        slot.turn_at = None;
        if !known {
            slot.session.handle_connected(now, wall);
        }
        let session = &mut slot.session;
        let mut input = Vec::new();
        let mut client_has_room = false;
        if session.wants_input() {
            pipes
                .to_engine
                .read(now, plan.read_max, &ways.to_engine, &mut input);
        }
        let took_input = !input.is_empty();
        if took_input {
            slot.last_input_at = now;
            trace.note(input.len() as u64);
            session.handle_input(now, wall, &input);
            client_has_room = std::mem::take(&mut pipes.to_engine.was_full);
        }
        let is_timed = session.poll_timeout().is_some_and(|due| due <= now);
        if is_timed {
            session.handle_timeout(now, wall);
        }
        let mut more = false;
        if took_input || is_timed || std::mem::take(&mut slot.is_due) {
            let send = |to: &mut Direction, bytes: &[u8]| {
                trace.note_bytes(bytes);
                match plan.uplink {
                    0 => to.send(now, bytes, &ways.to_client, rng),
                    _ => to.queue(bytes),
                }
            };
            more = transmit(session, &mut pipes.to_client, Moment { now, wall }, send);
            slot.is_due = more;
        }
        let closes = session.wants_close().filter(|_| !more);
        // Report the end only after the session has accepted all bytes before it.
        let gone = pipes.to_engine.ended(now, &ways.to_engine);
        if let Some(cause) = closes.or(gone.map(ended)) {
            session.handle_disconnected(now, cause.clone());
            pipes.engine_is_gone = true;
            let end = last_word(gone, &cause);
            pipes.to_client.finish(now, end, &ways.to_client);
            running.sessions.remove(&link);
            trace.log(now, || format!("engine ends link {link}: {cause}"));
            self.after_engine();
            self.expect_arrivals(link);
            return self.forget_link(link);
        }
        let due = session.poll_timeout();
        let has_queued = pipes.to_client.has_queued();
        let readable = session.wants_input();
        self.after_engine();
        if more {
            let at = now.saturating_add(Duration::from_micros(10));
            self.wake_session(link, at);
        }
        if let Some(due) = due {
            self.wake_session(link, due);
        }
        if has_queued && !std::mem::replace(&mut self.is_packet_scheduled, true) {
            self.schedule(now, Event::SendPacket);
        }
        if client_has_room {
            let at = self.random_turn_time();
            self.wake_program(program, at);
        }
        let arrivals = self.links.get(&link).zip(self.ways.get(program));
        let next = arrivals.map(|(pipes, ways)| {
            let to_engine = pipes.to_engine.next_arrival(&ways.to_engine);
            let to_client = pipes.to_client.next_arrival(&ways.to_client);
            (
                to_engine.filter(|_| readable),
                to_client,
                pipes.client_is_gone,
            )
        });
        if let Some((to_engine, to_client, client_is_gone)) = next {
            if let Some(at) = to_engine {
                let at = at.max(now.saturating_add(Duration::from_micros(5)));
                self.wake_session(link, at);
            }
            if let Some(at) = to_client.filter(|_| !client_is_gone) {
                self.wake_program(program, at);
            }
        }
    }

    /// Sends a packet over the shared line. Connections take turns.
    pub(crate) fn send_packet(&mut self) {
        let now = self.now;
        self.is_packet_scheduled = false;
        let waits = |(link, pipes): (&u32, &Pipes)| pipes.to_client.has_queued().then_some(*link);
        let next = self
            .links
            .range(self.last_packet_link + 1..)
            .find_map(waits);
        let Some(link) = next.or_else(|| self.links.iter().find_map(waits)) else {
            return;
        };
        self.last_packet_link = link;
        let Self {
            links,
            ways,
            rng,
            plan,
            ..
        } = self;
        let Some(pipes) = links.get_mut(&link) else {
            return;
        };
        let Some(way) = ways.get(pipes.program) else {
            return;
        };
        let count = pipes
            .to_client
            .send_queued(now, PACKET, &way.to_client, rng) as u64;
        let nanos = (count * 1_000_000_000)
            .checked_div(plan.uplink)
            .unwrap_or(0);
        self.expect_arrivals(link);
        self.is_packet_scheduled = true;
        let at = now.saturating_add(Duration::from_nanos(nanos));
        self.schedule(at, Event::SendPacket);
    }

    /// Removes a connection that both ends have closed.
    pub(crate) fn forget_link(&mut self, link: u32) {
        let both = |pipes: &Pipes| pipes.client_is_gone && pipes.engine_is_gone;
        if self.links.get(&link).is_some_and(both) {
            self.links.remove(&link);
        }
    }
}
