//! Defines the requests of a client, with one type and one file for each. `requests!` lists them
//! all.
//!
//! ```text
//! client/verbs.rs    pending.rs                                                  client/verbs.rs
//! core.info(..) --> Pending<AnyRequest> --> prepare, encode, answered, end --> core.take(id)
//! ```
//!
//! A request is pending until the last frame of its answer has arrived. If the connection breaks
//! before that, the request is sent again on the next connection. The exception is a request that
//! changes the engine and was sent completely: its outcome is unknown. This applies only to the
//! program's requests. Requests that the client makes itself are created again on the next
//! connection as needed.

mod alarm;
mod alarm_journal;
mod audit;
mod close;
mod control;
mod engine;
mod find;
mod flush;
mod forcing;
mod history;
mod info;
mod items;
mod lease;
mod library;
mod open;
mod pair;
pub(crate) mod pending;
mod provide;
mod read;
mod request_value;
mod restore;
mod snapshot;
mod watch;
mod why;
mod write_group;

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

use trunkline_proto::message::engine::EngineInfo;
use trunkline_proto::message::info::VariableInfo;
use trunkline_proto::message::library::LibraryReport;
use trunkline_proto::message::list::{ListBuilder, ListFrame};
use trunkline_proto::message::pair::Paired;
use trunkline_proto::{Disconnect, Fault, FaultCode, Features, Frame, FrameKind};
use trunkline_types::alarm::{AlarmJournalPage, AlarmState, AlarmStatus};
use trunkline_types::history::HistoryPage;
use trunkline_types::{AuditPage, ControlEntry, Reading, Tick};

use crate::answer::{self, ControlList, ForcedList, Found, Opened, Step};
use crate::ask::{
    CheckAll, OpenItems, OwnRequest, Provide, Restore, Resume, Unsubscribe, Unwatch, Watch,
};
use crate::error::malformed;
use crate::parts::Parts;
use crate::variables::page::Page;
use crate::variables::reading_buffer::ReadingBuffer;
use crate::writes::{GroupOutcome, WriteCounts};

pub use self::alarm::{ALARMS_MAX, ActOnAlarms, AlarmName, AlarmQuery, Alarms};
pub use self::alarm_journal::AlarmJournal;
pub use self::audit::{AUDIT_ENTRIES_MAX, Audit};
pub use self::close::Close;
use self::close::close_quietly;
pub use self::control::{Control, Controls, FollowControl, ReleaseControl};
pub use self::engine::Engine;
pub use self::find::Find;
pub use self::flush::Flush;
pub use self::forcing::Forcing;
pub use self::history::History;
pub use self::info::Info;
pub use self::lease::{Lease, LeaseTerms};
pub use self::library::{Deploy, OrderLibrary, ReloadEngine, StopEngine};
pub use self::open::Open;
pub use self::pair::Pair;
use self::pending::Requests;
pub use self::read::{Read, ReadInto};
pub use self::request_value::RequestValue;
pub use self::snapshot::Snapshot;
pub use self::why::Why;
pub use self::write_group::WriteGroup;

/// A request of the program. The list in `requests!` implements this trait.
pub trait Request: Sized {
    /// The engine's answer. Lists have one entry per item, in the order of the request. A fault of
    /// one item does not affect the others.
    type Answer;

    /// Returns the answer, or the unchanged `answer` if it belongs to another kind of request.
    #[doc(hidden)]
    #[expect(clippy::result_large_err, reason = "the answer moves, whichever way")]
    fn unpack(answer: AnyAnswer) -> Result<Result<Self::Answer, Fault>, AnyAnswer>;
}

/// Identifies a request of the program. `ClientCore::take` returns its answer.
pub struct RequestId<R>(pub(crate) u64, pub(crate) PhantomData<fn() -> R>);

// Derived implementations would require the same traits of `R`.
impl<R> Clone for RequestId<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for RequestId<R> {}

impl<R> PartialEq for RequestId<R> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<R> Eq for RequestId<R> {}

impl<R> fmt::Debug for RequestId<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestId({})", self.0)
    }
}

