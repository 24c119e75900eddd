//! The frames between an endpoint and the directory, which knows the location of each endpoint.
//!
//! S_LOOKUP, S_TICKET, S_PEER and S_REGISTER carry [checksums](super::seal): otherwise, a name altered in
//! transit could make a program wait indefinitely for an endpoint that does not exist.

use std::time::Duration;

use super::Incarnation;
use super::hello::{IncarnationBytes, URL_BYTES_MAX, Url};
use crate::VersionRange;
use crate::message::fields::{Always, IfSet, Maybe, fields};
use crate::message::form::{Fixed, FixedMillis, Flat, Rest, Text, Varint};
use crate::message::hello::{Brief, MagicThen};
use crate::message::layout::record;
use crate::message::single::single_frame;

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
    /// An endpoint has presented a ticket.
    #[derive(Copy, Eq)]
    pub struct Arrived<'a> {
        pub ticket: Ticket = Fixed,
        /// The bytes already read from the connection, starting with S_HELLO.
        pub bytes: &'a [u8] = Rest,
    }
}

single_frame! { StreamArrived, Arrived<'a>, unnumbered }

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

record! {
    /// From the engine: a connection must end, because the account of the arrived endpoint lost its
    /// rights. From the endpoint: the connection has ended, for any reason.
    #[derive(Copy, Eq)]
    pub struct Revoked {
        pub ticket: Ticket = Fixed,
    }
}

single_frame! { StreamRevoked, Revoked, unnumbered }
