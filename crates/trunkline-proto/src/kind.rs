//! The table of frame kinds.

use std::fmt;

/// The ends that may send a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sender {
    /// The end that dialled.
    Client,
    /// The engine.
    Engine,
    /// Either end.
    Both,
}

macro_rules! frame_kinds {
    ($(
        $(#[doc = $doc:literal])+
        $variant:ident = $number:literal, $name:literal, $sender:ident;
    )+) => {
        /// The kind of a frame. Kinds unknown to this version are skipped (B-51).
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum FrameKind {
            $($(#[doc = $doc])+ $variant = $number,)+
        }

        impl FrameKind {
            /// Every kind, in ascending order of its number.
            pub const ALL: &[FrameKind] = &[$(FrameKind::$variant,)+];

            /// Returns the kind with this number, if this version knows it.
            pub const fn from_number(number: u8) -> Option<Self> {
                match number {
                    $($number => Some(FrameKind::$variant),)+
                    _ => None,
                }
            }

            /// The name used in the protocol reference.
            pub const fn name(self) -> &'static str {
                match self {
                    $(FrameKind::$variant => $name,)+
                }
            }

            /// The ends that may send it.
            pub const fn sender(self) -> Sender {
                match self {
                    $(FrameKind::$variant => Sender::$sender,)+
                }
            }

            /// Its purpose, in a sentence.
            pub fn purpose(self) -> &'static str {
                match self {
                    $(FrameKind::$variant => concat!($($doc),+).trim_start(),)+
                }
            }
        }
    };
}

frame_kinds! {
    /// First frame of a connection: the versions, features and limits of the client.
    Hello = 1, "HELLO", Client;
    /// The hello is accepted: version, features, limits, epoch and session.
    Welcome = 2, "WELCOME", Engine;
    /// The hello is not accepted, and why; the connection is closed.
    Refused = 3, "REFUSED", Engine;
    /// The sender closes the connection in order, and says why.
    Goodbye = 4, "GOODBYE", Both;
    /// The sender is alive; carries the count of received records and the digest.
    Keepalive = 5, "KEEPALIVE", Both;
    /// Cumulative count of update records received.
    Ack = 6, "ACK", Client;
    /// A part of the payload of the next frame that is no PART: for messages longer than a frame.
    Part = 7, "PART", Both;
    /// Opens variables by name.
    Open = 10, "OPEN", Client;
    /// Handles, types and readings of opened variables, or why not.
    Opened = 11, "OPENED", Engine;
    /// Subscribes open variables under a contract.
    Subscribe = 12, "SUBSCRIBE", Client;
    /// The items of a subscribe request are subscribed, but for the exceptions listed.
    Subscribed = 13, "SUBSCRIBED", Engine;
    /// Ends a subscription, or some items of it.
    Unsubscribe = 14, "UNSUBSCRIBE", Client;
    /// Answers UNSUBSCRIBE and CLOSE: nothing more follows for these items.
    Closed = 15, "CLOSED", Engine;
    /// Asks for the current readings.
    Read = 16, "READ", Client;
    /// The readings asked for.
    Readings = 17, "READINGS", Engine;
    /// Writes values.
    Write = 18, "WRITE", Client;
    /// What became of the writes.
    WriteAnswers = 19, "WRITE_ANSWERS", Engine;
    /// Updates of a subscription: one self-contained run.
    Updates = 20, "UPDATES", Engine;
    /// Updates that a subscription did not get, by cause, ahead of the next one it gets.
    Lost = 21, "LOST", Engine;
    /// The engine has ended items of a subscription, and why.
    Ended = 22, "ENDED", Engine;
    /// Variables are gone: undeployed, or their library was removed.
    Gone = 23, "GONE", Engine;
    /// Asks for the names that match a pattern.
    Find = 24, "FIND", Client;
    /// A page of names.
    Names = 25, "NAMES", Engine;
    /// Asks for everything known about variables.
    Info = 26, "INFO", Client;
    /// Properties, state and ledger of variables.
    InfoAnswer = 27, "INFO_ANSWER", Engine;
    /// Asks why a variable does not deliver.
    Why = 28, "WHY", Client;
    /// The stages of the way to a variable, each with its verdict.
    WhyAnswer = 29, "WHY_ANSWER", Engine;
    /// Asks about the engine itself.
    Engine = 30, "ENGINE", Client;
    /// Name, version, epoch, age and size of the engine.
    EngineAnswer = 31, "ENGINE_ANSWER", Engine;
    /// The whole request of this number was refused.
    Fault = 32, "FAULT", Engine;
    /// Asks the sources of variables for fresh values.
    RequestValue = 33, "REQUEST_VALUE", Client;
    /// The sources were asked, but for the exceptions listed.
    Requested = 34, "REQUESTED", Engine;
    /// Closes handles: their subscriptions end, and nothing more is said about them.
    Close = 35, "CLOSE", Client;
    /// Offers to provide variables, under a lease.
    Provide = 40, "PROVIDE", Client;
    /// Handles and types of the variables to provide, or why not.
    Provided = 41, "PROVIDED", Engine;
    /// Values from the provider; answered like WRITE.
    Publish = 42, "PUBLISH", Client;
    /// Values written by others, for the provider to carry out.
    ProviderWrite = 43, "PROVIDER_WRITE", Engine;
    /// Asks the provider for fresh values.
    ProviderRequest = 44, "PROVIDER_REQUEST", Engine;
    /// What became of PROVIDER_WRITE and PROVIDER_REQUEST.
    ProviderAnswer = 45, "PROVIDER_ANSWER", Client;
    /// Variables that the provider is to deliver from now on, and from which of its items.
    ProviderBind = 46, "PROVIDER_BIND", Engine;
    /// Deploys a library of variables.
    Deploy = 50, "DEPLOY", Client;
    /// Undeploys, starts or stops a library.
    Order = 51, "ORDER", Client;
    /// What DEPLOY or ORDER has done.
    Report = 52, "REPORT", Engine;
    /// Digests of what was sent last for some items, to be held against what the client has.
    Check = 53, "CHECK", Engine;
    /// What the client has of items that may differ; without any, all are to be checked.
    Compare = 54, "COMPARE", Client;
    /// What was sent last for items, again, because the client has something else.
    Repaired = 55, "REPAIRED", Engine;
    /// Writes many variables together: all of them, or none.
    GroupWrite = 60, "GROUP_WRITE", Client;
    /// What became of a group, and the number of its commit.
    GroupAnswer = 61, "GROUP_ANSWER", Engine;
    /// Asks for the readings of many variables at one instant.
    Snapshot = 62, "SNAPSHOT", Client;
    /// The readings asked for, and whether they are of one instant.
    SnapshotAnswer = 63, "SNAPSHOT_ANSWER", Engine;
    /// Takes, renews or gives back leases of variables.
    Lease = 64, "LEASE", Client;
    /// How long each lease holds and where its variable is, or who holds it.
    Leased = 65, "LEASED", Engine;
    /// Follows the names that match a pattern, until UNWATCH.
    Watch = 70, "WATCH", Client;
    /// Names that match a watched pattern: first those there are, then those that appear.
    Appeared = 71, "APPEARED", Engine;
    /// Variables whose names matched a watched pattern are no more.
    Vanished = 72, "VANISHED", Engine;
    /// Ends a WATCH.
    Unwatch = 73, "UNWATCH", Client;
    /// Everything before it is to be carried out, and what was gathered on the way sent at once.
    Flush = 80, "FLUSH", Client;
    /// What came before FLUSH is carried out, and what was gathered is being sent.
    Flushed = 81, "FLUSHED", Engine;
    /// Asks for the variables that are held at values, or switches that for all.
    Forcing = 84, "FORCING", Client;
    /// Variables that are held at values: a page, or how many were switched.
    Forced = 85, "FORCED", Engine;
    /// Asks who did what to the engine.
    Audit = 88, "AUDIT", Client;
    /// A page of the audit.
    AuditPage = 89, "AUDIT_PAGE", Engine;
    /// First frame: asks the directory where an endpoint is; waits until there is one.
    StreamLookup = 100, "S_LOOKUP", Client;
    /// A ticket for one connection to an endpoint.
    StreamTicket = 101, "S_TICKET", Engine;
    /// A stream's endpoint is not to be reached, or does not take the other; and why.
    StreamRefused = 102, "S_REFUSED", Both;
    /// First frame: gives the directory the name of an endpoint, for as long as the connection is.
    StreamRegister = 103, "S_REGISTER", Client;
    /// The name is taken for this endpoint.
    StreamRegistered = 104, "S_REGISTERED", Engine;
    /// Somebody has come with a ticket: with this frame goes the connection itself.
    StreamArrived = 105, "S_ARRIVED", Engine;
    /// First frame between two endpoints of a stream: who dials, and how far it is.
    StreamHello = 106, "S_HELLO", Client;
    /// The endpoint takes the other: who it is, and how far.
    StreamWelcome = 107, "S_WELCOME", Both;
    /// Bytes of the stream from a position on.
    StreamData = 108, "S_DATA", Both;
    /// How far the reader is, and how far the writer may go.
    StreamAck = 109, "S_ACK", Both;
    /// Asks for an acknowledgement as soon as a position is reached.
    StreamAsk = 110, "S_ASK", Both;
    /// The writer is closed: the stream ends at a position.
    StreamEnd = 111, "S_END", Both;
    /// An endpoint is destroyed before everything was transferred.
    StreamAbort = 112, "S_ABORT", Both;
    /// The sender is alive.
    StreamKeepalive = 113, "S_KEEPALIVE", Both;
    /// The sender closes the connection, but not the stream, and says why.
    StreamGoodbye = 114, "S_GOODBYE", Both;
    /// First frame: asks the directory for the endpoints it knows.
    StreamList = 115, "S_LIST", Client;
    /// A page of endpoints, and what each says of itself.
    StreamEndpoints = 116, "S_ENDPOINTS", Engine;
    /// What an endpoint says of itself to the directory that has its name, each second.
    StreamStatus = 117, "S_STATUS", Client;
    /// Something has changed in the ring that both endpoints use; the first one says that the ring
    /// is mapped.
    StreamBell = 118, "S_BELL", Both;
    /// Elements that come next were dropped by a writer that waits for nobody: how many in all.
    StreamLost = 119, "S_LOST", Both;
}

impl FrameKind {
    /// The number in the frame header.
    pub const fn number(self) -> u8 {
        self as u8
    }
}

impl fmt::Display for FrameKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
