//! Defines the reasons for which a request or one of its items is refused.

use std::fmt;

macro_rules! fault_codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $number:literal, $name:literal;)+) => {
        /// The code of a fault. Numbers unknown to this version are preserved; the sentence that
        /// accompanies them still describes the problem.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum FaultCode {
            $($(#[doc = $doc])+ $variant,)+
            /// A code defined by a newer version; contains its number.
            Unknown(u16),
        }

        impl FaultCode {
            /// Every code known to this version, in ascending order of its number.
            pub const ALL: &[FaultCode] = &[$(FaultCode::$variant,)+];

            pub const fn from_number(number: u16) -> Self {
                match number {
                    $($number => FaultCode::$variant,)+
                    other => FaultCode::Unknown(other),
                }
            }

            /// Returns the number on the wire; 0 is never a fault.
            pub const fn number(self) -> u16 {
                match self {
                    $(FaultCode::$variant => $number,)+
                    FaultCode::Unknown(number) => number,
                }
            }

            /// Returns the name for programs and scripts to match on.
            pub const fn name(self) -> &'static str {
                match self {
                    $(FaultCode::$variant => $name,)+
                    FaultCode::Unknown(_) => "unknown-fault",
                }
            }

            /// Returns the general sentence of the fault: its meaning, the party at fault and what
            /// to do next. It is used if there is no specific sentence.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(FaultCode::$variant => concat!($($doc),+).trim_start(),)+
                    FaultCode::Unknown(_) =>
                        "The peer is newer and gives a reason that this version does not know; \
                         update this program.",
                }
            }
        }
    };
}

