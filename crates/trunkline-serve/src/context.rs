//! The state that the requests of a session share, and the queue in which they wait.
//!
//! A request is copied as a whole, so that the frame's buffer is free for the next frame. It is
//! then carried out in slices, while there is room for its answers. A request for 100,000 variables
//! therefore does not delay other sessions, and a client that does not read its answers stops only
//! its own requests.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use trunkline_engine::{
    AccessError, Caller, Consumer, Engine, HandleReader, ProviderId, Update, Variable, Wakes,
};
use trunkline_proto::message::fault::FaultMessage;
use trunkline_proto::{Disconnect, Fault, Features, Frame};
use trunkline_types::{Moment, Tick};

use crate::answers::Answers;
use crate::options::ServeOptions;
use crate::request_budget::Account;
use crate::unfinished::Unfinished;
use crate::updates::Records;
use crate::window::Window;
use crate::write_run::{Parked, Unanswered};

/// Maximum number of items in one slice of a search, a watch, a list of forced variables or a
/// sweep. A page may end earlier, at about `PAGE_BYTES`.
pub(crate) const SLICE: usize = 1000;
/// Maximum number of items of a list request that are handled at a time.
const ITEMS_AT_A_TIME: usize = 250;
/// Number of items that cost about as much as the overhead of a request.
pub(crate) const ITEMS_PER_UNIT: usize = 16;
/// Amount of work done before the driver checks its clock, in units of about 10 us.
pub(crate) const UNITS_MAX: usize = 16;
/// Memory of a waiting request in bytes, in addition to its lists and texts.
pub(crate) const REQUEST_BYTES: usize = 192;

/// The part of a session that its requests use.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) engine: Engine,
    /// Looks up handles for requests about many variables. Moved out of the context while in use.
    pub(crate) handles: HandleReader,
    pub(crate) options: Arc<ServeOptions>,
    pub(crate) caller: Caller,
    pub(crate) consumer: Consumer,
    /// The time of the driver's last call.
    pub(crate) moment: Moment,
    /// The consumers to wake at the end of the driver's call.
    pub(crate) wakes: Wakes,
    pub(crate) answers: Answers,
    pub(crate) queue: Queue,
    /// The session's memory for requests and items.
    pub(crate) account: Account,
    pub(crate) unfinished: Unfinished,
    pub(crate) unanswered: Unanswered,
    /// Number of orders queued here or at the host.
    pub(crate) unanswered_orders: usize,
    pub(crate) parked: Parked,
    /// The latest time at which a parked write is tried again.
    pub(crate) parked_until: Option<Tick>,
    /// The provider, while the session is one.
    pub(crate) provider: Option<ProviderId>,
    pub(crate) window: Window,
    /// The features that both ends have.
    pub(crate) features: Features,
    pub(crate) records: Records,
    /// The next time at which a `sampled` subscription is due.
    pub(crate) sampled_due: Option<Tick>,
    /// True if the sweep must cover all items from here on.
    pub(crate) check_all: bool,
    /// True if the gathered data must be sent with the next output.
    pub(crate) send_gathered: bool,
}

/// One request, or one frame of a request that arrived in several frames.
pub(crate) trait Request: Debug + Send {
    /// Carries out the next slice.
    fn run(&mut self, context: &mut Context) -> Progress;

    /// Returns the cost of the next slice, in units. A driver can interrupt a session only between
    /// two slices.
    fn units(&self) -> usize {
        UNITS_MAX
    }

    /// Returns the approximate memory of the request's lists and texts in bytes.
    fn bytes(&self) -> usize {
        0
    }

    fn effect(&self) -> Effect {
        Effect::Other
    }
}

/// The effect of a request. It determines whether the request may overtake parked writes, and
/// whether it is still carried out after its client has said goodbye.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    /// Writes, which are parked individually.
    Writes,
    /// A group of writes, which waits as a whole.
    Group,
    Other,
}

/// The progress of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// The request has been carried out.
    Done,
    /// Part of the request is left.
    More,
    /// The request waits for room in a feed or in the audit.
    Parked,
}

/// The waiting requests of one session, in the order in which they arrived.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    requests: VecDeque<QueuedRequest>,
    bytes: usize,
}

#[derive(Debug)]
pub(crate) struct QueuedRequest {
    pub(crate) request: Box<dyn Request>,
    bytes: usize,
}

