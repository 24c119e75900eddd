//! Applies faults, ends them, and checks deadlines.

use std::io;
use std::time::Duration;

use trunkline_proto::VersionRange;
use trunkline_proto::message::stream::listing::EndpointsQuery;
use trunkline_proto::message::stream::{EndState, StreamHello};
use trunkline_proto::stream::Secret;
use trunkline_stream::journal::sim_disk::{Crash, Failure, Tail, Tear};
use trunkline_types::Tick;

use super::fault::Fault;
use super::net::{Conn, Holder};
use super::world::World;
use crate::link::{End, Way};

/// Number of bytes of requests with which a hostile peer floods a directory.
const FLOOD: usize = 400 << 10;

/// Maximum time that an endpoint may stay connected to a silent peer: the deadline of 3 s, an interval that
/// a process adds once after its own pause, and the time of a turn.
const SILENCE: Duration = Duration::from_millis(4300);

impl World {
    pub(super) fn inject_due_faults(&mut self) {
        for at in 0..self.schedule.len() {
            let (due, fault) = self.schedule[at];
            if due > self.now {
                continue;
            }
            let faults = self.shared.plan.faults.iter();
            let mean = faults
                .clone()
                .find(|(f, _)| *f == fault)
                .map(|(_, mean)| *mean);
            let wait = self.rng.wait(mean.unwrap_or(Duration::from_secs(10)));
            self.schedule[at].0 = self.now.saturating_add(wait);
            self.inject(fault);
        }
    }

    fn inject(&mut self, fault: Fault) {
        let now = self.now;
        let side = self.rng.index(2);
        let pause = Duration::from_secs_f64(self.rng.magnitude(0.02, 9.0));
        let until = now.saturating_add(pause);
        let has_journal = self.plan().sides[side].journal.is_some();
        let numbers: Vec<u64> = self.conns.keys().copied().collect();
        let conn = match numbers.len() {
            0 => None,
            count => Some(numbers[self.rng.index(count)]),
        };
        *self.faults.entry(fault).or_default() += 1;
        self.trace.log(now, || {
            format!("fault {fault:?} side {side} conn {conn:?} for {pause:?}")
        });
        let is_of_connection = matches!(
            fault,
            Fault::Cut | Fault::HalfCut | Fault::HalfOpen | Fault::Slow | Fault::Late
        );
        let give_up_chance = self.plan().sides[0].pace.give_up_chance;
        if is_of_connection && self.rng.chance(give_up_chance) {
            let soon = now.saturating_add(self.rng.millis(0, 500));
            self.shared.ends_at.set(Some(soon));
        }
        match fault {
            Fault::Cut | Fault::HalfCut => self.cut(conn, fault == Fault::HalfCut, until),
            Fault::HalfOpen => {
                let which = self.rng.below(3);
                self.with(conn, |conn| {
                    for (at, way) in conn.ways.iter_mut().enumerate() {
                        if which != at as u64 {
                            way.silent_until = way.silent_until.max(until);
                        }
                    }
                });
            }
            Fault::Slow => {
                let rate = self.rng.magnitude(2_000.0, 500_000.0) as u64;
                self.with(conn, |conn| {
                    conn.ways.iter_mut().for_each(|way| way.rate = rate)
                });
            }
            Fault::Late => {
                let late = [0, 1].map(|_| self.rng.magnitude(0.001, 6.0));
                self.with(conn, |conn| {
                    for (way, late) in conn.ways.iter_mut().zip(late) {
                        way.delay = Duration::from_secs_f64(late);
                    }
                });
            }
            Fault::Refuse => match self.rng.chance(0.5) {
                true => self.refuse_until = until,
                false => self.silent_until = until,
            },
            Fault::Replay => self.replay(),
            Fault::Hostile => self.flood(side),
            Fault::Impostor => self.impostor(side),
            Fault::Alter => {
                let end = self.rng.index(2);
                let count = self.rng.range(1, 3) as u32;
                // Data between an endpoint and a directory has no checksums, so do not alter it.
                let is_endpoint = |holder: &Holder| matches!(holder, Holder::Slot(..));
                self.with(conn, |conn| {
                    if conn.holders.iter().all(is_endpoint) {
                        conn.alters[end] = count;
                    }
                });
            }
            Fault::Pause => {
                if self.sides[side].running.is_some() {
                    self.sides[side].paused_until = until;
                    self.sides[side].runs_since = until;
                }
            }
            Fault::Kill => self.kill_for(side, Crash::Killed, pause),
            Fault::PowerFails => {
                if has_journal {
                    let tear = Tear {
                        bytes: match self.rng.below(3) {
                            0 => 0,
                            _ => self.rng.below(5000),
                        },
                        tail: [Tail::Truncated, Tail::Zeroed, Tail::Garbage][self.rng.index(3)],
                        names: self.rng.bits(),
                    };
                    self.shared.checker.borrow_mut().power_failed(side);
                    self.kill_for(side, Crash::PowerFailed(tear), pause);
                }
            }
            Fault::Idle => self.shared.idle_until[side].set(until),
            Fault::DiskFull => {
                self.shared.checker.borrow_mut().has_failed |= has_journal;
                let disk = &self.sides[side].disk;
                disk.set_capacity(disk.used() + self.rng.below(200));
            }
            Fault::DiskFails | Fault::SyncFails => {
                self.shared.checker.borrow_mut().has_failed |= has_journal;
                let disk = &self.sides[side].disk;
                let from = disk.calls() + self.rng.below(4);
                let count = match fault {
                    Fault::SyncFails => 1,
                    _ => self.rng.range(1, 30),
                };
                disk.fail(Failure {
                    from,
                    until: from + count,
                    kind: io::ErrorKind::Other,
                    only_changes: true,
                });
            }
        }
    }

