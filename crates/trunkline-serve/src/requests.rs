//! Turns frames into requests, and requests into answers.

use std::collections::HashMap;

use trunkline_engine::search::Matcher;
use trunkline_engine::{Update, Wakes};
use trunkline_proto::limits::{FRAME_MAX_DEFAULT, REQUEST_DEADLINE};
use trunkline_proto::message::closing::Goodbye;
use trunkline_proto::message::hello::Hello;
use trunkline_proto::message::keepalive::{Ack, Keepalive};
use trunkline_proto::message::subscribe::SubscribeItem;
use trunkline_proto::{Disconnect, Features, Frame, FrameKind};
use trunkline_types::{Tick, Timestamp};

use crate::fault::not_agreed;
use crate::request_budget::Use;
use crate::session::Session;
use crate::work::{OwnedWrite, Page, Progress, UNITS_MAX, Work};

/// Maximum number of requests that arrive in several frames at the same time.
const PAGED_REQUESTS_MAX: usize = 1024;
/// Maximum payload of a request. Only values may be longer; lists are split into several frames.
const REQUEST_BYTES_MAX: usize = 2 * FRAME_MAX_DEFAULT as usize;

/// Requests in several frames whose last frame has not arrived.
#[derive(Debug, Default)]
pub(crate) struct Unfinished {
    requests: HashMap<u32, Begun>,
    /// A time before which no deadline passes.
    look_at: Option<Tick>,
}

/// One unfinished request.
#[derive(Debug)]
struct Begun {
    /// Number of items in its earlier frames.
    items: u32,
    /// True if it was refused: its remaining frames are ignored.
    is_refused: bool,
    /// Deadline for the next frame.
    due: Tick,
}

impl Unfinished {
    /// Records a frame of the request that others follow.
    ///
    /// # Errors
    /// Too many requests are unfinished.
    pub(crate) fn go_on(
        &mut self,
        now: Tick,
        request: u32,
        items: u32,
        is_refused: bool,
    ) -> Result<(), Disconnect> {
        if self.requests.len() >= PAGED_REQUESTS_MAX && !self.requests.contains_key(&request) {
            return Err(Disconnect::Malformed {
                sentence: format!("more than {PAGED_REQUESTS_MAX} requests are unfinished"),
            });
        }
        let due = now.saturating_add(REQUEST_DEADLINE);
        let begun = Begun {
            items,
            is_refused,
            due,
        };
        self.requests.insert(request, begun);
        self.look_at.get_or_insert(due);
        Ok(())
    }

    /// Records the last frame of the request. Returns the number of items in the earlier frames.
    pub(crate) fn end(&mut self, request: u32) -> u32 {
        let begun = self.requests.remove(&request);
        if self.requests.is_empty() {
            self.look_at = None;
        }
        begun.map_or(0, |begun| begun.items)
    }

    fn is_refused(&self, request: u32) -> bool {
        let begun = self.requests.get(&request);
        begun.is_some_and(|begun| begun.is_refused)
    }

    pub(crate) fn poll_timeout(&self) -> Option<Tick> {
        self.look_at
    }

    /// Returns true if the next frame of a request is overdue. A refused request is only forgotten,
    /// because its client may have seen the refusal and may send nothing more.
    pub(crate) fn handle_timeout(&mut self, now: Tick) -> bool {
        if self.look_at.is_none_or(|at| now < at) {
            return false;
        }
        self.requests
            .retain(|_, begun| !begun.is_refused || now < begun.due);
        self.look_at = self.requests.values().map(|begun| begun.due).min();
        self.look_at.is_some_and(|due| due <= now)
    }
}

/// Returns the feature that frames of this kind belong to, or `None` if every client has them.
fn feature_of(kind: FrameKind) -> Option<Features> {
    Some(match kind {
        FrameKind::Provide | FrameKind::Publish | FrameKind::ProviderAnswer => Features::PROVIDER,
        FrameKind::Deploy | FrameKind::Order => Features::ADMINISTRATION,
        FrameKind::GroupWrite | FrameKind::Snapshot | FrameKind::Lease => Features::GROUPS,
        // UNWATCH has no answer, and does nothing if no WATCH was accepted.
        FrameKind::Watch => Features::PATTERNS,
        FrameKind::Flush => Features::THROUGHPUT,
        FrameKind::Forcing => Features::FORCING,
        FrameKind::Compare => Features::CONVERGENCE,
        FrameKind::Audit => Features::AUDIT,
        _ => return None,
    })
}

