//! Runs the turns of a stream endpoint. A turn has the same steps, in the same order, as the `Link` of the
//! product.

mod slot;

use std::time::Duration;

use trunkline_proto::Disconnect;
use trunkline_types::Timestamp;

use super::net::{Conn, Holder};
use super::world::World;
use crate::link::End;

pub use self::slot::Slot;

/// Time after which an unanswered attempt to connect fails.
const DIAL_LIMIT: Duration = Duration::from_secs(3);
/// Maximum number of output bytes that wait because the network has no room.
const OUTPUT_BYTES_MAX: usize = 64 << 10;
/// Maximum time that a connection may take for its last bytes while it is closed.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

impl World {
    /// Runs a turn of an endpoint. Returns true if the program should be polled.
    pub(super) fn turn(&mut self, side: usize, at: usize) -> bool {
        let now = self.now;
        let mut changed = self.admit_arrivals(side, at);
        changed |= self.receive(side, at);
        let slot = &mut self.sides[side].slots[at];
        if let Some((_, job)) = slot.sync.take_if(|(due, _)| *due <= now) {
            slot.end.finish_sync(job.run());
            changed = true;
        }
        slot.end.drive(&mut |end| {
            if end.poll_timeout().is_some_and(|due| due <= now) {
                end.handle_timeout(now, Timestamp::UNIX_EPOCH);
                changed = true;
            }
        });
        changed |= self.send(side, at);
        changed |= self.dial(side, at);
        self.plan_next(side, at);
        changed
    }

    /// Admits connections that have arrived over the network.
    fn admit_arrivals(&mut self, side: usize, at: usize) -> bool {
        let now = self.now;
        let mut changed = false;
        while let Some((number, bytes)) = self.sides[side].slots[at].end.next_arrival() {
            let slot = &mut self.sides[side].slots[at];
            let Some(conn) = self.conns.get_mut(&number) else {
                continue;
            };
            match slot.end.admit(&bytes) {
                Ok(()) => {
                    conn.holders[1] = Holder::Slot(side, slot.number);
                    slot.forget_output();
                    slot.connected_at = now;
                    let old = slot.conn.replace(number);
                    self.connections += 1;
                    self.trace.note(number);
                    self.trace
                        .log(now, || format!("side {side} is reached by {number}"));
                    if let Some(old) = old {
                        self.drop_end(old, side, End::Fin);
                    }
                    changed = true;
                }
                Err(answer) => {
                    conn.send(1, now, &answer, &mut self.rng);
                    conn.finish(1, now, End::Fin);
                    self.trace.log(now, || {
                        format!("side {side} refuses {number}: {}", text(&answer))
                    });
                }
            }
        }
        changed
    }

    /// Closes this side's end of a connection.
    pub(super) fn drop_end(&mut self, number: u64, side: usize, how: End) {
        let now = self.now;
        if let Some(conn) = self.conns.get_mut(&number) {
            let end = usize::from(conn.to == side);
            conn.finish(end, now, how);
        }
    }

    fn receive(&mut self, side: usize, at: usize) -> bool {
        let (now, read_max) = (self.now, self.plan().read_max);
        let slot = &mut self.sides[side].slots[at];
        let Some(conn) = slot.conn.and_then(|number| self.conns.get_mut(&number)) else {
            return false;
        };
        let Some(own) = slot.conn_end(conn) else {
            return false;
        };
        let from = 1 - own;
        let mut changed = false;
        loop {
            let mut bytes = Vec::new();
            let mut room = 0;
            slot.end.drive(&mut |end| {
                room = end.direct().map_or(0, |direct| direct.space().len());
            });
            let max = room.saturating_add(read_max);
            conn.directions[from].read(now, max, &conn.ways[from], &mut bytes);
            if bytes.is_empty() {
                break;
            }
            changed = true;
            conn.last_input_at[own] = now;
            self.trace.note_bytes(&bytes);
            let (placed, rest) = bytes.split_at(room.min(bytes.len()));
            slot.end.drive(&mut |end| {
                if let Some(direct) = end.direct().filter(|_| !placed.is_empty()) {
                    direct.space()[..placed.len()].copy_from_slice(placed);
                    direct.handle_received(now, placed.len());
                }
                if !rest.is_empty() {
                    end.handle_input(now, Timestamp::UNIX_EPOCH, rest);
                }
            });
        }
        let Some(how) = conn.directions[from].ended(now, &conn.ways[from]) else {
            return changed;
        };
        let ended = match how {
            End::Fin => Disconnect::PeerClosed,
            End::Reset => Disconnect::Io {
                kind: std::io::ErrorKind::ConnectionReset,
                text: "the connection was reset".to_owned(),
            },
        };
        self.disconnect(side, at, ended);
        true
    }