    fn with(&mut self, conn: Option<u64>, f: impl FnOnce(&mut Conn)) {
        if let Some(conn) = conn.and_then(|number| self.conns.get_mut(&number)) {
            f(conn);
        }
    }

    fn cut(&mut self, conn: Option<u64>, is_half: bool, until: Tick) {
        let now = self.now;
        let (end, resets) = (self.rng.index(2), self.rng.chance(0.5));
        let kept = self.rng.bits();
        let how = if resets { End::Reset } else { End::Fin };
        self.with(conn, |conn| {
            for direction in 0..2 {
                let kept = kept as usize % (conn.directions[direction].bytes() + 1);
                if !is_half {
                    conn.directions[direction].cut(now, kept, how);
                } else if direction == end {
                    // The receiver of this direction is notified now, and the other endpoint later.
                    conn.directions[direction].cut(now, 0, End::Reset);
                } else {
                    let way = &mut conn.ways[direction];
                    way.silent_until = way.silent_until.max(until);
                    let way = *way;
                    conn.directions[direction].finish(until, how, &way);
                }
            }
        });
    }

    /// Sends the first bytes of an earlier connection over a new connection.
    fn replay(&mut self) {
        if self.openings.is_empty() {
            return;
        }
        let at = self.rng.index(self.openings.len());
        let (to, opening) = self.openings.swap_remove(at);
        if let Some(session) = self.session(to) {
            let now = self.now;
            let way = self.plan().way;
            let mut conn = Conn::new(to, way, now, Holder::HandingOver, session);
            conn.is_replay = true;
            conn.send(0, now, &opening, &mut self.rng);
            conn.finish(0, now.saturating_add(Duration::from_secs(2)), End::Fin);
            self.add(conn);
        }
    }

    /// Sends requests to a directory, as many as the network accepts. The last request is incomplete.
    fn flood(&mut self, to: usize) {
        let Some(session) = self.session(to) else {
            return;
        };
        let now = self.now;
        let mut pending_requests = Vec::new();
        let query = EndpointsQuery {
            versions: VersionRange::OURS,
            after: String::new(),
            only: String::new(),
        };
        while pending_requests.len() < FLOOD {
            query.encode(&mut pending_requests);
        }
        pending_requests.truncate(FLOOD - 1);
        let mut conn = Conn::new(to, self.plan().way, now, Holder::HandingOver, session);
        conn.is_replay = true;
        let sent = conn.send(0, now, &pending_requests, &mut self.rng);
        conn.pending_requests = pending_requests[sent..].to_vec();
        self.add(conn);
    }