/// Defines how a request is sent, answered and ended.
pub(crate) trait Exchange: Sized {
    /// Kind of the frames that answer the request. With `None`, the request ends as soon as it is
    /// sent.
    const ANSWERED_BY: Option<FrameKind>;
    /// True if the request contains handles of this connection.
    const USES_HANDLES: bool = false;
    /// Hint for the user about how to find out whether a request with an unknown outcome was
    /// carried out.
    const CHECK_HINT: &'static str = "check with `trunkline ls`";
    /// `Result<Answer, Fault>` for requests of the program, `()` for requests that the client makes
    /// itself.
    type End;

    /// Returns a feature that the engine must support, and the end of the sentence for an engine
    /// that does not.
    fn requires(&self) -> Option<(Features, &'static str)> {
        None
    }

    /// Returns true if the request must not be sent twice.
    fn changes_engine(&self) -> bool {
        false
    }

    /// Returns true if the request must wait for earlier writes.
    fn waits_for_writes(&self) -> bool {
        false
    }

    /// Selects what to send, before the first frame on a connection.
    fn prepare(&mut self, _: &mut Parts) -> Prepared {
        Prepared::Single
    }

    /// Appends one frame of about `page` bytes.
    fn encode(&mut self, sending: &mut Sending<'_>);

    /// Processes a frame of the answer.
    fn answered(&mut self, _: &mut Answering<'_, '_>) -> Result<Next, Disconnect> {
        Ok(Next::Settle)
    }

    /// Ends the request.
    fn end(self, ending: Ending<'_>) -> Self::End;

    /// Resets the request for a connection on which no part of it was sent.
    fn restart(&mut self) {}

    /// Returns the answer to a request that was sent and whose call ends before the engine's
    /// answer. With `None`, a request that changes the engine ends with this fault.
    fn unknown(&self, _: &Fault) -> Option<Self::End> {
        None
    }
}

/// The amount that a request sends.
pub(crate) enum Prepared {
    /// One frame without a list of items.
    Single,
    /// This many items, in frames of about `page` bytes. With 0 items, the request ends at once.
    Items(u32),
    /// Nothing is sent. The request ends when the writes before it have ended.
    Later,
}

/// The next step after a frame of the answer.
pub(crate) enum Next {
    /// The request ends with the last frame. Every item must be answered by then.
    Settle,
    /// The request is sent again, for the next page.
    Again,
    /// The request ends when the writes before it have ended.
    Later,
}

/// A frame of a request that is being sent.
pub(crate) struct Sending<'a> {
    pub(crate) parts: &'a mut Parts,
    pub(crate) number: u32,
    /// Number of items to send in total, and number of items sent so far.
    pub(crate) total: u32,
    pub(crate) sent: &'a mut u32,
    /// Approximate maximum size of a frame in bytes.
    pub(crate) page: usize,
    pub(crate) out: &'a mut Vec<u8>,
}

impl Sending<'_> {
    /// Appends a frame of handles.
    pub(crate) fn handles<'s, T, F: for<'i> ListFrame<Item<'i> = u32>>(
        &'s mut self,
        begin: impl FnOnce(&'s mut Vec<u8>, u32) -> ListBuilder<'s, F>,
        items: &[T],
        handle: impl Fn(&T) -> u32,
    ) {
        let mut frame = begin(self.out, self.number);
        for item in items.get(*self.sent as usize..).unwrap_or_default() {
            if frame.len_bytes() >= self.page {
                break;
            }
            frame.push(&handle(item));
            *self.sent += 1;
        }
        frame.finish(*self.sent < self.total);
    }
}

/// A frame of an answer, and the request's counts of items.
pub(crate) struct Answering<'a, 'f> {
    pub(crate) parts: &'a mut Parts,
    pub(crate) now: Tick,
    pub(crate) frame: &'a Frame<'f>,
    pub(crate) sent: u32,
    pub(crate) answered: &'a mut u32,
}