    fn disconnect(&mut self, side: usize, at: usize, cause: Disconnect) {
        let now = self.now;
        let slot = &mut self.sides[side].slots[at];
        let Some(number) = slot.conn.take() else {
            return;
        };
        slot.forget_output();
        let mut cause = Some(cause);
        slot.end.drive(&mut |end| {
            // The endpoint's own cause is more specific.
            let own = end.wants_close();
            if let Some(cause) = own.or(cause.take()) {
                end.handle_disconnected(now, cause);
            }
        });
        self.trace
            .log(now, || format!("side {side} has lost {number}"));
        self.drop_end(number, side, End::Fin);
    }

    /// Sends pending output, and closes the connection if the endpoint requests it. Returns true if the
    /// connection was closed.
    pub(super) fn send(&mut self, side: usize, at: usize) -> bool {
        let now = self.now;
        let slot = &mut self.sides[side].slots[at];
        let Some(conn) = slot.conn.and_then(|number| self.conns.get_mut(&number)) else {
            return false;
        };
        let Some(own) = slot.conn_end(conn) else {
            return false;
        };
        let (out, sent, is_blocked) = (&mut slot.out, &mut slot.sent, &mut slot.is_blocked);
        let (rng, trace) = (&mut self.rng, &mut self.trace);
        let mut closing = None;
        slot.end.drive(&mut |end| {
            *is_blocked = false;
            loop {
                let has_region = end.direct().is_some_and(|d| !d.region().is_empty());
                if !has_region {
                    *sent += conn.send(own, now, &out[*sent..], rng);
                    if *sent < out.len() {
                        *is_blocked = true;
                        break;
                    }
                    out.clear();
                    *sent = 0;
                    end.poll_output(now, Timestamp::UNIX_EPOCH, OUTPUT_BYTES_MAX, out);
                }
                let Some(direct) = end.direct() else {
                    break;
                };
                if *sent == out.len() && direct.region().is_empty() {
                    break;
                }
                trace.note_bytes(&out[*sent..]);
                *sent += conn.send(own, now, &out[*sent..], rng);
                if *sent < out.len() {
                    *is_blocked = true;
                    break;
                }
                let region = direct.region();
                if region.is_empty() {
                    continue;
                }
                let count = conn.send(own, now, region, rng);
                if count == 0 {
                    *is_blocked = true;
                    break;
                }
                direct.handle_sent(now, count);
            }
            closing = end.wants_close();
        });
        let Some(cause) = closing else {
            return false;
        };
        let limit = now.saturating_add(CLOSE_LIMIT);
        let is_late = *slot.close_by.get_or_insert(limit) <= now;
        if slot.is_blocked && !is_late && !matches!(cause, Disconnect::Dead { .. }) {
            return false;
        }
        self.trace
            .log(now, || format!("side {side} closes: {cause}"));
        self.disconnect(side, at, cause);
        true
    }