/// Returns the maximum memory of a request of this kind while it waits. Returns 0 if it does not
/// wait, or if its memory is counted where it is decoded.
fn bytes_waiting(kind: FrameKind, frame: &Frame<'_>) -> usize {
    let payload = frame.payload().len();
    // An item takes at least one byte, whatever the header says.
    let count = (frame.count() as usize).min(payload);
    let item = match kind {
        FrameKind::Open | FrameKind::Close | FrameKind::Read | FrameKind::Info => size_of::<u32>(),
        FrameKind::Unsubscribe | FrameKind::RequestValue => size_of::<u32>(),
        FrameKind::Subscribe => size_of::<SubscribeItem>(),
        FrameKind::Lease => size_of::<(u32, u64)>(),
        FrameKind::GroupWrite => size_of::<OwnedWrite>(),
        FrameKind::Snapshot => size_of::<u32>().saturating_add(size_of::<Update>()),
        // A condition stores its text twice.
        FrameKind::Find => size_of::<Matcher>().saturating_add(payload),
        FrameKind::Why | FrameKind::Engine | FrameKind::Flush | FrameKind::Forcing => 0,
        _ => return 0,
    };
    let items = count.saturating_mul(item);
    size_of::<Work>()
        .saturating_add(payload)
        .saturating_add(items)
}

impl Session {
    pub(crate) fn dispatch(
        &mut self,
        now: Tick,
        wall: Timestamp,
        frame: &Frame<'_>,
        wakes: &mut Wakes,
    ) -> Result<(), Disconnect> {
        // Frame kinds of a newer minor version are skipped (B-51).
        let Some(kind) = frame.kind() else {
            return Ok(());
        };
        if !self.is_open() {
            return match kind {
                FrameKind::Hello => self.handle_hello(now, wall, &Hello::decode(frame)?),
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
                "a {kind} of {bytes} bytes, longer than {REQUEST_BYTES_MAX}; long lists come in \
                 several frames"
            );
            return Err(Disconnect::Malformed { sentence });
        }
        if let Some(feature) = feature_of(kind).filter(|one| !self.features.contains(*one)) {
            let fault = not_agreed(&kind.to_string(), feature);
            self.put_fault(frame.request(), &fault);
            return Ok(());
        }
        if !self.admit(now, kind, frame)? {
            return Ok(());
        }
        match kind {
            FrameKind::Keepalive => {
                let keepalive = Keepalive::decode(frame)?;
                self.liveness.handle_keepalive(now, &keepalive);
                self.confirm(keepalive.records_received)
            }
            FrameKind::Ack => {
                let ack = Ack::decode(frame)?;
                self.confirm(ack.head().records_received)?;
                for grant in ack {
                    let grant = grant?;
                    self.consumer.grant(grant.subscription, grant.more);
                }
                Ok(())
            }
            FrameKind::Compare => self.handle_compare(frame),
            FrameKind::Goodbye => {
                let goodbye = Goodbye::decode(frame)?;
                self.finish_writes(now, wall, wakes);
                Err(goodbye.into())
            }
            FrameKind::Hello => Err(Disconnect::Malformed {
                sentence: "a second HELLO".to_owned(),
            }),
            FrameKind::Open => self.handle_open(frame),
            FrameKind::Subscribe => self.handle_subscribe(frame),
            FrameKind::Unsubscribe
            | FrameKind::Close
            | FrameKind::Read
            | FrameKind::Info
            | FrameKind::RequestValue => self.handle_handles(frame, kind),
            FrameKind::Write => self.handle_write(now, wall, frame, wakes),
            FrameKind::GroupWrite => self.handle_group(frame),
            FrameKind::Snapshot => self.handle_snapshot(frame),
            FrameKind::Lease => self.handle_lease(frame),
            FrameKind::Find | FrameKind::Why | FrameKind::Engine => self.handle_browse(frame, kind),
            FrameKind::Flush => self.handle_flush(frame),
            FrameKind::Watch => self.handle_watch(frame),
            FrameKind::Unwatch => self.handle_unwatch(frame),
            FrameKind::Deploy => self.handle_deploy(frame),
            FrameKind::Order => self.handle_order(frame),
            FrameKind::Audit => self.handle_audit(frame),
            FrameKind::Forcing => self.handle_forcing(frame),
            FrameKind::Provide => self.handle_provide(frame),
            FrameKind::Publish => self.handle_write(now, wall, frame, wakes),
            FrameKind::ProviderAnswer => self.handle_provider_answer(now, wall, frame, wakes),
            other => Err(Disconnect::Malformed {
                sentence: format!("{other} is a frame that engines send, not clients"),
            }),
        }
    }

    /// Confirms that the client has received this many records since the session began.
    pub(crate) fn confirm(&mut self, records_received: u64) -> Result<(), Disconnect> {
        let confirmed = self.window.confirm(records_received);
        if confirmed.is_some_and(|more| self.consumer.confirm(more)) {
            return Ok(());
        }
        let sent = self.window.sent();
        let sentence = format!("it confirms {records_received} records where {sent} were sent");
        Err(Disconnect::Malformed { sentence })
    }

