//! The driver's interface to a session: input, output, time, and the end.

use trunkline_engine::Wakes;
use trunkline_proto::limits::REQUEST_DEADLINE;
use trunkline_proto::{Disconnect, Endpoint, LivenessAction};
use trunkline_types::{Tick, Timestamp};

use crate::request_budget::Use;

use super::{ANSWERS_BYTES_MAX, Phase, Session, WORK_BYTES_MAX, may_come_back};

impl Endpoint for Session {
    fn handle_connected(&mut self, now: Tick, _wall: Timestamp) {
        let deadline = now.saturating_add(self.options.hello_deadline);
        self.phase = Phase::Hello { deadline };
    }

    fn handle_input(&mut self, now: Tick, wall: Timestamp, bytes: &[u8]) {
        if self.is_over() {
            return;
        }
        self.last_seen = (now, wall);
        self.liveness.handle_received(now);
        let (mut wakes, mut input) = (Wakes::new(), bytes);
        loop {
            // The frame borrows the buffer, so the buffer is moved out of `self`; the hello changes
            // its limits.
            let mut frames = std::mem::take(&mut self.frames);
            let was_open = self.is_open();
            let result = match frames.next_frame(now, &mut input) {
                Ok(Some(frame)) => self.dispatch(now, wall, &frame, &mut wakes),
                Ok(None) => {
                    self.frames = frames;
                    if let Err(cause) = self.settle_account() {
                        return self.fail(cause);
                    }
                    // Sends the updates that these frames made for other sessions, where this
                    // thread may.
                    return wakes.send();
                }
                Err(error) => Err(error.into()),
            };
            if was_open {
                self.frames = frames;
            }
            if let Err(cause) = result {
                return self.fail(cause);
            }
        }
    }

    fn wants_input(&self) -> bool {
        self.answers.len() < ANSWERS_BYTES_MAX && self.work.bytes() < WORK_BYTES_MAX
    }

    fn poll_output(
        &mut self,
        now: Tick,
        wall: Timestamp,
        budget: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        // The gather buffer is moved out of the session while it collects output.
        if self.gathering.is_some() {
            return self.gather_output(now, wall, budget, out);
        }
        self.last_seen = (now, wall);
        let (start, end) = (out.len(), out.len().saturating_add(budget));
        let was_reading = self.wants_input();
        let mut wakes = Wakes::new();
        let mut more = false;
        if self.is_open() {
            self.answer_completions();
            self.answer_reports();
            let more_orders = self.send_provider_orders();
            more = self.run_work(now, wall, budget, &mut wakes) || more_orders;
            more |= self.run_watches(budget);
            more |= self.run_repairs(budget);
            more |= self.run_sweep(budget);
            self.account.lower(Use::Work, self.waiting_bytes());
        }
        #[cfg(feature = "planted")]
        if trunkline_types::planted::is(trunkline_types::planted::Bug::AnswerAfterUpdate)
            && self.is_open()
        {
            more |= self.send_updates(end, out, &mut wakes);
        }
        self.answers.send(out, budget, self.frame_max);
        if !self.answers.is_empty() {
            // An update must not overtake the answer to the write that made it.
            more = true;
        } else if self.is_open() {
            more |= self.send_updates(end, out, &mut wakes);
            // The last updates of removed variables may have been among them.
            if self.has_waiting_watch() {
                more |= self.run_watches(budget);
                self.answers.send(out, budget, self.frame_max);
                more |= !self.answers.is_empty();
            }
            let goodbye = self
                .options
                .facts
                .as_ref()
                .and_then(|facts| facts.goodbye());
            if let Some(goodbye) = goodbye.filter(|_| !more) {
                self.shut_down(&goodbye);
                self.answers.send(out, usize::MAX, self.frame_max);
            }
        }
        if !was_reading && out.len() > start {
            // The peer takes what is sent to it, so it is alive.
            self.excuse_peer(now);
        }
        more
    }

    fn poll_timeout(&self) -> Option<Tick> {
        match &self.phase {
            Phase::Hello { deadline } => Some(*deadline),
            Phase::Open => {
                let incomplete = Tick::earliest([
                    self.frames.poll_timeout(),
                    self.unfinished.poll_timeout(),
                    self.orders.poll_timeout(),
                ]);
                let gathering = self.gathering.as_ref();
                Tick::earliest([
                    Some(self.liveness.poll_timeout()),
                    incomplete.map(|due| due.max(self.excused_until)),
                    self.parked_until,
                    self.sampled_due,
                    gathering.and_then(|buffer| buffer.poll_timeout()),
                ])
            }
            Phase::Closing(_) | Phase::Ended => None,
        }
    }

    fn handle_timeout(&mut self, now: Tick, wall: Timestamp) {
        self.last_seen = (now, wall);
        match self.phase {
            Phase::Hello { deadline } if now >= deadline => {
                let deadline = self.options.hello_deadline;
                return self.fail(Disconnect::Slow {
                    what: "hello",
                    deadline,
                });
            }
            Phase::Open => {}
            _ => return,
        }
        self.send_gathered |= self
            .gathering
            .as_mut()
            .is_some_and(|gathering| gathering.expire(now));
        if self.work.bytes() >= WORK_BYTES_MAX {
            self.excuse_peer(now);
        }
        if now >= self.excused_until
            && let Err(error) = self.frames.handle_timeout(now)
        {
            return self.fail(error.into());
        }
        let order_due = self.orders.poll_timeout();
        if now >= self.excused_until
            && (self.unfinished.handle_timeout(now) || order_due.is_some_and(|due| due <= now))
        {
            return self.fail(Disconnect::Slow {
                what: "request",
                deadline: REQUEST_DEADLINE,
            });
        }
        match self.liveness.poll(now) {
            LivenessAction::Idle => {}
            LivenessAction::SendKeepalive => {
                self.send_gathered = true;
                let (records, digest) = self.begin_sweep(now);
                self.liveness
                    .keepalive(now, records, digest)
                    .encode(&mut self.answers.frames);
            }
            LivenessAction::Dead { silent_for } => {
                return self.fail(Disconnect::Dead { silent_for });
            }
        }
        // The next output tries the write again, as soon as there is room for its answer.
        self.parked_until = self.parked_until.filter(|until| *until > now);
        if self.sampled_due.is_some_and(|due| due <= now) {
            self.sampled_due = self.consumer.poll(now);
        }
    }

    fn handle_disconnected(&mut self, now: Tick, cause: Disconnect) {
        let (seen, wall) = self.last_seen;
        let since = i64::try_from(now.since(seen).as_nanos()).unwrap_or(i64::MAX);
        self.last_seen = (now, wall.saturating_add_nanos(since));
        self.phase = Phase::Ended;
        self.gathering = None;
        self.answers.discard();
        self.release(may_come_back(&cause));
    }

    fn lets_writers_send(&self) -> bool {
        // Writers may send only updates: answers to the client's requests are left to its own
        // thread.
        self.is_open()
            && self.gathering.is_none()
            && self.answers.is_empty()
            && self.work.is_empty()
            && self.parked_until.is_none()
            && !self.watches.are_any()
            && !self.sweep.is_running()
            && self.repairs.is_empty()
    }

    fn is_in_handshake(&self) -> bool {
        matches!(self.phase, Phase::Hello { .. })
    }

    fn wants_close(&self) -> Option<Disconnect> {
        match &self.phase {
            Phase::Closing(cause) => Some(cause.clone()),
            _ => None,
        }
    }
}
