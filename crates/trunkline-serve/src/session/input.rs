//! Input: admits frames, and hands them to the requests.

use trunkline_engine::Update;
use trunkline_engine::search::Matcher;
use trunkline_proto::limits::FRAME_MAX_DEFAULT;
use trunkline_proto::message::closing::Goodbye;
use trunkline_proto::message::hello::Hello;
use trunkline_proto::message::keepalive::{Ack, Keepalive};
use trunkline_proto::message::subscribe::SubscribeItem;
use trunkline_proto::{Disconnect, Features, Frame, FrameKind};

use crate::context::{Context, Effect, Progress, REQUEST_BYTES};
use crate::fault::not_agreed;
use crate::request_budget::Use;
use crate::requests::provider::Provided;
use crate::requests::{
    Rejection, engine, find, flush, forcing, group, lease, open, orders, read, snapshot, subscribe,
    why, write,
};
use crate::waiting_writes::OwnedWrite;

use super::Session;

/// Maximum payload of a request. Only values may be longer; lists are split into several frames.
const REQUEST_BYTES_MAX: usize = 2 * FRAME_MAX_DEFAULT as usize;

impl Session {
    /// Handles the frames that are complete, and keeps the rest.
    pub(super) fn read_frames(&mut self, mut input: &[u8]) -> Result<(), Disconnect> {
        loop {
            // The frame borrows the buffer, so the buffer is moved out of `self`; the hello changes
            // its limits.
            let mut frames = std::mem::take(&mut self.frames);
            let was_open = self.is_open();
            let result = match frames.next_frame(self.context.moment.now, &mut input) {
                Ok(Some(frame)) => self.dispatch(&frame),
                Ok(None) => {
                    self.frames = frames;
                    return self.settle_account();
                }
                Err(error) => Err(error.into()),
            };
            if was_open {
                self.frames = frames;
            }
            result?;
        }
    }

    fn dispatch(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        // Frame kinds of a newer minor version are skipped (B-51).
        let Some(kind) = frame.kind() else {
            return Ok(());
        };
        if !self.is_open() {
            return match kind {
                FrameKind::Hello => self.handle_hello(&Hello::decode(frame)?),
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
        match self.handle_request(kind, frame) {
            Err(Rejection::Disconnect(cause)) => return Err(cause),
            Err(Rejection::Fault(fault)) => self.context.put_fault(frame.request(), &fault),
            Ok(()) => {}
        }
        Ok(())
    }

    fn handle_request(&mut self, kind: FrameKind, frame: &Frame<'_>) -> Result<(), Rejection> {
        let context = &mut self.context;
        if let Some(feature) = feature_of(kind).filter(|one| !context.features.contains(*one)) {
            return Err(not_agreed(&kind.to_string(), feature).into());
        }
        if !admit(context, kind, frame)? {
            return Ok(());
        }
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
            FrameKind::Deploy => self.deploys.handle(context, frame)?,
            FrameKind::Order => orders::handle(context, frame)?,
            FrameKind::Audit => orders::handle_audit(context, frame)?,
            FrameKind::Forcing => forcing::handle(context, frame)?,
            FrameKind::Provide => Provided::handle(context, frame)?,
            FrameKind::ProviderAnswer => self.provided.handle_provider_answer(context, frame)?,
            other => {
                let sentence = format!("{other} is a frame that engines send, not clients");
                return Err(Disconnect::Malformed { sentence }.into());
            }
        }
        Ok(())
    }

    /// Carries out a leaving client's writes, as far as they need not wait.
    fn finish_writes(&mut self) {
        let context = &mut self.context;
        write::retry_parked(context);
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
}

/// Takes the memory for a request before it is decoded. Returns false if the request was refused
/// before.
fn admit(context: &mut Context, kind: FrameKind, frame: &Frame<'_>) -> Result<bool, Rejection> {
    let bytes = bytes_waiting(kind, frame);
    if bytes == 0 {
        return Ok(true);
    }
    let request = frame.request();
    let was_refused = context.unfinished.is_refused(request);
    let admitted = match was_refused {
        true => Ok(false),
        false => {
            let waiting = context.waiting_bytes().saturating_add(bytes);
            context.account.set(Use::Work, waiting).map(|()| true)
        }
    };
    if admitted != Ok(true) {
        context.unfinished.end(request);
        if frame.has_more() {
            let now = context.moment.now;
            context.unfinished.go_on(now, request, 0, true)?;
        }
    }
    Ok(admitted?)
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
    REQUEST_BYTES.saturating_add(payload).saturating_add(items)
}
