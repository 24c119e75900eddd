//! The frames between an endpoint and the directory, which knows the location of each endpoint.
//!
//! S_LOOKUP, S_TICKET, S_PEER and S_REGISTER carry [checksums](super::seal): otherwise, a name altered in
//! transit could make a program wait indefinitely for an endpoint that does not exist.

use std::sync::Arc;
use std::time::Duration;

use super::Incarnation;
use super::hello::{IncarnationBytes, URL_BYTES_MAX, Url};
use crate::decode::Payload;
use crate::message::fields::{Always, IfSet, Mark, Maybe, fields};
use crate::message::form::{Fixed, FixedMillis, Flat, Rest, Text, Varint};
use crate::message::hello::{Brief, MagicThen};
use crate::message::layout::{FrameContext, Record, record};
use crate::message::single::{SingleFrame, single_frame};
use crate::{DecodeError, Frame, FrameKind, FrameWriter, VersionRange};

/// The account, or the local user, that has opened a connection, as the engine names it in the audit
/// trail; `None` if it is unknown.
pub type Identity = Option<Arc<str>>;

/// A one-time permission to connect to an endpoint.
pub type Ticket = [u8; 16];

/// An Ed25519 public key that an endpoint has for one run of its program, and with which its
/// connections to other machines are encrypted.
pub type EndKey = [u8; 32];

fields! {
    #[derive(Eq, Default)]
    pub struct Lookup {
        first {
            /// The protocol versions of the requesting program.
            pub versions: VersionRange = MagicThen<Flat>,
        }
        /// URL of the requested endpoint, in canonical form.
        1: pub url: String = IfSet<Url> as "endpoint",
        2: pub incarnation: Incarnation = Always<IncarnationBytes>,
        /// The requesting program and its version, shown to users.
        3: pub program: String = IfSet<Brief>,
        /// The key of the requesting endpoint; only over TLS.
        4: pub key: Option<EndKey> = Maybe<Fixed>,
    }
}

single_frame! { StreamLookup, Lookup, unnumbered }

record! {
    /// The answer to S_LOOKUP.
    #[derive(Copy, Eq)]
    pub struct TicketGrant {
        /// The ticket to present in S_HELLO.
        pub ticket: Ticket = Fixed,
        /// Time for which the ticket is valid, in whole milliseconds.
        pub valid_for: Duration = FixedMillis as "valid_ms",
    }
}

single_frame! { StreamTicket, TicketGrant, unnumbered }

fields! {
    #[derive(Eq, Default)]
    pub struct Register {
        first {
            /// The protocol versions of the endpoint's program.
            pub versions: VersionRange = MagicThen<Flat>,
        }
        /// URL of the endpoint, in canonical form.
        1: pub url: String = IfSet<Url> as "endpoint",
        2: pub incarnation: Incarnation = Always<IncarnationBytes>,
        /// The endpoint's program and its version, shown to users.
        3: pub program: String = IfSet<Brief>,
        /// Process id of the program; 0 if unknown.
        4: pub pid: u32 = Always<Varint>,
        /// The endpoint's key, for connections from other machines.
        5: pub key: Option<EndKey> = Maybe<Fixed>,
    }
}

single_frame! { StreamRegister, Register, unnumbered }

record! {
    #[derive(Eq)]
    pub struct Registered {
        /// Silence after which the name becomes free again, in whole milliseconds.
        pub lease: Duration = FixedMillis as "lease_ms",
        /// The URL under which other endpoints find this endpoint.
        pub url: String = Text<URL_BYTES_MAX> as "endpoint",
    }
}

single_frame! { StreamRegistered, Registered, unnumbered }

record! {
    /// From the engine: an endpoint has presented a ticket. From the endpoint that it has arrived at, without
    /// further bytes: the connection exists, so the engine must end it once its rights end.
    #[derive(Copy, Eq)]
    pub struct Arrived<'a> {
        pub ticket: Ticket = Fixed,
        /// The bytes already read from the connection, starting with S_HELLO.
        pub bytes: &'a [u8] = Rest,
    }
}