impl Answering<'_, '_> {
    /// Counts the next answered item and returns its index. Returns an error if `index`, which
    /// comes from the engine, is not the next index or was not sent. Then sets `index` to the index
    /// of the following item.
    #[inline]
    pub(crate) fn item(&mut self, index: &mut u32) -> Result<u32, Disconnect> {
        let answered_index = *index;
        if answered_index != *self.answered || answered_index >= self.sent {
            return Err(self.not_next(answered_index));
        }
        *self.answered += 1;
        *index = answered_index.saturating_add(1);
        Ok(answered_index)
    }

    #[cold]
    fn not_next(&self, index: u32) -> Disconnect {
        let (answered, sent) = (*self.answered, self.sent);
        malformed(format!(
            "the engine answered item {index} instead of item {answered} of {sent} requested items"
        ))
    }

    /// Counts `count` answered items, starting with `first`, and returns their indices.
    pub(crate) fn run(&mut self, first: u32, count: u32) -> Result<Range<u32>, Disconnect> {
        let (answered, sent) = (*self.answered, self.sent);
        let (Some(end), true) = (first.checked_add(count), first == answered) else {
            return Err(malformed(format!(
                "the engine answered items from {first} on instead of from {answered} on"
            )));
        };
        if end > sent {
            return Err(malformed(format!(
                "the engine answered {end} items instead of {sent} requested items"
            )));
        }
        *self.answered = end;
        Ok(first..end)
    }
}

/// The end of a request.
pub(crate) struct Ending<'a> {
    pub(crate) parts: &'a mut Parts,
    pub(crate) requests: &'a mut Requests,
    /// The fault of the unanswered items, or of the whole request.
    pub(crate) fault: Option<Fault>,
    /// True if the program waits for the answer.
    pub(crate) wanted: bool,
}

impl Ending<'_> {
    /// Returns the fault for unanswered items.
    pub(crate) fn missing(&self) -> Fault {
        let fault = self.fault.clone();
        fault.unwrap_or_else(|| FaultCode::Internal.into())
    }

    /// Returns the answer, or the fault if the request was refused as a whole.
    pub(crate) fn whole<T>(self, answer: Option<T>) -> Result<T, Fault> {
        match (&self.fault, answer) {
            (None, Some(answer)) => Ok(answer),
            _ => Err(self.missing()),
        }
    }
}

/// Expands to a match over all kinds of requests that selects a constant, or to a method with such
/// a match.
macro_rules! each {
    ([$($kind:ident)*] fn $name:ident(&self) -> $result:ty) => {
        pub(crate) fn $name(&self) -> $result {
            match self {
                $(Self::$kind(request) => request.$name(),)*
            }
        }
    };
    ([$($kind:ident)*] fn $name:ident(&mut self, $arg:ident: $ty:ty) -> $result:ty) => {
        pub(crate) fn $name(&mut self, $arg: $ty) -> $result {
            match self {
                $(Self::$kind(request) => request.$name($arg),)*
            }
        }
    };
    ([$($kind:ident)*] $any:expr, const $constant:ident) => {
        match $any {
            $(AnyRequest::$kind(_) => <$kind as Exchange>::$constant,)*
        }
    };
}

