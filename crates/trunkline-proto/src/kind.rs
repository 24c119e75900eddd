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

            /// Returns the name used in the protocol reference.
            pub const fn name(self) -> &'static str {
                match self {
                    $(FrameKind::$variant => $name,)+
                }
            }

            /// Returns the ends that may send the frame.
            pub const fn sender(self) -> Sender {
                match self {
                    $(FrameKind::$variant => Sender::$sender,)+
                }
            }

            /// Returns the purpose of the frame, in one sentence.
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
    /// The hello is not accepted, with the reason; the connection is closed.
    Refused = 3, "REFUSED", Engine;
    /// The sender closes the connection in an orderly way, with the reason.
    Goodbye = 4, "GOODBYE", Both;
    /// The sender is alive; carries the count of received records and the digest.
    Keepalive = 5, "KEEPALIVE", Both;
    /// Cumulative count of update records received.
    Ack = 6, "ACK", Client;
    /// A part of the payload of the next frame that is not a PART: for messages longer than a
    /// frame.
    Part = 7, "PART", Both;
    /// Opens variables by name.
    Open = 10, "OPEN", Client;
    /// Handles, types and readings of opened variables, or the reasons for a refusal.
    Opened = 11, "OPENED", Engine;
    /// Subscribes open variables under a contract.
    Subscribe = 12, "SUBSCRIBE", Client;
    /// The items of a subscribe request are subscribed, except those listed.
    Subscribed = 13, "SUBSCRIBED", Engine;
    /// Ends a subscription, or some items of it.
    Unsubscribe = 14, "UNSUBSCRIBE", Client;
    /// Answers UNSUBSCRIBE and CLOSE: nothing more follows for these items.
    Closed = 15, "CLOSED", Engine;
    /// Asks for the current readings.
    Read = 16, "READ", Client;
    /// The requested readings.
    Readings = 17, "READINGS", Engine;
    /// Writes values.
    Write = 18, "WRITE", Client;
    /// The outcomes of the writes.
    WriteAnswers = 19, "WRITE_ANSWERS", Engine;
    /// Updates of a subscription: one self-contained run.
    Updates = 20, "UPDATES", Engine;
    /// Numbers of updates that a subscription did not receive, by cause; sent before the next update.
    Lost = 21, "LOST", Engine;
    /// The engine has ended items of a subscription, with the reason.
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
    /// Asks why a variable does not update.
    Why = 28, "WHY", Client;
    /// The stages of the path to a variable, each with its verdict.
    WhyAnswer = 29, "WHY_ANSWER", Engine;
    /// Asks about the engine itself.
    Engine = 30, "ENGINE", Client;
    /// Name, version, epoch, age and size of the engine.
    EngineAnswer = 31, "ENGINE_ANSWER", Engine;
    /// The whole request of this number was refused.
    Fault = 32, "FAULT", Engine;
    /// Asks the sources of variables for fresh values.
    RequestValue = 33, "REQUEST_VALUE", Client;
    /// The sources were asked, except those listed.
    Requested = 34, "REQUESTED", Engine;
    /// Closes handles: ends their subscriptions, so that nothing more is sent for these handles.
    Close = 35, "CLOSE", Client;
    /// Offers to provide variables, under a lease.
    Provide = 40, "PROVIDE", Client;
    /// Handles and types of the variables to provide, or the reasons for a refusal.
    Provided = 41, "PROVIDED", Engine;
    /// Values from the provider; answered like WRITE.
    Publish = 42, "PUBLISH", Client;
    /// Values that clients have written, for the provider to carry out.
    ProviderWrite = 43, "PROVIDER_WRITE", Engine;
    /// Asks the provider for fresh values.
    ProviderRequest = 44, "PROVIDER_REQUEST", Engine;
    /// The outcomes of PROVIDER_WRITE and PROVIDER_REQUEST.
    ProviderAnswer = 45, "PROVIDER_ANSWER", Client;
    /// Variables that the provider must deliver from now on, each with the provider's item.
    ProviderBind = 46, "PROVIDER_BIND", Engine;
    /// Deploys a library of variables.
    Deploy = 50, "DEPLOY", Client;
    /// Undeploys, starts or stops a library.
    Order = 51, "ORDER", Client;
    /// The result of DEPLOY or ORDER.
    Report = 52, "REPORT", Engine;
    /// Digests of the last updates sent for some items, for comparison with the client's values.
    Check = 53, "CHECK", Engine;
    /// The client's state of items that may differ; a frame without items requests a check of all.
    Compare = 54, "COMPARE", Client;
    /// Resends the last values of items, because the client has different values.
    Repaired = 55, "REPAIRED", Engine;
    /// Writes several variables atomically: all of them or none.
    GroupWrite = 60, "GROUP_WRITE", Client;
    /// The outcome of a group, and the number of its commit.
    GroupAnswer = 61, "GROUP_ANSWER", Engine;
    /// Asks for the readings of many variables at one instant.
    Snapshot = 62, "SNAPSHOT", Client;
    /// The requested readings, and whether they are of one instant.
    SnapshotAnswer = 63, "SNAPSHOT_ANSWER", Engine;
    /// Takes, renews or releases leases of variables.
    Lease = 64, "LEASE", Client;
    /// The remaining time of each lease and the position of its variable, or the holder.
    Leased = 65, "LEASED", Engine;
    /// Takes, requests, releases or hands over control of a folder, or lists who has control.
    Control = 66, "CONTROL", Client;
    /// The token or request, or a page of them.
    Controlled = 67, "CONTROLLED", Engine;
    /// Follows the names that match a pattern, until UNWATCH.
    Watch = 70, "WATCH", Client;
    /// Names that match a watched pattern: first the existing ones, then those that appear.
    Appeared = 71, "APPEARED", Engine;
    /// Variables whose names matched a watched pattern no longer exist.
    Vanished = 72, "VANISHED", Engine;
    /// Ends a WATCH.
    Unwatch = 73, "UNWATCH", Client;
    /// Asks the engine to carry out everything before this frame, and to send gathered data at once.
    Flush = 80, "FLUSH", Client;
    /// Everything before FLUSH was carried out, and gathered data is being sent.
    Flushed = 81, "FLUSHED", Engine;
    /// Lists the forced variables, or switches forcing on or off for all of them.
    Forcing = 84, "FORCING", Client;
    /// A page of forced variables, or the number of variables that were switched.
    Forced = 85, "FORCED", Engine;
    /// Asks for entries of the audit trail.
    Audit = 88, "AUDIT", Client;
    /// A page of the audit trail.
    AuditPage = 89, "AUDIT_PAGE", Engine;
    /// Asks for alarms of variables.
    Alarms = 90, "ALARMS", Client;
    /// A page of alarms with their states.
    AlarmPage = 91, "ALARM_PAGE", Engine;
    /// Acknowledges, resets or shelves alarms, or takes them out of service.
    AlarmAct = 92, "ALARM_ACT", Client;
    /// The new state of each alarm, or the reason why the action was refused.
    AlarmActed = 93, "ALARM_ACTED", Engine;
    /// Asks for entries of the alarm journal.
    AlarmJournal = 94, "ALARM_JOURNAL", Client;
    /// A page of the alarm journal.
    AlarmEntries = 95, "ALARM_ENTRIES", Engine;
    /// Asks for the recorded history of variables.
    History = 96, "HISTORY", Client;
    /// A page of a history: rows and events of variables, or buckets.
    HistoryRows = 97, "HISTORY_ROWS", Engine;
    /// Asks for a joining token, with which another program registers its key.
    Pair = 98, "PAIR", Client;
    /// The joining token.
    Paired = 99, "PAIRED", Engine;
    /// First frame: asks the directory for an endpoint, and waits until the endpoint exists.
    StreamLookup = 100, "S_LOOKUP", Client;
    /// A ticket for one connection to an endpoint.
    StreamTicket = 101, "S_TICKET", Engine;
    /// The endpoint cannot be reached, or refuses the dialling endpoint; with the reason.
    StreamRefused = 102, "S_REFUSED", Both;
    /// First frame: registers the name of an endpoint with the directory, for as long as the
    /// connection lasts.
    StreamRegister = 103, "S_REGISTER", Client;
    /// The name is registered for this endpoint.
    StreamRegistered = 104, "S_REGISTERED", Engine;
    /// An endpoint has connected with a ticket: this frame carries the connection itself (engine), or the
    /// connection exists (client).
    StreamArrived = 105, "S_ARRIVED", Both;
    /// First frame between two endpoints of a stream: identity and positions of the dialling endpoint.
    StreamHello = 106, "S_HELLO", Client;
    /// Accepts the dialling endpoint: identity and positions of the accepting endpoint.
    StreamWelcome = 107, "S_WELCOME", Both;
    /// Bytes of the stream, starting at a position.
    StreamData = 108, "S_DATA", Both;
    /// The reader's positions, and the credit that it grants to the writer.
    StreamAck = 109, "S_ACK", Both;
    /// Asks for an acknowledgement as soon as a position is reached.
    StreamAsk = 110, "S_ASK", Both;
    /// The writer is closed: the stream ends at a position.
    StreamEnd = 111, "S_END", Both;
    /// The sender destroys its endpoint before everything was transferred.
    StreamAbort = 112, "S_ABORT", Both;
    /// The sender is alive.
    StreamKeepalive = 113, "S_KEEPALIVE", Both;
    /// The sender closes the connection, but not the stream, with the reason.
    StreamGoodbye = 114, "S_GOODBYE", Both;
    /// First frame: asks the directory for its endpoints.
    StreamList = 115, "S_LIST", Client;
    /// A page of endpoints, each with its status.
    StreamEndpoints = 116, "S_ENDPOINTS", Engine;
    /// The status of an endpoint, sent to its directory every second.
    StreamStatus = 117, "S_STATUS", Client;
    /// The shared ring has changed; the first such frame reports that the ring is mapped.
    StreamBell = 118, "S_BELL", Both;
    /// Total number of elements dropped by a writer that does not wait for slow readers; the next
    /// elements are missing.
    StreamLost = 119, "S_LOST", Both;
    /// First frame to the directory of an engine over TLS: proves the identity of the client.
    StreamLogin = 120, "S_LOGIN", Client;
    /// The endpoint exists, and has this public key. The engine then hands the connection over to it.
    StreamPeer = 121, "S_PEER", Engine;
    /// An endpoint with this public key has arrived; this frame carries the connection itself.
    StreamVisitor = 122, "S_VISITOR", Engine;
    /// The connection that arrived with this ticket must end (engine), or has ended (client).
    StreamRevoked = 123, "S_REVOKED", Both;
}

impl FrameKind {
    /// Returns the number in the frame header.
    pub const fn number(self) -> u8 {
        self as u8
    }
}

impl fmt::Display for FrameKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
