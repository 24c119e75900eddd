//! The engine's end of one connection.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use trunkline_engine::{Caller, Consumer, Engine, Wake, Wakes};
use trunkline_proto::message::closing::{Goodbye, Refused};
use trunkline_proto::message::fault::FaultMessage;
use trunkline_proto::message::hello::{Hello, Welcome};
use trunkline_proto::message::keepalive::{Ack, Keepalive};
use trunkline_proto::{
    Agreement, DecodeError, Disconnect, Endpoint, Fault, FaultCode, Frame, FrameBuffer, FrameKind,
    FrameLimits, Liveness, LivenessAction,
};
use trunkline_types::{Tick, Timestamp};

use crate::options::ServeOptions;
use crate::updates::UpdateSink;
use crate::work::Work;

/// Bytes of answers that may wait for a client that does not read; beyond, its input is left unread.
const ANSWERS_BYTES_MAX: usize = 1 << 20;
/// Bytes of requests that may wait; beyond, the session's input is left unread.
const WORK_BYTES_MAX: usize = 8 << 20;
/// Requests that may be sent in several frames at the same time.
const PAGED_REQUESTS_MAX: usize = 1024;

/// One connection's session, from its hello to its end.
#[derive(Debug)]
pub struct Session {
    pub(crate) engine: Engine,
    pub(crate) options: Arc<ServeOptions>,
    pub(crate) caller: Caller,
    pub(crate) consumer: Consumer,
    phase: Phase,
    frames: FrameBuffer,
    liveness: Liveness,
    /// Frames to be sent before any update.
    pub(crate) answers: Vec<u8>,
    pub(crate) work: VecDeque<Work>,
    work_bytes: usize,
    /// Items of earlier frames of requests that come in several.
    pages: HashMap<u32, u32>,
    /// When a parked write goes on at the latest.
    pub(crate) parked_until: Option<Tick>,
    /// Writes that a provider has not answered yet.
    pub(crate) pending_writes: usize,
    /// Records the client said it has received.
    records_confirmed: u64,
    window_records: usize,
    pub(crate) frame_max: u32,
    /// When a `sampled` subscription is due.
    pub(crate) sampled_due: Option<Tick>,
}

#[derive(Debug)]
enum Phase {
    /// Nothing but a hello is taken, until `deadline`.
    Hello { deadline: Tick },
    Open,
    /// Whatever is still to be sent is sent, then the connection is closed.
    Closing(Disconnect),
    Ended,
}

impl Session {
    /// The session of a new connection. `wake` is called when something is to be sent that was not.
    pub fn new(
        engine: Engine,
        options: Arc<ServeOptions>,
        caller: Caller,
        wake: Box<dyn Wake>,
    ) -> Self {
        let consumer = Consumer::new(engine.clone(), wake).confirmed_by_peer();
        Self {
            engine,
            caller,
            consumer,
            phase: Phase::Hello { deadline: Tick::MAX },
            frames: FrameBuffer::new(FrameLimits::HELLO),
            liveness: Liveness::new(Tick::ZERO, options.keepalive, options.deadline),
            options,
            answers: Vec::new(),
            work: VecDeque::new(),
            work_bytes: 0,
            pages: HashMap::new(),
            parked_until: None,
            pending_writes: 0,
            records_confirmed: 0,
            window_records: 0,
            frame_max: 0,
            sampled_due: None,
        }
    }

    /// Whether the hello has been agreed on.
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    /// Says goodbye and closes, once what waits has been sent.
    pub fn shut_down(&mut self, goodbye: Goodbye) {
        if matches!(self.phase, Phase::Hello { .. } | Phase::Open) {
            goodbye.encode(&mut self.answers);
            self.phase = Phase::Closing(Disconnect::Local);
        }
    }

    fn dispatch(
        &mut self,
        now: Tick,
        wall: Timestamp,
        frame: &Frame<'_>,
        wakes: &mut Wakes,
    ) -> Result<(), Disconnect> {
        // A kind this version does not know belongs to a newer minor version: skipped (B-51).
        let Some(kind) = frame.kind() else { return Ok(()) };
        if let Phase::Hello { .. } = self.phase {
            return match kind {
                FrameKind::Hello => self.handle_hello(now, wall, &Hello::decode(frame)?),
                FrameKind::Goodbye => Err(Goodbye::decode(frame)?.into()),
                _ => Err(Disconnect::Malformed { sentence: format!("{kind} before HELLO") }),
            };
        }
        match kind {
            FrameKind::Keepalive => {
                let keepalive = Keepalive::decode(frame)?;
                self.liveness.handle_keepalive(now, &keepalive);
                self.confirm(keepalive.records_received)
            }
            FrameKind::Ack => {
                let ack = Ack::decode(frame)?;
                self.confirm(ack.records_received())?;
                for grant in ack {
                    let grant = grant?;
                    self.consumer.grant(grant.subscription, grant.more);
                }
                Ok(())
            }
            FrameKind::Goodbye => Err(Goodbye::decode(frame)?.into()),
            FrameKind::Hello => {
                Err(Disconnect::Malformed { sentence: "a second HELLO".to_owned() })
            }
            FrameKind::Open => self.handle_open(frame),
            FrameKind::Subscribe => self.handle_subscribe(frame),
            FrameKind::Unsubscribe
            | FrameKind::Close
            | FrameKind::Read
            | FrameKind::Info
            | FrameKind::RequestValue => self.handle_handles(frame, kind),
            FrameKind::Write => self.handle_write(now, wall, frame, wakes),
            FrameKind::Find | FrameKind::Why | FrameKind::Engine => {
                self.handle_browse(frame, kind)
            }
            FrameKind::Provide | FrameKind::Publish | FrameKind::ProviderAnswer => {
                let sentence = "this engine takes no providers over the network; update it";
                self.refuse_request(frame, &Fault::new(FaultCode::NotSupported, sentence));
                Ok(())
            }
            other => Err(Disconnect::Malformed {
                sentence: format!("{other} is a frame that engines send, not clients"),
            }),
        }
    }

