//! Implements the interface through which a driver passes input, output and time to a session.
//!
//! Input: each frame is checked against the memory budget, and then handled as a request. Output:
//! answers come before updates. In throughput mode, both go through the gather buffer.

use trunkline_engine::Update;
use trunkline_engine::search::Matcher;
use trunkline_proto::frame::split_oversized;
use trunkline_proto::limits::{FRAME_DEADLINE, FRAME_MAX_DEFAULT, REQUEST_DEADLINE};
use trunkline_proto::message::closing::{Goodbye, Refused};
use trunkline_proto::message::hello::Hello;
use trunkline_proto::message::keepalive::{Ack, Keepalive};
use trunkline_proto::message::subscribe::SubscribeItem;
use trunkline_proto::{
    Channel, Disconnect, Endpoint, FaultCode, Features, Frame, FrameKind, LivenessAction,
};
use trunkline_types::{Moment, Pattern, Tick, Timestamp};

use crate::answers::Answers;
use crate::context::{Context, Effect, Progress, REQUEST_BYTES, UNITS_MAX};
use crate::fault::not_agreed;
use crate::gate;
use crate::request_budget::MemoryUse;
use crate::requests::orders::answer_reports;
use crate::requests::provider::ProviderRole;
use crate::requests::write::retry_parked;
use crate::requests::{
    Rejection, alarm, engine, find, flush, forcing, group, history, lease, open, orders, pair,
    read, snapshot, subscribe, why, write,
};
use crate::updates::UpdateSink;
use crate::write_run::OwnedWrite;

use super::{Phase, Session, may_reconnect};

/// Maximum number of answer bytes waiting for a client that does not read. Above this number, the
/// session stops reading the client's input.
const ANSWERS_BYTES_MAX: usize = 1 << 20;
/// Maximum number of bytes in waiting requests. Above this number, the session stops reading its
/// input.
const WORK_BYTES_MAX: usize = 8 << 20;

/// Maximum payload of a request in bytes. Only values may be longer; clients split long lists into
/// several frames.
const REQUEST_BYTES_MAX: usize = 2 * FRAME_MAX_DEFAULT as usize;

impl Endpoint for Session {
    fn handle_connected(&mut self, now: Tick, wall: Timestamp) {
        self.context.moment = Moment { now, wall };
        let deadline = now.saturating_add(self.context.options.hello_deadline);
        self.phase = Phase::Hello { deadline };
    }

    fn handle_channel(&mut self, channel: &Channel) {
        self.channel = channel.clone();
    }

    fn handle_input(&mut self, now: Tick, wall: Timestamp, bytes: &[u8]) {
        if self.is_over() {
            return;
        }
        self.context.moment = Moment { now, wall };
        if self.end_if_revoked() {
            return;
        }
        self.liveness.handle_received(now);
        match self.read_frames(bytes) {
            // These frames may have caused updates for other sessions. Send them now if this thread
            // may send for those sessions.
            Ok(()) => self.context.wakes.send(),
            Err(cause) => self.fail(cause),
        }
    }

    fn wants_input(&self) -> bool {
        !matches!(self.phase, Phase::Login { .. })
            && self.context.answers.len() < ANSWERS_BYTES_MAX
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
        if let Err(cause) = self.finish_login() {
            self.fail(cause);
        }
        self.end_if_revoked();
        let (start, end) = (out.len(), out.len().saturating_add(budget));
        let was_reading = self.wants_input();
        let mut more = self.is_open() && self.run_work(budget);
        self.context.answers.send(out, budget, self.frame_max);
        if !self.context.answers.is_empty() {
            // An update must not overtake the answer to the write that caused it.
            more = true;
        } else if self.is_open() {
            more |= self.send_updates(end, out);
            // A watch may have waited for the last updates of removed variables, which may be sent now.
            if self.watches.is_waiting() {
                more |= self.watches.run_watches(&mut self.context, budget);
                self.context.answers.send(out, budget, self.frame_max);
                more |= !self.context.answers.is_empty();
            }
            let facts = self.context.options.facts.as_ref();
            let goodbye = facts.and_then(|facts| facts.goodbye());
            if let Some(goodbye) = goodbye.filter(|_| !more) {
                self.shut_down(&goodbye);
                self.context.answers.send(out, usize::MAX, self.frame_max);
            }
        }
        if !was_reading && out.len() > start {
            // The peer receives data, so it is alive.
            self.restart_peer_deadlines(now);
        }
        self.context.wakes.flush();
        more
    }

