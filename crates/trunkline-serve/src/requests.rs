//! From frames to requests, and from requests to answers.

use std::collections::HashMap;

use trunkline_engine::Wakes;
use trunkline_proto::limits::FRAME_MAX_DEFAULT;
use trunkline_proto::message::closing::Goodbye;
use trunkline_proto::message::hello::Hello;
use trunkline_proto::message::keepalive::{Ack, Keepalive};
use trunkline_proto::{Disconnect, Frame, FrameKind};
use trunkline_types::{Tick, Timestamp};

use crate::session::Session;
use crate::work::{Page, Progress, Work};

/// Requests that may be sent in several frames at the same time.
const PAGED_REQUESTS_MAX: usize = 1024;
/// Longest payload of a request. Only a value may be longer; lists come in several frames.
const REQUEST_BYTES_MAX: usize = 2 * FRAME_MAX_DEFAULT as usize;
/// Slices of requests that are worked off before updates and other sessions get their turn.
const SLICES_MAX: usize = 16;

/// Items of the earlier frames of requests that come in several.
pub(crate) type Pages = HashMap<u32, u32>;

impl Session {
    /// Takes one frame in.
    pub(crate) fn dispatch(
        &mut self,
        now: Tick,
        wall: Timestamp,
        frame: &Frame<'_>,
        wakes: &mut Wakes,
    ) -> Result<(), Disconnect> {
        // A kind this version does not know belongs to a newer minor version: skipped (B-51).
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

    /// The client has received this many records since the session began.
    pub(crate) fn confirm(&mut self, records_received: u64) -> Result<(), Disconnect> {
        let confirmed = self.window.confirm(records_received);
        if confirmed.is_some_and(|more| self.consumer.confirm(more)) {
            return Ok(());
        }
        let sent = self.window.sent();
        let sentence = format!("it confirms {records_received} records where {sent} were sent");
        Err(Disconnect::Malformed { sentence })
    }

    /// Where the frame's items stand in their request, which may come in several frames.
    pub(crate) fn page(&mut self, frame: &Frame<'_>) -> Result<Page, Disconnect> {
        let (request, more) = (frame.request(), frame.has_more());
        let base = self.pages.remove(&request).unwrap_or(0);
        if more {
            let next = base
                .checked_add(frame.count())
                .ok_or_else(|| Disconnect::Malformed {
                    sentence: "a request with more than 2^32 items".to_owned(),
                })?;
            if self.pages.len() >= PAGED_REQUESTS_MAX {
                return Err(Disconnect::Malformed {
                    sentence: format!("more than {PAGED_REQUESTS_MAX} requests are unfinished"),
                });
            }
            self.pages.insert(request, next);
        }
        Ok(Page {
            request,
            base,
            more,
            next: 0,
        })
    }

    /// Works off requests until there is none, the answers have reached `room` bytes, a write waits
    /// for room in a feed, or it is the others' turn. Returns whether there is more to do at once.
    pub(crate) fn run_work(
        &mut self,
        now: Tick,
        wall: Timestamp,
        room: usize,
        wakes: &mut Wakes,
    ) -> bool {
        self.retry_parked(now, wall, wakes);
        let mut slices = SLICES_MAX;
        while slices > 0 && self.answers.len() < room {
            let Some((mut work, bytes)) = self.work.take() else {
                return false;
            };
            let progress = match &mut work {
                // It is to see what was written before it.
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
                } => {
                    slices = 1;
                    self.run_find(*request, pattern, conditions, cursor, *limit)
                }
                Work::Why { request, name } => {
                    slices = 1;
                    self.run_why(*request, name, wall)
                }
                Work::Engine { request } => self.run_engine(*request, now, wall),
                Work::CheckAll => self.check_all(),
                Work::Compare { items, next } => self.run_compare(items, next),
                Work::Flush { request } => {
                    slices = 1;
                    self.run_flush(*request)
                }
                Work::Forcing { request, forcing } => {
                    slices = 1;
                    self.run_forcing(*request, *forcing, now, wall, wakes)
                }
                Work::Order { request, order } => self.submit(*request, order.take()),
            };
            slices -= 1;
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

    /// The client goes. What it has written is carried out, as far as it need not wait.
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