    fn handle_hello(
        &mut self,
        now: Tick,
        wall: Timestamp,
        hello: &Hello,
    ) -> Result<(), Disconnect> {
        let agreement = match self.options.negotiation.accept(hello) {
            Ok(agreement) => agreement,
            Err(mismatch) => {
                Refused::from(mismatch).encode(&mut self.answers);
                return Err(Disconnect::VersionMismatch(mismatch));
            }
        };
        self.welcome(&agreement, wall);
        self.frames.set_limits(agreement.frame_limits());
        self.frame_max = agreement.frame_max;
        self.window_records = hello.window_records.max(1) as usize;
        self.liveness = Liveness::new(now, self.options.keepalive, self.options.deadline);
        self.phase = Phase::Open;
        Ok(())
    }

    fn welcome(&mut self, agreement: &Agreement, wall: Timestamp) {
        let options = &self.options;
        let welcome = Welcome {
            version: agreement.version,
            features: agreement.features,
            epoch: self.engine.epoch(),
            engine_id: options.engine_id,
            session: u64::from(self.caller.session),
            resumed: false,
            frame_max: agreement.frame_max,
            message_max: agreement.message_max,
            items_max: options.items_max,
            write_credit_count: options.write_credit_count,
            write_credit_bytes: options.write_credit_bytes,
            keepalive: options.keepalive,
            deadline: options.deadline,
            wall,
            engine_name: self.engine.name().to_owned(),
            engine_version: options.version.clone(),
        };
        welcome.encode(&mut self.answers);
    }

    /// The client has received this many records since the session began.
    fn confirm(&mut self, records_received: u64) -> Result<(), Disconnect> {
        let new = records_received.saturating_sub(self.records_confirmed);
        self.records_confirmed = self.records_confirmed.max(records_received);
        if self.consumer.confirm(new) {
            return Ok(());
        }
        let sentence = format!("it confirms {records_received} records, more than were sent");
        Err(Disconnect::Malformed { sentence })
    }

    /// Refuses a whole request.
    pub(crate) fn refuse_request(&mut self, frame: &Frame<'_>, fault: &Fault) {
        self.pages.remove(&frame.request());
        FaultMessage { request: frame.request(), fault: fault.as_ref() }.encode(&mut self.answers);
    }

    /// The number of a frame's first item within its request, when requests come in several frames.
    pub(crate) fn page(&mut self, frame: &Frame<'_>) -> Result<u32, Disconnect> {
        let request = frame.request();
        let base = self.pages.remove(&request).unwrap_or(0);
        if frame.has_more() {
            let next = base.checked_add(frame.count()).ok_or_else(|| Disconnect::Malformed {
                sentence: "a request with more than 2^32 items".to_owned(),
            })?;
            if self.pages.len() >= PAGED_REQUESTS_MAX {
                return Err(Disconnect::Malformed {
                    sentence: format!("more than {PAGED_REQUESTS_MAX} requests are unfinished"),
                });
            }
            self.pages.insert(request, next);
        }
        Ok(base)
    }

    pub(crate) fn queue(&mut self, work: Work) {
        self.work_bytes += work.bytes();
        self.work.push_back(work);
    }

    /// Works off requests until there is none, the answers have reached `budget` bytes, or the first
    /// one waits for room in a feed.
    fn run_work(&mut self, now: Tick, wall: Timestamp, budget: usize, wakes: &mut Wakes) {
        while self.answers.len() < budget {
            let Some(mut work) = self.work.pop_front() else { return };
            let bytes = work.bytes();
            let done = match &mut work {
                Work::Open(open) => self.run_open(open, now, wakes),
                Work::Subscribe(subscribe) => self.run_subscribe(subscribe, now),
                Work::Handles(handles) => self.run_handles(handles, wakes),
                Work::Writes(writes) => self.run_writes(writes, now, wall, wakes),
                Work::Find { request, pattern, cursor, limit } => {
                    self.run_find(*request, pattern, cursor, *limit)
                }
                Work::Why { request, name } => self.run_why(*request, name, wall),
                Work::Engine { request } => self.run_engine(*request, now, wall),
            };
            if done {
                self.work_bytes = self.work_bytes.saturating_sub(bytes);
                continue;
            }
            self.work.push_front(work);
            if self.parked_until.is_some() {
                return;
            }
        }
    }

