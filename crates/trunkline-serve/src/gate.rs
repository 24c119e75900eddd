//! The gate: every frame of a client passes here before it is handled, whether the client uses
//! variables or streams.
//!
//! [`requirement`] states for each kind of frame which right its request needs, and where that right
//! is checked. It has no catch-all arm, so a new kind of frame does not compile without a decision.
//! Only `pass` creates an `Admitted` frame, and handlers take no other, so no handler can
//! bypass the gate. The same applies to the directory of streams: its host calls [`pass_stream`] and
//! [`shows_stream`], and only requests that have passed reach the directory.

use std::ops::Deref;

use trunkline_access::Action;
use trunkline_engine::{Caller, Engine, SecurityEvent, SecurityNote, Wakes};
use trunkline_proto::{Fault, FaultCode, Frame, FrameKind};
use trunkline_types::{Moment, StreamUrl};

/// The right that a request needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Requirement {
    /// No right: the frame belongs to the session itself, or ends something of the session.
    Session,
    /// The action, on each variable that the request names. The engine checks it for each item,
    /// where it looks the variable up; the result is per item.
    EachName(&'static [Action]),
    /// The action on at least one name, or the request is refused as a whole. The answer contains
    /// only the names on which the action is permitted.
    SomeName(Action),
    /// The action, on the library that the request names. It is checked with the order, because the audit
    /// trail records refused orders.
    Library(Action),
    /// The action, on the I/O server that the request names. It is checked where the name is decoded.
    IoServer(Action),
    /// The first action on the library that the order names, or the second on the engine, whichever the
    /// order concerns. It is checked with the order, as for [`Library`](Self::Library).
    LibraryOrEngine(Action, Action),
    /// The action, on the engine as a whole.
    Engine(Action),
    /// The actions, on every name in the folder that the request names: the first for an operator, all
    /// of them for a supervisor. The engine checks them with the request, because the audit trail records
    /// refused requests. A list contains only folders with a name that the client may read.
    Folder(&'static [Action]),
    /// The first action on at least one name to list, and the second on every name to change.
    ListOrChange(Action, Action),
    /// The action, on the stream that the request names, at the directory of streams.
    Stream(Action),
    /// The action on each stream that the directory lists; the others are left out.
    ListedStreams(Action),
    /// No right: the frame belongs to a connection to the directory that has passed the gate, or ends
    /// something of it.
    Directory,
    /// The engine does not accept this frame from clients.
    NotFromClients,
}

/// A frame that has passed the gate.
#[derive(Debug)]
pub(crate) struct Admitted<'a>(&'a Frame<'a>);

impl<'a> Deref for Admitted<'a> {
    type Target = Frame<'a>;

    fn deref(&self) -> &Frame<'a> {
        self.0
    }
}