    /// Begins an attempt to connect if one is due, or handles the result of the current attempt.
    fn dial(&mut self, side: usize, at: usize) -> bool {
        let now = self.now;
        let slot = &mut self.sides[side].slots[at];
        let Some(ends_at) = slot.dial else {
            let mut due = None;
            slot.end.drive(&mut |end| due = end.poll_dial());
            let is_due = slot.conn.is_none() && due.is_some_and(|due| due <= now);
            if is_due && slot.end.close_deadline().is_none() {
                let is_answered = now >= self.silent_until;
                let way = self.sides[side].way;
                let takes = match is_answered {
                    true => way.delay * 2,
                    false => DIAL_LIMIT,
                };
                slot.dial = Some(now.saturating_add(takes));
            }
            return false;
        };
        if ends_at > now {
            return false;
        }
        slot.dial = None;
        if slot.conn.is_some() || slot.end.close_deadline().is_some() {
            // A connection that arrived during the attempt takes precedence.
            return false;
        }
        let number = slot.number;
        let cause = match self.session(1 - side) {
            _ if now < self.refuse_until => Err("refused"),
            None => Err("no directory listens"),
            Some(session) => Ok(session),
        };
        let slot = &mut self.sides[side].slots[at];
        match cause {
            Ok(session) => {
                let way = self.sides[side].way;
                let holder = Holder::Slot(side, number);
                let conn = Conn::new(1 - side, way, now, holder, session);
                let id = self.add(conn);
                let slot = &mut self.sides[side].slots[at];
                slot.conn = Some(id);
                slot.connected_at = now;
                slot.forget_output();
                slot.end
                    .drive(&mut |end| end.handle_connected(now, Timestamp::UNIX_EPOCH));
                self.connections += 1;
                self.trace
                    .log(now, || format!("side {side} has dialled {id}"));
                self.send(side, at);
            }
            Err(why) => {
                self.trace
                    .log(now, || format!("side {side} cannot dial: {why}"));
                slot.end.drive(&mut |end| {
                    let cause = Disconnect::Io {
                        kind: std::io::ErrorKind::ConnectionRefused,
                        text: why.to_owned(),
                    };
                    end.handle_disconnected(now, cause);
                });
            }
        }
        true
    }

    /// Schedules the next turn of an endpoint, and the end of the sync of its journal.
    pub(super) fn plan_next(&mut self, side: usize, at: usize) {
        let now = self.now;
        let scheduling = self.plan().scheduling;
        let slot = &mut self.sides[side].slots[at];
        if slot.sync.is_none()
            && let Some(job) = slot.end.sync_job()
        {
            let sync_max = self.shared.plan.sync;
            let takes = sync_max.mul_f64(self.rng.below(1000) as f64 / 1000.0);
            slot.sync = Some((now.saturating_add(takes), job));
        }
        let mut due = slot.end.waits().flatten();
        if let Some(by) = slot.end.close_deadline() {
            due = Some(by);
        }
        let has_conn = slot.conn.is_some();
        let may_dial = !has_conn && slot.dial.is_none() && slot.end.close_deadline().is_none();
        slot.end.drive(&mut |end| {
            let dial = end.poll_dial().filter(|_| may_dial);
            due = [due, end.poll_timeout(), dial].into_iter().flatten().min();
        });
        slot.due = due;
        slot.turn_delay = match scheduling.is_zero() {
            true => Duration::ZERO,
            false => Duration::from_nanos(self.rng.below(scheduling.as_nanos() as u64)),
        };
    }

    /// Removes an endpoint that its program has closed, after all its output was sent. Returns true if the
    /// endpoint was removed.
    pub(super) fn remove_closed(&mut self, side: usize, at: usize) -> bool {
        let now = self.now;
        let slot = &mut self.sides[side].slots[at];
        let Some(by) = slot.end.close_deadline() else {
            return false;
        };
        if slot.is_blocked && by > now && slot.conn.is_some() {
            return false;
        }
        self.disconnect(side, at, Disconnect::ClosedLocally);
        self.sides[side].slots.remove(at);
        true
    }
}

fn text(answer: &[u8]) -> String {
    String::from_utf8_lossy(answer).into_owned()
}