    fn poll_timeout(&self) -> Option<Tick> {
        match &self.phase {
            Phase::Hello { deadline } | Phase::Login { deadline, .. } => Some(*deadline),
            Phase::Open => {
                let incomplete = Tick::earliest([
                    self.frames.poll_timeout(),
                    self.context.unfinished.poll_timeout(),
                    self.deploys.poll_timeout(),
                ]);
                let gathering = self.gathering.as_ref();
                Tick::earliest([
                    Some(self.liveness.poll_timeout()),
                    incomplete.map(|due| due.max(self.deadlines_resume_at)),
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
        // A decision that has arrived counts, even if this end looks at it after the deadline.
        if let Err(cause) = self.finish_login() {
            return self.fail(cause);
        }
        match self.phase {
            Phase::Hello { deadline } if now >= deadline => {
                let deadline = self.context.options.hello_deadline;
                return self.fail(Disconnect::Slow {
                    what: "hello",
                    deadline,
                });
            }
            Phase::Login { deadline, .. } if now >= deadline => {
                let sentence = "the engine could not check the login in time, because too many \
                                logins are waiting; try again later";
                let refused = Refused {
                    code: FaultCode::Overloaded,
                    versions: self.context.options.negotiation.versions,
                    retry_after: Some(self.context.options.hello_deadline),
                    sentence: sentence.to_owned(),
                };
                refused.encode(&mut self.context.answers.frames);
                return self.close(Disconnect::from_refused(&refused, refused.versions));
            }
            Phase::Open => {}
            _ => return,
        }
        self.context.send_gathered |= self
            .gathering
            .as_mut()
            .is_some_and(|gathering| gathering.expire(now));
        if self.context.queue.bytes() >= WORK_BYTES_MAX {
            self.restart_peer_deadlines(now);
        }
        if now >= self.deadlines_resume_at
            && let Err(error) = self.frames.handle_timeout(now)
        {
            return self.fail(error.into());
        }
        let deploy_due = self.deploys.poll_timeout();
        if now >= self.deadlines_resume_at
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
        // Once the time is over, the next call of `poll_output` tries the parked write again.
        self.context.parked_until = self.context.parked_until.filter(|until| *until > now);
        if self.context.sampled_due.is_some_and(|due| due <= now) {
            self.context.sampled_due = self.context.consumer.poll(now);
        }
    }

    fn handle_disconnected(&mut self, now: Tick, cause: Disconnect) {
        let Moment {
            now: last_call,
            wall,
        } = self.context.moment;
        let elapsed = i64::try_from(now.since(last_call).as_nanos()).unwrap_or(i64::MAX);
        let wall = wall.saturating_add_nanos(elapsed);
        self.context.moment = Moment { now, wall };
        self.report_end(&cause);
        self.phase = Phase::Ended;
        self.gathering = None;
        self.context.answers = Answers::default();
        self.release(may_reconnect(&cause));
    }

    fn lets_writers_send(&self) -> bool {
        // A writer's thread may send updates, but only the session's own thread may send answers.
        self.is_open()
            && self.gathering.is_none()
            && self.context.answers.is_empty()
            && self.context.queue.is_empty()
            && self.context.parked_until.is_none()
            && self.watches.is_empty()
            && self.control.is_idle()
            && self.convergence.is_idle()
    }

    fn is_in_handshake(&self) -> bool {
        matches!(self.phase, Phase::Hello { .. } | Phase::Login { .. })
    }

    fn wants_close(&self) -> Option<Disconnect> {
        match &self.phase {
            Phase::Closing(cause) => Some(cause.clone()),
            _ => None,
        }
    }
}

impl Session {
    /// Handles all complete frames, and buffers an incomplete one.
    fn read_frames(&mut self, mut input: &[u8]) -> Result<(), Disconnect> {
        loop {
            // The frame borrows the buffer, so the buffer is moved out of `self` for the call. A HELLO
            // sets new limits on the buffer that is left in `self`, which therefore replaces this one.
            let mut frames = std::mem::take(&mut self.frames);
            let was_open = self.is_open();
            let result = match frames.next_frame(self.context.moment.now, &mut input) {
                Ok(Some(frame)) => self.dispatch(&frame),
                Ok(None) => {
                    self.frames = frames;
                    return self.update_account();
                }
                Err(error) => Err(error.into()),
            };
            if was_open {
                self.frames = frames;
            }
            result?;
        }
    }

    /// Records the memory that waiting requests and incomplete frames use now. Incomplete frames are
    /// already in memory, so the session ends if the budget does not allow them.
    fn update_account(&mut self) -> Result<(), Disconnect> {
        let frame_bytes = self.frames.allocated_bytes();
        // Each request was charged for at least the memory that it needs.
        self.context
            .account
            .lower(MemoryUse::Requests, self.context.queue.bytes());
        let charged = self.context.account.set(MemoryUse::Frames, frame_bytes);
        charged.map_err(|fault| Disconnect::OutOfMemory {
            sentence: fault.sentence.to_string(),
        })
    }

    fn dispatch(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        // Skip frame kinds of a newer minor version (B-51).
        let Some(kind) = frame.kind() else {
            return Ok(());
        };
        if let Phase::Login { .. } = self.phase {
            let sentence = format!("{kind} before WELCOME");
            return Err(Disconnect::Malformed { sentence });
        }
        if !self.is_open() {
            return match kind {
                FrameKind::Hello => self.handle_hello(Hello::decode(frame)?),
                FrameKind::Goodbye => Err(Goodbye::decode(frame)?.into()),
                _ => Err(Disconnect::Malformed {
                    sentence: format!("{kind} before HELLO"),
                }),
            };
        }
        let bytes = frame.payload().len();
        let has_value = matches!(
            kind,
            FrameKind::Write
                | FrameKind::GroupWrite
                | FrameKind::Publish
                | FrameKind::ProviderAnswer
        );
        if bytes > REQUEST_BYTES_MAX && !has_value {
            let sentence = format!(
                "a {kind} of {bytes} bytes exceeds the limit of {REQUEST_BYTES_MAX}; split long lists \
                 into several frames"
            );
            return Err(Disconnect::Malformed { sentence });
        }
        match self.handle_request(kind, frame) {
            Err(Rejection::Disconnect(cause)) => return Err(cause),
            Err(Rejection::Fault(fault)) => self.context.put_fault(frame.request(), &fault),
            Ok(()) => {}
        }
        Ok(())
    }

    fn handle_request(&mut self, kind: FrameKind, frame: &Frame<'_>) -> Result<(), Rejection> {
        let context = &mut self.context;
        let feature = feature_of(kind).filter(|feature| !context.features.contains(*feature));
        if let Some(feature) = feature {
            return Err(not_agreed(&kind.to_string(), feature).into());
        }
        if !reserve(context, kind, frame)? {
            return Ok(());
        }
        let frame = match gate::pass(kind, frame, &context.caller) {
            Ok(frame) => frame,
            Err(fault) => {
                let refused = gate::RefusedRequest {
                    request: kind.name(),
                    name: "",
                };
                let (engine, caller) = (&context.engine, &context.caller);
                gate::note_refusal(engine, caller, refused, context.moment, &mut context.wakes);
                return Err(fault.into());
            }
        };
        let frame = &frame;
        match kind {
            FrameKind::Keepalive => {
                let keepalive = Keepalive::decode(frame)?;
                self.liveness
                    .handle_keepalive(context.moment.now, &keepalive);
                context.confirm(keepalive.records_received)?;
            }
            FrameKind::Ack => {
                let ack = Ack::decode(frame)?;
                context.confirm(ack.head().records_received)?;
                for grant in ack {
                    let grant = grant?;
                    context.consumer.grant(grant.subscription, grant.more);
                }
            }
            FrameKind::Compare => self.convergence.handle_compare(context, frame)?,
            FrameKind::Goodbye => {
                let goodbye = Goodbye::decode(frame)?;
                self.finish_writes();
                return Err(Disconnect::from(goodbye).into());
            }
            FrameKind::Hello => {
                let sentence = "a second HELLO".to_owned();
                return Err(Disconnect::Malformed { sentence }.into());
            }
            FrameKind::Open => open::handle(context, frame)?,
            FrameKind::Subscribe => subscribe::handle(context, frame)?,
            FrameKind::Unsubscribe
            | FrameKind::Close
            | FrameKind::Read
            | FrameKind::Info
            | FrameKind::RequestValue => read::handle(context, frame, kind)?,
            FrameKind::Write | FrameKind::Publish => write::handle(context, frame)?,
            FrameKind::GroupWrite => group::handle(context, frame)?,
            FrameKind::Snapshot => snapshot::handle(context, frame)?,
            FrameKind::Lease => lease::handle(context, frame)?,
            FrameKind::Find => find::handle(context, frame)?,
            FrameKind::Why => why::handle(context, frame)?,
            FrameKind::Engine => engine::handle(context, frame)?,
            FrameKind::Flush => flush::handle(context, frame)?,
            FrameKind::Watch => self.watches.handle(context, frame)?,
            FrameKind::Unwatch => self.watches.handle_unwatch(frame)?,
            FrameKind::Control => self.control.handle(context, frame)?,
            FrameKind::Deploy => self.deploys.handle(context, frame)?,
            FrameKind::Order => orders::handle(context, frame)?,
            FrameKind::Pair => pair::handle(context, frame)?,
            FrameKind::Audit => orders::handle_audit(context, frame)?,
            FrameKind::Alarms => alarm::handle_alarms(context, frame)?,
            FrameKind::AlarmAct => alarm::handle_act(context, frame)?,
            FrameKind::AlarmJournal => orders::handle_alarm_journal(context, frame)?,
            FrameKind::History => history::handle(context, frame)?,
            FrameKind::Forcing => forcing::handle(context, frame)?,
            FrameKind::Provide => ProviderRole::handle(context, frame)?,
            FrameKind::ProviderAnswer => {
                self.provider_role.handle_provider_answer(context, frame)?
            }
            other => {
                let sentence = format!("{other} is a frame that engines send, not clients");
                return Err(Disconnect::Malformed { sentence }.into());
            }
        }
        Ok(())
    }

    /// Carries out the queued writes of a client that has said goodbye, up to the first write that
    /// would have to wait.
    fn finish_writes(&mut self) {
        let context = &mut self.context;
        retry_parked(context);
        while let Some(mut queued) = context.queue.take() {
            let progress = match queued.request.effect() {
                Effect::Other => continue,
                Effect::Group if !context.parked.is_empty() => return,
                Effect::Group | Effect::Writes => queued.request.run(context),
            };
            if progress == Progress::Parked {
                return;
            }
        }
    }

    /// Produces output like `poll_output`, but collects it in the gather buffer first.
    fn gather_output(
        &mut self,
        now: Tick,
        wall: Timestamp,
        budget: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(mut gathering) = self.gathering.take() else {
            return false;
        };
        let is_flush = gathering.take_flush();
        let produce = |room: usize, out: &mut Vec<u8>| self.poll_output(now, wall, room, out);
        let more = gathering.gather.poll_output(now, budget, out, produce);
        let must_return_credit = self.context.unanswered.take_returned(&self.context.options);
        let must_send =
            std::mem::take(&mut self.context.send_gathered) || is_flush || must_return_credit;
        if must_send || self.is_over() {
            gathering.gather.release(out);
        }
        self.gathering = Some(gathering);
        more
    }

    /// Sends answers from providers and the host, and carries out requests. Returns true if there is
    /// more to do now.
    fn run_work(&mut self, budget: usize) -> bool {
        let context = &mut self.context;
        context
            .unanswered
            .answer_completions(&mut context.consumer, &mut context.answers.frames);
        answer_reports(context);
        let more_orders = self.provider_role.send_provider_orders(context);
        let mut more = self.run_requests(budget) || more_orders;
        let context = &mut self.context;
        more |= self.control.run(context);
        more |= self.watches.run_watches(context, budget);
        more |= self.convergence.run_repairs(context, budget);
        more |= self.convergence.run_sweep(context, budget);
        context
            .account
            .lower(MemoryUse::Requests, context.waiting_bytes());
        more
    }

    /// Carries out requests until the queue is empty, the answers have reached `room` bytes, a write
    /// waits for room in a feed, or other sessions must get their turn. Returns true if there is
    /// more to do now.
    fn run_requests(&mut self, room: usize) -> bool {
        let context = &mut self.context;
        retry_parked(context);
        let mut units = 0;
        while units < UNITS_MAX && context.answers.len() < room {
            let Some(mut queued) = context.queue.take() else {
                return false;
            };
            units += queued.request.units();
            // A request other than a write must see all earlier writes, so it waits for parked ones.
            let must_wait = !context.parked.is_empty() && queued.request.effect() != Effect::Writes;
            let progress = match must_wait {
                true => Progress::Parked,
                false => queued.request.run(context),
            };
            match progress {
                Progress::Done => context.queue.done(&queued),
                Progress::More => context.queue.put_back(queued),
                Progress::Parked => {
                    context.queue.put_back(queued);
                    return false;
                }
            }
        }
        !context.queue.is_empty()
    }

    /// Sends updates while there is room in `out` up to `end`. Returns true if there is more to
    /// send now.
    fn send_updates(&mut self, end: usize, out: &mut Vec<u8>) -> bool {
        let context = &mut self.context;
        let start = out.len();
        let room = end.saturating_sub(start);
        if room == 0 {
            return !context.consumer.is_idle();
        }
        if !context.window.has_room() {
            return false;
        }
        let (epoch, window) = (context.engine.epoch(), &mut context.window);
        let mut sink = UpdateSink::new(out, room, window, context.records, epoch);
        let has_updates = context.consumer.drain(&mut sink, &mut context.wakes);
        let is_full = sink.finish();
        split_oversized(out, start, self.frame_max);
        self.put_answers_before(start, out);
        // Updates taken from a feed may have freed the room for which a parked write waits.
        (has_updates && is_full) || (self.context.parked_until.is_some() && out.len() > start)
    }

    /// Inserts answers of providers before the updates that start at `start`. The answers arrived
    /// while the updates were encoded, and the updates may include the result of an answered write.
    fn put_answers_before(&mut self, start: usize, out: &mut Vec<u8>) {
        let context = &mut self.context;
        context
            .unanswered
            .answer_completions(&mut context.consumer, &mut context.answers.frames);
        if !context.answers.is_empty() {
            let mut frames = Vec::new();
            context
                .answers
                .send(&mut frames, usize::MAX, self.frame_max);
            out.splice(start..start, frames);
        }
    }

    /// Restarts the peer's deadlines, because this end has not read its input. Neither silence nor
    /// an incomplete frame is then the peer's fault.
    fn restart_peer_deadlines(&mut self, now: Tick) {
        self.liveness.handle_received(now);
        self.deadlines_resume_at = now.saturating_add(FRAME_DEADLINE);
    }
}

/// Reserves the memory for a request before it is decoded. Returns false if an earlier frame of the
/// request was refused.
fn reserve(context: &mut Context, kind: FrameKind, frame: &Frame<'_>) -> Result<bool, Rejection> {
    let bytes = waiting_bytes_max(kind, frame);
    if bytes == 0 {
        return Ok(true);
    }
    let request = frame.request();
    let was_refused = context.unfinished.is_refused(request);
    let admitted = match was_refused {
        true => Ok(false),
        false => {
            let waiting = context.waiting_bytes().saturating_add(bytes);
            context
                .account
                .set(MemoryUse::Requests, waiting)
                .map(|()| true)
        }
    };
    if admitted != Ok(true) {
        context.unfinished.remove(request);
        if frame.has_more() {
            let now = context.moment.now;
            context.unfinished.expect_more(now, request, 0, true)?;
        }
    }
    Ok(admitted?)
}

/// Returns the feature that a frame of this kind needs, or `None` if every client may send the frame.
fn feature_of(kind: FrameKind) -> Option<Features> {
    Some(match kind {
        FrameKind::Provide | FrameKind::Publish | FrameKind::ProviderAnswer => Features::PROVIDER,
        FrameKind::Deploy | FrameKind::Order => Features::ADMINISTRATION,
        FrameKind::GroupWrite | FrameKind::Snapshot | FrameKind::Lease => Features::GROUPS,
        // UNWATCH needs no feature: it has no answer, and does nothing without an accepted WATCH.
        FrameKind::Watch => Features::PATTERNS,
        FrameKind::Control => Features::CONTROL,
        FrameKind::Flush => Features::THROUGHPUT,
        FrameKind::Forcing => Features::FORCING,
        FrameKind::Compare => Features::CONVERGENCE,
        FrameKind::Audit => Features::AUDIT,
        FrameKind::Alarms | FrameKind::AlarmAct | FrameKind::AlarmJournal => Features::ALARMS,
        FrameKind::History => Features::HISTORY,
        FrameKind::Pair => Features::ACCOUNTS,
        _ => return None,
    })
}

/// Returns the maximum memory of a request of this kind while it waits, in bytes. Returns 0 for a
/// request that does not wait, and for a request that is charged where it is decoded.
fn waiting_bytes_max(kind: FrameKind, frame: &Frame<'_>) -> usize {
    let payload = frame.payload().len();
    // An item takes at least one byte, regardless of the count in the header.
    let count = (frame.count() as usize).min(payload);
    let item = match kind {
        FrameKind::Open | FrameKind::Close | FrameKind::Read | FrameKind::Info => size_of::<u32>(),
        FrameKind::Unsubscribe | FrameKind::RequestValue => size_of::<u32>(),
        FrameKind::Subscribe => size_of::<SubscribeItem>(),
        FrameKind::Lease => size_of::<(u32, u64)>(),
        FrameKind::AlarmAct => size_of::<(String, String)>(),
        FrameKind::History => size_of::<Pattern>(),
        FrameKind::GroupWrite => size_of::<OwnedWrite>(),
        FrameKind::Snapshot => size_of::<u32>().saturating_add(size_of::<Update>()),
        // A condition stores its text twice.
        FrameKind::Find => size_of::<Matcher>().saturating_add(payload),
        FrameKind::Why
        | FrameKind::Engine
        | FrameKind::Flush
        | FrameKind::Control
        | FrameKind::Forcing
        | FrameKind::Alarms => 0,
        _ => return 0,
    };
    let items = count.saturating_mul(item);
    REQUEST_BYTES.saturating_add(payload).saturating_add(items)
}