    /// Returns the memory of waiting requests and writes in bytes.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.work.bytes() + self.parked.bytes()
    }

    /// Takes the memory for a request before it is decoded. Returns false if the request is
    /// refused, or was refused before.
    fn admit(&mut self, now: Tick, kind: FrameKind, frame: &Frame<'_>) -> Result<bool, Disconnect> {
        let bytes = bytes_waiting(kind, frame);
        if bytes == 0 {
            return Ok(true);
        }
        let request = frame.request();
        let was_refused = self.unfinished.is_refused(request);
        let waiting = self.waiting_bytes().saturating_add(bytes);
        let admitted = match was_refused {
            true => Ok(()),
            false => self.account.set(Use::Work, waiting),
        };
        match admitted {
            Ok(()) if !was_refused => return Ok(true),
            Ok(()) => {}
            Err(fault) => self.put_fault(request, &fault),
        }
        self.unfinished.end(request);
        if frame.has_more() {
            self.unfinished.go_on(now, request, 0, true)?;
        }
        Ok(false)
    }

    /// Returns the position of the frame's items within their request, which may arrive in several
    /// frames.
    pub(crate) fn page(&mut self, frame: &Frame<'_>) -> Result<Page, Disconnect> {
        let (request, more) = (frame.request(), frame.has_more());
        let base = self.unfinished.end(request);
        if more {
            let next = base
                .checked_add(frame.count())
                .ok_or_else(|| Disconnect::Malformed {
                    sentence: "a request with more than 2^32 items".to_owned(),
                })?;
            let (now, _) = self.last_seen;
            self.unfinished.go_on(now, request, next, false)?;
        }
        Ok(Page {
            request,
            base,
            more,
            next: 0,
        })
    }

    /// Carries out requests until none is left, the answers have reached `room` bytes, a write
    /// waits for room in a feed, or other sessions get their turn. Returns true if there is more to
    /// do at once.
    pub(crate) fn run_work(
        &mut self,
        now: Tick,
        wall: Timestamp,
        room: usize,
        wakes: &mut Wakes,
    ) -> bool {
        self.retry_parked(now, wall, wakes);
        let mut units = 0;
        while units < UNITS_MAX && self.answers.len() < room {
            let Some((mut work, bytes)) = self.work.take() else {
                return false;
            };
            units += work.units();
            let progress = match &mut work {
                // Other requests must see the writes made before them.
                other if !self.parked.is_empty() && !matches!(other, Work::Writes(_)) => {
                    Progress::Parked
                }
                Work::Open(open) => self.run_open(open, now),
                Work::Subscribe(subscribe) => self.run_subscribe(subscribe, now),
                Work::Handles(handles) => self.run_handles(handles, wakes),
                Work::Writes(writes) => self.run_writes(writes, now, wall, wakes),
                Work::Group(group) => self.run_group(group, now, wall, wakes),
                Work::Snapshot(snapshot) => self.run_snapshot(snapshot, wall),
                Work::Lease(lease) => self.run_lease(lease, now),
                Work::Find {
                    request,
                    pattern,
                    conditions,
                    cursor,
                    limit,
                } => self.run_find(*request, pattern, conditions, cursor, *limit),
                Work::Why { request, name } => self.run_why(*request, name, wall),
                Work::Engine { request } => self.run_engine(*request, now, wall),
                Work::CheckAll => self.check_all(),
                Work::Flush { request } => self.run_flush(*request),
                Work::Forcing { request, forcing } => {
                    self.run_forcing(*request, *forcing, now, wall, wakes)
                }
                Work::Order {
                    request,
                    order,
                    loan,
                } => self.submit(*request, order, loan, now),
                Work::RefusedOrder {
                    request,
                    action,
                    name,
                    fault,
                } => {
                    let about = (*action, name.as_str());
                    self.run_refused_order(*request, about, fault, (now, wall), wakes)
                }
            };
            match progress {
                Progress::Done => self.work.done(bytes),
                Progress::More => self.work.put_back((work, bytes)),
                Progress::Parked => {
                    self.work.put_back((work, bytes));
                    return false;
                }
            }
        }
        !self.work.is_empty()
    }

    /// Carries out a leaving client's writes, as far as they need not wait.
    fn finish_writes(&mut self, now: Tick, wall: Timestamp, wakes: &mut Wakes) {
        self.retry_parked(now, wall, wakes);
        while let Some((work, _)) = self.work.take() {
            let progress = match work {
                Work::Writes(mut writes) => self.run_writes(&mut writes, now, wall, wakes),
                Work::Group(group) if self.parked.is_empty() => {
                    self.run_group(&group, now, wall, wakes)
                }
                Work::Group(_) => Progress::Parked,
                _ => Progress::Done,
            };
            if progress == Progress::Parked {
                return;
            }
        }
    }
}