/// Returns the right that a frame of this kind needs.
pub const fn requirement(kind: FrameKind) -> Requirement {
    use Requirement::{
        Directory, EachName, Engine, Folder, IoServer, Library, LibraryOrEngine, ListOrChange,
        ListedStreams, NotFromClients, Session, SomeName, Stream,
    };
    match kind {
        FrameKind::Hello
        | FrameKind::Goodbye
        | FrameKind::Keepalive
        | FrameKind::Ack
        | FrameKind::Part
        | FrameKind::Compare
        | FrameKind::Unsubscribe
        | FrameKind::Close
        | FrameKind::Unwatch
        | FrameKind::Flush
        | FrameKind::ProviderAnswer => Session,
        // OPEN can subscribe the variables as well. A subscription for a recording records.
        FrameKind::Open => EachName(&[Action::Read, Action::Subscribe, Action::Record]),
        FrameKind::Read | FrameKind::Info | FrameKind::Why => EachName(&[Action::Read]),
        FrameKind::Subscribe => EachName(&[Action::Subscribe, Action::Record]),
        // The answer describes the engine, and the libraries of which the client may read a variable.
        FrameKind::Engine => EachName(&[Action::Read]),
        FrameKind::Snapshot => EachName(&[Action::Read]),
        FrameKind::Find | FrameKind::Watch => EachName(&[Action::Read]),
        // The verb determines the action: `force` for force and unforce, `write` for every other verb.
        FrameKind::Write => EachName(&[Action::Write, Action::Force]),
        FrameKind::GroupWrite | FrameKind::Lease | FrameKind::RequestValue | FrameKind::Publish => {
            EachName(&[Action::Write])
        }
        FrameKind::Control => Folder(&[Action::Write, Action::Force]),
        FrameKind::AlarmAct => EachName(&[Action::Alarm]),
        FrameKind::Alarms => EachName(&[Action::Read]),
        FrameKind::AlarmJournal | FrameKind::History => SomeName(Action::History),
        FrameKind::Provide => IoServer(Action::Configure),
        FrameKind::Deploy => Library(Action::Configure),
        FrameKind::Order => LibraryOrEngine(Action::Configure, Action::Administer),
        FrameKind::Audit => Engine(Action::Audit),
        FrameKind::Pair => Engine(Action::Administer),
        FrameKind::Forcing => ListOrChange(Action::Read, Action::Force),
        // S_HELLO has the ticket of a look-up that has passed, but the rights may have ended since. Its
        // stream is the one that the ticket gives access to.
        FrameKind::StreamRegister | FrameKind::StreamLookup | FrameKind::StreamHello => {
            Stream(Action::Stream)
        }
        FrameKind::StreamList => ListedStreams(Action::Read),
        FrameKind::StreamLogin
        | FrameKind::StreamStatus
        | FrameKind::StreamArrived
        | FrameKind::StreamRevoked
        | FrameKind::StreamKeepalive => Directory,
        FrameKind::Welcome
        | FrameKind::Refused
        | FrameKind::Opened
        | FrameKind::Subscribed
        | FrameKind::Closed
        | FrameKind::Readings
        | FrameKind::WriteAnswers
        | FrameKind::Updates
        | FrameKind::Lost
        | FrameKind::Ended
        | FrameKind::Gone
        | FrameKind::Names
        | FrameKind::InfoAnswer
        | FrameKind::WhyAnswer
        | FrameKind::EngineAnswer
        | FrameKind::Fault
        | FrameKind::Requested
        | FrameKind::Provided
        | FrameKind::ProviderWrite
        | FrameKind::ProviderRequest
        | FrameKind::ProviderBind
        | FrameKind::Report
        | FrameKind::Check
        | FrameKind::Repaired
        | FrameKind::GroupAnswer
        | FrameKind::SnapshotAnswer
        | FrameKind::Leased
        | FrameKind::Controlled
        | FrameKind::Appeared
        | FrameKind::Vanished
        | FrameKind::Flushed
        | FrameKind::Forced
        | FrameKind::AuditPage
        | FrameKind::AlarmPage
        | FrameKind::AlarmActed
        | FrameKind::AlarmEntries
        | FrameKind::HistoryRows
        | FrameKind::Paired
        | FrameKind::StreamTicket
        | FrameKind::StreamRegistered
        | FrameKind::StreamEndpoints
        | FrameKind::StreamRefused
        | FrameKind::StreamWelcome
        | FrameKind::StreamData
        | FrameKind::StreamAck
        | FrameKind::StreamAsk
        | FrameKind::StreamEnd
        | FrameKind::StreamAbort
        | FrameKind::StreamGoodbye
        | FrameKind::StreamBell
        | FrameKind::StreamLost
        | FrameKind::StreamPeer
        | FrameKind::StreamVisitor => NotFromClients,
    }
}

/// A request that the rights of the caller do not permit.
pub(crate) struct RefusedRequest<'a> {
    /// The kind of the request, such as `put` or `AUDIT`.
    pub(crate) request: &'a str,
    /// The variable or library; empty for the engine as a whole.
    pub(crate) name: &'a str,
}