/// Expands the list of requests to the types and functions that cover all kinds.
macro_rules! requests {
    (
        program { $($request:ident -> $answer:ty,)* }
        own { $($own:ident,)* }
    ) => {
        /// A request of any kind.
        #[derive(Debug)]
        pub(crate) enum AnyRequest {
            $($request($request),)*
            $($own($own),)*
        }

        /// An answer of any kind.
        #[doc(hidden)]
        #[derive(Debug)]
        pub enum AnyAnswer {
            $(#[doc(hidden)] $request(Result<$answer, Fault>),)*
        }

        $(
            impl Request for $request {
                type Answer = $answer;

                fn unpack(answer: AnyAnswer) -> Result<Result<$answer, Fault>, AnyAnswer> {
                    match answer {
                        AnyAnswer::$request(answer) => Ok(answer),
                        other => Err(other),
                    }
                }
            }

            impl From<$request> for AnyRequest {
                fn from(request: $request) -> Self {
                    Self::$request(request)
                }
            }
        )*

        impl From<OwnRequest> for AnyRequest {
            fn from(request: OwnRequest) -> Self {
                match request {
                    $(OwnRequest::$own(request) => Self::$own(request),)*
                }
            }
        }

        impl AnyRequest {
            pub(crate) fn answered_by(&self) -> Option<FrameKind> {
                each!([$($request)* $($own)*] self, const ANSWERED_BY)
            }

            pub(crate) fn uses_handles(&self) -> bool {
                each!([$($request)* $($own)*] self, const USES_HANDLES)
            }

            pub(crate) fn check_hint(&self) -> &'static str {
                each!([$($request)* $($own)*] self, const CHECK_HINT)
            }

            each!([$($request)* $($own)*] fn requires(&self) -> Option<(Features, &'static str)>);
            each!([$($request)* $($own)*] fn changes_engine(&self) -> bool);
            each!([$($request)* $($own)*] fn waits_for_writes(&self) -> bool);
            each!([$($request)* $($own)*] fn prepare(&mut self, parts: &mut Parts) -> Prepared);
            each!([$($request)* $($own)*] fn encode(&mut self, sending: &mut Sending<'_>) -> ());
            each!([$($request)* $($own)*] fn answered(
                &mut self, answering: &mut Answering<'_, '_>
            ) -> Result<Next, Disconnect>);
            /// Resets the request for a new connection, on which no part of it is sent yet.
            pub(crate) fn restart(&mut self) {
                match self {
                    $(Self::$request(request) => request.restart(),)*
                    // The client creates its own requests again, as needed.
                    $(Self::$own(_) => {})*
                }
            }

            /// Ends the request. Returns the answer; `None` for requests that the client makes
            /// itself.
            pub(crate) fn end(self, ending: Ending<'_>) -> Option<AnyAnswer> {
                match self {
                    $(Self::$request(request) => Some(AnyAnswer::$request(request.end(ending))),)*
                    $(Self::$own(request) => { request.end(ending); None })*
                }
            }

            /// Ends a request whose call has ended and whose connection was lost. A request that
            /// the client made itself ends without effect: the part of the client that made it
            /// decides what follows.
            pub(crate) fn abandoned(self, ending: Ending<'_>) {
                match self {
                    $(Self::$request(request) => drop(request.end(ending)),)*
                    $(Self::$own(_) => {})*
                }
            }

            /// Returns the answer to a request that was sent and whose call has ended; `None` if
            /// the request changes nothing.
            pub(crate) fn unknown(&self, fault: &Fault) -> Option<AnyAnswer> {
                match self {
                    $(Self::$request(request) => {
                        let refused = || request.changes_engine().then(|| Err(fault.clone()));
                        request.unknown(fault).or_else(refused).map(AnyAnswer::$request)
                    })*
                    $(Self::$own(_) => None,)*
                }
            }
        }
    };
}

requests! {
    program {
        Open -> Vec<Result<Opened, Fault>>,
        Close -> Vec<Result<(), Fault>>,
        Read -> Vec<Result<Reading, Fault>>,
        ReadInto -> ReadingBuffer,
        Snapshot -> answer::Snapshot,
        RequestValue -> Vec<Result<(), Fault>>,
        WriteGroup -> GroupOutcome,
        Flush -> WriteCounts,
        Lease -> Vec<Result<answer::Lease, Fault>>,
        Control -> ControlEntry,
        ReleaseControl -> (),
        Controls -> ControlList,
        FollowControl -> u64,
        Info -> Vec<Result<VariableInfo, Fault>>,
        Find -> Vec<Found>,
        Why -> Vec<Step>,
        Pair -> Paired,
        Engine -> EngineInfo,
        Audit -> AuditPage,
        AlarmJournal -> AlarmJournalPage,
        Alarms -> Vec<AlarmStatus>,
        History -> HistoryPage,
        ActOnAlarms -> Vec<Result<AlarmState, Fault>>,
        Forcing -> ForcedList,
        Deploy -> LibraryReport,
        OrderLibrary -> LibraryReport,
        StopEngine -> (),
        ReloadEngine -> LibraryReport,
    }
    own {
        Restore,
        OpenItems,
        Resume,
        Unsubscribe,
        Watch,
        Unwatch,
        Provide,
        CheckAll,
    }
}