    /// Connects to the endpoints of a side as an impostor of their peers: with the correct incarnation,
    /// an attempt number above all real ones, and an invented state, but without the secret. No endpoint
    /// may admit the impostor.
    fn impostor(&mut self, side: usize) {
        for at in 0..self.sides[side].slots.len() {
            let end = self.sides[side].slots[at].end.clone();
            let over = end.close_deadline().is_some() || end.is_over();
            let Some((peer, own)) = end.reported_peer().filter(|_| !over) else {
                continue;
            };
            let position = self.rng.below(10_000);
            let mut hello = StreamHello {
                versions: VersionRange::OURS,
                end: peer,
                peer: self.rng.chance(0.8).then_some(own),
                attempt: (1 << 40) + self.rng.below(1 << 20),
                ticket: None,
                share: self.rng.chance(0.8).then(|| self.secret()),
                proof: self.rng.chance(0.8).then(|| self.secret()),
            };
            match &mut hello.end.state {
                EndState::Writer(state) => state.written = position,
                EndState::Reader(state) => {
                    (state.arrived, state.read, state.durable) = (position, position, position);
                    state.credit_bytes = position + hello.end.bytes_max;
                }
            }
            let mut bytes = Vec::new();
            hello.encode(&mut bytes);
            if end.admit(&bytes).is_ok() {
                let message = || format!("I8: side {side} admits an impostor as its peer");
                self.shared.checker.borrow_mut().fail(message);
            }
        }
    }

    fn secret(&mut self) -> Secret {
        let mut bytes = [0; 32];
        bytes.fill_with(|| self.rng.below(256) as u8);
        Secret(bytes)
    }

    fn kill_for(&mut self, side: usize, crash: Crash, pause: Duration) {
        self.shared.checker.borrow_mut().is_disturbed = true;
        if self.sides[side].running.is_some() {
            self.kill(side, crash);
        }
        self.sides[side].start_at = Some(self.now.saturating_add(pause));
    }

    /// Ends all faults.
    pub(super) fn heal(&mut self) {
        let now = self.now;
        self.trace.log(now, || "healed".to_owned());
        self.schedule.clear();
        let backlog_max = self.plan().backlog();
        self.shared.checker.borrow_mut().healed(backlog_max);
        (self.refuse_until, self.silent_until) = (Tick::ZERO, Tick::ZERO);
        let way: Way = self.plan().way;
        for conn in self.conns.values_mut() {
            conn.ways = [way; 2];
            conn.alters = [0; 2];
            for direction in &mut conn.directions {
                direction.deliver_by(now.saturating_add(way.delay));
            }
        }
        for side in 0..2 {
            let machine = &mut self.sides[side];
            if machine.paused_until > now {
                machine.paused_until = now;
                machine.runs_since = now;
            }
            machine.disk.clear_faults();
            machine.start_at = machine.start_at.map(|at| at.min(now));
            self.shared.idle_until[side].set(Tick::ZERO);
        }
    }

    /// Checks that no endpoint stays connected to a silent peer or waits longer than `gone_after`.
    pub(super) fn watch(&mut self) {
        let now = self.now;
        self.shared.checker.borrow_mut().check_probe(now);
        for side in 0..2 {
            self.watch_side(side);
        }
    }

    fn watch_side(&mut self, side: usize) {
        let now = self.now;
        let turns = self.shared.plan.scheduling * 4;
        let machine = &mut self.sides[side];
        if machine.paused_until > now || machine.running.is_none() {
            return;
        }
        for slot in &mut machine.slots {
            let is_connected = slot.end.is_connected();
            let lost = slot.end.disconnections();
            if is_connected || slot.end.peer().is_none() || lost != slot.last_connected.1 {
                slot.last_connected = (now, lost);
            }
            let conn = slot.conn.and_then(|number| self.conns.get(&number));
            if let Some(conn) = conn.filter(|_| is_connected) {
                let own = usize::from(conn.to == side);
                let since = conn.last_input_at[own]
                    .max(slot.connected_at)
                    .max(machine.runs_since);
                if now.since(since) > SILENCE + turns {
                    self.shared
                        .checker
                        .borrow_mut()
                        .fail(|| format!("I5: side {side} stays connected to a silent peer"));
                }
            }
            let Some(after) = self.shared.plan.gone_after else {
                continue;
            };
            let is_over = slot.end.close_deadline().is_some() || slot.end.is_over();
            let away = now.since(slot.last_connected.0.max(machine.runs_since));
            // Add 2 s, because a connection that is being closed may take this time for its last bytes.
            let is_running = now.since(machine.runs_since) > Duration::from_secs(1);
            if is_running && !is_over && away > after + Duration::from_millis(2500) + turns {
                self.shared.checker.borrow_mut().fail(|| {
                    format!("I5: side {side} waits for {away:?}, which is longer than {after:?}")
                });
            }
        }
    }
}