/// Decides on a request to the directory that concerns a stream. Refused requests are recorded in the audit
/// trail. The decision depends on the name alone, and not on the streams that exist.
///
/// # Errors
/// [`Fault`] for the client.
pub fn pass_stream(
    engine: &Engine,
    caller: &Caller,
    kind: FrameKind,
    url: &StreamUrl,
    moment: Moment,
) -> Result<(), Fault> {
    if let Requirement::Stream(action) = requirement(kind)
        && caller.rights.permit_stream(action, url)
    {
        return Ok(());
    }
    // In the audit trail, streams have the rights of their names, as variables have.
    let path = url.path();
    let refused = RefusedRequest {
        request: kind.name(),
        name: &path,
    };
    let mut wakes = Wakes::new();
    note_refusal(engine, caller, refused, moment, &mut wakes);
    let sentence = format!(
        "you have no permission to use the stream {path}; ask the engine's administrator for the \
         action `stream` on it"
    );
    Err(Fault::new(FaultCode::Denied, sentence))
}

/// Records in the audit trail that an endpoint was registered (S_REGISTER) or connected (S_HELLO), or that this
/// was refused for a reason other than [`pass_stream`], which records its refusals itself.
pub fn note_stream(
    engine: &Engine,
    caller: &Caller,
    kind: FrameKind,
    url: Option<&StreamUrl>,
    refused: Option<&Fault>,
    moment: Moment,
) {
    let name = url.map(StreamUrl::path).unwrap_or_default();
    let name = name.as_str();
    let refused = refused.map(|fault| fault.sentence.as_str());
    let event = match kind {
        FrameKind::StreamRegister => SecurityEvent::StreamRegistered { name, refused },
        _ => SecurityEvent::StreamConnected { name, refused },
    };
    let peer = caller.principal.to_string();
    let note = SecurityNote { peer: &peer, event };
    let audit = engine.audit();
    audit.note_security(caller, note, moment, &mut Wakes::new());
}

/// Returns true if the directory lists the stream for this caller.
pub fn shows_stream(caller: &Caller, url: &StreamUrl) -> bool {
    match requirement(FrameKind::StreamList) {
        Requirement::ListedStreams(action) => caller.rights.permit_stream(action, url),
        _ => false,
    }
}

/// Records a refused request in the audit trail.
pub(crate) fn note_refusal(
    engine: &Engine,
    caller: &Caller,
    refused: RefusedRequest<'_>,
    moment: Moment,
    wakes: &mut Wakes,
) {
    let peer = caller.principal.to_string();
    let event = SecurityEvent::RequestRefused {
        request: refused.request,
        name: refused.name,
        rule: "no rule permits it",
    };
    let note = SecurityNote { peer: &peer, event };
    engine.audit().note_security(caller, note, moment, wakes);
}

/// Lets a frame pass, or refuses its request as a whole. A request that passes may still be refused
/// for some of its items, or, for a library, where its name is known.
pub(crate) fn pass<'a>(
    kind: FrameKind,
    frame: &'a Frame<'a>,
    caller: &Caller,
) -> Result<Admitted<'a>, Fault> {
    let rights = &caller.rights;
    let is_permitted = match requirement(kind) {
        Requirement::SomeName(action) => rights.permit_somewhere(action),
        Requirement::Engine(action) => rights.permit_on_engine(action),
        Requirement::ListOrChange(list, change) => {
            rights.permit_somewhere(list) || rights.permit_everywhere(change)
        }
        Requirement::Session
        | Requirement::EachName(_)
        | Requirement::Folder(_)
        | Requirement::Library(_)
        | Requirement::IoServer(_)
        | Requirement::LibraryOrEngine(..)
        // A session of variables accepts none of these.
        | Requirement::Stream(_)
        | Requirement::ListedStreams(_)
        | Requirement::Directory
        | Requirement::NotFromClients => true,
    };
    match is_permitted {
        true => Ok(Admitted(frame)),
        false => {
            let sentence =
                format!("you have no permission for {kind} on this engine; ask its administrator");
            Err(Fault::new(FaultCode::Denied, sentence))
        }
    }
}