single_frame! { StreamArrived, Arrived<'a>, unnumbered }

fields! {
    /// The extension of S_ARRIVED and S_VISITOR. Endpoints of older versions skip it.
    #[derive(Eq, Default)]
    pub struct ArrivedFrom {
        /// The account or the local user that has opened the connection; empty if unknown.
        1: pub identity: String = IfSet<Brief>,
        /// With what and from where the account has logged in, in a form that only engines read. An endpoint
        /// shows it to the engine at which it registers; empty if the rights of the connection cannot change.
        2: pub login: String = IfSet<Brief>,
    }
}

impl ArrivedFrom {
    pub fn of(identity: &Identity, login: Option<String>) -> Self {
        Self {
            identity: identity.as_deref().unwrap_or_default().to_owned(),
            login: login.unwrap_or_default(),
        }
    }

    /// Reads the extension of a frame. An engine of an older version sends none.
    pub fn decode(frame: &Frame<'_>) -> Result<Self, DecodeError> {
        read_extension(frame)
    }

    /// Returns who has opened the connection.
    pub fn identity(&self) -> Identity {
        Some(&*self.identity)
            .filter(|identity| !identity.is_empty())
            .map(Arc::from)
    }
}

impl Arrived<'_> {
    /// Appends the frame, with this identity in its extension.
    pub fn encode_from(&self, from: &ArrivedFrom, out: &mut Vec<u8>) {
        encode_extended(FrameKind::StreamArrived, self, from, out);
    }
}

record! {
    /// The answer to S_LOOKUP over TLS. Both ends of the connection then end TLS, and the endpoint with
    /// the key continues it.
    #[derive(Copy, Eq)]
    pub struct PeerGrant {
        /// The ticket to present in S_HELLO.
        pub ticket: Ticket = Fixed,
        pub key: EndKey = Fixed,
    }
}

single_frame! { StreamPeer, PeerGrant, unnumbered }

record! {
    /// An endpoint of another machine has arrived.
    #[derive(Copy, Eq)]
    pub struct Visitor {
        /// Identifies the connection.
        pub ticket: Ticket = Fixed,
        /// The key that the endpoint must have.
        pub key: EndKey = Fixed,
    }
}

single_frame! { StreamVisitor, Visitor, unnumbered }

impl Visitor {
    /// Appends the frame, with this identity in its extension.
    pub fn encode_from(&self, from: &ArrivedFrom, out: &mut Vec<u8>) {
        encode_extended(FrameKind::StreamVisitor, self, from, out);
    }
}

record! {
    /// From the engine: a connection must end, because the account of the arrived endpoint lost its
    /// rights. From the endpoint: the connection has ended, for any reason.
    #[derive(Copy, Eq)]
    pub struct Revoked {
        pub ticket: Ticket = Fixed,
    }
}

single_frame! { StreamRevoked, Revoked, unnumbered }

fields! {
    /// The extension of S_REVOKED from the engine. Endpoints of older versions skip it.
    #[derive(Eq, Default)]
    pub struct RevokedFor {
        /// The account may not use the stream any more. Otherwise, it can come again.
        1: pub is_lost: bool = Mark,
    }
}

impl RevokedFor {
    /// Reads the extension of a frame. An engine of an older version sends none.
    pub fn decode(frame: &Frame<'_>) -> Result<Self, DecodeError> {
        read_extension(frame)
    }
}

impl Revoked {
    /// Appends the frame, with this extension.
    pub fn encode_for(&self, extension: &RevokedFor, out: &mut Vec<u8>) {
        encode_extended(FrameKind::StreamRevoked, self, extension, out);
    }
}

/// Appends a frame with an extension block of these fields, or without one if there are none.
fn encode_extended<'a>(
    kind: FrameKind,
    message: &impl SingleFrame<'a>,
    extension: &impl Record<'a>,
    out: &mut Vec<u8>,
) {
    let mut fields = Vec::new();
    extension.put(&mut FrameContext::default(), &mut fields);
    let mut frame = FrameWriter::begin(out, kind, 0);
    message.put(&mut FrameContext::default(), frame.payload());
    match fields.is_empty() {
        true => frame.finish(false),
        false => frame.finish_with_extension(false, &fields),
    }
}

/// Reads the extension block of a frame; all fields are absent if there is none.
fn read_extension<'a, R: Record<'a>>(frame: &Frame<'a>) -> Result<R, DecodeError> {
    R::read(
        &mut FrameContext::default(),
        &mut Payload::of_extension(frame),
    )
}
