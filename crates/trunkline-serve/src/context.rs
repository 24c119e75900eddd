//! Defines the state that the requests of a session share, and the queue of waiting requests.
//!
//! A request is copied out of its frame, so that the frame buffer can receive the next frame. It is
//! then carried out in slices, while there is room for its answers. A request for 100,000 variables
//! therefore does not delay other sessions, and a client that does not read its answers delays only
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
use crate::updates::RecordEncoder;
use crate::window::Window;
use crate::write_run::{Parked, Unanswered};

/// Maximum number of items in one slice of a search, a watch, a list of forced variables or a sweep.
/// A page can have fewer items, because it ends at about `PAGE_BYTES`.
pub(crate) const SLICE: usize = 1000;
/// Maximum number of items in one slice of a request with a list of items.
const LIST_SLICE: usize = 250;
/// Number of items that cost about as much as the overhead of a request.
pub(crate) const ITEMS_PER_UNIT: usize = 16;
/// Maximum work before the driver checks its clock, in units of about 10 us.
pub(crate) const UNITS_MAX: usize = 16;
/// Memory of a waiting request in bytes, in addition to its lists and texts.
pub(crate) const REQUEST_BYTES: usize = 192;

/// The part of a session's state that requests use.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) engine: Engine,
    /// Looks up handles for requests about many variables. Moved out of the context while in use.
    pub(crate) handles: HandleReader,
    pub(crate) options: Arc<ServeOptions>,
    pub(crate) caller: Caller,
    pub(crate) consumer: Consumer,
    /// Time of the driver's current or last call.
    pub(crate) moment: Moment,
    /// Consumers to wake at the end of the driver's call.
    pub(crate) wakes: Wakes,
    pub(crate) answers: Answers,
    pub(crate) queue: Queue,
    /// Memory that the session uses for requests and items.
    pub(crate) account: Account,
    pub(crate) unfinished: Unfinished,
    pub(crate) unanswered: Unanswered,
    /// Number of orders queued here or at the host.
    pub(crate) unanswered_orders: usize,
    pub(crate) parked: Parked,
    /// Time at which parked writes are tried again at the latest; `None` if none is parked.
    pub(crate) parked_until: Option<Tick>,
    /// The session's provider; `None` if the client is not a provider.
    pub(crate) provider: Option<ProviderId>,
    pub(crate) window: Window,
    /// The features that both ends have.
    pub(crate) features: Features,
    pub(crate) records: RecordEncoder,
    /// Time of the next sample of a `sampled` subscription; `None` without such a subscription.
    pub(crate) sampled_due: Option<Tick>,
    /// True if the sweep must check all items now.
    pub(crate) check_all: bool,
    /// True if the gather buffer must be sent with the next output.
    pub(crate) send_gathered: bool,
}

/// One request, or one frame of a request that arrived in several frames.
pub(crate) trait Request: Debug + Send {
    /// Carries out the next slice of the request.
    fn run(&mut self, context: &mut Context) -> Progress;

    /// Returns the cost of the next slice, in units of about 10 us. A driver can interrupt a session
    /// only between two slices.
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

/// The effect of a request. It determines whether the request may overtake parked writes, and whether
/// the request is still carried out after the client has sent GOODBYE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    /// The request writes variables. Each write is parked separately.
    Writes,
    /// The request writes a group of variables, which waits as a whole.
    Group,
    Other,
}

/// The progress of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// The request has been carried out.
    Done,
    /// The request has another slice.
    More,
    /// The request must wait for room in a feed or in the audit trail.
    Parked,
}

/// The waiting requests of a session, in the order of their arrival.
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

/// Position of a frame's items within their request, which may span several frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    pub(crate) request: u32,
    /// Index of the frame's first item within the request.
    pub(crate) base: u32,
    /// True if further frames of the request follow.
    pub(crate) more: bool,
    /// Number of the frame's items that have been answered.
    pub(crate) next: usize,
}

impl Context {
    pub(crate) fn put_fault(&mut self, request: u32, fault: &Fault) {
        let fault = fault.as_ref();
        FaultMessage { fault }.encode(request, &mut self.answers.frames);
    }

    /// Handles the client's confirmation that it has received `records_received` records since the
    /// session began.
    pub(crate) fn confirm(&mut self, records_received: u64) -> Result<(), Disconnect> {
        let confirmed = self.window.confirm(records_received);
        if confirmed.is_some_and(|more| self.consumer.confirm(more)) {
            return Ok(());
        }
        let sent = self.window.sent();
        let sentence =
            format!("the client confirmed {records_received} records, but only {sent} were sent");
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
                    sentence: "a request has more than 2^32 items".to_owned(),
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

    /// Removes the next request. The caller must then call [`done`](Self::done) or
    /// [`put_back`](Self::put_back), because the request still counts in [`bytes`](Self::bytes).
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

    /// Returns the approximate memory of the waiting requests in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Page {
    /// Returns the index of the next item within the request.
    pub(crate) fn first_index(&self) -> u32 {
        self.base.wrapping_add(self.next as u32)
    }

    /// Returns the range of items that the next slice may answer at most.
    pub(crate) fn range(&self, total: usize) -> Range<usize> {
        self.next..(self.next + LIST_SLICE).min(total)
    }

    pub(crate) fn slice<'i, T>(&self, items: &'i [T]) -> &'i [T] {
        items.get(self.range(items.len())).unwrap_or_default()
    }

    /// Returns true if more answers to this request follow. `total` is the number of the frame's items.
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

/// Returns the cost of a slice of `items` items, in units of about 10 us.
pub(crate) fn units_of(items: usize) -> usize {
    1 + items.min(LIST_SLICE) / ITEMS_PER_UNIT
}
