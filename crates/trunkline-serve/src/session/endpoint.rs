//! The driver's interface to a session: input, output, time, and the end.

use trunkline_proto::limits::REQUEST_DEADLINE;
use trunkline_proto::{Disconnect, Endpoint, LivenessAction};
use trunkline_types::{Moment, Tick, Timestamp};

use crate::answers::Answers;
use crate::request_budget::Use;
use crate::requests::orders::answer_reports;
use crate::requests::write::answer_completions;

use super::{ANSWERS_BYTES_MAX, Phase, Session, WORK_BYTES_MAX, may_come_back};

impl Endpoint for Session {
    fn handle_connected(&mut self, now: Tick, wall: Timestamp) {
        self.context.moment = Moment { now, wall };
        let deadline = now.saturating_add(self.context.options.hello_deadline);
        self.phase = Phase::Hello { deadline };
    }

    fn handle_input(&mut self, now: Tick, wall: Timestamp, bytes: &[u8]) {
        if self.is_over() {
            return;
        }
        self.context.moment = Moment { now, wall };
        self.liveness.handle_received(now);
        match self.read_frames(bytes) {
            // Sends the updates that these frames made for other sessions, where this thread may.
            Ok(()) => self.context.wakes.send(),
            Err(cause) => self.fail(cause),
        }
    }

    fn wants_input(&self) -> bool {
        self.context.answers.len() < ANSWERS_BYTES_MAX
            && self.context.queue.bytes() < WORK_BYTES_MAX
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
        self.context.moment = Moment { now, wall };
        let (start, end) = (out.len(), out.len().saturating_add(budget));
        let was_reading = self.wants_input();
        let mut more = false;
        if self.is_open() {
            answer_completions(&mut self.context);
            answer_reports(&mut self.context);
            let more_orders = self.provided.send_provider_orders(&mut self.context);
            more = self.run_requests(budget) || more_orders;
            let context = &mut self.context;
            more |= self.watches.run_watches(context, budget);
            more |= self.convergence.run_repairs(context, budget);
            more |= self.convergence.run_sweep(context, budget);
            context.account.lower(Use::Work, context.waiting_bytes());
        }
        self.context.answers.send(out, budget, self.frame_max);
        if !self.context.answers.is_empty() {
            // An update must not overtake the answer to the write that made it.
            more = true;
        } else if self.is_open() {
            more |= self.send_updates(end, out);
            // The last updates of removed variables may have been among them.
            if self.watches.is_waiting() {
                more |= self.watches.run_watches(&mut self.context, budget);
                self.context.answers.send(out, budget, self.frame_max);
                more |= !self.context.answers.is_empty();
            }
            let goodbye = self
                .context
                .options
                .facts
                .as_ref()
                .and_then(|facts| facts.goodbye());
            if let Some(goodbye) = goodbye.filter(|_| !more) {
                self.shut_down(&goodbye);
                self.context.answers.send(out, usize::MAX, self.frame_max);
            }
        }
        if !was_reading && out.len() > start {
            // The peer takes what is sent to it, so it is alive.
            self.excuse_peer(now);
        }
        self.context.wakes.flush();
        more
    }

    fn poll_timeout(&self) -> Option<Tick> {
        match &self.phase {
            Phase::Hello { deadline } => Some(*deadline),
            Phase::Open => {
                let incomplete = Tick::earliest([
                    self.frames.poll_timeout(),
                    self.context.unfinished.poll_timeout(),
                    self.deploys.poll_timeout(),
                ]);
                let gathering = self.gathering.as_ref();
                Tick::earliest([
                    Some(self.liveness.poll_timeout()),
                    incomplete.map(|due| due.max(self.excused_until)),
                    self.context.parked_until,
                    self.context.sampled_due,
                    gathering.and_then(|buffer| buffer.poll_timeout()),
                ])
            }
            Phase::Closing(_) | Phase::Ended => None,
        }
    }

    fn handle_timeout(&mut self, now: Tick, wall: Timestamp) {
        self.context.moment = Moment { now, wall };
        match self.phase {
            Phase::Hello { deadline } if now >= deadline => {
                let deadline = self.context.options.hello_deadline;
                return self.fail(Disconnect::Slow {
                    what: "hello",
                    deadline,
                });
            }
            Phase::Open => {}
            _ => return,
        }
        self.context.send_gathered |= self
            .gathering
            .as_mut()
            .is_some_and(|gathering| gathering.expire(now));
        if self.context.queue.bytes() >= WORK_BYTES_MAX {
            self.excuse_peer(now);
        }
        if now >= self.excused_until
            && let Err(error) = self.frames.handle_timeout(now)
        {
            return self.fail(error.into());
        }
        let deploy_due = self.deploys.poll_timeout();
        if now >= self.excused_until
            && (self.context.unfinished.handle_timeout(now)
                || deploy_due.is_some_and(|due| due <= now))
        {
            return self.fail(Disconnect::Slow {
                what: "request",
                deadline: REQUEST_DEADLINE,
            });
        }
        match self.liveness.poll(now) {
            LivenessAction::Idle => {}
            LivenessAction::SendKeepalive => {
                self.context.send_gathered = true;
                let (records, digest) = self.convergence.begin_sweep(&self.context);
                self.liveness
                    .keepalive(now, records, digest)
                    .encode(&mut self.context.answers.frames);
            }
            LivenessAction::Dead { silent_for } => {
                return self.fail(Disconnect::Dead { silent_for });
            }
        }
        // The next output tries the write again, as soon as there is room for its answer.
        self.context.parked_until = self.context.parked_until.filter(|until| *until > now);
        if self.context.sampled_due.is_some_and(|due| due <= now) {
            self.context.sampled_due = self.context.consumer.poll(now);
        }
    }

    fn handle_disconnected(&mut self, now: Tick, cause: Disconnect) {
        let Moment { now: seen, wall } = self.context.moment;
        let since = i64::try_from(now.since(seen).as_nanos()).unwrap_or(i64::MAX);
        let wall = wall.saturating_add_nanos(since);
        self.context.moment = Moment { now, wall };
        self.phase = Phase::Ended;
        self.gathering = None;
        self.context.answers = Answers::default();
        self.release(may_come_back(&cause));
    }

    fn lets_writers_send(&self) -> bool {
        // Writers may send only updates: answers to the client's requests are left to its own
        // thread.
        self.is_open()
            && self.gathering.is_none()
            && self.context.answers.is_empty()
            && self.context.queue.is_empty()
            && self.context.parked_until.is_none()
            && !self.watches.are_any()
            && self.convergence.is_idle()
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