    fn fail(&mut self, cause: Disconnect) {
        if let Some(goodbye) = cause.goodbye() {
            goodbye.encode(&mut self.answers);
        }
        self.phase = Phase::Closing(cause);
        self.work.clear();
    }

    fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Closing(_) | Phase::Ended)
    }
}

impl Endpoint for Session {
    fn handle_connected(&mut self, now: Tick, _wall: Timestamp) {
        let deadline = now.saturating_add(self.options.hello_deadline);
        self.phase = Phase::Hello { deadline };
        self.liveness = Liveness::new(now, self.options.keepalive, self.options.deadline);
    }

    fn handle_input(&mut self, now: Tick, wall: Timestamp, bytes: &[u8]) {
        if self.is_over() {
            return;
        }
        self.liveness.handle_received(now);
        let mut wakes = Wakes::new();
        let mut input = bytes;
        let mut frames = std::mem::take(&mut self.frames);
        let mut result = Ok(());
        loop {
            match frames.next_frame(now, &mut input) {
                Ok(Some(frame)) => {
                    let was_hello = !self.is_open();
                    result = self.dispatch(now, wall, &frame, &mut wakes);
                    if result.is_err() {
                        break;
                    }
                    if was_hello && self.is_open() {
                        // The agreed limits hold from the next frame on.
                        let agreed = std::mem::take(&mut self.frames);
                        frames = agreed;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    result = Err(error.into());
                    break;
                }
            }
        }
        self.frames = frames;
        if let Err(cause) = result {
            self.fail(cause);
        }
    }

    fn wants_input(&self) -> bool {
        self.answers.len() < ANSWERS_BYTES_MAX && self.work_bytes < WORK_BYTES_MAX
    }

    fn poll_output(
        &mut self,
        now: Tick,
        wall: Timestamp,
        budget: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let end = out.len().saturating_add(budget);
        out.append(&mut self.answers);
        if !self.is_open() {
            return false;
        }
        let mut wakes = Wakes::new();
        self.answer_completions();
        self.run_work(now, wall, budget, &mut wakes);
        out.append(&mut self.answers);
        let mut more = !self.work.is_empty() && self.parked_until.is_none();
        let room = end.saturating_sub(out.len());
        let window = self.window_records.saturating_sub(self.consumer.in_flight());
        if room > 0 && window > 0 {
            let before = out.len();
            let (epoch, session) = (self.engine.epoch(), self.caller.session);
            let mut sink = UpdateSink::new(out, room, window, self.frame_max, epoch, session);
            let left = self.consumer.drain(&mut sink, &mut wakes);
            let for_bytes = sink.finish();
            more |= left && for_bytes;
            // What was taken out of a feed may be the room that a parked write waits for.
            more |= self.parked_until.is_some() && out.len() > before;
        } else {
            more |= room == 0 && !self.consumer.is_idle();
        }
        more
    }

    fn poll_timeout(&self) -> Option<Tick> {
        match &self.phase {
            Phase::Hello { deadline } => Some(*deadline),
            Phase::Open => {
                let mut due = self.liveness.poll_timeout();
                let others = [self.frames.poll_timeout(), self.parked_until, self.sampled_due];
                for other in others.into_iter().flatten() {
                    due = due.min(other);
                }
                Some(due)
            }
            Phase::Closing(_) | Phase::Ended => None,
        }
    }

    fn handle_timeout(&mut self, now: Tick, _wall: Timestamp) {
        match self.phase {
            Phase::Hello { deadline } if now >= deadline => {
                let deadline = self.options.hello_deadline;
                self.fail(Disconnect::Slow { what: "hello", deadline });
                return;
            }
            Phase::Open => {}
            _ => return,
        }
        if let Err(error) = self.frames.handle_timeout(now) {
            self.fail(error.into());
            return;
        }
        match self.liveness.poll(now) {
            LivenessAction::Idle => {}
            LivenessAction::SendKeepalive => {
                self.liveness.keepalive(now, 0, 0).encode(&mut self.answers);
            }
            LivenessAction::Dead { silent_for } => {
                self.fail(Disconnect::Dead { silent_for });
                return;
            }
        }
        if self.sampled_due.is_some_and(|due| due <= now) {
            self.sampled_due = self.consumer.poll(now);
        }
    }

    fn handle_disconnected(&mut self, _now: Tick, _cause: Disconnect) {
        self.phase = Phase::Ended;
        self.work.clear();
        self.answers = Vec::new();
    }

    fn wants_close(&self) -> Option<Disconnect> {
        match &self.phase {
            Phase::Closing(cause) => Some(cause.clone()),
            _ => None,
        }
    }
}

/// A decoder's complaint ends the connection: what follows it cannot be understood.
pub(crate) fn malformed(error: DecodeError) -> Disconnect {
    error.into()
}