fault_codes! {
    /// No variable has this name; check its spelling with `trunkline find`.
    UnknownName = 1, "unknown-name";
    /// The text is not a legal name; the sentence names the broken rule.
    BadName = 2, "bad-name";
    /// The text is not a legal pattern; the sentence names the broken rule.
    BadPattern = 3, "bad-pattern";
    /// The variable is write-only; its access type forbids reading.
    NotReadable = 4, "not-readable";
    /// The variable is read-only for clients; its access type allows only its source to write it.
    NotWritable = 5, "not-writable";
    /// The caller has no right to do this; ask the engine's administrator.
    Denied = 6, "denied";
    /// The value has a type other than the variable's; send a value of the variable's type.
    WrongType = 7, "wrong-type";
    /// The value is outside the variable's range; the caller must send one inside it.
    OutOfRange = 8, "out-of-range";
    /// The value's bytes are not a legal value of the variable's type; the caller is at fault.
    InvalidValue = 9, "invalid-value";
    /// The value or request is longer than a declared limit; the sentence names the limit.
    TooLarge = 10, "too-large";
    /// A limit of the engine or session is reached; close something or raise the limit.
    LimitReached = 11, "limit-reached";
    /// The variable's library is stopped; start it, then try again.
    LibraryStopped = 12, "library-stopped";
    /// The variable was removed, or replaced by one of another type; open it again by name.
    Gone = 13, "gone";
    /// The handle was never opened on this connection or is of an earlier epoch; open it by name.
    UnknownHandle = 14, "unknown-handle";
    /// No subscription of this session has this number; the client is at fault.
    UnknownSubscription = 15, "unknown-subscription";
    /// A newer value already exists; the sample was not stored.
    Late = 16, "late";
    /// The variable's provider is gone; nothing can be written until it is back.
    ProviderGone = 17, "provider-gone";
    /// The variable's provider refused; the sentence is the provider's.
    ProviderRefused = 18, "provider-refused";
    /// No answer arrived in time; it is unknown whether the write was carried out.
    TimedOut = 19, "timed-out";
    /// A subscriber's buffer is full, and this write did not wait for it; try again.
    WouldBlock = 20, "would-block";
    /// The variable is not at the position the writer expected; read it again, then decide.
    Conflict = 21, "conflict";
    /// Another writer holds the variable; the sentence names it.
    Leased = 22, "leased";
    /// The subscription's bound was reached before it was read; open it again from its position.
    Overrun = 23, "overrun";
    /// The position is of another epoch: the engine was restarted; start from the current value.
    EpochChanged = 24, "epoch-changed";
    /// The request is not valid; the peer that sent it is at fault.
    BadRequest = 25, "bad-request";
    /// The engine cannot do this, or the feature was not agreed in the hello.
    NotSupported = 26, "not-supported";
    /// The versions of the two programs are incompatible; update the older program.
    VersionMismatch = 27, "version-mismatch";
    /// The engine cannot accept another connection now; try again after the time that it names.
    Overloaded = 28, "overloaded";
    /// The engine is stopping; it may return soon.
    ShuttingDown = 29, "shutting-down";
    /// The peer was silent past the deadline: its machine, its program or the network stalled.
    PeerSilent = 30, "peer-silent";
    /// The peer sent bytes that violate the protocol; its program is at fault.
    Malformed = 31, "malformed";
    /// An internal fault of the engine; report it with the sentence.
    Internal = 32, "internal";
    /// No library of this name is deployed; `trunkline ls` lists the deployed libraries.
    UnknownLibrary = 33, "unknown-library";
    /// A library of this name is already deployed; replace it, or undeploy it first.
    LibraryExists = 34, "library-exists";
    /// The library's definition has an error; the sentence names the place and the error.
    BadLibrary = 35, "bad-library";
    /// The item is still in use by subscriptions; the sentence gives their number.
    InUse = 36, "in-use";
    /// The engine's store cannot save the change, so nothing was changed; the sentence gives the
    /// reason.
    StoreFailed = 37, "store-failed";
    /// The variable is forced to a value; unforce it, then write again.
    Forced = 38, "forced";
    /// The variable is not forced, so there is nothing to unforce.
    NotForced = 39, "not-forced";
    /// The variable has not been written yet; set it first.
    NoValue = 40, "no-value";
    /// The variable's provider does not know whether the write was carried out; the sentence is the
    /// provider's.
    ProviderUnsure = 41, "provider-unsure";
    /// A provider of this name is already running; give this one another name, or stop the other.
    NameTaken = 42, "name-taken";
    /// This connection is not the source of the variable; only its own provider can publish it.
    NotItsProvider = 43, "not-its-provider";
    /// The engine does not know this client, or its proof is wrong; join the engine, or log in again.
    NotAuthenticated = 44, "not-authenticated";
    /// The rights of the client were changed; it reconnects automatically.
    RightsChanged = 45, "rights-changed";
    /// The configuration files have an error, so nothing was changed; the sentence names the place.
    BadConfiguration = 46, "bad-configuration";
    /// The variable cannot take part in a group write; write it alone, or set it.
    NotGroupable = 50, "not-groupable";
    /// Another member of the group was refused, so none was written; see the fault of that member.
    GroupRefused = 51, "group-refused";
    /// The variable has a single writer, which is another program; the sentence names it.
    SingleWriter = 52, "single-writer";
    /// This session does not hold the lease, or no longer holds it; take it again.
    NotLeased = 53, "not-leased";
    /// The group contains the variable twice; the caller must name it once.
    TwiceInGroup = 54, "twice-in-group";
    /// Another client controls the folder of the variable; the sentence names it. Ask for control.
    Controlled = 55, "controlled";
    /// This client does not control the folder, and does not wait for it; take control first.
    NotControlled = 56, "not-controlled";
    /// Variables have no such field; the sentence lists the fields.
    UnknownField = 60, "unknown-field";
    /// The engine's memory for waiting updates is full; try again later or subscribe with `latest`.
    MemoryFull = 61, "memory-full";
    /// A newer value already exists; the sample was only recorded in the history.
    LateRecorded = 62, "late-recorded";
    /// The variable is an alias whose target is not deployed or incompatible; see `trunkline why`.
    AliasUnbound = 80, "alias-unbound";
    /// No stream endpoint has this name now; the other program must create it.
    UnknownEndpoint = 100, "unknown-endpoint";
    /// A stream endpoint of this name already exists; give this one another name.
    EndpointTaken = 101, "endpoint-taken";
    /// The endpoint's name is part of another endpoint's path, or the reverse; choose another.
    EndpointNested = 102, "endpoint-nested";
    /// The two endpoints have different element types; create both with the same type.
    StreamType = 103, "stream-type";
    /// Both endpoints write, or both read; one must be the writer and the other the reader.
    StreamDirection = 104, "stream-direction";
    /// The endpoint expects another peer; correct the URL that names the peer.
    StreamPeer = 105, "stream-peer";
    /// The endpoint is already connected; it accepts only one peer.
    StreamConnected = 106, "stream-connected";
    /// The peer endpoint was re-created after it was connected; re-create this endpoint as well.
    StreamRestarted = 107, "stream-restarted";
    /// The two endpoints cannot continue the stream: elements between them are lost.
    StreamDataLost = 108, "stream-data-lost";
    /// A newer connection of this endpoint has already been accepted; this one is outdated.
    StreamOutdated = 109, "stream-outdated";
    /// The ticket is unknown, was already used, or belongs to another endpoint; request a new one.
    BadTicket = 110, "bad-ticket";
    /// Another program uses streams with this context on that machine; choose another context.
    ContextBusy = 111, "context-busy";
    /// The endpoint was destroyed by its program.
    StreamDestroyed = 112, "stream-destroyed";
}

/// A fault with a sentence about the specific case.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{sentence}")]
pub struct Fault {
    /// The code for programs to match on.
    pub code: FaultCode,
    /// The sentence for users: the party at fault and what to do next.
    pub sentence: String,
}

/// A fault in a received frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FaultRef<'a> {
    /// The code for programs to match on.
    pub code: FaultCode,
    /// The sentence for users; may be empty, see [`FaultRef::to_fault`].
    pub sentence: &'a str,
}

impl Fault {
    /// Creates a fault with a specific sentence.
    pub fn new(code: FaultCode, sentence: impl Into<String>) -> Self {
        Self {
            code,
            sentence: sentence.into(),
        }
    }

    /// Returns the borrowed form, for encoding.
    pub fn as_ref(&self) -> FaultRef<'_> {
        FaultRef {
            code: self.code,
            sentence: &self.sentence,
        }
    }
}

impl From<FaultCode> for Fault {
    /// Creates a fault with the general sentence of its code.
    fn from(code: FaultCode) -> Self {
        Self::new(code, code.meaning())
    }
}

impl FaultRef<'_> {
    /// Converts to the owned form; an empty sentence is replaced by the general sentence of the
    /// code.
    pub fn to_fault(self) -> Fault {
        if self.sentence.is_empty() {
            self.code.into()
        } else {
            Fault::new(self.code, self.sentence)
        }
    }
}

impl fmt::Display for FaultCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultCode::Unknown(number) => write!(f, "fault-{number}"),
            known => f.write_str(known.name()),
        }
    }
}