/// The position of a frame's items within their request, and the number of items answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    pub(crate) request: u32,
    /// Index of the frame's first item within the request.
    pub(crate) base: u32,
    /// True if further frames of the request follow.
    pub(crate) more: bool,
    /// Number of the frame's items that are answered.
    pub(crate) next: usize,
}

impl Context {
    pub(crate) fn put_fault(&mut self, request: u32, fault: &Fault) {
        let fault = fault.as_ref();
        FaultMessage { fault }.encode(request, &mut self.answers.frames);
    }

    /// Confirms that the client has received `records_received` records since the session began.
    pub(crate) fn confirm(&mut self, records_received: u64) -> Result<(), Disconnect> {
        let confirmed = self.window.confirm(records_received);
        if confirmed.is_some_and(|more| self.consumer.confirm(more)) {
            return Ok(());
        }
        let sent = self.window.sent();
        let sentence = format!("it confirms {records_received} records where {sent} were sent");
        Err(Disconnect::Malformed { sentence })
    }

    pub(crate) fn waiting_bytes(&self) -> usize {
        self.queue.bytes() + self.parked.bytes()
    }

    /// Returns the position of the frame's items within their request, which may arrive in several
    /// frames.
    pub(crate) fn page(&mut self, frame: &Frame<'_>) -> Result<Page, Disconnect> {
        let (request, more) = (frame.request(), frame.has_more());
        let base = self.unfinished.remove(request);
        if more {
            let next = base
                .checked_add(frame.count())
                .ok_or_else(|| Disconnect::Malformed {
                    sentence: "a request with more than 2^32 items".to_owned(),
                })?;
            self.unfinished
                .expect_more(self.moment.now, request, next, false)?;
        }
        Ok(Page {
            request,
            base,
            more,
            next: 0,
        })
    }

    /// Returns the variable's current update, if the caller may read it.
    pub(crate) fn readable(&self, variable: &Variable) -> Result<Update, AccessError> {
        variable.check_readable(&self.caller)?;
        Ok(variable.update())
    }
}

impl Queue {
    pub(crate) fn push<R: Request + 'static>(&mut self, request: R) {
        const { assert!(size_of::<R>() + size_of::<QueuedRequest>() <= REQUEST_BYTES) };
        let bytes = REQUEST_BYTES + request.bytes();
        self.bytes += bytes;
        let request = Box::new(request);
        self.requests.push_back(QueuedRequest { request, bytes });
    }

    /// Takes the next request. The caller marks it as [`done`](Self::done) or puts it back.
    pub(crate) fn take(&mut self) -> Option<QueuedRequest> {
        self.requests.pop_front()
    }

    pub(crate) fn put_back(&mut self, queued: QueuedRequest) {
        self.requests.push_front(queued);
    }

    pub(crate) fn done(&mut self, queued: &QueuedRequest) {
        self.bytes -= queued.bytes;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Returns the approximate memory of the requests in bytes, which is limited by the bound on
    /// waiting requests.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Page {
    /// Returns the index of the next item within the request.
    pub(crate) fn first_index(&self) -> u32 {
        self.base.wrapping_add(self.next as u32)
    }

    /// Returns the largest range of items that may be answered next.
    pub(crate) fn range(&self, total: usize) -> Range<usize> {
        self.next..(self.next + ITEMS_AT_A_TIME).min(total)
    }

    pub(crate) fn slice<'i, T>(&self, items: &'i [T]) -> &'i [T] {
        items.get(self.range(items.len())).unwrap_or_default()
    }

    /// Returns true if further answers follow an answer up to `next` of the frame's `total` items.
    pub(crate) fn has_more(&self, total: usize) -> bool {
        self.more || self.next < total
    }

    pub(crate) fn progress(&self, total: usize) -> Progress {
        match self.next < total {
            true => Progress::More,
            false => Progress::Done,
        }
    }

    /// Returns the cost of the next slice of `total` items, in units.
    pub(crate) fn units(&self, total: usize) -> usize {
        units_of(total - self.next)
    }
}

/// Returns the cost of a slice of `items` items, in units.
pub(crate) fn units_of(items: usize) -> usize {
    1 + items.min(ITEMS_AT_A_TIME) / ITEMS_PER_UNIT
}
